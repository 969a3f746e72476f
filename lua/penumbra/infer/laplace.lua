--- Laplace's approximation: around parameters w that maximise the posterior, a normal distribution whose precision is
--- the Gauss-Newton matrix of the log likelihood plus the prior's precision.
---
---     local la = infer.laplace(net, x, y, {likelihood = function(f) return dist.normal(f, 0.1):independent(1) end,
---       structure = "kronecker", prior_precision = 1})
---     la:log_evidence()                    log p(y | x), for choosing models and priors
---     la:linearised(x2)                    the outputs' distribution: a multivariate normal, [B], events [C]
---     la:posterior()                       of the parameters (full, diagonal, last_layer)
---     la:with_prior(a)                     the same curvature under another prior precision
---     la:fit_prior()                       with the prior precision that maximises the evidence
-- help: module, methods laplace
local core = require "penumbra.core"
local curvature = require "penumbra.autodiff.curvature"
local dist = require "penumbra.distribution"
local likelihood = require "penumbra.nn.likelihood"
local options = require "penumbra.options"

local laplace = {}
laplace.__index = laplace

function laplace:__tostring()
  return ("Laplace approximation of %d weights, %s, prior precision %s"):format(self.loc:numel(), self.structure,
    tostring(self.prior_precision))
end

-- ---- structures: eigenvalues of the curvature without the prior, and variances of outputs ----
-- Each gives {eigenvalues = list of tensors, covariance = function(x, shares)}: the covariance [B, C, C] of the outputs
-- at x, where shares[k] = 1 / (eigenvalues[k] + prior).

-- [B, C, P] of the Jacobian.
local function slopes(f, params)
  return curvature.jacobian(f, params):reshape { f:size(1), f:size(2), -1 }
end

local function full(net, params, f, bend)
  local j = slopes(f, params)
  local n, c, p = table.unpack(j:shape())
  local flat = j:reshape { n * c, p }
  local values, vectors = flat:t():matmul(bend:matmul(j):reshape { n * c, p }):eigh()
  return {
    eigenvalues = { values:clamp(0, math.huge) },
    vectors = vectors,
    covariance = function(x2, shares)
      local e = slopes(net(x2), params):matmul(vectors)
      return (e * shares[1]):matmul(e:transpose(-1, -2))
    end,
  }
end

local function diagonal(net, params, f, bend)
  local j = slopes(f, params)
  return {
    eigenvalues = { (j * bend:matmul(j)):sum { 1, 2 } },
    covariance = function(x2, shares)
      local e = slopes(net(x2), params)
      return (e * shares[1]):matmul(e:transpose(-1, -2))
    end,
  }
end

local function is_linear(layer)
  return type(layer) == "userdata" and layer:type() == "linear"
end

