-- Small combinations that are valid and that no other spec joins, held to enumeration and closed forms: chains of one
-- state and one step, one transition matrix for all steps and sequences, plates within a scan, conditioning by the name
-- that a scan's variables share.
local pn = require "penumbra"

local dist, smc = pn.dist, pn.smc

local function near(want, got, what, limit)
  assert(math.abs(want - got) <= (limit or 1e-10) * (1 + math.abs(want)), ("%s: %.15g is not %.15g"):format(what, got,
    want))
end

-- ---- hidden Markov models ----

-- All paths of K states over y: the evidence, marginals[t][k], pairs[t][i][j], the best path and its log probability.
local function enumerated(initial, transition, means, scale, y)
  local states, steps = #initial, #y
  local total, marginals, pairs_of, best, path = 0, {}, {}, -math.huge, nil
  for t = 1, steps do
    marginals[t], pairs_of[t] = {}, {}
    for i = 1, states do
      marginals[t][i], pairs_of[t][i] = 0, {}
      for j = 1, states do pairs_of[t][i][j] = 0 end
    end
  end
  for code = 0, states ^ steps - 1 do
    local z, p, rest = {}, 1, math.tointeger(code)
    for t = 1, steps do
      z[t], rest = rest % states + 1, rest // states
      p = p * (t == 1 and initial[z[1]] or transition[z[t - 1]][z[t]])
      if y[t] == y[t] then
        p = p * math.exp(-0.5 * ((y[t] - means[z[t]]) / scale) ^ 2) / (scale * math.sqrt(2 * math.pi))
      end
    end
    total = total + p
    if p > best then best, path = p, z end
    for t = 1, steps do
      marginals[t][z[t]] = marginals[t][z[t]] + p
      if t > 1 then pairs_of[t][z[t - 1]][z[t]] = pairs_of[t][z[t - 1]][z[t]] + p end
    end
  end
  return total, marginals, pairs_of, path, best
end

local INITIAL = { { 1 }, { 0.7, 0.3 }, { 0.5, 0.2, 0.3 } }
local TRANSITION = { { { 1 } }, { { 0.9, 0.1 }, { 0.35, 0.65 } },
  { { 0.6, 0.3, 0.1 }, { 0.05, 0.8, 0.15 }, { 0.25, 0.25, 0.5 } } }
local MEANS = { -0.4, 0.9, 2 }

describe("a hidden Markov model with one transition matrix", function()
  for states = 1, 3 do
    it(("of %d states is the sum of its paths, for one step and more, sequences and gaps"):format(states), function()
      local means = table.move(MEANS, 1, states, 1, {})
      local m = smc.hmm { initial = INITIAL[states], transition = TRANSITION[states],
        emission = dist.normal(pn.tensor(means), 0.8) }
      for steps = 1, 5 do
        local y = pn.randn({ steps, 2 }, { generator = pn.generator(steps) })
        local list = y:totable()
        if steps > 2 then list[2][1] = 0 / 0 end
        y = pn.tensor(list)
        local s = m:smooth(y, { pairwise = true })
        local log_p, best = m:log_likelihood(y), m:viterbi(y)
        assert.same({ steps - 1, 2, states, states }, s.pairs:shape())
        for b = 1, 2 do
          local one = {}
          for t = 1, steps do one[t] = list[t][b] end
          local total, marginals, pairs_of, path = enumerated(INITIAL[states], TRANSITION[states], means, 0.8, one)
          near(math.log(total), log_p[b]:item(), "evidence")
          for t = 1, steps do
            assert.equal(path[t] - 1, best[t][b]:item())
            for i = 1, states do
              near(marginals[t][i] / total, s.marginals[t][b][i]:item(), "marginal")
              for j = 1, t > 1 and states or 0 do
                near(pairs_of[t][i][j] / total, s.pairs[t - 1][b][i][j]:item(), "pair")
              end
            end
          end
        end
        -- one sequence, without an axis for it
        local alone = m:smooth(y:select(2, 2), { pairwise = true })
        near(0, (alone.pairs - s.pairs:select(2, 2)):abs():sum():item(), "alone")
      end
    end)
  end
end)

-- ---- linear Gaussian systems ----

