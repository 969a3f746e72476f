--- Distributions. A distribution is an immutable value: a kind with its parameters, which are numbers or
--- tensors that broadcast to the batch shape.
---
---     local d = dist.normal(0, pn.ones(3))            -- parameters in declared order
---     local d = dist.normal{loc = 0, scale = 2}       -- or by name; missing ones take their default
---     d:log_prob(x)           log density or mass: sample + batch; -inf outside the support, NaN at NaN. x: a tensor,
---                             a number or a list
---     d:sample{n, m}          independent draws: sample + batch + event; no gradient
---     d:rsample{n}            the same draws with a gradient to the parameters
---     d:sample{n, generator = g}, d:sample({n}, g)    from a generator of one's own
---     d:rsample_log_prob{n}   draws with a gradient and their log density, in one pass of a flow's networks
---     d:mean() d:variance() d:stddev() d:mode()       batch + event
---     d:entropy()             in nats: batch
---     d:cdf(x) d:icdf(p)      probability of values <= x, and its inverse
---     d:log_cdf(x) d:log_survival(x)    log of the probabilities of values <= x and > x, exact far out in the tails
---     d:validate()            d, whose log_prob raises for values outside the support instead of giving -inf; also
---                             dist.gamma{..., validate = true}, and pn.validate(true) for all distributions
---     d:independent(k)        the last k batch axes become event axes
---     d:expand{sizes}         repeated to a larger batch shape
---     d:to "float32"          with parameters of another dtype
---     d:arguments()           {name = tensor} as given: pn.save keeps it, dist[d.name](t) makes d again
---     d:parameters()          list of those to train (pn.param) among them and those of its parts, in a fixed order
---     d:named_parameters() d:num_parameters() d:state() d:load_state(t)      as networks have them (pn.help "nn")
---     d:plot("name.svg")      draws density or mass with gnuplot (pn.help "penumbra.distribution.density")
---     d.name d.support d.discrete d.batch_shape d.event_shape    and every parameter by its name: d.loc
---
--- x is never stretched silently: a size-1 axis of x against a larger batch axis is an error, and so is an
--- x with fewer axes than the batch unless the axes it has agree with it exactly.
--- A function that a distribution does not have is an error that names both.
-- help: pn.dist, part, methods d
local core = require "penumbra.core"
local constructor = require "penumbra.distribution.constructor"
local options = require "penumbra.options"
local own = require "penumbra.distribution.own"
local own_bijector = require "penumbra.distribution.own_bijector"
local own_composite = require "penumbra.distribution.own_composite"
local own_kind = require "penumbra.distribution.own_kind"

local dist = {}

local listed = constructor.listed
for _, row in ipairs(core.distribution_rows()) do
  dist[row.name] = constructor[row.name]
end

core.describe = require "penumbra.distribution.describe"
require "penumbra.parameters" -- the methods parameters, state and so on

-- Of a law that another module makes: function (p, q) -> their divergence, or nil where it knows none.
local function divergence_of(x)
  local meta = type(x) == "table" and not own.is(x) and getmetatable(x)
  return meta and rawget(meta, "divergence")
end

--- kl(p, q): Kullback-Leibler divergence E_p[log p(x) - log q(x)] in closed form, in nats; shape of the joint
--- batch. Infinite where values of p lie outside the support of q. A pair without closed form is an error that names it
--- (kl_monte_carlo estimates those).
function dist.kl(p, q)
  local closed = divergence_of(p) or divergence_of(q)
  local value = closed and closed(p, q)
  if value then
    return value
  elseif closed or own.is(p) or own.is(q) then
    options.argument("kl", "p", p, "distribution")
    options.argument("kl", "q", q, "distribution")
    core.error(("kl: there is no closed form for %s and %s (kl_monte_carlo estimates it)"):format(p.name, q.name))
  end
  return core.kl(p, q)
end

--- kl_pairs(): list of {p, q}, the names of the pairs that kl knows; with infinite = true where values of every p lie
--- outside the support of every q.
dist.kl_pairs = core.kl_pairs

