--- Bijectors that a script makes: see pn.dist.bijector.custom.
-- help: pn.dist.bijector, quiet
local core = require "penumbra.core"
local dist = require "penumbra.distribution.constructor"
local options = require "penumbra.options"
local own = require "penumbra.distribution.own"
local own_composite = require "penumbra.distribution.own_composite"
local own_kind = require "penumbra.distribution.own_kind"
local parameters = require "penumbra.parameters"

local custom = {}

local methods = {}

local object = {
  own = true, -- compiled functions watch what it was made of
  __name = "bijector",
  __index = function(_, key)
    return methods[key]
  end,
  __newindex = core.public(function(b)
    core.error(("%s: a bijector does not change; make another"):format(b.name))
  end),
  __tostring = core.public(function(b)
    return core.describe.bijector(b)
  end),
}

--- is(x): was x made here?
function custom.is(x)
  return type(x) == "table" and getmetatable(x) == object
end

local function argument(b, what, x)
  if type(x) == "number" or type(x) == "table" then
    x = core.tensor(x, { dtype = b.dtype })
  elseif not core.is_tensor(x) then
    core.error(("%s: %s: argument must be a tensor, a number or a list, got %s"):format(b.name, what, type(x)))
  end
  local rank = what == "inverse" and b.codomain_rank or b.domain_rank
  if x:ndim() < rank then
    core.error(("%s: %s: argument must have at least %d axes, got %d"):format(b.name, what, rank, x:ndim()))
  end
  return x
end

local function mapped(b, what, x)
  local y = b.kind[what](b, x)
  if not core.is_tensor(y) then
    core.error(("%s: %s must return a tensor, got %s"):format(b.name, what, type(y)))
  end
  return y
end

