--- The density that samplers and guides work on: vectors and values both ways, its parts, starts, what it is refused
--- for.
local enumeration = require "penumbra.infer.enumeration"
local helper = require "spec.helper"
local pn = require "penumbra"
local dist, near, refuses = pn.dist, helper.near, helper.refuses

local data = pn.tensor { 0.5, -1, 2, 0.25 }

local function model_of(dtype)
  local zero = pn.zeros({ 2 }, { dtype = dtype })
  return pn.model(function(m, y)
    local w = m:sample("w", dist.normal(zero, 1):independent(1))
    local s = m:sample("s", dist.gamma(zero:sum() + 3, 2))
    local p = m:sample("p", dist.dirichlet(pn.tensor({ 1, 2, 3 }, { dtype = dtype })))
    local c = m:flat("c", "interval", { 2 }, { low = -1, high = 3 })
    m:deterministic("double", w * 2)
    m:factor("f", p:select(1, 1) * 3)
    m:plate("rows", 4, { batch_size = 2 }, function(i)
      m:observe("y", dist.normal(w:sum() + c:sum(), s), y:take(1, i))
    end)
  end)
end

local function same(a, b, limit)
  assert.same(b:shape(), a:shape())
  assert.is_true((a - b):abs():max():item() <= limit)
end

