-- What a compiled function finds outside of itself: other values there are noticed, wherever they are; what the
-- function does there is refused; what surrounds a call (no_grad, limits, cancellation, closing) is as for eager calls.
local pn = require "penumbra"
local common = require "spec.autodiff.replay_case"

local nn, optim = pn.nn, pn.optim
local refused, same, trajectories = common.refused, common.same, common.trajectories

local function value(f, x)
  return f(pn.tensor(x or 1)):item()
end

describe("a compiled function is captured anew when", function()
  it("a number of a function that it calls has changed", function()
    local beta = 2
    local function inner(x)
      return x * beta
    end
    local function middle(x)
      return inner(x) + 1
    end
    local f = pn.compile(function(x)
      return middle(x)
    end)
    assert.equal(3, value(f))
    beta = 5
    assert.equal(6, value(f))
    assert.equal(6, value(f))
    assert.equal(2, f:captures())
  end)

  it("a function that it calls was replaced", function()
    local g = function(x) return x + 1 end
    local f = pn.compile(function(x) return g(x) end)
    assert.equal(2, value(f))
    g = function(x) return x + 2 end
    assert.equal(3, value(f))
  end)

  it("a field that it names has changed, at any depth", function()
    local config = { beta = 2, unused = 1, prior = { scale = 3, list = { 1, 2 } } }
    local f = pn.compile(function(x)
      return x * config.beta * config.prior.scale + config.prior.list[2]
    end)
    assert.equal(8, value(f))
    config.unused = config.unused + 1 -- named nowhere in the function
    assert.equal(8, value(f))
    assert.equal(1, f:captures())
    config.beta = 1
    assert.equal(5, value(f))
    config.prior.scale = 1
    assert.equal(3, value(f))
    config.prior.list[2] = 10
    assert.equal(11, value(f))
    config.prior = { scale = 2, list = { 0, 0 } }
    assert.equal(2, value(f))
    assert.equal(5, f:captures())
    config.beta = nil
    refused("y is missing", f, pn.tensor(1))
  end)

  it("a field that it names, a member of a list or a field of a network is new", function()
    local config, empty, list, many = { alpha = 1 }, {}, { 1, 2 }, {}
    local net = nn.module { forward = function(self, x) return x * (self.factor or 1) end }
    for k = 1, 100 do many["unused" .. k] = k end
    local f = pn.compile(function(x)
      for _, one in ipairs(list) do x = x + one end
      return net(x) * (config.beta or 1) + (empty.gamma or 0) + (many.delta or 0) + (rawget(_G, "a_new_global") or 0)
    end)
    assert.equal(4, value(f))
    list[3] = 3
    assert.equal(7, value(f))
    config.beta = 2
    assert.equal(14, value(f))
    empty.gamma = 5
    assert.equal(19, value(f))
    many.unused101 = 1
    assert.equal(19, value(f))
    many.delta = 7
    assert.equal(26, value(f))
    net.factor = 2
    assert.equal(40, value(f))
    rawset(_G, "a_new_global", 1)
    assert.equal(41, value(f))
    rawset(_G, "a_new_global", nil)
    assert.equal(40, value(f))
    assert.equal(8, f:captures())
  end)

  it("may fill a table of its own at its capture", function()
    local memo = {}
    local f = pn.compile(function(x)
      memo[2] = memo[2] or { power = 2 }
      return x ^ memo[2].power
    end)
    assert.equal(9, value(f, 3))
    assert.equal(16, value(f, 4))
    assert.equal(1, f:captures())
  end)

  it("a field among thousands, or of one table among thousands, has changed", function()
    local config, list = {}, {}
    for k = 1, 4000 do
      config["unused" .. k] = k
      list[k] = { beta = 1 }
    end
    for k = 1, 4 do config["beta" .. k] = 1 end -- wherever the order of keys puts them
    local f = pn.compile(function(x)
      return x * (config.beta1 + config.beta2 + config.beta3 + config.beta4 + list[1].beta + list[#list].beta)
    end)
    assert.equal(6, value(f))
    for k = 1, 4 do
      config["beta" .. k] = 2
      assert.equal(6 + k, value(f))
    end
    list[4000].beta = 2
    assert.equal(11, value(f))
    assert.equal(6, f:captures())
    for k = 4001, 6000 do list[k] = { beta = 1 } end -- more tables than are watched
    assert.equal(10, value(f))
    assert.equal(10, value(f))
    assert.equal(8, f:captures())
    list[6000].beta = 3
    assert.equal(12, value(f))
  end)

  it("a field that a long function names last has changed", function()
    local lines = { "local config = ...; return function(x)" }
    for k = 1, 300 do
      lines[#lines + 1] = ("x = x + config.field_%d * 0"):format(k)
    end
    lines[#lines + 1] = "return x * config.last end"
    local config = setmetatable({ last = 2 }, { __index = function() return 1 end })
    local f = pn.compile(assert(load(table.concat(lines, "\n")))(config))
    assert.equal(2, value(f))
    config.last = 5
    assert.equal(5, value(f))
  end)

  it("a field of a table that it hands on has changed", function()
    local config = { gamma = 2 }
    local function read(x, from)
      return x * from.gamma
    end
    local f = pn.compile(function(x)
      return read(x, config)
    end)
    assert.equal(2, value(f))
    config.gamma = 3
    assert.equal(3, value(f))
  end)

  it("a global that it names has changed", function()
    _G.penumbra_spec_rate, _G.penumbra_spec_count = 2, 0 -- luacheck: ignore
    local f = pn.compile(function(x)
      return x * _G.penumbra_spec_rate
    end)
    assert.equal(2, value(f))
    _G.penumbra_spec_count = 1 -- luacheck: ignore
    assert.equal(2, value(f))
    assert.equal(1, f:captures())
    _G.penumbra_spec_rate = 3 -- luacheck: ignore
    assert.equal(3, value(f))
    _G.penumbra_spec_rate, _G.penumbra_spec_count = nil, nil -- luacheck: ignore
  end)

  it("a field of a module or the layer of a network was replaced", function()
    local model = nn.module {
      scale = 2,
      first = nn.linear(1, 1),
      forward = function(self, x)
        return self.first(x) * self.scale
      end,
    }
    local f = pn.compile(function(x)
      return model(x)
    end)
    local x = pn.ones(1, 1)
    same(f(x), model(x):detach(), "module")
    model.scale = 3
    same(f(x), model(x):detach(), "scale")
    model.first = nn.linear(1, 1)
    same(f(x), model(x):detach(), "first")
    assert.equal(3, f:captures())
    local net = nn.sequential { nn.linear(1, 2), nn.tanh() }
    local g = pn.compile(function(t)
      return net(t)
    end)
    same(g(x), net(x):detach(), "sequential")
    net[2] = nn.relu()
    same(g(x), net(x):detach(), "layer 2")
    assert.equal(2, g:captures())
  end)

  it("an object of a class that it uses has changed", function()
    local Model = {}
    Model.__index = Model
    function Model:density(x)
      return x * self.weight + self.bias
    end
    local model = setmetatable({ weight = pn.param(2), bias = 1 }, Model)
    local f = pn.compile(function(x)
      return model:density(x)
    end)
    assert.equal(3, value(f))
    model.bias = 2
    assert.equal(4, value(f))
    model.weight = pn.param(7)
    assert.equal(9, value(f))
    function Model:density(x)
      return x * self.weight * self.bias
    end
    assert.equal(14, value(f))
    assert.equal(4, f:captures())
  end)

  it("something that a compiled part of it sees has changed", function()
    local beta = 2
    local part = pn.compile(function(x)
      return x * beta
    end)
    local f = pn.compile(function(x)
      return part(x) + 1
    end)
    assert.equal(3, value(f))
    beta = 3
    assert.equal(4, value(f))
  end)

  it("the default dtype or no_grad is another", function()
    local w = pn.param(3)
    local function slope(x)
      return pn.grad(w * w * x, { w })[1]
    end
    local f = pn.compile(slope)
    assert.equal(6, value(f))
    local message = select(2, pcall(pn.no_grad, slope, pn.tensor(1)))
    assert.equal(message, select(2, pcall(pn.no_grad, f, pn.tensor(1))))
    assert.equal(6, value(f))
    local g = pn.compile(function(x)
      return x:to "float64" * w
    end)
    assert.equal(3, pn.no_grad(g, pn.tensor(1)):item())
    assert.equal(3, value(g))
    assert.equal(2, g:captures())
    local d = pn.compile(function(x)
      return pn.dist.gamma(2, 1):log_prob(x)
    end)
    assert.equal(-math.huge, value(d, -1))
    pn.validate(true)
    local ok = pcall(value, d, -1)
    pn.validate(false)
    assert.is_false(ok)
    assert.equal(-math.huge, value(d, -2))
    local h = pn.compile(function(x)
      return pn.zeros(2), x
    end)
    assert.equal("float64", h(pn.tensor(1)):dtype())
    pn.default_dtype "float32"
    local narrow = h(pn.tensor(1, { dtype = "float64" })):dtype()
    pn.default_dtype "float64"
    assert.equal("float32", narrow)
  end)
end)

describe("a compiled function sees in place", function()
  it("parameters that were set, trained or loaded, also through views", function()
    local net = nn.linear(2, 1)
    local weight = net:parameters()[1]
    local view = weight:detach():reshape { 2 }
    local f = pn.compile(function(x)
      return net(x), view * 2
    end)
    local x = pn.ones(1, 2)
    f(x)
    weight:set(pn.tensor { { 3 }, { 4 } })
    local y, v = f(x)
    assert.equal(7, y:item())
    assert.same({ 6, 8 }, v:totable())
    net:load_state { weight = pn.tensor { { 1 }, { 1 } }, bias = pn.tensor { 1 } }
    assert.equal(3, (f(x)):item())
    local opt = optim.sgd(net:parameters(), { lr = 1 })
    opt:step(net(x):sum())
    assert.equal(0, (f(x)):item())
    local step = pn.compile(function(t)
      return net(t):sum()
    end, { optimiser = opt })
    step(x)
    assert.equal(-3, (f(x)):item())
    assert.equal(1, f:captures())
  end)
end)

describe("a compiled function is refused that", function()
  it("gives a variable outside another number", function()
    local count, state = 0, { count = 0, log = {} }
    refused("gives 'count', from outside of it, another value", pn.compile(function(x)
      count = count + 1
      return x * count
    end), pn.tensor(1))
    refused("gives 'count', from outside of it, another value", pn.compile(function(x)
      state.count = state.count + 1
      return x * state.count
    end), pn.tensor(1))
    local made
    local f = pn.compile(function(x)
      made = made or 3 -- made once: the same at each call
      return x * made
    end)
    assert.equal(3, value(f))
    assert.equal(3, value(f))
  end)

  it("keeps what it has computed outside", function()
    local hidden, state = pn.zeros {}, { hidden = pn.zeros {} }
    local last
    refused("keeps a tensor that it has computed in 'hidden'", pn.compile(function(x)
      hidden = (hidden + x):tanh()
      return hidden
    end), pn.tensor(1))
    hidden = pn.zeros {}
    refused("keeps a tensor that it has computed in 'hidden'", pn.compile(function(x)
      state.hidden = (state.hidden + x):tanh()
      return state.hidden
    end), pn.tensor(1))
    refused("keeps a tensor that it has computed in 'last'", pn.compile(function(x)
      last = x
      return last * 2
    end), pn.tensor(1))
    local table_of_powers
    local f = pn.compile(function(x)
      table_of_powers = table_of_powers or pn.arange(3) ^ 2
      return (x * table_of_powers):sum()
    end)
    assert.equal(5, value(f))
    assert.equal(10, value(f, 2))
    assert.equal(1, f:captures())
    assert.is_truthy(hidden and last)
  end)
end)

describe("within a compiled function", function()
  it("gradients and their application may be written out, for several optimisers", function()
    for _, dtype in ipairs { "float64", "float32" } do
      local a, b = pn.param(pn.ones(3, { dtype = dtype })), pn.param(pn.ones(3, { dtype = dtype }))
      local first, second = optim.adam({ a }, { lr = 0.1 }), optim.sgd({ b }, { lr = 0.1, momentum = 0.9 })
      local function game(x)
        local up = ((a * x - b) ^ 2):mean()
        first:apply(pn.grad(up, { a }))
        local down = ((a * x - b) ^ 2):mean() + b:square():sum()
        second:apply(pn.grad(down, { b }))
        return up, down
      end
      local function run(f)
        a:set(pn.ones(3, { dtype = dtype }))
        b:set(pn.ones(3, { dtype = dtype }))
        first, second = optim.adam({ a }, { lr = 0.1 }), optim.sgd({ b }, { lr = 0.1, momentum = 0.9 })
        local out = {}
        for k = 1, 20 do
          out[2 * k - 1], out[2 * k] = f(pn.tensor(k / 10, { dtype = dtype }))
        end
        out[41], out[42] = a:detach() * 1, b:detach() * 1
        return out
      end
      local want = run(game)
      local compiled = pn.compile(game)
      local got = run(compiled)
      for i = 1, 42 do
        same(got[i], want[i], "result " .. i)
      end
      assert.equal(1, compiled:captures())
    end
  end)

  it("a failure after an update leaves what the eager call leaves", function()
    local a = pn.param(pn.ones(2))
    local opt = optim.sgd({ a }, { lr = 0.1 })
    local function f(x, m)
      local loss = (a * x * pn.randn(2)):sum()
      opt:apply(pn.grad(loss, { a }))
      local noise = pn.randn(2, 2) * 0
      local l, why = (m + noise):cholesky()
      return l or error(why)
    end
    local compiled = pn.compile(f)
    compiled(pn.ones(2), pn.eye(2))
    local function run(g)
      a:set(pn.ones(2))
      pn.seed(4)
      local ok = pcall(g, pn.ones(2), -pn.eye(2))
      assert.is_false(ok)
      return { a:totable(), pn.rng_state() }
    end
    local want = run(f)
    assert.same(want, run(compiled))
    assert.is_true(want[1][1] ~= 1)
  end)

  it("the learning rate is an input of the plan: no schedule captures anew", function()
    local w = pn.param(pn.ones(3))
    local opt = optim.adam({ w }, { lr = 0.1 })
    local rate = optim.warmup(5, optim.cosine(0.1, 0.001, 15))
    local step = trajectories("schedule", opt, function(x)
      return (w * x):square():sum()
    end, 20, function(k)
      return pn.tensor(k / 20)
    end, function(k)
      opt.lr = rate(k)
    end)
    assert.equal(1, step:captures())
  end)
end)

describe("a replay that is stopped", function()
  local function start()
    local w = pn.param(pn.ones(100))
    local opt = optim.adam({ w }, { lr = 0.1 })
    local step = pn.compile(function(x)
      return (w * x + pn.randn(100)):square():sum(), w * x
    end, { optimiser = opt })
    step(pn.ones(100))
    return w, opt, step
  end

  it("by a limit of memory leaves everything as it was", function()
    local w, opt, step = start()
    local x = pn.ones(100) * 2
    pn.seed(5)
    local before, state, place = w:totable(), opt:state(), pn.rng_state()
    collectgarbage()
    collectgarbage()
    local keep, list = (pn.memory()), {}
    pn.memory_limit(keep)
    local ok, message
    for k = 1, 10000 do -- whatever is pooled is used up before one fails
      ok, message = pcall(function()
        list[k] = pn.ones(100)
      end)
      if not ok then
        break
      end
    end
    local failed, why = pcall(step, x)
    pn.memory_limit(0)
    assert(not ok and #list < 10000 and message:find "memory", message)
    if not failed then
      assert(why:find "memory", why)
      assert.same(before, w:totable())
      assert.same(place, pn.rng_state())
      assert.same(state.step:totable(), opt:state().step:totable())
    end
    assert.is_number((step(x)))
  end)

  it("by closing it has nothing left", function()
    local w, _, step = start()
    step:close()
    assert.same({}, step:plans())
    assert.is_number((step(pn.ones(100)))) -- captured anew
    step = nil -- luacheck: ignore
    collectgarbage()
    assert.equal(100, w:numel())
  end)
end)
