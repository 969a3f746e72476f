--- What active learning needs of a model: how it predicts classes, and how it is trained on the labels so far. A
--- network, draws of a posterior or functions of a script become one by these constructors.
---
---     local model = pn.active.network(net, {classes = 10, link = "probit", fit = train})      -- by moments
---     local model = pn.active.network(net, {classes = 10, by = "draws", fit = train})         -- by draws
---     local model = pn.active.posterior(p, {classes = 2, fit = train,                         -- p of pn.nuts
---       probabilities = function(sites, x) ... end})
---     local model = pn.active.predictor{classes = 2, weight_draws = function(x, n, generator) ... end}
---
--- fit = function(x, y, round): trains on all labelled data, x [L, ...], y [L] classes, int64, from where it stands.
--- round = {round =, seed =, generator =, positions =}; all that it draws, from these or from the default generator,
--- which is seeded for it, is the same at each run from the pool's seed. keep = {net = net, optimiser = opt}: what
--- changes in training, as for pn.checkpoint, which a pool's file holds.
-- help: pn.active, quiet
local core = require "penumbra.core"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local recording = require "penumbra.autodiff.recording"
local score = require "penumbra.active.score"
local sealed = require "penumbra.active.sealed"
local nn = require "penumbra.nn"

local predictor = {}

local methods = {}
local kind = { __index = methods, __name = "predictor", __tostring = function(self)
  return ("predictor{%d classes, %s}"):format(self.classes, self.link or "draws")
end }
local FIELDS <const> = { classes = true, link = true }
local seal = sealed.kind("predictor", methods, function(self, key) return FIELDS[key] and self[key] or nil end)

local shape_text = options.shape_text

-- ---- what the functions give ----

-- Raises unless `value` is a tensor of floats of this shape, without NaN.
local function checked(where, what, value, shape)
  if not core.is_tensor(value) or not value:dtype():find "^float" or shape_text(value) ~= "["
      .. table.concat(shape, ", ") .. "]" then
    core.error(("%s: the model's %s must give floats [%s], got %s"):format(where, what, table.concat(shape, ", "),
      core.is_tensor(value) and value:dtype() .. " " .. shape_text(value) or type(value)))
  elseif value:numel() > 0 and value:isnan():any():item() then
    core.error(("%s: the model's %s must give numbers, got NaN"):format(where, what))
  end
  return value:detach()
end

