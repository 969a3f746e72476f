-- Layers and distributions agree: divergences, and the exact posterior through multivariate_normal.
local pn = require "penumbra"
local nn, dist, infer, optim = pn.nn, pn.dist, pn.infer, pn.optim
local golden = dofile("spec/golden/nn/linear_posterior.lua").general

local function near(got, want, tolerance)
  assert(math.abs(got - want) <= tolerance * math.max(1, math.abs(want)), ("got %.12g, want %.12g"):format(got, want))
end

describe("bayes_linear and dist", function()
  it("kl() is dist.kl of the posteriors from the prior, summed", function()
    for dtype, tolerance in pairs { float64 = 1e-12, float32 = 1e-5 } do
      local layer = nn.bayes_linear(4, 3, { prior_scale = 0.6, posterior_scale = 0.2, bias_init = "he", dtype = dtype })
      local s = layer:state()
      local prior = dist.normal(pn.tensor(0, { dtype = dtype }), pn.tensor(0.6, { dtype = dtype }))
      local total = 0
      for _, part in ipairs { "weight", "bias" } do
        local q = dist.normal(s[part .. "_loc"], s[part .. "_log_scale"]:exp())
        total = total + dist.kl(q, prior):sum():item()
      end
      near(layer:kl():item(), total, tolerance)
    end
  end)

  it("a full covariance reaches the exact posterior and evidence", function()
    local x, y = pn.tensor(golden.x), pn.tensor(golden.y)
    local n, d = x:size(1), x:size(2)
    local loc, log_d, raw = pn.param(pn.zeros { d }), pn.param(pn.full({ d }, -1)), pn.param(pn.zeros { d, d })
    local prior = dist.multivariate_normal { loc = pn.zeros { d }, scale_tril = pn.eye(d) * golden.prior }
    local function elbo()
      local L = raw:tril(-1) + log_d:exp():diag_embed()
      local q = dist.multivariate_normal { loc = loc, scale_tril = L }
      -- E_q of the log-likelihood: at the mean, minus the variance of x w over 2 noise^2
      local at_mean = dist.normal(x:matmul(loc), golden.noise):log_prob(y)
      local ll = at_mean - x:matmul(L):square():sum(2) * (0.5 / golden.noise ^ 2)
      return infer.elbo { log_likelihood = ll, kl = dist.kl(q, prior), num_data = n }
    end
    local opt = optim.adam({ loc, log_d, raw }, { lr = 0.05 })
    local schedule = optim.decay(0.05, 0.5, 250)
    for step = 1, 4000 do
      opt.lr = schedule(step)
      opt:step(-elbo())
    end
    near(elbo():item(), golden.evidence, 1e-6)
    for i = 1, d do
      near(loc[i]:item(), golden.mean[i], 1e-6)
    end
  end)
end)
