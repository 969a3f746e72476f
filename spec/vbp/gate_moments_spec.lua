-- Gates of a network of straight pieces: each layer against enumeration of its gates, convolutions against dense
-- layers, covariances against draws, the limit in which gates and moment matching agree, draws of the model, and what
-- the document prints where it is wrong.
local pn = require "penumbra"
local gates = require "penumbra.vbp.gates"
local near = require("spec.helper").within
local nn = pn.nn

local function sigmoid(x) return 1 / (1 + math.exp(-x)) end

-- Mean and variance of h = a + b f over independent gates, which are open with these probabilities, and f of mean m and
-- variance v; pieces(...) gives a and b for gates 0 or 1.
local function enumerate(m, v, probabilities, pieces)
  local first, second = 0, 0
  for code = 0, 2 ^ #probabilities - 1 do
    local p, z = 1, {}
    for k, open in ipairs(probabilities) do
      z[k] = math.floor(code / 2 ^ (k - 1)) % 2
      p = p * (z[k] == 1 and open or 1 - open)
    end
    local a, b = pieces(table.unpack(z))
    first = first + p * (a + b * m)
    second = second + p * (a ^ 2 + 2 * a * b * m + b ^ 2 * (v + m ^ 2))
  end
  return first, second - first ^ 2
end

local function tanh_pieces(u, w) return u - w, (1 - u) * (1 - w) end

