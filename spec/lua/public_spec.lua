--- Every public function and method with arguments that it cannot take: the error names the function, says something
--- about the arguments and stands at the script's line, also where the script calls by `return f(x)`.
local pn = require "penumbra"

local nan, nowhere = 0 / 0, "no/such/folder/x"
local function idle() end

local tiny = pn.model(function(m) m:observe("y", pn.dist.normal(m:sample("z", pn.dist.normal(0, 1)), 1), 1) end)

-- Values to make and pass, each made anew: a call may close what it gets.
local made = {
  tensor = function() return pn.tensor { { 1, 2 }, { 3, 4 } } end,
  distribution = function() return pn.dist.normal(0, 1) end,
  mixture = function() return pn.dist.mixture({ 0.5, 0.5 }, pn.dist.normal({ 0, 1 }, 1)) end,
  bijector = function() return pn.dist.bijector.affine(1, 2) end,
  natural = function() return pn.dist.natural.scalar(1, 1) end,
  layer = function() return pn.nn.linear(2, 3) end,
  bayesian = function() return pn.nn.bayes_linear(2, 3) end,
  recurrent = function() return pn.nn.gru(2, 3) end,
  sequential = function() return pn.nn.sequential { pn.nn.linear(2, 3), pn.nn.relu() } end,
  module = function()
    return pn.nn.module { part = pn.nn.linear(2, 3) } -- errors in a `forward` stand at its own lines
  end,
  optimiser = function() return pn.optim.adam { pn.param(1) } end,
  generator = function() return pn.generator(1) end,
  scaler = function() return pn.data.standardise(pn.ones { 3, 2 }) end,
  sbc = function()
    local model = pn.model(function(m)
      m:observe("y", pn.dist.normal(m:sample("x", pn.dist.normal(0, 1)), 1))
    end)
    return pn.sbc(model, { simulations = 10, draws = 9, sampler = function(observed, n)
      return { x = pn.dist.normal(observed.y / 2, 0.5 ^ 0.5):sample { n } }
    end })
  end,
  calibration = function() return pn.calibration(pn.zeros { 5 }, pn.randn { 4, 5 }) end,
  compiled = function() return pn.compile(function() return pn.ones { 2 } end) end,
  model = function() return tiny end,
  fit = function() return pn.svi(tiny, "mean_field", { steps = 1 }) end,
  posterior = function() return pn.nuts(tiny, { chains = 1, warmup = 5, draws = 5 }) end,
  autoencoder = function() return pn.models.vae { data = 2, latent = 1, hidden = { 2 } } end,
  kvae = function() return pn.models.kvae { units = 2, hidden = { 2 }, belief_draws = 1 } end,
  hmm = function()
    return pn.smc.hmm { initial = { 0.5, 0.5 }, transition = { { 0.9, 0.1 }, { 0.2, 0.8 } },
      emission = pn.dist.normal(pn.tensor { -1, 1 }, 1) }
  end,
  linear_model = function()
    return pn.invariance.linear_model { size = 2, y = pn.ones { 3 }, noise_variance = 0.1 }
  end,
  approximation = function()
    return pn.invariance.linear_model { size = 2, y = pn.ones { 3 }, noise_variance = 0.1 }:approximation { loc = 1,
      variance = { 1, 2 } }
  end,
  normal_law = function()
    return pn.invariance.linear_model { size = 2, y = pn.ones { 3 }, noise_variance = 0.1 }:posterior()
  end,
  dense_law = function()
    return pn.invariance.linear_model { size = 2, y = pn.ones { 3 }, noise_variance = 0.1 }:posterior():dense()
  end,
  permutation_mixture = function()
    return pn.invariance.permutation_mixture(pn.nn.sequential { pn.nn.linear(1, 2), pn.nn.linear(2, 1) },
      { scale = 1 })
  end,
  layer_fit = function()
    return pn.invariance.fit_layers(pn.nn.linear(2, 1), { x = pn.ones { 2, 2 }, y = pn.ones { 2, 1 },
      noise_scale = 1, steps = 1 })
  end,
  learner = function()
    return pn.continual.learner { network = pn.nn.linear(1, 1), likelihood = "bernoulli", seed = 1 }
  end,
  flights = function() return pn.gap.flights { steps = 2 } end,
  traffic_days = function() return pn.gap.traffic_days() end,
  gap_report = function()
    return pn.gap.measure(pn.models.deep_state { hidden = 2 }, nil, { y = pn.ones { 3, 2, 1 } })
  end,
  adaptation = function() return pn.continual.bayesian_forgetting { rate = 0.1 } end,
  forecaster = function() return pn.models.deepar { hidden = 2, layers = 1 } end,
  belief = function() return pn.models.deepar({ hidden = 2, layers = 1 }):filter { y = pn.ones { 2, 1, 1 } } end,
  multisource = function()
    return pn.models.multisource { sources = { a = { size = 1 } }, latent = 1, hidden = { 2 } }
  end,
  report = function()
    return (select(2, pn.fusion.fuse({ a = pn.dist.normal(pn.zeros { 2 }, 0.5):independent(1) }, {
      prior = pn.dist.normal(pn.zeros { 2 }, 1):independent(1) })))
  end,
  series_set = function() return pn.data.series { { target = { 1, 2, 3 } } } end,
  variational_em = function() return pn.models.variational_em { data = 2, latent = 1 } end,
  factor_analysis = function() return pn.models.factor_analysis { data = 2, latent = 1 } end,
  gaussian_mixture = function() return pn.models.gaussian_mixture { data = 2, components = 2 } end,
}