--- within(set, x): bool tensor, which members of x lie in the named set (a `support`, or the constraint of a
--- parameter: "positive", "simplex", "lower_cholesky" ...).
dist.within = core.within

--- is(x): is x a distribution, the library's or a script's?
dist.is = constructor.is

dist.custom = own_kind.custom

--- bijector: maps with an inverse and a log-determinant (pn.help "pn.dist.bijector").
dist.bijector = core.namespace("pn.dist.bijector", require "penumbra.distribution.bijector")

--- biject_to(set [, low, high]), biject_to(d): the bijector from all numbers (or vectors) onto the named set, or onto
--- the support of the distribution d. An "interval" needs its ends low and high, a
--- "half_line" its end low. A discrete set is an error.
function dist.biject_to(set, low, high)
  if dist.is(set) then
    local d = set
    if own.is(d) and d.kind.bijector then
      return options.argument("biject_to", d.name .. "'s bijector", d.kind.bijector(d.plain or d), "bijector")
    end
    set = d.support
    if set == "interval" then
      low, high = d.low, d.high
    elseif set == "half_line" then
      low = d.scale
    end
  elseif type(set) ~= "string" then
    core.error("biject_to: set must be the name of a set or a distribution, got " .. type(set))
  end
  return core.new_biject_to(set, low, high)
end

--- transformed(base, map): the law of map(x) for x from base, map a bijector. Batch axes of base that the bijector
--- needs become event axes. log_prob(y) = base's log_prob(x) - log |det dy/dx|. cdf and icdf for numbers. Also
--- map(base).
function dist.transformed(base, map)
  if not own.is(base) and not (dist.is(base) and own_bijector.is(map)) then
    return core.new_transformed(base, map)
  end
  return own_composite.transformed(base, options.argument("transformed", "map", map, "bijector"))
end

