--- What pn.check_gradients compares, number by number: central differences of polynomials are known exactly.
local pn = require "penumbra"
local near = require("spec.helper").near

describe("a check of gradients", function()
  -- Of w^3 with steps h the difference is 3 w^2 + h^2, h = step max(1, |w|); element k, from 0, has the weight
  -- sin(0.37 k + 1).
  it("takes differences by steps in proportion to numbers above 1", function()
    for k, case in ipairs { { { 0.5, 0.25 }, 0.1 }, { { 2, 0.5 }, 0.1 }, { { 0.25, -4 }, 0.05 }, { { -3 }, 0.1 } } do
      local values, step = table.unpack(case)
      local w = pn.param(pn.tensor(values))
      local report = pn.check_gradients(function() return w ^ 3 end, { w }, { step = step, tolerance = 1 })
      local largest, at, want, slope = -1, nil, nil, nil
      for i, v in ipairs(values) do
        local weight, h = math.sin(0.37 * (i - 1) + 1), step * math.max(1, math.abs(v))
        local gradient, differences = weight * 3 * v * v, weight * (3 * v * v + h * h)
        local off = math.abs(gradient - differences) / math.max(1, math.abs(differences))
        if off > largest then largest, at, want, slope = off, i, differences, gradient end
      end
      assert.equal(at, report.element, k)
      near(report.error, largest, 1e-9)
      near(report.differences, want, 1e-9)
      near(report.gradient, slope, 1e-9)
      assert.has_error(function() -- a little less is too little
        pn.check_gradients(function() return w ^ 3 end, { w }, { step = step, tolerance = largest * 0.999 })
      end)
      pn.check_gradients(function() return w ^ 3 end, { w }, { step = step, tolerance = largest * 1.001 })
      assert.same(values, w:totable())
    end
  end)

  -- First derivatives of the weighted u^4 along cos(0.61 k + p), p the parameter's number: s c 4 u^3, whose difference
  -- is s c (12 u^2 + 4 h^2).
  it("takes second derivatives along a direction of all parameters", function()
    local u, v, h = pn.param(pn.tensor { 0.5, -0.75 }), pn.param(pn.tensor { 0.25 }), 0.1
    local function f() return pn.concatenate({ u, v }, 1) ^ 4 end
    local o = { order = 2, step = h, tolerance = 10, tolerance2 = 10 }
    local report = pn.check_gradients(f, { u, v }, o)
    local largest, want = -1, nil
    for k, x in ipairs { 0.5, -0.75, 0.25 } do
      local s = math.sin(0.37 * (k - 1) + 1)
      local c = k < 3 and math.cos(0.61 * (k - 1) + 1) or math.cos(2)
      for order, pair in ipairs { { s * 4 * x ^ 3, s * (4 * x ^ 3 + 4 * x * h * h) },
        { s * c * 12 * x * x, s * c * (12 * x * x + 4 * h * h) } } do
        local off = math.abs(pair[1] - pair[2]) / math.max(1, math.abs(pair[2]))
        if off > largest then
          largest, want = off, { order, k < 3 and 1 or 2, k < 3 and k or 1, pair[1], pair[2] }
        end
      end
    end
    assert.same({ table.unpack(want, 1, 3) }, { report.order, report.param, report.element })
    near(report.gradient, want[4], 1e-9)
    near(report.differences, want[5], 1e-9)
    near(report.error, largest, 1e-9)
    assert.equal(1, pn.check_gradients(f, { u, v }, { step = h, tolerance = 10 }).order)
    assert.error_matches(function() pn.check_gradients(f, { u, v }, { order = 2, step = h, tolerance = 10,
      tolerance2 = 1e-6 }) end, "order 2")
    assert.error_matches(function() pn.check_gradients(f, { u, v }, { order = 2, step = h, tolerance = 1e-6,
      tolerance2 = 10 }) end, "order 1")
  end)
end)

describe("a check of gradients", function()
  it("refuses what it cannot check, and leaves parameters as they were after an error", function()
    local w = pn.param(pn.tensor { 1.5, -2 })
    local function f() return w:square() end
    local function refused(text, ...)
      local ok, message = pcall(pn.check_gradients, ...)
      assert.is_false(ok)
      assert.is_true(message:find("check_gradients: " .. text, 1, true) ~= nil, message)
    end
    refused("f must be a function, got", 3, { w })
    refused("params must be a table, got", f, w)
    refused("params must be a list of at least 1 parameter", f, {})
    refused("params[2] must be a parameter (pn.param), got another tensor", f, { w, pn.ones(2) })
    refused("params[1] must be a parameter (pn.param), got number", f, { 3 })
    refused("what f gives must be a tensor, got", function() return 3 end, { w })
    for _, order in ipairs { 0, 3, 1.5 } do
      refused("order must be 1 or 2, got " .. order, f, { w }, { order = order })
    end
    for _, name in ipairs { "step", "tolerance", "tolerance2" } do
      for _, v in ipairs { 0, -1 } do
        refused(("%s must be positive, got %g"):format(name, v), f, { w }, { [name] = v })
      end
    end
    refused("order 1, params[1], element 2: gradient 0, differences ", function()
      return w * pn.tensor { 1, 0 } + (w * pn.tensor { 0, 1 }):detach() * 2
    end, { w })
    local calls = 0
    assert.error_matches(function()
      pn.check_gradients(function()
        calls = calls + 1
        if calls == 4 then error "stop" end
        return w:square()
      end, { w })
    end, "stop")
    assert.same({ 1.5, -2 }, w:totable())
    local constant = pn.param(pn.ones(1))
    local report = pn.check_gradients(function() return w * 2 + constant * 0 end, { w, constant }, { order = 2 })
    assert.is_true(report.error < 1e-9)
    local w32 = pn.param(pn.tensor({ 1, 2 }, { dtype = "float32" }))
    pn.check_gradients(function() return w32:square() end, { w32 }, { step = 1e-2, tolerance = 1e-2 })
    assert.equal("float32", w32:dtype())
  end)
end)

describe("motions that commute", function()
  local y0, times = pn.ones(4, 2), pn.tensor { 0, 1 }
  local function run(scale, apart)
    local function diffusion(_, y)
      local other = apart and y:flip(2) * pn.tensor { 0.5, -0.4 } * y or y * 0.7
      return pn.stack({ y * 0.3, other }, -1) * scale
    end
    return pcall(pn.sde, function(_, y) return y * 0 end, diffusion, y0 * 0.37, times, { method = "milstein",
      noise = "general", step = 0.5, generator = pn.generator(1) })
  end

  it("are told from others whatever their size", function()
    for _, scale in ipairs { 1e-6, 1, 1e6 } do
      assert.is_true((run(scale, false)))
      local ok, message = run(scale, true)
      assert.is_false(ok)
      assert.matches("motions that commute; 1 and 2 do not", message)
    end
  end)
end)
