--- The normal law nearest to predecessor times likelihoods: the ELBO's maximum by Adam, steps replayed (Kurle et al.
--- 2020, equations 2, 4 and 7).
--
-- The working parameters, the optimiser and the generator are scratch: every run sets them first, so that a run gives
-- the same bits whatever ran or failed before it.
-- help: none
local core = require "penumbra.core"
local observation = require "penumbra.continual.observation"
local optim = require "penumbra.optim"
local recording = require "penumbra.autodiff.recording"
local replay = require "penumbra.autodiff.replay"

local projection = {}

local POINTS <const> = 20 -- of the curve that a run reports

--- new(model, {draws =, betas =, learn_noise =, unit =}): what runs projections of this model. Its step serves all
--- predecessors, weights and data of the same shapes. unit: [P], what the means are counted in for the optimiser; nil
--- is 1.
function projection.new(model, o)
  local how = { dtype = model.net.dtype }
  local function vector() return core.param(core.zeros({ model.net.size }, how)) end
  local unit = o.unit and o.unit:to(model.net.dtype)
  local self = { model = model, learn_noise = o.learn_noise, unit = unit, generator = core.generator(0),
    mean = vector(), log_scale = vector() }
  local list = { self.mean, self.log_scale }
  if o.learn_noise then
    self.log_noise = core.param(core.zeros({}, how))
    list[3] = self.log_noise
  end
  self.optimiser = optim.adam(list, { beta1 = o.betas[1], beta2 = o.betas[2] })
  self.fresh = self.optimiser:state()
  local counted, log_scale, own_noise = self.mean, self.log_scale, self.log_noise
  local generator, draws = self.generator, o.draws
  -- KL(q || p) but for what q has no part in, minus the expected log likelihoods times their weights, and minus that of
  -- `past` data as a function of the noise: past[1] numbers, whose expected squares sum to past[2]
  self.step = replay.compile(function(x, y, weights, eta, precision, log_noise, past)
    local mean, variance = unit and counted * unit or counted, (log_scale * 2):exp()
    local expected = observation.expected(model, mean, variance, own_noise or log_noise, x, y, draws, generator)
    local kl = ((variance + mean:square()) * precision * 0.5 - mean * eta - log_scale):sum()
    local loss = kl - (expected * weights):sum()
    if own_noise then
      loss = loss + past:slice(1, 1, 1):sum() * own_noise + past:slice(1, 2, 2):sum() * (own_noise * -2):exp() * 0.5
    end
    return loss
  end, { optimiser = self.optimiser })
  return self
end

-- What the loss leaves out of the divergence.
local function constant(p)
  return (p.precision_mean:square() / p.precision - p.precision:log() - 1):sum():item() * 0.5
end

local function taken(parameter)
  return (parameter:detach() + 0):detach()
end

-- The steps; gives the curve.
local function climb(self, o, eta, precision)
  local x, y, weights, log_noise, steps = o.x, o.y, o.weights, o.start.log_noise, o.steps
  local past = o.past or core.zeros({ 2 }, { dtype = self.model.net.dtype })
  local step, optimiser, left_out = self.step, self.optimiser, constant(o.predecessor)
  local curve, sum, from = {}, 0, 0
  for k = 1, steps do
    optimiser.lr = o.lr * o.final ^ ((k - 1) / math.max(1, steps - 1))
    sum = sum + step(x, y, weights, eta, precision, log_noise, past)
    if k * POINTS // steps > #curve then
      curve[#curve + 1] = -(sum / (k - from) + left_out)
      sum, from = 0, k
      if o.told then
        o.told(k, steps, curve[#curve])
      end
    end
  end
  return curve
end

--- run(self, {start =, predecessor =, x =, y =, weights =, past =, steps =, lr =, final =, generator =, told =}): from
--- the belief `start` {mean =, log_scale =, log_noise =} to the projection, in the same form, and {first =, last =,
--- curve =}, the ELBO averaged over pieces of the run. The rate falls geometrically from lr to lr * final. told(done,
--- steps, elbo) is called for each piece.
function projection.run(self, o)
  local dtype = self.model.net.dtype
  self.mean:set(self.unit and o.start.mean / self.unit or o.start.mean)
  self.log_scale:set(o.start.log_scale)
  if self.learn_noise then
    self.log_noise:set(o.start.log_noise)
  end
  self.optimiser:load_state(self.fresh)
  self.generator:set_state(o.generator:state())
  local eta, precision = o.predecessor.precision_mean:to(dtype), o.predecessor.precision:to(dtype)
  local curve = recording.on(climb, self, o, eta, precision)
  local mean = taken(self.mean)
  return { mean = self.unit and mean * self.unit or mean, log_scale = taken(self.log_scale),
    log_noise = self.learn_noise and taken(self.log_noise) or o.start.log_noise },
    { first = curve[1], last = curve[#curve], curve = curve }
end

return projection
