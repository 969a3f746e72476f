-- Layers with the weights of PyTorch's give its values, in both modes and both dtypes, and change their buffers as it
-- does.
local pn = require "penumbra"

local function tensor(v, dtype)
  local t = pn.tensor(v)
  if t:dtype() == "int64" and type(dtype) == "string" and dtype ~= "int64" then
    return t:to(dtype)
  end
  return t:dtype() == "bool" and t or t:to(dtype)
end

local function largest(t)
  return t:numel() == 0 and 0 or t:abs():max():item()
end

describe("with the weights of PyTorch's", function()
  for number, case in ipairs(dofile "spec/golden/nn/torch_layers.lua") do
    it(("%s gives its values (case %d)"):format(case.row, number), function()
      for dtype, tolerance in pairs { float64 = 1e-13, float32 = 2e-6 } do
        local arguments = { table.unpack(case.sizes) }
        local options = { dtype = case.state and next(case.state) and dtype or nil }
        for key, value in pairs(case.options) do
          options[key] = value
        end
        arguments[#arguments + 1] = options
        local layer, state, inputs = pn.nn[case.row](table.unpack(arguments)), {}, {}
        for name, value in pairs(case.state or {}) do
          state[name] = tensor(value, dtype)
        end
        layer:load_state(state)
        for k, value in ipairs(case.inputs) do
          inputs[k] = tensor(value, case.row == "embedding" and "int64" or dtype)
        end
        local function check(got, want)
          want = pn.tensor(want):to "float64"
          assert.same(want:shape(), got:shape())
          local off = largest(got:to "float64" - want)
          assert(off <= tolerance * math.max(1, largest(want)), ("off by %g"):format(off))
        end
        check(layer:evaluate(table.unpack(inputs)), case.output)
        check(layer:mean(table.unpack(inputs)), case.output)
        if case.training then
          local y = layer(table.unpack(inputs))
          check(y, case.training)
          local w = pn.param(pn.ones({}, { dtype = dtype }))
          pn.optim.sgd({ w }):step((y * w):sum())
          for name, value in pairs(case.after) do
            check(layer:state()[name], value)
          end
        end
      end
    end)
  end
end)
