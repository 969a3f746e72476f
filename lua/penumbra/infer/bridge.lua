--- What a host that speaks BridgeStan's C interface (src/bridge) asks of a target beside its density: the density
--- without the bijectors' determinants, the way from values back to real numbers, the shapes of these.
-- help: nowhere
local core = require "penumbra.core"

local LARGEST = 1e300
local TOLERANCE = { float64 = 1e-8, float32 = 1e-5 } -- of a value that has gone to the real numbers and come back

-- {ndim, sizes...} of the real numbers of each latent variable, one row each.
local function real_shapes(target)
  local rows = {}
  for k, entry in ipairs(target.layout) do
    local row = { #entry.shape, 0, 0, 0, 0, 0, 0, 0, 0 }
    for j, size in ipairs(entry.shape) do
      row[j + 1] = size
    end
    rows[k] = row
  end
  return core.tensor(rows)
end

-- A value of its site's shape in the site's dtype.
local function fitting(target, entry, value)
  local x = core.is_tensor(value) and value or core.tensor(value)
  local site = target.trace.sites[entry.name].value
  local want, got = table.concat(entry.value_shape, ", "), table.concat(x:shape(), ", ")
  if want ~= got then
    core.error(("'%s' has shape [%s], got [%s]"):format(entry.name, want, got))
  end
  return x:dtype() ~= site:dtype() and x:to(site:dtype()) or x
end

local function all_below(x, limit)
  return x:le(limit):to("float64"):sum():item() == x:numel()
end

-- Raises where not all of a variable's numbers are inside.
local function check(inside, entry)
  if not inside then
    core.error(("'%s' lies outside of its support"):format(entry.name))
  end
end

-- z of these values (and of `start` for those that are not there): what comes back from it must be what was given.
local function checked(target, values, start)
  local z = target:unconstrain(values, start)
  for _, entry in ipairs(target.layout) do
    check(all_below(z:slice(1, entry.first, entry.last):abs(), LARGEST), entry)
  end
  local back = target:constrain(z)
  for _, entry in ipairs(target.layout) do
    local x, y = values[entry.name], back[entry.name]
    local tolerance = TOLERANCE[y:dtype()]
    check(not x or all_below((y - x):abs() - x:abs() * tolerance, tolerance), entry)
  end
  return z
end

-- How hosts call a variable: "x[3]" is x_3_.
local function host_name(name)
  return (name:gsub("[^A-Za-z0-9_]", "_"))
end

-- Values by name from a vector of all latent variables' numbers.
local function by_name(target, x)
  local values = {}
  for k, entry in ipairs(target.layout) do
    local out = target:outputs()[k]
    values[entry.name] = fitting(target, entry, x:slice(1, out.first, out.last):reshape(entry.value_shape))
  end
  return values
end

--- new(target): {plain, shapes, draws, unconstrain, merge} of a target. plain is what a host takes as the density
--- without determinants; draws is 1 if deterministic variables are drawn at random, else 0; unconstrain(x) gives z [n]
--- of the values x of all latent variables; merge(z) gives the z of the values by name in bridge.given and, for
--- variables that are not there, of z itself. Internal.
local function new(target)
  local bridge = { given = {}, shapes = real_shapes(target), draws = 0, plain = {} }
  for _, out in ipairs(target:outputs()) do
    bridge.draws = out.deterministic and target.enumerates and 1 or bridge.draws
  end

  function bridge.plain.for_host()
    return target:for_host(false)
  end

  function bridge.unconstrain(x)
    return checked(target, by_name(target, x))
  end

  function bridge.merge(z)
    local values = {}
    for _, entry in ipairs(target.layout) do
      local value = bridge.given[host_name(entry.name)]
      values[entry.name] = value and fitting(target, entry, value)
    end
    return checked(target, values, z)
  end

  return bridge
end

return { new = new }
