-- Densities with kernels of their own: the kernel's gradients beside those that builders compose (taken when the
-- gradient itself is to be differentiated), on wide ranges, broadcast, strided and in either dtype.
local pn = require "penumbra"
local dist = pn.dist

local function uniform(low, high)
  return function(shape) return pn.rand(shape) * (high - low) + low end
end
local function wide(low, high)
  return function(shape) return (uniform(math.log(low), math.log(high))(shape)):exp() end
end

-- Names of parameters in order and how to draw them; x comes from the distribution itself.
local kinds = {
  gamma = {{"concentration", wide(0.1, 1e4)}, {"rate", wide(1e-3, 1e3)}},
  inverse_gamma = {{"concentration", wide(0.3, 1e4)}, {"rate", wide(1e-3, 1e3)}},
  beta = {{"concentration1", wide(0.3, 300)}, {"concentration0", wide(0.3, 300)}},
  chi2 = {{"df", wide(0.2, 1e4)}},
  student_t = {{"df", wide(1e-2, 1e3)}, {"loc", uniform(-3, 3)}, {"scale", wide(1e-3, 1e3)}},
}

local function close(name, got, want, limit)
  assert.are.same(want:shape(), got:shape())
  if want:numel() == 0 then return end
  local size = want:abs() + want:abs():mean() * 1e-3 + 1e-30
  local off = ((got - want):abs() / size):max():item()
  assert(off <= limit, ("%s: off by %.3g"):format(name, off))
end

