-- Policy gradients against closed forms and a linear solve, and the parts of the reinforced acquisition by hand.
local pn = require "penumbra"
local active, nn = pn.active, pn.nn
local acquisition = require "penumbra.active.acquisition"
local reinforced = require "penumbra.active.reinforced"
local near = require("spec.helper").within

local function long(list) return pn.tensor(list, { dtype = "int64" }) end

describe("returns", function()
  it("of gamma = .95, by hand, and as printed", function()
    local g = active.returns(pn.tensor { 1, 2, 3 }):totable()
    near(5.6075, g[1], 1e-14) near(4.85, g[2], 1e-14) near(3, g[3], 1e-14)
    local printed = active.returns(pn.tensor { 1, 2, 3 }, { discount_first = true }):totable()
    near(5.327125, printed[1], 1e-14) near(2.85, printed[3], 1e-14)
  end)

  it("of a tabular process are the linear solve (I - gamma P) v = r", function()
    local p = pn.tensor { { .5, .3, .2 }, { .1, .6, .3 }, { .4, .4, .2 } }
    local r = pn.tensor { 1, -2, .5 }
    local rows, now = {}, r
    for t = 1, 600 do rows[t], now = now, p:matmul(now) end -- E[R_{t+1} | s]
    local v = active.returns(pn.stack(rows, 2), { gamma = 0.95 }):select(2, 1)
    local want = (pn.eye(3) - p * 0.95):solve(r)
    assert.truthy((v - want):abs():max():item() < 600 * 1e-15 + 2 * 0.95 ^ 600 / 0.05)
  end)
end)

describe("REINFORCE", function()
  it("on a bandit has the gradient pi_1 pi_2 (r_1 - r_2), whatever the baseline", function()
    local logits = pn.param(pn.tensor { 0.3, -0.4 })
    local r = { 5.7, 3.4 }
    local p = logits:softmax(-1):totable()
    local want = p[1] * p[2] * (r[1] - r[2])
    local squares = {}
    for k, b in ipairs { 0, 4 } do
      local g, square = 0, 0
      for a = 1, 2 do -- over actions, each by its probability
        local loss = active.policy_loss(logits:log_softmax(-1):slice(1, a, a), pn.tensor { r[a] }, { baseline = b })
        local each = -pn.grad(loss, { logits })[1][1]:item()
        g, square = g + p[a] * each, square + p[a] * each ^ 2
      end
      near(want, g, 1e-15, "gradient")
      squares[k] = square
    end
    assert.truthy(squares[2] < 0.1 * squares[1]) -- the mean is the same, the variance is not
  end)

  it("on a tabular MDP is the gradient of the linear solve", function()
    -- two states, two actions, four steps; P[s][a] the probability of state 2 next, R[s][a]
    local P, R, T = { { .2, .7 }, { .5, .1 } }, { { 1, 0 }, { -1, 2 } }, 4
    local w = pn.param(pn.tensor { { .1, -.2 }, { .4, .3 } })
    local function value(logits) -- (I - P_pi) v = r_pi over the states of all times
      local pi = logits:softmax(-1):totable()
      local m, r = pn.eye(2 * T):totable(), {}
      for t = 1, T do
        for s = 1, 2 do
          local row, to = m[2 * t - 2 + s], 0
          r[2 * t - 2 + s] = 0
          for a = 1, 2 do
            to, r[2 * t - 2 + s] = to + pi[s][a] * P[s][a], r[2 * t - 2 + s] + pi[s][a] * R[s][a]
          end
          if t < T then row[2 * t + 1], row[2 * t + 2] = -(1 - to), -to end
        end
      end
      return pn.tensor(m):solve(pn.tensor(r))[1]:item()
    end
    -- all paths from state 1, each by its probability
    local total = pn.zeros { 2, 2 }
    local function walk(s, t, p, logs, rewards)
      if t > T then
        local loss = active.policy_loss(pn.stack(logs), active.returns(pn.tensor(rewards), { gamma = 1 }))
        total = total - pn.grad(loss, { w })[1] * p
        return
      end
      local log_pi = w:log_softmax(-1)
      for a = 1, 2 do
        for to = 1, 2 do
          local q = to == 2 and P[s][a] or 1 - P[s][a]
          local l, r = { table.unpack(logs) }, { table.unpack(rewards) }
          l[t], r[t] = log_pi[s][a], R[s][a]
          walk(to, t + 1, p * q * math.exp(log_pi[s][a]:item()), l, r)
        end
      end
    end
    walk(1, 1, 1, {}, {})
    local base = w:detach()
    for s = 1, 2 do
      for a = 1, 2 do
        local e = pn.zeros { 2, 2 }:totable()
        e[s][a] = 1e-5
        local step = pn.tensor(e)
        near((value(base + step) - value(base - step)) / 2e-5, total[s][a]:item(), 1e-8, "gradient")
      end
    end
  end)
end)

