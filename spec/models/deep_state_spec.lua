-- DeepState: with constant noise it is the Kalman filter of its structure, likelihood, states and forecasts; noise that
-- changes with the covariates, against the joint normal distribution; what is missing; a seasonal series learnt.
local pn = require "penumbra"
local joint = require "spec.smc.joint_gaussian"
local kalman = pn.smc.kalman

local function max_difference(a, b)
  return (a - b):abs():max():item()
end

-- A model of level, slope and three seasons whose network says the same always: these standard deviations.
local function constant(noise)
  pn.seed(2)
  local m = pn.models.deep_state { trend = true, seasonal = { 3 }, hidden = 4, scaling = "none", offset = true }
  local function inverse(v) return math.log(math.exp(v - 1e-6) - 1) end
  local head, first = {}, {}
  for k, v in ipairs(noise.r) do head[k] = inverse(v) end
  head[4], head[5] = inverse(noise.q), noise.d
  for k = 1, 5 do
    first[k], first[5 + k] = noise.mean[k], inverse(noise.sd[k])
  end
  m.head:load_state { weight = pn.zeros { 4, 5 }, bias = pn.tensor(head) }
  m.first:load_state { weight = pn.zeros { 4, 10 }, bias = pn.tensor(first) }
  return m
end

local noise = { r = { 0.3, 0.1, 0.5 }, q = 0.7, d = 0.4, mean = { 1, 0.2, -1, 0.5, 2 }, sd = { 1, 0.3, 0.5, 0.6, 0.7 } }

-- The same system by hand, of steps that begin at season `start`.
local function system_of(steps, start)
  local c, q = {}, {}
  for t = 1, steps do
    local season = (start + t - 1) % 3
    c[t] = { { 1, 1, season == 0 and 1 or 0, season == 1 and 1 or 0, season == 2 and 1 or 0 } }
    local row = { 0.09, 0.01, season == 0 and 0.25 or 0, season == 1 and 0.25 or 0, season == 2 and 0.25 or 0 }
    q[t] = pn.tensor(row):diag_embed()
  end
  return { transition = pn.tensor { { 1, 1, 0, 0, 0 }, { 0, 1, 0, 0, 0 }, { 0, 0, 1, 0, 0 }, { 0, 0, 0, 1, 0 },
    { 0, 0, 0, 0, 1 } }, emission = pn.tensor(c), transition_cov = pn.stack(q, 1),
    emission_cov = pn.tensor { { 0.49 } }, emission_offset = pn.tensor { 0.4 }, initial_mean = pn.tensor(noise.mean),
    initial_cov = pn.tensor(noise.sd):square():diag_embed() }
end

