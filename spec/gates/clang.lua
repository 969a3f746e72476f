--- Where clang is there, it takes all of src without a warning, as the compiler of the build does.
local tool = require "spec.gates.tool"

local FLAGS = "-std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -D_DEFAULT_SOURCE -fsyntax-only"

return function(root)
  if #tool.lines("command -v clang 2>&-") == 0 then return {}, "skipped: no clang" end
  local packages = tool.lines "pkg-config --cflags openblas lapacke zlib lua5.4 libedit 2>&-"
  -- MPI's headers are not held to this; without them what needs them is left out.
  local mpi = tool.lines "pkg-config --cflags-only-I ompi-c 2>&-"[1]
  local flags = FLAGS .. " " .. (packages[1] or "") .. " " .. (mpi or ""):gsub("%-I", "-isystem ")
  local found = {}
  local command = "cd %s && find src -name '*.c' %s | LC_ALL=C sort | xargs -n 50 -P 2 clang %s 2>&1"
  for _, line in ipairs(tool.lines(command, tool.quote(root), mpi and "" or "-not -path 'src/mpi/*'", flags)) do
    if line:find ": warning: " or line:find "error: " then found[#found + 1] = line end
  end
  return found
end