describe("a layer with gates", function()
  local cases = {
    { nn.relu, {}, function(m, C) return { sigmoid(C * m) } end, function(z) return 0, z end },
    { nn.leaky_relu, { slope = .2 }, function(m, C) return { sigmoid(C * m) } end,
      function(z) return 0, .2 + .8 * z end },
    { nn.prelu, { slope = .3 }, function(m, C) return { sigmoid(C * m) } end, function(z) return 0, .3 + .7 * z end },
    { nn.hard_tanh, {}, function(m, C) return { sigmoid(C * (m - 1)), sigmoid(-C * (m + 1)) } end, tanh_pieces },
  }

  it("has the moments that enumerating its gates gives, and hard ones those of its piece", function()
    for k, case in ipairs(cases) do
      for _, m in ipairs { -2.5, -.7, .1, .4, 1.9, 3.3 } do
        for _, C in ipairs { .8, 3 } do
          local o = { rule = "identity_heaviside", sharpness = C }
          for name, value in pairs(case[2]) do o[name] = value end
          local got, spread = case[1](o):moments(pn.tensor { { m } }, pn.tensor { { .7 } })
          local want, want_spread = enumerate(m, .7, case[3](m, C), case[4])
          near(got, want, 1e-13, k)
          near(spread, want_spread, 1e-13, k)
          o.sharpness = math.huge
          got, spread = case[1](o):moments(pn.tensor { { m } }, pn.tensor { { .7 } })
          local a, b = case[4](table.unpack(case[3](m, 1e9)))
          near(got, a + b * m, 1e-6, k)
          near(spread, b ^ 2 * .7, 1e-6, k)
        end
      end
    end
  end)

  it("of three pieces is a hard tanh, moved and stretched, with its gates moved, too", function()
    for _, case in ipairs { { nn.hard_tanh, { low = -.5, high = 2 }, .75, 1.25, .75, 1.25 },
      { nn.hard_sigmoid, {}, 0, 3, .5, .5 }, { nn.hard_sigmoid, { slope = .25 }, 0, 2, .5, .5 } } do
      for _, m in ipairs { -2.5, .1, 1.9, 3.3 } do
        local middle, half, base, height = table.unpack(case, 3)
        local C, v = 1.7, .7
        local at = (m - middle) / half
        local open = { sigmoid(C * half * (at - 1)), sigmoid(-C * half * (at + 1)) }
        local first, second = enumerate(at, v / half ^ 2, open, tanh_pieces)
        for _, rule in ipairs { "identity_heaviside", "clt" } do
          local o = { rule = rule, sharpness = C }
          for name, value in pairs(case[2]) do o[name] = value end
          local got, spread = case[1](o):moments(pn.tensor { { m } }, pn.tensor { { v } })
          if rule == "clt" then -- by Simpson's rule over f
            local f = pn.linspace(-9, 9, 20001) * v ^ .5 + m
            local w = ((f - m):square() / (-2 * v)):exp()
            w = w / w:sum()
            local h = case[1](case[2])(f)
            first = (w * h):sum():item()
            near(got, first, 1e-7)
            near(spread, (w * (h - first):square()):sum():item(), 1e-7)
          else
            near(got, base + height * first, 1e-13)
            near(spread, height ^ 2 * second, 1e-13)
          end
        end
      end
    end
  end)

  it("of a hard tanh is the document's example, which its printed formulas miss", function()
    local m, v = enumerate(.4, .7, { .3, .1 }, tanh_pieces)
    near(m, .452, 1e-15)
    near(v, .677496, 1e-15)
    local printed_m, printed_v = pn.vbp.printed.hard_tanh(.4, .7, .3, .1)
    near(printed_m, .652, 1e-15)
    near(printed_v, .576696, 1e-15)
    -- numbers and tensors side by side, element by element
    local many, spread = pn.vbp.printed.hard_tanh(pn.tensor { .4, -1 }, pn.tensor { { .7 }, { 2 } }, .3, .1)
    assert.same({ 2, 2 }, spread:shape())
    near(many[1], .652, 1e-15)
    near(spread[1][1], .576696, 1e-15)
    near(spread[2][2], select(2, pn.vbp.printed.hard_tanh(-1, 2, .3, .1)), 1e-15)
  end)

  it("is relu with slope 0 and the identity with slope 1", function()
    local m, v = pn.tensor { { -1.2, .3, 2 } }, pn.tensor { { .4, 1, .2 } }
    local function of(slope)
      return nn.leaky_relu { rule = "identity_heaviside", sharpness = 2, slope = slope }:moments(m, v)
    end
    local relu_m, relu_v = nn.relu { rule = "identity_heaviside", sharpness = 2 }:moments(m, v)
    local m0, v0 = of(0)
    near((m0 - relu_m):abs():max(), 0, 1e-15)
    near((v0 - relu_v):abs():max(), 0, 1e-15)
    local m1, v1 = of(1)
    near((m1 - m):abs():max(), 0, 1e-15)
    near((v1 - v):abs():max(), 0, 1e-15)
  end)

  it("learns the slope of a prelu: the gradient of the loss is that of differences", function()
    local net = nn.sequential { nn.linear(2, 4), nn.prelu { channels = 4, slope = .1 }, nn.linear(4, 1) }
    for _, C in ipairs { 5, math.huge } do
      local m = pn.vbp.learner { network = net, sharpness = C, seed = 3, log_variance = -3 }
      local x, y = pn.tensor { { .3, -1 }, { 2, .5 }, { -1, -.2 } }, pn.tensor { { 1 }, { -.5 }, { .2 } }
      local slope
      for _, entry in ipairs(m.net:named_parameters()) do slope = entry[1] == "net.2.weight" and entry[2] or slope end
      assert.same({ .1, .1, .1, .1 }, slope:totable())
      local function loss()
        local mean, v = m.net:moments(x)
        return -pn.infer.expected_log_likelihood("normal", y, mean, v):sum()
      end
      assert.is_true(pn.check_gradients(loss, { slope }).error < 1e-6)
      assert.is_true(pn.grad(loss(), { slope })[1]:abs():max():item() > 1e-3)
      local before = slope:totable()
      m:fit { data = { x, y }, epochs = 1, lr = .1 }
      assert.is_not.same(before, slope:totable())
      assert.is_nil(m:state()["net.log_scale.2.weight"]) -- trained without a prior
    end
  end)
end)

describe("gates of a learner", function()
  it("stay those of its network, in float32, too, and cost nothing where nothing is uncertain", function()
    local how = { dtype = "float32" }
    local net = nn.sequential { nn.linear(2, 3, how), nn.prelu { channels = 3, slope = .1, dtype = "float32" },
      nn.linear(3, 1, how) }
    local m = pn.vbp.learner { network = net, sharpness = 4, log_variance = -60, start = "network" }
    local x = pn.tensor({ { .3, -1 }, { 2, .5 } }, how)
    assert.equal("float32", m:moments(x):dtype())
    -- one slope for all channels, two, and images
    for _, case in ipairs { { nn.prelu { slope = .3 }, { 5, 3 } }, { nn.prelu { channels = 2 }, { 5, 2 } },
      { nn.prelu { channels = 2 }, { 2, 2, 3, 4 } } } do
      local layer, f = case[1], pn.randn(case[2], { generator = pn.generator(3) })
      near((gates.generate(layer, f, math.huge) - layer(f)):abs():max(), 0, 1e-14)
    end
    -- a root of variances that are 0 has a slope that is none, which must not get into that of a layer before it
    local first = pn.vbp.learner { network = nn.sequential { nn.prelu(), nn.relu(), nn.linear(2, 1) }, sharpness = 4,
      structure = "full", gate_kl = "exact" }
    first:fit { data = { pn.ones { 3, 2 }, pn.ones { 3 } }, epochs = 2 }
    for name, t in pairs(first:state()) do assert.is_true(t:isfinite():all():item(), name) end
  end)
end)

