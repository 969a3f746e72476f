--- The states of particles: a tensor, or a (nested) table of tensors.
-- help: nowhere
local core = require "penumbra.core"

local function refuse(where, state)
  core.error(("%s: state must be a tensor or a table of tensors, got %s"):format(where, type(state)))
end

-- Keys in an order that does not change.
local function keys_of(where, state)
  if type(state) ~= "table" or getmetatable(state) then
    refuse(where, state)
  end
  local keys = {}
  for key in pairs(state) do
    keys[#keys + 1] = key
  end
  table.sort(keys, function(a, b)
    local x, y = type(a), type(b)
    return x == y and a < b or x ~= y and x < y
  end)
  return keys
end

-- f of each tensor, in a table of the same form.
local function map(where, f, state)
  if core.is_tensor(state) then
    return f(state)
  end
  local out = {}
  for _, key in ipairs(keys_of(where, state)) do
    out[key] = map(where, f, state[key])
  end
  return out
end

-- The tensors of a state, appended to `list`.
local function flatten(where, state, list)
  map(where, function(x) list[#list + 1] = x end, state)
  return list
end

-- A state of the form of `like` out of the list that flatten gave.
local function rebuild(like, list)
  local k = 0
  return map("state", function()
    k = k + 1
    return list[k]
  end, like)
end

-- The states of a list under each other: [T, ...] in each part.
local function stack(list)
  local parts, own = {}, {}
  for t, state in ipairs(list) do
    parts[t] = flatten("state", state, {})
  end
  for k = 1, #parts[1] do
    local column = {}
    for t = 1, #parts do
      column[t] = parts[t][k]
    end
    own[k] = core.stack(column, 1)
  end
  return rebuild(list[1], own)
end

return { map = map, flatten = flatten, rebuild = rebuild, stack = stack }
