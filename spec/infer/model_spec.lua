--- Models: their density against sums written out by hand, what is conditioned, set, hidden and replayed against
--- closed forms, and what is refused at the line that is wrong.
local pn = require "penumbra"
local dist, nn = pn.dist, pn.nn
local model = require "penumbra.infer.model"
local message_of = require("spec.helper").message_of

local function near(got, want, tolerance)
  got = type(got) == "number" and got or got:item()
  assert(math.abs(got - want) <= (tolerance or 1e-10) * math.max(1, math.abs(want)),
    ("got %.15g, want %.15g"):format(got, want))
end

local here = debug.getinfo(1, "S").short_src

-- f raises this pattern at the line of f's first statement, `below` lines under the one where f begins.
local function raises_below(below, pattern, f)
  local line = debug.getinfo(f, "S").linedefined + below
  local message = message_of(f)
  assert(message:find(("%s:%d: "):format(here, line), 1, true) == 1, message .. " should be at line " .. line)
  assert.matches(pattern, message)
end

local function log_normal(x, loc, scale)
  return -0.5 * ((x - loc) / scale) ^ 2 - math.log(scale) - 0.5 * math.log(2 * math.pi)
end

local coin = pn.model(function(m, heads, n)
  local p = m:sample("p", dist.beta(2, 3))
  m:observe("heads", dist.binomial(n, p), heads)
end)

-- A chain a -> b -> y of normals with standard deviation 1.
local chain = pn.model(function(m, y)
  local a = m:sample("a", dist.normal(0, 1))
  local b = m:sample("b", dist.normal(a, 1))
  m:observe("y", dist.normal(b, 1), y)
end)

