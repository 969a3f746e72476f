--- What may notice a fault in C: programs of spec/c and busted specs, each run with a library of its own, and which
--- blocks of the library each enters (spec/mutants/c_run.lua).
local tally = dofile "spec/mutants/tally.lua"
local read, lines = tally.read, tally.lines

local lua, build = os.getenv "LUA" or "lua5.4", os.getenv "BUILD" or "build"
local root = lines "pwd"[1]
if build:sub(1, 1) ~= "/" then build = root .. "/" .. build end
local room = build .. "/mutants"
local covers = room .. "/c_cover"
local tests = {root = root, build = build, room = room}

local FOLDERS = "spec/smc spec/infer spec/nn spec/optim spec/distribution spec/autodiff spec/lua spec/options spec/gap "
  .. "spec/metrics spec/train spec/pac spec/models spec/continual spec/active spec/fusion spec/vbp spec/invariance"
--- Programs that are linked of more than the library, or look at something else than what it computes.
local LEFT_OUT = {"bridge", "reach", "runtime", "stock", "limit_test", "save_kill", "lua_bugs", "api_fuzz",
  "threads_spec"}
--- Programs that also run at levels below the processor's best, and with the library's own products.
local LEVELS = {"vector", "rng", "small_product", "short_rows", "distance", "linalg", "kalman", "gemm"}

local function run(command) return os.execute(command) end

local function left_out(path)
  for _, part in ipairs(LEFT_OUT) do
    if path:find(part, 1, true) then return true end
  end
end

