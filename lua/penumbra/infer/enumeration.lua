--- Sums over small discrete latent variables. An enumerated variable takes all its values along an axis of its own,
--- left of all plates; the factors of the model that depend on it carry this axis, and it is summed out of their
--- product, innermost variable first.
---
--- A variable z in plates P and the factors f_k(z, ...), each in plates P_k that contain P: the factors are summed over
--- the plates that P lacks (independent given z), added, and log sum_z exp(...) stands in plates P. This is variable
--- elimination over plates (Obermeyer et al. 2019), for plates that nest.
---
--- In m:scan a variable of a turn is summed out as soon as the carry no longer holds it, and its axis is taken by those
--- of later turns: the filter of a hidden Markov model, whatever the number of turns.
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

local AXES = 8 -- that a tensor has
local FRESH = 3 -- turns whose variables get axes of their own: what a turn sees of one long gone is noticed

-- What is known of the sums of a run: variables that are not summed out, in the order in which they came; factors that
-- wait for their sums; how many sites were taken as factors; the laws by which variables were summed out; the axis
-- given last and those between which axes go round in a loop.
local function sums_of(m)
  if not m.sums then
    m.sums = { open = {}, number = 0, factors = {}, taken = 0, laws = {}, last = m.most, bottom = m.most, top = m.most }
    m.axis_sizes = {}
  end
  return m.sums
end

-- The next axis in turn that no variable has, or nil.
local function free_axis(sums, used)
  local count = sums.top - sums.bottom
  for step = 0, count - 1 do
    local axis = sums.bottom + (sums.last - sums.bottom + step) % count + 1
    if not used[axis] then
      return axis
    end
  end
end

-- An axis for the values of a site: a new one, or in later turns of a loop one that is free again.
local function new_axis(m, site)
  local sums, used, axis = sums_of(m), {}, m.most
  for _, z in ipairs(sums.open) do
    used[z.axis] = true
    axis = math.max(axis, z.axis)
  end
  if m.turns and m.turns >= FRESH then
    axis = free_axis(sums, used) or sums.top + 1
  else
    axis = math.max(axis, m.turns and sums.last or 0) + 1
  end
  if axis > AXES then
    core.error(("sample: '%s' would be the variable number %d that is enumerated beside others and not summed out: "
      .. "tensors have %d axes. In m:scan the carry says what later turns depend on: it must hold no more than they "
      .. "need"):format(site.name, axis - m.most, AXES))
  end
  sums.last, sums.top, sums.number = axis, math.max(sums.top, axis), sums.number + 1
  m.enumerated = math.max(m.enumerated or 0, axis - m.most)
  sums.open[#sums.open + 1] = { site = site, axis = axis, plates = site.plates, scale = site.scale, name = site.name,
    number = sums.number }
  return axis
end

-- A shape whose axis number p from the end has size(p), of at least `most` axes.
local function shape_of(most, size)
  local shape = {}
  for k = 1, most do
    shape[k] = size(most - k + 1)
  end
  return shape
end

