--- Operations with a gradient of one's own: see pn.op.
-- help: pn, quiet
local core = require "penumbra.core"
local recording = require "penumbra.autodiff.recording"
local options = require "penumbra.options"

local own = {}

local rules = core.rule

local MOST_INPUTS, MOST_RULES = 62, 8 -- as the operation has it; the one longest unused gives way

local shape_text = options.shape_text

local function is_float(t)
  local dtype = t:dtype()
  return dtype == "float64" or dtype == "float32"
end

-- Arguments as tensors: numbers take the dtype of the first tensor of floats.
local function tensors_of(name, ...)
  local inputs, n, like = { ... }, select("#", ...), nil
  if n < 1 or n > MOST_INPUTS then
    core.error(("%s: number of arguments must be 1 to %d, got %d"):format(name, MOST_INPUTS, n))
  end
  for k = 1, n do
    if not like and core.is_tensor(inputs[k]) and is_float(inputs[k]) then
      like = inputs[k]:dtype()
    end
  end
  for k = 1, n do
    inputs[k] = options.numbers(name, "argument " .. k, inputs[k])
    if type(inputs[k]) == "number" then
      inputs[k] = core.full({}, inputs[k], { dtype = like })
    end
  end
  return inputs
end

local function records_gradients()
  local off = recording.is_off()
  return not off
end

-- ---- forward ----

-- The inputs carry no graph here: a result with one depends on a parameter that is not among them.
local function value_of(self, inputs)
  local plain = {}
  for k, x in ipairs(inputs) do
    plain[k] = x:detach()
  end
  local results = table.pack(self.forward(table.unpack(plain)))
  local y = results[1]
  if results.n ~= 1 or not core.is_tensor(y) then
    core.error(("%s: forward must return one tensor, got %s"):format(self.name, results.n ~= 1
      and results.n .. " values (join them with stack or concatenate, or make an operation of each)" or type(y)))
  elseif not is_float(y) then
    core.error(("%s: forward must return float64 or float32, got %s"):format(self.name, y:dtype()))
  elseif y:requires_grad() then
    core.error(("%s: forward uses a parameter that is not among its arguments: pass it as one"):format(self.name))
  end
  return y
end

local function check_shape(self, y, inputs)
  if not self.shape then
    return
  end
  local shapes = {}
  for k, x in ipairs(inputs) do
    shapes[k] = x:shape()
  end
  local sizes = options.argument(self.name, "what shape gives", self.shape(table.unpack(shapes)), "table")
  if table.concat(sizes, ", ") ~= table.concat(y:shape(), ", ") then
    core.error(("%s: forward must return shape [%s], got %s"):format(self.name, table.concat(sizes, ", "),
      shape_text(y)))
  end
end

-- ---- the gradient ----

-- What vjp gives as n gradients, in a list or as several values.
local function listed(self, n, first, ...)
  if type(first) == "table" and select("#", ...) == 0 then
    return first
  end
  local count = select("#", ...) + 1
  if count > n then
    core.error(("%s: vjp must return a gradient for each of %d arguments, got %d values"):format(self.name, n, count))
  end
  return { first, ... }
end

local function checked(self, inputs, gradients)
  local out = {}
  for key in pairs(gradients) do
    if not inputs[key] then
      core.error(("%s: vjp must return a gradient for each of %d arguments, got one for %s"):format(self.name, #inputs,
        tostring(key)))
    end
  end
  for k, x in ipairs(inputs) do
    local d = gradients[k] or core.zeros(x:shape(), { dtype = is_float(x) and x:dtype() or nil })
    if not core.is_tensor(d) then
      core.error(("%s: vjp must return a tensor (or nil) for argument %d, got %s"):format(self.name, k, type(d)))
    elseif shape_text(d) ~= shape_text(x) then
      core.error(("%s: vjp must return shape %s for argument %d, as that has, got %s"):format(self.name, shape_text(x),
        k, shape_text(d)))
    elseif is_float(x) and d:dtype() ~= x:dtype() then
      core.error(("%s: vjp must return %s for argument %d, as that is, got %s"):format(self.name, x:dtype(), k,
        d:dtype()))
    end
    out[k] = d
  end
  return table.unpack(out)
end

-- Operations whose vjp is being captured, with the capture's number (one that a host's limit has ended may stand here):
-- a call of one within needs a gradient that is not there yet.
local under_way = setmetatable({}, { __mode = "k" })

