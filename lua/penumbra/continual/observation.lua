--- What data say of the outputs of a network whose weights have normal laws: the expected log likelihood that training
--- raises, log predictive densities, predictions.
--
-- A model is {net = as mean_field reads it, kind = as likelihood.kind gives it}; a
-- belief {mean =, log_scale =, log_noise =}. Where outputs are normal given the layer before and the likelihood is
-- normal, both expectation and density over the last layer have formulas, and nothing is drawn there.
-- help: none
local core = require "penumbra.core"
local mean_field = require "penumbra.continual.mean_field"
local normal = require "penumbra.nn.likelihood_rows".normal

local observation = {}

local function is_closed(model)
  return model.kind.noisy and model.net.normal_outputs
end

-- The mean over N(m, v) of log N(y; f, s^2), summed over outputs. Last axis gone.
local function gaussian(y, m, v, log_noise)
  return normal.expectation(y, m, v, { log_scale = log_noise }):sum(-1)
end

local function mean_of_draws(t)
  return t:ndim() == 2 and t:mean(1) or t
end

local function joined(blocks)
  return #blocks == 1 and blocks[1] or core.concatenate(blocks, 1)
end

--- expected(model, mean, variance, log_noise, x, y, draws, generator): the expected log likelihood of each datum [N] by
--- that many draws for each; y prepared by the likelihood.
function observation.expected(model, mean, variance, log_noise, x, y, draws, generator)
  local m, v = mean_field.last(model.net, mean, variance, x, draws, generator)
  if is_closed(model) then
    return mean_of_draws(gaussian(y, m, v, log_noise))
  end
  local f = mean_field.drawn_outputs(model.net, m, v, draws, generator)
  if model.kind.noisy then
    return gaussian(y, f, 0, log_noise):mean(1)
  end
  return model.kind.value(y, f, model):mean(1)
end

--- expected_squares(model, belief, x, y, draws, generator): E[(y - f)^2] of each datum, summed over outputs, [N].
function observation.expected_squares(model, belief, x, y, draws, generator)
  local variance, sums = (belief.log_scale * 2):exp(), {}
  mean_field.each_block(model.net, x, y, draws, function(bx, by, S, block)
    local m, v = mean_field.last(model.net, belief.mean, variance, bx, S, generator)
    if not model.net.normal_outputs then
      m, v = mean_field.drawn_outputs(model.net, m, v, S, generator), 0
    end
    local part = mean_of_draws(((by - m):square() + v):sum(-1)) * S
    sums[block] = sums[block] and sums[block] + part or part
  end)
  return (joined(sums) / draws):detach()
end

-- log p(y | draw) of each draw and datum, [S, N].
local function log_likelihoods(model, belief, m, v, y, S, generator)
  local noise = belief.log_noise
  if is_closed(model) then
    local value = normal.log_predictive(y, m, v, { log_scale = noise }):sum(-1)
    return value:ndim() == 1 and value:unsqueeze(1) or value
  end
  local f = mean_field.drawn_outputs(model.net, m, v, S, generator)
  if model.kind.noisy then
    return gaussian(y, f, 0, noise)
  end
  return model.kind.value(y, f, model)
end

--- log_predictive(model, belief, x, y, draws, generator): log of the mean of p(y_n | x_n, w) over draws, [N].
function observation.log_predictive(model, belief, x, y, draws, generator)
  local variance, parts = (belief.log_scale * 2):exp(), {}
  mean_field.each_block(model.net, x, y, draws, function(bx, by, S, block)
    local m, v = mean_field.last(model.net, belief.mean, variance, bx, S, generator)
    local value = log_likelihoods(model, belief, m, v, by, S, generator)
    -- a network without hidden layers has one value, which counts S times
    local sum = value:size(1) == S and value:logsumexp(1) or value:squeeze(1) + math.log(S)
    parts[block] = parts[block] or {}
    table.insert(parts[block], sum)
  end)
  local result = {}
  for k, list in ipairs(parts) do
    result[k] = core.stack(list, 1):logsumexp(1) - math.log(draws)
  end
  return joined(result):detach()
end

-- What of a draw is averaged, [S, N, out], and a variance that it leaves out, or nil.
local function quantity(model, m, v, S, generator)
  if is_closed(model) then
    return m:ndim() == 2 and m:unsqueeze(1) or m, v:ndim() == 2 and v:unsqueeze(1) or v
  end
  local f = mean_field.drawn_outputs(model.net, m, v, S, generator)
  local kind = model.kind
  if kind.probabilities then
    return kind.probabilities(f)
  elseif kind.moments then
    return kind.moments(f)
  end
  return f
end

local function add(sums, value, weight)
  local mean = value:mean(1)
  local square = (value - mean):square():mean(1)
  if not sums.n then
    sums.n, sums.mean, sums.square = weight, mean, square * weight
    return
  end
  -- Chan, Golub & LeVeque: sums of squares of two sets of draws
  local n, off = sums.n + weight, mean - sums.mean
  sums.square = sums.square + square * weight + off:square() * (sums.n * weight / n)
  sums.mean, sums.n = sums.mean + off * (weight / n), n
end

--- predict(model, belief, x, draws, generator): {probabilities =, variance =} of them over draws, or for other
--- likelihoods {mean =, variance =, spread =}: of y (normal), spread that of the outputs alone.
function observation.predict(model, belief, x, draws, generator)
  local variance, blocks = (belief.log_scale * 2):exp(), {}
  mean_field.each_block(model.net, x, nil, draws, function(bx, _, S, block)
    local m, v = mean_field.last(model.net, belief.mean, variance, bx, S, generator)
    local value, rest = quantity(model, m, v, S, generator)
    local sums = blocks[block] or { rest = 0 }
    blocks[block] = sums
    add(sums, value, S)
    sums.rest = rest and sums.rest + rest:mean(1) * S or 0
  end)
  local means, spreads = {}, {}
  for k, sums in ipairs(blocks) do
    means[k], spreads[k] = sums.mean:detach(), ((sums.square + sums.rest) / draws):detach()
  end
  local mean, spread = joined(means), joined(spreads)
  if model.kind.probabilities then
    return { probabilities = mean, variance = spread }
  elseif model.kind.noisy then
    return { mean = mean, variance = spread + (belief.log_noise * 2):exp(), spread = spread }
  end
  return { mean = mean, variance = spread }
end

return observation
