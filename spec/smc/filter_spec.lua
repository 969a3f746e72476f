-- Particle filters against the exact filter of a linear Gaussian model: x' = a x + N(0, q^2), y = x + N(0, r^2).
local pn = require "penumbra"
local helper = require "spec.helper"
local near, refuses = helper.near, helper.refuses
local dist = pn.dist

local A, Q, R, M0, P0 = 0.9, 0.5, 0.7, 100, 2 -- a prior mean far from 0

local function observations(T, seed)
  local g = pn.generator(seed)
  local x, ys = M0 + math.sqrt(P0) * pn.randn({}, { generator = g }):item(), {}
  for t = 1, T do
    x = t > 1 and A * x + Q * pn.randn({}, { generator = g }):item() or x
    ys[t] = x + R * pn.randn({}, { generator = g }):item()
  end
  return ys
end

-- Log-evidence, and mean and variance of the state given y[1 .. t], by pn.kalman_step. false is a missing observation.
local function kalman(ys)
  local m, P = pn.tensor { M0 }, pn.tensor { { P0 } }
  local one, total, means, variances = pn.eye(1), 0, {}, {}
  for t, y in ipairs(ys) do
    local a, q = pn.full({ 1, 1 }, t > 1 and A or 1), pn.full({ 1, 1 }, t > 1 and Q * Q or 0)
    if y then
      local log_prob
      m, P, log_prob = pn.kalman_step(m, P, a, nil, q, pn.tensor { y }, one, nil, pn.full({ 1, 1 }, R * R))
      total = total + log_prob:item()
    else
      m, P = pn.kalman_predict(m, P, a, nil, q)
    end
    means[t], variances[t] = m[1]:item(), P[1][1]:item()
  end
  return total, means, variances
end

local function model(options)
  local o = { prior = function() return dist.normal(M0, math.sqrt(P0)) end,
    transition = function(x) return dist.normal(x * A, Q) end,
    observation = function(x) return dist.normal(x, R) end }
  for key, value in pairs(options) do
    o[key] = value
  end
  return pn.smc.filter(o)
end

-- The law of x given its predecessor and y, and of y given the predecessor.
local function conditional(mean, variance, y)
  local gain = variance / (variance + R * R)
  return dist.normal(mean + (y - mean) * gain, math.sqrt(variance * (1 - gain)))
end
local function proposal(previous, y)
  if previous then
    return conditional(previous * A, Q * Q, y)
  end
  return conditional(M0, P0, y)
end
local function lookahead(x, y)
  return dist.normal(x * A, math.sqrt(Q * Q + R * R)):log_prob(y:broadcast_to(x:shape()))
end

-- E[Z] / Z = 1 within 6 sigma of an interval that is narrow.
local function assert_unbiased(log_evidence, exact, narrow)
  local ratio = (log_evidence - exact):exp()
  local error = ratio:std():item() / math.sqrt(ratio:numel())
  assert.is_true(math.abs(ratio:mean():item() - 1) < 6 * error + 1e-10) -- or all alike but for rounding
  assert.is_true(error < (narrow or 0.03))
end

describe("a particle filter that observes step by step", function()
  it("tells the weighted mean of the state, or of a function of it, and the evidence of its run", function()
    local f, ys = model { num_particles = 9, batch_shape = { 3 }, threshold = 0 }, observations(3, 5)
    for t = 1, 3 do f:observe(ys[t]) end
    local w, x = f.machine:weights(), f.state
    assert.is_true(w:max():item() > 2 * w:min():item())
    assert.is_true((f:mean() - (w * x):sum(1)):abs():max():item() < 1e-13)
    assert.is_true((f:mean(function(state) return state:square() end) - (w * x:square()):sum(1)):abs():max():item()
      < 1e-13)
    assert.is_true((f:log_evidence() - f.machine:log_evidence()):abs():max():item() == 0)
    f:reset()
    assert.is_nil(f.state)
  end)
end)

