-- Every distribution: rows of more numbers than a piece of a kernel has are what their elements are alone, whichever
-- parameters are shared, adjacent or strided; float32 gives what float64 makes of the same numbers.
local pn = require "penumbra"
local assert = require "luassert"

local dist = pn.dist
local MANY <const> = 602 -- two pieces and some more
local FUNCTIONS <const> = { "mean", "variance", "stddev", "mode", "entropy" }
local AT_POINTS <const> = { "cdf", "log_cdf", "log_survival" }

-- Each number within rel of its size and of `floor` of the largest one, and of 1.
local function close(got, want, rel, floor, what)
  assert.same(want:shape(), got:shape())
  got, want = got:detach():to("float64"):reshape { -1 }, want:detach():to("float64"):reshape { -1 }
  if want:numel() == 0 then return end
  local size = pn.where(want:isfinite(), want:abs(), pn.zeros {})
  local bound = rel * (size + floor * math.max(1, size:max():item()))
  if (got - want):abs():le(bound):all():item() then return end
  got, want, bound = got:totable(), want:totable(), bound:totable()
  for i, w in ipairs(want) do
    local same = got[i] == w or (got[i] ~= got[i] and w ~= w) or math.abs(got[i] - w) <= bound[i]
    assert(same, ("%s: number %d is %.9g, expected %.9g"):format(what, i, got[i], w))
  end
end

