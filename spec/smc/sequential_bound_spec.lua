-- Bounds of particle filters and their gradients: against the Kalman filter for a linear Gaussian series with a fixed
-- imperfect proposal, and against an enumeration of all that can happen to two particles. Replicates are the batch
-- axis, each with parameters of its own, so that a gradient has an entry for each; intervals are 6 standard errors.
local pn = require "penumbra"
local smc, dist = pn.smc, pn.dist

local function mean_and_error(x)
  local n = x:numel()
  local mean = x:mean()
  return mean:item(), ((x - mean):square():sum():item() / (n - 1) / n) ^ 0.5
end

local function expect(want, x, narrow, more)
  local mean, deviation = mean_and_error(x)
  local allowed = 6 * deviation + (more or 0)
  assert.is_true(allowed < narrow, ("6 standard errors are %g, which is not below %g"):format(allowed, narrow))
  assert.is_true(math.abs(mean - want) < allowed, ("%.5f is not within %.5f of %.5f"):format(mean, allowed, want))
end

-- ---- x_1 ~ N(m, v), x' = a x + N(0, q), y = x + N(0, r) ----

local AT = { a = 0.9, q = 0.5, r = 0.3 }
local NAMES = { "a", "q", "r" }
local Y = { 0.7, -0.4, 1.1, 2.2, 0.9 }

local function parameters(batch)
  local p = { list = {} }
  for k, name in ipairs(NAMES) do
    p[name] = pn.param(pn.full({ batch }, AT[name]))
    p.list[k] = p[name]
  end
  return p
end

-- Draws from N(0.4 mean + 0.5 y, 0.6^2), which is neither the law of x' nor the best one.
local function model(p, num, batch, more)
  local o = { num_particles = num, batch_shape = { batch } }
  local function draw(center, y)
    local q = dist.normal(0.4 * center + 0.5 * y, pn.full({ 1 }, 0.6))
    local x = q:rsample()
    return x, q:log_prob(x)
  end
  function o.init(_, shape) return draw(pn.zeros(shape), Y[1]) end
  function o.step(x, t, _, y) return draw(p.a * x, y or Y[t]) end
  function o.log_weight(x, y, _, previous, log_q)
    local prior = previous and dist.normal(p.a * previous, p.q:sqrt():broadcast_to(x:shape()))
      or dist.normal(pn.zeros(x:shape()), 1)
    return prior:log_prob(x) + dist.normal(x, p.r:sqrt()):log_prob(y:broadcast_to(x:shape())) - log_q
  end
  for key, value in pairs(more or {}) do o[key] = value end
  return o
end