-- A policy of a pool of C classes with so many places.
local function policy(o, C)
  local given = { points = 5, every = 3, ranked = 40, hidden = 7, posterior_scale = 0.1 }
  for name, v in pairs(o or {}) do given[name] = v end
  return reinforced.new(reinforced.check("pool", given), C or 2, 3)
end

local function state(C, points, zero)
  local g = pn.generator(4)
  return pn.randn({ points * C }, { generator = g }), pn.rand({ points * C }, { generator = g }) * (zero and 0 or 1)
end

describe("the thinned ranking", function()
  it("is 0, 20, ..., 980, and moves up when a place is taken out", function()
    local want = {}
    for k = 1, 50 do want[k] = 20 * (k - 1) end
    assert.same(want, acquisition.thinned_places(1000, 20, 50):totable())
    assert.equal(980, want[50])
    assert.same({ 0, 20, 40 }, acquisition.thinned_places(41, 20, 50):totable())
    local o = { every = 20, points = 50 }
    local ranked = pn.randperm(1200):slice(1, 1, 1000)
    local m = pn.randn { 1200, 3 }
    local s = reinforced.state_of(o, ranked, m, m:square())
    assert.same(ranked:take(1, long(want)):totable(), s.at:totable())
    assert.same(m:take(1, s.at):reshape { 150 }:totable(), s.mean:totable())
    local list = ranked:totable()
    table.remove(list, 41) -- place 40, the third of the state
    local later = reinforced.state_of(o, long(list), m, m:square()).at:totable()
    assert.same({ s.at[1]:item(), s.at[2]:item(), list[41] }, { later[1], later[2], later[3] })
    assert.equal(ranked[982]:item(), later[50]) -- all behind it have moved up by one
  end)

  it("that is too short leaves places empty, which have probability 0", function()
    local p = policy()
    local m = pn.randn { 10, 2 }
    local s = reinforced.state_of(p.options, pn.arange(7):to "int64", m, m:square())
    assert.same({ 0, 3, 6 }, s.places:totable())
    local a = reinforced.log_policy(p.net, s.mean, s.variance, s.present):exp():totable()
    assert.same({ 0, 0 }, { a[4], a[5] })
    near(1, a[1] + a[2] + a[3], 1e-14)
  end)
end)

describe("the policy", function()
  local all = pn.ones({ 5 }, { dtype = "bool" })

  it("has probabilities that sum to 1, and is uniform where the outputs are 0", function()
    local p = policy()
    local m, v = state(2, 5)
    near(1, reinforced.log_policy(p.net, m, v, all):exp():sum():item(), 1e-14)
    local zero = p.net:state()
    for _, entry in ipairs(p.net:named_parameters()) do
      if not entry[1]:find "log_scale" then entry[2]:set(entry[2]:detach() * 0) end
    end
    for k = 1, 5 do near(.2, reinforced.log_policy(p.net, m, v, all):exp()[k]:item(), 1e-14) end
    p.net:load_state(zero)
  end)

  it("without variance is the deterministic network: Phi(g) over its sum", function()
    local p = policy { posterior_scale = 1e-12 }
    local m, v = state(2, 5, true)
    local net = p.net.net
    local h = net[1](m:unsqueeze(1))
    local phi = net[3](h:relu()):squeeze(1):ndtr()
    local a = reinforced.log_policy(p.net, m, v, all):exp()
    assert.truthy((a - phi / phi:sum()):abs():max():item() < 1e-9)
  end)

  it("is Phi(g / sqrt(1 + h)) over its sum", function()
    local p = policy()
    local m, v = state(2, 5)
    local g, h = p.net:moments(m, v)
    assert.truthy(h:min():item() > 0.05)
    local phi = {}
    for k = 1, 5 do phi[k] = pn.dist.normal(0, math.sqrt(1 + h[k]:item())):cdf(g[k]:item()):item() end
    local a = reinforced.log_policy(p.net, m, v, all):exp()
    assert.truthy((a - pn.tensor(phi) / pn.tensor(phi):sum()):abs():max():item() < 1e-13)
  end)

  it("looks at the state's variance", function()
    local p = policy()
    local m, v = state(2, 5)
    local d = reinforced.log_policy(p.net, m, v, all) - reinforced.log_policy(p.net, m, v * 0, all)
    assert.truthy(d:abs():max():item() > 1e-3)
  end)

  it("has the gradient of finite differences in log pi, through the sum too", function()
    local p = policy()
    local m, v = state(2, 5)
    local parameters = p.net:parameters()
    local ok, message = pn.check_gradients(function()
      return reinforced.log_policy(p.net, m, v, all):slice(1, 2, 2):sum()
    end, parameters)
    assert.truthy(ok, message)
  end)
end)

