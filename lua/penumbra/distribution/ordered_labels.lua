--- Distributions of ordered labels 0 .. K - 1: a hidden number, eta plus noise, and the cut points between which it
--- falls.
--- Source: McCullagh 1980.
-- help: nowhere
local core = require "penumbra.core"
local options = require "penumbra.options"

local ordered_labels = {}

-- log(F(a) - F(b)) for a > b, by what is exact on both sides: of F itself and of 1 - F.
local LOG_DIFFERENCE = {
  -- F(a) - F(b) = F(a) (1 - F(b)) (1 - e^(b - a))
  ordered_logistic = function(a, b) return a:log_sigmoid() + (-b):log_sigmoid() + (b - a):log1mexp() end,
  ordered_probit = function(a, b)
    -- on the side of 0 on which b lies, tails are small numbers: F(a) - F(b) = F(-b) - F(-a)
    local swap = (a + b):detach():gt(0)
    local high, low = core.where(swap, -b, a), core.where(swap, -a, b)
    local most = high:log_ndtr()
    return most + (low:log_ndtr() - most):log1mexp()
  end,
}
local LOG_CDF = { ordered_logistic = core.log_sigmoid, ordered_probit = core.log_ndtr }

-- Log probabilities of the K labels along a last axis, for eta [...] and cut points [..., K - 1].
local function log_probs(where, eta, cuts)
  local n = cuts:size(-1)
  local gap = cuts - eta:unsqueeze(-1)
  local first = LOG_CDF[where](gap:slice(-1, 1, 1))
  local last = LOG_CDF[where](-gap:slice(-1, n, n))
  if n == 1 then
    return core.concatenate({ first, last }, -1)
  end
  return core.concatenate({ first, LOG_DIFFERENCE[where](gap:slice(-1, 2, n), gap:slice(-1, 1, n - 1)), last }, -1)
end

local function of(where, eta, cuts)
  cuts = options.numbers(where, "cutpoints", cuts, "tensor")
  eta = options.numbers(where, "eta", eta)
  eta = core.is_tensor(eta) and eta or core.tensor(eta, { dtype = cuts:dtype() })
  if cuts:ndim() < 1 or cuts:size(-1) < 1 then
    core.error(("%s: cutpoints must be [..., K - 1], at least one, got shape [%s]"):format(where,
      table.concat(cuts:shape(), ", ")))
  elseif eta:dtype() ~= cuts:dtype() then
    core.error(("%s: eta and cutpoints must have one dtype, got %s and %s (convert with :to)"):format(where,
      eta:dtype(), cuts:dtype()))
  end
  local n = cuts:size(-1)
  if n > 1 and not core.capture.going_on() then
    local c = cuts:detach()
    if not c:slice(-1, 2, n):gt(c:slice(-1, 1, n - 1)):all():item() then
      core.error(where .. ": cutpoints must ascend (as a latent variable: {constraint = \"ordered_vector\"})")
    end
  end
  return core.new_distribution("categorical", { logits = log_probs(where, eta, cuts) })
end

--- ordered_logistic(eta, cutpoints): see pn.dist.ordered_logistic.
function ordered_labels.logistic(eta, cutpoints)
  return of("ordered_logistic", eta, cutpoints)
end

--- ordered_probit(eta, cutpoints): see pn.dist.ordered_probit.
function ordered_labels.probit(eta, cutpoints)
  return of("ordered_probit", eta, cutpoints)
end

return ordered_labels
