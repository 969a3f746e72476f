--- Networks whose weights have a posterior. nn.bayesian takes any deterministic network and gives each of its
--- parameters an independent normal posterior and a prior; what the network computes stays as it was written.
---
---     local net = nn.bayesian(nn.sequential{nn.linear(13, 50), nn.relu(), nn.linear(50, 1)},
---       {prior = dist.normal(0, 1)})
---     local loss = -infer.elbo{log_likelihood = dist.normal(net(x), 0.1):log_prob(y):sum(-1), kl = net:kl(),
---       num_data = n}
---
--- The parameters of the network given are the posterior's means. Options:
---   prior             a distribution of numbers for every parameter (of the parameter's shape, or that broadcasts to
---                     it); a number, the scale of a normal prior around 0; false: parameters that stay certain,
---                     without prior or posterior; a table from names, or their last words, such as "weight", to
---                     those; or a function (name, parameter) that gives one. "unit_variance": normal, of variance
---                     1 / (fan-in c), c the variance that the activation before the layer gives to normal numbers.
---                     Distributions may have parameters of their own, which are then learned with the network.
---                     Default: normal(0, 1)
---   estimator         "local": draws the outputs of layers, a row each (local reparametrisation): linear, conv1d,
---                     conv2d, conv_transpose1d, conv_transpose2d, embedding. A layer that is called several times
---                     draws anew each time
---                     "flipout": one draw of the weights, whose signs each row turns anew: those layers, and rnn, gru
---                     and lstm, where a sequence keeps its signs over all steps (step by step: slower than "weights")
---                     "weights": draws every parameter once a call: any layer
---                     Layers without the estimator that was asked for are an error. Default: "local" where a layer
---                     has it, "weights" elsewhere
---   posterior_scale   standard deviation that the posterior starts with (default 0.05), or "unit_variance": means and
---                     scales are drawn so that both together have the variance of the "unit_variance" prior
---   draws             of parameters whose divergence has no closed form, for its Monte Carlo estimate (default 1)
---
--- net(x) draws, net:mean(x) does not; net:kl() is summed over all weights, each counted once however often the network
--- is called; net:moments(m, v) passes means and variances through (with a third argument, a function of a layer
--- without a posterior, which may give a module that stands for it in this call); net:posterior(name) is a parameter's
--- posterior; net:become_prior() makes it the prior of what follows. net:predict(x, {draws = 100}) gives draws.
-- help: pn.nn
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local mode = require "penumbra.nn.mode"
local network = require "penumbra.nn.network"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local prior_rules = require "penumbra.nn.unit_variance"
local weight_noise = require "penumbra.nn.weight_noise"

local bayesian = {}

-- ---- priors ----

local function as_prior(v, name)
  if v == false then
    return v
  elseif type(v) == "number" then
    if not (v > 0) then
      core.error(("bayesian: prior of '%s' must have a positive scale, got %s"):format(name, v))
    end
    return dist.normal(0, v)
  elseif not dist.is(v) then
    core.error(("bayesian: prior of '%s' must be a distribution, a scale or false, got %s"):format(name, type(v)))
  end
  return v
end

-- The prior of one parameter, from what the option says.
local function choose_prior(given, name, p, scales)
  if given == nil then
    return dist.normal(0, 1)
  elseif given == "unit_variance" then
    return dist.normal(0, scales[name])
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

local shape_text = options.shape_text

