-- The divergence of two events and its inverses: mpmath to 420 digits (spec/golden/pac/binary_kl.py, which also checks
-- a sweep of 100,000 by interval arithmetic), directions of rounding, gradients.
local pn = require "penumbra"
local golden = dofile "spec/golden/pac/binary_kl.lua"

local pac = pn.pac
local how = { [0] = { argument = "p", side = "upper" }, { argument = "p", side = "lower" },
  { argument = "q", side = "upper" }, { argument = "q", side = "lower" } }

local function inverse(which, x, c)
  return pac.kl_inverse(x, c, how[which])
end

describe("the divergence of two events", function()
  it("has the exact value", function()
    for _, case in ipairs(golden.divergence) do
      local got = pac.kl(case[1], case[2]):item()
      local text = ("%a %a: %.17g %.17g"):format(case[1], case[2], got, case[3])
      assert(math.abs(got - case[3]) <= 1.3e-15 * case[3] + 1e-323, text)
    end
    assert.equal(0, pac.kl(0.3, 0.3):item())
    assert.equal(math.huge, pac.kl(0.3, 0):item())
    assert.equal(math.huge, pac.kl(0.3, 1):item())
    local q, p = pn.tensor { -0.1, 1.1, 0 / 0, 0.5, 0.5 }, pn.tensor { 0.5, 0.5, 0.5, -0.1, 1.1 }
    assert(pac.kl(q, p):isnan():all():item())
  end)

  it("has inverses that are never inside, and outside by little", function()
    for _, case in ipairs(golden.inverse) do
      local which, x, c, near, rest = table.unpack(case)
      local got = inverse(which, x, c):item()
      local outside = (got - near) - rest -- exact: both are near one another
      outside = which % 2 == 0 and outside or -outside
      local text = ("which %d x %a c %a: %.17g, nearest %.17g"):format(which, x, c, got, near)
      assert(outside >= 0, "inside: " .. text)
      -- as much as c is raised by, twice 2.3e-15 c, moves the inverse; and a unit in the last place
      local slope = case[7] ~= 0 and math.abs(case[7]) or 0
      assert(outside <= 4.7e-15 * c * slope * 1.01 + 2.3e-16 * math.max(near, 1e-300), "far outside: " .. text)
    end
  end)

  it("has the peers' values", function()
    for _, case in ipairs { { 0.02, math.log(200) / 1000, 0.037935021715672318, 1.34021096, 2.03489883 },
        { 0, 0.1, 0.095162581964040427 }, { 0.5, 0.5, 0.897530048810325 }, { 0.3, 5, 0.999669656928367 },
        { 1, 0.1, 1 }, { 0.1, 0.05, 0.220078601107 } } do
      local q, c = pn.param(pn.tensor(case[1])), pn.param(pn.tensor(case[2]))
      local p = pac.kl_inverse(q, c)
      assert.near(case[3], p:item(), 1e-12)
      if case[4] then
        local g = pn.grad(p, { q, c })
        assert.near(case[4], g[1]:item(), 1e-8)
        assert.near(case[5], g[2]:item(), 1e-7) -- printed as 2.03489883; exactly it is 2.03489889
      end
    end
    assert(pac.kl_inverse(0.1, 0.05):item() <= 0.258113883008)
  end)

  it("is inverted in float32 outwards too", function()
    local o32 = { dtype = "float32" }
    local x, c = pn.rand({ 5000 }, o32), pn.rand({ 5000 }, o32) * 0.3
    for which = 0, 3 do
      local single, double = inverse(which, x, c), inverse(which, x:to "float64", c:to "float64")
      local gap = single:to "float64" - double
      gap = which % 2 == 0 and gap or -gap
      assert(gap:ge(0):all():item() and gap:le(double * 1.2e-7 + 1e-37):all():item())
    end
  end)

  it("has the implicit gradients", function()
    for _, case in ipairs(golden.inverse) do
      local which, x, c, near, _, dx, dc = table.unpack(case)
      if dc ~= 0 and near > 1e-8 and near < 1 - 1e-8 and c > 1e-9 and x > 0 and x < 1 then
        local tx, tc = pn.param(pn.tensor(x)), pn.param(pn.tensor(c))
        local g = pn.grad(inverse(which, tx, tc), { tx, tc })
        assert.near(1, g[1]:item() / dx, 1e-6)
        assert.near(1, g[2]:item() / dc, 1e-6)
      end
    end
    for which = 0, 3 do
      local x, c = pn.param(pn.tensor { 0.3, 0.55 }), pn.param(pn.tensor { 0.05, 0.1 })
      assert(pn.check_gradients(function() return inverse(which, x, c) end, { x, c }))
    end
    local q, p = pn.param(pn.tensor { 0.3, 0.55 }), pn.param(pn.tensor { 0.05, 0.9 })
    assert(pn.check_gradients(function() return pac.kl(q, p) end, { q, p }))
  end)

  it("has finite gradients at the ends", function()
    local function slopes(which, x, c)
      local tx, tc = pn.param(pn.tensor(x)), pn.param(pn.tensor(c))
      local g = pn.grad(inverse(which, tx, tc), { tx, tc })
      return g[1]:item(), g[2]:item()
    end
    local _, dc = slopes(0, 0, 0.1)
    assert.near(math.exp(-0.1), dc, 1e-12) -- p = 1 - e^-c
    assert.same({ 0, 0 }, { slopes(0, 1, 0.1) })
    assert.same({ 0, 0 }, { slopes(1, 0, 0.1) })
    assert.same({ 0, 0 }, { slopes(2, 0.5, 1) }) -- log 2 < 1: every q is allowed
    assert.equal(1, (slopes(0, 0.3, 0)))
  end)

  it("refuses what is none", function()
    for _, call in ipairs { { "kl", { "x", 0.1 }, "kl: q" }, { "kl", { 0.1, "x" }, "kl: p" },
        { "kl_inverse", { 0.1, 0.1, { argument = "r" } }, "kl_inverse: argument must be one of" },
        { "kl_inverse", { 0.1, 0.1, { sides = 1 } }, "unknown option 'sides', did you mean 'side'" },
        { "kl_inverse", { 0.1 }, "kl_inverse: bound" } } do
      local ok, message = pcall(pac[call[1]], table.unpack(call[2]))
      assert(not ok and tostring(message):find(call[3], 1, true), tostring(message))
    end
    assert(pac.kl_inverse(pn.tensor { -0.1, 1.1, 0.5 }, pn.tensor { 0.1, 0.1, -1 }):isnan():all():item())
  end)
end)
