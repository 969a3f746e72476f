--- The most probable weights of a linear regression: ridge regression in closed form where their law is normal, the
--- lasso by coordinate descent and its conditions of optimality where it is Laplace's; with weights of data, a constant
--- that has no prior, and minibatches. Document 000, equation 3.4.
local pn = require "penumbra"
local helper = require "spec.helper"

local N, D, NOISE = 40, 5, 0.7

local function regression()
  local g = pn.generator(3)
  local x = pn.randn({ N, D }, { generator = g }) * pn.tensor { 1, 2, 0.5, 1, 3 }
  x = x + x:slice(2, 1, 1) * 0.8 -- columns that are not orthogonal
  local y = x:matmul(pn.tensor { 1.5, 0, -2, 0, 0.3 }) + 1 + pn.randn({ N }, { generator = g }) * NOISE
  return x, y, pn.rand({ N }, { generator = g }) * 2 + 0.1
end

local function log_likelihood(x, y, weights, w, b)
  return weights * pn.dist.normal(x:matmul(w) + b, NOISE):log_prob(y)
end

-- The weights where infer.map is highest, by L-BFGS, or by Adam with a rate that falls where it has corners.
local function most_probable(x, y, weights, prior, corners)
  local w, b = pn.param(pn.zeros { D }), pn.param(pn.zeros {})
  local function objective()
    return pn.infer.map { log_likelihood = log_likelihood(x, y, weights, w, b), log_prior = prior:log_prob(w):sum(),
      num_data = N }
  end
  if not corners then
    local opt = pn.optim.lbfgs({ w, b }, { max_steps = 500, tolerance_grad = 1e-9, tolerance_change = 1e-16 })
    opt:step(function() return -objective() end)
  else
    local steps = 6000
    local rate = pn.optim.exponential(0.05, 0.998, 1e-7)
    local opt = pn.optim.adam({ w, b }, { lr = 0.05 })
    local step = pn.compile(function() return -objective() / N end, { optimiser = opt })
    for k = 1, steps do
      opt.lr = rate(k)
      step()
    end
  end
  return w:detach(), b:detach(), objective():item()
end

-- min_w,b sum_n a_n (y_n - x_n w - b)^2 / 2 + penalty |w|_1, by coordinates: each has its minimum in closed form.
local function lasso(x, y, a, penalty)
  local columns, rest, at, w, b = x:t():totable(), y:totable(), a:totable(), {}, 0
  for d = 1, D do w[d] = 0 end
  for _ = 1, 2000 do
    local sum, total = 0, 0
    for n = 1, N do sum, total = sum + at[n] * rest[n], total + at[n] end
    local move = sum / total
    b = b + move
    for n = 1, N do rest[n] = rest[n] - move end
    for d = 1, D do
      local c, rho, z = columns[d], 0, 0
      for n = 1, N do rho, z = rho + at[n] * c[n] * (rest[n] + c[n] * w[d]), z + at[n] * c[n] ^ 2 end
      local size = math.max(0, math.abs(rho) - penalty) / z
      local new = rho < 0 and -size or size
      for n = 1, N do rest[n] = rest[n] + c[n] * (w[d] - new) end
      w[d] = new
    end
  end
  return pn.tensor(w), pn.tensor(b)
end

describe("the most probable weights", function()
  local x, y, weights = regression()

  it("are those of ridge regression where their law is normal", function()
    for _, scale in ipairs { 0.1, 1, 10 } do
      local w, b = most_probable(x, y, weights, pn.dist.normal(0, scale))
      local wide = pn.concatenate({ x, pn.ones { N, 1 } }, 2) -- the constant has no prior
      local a = weights / NOISE ^ 2
      local penalty = pn.concatenate({ pn.full({ D }, scale ^ -2), pn.zeros { 1 } }, 1):diag_embed()
      local want = ((wide:t() * a):matmul(wide) + penalty):solve((wide:t() * a):matmul(y))
      assert.is_true(helper.off(w, want:slice(1, 1, D)) < 1e-7)
      assert.is_true(math.abs(b:item() - want[D + 1]:item()) < 1e-7)
    end
  end)

  it("are those of the lasso where it is Laplace's", function()
    for _, scale in ipairs { 0.01, 0.05 } do
      local a, prior = weights / NOISE ^ 2, pn.dist.laplace(0, scale)
      local want, b = lasso(x, y, a, 1 / scale)
      -- no slope where a weight is not 0, and where it is, none that its prior does not hold: Tibshirani 1996
      local free = pn.param(want)
      local slope = pn.grad(log_likelihood(x, y, weights, free, b):sum(), { free })[1]:totable()
      local zeros = 0
      for d, v in ipairs(want:totable()) do
        zeros = zeros + (v == 0 and 1 or 0)
        if v == 0 then
          assert.is_true(math.abs(slope[d]) <= 1 / scale)
        else
          assert.is_true(math.abs(slope[d] - (v > 0 and 1 or -1) / scale) < 1e-8 / scale)
        end
      end
      assert.is_true(zeros >= 1 and zeros < D)
      local w, _, value = most_probable(x, y, weights, prior, true)
      local best = (log_likelihood(x, y, weights, want, b):sum() + prior:log_prob(want):sum()):item()
      assert.is_true(value <= best + 1e-9 and value > best - 1e-4) -- none is more probable
      assert.is_true(helper.off(w, want) < 1e-4)
    end
  end)

  it("have the same objective by minibatches, the prior counted once", function()
    local w, b, prior = pn.tensor { 1, -1, 0.5, 0, 2 }, pn.tensor(0.3), pn.dist.laplace(0, 0.2)
    local each, log_prior = log_likelihood(x, y, weights, w, b), prior:log_prob(w):sum()
    local sum = 0
    for k = 0, 3 do
      sum = sum + pn.infer.map { log_likelihood = each:slice(1, 10 * k + 1, 10 * k + 10), log_prior = log_prior,
        num_data = N }:item()
    end
    assert.is_true(math.abs(sum / 4 - (each:sum() + log_prior):item()) < 1e-9)
  end)
end)
