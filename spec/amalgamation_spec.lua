--- The amalgamation as a host uses it: penumbra.c and penumbra.h alone in a folder, compiled with -O0 by clang, which
--- takes a quarter of gcc's time (by cc where clang is not there), linked with hosts and with tests of the library. The
--- numbers are those of the ordinary library to the last bit. `make soak` compiles it with -O2, by clang and by cc, and
--- runs every C test with cc.
local build = os.getenv "BUILD" or "build"
local soak = os.getenv "PN_SOAK" ~= nil
local PACKAGES = "openblas lapacke zlib lua5.4"

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

-- Draws, functions of vector loops, a product and sums, as hexadecimal numbers.
local PROGRAM = [[
#include <penumbra.h>
#include <stdio.h>

static void show(pn_context *c, pn_tensor *x) {
  double v[301];
  if (pn_tensor_copy_out(c, x, v, 301) != PN_OK) return;
  for (int i = 0; i < 301; i++) printf("%a\n", v[i]);
}

int main(void) {
  pn_context *c = pn_context_new(0);
  pn_tensor *(*unary[])(pn_context *, pn_tensor *) = {pn_exp, pn_log1p, pn_tanh, pn_erf, pn_lgamma, pn_digamma, pn_sin};
  pn_dtype types[] = {PN_FLOAT64, PN_FLOAT32};
  for (int t = 0; t < 2; t++) {
    size_t mark = pn_scope_open(c);
    pn_tensor *x = pn_randn(c, NULL, types[t], 1, (int64_t[]){301});
    show(c, x);
    x = pn_add(c, pn_abs(c, x), pn_scalar(c, types[t], 0.1));
    for (int f = 0; f < 7; f++) show(c, unary[f](c, x));
    pn_tensor *m = pn_randn(c, NULL, types[t], 2, (int64_t[]){301, 40});
    show(c, pn_matmul(c, m, pn_randn(c, NULL, types[t], 1, (int64_t[]){40})));
    show(c, pn_sum(c, m, (pn_axes){1, {1}}, 0));
    show(c, pn_logsumexp(c, m, (pn_axes){1, {1}}, 0));
    pn_scope_close(c, mark);
  }
  pn_context_close(c);
  return 0;
}
]]

local TESTS = {"dist_test", "host_filter_test"} -- `make soak`: all
local HOSTS = {"predict", "sample_posterior", "filter_stream"}

describe("the amalgamation", function()
  local tmp, cflags, libs
  setup(function()
    tmp = must "mktemp -d"
    must("env -u MAKEFLAGS -u MAKELEVEL make --no-print-directory amalgamation BUILD='%s'", build)
    must("cp %s/amalgamation/penumbra.c %s/amalgamation/penumbra.h %s", build, build, tmp)
    cflags = must("pkg-config --cflags %s", PACKAGES)
    libs = must("pkg-config --libs %s", PACKAGES) .. " -lm -lpthread -ldl"
    local program = assert(io.open(tmp .. "/program.c", "w"))
    program:write(PROGRAM)
    program:close()
  end)
  teardown(function() must("rm -rf '%s'", tmp) end)

  local compilers = {{name = "cc", run = os.getenv "CC" or "cc", flags = ""}}
  if sh "command -v clang" == 0 then
    compilers[soak and 2 or 1] = {name = "clang", run = "clang", flags = "-fwrapv -fno-math-errno"}
  end

  for _, compiler in ipairs(compilers) do
    local object

    --- Links a source with the amalgamation; returns the program's path.
    local function link(source)
      local program = ("%s/%s-%s"):format(tmp, source:match "([^/]+)%.c$", compiler.name)
      must("%s -std=c11 -O1 -D_DEFAULT_SOURCE -I%s -I%s %s %s %s %s -o %s", compiler.run, tmp, build, cflags, source,
        object, libs, program)
      return program
    end
    local function run(program) return must("env -u PN_SOAK OPENBLAS_NUM_THREADS=1 %s </dev/null", program) end

    it("is compiled by " .. compiler.name .. " without a warning", function()
      object = ("%s/%s.o"):format(tmp, compiler.name)
      must("cd %s && %s %s %s -Wall -Wextra -Werror %s -c penumbra.c -o %s", tmp, compiler.run, soak and "-O2" or "-O0",
        compiler.flags, cflags, object)
    end)

    it("gives the ordinary library's bits, compiled by " .. compiler.name, function()
      must("cd %s && %s -std=c11 -I. program.c %s %s -o ordinary", tmp, compiler.run,
        build:sub(1, 1) == "/" and build .. "/libpenumbra.a" or "$OLDPWD/" .. build .. "/libpenumbra.a", libs)
      local ordinary = run(tmp .. "/ordinary")
      local _, lines = ordinary:gsub("\n", "")
      assert.equal(2 * 11 * 301, lines + 1)
      assert.is_true(ordinary == run(link(tmp .. "/program.c")))
    end)

    for _, host in ipairs(HOSTS) do
      it(("runs %s, compiled by %s"):format(host, compiler.name), function()
        assert.truthy(run(link("examples/embed/" .. host .. ".c")):find("all as expected", 1, true))
      end)
    end

    local tests = TESTS
    if soak and compiler.name == "cc" then
      tests = {}
      for path in io.popen "grep -L bridge_fixture.h spec/c/*_test.c":lines() do
        tests[#tests + 1] = path:match "([^/]+)%.c$" -- the bridge is a library of its own
      end
    end
    for _, test in ipairs(tests) do
      it(("passes %s, compiled by %s"):format(test, compiler.name), function()
        assert.truthy(run(link("spec/c/" .. test .. ".c")):find "%d+ passed, 0 failed")
      end)
    end
  end

  it("refuses -ffast-math and C++", function()
    local code, out = sh("cd %s && cc -ffast-math -E %s penumbra.c", tmp, cflags)
    assert.truthy(code ~= 0 and out:find("assumes finite numbers", 1, true))
    code, out = sh("cd %s && cc -x c++ -E %s penumbra.c", tmp, cflags)
    assert.truthy(code ~= 0 and out:find("C11 for gcc or clang", 1, true))
  end)
end)
