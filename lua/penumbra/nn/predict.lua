--- Predictions of networks that draw: many draws, or their mean and variance, batch by batch, so that memory is bounded
--- by one batch and the result.
-- help: pn.nn, quiet
local core = require "penumbra.core"
local mode = require "penumbra.nn.mode"
local options = require "penumbra.options"
local recording = require "penumbra.autodiff.recording"

local predict = {}

local spec = {
  draws = 100,
  batch_size = 1024,
  moments = false,
  mode = options.choice("evaluation", "training", "mean"),
  generator = options.optional "generator",
}

local function check_input(x)
  if not core.is_tensor(x) or x:ndim() == 0 then
    core.error("predict: input must be a tensor with data along its first axis, got "
      .. (core.is_tensor(x) and "a number" or type(x)))
  end
end

-- Running mean and sum of squared deviations (Welford), by whole tensors.
local function add(state, y)
  state.n = state.n + 1
  if state.n == 1 then
    state.mean, state.square = y, y * 0
    return
  end
  local before = y - state.mean
  state.mean = state.mean + before / state.n
  state.square = state.square + before * (y - state.mean)
end

local function run(net, x, o)
  local first, second = {}, {}
  for from = 1, math.max(1, x:size(1)), o.batch_size do
    local part = x:size(1) > o.batch_size and x:slice(1, from, math.min(from + o.batch_size - 1, x:size(1))) or x
    local list, state = {}, { n = 0 }
    for s = 1, o.draws do
      local y = mode.mode(o.mode, net, part, o.generator)
      if o.moments then add(state, y) else list[s] = y end
    end
    if o.moments then
      first[#first + 1], second[#second + 1] = state.mean, state.square / state.n
    else
      first[#first + 1] = core.stack(list)
    end
  end
  if o.moments then
    return core.concatenate(first, 1), core.concatenate(second, 1)
  end
  return core.concatenate(first, 2)
end

--- predict(network, x [, options]): draws of the output for x [N, ...], as [draws, N, ...]; with moments = true their
--- mean and variance, each [N, ...]. The network is called on `batch_size` rows at a time, without recording gradients.
--- Options: draws (100), batch_size (1024), moments (false), generator, mode ("evaluation"; "training" lets dropout
--- drop units: Monte Carlo dropout).
function predict.predict(net, x, given)
  local o = options.check("predict", given, spec)
  check_input(x)
  if not mode.is_network(net) and type(net) ~= "function" then
    core.error("predict: network must be a layer, a sequential, a module or a function, got " .. type(net))
  end
  return recording.off(run, net, x, o)
end

return predict