describe("a Kalman filter", function()
  it("of one step and one state is Bayes' rule, missing or not", function()
    local s = { transition = { { 0.8 } }, transition_cov = { { 0.3 } }, emission = { { 1.5 } },
      emission_cov = { { 0.2 } }, initial_mean = { 0.4 }, initial_cov = { { 0.9 } } }
    local mean, var = 0.8 * 0.4, 0.64 * 0.9 + 0.3
    for _, y in ipairs { 0.7, 0 / 0 } do
      local f, g = smc.kalman.filter(s, pn.tensor { { y } }), smc.kalman.smooth(s, pn.tensor { { y } })
      local spread = 2.25 * var + 0.2
      local seen = y == y
      near(seen and mean + 1.5 * var / spread * (y - 1.5 * mean) or mean, f.mean:item(), "mean")
      near(seen and var - 2.25 * var * var / spread or var, f.cov:item(), "variance")
      near(f.mean:item(), g.mean:item(), "smoothed mean")
      near(f.cov:item(), g.cov:item(), "smoothed variance")
      near(seen and -0.5 * ((y - 1.5 * mean) ^ 2 / spread + math.log(2 * math.pi * spread)) or 0,
        f.log_likelihood:item(), "evidence")
    end
  end)
end)

-- ---- models with loops ----

local Y = { { 0.3, -0.2 }, { 0.7, 0.1 }, { -0.4, 0.2 } }
local rows_in_steps = pn.model(function(m, y)
  m:scan("steps", 3, pn.zeros { 2 }, function(before, t)
    local x
    m:plate("rows", 2, function()
      x = m:sample("x", dist.normal(before * 0.5, t == 1 and 1 or 0.6))
      m:observe("y", dist.normal(x, 0.5), y[t])
    end)
    return x
  end)
end)

-- Of each row by the Kalman filter.
local function exact()
  local total, means = 0, {}
  for b = 1, 2 do
    local mean, var = 0, 0
    for t = 1, 3 do
      mean, var = 0.5 * mean, 0.25 * var + (t == 1 and 1 or 0.36)
      local spread = var + 0.25
      total = total - 0.5 * ((Y[t][b] - mean) ^ 2 / spread + math.log(2 * math.pi * spread))
      mean, var = mean + var / spread * (Y[t][b] - mean), var * 0.25 / spread
    end
    means[b] = mean
  end
  return total, pn.tensor(means)
end

describe("a plate within a scan", function()
  local want, last = exact()

  it("has the evidence of its rows under particle filters, tempering and NUTS", function()
    local y, runs = pn.tensor(Y), 300
    pn.seed(4)
    local r = smc.filter(rows_in_steps, { data = { y }, num_particles = 100, batch_shape = { runs } })
    local ratio = (r.log_evidence - want):exp()
    local error = ratio:std():item() / math.sqrt(runs)
    assert.is_true(error < 0.06 and math.abs(ratio:mean():item() - 1) < 6 * error)
    pn.seed(5)
    local p = smc.sample(rows_in_steps, { data = { y }, num_particles = 2000 })
    assert.is_true(p.log_evidence.se < 0.1 and math.abs(p.log_evidence.value - want) < 6 * p.log_evidence.se)
    p = pn.nuts(rows_in_steps, { data = { y }, draws = 1000, generator = pn.generator(6) })
    local row = p:summary()
    for b = 1, 2 do
      local x = row[("x[3, %d]"):format(b)] or row["x[3]"][b]
      assert.is_true(math.abs(x.mean - last[b]:item()) < 6 * x.mcse and x.mcse < 0.03)
    end
  end)

  it("is conditioned by the name that its variables share, or one by one", function()
    local y, x = pn.tensor(Y), pn.tensor { { 1, 0.2 }, { -0.5, 0.4 }, { 0.3, -1 } }
    local law, total = dist.normal(0, 1), 0
    for t = 1, 3 do
      local before = t > 1 and x[t - 1] * 0.5 or pn.zeros { 2 }
      local scale = t == 1 and 1 or 0.6
      total = total + (law:log_prob((x[t] - before) / scale) - math.log(scale)):sum():item()
        + (law:log_prob((y[t] - x[t]) / 0.5) - math.log(0.5)):sum():item()
    end
    near(total, rows_in_steps:condition({ x = x }):log_density({}, y):item(), "by the common name")
    local each = rows_in_steps:condition { ["x[1]"] = x[1], ["x[2]"] = x[2], ["x[3]"] = x[3] }
    near(total, each:log_density({}, y):item(), "by each name")
    near(total, rows_in_steps:condition({ ["x[2]"] = x[2] }):log_density({ x = x }, y):item(), "one of them")
    near(total, rows_in_steps:log_density({ x = x }, y):item(), "given")
  end)
end)
