-- pn.sde: orders of convergence, each scheme's on the refinement of one Brownian path, as a slope with an interval from
-- groups of paths; against closed forms: geometric Brownian motion (Kloeden & Platen 1992, 4.4), their (4.46), an
-- equation with additive noise, expectations of StochasticDiffEq.jl's tests. A wrong order has to fail.
local pn = require "penumbra"
local assert = require "luassert"

local GROUPS = 20

-- Mean and standard error of a list.
local function estimate(list)
  local x = pn.tensor(list)
  return x:mean():item(), x:std():item() / math.sqrt(#list)
end

-- The slope of log2 of the columns' means against -level, for each group of paths: mean and standard error. errors[i]:
-- [paths] at step 2^-(first + i - 1).
local function slope_of(errors)
  local logs, slopes = {}, {}
  for i, e in ipairs(errors) do
    logs[i] = e:reshape({ GROUPS, -1 }):mean(2):log2():totable()
  end
  local middle = (#errors + 1) / 2
  for g = 1, GROUPS do
    local above, below = 0, 0
    for i = 1, #errors do
      above, below = above - (i - middle) * logs[i][g], below + (i - middle) ^ 2
    end
    slopes[g] = above / below
  end
  return estimate(slopes)
end

-- Lies the slope within 0.1 of the order, with its interval of 3 standard errors?
local function has_order(order, slope, se)
  return math.abs(slope - order) + 3 * se < 0.1
end

local function check_order(order, errors)
  local slope, se = slope_of(errors)
  assert.is_true(has_order(order, slope, se), ("slope %.3f +- %.3f, not %g"):format(slope, se, order))
  for _, other in ipairs { 0.5, 1, 1.5, 2 } do -- and no other one
    assert.is_true(other == order or math.abs(slope - other) > 10 * se + 0.1)
  end
end

-- problem: drift, diffusion, y0 (a number), exact(path), options, paths, levels {first, last}
local function errors_of(problem, method, seed)
  local n, errors = problem.paths, {}
  local path = pn.brownian { seed = seed, shape = { n, 1 }, tolerance = 2 ^ -(problem.finest or 10) }
  local y0, exact = pn.full({ n, 1 }, problem.y0), problem.exact(path)
  for level = problem.levels[1], problem.levels[2] do
    local o = { method = method, path = path, step = 2 ^ -level }
    for name, value in pairs(problem.options or {}) do o[name] = value end
    local y = pn.sde(problem.drift, problem.diffusion, y0, pn.tensor { 0, 1 }, o)
    errors[#errors + 1] = (y[2] - exact):abs():reshape { n }
  end
  return errors
end

local kloeden_platen = { y0 = 0.1, paths = 4000, levels = { 4, 8 },
  drift = function(_, y) return -(y * 0.64 + 0.5) * (1 - y * y) end,
  diffusion = function(_, y) return (1 - y * y) * 0.8 end,
  exact = function(path)
    local e = (path:increment(0, 1) * (2 * 0.8) - 2 * 0.5):exp()
    return ((1 + 0.1) * e + 0.1 - 1) / ((1 + 0.1) * e + 1 - 0.1)
  end }

-- dX = (b / sqrt(1 + t) - X / (2 (1 + t))) dt + a b / sqrt(1 + t) dW: Kloeden & Platen (4.4.38)
local fading = { y0 = 1, paths = 2000, levels = { 3, 7 }, options = { noise = "additive" },
  drift = function(t, y) return 0.5 / (1 + t):sqrt() - y / ((1 + t) * 2) end,
  diffusion = function(t, y) return pn.ones_like(y) * 0.4 / (1 + t):sqrt() end,
  exact = function(path) return (1 + (path:increment(0, 1) * 0.8 + 1) * 0.5) / math.sqrt(2) end }

-- Additive noise and a drift that is not linear: no closed form, but the same path in steps of 2^-12.
local wavy = { y0 = 0.3, paths = 2000, levels = { 3, 7 }, finest = 12, options = { noise = "additive" },
  drift = function(t, y) return (y * 2):sin() * 2 + t end,
  diffusion = function(t, y) return pn.ones_like(y) * (1 + t) end }
function wavy.exact(path)
  local y0 = pn.full({ wavy.paths, 1 }, wavy.y0)
  return pn.sde(wavy.drift, wavy.diffusion, y0, pn.tensor { 0, 1 }, { method = "sra1", path = path, step = 2 ^ -12 })[2]
end

describe("strong order of", function()
  for _, case in ipairs { { "euler_maruyama", 0.5 }, { "milstein", 1 }, { "heun", 1 }, { "euler_heun", 1 },
    { "reversible_heun", 1 } } do
    it(("%s on (4.46) is %g"):format(case[1], case[2]), function()
      local problem = kloeden_platen
      if case[1] == "reversible_heun" then -- (proved: 1/2; with one motion more)
        problem = setmetatable({ paths = 10000, levels = { 6, 10 } }, { __index = kloeden_platen })
      end
      check_order(case[2], errors_of(problem, case[1], 11))
    end)
  end

  for _, case in ipairs { { "euler_maruyama", 1 }, { "milstein", 1 }, { "heun", 1 }, { "reversible_heun", 1 },
    { "sra1", 1.5 } } do
    it(("%s with additive noise is %g"):format(case[1], case[2]), function()
      local late = case[1] == "reversible_heun" and { levels = { 5, 9 } } or {}
      check_order(case[2], errors_of(setmetatable(late, { __index = wavy }), case[1], 12))
    end)
  end

  it("euler_maruyama and sra1 with noise that fades is 1 and at least 1.5", function()
    check_order(1, errors_of(fading, "euler_maruyama", 13))
    local slope, se = slope_of(errors_of(fading, "sra1", 13))
    assert.is_true(slope - 3 * se > 1.4)
  end)

  -- dY = A Y dW1 + B Y dW2 with A and B that do not commute, against steps of 2^-13 on the same path
  it("schemes for motions that do not commute is 1/2, and their limit the same", function()
    local n, y0 = 1000, pn.tensor { { 1, 0.5 } }
    local both = pn.tensor { { { 0.3, 0.8 }, { 0, -0.2 } }, { { 0.1, 0 }, { -0.9, 0.4 } } }
    local path = pn.brownian { seed = 14, shape = { n, 2 }, tolerance = 2 ^ -13 }
    local function f(_, y) return y * -0.3 end
    local function g(_, y) -- [.., 2, 2]: column j is A_j y
      return pn.stack({ y:matmul(both[1]:t()), y:matmul(both[2]:t()) }, -1)
    end
    local function solve(method, level)
      return pn.sde(f, g, y0:broadcast_to { n, 2 }, pn.tensor { 0, 1 },
        { method = method, noise = "general", path = path, step = 2 ^ -level })[2]
    end
    local finest = solve("euler_maruyama", 13)
    for _, method in ipairs { "euler_maruyama", "heun", "reversible_heun" } do
      local errors = {}
      for level = 3, 7 do errors[#errors + 1] = (solve(method, level) - finest):square():sum(2):sqrt() end
      check_order(0.5, errors)
    end
  end)

  -- y' = y cos t + t, by pn.odeint
  it("schemes without noise is 1 or 2, that of the rule they become", function()
    local function f(t, y) return y * t:cos() + t end
    local function g(_, y) return pn.zeros_like(y) end
    local function solve(method, level)
      return pn.sde(f, g, pn.ones(1, 1), pn.tensor { 0, 2 }, { method = method, step = 2 ^ -level })[2]:item()
    end
    local exact = pn.odeint(f, pn.ones(1, 1), pn.tensor { 0, 2 }, { rtol = 1e-11, atol = 1e-11 })[2]:item()
    for _, case in ipairs { { "euler_maruyama", 1 }, { "milstein", 1 }, { "euler_heun", 1 }, { "heun", 2 },
      { "sra1", 2 }, { "reversible_heun", 2 } } do
      local slope = math.log(math.abs((solve(case[1], 6) - exact) / (solve(case[1], 7) - exact)), 2)
      assert.is_true(math.abs(slope - case[2]) < 0.1, ("%s: %g"):format(case[1], slope))
    end
  end)

  it("a planted half order is not taken for 1", function()
    local errors = errors_of(kloeden_platen, "milstein", 11)
    for i = 1, #errors do errors[i] = errors[i] * 2 ^ (i / 2) end
    assert.is_false(pcall(check_order, 1, errors))
    errors = errors_of(kloeden_platen, "euler_maruyama", 11)
    assert.is_false(pcall(check_order, 1, errors))
  end)

  it("the scheme of Ito with Stratonovich's solution is none", function()
    local other = setmetatable({ exact = kloeden_platen.exact }, { __index = kloeden_platen })
    other.options = { calculus = "stratonovich" } -- the equation's drift is Ito's
    local errors = errors_of(other, "heun", 11)
    assert.is_true(errors[#errors]:mean():item() > 0.05)
  end)
end)

describe("geometric Brownian motion", function()
  local function own(_, y) return y end
  local n = 20000

  -- Mean errors at 2^-9 .. 2^-5 of 1.5e6 paths by another implementation, standard errors 1e-4 to 4.5e-4.
  it("has the known errors, and slopes 1/2 and 1", function()
    local known, errors = { 0.0677, 0.0956, 0.1351, 0.1905, 0.2673 }, {}
    local path = pn.brownian { seed = 21, shape = { n, 1 }, tolerance = 2 ^ -9 }
    local exact = (path:increment(0, 1) + 0.5):exp()
    for k, want in ipairs(known) do
      local y = pn.sde(own, own, pn.ones(n, 1), pn.tensor { 0, 1 }, { path = path, step = 2 ^ (k - 10) })
      local e = (y[2] - exact):abs():reshape { n }
      local se = e:std():item() / math.sqrt(n)
      assert.is_true(se < 0.04 * want and math.abs(e:mean():item() - want) < 6 * (se + 4.5e-4))
      errors[#known + 1 - k] = e
    end
    check_order(0.5, errors)
  end)

  it("has the weak error of Euler's rule, of order 1", function()
    local path, differences = pn.brownian { seed = 22, shape = { n, 1 }, tolerance = 2 ^ -6 }, {}
    local exact = (path:increment(0, 1) * 0.1 + 1.5 - 0.005):exp() * 0.1
    for level = 2, 6 do
      local steps = 2 ^ level
      local y = pn.sde(function(_, x) return x * 1.5 end, function(_, x) return x * 0.1 end, pn.full({ n, 1 }, 0.1),
        pn.tensor { 0, 1 }, { path = path, step = 1 / steps })[2]
      local d = (exact - y):reshape { n } -- its mean is the weak error, with less noise than y's
      local want, se = 0.1 * (math.exp(1.5) - (1 + 1.5 / steps) ^ steps), d:std():item() / math.sqrt(n)
      assert.is_true(se < 0.02 * want and math.abs(d:mean():item() - want) < 6 * se)
      differences[#differences + 1] = d
    end
    -- (the error's own slope between these steps, whose limit is 1)
    local function error_at(steps) return math.exp(1.5) - (1 + 1.5 / steps) ^ steps end
    local slope, se = slope_of { differences[4], differences[5] }
    assert.is_true(has_order(1, slope, se))
    assert.is_true(math.abs(slope - math.log(error_at(32) / error_at(64), 2)) < 6 * se)
  end)

  it("has the known moments", function()
    local y = pn.sde(function(_, x) return x * 1.5 end, function(_, x) return x * 0.1 end, pn.full({ n, 1 }, 0.1),
      pn.tensor { 0, 1 }, { step = 1 / 512, method = "milstein", generator = pn.generator(5) })[2]:reshape { n }
    for power, want in ipairs { 0.1 * math.exp(1.5), 0.01 * math.exp(3.01) } do
      local x = y ^ power
      local se, bias = x:std():item() / math.sqrt(n), want * power * 1.5 ^ 2 / 2 / 512
      assert.is_true(se < 0.01 * want and math.abs(x:mean():item() - want) < 6 * se + 2 * bias)
    end
  end)
end)

-- dX = (X / 2 + sqrt(X^2 + 1)) dt + sqrt(X^2 + 1) dW, X(0) = 0, is sinh(t + W): E p(arsinh X) = t^3 - 3 t^2 + 2 t for
-- p(z) = z^3 - 6 z^2 + 8 z.
it("the hyperbolic sine has the known expectations", function()
  local n = 20000
  local path = pn.brownian { seed = 23, shape = { n, 1 }, tolerance = 2 ^ -8 }
  local y = pn.sde(function(_, x) return x / 2 + (x * x + 1):sqrt() end, function(_, x) return (x * x + 1):sqrt() end,
    pn.zeros(n, 1), pn.tensor { 0, 0.25, 0.5, 2 }, { method = "milstein", step = 2 ^ -8, path = path })
  for k, t in ipairs { 0.25, 0.5, 2 } do
    local x, z = y[k + 1]:reshape { n }, path:increment(0, t):reshape { n } + t
    x = (x + (x * x + 1):sqrt()):log()
    assert.is_true((x - z):abs():mean():item() < 0.02)
    local p = x ^ 3 - x * x * 6 + x * 8
    local se = p:std():item() / math.sqrt(n)
    local bias = (p - (z ^ 3 - z * z * 6 + z * 8)):abs():mean():item()
    assert.is_true(se < 0.1 and bias < 0.1)
    assert.is_true(math.abs(p:mean():item() - (t ^ 3 - 3 * t ^ 2 + 2 * t)) < 6 * se + bias)
  end
end)
