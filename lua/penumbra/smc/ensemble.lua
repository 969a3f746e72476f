--- The ensemble Kalman filter, and a taper for it: see pn.help "penumbra.smc.nonlinear".
-- help: pn.smc, quiet
local core = require "penumbra.core"
local linear_system = require "penumbra.smc.kalman.linear_system"
local options = require "penumbra.options"
local system_of = require "penumbra.smc.nonlinear_system"

local ensemble = {}

local mt, outer, apply, common_options, require_end, read, sweep, finish =
  system_of.mt, system_of.outer, system_of.apply, system_of.common_options, system_of.require_end, system_of.read,
  system_of.sweep, system_of.finish

local ensemble_options = options.merged(common_options, { num_particles = options.required "number",
  update = options.choice("stochastic", "transform"), inflation = 1, taper = options.optional "tensor",
  emission_taper = options.optional "tensor", generator = options.optional "generator" })

-- Weighted by what is observed: elements that are not have no deviation, no innovation and variance 1.
local function masked_noise(r, there)
  local unit = core.eye(r:size(-1), { dtype = r:dtype() })
  return r * outer(there, there) + unit * (1 - there):unsqueeze(-1)
end

-- A root of a covariance that is positive definite, or nil, message, code.
local function draw_noise(cov, shape, generator)
  local l, message, code = cov:cholesky()
  if not l then
    return nil, message, code
  end
  return apply(l, core.randn(shape, { generator = generator, dtype = cov:dtype() }))
end

-- Analysis of Evensen (1994) with perturbed observations (Burgers, van Leeuwen & Evensen 1998).
local function stochastic(s, o, x, z, v, r, there, parts)
  local noise, message, code = draw_noise(r, z:shape(), o.generator)
  if not noise then
    return nil, message, code
  end
  noise = noise - noise:mean(1) -- without a mean of its own
  if there then
    noise = noise * there
    v = v * there
  end
  local gain = mt(parts.root:cholesky_solve(mt(parts.cross)))
  return x + apply(gain, v - (z - parts.centre) + noise), s
end

