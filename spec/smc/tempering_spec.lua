--- SMC samplers: evidence against closed forms, posteriors of posteriordb by their rule of acceptance, calibration.
local pn = require "penumbra"
local message_of = require("spec.helper").message_of
local dist = pn.dist

-- Rows of a plate, so that observations stand apart: y_i ~ normal(mu, 0.7), mu ~ normal(0, 2).
local N = 12
local normal = pn.model(function(m, y)
  local mu = m:sample("mu", dist.normal(0, 2))
  m:plate("rows", N, function() m:observe("y", dist.normal(mu, 0.7), y) end)
end)

local function normal_data()
  pn.seed(4)
  return pn.randn { N } * 0.7 + 1.5
end

-- log p(y_1 .. y_n)
local function normal_evidence(y, n)
  local cov = pn.eye(n) * 0.49 + pn.full({ n, n }, 4)
  return dist.multivariate_normal { loc = pn.zeros { n }, covariance_matrix = cov }:log_prob(y:slice(1, 1, n)):item()
end

local coin = pn.model(function(m, heads, n)
  local p = m:sample("p", dist.beta(2, 3))
  m:deterministic("odds", p / (1 - p))
  m:observe("heads", dist.binomial(n, p), heads)
end)

local function log_beta(a, b)
  return (pn.tensor(a):lgamma() + pn.tensor(b):lgamma() - pn.tensor(a + b):lgamma()):item()
end

local SOAK = os.getenv "PN_SOAK"

-- R runs: the mean error of the log evidence within 6 standard errors, which are what the runs say of themselves.
local function check_evidence(model, settings, exact, runs)
  local errors, claimed, p = {}, 0, nil
  for r = 1, runs do
    p = pn.smc.sample(model, settings)
    errors[r], claimed = p.log_evidence.value - exact, claimed + p.log_evidence.se / runs
  end
  local e = pn.tensor(errors)
  local mean, sd = e:mean():item(), e:std():item()
  assert.is_true(claimed < 0.2, "the error is narrow enough to mean something")
  -- log of an unbiased estimate lies low by half its variance
  assert.is_true(math.abs(mean + sd * sd / 2) < 6 * sd / math.sqrt(runs), ("off by %g, sd %g"):format(mean, sd))
  assert.is_true(sd / claimed > 0.6 and sd / claimed < 1.6, ("sd %g, claimed %g"):format(sd, claimed))
  return p
end

