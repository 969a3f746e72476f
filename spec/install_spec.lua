--- Installation, really done: into a temporary prefix, as a rock, and from there used by stock Lua, by C
--- and by C++, against the shared and the static library.
local root = io.popen "pwd":read "l"
local build = (os.getenv "BUILD" or "build")
local lua = os.getenv "LUA" or "lua5.4"

--- Runs a shell command; returns its exit code and output.
local function sh(line, ...)
  local pipe = assert(io.popen("exec 2>&1; " .. line:format(...)))
  local out = pipe:read "a"
  local _, _, code = pipe:close()
  return code or 0, out
end

local function must(line, ...)
  local code, out = sh(line, ...)
  assert(code == 0, line:format(...) .. "\n" .. out)
  return (out:gsub("%s+$", ""))
end

local function write(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end

local function exists(path) return (sh("test -e '%s'", path)) == 0 end

-- A program that C and C++ both accept: e^0 + e^1, the version it was compiled against.
local PROGRAM = [[
#include <penumbra.h>
#include <math.h>
#include <string.h>
int main(void) {
  double data[2] = {0, 1}, sum = 0;
  int64_t shape[1] = {2};
  pn_axes all = {0, {0}};
  pn_context *c = pn_context_new(0);
  if (!c || strcmp(pn_version(), PN_VERSION)) return 1;
  size_t mark = pn_scope_open(c);
  pn_tensor *x = pn_from_data(c, PN_FLOAT64, 1, shape, data);
  pn_status s = pn_tensor_item(c, pn_sum(c, pn_exp(c, x), all, 0), &sum);
  pn_scope_close(c, mark);
  pn_context_close(c);
  return s == PN_OK && fabs(sum - 3.718281828459045) < 1e-12 ? 0 : 2;
}
]]

local SCRIPT = [[local pn = require "penumbra" print(pn.version, pn.exp(pn.tensor{0}):item())]]

local NORMAL = [[
local pn = require "penumbra"
target = pn.model(function(m)
  local x = m:flat("x", "real", {})
  m:factor("f", -0.5 * (x - data.loc):square())
end):target()
]]

-- What drivers of BridgeStan's interface do: open a library of a model, ask it by name.
local LOADER = [[
#include <dlfcn.h>
#include <penumbra_bridge.h>
#include <stdio.h>
#include <string.h>
#define FIND(name) (found = dlsym(library, #name), memcpy(&f_##name, &found, sizeof found))
static bs_model *(*f_bs_model_construct)(const char *, unsigned, char **);
static void (*f_bs_model_destruct)(bs_model *);
static const char *(*f_bs_name)(const bs_model *), *(*f_bs_param_unc_names)(const bs_model *);
static int (*f_bs_log_density)(const bs_model *, bool, bool, const double *, double *, char **);
int main(int argc, char **argv) {
  void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL, *found;
  double x = 2, lp = 0;
  char *error = NULL;
  if (!library) return puts(dlerror()), 1;
  FIND(bs_model_construct), FIND(bs_model_destruct), FIND(bs_name), FIND(bs_param_unc_names), FIND(bs_log_density);
  bs_model *m = f_bs_model_construct("{\"loc\": 1}", 1, &error);
  if (!m || f_bs_log_density(m, true, true, &x, &lp, &error)) return puts(error), 1;
  printf("%s %s %g\n", f_bs_name(m), f_bs_param_unc_names(m), lp);
  f_bs_model_destruct(m);
  return 0;
}
]]

describe("an installed penumbra", function()
  local tmp, prefix
  local make = "env -u MAKEFLAGS -u MAKELEVEL make --no-print-directory"

  setup(function()
    tmp = must "mktemp -d"
    prefix = tmp .. "/prefix"
    must("%s install BUILD='%s' PREFIX='%s'", make, build, prefix)
    write(tmp .. "/program.c", PROGRAM)
    must("cp %s/program.c %s/program.cc", tmp, tmp)
  end)
  teardown(function() must("rm -rf '%s'", tmp) end)

  local function pkg(options)
    return ("PKG_CONFIG_PATH=%s/lib/pkgconfig pkg-config %s penumbra"):format(prefix, options)
  end

  --- require "penumbra" with nothing but the given tree on the paths, away from the checkout.
  local function require_from(tree)
    return must([[cd %s && env -u LUA_INIT LUA_PATH='%s/share/lua/5.4/?.lua;%s/share/lua/5.4/?/init.lua' \
      LUA_CPATH='%s/lib/lua/5.4/?.so' %s -e '%s']], tmp, tree, tree, tree, lua, SCRIPT)
  end

  it("has every file in its place", function()
    for _, path in ipairs {"bin/penumbra", "include/penumbra.h", "lib/libpenumbra.a", "lib/libpenumbra.so",
                           "lib/libpenumbra.so.0", "lib/libpenumbra.so.0.1.0",
                           "lib/libpenumbra_bridge.so", "include/penumbra_bridge.h", "include/penumbra.hpp",
                           "lib/pkgconfig/penumbra.pc", "lib/cmake/penumbra/penumbraConfig.cmake",
                           "lib/lua/5.4/penumbra/core.so", "share/lua/5.4/penumbra/init.lua",
                           "share/man/man1/penumbra.1", "share/penumbra/penumbra.d.lua",
                           "share/bash-completion/completions/penumbra",
                           "share/zsh/site-functions/_penumbra", "share/fish/vendor_completions.d/penumbra.fish"} do
      assert.is_true(exists(prefix .. "/" .. path), path)
    end
    assert.equal(exists(build .. "/penumbra-kernel"), exists(prefix .. "/bin/penumbra-kernel")) -- where it was built
    assert.equal("libpenumbra.so.0", must("objdump -p %s/lib/libpenumbra.so | sed -n 's/ *SONAME *//p'", prefix))
  end)

  it("honours DESTDIR and writes PREFIX, not DESTDIR, into penumbra.pc", function()
    must("%s install BUILD='%s' DESTDIR='%s/stage' PREFIX=/opt/penumbra", make, build, tmp)
    assert.is_true(exists(tmp .. "/stage/opt/penumbra/bin/penumbra"))
    local text = must("cat %s/stage/opt/penumbra/lib/pkgconfig/penumbra.pc", tmp)
    assert.truthy(text:find("prefix=/opt/penumbra", 1, true))
    assert.falsy(text:find("stage", 1, true))
  end)

  it("runs scripts with the installed command", function()
    assert.equal("0.1.0\t1.0", must("cd %s && env -u LUA_PATH -u LUA_CPATH prefix/bin/penumbra -e '%s'", tmp, SCRIPT))
  end)

  it("finds its manual", function()
    local said = must([[cd /  && env -u LUA_PATH -u LUA_CPATH %s/bin/penumbra -e 'help "dropout rate"']], prefix)
    local path, name = said:gsub("%s+", " "):match "In the manual: .- %((%S+/examples/manual/([%w_]+%.md))%)"
    assert.is_true(path and exists(path), said)
    assert.equal(must("realpath %s/share/doc/penumbra/examples/manual/%s", prefix, name), must("realpath %s", path))
    said = must([[cd / && PATH=%s/bin:$PATH penumbra -e 'help "dropout rate"']], prefix) -- by its name alone
    assert.truthy(said:gsub("%s+", " "):find("/share/doc/penumbra/examples/manual/" .. name, 1, true), said)
  end)

  it("gives require 'penumbra' to a stock interpreter", function()
    assert.equal("0.1.0\t1.0", require_from(prefix))
  end)

  for _, language in ipairs {{"C", os.getenv "CC" or "cc", "program.c", "-std=c11"},
                             {"C++", os.getenv "CXX" or "c++", "program.cc", "-std=c++11"}} do
    local name, compiler, source, std = table.unpack(language)
    it("links " .. name .. " against the shared library", function()
      must("cd %s && %s %s -Wall -Wextra -Werror %s $(%s) $(%s) -lm -o shared", tmp, compiler, std, source,
        pkg "--cflags", pkg "--libs")
      must("cd %s && LD_LIBRARY_PATH=prefix/lib ./shared", tmp)
      assert.truthy(must("objdump -p %s/shared", tmp):find("NEEDED%s+libpenumbra%.so%.0"))
    end)

    it("links " .. name .. " against the static library", function()
      must("cd %s && %s %s -Wall -Wextra -Werror %s $(%s) $(%s) -o static", tmp, compiler, std, source,
        pkg "--cflags", pkg "--libs" .. "-static")
      must("cd %s && ./static", tmp)
      assert.falsy(must("objdump -p %s/static", tmp):find "NEEDED%s+libpenumbra")
    end)
  end

  it("is a library for C++17 by its header of handles", function()
    must("%s -std=c++17 -pedantic -Wall -Wextra -Werror examples/embed/predict.cpp $(%s) $(%s) -lpthread -o %s/handles",
      os.getenv "CXX" or "c++", pkg "--cflags", pkg "--libs", tmp)
    local said = must("cd %s && LD_LIBRARY_PATH=prefix/lib ./handles", tmp)
    assert.truthy(said:find("all as expected", 1, true), said)
  end)

  it("opens a copy of the bridge as the model of the script beside it", function()
    must("cp %s/lib/libpenumbra_bridge.so %s/normal.so", prefix, tmp)
    write(tmp .. "/normal.lua", NORMAL)
    write(tmp .. "/loader.c", LOADER)
    for _, compiler in ipairs{(os.getenv "CC" or "cc") .. " -std=c11 -x c", (os.getenv "CXX" or "c++") .. " -x c++"} do
      must("cd %s && %s -Wall -Wextra -Werror -Iprefix/include loader.c -ldl -o loader", tmp, compiler)
      assert.equal("normal x -0.5", must("cd / && env -u LD_LIBRARY_PATH %s/loader %s/normal.so", tmp, tmp))
    end
  end)

  it("is a rock that luarocks makes into a local tree", function()
    must("cd %s && luarocks --lua-version 5.4 --tree %s/tree make rockspec/penumbra-scm-1.rockspec", root, tmp)
    assert.equal("0.1.0\t1.0", require_from(tmp .. "/tree"))
    must("luarocks --lua-version 5.4 --tree %s/tree remove penumbra", tmp)
    assert.is_false(exists(tmp .. "/tree/lib/lua/5.4/penumbra/core.so"))
  end)

  it("leaves nothing behind after uninstall", function()
    local said = must("%s install BUILD='%s' PREFIX='%s/gone'", make, build, tmp)
    local docs = tmp .. "/gone/share/doc/penumbra"
    assert.is_truthy(said:find("installed: command, libraries and Lua module below " .. tmp .. "/gone; README.md and "
      .. "examples in " .. docs, 1, true), said)
    assert.equal("", must("diff -r examples %s/examples && diff README.md %s", docs, docs))
    must("%s uninstall BUILD='%s' PREFIX='%s/gone'", make, build, tmp)
    assert.equal(tmp .. "/gone", must("find %s/gone", tmp)) -- no file and no directory
  end)
end)