-- d in the parameter's dtype, where its shape fits.
local function fitted(d, name, p)
  if not d then
    return d
  end
  local own, shape = d.batch_shape, p:shape()
  local fits = #d.event_shape == 0 and #own <= #shape
  for k = 1, fits and #own or 0 do
    local size = shape[#shape - #own + k]
    fits = fits and (own[k] == size or own[k] == 1)
  end
  if not fits then
    core.error(("bayesian: prior of '%s' must be of numbers and broadcast to the shape %s, got batch_shape %s and "
      .. "event_shape %s"):format(name, shape_text(shape), shape_text(own), shape_text(d.event_shape)))
  end
  return d.dtype ~= p:dtype() and d:to(p:dtype()) or d
end

-- ---- the network ----

local methods = {}

-- identity of a parameter -> its name
local function names_of(net)
  local names = {}
  for _, entry in ipairs(parameters.named(net)) do
    names[core.identity(entry[2])] = entry[1]
  end
  return names
end

-- The names under which the layer's own parameters stand in `names`, and which of them are uncertain.
local function scales_of(self, layer, names)
  local scales, any = {}, false
  for _, entry in ipairs(layer:own_parameters()) do
    scales[entry[1]] = self.log_scale[names[core.identity(entry[2])]]
    any = any or scales[entry[1]] ~= nil
  end
  return any and scales or nil
end

-- The network with stand-ins for the layers that have them, and what replace(layer) gives for others.
local function with_stand_ins(self, how, generator, replace)
  local names = names_of(self.net)
  return parameters.map_layers(self.net, function(layer)
    local scales = weight_noise.has(how, layer:type()) and scales_of(self, layer, names)
    return scales and weight_noise.stand_in(layer, scales, how, generator) or replace and replace(layer) or nil
  end), names
end

-- The network with weights drawn for a call: layers that have the estimator by stand-ins, other parameters once.
local function drawn(self, generator)
  local values, net, names = {}, with_stand_ins(self, self.estimator, generator)
  local rest = parameters.named(net)
  if #rest == 0 then
    return net
  end
  for _, entry in ipairs(rest) do
    local p = entry[2]
    local log_scale = self.log_scale[names[core.identity(p)]]
    values[entry[1]] = log_scale
      and p + log_scale:exp() * core.randn(p:shape(), { dtype = p:dtype(), generator = generator }) or p
  end
  return parameters.with(net, values)
end

-- Refuses an estimator that some layer does not have.
local function check_estimator(self)
  local net, names = with_stand_ins(self, self.estimator)
  for _, entry in ipairs(parameters.named(net)) do
    local name = names[core.identity(entry[2])]
    if self.log_scale[name] then
      core.error(('bayesian: estimator must be "weights", or absent, for \'%s\', whose layer has no other, got "%s"')
        :format(name, self.estimator))
    end
  end
end

local function last_generator(...)
  local last = select(select("#", ...), ...)
  return type(last) == "userdata" and getmetatable(last) == "penumbra.generator" and last or nil
end

local function forward(self, ...)
  if mode.mode() == "mean" then
    return self.net(...)
  end
  return drawn(self, last_generator(...))(...)
end

local closed -- name of a prior -> "finite", "infinite", where its divergence from a normal posterior has a formula

local function closed_form()
  if not closed then
    closed = {}
    for _, pair in ipairs(dist.kl_pairs()) do
      if pair[1] == "normal" then
        closed[pair[2]] = pair.infinite and "infinite" or "finite"
      end
    end
  end
  return closed
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
  if closed_form()[p.name] then
    return dist.kl(q, p):sum()
  end
  local x = q:rsample { draws }
  return (q:log_prob(x) - p:log_prob(x)):sum() / draws
end

local function normal(loc, log_scale)
  return dist.normal(loc, log_scale:exp())
end

local function kl(self)
  local total
  for _, entry in ipairs(parameters.named(self.net)) do
    local name, log_scale = entry[1], self.log_scale[entry[1]]
    if log_scale then
      local loc, prior = entry[2], self.priors[name]
      local part = prior.name == "normal" and to_normal(loc, log_scale, prior)
        or divergence(normal(loc, log_scale), prior, self.draws)
      total = total and total + part or part
    end
  end
  return total
end

--- The posterior of the parameter of that name, a normal distribution.
function methods.posterior(self, name)
  for _, entry in ipairs(parameters.named(self.net)) do
    if entry[1] == name and self.log_scale[name] then
      return normal(entry[2], self.log_scale[name])
    end
  end
  return core.error(("posterior: there is no uncertain parameter '%s'%s"):format(tostring(name),
    options.suggestion(name, self.names)))
end

local function propagate(self, mean, variance, replace)
  local net, names = with_stand_ins(self, "moments", nil, replace)
  for _, entry in ipairs(parameters.named(net)) do
    local name = names[core.identity(entry[2])]
    if self.log_scale[name] then
      core.error(("moments: '%s' is uncertain, and there is no formula for mean and variance of what its layer gives "
        .. "(prior = false keeps a parameter certain)"):format(name))
    end
  end
  return net:moments(mean, variance)
end

local spec = {
  prior = options.any(),
  estimator = options.optional "string",
  posterior_scale = options.any(0.05),
  draws = 1,
}

local function check_net(net)
  if not mode.is_network(net) then
    core.error("bayesian: network must be a layer, a sequential or a module, got " .. type(net))
  end
  local named = parameters.named(net)
  if #named == 0 then
    core.error "bayesian: the network has no parameters"
  elseif parameters.kl { net } then
    core.error "bayesian: the network has a posterior, or a divergence `kl`, of its own already"
  end
  return named
end

local estimators = { ["local"] = true, weights = true, flipout = true }

local function check_options(given)
  local o = options.check("bayesian", given, spec)
  if o.estimator ~= nil and not estimators[o.estimator] then
    core.error(('bayesian: estimator must be "local", "weights" or "flipout", got "%s"'):format(o.estimator))
  elseif o.posterior_scale ~= "unit_variance" and not (type(o.posterior_scale) == "number" and o.posterior_scale > 0
      and o.posterior_scale < math.huge) then
    core.error(('bayesian: posterior_scale must be a positive number or "unit_variance", got %s'):format(
      tostring(o.posterior_scale)))
  end
  return o
end

-- The logarithm of the standard deviation that the posterior of p starts with.
local function first_scale(p, given, scale)
  if given ~= "unit_variance" then
    return core.param(core.full(p:shape(), math.log(given), { dtype = p:dtype() }))
  end
  local loc, log_scale = prior_rules.draw(p, scale)
  p:set(loc)
  return core.param(log_scale)
end

--- bayesian(network [, {prior =, estimator =, posterior_scale =, draws =}]): the network with a normal posterior over
--- each parameter (pn.help "penumbra.nn.bayesian").
function bayesian.bayesian(net, given)
  local o = check_options(given)
  local named = check_net(net)
  local self = { net = net, log_scale = {}, priors = {}, names = {} }
  local scales = (o.prior == "unit_variance" or o.posterior_scale == "unit_variance") and prior_rules.scales(net) or {}
  for _, entry in ipairs(named) do
    local name, p = entry[1], entry[2]
    local prior = fitted(choose_prior(o.prior, name, p, scales), name, p)
    if prior and closed_form()[prior.name] == "infinite" then
      core.error(("bayesian: prior of '%s' must have all numbers as its support, got %s"):format(name, prior.name))
    elseif prior then
      self.names[#self.names + 1] = name
      self.priors[name] = prior
      self.log_scale[name] = first_scale(p, o.posterior_scale, scales[name])
    end
  end
  if #self.names == 0 then
    core.error "bayesian: prior must give a distribution to at least one parameter, got false for all"
  end
  self.estimator, self.draws = o.estimator or "local", o.draws
  if o.estimator and o.estimator ~= "weights" then
    check_estimator(self)
  end
  self.forward, self.kl, self.moments = forward, kl, propagate
  self.posterior, self.become_prior = methods.posterior, methods.become_prior
  return network.module(self)
end

local own_priors = setmetatable({}, { __mode = "k" }) -- those that become_prior made

--- Makes today's posterior tomorrow's prior: every prior becomes a normal distribution of the posterior's present mean
--- and scale, which later steps do not change; they are buffers, "priors.1.weight.loc", so that state() has them.
--- Functions compiled before the first time keep the priors of then. Returns the network.
function methods.become_prior(self)
  for _, name in ipairs(self.names) do
    local q, p = methods.posterior(self, name), self.priors[name]
    if own_priors[p] then
      p.loc:set(q:mean())
      p.scale:set(q:stddev())
    else
      p = dist.normal(core.buffer(q:mean()), core.buffer(q:stddev()))
      self.priors[name], own_priors[p] = p, true
    end
  end
  return self
end

return bayesian
