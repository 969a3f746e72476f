-- A linear-Gaussian model of one latent with known evidence: z ~ N(0, 1), x ~ N(a z, s^2), q(z | x) = N(v x, t^2) with
-- t = e^r. Values and gradients of every estimator against the exact ones: expectations over draws are integrals over
-- the noise, computed on a grid (the trapezium rule, which converges exponentially for these integrands).
local pn = require "penumbra"
local infer, dist = pn.infer, pn.dist

local S2, X = 0.5, 1.3
local AT = { a = 0.9, v = 0.35, r = -0.1 }
local KEYS = { "a", "v", "r" }
local function evidence(a, x) return dist.normal(0, (a * a + S2) ^ 0.5):log_prob(x):item() end

-- Log densities of latents z; parameters of any shape that broadcasts with them.
local function densities(p, z, x)
  local log_q = ((z - p.v * x) / p.r:exp()) ^ 2 * -0.5 - p.r - 0.5 * math.log(2 * math.pi)
  return z ^ 2 * -0.5 - (x - p.a * z) ^ 2 * (0.5 / S2) - math.log(2 * math.pi) - 0.5 * math.log(S2), log_q
end

-- Parameters repeated for n independent replicates, so that a gradient has one entry for each.
local function params(n, at)
  local p = {}
  for _, key in ipairs(KEYS) do p[key] = pn.param(pn.full(n and { n } or {}, (at or AT)[key])) end
  return p
end

-- The gradients of n replicates by each parameter: {a = [n], ...}.
local function gradients(estimate, k, n, at)
  local p = params(n, at)
  local y = estimate(p, pn.randn { k, n })
  local list = pn.grad(y, { p.a, p.v, p.r })
  local out = {}
  for i, key in ipairs(KEYS) do out[key] = list[i] * n end
  return out, y:item()
end

local function moments(g)
  local n = g:numel()
  local mean = g:mean():item()
  return mean, (((g - mean) ^ 2):sum():item() / (n - 1)) ^ 0.5
end

---- exact gradients, by the grid over the noise of K = 1 or 2 draws ----

local GRID, STEP = 121, 0.15
local noise = (pn.arange(GRID) - (GRID - 1) / 2) * STEP
local weight = (noise ^ 2 * -0.5):exp() * (STEP / math.sqrt(2 * math.pi))

-- d E[bound_K] / d parameters by the path through the noise, which is exact; of two draws with weights to a power.
local function exact(k, power)
  power = power or 1
  local p = params()
  local log_p, log_q = densities(p, p.v * X + p.r:exp() * noise, X)
  local w = log_p - log_q
  local mean
  if k == 1 then
    mean = (weight * w):sum()
  else
    local both = pn.logaddexp(w:unsqueeze(1) * power, w:unsqueeze(2) * power) - math.log(2)
    mean = (weight:unsqueeze(1) * weight:unsqueeze(2) * both):sum() / power
  end
  local list, out = pn.grad(mean, { p.a, p.v, p.r }), {}
  for i, key in ipairs(KEYS) do out[key] = list[i]:item() end
  return out, mean:item()
end

-- Of wake-phi: E[sum_k w~_k grad log q(z_k)] for two draws.
local function exact_wake()
  local p = params()
  local z = (p.v * X + p.r:exp() * noise):detach()
  local log_p, log_q = densities(p, z, X)
  local w = (log_p - log_q):detach()
  local share = pn.sigmoid(w:unsqueeze(2) - w:unsqueeze(1)) -- of the first draw
  local two = share * log_q:unsqueeze(2) + (1 - share) * log_q:unsqueeze(1)
  local sum = (weight:unsqueeze(1) * weight:unsqueeze(2) * two):sum()
  local list = pn.grad(sum, { p.v, p.r })
  return { v = list[1]:item(), r = list[2]:item() }
end

---- estimators as functions of parameters and noise [K, B] ----

local function path(f)
  return function(p, e)
    local z = p.v * X + p.r:exp() * e
    local log_p, log_q = densities(p, z, X)
    return f(log_p, log_q, z)
  end
