--- Divergences without a closed form, by Monte Carlo: each returns a table with `value` and `se`, its standard error,
--- both of the shape of the joint batch.
local core = require "penumbra.core"
local estimate = require "penumbra.estimate"
local options = require "penumbra.options"

local divergence = {}

local settings = { draws = 10000, generator = options.optional "generator", pathwise = false }

-- Draws of p, with a gradient to its parameters if asked for.
local function draw(p, o)
  local sizes = { o.draws, generator = o.generator }
  if o.pathwise then
    return p:rsample(sizes)
  end
  return p:sample(sizes)
end

-- Mean over the first axis and its standard error; a value common to all, infinite too, has error 0.
local function mean_of(x, n)
  local mean = x:mean(1)
  local spread = x - mean
  local same = core.where(x:eq(mean), 0 * core.ones(x:shape(), { dtype = x:dtype() }), spread)
  return mean, ((same ^ 2):sum(1) / ((n - 1) * n)):sqrt():detach()
end

local function check(where, given, ...)
  for i = 1, select("#", ...) do
    options.argument(where, "argument " .. i, (select(i, ...)), "distribution")
  end
  local o = options.check(where, given, settings)
  if o.draws < 2 then
    core.error(("%s: draws must be at least 2, got %g"):format(where, o.draws))
  end
  return o
end

--- kl(p, q [, options]): E_p[log p(x) - log q(x)] and its standard error from draws of p: what dist.kl has no formula
--- for. Options: draws (10000), generator, pathwise (draw by p:rsample, so that the estimate has a gradient to
--- p's parameters too).
function divergence.kl(p, q, given)
  local o = check("kl_monte_carlo", given, p, q)
  local x, lp
  if o.pathwise then
    x, lp = p:rsample_log_prob { o.draws, generator = o.generator }
  else
    x = draw(p, o)
    lp = p:log_prob(x)
  end
  return estimate.new(mean_of(lp - q:log_prob(x), o.draws))
end

--- entropy(d [, options]): -E[log p(x)] and its standard error from draws of d. Options as for kl.
function divergence.entropy(d, given)
  local o = check("entropy_monte_carlo", given, d)
  local lp
  if o.pathwise then
    lp = select(2, d:rsample_log_prob { o.draws, generator = o.generator })
  else
    lp = d:log_prob(draw(d, o))
  end
  return estimate.new(mean_of(-lp, o.draws))
end

--- expectation(d [, f [, options]]): E[f(x)] and its standard error from draws of d; f takes draws [n, batch, event]
--- and gives a tensor whose first axis counts them, and is x itself unless given. Options as for kl.
function divergence.expectation(d, f, given)
  if type(f) == "table" and given == nil then
    f, given = nil, f
  end
  local o = check("expectation_monte_carlo", given, d)
  if f then
    options.argument("expectation_monte_carlo", "f", f, "function")
  end
  local x = draw(d, o)
  local value = x
  if f then
    value = options.argument("expectation_monte_carlo", "what f gives", f(x), "tensor")
  end
  if value:size(1) ~= o.draws then
    core.error(("expectation_monte_carlo: f must give %d rows, one a draw, got %d"):format(o.draws,
      value:size(1)))
  end
  return estimate.new(mean_of(value, o.draws))
end

--- normal_log_uniform(q): KL(q || p) of a normal q and the improper prior p(|w|) ~ 1 / |w| of variational dropout, up
--- to the constant that makes it tend to 0 as alpha = scale^2 / loc^2 grows:
---   -(k1 sigmoid(k2 + k3 log alpha) - log(1 + 1 / alpha) / 2 - k1),  k1 = 0.63576, k2 = 1.87320, k3 = 1.48695.
--- An approximation, within 0.01 of the integral. Source: Molchanov, Ashukha & Vetrov 2017, eq. 14.
function divergence.normal_log_uniform(q)
  if type(q) ~= "userdata" or getmetatable(q) ~= "penumbra.distribution" or q.name ~= "normal" then
    core.error "kl_normal_log_uniform: q must be a normal distribution"
  end
  local k1, k2, k3 = 0.63576, 1.87320, 1.48695
  local log_alpha = (q.scale:log() - q.loc:abs():log()) * 2
  local kl = k1 - k1 * core.sigmoid(log_alpha * k3 + k2) + core.softplus(-log_alpha) * 0.5
  kl = kl:broadcast_to(q.own_batch_shape)
  for _ = 1, q.independent_rank do
    kl = kl:sum(-1)
  end
  return kl
end

local log_two = math.log(2)

--- jensen_shannon(p, q [, options]): (KL(p || m) + KL(q || m)) / 2 with m = (p + q) / 2 and its standard error: between
--- 0 and log 2. Options as for kl.
function divergence.jensen_shannon(p, q, given)
  local o = check("jensen_shannon_monte_carlo", given, p, q)
  local function half(a, b)
    local x = draw(a, o)
    local la, lb = a:log_prob(x), b:log_prob(x)
    return log_two - core.softplus(lb - la)
  end
  local m1, e1 = mean_of(half(p, q), o.draws)
  local m2, e2 = mean_of(half(q, p), o.draws)
  return estimate.new((m1 + m2) / 2, (e1 ^ 2 + e2 ^ 2):sqrt() / 2)
end

return divergence