-- Row, golden cases that are not extreme, parameters of a case, points where it has a density.
local rows = {}
for _, row in ipairs(pn.rows()) do
  if row.kind == "distribution" then
    local list = {}
    for k, case in ipairs(require("spec.golden.distribution." .. row.name).cases) do
      if not case.extreme then
        local x, given = {}, {}
        for i, v in ipairs(case.x) do
          if case.log_prob[i] > -1e5 then x[#x + 1] = v end
        end
        for _, p in ipairs(row.parameters) do
          if case.params[p.name] ~= nil then given[#given + 1] = p end
        end
        list[#list + 1] = { params = case.params, given = given, number = k,
          x = pn.tensor(x, { dtype = row.support == "integer_interval" and "int64" or "float64" }) }
      end
    end
    rows[#rows + 1] = { row = row, cases = list }
  end
end

-- t with a first axis of n, repeated over it.
local function all_along(t, n) return t:unsqueeze(1):broadcast_to { n, table.unpack(t:shape()) }:contiguous() end

-- The same elements in other places of memory.
local function strided(t) return pn.stack({ t, t }, -1):select(-1, 2) end

-- Elements 1, 2, ... of t over and over, n of them.
local function tiled(t, n)
  local index = {}
  for i = 1, n do index[i] = (i - 1) % t:size(1) end
  return t:take(1, pn.tensor(index, { dtype = "int64" }))
end

-- Parameters and points of a case as leaves, x first if it has slopes. own: which parameters each element has of its
-- own.
local function law(row, case, x, own, change)
  local leaves, each, t = {}, {}, {}
  local function leaf(v, is_own)
    v = pn.param(v)
    leaves[#leaves + 1], each[#each + 1] = v, is_own
    return v
  end
  local n = x:size(1)
  if not row.discrete and x:dtype() == "float64" then x = leaf(change(x), true) end
  for k, p in ipairs(case.given) do
    local v, is_own = pn.tensor(case.params[p.name]), own(k) and not p.size
    if is_own then v = change(all_along(v, n)) end
    t[p.name] = p.discrete and v or leaf(v, is_own)
  end
  return dist[row.name](t):log_prob(x), leaves, each
end

local function unchanged(t) return t end
local function every() return true end
local WAYS <const> = { every, function() return false end, function(k) return k % 2 == 0 end,
  function(k) return k % 2 == 1 end }

describe("in long rows", function()
  for _, entry in ipairs(rows) do
    local row = entry.row
    it(row.name .. " has the density and the slopes of each element", function()
      pn.seed(12)
      local weight = pn.rand { MANY } + 0.5
      for _, case in ipairs(entry.cases) do
        local short, parts = law(row, case, case.x, every, unchanged)
        local slopes = short:requires_grad() and pn.grad(short:sum(), parts) or {}
        local x, values = tiled(case.x, MANY), tiled(short:detach(), MANY)
        for k, g in ipairs(slopes) do
          local lead = { MANY }
          for i = 2, #g:shape() do lead[i] = 1 end
          slopes[k] = tiled(g, MANY) * weight:reshape(lead)
        end
        for way, own in ipairs(WAYS) do
          local lp, leaves, each = law(row, case, x, own, way % 2 == 1 and strided or unchanged)
          local what = ("case %d, way %d"):format(case.number, way)
          close(lp, values, 1e-12, 1e-3, what)
          local function check(from, to)
            local got = pn.grad((lp * weight):sum(), { table.unpack(leaves, from, to) })
            for i, g in ipairs(got) do
              local k = from + i - 1
              close(g, each[k] and slopes[k] or slopes[k]:sum(1), 1e-10, 1e-3, what .. ", slope " .. k)
            end
          end
          if #slopes > 0 then check(1, #slopes) end
          for k = 1, #slopes > 1 and #slopes or 0 do check(k, k) end
        end
      end
    end)
  end
end)

-- Laws whose formulas lose digits of float32: they subtract what is nearly equal.
local BENT <const> = { beta_binomial = 1e-5, continuous_bernoulli = 2e-5, lkj_cholesky = 5e-4, log_uniform = 1e-5,
  relaxed_bernoulli = 1e-4, relaxed_one_hot_categorical = 5e-6, von_mises = 2e-5 }

-- Parameters of a case in a dtype, rounded to float32 first.
local function rounded(case, dtype)
  local t = {}
  for _, p in ipairs(case.given) do
    t[p.name] = pn.tensor(case.params[p.name], { dtype = "float32" }):to(dtype)
    if not p.discrete then t[p.name] = pn.param(t[p.name]) end
  end
  return t
end

describe("in float32", function()
  for _, entry in ipairs(rows) do
    local row = entry.row
    it(row.name .. " is what float64 makes of the same numbers", function()
      for _, case in ipairs(entry.cases) do
        local function of(dtype)
          local t, leaves, list = rounded(case, dtype), {}, {}
          for _, p in ipairs(case.given) do
            if not p.discrete then leaves[#leaves + 1] = t[p.name] end
          end
          local d, x = dist[row.name](t), case.x
          if x:dtype() == "float64" then x = x:to "float32":to(dtype) end
          if not row.discrete and x:dtype() == dtype then
            x = pn.param(x)
            leaves[#leaves + 1] = x
          end
          local function note(name, value)
            list[#list + 1] = { name, value }
            if not value:requires_grad() then return end
            local y = pn.where(value:detach():isfinite(), value, 0 * value:detach()):sum()
            for k, g in ipairs(pn.grad(y, leaves)) do list[#list + 1] = { name .. ", slope " .. k, g } end
          end
          note("log_prob", d:log_prob(x))
          for _, name in ipairs(FUNCTIONS) do
            if row.functions[name] then note(name, d[name](d)) end
          end
          for _, name in ipairs(AT_POINTS) do
            if row.functions[name] then note(name, d[name](d, x)) end
          end
          if row.functions.icdf then note("icdf", d:icdf(pn.tensor({ 0.125, 0.75 }, { dtype = dtype }))) end
          return list
        end
        local got, want = of "float32", of "float64"
        for k, pair in ipairs(got) do
          local value, mine = want[k][2]:detach(), pair[2]:detach()
          assert.equal(value:dtype() == "int64" and "int64" or "float32", mine:dtype())
          value, mine = value:to "float64", mine:to "float64"
          local large = pn.logical_and(value:abs():gt(1e30), value:isfinite()) -- float32 may overflow on the way
          close(pn.where(large, 0, mine), pn.where(large, 0, value), BENT[row.name] or 2e-6, 0.1,
            ("case %d, %s"):format(case.number, pair[1]))
        end
      end
    end)
  end
end)

local COUNTS <const> = { nonnegative_integer = true, trials = true, boolean = true }

-- At the values of the distribution function up to `top`, an ulp from them, and between: the least count k >= 0 whose
-- own value reaches u.
local function check_quantiles(d, top, dtype, what)
  local ulp = dtype == "float64" and 2 ^ -52 or 2 ^ -23
  for value = 0, top do
    local at = d:cdf(pn.tensor(value, { dtype = dtype }))
    for _, factor in ipairs { 1, 1 + ulp, 1 - ulp / 2, 0.7 } do
      local u = at * factor
      u = pn.where(u:lt(1), u, 0.5)
      local k = d:icdf(u)
      local least = pn.logical_or(k:eq(0), d:cdf(k - 1):lt(u))
      local bad = pn.logical_not(pn.logical_and(d:cdf(k):ge(u), least)):to "int64"
      if bad:sum():item() > 0 then
        local i = bad:reshape({ -1 }):argmax():item() + 1
        error(("%s: %.17g at %.17g"):format(what, k:reshape({ -1 })[i]:item(), u:reshape({ -1 })[i]:item()), 0)
      end
    end
  end
end

describe("a quantile of counts", function()
  for _, entry in ipairs(rows) do
    local row = entry.row
    if COUNTS[row.support] and row.functions.icdf then
      it("of " .. row.name .. " is the least that reaches the probability", function()
        for _, case in ipairs(entry.cases) do
          for _, dtype in ipairs { "float64", "float32" } do
            local t = rounded(case, dtype)
            for name, v in pairs(t) do t[name] = v:detach() end
            check_quantiles(dist[row.name](t), 60, dtype, ("case %d, %s"):format(case.number, dtype))
          end
        end
      end)
    end
  end

  it("is, of very many geometric laws, where the guess by logarithms is one too many and one too few", function()
    pn.seed(1)
    check_quantiles(dist.geometric(pn.rand { 4000 } * 0.98 + 0.01), 20, "float64", "geometric")
  end)
end)

describe("values with fewer axes than the batch", function()
  for _, entry in ipairs(rows) do
    local row = entry.row
    it("have under " .. row.name .. " the density that they have repeated", function()
      for _, case in ipairs(entry.cases) do
        local t = {}
        for _, p in ipairs(case.given) do
          local v = pn.tensor(case.params[p.name])
          local shape = { 2, 3, table.unpack(v:shape()) }
          t[p.name] = p.size and v or v:broadcast_to(shape):contiguous()
          if not p.discrete then t[p.name] = pn.param(t[p.name]) end
        end
        local leaves, d = {}, dist[row.name](t)
        for _, p in ipairs(case.given) do
          if not p.discrete then leaves[#leaves + 1] = t[p.name] end
        end
        local one = case.x:select(1, 1):to "float64"
        local spoilt, far = one * 1, one - 1e6
        local first = pn.arange(one:numel()):eq(0):reshape(one:shape())
        spoilt = pn.where(first, 0 / 0, spoilt)
        for _, three in ipairs { { one, one, one }, { one, far, one }, { far, one, spoilt } } do
          local x = pn.stack(three, 1)
          local got, want = d:log_prob(x), d:log_prob(x:broadcast_to { 2, table.unpack(x:shape()) }:contiguous())
          close(got, want, 1e-14, 0, ("case %d"):format(case.number))
          local counted = want:detach():isfinite()
          if want:requires_grad() then
            local a = pn.grad(pn.where(counted, got, 0):sum(), leaves)
            local b = pn.grad(pn.where(counted, want, 0):sum(), leaves)
            for k, g in ipairs(a) do close(g, b[k], 1e-13, 1e-3, ("case %d, slope %d"):format(case.number, k)) end
          end
        end
      end
    end)
  end
end)

-- Laws whose draws are made in float64, so that those of float32 are these rounded: how close they come.
local ROUNDED <const> = { beta = 1e-6, beta_binomial = 0, binomial = 0, categorical = 0, chi2 = 1e-6, dirichlet = 1e-6,
  dirichlet_multinomial = 0, empirical = 0, gamma = 1e-6, gamma_poisson = 0, inverse_gamma = 1e-6, multinomial = 0,
  negative_binomial = 0, one_hot_categorical = 0, poisson = 0, student_t = 1e-3, von_mises = 1e-6 }

describe("draws in float32", function()
  for _, entry in ipairs(rows) do
    local row = entry.row
    it("of " .. row.name .. " have the law of float32's parameters", function()
      for _, case in ipairs(entry.cases) do
        local function of(dtype, n)
          local t, leaves = {}, {}
          for _, p in ipairs(case.given) do
            t[p.name] = pn.tensor(case.params[p.name], { dtype = "float32" }):to(dtype)
            if not p.size then t[p.name] = all_along(t[p.name], n) end
            if not p.discrete then
              t[p.name] = pn.param(t[p.name])
              leaves[#leaves + 1] = t[p.name]
            end
          end
          local d, options = dist[row.name](t), { generator = pn.generator(3) }
          local x = row.functions.rsample and d:rsample(options) or d:sample(options)
          return x, x:requires_grad() and pn.grad(x:square():sum(), leaves) or {}, d
        end
        local what = ("case %d"):format(case.number)
        if ROUNDED[row.name] then
          local x, slopes = of("float32", MANY)
          local want, wanted = of("float64", MANY)
          close(x, want, ROUNDED[row.name], 0.1, what)
          for k, g in ipairs(slopes) do close(g, wanted[k], 1e-3, 1e-3, what .. ", slope " .. k) end
        elseif row.functions.cdf and not row.discrete then
          local x, _, d = of("float32", 4000)
          local u = d:cdf(x:detach()):to "float64" - 0.5
          assert(math.abs(u:mean():item()) < 6 / math.sqrt(12 * 4000), what .. ", mean of the shares")
          assert(math.abs(u:square():mean():item() - 1 / 12) < 6 / math.sqrt(180 * 4000), what .. ", their variance")
        end
      end
    end)
  end
end)

describe("in a plan", function()
  for _, entry in ipairs(rows) do
    local row = entry.row
    it(row.name .. " says what it says outside, for values that the plan has not seen", function()
      local case = entry.cases[1]
      local t = {}
      for _, p in ipairs(case.given) do t[p.name] = pn.tensor(case.params[p.name]) end
      local d = dist[row.name](t)
      local inside = pn.stack({ case.x:select(1, 1), case.x:select(1, 1) }, 1)
      local away = { 2 }
      for k = 2, #inside:shape() do away[k] = 1 end
      local beyond = inside:to "float64" - pn.tensor({ 0, 1e6 }):reshape(away)
      beyond = beyond:to(inside:dtype())
      local half = pn.tensor { 0.25, 0.5 }
      local functions = { log_prob = { inside, beyond } }
      if row.functions.cdf then
        for _, name in ipairs(AT_POINTS) do functions[name] = { inside, beyond } end
      end
      if row.functions.icdf then functions.icdf = { half, pn.tensor { 0.5, -0.5 }, pn.tensor { 1, 0 } } end
      for name, points in pairs(functions) do
        for first = 1, #points do
          local f = pn.compile(function(x) return d[name](d, x) end)
          for turn = 0, 2 * #points do
            local x = points[(first + turn) % #points + 1]
            close(f(x), d[name](d, x), 1e-14, 0, name)
          end
        end
      end
    end)
  end
end)

-- Names of a case's parameters with their shapes, sizes of events with their values.
local function form_of(case)
  local words = {}
  for k, p in ipairs(case.given) do
    local v = pn.tensor(case.params[p.name])
    words[k] = p.name .. " " .. table.concat(v:shape(), ",") .. (p.size and " " .. v:item() or "")
  end
  return table.concat(words, " ")
end

describe("in a plan of parameters", function()
  for _, entry in ipairs(rows) do
    local row = entry.row
    it(row.name .. " follows them, and refuses what it refuses outside", function()
      local first, others = entry.cases[1], {}
      for _, case in ipairs(entry.cases) do
        if form_of(case) == form_of(first) then others[#others + 1] = case end
      end
      local function made(...)
        local t = {}
        for k, p in ipairs(first.given) do
          t[p.name] = p.size and pn.tensor(first.params[p.name]) or (select(k, ...))
        end
        return dist[row.name](t)
      end
      local functions = { log_prob = function(d) return d:log_prob(first.x) end }
      for _, name in ipairs(FUNCTIONS) do
        if row.functions[name] then functions[name] = function(d) return d[name](d) end end
      end
      for name, f in pairs(functions) do
        local function direct(...) return f(made(...)) end
        local plan = pn.compile(direct)
        for turn = 1, 2 * #others + 1 do
          local list = {}
          for k, p in ipairs(first.given) do list[k] = pn.tensor(others[turn % #others + 1].params[p.name]) end
          close(plan(table.unpack(list)), direct(table.unpack(list)), 1e-13, 1e-3, name)
        end
        for k, p in ipairs(first.given) do
          local list = {}
          for i, other in ipairs(first.given) do list[i] = pn.tensor(first.params[other.name]) end
          list[k] = list[k] * (0 / 0)
          local _, want = pcall(direct, table.unpack(list))
          local ok, got = pcall(plan, table.unpack(list))
          if not p.size then
            assert(not ok and tostring(got):find(row.name .. ": " .. p.name .. " must be ", 1, true), tostring(got))
            assert(tostring(want):find(row.name .. ": " .. p.name .. " must be ", 1, true), tostring(want))
          end
        end
      end
    end)
  end

  it("refuses ends that cross", function()
    for name, more in pairs { uniform = {}, log_uniform = {}, truncated_normal = { loc = 1, scale = 2 } } do
      local plan = pn.compile(function(low, high)
        local t = { low = low, high = high }
        for key, v in pairs(more) do t[key] = v end
        return dist[name](t):mean()
      end)
      for _ = 1, 3 do assert(plan(pn.tensor { 1, 2 }, pn.tensor { 3, 4 }):isfinite():all():item()) end
      local ok, message = pcall(plan, pn.tensor { 1, 2 }, pn.tensor { 3, 1.5 })
      assert(not ok and tostring(message):find(name .. ": high must be above low, got 1.5 for 2", 1, true), message)
    end
  end)
end)
