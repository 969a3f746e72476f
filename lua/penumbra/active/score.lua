--- What a datum without label is worth, from what a model predicts of it: pure functions on probabilities, on draws and
--- on means and variances of outputs, in nats, all data at once. Larger is asked for first.
---
---     local score = pn.active.bald(draws)                      -- draws [K, N, classes]: [N]
---     local places = pn.active.top(score, 5)
---
--- Haussmann (2021), chapter 4; Houlsby, Huszar, Ghahramani & Lengyel 2011 (BALD); Gal, Islam & Ghahramani 2017.
-- help: pn.active, quiet
local core = require "penumbra.core"
local options = require "penumbra.options"

local score = {}

local LN2 <const> = math.log(2)

local shape_text = options.shape_text

-- A tensor of probabilities with classes along its last axis, of `ndim` axes where that is given.
local function probabilities(where, role, p, ndim)
  options.argument(where, role, p, "tensor")
  if p:ndim() == 0 or p:size(-1) == 0 or ndim and p:ndim() ~= ndim or not p:dtype():find "^float" then
    core.error(("%s: %s must be probabilities %s, got %s %s"):format(where, role,
      ndim == 3 and "[draws, N, classes]" or "[..., classes]", p:dtype(), shape_text(p)))
  end
  if p:numel() > 0 and not (p:min():item() >= 0 and p:max():item() <= 1 + 1e-5) then
    core.error(("%s: %s must lie between 0 and 1, got %g to %g"):format(where, role, p:min():item(), p:max():item()))
  end
  return p:detach()
end

local function plogp(p) return p:xlogy(p) end

-- Each class by itself, a yes or no: [..., classes].
local function binary_entropies(p)
  p = p:clamp(0, 1)
  return -(plogp(p) + plogp(1 - p))
end

local function normalised(p) return p / p:sum(-1, true) end

local readings = {
  renormalised = function(p) return -plogp(normalised(p)):sum(-1) end,
  binary = function(p) return binary_entropies(p):sum(-1) end,
  raw = function(p) return -plogp(p):sum(-1) end,
}

local kinds = options.choice("renormalised", "binary", "raw")

-- Without looking at p; internal to the acquisitions.
function score.entropy_of(p, kind) return readings[kind](p) end

--- entropy(p [, {kind = "renormalised"}]): of probabilities [..., classes], [...]. Probits one against all need not sum
--- to 1, and then their entropy can be read in three ways:
---   kind    "renormalised"   of p / sum p, a law of one class; of probabilities that sum to 1 the entropy
---           "binary"         sum over classes of -p log p - (1 - p) log(1 - p), each class a yes or no
---           "raw"            -sum p log p of what is there: of no law unless p sums to 1
function score.entropy(p, given)
  local o = options.check("entropy", given, { kind = kinds })
  return readings[o.kind](probabilities("entropy", "p", p))
end

--- margin(p): how little the most probable class is ahead of the second, their difference taken from 0, [...]. With one
--- class 0.
function score.margin(p)
  p = normalised(probabilities("margin", "p", p))
  if p:size(-1) < 2 then return p:select(-1, 1) * 0 end
  local best = p:topk(2, -1)
  return best:select(-1, 2) - best:select(-1, 1)
end

--- variation_ratio(p): 1 - max p, the probability that the class that is predicted is wrong, of p [N, classes]; of
--- draws [K, N, classes] the share of draws whose class is not the most frequent one (Freeman 1965). [N].
function score.variation_ratio(p)
  options.argument("variation_ratio", "p", p, "tensor")
  p = probabilities("variation_ratio", "p", p, p:ndim() == 3 and 3 or 2)
  if p:ndim() == 2 then return 1 - normalised(p):max(-1) end
  local votes = p:argmax(-1):unsqueeze(-1):eq(core.arange(p:size(-1), { dtype = "int64" })):to(p:dtype()):mean(1)
  return 1 - votes:max(-1)
end

--- bald(draws [, {kind = "renormalised"}]): what the label of each datum tells of the weights, the mutual information
--- H[mean of p] - mean of H[p] over draws p [K, N, classes] of the weights, [N], never below 0 (what rounding leaves
--- below is 0). kind as in entropy.
function score.bald(draws, given)
  local o = options.check("bald", given, { kind = kinds })
  draws = probabilities("bald", "draws", draws, 3)
  if draws:size(1) == 0 then core.error "bald: draws must hold at least 1 draw, got 0" end
  if o.kind == "renormalised" then draws = normalised(draws) end
  return (readings[o.kind](draws:mean(1)) - readings[o.kind](draws):mean(1)):relu()
end

-- ---- means and variances of outputs ----