describe("rewards", function()
  it("are improvements of the product over all classes, yes and no", function()
    local old = pn.tensor { { .5, .2, .4 }, { .1, .9, .3 } }
    local new = pn.tensor { { .7, .1, .3 }, { .1, .9, .3 } }
    local r = reinforced.improvement(old, new, long { 0, 1 }, "probit"):totable()
    near(.7 * .9 * .7 - .5 * .8 * .6, r[1], 1e-15)
    assert.equal(0, r[2])
    local soft = reinforced.improvement(old, new, long { 0, 1 }, "softmax"):totable()
    near(.7 / 1.1 - .5 / 1.1, soft[1], 1e-15)
    near(2 / 3, reinforced.diversity(long { 4, 1, 4 }), 1e-15)
  end)

  local function episode(n, C)
    local m, v = {}, {}
    for t = 1, n do
      local g = pn.generator(t)
      m[t], v[t] = pn.randn({ 5 * C }, { generator = g }), pn.rand({ 5 * C }, { generator = g })
    end
    return { mean = pn.stack(m), variance = pn.stack(v), present = pn.ones({ n, 5 }, { dtype = "bool" }),
      action = long { 2, 0, 4 } }
  end
  local before = pn.tensor { { .5, .5 }, { .4, .6 }, { .3, .7 } }
  local after = pn.tensor { { .6, .4 }, { .2, .8 }, { .9, .1 } }

  local function numbers(net)
    local list = {}
    for _, entry in ipairs(net:named_parameters()) do list[#list + 1] = entry[2]:detach():reshape { -1 } end
    return pn.concatenate(list, 1):totable()
  end

  it("of an episode: diversity at the last step or each, the baseline the mean of all before", function()
    local y = long { 0, 1, 0 }
    local base = { .6 * .6 - .5 * .5, .8 * .8 - .6 * .6, .9 * .9 - .3 * .3 }
    for _, how in ipairs { "last", "each", "none" } do
      local p = policy { diversity = how }
      local e = episode(3, 2)
      local log_p = reinforced.log_policy(p.net, e.mean, e.variance, e.present):totable()
      local report = p:learn(e, y, before, after, "probit", 1)
      local sum = 0
      for t = 1, 3 do
        local want = base[t] + (how == "each" and 2 / 3 or how == "last" and t == 3 and 2 / 3 or 0)
        near(want, report.rewards[t], 1e-14, how)
        sum = sum + want
      end
      assert.equal(0, report.baseline)
      local g, loss = 0, 0
      for t = 3, 1, -1 do
        g = report.rewards[t] + .95 * g
        near(g, report.returns[t], 1e-14)
        loss = loss - g * log_p[t][({ 3, 1, 5 })[t]]
      end
      near(loss, report.loss, 1e-12)
      assert.truthy(report.kl > 0)
      near(sum / 3, p:learn(e, y, before, after, "probit", 1).baseline, 1e-14)
    end
  end)

  it("of a refused label count in nothing", function()
    local p = policy { kl_weight = 0 }
    local e = episode(3, 2)
    local report = p:learn(e, long { 0, 1, -1 }, before, after, "probit", 1)
    assert.equal(0, report.rewards[3])
    near(.8 * .8 - .6 * .6 + 1, report.rewards[2], 1e-14) -- the last step with a label; two of two differ
    assert.equal(2, p.count)
    assert.equal(0, p:learn(e, long { 0, -1, 0 }, before, after, "probit", 1).rewards[2])
    local q = policy { kl_weight = 0 }
    local log_p = reinforced.log_policy(q.net, e.mean, e.variance, e.present)
    local r = q:learn(e, long { 0, -1, 0 }, before, after, "probit", 1)
    near(-r.returns[1] * log_p[1][3]:item() - r.returns[3] * log_p[3][5]:item(), r.loss, 1e-13, "the step is left out")
    local start = numbers(p.net)
    assert.same({}, p:learn(e, long { -1, -1, -1 }, before, after, "probit", 1).rewards)
    assert.same(start, numbers(p.net))
  end)

  it("move the policy to what they praise, not when it is frozen, anew when it is reset", function()
    local p = policy { kl_weight = 0, diversity = "none", gamma = 0 }
    local e = episode(3, 2)
    local one = { action = long { 4 } }
    for _, name in ipairs { "mean", "variance", "present" } do one[name] = e[name]:slice(1, 3, 3) end
    local function log_pi()
      return reinforced.log_policy(p.net, one.mean, one.variance, one.present):select(2, 5):item()
    end
    local start = log_pi()
    p:learn(one, long { 0 }, before:slice(1, 3, 3), after:slice(1, 3, 3), "probit", 1)
    assert.truthy(log_pi() > start)
    local frozen = policy { policy = "frozen" }
    local was = numbers(frozen.net)
    frozen:learn(e, long { 0, 1, 0 }, before, after, "probit", 1)
    assert.same(was, numbers(frozen.net))
    local reset = policy { policy = "reset" }
    reset:learn(e, long { 0, 1, 0 }, before, after, "probit", 8)
    assert.same(numbers(reinforced.new(reset.options, 2, 8).net), numbers(reset.net))
  end)

  it("are no step at all where nothing was gained and the divergence is left out", function()
    local p = policy { kl_weight = 0, diversity = "none" }
    local was = numbers(p.net)
    p:learn(episode(3, 2), long { 0, 1, 0 }, before, before, "probit", 1)
    assert.same(was, numbers(p.net))
    local q = policy { diversity = "none" } -- the divergence alone
    q:learn(episode(3, 2), long { 0, 1, 0 }, before, before, "probit", 1)
    assert.are_not.same(was, numbers(q.net))
  end)
end)

describe("the options of the policy", function()
  it("are refused by name", function()
    local function message_of(o)
      local ok, message = pcall(reinforced.check, "pool", o)
      assert.is_false(ok)
      return (message:gsub("^[^:]+:%d+: ", ""))
    end
    assert.matches("^pool: gamma must lie in 0 to 1, got 2", message_of { gamma = 2 })
    assert.matches("^pool: points must be a whole number from 1 on, got 0", message_of { points = 0 })
    assert.matches("^pool: precision must be a positive number, got %-1", message_of { precision = -1 })
    assert.matches("^pool: diversity must be one of", message_of { diversity = "never" })
  end)
end)

describe("a policy network", function()
  it("has 500 x 256 and 256 x 50 weights for ten classes", function()
    local o = reinforced.check("pool", {})
    local net = reinforced.new(o, 10, 1).net
    local shapes = {}
    for _, entry in ipairs(nn.bayesian and net.net:named_parameters()) do
      if entry[1]:find "weight" then shapes[#shapes + 1] = entry[2]:shape() end
    end
    assert.same({ { 500, 256 }, { 256, 50 } }, shapes)
  end)
end)

describe("an episode in a file", function()
  it("has an action for each pick among the places there are, and moments of their states", function()
    local form = require "penumbra.form"
    local rule = reinforced.episode_form({ points = 6 }, 3, 2) -- two picks, states of 6 places and 3 classes
    local function fits(name, value)
      local episode = { mean = pn.zeros { 2, 18 }, variance = pn.zeros { 2, 18 }, present = pn.zeros({ 2, 6 }):eq(0),
        action = pn.tensor({ 0, 5 }, { dtype = "int64" }) }
      episode[name] = value
      return (pcall(form.check, "restore", "episode", episode, rule))
    end
    assert.is_true(fits("action", long { 0, 5 }))
    for name, list in pairs { action = { long { 6, 0 }, long { 0, -1 }, long { 0 }, pn.tensor { 0, 5 } },
      mean = { pn.zeros { 2, 6 }, pn.full({ 2, 18 }, 0 / 0), pn.full({ 2, 18 }, -math.huge), pn.zeros { 18 } },
      variance = { pn.full({ 2, 18 }, -1e-9), pn.zeros { 1, 18 } }, present = { pn.zeros { 2, 6 },
        pn.zeros({ 2, 5 }):eq(0) } } do
      for k, value in ipairs(list) do assert.is_false(fits(name, value), name .. " " .. k) end
    end
    assert.is_true(fits("mean", pn.full({ 2, 18 }, -3.5)))
  end)
end)
