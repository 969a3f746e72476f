--- Proposals of a Rao-Blackwellised filter that have looked at the observation: the product of the law of the model and
--- of a Gaussian q(. | y, u) that an encoder gives,
---
---     pi(z) = p(z) q(z) / Z,   p = N(mean, cov),  q = N(loc, diag(variance)),  Z = N(loc; mean, cov + diag(variance))
---     log p(z) - log pi(z) = log Z - log q(z)
---
--- so that neither p nor pi is ever evaluated: pi is the Kalman update of p with `loc` as the observation. The encoder
--- is a ladder: a shared stem of hidden layers, the auxiliary variable read from the last layer but one, the switch
--- from the last. Source: Kurle, Rangapuram, de Bezenac, Guennemann & Gasthaus 2020, section 3.3.3.
-- help: module
local core = require "penumbra.core"
local nn = require "penumbra.nn"
local parameters = require "penumbra.parameters"

local ladder = {}

local LOG_2_PI = core.log_2pi

--- log_normal(x, loc, variance): sum over the last axis of the log density of independent normals.
function ladder.log_normal(x, loc, variance)
  return (((x - loc):square() / variance + variance:log()):sum(-1) + x:size(-1) * LOG_2_PI) * -0.5
end

--- product(mean, cov, q, observed): mean [..., n] and cov [..., n, n] of p times q = {loc, variance} [..., n], and log
--- Z [...]. observed: bool [..., 1], false where there is no q.
function ladder.product(mean, cov, q, observed)
  local n = mean:size(-1)
  local eye = core.eye(n, { dtype = mean:dtype() })
  local given = observed and { observed = observed:broadcast_to(q.loc:shape()) } or nil
  local after, after_cov, log_z = core.kalman_update(mean, cov, q.loc, eye, nil, q.variance:diag_embed(), given)
  if not after then
    core.error("ladder: the product of the law and the encoder's: " .. after_cov)
  end
  return after, after_cov, log_z
end

--- product_of_diagonals(loc, variance, q, observed): as product for p = N(loc, diag(variance)): loc, variance, log Z.
function ladder.product_of_diagonals(loc, variance, q, observed)
  local total = variance + q.variance
  local after, after_variance = loc + (q.loc - loc) * (variance / total), variance * q.variance / total
  local log_z = ladder.log_normal(q.loc, loc, total)
  if not observed then
    return after, after_variance, log_z
  end
  return observed:where(after, loc), observed:where(after_variance, variance), observed:squeeze(-1):where(log_z, 0)
end

--- log_ratio(log_z, z, q, observed): log p(z) - log pi(z), 0 where there is no q.
function ladder.log_ratio(log_z, z, q, observed)
  local ratio = log_z - ladder.log_normal(z, q.loc, q.variance)
  return observed and observed:squeeze(-1):where(ratio, 0) or ratio
end

local LIFT = { float64 = 1e-12, float32 = 1e-6 }

-- The Cholesky factor of cov; where rounding has left it without one, of cov and a part of its mean variance, a hundred
-- times as much at each of three attempts. (Within a compiled function there is no second attempt: a replay that fails
-- is followed by the plain call, which comes here.)
local function root_of(cov)
  local root, why = cov:cholesky()
  local part = LIFT[cov:dtype()]
  for _ = 1, core.capture.going_on() and 0 or 3 do
    if root then
      break
    end
    local level = cov:diagonal():mean(-1):unsqueeze(-1):unsqueeze(-1) * part
    root, part = (cov + core.eye(cov:size(-1), { dtype = cov:dtype() }) * level):cholesky(), part * 100
  end
  return root or core.error("ladder: a covariance to draw from has no Cholesky factor: " .. tostring(why))
end

--- draw(mean, cov, noise): mean + L noise, L the Cholesky factor of cov [..., n, n], noise [..., n] standard normal. A
--- covariance that is singular up to rounding is lifted by a small part of its mean variance.
function ladder.draw(mean, cov, noise)
  return mean + root_of(cov):matmul(noise:unsqueeze(-1)):squeeze(-1)
end

-- ---- the encoder ----

-- loc and variance from the output of a layer.
local function halves(y, floor)
  local size = y:size(-1) // 2
  return { loc = y:slice(-1, 1, size), variance = y:slice(-1, size + 1, 2 * size):softplus():square() + floor }
end

local class = { __name = "ladder encoder", __index = parameters.methods, __call = function(self, y, u)
  local out, h = {}, u and core.concatenate({ y, u }, -1) or y
  for k, block in ipairs(self.stem) do
    h = block(h)
    if self.z and k == math.max(1, #self.stem - 1) then
      out.z = halves(self.z(h), self.floor)
    end
  end
  if self.s then
    out.s = halves(self.s(h), self.floor)
  end
  return out
end }

--- encoder{inputs =, hidden = {64, 64, 64}, z = size or nil, s = size or nil, dtype =}: a ladder of leaky rectifiers.
--- Called with y [..., p] and covariates u [..., k] (or nil; inputs = p + k) it gives {z = {loc =, variance =}, s =
--- {loc =, variance =}}, whose scales are softplus of the network's outputs.
function ladder.encoder(o)
  local self = { stem = {}, floor = o.floor or 1e-8 }
  local size, auxiliary = o.inputs, nil
  for k, units in ipairs(o.hidden) do
    self.stem[k] = nn.sequential { nn.linear(size, units, { dtype = o.dtype }), nn.leaky_relu() }
    size = units
    auxiliary = k == math.max(1, #o.hidden - 1) and units or auxiliary
  end
  self.z = o.z and nn.mlp({ auxiliary, 2 * o.z }, { dtype = o.dtype }) or nil
  self.s = o.s and nn.mlp({ size, 2 * o.s }, { dtype = o.dtype }) or nil
  return setmetatable(self, class)
end

return ladder
