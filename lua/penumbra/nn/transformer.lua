--- Transformer layers and stacks of them (Vaswani et al. 2017): attention, then a network of two linear layers for each
--- place, both with a residual connection and a layer_norm, on pn.nn.multi_head_attention.
---
---     local layer = nn.transformer_encoder_layer(64, 4, {dropout = 0.1})
---     local y = layer(x)                                  -- x [batch, length, 64]; layer(x, mask)
---     local net = nn.transformer_encoder(64, 4, 6, {norm_first = true, causal = true})
---     local out = nn.transformer_decoder(64, 4, 6)(y, memory)      -- (y, memory, mask, memory_mask)
---
--- A mask is as that of multi_head_attention: true where a place takes part (which is not PyTorch's, where true leaves
--- out), or numbers to add, broadcast to [batch, heads, target, source]; of sequences that end earlier
--- pn.arange(n):lt(lengths:reshape{-1, 1, 1, 1}). A generator may stand last. Options of all:
---     feedforward   units of the inner linear layer (4 size)
---     dropout       in training, of what attention sees, of the inner units and of both branches (0.1)
---     activation    of the inner units: "relu", or the name of another, a layer or a function
---     norm_first    whether layer_norm stands before each branch, and not after the sum (false)
---     causal        whether places see no later ones: false, of a decoder true
---     bias          whether linear layers, attention and layer_norm have one (true)
---     epsilon       of layer_norm (1e-5)
---     dtype, generator     of the parameters
--- and of stacks
---     norm          whether a layer_norm follows the last layer; as norm_first is
---
--- Parameters have PyTorch's names, so state{layout = "torch"} is that of nn.TransformerEncoderLayer and so on, built
--- with batch_first = True. Without bias layer_norm keeps its own, 0 at the start: PyTorch's has none.
-- help: pn.nn
local core = require "penumbra.core"
local layers = require "penumbra.nn.layer"
local network = require "penumbra.nn.network"
local options = require "penumbra.options"

local transformer = {}

local known = { feedforward = options.optional "number", dropout = 0.1, activation = options.any "relu",
  norm_first = false, causal = options.optional "boolean", bias = true, epsilon = 1e-5,
  dtype = options.optional "string", generator = options.optional() }
local of_stack = options.merged(known, { norm = options.optional "boolean" })

