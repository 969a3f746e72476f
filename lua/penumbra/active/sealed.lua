--- Objects whose insides no script can change: what a script holds is empty and leads by its metatable to the methods
--- of what is behind it, so that numbers that have been checked stay so.
---
---     local seal = sealed.kind("pool", methods, view)
---     local public = seal.object(self)          -- methods answer to it; view(self, name) gives its fields
---     local self = seal.inner(public)           -- nil for what is none
-- help: nowhere
local core = require "penumbra.core"

local sealed = {}

--- kind(name, methods, view): a kind of sealed objects. `methods` may grow until the first object is made.
function sealed.kind(name, methods, view)
  local behind = setmetatable({}, { __mode = "k" })
  local public, meta = {}, { __name = name }
  local seal = {}

  --- inner(v): what is behind v, or nil.
  function seal.inner(v) return type(v) == "table" and behind[v] or nil end

  local function method_of(key)
    return function(v, ...)
      local self = seal.inner(v)
      if not self then
        core.error(("%s: it must be called with a colon on a %s, as %s:%s, got %s"):format(key, name, name, key,
          type(v)))
      end
      return methods[key](self, ...)
    end
  end

  function meta.__index(v, key)
    if methods[key] and not public[key] then public[key] = core.public(method_of(key)) end
    return public[key] or view(behind[v], key)
  end

  --- object(self [, tostring]): what a script is given for it, always the same.
  function seal.object(self)
    if not self.sealed then
      self.sealed = setmetatable({}, meta)
      behind[self.sealed] = self
    end
    return self.sealed
  end

  meta.__tostring = function(v) return tostring(behind[v]) end
  return seal
end

return sealed
