--- Memory is on a context's account, whoever takes it: what the library imports takes none beside it, or stands here
--- with the object that may call it and the reason. A name that is in neither list is judged by who imports it first.
--- (What opens files is the gate `opening`'s.)
local tool = require "spec.gates.tool"

--- Takes no memory, or what its caller gives it.
local PLAIN = {}
for name in ([[
  memchr memcmp memcpy memmove memset strchr strcmp strcpy strcspn strlen strncmp strpbrk strrchr strspn strstr
  snprintf vsnprintf sscanf strtod strerror ctype_b_loc ctype_tolower_loc ctype_toupper_loc errno_location
  acos asin atan atan2 acosh asinh atanh cos cosh sin sincos sinh tan tanh exp expm1 exp2 log log10 log1p log2 pow
  sqrt cbrt hypot erf erfc tgamma lgamma lgamma_r ceil floor round trunc rint nearbyint fabs fma fmax fmin fmod frexp
  ldexp ilogb scalbn nextafter copysign isnan isinf finite
  clock_gettime getenv getpid sysconf isatty ioctl poll tcgetattr tcsetattr sigfillset pthread_sigmask madvise
  pthread_cond_broadcast pthread_cond_destroy pthread_cond_init pthread_cond_signal pthread_cond_wait pthread_join
  pthread_mutex_destroy pthread_mutex_init pthread_mutex_lock pthread_mutex_unlock
  close read write pread fsync stat fstat open openat fdopen flock fstatat ftruncate unlinkat renameat faccessat fchmod
  mkdirat syncfs syscall closedir readdir
  clearerr ferror fileno fclose fgets getc getc_unlocked ungetc uflow fread fwrite free
  crc32 deflate deflateEnd inflate inflateEnd inflateReset malloc_trim
  openblas_get_config openblas_get_corename openblas_get_num_threads openblas_set_num_threads
  cpu_model cpu_indicator_init stack_chk_fail _GLOBAL_OFFSET_TABLE_ tls_get_addr gmon_start cxa_finalize
]]):gmatch "%S+" do
  PLAIN[name] = true
  PLAIN[name .. "f"] = true
end

--- Families of names, as patterns, of which the same holds.
local FAMILIES = {
  "^lua_", "^luaL_", -- Lua takes its memory from the state's allocator (runtime.c), but for what is listed below
  "^luaopen_", "^_ZGV", -- vectors of the C library's mathematics
  "^cblas_", -- OpenBLAS packs into buffers of its own that are mapped once for each thread and kept: a fixed number
  "^LAPACKE_.*_work$", -- work space is given; the others of LAPACKE take it from malloc
}

--- object: the only one that may import the name. Neither these nor their families are right elsewhere.
local ALLOWED = {
  malloc = {["base/memory.o"] = "the allocator of a context whose host gives none; each call is on its account"},
  realloc = {["base/memory.o"] = "as malloc"},
  posix_memalign = {["base/memory.o"] = "as malloc"},
  pthread_create = {["base/threads.o"] = "a stack each, mapped, for at most PNI_MAX_THREADS"},
  realpath = {["file/sink.o"] = "into an array of the caller"},
  deflateInit2_ = {["file/sink.o"] = "zalloc is the context's", ["file/npz_write.o"] = "zalloc is the context's"},
  inflateInit2_ = {["file/file.o"] = "zalloc is the context's", ["file/png.o"] = "zalloc is the context's",
    ["lua/embedded.o"] = "zalloc is the context's"},
  fdopendir = {["file/zarr_store.o"] = "a DIR and its buffer, 32 KB, for each of at most DEEPEST_REMOVED folders"},
  fdopen = {["file/root.o"] = "a FILE and its buffer, 5 KB, for each of at most PNI_OPEN_FILES files"},
  fopen = {["lua/missing.o"] = "a FILE and its buffer, 5 KB, while a line of a script is read, never in a sandbox"},
  lua_newstate = {["lua/runtime/runtime.o"] = "with the allocator that charges the account"},
  luaL_newstate = {},
  luaL_loadfilex = {["lua/runtime/runtime_array.o"] = "the host's own script, while it is read",
    ["lua/runtime/runtime_sandbox.o"] = "for trusted scripts"},
  luaL_openlibs = {["lua/core.o"] = "for the command, whose state is no runtime's"},
}

return function(_, build)
  local found, own, symbols = {}, {}, tool.symbols(build)
  for _, symbol in ipairs(symbols) do
    if symbol.section ~= "*UND*" then own[symbol.name] = true end
  end
  local function is_plain(name)
    for _, pattern in ipairs(FAMILIES) do
      if name:find(pattern) then return true end
    end
    return PLAIN[name]
  end
  for _, symbol in ipairs(symbols) do
    local name = symbol.name:gsub("^__isoc%d+_", ""):gsub("^__(.+)_chk$", "%1"):gsub("^__(.+)_2$", "%1"):gsub("^__", "")
      :gsub("_finite$", ""):gsub("64$", "")
    local foreign = symbol.section == "*UND*" and not own[symbol.name] and name ~= ""
    local allowed = ALLOWED[name]
    if foreign and allowed and not allowed[symbol.object] then
      found[#found + 1] = ("%s imports %s, which takes memory beside the account"):format(symbol.object, name)
    elseif foreign and not allowed and not is_plain(name) then
      local question = "%s imports %s: does it take memory? Say so in spec/gates/allocates.lua"
      found[#found + 1] = question:format(symbol.object, name)
    end
  end
  table.sort(found)
  return found
end
