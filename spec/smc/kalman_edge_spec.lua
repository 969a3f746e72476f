--- The steps of the filter at their edges: no filters at all, and each operand of another size.
local pn = require "penumbra"
local core = require "penumbra.core"

local n, p = 2, 3
local SHAPES = { mean = { n }, cov = { n, n }, l = { n, n }, a = { n, n }, b = { n }, q = { n, n }, y = { p },
  c = { p, n }, d = { p }, r = { p, p } }
local CALLS = {
  kalman_predict = { "mean", "cov", "a", "b", "q" },
  kalman_update = { "mean", "cov", "y", "c", "d", "r" },
  kalman_step = { "mean", "cov", "a", "b", "q", "y", "c", "d", "r" },
  kalman_root_predict = { "mean", "l", "a", "b", "q" },
  kalman_root_update = { "mean", "l", "y", "c", "d", "r" },
}

local function value(shape)
  if #shape == 0 then return pn.tensor(1) end
  return #shape == 2 and shape[1] == shape[2] and pn.eye(shape[1]) or pn.ones(shape)
end

describe("the filter's steps", function()
  for call, operands in pairs(CALLS) do
    it(call .. " names the operand that does not fit", function()
      for bad, name in ipairs(operands) do
        for axis = 1, #SHAPES[name] + 1 do -- one more along each axis, then an axis less
          local list, told = {}, name
          for k, other in ipairs(operands) do
            local shape = { table.unpack(SHAPES[other]) }
            if k == bad and axis > #shape then
              shape[#shape] = nil
            elseif k == bad then
              shape[axis] = shape[axis] + 1
            end
            list[k] = value(shape)
          end
          -- the last axis of cov and the rows of c, and of a of a prediction, say which sizes the others must have
          if name == "cov" and axis == 2 then told = "mean" elseif name == "c" and axis == 1 then told = "y" end
          if call == "kalman_predict" and name == "a" and axis == 1 then told = "b" end
          local ok, message = pcall(core[call], table.unpack(list))
          assert.is_false(ok)
          assert(message:find(call .. ": " .. told .. " must ", 1, true), message)
        end
      end
    end)
  end

  for call, operands in pairs(CALLS) do
    it(call .. " of no filters has gradients", function()
      for _, empty in ipairs(operands) do -- the operand whose batch is empty, all others being one
        for _, dtype in ipairs { "float64", "float32" } do
          local list = {}
          for k, name in ipairs(operands) do
            local x = value(SHAPES[name]):to(dtype)
            if name == empty then x = x:unsqueeze(1):broadcast_to { 0, table.unpack(SHAPES[name]) } end
            list[k] = pn.param(x)
          end
          local results, total = table.pack(core[call](table.unpack(list))), pn.zeros({}, { dtype = dtype })
          local filters = 0
          for k = 1, results.n do
            filters = filters + results[k]:numel()
            total = total + results[k]:sum()
          end
          local slopes = pn.grad(total, list)
          for k, name in ipairs(operands) do
            local slope = slopes[k]
            assert.same(list[k]:shape(), slope:shape(), name)
            if filters == 0 then assert.equal(0, slope:abs():sum():item(), name) end
          end
        end
      end
    end)
  end
end)
