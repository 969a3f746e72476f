--- Fully connected networks with elementwise activations, taken apart: for pn.invariance, which knows what to leave
--- alone, and pn.continual, whose data have sites there.
-- help: none
local core = require "penumbra.core"
local constructors = require "penumbra.nn.layer"
local mode = require "penumbra.nn.mode"

local perceptron = {}

-- Layers that treat every element alike, and hold nothing.
local elementwise, functions = {}, { "abs", "atan", "cos", "erf", "exp", "ndtr", "sin", "square" }
for _, row in ipairs(core.layer_rows()) do
  if row.activation then
    elementwise[row.name] = row
    functions[#functions + 1] = core[row.name] and row.name or nil
  end
end

-- Functions of pn of that kind, by what they are called.
local function function_name(f)
  for _, name in ipairs(functions) do
    if core[name] == f then
      return name
    end
  end
end

--- sloped(part): the layer of an activation, or of the function of pn of its name, if passes know its slope; or nil.
function perceptron.sloped(part)
  local kind = type(part) == "function" and function_name(part) or type(part) == "userdata" and part:type()
  local row = elementwise[kind]
  return row and row.slope and (type(part) == "userdata" and part or constructors[kind]()) or nil
end

--- read(where, net): list of its linear layers in order, {layer =, weight =, bias =, weight_name =, bias_name =, apply
--- =}, apply a list of what follows the layer; raises for every other network.
function perceptron.read(where, net)
  if not mode.is_network(net) then
    core.error(("%s: network must be a sequential of linear layers and activations, got %s"):format(where, type(net)))
  end
  local list = type(net) == "userdata" and { net } or net
  if type(net) == "table" and net.kind ~= "sequential" then
    core.error(("%s: network must be a sequential of linear layers and activations, got a %s"):format(where,
      tostring(net.kind)))
  end
  local layers = {}
  for k, part in ipairs(list) do
    local kind = type(part) == "userdata" and part:type() or type(part) == "function" and function_name(part)
    if kind == "linear" and type(part) == "userdata" then
      local own = {}
      for _, entry in ipairs(part:own_parameters()) do
        own[entry[1]] = entry[2]
      end
      local path = type(net) == "userdata" and "" or k .. "."
      layers[#layers + 1] = { layer = part, weight = own.weight, bias = own.bias, weight_name = path .. "weight",
        bias_name = own.bias and path .. "bias" or nil, apply = {} }
    elseif kind and (elementwise[kind] or type(part) == "function") then
      if #layers == 0 then
        core.error(("%s: the network must begin with a linear layer, got %s"):format(where, kind))
      end
      table.insert(layers[#layers].apply, part)
    else
      core.error(("%s: the network must be fully connected with elementwise activations, got %s as part %d"):format(
        where, kind or (type(part) == "table" and part.kind) or "a function of your own", k))
    end
  end
  for k, layer in ipairs(layers) do
    if k > 1 and layers[k - 1].weight:size(2) ~= layer.weight:size(1) then
      core.error(("%s: linear layer %d takes %d inputs and gets %d"):format(where, k, layer.weight:size(1),
        layers[k - 1].weight:size(2)))
    end
  end
  if #layers == 0 then
    core.error(("%s: the network has no linear layer"):format(where))
  end
  return layers
end

--- activate(layer, h): what follows the linear layer, of its pre-activations.
function perceptron.activate(layer, h)
  for _, f in ipairs(layer.apply) do
    h = f(h)
  end
  return h
end

--- hidden(layers): the numbers of nodes of the hidden layers.
function perceptron.hidden(layers)
  local sizes = {}
  for k = 1, #layers - 1 do
    sizes[k] = layers[k].weight:size(2)
  end
  return sizes
end

return perceptron
