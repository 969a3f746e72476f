--- How good predicted classes are: y are classes from 0, [N], int64 or whole floats; probs are probabilities [N, K], or
--- of draws [S, N, K], which are averaged, or of class 1 of two, [N].
-- help: pn.metrics
local core = require "penumbra.core"
local options = require "penumbra.options"

local classification = {}

local shape_text = options.shape_text

-- Classes as int64: floats that are whole numbers are classes, too.
local function classes(where, y)
  options.argument(where, "y", y, "tensor")
  if y:dtype() == "int64" then
    return y
  elseif y:dtype() ~= "bool" and not y:eq(y:round()):all():item() then
    core.error(("%s: y must be classes, whole numbers from 0 on, got %s with others"):format(where, y:dtype()))
  end
  return y:to "int64"
end

-- Classes and the probabilities of the mixture, [N, K].
local function check(where, y, probs)
  y = classes(where, y)
  options.argument(where, "probs", probs, "tensor")
  if probs:ndim() == 1 and y:ndim() == 1 then -- of class 1
    probs = core.stack({ 1 - probs, probs }, 2)
  end
  local n = probs:ndim()
  if y:ndim() ~= 1 or n < 2 or n > 3 or probs:size(n - 1) ~= y:size(1) or y:size(1) == 0 then
    core.error(("%s: shapes must be y [N] and probs [N, K] or [S, N, K], got %s and %s"):format(where, shape_text(y),
      shape_text(probs)))
  elseif y:min():item() < 0 or y:max():item() >= probs:size(n) then
    core.error(("%s: y must lie in 0 to %d, got %d to %d"):format(where, probs:size(n) - 1, y:min():item(),
      y:max():item()))
  end
  probs = n == 3 and probs:mean(1) or probs
  if not (probs:ge(0):all():item() and (probs:sum(2) - 1):abs():max():item() <= 1e-4) then
    core.error(where .. ": probs must be probabilities, which add up to 1 along the last axis")
  end
  return probs, y
end

-- Probabilities of what has been decided: predicted classes, int64 or bool [N], are certain of themselves.
local function of_classes(where, y, probs)
  if not core.is_tensor(probs) or probs:ndim() ~= 1 or probs:dtype() ~= "int64" and probs:dtype() ~= "bool" then
    return probs
  end
  local labels, predicted = classes(where, y), probs:to "int64"
  if predicted:numel() == 0 or labels:numel() == 0 then return probs:to "float64" end
  if predicted:min():item() < 0 then
    core.error(("%s: predicted classes must be whole numbers from 0 on, got %d"):format(where, predicted:min():item()))
  end
  local count = math.max(2, predicted:max():item() + 1, labels:max():item() + 1)
  return predicted:one_hot(count):to "float64"
end

local function own(probs, y)
  return probs:gather(2, y:unsqueeze(2)):squeeze(2)
end

--- accuracy(y, probs): share of the data whose likeliest class is y, a number. The first of equal ones counts. probs
--- may be predicted classes, int64 [N], as those of confusion and f1.
function classification.accuracy(y, probs)
  probs, y = check("accuracy", y, of_classes("accuracy", y, probs))
  return probs:argmax(2):eq(y):to("float64"):mean():item()
end

--- log_likelihood(y, probs): mean log probability of y, a number; of draws the log of their mean.
function classification.log_likelihood(y, probs)
  return own(check("log_likelihood", y, probs)):log():mean():item()
end

--- brier(y, probs): mean over the data of the sum over the classes of (probs - 1[class = y])^2, from 0 to 2. Brier
--- 1950.
function classification.brier(y, probs)
  probs, y = check("brier", y, probs)
  return (probs:square():sum(2) - own(probs, y) * 2 + 1):mean():item()
end

--- confusion(y, probs): how often data of each class (rows) are taken for each class (columns), the likeliest one:
--- int64 [K, K]. plot.confusion draws it.
function classification.confusion(y, probs)
  probs, y = check("confusion", y, of_classes("confusion", y, probs))
  local k = probs:size(2)
  local place = y * k + probs:argmax(2)
  return core.zeros({ k * k }, { dtype = "int64" }):scatter_add(1, place, core.ones(place:shape(), { dtype = "int64" }))
    :reshape { k, k }
