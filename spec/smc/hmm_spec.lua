--- pn.smc.hmm against hmmlearn, the sum over all paths (spec/golden/smc/hidden_markov.py) and itself.
local pn = require "penumbra"
local core = require "penumbra.core"
local common = require "spec.autodiff.replay_case"

local golden = dofile "spec/golden/smc/hidden_markov.lua"
local inf = math.huge

local function furthest(a, b)
  a, b = pn.tensor(a), pn.tensor(b)
  assert.same(b:shape(), a:shape())
  local same = a:eq(b)
  return pn.where(same, pn.zeros {}, a - b):abs():max():item()
end

local function given(e) return function() return e end end

-- The model whose paths were enumerated.
local function enumerated(dtype)
  local c = golden.enumerated
  local function tensor(x) return pn.tensor(x, { dtype = dtype }) end
  return pn.smc.hmm { initial = tensor(c.initial), transition = tensor(c.transition),
    emission = given(tensor(c.emission)) }, pn.zeros { 4 }, c
end

-- Logits of a random model of T steps: initial, transition, emission.
local function random_model(steps, k, batch)
  return pn.randn { k }, pn.randn { steps, k, k }, pn.randn(batch and { steps, batch, k } or { steps, k })
end

describe("draws of a hidden Markov model", function()
  it("are of the law of their own state, numbers and vectors, with axes of a batch", function()
    local loc = pn.tensor { { 1, -5, 20 }, { 300, 40, -7 } }
    local initial, transition = { 0.5, 0.5 }, { { 0.6, 0.4 }, { 0.3, 0.7 } }
    local laws = { pn.dist.normal(loc:select(2, 1), 1e-6), pn.dist.normal(loc, 1e-6):independent(1),
      pn.dist.multivariate_normal { loc = loc, covariance_matrix = pn.eye(3) * 1e-12 } }
    for k, law in ipairs(laws) do
      local m = pn.smc.hmm { initial = initial, transition = transition, emission = law }
      for _, batch in ipairs { {}, { 4 } } do
        local states, y = m:sample(12, { batch_shape = batch, generator = pn.generator(k) })
        local want = (k == 1 and loc:select(2, 1) or loc):take(1, states)
        assert.same(want:shape(), y:shape())
        assert.is_true((y - want):abs():max():item() < 1e-4)
        assert.is_true(states:min():item() == 0 and states:max():item() == 1)
      end
    end
  end)
end)

