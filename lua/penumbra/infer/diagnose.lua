--- What is wrong with a model, or with a model and its guide, before it is trusted.
---
---     local d = pn.diagnose(model, guide, {data = {x, y}})
---     print(d)                      the sites as a table, prior predictive ranges, terms of the bound, problems
---     d.problems                    list of {kind, site, where, message}; where: "script.lua:12"
---     d.advice                      the same of what may be sampled better, kind "funnel": the scale of a variable
---                                   depends on another variable, as in tau * z + mu written with tau inside the law
---     d.sites d.ranges d.terms d.gradient    what the tables are made of
---
--- Kinds of problems: "error" (the function raised), "missing" (a site of one is not in the other), "shape", "plate"
--- (a site counts otherwise in guide and model), "support", "nan" (with the operation that made it), "gradient" (it
--- differs from finite differences), "prior" (data where the prior predictive has no mass).
-- help: pn
local core = require "penumbra.core"
local recording = require "penumbra.autodiff.recording"
local dist = require "penumbra.distribution"
local guides = require "penumbra.infer.guide"
local model = require "penumbra.infer.model"
local options = require "penumbra.options"
local target = require "penumbra.infer.target"

local diagnose = {}

local MOST_CHECKED = 20 -- numbers whose derivative is compared
local TOLERANCE = 1e-4 -- relative

