-- Slopes of special functions far out, where a derivative written as a difference cancels: against formulas with as
-- many digits as they ask for (spec/golden/autodiff/slopes.py), first ones at 1e-12 and second ones at 1e-9 relative,
-- in float32 at 1e-5.
local pn = require "penumbra"
local assert = require "luassert"

local REL = { float64 = { 1e-12, 1e-9 }, float32 = { 1e-5, 1e-5 } }
-- The golden arguments of these are doubles whose rounding to float32 moves the value.
local ONLY_DOUBLE = { gammainc = true, gammaincc = true, betainc = true }

local function answer(e, dtype)
  local x = pn.param(pn.tensor(e.x, { dtype = dtype }))
  local a = e.a and pn.tensor(e.a, { dtype = dtype })
  local y
  if e.b then
    y = pn.betainc(a, pn.tensor(e.b, { dtype = dtype }), x)
  elseif a then
    y = pn[e.of](a, x)
  elseif e.n then
    y = pn[e.of](x, e.n)
  else
    y = pn[e.of](x)
  end
  for _ = 1, e.order do
    y = pn.grad(y, { x }, { create_graph = true })[1]
  end
  return y:item()
end

local rows, names = {}, {}
for _, e in ipairs(require "spec.golden.autodiff.slopes") do
  if not rows[e.of] then
    rows[e.of], names[#names + 1] = {}, e.of
  end
  table.insert(rows[e.of], e)
end

local function wrong(name, dtype)
  local list = {}
  for _, e in ipairs(rows[name]) do
    local size = math.abs(e.value)
    local representable = dtype == "float64" or size > 1e-37 and math.abs(e.x) < 1e30 and not ONLY_DOUBLE[name]
    local got = representable and answer(e, dtype)
    if representable and not (math.abs(got - e.value) <= REL[dtype][e.order] * size + 1e-300) then
      list[#list + 1] = ("slope %d at %g%s: %.17g, expected %.17g"):format(e.order, e.x, e.n and ", n = " .. e.n or "",
        got, e.value)
    end
  end
  return list
end

for _, name in ipairs(names) do
  for dtype in pairs(REL) do
    it(("slopes of %s far out in %s"):format(name, dtype), function()
      local list = wrong(name, dtype)
      assert(#list == 0, ("%d of %d: %s"):format(#list, #rows[name], table.concat(list, "\n")))
    end)
  end
end
