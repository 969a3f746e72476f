--- Exact answers for small switching linear Gaussian systems, in plain numbers: every path of a discrete switch is
--- enumerated, and what is jointly Gaussian is written as linear forms in independent noises. Nothing here uses the
--- library.
local oracle = {}

local LOG_2_PI = math.log(2 * math.pi)

local function normal_log_density(v, variance)
  return -0.5 * (LOG_2_PI + math.log(variance) + v * v / variance)
end

function oracle.logsumexp(list)
  local most, sum = -math.huge, 0
  for _, v in ipairs(list) do most = math.max(most, v) end
  for _, v in ipairs(list) do sum = sum + math.exp(v - most) end
  return most + math.log(sum)
end

-- ---- a discrete switch: x' = a[s] x + N(0, q[s]), y = c[s] x' + N(0, r[s]), x_0 ~ N(mean, cov), s_1 ~ first ----

-- Filter and Rauch-Tung-Striebel smoother of one path of the switch; y[t] may be NaN (not observed).
local function along(m, y, path)
  local mean, cov, total = m.mean, m.cov, 0
  local filtered, predicted = { [0] = { mean, cov } }, {}
  for t, s in ipairs(path) do
    mean, cov = m.a[s] * mean, m.a[s] ^ 2 * cov + m.q[s]
    predicted[t] = { mean, cov }
    if y[t] == y[t] then
      local variance = m.c[s] ^ 2 * cov + m.r[s]
      local gain, v = cov * m.c[s] / variance, y[t] - m.c[s] * mean
      total = total + normal_log_density(v, variance)
      mean, cov = mean + gain * v, cov - gain * m.c[s] * cov
    end
    filtered[t] = { mean, cov }
  end
  local smoothed = { [#path] = filtered[#path] }
  for t = #path - 1, 0, -1 do
    local f, p, later = filtered[t], predicted[t + 1], smoothed[t + 1]
    local gain = f[2] * m.a[path[t + 1]] / p[2]
    smoothed[t] = { f[1] + gain * (later[1] - p[1]), f[2] + gain ^ 2 * (later[2] - p[2]) }
  end
  return total, filtered[#path], smoothed
end

local function mixture(weights, parts)
  local mean, second = 0, 0
  for k, w in ipairs(weights) do
    mean = mean + w * parts[k][1]
    second = second + w * (parts[k][2] + parts[k][1] ^ 2)
  end
  return { mean, second - mean ^ 2 }
end

--- All paths of the switch: log evidence; mean of the log likelihood over paths of the prior (what one particle gives
--- in expectation); mean, variance of the last state; probabilities[t][s], smoothed[t] = {mean, variance} given all y.
function oracle.enumerate(m, y)
  local paths, num, steps = { { path = {}, log_prior = 0 } }, #m.first, #y
  for t = 1, steps do
    local longer = {}
    for _, one in ipairs(paths) do
      for s = 1, num do
        local p = t == 1 and m.first[s] or m.transition[one.path[t - 1]][s]
        local path = table.move(one.path, 1, t - 1, 1, {})
        path[t] = s
        longer[#longer + 1] = { path = path, log_prior = one.log_prior + math.log(p) }
      end
    end
    paths = longer
  end
  local joint, plain = {}, 0
  for k, one in ipairs(paths) do
    local total, last, smoothed = along(m, y, one.path)
    joint[k], one.last, one.smoothed = one.log_prior + total, last, smoothed
    plain = plain + math.exp(one.log_prior) * total
  end
  local evidence = oracle.logsumexp(joint)
  local weights, last, probabilities = {}, {}, {}
  for t = 1, steps do
    probabilities[t] = {}
    for s = 1, num do probabilities[t][s] = 0 end
  end
  for k, one in ipairs(paths) do
    weights[k], last[k] = math.exp(joint[k] - evidence), one.last
    for t, s in ipairs(one.path) do probabilities[t][s] = probabilities[t][s] + weights[k] end
  end
  local smoothed = {}
  for t = 0, steps do
    local parts = {}
    for k, one in ipairs(paths) do parts[k] = one.smoothed[t] end
    smoothed[t] = mixture(weights, parts)
  end
  local at_last = mixture(weights, last)
  return { evidence = evidence, one_particle = plain, mean = at_last[1], variance = at_last[2],
    probabilities = probabilities, smoothed = smoothed }
end

-- ---- linear forms in independent standard normal noises ----

local form = {}
form.__index = form
form.__add = function(x, y)
  if type(x) == "number" then x, y = y, x end
  local sum = setmetatable({ constant = x.constant }, form)
  for k, v in pairs(x) do sum[k] = v end
  if type(y) == "number" then
    sum.constant = x.constant + y
    return sum
  end
  for k, v in pairs(y) do sum[k] = (sum[k] or 0) + v end
  return sum
end
form.__mul = function(x, y)
  if type(x) == "number" then x, y = y, x end
  local scaled = setmetatable({}, form)
  for k, v in pairs(x) do scaled[k] = v * y end
  return scaled
end

local function noise(variance)
  return setmetatable({ constant = 0, [{}] = variance ^ 0.5 }, form)
end

local function covariance(x, y)
  local sum = 0
  for k, v in pairs(x) do sum = sum + (k ~= "constant" and v * (y[k] or 0) or 0) end
  return sum
end

-- The lower Cholesky factor of the covariance of forms, and the solution of L z = values - means.
local function whiten(forms, values)
  local l, z = {}, {}
  for i = 1, #forms do
    l[i] = {}
    for j = 1, i do
      local sum = covariance(forms[i], forms[j])
      for k = 1, j - 1 do sum = sum - l[i][k] * l[j][k] end
      l[i][j] = i == j and sum ^ 0.5 or sum / l[j][j]
    end
    local sum = values[i] - forms[i].constant
    for k = 1, i - 1 do sum = sum - l[i][k] * z[k] end
    z[i] = sum / l[i][i]
  end
  return l, z
end

local function log_density(l, z)
  local sum = 0
  for i = 1, #z do sum = sum - 0.5 * (LOG_2_PI + z[i] ^ 2) - math.log(l[i][i]) end
  return sum
end

-- Mean and variance of form x given what l and z were made of.
local function given(x, forms, l, z)
  local mean, variance, w = x.constant, covariance(x, x), {}
  for i = 1, #forms do
    local sum = covariance(x, forms[i])
    for k = 1, i - 1 do sum = sum - l[i][k] * w[k] end
    w[i] = sum / l[i][i]
    mean, variance = mean + w[i] * z[i], variance - w[i] ^ 2
  end
  return { mean, variance }
end

-- ---- a Gaussian switch: s_1 ~ N(0, first), s' = f x + g s + N(0, noise), x' = a x + b s' + N(0, q), y = x' + N(0, r)
-- (links[t], where given, is the f that leads to s_t)

--- The joint law as it is stated: log evidence, mean and variance of the last x, switches[t] and smoothed[t] = {mean,
--- variance} of s_t and x_t given all y.
function oracle.recurrent(m, y)
  local x, s, xs, ss, ys = noise(m.cov) + m.mean, nil, {}, {}, {}
  for t = 1, #y do
    s = t == 1 and noise(m.first) or (m.links and m.links[t] or m.f) * x + m.g * s + noise(m.noise)
    x = m.a * x + m.b * s + noise(m.q)
    xs[t], ss[t], ys[t] = x, s, x + noise(m.r)
  end
  local l, z = whiten(ys, y)
  local out = { evidence = log_density(l, z), switches = {}, smoothed = {} }
  for t = 1, #y do
    out.switches[t], out.smoothed[t] = given(ss[t], ys, l, z), given(xs[t], ys, l, z)
  end
  out.mean, out.variance = out.smoothed[#y][1], out.smoothed[#y][2]
  return out
end

--- What a filter converges to that does not condition x on the s' which depends on it: there s' ~ N(f mean + g s,
--- f^2 cov + noise) given the past, mean and cov the moments of x before s' was known. The moments' errors are
--- independent of all that, so (s, y) stay jointly Gaussian in the innovations.
function oracle.published(m, y)
  local mean, cov, s, ys = noise(0) + m.mean, m.cov, nil, {}
  for t = 1, #y do
    s = t == 1 and noise(m.first) or m.f * mean + m.g * s + noise(m.f ^ 2 * cov + m.noise)
    mean, cov = m.a * mean + m.b * s, m.a ^ 2 * cov + m.q
    local innovation = noise(cov + m.r)
    local gain = cov / (cov + m.r)
    ys[t] = mean + innovation
    mean, cov = mean + gain * innovation, cov - gain * cov
  end
  local l, z = whiten(ys, y)
  local at = given(mean, ys, l, z)
  return { evidence = log_density(l, z), mean = at[1], variance = at[2] + cov }
end

return oracle
