-- All rows of likelihoods: value against the distribution, derivatives against those of its density, expectations
-- against product quadrature, errors.
local pn = require "penumbra"
local cases = require "spec.nn.likelihood_case"
local likelihood = pn.nn.likelihood

local N <const> = 7

local function gap(a, b)
  return ((a - b):abs() / (b:abs() + 1)):max():item()
end

local function each(f)
  for _, name in ipairs(likelihood.names) do
    for _, given in ipairs(cases[name].given) do
      f(likelihood[name](given), cases[name], given)
    end
  end
end

local function outputs(l, dtype)
  return pn.randn(l.vector and { N, l.width } or { N }, { dtype = dtype }) * 0.8
end

local function data(case, l, dtype)
  local y = case.y(N)
  return l.row.targets == "label" and y or y:to(dtype)
end

-- log p(y | f) by the distribution alone, with a graph from f.
local function log_prob(l, y, f) return l:law(f):log_prob(y) end

local function derivative(f, g)
  return pn.grad(f(g):sum(), { g }, { create_graph = true })[1]
end

local function variable(f)
  f = f:detach()
  f:requires_grad(true)
  return f
end

local function given_in(given, dtype)
  local p = {}
  for k, v in pairs(given) do p[k] = pn.is_tensor(v) and v:to(dtype) or v end
  return p
end

-- E log p(y | f) over a product grid of nodes along each of n outputs.
local function by_grid(l, y, m, v)
  local n = l.vector and l.width or 1
  local K = n == 3 and 14 or 48
  -- one output: trapezoids on [-9, 9] standard deviations, error far below 1e-10; several: Gauss-Hermite
  local off = pn.diag(pn.arange(1, K):to "float64":sqrt(), 1)
  local x, vectors = (off + off:t()):eigh()
  local w = vectors[1]:square()
  if n == 1 then
    x = pn.linspace(-9, 9, 2001)
    w = (x:square() * -0.5):exp()
    w = w / w:sum()
  end
  local sum, at = 0, {}
  local function walk(k, weight)
    if k > n then
      local f = l.vector and pn.stack(at, -1) or at[1]
      sum = sum + log_prob(l, y, f) * weight
      return
    end
    local mk, vk = l.vector and m:select(-1, k) or m, l.vector and v:select(-1, k) or v
    for i = 1, #x do
      at[k] = mk + vk:sqrt() * x[i]
      walk(k + 1, weight * w[i]:item())
    end
  end
  pn.no_grad(function() walk(1, 1) end)
  return sum
end

