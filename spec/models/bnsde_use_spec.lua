-- What a Bayesian neural SDE is used for: gradients, training and its resumption, SGLD, encoders, forecasts, files; bad
-- input.
local pn = require "penumbra"
local message_of = require("spec.helper").message_of
local nn, dist = pn.nn, pn.dist

local function largest(a, b) return (a - b):abs():max():item() end

local function same_bits(a, b)
  local count = 0
  for name, x in pairs(a) do
    count = count + 1
    assert.is_true(x:eq(b[name]):all():item(), name)
  end
  assert(count > 3)
end

local function spring(_, h) -- h'' = -h
  return pn.concatenate({ h:slice(-1, 2, 2), -h:slice(-1, 1, 1) }, -1)
end

local function hybrid(o)
  pn.seed(1)
  local given = { size = 2, hidden = { 4 }, activation = "tanh", diffusion = 0.3, noise = 0.5, prior_drift = spring,
    gamma = { 1, 0.5 } }
  for name, v in pairs(o or {}) do given[name] = v end
  return pn.models.bnsde(given)
end

local function data(steps, count, dtype)
  local g = pn.generator(7)
  local y = pn.randn({ steps, count, 2 }, { generator = g })
  local width = pn.rand({ steps, count }, { generator = g }) * 0.2 + 0.05
  return { y = y:to(dtype or "float64"), times = width:cumsum(1) }
end