-- What pcall gave; a capture that was begun since `before` and goes on ends.
local function settle(self, before, ok, ...)
  under_way[self] = nil
  if ok then
    return ...
  end
  if rules.current() ~= before then
    core.capture.cancel()
  end
  local message = ...
  if type(message) == "string" then
    local first, last = message:find("compile: ", 1, true)
    if first then
      message = ("%s%s: vjp cannot be captured: %s"):format(message:sub(1, first - 1), self.name,
        (message:sub(last + 1):gsub("compile: ", "")))
    end
  end
  error(message, 0)
end

local function captured(self, y, inputs)
  if under_way[self] and rules.active(under_way[self]) then
    core.error(("%s: the gradient of its vjp would need itself, as its vjp calls it, perhaps through another: write "
      .. "it with the library's operations, or of x:detach() where no second derivative is wanted"):format(self.name))
  end
  local rule = rules.new(self.vjp)
  settle(self, rules.current(), pcall(function()
    local function body(g, ...)
      under_way[self] = rules.number()
      return checked(self, inputs, listed(self, #inputs, self.vjp(g, ...)))
    end
    rules.leave(rule, body(rules.enter(rule, core.ones(y:shape(), { dtype = y:dtype() }), y,
      table.unpack(inputs))))
  end))
  return rule
end

local function signature(y, inputs)
  local parts = { core.default_dtype(), tostring(core.validate()), y:dtype(), shape_text(y) }
  for _, x in ipairs(inputs) do
    parts[#parts + 1] = x:dtype()
    parts[#parts + 1] = shape_text(x)
  end
  return table.concat(parts, " ")
end

-- The rules of each operation, the one used last first.
local known = setmetatable({}, { __mode = "k" })

local function rule_for(self, y, inputs)
  local list, key = known[self], signature(y, inputs)
  if not list then
    list = {}
    known[self] = list
  end
  for at, entry in ipairs(list) do
    if entry.key == key then
      table.remove(list, at)
      if rules.fits(entry.rule) and entry.vjp == self.vjp then
        table.insert(list, 1, entry)
        return entry.rule
      end
      break
    end
  end
  local rule = captured(self, y, inputs)
  table.insert(list, 1, { key = key, rule = rule, vjp = self.vjp })
  list[MOST_RULES + 1] = nil
  return rule
end

-- ---- the operation ----

local function call(self, ...)
  local inputs = tensors_of(self.name, ...)
  local y = value_of(self, inputs)
  check_shape(self, y, inputs)
  local wanted = false
  for _, x in ipairs(inputs) do
    wanted = wanted or x:requires_grad()
  end
  if not wanted or not records_gradients() then
    return y
  end
  return rules.apply(rule_for(self, y, inputs), y, table.unpack(inputs))
end

local operation = {
  own = true, -- compiled functions watch what it was made of
  __name = "operation",
  __call = core.public(call),
  __tostring = core.public(function(self)
    return "operation " .. self.name
  end),
}

local known_options = { name = "op", forward = options.required "function", vjp = options.required "function",
  shape = options.optional "function" }

--- op{forward =, vjp =}: an operation with a gradient of one's own, a function of tensors (and numbers, which become
--- 0-d tensors) to one tensor:
---
---     local softplus = pn.op {
---       name = "softplus",
---       forward = function(x) return x:exp():log1p() end,
---       vjp = function(g, y, x) return g * x:sigmoid() end,
---     }
---     pn.grad(softplus(w):sum(), {w})
---
--- forward  of the arguments, without their graph: its value. What happens in it has no gradient.
--- vjp      of g = d(loss)/dy, y and the arguments x1, x2 ...: the gradients d(loss)/dx of each, as several values or a
---          list, with the argument's shape and dtype; nil for none
--- name     for messages ("op")
--- shape    of the arguments' shapes: the list of sizes that forward's result must have
---
--- vjp does not run in backward, which is C: it is captured at the first call that needs a gradient, once for each
--- shapes and dtypes (8 are kept) and anew when a variable that it finds outside has changed, as pn.compile does it;
--- backward then applies its operations. So the gradient has gradients (create_graph), runs within pn.compile, pn.nuts
--- and pn.svi, and its own operations may be of this kind. What that would freeze is refused with a reason: x:item()
--- and branches on values (choose with pn.where), random draws, changes of variables outside; a parameter from
--- outside, or a tensor that depends on one, must be an argument; a vjp cannot call its own operation.
---
--- The models are JAX's custom_vjp and PyTorch's autograd.Function.
function own.op(given)
  local o = options.check("op", given, known_options)
  for _, role in ipairs { "forward", "vjp", "shape" } do
    if o[role] and type(o[role]) ~= "function" then
      core.error(("%s: %s must be a function, got a callable %s"):format(o.name, role, type(o[role])))
    end
  end
  return setmetatable(o, operation)
end

return own
