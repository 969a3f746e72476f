--- Every public name, found without help's data: the functions that hang on the live module `penumbra` and its parts,
--- its rows, the methods of tensors, distributions and bijectors that are functions of the core, and what penumbra.h
--- declares PN_API. function(path of penumbra.h) -> sorted list.
local core = require "penumbra.core"
local pn = require "penumbra"
local tool = require "spec.gates.tool"

local HOMES = {op = "pn.", distribution = "pn.dist.", composite = "pn.dist.", bijector = "pn.dist.bijector.",
  layer = "pn.nn.", optimiser = "pn.optim.", estimator = "pn.infer."}

return function(header)
  local list = tool.public(assert(tool.read(header)))
  local seen = {}
  local function look(part, prefix)
    seen[part] = true
    local callable = (getmetatable(part) or {}).__call ~= nil -- pn.smc.hmm{...} is its `new`
    for key, value in pairs(part) do
      local public = type(key) == "string" and not key:find "^_" and not (callable and key == "new")
      if public and type(value) == "function" then list[#list + 1] = prefix .. key end
      if public and type(value) == "table" and not seen[value] then look(value, prefix .. key .. ".") end
    end
  end
  for _, module in ipairs(core.modules()) do -- parts are loaded when they are first asked for
    local part = pn
    for name in module:gmatch "%.([%w_]+)" do part = type(part) == "table" and part[name] or nil end
  end
  for _, name in ipairs(pn.lazy_names()) do local _ = pn[name] end
  look(pn, "pn.")
  for prefix, methods in pairs {x = core.methods, d = core.distribution_methods, b = core.bijector_methods} do
    for name in pairs(methods) do
      if not name:find "^_" then list[#list + 1] = prefix .. ":" .. name end
    end
  end
  for _, row in ipairs(pn.rows()) do
    if HOMES[row.kind] and not row.hidden then list[#list + 1] = HOMES[row.kind] .. row.name end
  end
  table.sort(list)
  for k = #list, 2, -1 do
    if list[k] == list[k - 1] then table.remove(list, k) end
  end
  return list
end