describe("objectives", function()
  it("have the gradients of differences, the noise held, in every parameter", function()
    local gap = 0 / 0
    for _, kind in ipairs { "trajectory", "draw", "step" } do
      for _, objective in ipairs { "e_bayes", "e_pac_bayes", "vi" } do
        local function r(t, h) return spring(t, h) * h:square():sum(-1):unsqueeze(-1) end
        local m = hybrid { prior_drift = r, hidden = { 2 }, weights = kind, time = true, posterior_scale = 0.2,
          diffusion = function(t, h) return (h * 0.5):square() + 0.3 + t end }
        local b = data(5, 3)
        b.y = pn.where(pn.tensor { 1, 1, gap, 1, 1 }:reshape { 5, 1, 1 }:eq(1), b.y, pn.full({}, gap))
        b.lengths = { 5, 4, 5 }
        local name = objective == "vi" and "vi" or objective .. "_hybrid"
        local function loss()
          return m:loss(b, { objective = name, draws = 2, num_data = 12, generator = pn.generator(5) })
        end
        local g = pn.grad(loss(), m:parameters())
        for k, p in ipairs(m:parameters()) do
          local flat = p:detach():reshape { -1 } + 0
          for i = 1, flat:numel() do
            local step = pn.where(pn.arange(flat:numel()):eq(i - 1), pn.full({}, 1e-5), pn.zeros {})
            local function at(sign)
              p:set((flat + step * sign):reshape(p:shape()))
              return loss():item()
            end
            local slope = (at(1) - at(-1)) / 2e-5
            p:set(flat:reshape(p:shape()))
            assert.near(slope, g[k]:reshape({ -1 })[i]:item(), 1e-6 * math.max(1, math.abs(slope)))
          end
        end
      end
    end
  end)

  it("do not see what is beyond a length, in gaps, or the order of trajectories", function()
    local m, b = hybrid(), data(7, 3)
    local function loss(batch, dtype)
      return pn.no_grad(m.loss, m, batch, { draws = 2, objective = dtype, generator = pn.generator(2) }):item()
    end
    b.lengths = { 7, 4, 2 }
    local before = loss(b)
    local late = pn.arange(7):unsqueeze(2):ge(pn.tensor { 7, 4, 2 })
    local y = pn.where(late:unsqueeze(3), pn.full({}, 99), b.y)
    local times = pn.where(late, pn.full({}, -3), b.times)
    assert.equal(before, loss { y = y, times = times, lengths = { 7, 4, 2 } })
    -- data have no gradient
    local leaf, seen = pn.param(b.times), pn.param(b.y)
    local given = m:loss({ y = seen, times = leaf, lengths = b.lengths }, { draws = 2, generator = pn.generator(2) })
    given:backward()
    assert.is_nil(leaf:grad())
    assert.is_nil(seen:grad())
    local nan = pn.where(late:unsqueeze(3), pn.full({}, 0 / 0), b.y)
    assert.near(before, loss { y = nan, times = times, lengths = { 7, 4, 2 } }, 1e-12)
    -- the same trajectory without its padding has the same peak and number of observations
    local p = m:paths({ y = b.y, times = b.times, lengths = b.lengths }, { draws = 1, noise = pn.zeros { 6, 1, 3, 2 } })
    local alone = m:paths({ y = b.y:slice(1, 1, 4):slice(2, 2, 2), times = b.times:slice(1, 1, 4):slice(2, 2, 2) },
      { draws = 1, noise = pn.zeros { 3, 1, 1, 2 } })
    assert.equal(6, p.states:size(2))
    assert(math.abs(alone.path_kl:item() - p.path_kl[1][2]:item()) < 0.5 * p.path_kl[1][2]:item())
  end)

  it("are the mean over trajectories: twice the data, the same value but for the divergence", function()
    local m, b = hybrid(), data(5, 4)
    local two = { y = pn.concatenate({ b.y, b.y }, 2), times = pn.concatenate({ b.times, b.times }, 2) }
    local noise = pn.randn({ 4, 1, 4, 2 }, { generator = pn.generator(3) })
    local one = m:paths(b, { noise = noise })
    local both = m:paths(two, { noise = pn.concatenate({ noise, noise }, 3) })
    assert.same({ 1, 8 }, both.log_likelihood:shape())
    assert.near(one.path_kl:sum():item(), both.path_kl:sum():item() / 2, 0.5 * one.path_kl:sum():item())
  end)

  it("have the divergence of the weights for each trajectory in vi, once for all trajectories in the bound", function()
    local m, b = hybrid(), data(5, 4)
    local function loss(objective, num_data)
      return m:loss(b, { objective = objective, num_data = num_data, generator = pn.generator(1) }):item()
    end
    local kl = m.network:kl():item()
    assert.near(loss "e_bayes_hybrid" + kl / 4, loss "vi", 1e-9)
    assert.near(loss "e_bayes_hybrid" + kl / 40, loss("vi", 40), 1e-9)
    assert.near(loss("vi", 40) + 0, loss("e_bayes_hybrid", 40) + kl / 40, 1e-9)
  end)

  it("take windows at every place alike often, of values, times and nothing else", function()
    local trajectories = require "penumbra.models.bnsde.trajectories"
    local y = pn.arange(6):to("float64"):reshape { 1, 6, 1 } + pn.arange(2000):to("float64"):reshape { 2000, 1, 1 } * 10
    local b = { y = y, observed = y * 0 + 1, times = y:squeeze(3) * 2, size = 2000, steps = 6,
      parts = { 1, 3, 1, 1, 1 }, first = 1, counted = 2 }
    pn.seed(1)
    local w = trajectories.windows(b, 4)
    local start = w.y:select(2, 1):squeeze(2) - y:select(2, 1):squeeze(2)
    for k = 0, 2 do -- six standard deviations of a share of a third
      assert.near(1 / 3, start:eq(k):to("float64"):mean():item(), 6 * (2 / 9 / 2000) ^ 0.5)
    end
    for k = 1, 4 do
      assert.equal(0, largest(w.y:select(2, k):squeeze(2), y:select(2, 1):squeeze(2) + start + (k - 1)))
    end
    assert.equal(0, largest(w.times, w.y:squeeze(3) * 2))
    assert.same({ 3, 3, 3 }, w.parts)
  end)

  it("fall into the fewest steps that are at most as long, a million in all, but for rounding", function()
    local parts = require("penumbra.models.bnsde.trajectories").parts
    local width = pn.tensor { { 0.1, 0.05 }, { 0.1, 0.6 }, { 1.1, 1 }, { 0.25, 0.2 }, { 0, 0 } }
    assert.same({ 1, 6, 11, 3, 1 }, parts("spec", width, 0.1))
    assert.same({ 1, 1, 1, 1, 1 }, parts("spec", width, nil))
    assert.same({ 1000000 }, parts("spec", pn.ones { 1, 1 }, 1e-6))
    assert.matches("spec: step 5e%-07 makes more than 1000000 steps of these times",
      message_of(parts, "spec", pn.ones { 1, 2 }, 5e-7))
    assert.matches("more than 1000000 steps", message_of(parts, "spec", pn.tensor { { 1 }, { 1 } }, 1.0 / 500001))
  end)

  it("take steps between times that are at most as long as asked", function()
    local fine, coarse = hybrid { step = 0.1, posterior_scale = 1e-300 }, hybrid { posterior_scale = 1e-300 }
    local y = pn.ones { 4, 1, 2 }
    local times = pn.tensor { 0, 0.1, 0.4, 0.5 }
    local all = pn.tensor { 0, 0.1, 0.2, 0.3, 0.4, 0.5 }
    local noise = pn.randn({ 5, 3, 1, 2 }, { generator = pn.generator(1) })
    local a = fine:paths({ y = y, times = times }, { draws = 3, noise = noise })
    local b = coarse:paths({ y = pn.ones { 6, 1, 2 }, times = all }, { draws = 3, noise = noise })
    local at = pn.tensor({ 0, 3, 4 }, { dtype = "int64" })
    assert.near(0, largest(a.states, b.states:take(2, at)), 1e-13)
    assert.near(0, largest(a.path_kl, b.path_kl), 1e-13)
  end)

  it("in float32 are those of float64, nearly", function()
    local b = data(12, 4)
    local noise = pn.randn({ 11, 2, 4, 2 }, { generator = pn.generator(1) })
    local wide, narrow = hybrid { posterior_scale = 1e-6 }, hybrid { posterior_scale = 1e-6, dtype = "float32" }
    local state = {}
    for name, x in pairs(wide:state()) do state[name] = x:to "float32" end
    narrow:load_state(state)
    local p = wide:paths(b, { draws = 2, noise = noise })
    local q = narrow:paths({ y = b.y:to "float32", times = b.times:to "float32" },
      { draws = 2, noise = noise:to "float32" })
    assert.equal("float32", q.states:dtype())
    for name, x in pairs(p) do
      local scale = x:abs():max():item()
      assert.near(0, largest(x, q[name]:to "float64"), 2e-5 * scale)
    end
  end)
end)

