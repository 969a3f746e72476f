--- Runs every test: the C programs of spec/c, the busted specs, every example with --quick. Each is a
--- job of its own whose last line may count (`N passed, N failed, N skipped`); without such a line the
--- job counts as one test, decided by its exit code. Ends with the sum as one plain line.
---   lua spec/run.lua [PART]...     only jobs whose names contain one of the parts
--- Read from the environment: LUA (the interpreter of the specs), BUILD (where the programs are), JOBS,
--- SPARE (parts of names to leave out).
local lua = os.getenv "LUA" or "lua5.4"
local build = os.getenv "BUILD" or "build"
local jobs_at_once = os.getenv "JOBS" or "2"
local spare = {}
for part in (os.getenv "SPARE" or ""):gmatch "%S+" do spare[#spare + 1] = part end
local TIME_LIMIT = 1200 -- seconds per job

local function lines(command)
  local pipe = assert(io.popen(command))
  local list = {}
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

local function quote(s) return "'" .. s:gsub("'", "'\\''") .. "'" end

local function exists(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

local function files(folder, name)
  return lines(("find %s -name %s -type f 2>/dev/null | LC_ALL=C sort"):format(folder, quote(name)))
end

local root = lines("pwd")[1]
if build:sub(1, 1) ~= "/" then build = root .. "/" .. build end
local command = build .. "/penumbra"
local scratch = build .. "/test"

local function contains(name, parts)
  for _, part in ipairs(parts) do
    if name:find(part, 1, true) then return true end
  end
  return false
end

--- Tests of kernels, which also run at the levels below the processor's best (src/base/processor.h).
local KERNEL_TESTS = {"processor", "vector", "rng", "small_product", "product", "short_rows", "distance", "linalg",
                      "kalman", "gemm"}
--- Tests of what stands on products of matrices, which also run with the library's own (src/tensor/product/gemm.h).
local PRODUCT_TESTS = {"product", "conv", "kalman", "nn"}

--- The longest jobs, which start first so that none is left alone at the end.
local LONG = {"spec/c/runtime_test.c", "spec/amalgamation_spec.lua", "spec/c/runtime_limit_test.c",
              "spec/smc/tempering_spec.lua", "spec/autodiff/threads_spec.lua", "spec/distribution/rows_3_spec.lua",
              "spec/models/vssm_use_spec.lua", "spec/distribution/rows_2_spec.lua",
              "spec/embed_spec.lua", "spec/smc/sequential_bound_spec.lua", "spec/gap/measure_spec.lua",
              "spec/autodiff/replay_rows_spec.lua", "spec/infer/calibration_spec.lua",
              "spec/smc/switching_example_spec.lua", "spec/smc/pmcmc_spec.lua", "examples/papers/posteriordb/run.lua",
              "spec/infer/examples_spec.lua", "spec/smc/rbpf_spec.lua", "spec/distribution/rows_1_spec.lua",
              "spec/lua/api_fuzz_spec.lua"}

--- Examples that are no jobs of their own where the spec runs that runs them with --quick, looks at how they end and at
--- what they print and draw.
local WATCHED = {
  ["examples/05_eight_schools.lua"] = "spec/infer/examples_spec.lua",
  ["examples/06_logistic_regression.lua"] = "spec/infer/examples_spec.lua",
  ["examples/07_mixture.lua"] = "spec/infer/examples_spec.lua",
  ["examples/08_gaussian_process.lua"] = "spec/infer/examples_spec.lua",
  ["examples/09_kalman.lua"] = "spec/smc/kalman_example_spec.lua",
  ["examples/11_switching.lua"] = "spec/smc/switching_example_spec.lua",
  ["examples/12_stochastic_volatility.lua"] = "spec/smc/volatility_spec.lua",
  ["examples/papers/conditioning_gap/best_linear_system.lua"] = "spec/paper_claims_spec.lua",
  ["examples/papers/conditioning_gap/gaussian.lua"] = "spec/paper_claims_spec.lua",
  ["examples/papers/conditioning_gap/where_do_the_nats_go.lua"] = "spec/paper_claims_spec.lua",
  ["examples/papers/deep_filters/pendulum.lua"] = "spec/paper_claims_spec.lua",
  ["examples/papers/invariance/linear_model.lua"] = "spec/paper_claims_spec.lua",
  ["examples/papers/invariance/network_collapse.lua"] = "spec/paper_claims_spec.lua",
  ["examples/papers/invariance/permutations.lua"] = "spec/paper_claims_spec.lua",
  ["examples/papers/vbp/gates.lua"] = "spec/paper_claims_spec.lua",
}

local function chosen(name) return (#arg == 0 or contains(name, arg)) and not contains(name, spare) end

--- Is the example run by a spec that is a job too? That the spec names it is checked. Experiments of a folder of
--- examples/papers are run by the spec of its claims, within its own process (spec/papers/script.lua).
local function watched(path)
  local folder, script = path:match "^examples/papers/([%w_]+)/([%w_]+%.lua)$"
  local spec = WATCHED[path] or folder and ("spec/papers/%s_spec.lua"):format(folder)
  local file <close> = spec and chosen(spec) and io.open(spec) or nil
  local text = file and file:read "a" or ""
  if not WATCHED[path] then return folder and text:find(("%s/%s --quick "):format(folder, script), 1, true) ~= nil end
  return text:find(path:match "([%w_]+)%.lua$", 1, true) ~= nil and text:find(".lua --quick ", 1, true) ~= nil
end

--- The jobs: name and shell command.
local function all_jobs()
  local jobs = {}
  local function add(name, line)
    if chosen(name) and not watched(name) then jobs[#jobs + 1] = {name = name, line = line} end
  end
  -- Examples run where they may leave pictures behind.
  if exists(command) then
    for _, path in ipairs(lines("find examples -name '*.lua' -not -path '*/embed/*' -not -path '*/browser/*' " ..
      "2>/dev/null | LC_ALL=C sort")) do
      local script = quote(root .. "/" .. path)
      add(path, ("cd %s && %s %s --quick"):format(quote(scratch), quote(command), script))
    end
  end
  for _, path in ipairs(files("spec", "*_spec.lua")) do
    add(path, ("busted --lua=%s -o spec/output.lua %s"):format(quote(lua), quote(path)))
  end
  for _, path in ipairs(files("spec/c", "*_test.c")) do
    add(path, quote(build .. "/" .. path:gsub("%.c$", "")))
  end
  for _, name in ipairs(KERNEL_TESTS) do
    local path = ("spec/c/%s_test"):format(name)
    for _, level in ipairs {"portable", "avx2"} do
      add(("%s.c at level %s"):format(path, level), ("PENUMBRA_CPU=%s %s"):format(level, quote(build .. "/" .. path)))
    end
  end
  for _, name in ipairs(PRODUCT_TESTS) do
    local path = ("spec/c/%s_test"):format(name)
    add(path .. ".c by own products", "PENUMBRA_PRODUCTS=own " .. quote(build .. "/" .. path))
  end
  for _, path in ipairs(files("examples/embed", "*.c")) do -- of the folder alone: below are projects of their own
    if path:find "^examples/embed/[^/]+$" then add(path, quote(build .. "/" .. path:gsub("%.c$", ""))) end
  end
  local rank = {}
  for i, job in ipairs(jobs) do rank[job.name] = #LONG + i end
  for i, name in ipairs(LONG) do rank[name] = i end
  table.sort(jobs, function(a, b) return rank[a.name] < rank[b.name] end)
  return jobs
end

--- One script per job, run a few at once by xargs, which reports each as it ends.
local function start(jobs)
  os.execute("rm -rf " .. quote(scratch) .. " && mkdir -p " .. quote(scratch))
  local list = assert(io.open(scratch .. "/list", "w"))
  for i, job in ipairs(jobs) do
    local script = assert(io.open(("%s/%d.sh"):format(scratch, i), "w"))
    script:write("export LUA_PATH=", quote((("R/lua/?.lua;R/lua/?/init.lua;R/?.lua;;"):gsub("R", root))), "\n")
    script:write("export LUA_CPATH=", quote(build .. "/lua/?.so;;"), "\n")
    script:write("export PENUMBRA=", quote(command), " BUILD=", quote(build), "\n")
    script:write("unset LUA_PATH_5_4 LUA_CPATH_5_4 LUA_INIT LUA_INIT_5_4\n")
    script:write(job.line, "\n")
    script:close()
    list:write(i, "\n")
  end
  list:close()
  local limit = #lines("command -v timeout") > 0 and ("timeout -k 10 " .. TIME_LIMIT) or ""
  -- (The last line of `times` is what the children used, user and system, as minutes and seconds.)
  local one = [[cd %s; s=$(date +%%s); %s sh %s/$1.sh >%s/$1.out 2>&1 </dev/null; c=$?
    times >%s/$1.times; echo "$1 $c $(($(date +%%s)-s))"]]
  one = one:format(quote(root), limit, quote(scratch), quote(scratch), quote(scratch))
  return assert(io.popen(("xargs -P %s -n 1 sh -c %s sh <%s/list"):format(jobs_at_once, quote(one), quote(scratch))))
end

local function read(path)
  local file = io.open(path, "rb")
  local text = file and file:read "a" or ""
  if file then file:close() end
  return text
end

--- passed, failed, skipped of one job from its output and exit code.
local function count(text, code)
  local p, f, s
  for line in text:gmatch "[^\n]+" do
    local a, b, rest = line:match "^(%d+) passed, (%d+) failed(.*)$"
    if a then p, f, s = tonumber(a), tonumber(b), tonumber(rest:match "(%d+) skipped" or 0) end
  end
  if not p then return code == 0 and 1 or 0, code == 0 and 0 or 1, 0 end
  if code ~= 0 and f == 0 then f = 1 end -- it crashed after counting
  return p, f, s
end

--- Seconds of processor that a job used.
local function processor(text)
  local sum = 0
  for minutes, seconds in text:gmatch "(%d+)m([%d.]+)s" do sum = sum + 60 * tonumber(minutes) + tonumber(seconds) end
  return sum
end

local jobs = all_jobs()
local passed, failed, skipped, done, total, bad, said = 0, 0, 0, 0, 0, {}, {}
if #jobs > 0 then
  local pipe = start(jobs)
  for line in pipe:lines() do
    local i, code, seconds = line:match "^(%d+) (%d+) (%-?%d+)$"
    local job = jobs[tonumber(i)]
    local text = read(("%s/%s.out"):format(scratch, i))
    local p, f, s = count(text, tonumber(code))
    passed, failed, skipped, done = passed + p, failed + f, skipped + s, done + 1
    job.done = true
    local used = processor(read(("%s/%s.times"):format(scratch, i)))
    total = total + used
    print(("[%d/%d] %-4s %s: %d passed%s%s (%s s, processor %.1f s)"):format(done, #jobs,
      f > 0 and "FAIL" or "ok", job.name, p, f > 0 and (", %d failed"):format(f) or "",
      s > 0 and (", %d skipped"):format(s) or "", seconds, used))
    if f > 0 then
      bad[#bad + 1] = job.name
      said[job.name] = text
      print(text .. (code ~= "0" and ("(exit code %s%s)"):format(code, code == "124" and ", time limit" or "") or ""))
    elseif s > 0 then
      for skip in text:gmatch "skipped: [^\n]+" do print("       " .. skip) end
    end
    io.flush()
  end
  pipe:close()
end
for _, job in ipairs(jobs) do
  if not job.done then
    failed = failed + 1
    bad[#bad + 1] = job.name .. " (did not run)"
  end
end
-- (Once more at the end, where a log that was cut still has it.)
for _, name in ipairs(bad) do
  print("failed: " .. name)
  print((("\n" .. (said[name] or "")):sub(-2000):gsub("\n", "\n    ")))
end
if passed + failed == 0 then print "no test ran" end
print(("processor: %.0f s"):format(total))
print(("%d passed, %d failed, %d skipped"):format(passed, failed, skipped))
os.exit(failed == 0 and passed > 0)
