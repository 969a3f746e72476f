--- Forms at their ends: no row, one step, one state, one particle, one component, one draw, one label, unequal weights;
--- each beside closed forms or a simpler way to the same number.
local pn = require "penumbra"
local helper = require "spec.helper"
local near, close = helper.near, helper.close
local dist, metrics, nn, smc = pn.dist, pn.metrics, pn.nn, pn.smc
local issm = require "penumbra.models.issm"

local function drawn(seed, ...) return pn.randn({ ... }, { generator = pn.generator(seed) }) end

local function log_normal(y, mean, variance)
  return -0.5 * ((y - mean) ^ 2 / variance + math.log(2 * math.pi * variance))
end

describe("one step", function()
  local m0, p0, a, q, c, r, y = 0.3, 0.8, 0.9, 0.25, 1.4, 0.4, 1.1
  local system = { transition = { { a } }, transition_cov = { { q } }, emission = { { c } }, emission_cov = { { r } },
    initial_mean = { m0 }, initial_cov = { { p0 } } }
  local function as_tensors(s)
    local out = {}
    for name, x in pairs(s) do out[name] = pn.tensor(x) end
    return out
  end
  local one = pn.tensor { { y } }

  it("of a linear Gaussian system is Bayes' rule, by every filter", function()
    local mean, variance = a * m0, a * a * p0 + q
    local s = c * c * variance + r
    local gain = variance * c / s
    local after, left = mean + gain * (y - c * mean), variance - gain * c * variance
    local value = log_normal(y, c * mean, s)
    local given = as_tensors(system)
    for _, form in ipairs { "covariance", "square_root", "information" } do
      local f = smc.kalman.filter(given, one, { form = form })
      near(f.log_likelihood:item(), value, 1e-12)
      near(f.mean:item(), after, 1e-12)
      near(f.cov:item(), left, 1e-12)
    end
    for _, method in ipairs { "rts", "disturbance", "two_filter" } do
      local x = smc.kalman.smooth(given, one, { method = method })
      near(x.mean:item(), after, 1e-12)
      near(x.cov:item(), left, 1e-12)
    end
    for _, name in ipairs { "extended", "unscented" } do
      local f = smc[name](given, one, { smooth = true })
      near(f.log_likelihood:item(), value, 1e-12)
      near(f.smoothed_mean:item(), after, 1e-12)
      near(f.cov:item(), left, 1e-12)
    end
    local parts = smc.kalman.elbo(given, one)
    near(parts.elbo:item(), value, 1e-12)
    local ahead = smc.kalman.forecast(given, one, 1)
    near(ahead.mean:item(), c * a * after, 1e-12)
    near(ahead.cov:item(), c * c * (a * a * left + q) + r, 1e-12)
    local fit = smc.kalman.em(given, one, { steps = 3, fixed = { "emission", "emission_cov", "transition",
      "transition_cov", "initial_cov" } })
    local values = fit.log_likelihood:totable()
    for k = 2, #values do assert(values[k] >= values[k - 1] - 1e-12) end
    assert(values[#values] > value + 1e-3)
  end)

  it("of particles weighs draws of the prior by their likelihood", function()
    local f = smc.filter { num_particles = 7, generator = pn.generator(4), prior = dist.normal(0.5, 2),
      transition = function(x) return dist.normal(x, 1) end, observation = function(x) return dist.normal(x, 0.7) end }
    local r1 = f:run(pn.tensor { y }, { moments = true })
    local x = f.state
    local w = dist.normal(x, 0.7):log_prob(pn.tensor(y))
    near(r1.log_evidence:item(), w:logsumexp(1):item() - math.log(7), 1e-12)
    local p = w:softmax(1)
    near(r1.mean:item(), (p * x):sum():item(), 1e-12)
    near(f:variance():item(), (p * x:square()):sum():item() - (p * x):sum():item() ^ 2, 1e-12)
    near(f.machine:effective_sample_size():item(), 1 / p:square():sum():item(), 1e-10)
  end)

  it("of a recurrent layer, and one token of attention, need no other", function()
    for _, kind in ipairs { "rnn", "gru", "lstm" } do
      local layer = nn[kind](3, 2)
      local x = drawn(1, 3, 4, 3)
      local all, first = layer(x), layer(x:slice(1, 1, 1))
      close(all:slice(1, 1, 1), first, 1e-14)
    end
    local attention = nn.multi_head_attention(4, 2)
    local token, other = drawn(2, 3, 1, 4), drawn(3, 3, 1, 4)
    local shared = attention(token, other) -- one key: its value, whatever the query
    close(attention(token * 7, other), shared, 1e-13)
  end)
end)

describe("one particle", function()
  it("has the log density of its path as evidence, and is its own mean", function()
    local ys = drawn(5, 6)
    local f = smc.filter { num_particles = 1, history = true, generator = pn.generator(2), prior = dist.normal(0, 1),
      transition = function(x) return dist.normal(x, 1) end, observation = function(x) return dist.normal(x, 0.5) end }
    local r = f:run(ys, { moments = true })
    close(r.increments, dist.normal(r.mean, 0.5):log_prob(ys), 1e-13)
    close(r.square, r.mean:square(), 1e-13)
    for _, scheme in ipairs(smc.schemes()) do
      assert.same({ 0 }, smc.resample(pn.tensor { -3 }, { resampling = scheme }):totable())
    end
  end)

  it("of IWAE is the ELBO, and of every weight 1", function()
    local log_w = drawn(6, 1, 4)
    near(pn.infer.iwae(log_w):item(), log_w:mean():item(), 1e-14)
    assert.same({ { 1, 1, 1, 1 } }, pn.infer.normalised_weights(log_w):totable())
    assert.same({ 1, 1, 1, 1 }, pn.infer.effective_sample_size(log_w):totable())
  end)
end)

describe("one component", function()
  it("is the mixture of it", function()
    local d = dist.gamma(2, 1.5)
    local m = dist.mixture(pn.tensor { 1 }, dist.gamma(pn.tensor { 2 }, 1.5))
    local x = pn.tensor { 0.3, 1, 4 }
    close(m:log_prob(x), d:log_prob(x), 1e-13)
    close(m:cdf(x), d:cdf(x), 1e-13)
    near(m:mean():item(), d:mean():item(), 1e-13)
    near(m:variance():item(), d:variance():item(), 1e-13)
  end)

  it("of a Gaussian mixture has the mean and the covariance of the data", function()
    local x = drawn(7, 30, 2):matmul(pn.tensor { { 1, 0.5 }, { 0, 0.7 } }) + 2
    local m = pn.models.gaussian_mixture { data = 2, components = 1 }
    m:fit { data = x, max_steps = 5 }
    local law = m:law()
    close(law:mean(), x:mean(1), 1e-10)
    local off = x - x:mean(1)
    near(m:log_likelihood(x):sum():item(), dist.multivariate_normal { loc = x:mean(1),
      covariance_matrix = off:t():matmul(off) / 30 }:log_prob(x):sum():item(), 1e-8)
  end)
end)

describe("unequal weights", function()
  it("are those of a datum that stands there as often", function()
    local counts = { 3, 1, 2 }
    local places = pn.tensor({ 0, 0, 0, 1, 2, 2 }, { dtype = "int64" })
    local w, x, other = pn.tensor { 3, 1, 2 }, pn.tensor { 0.3, 1.7, -0.4 }, drawn(8, 6)
    near(metrics.wasserstein_1d(x, other, { weights = w / 6 }):item(),
      metrics.wasserstein_1d(x:take(1, places), other):item(), 1e-12)
    close(pn.histogram(x, { bins = 4, range = { -1, 2 }, weights = w }):to "float64",
      pn.histogram(x:take(1, places), { bins = 4, range = { -1, 2 } }):to "float64", 1e-12)
    assert.same({ 2, 3, 0, 1 }, pn.bincount(pn.tensor({ 1, 3, 0 }, { dtype = "int64" }), { weights = w }):totable())
    local logits, labels = drawn(9, 3, 3), pn.tensor({ 0, 1, 2 }, { dtype = "int64" })
    near(pn.cross_entropy(logits, labels, { weights = w }):item(),
      pn.cross_entropy(logits:take(1, places), labels:take(1, places)):item(), 1e-12)
    local log_w = pn.tensor(counts):log()
    local values = x:unsqueeze(2)
    near(pn.infer.self_normalised(log_w:unsqueeze(2), values):item(), x:take(1, places):mean():item(), 1e-12)
    local empirical = dist.empirical(x, log_w)
    near(empirical:mean():item(), x:take(1, places):mean():item(), 1e-12)
    local off = x:take(1, places) - x:take(1, places):mean()
    near(empirical:variance():item(), off:square():mean():item(), 1e-12)
  end)
end)

describe("no row", function()
  it("has sums of 0, no mean, and comes back in its shape", function()
    local none = pn.zeros { 0, 3 }
    assert.same({ 0, 0, 0 }, none:sum(1):totable())
    assert.same({ 1, 1, 1 }, none:prod(1):totable())
    helper.refuses("mean: tensor must not be empty along the reduced axes", function() return none:mean(1) end)
    assert.same({ 0, 2 }, nn.linear(3, 2)(none):shape())
    assert.same({ 0 }, dist.normal(0, 1):log_prob(pn.zeros { 0 }):shape())
    assert.same({ 3, 3 }, pn.concatenate({ none, pn.ones { 3, 3 } }, 1):shape())
    local w = pn.param(pn.ones { 3, 2 })
    assert.same({ { 0, 0 }, { 0, 0 }, { 0, 0 } }, pn.grad(none:matmul(w):sum(), { w })[1]:totable())
  end)
end)

-- {f(n), least [, what the error calls n]}: n is taken from `least` on.
describe("a count", function()
  local models, gaussian = pn.models, { transition = { { 0.9 } }, transition_cov = { { 1 } }, emission = { { 1 } },
    emission_cov = { { 1 } }, initial_mean = { 0 }, initial_cov = { { 1 } } }
  local y, model = drawn(9, 5), pn.model(function(m, x)
    m:observe("x", dist.normal(m:sample("a", dist.normal(0, 1)), 1), x)
  end)
  local linear = smc.linear_system(gaussian)
  local chain = { initial = pn.tensor { 0.4, 0.6 }, transition = pn.tensor { { 0.9, 0.1 }, { 0.3, 0.7 } },
    emission = dist.normal(pn.tensor { 0, 2 }, 1) }
  local vssm = models.vssm { size = 1, latent = 1, units = 1, flows = 0, hidden = { 1 }, num_particles = 2 }
  local sde = models.bnsde { size = 1, hidden = { 1 }, diffusion = 1, noise = 1 }
  local times = { y = pn.ones { 3, 1, 1 }, times = pn.tensor { 0, 1, 2 } }
  local series = pn.data.series({ { target = pn.arange(9):to("float64"):totable(), start = "2024-01-01" } },
    { freq = "D" })
  local deepar = models.deepar { hidden = 1, layers = 1 }
  local rows = {
    vae = { function(n) models.vae { data = 1, latent = 1, hidden = { 1 } }:generate(n) end, 1, "n" },
    factor_analysis = { function(n) models.factor_analysis { data = 2, latent = 1 }:generate(n) end, 1, "n" },
    gaussian_mixture = { function(n) models.gaussian_mixture { data = 2, components = 1 }:generate(n) end, 1, "n" },
    bnsde = { function(n) sde:forecast(times, n, { draws = 1 }) end, 1, "steps" },
    forecast = { function(n) deepar:forecast({ y = pn.ones { 2, 1, 1 } }, n, { draws = 1 }) end, 1, "steps" },
    backtest = { function(n) deepar:backtest { series = series, steps = n, draws = 2 } end, 1, "steps" },
    origins = { function(n) deepar:backtest { series = series, steps = 1, origins = n, draws = 2 } end, 1, "origins" },
    every = { function(n) deepar:backtest { series = series, steps = 1, every = n, origins = 2, draws = 2 } end, 1,
      "every" },
    window = { function(n) deepar:fit { series = series, window = n, steps = 1, batch_size = 1 } end, 1, "window" },
    context = { function(n) deepar:fit { series = series, window = 3, context = n, steps = 1, batch_size = 1 } end, 1,
      "context" },
    fit = { function(n) deepar:fit { series = series, window = 3, steps = n, batch_size = 1 } end, 1, "steps" },
    patience = { function(n)
      deepar:fit { series = series, window = 3, steps = 1, batch_size = 1, validate = function() return 1 end,
        patience = n }
    end, 1, "patience" },
    ["context of a batch"] = { function(n) deepar:log_evidence { y = pn.ones { 2, 1, 1 }, context = n } end, 1,
      "context" },
    generate = { function(n) vssm:generate(n, { steps = 2 }) end, 1, "n" },
    steps = { function(n) vssm:generate(2, { steps = n }) end, 1, "steps" },
    sees = { function(n) vssm:sees(1, n) end, 1, "steps" },
    t = { function(n) vssm:sees(n, 2) end, 1, "t" },
    widened = { function(n) vssm:amortised_posterior():widened(n) end, 1, "factor" },
    rows = { function(n) issm.new { seasonal = { 2 } }:rows(n) end, 1, "T" },
    period = { function(n) issm.new { seasonal = { n } } end, 2, "period" },
    ["times"] = { function(n) issm.new { seasonal = { { period = 2, every = n } } } end, 1, "every" },
    ["forecast of a linear system"] = { function(n) linear:forecast(y, n) end, 1, "steps" },
    ["draws of a linear system"] = { function(n) linear:sample(n) end, 1, "steps" },
    ["series of a linear system"] = { function(n) linear:sample(2, { batch_shape = { n } }) end, 1,
      "batch_shape[1]" },
    hmm = { function(n) smc.hmm(chain):forecast(y, n) end, 1, "steps" },
    ["draws of an hmm"] = { function(n) smc.hmm(chain):sample(n) end, 1, "steps" },
    ["series of an hmm"] = { function(n) smc.hmm(chain):sample(2, { batch_shape = { n } }) end, 1, "batch_shape[1]" },
    ["particles of sample"] = { function(n) smc.sample(model, { data = { 1 }, num_particles = n }) end, 4,
      "num_particles" },
    moves = { function(n) smc.sample(model, { data = { 1 }, num_particles = 8, max_moves = n }) end, 1, "max_moves" },
    waste_free = { function(n) smc.sample(model, { data = { 1 }, num_particles = 8, waste_free = n }) end, 2,
      "waste_free" },
    transport = { function(n) smc.transport(drawn(1, 3, 2), pn.zeros { 3 }, { steps = n }) end, 1, "steps" },
    iterations = { function(n) smc.extended(linear, y:unsqueeze(2), { steps = n }) end, 1, "steps" },
    ensemble = { function(n) smc.ensemble(linear, y:unsqueeze(2), { num_particles = n }) end, 2, "num_particles" },
    lag = { function(n) smc.filter { num_particles = 3, prior = dist.normal(0, 1),
      transition = function(x) return dist.normal(x, 1) end, observation = function(x) return dist.normal(x, 1) end,
      history = true }:run(y, { lag = n }) end, 0, "lag" },
    structural = { function(n) (smc.structural.level { scale = 1 } + smc.structural.irregular { scale = 1 })
      :forecast(y, n) end, 1, "steps" },
  }
  for name, row in pairs(rows) do
    it("of " .. name .. " begins at " .. row[2], function()
      row[1](row[2])
      local message = helper.message_of(row[1], row[2] - 1)
      assert(message:find(("%s must be a whole number from %d on, got %d"):format(row[3], row[2], row[2] - 1), 1,
        true), message)
    end)
  end
end)
