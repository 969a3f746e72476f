--- The chain of theorem 1 of Haussmann 2021 (6.13 to 6.15) for models of sequences: the risk of a sequence Y is 1 - p(Y
--- | path) / B, B the largest that density can be, which no script can average over the law of paths, but over draws.
---
---   (6.13)  E_Q R <= E_Q R_D + C,  C = sqrt((KL + log(2 sqrt N / delta)) / (2 N))
---   drawn   E_Q R <= mean over n, s of 1 - p / B, + C' + H:  C' as C with delta / 2 (4 sqrt N / delta), and H =
---           sqrt(log(2 N / delta) / (2 S)), Hoeffding for S draws at delta / (2 N) for each of the N sequences
---   (6.14)  <= -1/N sum_n log(1/S sum_s p) + C' + H + log B      since 1 - z <= -log z
---   (6.15)  <= -1/(S N) sum_(n, s) log p + C' + H + log B        Jensen
---
--- The theorem prints 4 sqrt N / delta in C itself; what its proof gives stands here: 2 sqrt N / delta in (6.13).
-- help: none
local core = require "penumbra.core"
local options = require "penumbra.options"

local path_bounds = {}

local FOR_ALL <const> = "for all posteriors Q at once, E_Q R is at most the value"

local rows = {
  path_risk = { formula = "R_D + sqrt((KL + log(2 sqrt N / delta)) / (2 N))", least = 8, holds = FOR_ALL
    .. ", R_D taken as the mean over the draws, which only endlessly many give",
    value = function(t) return t.risk + t.whole end },
  path_drawn = { formula = "R_D + sqrt((KL + log(4 sqrt N / delta)) / (2 N)) + sqrt(log(2 N / delta) / (2 S))",
    least = 8, holds = FOR_ALL .. ", R_D the mean over S draws of the paths for each sequence",
    value = function(t) return t.risk + t.half + t.draws end },
  path_log_mean = { formula = "-1/N sum_n log(1/S sum_s p) + sqrt((KL + log(4 sqrt N / delta)) / (2 N)) + "
    .. "sqrt(log(2 N / delta) / (2 S)) + log B", least = 8, holds = FOR_ALL,
    value = function(t) return t.log_mean + t.half + t.draws + t.log_peak end },
  path_mean_log = { formula = "-1/(S N) sum_(n, s) log p + sqrt((KL + log(4 sqrt N / delta)) / (2 N)) + "
    .. "sqrt(log(2 N / delta) / (2 S)) + log B", least = 8, holds = FOR_ALL,
    value = function(t) return t.mean_log + t.half + t.draws + t.log_peak end },
}

local known = { log_likelihood = options.required "tensor", kl = options.required(), delta = options.required "number",
  log_peak = options.required(), count = 1 }

-- What all rows are made of, 0-d tensors.
local function terms(where, given)
  local o = options.check(where, given, known)
  local ll = o.log_likelihood
  if ll:ndim() ~= 2 or ll:numel() == 0 then
    core.error(("%s: log_likelihood must be [S, N], of S draws for each of N sequences, got %d axes"):format(where,
      ll:ndim()))
  elseif not (o.delta > 0 and o.delta < 1) then
    core.error(("%s: delta must lie strictly between 0 and 1, got %g"):format(where, o.delta))
  end
  local s, n = ll:size(1), ll:size(2)
  options.whole(where, "the number of sequences", n, 8)
  local delta = o.delta / o.count
  local zero = core.zeros({}, { dtype = ll:dtype() })
  local kl = zero + options.numbers(where, "kl", o.kl)
  local log_peak = zero + options.numbers(where, "log_peak", o.log_peak)
  if not kl:ge(0):all():item() then
    core.error(where .. ": kl must not be negative, and a number")
  elseif not ll:le(log_peak + 1e-6):all():item() then
    core.error(where .. ": a log_likelihood is above log_peak, the largest that a sequence's can be")
  end
  local log_mean = ll:logsumexp(1) - math.log(s)
  local function complexity(part)
    return ((kl + math.log(2 * math.sqrt(n) / part)) / (2 * n)):sqrt()
  end
  return { risk = (1 - (log_mean - log_peak):exp()):mean(), log_mean = -log_mean:mean(), mean_log = -ll:mean(),
    whole = complexity(delta), half = complexity(delta / 2), log_peak = log_peak,
    draws = zero + math.sqrt(math.log(2 * n / delta) / (2 * s)) }
end

for name, row in pairs(rows) do
  row.source, row.needs = "Haussmann 2021, theorem 1, with its proof", { "kl", "log_likelihood [S, N]", "log_peak" }
  row.options = { count = 1 }
  local value = row.value
  row.value, row.own = nil, function(where, given) return value(terms(where, given)) end
  path_bounds[name] = row
end

return path_bounds
