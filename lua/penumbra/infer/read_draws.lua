--- Draws that other programs have written, as posteriors without a model: what ArviZ stores.
---
---     local p = assert(pn.infer.arviz "eight_schools.zarr")
---     print(p)                     the summary, with what speaks against the draws
---     p:plot("pairs.svg", { kind = "pairs" })    p:loo()   where log densities are in the file
---
--- What needs the model (p:predict, p:check, p:save) is an error that says so.
-- help: pn.infer
local arviz_groups = require "penumbra.infer.arviz_groups"
local data = require "penumbra.data"
local form = require "penumbra.form"
local options = require "penumbra.options"
local posterior = require "penumbra.infer.posterior"

local read_draws = {}

local function refuse(text, ...) error((text):format(...), 0) end

-- The variable with chain and draw first.
local function leading(name, t, dims)
  local place, order = {}, {}
  for k, dim in ipairs(dims) do
    if place[dim] then
      refuse("'%s' has axis '%s' twice", name, dim)
    end
    place[dim] = k
  end
  if not place.chain or not place.draw then
    refuse("'%s' must have the axes chain and draw, got %s", name, table.concat(dims, ", "))
  end
  order[1], order[2] = place.chain, place.draw
  for k, dim in ipairs(dims) do
    if dim ~= "chain" and dim ~= "draw" then order[#order + 1] = k end
  end
  return t:permute(order):contiguous()
end

-- A group of draws by name; all of as many chains and draws as `like` has, where that is given.
local function draws_of(groups, about, group, like)
  local found = {}
  for name, t in pairs(groups[group] or {}) do
    local x = leading(("%s/%s"):format(group, name), t, about.dims[group][name])
    if x:numel() == 0 then
      refuse("'%s/%s' is empty", group, name)
    end
    like = like or x
    if x:size(1) ~= like:size(1) or x:size(2) ~= like:size(2) then
      refuse("'%s/%s' has %d chains of %d draws, others %d of %d", group, name, x:size(1), x:size(2), like:size(1),
        like:size(2))
    end
    found[name] = x
  end
  return found, like
end

-- Where statistics lie that computations go by; those that do not are left out, and said.
local function statistics_of(found, notes)
  local columns = {}
  for name, t in pairs(found) do
    local own = arviz_groups.ours(name) or name
    if t:ndim() == 2 then
      columns[own] = t:to "float64"
    end
  end
  for _, name in ipairs { "divergent", "energy", "depth" } do
    local t = columns[name]
    if t and not t:isfinite():all():item() then
      notes[#notes + 1] = ("statistic '%s' is not finite everywhere and left out"):format(name)
      columns[name] = nil
    end
  end
  if columns.divergent and not columns.divergent:eq(0):logical_or(columns.divergent:eq(1)):all():item() then
    notes[#notes + 1] = "statistic 'divergent' is not 0 or 1 everywhere and left out"
    columns.divergent = nil
  end
  return columns
end

local function number(v, least)
  return type(v) == "number" and v - v == 0 and v >= least and v or nil
end

local function whole(v) return math.type(v) == "integer" and v >= 0 and v or nil end

local function posterior_of(groups, about)
  local notes = {}
  local draws, like = draws_of(groups, about, "posterior")
  if not like then
    refuse "it has no group 'posterior' with draws"
  end
  local statistics = statistics_of(draws_of(groups, about, "sample_stats", like), notes)
  local densities = draws_of(groups, about, "log_likelihood", like)
  local from = about.attributes.posterior or {}
  local evidence = number(from.log_evidence, -math.huge)
  return posterior.of_draws { draws = draws, names = options.sorted_keys(draws), statistics = statistics, notes = notes,
    log_densities = next(densities) and densities or nil, observed = groups.observed_data,
    warmup = whole(from.tuning_steps), seconds = number(from.sampling_time, 0), max_depth = whole(from.max_tree_depth),
    particles = from.particles == true or nil,
    log_evidence = evidence, log_evidence_error = evidence and number(from.log_evidence_error, 0), groups = groups,
    dims = about.dims, coords = about.coords }
end

--- arviz(path): the posterior of draws in a Zarr store (version 2) that ArviZ, or p:save_arviz, has written: p.draws
--- by name [chains, draws, ...], p.statistics under this library's names, p:summary(), p:plot(), p:loo() and p:waic()
--- where the group log_likelihood is there; p.groups, p.dims and p.coords as pn.data.zarr gives them. nil, message,
--- code for a file that is none. ArviZ compresses unless told otherwise; the message then says how.
function read_draws.arviz(path)
  options.argument("arviz", "path", path, "string")
  local groups, about, code = data.zarr(path)
  if not groups then
    return nil, about, code
  end
  return form.guarded(("arviz: '%s'"):format(path), posterior_of, groups, about)
end

return read_draws
