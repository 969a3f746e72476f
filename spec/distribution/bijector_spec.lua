-- Every bijector against one battery, over its golden cases: what a row owes. Nothing here knows a bijector by
-- name; sets are treated by their name (which coordinates of a member are free).
local pn = require "penumbra"
local golden = require "spec.golden.distribution.bijector"
local sets = require "spec.golden.distribution.constraint"
local refuses = require("spec.helper").refuses

local dist, B = pn.dist, pn.dist.bijector

-- ---- making ----

local rows = {}
for _, row in ipairs(pn.rows()) do
  if row.kind == "bijector" then
    rows[row.name] = row
  end
end

local function whole(kind, name)
  for _, p in ipairs(rows[kind].parameters) do
    if p.name == name then
      return p.discrete
    end
  end
end

-- The case's bijector; `change` replaces parameters, which are tensors of `dtype`.
local function make(case, change, dtype)
  if case.parts then
    local list = {}
    for i, part in ipairs(case.parts) do
      list[i] = make(part, nil, dtype)
    end
    return B[case.kind](case.kind == "inverse" and list[1] or list)
  end
  local t = {}
  for name, v in pairs(case.params) do
    t[name] = pn.tensor(v, { dtype = whole(case.kind, name) and "int64" or dtype or "float64" })
  end
  for name, v in pairs(change or {}) do
    t[name] = v
  end
  return B[case.kind](t)
end