-- Lists of arguments, after the object itself for methods.
local function bad_arguments()
  local x, d = made.tensor(), made.distribution()
  return {
    table.pack(), table.pack {}, table.pack { 1, "x" }, table.pack { k = nowhere }, table.pack(nowhere),
    table.pack(nan), table.pack(true), table.pack(idle), table.pack(nil, 1), table.pack(nil, nil, nan),
    table.pack(nil, {}),
    table.pack(nil, nil, nil, nowhere), table.pack(x, nowhere), table.pack(x, {}), table.pack(x, nil, {}),
    table.pack(x, { k = 1 }), table.pack(x, nan), table.pack(x, 1, {}), table.pack(x, x, {}), table.pack(x, x, nowhere),
    table.pack(d, nowhere), table.pack(d, {}), table.pack(d, { k = 1 }), table.pack(d, nan), table.pack(d, d, nowhere),
    table.pack(d, d, { k = 1 }), table.pack(d, x, x), table.pack({ x }, nowhere), table.pack({ x }, { k = 1 }),
    table.pack({ d }, { k = 1 }), table.pack({ x, 2 }, {}), table.pack({ d, x }, {}),
    table.pack(idle, { k = 1 }),
    table.pack(idle, {}, {}), table.pack(1, { k = 1 }), table.pack(1, {}, {}), table.pack(1, 1, { k = 1 }),
    table.pack(1, 1, 1, { k = 1 }), table.pack(nowhere, {}), table.pack(nowhere, { k = 1 }),
    table.pack(nowhere, x, nan),
    table.pack(nowhere, { a = nan }), table.pack(nowhere .. ".svg", {}),
    table.pack(nowhere .. ".svg", nan),
  }
end

-- What may take anything, or would write into the folder of the test.
local tolerant = { ["pn.help"] = true, ["pn.dist.plot"] = true }