describe("a model", function()
  before_each(function() pn.seed(7) end)

  it("is shown by its place, and gets its arguments, nils and all", function()
    assert.matches("^model of .*model_spec.lua:%d+$", tostring(coin))
    local n
    local counted = pn.model(function(m, ...)
      n = select("#", ...)
      m:sample("x", dist.normal(0, 1))
    end)
    for want, data in pairs { [0] = {}, [1] = { 7 }, [3] = { nil, 5, false } } do
      model.run(counted, model.packed(data), {})
      assert.equal(want, n)
    end
    local message = message_of(function() pn.model(function() error("enough", 0) end):log_density {} end)
    assert.is_nil(message:find("penumbra/infer", 1, true))
    assert.matches("enough$", message)
  end)

  it("has the log density of its sites", function()
    local want = dist.beta(2, 3):log_prob(0.4):item() + dist.binomial(10, 0.4):log_prob(6):item()
    near(coin:log_density({ p = 0.4 }, 6, 10), want)
    near(coin:log_density({ p = pn.tensor(0.4) }, 6, 10), want)
    near(chain:log_density({ a = 0.5, b = -1 }, 2), log_normal(0.5, 0, 1) + log_normal(-1, 0.5, 1) + log_normal(2, -1,
      1))
  end)

  it("gives a trace with values, laws and the places of its sites", function()
    local t = chain:trace(2)
    near(t:log_density(), chain:log_density(t:values(), 2):item())
    assert.is_true(t.sites.y.observed)
    assert.equal("normal", t.sites.b.dist.name)
    assert.matches("model_spec.lua:%d+", t.sites.b.where)
    assert.matches("y +observed +%[%] +normal", tostring(t))
    assert.is_nil(t:values().y)
  end)

  it("draws what is observed as nil in a trace, and takes it from condition", function()
    assert.equal(0, chain:trace().sites.y.value:ndim())
    near(chain:condition { y = 3 }:trace().sites.y.value, 3)
    near(chain:condition { y = 3 }:log_density { a = 0, b = 1 }, chain:log_density({ a = 0, b = 1 }, 3):item())
    assert.matches("observe: 'y' has no value", message_of(chain.log_density, chain, { a = 0, b = 0 }))
  end)

  it("conditioned, intervened, blocked and replayed has the density of the formulas", function()
    near(chain:condition { b = 1 }:log_density({ a = 0 }, 2), log_normal(0, 0, 1) + log_normal(1, 0, 1)
      + log_normal(2, 1, 1))
    -- do(b): a is not learnt about, the law of b does not count
    near(chain:intervene { b = 1 }:log_density({ a = 0 }, 2), log_normal(0, 0, 1) + log_normal(2, 1, 1))
    near(chain:intervene { y = 9 }:log_density({ a = 0, b = 1 }, 2), log_normal(0, 0, 1) + log_normal(1, 0, 1))
    local t = chain:block { "a" }:trace(2)
    assert.is_nil(t.sites.a)
    near(t:log_density(), t.sites.b.log_prob:item() + t.sites.y.log_prob:item())
    t = chain:block({ "a" }):block({ "b" }):trace(2)
    assert.same({ "y", 1 }, { t.order[1].name, #t.order })
    near(chain:replay { a = 1, b = 2 }:trace(2):log_density(), log_normal(1, 0, 1) + log_normal(2, 1, 1)
      + log_normal(2, 2, 1))
    local first = chain:trace(2)
    near(chain:replay(first):trace(2).sites.b.value, first.sites.b.value:item())
    local both = chain:condition { a = 1 }:intervene { b = 0 }
    near(both:log_density({}, 2), log_normal(1, 0, 1) + log_normal(2, 0, 1))
    near(chain:log_density({ a = 1, b = 0 }, 2), log_normal(1, 0, 1) + log_normal(0, 1, 1) + log_normal(2, 0, 1))
  end)

  it("says of a trace's sites what has become of them", function()
    local t = chain:intervene { b = 1, y = 9 }:trace(2)
    for name, value in pairs { b = 1, y = 9 } do
      local site = t.sites[name]
      assert.same({ "intervened", "normal", value }, { site.kind, site.dist.name, site.value:item() })
      assert.is_nil(site.log_prob)
    end
    assert.same({ "a" }, { next(t:values()), next(t:values(), "a") })
    local flat = pn.model(function(m)
      local low = m:flat("low", "half_line", {}, { low = 2 })
      m:flat("within", "interval", { 2 }, { low = -1, high = 0.5 })
      m:factor("f", -low)
    end)
    local target = flat:target()
    assert.same({ 2 + math.exp(0.5), -0.25 }, { target:constrain(pn.tensor { 0.5, 0, 9 }).low:item(),
      target:constrain(pn.tensor { 0.5, 0, 9 }).within[1]:item() })
    for way, want in pairs { condition = { "flat", true }, intervene = { "intervened" }, replay = { "flat" } } do
      local site = flat[way](flat, { low = 3 }):replay { within = { 0, 0 } }:trace().sites.low
      assert.same({ want[1], 3, want[2] }, { site.kind, site.value:item(), site.observed })
    end
    local walk = pn.model(function(m) m:scan("t", 3, 0, function(x) return m:sample("x", dist.normal(x, 1)) end) end)
    for name, want in pairs { x = "", ["x[2]"] = "x[1] x[3]" } do
      local left = {}
      for k, site in ipairs(walk:block({ name }):trace().order) do left[k] = site.name end
      assert.equal(want, table.concat(left, " "))
    end
  end)

  it("counts plates, plates within plates and factors by their rows", function()
    local nested = pn.model(function(m, y)
      m:plate("groups", 3, function()
        local mu = m:sample("mu", dist.normal(0, 2))
        m:plate("rows", 4, function()
          m:observe("y", dist.normal(mu, 1), y)
          m:factor("f", 0.5)
        end)
        m:factor("g", pn.tensor { 1, 2, 3 })
      end)
    end)
    local mu, y, want = { 0.5, -1, 2 }, pn.arange(12):to("float64"):reshape { 4, 3 } * 0.1, 0
    for j = 1, 3 do
      want = want + log_normal(mu[j], 0, 2) + j + 4 * 0.5
      for i = 1, 4 do want = want + log_normal(y[i][j]:item(), mu[j], 1) end
    end
    near(nested:log_density({ mu = mu }, y), want)
    assert.same({ 4, 3 }, nested:trace(y).sites.y.dist.batch_shape)
    near(nested:trace(y):log_density(), nested:log_density(nested:trace(y):values(), y):item(), 1e9) -- both finite
  end)

  it("has, over all minibatches, the log density of the whole data as its mean", function()
    local taken = pn.model(function(m, y)
      local mu = m:sample("mu", dist.normal(0, 1))
      m:plate("rows", 4, { batch_size = 2 }, function(i)
        local z = m:sample("z", dist.normal(mu, 1):expand { 2 })
        m:observe("y", dist.normal(z, 1), y:take(1, i))
      end)
    end)
    local y, z = pn.tensor { 1, 2, -1, 0.5 }, { 0.3, 0.7, -0.2, 1 }
    local want = log_normal(0.4, 0, 1)
    for i = 1, 4 do want = want + log_normal(z[i], 0.4, 1) + log_normal(y[i]:item(), z[i], 1) end
    local sum, n = 0, 0
    for i = 0, 3 do
      for j = 0, 3 do
        if i ~= j then
          local rows = pn.tensor({ i, j }, { dtype = "int64" })
          local t = model.run(taken, { y }, { indices = { rows = rows }, value = function(_, site)
            return site.name == "mu" and pn.tensor(0.4) or pn.tensor(z):take(1, rows)
          end })
          sum, n = sum + t:log_density():item(), n + 1
        end
      end
    end
    near(sum / n, want)
    assert.same({ 2 }, taken:trace(y).sites.z.value:shape())
  end)

  it("goes through time", function()
    local walk = pn.model(function(m, y)
      m:scan("t", 3, pn.tensor(0), function(x, t)
        x = m:sample("x", dist.normal(x * 0.5, 1))
        m:observe("y", dist.normal(x, 2), y[t])
        return x
      end)
    end)
    local x, y, want, before = { 0.5, 1, -1 }, pn.tensor { 1, 2, 3 }, 0, 0
    for t = 1, 3 do
      want = want + log_normal(x[t], 0.5 * before, 1) + log_normal(y[t]:item(), x[t], 2)
      before = x[t]
    end
    near(walk:log_density({ x = x }, y), want) -- together, time first
    near(walk:log_density({ ["x[1]"] = 0.5, ["x[2]"] = 1, ["x[3]"] = -1 }, y), want)
  end)

  it("trains parameters within their constraint and keeps its state", function()
    local net = nn.linear(2, 1)
    local m = pn.model(function(m, x)
      local s = m:param("s", 2, { constraint = "positive" })
      m:module("net", net)
      m:observe("y", dist.normal(net(x), s), pn.zeros { 3, 1 })
    end)
    assert.equal(0, #m:named_parameters())
    m:trace(pn.ones { 3, 2 })
    near(m:param "s", 2)
    local names = {}
    for k, entry in ipairs(m:named_parameters()) do names[k] = entry[1] end
    assert.same({ "s", "net.weight", "net.bias" }, names)
    assert.same(names, m:parameters().names)
    local state = m:state()
    m:parameters()[1]:set(pn.tensor(5))
    m:load_state(state)
    near(m:param "s", 2)
    assert.matches("load_state: .*'s' is missing", message_of(m.load_state, m, {}))
    assert.matches("load_state: state must be a table", message_of(m.load_state, m, 3))
    state.s = pn.ones { 2 }
    assert.matches("load_state: 's' must have shape %[%], got %[2%]", message_of(m.load_state, m, state))
  end)
end)

describe("a network whose weights are sites", function()
  before_each(function() pn.seed(3) end)
  local net = nn.sequential { nn.linear(2, 3), nn.tanh(), nn.linear(3, 1, { bias = false }) }
  local function make(prior)
    return pn.model(function(m, x, y)
      local f = m:network("net", net, prior)
      m:observe("y", dist.normal(f(x):squeeze(2), 1):independent(1), y)
    end)
  end

  it("keeps the statistics of a batch_norm, which are no weights", function()
    local normed = nn.sequential { nn.linear(2, 3), nn.batch_norm(3), nn.linear(3, 1) }
    local state = normed:state()
    for name, t in pairs(state) do
      if name:find "mean" then state[name] = t + 2 elseif name:find "var" then state[name] = t * 3 end
    end
    normed:load_state(state)
    local x, y, values, at = pn.randn { 5, 2 }, pn.randn { 5 }, {}, {}
    local other = nn.sequential { nn.linear(2, 3), nn.batch_norm(3), nn.linear(3, 1) }
    for name, t in pairs(state) do at[name] = t end
    local want = 0
    for _, entry in ipairs(normed:named_parameters()) do
      local w = pn.randn(entry[2]:shape())
      values["net." .. entry[1]], at[entry[1]] = w, w
      want = want + dist.normal(0, 2):log_prob(w):sum():item()
    end
    other:load_state(at)
    local m = pn.model(function(m)
      local f = m:network("net", normed, 2)
      m:observe("y", dist.normal(f:evaluate(x):squeeze(2), 1):independent(1), y)
    end)
    near(m:log_density(values), want + dist.normal(other:evaluate(x):squeeze(2), 1):log_prob(y):sum():item())
  end)

  it("has the density of weights and output", function()
    local x, y = pn.randn { 5, 2 }, pn.randn { 5 }
    local m, values, want, standard = make(2), {}, 0, 0
    for _, entry in ipairs(net:named_parameters()) do
      local w = pn.randn(entry[2]:shape())
      values["net." .. entry[1]] = w
      want = want + dist.normal(0, 2):log_prob(w):sum():item()
      standard = standard + dist.normal(0, 1):log_prob(w):sum():item()
    end
    near(make():log_density(values, x, y) - m:log_density(values, x, y), standard - want)
    local h = (x:matmul(values["net.1.weight"]) + values["net.1.bias"]):tanh():matmul(values["net.3.weight"])
    want = want + dist.normal(h:squeeze(2), 1):log_prob(y):sum():item()
    local before = net:state()
    near(m:log_density(values, x, y), want)
    for name, w in pairs(net:state()) do assert.same(before[name]:totable(), w:totable()) end
    local called = {}
    make(function(name, shape)
      called[#called + 1] = name .. #shape
      return dist.laplace(0, 1)
    end):trace(x, y)
    assert.same({ "1.weight2", "1.bias1", "3.weight2" }, called)
  end)

  it("lets gradients through to the weights, also of shared layers", function()
    local shared = nn.linear(2, 2)
    local twice = nn.sequential { shared, nn.tanh(), shared }
    local m = pn.model(function(m, x) m:factor("f", m:network("net", twice, 1)(x):sum()) end)
    local b, w = pn.param(pn.randn { 2 }), pn.param(pn.randn { 2, 2 })
    local x = pn.randn { 3, 2 }
    assert(pn.check_gradients(function()
      return m:log_density({ ["net.1.bias"] = b + 0, ["net.1.weight"] = w + 0 }, x)
    end, { b, w }))
  end)

  it("takes the divergence of a module's own posterior from the density once", function()
    local own = nn.bayes_linear(2, 2)
    local with = pn.model(function(m)
      m:module("own", own)
      m:sample("z", pn.dist.normal(0, 2))
    end)
    assert.is_true(own:kl():item() > 0.1)
    near(with:log_density { z = 0.7 }, pn.dist.normal(0, 2):log_prob(0.7):item() - own:kl():item())
  end)

  it("refuses what it cannot draw", function()
    local x, y = pn.randn { 5, 2 }, pn.randn { 5 }
    assert.matches("network: 'net': prior must be a positive standard deviation, a distribution or a function",
      message_of(function() make(-1):trace(x, y) end))
    assert.matches("network: '' has a posterior of its own %(bayes_linear%)", message_of(function()
      pn.model(function(m) m:network("net", nn.bayes_linear(2, 2)) end):trace()
    end))
    assert.matches("network: 'net' stands in plate 'rows': weights are shared", message_of(function()
      pn.model(function(m) m:plate("rows", 2, function() m:network("net", net) end) end):trace()
    end))
    for _, case in ipairs { { "'net' needs a network, got a tensor", "net", x },
      { "'net' needs a network, got number", "net", 3 }, { "'net' has no weights", "net", nn.sequential { nn.tanh() } },
      { "the first argument must be the site's name, a string, got table", net, net },
      { "'net': prior must be a positive standard deviation.* got 0", "net", net, 0 },
      { "'net': prior must be a positive standard deviation.* got string", "net", net, "wide" },
      { "'net': prior must be a positive standard deviation.* got boolean", "net", net, false } } do
      assert.matches("network: " .. case[1], message_of(function()
        pn.model(function(m) m:network(case[2], case[3], case[4]) end):trace()
      end))
    end
  end)
end)

describe("a mistake in a model", function()
  local normal = dist.normal(0, 1)

  it("is told at its line", function()
    raises_below(2, "sample: there is a site 'x' already, at .-model_spec.lua:%d+: each needs a name", function()
      pn.model(function(m)
        m:sample("x", normal) m:sample("x", normal)
      end):trace()
    end)
  end)

  local function at_line(pattern, body, ...)
    local args = table.pack(...)
    local line = debug.getinfo(body, "S").linedefined + 1
    local message = message_of(function() local t = pn.model(body):trace(table.unpack(args, 1, args.n)) return t end)
    assert(message:find(("%s:%d: "):format(here, line), 1, true) == 1, message .. " should be at line " .. line)
    assert.matches(pattern, message)
  end

  it("is told at its line in tail calls too", function()
    at_line("sample: the first argument must be the site's name, a string, got nil", function(m)
      return m:sample()
    end)
    at_line("sample: 'x' needs a distribution, got number", function(m)
      return m:sample("x", 3)
    end)
    at_line("sample: unknown option 'enumerat', did you mean 'enumerate'", function(m)
      return m:sample("x", normal, { enumerat = true })
    end)
    at_line("observe: 'x' has values outside of the support of gamma, which is positive", function(m)
      return m:observe("x", dist.gamma(1, 1), pn.tensor { 1, -1 })
    end)
    at_line("observe: 'x' has values outside of the support of poisson", function(m)
      return m:observe("x", dist.poisson(1), -1)
    end)
    at_line("observe: 'x' needs a value %(a tensor, number or list%), got boolean", function(m)
      return m:observe("x", normal, true)
    end)
    at_line("plate: 'p' needs its size, a whole number from 1 on, got 0", function(m)
      return m:plate("p", 0, print)
    end)
    for size, told in pairs { [4] = "'p': batch_size must be a whole number from 1 to its size 3, got 4",
      [0] = "batch_size must be a whole number from 1 on", [1.5] = "batch_size must be a whole number" } do
      at_line("plate: " .. told, function(m)
        return m:plate("p", 3, { batch_size = size }, print)
      end)
    end
    at_line("plate: 'p' needs its size, a whole number from 1 on, got 2.5", function(m)
      return m:plate("p", 2.5, print)
    end)
    at_line("plate: 'p' needs a function of the rows' indices, got number", function(m)
      return m:plate("p", 3, 4)
    end)
    at_line("plate: the first argument must be the site's name, a string, got nil", function(m)
      return m:plate(nil, 3, print)
    end)
    at_line("scan: 's' needs a function", function(m)
      return m:scan("s", 3, 0)
    end)
    for told, steps in pairs { ["%-1"] = -1, ["2.5"] = 2.5 } do
      at_line("scan: 's' needs the number of steps, a whole number from 0 on, got " .. told, function(m)
        return m:scan("s", steps, 0, print)
      end)
    end
    at_line("scan: the first argument must be the site's name, a string, got number", function(m)
      return m:scan(3, 3, 0, print)
    end)
    at_line("flat: 'x' has no prior", function(m)
      return m:flat "x"
    end)
    at_line("flat: 'x' needs the name of a set or a bijector in second place, got table", function(m)
      return m:flat("x", { 3 })
    end)
    at_line("flat: 'x' needs a shape, a list of sizes, in third place, got 3", function(m)
      return m:flat("x", "real", 3)
    end)
    at_line("factor: 'f' needs a tensor or a number, got string", function(m)
      return m:factor("f", "x")
    end)
    at_line("deterministic: 'd' needs a tensor or a number, got nil", function(m)
      return m:deterministic "d"
    end)
    at_line("module: 'n' needs a network, got number", function(m)
      return m:module("n", 3)
    end)
    at_line("param: unknown option 'constrain', did you mean 'constraint'", function(m)
      return m:param("p", 3, { constrain = "positive" })
    end)
  end)

  it("of a plate's size names plate, axis and sizes", function()
    local function in_plate(d, y)
      return function()
        pn.model(function(m) m:plate("rows", 5, function() m:observe("y", d, y) end) end):trace()
      end
    end
    assert.matches("observe: 'y' has batch shape %[3%], whose axis %-1 must have the 5 rows of plate 'rows', got 3",
      message_of(in_plate(dist.normal(pn.zeros { 3 }, 1), pn.zeros { 5 })))
    assert.matches("observe: 'y' has values of shape %[4%] and a distribution of batch shape %[5%]",
      message_of(in_plate(normal, pn.zeros { 4 })))
    assert.matches("factor: 'f' has shape %[3%], whose axis %-1 must have the 5 rows of plate 'rows', got 3",
      message_of(function()
        pn.model(function(m) m:plate("rows", 5, function() m:factor("f", pn.zeros { 3 }) end) end):trace()
      end))
    assert.matches("plate: 'rows' has size 4 here and 5 elsewhere", message_of(function()
      pn.model(function(m)
        m:plate("rows", 5, function() end)
        m:plate("rows", 4, function() end)
      end):trace()
    end))
    for depth, outer in ipairs { "rows", "more" } do
      assert.matches(("plate: 'rows' stands within itself %%(depth %d%%)"):format(depth), message_of(function()
        pn.model(function(m)
          m:plate(outer, 5, function()
            m:plate("rows", 5, function() m:plate("rows", 5, print) end)
          end)
        end):trace()
      end))
    end
    assert.matches("plate: 'rows' has 2 rows here and 3 elsewhere", message_of(function()
      pn.model(function(m)
        m:plate("rows", 5, { batch_size = 3 }, function() end)
        m:plate("rows", 5, { batch_size = 2 }, function() end)
      end):trace()
    end))
    -- the rows are the same ones wherever the plate stands in a run, each once
    local seen, whole
    pn.model(function(m)
      m:plate("rows", 5, { batch_size = 3 }, function(i) seen = i end)
      m:plate("rows", 5, { batch_size = 3 }, function(i) assert.same(seen:totable(), i:totable()) end)
      m:plate("more", 5, { batch_size = 5 }, function(i) whole = i end)
    end):trace()
    local order = seen:sort():totable()
    assert(#order == 3 and order[1] < order[2] and order[2] < order[3] and order[1] >= 0 and order[3] < 5)
    assert.same({ 0, 1, 2, 3, 4 }, whole:totable())
  end)

  it("in a name is told with the nearest one", function()
    assert.matches("condition: the model has no site 'heds', did you mean 'heads'",
      message_of(function() coin:condition { heds = 1 }:trace(2, 3) end))
    assert.matches("intervene: the model has no site 'c'",
      message_of(function() chain:intervene { c = 1 }:trace(2) end))
    assert.matches("block: the model has no site 'w'", message_of(function() chain:block { "w" }:trace(2) end))
  end)

  it("does not hang on the line above when methods of a model are tail calls", function()
    for name, call in pairs {
      condition = function() return chain:condition(3) end,
      intervene = function() return chain:intervene { 3 } end,
      block = function() return chain:block "x" end,
      replay = function() return chain:replay(3) end,
      log_density = function() return chain:log_density(3) end,
      load_state = function() return chain:load_state(3) end,
      param = function() return chain:param "x" end,
      model = function() return pn.model(3) end,
    } do
      local line = debug.getinfo(call, "S").linedefined
      assert.matches(("^%s:%d: %s: "):format(here:gsub("%p", "%%%0"), line, name), message_of(call))
    end
  end)
end)

describe("what a host of BridgeStan's interface asks of a target", function()
  -- mu, s > 0 in a plate, two points of a simplex; twice = 2 mu
  local function target_of(dtype)
    local one = pn.ones({}, { dtype = dtype })
    return pn.model(function(m)
      local mu = m:sample("mu", dist.normal(one * 0, 2))
      m:plate("rows", 3, function() m:sample("s", dist.gamma(one * 2, 1)) end)
      m:sample("p[1]", dist.dirichlet(pn.ones({ 2, 3 }, { dtype = dtype })))
      m:deterministic("twice", mu * 2)
    end):target()
  end
  local z = pn.tensor { 1.5, -1.5, 0.25, 0.5, -1, 1, 0.75, -0.5 }
  local function same(got, want) assert((got - pn.tensor(want)):abs():max():item() < 1e-12, tostring(got)) end

  it("is the real numbers of each variable, and whether draws need a generator", function()
    local bridge = target_of():bridge()
    local shapes = bridge.shapes:totable()
    for k, row in ipairs { { 0 }, { 1, 3 }, { 2, 2, 2 } } do
      for j = 1, 9 do assert.equal(row[j] or 0, shapes[k][j]) end
    end
    for name, case in pairs { both = { true, true, 1 }, labels = { true, false, 0 }, sites = { false, true, 0 } } do
      local t = pn.model(function(m)
        local x = m:sample("x", dist.normal(0, 1))
        local k = case[1] and m:sample("k", dist.bernoulli(0.3), { enumerate = true })
        if case[2] then m:deterministic("d", k and k * 2 or x) end
        m:observe("y", dist.normal(k and x + k or x, 1), 1)
      end):target()
      assert.equal(case[3], t:bridge().draws, name)
    end
  end)

  it("is the way to real numbers and back, of all values or of some by name", function()
    local t = target_of()
    local bridge = t:bridge()
    same(bridge.unconstrain(t:compiled_values()(z)), z)
    same(bridge.merge(z), z)
    bridge.given.mu, bridge.given.p_1_ = 3, { { 0.2, 0.3, 0.5 }, { 0.1, 0.1, 0.8 } }
    local u = t:unconstrain { mu = pn.tensor(3), s = pn.ones { 3 }, ["p[1]"] = pn.tensor(bridge.given.p_1_) }
    local merged = bridge.merge(z)
    same(merged:slice(1, 2, 4), { -1.5, 0.25, 0.5 })
    same(merged:slice(1, 5, 8), u:slice(1, 5, 8))
    assert.equal(3, merged[1]:item())
    local narrow = target_of "float32"
    bridge = narrow:bridge()
    bridge.given.mu = 3
    assert((bridge.unconstrain(narrow:compiled_values()(z)) - z):abs():max():item() < 1e-5)
    assert.equal(3, bridge.merge(z)[1]:item())
  end)

  it("refuses values outside of the support, and of other shapes", function()
    local bridge = target_of():bridge()
    local function refused(name, value, pattern)
      bridge.given[name] = value
      local ok, message = pcall(bridge.merge, z)
      bridge.given[name] = nil
      assert(not ok and message:find(pattern, 1, true), message)
    end
    for _, v in ipairs { math.huge, -math.huge, 0 / 0 } do
      refused("mu", v, "'mu' lies outside of its support")
    end
    for _, v in ipairs { 0, -1, math.huge } do refused("s", { 1, v, 2 }, "'s' lies outside of its support") end
    refused("p_1_", { { 0.2, 0.3, 0.5 + 1e-6 }, { 0.1, 0.1, 0.8 } }, "'p[1]' lies outside of its support")
    refused("s", { 1, 2 }, "'s' has shape [3], got [2]")
    bridge.given.p_1_ = { { 0.2, 0.3, 0.5 + 1e-10 }, { 0.1, 0.1, 0.8 } } -- of rounding
    assert(bridge.merge(z))
    bridge.given.s, bridge.given.p_1_ = { 1e12, 3e-9, 2 / 3 }, nil
    assert(bridge.merge(z))
  end)

  it("is the density without the bijectors' determinants", function()
    local t = target_of()
    local plan, values, outputs = t:bridge().plain.for_host()
    local want, slope = t:log_density(z, false), pn.param(z)
    local lp, gradient = plan(z)
    near(lp, want:item())
    same(gradient, pn.grad(t:log_density(slope + 0, false), { slope })[1])
    assert((want - t:log_density(z)):abs():item() > 0.1)
    assert.equal(4, #outputs)
    assert.equal(12 - 1, values(z):numel())
  end)
end)
