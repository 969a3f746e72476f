-- Random programs: compositions of distributions, bijectors, plates and scans, written by a generator of numbers. Their
-- log density as a model is the sum of what each variable says by itself, plates row by row and scans step by step;
-- eager, replayed, vmapped and in float32 it is the same, with its gradients. Under PN_SOAK more programs, and NUTS on
-- random conjugate models passes simulation-based calibration.
local pn = require "penumbra"
local dist, bijector = pn.dist, pn.dist.bijector

local SOAK = tonumber(os.getenv "PN_SOAK")
local PROGRAMS = SOAK and 1500 or 60

-- Numbers that depend on the seed alone.
local function numbers(seed)
  local g = pn.generator(seed)
  local list, at = {}, 0
  local function uniform()
    if at == #list then list, at = pn.rand({ 64 }, { generator = g, dtype = "float64" }):totable(), 0 end
    at = at + 1
    return list[at]
  end
  return { uniform = uniform, below = function(n) return math.floor(uniform() * n) + 1 end,
    between = function(a, b) return a + (b - a) * uniform() end }
end

-- ---- what a variable may be: a law of a number l around zero and a positive number s ----

local function through(l, s, ...)
  local list = { ... }
  return dist.transformed(dist.normal(l, s), #list > 1 and bijector.chain(list) or list[1])
end

local function affine(l, loc, scale)
  local o = { dtype = l:dtype() }
  return bijector.affine(pn.full({}, loc, o), pn.full({}, scale, o))
end

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
}

-- ---- programs ----

-- The law of a statement given the value it looks at (or nil), which may be a tensor of rows.
local function law_of(statement, value, dtype)
  local c = statement.numbers
  local x = value and value:tanh() or pn.zeros({}, { dtype = dtype })
  return laws[statement.law](x * c[1] + c[2], (x * c[3] + c[4]):softplus() + 0.3)
end

