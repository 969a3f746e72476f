--- The laws of switches of a switching linear system: Gaussian ones, which may depend on the state of the linear
--- system, and categorical ones, kept as one of K. Internal to penumbra.models.switching_system, whose models are
--- `self` here.
---
--- gaussian      s_1 ~ N(loc(u_1), diag),  s_t = F(s_{t-1}) x_{t-1} + f(s_{t-1}, u_t) + N(0, diag S(s_{t-1}))
---               without recurrence F = 0
--- categorical   s_1 ~ softmax(first),  s_t ~ softmax(row s_{t-1} of the transition)
---
--- A kind has new(o) (its parameters), first(self, at), next(self, held, state, at), law(found), the distribution of
--- what those two give, coded(self, s), a draw of it as a switch, draw(self, law, state, q, seen, shape) -> s, log p(s)
--- - log pi(s) (nil for 0), and onward(self, law, mean, noise) for paths whose state is drawn.
--- Source: Kurle, Rangapuram, de Bezenac, Guennemann & Gasthaus 2020, sections 2.3 and 3.1.
-- help: none
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local ladder = require "penumbra.models.ladder"
local nn = require "penumbra.nn"
local switching = require "penumbra.smc.switching"

local switch_law = {}

local function with_last(shape, size)
  local wide = table.move(shape, 1, #shape, 1, {})
  wide[#wide + 1] = size
  return wide
end

-- ---- Gaussian switches ----

local gaussian = {}

-- f(s, u): the first layer is the sum of one of s and one of u, which is done for all steps at once.
function gaussian.new(o)
  local own = { offset = { s = nn.linear(o.switches, o.transition_hidden, { dtype = o.dtype }),
    rest = nn.sequential { nn.leaky_relu(), nn.linear(o.transition_hidden, o.switches, { dtype = o.dtype }) } } }
  if o.inputs > 0 then
    own.offset.u = nn.linear(o.inputs, o.transition_hidden, { dtype = o.dtype, bias = false })
    own.first = nn.linear(o.inputs, 2 * o.switches, { dtype = o.dtype })
  else
    own.loc = core.param(core.zeros({ o.switches }, { dtype = o.dtype }))
    own.log_inverse_scale = core.param(core.zeros({ o.switches }, { dtype = o.dtype }))
  end
  return own
end

--- inputs(self, u): what the law needs of covariates u [T, B, k], for all steps at once.
function gaussian.inputs(self, u)
  return self.switch.offset.u and self.switch.offset.u(u)
end

--- first(self, at): the law of s_1, from the covariates where there are any.
function gaussian.first(self, at)
  local own, k = self.switch, self.switches
  if own.first then
    local y = own.first(at.u)
    return { loc = y:slice(-1, 1, k), variance = y:slice(-1, k + 1, 2 * k):softplus():square() + self.floor }
  end
  return { loc = own.loc, variance = (own.log_inverse_scale * -2):exp() + self.floor }
end

local function offset_of(self, s, at)
  local own = self.switch.offset
  local h = own.s(s)
  return own.rest(at.switch_inputs and h + at.switch_inputs or h)
end

--- next: the law of s_t, the state x_{t-1} summed out; `link` is what ties the two.
function gaussian.next(self, held, state, at)
  local m = held(state.weights, "recurrence")
  local offset = offset_of(self, state.s, at)
  if not m.f then
    return { loc = offset, variance = m.s }
  end
  return { link = { matrix = m.f, offset = offset, variance = m.s } }
end

--- law(found): the distribution.
function gaussian.law(found)
  return dist.normal(found.loc, found.variance:sqrt()):independent(1)
end

--- coded(self, s): a draw of the distribution as it is.
function gaussian.coded(_, s)
  return s
end

--- draw(self, law, state, q, seen, shape, generator): s_t by the law (law.link: the filter's), or by its product with
--- the encoder's q where something was seen; second log p(s_t) - log pi(s_t), nil where they are the same.
function gaussian.draw(self, law, state, q, seen, shape, generator)
  local noise = core.randn(with_last(shape, self.switches), { dtype = self.dtype, generator = generator })
  local log_z
  local s
  if law.link then
    local loc, cov = switching.summed_out(state.mean, state.cov, law.link)
    if q then
      loc, cov, log_z = ladder.product(loc, cov, q, seen)
    end
    s = ladder.draw(loc, cov, noise)
  else
    local loc, variance = law.loc, law.variance
    if q then
      loc, variance, log_z = ladder.product_of_diagonals(loc, variance, q, seen)
    end
    s = loc + variance:sqrt() * noise
  end
  return s, q and ladder.log_ratio(log_z, s, q, seen) or nil
end

--- onward: s_t of a path whose x_{t-1} = x is known.
function gaussian.onward(self, law, x, shape, generator)
  local noise = core.randn(with_last(shape, self.switches), { dtype = self.dtype, generator = generator })
  if not law.link then
    return law.loc + law.variance:sqrt() * noise
  end
  local link = law.link
  return link.matrix:matmul(x:unsqueeze(-1)):squeeze(-1) + link.offset + link.variance:sqrt() * noise
end

-- ---- categorical switches ----

local categorical = {}

--- new(o): logits of s_1, and of s_t given s_{t-1}, which begin by staying.
function categorical.new(o)
  local options = { dtype = o.dtype }
  local stay = core.eye(o.switches, { dtype = o.dtype }) * o.stay
  return { logits = core.param(core.zeros({ o.switches }, options)),
    transition = core.param(stay + core.randn({ o.switches, o.switches }, options) * 0.1) }
end

--- inputs: covariates do not enter.
function categorical.inputs()
  return nil
end

--- first(self): the law of s_1.
function categorical.first(self)
  return { logits = self.switch.logits:log_softmax(-1) }
end

--- next(self, held, state): the law of s_t given s_{t-1}.
function categorical.next(self, _, state)
  return { logits = state.s:matmul(self.switch.transition:log_softmax(-1)) }
end

--- law(found): the distribution of labels.
function categorical.law(found)
  return dist.categorical { logits = found.logits }
end

--- coded(self, s): labels as one of K.
function categorical.coded(self, s)
  local labels = core.arange(self.switches, { dtype = "int64" })
  return s:dtype() == "int64" and s:unsqueeze(-1):eq(labels):to(self.dtype) or s
end

-- One of K, drawn; draws have no path, so that the slope of their log-probability is part of the weight.
function categorical.draw(self, law, _, q, seen, shape, generator)
  local wide = with_last(shape, self.switches)
  local log_p = law.logits:broadcast_to(wide)
  local log_pi = q and seen:where((log_p + q.loc):log_softmax(-1), log_p) or log_p
  local label = dist.categorical { logits = log_pi:detach() }:sample { generator = generator }
  local s = categorical.coded(self, label)
  local log_q = (s * log_pi):sum(-1)
  if not log_q:requires_grad() and not q then
    return s, nil
  end
  return s, (s * log_p):sum(-1) - log_q:detach()
end

--- onward: s_t of a path; x_{t-1} does not enter.
function categorical.onward(self, law, _, shape, generator)
  return (categorical.draw(self, law, nil, nil, nil, shape, generator))
end

switch_law.gaussian, switch_law.categorical = gaussian, categorical

return switch_law
