--- Enumerated variables of loops over time, summed out turn by turn, and their posteriors: against forward-backward
--- recursions and sums over all values written out.
local logsumexp = require "spec.infer.enumerated".logsumexp
local pn = require "penumbra"
local dist = pn.dist
local model = require "penumbra.infer.model"
local near = require("spec.helper").near

local enumerate = { enumerate = true }

local function summed(m, most)
  return model.run(m, {}, { enumerate = true, most = most or 0 }):log_density():item()
end

local start, move = { 0.6, 0.3, 0.1 }, { { 0.8, 0.15, 0.05 }, { 0.3, 0.6, 0.1 }, { 0.05, 0.25, 0.7 } }

-- Forward-backward over lists of log densities of emission, [T][3]: log evidence, probabilities [T][3].
local function forward_backward(emit)
  local T, alpha, beta = #emit, {}, {}
  for t = 1, T do
    alpha[t] = {}
    for k = 1, 3 do
      local terms = {}
      for j = 1, t == 1 and 1 or 3 do
        terms[j] = t == 1 and math.log(start[k]) or alpha[t - 1][j] + math.log(move[j][k])
      end
      alpha[t][k] = logsumexp(terms) + emit[t][k]
    end
  end
  for t = T, 1, -1 do
    beta[t] = {}
    for k = 1, 3 do
      local terms = {}
      for j = 1, t == T and 1 or 3 do
        terms[j] = t == T and 0 or beta[t + 1][j] + math.log(move[k][j]) + emit[t + 1][j]
      end
      beta[t][k] = logsumexp(terms)
    end
  end
  local evidence, probs = logsumexp(alpha[T]), {}
  for t = 1, T do
    probs[t] = {}
    for k = 1, 3 do probs[t][k] = math.exp(alpha[t][k] + beta[t][k] - evidence) end
  end
  return evidence, probs
end

local function emissions(y, mu)
  local emit = {}
  for t, v in ipairs(y:totable()) do
    emit[t] = {}
    for k = 1, 3 do emit[t][k] = -0.5 * (v - 2 * (k - 1) - mu) ^ 2 - 0.5 * math.log(2 * math.pi) end
  end
  return emit
end

local function hidden_markov(T)
  local first, rest = pn.tensor(start), pn.tensor(move)
  return pn.model(function(m, y)
    local mu = m:sample("mu", dist.normal(0, 1))
    m:scan("t", T, false, function(z, t)
      z = m:sample("z", dist.categorical(z and rest:take(1, z) or first), enumerate)
      m:observe("y", dist.normal(z:to "float64" * 2 + mu, 1), y[t])
      return z
    end)
  end)
end