local function add(self, kind, site, format, ...)
  local name, where = site and site.name, site and site.where or ""
  local message = format:format(...)
  self.problems[#self.problems + 1] = { kind = kind, site = name, where = where, message = message }
end

local shape_text = options.shape_text

local function plates_text(site)
  local names = {}
  for k, plate in ipairs(site.plates) do
    names[k] = plate.rows < plate.size and ("%s (%d of %d)"):format(plate.name, plate.rows, plate.size) or plate.name
  end
  return table.concat(names, ", ")
end

-- f() with operations that raise where they make the first NaN, or not.
local function watched(trap, f)
  local grad, nan = core.set_no_grad(false), core.trap_nan(trap)
  local result = table.pack(pcall(f))
  core.set_no_grad(grad)
  core.trap_nan(nan)
  return table.unpack(result, 1, result.n)
end

-- The line that the text of an error begins with, and the rest.
local function place_of(message)
  local where, text = tostring(message):match "^([^\n]-:%d+): (.*)$"
  return where or "", text or tostring(message)
end

-- Runs f once more, with the same draws, to find the operation that makes the first NaN: its line and what it says, or
-- nil.
local function birthplace(state, f)
  core.set_rng_state(state)
  local ok, message = watched(true, f)
  if ok or not tostring(message):find "gives NaN" then
    return nil
  end
  return place_of(message)
end

-- Runs f; an error becomes a problem at the line that its text begins with.
local function attempt(self, what, f)
  local state = core.rng_state()
  local result = table.pack(watched(false, f))
  if result[1] then
    return table.unpack(result, 2, result.n)
  end
  local where, text = place_of(result[2])
  self.problems[#self.problems + 1] = { kind = "error", where = where, message = ("%s: %s"):format(what, text) }
  local after = core.rng_state()
  local born, why = birthplace(state, f)
  core.set_rng_state(after)
  if born then
    self.problems[#self.problems + 1] = { kind = "nan", where = born, message = why }
  end
  return nil
end

-- ---- one run of the model ----

local function has_nan(t)
  return t:isnan():any():item()
end

-- Values of latent variables as parameters, so that operations on them are on record.
local function recorded(site)
  if site.enumerable then
    return site.dist:sample()
  end
  local x = site.dist:sample()
  return x:dtype():find "float" and core.param(x) + 0 or x
end

-- A value of a variable without prior: the image of a random vector.
local function flat_value(site)
  local set = site.set
  local b = type(set) ~= "string" and set or dist.biject_to(set, site.low, site.high)
  return core.param(b:forward(core.rand(site.shape) * 4 - 2)) + 0
end

-- again: runs the same once more.
local function check_densities(self, trace, again)
  for _, site in ipairs(trace.order) do
    local lp = site.log_prob
    if lp and has_nan(lp) then
      local value_is = core.is_tensor(site.value) and site.value:dtype():find "float" and has_nan(site.value)
      local seen = site.observed and value_is
      add(self, "nan", site, "the log density of '%s' is NaN%s", site.name, seen and ": what is observed has NaN" or "")
      local born, why = again()
      if born and not seen then
        self.problems[#self.problems + 1] = { kind = "nan", site = site.name, where = born, message = why }
      end
    elseif lp and lp:numel() > 0 and site.observed and lp:eq(-math.huge):any():item() then
      add(self, "support", site, "%d of %d values of '%s' have density 0 under %s (support: %s)",
        lp:eq(-math.huge):sum():item(), lp:numel(), site.name, site.dist.name, site.dist.support)
    end
  end
end

local function table_of_sites(self, trace)
  for _, site in ipairs(trace.order) do
    local kind = site.observed and "observed" or site.kind == "observe" and "observe" or site.kind == "sample"
      and (site.enumerable and "enumerated" or "latent") or site.kind
    self.sites[#self.sites + 1] = { name = site.name, kind = kind, where = site.where, scale = site.scale,
      law = site.dist and site.dist.name or type(site.set) == "string" and site.set or "",
      shape = core.is_tensor(site.value) and site.value:shape() or {}, plates = plates_text(site) }
  end
end

-- ---- funnels ----

-- Variables of the trace whose values the spread of the law of `site` depends on.
local function scale_depends_on(site, others)
  local ok, spread = pcall(function() return site.dist:variance():sum() end)
  local names = {}
  for _, other in ipairs(ok and others or {}) do
    local found, slope = pcall(function() return core.grad(spread, { other.value })[1] end)
    if found and slope and slope:abs():sum():item() > 0 then
      names[#names + 1] = "'" .. other.name .. "'"
    end
  end
  return names
end

-- Neal's funnel: where data say little of x, its law narrows with its scale, and no step suits both ends.
local function advise_of_funnels(self, trace)
  local latent = {}
  for _, site in ipairs(trace.order) do
    local free = site.kind == "sample" and not site.observed and not site.enumerable
    if free and site.dist and not site.dist.discrete and core.is_tensor(site.value) then
      latent[#latent + 1] = site
    end
  end
  for _, site in ipairs(latent) do
    local names = site.dist.support:find "^real" and scale_depends_on(site, latent) or {}
    if #names > 0 then
      self.advice[#self.advice + 1] = { kind = "funnel", site = site.name, where = site.where, message =
        ("the scale of '%s' depends on %s: where data say little of it the posterior is a funnel, which no step "
          .. "size suits; a standard variable that is scaled and shifted (tau * z + mu) has none"):format(site.name,
          table.concat(names, ", ")) }
    end
  end
end

-- ---- guide against model ----

-- Sets that stand within others, by name.
local INSIDE = {
  unit_interval = { "positive", "non_negative", "real" }, positive = { "non_negative", "real" },
  non_negative = { "real" }, simplex = { "real_vector" }, ordered_vector = { "real_vector" },
}

local function contains(outer, inner)
  if outer == inner then
    return true
  end
  for _, name in ipairs(INSIDE[inner] or {}) do
    if name == outer then
      return true
    end
  end
  return false
end

local function check_supports(self, site, p)
  local q, law = site.dist, p.dist
  if not law or not q then
    return
  elseif q.discrete ~= law.discrete then
    add(self, "support", site, "the guide's '%s' is %s (%s), the model's at %s %s (%s)", site.name,
      q.discrete and "discrete" or "continuous", q.name, p.where, law.discrete and "discrete" or "continuous", law.name)
    return
  end
  local ok, outside = pcall(function()
    return law:log_prob(site.value):eq(-math.huge):any():item()
  end)
  local same = contains(law.support, q.support)
  if ok and (outside or not same and contains(q.support, law.support)) then
    add(self, "support", site, "the guide draws '%s' from %s (support: %s), which has values outside of that of the "
      .. "model's %s at %s (%s)", site.name, q.name, q.support, law.name, p.where, law.support)
  elseif q.support ~= law.support and same then
    add(self, "support", site, "the guide's %s for '%s' (support: %s) never reaches all of that of the model's %s at "
      .. "%s (%s)", q.name, site.name, q.support, law.name, p.where, law.support)
  end
end

local function names_of(list)
  local names = {}
  for _, site in ipairs(list) do
    names[#names + 1] = site.name
  end
  return names
end

local function check_pair(self, g, m)
  for _, site in ipairs(g.order) do
    local p = m.sites[site.name]
    if site.kind ~= "sample" then
      goto continue
    elseif not p then
      add(self, "missing", site, "the guide samples '%s', which the model does not have%s", site.name,
        options.suggestion(site.name, names_of(m.order)))
    elseif p.observed then
      add(self, "missing", site, "the guide samples '%s', which the model observes at %s", site.name, p.where)
    else
      if shape_text(site.value) ~= shape_text(p.value) then
        add(self, "shape", site, "'%s' has shape %s in the guide, %s in the model at %s", site.name,
          shape_text(site.value), shape_text(p.value), p.where)
      end
      if plates_text(site) ~= plates_text(p) then
        add(self, "plate", site,
          "'%s' is in %s in the guide and in %s in the model at %s, so its terms count %g and %g "
          .. "times", site.name, #site.plates > 0 and "plate " .. plates_text(site) or "no plate",
          #p.plates > 0 and "plate " .. plates_text(p) or "no plate", p.where, site.scale, p.scale)
      end
      check_supports(self, site, p)
    end
    ::continue::
  end
  for _, site in ipairs(m.order) do
    local latent = (site.kind == "sample" or site.kind == "flat") and not site.observed
    local drawn = g.sites[site.name]
    if latent and not site.enumerable and not (drawn and drawn.kind == "sample") then
      add(self, "missing", site, "the model samples '%s', which the guide does not have%s", site.name,
        options.suggestion(site.name, names_of(g.order)))
    end
  end
end

local function total(site)
  return site.log_prob:sum():item() * site.scale
end

-- The mean terms of the bound by site: of guides log q - log p, of what is observed log p.
local function terms_of(self, pairs_of_runs)
  local sums, order = {}, {}
  local function put(name, kind, site, v)
    if not sums[name] then
      sums[name] = { name = name, kind = kind, value = 0, scale = site.scale, where = site.where }
      order[#order + 1] = sums[name]
    end
    sums[name].value = sums[name].value + v / #pairs_of_runs
  end
  for _, pair in ipairs(pairs_of_runs) do
    for _, site in ipairs(pair.guide.order) do
      local p = pair.model.sites[site.name]
      if site.log_prob and p and p.log_prob then
        put(site.name, "divergence", site, total(site) - total(p))
      end
    end
    for _, site in ipairs(pair.model.order) do
      if site.log_prob and not pair.guide.sites[site.name] then
        put(site.name, site.divergence and "divergence of weights" or "log density", site, total(site))
      end
    end
  end
  self.terms = order
end

-- ---- prior predictive ranges ----

local function quantiles(list)
  local x = core.concatenate(list, 1):sort()
  local n = x:numel()
  local function at(q)
    return x[math.max(1, math.min(n, math.ceil(q * n)))]:item()
  end
  return at(0.025), at(0.975), x[1]:item(), x[n]:item()
end

local function check_range(self, site, values, draws)
  local low, high, least, most = quantiles(draws)
  local x = values:to("float64"):reshape { -1 }
  local data_low, data_high = x:min():item(), x:max():item()
  self.ranges[#self.ranges + 1] = { name = site.name, where = site.where, data = { data_low, data_high },
    predicted = { low, high } }
  local outside = x:lt(least):to("float64"):sum():item() + x:gt(most):to("float64"):sum():item()
  if outside > 0.05 * x:numel() then
    add(self, "prior", site, "%d of %d values of '%s' lie outside of all of %d prior predictive draws, [%.4g, %.4g]",
      math.floor(outside), x:numel(), site.name, #draws, least, most)
  elseif high - low > 1000 * math.max(data_high - data_low, 1e-300) and data_high > data_low then
    add(self, "prior", site, "the prior predictive of '%s', [%.4g, %.4g], is over 1000 times as wide as the data, "
      .. "[%.4g, %.4g]", site.name, low, high, data_low, data_high)
  end
end

local function prior_ranges(self, m, args, draws)
  local collected, sites = {}, {}
  for _ = 1, draws do
    local ok, t = pcall(recording.off, model.run, m, args, { locate = true, value = model.replaying(m, function(_, site)
      return site.kind == "flat" and flat_value(site):detach() or nil
    end) })
    if not ok then
      return
    end
    for _, site in ipairs(t.order) do
      if site.observed and site.kind == "observe" then
        local drawn = site.dist:sample():to("float64"):reshape { -1 }
        if not collected[site.name] then
          collected[site.name] = {}
          sites[#sites + 1] = site
        end
        table.insert(collected[site.name], drawn)
      end
    end
  end
  for _, site in ipairs(sites) do
    local finite = {}
    for _, x in ipairs(collected[site.name]) do
      finite[#finite + 1] = not has_nan(x) and x or nil
    end
    if #finite > 0 and not has_nan(site.value:to "float64") then
      check_range(self, site, site.value, finite)
    end
  end
end

-- ---- gradients ----

local function central(f, x, k, h)
  local values = x:totable()
  local middle = values[k]
  values[k] = middle + h
  local up = f(core.tensor(values, { dtype = "float64" }))
  values[k] = middle - h
  return (up - f(core.tensor(values, { dtype = "float64" }))) / (2 * h)
end

local function site_at(t, k)
  for _, entry in ipairs(t.layout) do
    if k >= entry.first and k <= entry.last then
      return entry
    end
  end
  return nil
end

-- The gradient of the log density in the unconstrained space against central differences.
local function check_gradient(self, t)
  local x, f = nil, function(z)
    return t:log_density(z):item()
  end
  for _ = 1, 20 do -- a point of positive density
    x = t:start(1)
    local value = f(x)
    if value == value and value > -math.huge then
      break
    end
  end
  local z = core.param(x)
  local lp = t:log_density(z + 0)
  local slope = core.grad(lp, { z })[1]
  if has_nan(slope) then
    add(self, "nan", { where = "" }, "the gradient of the log density has NaN: %s", core.nonfinite_cause(lp))
  end
  local g = slope:totable()
  local worst, checked = 0, math.min(t.size, MOST_CHECKED)
  for j = 1, checked do
    local k = checked == t.size and j or core.randint(1, t.size + 1, { 1 }):item()
    local want = central(f, x, k, 1e-5 * math.max(1, math.abs(x[k]:item())))
    local off = math.abs(g[k] - want) / math.max(1, math.abs(want))
    if not (off <= TOLERANCE) then
      local entry = site_at(t, k)
      add(self, "gradient", entry, "the gradient by number %d of '%s' is %.8g, by differences %.8g",
        k - entry.first + 1,
        entry.name, g[k], want)
    end
    worst = math.max(worst, off == off and off or math.huge)
  end
  self.gradient = { checked = checked, largest = worst }
end

-- ---- the whole ----

local class = { __name = "diagnosis" }

local function columns(rows)
  local widths, lines = {}, {}
  for _, row in ipairs(rows) do
    for k, text in ipairs(row) do
      widths[k] = math.max(widths[k] or 0, #text)
    end
  end
  for i, row in ipairs(rows) do
    local line = ""
    for k, text in ipairs(row) do
      line = line .. text .. (" "):rep(widths[k] - #text + 2)
    end
    lines[i] = line:gsub("%s+$", "")
  end
  return table.concat(lines, "\n")
end

local function interval(pair)
  return ("[%.4g, %.4g]"):format(pair[1], pair[2])
end

local function base(where)
  return where:match "[^/]*$"
end

function class.__tostring(self)
  local blocks, rows = {}, { { "site", "kind", "law", "shape", "plates", "counts", "where" } }
  for _, site in ipairs(self.sites) do
    rows[#rows + 1] = { site.name, site.kind, site.law, shape_text(site.shape), site.plates, ("%g"):format(site.scale),
      base(site.where) }
  end
  blocks[1] = columns(rows)
  if #self.ranges > 0 then
    rows = { { "observed", "data", "95 % of the prior predictive", "where" } }
    for _, r in ipairs(self.ranges) do
      rows[#rows + 1] = { r.name, interval(r.data), interval(r.predicted), base(r.where) }
    end
    blocks[#blocks + 1] = columns(rows)
  end
  if #self.terms > 0 then
    rows = { { "term of the bound", "", "nats", "counts", "where" } }
    for _, r in ipairs(self.terms) do
      rows[#rows + 1] = { r.name, r.kind, ("%.4g"):format(r.value), ("%g"):format(r.scale), base(r.where) }
    end
    blocks[#blocks + 1] = columns(rows)
  end
  if self.gradient then
    blocks[#blocks + 1] = ("gradient: %d numbers against differences, largest relative error %.1e"):format(
      self.gradient.checked, self.gradient.largest)
  end
  local lines = { #self.problems == 0 and "no problem found" or ("%d problem%s"):format(#self.problems,
    #self.problems > 1 and "s" or "") }
  for _, p in ipairs(self.problems) do
    lines[#lines + 1] = ("  %s%s: %s"):format(p.where ~= "" and base(p.where) .. ": " or "", p.kind, p.message)
  end
  for _, p in ipairs(self.advice) do
    lines[#lines + 1] = ("  %s%s (advice): %s"):format(p.where ~= "" and base(p.where) .. ": " or "", p.kind, p.message)
  end
  blocks[#blocks + 1] = table.concat(lines, "\n")
  return table.concat(blocks, "\n\n")
end

local diagnose_options = { data = options.optional "table", draws = 100 }

-- Guide and model on the same draws, `draws` times.
local function run_pairs(self, m, guide, args, draws)
  local runs = {}
  for k = 1, draws do
    local pair = attempt(self, "guide", function()
      local g = model.run(guide, args, { check = k == 1, locate = true })
      return { guide = g }
    end)
    if not pair then
      return nil
    end
    if k == 1 then
      self.guide_run = pair.guide
      check_pair(self, pair.guide, self.model_run)
      for _, p in ipairs(self.problems) do
        if p.kind ~= "prior" and p.kind ~= "nan" then
          return nil
        end
      end
    end
    pair.model = attempt(self, "model on the guide's draws", function()
      return model.run(m, args, { locate = true, indices = pair.guide.indices, value = function(_, site)
        local drawn = pair.guide.sites[site.name]
        return drawn and drawn.value or site.dist:sample()
      end })
    end)
    if not pair.model then
      return nil
    end
    runs[k] = pair
  end
  return runs
end

local function check_guide(self, m, guide, args, draws)
  if type(guide) == "string" then
    guide = guides.new(guide)
  end
  if guides.is_plan(guide) then
    return
  elseif not model.is(guide) then
    core.error(("diagnose: guide must be a model, a guide of pn.infer.guide or the name of one, got %s"):format(
      type(guide)))
  end
  local runs = run_pairs(self, m, guide, args, draws)
  if runs then
    terms_of(self, runs)
  end
end

--- diagnose(model [, guide] [, {data =, draws = 100}]): runs model and guide a few times and reports what is wrong or
--- doubtful (pn.help "penumbra.infer.diagnose"). guide: as pn.svi takes it. data: list of the arguments after m.
--- draws: how many prior predictive draws are made.
---
---     print(pn.diagnose(model, guide, {data = {x, y}}))
---
--- What the functions raise is reported as a problem too, with its line.
function diagnose.diagnose(m, guide, given)
  if not model.is(m) then
    core.error(("diagnose: needs a model (pn.model), got %s"):format(type(m)))
  end
  if given == nil and type(guide) == "table" and not model.is(guide) and not guides.is_plan(guide) then
    guide, given = nil, guide
  end
  local o = options.check("diagnose", given, diagnose_options)
  local args = model.packed(o.data)
  local self = setmetatable({ problems = {}, advice = {}, sites = {}, ranges = {}, terms = {} }, class)
  local function run()
    return model.run(m, args, { check = true, locate = true, prior = true, value = model.replaying(m,
      function(_, site)
        return site.kind == "flat" and flat_value(site) or recorded(site)
      end) })
  end
  local state = core.rng_state()
  local t = attempt(self, "model", run)
  if t then
    self.model_run = t
    table_of_sites(self, t)
    advise_of_funnels(self, t)
    check_densities(self, t, function() return birthplace(state, run) end)
    prior_ranges(self, m, args, o.draws)
  end
  if t and guide ~= nil then
    check_guide(self, m, guide, args, math.min(o.draws, 20))
  end
  local latent, discrete = false, false
  for _, site in ipairs(self.sites) do
    latent = latent or site.kind == "latent" or site.kind == "flat"
  end
  for _, site in ipairs(t and t.order or {}) do
    discrete = discrete or site.kind == "sample" and not site.observed and not site.enumerable and site.dist.discrete
  end
  local nan = false
  for _, p in ipairs(self.problems) do
    nan = nan or p.kind == "nan"
  end
  if latent and not discrete and not nan then
    attempt(self, "gradient", function()
      check_gradient(self, target.new(m, args, nil, true))
      return true
    end)
  end
  self.model_run, self.guide_run = nil, nil
  return self
end

return diagnose
