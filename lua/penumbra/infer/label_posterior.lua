--- The posterior of enumerated variables, which a density is summed over: probabilities of their values and joint
--- draws, given draws of all other variables and the data. The probability that z = k is the derivative of the log
--- density by a number added to log p(z = k): the gradient of the sum is the forward-backward pass of whatever was
--- summed.
-- help: nowhere
local core = require "penumbra.core"
local at_draws = require "penumbra.infer.at_draws"
local enumeration = require "penumbra.infer.enumeration"
local model = require "penumbra.infer.model"

local label_posterior = {}

local function refuse(where)
  core.error(where .. ": the model enumerates no variable ({enumerate = true} of m:sample)")
end

-- The run of m on args at x, a draw of the target t, with its enumerated variables.
local function run(t, m, args, x, labels)
  return model.run(m, args, { whole = true, enumerate = true, most = t.most, value = t:values_at(x), labels = labels })
end

-- The gradient by the labels of a site, [K, 1..., rows...], as [rows..., K].
local function last_axis(g, site)
  local order = {}
  for axis = 2, g:ndim() do
    order[axis - 1] = axis
  end
  order[g:ndim()] = 1
  local sizes = {}
  for k, plate in ipairs(site.plates) do
    sizes[#site.plates - k + 1] = plate.rows
  end
  sizes[#sizes + 1] = g:size(1)
  return g:permute(order):reshape(sizes)
end

-- The sites of a run that have a value in `values`, by name, and those values.
local function valued(trace, values)
  local sites, list = {}, {}
  for _, site in ipairs(trace.order) do
    if values[site.name] then
      sites[#sites + 1] = { name = site.name, base = site.base, time = site.time }
      list[#list + 1] = values[site.name]
    end
  end
  return sites, list
end

--- Table site -> [..., K], the mean over the rows of z, draws of the target t.
function label_posterior.probabilities(t, m, args, z)
  if not t.enumerates then
    refuse "labels"
  end
  local sites
  local labels = {} -- made by the first run, which is not captured
  local list = at_draws.mean(z, m.body, function(x)
    local trace = run(t, m, args, x, labels)
    local numbers
    sites, numbers = valued(trace, labels)
    local parts = core.grad(trace:log_density(), numbers)
    for k, g in ipairs(parts) do -- g: [K, 1..., rows...]
      parts[k] = last_axis(g, trace.sites[sites[k].name])
    end
    return parts
  end)
  return (at_draws.joined(sites, list, 0))
end

--- Table site -> int64 [N, ...], a joint draw for each row of z.
function label_posterior.draws(t, m, args, z)
  if not t.enumerates then
    refuse "label_draws"
  end
  local sites
  local list = at_draws.each(z, m.body, function(x)
    local trace = run(t, m, args, x)
    local parts
    sites, parts = valued(trace, enumeration.draw(trace))
    return parts
  end)
  for k, part in ipairs(list) do
    list[k] = part:to "int64"
  end
  return (at_draws.joined(sites, list, 1))
end

return label_posterior
