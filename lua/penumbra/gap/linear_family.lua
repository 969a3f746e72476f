--- The best linear Gaussian posterior under any mask, q(z_t | C_t) = N(G_t z + W_t x + o_t, D_t), of a linear Gaussian
--- system, by optimisation. With all z stacked q(z | x) is normal with the mean A (W x + o), A = (1 - G)^-1, and the
--- covariance A D A^T; the true posterior has the precision P and the mean K x + k. Then, S the covariance of the data,
---
---     E KL(q || p) = (tr(P A D A^T) - n T - log|P| - log|D| + tr(P B S B^T)) / 2,   B = A W - K
---
--- D_t = [A^T P A]_tt^-1 and W (a least squares problem on what the mask lets through) are closed for a given G, so
--- that only G is searched; where no z is seen nothing is. The minimum is over linear Gaussian q: where steps forget
--- what earlier ones saw a nonlinear one may lose less (Witsenhausen 1968).
-- help: none
local core = require "penumbra.core"
local joint_law = require "penumbra.gap.joint_law"
local lbfgs = require "penumbra.optim.lbfgs"
local linear_system = require "penumbra.smc.kalman.linear_system"
local recording = require "penumbra.autodiff.recording"

local mt, apply, symmetric = linear_system.mt, linear_system.apply, linear_system.symmetric

local linear_family = {}

-- ---- places ----

local function ints(list)
  return core.tensor(list, { dtype = "int64" })
end