-- The inputs (with a 1 for the bias) and outputs of the linear layers of a sequential.
local function pass(net, x)
  local list = {}
  for k, layer in ipairs(net) do
    local y = layer(x)
    if is_linear(layer) then
      local ones = core.ones(x:size(1), 1, { dtype = x:dtype() })
      local biased = #layer:own_parameters() == 2
      list[#list + 1] = { input = (biased and core.concatenate({ x, ones }, 2) or x):detach(), output = y }
    elseif type(layer) == "userdata" and #layer:own_parameters() > 0 or type(layer) == "table" then
      core.error(("laplace: layer %d must be linear or without parameters for the kronecker structure, got %s"):format(
        k, type(layer) == "table" and "a network" or layer:type()))
    end
    x = y
  end
  return list, x
end

-- d f / d output of each linear layer: a list of [B, C, out].
local function backward(layers, f)
  local outputs, by_class, list = {}, {}, {}
  for l, layer in ipairs(layers) do outputs[l] = layer.output end
  for c = 1, f:size(2) do by_class[c] = core.grad(f:select(2, c):sum(), outputs) end
  for l = 1, #layers do
    local each = {}
    for c = 1, f:size(2) do each[c] = by_class[c][l] end
    list[l] = core.stack(each, 2)
  end
  return list
end

-- Ritter, Botev & Barber 2018: of each layer (1/B) sum a a' times sum g H g'.
local function kronecker(net, _, _, bend, x)
  local layers, f = pass(net, x)
  local blocks, values, n = {}, {}, x:size(1)
  for l, g in ipairs(backward(layers, f)) do
    local a, wide = layers[l].input, { n * g:size(2), g:size(3) }
    local va, qa = (a:t():matmul(a) / n):eigh()
    local vg, qg = g:reshape(wide):t():matmul(bend:matmul(g):reshape(wide)):eigh()
    blocks[l] = { a = qa, g = qg }
    values[l] = va:clamp(0, math.huge):unsqueeze(2) * vg:clamp(0, math.huge) -- [in, out]
  end
  return {
    eigenvalues = values,
    covariance = function(x2, shares)
      local at, f2 = pass(net, x2)
      local sum
      for l, g in ipairs(backward(at, f2)) do
        local a, e = at[l].input:matmul(blocks[l].a) ^ 2, g:matmul(blocks[l].g)
        local term = (e * a:matmul(shares[l]):unsqueeze(2)):matmul(e:transpose(-1, -2))
        sum = sum and sum + term or term
      end
      return sum
    end,
  }
end

local structures = { full = full, diagonal = diagonal, kronecker = kronecker, last_layer = full }

-- ---- likelihoods ----

-- Minus log p of each datum as a function of outputs, and minus its second derivatives [B, C, C], of what is given.
local function judged(given, y, outputs)
  if type(given) == "function" then
    local function loss(t) return -given(t):log_prob(y) end
    return loss, function(f) return curvature.output_hessians(loss, f) end
  end
  local l = likelihood.read("laplace", given, { parameters = { classes = outputs } })
  if l.vector and l.width ~= outputs then
    core.error(("laplace: likelihood %s takes %d outputs, the network has %d"):format(l.name, l.width, outputs))
  end
  return function(t)
    return -(l.vector and l:value(y, t) or l:value(y, t):sum(-1))
  end, function(f)
    local c = -l:curvature(y, f:detach())
    return l.vector and c or c:unsqueeze(-1) * core.eye(outputs, { dtype = c:dtype() })
  end
end

-- ---- the object ----

-- The parameters that a structure speaks of.
local function parameters_of(net, structure)
  if structure ~= "last_layer" and structure ~= "kronecker" then return net:parameters() end
  if type(net) ~= "table" or type(net[#net]) ~= "userdata" or not is_linear(net[#net]) then
    core.error(("laplace: the structure %s needs an nn.sequential whose last layer is linear"):format(structure))
  end
  return structure == "kronecker" and net:parameters() or net[#net]:parameters()
end

local function check_precision(alpha)
  if not (alpha > 0 and alpha < math.huge) then
    core.error(("laplace: prior_precision must be positive, got %s"):format(alpha))
  end
  return alpha
end

--- new(net, x, y, {likelihood =}), or infer.laplace: the approximation around the parameters as they are, which should
--- maximise the posterior (infer.map). net(x) gives [B, C]; likelihood(f) a distribution over y with a density for each
--- datum, or a likelihood of pn.nn.likelihood, by its name or made: outputs are then of C targets of one number each,
--- or of one of C numbers. Options: prior_precision (1) of a normal prior with mean 0 on every parameter; structure
--- "full", "diagonal", "kronecker" (nn.sequential of linear layers and functions) or "last_layer" (the others are
--- fixed). The first two and the last keep a Jacobian [B, C, P], and "full" a matrix [P, P]. MacKay 1992; Ritter, Botev
--- & Barber 2018; Immer, Korzepa & Bauer 2021; Daxberger et al. 2021.
function laplace.new(net, x, y, given)
  local o = options.check("laplace", given, {
    likelihood = options.required(),
    prior_precision = 1,
    structure = options.choice("full", "diagonal", "kronecker", "last_layer"),
  })
  check_precision(o.prior_precision)
  local params = parameters_of(net, o.structure)
  local f = net(x)
  if f:ndim() ~= 2 then
    core.error(("laplace: net(x) must be [B, C], got shape [%s]"):format(table.concat(f:shape(), ", ")))
  end
  local loss, bend = judged(o.likelihood, y, f:size(2))
  local losses = loss(f:detach())
  if losses:numel() ~= f:size(1) then
    core.error(("laplace: likelihood must give one density for each of %d data, got shape [%s]"):format(f:size(1),
      table.concat(losses:shape(), ", ")))
  end
  local parts = structures[o.structure](net, params, f, bend(f):detach(), x)
  local w = curvature.flatten(params):detach()
  return setmetatable({ net = net, parts = parts, loc = w, structure = o.structure, prior_precision = o.prior_precision,
    log_likelihood = -losses:sum():item() }, laplace)
end

local function over(self, f)
  local sum = 0
  for _, v in ipairs(self.parts.eigenvalues) do sum = sum + f(v):sum():item() end
  return sum
end

--- log p(y | x) of the data: the log likelihood at w, plus log N(w; 0, 1/a), plus the volume of the posterior,
--- (P/2) log 2 pi - log det(H + a) / 2. Exact where the outputs are linear in w and the likelihood normal.
function laplace:log_evidence()
  local a = self.prior_precision
  return self.log_likelihood - 0.5 * a * (self.loc ^ 2):sum():item() + 0.5 * self.loc:numel() * math.log(a)
    - 0.5 * over(self, function(v) return (v + a):log() end)
end

--- The number of parameters that the data determine, sum of e / (e + a) over the eigenvalues e of the curvature.
function laplace:effective_parameters()
  return over(self, function(v) return v / (v + self.prior_precision) end)
end

--- The same curvature under another prior precision (around the same parameters).
function laplace:with_prior(precision)
  local copy = {}
  for key, value in pairs(self) do copy[key] = value end
  copy.prior_precision = check_precision(precision)
  return setmetatable(copy, laplace)
end

--- With the prior precision that maximises log_evidence: the fixed point a = effective_parameters / |w|^2. MacKay 1992.
function laplace:fit_prior()
  local square, la = (self.loc ^ 2):sum():item(), self
  for _ = 1, 1000 do
    local a = la:effective_parameters() / square
    local moved = math.abs(a / la.prior_precision - 1)
    la = la:with_prior(a)
    if moved < 1e-12 then break end
  end
  return la
end

local function shares(self)
  local list = {}
  for k, v in ipairs(self.parts.eigenvalues) do list[k] = 1 / (v + self.prior_precision) end
  return list
end

--- The distribution of the outputs at x [B, ...] of the model that is linear in the parameters around w: a multivariate
--- normal over [C] for each datum, mean net(x). Of a normal likelihood add the noise's variance; of a classifier
--- average likelihood(draws).
function laplace:linearised(x)
  local mean = self.net(x):detach()
  local covariance = self.parts.covariance(x, shares(self)):detach()
  return dist.multivariate_normal { loc = mean, covariance_matrix = (covariance + covariance:transpose(-1, -2)) * 0.5 }
end

--- The distribution of the parameters as one vector (penumbra.autodiff.curvature's flatten), of the full, diagonal and
--- last_layer structures.
function laplace:posterior()
  local share = shares(self)[1]
  if self.structure == "kronecker" then
    core.error "posterior: the kronecker structure has none in one piece; take linearised"
  elseif self.structure == "diagonal" then
    return dist.normal(self.loc, share:sqrt()):independent(1)
  end
  local q = self.parts.vectors
  return dist.multivariate_normal { loc = self.loc, covariance_matrix = (q * share):matmul(q:t()) }
end

-- ---- linear regression ----

--- evidence_fixed_point(x, y, {alpha = 1, beta = 1, learn_beta = true}): type-II maximum likelihood of Bayesian linear
--- regression, y ~ N(x w, 1 / beta) and w ~ N(0, 1 / alpha), by MacKay's fixed point
---     gamma = sum_i e_i / (e_i + alpha),  alpha = gamma / |m|^2,  beta = (N - gamma) / |y - x m|^2
--- with e the eigenvalues of beta x'x and m the posterior's mean. x is [N, D], y [N]. Returns {alpha, beta, gamma, mean
--- [D], covariance [D, D], log_evidence, steps}, or nil and a message where it does not settle in `max_steps` (1000).
function laplace.evidence_fixed_point(x, y, given)
  local o = options.check("evidence_fixed_point", given or {},
    { alpha = 1, beta = 1, learn_beta = true, max_steps = 1000, tolerance = 1e-10 })
  options.argument("evidence_fixed_point", "x", x, "tensor")
  options.argument("evidence_fixed_point", "y", y, "tensor")
  if x:ndim() ~= 2 or y:ndim() ~= 1 or y:size(1) ~= x:size(1) then
    core.error(("evidence_fixed_point: x must be [N, D] and y [N], got shapes [%s] and [%s]"):format(
      table.concat(x:shape(), ", "), table.concat(y:shape(), ", ")))
  end
  if not (o.alpha > 0 and o.beta > 0) then core.error "evidence_fixed_point: alpha and beta must be positive" end
  local values, q = x:t():matmul(x):eigh()
  values = values:clamp(0, math.huge)
  local along, n, alpha, beta = q:t():matmul(x:t():matmul(y)), x:size(1), o.alpha, o.beta
  for step = 1, o.max_steps do
    local m = q:matmul(along * beta / (values * beta + alpha))
    local gamma = (values * beta / (values * beta + alpha)):sum():item()
    local square, rest = (m ^ 2):sum():item(), ((y - x:matmul(m)) ^ 2):sum():item()
    local a, b = gamma / square, o.learn_beta and (n - gamma) / rest or beta
    local moved = math.max(math.abs(a / alpha - 1), math.abs(b / beta - 1))
    if moved ~= moved or a == math.huge or b == math.huge then break end
    if moved < o.tolerance then
      local log_evidence = 0.5 * (values:numel() * math.log(alpha) + n * math.log(beta / (2 * math.pi))
        - beta * rest - alpha * square - (values * beta + alpha):log():sum():item())
      return { alpha = alpha, beta = beta, gamma = gamma, mean = m, log_evidence = log_evidence, steps = step,
        covariance = (q / (values * beta + alpha)):matmul(q:t()) }
    end
    alpha, beta = a, b
  end
  return nil, ("evidence_fixed_point: alpha and beta did not settle in %d steps"):format(o.max_steps), "DEGENERATE"
end

return laplace