local function series(y, batch) return pn.tensor(y):reshape { #y, 1 }:broadcast_to { #y, batch } end

-- log p(y) and its gradient, by the Kalman filter.
local function exact(y)
  local p = parameters(1)
  local m, v, total = pn.zeros { 1 }, pn.eye(1), nil
  local one = pn.eye(1)
  for t, value in ipairs(y) do
    local lp
    local a, q = p.a:reshape { 1, 1 }, p.q:reshape { 1, 1 }
    if t == 1 then a, q = one, one * 0 end
    m, v, lp = pn.kalman_step(m, v, a, nil, q, pn.tensor { value }, one, nil, p.r:reshape { 1, 1 })
    total = total and total + lp or lp
  end
  local g = {}
  for k, slope in ipairs(pn.grad(total, p.list)) do g[k] = slope:item() end
  return total:item(), g
end

-- Values log Z [B] of replicates and their gradients, [B] by each parameter.
local function replicates(bound, num, batch, options, y, more)
  local p = parameters(batch)
  local value, result = bound(smc.filter, model(p, num, batch, more), series(y or Y, batch), options)
  local list = pn.grad(value, p.list)
  for k, g in ipairs(list) do list[k] = g * batch end
  return result.log_evidence:detach(), list
end

describe("bounds of a particle filter", function()
  before_each(function() pn.seed(31) end)

  it("are bounds, and on long series FIVO is above the importance weighted one, which is above the ELBO", function()
    local y = {}
    for t = 1, 100 do y[t] = 2 * math.sin(t / 5) + math.cos(7 * t) end
    local m, data = model(parameters(200), 16, 200), series(y, 200)
    local log_p = exact(y)
    local elbo, iwae = smc.elbo(smc.filter, m, data):item(), smc.iwae(smc.filter, m, data):item()
    local fivo, vsmc = smc.fivo(smc.filter, m, data):item(), smc.vsmc(smc.filter, m, data):item()
    assert.is_true(elbo + 5 < iwae and iwae + 5 < fivo and fivo < log_p and vsmc < log_p and iwae + 5 < vsmc,
      ("%g %g %g %g %g"):format(elbo, iwae, fivo, vsmc, log_p))
  end)

  it("agree where there is nothing to choose", function()
    local m, data = model(parameters(50), 1, 50), series(Y, 50)
    local got = {}
    for k, name in ipairs { "elbo", "iwae" } do
      pn.seed(1)
      got[k] = smc[name](smc.filter, m, data):item()
    end
    assert.is_true(math.abs(got[2] - got[1]) < 1e-12)
    -- the ELBO of many particles is the mean of as many ELBOs of one
    pn.seed(2)
    local wide = smc.elbo(smc.filter, model(parameters(4000), 5, 4000), series(Y, 4000)):item()
    local one = smc.elbo(smc.filter, model(parameters(20000), 1, 20000), series(Y, 20000)):item()
    assert.is_true(math.abs(wide - one) < 0.1)
  end)

  it("have unbiased evidence whatever the gradient", function()
    local log_p = exact(Y)
    for _, gradient in ipairs { "dropped", "score_function", "stop_gradient", "soft" } do
      for _, threshold in ipairs { 0.5, 1 } do
        local log_z = replicates(smc.fivo, 16, 6000, { gradient = gradient, threshold = threshold,
          resampling = "multinomial" })
        expect(1, (log_z - log_p):exp(), 0.08)
      end
    end
  end)
end)

describe("gradients of bounds", function()
  before_each(function() pn.seed(32) end)

  -- The same draws at both ends: nothing is resampled, so that the value is a smooth function of the parameters.
  it("without resampling are those of differences, for one series and for several", function()
    local h = 1e-5
    for _, batch in ipairs { {}, { 3 } } do
      local y = pn.randn({ 4, table.unpack(batch) }, { generator = pn.generator(2) })
      local function value(name, shift)
        pn.seed(7)
        local p = { list = {} }
        for k, key in ipairs(NAMES) do
          p[key] = pn.param(pn.full(batch, AT[key] + shift * k)) -- along (1, 2, 3)
          p.list[k] = p[key]
        end
        local o = model(p, 5, 1, { batch_shape = batch, threshold = 0.9 }) -- each bound has its own threshold
        return smc[name](smc.filter, o, y, (name == "fivo" or name == "vsmc") and { threshold = 0 } or nil), p.list
      end
      for _, name in ipairs { "elbo", "iwae", "fivo", "vsmc" } do
        local at, list = value(name, 0)
        local slope = 0
        for k, g in ipairs(pn.grad(at, list)) do slope = slope + g:sum():item() * k end
        local wanted = (value(name, h):item() - value(name, -h):item()) / (2 * h)
        assert.near(wanted, slope, 1e-6 * math.abs(slope), name)
        assert.is_true(math.abs(slope) > 0.05)
        assert.same({}, at:shape())
      end
      assert.equal(value("iwae", 0):item(), value("fivo", 0):item())
      local bounds = {} -- a score has a slope and no value
      for k, gradient in ipairs { "dropped", "score_function" } do
        pn.seed(8)
        local p = parameters(1)
        bounds[k] = smc.vsmc(smc.filter, model(p, 5, 1, { batch_shape = batch }), y, { gradient = gradient,
          resampling = "multinomial" })
      end
      assert.equal(bounds[1]:item(), bounds[2]:item())
      assert.is_true(bounds[2]:requires_grad())
      assert.is_true(value("elbo", 0):item() < value("iwae", 0):item() - 1e-3)
    end
  end)

  it("by stop_gradient are those of the evidence itself: Z times them is unbiased for few particles", function()
    local log_p, g = exact(Y)
    for _, resampling in ipairs { "multinomial", "systematic" } do
      local log_z, slopes = replicates(smc.fivo, 16, 20000, { gradient = "stop_gradient", resampling = resampling,
        threshold = 0.8 })
      local z = (log_z - log_p):exp()
      for k = 1, #NAMES do expect(g[k], z * slopes[k], 0.16) end
    end
  end)

  it("without resampling are so as well", function()
    local log_p, g = exact(Y)
    local log_z, slopes = replicates(smc.fivo, 64, 10000, { threshold = 0 })
    local z = (log_z - log_p):exp()
    for k = 1, #NAMES do expect(g[k], z * slopes[k], 0.2) end
  end)

  it("are so too where a model is written as distributions, with a proposal and without", function()
    local log_p, g = exact(Y)
    for _, proposal in ipairs { false, function(p)
      return function(x, y)
        return dist.normal(x and 0.4 * p.a * x + 0.5 * y:unsqueeze(1) or pn.zeros { 16, 20000 } + 0.5 * y, 0.6)
      end
    end } do
      local p = parameters(20000)
      local value, result = smc.fivo(smc.filter, { num_particles = 16, batch_shape = { 20000 },
        prior = function() return dist.normal(0, 1) end,
        transition = function(x) return dist.normal(p.a * x, p.q:sqrt():broadcast_to(x:shape())) end,
        observation = function(x) return dist.normal(x, p.r:sqrt():broadcast_to(x:shape())) end,
        proposal = proposal and proposal(p) or nil }, series(Y, 20000), { gradient = "stop_gradient" })
      local z = (result.log_evidence:detach() - log_p):exp()
      for k, slope in ipairs(pn.grad(value, p.list)) do expect(g[k], z * slope * 20000, 0.25) end
    end
  end)

  it("converge to the exact one by stop_gradient, and by score function, which varies more", function()
    local _, g = exact(Y)
    local _, slopes = replicates(smc.vsmc, 256, 2500, { gradient = "stop_gradient", resampling = "multinomial" })
    for k = 1, #NAMES do expect(g[k], slopes[k], 0.1, 0.015) end
    local _, scored = replicates(smc.vsmc, 64, 20000, { gradient = "score_function", resampling = "multinomial" })
    for k = 1, #NAMES do
      expect(g[k], scored[k], 0.35, 0.06)
      assert.is_true(scored[k]:var():item() > slopes[k]:var():item())
    end
  end)

  -- The unit of the transport's cost has no gradient, which is the half percent between the two.
  it("by transport are nearly those of the value itself: differences of the bound at the same noise", function()
    local function bound(change)
      pn.seed(5)
      local p = parameters(40)
      if change then p.r:set(p.r:detach() + change) end
      local value = smc.fivo(smc.filter, model(p, 32, 40), series(Y, 40), { gradient = "transport", threshold = 1 })
      return value, p
    end
    local value, p = bound()
    local slope = pn.grad(value, { p.r })[1]:sum():item()
    local difference = (bound(1e-5):item() - bound(-1e-5):item()) / 2e-5
    assert.is_true(math.abs(slope - difference) < 0.01 * math.abs(slope), ("%g %g"):format(slope, difference))
    -- biased, but by less than dropping the term costs, which is -0.81 (see below)
    local _, g = exact(Y)
    local slopes = {}
    for round = 1, 3 do
      local _, list = replicates(smc.vsmc, 32, 100, { gradient = "transport" })
      slopes[round] = list[3]
    end
    local mean, deviation = mean_and_error(pn.concatenate(slopes, 1))
    assert.is_true(math.abs(mean - g[3]) + 6 * deviation < 0.81, ("%g %g %g"):format(mean, deviation, g[3]))
  end)

  -- Where the term of resampling is dropped each step is seen from the filter at its own time alone, however many the
  -- particles: sum_t E[grad log p(x_t, y_t | x_{t-1}) | y_{1:t}], in place of the same given all y. For q and r (the
  -- proposal moves with a).
  local function limit_of_dropped()
    local a, q, r = AT.a, AT.q, AT.r
    local m, v, of_q, of_r = 0, 1, 0, 0
    for t, y in ipairs(Y) do
      local mean, p, cross = m, v, 0
      if t > 1 then mean, p, cross = a * m, a * a * v + q, a * v end
      local s, off = p + r, y - mean
      local after, left = mean + p / s * off, p - p * p / s
      if t > 1 then
        local before, before_v = m + cross / s * off, v - cross * cross / s
        local joint = cross - cross * p / s
        local e2 = (after - a * before) ^ 2 + left + a * a * before_v - 2 * a * joint
        of_q = of_q + e2 / (2 * q * q) - 1 / (2 * q)
      end
      of_r = of_r + ((y - after) ^ 2 + left) / (2 * r * r) - 1 / (2 * r)
      m, v = after, left
    end
    return of_q, of_r
  end

  it("are off by a known amount where the term of resampling is dropped", function()
    local _, g = exact(Y)
    local _, slopes = replicates(smc.vsmc, 1024, 1500, { resampling = "multinomial" })
    local of_q, of_r = limit_of_dropped()
    expect(of_q, slopes[2], 0.04, 0.01)
    expect(of_r, slopes[3], 0.04, 0.01)
    -- 0.14 of 0.50 in q, -0.81 of 1.21 in r, 0.07 of -0.41 in a
    assert.is_true(of_q - g[2] > 0.1 and of_r - g[3] < -0.7)
    local mean, deviation = mean_and_error(slopes[1])
    assert.is_true(mean - g[1] > 0.04 + 6 * deviation)
  end)
end)

-- ---- two particles, two labels, three steps: everything that can happen ----

local FIRST, ROWS, TINY = { 0.6, 0.4 }, { { 0.95, 0.05 }, { 0.1, 0.9 } }, { 1, 3.2, 3 }

local function density(y, s, theta) return math.exp(-0.5 * (y - theta * s - 0.2) ^ 2) / math.sqrt(2 * math.pi) end

-- E[log Z(theta)] under the choices that theta_of_choices makes: two thetas, so that choices can be held fixed.
local function enumerated(theta, theta_of_choices)
  local total = 0
  local function go(t, s1, s2, probability, log_z)
    local g1, g2 = density(TINY[t], s1, theta), density(TINY[t], s2, theta)
    log_z = log_z + math.log((g1 + g2) / 2)
    if t == #TINY then
      total = total + probability * log_z
      return
    end
    local w1, w2 = density(TINY[t], s1, theta_of_choices), density(TINY[t], s2, theta_of_choices)
    w1, w2 = w1 / (w1 + w2), w2 / (w1 + w2)
    for _, first in ipairs { { s1, w1 }, { s2, w2 } } do
      for _, second in ipairs { { s1, w1 }, { s2, w2 } } do
        for n1 = 0, 1 do
          for n2 = 0, 1 do
            go(t + 1, n1, n2, probability * first[2] * second[2] * ROWS[first[1] + 1][n1 + 1]
              * ROWS[second[1] + 1][n2 + 1], log_z)
          end
        end
      end
    end
  end
  for s1 = 0, 1 do
    for s2 = 0, 1 do go(1, s1, s2, FIRST[s1 + 1] * FIRST[s2 + 1], 0) end
  end
  return total
end

describe("gradients of the bound with two particles", function()
  local THETA, BATCH, STEP = 1.3, 60000, 1e-5
  local rows = pn.tensor(ROWS)

  local function measured(gradient, baseline)
    pn.seed(33)
    local theta = pn.param(pn.full({ BATCH }, THETA))
    local value, result = smc.vsmc(smc.filter, { num_particles = 2, batch_shape = { BATCH },
      init = function(_, shape) return dist.categorical(FIRST):sample(shape) end,
      step = function(s) return dist.categorical { probs = rows:take(1, s) }:sample() end,
      log_weight = function(s, y)
        local loc = theta * s:to "float64" + 0.2
        return dist.normal(loc, 1):log_prob(y:broadcast_to(loc:shape()))
      end }, series(TINY, BATCH), { gradient = gradient, resampling = "multinomial", baseline = baseline })
    return pn.grad(value, { theta })[1] * BATCH, result.log_evidence
  end

  local whole = (enumerated(THETA + STEP, THETA + STEP) - enumerated(THETA - STEP, THETA - STEP)) / (2 * STEP)
  local left = (enumerated(THETA + STEP, THETA) - enumerated(THETA - STEP, THETA)) / (2 * STEP)

  it("is the bound's own by score function, and short of it by the enumerated term where that is dropped", function()
    local slope, log_z = measured "score_function"
    expect(enumerated(THETA, THETA), log_z, 0.08)
    expect(whole, slope, 0.06)
    local dropped = measured "dropped"
    expect(left, dropped, 0.06)
    assert.is_true(math.abs(whole - left) > 0.2, ("%g %g"):format(whole, left))
  end)

  it("varies less with the baseline of the other filters than without", function()
    local with, without = measured "score_function", measured("score_function", 0)
    expect(whole, without, 0.1)
    expect(whole, measured("score_function", pn.tensor { -8, -5, -3 }), 0.1)
    assert.is_true(with:var():item() < 0.9 * without:var():item())
  end)
end)

describe("a bound", function()
  it("takes a Rao-Blackwellised filter, and replays", function()
    local rows, num, batch = pn.tensor { { 0.85, 0.15 }, { 0.3, 0.7 } }, 8, 6
    local a = pn.param(pn.tensor { 0.9, -0.5 })
    local m = { num_particles = num, batch_shape = { batch }, initial_mean = pn.zeros { 1 }, initial_cov = pn.eye(1),
      init = dist.categorical { 0.6, 0.4 },
      transition = function(s) return dist.categorical { probs = rows:take(1, s) } end,
      system = function(s)
        return { transition = a:take(1, s):unsqueeze(-1):unsqueeze(-1), transition_cov = pn.eye(1),
          emission = pn.eye(1), emission_cov = pn.eye(1) }
      end }
    local y = pn.randn { 5, batch, 1 }
    for _, name in ipairs { "elbo", "iwae", "fivo", "vsmc" } do
      local function loss(data)
        local options = name == "vsmc" and { gradient = "score_function", resampling = "multinomial" } or nil
        local value = smc[name](smc.rbpf, m, data, options)
        return value, pn.grad(value, { a })[1]
      end
      local fast = pn.compile(loss)
      for k = 1, 3 do
        pn.seed(k)
        local value, slope = loss(y)
        pn.seed(k)
        local again, slope_again = fast(y)
        assert.equal(value:item(), again:item())
        assert.is_true((slope - slope_again):abs():max():item() <= 1e-12, name)
      end
    end
  end)

  it("says what is wrong", function()
    local m = model(parameters(2), 4, 2)
    local function refused(text, ...)
      local given = table.pack(...)
      assert.error_matches(function() smc.fivo(table.unpack(given, 1, given.n)) end, text)
    end
    refused("smc.fivo: make must be a function", 3, m, series(Y, 2))
    refused("smc.fivo: model must be a table", smc.filter, 3, series(Y, 2))
    refused("smc.fivo: y must be a tensor", smc.filter, m, 3)
    refused("smc.fivo: unknown option 'tresh'", smc.filter, m, series(Y, 2), { tresh = 1 })
    refused("gradient 'score_function' needs resampling 'multinomial'", smc.filter, m, series(Y, 2),
      { gradient = "score_function" })
  end)

  -- What the model says holds unless the call says otherwise.
  it("takes threshold, gradient and scheme of the model, or its own", function()
    local data = series(Y, 1)
    local function value(more, o, name)
      pn.seed(6)
      local p = parameters(1)
      local bound, result = smc[name or "fivo"](smc.filter, model(p, 6, 1, more), data, o)
      return { bound:item(), pn.grad(bound, p.list)[3]:item(), result.increments:totable() }
    end
    local plain = value()
    assert.same(plain, value({ threshold = 0.5 }))
    assert.same(plain, value({ threshold = 0.9 }, { threshold = 0.5 }))
    assert.same(value({}, { threshold = 1 }), value({ threshold = 1 }))
    assert.not_same(plain, value({ threshold = 1 }))
    assert.same(value({ threshold = 0.1 }, nil, "vsmc"), value({}, nil, "vsmc")) -- at every step
    assert.same(value({ threshold = 1 }), value({}, nil, "vsmc"))
    local scored = { gradient = "score_function", resampling = "multinomial", threshold = 1 }
    local by_call = value({ threshold = 1 }, { gradient = "score_function", resampling = "multinomial" })
    assert.same(by_call, value(scored))
    assert.same(by_call, value({ threshold = 1, resampling = "multinomial" }, { gradient = "score_function" }))
    assert.not_same(by_call, value({ threshold = 1, resampling = "multinomial" }))
    assert.same(value({ threshold = 1, resampling = "multinomial" }), value(scored, { gradient = "dropped" }))
    -- nothing was resampled: there is no score
    assert.same(value({ threshold = 0, resampling = "multinomial" }), value({ threshold = 0, resampling = "multinomial",
      gradient = "score_function" }))
    for _, name in ipairs { "elbo", "iwae" } do
      for text, given in pairs { ["make must be a function"] = { 3, {}, data }, ["model must be a table"] = {
        smc.filter, 3, data }, ["y must be a tensor"] = { smc.filter, model(parameters(1), 2, 1), 3 } } do
        assert.error_matches(function() smc[name](table.unpack(given)) end, ("smc.%s: %s"):format(name, text), 1, true)
      end
    end
  end)
end)
