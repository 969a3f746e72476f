--- What a step of the learner needs of the sites of its data, without all of them at once: their sum over data, what
--- scores are made of, and the sites of chosen data (Kurle et al. 2020, sections 3.2 and 3.3, appendices C to E).
--
-- With b what the sites lack to posterior / predecessor, every datum gets b / N (appendix C): then the sites multiply
-- exactly, and predecessor times the sites of some data (9a) is posterior over those of the others (9b).
-- help: none
local core = require "penumbra.core"
local gaussian = require "penumbra.continual.gaussian"
local memory = require "penumbra.continual.memory"
local sites = require "penumbra.continual.sites"

local site_totals = {}

local NAMES <const> = { "precision_mean", "precision" }

--- estimate(model, belief, x, y, o): the sites at the belief {mean =, log_scale =, log_noise =}; y as the script gave
--- it; o {weights =, draws =, estimator =, generator =}. Gives {num_data =, total =, expected =, at_mean =,
--- of_mean =, of_spread =, chosen =}: total a factor; [N] each: the expected log likelihood, the log likelihood at the
--- mean, log r there, and what the spread adds to the mean of log r; chosen(places) the sites of these data.
function site_totals.estimate(model, belief, x, y, o)
  local q = site_totals.factor(belief)
  local s, terms = sites.sites(model.net.net, x, y, { likelihood = model.likelihood, posterior = q, draws = o.draws,
    noise_scale = model.name == "gaussian" and math.exp(belief.log_noise:item()) or nil,
    weights = o.weights and o.weights:to(model.net.dtype), estimator = o.estimator, generator = o.generator })
  local eta, precision = s.precision_mean:to "float64", s.precision:to "float64"
  local mean, variance = gaussian.moments(q)
  return {
    num_data = x:size(1),
    total = gaussian.like(s, eta:sum(1), precision:sum(1)),
    expected = terms.expected_log_likelihood:to "float64",
    at_mean = terms.log_likelihood_at_mean:to "float64",
    of_mean = eta:matmul(mean) - precision:matmul(mean:square()) * 0.5,
    of_spread = precision:matmul(variance) * -0.5,
    chosen = function(places)
      return gaussian.like(s, eta:take(1, places), precision:take(1, places))
    end,
  }
end

--- factor(belief): a belief by mean and log_scale as a factor of float64.
function site_totals.factor(belief)
  local precision = (belief.log_scale:to "float64" * -2):exp()
  return core.new_natural("diagonal", belief.mean:to "float64" * precision, precision)
end

--- lacking(estimate, predecessor, posterior): a factor, posterior / predecessor over the product of the sites.
function site_totals.lacking(e, p, q)
  return gaussian.like(q, q.precision_mean - p.precision_mean - e.total.precision_mean,
    q.precision - p.precision - e.total.precision)
end

-- Root mean square.
local function size(t)
  return t:square():mean():sqrt():item()
end

--- bias(lacking, posterior): how far the posterior is from where its sites put it, {precision =, mean =}: root mean
--- squares over weights of the lacking precision over the posterior's, and of the ELBO's derivative in the mean times
--- the standard deviation. Both are 0 at an optimum with exact sites.
function site_totals.bias(lacking, q)
  local mean = q.precision_mean / q.precision
  return { precision = size(lacking.precision / q.precision),
    mean = size((lacking.precision_mean - lacking.precision * mean) / q.precision:sqrt()) }
end

--- scores(estimate, lacking, posterior, kind, weights): those of corrected sites (pn.continual.scores), [N]; weights
--- makes them those of the untempered likelihoods.
function site_totals.scores(e, lacking, q, kind, weights)
  local mean, variance = gaussian.moments(q)
  local share = 1 / e.num_data
  local function of(name, values) return (lacking[name] * values):sum():item() end
  local of_mean = of("precision_mean", mean) - of("precision", mean:square()) * 0.5
  local score = e.expected - (e.of_spread - of("precision", variance) * 0.5 * share)
  score = score - (kind == "centred" and e.at_mean or e.of_mean + of_mean * share)
  if weights then
    score = score / weights:to "float64"
  end
  return kind == "absolute" and score:abs() or score
end

--- update(estimate, lacking, predecessor, posterior, {kept =, others =, method =, floor =}): the Gaussian part without
--- the data `kept`, by the sites of the `others` ("multiply", 9a) or by theirs ("divide", 9b), guarded; second the
--- number of precisions raised.
function site_totals.update(e, lacking, p, q, o)
  local multiply = o.method == "multiply"
  local places = multiply and o.others or o.kept
  local from, sign, share = multiply and p or q, multiply and 1 or -1, places:numel() / e.num_data
  local result = from
  if places:numel() > 0 then
    local s, parts = e.chosen(places), {}
    for k, name in ipairs(NAMES) do
      parts[k] = from[name] + (s[name]:sum(1) + lacking[name] * share) * sign
    end
    result = gaussian.like(q, parts[1], parts[2])
  end
  return memory.guarded(result, p, q, o.floor)
end

return site_totals
