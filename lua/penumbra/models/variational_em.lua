--- Variational expectation maximisation without an encoder: each datum has a normal posterior of its own, whose mean
--- and variances are parameters. Steps alternate between these (E) and the networks of p(x | z) (M):
---
---     L = sum_n E_{q_n(z)}[log p(x_n | z) + log p(z) - log q_n(z)],   p(z) standard normal
---
---     local m = pn.models.variational_em{data = 20, latent = 2, hidden = {50}, decoder = "normal"}
---     m:fit{data = x, epochs = 100}         posteriors of the rows of x, and the networks
---     m:posteriors()                        their law [N], event [latent]
---     m:infer(other)                        posteriors of other data, the networks as they are
---     m:bound(other, {draws = 1000})        importance weighted, from these
---     m:save "m.safetensors"                pn.restore "m.safetensors"
---
--- No gap is left by an encoder that generalises badly, at the cost of steps for each datum. With a linear decoder it
--- is factor analysis. Neal & Hinton 1998; options of decoders as in penumbra.models.vae.
-- help: pn.models, public
local core = require "penumbra.core"
local recording = require "penumbra.autodiff.recording"
local data = require "penumbra.data"
local decoder = require "penumbra.models.decoder"
local dist = require "penumbra.distribution"
local estimate = require "penumbra.estimate"
local form = require "penumbra.form"
local infer = require "penumbra.infer"
local nn = require "penumbra.nn"
local optim = require "penumbra.optim"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local replay = require "penumbra.autodiff.replay"
local saved = require "penumbra.saved"

local variational_em = {}

local methods = {}

local function check_data(self, where, x)
  options.argument(where, "x", x, "tensor")
  local want = self.likelihood.kind == "categorical" and "int64" or self.dtype
  if x:ndim() ~= 2 or x:size(2) ~= self.data or x:size(1) == 0 or x:dtype() ~= want then
    core.error(("%s: x must be %s of shape [N, %d], got %s [%s]"):format(where, want, self.data, x:dtype(),
      table.concat(x:shape(), ", ")))
  end
end

-- The elbo of x under the normals phi [B, 2 latent] (means, logarithms of variances), in nats per datum.
local function elbo(self, x, phi, draws)
  local q = decoder.normal_law(phi)
  local ll = self.likelihood(q:rsample { draws }):log_prob(x)
  return infer.elbo { log_likelihood = ll:mean(1), kl = dist.kl(q, self.prior) }
end

-- The E steps' and M step's functions for blocks of n rows: phi is what they work on.
local function steps_of(self, n, o, networks)
  local phi = core.param(core.zeros({ n, 2 * self.latent }, { dtype = self.dtype }))
  local opt = optim.adam({ phi }, { lr = o.posterior_lr })
  -- Gradients of what the step moves alone.
  local function step_of(optimiser)
    local moved = optimiser:parameters()
    return replay.compile(function(x)
      local loss = -elbo(self, x, phi, o.draws)
      optimiser:apply(core.grad(loss, moved))
      return loss
    end)
  end
  return { phi = phi, opt = opt, fresh = opt:state(), e = step_of(opt), m = networks and step_of(networks) }
end

-- E steps at the block's rows x from phi and the optimiser's state; the last loss, phi and the state after them.
local function improve(work, x, phi, state, count, lr)
  work.phi:set(phi)
  work.opt:load_state(state or work.fresh)
  local value
  for k = 1, count do
    work.opt.lr = lr(k)
    value = work.e(x)
  end
  return value:item(), work.phi:detach() + 0, work.opt:state()
end

local function constant(rate)
  return function() return rate end
end

local fit_options = { data = options.required "tensor", epochs = options.required "number", batch_size = 100, steps = 5,
  lr = 1e-2, posterior_lr = 0.05, draws = 1, on_epoch = options.optional "function" }

