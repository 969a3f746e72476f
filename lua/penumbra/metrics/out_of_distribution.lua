--- How well a classifier tells data of none of its classes from its own, by the entropy of its predictions.
-- help: pn.metrics
local classification = require "penumbra.metrics.classification"
local core = require "penumbra.core"
local options = require "penumbra.options"

local out_of_distribution = {}

local meta = {}

function meta:__tostring()
  local lines = { ("%d data inside, %d outside, %d classes"):format(self.inside, self.outside, self.classes),
    ("  ECDF-AUC of the entropy outside   %.4f  (0: all uniform, %.4f: all certain)"):format(self.ecdf_auc,
      math.log(self.classes)),
    ("  mean entropy inside, outside      %.4f, %.4f"):format(self.inside_entropy, self.outside_entropy),
    ("  ROC-AUC %.4f, AUPR outside %.4f, inside %.4f, FPR at 95 %% %.4f"):format(self.auc, self.aupr_outside,
      self.aupr_inside, self.fpr95) }
  if self.log_likelihood then
    lines[#lines + 1] = ("  inside: error %.2f %%, log-likelihood %.4f"):format(100 * self.error, self.log_likelihood)
  end
  if self.uniform then
    lines[#lines + 1] = "  the predictions inside are nearly uniform, too: a low ECDF-AUC says nothing here"
  end
  return table.concat(lines, "\n")
end

-- Probabilities [N, K], or of draws [S, N, K] their mean, in float64.
local function probabilities(where, role, p)
  options.argument(where, role, p, "tensor")
  if p:ndim() < 2 or p:ndim() > 3 or p:numel() == 0 then
    core.error(("%s: %s must be probabilities [N, K] or of draws [S, N, K], got [%s]"):format(where, role,
      table.concat(p:shape(), ", ")))
  end
  p = (p:ndim() == 3 and p:mean(1) or p):to "float64"
  if not (p:ge(0):all():item() and (p:sum(2) - 1):abs():max():item() <= 1e-4) then
    core.error(("%s: %s must be probabilities, which add up to 1 along the last axis"):format(where, role))
  end
  return p
end

local function entropy(p)
  return -p:xlogy(p):sum(-1)
end

-- Counts of positives and of all at each distinct score, from the highest down.
local function counts(positive, negative)
  local score = core.concatenate({ positive, negative }, 1)
  local label = core.concatenate({ positive:ones_like(), negative:zeros_like() }, 1)
  local order = score:argsort(1, true)
  score, label = score:take(1, order), label:take(1, order)
  local n = score:size(1)
  local last = core.concatenate({ score:slice(1, 1, n - 1):ne(score:slice(1, 2, n)),
    core.ones({ 1 }):to "bool" }, 1)
  return label:cumsum(1):masked_select(last), (core.arange(n):to "float64" + 1):masked_select(last)
end

-- Average precision: sum over thresholds of precision times the step of recall.
local function average_precision(positive, negative)
  local right, all = counts(positive, negative)
  local before = core.concatenate({ core.zeros(1), right:slice(1, 1, right:size(1) - 1) }, 1)
  return ((right - before) * right / all):sum():item() / positive:size(1)
end

local function roc(positive, negative)
  local right, all = counts(positive, negative)
  local zero = core.zeros(1)
  return core.concatenate({ zero, (all - right) / negative:size(1) }, 1),
    core.concatenate({ zero, right / positive:size(1) }, 1)
end

-- The share of `outside` that passes where 95 % of `inside` do.
local function false_positives(inside, outside)
  local sorted = inside:sort(1)
  local threshold = sorted[math.ceil(0.95 * inside:size(1) - 1e-9)]
  return outside:le(threshold):to("float64"):mean():item()
end

local known = { y = options.optional "tensor" }

--- ood(inside, outside [, {y =}]): how predictions of a classifier tell data of its classes from others, by their
--- entropy. inside and outside: probabilities [N, K] (of draws [S, N, K]); y: the labels of inside. A table that
--- prints:
---   ecdf_auc       area under the distribution function of the entropy outside, on [0, log K]: log K less its mean;
---                  lower is better, and best for a classifier that is uniform everywhere, so that beside it always
---                  stand
---   inside_entropy, outside_entropy      the mean entropies; uniform: is that inside above 0.9 log K?
---   log_likelihood, error      of inside, where y is given
---   auc            probability that a datum outside has the higher entropy; ties count half
---   aupr_outside, aupr_inside  average precision with one or the other as what is looked for
---   fpr95          share of outside that passes for inside where 95 % of inside do
---   roc            {false_positive =, true_positive =}, outside is what is looked for; entropies {inside =, outside =}
--- plot.ood draws them. Haussmann 2021, 5.6.2; Hendrycks & Gimpel 2017; Davis & Goadrich 2006.
function out_of_distribution.ood(inside, outside, given)
  local o = options.check("ood", given, known)
  local p, q = probabilities("ood", "inside", inside), probabilities("ood", "outside", outside)
  local k = p:size(2)
  if q:size(2) ~= k then
    core.error(("ood: inside and outside must have the same classes, got %d and %d"):format(k, q:size(2)))
  end
  local a, b = entropy(p), entropy(q)
  local fpr, tpr = roc(b, a)
  local n = fpr:size(1)
  local made = { classes = k, inside = a:size(1), outside = b:size(1), ecdf_auc = classification.ecdf_auc(b, k),
    inside_entropy = a:mean():item(), outside_entropy = b:mean():item(),
    auc = ((fpr:slice(1, 2, n) - fpr:slice(1, 1, n - 1)) * (tpr:slice(1, 2, n) + tpr:slice(1, 1, n - 1))):sum():item()
      / 2,
    aupr_outside = average_precision(b, a), aupr_inside = average_precision(-a, -b), fpr95 = false_positives(a, b),
    roc = { false_positive = fpr, true_positive = tpr }, entropies = { inside = a, outside = b } }
  made.uniform = made.inside_entropy > 0.9 * math.log(k)
  if o.y then
    made.log_likelihood = classification.log_likelihood(o.y, p)
    made.error = 1 - classification.accuracy(o.y, p)
  end
  return setmetatable(made, meta)
end

return out_of_distribution
