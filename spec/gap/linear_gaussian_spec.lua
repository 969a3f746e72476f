-- Exact conditioning gaps of linear Gaussian systems: published figures of the scalar system (a, Q, R, P1) = (0.9,
-- 0.19, 0.25, 1), BFGS over all linear Gaussian posteriors, and dense conditioning
-- (spec/golden/gap/linear_gaussian.py).
local pn = require "penumbra"
local message_of = require("spec.helper").message_of
local golden = dofile "spec/golden/gap/linear_gaussian.lua"

local function scalar(a, q, r, p1)
  return pn.smc.linear_system { transition = { { a } }, transition_cov = { { q } }, emission = { { 1 } },
    emission_cov = { { r } }, initial_mean = { 0 }, initial_cov = { { p1 } } }
end

local function gap_of(system, given)
  given.first, given.steps = given.first or "predicted", given.steps or 5
  local g, message = pn.gap.linear_gaussian(system, given)
  assert(g, message)
  return g
end

local function near(want, got, limit)
  got = pn.is_tensor(got) and got:reshape({ -1 }):totable() or got
  if type(want) ~= "table" then
    assert.near(want, type(got) == "table" and got[1] or got, limit)
    return
  end
  assert.equal(#want, #got)
  for k, v in ipairs(want) do assert.near(v, got[k], limit) end
end

local plain = scalar(0.9, 0.19, 0.25, 1)

describe("the gap of a posterior that sees nothing", function()
  -- Of one step the best q has the posterior's precision l = 1 / P + c' R^-1 c, the same for all data, and misses its
  -- mean, whose variance is P - 1 / l: l (P - 1 / l) / 2 nats.
  it("is what the posterior's mean varies by, for observations of two numbers", function()
    local P, c, r = 0.8, { 1, 0.5 }, { 0.25, 0.5 }
    local l = 1 / P + c[1] ^ 2 / r[1] + c[2] ^ 2 / r[2]
    for _, method in ipairs { "matrix", "optimisation" } do
      local g = gap_of(pn.smc.linear_system { transition = { { 1 } }, transition_cov = { { 0.1 } },
        emission = { { c[1] }, { c[2] } }, emission_cov = { { r[1], 0 }, { 0, r[2] } }, initial_mean = { 0.3 },
        initial_cov = { { P } } }, { steps = 1, conditioning = { observations = { { false } } }, method = method })
      near((l * P - 1) / 2, g.gap, 1e-12)
      near(1 / l, g.cov, 1e-12)
      near(0.3, g.offset, 1e-12)
      near({ 0, 0 }, g.weights, 0)
    end
  end)
end)

describe("the gap of a law of the data that is given by its moments", function()
  -- The covariance of y: C P C' with P_ij = a^|i - j| for a stationary state, and the noise.
  it("is that of the model that has them, with what is not observed too", function()
    local cov, rows = {}, { 0.4, -0.2, 0.7 }
    for i = 1, 3 do
      cov[i] = {}
      for j = 1, 3 do cov[i][j] = 0.9 ^ math.abs(i - j) + (i == j and 0.25 or 0) end
    end
    for _, observed in ipairs { false, pn.tensor { { 1 }, { 0 }, { 1 } }:gt(0) } do
      local given = { steps = 3, observed = observed or nil }
      local own = gap_of(plain, given)
      local told = gap_of(plain, { steps = 3, observed = observed or nil, data = { cov = pn.tensor(cov) } })
      near(own.gap:item(), told.gap, 1e-12)
      near(own.log_likelihood:item(), told.log_likelihood, 1e-12)
      local moved = gap_of(plain, { steps = 3, observed = observed or nil, data = { cov = pn.tensor(cov),
        mean = pn.tensor(rows) } })
      assert(moved.log_likelihood:item() < own.log_likelihood:item() - 1e-3)
    end
  end)

  -- Moments by a loop over steps; where nothing is observed they may be any.
  it("is that of the model with offsets, two numbers at each step, some of them missing", function()
    local T, g = 3, pn.generator(6)
    local a, c = pn.tensor { { 0.8, 0.3 }, { -0.2, 0.7 } }, pn.tensor { { 1, 0.4 }, { -0.3, 0.9 } }
    local b, d, q, r = pn.tensor { 0.6, -0.4 }, pn.tensor { -0.8, 1.3 }, pn.tensor { 0.3, 0.2 }:diag_embed(),
      pn.tensor { { 0.5, 0.1 }, { 0.1, 0.7 } }
    local system = pn.smc.linear_system { transition = a, transition_offset = b, transition_cov = q, emission = c,
      emission_offset = d, emission_cov = r, initial_mean = { 0.2, 0.5 }, initial_cov = { { 0.6, 0.1 }, { 0.1, 0.4 } } }
    local observed = pn.tensor { { true, false }, { true, true }, { false, true } }
    for _, first in ipairs { "predicted", "initial" } do
      local mean, cov, means, blocks = system.initial_mean, system.initial_cov, {}, {}
      for t = 1, T do
        if t > 1 or first == "initial" then mean, cov = a:matmul(mean) + b, a:matmul(cov):matmul(a:t()) + q end
        means[t], blocks[t] = c:matmul(mean) + d, cov
      end
      local rows = {}
      for t = 1, T do
        local row = {}
        for u = 1, T do
          local early, power = math.min(t, u), pn.eye(2)
          for _ = early + 1, math.max(t, u) do power = a:matmul(power) end
          local lag = power:matmul(blocks[early])
          lag = c:matmul(u > t and lag:t() or lag):matmul(c:t())
          row[u] = t == u and lag + r or lag
        end
        rows[t] = pn.concatenate(row, 2)
      end
      local data = { mean = pn.concatenate(means, 1), cov = pn.concatenate(rows, 1) }
      local there = observed:reshape { 2 * T }
      local own = there:unsqueeze(1):logical_and(there:unsqueeze(2))
      local noise = pn.randn({ 2 * T, 2 * T }, { generator = g })
      local other = { mean = pn.where(there, data.mean, 9), cov = pn.where(own, data.cov, noise) }
      for _, mask in ipairs { "partial", "dvbf" } do
        for _, case in ipairs { { nil, data }, { observed, data }, { observed, other } } do
          local function run(of) return gap_of(system, { steps = T, first = first, observed = case[1], data = of,
            conditioning = mask }) end
          local want, got = run(nil), run(case[2])
          for _, name in ipairs { "gap", "log_likelihood", "gaps", "offset" } do
            near(want[name]:reshape({ -1 }):totable(), got[name], 1e-8)
          end
        end
      end
    end
  end)
end)

describe("the exact gap of a scalar linear Gaussian system", function()
  it("has the known bound, posterior and first weights at T = 5", function()
    local g = gap_of(plain, {})
    near(-6.0657051554, g.log_likelihood, 1e-10)
    near(-6.6632633965, g.bound, 1e-10)
    near(0.5975582411, g.gap, 1e-10)
    near({ 0.2324894084, 0.1336831107, 0.1276254408, 0.1037602812, 0 }, g.gaps, 1e-10)
    near({ 0.1365207454, 0.0863843501, 0.0869138647, 0.0900570936, 0.1079545455 }, g.cov, 1e-10)
    near({ 0.2, 0.1079545455, 0.1079545455, 0.1079545455, 0.1079545455 }, g.filtering_cov, 1e-10)
    near({ 0, 0.4091890268, 0.4116972539, 0.4265862329, 0.5113636364 }, g.gain, 1e-10)
    near({ 0.8, 0, 0, 0, 0, 0.0597432933, 0.4623687295, 0, 0, 0, 0.0234816084, 0.0459195898, 0.4552997902, 0, 0,
      0.0081438274, 0.0159257070, 0.0373329136, 0.4509088763, 0, 0, 0, 0, 0, 0.4318181818 }, g.weights, 1e-10)
    near({ 0, 0, 0, 0, 0 }, g.offset, 1e-15)
    assert.same({ "matrix form", true, true }, { g.method, g.exact, g.settled })
  end)

  it("has the known gaps of other lengths and noises, which vanish where nothing is hidden", function()
    for T, want in pairs { [2] = { 0.1840909091, -2.6956999252 }, [3] = { 0.3294489659, -3.8233033543 },
      [10] = { 1.2591323580, -11.6683242360 }, [25] = { 3.2433977187, -28.4760637287 } } do
      local g = gap_of(plain, { steps = T })
      near(want, { g.gap:item(), g.log_likelihood:item() }, 1e-10)
    end
    for q, want in pairs { [1e-6] = 0.9711947, [0.01] = 0.9030647, [0.05] = 0.7749918, [0.5] = 0.4047790,
      [1] = 0.26554575, [5] = 0.0706264, [100] = 0.0038304 } do
      near(want, gap_of(scalar(0.9, q, 0.25, 1), {}).gap, 6e-8)
    end
    for r, want in pairs { [1e-6] = 8.526e-6, [0.01] = 0.0778805, [0.05] = 0.2883314, [1] = 0.5821573,
      [5] = 0.2489443, [100] = 0.0159763, [1e4] = 1.6198e-4 } do
      near(want, gap_of(scalar(0.9, 0.19, r, 1), {}).gap, r == 1e-6 and 5e-10 or r == 1e4 and 5e-9 or 6e-8)
    end
    -- deterministic moves: all of it is in the first state
    local still = gap_of(scalar(0.9, 1e-6, 0.25, 1), {})
    near({ 0.97118, 0.97119 }, { still.gaps[1]:item(), still.gap:item() }, 1e-5)
    near(0, gap_of(scalar(0.9, 1e-9, 0.25, 1e-9), {}).gap, 1e-7)
    near(0, gap_of(scalar(0.9, 0, 0.25, 1), { conditioning = "semi", prefix = 5, hold = true }).gap, 1e-12)
  end)

  it("has the known gaps of a prefix that the first state sees, in both readings", function()
    for k, want in pairs { [2] = { 0.4004431511, 0.4004431511 }, [3] = { 0.3630078557, 0.2585749528 },
      [5] = { 0.3529535695, 0 } } do
      local paper = gap_of(plain, { conditioning = "semi", prefix = k })
      local held = gap_of(plain, { conditioning = "semi", prefix = k, hold = true })
      near(want, { paper.gap:item(), held.gap:item() }, 1e-10)
      assert.same({ k == 2 and "matrix form" or "optimisation", k == 2, true },
        { paper.method, paper.exact, paper.settled })
      assert.equal("matrix form", held.method)
      near(paper.gap:item(), paper.gaps:sum(), 1e-12)
    end
    local long = gap_of(plain, { conditioning = "semi", prefix = 9 })
    near(0.3529535695, long.gap, 1e-10)
    assert.equal("prefix 9 is longer than the 5 steps: taken as 5", long.note)
  end)

  it("of maximum bound is not the truth: it becomes the best autoregression of the data", function()
    local function t(x) return pn.tensor { { x } } end
    local function system(a, q, r, p1)
      return { transition = a, transition_cov = q, emission = { { 1 } }, emission_cov = r, initial_mean = { 0 },
        initial_cov = p1 }
    end
    local how = { max_steps = 300, max_evaluations = 2000, tolerance_grad = 1e-10, tolerance_change = 1e-14 }
    local raw = { pn.param(t(0.8)), pn.param(t(math.log(0.3))), pn.param(t(math.log(0.2))), pn.param(t(0)) }
    local function fitted() return system(raw[1], raw[2]:exp(), raw[3]:exp(), raw[4]:exp()) end
    local value = pn.optim.lbfgs(raw, how):step(function()
      return -gap_of(fitted(), { data = plain }).bound:sum()
    end)
    near(6.1912687743, value, 1e-9)
    local learned = fitted()
    near({ 0.72, 0.6016, 1.25 }, { learned.transition:item(), learned.transition_cov:item(),
      learned.initial_cov:item() }, 1e-3)
    near(1.25 * (1 - 0.72 ^ 2), learned.transition_cov, 1e-5)
    assert.is_true(learned.emission_cov:item() < 1e-6)
    local q = pn.param(t(math.log(0.19)))
    value = pn.optim.lbfgs({ q }, how):step(function()
      return -gap_of(system(t(0.9), q:exp(), t(0.25), t(1)), { data = plain }).bound:sum()
    end)
    near({ 6.4899661745, 0.3885316409 }, { value, q:exp():item() }, 1e-8)
    -- all information: the truth stands
    raw[1]:set(t(0.9))
    raw[2]:set(t(math.log(0.19)))
    raw[3]:set(t(math.log(0.25)))
    raw[4]:set(t(0))
    for _, g in ipairs(pn.grad(gap_of(fitted(), { data = plain, conditioning = "full" }).bound:sum(), raw)) do
      near(0, g, 1e-12)
    end
    near(-6.0657051554, gap_of(fitted(), { conditioning = "full" }).bound, 1e-10)
  end)

  it("predicts as the truth and, wider, as the model of the highest bound", function()
    local truth = plain
    local y = pn.tensor { { 1 }, { 0.5 } }
    local f = truth:filter(y, { first = "predicted" })
    near({ 0.5913621262, 0.1461794020 }, { f.mean[2]:item(), f.cov[2]:item() }, 1e-10)
    local ahead = truth:forecast(y, 3, { first = "predicted" })
    near({ 0.5322259136, 0.4790033223, 0.4311029900 }, ahead.mean, 1e-10)
    near({ 0.5584053156, 0.6898083056, 0.7962447276 }, ahead.cov, 1e-10)
    local learned = scalar(0.72, 0.602, 1e-12, 1.25):forecast(y, 3, { first = "predicted" })
    near({ 0.36, 0.2592, 0.186624 }, learned.mean, 1e-9)
    near({ 0.602, 0.9140768, 1.0758574131 }, learned.cov, 1e-9)
    near(-4.8497231567, truth:log_likelihood({ { 1 }, { 0.5 }, { -0.2 }, { 0.3 }, { 0.8 } },
      { first = "predicted" }), 1e-10)
  end)
end)

describe("masks", function()
  local plane = pn.smc.linear_system { transition = { { 1, 0.3 }, { -0.2, 0.8 } }, transition_offset = { 0.1, -0.2 },
    transition_cov = { { 0.2, 0.05 }, { 0.05, 0.3 } }, emission = { { 1, 0.5 } }, emission_offset = { 0.3 },
    emission_cov = { { 0.4 } }, initial_mean = { 0.1, -0.2 }, initial_cov = { { 0.2, 0.05 }, { 0.05, 0.3 } } }

  it("reach what BFGS over all linear Gaussian posteriors reaches, by either way", function()
    for name, want in pairs(golden.masks.scalar) do
      for _, method in ipairs { "auto", "optimisation" } do
        local g = gap_of(plain, { steps = 3, conditioning = name, method = method,
          prefix = name == "semi" and 3 or nil })
        near(want, g.bound, 1e-9)
        assert.is_true(g.settled)
        near(g.gap:item(), g.gaps:sum(), 1e-12)
      end
    end
    for name, want in pairs(golden.masks.plane) do
      near(want, gap_of(plane, { steps = 3, conditioning = name }).bound, 1e-9)
    end
    -- published models by name
    for name, same in pairs { planet = "partial", slac = "dvbf", mean_field = "dkf", vrnn = "partial" } do
      near(gap_of(plain, { conditioning = same }).gap:item(), gap_of(plain, { conditioning = name }).gap, 1e-12)
    end
  end)

  it("agree in matrix form and by optimisation, to 1e-9, where both apply", function()
    for _, mask in ipairs { "partial", "vrnn", "dks", "full" } do
      local a = gap_of(plane, { steps = 4, conditioning = mask, method = "matrix" })
      local b = gap_of(plane, { steps = 4, conditioning = mask, method = "optimisation" })
      near(a.gap:item(), b.gap, 1e-9)
      near(a.cov:reshape({ -1 }):totable(), b.cov, 1e-6)
      near(a.offset:reshape({ -1 }):totable(), b.offset, 1e-6)
    end
    local own = { observations = { { true, false, false }, { false, true, false }, { true, true, true } },
      latents = "previous" }
    local g = gap_of(plane, { steps = 3, conditioning = own })
    assert.equal("optimisation", g.method) -- step 2 forgets x_1 and does not see x_3; step 3 may forget
    assert.is_true(g.gap:item() > gap_of(plane, { steps = 3, conditioning = "full" }).gap:item())
    -- what is only predicted, nested without the present
    own = { observations = { { false, false, false }, { true, false, false }, { true, true, false } } }
    near(gap_of(plane, { steps = 3, conditioning = own, method = "optimisation" }).gap:item(),
      gap_of(plane, { steps = 3, conditioning = own, method = "matrix" }).gap, 1e-9)
  end)

  it("leave a bound whose posterior, drawn from, has that bound", function()
    local T, N = 4, 40000
    for _, mask in ipairs { "partial", "dvbf", "storn" } do
      local g = gap_of(plane, { steps = T, conditioning = mask })
      local generator = pn.generator(5)
      local _, y = plane:sample(T, { draws = N, first = "predicted", generator = generator })
      local flat = y:reshape { N, T } -- [N, T, 1]
      local z, total = {}, pn.zeros { N }
      for t = 1, T do
        local mean = flat:matmul(g.weights[t]:reshape { 2, T }:t()) + g.offset[t]
        mean = t > 1 and mean + z[t - 1]:matmul(g.gain[t]:t()) or mean
        local q = pn.dist.multivariate_normal { loc = mean, covariance_matrix = g.cov[t] }
        z[t] = q:sample({}, generator)
        local prior = t == 1 and plane.initial_mean or z[t - 1]:matmul(plane.transition:t()) + plane.transition_offset
        total = total - q:log_prob(z[t])
          + pn.dist.multivariate_normal { loc = prior, covariance_matrix = plane.transition_cov }:log_prob(z[t])
          + pn.dist.normal(z[t]:matmul(plane.emission:t()):squeeze(-1) + 0.3, 0.4 ^ 0.5):log_prob(y:select(2, t)
            :squeeze(-1))
      end
      local se = total:std():item() / N ^ 0.5
      assert.is_true(se < 0.02)
      near(g.bound:item(), total:mean(), 5 * se)
    end
  end)

  it("say what is wrong with them", function()
    local function wrong(given)
      given.steps = 3
      return message_of(pn.gap.linear_gaussian, plain, given)
    end
    assert.truthy(wrong { conditioning = "partail" }:find("did you mean 'partial'?", 1, true))
    assert.truthy(wrong { conditioning = "semi" }:find("conditioning 'semi' needs prefix", 1, true))
    assert.truthy(wrong { conditioning = "dkf", prefix = 2 }:find(
      "prefix is of 'semi' and 'partial', got conditioning 'dkf'", 1, true))
    assert.truthy(wrong { conditioning = "semi", prefix = 0 }:find(
      "prefix must be a whole number from 1 on, got 0", 1, true))
    assert.truthy(wrong { conditioning = { observations = { { true } } } }:find(
      "conditioning.observations must be bool [3, 3]", 1, true))
    assert.truthy(wrong { conditioning = "storn", method = "matrix" }:find(
      "conditioning 'storn' has no matrix form", 1, true))
    assert.truthy(wrong { data = { cov = pn.eye(2) } }:find("data.cov must be float64 [..., 3, 3]", 1, true))
    assert.truthy(wrong { observed = pn.ones { 3, 1 } }:find("observed must be bool [3, 1]", 1, true))
    local text = message_of(pn.gap.linear_gaussian, plain, { steps = 3, batch_shape = { 2 }, conditioning = "dvbf" })
    assert.truthy(text:find("for one system at a time", 1, true))
    local long = message_of(pn.gap.linear_gaussian, plain, { steps = 1e9 })
    assert.truthy(long:find("steps must be at most 4096", 1, true))
    assert.truthy(message_of(pn.gap.mask, "full", 1e9):find("steps must be at most 4096", 1, true))
    local half = {}
    for name, value in pairs(plain) do half[name] = pn.is_tensor(value) and value:to "float32" or nil end
    assert.truthy(wrong({ data = half }):find("data must be float64 as the model is, got float32", 1, true))
    assert.truthy(message_of(pn.gap.linear_gaussian, plane, { steps = 2049 }):find(
      "steps must be at most 2048 for 2 states and 1 observed elements (dense matrices of all), got 2049", 1, true))
    for want, list in pairs { ["data.cov must be float64 [..., 3, 3]"] = { { cov = pn.eye(3):to "float32" },
        { cov = pn.ones { 3 } }, { cov = pn.ones { 3, 2 } }, { cov = pn.ones { 2, 3 } } },
      ["data.mean must be [..., 3], got [2]"] = { { cov = pn.eye(3), mean = { 1, 2 } } },
      ["data must be a system of 1 observed elements as the model is, got 2"] = { { transition = { { 1 } },
        transition_cov = { { 1 } }, emission = { { 1 }, { 1 } }, emission_cov = pn.eye(2), initial_mean = { 0 },
        initial_cov = { { 1 } } } },
      ["data needs a proper initial state, got diffuse"] = { { transition = { { 1 } }, transition_cov = { { 1 } },
        emission = { { 1 } }, emission_cov = { { 1 } }, diffuse = true } } } do
      for k, data in ipairs(list) do assert.truthy(wrong({ data = data }):find(want, 1, true), want .. k) end
    end
    assert.truthy(message_of(pn.gap.linear_gaussian, { transition = { { 1 } }, transition_cov = { { 1 } },
      emission = { { 1 } }, emission_cov = { { 1 } }, diffuse = true }, { steps = 3 }):find(
      "needs a proper initial state, got diffuse", 1, true))
    local three = pn.smc.linear_system { transition = pn.ones { 3, 1, 1 } / 2, transition_cov = { { 0.19 } },
      emission = { { 1 } }, emission_cov = { { 0.25 } }, initial_mean = { 0 }, initial_cov = { { 1 } } }
    assert.truthy(wrong({ data = three, batch_shape = { 2 } }):find("data has a batch of 3 where the model has 2", 1,
      true))
    near(gap_of(plain, { steps = 3, batch_shape = { 1 }, data = three }).gap[1]:item(),
      gap_of(plain, { steps = 3, batch_shape = { 3 }, data = three }).gap[3], 1e-12)
    assert.truthy(wrong({ observed = pn.ones({ 3, 2 }):gt(0) }):find("observed must be bool [3, 1], got bool [3, 2]", 1,
      true))
    for _, rows in ipairs { { { true, false } }, { { true, true, true }, { true }, { true, true, true } }, { 1, 2,
      3 } } do
      assert.truthy(wrong { conditioning = { observations = rows } }:find(
        "conditioning.observations must be bool [3, 3]", 1, true))
    end
    assert.truthy(wrong { conditioning = { observations = { { true, true, true }, { true, 3, true }, { true, true,
      true } } } }:find("conditioning.observations[2][2] must be true or false", 1, true))
    assert.truthy(wrong { conditioning = pn.gap.mask("full", 4) }:find("the mask is of 4 steps, the sequence of 3", 1,
      true))
    local own = pn.gap.mask({ observations = pn.tensor { { 1, 1, 0 }, { 0, 1, 0 }, { 0, 0, 1 } }:gt(0) }, 3)
    assert.same({ { 1, 2 }, { 2 }, { 3 } }, own.seen)
    assert.same({ false, "own", 1, "previous" }, { own.nested, own.name, own.prefix, own.latents })
    near(gap_of(plain, { steps = 3, conditioning = own }).gap:item(), gap_of(plain, { steps = 3,
      conditioning = { observations = own.observations } }).gap, 1e-12)
    local long_prefix = pn.gap.mask("semi", 3, { prefix = 4 })
    assert.same({ 3, "prefix 4 is longer than the 3 steps: taken as 3" }, { long_prefix.prefix, long_prefix.note })
    local whole = pn.gap.mask("semi", 3, { prefix = 3 })
    assert.same({ 3, nil, { 1, 2, 3 } }, { whole.prefix, whole.note, whole.seen[1] })
    local none, message = pn.gap.linear_gaussian(scalar(0.9, 0.1, 0, 1), { steps = 3 })
    assert.is_nil(none)
    assert.truthy(message:find("emission_cov has no inverse", 1, true))
  end)
end)

describe("the search for a posterior", function()
  local function run(more)
    local o = { conditioning = "dvbf", steps = 4 }
    for key, value in pairs(more) do o[key] = value end
    return gap_of(plain, o)
  end

  it("tells of its starts, of which the first is the truth and the others are drawn from the seed", function()
    local g = run { starts = 3 }
    assert.equal(3, #g.starts)
    near(math.min(table.unpack(g.starts)), g.gap, 1e-12)
    assert.is_true(g.settled and g.gradient <= 1e-7)
    assert.same({ "optimisation", false }, { g.method, g.exact })
    assert.equal(2, #run({}).starts)
    local short, again, other = run { max_steps = 1, starts = 3 }, run { max_steps = 1, starts = 3 },
      run { max_steps = 1, starts = 3, seed = 2 }
    assert.same(short.starts, again.starts)
    assert.equal(short.starts[1], other.starts[1])
    assert.is_true(short.starts[2] ~= other.starts[2] and short.starts[2] ~= short.starts[3])
    assert.is_true(not short.settled and short.gradient > 1e-7)
    assert.is_true(run({ max_steps = 1, starts = 3, tolerance = short.gradient * 1.01 }).settled)
    assert.is_true(short.gap:item() > g.gap:item())
    near(math.min(table.unpack(short.starts)), short.gap, 1e-12)
    assert.is_true(math.max(table.unpack(short.starts)) > short.gap:item() + 1e-3)
    assert.truthy(message_of(run, { starts = 0 }):find("starts must be a whole number from 1 on, got 0", 1, true))
    assert.is_nil(gap_of(plain, { steps = 4 }).starts)
    -- without z nothing is searched
    local closed = run { conditioning = "storn" }
    assert.same({ "closed form", true, true, 0 }, { closed.method, closed.exact, closed.settled, closed.gradient })
  end)
end)

describe("systems that change with time", function()
  local d = golden.dense
  local function system(scale)
    return pn.smc.linear_system { transition = pn.tensor(d.transition) * scale, transition_cov = d.transition_cov,
      emission = d.emission, emission_cov = pn.tensor(d.emission_cov) * scale, initial_mean = d.initial_mean,
      initial_cov = d.initial_cov, transition_input = d.transition_input, emission_input = d.emission_input,
      emission_offset = d.emission_offset }
  end
  local function run(given)
    given.steps, given.first, given.inputs, given.data = 4, "initial", pn.tensor(d.inputs), system(d.scale)
    return gap_of(system(1), given)
  end

  it("have the gaps of dense conditioning, with inputs, other data and elements that are missing", function()
    local observed = pn.tensor { { true, true }, { false, true }, { false, false }, { true, true } }
    for name, given in pairs { partial = {}, hold = { conditioning = "semi", prefix = 3, hold = true },
      dks = { conditioning = "dks" }, missing = { observed = observed } } do
      local g = run(given)
      near(d[name].gaps, g.gaps, 1e-10)
      near(d[name].log_likelihood, g.log_likelihood, 1e-10)
      local by_search = { conditioning = given.conditioning, prefix = given.prefix, hold = given.hold,
        observed = given.observed, method = "optimisation" }
      near(g.gap:item(), run(by_search).gap, 1e-9)
    end
  end)

  it("have gradients in all of the system, q held at its optimum", function()
    for _, mask in ipairs { "partial", "dvbf", "storn" } do
      local list = { pn.param(pn.tensor(d.transition)), pn.param(pn.tensor(d.emission)),
        pn.param(pn.tensor { 0.3, -0.2 }), pn.param(pn.tensor { { 0.8, 0 }, { 0.2, 0.5 } }),
        pn.param(pn.tensor { 0.5, 1 }) }
      local other = pn.smc.linear_system { transition = pn.eye(2) * 0.5, transition_cov = pn.eye(2),
        emission = pn.eye(2), emission_cov = pn.eye(2), initial_mean = { 1, 1 }, initial_cov = pn.eye(2) }
      local function bound()
        local r = list[4]:matmul(list[4]:t())
        return pn.gap.linear_gaussian({ transition = list[1], transition_cov = d.transition_cov, emission = list[2],
          emission_cov = r, emission_offset = list[3], initial_mean = list[5], initial_cov = d.initial_cov },
          { steps = 4, data = other, conditioning = mask, tolerance = 1e-8 }).bound
      end
      assert(pn.check_gradients(function() return bound():sum() end, list))
      local g = pn.grad(bound():sum(), list)
      for k = 1, #list do assert.is_true(g[k]:abs():max():item() > 1e-3) end
    end
  end)

  it("go in batches, and in float32", function()
    local a = pn.tensor { { { 0.9 } }, { { 0.5 } } }
    local batch = pn.smc.linear_system { transition = a, transition_cov = { { 0.19 } }, emission = { { 1 } },
      emission_cov = { { 0.25 } }, initial_mean = { 0 }, initial_cov = { { 1 } } }
    local g = gap_of(batch, { batch_shape = { 2 } })
    near({ 0.5975582411, gap_of(scalar(0.5, 0.19, 0.25, 1), {}).gap:item() }, g.gap, 1e-10)
    assert.same({ 5, 2, 1, 5, 1 }, g.weights:shape())
    local both = gap_of(plain, { batch_shape = { 2 }, data = batch })
    near({ 0.5975582411, gap_of(plain, { data = scalar(0.5, 0.19, 0.25, 1) }).gap:item() }, both.gap, 1e-10)
    local half = {}
    for name, value in pairs(plain) do half[name] = pn.is_tensor(value) and value:to "float32" or nil end
    local f = gap_of(half, {})
    assert.equal("float32", f.gap:dtype())
    near(0.5975582411, f.gap, 1e-6)
    near(0.6067906173, gap_of(half, { conditioning = "dvbf", tolerance = 1e-3 }).gap, 1e-5)
  end)
end)
