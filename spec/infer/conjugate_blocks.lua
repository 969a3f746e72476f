--- Random models whose posteriors are known: trees of normals, rates of counts and of waiting times, precisions, shares
--- of trials and of labels, regressions with known noise, with plates and groups of unequal sizes. Each block says in
--- plain numbers what its posterior is: it uses neither the densities nor the linear algebra of the library (only the
--- gamma function's logarithm, and the distribution functions of marginals).
local pn = require "penumbra"
local dist = pn.dist

local blocks = {}

local function lgamma(x) return pn.tensor(x + 0.0):lgamma():item() end

-- ---- matrices as lists of rows ----

-- Lower L with L L^T = a.
local function cholesky(a)
  local l = {}
  for i = 1, #a do
    l[i] = {}
    for j = 1, i do
      local sum = a[i][j]
      for k = 1, j - 1 do sum = sum - l[i][k] * l[j][k] end
      l[i][j] = i == j and math.sqrt(sum) or sum / l[j][j]
    end
  end
  return l
end

-- x with a x = b by the factor of a, and half the log determinant of a.
local function solved(l, b)
  local x, half = {}, 0
  for i = 1, #b do
    local sum = b[i]
    for k = 1, i - 1 do sum = sum - l[i][k] * x[k] end
    x[i], half = sum / l[i][i], half + math.log(l[i][i])
  end
  for i = #b, 1, -1 do
    for k = i + 1, #b do x[i] = x[i] - l[k][i] * x[k] end
    x[i] = x[i] / l[i][i]
  end
  return x, half
end

local function inverse(a)
  local l, columns = cholesky(a), {}
  for j = 1, #a do
    local unit = {}
    for i = 1, #a do unit[i] = i == j and 1 or 0 end
    columns[j] = solved(l, unit)
  end
  return columns -- symmetric
end

-- log N(d; 0, a^-1) of the precision a.
local function log_normal_density(d, precision)
  local total = -#d / 2 * math.log(2 * math.pi)
  local _, half = solved(cholesky(precision), d)
  for i = 1, #d do
    for j = 1, #d do total = total - d[i] * precision[i][j] * d[j] / 2 end
  end
  return total + half
end

--- gaussian(precision, shift, rows, y): of latent x with density proportional to exp(-x'Px/2 + shift'x) and numbers
--- y_i ~ N(row_i x + offset_i, sd_i) the posterior {mean, cov, precision} and log p(y).
local function gaussian(precision, shift, rows, y)
  local n, p, s = #shift, {}, {}
  for i = 1, n do
    p[i], s[i] = table.move(precision[i], 1, n, 1, {}), shift[i]
  end
  for k, row in ipairs(rows) do
    for i = 1, n do
      for j = 1, n do p[i][j] = p[i][j] + row[i] * row[j] / row.sd ^ 2 end
      s[i] = s[i] + row[i] * (y[k] - row.offset) / row.sd ^ 2
    end
  end
  local prior_cov, prior_mean = inverse(precision), solved(cholesky(precision), shift)
  -- y is normal with mean H m + offset and covariance H S H' + R
  local cov, away = {}, {}
  for k, row in ipairs(rows) do
    cov[k], away[k] = {}, y[k] - row.offset
    for i = 1, n do away[k] = away[k] - row[i] * prior_mean[i] end
    for l, other in ipairs(rows) do
      local sum = k == l and row.sd ^ 2 or 0
      for i = 1, n do
        for j = 1, n do sum = sum + row[i] * prior_cov[i][j] * other[j] end
      end
      cov[k][l] = sum
    end
  end
  return { mean = solved(cholesky(p), s), cov = inverse(p), precision = p,
    log_evidence = #rows > 0 and log_normal_density(away, inverse(cov)) or 0 }
end

-- ---- what blocks share ----

local function list_of(n, f)
  local list = {}
  for k = 1, n do list[k] = f(k) end
  return list
end

-- Numbers of rows of groups, unequal and some 0, and the group of each row.
local function groups_of(r, groups)
  local index = {}
  for g = 1, groups do
    for _ = 1, r.below(5) - (g > 1 and 1 or 0) do index[#index + 1] = g - 1 end
  end
  return pn.tensor(index, { dtype = "int64" }), index
end

local function normal_marginal(mean, variance) return { mean = mean, variance = variance, law = dist.normal(mean,
  math.sqrt(variance)) } end

local function gamma_marginal(a, b) return { mean = a / b, variance = a / b ^ 2, law = dist.gamma(a, b) } end

local function beta_marginal(a, b)
  return { mean = a / (a + b), variance = a * b / (a + b) ^ 2 / (a + b + 1), law = dist.beta(a, b) }
end

-- ---- blocks: {run = function(m, data), latent = {names}, exact = function(y) ...} ----
-- exact(y), y a table name -> list: {marginals, log_evidence, log_density = a function of a list of the latent numbers}

--- A tree of normal variables, some of them rows of a plate, with numbers hanging on them.
function blocks.tree(r, prefix)
  local nodes, latent, groups = {}, {}, r.below(3)
  for k = 1, 1 + r.below(4) do
    local parent = k > 1 and r.below(k - 1) or nil
    local plated = parent and nodes[parent].rows > 0 or k > 1 and r.chance(0.5)
    local node = { name = prefix .. "x" .. k, parent = parent, rows = plated and groups or 0, a = r.between(-1.5, 1.5),
      b = r.between(-1, 1), first = #latent, h = r.between(0.5, 2), offset = r.between(-1, 1) }
    local size = math.max(node.rows, 1)
    node.sd = list_of(size, function() return r.between(0.3, 2) end)
    if r.chance(0.6) or k == 1 then
      node.index, node.group = groups_of(r, size)
      node.noise = list_of(#node.group, function() return r.between(0.3, 2) end)
    end
    for i = 1, size do latent[#latent + 1] = { node.name, plated and i or nil, node = k } end
    nodes[k] = node
  end
  local function run(m, data)
    local values = {}
    for k, node in ipairs(nodes) do
      local loc = node.parent and values[node.parent] * node.a + node.b or pn.tensor(node.b)
      if node.rows > 0 then
        m:plate(node.name .. "_rows", node.rows, function()
          values[k] = m:sample(node.name, dist.normal(loc, pn.tensor(node.sd)))
        end)
      else
        values[k] = m:sample(node.name, dist.normal(loc, node.sd[1]))
      end
      if node.index then
        m:plate(node.name .. "_data", #node.group, function()
          local x = node.rows > 0 and values[k]:take(1, node.index) or values[k]
          m:observe(node.name .. "_y", dist.normal(x * node.h + node.offset, pn.tensor(node.noise)),
            data[node.name .. "_y"])
        end)
      end
    end
  end
  local function exact(y)
    local n, rows, seen = #latent, {}, {}
    local precision = list_of(n, function() return list_of(n, function() return 0 end) end)
    local shift = list_of(n, function() return 0 end)
    -- x_i - a x_p ~ N(b, sd): its square in precision and shift
    for i, entry in ipairs(latent) do
      local node = nodes[entry.node]
      local w = 1 / node.sd[entry[2] or 1] ^ 2
      local terms = { [i] = 1 }
      if node.parent then
        local up = nodes[node.parent]
        terms[up.first + (up.rows > 0 and entry[2] or 1)] = -node.a
      end
      for p, u in pairs(terms) do
        for q, v in pairs(terms) do precision[p][q] = precision[p][q] + u * v * w end
        shift[p] = shift[p] + u * node.b * w
      end
    end
    for _, node in ipairs(nodes) do
      for k, g in ipairs(node.group or {}) do
        local row = list_of(n, function() return 0 end)
        row[node.first + g + 1], row.sd, row.offset = node.h, node.noise[k], node.offset
        rows[#rows + 1], seen[#seen + 1] = row, y[node.name .. "_y"][k]
      end
    end
    return gaussian(precision, shift, rows, seen)
  end
  return { run = run, latent = latent, gaussian = exact }
end

--- Linear regression with known noise, unequal from row to row, and correlated weights.
function blocks.regression(r, prefix)
  local d, n, name, latent = r.below(3), r.below(8), prefix .. "w", {}
  local x = list_of(n, function() return list_of(d, function() return r.between(-2, 2) end) end)
  local noise = list_of(n, function() return r.between(0.3, 1.5) end)
  local mean = list_of(d, function() return r.between(-1, 1) end)
  local tril = list_of(d, function(i)
    return list_of(d, function(j) return i == j and r.between(0.5, 2) or j < i and r.between(-1, 1) or 0 end)
  end)
  for k = 1, d do latent[k] = { name, k } end
  local function run(m, data)
    local w = m:sample(name, dist.multivariate_normal { loc = pn.tensor(mean), scale_tril = pn.tensor(tril) })
    m:plate(prefix .. "rows", n, function()
      m:observe(prefix .. "y", dist.normal(pn.tensor(x):matmul(w), pn.tensor(noise)), data[prefix .. "y"])
    end)
  end
  local function exact(y)
    local cov, rows, shift = {}, {}, {}
    for i = 1, d do
      cov[i] = list_of(d, function(j)
        local sum = 0
        for k = 1, d do sum = sum + tril[i][k] * tril[j][k] end
        return sum
      end)
    end
    local precision = inverse(cov)
    for i = 1, d do
      shift[i] = 0
      for j = 1, d do shift[i] = shift[i] + precision[i][j] * mean[j] end
    end
    for k = 1, n do
      rows[k] = table.move(x[k], 1, d, 1, { sd = noise[k], offset = 0 })
    end
    return gaussian(precision, shift, rows, y[prefix .. "y"])
  end
  return { run = run, latent = latent, gaussian = exact }
end

-- A plate of groups, each with a latent number of its own, and one of data. law(): of the latent numbers [groups];
-- data_law(x, k): of the data given the number of each row's group. posterior(g, rows, y): the marginal of a group,
-- its log density as a function and its log evidence, from the places of its rows in y.
local function grouped(r, prefix, o)
  local groups, name, latent = r.below(3), prefix .. "r", {}
  local index, group = groups_of(r, groups)
  for g = 1, groups do latent[g] = { name, g } end
  local setting = o.setting(groups, group)
  local function run(m, data)
    local x
    m:plate(prefix .. "groups", groups, function() x = m:sample(name, o.law(setting)) end)
    m:plate(prefix .. "rows", #group, function()
      m:observe(prefix .. "y", o.data_law(x:take(1, index), setting), data[prefix .. "y"])
    end)
  end
  local function exact(y)
    local marginals, evidence, densities = {}, 0, {}
    for g = 1, groups do
      local rows = {}
      for k, of in ipairs(group) do rows[#rows + 1] = of == g - 1 and k or nil end
      local more
      marginals[g], densities[g], more = o.posterior(setting, g, rows, y[prefix .. "y"])
      evidence = evidence + more
    end
    return { marginals = marginals, log_evidence = evidence, log_density = function(x)
      local sum = 0
      for g = 1, groups do sum = sum + densities[g](x[g]) end
      return sum
    end }
  end
  return { run = run, latent = latent, exact = exact }
end

local function log_gamma_density(a, b)
  return function(x) return a * math.log(b) - lgamma(a) + (a - 1) * math.log(x) - b * x end
end

-- Gamma priors of groups: taken(setting, k, y) gives what a datum adds to both parameters, and to the logarithm of what
-- of the likelihood is no power of x or exp(x): log evidence = log Z(posterior) - log Z(prior) + the sum of that.
local function gamma_block(r, prefix, setting, data_law, taken)
  return grouped(r, prefix, { setting = function(groups, group)
    local s = setting and setting(group) or {}
    s.a = list_of(groups, function() return r.between(1, 4) end)
    s.b = list_of(groups, function() return r.between(0.5, 2) end)
    return s
  end, law = function(s) return dist.gamma(pn.tensor(s.a), pn.tensor(s.b)) end, data_law = data_law,
    posterior = function(s, g, rows, y)
      local a, b, rest = s.a[g], s.b[g], 0
      local function log_volume() return lgamma(a) - a * math.log(b) end
      local before = log_volume()
      for _, k in ipairs(rows) do
        local more_a, more_b, more = taken(s, k, y[k])
        a, b, rest = a + more_a, b + more_b, rest + more
      end
      return gamma_marginal(a, b), log_gamma_density(a, b), log_volume() - before + rest
    end })
end

--- Rates of counts with unequal exposures.
function blocks.counts(r, prefix)
  return gamma_block(r, prefix, function(group)
    return { exposure = list_of(#group, function() return r.between(0.3, 3) end) }
  end, function(x, s) return dist.poisson(x * pn.tensor(s.exposure)) end, function(s, k, y)
    return y, s.exposure[k], y * math.log(s.exposure[k]) - lgamma(y + 1)
  end)
end

--- Rates of waiting times.
function blocks.waits(r, prefix)
  return gamma_block(r, prefix, nil, function(x) return dist.exponential(x) end, function(_, _, y) return 1, y, 0 end)
end

--- Precisions of normal numbers whose means are known.
function blocks.precisions(r, prefix)
  return gamma_block(r, prefix, function(group)
    return { mean = list_of(#group, function() return r.between(-2, 2) end) }
  end, function(x, s) return dist.normal(pn.tensor(s.mean), x:rsqrt()) end, function(s, k, y)
    return 0.5, (y - s.mean[k]) ^ 2 / 2, -0.5 * math.log(2 * math.pi)
  end)
end

local function log_beta(a, b) return lgamma(a) + lgamma(b) - lgamma(a + b) end

--- Shares of unequal numbers of trials.
function blocks.trials(r, prefix)
  return grouped(r, prefix, { setting = function(groups, group)
    return { a = list_of(groups, function() return r.between(0.7, 4) end),
      b = list_of(groups, function() return r.between(0.7, 4) end),
      trials = list_of(#group, function() return r.below(9) end) }
  end, law = function(s) return dist.beta(pn.tensor(s.a), pn.tensor(s.b)) end,
    data_law = function(x, s) return dist.binomial(pn.tensor(s.trials):to "float64", x) end,
    posterior = function(s, g, rows, y)
      local a, b, rest = s.a[g], s.b[g], 0
      for _, k in ipairs(rows) do
        local n = s.trials[k]
        a, b, rest = a + y[k], b + n - y[k], rest + lgamma(n + 1) - lgamma(y[k] + 1) - lgamma(n - y[k] + 1)
      end
      return beta_marginal(a, b), function(x)
        return (a - 1) * math.log(x) + (b - 1) * math.log(1 - x) - log_beta(a, b)
      end, log_beta(a, b) - log_beta(s.a[g], s.b[g]) + rest
    end })
end

--- Shares of labels in groups.
function blocks.labels(r, prefix)
  local groups, size, name, latent = r.below(2), 1 + r.below(3), prefix .. "p", {}
  local index, group = groups_of(r, groups)
  local prior = list_of(groups, function() return list_of(size, function() return r.between(0.7, 3) end) end)
  for g = 1, groups do
    for k = 1, size do latent[#latent + 1] = { name, g, k } end
  end
  local function run(m, data)
    local p
    m:plate(prefix .. "groups", groups, function() p = m:sample(name, dist.dirichlet(pn.tensor(prior))) end)
    m:plate(prefix .. "rows", #group, function()
      m:observe(prefix .. "y", dist.categorical(p:take(1, index)), data[prefix .. "y"])
    end)
  end
  local function log_volume(a)
    local sum, total = 0, 0
    for _, v in ipairs(a) do sum, total = sum + lgamma(v), total + v end
    return sum - lgamma(total), total
  end
  local function exact(y)
    local marginals, evidence, after = {}, 0, {}
    for g = 1, groups do
      after[g] = table.move(prior[g], 1, size, 1, {})
      for k, of in ipairs(group) do
        local label = math.tointeger(y[prefix .. "y"][k]) + 1
        after[g][label] = after[g][label] + (of == g - 1 and 1 or 0)
      end
      local volume, total = log_volume(after[g])
      evidence = evidence + volume - log_volume(prior[g])
      for _, a in ipairs(after[g]) do marginals[#marginals + 1] = beta_marginal(a, total - a) end
    end
    return { marginals = marginals, log_evidence = evidence, log_density = function(x)
      local sum = 0
      for g = 1, groups do
        sum = sum - log_volume(after[g])
        for k, a in ipairs(after[g]) do sum = sum + (a - 1) * math.log(x[(g - 1) * size + k]) end
      end
      return sum
    end }
  end
  return { run = run, latent = latent, exact = exact }
end

local KINDS = { "tree", "counts", "regression", "trials", "labels", "precisions", "waits" }

-- What the exact posterior of a normal block says in the form of the others.
local function of_gaussian(exact)
  return function(y)
    local p = exact(y)
    p.marginals = list_of(#p.mean, function(k) return normal_marginal(p.mean[k], p.cov[k][k]) end)
    function p.log_density(x)
      return log_normal_density(list_of(#x, function(k) return x[k] - p.mean[k] end), p.precision)
    end
    return p
  end
end

--- model(r): one or two blocks, {model, latent = list of {site, place...}, kinds = of each latent number, exact =
--- function(y), normal = whether all of it is; drawn(seed) -> latent values by site, data by site}.
function blocks.model(r)
  local parts, latent, kinds, normal = {}, {}, {}, true
  local first = r.seed % #KINDS
  for k = 1, r.below(2) do
    local kind = k == 1 and KINDS[first + 1] or r.one_of(KINDS)
    local part = blocks[kind](r, ("abc"):sub(k, k))
    part.exact, normal = part.exact or of_gaussian(part.gaussian), normal and part.gaussian ~= nil
    parts[k], part.first = part, #latent
    for _, entry in ipairs(part.latent) do latent[#latent + 1], kinds[#latent + 1] = entry, kind end
  end
  local m = pn.model(function(m, data)
    for _, part in ipairs(parts) do part.run(m, data) end
  end)
  local function exact(y)
    local all = { marginals = {}, log_evidence = 0 }
    for k, part in ipairs(parts) do
      parts[k].found = part.exact(y)
      table.move(part.found.marginals, 1, #part.latent, part.first + 1, all.marginals)
      all.log_evidence = all.log_evidence + part.found.log_evidence
    end
    function all.log_density(x)
      local sum = 0
      for _, part in ipairs(parts) do
        sum = sum + part.found.log_density(table.move(x, part.first + 1, part.first + #part.latent, 1, {}))
      end
      return sum
    end
    return all
  end
  return { model = m, latent = latent, kinds = kinds, exact = exact, normal = normal }
end

return blocks
