--- Policy gradients: returns of rewards, and the loss whose gradient is REINFORCE's (Williams 1992).
---
---     local G = pn.active.returns(rewards, {gamma = 0.95})                 -- rewards [..., T]
---     local loss = pn.active.policy_loss(log_prob, G, {baseline = b})      -- descent on it climbs the expected return
---
--- Haussmann (2021), 2.4 and 4.2.2.
-- help: pn.active, quiet
local core = require "penumbra.core"
local options = require "penumbra.options"

local reinforce = {}

--- returns(rewards [, {gamma = 0.95, discount_first = false}]): of rewards [..., T] of an episode's steps the returns
--- [..., T]: G_t = R_t + gamma G_{t+1}, or with discount_first G_t = gamma R_t + gamma^2 R_{t+1} + ..., the step's own
--- reward discounted too, as 4.7 prints it.
function reinforce.returns(rewards, given)
  local where = "returns"
  local o = options.check(where, given, { gamma = 0.95, discount_first = false })
  options.argument(where, "rewards", rewards, "tensor")
  if rewards:ndim() == 0 or not rewards:dtype():find "^float" then
    core.error(("returns: rewards must be floats [..., T], got %s [%s]"):format(rewards:dtype(),
      table.concat(rewards:shape(), ", ")))
  elseif not (o.gamma >= 0 and o.gamma <= 1) then
    core.error(("returns: gamma must lie in 0 to 1, got %g"):format(o.gamma))
  end
  local backwards = rewards:flip(-1):linear_recurrence(core.tensor(o.gamma, { dtype = rewards:dtype() }), -1)
  local sums = backwards:flip(-1)
  return o.discount_first and sums * o.gamma or sums
end

--- policy_loss(log_prob, returns [, {baseline = 0, weights =}]): - sum of (G - b) log pi over all steps, log_prob that
--- of the actions taken, with a gradient; returns and baseline (a number or a tensor) have none. weights, one for each
--- step: 0 leaves it out.
function reinforce.policy_loss(log_prob, returns, given)
  local where = "policy_loss"
  local o = options.check(where, given, { baseline = options.any(0), weights = options.optional "tensor" })
  options.argument(where, "log_prob", log_prob, "tensor")
  options.argument(where, "returns", returns, "tensor")
  if table.concat(log_prob:shape(), ",") ~= table.concat(returns:shape(), ",") then
    core.error(("policy_loss: returns must have the shape of log_prob, [%s], got [%s]"):format(
      table.concat(log_prob:shape(), ", "), table.concat(returns:shape(), ", ")))
  end
  local baseline = core.is_tensor(o.baseline) and o.baseline:detach() or o.baseline
  local advantage = returns:detach() - baseline
  if o.weights then advantage = advantage * o.weights end
  return -(advantage * log_prob):sum()
end

return reinforce
