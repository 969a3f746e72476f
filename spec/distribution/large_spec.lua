-- Entropies, divergences, variances and log tails where their terms cancel or underflow: 1e-9 relative in float64, 1e-5
-- in float32 (spec/golden/distribution/make_large.py), and float32 against float64 over parameters at random.
local pn = require "penumbra"
local assert = require "luassert"

local dist = pn.dist

local function made(row, params, dtype)
  local t = {}
  for name, v in pairs(params) do
    t[name] = pn.tensor(v, { dtype = dtype })
  end
  return dist[row](t)
end

local function flat(t)
  local v = t:totable()
  return type(v) == "table" and v or { v }
end

local function answer(e, dtype)
  local d = made(e.row, e.params, dtype)
  if e.of == "kl" then
    return dist.kl(d, made(e.row, e.other, dtype))
  elseif e.x then
    return d[e.of](d, pn.tensor(e.x, { dtype = dtype }))
  end
  return d[e.of](d)
end

local groups, names = {}, {}
for _, e in ipairs(require "spec.golden.distribution.large") do
  local name = e.row .. " " .. e.of
  if not groups[name] then
    groups[name], names[#names + 1] = {}, name
  end
  table.insert(groups[name], e)
end

-- Whether float32 can say the parameters, so that the golden value is of the same law.
local function exact(params)
  for _, v in pairs(params) do
    for _, x in ipairs(type(v) == "table" and v or { v }) do
      if type(x) == "number" and string.unpack("f", string.pack("f", x)) ~= x then
        return false
      end
    end
  end
  return true
end

describe("at large concentrations and far out", function()
  for _, name in ipairs(names) do
    it(name .. " keeps its digits", function()
      local wrong = {}
      for _, e in ipairs(groups[name]) do
        for dtype, rel in pairs { float64 = 1e-9, float32 = 1e-5 } do
          local alike = dtype == "float64" or exact(e.params) and exact(e.other or {}) and exact { e.x }
          local want = type(e.value) == "table" and e.value or { e.value }
          for i, got in ipairs(alike and flat(answer(e, dtype)) or {}) do
            local size = math.abs(want[i])
            local floor = e.of == "variance" and 0 or e.of == "entropy" and rel or dtype == "float64" and 1e-13 or rel
            if size < 1e-30 and dtype == "float32" then
              size = 1e-30 / rel
            end
            if not (math.abs(got - want[i]) <= rel * size + floor) then
              wrong[#wrong + 1] = ("%s%s in %s: %.17g, expected %.17g"):format(tostring(dist[e.row](e.params)),
                e.x and " at " .. e.x or "", dtype, got, want[i])
            end
          end
        end
      end
      assert(#wrong == 0, ("%d: %s"):format(#wrong, table.concat(wrong, "\n")))
    end)
  end

  -- H = (v + 1) / 2 (psi((v + 1) / 2) - psi(v / 2)) + log v / 2 + log B(v / 2, 1 / 2), at degrees where the digammas
  -- still have the digits, on both sides of where a series takes over.
  it("has Student's entropy by digammas on the way to the normal one", function()
    local v = pn.tensor { 20, 60, 100, 119, 119.9, 120.1, 121, 125, 140, 170, 250, 400 }
    local h = v / 2
    local beta = h:lgamma() + 0.5 * math.log(math.pi) - (h + 0.5):lgamma()
    local want = (h + 0.5) * ((h + 0.5):digamma() - h:digamma()) + v:log() / 2 + beta
    local got = dist.student_t(v, 3, 2):entropy() - math.log(2)
    assert((got - want):abs():max():item() < 2e-12)
  end)

  it("has finite slopes there, in both parameters", function()
    for _, a in ipairs { 0.01, 3, 1e4, 1e8, 1e12 } do
      for _, row in ipairs { "gamma", "beta", "inverse_gamma" } do
        local x, y = pn.param(pn.tensor(a)), pn.param(pn.tensor(2 * a))
        for _, g in ipairs(pn.grad(dist[row](x, y):entropy() + dist.kl(dist[row](x, y), dist[row](3 * x, 2 * y)),
          { x, y })) do
          assert(g:isfinite():item())
        end
      end
    end
    local x, k, m = pn.param(pn.tensor(1.2)), pn.param(pn.tensor(58.7)), pn.param(pn.tensor(0.1))
    assert(pn.check_gradients(function()
      local d = dist.von_mises(m, k)
      return d:log_cdf(x) + d:log_survival(x) + d:log_cdf(x - 3) + d:log_survival(-x)
    end, { x, k, m }))
    local df = pn.param(pn.tensor(30.0))
    assert(pn.check_gradients(function()
      local d = dist.student_t(df, m, 2)
      return d:log_cdf(x * -200) + d:log_survival(x * 30) + d:log_cdf(x) + d:log_survival(m)
    end, { x, m }))
  end)
end)

-- A member of a parameter's set, ordinary or extreme, as float32 says it.
local function member(g, p, wide)
  local u, v = pn.rand({ 2 }, { generator = g }):totable()[1], pn.rand({ 1 }, { generator = g }):item()
  local function between(low, high)
    return low * (high / low) ^ u
  end
  local x
  if p.constraint == "positive" or p.constraint == "nonnegative" then
    x = between(wide and 1e-3 or 0.05, wide and 1e5 or 50)
  elseif p.constraint == "real" then
    x = (u - 0.5) * (wide and 20 or 4)
  elseif p.constraint:find "unit_interval" then
    x = v < 0.5 and between(1e-4, 0.5) or 1 - between(1e-4, 0.5)
  elseif p.discrete then
    x = math.floor(between(1, wide and 3000 or 30))
  end
  return x and string.unpack("f", string.pack("f", x))
end

local function law(g, row, wide)
  local params, chosen = {}, {}
  for _, p in ipairs(row.parameters) do
    if not chosen[p.choice] then
      params[p.name] = member(g, p, wide)
    end
    if p.choice then
      chosen[p.choice] = true
    end
  end
  local ok, narrow = pcall(made, row.name, params, "float32")
  if ok then
    return narrow, made(row.name, params, "float64")
  end
end

local TRIALS, REL, MOST = 40, 2e-3, 3e38
local PROBABILITIES = { 2.0 ^ -90, 2.0 ^ -20, 0.25, 0.4375, 0.75, 0.9375 }
-- Smooth functions of parameters and of x that float32 rounds once: what is beyond it is infinite there as well.
local function alike(got, want, of)
  if want ~= want then
    return got ~= got
  elseif math.abs(want) > MOST then
    return math.abs(got) > MOST / 2
  end
  local floor = (of == "entropy" or of == "mode") and REL or 1e-35
  return math.abs(got - want) <= REL * math.abs(want) + floor
end

describe("float32 is float64 rounded:", function()
  for index, row in ipairs(pn.rows()) do
    if row.kind == "distribution" and row.event_rank == 0 and row.name ~= "empirical" and row.name ~= "categorical" then
      it(row.name, function()
        local g, wrong, seen = pn.generator(index), {}, 0
        for trial = 1, TRIALS do
          local narrow, wide = law(g, row, trial > TRIALS / 3)
          local function compare(of, x)
            local a = narrow[of](narrow, x and pn.tensor(x, { dtype = "float32" })):item()
            local b = wide[of](wide, x and pn.tensor(x)):item()
            seen = seen + 1
            if not alike(a, b, of) then
              wrong[#wrong + 1] = ("%s:%s(%s) is %.9g, in float64 %.9g"):format(tostring(wide), of, tostring(x), a, b)
            end
            return b
          end
          for _, of in ipairs(narrow and { "mean", "variance", "mode", "entropy" } or {}) do
            if row.functions[of] then
              compare(of)
            end
          end
          for _, p in ipairs(narrow and row.functions.icdf and PROBABILITIES or {}) do
            local x = string.unpack("f", string.pack("f", compare("icdf", p)))
            for _, times in ipairs(math.abs(x) < 1e30 and { 1, 3, 10 } or {}) do
              local at = string.unpack("f", string.pack("f", row.discrete and math.floor(x * times) or x * times))
              for _, of in ipairs { "cdf", "log_cdf", "log_survival" } do
                compare(of, at)
              end
            end
          end
        end
        assert(seen > TRIALS / 4, row.name)
        assert(#wrong == 0, ("%d of %d: %s"):format(#wrong, seen, table.concat(wrong, "\n")))
      end)
    end
  end

  it("and keeps the tails that were lost", function()
    local t = dist.student_t { df = pn.tensor(0.0037, { dtype = "float32" }), loc = 0, scale = 1 }
    local wide = dist.student_t(t.df:to "float64", 0, 1):icdf(pn.tensor(0.48))
    assert(math.abs(t:icdf(pn.tensor(0.48, { dtype = "float32" })):item() / wide:item() - 1) < 1e-2)
    assert(math.abs(dist.von_mises(0, 58.7):log_survival(1.2):item() + 40.32319) < 1e-4)
    local gate = { gate = pn.tensor(0.5, { dtype = "float32" }), rate = pn.tensor(1e6, { dtype = "float32" }) }
    assert(dist.zero_inflated_poisson(gate):entropy():isfinite():item())
    local edge = { low = pn.tensor(1, { dtype = "float32" }), high = pn.tensor(1.5, { dtype = "float32" }) }
    for _, p in ipairs { 0, 1e-30, 0.5, 1 - 2.0 ^ -24, 1 } do
      local x = dist.truncated_normal(edge):icdf(pn.tensor(p, { dtype = "float32" })):item()
      assert(x >= 1 and x <= 1.5, x)
    end
  end)
end)
