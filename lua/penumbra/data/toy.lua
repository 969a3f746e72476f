--- Small problems that make their own data: points x [n, 2] and classes y, int64 [n], from 0. All take the options
--- noise (standard deviation of what is added to x), seed (the same seed gives the same data) or generator; without
--- either the default generator draws.
-- help: pn.data
local core = require "penumbra.core"
local options = require "penumbra.options"

local toy = {}

-- Options, the number of points and the generator.
local function begin(where, n, given, known)
  known.noise = known.noise or 0.1
  known.seed, known.generator = options.optional "number", options.optional "generator"
  local o = options.check(where, given, known)
  n = options.whole(where, "n", n, 1)
  if not (o.noise >= 0 and o.noise < math.huge) then
    core.error(("%s: noise must not be negative, got %s"):format(where, tostring(o.noise)))
  elseif o.seed and o.generator then
    core.error(where .. ": seed and generator exclude each other")
  end
  local generator = o.generator or o.seed and core.generator(o.seed) or nil
  return o, n, { generator = generator }
end

local function classes(sizes)
  local parts = {}
  for k, size in ipairs(sizes) do
    parts[k] = core.full({ size }, k - 1, { dtype = "int64" })
  end
  return core.concatenate(parts, 1)
end

-- Points with their noise, and the classes, in a random order.
local function finish(o, draw, columns, y)
  local x = core.stack(columns, 2)
  if o.noise > 0 then
    x = x + core.randn(x:shape(), draw) * o.noise
  end
  local order = core.randperm(y:size(1), draw)
  return x:take(1, order), y:take(1, order)
end

--- two_moons(n [, {noise = 0.1, seed =}]): two half circles of radius 1 that reach into each other: angles a uniform on
--- (0, pi), class 0 at (cos a, sin a), class 1 at (1 - cos a, 1/2 - sin a).
function toy.two_moons(n, given)
  local o, count, draw = begin("two_moons", n, given, {})
  local upper = (count + 1) // 2
  local a, b = core.rand({ upper }, draw) * math.pi, core.rand({ count - upper }, draw) * math.pi
  return finish(o, draw, { core.concatenate({ a:cos(), 1 - b:cos() }, 1),
    core.concatenate({ a:sin(), 0.5 - b:sin() }, 1) }, classes { upper, count - upper })
end

--- circles(n [, {radii = {1, 0.5}, noise = 0.1, seed =}]): circles around 0, class k on that of the radius k + 1.
function toy.circles(n, given)
  local o, count, draw = begin("circles", n, given, { radii = { 1, 0.5 } })
  local k = #o.radii
  local sizes, radius = {}, {}
  for i, r in ipairs(o.radii) do
    sizes[i] = (count + k - i) // k
    radius[i] = core.full({ sizes[i] }, options.argument("circles", "radii", r, "number"))
  end
  local r, a = core.concatenate(radius, 1), core.rand({ count }, draw) * (2 * math.pi)
  return finish(o, draw, { r * a:cos(), r * a:sin() }, classes(sizes))
end

--- spirals(n [, {classes = 2, turns = 1.5, noise = 0.05, seed =}]): arms from 0 to radius 1 that wind around each
--- other: t uniform on (0, 1), radius t, angle 2 pi (turns t + k / classes) for class k.
function toy.spirals(n, given)
  local o, count, draw = begin("spirals", n, given, { classes = 2, turns = 1.5, noise = 0.05 })
  local k, sizes = options.whole("spirals", "classes", o.classes, 1), {}
  for i = 1, k do
    sizes[i] = (count + k - i) // k
  end
  local y, t = classes(sizes), core.rand({ count }, draw)
  local a = (t * o.turns + y:to("float64") / k) * (2 * math.pi)
  return finish(o, draw, { t * a:cos(), t * a:sin() }, y)
end

--- checkerboard(n [, {fields = 4, noise = 0, seed =}]): x uniform on the square (-1, 1)^2 of fields by fields fields, y
--- 0 and 1 in turn.
function toy.checkerboard(n, given)
  local o, count, draw = begin("checkerboard", n, given, { fields = 4, noise = 0 })
  local side = options.whole("checkerboard", "fields", o.fields, 1)
  local x = core.rand({ count, 2 }, draw)
  local field = (x * side):floor():sum(2)
  x = x * 2 - 1
  return o.noise > 0 and x + core.randn({ count, 2 }, draw) * o.noise or x,
    (field - (field / 2):floor() * 2):to "int64"
end

--- rotating_boundary(n, t [, {scale = 10, degrees = 5, width = 3, seed =}]): a boundary that turns with time: x uniform
--- on (-width, width)^2, y Bernoulli with logits w . x, w = scale (sin a, cos a), a = t times `degrees`. Returns x, y
--- and w [2]. The seed counts together with t: each step draws its own points.
function toy.rotating_boundary(n, t, given)
  options.argument("rotating_boundary", "t", t, "number")
  local o, count, draw = begin("rotating_boundary", n, given, { scale = 10, degrees = 5, width = 3, noise = 0 })
  if o.seed then
    draw.generator = draw.generator:split(options.whole("rotating_boundary", "t", t, 0))
  end
  local a = math.rad(t * o.degrees)
  local w = core.tensor { o.scale * math.sin(a), o.scale * math.cos(a) }
  local x = core.rand({ count, 2 }, draw) * (2 * o.width) - o.width
  local y = core.rand({ count }, draw):le(x:matmul(w):sigmoid()):to "int64"
  return o.noise > 0 and x + core.randn({ count, 2 }, draw) * o.noise or x, y, w
end

return toy
