--- Islands of particles in one process: filters against the Kalman filter and an enumerated hidden Markov chain, SMC
--- samplers against closed forms. (spec/mpi has them on several ranks.)
local pn = require "penumbra"
local helper = require "spec.helper"
local evidence_error = require "penumbra.smc.evidence_error"
local island_sampler = require "penumbra.smc.island_sampler"
local islands = require "penumbra.smc.islands"
local ranks = require "penumbra.ranks"
local tempering = require "penumbra.smc.tempering"
local dist = pn.dist
local where_mpi_is = pcall(require, "penumbra.mpi_core") and it or pending

-- x' = a x + N(0, q^2), y = x + N(0, r^2), the second observation missing.
local A, Q, R, P0 = 0.9, 0.5, 0.8, 1
local YS = { 0.9, false, -0.4, 0.6, 1.3, 0.3 }

local function kalman()
  local one, total = pn.eye(1), 0
  local m, P = pn.zeros { 1 }, pn.full({ 1, 1 }, P0)
  for t, y in ipairs(YS) do
    local a, q = pn.full({ 1, 1 }, t > 1 and A or 1), pn.full({ 1, 1 }, t > 1 and Q * Q or 0)
    if y then
      local log_prob
      m, P, log_prob = pn.kalman_step(m, P, a, nil, q, pn.tensor { y }, one, nil, pn.full({ 1, 1 }, R * R))
      total = total + log_prob:item()
    else
      m, P = pn.kalman_predict(m, P, a, nil, q)
    end
  end
  return total, m[1]:item(), P[1][1]:item()
end

local LINEAR = { prior = dist.normal(0, math.sqrt(P0)), transition = function(x) return dist.normal(x * A, Q) end,
  observation = function(x) return dist.normal(x, R) end }

local function filter(options)
  local o = { num_particles = 6, islands = 8, exchange = 0.8 }
  for key, value in pairs(options.init and {} or LINEAR) do o[key] = value end
  for key, value in pairs(options) do o[key] = value end
  return pn.smc.filter(o)
end

-- E[Z] / Z = 1 within 6 standard errors of f(), a log evidence of n runs; their standard deviation.
local function check_unbiased(f, exact, n, narrow)
  local list = {}
  for k = 1, n do list[k] = f() - exact end
  local ratio = pn.tensor(list):exp()
  local error = ratio:std():item() / math.sqrt(n)
  assert(math.abs(ratio:mean():item() - 1) < 6 * error, ("%g, error %g"):format(ratio:mean():item(), error))
  assert(error < narrow, error)
  return pn.tensor(list):std():item()
end