-- Places of the free elements of G [T n, T n], as one flat index; nil where no z is seen.
local function free_states(mask, T, n)
  local places = {}
  for t = 2, T do
    for u = mask.latents == "none" and t or mask.latents == "all" and 1 or t - 1, t - 1 do
      for i = 0, n - 1 do
        for j = 0, n - 1 do places[#places + 1] = ((t - 1) * n + i) * T * n + (u - 1) * n + j end
      end
    end
  end
  return #places > 0 and ints(places) or nil
end

-- Rows and columns of the free elements of W [T n, T p]; nil where nothing is seen.
local function free_weights(mask, T, n, p)
  local rows, columns = {}, {}
  for t = 1, T do
    for i = 0, n - 1 do
      for _, s in ipairs(mask.seen[t]) do
        for j = 0, p - 1 do
          rows[#rows + 1], columns[#columns + 1] = (t - 1) * n + i, (s - 1) * p + j
        end
      end
    end
  end
  return #rows > 0 and { rows = ints(rows), columns = ints(columns) } or nil
end

-- ---- the objective ----

local function blocks(x, T, n)
  local list = {}
  for t = 1, T do
    local first, last = (t - 1) * n + 1, t * n
    list[t] = x:slice(-2, first, last):slice(-1, first, last)
  end
  return core.stack(list, 1)
end

-- The best weights for a given G, no graph: [T n, T p].
local function best_weights(self, inner, target)
  local free, size = self.free, self.T * self.n
  if not free then
    return core.zeros({ size, self.T * self.p }, { dtype = inner:dtype() })
  end
  local normal = inner:take(1, free.rows):take(2, free.rows) * self.cov:take(1, free.columns):take(2, free.columns)
  local flat = free.rows * (self.T * self.p) + free.columns
  local right = inner:matmul(target):matmul(self.cov):reshape { -1 }:take(1, flat)
  local root = normal:cholesky()
  if not root then
    core.error "linear_gaussian: the covariance of what the mask shows is singular"
  end
  return root:cholesky_solve(right):take_add(1, flat, size * self.T * self.p):reshape { size, self.T * self.p }
end

-- E KL(q || p) with the best D, and W, for G = `states` [T n, T n]; `weights`: W, or nil for the best.
local function loss(self, posterior, states, weights)
  local unit = core.eye(self.T * self.n, { dtype = states:dtype() })
  local back = unit - states
  local through = back:inverse()
  local inner = symmetric(mt(through):matmul(posterior.precision):matmul(through))
  local target = back:matmul(posterior.gain)
  weights = weights or recording.off(best_weights, self, inner:detach(), target:detach())
  local off = weights - target
  local own = blocks(inner, self.T, self.n)
  local value = (own:logdet():sum() - posterior.precision:logdet()
    + (inner:matmul(off) * off:matmul(self.cov)):sum()) * 0.5
  return value, weights, own
end

local function states_of(self, vector)
  local size = self.T * self.n
  if not vector then
    return core.zeros({ size, size }, { dtype = self.cov:dtype() })
  end
  return vector:take_add(1, self.index, size * size):reshape { size, size }
end

-- ---- the search ----

-- G of the true posterior, whose gain does not depend on x.
local function true_gains(self, truth)
  local flat = {}
  for t = 2, self.T do
    flat[t] = joint_law.padded(truth[t].gain:detach(), (t - 2) * self.n, (self.T - t + 1) * self.n)
  end
  flat[1] = flat[2] * 0
  return core.concatenate(flat, 1):reshape { -1 }:take(1, self.index)
end

-- One descent from `start`: {value, vector, gradient}.
local function descend(self, posterior, start, o)
  local vector = core.param(start)
  local opt = lbfgs.new({ vector }, { max_steps = o.max_steps, max_evaluations = 4 * o.max_steps, history = 50,
    tolerance_grad = o.tolerance, tolerance_change = 1e-16 })
  local function objective() return (loss(self, posterior, states_of(self, vector))) end
  local value = opt:step(objective)
  local gradient = core.grad(objective(), { vector })[1]:abs():max():item()
  return { value = value, vector = vector:detach() + 0, gradient = gradient }
end

local function search(self, posterior, truth, o)
  local best, values = nil, {}
  local generator = core.generator(o.seed)
  for k = 1, o.starts do
    local start = true_gains(self, truth)
    if k > 1 then
      start = start + core.randn(start:shape(), { generator = generator, dtype = start:dtype() }) * 0.5
    end
    local found = descend(self, posterior, start, o)
    values[k] = found.value
    if not best or found.value < best.value then best = found end
  end
  return best, values
end

-- ---- the result ----

-- What each step loses on its own: E KL(q(z_t | C_t) || p(z_t | z_(t-1), x)), [T].
local function step_losses(self, truth, states, weights, noise)
  local T, n = self.T, self.n
  local through = (core.eye(T * n, { dtype = states:dtype() }) - states):inverse()
  local by_data = through:matmul(weights)
  local noise_cov = {}
  for t = 1, T do noise_cov[t] = joint_law.padded(noise[t], (t - 1) * n, (T - t) * n) end
  local spread = through:matmul(core.concatenate(noise_cov, 1)):matmul(mt(through))
  local list = {}
  for t = 1, T do
    local first, last = (t - 1) * n + 1, t * n
    local gain = states:slice(1, first, last)
    if t > 1 then
      gain = gain - joint_law.padded(truth[t].gain, (t - 2) * n, (T - t + 1) * n)
    end
    local off = gain:matmul(by_data) + weights:slice(1, first, last) - truth[t].cov:matmul(truth[t].message)
    local moment = off:matmul(self.cov):matmul(mt(off)) + gain:matmul(spread):matmul(mt(gain)) + noise[t]
    list[t] = (truth[t].cov:solve(moment):diagonal():sum() - n + truth[t].cov:logdet() - noise[t]:logdet()) * 0.5
  end
  return core.stack(list, 1)
end

-- Blocks (t, t - 1) of G.
local function gains_of(states, T, n)
  local list = { states:slice(1, 1, n):slice(2, 1, n) * 0 }
  for t = 2, T do list[t] = states:slice(1, (t - 1) * n + 1, t * n):slice(2, (t - 2) * n + 1, (t - 1) * n) end
  return core.stack(list, 1)
end

--- best(s, steps, truth, mask, mean, cov, o): the best linear Gaussian q of a system that was read, its operands by
--- step, the true posterior of each step, a mask, mean and covariance of the data, and the options of linear_gaussian;
--- the table that linear_gaussian gives, or nil, message, code.
function linear_family.best(s, steps, truth, mask, mean, cov, o)
  local posterior, message, code = joint_law.posterior(steps)
  if not posterior then
    return nil, "linear_gaussian: transition_cov and emission_cov must have inverses: " .. message, code
  end
  local T, n, p = s.steps, s.n, s.p
  local self = { T = T, n = n, p = p, cov = cov, index = free_states(mask, T, n), free = free_weights(mask, T, n, p) }
  local still = { precision = posterior.precision:detach(), gain = posterior.gain:detach(),
    offset = posterior.offset:detach() }
  local best, values = { gradient = 0 }, nil
  if self.index then
    best, values = search(self, still, truth, o)
  end
  local states = states_of(self, best.vector)
  local _, weights, own = recording.off(loss, self, still, states)
  local noise = recording.off(core.inverse, own)
  -- q is held at its optimum: gradients are those of the system alone
  local value = loss(self, posterior, states, weights)
  local offset = apply(core.eye(T * n, { dtype = cov:dtype() }) - states, still.offset
    + apply(still.gain, mean)) - apply(weights, mean)
  return { gap = value, gaps = step_losses(self, truth, states, weights, noise), cov = noise,
    gain = gains_of(states, T, n), states = states:reshape { T, n, T, n }, weights = weights:reshape { T, n, T, p },
    offset = offset:reshape { T, n }, method = self.index and "optimisation" or "closed form", exact = not self.index,
    settled = best.gradient <= o.tolerance, gradient = best.gradient, starts = values }
end

return linear_family
