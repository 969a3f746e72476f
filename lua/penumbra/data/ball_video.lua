--- Videos of a ball that bounces between walls, made on the spot: black and white images in which only the ball is
--- seen.
-- help: pn.data
local core = require "penumbra.core"
local options = require "penumbra.options"

local ball_video = {}

local SIZE, RADIUS, STEP = 32, 3, 0.2 -- pixels, pixels, time between images

-- Walls inside of a convex polygon with these corners, counter-clockwise: the centre x of the ball has n x >= c.
local function walls_of(corners)
  local walls = {}
  for k, from in ipairs(corners) do
    local to = corners[k % #corners + 1]
    local dx, dy = to[1] - from[1], to[2] - from[2]
    local length = math.sqrt(dx * dx + dy * dy)
    local nx, ny = -dy / length, dx / length
    walls[k] = { nx, ny, nx * from[1] + ny * from[2] + RADIUS }
  end
  return walls
end

local box = walls_of { { 2, 2 }, { 30, 2 }, { 30, 30 }, { 2, 30 } }

-- Of each kind: walls, gravity, deviation of the first place around the middle, bounds of it, and of the speed.
local kinds = {
  box = { walls = box, gravity = 0, start = 10, low = 6, high = 26, slowest = 10, fastest = 15 },
  gravity = { walls = box, gravity = -5, start = 8, low = 6, high = 26, slowest = 5, fastest = 10 },
  polygon = { walls = walls_of { { 15, 1 }, { 30, 8 }, { 25, 30 }, { 8, 30 }, { 1, 15 }, { 3, 1 } }, gravity = 0,
    start = 2.5, low = 8, high = 22, slowest = 10, fastest = 15 },
}

-- When and at which wall the ball b = {x, y, vx, vy} hits first: s = n x - c falls to 0 along s + s' t + g t^2 / 2.
local function next_hit(b, walls, gravity)
  local soonest, wall = math.huge, nil
  for _, w in ipairs(walls) do
    local s = math.max(0, w[1] * b[1] + w[2] * b[2] - w[3])
    local speed, g = w[1] * b[3] + w[2] * b[4], w[2] * gravity
    local t = math.huge
    if g ~= 0 then
      local square = speed * speed - 2 * g * s
      if square >= 0 and (g < 0 or speed < 0) then
        t = (-speed - math.sqrt(square)) / g
      end
    elseif speed < 0 then
      t = s / -speed
    end
    if t < soonest then
      soonest, wall = t, w
    end
  end
  return soonest, wall
end

local function fly(b, t, gravity)
  b[1], b[2] = b[1] + b[3] * t, b[2] + b[4] * t + 0.5 * gravity * t * t
  b[4] = b[4] + gravity * t
end

-- The ball a time later: from wall to wall, mirrored at each; its energy stays.
local function move(b, time, walls, gravity)
  while true do
    local t, wall = next_hit(b, walls, gravity)
    if t >= time then
      return fly(b, time, gravity)
    end
    t = math.max(0, t)
    fly(b, t, gravity)
    time = time - t
    local into = 2 * (wall[1] * b[3] + wall[2] * b[4])
    if into < 0 then
      b[3], b[4] = b[3] - into * wall[1], b[4] - into * wall[2]
    end
  end
end

-- Places and velocities [steps, n, 4].
local function paths(kind, n, steps, draw)
  local place = (core.randn({ n, 2 }, draw) * kind.start + SIZE / 2):clamp(kind.low, kind.high):totable()
  local angle = (core.rand({ n }, draw) * (2 * math.pi)):totable()
  local speed = (core.rand({ n }, draw) * (kind.fastest - kind.slowest) + kind.slowest):totable()
  local out = {}
  for t = 1, steps do
    out[t] = {}
  end
  for k = 1, n do
    local b = { place[k][1], place[k][2], speed[k] * math.cos(angle[k]), speed[k] * math.sin(angle[k]) }
    for t = 1, steps do
      out[t][k] = { table.unpack(b) }
      move(b, STEP, kind.walls, kind.gravity)
    end
  end
  return core.tensor(out)
end

-- Images [n, pixels] of balls at state [n, 4]: 1 where the middle of a pixel lies in the ball. The first row is on top.
local function image(state, dtype)
  local middle = core.arange(SIZE, { dtype = "float64" }) + 0.5
  local across = (state:slice(2, 1, 1) - middle):square():unsqueeze(2)
  local down = (state:slice(2, 2, 2) - (SIZE - middle)):square():unsqueeze(3)
  return (across + down):le(RADIUS ^ 2):to(dtype):reshape { state:size(1), SIZE * SIZE }
end

--- ball_video(n [, {kind = "box", steps = 20, seed =, generator =, dtype =}]): n videos of a ball of radius 3 in images
--- of 32 by 32 pixels, 0 or 1: [steps, n, 1024], and the ball's places (x to the right, y up, in pixels) and velocities
--- [steps, n, 4], float64. 0.2 units of time between images; collisions are elastic and exact.
---
--- box       walls 2 pixels inside of the image, speed from 10 to 15
--- gravity   the same with a pull of 5 downwards, speed from 5 to 10
--- polygon   six walls at odd angles, speed from 10 to 15
---
--- Numbers as in the data of Fraccaro, Kamronn, Paquet & Winther 2017.
function ball_video.ball_video(n, given)
  n = options.whole("ball_video", "n", n, 1)
  local o = options.check("ball_video", given, { kind = options.choice("box", "gravity", "polygon"), steps = 20,
    seed = options.optional "number", generator = options.optional "generator", dtype = options.optional "string" })
  local steps = options.whole("ball_video", "steps", o.steps, 1)
  if o.seed and o.generator then
    core.error "ball_video: seed and generator exclude each other"
  end
  local dtype = o.dtype or core.default_dtype()
  if dtype ~= "float64" and dtype ~= "float32" then
    core.error(("ball_video: dtype must be 'float64' or 'float32', got '%s'"):format(dtype))
  end
  local generator = o.generator or o.seed and core.generator(options.whole("ball_video", "seed", o.seed, 0)) or nil
  local state = paths(kinds[o.kind], n, steps, { generator = generator, dtype = "float64" }):to "float64"
  local frames = {}
  for t = 1, steps do
    frames[t] = image(state[t], dtype)
  end
  return core.stack(frames, 1), state
end

return ball_video