--- mixture(weights, components): component k with probability weights[k], then x from it. weights: probabilities (a
--- list or tensor [..., K]) or a categorical distribution. components: a distribution whose last batch axis counts
--- the components, or a list of distributions. Labels are summed out: log_prob is a logsumexp. Draws of numbers
--- with a cdf have an implicit gradient (rsample). Where all components have a quantile function, so has the mixture
--- (found by Newton's steps between theirs), also with an implicit gradient.
function dist.mixture(weights, components)
  if not dist.is(weights) then
    weights = dist.categorical(weights)
  end
  if dist.is(components) then
    components = { components }
  elseif type(components) ~= "table" then
    core.error("mixture: components must be a distribution or a list, got " .. type(components))
  elseif #components == 1 then
    core.error("mixture: a list must have at least 2 components, got 1")
  end
  for _, d in ipairs(components) do
    if own.is(d) then
      for i, each in ipairs(components) do
        options.argument("mixture", "component " .. i, each, "distribution")
      end
      return own_composite.mixture(weights, components)
    end
  end
  return core.new_mixture(weights, components)
end

--- mixture_of_experts(experts [, weights [, mask]]): the mixture of the experts with equal weights, or these (a list or
--- tensor [..., M]). experts: a distribution whose last batch axis counts them, or a list. mask: bool [..., M], false
--- where an expert is missing: its weight is 0 and the others sum to 1. At least one must be present.
function dist.mixture_of_experts(experts, weights, mask)
  local one = dist.is(experts)
  if not one and type(experts) ~= "table" then
    core.error("mixture_of_experts: experts must be a distribution or a list, got " .. type(experts))
  end
  local first = one and experts or experts[1]
  local m = one and first.batch_shape[#first.batch_shape] or not one and #experts
  if not dist.is(first) or not m or m < 1 then
    core.error "mixture_of_experts: experts must be at least 1 distribution, along a last batch axis or in a list"
  end
  local dtype = first.dtype
  weights = weights or core.ones({ m }, { dtype = dtype })
  local w = options.numbers("mixture_of_experts", "weights",
    listed("mixture_of_experts", "weights", weights, { dtype = dtype }), "tensor")
  if mask ~= nil then
    mask = options.numbers("mixture_of_experts", "mask", listed("mixture_of_experts", "mask", mask), "tensor")
    w = core.where(mask, w, core.zeros({}, { dtype = dtype }))
  end
  w = w / w:sum({ -1 }, true)
  if not one and m == 1 then -- a list of one is that distribution
    return experts[1]
  end
  return dist.mixture(dist.categorical(w), experts)
end

--- masked(d, mask): d where the bool tensor mask is true (it broadcasts with the batch); elsewhere log_prob and
--- entropy are 0, and x, even NaN, has no influence: for missing data.
function dist.masked(d, mask)
  return (own.is(d) and own_composite or core)[own.is(d) and "masked" or "new_masked"](d, mask)
end

local limited = require "penumbra.distribution.limited"
local inflated = require "penumbra.distribution.inflated"
local ordered_labels = require "penumbra.distribution.ordered_labels"

--- censored(d, low, high): numbers of d of which those below low were recorded as low and those above high as high
--- (nil: no limit; numbers, or tensors with a limit for each row). log_prob at a limit is the log of the probability
--- beyond it, elsewhere d's. d has a cdf. Draws lie between the limits.
---
---     m:observe("y", dist.censored(dist.weibull(scale, shape), nil, limit), y)
---     -- times with an indicator of the event: a limit where it has not been seen, none elsewhere
---     m:observe("t", dist.censored(d, nil, pn.where(event, math.huge, t)), t)
---
--- For what is observed. What was never recorded beyond a limit is truncated.
dist.censored = limited.censored

--- truncated(d, low, high): d given that low <= x <= high (nil: no limit; numbers, or tensors with a limit for each
--- row). d has a cdf; draws and rsample by its icdf. Also as a latent variable, with low.
dist.truncated = limited.truncated

--- zero_inflated(d, gate): 0 with probability gate, else a number of d, which is discrete:
--- p(0) = gate + (1 - gate) p_d(0). dist.zero_inflated(dist.negative_binomial(5, 0.3), 0.2). See hurdle.
dist.zero_inflated = inflated.zero_inflated

--- hurdle(d, gate): 0 with probability gate, else a number of d that is not 0: p(0) = gate, p(x) = (1 - gate) p_d(x) /
--- (1 - p_d(0)). d of counts, or of positive numbers (rain that falls, or does not: hurdle(dist.gamma(2, 1), 0.6)).
dist.hurdle = inflated.hurdle

--- ordered_logistic(eta, cutpoints): a categorical distribution of ordered labels 0 .. K - 1 with cut points [..., K -
--- 1], ascending: P(y <= k) = sigmoid(cutpoints[k + 1] - eta). Answers on a scale, as proportional odds.
---
---     local c = m:sample("c", dist.normal(pn.zeros{3}, 2):independent(1), {constraint = "ordered_vector"})
---     m:observe("y", dist.ordered_logistic(x:matmul(w), c), y)
dist.ordered_logistic = ordered_labels.logistic

--- ordered_probit(eta, cutpoints): the same with the normal cdf: P(y <= k) = ndtr(cutpoints[k + 1] - eta).
dist.ordered_probit = ordered_labels.probit

--- expanded(d, sizes): d repeated to a larger batch shape, as d:expand(sizes).
function dist.expanded(d, sizes)
  options.argument("expanded", "d", d, "distribution")
  return d:expand(sizes)
end

--- independent(d, k): the last k batch axes of d as event axes, as d:independent(k).
function dist.independent(d, k)
  options.argument("independent", "d", d, "distribution")
  return d:independent(k)
end

local natural = core.namespace("pn.dist.natural", require "penumbra.distribution.natural")
local divergence = require "penumbra.distribution.divergence"
local bounds = require "penumbra.distribution.bounds"
local chain = require "penumbra.distribution.chain"

--- natural: Gaussian factors by natural parameters (pn.help "pn.dist.natural"): products, quotients, powers.
dist.natural = natural

--- product_of_experts(experts [, prior [, mask]]): the normal whose density is proportional to the product of the
--- experts' over prior^(M - 1), M the number of those that the mask does not leave out (pn.help "pn.dist.natural").
dist.product_of_experts = natural.product_of_experts

--- renyi(p, q, order): Renyi divergence (1 / (a - 1)) log E_q[(p / q)^a] of two normals or two multivariate normals,
--- a = order > 0; infinite where it does not exist. Order 1 is kl(p, q).
dist.renyi = core.new_renyi

--- kl_monte_carlo(p, q [, options]): kl(p, q) from draws of p where there is no closed form: {value =, se =}, se
--- the standard error. Options: draws (10000), generator, pathwise (false).
dist.kl_monte_carlo = divergence.kl

--- entropy_monte_carlo(d [, options]): the entropy from draws of d where there is no closed form: {value =, se =}.
dist.entropy_monte_carlo = divergence.entropy

--- expectation_monte_carlo(d [, f [, options]]): E[f(x)] from draws of d, f(x) = x unless given: {value =, se =}.
dist.expectation_monte_carlo = divergence.expectation

--- kl_normal_log_uniform(q): the approximate divergence of a normal q from the improper log-uniform prior of
--- variational dropout (pn.help "penumbra.distribution.divergence").
dist.kl_normal_log_uniform = divergence.normal_log_uniform

--- jensen_shannon_monte_carlo(p, q [, options]): the Jensen-Shannon divergence, 0 to log 2: {value =, se =}.
dist.jensen_shannon_monte_carlo = divergence.jensen_shannon

--- kl_mixture(p, q [, options]): KL(p || q) where p or q is a mixture, by an approximation or a bound: method =
--- "variational", "product", "lower", "upper" or "matching" (pn.help "penumbra.distribution.bounds").
dist.kl_mixture = bounds.mixture

--- kl_gate(loc, scale, sharpness [, options]): the expected divergence of a Bernoulli gate whose input is normal
--- (pn.help "penumbra.distribution.bounds").
dist.kl_gate = bounds.gate

--- kl_bernoulli_inverse(q, c): the largest p with KL(Bernoulli(q) || Bernoulli(p)) <= c.
dist.kl_bernoulli_inverse = bounds.bernoulli_inverse

--- geometric_mean(list, weights): -log of the integral of a weighted geometric mean of normals, and the normal it is
--- proportional to (pn.help "penumbra.distribution.bounds").
dist.geometric_mean = bounds.geometric_mean

--- kl_path{drift =, diffusion = or diffusion_matrix =, step =}: KL of two stochastic differential equations along paths
--- of the first (pn.help "penumbra.distribution.chain").
dist.kl_path = chain.path

--- kl_gaussian_chain(p, q, steps): KL of two linear Gaussian Markov chains (pn.help "penumbra.distribution.chain").
dist.kl_gaussian_chain = chain.gaussian

--- kl_markov_chain(p, q, steps): KL of two Markov chains of finitely many states
--- (pn.help "penumbra.distribution.chain").
dist.kl_markov_chain = chain.markov

--- plot(d [, path [, options]]): as d:plot; d may be a list of distributions of numbers: one picture of all.
function dist.plot(d, path, given)
  return require("penumbra.distribution.density").plot(d, path, given)
end

--- panel(d [, options]): the picture of d:plot() as a panel, for pn.plot.save of several; d may be a list.
function dist.panel(d, given)
  return require("penumbra.distribution.density").panel(d, given)
end

local methods = core.distribution_methods

--- d:to(dtype): the same distribution with parameters (and parts) of that dtype, "float64" or "float32".
function methods:to(dtype)
  if dtype ~= "float64" and dtype ~= "float32" then
    core.error(("%s: to: dtype must be 'float64' or 'float32', got %s"):format(self.name, tostring(dtype)))
  end
  return require("penumbra.distribution.pack").cast(self, dtype)
end

--- d:plot([path [, options]]): draws the density or mass of each row of the batch (at most 8), of pairs of numbers
--- and shares of three in colours, of longer events where each entry falls, into an SVG or PNG file, without a path on
--- the terminal as pn.plot.show does. Options: title, x_range, y_range, labels, legend, num_points. Returns the path
--- (true), or nil, message, code ("missing" without gnuplot).
function methods:plot(path, given)
  return require("penumbra.distribution.density").plot(self, path, given)
end

own.picture = methods.plot

core.public(methods)

return dist
