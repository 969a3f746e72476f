--- MUTANT of spec/mutants/faults.lua: what faults of value do to tensors. The file IN_FORCE is there once one has
--- changed something. LUA_INIT="@spec/mutants/in_force.lua".
if _VERSION == "Lua 5.1" then return end -- the runner of specs, before it starts the interpreter that is asked for
local path = os.getenv "IN_FORCE"

local function tell()
  local file = path and io.open(path, "w")
  if file then file:close() end
  path = nil
end

local function is_tensor(x)
  local core = package.loaded["penumbra.core"]
  return core and core.is_tensor(x) and x:dtype():find "^float"
end

local mutant = {}
MUTANT = mutant -- luacheck: ignore

function mutant.half(x, ...)
  if is_tensor(x) and x:requires_grad() then
    tell()
    return x * 0.5 + x:detach() * 0.5, ...
  end
  return x, ...
end

function mutant.detached(x, ...)
  if is_tensor(x) and x:requires_grad() then
    tell()
    return x:detach(), ...
  end
  return x, ...
end

function mutant.equal(x, ...)
  if is_tensor(x) and x:numel() > 1 then
    tell()
    return x * 0 + x:mean(), ...
  end
  return x, ...
end
