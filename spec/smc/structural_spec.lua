-- Structural models: how components compose, estimation, what components and forecasts are, errors.
local pn = require "penumbra"
local close = require("spec.helper").close
local structural, kalman = pn.smc.structural, pn.smc.kalman

describe("a structural model", function()
  it("is the sum of its components, in any order", function()
    pn.seed(1)
    local y = pn.randn { 40 }:cumsum(1)
    local a, b = structural.trend { scale = 0.5, slope_scale = 0.1 }, structural.seasonal { period = 4, scale = 0.3 }
    local c = structural.arma { ar = { 0.5 }, ma = { 0.3 }, scale = 0.7 }
    local noise = structural.irregular { scale = 0.4 }
    local one, two = a + b + c + noise, noise + (c + (b + a))
    close(one:log_likelihood(y), two:log_likelihood(y), 1e-9)
    local x, z = one:components(y), two:components(y)
    for _, name in ipairs { "trend", "trend.slope", "seasonal", "arma", "irregular" } do
      close(x[name].mean, z[name].mean, 1e-9, name)
      close(x[name].scale, z[name].scale, 1e-8, name)
    end
    close(x.trend.mean + x.seasonal.mean + x.arma.mean + x.irregular.mean, y, 1e-10, "sum")
  end)

  it("finds the parameters of generated series", function()
    pn.seed(2)
    local truth = structural.level { scale = 0.5 } + structural.arma { ar = { 0.7 }, scale = 1 }
      + structural.irregular { scale = 0 }
    local steps, series = 300, 8
    local s = truth:system(pn.zeros { steps, series })
    s.diffuse, s.initial_cov = nil, s.initial_cov + pn.tensor { { 1, 0 }, { 0, 0 } }
    local _, y = kalman.sample(s, steps, { batch_shape = { series }, first = "predicted" })
    y = y[1]:squeeze(-1)
    local fit = (structural.level {} + structural.arma { p = 1 } + structural.irregular { scale = 0 }):fit(y)
    assert.is_true(fit.converged)
    local p = fit:parameters()
    close(p["level.scale"], 0.5, 0.06, "level")
    close(p["arma.scale"], 1, 0.06, "scale")
    close(p["arma.ar"], 0.7, 0.06, "ar")
    assert(fit.log_likelihood_at_fit > truth:log_likelihood(y):sum():item())
    -- a maximum: no gradient there
    local values, list = {}, {}
    for name, v in pairs(p) do
      if pn.is_tensor(v) then
        values[name] = pn.param(v)
        list[#list + 1] = values[name]
      end
    end
    for _, g in ipairs(pn.grad(fit:log_likelihood(y, values):sum(), list)) do
      assert(g:abs():max():item() < 0.05, g:abs():max():item())
    end
  end)

  it("holds what is given and takes starting values", function()
    pn.seed(3)
    local y = pn.randn { 80 }:cumsum(1) + pn.randn { 80 }
    local model = structural.level { scale = 0.9 } + structural.irregular {}
    assert.same({ "irregular.scale" }, model:names())
    local fit = model:fit(y, { start = { ["irregular.scale"] = 0.5 } })
    assert.equal(0.9, fit:parameters()["level.scale"])
    local more = { ["irregular.scale"] = 1.05 * fit:parameters()["irregular.scale"]:item() }
    assert(fit:log_likelihood(y):item() >= fit:log_likelihood(y, more):item())
    local all_held = structural.level { scale = 1 } + structural.irregular { scale = 1 }
    close(all_held:log_likelihood(y), all_held:fit(y).log_likelihood_at_fit, 1e-12)
  end)

  -- Of one step: a start elsewhere would not be at the top after it. In other units all is the same.
  it("begins where it is told to, and ends at the same place in any unit", function()
    pn.seed(4)
    local t = pn.arange(60)
    local y = (t * (2 * math.pi / 11)):sin() * 3 + pn.randn { 60 } * 0.5
    local model = structural.level {} + structural.cycle { start = 8, shortest = 4 } + structural.irregular {}
    local fit = model:fit(y)
    local at = {}
    for name, v in pairs(fit:parameters()) do at[name] = v:item() end
    local again = model:fit(y, { start = at, steps = 1 })
    assert.near(fit.log_likelihood_at_fit, again.log_likelihood_at_fit, 1e-5)
    at["level.scale"] = nil -- which is next to 0, and nothing hangs on
    for name, v in pairs(at) do assert.near(1, again:parameters()[name]:item() / v, 1e-3, name) end
    -- from afar the first turn ends by a coarse tolerance, and the second has what is left of the steps
    local two, far = structural.level {} + structural.irregular {}, { ["irregular.scale"] = 1e-2,
      ["level.scale"] = 1e-3 }
    local steps = two:fit(y, { start = far }).steps
    local broken_off = two:fit(y, { start = far, steps = steps - 1 })
    assert.same({ steps - 1, false }, { broken_off.steps, broken_off.converged })
    local small = model:fit(y * 1e-3)
    -- (one number of y goes to the level, which starts diffuse)
    assert.near(fit.log_likelihood_at_fit + 59 * math.log(1e3), small.log_likelihood_at_fit, 1e-4)
    for name, v in pairs(at) do
      assert.near(1, small:parameters()[name]:item() / (v * (name:find "scale" and 1e-3 or 1)), 1e-3, name)
    end
  end)

  it("has a cycle whose period is found", function()
    pn.seed(4)
    local t = pn.arange(200)
    local y = (t * (2 * math.pi / 17)):sin() * 3 + pn.randn { 200 } * 0.5
    local fit = (structural.level { scale = 0 } + structural.cycle { start = 12 } + structural.irregular {}):fit(y)
    local p = fit:parameters()
    close(p["cycle.period"], 17, 0.5, "period")
    assert(p["cycle.damping"]:item() > 0.95)
  end)

  it("has the scales of its components: of c' P c for the part c of the emission", function()
    pn.seed(8)
    local y = pn.randn { 30 }:cumsum(1)
    local model = structural.level { scale = 0.7 } + structural.seasonal { period = 4, scale = 0.3 }
      + structural.irregular { scale = 0.5 }
    local s = model:system(y)
    local smoothed, c = pn.smc.kalman.smooth(s, y:unsqueeze(-1), { first = "predicted" }), model:components(y)
    local emission = s.emission:reshape { s.emission:size(-1) }:totable()
    for name, from in pairs { level = 1, seasonal = 2 } do
      local to = name == "level" and 1 or #emission
      for t = 1, 30 do
        local mean, variance = 0, 0
        for i = from, to do
          mean = mean + emission[i] * smoothed.mean[t][i]:item()
          for j = from, to do variance = variance + emission[i] * emission[j] * smoothed.cov[t][i][j]:item() end
        end
        assert.near(mean, c[name].mean[t]:item(), 1e-7)
        assert.near(variance ^ 0.5, c[name].scale[t]:item(), 1e-7)
      end
    end
  end)

  -- Of all components, each with its own parameters, two series, gaps and regressors.
  it("has the slopes of differences: likelihood, components and forecasts in all parameters", function()
    local g = pn.generator(9)
    local y = pn.randn({ 14, 2 }, { generator = g }):cumsum(1)
    y = pn.where(pn.rand({ 14, 2 }, { generator = g }):lt(0.15), pn.full({}, 0 / 0), y)
    local x, ahead = pn.randn({ 14, 1 }, { generator = g }), pn.randn({ 3, 1 }, { generator = g })
    local list = {}
    local function p(...)
      list[#list + 1] = pn.param(select("#", ...) > 1 and pn.tensor { ... } or pn.full({}, (...)))
      return list[#list]
    end
    local models = { structural.trend { scale = p(0.5), slope_scale = p(0.2) } + structural.arma { ar = p(0.5, -0.3),
      ma = p(0.4, 0.1), scale = p(0.7) } + structural.irregular { scale = p(0.4) },
      structural.level { scale = p(0.6) } + structural.seasonal { period = 3, scale = p(0.3) }
        + structural.cycle { period = p(5.5), damping = p(0.7), scale = p(0.4) }
        + structural.regression { x = x, scale = p(0.3) } + structural.irregular { scale = p(0.8) },
      structural.level { scale = p(0.4) } + structural.seasonal { period = 4, scale = p(0.2), form = "trigonometric" }
        + structural.arma { ma = { 0.3 }, scale = p(0.5) } + structural.irregular { scale = p(0.3) } }
    assert(pn.check_gradients(function()
      local sum = 0
      for k, m in ipairs(models) do
        local inputs = k == 2 and { inputs = { regression = ahead } } or nil
        local f, c = m:forecast(y, 3, inputs), m:components(y)
        sum = sum + m:log_likelihood(y)[1] + m:log_likelihood(y)[2] * 2 + f.mean:sin():sum() + f.scale:cos():sum()
        for name, part in pairs(c) do
          sum = sum + (name ~= "irregular" and part.mean or part.scale):sin():sum() + part.scale:cos():sum()
        end
      end
      return sum
    end, list))
  end)

  -- The tolerance is of the value at the end, however far below the start that is; without one the fit ends, too.
  it("ends where no slope is above the tolerance", function()
    local g = pn.generator(1)
    local y = pn.randn({ 60 }, { generator = g }):cumsum(1) * 20 + pn.randn({ 60 }, { generator = g }) * 30
    local model = structural.level {} + structural.irregular {}
    local last = model:fit(y, { tolerance = 0 })
    assert(last.converged and last.steps < 200)
    for _, far in ipairs { 0.1, 1 } do
      local fit = model:fit(y, { start = { ["level.scale"] = far, ["irregular.scale"] = far } })
      local at = { ["level.scale"] = pn.param(fit:parameters()["level.scale"]),
        ["irregular.scale"] = pn.param(fit:parameters()["irregular.scale"]) }
      assert(fit.converged)
      assert.near(last.log_likelihood_at_fit, fit.log_likelihood_at_fit, 1e-6)
      local list = { at["level.scale"], at["irregular.scale"] }
      for k, slope in ipairs(pn.grad(model:log_likelihood(y, at), list)) do
        assert((slope * list[k]):abs():item() <= 1e-6 * math.abs(fit.log_likelihood_at_fit))
      end
    end
  end)

  it("lets coefficients walk", function()
    pn.seed(5)
    local x = pn.randn { 150, 1 }
    local beta = pn.linspace(-2, 2, 150)
    local y = x:squeeze(-1) * beta + pn.randn { 150 } * 0.3
    local fit = (structural.regression { x = x, scale = "estimated" } + structural.irregular {}):fit(y)
    local c = fit:components(y)
    assert((c.regression.mean - x:squeeze(-1) * beta):square():mean():item() < 0.05)
    local still = (structural.regression { x = x } + structural.irregular {}):fit(y)
    assert(fit.log_likelihood_at_fit > still.log_likelihood_at_fit + 10)
  end)

  it("has the stationary covariance and stationary, invertible coefficients", function()
    pn.seed(6)
    local y = pn.randn { 120 }
    local model = structural.arma { p = 3, q = 2 } + structural.irregular { scale = 0 }
    local fit = model:fit(y, { steps = 60 })
    local s = fit:system(y)
    close(s.initial_cov, s.transition:matmul(s.initial_cov):matmul(s.transition:t()) + s.transition_cov, 1e-10)
    local power = s.transition
    for _ = 1, 16 do power = power:matmul(power) end
    assert(power:abs():max():item() < 1)
  end)

  -- 1 - 1.2 z + 0.5 z^2 has its roots outside of the unit circle; 1 + 1.2 z - 0.5 z^2 has not.
  it("finds an invertible moving average, of more likelihood than the truth's", function()
    pn.seed(7)
    local e = pn.randn { 202 }
    local y = e:slice(1, 3, 202) - e:slice(1, 2, 201) * 1.2 + e:slice(1, 1, 200) * 0.5
    local fit = (structural.arma { q = 2 } + structural.irregular { scale = 0 }):fit(y)
    local truth = structural.arma { ma = { -1.2, 0.5 }, scale = 1 } + structural.irregular { scale = 0 }
    assert.is_true(fit.log_likelihood_at_fit > truth:log_likelihood(y):item())
    close(fit:parameters()["arma.ma"], pn.tensor { -1.2, 0.5 }, 0.25)
  end)

  it("says what is wrong", function()
    local y = pn.randn { 30 }
    local level = structural.level {}
    assert.error_matches(function() return level + level end, "two components are called 'level'")
    assert.error_matches(function() return level + 1 end, "only components can be added, got a number")
    assert.error_matches(function() level:log_likelihood(y) end, "level.scale has no value")
    assert.error_matches(function() level:log_likelihood(y, { ["levl.scale"] = 1 }) end, "did you mean 'level.scale'")
    assert.error_matches(function() structural.level { scale = -1 } end, "scale must not be negative, got %-1")
    assert.error_matches(function() structural.seasonal {} end, "'period' is required")
    assert.error_matches(function() structural.seasonal { period = 4, harmonics = 3, form = "trigonometric" } end,
      "harmonics must be at most 2")
    assert.error_matches(function() structural.arma {} end, "needs p or q")
    assert.error_matches(function() structural.cycle { damping = 1 } end, "damping must be from 0 to below 1")
    assert.error_matches(function() structural.irregular {}:fit(y) end, "no component beside the irregular one")
    assert.error_matches(function() level:fit(pn.ones { 5 }) end, "at least two different values")
    local x = structural.regression { x = pn.ones { 30, 2 } }
    for pattern, f in pairs {
      ["the regressors of regression must be %[30, 2%], got %[29, 2%]"] = function()
        return (structural.regression { x = pn.ones { 29, 2 } } + level):fit(y)
      end,
      ["forecast: the regressors of regression must be %[3, 2%], got %[3, 1%]"] = function()
        return (structural.level { scale = 1 } + x + structural.irregular { scale = 1 }):forecast(y, 3,
          { inputs = { regression = pn.ones { 3, 1 } } })
      end,
      ["component regression needs inputs = {regression = %[3, 2%]}"] = function()
        return (structural.level { scale = 1 } + x + structural.irregular { scale = 1 }):forecast(y, 3)
      end,
      ["inputs: there is no regression 'level'"] = function()
        return (level + structural.irregular { scale = 1 }):forecast(y, 3, { inputs = { level = y } })
      end,
      ["future is called inputs"] = function() return level:forecast(y, 3, { future = {} }) end,
      ["steps must be a whole number from 1"] = function() return level:forecast(y, 0) end,
      ["fit: steps must be a whole number from 1"] = function() return level:fit(y, { steps = 0 }) end,
      ["there is no parameter 'levl.scale', did you mean 'level.scale'"] = function()
        return level:fit(y, { start = { ["levl.scale"] = 1 } })
      end,
      ["y must be %[T%] or %[T, B...%]"] = function() return level:fit(pn.full({}, 3)) end,
      ["harmonics belong to form = 'trigonometric'"] = function()
        return structural.seasonal { period = 4, harmonics = 2 }
      end,
      ["period must be a whole number from 2"] = function() return structural.seasonal { period = 1 } end,
      ["period must be at least 2, got 1.5"] = function()
        return structural.seasonal { period = 1.5, form = "trigonometric" }
      end,
      ["shortest must be at least 2 steps, got 1.9"] = function() return structural.cycle { shortest = 1.9 } end,
      ["period must be from 2 to below inf, got 1.5"] = function() return structural.cycle { period = 1.5 } end,
      ["damping must be from 0 to below 1, got %-0.1"] = function() return structural.cycle { damping = -0.1 } end,
      ["x must be %[T, k%], got %[4%]"] = function() return structural.regression { x = pn.ones { 4 } } end,
      ["x must be %[T, k%], got %[2, 1, 3%]"] = function() return structural.regression { x = pn.ones { 2, 1, 3 } } end,
      ["ar must have p = 2 coefficients, got 1"] = function() return structural.arma { p = 2, ar = { 0.5 } } end,
      ["ma must have q = 1 coefficients, got 2"] = function() return structural.arma { q = 1, ma = { 0.5, 0.1 } } end,
      ["ma must be a list of coefficients"] = function() return structural.arma { ma = pn.ones { 2, 1 } } end,
      ["slope_scale must not be negative, got %-1"] = function() return structural.trend { slope_scale = -1 } end,
    } do
      assert.error_matches(f, pattern)
    end
    -- at the bounds themselves
    for _, made in ipairs { structural.seasonal { period = 2, scale = 0 },
      structural.cycle { period = 2, damping = 0, shortest = 2, scale = 1 },
      structural.seasonal { period = 2, form = "trigonometric", harmonics = 1, scale = 0 } } do
      local model = made + structural.irregular { scale = 1 }
      assert(model:log_likelihood(y):item() < 0)
    end
  end)
end)