describe("variances as (3.8) prints them", function()
  it("differ with soft gates and agree with hard ones", function()
    local g = pn.generator(4)
    local function draw(...) return pn.randn({ ... }, { generator = g }) end
    local m, v, w, s = draw(3, 4), draw(3, 4):square(), draw(4, 5), draw(4, 5):square()
    for _, C in ipairs { 2, math.huge } do
      local own = pn.vbp.printed.variance(m, v, w, s, C)
      local layer = nn.bayesian(nn.linear(4, 5, { bias = false }))
      layer:load_state { ["net.weight"] = w, ["log_scale.weight"] = s:log() * .5 }
      local _, right = nn.relu { rule = "identity_heaviside", sharpness = C }:moments(layer:moments(m, v))
      local difference = (own - right):abs():max():item()
      if C == 2 then
        assert.is_true(difference > .1)
      else
        near(difference, 0, 1e-13)
      end
    end
  end)
end)

describe("a strided convolution", function()
  it("passes the moments of the dense layer that it is", function()
    local g = pn.generator(6)
    local net = nn.bayesian(nn.conv2d(2, 3, { kernel = 3, stride = 2, padding = 1 }), { prior = 1 })
    local s = net:state()
    s["net.weight"] = pn.randn({ 3, 2, 3, 3 }, { generator = g })
    s["net.bias"] = pn.randn({ 3 }, { generator = g })
    s["log_scale.weight"] = pn.randn({ 3, 2, 3, 3 }, { generator = g }) * .5 - 1
    s["log_scale.bias"] = pn.tensor { -1, .2, -.4 }
    net:load_state(s)
    local m, v = pn.randn({ 4, 2, 6, 5 }, { generator = g }), pn.randn({ 4, 2, 6, 5 }, { generator = g }):square()
    -- the dense weights [in, out], from the response to each unit vector
    local basis = pn.eye(60):reshape { 60, 2, 6, 5 }
    local weight = pn.conv2d(basis, s["net.weight"], 2, 1):reshape { 60, -1 }
    local spread = pn.conv2d(basis, (s["log_scale.weight"] * 2):exp(), 2, 1):reshape { 60, -1 }
    local function wide(b) return b:reshape { 1, 3, 1, 1 }:broadcast_to { 1, 3, 3, 3 }:reshape { 1, 27 } end
    local x, u = m:reshape { 4, 60 }, v:reshape { 4, 60 }
    local mean, variance = net:moments(m, v)
    near((mean:reshape { 4, 27 } - x:matmul(weight) - wide(s["net.bias"])):abs():max(), 0, 1e-12)
    local want = u:matmul(weight:square() + spread) + x:square():matmul(spread)
      + wide((s["log_scale.bias"] * 2):exp())
    near((variance:reshape { 4, 27 } - want):abs():max(), 0, 1e-12)
  end)
end)

