--- Cases of the operation rows, for the batteries that loop over them: `case(row, dtype, shape)` gives the row
--- as a function of a list of its float inputs, and those inputs.
local pn = require "penumbra"

local M = {}

function M.floats(domain, shape, dtype, seed)
  local g = pn.generator(seed)
  local lo, hi = domain[1], domain[2]
  if lo == 0 and hi == 0 then
    lo, hi = -2, 2
  end
  local u = pn.rand(shape, { generator = g })
  return (u * (0.9 * (hi - lo)) + (lo + 0.05 * (hi - lo))):to(dtype or "float64")
end

-- arguments of rows whose letters alone do not tell what fits a [2, 3] or [3, 3] tensor
local special = {
  reshape = { shape = { 3, 2 } },
  broadcast_to = { shape = { 4, 2, 3 } },
  permute = { order = { 2, 1 } },
  pad = { axis = 2, before = 1, after = 2 },
  gather = { axis = 1, index = pn.tensor({ { 0, 1, 1 }, { 1, 1, 0 } }, { dtype = "int64" }) },
  scatter_add = { axis = 1, index = pn.tensor({ { 0, 1, 1 }, { 1, 1, 0 } }, { dtype = "int64" }) },
  bucketize = { edges = pn.tensor { -1, 0, 0.5, 1.5 } },
  take = { axis = 2, index = pn.tensor({ { 2, 0 }, { 1, 2 } }, { dtype = "int64" }) },
  clamp = { low = -0.8, high = 0.7 },
  where = { condition = pn.tensor { { true, false, true }, { false, false, true } } },
  polygamma = { n = 2 },
  matmul = { shapes = { { 2, 3 }, { 3, 2 } } },
  cholesky = { shapes = { { 2, 3, 3 } }, adjust = { "diagonal" } },
  solve_triangular = { shapes = { { 2, 3, 3 }, { 3, 2 } }, adjust = { "diagonal" } },
  cholesky_solve = { shapes = { { 3, 3 }, { 2, 3, 2 } }, adjust = { "diagonal" } },
  solve = { shapes = { { 2, 3, 3 }, { 2, 3, 1 } }, adjust = { "diagonal" } },
  inverse = { shapes = { { 2, 3, 3 } }, adjust = { "diagonal" } },
  logdet = { shapes = { { 2, 3, 3 } }, adjust = { "diagonal" } },
  det_sign = { shapes = { { 2, 3, 3 } }, adjust = { "diagonal" } },
  det = { shapes = { { 2, 3, 3 } }, adjust = { "diagonal" } },
  eigh = { shapes = { { 2, 3, 3 } } },
  slogdet = { shapes = { { 2, 3, 3 } }, adjust = { "diagonal" }, result = 2 },
  kalman_predict = { shapes = { { 2, 3 }, { 3, 3 }, { 2, 2, 3 }, { 2 }, { 2, 2 } }, result = 2 },
  kalman_update = { shapes = { { 2, 3 }, { 2, 3, 3 }, { 3 }, { 3, 3 }, { 2, 3 }, { 3, 3 } }, result = 3,
    adjust = { [2] = "diagonal", [6] = "diagonal" } },
  kalman_step = { shapes = { { 2, 3 }, { 2, 3, 3 }, { 3, 3 }, { 3 }, { 3, 3 }, { 3 }, { 3, 3 }, { 2, 3 }, { 3, 3 } },
    result = 3, adjust = { [2] = "diagonal", [5] = "diagonal", [9] = "diagonal" } },
  kalman_root_predict = { shapes = { { 2, 3 }, { 3, 3 }, { 2, 3, 3 }, { 3 }, { 3, 3 } }, result = 2,
    adjust = { [2] = "diagonal", [5] = "diagonal" } },
  kalman_root_update = { shapes = { { 2, 3 }, { 2, 3, 3 }, { 3 }, { 3, 3 }, { 2, 3 }, { 3, 3 } }, result = 3,
    adjust = { [2] = "diagonal", [6] = "diagonal" } },
  cholesky_update = { shapes = { { 2, 3, 3 }, { 3, 2 } }, adjust = { "diagonal" } },
  einsum = { spec = "ij,kj->ik" },
  conv2d = { shapes = { { 2, 2, 4, 5 }, { 2, 1, 3, 2 } }, stride = { 1, 2 }, padding = 1, groups = 2 },
  conv_transpose2d = { shapes = { { 2, 2, 2, 3 }, { 2, 1, 3, 2 } }, stride = { 1, 2 }, groups = 2,
    output_padding = { 0, 1 } },
  max_pool2d = { shapes = { { 2, 1, 4, 5 } }, kernel = { 2, 3 }, padding = { 1, 0 } },
  avg_pool2d = { shapes = { { 2, 1, 4, 5 } }, kernel = 2, stride = { 1, 2 }, count_include_pad = false },
  fft = { shapes = { { 2, 3, 2 } } },
  ifft = { shapes = { { 2, 3, 2 } }, axis = 1 },
  rfft = { axis = 1 },
  irfft = { shapes = { { 2, 3, 2 } }, axis = -2, n = 5 },
  take_add = { axis = 1, index = pn.tensor({ 1, 0 }, { dtype = "int64" }), size = 3 },
}

local function parse(args)
  local out = {}
  for name, kind in args:gmatch "([%w_]+):(%a)" do
    out[#out + 1] = { name = name, kind = kind }
  end
  return out
end

--- the row as a function of its float inputs, and those inputs
function M.case(row, dtype, shape)
  local given = row.sample or special[row.name] or {}
  local inputs, slots, position = {}, {}, 0
  local args = parse(row.args)
  for k, a in ipairs(args) do
    if a.kind == "t" and given[a.name] then
      local value = given[a.name]
      slots[k] = pn.is_tensor(value) and value:dtype() == "float64" and value:to(dtype or "float64") or value
    elseif a.kind == "t" then
      position = position + 1
      local at = given.shapes and given.shapes[position] or given.shape_in or shape
      local x = M.floats(row.domain[position], at, dtype, 10 * position + 7)
      if given.adjust and given.adjust[position] == "diagonal" then -- far from singular
        x = x * 0.4 + pn.eye(at[#at]):to(dtype) * at[#at]
      end
      inputs[#inputs + 1] = x
      slots[k] = #inputs
    elseif a.kind == "T" then
      inputs[1], inputs[2] = M.floats(row.domain[1], shape, dtype, 5), M.floats(row.domain[1], shape, dtype, 6)
      slots[k] = "list"
    else
      slots[k] = given[a.name]
    end
  end
  local function call(x)
    local actual = {}
    for k, a in ipairs(args) do
      local slot = slots[k]
      if slot == "list" then
        actual[k] = { x[1], x[2] }
      elseif a.kind == "t" and math.type(slot) then
        actual[k] = x[slot]
      else
        actual[k] = slot
      end
    end
    return (select(given.result or 1, pn[row.name](table.unpack(actual, 1, #args))))
  end
  return call, inputs
end

--- A parameter for each input.
function M.params(inputs)
  local out = {}
  for k, x in ipairs(inputs) do
    out[k] = pn.param(x)
  end
  return out
end

return M