-- log |det dy/dx| with the axes of y before the event's.
local function log_det(b, x, y)
  local shape = y:shape()
  return own.expanded(b, "log_det", b.kind.log_det(b, x, y), table.move(shape, 1, #shape - b.codomain_rank, 1, {}))
end

--- forward(x): y.
function methods:forward(x)
  return mapped(self, "forward", argument(self, "forward", x))
end

--- inverse(y): x.
function methods:inverse(y)
  return mapped(self, "inverse", argument(self, "inverse", y))
end

--- forward_log_det(x): y and log |det dy/dx|.
function methods:forward_log_det(x)
  x = argument(self, "forward", x)
  local y = mapped(self, "forward", x)
  return y, log_det(self, x, y)
end

--- inverse_log_det(y): x and log |det dy/dx| there.
function methods:inverse_log_det(y)
  y = argument(self, "inverse", y)
  local x = mapped(self, "inverse", y)
  return x, log_det(self, x, y)
end

--- log_abs_det(x): log |det dy/dx|, without the event's axes.
function methods:log_abs_det(x)
  return (select(2, methods.forward_log_det(self, x)))
end

--- arguments(): {name = tensor}: enough to make it again.
function methods:arguments()
  local values = {}
  for _, p in ipairs(self.kind.parameters) do
    values[p.name] = self[p.name]
  end
  return values
end

for name, method in pairs(parameters.methods) do
  methods[name] = method
end

object.__call = core.public(function(b, x)
  return dist.is(x) and own_composite.transformed(x, b) or methods.forward(b, x)
end)
core.public(methods)

-- A bijector of a kind {name, domain, codomain (sets), ranks, parameters, forward, inverse, log_det}.
local function new(kind, values, parts, dtype)
  local b = { kind = kind, name = kind.name, domain = kind.domain, codomain = kind.codomain, parts = parts,
    domain_rank = kind.domain_rank, codomain_rank = kind.codomain_rank, dtype = dtype }
  for name, value in pairs(values) do
    b[name] = value
  end
  return setmetatable(b, object)
end

local constructor = {
  own = true,
  __name = "constructor",
  __call = core.public(function(kind, ...)
    local values, _, dtype = own_kind.accepted(kind, own_kind.read(kind, ...))
    return new(kind, values, {}, next(values) and dtype or nil)
  end),
  __tostring = core.public(function(kind)
    return "bijector " .. kind.name
  end),
}

local custom_options = { name = "custom", parameters = {}, domain = "real", codomain = "real",
  event_ndim = options.optional "number", forward = options.required "function",
  inverse = options.required "function", log_det = options.required "function" }

--- custom{name =, forward =, inverse =, log_det =, ...}: a kind of bijector of one's own. Returns its constructor.
---
---     local gumbel = pn.dist.bijector.custom {
---       name = "gumbel", domain = "interval",
---       forward = function(_, u) return -(-u:log()):log() end,
---       inverse = function(_, y) return (-(-y):exp()):exp() end,
---       log_det = function(_, u) return -(-u:log()):log() - u:log() end,
---     }
---     pn.dist.transformed(pn.dist.uniform(0, 1), gumbel())
---
--- forward, inverse     of (b, x) and (b, y): elementwise in all axes before those of the event
--- log_det              of (b, x, y): log |det dy/dx|, without the event's axes
--- domain, codomain     the sets it maps from and onto ("real")
--- event_ndim           how many last axes are mapped together (those of the sets)
--- parameters           as for pn.dist.custom: b has them by name
---
--- It stands in pn.dist.transformed, in chain and inverse, in m:sample{constraint = b} and m:flat. Moments and cdf of
--- what it transforms are estimated (expectation_monte_carlo); pn.save does not take it.
function custom.custom(given)
  local o = options.check("custom", given, custom_options)
  for _, name in ipairs { "forward", "inverse", "log_det" } do
    if type(o[name]) ~= "function" then
      core.error(("%s: %s must be a function, got a callable %s"):format(o.name, name, type(o[name])))
    end
  end
  local from, to = core.set.find(o.domain, o.name), core.set.find(o.codomain, o.name)
  local rank = options.whole(o.name, "event_ndim", o.event_ndim or math.max(from.rank, to.rank), 0)
  if rank < math.max(from.rank, to.rank) then
    core.error(("%s: event_ndim must be at least %d, as members of the sets have, got %d"):format(o.name,
      math.max(from.rank, to.rank), rank))
  end
  o.domain_rank = rank - math.max(from.rank, to.rank) + from.rank
  o.codomain_rank = rank - math.max(from.rank, to.rank) + to.rank
  o.parameters, o.ordered = own_kind.declared(o.name, o.parameters)
  return setmetatable(o, constructor)
end

--- inverse(b): see pn.dist.bijector.inverse.
function custom.inverse(b)
  local kind = { name = "inverse", domain = b.codomain, codomain = b.domain, domain_rank = b.codomain_rank,
    codomain_rank = b.domain_rank, parameters = {},
    forward = function(_, x) return b:inverse(x) end,
    inverse = function(_, y) return b:forward(y) end,
    log_det = function(_, _, y) return -b:log_abs_det(y) end }
  return new(kind, {}, { b }, b.dtype)
end

--- chain(list): see pn.dist.bijector.chain.
function custom.chain(list)
  local rank = 0
  for k, b in ipairs(list) do
    if b.domain_rank ~= b.codomain_rank then
      core.error(("chain: beside a script's bijectors each must keep the number of axes, and %s (number %d) does not")
        :format(b.name, k))
    elseif k > 1 and not core.set.inside(list[k - 1].codomain, b.domain) then
      core.error(("chain: values of %s must be %s for %s"):format(list[k - 1].name,
        core.set.find(b.domain, "chain").must, b.name))
    end
    rank = math.max(rank, b.domain_rank)
  end
  local kind = { name = "chain", domain = list[1].domain, codomain = list[#list].codomain, domain_rank = rank,
    codomain_rank = rank, parameters = {} }
  function kind.forward(_, x)
    for _, b in ipairs(list) do
      x = b:forward(x)
    end
    return x
  end
  function kind.inverse(_, y)
    for k = #list, 1, -1 do
      y = list[k]:inverse(y)
    end
    return y
  end
  function kind.log_det(_, x)
    local total, part
    for _, b in ipairs(list) do
      x, part = b:forward_log_det(x)
      part = own.sum_last(part, rank - b.domain_rank)
      total = total and total + part or part
    end
    return total
  end
  return new(kind, {}, table.move(list, 1, #list, 1, {}), nil)
end

return custom