end
local function scored(f)
  return function(p, e)
    local log_p, log_q = densities(p, (p.v * X + p.r:exp() * e):detach(), X)
    return f(log_p, log_q)
  end
end

local elbo = path(function(log_p, log_q) return infer.elbo(log_p, log_q) end)
local stl = path(infer.sticking_the_landing)
local iwae = path(function(log_p, log_q) return infer.iwae(log_p - log_q) end)
local dreg, vimco = path(infer.dreg), scored(infer.vimco)
local score = scored(infer.score_function)
local against_others = scored(function(lp, lq) return infer.score_function(lp, lq, { leave_one_out = true }) end)
local wake = scored(infer.reweighted_wake_sleep)

-- The mean of the replicates is the exact gradient within six standard errors, and these are narrow beside its length.
local function unbiased(name, estimate, k, n, want)
  local got, norm = gradients(estimate, k, n), 0
  for _, key in ipairs(KEYS) do norm = math.sqrt(norm ^ 2 + want[key] ^ 2) end
  for _, key in ipairs(KEYS) do
    local mean, sd = moments(got[key])
    local six = 6 * sd / math.sqrt(n)
    assert(math.abs(mean - want[key]) <= six,
      ("%s by %s: %.4f, exactly %.4f +- %.4f"):format(name, key, mean, want[key], six))
    assert(six < 0.15 * norm, ("%s by %s: an interval of %.4f says nothing"):format(name, key, six))
  end
  return got
end

