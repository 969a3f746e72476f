--- Innovation state space models: a level, a slope and seasons as blocks of one linear system whose transition and
--- emission are fixed, so that only noise is left to be learnt. What RSGLS-ISSM and DeepState are made of.
---
---     local s = issm.new{seasonal = {24, {period = 7, every = 24}}}             -- hourly: level, 24 hours, 7 days
---     s.n                       32
---     s.a                       transition [n, n]; s.moves: it is not the identity
---     s:emission(time)          rows c_t [..., n] at the steps `time` (int64 [...]; step 0: season 0)
---     s:innovation(time)        [..., n]: 1 where noise enters the state at that step, else 0
---     s:rows(T [, first])       emission of T steps from `first` (0) on, [T, n]
---
--- level    one state, a random walk: a = 1, c = 1
--- trend    level and slope: a = [[1, 1], [0, 1]], c = [1, 1]
--- seasons  one state for each season of a cycle: a = I, c the indicator of the season of the step, and noise enters
---          that season alone
---
--- Source: Kurle, Rangapuram, de Bezenac, Guennemann & Gasthaus 2020, appendix 7.3; Hyndman et al. 2008;
--- Rangapuram et al. 2018.
-- help: module, methods s
local array = require "penumbra.array"
local core = require "penumbra.core"
local options = require "penumbra.options"

local issm = {}
local methods = {}

-- {period, every} of an entry of `seasonal`: a number is a cycle whose seasons last one step.
local function season_of(k, entry)
  local where = ("issm: seasonal %d"):format(k)
  if type(entry) == "number" then
    entry = { period = entry }
  end
  local o = options.check(where, entry, { period = options.required "number", every = 1 })
  return { period = options.whole(where, "period", o.period, 2), every = options.whole(where, "every", o.every, 1) }
end

local function check_time(where, time)
  options.argument(where, "time", time, "tensor")
  if time:dtype() ~= "int64" then
    core.error(("%s: time must be int64, got %s"):format(where, time:dtype()))
  end
end

-- Indicators of the seasons of all cycles, behind `lead` ones for level and slope: [..., n].
local function indicators(self, time)
  local shape, parts = time:shape(), {}
  shape[#shape + 1] = self.lead
  if self.lead > 0 then
    parts[1] = core.ones(shape, { dtype = self.dtype })
  end
  for _, season in ipairs(self.seasons) do
    local at = (time // season.every) % season.period
    parts[#parts + 1] = array.one_hot(at, season.period):to(self.dtype)
  end
  return core.concatenate(parts, -1)
end

--- s:emission(time): c_t of the steps time [...] (int64), [..., n].
function methods:emission(time)
  check_time("issm: emission", time)
  return indicators(self, time)
end

--- s:innovation(time): 1 where noise enters the state at the steps time [...] (int64), else 0; [..., n]. It is the
--- emission's pattern: the level, the slope and the season of the step.
function methods:innovation(time)
  check_time("issm: innovation", time)
  return indicators(self, time)
end

--- s:rows(T [, first]): the emission of T steps, the first of them step `first` (0) of the cycles, [T, n].
function methods:rows(steps, first)
  options.whole("issm: rows", "T", steps, 1)
  return indicators(self, core.arange(steps, { dtype = "int64" }) + (first or 0))
end

local class = { __name = "issm", __index = core.namespace("a structure", methods) }

local MOST = 65536 -- states, whose covariance has 34 GB

local new_options = { level = true, trend = false, seasonal = options.optional "table", dtype = "float64" }

--- issm.new{level = true, trend = false, seasonal = {7, {period = 7, every = 24}}}: the structure; fields n (states), a
--- [n, n], moves (is a not the identity?), names (of the states). A trend brings its own level. seasonal: cycles, each
--- a number of seasons that last a step or {period = seasons, every = steps that one lasts}; the state begins at season
--- 0 at step 0. dtype: float64.
function issm.new(given)
  local o = options.check("issm", given, new_options)
  local self = { dtype = o.dtype, seasons = {}, names = {}, lead = o.trend and 2 or o.level and 1 or 0 }
  self.names[1] = self.lead > 0 and "level" or nil
  self.names[2] = self.lead > 1 and "slope" or nil
  for k, entry in ipairs(o.seasonal or {}) do
    local season = season_of(k, entry)
    self.seasons[k] = season
    if season.period > MOST - #self.names then
      core.error(("issm: states of all cycles must be at most %d"):format(MOST))
    end
    for i = 1, season.period do
      self.names[#self.names + 1] = ("season %d of %d"):format(i, season.period)
    end
  end
  self.n = #self.names
  if self.n == 0 then
    core.error "issm: needs a level, a trend or seasons"
  end
  self.a = core.eye(self.n, { dtype = o.dtype })
  self.moves = o.trend -- else a = I
  if o.trend then
    local from, to = core.arange(self.n):reshape { 1, self.n }, core.arange(self.n):reshape { self.n, 1 }
    self.a = self.a + (to:eq(0):to(o.dtype) * from:eq(1):to(o.dtype)) -- the slope moves the level
  end
  return setmetatable(self, class)
end

issm.methods = methods

return issm
