--- Networks whose weights have a posterior. nn.bayesian takes any deterministic network and gives each of its
--- parameters an
--- independent normal posterior and a prior; what the network computes stays as it was written.
---
---     local net = nn.bayesian(nn.sequential{nn.linear(13, 50), nn.relu(), nn.linear(50, 1)}, {prior = dist.normal(0,
---     1)})
---     local loss = -infer.elbo{log_likelihood = dist.normal(net(x), 0.1):log_prob(y):sum(-1), kl = net:kl(), num_data
---     = n}
---
--- The parameters of the network given are the posterior's means. Options:
---   prior             a distribution of numbers (or with the parameter's shape) for every parameter; a number, the
---   scale of a
---                     normal prior around 0; a table from names, or their last words, such as "weight", to those; or a
---                     function (name, parameter) that gives one. "unit_variance": normal, of variance 1 / (fan-in c),
---                     c the
---                     variance that the activation before the layer gives to normal numbers. Distributions may have
---                     parameters of their own, which are then learned with the network. Default: normal(0, 1)
---   estimator         "local" (default): draws the outputs of linear and conv2d layers, a row each (local
---                     reparametrisation), all else as "weights"
---                     "weights": draws every parameter once a call
---                     "flipout": one draw of the weights of linear and conv2d layers, whose signs each row turns anew
---   posterior_scale   standard deviation that the posterior starts with (default 0.05), or "unit_variance": means and
---   scales
---                     are drawn so that both together have the variance of the "unit_variance" prior
---   draws             of parameters whose divergence has no closed form, for its Monte Carlo estimate (default 1)
---
--- net(x) draws, net:mean(x) does not; net:kl() is summed over all weights, each counted once however often the network
--- is
--- called; net:moments(m, v) passes means and variances through; net:posterior(name) is a parameter's posterior.
--- net:predict(x, {draws = 100}) gives draws (pn.help "penumbra.nn.predict").
-- help: pn.nn, quiet
local core = require "penumbra.core"
local options = require "penumbra.options"
local parameters = require "penumbra.nn.parameters"
local prior_rules = require "penumbra.nn.unit_variance"

local bayesian = {}

local function dist()
  return require "penumbra.distribution"
end

-- ---- priors ----

local function as_prior(v, name)
  if type(v) == "number" then
    if not (v > 0) then
      core.error(("bayesian: prior of '%s' must have a positive scale, got %s"):format(name, v))
    end
    return dist().normal(0, v)
  elseif not dist().is(v) then
    core.error(("bayesian: prior of '%s' must be a distribution or a scale, got %s"):format(name, type(v)))
  end
  return v
end

-- The prior of one parameter, from what the option says.
local function choose_prior(given, name, p, scales)
  if given == nil then
    return dist().normal(0, 1)
  elseif given == "unit_variance" then
    return dist().normal(0, scales[name])
  elseif type(given) == "function" then
    return as_prior(given(name, p), name)
  elseif type(given) == "table" then
    local own = given[name] or given[name:match "[^.]+$"]
    if own == nil then
      core.error(("bayesian: there is no prior for '%s'"):format(name))
    end
    return as_prior(own, name)
  end
  return as_prior(given, name)
end

local function to_dtype(d, p)
  return d.dtype ~= p:dtype() and d:to(p:dtype()) or d
end

-- ---- layers whose weights have a normal posterior: mean, scale and options by table ----

local function variance_of(log_scale)
  return log_scale and (log_scale * 2):exp()
end

-- Each gives f(x, weight, bias): what the layer computes with these; linear in both.
local maps = {
  linear = function()
    return function(x, w, b)
      return b and x:matmul(w) + b or x:matmul(w)
    end
  end,
  conv2d = function(layer)
    local _, set = layer:configuration()
    return function(x, w, b)
      local y = core.conv2d(x, w, set.stride, set.padding, set.dilation, set.groups)
      return b and y + b:reshape { -1, 1, 1 } or y
    end
  end,
}

local function noise_like(t, generator)
  return core.randn(t:shape(), { dtype = t:dtype(), generator = generator })
end

local function signs(shape, like, generator)
  return core.rand(shape, { dtype = like:dtype(), generator = generator }):lt(0.5):to(like:dtype()) * 2 - 1
end

-- The output drawn row by row: its mean and variance given x are linear maps of x and x^2.
local function draw_local(s, x, generator)
  local mean = s.map(x, s.weight, s.bias)
  local variance = s.map(x:square(), variance_of(s.weight_log_scale), variance_of(s.bias_log_scale))
  return mean + (variance + 1e-30):sqrt() * noise_like(mean, generator)
end

-- One draw of the weights' deviations, whose signs each row turns: Wen et al. (2018).
local function draw_flipout(s, x, generator)
  local function deviation(p, log_scale)
    return log_scale:exp() * noise_like(p, generator)
  end
  local mean, delta = s.map(x, s.weight, s.bias), deviation(s.weight, s.weight_log_scale)
  local from, to = x:shape(), mean:shape()
  if s.kind_of == "conv2d" then
    from[3], from[4], to[3], to[4] = 1, 1, 1, 1
  end
  local turned = s.map(x * signs(from, x, generator), delta) * signs(to, x, generator)
  local y = mean + turned
  if s.bias then
    local b = deviation(s.bias, s.bias_log_scale)
    y = y + (s.kind_of == "conv2d" and b:reshape { -1, 1, 1 } or b)
  end
  return y
end

-- E f = E W E h,  var f = (E W^2) var h + var W (E h)^2
local function moments(s, mean, variance)
  local spread = variance_of(s.weight_log_scale)
  local out = s.map(mean:square(), spread, variance_of(s.bias_log_scale))
  if variance then
    out = out + s.map(variance, s.weight:square() + spread)
  end
  return s.map(mean, s.weight, s.bias), out
end

-- ---- the network ----

-- A copy of v in which f(layer) stands for each layer for which it gives something.
local function map_layers(v, f, made)
  if made[v] then
    return made[v]
  elseif type(v) == "userdata" then
    made[v] = getmetatable(v) == "penumbra.layer" and f(v) or v
    return made[v]
  end
  local copy = {}
  made[v] = copy
  for key, part in next, v do
    local kind = type(part)
    copy[key] = (kind == "table" or kind == "userdata") and map_layers(part, f, made) or part
  end
  return setmetatable(copy, getmetatable(v))
end

local methods = {}

-- identity of a parameter -> its name
local function names_of(net)
  local names = {}
  for _, entry in ipairs(parameters.named(net)) do
    names[core.identity(entry[2])] = entry[1]
  end
  return names
end

-- The network with weights drawn for a call: linear maps by the estimator, other parameters once.
local function drawn(self, generator, estimator)
  local nn, values, net, names = require "penumbra.nn", {}, self.net, names_of(self.net)
  if estimator ~= "weights" then
    net = map_layers(net, function(layer)
      local map = maps[layer:type()]
      if not map then
        return nil
      end
      local s = { map = map(layer), kind_of = layer:type() }
      for _, entry in ipairs(layer:own_parameters()) do
        s[entry[1]], s[entry[1] .. "_log_scale"] = entry[2], self.log_scale[names[core.identity(entry[2])]]
      end
      local draw = estimator == "local" and draw_local or draw_flipout
      return nn.module {
        forward = function(_, x, own_generator)
          return draw(s, x, own_generator or generator)
        end,
        moments = function(_, mean, variance)
          return moments(s, mean, variance)
        end,
      }
    end, {})
  end
  local rest = parameters.named(net)
  if #rest == 0 then
    return net
  end
  for _, entry in ipairs(rest) do
    local p = entry[2]
    values[entry[1]] = p + self.log_scale[names[core.identity(p)]]:exp() * noise_like(p, generator)
  end
  return parameters.with(net, values)
end

local function last_generator(...)
  local last = select(select("#", ...), ...)
  return type(last) == "userdata" and getmetatable(last) == "penumbra.generator" and last or nil
end

local function forward(self, ...)
  if require "penumbra.nn".mode() == "mean" then
    return self.net(...)
  end
  return drawn(self, last_generator(...), self.estimator)(...)
end

-- From N(loc, e^(2 log_scale)) to a normal prior N(m, s^2), summed:
-- ((e^(2 log_scale) + (loc - m)^2) / s^2 - 1) / 2 - log_scale + log s, without the logarithm of a scale just made.
local function to_normal(loc, log_scale, p)
  local half_precision, distance = p.scale:square():reciprocal() * 0.5, loc - p.loc
  local each = ((log_scale * 2):exp() + distance:square()) * half_precision - log_scale
  return each:sum() + (p.scale:log() - 0.5):sum() * (loc:numel() / p.scale:numel())
end

-- Monte Carlo over draws of q where no formula is known.
local function divergence(q, p, draws)
  local ok, value = pcall(dist().kl, q, p)
  if ok then
    return value:sum()
  end
  local x = q:rsample { draws }
  return (q:log_prob(x) - p:log_prob(x)):sum() / draws
end

local function normal(loc, log_scale)
  return dist().normal(loc, log_scale:exp())
end

local function kl(self)
  local total
  for _, entry in ipairs(parameters.named(self.net)) do
    local name = entry[1]
    local loc, log_scale, prior = entry[2], self.log_scale[name], self.priors[name]
    local part = prior.name == "normal" and to_normal(loc, log_scale, prior)
      or divergence(normal(loc, log_scale), prior, self.draws)
    total = total and total + part or part
  end
  return total
end

--- The posterior of the parameter of that name, a normal distribution.
function methods.posterior(self, name)
  for _, entry in ipairs(parameters.named(self.net)) do
    if entry[1] == name then
      return normal(entry[2], self.log_scale[name])
    end
  end
  return core.error(("posterior: there is no parameter '%s'%s"):format(tostring(name),
    options.suggestion(name, self.names)))
end

local function propagate(self, mean, variance)
  return drawn(self, nil, "local"):moments(mean, variance)
end

local spec = {
  prior = options.any(),
  estimator = options.choice("local", "weights", "flipout"),
  posterior_scale = options.any(0.05),
  draws = 1,
}

local function check_net(net)
  local nn = require "penumbra.nn"
  if not nn.is_network(net) then
    core.error("bayesian: network must be a layer, a sequential or a module, got " .. type(net))
  end
  local named = parameters.named(net)
  if #named == 0 then
    core.error "bayesian: the network has no parameters"
  end
  return named
end

--- bayesian(network [, {prior =, estimator =, posterior_scale =, draws =}]): the network with a normal posterior over
--- each
--- parameter (pn.help "penumbra.nn.bayesian").
function bayesian.bayesian(net, given)
  local nn, o = require "penumbra.nn", options.check("bayesian", given, spec)
  local named = check_net(net)
  options.whole("bayesian", "draws", o.draws, 1)
  local self = { net = net, log_scale = {}, priors = {}, names = {} }
  local scales = (o.prior == "unit_variance" or o.posterior_scale == "unit_variance") and prior_rules.scales(net) or {}
  for k, entry in ipairs(named) do
    local name, p = entry[1], entry[2]
    self.names[k] = name
    self.priors[name] = to_dtype(choose_prior(o.prior, name, p, scales), p)
    if o.posterior_scale == "unit_variance" then
      local loc, log_scale = prior_rules.draw(p, scales[name])
      p:set(loc)
      self.log_scale[name] = core.param(log_scale)
    elseif type(o.posterior_scale) == "number" and o.posterior_scale > 0 then
      self.log_scale[name] = core.param(core.full(p:shape(), math.log(o.posterior_scale), { dtype = p:dtype() }))
    else
      core.error(("bayesian: posterior_scale must be a positive number or \"unit_variance\", got %s"):format(
        tostring(o.posterior_scale)))
    end
  end
  self.estimator, self.draws = o.estimator, o.draws
  self.forward, self.kl, self.moments = forward, kl, propagate
  self.posterior, self.become_prior = methods.posterior, methods.become_prior
  return nn.module(self)
end

--- Makes today's posterior tomorrow's prior: every prior becomes a normal distribution of the posterior's present mean
--- and
--- scale, which later steps do not change. Returns the network.
function methods.become_prior(self)
  for _, name in ipairs(self.names) do
    local q = methods.posterior(self, name)
    self.priors[name] = dist().normal(core.detach(core.param(q:mean())), core.detach(core.param(q:stddev())))
  end
  return self
end

return bayesian
