--- What a step of the learner needs of the sites of its data, without all of them at once: their product, what scores
--- are made of, and the product of those of chosen data (Kurle et al. 2020, sections 3.2 and 3.3, appendices C to E).
--
-- With b what the sites lack to posterior / predecessor, every datum gets b / N (appendix C): then the sites multiply
-- exactly, and predecessor times the sites of some data (9a) is posterior over those of the others (9b).
-- help: none
local core = require "penumbra.core"
local gaussian = require "penumbra.continual.gaussian"
local memory = require "penumbra.continual.memory"
local sites = require "penumbra.continual.sites"

local site_totals = {}

local MANY <const> = 1 << 18 -- numbers in the sites of all data, from which on two passes for products are cheaper

local function doubled(s)
  return gaussian.like(s, s.precision_mean:to "float64", s.precision:to "float64")
end

-- All sites at once: one pass of the draws.
local function of_all(model, x, y, how, q)
  local s, terms = sites.sites(model.net.net, x, y, how)
  s = doubled(s)
  local mean, variance = gaussian.moments(q)
  local of_mean = s.precision_mean:matmul(mean) - s.precision:matmul(mean:square()) * 0.5
  return {
    total = gaussian.like(s, s.precision_mean:sum(1), s.precision:sum(1)), terms = terms,
    of_spread = s.precision:matmul(variance) * -0.5, of_mean = of_mean,
    chosen = function(places)
      return gaussian.like(s, s.precision_mean:take(1, places):sum(1), s.precision:take(1, places):sum(1))
    end,
  }
end

-- Their product, and that of chosen data by a second pass of the same draws.
local function of_sums(model, x, y, how)
  local before = how.generator:state()
  local function product(data, targets, weights)
    how.weights = weights
    local sums = sites.site_sums(model.net.net, data, targets, how)
    return doubled(core.new_natural("diagonal", sums.precision_mean, sums.precision)), sums
  end
  local weights = how.weights
  local total, terms = product(x, y, weights)
  return {
    total = total, terms = terms, of_site = terms.expected_log_site:to "float64",
    chosen = function(places)
      how.generator:set_state(before)
      return (product(x:take(1, places), y:take(1, places), weights and weights:take(1, places)))
    end,
  }
end

--- estimate(model, belief, x, y, o): the sites at the belief {mean =, log_scale =, log_noise =}; y as the script gave
--- it; o {weights =, draws =, estimator =, generator =, centred =, many =}. Gives {num_data =, total =, expected =,
--- at_mean =, of_site =, of_spread =, chosen =}: total a factor; [N] each: the expected log likelihood, the log
--- likelihood at the mean, the expected log r, and, of all sites at once or where they will be `centred`, what of it
--- comes from the spread; chosen(places) the product of the sites of these data.
function site_totals.estimate(model, belief, x, y, o)
  local q = site_totals.factor(belief)
  local how = { likelihood = model.kind.noisy and "normal" or model.likelihood, posterior = q, draws = o.draws,
    noise_scale = model.kind.noisy and math.exp(belief.log_noise:item()) or nil,
    weights = o.weights and o.weights:to(model.net.dtype), estimator = o.estimator, generator = o.generator,
    antithetic = "where_possible" }
  local all = o.centred or model.net.size * x:size(1) <= (o.many or MANY)
  local e = (all and of_all or of_sums)(model, x, y, how, q)
  e.num_data, e.of_site = x:size(1), e.of_site or e.of_mean + e.of_spread
  e.expected = e.terms.expected_log_likelihood:to "float64"
  e.at_mean = e.terms.log_likelihood_at_mean:to "float64"
  return e
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
  local function of(name, values) return (lacking[name] * values):sum():item() * share end
  local of_spread = of("precision", variance) * -0.5
  local of_mean = of("precision_mean", mean) - of("precision", mean:square()) * 0.5
  return memory.scored({ expected = e.expected, at_mean = e.at_mean, of_site = e.of_site + (of_mean + of_spread),
    of_spread = e.of_spread and e.of_spread + of_spread }, kind, weights and weights:to "float64")
end

--- update(estimate, lacking, predecessor, posterior, {kept =, others =, method =, floor =}): the Gaussian part without
--- the data `kept`, by the sites of the `others` ("multiply", 9a) or by theirs ("divide", 9b), guarded; second the
--- number of precisions raised.
function site_totals.update(e, lacking, p, q, o)
  local multiply = o.method == "multiply"
  local places = multiply and o.others or o.kept
  local share, s = places:numel() / e.num_data, nil
  if share > 0 then
    local product = e.chosen(places)
    s = { precision_mean = product.precision_mean + lacking.precision_mean * share,
      precision = product.precision + lacking.precision * share }
  end
  return memory.updated(multiply and p or q, s, multiply and 1 or -1, p, q, o.floor)
end

return site_totals