describe("the moves of an SMC sampler", function()
  local tempering = require "penumbra.smc.tempering"

  it("are made in coordinates of the weighted covariance, its diagonal counting d / (N + d) more", function()
    local g, n, d = pn.generator(3), 7, 3
    local z, log_w = pn.randn({ n, d }, { generator = g }) * pn.tensor { 1, 3, 0.2 }, pn.randn({ n }, { generator = g })
    local w, factor = log_w:softmax(1):totable(), tempering.factor_of(z, log_w)
    local mean = (log_w:softmax(1):unsqueeze(2) * z):sum(1):totable()
    local got = factor:matmul(factor:t()):totable()
    for i = 1, d do
      for j = 1, d do
        local sum = 0
        for k = 1, n do sum = sum + w[k] * (z[k][i]:item() - mean[i]) * (z[k][j]:item() - mean[j]) end
        assert.near(i == j and sum or sum * n / (n + d), got[i][j], 1e-12)
        assert.is_true(j <= i or factor[i][j]:item() == 0)
      end
    end
    local at, u = tempering.coordinates(z, factor), pn.randn({ n, d }, { generator = g }) * 0.5
    assert.is_true((at:matmul(factor:t()) + z:mean(1) - z):abs():max():item() < 1e-12)
    local most = -1
    for j = 1, d do
      local a, b = at:select(2, j), (at + u):select(2, j)
      a, b = a - a:mean(), b - b:mean()
      most = math.max(most, ((a * b):sum() / (a:square():sum() * b:square():sum()):sqrt()):item())
    end
    assert.near(1 - most, tempering.mixing_of(at, u), 1e-12)
  end)

  it("begin at the first places whose cumulated weights exceed (i + u) / N", function()
    for _, count in ipairs { 5, 12 } do
      local log_w = pn.randn({ 7 }, { generator = pn.generator(count) })
      local u = pn.rand({ 1 }, { generator = pn.generator(4), dtype = "float64" }):item()
      local sums, want = log_w:softmax(1):cumsum(1):totable(), {}
      for i = 0, count - 1 do
        local k = 1
        while sums[k] <= (i + u) / count do k = k + 1 end
        want[i + 1] = k - 1
      end
      assert.same(want, tempering.systematic(log_w, count, pn.generator(4)):totable())
    end
  end)

  -- log step rises with each move by what its acceptance is above the one that is best.
  it("have steps that follow their acceptance", function()
    pn.seed(31)
    local model = pn.model(function(m)
      local w = m:sample("w", dist.normal(pn.zeros { 3 }, 1):independent(1))
      m:observe("y", dist.normal(w, 0.3):independent(1), pn.tensor { 1, -0.5, 2 })
    end)
    local first = { random_walk = 2.38 / 3 ^ 0.5, hmc = 3 ^ -0.25 }
    local best = { random_walk = 0.234 + 0.206 / 3, hmc = 0.8 }
    for _, kernel in ipairs { "random_walk", "hmc" } do
      for _, more in ipairs { {}, { max_moves = 1 }, { waste_free = 4 } } do
        local p = pn.smc.sample(model, { num_particles = 60, kernel = kernel, max_moves = more.max_moves,
          waste_free = more.waste_free })
        local step = first[kernel]
        for _, rung in ipairs(p.ladder) do
          step = step * math.exp(rung.moves * (rung.accept - best[kernel]))
          assert.near(1, rung.step_size / step, 1e-9)
          assert.is_true(rung.moves == (more.waste_free and 3 or more.max_moves or rung.moves))
          assert.is_true(more.max_moves ~= nil or more.waste_free ~= nil or rung.mixing >= 0.9)
          assert.is_true(rung.accept > 0.05 and rung.accept <= 1)
        end
        assert.is_true(#p.ladder > 2 and math.abs(step / first[kernel] - 1) > 1e-3)
      end
    end
  end)
end)

-- In coordinates of variance 1 a leapfrog of a normal is taken with more than 0.8 up to a step above 1, where the
-- forces are the slope of the density reached: part of the likelihood's, some of the observations'. Other forces leave
-- the law as it is, but not the steps.
describe("the forces of Hamiltonian moves", function()
  local y = normal_data()
  for _, by in ipairs { "temperature", "data" } do
    it("are the slope of the density reached, by = " .. by, function()
      local sum, levels = 0, 0
      for seed = 1, 3 do
        pn.seed(seed)
        local p = pn.smc.sample(normal, { data = { y }, by = by, kernel = "hmc", num_particles = 200 })
        for _, rung in ipairs(p.ladder) do sum, levels = sum + rung.step_size, levels + 1 end
      end
      assert(levels > 5 and sum / levels > 1.2, sum / levels)
    end)
  end
end)

describe("the evidence of an SMC sampler", function()
  local y = normal_data()
  for name, settings in pairs {
    ["with random walks"] = {},
    ["with Hamiltonian moves"] = { kernel = "hmc" },
    ["that wastes nothing"] = { waste_free = 10 },
    ["from a normal"] = { start = "normal", scale = 3 },
    ["with data one after another"] = { by = "data" },
    ["with data and gradients"] = { by = "data", kernel = "hmc" },
    ["with data, wasting nothing"] = { by = "data", waste_free = 20 },
  } do
    it("is that of a normal " .. name, function()
      settings.data, settings.num_particles = { y }, 800
      pn.seed(2)
      local p = check_evidence(normal, settings, normal_evidence(y, N), 30)
      local precision = 1 / 4 + N / 0.49
      local row = p:summary().mu
      assert.is_true(math.abs(row.mean - y:sum():item() / 0.49 / precision) < 6 * row.mcse)
      assert.is_true(row.mcse < 0.03 and math.abs(row.sd * math.sqrt(precision) - 1) < 0.15)
    end)
  end

  it("is that of a beta-binomial", function()
    pn.seed(3)
    local exact = math.log(210) + log_beta(8, 7) - log_beta(2, 3) -- 10 over 6
    local p = check_evidence(coin, { data = { 6, 10 }, num_particles = 800 }, exact, 30)
    assert.is_true(math.abs(p.draws.p:mean():item() - 8 / 15) < 0.03)
    assert.same({ 1, 800 }, p.draws.odds:shape())
  end)

  -- With moves in coordinates that the same particles had chosen it was off by 0.8, more than 8 standard errors.
  it("is that of a regression on thirty numbers", function()
    pn.seed(12)
    local d = 30
    local x = pn.randn { 60, d }
    local seen = x:matmul(pn.randn { d }) + pn.randn { 60 } * 0.5
    local regression = pn.model(function(m)
      local w = m:sample("w", dist.normal(pn.zeros { d }, 1):independent(1))
      m:observe("y", dist.normal(x:matmul(w), 0.5):independent(1), seen)
    end)
    local cov = x:matmul(x:t()) + pn.eye(60) * 0.25
    local exact = dist.multivariate_normal { loc = pn.zeros { 60 }, covariance_matrix = cov }:log_prob(seen):item()
    check_evidence(regression, { kernel = "hmc", num_particles = 1000 }, exact, SOAK and 16 or 9)
  end)

  it("is known of every part of the data", function()
    pn.seed(5)
    local total = pn.zeros { N }
    for _ = 1, 20 do
      total = total + pn.smc.sample(normal, { data = { y }, by = "data", num_particles = 1000 }).log_evidences
    end
    for n, v in ipairs((total / 20):totable()) do
      assert.is_true(math.abs(v - normal_evidence(y, n)) < 0.1, n)
    end
  end)

  -- One observation of many numbers; between single ones, too. Taken in at once it had a log evidence of sd 2.2.
  it("is right where one observation says more than the particles can follow", function()
    pn.seed(13)
    local block = pn.randn { 3, 20 } * 0.2 + pn.tensor({ 1.5, -2, 0.5 }):unsqueeze(2)
    local single = pn.randn { 4 } * 0.7 + 1.5
    local joint = pn.model(function(m, before, numbers, after)
      local mu = m:sample("mu", dist.normal(pn.zeros { 3 }, 2):independent(1))
      m:plate("before", 2, function() m:observe("a", dist.normal(mu[1], 0.7), before) end)
      m:observe("y", dist.normal(mu:unsqueeze(2), pn.full({ 3, 20 }, 0.2)):independent(2), numbers)
      m:plate("after", 2, function() m:observe("b", dist.normal(mu[1], 0.7), after) end)
    end)
    local function evidence(values, noise) -- of numbers with one mean
      local n = values:numel()
      local cov = pn.eye(n) * noise ^ 2 + pn.full({ n, n }, 4)
      return dist.multivariate_normal { loc = pn.zeros { n }, covariance_matrix = cov }:log_prob(values):item()
    end
    local noises = pn.concatenate({ pn.full({ 2 }, 0.49), pn.full({ 20 }, 0.04), pn.full({ 2 }, 0.49) }, 1)
    local first = pn.concatenate({ single:slice(1, 1, 2), block[1], single:slice(1, 3, 4) }, 1)
    local cov = noises * pn.eye(24) + pn.full({ 24, 24 }, 4)
    local exact = dist.multivariate_normal { loc = pn.zeros { 24 }, covariance_matrix = cov }:log_prob(first):item()
      + evidence(block[2], 0.2) + evidence(block[3], 0.2)
    local data = { single:slice(1, 1, 2), block, single:slice(1, 3, 4) }
    for _, settings in ipairs { {}, { kernel = "hmc" } } do
      settings.by, settings.data, settings.num_particles = "data", data, SOAK and 1000 or 500
      local p = check_evidence(joint, settings, exact, 16)
      assert.same({ 5 }, p.log_evidences:shape())
      assert.is_true(math.abs(p.log_evidences[5]:item() - p.log_evidence.value) < 1e-9)
      assert.is_true(#p.ladder > 4 and p.ladder[#p.ladder].level == 5)
    end
  end)

  it("sums enumerated variables out", function()
    local mixture = pn.model(function(m, x)
      local mu = m:sample("mu", dist.normal(0, 1))
      m:plate("rows", 3, function()
        local k = m:sample("k", dist.bernoulli(0.3), { enumerate = true })
        m:observe("x", dist.normal(mu + k * 2, 1), x)
      end)
    end)
    local x = pn.tensor { 0.5, 2, -1 }
    local weights, exact = { [0] = 0.7, 0.3 }, 0
    for code = 0, 7 do
      local k = { code & 1, code >> 1 & 1, code >> 2 }
      local law = dist.multivariate_normal { loc = pn.tensor(k) * 2, covariance_matrix = pn.eye(3) + 1 }
      exact = exact + weights[k[1]] * weights[k[2]] * weights[k[3]] * math.exp(law:log_prob(x):item())
    end
    pn.seed(6)
    check_evidence(mixture, { data = { x }, num_particles = 500 }, math.log(exact), 20)
  end)

  it("of a model with a flat variable starts from a fit", function()
    local flat = pn.model(function(m, x)
      m:observe("x", dist.normal(m:flat "mu", 1):expand { 4 }:independent(1), x)
    end)
    local x = pn.tensor { 1, 2, 3, 4 }
    local exact = -4 / 2 * math.log(2 * math.pi) - 5 / 2 + 0.5 * math.log(2 * math.pi / 4)
    pn.seed(7)
    assert.matches("'mu' is flat and has no prior", message_of(pn.smc.sample, flat, { data = { x } }))
    local fit = pn.svi(flat, "full_rank", { data = { x }, steps = 300 })
    check_evidence(flat, { data = { x }, num_particles = 500, start = fit }, exact, 20)
    local wide = dist.normal(pn.full({ 1 }, 2), 3):independent(1)
    check_evidence(flat, { data = { x }, num_particles = 500, start = wide }, exact, 20)
  end)
end)

describe("an SMC sampler", function()
  local y = normal_data()

  -- Each level is the farthest at which the incremental weights keep the threshold: but for the last they keep it to
  -- the bisection's digits; with data one after another they fall below it with the observation that ends a step, or
  -- were cut to it where that observation alone left less than its square.
  it("has the ladder of its threshold, by temperature and by data", function()
    local n, last = 500, nil
    for _, threshold in ipairs { 0.3, 0.8 } do
      pn.seed(21)
      local p = pn.smc.sample(normal, { data = { y }, num_particles = n, threshold = threshold })
      local level = 0
      for k, rung in ipairs(p.ladder) do
        assert.is_true(rung.level > level)
        level = rung.level
        if k < #p.ladder then assert.near(threshold * n, rung.ess, 1e-6 * n) end
        assert.is_true(rung.ess >= threshold * n * (1 - 1e-9) and rung.ess <= n)
      end
      assert.equal(1, level)
      assert.near(p.log_evidence.value, p.ladder[#p.ladder].log_evidence, 1e-9)
      assert.is_true(#p.ladder > 1 and (not last or #p.ladder > last))
      last = #p.ladder
      pn.seed(22)
      local before = 0
      p = pn.smc.sample(normal, { data = { y }, num_particles = n, threshold = threshold, by = "data" })
      local cut = 0
      for k, rung in ipairs(p.ladder) do
        local whole = rung.level == math.floor(rung.level)
        assert.is_true(rung.level > before)
        before = rung.level
        if not whole then
          assert.near(threshold * n, rung.ess, 1e-6 * n)
          cut = cut + 1
        elseif k < #p.ladder then
          assert.is_true(rung.ess < threshold * n and rung.ess >= threshold ^ 2 * n)
        end
      end
      assert.equal(N, before)
      assert.is_true(#p.ladder < N + cut)
    end
  end)

  it("gives the same bits for any number of threads, and from a generator", function()
    local function run()
      local p = pn.smc.sample(normal, { data = { y }, num_particles = 301, generator = pn.generator(8) })
      return p.draws.mu:totable(), p.log_evidence.value
    end
    local before = pn.threads()
    pn.threads(1)
    local a, z = run()
    pn.threads(2)
    local b, w = run()
    pn.threads(before)
    assert.same(a, b)
    assert.equal(z, w)
  end)

  it("gives what posteriors give", function()
    pn.seed(9)
    local p = pn.smc.sample(normal, { data = { y }, num_particles = 500 })
    assert.matches("500 particles in %d+%.%d s, log evidence %-%d+%.%d+, standard error", tostring(p))
    assert.same({ 500, N }, p:predict().y:shape())
    assert.same({ 1, 500, N }, p:log_likelihood().y:shape())
    assert.is_true(p:loo().elpd < 0)
    local path = os.tmpname()
    assert.is_true(p:save(path))
    local q = assert(pn.restore(path, { model = normal, data = { y } }))
    os.remove(path)
    assert.equal(tostring(p), tostring(q))
    assert.equal(p.log_evidence.value, q.log_evidence.value)
    local last = p.ladder[#p.ladder]
    assert.equal(1, last.level)
    assert.is_true(last.mixing >= 0.9 and last.accept > 0.2 and last.moves >= 1)
  end)

  it("says when its particles do not move", function()
    pn.seed(10)
    local p = pn.smc.sample(normal, { data = { y }, num_particles = 200, max_moves = 1 })
    local slow, least = 0, 1
    for _, rung in ipairs(p.ladder) do
      if rung.mixing < 0.9 then slow, least = slow + 1, math.min(least, rung.mixing) end
    end
    assert(slow > 1 and least < 0.8)
    local text = ("warning: at %d of %d levels particles remember where they stood after 1 moves (correlations up to "
      .. "%.2f): more max_moves"):format(slow, #p.ladder, 1 - least)
    assert(tostring(p):gsub("%s+", " "):find(text, 1, true), tostring(p))
    local wasted = pn.smc.sample(normal, { data = { y }, num_particles = 200, waste_free = 2 })
    assert(wasted.ladder[1].mixing < 0.9 and not tostring(wasted):find "warning", tostring(wasted))
    local fine = pn.smc.sample(normal, { data = { y }, num_particles = 200 })
    assert.is_nil(tostring(fine):find "warning")
    for k = 2, #p.ladder do assert.equal(1, p.ladder[k].moves) end -- the first are draws of the prior
  end)

  it("says what is wrong", function()
    local function refused(pattern, settings, m)
      settings.data = { y }
      assert.matches("tempering_spec.lua:%d+: .*" .. pattern, message_of(function()
        local p = pn.smc.sample(m or normal, settings)
        return p
      end))
    end
    refused("num_particles must be a whole number from 4", { num_particles = 3 })
    refused("threshold must lie between 0 and 1, got 1", { threshold = 1 })
    refused("threshold must lie between 0 and 1, got 0", { threshold = 0 })
    for _, most in ipairs { 0, 1.5, -1 } do
      refused("max_moves must be a whole number from 1 on", { max_moves = most })
    end
    refused("mixing must lie between 0 and 1", { mixing = 0 })
    refused("mixing must lie between 0 and 1", { mixing = 1 })
    refused("scale must be positive", { scale = 0 })
    refused("scale must be positive", { scale = math.huge })
    refused("waste_free must be a whole number from 2 on, got 1", { waste_free = 1 })
    refused("must be a multiple of the length of chains, waste_free = 3, got 8", { num_particles = 8, waste_free = 3 })
    refused("must be a multiple of the length of chains, waste_free = 8, got 8", { num_particles = 8, waste_free = 8 })
    refused("scale must be positive", { scale = -1 })
    refused("multiple of the length of chains, waste_free = 7, got 100", { num_particles = 100, waste_free = 7 })
    refused("kernel must be one of", { kernel = "gibbs" })
    refused("particles is called num_particles", { particles = 100 })
    refused("start must be 'prior', 'normal'", { start = "posterior" })
    refused("by = 'data' starts from the prior", { start = "normal", by = "data" })
    refused("needs a model", {}, function() end)
    refused("start must be 'prior', 'normal', a fit of pn.svi or a distribution of the 1 unconstrained numbers, got "
      .. "userdata", { start = dist.normal(0, 1) })
    refused("numbers, got userdata", { start = dist.normal(pn.zeros { 2 }, 1):independent(1) })
    refused("numbers, got userdata", { start = dist.normal(pn.zeros { 1, 2 }, 1):independent(2) })
    refused("numbers, got number", { start = 3 })
    refused("weights are not finite at level 1", { by = "data" }, pn.model(function(m)
      m:factor("f", m:sample("x", dist.normal(0, 1)) * 0 + math.huge)
    end))
    refused("all particles have density 0", {}, pn.model(function(m)
      m:factor("f", m:sample("x", dist.normal(0, 1)):square() * -math.huge)
    end))
    refused("the ladder does not rise at level 0: the density cannot be reached from the start with 50 particles",
      { num_particles = 50 }, pn.model(function(m) m:factor("f", m:sample("x", dist.normal(0, 1)) * 1e300) end))
  end)

  it("tells the density of each particle, from whatever law they came", function()
    for k, o in ipairs { {}, { kernel = "hmc" }, { by = "data" }, { by = "data", kernel = "hmc" }, { waste_free = 5 },
      { start = "normal" }, { start = dist.normal(pn.full({ 1 }, 1), 2):independent(1) }, { islands = 2 } } do
      o.data, o.num_particles, o.generator = { y }, 100, pn.generator(k)
      local p = pn.smc.sample(normal, o)
      local mu = p.draws.mu
      local want = dist.normal(0, 2):log_prob(mu)
      for i = 1, N do want = want + dist.normal(mu, 0.7):log_prob(pn.full(mu:shape(), y[i]:item())) end
      assert.same({ 1, 100 * (o.islands or 1) }, p.statistics.accept:shape())
      assert.same(want:shape(), p.statistics.accept:shape())
      assert((p.statistics.log_density - want):abs():max():item() < 1e-9, k)
      local last = p.ladder[#p.ladder].accept
      assert.same({ last, last }, { p.statistics.accept:min():item(), p.statistics.accept:max():item() })
    end
  end)

  it("starts from normals of the scale it is told, two unless told", function()
    local function run(o)
      o.data, o.num_particles, o.generator = { y }, 50, pn.generator(3)
      return pn.smc.sample(normal, o).draws.mu:totable()
    end
    for _, scale in ipairs { 2, 3 } do
      local law = dist.normal(pn.zeros { 1 }, scale):independent(1)
      assert.same(run { start = law }, run { start = "normal", scale = scale })
    end
    assert.same(run { start = "normal", scale = 2 }, run { start = "normal" })
    assert.not_same(run { start = "normal", scale = 3 }, run { start = "normal" })
  end)

  -- A leapfrog of step h takes a quarter of a period in pi / (2 h) of them, h within a fifth of the step told.
  it("evaluates densities as often as it moves, and gradients a quarter of a period", function()
    local core = require "penumbra.core"
    local original, counts, seen, again = core.new_population, {}, {}, 0
    local _ <close> = setmetatable({}, { __close = function() core.new_population = original end })
    core.new_population = function(f)
      local population, k = original(f), #counts + 1
      counts[k] = 0
      return { evaluate = function(_, z)
        counts[k] = counts[k] + 1
        local known = true
        for i = 1, z:size(1) do
          local place = z[i][-1]:item()
          known, seen[place] = known and seen[place], true
        end
        again = again + (known and 1 or 0)
        return population:evaluate(z)
      end }
    end
    for _, o in ipairs { {}, { waste_free = 4 }, { kernel = "hmc", max_moves = 1 }, { kernel = "hmc" } } do
      counts, seen, again = {}, {}, 0
      o.data, o.num_particles, o.generator = { y }, 40, pn.generator(4)
      local p = pn.smc.sample(normal, o)
      local moves, least, most, step = 0, 0, 0, 1 -- d^(-1/4) of one number
      for _, rung in ipairs(p.ladder) do
        moves = moves + rung.moves
        least = least + math.max(1, math.floor(math.pi / 2 / (1.2 * step) + 0.5))
        most = most + math.floor(math.pi / 2 / (0.8 * step) + 0.5)
        step = rung.step_size
      end
      assert.equal(o.kernel and 1 or 1 + moves, counts[1])
      assert.equal(o.kernel and #p.ladder or 0, again) -- the gradients where moves begin, at each level once
      if o.max_moves then
        local leapfrogs = counts[2] - #p.ladder
        assert(leapfrogs >= least and leapfrogs <= most and most < 2 * #p.ladder + 8, leapfrogs)
      end
    end
  end)

  it("passes simulation-based calibration on a conjugate model", function()
    local model = pn.model(function(m, x)
      local mu = m:sample("mu", dist.normal(0, 1))
      m:observe("x", dist.normal(mu, 1):expand { 5 }:independent(1), x)
    end)
    local function sampler(wrong)
      return function(observed, n)
        local p = pn.smc.sample(model, { data = { observed.x * (wrong or 1) }, num_particles = 200 })
        return { mu = p.draws.mu[1]:take(1, pn.randperm(200):slice(1, 1, n)) }
      end
    end
    pn.seed(11)
    local sbc = pn.sbc(model, { data = {}, simulations = 150, draws = 49, sampler = sampler() })
    assert.is_true(sbc:passed(), tostring(sbc))
    assert.is_false(pn.sbc(model, { data = {}, simulations = 150, draws = 49, sampler = sampler(0.5) }):passed())
  end)
end)

local build = os.getenv "BUILD" or "build"
local command = os.getenv "PENUMBRA" or build .. "/penumbra"
local probe = io.open "../shared/data/posteriordb/README.md"
if probe then
  probe:close()
end

describe("the posteriors of posteriordb", function()
  for _, name in ipairs { "eight_schools-eight_schools_noncentered", "gp_pois_regr-gp_regr" } do
    local where_present = probe and it or pending
    where_present("pass by an SMC sampler: " .. name, function()
      local pipe = assert(io.popen(("'%s' examples/papers/posteriordb/run.lua --data ../shared/data/posteriordb "
        .. "--guides none --sampler smc --only %s 2>&1"):format(command, name)))
      local text = pipe:read "a"
      assert.is_true(pipe:close(), text)
      assert.matches(name:gsub("%p", "%%%0") .. "[^\n]* ok\n", text)
    end)
  end
end)