describe("covariances", function()
  local function learner(depth, structure)
    local sizes = { 3 }
    for k = 1, depth do sizes[k + 1] = 6 end
    sizes[#sizes + 1] = 2
    local m = pn.vbp.learner { network = nn.mlp(sizes, { activation = "relu" }), structure = structure, seed = 9,
      log_variance = -2, spread = .3 }
    local s = m:state() -- weights of one sign: what units share adds up
    for name, t in pairs(s) do s[name] = name:find "[3-9]%.weight$" and name:find "^net%.net" and t:abs() or t end
    return m:load_state(s)
  end

  -- Draws of the network's outputs at one datum whose gates stay those of the means: [S, 2].
  local function draws(m, depth, x, count)
    local s, g = m:state(), pn.generator(depth)
    local mean, h = x, x:unsqueeze(1):broadcast_to { count, 1, 3 }
    for l = 1, depth + 1 do
      local at = ("%d."):format(2 * l - 1)
      local function draw(name)
        local loc = s["net.net." .. at .. name]
        local e = pn.randn({ count, table.unpack(loc:shape()) }, { generator = g })
        return loc + s["net.log_scale." .. at .. name]:exp() * e
      end
      local w, b = draw "weight", draw "bias"
      h = h:matmul(w) + b:unsqueeze(2)
      mean = mean:matmul(s["net.net." .. at .. "weight"]) + s["net.net." .. at .. "bias"]
      if l <= depth then
        local open = mean:gt(0):to "float64"
        h, mean = h * open, mean * open
      end
    end
    return h:squeeze(2)
  end

  it("make variances exact at any depth where gates stand still; diagonal ones at one hidden layer alone", function()
    local x, count = pn.tensor { { .4, -1, 2 } }, 100000
    for depth = 1, 3 do
      local full, diagonal = learner(depth, "full"), learner(depth, "diagonal")
      local mean, v = full:moments(x)
      local _, own = diagonal:moments(x)
      local f = draws(full, depth, x, count)
      local centred = f - f:mean(1)
      local found = centred:square():mean(1)
      local error = (centred:square() - found):square():mean(1):sqrt() / count ^ .5
      assert.is_true((error / found):max():item() < .02)
      assert.is_true(((f:mean(1) - mean) / (found / count):sqrt()):abs():max():item() < 6)
      assert.is_true(((found - v) / error):abs():max():item() < 6, depth)
      local off = ((found - own) / error):abs():max():item()
      if depth == 1 then
        near((own - v):abs():max(), 0, 1e-13)
      else
        assert.is_true(off > 6, ("%d: %g"):format(depth, off))
      end
      local _, covariance = full.net:moments(x, pn.zeros { 1, 3, 3 })
      local joint = (centred:select(2, 1) * centred:select(2, 2))
      near(covariance[1][1][2], joint:mean():item(), 6 * joint:std():item() / count ^ .5)
    end
  end)

  it("train, and are drawn from, as variances are", function()
    local g = pn.generator(2)
    local x = pn.randn({ 60, 3 }, { generator = g })
    local y = pn.concatenate({ x:slice(2, 1, 1), x:slice(2, 2, 2):abs() }, 2)
    local m = learner(1, "full")
    local run = m:fit { data = { x, y }, epochs = 40, lr = .02 }
    assert.is_true(run.history[40] < run.history[1])
    local f = m:draws(x:slice(1, 1, 2), { draws = 20000, generator = pn.generator(3) })
    local _, c = m.net:moments(x:slice(1, 1, 2), pn.zeros { 2, 3, 3 })
    local centred = f - f:mean(1)
    local joint = centred:select(3, 1) * centred:select(3, 2)
    for n = 1, 2 do
      near(joint:select(2, n):mean(), c[n][1][2]:item(), 6 * joint:select(2, n):std():item() / 20000 ^ .5)
      for k = 1, 2 do near(f:select(2, n):select(2, k):var(1) / c[n][k][k], 1, 6 * (2 / 20000) ^ .5) end
    end
  end)
end)

describe("gates and moment matching", function()
  it("agree where the input is far from 0 in its own scale, and differ near it", function()
    local before = math.huge
    for _, t in ipairs { 0, 1, 2, 4, 6, 8 } do
      local worst = 0
      for _, sign in ipairs { -1, 1 } do
        local m, v = pn.tensor { { sign * t * .6 } }, pn.tensor { { .36 } }
        local a, av = nn.relu { rule = "identity_heaviside" }:moments(m, v)
        local b, bv = nn.relu():moments(m, v)
        worst = math.max(worst, (a - b):abs():item(), (av - bv):abs():item())
      end
      assert.is_true(worst < before, t)
      before = worst
      if t == 0 then -- the gate is shut: sigma phi(0), and the variance of the half normal
        near(worst, math.max(.6 / (2 * math.pi) ^ .5, .36 * (.5 - 1 / (2 * math.pi))), 1e-12)
      end
    end
    assert.is_true(before < 1e-13)
  end)
end)

describe("the law of a gate", function()
  it("at sigmoid(C E a) costs least of all, which is what the bound counts", function()
    local x = pn.linspace(-12, 12, 24001)
    local w = (x:square() * -.5):exp()
    w = w / w:sum()
    for _, case in ipairs { { .3, .5, 4 }, { -1, .8, 2 }, { 0, 1, 10 } } do
      local m, s, C = table.unpack(case)
      local a = (x * s + m) * C
      local open, shut = (w * a:log_sigmoid()):sum():item(), (w * (-a):log_sigmoid()):sum():item()
      local function cost(q) return q * math.log(q) + (1 - q) * math.log(1 - q) - q * open - (1 - q) * shut end
      local best = sigmoid(C * m)
      near(cost(best), pn.dist.kl_gate(m, s, C):item(), 1e-9)
      for _, step in ipairs { -1e-2, -1e-4, 1e-4, 1e-2 } do
        local other = best + step * best * (1 - best)
        assert.is_true(cost(other) > cost(best), step)
      end
    end
  end)
end)

describe("draws of the model", function()
  local function layers()
    local prelu = nn.prelu { channels = 3 }
    prelu:parameters()[1]:set(pn.tensor { .1, .3, -.2 })
    local slopes = prelu:parameters()[1]:detach()
    local function of(slope) return function(z) return 0, slope * (1 - z) + z end end
    return { { nn.relu(), of(0) }, { nn.leaky_relu { slope = .2 }, of(.2) }, { nn.leaky_relu(), of(.01) },
      { prelu, of(slopes) }, { nn.hard_tanh(), tanh_pieces }, { nn.hard_tanh { low = -2, high = .5 }, function(u, w)
        return u * .5 - w * 2, (1 - u) * (1 - w)
      end }, { nn.hard_sigmoid(), function(u, w) return u + (1 - u) * (1 - w) * .5, (1 - u) * (1 - w) / 6 end } }
  end

  it("are the piece that the gates have opened, and with hard gates the layer itself", function()
    local f = pn.randn({ 40, 3 }, { generator = pn.generator(6) }) * 2
    for k, case in ipairs(layers()) do
      local y, list = gates.generate(case[1], f, .7, pn.generator(k))
      local open = {}
      for i, gate in ipairs(list) do open[i] = gate.open end
      local a, b = case[2](table.unpack(open))
      near((y - (a + b * f)):abs():max(), 0, 1e-14, k)
      near((gates.generate(case[1], f, math.huge) - case[1](f)):abs():max(), 0, 1e-14, k)
      assert.is_true((y - case[1](f)):abs():max():item() > .1, k)
    end
  end)

  it("open each gate with probability sigmoid(C a), whatever a is", function()
    local m = pn.vbp.learner { network = nn.sequential { nn.linear(2, 30), nn.relu(), nn.linear(30, 20), nn.hard_tanh(),
      nn.linear(20, 1) }, prior_precision = 4, seed = 2, noise_precision = 25 }
    local x = pn.randn({ 400, 2 }, { generator = pn.generator(1) })
    for _, C in ipairs { 1, 10 } do
      local g = m:generate(x, { sharpness = C, generator = pn.generator(5) })
      assert.equal(3, #g.gates)
      for k, gate in ipairs(g.gates) do
        local p = (gate.input * C):sigmoid()
        local n = gate.open:numel()
        assert.is_true(gate.open:eq(0):logical_or(gate.open:eq(1)):all():item())
        for _, weight in ipairs { p * 0 + 1, gate.input, gate.input:gt(0):to "float64" } do
          local error = (weight:square() * p * (1 - p)):sum():sqrt():item()
          assert.is_true(error / n < .02)
          near((weight * (gate.open - p)):sum(), 0, 6 * error, k)
        end
      end
      near((g.y - g.outputs):square():mean() * 25, 1, 6 * (2 / 400) ^ .5)
    end
    local hard = m:generate(x)
    assert.is_true(hard.gates[1].open:eq(hard.gates[1].input:gt(0):to "float64"):all():item())
  end)

  it("have weights of the prior: variances of a wide linear layer", function()
    for prior, want in pairs { normal = .25 } do
      local m = pn.vbp.learner { network = nn.linear(1, 4000, { bias = false }), prior = prior, prior_precision = 4 }
      local f = m:generate(pn.ones { 1, 1 }).outputs
      near(f:square():mean(), want, 6 * want * (2 / 4000) ^ .5)
    end
    -- |w| of a horseshoe of scale s has the median where its distribution function is 1/2: by its own density
    local m = pn.vbp.learner { network = nn.linear(1, 20000, { bias = false }), prior = "horseshoe",
      prior_precision = 4 }
    local w = m:generate(pn.ones { 1, 1 }).outputs:abs():reshape { -1 }
    local grid = pn.linspace(0, 60, 600001):slice(1, 2, 600001) - 5e-5
    local density = (pn.dist.horseshoe(.5):log_prob(grid)):exp()
    for _, at in ipairs { .2, .5, 2 } do
      local share = (density * grid:lt(at):to "float64"):sum():item() * 2e-4
      near(w:lt(at):to("float64"):mean(), share, 6 * .5 / 20000 ^ .5 + 1e-3)
    end
  end)
end)