describe("a hidden Markov model as a loop over time", function()
  it("has the evidence of the forward recursion, and its slope, with a plan as small for any length", function()
    pn.seed(4)
    local steps = {}
    for k, T in ipairs { 9, 100, 700 } do
      local y = pn.randn { T } + pn.randint(0, 3, { T }):to "float64" * 2
      local target = hidden_markov(T):target(y)
      local at, h = 0.3, 1e-5
      local function exact(mu)
        return (forward_backward(emissions(y, mu))) - 0.5 * mu ^ 2 - 0.5 * math.log(2 * math.pi)
      end
      local lp, g = target:evaluate(pn.tensor { at })
      near(lp:item(), exact(at), 1e-11)
      near(g:item(), (exact(at + h) - exact(at - h)) / (2 * h), 1e-6)
      steps[k] = target:compiled_gradient():plans()[1].steps
    end
    assert(steps[3] < 150, steps[3]) -- 20 a turn if they stood one by one
  end)

  it("has the posterior of its labels by forward-backward, and draws of it", function()
    pn.seed(5)
    local T = 40
    local y = pn.randn { T } + pn.randint(0, 3, { T }):to "float64" * 2
    local p = pn.nuts(hidden_markov(T), { data = { y }, chains = 2, warmup = 100, draws = 300 })
    local got, want = p:labels(), {}
    assert.same({ T, 3 }, got.z:shape())
    for _, mu in ipairs(p.draws.mu:reshape { -1 }:totable()) do
      local _, probs = forward_backward(emissions(y, mu))
      for t = 1, T do
        want[t] = want[t] or { 0, 0, 0 }
        for k = 1, 3 do want[t][k] = want[t][k] + probs[t][k] / 600 end
      end
    end
    assert.is_true((got.z - pn.tensor(want)):abs():max():item() < 1e-11)
    local z = p:label_draws().z
    assert.same({ 600, T }, z:shape())
    assert.equal("int64", z:dtype())
    for k = 0, 2 do
      local share = z:eq(k):to("float64"):mean(1)
      local sd = (got.z:select(2, k + 1) * (1 - got.z:select(2, k + 1)) / 600):sqrt()
      assert.is_true(((share - got.z:select(2, k + 1)):abs() - 6 * sd):max():item() < 1 / 600)
    end
    -- jointly: pairs of neighbours move as the chain does, which independent draws by row would not
    local stay = z:slice(2, 2, T):eq(z:slice(2, 1, T - 1)):to("float64"):mean():item()
    local apart = 0
    for t = 2, T do
      for k = 1, 3 do apart = apart + want[t][k] * want[t - 1][k] / (T - 1) end
    end
    local exact, n = 0, 0
    for i = 1, 600, 20 do
      local emit = emissions(y, p.draws.mu:reshape({ -1 })[i]:item())
      local evidence = forward_backward(emit)
      local h = 1e-6
      -- d evidence / d log of a factor exp(h) at each stay is the expected number of stays
      local kept = move
      move = {}
      for j = 1, 3 do
        move[j] = {}
        for k = 1, 3 do move[j][k] = kept[j][k] * (j == k and math.exp(h) or 1) end
      end
      exact, n = exact + (forward_backward(emit) - evidence) / h / (T - 1), n + 1
      move = kept
    end
    -- six standard errors of 600 draws are below 0.02, and independent rows would be three times as far away
    assert(math.abs(stay - exact / n) < 0.02, stay)
    assert(math.abs(exact / n - apart) > 0.04, apart)
    assert.same({ 100, T }, p:label_draws({ draws = 100 }).z:shape())
    assert.same({ 2, 300 }, p:log_likelihood().y:shape())
  end)
end)