-- Calls visit with each function and every name that it has.
local function each_namespace(visit)
  local named, list = {}, {}
  local function add(label, name, f)
    list[#list + 1] = { label, f }
    named[f] = named[f] or { label:match "([%w_]+)%.[%w_]+$" } -- "natural: ..." of dist.natural.full
    table.insert(named[f], name)
  end
  local function walk(label, t)
    local names, meta = {}, getmetatable(t)
    for _, name in ipairs(type(meta) == "table" and meta.lazy or {}) do local _ = t[name] end
    for name in pairs(t) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
      local value = t[name]
      if type(value) == "function" and value ~= pn.mpi.abort then -- (which ends the process)
        add(label .. "." .. name, name, value)
      elseif type(value) == "table" and value ~= pn then
        walk(label .. "." .. name, value)
      end
    end
  end
  walk("pn", pn)
  for _, name in ipairs { "vae", "variational_em" } do
    walk("models." .. name, require("penumbra.models." .. name))
  end
  for _, entry in ipairs(list) do visit(entry[1], named[entry[2]], entry[2]) end
end

-- What the errors of an object's methods may begin with beside the method's name.
local function kind_of(object)
  local meta = type(object) == "userdata" and getmetatable(object)
  if meta == "penumbra.distribution" or meta == "penumbra.bijector" then return object.name end
  if meta == "penumbra.layer" or meta == "penumbra.optimiser" then return object:type() end
end

local function each_method(visit)
  local pretty = require "penumbra.shell.pretty"
  for kind, make in pairs(made) do
    local names = {}
    for name, f in pairs(pretty.methods(make()) or {}) do
      if type(f) == "function" and not name:find "^_" then names[#names + 1] = name end
    end
    table.sort(names)
    for _, name in ipairs(names) do visit(kind, name, make) end
  end
end

local lines = {}

-- Two ways to call: the line of each is the one that an error must tell.
lines.plain = debug.getinfo(1, "l").currentline + 2
local function plain(f, ...)
  local result = table.pack(f(...))
  return table.unpack(result, 1, result.n)
end

lines.tail = debug.getinfo(1, "l").currentline + 2
local function tail(f, ...)
  return f(...)
end

local here = debug.getinfo(1, "S").short_src

local function shown(v)
  return type(v) == "string" and ("%q"):format(v) or type(v) == "table" and "table" or
    (tostring(v):gsub("\n.*", "")):sub(1, 24)
end

-- What is wrong with a message, or nil.
local function fault(message, line, names)
  if type(message) ~= "string" then return "is no string" end
  local text = message:match("^" .. here:gsub("%p", "%%%0") .. ":" .. line .. ": (.*)$")
  if not text then return "is not at the script's line" end
  for _, sign in ipairs { "attempt to", "bad argument", "nil value", "%.lua:", "%(local", "tail call" } do
    if text:find(sign) then return "is that of the inside" end
  end
  local head = text:match "^(.-): " or text
  for _, name in ipairs(names) do
    local whole = "%f[%w_]" .. name .. "%f[^%w_]"
    if head:find(whole) or text:find(whole .. ": ") then return nil end
  end
  return "does not begin with its name"
end

local function restore()
  pn.validate(false)
  pn.default_dtype "float64"
  pn.memory_limit(0)
end

local function sweep(each)
  local wrong, calls = {}, 0
  each(function(label, names, f, make)
    for _, list in ipairs(bad_arguments()) do
      for how, call in pairs { plain = plain, tail = tail } do
        local given = { n = list.n, table.unpack(list, 1, list.n) }
        if make then
          table.insert(given, 1, make())
          given.n = list.n + 1
          for i = list.n, 1, -1 do given[i + 1] = list[i] end
        end
        local result = table.pack(pcall(call, f, table.unpack(given, 1, given.n)))
        calls = calls + 1
        restore()
        if result[1] and type(result[2]) == "function" then result = table.pack(pcall(call, result[2])) end
        local why = not result[1] and fault(result[2], lines[how], names)
        if why and #wrong < 2000 then
          local texts = {}
          for i = 1, given.n do texts[i] = shown(given[i]) end
          wrong[#wrong + 1] = ("%s(%s): the message %s: %s"):format(label, table.concat(texts, ", "), why,
            tostring(result[2]))
        end
      end
    end
  end)
  return wrong, calls
end

describe("an error", function()
  local position

  before_each(function() position = pn.rng_state() end)
  after_each(function() pn.set_rng_state(position) end)

  it("of a public function names it, at the line of the script", function()
    local wrong, calls = sweep(function(visit)
      each_namespace(function(label, names, f)
        if not tolerant[label] then visit(label, names, f) end
      end)
    end)
    assert.equal("", table.concat(wrong, "\n"))
    assert.is_true(calls > 10000)
  end)

  it("of a method names it or its object, at the line of the script", function()
    local wrong, calls = sweep(function(visit)
      each_method(function(kind, name, make)
        local object = make()
        if name ~= "plot" then visit(kind .. ":" .. name, { name, kind_of(object) }, object[name], make) end
      end)
    end)
    assert.equal("", table.concat(wrong, "\n"))
    assert.is_true(calls > 5000)
  end)

  it("of an object that is called names what it is, at the line of the script", function()
    local said = { sequential = "linear", scaler = "apply", compiled = "compile" }
    local wrong, calls = sweep(function(visit)
      for _, kind in ipairs { "layer", "bayesian", "recurrent", "sequential", "bijector", "scaler", "compiled" } do
        local object = made[kind]()
        visit(kind .. "()", { kind_of(object) or said[kind], kind == "bijector" and "tensor" or nil }, object)
      end
    end)
    assert.equal("", table.concat(wrong, "\n"))
    assert.is_true(calls > 300)
  end)
end)

describe("a public function", function()
  it("lets coroutines yield", function()
    local run = coroutine.wrap(function()
      local net = pn.nn.sequential { function(x) coroutine.yield "in a network" return x * 2 end, pn.exp }
      local value = pn.no_grad(function() coroutine.yield "without a graph" return 7 end)
      return value, net(pn.zeros(1)):item()
    end)
    assert.equal("without a graph", run())
    assert.equal("in a network", run())
    assert.same({ 7, 1 }, { run() })
  end)

  it("goes through networks within networks, however deep", function()
    local net, depth = pn.nn.sequential { function(x) return x + 1 end }, 2000
    for _ = 1, depth do net = pn.nn.sequential { function(x) return x * 2 end, net, function(x) return x - 1 end } end
    assert.equal(1 - depth, net(pn.zeros(1)):item())
    local inner = pn.nn.sequential { pn.nn.linear(2, 2), pn.nn.relu() }
    local outer, x = pn.nn.sequential { inner, pn.exp, inner }, pn.ones { 3, 2 }
    assert.same(inner(pn.exp(inner(x))):totable(), outer(x):totable())
    local g = pn.generator(3)
    local noisy = pn.nn.sequential { pn.nn.sequential { pn.nn.bayes_linear(2, 2) }, pn.nn.relu() }
    local one = noisy(x, g):totable()
    g = pn.generator(3)
    assert.same(pn.nn.relu()(noisy[1][1](x, g)):totable(), one)
  end)

  it("gives and takes any number of values", function()
    assert.same({ n = 0 }, table.pack(pn.no_grad(function() end)))
    assert.same({ n = 3, nil, 2, nil }, table.pack(pn.no_grad(function(...) return ... end, nil, 2, nil)))
    local many = table.pack(pn.no_grad(function(...) return ... end, table.unpack({}, 1, 200)))
    assert.equal(200, many.n)
  end)

  it("of a module that is not yet public says that a tail call has taken the line", function()
    local options = require "penumbra.options"
    local function f() return options.check("adam", { lrr = 1 }, { lr = 1 }) end
    local line = debug.getinfo(1, "l").currentline + 1
    local _, message = pcall(function() local x = f() return x end)
    assert.equal(("%s:%d: (in a tail call below this line) adam: unknown option 'lrr', did you mean 'lr'?"):format(here,
      line), message)
  end)
end)
