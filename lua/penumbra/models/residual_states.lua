--- The prior of a residual state-space model: z_1 through an inverse autoregressive flow, then steps with a gain,
---
---     z_1 = flow(loc + scale e_1),    z_t = f(z_(t-1), u_(t-1)) + g(z_(t-1), u_(t-1)) e_t,    e_t ~ N(0, 1)
---
---     local s = residual_states.new("vssm", { latent = 8, inputs = 0, transition = "residual", gain = "shared", ... })
---     s:start(e)           z_1 [N, n] of e [N, n]
---     s:undo(z)            e of z_1, and log |dz/de| [N]; n passes of a network for each layer of the flow
---     s:move(z, u)         f and g [N, n]
---
--- Bayer, Soelch, Mirchev, Kayalibay & van der Smagt 2021, appendix B; Kingma et al. 2016. f is one of
---   "plain"     h(z, u)
---   "residual"  z + h(z, u)
---   "highway"   c h(z, u) + (1 - c) z,  c = sigmoid(k(z, u))
--- g is at least `floor`: with a gain of 0 the divergence of residuals says nothing about states. h, k and the gain of
--- a network are outputs of the same hidden layers.
-- help: pn.models
local bijector = require "penumbra.distribution.bijector"
local core = require "penumbra.core"
local network = require "penumbra.models.conditioned_features".network

local residual_states = {}

local methods = {}
local class = { network = true, __index = methods }

-- ---- the first state ----

--- start(e): z_1.
function methods:start(e)
  local z = self.loc + self.log_scale:exp() * e
  for _, b in ipairs(self.flow) do
    z = b:forward(z)
  end
  return z
end

--- log_det(e): z_1, and log |dz/de| summed over the n numbers.
function methods:log_det(e)
  local z, log_det = self.loc + self.log_scale:exp() * e, self.log_scale:sum()
  for _, b in ipairs(self.flow) do
    local y, d = b:forward_log_det(z)
    z, log_det = y, log_det + d
  end
  return z, log_det
end

--- undo(z): e and log |dz/de|, summed over the n numbers.
function methods:undo(z)
  local log_det = self.log_scale:sum()
  for k = #self.flow, 1, -1 do
    local x, d = self.flow[k]:inverse_log_det(z)
    z, log_det = x, log_det + d
  end
  return (z - self.loc) * (-self.log_scale):exp(), log_det
end

-- ---- steps ----

local kinds = {
  plain = function(_, h) return h end,
  residual = function(z, h) return z + h end,
  highway = function(z, h, k) return z + k:sigmoid() * (h - z) end,
}

--- move(z [, u]): f and g, [N, n] (g [n] or a number where it is the same always).
function methods:move(z, u)
  local n, at = self.size, 0
  local out = self.net(u and core.concatenate({ z, u }, -1) or z)
  local function part()
    at = at + n
    return self.outputs == n and out or out:slice(-1, at - n + 1, at)
  end
  local h = part()
  local f = kinds[self.kind](z, h, self.kind == "highway" and part() or nil)
  if self.gain == "network" then
    return f, part():softplus() + self.floor
  end
  return f, self.raw_gain and self.raw_gain:softplus() + self.floor or self.gain
end

-- ---- making ----

local function flow_of(o)
  local list, turn = {}, {}
  for k = 1, o.latent do
    turn[k] = o.latent - k
  end
  for k = 1, o.flows do
    if k > 1 and o.latent > 1 then
      list[#list + 1] = bijector.permutation { index = turn }
    end
    list[#list + 1] = bijector.random("inverse_autoregressive", o.latent, { hidden = o.flow_hidden, dtype = o.dtype })
  end
  return list
end

-- A gain that is given: a number, or one for each of n.
local function given_gain(where, o)
  local gain = core.tensor(type(o.gain) == "table" and o.gain or { o.gain }, { dtype = o.dtype })
  local size = gain:numel()
  if gain:ndim() ~= 1 or size ~= 1 and size ~= o.latent then
    core.error(("%s: gain must be 'network', 'shared', a positive number or %d of them"):format(where, o.latent))
  elseif not gain:gt(0):all():item() or not gain:isfinite():all():item() then
    core.error(("%s: gain must be positive: with a gain of 0 z_t is a function of z_1, and no step has a posterior"):
      format(where))
  end
  return gain
end

--- new(where, o): o.latent, o.inputs (numbers of u), o.transition, o.gain, o.floor, o.hidden and o.activation of the
--- transition, o.flows, o.flow_hidden, o.dtype.
function residual_states.new(where, o)
  local n = o.latent
  local self = setmetatable({ size = n, kind = o.transition, gain = o.gain, floor = o.floor, flow = flow_of(o),
    outputs = n * (1 + (o.transition == "highway" and 1 or 0) + (o.gain == "network" and 1 or 0)),
    loc = core.param(core.zeros({ n }, { dtype = o.dtype })),
    log_scale = core.param(core.zeros({ n }, { dtype = o.dtype })) }, class)
  self.net = network(n + o.inputs, o.hidden, o.activation, self.outputs, o)
  if o.gain == "shared" then
    self.raw_gain = core.param(core.full({ n }, 0.5, { dtype = o.dtype }))
  elseif o.gain ~= "network" then
    self.gain = given_gain(where, o)
  end
  return self
end

return residual_states
