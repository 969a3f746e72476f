-- The battery of operations: loops over the rows, so a new row is tested by being there. Values are
-- checked against other programs elsewhere (spec/c/tensor_test.c); here: gradients of first and second
-- order against differences, both element types, strided and broadcast inputs, errors.
local pn = require "penumbra"

local cases = require "spec.autodiff.op_case"
local case, params = cases.case, cases.params

local count = 0

-- Rows whose axes are counted from the first, or of which there are as many as there are.
local OWN_AXES = {}
for name in ("avg_pool2d broadcast_to conv2d conv_transpose2d einsum gather ifft max_pool2d nonzero pad permute "
  .. "reshape rfft scatter_add take take_add"):gmatch "%S+" do
  OWN_AXES[name] = true
end
-- With how many axes of 1 before their own rows are refused, since something has more axes than the inputs.
local REFUSED = { diag_embed = 6, kalman_predict = 5, kalman_update = 5, kalman_step = 5 }

local function near(got, want, what)
  assert(got:numel() == want:numel(), what)
  local a, b = want:reshape({ -1 }):to "float64", got:reshape({ -1 }):to "float64"
  assert((a - b):abs():le(a:abs() * 1e-12 + 1e-14):logical_or(a:eq(b)):all():item(), what)
end

describe("operation", function()
  for _, row in ipairs(pn.rows()) do
    if row.kind == "op" and not row.hidden and not OWN_AXES[row.name] then
      it(row.name .. " gives the same with axes of 1 before its own, as many as fit", function()
        local call, inputs = case(row, "float64", row.square and { 2, 3, 3 } or { 2, 3 })
        local function slopes(x)
          local w = params(x)
          local y = call(w)
          return y, row.differentiable and pn.grad(y:square():sum(), w) or {}
        end
        local want, in_inputs = slopes(inputs)
        local most = 0
        for _, x in ipairs(inputs) do
          most = math.max(most, x:ndim())
        end
        for k = 1, 8 - most do
          local more, what = {}, ("%s, %d axes more"):format(row.name, k)
          for i, x in ipairs(inputs) do
            local shape = x:shape()
            for _ = 1, k do
              table.insert(shape, 1, 1)
            end
            more[i] = x:reshape(shape)
          end
          local ok, y, g = pcall(slopes, more)
          assert(ok == (k < (REFUSED[row.name] or 9)), what .. ": " .. tostring(y))
          if not ok then
            assert(y:find(row.name .. ": ", 1, true) and y:find "axes", y)
            break
          end
          near(y, want, what)
          for i, slope in ipairs(g) do
            near(slope, in_inputs[i], what .. ", slope")
          end
        end
      end)
    end
  end

  for _, row in ipairs(pn.rows()) do
    if row.kind == "op" and not row.hidden and row.differentiable then
      count = count + 1
      local shape = row.square and { 2, 3, 3 } or { 2, 3 }

      it(row.name .. " has the gradients that differences show", function()
        local call, inputs = case(row, "float64", shape)
        local w = params(inputs)
        assert(pn.check_gradients(function()
          return call(w)
        end, w, { order = row.once and 1 or 2 }))
      end)

      it(row.name .. " gives the same through strided inputs", function()
        local call, inputs = case(row, "float64", shape)
        local strided = {}
        for k, x in ipairs(inputs) do -- every second element of a wider tensor, backwards
          local n = x:size(-1)
          local wide = pn.stack({ x:flip(-1), x * 0 + 0.5 }, -1)
          local sizes = x:shape()
          sizes[#sizes] = 2 * n
          strided[k] = wide:reshape(sizes):slice(-1, 2 * n - 1, 1, -2)
        end
        local a, b = call(inputs), call(strided)
        assert.is_true((a - b):abs():max():item() <= 1e-15 * math.max(1, a:abs():max():item()))
      end)

      it(row.name .. " agrees in float32", function()
        local call64, in64 = case(row, "float64", shape)
        local call32, in32 = case(row, "float32", shape)
        local a, b = call64(in64), call32(in32)
        assert.equal("float32", b:dtype())
        local err = (a - b:to "float64"):abs() / (a:abs() + 1)
        assert.is_true(err:max():item() < 2e-5)
      end)

      it(row.name .. " refuses two element types at once and names both", function()
        local call, inputs = case(row, "float64", shape)
        if #inputs > 1 then
          inputs[2] = inputs[2]:to "float32"
          local ok, message = pcall(call, inputs)
          assert.is_false(ok)
          assert.matches("float64", message)
          assert.matches("float32", message)
        else
          local ok, message = pcall(call, { "no tensor" })
          assert.is_false(ok)
          assert.matches("tensor", message)
        end
      end)
    end
  end

  it("matmul takes vectors, batches and their broadcasts, with gradients", function()
    for _, shapes in ipairs {
      { { 3 }, { 3 } }, { { 3 }, { 3, 2 } }, { { 2, 3 }, { 3 } }, { { 4, 2, 3 }, { 3 } }, { { 3 }, { 4, 3, 2 } },
      { { 4, 2, 3 }, { 3, 2 } }, { { 2, 3 }, { 4, 3, 2 } }, { { 4, 1, 2, 3 }, { 5, 3, 2 } },
    } do
      local a, b = pn.param(pn.randn(shapes[1])), pn.param(pn.randn(shapes[2]))
      assert(pn.check_gradients(function()
        return a:matmul(b)
      end, { a, b }, { order = 2 }))
    end
    assert.equal(11, pn.tensor({ 1, 2 }):matmul(pn.tensor { 3, 4 }):item())
    assert.same({ 5, 11 }, pn.tensor({ { 1, 2 }, { 3, 4 } }):matmul(pn.tensor { 1, 2 }):totable())
    assert.same({ 7, 10 }, pn.tensor({ 1, 2 }):matmul(pn.tensor { { 1, 2 }, { 3, 4 } }):totable())
  end)

  it("rows are there", function()
    assert.is_true(count > 50)
  end)
end)