--- List of {name, path, env}; of a program the path has no ".c".
function tests.all()
  local list = {}
  for _, path in ipairs(lines "ls spec/c/*_test.c") do
    if not left_out(path) then
      path = path:gsub("%.c$", "")
      list[#list + 1] = {name = path, path = path, env = ""}
      for _, part in ipairs(LEVELS) do
        if path == "spec/c/" .. part .. "_test" then
          list[#list + 1] = {name = path .. " portable", path = path, env = "PENUMBRA_CPU=portable "}
          list[#list + 1] = {name = path .. " own", path = path, env = "PENUMBRA_PRODUCTS=own "}
        end
      end
    end
  end
  for _, path in ipairs(lines(("find %s -name '*_spec.lua' | LC_ALL=C sort"):format(FOLDERS))) do
    if not left_out(path) then list[#list + 1] = {name = path, path = path, env = ""} end
  end
  return list
end

local function flags()
  tests.flags = tests.flags or "-std=c11 -fPIC -fvisibility=hidden -fwrapv -ffp-contract=off -fno-math-errno -O1 -w "
    .. "-D_DEFAULT_SOURCE -I" .. build .. " " .. lines "pkg-config --cflags openblas lapacke zlib lua5.4"[1]
  return tests.flags
end

local function libraries()
  tests.libs = tests.libs or "-Wl,--no-as-needed " .. lines "pkg-config --libs openblas lapacke zlib lua5.4"[1]
    .. " -lm -lpthread -ldl"
  return tests.libs
end

-- What is compiled from a source: *_real.c to one object for each type of floats.
local function objects_of(path)
  local name = path:match "^src/(.*)%.c$"
  if not name:find "_real$" then return {{name = name, option = ""}} end
  return {{name = name .. "_f64", option = "-DPNI_REAL_BITS=64"},
    {name = name .. "_f32", option = "-DPNI_REAL_BITS=32"}}
end

-- Compiles the text of a source of the tree, as if it stood there, to `object`, in at most 120 s of processor.
local function compile(text, path, option, object)
  local pipe = assert(io.popen(("cd '%s' && ulimit -t 120 && cc %s %s -x c -c - -o '%s' 2>/dev/null")
    :format(path:match "^(.*)/", flags(), option, object), "w"))
  pipe:write(text)
  return pipe:close()
end

local SANITISED, SHOWS = "-fsanitize=address,undefined", " -fno-sanitize-recover=all"

--- The objects of a text in place of those of a source, {{name =, object =}, ...}, their files `to`.NUMBER.o; nil if it
--- does not compile. Sanitised ones come with the pool, which then poisons what it holds.
function tests.objects(text, path, to, sanitised)
  local list = {sanitised = sanitised}
  local option, ending = sanitised and SANITISED .. SHOWS or "", sanitised and ".sanitised.o" or ".o"
  for k, object in ipairs(objects_of(path)) do
    object.object = ("%s.%d%s"):format(to, k, ending)
    if not compile(text, path, object.option .. " " .. option, object.object) then return nil end
    list[k] = object
  end
  if sanitised then
    local memory = room .. "/memory.sanitised.o"
    if not read(memory) then assert(compile(read "src/base/memory.c", "src/base/memory.c", option, memory)) end
    list[#list + 1] = {name = "base/memory", object = memory}
  end
  return list
end

-- The object of a program of spec/c, compiled where the program or a header is newer.
local function program_object(path)
  local object = room .. "/" .. path:gsub("/", ".") .. ".o"
  local newer = ("find %s.c src spec/c spec/golden \\( -path %s.c -o -name '*.h' -o -name '*.def' \\) -newer %s")
    :format(path, path, object)
  if read(object) and #lines(newer) == 0 then return object end
  assert(run(("cc %s -c %s.c -o %s.part && mv %s.part %s"):format(flags(), path, object, object, object)))
  return object
end

local PROGRAMS = {cli = true, bridge = true, kernel = true, mpi = true} -- folders that are not of the library

--- The library of `build`, with objects in place of its own: {{name =, object =}, ...}.
function tests.link_core(to, changed)
  local instead, list = {}, {}
  for _, entry in ipairs(changed) do instead[build .. "/obj/" .. entry.name .. ".o"] = entry.object end
  for _, object in ipairs(lines(("find %s/obj -name '*.o'"):format(build))) do
    local folder = object:sub(#build + 6):match "^(%w+)/"
    if not PROGRAMS[folder] then list[#list + 1] = instead[object] or object end
  end
  return run(("cc -fuse-ld=lld -Wl,-s -shared -Wl,-Bsymbolic-functions -o '%s' %s %s"):format(to,
    table.concat(list, " "), (libraries():gsub("%-llua%S*", ""))))
end

--- Runs a test until it fails, with the library core.so below `here`, or the program of the objects `changed`.
--- True if it passed, and the seconds of processor; more than `limit` of these is a failure.
function tests.passes(test, here, changed, limit, extra)
  local line
  if test.path:find "^spec/c/" then
    local program, words = here .. "/" .. test.path:match "[^/]+$" .. (changed.sanitised and ".sanitised" or ""), {}
    for _, entry in ipairs(changed) do words[#words + 1] = entry.object end
    local library = changed.library or build .. "/libpenumbra.a"
    if not read(program) then
      assert(run(("cc -fuse-ld=lld -Wl,-s %s -o '%s' '%s' %s '%s' %s"):format(changed.sanitised and SANITISED or "",
        program, program_object(test.path), table.concat(words, " "), library, libraries())), "cannot link " .. program)
    end
    line = ("'%s'"):format(program)
  else
    line = ("busted --no-keep-going --lua=%s -o spec/output.lua %s"):format(lua, test.path)
  end
  line = ("LUA_PATH='%s/lua/?.lua;%s/lua/?/init.lua;%s/?.lua;;' LUA_CPATH='%s/lua/?.so;;' PENUMBRA=%s/penumbra "
    .. "BUILD=%s OPENBLAS_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0:exitcode=99 %s %s timeout -k 5 %d %s </dev/null "
    .. ">/dev/null 2>&1"):format(root, root, root, here, build, build, extra or "", test.env, 30 * limit, line)
  local out, seconds = lines(("ulimit -c 0; ulimit -S -t %d; %s; echo code $?; times"):format(limit, line)), 0
  for minutes, rest in out[#out]:gmatch "(%d+)m([%d.]+)s" do seconds = seconds + 60 * minutes + rest end
  return out[#out - 2] == "code 0", seconds
end

-- ---- which blocks a test enters ----

local COVERED = "-O1 -gline-tables-only -fsanitize-coverage=inline-8bit-counters,pc-table -fvisibility=default -w"

-- {[path] = checksum} of what a command lists.
local function sums_of(command)
  local list = {}
  for _, line in ipairs(lines(command .. " | xargs cksum")) do
    local sum, path = line:match "^(%d+ %d+) (.*)$"
    list[path] = sum
  end
  return list
end

local function put(path, text)
  local file <close> = assert(io.open(path, "w"))
  file:write(text)
end

-- Builds the library that tells what is entered. places.KEY has the checksum of each source, then the line of each
-- block; KEY, which is given back, is a checksum of both.
local function build_covered()
  local core = covers .. "/build/lua/penumbra/core.so"
  assert(run(("mkdir -p '%s/entered' && clang -O1 -fPIC -c spec/mutants/c_cover.c -o '%s/c_cover.o'"):format(covers,
    covers)))
  assert(run(("make -s BUILD='%s/build' CC=clang CFLAGS='%s' LDFLAGS='%s/c_cover.o' '%s'"):format(covers, COVERED,
    covers, core)))
  assert(run(("PLACES='%s/addresses' LUA_CPATH='%s/build/lua/?.so' LUA_PATH='lua/?.lua' %s -e 'require %q'")
    :format(covers, covers, lua, "penumbra.core")))
  local words, first = {}, true
  for path, sum in pairs(sums_of "find src -name '*.c'") do words[#words + 1] = sum .. " " .. path end
  table.sort(words)
  -- (the first line of each answer is the innermost of functions that were put into others)
  for _, line in ipairs(lines(("llvm-symbolizer --obj='%s' --functions=none --inlines < '%s/addresses'"):format(core,
    covers))) do
    if line == "" then
      first = true
    elseif first then
      words[#words + 1] = line:match "/(src/[^:]*:%d+)" or "?"
      first = false
    end
  end
  put(covers .. "/places", table.concat(words, "\n") .. "\n")
  local key = lines(("cksum < '%s/places'"):format(covers))[1]:match "%d+"
  assert(os.rename(covers .. "/places", covers .. "/places." .. key))
  return key
end

local TESTS = "ls spec/c/*_test.c; find spec -name '*_spec.lua'"

local function source_of(test) return test.path .. (test.path:find "^spec/c/" and ".c" or "") end
local function entry_of(test) return covers .. "/entered/" .. test.name:gsub("[/ ]", ".") end

-- What a test entered when it was as it is now: its seconds (or "failed"), the key of the places, a 0 or 1 for each.
local function entered(test, sums)
  local sum, seconds, key, bits = (read(entry_of(test)) or ""):match "^[^\n]*\n([^\n]*)\n([^\n]*)\n(%d+)\n([01]*)$"
  if sum == sums[source_of(test)] then return seconds, key, bits end
end

--- Runs each test whose name contains one of `parts`, but those that have not changed since it was run, and keeps
--- which blocks it enters.
function tests.cover(parts)
  local key, sums = build_covered(), sums_of(("(%s)"):format(TESTS))
  for _, test in ipairs(tests.all()) do
    local wanted = #parts == 0
    for _, part in ipairs(parts) do wanted = wanted or test.name:find(part, 1, true) end
    if wanted and (entered(test, sums) or "failed") == "failed" then
      local path, library = entry_of(test), covers .. "/build/lua/penumbra/core.so"
      os.remove(covers .. "/build/" .. test.path:match "[^/]+$")
      local passed, seconds = tests.passes(test, covers .. "/build", {library = library},
        40, ("COVERED='%s.part'"):format(path))
      local bits = passed and (read(path .. ".part") or "") -- none: it only starts programs that have a library within
      os.remove(path .. ".part")
      put(path, table.concat({test.name, sums[source_of(test)], bits and seconds or "failed", key, bits or ""}, "\n"))
      print(("%s: %s, %.1f s"):format(test.name, bits and "passed" or "failed", seconds))
    end
  end
end

local known

-- {path = {sum =, {line =, at =}, ...}} of a covered library.
local function places_of(key)
  local list, k = {}, 0
  for line in (read(covers .. "/places." .. key) or ""):gmatch "([^\n]*)\n" do
    local sum, of = line:match "^(%d+ %d+) (.*)$"
    if sum then
      list[of] = {sum = sum}
    else
      local path, number = line:match "^(.*):(%d+)$"
      k = k + 1
      if path and list[path] then table.insert(list[path], {line = tonumber(number), at = k}) end
    end
  end
  return list
end

--- Reads what is covered. Gives the names of tests that are not, or have changed since, and of those that fail without
--- a fault.
function tests.load()
  local sums, places, missing, failed = sums_of(("(%s)"):format(TESTS)), {}, {}, {}
  known = {tests = {}, sums = sums_of "find src -name '*.c'"}
  for _, test in ipairs(tests.all()) do
    local seconds, key, bits = entered(test, sums)
    if not key or not read(covers .. "/places." .. key) then
      missing[#missing + 1] = test.name
    elseif seconds == "failed" then
      failed[#failed + 1] = test.name
    else
      places[key] = places[key] or places_of(key)
      test.seconds, test.bits, test.places = tonumber(seconds), bits, places[key]
      known.tests[#known.tests + 1] = test
    end
  end
  return missing, failed
end

-- Words of the file's name below its folder that the test's name has, too.
local function likeness(path, name)
  local alike = 0
  for word in path:match "^src/%w+/(.*)%.c$":gmatch "%a+" do
    alike = alike + (#word > 2 and name:find(word, 1, true) and 1 or 0)
  end
  return alike
end

-- The share of the file's blocks that the test enters; 1 if it enters the block at or before `line` of the function of
-- lines first to last, 1/4 if only this function (one that was put into others may have no block of its own), else
-- 1/16.
local function reach(test, path, first, line, last)
  local list, nearest, count, near = test.places[path] or {}, first, 0, 0
  local same = list.sum == known.sums[path] -- else its lines have moved
  for _, place in ipairs(list) do
    if place.line >= first and place.line <= line and place.line > nearest then nearest = place.line end
  end
  for _, place in ipairs(list) do
    if test.bits:byte(place.at) == 49 then
      count = count + 1
      local within = same and place.line >= first and place.line <= last
      near = math.max(near, within and (place.line == nearest and 1 or 1 / 4) or 1 / 16)
    end
  end
  return count / math.max(#list, 1), near
end

--- The tests that enter the file, those first that enter most of it, near the fault, in the least time; and those that
--- are named alike.
function tests.entering(path, first, line, last)
  local list = {}
  for _, test in ipairs(known.tests) do
    local share, near = reach(test, path, first, line, last)
    -- (what children enter that do not come to their end is not told)
    if test.path == "spec/c/calls_test" then share, near = math.max(share, 1 / 4), math.max(near, 1 / 4) end
    if share > 0 then
      list[#list + 1] = {test = test, worth = share * near * (1 + 2 * likeness(path, test.name)) / (test.seconds + .3)}
    end
  end
  table.sort(list, function(a, b)
    if a.worth ~= b.worth then return a.worth > b.worth end
    return a.test.name < b.test.name
  end)
  for k, entry in ipairs(list) do list[k] = entry.test end
  return list
end

return tests
