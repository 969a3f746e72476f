--- MUTANT of spec/mutants/faults.lua: what faults of value do to tensors. The file IN_FORCE is there once one has
--- changed something.
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

local mutant = {acts = {}}
MUTANT = mutant -- luacheck: ignore

--- acts[value](x): would a fault of this value change x?
function mutant.acts.slope(x) return is_tensor(x) and x:requires_grad() end
function mutant.acts.equal(x) return is_tensor(x) and x:numel() > 1 end

function mutant.half(x, ...)
  if not mutant.acts.slope(x) then return x, ... end
  tell()
  return x * 0.5 + x:detach() * 0.5, ...
end

function mutant.detached(x, ...)
  if not mutant.acts.slope(x) then return x, ... end
  tell()
  return x:detach(), ...
end

function mutant.equal(x, ...)
  if not mutant.acts.equal(x) then return x, ... end
  tell()
  return x * 0 + x:mean(), ...
end
