-- Bayesian linear regression: evidence and posterior in closed form, against every bound, and minibatches.
local pn = require "penumbra"
local infer, dist = pn.infer, pn.dist

local N, D, ALPHA, NOISE = 24, 3, 0.8, 0.5

local function model()
  pn.seed(31)
  local x = pn.randn { N, D }
  local y = x:matmul(pn.tensor { 1.0, -0.5, 2 }) + pn.randn { N } * NOISE
  local precision = x:t():matmul(x) / NOISE ^ 2 + pn.eye(D) * ALPHA
  local covariance = precision:inverse()
  local posterior = dist.multivariate_normal { loc = covariance:matmul(x:t():matmul(y)) / NOISE ^ 2,
    covariance_matrix = (covariance + covariance:t()) * 0.5 }
  local evidence = dist.multivariate_normal { loc = pn.zeros { N },
    covariance_matrix = x:matmul(x:t()) / ALPHA + pn.eye(N) * NOISE ^ 2 }:log_prob(y):item()
  return { x = x, y = y, posterior = posterior, evidence = evidence,
    prior = dist.normal(pn.zeros { D }, ALPHA ^ -0.5):independent(1) }
end

-- log p(y | w) of each datum, [..., N] for w [..., D].
local function log_likelihood(m, w) return dist.normal(w:matmul(m.x:t()), NOISE):log_prob(m.y) end
local function log_joint(m, w) return log_likelihood(m, w):sum(-1) + m.prior:log_prob(w) end

describe("Bayesian linear regression", function()
  it("has the evidence as every bound where q is the posterior, with any draws", function()
    local m = model()
    local w = m.posterior:sample { 5, 2 }
    local log_p, log_q = log_joint(m, w), m.posterior:log_prob(w)
    local log_w = log_p - log_q
    for name, y in pairs { elbo = infer.elbo(log_p, log_q), iwae = infer.iwae(log_w), cubo = infer.cubo(log_w),
      renyi = infer.renyi(log_w, { alpha = 0.3 }), vimco = infer.vimco(log_p, log_q),
      joint = infer.elbo { log_joint = log_p, entropy = -log_q },
      split = infer.elbo { log_likelihood = log_likelihood(m, w):sum(-1), kl = log_q - m.prior:log_prob(w) } } do
      assert(math.abs(y:item() - m.evidence) < 1e-9, ("%s: %.12g, exactly %.12g"):format(name, y:item(), m.evidence))
    end
    assert((infer.effective_sample_size(log_w) - 5):abs():max():item() < 1e-9)
  end)

  it("has its evidence and its posterior by importance sampling, within the errors told", function()
    local m = model()
    pn.seed(32)
    local q = dist.multivariate_normal { loc = m.posterior.loc + 0.05,
      covariance_matrix = m.posterior.covariance_matrix * 1.5 }
    local s = infer.stream { draws = 20000 }
    for _ = 1, 10 do
      local w = q:sample { 2000, 1 }
      s:add(log_joint(m, w) - q:log_prob(w))
    end
    local six = 6 * s:standard_error():item()
    assert(six < 0.05)
    assert(math.abs(s:log_mean():item() - m.evidence) < six)
    assert(s:elbo():item() < m.evidence and s:pareto_k():item() < 0.5)
    local w = q:sample { 20000, 1 }
    local mean, err = infer.self_normalised(log_joint(m, w) - q:log_prob(w), w)
    for d = 1, D do
      local off = math.abs(mean:totable()[1][d] - m.posterior.loc:totable()[d])
      assert(off < 6 * err:totable()[1][d] and 6 * err:totable()[1][d] < 0.02)
    end
  end)

  it("has a lower bound that minibatches estimate without bias: their mean is the whole", function()
    local m = model()
    local q = dist.normal(m.posterior.loc, 0.2):independent(1)
    pn.seed(33)
    local w = q:sample { 7 }
    local ll, kl = log_likelihood(m, w), dist.kl(q, m.prior)
    local want = ll:sum(2):mean():item() - kl:item()
    local sum = 0
    for first = 1, N, 6 do
      sum = sum + infer.elbo { log_likelihood = ll:slice(2, first, first + 5), kl = kl, num_data = N }:item() / (N / 6)
    end
    assert(math.abs(sum - want) < 1e-10 * math.abs(want))
    -- and the closed form of E_q[log p(y | w)] - KL, many draws on average
    local many = infer.elbo { log_likelihood = log_likelihood(m, q:sample { 200000 }), kl = kl, num_data = N }:item()
    local rest = m.y - m.x:matmul(m.posterior.loc)
    local spread = ((m.x ^ 2):sum(2) * 0.04):sum():item()
    local exact = -0.5 / NOISE ^ 2 * ((rest ^ 2):sum():item() + spread)
      - N * math.log(NOISE * math.sqrt(2 * math.pi)) - kl:item()
    assert(math.abs(many - exact) < 0.1)
    assert(exact < m.evidence)
  end)
end)