describe("deep_state", function()
  it("begins with noise of the size that is asked for, 0.1, around a state and an offset of 0", function()
    for _, size in ipairs { 1, 2 } do
      for _, scale in ipairs { false, 0.3 } do
        local m = pn.models.deep_state { size = size, trend = true, seasonal = { 3 }, hidden = 2, offset = true,
          noise = scale or nil }
        local v = math.log(math.exp(scale or 0.1) - 1)
        local head, first = m.head:state().bias:reshape { size, 5 }, m.first:state().bias:reshape { size, 10 }
        local want = pn.tensor { v, v, v, v, 0 } -- level, slope, season, observation; offset
        assert.is_true((head - want):abs():max():item() < 1e-14)
        assert.equal(0, first:slice(2, 1, 5):abs():max():item())
        assert.is_true((first:slice(2, 6, 10) - v):abs():max():item() < 1e-14)
        assert.same({ { 1, 0, 0, 0, 0 }, { 0, 1, 0, 0, 0 }, { 0, 0, 1, 1, 1 } }, m.blocks:totable())
      end
    end
    assert.same({ 40, 1 }, { pn.models.deep_state({}).head:state().weight:size(1), #pn.models.deep_state({}).layers })
    for _, covariates in ipairs { 0, 1, 3 } do
      local m = pn.models.deep_state { covariates = covariates, features = 0, hidden = 2, layers = 2 }
      assert.equal(8 * math.max(1, covariates), m.layers[1]:state().weight_ih:numel())
    end
    assert.is_nil(pn.models.deep_state({}).offset)
  end)

  it("of constant noise has Kalman's likelihood, states and forecasts", function()
    local m, steps, ahead = constant(noise), 7, 4
    local y = pn.randn({ steps, 1, 1 }, { generator = pn.generator(1) }) * 2
    local batch = { y = y, start = { 2 } }
    local all = system_of(steps + ahead, 2)
    local system, future = {}, {}
    for name, x in pairs(all) do
      local timed = name == "emission" or name == "transition_cov"
      system[name] = timed and x:slice(1, 1, steps) or x
      future[name] = timed and x:slice(1, steps + 1, steps + ahead) or nil
    end
    local want = kalman.filter(system, y:squeeze(2))
    assert.is_true(max_difference(m:log_evidence(batch), want.log_likelihood) < 1e-11)
    local belief = m:filter(batch)
    assert.is_true(max_difference(belief.state.mean[1], want.mean[steps]) < 1e-11)
    assert.is_true(max_difference(belief.state.cov[1], want.cov[steps]) < 1e-11)
    local s, smoothed = m:smooth(batch), kalman.smooth(system, y:squeeze(2))
    assert.same({ steps, 1, 1, 5, 5 }, s.cov:shape())
    assert.is_true(max_difference(s.mean:reshape { steps, 5 }, smoothed.mean) < 1e-11)
    assert.is_true(max_difference(s.cov:reshape { steps, 5, 5 }, smoothed.cov) < 1e-11)
    assert.is_true(max_difference(s.initial.mean:reshape { 5 }, smoothed.initial.mean) < 1e-11)
    assert.is_true(max_difference(s.initial.cov:reshape { 5, 5 }, smoothed.initial.cov) < 1e-11)

    local f, n = kalman.forecast(all, y:squeeze(2), ahead), 40000
    for _, mode in ipairs { "ancestral", "marginal" } do
      local x = m:forecast(belief, ahead, { draws = n, mode = mode, generator = pn.generator(3) })
      x = x:reshape { n, ahead }
      local sd = f.cov:reshape({ ahead }):sqrt()
      assert.is_true(((x:mean(1) - f.mean:reshape { ahead }) / sd):abs():max():item() < 6 / math.sqrt(n))
      assert.is_true((x:var(1) / sd:square() - 1):abs():max():item() < 6 * math.sqrt(2 / n))
      -- between steps 1 and 4: c_4 a^3 V_1 c_1, or nothing
      local a, c = all.transition, future.emission
      local between = mode == "marginal" and 0
        or c[4]:matmul(a:matmul(a):matmul(a)):matmul(f.state_cov[1]):matmul(c[1]:t()):item()
      local z = (x - x:mean(1)):select(2, 1) * (x - x:mean(1)):select(2, 4)
      assert.is_true(math.abs(z:mean():item() - between) < 6 * z:std():item() / math.sqrt(n), mode)
    end
  end)

  it("sets noise step by step from covariates, for each variable its own", function()
    pn.seed(7)
    local m = pn.models.deep_state { size = 2, covariates = 2, features = 3, seasonal = { 2 }, hidden = 3, layers = 2,
      scaling = "none" }
    local steps, u = 4, pn.randn { 4, 2, 2 }
    local y = pn.randn { steps, 2, 2 }:totable()
    y[2][1][2] = 0 / 0
    y = pn.tensor(y)
    local h = m.inputs.layer(u)
    for _, layer in ipairs(m.layers) do h = layer(h) end
    local out, first = m.head(h):detach(), m.first(h[1]):detach()
    local got = m:log_evidence { y = y, inputs = u, start = { 0, 1 } }
    for b = 1, 2 do
      local total = 0
      for v = 1, 2 do
        local c, q, r = {}, {}, {}
        for t = 1, steps do
          local o = out[t][b]:slice(1, 3 * v - 2, 3 * v):softplus() + 1e-6
          local even = (b - 1 + t - 1) % 2 == 0 and 1 or 0
          c[t] = { { 1, even, 1 - even } }
          q[t] = (pn.stack { o[1], o[2] * even, o[2] * (1 - even) }):square():diag_embed()
          r[t] = o[3]:square():reshape { 1, 1 }
        end
        local s = first[b]:slice(1, 6 * v - 5, 6 * v)
        local system = { transition = pn.eye(3), emission = pn.tensor(c), transition_cov = pn.stack(q, 1),
          emission_cov = pn.stack(r, 1), initial_mean = s:slice(1, 1, 3),
          initial_cov = (s:slice(1, 4, 6):softplus() + 1e-6):square():diag_embed() }
        local column = y:select(3, v):select(2, b):reshape { steps, 1 }
        local observed = column:eq(column)
        local _, _, log_prob = joint.given(joint.of(system, steps), column, steps, observed)
        total = total + log_prob
      end
      assert.is_true(math.abs(got[b]:item() - total) < 1e-10)
    end
  end)

  it("learns the noise of a seasonal series", function()
    local g, truth = pn.generator(5), constant(noise)
    local function simulated(count)
      local _, draws = kalman.sample(system_of(60, 0), 60, { draws = count, generator = g })
      return draws:permute { 2, 1, 3 }
    end
    pn.seed(1)
    local m = pn.models.deep_state { trend = true, seasonal = { 3 }, hidden = 4, scaling = "none", offset = true }
    local h = m:fit { series = { y = simulated(40) }, steps = 400, lr = 5e-2, seed = 1 }
    assert.is_true(h.loss < h.history[1])
    local y = simulated(200)
    local gap = (truth:log_evidence { y = y } - m:log_evidence { y = y }):mean():item() / 60 -- nats a step
    assert.is_true(gap > -0.005 and gap < 0.02, gap)
  end)

  it("refuses what it cannot be", function()
    local ok, message = pcall(pn.models.deep_state, { noise = 0 })
    assert.is_false(ok)
    assert.matches("deep_state: 'noise' must be a finite number above 0, got 0", message, 1, true)
    assert.is_false(pcall(pn.models.deep_state, { level = false }))
  end)
end)
