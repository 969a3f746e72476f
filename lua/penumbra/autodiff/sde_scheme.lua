--- Steps of schemes for stochastic differential equations, as functions of tensors that pn.sde captures. A problem `p`
--- has drift(t, y), diffusion(t, y), its kind of noise and its calculus; a step takes (p, t, h, y, w, area) and gives y
--- one step later. w are the increments of the Brownian motions over the step, h its length; area their space-time
--- Levy areas H ~ N(0, h / 12).
-- help: none
local core = require "penumbra.core"

local scheme = {}

-- ---- noise ----

-- g w for each path: by element, or summed over the last axis where g has one for the motions.
local function product(p, g, w)
  if p.noise ~= "general" then
    return g * w
  end
  local shape = g:shape()
  for k = p.batched and 2 or 1, #shape - 1 do
    shape[k] = 1
  end
  return (g * w:reshape(shape)):sum(-1)
end

-- The slope of x along v, both shaped like y, by the gradient of u . x, which is linear in u.
local function along(x, y, v)
  if not x:requires_grad() then
    return nil
  end
  local u = (x:detach() * 0):requires_grad(true)
  local g = core.grad((x * u):sum(), { y }, { create_graph = true })[1]
  local slope = g:requires_grad() and (g * v):sum()
  return slope and slope:requires_grad() and core.grad(slope, { u }, { create_graph = true })[1] or nil
end

-- The motions' columns of g, each shaped like y.
local function columns(p, g)
  if p.noise ~= "general" then
    return { g }
  end
  local list = {}
  for j = 1, g:size(-1) do
    list[j] = g:slice(-1, j, j):squeeze(-1)
  end
  return list
end

-- The sum over motions j of the slope of column j along itself: g dg/dy with noise by element. nil: it is 0.
local function own_slope(p, g, y)
  if not g:requires_grad() then
    return nil
  elseif p.noise == "diagonal" then
    return g * core.grad(g:sum(), { y }, { create_graph = true })[1]
  end
  local sum
  for _, column in ipairs(columns(p, g)) do
    local slope = along(column, y, column)
    sum = slope and (sum and sum + slope or slope) or sum
  end
  return sum
end

--- The first two motions, j and k, whose columns of the diffusion have another slope along each other than the other
--- way round at (t, y); nil: all commute. y must be differentiable.
function scheme.clash(p, t, y)
  local list = columns(p, p.diffusion(t, y))
  local zero = y:detach() * 0
  for k = 2, #list do
    for j = 1, k - 1 do
      local one, other = along(list[k], y, list[j]) or zero, along(list[j], y, list[k]) or zero
      local size = (one:abs() + other:abs()):max():item()
      if (one - other):abs():max():item() > 1e-4 * size then
        return j, k
      end
    end
  end
end

-- ---- drift ----

-- Drift and diffusion at (t, y), the drift as the calculus of Stratonovich has it: that of Ito less half the slope of
-- the diffusion along itself.
local function stratonovich(p, t, y)
  local f, g = p.drift(t, y), p.diffusion(t, y)
  local slope = p.calculus == "ito" and own_slope(p, g, y)
  return slope and f - slope / 2 or f, g
end

-- ---- schemes ----

-- y + f h + g w (Maruyama 1955): Ito.
local function euler_maruyama(p, t, h, y, w)
  return y + p.drift(t, y) * h + product(p, p.diffusion(t, y), w)
end

-- Euler-Maruyama and half of g dg/dy (w^2 - h), of Stratonovich w^2 (Milstein 1974). With several motions that commute
-- the slopes of their columns along each other, (Dg (g w)) w less sum_j (Dg_j g_j) h (Kloeden & Platen 1992, 10.3.16).
local function milstein(p, t, h, y, w)
  local g = p.diffusion(t, y)
  local next = y + p.drift(t, y) * h + product(p, g, w)
  if not g:requires_grad() then
    return next
  elseif p.noise == "diagonal" or p.noise == "scalar" then
    local slope = own_slope(p, g, y)
    local square = p.calculus == "ito" and w * w - h or w * w
    return slope and next + slope * square / 2 or next
  end
  local change = product(p, g, w)
  local slope, own = along(change, y, change), p.calculus == "ito" and own_slope(p, g, y)
  -- (the slope of g w along g w has w twice already)
  next = slope and next + slope / 2 or next
  return own and next - own * h / 2 or next
end

-- The trapezoidal rule from Euler's step: Stratonovich.
local function heun(p, t, h, y, w)
  local f, g = stratonovich(p, t, y)
  local f1, g1 = stratonovich(p, t + h, y + f * h + product(p, g, w))
  return y + (f + f1) * h / 2 + product(p, (g + g1) / 2, w)
end

-- The same of the noise alone: Stratonovich.
local function euler_heun(p, t, h, y, w)
  local f, g = stratonovich(p, t, y)
  local g1 = p.diffusion(t, y + product(p, g, w))
  return y + f * h + product(p, (g + g1) / 2, w)
end

-- SRA1 of Roessler (2010), strong order 1.5 for diffusions that do not depend on y: with I = h (w / 2 + area), the
-- integral of the motion over the step, stages at t and t + 3/4 h.
local function sra1(p, t, h, y, w, area)
  local mean = w / 2 + area -- I / h
  local g, g1, f = p.diffusion(t, y), p.diffusion(t + h, y), p.drift(t, y)
  local stage = y + f * h * 0.75 + product(p, g1, mean) * 1.5
  local next = y + (f + p.drift(t + h * 0.75, stage) * 2) * h / 3
  return next + product(p, g1, w - mean) + product(p, g, mean)
end

-- Kidger, Foster, Li & Lyons (2021), algebraically reversible: with -h and -w from the end it is undone. The state is
-- y and the point z at which drift and diffusion are taken.
local function reversible_heun(p, t, h, state, w)
  local y, z = state[1], state[2]
  local f, g = stratonovich(p, t, z)
  local z1 = y * 2 - z + f * h + product(p, g, w)
  local f1, g1 = stratonovich(p, t + h, z1)
  return core.stack({ y + (f + f1) * h / 2 + product(p, (g + g1) / 2, w), z1 }, 1)
end

-- Of each scheme: its step, its calculus (nil: both), its strong order with noise whose motions commute where that is 1
-- or more, whether it takes slopes of the diffusion itself, areas, how many arrays its state has, whether its steps can
-- be undone, and whether it needs a diffusion that y does not enter.
scheme.rows = {
  euler_maruyama = { step = euler_maruyama, calculus = "ito" },
  milstein = { step = milstein, order = 1, slopes = true },
  heun = { step = heun, order = 1 },
  euler_heun = { step = euler_heun, order = 1 },
  sra1 = { step = sra1, order = 1.5, additive = true, area = true },
  reversible_heun = { step = reversible_heun, states = 2, reversible = true },
}
scheme.names = { "euler_maruyama", "milstein", "heun", "euler_heun", "sra1", "reversible_heun" }

return scheme