describe("the evidence of a particle filter", function()
  local ways = { bootstrap = {}, guided = { proposal = proposal }, auxiliary = { lookahead = lookahead },
    ["guided auxiliary"] = { proposal = proposal, lookahead = lookahead } }

  for name, way in pairs(ways) do
    for _, threshold in ipairs { 0, 0.5, 1 } do
      it(("is unbiased: %s, threshold %g"):format(name, threshold), function()
        for _, T in ipairs { 1, 8 } do
          pn.seed(T * 17 + threshold * 100)
          local ys = observations(T, 4)
          local o = { num_particles = 100, batch_shape = { 1000 }, threshold = threshold, trace = false }
          for key, value in pairs(way) do
            o[key] = value
          end
          local result = model(o):run(pn.tensor(ys))
          assert_unbiased(result.log_evidence, (kalman(ys)))
        end
      end)
    end
  end

  for _, scheme in ipairs(pn.smc.schemes()) do
    it("is unbiased with resampling = " .. scheme, function()
      pn.seed(31)
      local ys = observations(8, 5)
      for _, threshold in ipairs { 0.5, 1 } do
        local f = model { num_particles = 100, batch_shape = { 1000 }, threshold = threshold, resampling = scheme }
        assert_unbiased(f:run(pn.tensor(ys)).log_evidence, (kalman(ys)))
      end
    end)
  end

  it("passes missing observations by", function()
    pn.seed(32)
    local ys = observations(8, 6)
    ys[1], ys[4], ys[8] = false, false, false
    local f = model { num_particles = 100, batch_shape = { 1000 } }
    local tensors = {}
    for t = 1, 8 do
      tensors[t] = ys[t] and pn.tensor(ys[t])
    end
    local result = f:run(tensors)
    assert_unbiased(result.log_evidence, (kalman(ys)))
    assert.equal(0, result.increments[4]:abs():max():item())
  end)

  it("has a variance that falls as 1 / N", function()
    local ys = pn.tensor(observations(8, 7))
    local function variance(n)
      pn.seed(n)
      local log_z = model({ num_particles = n, batch_shape = { 2000 }, threshold = 1,
        trace = false }):run(ys).log_evidence
      return log_z:var():item()
    end
    local v1, v2, v3 = variance(50), variance(200), variance(800)
    assert.near(4, v1 / v2, 4 * 0.3) -- a ratio of variances of 2000 draws: 6 sigma are 0.27 in its logarithm
    assert.near(4, v2 / v3, 4 * 0.3)
  end)

  it("is the same with and without history and trace, to the bit", function()
    local ys = pn.tensor(observations(20, 8))
    local function run(options)
      pn.seed(5)
      options.num_particles = 300
      return model(options):run(ys).increments:totable()
    end
    local plain = run { trace = false }
    assert.same(plain, run { history = true })
    assert.same(plain, run { trace = true })
  end)

  it("is the same for 1 and 2 threads, to the bit", function()
    local ys, before = pn.tensor(observations(4, 9)), pn.threads()
    local function run(threads)
      pn.threads(threads)
      pn.seed(6)
      local f = model({ num_particles = 50000 })
      return { f:run(ys).increments:totable(), f.machine:trace().log_evidence_variance:totable() }
    end
    local one, two = run(1), run(2)
    pn.threads(before)
    assert.same(one, two)
  end)
end)

