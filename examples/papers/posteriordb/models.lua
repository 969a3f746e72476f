--- The posteriors of posteriordb as models: for each its name, the arguments made from its data file, the model, and
--- how the rows of its reference table are called here. `generate` makes data of the same form where the files are
--- absent.
local pn = require "penumbra"
local dist = pn.dist

local list = {}

local function add(entry)
  list[#list + 1] = entry
  list[entry.name] = entry
end

-- ---- linear regressions ----

local function columns(...)
  local parts = {}
  for k, column in ipairs { ... } do
    parts[k] = pn.is_tensor(column) and column or pn.tensor(column)
  end
  return pn.stack(parts, 2)
end

local function ones(n) return pn.ones { n } end
local function log_of(values) return pn.tensor(values):log() end

-- y = X beta + noise, beta without a prior; `sigma` says what is known of the noise.
local function flat_regression(noise_scale)
  return pn.model(function(m, x, y)
    local beta = m:flat("beta", "real", { x:size(2) })
    local sigma = noise_scale and m:sample("sigma", dist.half_cauchy(noise_scale)) or m:flat("sigma", "positive")
    m:plate("rows", x:size(1), function()
      m:observe("y", dist.normal(x:matmul(beta), sigma), y)
    end)
  end)
end

local function random_columns(n, k, means, scales)
  local parts = {}
  for j = 1, k do
    parts[j] = pn.randn { n } * (scales and scales[j] or 1) + (means and means[j] or 0)
  end
  return parts
end

local function noisy(columns_of_x, beta, sigma)
  local y = pn.randn { columns_of_x[1]:size(1) } * sigma
  for j, x in ipairs(columns_of_x) do
    y = y + x * beta[j]
  end
  return y
end

add {
  name = "kidiq-kidscore_momiq",
  arguments = function(d) return { columns(ones(d.N), d.mom_iq), pn.tensor(d.kid_score) } end,
  generate = function()
    local iq = pn.randn { 200 } * 15 + 100
    return { N = 200, mom_iq = iq:totable(), kid_score = noisy({ ones(200), iq }, { 26, 0.6 }, 18):totable() }
  end,
  model = flat_regression(2.5),
}

add {
  name = "kidiq-kidscore_interaction",
  arguments = function(d)
    local hs, iq = pn.tensor(d.mom_hs), pn.tensor(d.mom_iq)
    return { columns(ones(d.N), hs, iq, hs * iq), pn.tensor(d.kid_score) }
  end,
  generate = function()
    local hs, iq = pn.rand({ 200 }):gt(0.3):to "float64", pn.randn { 200 } * 15 + 100
    return { N = 200, mom_hs = hs:totable(), mom_iq = iq:totable(),
      kid_score = noisy({ ones(200), hs, iq, hs * iq }, { -11, 51, 1.1, -0.5 }, 18):totable() }
  end,
  model = flat_regression(2.5),
}

add {
  name = "earnings-logearn_height",
  arguments = function(d) return { columns(ones(d.N), d.height), log_of(d.earn) } end,
  generate = function()
    local height = pn.randn { 200 } * 4 + 67
    return { N = 200, height = height:totable(),
      earn = noisy({ ones(200), height }, { 5.8, 0.06 }, 0.9):exp():totable() }
  end,
  model = flat_regression(),
}

add {
  name = "mesquite-logmesquite",
  arguments = function(d)
    return { columns(ones(d.N), log_of(d.diam1), log_of(d.diam2), log_of(d.canopy_height), log_of(d.total_height),
      log_of(d.density), d.group), log_of(d.weight) }
  end,
  generate = function()
    local x = random_columns(46, 5, nil, { 0.4, 0.4, 0.3, 0.3, 0.6 })
    local group = pn.rand({ 46 }):gt(0.5):to "float64"
    local y = noisy({ ones(46), x[1], x[2], x[3], x[4], x[5], group }, { 4.8, 0.4, 1.1, 0.4, 0.4, 0.1, 0.6 }, 0.3)
    local d = { N = 46, group = group:totable(), weight = y:exp():totable() }
    for k, name in ipairs { "diam1", "diam2", "canopy_height", "total_height", "density" } do
      d[name] = x[k]:exp():totable()
    end
    return d
  end,
  model = flat_regression(),
}

add {
  name = "nes1980-nes",
  arguments = function(d)
    local age = pn.tensor(d.age_discrete)
    local function is(k) return age:eq(k):to "float64" end
    return { columns(ones(d.N), d.real_ideo, d.race_adj, is(2), is(3), is(4), d.educ1, d.gender, d.income),
      pn.tensor(d.partyid7) }
  end,
  generate = function()
    local function among(n) return pn.randint(1, n + 1, 300):to("float64") end
    local d = { N = 300, age_discrete = among(4), real_ideo = among(7), race_adj = among(2), educ1 = among(4),
      gender = among(2), income = among(5) }
    d.partyid7 = noisy({ ones(300), d.real_ideo, d.race_adj, d.educ1 }, { 1.8, 0.5, -1, 0.3 }, 1.8)
    for name, t in pairs(d) do
      d[name] = pn.is_tensor(t) and t:totable() or t
    end
    return d
  end,
  model = flat_regression(),
}

add {
  name = "sblrc-blr",
  arguments = function(d) return { pn.tensor(d.X), pn.tensor(d.y) } end,
  generate = function()
    local x = random_columns(100, 5, nil, { 100, 100, 100, 100, 100 })
    return { X = pn.stack(x, 2):totable(), y = noisy(x, { 1, 1, 1, 1, 1 }, 1):totable() }
  end,
  model = pn.model(function(m, x, y)
    local beta = m:sample("beta", dist.normal(pn.zeros { 5 }, 10):independent(1))
    local sigma = m:sample("sigma", dist.half_normal(10))
    m:plate("rows", x:size(1), function()
      m:observe("y", dist.normal(x:matmul(beta), sigma), y)
    end)
  end),
}

add {
  name = "diamonds-diamonds",
  arguments = function(d)
    local x = pn.tensor(d.X)
    x = x:slice(2, 2, x:size(2))
    return { (x - x:mean(1, true)):contiguous(), pn.tensor(d.Y) }
  end,
  generate = function()
    local x = random_columns(300, 24)
    x[2] = x[1] * 0.9 + x[2] * 0.4
    table.insert(x, 1, ones(300))
    local beta = {}
    for k = 1, 25 do
      beta[k] = k == 1 and 8 or 1 / k
    end
    return { X = pn.stack(x, 2):totable(), Y = noisy(x, beta, 0.15):totable() }
  end,
  -- the sum of squared residuals from sums over the rows: S(b, a) = Y'Y - 2 b'X'Y + b'X'X b - 2 a sum(Y) + N a^2, with
  -- Y and the columns of X around their means
  model = pn.model(function(m, x, y)
    local n = x:size(1)
    local mean = y:mean()
    local yc = y - mean
    local xx, xy, yy = x:t():matmul(x), x:t():matmul(yc), (yc * yc):sum()
    local b = m:sample("b", dist.normal(pn.zeros { x:size(2) }, 1):independent(1))
    local intercept = m:sample("Intercept", dist.student_t(3, 8, 10))
    local sigma = m:sample("sigma", dist.student_t(3, 0, 10), { constraint = "positive" })
    local squares = yy - (b * xy):sum() * 2 + (b * xx:matmul(b)):sum() + (intercept - mean):square() * n
    m:factor("y", -n * sigma:log() - squares / (sigma * sigma * 2))
  end),
  settings = { target_accept = 0.9 },
}

add {
  name = "kilpisjarvi_mod-kilpisjarvi",
  arguments = function(d)
    return { pn.tensor(d.x), pn.tensor(d.y), d.pmualpha, d.psalpha, d.pmubeta, d.psbeta }
  end,
  generate = function()
    local x = pn.arange(62) + 3952
    return { x = x:totable(), y = noisy({ ones(62), x }, { -70, 0.02 }, 1.1):totable(), pmualpha = 9.3129,
      psalpha = 100,
      pmubeta = 0, psbeta = 1 / 30 }
  end,
  model = pn.model(function(m, x, y, alpha_loc, alpha_scale, beta_loc, beta_scale)
    local alpha = m:sample("alpha", dist.normal(alpha_loc, alpha_scale))
    local beta = m:sample("beta", dist.normal(beta_loc, beta_scale))
    local sigma = m:flat("sigma", "positive")
    m:plate("years", x:size(1), function()
      m:observe("y", dist.normal(alpha + beta * x, sigma), y)
    end)
  end),
}

-- ---- series ----

add {
  name = "arK-arK",
  arguments = function(d)
    local y, lags = pn.tensor(d.y), {}
    for k = 1, d.K do
      lags[k] = y:slice(1, d.K + 1 - k, d.T - k)
    end
    return { pn.stack(lags, 2), y:slice(1, d.K + 1, d.T) }
  end,
  generate = function()
    local y, noise = { 0.7, 0.8, 0.7, 0.9, 0.8 }, pn.randn(200):totable()
    for t = 6, 200 do
      y[t] = 0.7 * y[t - 1] + 0.2 * y[t - 5] + 0.15 * noise[t]
    end
    return { K = 5, T = 200, y = y }
  end,
  model = pn.model(function(m, lags, y)
    local alpha = m:sample("alpha", dist.normal(0, 10))
    local beta = m:sample("beta", dist.normal(pn.zeros { lags:size(2) }, 10):independent(1))
    local sigma = m:sample("sigma", dist.half_cauchy(2.5))
    m:plate("time", y:size(1), function()
      m:observe("y", dist.normal(alpha + lags:matmul(beta), sigma), y)
    end)
  end),
}

add {
  name = "garch-garch11",
  arguments = function(d) return { pn.tensor(d.y), d.sigma1 } end,
  generate = function()
    local y, h, noise = {}, 0.25, pn.randn(200):totable()
    for t = 1, 200 do
      y[t] = 5 + math.sqrt(h) * noise[t]
      h = 1.5 + 0.5 * (y[t] - 5) ^ 2 + 0.2 * h
    end
    return { y = y, sigma1 = 0.5 }
  end,
  model = pn.model(function(m, y, sigma1)
    local mu = m:flat("mu")
    local alpha0 = m:flat("alpha0", "positive")
    local alpha1 = m:flat("alpha1", "unit_interval")
    local beta1 = m:flat("beta1", "interval", {}, { low = pn.tensor(0), high = 1 - alpha1 })
    local n, shocks = y:size(1), alpha0 + alpha1 * (y - mu):square()
    local variances = { pn.full({}, sigma1 ^ 2) }
    m:scan("time", n - 1, variances[1], function(h, t)
      variances[t + 1] = shocks[t] + beta1 * h
      return variances[t + 1]
    end)
    m:plate("times", n, function()
      m:observe("y", dist.normal(mu, pn.stack(variances, 1):sqrt()), y)
    end)
  end),
}

-- log of the product of the matrices exp(a[t]), a [T, K, K], pair by pair: [K, K]
local function log_product(a)
  while a:size(1) > 1 do
    local n = a:size(1) // 2
    local left = a:slice(1, 1, 2 * n):reshape { n, 2, a:size(2), a:size(3) }
    local pair = (left:select(2, 1):unsqueeze(4) + left:select(2, 2):unsqueeze(2)):logsumexp(3)
    a = a:size(1) % 2 == 0 and pair or pn.concatenate({ pair, a:slice(1, 2 * n + 1, 2 * n + 1) }, 1)
  end
  return a[1]
end

add {
  name = "bball_drive_event_0-hmm_drive_0",
  arguments = function(d) return { pn.tensor(d.u), pn.tensor(d.v), pn.tensor(d.alpha) } end,
  generate = function()
    local state, u, v = 1, {}, {}
    local r = pn.rand(600):totable()
    for t = 1, 200 do
      state = r[t] < 0.1 and 3 - state or state
      u[t] = -math.log(r[200 + t]) / (state == 1 and 0.5 or 3)
      v[t] = -math.log(r[400 + t]) / (state == 1 and 0.2 or 2)
    end
    return { u = u, v = v, alpha = { { 4, 2 }, { 2, 4 } } }
  end,
  model = pn.model(function(m, u, v, alpha)
    local positive_ordered = dist.bijector.chain { dist.biject_to "ordered_vector", dist.bijector.exp() }
    local theta1 = m:sample("theta1", dist.dirichlet(alpha[1]))
    local theta2 = m:sample("theta2", dist.dirichlet(alpha[2]))
    local prior = dist.normal(pn.tensor { 0, 3 }, 1):independent(1)
    local phi = m:sample("phi", prior, { constraint = positive_ordered })
    local lambda = m:sample("lambda", prior, { constraint = positive_ordered })
    local emission = dist.exponential(phi):log_prob(u:unsqueeze(2):broadcast_to { u:size(1), 2 })
      + dist.exponential(lambda):log_prob(v:unsqueeze(2):broadcast_to { v:size(1), 2 })
    local transition = pn.stack({ theta1, theta2 }, 1):log()
    local rest = log_product(transition:unsqueeze(1) + emission:slice(1, 2, u:size(1)):unsqueeze(2))
    m:factor("path", (emission[1]:unsqueeze(2) + rest):reshape({ -1 }):logsumexp())
  end),
  settings = { init = { phi = pn.tensor { 0.5, 2 }, lambda = pn.tensor { 0.1, 2 }, theta1 = pn.tensor { 0.8, 0.2 },
    theta2 = pn.tensor { 0.2, 0.8 } } },
}

-- ---- hierarchies, mixtures, processes ----

add {
  name = "eight_schools-eight_schools_noncentered",
  arguments = function(d) return { pn.tensor(d.y), pn.tensor(d.sigma) } end,
  generate = function()
    return { y = { 28, 8, -3, 7, -1, 1, 18, 12 }, sigma = { 15, 10, 16, 11, 9, 11, 10, 18 } }
  end,
  model = pn.model(function(m, y, sigma)
    local mu = m:sample("mu", dist.normal(0, 5))
    local tau = m:sample("tau", dist.half_cauchy(5))
    m:plate("schools", y:size(1), function()
      local theta = m:deterministic("theta", mu + tau * m:sample("eta", dist.normal(0, 1)))
      m:observe("y", dist.normal(theta, sigma), y)
    end)
  end),
}

add {
  name = "low_dim_gauss_mix-low_dim_gauss_mix",
  arguments = function(d) return { pn.tensor(d.y) } end,
  generate = function()
    return { y = pn.concatenate({ pn.randn { 180 } * 0.9 - 2.7, pn.randn { 120 } + 2.9 }, 1):totable() }
  end,
  model = pn.model(function(m, y)
    local mu = m:sample("mu", dist.normal(pn.zeros { 2 }, 2):independent(1), { constraint = "ordered_vector" })
    local sigma = m:sample("sigma", dist.half_normal(pn.full({ 2 }, 2)):independent(1))
    local theta = m:sample("theta", dist.beta(5, 5))
    m:plate("rows", y:size(1), function()
      m:observe("y", dist.mixture(pn.stack({ theta, 1 - theta }, 1), dist.normal(mu, sigma)), y)
    end)
  end),
}

-- alpha^2 exp(-(x_i - x_j)^2 / (2 rho^2))
local function kernel(x, rho, alpha)
  local apart = (x:unsqueeze(2) - x:unsqueeze(1)):square()
  return (apart / (rho * rho * -2)):exp() * (alpha * alpha)
end

local function process_data()
  local x = pn.arange(11) * 2 - 10
  return { x = x:totable(), y = ((x * 0.3):sin() * 2 + 3 + pn.randn { 11 } * 0.3):totable(),
    k = dist.poisson(((x * 0.3):sin() + 2):exp()):sample():totable() }
end

add {
  name = "gp_pois_regr-gp_regr",
  arguments = function(d) return { pn.tensor(d.x), pn.tensor(d.y) } end,
  generate = process_data,
  model = pn.model(function(m, x, y)
    local rho = m:sample("rho", dist.gamma(25, 4))
    local alpha = m:sample("alpha", dist.half_normal(2))
    local sigma = m:sample("sigma", dist.half_normal(1)) -- the variance of the noise
    local covariance = kernel(x, rho, alpha) + sigma * pn.eye(x:size(1))
    m:observe("y", dist.multivariate_normal { loc = pn.zeros { x:size(1) }, covariance_matrix = covariance }, y)
  end),
}

add {
  name = "gp_pois_regr-gp_pois_regr",
  arguments = function(d) return { pn.tensor(d.x), pn.tensor(d.k) } end,
  generate = process_data,
  model = pn.model(function(m, x, counts)
    local n = x:size(1)
    local rho = m:sample("rho", dist.gamma(25, 4))
    local alpha = m:sample("alpha", dist.half_normal(2))
    local z = m:sample("z", dist.normal(pn.zeros { n }, 1):independent(1))
    local factor = (kernel(x, rho, alpha) + pn.eye(n) * 1e-10):cholesky()
    local f = m:deterministic("f", factor:matmul(z))
    m:plate("inputs", n, function()
      m:observe("k", dist.poisson(f:exp()), counts)
    end)
  end),
}

-- ---- differential equations ----

-- Prey u and predators v, z = (u, v): du/dt = (theta1 - theta2 v) u, dv/dt = (theta4 u - theta3) v.
local function lotka_volterra(_, z, own, other)
  return z * (own + other * z:flip(1))
end

local function populations(theta, z_init, times)
  local rates = theta:reshape { 2, 2 } * pn.tensor { { 1, -1 }, { -1, 1 } }
  return pn.odeint(lotka_volterra, z_init, times, { parameters = { rates:select(2, 1), rates:select(2, 2) } })
end

add {
  name = "hudson_lynx_hare-lotka_volterra",
  arguments = function(d)
    local times, y = { 0 }, { d.y_init }
    for k, t in ipairs(d.ts) do
      times[k + 1], y[k + 1] = t, d.y[k]
    end
    return { pn.tensor(times), pn.tensor(y) }
  end,
  generate = function()
    local times = pn.arange(21):to "float64"
    local z = populations(pn.tensor { 0.55, 0.028, 0.8, 0.024 }, pn.tensor { 34, 6 }, times)
    local y = z * (pn.randn { 21, 2 } * 0.25):exp()
    return { ts = times:slice(1, 2, 21):totable(), y_init = y[1]:totable(), y = y:slice(1, 2, 21):totable() }
  end,
  model = pn.model(function(m, times, y)
    local law = dist.normal(pn.tensor { 1, 0.05, 1, 0.05 }, pn.tensor { 0.5, 0.05, 0.5, 0.05 }):independent(1)
    local theta = m:sample("theta", law, { constraint = "positive" })
    local z_init = m:sample("z_init", dist.log_normal(pn.full({ 2 }, math.log(10)), 1):independent(1))
    local sigma = m:sample("sigma", dist.log_normal(pn.full({ 2 }, -1), 1):independent(1))
    local z = populations(theta, z_init, times)
    m:observe("y", dist.log_normal(z:log(), sigma):independent(2), y)
  end),
  settings = { init = { theta = pn.tensor { 0.5, 0.03, 0.8, 0.03 }, z_init = pn.tensor { 30, 4 },
    sigma = pn.tensor { 0.3, 0.3 } } },
}

add {
  name = "one_comp_mm_elim_abs-one_comp_mm_elim_abs",
  arguments = function(d) return { pn.tensor { d.t0, table.unpack(d.times) }, pn.tensor(d.C_hat), d.D, d.V } end,
  generate = function()
    local c = (1 - (pn.arange(1, 21) * -0.5):exp()) * 12
    return { t0 = 0, D = 30, V = 2, times = (pn.arange(1, 21) * 0.5):totable(),
      C_hat = (c * (pn.randn { 20 } * 0.1):exp()):totable() }
  end,
  -- dC/dt = (D k_a / V) exp(-k_a t) - (V_m / V) C / (K_m + C), C(0) = 0
  model = pn.model(function(m, times, seen, dose, volume)
    local prior = dist.half_cauchy(1)
    local k_a, K_m, V_m = m:sample("k_a", prior), m:sample("K_m", prior), m:sample("V_m", prior)
    local sigma = m:sample("sigma", prior)
    m:deterministic("log_K_m", K_m:log())
    m:deterministic("log_V_m", V_m:log())
    local c = pn.odeint(function(t, c, ka, km, vm)
      return ka * (-ka * t):exp() * (dose / volume) - vm * c / (km + c) / volume
    end, pn.tensor { 0 }, times, { parameters = { k_a, K_m, V_m } }):slice(1, 2, times:size(1)):reshape { -1 }
    m:plate("times", seen:size(1), function()
      m:observe("C_hat", dist.log_normal(c:log(), sigma), seen)
    end)
  end),
  settings = { target_accept = 0.98, draws = 5000 },
  -- K_m and V_m have no variance: their logarithms are compared (mean, standard deviation, mcse of the mean over the
  -- reference draws, from the posterior's description)
  logarithms = { K_m = { mean = -0.072931, sd = 1.42959, mcse = 0.014794 },
    V_m = { mean = -0.074970, sd = 0.290170, mcse = 0.0029513 } },
}

return list
