--- Strict globals: reading a global that was never assigned is an error that names near ones, and a
--- function may not create a global by accident. The command and the REPL install it; a library never
--- does. `rawget(_G, "name")` asks without the check.
local options = require "penumbra.options"

local strict = {}

-- Names that portable code asks for to find out which Lua it runs on.
local probed = {jit = true, unpack = true, setfenv = true, getfenv = true, loadstring = true,
  module = true, bit = true, bit32 = true}

local function tolerated(name)
  return type(name) ~= "string" or probed[name] or name:match("^_[%u_]+$")
end

--- What `name` may have been meant to be: a field of a library ("math.floor", "pn.tensor"), or the
--- nearest name among the globals of `env`. nil if nothing is near.
function strict.guess(env, name)
  local names, libraries = {}, {}
  for key, value in next, env do
    if type(key) == "string" then
      names[#names + 1] = key
      if type(value) == "table" and value ~= env then libraries[#libraries + 1] = key end
    end
  end
  local penumbra = package.loaded.penumbra
  if type(penumbra) == "table" and rawget(penumbra, name) ~= nil then return "pn." .. name end
  table.sort(libraries)
  for _, library in ipairs(libraries) do
    if rawget(env[library], name) ~= nil and library ~= "package" then return library .. "." .. name end
  end
  return options.nearest(name, names)
end

local function inherited(meta)
  local old = meta and rawget(meta, "__index")
  if type(old) == "function" then return old end
  if old == nil then return function() return nil end end
  return function(_, key) return old[key] end
end

--- Makes the environment `env` (default: the globals) strict. `opt.assign = "anywhere"` lets functions
--- create globals too; by default only the main part of a file may. Returns env. Doing it twice is harmless.
function strict.install(env, opt)
  env = env or _G
  local o = options.check("strict.install", opt, {assign = options.choice("main", "anywhere")})
  local old = getmetatable(env)
  if old and rawget(old, "penumbra_strict") then strict.remove(env) old = getmetatable(env) end
  local fallback, meta = inherited(old), {}
  if old then for key, value in pairs(old) do meta[key] = value end end
  meta.penumbra_strict = {old = old}
  function meta.__index(t, name)
    local value = fallback(t, name)
    if value ~= nil or tolerated(name) then return value end
    local near = strict.guess(env, name)
    error(("undefined global '%s'%s"):format(name, near and (", did you mean '%s'?"):format(near) or ""), 2)
  end
  if o.assign == "main" then
    local assign = old and rawget(old, "__newindex")
    function meta.__newindex(t, name, value)
      local caller = debug.getinfo(2, "S")
      if caller and caller.what == "Lua" and not tolerated(name) then
        error(("assignment to undeclared global '%s' in a function; make it local or assign it once in the main part")
          :format(name), 2)
      end
      if type(assign) == "function" then return assign(t, name, value) end
      rawset(type(assign) == "table" and assign or t, name, value)
    end
  end
  return setmetatable(env, meta)
end

--- Undoes `strict.install`.
function strict.remove(env)
  env = env or _G
  local meta = getmetatable(env)
  local mark = meta and rawget(meta, "penumbra_strict")
  if mark then setmetatable(env, mark.old) end
  return env
end

return strict
