--- A run of a model: what it sampled, observed and kept, by name, with its log density. model:trace(...) gives one, and
--- so does whatever runs a model for samplers and guides.
-- help: pn, methods trace of trace
local core = require "penumbra.core"
local enumeration = require "penumbra.infer.enumeration"
local options = require "penumbra.options"
local recorder = require "penumbra.infer.recorder"

local run = {}

local shape_text = options.shape_text
local part, unpack = require "penumbra.infer.site".part, table.unpack

-- ---- traces ----

local trace = {} -- the methods of a trace

local function reduced(m, site)
  local lp = site.log_prob
  local scale = site.scale
  if m.particles and lp:ndim() > m.most then
    local axes = {}
    for k = 2, lp:ndim() do
      axes[k - 1] = k
    end
    lp = #axes > 0 and lp:sum(axes) or lp
  elseif lp:ndim() > 0 then
    lp = core.sum_log_prob(lp)
  end
  return scale ~= 1 and lp * scale or lp
end

--- The log density of all sites together: a 0-d tensor, or [S] with S particles. Enumerated variables are summed out.
function trace:log_density()
  if self.enumerated then
    return enumeration.log_density(self)
  end
  local total
  for _, site in ipairs(self.order) do
    if site.log_prob then
      local lp = reduced(self, site)
      total = total and total + lp or lp
    end
  end
  return total or core.tensor(0)
end

--- Table site -> value of the latent variables. Those of a scan also together, time first.
function trace:values()
  local values = {}
  for _, site in ipairs(self.order) do
    if (site.kind == "sample" or site.kind == "flat") and not site.observed then
      values[site.name] = site.value
    end
  end
  return values
end

trace.__index = recorder.with_defaults(core.namespace("a trace", trace))
trace.__tostring = function(self)
  local lines = {}
  for _, site in ipairs(self.order) do
    local what = site.observed and "observed" or site.kind
    local shape = core.is_tensor(site.value) and shape_text(site.value) or ""
    local law = site.dist and site.dist.name or site.set and tostring(site.set) or ""
    local plates = {}
    for k, plate in ipairs(site.plates) do
      plates[k] = plate.rows < plate.size and ("%s (%d of %d)"):format(plate.name, plate.rows, plate.size) or plate.name
    end
    lines[#lines + 1] = ("%-16s %-14s %-12s %-18s %s"):format(site.name, what, shape, law, table.concat(plates, ", "))
      :gsub("%s+$", "")
  end
  return table.concat(lines, "\n")
end

-- ---- runs ----

local NO_PLATES, NONE = {}, {}

-- What condition, intervene and block name must be there.
local function check_named(self, m)
  if not self.changed then
    return
  end
  local met, names = {}, {}
  for _, site in ipairs(m.order) do
    met[site.name], met[site.base] = true, true
    names[#names + 1] = site.name
  end
  for name in pairs(m.unseen or {}) do
    met[name] = true
  end
  table.sort(names)
  for where, list in pairs { condition = self.data, intervene = self.fixed, block = self.hidden } do
    for name in pairs(list) do
      if not met[name] then
        core.error(("%s: the model has no site '%s'%s"):format(where, name, options.suggestion(name, names)))
      end
    end
  end
end

--- Runs the function of a model. how.value(m, site): the value of a latent variable, or nil to draw it.
--- how.particles, how.most: S values of each at once, along an axis before the `most` plates. how.enumerate:
--- discrete variables that ask for it take all their values, but those named in how.given. how.labels: a table that
--- gets, by name of site, numbers (0) that are added to their log probabilities.
--- how.indices: rows of plates by name; how.whole: all rows of all plates. how.detached: draws are constants.
--- how.prior: what is observed without a value is drawn. how.unscored: set of names whose density nobody asks for.
--- how.check: mistakes that a run may be asked to find; how.finite: NaN in what was seen is one.
--- how.again: false where run.done tells when nobody reads a run any more; then the next one takes its tables.
--- how.drive(m, name, steps, carry, turn): does the outermost m:scan in its own way, by calls carry = turn(carry, t),
--- and gives the last carry. Internal.
function run.run(self, args, how)
  how = how or {}
  local m = how.again
  if m then
    how.again = false
    m.indices, m.count = how.indices or {}, 0
    self.body(m, unpack(args, 1, args.n or #args))
    if m.order[m.count + 1] then
      part(m)
    end
    return m
  end
  -- (lists with room for some sites; what many sites ask stands in m itself, where it is found sooner)
  m = setmetatable({ model = self, how = how, sites = { a = nil, b = nil, c = nil, d = nil },
    order = { nil, nil, nil, nil }, count = 0, indices = how.indices or {}, step = "", time = false, scale = 1,
    plates = NO_PLATES, plate_lists = {}, deepest = 0, strict = how.particles ~= nil or how.enumerate or false,
    plain = not (how.particles or how.enumerate or how.check or how.predict or self.changed) and (how.unscored or NONE),
    particles = how.particles or false, most = how.most or nil }, recorder.methods)
  self.body(m, unpack(args, 1, args.n or #args))
  if how.check then
    check_named(self, m)
  end
  return setmetatable(m, how.again == nil and trace or recorder.methods)
end

--- Nobody reads m any more, which run.run gave: where how.again is not nil, the next run with it says anew what its
--- sites are. Internal.
function run.done(m)
  local order, how = m.order, m.how
  if how.again == false then
    for k = 1, m.count do
      local site = order[k]
      site.value, site.dist, site.log_prob = nil, nil, nil
    end
    how.again = m
  end
end

-- value_of that looks into model.replayed first
local function replaying(self, value)
  if not next(self.replayed) then
    return value
  end
  return function(m, site)
    return recorder.given_value("replay", self.replayed, site) or (value and value(m, site))
  end
end

run.methods, run.replaying = trace, replaying

return run
