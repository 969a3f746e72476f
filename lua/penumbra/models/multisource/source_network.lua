--- Encoders and decoders of a model of several sources: what a source's network says as a belief about the latent
--- variable, and what the latent variable says about a target.
-- help: nowhere
local core = require "penumbra.core"
local decoder = require "penumbra.models.decoder"
local dist = require "penumbra.distribution"
local hierarchy = require "penumbra.models.hierarchy"
local named_beliefs = require "penumbra.fusion.named_beliefs"
local nn = require "penumbra.nn"
local options = require "penumbra.options"

local source_network = {}

local ordered = named_beliefs.ordered

-- ---- options ----

local source_options = { size = options.optional "number", hidden = options.optional "table",
  activation = options.optional(), categories = options.optional "number", encoder = options.optional() }

local target_options = { size = options.optional "number", hidden = options.optional "table",
  activation = options.optional(), likelihood = options.optional(), noise = options.optional "string",
  categories = options.optional "number", components = options.optional "number", decoder = options.optional() }

local function sizes_of(where, role, list)
  local out = {}
  for k, n in ipairs(list) do out[k] = options.whole(where, ("%s[%d]"):format(role, k), n, 1) end
  return out
end

-- The table of one source or target, with what all have in common where it says nothing.
local function part_of(where, role, name, given, known, common)
  if type(name) ~= "string" then
    core.error(("%s: %s must be a table with names, got the key %s"):format(where, role, tostring(name)))
  end
  local label = ("%s: %s.%s"):format(where, role, name)
  local o = options.check(label, options.argument(where, ("%s.%s"):format(role, name), given, "table"), known)
  o.label, o.hidden = label, sizes_of(label, "hidden", o.hidden or common.hidden)
  o.activation = o.activation == nil and common.activation or o.activation
  o.size = options.whole(label, "size", o.size or o.categories and 1 or core.error(label
    .. ": option 'size' is required"), 1)
  o.categories = o.categories and options.whole(label, "categories", o.categories, 2)
  return o
end

-- ---- encoders ----

local encoder = {}

--- given(x): x [B, size] as the network sees it: labels as one of `categories` each.
function encoder:given(x)
  if not self.categories then
    return x
  end
  return x:unsqueeze(-1):eq(self.labels):to(self.dtype):reshape { x:size(1), self.size * self.categories }
end

--- belief(x, prior): q(z | x) of x [B, size]: a normal.
function encoder:belief(x, prior)
  local y, n = self.net(self:given(x)), prior.size
  if dist.is(y) then
    if #y.event_shape ~= 1 or y.event_shape[1] ~= n then
      core.error(("%s: encoder must give a normal of event [%d]"):format(self.label, n))
    end
    return y
  elseif not core.is_tensor(y) or y:ndim() ~= 2 or y:size(2) ~= 2 * n then
    core.error(("%s: encoder must give a normal or outputs [B, %d], got %s"):format(self.label, 2 * n,
      core.is_tensor(y) and ("[%s]"):format(table.concat(y:shape(), ", ")) or type(y)))
  end
  local raw = y:slice(-1, n + 1, 2 * n)
  local scale = self.link == "exp" and (raw * 0.5):exp() or raw:sigmoid()
  if self.link == "sigmoid" and prior.scale then
    scale = scale * prior.scale
  end
  return dist.normal(y:slice(-1, 1, n), scale):independent(1)
end

local encoder_class = { __index = core.namespace("an encoder", encoder) }

--- encoders(where, given, o): name -> encoder, made in the order of names; o.hidden, o.activation, o.dtype, o.latent,
--- o.scale_link.
function source_network.encoders(where, given, o)
  local made = {}
  for _, name in ipairs(ordered(given)) do
    local s = part_of(where, "sources", name, given[name], source_options, o)
    local sizes = { s.size * (s.categories or 1), table.unpack(s.hidden) }
    sizes[#sizes + 1] = 2 * o.latent
    local net = s.encoder and options.argument(s.label, "encoder", s.encoder, "function")
      or nn.mlp(sizes, { init = "xavier", activation = s.activation, dtype = o.dtype })
    made[name] = setmetatable({ net = net, size = s.size, categories = s.categories, dtype = o.dtype,
      labels = s.categories and core.arange(s.categories, { dtype = "int64" }) or nil, link = o.scale_link,
      label = s.label }, encoder_class)
  end
  return made
end

--- decoders(where, given, o): name -> decoder (penumbra.models.decoder) with its `size`, made in the order of names.
function source_network.decoders(where, given, o)
  local made = {}
  for _, name in ipairs(ordered(given)) do
    local t = part_of(where, "targets", name, given[name], target_options, o)
    local likelihood = t.likelihood or t.categories and "categorical" or o.likelihood
    made[name] = decoder.new(t.label, likelihood, o.latent, t.size, {
      hidden = hierarchy.reversed(t.hidden), activation = t.activation, dtype = o.dtype, noise = t.noise or o.noise,
      categories = t.categories or 2, components = t.components or 5,
      net = t.decoder and options.argument(t.label, "decoder", t.decoder, "function") or nil })
    made[name].size = t.size
  end
  return made
end

--- targets_of(sources): the targets that sources are where none are given: the same, seen from the other side.
function source_network.targets_of(sources)
  local targets = {}
  for name, s in pairs(sources) do
    targets[name] = type(s) == "table" and { size = s.size, hidden = s.hidden, activation = s.activation,
      categories = s.categories } or s
  end
  return targets
end

return source_network