local function blocks_of(self, x, size)
  local list = {}
  for first = 1, x:size(1), size do
    list[#list + 1] = x:slice(1, first, math.min(x:size(1), first + size - 1))
  end
  local known = #self.q == #list
  for k, rows in ipairs(list) do
    known = known and self.q[k]:size(1) == rows:size(1)
  end
  for k, rows in ipairs(list) do
    self.q[k] = known and self.q[k]
      or core.param(core.zeros({ rows:size(1), 2 * self.latent }, { dtype = self.dtype }))
  end
  for k = #list + 1, #self.q do
    self.q[k] = nil
  end
  return list
end

--- fit{data = [N, data], epochs =, ...}: in each epoch, for each block of `batch` (100) rows `steps` (5) steps of Adam
--- on their posteriors at the rate posterior_lr (0.05), then one on the networks at the rate lr (0.01). The same rows
--- may be gone on with: their posteriors are kept. draws: draws of z at each step (1). on_epoch: function of the table
--- returned ({loss =, history =, epoch =}); false stops.
function methods:fit(given)
  local o = options.check("fit", given, fit_options)
  check_data(self, "fit", o.data)
  options.whole("fit", "steps", o.steps, 1)
  local blocks = blocks_of(self, o.data, o.batch_size)
  local networks = optim.adam(self.likelihood:parameters(), { lr = o.lr })
  local work, states, s = {}, {}, { history = {}, epoch = 0 }
  for epoch = 1, o.epochs do
    local order, total = core.randperm(#blocks):totable(), 0
    for _, place in ipairs(order) do
      local k = place + 1
      local x = blocks[k]
      local n = x:size(1)
      work[n] = work[n] or steps_of(self, n, o, networks)
      local value, phi, state = improve(work[n], x, self.q[k], states[k], o.steps, constant(o.posterior_lr))
      self.q[k]:set(phi)
      states[k] = state
      total = total + value * n
      work[n].m(x)
    end
    s.epoch, s.loss = epoch, total / o.data:size(1)
    s.history[epoch] = s.loss
    if o.on_epoch and o.on_epoch(s) == false then
      break
    end
  end
  return s
end

--- posteriors(): the posteriors of the rows that fit was given, one distribution over [N] data.
function methods:posteriors()
  if #self.q == 0 then
    core.error "posteriors: there are none before fit; m:infer(x) gives those of any data"
  end
  return decoder.normal_law(core.concatenate(self.q, 1):detach())
end

local infer_options = { steps = 300, lr = 0.1, draws = 10 }

-- Normals phi fitted to x.
local function inferred(self, where, x, o)
  check_data(self, where, x)
  local work = steps_of(self, x:size(1), { posterior_lr = o.lr, draws = o.draws })
  local falling = optim.cosine(o.lr, o.lr / 100, options.whole(where, "steps", o.steps, 1))
  local _, phi = improve(work, x, work.phi:detach(), nil, o.steps, falling)
  return phi
end

--- infer(x [, {steps = 300, lr = 0.1, draws = 10}]): posteriors of data x [B, data] by so many E steps from the prior,
--- the networks as they are; a distribution.
function methods:infer(x, given)
  return decoder.normal_law(inferred(self, "infer", x, options.check("infer", given, infer_options)))
end

--- bound(x [, {draws = 1000, steps = 300}]): posteriors as by infer, then the importance weighted bound of `draws`
--- draws from them, in nats per datum: a table with `value`, `se`, its standard error (over draws), `each` [B], and
--- `elbo`, the mean log-weight.
function methods:bound(x, given)
  local o = options.check("bound", given, { draws = 1000, steps = 300 })
  local phi = inferred(self, "bound", x, { steps = o.steps, lr = infer_options.lr, draws = infer_options.draws })
  local stream = recording.off(function()
    local q, s, left = decoder.normal_law(phi), infer.stream { draws = o.draws }, o.draws
    while left > 0 do
      local k = math.min(left, 50)
      local z = q:sample { k }
      s:add(self.likelihood(z):log_prob(x) + self.prior:log_prob(z) - q:log_prob(z))
      left = left - k
    end
    return s
  end)
  local each = stream:log_mean()
  local error_of = stream:standard_error():square():sum():sqrt():item() / x:size(1)
  return estimate.new(each:mean():item(), error_of, { each = each, elbo = stream:elbo():mean():item() })
end

--- decode(z): the law of x given z [..., latent].
function methods:decode(z)
  options.argument("decode", "z", z, "tensor")
  return self.likelihood(z)
end

-- What constructors were given, by model.
local given_to = setmetatable({}, { __mode = "k" })

local KIND <const> = "model without encoder" -- of files

--- save(path): writes options, networks and the posteriors of the rows that fit was given; pn.restore(path, {...})
--- makes the model again, given the decoder where it is no name. Returns true, or nil, message, code.
function methods:save(path)
  options.argument("save", "path", path, "string")
  local kept, asked = saved.parted(given_to[self])
  kept.dtype = self.dtype
  return data.save(path, { kind = KIND, options = kept, asked = asked, parameters = self.likelihood:state(),
    posteriors = #self.q > 0 and self.q or nil })
end

for name, method in pairs(parameters.methods) do
  methods[name] = method
end

local class = { __index = core.namespace("a model without encoder", methods), network = true }

function class:__tostring()
  return ("model without encoder: %d latents of %d data"):format(self.latent, self.data)
end

local new_options = {
  data = options.required "number", latent = options.required "number", hidden = options.any {},
  decoder = options.any "bernoulli", noise = options.choice("shared", "network"), categories = 2,
  components = 5, dtype = options.optional "string",
  activation = options.one_of("tanh", nn.activations),
}

--- variational_em{data =, latent =, hidden = {}, decoder = "bernoulli", ...}: a model without encoder; options as
--- of pn.models.vae (pn.help "penumbra.models.variational_em").
function variational_em.variational_em(given)
  local where = "variational_em"
  local o = options.check(where, given, new_options)
  for _, name in ipairs { "data", "latent", "categories" } do
    o[name] = options.whole(where, name, o[name], 1)
  end
  o.dtype = o.dtype or core.default_dtype()
  if o.dtype ~= "float64" and o.dtype ~= "float32" then
    core.error(("%s: dtype must be 'float64' or 'float32', got '%s'"):format(where, o.dtype))
  end
  options.argument(where, "hidden", o.hidden, "table")
  for k, n in ipairs(o.hidden) do
    options.whole(where, ("hidden[%d]"):format(k), n, 1)
  end
  local f = { dtype = o.dtype }
  local self = setmetatable({ data = o.data, latent = o.latent, dtype = o.dtype,
    likelihood = decoder.new(where, o.decoder, o.latent, o.data, o), q = {},
    prior = dist.normal(core.zeros({ o.latent }, f), core.ones({ o.latent }, f)):independent(1) }, class)
  given_to[self] = given
  return self
end

-- ---- files ----

local em_file = saved.file {
  noun = "model without encoder that m:save has written",
  is = function(found) return found.kind == KIND end,
  form = function(found)
    local o = type(found.options) == "table" and found.options or {}
    local latent = math.type(o.latent) == "integer" and o.latent > 0 and o.latent < 1 << 40 and o.latent
    local phi = latent and form.tensor { dtype = o.dtype == "float32" and "float32" or "float64", finite = true,
      shape = { -1, 2 * latent } } or form.refused "be of a model with latents"
    return form.record { kind = form.any, options = form.map(form.any), asked = saved.asked_form,
      parameters = form.map(form.tensor { finite = true }), posteriors = form.optional(form.list(phi)) }
  end,
}

saved.restored_by(em_file, function(path, given)
  local found, message, code = saved.read("restore", path, em_file)
  if not found then
    return nil, message, code
  end
  local o = saved.joined("restore", found.options, found.asked, given)
  return saved.make("restore", path, function()
    local self = variational_em.variational_em(o)
    self.likelihood:load_state(found.parameters)
    for k, phi in ipairs(found.posteriors or {}) do
      self.q[k] = core.param(phi)
    end
    return self
  end)
end)

core.namespace("penumbra.models.variational_em", variational_em)

return variational_em