-- The log of the sum over all values of `count` binary variables of exp(f(values)), and their means.
local function over_all(count, f)
  local terms, values = {}, {}
  for index = 0, 2 ^ count - 1 do
    local v = {}
    for k = 1, count do v[k] = (index >> (k - 1)) & 1 end
    terms[#terms + 1], values[#values + 1] = f(v), v
  end
  local total, means = logsumexp(terms), {}
  for k = 1, count do
    means[k] = 0
    for i, v in ipairs(values) do means[k] = means[k] + v[k] * math.exp(terms[i] - total) end
  end
  return total, means
end

local function bernoulli(p, z) return math.log(z == 1 and p or 1 - p) end
local function normal(x, mean) return -0.5 * (x - mean) ^ 2 - 0.5 * math.log(2 * math.pi) end

-- p(1) of a binary variable by the one before it
local up = pn.tensor { 0.2, 0.7 }
local function flip(m, name, before)
  local d = dist.bernoulli(before and up:take(1, before:to "int64") or 0.4)
  return m:sample(name, d, enumerate)
end

describe("enumerated variables that are summed out in turn", function()
  local y = { 0.3, 1.4, -0.2, 2.6, 1.1, 0.5, 1.7, 0.9, 2.2, 0.1 }

  it("may be several in a turn, and stand beside one of all turns", function()
    local T = 5
    local m = pn.model(function(m)
      local c = flip(m, "c")
      m:scan("t", T, {}, function(z, t)
        z = { a = flip(m, "a", z.a), b = flip(m, "b", z.b) }
        m:observe("y", dist.normal(z.a + 2 * z.b + 3 * c, 1), y[t])
        return z
      end)
    end)
    local want = over_all(2 * T + 1, function(v)
      local lp = bernoulli(0.4, v[1])
      for t = 1, T do
        local a, b = v[2 * t], v[2 * t + 1]
        lp = lp + bernoulli(t == 1 and 0.4 or up[v[2 * t - 2] + 1]:item(), a)
          + bernoulli(t == 1 and 0.4 or up[v[2 * t - 1] + 1]:item(), b) + normal(y[t], a + 2 * b + 3 * v[1])
      end
      return lp
    end)
    near(summed(m), want, 1e-11)
  end)

  it("may depend on two turns before, in a second loop and after it", function()
    local m = pn.model(function(m)
      local last = m:scan("t", 5, {}, function(z, t)
        local a = m:sample("a", dist.bernoulli(0.1 + 0.5 * (z[1] or 0) + 0.3 * (z[2] or 0)), enumerate)
        m:observe("y", dist.normal(a * 2, 1), y[t])
        return { a, z[1] }
      end)
      last = m:scan("s", 5, last[1], function(z, t)
        z = flip(m, "b", z)
        m:observe("x", dist.normal(z, 1), y[5 + t])
        return z
      end)
      m:observe("end", dist.normal(flip(m, "c", last) * 3, 1), 2)
    end)
    local want = over_all(11, function(v)
      local lp = 0
      for t = 1, 5 do
        lp = lp + bernoulli(0.1 + 0.5 * (v[t - 1] or 0) + 0.3 * (v[t - 2] or 0), v[t]) + normal(y[t], v[t] * 2)
      end
      for t = 6, 10 do lp = lp + bernoulli(up[v[t - 1] + 1]:item(), v[t]) + normal(y[t], v[t]) end
      return lp + bernoulli(up[v[10] + 1]:item(), v[11]) + normal(2, v[11] * 3)
    end)
    near(summed(m), want, 1e-11)
  end)

  it("may stand in plates around the loop and within its turns, and in loops within loops", function()
    local data = pn.tensor { { 0.5, 1.5, -1 }, { 2, 0.2, 0.7 } } -- [turn, row]
    local around = pn.model(function(m)
      m:plate("rows", 3, function()
        m:scan("t", 2, false, function(z, t)
          z = flip(m, "z", z)
          m:observe("y", dist.normal(z * 2, 1), data[t])
          return z
        end)
      end)
    end)
    local want = 0
    for i = 1, 3 do
      want = want + over_all(2, function(v)
        return bernoulli(0.4, v[1]) + bernoulli(up[v[1] + 1]:item(), v[2]) + normal(data[1][i]:item(), 2 * v[1])
          + normal(data[2][i]:item(), 2 * v[2])
      end)
    end
    near(summed(around, 1), want, 1e-11)
    local inside = pn.model(function(m)
      m:scan("t", 2, false, function(z, t)
        z = flip(m, "z", z)
        m:plate("rows", 3, function()
          local w = flip(m, "w", z)
          m:observe("y", dist.normal(z + w * 2, 1), data[t])
        end)
        return z
      end)
    end)
    local total, means = over_all(8, function(v)
      local lp = bernoulli(0.4, v[1]) + bernoulli(up[v[1] + 1]:item(), v[2])
      for t = 1, 2 do
        for i = 1, 3 do
          local w = v[2 + 3 * (t - 1) + i]
          lp = lp + bernoulli(up[v[t] + 1]:item(), w) + normal(data[t][i]:item(), v[t] + 2 * w)
        end
      end
      return lp
    end)
    near(summed(inside, 1), total, 1e-11)
    local labels = {}
    local trace = model.run(inside, {}, { enumerate = true, most = 1, labels = labels })
    local g = pn.grad(trace:log_density(), { labels["z[1]"], labels["z[2]"], labels["w[1]"], labels["w[2]"] })
    near(g[1]:reshape({ 2 })[2]:item(), means[1], 1e-11)
    near(g[2]:reshape({ 2 })[2]:item(), means[2], 1e-11)
    for t = 1, 2 do
      for i, v in ipairs(g[2 + t]:reshape({ 2, 3 })[2]:totable()) do near(v, means[2 + 3 * (t - 1) + i], 1e-11) end
    end
    local nested = pn.model(function(m)
      m:scan("day", 4, false, function(z, day)
        z = flip(m, "z", z)
        m:scan("hour", 2, false, function(w, hour)
          w = m:sample("w", dist.bernoulli(0.2 + 0.5 * z + 0.2 * (w or 0)), enumerate)
          m:observe("y", dist.normal(w, 1), y[2 * day + hour - 2])
          return w
        end)
        return z
      end)
    end)
    near(summed(nested), over_all(12, function(v)
      local lp = 0
      for day = 1, 4 do
        lp = lp + bernoulli(day == 1 and 0.4 or up[v[day - 1] + 1]:item(), v[day])
        for hour = 1, 2 do
          local k = 4 + 2 * day + hour - 2
          lp = lp + bernoulli(0.2 + 0.5 * v[day] + 0.2 * (hour == 2 and v[k - 1] or 0), v[k])
            + normal(y[2 * day + hour - 2], v[k])
        end
      end
      return lp
    end), 1e-11)
  end)

  it("wait in a turn for those of deeper plates that the carry holds", function()
    local data = pn.tensor { { 0.5, 1.5 }, { 2, 0.2 } } -- [turn, row]
    local m = pn.model(function(m)
      m:scan("t", 2, false, function(w, t)
        m:plate("rows", 2, function() w = flip(m, "w", w) end)
        local z = flip(m, "z")
        m:plate("rows", 2, function() m:observe("y", dist.normal(w + 2 * z, 1), data[t]) end)
        return w
      end)
    end)
    near(summed(m, 1), over_all(6, function(v)
      local lp = bernoulli(0.4, v[5]) + bernoulli(0.4, v[6])
      for i = 1, 2 do
        lp = lp + bernoulli(0.4, v[i]) + bernoulli(up[v[i] + 1]:item(), v[2 + i])
          + normal(data[1][i]:item(), v[i] + 2 * v[5]) + normal(data[2][i]:item(), v[2 + i] + 2 * v[6])
      end
      return lp
    end), 1e-11)
  end)

  it("of deeper plates are summed out before those that come later", function()
    local data = pn.tensor { 0.5, 1.5, -1 }
    local m = pn.model(function(m)
      local w
      m:plate("rows", 3, function() w = flip(m, "w") end)
      local z = flip(m, "z")
      m:plate("rows", 3, function() m:observe("y", dist.normal(w + 2 * z, 1), data) end)
    end)
    near(summed(m, 1), over_all(4, function(v)
      local lp = bernoulli(0.4, v[4])
      for i = 1, 3 do lp = lp + bernoulli(0.4, v[i]) + normal(data[i]:item(), v[i] + 2 * v[4]) end
      return lp
    end), 1e-11)
  end)

  it("must go through the carry", function()
    local T = 8
    local function refused(body, pattern)
      local ok, message = pcall(summed, pn.model(body))
      assert.is_false(ok)
      assert.matches(pattern, message)
    end
    local lost = "'z%[%d%]' depends on an enumerated variable of an earlier turn that the carry of m:scan did not hold"
    for back = 1, 2 do
      refused(function(m)
        local all = {}
        m:scan("t", T, false, function(_, t)
          all[t] = flip(m, "z", all[t - back])
          return back == 2 and all[t]
        end)
      end, lost)
    end
    refused(function(m)
      m:scan("t", 12, {}, function(all, t)
        all[t] = flip(m, "z", all[t - 1])
        return all
      end)
    end, "the carry says what later turns depend on: it must hold no more than they need")
    local nobody = pn.model(function(m)
      m:sample("x", dist.normal(0, 1))
      m:observe("y", dist.normal(0, 1), 1)
    end)
    local p = pn.nuts(nobody, { chains = 1, warmup = 10, draws = 4 })
    for _, name in ipairs { "labels", "label_draws" } do
      assert.error_matches(function() p[name](p) end, name .. ": the model enumerates no variable")
    end
  end)
end)

describe("labels of rows", function()
  it("have the probabilities of Bayes' rule, in float64 and float32", function()
    for _, dtype in ipairs { "float64", "float32" } do
      pn.seed(6)
      local y = pn.tensor({ -1, 0.5, 2, 3, 8 }, { dtype = dtype })
      local means = pn.tensor({ -1, 1, 4 }, { dtype = dtype })
      local m = pn.model(function(m, seen)
        local s = m:sample("s", dist.gamma(pn.tensor(3, { dtype = dtype }), pn.tensor(3, { dtype = dtype })))
        m:plate("rows", 5, function()
          local z = m:sample("z", dist.categorical(pn.tensor({ 0.2, 0.5, 0.3 }, { dtype = dtype })), enumerate)
          m:observe("y", dist.normal(means:take(1, z), s), seen)
        end)
      end)
      local p = pn.nuts(m, { data = { y }, chains = 2, warmup = 100, draws = 400 })
      local s = p.draws.s:reshape { -1, 1, 1 }:to "float64"
      local lp = -((y:to "float64":unsqueeze(2) - means:to "float64") / s):square() / 2
        + pn.tensor { 0.2, 0.5, 0.3 }:log()
      local want = lp:softmax(-1):mean(1)
      local got = p:labels().z
      assert.same({ 5, 3 }, got:shape())
      assert.is_true((got - want):abs():max():item() < (dtype == "float64" and 1e-12 or 1e-5))
      assert.same({ 800, 5 }, p:label_draws().z:shape())
    end
  end)
end)
