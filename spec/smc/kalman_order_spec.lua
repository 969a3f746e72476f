-- Orders above 32, one filter at a time by BLAS: against the textbook in tensor operations, whose gradients are
-- theirs.
local pn = require "penumbra"
local off = require("spec.helper").off
local kalman = pn.smc.kalman

local function mt(x) return x:transpose(-1, -2) end
local function apply(a, x) return a:matmul(x:unsqueeze(-1)):squeeze(-1) end
local function covariance(dtype, ...)
  local shape = { ... }
  local n = shape[#shape]
  shape.dtype = dtype
  local x = pn.randn(shape)
  return x:matmul(mt(x)) / n + pn.eye(n, { dtype = dtype }) * 0.3
end

local NAMES = { "transition", "transition_offset", "transition_cov", "emission", "emission_offset", "emission_cov",
  "initial_mean", "initial_cov" }

-- lead: axes of time and batch in front of emission and its noise.
local function random_system(n, p, dtype, lead)
  local function randn(...) return pn.randn { dtype = dtype, ... } end
  local front = { table.unpack(lead or {}) }
  front[#front + 1], front[#front + 2], front.dtype = p, n, dtype
  return {
    transition = randn(n, n) * (0.8 / n ^ 0.5), transition_offset = randn(n),
    transition_cov = covariance(dtype, n, n),
    emission = pn.randn(front) / n ^ 0.5, emission_offset = randn(p), emission_cov = covariance(dtype, p, p),
    initial_mean = randn(n), initial_cov = covariance(dtype, n, n),
  }
end

-- Means, covariances and log p(y_t | past) of y [T, B, p]; here is 1 where an element was observed.
local function textbook(s, y, here)
  local dtype = y:dtype()
  local function symmetric(x) return (x + mt(x)) * 0.5 end -- as the filter reads covariances
  local m, v = s.initial_mean, symmetric(s.initial_cov)
  local q, noise = symmetric(s.transition_cov), symmetric(s.emission_cov)
  local means, covs, densities = {}, {}, {}
  for t = 1, y:size(1) do
    local c = s.emission:ndim() > 2 and s.emission:select(1, t) or s.emission
    m = apply(s.transition, m) + s.transition_offset
    v = s.transition:matmul(v):matmul(mt(s.transition)) + q
    local on = here:select(1, t)
    local e = pn.where(on:gt(0), y:select(1, t) - apply(c, m) - s.emission_offset, pn.zeros({}, { dtype = dtype }))
    c = c * on:unsqueeze(-1)
    local r = noise * on:unsqueeze(-1) * on:unsqueeze(-2) + (1 - on):diag_embed()
    local w = c:matmul(v):matmul(mt(c)) + r
    local inverse = w:inverse()
    local gain = v:matmul(mt(c)):matmul(inverse)
    densities[t] = ((e * apply(inverse, e)):sum(-1) + w:logdet() + on:sum(-1) * math.log(2 * math.pi)) * -0.5
    m, v = m + apply(gain, e), v - gain:matmul(w):matmul(mt(gain))
    means[t], covs[t] = m, v
  end
  return pn.stack(means, 1), pn.stack(covs, 1), pn.stack(densities, 1)
end

local CASES = {
  { n = 33, p = 1, dtype = "float64", limit = 1e-10 },
  { n = 40, p = 3, dtype = "float64", limit = 1e-10, lead = { 4, 1 } },
  { n = 2, p = 35, dtype = "float64", limit = 1e-10 },
  { n = 33, p = 36, dtype = "float64", limit = 1e-10 },
  { n = 170, p = 2, dtype = "float64", limit = 1e-9 },
  { n = 40, p = 2, dtype = "float32", limit = 2e-3 },
}

describe("Kalman filters of large orders", function()
  for _, case in ipairs(CASES) do
    it(("%d states, %d observations, %s: values and gradients"):format(case.n, case.p, case.dtype), function()
      pn.seed(case.n + case.p)
      local steps, size = 4, 3
      local s = random_system(case.n, case.p, case.dtype, case.lead)
      local y = pn.randn { steps, size, case.p, dtype = case.dtype }
      local gap = pn.tensor { 1, 1, 0, 1 }:reshape { 4, 1, 1 }
      local here = (pn.rand { steps, size, case.p } * gap):gt(0.3):to(case.dtype)
      local list = { y }
      for k, name in ipairs(NAMES) do
        s[name] = pn.param(s[name])
        list[k] = s[name]
      end
      local mean, cov, density = textbook(s, y, here)
      local f = assert(kalman.filter(s, y, { observed = here:gt(0) }))
      assert(off(f.mean, mean:broadcast_to(f.mean:shape())) <= case.limit, "mean")
      assert(off(f.cov, cov:broadcast_to(f.cov:shape())) <= case.limit, "covariance")
      assert(off(f.log_prob, density) <= case.limit * 10, "density")
      local weights = pn.rand { steps, size, dtype = case.dtype }
      local push = pn.randn { steps, size, case.n, dtype = case.dtype }
      local pull = pn.randn { case.n, case.n, dtype = case.dtype }
      local function gradients(density_of, mean_of, cov_of)
        return pn.grad((density_of * weights):sum() + (mean_of * push):sum() + (cov_of * pull):sum(), list)
      end
      local want, got = gradients(density, mean, cov), gradients(f.log_prob, f.mean, f.cov)
      for k, name in ipairs(NAMES) do
        local largest = want[k]:abs():max():item()
        local d = off(got[k], want[k])
        assert(d <= case.limit * 20 * math.max(1, largest),
          ("gradient of %s: off by %.3g of %.3g"):format(name, d, largest))
      end
    end)
  end
end)

describe("A diffuse start of a large order", function()
  -- Forty states, of which the last eight start with a covariance of their own.
  local function diffuse_system(n)
    local s = random_system(n, 5, "float64")
    local places = {}
    for k = 1, n - 8 do places[k] = k end
    s.diffuse = places
    s.transition = s.transition + pn.eye(n) * 0.2
    return s
  end

  it("is the same as with covariances for each column", function()
    local shared = require "penumbra.smc.kalman.shared_start"
    local least = shared.LEAST
    for _, first in ipairs { "initial", "predicted" } do
      for _, batch in ipairs { {}, { 2 } } do
        pn.seed(9)
        local s = diffuse_system(40)
        local y = pn.randn { 12, table.unpack(batch) }:unsqueeze(-1):broadcast_to { 12, batch[1] or 5,
          batch[1] and 5 or nil } * 1
        y = pn.where(pn.rand(y:shape()):lt(0.2), pn.full({}, 0 / 0), y)
        local list = {}
        for k, name in ipairs { "transition", "emission", "emission_offset", "transition_cov" } do
          s[name] = pn.param(s[name])
          list[k] = s[name]
        end
        local function all()
          local f = assert(kalman.filter(s, y, { first = first }))
          local known = f.mean:isfinite():select(1, -1):all():item()
          assert.is_true(known)
          return { f.log_prob, f.mean:select(1, -1), f.cov:select(1, -1), f.predicted_mean:select(1, -1),
            table.unpack(pn.grad(f.log_likelihood:sum(), list)) }
        end
        local got = all()
        shared.LEAST = 1000
        local ok, want = pcall(all)
        shared.LEAST = least
        assert(ok, want)
        for k, x in ipairs(want) do
          local d = off(got[k], x)
          assert(d <= 1e-7 * (1 + x:abs():max():item()), ("part %d, %s: off by %.3g"):format(k, first, d))
        end
      end
    end
  end)
end)
