--- Gates of a network of straight pieces (Haussmann 2021, 3.1.1, 3.1.2, 3.1.5): h = f z with z ~ Bernoulli(sigmoid(C
--- f)) in the place of max(f, 0). What the gates cost when moments pass (term 2 of the bound), and draws of the model
--- whose gates are random. A row for each layer with gates: where they stand as thresholds of f, and h for open ones.
-- help: none
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local nn = require "penumbra.nn"
local parameters = require "penumbra.parameters"

local gates = {}

-- ---- layers with gates ----

local function options_of(layer)
  local _, set = layer:configuration()
  return set
end

local function one_gate(slope)
  return {
    inputs = function(_, f) return { f } end,
    output = function(layer, f, z)
      local a = slope and slope(layer, f)
      return a and f * (z[1] * (1 - a) + a) or f * z[1]
    end,
  }
end

-- The slopes of a prelu beside f [batch, channels, ...].
local function prelu_slope(layer, f)
  local w = layer:own_parameters()[1][2]
  local shape = {}
  for k = 1, f:ndim() do shape[k] = k == 2 and w:numel() or 1 end
  return w:reshape(shape)
end

-- Three pieces: low below `first`, high above `last`, the straight line between: h = high u + low w + line (1 - u)(1 -
-- w).
local function two_gates(ends)
  return {
    inputs = function(layer, f)
      local first, last = ends(layer)
      return { f - last, first - f }
    end,
    output = function(layer, f, z)
      local first, last, low, high = ends(layer)
      local line = (f - first) * ((high - low) / (last - first)) + low
      return z[1] * high + z[2] * low + line * (1 - z[1]) * (1 - z[2])
    end,
  }
end

local rows = {
  relu = one_gate(),
  leaky_relu = one_gate(function(layer) return options_of(layer).slope or 0.01 end),
  prelu = one_gate(prelu_slope),
  hard_tanh = two_gates(function(layer)
    local o = options_of(layer)
    return o.low or -1, o.high or 1, o.low or -1, o.high or 1
  end),
  hard_sigmoid = two_gates(function(layer)
    local half = 0.5 / (options_of(layer).slope or 1 / 6)
    return -half, half, 0, 1
  end),
}

-- The options of layers with a rule: row name -> true.
local ruled = {}
for _, row in ipairs(core.layer_rows()) do
  for _, option in ipairs(row.options or {}) do
    ruled[row.name] = ruled[row.name] or option.name == "rule"
  end
end

--- set_rule(net, rule, sharpness): a copy of net whose activations of straight pieces pass moments by that rule; what
--- they hold is copied, all else is shared.
function gates.set_rule(net, rule, sharpness)
  return parameters.map_layers(net, function(layer)
    if not ruled[layer:type()] then
      return nil
    end
    local _, set = layer:configuration()
    local own = layer:own_parameters()
    set.rule, set.sharpness = rule, rule == "identity_heaviside" and sharpness or nil
    set.dtype = own[1] and own[1][2]:dtype() or nil
    local made = core.new_layer(layer:type(), nil, set)
    return own[1] and made:load_state(layer:state()) or made
  end)
end

-- ---- what gates cost ----

local function per_datum(t)
  return t:reshape { t:size(1), -1 }:sum(2)
end

--- moments(net, mean, variance, sharpness [, approximate]): mean and variance of the outputs of a net of
--- pn.nn.bayesian, and the expected divergence E KL(q(z) || p(z | f)) of each datum's gates, [N], summed over all of
--- them (pn.dist.kl_gate); f is normal with the moments that arrive. Max pooling has gates of its own, which are hard.
function gates.moments(net, mean, variance, sharpness, approximate)
  local total
  local m, v = net:moments(mean, variance, function(layer)
    local row = rows[layer:type()]
    return row and nn.module {
      moments = function(_, f, spread)
        if spread then
          local own = spread:ndim() > f:ndim() and spread:diagonal() or spread
          local scale = (own + 1e-30):sqrt()
          for _, at in ipairs(row.inputs(layer, f)) do
            local cost = per_datum(dist.kl_gate(at, scale, sharpness, { approximate = approximate }))
            total = total and total + cost or cost
          end
        end
        return layer:moments(f, spread)
      end,
    }
  end)
  return m, v, total
end

-- ---- draws of the model ----

-- z ~ Bernoulli(sigmoid(C f)), as numbers of f's dtype; C = inf: is f above 0.
local function draw(f, sharpness, generator)
  if sharpness == math.huge then
    return f:gt(0):to(f:dtype())
  end
  local u = core.rand(f:shape(), { dtype = f:dtype(), generator = generator })
  return u:lt((f * sharpness):sigmoid()):to(f:dtype())
end

--- generate(net, x, sharpness, generator): outputs of net with its weights as they are and gates that are drawn, and
--- the list of these in the order in which they were met: {input = C's argument, open = zeros and ones}.
function gates.generate(net, x, sharpness, generator)
  local list = {}
  local drawn = parameters.map_layers(net, function(layer)
    local row = rows[layer:type()]
    return row and nn.module {
      forward = function(_, f)
        local z = {}
        for k, at in ipairs(row.inputs(layer, f)) do
          z[k] = draw(at, sharpness, generator)
          list[#list + 1] = { input = at, open = z[k] }
        end
        return row.output(layer, f, z)
      end,
    }
  end)
  return drawn(x), list
end

return gates