describe("the evidence of islands", function()
  local exact, mean, variance = kalman()

  for _, exchange in ipairs { 0, 0.9, 1 } do
    it("is the Kalman filter's with exchange = " .. exchange, function()
      pn.seed(1)
      local exchanges, means, n = 0, {}, 200
      check_unbiased(function()
        local f = filter { exchange = exchange }
        local z = f:run(YS).log_evidence:item()
        exchanges = exchanges + f.machine:trace().resampled:sum():item()
        means[#means + 1] = f:mean():item()
        helper.near(f:log_evidence():item(), z, 1e-12)
        return z
      end, exact, n, 0.05)
      local share = exchanges / n / (#YS - 1)
      assert(exchange == 0 and share == 0 or exchange == 1 and share == 1 or exchange == 0.9 and share > 0.2
        and share < 0.9, share)
      means = pn.tensor(means)
      local error = means:std():item() / math.sqrt(n)
      helper.within(means:mean(), mean, 6 * error + 0.02 * math.sqrt(variance)) -- a ratio: off by 1 / 48
      assert(error < 0.025)
    end)
  end

  it("is that of a hidden Markov chain, its paths enumerated", function()
    local transition = pn.tensor { { 0.8, 0.15, 0.05 }, { 0.1, 0.6, 0.3 }, { 0.3, 0.3, 0.4 } }
    local start, seen, ys = { 0.2, 0.5, 0.3 }, { { 0.7, 0.3 }, { 0.2, 0.8 }, { 0.5, 0.5 } }, { 0, 1, 1, 0, 0 }
    local total, rows = 0, transition:totable()
    for code = 0, 3 ^ 5 - 1 do
      local p, before
      for t = 1, 5 do
        local k = code // 3 ^ (t - 1) % 3 + 1
        p = (p and p * rows[before][k] or start[k]) * seen[k][ys[t] + 1]
        before = k
      end
      total = total + p
    end
    local emission = pn.tensor { 0.3, 0.8, 0.5 }
    pn.seed(2)
    check_unbiased(function()
      return pn.smc.filter { num_particles = 5, islands = 6, exchange = 0.95, threshold = 0.7,
        prior = dist.categorical(pn.tensor(start)),
        transition = function(k) return dist.categorical(transition:take(1, k)) end,
        observation = function(k) return dist.bernoulli(emission:take(1, k)) end,
      }:run(pn.tensor(ys)).log_evidence:item()
    end, math.log(total), 200, 0.035)
  end)

  -- Islands that drew the same numbers would be one.
  it("has the variance of as many particles", function()
    pn.seed(3)
    local function spread(m) return check_unbiased(function()
      return filter { islands = m, exchange = 0.5 }:run(YS).log_evidence:item()
    end, exact, 150, 0.12) end
    local ratio = (spread(2) / spread(16)) ^ 2
    assert(ratio > 4 and ratio < 16, ratio) -- 8 where errors are small
  end)

  it("is 0 of islands that have lost all particles, and goes on with the others", function()
    pn.seed(4)
    local lost = 0
    check_unbiased(function()
      local f = pn.smc.filter { num_particles = 1, islands = 4, exchange = 0.6, prior = dist.bernoulli(0.5),
        transition = function(x) return dist.delta(x) end,
        observation = function(x) return dist.bernoulli(pn.where(x:eq(1), 1, pn.zeros { 1 })) end }
      local ok, result = pcall(f.run, f, pn.ones { 3 })
      lost = lost + (ok and 0 or 1)
      return ok and result.log_evidence:item() or -math.huge
    end, math.log(0.5), 300, 0.035)
    assert(lost > 3 and lost < 45, lost) -- 19 expected
  end)

  it("is that of an SMC sampler's model", function()
    local y = pn.tensor { 1.9, 0.7, 2.4, 1.3, 1.8, 0.2, 2.2, 1.1 }
    local normal = pn.model(function(m)
      local mu = m:sample("mu", dist.normal(0, 2))
      m:observe("y", dist.normal(mu, 0.7):expand({ 8 }):independent(1), y)
    end)
    local cov = pn.eye(8) * 0.49 + pn.full({ 8, 8 }, 4)
    local truth = dist.multivariate_normal { loc = pn.zeros { 8 }, covariance_matrix = cov }:log_prob(y):item()
    local posterior_mean = y:sum():item() / 0.49 / (1 / 4 + 8 / 0.49)
    for _, settings in ipairs { {}, { kernel = "hmc" }, { num_particles = 20, islands = 12, waste_free = 5 } } do
      pn.seed(5)
      local o = { num_particles = 24, islands = 10, exchange = 0.95 }
      for key, value in pairs(settings) do o[key] = value end
      local claimed, exchanges, mean_off, n = 0, 0, 0, 30
      local sd = check_unbiased(function()
        local p = pn.smc.sample(normal, o)
        claimed = claimed + p.log_evidence.se / n
        mean_off = mean_off + (p.draws.mu:mean():item() - posterior_mean) / n
        for k, rung in ipairs(p.ladder) do
          assert(rung.islands_ess <= o.islands + 1e-9 and (rung.exchanged or rung.islands_ess > 0.95 * o.islands))
          assert(k < #p.ladder or rung.exchanged and rung.level == 1)
          exchanges = exchanges + (rung.exchanged and k < #p.ladder and 1 or 0)
        end
        assert.same({ 1, o.islands * o.num_particles }, p.draws.mu:shape())
        return p.log_evidence.value
      end, truth, n, 0.05)
      assert(sd / claimed > 0.6 and sd / claimed < 1.6, sd / claimed)
      assert(exchanges > 10, exchanges)
      helper.within(mean_off, 0, 0.02)
    end
  end)
end)

-- An SMC sampler without moves whose particles have given log-likelihoods, so that its evidence is their mean.
local FACTORS = { { 0, -5 }, { -1, -0.5 }, { -9, -4 }, { -2, -12 } }

-- Those of `factors`; watch: told of each call of rejuvenated, and of what climbs, if it is a table.
local function still(levels, exchange, generator, factors, watch)
  factors = factors or FACTORS
  local n, id, calls = #factors[1], 0, 0
  local self = { n = n, count = #factors, size = 1, threshold = 0.5, generator = generator, step = 1,
    team = ranks.team("sample", false), account = evidence_error.new(n * #factors), target = { layout = {} },
    log_evidence = 0 }
  function self.largest_power() return 1 / levels end
  function self.first_particles()
    id = id + 1
    return { z = (pn.arange(n):to "float64" + n * (id - 1)):unsqueeze(2), base = pn.zeros { n },
      factors = pn.tensor(factors[id]):unsqueeze(2) }
  end
  function self.rejuvenated(island, particles, log_w, _, record)
    calls = calls + 1
    record.moves, record.accept, record.mixing, record.step_size = calls, calls / 100, calls / 10, 2 * calls
    if watch then watch.rows[calls] = { particles.factors:reshape({ -1 }):totable(), log_w:totable() } end
    local places, new = tempering.systematic(log_w, n, island.generator), {}
    island.account:resampled(places)
    for name, x in pairs(particles) do new[name] = x:take(1, places) end
    return new
  end
  local particles, ladder = island_sampler.climb(self, { exchange = exchange, kernel = "none" }, watch)
  return self, particles, ladder
end

describe("islands of an SMC sampler", function()
  for _, exchange in ipairs { 0.6, 1 } do
    it("are resampled without a bias, exchange = " .. exchange, function()
      local mean, count = 0, 0
      for _, row in ipairs(FACTORS) do mean = mean + (math.exp(row[1]) + math.exp(row[2])) / 8 end
      pn.seed(6)
      check_unbiased(function()
        local self, _, ladder = still(4, exchange)
        for k = 1, 3 do count = count + (ladder[k].exchanged and 1 or 0) end
        return self.log_evidence
      end, math.log(mean), 250, 0.06)
      assert(exchange == 1 and count == 750 or exchange == 0.6 and count > 40 and count < 650, count)
    end)
  end

  it("climb a ladder whose weights are worth what it tells", function()
    for _, levels in ipairs { 3, 5 } do
      local _, _, ladder = still(levels, 0)
      assert.equal(levels, #ladder)
      local factors = FACTORS
      for k, rung in ipairs(ladder) do
        assert.near(k / levels, rung.level, 1e-12)
        if k == 1 then -- before anything is resampled all count alike
          local n, sum, square = 0, 0, 0
          for _, row in ipairs(factors) do
            for _, f in ipairs(row) do
              local w = math.exp(f / levels)
              n, sum, square = n + 1, sum + w, square + w * w
            end
          end
          assert.near(sum ^ 2 / square, rung.ess, 1e-9)
        end
      end
      assert.equal(1, ladder[levels].level)
    end
  end)

  -- Weights W of islands by hand, without exchanges: (sum W w)^2 / (sum W w^2 sum of the W of those that live).
  it("tell of the level, the weights of particles and islands, and the moves of all", function()
    local inf = math.huge
    local factors = { { 0, -5, -inf }, { -1, -0.5, -2 }, { -9, -4, -3 } }
    local n, count, levels = 3, 3, 4
    local watch = { rows = {}, done = 0, told = {} }
    function watch:step(by, level_name, level, accept_name, accept)
      self.done = self.done + by
      self.told[#self.told + 1] = { level_name, accept_name, level, accept }
    end
    local self, _, ladder = still(levels, 0, pn.generator(8), factors, watch)
    local shares, evidence = { 1 / count, 1 / count, 1 / count }, 0
    assert.equal(100, watch.done)
    for t, rung in ipairs(ladder) do
      local sum, square, living, means, total = 0, 0, 0, {}, 0
      for k = 1, count do
        local row = watch.rows[(t - 1) * count + k]
        means[k] = 0
        for i = 1, n do
          local w = math.exp(row[2][i])
          assert.near(row[1][i] == -inf and 0 or math.exp(row[1][i] / levels), w, 1e-12)
          sum, square = sum + shares[k] / n * w, square + shares[k] / n * w * w
          living, means[k] = living + (row[1][i] > -inf and shares[k] / n or 0), means[k] + w / n
        end
        total = total + shares[k] * means[k]
      end
      evidence = evidence + math.log(total)
      if t < levels then -- at the last one islands are exchanged before they move
        assert.near(sum ^ 2 / (square * living) * n * count, rung.ess, 1e-9)
        assert.near(evidence, rung.log_evidence, 1e-12)
      end
      local concentration = 0
      for k = 1, count do
        shares[k] = shares[k] * means[k] / total
        concentration = concentration + shares[k] ^ 2
      end
      assert(t == levels or math.abs(1 / concentration - rung.islands_ess) < 1e-9)
      assert.equal(t == levels, rung.exchanged)
      local last = count * t
      assert.same({ last, (last - 2) / 10 }, { rung.moves, rung.mixing })
      assert.near((last - 1) / 100, rung.accept, 1e-14)
      assert.near(2 * (last - 1), rung.step_size, 1e-12)
      assert.same({ "level", "accept", rung.level, rung.accept }, watch.told[t])
    end
    assert.equal(self.log_evidence, ladder[levels].log_evidence)
  end)

  it("take the place of one that has lost its particles, whatever the exchange", function()
    local inf = math.huge
    local _, particles, ladder = still(2, 0, pn.generator(3), { { 0, -1 }, { -inf, -inf }, { -2, 0 } })
    assert.is_true(ladder[1].exchanged)
    assert.is_true(particles.factors:isfinite():all():item())
    helper.refuses("sample: all particles have density 0", still, 2, 0, pn.generator(3), { { -inf, -inf }, { -inf,
      -inf } })
  end)

  it("tell the account whose descendants particles are", function()
    local moved = 0
    for seed = 1, 20 do
      local self, particles = still(1, 0, pn.generator(seed))
      local families = self.account.families[1]
      assert.same(particles.z:reshape({ -1 }):totable(), families:to("float64"):totable())
      for k, family in ipairs(families:totable()) do
        moved = moved + ((k - 1) // 2 ~= family // 2 and 1 or 0)
      end
    end
    assert(moved > 20)
  end)
end)

-- By hand: e_t by the ancestors at the level before its own, with those of up to five levels before.
describe("the account of a log evidence", function()
  local function by_hand(levels, weights, shares, places, n)
    local function ancestor(t, level, i) -- of particle i of level t, at an earlier one
      for k = t, level + 1, -1 do i = places[k - 1][i] + 1 end
      return i
    end
    local apart, variance = {}, 0
    for t = 1, levels do
      local mean = 0
      for i = 1, n do mean = mean + shares[t][i] * weights[t][i] end
      apart[t] = {}
      for i = 1, n do apart[t][i] = shares[t][i] * (weights[t][i] / mean - 1) end
    end
    local function grouped(t, level)
      local sums = {}
      for a = 1, n do sums[a] = 0 end
      for i = 1, n do
        local a = ancestor(t, level, i)
        sums[a] = sums[a] + apart[t][i]
      end
      return sums
    end
    for t = 1, levels do
      for lag = 0, math.min(5, t - 1) do
        local level = math.max(1, t - lag - 1)
        local a, b = grouped(t, level), grouped(t - lag, level)
        for k = 1, n do variance = variance + (lag == 0 and 1 or 2) * a[k] * b[k] end
      end
    end
    return math.sqrt(math.max(variance, 0))
  end

  it("sums over common ancestors of five levels, of particles that count alike or not", function()
    local g, n = pn.generator(12), 9
    for _, alike in ipairs { true, false } do
      local account = evidence_error.new(n)
      local weights, shares, places = {}, {}, {}
      for t = 1, 9 do
        local log_w, log_share = pn.randn({ n }, { generator = g }), pn.randn({ n }, { generator = g }):log_softmax(1)
        log_share = alike and pn.full({ n }, -math.log(n)) or log_share
        weights[t], shares[t] = log_w:exp():totable(), log_share:exp():totable()
        assert.near((log_w + log_share):logsumexp(1):item(), account:add(log_w, not alike and log_share or nil), 1e-12)
        assert.near(by_hand(t, weights, shares, places, n), account:error(), 1e-10)
        local ancestors = pn.randint(0, n, { n }, { generator = g })
        places[t] = ancestors:totable()
        account:resampled(ancestors)
      end
      assert(account:error() > 0.1)
      assert.same({ 5, 6 }, { #account.sums, #account.families }) -- and holds no more than it reads
    end
  end)
end)

describe("islands", function()
  -- States that stay where they are, and no resampling within: what stands at a place after an exchange has both the
  -- states and the weights of one island of before.
  it("are exchanged with their states and weights", function()
    pn.seed(9)
    local f, other = filter { exchange = 1, threshold = 0, transition = function(x) return dist.delta(x) end }, 0
    f:observe(0.8)
    local before = {}
    for k, own in ipairs(f.filters) do before[k] = { x = own.state, log_w = own.machine:log_weights() } end
    f:observe(-0.3)
    for k, own in ipairs(f.filters) do
      local from
      for j, one in ipairs(before) do from = helper.off(own.state, one.x) == 0 and j or from end
      other = other + (from ~= k and 1 or 0)
      local log_w = before[from].log_w + dist.normal(own.state, R):log_prob(pn.full({ 6 }, -0.3))
      helper.close(own.machine:log_weights(), log_w - log_w:logsumexp(1), 1e-12)
    end
    assert(other > 0)
  end)

  it("leave the default generator as it was", function()
    local f = filter {}
    local state = pn.rng_state()
    f:run(YS)
    assert.same(state, pn.rng_state())
  end)

  it("are the same again from a seed or a generator, whoever draws between steps", function()
    local function run(given, between)
      local f, list = filter(given), {}
      for t, y in ipairs(YS) do
        if between then pn.randn { 3 } end
        list[t] = f:observe(y or nil):item()
      end
      return list
    end
    pn.seed(7)
    local list = run {}
    pn.seed(7)
    assert.same(list, run({}, true))
    assert.same(run { generator = pn.generator(3) }, run({ generator = pn.generator(3) }, true))
    assert.not_same(list, run { generator = pn.generator(3) })
  end)

  it("are moved as little as can be", function()
    assert.same({ 1, 2, 3, 4 }, islands.places { 0, 1, 2, 3 })
    assert.same({ 1, 2, 3, 2 }, islands.places { 0, 1, 1, 2 })
    assert.same({ 3, 3, 3, 3 }, islands.places { 2, 2, 2, 2 })
    assert.same({ 1, 1, 3, 3, 3 }, islands.places { 0, 0, 2, 2, 2 })
  end)

  it("take functions of states in tables, and tell variances", function()
    pn.seed(8)
    local f = filter { num_particles = 400, exchange = 1,
      init = function(n) return { x = pn.randn { n } * math.sqrt(P0), pair = { pn.zeros { n, 2 } } } end,
      step = function(s)
        local n = s.x:size(1)
        return { x = s.x * A + pn.randn { n } * Q, pair = { pn.zeros { n, 2 } } }
      end,
      log_weight = function(s, y) return dist.normal(s.x, R):log_prob(pn.full(s.x:shape(), y)) end }
    local _, mean, variance = kalman()
    local r = f:run(YS, { moments = true })
    helper.within(f:mean().x, mean, 0.06)
    helper.within(f:variance(function(s) return s.x end), variance, 0.02)
    helper.within(r.mean.x[#YS], f:mean().x, 1e-12)
    helper.within(r.square.x[#YS] - r.mean.x[#YS] ^ 2, variance, 0.02)
    assert.same({ #YS, 2 }, r.mean.pair[1]:shape())
    f:reset()
    assert.equal(0, f.machine:steps())
    assert(f:observe(YS[1]):item() < 0)
  end)

  it("go on with inputs, tell their weights, and begin again with the streams where they are", function()
    local seen = {}
    local f = filter { exchange = 0, transition = function(x, t, u)
      seen[#seen + 1] = u
      assert.equal(#seen, 8 * (t - 2) + (#seen - 1) % 8 + 1)
      return dist.normal(x * A + u, Q)
    end }
    local us = { 0.1, 0.2, 0.3, 0.4, 0.5, 0.6 }
    local r = f:run(YS, { inputs = us })
    assert.equal(8 * 5, #seen)
    for k, u in ipairs(seen) do assert.equal(us[(k - 1) // 8 + 2], u) end
    assert.is_nil(r.mean)
    assert.is_nil(r.square)
    helper.close(r.increments:sum(1), r.log_evidence, 1e-12)
    helper.close(f:effective_sample_size(), 1 / f.machine:weights():square():sum(), 1e-9)
    local total = pn.zeros { 8 }
    for k, own in ipairs(f.filters) do
      total = total + pn.one_hot(pn.tensor({ k - 1 }, { dtype = "int64" }), 8)[1]:to "float64" * own:log_evidence()
    end
    helper.close(f.machine:weights(), total:softmax(1), 1e-9) -- without exchanges by their evidence
    helper.close(f:log_evidence(), total:logsumexp(1) - math.log(8), 1e-9)
    local first = f.filters[1].state:totable()
    f:reset()
    for _, own in pairs(f.filters) do assert.is_nil(own.state) end
    f:observe(YS[1])
    assert.not_same(first, f.filters[1].state:totable())
  end)

  local function increments(more)
    local o = { num_particles = 6, generator = pn.generator(4) }
    for _, list in ipairs { LINEAR, more } do
      for key, value in pairs(list) do o[key] = value end
    end
    local f = pn.smc.filter(o)
    return f:run(YS).increments:totable(), tostring(f)
  end

  it("are exchanged at half of their number where that is not said", function()
    local half, text = increments { islands = 4, exchange = 0.5 }
    assert.equal("islands: 4 filters at t = " .. #YS, text)
    assert.same(half, (increments { islands = 4 }))
  end)
  where_mpi_is("are one for each rank", function()
    local one, alone = increments { distributed = true, exchange = 0.5 }
    assert.equal("islands: 1 filters at t = " .. #YS, alone)
    assert.same(one, (increments { distributed = true }))
    assert.same(one, (increments { islands = 1 }))
  end)

  it("refuse what they cannot do", function()
    helper.refuses("filter: exchange must lie in [0, 1], got -0.5", filter, { exchange = -0.5 })
    helper.refuses("filter: islands must be a whole number", filter, { islands = 0 })
    helper.refuses("filter: exchange must lie in [0, 1], got 2", filter, { exchange = 2 })
    for name, value in pairs { history = true, conditional = true, batch_shape = { 2 } } do
      helper.refuses(("filter: %s is for filters without islands, got islands = 8"):format(name), filter,
        { [name] = value, resampling = "multinomial" })
    end
    helper.refuses("gradient must be 'dropped'", filter, { gradient = "soft" })
    helper.refuses("exchange is between islands", pn.smc.filter, { num_particles = 3, exchange = 0.5,
      prior = dist.normal(0, 1), transition = print, observation = print })
    local model = pn.model(function(m) m:observe("y", dist.normal(m:sample("a", dist.normal(0, 1)), 1), 0.3) end)
    helper.refuses("islands climb by = 'temperature'", pn.smc.sample, model, { islands = 2, by = "data" })
    helper.refuses("sample: exchange is between islands", pn.smc.sample, model, { exchange = 0.5 })
  end)
end)
