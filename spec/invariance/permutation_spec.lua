-- The mixture over node permutations: gaps against quadrature (spec/golden/invariance/linear_model.py), the two ways to
-- sum over permutations against each other and against networks that are permuted one by one, draws, and bounds.
local pn = require "penumbra"
local message_of = require("spec.helper").message_of
local inv, nn = pn.invariance, pn.nn
local golden = dofile "spec/golden/invariance/linear_model.lua"

local function small(k, bias, inputs)
  return nn.sequential { nn.linear(inputs or 1, k, { bias = bias }), nn.tanh(), nn.linear(k, 1, { bias = bias }) }
end

local function deep(...)
  local list, width = {}, 2
  for _, k in ipairs { ... } do
    list[#list + 1], list[#list + 2], width = nn.linear(width, k), nn.tanh(), k
  end
  list[#list + 1] = nn.linear(width, 1)
  return nn.sequential(list)
end

-- Nodes and weights of the expectation of f(x) for normal numbers x.
local function gauss_hermite(n)
  local off = (pn.arange(n - 1):to "float64" + 1):sqrt()
  local J = off:diag_embed()
  local T = pn.zeros { n, n } + J:pad(1, 1, 0):pad(2, 0, 1) + J:pad(1, 0, 1):pad(2, 1, 0)
  local t, v = pn.eigh(T)
  return t, v[1]:square()
end

-- The network 1-3-1 of the oracle at a scale s, and its mixture.
local function oracle(s)
  local net = small(3, false)
  net:load_state { ["1.weight"] = pn.tensor { { -1, 0, 1 } } * s,
    ["3.weight"] = pn.tensor { { 1 }, { -1 }, { 0.5 } } * s }
  return inv.permutation_mixture(net, { scale = 0.3 ^ 0.5 })
end

-- The two numbers of an estimate.
local function both(e) return e.value, e.se end

describe("the gap of node permutations", function()
  it("is that of a quadrature in every digit", function()
    local t, weight = gauss_hermite(16)
    local function outer(f) -- four axes of the nodes, [16^4]
      local g = f
      for _ = 2, 4 do g = (g:unsqueeze(-1) * f):reshape { -1 } end
      return g
    end
    weight = outer(weight)
    local one = pn.ones(16)
    local axes = {}
    for k = 1, 4 do
      local parts = {}
      for j = 1, 4 do parts[j] = j == k and t or one end
      local g = parts[1]
      for j = 2, 4 do g = (g:unsqueeze(-1) * parts[j]):reshape { -1 } end
      axes[k] = g
    end
    for _, row in ipairs(golden.permutation) do
      local mix = oracle(row.s)
      local w = mix.loc:unsqueeze(1):broadcast_to { 16 ^ 4 // 1, 6 }
      if row.s > 0 then -- the directions in which permuted means differ: densities depend on nothing else
        local rows = {}
        for k, order in ipairs(inv.permutations(3):totable()) do
          local moved = {}
          for i, n in ipairs(order) do moved[i] = mix.loc[n + 1]:item() moved[i + 3] = mix.loc[n + 4]:item() end
          rows[k] = moved
        end
        local _, singular, basis = pn.svd(pn.tensor(rows) - mix.loc)
        assert.is_true(singular[4]:item() > 1e-3 * row.s and singular[5]:item() < 1e-12)
        w = w + pn.stack(axes, 2):matmul(basis[{ { 1, 4 } }]) * 0.3 ^ 0.5
      end
      for _, method in ipairs { "enumerate", row.s == 0.5 and "subsets" or nil } do
        local gap = (weight * mix:log_ratio(w, { method = method })):sum():item()
        assert.near(row.gap, gap, 5e-6) -- what 16 nodes resolve
      end
    end
  end)

  it("comes out by Monte Carlo within its error, for both oracles", function()
    for k = 1, 4 do -- where modes are further apart, what draws bring in is too rare
      local row = golden.permutation[k]
      local r = oracle(row.s):gap { draws = 20000, generator = pn.generator(1) }
      assert.is_true(math.abs(r.gap - row.gap) <= 6 * r.standard_error + 1e-12)
      assert.is_true(r.standard_error < 0.0075)
      assert.near(math.log(6), r.largest, 1e-12)
    end
    for k = 1, 5 do
      local row = golden.toy[k]
      local net = small(2, false)
      net:load_state { ["1.weight"] = pn.tensor { { row.a, -row.a } }, ["3.weight"] = pn.zeros { 2, 1 } }
      local r = inv.permutation_mixture(net, { scale = 0.5 }):gap { draws = 40000, generator = pn.generator(2) }
      assert.is_true(math.abs(r.gap - row.gap) <= 6 * r.standard_error + 1e-12)
      assert.is_true(r.standard_error < 0.004)
    end
  end)

  it("is the difference of the divergences from an exchangeable prior", function()
    local mix, n = oracle(0.5), 40000
    local prior = pn.dist.normal(0, 1)
    local u, w = mix:mean_field_sample(n, pn.generator(3)), mix:sample(n, pn.generator(4))
    local q0 = mix:mean_field_log_prob(u) - prior:log_prob(u):sum(2)
    local q_mix = mix:log_prob(w) - prior:log_prob(w):sum(2)
    local known = pn.dist.kl(pn.dist.normal(mix.loc, mix.scale), pn.dist.normal(0, 1)):sum():item()
    local off_q0 = (q0:var() / n):sqrt():item()
    assert.is_true(math.abs(q0:mean():item() - known) < 6 * off_q0)
    local off = (q_mix:var() / n):sqrt():item()
    assert.is_true(math.abs(known - q_mix:mean():item() - golden.permutation[3].gap) < 6 * off)
    assert.is_true(off < 0.012)
  end)

  it("lies between 0 and ln |P|: 0 where no node differs, ln |P| where the modes are apart", function()
    local net = deep(3, 2)
    local state = net:state()
    for name, w in pairs(state) do state[name] = w * 0 end
    net:load_state(state)
    local r = inv.permutation_mixture(net, { scale = 1 }):gap { draws = 50 }
    assert.equal(50, r.draws)
    assert.near(0, r.gap, 1e-12)
    pn.seed(5)
    r = inv.permutation_mixture(deep(3, 2), { scale = 1e-3 }):gap { draws = 50 }
    assert.near(math.log(12), r.gap, 1e-9)
    assert.near(math.log(12), r.largest, 1e-12)
  end)

  it("does not depend on how the permutations are summed", function()
    pn.seed(6)
    for _, hidden in ipairs { { 5 }, { 4, 3 }, { 2, 3, 2 } } do
      local net = deep(table.unpack(hidden))
      local mix = inv.permutation_mixture(net, { scale = 0.3 })
      local w = mix:sample(20)
      local one, other = mix:log_prob(w, { method = "enumerate" }), mix:log_prob(w, { method = "subsets" })
      assert.is_true((one - other):abs():max():item() < 1e-11)
      assert.is_true((mix:log_ratio(w) - (mix:mean_field_log_prob(w) - one)):abs():max():item() < 1e-11)
      assert.is_true(mix:log_ratio(w):max():item() <= mix.log_count + 1e-9)
    end
    -- by hand: the networks of all permutations, one by one
    local net = deep(3, 2)
    local mix = inv.permutation_mixture(net, { scale = 0.3 })
    local w = mix:sample(4, pn.generator(7))
    local terms = {}
    for _, first in ipairs(inv.permutations(3):totable()) do
      for _, second in ipairs(inv.permutations(2):totable()) do
        for i = 1, 3 do first[i] = first[i] + 1 end
        local values = inv.permute(net, { first, { second[1] + 1, second[2] + 1 } })
        for i = 1, 3 do first[i] = first[i] - 1 end
        local lp = 0
        for row = 1, 4 do
          local own, sum = mix:values(w[row]), 0
          for name, loc in pairs(values) do sum = sum + pn.dist.normal(loc, 0.3):log_prob(own[name]):sum():item() end
          lp = lp + pn.one_hot(pn.tensor({ row - 1 }, { dtype = "int64" }), 4)[1]:to "float64" * sum
        end
        terms[#terms + 1] = lp
      end
    end
    local want = pn.stack(terms, 1):logsumexp(1) - math.log(12)
    assert.is_true((want - mix:log_prob(w)):abs():max():item() < 1e-10)
    -- draws are permuted, not only drawn anew: the same network comes out of the same noise
    local x = pn.randn { 5, 2 }
    local u = mix:mean_field_sample(4, pn.generator(7))
    for row = 1, 4 do
      local parameters = require "penumbra.parameters"
      local a, b = parameters.with(net, mix:values(w[row])), parameters.with(net, mix:values(u[row]))
      assert.is_true((a(x) - b(x)):abs():max():item() < 1e-12)
    end
  end)

  -- Of scales that differ from weight to weight, with biases and without, one draw or several: each network by itself.
  it("is the mean over the networks of all permutations, with scales of their own, and slopes", function()
    pn.seed(12)
    local function every(sizes, k, orders, visit)
      if k > #sizes then return visit(orders) end
      for _, order in ipairs(inv.permutations(sizes[k]):totable()) do
        for i in ipairs(order) do order[i] = order[i] + 1 end
        orders[k] = order
        every(sizes, k + 1, orders, visit)
      end
    end
    for _, case in ipairs { { { 3 }, true }, { { 2, 3 }, true }, { { 3, 2 }, false }, { { 2, 3, 2 }, true } } do
      local sizes, bias = table.unpack(case)
      local list, width = {}, 2
      for _, k in ipairs(sizes) do
        list[#list + 1], list[#list + 2], width = nn.linear(width, k, { bias = bias }), nn.tanh(), k
      end
      list[#list + 1] = nn.linear(width, 2, { bias = bias })
      local net = nn.sequential(list)
      local state, scales = net:state(), {}
      for name, w in pairs(state) do
        state[name] = pn.randn(w:shape())
        scales[name] = pn.rand(w:shape()) + 0.5
      end
      net:load_state(state)
      local mix = inv.permutation_mixture(net, { scale = scales })
      local w = pn.randn { 3, mix.size }
      local terms, spread = {}, {}
      for k, name in ipairs(mix.names) do spread[k] = scales[name]:reshape { -1 } end
      spread = pn.concatenate(spread, 1)
      local other = nn.sequential(list)
      every(sizes, 1, {}, function(orders)
        local loc, scale = {}, {}
        other:load_state(state)
        for name, v in pairs(inv.permute(other, orders)) do loc[name] = v + 0 end
        other:load_state(scales)
        for name, v in pairs(inv.permute(other, orders)) do scale[name] = v + 0 end
        local row_loc, row_scale = {}, {}
        for k, name in ipairs(mix.names) do
          row_loc[k], row_scale[k] = loc[name]:reshape { -1 }, scale[name]:reshape { -1 }
        end
        terms[#terms + 1] = pn.dist.normal(pn.concatenate(row_loc, 1), pn.concatenate(row_scale, 1)):log_prob(w):sum(2)
      end)
      other:load_state(state)
      local want = pn.stack(terms, 1):logsumexp(1) - math.log(#terms)
      local q0 = pn.dist.normal(mix.loc, spread):log_prob(w):sum(2)
      assert.is_true((mix:mean_field_log_prob(w) - q0):abs():max():item() < 1e-10)
      local leaf = pn.param(w + 0)
      for _, method in ipairs { "enumerate", "subsets" } do
        assert.is_true((mix:log_prob(w, { method = method }) - want):abs():max():item() < 1e-10, method)
        assert.is_true((mix:log_ratio(w, { method = method }) - q0 + want):abs():max():item() < 1e-10, method)
        if #sizes == 1 then
          assert(pn.check_gradients(function()
            return ((mix:log_prob(leaf, { method = method }) + mix:log_ratio(leaf, { method = method }) * 2)
              * pn.tensor { 1, -2, 3 }):sum()
          end, { leaf }))
        end
      end
      -- more permutations than there are: the upper bound is the gap, of one hidden layer the lower one, too
      local how = { draws = 40, permutations = 24, generator = pn.generator(1) }
      local b, gap = mix:bounds(how), mix:gap { draws = 40, generator = pn.generator(1) }
      assert.near(gap.gap, b.upper, 1e-9)
      assert.near(gap.standard_error, b.upper_error, 1e-9)
      if #sizes == 1 then assert.near(gap.gap, b.lower, 1e-9) end
      local draws = mix:mean_field_sample({ 40 }, pn.generator(1))
      local ratio = mix:log_ratio(draws)
      assert.near(ratio:mean():item(), gap.gap, 1e-9)
      assert.near(ratio:std():item() / 40 ^ 0.5, gap.standard_error, 1e-9)
      local e = pn.randn({ 40, mix.size }, { generator = pn.generator(1) })
      assert.is_true((draws - mix.loc - spread * e):abs():max():item() < 1e-12)
    end
  end)

  it("takes networks of pn.nn.bayesian with the scales that they have", function()
    pn.seed(8)
    local net = deep(3)
    local bayesian = nn.bayesian(net, { posterior_scale = 0.2 })
    local a = inv.permutation_mixture(bayesian):gap { draws = 200, generator = pn.generator(1) }
    local b = inv.permutation_mixture(net, { scale = 0.2 }):gap { draws = 200, generator = pn.generator(1) }
    assert.near(a.gap, b.gap, 1e-10)
    local scales = {}
    for _, entry in ipairs(net:named_parameters()) do scales[entry[1]] = pn.full(entry[2]:shape(), 0.2) end
    assert.near(b.gap, inv.permutation_mixture(net, { scale = scales }):gap({ draws = 200,
      generator = pn.generator(1) }).gap, 1e-12)
  end)

  it("takes float32", function()
    pn.seed(11)
    local net = deep(3, 2)
    local single = {}
    for name, t in pairs(net:state()) do single[name] = t:to "float32" end
    pn.default_dtype "float32"
    local other = deep(3, 2)
    pn.default_dtype "float64"
    other:load_state(single)
    local a, b = inv.permutation_mixture(net, { scale = 0.3 }), inv.permutation_mixture(other, { scale = 0.3 })
    local w = a:sample(20)
    for _, method in ipairs { "enumerate", "subsets" } do
      local lp = b:log_prob(w:to "float32", { method = method })
      assert.equal("float32", lp:dtype())
      assert.is_true((lp:to "float64" - a:log_prob(w)):abs():max():item() < 1e-3)
    end
    assert.equal("float32", b:sample(2):dtype())
    assert.is_true(b:bounds({ draws = 20, permutations = 5 }).lower >= 0)
  end)

  it("is bounded where it cannot be summed", function()
    pn.seed(9)
    for _, hidden in ipairs { { 4 }, { 6 }, { 4, 3 } } do
      for _, scale in ipairs { 0.1, 0.3, 1 } do
        local mix = inv.permutation_mixture(deep(table.unpack(hidden)), { scale = scale })
        local r = mix:gap { draws = 1000, generator = pn.generator(1) }
        local b = mix:bounds { draws = 1000, permutations = 50, generator = pn.generator(1) } -- the same draws of q_0
        assert.is_true(b.lower <= r.gap + 1e-9 and r.gap <= b.upper + 6 * b.upper_error)
        assert.is_true(b.upper_error < 0.1 and b.upper < r.gap + 0.3)
        assert.is_true(b.upper <= b.largest + 1e-9 and b.lower >= 0)
        if #hidden == 1 then assert.near(r.gap, b.lower, 1e-9) end -- the sum over subsets is exact
      end
    end
    -- Where the weights between two hidden layers have one law, they tell no order, and the bound is the gap.
    local net = deep(3, 2)
    local state, names = net:state(), {}
    for name in pairs(state) do names[#names + 1] = name end
    table.sort(names) -- the same draws for each
    for _, name in ipairs(names) do
      local w = state[name]
      state[name] = name == "3.weight" and w * 0 + 0.2 or w + pn.randn(w:shape()) * 0.3
    end
    net:load_state(state)
    local mix = inv.permutation_mixture(net, { scale = 0.3 })
    local r, b = mix:gap { draws = 300, generator = pn.generator(2) },
      mix:bounds { draws = 300, permutations = 3, generator = pn.generator(2) }
    assert.near(r.gap, b.lower, 1e-9)
    assert.is_true(b.lower > 0.1 and b.upper >= b.lower - 6 * b.upper_error,
      ("%g, %g +- %g"):format(b.lower, b.upper, b.upper_error))
    local wide = inv.permutation_mixture(deep(20, 18), { scale = 0.05 })
    b = wide:bounds { draws = 20, permutations = 20 }
    assert.is_true(b.lower < b.upper and b.upper <= wide.log_count + 1e-9 and b.lower > 1)
    local message = message_of(wide.gap, wide)
    assert(message:find("too many for an exact sum; :bounds gives bounds", 1, true), message)
    local long = inv.permutation_mixture(deep(12, 7), { scale = 0.1 }) -- 7! times 12 * 2^12 steps a draw
    message = message_of(long.log_prob, long, long:sample(1))
    assert(message:find("exp(28.5) permutations of hidden layers of 12 and 7 nodes, too many", 1, true), message)
    message = message_of(wide.log_prob, wide, wide:sample(1), { method = "enumerate" })
    assert(message:find("method 'enumerate' is too dear for hidden layers of 20 and 18 nodes", 1, true), message)
  end)

  it("takes the calls of distributions", function()
    pn.seed(2)
    local mix = inv.permutation_mixture(pn.nn.sequential { pn.nn.linear(2, 3), pn.nn.tanh(), pn.nn.linear(3, 1) },
      { scale = 0.3 })
    local d = mix.size
    assert.same({ { d }, {}, "float64" }, { mix.event_shape, mix.batch_shape, mix.dtype })
    assert.same({ d }, mix:sample():shape())
    local w = mix:sample({ 4, 5 }, pn.generator(3))
    assert.same({ 4, 5, d }, w:shape())
    assert.same(w:totable(), mix:sample { 4, 5, generator = pn.generator(3) }:totable())
    assert.same(mix:log_prob(w:reshape { 20, d }):totable(), mix:log_prob(w):reshape { 20 }:totable())
    assert.same({ 4, 5 }, mix:log_ratio(w):shape())
    assert.same({}, mix:log_prob(w[1][1]):shape())
    local plain = pn.dist.normal(mix.loc, mix.scale):independent(1)
    local value, spread = both(pn.dist.kl_monte_carlo(plain, mix, { draws = 2000, generator = pn.generator(4) }))
    local gap = mix:gap { draws = 2000 }
    assert.is_true(math.abs(value:item() - gap.gap) <= 6 * math.sqrt(spread:item() ^ 2 + gap.standard_error ^ 2))
    local message = message_of(pn.dist.kl, plain, mix)
    assert(message:find("no closed form for independent and permutation_mixture", 1, true)
      or message:find("no closed form for normal and permutation_mixture", 1, true), message)
  end)

  it("has a bound of permanents, and their sum over subsets", function()
    local permanent = require "penumbra.invariance.permanent"
    local M = pn.randn({ 6, 4, 4 }, { generator = pn.generator(1) })
    local want
    for _, order in ipairs(inv.permutations(4):totable()) do
      local term = 0
      for row, column in ipairs(order) do term = term + M:select(2, row):select(2, column + 1) end
      want = want and want:logaddexp(term) or term
    end
    assert.is_true((permanent.log_permanent(M) - want):abs():max():item() < 1e-13)
    -- never below, on matrices near and far from permutations; exact for equal entries
    for _, spread in ipairs { 0.1, 1, 3, 10 } do
      local some = pn.randn({ 2000, 5, 5 }, { generator = pn.generator(2) }) * spread + pn.eye(5) * spread
      local off = permanent.log_bound(some) - permanent.log_permanent(some)
      assert.is_true(off:min():item() > -1e-12 and off:mean():item() < 0.8)
    end
    assert.near(math.log(3628800), permanent.log_bound(pn.zeros { 1, 10, 10 }):item(), 1e-10)
    assert.near(math.log(720), permanent.log_permanent(pn.zeros { 6, 6 }):item(), 1e-12)
  end)

  it("shows its errors", function()
    for text, f in pairs {
      ["permutation_mixture: the network must have a hidden layer"] = function()
        inv.permutation_mixture(nn.linear(2, 2), { scale = 1 })
      end,
      ["permutation_mixture: posterior must be a network of pn.nn.bayesian"] = function()
        inv.permutation_mixture(deep(2))
      end,
      ["permutation_mixture: a Bayesian network has scales of its own"] = function()
        inv.permutation_mixture(nn.bayesian(deep(2)), { scale = 1 })
      end,
      ["permutation_mixture: there is no scale for '1.weight'"] = function()
        inv.permutation_mixture(deep(2), { scale = {} })
      end,
      ["permutation_mixture: the scale of '1.weight' must be positive"] = function()
        inv.permutation_mixture(deep(2), { scale = -1 })
      end,
      ["log_prob: w must have shape [..., 9], got [2, 3]"] = function()
        inv.permutation_mixture(deep(2), { scale = 1 }):log_prob(pn.ones { 2, 3 })
      end,
    } do
      local message = message_of(f)
      assert(message:find(text, 1, true), message)
    end
  end)

  it("refuses numbers of draws and weights that are none", function()
    pn.seed(3)
    local mix = inv.permutation_mixture(deep(2), { scale = 1 })
    for text, call in pairs { ["gap: draws must be a whole number from 2 on, got 1"] = { mix.gap, mix, { draws = 1 } },
      ["bounds: draws must be a whole number from 2 on, got 1"] = { mix.bounds, mix, { draws = 1 } },
      ["bounds: permutations must be a whole number from 1 on, got 0"] = { mix.bounds, mix, { permutations = 0 } },
      ["values: w must have shape [9], got [1, 9]"] = { mix.values, mix, pn.ones { 1, 9 } },
      ["values: w must have shape [9], got [8]"] = { mix.values, mix, pn.ones { 8 } },
      ["mean_field_log_prob: w must have shape [..., 9], got []"] = { mix.mean_field_log_prob, mix, pn.ones {} },
      ["log_ratio: w must be a tensor"] = { mix.log_ratio, mix, 3 } } do
      local message = message_of(table.unpack(call))
      assert(message:find(text, 1, true), message)
    end
    assert.same({ 2, 2, 1000, 1000 }, { mix:gap({ draws = 2 }).draws, mix:bounds({ draws = 2, permutations = 1 }).draws,
      mix:gap().draws, mix:bounds().draws })
    assert.equal("permutation_mixture(event [9], float64)", tostring(mix))
    assert.equal("enumerate", mix:gap({ draws = 2 }).method)
    local six = inv.permutation_mixture(deep(6), { scale = 1 })
    assert.equal("subsets", six:gap({ draws = 2 }).method) -- 720 permutations; of five, 120
    assert.equal("enumerate", inv.permutation_mixture(deep(5), { scale = 1 }):gap({ draws = 2 }).method)
    assert.equal("enumerate", six:gap({ draws = 2, method = "enumerate" }).method)
  end)
end)
