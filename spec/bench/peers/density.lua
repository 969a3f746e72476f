--- Parameters and values of every distribution's row for ours.lua, N elements in all: parameters as large as the batch,
--- matrices shared by it. They are written to BUILD/peers-data/NAME-N.npz so that the peers compute the same.
local pn = require "penumbra"
local dist, data = pn.dist, pn.data
local density = {}

local EVENT = 10 -- size of vectors, rows of matrices
local COUNT = 10 -- trials

local function between(low, high)
  return function(shape) return pn.rand(shape) * (high - low) + low end
end
local function logits(shape) return pn.randn(shape) * 0.5 end
local function matrix() return (pn.randn{EVENT, EVENT} * 0.2):tril() + pn.eye(EVENT) end
local function square() local l = matrix() return l:matmul(l:t()) end

-- How to draw a parameter, by the name of its constraint. `shared`: one for the batch.
local draw = {real = logits, positive = between(0.5, 3), unit_interval = between(0.1, 0.9), real_vector = logits,
  open_unit_interval = between(0.1, 0.9), log_weights = logits, positive_vector = between(0.5, 3),
  simplex = function(shape) return logits(shape):softmax() end, nonnegative_integer = function() return COUNT end,
  lower_cholesky = matrix, positive_definite = square, real_matrix = function() return pn.randn{EVENT, 2} end}
draw.open_simplex = draw.simplex

local function one_for_all(value)
  return function() return pn.tensor(value) end
end

-- Where members of the constraints do not do together.
local special = {
  uniform = {low = between(-1, 0), high = between(1, 2)},
  log_uniform = {low = between(0.5, 1), high = between(2, 3)},
  truncated_normal = {low = between(-2, -1), high = between(1, 2)},
  student_t = {df = between(2, 6)},
  wishart = {df = between(12, 15)}, inverse_wishart = {df = between(12, 15)},
  normal_inverse_wishart = {df = between(12, 15)},
  multivariate_student_t = {df = between(2, 6)},
  relaxed_one_hot_categorical = {temperature = one_for_all(0.7)}, -- PyTorch has no other
}
-- among alternatives; else the first
local preferred = {logits = true, scale_tril = true, scale_tril_row = true, scale_tril_column = true}

local function chosen(row)
  local list, of = {}, {}
  for _, p in ipairs(row.parameters) do
    local c = p.choice
    if not c then
      list[#list + 1] = p
    elseif not of[c] then
      list[#list + 1] = p
      of[c] = #list
    elseif preferred[p.name] then
      list[of[c]] = p
    end
  end
  return list
end

--- Names and values of the parameters, or nil and the constraint that nothing is known of.
local function parameters(row, n)
  local batch = n // EVENT ^ row.event_rank
  local names, values = {}, {}
  for _, p in ipairs(chosen(row)) do
    local make = (special[row.name] or {})[p.name] or draw[p.constraint]
    if not make then return nil, p.constraint end
    local shape = {math.tointeger(batch)}
    if #(p.axes or "") == 1 then
      shape = {math.tointeger(row.event_rank == 2 and batch or n // EVENT), EVENT}
    elseif p.axes == "nm" then
      shape, make = {math.tointeger(batch), EVENT, EVENT}, logits
    end
    names[#names + 1], values[#values + 1] = p.name, make(shape)
  end
  return names, values
end

-- What is made of distributions: parameters and how. `build` gets them by name.
local composites = {
  mixture = {example = function(n) -- of ten normals
    local shape = {n // EVENT, EVENT}
    return {"logits", "loc", "scale"}, {logits(shape), logits(shape), between(0.5, 3)(shape)}
  end, build = function(t) return dist.mixture(dist.categorical{logits = t.logits}, dist.normal(t.loc, t.scale)) end},
  independent = {example = function(n)
    local shape = {n // EVENT, EVENT}
    return {"loc", "scale"}, {logits(shape), between(0.5, 3)(shape)}
  end, build = function(t) return dist.normal(t.loc, t.scale):independent(1) end},
  transformed = {example = function(n)
    return {"loc", "scale"}, {logits{n}, between(0.5, 1){n}}
  end, build = function(t)
    local map = dist.bijector
    return dist.transformed(dist.normal(t.loc, t.scale), map.chain{map.affine(1, 0.5), map.exp()})
  end},
  masked = {example = function(n)
    return {"loc", "scale", "mask"}, {logits{n}, between(0.5, 3){n}, pn.rand{n}:gt(0.3)}
  end, build = function(t) return dist.masked(dist.normal(t.loc, t.scale), t.mask) end},
}

--- The distributions, then what is made of them.
function density.rows()
  local list, names = {}, {}
  for _, row in ipairs(pn.rows()) do
    if row.kind == "distribution" then list[#list + 1] = row end
  end
  for name in pairs(composites) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do list[#list + 1] = {name = name, composite = composites[name]} end
  return list
end

local function is_float(t) return pn.is_tensor(t) and t:dtype():find "float" end

--- {log_prob =, gradient =, sample =}, each {function, its arguments}; or nil and why it cannot be.
function density.make(row, n, folder)
  local names, values
  if row.composite then
    names, values = row.composite.example(n)
  else
    names, values = parameters(row, n)
  end
  if not names then return nil, "no example for " .. values end
  local fixed, tensors, order = {}, {}, {}
  for k, name in ipairs(names) do
    if pn.is_tensor(values[k]) then
      tensors[#tensors + 1], order[#order + 1] = values[k], name
    else
      fixed[name] = values[k]
    end
  end
  local make = row.composite and row.composite.build or dist[row.name]
  local function build(...)
    local t = {}
    for name, value in pairs(fixed) do t[name] = value end
    for k, name in ipairs(order) do t[name] = (select(k, ...)) end
    return make(t)
  end
  local x = build(table.unpack(tensors)):sample()
  local record = {x = x, log_prob = build(table.unpack(tensors)):log_prob(x)}
  for k, name in ipairs(order) do record[name] = tensors[k] end
  for name, value in pairs(fixed) do record[name] = pn.tensor(value) end
  assert(data.save_npz(("%s/%s-%d.npz"):format(folder, row.name, n), record))
  -- gradients in the parameters, and in the value where it is continuous
  local leaves, value = {}, x
  local wanted = {}
  for k, t in ipairs(tensors) do
    leaves[k] = is_float(t) and pn.param(t) or t
    if is_float(t) then wanted[#wanted + 1] = leaves[k] end
  end
  if not row.discrete and is_float(x) then
    value = pn.param(x)
    wanted[#wanted + 1] = value
  end
  return {
    log_prob = {function(v, ...) return build(...):log_prob(v) end, x, table.unpack(tensors)},
    gradient = {function()
      return table.unpack(pn.grad(build(table.unpack(leaves)):log_prob(value):sum(), wanted))
    end},
    sample = {function(...) return build(...):sample() end, table.unpack(tensors)},
  }
end

return density
