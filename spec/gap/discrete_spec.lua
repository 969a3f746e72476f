-- The dynamic programme of hidden Markov models: known figures; a search over all posteriors of the same conditions,
-- whose bound is summed over every sequence and every path.
local pn = require "penumbra"

local model = { initial = { 0.6, 0.4 }, transition = { { 0.9, 0.1 }, { 0.3, 0.7 } },
  emission = { { 0.8, 0.2 }, { 0.3, 0.7 } } }

local function with(extra)
  local given = {}
  for name, value in pairs(model) do given[name] = value end
  for name, value in pairs(extra) do given[name] = value end
  return given
end

-- All lists of T numbers from 1 to n.
local function all_lists(n, T)
  local lists = { {} }
  for _ = 1, T do
    local longer = {}
    for _, list in ipairs(lists) do
      for k = 1, n do
        longer[#longer + 1] = { table.unpack(list) }
        table.insert(longer[#longer], k)
      end
    end
    lists = longer
  end
  return lists
end

local function joint(m, x, z)
  local p = 1
  for t = 1, #x do
    p = p * (t == 1 and m.initial[z[1]] or m.transition[z[t - 1]][z[t]]) * m.emission[z[t]][x[t]]
  end
  return p
end

-- The best bound over tables q(z_t | z_(t-1), x_1 ... x_t) of two states, and E log p(x), by enumeration.
local function searched(m, data, T)
  local places, count = {}, 0
  local terms = {} -- {weight of the sequence, log p, places of the logits, states}
  local evidence = 0
  for _, x in ipairs(all_lists(2, T)) do
    local weight, own = 0, 0
    for _, z in ipairs(all_lists(2, T)) do
      weight, own = weight + joint(data, x, z), own + joint(m, x, z)
    end
    evidence = evidence + weight * math.log(own)
    for _, z in ipairs(all_lists(2, T)) do
      local at, signs = {}, {}
      for t = 1, T do
        local key = table.concat(x, ",", 1, t) .. "|" .. (z[t - 1] or 0)
        if not places[key] then
          places[key], count = count, count + 1
        end
        at[t], signs[t] = places[key], z[t] == 2 and 1 or -1
      end
      terms[#terms + 1] = { weight, math.log(joint(m, x, z)), at, signs }
    end
  end
  local weight, log_p, at, sign = {}, {}, {}, {}
  for k, term in ipairs(terms) do weight[k], log_p[k], at[k], sign[k] = table.unpack(term) end
  weight, log_p, sign = pn.tensor(weight), pn.tensor(log_p), pn.tensor(sign)
  at = pn.tensor(at):to "int64"
  local logits = pn.param(pn.zeros { count })
  local opt = pn.optim.lbfgs({ logits }, { max_steps = 500, max_evaluations = 3000, tolerance_grad = 1e-10,
    tolerance_change = 1e-15 })
  local function bound()
    local log_q = (logits:take(1, at) * sign):log_sigmoid():sum(-1)
    return (weight * log_q:exp() * (log_p - log_q)):sum()
  end
  return -opt:step(function() return -bound() end), evidence
end

describe("the dynamic programme", function()
  it("has the known bounds of two states and three steps", function()
    local h = pn.gap.discrete(with { steps = 3 })
    assert.near(-1.9559886139, h.bound.full, 1e-10)
    assert.near(-2.0246701967, h.bound.optimal, 1e-10)
    assert.near(-2.0246854406, h.bound.greedy, 1e-10)
    assert.near(-2.0267971198, h.bound.bayes, 1e-10)
    local first = h.first_gap:totable()
    assert.near(0.0375856597, first[1], 1e-10)
    assert.near(0.0529785659, first[2], 1e-10)
    for name, want in pairs { optimal = { 0.1772530174, 0.7214290030 }, greedy = { 0.1796828625, 0.7232045783 },
      bayes = { 0.2, 0.7 } } do
      local q = h.posteriors[name][1]
      assert.same({ 1, 2, 1, 2 }, q:shape())
      assert.near(want[1], q[1][1][1][2]:item(), 1e-10)
      assert.near(want[2], q[1][2][1][2]:item(), 1e-10)
    end
    assert.is_true(h.bound.full > h.bound.optimal and h.bound.optimal > h.bound.greedy
      and h.bound.greedy > h.bound.bayes)
    assert.near(h.bound.full - h.bound.optimal, h.gap, 1e-14)
  end)

  it("reaches what a search over all posteriors reaches, also for data of another law", function()
    local other = { initial = { 0.3, 0.7 }, transition = { { 0.6, 0.4 }, { 0.2, 0.8 } },
      emission = { { 0.9, 0.1 }, { 0.4, 0.6 } } }
    for _, data in ipairs { model, other } do
      for T = 1, 3 do
        local h = pn.gap.discrete(with { steps = T, data = data })
        local best, evidence = searched(model, data, T)
        assert.near(evidence, h.log_likelihood, 1e-12)
        assert.near(best, h.bound.optimal, 1e-9)
      end
    end
  end)

  it("takes moves that change with time, and what is impossible", function()
    local timed = { model.transition, model.transition, model.transition }
    assert.near(-2.0246701967, pn.gap.discrete(with { steps = 3, transition = timed }).bound.optimal, 1e-10)
    timed[2] = { { 0.5, 0.5 }, { 0.5, 0.5 } }
    assert.is_true(math.abs(pn.gap.discrete(with { steps = 3, transition = timed }).gap
      - pn.gap.discrete(with { steps = 3 }).gap) > 1e-3)
    -- states that are seen: nothing is lost
    assert.near(0, pn.gap.discrete(with { steps = 4, emission = { { 1, 0 }, { 0, 1 } } }).gap, 1e-12)
    local h = pn.gap.discrete(with { steps = 4, initial = { 1, 0 }, transition = { { 0.9, 0.1 }, { 0, 1 } },
      emission = { { 1, 0 }, { 0.3, 0.7 } } })
    assert.is_true(h.gap > 0.01 and h.bound.optimal >= h.bound.greedy and h.bound.greedy > h.bound.bayes)
    assert.equal(0, h.first_gap:totable()[2])
    h = pn.gap.discrete(with { steps = 2, emission = { { 1, 0 }, { 1, 0 } }, data = model })
    assert.equal(-math.huge, h.log_likelihood)
  end)

  it("says what is wrong", function()
    local function wrong(extra)
      local ok, message = pcall(pn.gap.discrete, with(extra))
      assert.is_false(ok)
      return message
    end
    assert.truthy(wrong { steps = 60 }:find("more sequences than can be enumerated", 1, true))
    assert.truthy(wrong { steps = 2, initial = { 0.5, 0.6 } }:find("initial must be probabilities", 1, true))
    assert.truthy(wrong { steps = 2, emission = { { 1, 0 } } }:find("emission must be [2, M]", 1, true))
    assert.truthy(wrong { steps = 2, transition = { { 1 } } }:find("transition must be [2, 2]", 1, true))
    assert.truthy(wrong { steps = 21 }:find("21 steps of 2 symbols", 1, true))
    assert.truthy(wrong { steps = 2, initial = pn.tensor({ 0.5, 0.5 }):to "float32" }:find(
      "initial must be float64 probabilities", 1, true))
    assert.truthy(wrong { steps = 2, initial = { { 0.5, 0.5 } } }:find("initial must be [S]", 1, true))
    assert.truthy(wrong { steps = 2, initial = { 1.5, -0.5 } }:find("initial must be probabilities", 1, true))
    assert.truthy(wrong { steps = 2, initial = { 0.6, 0.400002 } }:find("initial must be probabilities", 1, true))
    pn.gap.discrete(with { steps = 2, initial = { 0.6, 0.4000005 } })
    assert.truthy(wrong { steps = 2, emission = { 0.5, 0.5 } }:find("emission must be [2, M]", 1, true))
    local three = with { emission = { { 0.5, 0.2, 0.3 }, { 0.1, 0.8, 0.1 } } }
    assert.truthy(wrong { steps = 2, data = three }:find("the data must have 2 symbols as the model has, got 3", 1,
      true))
    assert.truthy(wrong { steps = 3, transition = { model.transition, model.transition } }:find(
      "transition must be [3, 2, 2], got [2, 2, 2]", 1, true))
    -- of three symbols, one state, one step
    assert.near(0, pn.gap.discrete { initial = { 1 }, transition = { { 1 } }, emission = { { 0.2, 0.3, 0.5 } },
      steps = 1 }.gap, 1e-15)
  end)
end)