local function compare(name, tensors, x, limit)
  local parameters, wanted = {}, {}
  for k, p in ipairs(kinds[name]) do
    wanted[k] = pn.param(tensors[k])
    parameters[p[1]] = wanted[k]
  end
  wanted[#wanted + 1] = pn.param(x)
  local y = dist[name](parameters):log_prob(wanted[#wanted])
  local weight = pn.rand(y:shape(), {dtype = x:dtype()})
  local kernel = pn.grad((y * weight):sum(), wanted)
  local built = pn.grad((y * weight):sum(), wanted, {create_graph = true})
  for k = 1, #wanted do close(("%s, gradient %d"):format(name, k), kernel[k], built[k], limit) end
  local one = pn.grad((y * weight):sum(), {wanted[#wanted]}) -- alone
  close(name .. ", x alone", one[1], built[#wanted], limit)
  close(name .. ", first alone", pn.grad((y * weight):sum(), {wanted[1]})[1], built[1], limit)
end

local function draws(name, shapes)
  local tensors, parameters = {}, {}
  for k, p in ipairs(kinds[name]) do
    tensors[k] = p[2](shapes[k] or shapes[1])
    parameters[p[1]] = tensors[k]
  end
  return tensors, parameters
end

local names = {}
for name in pairs(kinds) do names[#names + 1] = name end
table.sort(names)

describe("the kernel of", function()
  for _, name in ipairs(names) do
    it(name .. " gives the composed gradients", function()
      pn.seed(3)
      local tensors, parameters = draws(name, {{5, 700}})
      compare(name, tensors, dist[name](parameters):sample(), 1e-9)
    end)
    it(name .. " gives them of broadcast and strided operands", function()
      pn.seed(4)
      local tensors, parameters = draws(name, {{}, {3, 1}, {4}, {}})
      compare(name, tensors, dist[name](parameters):expand{3, 4}:sample{2}, 1e-9)
      tensors, parameters = draws(name, {{7, 3}})
      for k, t in ipairs(tensors) do tensors[k] = t:t() end
      local x = dist[name](parameters):sample():t()
      compare(name, tensors, x, 1e-9)
    end)
    it(name .. " gives them in float32", function()
      pn.seed(5)
      local tensors, parameters = draws(name, {{300}})
      for k, t in ipairs(tensors) do
        tensors[k] = (t:clamp(0.3, 30)):to "float32"
        parameters[kinds[name][k][1]] = tensors[k]
      end
      compare(name, tensors, dist[name](parameters):sample(), 1e-3)
    end)
    it(name .. " takes no elements", function()
      local tensors, parameters = draws(name, {{0}})
      local x = pn.zeros{0}
      compare(name, tensors, x, 0)
      assert.are.same({0}, dist[name](parameters):log_prob(x):shape())
    end)
  end
end)

-- df v, N(v) = log B(v/2, 1/2) + log(v)/2 and N'(v), by mpmath 1.3 with 60 digits (700 at 1e40: the leading terms):
-- h = mpf(v)/2; N = loggamma(h) - loggamma(h + 1/2) + log(2 pi h)/2; N' = (psi(h) - psi(h + 1/2) + 1/(2h))/2
local student_norms = {
  {1e-200, 230.95165647996451, -5.0e+199},
  {1e-3, 4.1477175562983347, -499.30767438587686},
  {0.1, 1.9099207413682821, -4.3809428703288483},
  {0.7, 1.2220135816234488, -0.34361442128235123},
  {1, 1.1447298858494002, -0.19314718055994531},
  {2.5, 1.01663959346045, -0.037462993461563286},
  {7, 0.95453415057137596, -0.0050519424647072142},
  {8, 0.95010861215023083, -0.0038766289638642144},
  {60, 0.92310500703435112, -6.9434804734770603e-5},
  {119, 0.92103934881724307, -1.7653497223788014e-5},
  {121, 0.92100462538933231, -1.7074753329536098e-5},
  {1e3, 0.91918853316300613, -2.4999987500025e-7},
  {1e8, 0.91893853570467274, -2.4999999999999999e-17},
  {1e15, 0.91893853320467299, -2.5e-31},
  {1e40, 0.91893853320467274, -2.5e-81},
}

describe("Student's normaliser", function()
  it("keeps its digits and its slope's, whatever df", function()
    for _, row in ipairs(student_norms) do
      local v, want, slope = table.unpack(row)
      local df = pn.param(pn.tensor{v})
      local y = dist.student_t(df, 2, 3):log_prob(pn.tensor{2})
      local off = math.abs(y:item() + math.log(3) + want) / want
      assert(off < 1e-14, ("df = %g: off by %.3g"):format(v, off))
      for _, again in ipairs{false, v < 1e10} do
        local got = pn.grad(y:sum(), {df}, {create_graph = again})[1]:item()
        off = math.abs(got / slope + 1)
        assert(off < (again and 1e-8 or 1e-12), ("df = %g: slope off by %.3g"):format(v, off))
      end
    end
  end)
  it("survives squares that overflow", function()
    local x, df = pn.param(pn.tensor{1e200, -1e300, 1e160}), pn.param(pn.tensor{2, 1e-3, 1})
    local y = dist.student_t(df):log_prob(x)
    local kernel, built = pn.grad(y:sum(), {x, df}), pn.grad(y:sum(), {x, df}, {create_graph = true})
    -- -(v + 1) (log |x| - log(v)/2) - N(v); v = 2: N = log(2 sqrt 2), v = 1: log pi
    assert(math.abs(y[1]:item() / (-3 * (200 * math.log(10) - math.log(2) / 2) - math.log(2 * 2 ^ 0.5)) - 1) < 1e-14)
    assert(math.abs(y[3]:item() / (-2 * 160 * math.log(10) - math.log(math.pi)) - 1) < 1e-14)
    for k = 1, 2 do close("far", kernel[k], built[k], 1e-12) end
  end)
end)

describe("values outside the support", function()
  local inf, nan = math.huge, 0 / 0
  local strange = {-1, 0, inf, -inf, nan}
  for _, name in ipairs{"gamma", "inverse_gamma", "chi2"} do
    it("have no density and no slope under " .. name, function()
      for _, dtype in ipairs{"float64", "float32"} do
        local values = {5}
        for k, v in ipairs(strange) do values[k + 1] = v end
        local x = pn.param(pn.tensor(values, {dtype = dtype}))
        local a = pn.param(pn.tensor({3}, {dtype = dtype}))
        local y = dist[name](a):log_prob(x)
        local got = y:totable()
        for k = 2, 5 do assert.are.equal(-inf, got[k]) end
        assert(got[6] ~= got[6] and got[1] > -inf)
        for _, again in ipairs{false, true} do
          local gx, ga = table.unpack(pn.grad(pn.where(pn.isfinite(y), y, 0):sum(), {x, a}, {create_graph = again}))
          local whole = pn.grad(y:sum(), {x}, {create_graph = again})[1]:totable()
          for k = 2, 6 do assert.are.equal(0, whole[k]) end
          local one = pn.param(pn.tensor({5}, {dtype = dtype}))
          local want = pn.grad(dist[name](a):log_prob(one):sum(), {one, a})
          close("x", gx[{1}], want[1][1], 1e-6)
          close("a", ga, want[2], 1e-6)
        end
      end
    end)
  end
  it("have none under beta", function()
    local x, a, b = pn.param(pn.tensor{0.25, 0, 1, -1, 2, inf, nan}), pn.param(pn.tensor(3)), pn.param(pn.tensor(2))
    local y = dist.beta(a, b):log_prob(x) -- 12 x^2 (1 - x)
    local got = y:totable()
    assert(math.abs(got[1] - math.log(12 * 0.0625 * 0.75)) < 1e-14 and got[7] ~= got[7])
    for k = 2, 6 do assert.are.equal(-inf, got[k]) end
    for _, again in ipairs{false, true} do
      local g = pn.grad(y:sum(), {x, a, b}, {create_graph = again})
      local gx = g[1]:totable()
      assert(math.abs(gx[1] - (8 - 4 / 3)) < 1e-13)
      for k = 2, 7 do assert.are.equal(0, gx[k]) end
      -- log x - psi(3) + psi(5) = log x + 1/3 + 1/4, log(1 - x) - psi(2) + psi(5)
      assert(math.abs(g[2]:item() - (math.log(0.25) + 1 / 3 + 1 / 4)) < 1e-13)
      assert(math.abs(g[3]:item() - (math.log(0.75) + 1 / 2 + 1 / 3 + 1 / 4)) < 1e-13)
    end
  end)
  it("have none under dirichlet", function()
    local rows = {{0.2, 0.3, 0.5}, {0.2, 0.3, 0.6}, {-0.1, 0.6, 0.5}, {inf, 0, 0}, {nan, 0.5, 0.5}, {1, 0, 0}}
    local x, a = pn.param(pn.tensor(rows)), pn.tensor{1, 1, 1}
    for _, shape in ipairs{{3}, {6, 3}} do
      local full = pn.param(a:broadcast_to(shape):contiguous())
      local y = dist.dirichlet(full):log_prob(x)
      local got = y:totable()
      assert(math.abs(got[1] - math.log(2)) < 1e-14 and math.abs(got[6] - math.log(2)) < 1e-14)
      for k = 2, 4 do assert.are.equal(-inf, got[k]) end
      assert(got[5] ~= got[5])
      for _, again in ipairs{false, true} do
        local gx = pn.grad(y:sum(), {x, full}, {create_graph = again})[1]
        assert.are.equal(0, gx:abs():max():item()) -- a = 1: flat
        local first = pn.grad(y[1], {full}, {create_graph = again})[1]
        local row = #shape == 1 and first or first[1]
        for k = 1, 3 do -- digamma(3) - digamma(1) = 3/2
          assert(math.abs(row[k]:item() - (math.log(rows[1][k]) + 1.5)) < 1e-14)
        end
      end
    end
  end)
end)

describe("the kernel of dirichlet", function()
  local function both(a, x)
    local wa, wx = pn.param(a), pn.param(x)
    local y = dist.dirichlet(wa):log_prob(wx)
    local weight = pn.rand(y:shape(), {dtype = x:dtype()})
    local kernel = pn.grad((y * weight):sum(), {wx, wa})
    local built = pn.grad((y * weight):sum(), {wx, wa}, {create_graph = true})
    local limit = x:dtype() == "float64" and 1e-9 or 1e-3
    for k = 1, 2 do close("gradient " .. k, kernel[k], built[k], limit) end
    for k = 1, 2 do
      close("alone " .. k, pn.grad((y * weight):sum(), {({wx, wa})[k]})[1], built[k], limit)
    end
    -- the formula
    local want = ((a - 1) * x:log()):sum(-1) - a:lgamma():sum(-1) + a:sum(-1):lgamma()
    close("value", y:detach(), want, limit)
  end
  it("gives the composed values and gradients for rows of every length it takes, and beyond", function()
    pn.seed(7)
    for _, n in ipairs{1, 2, 3, 10, 33, 64, 65, 100} do
      local a = wide(0.3, 30){17, n}
      both(a, dist.dirichlet(a):sample())
    end
  end)
  it("gives them for concentrations of one row, of fewer axes and in float32", function()
    pn.seed(8)
    local a = wide(0.5, 20){10}
    both(a, dist.dirichlet(a):sample{5, 60})
    a = wide(0.5, 20){4, 10}
    both(a, dist.dirichlet(a):sample{3})
    a = (wide(0.8, 20){300, 5}):to "float32" -- several blocks of rows
    both(a, dist.dirichlet(a):sample())
    a = a:slice(1, 1, 90)
    both(a, dist.dirichlet(a):sample())
    both(pn.full({5}, 2.5, {dtype = "float32"}), dist.dirichlet(a):sample())
  end)
end)
