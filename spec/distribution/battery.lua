--- What every distribution owes, from its row and its golden values: a list of {behaviour, function}. Nothing
--- here knows a distribution by name; sets are treated by their name (how to step inside them). `make soak` holds eight
--- times the draws against the law (MANY), and eight times those whose shares are to be uniform.
local pn = require "penumbra"
local assert = require "luassert"
local refuses = require("spec.helper").refuses

local dist = pn.dist
local SOAK = os.getenv "PN_SOAK" ~= nil
local DRAWS = 100000
local MANY = SOAK and 1000000 or 120000 -- against the law itself
local FEWER = 30000 -- where every draw has parameters of its own
local battery = {}

-- ---- numbers ----

local function flat(t, out)
  out = out or {}
  if type(t) ~= "table" then
    out[#out + 1] = t
  else
    for _, v in ipairs(t) do
      flat(v, out)
    end
  end
  return out
end

local function numbers(x)
  return flat(type(x) == "userdata" and x:totable() or x)
end

-- Relative error of each number at most rel, or its error at most `absolute`.
local function close(got, want, rel, what, absolute)
  got, want = numbers(got), numbers(want)
  assert(#got == #want, ("%s: %d numbers, expected %d"):format(what, #got, #want))
  for i, w in ipairs(want) do
    local g = got[i]
    local same = g == w or (g ~= g and w ~= w) or math.abs(g - w) <= rel * math.abs(w) + (absolute or 0)
    assert(same, ("%s: number %d is %.17g, expected %.17g"):format(what, i, g, w))
  end
end

-- Mean of the elements of x and its standard error.
local function estimate(x)
  local n, mean = x:numel(), x:mean():item()
  return mean, math.sqrt(((x - mean) ^ 2):sum():item() / (n - 1) / n)
end

-- The mean of x is `want` within 6 standard errors, which are at most `narrow` (absolute).
local function agrees(x, want, narrow, what)
  local m, se = estimate(x)
  local limit = narrow + 1e-12 * math.abs(want)
  assert(6 * se <= limit, ("%s: 6 standard errors are %g, more than %g"):format(what, 6 * se, limit))
  assert(math.abs(m - want) <= 6 * se + 1e-9 * math.abs(want),
    ("%s: %.8g is not within 6 * %.3g of %.8g"):format(what, m, se, want))
end

-- ---- cases ----

local function tensor(v, dtype)
  return pn.tensor(v, { dtype = dtype or "float64" })
end

-- Parameters as tensors; `change` replaces some.
local function parameters(case, change, dtype)
  local t = {}
  for name, v in pairs(case.params) do
    t[name] = tensor(v, dtype)
  end
  for name, v in pairs(change or {}) do
    t[name] = v
  end
  return t
end

local INTEGERS = { integer_interval = true } -- supports whose values are int64

local function make(row, case, change, dtype)
  return dist[row.name](parameters(case, change, dtype))
end

local function ordinary(golden)
  local list = {}
  for _, case in ipairs(golden.cases) do
    if not case.extreme then
      list[#list + 1] = case
    end
  end
  return list
end

-- Parameters that the case gives, sizes of events apart.
local function given(row, case)
  local list = {}
  for _, p in ipairs(row.parameters) do
    if case.params[p.name] ~= nil and not p.size then
      list[#list + 1] = p
    end
  end
  return list
end

-- Those of them that have gradients: whole numbers refuse to.
local function smooth(row, case)
  local list = {}
  for _, p in ipairs(given(row, case)) do
    if not p.discrete then
      list[#list + 1] = p
    end
  end
  return list
end

-- The points of a case at which the density is positive.
local function inner_points(row, case)
  local x = {}
  for i, v in ipairs(case.x) do
    if case.log_prob[i] > -1e5 then
      x[#x + 1] = v
    end
  end
  return pn.tensor(x, { dtype = INTEGERS[row.support] and "int64" or "float64" })
end

local function with_batch(t, batch, rank)
  local shape, own = { table.unpack(batch) }, t:shape()
  for i = #own - rank + 1, #own do
    shape[#shape + 1] = own[i]
  end
  return t:broadcast_to(shape)
end

local function batched(row, case, batch)
  local t = parameters(case)
  for _, p in ipairs(given(row, case)) do
    t[p.name] = with_batch(t[p.name], batch, #p.axes)
  end
  return dist[row.name](t)
end

-- ---- directions that stay inside a set ----

local step = {}
function step.real(_, r)
  return r
end
function step.positive(t, r)
  return t * r
end
function step.unit_interval(t, r)
  return t * (1 - t) * r
end
function step.simplex(t, r)
  local u = t * r
  return u - t * u:sum({ -1 }, true)
end
step.open_simplex = step.simplex
function step.log_weights(t, r)
  return pn.where(t:isfinite(), r, 0 * r)
end
function step.lower_cholesky(_, r)
  return (r * 0.3):tril()
end
function step.positive_definite(t, r)
  return (r + r:transpose(-2, -1)) * 0.05 * t:abs():max():item()
end
function step.nonnegative_integer(t)
  return t * 0 -- whole numbers have no directions
end
function step.half_line(t, r)
  return t * r * 1e-3 + 1e-4
end
-- The ends of the support are the distribution's: small steps.
function step.interval(t, r)
  return t * r * 1e-3
end
step.point, step.extended_real = step.nonnegative_integer, step.real
step.open_unit_interval = step.unit_interval
step.angle = step.real
step.nonnegative = step.positive
step.real_vector, step.real_matrix = step.real, step.real
step.positive_vector = step.positive
function step.mean_and_variance(t, r)
  return r * pn.concatenate({ t:slice(-1, 1, 1) * 0 + 1, t:slice(-1, 2, 2) }, -1)
end
-- Along the rows' unit spheres.
function step.correlation_cholesky(t, r)
  local n, below = t:size(-1), r:tril(-1) * 0.1
  local diagonal = (t * pn.eye(n)):sum { -1 }
  return below - pn.eye(n) * ((t * below):sum { -1 } / diagonal):unsqueeze(-1)
end
function step.mean_and_covariance(t, r)
  local mean, covariance = r:slice(-2, 1, 1), r:slice(-2, 2, -1)
  return pn.concatenate({ mean, step.positive_definite(t:slice(-2, 2, -1), covariance) }, -2)
end

local generator = pn.generator(20)
local function direction(set, t)
  return assert(step[set], "no direction for " .. set)(t, pn.rand(t:shape(), { generator = generator }) - 0.3)
end

-- Compares the slope of f along u at t with central differences; order 2 also the slope of the slope. f maps
-- a tensor to a 0-d tensor.
local function check_slopes(f, t, u, order, what)
  local function value(h)
    return f(t + u * h):item()
  end
  local function slope(h, graph)
    local x = pn.param((t + u * h):detach())
    local y = f(x)
    if not y:requires_grad() then
      return x, tensor(0)
    end
    return x, (pn.grad(y, { x }, { create_graph = graph })[1] * u):sum()
  end
  local h = 1e-5
  local _, first = slope(0)
  local want = (value(h) - value(-h)) / (2 * h)
  if math.abs(value(h) - value(-h)) == math.huge or want ~= want then -- a jump to inf is no slope
    assert(first:item() == 0, what .. ": slope at a jump")
    return
  end
  -- `noise` is what rounding leaves of a difference of numbers of that size
  local function near(got, expected, rel, noise, name)
    assert(math.abs(got - expected) <= rel * math.abs(expected) + 1e-14 / h * noise,
      ("%s: %s slope is %.10g, differences give %.10g"):format(what, name, got, expected))
  end
  near(first:item(), want, 1e-4, math.max(0.1, math.abs(value(0))), "first")
  if order < 2 then
    return
  end
  local x, again = slope(0, true)
  local second = again:requires_grad() and (pn.grad(again, { x })[1] * u):sum():item() or 0
  local _, above = slope(h)
  local _, below = slope(-h)
  near(second, (above:item() - below:item()) / (2 * h), 1e-3, math.max(0.01, math.abs(first:item())), "second")
end

-- Weights that tell the components of an event apart (what sums to a constant has no slope); 1 for numbers.
local function uneven(t, event_rank)
  local shape = t:shape()
  local event = { table.unpack(shape, #shape - event_rank + 1) }
  local n = 1
  for _, v in ipairs(event) do
    n = n * v
  end
  return pn.arange(n):cos():reshape(event):to(t:dtype())
end

-- ---- the behaviours ----

function battery.refuses_illegal_parameters(row, golden, sets)
  for _, p in ipairs(row.parameters) do
    local case
    for _, candidate in ipairs(golden.cases) do
      case = case or candidate.params[p.name] ~= nil and candidate
    end
    assert(case, "no golden case gives " .. p.name)
    for _, bad in ipairs(sets[p.constraint].outside) do
      refuses(row.name .. ": " .. p.name .. " must be ", make, row, case, { [p.name] = tensor(bad) })
    end
    refuses(("%s: %s must be a tensor or a number"):format(row.name, p.name), make, row, case, { [p.name] = "x" })
    refuses(("%s: %s must be float64 or float32"):format(row.name, p.name), make, row, case,
      { [p.name] = pn.zeros { 2, 2, dtype = "int64" } })
    if #p.axes > 0 then
      refuses(("%s: %s must have at least"):format(row.name, p.name), make, row, case, { [p.name] = tensor(1) })
    elseif #given(row, case) > 1 then
      refuses(row.name .. ": parameters must have one dtype", make, row, case,
        { [p.name] = tensor(case.params[p.name], "float32") })
    end
    if not p.default then
      local t = parameters(case)
      t[p.name] = nil
      refuses(row.name .. ": ", dist[row.name], t)
    end
    if p.choice then
      for _, other in ipairs(row.parameters) do
        if other.choice == p.choice and other ~= p then
          refuses(row.name .. ": exactly one of ", make, row, case, { [other.name] = tensor(case.params[p.name]) })
        end
      end
    end
  end
  refuses(row.name .. ": unknown option 'paramter'", dist[row.name], { paramter = 1 })
end

function battery.shapes_follow_sample_batch_event(row, golden)
  local case = golden.cases[1]
  local d = make(row, case)
  local event = d.event_shape
  assert.equal(row.event_rank, #event)
  local function joined(...)
    local shape = {}
    for _, part in ipairs { ... } do
      for _, v in ipairs(part) do
        shape[#shape + 1] = v
      end
    end
    return shape
  end
  for _, batch in ipairs { {}, { 3 }, { 2, 3 }, { 1 }, { 0 } } do
    local b = batched(row, case, batch)
    assert.same(batch, b.batch_shape)
    assert.same(event, b.event_shape)
    for _, size in ipairs { {}, { 4 }, { 4, 2 }, { 0 } } do
      local x = b:sample(size)
      assert.same(joined(size, batch, event), x:shape())
      assert.same(joined(size, batch), b:log_prob(x):shape())
    end
    for _, name in ipairs { "mean", "variance", "stddev", "mode" } do
      if row.functions[name] then
        assert.same(joined(batch, event), b[name](b):shape())
      end
    end
    if row.functions.entropy then
      assert.same(batch, b:entropy():shape())
    end
    if row.functions.kl then
      assert.same(batch, dist.kl(b, d):shape())
      assert.same(batch, dist.kl(d, b):shape())
    end
    if #batch > 0 then
      local i = b:independent(1)
      local last = table.remove(batch)
      assert.same(batch, i.batch_shape)
      assert.same(joined({ last }, event), i.event_shape)
      local x = i:sample { 4 }
      assert.same(joined({ 4 }, batch), i:log_prob(x):shape())
      close(i:log_prob(x), b:log_prob(x):sum { -1 }, 1e-12, "independent")
      if row.functions.kl then
        close(dist.kl(i, i), dist.kl(b, b):sum { -1 }, 1e-12, "kl of independent")
      end
    end
  end
  local wide = batched(row, case, { 3, 1 }):expand { 2, 3, 4 }
  assert.same({ 2, 3, 4 }, wide.batch_shape)
  assert.same(joined({ 5, 2, 3, 4 }, event), wide:sample({ 5 }):shape())
  refuses(row.name .. ": expand: ", wide.expand, wide, { 3, 4 })
  refuses(row.name .. ": independent: k must be", wide.independent, wide, 4)
end

-- Cases whose parameters can stand beside each other, two at least: the first where no other fits.
local function of_one_shape(row, golden)
  local list, shapes = {}, nil
  for _, case in ipairs(ordinary(golden)) do
    local mine = {}
    for name, v in pairs(case.params) do mine[name] = tensor(v):shape() end
    for _, p in ipairs(row.parameters) do
      if p.size then mine[p.name] = case.params[p.name] end
    end
    if not shapes or pcall(assert.same, shapes, mine) then
      shapes = shapes or mine
      list[#list + 1] = case
    end
  end
  list[2] = list[2] or list[1]
  return list
end

-- A row of a batch is what it is alone, whether the others have parameters of their own or one of all is shared.
function battery.has_rows_that_are_as_alone(row, golden)
  local cases = of_one_shape(row, golden)
  local function check(t, alone, i, what)
    local d, one, x = dist[row.name](t), make(row, alone), inner_points(row, alone)
    local lead = x:shape()
    table.insert(lead, 2, d.batch_shape[1])
    close(d:log_prob(x:unsqueeze(2):broadcast_to(lead)):select(2, i), one:log_prob(x), 1e-12, what)
    for _, name in ipairs { "mean", "variance", "entropy" } do
      if row.functions[name] then
        close(d[name](d):select(1, i), one[name](one), 1e-12, what .. ", " .. name)
      end
    end
  end
  local t = parameters(cases[1])
  for _, p in ipairs(given(row, cases[1])) do
    local list = {}
    for k, case in ipairs(cases) do list[k] = tensor(case.params[p.name]) end
    t[p.name] = pn.stack(list, 1)
    local one = parameters(cases[1])
    one[p.name] = pn.stack({ one[p.name], one[p.name] }, 1)
    for i = 1, 2 do check(one, cases[1], i, row.name .. ", rows of " .. p.name) end
  end
  for i, case in ipairs(cases) do check(t, case, i, row.name .. ", row") end
end

function battery.never_stretches_x_silently(row, golden)
  local case = golden.cases[1]
  local one = make(row, case)
  local flat_batch, column = batched(row, case, { 5 }), batched(row, case, { 5, 1 })
  refuses("would be stretched", flat_batch.log_prob, flat_batch, one:sample { 5, 1 })
  refuses("would be stretched", flat_batch.log_prob, flat_batch, one:sample { 1 })
  refuses("has fewer axes than the batch", column.log_prob, column, one:sample { 5 })
  refuses("must broadcast with the batch", flat_batch.log_prob, flat_batch, one:sample { 4 })
  assert.same({ 5 }, flat_batch:log_prob(one:sample()):shape())
  assert.same({ 3, 5 }, batched(row, case, { 3, 5 }):log_prob(one:sample { 5 }):shape())
  assert.same({ 7 }, one:log_prob(one:sample { 7 }):shape())
  if row.event_rank > 0 then
    refuses("must have the event's axes", one.log_prob, one, tensor(0))
  end
end

function battery.has_the_golden_values(row, golden)
  for k, case in ipairs(golden.cases) do
    local d = make(row, case)
    local function check(name, got, want)
      close(got, want, 1e-8, ("case %d: %s"):format(k, name))
    end
    check("log_prob", d:log_prob(tensor(case.x)), case.log_prob)
    if case.cdf then
      check("cdf", d:cdf(tensor(case.at or case.x)), case.cdf)
    end
    if case.far_x then
      check("log_prob far out", d:log_prob(tensor(case.far_x)), case.far_log_prob)
    end
    if case.tail_x then
      check("log_cdf", d:log_cdf(tensor(case.tail_x)), case.log_cdf)
      check("log_survival", d:log_survival(tensor(case.tail_x)), case.log_survival)
    end
    if case.icdf then
      check("icdf", d:icdf(tensor(case.p)), case.icdf)
      assert(d:icdf(tensor { -0.1, 1.1 }):isnan():sum():item() == 2, "icdf outside [0, 1]")
    end
    for _, name in ipairs { "mean", "variance", "entropy", "mode" } do
      assert((case[name] ~= nil) == row.functions[name], ("case %d: golden %s"):format(k, name))
      if case[name] then
        -- an entropy is a sum of terms that may all but vanish
        close(d[name](d), case[name], 1e-8, ("case %d: %s"):format(k, name), name == "entropy" and 1e-15 or 0)
      end
    end
    if case.variance then
      check("stddev squared", d:stddev() ^ 2, case.variance)
    end
  end
  for k, pair in ipairs(golden.kl) do
    local p, q = make(row, { params = pair.p }), make(row, { params = pair.q })
    close(dist.kl(p, q), pair.value, 1e-8, ("kl %d"):format(k))
    assert(math.abs(dist.kl(p, p):item()) < 1e-12, ("kl %d of itself"):format(k))
  end
end

function battery.works_in_float32(row, golden)
  for k, case in ipairs(ordinary(golden)) do
    local d = make(row, case, nil, "float32")
    local x = tensor(case.x, "float32")
    local lp = d:log_prob(x)
    assert.equal("float32", lp:dtype())
    local wide = {} -- what float64 makes of the same rounded numbers
    for name, t in pairs(d:arguments()) do
      wide[name] = t:to "float64"
    end
    local reference = dist[row.name](wide)
    local rel = 1e-5
    close(lp, reference:log_prob(x:to "float64"), rel, ("case %d: float32 log_prob"):format(k))
    assert.equal(INTEGERS[row.support] and "int64" or "float32", d:sample({ 2 }):dtype())
    if not INTEGERS[row.support] then -- labels take any dtype
      refuses("must be float32 as the parameters are, got float64", d.log_prob, d, tensor(case.x))
    end
  end
end

-- The points of x where cdf and 1 - cdf are not 0.
local function points_between(d, x)
  local list, low, high = {}, numbers(d:log_cdf(x)), numbers(d:log_survival(x))
  for i, v in ipairs(numbers(x)) do
    list[#list + 1] = low[i] > -math.huge and high[i] > -math.huge and v or nil
  end
  return tensor(list)
end

function battery.has_gradients(row, golden)
  for k, case in ipairs(ordinary(golden)) do
    local x = inner_points(row, case)
    local weight = pn.rand({ x:size(1) }, { generator = generator })
    local between = row.functions.log_cdf and not row.discrete and points_between(make(row, case), x)
    local function log_prob(change, at)
      return (make(row, case, change):log_prob(at or x) * weight):sum()
    end
    for _, p in ipairs(smooth(row, case)) do
      local t = tensor(case.params[p.name])
      local u = direction(p.constraint, t)
      local function what(name)
        return ("case %d: %s in %s"):format(k, name, p.name)
      end
      check_slopes(function(v)
        return log_prob { [p.name] = v }
      end, t, u, 2, what "log_prob")
      for _, name in ipairs { "mean", "variance", "entropy" } do
        if row.functions[name] then
          check_slopes(function(v)
            local d = make(row, case, { [p.name] = v })
            local value = d[name](d)
            return name == "entropy" and value:sum() or (value * uneven(value, row.event_rank)):sum()
          end, t, u, 2, what(name))
        end
      end
      if row.functions.cdf and not row.discrete then
        check_slopes(function(v)
          return make(row, case, { [p.name] = v }):cdf(x):sum()
        end, t, u, 1, what "cdf")
      end
      if row.functions.log_cdf and not row.discrete then
        check_slopes(function(v)
          local d = make(row, case, { [p.name] = v })
          return (d:log_cdf(between) + d:log_survival(between) * 0.7):sum()
        end, t, u, 1, what "log_cdf and log_survival")
      end
      if row.functions.icdf and case.p and not row.discrete then
        check_slopes(function(v)
          return make(row, case, { [p.name] = v }):icdf(tensor { 0.2, 0.77 }):sum()
        end, t, u, 1, what "icdf")
      end
      if row.functions.kl then
        local other = make(row, case)
        local moved = t + u * 0.1
        local along = direction(p.constraint, moved)
        for weight_there, weight_back in pairs { [1] = 0, [0] = 1, [0.5] = 2 } do
          local function both(v)
            local d = make(row, case, { [p.name] = v })
            local there, back = dist.kl(d, other) * weight_there, dist.kl(other, d) * weight_back
            return (weight_there == 0 and back or weight_back == 0 and there or there + back):sum()
          end
          local closed, value = pcall(both, moved) -- some pairs of one kind have no closed form
          if closed and value:isfinite():item() then -- supports may not hold each other
            check_slopes(both, moved, along, 2, what "kl")
          end
        end
      end
    end
    if not row.discrete then
      check_slopes(function(v)
        return log_prob(nil, v)
      end, x, direction(row.support, x), 2, ("case %d: log_prob in x"):format(k))
      if row.functions.log_cdf then
        check_slopes(function(v)
          local d = make(row, case)
          return (d:log_cdf(v) + d:log_survival(v) * 0.7):sum()
        end, between, direction(row.support, between), 1, ("case %d: log_cdf and log_survival in x"):format(k))
      end
    end
  end
end

-- ---- total mass ----

-- Points and weights of the trapezoidal rule after a substitution that makes the integrand decay at both ends.
local rule = {}
-- Middle and width of a distribution, of its quantiles where moments may not exist.
local function place(d, row, case)
  if row.functions.variance and not case.heavy then
    return numbers(d:mean())[1], numbers(d:stddev())[1]
  elseif row.functions.icdf then
    return d:icdf(tensor(0.5)):item(), (d:icdf(tensor(0.75)) - d:icdf(tensor(0.25))):item()
  end
  assert(case.place, "no case.place = {middle, width}")
  return table.unpack(case.place)
end
-- The exp-sinh rule on both sides of the middle, where a density may have a kink.
function rule.real(d, row, case)
  local m, s = place(d, row, case)
  local t = pn.linspace(-4, 4, 4001)
  local u = (t:sinh() * (math.pi / 2)):exp() * s
  local w = u * t:cosh() * (math.pi / 2 * 8 / 4000)
  return pn.concatenate({ m - u, m + u }, 1), pn.concatenate({ w, w }, 1)
end
function rule.positive(d, row, case)
  local t = pn.linspace(-250, 40, 58001)
  local x = t:exp() * place(d, row, case)
  return x, x * (290 / 58000)
end
rule.nonnegative = rule.positive
function rule.half_line(d)
  local low, t = d:icdf(tensor(0)):item(), pn.linspace(-80, 80, 32001)
  local u = t:exp() * (d:icdf(tensor(0.5)):item() - low)
  return low + u, u * (160 / 32000)
end
-- The tanh-sinh rule between the ends.
function rule.interval(_, _, case)
  assert(case.range, "no case.range = {low, high}")
  local low, high = table.unpack(case.range)
  local t = pn.linspace(-4, 4, 4001)
  local u = t:sinh() * (math.pi / 2)
  -- both ends by their own distance, so that nothing rounds to the end itself
  local part = (2 * u):sigmoid()
  local x = pn.where(u:lt(0), low + (high - low) * part, high - (high - low) * (-2 * u):sigmoid())
  local w = (high - low) * part * (1 - part) * t:cosh() * math.pi * (8 / 4000)
  local inside = pn.logical_and(x:gt(low), x:lt(high))
  return pn.where(inside, x, 0 * x + (low + high) / 2), pn.where(inside, w, 0 * w)
end
function rule.unit_interval(d, row)
  return rule.interval(d, row, { range = { 0, 1 } })
end
rule.open_unit_interval = rule.unit_interval
function rule.angle(d, row)
  return rule.interval(d, row, { range = { -math.pi, math.pi } })
end
function rule.boolean()
  return tensor { 0, 1 }, 1
end
function rule.nonnegative_integer()
  return pn.arange(2000), 1
end
rule.trials = rule.nonnegative_integer
function rule.one_hot(d)
  return pn.eye(d.event_shape[1]), 1
end
-- Every way to share total_count among the classes.
function rule.count_vector(d)
  local n, all = d.event_shape[1], {}
  local function share(left, prefix)
    if #prefix == n - 1 then
      all[#all + 1] = { table.unpack(prefix) }
      all[#all][n] = left
      return
    end
    for k = 0, left do
      prefix[#prefix + 1] = k
      share(left - k, prefix)
      prefix[#prefix] = nil
    end
  end
  share(math.tointeger(d.total_count:item()), {})
  return tensor(all), 1
end
function rule.atom(_, _, case)
  return tensor(case.x), 1
end
function rule.point(d)
  return d:mean(), 1
end
function rule.integer_interval()
  return pn.arange(1000), 1
end
-- Points and weights on [low, high], n of them; f maps the points, slope is its derivative.
local function axis(low, high, n, f, slope)
  local t, step_size = pn.linspace(low, high, n), (high - low) / (n - 1)
  return f and f(t) or t, (slope and slope(t) or 0 * t + 1) * step_size
end
-- All combinations of the points of the axes { {x, w}, ... }: a list of equal tensors and their weight.
local function grid(axes)
  local shape, points, weight = {}, {}, 1
  for i, a in ipairs(axes) do
    shape[i] = a[1]:numel()
  end
  for i, a in ipairs(axes) do
    local own = {}
    for j = 1, #axes do
      own[j] = j == i and shape[j] or 1
    end
    points[i] = a[1]:reshape(own):broadcast_to(shape)
    weight = a[2]:reshape(own) * weight
  end
  return points, weight
end
-- Around the mean in units of the standard deviation, out to where heavy tails end, for two components.
function rule.real_vector(d)
  local m, s = numbers(d:mean()), numbers(d:stddev())
  if #m ~= 2 then
    return nil
  end
  local far = { axis(-10, 10, 801, pn.sinh, pn.cosh) }
  local x, w = grid { far, far }
  return pn.stack({ m[1] + s[1] * x[1], m[2] + s[2] * x[2] }, -1), w * (s[1] * s[2])
end
-- Shares of two or three: u and (1 - u) v, each by the tanh-sinh rule.
function rule.simplex(d)
  local n = d.event_shape[1]
  if n > 3 then
    return nil
  end
  local function half_pi_sinh(t)
    return (math.pi / 2) * t:sinh()
  end
  local t, w = axis(-4, 4, n == 2 and 4001 or 501, half_pi_sinh, function(t)
    return (math.pi / 2) * t:cosh()
  end)
  local share, rest = (2 * t):sigmoid(), (-2 * t):sigmoid() -- each with its own distance from 0
  w = 2 * w * share * rest
  if n == 2 then
    return pn.stack({ share, rest }, -1), w
  end
  local index = { pn.arange(t:numel()), w }
  local at, weight = grid { index, index }
  local i, j = at[1]:to "int64":reshape { -1 }, at[2]:to "int64":reshape { -1 }
  local u, r = share:take(1, i), rest:take(1, i)
  return pn.stack({ u, r * share:take(1, j), r * rest:take(1, j) }, -1), weight:reshape { -1 } * r
end
-- Of the logarithm of the variance, and the mean in units of its conditional standard deviation.
function rule.mean_and_variance(d)
  local m, s = numbers(d:mean()), numbers(d:stddev())
  local ratio = s[1] / math.sqrt(m[2]) -- of mu's standard deviation given the variance to that variance's root
  local x, w = grid { { axis(-12, 12, 401) }, { axis(-25, 25, 1001, pn.exp, pn.exp) } }
  local v = m[2] * x[2]
  return pn.stack({ m[1] + ratio * v:sqrt() * x[1], v }, -1), w * ratio * v:sqrt() * m[2]
end
-- X = A B B^T A^T with A A^T the mean: of the logarithms of B's diagonal and sinh of what stands below it. With
-- n = 2, |dX / dB| = 4 |A|^3 b11^2 b22.
function rule.positive_definite(d)
  local n, a = d.event_shape[1], d:mean():cholesky()
  if n == 1 then
    local x, w = axis(-30, 30, 2001, pn.exp, pn.exp)
    local scale = d:mean():item()
    return (x * scale):reshape { -1, 1, 1 }, w * scale
  elseif n > 2 then
    return nil
  end
  local diagonal = { axis(-5, 5, 101, pn.exp, pn.exp) }
  local b, w = grid { diagonal, { axis(-5, 5, 101, pn.sinh, pn.cosh) }, diagonal }
  local lower = pn.stack({ pn.stack({ b[1], 0 * b[1] }, -1), pn.stack({ b[2], b[3] }, -1) }, -2):reshape { -1, 2, 2 }
  local root = a:matmul(lower)
  local det = a[{ 1, 1 }]:item() * a[{ 2, 2 }]:item()
  return root:matmul(root:transpose(-2, -1)), (w * b[1] ^ 2 * b[3] * (4 * det ^ 3)):reshape { -1 }
end
-- One component: the pair above, as a column.
function rule.mean_and_covariance(d, ...)
  if d.event_shape[2] > 1 then
    return nil
  end
  local x, w = rule.mean_and_variance(d, ...)
  return x:unsqueeze(-1), w
end
-- Matrices of two numbers, as vectors are.
function rule.real_matrix(d)
  local n, m = table.unpack(d.event_shape)
  if n * m ~= 2 then
    return nil
  end
  local far = { axis(-6, 6, 401, pn.sinh, pn.cosh) }
  local mean, s = numbers(d:mean()), numbers(d:stddev())
  local x, w = grid { far, far }
  return pn.stack({ mean[1] + s[1] * x[1], mean[2] + s[2] * x[2] }, -1):reshape { 401, 401, n, m }, w * (s[1] * s[2])
end
-- Two rows: a number between -1 and 1; three: that, and a radius and an angle of the third row.
function rule.correlation_cholesky(d)
  local n = d.event_shape[1]
  local function row(...)
    return pn.stack({ ... }, -1)
  end
  local function half_pi_sinh(t)
    return t:sinh() * (math.pi / 2)
  end
  local function half_pi_cosh(t)
    return t:cosh() * (math.pi / 2)
  end
  local u, w = axis(-4, 4, n == 2 and 2001 or 161, half_pi_sinh, half_pi_cosh)
  local r, height = u:tanh(), 1 / u:cosh() -- r and sqrt(1 - r^2)
  if n == 2 then
    return pn.stack({ row(1 + 0 * r, 0 * r), row(r, height) }, -2), w * height ^ 2
  elseif n ~= 3 then
    return nil
  end
  local radius, rest, turn = (2 * u):sigmoid(), (-2 * u):sigmoid(), { axis(0, 2 * math.pi * 7 / 8, 8) }
  local index = pn.arange(u:numel())
  local at, weight = grid { { index, w * height ^ 2 }, { index, 2 * w * radius ^ 2 * rest }, turn }
  local i, j, angle = at[1]:to "int64":reshape { -1 }, at[2]:to "int64":reshape { -1 }, at[3]:reshape { -1 }
  local a, b = r:take(1, i), radius:take(1, j)
  return pn.stack({
    row(1 + 0 * a, 0 * a, 0 * a),
    row(a, height:take(1, i), 0 * a),
    row(b * angle:cos(), b * angle:sin(), (rest * (1 + radius)):sqrt():take(1, j)),
  }, -2), weight:reshape { -1 }
end

function battery.integrates_to_one(row, golden)
  local integrated = 0
  for k, case in ipairs(ordinary(golden)) do
    local d = make(row, case)
    local x, w = assert(rule[row.support], "no rule for " .. row.support)(d, row, case)
    if x then
      integrated = integrated + 1
      close((d:log_prob(x):exp() * w):sum(), 1, row.discrete and 1e-10 or 1e-8, ("case %d: total mass"):format(k))
    end
  end
  assert(integrated > 0)
end

-- The distribution function of counts is the sum of their masses, flat between them; quantiles are where it jumps.
function battery.counts_have_steps(row, golden)
  if not (row.discrete and row.functions.cdf) or row.support == "point" then
    return
  end
  for k, case in ipairs(ordinary(golden)) do
    local d = make(row, case)
    local values = rule[row.support](d, row, case)
    values = values:slice(1, 1, math.min(values:numel(), 300))
    local what = ("case %d: "):format(k)
    local mass, cdf = d:log_prob(values):exp(), d:cdf(values)
    assert((cdf - mass:cumsum(1)):abs():max():item() < 1e-10, what .. "cdf and masses")
    assert.same(cdf:totable(), d:cdf(values + 0.5):totable())
    if row.functions.icdf then
      -- above 1 - 1e-10 neighbours may have one cdf
      local clear = pn.logical_and(mass:gt(1e-12), cdf:lt(1 - 1e-10))
      local wrong = pn.logical_and(clear, pn.logical_or(d:icdf(cdf):ne(values), d:icdf(cdf - mass / 2):ne(values)))
      assert(wrong:sum():item() == 0, what .. "icdf at the jumps")
    end
  end
end

function battery.ends_at_the_edges_of_its_support(row, golden, sets)
  for k, case in ipairs(ordinary(golden)) do
    local inside = case.x[1]
    local beyond = case.beyond or { table.unpack(sets[row.support].outside) }
    if row.support == "integer_interval" then
      beyond[#beyond + 1] = #case.x
    end
    for _, bad in ipairs(beyond) do
      if #flat(bad) == #flat(inside) then
        local t, leaves = parameters(case), {}
        for _, p in ipairs(smooth(row, case)) do
          t[p.name] = pn.param(t[p.name])
          leaves[#leaves + 1] = t[p.name]
        end
        local d, nan = dist[row.name](t), false
        for _, v in ipairs(flat(bad)) do
          nan = nan or v ~= v
        end
        local lp = d:log_prob(tensor { bad, inside })
        close(lp, { nan and 0 / 0 or -math.huge, case.log_prob[1] }, 1e-8, ("case %d: edge"):format(k))
        if not nan and row.support ~= "real" and #leaves > 0 then
          for _, g in ipairs(pn.grad(d:log_prob(tensor(bad)):sum(), leaves)) do
            close(g, 0 * g:detach(), 0, ("case %d: gradient outside"):format(k))
          end
        end
      end
    end
    if row.functions.cdf then
      local d = make(row, case)
      close(d:cdf(tensor { -math.huge, math.huge }), { 0, 1 }, 1e-12, "cdf at the ends")
    end
  end
end

function battery.raises_outside_its_support_where_validated(row, golden, sets)
  for k, case in ipairs(ordinary(golden)) do
    local d = make(row, case)
    local strict = d:validate()
    local inside = tensor(case.x[1])
    close(strict:log_prob(inside), d:log_prob(inside), 0, ("case %d: validated"):format(k))
    local beyond = case.beyond or { table.unpack(sets[row.support].outside) }
    for _, bad in ipairs(beyond) do
      if #flat(bad) == #flat(case.x[1]) then
        bad = tensor(bad)
        refuses(row.name .. ": x must be ", strict.log_prob, strict, bad)
        local before = pn.validate(true)
        local ok, message = pcall(d.log_prob, d, bad)
        local loose = pcall(d:validate(false).log_prob, d:validate(false), bad)
        pn.validate(before)
        assert(not ok and message:find(row.name .. ": x must be ", 1, true) and loose, message)
        d:log_prob(bad)
      end
    end
  end
  local named = parameters(golden.cases[1])
  named.validate = true
  local d = dist[row.name](named)
  local bad = (golden.cases[1].beyond or sets[row.support].outside)[1]
  if #flat(bad) == #flat(golden.cases[1].x[1]) then
    refuses(row.name .. ": x must be ", d.log_prob, d, tensor(bad))
  end
  named.validate = 1
  refuses(row.name .. ": validate must be true or false", dist[row.name], named)
end

-- ---- draws ----

-- Largest distance of the empirical distribution function from u's uniform one, times sqrt(n): above 3.23 with
-- probability 2e-9 (Kolmogorov), 6 sigma of a normal.
-- Draws held at the ends of what a number can be share one value: there only the steps before and after all of them
-- tell. Where numbers lie far apart for the law, a draw stands for its neighbourhood.
local function kolmogorov(d, x)
  local n, sorted = x:numel(), x:sort()
  local low = math.tointeger(sorted:le(sorted[1]):to("float64"):sum():item())
  local high = math.tointeger(sorted:ge(sorted[n]):to("float64"):sum():item())
  if low == n then
    return math.huge
  end
  local function distance(left, right) -- of the distribution function, just before and after the draws
    local largest = math.max(low / n - right[1]:item(), left[n]:item() - (n - high) / n)
    local from, to = low > 1 and low + 1 or 1, high > 1 and n - high or n
    if from <= to then
      local rank = pn.arange(from - 1, to)
      largest = math.max(largest, ((rank + 1) / n - right:slice(1, from, to)):max():item(),
        (left:slice(1, from, to) - rank / n):max():item())
    end
    return largest * math.sqrt(n)
  end
  local u = d:cdf(sorted)
  local plain = distance(u, u)
  if plain < 3.23 then
    return plain
  end
  local gap = sorted:abs() * 2.3e-16
  return distance(d:cdf(sorted - gap), d:cdf(sorted + gap))
end

-- Sums of groups of `width` neighbours.
local function grouped(x, width)
  local groups = math.ceil(x:numel() / width)
  local whole = pn.concatenate({ x, pn.zeros { groups * width - x:numel() } }, 1)
  return numbers(whole:reshape({ groups, width }):sum { 2 })
end

-- Pearson's statistic of whole-numbered draws against the mass function, and its limit at 6 sigma. Many values are
-- taken in groups, and groups that are expected fewer than 20 times together.
local function chi_square(d, draws)
  draws = draws:to "float64"
  local n, low, top = draws:numel(), draws:min():item(), draws:max():item()
  local values = pn.arange(low, top + 1)
  local index = (draws - low):reshape({ n }):to "int64"
  local counts, mass = pn.scatter_add(pn.zeros { values:numel() }, 1, index, pn.ones { n }), d:log_prob(values):exp()
  assert(pn.logical_and(counts:gt(0), mass:eq(0)):sum():item() == 0, "a value of mass 0 was drawn")
  local width = math.max(1, values:numel() // 500)
  local seen = grouped(counts, width)
  local statistic, bins, rest, rest_seen = 0, 0, n, n
  for i, p in ipairs(grouped(mass, width)) do
    local expected = p * n
    if expected >= 20 then
      statistic, bins = statistic + (seen[i] - expected) ^ 2 / expected, bins + 1
      rest, rest_seen = rest - expected, rest_seen - seen[i]
    end
  end
  if rest > 1 then
    statistic, bins = statistic + (rest_seen - rest) ^ 2 / rest, bins + 1
  else
    assert(rest_seen <= 30, "too many rare values")
  end
  return statistic, bins + 6 * math.sqrt(2 * bins) + 18
end

-- What moments mean in a set: of draws about a point m the first and second, and what a distribution says they are.
-- Those of angles are of sine and cosine.
local plain = {
  first = function(x, m) return x - m end,
  second = function(x, m) return (x - m) ^ 2 end,
  expect_first = function(d, m) return d:mean() - m end,
  expect_second = function(d, m) return d:variance() + (d:mean() - m) ^ 2 end,
}
local circular = {
  first = function(x, m) return (x - m):sin() end,
  second = function(x, m) return 1 - (x - m):cos() end,
  expect_first = function(d, m) return (1 - d:variance()) * (d:mean() - m):sin() end,
  expect_second = function(d, m) return 1 - (1 - d:variance()) * (d:mean() - m):cos() end,
}
local function moments_in(set)
  return set == "angle" and circular or plain
end

-- The components of x [n, ...] as a list of [n].
local function columns(x)
  local rows, list = x:reshape({ x:size(1), -1 }):t():contiguous(), {}
  for i = 1, rows:size(1) do
    list[i] = rows[i]
  end
  return list
end

function battery.draws_have_its_law(row, golden)
  for k, case in ipairs(golden.cases) do
    local d = make(row, case)
    local many = row.support == "angle" and 2 * MANY or MANY -- whose variance is half that of their sine
    local x = d:sample { many, generator = pn.generator(100 + k) }
    assert(dist.within(row.support, x):logical_not():sum():item() == 0, "draws outside the support")
    assert(d:log_prob(x):isinf():sum():item() == 0, "draws of density 0")
    local what = ("case %d: "):format(k)
    for _, pair in ipairs(case.below or {}) do -- {x, P(X <= x)}
      agrees(x:le(pair[1]):to "float64", pair[2], 0.01, ("%sP(X <= %g)"):format(what, pair[1]))
    end
    if row.functions.variance and not case.extreme and not case.heavy then
      local mean, variance, moments = numbers(d:mean()), numbers(d:variance()), moments_in(row.support)
      for i, column in ipairs(columns(x)) do
        agrees(moments.first(column, mean[i]), 0, 0.02 * math.sqrt(variance[i]), what .. "mean of draws")
        if not row.discrete then
          agrees(moments.second(column, mean[i]), variance[i], 0.1 * variance[i], what .. "variance of draws")
        end
      end
    end
    if row.functions.cdf and not row.discrete then
      local distance = kolmogorov(d, x)
      assert(distance < 3.23, what .. "Kolmogorov-Smirnov " .. distance)
    end
    if row.discrete and row.event_rank == 0 and not case.coarse then
      local statistic, limit = chi_square(d, x)
      assert(statistic < limit, what .. "chi-square " .. statistic)
    end
  end
end

-- Fine differences: where the distribution function of the draws is not uniform in its first two moments, a scale that
-- is off by 0.01 shows with a million draws, one that is off by 0.003 with the eight of `make soak`.
function battery.many_draws_have_uniform_shares(row, golden)
  local case = golden.cases[1]
  if row.discrete or row.event_rank > 0 or not row.functions.cdf then
    return
  end
  local d, first, second, parts = make(row, case), 0, 0, SOAK and 80 or 10
  for part = 1, parts do
    local u = d:cdf(d:sample { DRAWS, generator = pn.generator(700 + part) }) - 0.5
    first, second = first + u:mean():item() / parts, second + (u ^ 2):mean():item() / parts
  end
  local n = parts * DRAWS
  assert(math.abs(first) < 6 * math.sqrt(1 / 12 / n), "mean of the shares is off by " .. first)
  assert(math.abs(second - 1 / 12) < 6 * math.sqrt(1 / 180 / n), "variance of the shares is " .. second)
end

-- Numbers whose moments do not exist, squeezed between -1 and 1 about their median.
local function squeezed(x)
  local sorted = x:sort()
  local n = x:numel()
  local middle, width = sorted[n // 2]:item(), sorted[n * 3 // 4]:item() - sorted[n // 4]:item()
  return ((x - middle) / width):tanh(), middle, width
end

-- The case with one parameter moved inside its set, as tensors: the first that has directions, or the last.
local function moved_parameters(row, case, last)
  local p
  for _, candidate in ipairs(given(row, case)) do
    p = (not last and p) or candidate.constraint ~= "nonnegative_integer" and candidate or p
  end
  local t = tensor(case.params[p.name])
  return parameters(case, { [p.name] = t + 0.5 * direction(p.constraint, t) })
end

function battery.draws_of_a_batch_have_each_its_law(row, golden)
  for k, case in ipairs(ordinary(golden)) do
    local first, second, both = parameters(case), moved_parameters(row, case), parameters(case)
    for _, p in ipairs(given(row, case)) do
      both[p.name] = pn.stack({ first[p.name], second[p.name] }, 1)
    end
    local x = dist[row.name](both):sample { FEWER, generator = pn.generator(200 + k) }
    for i, t in ipairs { first, second } do
      local d = dist[row.name](t)
      local own = x:slice(2, i, i):reshape { FEWER, table.unpack(d.event_shape) }
      if row.functions.entropy then
        agrees(-d:log_prob(own), d:entropy():item(), 0.1 * #columns(own), ("case %d: row %d"):format(k, i))
      elseif row.functions.variance and not case.heavy then
        local mean, scale = numbers(d:mean()), numbers(d:stddev())
        for j, column in ipairs(columns(own)) do
          agrees(column, mean[j], 0.05 * scale[j], ("case %d: row %d"):format(k, i))
        end
      end
    end
    -- rows of one batch are independent
    local two = batched(row, case, { 2 })
    local pair = two:sample({ FEWER, generator = pn.generator(250 + k) }):to "float64"
    local a, b = columns(pair:slice(2, 1, 1)), columns(pair:slice(2, 2, 2))
    local constant = row.functions.variance and numbers(two:variance())[1] == 0
    for i in ipairs(constant and {} or a) do
      local u, v = a[i], b[i]
      if case.heavy then
        u, v = squeezed(u), squeezed(v)
      end
      u, v = u - u:mean(), v - v:mean()
      local scale = math.sqrt((u ^ 2):mean():item() * (v ^ 2):mean():item())
      agrees(u * v, 0, 0.05 * scale, ("case %d: rows of a batch"):format(k))
    end
  end
end

function battery.draws_depend_on_the_generator_alone(row, golden)
  local leaves = parameters(golden.cases[1])
  for _, p in ipairs(smooth(row, golden.cases[1])) do
    leaves[p.name] = pn.param(leaves[p.name])
  end
  local d = dist[row.name](leaves)
  local before = pn.rng_state()
  local a, b = d:sample { 50, generator = pn.generator(7) }, d:sample({ 50 }, pn.generator(7))
  assert.same(before, pn.rng_state())
  assert.same(a:totable(), b:totable())
  assert.is_false(a:requires_grad())
  local threads, alone = pn.threads(), nil
  for n = 1, 3 do
    pn.threads(n)
    local x = d:sample({ 20000 }, pn.generator(8))
    alone = alone or x
    assert.is_true(x:eq(alone):all():item())
  end
  pn.threads(threads)
  pn.seed(11)
  local first = d:sample({ 20 }):totable()
  local again = d:sample({ 20 }):totable()
  if not row.functions.variance or numbers(d:variance())[1] > 0 then
    assert.is_not.same(first, again)
  end
  pn.seed(11)
  assert.same(first, d:sample({ 20 }):totable())
end

-- Where moments do not exist: the slope of E[tanh((x - m) / s)] by draws and by quadrature of the density.
local function squeezed_slopes_agree(row, case, k)
  local d = make(row, case)
  local _, m, s = squeezed(d:sample { FEWER, generator = pn.generator(30 + k) })
  for _, p in ipairs(smooth(row, case)) do
    local t = tensor(case.params[p.name])
    local u = direction(p.constraint, t)
    local copies = pn.param(with_batch(t, { FEWER }, #p.axes))
    local x = make(row, case, { [p.name] = copies }):rsample { generator = pn.generator(31 + k) }
    local slopes = pn.grad(((x - m) / s):tanh():sum(), { copies })[1] * u
    local function expected(h)
      local q = make(row, case, { [p.name] = t + u * h })
      local at, w = rule[row.support](q, row, case)
      return ((q:log_prob(at):exp() * w) * ((at - m) / s):tanh()):sum():item()
    end
    local h = 1e-4
    agrees(slopes, (expected(h) - expected(-h)) / (2 * h), 0.1, ("case %d: squeezed slope in %s"):format(k, p.name))
  end
end

function battery.rsample_is_differentiable(row, golden)
  if not row.functions.rsample then
    return refuses(row.name .. ": rsample does not exist", function()
      return make(row, golden.cases[1]):rsample { 2 }
    end)
  end
  for k, case in ipairs(ordinary(golden)) do
    local d = make(row, case)
    local moments = row.functions.variance and not case.heavy
    assert.same(
      d:sample({ 9, generator = pn.generator(5) }):totable(),
      d:rsample({ 9, generator = pn.generator(5) }):totable()
    )
    if not moments and row.event_rank == 0 then
      squeezed_slopes_agree(row, case, k)
    end
    for _, p in ipairs(moments and smooth(row, case) or {}) do
      local t = tensor(case.params[p.name])
      local u = direction(p.constraint, t)
      -- one copy of the parameter per draw, so that the slope of each draw is seen
      local copies = pn.param(with_batch(t, { FEWER }, #p.axes))
      local x = make(row, case, { [p.name] = copies }):rsample { generator = pn.generator(31 + k) }
      local scale = math.max(table.unpack(numbers(d:stddev())))
      local tell = uneven(d:mean(), row.event_rank)
      local function slopes(y)
        y = y * tell
        local g = pn.grad(y:sum(), { copies })[1] * u
        return #p.axes > 0 and g:reshape({ FEWER, -1 }):sum { 2 } or g
      end
      local function exact(f)
        local leaf = pn.param(t)
        local y = f(make(row, case, { [p.name] = leaf }))
        return y:requires_grad() and (pn.grad(y, { leaf })[1] * u):sum():item() or 0
      end
      local size = math.max(1e-3, scale)
      local shift, components, of = d:mean(), #numbers(d:mean()), moments_in(row.support)
      agrees(slopes(of.first(x, shift)), exact(function(q)
        return (of.expect_first(q, shift) * tell):sum()
      end), 0.5 * size * math.sqrt(components), ("case %d: slope of the mean in %s"):format(k, p.name))
      agrees(slopes(of.second(x, shift)), exact(function(q)
        return (of.expect_second(q, shift) * tell):sum()
      end), 2 * components * math.max(1e-6, scale * math.max(scale, 1)),
        ("case %d: slope of the second moment in %s"):format(k, p.name))
    end
  end
end

function battery.entropy_and_kl_are_expectations(row, golden)
  for k, case in ipairs(ordinary(golden)) do
    local p = make(row, case)
    local x = p:sample { DRAWS, generator = pn.generator(300 + k) }
    local lp = p:log_prob(x)
    if row.functions.entropy then
      agrees(-lp, p:entropy():item(), 0.05 * #columns(x), ("case %d: entropy"):format(k))
    end
    if row.functions.kl then
      local q = dist[row.name](moved_parameters(row, case))
      if not pcall(dist.kl, p, q) then -- no closed form for two values of the first parameter
        q = dist[row.name](moved_parameters(row, case, true))
      end
      local value = dist.kl(p, q):item()
      assert(value >= 0)
      if value == math.huge then
        assert(q:log_prob(x):min():item() == -math.huge, ("case %d: an infinite kl that draws do not show"):format(k))
      else
        agrees(lp - q:log_prob(x), value, 0.1 * math.sqrt(value) + 1e-6, ("case %d: kl"):format(k))
      end
    end
  end
end

function battery.refuses_gradients_of_whole_numbers(row, golden)
  for _, p in ipairs(row.parameters) do
    local t = parameters(golden.cases[1])
    if p.discrete and t[p.name] then
      t[p.name] = pn.param(t[p.name])
      refuses(("%s: %s is a whole number: no gradient exists; pass it detached"):format(row.name, p.name),
        dist[row.name], t)
      assert(pn.no_grad(function() return dist[row.name](t) end))
      t[p.name] = t[p.name]:detach()
      assert(dist[row.name](t))
    end
  end
end

function battery.names_what_it_lacks(row, golden)
  local d = make(row, golden.cases[1])
  for name, there in pairs(row.functions) do
    if not there and name ~= "kl" then
      refuses(("%s: %s does not exist"):format(row.name, name), d[name], d, name == "rsample" and { 2 } or 0.5)
    end
  end
  assert(row.functions.log_prob and row.functions.sample)
  local pairs_known = {}
  for _, pair in ipairs(dist.kl_pairs()) do
    pairs_known[pair[1] .. " and " .. pair[2]] = true
  end
  for _, other in ipairs(pn.rows()) do
    local pair = row.name .. " and " .. other.name
    if other.kind == "distribution" and not pairs_known[pair] then
      local case = require("spec.golden.distribution." .. other.name).cases[1]
      local ok, kl = pcall(dist.kl, d, make(other, case))
      -- the parameters alone may make it infinite
      local refused = not ok and kl:find("kl: there is no closed form for " .. pair, 1, true)
      assert(refused or kl:item() == math.huge, tostring(kl))
    end
  end
end

function battery.can_be_saved_and_made_again(row, golden)
  local path = os.tmpname()
  for _, case in ipairs(golden.cases) do
    local d = make(row, case)
    assert(pn.save(path, d:arguments()))
    local saved = assert(pn.load(path))
    local again = dist[d.name](saved)
    local x = d:sample { 5 }
    assert.same(d:log_prob(x):totable(), again:log_prob(x):totable())
    assert.equal(tostring(d), tostring(again))
  end
  os.remove(path)
end

function battery.says_what_it_is(row, golden)
  local d = make(row, golden.cases[1])
  assert.equal(row.name, d.name)
  assert.equal(row.support, d.support)
  assert.equal(row.name .. "{", tostring(d):sub(1, #row.name + 1))
  assert(#row.doc > 20 and #row.source > 10 and #row.args > 0)
  assert(row.moments or row.event_rank > 0, "help says nothing of mean, variance and mode")
  for name, value in pairs(golden.cases[1].params) do
    close(d[name], value, 0, "field " .. name)
    assert(tostring(d):find(name .. " = ", 1, true))
  end
  d:close()
  refuses("distribution was closed", function()
    return d:mean()
  end)
end

return battery