local function program_of(seed)
  local r, list, globals, names = numbers(seed), {}, {}, 0
  local function statement(seen)
    names = names + 1
    return { name = "v" .. names, law = r.below(#laws), from = #seen > 0 and r.uniform() < 0.8 and seen[r.below(#seen)],
      numbers = { r.between(-1, 1), r.between(-1, 1), r.between(-1, 1), r.between(-0.5, 1) },
      observed = r.uniform() < 0.3 }
  end
  for _ = 1, 2 + r.below(3) do
    local what = r.below(4)
    if what <= 2 then
      list[#list + 1] = statement(globals)
      globals[#globals + 1] = list[#list].name
    elseif what == 3 then
      local inner, body = table.move(globals, 1, #globals, 1, {}), {}
      for k = 1, r.below(2) + 1 do
        body[k] = statement(inner)
        inner[#inner + 1] = body[k].name
      end
      list[#list + 1] = { plate = "p" .. #list, rows = 1 + r.below(3), body = body }
    else
      local one = statement(globals)
      one.observed = false
      list[#list + 1] = { scan = "s" .. #list, steps = 1 + r.below(3), one = one }
    end
  end
  return list
end

local function each_statement(program, f)
  for _, s in ipairs(program) do
    for _, one in ipairs(s.body or { s.one or s }) do f(one, s) end
  end
end

-- As a model: data is a table of what is observed. With `all`, nothing is.
local function model_of(program, dtype, all)
  return pn.model(function(m, data)
    local seen = {}
    local function add(one, value)
      local d = law_of(one, value, dtype)
      if one.observed and not all then
        seen[one.name] = data[one.name]
        m:observe(one.name, d, data[one.name])
      else
        seen[one.name] = m:sample(one.name, d)
      end
    end
    for _, s in ipairs(program) do
      if s.plate then
        m:plate(s.plate, s.rows, function()
          for _, one in ipairs(s.body) do add(one, one.from and seen[one.from]) end
        end)
      elseif s.scan then
        -- each step looks at the one before, the first at what the statement says
        m:scan(s.scan, s.steps, false, function(before)
          local d = law_of(s.one, before or s.one.from and seen[s.one.from] or nil, dtype)
          return m:sample(s.one.name, d)
        end)
      else
        add(s, s.from and seen[s.from])
      end
    end
  end)
end

-- The same, one number after another.
local function by_hand(program, values)
  local total = 0
  local function add(one, x, value)
    local lp = law_of(one, value, "float64"):log_prob(x)
    assert.same({}, lp:shape())
    total = total + lp:item()
  end
  for _, s in ipairs(program) do
    if s.plate then
      for i = 1, s.rows do
        local rows = {}
        for _, one in ipairs(s.body) do
          local x = values[one.name][i]
          add(one, x, one.from and (rows[one.from] or values[one.from]))
          rows[one.name] = x
        end
      end
    elseif s.scan then
      local before = s.one.from and values[s.one.from] or nil
      for t = 1, s.steps do
        add(s.one, values[s.one.name][t], before)
        before = values[s.one.name][t]
      end
    else
      add(s, values[s.name], s.from and values[s.from])
    end
  end
  return total
end

-- Values of all variables, drawn from the program itself; of a scan time first.
local function drawn(program, seed)
  pn.seed(seed)
  local found, values = model_of(program, "float64", true):trace({}):values(), {}
  each_statement(program, function(one, s)
    if s.scan then
      local list = {}
      for t = 1, s.steps do list[t] = found[("%s[%d]"):format(one.name, t)] or found[one.name][t] end
      values[one.name] = pn.stack(list)
    else
      values[one.name] = found[one.name]
    end
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

describe("a random program", function()
  it("is the sum of its variables, eager, replayed, vmapped and in float32, with its gradients", function()
    local kinds = { plate = 0, scan = 0, latent = 0 }
    local used, checked = {}, 0
    for seed = 1, PROGRAMS do
      local program = program_of(seed)
      local sets, what = {}, "program " .. seed
      for k = 1, 3 do sets[k] = drawn(program, 100 * seed + k) end
      local names, data = {}, {}
      each_statement(program, function(one, s)
        used[one.law] = true
        kinds.plate, kinds.scan = kinds.plate + (s.plate and 1 or 0), kinds.scan + (s.scan and 1 or 0)
        if one.observed then
          data[one.name] = sets[1][one.name]
        else
          names[#names + 1] = one.name
        end
      end)
      kinds.latent = kinds.latent + #names
      for _, set in ipairs(sets) do
        for name, value in pairs(data) do set[name] = value end
      end
      local function density(dtype)
        local m, seen = model_of(program, dtype), {}
        for name, value in pairs(data) do seen[name] = value:to(dtype) end
        return function(...)
          local given = {}
          for k, name in ipairs(names) do given[name] = (select(k, ...)) end
          return m:log_density(given, seen)
        end
      end
      local function arguments(set, dtype)
        local list = {}
        for k, name in ipairs(names) do list[k] = set[name]:to(dtype) end
        return list
      end
      local f, half = density "float64", density "float32"
      -- the value and its gradients in one row
      local function slopes(...)
        local leaves = { ... }
        for k, x in ipairs(leaves) do leaves[k] = x:detach():requires_grad(true) end
        local y = f(table.unpack(leaves))
        local row = { y:reshape { 1 } }
        for k, x in ipairs(#leaves > 0 and pn.grad(y, leaves) or {}) do row[k + 1] = x:reshape { -1 } end
        return pn.concatenate(row, 1):detach()
      end
      local replayed, values = pn.compile(slopes), {}
      for k, set in ipairs(sets) do
        local list = arguments(set, "float64")
        local want = by_hand(program, set)
        values[k] = want
        near(want, f(table.unpack(list)):item(), 1e-11, what)
        local row = slopes(table.unpack(list))
        near(want, row[1]:item(), 1e-11, what)
        close(row, replayed(table.unpack(list)), 1e-10, what .. " replayed")
        local short = arguments(set, "float32")
        local z = half(table.unpack(short))
        assert.equal("float32", z:dtype())
        near(want, z:item(), 3e-4, what .. " in float32")
      end
      if #names > 0 then
        local rows = {}
        for k, name in ipairs(names) do rows[k] = pn.stack { sets[1][name], sets[2][name], sets[3][name] } end
        close(pn.tensor(values), pn.vmap(f)(table.unpack(rows)), 1e-11, what .. " vmapped")
        -- differences know nothing where a value lies within their step of the edge of its support
        local leaves, list = {}, arguments(sets[1], "float64")
        for k, x in ipairs(list) do leaves[k] = pn.param(x) end
        if slopes(table.unpack(list)):slice(1, 2, -1):abs():max():item() < 1e3 then
          pn.check_gradients(function() return f(table.unpack(leaves)) end, leaves, { step = 1e-7, tolerance = 1e-3 })
          checked = checked + 1
        end
      end
    end
    -- they are programs of all kinds
    assert.is_true(checked > PROGRAMS * 0.8)
    assert.is_true(kinds.plate > PROGRAMS / 4 and kinds.scan > PROGRAMS / 6 and kinds.latent > PROGRAMS)
    for k = 1, #laws do assert(used[k], "no program has law " .. k) end
  end)
end)

-- ---- random conjugate models ----

local conjugate = {
  function(r)
    local m0, s0, s, n = r.between(-2, 2), r.between(0.3, 3), r.between(0.3, 2), r.below(6)
    return pn.model(function(m, y)
      local mu = m:sample("mu", dist.normal(m0, s0))
      m:observe("y", dist.normal(mu, s):expand { n }:independent(1), y)
    end)
  end,
  function(r)
    local a, b, n = r.between(1, 5), r.between(0.5, 2), r.below(6)
    return pn.model(function(m, y)
      local rate = m:sample("rate", dist.gamma(a, b))
      m:observe("y", dist.poisson(rate):expand { n }:independent(1), y)
    end)
  end,
  function(r)
    local a, b, n = r.between(1, 4), r.between(1, 4), 1 + r.below(9)
    return pn.model(function(m, y)
      local p = m:sample("p", dist.beta(a, b))
      m:observe("y", dist.binomial(n, p), y)
    end)
  end,
  function(r)
    local d, n, s = 1 + r.below(2), 3 + r.below(4), r.between(0.3, 1.5)
    local x = pn.randn({ n, d }, { generator = pn.generator(r.below(1000)) })
    return pn.model(function(m, y)
      local w = m:sample("w", dist.normal(pn.zeros { d }, 1):independent(1))
      m:observe("y", dist.normal(x:matmul(w), s):independent(1), y)
    end)
  end,
}

local where_soaked = SOAK and it or function() end
describe("NUTS on random conjugate models", function()
  where_soaked("passes simulation-based calibration", function()
    for seed = 1, 8 do
      local r = numbers(1000 + seed)
      local m = conjugate[(seed - 1) % #conjugate + 1](r)
      pn.seed(seed)
      local sbc = pn.sbc(m, { data = {}, simulations = 200, draws = 49 })
      assert(sbc:passed(), ("model %d:\n%s"):format(seed, tostring(sbc)))
    end
  end)
end)
