--- How good predicted classes are: y are classes from 0, int64 [N]; probs are probabilities [N, K], or of draws [S, N,
--- K], which are averaged.
-- help: pn.metrics
local core = require "penumbra.core"
local options = require "penumbra.options"

local classification = {}

local function shape_text(t)
  return "[" .. table.concat(t:shape(), ", ") .. "]"
end

-- Classes and the probabilities of the mixture, [N, K].
local function check(where, y, probs)
  options.argument(where, "y", y, "tensor")
  options.argument(where, "probs", probs, "tensor")
  local n = probs:ndim()
  if y:ndim() ~= 1 or n < 2 or n > 3 or probs:size(n - 1) ~= y:size(1) or y:size(1) == 0 then
    core.error(("%s: shapes must be y [N] and probs [N, K] or [S, N, K], got %s and %s"):format(where, shape_text(y),
      shape_text(probs)))
  elseif y:dtype() ~= "int64" then
    core.error(("%s: y must be int64, got %s"):format(where, y:dtype()))
  elseif y:min():item() < 0 or y:max():item() >= probs:size(n) then
    core.error(("%s: y must lie in 0 to %d, got %d to %d"):format(where, probs:size(n) - 1, y:min():item(),
      y:max():item()))
  end
  probs = n == 3 and probs:mean(1) or probs
  if not (probs:ge(0):all():item() and (probs:sum(2) - 1):abs():max():item() <= 1e-4) then
    core.error(where .. ": probs must be probabilities, which add up to 1 along the last axis")
  end
  return probs
end

local function own(probs, y)
  return probs:gather(2, y:unsqueeze(2)):squeeze(2)
end

--- accuracy(y, probs): share of the data whose likeliest class is y, a number. The first of equal ones counts.
function classification.accuracy(y, probs)
  probs = check("accuracy", y, probs)
  return probs:argmax(2):eq(y):to("float64"):mean():item()
end

--- log_likelihood(y, probs): mean log probability of y, a number; of draws the log of their mean.
function classification.log_likelihood(y, probs)
  return own(check("log_likelihood", y, probs), y):log():mean():item()
end

--- brier(y, probs): mean over the data of the sum over the classes of (probs - 1[class = y])^2, from 0 to 2. Brier
--- 1950.
function classification.brier(y, probs)
  probs = check("brier", y, probs)
  return (probs:square():sum(2) - own(probs, y) * 2 + 1):mean():item()
end

local bin_options = { bins = 15 }

--- reliability(y, probs [, {bins = 15}]): how often predictions of a given confidence, the largest probability, are
--- right: a list of bins {low =, high =, count =, confidence =, accuracy =} of equal width, (low, high], those without
--- data left out. plot.reliability draws it.
function classification.reliability(y, probs, given)
  local o = options.check("reliability", given, bin_options)
  local bins = options.whole("reliability", "bins", o.bins, 1)
  probs = check("reliability", y, probs)
  local confidence, right = probs:max(2), probs:argmax(2):eq(y):to("float64")
  local list = {}
  local place = (confidence:to("float64") * bins):ceil():clamp(1, bins)
  for k = 1, bins do
    local here = place:eq(k):to "float64"
    local count = here:sum():item()
    if count > 0 then
      list[#list + 1] = { low = (k - 1) / bins, high = k / bins, count = math.tointeger(count),
        confidence = (confidence:to("float64") * here):sum():item() / count,
        accuracy = (right * here):sum():item() / count }
    end
  end
  return list
end

--- ece(y, probs [, {bins = 15}]): expected calibration error: the mean over the data of |accuracy - confidence| of
--- their bins (metrics.reliability), a number. Naeini, Cooper & Hauskrecht 2015; Guo, Pleiss, Sun & Weinberger 2017.
function classification.ece(y, probs, given)
  local total, n = 0, 0
  for _, bin in ipairs(classification.reliability(y, probs, given)) do
    total, n = total + bin.count * math.abs(bin.accuracy - bin.confidence), n + bin.count
  end
  return total / n
end

-- -sum p log p along the last axis, 0 log 0 = 0.
local function entropy(p)
  return -p:xlogy(p):sum(-1)
end

--- predictive_entropy(draws): of probabilities of draws [S, N, K], three tensors [N]: the entropy of their mean; its
--- aleatoric part, the mean of the draws' entropies; and its epistemic part, the rest, which is the mutual information
--- of class and draw. In nats. Depeweg, Hernandez-Lobato, Doshi-Velez & Udluft 2018.
function classification.predictive_entropy(draws)
  options.argument("predictive_entropy", "draws", draws, "tensor")
  if draws:ndim() ~= 3 then
    core.error("predictive_entropy: draws must be probabilities [S, N, K], got " .. shape_text(draws))
  end
  local total, aleatoric = entropy(draws:mean(1)), entropy(draws):mean(1)
  return total, aleatoric, total - aleatoric
end

--- auc(y, score): area under the receiver operating characteristic: the probability that a datum of class 1 has a
--- higher score than one of class 0, equal scores counted half. y and score [N], y 0 or 1 with both there. Hanley &
--- McNeil 1982.
function classification.auc(y, score)
  options.argument("auc", "y", y, "tensor")
  options.argument("auc", "score", score, "tensor")
  if y:ndim() ~= 1 or shape_text(y) ~= shape_text(score) then
    core.error(("auc: y and score must have one shape [N], got %s and %s"):format(shape_text(y), shape_text(score)))
  end
  local order = score:argsort(1)
  local label, value = y:take(1, order):totable(), score:take(1, order):totable()
  local n, positive, ranks, i = #label, 0, 0, 1
  while i <= n do
    local j, ones = i, 0
    while j <= n and value[j] == value[i] or j == i do
      if label[j] ~= 0 and label[j] ~= 1 or value[j] ~= value[j] then
        core.error("auc: y must be 0 or 1, and score no NaN")
      end
      ones, j = ones + label[j], j + 1
    end
    positive, ranks = positive + ones, ranks + ones * (i + j - 1) / 2
    i = j
  end
  if positive == 0 or positive == n then
    core.error "auc: y must have both classes"
  end
  return (ranks - positive * (positive + 1) / 2) / (positive * (n - positive))
end

--- ecdf_auc(entropy, K): area under the empirical distribution function of predictive entropies [N] of K classes, on
--- [0, log K]: log K - mean(entropy), a number. Of data that are of none of the classes lower is better: 0 if all
--- predictions are uniform, log K if all are certain.
function classification.ecdf_auc(values, k)
  options.argument("ecdf_auc", "entropy", values, "tensor")
  k = options.whole("ecdf_auc", "K", k, 2)
  if values:numel() == 0 or not (values:ge(-1e-9):all():item() and values:le(math.log(k) + 1e-6):all():item()) then
    core.error(("ecdf_auc: entropy must lie in 0 to log %d"):format(k))
  end
  return math.log(k) - values:mean():item()
end

return classification
