--- ONNX's files: Protocol Buffers' wire format, and the messages of a model that are needed here.
--- Sources: Protocol Buffers encoding; onnx.proto of IR version 8, operator set 18.
-- help: nowhere
local core = require "penumbra.core"
local options = require "penumbra.options"

local onnx_model = {}

--- The version of the file's format and of the operators that are used.
onnx_model.IR, onnx_model.OPSET = 8, 18

local MOST = (1 << 31) - 1 -- bytes of a message

local files = core.files or setmetatable({}, { __index = function(_, name)
  core.error(name .. ": this script may not open files")
end })

-- ---- the wire format ----

local function varint(n)
  local bytes = {}
  while n < 0 or n > 127 do -- as an unsigned number
    bytes[#bytes + 1] = string.char(n & 127 | 128)
    n = n >> 7
  end
  return table.concat(bytes) .. string.char(n)
end

local function whole(field, n) return varint(field << 3) .. varint(n) end

local function float(field, v) return varint(field << 3 | 5) .. string.pack("<f", v) end

-- A string of bytes, or a message.
local function bytes(field, text) return varint(field << 3 | 2) .. varint(#text) .. text end

local function each(f, field, list)
  local parts = {}
  for k, v in ipairs(list) do parts[k] = f(field, v) end
  return table.concat(parts)
end

-- ---- messages ----

local TYPES = { float32 = 1, int64 = 7, bool = 9, float64 = 11 }

local KINDS = { float = 1, int = 2, string = 3, ints = 7 }

local function attribute(name, v)
  local text = bytes(1, name)
  if math.type(v) == "float" then
    return text .. float(2, v) .. whole(20, KINDS.float)
  elseif math.type(v) == "integer" then
    return text .. whole(3, v) .. whole(20, KINDS.int)
  elseif type(v) == "string" then
    return text .. bytes(4, v) .. whole(20, KINDS.string)
  elseif math.type(v[1]) == "integer" then
    return text .. each(whole, 8, v) .. whole(20, KINDS.ints)
  end
  return text .. each(bytes, 9, v) .. whole(20, 8)
end

local function node(n)
  local list = {}
  for k, name in ipairs(options.sorted_keys(n.attributes or {})) do list[k] = attribute(name, n.attributes[name]) end
  return each(bytes, 1, n.inputs) .. each(bytes, 2, n.outputs) .. bytes(3, n.name) .. bytes(4, n.op)
    .. each(bytes, 5, list)
end

-- A tensor of elements in a row, little-endian.
local function tensor(name, t)
  return each(whole, 1, t:shape()) .. whole(2, TYPES[t:dtype()]) .. bytes(8, name) .. bytes(9, files.tensor_bytes(t))
end

-- The name, dtype and shape of an input or output: sizes are numbers or names.
local function value(v)
  local sizes = {}
  for k, size in ipairs(v.shape) do sizes[k] = type(size) == "string" and bytes(2, size) or whole(1, size) end
  return bytes(1, v.name) .. bytes(2, bytes(1, whole(1, TYPES[v.dtype]) .. bytes(2, each(bytes, 1, sizes))))
end

local function mapped(f, list)
  local parts = {}
  for k, v in ipairs(list) do parts[k] = f(v) end
  return parts
end

--- save(path, graph): graph = {name =, doc =, nodes = {{op =, name =, inputs =, outputs =, attributes =}}, constants =
--- {{name, tensor}}, inputs = {{name =, dtype =, shape =}}, outputs =}. true, or nil, message, code.
function onnx_model.save(path, graph)
  local weights = mapped(function(entry) return tensor(entry[1], entry[2]) end, graph.constants)
  local text = each(bytes, 1, mapped(node, graph.nodes)) .. bytes(2, graph.name) .. each(bytes, 5, weights)
    .. bytes(10, graph.doc) .. each(bytes, 11, mapped(value, graph.inputs))
    .. each(bytes, 12, mapped(value, graph.outputs))
  local model = whole(1, onnx_model.IR) .. bytes(2, "penumbra") .. bytes(8, bytes(1, "")
    .. whole(2, onnx_model.OPSET)) .. bytes(7, text)
  if #model > MOST then
    return nil, ("save_onnx: the network has %d bytes; a file of ONNX holds %d"):format(#model, MOST), "limit"
  end
  return files.save_bytes(path, model)
end

return onnx_model
