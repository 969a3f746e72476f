--- Expected log-likelihoods of networks that pass means and variances on (net:moments): the outputs f are independent
--- normal numbers of given mean m and variance v.
---
---     local m, v = net:moments(x)
---     local ll = infer.expected_log_likelihood("normal", y, m, v, {precision = beta})
---     local loss = -infer.elbo{log_likelihood = ll, kl = net:kl(), num_data = n}
---     ...                                                       -- at the end of an epoch, over all of the data:
---     beta = infer.noise_precision(y, net:moments(x)):item()
---
--- Haussmann, Hamprecht & Kandemir (2019); Haussmann (2021), chapter 3.
-- help: pn.infer, quiet
local core = require "penumbra.core"
local likelihood = require "penumbra.nn.likelihood"
local options = require "penumbra.options"

local normal_outputs = {}

local shape_text = options.shape_text

local function same_shape(where, role, t, like)
  if shape_text(t) ~= shape_text(like) then
    core.error(("%s: %s must have the shape of mean, %s, got %s"):format(where, role, shape_text(like), shape_text(t)))
  end
end

local known = { precision = options.any(nil), points = options.optional "number", draws = options.optional "number",
  generator = options.optional "generator" }

--- expected_log_likelihood(kind, y, mean, variance [, {precision = 1}]): E log p(y | f) of each datum for independent
--- normal outputs f of this mean and variance. kind is a likelihood of pn.nn.likelihood, by its name, made or in Lua:
---   "normal"       y like mean: normal(y; f, 1 / precision). Exact:
---                  (log b - log 2 pi - b ((y - m)^2 + v)) / 2, b the precision
---   "categorical"  y whole numbers [...], mean logits [..., classes]; to second order, outputs as if uncorrelated:
---                  m_y - logsumexp(m) - sum v (z - z^2) / 2, z = softmax(m)
---   "probit"       y zeros and ones like mean: sign of a margin normal(f, 1 / precision). A lower bound of the
---                  evidence: log Phi(+-m / sqrt(1 + 1 / b)) - b v / 2
---   others         as l:expectation says: closed (poisson), by quadrature with `points` (64), of several outputs by
---                  `draws` (1000) with `generator`
--- precision is a number or a tensor (learned, or an input of a compiled step), of "normal" and "probit" by name alone.
--- Haussmann (2021), 3.1.3, 3.1.7.
function normal_outputs.expected_log_likelihood(kind, y, mean, variance, given)
  local where = "expected_log_likelihood"
  local o = options.check(where, given or {}, known)
  options.argument(where, "y", y, "tensor")
  options.argument(where, "mean", mean, "tensor")
  options.argument(where, "variance", variance, "tensor")
  same_shape(where, "variance", variance, mean)
  local l = likelihood.read(where, kind, { role = "kind", parameters = { precision = o.precision or 1,
    classes = mean:ndim() > 0 and mean:size(-1) or 1 } })
  if o.precision ~= nil and (type(kind) ~= "string" or l.parameters.precision == nil) then
    core.error(("%s: precision is of 'normal' and 'probit' by name, got kind %s"):format(where, l.name))
  end
  if not l.vector then
    same_shape(where, "y", y, mean)
  elseif mean:ndim() == 0 or shape_text(y) ~= shape_text(mean:select(-1, 1)) then
    core.error(("%s: y must have the shape of mean without its last axis, got %s for mean %s"):format(where,
      shape_text(y), shape_text(mean)))
  end
  if l.closed and l.row.bound and l.parameters.precision ~= math.huge then
    return l.row.bound(y, mean, variance, l.parameters)
  end
  return l:expectation(y, mean, variance, { points = o.points, draws = o.draws, generator = o.generator })
end

--- noise_precision(y, mean [, variance]): the precision of normal observation noise that maximises the expected
--- log-likelihood, a tensor: 1 / mean of (y - m)^2 + v over all elements. To be set after each epoch from all training
--- data. Without a variance, mean is one draw, like y, or several, [draws, ...]. Haussmann (2021), 3.3.1.
function normal_outputs.noise_precision(y, mean, variance)
  local where = "noise_precision"
  options.argument(where, "y", y, "tensor")
  options.argument(where, "mean", mean, "tensor")
  if variance ~= nil then
    options.argument(where, "variance", variance, "tensor")
    same_shape(where, "y", y, mean)
    same_shape(where, "variance", variance, mean)
  elseif mean:ndim() == y:ndim() then
    same_shape(where, "y", y, mean)
  elseif mean:ndim() ~= y:ndim() + 1 or mean:size(1) == 0 or shape_text(mean:select(1, 1)) ~= shape_text(y) then
    core.error(("%s: mean must have the shape of y, %s, or be draws of it, got %s"):format(where, shape_text(y),
      shape_text(mean)))
  end
  local square = (mean - y):square()
  return 1 / (variance and square + variance or square):mean()
end

--- expected_softmax(mean, variance): the probabilities of classes E softmax(f) to second order, [..., classes]:
--- z_j (1 + v_j / 2 - v_j z_j + sum v z^2 - sum v z / 2), z = softmax(m). They sum to 1, and may leave [0, 1] where
--- variances are large.
function normal_outputs.expected_softmax(mean, variance)
  options.argument("expected_softmax", "mean", mean, "tensor")
  options.argument("expected_softmax", "variance", variance, "tensor")
  same_shape("expected_softmax", "variance", variance, mean)
  local z = mean:softmax(-1)
  local vz = variance * z
  return z * (variance * 0.5 - vz + ((vz * z) - vz * 0.5):sum(-1, true) + 1)
end

return normal_outputs
