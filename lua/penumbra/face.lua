--- The face of a part: what it holds by name, each from a module of its own that is loaded when it is first asked for.
-- help: nowhere
local core = require "penumbra.core"

--- face(name, t, from, members [, parts]): makes the table t the namespace `name` ("pn.smc"), which has beside its
--- fields `members`, name -> the module that has it under that name, and `parts`, name -> the module that is that
--- namespace below it. Modules are named from `from` on ("penumbra.smc."). Returns t, and these names in order.
return function(name, t, from, members, parts)
  local names, meta = {}, getmetatable(t) or {}
  parts = parts or {}
  for _, list in ipairs { members, parts } do
    for key in pairs(list) do names[#names + 1] = key end
  end
  table.sort(names)
  meta.lazy = names -- what pairs does not see yet
  function meta.__index(_, key)
    if parts[key] then
      t[key] = core.namespace(name .. "." .. key, require(from .. parts[key]))
    elseif members[key] then
      t[key] = core.public(require(from .. members[key])[key])
    else
      return core.missed(name, key)
    end
    return rawget(t, key)
  end
  return core.namespace(name, setmetatable(t, meta), names), names
end
