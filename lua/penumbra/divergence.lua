--- Divergences without a closed form, by Monte Carlo: each returns the estimate and its standard error, both of the
--- shape of the joint batch.
local core = require "penumbra.core"
local options = require "penumbra.options"

local divergence = {}

local settings = { num_samples = 10000, generator = options.optional(), pathwise = false }

-- Draws of p, with a gradient to its parameters if asked for.
local function draw(p, o)
  local sizes = { o.num_samples, generator = o.generator }
  if o.pathwise then
    return p:rsample(sizes)
  end
  return p:sample(sizes)
end

-- Mean over the first axis and its standard error; a value common to all, infinite too, has error 0.
local function estimate(x, n)
  local mean = x:mean(1)
  local spread = x - mean
  local same = core.where(x:eq(mean), 0 * core.ones(x:shape(), { dtype = x:dtype() }), spread)
  return mean, ((same ^ 2):sum(1) / ((n - 1) * n)):sqrt():detach()
end

local function check(where, p, q, given)
  local o = options.check(where, given or {}, settings)
  for i, d in ipairs { p, q } do
    if type(d) ~= "userdata" or getmetatable(d) ~= "penumbra.distribution" then
      core.error(("%s: argument %d must be a distribution, got %s"):format(where, i, type(d)))
    end
  end
  if o.num_samples < 2 then
    core.error(("%s: num_samples must be at least 2, got %g"):format(where, o.num_samples))
  end
  return o
end

--- kl(p, q [, options]): E_p[log p(x) - log q(x)] and its standard error from draws of p: what dist.kl has no formula
--- for. Options: num_samples (10000), generator, pathwise (draw by p:rsample, so that the estimate has a gradient to
--- p's parameters too).
function divergence.kl(p, q, given)
  local o = check("kl_monte_carlo", p, q, given)
  local x, lp
  if o.pathwise then
    x, lp = p:rsample_log_prob { o.num_samples, generator = o.generator }
  else
    x = draw(p, o)
    lp = p:log_prob(x)
  end
  return estimate(lp - q:log_prob(x), o.num_samples)
end

local log_two = math.log(2)

--- jensen_shannon(p, q [, options]): (KL(p || m) + KL(q || m)) / 2 with m = (p + q) / 2 and its standard error: between
--- 0 and log 2. Options as for kl.
function divergence.jensen_shannon(p, q, given)
  local o = check("jensen_shannon_monte_carlo", p, q, given)
  local function half(a, b)
    local x = draw(a, o)
    local la, lb = a:log_prob(x), b:log_prob(x)
    return log_two - core.softplus(lb - la)
  end
  local m1, e1 = estimate(half(p, q), o.num_samples)
  local m2, e2 = estimate(half(q, p), o.num_samples)
  return (m1 + m2) / 2, (e1 ^ 2 + e2 ^ 2):sqrt() / 2
end

return divergence
