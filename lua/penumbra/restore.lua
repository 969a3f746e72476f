--- What a method :save has written, made again: one function for all that can be fitted.
---
---     m:save "m.safetensors"            m = pn.restore "m.safetensors"
-- help: pn
local data = require "penumbra.data"
local multisource = require "penumbra.models.multisource"
local options = require "penumbra.options"

local restore = {}

-- Modules that write files: kept.file says what such a file is (penumbra.data.saved), kept.restore(path, given) makes
-- the object again.
local all = { multisource.kept }

--- restore(path [, {...}]): what a method :save has written to the file, as it was; nil, message, code for a file that
--- is missing, damaged or nothing of the kind. What a file cannot hold (networks, functions) is given in the table.
--- Raises where the table is not what the file asks for.
function restore.restore(path, given)
  options.argument("restore", "path", path, "string")
  options.argument("restore", "options", given == nil and {} or given, "table")
  local contents, about, code = data.load(path)
  if not contents then
    return nil, about, code
  end
  local nouns = {}
  for k, kept in ipairs(all) do
    if kept.file.is(contents, about) then
      local made, message, why = kept.restore(path, given or {})
      if made then
        return made
      end
      return nil, message, why
    end
    nouns[k] = kept.file.noun
  end
  return nil, ("restore: '%s' is no %s"):format(path, table.concat(nouns, ", no ")), "format"
end

return restore
