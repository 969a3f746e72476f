--- `make packages`: what people get Penumbra by and hosts of other kinds, each really made and used. What is absent
--- here is skipped, and said so.
---   lua spec/packages/run.lua [PART]...     bsd dist deb cmake meson find rock cpp python go arm64 wasm
--- Ends with `N passed, N failed, N skipped`. BUILD has the library, `make all amalgamation`. Sizes and seconds are
--- printed and kept in BUILD/packages.txt, which `make bench` shows. DEBS='FOLDER OTHER' looks at packages that are
--- there, built twice, ARM='NAME NAME' at these tests of C, PYTHON names the interpreter that has NumPy.
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

-- ---- what is measured, one line each: target, what, value, unit ----

local figures, current = {}, nil

local function figure(what, value, unit)
  figures[#figures + 1] = table.concat({ current, what, ("%.6g"):format(value), unit }, "\t")
  print(("       %s: %.4g %s"):format(what, value, unit))
end

local function size(what, path) figure(what, tonumber(must("stat -Lc %%s %s", path)) / 2 ^ 20, "MB") end

-- Those of targets that did not run stay.
local function keep_figures(ran)
  local path = build .. "/packages.txt"
  local old, list = io.open(path), {}
  for line in old and old:lines() or function() end do
    if not ran[line:match "^[^\t]+"] then list[#list + 1] = line end
  end
  if old then old:close() end
  for _, line in ipairs(figures) do list[#list + 1] = ran[line:match "^[^\t]+"] and line or nil end
  table.sort(list)
  write(path, table.concat(list, "\n") .. "\n")
end

-- ---- the targets ----

-- A make that is not GNU's says whose is needed, whatever it is asked for.
test("bsd", { "bmake" }, function()
  for _, target in ipairs { "", "test", "-j2 install" } do
    local ok, said = sh("bmake %s", target)
    if ok then error("bmake took the Makefile", 0) end
    has(said, "call it as gmake")
  end
end)

local function sources()
  if not sh("test -e %s/a/penumbra-*.tar.gz", tmp) then must("%s dist BUILD='%s/a'", MAKE, tmp) end
  return must("echo %s/a/penumbra-*.tar.gz", tmp)
end

-- Written again from what was unpacked, by somebody else at another time: the same bytes. Every file is the one of this
-- tree.
test("dist", {}, function()
  size("tarball", sources())
  must("umask 077 && mkdir %s/unpacked && tar --no-same-permissions -xzmf %s -C %s/unpacked --strip-components=1", tmp,
    sources(), tmp)
  must("cd %s/unpacked && %s dist BUILD='%s/b'", tmp, MAKE, tmp) -- no git there
  must("cmp %s %s/b/penumbra-*.tar.gz", sources(), tmp)
  local count = 0
  for path in must("git ls-files 2>/dev/null || { cd %s/unpacked && find . -type f; }", tmp):gmatch "[^\n]+" do
    count = count + 1
    if path:find "[ ']" or not sh("cmp -s %s %s/unpacked/%s", path, tmp, path) then error(path .. " differs", 0) end
  end
  figure("files", count, "files")
end)

-- Built from the tarball alone, into a tree of rocks: the module and the command, and nothing once it is removed.
test("rock", { "luarocks" }, function()
  must("mkdir %s/source && tar -xzf %s -C %s/source --strip-components=1", tmp, sources(), tmp)
  must("cd %s/source && luarocks --lua-version 5.4 --tree %s/rocks make rockspec/penumbra-scm-1.rockspec", tmp, tmp)
  equal("0.1.0\t1.0", must([[cd %s/rocks && env -u LUA_INIT LUA_PATH='share/lua/5.4/?.lua;share/lua/5.4/?/init.lua' \
    LUA_CPATH='lib/lua/5.4/?.so' lua5.4 -e '%s']], tmp, SCRIPT))
  equal("0.1.0\t1.0", must("cd %s && env -u LUA_PATH -u LUA_CPATH rocks/bin/penumbra -e '%s'", tmp, SCRIPT))
  size("module", tmp .. "/rocks/lib/lua/5.4/penumbra/core.so")
  must("luarocks --lua-version 5.4 --tree %s/rocks remove penumbra", tmp)
  equal("", must("find %s/rocks -name 'penumbra*' -not -type d", tmp))
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

-- What each package must have, by patterns of paths.
local CONTENTS = {
  penumbra = { "usr/bin/penumbra", "man1/penumbra.1.gz", "penumbra/libpenumbra_bridge.so", "penumbra.d.lua",
    "completions/penumbra", "doc/penumbra/README.md.gz", "examples/01_bayesian_regression.lua" },
  ["penumbra-kernel"] = { "usr/bin/penumbra-kernel" },
  libpenumbra0 = { "libpenumbra.so.0", "libpenumbra.so.0.1.0" },
  ["libpenumbra-dev"] = { "include/penumbra.h", "include/penumbra.hpp", "include/penumbra_bridge.h", "libpenumbra.a",
    "libpenumbra.so", "pkgconfig/penumbra.pc", "pkgconfig/penumbra-static.pc", "penumbraConfig.cmake" },
  ["lua-penumbra"] = { "lua/5.4/penumbra/core.so", "share/lua/5.4/penumbra/init.lua" },
}

local function check_contents(debs)
  for name, paths in pairs(CONTENTS) do
    local file = must("ls %s/%s_*.deb", debs, name)
    size(name, file)
    local list = must("dpkg-deb -c %s | sed 's/ -> .*//; s/$/ /'", file) .. " "
    for _, path in ipairs(paths) do
      if not list:find("/" .. path .. " ", 1, true) then error(("%s has no %s"):format(name, path), 0) end
    end
  end
  must("dpkg-deb -x %s/libpenumbra0_*.deb %s/library", debs, tmp)
  equal("libpenumbra.so.0", must("objdump -p %s/library/usr/lib/*/libpenumbra.so.0 | sed -n 's/ *SONAME *//p'", tmp))
end

-- Built twice, in folders of other names: the same bytes.
test("deb", { "dh", "lintian", "dpkg-buildpackage" }, function()
  local first, second = (os.getenv "DEBS" or ""):match "(%S+)%s+(%S+)"
  if not first then
    first, second = tmp .. "/deb-a/deb", tmp .. "/deb-of-another-name/deb"
    local began = os.time()
    must("%s deb BUILD='%s/deb-a' >/dev/null", MAKE, tmp)
    figure("one build", os.time() - began, "s")
    must("%s deb BUILD='%s/deb-of-another-name' >/dev/null", MAKE, tmp)
  end
  check_contents(first)
  for path in must("cd %s && ls *.deb", first):gmatch "%S+" do must("cmp %s/%s %s/%s", first, path, second, path) end
  if first == second then print "       (skipped: the same bytes twice, which takes two builds)" end
  local said = must("cd %s && lintian --allow-root --fail-on error *.changes || true", first)
  if said:find("E:", 1, true) then error(said, 0) end
  if not sh "command -v debootstrap && test $(id -u) = 0" then
    print "       (skipped: installing in a bare Debian takes debootstrap and root)"
    return
  end
  in_bare_debian(first)
end)

-- The one file of `make amalgamation` in a project of one's own, as it comes (-O2: three minutes of gcc) under
-- `make soak`, else without optimisation, half a minute.
local WHOLE = os.getenv "PN_SOAK" ~= nil
for name, run in pairs {
  cmake = WHOLE and "cmake -S . -B out && cmake --build out"
    or "cmake -S . -B out -DCMAKE_BUILD_TYPE=Debug && cmake --build out",
  meson = WHOLE and "meson setup out && meson compile -C out"
    or "meson setup out --buildtype=plain && meson compile -C out",
} do
  test(name, { name, name == "meson" and "ninja" or "make", "pkg-config" }, function()
    local folder = tmp .. "/" .. name
    must("cp -R examples/embed/amalgamation %s && cp %s/amalgamation/penumbra.[ch] %s", folder, build, folder)
    size("penumbra.c", folder .. "/penumbra.c")
    must("cd %s && %s", folder, run)
    equal(ANSWER, must("%s/out/host", folder))
    if must("nm %s/out/host", folder):find(" U pn_", 1, true) then error("the host has not the library within", 0) end
    size("host", folder .. "/out/host")
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

test("python", { os.getenv "PYTHON" or "python3" }, function()
  local python
  for _, name in ipairs { os.getenv "PYTHON" or "python3", "/usr/bin/python3" } do
    if not python and sh("%s -c 'import numpy'", name) then python = name end
  end
  if not python then return "no NumPy" end
  host(must("PENUMBRA_LIBRARY=%s/lib/libpenumbra.so %s -W error examples/embed/predict.py", installed(), python))
end)

test("go", { "go", "pkg-config" }, function()
  must("mkdir -p %s/go && cp examples/embed/predict.go %s/go/", tmp, tmp)
  must("cd %s/go && PKG_CONFIG_PATH=%s/lib/pkgconfig GO111MODULE=off GOCACHE=%s/gocache go build -o host predict.go",
    tmp, installed(), tmp)
  host(must("LD_LIBRARY_PATH=%s/lib %s/go/host", prefix, tmp))
end)

-- Another processor (arm64.lua).
test("arm64", { "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-objdump", "qemu-aarch64-static", "apt-get", "dpkg" },
  function()
    local programs
    for name in (os.getenv "ARM" or ""):gmatch "%S+" do
      programs = programs or {}
      programs[name] = true
    end
    return dofile "spec/packages/arm64.lua" { must = must, sh = sh, build = build, make = MAKE, figure = figure,
      programs = programs }
  end)

-- The page in a headless Chromium without a network, and the tests of C by node, but for those that need what a page
-- does not have.
local NOT_THERE = { processor = "processes", child = "processes", save_kill = "processes", lua_bugs = "processes",
  cancel = "threads", context = "threads", graph = "threads", runtime = "clocks", runtime_limit = "clocks",
  lifecycle = "clocks", draws_limit = "clocks", runtime_stock = "limits of processes", file = "limits of processes",
  file_sandbox = "links and pipes", file_hostile = "links and pipes", zarr_store = "folders of an operating system",
  account = "a malloc of its own", json = "a malloc of its own", stock_close = "a malloc of its own",
  bridge = "a host that loads it", bridge_refusal = "a host that loads it" }

test("wasm", { "emcc", "f2c", "dpkg-source", "node", "chromium" }, function()
  local page = build .. "/wasm/penumbra.html"
  must("%s wasm BUILD='%s'", MAKE, build)
  local out = must("node examples/browser/drive.js '%s' chromium", page)
  print("       " .. out:gsub("\n", "\n       "))
  local names, programs, passed = {}, {}, 0
  for path in must "ls spec/c/*_test.c":gmatch "[^\n]+" do
    local name = path:match "([^/]+)_test%.c$"
    if not NOT_THERE[name] then
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
  for name, lacks in pairs(NOT_THERE) do print(("       (without %s_test: %s)"):format(name, lacks)) end
end)

-- ---- all of them ----

local passed, failed, skipped, ran = 0, 0, 0, {}
table.sort(tests, function(a, b) return a.name < b.name end)

local function try(t)
  local began, ok, message = os.time(), true, nil
  for _, tool in ipairs(t.needs) do
    if not message and not sh("command -v " .. tool) then message = "no " .. tool end
  end
  current = t.name
  if not message then ok, message = pcall(t.run) end
  if not ok then
    failed = failed + 1
    print(("FAIL %s: %s"):format(t.name, message))
  elseif message then
    skipped = skipped + 1
    print(("skipped %s: %s"):format(t.name, message))
  else
    passed, ran[t.name] = passed + 1, true
    figure("time", os.time() - began, "s")
    print("ok   " .. t.name)
  end
  io.stdout:flush()
end

for _, t in ipairs(tests) do
  local asked = #arg == 0
  for _, part in ipairs(arg) do asked = asked or t.name == part end
  if asked then try(t) end
end
keep_figures(ran)
os.execute("rm -rf '" .. tmp .. "'")
print(("%d passed, %d failed, %d skipped"):format(passed, failed, skipped))
os.exit(failed == 0)
