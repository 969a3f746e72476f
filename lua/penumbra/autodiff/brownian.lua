--- Paths of Brownian motion that are a function of a seed: see pn.brownian.
-- help: pn, quiet
local core = require "penumbra.core"
local options = require "penumbra.options"

local brownian = {}

local path = {}
path.__index = path
path.__name = "penumbra.brownian"

local function check_time(where, name, t)
  if type(t) ~= "number" or t ~= t or t == math.huge or t == -math.huge then
    core.error(("%s: %s must be a finite number, got %s"):format(where, name, tostring(t)))
  end
  return t + 0.0
end

local function between(self, where, s, t)
  s, t = check_time(where, "s", s), check_time(where, "t", t)
  if s < self.start or t < self.start then
    core.error(("%s: the path begins at %g, got s = %g and t = %g"):format(where, self.start, s, t))
  end
  local w, area = core.sde.increment(self.seed, self.start, self.tolerance, math.min(s, t), math.max(s, t), self.shape)
  return w, area, t < s
end

--- path:increment(s, t): W(t) - W(s), a float64 tensor of the path's shape. W(s, t) + W(t, u) = W(s, u) to rounding.
function path:increment(s, t)
  local w, _, turned = between(self, "brownian:increment", s, t)
  return turned and -w or w
end

--- path:area(s, t): the space-time Levy area over [s, t], s < t: the mean height of the path over the chord from W(s)
--- to W(t). Its law is N(0, (t - s) / 12), and it does not depend on the increment.
function path:area(s, t)
  local _, area = between(self, "brownian:area", s, t)
  return area
end

function path:__tostring()
  return ("brownian path of seed %d, shape [%s], from %g on, cells of %g"):format(self.seed,
    table.concat(self.shape, ", "), self.start, self.tolerance)
end

--- brownian{seed =, shape = {} [, tolerance =, start =]}: a path of Brownian motion W, one for each element of the
--- shape, that is a function of the seed: nothing is stored, and every increment is that of one path, whichever times
--- are asked for and in whatever order.
---
---     local path = pn.brownian{seed = 1, shape = {1000, 2}}
---     path:increment(0.25, 1)                                      -- W(1) - W(0.25) [1000, 2]
---     pn.sde(f, g, y0, pn.tensor{0, 1}, {path = path, step = 0.1})      -- y0 [1000, 2]
---     pn.sde(f, g, y0, pn.tensor{0, 1}, {path = path, step = 0.01})     -- on the same path
---
--- seed        a whole number
--- shape       of what the motions drive: y's, or with scalar and general noise [paths, motions of a path]
--- tolerance   2^-14: length of the shortest cells of the path; a power of 2, or the one below it is taken. The law is
---             exact for times of which no two lie in one cell; pn.sde refuses shorter steps. Each halving of it costs
---             a pair of normals more for times that are no multiples of it.
--- start       0: the path begins there
---
--- Octaves of time are halved, and each half's increment and space-time Levy area are drawn given the whole's, by
--- counters of its own. Methods: path:increment(s, t), path:area(s, t). In pn.sde motion e of path b is element
--- b * motions + e of the flat path, so the first paths of a larger batch are those of a smaller one.
function brownian.brownian(given)
  local o = options.check("brownian", given, { seed = options.required "number", shape = options.required "table",
    tolerance = 0x1p-14, start = 0 })
  check_time("brownian", "start", o.start)
  if not (check_time("brownian", "tolerance", o.tolerance) > 0) then
    core.error(("brownian: tolerance must be positive, got %g"):format(o.tolerance))
  end
  for k, n in ipairs(o.shape) do
    options.whole("brownian", ("shape[%d]"):format(k), n, 1)
  end
  local self = { seed = math.tointeger(o.seed), shape = { table.unpack(o.shape) }, tolerance = o.tolerance + 0.0,
    start = o.start + 0.0 }
  return setmetatable(self, path)
end

--- Is x a path of pn.brownian?
function brownian.is_path(x)
  return getmetatable(x) == path
end

return brownian
