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
local options = require "penumbra.options"

local normal_outputs = {}

local function shape_text(t)
  return "[" .. table.concat(t:shape(), ", ") .. "]"
end

local function same_shape(where, role, t, like)
  if shape_text(t) ~= shape_text(like) then
    core.error(("%s: %s must have the shape of mean, %s, got %s"):format(where, role, shape_text(like), shape_text(t)))
  end
end

local function positive(where, name, v)
  if type(v) == "number" and not (v > 0) then
    core.error(("%s: %s must be positive, got %s"):format(where, name, v))
  end
end

local kinds = {}

-- E log normal(y; f, 1 / b) = (log b - log 2 pi) / 2 - b ((y - m)^2 + v) / 2
function kinds.normal(y, m, v, precision)
  local half_log = type(precision) == "number" and 0.5 * math.log(precision) or precision:log() * 0.5
  return ((y - m):square() + v) * (precision * -0.5) + (half_log - 0.5 * math.log(2 * math.pi))
end

-- log of the integral of Phi(s y) e^(E log normal(y; f, 1 / b)) over y = log Phi(s m / sqrt(1 + 1 / b)) - b v / 2
function kinds.probit(y, m, v, precision)
  local wide = type(precision) == "number" and (1 + 1 / precision) ^ 0.5 or (1 + 1 / precision):sqrt()
  return (m * (y:to(m:dtype()) * 2 - 1) / wide):log_ndtr() - v * (precision * 0.5)
end

-- E log softmax(f)_y = y'm - lse(m) - sum v (z - z^2) / 2 to second order, z = softmax(m)
function kinds.categorical(y, m, v)
  local z = m:softmax(-1)
  return m:log_softmax(-1):gather(-1, y:unsqueeze(-1)):squeeze(-1) - (v * (z - z:square())):sum(-1) * 0.5
end

--- expected_log_likelihood(kind, y, mean, variance [, {precision = 1}]): E log p(y | f) of each datum for independent
--- normal outputs f of this mean and variance:
---   "normal"       y like mean: normal(y; f, 1 / precision). Exact:
---                  (log b - log 2 pi - b ((y - m)^2 + v)) / 2, b the precision
---   "categorical"  y whole numbers [...], mean logits [..., classes]; to second order, outputs as if uncorrelated:
---                  m_y - logsumexp(m) - sum v (z - z^2) / 2, z = softmax(m)
---   "probit"       y zeros and ones like mean: sign of a margin normal(f, 1 / precision). A lower bound of the
---                  evidence: log Phi(+-m / sqrt(1 + 1 / b)) - b v / 2
--- precision is a number or a tensor (learned, or an input of a compiled step). Haussmann (2021), 3.1.3, 3.1.7.
function normal_outputs.expected_log_likelihood(kind, y, mean, variance, given)
  local where = "expected_log_likelihood"
  local o = options.check(where, given or {}, { precision = options.any(1) })
  local names = {}
  for name in pairs(kinds) do
    names[#names + 1] = name
  end
  table.sort(names)
  if not kinds[kind] then
    core.error(("%s: kind must be one of %s, got '%s'%s"):format(where, table.concat(names, ", "), tostring(kind),
      options.suggestion(tostring(kind), names)))
  end
  options.argument(where, "y", y, "tensor")
  options.argument(where, "mean", mean, "tensor")
  options.argument(where, "variance", variance, "tensor")
  same_shape(where, "variance", variance, mean)
  if kind ~= "categorical" then
    same_shape(where, "y", y, mean)
  elseif mean:ndim() == 0 or shape_text(y) ~= shape_text(mean:select(-1, 1)) then
    core.error(("%s: y must have the shape of mean without its last axis, got %s for mean %s"):format(where,
      shape_text(y), shape_text(mean)))
  end
  if not core.is_tensor(o.precision) then
    options.argument(where, "precision", o.precision, "number")
  end
  positive(where, "precision", o.precision)
  return kinds[kind](y, mean, variance, o.precision)
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
