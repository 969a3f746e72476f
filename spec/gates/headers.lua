--- Every header compiles alone as C11, the public one also as C++. (Headers named *_real.h and *_loop.h are
--- the bodies of kernels: included once per element type by a file that defines it.)
local tool = require "spec.gates.tool"

return function(root)
  local found = {}
  local flags = tool.lines("pkg-config --cflags openblas lapacke zlib lua5.4 2>/dev/null")[1] or ""
  local mpi = tool.lines("pkg-config --cflags-only-I ompi-c 2>/dev/null")[1]
  local function try(path, compiler)
    -- through -include: a header that declares nothing is fine, an empty program is not
    if path:find "^src/mpi/" and not mpi then return end -- built where MPI is found
    local ok, out = tool.run("cd %s && echo 'typedef int alone;' | %s -Wall -Wextra -Wpedantic -Werror "
      .. "-D_DEFAULT_SOURCE %s -fsyntax-only -include ./%s -", tool.quote(root), compiler,
      flags .. " " .. (mpi or ""), path)
    if not ok then found[#found + 1] = path .. " does not compile alone: " .. (out:match "[^\n]*error[^\n]*" or out) end
  end
  for _, path in ipairs(tool.files(root, "src", "*.h")) do
    local body = path:find "_real%.h$" or path:find "_loop%.h$"
    if not body then try(path, (os.getenv "CC" or "cc") .. " -std=c11 -x c") end
  end
  try("src/penumbra.h", (os.getenv "CXX" or "c++") .. " -std=c++11 -x c++")
  return found
end
