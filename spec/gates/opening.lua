--- Files are opened, renamed and removed in one place (src/file/root.c), where what a host grants its scripts is
--- looked after; an object that asks the system itself stands here with what it asks for.
local tool = require "spec.gates.tool"

local CALLS = {}
for name in ([[open openat creat fopen freopen fdopen popen tmpfile mkstemp mkdtemp opendir fdopendir mmap unlink
  unlinkat remove rename renameat link symlink mkdir mkdirat rmdir syscall truncate ftruncate chmod fchmod stat lstat
  fstatat access faccessat realpath dlopen system execv execve execvp execvpe posix_spawn socket luaL_loadfilex
  luaopen_io luaopen_os luaopen_package luaL_openlibs gzopen]]):gmatch "%S+" do
  CALLS[name] = true
end

local ALLOWED = {
  ["file/root.o"] = "open openat fdopen fstatat ftruncate unlinkat renameat",
  ["file/sink.o"] = "openat fstatat faccessat renameat unlinkat fchmod realpath", -- in a folder of root.c
  -- in a folder of root.c; one that is new, or was one of its kind
  ["file/zarr_store.o"] = "openat fstatat renameat unlinkat mkdirat fdopendir syscall",
  ["lua/runtime/runtime_io.o"] = "luaopen_io", -- the stock library is taken apart
  ["lua/runtime/runtime_sandbox.o"] = "luaL_loadfilex luaopen_io luaopen_os luaopen_package", -- granted by flags
  ["lua/core.o"] = "luaL_openlibs", -- of the command
  ["lua/missing.o"] = "fopen stat", -- a line of the script that runs, where there is no sandbox
  ["lua/runtime/runtime_array.o"] = "luaL_loadfilex", -- the host's own script
}

return function(_, build)
  local found = {}
  for _, symbol in ipairs(tool.symbols(build)) do
    local object = symbol.object
    local name = symbol.name:gsub("^__(.+)_chk$", "%1"):gsub("^__(.+)_2$", "%1"):gsub("64$", "")
    local allowed = (" " .. (ALLOWED[object] or "") .. " "):find(" " .. name .. " ", 1, true)
    if symbol.section == "*UND*" and CALLS[name] and not allowed then
      found[#found + 1] = ("%s calls %s: files are opened by src/file/root.c"):format(object, name)
    end
  end
  table.sort(found)
  return found
end
