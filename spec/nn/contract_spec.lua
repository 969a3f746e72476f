-- What the contract of layers promises, of rows in C and layers in Lua alike: buffers that change with a step or not at
-- all, modes that belong to calls, moments that pass through networks, options with pairs.
local pn = require "penumbra"
local refuses = require("spec.helper").refused
local nn, optim = pn.nn, pn.optim

-- Centres by a running mean: a layer in Lua with a buffer.
local function centre(size)
  return nn.module {
    running_mean = nn.buffer(pn.zeros { size }),
    gain = pn.param(pn.ones { size }),
    forward = function(self, x)
      if nn.mode() ~= "training" then
        return (x - self.running_mean) * self.gain
      end
      local m = x:mean(1)
      return nn.with_update((x - m) * self.gain, self.running_mean, m, 0.25)
    end,
  }
end

local x = pn.tensor { { 1, 2, 3 }, { 5, 4, 1 } }

describe("a buffer", function()
  it("is named, counted, saved and loaded beside the parameters, and no optimiser has it", function()
    local net = nn.sequential { nn.linear(3, 3), centre(3) }
    assert.equal(1, #net:named_buffers())
    assert.equal("2.running_mean", net:named_buffers()[1][1])
    assert.equal(3, net:num_buffers())
    assert.equal(15, net:num_parameters())
    assert.equal(3, #net:parameters())
    assert.matches("running_mean: buffer %[3%]", tostring(net))
    assert.matches("15 parameters, 3 in buffers$", tostring(net))
    local state = net:state()
    assert.same({ 0, 0, 0 }, state["2.running_mean"]:totable())
    state["2.running_mean"] = pn.tensor { 1, 2, 3 }
    net:load_state(state)
    assert.same({ 1, 2, 3 }, net[2].running_mean:totable())
    assert.is_true(net[2].running_mean:is_buffer())
    assert.is_false(net[2].running_mean:requires_grad())
    state["2.running_mean"] = nil
    refuses("'2.running_mean' is missing", net.load_state, net, state)
  end)

  it("changes with the step, and with nothing else", function()
    local net = centre(3)
    local opt = optim.sgd(net, { lr = 0.1 })
    local loss = net(x):square():sum()
    assert.same({ 0, 0, 0 }, net.running_mean:totable())
    opt:step(loss)
    assert.same({ 0.75, 0.75, 0.5 }, net.running_mean:totable())
    net:evaluate(x)
    net:mean(x)
    pn.no_grad(function() return net(x) end)
    pn.grad(net(x):sum(), net:parameters())
    assert.same({ 0.75, 0.75, 0.5 }, net.running_mean:totable())
    nn.update_buffers(net(x))
    assert.same({ 1.3125, 1.3125, 0.875 }, net.running_mean:totable())
  end)

  it("takes every update of a step, in the order in which they were computed", function()
    local net = centre(3)
    local loss = net(x):sum() + net(x * 2):square():sum()
    optim.sgd(net):step(loss)
    assert.same({ 2.0625, 2.0625, 1.375 }, net.running_mean:totable()) -- 3/4 of 0.75 and a quarter of 6
  end)

  it("stays as it was, with the parameters, when the step is refused", function()
    local net = centre(3)
    local opt = optim.sgd(net, { lr = 0.1 })
    refuses("must be finite", opt.step, opt, net(x):sum() / 0)
    refuses("update of a buffer of shape %[3%] must be finite", function()
      local y = nn.with_update(net(x), net.running_mean, pn.tensor { 1, 0 / 0, 1 }, 1)
      opt:step(y:square():sum())
    end)
    refuses("gradient", opt.step, opt, nn.with_update(pn.param(1), net.running_mean, pn.ones { 3 }))
    assert.same({ 0, 0, 0 }, net.running_mean:totable())
    assert.same({ 1, 1, 1 }, net.gain:totable())
  end)

  it("is found where no gradient flows", function()
    local b, w = nn.buffer(0), pn.param(1)
    local y = nn.with_update(pn.ones {}, b, pn.tensor(4), 0.5)
    optim.sgd { w }:step(w * 1 + y:detach())
    assert.equal(0, b:item())
    optim.sgd { w }:step(w * y)
    assert.equal(2, b:item())
  end)

  it("is replayed with its step, and a refused replay leaves it", function()
    local results = {}
    for k, compiled in ipairs { false, true } do
      pn.seed(1)
      local net = nn.sequential { nn.linear(3, 3), centre(3) }
      local opt = optim.adam(net, { lr = 0.05 })
      local function f(t)
        return net(t):square():sum()
      end
      local step = compiled and pn.compile(f, { optimiser = opt }) or function(t) return opt:step(f(t)) end
      local losses = {}
      for i = 1, 5 do
        losses[i] = step(x * i)
      end
      local before = net:state()
      local ok = pcall(step, x * (0 / 0))
      assert.is_false(ok)
      for name, t in pairs(net:state()) do
        assert.same(before[name]:totable(), t:totable())
      end
      losses[6] = step(x)
      results[k] = { losses, net[2].running_mean:totable(), net[1]:parameters()[1]:totable() }
    end
    assert.same(results[1], results[2])
    local b = nn.buffer(0)
    local bump = pn.compile(function(t)
      local y = nn.with_update(t:sum(), b, t:mean(), 1)
      nn.update_buffers(y)
      return y + b
    end)
    bump(pn.ones { 2 })
    bump(pn.full({ 2 }, 3))
    assert.equal(3, b:item())
    assert.equal(12, bump(pn.full({ 2 }, 4)):item())
  end)

  it("is shared by copies with other parameters, or given anew", function()
    local parameters = require "penumbra.parameters"
    local net = centre(3)
    local copy = parameters.with(net, { gain = pn.full({ 3 }, 2) })
    assert.equal(net.running_mean, copy.running_mean)
    copy = parameters.with(net, { gain = pn.full({ 3 }, 2), running_mean = pn.ones { 3 } })
    assert.same({ 0, 2, 4 }, copy:evaluate(x)[1]:totable())
    net.me = net -- a circle ends
    assert.same({ 2, 2, 2 }, parameters.with(net, { gain = pn.full({ 3 }, 2) }).gain:totable())
    net.me = nil
    refuses("buffer 'running_mean' must be a tensor of shape %[3%]", parameters.with, net,
      { gain = pn.ones { 3 }, running_mean = pn.ones { 2 } })
  end)

  it("moves as PyTorch's running statistics do", function()
    for _, case in ipairs(dofile "spec/golden/autodiff/carry.lua") do
      local mean, variance = nn.buffer(pn.zeros { 3 }), nn.buffer(pn.ones { 3 })
      local w = pn.param(1)
      for k, batch in ipairs(case.batches) do
        local t = pn.tensor(batch)
        local y = nn.with_update(t * w, mean, t:mean(1), case.momentum)
        y = nn.with_update(y, variance, (t - t:mean(1)):square():sum(1) / (t:size(1) - 1), case.momentum)
        optim.sgd({ w }):step(y:sum())
        assert.is_true((mean - pn.tensor(case.mean[k])):abs():max():item() < 1e-15)
        assert.is_true((variance - pn.tensor(case.variance[k])):abs():max():item() < 2e-15)
      end
    end
  end)

  it("is not lost within an equation that odeint solves: that is refused", function()
    local layer = nn.batch_norm(3, { affine = false })
    local function f(_, y)
      return layer(y)
    end
    local t = pn.tensor { 0, 1 }
    refuses("f carries the update of a buffer", pn.odeint, f, x, t)
    assert.same({ 2, 2, 3 }, nn.mode("evaluation", pn.odeint, f, x, t):shape())
  end)

  it("refuses what it cannot be", function()
    refuses("buffer: value must be a tensor or a number, got string", nn.buffer, "x")
    refuses("buffer must be what pn_buffer made", nn.with_update, x, x, x)
    refuses("value must be float64 of the buffer's shape %[3%]", nn.with_update, x, nn.buffer(pn.ones { 3 }), x)
    refuses("rate must lie in %[0, 1%], got 2", nn.with_update, x, nn.buffer(x), x, 2)
  end)
end)

describe("a mode", function()
  it("belongs to the call, down to the innermost layer, and ends with it", function()
    local seen = {}
    local inner = nn.module { forward = function(_, t)
      seen[#seen + 1] = nn.mode()
      return t
    end }
    local net = nn.module { parts = { inner }, forward = function(self, t) return self.parts[1](t) end }
    local outer = nn.sequential { net, nn.linear(3, 2), function(t) return inner(t) end }
    outer(x)
    outer:evaluate(x)
    outer:mean(x)
    assert.same({ "training", "training", "evaluation", "evaluation", "mean", "mean" }, seen)
    assert.equal("evaluation", nn.mode("evaluation", nn.mode))
    refuses("oh", nn.mode, "mean", function() error "oh" end)
    assert.equal("training", nn.mode())
    refuses("mode must be training, evaluation or mean, got testing", nn.mode, "testing", print)
  end)

  it("is evaluation where train.fit validates, also after an error", function()
    local net, seen, w = centre(3), nil, nil
    local function fit(validate)
      return pn.train.fit { data = x, loss = function(t) return net(t):square():sum() end,
        optimiser = optim.sgd(net, { lr = 0.01 }), epochs = 1, validate = validate }
    end
    fit(function()
      seen, w = nn.mode(), net(x)
      return 0
    end)
    assert.equal("evaluation", seen)
    assert.same(net:evaluate(x):totable(), w:totable())
    refuses("no", fit, function() error "no" end)
    assert.equal("training", nn.mode())
  end)

  it("gives a compiled function a plan of its own", function()
    local net = centre(3)
    local f = pn.compile(function(t) return net(t) end)
    assert.same({ -2, -1, 1 }, f(x)[1]:totable())
    assert.same({ 1, 2, 3 }, nn.mode("evaluation", f, x)[1]:totable())
    assert.same({ -2, -1, 1 }, f(x)[1]:totable())
  end)

  it("of means reaches Bayesian layers inside modules, whose own mean goes first", function()
    local layer = nn.bayes_linear(3, 2)
    local net = nn.module { layer = layer, forward = function(self, t) return self.layer(t) * 2 end }
    assert.same((layer:mean(x) * 2):totable(), net:mean(x):totable())
    assert.same((layer:mean(x) * 2):totable(), nn.sequential({ net }):mean(x):totable())
    local own = nn.module { layer = layer, forward = function(self, t) return self.layer(t) end,
      mean = function(self, t) return self(t) + 1 end }
    local around = nn.module { own = own, forward = function(self, t) return self.own(t) end }
    assert.same((layer:mean(x) + 1):totable(), own:mean(x):totable())
    assert.same((layer:mean(x) + 1):totable(), around:mean(x):totable())
  end)
end)

describe("moments", function()
  it("pass through linear and Bayesian layers as drawn inputs do", function()
    pn.seed(5)
    local net = nn.sequential { nn.linear(3, 4), nn.bayes_linear(4, 2, { posterior_scale = 0.3 }) }
    local m, v = pn.tensor { { 0.5, -1, 2 } }, pn.tensor { { 0.3, 0.1, 0.5 } }
    local mean = net:moments(m, v)
    local draws = m + v:sqrt() * pn.randn { 40000, 3 }
    local layer = net[1]
    local cov = layer:moments(m, pn.zeros { 1, 3, 3 } + v:reshape { 1, 3, 1 } * pn.eye(3))
    assert.is_true((cov - layer:mean(m)):abs():max():item() < 1e-12)
    local y = net(draws)
    local n, centred = 40000, y - y:mean(1)
    assert.is_true(((y:mean(1) - mean[1]):abs() / (centred:square():mean(1) / n):sqrt()):max():item() < 6)
    -- one layer at a time the variance is exact: inputs of the second are drawn independently
    local m2, v2 = pn.tensor { { 1, -0.5, 0.2, 0.7 } }, pn.tensor { { 0.2, 0.4, 0.1, 0.3 } }
    local _, exact = net[2]:moments(m2, v2)
    local out = net[2](m2 + v2:sqrt() * pn.randn { 40000, 4 })
    local d = (out - out:mean(1)):square()
    local error = ((d - d:mean(1)):square():mean(1) / n):sqrt()
    assert.is_true(((d:mean(1) - exact[1]):abs() / error):max():item() < 6)
  end)

  it("of a linear layer carry covariances: W' S W", function()
    local layer, s = nn.linear(3, 2), pn.tensor { { 2, 0.5, 0.1 }, { 0.5, 1, 0.2 }, { 0.1, 0.2, 3 } }
    local w = layer:parameters()[1]
    local _, v = layer:moments(x, pn.stack { s, s })
    assert.is_true((v[1] - w:t():matmul(s):matmul(w)):abs():max():item() < 1e-13)
    local _, diagonal = layer:moments(x, pn.stack { s:diagonal(), s:diagonal() })
    local _, full = layer:moments(x, pn.stack { pn.eye(3) * s, pn.eye(3) * s })
    assert.is_true((diagonal[1] - full[1]:diagonal()):abs():max():item() < 1e-13)
  end)

  it("are nil where nothing is uncertain, and refused where a part has none", function()
    local net = nn.sequential { nn.linear(3, 2), nn.tanh(), pn.exp }
    local mean, variance = net:moments(x)
    assert.same(net(x):totable(), mean:totable())
    assert.is_nil(variance)
    refuses("tanh: has no moments of an uncertain input", net.moments, net, x, x:square())
    refuses("part 1 is a function", function() nn.sequential({ pn.exp }):moments(x, x:square()) end)
    refuses("variance must be float64 of the mean's shape %[2, 3%]", function() nn.linear(3, 2):moments(x, x:t()) end)
    refuses("passes variances on, not covariances", function()
      nn.elu():moments(x, pn.ones { 2, 3, 3 })
    end)
  end)

  it("of a module are its own, used by what stands around it", function()
    local double = nn.module { forward = function(_, t) return t * 2 end,
      moments = function(_, m, v) return m * 2, v and v * 4 end }
    local mean, variance = nn.sequential({ double, nn.sequential { double } }):moments(x, x:square())
    assert.same((x * 4):totable(), mean:totable())
    assert.same((x:square() * 16):totable(), variance:totable())
    local plain = nn.module { forward = function(_, t) return t + 1 end }
    assert.same((x + 1):totable(), (plain:moments(x)):totable())
    refuses("this module has no field `moments`", plain.moments, plain, x, x)
  end)
end)

describe("a module", function()
  it("may have no forward, and several inputs", function()
    local pair = nn.module { encode = nn.linear(3, 2), decode = nn.linear(2, 3) }
    assert.equal(4, #pair:parameters())
    refuses("this one has no field `forward`", pair, x)
    local add = nn.module { forward = function(_, a, b, c) return a + b * c end }
    assert.equal(7, add(pn.tensor(1), pn.tensor(2), pn.tensor(3)):item())
    assert.equal(7, add:evaluate(pn.tensor(1), pn.tensor(2), pn.tensor(3)):item())
  end)
end)

describe("networks beside each other", function()
  it("add up in a residual, with a shortcut of its own or without", function()
    local body, shortcut = nn.sequential { nn.linear(3, 3), nn.tanh() }, nn.linear(3, 3)
    assert.same((x + body(x)):totable(), nn.residual(body)(x):totable())
    local net = nn.sequential { nn.residual(body, shortcut), nn.residual(pn.tanh) }
    local h = shortcut(x) + body(x)
    assert.same((h + h:tanh()):totable(), net(x):totable())
    assert.equal("1.body.1.weight", net:named_parameters()[1][1])
    assert.equal(24, net:num_parameters())
    local layer, v = nn.bayes_linear(3, 3), x:square()
    local mean, variance = nn.residual(layer):moments(x, v)
    local m, s = layer:moments(x, v)
    assert.same((x + m):totable(), mean:totable())
    assert.same((v + s):totable(), variance:totable())
    mean, variance = nn.residual(layer):moments(x)
    m, s = layer:moments(x)
    assert.same((x + m):totable(), mean:totable())
    assert.same(s:totable(), variance:totable())
    assert.equal(layer:kl():item(), nn.residual(layer):kl():item())
    assert.same(nn.residual(layer):mean(x):totable(), (x + layer:mean(x)):totable())
    refuses("passes variances on, not covariances", function() nn.residual(layer):moments(x, pn.ones { 2, 3, 3 }) end)
  end)

  it("stand in a row in a concat", function()
    local a, b = nn.linear(3, 2), nn.bayes_linear(3, 4)
    local net = nn.concat { a, b, pn.exp }
    assert.same({ 2, 9 }, net(x):shape())
    assert.same(pn.concatenate({ a(x), b:mean(x), x:exp() }, 2):totable(), net:mean(x):totable())
    assert.same({ 6, 2 }, nn.concat({ a, a, a }, 1)(x):shape())
    local c = nn.linear(3, 3)
    for _, whole in ipairs { nn.concat { a, nn.residual(c) }, nn.residual(nn.sequential { c, pn.tanh }, c),
      nn.sequential { c, pn.tanh } } do
      pn.check_gradients(function() return whole(x):square():sum() end, whole:parameters())
      pn.check_gradients(function() return whole:mean(x):square():sum() end, whole:parameters())
    end
    local mean, variance = net:moments(x)
    assert.same(net:mean(x):totable(), mean:totable())
    assert.same({ 0, 0 }, { variance[1][1]:item(), variance[1][9]:item() })
    local _, s = b:moments(x)
    assert.same(s:totable(), variance:slice(2, 3, 6):totable())
    refuses("concat: part 2 must be a layer, a network or a function, got number", nn.concat, { a, 3 })
    for _, bad in ipairs { 3, "x", {}, nn.sequential { a }, setmetatable({ a }, {}) } do
      refuses("concat: needs a list of networks, as in nn.concat{", nn.concat, bad)
    end
    for _, bad in ipairs { 1.5, 1.0, "1" } do refuses("concat: axis must be a whole number", nn.concat, { a }, bad) end
    refuses("residual: body must be a layer, a network or a function, got nil", nn.residual)
    refuses("a function passes no variance on", net.moments, net, x, x:square())
  end)
end)

describe("batch_norm", function()
  it("keeps its statistics through a refused step, and evaluates with what steps have left", function()
    local layer = nn.batch_norm(3)
    local opt = optim.sgd(layer, { lr = 0.1 })
    local before = layer:state()
    refuses("finite", opt.step, opt, layer(x):sum() * (0 / 0))
    for name, t in pairs(layer:state()) do
      assert.same(before[name]:totable(), t:totable())
    end
    opt:step((layer(x) * x):sum())
    assert.same({ 0.3, 0.3, 0.2 }, { table.unpack(((layer:state().running_mean * 10):round() / 10):totable()) })
    refuses("batch_norm: training needs two values per channel or more, got 1", layer, pn.ones { 1, 3 })
    assert.same({ 1, 3 }, layer:evaluate(pn.ones { 1, 3 }):shape())
  end)
end)

describe("actnorm", function()
  it("starts from its first batch with mean 0 and deviation 1 in each channel", function()
    local layer, t = nn.actnorm(3), pn.randn { 4, 3, 5 } * pn.tensor { { { 2 }, { 0.1 }, { 7 } } } + 3
    local y = nn.fit_actnorm(layer, t)
    assert.is_true(y:mean({ 1, 3 }):abs():max():item() < 1e-14)
    assert.is_true((y:square():mean { 1, 3 } - 1):abs():max():item() < 1e-13)
    assert.same(y:totable(), layer(t):totable())
    local list = layer:parameters()
    for k, g in ipairs(pn.grad((y * t):sum(), list)) do
      assert.same(pn.grad((layer(t) * t):sum(), list)[k]:totable(), g:totable()) -- it has the layer's graph
    end
    refuses("layer must be an actnorm, got linear", nn.fit_actnorm, nn.linear(3, 2), t)
    refuses("actnorm: input must have shape %[batch, 3, %.%.%.%], got %[2, 2%]", nn.fit_actnorm, layer,
      pn.ones { 2, 2 })
    refuses("every channel of x must vary", nn.fit_actnorm, layer, pn.ones { 4, 3 })
  end)
end)

describe("dropout", function()
  it("drops the share it states and keeps the mean, in training and where always says so", function()
    pn.seed(2)
    local n, p = 40000, 0.3
    local ones = pn.ones { n }
    local always = nn.dropout { rate = p, always = true }
    for _, call in ipairs { nn.dropout { rate = p }, function(t) return always:evaluate(t) end } do
      local y = call(ones)
      local dropped = y:eq(0):to "float64":mean():item()
      assert.is_true(math.abs(dropped - p) < 6 * math.sqrt(p * (1 - p) / n))
      assert.is_true(math.abs(y:max():item() - 1 / (1 - p)) < 1e-15)
    end
    local layer = nn.dropout { rate = p }
    assert.same(ones:totable(), layer:evaluate(ones):totable())
    assert.same(ones:totable(), always:mean(ones):totable())
    assert.equal(0, nn.dropout { rate = 1 }(ones):abs():max():item())
    local m, v = pn.tensor { 0.5, -2 }, pn.tensor { 0.3, 1.1 }
    local mean, variance = layer:moments(m, v)
    assert.same(m:totable(), mean:totable())
    local draws = layer((m + v:sqrt() * pn.randn { n, 2 }))
    local d = (draws - draws:mean(1)):square()
    local error = ((d - d:mean(1)):square():mean(1) / n):sqrt()
    assert.is_true(((d:mean(1) - variance):abs() / error):max():item() < 6)
    local _, certain = layer:moments(m)
    assert.is_true((certain - m:square() * (p / (1 - p))):abs():max():item() < 1e-14)
    mean, variance = nn.mode("evaluation", layer.moments, layer, m, v)
    assert.same({ m:totable(), v:totable() }, { mean:totable(), variance:totable() })
  end)
end)

describe("options of layers", function()
  it("are whole numbers and pairs in their range", function()
    assert.equal("conv2d(3 -> 4, kernel = {2, 5}, padding = 1)",
      tostring(nn.conv2d(3, 4, { kernel = { 2, 5 }, padding = 1 })))
    assert.equal("conv2d(3 -> 4, kernel = 3)", tostring(nn.conv2d(3, 4, { kernel = { 3, 3 }, padding = 0 })))
    assert.equal("layer_norm(3, 4)", tostring(nn.layer_norm(3, 4)))
    refuses("conv2d: option kernel must be given", nn.conv2d, 3, 4)
    refuses("kernel must be a whole number in %[1, 1.67772e%+07%] or two of them, got 0x3", nn.conv2d, 3, 4,
      { kernel = { 0, 3 } })
    refuses("kernel must be a whole number in .* got 1.5", nn.conv2d, 3, 4, { kernel = 1.5 })
    refuses("kernel must be a whole number or a list of two", nn.conv2d, 3, 4, { kernel = { 1, 2, 3 } })
    refuses("kernel must be a whole number or a list of two, got string", nn.conv2d, 3, 4, { kernel = "3x3" })
    refuses("groups must be a whole number in .* got 0.5", nn.conv2d, 3, 4, { kernel = 1, groups = 0.5 })
    refuses("groups must divide in and out, 3 and 4, got 2", nn.conv2d, 3, 4, { kernel = 1, groups = 2 })
    refuses("conv2d: input must have shape %[batch, 3, height, width%], got %[2, 4, 5, 5%]",
      nn.conv2d(3, 4, { kernel = 2 }), pn.zeros { 2, 4, 5, 5 })
    refuses("bilinear: x2 must have shape %[%.%.%., 4%], got %[2, 3%]", nn.bilinear(3, 4, 2), x, x)
    refuses("bilinear: x2 must be a tensor, got no value", nn.bilinear(3, 4, 2), x)
    refuses("layer_norm: input must have shape %[%.%.%., 2, 3%], got %[3, 2, 2%]", nn.layer_norm(2, 3),
      pn.zeros { 3, 2, 2 })
    refuses("multi_head_attention: key must have shape %[2, source, 4%], got %[3, 5, 4%]",
      nn.multi_head_attention(4, 2), pn.zeros { 2, 3, 4 }, pn.zeros { 3, 5, 4 })
    refuses("reshape: sizes must be at most 7, of them one %-1, got 2 and 2", nn.reshape, -1, -1)
    refuses("layer_norm: size must be a whole number, got nil", nn.layer_norm)
    refuses("take: index must be whole numbers, got 0.5", nn.embedding(3, 2), pn.tensor { 0.5 })
    refuses("embedding: input must be int64, got bool", nn.embedding(3, 2), x:gt(0))
    refuses("gru: lengths must be int64, got float64", nn.gru(2, 3), pn.zeros { 4, 1, 2 }, pn.ones { 1 })
  end)
end)
