--- Draws in the groups and under the names of ArviZ's schema, as a Zarr store.
--- Source: ArviZ's InferenceData schema specification.
-- help: nowhere
local at_draws = require "penumbra.infer.at_draws"
local core = require "penumbra.core"
local data = require "penumbra.data"
local options = require "penumbra.options"
local predictive = require "penumbra.infer.predictive"

local arviz_groups = {}

-- Our statistics, ArviZ's names for them, and the dtype that they have there.
local STATISTICS = {
  { "log_density", "lp", "float64" }, { "accept", "acceptance_rate", "float64" },
  { "step_size", "step_size", "float64" }, { "depth", "tree_depth", "int64" }, { "leapfrogs", "n_steps", "int64" },
  { "divergent", "diverging", "bool" }, { "energy", "energy", "float64" },
}

local ours, theirs = {}, {}
for _, row in ipairs(STATISTICS) do ours[row[2]], theirs[row[1]] = row[1], row end

--- ours(name): what a statistic of ArviZ's is called here; nil where it is none of them.
function arviz_groups.ours(name) return ours[name] end

local function statistics_of(columns)
  local group = {}
  for name, t in pairs(columns) do
    local row = theirs[name]
    if row then
      group[row[2]] = row[3] == "bool" and t:ne(0) or t:to(row[3])
    else
      group[name] = t
    end
  end
  return group
end

local LEAD = { posterior = 2, sample_stats = 2, log_likelihood = 2, posterior_predictive = 2, prior = 2 }

-- The names of all axes: chain and draw, then those that were given for the site, or theta_dim_0.
local function dims_of(where, groups, given)
  local dims = {}
  for name, list in pairs(given or {}) do
    if type(name) ~= "string" or type(list) ~= "table" then
      core.error(("%s: dims must be a table site -> list of names"):format(where))
    end
  end
  for group, variables in pairs(groups) do
    local lead = LEAD[group] or 0
    for name, t in pairs(variables) do
      local list, own = {}, given and given[name]
      if own and #own ~= t:ndim() - lead then
        core.error(("%s: dims.%s must name %d axes, got %d"):format(where, name, t:ndim() - lead, #own))
      end
      for k = 1, t:ndim() - lead do list[k] = own and own[k] or ("%s_dim_%d"):format(name, k - 1) end
      table.move(list, 1, #list, lead + 1, list)
      if lead == 2 then list[1], list[2] = "chain", "draw" end
      dims[group .. "/" .. name] = list
    end
  end
  return dims
end

local function write(where, path, groups, o, attributes)
  for name, variables in pairs(groups) do
    if next(variables) == nil then groups[name] = nil end
  end
  for name in pairs(groups) do
    attributes[name] = attributes[name] or {}
    attributes[name].inference_library, attributes[name].inference_library_version = "penumbra", core.version
  end
  return data.save_zarr(path, groups, { dims = dims_of(where, groups, o.dims), coords = o.coords,
    attributes = attributes })
end

local function by_chain(sites, chains, keep)
  local group = {}
  for name, t in pairs(sites) do
    if not keep or keep[name] then
      group[name] = t:reshape { chains, -1, table.unpack(t:shape(), 2) }
    end
  end
  return group
end

-- Groups that are made when they are asked for, functions of the posterior, the groups so far and a number of draws.
local more = {
  log_likelihood = function(p) return p:log_likelihood() end,
  posterior_predictive = function(p, groups) return by_chain(p:predict(), p.chains, groups.observed_data) end,
  prior = function(p, groups, draws)
    return by_chain(predictive.prior_predictive(p.model, { data = table.move(p.args, 1, p.args.n or #p.args, 1, {}),
      draws = draws }), 1, groups.posterior)
  end,
}

local posterior_options = { groups = options.optional "table", draws = 1000, dims = options.optional "table",
  coords = options.optional "table" }

local function check(path, given)
  options.argument("save_arviz", "path", path, "string")
  local o = options.check("save_arviz", given, posterior_options)
  for _, name in ipairs(o.groups or {}) do
    if not more[name] then
      core.error(("save_arviz: groups must be of 'log_likelihood', 'posterior_predictive' and 'prior', got %s"):format(
        tostring(name)))
    end
  end
  return o
end

-- What the model observes; nothing where these draws have no model.
local function observed_of(p, value)
  if not p.target and not value then
    return p.observed or {}
  end
  return (at_draws.observed(p.model, p.args, value or p.target:values_at(p.unconstrained[1][1])))
end

--- What p:save_arviz does.
function arviz_groups.save_posterior(p, path, given)
  local o = check(path, given)
  local groups = { posterior = {}, sample_stats = statistics_of(p.statistics), observed_data = observed_of(p) }
  for _, name in ipairs(p.names) do groups.posterior[name] = p.draws[name] end
  for _, name in ipairs(o.groups or {}) do
    if not p.target and not (name == "log_likelihood" and p.log_densities) then
      core.error(("save_arviz: group '%s' needs a model, and these draws were read from a file without one"):format(
        name))
    end
    groups[name] = more[name](p, groups, o.draws)
  end
  if p.log_densities then groups.log_likelihood = p.log_densities end
  local about = { tuning_steps = p.warmup, sampling_time = p.seconds, max_tree_depth = p.max_depth,
    particles = p.particles, log_evidence = p.log_evidence and p.log_evidence.value,
    log_evidence_error = p.log_evidence and p.log_evidence.se }
  return write("save_arviz", path, groups, o, { posterior = about })
end

--- What fit:save_arviz does: draws of the guide as one chain.
function arviz_groups.save_fit(fit, path, given)
  local o = check(path, given)
  if o.groups then
    core.error "save_arviz: groups is of posteriors (p:save_arviz); a fit has posterior and observed_data"
  end
  local draws = fit:sample(o.draws)
  local value
  if fit.automatic then
    value = fit.guide.target:values_at(fit.guide:draw_real(1)[1])
  else
    value = function(_, site) return draws[site.name] and draws[site.name][1] end
  end
  local groups = { posterior = by_chain(draws, 1), observed_data = observed_of(fit, value) }
  return write("save_arviz", path, groups, o, { posterior = { sampling_time = fit.seconds } })
end

return arviz_groups
