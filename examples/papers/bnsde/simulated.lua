--- What the experiments of this folder share: the simulators of Haussmann 2021, 6.4.1 and 6.4.2, prior SDEs without a
--- network, and what forecasts are judged by. It does nothing when it is run by itself.
local pn = require "penumbra"
pn.default_dtype "float64"

local simulated = {}

--- report(experiment, option, name): experiment.report, or with --quick the terminal alone.
function simulated.report(experiment, option, name)
  return option.quick and function(form, ...) print((form:format(...))) end or experiment.report(option, name)
end

-- ---- equations: r(theta) gives the drift (t, h) for parameters theta, a list of numbers ----

local function coordinates(h) return h:slice(-1, 1, 1), h:slice(-1, 2, 2), h:slice(-1, 3, 3) end

simulated.lotka_volterra = { theta = { 2, 1, 4, 1 }, diffusion = { 0.2, 0.3 }, start = { 5, 3 },
  drift = function(th)
    return function(_, h)
      local x, y = h:slice(-1, 1, 1), h:slice(-1, 2, 2)
      return pn.concatenate({ x * th[1] - x * y * th[2], x * y * th[4] - y * th[3] }, -1)
    end
  end }

simulated.lorenz = { theta = { 10, 28, 2.67 }, diffusion = { 1, 1, 1 }, start = { 1, 1, 28 },
  drift = function(th)
    return function(_, h)
      local x, y, z = coordinates(h)
      return pn.concatenate({ (y - x) * th[1], x * (th[2] - z) - y, x * y - z * th[3] }, -1)
    end
  end }

--- draw(equation, {steps = observations, every = 100, dt = 1e-4, seed =}): one realisation by Euler-Maruyama, of which
--- every so many steps one is kept, the start too: [steps, P].
function simulated.draw(equation, o)
  local drift, n = equation.drift(equation.theta), #equation.start
  local scale = pn.tensor(equation.diffusion) * o.dt ^ 0.5
  local generator = pn.generator(o.seed)
  local leap = pn.compile(function(h, noise)
    for k = 1, o.every do h = h + drift(nil, h) * o.dt + noise[k] end
    return h
  end)
  local h, list = pn.tensor(equation.start):unsqueeze(1), {}
  for k = 1, o.steps do
    list[k] = h:squeeze(1)
    h = leap(h, scale * pn.randn({ o.every, 1, n }, { generator = generator }))
  end
  return pn.stack(list, 1)
end

--- windows(path, {from =, every =, count =, size =, dt = 0.01}): a batch of `count` pieces of `size` steps, one begun
--- every so many steps of [steps, P].
function simulated.windows(path, o)
  local list = {}
  for k = 1, o.count do
    local first = o.from + (k - 1) * o.every
    list[k] = path:slice(1, first, first + o.size - 1)
  end
  return { y = pn.stack(list, 2), times = pn.arange(o.size):to "float64" * (o.dt or 0.01) }
end

--- prior(equation, theta, noise): the SDE of these parameters alone, a model whose network is nothing.
function simulated.prior(equation, theta, noise)
  local n = #equation.start
  local net = pn.nn.linear(n, n)
  for _, p in ipairs(net:parameters()) do p:set(pn.zeros(p:shape())) end
  return pn.models.bnsde { size = n, network = net, posterior_scale = 1e-300, diffusion = equation.diffusion,
    noise = noise, prior_drift = equation.drift(theta) }
end

--- disturbed(theta, scale, seed [, positive]): the parameters with normal noise; with `positive` drawn until all are.
function simulated.disturbed(theta, scale, seed, positive)
  local generator = pn.generator(seed)
  repeat
    local drawn = pn.tensor(theta):to "float64" + scale * pn.randn({ #theta }, { generator = generator })
    if not positive or drawn:min():item() > 0 then return drawn:totable() end
  until false
end

-- ---- judging ----

--- judge(m, batch, {draws =, step = 0.01, width = 2, limit =, generator =}): paths from each window's first observation
--- on: {mse of their mean, over all numbers and steps, the first one, which is exact, too; cover: share of the truth
--- within `width` standard deviations of the mean, the first one left out; spread: the mean standard deviation}. Paths
--- that go beyond +-limit count as `lost`, a share, and the others are judged. Then paths, mean and deviation.
function simulated.judge(m, batch, o)
  local steps = batch.y:size(1)
  local h = m:forecast({ y = batch.y:slice(1, 1, 1), times = pn.zeros { 1 } }, steps - 1, { draws = o.draws,
    step = o.step or 0.01, mode = "state", generator = o.generator })
  local truth = batch.y:slice(1, 2, steps)
  local fine = h:abs():le(o.limit):to("float64"):min(4):min(2) -- [S, B]: the whole path
  local kept = fine:unsqueeze(2):unsqueeze(4)
  local count = kept:sum(1)
  h = pn.where(kept:gt(0):broadcast_to(h:shape()), h, pn.zeros {})
  local mean = h:sum(1) / count
  local sd = (((h - mean):square() * kept):sum(1) / (count - 1)):sqrt()
  local off = (mean - truth):abs()
  return { mse = off:square():sum():item() / batch.y:numel(), cover = off:le(sd * (o.width or 2)):to("float64")
    :mean():item(), spread = sd:mean():item(), lost = 1 - fine:mean():item() }, h, mean, sd
end

return simulated
