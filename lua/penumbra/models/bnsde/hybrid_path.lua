--- Paths of a hybrid neural SDE, dh = (f(h, t) + gamma r(h, t)) dt + G(h, t) dW, by Euler-Maruyama, and their
--- divergence from the prior SDE dh = gamma r dt + G dW (lemma 1 of Haussmann 2021): of the discrete chains, whose
--- steps are normal with one covariance G G' dt, it is exactly the expectation over paths of the hybrid of
---
---     sum_k 1/2 f_k' (G_k G_k')^-1 f_k dt_k
---
--- where gamma r cancels. The draw of the Wiener process that moves a path is that of its divergence.
-- help: nowhere
local core = require "penumbra.core"
local drift_weights = require "penumbra.models.bnsde.drift_weights"
local options = require "penumbra.options"

local hybrid_path = {}

local shape_text = options.shape_text

-- What a script's function gave, which must be like h.
local function like(role, value, h)
  if not core.is_tensor(value) or shape_text(value) ~= shape_text(h) or value:dtype() ~= h:dtype() then
    core.error(("bnsde: %s(t, h) must return a %s tensor of h's shape %s, got %s"):format(role, h:dtype(),
      shape_text(h), core.is_tensor(value) and value:dtype() .. " " .. shape_text(value) or type(value)))
  end
  return value
end

-- ---- drift and diffusion ----

--- network(model, weights, k, t, h): f at the k-th step.
function hybrid_path.network(self, weights, k, t, h)
  if self.time then
    local shape = h:shape()
    shape[#shape] = 1
    h = core.concatenate({ h, t:broadcast_to(shape) }, -1)
  end
  return drift_weights.apply(weights, k, h)
end

--- prior(model, t, h): gamma r; nil for a model without.
function hybrid_path.prior(self, t, h)
  return self.prior_drift and self.gamma * like("prior_drift", self.prior_drift(t, h), h) or nil
end

--- scale(model, t, h): the diagonal of G.
function hybrid_path.scale(self, t, h)
  return self.diffusion_function and like("diffusion", self.diffusion_function(t, h), h) or self.scale
end

-- ---- the grid of steps ----

--- grid(b): the Euler steps of trajectories: {steps = K, t = [K, N, 1], dt = [K, N, 1], at = list of the positions of
--- the counted observations among the K + 1 states, from 1}.
function hybrid_path.grid(b)
  local t, index, share, whole, at = b.times:t(), {}, {}, {}, {}
  if b.counted == b.first then at[1] = 1 end
  for k = b.first, b.steps - 1 do
    for j = 1, b.parts[k] do
      index[#index + 1], share[#share + 1], whole[#whole + 1] = k - 1, (j - 1) / b.parts[k], 1 / b.parts[k]
    end
    at[#at + 1] = #index + 1
  end
  local g = { steps = #index, at = at }
  if g.steps > 0 then
    index = core.tensor(index, { dtype = "int64" })
    local from, width = t:take(1, index), t:take(1, index + 1) - t:take(1, index)
    local function column(list) return core.tensor(list, { dtype = t:dtype() }):unsqueeze(2) end
    g.t, g.dt = (from + width * column(share)):unsqueeze(3), (width * column(whole)):unsqueeze(3)
  end
  return g
end

-- ---- paths ----

--- run(model, h, grid, weights, noise): from h [S, N, P], with standard normals noise [K, S, N, P]: states, a list of
--- K + 1, and the divergence [S, N] of each path; without noise the paths do not diffuse.
function hybrid_path.run(self, h, grid, weights, noise)
  local states, drifts, scales = { h }, {}, {}
  local moved = noise and noise * grid.dt:sqrt():unsqueeze(2)
  if moved and self.scale then moved = moved * self.scale end
  for k = 1, grid.steps do
    local t = grid.t[k]
    local f = hybrid_path.network(self, weights, k, t, h)
    local r = hybrid_path.prior(self, t, h)
    drifts[k] = f
    local next_h = h + (r and f + r or f) * grid.dt[k]
    if self.diffusion_function then
      scales[k] = hybrid_path.scale(self, t, h)
      next_h = moved and next_h + scales[k] * moved[k] or next_h
    elseif moved then
      next_h = next_h + moved[k]
    end
    h, states[k + 1] = next_h, next_h
  end
  local scale = self.diffusion_function and core.stack(scales, 1) or self.scale
  local kl = ((core.stack(drifts, 1) / scale):square() * grid.dt:unsqueeze(2)):sum(4):sum(1) * 0.5
  return states, kl
end

return hybrid_path
