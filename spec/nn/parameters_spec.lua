-- What a network holds is found wherever it stands, once, in one order, under one name: for training, saving, counting
-- and divergences.
local pn = require "penumbra"

local nn, dist, optim = pn.nn, pn.dist, pn.optim

local function names(x)
  local list = {}
  for k, entry in ipairs(x:named_parameters()) do
    list[k] = entry[1]
  end
  return list
end

local function forward() end

local function parameter(n)
  return pn.param(pn.ones { n or 1 })
end

local function refuses(pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(pattern, message)
  assert.matches("^[^:]*parameters_spec.lua:%d+: ", message)
end

-- Runs a script in a process of its own, whose tables hash in another way, and returns what it prints.
local function run(script, ...)
  local path = os.tmpname()
  local f = assert(io.open(path, "w"))
  f:write(script)
  f:close()
  local interpreter = os.getenv "LUA" or "lua5.4"
  local pipe = assert(io.popen(table.concat({ interpreter, path, ... }, " ") .. " 2>&1"))
  local text = pipe:read "a"
  local ok = pipe:close()
  os.remove(path)
  assert(ok, text)
  return text
end

describe("what a network holds", function()
  it("is found in lists, tables, modules, distributions, bijectors and factors, under its path", function()
    local flow = dist.transformed(dist.normal(parameter(2), 1):independent(1),
      dist.bijector.chain { dist.bijector.affine(0, parameter(2)), dist.bijector.tanh() })
    local net = nn.module {
      blocks = { nn.linear(2, 3), { deep = nn.sequential { nn.linear(3, 1, { bias = false }) } } },
      table_of = { b = parameter(), a = parameter(), [2] = parameter(), [10] = parameter() },
      flow = flow,
      site = dist.natural.diagonal(parameter(2), pn.ones(2)),
      inner = nn.module { prior = dist.normal { loc = 0, scale = parameter() }, forward = forward },
      plain = { 1, "x", true, pn.ones(3), forward, dist.normal(0, 1), pn.generator(1) },
      forward = forward,
    }
    assert.same({
      "blocks.1.weight", "blocks.1.bias", "blocks.2.deep.1.weight", "flow.1.loc", "flow.2.1.scale",
      "inner.prior.scale", "site.precision_mean", "table_of.2", "table_of.10", "table_of.a", "table_of.b",
    }, names(net))
    assert.equal(6 + 3 + 3 + 2 + 2 + 1 + 2 + 4, net:num_parameters())
    assert.equal(11, #net:parameters())
    local count = 0
    for name in pairs(net:state()) do
      count = count + (net:state()[name]:numel() > 0 and 1 or 0)
    end
    assert.equal(11, count)
    local text = tostring(net)
    assert.matches("blocks: {\n    1: linear%(2 %-> 3%)%s+9\n", text)
    assert.matches("flow: distribution transformed%s+4\n", text)
    assert.matches("23 parameters$", text)
  end)

  it("trains, all of it", function()
    local net = nn.module {
      layers = { nn.linear(1, 4), nn.tanh(), nn.linear(4, 1) },
      noise = { scale = pn.param(pn.tensor { 2.0 }) },
      flow = dist.bijector.affine(pn.param(pn.zeros { 1 }), 1),
      forward = function(self, x)
        for _, layer in ipairs(self.layers) do
          x = layer(x)
        end
        return self.flow(x) * self.noise.scale
      end,
    }
    local before = net:state()
    local opt = optim.adam(net, { lr = 0.1 })
    opt:step((net(pn.ones(3, 1)) - 1):square():sum())
    for name, t in pairs(net:state()) do
      assert.is_true(t:sub(before[name]):abs():max():item() > 0, name)
    end
    net:load_state(before)
    assert.equal(2, net.noise.scale:item())
    assert.is_not_nil(opt:state()["m.layers.1.weight"])
  end)

  it("counts once where it is shared, also through distributions, and cycles end", function()
    local w, layer = parameter(3), nn.bayes_linear(2, 2)
    local net = nn.module {
      a = { w, w }, b = dist.normal(w, 1), c = { layer, { layer } }, forward = forward,
    }
    net.me = net
    net.a.parent = net
    assert.same({ "a.1", "c.1.weight_loc", "c.1.weight_log_scale", "c.1.bias_loc", "c.1.bias_log_scale" }, names(net))
    assert.equal(layer:kl():item(), net:kl():item())
    assert.equal(layer:kl():item(), nn.sequential({ layer, nn.relu(), layer }):kl():item())
    assert.matches("15 parameters$", tostring(net))
  end)

  it("may stand deep, but not without an end", function()
    local w = parameter()
    local function nested(n)
      local t = { w }
      for _ = 1, n do
        t = { t }
      end
      return nn.module { field = t, forward = forward }
    end
    local deep = nested(900)
    assert.equal(1, #deep:parameters())
    assert.equal(0, deep:kl():item())
    assert.equal(1, select(2, tostring(deep):gsub("parameter %[1%]", "")))
    local wide = {} -- more beside each other than may stand within each other
    for k = 1, 1100 do wide[k] = { { w }, {} } end
    wide[1101] = { { parameter() } }
    wide = nn.module { field = wide, forward = forward }
    assert.equal(2, #wide:parameters())
    assert.equal(0, wide:kl():item())
    assert.matches("2 parameters$", tostring(wide))
    for _, n in ipairs { 1100, 200000 } do
      refuses("tables may be nested 1000 deep", names, nested(n))
      refuses("tables may be nested 1000 deep", function() return nested(n):kl():item() end)
      refuses("tables may be nested 1000 deep", pn.save, "no/where", nested(n).field)
      local ok, message = pcall(tostring, nested(n))
      assert.is_false(ok)
      assert.matches("tables may be nested 1000 deep", message)
    end
  end)

  it("of an object of one's own is found too", function()
    local Block = {}
    Block.__index = Block
    function Block.new(n)
      return setmetatable({ layers = { nn.linear(n, n) } }, Block)
    end
    local net = nn.module { block = Block.new(2), forward = forward }
    assert.same({ "block.layers.1.weight", "block.layers.1.bias" }, names(net))
    assert.equal(2, #optim.adam({ Block.new(2) }):parameters())
    assert.equal(2, #optim.adam(Block.new(2)):parameters())
  end)

  it("cannot hide: what cannot be scanned is an error", function()
    local w = parameter()
    local function held(field)
      return nn.module { field = field, forward = forward }
    end
    refuses("'field.1' is a coroutine", names, held { coroutine.create(forward) })
    refuses("'field' is a foreign object", names, held(io.stdout))
    refuses("a parameter under a key that is a table in 'field'", names, held { [{}] = w })
    refuses("a parameter under a key that is a userdata in 'field'", names, held { [w] = true })
    assert.same({ "field.2" }, names(held { [w] = true, [2] = w })) -- it has a name elsewhere
    refuses("two parameters have the name 'field.1.a'", names, held { ["1.a"] = w, { a = parameter() } })
    refuses("'field' was computed from a parameter that is not held here", names, held(w:exp()))
    refuses("'field.scale' was computed from a parameter", names, held(dist.normal(0, w:exp())))
    assert.same({ "field.1" }, names(held { w, dist.normal(0, w:exp()), w * 2 }))
    assert.same({}, names(held(w:exp():detach())))
    assert.has_no_error(function() return held { [{}] = pn.ones(1), [forward] = 1 }:kl() end)
    refuses("'scale' was computed from a parameter", optim.adam, dist.normal(0, w:exp()))
  end)
end)

describe("a divergence of one's own", function()
  local function bayes()
    local layer = nn.bayes_linear(2, 2)
    return nn.module { layer = layer, kl = function() return pn.tensor(3.0) end,
      forward = function(_, x) return layer(x) end }
  end

  it("is used by networks around it, at every nesting, through lists and tables", function()
    local own, plain = bayes(), nn.bayes_linear(2, 1)
    local rest = plain:kl():item()
    assert.equal(3, own:kl():item())
    local function near(want, net)
      assert.is_true(math.abs(net:kl():item() - want) < 1e-12)
    end
    near(3 + rest, nn.sequential { own, plain })
    near(3 + rest, nn.sequential { nn.sequential { own }, plain })
    near(3 + rest, nn.module { parts = { { x = own }, plain }, forward = forward })
    near(3 + rest, nn.sequential { nn.module { parts = { own, plain, own }, forward = forward } })
    near(7, nn.sequential { nn.module { parts = { own, bayes() }, forward = forward, kl = function(self)
      return self.parts[1]:kl() + 4
    end } })
  end)

  it("of an object that inherits it counts too; what is no function is refused", function()
    local Site = {}
    Site.__index = Site
    function Site:kl()
      return self.w:square():sum()
    end
    local site = setmetatable({ w = pn.param(pn.tensor { 1.0, 2.0 }) }, Site)
    local net = nn.module { sites = { site, kl = 7 }, tools = dist, forward = forward }
    assert.equal(5, net:kl():item())
    assert.equal(4, pn.grad(net:kl(), { site.w })[1]:totable()[2])
    refuses("'kl' is a method of every network and must be a function, got number", function()
      return nn.module { kl = 0.5, forward = forward }
    end)
    refuses("'mean' is a method of every network and must be a function, got userdata", function()
      return nn.module { mean = pn.zeros { 2 }, forward = forward }
    end)
    refuses("own kl must return a tensor or a number, got nil", function()
      return nn.sequential({ nn.module { kl = forward, forward = forward } }):kl()
    end)
  end)

  it("stands in an objective", function()
    local net = nn.sequential { bayes() }
    local ll = pn.zeros { 4 }
    assert.equal(-3, pn.infer.elbo({ log_likelihood = ll, kl = net:kl(), num_data = 4 }):item())
  end)

  it("comes with means of one's own", function()
    local own = nn.module { forward = function(_, x) return x end, mean = function(_, x) return x * 10 end }
    local x = pn.ones(2)
    local net = nn.sequential { own, nn.sequential { pn.relu, own }, function(y) return y * 2 end }
    assert.same({ 200, 200 }, net:mean(x):totable())
  end)
end)

describe("flows and distributions", function()
  local function flow()
    pn.seed(5)
    local b = dist.bijector
    return dist.transformed(dist.normal(parameter(2), 1):independent(1), b.chain {
      b.random("masked_autoregressive", 2, { hidden = { 4 } }), b.permutation { 1, 0 },
      b.random("masked_autoregressive", 2, { hidden = { 4 } }) })
  end

  it("list what is to be trained in declared order, parts after", function()
    assert.same({ "1.loc", "2.1.hidden_weight", "2.1.hidden_bias", "2.1.shift_weight", "2.1.shift_bias",
      "2.1.scale_weight", "2.1.scale_bias", "2.3.hidden_weight", "2.3.hidden_bias", "2.3.shift_weight",
      "2.3.shift_bias", "2.3.scale_weight", "2.3.scale_bias" }, names(flow()))
    assert.same({ "loc", "scale" }, names(dist.normal { scale = pn.param(pn.ones(1)), loc = parameter() }))
    local d = dist.normal(parameter(), 1)
    assert.same({ 1, 2 }, { #names(dist.mixture({ 0.5, 0.5 }, { d, dist.normal(0, 1) })),
      #names(dist.mixture(dist.categorical { logits = parameter(2) }, { d, d })) })
    assert.same({}, dist.normal(0, 1):parameters().names)
    assert.equal(1, dist.normal(0, 1):arguments().scale:item())
  end)

  it("are trained, saved, loaded", function()
    local x = pn.randn { 64, 2 } * 0.5 + 3
    local q, path = flow(), os.tmpname()
    local opt = optim.adam(q:parameters(), { lr = 0.05 })
    local function step(d, o)
      return o:step(-d:log_prob(x):mean())
    end
    local first = step(q, opt)
    for _ = 1, 20 do
      step(q, opt)
    end
    assert(pn.save(path, { flow = q:state(), opt = opt:state() }))
    local loaded = assert(pn.load(path))
    os.remove(path)
    local other = flow()
    local again = optim.adam({ other }, { lr = 0.05 })
    other:load_state(loaded.flow)
    assert.same(q:log_prob(x):totable(), other:log_prob(x):totable())
    assert.is_true(step(q, opt) < first)
    refuses("'1.loc' is missing", function() other:load_state {} end)
    assert.equal(13, #again:parameters())
  end)

  local script = [[
    local pn = require "penumbra"
    local b, dist = pn.dist.bijector, pn.dist
    pn.seed(11)
    local function flow()
      return dist.transformed(dist.normal(pn.param(pn.zeros { 2 }), pn.param(pn.ones(2))):independent(1), b.chain {
        b.random("masked_autoregressive", 2, { hidden = { 4 } }), b.permutation { 1, 0 },
        b.random("real_nvp", 2, { hidden = { 4 } }) })
    end
    local held = { flow = flow(), list = { pn.nn.linear(2, 2), alpha = flow(), beta = pn.param(pn.ones(1)) } }
    local x = pn.randn { 32, 2 }
    local opt = pn.optim.adam(held, { lr = 0.05 })
    local function step()
      return opt:step(-held.flow:log_prob(x):mean() - held.list.alpha:log_prob(held.list[1](x)):mean()
        + held.list.beta:square():sum())
    end
    local path, go = arg[1], arg[2]
    local parameters = pn.nn.module { held = held, forward = print }
    if go == "save" then
      for _ = 1, 5 do step() end
      assert(pn.save(path, { model = parameters:state(), opt = opt:state() }))
    else
      local saved = assert(pn.load(path))
      parameters:load_state(saved.model)
      opt:load_state(saved.opt)
    end
    for _ = 1, 3 do print(("%.17g"):format(step())) end
    for _, entry in ipairs(parameters:named_parameters()) do print(entry[1], entry[2]:sum():item()) end
  ]]

  it("go on in another process, with other hashes, bit by bit", function()
    local path = os.tmpname()
    local want = run(script, path, "save")
    assert.matches("held.flow.1.loc", want)
    for _ = 1, 5 do
      assert.equal(want, run(script, path, "load"))
    end
    os.remove(path)
  end)
end)

describe("an optimiser", function()
  it("takes networks, flows, modules, distributions and lists of any of them", function()
    local w = parameter()
    local net, d = nn.linear(2, 1), dist.normal(parameter(), parameter())
    local function count(x)
      return #optim.sgd(x, { lr = 0.1 }):parameters()
    end
    assert.same({ 2, 2, 5, 5, 5, 1 }, { count(net), count(d), count { net, d, w },
      count { net = net, more = { d, { w } } }, count(nn.module { net = net, d = { d }, w = w, forward = forward }),
      count { w, names = { "w" } } })
    assert.same({ "1.weight", "1.bias", "2.loc", "2.scale", "3" },
      optim.sgd({ net, d, w }, { lr = 1 }):parameters().names)
  end)

  it("lets nothing in a table pass in silence", function()
    local w = parameter()
    assert.equal(2, #optim.adam({ w, extra = parameter() }):parameters())
    refuses("'2' must be a tensor, a network or a list, got number", optim.adam, { w, 3 })
    refuses("'b' must be a parameter %(pn.param%), got a plain tensor", optim.adam, { a = w, b = pn.zeros { 1 } })
    refuses("there is no parameter", optim.adam, dist.normal(0, 1))
    refuses("there is no parameter", optim.adam, { nn.relu() })
  end)
end)
