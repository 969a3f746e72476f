--- Bijectors: differentiable maps with an inverse and a log-determinant, for transforming distributions and for
--- parameters that live in a set. x is lead + in axes, y lead + out axes.
---
---     local b = dist.bijector.affine(1, 2)                 -- parameters in declared order
---     local b = dist.bijector.affine{loc = 1, scale = 2}   -- or by name
---     local c = dist.bijector.chain{b, dist.bijector.exp()}   -- first b, then exp
---     b:forward(x), b(x)      y
---     b:inverse(y)            x
---     b:log_abs_det(x)        log |det dy/dx|: lead. Free coordinates count: all but the last entry of a simplex
---                             vector, the lower triangle of a triangular or symmetric matrix
---     b:forward_log_det(x)    y and log |det dy/dx| in one pass of a network where there is one
---     b:inverse_log_det(y)    x and log |det dy/dx| there
---     b:arguments()           {name = tensor}; of one with parts a list of such tables
---     b:parameters()          list of those to train (pn.param), in a fixed order
---     b:named_parameters() b:num_parameters() b:state() b:load_state(t)      as networks have them (pn.help "nn")
---     b.name b.domain b.codomain b.domain_rank b.codomain_rank b.parts    and every parameter by its name
---
--- The last pair computed without a graph is kept: the inverse of a y just drawn is exact and free. Where a
--- gradient is asked for it is computed anew; only where that takes a pass of a network for each number does a y that
--- came out of forward keep its x: then the gradient in y alone is an error (take pn.param(y:detach())).
-- help: pn.dist.bijector, part
local core = require "penumbra.core"
local options = require "penumbra.options"
local own = require "penumbra.distribution.own_bijector"

local bijector = {}

local function is_named(t)
  return type(t) == "table" and #t == 0
end

-- Lists of numbers as tensors; whole numbers where the set asks for them.
local function value_of(parameter, v)
  if type(v) == "table" then
    return core.tensor(v, parameter.discrete and { dtype = "int64" } or nil)
  end
  return v
end

local function constructor(row)
  return function(...)
    local named, n, first = {}, select("#", ...), (...)
    if n == 1 and is_named(first) then
      for name, v in pairs(first) do
        named[name] = v
      end
    elseif n > #row.parameters then
      core.error(("%s: number of positional parameters must be at most %d, got %d"):format(row.name, #row.parameters,
        n))
    else
      for k, p in ipairs(row.parameters) do
        named[p.name] = (select(k, ...))
      end
    end
    for _, p in ipairs(row.parameters) do
      named[p.name] = value_of(p, named[p.name])
    end
    return core.new_bijector(row.name, named)
  end
end

for _, row in ipairs(core.bijector_rows()) do
  if row.parts == 0 then
    bijector[row.name] = constructor(row)
  end
end

--- chain{b1, b2, ...}: b1 first, then b2 ... Their log-determinants add up. (Chains in chains nest at most 100 levels
--- deep: give one chain all of its parts.)
function bijector.chain(list)
  if type(list) ~= "table" then
    core.error("chain: bijectors must be a list, got " .. type(list))
  end
  for _, b in ipairs(list) do
    if own.is(b) then
      for k, each in ipairs(list) do
        options.argument("chain", "part " .. k, each, "bijector")
      end
      return own.chain(list)
    end
  end
  return core.new_composed_bijector("chain", list)
end

--- inverse(b): b backwards.
function bijector.inverse(b)
  return own.is(b) and own.inverse(b) or core.new_composed_bijector("inverse", { b })
end

local optional = options.optional
local random_options = { hidden = options.any { 32 }, split = optional "number", scale = 0.01,
  generator = optional(), dtype = optional "string" }

--- random(name, n [, options]): a bijector of vectors of n numbers with parameters to train, near the identity:
--- "masked_autoregressive", "inverse_autoregressive", "real_nvp" or "planar". Options: hidden, sizes of one or two
--- hidden layers ({32}); split, how many numbers a coupling passes (n // 2); scale of the outputs' weights (0.01);
--- generator; dtype. What to train: b:parameters().
function bijector.random(name, n, given)
  local o = options.check("random", given, random_options)
  n = options.whole("random", "n", n, 1)
  options.argument("random", "hidden", o.hidden, "table")
  local hidden, generator, scale = o.hidden, o.generator, o.scale
  local function draw(rows, columns, size)
    return core.param(core.randn({ rows, columns }, { generator = generator, dtype = o.dtype }) * size)
  end
  local function bias(count, value)
    return core.param(core.full({ count }, value or 0, { dtype = o.dtype }))
  end
  if name == "planar" then
    local w = draw(2, n, 1 / math.sqrt(n)):detach()
    return bijector.planar { weight = core.param(w[1]), direction = core.param(w[2] * scale), bias = core.param(0) }
  end
  local coupling = name == "real_nvp"
  if not (coupling or name == "masked_autoregressive" or name == "inverse_autoregressive") then
    local near = options.suggestion(name, { "planar", "real_nvp", "masked_autoregressive", "inverse_autoregressive" })
    core.error(("random: name must be that of a bijector with weights, got '%s'%s"):format(tostring(name), near))
  elseif #hidden < 1 or #hidden > 2 then
    core.error("random: hidden must have 1 or 2 sizes, got " .. #hidden)
  end
  local inputs = coupling and (o.split or n // 2) or n
  local outputs, last = coupling and n - inputs or n, hidden[#hidden]
  local gate = name == "inverse_autoregressive" and 2 or 0
  return bijector[name] {
    hidden_weight = draw(inputs, hidden[1], 1 / math.sqrt(inputs)), hidden_bias = bias(hidden[1]),
    middle_weight = hidden[2] and draw(hidden[1], hidden[2], 1 / math.sqrt(hidden[1])),
    middle_bias = hidden[2] and bias(hidden[2]),
    shift_weight = draw(last, outputs, scale), shift_bias = bias(outputs),
    scale_weight = draw(last, outputs, scale), scale_bias = bias(outputs, gate),
  }
end

--- is(x): is x a bijector?
function bijector.is(x)
  return type(x) == "userdata" and getmetatable(x) == "penumbra.bijector" or own.is(x)
end

bijector.custom = own.custom

return bijector
