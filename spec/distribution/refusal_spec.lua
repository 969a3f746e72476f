--- What pn.dist refuses, message by message: for each term of a check one call that this term alone refuses, and beside
--- it the nearest call that is taken.
local pn = require "penumbra"
local refuses = require("spec.helper").refuses

local dist, B, N = pn.dist, pn.dist.bijector, pn.dist.natural

local function same(_, x) return x end
local callable = setmetatable({}, { __call = same })

-- {name = part of the text, function, ...} rows: the text that f(...) raises.
local function all_refused(rows)
  for _, row in ipairs(rows) do
    local ok, message = pcall(row[2], table.unpack(row, 3, row.n or #row))
    assert(not ok and tostring(message):find(row[1], 1, true), ("%s: %s"):format(row[1], tostring(message)))
  end
end

local two = pn.tensor { 0.5, 0.5 }
local line = dist.custom { name = "line", parameters = { { "at", default = 0 }, { "wide", constraint = "positive" } },
  log_prob = function(d, x) return -((x - d.at) / d.wide):square() end,
  icdf = function(d, p) return d.at + p * d.wide end }
local box = dist.custom { name = "box", support = "interval", parameters = { size = "positive" },
  log_prob = function(d) return -d.size:log() end,
  in_support = function(d, x) return x:ge(0):logical_and(x:le(d.size)) end,
  icdf = function(d, p) return p * d.size end }
local flag = dist.custom { name = "flag", support = "boolean", parameters = { p = "unit_interval" },
  log_prob = function(d, x) return x * d.p:log() + (1 - x) * (-d.p):log1p() end,
  icdf = function(d, u) return u:gt(1 - d.p):to "float64" end }
local arrow = dist.custom { name = "arrow", support = "real_vector", event_shape = { 2 }, cdf = same,
  log_prob = function(_, x) return -x:square():sum(-1) end }

describe("a custom kind refuses", function()
  local function kind(o)
    o.log_prob = o.log_prob or same
    return function() return dist.custom(o) end
  end

  it("parameters that are none", function()
    all_refused {
      { "custom: parameters must be a list or a table by name, got both", kind { parameters = { "a", b = "real" } } },
      { "custom: parameters must be {name = {constraint = ...}}", kind { parameters = { a = 3 } } },
      { "custom: parameters must be {name = {constraint = ...}}", kind { parameters = { 3 } } },
      { "custom: parameters must be {name = {constraint = ...}}", kind { parameters = { { {} } } } },
      { "custom: there is no set 'rael'", kind { parameters = { a = "rael" } } },
      { "custom: event_shape must be a list of sizes or a function, got number", kind { event_shape = 3 } },
      { "custom: event_ndim must be a whole number from 1 on, got 0", kind { support = "simplex", event_ndim = 0 } },
    }
    for _, name in ipairs { "kind", "name", "support", "discrete", "dtype", "batch_shape", "event_shape",
      "own_batch_shape", "independent_rank", "parts", "checks", "plain" } do
      refuses(("custom: parameter '%s' has the name of a field"):format(name), kind { parameters = { name } })
    end
    for _, name in ipairs { "mean", "rsample_log_prob", "named_parameters", "plot", "to" } do
      refuses(("custom: parameter '%s' has the name of a method"):format(name), kind { parameters = { name } })
    end
  end)

  it("functions that are none, and supports with ends of their own without in_support", function()
    for _, name in ipairs { "log_prob", "rsample", "sample", "mean", "variance", "mode", "entropy", "cdf", "icdf",
      "log_cdf", "log_survival", "in_support", "bijector" } do
      refuses(("custom: %s must be a function, got a callable table"):format(name), kind { [name] = callable })
    end
    for _, set in ipairs { "interval", "half_line", "trials", "integer_interval", "atom", "point" } do
      refuses(("custom: support '%s' depends on parameters: give in_support = function(d, x)"):format(set),
        kind { support = set })
      assert(kind { support = set, in_support = same }())
    end
    assert(kind { support = "unit_interval" }())
  end)

  it("values of its parameters that do not fit", function()
    local table_kind = dist.custom { name = "grid", parameters = { { "m", event_ndim = 2 } }, log_prob = same }
    local by_name = dist.custom { name = "pair", parameters = { a = "real", b = "real" }, log_prob = same }
    local none = dist.custom { name = "none", log_prob = same }
    local flat = dist.custom { name = "flat", support = "real_vector", log_prob = same, event_shape = function(v)
      return v.n:item()
    end, parameters = { n = "real" } }
    all_refused {
      { "grid: m must have at least 2 axes, got shape [2]", table_kind, { 1, 2 } },
      { "pair: parameters must be given by name (declare them in a list to have an order)", by_name, 1 },
      { "pair: parameters must be given by name", by_name, nil, 1, n = 4 },
      { "line: number of positional parameters must be at most 2, got 3", line, 0, 1, 2 },
      { "none: parameters must be given by name (declare them in a list to have an order)", none, 1 },
      { "line: wide is missing", line, 1 },
      { "box: number of positional parameters must be at most 1, got 2", box, nil, 2 },
      { "line: at must be a tensor, a number or a list of numbers, got 'x'", line, "x", 1 },
      { "flat: event_shape must give 1 sizes (or a parameter must have event_ndim = 1), got number", flat, 3 },
      { "line: batch shapes of the parameters must broadcast, got [2, 3] for wide after [4, 1]", line,
        pn.zeros { 4, 1 }, pn.ones { 2, 3 } },
    }
    assert.same({ {}, {} }, { none().batch_shape, none({}).event_shape })
    assert.same({ 2 }, table_kind(pn.ones { 2, 3, 3 }).batch_shape)
    assert.equal(2, line(1, 2).wide:item())
    assert.equal(3, box(3).size:item()) -- one parameter has an order
    -- those that are given by name stand in the order of the alphabet
    local letters, shown, values = {}, {}, {}
    for k = 0, 25 do
      local letter = string.char(97 + k * 7 % 26)
      letters["p_" .. letter], values["p_" .. letter], shown[k + 1] = "real", k, "p_" .. string.char(97 + k) .. " = "
    end
    local at = 1
    local text = tostring(dist.custom { name = "many", parameters = letters, log_prob = same }(values))
    for _, name in ipairs(shown) do at = assert(text:find(name, at, true), name) end
  end)
end)

describe("a distribution of a script refuses", function()
  local d = line(pn.zeros { 2, 3 }, 1)

  it("shapes that do not fit", function()
    all_refused {
      { "line: independent: k must be a number of batch axes, 0 to 2, got 3", d.independent, d, 3 },
      { "line: independent: k must be a number of batch axes, 0 to 2, got -1", d.independent, d, -1 },
      { "line: independent: k must be a number of batch axes, 0 to 2, got 1.5", d.independent, d, 1.5 },
      { "line: validate: on must be true or false, got number", d.validate, d, 1 },
      { "line: expand: batch shape [2, 3] does not broadcast to [2, 4]", d.expand, d, { 2, 4 } },
      { "line: expand: batch shape [2, 3] does not broadcast to [-1, 2, 3]", d.expand, d, -1, 2, 3 },
      { "line: expand: batch shape [2, 3] does not broadcast to [2.5, 2, 3]", d.expand, d, { 2.5, 2, 3 } },
      { "line: to: dtype must be 'float64' or 'float32', got int64", d.to, d, "int64" },
      { "line: to: dtype must be 'float64' or 'float32', got nil", d.to, d },
      { "line: a distribution does not change; make another", function() d.where = 3 end },
      { "arrow: log_prob: x must have the event's axes, got shape [] for batch [] and event [2]", function()
        return arrow():log_prob(0)
      end },
      { "arrow: log_prob: x must end with the event's sizes, got shape [3] for batch [] and event [2]", function()
        return arrow():log_prob { 1, 2, 3 }
      end },
      { "line: log_prob: x must broadcast with the batch, got shape [4, 3] for batch [2, 3] and event []", d.log_prob,
        d, pn.zeros { 4, 3 } },
      { "line: log_prob: x would be stretched along an axis of size 1 (say so with :broadcast_to)", d.log_prob, d,
        pn.zeros { 2, 1 } },
      { "line: log_prob: x must be float64 as the parameters are, got float32 (convert with :to)", d.log_prob, d,
        pn.zeros({ 2, 3 }, { dtype = "float32" }) },
      { "line: log_prob: x must be a tensor, a number or a list, got function", d.log_prob, d, same },
      { "line: log_prob: x must be a tensor, a number or a list, got table", d.log_prob, d, d },
    }
    local narrow = line(pn.zeros { 2, 1 }, 1)
    refuses("line: log_prob: x has fewer axes than the batch and differs from it", narrow.log_prob, narrow,
      pn.zeros { 3 }:reshape { 3 })
    assert.same({ 2, 3 }, narrow:log_prob(pn.zeros { 2, 3 }):shape())
    local i = d:independent(1)
    refuses("line: log_prob: x must end with the event's sizes, got shape [2, 1] for batch [2] and event [3]",
      i.log_prob, i, pn.zeros { 2, 1 })
    local bad = dist.custom { name = "bad", log_prob = same, cdf = function() return pn.zeros { 3 } end,
      mean = function() return pn.zeros { 3 } end }(nil)
    refuses("bad: cdf must return shape [2], got [3]", bad.cdf, bad, { 0, 1 })
    refuses("bad: mean must return shape [], got [3]", bad.mean, bad)
    assert.equal(d, d:independent(0))
    assert.equal(d, d:expand { 2, 3 })
    assert.same({ 0, 2, 3 }, d:expand(0, 2, 3).batch_shape)
    assert.same({ 2, 3 }, narrow:expand(2, 3).batch_shape)
    assert.same({ { 2 }, { 3 } }, { d:independent(1).batch_shape, d:independent(1).event_shape })
    assert.same({ { 5, 2 }, { 3 } }, { d:independent(1):expand(5, 2).batch_shape, d:independent(1):expand(5, 2)
      .event_shape })
    assert.same({ { 2 }, { 3 }, 1 }, { d:independent(1):to("float32").batch_shape, d:independent(1):to("float32")
      .event_shape, d:independent(1):to("float32").independent_rank })
    assert.same({ { 2, 3 }, 1 }, { d:arguments().at:shape(), d:arguments().wide:item() })
  end)

  it("points outside of its support where they are validated", function()
    local b = box(2)
    assert.same({ -math.huge, -math.log(2), -math.log(2), -math.log(2), -math.huge },
      b:log_prob({ -0.1, 0, 1, 2, 2.1 }):totable())
    refuses("box: x must be", function() b:validate():log_prob(2.1) end)
    refuses("flag: x must be", function() flag(0.3):validate(true):log_prob(0.5) end)
    assert.equal(-math.huge, b:validate():validate(false):log_prob(2.1):item())
    assert.equal(-math.log(2), b:validate():log_prob(2):item())
    for _, other in ipairs { b:expand { 1 }, b:to "float32", b:expand({ 1 }):independent(1):expand { 1 } } do
      assert.equal(-math.huge, other:log_prob(pn.full(other.event_shape, 2.5, { dtype = other.dtype })):max():item())
    end
    refuses("box: x must be", function() b:expand({ 3 }):validate():expand({ 2, 3 }):log_prob(2.1) end)
    refuses("box: x must be", function() b:validate():to("float32"):log_prob(2.1) end)
    refuses("box: x must be", function() box({ 1, 2 }):independent(1):validate():log_prob { 0.5, 2.1 } end)
    assert.same(-math.huge, box({ 1, 2 }):independent(1):log_prob({ 0.5, 2.1 }):item())
    refuses("box: x must be", function() box { size = 2, validate = true }:log_prob(2.1) end)
    pn.validate(true)
    local ok, message = pcall(b.log_prob, b, 2.1)
    local fine, free = pcall(b.validate(b, false).log_prob, b:validate(false), 2.1)
    pn.validate(false)
    assert(not ok and message:find("box: x must be", 1, true), message)
    assert(fine and free:item() == -math.huge)
    refuses("box: validation of a support of its own cannot be part of a compiled function", function()
      pn.compile(function(x) return b:validate():log_prob(x) end)(pn.ones { 2 })
    end)
    for what, f in pairs { int64 = function(_, x) return x:to "int64" end, number = function() return 3 end } do
      local wrong = dist.custom { name = "wrong", support = "interval", log_prob = same, in_support = f }
      refuses("wrong: in_support must return a bool tensor, got " .. what, function() wrong():log_prob(1) end)
    end
  end)

  it("functions that it lacks, by name", function()
    local bare = dist.custom { name = "bare", log_prob = same }()
    local function missing(text, f, ...) assert.equal(text, tostring(select(2, pcall(f, ...))):sub(-#text)) end
    for _, f in ipairs { "mean", "variance", "stddev", "mode" } do
      missing(("bare: %s does not exist"):format(f), bare[f], bare)
    end
    all_refused {
      { "bare: entropy does not exist (entropy_monte_carlo estimates it)", bare.entropy, bare },
      { 'bare: sample does not exist (what gives it is sample, rsample or icdf: pn.help "pn.dist.custom")', bare.sample,
        bare },
      { "bare: rsample does not exist: its draws have no derivative in the parameters", bare.rsample, bare },
      { "flag: rsample does not exist: its draws have no derivative in the parameters", function()
        return flag(0.3):rsample()
      end },
    }
    for _, f in ipairs { "cdf", "icdf", "log_cdf", "log_survival" } do
      missing(("line: %s does not exist after independent"):format(f), d[f], d:independent(1), 0)
      missing(("bare: %s does not exist"):format(f), bare[f], bare, 0)
    end
    missing("line: mean does not exist", d.mean, d:independent(1))
    missing("arrow: cdf does not exist", function() return arrow():cdf { 1, 2 } end)
  end)

  it("sizes that are none, and takes them in each way", function()
    local one = line(0, 1)
    all_refused {
      { "line: sample: sizes must be whole numbers, got 2.5", one.sample, one, 2.5 },
      { "line: sample: sizes must be whole numbers, got x", one.sample, one, { "x" } },
      { "line: rsample: size must not be negative, got -2", one.rsample, one, 3, -2 },
      { "line: sample: unknown option 'seed'; known: generator", one.sample, one, { 2, seed = 1 } },
      { "line: sample: sizes must be whole numbers, got function", one.sample, one, same },
      { "line: sample: sizes must be whole numbers, got ", one.sample, one, pn.ones { 2 } },
    }
    local want = one:sample({ 2, 3, generator = pn.generator(7) }):totable()
    assert.same(want, one:sample(2, 3, pn.generator(7)):totable())
    assert.same(want, one:sample({ 2, 3 }, pn.generator(7)):totable())
    assert.same(want, one:sample({ 2 }, 3, pn.generator(7)):totable())
    assert.same(want, one:rsample({ 2, 3, generator = pn.generator(7) }):totable())
    assert.same({ 0, 4 }, one:sample(0, 4):shape())
    assert.same({ 2 }, one:sample(nil, 2):shape())
    assert.same(want, pn.rand({ 2, 3 }, { generator = pn.generator(7) }):totable()) -- by inversion: at + p wide
    local u = pn.rand({ 50 }, { generator = pn.generator(8) })
    assert.same(u:gt(0.7):to("float64"):totable(), flag(0.3):sample({ 50 }, pn.generator(8)):totable())
  end)

  it("nothing that is a number, a truth value or a whole number", function()
    local f = flag(0.3)
    assert.near(math.log(0.3), f:log_prob(true):item(), 1e-15)
    assert.near(math.log(0.7), f:log_prob(false):item(), 1e-15)
    assert.near(math.log(0.7), f:log_prob(0):item(), 1e-15)
    assert.near(math.log(0.3), f:log_prob(pn.tensor(1, { dtype = "int64" })):item(), 1e-15)
    assert.same({ 0, 2, 0.5 }, box(2):icdf({ 0, 1, 0.25 }):totable())
    local outside = box(2):icdf { -1e-9, 1 + 1e-9 }
    assert.is_true(outside:isnan():all():item())
  end)
end)

describe("a custom bijector refuses", function()
  local function kind(o)
    o.forward, o.inverse, o.log_det = o.forward or same, o.inverse or same, o.log_det or same
    return function() return B.custom(o) end
  end

  it("what is no map", function()
    for _, name in ipairs { "forward", "inverse", "log_det" } do
      refuses(("custom: %s must be a function, got a callable table"):format(name), kind { [name] = callable })
    end
    all_refused {
      { "custom: event_ndim must be at least 2, as members of the sets have, got 1",
        kind { codomain = "positive_definite", event_ndim = 1 } },
      { "custom: event_ndim must be at least 1, as members of the sets have, got 0",
        kind { domain = "real_vector", event_ndim = 0 } },
      { "custom: event_ndim must be a whole number from 0 on, got -1", kind { event_ndim = -1 } },
      { "custom: there is no set", kind { codomain = "positve" } },
    }
    local rising = kind { name = "rising", domain = "real_vector", codomain = "positive_definite" }()()
    assert.same({ 1, 2 }, { rising.domain_rank, rising.codomain_rank })
    local wide = kind { domain = "real_vector", codomain = "positive_definite", event_ndim = 3 }()()
    assert.same({ 2, 3 }, { wide.domain_rank, wide.codomain_rank })
    all_refused {
      { "rising: forward: argument must have at least 1 axes, got 0", rising.forward, rising, 1 },
      { "rising: inverse: argument must have at least 2 axes, got 1", rising.inverse, rising, { 1 } },
      { "rising: forward: argument must be a tensor, a number or a list, got string", rising.forward, rising, "x" },
      { "rising: a bijector does not change; make another", function() rising.where = 3 end },
    }
    assert.equal("bijector rising", tostring(kind { name = "rising" }()))
    local scaled = kind { name = "scaled", parameters = { { "by" } } }()(pn.tensor { 2, 3 })
    assert.same({ by = { 2, 3 } }, { by = scaled:arguments().by:totable() })
    assert.equal("float64", scaled.dtype)
    local function double(_, x) return x * 2 end
    local doubled = kind { name = "doubled", domain = "positive", codomain = "nonnegative", forward = double,
      inverse = function(_, y) return y / 2 end, log_det = function(_, x) return x * 0 + math.log(2) end }()()
    assert.same({ 2, 6 }, doubled({ 1, 3 }):totable())
    local back, slope = doubled:inverse_log_det { 2, 6 }
    assert.same({ { 1, 3 }, { math.log(2), math.log(2) } }, { back:totable(), slope:totable() })
    local both = B.chain { doubled, kind { name = "mine", domain = "nonnegative" }()() }
    assert.same({ "positive", "real" }, { both.domain, both.codomain })
    assert.is_nil(rising.dtype)
    for _, name in ipairs { "forward", "inverse" } do
      local b = kind { name = "bad", [name] = function() return 3 end }()()
      refuses(("bad: %s must return a tensor, got number"):format(name), b[name], b, 1)
    end
    refuses("bad: log_det must return shape [2], got [3]", function()
      return kind { name = "bad", log_det = function() return pn.zeros { 3 } end }()():log_abs_det { 1, 2 }
    end)
    assert.is_false(B.is(3))
    assert.is_false(B.is {})
    assert.is_true(B.is(scaled))
  end)

  it("chains that do not fit", function()
    local mine = kind { name = "mine" }()()
    all_refused {
      { "chain: bijectors must be a list, got number", B.chain, 3 },
      { "chain: part 2 must be a bijector, got 3", B.chain, { mine, 3 } },
      { "chain: beside a script's bijectors each must keep the number of axes, and cholesky (number 2) does not",
        B.chain, { mine, B.cholesky() } },
      { "chain: values of exp must be", B.chain, { mine, B.exp(), B.inverse(B.softmax_centred()) } },
      { "exp: number of positional parameters must be at most 0, got 1", B.exp, 2 },
      { "affine: number of positional parameters must be at most 2, got 3", B.affine, 1, 2, 3 },
      { "random: name must be that of a bijector with weights, got 'nil'", B.random, nil, 2 },
      { "random: hidden must have 1 or 2 sizes, got 0", B.random, "real_nvp", 4, { hidden = {} } },
      { "random: hidden must have 1 or 2 sizes, got 3", B.random, "real_nvp", 4, { hidden = { 2, 2, 2 } } },
      { "random: n must be a whole number from 1 on, got 0", B.random, "planar", 0 },
    }
  end)
end)

describe("what is made of distributions refuses", function()
  local cut = dist.truncated(dist.normal(pn.tensor { 0, 1, 2 }, 1), 0)
  local one, pair = dist.truncated(dist.normal(0, 1), 0), dist.normal({ 0, 1 }, 1)

  it("parts that do not fit", function()
    local together = B.custom { name = "together", event_ndim = 1, forward = same, inverse = same,
      log_det = function(_, x) return x:sum(-1) * 0 end }()
    all_refused {
      { "masked: mask must be a bool tensor, got number", dist.masked, one, 3 },
      { "masked: mask must be a bool tensor, got float64", dist.masked, one, pn.ones { 2 } },
      { "masked: mask and batch must broadcast, got [2] and [3]", dist.masked, cut, pn.tensor { true, false } },
      { "transformed: map must be a bijector, got 3", dist.transformed, one, 3 },
      { "transformed: values of the base must be a finite number for together, got categorical on 'integer_interval'",
        dist.transformed, dist.categorical { 0.5, 0.5 }, together },
      { "transformed: base must have at least 1 axes for together, got 0", dist.transformed, dist.normal(0, 1),
        together },
      { "mixture: component 2 must be a distribution, got 3", dist.mixture, two, { one, 3 } },
      { "mixture: components must be a distribution or a list, got number", dist.mixture, two, 3 },
      { "mixture: a list must have at least 2 components, got 1", dist.mixture, { 1 }, { one } },
      { "mixture: there must be 2 components, as there are weights, got 3", dist.mixture, two, { one, one, one } },
      { "mixture: components of a script along a batch axis come before independent: give a list", dist.mixture, two,
        line(pn.zeros { 2, 2 }, 1):independent(1) },
      { "mixture: components along a batch axis are possible of kinds with parameters, got truncated: give a list",
        dist.mixture, { 0.2, 0.3, 0.5 }, cut },
      { "mixture: the last batch axis of the components must have the 2 of the weights, got 3", dist.mixture, two,
        line(pn.zeros { 3 }, 1) },
      { "mixture: the last batch axis of the components must have the 2 of the weights, got nil", dist.mixture, two,
        line(0, 1) },
      { "mixture: components must have one support, event shape and dtype, got another for number 2", dist.mixture, two,
        { one, dist.gamma(1, 1) } },
      { "mixture: components must have one support, event shape and dtype, got another for number 2", dist.mixture, two,
        { one, one:expand({ 1 }):independent(1) } },
      { "mixture: components must have one support, event shape and dtype, got another for number 2", dist.mixture, two,
        { one, one:to "float32" } },
      { "mixture: batches of weights and components must broadcast, got [2] and [3]", dist.mixture,
        pn.full({ 2, 2 }, 0.5), { one, cut } },
      { "mixture_of_experts: experts must be a distribution or a list, got number", dist.mixture_of_experts, 3 },
      { "normal: loc must be numbers in lists of equal lengths (tensor: lists of one level", dist.normal,
        { { 1 }, { 2, 3 } }, 1 },
      { "bernoulli: number of positional parameters must be at most 1, got 2", dist.bernoulli, 0.5, 1 },
      { "normal: number of positional parameters must be at most 2, got 3", dist.normal, 0, 1, 2 },
      { "kl: q must be a distribution, got 3", dist.kl, one, 3 },
      { "kl: p must be a distribution, got 3", dist.kl, 3, one },
      { "expanded: d must be a distribution, got 3", dist.expanded, 3, { 1 } },
      { "independent: d must be a distribution, got 3", dist.independent, 3, 1 },
      { "biject_to: truncated: poisson is discrete", dist.biject_to, dist.truncated(dist.poisson(3), 1) },
      { "biject_to: set must be the name of a set or a distribution, got table", dist.biject_to, {} },
    }
    for _, experts in ipairs { dist.normal(0, 1), dist.normal(pn.zeros { 0 }, 1), {}, { 3 } } do
      refuses("mixture_of_experts: experts must be at least 1 distribution, along a last batch axis or in a list",
        dist.mixture_of_experts, experts)
    end
    local alone = { dist.normal(0, 1) }
    assert.equal(alone[1], dist.mixture_of_experts(alone))
    assert.equal("mixture", dist.mixture_of_experts(dist.normal({ 0 }, 1)).name)
    -- numbers mapped together take batch axes of the base as events, no more than they need
    local d = dist.transformed(dist.normal(pn.zeros { 4, 3 }, 1), together)
    assert.same({ { 4 }, { 3 } }, { d.batch_shape, d.event_shape })
    assert.same({ 2, 3 }, dist.expanded(cut, { 2, 3 }).batch_shape)
    assert.same({ 3 }, dist.independent(cut, 1).event_shape)
  end)

  it("limits and gates that do not fit", function()
    local vectors = dist.normal(pn.zeros { 2, 2 }, 1):independent(1)
    for name, f in pairs { censored = dist.censored, truncated = dist.truncated } do
      all_refused {
        { name .. ": d must be a distribution, got 3", f, 3, 0 },
        { name .. ": d must be a distribution of numbers (before :independent), got normal with events of shape [2]", f,
          vectors, 0 },
        { name .. ": needs a limit, low or high", f, pair },
        { name .. ": low must be below high", f, pair, 1, 1 },
        { name .. ": low must be below high", f, pair, { 0, 2 }, { 1, 1 } },
        { name .. ": low is NaN", f, pair, 0 / 0 },
        { name .. ": high is NaN", f, pair, nil, { 0, 0 / 0 } },
        { name .. ": batch of d, low and high must broadcast, got [2] and [3]", f, pair, { 1, 2, 3 } },
        { name .. ": batch of d, low and high must broadcast, got [2] and [3]", f, pair, 0, { 1, 2, 3 } },
      }
      assert.same({ 3, 2 }, f(pair, pn.zeros { 3, 1 }, { 1, 2 }).batch_shape)
      assert.equal("float32", f(pair:to "float32", 0, pn.ones(2)).dtype)
    end
    for name, f in pairs { zero_inflated = dist.zero_inflated, hurdle = dist.hurdle } do
      all_refused {
        { name .. ": d must be a distribution, got 3", f, 3, 0 },
        { name .. ": d must be a distribution of numbers (before :independent), got normal with events of shape [2]", f,
          vectors, 0 },
        { name .. ": gate must be between 0 and 1, got -0.1", f, dist.poisson(1), -0.1 },
        { name .. ": gate must be between 0 and 1, got 1.1", f, dist.poisson(1), { 0.3, 1.1 } },
        { name .. ": batch of d and gate must broadcast, got [2] and [3]", f, dist.poisson { 1, 2 }, pn.zeros { 3 } },
      }
      assert.same({ 3, 2 }, f(dist.poisson { 1, 2 }, pn.zeros { 3, 1 }).batch_shape)
      assert.same({ 0, -math.huge }, f(dist.poisson(2), pn.tensor { 1, 1 }):log_prob({ 0, 1 }):totable())
      assert.equal("nonnegative_integer", f(dist.poisson(1), 0.3).support)
      assert.same({ -math.huge, -math.huge }, f(dist.poisson(1), 0.3):log_prob({ -1, 0.5 }):totable())
      assert.same({ 0, 0.3 }, f(dist.poisson(800), 0.3):cdf({ -1, 0 }):totable())
      assert.equal("float32", f(dist.poisson(1):to "float32", 0.3).dtype)
      -- no draw is 0 but those of the gate, and the gate's are as many
      local draws = f(dist.poisson(0.05), 0):sample({ 200 }, pn.generator(1))
      assert.equal(name == "hurdle" and 1 or 0, draws:min():item())
      local u = pn.rand({ 200 }, { generator = pn.generator(2) })
      assert.same(u:lt(0.3):totable(), f(dist.poisson(800), 0.3):sample({ 200 }, pn.generator(2)):eq(0):totable())
    end
    assert.equal("nonnegative", dist.hurdle(dist.gamma(1, 1), 0.3).support)
    assert.equal("nonnegative", dist.hurdle(dist.half_normal(1), 0.3).support)
    refuses("zero_inflated: d must have a probability of 0, got half_normal, which is continuous (hurdle adds zeros",
      dist.zero_inflated, dist.half_normal(1), 0.3)
    refuses("hurdle: d must be of counts or of positive numbers, got beta, whose support is open_unit_interval",
      dist.hurdle, dist.beta(1, 1), 0.3)
  end)

  it("factors, experts and chains that do not fit", function()
    local n = dist.normal(0, 1)
    local matrix = { { 1 } }
    local p = { loc = { 1 }, covariance = { { 0 } }, matrix = matrix, noise = { { 2 } } }
    local state = { initial = { 0.5, 0.5 }, transition = { { 1, 0 }, { 0, 1 } } }
    all_refused {
      { "product: factors must be a list of at least 1", N.product, {} },
      { "product: factors must be a list of at least 1", N.product, 3 },
      { "product: factor 2 must be a Gaussian factor or distribution, got string", N.product, { n, "x" } },
      { "product: factor 1 must be a Gaussian factor or distribution, got userdata", N.product, { pn.ones { 2 } } },
      { "tempered: t must be a number or a tensor, got string", N.tempered, n, n, "x" },
      { "tempered: a must be a Gaussian factor or distribution, got number", N.tempered, 3, n, 0.5 },
      { "tempered: b must be a Gaussian factor or distribution, got number", N.tempered, n, 3, 0.5 },
      { "masked: s must be a Gaussian factor or distribution, got number", N.masked, 3, pn.tensor(true) },
      { "product_of_experts: experts must be at least 1", dist.product_of_experts, {} },
      { "product_of_experts: experts must be a Gaussian factor or distribution, got number", dist.product_of_experts,
        3 },
      { "product_of_experts: expert 2 must be a Gaussian factor or distribution, got number", dist.product_of_experts,
        { n, 3 } },
      { "product_of_experts: prior must be a Gaussian factor or distribution, got number", dist.product_of_experts,
        { n, n }, 3 },
      { "product_of_experts: mask must be a bool tensor or a list of 2, got number", dist.product_of_experts, { n, n },
        nil, 3 },
      { "product_of_experts: mask must be a bool tensor or a list of 2, got 3", dist.product_of_experts, { n, n }, nil,
        { true, true, false } },
      { "product_of_experts: mask must have 2 as last size, one for each expert, got []", dist.product_of_experts,
        { n, n }, nil, pn.tensor(true) },
      { "product_of_experts: mask must have 2 as last size, one for each expert, got [2 3]", dist.product_of_experts,
        { n, n }, nil, pn.ones({ 2, 3 }):gt(0) },
      { "product_of_experts: a single distribution must have the experts as last batch axis", dist.product_of_experts,
        dist.normal(pn.zeros { 2 }, 1):independent(1) },
      { "ordered_logistic: cutpoints must be [..., K - 1], at least one, got shape []", dist.ordered_logistic, 0,
        pn.tensor(1) },
      { "ordered_probit: eta and cutpoints must have one dtype, got float32 and float64 (convert with :to)",
        dist.ordered_probit, pn.zeros({ 2 }, { dtype = "float32" }), { 1, 2 } },
      { "ordered_probit: cutpoints must ascend", dist.ordered_probit, 0, { { 0, 1, 2 }, { 0, 1, 1 } } },
      { "kl_path: step must be positive, got 0", dist.kl_path, { drift = { { 1, 2 } }, diffusion = 1, step = 0 } },
      { "kl_path: exactly one of diffusion, diffusion_matrix must be given", dist.kl_path,
        { drift = { { 1, 2 } }, diffusion = 1, diffusion_matrix = { { 1, 0 }, { 0, 1 } }, step = 1 } },
      { "kl_path: drift must be a tensor [..., steps, P]", dist.kl_path, { drift = 3, diffusion = 1, step = 1 } },
      { "kl_markov_chain: steps must be a whole number from 1 on, got 1.5", dist.kl_markov_chain, state, state, 1.5 },
      { "kl_markov_chain: steps must be a whole number from 1 on, got nil", dist.kl_markov_chain, state, state },
      { "kl_markov_chain: p: option 'transition' is required", dist.kl_markov_chain, { initial = { 1 } }, state, 2 },
      { "kl_markov_chain: q: option 'initial' is required", dist.kl_markov_chain, state,
        { transition = { { 1 } } }, 2 },
      { "kl_gaussian_chain: p must have loc and covariance", dist.kl_gaussian_chain,
        { loc = { 1 }, matrix = matrix, noise = matrix }, p, 2 },
      { "kl_gaussian_chain: p must have loc and covariance", dist.kl_gaussian_chain,
        { covariance = matrix, matrix = matrix, noise = matrix }, p, 2 },
      { "kl_gaussian_chain: q: option 'noise' is required", dist.kl_gaussian_chain, p, { matrix = matrix }, 2 },
    }
    assert.near((1 + 4 + 9 + 16) / 4 * 0.1 / 2,
      dist.kl_path({ drift = { { 1, 2 }, { 3, 4 } }, diffusion = 2, step = 0.1 }):item(), 1e-15)
    -- of one step only the start counts, which is one for both; then each adds offset^2 / (2 noise)
    local q = { matrix = matrix, noise = { { 2 } }, offset = 3 }
    for steps = 1, 3 do
      assert.near((steps - 1) * 9 / 4, dist.kl_gaussian_chain(p, q, steps):item(), 1e-14)
    end
    assert.near(0.5 * math.log(0.5 / 0.2) + 0.5 * math.log(0.5 / 0.8),
      dist.kl_markov_chain(state, { initial = { 0.2, 0.8 }, transition = state.transition }, 1):item(), 1e-14)
  end)

  it("divergences without a meaning", function()
    local gamma = dist.mixture({ 0.5, 0.5 }, dist.transformed(dist.normal({ 0, 1 }, 1), B.exp()))
    local mixed = dist.mixture({ 0.5, 0.5 }, dist.normal({ { 0, 1 }, { 2, 3 } }, 1))
    local matrices = dist.normal(pn.zeros { 2, 2 }, 1):independent(2)
    all_refused {
      { "kl_mixture: components along a batch axis must be of a plain kind, got transformed", dist.kl_mixture, gamma,
        dist.gamma(1, 1) },
      { "kl_mixture: mixtures must come before :independent", dist.kl_mixture, mixed:independent(1),
        mixed:independent(1) },
      { "kl_mixture: mixtures must come before :independent", dist.kl_mixture, pair:independent(1),
        mixed:independent(1) },
      { "kl_mixture: p and q must be distributions", dist.kl_mixture, pair, 3 },
      { "kl_mixture: p and q must be distributions", dist.kl_mixture, pair, pn.ones { 2 } },
      { "kl_mixture: methods product, lower and upper need normal components, got normal", dist.kl_mixture, matrices,
        dist.mixture(two, { dist.multivariate_normal { loc = { 0, 0 }, scale_tril = pn.eye(2) },
          dist.multivariate_normal { loc = { 0, 0 }, scale_tril = pn.eye(2) } }), "product" },
      { "geometric_mean: distributions must be a list of at least 1", dist.geometric_mean, {}, {} },
      { "geometric_mean: distributions must be a list of at least 1", dist.geometric_mean, 3, { 1 } },
      { "geometric_mean: weights must be a list of 1 numbers", dist.geometric_mean, { pair }, 3 },
      { "geometric_mean: member 2 must be a distribution, got number", dist.geometric_mean, { pair, 3 }, { 0.5, 0.5 } },
      { "geometric_mean: weight 1 must be a number that is not negative, got x", dist.geometric_mean, { pair },
        { "x" } },
      { "geometric_mean: weights must sum to 1, got 0.9", dist.geometric_mean, { pair }, { 0.9 } },
      { "kl_normal_log_uniform: q must be a normal distribution", dist.kl_normal_log_uniform, 3 },
      { "kl_normal_log_uniform: q must be a normal distribution", dist.kl_normal_log_uniform, pn.ones { 2 } },
      { "kl_normal_log_uniform: q must be a normal distribution", dist.kl_normal_log_uniform, dist.laplace(0, 1) },
      { "expectation_monte_carlo: f must be a function, got 3", dist.expectation_monte_carlo, pair, 3 },
      { "expectation_monte_carlo: what f gives must be a tensor, got 3", dist.expectation_monte_carlo, pair,
        function() return 3 end },
      { "expectation_monte_carlo: f must give 5 rows, one a draw, got 4", dist.expectation_monte_carlo, pair,
        function() return pn.ones { 4 } end, { draws = 5 } },
      { "entropy_monte_carlo: argument 1 must be a distribution, got 3", dist.entropy_monte_carlo, 3 },
      { "jensen_shannon_monte_carlo: argument 2 must be a distribution, got 3", dist.jensen_shannon_monte_carlo, pair,
        3 },
      { "kl_monte_carlo: draws must be at least 2, got 1", dist.kl_monte_carlo, pair, pair, { draws = 1 } },
    }
    assert.same({ 0, 0 }, dist.kl_monte_carlo(pair, pair, { draws = 2 }).se:totable())
    assert.near(0, dist.geometric_mean({ dist.normal(0, 1), dist.normal(7, 2) }, { 1, 0 }):item(), 1e-14)
    -- what components share along the axis that counts them stands there once
    local shared = dist.mixture(two, dist.normal({ { 0, 1 }, { 2, -1 } }, { { 0.8 }, { 1.3 } }))
    local spread = dist.mixture(two, dist.normal({ { 0, 1 }, { 2, -1 } }, { { 0.8, 0.8 }, { 1.3, 1.3 } }))
    local narrow = dist.mixture({ 0.4, 0.6 }, { dist.normal(0, 1), dist.normal({ 1, 2 }, 1) })
    local wide = dist.mixture({ 0.4, 0.6 }, { dist.normal(pn.zeros { 2 }, 1), dist.normal({ 1, 2 }, { 1, 1 }) })
    for _, method in ipairs { "variational", "product", "lower", "upper", "matching" } do
      local q = dist.normal(0.5, 2)
      assert.same(dist.kl_mixture(wide, wide:expand { 2 }, method):totable(),
        dist.kl_mixture(narrow, wide, method):totable())
      assert.same(dist.kl_mixture(spread, q, method):totable(), dist.kl_mixture(shared, q, method):totable())
    end
  end)
end)
