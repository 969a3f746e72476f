-- Random programs: compositions of distributions, bijectors, plates, loops over time and factors, in one another to a
-- depth of three, with sizes drawn by a generator of numbers; some with discrete variables that are summed out. Their
-- log density as a model is the sum of what each variable says by itself, one row and one step after another (and over
-- all values of what is summed out); eager, replayed, vmapped and in float32 it is the same, with its gradients, and so
-- is the density that samplers follow, with the volume of its bijectors. Under PN_SOAK more programs; PN_SEED: others.
local pn = require "penumbra"
local drawn_numbers = require "spec.infer.drawn_numbers"
local dist, bijector = pn.dist, pn.dist.bijector

local SOAK = tonumber(os.getenv "PN_SOAK")
local PROGRAMS = SOAK and 2000 or 24
local MOST = 40 -- variables of a program, one for each row and step
local SUMS = 64 -- values of all that is summed out

-- ---- what a variable may be: a law of a number l around zero and a positive number s ----

local function through(l, s, ...)
  local list = { ... }
  return dist.transformed(dist.normal(l, s), #list > 1 and bijector.chain(list) or list[1])
end

local function affine(l, loc, scale)
  local o = { dtype = l:dtype() }
  return bijector.affine(pn.full({}, loc, o), pn.full({}, scale, o))
end

local function vector(...) return pn.stack({ ... }, -1) end

local laws = {
  function(l, s) return dist.normal(l, s) end,
  function(l, s) return dist.laplace(l, s) end,
  function(l, s) return dist.gumbel(l, s) end,
  function(l, s) return dist.logistic(l, s) end,
  function(l, s) return dist.student_t(5, l, s) end,
  function(l, s) return dist.cauchy(l, s) end,
  function(l, s) return dist.log_normal(l, s) end,
  function(l, s) return dist.gamma(s + 1, l:exp()) end,
  function(l, s) return dist.inverse_gamma(s + 2, l:exp()) end,
  function(_, s) return dist.exponential(s) end,
  function(_, s) return dist.half_normal(s) end,
  function(l, s) return dist.beta(l:exp(), s) end,
  function(l, s) return dist.kumaraswamy(l:exp() + 0.5, s) end,
  function(l, s) return dist.weibull(s, l:exp()) end,
  function(l, s) return through(l, s, bijector.sigmoid()) end,
  function(l, s) return through(l, s, bijector.softplus()) end,
  function(l, s) return through(l, s, bijector.tanh(), affine(l, 0.5, 2)) end,
  function(l, s) return through(l, s, affine(l, -0.3, 1.5), bijector.exp()) end,
  function(l, s)
    return dist.mixture(vector(s, l:exp()):log_softmax(-1):exp(), dist.student_t(4, vector(l, l * 0 - 1),
      vector(s, s + 1)))
  end,
}

local vectors = {
  function(l, s) return dist.normal(vector(l, l * 0.5 - 1, l * 0), vector(s, s + 1, s * 0.5)):independent(1) end,
  function(l, s)
    local zero = l * 0
    return dist.multivariate_normal { loc = vector(l, zero + 1), scale_tril = pn.stack({ vector(s, zero),
      vector(l:tanh(), zero + 0.7) }, -2) }
  end,
  function(l, s)
    return dist.transformed(dist.normal(vector(l, l + 0.3), vector(s, s)):independent(1), bijector.ordered())
  end,
}

-- On a simplex the slope of what samplers follow is no product over numbers.
local function simplex(l, s) return dist.dirichlet(vector(s + 0.5, l:exp() + 0.5, s * 0 + 1)) end

local counts = {
  function(l, _) return dist.poisson(l:exp() + 0.2) end,
  function(l, _) return dist.bernoulli { logits = l } end,
  function(l, _) return dist.binomial(5, l:sigmoid()) end,
  function(l, s) return dist.negative_binomial(s + 1, l:sigmoid()) end,
  function(l, s) return dist.beta_binomial(4, l:exp(), s) end,
}

local choices = {
  function(l, _) return dist.bernoulli { logits = l } end,
  function(l, s) return dist.categorical { logits = vector(l, s, l * 0) } end,
}

local function law_named(kind, k)
  if kind == "simplex" then return simplex end
  return ({ real = laws, vector = vectors, count = counts, choice = choices })[kind][k]
end

-- ---- programs ----

local writer = {}
writer.__index = writer

function writer:named(letter)
  self.names = self.names + 1
  return letter .. self.names
end

-- A variable that looks at some of `seen`, where `times` of it stand in all.
function writer:statement(seen, times, carried)
  local r = self.r
  local kind = carried and r.one_of { "real", "real", "vector" } or r.one_of { "real", "real", "real", "real", "vector",
    "vector", "simplex", "count" }
  local values = r.below(2) + 1
  if r.chance(0.25) and self.sums * values ^ times <= SUMS then
    kind, self.sums = "choice", self.sums * values ^ times
  end
  self.count = self.count + times
  local s = { name = self:named "v", kind = kind, looks = {},
    numbers = { r.between(-1, 1), r.between(-1, 1), r.between(-1, 1), r.between(-0.5, 1) } }
  s.law = kind == "choice" and values - 1
    or r.below(kind == "vector" and #vectors or kind == "count" and #counts or #laws)
  for k = 1, #seen > 0 and r.below(3) - 1 or 0 do s.looks[k] = r.one_of(seen) end
  s.observed = kind == "count" or kind ~= "choice" and not carried and r.chance(0.3)
  return s
end

-- A list of items, whose variables stand `times` times. What it defines is seen by what comes after it.
function writer:block(seen, times, depth, most)
  local r, list = self.r, {}
  seen = table.move(seen, 1, #seen, 1, {})
  for _ = 1, r.below(most) do
    local what = r.uniform()
    local size = r.below(3)
    local room = depth < 3 and self.count + 2 * times * size <= MOST
    if room and what < 0.25 then
      list[#list + 1] = { plate = self:named "p", size = size, body = self:block(seen, times * size, depth + 1, 3) }
      self.deepest = math.max(self.deepest, depth + 1)
    elseif room and what < 0.5 then
      if depth == 0 and r.chance(0.15) and self.count < 3 then size = 32 + r.below(4) end
      local name = self:named "s"
      local inner = table.move(seen, 1, #seen, 1, { name })
      local one = self:statement(inner, times * size, true)
      one.looks[1] = name -- the turn before
      inner[#inner + 1] = one.name
      local body = size < 10 and self.count + times * size <= MOST and r.chance(0.6)
        and self:block(inner, times * size, depth + 1, 2) or {}
      table.insert(body, 1, one)
      list[#list + 1] = { scan = name, size = size, body = body, carried = one.name }
      self.deepest = math.max(self.deepest, depth + 1)
      seen[#seen + 1] = name -- of the last turn
    elseif what > 0.93 and #seen > 0 then
      list[#list + 1] = { factor = self:named "f", looks = { r.one_of(seen) }, weight = r.between(-1, 1) }
    else
      list[#list + 1] = self:statement(seen, times)
      seen[#seen + 1] = list[#list].name
    end
  end
  return list
end

local function program_of(seed)
  local w = setmetatable({ r = drawn_numbers(seed), names = 0, count = 0, sums = 1, deepest = 0 }, writer)
  w.list = w:block({}, 1, 0, 4)
  return w
end

local function each_statement(list, f, scans)
  for _, item in ipairs(list) do
    if item.kind then
      f(item, scans or {})
    elseif item.body then
      local inner = table.move(scans or {}, 1, scans and #scans or 0, 1, {})
      inner[#inner + 1] = item.scan and item.size
      each_statement(item.body, f, inner)
    end
  end
end

-- ---- what they mean ----

-- The number that others see of a variable: `kinds` tells its kind by name.
local function seen_of(names, found, kinds, dtype)
  local sum
  for _, name in ipairs(names) do
    local x = found[name]
    if x then
      x = x:dtype() == dtype and x or x:to(dtype)
      local kind = kinds[name]
      x = ((kind == "vector" or kind == "simplex") and x:sum(-1) or x):tanh()
      sum = sum and sum + x or x
    end
  end
  return sum or pn.zeros({}, { dtype = dtype })
end

local function law_of(s, found, kinds, dtype)
  local c, x = s.numbers, seen_of(s.looks, found, kinds, dtype)
  return law_named(s.kind, s.law)(x * c[1] + c[2], (x * c[3] + c[4]):softplus() + 0.3)
end

local function kinds_of(program)
  local kinds = {}
  each_statement(program.list, function(s) kinds[s.name] = s.kind end)
  local function scans(list)
    for _, item in ipairs(list) do
      if item.scan then kinds[item.scan] = kinds[item.carried] end
      if item.body then scans(item.body) end
    end
  end
  scans(program.list)
  return kinds
end

local function with(found) return setmetatable({}, { __index = found }) end

-- As a model: data is a table of what is observed. With `all`, nothing is.
local function model_of(program, dtype, all)
  local kinds = kinds_of(program)
  return pn.model(function(m, data)
    local run
    local function one(item, found, times)
      if item.kind then
        local d = law_of(item, found, kinds, dtype)
        if item.observed and not all then
          local value = data[item.name]
          for _, t in ipairs(times) do value = value:select(1, t) end
          found[item.name] = m:observe(item.name, d, value)
        else
          found[item.name] = m:sample(item.name, d, item.kind == "choice" and { enumerate = true } or nil)
        end
      elseif item.factor then
        m:factor(item.factor, seen_of(item.looks, found, kinds, dtype) * item.weight)
      elseif item.plate then
        m:plate(item.plate, item.size, function() run(item.body, with(found), times) end)
      else
        found[item.scan] = m:scan(item.scan, item.size, false, function(before, t)
          local inner = with(found)
          inner[item.scan] = before
          run(item.body, inner, table.move(times, 1, #times, 1, { [#times + 1] = t }))
          return inner[item.carried]
        end)
      end
    end
    function run(list, found, times)
      for _, item in ipairs(list) do one(item, found, times) end
    end
    run(program.list, {}, {})
  end)
end

-- The same, one number after another: values are nested tables, [time] ... [inner plate] [outer plate] [event].
local function sum_of(program, values, kinds, chosen)
  local total, run = 0, nil
  local function one(item, found, times, rows)
    if item.kind then
      local value = kinds[item.name] == "choice" and chosen(item, times, rows) or values[item.name]
      if kinds[item.name] ~= "choice" then
        for _, t in ipairs(times) do value = value[t] end
        for k = #rows, 1, -1 do value = value[rows[k]] end
      end
      local law = law_of(item, found, kinds, "float64")
      local x = pn.tensor(value, { dtype = law.name == "categorical" and "int64" or "float64" })
      local lp = law:log_prob(x)
      assert.same({}, lp:shape())
      total, found[item.name] = total + lp:item(), x
    elseif item.factor then
      total = total + seen_of(item.looks, found, kinds, "float64"):item() * item.weight
    elseif item.plate then
      for i = 1, item.size do
        run(item.body, with(found), times, table.move(rows, 1, #rows, 1, { [#rows + 1] = i }))
      end
    else
      local before = false
      for t = 1, item.size do
        local inner = with(found)
        inner[item.scan] = before
        run(item.body, inner, table.move(times, 1, #times, 1, { [#times + 1] = t }), rows)
        before = inner[item.carried]
      end
      found[item.scan] = before
    end
  end
  function run(list, found, times, rows)
    for _, item in ipairs(list) do one(item, found, times, rows) end
  end
  run(program.list, {}, {}, {})
  return total
end

-- Over all values of what is summed out.
local function by_hand(program, values, kinds)
  local sizes, place, order = {}, {}, {}
  local function chosen(item, times, rows)
    local key = item.name .. " " .. table.concat(times, ",") .. ";" .. table.concat(rows, ",")
    if not place[key] then
      order[#order + 1], place[key] = key, 0
      sizes[#order] = item.law == 1 and 2 or 3
    end
    return place[key]
  end
  local list = { sum_of(program, values, kinds, chosen) }
  local function next_one()
    for k = 1, #order do
      place[order[k]] = (place[order[k]] + 1) % sizes[k]
      if place[order[k]] > 0 then return true end
    end
  end
  while #order > 0 and next_one() do list[#list + 1] = sum_of(program, values, kinds, chosen) end
  return #list == 1 and list[1] or pn.tensor(list):logsumexp(1):item()
end

-- Values of all variables, drawn from the program itself; of a scan time first.
local function drawn(program, seed)
  pn.seed(seed)
  local found, values = model_of(program, "float64", true):trace({}):values(), {}
  local function joined(name, scans, depth, suffix)
    if depth > #scans then return found[name .. suffix] end
    local list = {}
    for t = 1, scans[depth] do list[t] = joined(name, scans, depth + 1, suffix .. "[" .. t .. "]") end
    return pn.stack(list)
  end
  each_statement(program.list, function(s, scans)
    if s.kind ~= "choice" then values[s.name] = found[s.name] or joined(s.name, scans, 1, "") end
  end)
  return values
end

local function near(want, got, limit, what)
  assert(math.abs(want - got) <= limit * math.max(1, math.abs(want)), ("%s: %.15g, want %.15g"):format(what, got, want))
end

local function close(want, got, limit, what)
  assert.same(want:shape(), got:shape(), what)
  local off = want:numel() == 0 and 0 or ((got - want):abs() - want:abs() * limit):max():item()
  assert(off <= limit, ("%s: off by %.3g"):format(what, off))
end

local function tables_of(values)
  local list = {}
  for name, x in pairs(values) do list[name] = x:ndim() > 0 and x:totable() or x:item() end
  return list
end

-- A program with three sets of values, of which the observed are those of the first.
local function case_of(seed)
  local program = program_of(seed)
  local c = { program = program, sets = {}, data = {}, names = {}, what = "program " .. seed, kinds = kinds_of(program),
    wants = {} }
  for k = 1, 3 do c.sets[k] = drawn(program, 100 * seed + k) end
  each_statement(program.list, function(s)
    if s.observed then
      c.data[s.name] = c.sets[1][s.name]
    elseif s.kind ~= "choice" then
      c.names[#c.names + 1] = s.name
    end
  end)
  for k, set in ipairs(c.sets) do
    for name, value in pairs(c.data) do set[name] = value end
    c.wants[k] = by_hand(program, tables_of(set), c.kinds)
  end
  return c
end

-- The density as a function of the latent values in their order; `digits`: of the type to which data are rounded.
local function density_of(c, dtype, digits)
  local m, seen = model_of(c.program, dtype), {}
  for name, value in pairs(c.data) do seen[name] = value:to(digits or dtype):to(dtype) end
  return function(...)
    local given = {}
    for k, name in ipairs(c.names) do given[name] = (select(k, ...)) end
    return m:log_density(given, seen)
  end
end

local function arguments(c, k, dtype)
  local list = {}
  for j, name in ipairs(c.names) do list[j] = c.sets[k][name]:to(dtype) end
  return list
end

-- The value of f and its gradients in one row.
local function with_slopes(f)
  return function(...)
    local leaves = { ... }
    for k, x in ipairs(leaves) do leaves[k] = x:detach():requires_grad(true) end
    local y = f(table.unpack(leaves))
    local row = { y:reshape { 1 } }
    for k, x in ipairs(#leaves > 0 and pn.grad(y, leaves) or {}) do row[k + 1] = x:reshape { -1 } end
    return pn.concatenate(row, 1):detach()
  end
end

local function replays(c, f, slopes)
  local replayed = pn.compile(slopes)
  for k, want in ipairs(c.wants) do
    local list = arguments(c, k, "float64")
    near(want, f(table.unpack(list)):item(), 1e-11, c.what)
    local row = slopes(table.unpack(list))
    near(want, row[1]:item(), 1e-11, c.what)
    close(row, replayed(table.unpack(list)), 1e-10, c.what .. " replayed")
  end
end

-- Nothing is lost but digits of what is computed: where a density is steep those of a value count.
local function is_as_short(c)
  local whole, half = density_of(c, "float64", "float32"), density_of(c, "float32")
  for k in ipairs(c.wants) do
    local short, same = arguments(c, k, "float32"), {}
    for j, x in ipairs(short) do same[j] = x:to "float64" end
    local z = half(table.unpack(short))
    assert.equal("float32", z:dtype())
    near(whole(table.unpack(same)):item(), z:item(), 5e-4, c.what .. " in float32")
  end
end

-- Sampled and then conditioned is observed.
local function is_conditioned(c)
  local given = {}
  for _, name in ipairs(c.names) do given[name] = c.sets[1][name] end
  local got = model_of(c.program, "float64", true):condition(c.data):log_density(given, {})
  near(c.wants[1], got:item(), 1e-11, c.what .. " conditioned")
end

-- What samplers follow: the density of the values and the volume that the way from the unconstrained vector to them
-- has there, by autograd number by number. (On a simplex the last coordinate hangs on the others.)
local function is_followed(c)
  local target = model_of(c.program, "float64"):target(c.data)
  local z = target:unconstrain(c.sets[2])
  local function free(x)
    local values, parts = target:constrain(x), {}
    local names = {}
    for name in pairs(values) do names[#names + 1] = name end
    table.sort(names)
    for k, name in ipairs(names) do
      local value = values[name]
      if c.kinds[name:match "^[^%[]+"] == "simplex" then value = value:slice(-1, 1, 2) end
      parts[k] = value:reshape { -1 }
    end
    return pn.concatenate(parts, 1)
  end
  local _, volume = pn.slogdet(pn.jacobian(free, z))
  local lp, gradient = target:evaluate(z)
  near(c.wants[2] + volume:item(), lp:item(), 1e-8, c.what .. " of the unconstrained vector")
  local w = z:detach():requires_grad(true)
  close(pn.grad(target:log_density(w), { w })[1], gradient, 1e-8, c.what .. ", its gradient")
end

-- A row of one set of values is what it is alone; the slopes are those of differences.
local function is_smooth(c, f, slopes, seen)
  local rows, leaves, list, smooth = {}, {}, arguments(c, 1, "float64"), true
  for k, name in ipairs(c.names) do
    rows[k] = pn.stack { c.sets[1][name], c.sets[2][name], c.sets[3][name] }
    leaves[k] = pn.param(list[k])
    smooth = smooth and c.kinds[name] ~= "simplex"
  end
  close(pn.tensor(c.wants), pn.vmap(f)(table.unpack(rows)), 1e-11, c.what .. " vmapped")
  -- differences know nothing where a value lies within their step of the edge of its support
  if smooth and slopes(table.unpack(list)):slice(1, 2, -1):abs():max():item() < 1e3 then
    pn.check_gradients(function() return f(table.unpack(leaves)) end, leaves, { step = 1e-7, tolerance = 1e-3 })
    seen.checked = seen.checked + 1
  end
end

local function holds(c, seen)
  local f = density_of(c, "float64")
  local slopes = with_slopes(f)
  replays(c, f, slopes)
  is_as_short(c)
  is_conditioned(c)
  if #c.names > 0 then
    is_smooth(c, f, slopes, seen)
    is_followed(c)
  end
end

describe("a random program", function()
  it("is the sum of its variables, eager, replayed, vmapped and in float32, with its gradients", function()
    local seen = { summed = 0, deepest = 0, checked = 0, long = 0, scans = 0, too_many_axes = 0 }
    local used, laws_used = {}, 0
    for seed = 1, PROGRAMS do
      local c = case_of(seed)
      each_statement(c.program.list, function(s, scans)
        local law = s.kind .. (s.kind == "simplex" and 1 or s.law)
        laws_used, used[law] = laws_used + (used[law] and 0 or 1), true
        seen.long = seen.long + ((scans[1] or 0) > 30 and 1 or 0)
        seen.scans = seen.scans + (#scans > 1 and 1 or 0)
      end)
      seen.summed = seen.summed + (c.program.sums > 1 and 1 or 0)
      seen.deepest = seen.deepest + (c.program.deepest == 3 and 1 or 0)
      local ok, failure = pcall(holds, c, seen)
      if not ok then -- what is summed out, or vmapped, takes axes, of which tensors have eight
        local text = tostring(failure)
        assert(text:find "tensors have 8 axes" or text:find "at most 8 are possible" or text:find "axes must be 0 to 8",
          failure)
        seen.too_many_axes = seen.too_many_axes + 1
      end
    end
    -- they are programs of all kinds
    assert.is_true(seen.checked > PROGRAMS / 3 and seen.summed > PROGRAMS / 5 and seen.deepest > PROGRAMS / 10)
    assert.is_true(seen.long > 0 and seen.scans > 0)
    assert(seen.too_many_axes <= PROGRAMS / 100, seen.too_many_axes)
    assert.is_true(laws_used > (SOAK and #laws + #vectors + #counts + #choices or 20))
  end)
end)
