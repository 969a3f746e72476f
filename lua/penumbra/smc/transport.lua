--- Resampling by optimal transport: in place of copies of particles, weighted means of them, which are differentiable.
-- help: pn.smc
local core = require "penumbra.core"
local options = require "penumbra.options"
local particle_state = require "penumbra.smc.particle_state"

local transport = {}

local function axes_last(x) -- [N, B..., d] -> [B..., N, d]
  local order = {}
  for k = 2, x:ndim() - 1 do
    order[#order + 1] = k
  end
  order[#order + 1], order[#order + 2] = 1, x:ndim()
  return #order > 2 and x:permute(order) or x
end

local function particles_last(w) -- [N, B...] -> [B..., N]
  local order = {}
  for k = 2, w:ndim() do
    order[#order + 1] = k
  end
  order[#order + 1] = 1
  return #order > 1 and w:permute(order) or w
end

-- Half squared distances of all pairs over their own scale: the largest deviation among the components times the root
-- of their number, which has no gradient. x [..., N, d] -> [..., N, N].
local function cost(x)
  local d = x:size(-1)
  local scale = x:detach():var(-2, 0, true):max(-1, true):sqrt() * math.sqrt(d)
  scale = core.where(scale:gt(0), scale, core.ones({}, { dtype = x:dtype() }))
  x = x / scale
  local square = x:square():sum(-1)
  local inner = x:matmul(x:transpose(-2, -1))
  return (square:unsqueeze(-1) + square:unsqueeze(-2)) / 2 - inner
end

--- transport(x, log_w [, {epsilon = 0.5, steps = 100}]): the matrix [B..., N, N] that moves weighted particles x
--- [N, B..., d] (or [N]) onto N of equal weight: particle i becomes sum_j T[i, j] x[j], with rows that sum to 1 and
--- columns that sum to N w[j], so that means are kept. It is N times the entropy-regularised transport plan for half
--- the squared distance, x being taken in units of its spread, by Sinkhorn's iterations in logarithms; differentiable
--- in x and log_w through them. Smaller epsilon: nearer to plain transport, and more iterations; larger: the particles
--- shrink towards their mean. Biased, as resampling is not. Corenflos, Thornton, Deligiannidis & Doucet 2021.
function transport.transport(x, log_w, given)
  local o = options.check("transport", given, { epsilon = 0.5, steps = 100 })
  options.argument("transport", "x", x, "tensor")
  options.argument("transport", "log_w", log_w, "tensor")
  options.whole("transport", "steps", o.steps, 1)
  if not (o.epsilon > 0) then
    core.error(("transport: epsilon must be positive, got %g"):format(o.epsilon))
  end
  x = x:ndim() == log_w:ndim() and x:unsqueeze(-1) or x
  if x:ndim() ~= log_w:ndim() + 1 then
    core.error(("transport: x must be [N, B..., d] for log_w [N, B...], got %d axes for %d"):format(x:ndim(),
      log_w:ndim()))
  end
  local n = log_w:size(1)
  local b = particles_last(log_w:log_softmax(1)) -- [B..., N], of the columns
  local k = -cost(axes_last(x)) / o.epsilon -- [B..., N, N]
  local a = -math.log(n) -- of the rows
  local g = core.zeros(b:shape(), { dtype = b:dtype() })
  local f
  for _ = 1, o.steps do
    f = a - (k + g:unsqueeze(-2)):logsumexp(-1)
    g = b - (k + f:unsqueeze(-1)):logsumexp(-2)
  end
  f = a - (k + g:unsqueeze(-2)):logsumexp(-1) -- rows hold exactly
  return (f:unsqueeze(-1) + k + g:unsqueeze(-2)):exp() * n
end

-- T [B..., N, N] applied to x [N, B..., event...].
local function apply(T, x, lead)
  local shape = x:shape()
  local flat = table.move(shape, 1, lead, 1, {})
  flat[lead + 1] = -1
  local y = T:matmul(axes_last(x:reshape(flat)))
  if lead > 1 then -- back to [N, B..., d]
    local order = { lead }
    for k = 1, lead - 1 do
      order[#order + 1] = k
    end
    order[#order + 1] = lead + 1
    y = y:permute(order)
  end
  return y:reshape(shape)
end

--- move(s, state, given): see s:transport. Internal.
function transport.move(s, state, given)
  if s.history then
    core.error "transport: a machine with history = true keeps ancestors, which transport does not have"
  end
  local log_w, size = s:log_weights(), s:effective_sample_size()
  if s:resample() == nil then
    return state
  end
  local parts, lead = {}, log_w:ndim()
  for k, x in ipairs(particle_state.flatten("transport", state, {})) do
    local flat = table.move(x:shape(), 1, lead, 1, {})
    flat[lead + 1] = -1
    parts[k] = x:reshape(flat)
  end
  local T = transport.transport(#parts > 1 and core.concatenate(parts, lead + 1) or parts[1], log_w, given)
  if s.threshold < 1 then -- filters that are not due keep their particles
    local due = size:le(s.threshold * s.num_particles):unsqueeze(-1):unsqueeze(-1)
    T = core.where(due, T, core.eye(s.num_particles, { dtype = T:dtype() }))
  end
  return particle_state.map("transport", function(x) return apply(T, x, lead) end, state)
end

return transport
