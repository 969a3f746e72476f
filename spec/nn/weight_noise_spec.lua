-- nn.bayesian over every kind of layer by every estimator: the same law of the outputs, closed-form moments, lengths,
-- gradients, replay, dtypes, small batches; priors of all kinds, trained; divergences.
local pn = require "penumbra"
local core = require "penumbra.core"
local near = require("spec.helper").within
local nn, dist, optim = pn.nn, pn.dist, pn.optim

local function largest(t) return t:abs():max():item() end

-- Parameters elsewhere, in an order that does not change.
local function moved(state)
  local names = {}
  for name in pairs(state) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do state[name] = state[name] + pn.randn(state[name]:shape()) * 0.5 end
end

-- x of the layer, and the layer; o goes into its options.
local function image(n) return pn.randn({ n, 2, 5, 5 }, { generator = pn.generator(3) }) end
local function sequence(n) return pn.randn({ 5, n, 3 }, { generator = pn.generator(4) }) end
local cases = {
  { "linear", function(o) return nn.linear(3, 4, o) end,
    function(n) return pn.randn({ n, 3 }, { generator = pn.generator(5) }) end },
  { "conv1d", function(o)
    return nn.conv1d(2, 4, { kernel = 3, stride = 2, padding = 1, groups = 2, dtype = o.dtype })
  end, function(n) return image(n):reshape { n, 2, 25 } end },
  { "conv2d", function(o)
    return nn.conv2d(2, 3, { kernel = { 3, 2 }, stride = { 2, 1 }, dtype = o.dtype })
  end, image },
  { "conv_transpose1d", function(o)
    return nn.conv_transpose1d(2, 2, { kernel = 3, stride = 2, padding = 1, output_padding = 1, dtype = o.dtype })
  end, function(n) return image(n):reshape { n, 2, 25 } end },
  { "conv_transpose2d", function(o)
    return nn.conv_transpose2d(2, 2, { kernel = 3, stride = 2, padding = { 1, 0 }, output_padding = 1,
      dtype = o.dtype })
  end, image },
  { "embedding", function(o) return nn.embedding(5, 3, o) end, function(n)
    return pn.tensor({ { 1, 2 }, { 0, 4 } }, { dtype = "int64" }):slice(1, 1, n)
  end },
  { "rnn", function(o) return nn.rnn(3, 4, { activation = "relu", dtype = o.dtype }) end, sequence, recurrent = true },
  { "gru", function(o) return nn.gru(3, 4, o) end, sequence, recurrent = true },
  { "lstm", function(o) return nn.lstm(3, 4, o) end, sequence, recurrent = true },
  { "stack", function(o)
    return nn.recurrent("gru", 3, 3, { layers = 2, bidirectional = true, options = { dtype = o.dtype } })
  end, sequence, recurrent = true },
}

-- estimator (false: the default), network, input of each case.
local function each(f, given)
  for _, case in ipairs(cases) do
    for _, estimator in ipairs { "local", "weights", "flipout", false } do
      if not (case.recurrent and estimator == "local") then
        pn.seed(21)
        local o = { estimator = estimator or nil, posterior_scale = given and given.posterior_scale or 0.3 }
        f(nn.bayesian(case[2] { dtype = given and given.dtype or "float64" }, o), case, estimator)
      end
    end
  end
end

describe("flipout", function()
  -- One draw of the weights serves all rows: of one input the noise of row n in output j is x s_n e_j r_nj. Without the
  -- signs r of the outputs that of two rows and two outputs multiplies to e_1^2 e_2^2, which is never below 0. Of two
  -- inputs |e_1j + e_2j| or |e_1j - e_2j|, each in half of the rows: without the signs s always the first.
  it("turns the signs of inputs and of outputs, row by row", function()
    local net = nn.bayesian(nn.linear(1, 2, { bias = false }), { estimator = "flipout", posterior_scale = 0.5 })
    local x, g, count, sum, sides = pn.ones { 2, 1 }, pn.generator(6), 2000, 0, { 0, 0 }
    local mean = net:mean(x)
    for _ = 1, count do
      local e = (net(x, g) - mean):sign()
      sum = sum + e:prod():item()
      for j = 1, 2 do sides[j] = sides[j] + e:select(j, 1):prod():item() end
    end
    local most = 6 / count ^ 0.5
    assert(math.abs(sum / count) < most, sum / count)
    for j = 1, 2 do assert(math.abs(sides[j] / count) < most, sides[j] / count) end
    local two, same = nn.bayesian(nn.linear(2, 1, { bias = false }), { estimator = "flipout" }), 0
    local ones = pn.ones { 2, 2 }
    for _ = 1, count do
      local e = (two(ones, g) - two:mean(ones)):abs()
      same = same + ((e[1] - e[2]):abs():item() < 1e-12 and 1 or 0)
    end
    assert(math.abs(same / count - 0.5) < most / 2, same / count)
  end)
end)

