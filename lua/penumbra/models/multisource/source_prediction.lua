--- What a model of several sources says of its targets: predictions from any sources, draws, and what is not there
--- filled in, in one pass or by a Markov chain.
-- help: pn.models, methods m
local core = require "penumbra.core"
local options = require "penumbra.options"
local recording = require "penumbra.autodiff.recording"

local source_prediction = {}
local methods = {}
local own -- what the model's file has: read, fuse, fuse_options

local function fusing(known)
  return options.merged(known, own.fuse_options)
end

-- Where targets are named, sources of these names are not read unless they are named too.
local function apart(self, o, given)
  if given and given.targets and not given.sources then
    local wanted, left = {}, {}
    for _, name in ipairs(o.targets) do wanted[name] = true end
    for _, name in ipairs(self.source_names) do left[#left + 1] = not wanted[name] and name or nil end
    o.sources = left
  end
end

-- Probabilities of labels [B, size, classes] over draws, or means [B, size].
local function predicted(decoder, z)
  if decoder.kind ~= "categorical" then
    return decoder(z):mean():mean(1)
  end
  local f = decoder.net(z)
  local shape = f:shape()
  local classes = decoder.categories
  shape[#shape] = shape[#shape] // classes
  shape[#shape + 1] = classes
  return f:reshape(shape):softmax(-1):mean(1)
end

--- predict(x [, {targets =, sources =, draws = 100, samples = false, by = "product", conflict_threshold =, drop =,
--- observed =}]): the targets given the sources in x, p(x_t | x_S) = E p(x_t | z) over `draws` of the fused belief
--- (equation 6): a table from names to means [B, size], of labels probabilities [B, size, classes]; with samples = true
--- to draws of x_t, [draws, B, size]. Where targets are named, sources of the same names are not read, unless they are
--- named too. Without any source, from the prior.
function methods:predict(x, given)
  local b, o = own.read(self, "predict", x, given, fusing { draws = 100, samples = false })
  apart(self, o, given)
  return recording.off(function()
    local z, out = own.fuse(self, "predict", b, o):sample { o.draws }, {}
    for _, name in ipairs(o.targets) do
      local d = self.decoders[name]
      out[name] = o.samples and d(z):sample() or predicted(d, z)
    end
    return out
  end)
end

--- log_predictive(x, {targets = [, sources =, draws = 100, ...]}): log p(x_t | x_S) of the named targets, which stand
--- in x as well: the logarithm of the mean over `draws`, [B] (too low by a little, as of any such mean). Options as of
--- predict.
function methods:log_predictive(x, given)
  local b, o = own.read(self, "log_predictive", x, given, fusing { draws = 100 })
  apart(self, o, given)
  return recording.off(function()
    local z, sum = own.fuse(self, "log_predictive", b, o):sample { o.draws }, nil
    for _, name in ipairs(o.targets) do
      if not b.x[name] then
        core.error(("log_predictive: x must hold the target '%s'"):format(name))
      end
      local ll, mask = self.decoders[name](z):log_prob(b.x[name]), b.there[name]
      ll = mask and core.where(mask, ll, core.zeros({}, { dtype = ll:dtype() })) or ll
      sum = sum and sum + ll or ll
    end
    return sum:logsumexp(1) - math.log(o.draws)
  end)
end

--- reconstruct(x [, {targets =, sources =, by =, ...}]): the means of the targets at the mean of the fused belief, a
--- table from names to [B, size] (of labels the likeliest).
function methods:reconstruct(x, given)
  local b, o = own.read(self, "reconstruct", x, given, fusing {})
  return recording.off(function()
    local z, out = own.fuse(self, "reconstruct", b, o):mean(), {}
    for _, name in ipairs(o.targets) do
      local d = self.decoders[name]
      out[name] = d:expected(d(z))
    end
    return out
  end)
end

--- decode(z): the laws of the targets given z [..., latent], a table from names to distributions, with a graph.
function methods:decode(z)
  options.argument("decode", "z", z, "tensor")
  if z:ndim() < 2 or z:size(-1) ~= self.latent or z:dtype() ~= self.dtype then
    core.error(("decode: z must be %s of shape [..., B, %d], got %s [%s]"):format(self.dtype, self.latent, z:dtype(),
      table.concat(z:shape(), ", ")))
  end
  local out = {}
  for name, d in pairs(self.decoders) do out[name] = d(z) end
  return out
end

--- generate(n [, {sample = false}]): n data from the model: a table from targets to the means of p(x | z) [n, size] at
--- latents from the prior (of labels the likeliest), with sample = true draws. Second the latents.
function methods:generate(n, given)
  options.whole("generate", "n", n, 1)
  local o = options.check("generate", given, { sample = false })
  return recording.off(function()
    local z, out = self.prior.law:sample { n }, {}
    for _, name in ipairs(self.target_names) do
      local law = self.decoders[name](z)
      out[name] = o.sample and law:sample() or self.decoders[name]:expected(law)
    end
    return out, z
  end)
end

-- ---- what is not there ----

-- Bool [B], where a target is there; nil where it is for all; false for none.
local function there_of(b, name)
  if not b.x[name] then
    return false
  end
  return b.there[name]
end

-- The target's values where they are there, else `new`.
local function filled(b, name, new)
  local there = there_of(b, name)
  if there == false then
    return new
  end
  return there and core.where(there:unsqueeze(-1), b.x[name], new) or b.x[name]
end

-- One belief out of all sources, those that are filled in among them.
local function everything(x, names)
  local b = { x = {}, there = {}, size = nil }
  for _, name in ipairs(names) do b.x[name], b.size = x[name], x[name] and x[name]:size(1) or b.size end
  return b
end

-- The chain's state after `steps` steps: a table of filled targets, and the laws that the last were drawn from.
local function chain(self, b, o)
  local x, laws, z = {}, {}, self.prior.law:sample { b.size }
  for _, name in ipairs(self.target_names) do
    local d = self.decoders[name]
    x[name] = filled(b, name, o.start and o.start[name] or d(z):sample())
  end
  for name, t in pairs(b.x) do x[name] = x[name] or t end
  for step = 1, o.steps do
    z = own.fuse(self, "impute", everything(x, o.sources), { sources = o.sources, by = o.by }):sample()
    for _, name in ipairs(o.targets) do
      laws[name] = self.decoders[name](z)
      x[name] = filled(b, name, laws[name]:sample())
    end
    if o.on_step then
      o.on_step(step, x, z)
    end
  end
  return x, laws
end

local function check_start(self, b, start)
  for name, t in pairs(start or {}) do
    if not self.decoders[name] then
      core.error(("impute: start names '%s', which is no target%s"):format(tostring(name),
        options.suggestion(name, self.target_names)))
    end
    options.argument("impute", ("start.%s"):format(name), t, "tensor")
    if t:ndim() ~= 2 or t:size(1) ~= b.size or t:size(2) ~= self.decoders[name].size then
      core.error(("impute: start.%s must have shape [%d, %d], got [%s]"):format(name, b.size, self.decoders[name].size,
        table.concat(t:shape(), ", ")))
    end
  end
end

--- impute(x [, {method = "one_pass", draws = 100, steps = 150, start =, on_step =, samples = false, by = "product",
--- observed =, sources =, targets =}]): fills in targets that are not there: a table from names to [B, size] with x
--- where it is there, elsewhere means (of labels the likeliest), or draws with samples = true.
---     method "one_pass"   E p(x_t | z) over `draws` of the belief of the sources that are there
---     method "chain"      `steps` times: z from the belief of all sources, those that are missing as they are filled
---                         in, then what is missing from p(x | z). It begins at `start`, a table from names to tensors,
---                         or at draws from the prior; on_step(step, x, z) sees each state. Rezende, Mohamed & Wierstra
---                         2014
function methods:impute(x, given)
  local b, o = own.read(self, "impute", x, given, { method = options.choice("one_pass", "chain"), draws = 100,
    steps = 150, start = options.optional "table", on_step = options.optional "function", samples = false,
    by = own.fuse_options.by })
  options.whole("impute", "steps", o.steps, 1)
  check_start(self, b, o.start)
  return recording.off(function()
    local out = {}
    if o.method == "chain" then
      local state, laws = chain(self, b, o)
      for _, name in ipairs(o.targets) do
        out[name] = o.samples and state[name] or filled(b, name, self.decoders[name]:expected(laws[name]))
      end
      return out
    end
    local q = own.fuse(self, "impute", b, o)
    local z = o.samples and q:sample() or q:sample { o.draws }
    for _, name in ipairs(o.targets) do
      local d = self.decoders[name]
      local new = o.samples and d(z):sample() or predicted(d, z)
      out[name] = filled(b, name, not o.samples and d.kind == "categorical" and new:argmax(-1) or new)
    end
    return out
  end)
end

--- add(into, parts): these methods, for the model's class; parts: read, fuse and fuse_options of its file.
function source_prediction.add(into, parts)
  own = parts
  for name, method in pairs(methods) do into[name] = method end
end

return source_prediction
