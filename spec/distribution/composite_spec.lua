-- Distributions made of distributions: golden values where their law has a name of its own, and what every one of
-- them owes, over examples.
local pn = require "penumbra"
local golden = require "spec.golden.distribution.composite"
local refuses = require("spec.helper").refuses

local dist, B = pn.dist, pn.dist.bijector
local DRAWS = 100000

-- ---- comparing ----

local function numbers(t)
  return t:reshape({ -1 }):totable()
end

local function close(got, want, rel, what)
  got, want = numbers(got), numbers(pn.tensor(want))
  assert.equal(#want, #got, what)
  for i, w in ipairs(want) do
    local g = got[i]
    if not (g == w or (g ~= g and w ~= w) or math.abs(g - w) <= rel * math.abs(w) + 1e-13) then
      error(("%s: number %d is %.17g, expected %.17g"):format(what, i, g, w))
    end
  end
end

-- The mean of the numbers x is `want` within 6 standard errors, which are at most `narrow`.
local function agrees(x, want, narrow, what)
  local n, m = x:numel(), x:mean():item()
  local se = math.sqrt(((x - m) ^ 2):sum():item() / (n - 1) / n)
  assert(6 * se <= narrow, ("%s: 6 standard errors are %g, more than %g"):format(what, 6 * se, narrow))
  assert(math.abs(m - want) <= 6 * se + 1e-9, ("%s: %.8g is not within 6 * %.3g of %.8g"):format(what, m, se, want))
end

local function joined(...)
  local shape = {}
  for _, part in ipairs { ... } do
    for _, v in ipairs(part) do
      shape[#shape + 1] = v
    end
  end
  return shape
end

-- ---- laws with a name ----

local function log_of_exponential()
  return B.chain { B.inverse(B.exp()), B.affine(1, -2) }
end
local scale_tril = pn.tensor { { 2, 0 }, { -0.5, 1 } }
local known = {
  transformed = {
    exp_of_normal = dist.transformed(dist.normal(0.3, 0.7), B.exp()),
    affine_of_laplace = dist.transformed(dist.laplace(0, 1), B.affine(2, 3)),
    falling_affine_of_exponential = dist.transformed(dist.exponential(1), log_of_exponential()),
    power_of_exponential = dist.transformed(dist.exponential(1), B.power(1 / 1.6)),
    sigmoid_of_normal = dist.transformed(dist.normal(-0.5, 1.2), B.sigmoid()),
    affine_tril_of_normal = dist.transformed(dist.normal(pn.zeros { 2 }, 1),
      B.affine_tril(pn.tensor { 0.5, -1 }, scale_tril)),
  },
  mixture = {
    normals = dist.mixture({ 0.3, 0.7 }, dist.normal({ -1, 2 }, { 0.5, 1.5 })),
    normal_and_gamma = dist.mixture({ 0.25, 0.75 }, { dist.normal(0, 1), dist.gamma(3, 2) }),
    bernoullis = dist.mixture({ 0.5, 0.5 }, dist.bernoulli({ 0.1, 0.8 })),
  },
  masked = { normal = dist.masked(dist.normal(1, 2), pn.tensor(true)) },
}

-- The two numbers of an estimate.
local function both(e) return e.value, e.se end

describe("golden values of", function()
  for name, cases in pairs(golden) do
    for key, case in pairs(cases) do
      it(name .. " " .. key, function()
        local d = assert(known[name][key])
        close(d:log_prob(pn.tensor(case.x)), case.log_prob, 1e-8, "log_prob")
        if case.cdf then
          close(d:cdf(pn.tensor(case.x)), case.cdf, 1e-8, "cdf")
        end
        for _, tail in ipairs { "log_cdf", "log_survival" } do
          if case[tail] then
            close(d[tail](d, pn.tensor(case.x)), case[tail], 1e-8, tail)
          end
        end
        if case.icdf then
          close(d:icdf(pn.tensor(case.p)), case.icdf, 1e-8, "icdf")
        end
        for _, value in ipairs { "mean", "variance", "entropy", "mode" } do
          if case[value] then
            close(d[value](d), case[value], 1e-8, value)
          end
        end
      end)
    end
  end
end)

-- ---- what every one owes ----

-- make(p): the distribution for parameters p, a list of tensors; p: their values; x: points inside the support;
-- beyond: outside.
local examples = {
  transformed = {
    { p = { { 0.3, -1 }, { 0.7, 2 } }, x = { { 0.5, 2 }, { 3, 0.1 } }, beyond = { { -1, 1 } }, batch = { 2 },
      make = function(p) return dist.transformed(dist.normal(p[1], p[2]), B.exp()) end },
    { p = { { 0.3, -1 }, 0.5, -2 }, x = { { 0.5, 2 }, { 3, 0.1 } }, beyond = { { 0.5, -3 } }, batch = { 2 },
      make = function(p)
        return dist.transformed(dist.normal(p[1], 1), B.chain { B.affine(p[2], p[3]), B.softplus() })
      end },
    { p = { { 0.3, -1 } }, x = { { 0.2, 0.3, 0.5 }, { 0.6, 0.3, 0.1 } },
      beyond = { { 0.4, 0.4, 0.4 }, { 0, 0.5, 0.5 } },
      batch = {}, make = function(p) return dist.transformed(dist.normal(p[1], 1.3), B.softmax_centred()) end },
    { p = { { { 0.3, -1, 0.2 }, { 0.1, 0.4, -2 } } }, batch = { 2 },
      x = { { { { 1, 0 }, { 0.5, 2 } }, { { 1, 0 }, { 0.5, 2 } } } },
      beyond = { { { { 1, 0.5 }, { 0.5, 2 } }, { { -1, 0 }, { 0.5, 2 } } } },
      make = function(p) return dist.transformed(dist.normal(p[1], 1):independent(1), B.cholesky()) end },
    { p = { 0.4, { 0.5, 2 } }, x = { { 0.2, 2 } }, beyond = { { -1, 2 } }, batch = {},
      make = function(p) -- numbers mapped inside an event of more axes
        return dist.transformed(dist.gamma(p[2] * 0 + 1, p[2]):independent(1), B.affine(0, p[1]))
      end },
  },
  mixture = {
    { p = { { 0.5, 1, -1 }, { 0, 1, 2 } }, x = { 0.3, -2, 5 }, batch = {},
      make = function(p) return dist.mixture(dist.categorical { logits = p[1] }, dist.normal(p[2], 0.7)) end },
    { p = { { { 0.5, 1 }, { 0, 2 } }, { 2, 1 } }, x = { { 0.3, 2 } }, beyond = { { -1, -0.5 } }, batch = { 2 },
      make = function(p)
        return dist.mixture(dist.categorical { logits = p[1] }, { dist.gamma(p[2], 1), dist.exponential(p[2]) })
      end },
    { p = { { 0.2, 0.3 }, { { 1, 2, 0 }, { 0, 1, -1 } } }, x = { { 1, 2, 0.5 } }, batch = {}, no_rsample = true,
      make = function(p)
        return dist.mixture(dist.categorical { logits = p[1] }, dist.normal(p[2], 1):independent(1))
      end },
    { p = { { 0.1, 0.4 }, { -1, 2 } }, x = { 0, 1 }, beyond = { -1, 0.5 }, batch = {}, no_rsample = true,
      discrete = true,
      make = function(p)
        return dist.mixture(dist.categorical { logits = p[1] }, dist.bernoulli { logits = p[2] })
      end },
  },
  masked = {
    { p = { { 0.3, -1, 2 } }, x = { { 0.5, 2, 1 } }, batch = { 3 },
      make = function(p) return dist.masked(dist.normal(p[1], 2), pn.tensor { true, false, true }) end },
    { p = { { 0.3, 1, 2 } }, x = { { 0.5, 2, 1 } }, batch = {},
      make = function(p) return dist.masked(dist.gamma(p[1], 2):independent(1), pn.tensor(true)) end },
  },
}

local battery = {}

local function leaves_of(e, dtype)
  local list = {}
  for i, v in ipairs(e.p) do
    list[i] = pn.param(pn.tensor(v, { dtype = dtype or "float64" }))
  end
  return list
end

local function plain(e, dtype)
  local list = {}
  for i, leaf in ipairs(leaves_of(e, dtype)) do
    list[i] = leaf:detach()
  end
  return e.make(list)
end

function battery.follows_sample_batch_event(e)
  local d = plain(e)
  assert.same(e.batch, d.batch_shape)
  local x = d:sample { 4, 2 }
  assert.same(joined({ 4, 2 }, e.batch, d.event_shape), x:shape())
  assert.same(joined({ 4, 2 }, e.batch), d:log_prob(x):shape())
  assert.same(joined({ 0 }, e.batch, d.event_shape), d:sample({ 0 }):shape())
  local wide = d:expand(joined({ 3, 5 }, e.batch))
  local y = wide:sample { 2 }
  assert.same(joined({ 2, 3, 5 }, e.batch, d.event_shape), y:shape())
  close(wide:log_prob(y), d:log_prob(y:detach() + 0):totable(), 1e-12, "expand")
  local i = wide:independent(1 + #e.batch)
  assert.same({ 3 }, i.batch_shape)
  close(i:log_prob(y), d:log_prob(y):reshape({ 2, 3, -1 }):sum({ -1 }):totable(), 1e-12, "independent")
  for _, name in ipairs { "mean", "variance" } do
    local ok, value = pcall(d[name], d)
    if ok then
      assert.same(joined(e.batch, d.event_shape), value:shape())
      assert.same(joined({ 3, 5 }, e.batch, d.event_shape), wide[name](wide):shape())
    else
      assert(value:find(": " .. name .. " does not exist", 1, true))
    end
  end
  -- repeated rows are drawn apart
  local rows = numbers(y:reshape { 30, -1 }:slice(2, 1, 1))
  assert(e.discrete or rows[1] ~= rows[2])
end

function battery.never_stretches_x(e)
  local d = plain(e):expand(joined({ 3 }, e.batch))
  local one = joined({ 1 }, e.batch, d.event_shape)
  refuses("would be stretched", d.log_prob, d, pn.zeros(one))
end

function battery.has_density_0_outside_with_slope_0(e)
  if not e.beyond then
    return
  end
  local leaves = leaves_of(e)
  local d = e.make(leaves)
  for _, bad in ipairs(e.beyond) do
    local lp = d:log_prob(pn.tensor(bad))
    assert.equal(-math.huge, lp:min():item())
    local inside = pn.tensor(e.x[1])
    assert(e.discrete or d:log_prob(inside):isfinite():all():item())
    for _, g in ipairs(pn.grad(lp:sum(), leaves)) do
      assert.equal(0, g:isnan():sum():item())
    end
  end
  local nan = d:log_prob(pn.tensor(e.x[1]) * (0 / 0))
  assert.equal(nan:numel(), nan:isnan():sum():item())
end

function battery.has_gradients(e)
  local leaves = leaves_of(e)
  local x = pn.param(pn.tensor(e.x))
  local with_x = joined(leaves)
  if not (e.discrete or e.make(leaves).support == "simplex" or e.make(leaves).support == "lower_cholesky") then
    with_x[#with_x + 1] = x
  end
  assert(pn.check_gradients(function() return e.make(leaves):log_prob(x) end, with_x, { order = 2 }))
  for _, name in ipairs { "mean", "variance", "entropy", "cdf", "log_cdf", "log_survival" } do
    local d = e.make(leaves)
    local ok, value = pcall(d[name], d, name:find "cdf" and x or name == "log_survival" and x or nil)
    if ok and value:requires_grad() and not e.discrete then
      assert(pn.check_gradients(function() return e.make(leaves)[name](e.make(leaves), x) end, leaves), name)
    end
  end
end

function battery.works_in_float32(e)
  local d, wide, x = plain(e, "float32"), plain(e), pn.tensor(e.x, { dtype = "float32" })
  assert.equal("float32", d:log_prob(x):dtype())
  close(d:log_prob(x), wide:log_prob(x:to "float64"):totable(), 5e-5, "float32")
  assert.equal("float32", d:sample({ 2 }):dtype())
end

-- E under the draws of p_other / p is 1, and the log density's mean agrees with a direct count where cdf exists.
function battery.draws_have_its_law(e)
  local d = plain(e)
  local x = d:sample { DRAWS, generator = pn.generator(12) }
  assert(d:log_prob(x):isfinite():all():item())
  if #d.event_shape == 0 and not e.discrete and pcall(d.cdf, d, x) then
    local u = d:cdf(x):reshape { DRAWS, -1 }
    for i = 1, u:size(2) do
      local sorted, rank = u:slice(2, i, i):reshape({ DRAWS }):sort(), pn.arange(DRAWS)
      local distance = math.max(((rank + 1) / DRAWS - sorted):max():item(), (sorted - rank / DRAWS):max():item())
      assert(distance * math.sqrt(DRAWS) < 3.23, "Kolmogorov-Smirnov " .. distance * math.sqrt(DRAWS))
    end
  end
  local ok, mean = pcall(d.mean, d)
  if ok then
    local m, v = numbers(mean), numbers(d:variance())
    local flat = x:reshape { DRAWS, -1 }
    for i = 1, #m do
      local column = flat:slice(2, i, i)
      agrees(column, m[i], 0.05 * math.sqrt(v[i]), "mean")
      agrees((column - m[i]) ^ 2, v[i], 0.2 * v[i], "variance")
    end
  end
  -- a neighbour's density over its own, averaged under its own draws, is 1
  local near = {}
  for i, v in ipairs(e.p) do
    near[i] = pn.tensor(v) * 1.05 + 0.01
  end
  local ratio = (e.make(near):log_prob(x) - d:log_prob(x)):exp():reshape { DRAWS, -1 }
  if e.make(near).name ~= "masked" then
    for i = 1, ratio:size(2) do
      agrees(ratio:slice(2, i, i), 1, 0.05, "mass of a neighbour")
    end
  end
end

function battery.rsample_moves_with_its_parameters(e)
  local leaves = leaves_of(e)
  local d = e.make(leaves)
  if e.no_rsample then
    return refuses("rsample does not exist", d.rsample, d, { 2 })
  end
  local x = d:rsample { 40000, generator = pn.generator(5) }
  assert.same(d:sample({ 40000, generator = pn.generator(5) }):totable(), x:totable())
  -- E[f(x)] moves as f's mean under nearby parameters with common draws
  local moved = pn.grad(x:sum() / 40000, leaves)
  for k, leaf in ipairs(leaves) do
    local flat, h = numbers(leaf), 1e-3
    local function mean_at(step)
      local p = {}
      for i, v in ipairs(leaves) do
        p[i] = v:detach()
      end
      local bent = joined(flat)
      bent[1] = bent[1] + step
      p[k] = pn.tensor(bent):reshape(leaf:shape())
      local q = e.make(p)
      return q:sample({ 40000, generator = pn.generator(5) }):sum():item() / 40000
    end
    local ok, slope = pcall(function()
      local q = function(step)
        local p = {}
        for i, v in ipairs(leaves) do
          p[i] = v:detach()
        end
        local bent = joined(flat)
        bent[1] = bent[1] + step
        p[k] = pn.tensor(bent):reshape(leaf:shape())
        return e.make(p):mean():sum():item()
      end
      return (q(h) - q(-h)) / (2 * h)
    end)
    local want = ok and slope or (mean_at(h) - mean_at(-h)) / (2 * h)
    local got = numbers(moved[k])[1]
    assert(math.abs(got - want) <= 0.05 * math.max(0.5, math.abs(want)),
      ("slope in parameter %d is %g, expected %g"):format(k, got, want))
  end
end

function battery.draws_with_its_density(e)
  if e.no_rsample then
    return
  end
  local leaves = leaves_of(e)
  local d = e.make(leaves)
  local x, lp = d:rsample_log_prob { 7, generator = pn.generator(3) }
  local y = d:rsample { 7, generator = pn.generator(3) }
  local plain_lp = d:log_prob(y)
  assert.same(y:totable(), x:totable())
  close(lp, plain_lp:totable(), 1e-9, "log density")
  local got, want = pn.grad(lp:sum(), leaves), pn.grad(plain_lp:sum(), leaves)
  for k in ipairs(leaves) do -- the slope of log q(x(p); p) as a whole
    close(got[k], want[k]:totable(), 1e-7, "slope in parameter " .. k)
  end
  local joint = d:expand(joined({ 3 }, e.batch)):independent(1 + #e.batch)
  local _, sum = joint:rsample_log_prob { 2 }
  assert.same({ 2 }, sum:shape())
end

function battery.says_what_it_is(e, name)
  local d = plain(e)
  assert.equal(name, d.name)
  assert(tostring(d):find(name .. "(", 1, true))
  assert(#d.parts > 0 and dist.is(d.parts[1]))
end

function battery.can_be_captured(e)
  local leaves = leaves_of(e)
  local direct = function(x) return e.make(leaves):log_prob(x) end
  local captured = pn.compile(direct)
  local x = pn.tensor(e.x)
  for _, at in ipairs { x, e.discrete and 1 - x or x * 0.75, -1 * x, x } do
    local got, want = captured(at), direct(at)
    assert.same(want:totable(), got:totable())
  end
end

function battery.offers_monte_carlo_where_no_kl_is_known(e)
  local d = plain(e)
  local name = d.name == "masked" and d.parts[1].name or d.name
  local other = dist.student_t(3, 0, 1):expand(d.own_batch_shape):independent(d.independent_rank)
  if #other.event_shape ~= #d.event_shape then
    other = dist.student_t(3, 0, 1):expand(joined(d.batch_shape, d.event_shape)):independent(#d.event_shape)
  end
  refuses("kl: there is no closed form for " .. name .. " and student_t (kl_monte_carlo estimates it)", dist.kl, d,
    other)
end

function battery.has_the_entropy_and_mode_of_its_draws(e)
  local d = plain(e)
  local x = d:sample { 20000, generator = pn.generator(8) }
  local lp = d:log_prob(x)
  local ok, entropy = pcall(d.entropy, d)
  if ok then
    local got = lp:reshape { 20000, -1 }
    for i, h in ipairs(numbers(entropy)) do
      agrees(-got:slice(2, i, i), h, 0.2, "entropy")
    end
  else
    assert(entropy:find("entropy does not exist.*%(entropy_monte_carlo estimates it%)"), entropy)
  end
  local m, se = both(dist.entropy_monte_carlo(d, { draws = 20000, generator = pn.generator(8) }))
  close(m, (-lp):mean(1):totable(), 1e-12, "Monte Carlo entropy")
  assert(se:max():item() < 0.1)
  local there, mode = pcall(d.mode, d)
  if there and d.name ~= "masked" then
    local top = d:log_prob(mode)
    assert(top:min():item() == -math.huge -- at the open end of the support
      or (top - lp:max({ 1 })):min():item() >= -1e-12, "a draw has more density than the mode")
  elseif not there then
    assert(mode:find "mode does not exist", mode)
  end
end

function battery.can_be_saved_and_made_again(e)
  local path = os.tmpname()
  local d = plain(e)
  local wide = d:expand(joined({ 3 }, e.batch)):independent(1)
  assert(pn.save(path, { plain = d, more = { wide = wide } }))
  local saved = assert(pn.load(path))
  os.remove(path)
  for again, want in pairs { [saved.plain] = d, [saved.more.wide] = wide } do
    local x = want:sample { 5, generator = pn.generator(2) }:detach() + 0 -- no longer the pair that bijectors keep
    assert.same(want:log_prob(x):totable(), again:log_prob(x):totable())
    assert.same(x:totable(), again:sample({ 5, generator = pn.generator(2) }):totable())
    assert.equal(tostring(want), tostring(again))
  end
end

local behaviours = {}
for name in pairs(battery) do
  behaviours[#behaviours + 1] = name
end
table.sort(behaviours)

for _, row in ipairs(pn.rows()) do
  if row.kind == "composite" then
    describe(row.name, function()
      for _, name in ipairs(behaviours) do
        it(name:gsub("_", " "), function()
          for _, e in ipairs(assert(examples[row.name])) do
            battery[name](e, row.name)
          end
        end)
      end
    end)
  end
end

-- ---- what is special ----

describe("quantiles of mixtures", function()
  local levels = pn.tensor { 0, 1e-300, 1e-12, 0.003, 0.25, 0.5, 0.8, 0.9999, 1 - 1e-13, 1 }

  it("undo the distribution function, far apart and in the tails", function()
    for _, d in ipairs {
      dist.mixture({ 0.3, 0.7 }, dist.normal({ -1, 2 }, { 0.5, 1.5 })),
      dist.mixture({ 0.5, 0.5 }, dist.normal({ -1e3, 1e3 }, { 0.5, 1e-3 })),
      dist.mixture({ 0.9, 0.1, 0 }, dist.cauchy({ 0, 50, 1e9 }, { 1, 1e-6, 1 })),
      dist.mixture({ 0.25, 0.75 }, { dist.normal(0, 1), dist.gamma(3, 2) }),
      dist.mixture({ 0.5, 0.5 }, { dist.uniform(0, 1), dist.uniform(5, 6) }),
      dist.mixture({ 0.2, 0.8 }, dist.student_t({ 2, 30 }, 0, { 3, 0.01 })),
    } do
      local x = d:icdf(levels)
      local f, s = d:log_cdf(x), d:log_survival(x)
      for i, p in ipairs(levels:totable()) do
        local got = p < 0.5 and math.exp(f:totable()[i]) or 1 - math.exp(s:totable()[i])
        assert(math.abs(got - p) <= 1e-9 * p, ("%s: level %g gives %.17g"):format(tostring(d), p, got))
      end
    end
    local apart = dist.mixture({ 0.5, 0.5 }, { dist.uniform(0, 1), dist.uniform(5, 6) })
    assert.same({ 0, 6 }, apart:icdf(pn.tensor { 0, 1 }):totable())
    for k, weights in ipairs { { 1, 0 }, { 0, 1 } } do -- a part that is never drawn is not asked
      local parts, p = { dist.normal(0, 1), dist.normal(-50, 0.1) }, pn.tensor { 0.01, 0.5, 0.9 }
      close(dist.mixture(weights, parts):icdf(p), parts[k]:icdf(p), 1e-12, "one of two")
    end
    local between = apart:icdf(0.5):item()
    assert(between >= 1 and between <= 5)
  end)

  it("are the least whole number of counts", function()
    for _, d in ipairs { dist.mixture({ 0.25, 0.75 }, { dist.poisson(3), dist.binomial(10, 0.9) }),
      dist.mixture({ 0.5, 0.5 }, dist.poisson { 1, 1e6 }), dist.mixture({ 0.4, 0.6 }, dist.geometric { 0.9, 1e-4 }) } do
      local p = pn.tensor { 1e-12, 0.25, 0.5, 0.75, 0.99999 }
      local x = d:icdf(p)
      assert(x:eq(x:floor()):all():item() and d:cdf(x):ge(p):all():item())
      assert(d:cdf(x - 1):lt(p):all():item())
      assert(d:icdf(d:cdf(x)):eq(x):all():item())
    end
    assert.same({ 0, 0, 1, 1 },
      dist.mixture({ 0.5, 0.5 }, dist.bernoulli { 0.2, 0.4 }):icdf(pn.tensor { 0, 0.69, 0.71, 1 }):totable())
  end)

  it("have slopes, batches, replays and names for what they lack", function()
    local loc, logits = pn.param(pn.tensor { { -1, 2 }, { 0, 0.5 } }), pn.param(pn.tensor { 0.3, -0.4 })
    local p = pn.param(0.3)
    local function f(q)
      return dist.mixture(dist.categorical { logits = logits }, dist.normal(loc, { 0.5, 1.5 })):icdf(q)
    end
    assert.same({ 3, 2 }, f(pn.tensor { { 0.1, 0.2 }, { 0.5, 0.6 }, { 0.8, 0.9 } }):shape())
    assert(pn.check_gradients(function() return f(p * pn.tensor { 1, 2 }) end, { loc, logits, p }))
    local compiled = pn.compile(function(q) return f(q) end)
    for _, q in ipairs { pn.tensor { 0.1, 0.2 }, pn.tensor { 0.9, 1e-8 } } do
      close(compiled(q), f(q):totable(), 1e-13, "replayed")
    end
    refuses("icdf", function()
      return dist.mixture({ 0.5, 0.5 }, dist.normal(pn.zeros { 2, 2 }, 1):independent(1)):icdf(pn.zeros { 2 })
    end)
    refuses("mixture: icdf does not exist", function()
      return dist.mixture({ 0.5, 0.5 }, dist.delta { 0.5, 1 }):icdf(0.5)
    end)
  end)
end)

describe("the density of a flow's own draw", function()
  local n = 12
  local function flows()
    local order = pn.tensor({ 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0 }, { dtype = "int64" })
    local one, two = B.random("inverse_autoregressive", n, { scale = 0.5 }), B.random("inverse_autoregressive", n,
      { scale = 0.5 })
    local masked = B.random("masked_autoregressive", n, { scale = 0.3 })
    return {
      { one, { one } },
      { B.chain { one, B.permutation(order), two, B.affine(1, 2) }, { one, two } },
      { B.inverse(masked), { masked } },
      { B.chain { B.inverse(masked), B.tanh() }, { masked } },
    }
  end
  local loc = pn.param(pn.zeros { n })

  local function parameters(parts)
    local list = { loc }
    for _, b in ipairs(parts) do
      for _, p in ipairs(b:parameters()) do
        list[#list + 1] = p
      end
    end
    return list
  end

  it("takes one pass of the networks and has the slopes of many", function()
    pn.seed(3)
    for k, flow in ipairs(flows()) do
      local d, list = dist.transformed(dist.normal(loc, 1):independent(1), flow[1]), parameters(flow[2])
      local y = d:rsample { 6, generator = pn.generator(k) }
      local function nodes(at)
        collectgarbage()
        collectgarbage()
        local before = select(3, pn.memory())
        local lp = d:log_prob(at)
        return lp, select(3, pn.memory()) - before
      end
      local lp, few = nodes(y)
      local slow, many = nodes(y * 1) -- another tensor, so computed from its numbers
      assert(few * 5 < many, ("%d nodes of %d"):format(few, many))
      close(lp, slow:totable(), 1e-10, "density")
      local got, want = pn.grad((lp + (y ^ 2):sum { -1 }):sum(), list), pn.grad((slow + (y ^ 2):sum { -1 }):sum(), list)
      for i, g in ipairs(got) do
        close(g, want[i]:totable(), 1e-7, "slope " .. i)
      end
      refuses("its gradient in a draw of the same bijector is not kept", pn.grad, lp:sum(), { y })
      local apart = pn.param(y:detach())
      assert(pn.grad(d:log_prob(apart):sum(), { apart })[1]:isfinite():all():item())
      local _, again = d:rsample_log_prob { 6, generator = pn.generator(k) }
      close(lp, again:totable(), 1e-12, "with the draw")
    end
  end)

  it("forgets the pair when a parameter changes, and differs from that of another flow", function()
    pn.seed(4)
    local one, two = flows()[1][1], flows()[1][1]
    local base = dist.normal(pn.zeros { n }, 1):independent(1)
    local d, other = dist.transformed(base, one), dist.transformed(base, two)
    local y = d:rsample { 3 }
    close(other:log_prob(y), other:log_prob(y:detach() + 0):totable(), 1e-12, "another flow")
    one.shift_bias:set(one.shift_bias:detach() + 1)
    close(d:log_prob(y), d:log_prob(y:detach() + 0):totable(), 1e-12, "changed")
  end)
end)

describe("transformed", function()
  it("has the density of its own draws though they are rounded to the edge", function()
    local d = dist.transformed(dist.normal(0, 30), B.sigmoid())
    local y = d:sample { 1000, generator = pn.generator(1) }
    assert(y:eq(1):any():item(), "no draw was rounded to 1")
    assert.equal(-math.huge, d:log_prob(1):item())
  end)

  it("keeps the tails of its base", function()
    local d, f = dist.transformed(dist.normal(0, 1), B.exp()), dist.transformed(dist.normal(0, 1), B.affine(1, -2))
    local want = dist.normal(0, 1):log_cdf(-40):item()
    close(d:log_survival(math.exp(40)), { want }, 1e-12, "rising")
    close(d:log_cdf(math.exp(-40)), { want }, 1e-12, "rising")
    close(f:log_survival(81), { want }, 1e-12, "falling")
    close(f:log_cdf(-79), { want }, 1e-12, "falling")
    close(dist.mixture({ 0.25, 0.75 }, dist.normal({ 0, 3 }, 1)):log_cdf(-40), { want + math.log(0.25) }, 1e-12,
      "mixture")
    refuses("transformed: log_cdf does not exist", function()
      return dist.transformed(dist.normal({ 0, 0 }, 1), B.ordered()):log_cdf(pn.zeros { 2 })
    end)
  end)

  it("refuses a base with values that the bijector does not take", function()
    refuses("transformed: values of the base must be positive for power, got normal on 'real'",
      dist.transformed, dist.normal(0, 1), B.power(2))
    refuses("transformed: values of the base must be a finite number for affine, got bernoulli", dist.transformed,
      dist.bernoulli(0.5), B.affine(1, 2))
    refuses("transformed: base must have at least 1 axes for ordered, got 0", dist.transformed, dist.normal(0, 1),
      B.ordered())
    refuses("transformed: bijector must be float64 as the base is, got float32", dist.transformed, dist.normal(0, 1),
      B.affine(pn.zeros { 1, dtype = "float32" }))
    refuses("must not widen events", dist.transformed, dist.normal(pn.zeros { 1 }, 1):independent(1),
      B.affine(pn.zeros { 3 }, 1))
    refuses("argument 2 must be a bijector", dist.transformed, dist.normal(0, 1), 2)
  end)

  it("takes its batch from both", function()
    local d = dist.transformed(dist.normal(0, 1), B.affine(pn.zeros { 3 }, 2))
    assert.same({ 3 }, d.batch_shape)
    local x = numbers(d:sample { 1 })
    assert(x[1] ~= x[2])
  end)

  it("is a flow whose draws and densities train", function()
    local flow = dist.transformed(dist.normal(pn.zeros { 3 }, 1),
      B.random("inverse_autoregressive", 3, { hidden = { 8 }, generator = pn.generator(2) }))
    local x = flow:rsample { 5 }
    assert.same({ 5 }, flow:log_prob(x):shape())
    assert(x:requires_grad())
  end)
end)

describe("moments of transformed", function()
  local two = dist.normal({ 0.5, -1 }, { 1, 3 })

  it("are carried through affine maps, chains and inverses", function()
    local tril = { { 2, 0 }, { -0.5, 1 } }
    local dense = dist.multivariate_normal { loc = { 1, 2 }, scale_tril = tril }
    local unit = dist.normal(pn.zeros { 2 }, 1)
    local cases = {
      { dist.transformed(unit, B.affine_tril({ 1, 2 }, tril)), dense },
      { dist.transformed(two, B.affine({ 1, 2 }, -2)), dist.normal({ 0, 4 }, { 2, 6 }) },
      { dist.transformed(two, B.inverse(B.affine({ 1, 2 }, -2))), dist.normal({ 0.25, 1.5 }, { 0.5, 1.5 }) },
      { dist.transformed(two, B.chain { B.affine(0, 2), B.permutation { 1, 0 }, B.affine(1, 0.5) }),
        dist.normal({ 0, 1.5 }, { 3, 1 }):independent(1) },
      { dist.transformed(two, B.inverse(B.chain { B.affine(0, 2), B.permutation { 1, 0 }, B.affine(1, 0.5) })),
        dist.normal({ -2, -0.5 }, { 3, 1 }):independent(1) },
      { dist.transformed(unit, B.chain { B.affine_tril({ 1, 2 }, tril), B.affine(1, 3) }),
        dist.multivariate_normal { loc = { 4, 7 }, scale_tril = { { 6, 0 }, { -1.5, 3 } } } },
    }
    for k, case in ipairs(cases) do
      for _, name in ipairs { "mean", "variance", "entropy", "mode" } do
        close(case[1][name](case[1]), case[2][name](case[2]):totable(), 1e-12, k .. " " .. name)
      end
    end
  end)

  it("have the entropies of laws with a name", function()
    close(dist.transformed(two, B.exp()):entropy(), dist.log_normal({ 0.5, -1 }, { 1, 3 }):entropy():totable(), 1e-12,
      "log_normal")
    close(dist.transformed(two, B.chain { B.affine(1, 2), B.exp() }):entropy(),
      dist.log_normal({ 2, -1 }, { 2, 6 }):entropy():totable(), 1e-12, "log_normal of a moved normal")
    local wide = dist.transformed(two:independent(1), B.exp())
    close(wide:entropy(), { dist.log_normal({ 0.5, -1 }, { 1, 3 }):entropy():sum():item() }, 1e-12, "of events")
    close(dist.transformed(dist.horseshoe(1), B.affine(1, 2)):mode(), { 1 }, 0, "a base without a mean has a mode")
  end)

  it("are refused by name where they are not known", function()
    local refused = dist.transformed(two, B.softplus())
    refuses("transformed: mean does not exist under softplus (expectation_monte_carlo estimates it)", refused.mean,
      refused)
    refuses("transformed: variance does not exist under softplus", refused.variance, refused)
    refuses("transformed: mode does not exist in closed form under softplus", refused.mode, refused)
    local base = dist.multivariate_normal { loc = { 0, 0 }, covariance_matrix = { { 2, 1 }, { 1, 2 } } }
    local correlated = dist.transformed(base, B.affine_tril({ 0, 0 }, { { 1, 0 }, { 1, 1 } }))
    refuses("transformed: variance does not exist", correlated.variance, correlated)
    local m, se = both(dist.expectation_monte_carlo(refused, { draws = 20000, generator = pn.generator(1) }))
    local want = { 1.08172569838, 0.95109766845 } -- by quadrature: E log(1 + e^x)
    for i = 1, 2 do
      assert(math.abs(m:totable()[i] - want[i]) < 6 * se:totable()[i] and se:totable()[i] < 0.02)
    end
    local square = dist.expectation_monte_carlo(two, function(x) return x ^ 2 end, { draws = 20000 })
    assert.same({ 2 }, square.value:shape())
    refuses("f must give 10000 rows", dist.expectation_monte_carlo, two, function() return pn.ones { 3 } end)
  end)
end)

describe("the divergence of composites", function()
  it("is the bases' under one bijector", function()
    local p, q, exp = dist.normal({ 0, 1 }, 1), dist.normal(1, 2), B.exp()
    local want = dist.kl(p, q):totable()
    close(dist.kl(dist.transformed(p, exp), dist.transformed(q, exp)), want, 1e-14, "kl")
    close(dist.kl(dist.transformed(p, exp):independent(1), dist.transformed(q, exp):expand({ 2 }):independent(1)),
      { want[1] + want[2] }, 1e-14, "kl of independent")
    -- made twice, a bijector with the same constants or tensors is the same map
    local scale = pn.param(pn.tensor(2))
    local function chained(k, other)
      return B.chain { B.affine(1, other or scale), k and B.inverse(B.exp()) or B.exp() }
    end
    close(dist.kl(dist.transformed(p, exp), dist.transformed(q, B.exp())), want, 1e-14, "kl")
    close(dist.kl(dist.transformed(p, chained()), dist.transformed(q, chained())), want, 1e-14, "kl")
    for _, other in ipairs { B.softplus(), chained(), B.affine(0, 1) } do
      refuses("transformed by another bijector (kl_monte_carlo estimates it)", dist.kl, dist.transformed(p, exp),
        dist.transformed(q, other))
    end
    -- equal numbers in two parameters are not: their gradients are their own
    refuses("another bijector", dist.kl, dist.transformed(p, chained()),
      dist.transformed(q, chained(false, pn.param(pn.tensor(2)))))
  end)

  it("counts where both masks are true", function()
    local p, q = dist.normal({ 0, 1, 2 }, 1), dist.normal(1, 2)
    local a, b = dist.masked(p, pn.tensor { true, true, false }), dist.masked(q, pn.tensor { false, true, true })
    local want = dist.kl(p, q):totable()
    close(dist.kl(a, b), { 0, want[2], 0 }, 1e-14, "kl")
    close(dist.kl(a, q), { want[1], want[2], 0 }, 1e-14, "the first is masked")
    close(dist.kl(p, b), { 0, want[2], want[3] }, 1e-14, "the second is masked")
    close(dist.kl(a:independent(1), q:expand({ 3 }):independent(1)), { want[1] + want[2] }, 1e-14, "independent")
    close(dist.kl(p:independent(1), b:independent(1)), { want[2] + want[3] }, 1e-14, "independent")
    local joint = dist.multivariate_normal { loc = pn.zeros { 3 }, covariance_matrix = pn.eye(3) }
    local whole = dist.masked(p:independent(1), pn.tensor(true))
    close(dist.kl(whole, joint), { dist.kl(p:independent(1), joint):item() }, 1e-14, "masked events")
    refuses("must have the same independent axes", dist.kl, a:independent(1), joint)
  end)
end)

describe("mixture", function()
  it("refuses what does not fit", function()
    local n = dist.normal
    refuses("weights must be a categorical distribution, got normal", dist.mixture, n(0, 1), n({ 1, 2 }, 1))
    refuses("weights must be 3 as components are, got 2", dist.mixture, { 0.5, 0.5 }, n({ 1, 2, 3 }, 1))
    refuses("weights must be 2 as components are, got 3", dist.mixture, { 0.2, 0.2, 0.6 }, { n(), n() })
    refuses("must have the components as last batch axis", dist.mixture, { 1 }, n(0, 1))
    refuses("a list must have at least 2 components", dist.mixture, { 1 }, { n(0, 1) })
    refuses("components must have one event shape", dist.mixture, { 0.5, 0.5 },
      { n(), n(pn.zeros { 2 }, 1):independent(1) })
    refuses("components must be all densities or all masses", dist.mixture, { 0.5, 0.5 }, { n(), dist.bernoulli(0.5) })
    refuses("component 2 must be a distribution", dist.mixture, { 0.5, 0.5 }, { n(), 3 })
    refuses("components must be a distribution or a list", dist.mixture, { 0.5, 0.5 }, 3)
  end)

  it("has its components' support, or one that holds all", function()
    local w, d = { 0.5, 0.5 }, dist
    assert.equal("open_unit_interval", d.mixture(w, d.beta(pn.tensor { 1, 2 }, 2)).support)
    assert.equal("nonnegative", d.mixture(w, { d.exponential(1), d.half_normal(1) }).support)
    assert.equal("real", d.mixture(w, { d.exponential(1), d.gamma(2, 1) }).support)
    assert.equal("real", d.mixture(w, { d.normal(0, 1), d.exponential(1) }).support)
    assert.equal("boolean", d.mixture(w, { d.bernoulli(0.5), d.bernoulli(0.2) }).support)
    assert.equal("nonnegative_integer", d.mixture(w, { d.bernoulli(0.5), d.poisson(2) }).support)
  end)

  it("keeps an unused component out of values and gradients", function()
    local w = pn.param(pn.tensor { 0.0, 1.0 })
    local d = dist.mixture(w, { dist.exponential(1), dist.normal(0, 1) })
    close(d:log_prob(-1), numbers(dist.normal(0, 1):log_prob(-1)), 1e-14, "log_prob")
    assert(pn.grad(d:log_prob(pn.tensor(-1)), { w })[1]:isfinite():all():item())
    assert.equal(0, d:sample({ 1000 }):isnan():sum():item())
  end)
end)

describe("masked", function()
  it("lets missing values reach nothing", function()
    local loc = pn.param(pn.zeros { 3 })
    local d = dist.masked(dist.normal(loc, 1), pn.tensor { true, false, true })
    local x = pn.param(pn.tensor { 1, 0 / 0, 2 })
    local lp = d:log_prob(x)
    assert.equal(0, lp:totable()[2])
    local g = pn.grad(lp:sum(), { loc, x })
    assert.same({ 1, 0, 2 }, g[1]:totable())
    assert.same({ -1, 0, -2 }, g[2]:totable())
    assert.equal(0, d:entropy():totable()[2])
    refuses("mask must be bool", dist.masked, dist.normal(0, 1), pn.ones { 2 })
  end)
end)
