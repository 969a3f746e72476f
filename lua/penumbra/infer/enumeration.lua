--- Sums over small discrete latent variables. An enumerated variable takes all its values along an axis of its own,
--- left of all plates; the factors of the model that depend on it carry this axis, and it is summed out of their
--- product, innermost variable first.
---
--- A variable z in plates P and the factors f_k(z, ...), each in plates P_k that contain P: the factors are summed over
--- the plates that P lacks (independent given z), added, and log sum_z exp(...) stands in plates P. This is variable
--- elimination over plates (Obermeyer et al. 2019), for plates that nest.
-- help: nowhere
local core = require "penumbra.core"
local dist = require "penumbra.distribution"

local enumeration = {}

local MOST_VALUES = 4096

local function count_values(site, d)
  if d.support == "boolean" then
    return 2
  elseif d.support == "integer_interval" and d.probs then
    return d.probs:size(-1)
  end
  core.error(("sample: '%s' cannot be enumerated: %s has no finite list of values (categorical and bernoulli have)")
    :format(site.name, d.name))
  return nil
end

--- All values of d as a tensor [K, ..., batch] whose first axis is the variable's own, and that axis' number counted
--- from the end.
function enumeration.values(m, site, d)
  if #d.event_shape > 0 then
    core.error(("sample: '%s' cannot be enumerated: its values are not numbers"):format(site.name))
  end
  local k = count_values(site, d)
  if k > MOST_VALUES then
    core.error(("sample: '%s' has %d values: too many to enumerate"):format(site.name, k))
  end
  m.enumerated = (m.enumerated or 0) + 1
  local axis = m.most + m.enumerated
  m.axis_sizes = m.axis_sizes or {}
  m.axis_sizes[axis] = k
  local batch = d.batch_shape
  local shape, from = { k }, {}
  from[1] = k
  for j = 1, axis - 1 do
    shape[j + 1] = batch[#batch - (axis - 1) + j] or 1
    from[j + 1] = 1
  end
  local values = core.arange(k, { dtype = d.support == "boolean" and d.dtype or "int64" })
  return values:reshape(from):broadcast_to(shape), axis
end

-- The size of the axis that is `axis`-th from the end, 1 where there is none.
local function size_at(t, axis)
  return t:ndim() >= axis and t:size(-axis) or 1
end

-- Sums a factor over plates deeper than `depth` (axes -depth - 1 ... -most), each scaled as its rows count.
local function over_plates(factor, depth)
  local lp, axes = factor.log_prob, {}
  for k = depth + 1, factor.depth do
    local plate = factor.plates[k]
    if lp:ndim() >= k then
      axes[#axes + 1] = -k
    end
    if plate.rows < plate.size then
      lp = lp * (plate.size / plate.rows)
    end
  end
  if #axes > 0 then
    lp = lp:sum(axes, true)
  end
  return lp
end

-- Does a factor stand in the plates of z, and maybe in more within the innermost?
local function within(factor, z)
  for k, plate in ipairs(z.plates) do
    if not factor.plates[k] or factor.plates[k].name ~= plate.name then
      return false
    end
  end
  return true
end

-- What sums of factors over a variable depend on, beside the variable itself.
local function join(into, factor)
  for _, name in ipairs(factor.observed) do
    table.insert(into.observed, name)
  end
  into.latent = into.latent or factor.latent
end

-- The factors of a trace's density with the enumerated variables summed out, innermost first; met(z, sum): the sum of
-- the factors in which z stands, before it is summed out.
local function eliminate(m, met)
  local factors, variables = {}, {}
  for _, site in ipairs(m.order) do
    if site.log_prob then
      factors[#factors + 1] = { log_prob = site.log_prob, plates = site.plates, depth = #site.plates,
        scale = site.scale,
        observed = { site.observed and site.name }, latent = not site.observed and not site.enumerated }
    end
    if site.enumerated then
      variables[#variables + 1] = site
    end
  end
  for v = #variables, 1, -1 do
    local z = variables[v]
    local depth, sum, rest = #z.plates, nil, {}
    local joined = { plates = z.plates, depth = depth, scale = z.scale, observed = {} }
    for _, factor in ipairs(factors) do
      if size_at(factor.log_prob, z.axis) > 1 then
        if not within(factor, z) then
          core.error(("sample: '%s' is enumerated in plate '%s', but what depends on it stands outside"):format(z.name,
            z.plates[depth].name))
        end
        local lp = over_plates(factor, depth)
        sum = sum and sum + lp or lp
        join(joined, factor)
      else
        rest[#rest + 1] = factor
      end
    end
    if sum then
      met(z, sum)
      joined.log_prob = sum:logsumexp(-z.axis, true)
      rest[#rest + 1] = joined
    end
    factors = rest
  end
  return factors, variables
end

--- The factors of a trace's density: a list of {log_prob, plates, depth, scale, observed, latent}, enumerated variables
--- summed out. observed: list of the observed sites in it; latent: is a latent variable that is not summed out?
function enumeration.factors(m)
  return (eliminate(m, function() end))
end

-- log p, with the axis of z at its drawn value, of size 1.
local function at_drawn(log_p, z, index)
  local k, shape = log_p:size(-z.axis), {}
  shape[1] = k
  for j = 2, z.axis do
    shape[j] = 1
  end
  local here = core.arange(k, { dtype = "int64" }):reshape(shape):eq(index)
  local never = core.full({}, -math.huge, { dtype = log_p:dtype() })
  return core.where(here, log_p, never):logsumexp(-z.axis, true)
end

-- A draw of z by its unnormalised log law along its axis: a number for each row of its plates, int64.
local function draw_index(log_p, z)
  local n, order, rows = log_p:ndim(), {}, {}
  local axis = n - z.axis + 1
  for k = 1, n do
    order[#order + 1] = k ~= axis and k or nil
  end
  order[n] = axis
  for k, plate in ipairs(z.plates) do
    rows[#z.plates - k + 1] = plate.rows
  end
  return dist.categorical { logits = log_p:permute(order) }:sample():reshape(rows)
end

--- Draws of the enumerated variables of a trace from their joint law given all else in it: table name -> value. The
--- first is drawn with all others summed out, each further one given those before it.
function enumeration.draw(m)
  local laws, drawn, values = {}, {}, {}
  local _, variables = eliminate(m, function(z, sum) laws[z] = sum end)
  for _, z in ipairs(variables) do
    local log_p = laws[z]
    for before, index in pairs(drawn) do
      if size_at(log_p, before.axis) > 1 then
        log_p = at_drawn(log_p, before, index)
      end
    end
    drawn[z] = draw_index(log_p, z)
    values[z.name] = drawn[z]:to(z.value:dtype())
  end
  return values
end

--- The log density of a trace with enumerated variables: they are summed out. 0-d.
function enumeration.log_density(m)
  local total
  for _, factor in ipairs(enumeration.factors(m)) do
    local lp = factor.log_prob:sum()
    lp = factor.scale ~= 1 and lp * factor.scale or lp
    total = total and total + lp or lp
  end
  return total or core.tensor(0)
end

return enumeration
