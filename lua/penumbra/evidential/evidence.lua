--- What outputs say as evidence: Dirichlet laws of the probabilities of classes (Sensoy, Kaplan & Kandemir 2018;
--- Haussmann 2021, 5.2), normal laws of a mean (5.4), what they cost, and what of an uncertainty is of which kind.
-- help: none
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local options = require "penumbra.options"

local evidence = {}

local HALF_LOG_2PI <const> = 0.5 * core.log_2pi

-- ---- classes ----

--- concentrations(f [, {evidence = "exp", limit = 15}]): see pn.evidential.
function evidence.concentrations(f, given)
  local o = options.check("concentrations", given, { evidence = options.choice("exp", "relu"), limit = 15 })
  return o.evidence == "relu" and f:relu() + 1 or f:clamp(-o.limit, o.limit):exp()
end

--- divergence(alpha): KL(Dir(alpha) || Dir(1, ..., 1)) along the last axis.
function evidence.divergence(alpha)
  local dirichlet = dist.dirichlet
  return core.kl(dirichlet(alpha), dirichlet(core.ones({ alpha:size(-1) }, { dtype = alpha:dtype() })))
end

--- squares(y, alpha): E ||y - lambda||^2 under Dir(alpha) = sum_c (y_c - p_c)^2 + p_c (1 - p_c) / (alpha_0 + 1), y as
--- zeros and ones, [N].
function evidence.squares(y, alpha)
  local total = alpha:sum({ -1 }, true)
  local p = alpha / total
  return ((y - p):square() + p * (1 - p) / (total + 1)):sum(-1)
end

--- misleading(y, alpha): alpha with the evidence for y taken out: y + (1 - y) alpha.
function evidence.misleading(y, alpha)
  return y + (1 - y) * alpha
end

--- log_mean(y, f): log of the mean over draws f [S, N, C] of the probability of labels y [N]: [N].
function evidence.log_mean(y, f)
  local wide = y:reshape { 1, y:size(1), 1 }:broadcast_to { f:size(1), y:size(1), 1 }
  return f:log_softmax(-1):gather(-1, wide):squeeze(-1):logsumexp(1) - math.log(f:size(1))
end

--- parts(p): mean, epistemic and aleatoric part of the variance of each class's indicator, from draws p [S, N, C] of
--- their probabilities: the variance of the draws (divisor S) and the mean of p (1 - p), which add up to mean (1 -
--- mean).
function evidence.parts(p)
  local mean = p:mean(1)
  return mean, (p - mean):square():mean(1), (p * (1 - p)):mean(1)
end

-- ---- numbers ----

-- e^(m + v / 2), of which no more than e^30 is taken
local function log_normal_mean(m, v)
  return (m + v * 0.5):clamp(-700, 30):exp()
end

--- normal(mean, variance, noise): of outputs [N, 2 D] of that mean and variance: mean of y, its epistemic and its
--- aleatoric variance, [N, D] each: m_1, s_1^2 and noise + exp(m_2 + s_2^2 / 2) (5.4).
function evidence.normal(mean, variance, noise)
  local d = mean:size(-1) // 2
  local function first(t) return t:slice(-1, 1, d) end
  local function second(t) return t:slice(-1, d + 1, 2 * d) end
  return first(mean), first(variance), log_normal_mean(second(mean), second(variance)) + noise
end

--- log_normal(y, mean, variance): log density, summed over the last axis.
function evidence.log_normal(y, mean, variance)
  return (((y - mean):square() / variance + variance:log()) * -0.5 - HALF_LOG_2PI):sum(-1)
end

--- normal_divergence(mean, variance, precision): KL(N(mean, variance) || N(0, 1 / precision)), summed over the last
--- axis.
function evidence.normal_divergence(mean, variance, precision)
  return (((variance + mean:square()) * precision - 1 - (variance * precision):log()) * 0.5):sum(-1)
end

return evidence