describe("pn.smc.hmm", function()
  before_each(function() pn.seed(7) end)

  it("sums over all paths, some of them forbidden", function()
    local m, y, c = enumerated()
    local f = m:filter(y)
    assert.is_true(furthest(f.increments, c.hmm_filter.increments) < 1e-12)
    assert.is_true(furthest(f.filtered:exp(), c.hmm_filter.filtered) < 1e-12)
    local s = m:smooth(y, { pairwise = true })
    assert.is_true(furthest(s.marginals, c.hmm_adjoint.emission) < 1e-12)
    assert.is_true(furthest(s.pairs, pn.tensor(c.hmm_adjoint.transition):slice(1, 2, -1)) < 1e-12)
    assert.is_true(math.abs(m:log_likelihood(y):item() - f.increments:sum():item()) < 1e-14)
    local path, joint = m:viterbi(y)
    assert.same(c.hmm_viterbi, path:totable())
    local best = 0
    for _, p in ipairs(c.hmm_draw) do best = math.max(best, p) end
    assert.is_true(math.abs(joint:item() - m:log_likelihood(y):item() - math.log(best)) < 1e-12)
  end)

  -- Every form that initial state, transition and emission may have, with gaps: each sequence by all of its paths.
  it("is the sum over all paths of each sequence, whatever varies with step and sequence", function()
    local T, H, B, K = 3, 2, 2, 3
    local y = pn.randn { T, B, 2 }
    local seen = pn.tensor { { true, true }, { false, true }, { true, false } }
    local loc, scale = pn.tensor { { -1, 0.3 }, { 0.5, 2 }, { 1.5, -0.7 } }, pn.tensor { { 0.6 }, { 1.1 }, { 1.7 } }
    local law = pn.dist.normal(loc, scale:broadcast_to { K, 2 }):independent(1)
    local gaps = pn.where(seen:unsqueeze(-1), y, pn.full({}, 0 / 0))
    local e = {}
    for k = 1, K do e[k] = pn.dist.normal(loc[k], scale[k]:broadcast_to { 2 }):independent(1):log_prob(y) end
    e = pn.stack(e, 3)
    local function density() return e end
    local function paths(steps)
      local list = { {} }
      for _ = 1, steps do
        local longer = {}
        for _, path in ipairs(list) do
          for k = 1, K do
            local more = { table.unpack(path) }
            more[#more + 1] = k
            longer[#longer + 1] = more
          end
        end
        list = longer
      end
      return list
    end
    local function log_sum(list)
      local most, sum = -inf, 0
      for _, v in pairs(list) do most = math.max(most, v) end
      for _, v in pairs(list) do sum = sum + math.exp(v - most) end
      return most + math.log(sum)
    end
    for form, sizes in ipairs { { { K }, { K, K } }, { { B, K }, { T + H, K, K } }, { { K }, { 1, B, K, K } },
      { { B, K }, { T + H, B, K, K } } } do
      local i, a = pn.randn(sizes[1]), pn.randn(sizes[2])
      local log_i, log_a = i:log_softmax(-1), a:log_softmax(-1)
      local function made(emission, steps)
        local own = a:size(1) == T + H and a:slice(1, 1, steps) or a
        return pn.smc.hmm { initial_logits = i, transition_logits = own, emission = emission }
      end
      local function first(n, k) return (log_i:ndim() == 2 and log_i[n] or log_i)[k]:item() end
      local function move(t, n, from, to)
        local m = log_a:ndim() == 4 and log_a:select(2, n) or log_a
        m = m:ndim() == 3 and m[m:size(1) == 1 and 1 or t] or m
        return m[from][to]:item()
      end
      for way, emission in ipairs { law, density } do
        local o, m = way == 2 and { observed = seen } or nil, made(emission, T)
        local z = way == 1 and gaps or y
        local f, s = m:filter(z, o), m:smooth(z, { observed = o and seen, pairwise = true })
        local path, best = m:viterbi(z, o)
        local ahead = made(emission, T + H):forecast(z, H, o)
        assert.equal(way == 1, ahead.observations ~= nil)
        for n = 1, B do
          local all, marginal, pair, filtered, predicted, next_state, top, top_path = {}, {}, {}, {}, {}, {}, -inf, nil
          local function count(into, key, v) into[key] = into[key] and log_sum { into[key], v } or v end
          for _, p in ipairs(paths(T + H)) do
            local v = first(n, p[1])
            for t = 1, T + H do
              if t > 1 then v = v + move(t, n, p[t - 1], p[t]) end
              if t <= T then
                count(predicted, t * 10 + p[t], v)
                v = v + (seen[t][n]:item() and e[t][n][p[t]]:item() or 0)
                count(filtered, t * 10 + p[t], v)
              end
              if t == T then
                local own = { table.unpack(p, 1, T) }
                for at = n == 2 and T or T + 1, T do own[at] = 0 end -- nothing is seen at the end of the second
                local u = n == 2 and v - move(T, n, p[T - 1], p[T]) or v
                if u > top then top, top_path = u, own end
              end
            end
            all[#all + 1] = v
            for t = 1, T do
              count(marginal, t * 10 + p[t], v)
              if t > 1 then count(pair, t * 100 + p[t - 1] * 10 + p[t], v) end
            end
            for h = 1, H do count(next_state, h * 10 + p[T + h], v) end
          end
          local total = log_sum(all)
          local where = ("form %d, %d, sequence %d"):format(form, way, n)
          local function near(want, got) assert(math.abs(want - got:item()) < 1e-11, where) end
          near(total, m:log_likelihood(z, o)[n])
          near(total, s.log_likelihood[n])
          near(top, best[n])
          for t = 1, T do
            assert.equal(top_path[t] - 1, path[t][n]:item())
            local past = {} -- paths are counted once for each way they may go on
            for k = 1, K do past[k] = filtered[t * 10 + k] end
            local prior = {}
            for k = 1, K do prior[k] = predicted[t * 10 + k] end
            near(log_sum(past) - log_sum(prior), f.increments[t][n])
            for k = 1, K do
              near(past[k] - log_sum(past), f.filtered[t][n][k])
              near(prior[k] - log_sum(prior), f.predicted[t][n][k])
              near(math.exp(marginal[t * 10 + k] - total), s.marginals[t][n][k])
              for j = 1, t > 1 and K or 0 do
                near(math.exp(pair[t * 100 + j * 10 + k] - total), s.pairs[t - 1][n][j][k])
              end
            end
          end
          for h = 1, H do
            for k = 1, K do near(math.exp(next_state[h * 10 + k] - total), ahead.states[h][n][k]) end
          end
        end
      end
    end
  end)

  it("has expected counts as its gradient (Fisher's identity), twice differentiable", function()
    local c = golden.enumerated
    local a = pn.tensor(c.transition):log()
    local leaves = { pn.param(pn.tensor(c.initial):log():reshape { 1, 3 }), pn.param(a:reshape { 4, 1, 3, 3 }),
      pn.param(pn.tensor(c.emission):reshape { 4, 1, 3 }) }
    local function log_prob()
      local _, _, increment = core.new_hmm_filter(leaves[1], leaves[2], leaves[3], false)
      return increment:sum()
    end
    for _, create_graph in ipairs { false, true } do
      local g = pn.grad(log_prob(), leaves, { create_graph = create_graph })
      assert.is_true(furthest(g[1], { c.hmm_adjoint.initial }) < 1e-12)
      assert.is_true(furthest(g[2]:reshape { 4, 3, 3 }, c.hmm_adjoint.transition) < 1e-12)
      assert.is_true(furthest(g[3]:reshape { 4, 3 }, c.hmm_adjoint.emission) < 1e-12)
    end
  end)

  it("has gradients of all results in all operands, in both directions, of both orders", function()
    -- steps, batch of initial, rows of transition (1 or all), batch of emission, states
    local shapes = { { 5, 1, 1, 1, 3 }, { 1, 1, 2, 1, 2 }, { 4, 3, 3, 3, 2 }, { 4, 1, 2, 3, 3 }, { 4, 3, 1, 3, 2 } }
    for _, shape in ipairs(shapes) do
      local t, bi, rows, b, k = table.unpack(shape)
      rows = rows == 1 and 1 or t
      local leaves = { pn.param(pn.randn { bi, k }), pn.param(pn.randn { rows, bi, k, k }),
        pn.param(pn.randn { t, b, k }) }
      for _, backward in ipairs { false, true } do
        local w = pn.randn { t, b, 2 * k + 1 }
        local function f()
          local p, s, inc = core.new_hmm_filter(leaves[1], leaves[2], leaves[3], backward)
          return (pn.concatenate({ p, s, inc:unsqueeze(3) }, 3):sin() * w):sum()
        end
        assert.is_true(pn.check_gradients(f, leaves).error < 1e-6)
        local function slope()
          local sum
          for _, g in ipairs(pn.grad(f(), leaves, { create_graph = true })) do
            local v = (g:sin() * (pn.arange(g:numel()):reshape(g:shape()) + 1)):sum()
            sum = sum and sum + v or v
          end
          return sum
        end
        assert.is_true(pn.check_gradients(slope, leaves).error < 1e-6)
        local plain, graph = pn.grad(f(), leaves), pn.grad(f(), leaves, { create_graph = true })
        for i = 1, 3 do assert.is_true(furthest(plain[i], graph[i]) < 1e-12) end
      end
    end
  end)

  it("differentiates its posterior", function()
    local i, a, e = random_model(4, 3)
    local leaves = { pn.param(i), pn.param(a), pn.param(e) }
    local w, v = pn.randn { 4, 3 }, pn.randn { 3, 3, 3 }
    assert.is_true(pn.check_gradients(function()
      local m = pn.smc.hmm { initial_logits = leaves[1], transition_logits = leaves[2], emission = given(leaves[3]) }
      local s = m:smooth(pn.zeros { 4 }, { pairwise = true })
      return (s.marginals * w):sum() + (s.pairs * v):sum() + s.log_likelihood
    end, leaves).error < 1e-6)
  end)

  it("has the joint density of a path as a loop over steps adds it up", function()
    local T, K = 4, 3
    local loc, scale = { -1, 0.5, 2 }, { 0.4, 0.9, 1.5 }
    local states = pn.tensor({ { 2, 0 }, { 1, 2 }, { 1, 1 }, { 0, -1 } }, { dtype = "int64" }) -- the second ends early
    local y, seen = pn.randn { T, 2 }, pn.tensor { { 1, 1 }, { 0, 1 }, { 1, 0 }, { 1, 1 } }:gt(0)
    for _, dtype in ipairs { "float64", "float32" } do
      local p0, each = pn.randn({ K }, { dtype = dtype }), pn.randn({ T, K, K }, { dtype = dtype })
      for _, moves in ipairs { each, each[2] } do
        local m = pn.smc.hmm { initial_logits = p0, transition_logits = moves,
          emission = pn.dist.normal(pn.tensor(loc, { dtype = dtype }), pn.tensor(scale, { dtype = dtype })) }
        local first = p0:log_softmax(1):totable()
        local a = moves:log_softmax(-1)
        for _, observed in ipairs { false, seen } do
          local got = m:log_joint(states, y:to(dtype), { observed = observed or nil })
          for n = 1, 2 do
            local want = 0
            for t = 1, T do
              local s = states[t][n]:item() + 1
              if s > 0 then
                local row = t > 1 and (moves:ndim() == 3 and a[t] or a)[states[t - 1][n]:item() + 1]:totable() or first
                want = want + row[s]
                if not observed or observed[t][n]:item() then
                  want = want + pn.dist.normal(loc[s], scale[s]):log_prob(y[t][n]:item()):item()
                end
              end
            end
            assert.near(want, got[n]:item(), dtype == "float64" and 1e-12 or 1e-5)
          end
        end
      end
    end
  end)

  it("agrees with hmmlearn: values, posteriors, paths and five rounds of Baum and Welch", function()
    for name, c in pairs(golden) do
      if name ~= "enumerated" then
        local parameters = { loc = c.loc, scale = c.scale, rate = c.rate, probs = c.probs }
        for key, v in pairs(parameters) do parameters[key] = pn.tensor(v) end
        local m = pn.smc.hmm { initial = { 0.6, 0.3, 0.1 },
          transition = { { 0.7, 0.2, 0.1 }, { 0.1, 0.8, 0.1 }, { 0.25, 0.25, 0.5 } },
          emission = pn.dist[name](parameters) }
        -- two sequences side by side, the second one shorter; what stands beyond its end is not looked at
        local n, short = c.lengths[1], c.lengths[2]
        local y, mask, tail = {}, {}, name == "normal" and 0 / 0 or 0
        for t = 1, n do
          y[t] = { c.y[t], t <= short and c.y[n + t] or tail }
          mask[t] = { true, t <= short }
        end
        y, mask = pn.tensor(y), pn.tensor(mask)
        if name == "categorical" then y = y:to "int64" end
        local o = { observed = mask }
        assert.is_true(furthest(m:log_likelihood(y, o), c.log_prob) < 1e-9)
        local marginals = m:smooth(y, o).marginals
        local flat = pn.concatenate({ marginals:select(2, 1), marginals:select(2, 2):slice(1, 1, short) }, 1)
        assert.is_true(furthest(flat, c.marginals) < 1e-9)
        local path = m:viterbi(y, o)
        for t = 1, n + short do
          assert.equal(c.path[t], path[t <= n and { t, 1 } or { t - n, 2 }]:item())
        end
        assert.equal(-1, path[{ n, 2 }]:item())
        local fitted, trace = m:fit(y, { observed = mask, max_steps = 5, tolerance = -inf })
        for i, v in ipairs(c.fitted.log_prob) do assert.is_true(math.abs(v - trace[i]) < 1e-8, name) end
        assert.is_true(furthest(fitted.log_initial:exp(), c.fitted.initial) < 1e-8)
        assert.is_true(furthest(fitted.log_transition:exp(), c.fitted.transition) < 1e-8)
        for _, key in ipairs { "loc", "scale", "rate", "probs" } do
          if c.fitted[key] then assert.is_true(furthest(fitted.emission[key], c.fitted[key]) < 1e-8, name .. key) end
        end
      end
    end
  end)

  it("draws paths with their posterior probability", function()
    local m, y, c = enumerated()
    local n = 60000
    local paths = m:sample_states(y, { draws = n, generator = pn.generator(3) })
    assert.same({ n, 4 }, paths:shape())
    local code = (paths * pn.tensor({ 27, 9, 3, 1 }, { dtype = "int64" })):sum(2)
    for i, p in ipairs(c.hmm_draw) do
      local got = code:eq(i - 1):sum():item() / n
      if p == 0 then
        assert.equal(0, got)
      else
        assert.is_true(math.abs(got - p) < 6 * math.sqrt(p * (1 - p) / n), ("path %d: %g, not %g"):format(i, got, p))
      end
    end
    common.same(m:sample_states(y, { draws = 9, generator = pn.generator(4) }),
      m:sample_states(y, { draws = 9, generator = pn.generator(4) }), "draws")
  end)

  it("gives the same for each sequence alone and side by side, for one thread and two", function()
    local k, t, b = 3, 30, 37 -- three blocks of sequences, one of them not full
    local i, a, e = pn.randn { b, k }, pn.randn { t, b, k, k }, pn.randn { t, b, k }
    local shared = a:select(2, 1)
    for _, transition in ipairs { a, shared } do
      local m = pn.smc.hmm { initial_logits = i, transition_logits = transition, emission = given(e) }
      local y = pn.zeros { t, b }
      local s, path = m:smooth(y, { pairwise = true }), m:viterbi(y)
      for _, n in ipairs { 1, 16, 17, 37 } do
        local one = pn.smc.hmm { initial_logits = i[n], emission = given(e:select(2, n)),
          transition_logits = transition == a and a:select(2, n) or shared }
        local alone = one:smooth(y:select(2, n), { pairwise = true })
        assert.is_true(furthest(alone.marginals, s.marginals:select(2, n)) < 1e-13)
        assert.is_true(furthest(alone.pairs, s.pairs:select(2, n)) < 1e-13)
        assert.is_true(math.abs(alone.log_likelihood:item() - s.log_likelihood[n]:item()) < 1e-12)
        common.same(one:viterbi(y:select(2, n)), path:select(2, n), "path")
      end
    end
    local results = {}
    local before = pn.threads()
    for _, threads in ipairs { 1, 2 } do
      pn.threads(threads)
      local leaves = { pn.param(i[1]), pn.param(shared), pn.param(e) }
      local m = pn.smc.hmm { initial_logits = leaves[1], transition_logits = leaves[2],
        emission = given(leaves[3]) }
      results[threads] = pn.grad(m:log_likelihood(pn.zeros { t, b }):sum(), leaves)
    end
    pn.threads(before)
    for n = 1, 3 do common.same(results[2][n], results[1][n], "gradient") end
  end)

  it("takes a state back that was as good as impossible", function()
    local rare = -800
    local m = pn.smc.hmm { initial_logits = { 0, rare }, transition_logits = { { 0, rare }, { rare, 0 } },
      emission = function(y) return y end }
    local e = pn.param(pn.tensor { { 0, -2000 }, { -3000, 0 }, { 0, -5000 } })
    local value = m:log_likelihood(e)
    assert.equal(2 * rare, value:item())
    local g = pn.grad(value, { e })[1]
    assert.is_true(furthest(g, { { 1, 0 }, { 0, 1 }, { 1, 0 } }) < 1e-12)
    assert.same({ 0, 1, 0 }, m:viterbi(e):totable())
    assert.is_true(furthest(m:smooth(e).marginals, { { 1, 0 }, { 0, 1 }, { 1, 0 } }) < 1e-12)
  end)

  it("says -inf of what is impossible, and has no path for it", function()
    local m = pn.smc.hmm { initial = { 1, 0 }, transition = { { 1, 0 }, { 0, 1 } },
      emission = function(y) return y end }
    local e = pn.param(pn.tensor { { 0, 0 }, { -inf, 0 }, { 0, 0 } })
    local f = m:filter(e)
    assert.equal(-inf, f.log_likelihood:item())
    assert.same({ { 0, -inf }, { -inf, -inf }, { -inf, -inf } }, f.filtered:totable())
    -- what came before has its slope still
    assert.same({ { 1, 0 }, { 0, 0 }, { 0, 0 } }, pn.grad(f.log_likelihood, { e })[1]:totable())
    assert.error_matches(function() m:viterbi(e) end, "sequence 1 has no path", 1, true)
    assert.error_matches(function() m:sample_states(e) end, "sequence 1 has no path", 1, true)
    local nan = pn.tensor { { 0, 0 }, { 0 / 0, 0 }, { 0, 0 } }
    local z = m:log_likelihood(nan):item()
    assert.is_true(z ~= z)
  end)

  it("passes over what was not observed", function()
    local d = pn.dist.normal(pn.param(pn.tensor { -1, 1 }), 0.7)
    local function model(transition)
      return pn.smc.hmm { initial = { 0.3, 0.7 }, transition = transition, emission = d }
    end
    local a = pn.tensor { { 0.9, 0.1 }, { 0.4, 0.6 } }
    local nan = 0 / 0
    local mask = pn.tensor { true, false, false, true }
    local got = model(a):log_likelihood(pn.tensor { 0.3, nan, nan, -0.8 }, { observed = mask })
    -- three steps in one: the matrix to the power 3
    local want = model(pn.stack { a, a:matmul(a):matmul(a) }):log_likelihood(pn.tensor { 0.3, -0.8 })
    assert.is_true(math.abs(got:item() - want:item()) < 1e-13)
    local gaps = pn.tensor { 0.3, nan, nan, -0.8 }
    assert.is_true(math.abs(model(a):log_likelihood(gaps):item() - want:item()) < 1e-13, "NaN is missing by itself")
    local compiled = pn.compile(function(y) return model(a):log_likelihood(y) end)
    for _ = 1, 2 do assert.is_true(math.abs(compiled(gaps):item() - want:item()) < 1e-13) end
    local both_ways = model(a):log_likelihood(pn.tensor { 0.3, nan, 5, -0.8 },
      { observed = pn.tensor { true, true, false, true } })
    assert.is_true(math.abs(both_ways:item() - want:item()) < 1e-13)
    local loc = d.loc
    assert.is_true(furthest(pn.grad(got, { loc })[1], pn.grad(want, { loc })[1]) < 1e-13)
    -- observations that are matrices are missing where all of their numbers are
    local wide = pn.smc.hmm { initial = { 0.3, 0.7 }, transition = a,
      emission = pn.dist.normal(pn.tensor { -1, 1 }:reshape { 2, 1, 1 }:broadcast_to { 2, 2, 3 }, 0.7):independent(2) }
    local z = pn.randn({ 4, 2, 3 }, { generator = pn.generator(3) })
    local seen = pn.tensor { true, false, false, true }
    local holes = pn.where(seen:reshape { 4, 1, 1 }, z, pn.full({}, nan))
    assert.is_true(math.abs((wide:log_likelihood(holes) - wide:log_likelihood(z, { observed = seen })):item()) < 1e-13)
    local some = z:totable()
    some[2][1][2] = nan
    assert.error_matches(function() wide:log_likelihood(pn.tensor(some)) end, "some numbers are NaN and some are not")
    -- a sequence that ends early is that sequence alone, with -1 beyond its end
    local y = pn.tensor { { 0.3, -1.2 }, { 2, 0.4 }, { 1, nan }, { -0.5, nan } }
    local both = pn.tensor { { true, true }, { true, true }, { true, false }, { true, false } }
    local path, joint = model(a):viterbi(y, { observed = both })
    local short, short_joint = model(a):viterbi(pn.tensor { -1.2, 0.4 })
    assert.same({ short[1]:item(), short[2]:item(), -1, -1 }, path:select(2, 2):totable())
    assert.is_true(math.abs(joint[2]:item() - short_joint:item()) < 1e-13)
  end)

  it("forecasts: powers of the transition, and the mixture of what is seen", function()
    local a = pn.tensor { { 0.9, 0.1 }, { 0.4, 0.6 } }
    local m = pn.smc.hmm { initial = { 0.3, 0.7 }, transition = a,
      emission = pn.dist.normal(pn.tensor { -1, 1 }, 0.7) }
    local y = pn.tensor { 0.3, -0.4, 1.2 }
    local out = m:forecast(y, 2)
    local last = m:filter(y).filtered[3]:exp():reshape { 1, 2 }
    assert.is_true(furthest(out.states[1], last:matmul(a)[1]) < 1e-14)
    assert.is_true(furthest(out.states[2], last:matmul(a):matmul(a)[1]) < 1e-14)
    -- the density of the next observation is the next increment
    local more = pn.concatenate({ y, pn.tensor { 0.5 } }, 1)
    assert.is_true(math.abs(out.observations:log_prob(pn.tensor { 0.5, 0.5 })[1]:item() -
      m:filter(more).increments[4]:item()) < 1e-13)
  end)

  it("draws from itself", function()
    local a = pn.tensor { { 0.9, 0.1 }, { 0.3, 0.7 } }
    local m = pn.smc.hmm { initial = { 0.5, 0.5 }, transition = a,
      emission = pn.dist.normal(pn.tensor { -5, 5 }, 0.1) }
    local states, y = m:sample(3, { batch_shape = { 20000 }, generator = pn.generator(1) })
    assert.same({ 3, 20000 }, states:shape())
    assert.is_true(y:gt(0):to("int64"):eq(states):all():item())
    local share = states:to("float64"):mean(2)
    assert.is_true(furthest(share, { 0.5, 0.4, 0.34 }) < 6 * 0.5 / 20000 ^ 0.5)
    local both = states[1]:eq(0):logical_and(states[2]:eq(1)):to("float64"):mean():item()
    assert.is_true(math.abs(both - 0.05) < 6 * (0.05 * 0.95 / 20000) ^ 0.5)
  end)

  it("fits by gradient what has no closed form, and never loses likelihood", function()
    local truth = pn.smc.hmm { initial = { 0.5, 0.5 }, transition = { { 0.9, 0.1 }, { 0.2, 0.8 } },
      emission = pn.dist.gamma(pn.tensor { 2, 9 }, 1) }
    local _, y = truth:sample(200)
    local log_shape = pn.param(pn.tensor { 1, 1.5 })
    local m = pn.smc.hmm { initial = { 0.5, 0.5 }, transition = { { 0.7, 0.3 }, { 0.3, 0.7 } },
      emission = function() return pn.dist.gamma(log_shape:exp(), 1) end }
    local fitted, trace = m:fit(y, { max_steps = 40, steps = 3,
      optimiser = pn.optim.adam({ log_shape }, { lr = 0.02 }) })
    for i = 2, #trace do assert.is_true(trace[i] > trace[i - 1] - 0.1) end -- steps of Adam may overshoot a little
    assert.is_true(fitted:log_likelihood(y):item() > truth:log_likelihood(y):item() - 1)
    assert.is_true(furthest(log_shape:exp(), { 2, 9 }) < 1.5)
    assert.error_matches(function() m:fit(y) end, "has no closed form here: give optimiser", 1, true)
    local kept = truth:fit(y, { emission = false, transition = false, max_steps = 2 })
    common.same(kept.log_transition, truth.log_transition, "transition")
  end)

  -- Every kind of emission that has a closed form, steps within and sequences' ends that were not observed. (The first
  -- state's law has its maximum at an edge: it is held.)
  it("is fitted to where the gradient is zero, with gaps and without", function()
    local pair = pn.tensor { -0.5, 1.5 }
    local laws = { normal = { { loc = pair, scale = pn.tensor { 0.5, 1.2 } }, { loc = pair * 0.3 + 0.2, scale = 1 } },
      poisson = { { rate = pn.tensor { 1, 6 } }, { rate = pn.tensor { 2, 3 } } },
      exponential = { { rate = pn.tensor { 0.3, 4 } }, { rate = pn.tensor { 0.8, 1.2 } } },
      bernoulli = { { probs = pn.tensor { 0.1, 0.8 } }, { probs = pn.tensor { 0.4, 0.6 } } },
      categorical = { { probs = pn.tensor { { 0.7, 0.2, 0.1 }, { 0.1, 0.2, 0.7 } } },
        { probs = pn.tensor { { 0.5, 0.25, 0.25 }, { 0.2, 0.3, 0.5 } } } } }
    local row = { { 0.85, 0.15 }, { 0.25, 0.75 } }
    for name, law in pairs(laws) do
      local truth = pn.smc.hmm { initial = { 0.5, 0.5 }, transition = row, emission = pn.dist[name](law[1]) }
      local _, y = truth:sample(60, { batch_shape = { 10 }, generator = pn.generator(1) })
      for _, gaps in ipairs { false, true } do
        local o = { max_steps = 3000, tolerance = 1e-14, initial = false }
        if gaps then -- what stands where nothing was observed is looked at by nobody
          o.observed = pn.rand({ 60, 10 }, { generator = pn.generator(2) }):gt(0.3):logical_and(
            pn.arange(60):unsqueeze(2):lt(pn.arange(25, 65, 4)))
          y = o.observed:where(y, name == "normal" and pn.full({}, 100) or y:select(1, 1):max():to(y:dtype()))
        end
        local m = pn.smc.hmm { initial = { 0.5, 0.5 }, transition = { { 0.7, 0.3 }, { 0.4, 0.6 } },
          emission = pn.dist[name](law[2]) }
        local fitted = m:fit(y, o)
        local leaves, arguments = { pn.param(fitted.log_transition:detach()) }, {}
        for key in pairs(law[1]) do
          arguments[key] = pn.param(fitted.emission[key]:detach())
          leaves[#leaves + 1] = arguments[key]
        end
        local probs = arguments.probs -- of three labels: on the simplex
        local again = pn.smc.hmm { initial = { 0.5, 0.5 }, transition_logits = leaves[1],
          emission = pn.dist[name](name == "categorical" and { probs = probs / probs:sum({ -1 }, true) } or arguments) }
        local value = again:log_likelihood(y, { observed = o.observed }):sum()
        for k, g in ipairs(pn.grad(value, leaves)) do
          assert(furthest(g, pn.zeros(g:shape())) < 2e-3, ("%s, gaps %s, %d"):format(name, gaps, k))
        end
        assert.is_true(value:item() > m:log_likelihood(y, { observed = o.observed }):sum():item() + 1, name)
      end
    end
  end)

  it("is as exact in float32 over long sequences as its numbers allow", function()
    local t = 20000
    local e = pn.randn { t, 3 } * 2
    local a = pn.randn { 3, 3 }
    local function model(x, dtype)
      return pn.smc.hmm { initial_logits = pn.zeros({ 3 }, { dtype = dtype }), transition_logits = a:to(dtype),
        emission = given(x:to(dtype)) }:smooth(pn.zeros { t })
    end
    local double, single = model(e, "float64"), model(e, "float32")
    assert.is_true(furthest(single.marginals:to "float64", double.marginals) < 1e-5)
    assert.is_true(math.abs(single.log_likelihood:item() / double.log_likelihood:item() - 1) < 1e-5)
  end)

  it("replays", function()
    local d = pn.dist.normal(pn.param(pn.tensor { -1, 1 }), 0.7)
    local m = pn.smc.hmm { initial = { 0.3, 0.7 }, transition = { { 0.9, 0.1 }, { 0.4, 0.6 } }, emission = d }
    common.rounds("hmm", function(y)
      local s = m:smooth(y)
      local path, joint = m:viterbi(y)
      return s.marginals, s.log_likelihood, pn.grad(s.log_likelihood:sum(), { d.loc })[1], path, joint,
        m:sample_states(y, { draws = 3 })
    end, 3, function() return pn.randn { 6, 2 } end)
  end)

  it("refuses what does not fit, at the line", function()
    local normal = pn.dist.normal(pn.tensor { -1, 1 }, 1)
    local function new(o)
      for key, v in pairs { initial = { 0.5, 0.5 }, transition = { { 0.5, 0.5 }, { 0.5, 0.5 } }, emission = normal } do
        if o[key] == nil then o[key] = v end
      end
      return pn.smc.hmm(o)
    end
    local cases = {
      ["initial must be probabilities"] = function() new { initial = { 0.5, 0.6 } } end,
      ["transition must be probabilities"] = function() new { transition = { { 2, -1 }, { 0, 1 } } } end,
      ["exactly one of initial and initial_logits"] = function() new { initial_logits = { 0, 0 } } end,
      ["transition must have shape"] = function() new { transition = { { 1 } } } end,
      ["emission must be a distribution"] = function() new { emission = 3 } end,
      ["unknown option 'inital'"] = function() new { inital = 3 } end,
      ["emission's batch must end in 2 states"] = function()
        new { emission = pn.dist.normal(pn.zeros { 3 }, 1) }:log_likelihood(pn.zeros { 4 })
      end,
      ["does not fit 4 steps"] = function()
        new { transition = pn.full({ 3, 2, 2 }, 0.5) }:log_likelihood(pn.zeros { 4 })
      end,
      ["observed must be bool"] = function() new {}:log_likelihood(pn.zeros { 4 }, { observed = pn.ones { 4 } }) end,
      ["y must be a tensor"] = function() new {}:log_likelihood() end,
      ["draws must be a whole number"] = function() new {}:sample_states(pn.zeros { 4 }, { draws = 0 }) end,
      ["initial must have an axis of at least 1 state, got []"] = function() new { initial = pn.full({}, 1) } end,
      ["initial [2, 2] does not fit observations of batch [3]"] = function()
        new { initial = pn.full({ 2, 2 }, 0.5) }:log_likelihood(pn.zeros { 4, 3 })
      end,
      ["transition [2, 3, 2, 2] does not fit 4 steps of batch [3]"] = function()
        new { transition = pn.full({ 2, 3, 2, 2 }, 0.5) }:log_likelihood(pn.zeros { 4, 3 })
      end,
      ["transition [4, 2, 2, 2] does not fit 4 steps of batch [3]"] = function()
        new { transition = pn.full({ 4, 2, 2, 2 }, 0.5) }:log_likelihood(pn.zeros { 4, 3 })
      end,
      ["states must be int64 of shape [4, 3], got int64 [4]"] = function()
        new {}:log_joint(pn.zeros({ 4 }, { dtype = "int64" }), pn.zeros { 4, 3 })
      end,
      ["emission must give a distribution or a tensor, got a number"] = function()
        new { emission = function() return 3 end }:log_likelihood(pn.zeros { 4 })
      end,
      ["log-likelihoods must have shape [T, B..., 2] with at least one step, got [4, 3]"] = function()
        new { emission = function() return pn.zeros { 4, 3 } end }:log_likelihood(pn.zeros { 4 })
      end,
      ["with at least one step, got [2]"] = function()
        new { emission = function() return pn.zeros { 2 } end }:log_likelihood(pn.zeros { 4 })
      end,
      ["with at least one step, got [0, 2]"] = function()
        new { emission = function() return pn.zeros { 0, 2 } end }:log_likelihood(pn.zeros { 4 })
      end,
      ["states must be int64"] = function() new {}:log_joint(pn.zeros { 4 }, pn.zeros { 4 }) end,
      ["initial must have an axis of at least 1 state, got [0]"] = function() new { initial = pn.zeros { 0 } } end,
      ["transition must have shape [..., 2, 2] for initial [2], got [2]"] = function()
        new { transition = { 0.5, 0.5 } }
      end,
      ["transition must have shape [..., 2, 2] for initial [2], got [2, 3]"] = function()
        new { transition = pn.full({ 2, 3 }, 1 / 3) }
      end,
      ["transition must have shape [..., 2, 2] for initial [2], got [3, 2]"] = function()
        new { transition = pn.full({ 3, 2 }, 0.5) }
      end,
      ["sample: steps must be a whole number from 1 on, got 0"] = function() new {}:sample(0) end,
      ["sample: batch_shape[2] must be a whole number from 1 on, got 0"] = function()
        new {}:sample(2, { batch_shape = { 3, 0 } })
      end,
      ["forecast: steps must be a whole number from 1 on, got 0"] = function() new {}:forecast(pn.zeros { 4 }, 0) end,
      ["observed must be bool and shaped like y's steps and sequences, got bool [3] for y [4]"] = function()
        new {}:log_likelihood(pn.zeros { 4 }, { observed = pn.ones({ 3 }):gt(0) })
      end,
      ["got bool [4, 1] for y [4]"] = function()
        new {}:log_likelihood(pn.zeros { 4 }, { observed = pn.ones({ 4, 1 }):gt(0) })
      end,
      ["got bool [4] for y [4, 3]"] = function()
        new { emission = function(y) return y:unsqueeze(3):broadcast_to { 4, 3, 2 } end }:log_likelihood(
          pn.zeros { 4, 3 }, { observed = pn.ones({ 4 }):gt(0) })
      end,
    }
    for pattern, f in pairs(cases) do
      local ok, message = pcall(f)
      assert.is_false(ok, pattern)
      assert.matches("hmm_spec.lua:%d+:", message)
      assert.matches(pattern, message, 1, true)
    end
  end)

  it("takes probabilities that sum to 1 but for rounding", function()
    local function made(off)
      return pn.smc.hmm { initial = { 0.4, 0.6 + off }, transition = { { 0.5, 0.5 }, { 0.3 + off, 0.7 } },
        emission = pn.dist.normal(pn.tensor { -1, 1 }, 1) }
    end
    for _, off in ipairs { 0.9e-5, -0.9e-5 } do
      local m = made(off)
      assert.near(0, m.log_initial:logsumexp(1):item(), 1e-14) -- and makes them do so
      assert.near(math.log((0.3 + off) / (1 + off)), m.log_transition[2][1]:item(), 1e-12)
    end
    for _, off in ipairs { 1.1e-5, -1.1e-5 } do
      assert.error_matches(function() made(off) end, "initial must be probabilities that sum to 1")
    end
  end)

  it("is called hmm where it is refused", function()
    local ok, message = pcall(function() local m = pn.smc.hmm { initial = { 1 } } return m end)
    assert.is_false(ok)
    assert.matches("hmm_spec.lua:%d+: hmm: option '%w+' is required$", message)
  end)
end)

-- ---- where a fit ends, and what it leaves alone ----

describe("the fit of a hidden Markov model", function()
  local rows = { { 0.8, 0.2 }, { 0.3, 0.7 } }
  local function made(more)
    local o = { initial = { 0.4, 0.6 }, transition = rows, emission = pn.dist.normal(pn.tensor { -1, 1 }, 0.8) }
    for key, value in pairs(more or {}) do o[key] = value end
    return pn.smc.hmm(o)
  end
  local y = pn.randn({ 15, 2 }, { generator = pn.generator(3) }) * 1.5

  it("ends after its rounds, or with the first that gains less than the tolerance for each observation", function()
    local m = made()
    local fitted, trace = m:fit(y, { max_steps = 4, tolerance = -inf })
    assert.equal(5, #trace)
    assert.near(m:log_likelihood(y):sum():item(), trace[1], 1e-10)
    assert.near(fitted:log_likelihood(y):sum():item(), trace[5], 1e-10)
    assert.equal(2, #select(2, m:fit(y, { tolerance = inf })))
    local _, whole = m:fit(y, { max_steps = 30, tolerance = -inf })
    for k = 3, 6 do
      local gain = (whole[k] - whole[k - 1]) / 30 -- of 15 steps of 2 sequences
      assert(gain > 0 and gain < (whole[k - 1] - whole[k - 2]) / 30)
      assert.equal(k, #select(2, m:fit(y, { tolerance = gain * 1.001 })))
      assert.equal(k + 1, #select(2, m:fit(y, { tolerance = gain * 0.999, max_steps = k })))
    end
  end)

  it("keeps what it is told to keep, and what nothing was counted for", function()
    for _, name in ipairs { "initial", "transition", "emission" } do
      local m = made()
      local fitted = m:fit(y, { max_steps = 3, [name] = false })
      for part, of in pairs { initial = function(x) return x.log_initial end,
        transition = function(x) return x.log_transition end, emission = function(x) return x.emission.loc end } do
        assert.equal(part == name, furthest(of(fitted), of(m)) == 0, name .. part)
      end
    end
    -- the second state cannot be reached: its row and its law stay
    local m = made { initial = { 1, 0 }, transition = { { 1, 0 }, { 0.3, 0.7 } },
      emission = pn.dist.normal(pn.tensor { -1, 1 }, pn.tensor { 0.8, 0.6 }) }
    local fitted = m:fit(y, { max_steps = 2 })
    assert.is_true(furthest(fitted.log_transition:exp(), { { 1, 0 }, { 0.3, 0.7 } }) < 1e-12)
    assert.is_true(furthest(fitted.emission.loc, { y:mean():item(), 1 }) < 1e-12)
    assert.is_true(furthest(fitted.emission.scale, { y:std(nil, 0):item(), 0.6 }) < 1e-12)
    assert.is_true(furthest(fitted.log_initial:exp(), { 1, 0 }) < 1e-12)
  end)

  it("holds scales above their floor", function()
    local flat = pn.tensor { 0.5, 0.5, 0.5, 0.5 }
    for floor, want in pairs { [0.2] = 0.2, [1e-6] = 1e-6 } do
      local fitted = made({ initial = { 1, 0 }, transition = { { 1, 0 }, { 0, 1 } } }):fit(flat, { max_steps = 2,
        scale_floor = floor })
      assert.near(want, fitted.emission.scale[1]:item(), 1e-12)
      assert.near(0.5, fitted.emission.loc[1]:item(), 1e-12)
    end
  end)

  -- Less the sum of posterior probabilities of the states times the log-likelihoods, gaps left out.
  it("gives an optimiser that sum, `steps` times a round", function()
    local seen, losses = pn.rand({ 15, 2 }, { generator = pn.generator(4) }):gt(0.3), {}
    local law = pn.dist.gamma(pn.tensor { 2, 5 }, 1.5)
    local z = y:abs() + 0.1
    local m = made { emission = function() return law end }
    local optimiser = { step = function(_, loss) losses[#losses + 1] = loss:item() end }
    local fitted, trace = m:fit(z, { observed = seen, max_steps = 3, steps = 4, optimiser = optimiser, initial = false,
      transition = false, tolerance = -inf })
    assert.equal(12, #losses)
    assert.equal(4, #trace)
    assert.equal(trace[1], trace[4])
    assert.equal(m.emission, fitted.emission)
    local marginals = m:smooth(z, { observed = seen }).marginals
    local each = law:log_prob(z:unsqueeze(3):broadcast_to { 15, 2, 2 })
    local want = -(marginals * each * seen:to("float64"):unsqueeze(3)):sum():item()
    for _, loss in ipairs(losses) do assert.near(want, loss, 1e-9) end
  end)

  it("refuses what it cannot fit", function()
    local m = made()
    for text, o in pairs { ["fit: steps must be a whole number from 1 on, got 0"] = { steps = 0 },
      ["fit: optimiser must be an optimiser"] = { optimiser = 3 } } do
      assert.error_matches(function() m:fit(y, o) end, text, 1, true)
    end
    for _, d in ipairs { pn.dist.gamma(pn.tensor { 2, 9 }, 1), pn.dist.normal(pn.zeros { 15, 2, 2 }, 1) } do
      assert.error_matches(function() made({ emission = d }):fit(y) end, ("fit: the emission (%s) has no closed form "
        .. "here: give optimiser =, or emission = false to keep it"):format(d.name), 1, true)
      assert.equal(2, #select(2, made({ emission = d }):fit(y:abs() + 0.1, { emission = false, max_steps = 1 })))
    end
    assert.error_matches(function() made({ emission = function() end }):fit(y) end,
      "fit: the emission (a function) has no closed form", 1, true)
    local never = made { emission = function(x) return pn.full({ 15, 2, 2 }, -inf) + x:unsqueeze(3) * 0 end }
    assert.error_matches(function() never:fit(y, { emission = false }) end,
      "fit: the log-likelihood of y is -inf before round 1", 1, true)
    assert.equal("hidden Markov model of 2 states, emission normal", tostring(m))
    assert.equal("hidden Markov model of 2 states, emission given by a function", tostring(never))
  end)
end)