describe("a linear-Gaussian model", function()
  it("has gradients of the lower bound without bias, by path, score and landing", function()
    pn.seed(11)
    local want, value = exact(1)
    -- the grid against the closed form: log p(x) - KL(q || posterior)
    local pv = 1 / (1 + AT.a ^ 2 / S2)
    local posterior = dist.normal(pv * AT.a * X / S2, pv ^ 0.5)
    local kl = dist.kl(dist.normal(AT.v * X, math.exp(AT.r)), posterior):item()
    assert(math.abs(value - (evidence(AT.a, X) - kl)) < 1e-10)
    local n = 40000
    local by_path = unbiased("elbo", elbo, 1, n, want)
    local landing = unbiased("sticking_the_landing", stl, 1, n, want)
    local by_score = unbiased("score_function", score, 1, n, want)
    local four = unbiased("leave_one_out", against_others, 4, n, want)
    for _, key in ipairs { "v", "r" } do
      local _, sd = moments(by_path[key])
      local _, sd_landing = moments(landing[key])
      local _, sd_score = moments(by_score[key])
      local _, sd_others = moments(four[key])
      assert(sd_score > 1.5 * sd, "the score has the larger variance")
      assert(sd_others * 2 < 0.75 * sd_score, "baselines lower the variance beyond what four draws do")
      assert(key ~= "r" or sd_landing < sd, "the landing has the smaller variance here")
    end
  end)

  it("has no variance at the posterior if the landing is stuck", function()
    pn.seed(12)
    local pv = 1 / (1 + AT.a ^ 2 / S2)
    local at = { a = AT.a, v = pv * AT.a / S2, r = 0.5 * math.log(pv) }
    local landed, value = gradients(stl, 3, 50, at)
    assert(math.abs(value - evidence(AT.a, X)) < 1e-12)
    local plain = gradients(elbo, 3, 50, at)
    local doubly = gradients(dreg, 3, 50, at)
    for _, key in ipairs { "v", "r" } do
      assert(landed[key]:abs():max():item() < 1e-12 and doubly[key]:abs():max():item() < 1e-12)
      local _, sd = moments(plain[key])
      assert(key ~= "r" or sd > 0.1)
    end
  end)

  it("has gradients of the importance weighted bound without bias: iwae, dreg, vimco; and of wake-sleep", function()
    pn.seed(13)
    local want = exact(2)
    local n = 60000
    unbiased("iwae", iwae, 2, n, want)
    unbiased("dreg", dreg, 2, n, want)
    unbiased("vimco", vimco, 2, n, want)
    local arithmetic = scored(function(lp, lq) return infer.vimco(lp, lq, { mean = "arithmetic" }) end)
    unbiased("vimco, arithmetic", arithmetic, 2, n, want)
    local awake = exact_wake()
    awake.a = want.a
    unbiased("reweighted_wake_sleep", wake, 2, n, awake)
    -- and it is another direction than that of the bound
    assert(math.abs(awake.v - want.v) > 0.05 or math.abs(awake.r - want.r) > 0.05)
  end)

  it("has gradients of power means without bias: renyi and cubo; and of dreams", function()
    pn.seed(17)
    local n = 60000
    local function power(f) return path(function(log_p, log_q) return f(log_p - log_q) end) end
    unbiased("renyi", power(function(w) return infer.renyi(w, { alpha = 0.6 }) end), 2, n, (exact(2, 0.4)))
    unbiased("renyi, alpha < 0", power(function(w) return infer.renyi(w, { alpha = -0.5 }) end), 2, n, (exact(2, 1.5)))
    unbiased("renyi, alpha > 1", power(function(w) return infer.renyi(w, { alpha = 1.3 }) end), 2, n, (exact(2, -0.3)))
    unbiased("cubo", power(infer.cubo), 2, n, (exact(2, 2)))
    -- asleep: E_p[log q(z | x)] has the closed form -((1 - v a)^2 + v^2 s^2) / (2 t^2) - r
    local p = params(n)
    local z = pn.randn { n }
    local x = AT.a * z + pn.randn { n } * S2 ^ 0.5
    local log_q = select(2, densities(p, z, x))
    local still = pn.zeros { 1, 1 }
    local y = infer.reweighted_wake_sleep(still, still, { sleep_log_q = log_q, wake_theta = false, wake_phi = false })
    assert.equal(0, y:item())
    local g = pn.grad(y, { p.v, p.r })
    local t2, miss = math.exp(2 * AT.r), (1 - AT.v * AT.a) ^ 2 + AT.v ^ 2 * S2
    for i, want in ipairs { ((1 - AT.v * AT.a) * AT.a - AT.v * S2) / t2, miss / t2 - 1 } do
      local mean, sd = moments(g[i] * n)
      assert(math.abs(mean - want) < 6 * sd / math.sqrt(n) and 6 * sd / math.sqrt(n) < 0.05)
    end
  end)

  it("is one bound for one draw of two data, whatever estimates it", function()
    pn.seed(18)
    local p = params()
    local x = pn.tensor { 0.4, -1.1 }
    local z = p.v * x + p.r:exp() * pn.randn { 1, 2 }
    local log_p, log_q = densities(p, z, x)
    local want = infer.elbo(log_p, log_q)
    local g = pn.grad(want, { p.a, p.v, p.r })
    for name, y in pairs { iwae = infer.iwae(log_p - log_q), renyi = infer.renyi(log_p - log_q, { alpha = -3 }),
      cubo = infer.cubo(log_p - log_q), dreg = infer.dreg(log_p, log_q, z),
      sticking_the_landing = infer.sticking_the_landing(log_p, log_q, z), score = infer.score_function(log_p, log_q),
      wake = infer.reweighted_wake_sleep(log_p, log_q),
      split = infer.elbo { log_likelihood = log_p, kl = log_q } } do
      assert(math.abs(y:item() - want:item()) < 1e-12, name)
      local got = pn.grad(y, { p.a, p.v, p.r })
      if name ~= "score" and name ~= "wake" then assert(math.abs(got[1]:item() - g[1]:item()) < 1e-12, name) end
      if name == "dreg" then
        local stuck = pn.grad(infer.sticking_the_landing(log_p, log_q, z), { p.v, p.r })
        for i = 1, 2 do assert(math.abs(got[i + 1]:item() - stuck[i]:item()) < 1e-12) end
      end
    end
    assert.equal(1, infer.effective_sample_size(log_p - log_q):min():item())
  end)

  it("shows the signal of iwae's encoder drown as K grows, dreg's not", function()
    pn.seed(14)
    local at = { a = 0.9, v = AT.v + 0.05, r = -0.35 }
    local function snr(estimate, k)
      local mean, sd = moments(gradients(estimate, k, 3000 * math.max(1, 64 // k), at).v)
      return math.abs(mean) / sd
    end
    local plain, doubly = {}, {}
    for i, k in ipairs { 1, 8, 64 } do plain[i], doubly[i] = snr(iwae, k), snr(dreg, k) end
    assert(plain[3] < 0.6 * plain[1], ("iwae: %.3f, %.3f, %.3f"):format(table.unpack(plain)))
    assert(doubly[2] > 1.5 * doubly[1] and doubly[3] > 1.5 * doubly[2],
      ("dreg: %.3f, %.3f, %.3f"):format(table.unpack(doubly)))
  end)

  it("orders the bounds: they rise with K and fall with alpha; evidence lies below CUBO", function()
    pn.seed(15)
    local p = params()
    local n, log_p_x = 40000, evidence(AT.a, X)
    local function bound(f, k)
      local y = pn.no_grad(function()
        local log_p, log_q = densities(p, p.v * X + p.r:exp() * pn.randn { k, n }, X)
        return f(log_p - log_q)
      end)
      return y:item()
    end
    local last = bound(function(w) return infer.elbo(w, w * 0) end, 1)
    for _, k in ipairs { 2, 8, 32 } do
      local now = bound(infer.iwae, k)
      assert(now > last, ("K = %d: %.4f after %.4f"):format(k, now, last))
      last = now
    end
    assert(last < log_p_x + 1e-3 and last > log_p_x - 0.02)
    local w = pn.no_grad(function()
      local log_p, log_q = densities(p, p.v * X + p.r:exp() * pn.randn { 200000, 1 }, X)
      return log_p - log_q
    end)
    local q = dist.normal(AT.v * X, math.exp(AT.r))
    local pv = 1 / (1 + AT.a ^ 2 / S2)
    local posterior = dist.normal(pv * AT.a * X / S2, pv ^ 0.5)
    local above = math.huge
    for _, alpha in ipairs { -1, -0.5, 0, 0.5, 0.9, 0.999999, 1, 1.2 } do
      local got = infer.renyi(w, { alpha = alpha }):item()
      -- exactly log p(x) - D_alpha(q || posterior), which for alpha <= 0 is D of the other order by skew symmetry
      local d = alpha == 0 and 0 or alpha > 0 and dist.renyi(q, posterior, alpha):item()
        or alpha / (1 - alpha) * dist.renyi(posterior, q, 1 - alpha):item()
      assert(math.abs(got - (log_p_x - d)) < 0.012, ("alpha %g: %.4f, exactly %.4f"):format(alpha, got, log_p_x - d))
      assert(got <= above + 1e-12)
      above = got
    end
    assert(infer.cubo(w):item() > log_p_x + 0.005)
    assert(math.abs(infer.cubo(w):item() - infer.renyi(w, { alpha = -1 }):item()) < 1e-12)
  end)

  it("learns: every estimator climbs to the evidence", function()
    for name, case in pairs { elbo = { elbo, 1 }, sticking_the_landing = { stl, 1 }, iwae = { iwae, 4 },
      dreg = { dreg, 4 }, vimco = { vimco, 8 }, leave_one_out = { against_others, 8 }, wake = { wake, 16 } } do
      pn.seed(16)
      local p = params()
      local opt = pn.optim.adam({ p.v, p.r }, { lr = 0.02 })
      local step = pn.compile(function(e) return -case[1](p, e) end, { optimiser = opt })
      for _ = 1, 600 do step(pn.randn { case[2], 128 }) end
      local value = pn.no_grad(function() return elbo(p, pn.randn { 4, 4000 }) end):item()
      assert(value > evidence(AT.a, X) - 0.01, ("%s: %.4f of %.4f"):format(name, value, evidence(AT.a, X)))
    end
  end)
end)
