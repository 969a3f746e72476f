--- Cross entropies with options, exponentials of matrices and distances against PyTorch and SciPy
--- (spec/golden/metrics/losses.py).
local pn = require "penumbra"
local refused = require("spec.helper").refused

local golden = dofile "spec/golden/metrics/losses.lua"

local function near(got, want, tolerance)
  want = pn.is_tensor(want) and want or pn.tensor(want)
  local gap = (got - want):abs():max():item()
  assert(gap <= (tolerance or 1e-12) * math.max(1, want:abs():max():item()), gap)
end

local logits, weights = pn.tensor(golden.logits), pn.tensor(golden.weights)
local y, keep = pn.tensor(golden.y, { dtype = "int64" }), pn.tensor(golden.keep, { dtype = "int64" })

describe("cross entropy", function()
  it("with weights, a label left out and smoothing has PyTorch's values and slopes", function()
    for name, case in pairs {
      weighted = { keep, { weights = weights } },
      ignored = { y, { weights = weights, ignore = -100 } },
      smoothed = { keep, { smoothing = 0.2 } },
      all = { y, { weights = weights, ignore = -100, smoothing = 0.3 } },
    } do
      local x = pn.param(logits)
      local value = pn.cross_entropy(x, case[1], case[2])
      near(value:detach(), golden[name].value)
      near(pn.grad(value, { x })[1], golden[name].slope)
    end
    near(pn.cross_entropy(logits, keep, {}), pn.cross_entropy(logits, keep):item())
    assert.equal("float32", pn.cross_entropy(logits:to "float32", keep, { smoothing = 0.1 }):dtype())
  end)

  it("refuses weights of other classes", function()
    refused("cross_entropy: weights must have shape %[4%], one for each class, got %[3%]", pn.cross_entropy, logits,
      keep, { weights = pn.ones { 3 } })
    refused("cross_entropy: smoothing must lie in 0 to 1, got 2", pn.cross_entropy, logits, keep, { smoothing = 2 })
    refused("cross_entropy: unknown option 'weight', did you mean 'weights'%?", pn.cross_entropy, logits, keep,
      { weight = weights })
    refused("cross_entropy: ignore_index is called ignore", pn.cross_entropy, logits, y,
      { ignore_index = -100 })
    refused("cross_entropy: label_smoothing is called smoothing", pn.cross_entropy, logits,
      keep, { label_smoothing = 0.1 })
  end)
end)

describe("matrices", function()
  it("have SciPy's exponentials, with gradients", function()
    local a = pn.tensor(golden.matrix)
    near(pn.matrix_exp(a), golden.exponential, 1e-13)
    near(pn.matrix_exp(a * 10), golden.large, 1e-10)
    near(pn.stack({ a, a * 10 }, 1):matrix_exp()[1], golden.exponential, 1e-10)
    near(pn.smc.kalman.matrix_exponential(a), golden.exponential, 1e-13)
    local w = pn.param(a)
    assert.is_true(pn.check_gradients(function() return pn.matrix_exp(w):sum() end, { w }).error < 1e-6)
    refused("matrix_exp: x must be %[..., n, n%], got %[2, 3%]", pn.matrix_exp, pn.ones { 2, 3 })
  end)

  it("have SciPy's distances, with gradients that are 0 where points meet", function()
    local p, q = pn.tensor(golden.p), pn.tensor(golden.q)
    near(pn.cdist(p, q), golden.euclidean, 1e-14)
    near(p:cdist(q, { p = 1 }), golden.city, 1e-14)
    near(pn.cdist(p, q, { p = math.huge }), golden.largest, 1e-14)
    assert.same({ 2, 3, 4 }, pn.cdist(pn.stack({ p, p }, 1), q):shape())
    local w = pn.param(p)
    assert.is_true(pn.check_gradients(function() return pn.cdist(w, q):square():sum() end, { w }).error < 1e-6)
    local slope = pn.grad(pn.cdist(w, p):sum(), { w })[1]
    assert.is_true(slope:isfinite():all():item())
    refused("cdist: points of x and y must have as many numbers, got %[3, 2%] and %[4, 3%]", pn.cdist, p,
      pn.ones { 4, 3 })
  end)
end)