-- The parameters of a case that are not whole numbers, and those of its parts, as leaves of one bijector.
local function trained(case)
  local leaves = {}
  local function build(part)
    if part.parts then
      local list = {}
      for i, p in ipairs(part.parts) do
        list[i] = build(p)
      end
      return B[part.kind](part.kind == "inverse" and list[1] or list)
    end
    local change = {}
    for name, v in pairs(part.params) do
      if not whole(part.kind, name) then
        change[name] = pn.param(pn.tensor(v))
        leaves[#leaves + 1] = change[name]
      end
    end
    return make(part, change)
  end
  return build(case), leaves
end

-- ---- comparing ----

local function numbers(t)
  return t:reshape({ -1 }):totable()
end

local function close(got, want, rel, what, slack)
  got, want = numbers(got), numbers(pn.tensor(want))
  assert.equal(#want, #got, what)
  for i, w in ipairs(want) do
    local g = got[i]
    local same = g == w or (g ~= g and w ~= w) or math.abs(g - w) <= rel * math.abs(w) + (slack or 1e-13)
    assert(same, ("%s: number %d is %.17g, expected %.17g"):format(what, i, g, w))
  end
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

-- Another tensor with the same numbers: nothing kept about the first applies to it.
local function copy(t)
  return t:detach() + 0
end

local function event(t)
  local shape = t:shape()
  table.remove(shape, 1)
  return shape
end

-- Points where rounding leaves enough of x for slopes and round trips.
local function gentle(case)
  local x = {}
  for i, v in ipairs(case.x) do
    if type(v) == "table" or (math.abs(v) < 10 and v > 1e-2) or math.abs(v) < 4 and v > -4 and v ~= 1e-300 then
      x[#x + 1] = case.x[i]
    end
  end
  return pn.tensor(x)
end

-- ---- free coordinates ----

local taken, rebuilt = {}, {}
function taken.simplex(y)
  return y:slice(-1, 1, -2)
end
-- The lower triangle row by row, or what stands below its diagonal.
local function lower(y, strict)
  local n, index = y:size(-1), {}
  for i = 0, n - 1 do
    for j = 0, strict and i - 1 or i do
      index[#index + 1] = i * n + j
    end
  end
  local shape = y:shape()
  shape[#shape] = nil
  shape[#shape] = n * n
  return y:reshape(shape):take(-1, pn.tensor(index, { dtype = "int64" }))
end
taken.lower_cholesky, taken.positive_definite = lower, lower
function taken.correlation_cholesky(y)
  return lower(y, true)
end

-- The mean above and the lower triangle below it.
function taken.mean_and_covariance(y)
  return pn.concatenate({ y:select(-2, 1), lower(y:slice(-2, 2, -1)) }, -1)
end

-- A member with the free coordinates v (one vector) out of a tensor like `x`.
function rebuilt.simplex(v)
  return pn.concatenate({ v, 1 - v:sum({ -1 }, true) }, -1)
end
function rebuilt.lower_cholesky(v, x)
  local n, index, k = x:size(-1), {}, 0
  for i = 1, n do
    for j = 1, n do
      index[#index + 1] = j <= i and k or v:numel()
      k = k + (j <= i and 1 or 0)
    end
  end
  return pn.concatenate({ v, pn.zeros { 1 } }, 1):take(1, pn.tensor(index, { dtype = "int64" })):reshape { n, n }
end
function rebuilt.positive_definite(v, x)
  local l = rebuilt.lower_cholesky(v, x)
  return l + l:t():triu(1)
end
-- Never domains: only that members have fewer coordinates than entries matters.
function rebuilt.correlation_cholesky(_, x)
  return x
end
rebuilt.mean_and_covariance = rebuilt.correlation_cholesky

local function free(set, t)
  local take = taken[set]
  return (take and take(t) or t):reshape { -1 }
end

local function member(set, v, like)
  return rebuilt[set] and rebuilt[set](v, like) or v:reshape(like:shape())
end

-- log |det| of the Jacobian of `map` at one x, by automatic differentiation of each free coordinate.
local function log_det_of_jacobian(map, x, domain, codomain)
  local v = pn.param(free(domain, x):detach())
  local y = free(codomain, map(member(domain, v, x)))
  local jacobian = {}
  for i = 1, y:numel() do
    jacobian[i] = pn.grad(y[i], { v })[1]
  end
  assert.equal(#jacobian, v:numel())
  local m = pn.stack(jacobian, 1)
  return #jacobian == 1 and m:abs():log():item() or m:matmul(m:t()):logdet():item() / 2
end

-- Does log_abs_det agree with the Jacobian at each x? Also for things that only look like a bijector.
local function check_determinant(b, case)
  local x = gentle(case)
  local got = numbers(b:log_abs_det(x))
  for i = 1, x:size(1) do
    local want = log_det_of_jacobian(function(v) return b:forward(v) end, x[i], b.domain, b.codomain)
    if not (math.abs(got[i] - want) <= 1e-8 * math.max(1, math.abs(want))) then
      error(("log_abs_det at point %d is %.12g, the Jacobian gives %.12g"):format(i, got[i], want))
    end
  end
end

-- ---- the behaviours, over the cases of a row ----

local battery = {}

function battery.has_the_golden_values(case)
  local b, x = make(case), pn.tensor(case.x)
  close(b:forward(x), case.y, 1e-8, "forward")
  close(b(x), case.y, 1e-8, "call")
  close(b:log_abs_det(x), case.log_abs_det, 1e-8, "log_abs_det")
end

function battery.comes_back_from_both_sides(case)
  local b, x = make(case), gentle(case)
  local y = b:forward(x)
  local again = b:inverse(copy(y))
  close(again, x:totable(), 1e-8, "inverse of forward", 1e-8)
  close(b:forward(copy(again)), y:totable(), 1e-8, "forward of inverse", 1e-10)
end

function battery.has_the_determinant_of_its_jacobian(case)
  check_determinant(make(case), case)
end

function battery.does_not_hide_a_wrong_determinant(case)
  local b = make(case)
  for _, wrong in ipairs { function(t) return t + 1e-6 end, function(t) return t * 1.01 + 1e-5 end } do
    local planted = { domain = b.domain, codomain = b.codomain }
    function planted.forward(_, x) return b:forward(x) end
    function planted.log_abs_det(_, x) return wrong(b:log_abs_det(x)) end
    refuses("the Jacobian gives", check_determinant, planted, case)
  end
end

function battery.stays_in_its_range(case)
  local b = make(case)
  local y = b:forward(pn.tensor(case.x))
  if sets[b.codomain] and b.codomain ~= "real" then
    assert.equal(0, dist.within(b.codomain, b:forward(gentle(case))):logical_not():sum():item())
  end
  assert.equal(0, y:isnan():sum():item())
  assert.equal(0, b:log_abs_det(pn.tensor(case.x)):isfinite():logical_not():sum():item())
  local back = dist.bijector.inverse(b)
  assert.same({ b.domain, b.codomain, b.domain_rank, b.codomain_rank },
    { back.codomain, back.domain, back.codomain_rank, back.domain_rank })
end

function battery.gives_the_determinant_with_each_direction(case)
  local b, leaves = trained(case)
  local x = gentle(case)
  local y, log_det = b:forward_log_det(x)
  close(y, b:forward(copy(x)):totable(), 1e-14, "y")
  close(log_det, b:log_abs_det(copy(x)):totable(), 1e-12, "log_det with y")
  y = copy(y)
  local back, there = b:inverse_log_det(y)
  local again = copy(y)
  close(back, b:inverse(again):totable(), 1e-14, "x")
  close(there, b:log_abs_det(b:inverse(copy(y))):totable(), 1e-10, "log_det with x")
  for k, leaf in ipairs(leaves) do
    local function slope(value)
      return value:requires_grad() and pn.grad(value:sum(), { leaf })[1]:totable() or 0
    end
    local _, with = b:forward_log_det(copy(x))
    local _, back_with = b:inverse_log_det(copy(y))
    close(pn.tensor(slope(with)), slope(b:log_abs_det(copy(x))), 1e-10, "slope " .. k)
    close(pn.tensor(slope(back_with)), slope(b:log_abs_det(b:inverse(copy(y)))), 1e-8, "slope back " .. k, 1e-9)
  end
end

-- Numbers at and beyond what a type can hold, and where functions saturate: results, determinants and slopes are
-- numbers or infinite, never NaN, and stay within the closed range.
function battery.meets_the_edges_of_its_domain(case)
  for _, dtype in ipairs { "float64", "float32" } do
    local b = make(case, nil, dtype)
    if b.domain_rank > 0 then
      return
    end
    local extreme = { 0, 1e-30, 1e-7, 0.5, 1, 15, 40, 88, 104, 709, 800, 1e10, 1e30 }
    local list = {}
    for _, v in ipairs(extreme) do
      for _, signed in ipairs { v, -v } do
        local there = dist.within(b.domain, pn.tensor(signed, { dtype = dtype })):item()
        if there and (dtype == "float64" or v <= 1e10) then
          list[#list + 1] = signed
        end
      end
    end
    local x = pn.param(pn.tensor(list, { dtype = dtype }))
    local y, log_det = b:forward_log_det(x)
    assert.equal(0, y:isnan():sum():item(), case.kind .. " forward")
    if not case.parts then
      assert.equal(0, log_det:isnan():sum():item(), case.kind .. " log_det")
      for _, t in ipairs { y, log_det } do
        if t:requires_grad() then
          assert.equal(0, pn.grad(t:sum(), { x })[1]:isnan():sum():item(), case.kind .. " slopes")
        end
      end
    end
    -- back again: where y kept its digits, x; elsewhere something on the same side
    local again = b:inverse(copy(y))
    for i, v in ipairs(again:totable()) do
      local want, at = list[i], y:totable()[i]
      local kept = math.abs(want) < 10 and math.abs(want) > 1e-3 and math.abs(at) > 1e-3 and math.abs(at) < 1e3
      if kept then
        local room = (dtype == "float32" and 2e-4 or 1e-8) * math.max(1, math.abs(want))
        assert(math.abs(v - want) <= room, ("%s: %g comes back as %g"):format(case.kind, want, v))
      end
    end
  end
end

function battery.gives_no_number_outside_its_range(case)
  local b = make(case)
  if b.codomain_rank > 0 or b.codomain == "real" or case.parts then
    return
  end
  for _, bad in ipairs(sets[b.codomain].outside) do
    local x = b:inverse(pn.tensor { bad }):item()
    assert(x ~= x or math.abs(x) == math.huge or dist.within(b.domain, x):item() == false,
      ("inverse of %g is %g"):format(bad, x))
  end
end

function battery.has_gradients(case)
  local b, leaves = trained(case)
  local x = pn.param(gentle(case))
  leaves[#leaves + 1] = x
  if not rebuilt[b.domain] then
    for _, name in ipairs { "forward", "log_abs_det" } do
      local apart = not b[name](b, x):requires_grad()
      assert(apart or pn.check_gradients(function() return b[name](b, x) end, leaves, { order = 2 }), name)
    end
  end
  leaves[#leaves] = nil
  local y = b:forward(x):detach()
  if not rebuilt[b.codomain] then
    leaves[#leaves + 1] = pn.param(y)
    y = leaves[#leaves]
  end
  if #leaves > 0 and b.codomain ~= "ordered_vector" then
    assert(pn.check_gradients(function() return b:inverse(y) end, leaves, { order = 2, step = 1e-6 }), "inverse")
  end
end

function battery.works_in_float32(case)
  local b, wide, x = make(case, nil, "float32"), make(case), gentle(case):to "float32"
  local y = b:forward(x)
  assert.equal("float32", y:dtype())
  assert.equal("float32", b:log_abs_det(x):dtype())
  close(y, wide:forward(x:to "float64"):totable(), 2e-5, "float32 forward", 2e-5)
  close(b:log_abs_det(x), wide:log_abs_det(x:to "float64"):totable(), 5e-5, "float32 log_abs_det", 5e-5)
  assert.equal("float32", b:inverse(copy(y)):dtype())
  if next(case.params) and not whole(case.kind, (next(case.params))) then
    refuses("must be float32, got float64", b.forward, b, pn.tensor(case.x))
  end
  refuses("must be float", b.forward, b, pn.zeros { 2, 2, dtype = "int64" })
end

function battery.maps_any_leading_shape(case)
  local b, x = make(case), gentle(case)
  local one, y = x[1], b:forward(x)
  local all = {} -- as many axes as fit; a matrix times a vector takes one more
  for k = 1, 8 - math.max(#event(x), #event(y), case.kind == "affine_tril" and 2 or 0) do
    all[k] = k == 2 and 3 or 1
  end
  for _, lead in ipairs { {}, { 3 }, { 2, 3 }, { 1 }, { 0 }, all } do
    local wide = one:broadcast_to(joined(lead, event(x)))
    local out, det = b:forward(wide), b:log_abs_det(wide)
    local back = b:inverse(copy(out))
    assert.same(joined(lead, event(y)), out:shape())
    assert.same(joined(lead, event(x)), back:shape())
    assert.same(lead, det:shape())
    for what, pair in pairs { value = { out, b:forward(one) }, inverse = { back, b:inverse(copy(b:forward(one))) },
      determinant = { det, b:log_abs_det(one) } } do
      local a, base = pair[1], pair[2]
      assert((a - base):abs():le(base:abs() * 1e-12 + 1e-14):all():item(), ("%s with %d axes"):format(what, #lead))
    end
  end
  assert.equal(#event(x), b.domain_rank)
  assert.equal(#event(y), b.codomain_rank)
  if b.domain_rank > 0 then
    refuses("x must have at least", b.forward, b, 0.5)
  end
end

function battery.keeps_the_last_pair_where_no_gradient_is_lost(case)
  local b, x = make(case), gentle(case)
  local y = b:forward(x)
  assert.same(x:totable(), b:inverse(y):totable())
  assert.same(y:totable(), b:forward(x):totable())
  local trainee, leaves = trained(case)
  local z = trainee:forward(x):detach()
  for _, leaf in ipairs(leaves) do
    local g = pn.grad(trainee:inverse(z):sum(), { leaf })[1]
    local plain = pn.grad(trainee:inverse(copy(z)):sum(), { leaf })[1]
    close(g, plain:totable(), 1e-10, "gradient of the inverse of a value just made")
    local before = pn.no_grad(function() return trainee:forward(x) end)
    pn.no_grad(function() leaf:set(leaf * 1.25) end)
    local fresh = pn.no_grad(function() return trainee:forward(x) end)
    close(fresh, trainee:forward(copy(x)):totable(), 1e-12, "after a change of parameters")
    assert.equal(before:shape()[1], fresh:shape()[1])
  end
end

function battery.can_be_captured(case)
  local b = trained(case)
  local x = gentle(case)
  for _, name in ipairs { "forward", "log_abs_det", "inverse" } do
    local function direct(t) return b[name](b, t) end
    local at = name == "inverse" and copy(b:forward(x)) or x
    local captured = pn.compile(direct)
    for _, t in ipairs { at, at:flip(1), at } do
      close(captured(t), direct(copy(t)):totable(), 1e-12, name)
    end
  end
end

function battery.refuses_illegal_parameters(case)
  for _, p in ipairs(rows[case.kind].parameters) do
    local function bad_value(v)
      refuses(case.kind .. ": " .. p.name .. " must be ", make, case, { [p.name] = v })
    end
    local own = case.params[p.name] and pn.tensor(case.params[p.name])
    if own and p.discrete then
      bad_value((own * 0):to "int64")
    elseif own then
      bad_value(own * (0 / 0))
      bad_value(own + math.huge)
    end
    for _, bad in ipairs(#p.axes == 0 and sets[p.constraint].outside or {}) do
      bad_value(pn.tensor(bad))
    end
    refuses(("%s: %s must be a tensor or a number"):format(case.kind, p.name), make, case, { [p.name] = "x" })
    refuses(("%s: %s must be "):format(case.kind, p.name), make, case,
      { [p.name] = pn.zeros { 2, 2, dtype = p.discrete and "float64" or "bool" } })
    if not p.default then
      local t = {}
      for name, v in pairs(case.params) do
        if name ~= p.name then
          t[name] = pn.tensor(v)
        end
      end
      refuses(case.kind .. ": ", B[case.kind], t)
    end
  end
  if not case.parts then
    refuses(case.kind .. ": unknown option", make, case, { paramter = pn.tensor(1) })
  else
    refuses("must be a bijector", B[case.kind], case.kind == "inverse" and 3 or { 3 })
  end
end

function battery.says_what_it_is(case)
  local b = make(case)
  assert.equal(case.kind, b.name)
  assert(tostring(b):find("^" .. case.kind .. "[{(]"))
  assert.is_true(B.is(b))
  for name in pairs(case.params) do
    assert.equal("userdata", type(b[name]))
    assert.equal("userdata", type(b:arguments()[name]))
  end
  assert(b.domain and b.codomain and rows[case.kind].doc and rows[case.kind].source)
end

-- ---- all of it ----

local behaviours = {}
for name in pairs(battery) do
  behaviours[#behaviours + 1] = name
end
table.sort(behaviours)

for kind in pairs(rows) do
  describe("bijector " .. kind, function()
    local cases = {}
    for _, case in ipairs(golden) do
      if case.kind == kind then
        cases[#cases + 1] = case
      end
    end
    it("has golden cases", function() assert(#cases > 0) end)
    for _, name in ipairs(behaviours) do
      it(name:gsub("_", " "), function()
        for _, case in ipairs(cases) do
          battery[name](case)
        end
      end)
    end
  end)
end

describe("biject_to", function()
  local discrete = { boolean = true, point = true, permutation = true }
  discrete.one_hot, discrete.count_vector, discrete.atom = true, true, true
  local missing = {
    nonzero = true, -- two pieces
  }
  for name, set in pairs(sets) do
    it(name .. " is reached from everywhere, or refused by name", function()
      local whole_numbers = discrete[name] or name:find "integer" or name == "trials"
      if whole_numbers then
        return refuses("are discrete", dist.biject_to, name)
      elseif missing[name] then
        return refuses(("there is no bijector onto '%s'"):format(name), dist.biject_to, name)
      end
      local low = (name == "interval" or name == "half_line") and -2 or nil
      local b = dist.biject_to(name, low, name == "interval" and 3 or nil)
      local width = ({ mean_and_variance = 2, mean_and_covariance = 9 })[name] or 6
      local x = pn.randn({ 50, width }, { generator = pn.generator(3) }) * (name == "mean_and_covariance" and 1 or 3)
      local y = b:forward(x)
      assert.equal(0, dist.within(name, y):logical_not():sum():item())
      local again = b:inverse(copy(y))
      assert((again - x):abs():max():item() < 1e-6)
      assert.equal(0, b:log_abs_det(x):isfinite():logical_not():sum():item())
      assert(#set.inside > 0)
    end)
  end

  it("takes the support of a distribution, with its ends", function()
    assert.equal("exp", dist.biject_to(dist.gamma(1, 1)).name)
    local b = dist.biject_to(dist.uniform(pn.tensor { 1, 2 }, 5))
    assert.same({ 3, 3.5 }, b:forward(pn.zeros { 2 }):totable())
    assert.same({ 2, 3 }, dist.biject_to(dist.pareto(pn.tensor { 1, 2 }, 5)):forward(pn.zeros { 2 }):totable())
    refuses("ends of the interval must be given", dist.biject_to, "interval")
    refuses("lower end of the half-line must be given", dist.biject_to, "half_line")
    refuses("there is no set 'positiv'", dist.biject_to, "positiv")
    refuses("set must be the name", dist.biject_to, 3)
  end)
end)