end

--- f1(y, probs): the harmonic mean of precision and recall, 2 hits / (2 hits + false alarms + misses): of two classes
--- that of class 1, else the mean over the classes (0 of one that is never there nor predicted). A number. van
--- Rijsbergen 1979.
function classification.f1(y, probs)
  local c = classification.confusion(y, probs):to "float64"
  local hits = c:diagonal()
  local each = hits * 2 / (c:sum(1) + c:sum(2)):clamp(1, math.huge)
  return (c:size(1) == 2 and each[2] or each:mean()):item()
end

--- roc(y, score): the receiver operating characteristic: a table of tensors false_positive, true_positive and
--- threshold, from (0, 0) to (1, 1): the shares of data of class 0 and of class 1 whose score is at least the
--- threshold. y and score [N], y 0 or 1 with both there. plot.roc draws it; metrics.auc is its area.
function classification.roc(y, score)
  y = classes("roc", y)
  options.argument("roc", "score", score, "tensor")
  if y:ndim() ~= 1 or score:ndim() ~= 1 or score:size(1) ~= y:size(1) or y:size(1) == 0 then
    core.error(("roc: shapes must be y [N] and score [N], got %s and %s"):format(shape_text(y), shape_text(score)))
  elseif y:min():item() < 0 or y:max():item() > 1 or y:min():item() == y:max():item() then
    core.error "roc: y must be 0 or 1, and have both"
  elseif score:isnan():any():item() then
    core.error "roc: score is NaN"
  end
  local order = score:to("float64"):argsort(1, true)
  local s, ones = score:to("float64"):take(1, order), y:take(1, order):to "float64"
  local n = s:size(1)
  local last = core.ones({ n }, { dtype = "bool" })
  if n > 1 then
    last = core.concatenate({ s:slice(1, 1, n - 1):ne(s:slice(1, 2, n)), core.ones({ 1 }, { dtype = "bool" }) }, 1)
  end
  local hits, alarms = ones:cumsum(1):masked_select(last), (1 - ones):cumsum(1):masked_select(last)
  local zero = core.zeros({ 1 }, { dtype = "float64" })
  return { true_positive = core.concatenate({ zero, hits / ones:sum() }, 1),
    false_positive = core.concatenate({ zero, alarms / (1 - ones):sum() }, 1),
    threshold = core.concatenate({ zero + math.huge, s:masked_select(last) }, 1) }
end

local bin_options = { bins = 15 }

-- Bins of equal width, (low, high], of the predictions of this confidence, those without data left out.
local function binned(confidence, right, bins)
  confidence, right = confidence:to "float64", right:to "float64"
  local list, place = {}, (confidence * bins):ceil():clamp(1, bins)
  for k = 1, bins do
    local here = place:eq(k):to "float64"
    local count = here:sum():item()
    if count > 0 then
      list[#list + 1] = { low = (k - 1) / bins, high = k / bins, count = math.tointeger(count),
        confidence = (confidence * here):sum():item() / count, accuracy = (right * here):sum():item() / count }
    end
  end
  return list
end

--- reliability(y, probs [, {bins = 15}]): how often predictions of a given confidence, the largest probability, are
--- right: a list of bins {low =, high =, count =, confidence =, accuracy =} of equal width, (low, high], those without
--- data left out. plot.reliability draws it.
function classification.reliability(y, probs, given)
  local o = options.check("reliability", given, bin_options)
  probs, y = check("reliability", y, probs)
  return binned(probs:max(2), probs:argmax(2):eq(y), o.bins)
end

--- calibration_curve(y, probs [, {bins = 10}]): of two classes, how often class 1 is there where it was given a
--- probability: a list of bins {low =, high =, count =, confidence = (mean probability), accuracy = (share of class 1)}
--- of equal width, those without data left out. plot.calibration_curve draws it, with counts.
function classification.calibration_curve(y, probs, given)
  local o = options.check("calibration_curve", given, { bins = 10 })
  probs, y = check("calibration_curve", y, probs)
  if probs:size(2) ~= 2 then
    core.error(("calibration_curve: is of two classes, got %d"):format(probs:size(2)))
  end
  return binned(probs:select(2, 2), y, o.bins)
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
  y = classes("auc", y)
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