--- All values of d as a tensor [K, ..., rows of plates], whose axis number `axis` from the end is the variable's own;
--- that number; and the values with all axes of d's batch.
function enumeration.values(m, site, d)
  if #d.event_shape > 0 then
    core.error(("sample: '%s' cannot be enumerated: its values are not numbers"):format(site.name))
  end
  local k = count_values(site, d)
  if k > MOST_VALUES then
    core.error(("sample: '%s' has %d values: too many to enumerate"):format(site.name, k))
  end
  local axis = new_axis(m, site)
  m.axis_sizes[axis] = k
  local batch = d.batch_shape
  local function along(p)
    return p == axis and k or batch[#batch - p + 1] or 1
  end
  local values = core.arange(k, { dtype = d.support == "boolean" and d.dtype or "int64" }):reshape(shape_of(axis,
    function(p) return p == axis and k or 1 end))
  local own = values:broadcast_to(shape_of(axis, function(p) return (p == axis or p <= m.most) and along(p) or 1 end))
  return own, axis, values:broadcast_to(shape_of(math.max(axis, #batch), along))
end

--- One value of d, the first, for a run that only looks what sites there are: nothing is drawn.
function enumeration.first_value(d)
  local shape = table.move(d.event_shape, 1, #d.event_shape, #d.batch_shape + 1, table.move(d.batch_shape, 1,
    #d.batch_shape, 1, {}))
  return core.zeros(shape, { dtype = d.support == "integer_interval" and "int64" or d.dtype })
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
  if #into.observed == 0 then
    into.observed = factor.observed -- (a factor is joined once)
  else
    table.move(factor.observed, 1, #factor.observed, #into.observed + 1, into.observed)
  end
  into.latent = into.latent or factor.latent
end

-- The sites of a run since the last time, as factors.
local function gather(m, sums)
  for k = sums.taken + 1, #m.order do
    local site = m.order[k]
    local lp = site.log_prob
    if lp then
      if site.enumerated and m.how.labels then
        local zeros = m.how.labels[site.name] or core.param(core.zeros(site.value:shape(), { dtype = lp:dtype() }))
        m.how.labels[site.name] = zeros
        lp = lp + zeros
      end
      sums.factors[#sums.factors + 1] = { log_prob = lp, plates = site.plates, depth = #site.plates, scale = site.scale,
        observed = { site.observed and site or nil }, latent = not site.observed and not site.enumerated }
    end
  end
  sums.taken = #m.order
end

-- Sums variable z out of the factors; keeps the law it is summed by.
local function sum_out(sums, z)
  local depth, sum, rest = #z.plates, nil, {}
  local joined = { plates = z.plates, depth = depth, scale = z.scale, observed = {} }
  for _, factor in ipairs(sums.factors) do
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
  local open, beside = {}, {}
  for _, other in ipairs(sums.open) do
    if other ~= z then
      open[#open + 1] = other
      beside[#open] = { z = other, axis = other.axis }
    end
  end
  if sum then
    sums.laws[#sums.laws + 1] = { z = z, log_p = sum, beside = beside }
    joined.log_prob = sum:logsumexp(-z.axis, true)
    rest[#rest + 1] = joined
  end
  sums.factors, sums.open = rest, open
end

-- Is there a factor in which z meets a variable of deeper plates that is not summed out? That one must be first.
local function waits(sums, z)
  for _, other in ipairs(sums.open) do
    for _, factor in ipairs(#other.plates > #z.plates and sums.factors or {}) do
      if size_at(factor.log_prob, z.axis) > 1 and size_at(factor.log_prob, other.axis) > 1 then
        return true
      end
    end
  end
  return false
end

-- Variables in the order in which they are summed out: those of deeper plates first, later ones before earlier ones.
local function innermost_first(list)
  table.sort(list, function(a, b)
    if #a.plates ~= #b.plates then
      return #a.plates > #b.plates
    end
    return a.number > b.number
  end)
  return list
end

-- Marks the axes along which the tensors in a value of a script lie; false where it holds what cannot be looked into.
local function mark_axes(value, most, axes, seen)
  if core.is_tensor(value) then
    for axis = most + 1, value:ndim() do
      axes[axis] = axes[axis] or value:size(-axis) > 1
    end
    return true
  elseif type(value) ~= "table" then
    return type(value) ~= "userdata" and type(value) ~= "function" and type(value) ~= "thread"
  elseif getmetatable(value) then
    return false
  elseif seen[value] then
    return true
  end
  seen[value] = true
  for _, part in pairs(value) do
    if not mark_axes(part, most, axes, seen) then
      return false
    end
  end
  return true
end

--- A loop over time begins. Gives how many variables are not summed out.
function enumeration.begin_scan(m)
  local sums = sums_of(m)
  if not m.turns then
    local top = m.most
    for _, z in ipairs(sums.open) do
      top = math.max(top, z.axis)
    end
    m.turns, sums.last, sums.bottom, sums.top = 0, top, top, top
  end
  return #sums.open
end

--- A turn of a loop over time that began with `before` variables has ended with this carry: those of the loop that the
--- carry does not hold are summed out.
function enumeration.end_turn(m, before, carry)
  local sums, axes, gone = m.sums, {}, {}
  m.turns = m.turns + 1
  if #sums.open <= before or not mark_axes(carry, m.most, axes, {}) then
    return
  end
  gather(m, sums)
  for k = before + 1, #sums.open do
    local z = sums.open[k]
    gone[#gone + 1] = not axes[z.axis] and z or nil
  end
  for _, z in ipairs(innermost_first(gone)) do
    if not waits(sums, z) then
      sum_out(sums, z)
      m.axis_sizes[z.axis] = 1
    end
  end
end

-- The factors of a trace's density with all enumerated variables summed out, and the laws by which they were.
local function eliminate(m)
  local sums = sums_of(m)
  gather(m, sums)
  for _, z in ipairs(innermost_first(table.move(sums.open, 1, #sums.open, 1, {}))) do
    sum_out(sums, z)
  end
  return sums.factors, sums.laws
end

--- The factors of a trace's density: a list of {log_prob, plates, depth, scale, observed, latent}, enumerated variables
--- summed out. observed: list of the observed sites in it; latent: is a latent variable that is not summed out?
function enumeration.factors(m)
  return (eliminate(m))
end

-- log p, with an axis of a variable at its drawn value, of size 1.
local function at_drawn(log_p, axis, index)
  local k, shape = log_p:size(-axis), {}
  shape[1] = k
  for j = 2, axis do
    shape[j] = 1
  end
  local here = core.arange(k, { dtype = "int64" }):reshape(shape):eq(index)
  local never = core.full({}, -math.huge, { dtype = log_p:dtype() })
  return core.where(here, log_p, never):logsumexp(-axis, true)
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
--- one summed out last is drawn first, each further one given those that its law still held.
function enumeration.draw(m)
  local drawn, values = {}, {}
  local _, laws = eliminate(m)
  for v = #laws, 1, -1 do
    local z, log_p = laws[v].z, laws[v].log_p
    for _, other in ipairs(laws[v].beside) do
      if size_at(log_p, other.axis) > 1 then
        log_p = at_drawn(log_p, other.axis, drawn[other.z])
      end
    end
    drawn[z] = draw_index(log_p, z)
    values[z.name] = drawn[z]:to(z.site.value:dtype())
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
