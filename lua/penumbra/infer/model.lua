--- Models as functions. A model is a Lua function of a recorder `m` and data; what it samples and observes by name
--- is its joint density.
---
---     local model = pn.model(function(m, x, y)
---       local w = m:sample("w", dist.normal(pn.zeros{3}, 1):independent(1))
---       m:plate("rows", x:size(1), {batch_size = 64}, function(i)
---         m:observe("y", dist.normal(x:take(1, i):matmul(w), 0.1), y:take(1, i))
---       end)
---     end)
---
---     m:sample(name, d)             a value of the latent variable `name`, whose law is d
---     m:sample(name, d, {enumerate = true})    all values of a discrete one, summed out along an axis of its own
---     m:sample(name, d, {constraint = "ordered_vector"})    d restricted to a set (up to its constant)
---     m:observe(name, d, value)     the value that was seen
---     m:flat(name [, set [, shape [, {low =, high =}]]])    a latent variable without a prior: uniform over the set
---     m:param(name, value [, {constraint = "positive"}])    a parameter to be trained; value: where it starts
---     m:deterministic(name, value)  a value to be kept beside the draws
---     m:factor(name, log_factor)    adds to the log density
---     m:plate(name, size, [{batch_size = B},] f)    size independent rows: f(i), i the rows' indices (0-based, int64)
---     m:scan(name, T, carry, f)     carry = f(carry, t) for t = 1 .. T; the last carry. Sites in it are "x[t]"
---     m:module(name, net)           the network, whose parameters are trained with the model's
---     m:network(name, net, prior)   the network with weights drawn from priors: a Bayesian network
---
--- Shapes are those of NumPyro: a value is batch + event, and plates are the last axes of the batch: the outermost is
--- axis -1, one within it -2, and so on. A distribution whose batch lacks the axis is repeated along it; one whose axis
--- has another size is an error. With {batch_size = B} a plate takes B rows without replacement, anew at each run, and
--- what is within counts size / B times.
---
--- A model has
---
---     model:trace(...)              runs it on data, latent variables drawn from their priors: pn.help "model:trace"
---     model:condition{w = value}    the same model with the latent variable observed
---     model:intervene{w = value}    with the variable set, whatever its law (Pearl's do)
---     model:block{"w"}              without the site in the trace: it is drawn from its prior, unseen
---     model:replay(trace)           latent variables take their values from a trace or a table
---     model:log_density(values, ...)    log joint density of latent values and data, a tensor with a graph
---     model:parameters() :named_parameters() :state() :load_state(t)    of m:param and m:module
---
--- Sources: Bingham et al. 2019 (Pyro), Phan, Pradhan & Jankowiak 2019 (NumPyro).
-- help: pn, methods model of methods
local core = require "penumbra.core"
local enumeration = require "penumbra.infer.enumeration"
local form = require "penumbra.form"
local recorder = require "penumbra.infer.recorder"
local target = require "penumbra.infer.target"
local trace = require "penumbra.infer.trace"

local model = {}

local given_value = recorder.given_value

-- ---- models ----

local methods = {}

local function derived(self, changes)
  local copy = {}
  for key, value in pairs(self) do
    copy[key] = value
  end
  for key, value in pairs(changes) do
    copy[key] = value
  end
  copy.changed = next(copy.data) ~= nil or next(copy.fixed) ~= nil or next(copy.hidden) ~= nil
  return setmetatable(copy, getmetatable(self))
end

local function merged(where, old, new)
  if type(new) ~= "table" then
    core.error(("%s: needs a table site -> value, got %s"):format(where, type(new)))
  end
  local all = {}
  for name, value in pairs(old) do
    all[name] = value
  end
  for name, value in pairs(new) do
    if type(name) ~= "string" then
      core.error(("%s: sites are named by strings, got %s"):format(where, tostring(name)))
    end
    all[name] = value
  end
  return all
end

--- The model with latent variables observed: condition{w = pn.tensor{1, 2}}. Of observed ones: these values instead.
function methods:condition(values)
  return derived(self, { data = merged("condition", self.data, values) })
end

--- The model with variables set to values whatever their law; their density does not count (Pearl's do).
function methods:intervene(values)
  return derived(self, { fixed = merged("intervene", self.fixed, values) })
end

--- The model whose sites of these names, a list, are drawn from their priors and not seen by inference.
function methods:block(names)
  local hidden = {}
  if type(names) ~= "table" then
    core.error("block: needs a list of names, got " .. type(names))
  end
  for name in pairs(self.hidden) do
    hidden[name] = true
  end
  for _, name in ipairs(names) do
    hidden[name] = true
  end
  return derived(self, { hidden = hidden })
end

--- The model whose latent variables take their values from a trace or a table; they still count as latent.
function methods:replay(from)
  local values = getmetatable(from) == trace.methods and from:values() or from
  if type(values) ~= "table" then
    core.error("replay: needs a trace or a table site -> value, got " .. type(from))
  end
  return derived(self, { replayed = merged("replay", self.replayed, values) })
end

--- Runs the model on data, latent variables drawn from their priors, and so is what is observed as nil. Returns the
--- trace: trace.sites[name] with value, log_prob, dist, observed; trace:values(); trace:log_density(); tostring(trace)
--- is a table of the sites.
function methods:trace(...)
  return trace.run(self, table.pack(...), { value = trace.replaying(self), check = true, locate = true, prior = true })
end

--- The log density of the model on data as a function of one vector of real numbers, as samplers see it. A C host finds
--- it in a global (pn_runtime_target). Has :evaluate(z), :log_density(z), :constrain(z), :unconstrain(values), :start()
--- and the field `size`. Data and parameters that the model finds outside are those of now.
function methods:target(...)
  return target.new(self, table.pack(...)):repeated()
end

--- The log density of latent values (a table site -> value) and data: a 0-d tensor with a graph. Discrete variables
--- that are enumerated are summed out where they have no value; all others need one.
function methods:log_density(values, ...)
  if type(values) ~= "table" then
    core.error("log_density: needs a table site -> value, got " .. type(values))
  end
  local lacking -- the site without a value: a mistake of the caller, told at the caller's line
  local given, sums = {}, false
  local function value_of(_, site)
    local value = given_value("log_density", values, site) or given_value("replay", self.replayed, site)
    given[site.name] = value and true or nil
    if not value and site.enumerable then
      sums = true
      return enumeration.first_value(site.dist)
    elseif not value then
      lacking = site.name
      error()
    end
    return value
  end
  local args = table.pack(...)
  local ok, t = pcall(trace.run, self, args, { check = not core.capture.going_on(), value = value_of })
  if ok and sums then
    ok, t = pcall(trace.run, self, args, { enumerate = true, most = t.deepest, given = given, value = value_of })
  end
  if not ok and lacking then
    core.error(("log_density: no value is given for '%s', which the model samples"):format(lacking))
  elseif not ok then
    error(t, 0)
  end
  return t:log_density()
end

--- List of {name, parameter}: those of m:param (unconstrained) and of the networks of m:module, in the order in which
--- the model first met them. A model that was never run has none yet.
function methods:named_parameters()
  local list = {}
  for _, name in ipairs(self.store.names) do
    local entry = self.store.params[name]
    if entry then
      list[#list + 1] = { name, entry.weight }
    else
      for _, p in ipairs(self.store.modules[name]:named_parameters()) do
        list[#list + 1] = { name .. "." .. p[1], p[2] }
      end
    end
  end
  return list
end

--- List of the parameters; its field `names` serves the messages of optimisers.
function methods:parameters()
  local list, names = {}, {}
  for k, entry in ipairs(self:named_parameters()) do
    names[k], list[k] = entry[1], entry[2]
  end
  list.names = names
  return list
end

--- The value of a parameter of m:param, within its constraint.
function methods:param(name)
  local entry = self.store.params[name]
  if not entry then
    core.error(("param: the model has no parameter '%s' (or has not been run)"):format(tostring(name)))
  end
  return (entry.bijector and entry.bijector:forward(entry.weight) or entry.weight):detach()
end

--- Table name -> copy of the parameters' values (unconstrained), for pn.save.
function methods:state()
  local state = {}
  for _, entry in ipairs(self:named_parameters()) do
    state[entry[1]] = core.detach(core.param(entry[2]))
  end
  return state
end

--- Sets the parameters from what state() gave. Names must agree; nothing changes if they do not.
function methods:load_state(state)
  local entries, fields = self:named_parameters(), {}
  for _, entry in ipairs(entries) do
    fields[entry[1]] = form.tensor { like = entry[2] }
  end
  form.check("load_state", "state", state, form.record(fields, "a parameter of this model"))
  for _, entry in ipairs(entries) do
    entry[2]:set(state[entry[1]])
  end
  return self
end

local class = { __index = core.namespace("a model", methods), __name = "model",
  __tostring = function(self) return "model" .. (self.where ~= "" and " of " .. self.where or "") end }

--- model(f): the model whose joint density the function f(m, data...) describes.
---
---     model = pn.model(function(m, x, y)
---       local w = m:sample("w", pn.dist.normal(0, 1))
---       m:observe("y", pn.dist.normal(w * x, 0.5), y)
---     end)
---     p = pn.nuts(model, {data = {x, y}})
---
--- In it m:sample, m:observe, m:flat, m:param, m:deterministic, m:factor, m:plate, m:scan, m:module. It has
--- model:trace, condition, intervene, block, replay, log_density, parameters, state. All of it:
--- pn.help "penumbra.infer.model".
function model.model(f)
  if type(f) ~= "function" then
    core.error("model: needs a function (m, data...), got " .. type(f))
  end
  return setmetatable({ body = f, data = {}, fixed = {}, hidden = {}, replayed = {}, changed = false,
    reparametrised = {}, all_rows = {}, store = { params = {}, modules = {}, names = {} },
    where = core.script_line() }, class)
end

--- Is x a model?
function model.is(x)
  return type(x) == "table" and getmetatable(x) == class
end

--- A list of arguments, nils among them, with its length as `n`. Internal.
function model.packed(data)
  local n = 0
  for k in pairs(data or {}) do
    n = math.type(k) == "integer" and math.max(n, k) or n
  end
  return table.pack(table.unpack(data or {}, 1, n))
end

model.recorder, model.methods, model.trace_methods = recorder.methods, methods, trace.methods
model.run, model.done, model.given_value, model.replaying = trace.run, trace.done, given_value, trace.replaying

return model
