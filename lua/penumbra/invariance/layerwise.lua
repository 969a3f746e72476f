--- The invariance-abiding posterior of the weights into the nodes of one layer (Kurle et al. 2022, equations 25 and
--- 27): a mixture over inputs z of normal laws, each the prior with one direction Sigma z taken down.
---
---     q_mix(w) = 1/S sum over s of N(w; mu + g_s Sigma z_s, Sigma - (Sigma z_s)(Sigma z_s)^T / (a_s + c_s))
---     a = z^T Sigma z,   c = z^T V z,   g = z^T (m - mu) / (a + c)
---
--- A component is the prior times the ratio N(z^T w; z^T m, c) / N(z^T m; z^T mu, a + c), so that densities cost O(K
--- S) and no component is formed. Where z = 0 it is the prior: nothing was seen.
-- help: none
local core = require "penumbra.core"
local dist = require "penumbra.distribution"

local layerwise = {}

local HALF_LOG_2PI = 0.5 * core.log_2pi

-- x [..., K] times each of the inputs z [..., S, K]: [..., S].
local function along(x, z)
  if z:ndim() == 2 then
    return x:matmul(z:t())
  end
  return x:unsqueeze(-2):matmul(z:transpose(-1, -2)):squeeze(-2)
end

-- m, V, mu and Sigma, [..., K] each.
local function read(d)
  local z = d.inputs
  local function wide(t)
    local shape = t:shape()
    if shape[#shape] ~= z:size(-1) then
      shape[#shape] = z:size(-1)
      return t:broadcast_to(shape)
    end
    return t
  end
  return wide(d.loc), wide(d.scale):square(), wide(d.prior_loc), wide(d.prior_scale):square()
end

-- c where something was seen, else 1, so that it can be divided by: what stands over it is 0 there.
local function positive(c)
  return core.where(c:gt(0), c, core.ones({}, { dtype = c:dtype() }))
end

-- Of each component [..., S]: a, c (1 where z = 0), z^T (m - mu).
local function terms(d)
  local z, m, V, mu, sigma = d.inputs, read(d)
  local square = z:square()
  return along(sigma, square), positive(along(V, square)), along(m - mu, z)
end

-- ln q_mix(w) - ln p(w): the log of the mean over components of their ratios to the prior, 1 where z = 0.
local function log_ratio(d, w)
  local a, c, off = terms(d)
  local h = along(w - d.prior_loc, d.inputs)
  local each = ((h - off):square() / c - off:square() / (a + c) + c:log() - (a + c):log()) * -0.5
  return each:logsumexp(-1) - math.log(d.inputs:size(-2))
end

local function log_prob(d, w)
  local prior = ((w - d.prior_loc) / d.prior_scale):square() * -0.5 - d.prior_scale:log()
  return prior:sum(-1) - HALF_LOG_2PI * w:size(-1) + log_ratio(d, w)
end

-- Weights of the given components: w0 ~ p moved along Sigma z until z^T w is a draw u ~ N(z^T m, c) as far as the prior
-- gives way: w = w0 + Sigma z (u - z^T w0) / (a + c). rows: z of each draw, like w0.
local function drawn(d, w0, rows, noise)
  local m, V, _, sigma = read(d)
  local a, c = (rows:square() * sigma):sum(-1, true), positive((rows:square() * V):sum(-1, true))
  local u = (rows * m):sum(-1, true) + c:sqrt() * noise
  return w0 + sigma * rows * ((u - (rows * w0):sum(-1, true)) / (a + c))
end

-- Which component a draw comes from does not depend on m and V, so that draws have gradients.
local function rsample(d, shape, generator)
  local set = { generator = generator, dtype = d.dtype }
  local K, S = shape[#shape], d.inputs:size(-2)
  local lead = table.move(shape, 1, #shape - 1, 1, {})
  local w0 = d.prior_loc + d.prior_scale * core.randn(shape, set)
  local one = table.move(lead, 1, #lead, 1, {})
  one[#one + 1] = 1
  local which = core.randint(0, S, lead, { generator = generator })
  local rows
  if d.inputs:ndim() == 2 then
    rows = d.inputs:take(1, which:reshape { -1 }):reshape(shape)
  else -- inputs of each batch
    local wide = table.move(lead, 1, #lead, 1, {})
    wide[#wide + 1], wide[#wide + 2] = 1, K
    local all = table.move(lead, 1, #lead, 1, {})
    all[#all + 1], all[#all + 2] = S, K
    rows = d.inputs:broadcast_to(all):gather(-2, which:reshape(one):unsqueeze(-1):broadcast_to(wide)):squeeze(-2)
  end
  return drawn(d, w0, rows, core.randn(one, set))
end

-- Coefficients of the components' moments along Sigma z: g and 1 / (a + c): [..., S].
local function coefficients(d)
  local a, c, off = terms(d)
  return off / (a + c), (a + c):reciprocal()
end

-- f [..., S] times the inputs, averaged over the components: [..., K].
local function average(f, z)
  local n = z:size(-2)
  if z:ndim() == 2 then
    return f:matmul(z) / n
  end
  return f:unsqueeze(-2):matmul(z):squeeze(-2) / n
end

local function mean(d)
  local g = coefficients(d)
  return d.prior_loc + d.prior_scale:square() * average(g, d.inputs)
end

local function variance(d)
  local g, shrink = coefficients(d)
  local second = average(g:square() - shrink, d.inputs:square()) - average(g, d.inputs):square()
  local sigma = d.prior_scale:square()
  return sigma + sigma:square() * second
end

local kind

--- node_posterior{loc =, scale =, prior_loc = 0, prior_scale = 1, inputs =}: see pn.invariance.
function layerwise.node_posterior(...)
  kind = kind or dist.custom {
    name = "node_posterior", support = "real_vector",
    parameters = {
      { "loc", event_ndim = 1 }, { "scale", constraint = "positive", event_ndim = 1 },
      { "prior_loc", event_ndim = 1, default = { 0 } },
      { "prior_scale", constraint = "positive", event_ndim = 1, default = { 1 } },
      { "inputs", event_ndim = 2 },
    },
    event_shape = function(values) return { values.inputs:size(-1) } end,
    log_prob = log_prob, rsample = rsample, mean = mean, variance = variance,
  }
  return kind(...)
end

--- covariance(q): see pn.invariance.
function layerwise.covariance(q)
  if type(q) ~= "table" or q.kind ~= kind or kind == nil then
    core.error "node_covariance: q must be a node_posterior"
  end
  local g, shrink = coefficients(q)
  local z, n = q.inputs, q.inputs:size(-2)
  local middle = average(g, z)
  local weighted = (g:square() - shrink):unsqueeze(-1) * z
  local second = z:transpose(-1, -2):matmul(weighted) / n - middle:unsqueeze(-1) * middle:unsqueeze(-2)
  local _, _, _, s = read(q)
  return s:diag_embed() + s:unsqueeze(-1) * second * s:unsqueeze(-2)
end

--- law{loc =, scale =, prior_loc =, prior_scale =}, z: mean and variance of the pre-activations z^T w_j under the
--- component of z itself: z [n, K], parameters [out, K], [n, out] each. They are z^T mu + off a / (a + c) and
--- a c / (a + c): no weight is drawn. Where z = 0 both are those of the prior.
function layerwise.law(d, z)
  local square, sigma, V = z:square(), d.prior_scale:square(), d.scale:square()
  local a, c = square:matmul(sigma:t()), positive(square:matmul(V:t()))
  local share = a / (a + c)
  return z:matmul(d.prior_loc:t()) + z:matmul((d.loc - d.prior_loc):t()) * share, share * c
end

--- component_kl(q): KL of each component from the prior, [..., S]: (ln(1 + a / c) - a / (a + c) + off^2 a / (a + c)^2)
--- / 2.
function layerwise.component_kl(q)
  local a, c, off = terms(q)
  local share = a / (a + c)
  return ((a / c):log1p() - share + off:square() * share / (a + c)) * 0.5
end

--- log_ratio(q, w): ln q(w) - ln p(w), p the prior of q, w [..., K].
function layerwise.log_ratio(q, w)
  return log_ratio(q, w)
end

return layerwise