local function moments(where, mean, variance)
  options.argument(where, "mean", mean, "tensor")
  options.argument(where, "variance", variance, "tensor")
  if mean:ndim() == 0 or shape_text(mean) ~= shape_text(variance) then
    core.error(("%s: mean and variance must have one shape [..., classes], got %s and %s"):format(where,
      shape_text(mean), shape_text(variance)))
  elseif variance:numel() > 0 and not (variance:min():item() >= 0) then
    core.error(("%s: variance must not be negative, got %g"):format(where, variance:min():item()))
  end
  return mean:detach(), variance:detach()
end

--- probit_probabilities(mean, variance): Phi(m / sqrt(1 + v)), what a class is worth against all others for normal
--- outputs, [..., classes]: the mean of Phi(f) (equation 4.4). They need not sum to 1.
function score.probit_probabilities(mean, variance)
  mean, variance = moments("probit_probabilities", mean, variance)
  return (mean / (variance + 1):sqrt()):ndtr()
end

-- E of binary_entropies(Phi(f)) for f = m + sqrt(v) z by the trapezoidal rule in z, whose error vanishes with the
-- width of a step faster than any power.
local function expected_binary(m, v, points)
  local low, total = -8.5, 0
  local step, scale = -2 * low / points, v:sqrt()
  for k = 0, points do -- over nodes, not over data
    local z = low + k * step
    total = total + binary_entropies((m + scale * z):ndtr()) * (math.exp(-z * z / 2) * step / math.sqrt(2 * math.pi))
  end
  return total
end

-- Houlsby et al. 2011: H[Phi(x)] is about log 2 exp(-x^2 / (pi log 2)); its mean over x ~ N(m, v).
local function expected_houlsby(m, v)
  local c = math.pi * LN2 / 2
  return (-m:square() / ((v + c) * 2)):exp() * (c / (v + c)):sqrt() * LN2
end

--- bald_moments(mean, variance [, {link = "probit", method =, points =, draws =, generator =}]): BALD of independent
--- normal outputs [..., classes], [...]; nothing is drawn unless the method says so.
---   link     "probit": each class a yes or no, Phi(f), summed. method "quadrature" (the default): the first entropy by
---            its formula, the second by `points` (128) nodes; "closed": Houlsby's formula, to some 0.01 nats; "draws"
---            "softmax": method "draws" (the default) of the outputs, `draws` (100) by `generator`; "closed": to second
---            order in the standard deviations, sum v p (1 - p) / 2, p = softmax(mean)
function score.bald_moments(mean, variance, given)
  local where = "bald_moments"
  local o = options.check(where, given, { link = options.choice("probit", "softmax"),
    method = options.optional "string", points = 128, draws = 100, generator = options.optional "generator" })
  local m, v = moments(where, mean, variance)
  local method = o.method or (o.link == "probit" and "quadrature" or "draws")
  if method == "draws" then
    local draws = score.output_draws(m, v, o.link, o.draws, o.generator)
    local h = readings[o.link == "probit" and "binary" or "renormalised"]
    local first = o.link == "probit" and score.probit_probabilities(m, v) or draws:mean(1)
    return (h(first) - h(draws):mean(1)):relu()
  elseif o.link == "probit" and (method == "quadrature" or method == "closed") then
    local second = method == "closed" and expected_houlsby(m, v)
      or expected_binary(m, v, options.whole(where, "points", o.points, 8))
    return (binary_entropies((m / (v + 1):sqrt()):ndtr()) - second):sum(-1):relu()
  elseif o.link == "softmax" and method == "closed" then
    local p = m:softmax(-1)
    return (v * p * (1 - p)):sum(-1) / 2
  end
  return core.error(('%s: method must be %s with link "%s", got "%s"'):format(where, o.link == "probit"
    and '"quadrature", "closed" or "draws"' or '"draws" or "closed"', o.link, method))
end

-- Probabilities of draws of independent normal outputs, [draws, ..., classes].
function score.output_draws(m, v, link, draws, generator)
  local shape = m:shape()
  table.insert(shape, 1, draws)
  local f = m + v:sqrt() * core.randn(shape, { dtype = m:dtype(), generator = generator })
  return link == "probit" and f:ndtr() or f:softmax(-1)
end

--- top(scores, n): the places, int64 [min(n, N)] from 0 on, of the n largest of scores [N], the largest first, of equal
--- ones the first; NaN is an error.
function score.top(scores, n)
  options.argument("top", "scores", scores, "tensor")
  n = options.whole("top", "n", n, 0)
  if scores:ndim() ~= 1 then
    core.error(("top: scores must be [N], got %s"):format(shape_text(scores)))
  elseif scores:numel() > 0 and scores:isnan():any():item() then
    core.error "top: scores must be numbers, got NaN"
  end
  n = math.min(n, scores:size(1))
  if n == 0 then return core.zeros({ 0 }, { dtype = "int64" }) end
  return scores:argsort(1, true):slice(1, 1, n)
end

return score
