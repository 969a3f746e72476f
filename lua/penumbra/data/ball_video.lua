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
  -- the faces of the paddles are walls: they are as fast as the ball and do not miss it
  pong = { walls = walls_of { { 1, 1 }, { 29, 1 }, { 29, 32 }, { 1, 32 } }, gravity = 0, start = 3, low = 6, high = 26,
    slowest = 10, fastest = 10, restitution = 0.99 * 0.9, paddles = true },
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

-- The ball a time later: from wall to wall, mirrored at each, where the speed towards it comes back but for
-- restitution.
local function move(b, time, kind)
  local walls, gravity = kind.walls, kind.gravity
  while true do
    local t, wall = next_hit(b, walls, gravity)
    if t >= time then
      return fly(b, time, gravity)
    end
    t = math.max(0, t)
    fly(b, t, gravity)
    time = time - t
    local into = (1 + (kind.restitution or 1)) * (wall[1] * b[3] + wall[2] * b[4])
    if into < 0 then
      b[3], b[4] = b[3] - into * wall[1], b[4] - into * wall[2]
    end
  end
end

-- The middle of the paddles a step later: after the ball, 2 pixels at most, if it is more than 1 away.
local function follow(paddle, y)
  if math.abs(y - paddle) > 1 then
    paddle = paddle + (y > paddle and 2 or -2)
  end
  return math.max(3, math.min(SIZE - 3, paddle))
end

-- Places and velocities [steps, n, 4], and the middle of the paddles.
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
    local paddle = kind.paddles and SIZE / 2 or nil
    for t = 1, steps do
      out[t][k] = { b[1], b[2], b[3], b[4], paddle }
      paddle = paddle and follow(paddle, b[2])
      move(b, STEP, kind)
    end
  end
  return core.tensor(out)
end

-- Images [n, pixels] of balls at state [n, 4 or 5]: 1 where the middle of a pixel lies in the ball, or in one of the
-- paddles around x = 0 and x = 30, 2 wide and 6 high. The first row is on top.
local function image(state, kind, dtype)
  local middle = core.arange(SIZE, { dtype = "float64" }) + 0.5
  local across = (state:slice(2, 1, 1) - middle):square():unsqueeze(2)
  local down = (state:slice(2, 2, 2) - (SIZE - middle)):square():unsqueeze(3)
  local white = (across + down):le(RADIUS ^ 2)
  if kind.paddles then
    local beside = middle:le(1):logical_or((middle - 30):abs():le(1)):unsqueeze(1)
    white = white:logical_or((state:slice(2, 5, 5) - (SIZE - middle)):abs():le(3):unsqueeze(3):logical_and(beside))
  end
  return white:to(dtype):reshape { state:size(1), SIZE * SIZE }
end

--- ball_video(n [, {kind = "box", steps = 20, seed =, generator =, dtype =}]): n videos of a ball of radius 3 in images
--- of 32 by 32 pixels, 0 or 1: [steps, n, 1024], and the ball's places (x to the right, y up, in pixels) and velocities
--- [steps, n, 4], float64. 0.2 units of time between images; collisions are exact, and elastic.
---
--- box       walls 2 pixels inside of the image, speed from 10 to 15
--- gravity   the same with a pull of 5 downwards, speed from 5 to 10
--- polygon   six walls at odd angles, speed from 10 to 15
--- pong      paddles left and right, which follow the ball with at most 2 pixels an image, walls above and below; speed
---           10, of which what is towards a wall or paddle comes back to 89 % (0.99 times 0.9). The states have the
---           height of the paddles as fifth number
---
--- Numbers as in the data of Fraccaro, Kamronn, Paquet & Winther 2017.
function ball_video.ball_video(n, given)
  n = options.whole("ball_video", "n", n, 1)
  local o = options.check("ball_video", given, { kind = options.choice("box", "gravity", "polygon", "pong"), steps = 20,
    seed = options.optional "number", generator = options.optional "generator", dtype = options.optional "string" })
  local steps = options.whole("ball_video", "steps", o.steps, 1)
  if o.seed and o.generator then
    core.error "ball_video: seed and generator exclude each other"
  end
  local dtype = o.dtype or core.default_dtype()
  if dtype ~= "float64" and dtype ~= "float32" then
    core.error(("ball_video: dtype must be 'float64' or 'float32', got '%s'"):format(dtype))
  end
  local generator = o.generator or o.seed and core.generator(o.seed) or nil
  local state = paths(kinds[o.kind], n, steps, { generator = generator, dtype = "float64" }):to "float64"
  local frames = {}
  for t = 1, steps do
    frames[t] = image(state[t], kinds[o.kind], dtype)
  end
  return core.stack(frames, 1), state
end

return ball_video
