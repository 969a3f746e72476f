-- A linear model with known noise must reach the exact posterior and evidence: the oracle is
-- spec/golden/nn/linear_posterior.py. Mean field is exact when the design is orthogonal; a full covariance is
-- exact always. At the optimum the ELBO equals the log evidence; anywhere else it is below.
local pn = require "penumbra"
local nn, optim, infer = pn.nn, pn.optim, pn.infer
local golden = dofile "spec/golden/nn/linear_posterior.lua"

-- E_q log normal(y | f, noise) for f ~ (mean, variance): the log density at the mean minus v / (2 noise^2). [N]
local function expected_log_lik(y, mean, variance, noise)
  return ((y - mean):square() + variance) * (-0.5 / noise ^ 2) - math.log(noise) - 0.5 * math.log(2 * math.pi)
end

-- Full-batch Adam with a falling rate: gradients are exact, so it converges to rounding.
local function maximise(elbo, params, steps, rate)
  local opt = optim.adam(params, { lr = rate })
  local schedule = optim.decay(rate, 0.5, steps // 15)
  local highest = -math.huge
  for step = 1, steps do
    opt.lr = schedule(step)
    highest = math.max(highest, -opt:step(-elbo()))
  end
  return highest
end

local function near(got, want, tolerance, what)
  assert(math.abs(got - want) <= tolerance * math.max(1, math.abs(want)),
    ("%s: got %.12g, want %.12g"):format(what, got, want))
end

describe("exact posterior", function()
  it("mean field with an orthogonal design, through bayes_linear", function()
    local g = golden.orthogonal
    local x, y = pn.tensor(g.x), pn.tensor(g.y)
    local layer = nn.bayes_linear(3, 1, { bias = false, prior_scale = g.prior, posterior_scale = 0.5 })
    local function elbo()
      local mean, variance = layer:moments(x)
      local ll = expected_log_lik(y, mean:reshape { 24 }, variance:reshape { 24 }, g.noise)
      return infer.elbo { log_likelihood = ll, kl = layer:kl(), num_data = 24 }
    end
    local highest = maximise(elbo, layer:parameters(), 8000, 0.05)
    local state = layer:state()
    for k = 1, 3 do
      near(state.weight_loc[k]:item(), g.mean[k], 1e-6, "mean " .. k)
      near(math.exp(2 * state.weight_log_scale[k]:item()), g.cov[k][k], 1e-6, "variance " .. k)
    end
    near(elbo():item(), g.evidence, 1e-6, "evidence")
    assert.is_true(highest <= g.evidence + 1e-9)
  end)

  it("full covariance with any design", function()
    local g = golden.general
    local x, y = pn.tensor(g.x), pn.tensor(g.y)
    local loc, log_d, raw = pn.param(pn.zeros { 3 }), pn.param(pn.full({ 3 }, -1)), pn.param(pn.zeros { 3, 3 })
    local function factor()
      return raw:tril(-1) + log_d:exp():diag_embed()
    end
    -- KL of normal(m, L L') from normal(0, p^2 I), with L's diagonal d
    local function elbo()
      local L = factor()
      local variance = x:matmul(L):square():sum(2)
      local kl = (L:square():sum() + loc:square():sum()) * (0.5 / g.prior ^ 2) - log_d:sum()
        + 3 * (math.log(g.prior) - 0.5)
      local ll = expected_log_lik(y, x:matmul(loc), variance, g.noise)
      return infer.elbo { log_likelihood = ll, kl = kl, num_data = 20 }
    end
    local highest = maximise(elbo, { loc, log_d, raw }, 4000, 0.05)
    local L = factor()
    local cov = L:matmul(L:t()):totable()
    for i = 1, 3 do
      near(loc[i]:item(), g.mean[i], 1e-6, "mean " .. i)
      for j = 1, 3 do
        near(cov[i][j], g.cov[i][j], 1e-6, "covariance")
      end
    end
    near(elbo():item(), g.evidence, 1e-6, "evidence")
    assert.is_true(highest <= g.evidence + 1e-9)
  end)

  it("mean field with correlated weights stays below the evidence and too narrow", function()
    local g = golden.general
    local x, y = pn.tensor(g.x), pn.tensor(g.y)
    local layer = nn.bayes_linear(3, 1, { bias = false, prior_scale = g.prior })
    local function elbo()
      local mean, variance = layer:moments(x)
      local ll = expected_log_lik(y, mean:reshape { 20 }, variance:reshape { 20 }, g.noise)
      return infer.elbo { log_likelihood = ll, kl = layer:kl(), num_data = 20 }
    end
    maximise(elbo, layer:parameters(), 2000, 0.05)
    assert.is_true(elbo():item() < g.evidence - 0.1)
    for k, s in ipairs(layer:state().weight_log_scale:reshape({ 3 }):totable()) do
      assert.is_true(math.exp(2 * s) < g.cov[k][k])
    end
  end)
end)
