--- The mode in which layers are called, what a call carries to the step that follows, and what is a network.
-- help: pn.nn, quiet
local core = require "penumbra.core"
local options = require "penumbra.options"

local nn = {}

local function is_layer(v)
  return type(v) == "userdata" and getmetatable(v) == "penumbra.layer"
end

local function is_network(v)
  local meta = type(v) == "table" and getmetatable(v)
  return is_layer(v) or meta and meta.network == true or false
end

-- f(...) in a mode, which is again what it was when f returns or raises.
local function in_mode(mode, f, ...)
  local before = core.mode(mode)
  local result = table.pack(pcall(f, ...))
  core.mode(before)
  if not result[1] then
    error(result[2], 0)
  end
  return table.unpack(result, 2, result.n)
end

--- mode([new, f, ...]): without arguments the mode in which layers are called now: "training", "evaluation" or "mean",
--- for layers written in Lua. With them f(...) in another mode; the mode is restored when f returns or raises.
function nn.mode(new, f, ...)
  if new == nil then
    return core.mode()
  end
  options.argument("mode", "mode", new, "string")
  options.argument("mode", "f", f, "function")
  return in_mode(new, f, ...)
end

--- buffer(t): a tensor (a copy of t, or of a number) that a network holds, saves and loads, and that no optimiser
--- trains. b:set(t) sets it; steps change it by what their loss carries (pn.nn.with_update).
function nn.buffer(t)
  return core.buffer(t)
end

--- with_update(y, buffer, value [, rate = 1]): y, which from here on carries an update: the step that is taken on what
--- is computed from y sets buffer to (1 - rate) buffer + rate value. Use the result in place of y:
---
---     forward = function(self, x)
---       if nn.mode() ~= "training" then return x - self.running_mean end
---       local m = x:mean(1)
---       return nn.with_update(x - m, self.running_mean, m, 0.1)
---     end
---
--- Nothing is changed before the step, and nothing at all if it is refused. Under pn.no_grad nothing is carried.
function nn.with_update(y, buffer, value, rate)
  return core.with_update(y, buffer, value, rate)
end

--- update_buffers(y): commits the updates that y carries: for those who take their steps without opt:step. Everything
--- is checked first; a value that is not finite is an error, and then nothing has changed.
function nn.update_buffers(y)
  core.update_buffers(y)
end

--- Is v a layer, a sequential or a module?
nn.is_network = is_network
nn.is_layer, nn.in_mode = is_layer, in_mode

return nn
