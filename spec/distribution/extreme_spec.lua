-- Distributions where doubles end: values at 1e-8, slopes at 1e-6, second ones at 1e-4 relative, by formulas at 400
-- digits (spec/golden/distribution/make_extreme.py).
local pn = require "penumbra"
local assert = require "luassert"

local dist = pn.dist
local REL = { [0] = 1e-8, 1e-6, 1e-4 }

local function number(v, dtype)
  return pn.tensor(v, { dtype = dtype or "float64" })
end

-- float32 against float64 of the same rounded numbers
local function narrow_error(e)
  local narrow, wide = {}, {}
  for name, v in pairs(e.params) do
    narrow[name] = number(v, "float32")
    wide[name] = narrow[name]:to "float64"
  end
  local x = number(e.x, "float32")
  local d, exact = dist[e.row](narrow), dist[e.row](wide)
  local got, want = d[e.of](d, x):item(), exact[e.of](exact, x:to "float64"):item()
  return got == want and 0 or math.abs(got - want) / math.abs(want)
end

-- The function of the distribution, or its slope of an order in one parameter or in x.
local function answer(e)
  local params, x = {}, e.x and number(e.x)
  for name, v in pairs(e.params) do
    params[name] = number(v)
  end
  local leaf = e.by and pn.param(e.by == "x" and x or params[e.by])
  if e.by == "x" then
    x = leaf
  elseif e.by then
    params[e.by] = leaf
  end
  local d = dist[e.row](params)
  local y = d[e.of](d, x)
  for _ = 1, e.order or 0 do
    y = y:requires_grad() and pn.grad(y, { leaf }, { create_graph = true })[1] or y * 0
  end
  return y:item()
end

local rows, names = {}, {}
for _, e in ipairs(require "spec.golden.distribution.extreme") do
  if not rows[e.row] then
    rows[e.row], names[#names + 1] = {}, e.row
  end
  table.insert(rows[e.row], e)
end

for _, name in ipairs(names) do
  it(name .. " at extreme parameters and values", function()
    local wrong = {}
    for _, e in ipairs(rows[name]) do
      local got, size = answer(e), math.abs(e.value)
      if got ~= e.value and not (math.abs(got - e.value) <= REL[e.order or 0] * size + 1e-250) then
        local what = e.by and ("%s, slope %d in %s"):format(e.of, e.order, e.by) or e.of
        wrong[#wrong + 1] = ("%s at %s: %.17g, expected %.17g (%s)"):format(what, e.x, got, e.value,
          tostring(dist[name](e.params)))
      end
      if e.narrow and not e.by and narrow_error(e) > 1e-5 then
        wrong[#wrong + 1] = ("float32 at %s is off by %g"):format(e.x, narrow_error(e))
      end
    end
    assert(#wrong == 0, ("%d of %d: %s"):format(#wrong, #rows[name], table.concat(wrong, "\n")))
  end)
end