local names = {}
for _, row in ipairs(core.layer_rows()) do
  names[#names + 1] = row.activation and row.name or nil
end

-- The activation as something that is called.
local function activation_of(where, given)
  if type(given) == "function" or type(given) == "userdata" or type(given) == "table" then
    return given
  end
  for _, name in ipairs(names) do
    if name == given then
      return layers[name]()
    end
  end
  return core.error(("%s: activation must be the name of one, a layer or a function, got '%s'%s"):format(where,
    tostring(given), options.suggestion(given, names)))
end

-- What both kinds of layers have.
local function parts(where, size, heads, o)
  local how = { bias = o.bias, dtype = o.dtype, generator = o.generator }
  options.whole(where, "size", size, 1)
  options.whole(where, "heads", heads, 1)
  if not (o.dropout >= 0 and o.dropout <= 1) then
    core.error(("%s: dropout must lie in 0 to 1, got %s"):format(where, o.dropout))
  end
  local inner = o.feedforward and options.whole(where, "feedforward", o.feedforward, 1) or 4 * size
  local function attention(causal)
    return layers.multi_head_attention(size, heads, { bias = o.bias, causal = causal, dropout = o.dropout,
      dtype = o.dtype, generator = o.generator })
  end
  local function norm()
    return layers.layer_norm(size, { epsilon = o.epsilon, dtype = o.dtype })
  end
  return { self_attn = attention(o.causal), linear1 = layers.linear(size, inner, how),
    linear2 = layers.linear(inner, size, how), norm1 = norm(), norm2 = norm(),
    dropout = layers.dropout { rate = o.dropout }, activation = activation_of(where, o.activation),
    norm_first = o.norm_first }, attention, norm
end

-- x with the branch f beside it: the norm before, or after the sum.
local function beside(self, x, norm, f, generator)
  if self.norm_first then
    return x + self.dropout(f(norm(x)), generator)
  end
  return norm(x + self.dropout(f(x), generator))
end

local function inner(self, generator)
  return function(x)
    return self.linear2(self.dropout(self.activation(self.linear1(x)), generator))
  end
end

-- A last argument that is a generator is it, wherever it stands.
local function arguments(n, ...)
  local list = { ... }
  for k = 1, n do
    if type(list[k]) == "userdata" and getmetatable(list[k]) == "penumbra.generator" then
      list[n + 1], list[k] = list[k], nil
    end
  end
  return list
end

local function encode(self, x, ...)
  local given = arguments(1, ...)
  local mask, generator = given[1], given[2]
  x = beside(self, x, self.norm1, function(z) return self.self_attn(z, nil, nil, mask, generator) end, generator)
  return beside(self, x, self.norm2, inner(self, generator), generator)
end

--- transformer_encoder_layer(size, heads [, options]): a layer of attention of a sequence to itself and a network for
--- each place: layer(x [, mask [, generator]]), [batch, length, size]. Options: pn.help "penumbra.nn.transformer".
function transformer.transformer_encoder_layer(size, heads, given)
  local where = "transformer_encoder_layer"
  local o = options.check(where, given, known)
  local fields = parts(where, size, heads, o)
  fields.forward = core.public(encode)
  return network.module(fields)
end

local function decode(self, x, memory, ...)
  if not core.is_tensor(memory) then
    core.error "transformer_decoder_layer: needs what the encoder gave, layer(x, memory)"
  end
  local given = arguments(2, ...)
  local mask, memory_mask, generator = given[1], given[2], given[3]
  x = beside(self, x, self.norm1, function(z) return self.self_attn(z, nil, nil, mask, generator) end, generator)
  x = beside(self, x, self.norm2, function(z)
    return self.multihead_attn(z, memory, nil, memory_mask, generator)
  end, generator)
  return beside(self, x, self.norm3, inner(self, generator), generator)
end

local function decoder_layer(where, size, heads, o)
  if o.causal == nil then
    o.causal = true
  end
  local fields, attention, norm = parts(where, size, heads, o)
  fields.multihead_attn, fields.norm3, fields.forward = attention(false), norm(), core.public(decode)
  return network.module(fields)
end

--- transformer_decoder_layer(size, heads [, options]): attention of a sequence to itself (causal unless causal =
--- false), then to the encoder's output, then a network for each place: layer(x, memory [, mask [, memory_mask [,
--- generator]]]), x [batch, target, size], memory [batch, source, size]. Options: pn.help "penumbra.nn.transformer".
function transformer.transformer_decoder_layer(size, heads, given)
  local where = "transformer_decoder_layer"
  return decoder_layer(where, size, heads, options.check(where, given, known))
end

-- A stack of layers that make(o) gives.
local function stack(where, size, count, given, make)
  local o = options.check(where, given, of_stack)
  local list = {}
  for k = 1, options.whole(where, "layers", count, 1) do
    list[k] = make(o)
  end
  local last = o.norm
  if last == nil then
    last = o.norm_first
  end
  return network.module { layers = list, norm = last and layers.layer_norm(size, { epsilon = o.epsilon,
    dtype = o.dtype }) or nil, forward = function(self, x, ...)
      for _, layer in ipairs(self.layers) do
        x = layer(x, ...)
      end
      return self.norm and self.norm(x) or x
    end }
end

--- transformer_encoder(size, heads, layers [, options]): that many transformer_encoder_layer on each other, and a
--- layer_norm at the end where norm_first (or norm) is true: net(x [, mask [, generator]]). Each layer has weights of
--- its own, drawn for itself.
function transformer.transformer_encoder(size, heads, count, given)
  return stack("transformer_encoder", size, count, given, function(o)
    local fields = parts("transformer_encoder", size, heads, o)
    fields.forward = core.public(encode)
    return network.module(fields)
  end)
end

--- transformer_decoder(size, heads, layers [, options]): that many transformer_decoder_layer on each other, all of
--- which see the same memory: net(x, memory [, mask [, memory_mask [, generator]]]).
function transformer.transformer_decoder(size, heads, count, given)
  return stack("transformer_decoder", size, count, given, function(o)
    return decoder_layer("transformer_decoder", size, heads, o)
  end)
end

return transformer
