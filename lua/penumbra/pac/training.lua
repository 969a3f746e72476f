--- Training on a bound: a prior that one part of the data teaches, and a posterior that makes a bound on the other part
--- small, which is then certified there.
---
---     local m = pn.pac.train(net, { x, y }, { bound = "quadratic", prior_epochs = 10, epochs = 10 })
---     print(m:certificate { draws = 5 })
---     m.net           of pn.nn.bayesian; m.net:predict(x)
---     m.prior_data    m.data     the two parts
---
--- The network is trained first as it is, on a share `split` of the data, by the log-likelihood; there its parameters
--- become the means of the prior, with scale `prior_scale`, and of the posterior. Then the bound of the bounded
--- log-loss on the rest is made small over means and scales. split = 0: the prior stays around the first values, all
--- data count.
---
---   network        a deterministic one that gives logits [N, C]. It is taken over: its parameters become the means
---   data           {x, y}, y labels int64 [N]
---   bound          any of pn.pac.names() that has a divergence; bound_options: what it takes beside
---   delta          of the bound (0.025)
---   split, seed    share for the prior (0.5) and how it is drawn
---   prior_scale    standard deviation of the prior's weights (0.03)
---   prior_epochs, epochs, batch_size, prior_lr, lr      of both trainings, by Adam
---   dropout        a network with dropout layers learns the prior with them; the posterior is without
---   floor          of the bounded log-loss (1e-5)
---   estimator      of pn.nn.bayesian
---   checkpoint, resume      names two files, NAME.prior and NAME.posterior, in which the trainings are kept
---   on_epoch       function(stage, run), stage "prior" or "posterior", run as of pn.train.fit
-- help: pn.pac
local bayesian = require "penumbra.nn.bayesian"
local certificate = require "penumbra.pac.certificate"
local core = require "penumbra.core"
local nn = require "penumbra.nn"
local optim = require "penumbra.optim"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local risk_bounds = require "penumbra.pac.risk_bounds"
local split_data = require "penumbra.pac.split_data"
local train = require "penumbra.train"

local training = {}

local WHERE <const> = "train"

local known = { bound = "quadratic", bound_options = options.optional "table", delta = 0.025, split = 0.5, seed = 0,
  prior_scale = 0.03, prior_epochs = 10, epochs = 10, batch_size = 100, prior_lr = 1e-3, lr = 1e-3, floor = 1e-5,
  estimator = options.optional "string", compile = true, checkpoint = options.optional "string", resume = false,
  on_epoch = options.optional "function" }

local function check(net, data, given)
  local o = options.check(WHERE, given, known)
  if not nn.is_network(net) or parameters.kl { net } or #parameters.named(net) == 0 then
    core.error(WHERE
      .. ": network must be a layer, a sequential or a module with parameters and no posterior of its own")
  end
  split_data.check(WHERE, "data", data)
  for _, name in ipairs { "prior_scale", "prior_lr", "lr" } do
    if not (o[name] > 0 and o[name] < math.huge) then
      core.error(("%s: %s must be a positive number, got %s"):format(WHERE, name, tostring(o[name])))
    end
  end
  if not (o.floor > 0 and o.floor < 1) then
    core.error(("%s: floor must lie strictly between 0 and 1, got %g: the log-loss would have no bound"):format(WHERE,
      o.floor))
  elseif not (o.split >= 0 and o.split < 1) then
    core.error(("%s: split must be 0 or more and below 1, got %g"):format(WHERE, o.split))
  end
  options.whole(WHERE, "prior_epochs", o.prior_epochs, 0)
  return o
end

local function fitted(stage, o, data, list, epochs, lr, loss)
  return train.fit { data = data, batch_size = math.min(o.batch_size, data[1]:size(1)), epochs = epochs,
    seed = o.seed + 1, compile = o.compile, loss = loss, optimiser = optim.adam(list, { lr = lr }),
    checkpoint = o.checkpoint and ("%s.%s"):format(o.checkpoint, stage) or nil,
    resume = o.checkpoint and o.resume or nil,
    on_epoch = o.on_epoch and function(s) return o.on_epoch(stage, s) end or nil }
end

local function label_loss(f, y)
  return -f:log_softmax(-1):gather(-1, y:unsqueeze(-1)):mean()
end

local methods = {}

--- m:certificate([{...}]): pn.pac.certificate of the network on the data that its prior did not see, with the bound and
--- delta of training unless said otherwise.
function methods.certificate(self, given)
  local o = { bound = self.bound, bound_options = self.bound_options, delta = self.delta, floor = self.floor }
  for key, v in pairs(options.argument("certificate", "options", given or {}, "table")) do o[key] = v end
  return certificate.certificate(self.net, self.data, o)
end

--- train(network, {x, y}, {bound = "quadratic", ...}): see pn.help "penumbra.pac.training".
function training.train(net, data, given)
  local o = check(net, data, given)
  local prior_data, rest = false, data
  if o.split > 0 then
    prior_data, rest = split_data.split(data, { split = o.split, seed = o.seed })
  end
  local self = { prior_data = prior_data, data = rest, bound = o.bound, bound_options = o.bound_options,
    delta = o.delta, floor = o.floor, history = {} }
  local bound = { n = rest[1]:size(1), delta = o.delta }
  for key, v in pairs(o.bound_options or {}) do bound[key] = v end
  local value = risk_bounds.objective(WHERE, o.bound, bound)
  if prior_data and o.prior_epochs > 0 then
    self.history.prior = fitted("prior", o, prior_data, net:parameters(), o.prior_epochs, o.prior_lr,
      function(x, y) return label_loss(net(x), y) end)
  end
  self.net = bayesian.bayesian(net, { posterior_scale = o.prior_scale, estimator = o.estimator }):become_prior()
  certificate.check_network(WHERE, self.net)
  certificate.remember(self.net, prior_data)
  local q = self.net
  self.history.posterior = fitted("posterior", o, rest, q:parameters(), o.epochs, o.lr, function(x, y)
    return value(certificate.surrogate(q(x), y, o.floor):mean(), q:kl())
  end)
  return setmetatable(self, { __index = methods, __tostring = function(t)
    return ("network trained with the bound '%s' at delta = %g"):format(t.bound, t.delta)
  end })
end

return training
