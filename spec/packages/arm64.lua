--- 64-bit ARM: Debian's cross compiler, the libraries unpacked from its packages, and every test of C by qemu, with the
--- bridge within. What is built stays in BUILD/arm64. An emulated processor is some fifty times slower: the longest
--- sweeps take one of PN_SHORT cases (20 where the environment says nothing, 1: all), and which they are is said.
--- Returns function(t): t.must(line, ...) runs a shell line, t.sh too but may fail, t.build, t.make, t.figure(name,
--- value, unit), t.programs: only these. What it returns is why it was skipped.
local LIBRARIES = "openblas0-pthread openblas-pthread-dev lapacke lapacke-dev tmglib3 lapack3 blas3 lua5.4-0 "
  .. "lua5.4-dev gfortran5 gcc-s1 readline8 tinfo6 c6 gomp1"

-- Judged by what an emulator changes.
local LEFT_OUT = { draws_limit = "seconds of the processor", runtime_limit = "seconds of the processor",
  lifecycle = "the memory of the process, which is the emulator's too" }

-- Where kernels are vector code: instructions on two doubles or four floats.
local KERNELS = { "math/vector/level_portable", "math/random/rng_fill_portable",
  "tensor/product/small_product_portable" }
local VECTOR = [['v[0-9]+\.(2d|4s)']]

local function unpacked(t, sys, lib)
  if t.sh("test -e %s/libz.so", lib) then return end
  t.must("mkdir -p %s/../debs && cd %s/../debs && apt-get download %s zlib1g:arm64 zlib1g-dev:arm64", sys, sys,
    (LIBRARIES:gsub("%S+", "lib%0:arm64")))
  t.must("cd %s/../debs && for d in *.deb; do dpkg -x $d %s; done", sys, sys)
  t.must("cp %s/openblas-pthread/pkgconfig/lapack-openblas.pc %s/pkgconfig/lapack.pc", lib, lib)
  t.must("cp %s/openblas-pthread/pkgconfig/blas-openblas.pc %s/pkgconfig/blas.pc", lib, lib)
  t.must("ln -sfn %s/lib/aarch64-linux-gnu/libz.so.1 %s/libz.so", sys, lib)
end

local function names_of(t)
  local names, short = {}, {}
  for path in t.must "ls spec/c/*_test.c":gmatch "[^\n]+" do
    local name = path:match "([^/]+)_test%.c$"
    if not LEFT_OUT[name] and (not t.programs or t.programs[name]) then
      names[#names + 1] = name
      if t.sh("grep -qE 'soak_takes|soak_short|alloc_sweep.h' %s", path) then short[#short + 1] = name end
    end
  end
  return names, short
end

--- Runs one program; a program that starts itself finds a script under its own name, which calls qemu again.
local function run(t, name, environment)
  local program = ("%s/arm64/build/spec/c/%s_test"):format(t.build, name)
  t.must("printf '#!/bin/sh\\nexec qemu-aarch64-static -0 \"$0\" %s \"$@\"\\n' > %s.sh && chmod +x %s.sh", program,
    program, program)
  local _, out = t.sh("%s %s.sh", environment, program)
  return tonumber(out:match "(%d+) passed, 0 failed%s*$"), out
end

return function(t)
  local sys = t.build .. "/arm64/sys"
  local lib = sys .. "/usr/lib/aarch64-linux-gnu"
  if not t.sh("test -e %s/libz.so", lib) and not t.sh "apt-cache show libopenblas0-pthread:arm64" then
    return "no lists of arm64 packages (dpkg --add-architecture arm64 && apt-get update)"
  end
  t.must("mkdir -p %s", sys)
  unpacked(t, sys, lib)
  local folders = { lib, lib .. "/openblas-pthread", lib .. "/blas", lib .. "/lapack", sys .. "/lib/aarch64-linux-gnu" }
  local names, short = names_of(t)
  local made = { "libpenumbra_bridge.so" }
  for _, name in ipairs(names) do made[#made + 1] = ("spec/c/%s_test"):format(name) end
  t.must("PKG_CONFIG_LIBDIR=%s/pkgconfig:%s/openblas-pthread/pkgconfig PKG_CONFIG_SYSROOT_DIR=%s %s -j2 "
    .. "BUILD='%s/arm64/build' CC=aarch64-linux-gnu-gcc CFLAGS='-O2 -Werror -Wno-error=maybe-uninitialized' "
    .. "LDFLAGS='-L%s -Wl,-rpath-link,%s' %s", lib, lib, sys, t.make, t.build, table.concat(folders, " -L"),
    table.concat(folders, ":"), (table.concat(made, " "):gsub("%S+", "'" .. t.build .. "/arm64/build/%0'")))
  for _, kernel in ipairs(KERNELS) do
    local count = tonumber(t.must("aarch64-linux-gnu-objdump -d %s/arm64/build/obj/%s.o | grep -cE %s", t.build, kernel,
      VECTOR))
    if count < 100 then error(("%s has %d instructions of NEON"):format(kernel, count), 0) end
  end
  local share = os.getenv "PN_SHORT" or "20"
  print(("       (one of %s cases in the long sweeps of %s)"):format(share, table.concat(short, ", ")))
  for name, reason in pairs(LEFT_OUT) do print(("       (without %s_test: %s)"):format(name, reason)) end
  local environment = ("PN_SHORT=%s PN_SLOW=1 OPENBLAS_NUM_THREADS=1 QEMU_LD_PREFIX=%s "
    .. "QEMU_SET_ENV='LD_LIBRARY_PATH=%s'"):format(share, sys, table.concat(folders, ":"))
  local checks, wrong = 0, {}
  for _, name in ipairs(names) do
    local count, out = run(t, name, environment)
    checks = checks + (count or 0)
    if not count then wrong[#wrong + 1] = ("%s_test: %s"):format(name, out:sub(-600)) end
  end
  if #wrong > 0 then error(table.concat(wrong, "\n"), 0) end
  t.figure("programs", #names, "programs")
  t.figure("checks", checks, "checks")
  t.figure("library", t.must("stat -Lc %%s %s/arm64/build/libpenumbra.so.0", t.build) / 2 ^ 20, "MB")
end
