--- Host programs against an installed library: examples/embed compiled with what pkg-config says, linked
--- shared and static, plain and with sanitisers in the host. (`make asan` and `make tsan` run the same
--- programs with the library instrumented too.)
local build = (os.getenv "BUILD" or "build"):gsub("/[at]san$", "") -- the plain library, also in a sanitised run
-- (its atomics are not seen by the sanitiser for threads of a host, so that accesses are judged that the host makes,
-- but not where the library calls it: `make tsan` judges those of a target written in C, in the library's threads)

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

describe("a host program", function()
  local tmp, pkg
  setup(function()
    tmp = must "mktemp -d"
    must("env -u MAKEFLAGS -u MAKELEVEL -u SANITIZE make --no-print-directory install BUILD='%s' PREFIX='%s/prefix'",
      build, tmp)
    must("echo race:libpenumbra.so > %s/tsan.supp", tmp)
    pkg = ("PKG_CONFIG_PATH=%s/prefix/lib/pkgconfig pkg-config"):format(tmp)
  end)
  teardown(function() must("rm -rf '%s'", tmp) end)

  local expected = {
    predict = function(out)
      assert.truthy(out:find("all as expected", 1, true), out)
      for _, status in ipairs {"script", "limit"} do
        assert.truthy(out:find("not loaded (" .. status .. ")", 1, true), out)
      end
    end,
    sample_posterior = function(out)
      assert.truthy(out:find("all as expected", 1, true), out)
      for _, text in ipairs {"(script): model:2: normal: scale must be positive", "(dtype)", "(limit)",
        "not sampled"} do
        assert.truthy(out:find(text, 1, true), out)
      end
    end,
    filter_stream = function(out)
      assert.truthy(out:find("all as expected", 1, true), out)
    end,
    fuse_sensors = function(out)
      assert.truthy(out:find("all as expected", 1, true), out)
      assert.truthy(out:find("sonar is silent", 1, true), out)
      assert.truthy(out:find("camera contradicts the others, left out", 1, true), out)
    end,
    forecast_stream = function(out)
      assert.truthy(out:find("all as expected", 1, true), out)
    end,
    two_runtimes = function(out)
      assert.truthy(out:find("trainer:%d+: interrupted"), out)
      assert.truthy(out:find("weights 1.0000 -2.0000 3.0000 0.5000", 1, true), out)
    end,
  }

  local kinds = {
    {"the shared library", "-Wall -Wextra -Werror", "--libs"},
    {"the static library", "-Wall -Wextra -Werror", "--libs", "penumbra-static"},
    {"sanitisers for addresses and undefined behaviour",
     "-g -fsanitize=address,undefined -fno-sanitize-recover=all", "--libs"},
    {"the sanitiser for threads", "-g -fsanitize=thread", "--libs"},
  }

  -- A slope of 2 seen 50 times on [-1, 1] with noise 1: sum x^2 = 17.35, posterior deviation 1 / sqrt(18.35) = 0.233.
  it("the example at the head of penumbra.h does what its printed lines say", function()
    local text = io.open "src/penumbra.h":read "a"
    local lines = text:match "\n%*%* Example:[^\n]*\n(.-)\n%*%*\n%*%* Index":gsub("%*%* ? ? ?", "")
    local file = assert(io.open(tmp .. "/head.c", "w"))
    file:write(lines, "\n")
    file:close()
    must("cc -std=c11 -Wall -Wextra -Werror %s/head.c $(%s --cflags --libs penumbra-static) -o %s/head", tmp, pkg, tmp)
    local slope, deviation = must("OPENBLAS_NUM_THREADS=1 %s/head", tmp):match "^slope (%S+) %+%- (%S+)$"
    assert.truthy(math.abs(slope - 2) < 0.7 and math.abs(deviation - 0.233) < 0.05, slope .. " +- " .. deviation)
  end)

  -- A host with each sanitiser; all of them with both in `make soak` (and, the library too, in `make asan` and `tsan`).
  local function chosen(name, i)
    return i < 3 or os.getenv "PN_SOAK" or name == (i == 3 and "sample_posterior" or "two_runtimes")
  end

  for name, check in pairs(expected) do
    for i, kind in ipairs(kinds) do
      if chosen(name, i) then it(("%s runs with %s"):format(name, kind[1]), function()
        local libs = must("%s %s %s", pkg, kind[3], kind[4] or "penumbra")
        local program = ("%s/%s-%d"):format(tmp, name, i)
        must("cc -std=c11 %s examples/embed/%s.c $(%s --cflags penumbra) %s -lm -lpthread -o %s", kind[2], name, pkg,
          libs, program)
        check(must([[cd %s && OPENBLAS_NUM_THREADS=1 LD_LIBRARY_PATH=%s/prefix/lib \
          TSAN_OPTIONS=ignore_noninstrumented_modules=1:suppressions=tsan.supp %s]], tmp, tmp, program))
      end) end
    end
  end
end)