-- f(rows of x) for blocks of rows, joined along `axis`; f may give two tensors.
local function by_blocks(self, x, axis, f)
  local first, second, n = {}, {}, x:size(1)
  for from = 1, math.max(n, 1), self.batch_size do
    local part = n > self.batch_size and x:slice(1, from, math.min(from + self.batch_size - 1, n)) or x
    first[#first + 1], second[#second + 1] = f(part)
  end
  local function joined(list) return #list == 1 and list[1] or list[1] and core.concatenate(list, axis) end
  return joined(first), joined(second)
end

-- ---- methods ----

--- moments(x): mean and variance [N, classes] of the outputs, nil where the model has none.
function methods:moments(x)
  if not self.has.moments then return nil end
  return recording.off(by_blocks, self, x, 1, function(part)
    local m, v = self.has.moments(part)
    local shape = { part:size(1), self.classes }
    return checked("moments", "moments", m, shape), checked("moments", "moments", v, shape)
  end)
end

--- predict(x [, generator]): probabilities [N, classes] of the classes: those given; of means and variances Phi(m /
--- sqrt(1 + v)), class by class, with link "probit" (they need not sum to 1), the mean of draws of the outputs with
--- "softmax"; else the mean of draws. And mean and variance of the outputs where there are any.
function methods:predict(x, generator)
  if self.has.probabilities then
    return recording.off(by_blocks, self, x, 1, function(part)
      return checked("predict", "probabilities", self.has.probabilities(part), { part:size(1), self.classes })
    end)
  elseif self.has.moments then
    local m, v = self:moments(x)
    if self.link == "probit" then return score.probit_probabilities(m, v), m, v end
    return score.output_draws(m, v, "softmax", self.draws, generator):mean(1), m, v
  end
  return self:weight_draws(x, self.draws, generator):mean(1)
end

--- weight_draws(x, n [, generator]): probabilities [n, N, classes] under n draws of the weights, the same for all data;
--- nil where the model gives none.
function methods:weight_draws(x, n, generator)
  if not self.has.draws then return nil end
  return recording.off(function()
    return checked("draws", "draws", self.has.draws(x, n, generator, self.batch_size), { n, x:size(1), self.classes })
  end)
end

--- features(x): [N, D], those given or the data themselves, a row each.
function methods:features(x)
  if not self.has.features then return x:reshape { x:size(1), -1 } end
  return recording.off(by_blocks, self, x, 1, function(part)
    local f = self.has.features(part)
    if not core.is_tensor(f) or f:ndim() ~= 2 or f:size(1) ~= part:size(1) then
      core.error(("features: the model's features must give [%d, D], got %s"):format(part:size(1),
        core.is_tensor(f) and shape_text(f) or type(f)))
    end
    return f:detach()
  end)
end

--- train(x, y, round): trains, where the model can.
function methods:train(x, y, round)
  if self.has.fit then self.has.fit(x, y, round) end
end

-- ---- constructors ----

local function new(where, o, has)
  local self = { classes = options.whole(where, "classes", o.classes, 2), link = o.link, keep = o.keep, has = has,
    batch_size = o.batch_size,
    draws = o.draws }
  has.fit, has.features = o.fit, o.features
  return seal.object(setmetatable(self, kind)), self
end

local common = { classes = options.required "number", fit = options.optional "function",
  features = options.optional "function", keep = options.optional "table", batch_size = 1000 }

local own_known = options.merged(common, { probabilities = options.optional "function",
  moments = options.optional "function",
  weight_draws = options.optional "function", link = options.choice("softmax", "probit") })

--- predictor{classes =, ...}: a model by functions of x [N, ...], at least one of
---   probabilities   function(x): [N, classes]
---   moments         function(x): mean and variance [N, classes] of the outputs; link = "softmax" or "probit"
---   weight_draws    function(x, n, generator): probabilities [n, N, classes] under n draws of the weights, the same
---                   for all data
--- and, where wanted, features = function(x): [N, D]; fit; keep (both as above); batch_size (1000), the rows that
--- probabilities, moments and features are given at once.
function predictor.predictor(given)
  local where = "predictor"
  local o = options.check(where, given, own_known)
  if not (o.probabilities or o.moments or o.weight_draws) then
    core.error "predictor: one of probabilities, moments and weight_draws must be given, a function"
  end
  local has = { probabilities = o.probabilities, moments = o.moments, draws = o.weight_draws }
  o.draws = 100
  return (new(where, o, has))
end

-- The probabilities of one set of weights at x.
local function classes_of(self, f)
  if self.link == "probit" then return f:ndtr() end
  return f:softmax(-1)
end

-- Draws of the weights of a network of nn.bayesian, each for all data: an own draw for each row, as the local
-- estimator has them, says nothing of what rows share.
local function bayesian_draws(self, net, x, n, generator)
  local list = {}
  for k = 1, n do
    local values = {}
    for _, name in ipairs(net.names) do values[name] = net:posterior(name):sample({}, generator) end
    local drawn = parameters.with(net.net, values)
    list[k] = by_blocks(self, x, 1, function(part) return classes_of(self, nn.mode("evaluation", drawn, part)) end)
  end
  return core.stack(list, 1)
end

local network_known = options.merged(common, { by = options.choice("moments", "draws"), draws = 100,
  link = options.choice("softmax", "probit") })

--- network(net, {classes =, ...}): a network whose outputs [N, classes] are logits (link "softmax") or probits, each
--- class against all others (link "probit").
---   by         "moments": net:moments(x), nothing is drawn but by link "softmax", `draws` (100) of the outputs;
---              "draws": the mean of `draws` draws of the weights of a network of nn.bayesian
---   features, fit, keep, batch_size    as for predictor; keep is {net = net} unless given
--- A network of nn.bayesian gives draws of its weights with either, which BALD and BatchBALD ask for.
function predictor.network(net, given)
  local where = "network"
  if not nn.is_network(net) then
    core.error("network: net must be a layer, a sequential or a module, got " .. type(net))
  end
  local o = options.check(where, given, network_known)
  local bayesian = type(net) == "table" and type(net.posterior) == "function" and net.log_scale ~= nil
  if o.by == "draws" and not bayesian then
    core.error 'network: net must be of pn.nn.bayesian for by = "draws", whose weights can be drawn'
  end
  o.keep = o.keep or { net = net }
  local object, self = new(where, o, { moments = o.by == "moments" and function(x)
    local m, v = net:moments(x)
    return m, v or m * 0
  end or nil })
  if bayesian then
    self.has.draws = function(x, n, generator) return bayesian_draws(self, net, x, n, generator) end
  end
  return object
end

local posterior_known = options.merged(common, { probabilities = options.required "function", draws = 100 })

--- posterior(p, {classes =, probabilities = function(sites, x) ... end, ...}): draws of a posterior (of pn.nuts,
--- pn.hmc, pn.smc.sample), p or a function that gives the present one. probabilities is called with the draws by site,
--- [S, ...], S of them (`draws`, 100, equally spaced in the chains), and x, and gives [S, N, classes]. The rest as for
--- predictor.
function predictor.posterior(p, given)
  local where = "posterior"
  local o = options.check(where, given, posterior_known)
  local current = type(p) == "function" and p or function() return p end
  local function look(q)
    if type(q) ~= "table" or type(q.draws) ~= "table" then
      core.error("posterior: p must be a posterior, as pn.nuts gives, or a function that gives one, got " .. type(q))
    end
    return q
  end
  if type(p) ~= "function" then look(p) end
  return (new(where, o, { draws = function(x, n)
    local sites = {}
    for name, draws in pairs(look(current()).draws) do
      local shape = draws:shape()
      local total = shape[1] * shape[2]
      local places = (core.arange(n) * (total / n)):floor():to "int64"
      sites[name] = draws:reshape { total, table.unpack(shape, 3) }:take(1, places)
    end
    return o.probabilities(sites, x)
  end }))
end

--- inner(v): what is behind a predictor, with its methods; nil where v is none.
predictor.inner = seal.inner

return predictor