describe("a particle filter", function()
  it("takes its states online in float32, and each observation as they are", function()
    local ys, values = pn.tensor(observations(6, 21)), {}
    for _, dtype in ipairs { "float64", "float32" } do
      pn.seed(5)
      local function noise(n) return pn.randn({ n }, { dtype = dtype }) end
      local f = pn.smc.filter { num_particles = 40000, init = function(n) return noise(n) * math.sqrt(P0) + M0 end,
        step = function(x) return x * A + noise(x:size(1)) * Q end,
        log_weight = function(x, y)
          assert(y:dtype() == dtype)
          return dist.normal(x, pn.full({}, R, { dtype = dtype })):log_prob(y)
        end }
      local online = f:online { dtype = dtype == "float32" and dtype or nil }
      online:run(ys)
      values[dtype] = online:log_evidence()
      local expected = kalman(ys:totable())
      assert.is_true(math.abs(values[dtype] - expected) < 0.1)
    end
    assert.is_true(values.float64 ~= values.float32)
  end)

  it("takes a distribution that depends on nothing as prior", function()
    local ys = observations(10, 4)
    local function run(prior)
      return pn.smc.filter { num_particles = 200, generator = pn.generator(5), prior = prior,
        transition = function(x) return dist.normal(x * 0.9, 0.5) end,
        observation = function(x) return dist.normal(x, 0.7) end }:run(ys).log_evidence:item()
    end
    local law = dist.normal(0, 1)
    assert.equal(run(function() return law end), run(law))
    assert.error_matches(function() run(3) end, "prior must be a function", nil, false)
  end)

  it("has the exact filter's moments", function()
    pn.seed(41)
    local ys = observations(15, 10)
    local _, means, variances = kalman(ys)
    local result = model({ num_particles = 20000 }):run(pn.tensor(ys), { moments = true })
    for t = 1, 15 do
      local mean = result.mean[t]:item()
      local deviation = math.sqrt(variances[t])
      assert.near(means[t], mean, 6 * deviation * 3 / math.sqrt(20000)) -- a third of the particles count, and more
      assert.near(variances[t], result.square[t]:item() - mean ^ 2, 0.1 * variances[t])
    end
    local f = model { num_particles = 20000 }
    for t = 1, 15 do f:observe(pn.tensor(ys[t])) end
    assert.near(variances[15], f:variance():item(), 0.1 * variances[15])
    near(f:variance():item(), f:mean(pn.square):item() - f:mean():item() ^ 2, 1e-9)
    near(f:variance(function(x) return x * 3 end):item(), 9 * f:variance():item(), 1e-9)
    local parts = f:variance(function(x) return { a = x, b = pn.stack({ x, x * 2 }, 2) } end)
    near(parts.a:item(), f:variance():item(), 1e-12)
    near(parts.b[2]:item(), 4 * parts.b[1]:item(), 1e-9)
  end)

  it("has constant weights under the optimal proposal with the perfect look ahead", function()
    pn.seed(42)
    local f = model { num_particles = 50, threshold = 1, proposal = proposal, lookahead = lookahead }
    local ys = observations(6, 11)
    f:observe(pn.tensor(ys[1]))
    for t = 2, 6 do
      f:observe(pn.tensor(ys[t]))
      assert.near(50, f.machine:effective_sample_size():item(), 1e-6)
    end
  end)

  it("is the same written as functions of states", function()
    pn.seed(43)
    local ys = observations(8, 12)
    local f = pn.smc.filter { num_particles = 100, batch_shape = { 1000 }, threshold = 0.5,
      init = function(_, shape) return { x = pn.randn(shape) * math.sqrt(P0) + M0 } end,
      step = function(state) return { x = state.x * A + pn.randn(state.x:shape()) * Q } end,
      log_weight = function(state, y, t, previous)
        assert.equal(t == 1, previous == nil)
        return dist.normal(state.x, R):log_prob(y:broadcast_to(state.x:shape()))
      end }
    assert_unbiased(f:run(pn.tensor(ys)).log_evidence, (kalman(ys)))
    f:reset()
    assert.equal(0, f:log_evidence():abs():max():item())
  end)

  it("tells each step's trace, and the variance of the evidence from one run", function()
    pn.seed(44)
    local ys, runs = observations(10, 13), 200
    local f = model { num_particles = 500, batch_shape = { runs }, threshold = 1, resampling = "multinomial" }
    local result = f:run(pn.tensor(ys))
    local trace = f.machine:trace()
    assert.same({ 10, runs }, trace.effective_sample_size:shape())
    assert.is_true((trace.log_increment - result.increments):abs():max():item() == 0)
    assert.same({ 0, 1, 1, 1, 1, 1, 1, 1, 1, 1 }, trace.resampled:select(2, 7):totable())
    assert.equal(500, trace.unique_ancestors[1]:min():item())
    assert.is_true(trace.unique_ancestors[2]:max():item() < 500)
    local estimate = trace.log_evidence_variance[10]
    local spread = result.log_evidence:var():item()
    local error = estimate:std():item() / math.sqrt(runs) + spread * math.sqrt(2 / runs)
    assert.is_true(math.abs(estimate:mean():item() - spread) < 6 * error)
    assert.is_true(error < 0.3 * spread)
  end)

  it("keeps a reference in conditional SMC, and particle Gibbs has the smoother's law", function()
    -- T = 3; the exact smoother's mean of x[1] and x[3] by Gaussian conditioning through a large linear system
    pn.seed(45)
    local ys = observations(3, 14)
    local _, means = kalman(ys)
    for _, ancestor_sampling in ipairs { false, true } do
      local chains = 2000
      local f = model { num_particles = 6, batch_shape = { chains }, threshold = 1, resampling = "multinomial",
        conditional = true, history = true, trace = false }
      local y = pn.tensor(ys)
      local path = pn.stack({ pn.full({ chains }, M0), pn.full({ chains }, M0), pn.full({ chains }, M0) }, 1)
      for sweep = 1, 25 do
        f:reset()
        f:run(y, { reference = path, ancestor_sampling = ancestor_sampling })
        if sweep == 1 then
          assert.equal(0, (f.state:select(1, 6) - path[3]):abs():max():item())
          local kept = f.machine:paths():select(2, 6)
          assert.equal(ancestor_sampling, (kept - path):abs():max():item() > 0)
        end
        path = f.machine:draw_path()
      end
      local last = path[3]
      local error = last:std():item() / math.sqrt(chains)
      assert.near(means[3], last:mean():item(), 6 * error)
      assert.is_true(error < 0.05)
    end
    assert.has_error(function() model({ num_particles = 3 }):run(pn.tensor(ys), { reference = pn.zeros { 3 } }) end,
      "run: a reference needs a filter made with conditional = true")
  end)

  it("refuses what a model, a run and a reference lack, or have too much", function()
    local law = dist.normal(0, 1)
    local function made(o)
      o.num_particles = 3
      return pn.smc.filter(o)
    end
    for _, missing in ipairs { "init", "step", "log_weight" } do
      local o = { init = print, step = print, log_weight = print }
      o[missing] = nil
      refuses(("filter: %s is missing (a model is init, step and log_weight"):format(missing), made, o)
      refuses(("filter: %s does not go with prior, transition and observation"):format(missing), made,
        { prior = law, transition = print, observation = print, [missing] = print })
    end
    for _, missing in ipairs { "prior", "transition", "observation" } do
      local o = { prior = law, transition = print, observation = print }
      o[missing] = nil
      refuses(("filter: %s is missing (a model is init, step"):format(missing), made, o)
    end
    refuses("filter: init is missing", made, {})
    refuses("filter: proposal belongs to prior, transition and observation", made,
      { init = print, step = print, log_weight = print, proposal = print })
    refuses("filter: lookahead needs ancestors, which gradient = 'transport' does not have", model,
      { num_particles = 3, gradient = "transport", lookahead = lookahead })
    local ys, path = pn.tensor { 99, 88 }, pn.full({ 2 }, 90)
    local f = model { num_particles = 3 }
    assert.equal("filter of 3 particles at t = 0", tostring(f))
    refuses("run: a reference needs a filter made with conditional = true", f.run, f, ys, { reference = path })
    refuses("run: ancestor_sampling needs a reference and the transition's density (transition_log_prob)", f.run, f, ys,
      { ancestor_sampling = true })
    refuses("run: lag must be a whole number from 0 on, got -1", f.run, f, ys, { lag = -1 })
    local bare = pn.smc.filter { num_particles = 3, conditional = true, threshold = 1, resampling = "multinomial",
      init = function(n) return pn.randn { n } end, step = function(x) return x end,
      log_weight = function(x) return x * 0 end }
    refuses("run: ancestor_sampling needs a reference and the transition's density (transition_log_prob)", bare.run,
      bare, ys, { reference = path, ancestor_sampling = true })
    f:run(ys)
    assert.equal("filter of 3 particles at t = 2", tostring(f))
    f:reset()
    assert.equal("filter of 3 particles at t = 0", tostring(f))
    for where, call in pairs { mean = f.mean, variance = f.variance } do
      refuses(where .. ": f must be a function", call, f, 3)
    end
  end)

  it("passes by what is missing in the type of its states", function()
    local f = pn.smc.filter { num_particles = 4, threshold = 0,
      init = function(n) return { x = pn.randn({ n }, { dtype = "float32" }) } end,
      step = function(s) return { x = s.x + 1 } end,
      log_weight = function(s) return s.x end }
    local r = f:run { false, 1, false }
    assert.equal("float32", r.increments:dtype())
    assert.equal("float64", r.log_evidence:dtype())
    for _, t in ipairs { 1, 3 } do near(0, r.increments[t]:item(), 1e-6) end
    near(r.log_evidence:item(), r.increments[2]:item(), 1e-6)
    assert.is_nil(r.smoothed)
    assert.is_nil(r.mean)
    assert.is_nil(f.record)
  end)

  -- The same draws of the default generator, observation by observation, some of them missing.
  it("is online what it is step by step: increments, moments of all parts, sizes", function()
    local n = 40
    local function of_parts(more)
      local o = { num_particles = n,
        init = function() return { x = pn.randn { n }, pair = { pn.randn { n, 2 } } } end,
        step = function(s) return { x = s.x * 0.9 + pn.randn { n } * 0.5, pair = { s.pair[1] + s.x:unsqueeze(2) } } end,
        log_weight = function(s, y)
          return dist.normal(s.x, 0.7):log_prob(y[1]:broadcast_to { n })
            + dist.normal(s.pair[1]:sum(2), 2):log_prob(y[2]:broadcast_to { n })
        end }
      for key, value in pairs(more) do o[key] = value end
      return o
    end
    local ys = { { 0.4, 1 }, { 2, -1 }, false, { -0.3, 3 }, false, { 1, 0.2 } }
    for k, more in ipairs { { threshold = 0.5 }, { threshold = 1 }, { threshold = 1, lookahead = function(s, y)
      return dist.normal(s.x * 0.9, 0.9):log_prob(y[1]:broadcast_to { n })
    end } } do
      local live, eager = pn.smc.filter(of_parts(more)):online { observation = 2 }, {}
      for round = 1, 2 do -- the second begins again
        pn.seed(k)
        eager[round] = pn.smc.filter(of_parts(more))
        local list, total = {}, 0
        for t, y in ipairs(ys) do
          list[t] = eager[round]:observe(y and pn.tensor(y) or nil):item()
          total = total + list[t]
        end
        pn.seed(k)
        for t, y in ipairs(ys) do near(live:observe(y or nil), list[t], 1e-9) end
        near(live:log_evidence(), total, 1e-9)
        near(live:effective_sample_size(), eager[round].machine:effective_sample_size():item(), 1e-6)
        assert.equal(#ys, live:steps())
        local mean = eager[round]:mean()
        local values = { mean.pair[1][1], mean.pair[1][2], mean.x }
        local got, spread = live:mean():totable(), live:variance():totable()
        assert.same({ 3, 3 }, { #got, #spread })
        local w, state = eager[round].machine:weights(), eager[round].state
        for i, part in ipairs { state.pair[1]:select(2, 1), state.pair[1]:select(2, 2), state.x } do
          near(got[i], values[i]:item(), 1e-9)
          near(spread[i], (w * (part - values[i]):square()):sum():item(), 1e-9)
        end
        live:reset()
        assert.equal(0, live:steps())
      end
    end
    -- the default generator draws, whatever the filter's own; no tree and no trace are kept
    local same = {}
    for k, more in ipairs { {}, { history = true, generator = pn.generator(9) } } do
      more.num_particles, more.threshold = 30, 1
      local live = model(more):online()
      pn.seed(7)
      same[k] = live:run(pn.tensor(observations(5, 4))):totable()
    end
    assert.same(same[1], same[2])
    local state = pn.rng_state()
    local plain = model { num_particles = 5 }
    plain:online()
    assert.same(state, pn.rng_state()) -- making one draws nothing
    refuses("online: observation must be a whole number from 1 on, got 0", plain.online, plain, { observation = 0 })
    local wide = model { num_particles = 5, batch_shape = { 2 } }
    refuses("online: a filter online has no batch", wide.online, wide)
  end)

  it("of a linear system without a mean begins at 0, and takes no inputs", function()
    local system = { transition = { { A } }, transition_cov = { { Q * Q } }, emission = { { 2 } },
      emission_cov = { { R * R } }, initial_cov = { { P0 } } }
    local bare = pn.smc.exact_filter(system)
    system.initial_mean = { 0 }
    local ys = pn.tensor { { 0.7 }, { -1 } }
    assert.same(pn.smc.exact_filter(system):run(ys):totable(), bare:run(ys):totable())
    for _, name in ipairs { "transition_input", "emission_input" } do
      system[name] = { { 1 } }
      refuses(("exact_filter: the system may have no %s"):format(name), pn.smc.exact_filter, system)
      system[name] = nil
    end
  end)

  it("says what is missing", function()
    assert.has_error(function() pn.smc.filter { num_particles = 3, init = function() end } end,
      "filter: step is missing (a model is init, step and log_weight, or prior, transition and observation)")
    assert.has_error(function() pn.smc.filter { num_particles = 3, prior = function() end } end,
      "filter: transition is missing (a model is init, step and log_weight, or prior, transition and observation)")
    assert.error_matches(function() model { num_particles = 0 } end, "num_particles must be a whole number from 1 on")
    local f = model { num_particles = 3 }
    assert.error_matches(function() f:observe(pn.tensor(1e200)) end, "at step 1")
  end)
end)
