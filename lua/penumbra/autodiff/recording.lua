--- Calls with the recording of graphs off or on, whatever the caller's setting, which is restored also when they raise.
-- help: none
local core = require "penumbra.core"

local recording = {}

local function call(no_grad, f, ...)
  local before = core.set_no_grad(no_grad)
  local result = table.pack(pcall(f, ...))
  core.set_no_grad(before)
  if not result[1] then
    error(result[2], 0)
  end
  return table.unpack(result, 2, result.n)
end

--- off(f, ...): f(...) without a graph.
function recording.off(f, ...)
  return call(true, f, ...)
end

--- on(f, ...): f(...) with its graph.
function recording.on(f, ...)
  return call(false, f, ...)
end

--- is_off(): is no graph recorded now?
function recording.is_off()
  local off = core.set_no_grad(true)
  core.set_no_grad(off)
  return off
end

return recording