describe("a draw where nothing is uncertain", function()
  it("has a finite gradient", function()
    local net = nn.bayesian(nn.conv1d(1, 2, { kernel = 2, bias = false }), { estimator = "local" })
    local x = pn.param(pn.tensor { { { 0, 0, 0, 1 } } }) -- the first outputs see zeros alone
    local y = net(x, pn.generator(1))
    for _, slope in ipairs(pn.grad(y:sum(), { x, table.unpack(net:parameters()) })) do
      assert.is_true(slope:isfinite():all():item())
    end
  end)
end)

describe("weights with a posterior", function()
  it("refuse an estimator that a layer does not have, by the parameter's name", function()
    for _, name in ipairs { "gru", "lstm", "rnn" } do
      assert.error_matches(function() nn.bayesian(nn.sequential { nn.linear(2, 3), nn[name](3, 3) },
        { estimator = "local" }) end, "must be \"weights\", or absent, for '2.weight_ih'.* got \"local\"")
    end
    assert.error_matches(function() nn.bayesian(nn.layer_norm(3), { estimator = "flipout" }) end, "got \"flipout\"")
    assert.error_matches(function() nn.bayesian(nn.linear(3, 2), { estimator = "dropout" }) end, "got \"dropout\"")
    for _, draws in ipairs { 0, 1.5, -1 } do
      assert.error_matches(function() nn.bayesian(nn.linear(3, 2), { draws = draws }) end,
        "bayesian: draws must be a whole number from 1 on")
    end
    assert.has_no_error(function()
      return nn.bayesian(nn.layer_norm(3), { estimator = "weights" })(pn.ones { 2, 3 })
    end)
  end)

  it("have one law by every estimator, and the moments of the formulas", function()
    local first = {}
    each(function(net, case)
      local x, draws, list = case[3](2), 600, {}
      local draw = pn.compile(function() return net(x):reshape { -1 } end)
      pn.seed(22)
      for k = 1, draws do list[k] = draw() end
      local y = pn.stack(list)
      local m, v = y:mean(1), y:var(1)
      local fourth = (y - m):square():square():mean(1)
      local want = first[case[1]] or { error_m = m * 0, error_v = m * 0 }
      if not case.recurrent then
        want.mean, want.variance = net:moments(x)
        want.mean, want.variance = want.mean:reshape(m:shape()), want.variance:reshape(m:shape())
        near(largest(net:mean(x):reshape(m:shape()) - want.mean), 0, 1e-12)
      end
      local error_m, error_v = (v / draws):sqrt(), ((fourth - v:square()) / draws):sqrt()
      if want.mean then
        assert.is_true(((m - want.mean):abs() - 6 * (error_m + want.error_m)):max():item() <= 0, case[1])
        assert.is_true(((v - want.variance):abs() - 6 * (error_v + want.error_v)):max():item() <= 0, case[1])
      end
      assert.is_true((6 * error_v:sum() / v:sum()):item() < 0.7, case[1])
      first[case[1]] = { mean = m, variance = v, error_m = error_m, error_v = error_v }
    end)
  end)

  it("give what the network gives where the posterior is narrow: sequences with lengths, states, both ways", function()
    each(function(net, case)
      if not case.recurrent then return end
      local x, lengths = case[3](3), pn.tensor({ 2, 5, 0 }, { dtype = "int64" })
      near(largest(net(x) - net:mean(x)), 0, 1e-9)
      near(largest(net(x, lengths) - net:mean(x, lengths)), 0, 1e-9)
      assert.equal(0, largest(net(x, lengths)[{ {}, 3 }]))
    end, { posterior_scale = 1e-12 })
    for _, kind in ipairs { "gru", "lstm" } do
      local layer = nn[kind](3, 4)
      local net = nn.bayesian(nn.module { layer = layer, forward = function(self, x)
        local y, h, c = self.layer:unroll(x)
        return pn.concatenate({ y:sum(1), h, (self.layer:step(x[1], table.unpack { h, c })) }, -1)
      end }, { estimator = "flipout", posterior_scale = 1e-12 })
      near(largest(net(sequence(2)) - net:mean(sequence(2))), 0, 1e-9)
    end
  end)

  it("turn the signs of a sequence once: its weights are the same at every step", function()
    -- h' = h + d with h_1 = d: with W_ih = 0, W_hh = 1 and an uncertain bias alone, step t is t times the first
    local layer = nn.rnn(1, 1, { activation = "relu" })
    layer:load_state { weight_ih = pn.zeros { 1, 1 }, weight_hh = pn.ones { 1, 1 }, bias_ih = pn.full({ 1 }, 5.0),
      bias_hh = pn.zeros { 1 } }
    local net = nn.bayesian(layer, { estimator = "flipout", prior = { bias_ih = 1, bias_hh = false, weight_ih = false,
      weight_hh = false } })
    local y = net(pn.ones { 4, 3, 1 })
    near(largest(y - y[1]:unsqueeze(1) * pn.tensor({ 1.0, 2.0, 3.0, 4.0 }):reshape { 4, 1, 1 }), 0, 1e-9)
    assert.is_true(largest(y[1] - 5) > 0)
    assert.equal(1, #net:parameters() - 4)
  end)

  it("leave a sequence's last output as its state, whatever axes, lengths and order of steps", function()
    for _, kind in ipairs { "rnn", "gru", "lstm" } do
      for _, reverse in ipairs { false, true } do
        local layer = nn[kind](3, 2, { reverse = reverse })
        local x = pn.randn({ 4, 2, 3, 3 }, { generator = pn.generator(6) })
        local lengths = pn.tensor({ { 2, 4, 1 }, { 3, 4, 0 } }, { dtype = "int64" })
        local last, seen, outputs
        local net = nn.bayesian(nn.module { layer = layer, forward = function(self, t)
          local y, h, c = self.layer:unroll(t)
          last, seen, outputs = h, c, y
          return y
        end }, { estimator = "flipout", posterior_scale = 0.4 })
        local function run(...)
          pn.seed(27)
          return net(...)
        end
        local y = run(x)
        assert.same({ 4, 2, 3, 2 }, y:shape())
        assert.same({ 2, 3, 2 }, last:shape())
        assert.equal(0, largest(last - outputs[reverse and 1 or 4]))
        assert.equal(kind == "lstm", seen ~= nil)
        assert.is_true(largest(y - net:mean(x)) > 0.05)
        -- the axes beside each other: the same rows in one axis
        assert.equal(0, largest(y - run(x:reshape { 4, 6, 3 }):reshape { 4, 2, 3, 2 }))
        -- what stands behind the end of a sequence is 0, and the steps before know nothing of it
        local plain = nn.bayesian(layer, { estimator = "flipout", posterior_scale = 0.4 })
        local function ended(...)
          pn.seed(28)
          return plain(...)
        end
        local all, cut = ended(x), ended(x, lengths)
        for a, row in ipairs(lengths:totable()) do
          for b, n in ipairs(row) do
            for t = 1, 4 do
              local at = cut[t][a][b]
              if t > n then
                assert.equal(0, largest(at))
              elseif not reverse or n == 4 then
                assert.equal(0, largest(at - all[t][a][b]))
              else
                assert.is_true(largest(at - all[t][a][b]) > 0)
              end
            end
          end
        end
      end
    end
  end)

  it("take a step as they unroll a sequence of one, with the same gradients", function()
    for _, kind in ipairs { "rnn", "gru", "lstm" } do
      local net = nn.bayesian(nn.module { layer = nn[kind](3, 4), forward = function(self, f)
        return f(self.layer)
      end }, { estimator = "flipout", posterior_scale = 0.4 })
      local x, h, c = pn.param(pn.randn { 2, 3 }), pn.param(pn.randn { 2, 4 }), pn.param(pn.randn { 2, 4 })
      local leaves = { x, h, kind == "lstm" and c or nil }
      for _, p in ipairs(net:parameters()) do leaves[#leaves + 1] = p end
      local function slopes(f)
        pn.seed(30)
        local new, cell = net(f)
        local y = new:sin():sum() + (cell and (cell * 2):cos():sum() or 0)
        return y:item(), pn.grad(y, leaves)
      end
      local state = { h, kind == "lstm" and c or nil }
      local one, by_step = slopes(function(layer) return layer:step(x, table.unpack(state)) end)
      local two, unrolled = slopes(function(layer)
        return select(2, layer:unroll(x:unsqueeze(1), table.unpack(state)))
      end)
      assert.equal(two, one)
      for k = 1, #leaves do assert.near(0, largest(by_step[k] - unrolled[k]), 1e-13) end
      assert.is_true(largest(by_step[1]) > 0.01 and largest(by_step[2]) > 0.01)
    end
  end)

  it("pass gradients to the inputs of a sequence, and to the state that it begins with", function()
    for _, kind in ipairs { "gru", "lstm" } do
      local x = pn.param(sequence(2))
      local h, c = pn.param(pn.full({ 2, 4 }, 0.3)), pn.param(pn.full({ 2, 4 }, -0.6))
      local net = nn.bayesian(nn.module { layer = nn[kind](3, 4), forward = function(self, t)
        local y, last = self.layer:unroll(t, h, kind == "lstm" and c or nil)
        return y:sum(1) + last
      end }, { estimator = "flipout", posterior_scale = 0.4 })
      assert.is_true(pn.check_gradients(function()
        pn.seed(29)
        return net(x):sin():sum()
      end, { x, h, kind == "lstm" and c or nil }).error < 1e-5)
    end
  end)

  it("have gradients of first and second order, eager as replayed, in batches of one and zero", function()
    each(function(net, case, estimator)
      local x = case[3](2)
      local function f() return net(x):square():mean() + net:kl() * 1e-3 end
      local ps = net:parameters()
      pn.seed(23)
      assert.is_true(pn.check_gradients(function()
        pn.seed(24)
        return net(x):sin():sum()
      end, { ps[1], ps[#ps] }).error < 1e-4)
      if case[1] == "linear" or case[1] == "conv1d" or case[1] == "lstm" and estimator == "flipout" then
        assert.is_true(pn.check_gradients(function()
          pn.seed(24)
          return pn.grad(net(x):sin():sum(), { ps[1] }, { create_graph = true })[1]:square():sum()
        end, { ps[1], ps[#ps] }).error < 1e-3)
      end
      local first = pn.grad(f(), ps, { create_graph = true })
      local total = 0
      for k, g in ipairs(first) do
        assert.is_true(g:square():sum():item() > 0, case[1] .. " " .. ps.names[k])
        total = total + g:square():sum()
      end
      for _, g in ipairs(pn.grad(total, ps)) do assert.is_true(g:isfinite():all():item() == true) end
      local step = pn.compile(f)
      for _ = 1, 2 do
        pn.seed(25)
        local eager = f():item()
        pn.seed(25)
        near(eager, step():item(), 1e-14 * math.abs(eager))
      end
      if case[1] ~= "embedding" then
        for _, n in ipairs { 1, 0 } do
          assert.same(net:mean(case[3](n)):shape(), net(case[3](n)):shape())
        end
      end
    end)
  end)

  it("work in float32, and come back from a file", function()
    local path = os.tmpname()
    each(function(net, case, estimator)
      local x = case[3](2)
      x = x:dtype() == "int64" and x or x:to "float32"
      assert.equal("float32", net(x):dtype())
      assert.is_true(net(x):isfinite():all():item() == true)
      if estimator == "weights" then
        assert(pn.save(path, net:state()))
        local other = nn.bayesian(case[2] { dtype = "float32" }, { estimator = "weights" })
        other:load_state(assert(pn.load(path)))
        pn.seed(26)
        local want = net(x):totable()
        pn.seed(26)
        assert.same(want, other(x):totable())
        assert.equal(net:kl():item(), other:kl():item())
      end
    end, { dtype = "float32" })
    os.remove(path)
  end)

  it("keep parameters that have no prior certain", function()
    local net = nn.bayesian(nn.sequential { nn.linear(3, 4), nn.tanh(), nn.linear(4, 2) },
      { prior = { weight = 1, bias = false } })
    assert.equal(6, #net:parameters()) -- four of the network, two scales
    near(net:kl():item(), (dist.kl(net:posterior "1.weight", dist.normal(0, 1)):sum()
      + dist.kl(net:posterior "3.weight", dist.normal(0, 1)):sum()):item(), 1e-10)
    assert.error_matches(function() net:posterior "1.bias" end, "no uncertain parameter '1.bias'")
    assert.error_matches(function() nn.bayesian(nn.linear(1, 1), { prior = false }) end, "at least one parameter")
    local plain = nn.bayesian(nn.sequential { nn.linear(3, 4), nn.layer_norm(4) }, { prior = function(name)
      return name:match "^1" and 1 or false
    end })
    assert.is_true(largest(plain(pn.ones { 1, 3 }) - plain(pn.ones { 1, 3 })) > 0)
    local bias = nn.bayesian(nn.linear(3, 2), { prior = { weight = false, bias = 1 }, posterior_scale = 0.5 })
    local _, v = bias:moments(pn.ones { 1, 3 })
    near(largest(v - 0.25), 0, 1e-12)
  end)

  it("are refused where there is a posterior already, or a prior that is none", function()
    assert.error_matches(function() nn.bayesian(nn.sequential { nn.bayes_linear(2, 2) }) end, "posterior.*already")
    assert.error_matches(function() nn.bayesian(nn.bayesian(nn.linear(2, 2))) end, "posterior.*already")
    assert.error_matches(function() nn.bayesian(nn.linear(2, 2), { prior = dist.gamma(1, 1) }) end,
      "must have all numbers")
    assert.error_matches(function() nn.bayesian(nn.linear(2, 2), { prior = dist.normal(pn.zeros { 3 }, 1) }) end,
      "prior of 'weight' must be of numbers and broadcast to the shape %[2, 2%], got batch_shape %[3%]")
  end)
end)

describe("a linear layer", function()
  it("with a posterior is the layer bayes_linear, to the bit", function()
    pn.seed(27)
    local plain, bayes = nn.linear(3, 2), nn.bayes_linear(3, 2)
    local net = nn.bayesian(plain, { posterior_scale = 0.2 })
    bayes:load_state { weight_loc = plain:state().weight, bias_loc = plain:state().bias,
      weight_log_scale = net.log_scale.weight:detach(), bias_log_scale = net.log_scale.bias:detach() }
    local x = pn.randn { 4, 3 }
    assert.same(bayes(x, pn.generator(1)):totable(), net(x, pn.generator(1)):totable())
    assert.same(bayes:mean(x):totable(), net:mean(x):totable())
    near(bayes:kl():item(), net:kl():item(), 1e-13)
    local m, v = bayes:moments(x, x:square())
    local m2, v2 = net:moments(x, x:square())
    assert.same({ m:totable(), v:totable() }, { m2:totable(), v2:totable() })
    assert.error_matches(function() nn.relu():uncertain {} end, "relu: there is no layer of the kind with a posterior")
    assert.error_matches(function() plain:uncertain { pn.ones(2) } end, "uncertain: bias must be a tensor, got nil")
    assert.error_matches(function() plain:uncertain { pn.ones(2), pn.ones(2) } end, "weight must be float64 of shape")
  end)
end)

-- Sums of products of independent numbers, one product after another: y = sum w h + b has the variance
-- sum (E w^2 E h^2 - (E w)^2 (E h)^2) + var b. every(add): add(channel, place of y, places of w and h, from 1 in their
-- last order) of every product. Means and variances of y, [channels * rest] each.
local function by_loops(size, rest, w, b, h, spread, every)
  local function flat(t) return t:reshape { -1 }:totable() end
  local wm, wv, hm, hv = flat(w:mean()), flat(w:variance()), flat(h), flat(spread)
  local m, v = flat(b:mean():unsqueeze(2):broadcast_to { size, rest }), flat(b:variance():unsqueeze(2)
    :broadcast_to { size, rest })
  every(function(channel, place, i, j)
    local at = (channel - 1) * rest + place
    m[at] = m[at] + wm[i] * hm[j]
    v[at] = v[at] + (wm[i] ^ 2 + wv[i]) * (hm[j] ^ 2 + hv[j]) - wm[i] ^ 2 * hm[j] ^ 2
  end)
  return pn.tensor(m), pn.tensor(v)
end

describe("moments of a network with a posterior", function()
  -- Kernels 3 x 2, strides 2 and 1, padding 1 and 0; the places where weights meet inputs written out.
  it("of inputs with a variance are those of the products one by one, through every convolution", function()
    local H, W, oh, ow = 5, 4, 3, 3
    local function products(add, groups, columns)
      local per, out = 2 // groups, 2
      for o = 1, out do
        for i = 1, per do
          local c = (o - 1) // (out // groups) * per + i
          for a = 0, 2 do
            for k = 0, columns and 0 or 1 do
              for y = 0, oh - 1 do
                for x = 0, columns and 0 or ow - 1 do
                  local from, to = 2 * y + a - 1, x + k
                  local width = columns and 1 or W
                  if from >= 0 and from < H then
                    add(o, y * (columns and 1 or ow) + x + 1,
                      ((o - 1) * per + i - 1) * (columns and 3 or 6) + a * (columns and 1 or 2) + k + 1,
                      ((c - 1) * H + from) * width + to + 1)
                  end
                end
              end
            end
          end
        end
      end
    end
    local maps = {
      { nn.conv2d(2, 2, { kernel = { 3, 2 }, stride = { 2, 1 }, padding = { 1, 0 } }), { 1, 2, H, W }, oh * ow,
        function(add) products(add, 1) end },
      { nn.conv2d(2, 2, { kernel = { 3, 2 }, stride = { 2, 1 }, padding = { 1, 0 }, groups = 2 }), { 1, 2, H, W },
        oh * ow, function(add) products(add, 2) end },
      { nn.conv1d(2, 2, { kernel = 3, stride = 2, padding = 1 }), { 1, 2, H }, oh,
        function(add) products(add, 1, true) end },
      -- 2 x 3 to (2 - 1) 2 + 3 by 3 + 1: y[2 i + a][j + k] += w[c][o][a][k] x[c][i][j]
      { nn.conv_transpose2d(2, 2, { kernel = { 3, 2 }, stride = { 2, 1 } }), { 1, 2, 2, 3 }, 20, function(add)
        for c = 1, 2 do
          for o = 1, 2 do
            for at = 0, 35 do
              local a, k, i, j = at // 12, at // 6 % 2, at // 3 % 2, at % 3
              add(o, (2 * i + a) * 4 + j + k + 1, ((c - 1) * 2 + o - 1) * 6 + a * 2 + k + 1,
                (c - 1) * 6 + i * 3 + j + 1)
            end
          end
        end
      end },
    }
    pn.seed(33)
    for _, case in ipairs(maps) do
      local net = nn.bayesian(case[1], { posterior_scale = 0.3 })
      local state = net:state()
      moved(state)
      net:load_state(state)
      local h, spread = pn.randn(case[2]), pn.rand(case[2]) + 0.1
      for _, v in ipairs { spread, spread * 0 } do
        local m, out = net:moments(h, v)
        local mean, variance = by_loops(2, case[3], net:posterior "weight", net:posterior "bias", h, v, case[4])
        near(largest(m:reshape { -1 } - mean), 0, 1e-12)
        near(largest(out:reshape { -1 } - variance), 0, 1e-12)
      end
      local _, certain = net:moments(h)
      local _, none = net:moments(h, spread * 0)
      near(largest(certain - none), 0, 1e-13)
    end
    local table_of = nn.bayesian(nn.embedding(4, 3), { posterior_scale = 0.3 })
    local state = table_of:state()
    moved(state)
    table_of:load_state(state)
    local m, v = table_of:moments(pn.tensor({ 2, 0, 2 }, { dtype = "int64" }))
    for row, at in ipairs { 3, 1, 3 } do
      near(largest(m[row] - table_of:posterior "weight":mean()[at]), 0, 0)
      near(largest(v[row] - table_of:posterior "weight":variance()[at]), 0, 1e-15)
    end
  end)

  it("take covariances through linear layers, and refuse them elsewhere", function()
    pn.seed(31)
    local net = nn.bayesian(nn.linear(3, 2), { posterior_scale = 0.3 })
    local x, c = pn.randn { 1, 3 }, pn.eye(3):unsqueeze(1) * 0.5
    local w, b = net:posterior "weight", net:posterior "bias"
    local m, v = net:moments(x, c)
    near(largest(m - net:mean(x)), 0, 1e-12)
    -- var = sum E w^2 (x^2 + c) - (E w x)^2 elementwise, cov = W' C W off the diagonal
    local want = (x:square() + 0.5):matmul(w:variance()) + b:variance() + (w:mean():square() * 0.5):sum(1)
    near(largest(v[1]:diagonal() - want[1]), 0, 1e-12)
    near(v[1][1][2]:item(), (w:mean()[{ {}, 1 }] * w:mean()[{ {}, 2 }]):sum():item() * 0.5, 1e-12)
    assert.error_matches(function()
      nn.bayesian(nn.conv1d(2, 2, { kernel = 1 })):moments(pn.ones { 1, 2, 3 }, pn.ones { 1, 2, 3, 3 })
    end, "not covariances")
  end)

  it("are exact through an affine normalisation with uncertain scale and shift", function()
    pn.seed(32)
    local net = nn.bayesian(nn.actnorm(2), { posterior_scale = 0.2, estimator = "weights" })
    local x, v = pn.tensor { { 1.5, -0.5 } }, pn.tensor { { 0.3, 0.1 } }
    local m, out = net:moments(x, v)
    -- y = (x + b) e^s, b normal(c, 0.04), s normal(r, 0.04): E y = (x + c) e^(r + 0.02),
    -- E y^2 = ((x + c)^2 + v + 0.04) e^(2 r + 0.08)
    local function agrees(c, r)
      local shifted = x + c
      near(largest(m - shifted * (r + 0.02):exp()), 0, 1e-12)
      near(largest(out - ((shifted:square() + v + 0.04) * (r * 2 + 0.08):exp()
        - shifted:square() * (r * 2 + 0.04):exp())), 0, 1e-12)
    end
    agrees(pn.zeros { 2 }, pn.zeros { 2 })
    local named = {}
    for _, entry in ipairs(net.net:named_parameters()) do named[entry[1]] = entry[2] end
    named.bias:set(pn.tensor { 0.7, -1.2 })
    named.log_scale:set(pn.tensor { 0.3, -0.4 })
    m, out = net:moments(x, v)
    agrees(named.bias:detach(), named.log_scale:detach())
    -- an image has them for each channel, whatever its axes
    for _, axes in ipairs { { 3 }, { 2, 3 }, { 2, 1, 3 } } do
      local function wide(t) return t:reshape { 1, 2, table.unpack({ 1, 1, 1, 1 }, 1, #axes) } end
      local step = pn.arange(3):to "float64"
      local m2, out2 = net:moments(wide(x) + step * 0 + pn.zeros { 1, 2, table.unpack(axes) }, wide(v) + step * 0)
      assert.is_true(largest(m2 - wide(m)) < 1e-12 and largest(out2 - wide(out)) < 1e-12)
    end
    assert.is_true(pn.check_gradients(function()
      local first, second = net:moments(x, v)
      return (first * 0.3 + second):square():sum()
    end, net:parameters()).error < 1e-6)
    assert.error_matches(function() net:moments(x, pn.ones { 1, 2, 2 }) end, "not covariances")
  end)

  it("are refused, not drawn, where there is no formula", function()
    local function forward(self, x) return self.layers[1](x) end
    assert.error_matches(function()
      nn.bayesian(nn.module { layers = { nn.linear(2, 2) }, forward = forward }):moments(pn.ones { 1, 2 })
    end, "no field `moments`")
    assert.error_matches(function()
      nn.bayesian(nn.sequential { nn.linear(2, 2), nn.layer_norm(2) }):moments(pn.ones { 1, 2 })
    end, "'2.weight' is uncertain")
    assert.error_matches(function() nn.bayesian(nn.gru(2, 2)):moments(pn.ones { 3, 1, 2 }) end, "is uncertain")
  end)
end)

describe("priors", function()
  -- Closed form where there is one; all by Monte Carlo, within 6 standard errors that are narrow.
  it("give divergences that agree with Monte Carlo", function()
    local mixture = dist.mixture({ 0.75, 0.25 }, { dist.normal(0, 1), dist.normal(0, 0.1) })
    for _, case in ipairs { { 2 }, { dist.normal(0.5, 0.7) }, { dist.laplace(0, 0.5) }, { dist.student_t(3, 0, 0.5) },
      { dist.horseshoe(0.5), draws = 40000 }, { mixture } } do
      pn.seed(41)
      local draws = 20000
      local net = nn.bayesian(nn.linear(4, 3), { prior = case[1], draws = draws, posterior_scale = 0.3 })
      local total, variance = 0, 0
      for _, name in ipairs { "weight", "bias" } do
        local q, p = net:posterior(name), net.priors[name]
        local z = q:sample { draws }
        local terms = q:log_prob(z) - p:log_prob(z)
        total = total + terms:mean(1):sum():item()
        variance = variance + (terms:var(1) / draws):sum():item()
      end
      local error = 6 * (2 * variance) ^ 0.5 -- both sides are drawn at worst
      near(net:kl():item(), total, error)
      assert.is_true(error < 0.05 * math.abs(total))
      near(net:kl():item(), nn.sequential({ net, net, nn.module { net } }):kl():item(), error)
    end
  end)

  it("train: any of them, with learned scales, on images and on sequences", function()
    local function priors()
      local scale = pn.param(pn.tensor(0.5))
      return {
        { dist.normal(0, 0.3) }, { dist.laplace(0, 0.3) }, { dist.student_t(3, 0, 0.3) }, { dist.horseshoe(0.3) },
        { dist.mixture({ 0.5, 0.5 }, { dist.normal(0, 0.5), dist.normal(0, 0.05) }) },
        { dist.normal(0, scale), scale }, { dist.student_t(3, 0, scale), scale },
      }
    end
    local images, steps = image(8), sequence(8)
    local labels = pn.tensor({ 0, 1, 0, 1, 1, 0, 1, 0 }, { dtype = "int64" })
    for k = 1, #priors() do
      for _, kind in ipairs { "conv", "gru" } do
        pn.seed(50 + k)
        local prior = priors()[k]
        local body = kind == "conv"
          and nn.sequential { nn.conv2d(2, 3, { kernel = 3 }), nn.relu(), nn.flatten(), nn.linear(27, 2) }
          or nn.sequential { nn.gru(3, 4), function(h) return h[-1] end, nn.linear(4, 2) }
        local net, x = nn.bayesian(body, { prior = prior[1] }), kind == "conv" and images or steps
        local opt = optim.adam(net:parameters(), { lr = 0.02 })
        local function loss()
          return -dist.categorical { logits = net(x) }:log_prob(labels):mean() + net:kl() / 2000
        end
        if prior[2] then
          assert.is_true(math.abs(pn.grad(net:kl(), { prior[2] })[1]:item()) > 0)
          local found = false
          for _, p in ipairs(net:parameters()) do found = found or core.identity(p) == core.identity(prior[2]) end
          assert.is_true(found)
        end
        local before, step = 0, pn.compile(loss, { optimiser = opt })
        for i = 1, 40 do
          local value = step()
          before = i <= 4 and before + value / 4 or before
        end
        local after = 0
        for _ = 1, 4 do after = after + loss():item() / 4 end
        assert.is_true(after < before, ("prior %d on %s: %g after %g"):format(k, kind, after, before))
        if prior[2] then assert.is_true(prior[2]:item() ~= 0.5) end
      end
    end
  end)
end)
