--- `make packages`: what people get Penumbra by and hosts of other kinds, each really made and used. What is absent
--- here is skipped, and said so.
---   lua spec/packages/run.lua [PART]...     dist deb cmake meson find rock cpp python go arm64 wasm
--- Ends with `N passed, N failed, N skipped`. BUILD has the library, `make all amalgamation`.
local build = os.getenv "BUILD" or "build"
local root = io.popen "pwd":read "l"
if build:sub(1, 1) ~= "/" then build = root .. "/" .. build end
local MAKE = "env -u MAKEFLAGS -u MAKELEVEL make --no-print-directory"

local function sh(line, ...)
  local pipe = assert(io.popen("exec 2>&1; set -e; " .. line:format(...)))
  local out = pipe:read "a"
  local ok = pipe:close()
  return ok, (out:gsub("%s+$", ""))
end

local function must(line, ...)
  local ok, out = sh(line, ...)
  if not ok then error(line:format(...) .. "\n" .. out, 0) end
  return out
end

local function equal(want, got)
  if want ~= got then error(("expected %q, got %q"):format(want, got), 0) end
end

local function has(text, part)
  if not text:find(part, 1, true) then error(("no %q in\n%s"):format(part, text), 0) end
end

local function write(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end

local tmp = must "mktemp -d"

-- Installed once, for the tests that want it.
local prefix
local function installed()
  if not prefix then
    prefix = tmp .. "/prefix"
    must("%s install BUILD='%s' PREFIX='%s'", MAKE, build, prefix)
  end
  return prefix
end

local HOST = [[
#include <penumbra.h>
#include <stdio.h>
int main(void) {
  pn_runtime_config config = {.limits = {.memory = 64 << 20, .seconds = 20}};
  double data[2] = {0, 1}, result[2];
  pn_array in = {.dtype = PN_FLOAT64, .ndim = 1, .shape = {2}, .data = data};
  pn_array out = {.dtype = PN_FLOAT64, .data = result, .capacity = 2};
  pn_runtime *rt;
  if (pn_runtime_new(&config, &rt) != PN_OK) return 1;
  pn_runtime_run_string(rt, "function predict(x) return x:exp() end", (size_t)-1, "model");
  if (pn_runtime_call(rt, "predict", 1, &in, 1, &out) != PN_OK) return 2;
  printf("%.5f %.5f\n", result[0], result[1]);
  pn_runtime_close(rt);
  return 0;
}
]]
local ANSWER = "1.00000 2.71828"
local SCRIPT = [[local pn = require "penumbra" print(pn.version, pn.exp(pn.tensor{0}):item())]]

local tests = {}
local function test(name, needs, run) tests[#tests + 1] = { name = name, needs = needs, run = run } end

test("dist", {}, function()
  must("%s dist BUILD='%s/a'", MAKE, tmp)
  must("mkdir %s/unpacked && tar -xzf %s/a/penumbra-*.tar.gz -C %s/unpacked --strip-components=1", tmp, tmp, tmp)
  must("cd %s/unpacked && %s dist BUILD='%s/b'", tmp, MAKE, tmp) -- no git there
  must("cmp %s/a/penumbra-*.tar.gz %s/b/penumbra-*.tar.gz", tmp, tmp)
end)

test("rock", { "luarocks" }, function()
  must("mkdir %s/source && tar -xzf %s/a/penumbra-*.tar.gz -C %s/source --strip-components=1", tmp, tmp, tmp)
  must("cd %s/source && luarocks --lua-version 5.4 --tree %s/rocks make rockspec/penumbra-scm-1.rockspec BUILD='%s'",
    tmp, tmp, build)
  has(must([[cd %s && env -u LUA_INIT LUA_PATH='rocks/share/lua/5.4/?.lua;rocks/share/lua/5.4/?/init.lua' \
    LUA_CPATH='rocks/lib/lua/5.4/?.so' lua5.4 -e '%s']], tmp, SCRIPT), "1.0")
  must("luarocks --lua-version 5.4 --tree %s/rocks remove penumbra", tmp)
end)

-- In a bare Debian: installed, used, taken away again; nothing is left.
local function in_bare_debian(debs)
  local bare = tmp .. "/bare"
  local mirror = must [[apt-get indextargets --format '$(REPO_URI) $(RELEASE)' | sed -n 's/ .*//p' | head -1]]
  must("debootstrap --variant=minbase bookworm %s %s >/dev/null", bare, mirror)
  must("cp %s/*.deb %s/opt/ && rm -f %s/opt/*dbgsym*", debs, bare, bare)
  local function inside(line, ...) return must("chroot %s sh -ec '%s'", bare, line:format(...)) end
  local apt = "DEBIAN_FRONTEND=noninteractive apt-get -y -qq "
  inside "apt-get update -qq"
  inside("%s install --no-install-recommends /opt/*.deb gcc libc6-dev pkg-config >/dev/null", apt)
  write(bare .. "/opt/host.c", HOST)
  write(bare .. "/opt/script.lua", SCRIPT)
  has(inside "penumbra /opt/script.lua", "1.0")
  has(inside "lua5.4 /opt/script.lua", "1.0")
  equal(ANSWER, inside "cc /opt/host.c $(pkg-config --cflags --libs penumbra) -o /opt/shared; /opt/shared")
  equal(ANSWER, inside "cc /opt/host.c $(pkg-config --cflags --libs penumbra-static) -o /opt/static; /opt/static")
  has(inside "penumbra kernel --help", "usage: penumbra kernel install")
  inside("%s purge penumbra penumbra-kernel libpenumbra0 libpenumbra-dev lua-penumbra >/dev/null", apt)
  equal("", inside "find /usr /etc /lib -name \"*penumbra*\"")
end

-- Built twice, in folders of other names: the same bytes.
test("deb", { "dh", "lintian", "dpkg-buildpackage" }, function()
  must("%s deb BUILD='%s/deb-a' >/dev/null", MAKE, tmp)
  local said = must("cd %s/deb-a/deb && lintian --allow-root --fail-on error *.changes || true", tmp)
  if said:find("E:", 1, true) then error(said, 0) end
  must("%s deb BUILD='%s/deb-of-another-name' >/dev/null", MAKE, tmp)
  for path in must("cd %s/deb-a/deb && ls *.deb", tmp):gmatch "%S+" do
    must("cmp %s/deb-a/deb/%s %s/deb-of-another-name/deb/%s", tmp, path, tmp, path)
  end
  if not sh "command -v debootstrap && test $(id -u) = 0" then
    print "       (not installed in a bare Debian: that takes debootstrap and root)"
    return
  end
  in_bare_debian(tmp .. "/deb-a/deb")
end)

-- The one file of `make amalgamation` in a project of one's own.
for name, run in pairs { cmake = "cmake -S . -B out -DCMAKE_BUILD_TYPE=Release && cmake --build out",
                         meson = "meson setup out --buildtype=release && meson compile -C out" } do
  test(name, { name, name == "meson" and "ninja" or "make", "pkg-config" }, function()
    local folder = tmp .. "/" .. name
    must("cp -R examples/embed/amalgamation %s && cp %s/amalgamation/penumbra.[ch] %s", folder, build, folder)
    must("cd %s && %s", folder, run)
    equal(ANSWER, must("%s/out/host", folder))
  end)
end

test("find", { "cmake", "pkg-config" }, function()
  local folder = tmp .. "/find"
  must("mkdir %s", folder)
  write(folder .. "/host.c", HOST)
  write(folder .. "/CMakeLists.txt", [[
cmake_minimum_required(VERSION 3.16)
project(host C)
find_package(penumbra 0.1 REQUIRED)
add_executable(shared host.c)
target_link_libraries(shared penumbra::penumbra)
add_executable(static host.c)
target_link_libraries(static penumbra::static)
]])
  must("cd %s && cmake -S . -B out -DCMAKE_PREFIX_PATH='%s' && cmake --build out", folder, installed())
  equal(ANSWER, must("%s/out/shared", folder))
  equal(ANSWER, must("%s/out/static", folder))
  write(folder .. "/CMakeLists.txt", [[
cmake_minimum_required(VERSION 3.16)
project(host C)
find_package(penumbra 1.0 REQUIRED)
]])
  local found = sh("cd %s && cmake -S . -B new -DCMAKE_PREFIX_PATH='%s'", folder, prefix)
  if found then error("version 1.0 was found", 0) end
end)

-- Hosts of other languages: each loads a model, sets limits, predicts, catches an error with its line, cancels.
local function host(out) has(out, "all as expected") end

test("cpp", { os.getenv "CXX" or "c++" }, function()
  local pkg = ("PKG_CONFIG_PATH=%s/lib/pkgconfig pkg-config"):format(installed())
  must("%s -std=c++17 -Wall -Wextra -Werror -pedantic examples/embed/predict.cpp $(%s --cflags --libs penumbra) "
    .. "-lpthread -o %s/cpp", os.getenv "CXX" or "c++", pkg, tmp)
  host(must("LD_LIBRARY_PATH=%s/lib %s/cpp", prefix, tmp))
end)

test("python", { "python3" }, function()
  if not sh "python3 -c 'import numpy'" then return "no numpy" end
  host(must("PENUMBRA_LIBRARY=%s/lib/libpenumbra.so python3 -W error examples/embed/predict.py", installed()))
end)

test("go", { "go", "pkg-config" }, function()
  must("mkdir -p %s/go && cp examples/embed/predict.go %s/go/", tmp, tmp)
  must("cd %s/go && PKG_CONFIG_PATH=%s/lib/pkgconfig GO111MODULE=off GOCACHE=%s/gocache go build -o host predict.go",
    tmp, installed(), tmp)
  host(must("LD_LIBRARY_PATH=%s/lib %s/go/host", prefix, tmp))
end)

-- Another processor: Debian's cross compiler, the libraries unpacked from its packages, the tests of C by qemu. Left
-- out are those that start themselves as a program or judge processor time.
local ARM = "openblas0-pthread openblas-pthread-dev lapacke lapacke-dev tmglib3 lapack3 blas3 lua5.4-0 lua5.4-dev "
  .. "gfortran5 gcc-s1 readline8 tinfo6 c6 gomp1"
local LEFT_OUT = { processor = 1, child = 1, save_kill = 1, cancel = 1, lifecycle = 1, runtime_limit = 1,
  draws_limit = 1 }

test("arm64", { "aarch64-linux-gnu-gcc", "qemu-aarch64-static", "apt-get", "dpkg" }, function()
  local sys, lib = tmp .. "/arm/sys", tmp .. "/arm/sys/usr/lib/aarch64-linux-gnu"
  if not sh "apt-cache show libopenblas0-pthread:arm64" then
    return "no lists of arm64 packages (dpkg --add-architecture arm64)"
  end
  must("mkdir -p %s/arm/debs %s && cd %s/arm/debs && apt-get download %s zlib1g:arm64 zlib1g-dev:arm64", tmp, sys, tmp,
    (ARM:gsub("%S+", "lib%0:arm64")))
  must("cd %s/arm/debs && for d in *.deb; do dpkg -x $d %s; done", tmp, sys)
  must("cp %s/openblas-pthread/pkgconfig/lapack-openblas.pc %s/pkgconfig/lapack.pc", lib, lib)
  must("cp %s/openblas-pthread/pkgconfig/blas-openblas.pc %s/pkgconfig/blas.pc", lib, lib)
  must("ln -sfn %s/lib/aarch64-linux-gnu/libz.so.1 %s/libz.so", sys, lib)
  local folders = {}
  for _, path in ipairs { lib, lib .. "/openblas-pthread", lib .. "/blas", lib .. "/lapack",
                          sys .. "/lib/aarch64-linux-gnu" } do folders[#folders + 1] = path end
  local names = {}
  for path in must "ls spec/c/*_test.c":gmatch "[^\n]+" do
    local name = path:match "([^/]+)_test%.c$"
    names[#names + 1] = not LEFT_OUT[name] and name or nil
  end
  local programs = {}
  for k, name in ipairs(names) do programs[k] = ("'%s/arm/build/spec/c/%s_test'"):format(tmp, name) end
  must("PKG_CONFIG_LIBDIR=%s/pkgconfig:%s/openblas-pthread/pkgconfig PKG_CONFIG_SYSROOT_DIR=%s %s -j2 "
    .. "BUILD='%s/arm/build' CC=aarch64-linux-gnu-gcc CFLAGS='-O2 -Werror' LDFLAGS='-L%s -Wl,-rpath-link,%s' %s", lib,
    lib, sys, MAKE, tmp, table.concat(folders, " -L"), table.concat(folders, ":"), table.concat(programs, " "))
  local passed = 0
  for _, name in ipairs(names) do
    local out = must("OPENBLAS_NUM_THREADS=1 QEMU_LD_PREFIX=%s QEMU_SET_ENV='LD_LIBRARY_PATH=%s' qemu-aarch64-static "
      .. "%s/arm/build/spec/c/%s_test", sys, table.concat(folders, ":"), tmp, name)
    local count = out:match "(%d+) passed, 0 failed%s*$"
    if not count then error(name .. "_test: " .. out:sub(-400), 0) end
    passed = passed + count
  end
  print(("       %d checks of %d programs"):format(passed, #names))
end)

-- The page in a headless Chromium without a network, and the tests of C by node. Left out beside the above are those of
-- threads, of processes and files as an operating system has them (runtime_stock, lua_bugs, file), of wall clocks
-- (runtime), of what stands in front of malloc, and of the bridge, which a host loads.
local NOT_THERE = { context = 1, graph = 1, file = 1, file_sandbox = 1, file_hostile = 1, account = 1,
  json = 1, lua_bugs = 1, runtime = 1, runtime_stock = 1, stock_close = 1, bridge = 1, bridge_refusal = 1 }

test("wasm", { "emcc", "f2c", "dpkg-source", "node", "chromium" }, function()
  local page = build .. "/wasm/penumbra.html"
  must("%s wasm BUILD='%s'", MAKE, build)
  local out = must("node examples/browser/drive.js '%s' chromium", page)
  print("       " .. out:gsub("\n", "\n       "))
  local names, programs, passed = {}, {}, 0
  for path in must "ls spec/c/*_test.c":gmatch "[^\n]+" do
    local name = path:match "([^/]+)_test%.c$"
    if not LEFT_OUT[name] and not NOT_THERE[name] then
      names[#names + 1] = name
      programs[#programs + 1] = ("'%s/wasm/spec/c/%s_test'"):format(build, name)
    end
  end
  must("%s -f examples/browser/wasm.mk BUILD='%s/wasm' %s", MAKE, build, table.concat(programs, " "))
  for k, name in ipairs(names) do
    local said = must("node --no-experimental-fetch --stack-size=4000 %s", programs[k])
    local count = said:match "(%d+) passed, 0 failed%s*$"
    if not count then error(name .. "_test: " .. said:sub(-400), 0) end
    passed = passed + count
  end
  print(("       %d checks of %d programs"):format(passed, #names))
end)

-- ---- all of them ----

local passed, failed, skipped = 0, 0, 0
table.sort(tests, function(a, b) return (a.name == "dist" and "" or a.name) < (b.name == "dist" and "" or b.name) end)
for _, t in ipairs(tests) do
  local asked = #arg == 0
  for _, part in ipairs(arg) do asked = asked or t.name == part or part == "rock" and t.name == "dist" end
  local lacks
  for _, tool in ipairs(t.needs) do
    if not lacks and not sh("command -v " .. tool) then lacks = "no " .. tool end
  end
  if asked then
    local began = os.time()
    local ok, message = true, lacks
    if not lacks then ok, message = pcall(t.run) end
    if not ok then
      failed = failed + 1
      print(("FAIL %s: %s"):format(t.name, message))
    elseif message then
      skipped = skipped + 1
      print(("skipped %s: %s"):format(t.name, message))
    else
      passed = passed + 1
      print(("ok   %s (%d s)"):format(t.name, os.time() - began))
    end
  end
end
os.execute("rm -rf '" .. tmp .. "'")
print(("%d passed, %d failed, %d skipped"):format(passed, failed, skipped))
os.exit(failed == 0)