describe("the rows of likelihoods", function()
  before_each(function() pn.seed(3) end)

  it("has the probabilities of its law, and outputs for a mean", function()
    pn.seed(3)
    local told = { 0, 0 }
    each(function(l)
      local row, f = l.row, outputs(l)
      if row.probabilities then
        told[1] = told[1] + 1
        local p = row.probabilities(f, l.parameters)
        for k = 0, l.vector and l.width - 1 or 1 do
          local label = pn.full({ N }, k, { dtype = l.vector and "int64" or nil })
          local want = l:law(f):log_prob(label):exp()
          assert(gap(l.vector and p:select(-1, k + 1) or k == 1 and p or 1 - p, want) < 1e-12, tostring(l))
        end
      end
      if row.output and not l.vector then
        told[2] = told[2] + 1
        local mean = pn.rand { N } * 0.8 + 0.1
        assert(gap(l:law(row.output(mean)):mean(), mean) < 1e-12, tostring(l))
        if row.targets == "binary" then -- at the bounds a thousandth from them
          assert(gap(l:law(row.output(pn.tensor { 0, 1 })):mean(), pn.tensor { 1e-3, 0.999 }) < 1e-12, tostring(l))
        elseif row.targets == "count" then
          assert(gap(l:law(row.output(pn.tensor { 0, 4 })):mean(), pn.tensor { 1e-3, 4 }) < 1e-12, tostring(l))
        end
      end
    end)
    assert.is_true(told[1] >= 4 and told[2] >= 4)
  end)

  it("have a case each, and no case lacks its row", function()
    for _, name in ipairs(likelihood.names) do assert.is_table(cases[name], name) end
    for name in pairs(cases) do assert.is_function(likelihood[name], name) end
  end)

  it("give the density of their distribution", function()
    each(function(_, case, given)
      local name = case
      for _, dtype in ipairs { "float64", "float32" } do
        for k, v in pairs(cases) do if v == case then name = k end end
        local l = likelihood[name](given_in(given, dtype))
        local y, f = data(case, l, dtype), outputs(l, dtype)
        local value = l:value(y, f)
        assert.same({ N }, value:shape())
        assert.equal(dtype, value:dtype())
        local off = gap(value, log_prob(l, y, f))
        assert(off < (dtype == "float64" and 1e-12 or 3e-5), ("%s: value is off by %g"):format(tostring(l), off))
      end
    end)
  end)

  it("give its slope and curvature", function()
    for _, name in ipairs(likelihood.names) do
      for _, given in ipairs(cases[name].given) do
        for _, dtype in ipairs { "float64", "float32" } do
          local l = likelihood[name](given_in(given, dtype))
          local y, f = data(cases[name], l, dtype), variable(outputs(l, dtype))
          local limit = dtype == "float64" and 1e-9 or 2e-4
          local slope = derivative(function(g) return log_prob(l, y, g) end, f)
          local off = gap(l:slope(y, f:detach()), slope:detach())
          assert(off < limit, ("%s: slope is off by %g"):format(tostring(l), off))
          local curvature = l:curvature(y, f:detach())
          local list = {}
          for k = 1, l.vector and l.width or 1 do
            local part = l.vector and slope:select(-1, k) or slope
            list[k] = part:requires_grad() and pn.grad(part:sum(), { f }, { create_graph = true })[1]:detach()
              or f:detach():zeros_like()
          end
          off = gap(curvature, l.vector and pn.stack(list, -1) or list[1])
          assert(off < limit, ("%s: curvature is off by %g"):format(tostring(l), off))
          -- and the slopes by differences of values
          if dtype == "float64" then
            local h, base = 1e-5, f:detach()
            for k = 1, l.vector and l.width or 1 do
              local step = l.vector and pn.eye(l.width)[k] * h or h
              local rise = (l:value(y, base + step) - l:value(y, base - step)) / (2 * h)
              off = gap(l.vector and l:slope(y, base):select(-1, k) or l:slope(y, base), rise)
              assert(off < 1e-6, ("%s: differences of values are off by %g"):format(tostring(l), off))
            end
          end
        end
      end
    end
  end)

  it("give slope and curvature apart from the graph of the outputs, which they leave as they are", function()
    each(function(l, case)
      local y, f = data(case, l, "float64"), outputs(l, "float64")
      local slope, curvature = l:slope(y, f), l:curvature(y, f)
      assert(not f:requires_grad(), tostring(l))
      local of_graph = pn.param(f) * 1
      assert.equal(0, gap(l:slope(y, of_graph), slope))
      local again = l:curvature(y, of_graph)
      assert.equal(0, gap(again:detach(), curvature:detach()))
    end)
  end)

  it("give the expectation under normal outputs", function()
    each(function(l, case)
      if l.width > 3 then return end
      local y, m = data(case, l, "float64"), outputs(l, "float64")
      local v = pn.rand(m:shape()) * 0.6 + 0.1
      if l.row.order == 2 and l.closed then -- of second order: a fourth of the variance has a sixteenth of the error
        local function error_at(share)
          return (l:expectation(y, m, v * share) - by_grid(l, y, m, v * share)):abs():max():item()
        end
        local ratio = error_at(0.04) / error_at(0.01)
        assert(ratio > 13 and ratio < 19, ("%s: errors have ratio %g"):format(tostring(l), ratio))
      elseif l.vector and not (l.closed and l.row.expectation) then
        local g = pn.generator(5)
        local some, exact = {}, by_grid(l, y, m, v)
        for k = 1, 20 do some[k] = l:expectation(y, m, v, { draws = 4000, generator = g }) end
        local all = pn.stack(some, 1)
        local se = (all:var(1) / 20):sqrt()
        assert(((all:mean(1) - exact):abs() / (se * 6 + 1e-3)):max():item() < 1, tostring(l))
        assert((se / (exact:abs() + 1)):max():item() < 0.05, tostring(l))
      else
        local off = gap(l:expectation(y, m, v), by_grid(l, y, m, v))
        assert(off < 1e-8, ("%s: expectation is off by %g"):format(tostring(l), off))
      end
    end)
  end)

  it("have bounds below the expectation that are near it", function()
    local y, m = pn.tensor { 0, 1, 1, 0 }, pn.tensor { 0.4, -0.7, 1.2, -2 }
    local l = likelihood.probit { precision = 1.7 }
    for _, v in ipairs { 0.5, 0.05, 0.005 } do
      local variance = m:zeros_like() + v
      local rest = by_grid(l, y, m, variance) - l.row.bound(y, m, variance, l.parameters)
      assert(rest:min():item() > 0 and rest:max():item() < v)
    end
  end)

  it("give the predictive distribution", function()
    each(function(l, case)
      local known = l.closed and l.row.predictive or l.row.targets == "binary"
      local m = outputs(l, "float64")
      local v = pn.rand(m:shape()) + 0.2
      if not known then
        assert.error_matches(function() l:predictive(m, v) end, "predictive: none is known for")
        return
      end
      local y, x = data(case, l, "float64"), pn.linspace(-9, 9, 2001):unsqueeze(2)
      local w = (x:square() * -0.5):exp()
      local p = (log_prob(l, y:unsqueeze(1):broadcast_to { 2001, N }, m + v:sqrt() * x):exp() * w):sum(1) / w:sum()
      assert(gap(l:predictive(m, v):log_prob(y), p:log()) < 1e-8, tostring(l))
      if l.row.log_predictive then
        assert(gap(l.row.log_predictive(y, m, v, l.parameters), p:log()) < 1e-8, tostring(l))
      end
    end)
  end)

  it("refuse to stretch what was seen", function()
    local normal, label = pn.nn.likelihood.normal { scale = 1 }, pn.nn.likelihood.categorical { classes = 3 }
    local column = pn.zeros { 6, 1 }
    for name, f in pairs { value = normal.value, slope = normal.slope, curvature = normal.curvature } do
      assert.error_matches(function() f(normal, column, pn.zeros { 6 }) end,
        name .. ": y must have the shape of what f [6] says of it, or its last axes, got [6, 1]", 1, true)
      assert.error_matches(function() f(normal, pn.zeros { 6 }, column) end, name .. ": y must have", 1, true)
      assert.error_matches(function() f(normal, pn.zeros { 1 }, pn.zeros { 6 }) end, name .. ": y must have", 1, true)
    end
    assert.error_matches(function() normal:expectation(column, pn.zeros { 6 }, pn.ones { 6 }) end,
      "expectation: y must have", 1, true)
    local labels = pn.zeros({ 6, 1 }, { dtype = "int64" })
    assert.error_matches(function() label:value(labels, pn.zeros { 6, 3 }) end,
      "value: y must have the shape of what f [6, 3] says of it, all but the last axis", 1, true)
    assert.same({ 4, 6 }, normal:value(pn.zeros { 6 }, pn.zeros { 4, 6 }):shape()) -- draws of outputs
    assert.same({ 4, 6 }, label:value(labels:squeeze(-1), pn.zeros { 4, 6, 3 }):shape())
  end)

  it("refuse wrong parameters by name", function()
    for _, name in ipairs(likelihood.names) do
      for _, wrong in ipairs(cases[name].refused) do
        assert.error_matches(function() likelihood[name](wrong[1]) end, wrong[2], 1, true)
      end
    end
  end)

  it("are read by name, made, as rows and as functions", function()
    assert.error_matches(function() likelihood.read("here", "gaussian") end, "here: gaussian is called normal", 1, true)
    assert.error_matches(function() likelihood.read("here", "poison") end, "did you mean 'poisson'", 1, true)
    assert.error_matches(function() likelihood.read("here", 3) end, "here: likelihood must be one of 'b", 1, true)
    assert.error_matches(function() likelihood.read("here", { heads = { "loc" } }) end, "likelihood.law", 1, true)
    assert.error_matches(function() likelihood.read("here", { law = function() end }) end, "likelihood.heads", 1, true)
    local y, f = pn.tensor { 0.3, -1, 2 }, pn.tensor { 0.1, 0.2, -1 }
    local row = likelihood.normal { scale = 0.5 }
    local v = pn.tensor { 0.2, 0.4, 1 }
    for _, own in ipairs { function(g) return pn.dist.normal(g, 0.5) end, row, { heads = { "loc" }, law = function(h)
      return pn.dist.normal(h.loc, 0.5)
    end } } do
      local l = likelihood.read("here", own)
      assert(gap(l:value(y, f), row:value(y, f)) < 1e-12)
      assert(gap(l:slope(y, f), row:slope(y, f)) < 1e-12)
      assert(gap(l:curvature(y, f), row:curvature(y, f)) < 1e-12)
      assert(gap(l:expectation(y, f, v), row:expectation(y, f, v)) < 1e-10)
    end
  end)
end)