describe("fit", function()
  local gap = 0 / 0

  -- next to no diffusion, certain weights: nothing is drawn, so that minibatches differ from the whole by scale alone
  it("scales the divergence of a minibatch to all trajectories", function()
    local b = { y = pn.ones { 4, 6, 2 }, times = pn.arange(4) }
    local function first_loss(size)
      local m = hybrid { diffusion = 1e-3, posterior_scale = 1e-300, noise = 1e3, prior_drift = function(_, h)
        return h * 0
      end }
      return m:fit({ data = b, epochs = 1, batch_size = size, lr = 1e-300, seed = 1 }).history[1]
    end
    assert.near(first_loss(6), first_loss(2), 1e-3 * first_loss(6))
    assert(first_loss(6) > 10)
  end)

  it("learns a drift that the prior lacks, and says less where it knows nothing", function()
    pn.seed(2)
    -- h' = 2 - h + noise
    local K, N, dt = 40, 24, 0.05
    local h, list = pn.zeros { N, 1 }, {}
    for k = 1, K do
      list[k] = h
      h = h + (2 - h) * dt + 0.2 * dt ^ 0.5 * pn.randn { N, 1 }
    end
    local batch = { y = pn.stack(list, 1), times = pn.arange(K):to "float64" * dt }
    local m = pn.models.bnsde { size = 1, hidden = { 8 }, diffusion = 0.2, noise = 0.1 }
    local before = m:loss(batch, { draws = 5, objective = "e_pac_bayes" }):item()
    m:fit { data = batch, epochs = 150, batch_size = 8, lr = 1e-2, seed = 1, draws = 2 }
    assert(m:loss(batch, { draws = 5, objective = "e_pac_bayes" }):item() < before - 20)
    local at = pn.linspace(0.2, 1.6, 8):reshape { 8, 1, 1 }
    local off = (m:drift(pn.zeros { 1, 1 }, at) - (2 - at)):abs():max():item()
    assert(off < 0.35, off)
    local w = m:sample_weights { draws = 500 }
    local function spread(x)
      return m:drift(pn.zeros { 1, 1 }, pn.full({ 500, 1, 1 }, x), w):std():item()
    end
    assert(spread(12) > 3 * spread(1))
  end)

  it("is replayed to the bits of the eager loop, and goes on after a break to the same bits", function()
    local path = os.tmpname()
    for _, o in ipairs { { weights = "trajectory" }, { weights = "draw", window = 4 }, { weights = "step" },
      { objective = "sgld" }, { objective = "e_bayes_hybrid", step = 0.06 } } do
      local b = data(8, 5)
      if not o.window then b.y = pn.where(pn.arange(8):eq(3):reshape { 8, 1, 1 }, pn.full({}, gap), b.y) end
      local function run(epochs, more)
        local m = hybrid { weights = o.weights, step = o.step }
        pn.seed(3)
        local given = { data = b, epochs = epochs, batch_size = 2, seed = 4, draws = 2, objective = o.objective,
          window = o.window, lr = 1e-2, warmup = o.objective and 1 or nil, count = 3 }
        for name, v in pairs(more or {}) do given[name] = v end
        return m, m:fit(given)
      end
      local whole, r = run(5)
      local eager = run(5, { compile = false })
      same_bits(whole:state(), eager:state())
      os.remove(path)
      run(2, { checkpoint = path, schedule = o.objective == "sgld" and function() return 1e-2 end or nil })
      local resumed, s = run(5, { checkpoint = path, resume = true,
        schedule = o.objective == "sgld" and function() return 1e-2 end or nil })
      local straight = o.objective ~= "sgld" and whole
        or run(5, { schedule = function() return 1e-2 end })
      same_bits(straight:state(), resumed:state())
      assert.equal(5, #s.history)
      assert(r.history[5] == r.history[5] and math.abs(r.history[5]) < 1e6)
    end
    os.remove(path)
  end)

  -- One Euler step of h' = w h + b from 0: y = b dt + N(0, s^2), whatever w; of b ~ N(0, 1) the posterior is normal.
  it("by sgld keeps the weights after each epoch of the second half, the newest in the places of the oldest", function()
    local flat = require("penumbra.models.bnsde.drift_weights").flat
    for _, case in ipairs { { epochs = 7, first = 4 }, { epochs = 5, warmup = 1, first = 2 } } do
      local m, rows = hybrid(), {}
      m:fit { data = data(4, 4), objective = "sgld", epochs = case.epochs, warmup = case.warmup, count = 3, seed = 1,
        lr = 1e-2, on_epoch = function(s) rows[s.epoch] = flat(m.network):totable() end }
      local count, kept = case.epochs - case.first + 1, m.kept:totable()
      assert.equal(count, m.kept_count:item())
      for epoch = case.epochs - 2, case.epochs do
        assert.same(rows[epoch], kept[(epoch - case.first) % 3 + 1])
      end
    end
    local m = hybrid()
    m:fit { data = data(4, 4), objective = "sgld", epochs = 2, seed = 1 }
    assert.equal(50, m.kept:size(1))
    m:fit { data = data(4, 4), epochs = 1, seed = 1 }
    assert.is_nil(m.kept)
  end)

  it("by sgld takes steps that fall as the 0.55th power, from a tenth of all of them on", function()
    local function state(o)
      local m = hybrid()
      o.data, o.objective, o.epochs, o.batch_size, o.seed = data(4, 4), "sgld", 6, 2, 1
      m:fit(o)
      return m:state()
    end
    same_bits(state {}, state { schedule = function(step) return 1e-5 * (1 + 10 * step / 12) ^ -0.55 end })
    same_bits(state { lr = 1e-4 }, state { schedule = function(step) return 1e-4 * (1 + 10 * step / 12) ^ -0.55 end })
  end)

  it("by sgld draws from the posterior of the weights, and moves what has no prior by the gradient alone", function()
    pn.seed(5)
    local N, dt, s = 6, 2, 5 -- the data say as much as the prior
    local y = pn.concatenate({ pn.zeros { 1, N, 1 }, 8 + s * pn.randn { 1, N, 1 } }, 1)
    local precision = 1 + N * dt ^ 2 / s ^ 2
    local mean = y:sum():item() * dt / s ^ 2 / precision
    local net = nn.linear(1, 1)
    for _, p in ipairs(net:parameters()) do p:set(pn.zeros(p:shape())) end
    local m = pn.models.bnsde { size = 1, network = net, prior = { weight = false, bias = 1 }, diffusion = 1e-9,
      noise = s }
    local batch = { y = y, times = pn.tensor { 0, dt } }
    local n, rate = 6000, 0.4 / precision
    m:fit { data = batch, objective = "sgld", schedule = function() return rate end, epochs = n + 200, warmup = 200,
      count = n, seed = 1 }
    local drawn = m.kept:select(2, 2) - 0
    -- steps that forget at a rate of at least 0.2: of n draws no fewer than n / 20 are as good as independent
    assert.near(mean, drawn:mean():item(), 5 / precision ^ 0.5 / (n / 20) ^ 0.5)
    assert.near(1, drawn:std():item() * precision ^ 0.5, 0.2)
    assert.equal(0, m.kept:select(2, 1):abs():max():item())
    local h = m:forecast(batch, 1, { draws = 4000, step = 1, mode = "state" }):select(2, 1):select(2, 1)
    assert.near(drawn:std():item(), h:std():item(), 0.1 * drawn:std():item())
    assert.matches("SGLD", message_of(m.bound, m, { y = pn.ones { 2, 8, 1 }, times = batch.times }))
  end)

  it("with encoder and decoder can learn one sequence by heart, in windows", function()
    pn.seed(6)
    local T = 60
    local phase = pn.arange(T):to "float64" * 0.2
    local y = pn.stack({ phase:sin(), phase:cos(), phase:sin() * phase:cos() * 2 }, 2):unsqueeze(2)
    local batch = { y = pn.concatenate({ y, y * 0.5 }, 2), times = pn.arange(T):to "float64" * 0.1 }
    local m = pn.models.bnsde { size = 3, latent = 2, hidden = { 16 }, encoder = { 16 }, decoder = { 16 }, prefix = 3,
      diffusion = 0.01, noise = 0.1, posterior_scale = 1e-3, activation = "tanh" }
    local p = m:paths(batch, { draws = 2 })
    assert.same({ 2, T - 3, 2, 2 }, p.states:shape())
    local function error_of()
      local f = m:forecast({ y = batch.y:slice(1, 1, 3), times = batch.times:slice(1, 1, 3) }, T - 3, { draws = 20,
        step = 0.1, mode = "mean" }):mean(1)
      return (f - batch.y:slice(1, 4, T)):square():mean():item()
    end
    local before = error_of()
    m:fit { data = batch, epochs = 500, lr = 1e-2, objective = "e_bayes", window = 20, seed = 1 }
    m:fit { data = batch, epochs = 200, lr = 3e-3, objective = "e_bayes", seed = 1 }
    assert(error_of() < 0.02 and before > 0.2, ("%g %g"):format(before, error_of()))
    assert(type(m:bound({ y = pn.concatenate({ y, y, y, y, y, y, y, y }, 2), times = batch.times }).holds) == "string")
  end)
end)

describe("forecasts", function()
  it("go on from each trajectory's own end, at its own distance or at the times asked for", function()
    local m = hybrid { diffusion = 1e-300, posterior_scale = 1e-300 }
    local b = data(6, 2)
    b.lengths = { 6, 3 }
    local h = m:forecast(b, 4, { draws = 2, mode = "state" })
    for n, last in ipairs { 6, 3 } do
      local x = b.y[last][n]:reshape { 1, 1, 2 }
      local dt = b.times[last][n] - b.times[last - 1][n]
      for k = 1, 4 do
        x = x + m:drift(pn.zeros { 1, 1 }, x) * dt
        assert.near(0, largest(x:reshape { 2 }, h[1][k][n]), 1e-12)
      end
    end
    local one = m:forecast({ y = b.y:slice(1, 1, 1), times = b.times:slice(1, 1, 1) }, 2, { draws = 1, step = 0.5,
      mode = "state" })
    for n = 1, 2 do
      local start = b.y[1][n]:reshape { 1, 1, 2 }
      assert.near(0, largest((start + m:drift(pn.zeros { 1, 1 }, start) * 0.5):reshape { 2 }, one[1][1][n]), 1e-12)
    end
    local same = { y = b.y, times = b.times:select(2, 1) }
    local t = same.times[6] + pn.tensor { 0.1, 0.4 }
    local at = m:forecast(same, 2, { draws = 1, times = t, mode = "state" })
    for _, dtype in ipairs { "float64", "float32" } do -- a leaf of a graph at which nothing is recorded
      local leaf = m:forecast(same, 2, { draws = 1, times = pn.param(t:to(dtype)), mode = "state" })
      assert.is_false(leaf:requires_grad())
      assert.near(0, largest(at, leaf), dtype == "float64" and 0 or 1e-6)
    end
    local x = b.y[6]:unsqueeze(1)
    x = x + m:drift(pn.zeros { 1, 1 }, x) * 0.1
    x = x + m:drift(pn.zeros { 1, 1 }, x) * 0.3
    assert.near(0, largest(x[1], at[1][2]), 1e-12)
  end)

  it("have the noise of observations where observations are asked for, and bands by quantiles", function()
    local m = hybrid { diffusion = 0.4, noise = { 0.5, 2 }, posterior_scale = 1e-300, hidden = {} }
    for _, p in ipairs(m.network.net:parameters()) do p:set(pn.zeros(p:shape())) end
    m.gamma:set(pn.zeros { 2 })
    local b = data(3, 1)
    local function spread(mode)
      return m:forecast(b, 2, { draws = 20000, step = 0.5, mode = mode })[{ {}, 2, 1 }]:std(1)
    end
    local walk = 0.4 -- of two steps of 0.5
    assert.near(0, largest(spread "mean", pn.tensor { walk, walk }), 0.01)
    assert.near(0, largest(spread "observation", pn.tensor { (walk ^ 2 + 0.25) ^ 0.5, (walk ^ 2 + 4) ^ 0.5 }), 0.06)
    local q = m:quantiles(b, 2, { 0.025, 0.5, 0.975 }, { draws = 20000, step = 0.5, mode = "mean" })
    assert.same({ 3, 2, 1, 2 }, q:shape())
    assert.near(1.96 * walk, ((q[3] - q[1]) / 2)[2][1][1]:item(), 0.03)
  end)

  it("after a filter keep the weights of its particles", function()
    -- h' = b, b ~ N(0, 2^2): after a slope of 3 the forecast goes on with it
    pn.seed(4)
    local net = nn.linear(1, 1)
    for _, p in ipairs(net:parameters()) do p:set(pn.zeros(p:shape())) end
    local m = pn.models.bnsde { size = 1, network = net, prior = { weight = false, bias = 1 }, posterior_scale = 2,
      diffusion = 0.05, noise = 0.05 }
    local times = pn.arange(11):to "float64" * 0.1
    local b = { y = (times * 3):reshape { 11, 1, 1 }, times = times }
    local after = m:forecast(m:filter(b, { num_particles = 20000 }), 1, { draws = 500, step = 1, mode = "state" })
    local fresh = m:forecast(b, 1, { draws = 500, step = 1, mode = "state" })
    assert.near(6, after:mean():item(), 0.1)
    assert.near(3, fresh:mean():item(), 0.6)
    assert(after:std():item() < 0.3 and fresh:std():item() > 1.5)
  end)
end)

describe("a file", function()
  it("has the model again, SGLD's samples and the chosen gamma too", function()
    local path, b = os.tmpname(), data(5, 8)
    local m = hybrid()
    m:fit { data = b, objective = "sgld", epochs = 6, warmup = 2, count = 3, batch_size = 4, seed = 1 }
    m.gamma:set(pn.tensor { 0, 1 })
    assert(m:save(path))
    local again = assert(pn.restore(path, { prior_drift = spring }))
    same_bits(m:state(), again:state())
    local function forecast(x)
      return x:forecast(b, 3, { draws = 4, generator = pn.generator(1) })
    end
    assert.equal(0, largest(forecast(m), forecast(again)))
    local samples = require("penumbra.models.bnsde.path_objective").samples
    for k, want in ipairs { 1, 2, 3, 3 } do -- of three that are kept
      m.kept_count:set(pn.full({}, k))
      assert.same(m.kept:slice(1, 1, want):totable(), samples(m):totable())
    end
    for _, bad in ipairs { 0, -1, math.huge } do
      assert.matches("forecast: step must be positive", message_of(m.forecast, m, b, 3, { step = bad }))
    end
    assert.matches("prior_drift", message_of(pn.restore, path))
    for name, bad in pairs { kept_count = pn.full({}, -3), gamma = pn.full({ 2 }, 2), kept = pn.ones { 3, 5 } } do
      local contents, about = pn.load(path)
      contents.parameters[name] = bad
      assert(pn.save(path .. "x", contents, about))
      local none, message = pn.restore(path .. "x", { prior_drift = spring })
      assert.is_nil(none, name)
      assert.matches(name, message)
    end
    os.remove(path)
    os.remove(path .. "x")
  end)
end)

describe("bad input", function()
  local gap = 0 / 0

  it("is named", function()
    local make = pn.models.bnsde
    for what, o in pairs {
      ["diffusion"] = { diffusion = 0 }, ["noise"] = { noise = -1 }, ["gamma"] = { gamma = { 1, 2 } },
      ["gamma is only"] = { prior_drift = false, gamma = 1 }, ["latent"] = { latent = 1 },
      ["weights"] = { weights = "layer" }, ["must take 2 inputs"] = { network = nn.linear(3, 2) },
      ["give 2 outputs"] = { network = nn.linear(2, 3) }, ["step"] = { step = -1 },
      ["exclude"] = { encoder = { 3 }, initial = "first" }, ["encoder"] = { decoder = { 3 } },
      ["prefix"] = { prefix = 2 }, ["initial"] = { initial = "last" }, ["initial.scale"] = { initial = { scale = -1 } },
      ["dtype"] = { dtype = "int64" }, ["hidden"] = { hidden = 3 },
    } do
      local given = { size = 2, diffusion = 1, noise = 1, prior_drift = spring }
      for name, v in pairs(o) do given[name] = v ~= false and v or nil end
      local message = message_of(make, given)
      assert(message:find("bnsde", 1, true) and message:find(what, 1, true), what .. ": " .. message)
    end
    local m, b = hybrid(), data(4, 8)
    local function batch(o)
      local given = { y = b.y, times = b.times }
      for name, v in pairs(o) do given[name] = v end
      return given
    end
    for what, o in pairs {
      ["y must have shape"] = { y = pn.ones { 4, 8, 3 } }, ["at least 2 steps"] = { y = pn.ones { 1, 8, 2 } },
      ["times must have shape"] = { times = pn.ones { 5 } }, ["times must increase"] = { times = pn.ones { 4 } },
      ["times must be finite"] = { times = pn.tensor { 0, 1, 2, gap } }, ["lengths"] = { lengths = { 1, 2 } },
      ["first observation"] = { y = pn.full({ 4, 8, 2 }, gap) }, ["y must be finite"] = { y = pn.full({ 4, 8, 2 },
        math.huge) }, ["float64 or float32"] = { y = pn.ones({ 4, 8, 2 }, { dtype = "int64" }) },
    } do
      for _, verb in ipairs { "loss", "bound", "filter", "paths" } do
        local message = message_of(m[verb], m, batch(o))
        assert(message:find(verb .. ": ", 1, true) and message:find(what, 1, true), what .. ": " .. message)
      end
    end
    -- what lies within the open or closed interval of each number, and just outside
    local function made(name, value)
      return pn.models.bnsde { size = 2, diffusion = name == "diffusion" and value or 0.5,
        noise = name == "noise" and value or 0.1, prior_drift = function(_, h) return -h end,
        gamma = name == "gamma" and value or nil }
    end
    for name, case in pairs { noise = { { 1e-9, { 0.1, 2 } }, { 0, -1, { 1, 0 }, { 1 }, 0 / 0, math.huge } },
      diffusion = { { 1e-9, { 0.1, 2 } }, { 0, -1, { 0, 1 }, { 1, 1, 1 }, 0 / 0 } },
      gamma = { { 0, 1, { 0, 1 } }, { -1e-9, 1 + 1e-9, { 0.5, 2 }, 0 / 0, "1" } } } do
      for _, value in ipairs(case[1]) do made(name, value) end
      for _, value in ipairs(case[2]) do
        assert.matches("bnsde: " .. name .. " must be a number or a list of 2", (message_of(made, name, value)))
      end
    end
    assert.matches("e_pac_bayes_hybrid", message_of(m.fit, m, { data = b, epochs = 1, objective = "e_pac_bayes" }))
    assert.matches("did you mean", message_of(m.fit, m, { data = b, epochs = 1, objective = "e_bayes_hybird" }))
    assert.matches("delta", message_of(m.loss, m, b, { delta = 1 }))
    assert.matches("num_data", message_of(m.loss, m, b, { num_data = 3 }))
    assert.matches("window", message_of(m.fit, m, { data = b, epochs = 1, window = 5 }))
    assert.matches("number of sequences", message_of(m.bound, m, data(4, 7)))
    assert.matches("noise", message_of(m.paths, m, b, { noise = pn.ones { 1 } }))
    assert.matches("step", message_of(m.forecast, m, { y = b.y:slice(1, 1, 1), times = pn.zeros { 1 } }, 3))
    assert.matches("times must increase", message_of(m.forecast, m, b, 1, { times = pn.zeros { 1 } }))
    assert.matches("belief", message_of(m.forecast, m, hybrid():filter(b, { num_particles = 4 }), 2))
    assert.matches("last observation", message_of(m.forecast, m, { times = b.times, y = pn.where(
      pn.arange(4):eq(3):reshape { 4, 1, 1 }, pn.full({}, gap), b.y) }, 2))
    for pattern, grid in pairs { ["grid must be a list of numbers from 0 to 1, got 2"] = { 0, 2 },
      ["numbers from 0 to 1, got %-0.5"] = { -0.5 }, ["numbers from 0 to 1, got x"] = { "x" },
      ["grid must have 1 to 4096 members over 2 numbers of h, got 0"] = {} } do
      assert.matches(pattern, message_of(m.choose_gamma, m, b, { grid = grid }))
    end
    local fine = {}
    for k = 1, 65 do fine[k] = k / 65 end -- 65^2
    assert.matches("got 4225", message_of(m.choose_gamma, m, b, { grid = fine }))
    assert.same({ 1, 0.5 }, m.gamma:totable()) -- as it was
    local encoded = pn.models.bnsde { size = 2, hidden = { 4 }, diffusion = 1, noise = 1, encoder = { 3 }, prefix = 2 }
    local gaps = { times = b.times, y = pn.where(pn.arange(4):eq(1):reshape { 4, 1, 1 }, pn.full({}, gap), b.y) }
    assert.matches("loss: the first 2 observations of each trajectory must be observed", message_of(encoded.loss,
      encoded, gaps))
    assert.matches("loss: lengths must be at least 2, where paths begin", message_of(encoded.loss, encoded,
      { y = b.y, times = b.times, lengths = { 1, 2, 3, 4, 4, 4, 4, 4 } }))
    assert.matches("loss: y must have at least 3 steps, got 2", message_of(encoded.loss, encoded,
      { y = b.y:slice(1, 1, 2), times = b.times:slice(1, 1, 2) }))
    assert.matches("forecast: the last 2 observations of each trajectory must be observed", message_of(encoded.forecast,
      encoded, { times = b.times, y = pn.where(pn.arange(4):eq(3):reshape { 4, 1, 1 }, pn.full({}, gap), b.y) }, 1))
    assert.matches("the model has no prior_drift", message_of(encoded.choose_gamma, encoded, b))
    for _, lengths in ipairs { { 0, 4, 4, 4, 4, 4, 4, 4 }, { 5, 4, 4, 4, 4, 4, 4, 4 } } do
      assert.matches("lengths must be int64 %[8%], from 1 to 4", message_of(m.loss, m, batch { lengths = lengths }))
    end
    for pattern, o in pairs { ["window must be at most the 4 steps of y, got 5"] = { window = 5 },
      ["window must be a whole number from 2 on, got 1"] = { window = 1 },
      ["window is for trajectories without gaps, all of one length"] = { window = 2, data = batch { lengths = { 3, 4, 4,
        4, 4, 4, 4, 4 } } } } do
      o.data, o.epochs = o.data or b, 1
      assert.matches(pattern, message_of(m.fit, m, o))
    end
    for _, window in ipairs { 2, 4 } do m:fit { data = b, epochs = 1, window = window } end
    local wrong = hybrid { prior_drift = function(_, h) return h:sum(-1) end }
    assert.matches("prior_drift%(t, h%) must return", message_of(wrong.loss, wrong, b))
    local vanishing = hybrid { diffusion = function(_, h) return h * 0 end }
    assert.matches("diffusion", message_of(vanishing.bound, vanishing, b))
    assert.matches("finite", message_of(vanishing.fit, vanishing, { data = b, epochs = 1 }))
  end)
end)

describe("a model's defaults", function()
  it("are those of its options", function()
    local o = { size = 2, diffusion = 0.5, noise = 0.1, hidden = { 3 } }
    local function made(more)
      local given = {}
      for _, list in ipairs { o, more } do
        for name, v in pairs(list) do given[name] = v end
      end
      return pn.models.bnsde(given)
    end
    local law = made { initial = {} }
    assert.same({ { 0, 0 }, { 1, 1 } }, { law.initial_mean:totable(), law.initial_scale:totable() })
    law = made { initial = { mean = -2, scale = 0 } }
    assert.same({ { -2, -2 }, { 0, 0 } }, { law.initial_mean:totable(), law.initial_scale:totable() })
    local encoded = made { encoder = { 3 } }
    assert.same({ 3, { 6, 3 } }, { encoded.prefix, encoded.encoder[1]:parameters()[1]:shape() })
    assert.equal(1, made({ encoder = { 3 }, prefix = 1 }).prefix)
    assert.matches("bnsde: prefix must be a whole number from 1 on, got 0", message_of(made, { encoder = { 3 },
      prefix = 0 }))
    local plain = made {}
    assert.same({ 2, 2, "first" }, { plain.size, plain.latent, plain.initial })
    assert.same({ 1, 1 }, made({ prior_drift = spring }).gamma:totable())
    assert.equal(3, made({ time = true }).network.net[1]:parameters()[1]:size(1))
    assert.matches("^bnsde%(black box, 2 observed, 2 latent, weights per trajectory, %d+ parameters%)$",
      tostring(plain))
    assert.matches("^bnsde%(hybrid, 2 observed, 3 latent, weights per step, ", tostring(made { prior_drift = spring,
      latent = 3, weights = "step" }))
    for text, more in pairs { ["with a decoder paths cannot begin at observations"] = { decoder = { 3 } },
      ["initial and encoder exclude each other"] = { encoder = { 3 }, initial = {} },
      ["must take 3 inputs (h and t) and give 2 outputs"] = { time = true, network = nn.linear(2, 2) },
      ["step must be positive, got inf"] = { step = math.huge }, ["step must be positive, got 0"] = { step = 0 },
      ["hidden[2] must be a whole number from 1 on, got 0"] = { hidden = { 3, 0 } },
      ["noise must be a number or a list of 2, positive"] = { noise = pn.param(pn.ones { 2 }) },
      ["diffusion must be a number or a list of 2, positive"] = { diffusion = pn.ones { 2, 1 } },
      ["initial.mean must be a number or a list of 2"] = { initial = { mean = { 1 } } },
    } do
      local message = message_of(made, more)
      assert.truthy(message:find(text, 1, true), message)
      assert.is_nil(message:find "true" or message:find "false")
    end
    assert.matches("give 2 outputs$", message_of(made, { network = nn.linear(2, 3) }))
    assert.matches("give 2 outputs: .*matmul", message_of(made, { network = nn.linear(3, 2) }))
    assert.equal(1, pn.models.bnsde({ size = 1, diffusion = 1, noise = 1, step = 0.25 }).latent)
    local b = data(4, 8)
    for _, noise in ipairs { pn.ones { 3, 1, 8, 3 }, pn.ones({ 3, 1, 8, 2 }, { dtype = "float32" }) } do
      assert.matches("paths: noise must be float64 %[3, 1, 8, 2%], got ", message_of(plain.paths, plain, b, { noise =
        noise }))
    end
    assert.equal(plain:loss(b, { num_data = 8, generator = pn.generator(1) }):item(), plain:loss(b, { generator =
      pn.generator(1) }):item())
    assert.matches("num_data must be a whole number from 8 on, got 7", message_of(plain.loss, plain, b, { num_data =
      7 }))
  end)
end)

-- what a solver asks for
describe("the parts of the equation", function()
  it("frozen at the means are another model's prior drift, which training leaves as it is", function()
    local m, b = hybrid(), data(6, 4)
    local r, h, t = m:mean_drift(), pn.randn { 2, 4, 2 }, pn.zeros { 4, 1 }
    local before = m:drift(t, h):detach() + 0
    assert.equal(0, largest(before, r(t, h)))
    m:fit { data = b, epochs = 2, lr = 0.1 }
    local other = hybrid { prior_drift = r, gamma = 1 }
    other:fit { data = b, epochs = 2, lr = 0.1 }
    m.gamma:set(pn.zeros { 2 })
    assert.equal(0, largest(before, r(t, h)))
    assert(largest(before, m:drift(t, h)) > 0.01)
    assert.equal(#hybrid():parameters(), #other:parameters())
  end)

  it("have slopes in h, with and without a prior drift, and the diffusion h's shape", function()
    local function scale(_, h) return h:square() * 0.1 + 0.2 end
    for _, dtype in ipairs { "float64", "float32" } do
      for _, m in ipairs { hybrid { dtype = dtype, diffusion = scale }, pn.models.bnsde { size = 2, hidden = { 4 },
        diffusion = { 0.3, 0.7 }, noise = 0.5, dtype = dtype } } do
        local h, t = pn.param(pn.randn({ 2, 3, 2 }, { dtype = dtype })), pn.zeros({ 3, 1 }, { dtype = dtype })
        local weight = pn.arange(12):to(dtype):reshape { 2, 3, 2 }
        local function slope(f) return pn.grad((f(t, h) * weight):sum(), { h })[1] end
        local of_drift = slope(function(...) return m:drift(...) end)
        assert.near(0, largest(of_drift, slope(m:mean_drift())), 1e-6)
        assert(of_drift:abs():max():item() > 0.1)
        local g = m:diffusion(t, h)
        assert.same({ 2, 3, 2 }, g:shape())
        assert.equal(dtype, g:dtype())
        if m.prior_drift then
          assert.near(0, largest(slope(function(...) return m:diffusion(...) end), weight * h * 0.2), 1e-6)
        else
          assert.near(0, largest(g, pn.tensor({ 0.3, 0.7 }, { dtype = dtype }):broadcast_to { 2, 3, 2 }), 1e-15)
        end
      end
    end
  end)

  it("make the path that the model makes", function()
    pn.seed(8)
    local m = hybrid { posterior_scale = 0.3, diffusion = function(_, h) return h:square() * 0.1 + 0.2 end }
    local b = data(5, 2)
    local noise = pn.randn { 4, 1, 2, 2 }
    pn.seed(9)
    local w = m:sample_weights { draws = 1, count = 2 }
    pn.seed(9)
    local states = m:paths(b, { noise = noise }).states
    local h = b.y[1]:unsqueeze(1)
    for k = 1, 4 do
      local t, dt = b.times[k]:unsqueeze(2), (b.times[k + 1] - b.times[k]):unsqueeze(2)
      h = h + m:drift(t, h, w) * dt + m:diffusion(t, h) * dt:sqrt() * noise[k]
      assert.near(0, largest(h, states:select(2, k)), 1e-13)
    end
    assert(dist.is(m.network:posterior "1.weight"))
  end)
end)