-- The ensemble transform of Bishop, Etherton & Majumdar (2001) by the symmetric root (Hunt, Kostelich & Szunyogh 2007):
-- deviations times (I + w' w)^(-1/2), w whitened deviations of observations [p, N]. With w w' = u diag(k) u' this is
-- I - w' u diag(1 / (sqrt(1 + k) (1 + sqrt(1 + k)))) u' w, so that nothing of N by N elements is needed.
local function transform(_, _, x, z, v, r, _, parts)
  local l, message, code = r:cholesky()
  if not l then
    return nil, message, code
  end
  local count, order, back = x:size(1), {}, { x:ndim() }
  for i = 2, x:ndim() do
    order[i - 1], back[i] = i, i - 1
  end
  order[x:ndim()] = 1
  local white = l:solve_triangular((z - parts.centre):permute(order)) / math.sqrt(count - 1) -- [..., p, N]
  local innovation = l:solve_triangular(v:unsqueeze(-1)) / math.sqrt(count - 1)
  local k, u = white:matmul(mt(white)):eigh()
  local root = (k + 1):sqrt()
  local function by(d, b) -- u diag(d) u' b
    return u:matmul(d:unsqueeze(-1) * mt(u):matmul(b))
  end
  local spread = (x - parts.mean):permute(order) -- [..., n, N]
  local onto = spread:matmul(mt(white))
  local mean = parts.mean + onto:matmul(by((k + 1) ^ -1, innovation)):squeeze(-1)
  return mean + (spread - onto:matmul(by(((root + 1) * root) ^ -1, white))):permute(back)
end

--- ensemble(system, y, {num_particles = N [, ...]}): the ensemble Kalman filter: moments are those of N states that are
--- moved by f with noise of their own, and f is never linearised: for states of any size. pn.help
--- "penumbra.smc.nonlinear" tells of the system, the results and the options of all; further results: ensemble [N,
--- B..., n] at the last step. Noises must be positive definite. Further options:
---
--- update           "stochastic" (perturbed observations) or "transform" (deterministic: the ensemble transform)
--- inflation        1: the factor by which deviations from the mean grow before each update
--- taper            [n, p], for "stochastic": what covariances of states with observations are multiplied with, so that
---                  far ones, which a small ensemble only gets wrong, do not count (see gaspari_cohn)
--- emission_taper   [p, p]: likewise for covariances of observations
--- generator        a pn.generator
function ensemble.ensemble(system, y, given)
  linear_system.refuse_missing("ensemble", given)
  local o = options.check("ensemble", given, ensemble_options)
  local count = options.whole("ensemble", "num_particles", o.num_particles, 2)
  local s = read("ensemble", system, y, o)
  if o.update == "transform" and (o.taper or o.emission_taper) then
    core.error "ensemble: taper must be absent with update = 'transform'"
  end
  for name, shape in pairs { taper = { s.n, s.p }, emission_taper = { s.p, s.p } } do
    if o[name] then
      require_end("ensemble", name, o[name], table.unpack(shape))
    end
  end
  local shape = table.move(s.mean:shape(), 1, s.mean:ndim(), 2, { count })
  local start, message, code = draw_noise(s.cov, shape, o.generator)
  if not start then
    return nil, "ensemble: initial_cov: " .. message, code
  end
  local x = s.mean + start
  local function covariance(a, b)
    return (a:unsqueeze(-1) * b:unsqueeze(-2)):sum(1) / (count - 1)
  end
  local function summary()
    local mean = x:mean(1)
    return mean, covariance(x - mean, x - mean)
  end
  local function predict(_, _, t)
    local noise, why, kind = draw_noise(s.q(t), shape, o.generator)
    if not noise then
      return nil, why, kind
    end
    x = s.f(x, t) + noise
    if o.inflation ~= 1 then
      local mean = x:mean(1)
      x = mean + (x - mean) * o.inflation
    end
    return summary()
  end
  local function update(_, _, t)
    local z, r = s.h(x, t), s.r(t)
    local there = s.observed and s.observed[t]:to(r:dtype())
    local parts = { centre = z:mean(1), mean = x:mean(1) }
    local v = s.y[t] - parts.centre
    if there then
      z, v, r = parts.centre + (z - parts.centre) * there, v * there, masked_noise(r, there)
    end
    local spread = covariance(z - parts.centre, z - parts.centre)
    parts.cross = covariance(x - parts.mean, z - parts.centre)
    parts.cross = o.taper and parts.cross * o.taper or parts.cross
    local why, kind
    parts.root, why, kind = ((o.emission_taper and spread * o.emission_taper or spread) + r):cholesky()
    if not parts.root then
      return nil, why, kind
    end
    local white = parts.root:solve_triangular(v:unsqueeze(-1)):squeeze(-1)
    local log_prob = -white:square():sum(-1) * 0.5 - mt(parts.root):diagonal():log():sum(-1)
      - 0.5 * core.log_2pi * (there and there:sum(-1) or s.p)
    x, why, kind = (o.update == "transform" and transform or stochastic)(s, o, x, z, v, r, there, parts)
    if not x then
      return nil, why, kind
    end
    local mean, cov = summary()
    return mean, cov, log_prob
  end
  local out, lists, cross = sweep(s, predict, update)
  out, message, code = finish(s, o, out, lists, cross)
  if out then
    out.ensemble = x
  end
  return out, message, code
end

--- gaspari_cohn(distance, radius): a taper for pn.smc.ensemble: a correlation that falls smoothly from 1 at distance 0
--- to 0 at 2 radius and is 0 beyond, positive definite in up to three dimensions; of a tensor of distances. Gaspari &
--- Cohn 1999 (4.10).
function ensemble.gaspari_cohn(distance, radius)
  distance = options.numbers("gaspari_cohn", "distance", distance, "tensor")
  options.argument("gaspari_cohn", "radius", radius, "number")
  if not (radius > 0) then
    core.error(("gaspari_cohn: radius must be positive, got %s"):format(radius))
  end
  local z = distance:abs() / radius
  local near = ((z * -0.25 + 0.5) * z + 0.625) * z ^ 3 - z:square() * (5 / 3) + 1
  local safe = z:clamp(1, math.huge)
  local far = ((safe / 12 - 0.5) * safe + 0.625) * safe ^ 3 + safe:square() * (5 / 3) - safe * 5 + 4 - (2 / 3) / safe
  local none = core.zeros({}, { dtype = z:dtype() })
  return core.where(z:le(1), near, core.where(z:lt(2), far, none))
end

return ensemble