describe("a target", function()
  local m = model_of "float64"
  local t = m:target(data)
  local values = { w = pn.tensor { 0.5, -0.25 }, s = pn.tensor(1.5), p = pn.tensor { 0.2, 0.3, 0.5 },
    c = pn.tensor { -0.5, 2 } }
  local z = t:unconstrain(values)

  it("has a number for each degree of freedom, and values both ways", function()
    assert.equal(2 + 1 + 2 + 2, t.size)
    assert.equal("target of size 7: w, s, p, c", tostring(t))
    local back = t:constrain(z)
    for name, v in pairs(values) do same(back[name], v, 1e-12) end
    same(back.double, values.w * 2, 0)
    assert.is_nil(back.y)
    assert.is_nil(back.f)
    same(t:unconstrain(back), z, 1e-12)
    same(z:slice(1, 1, 2), values.w, 0)
    local first, list = 1, t:outputs()
    for k, want in ipairs { { "w", 2 }, { "s", 1 }, { "p", 3 }, { "c", 2 }, { "double", 2 } } do
      assert.same({ want[1], first, first + want[2] - 1, k == 5 }, { list[k].name, list[k].first, list[k].last,
        list[k].deterministic })
      first = first + want[2]
    end
    assert.equal(5, #list)
    local flat = t:compiled_values()(z)
    for _, out in ipairs(list) do
      same(flat:slice(1, out.first, out.last):reshape(out.shape), back[out.name], 1e-12)
    end
    -- one number for all of a variable, and another z's part for what is not given
    local other = z + 1
    local filled = t:constrain(t:unconstrain({ w = pn.tensor(4), s = pn.tensor { 2.5 }:reshape {} }, other))
    same(filled.w, pn.tensor { 4, 4 }, 0)
    near(filled.s:item(), 2.5, 1e-12)
    same(filled.p, t:constrain(other).p, 1e-12)
    same(filled.c, t:constrain(other).c, 1e-12)
    refuses("no value is given for 'p'", t.unconstrain, t, { w = 1, s = 1, c = 1 })
  end)

  it("is the sum of its terms, with the logarithm of how the bijectors stretch", function()
    local function by_hand(scale_rows)
      local sum = dist.normal(0, 1):log_prob(values.w):sum() + dist.gamma(3, 2):log_prob(1.5)
        + dist.dirichlet(pn.tensor { 1, 2, 3 }):log_prob(values.p) + 0.6
      local rows = dist.normal(0.25 + 1.5, 1.5):log_prob(data)
      return (scale_rows and sum + rows:sum() or sum):item(), rows:totable()
    end
    near(t:log_density(z, false, true):item(), (by_hand(true)), 1e-10)
    -- the stretch of each bijector by differences: of s and c by themselves, of p two of its three numbers
    local function values_at(shift, k)
      local unit = pn.arange(7):eq(k):to "float64" * shift
      return t:constrain(z + unit)
    end
    local h = 1e-5
    local function slope(name, i, k)
      local up, down = values_at(h, k)[name], values_at(-h, k)[name]
      return ((up - down):reshape { -1 }[i] / (2 * h)):item()
    end
    local log_det = math.log(slope("s", 1, 2)) + math.log(slope("c", 1, 5)) + math.log(slope("c", 2, 6))
      + math.log(math.abs(slope("p", 1, 3) * slope("p", 2, 4) - slope("p", 1, 4) * slope("p", 2, 3)))
    near(t:log_density(z, true, true):item() - t:log_density(z, false, true):item(), log_det, 1e-6)
    local prior, likelihood = t:log_parts(z)
    near(prior:item() + likelihood:item(), t:log_density(z, true, true):item(), 1e-10)
    local sum, rows = by_hand(false)
    near(prior:item(), sum - 0.6 + log_det, 1e-6)
    near(likelihood:item(), 0.6 + rows[1] + rows[2] + rows[3] + rows[4], 1e-10)
    local again, terms = t:log_parts(z, true)
    near(again:item(), prior:item(), 1e-12)
    near(terms[1]:item(), 0.6, 1e-12)
    for k = 1, 4 do near(terms[k + 1]:item(), rows[k], 1e-10) end
    -- two of four rows count twice each
    local seen = {}
    for _ = 1, 40 do
      local got = t:log_density(z, false):item() - sum
      for i = 1, 4 do
        for j = i + 1, 4 do
          if math.abs(got - 2 * (rows[i] + rows[j])) < 1e-9 then seen[i * 10 + j] = true end
        end
      end
    end
    local count = 0
    for _ in pairs(seen) do count = count + 1 end
    assert.is_true(count >= 5)
    -- all rows, of many z, and its gradient
    local whole = m:target(data)
    whole.whole = true
    local many = pn.stack({ z, z * 0.5, z - 0.25 }, 1)
    local list = whole:log_densities(many)
    assert.same({ 3, 1 }, list:shape())
    for k = 1, 3 do near(list[k][1]:item(), t:log_density(many[k], true, true):item(), 1e-10) end
    local lp, gradient = whole:evaluate(z)
    assert.same({}, lp:shape())
    near(lp:item(), list[1][1]:item(), 1e-10)
    for k = 1, 7 do
      local unit = pn.arange(7):eq(k - 1):to "float64" * h
      near(gradient[k]:item(), ((whole:log_density(z + unit) - whole:log_density(z - unit)) / (2 * h)):item(), 1e-6)
    end
  end)

  it("of a model in float32 works in float64", function()
    local given, want = {}, t:log_density(z, true, true):item()
    for name, v in pairs(values) do given[name] = v:to "float32" end
    pn.default_dtype "float32"
    local ok, message = pcall(function()
      local f = model_of("float32"):target(data:to "float32")
      local lp = f:log_density(z, true, true)
      assert.same({ "float64", "float64" }, { lp:dtype(), f:unconstrain(given):dtype() })
      near(lp:item(), want, 1e-4)
      assert.equal("float32", f:constrain(z).w:dtype())
      local prior, likelihood = f:log_parts(z)
      assert.same({ "float64", "float64" }, { prior:dtype(), likelihood:dtype() })
    end)
    pn.default_dtype "float64"
    assert(ok, message)
  end)

  it("is what a host takes: shapes, values there and back, the density without stretch", function()
    local whole = m:target(data)
    whole.whole = true
    local b = whole:bridge()
    local shapes = {}
    for k, row in ipairs(b.shapes:totable()) do shapes[k] = { #row, table.unpack(row, 1, 3) } end
    assert.same({ { 9, 1, 2, 0 }, { 9, 0, 0, 0 }, { 9, 1, 2, 0 }, { 9, 1, 2, 0 } }, shapes)
    assert.equal(0, b.draws)
    local function numbers(list) return pn.tensor(list) end
    same(b.unconstrain(numbers { 0.5, -0.25, 1.5, 0.2, 0.3, 0.5, -0.5, 2 }), z, 1e-12)
    for name, list in pairs { p = { 0.5, -0.25, 1.5, 0.2, 0.3, 0.6,
      -0.5, 2 }, c = { 0.5, -0.25, 1.5, 0.2, 0.3, 0.5, -0.5, 4 }, w = { 1e301, 0, 1.5, 0.2, 0.3, 0.5, -0.5, 2 } } do
      refuses(("'%s' lies outside of its support"):format(name), b.unconstrain, numbers(list))
    end
    same(b.merge(z), z, 1e-12)
    b.given = { w = numbers { 3, 4 }, s = 2.5 }
    local merged = whole:constrain(b.merge(z))
    same(merged.w, numbers { 3, 4 }, 0)
    near(merged.s:item(), 2.5, 1e-12)
    same(merged.p, values.p, 1e-12)
    b.given = { w = numbers { 3, 4, 5 } }
    refuses("'w' has shape [2], got [3]", b.merge, z)
    b.given = { p = numbers { 0.5, 0.5, 0.5 } }
    refuses("'p' lies outside of its support", b.merge, z)
    near(b.plain.for_host()(z):item(), whole:log_density(z, false):item(), 1e-10)
    near(whole:for_host()(z):item(), whole:log_density(z):item(), 1e-10)
    local scan = pn.model(function(r)
      r:scan("t", 2, pn.tensor(0), function(h) return r:sample("h", dist.normal(h, 1)) end)
      local k = r:sample("k", dist.bernoulli(0.5), { enumerate = true })
      r:deterministic("d", k * 2)
      r:observe("y", dist.normal(k, 1), 1)
    end):target():bridge()
    assert.equal(1, scan.draws)
    assert.equal(0, pn.model(function(r)
      r:observe("y", dist.normal(r:sample("a", dist.normal(0, 1)) + r:sample("k", dist.bernoulli(0.5),
        { enumerate = true }), 1), 1)
    end):target():bridge().draws)
    scan.given = { h_2_ = pn.tensor(0.75) }
    same(scan.merge(pn.tensor { 1, 2 }), pn.tensor { 1, 0.75 }, 0)
  end)

  it("starts within a radius of 0, elsewhere where the density has no value", function()
    local wide = pn.model(function(r) r:sample("a", dist.normal(pn.zeros { 4000 }, 1):independent(1)) end):target()
    for _, radius in ipairs { false, 0.5 } do
      local at = wide:start(radius or nil, pn.generator(1))
      local r = radius or 2
      assert.is_true(at:abs():max():item() <= r and at:max():item() > 0.99 * r and at:min():item() < -0.99 * r)
      assert.is_true(math.abs(at:mean():item()) < 6 * r / (3 * 4000) ^ 0.5)
    end
    local calls = 0
    local got = t:start_at({ w = pn.tensor { 7, 8 } }, function()
      calls = calls + 1
      return pn.tensor(calls < 4 and -math.huge or 0)
    end)
    assert.equal(4, calls)
    same(got:slice(1, 1, 2), pn.tensor { 7, 8 }, 0)
    calls = 0
    t:start_at(values, function() calls = calls + 1 end) -- nothing is left to draw
    assert.equal(0, calls)
    t:start_at({ w = 1 }, function()
      calls = calls + 1
      return pn.tensor(-math.huge)
    end)
    assert.equal(100, calls)
    calls = 0
    assert.equal("done", (t:from_start(function(at)
      calls = calls + 1
      if calls < 100 then dist.normal(pn.tensor(0), pn.tensor(-1)) end
      return at:numel() == 7 and "done"
    end)))
    assert.equal(100, calls)
    calls = 0
    refuses("scale", t.from_start, t, function()
      calls = calls + 1
      dist.normal(pn.tensor(0), pn.tensor(-1))
    end)
    assert.equal(100, calls)
    calls = 0
    refuses("boom", t.from_start, t, function()
      calls = calls + 1
      error "boom"
    end)
    assert.equal(1, calls)
    refuses("init: the model has no latent variable 'ww'; it has w, s, p, c", t.start_at, t,
      { ww = 1 }, function() end)
  end)

  it("draws priors where there are some", function()
    local prior = pn.model(function(r)
      local s = r:sample("s", dist.gamma(3, 2))
      r:sample("x", dist.normal(s, 1):expand { 2 }:independent(1))
    end):target()
    local rows = prior:draw_priors(3000, pn.generator(2))
    assert.same({ 3000, 3 }, rows:shape())
    local s = {}
    for k = 1, 300 do s[k] = prior:constrain(rows[k]).s:item() end
    assert.is_true(math.abs(pn.tensor(s):mean():item() - 1.5) < 6 * (0.75 / 300) ^ 0.5)
    refuses("'c' is flat and has no prior, from which it could be drawn", t.draw_priors, t, 3)
    local within = pn.model(function(r) r:sample("a", dist.normal(0, 1), { constraint = "positive" }) end):target()
    refuses("'a' is restricted to a set by its constraint", within.draw_priors, within, 3)
    assert.is_true(within:constrain(pn.tensor { -3 }).a:item() > 0)
  end)

  it("says which plate is taken in parts", function()
    assert.same({ name = "rows", rows = 2, size = 4 }, t:taken_in_parts())
    assert.is_nil(pn.model(function(r)
      local a = r:sample("a", dist.normal(0, 1))
      r:plate("rows", 4, function() r:observe("y", dist.normal(a, 1), data) end)
    end):target():taken_in_parts())
  end)

  it("is refused where a variable has no gradient, or another run has others", function()
    local function refused(text, body) refuses(text, function() return pn.model(body):target() end) end
    refused("'k' is discrete and has no gradient: enumerate it", function(r) r:sample("k", dist.poisson(2)) end)
    refused("the model has no continuous latent variable", function(r) r:observe("y", dist.normal(0, 1), 1) end)
    local rows = pn.model(function(r)
      r:plate("rows", 4, { batch_size = 2 }, function() r:flat("c", "real", { 2 }) end)
    end)
    refuses("'c' stands in a plate of which not all rows are taken at a time", function()
      local at = rows:target()
      return at:log_density(at:start(1))
    end)
    local more = false
    local changing = pn.model(function(r)
      r:sample("a", dist.normal(0, 1))
      if more then r:sample("b", dist.normal(0, 1)) end
    end):target()
    more = true
    refuses("'b' was not there in the model's first run", changing.log_density, changing, pn.zeros { 1 })
    local mixed = pn.model(function(r)
      local k = r:sample("k", dist.bernoulli(0.3), { enumerate = true })
      r:sample("a", dist.normal(k * 2, 1))
      r:observe("y", dist.normal(0, 1), 1)
    end):target()
    refuses("'a' depends on variables that are enumerated", mixed.log_parts, mixed, pn.zeros { 1 })
    local apart = pn.model(function(r)
      local k = r:sample("k", dist.bernoulli(0.3), { enumerate = true })
      local a = r:sample("a", dist.normal(0, 1))
      r:observe("y", dist.normal(a + k, 1), 1)
    end):target()
    refuses("variables that are enumerated join the terms", apart.log_parts, apart, pn.zeros { 1 }, true)
    local prior, likelihood = apart:log_parts(pn.tensor { 0.5 })
    near(prior:item(), dist.normal(0, 1):log_prob(0.5):item(), 1e-12)
    near(likelihood:item(), math.log(0.7 * math.exp(dist.normal(0.5, 1):log_prob(1):item())
      + 0.3 * math.exp(dist.normal(1.5, 1):log_prob(1):item())), 1e-12)
    near((prior + likelihood):item(), apart:log_density(pn.tensor { 0.5 }):item(), 1e-12)
  end)

  it("counts how a bijector stretches rows as the rows themselves", function()
    local rows = pn.model(function(r)
      r:plate("rows", 6, { batch_size = 2 }, function() r:sample("s", dist.gamma(3, 2)) end)
    end):target()
    local at = pn.full({ 6 }, 0.7)
    local single = pn.model(function(r) r:sample("s", dist.gamma(3, 2)) end):target()
    for _, jacobian in ipairs { true, false } do
      near(rows:log_density(at, jacobian):item(), 6 * single:log_density(at:slice(1, 1, 1), jacobian):item(), 1e-10)
    end
  end)

  it("predicts rows that are new, whatever those of the data were", function()
    local both = pn.model(function(r, y)
      local a = r:sample("a", dist.normal(0, 1))
      local k = r:sample("k", dist.bernoulli(0.5), { enumerate = true })
      r:plate("rows", y:size(1), function()
        local j = r:sample("j", dist.bernoulli(0.5), { enumerate = true })
        r:observe("y", dist.normal(a + 10 * k + 100 * j, 0.1), y)
      end)
    end)
    local at = require "penumbra.infer.at_draws"
    pn.seed(3)
    local seen = pn.tensor { 110, 110.1, 109.9, 110 } -- k and all j are 1
    local drawn = at.predicted(both:target(seen), both, { pn.zeros { 7 } }, pn.zeros { 40, 1 }).y
    assert.same({ 40, 7 }, drawn:shape())
    local high = drawn:gt(60)
    assert.is_true(high:to("float64"):mean():item() > 0.3 and high:to("float64"):mean():item() < 0.7)
    local rest = drawn - pn.where(high, pn.full({ 1 }, 100), pn.zeros { 1 })
    assert.is_true((rest - 10):abs():max():item() < 1)
  end)

  -- those of rows come from their priors: no draw given the data is made for them
  it("draws of enumerated variables what predictions take, those in no plate", function()
    local drawn, draw = 0, enumeration.draw
    local function body(rows)
      return pn.model(function(r)
        local a = r:sample("a", dist.normal(0, 1))
        local k = not rows and r:sample("k", dist.bernoulli(0.5), { enumerate = true })
        r:plate("rows", 4, function()
          k = k or r:sample("k", dist.bernoulli(0.5), { enumerate = true })
          r:observe("y", dist.normal(a + k, 1), data)
        end)
      end)
    end
    enumeration.draw = function(...)
      drawn = drawn + 1
      return draw(...)
    end
    local ok, message = pcall(function()
      body(true):target():predictive_values_at(pn.zeros { 1 })
      assert.equal(0, drawn)
      body(false):target():predictive_values_at(pn.zeros { 1 })
      assert.equal(1, drawn)
    end)
    enumeration.draw = draw
    assert(ok, message)
  end)
end)

describe("what models and guides are refused for", function()
  local m = pn.model(function(r) r:observe("y", dist.normal(r:sample("a", dist.normal(0, 1)), 1), 1) end)
  local labels = pn.model(function(r)
    r:observe("y", dist.normal(r:sample("a", dist.normal(0, 1)) + r:sample("k", dist.bernoulli(0.5),
      { enumerate = true }), 1), 1)
  end)
  local normal = pn.model(function(g) g:sample("a", dist.normal(g:param("loc", 0), 1)) end)

  it("is told by name and what was got", function()
    refuses("model: needs a function (m, data...), got number", pn.model, 3)
    for _, name in ipairs { "condition", "intervene" } do
      refuses(name .. ": needs a table site -> value, got number", m[name], m, 3)
      refuses(name .. ": sites are named by strings, got 1", m[name], m, { 2 })
    end
    refuses("block: needs a list of names, got number", m.block, m, 3)
    refuses("replay: needs a trace or a table site -> value, got number", m.replay, m, 3)
    refuses("log_density: needs a table site -> value, got number", m.log_density, m, 3)
    refuses("svi: draws side by side (vectorised = true) and enumeration do not go together", pn.svi, labels, normal,
      { vectorised = true, draws = 2, steps = 1 })
    local guide = require "penumbra.infer.guide"
    local laplace = guide.make(guide.new "laplace", m:target())
    refuses("guide: the law of a laplace guide is known when pn.svi has ended", laplace.law, laplace)
    refuses("nuts: needs a model (pn.model), got number", pn.nuts, 3)
    refuses("draws must be a whole number from 4 on, got 3", pn.nuts, m, { draws = 3 })
  end)

  it("is a list of values that is too long, and not one that just is not", function()
    local function of(n)
      return pn.model(function(r)
        local k = r:sample("k", dist.categorical(pn.full({ n }, 1 / n)), { enumerate = true })
        r:observe("y", dist.normal(r:sample("a", dist.normal(0, 1)) + k:to "float64" * 0, 1), 1)
      end)
    end
    local t = of(4096):target()
    near(t:log_density(pn.zeros { 1 }):item(), m:target():log_density(pn.zeros { 1 }):item(), 1e-9)
    refuses("'k' has 4097 values: too many to enumerate", function()
      return of(4097):target():log_density(pn.zeros { 1 })
    end)
    refuses("'k' cannot be enumerated: poisson has no finite list of values", function()
      return pn.model(function(r)
        r:sample("a", dist.normal(0, 1))
        r:sample("k", dist.poisson(2), { enumerate = true })
      end):target():log_density(pn.zeros { 1 })
    end)
  end)
end)
