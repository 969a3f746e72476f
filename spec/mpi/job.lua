--- Jobs of several ranks, for the specs.
local job = {}

local build = os.getenv "BUILD" or "build"
if build:sub(1, 1) ~= "/" then
  local pipe <close> = assert(io.popen "pwd")
  build = pipe:read "l" .. "/" .. build
end
job.build = build
job.lua = os.getenv "LUA" or "lua5.4"
job.command = os.getenv "PENUMBRA" or build .. "/penumbra"

local function read(command)
  local pipe <close> = assert(io.popen("{ " .. command .. "; } 2>&1"))
  return pipe:read "a"
end

local function exists(path)
  local file <close> = io.open(path)
  return file ~= nil
end

local function why_not()
  if read "command -v mpirun" == "" then
    return "skipped: no mpirun (Debian: openmpi-bin)"
  elseif not exists(build .. "/lua/penumbra/mpi_core.so") then
    return "skipped: penumbra.mpi_core was not built (Debian: libopenmpi-dev)"
  end
end
job.why = why_not()
job.possible = job.why == nil

-- What the command printed and its exit code, from what `limited` makes it print. Each has a folder of its own for what
-- MPI keeps of a session: of two that begin at once one may fail to make the folder that they would share.
local function limited(command, seconds)
  return ("d=$(mktemp -d); OMPI_MCA_orte_tmpdir_base=$d timeout -k 5 %d %s; echo \"code $?\"; rm -rf \"$d\"")
    :format(seconds or 60, command)
end
local function parted(out) return (out:gsub("code %d+\n$", "")), tonumber(out:match "code (%d+)\n$") end

--- alone(command [, seconds]): what it prints and its exit code; how long it may take (60).
function job.alone(command, seconds) return parted(read(limited(command, seconds))) end

--- How several ranks are started. What MPI keeps is no leak of ours, and its own parts are not named to a sanitiser.
--- Ranks are neighbours, who yield where there are more of them than cores and do not read each other's memory, which
--- containers forbid.
job.mpirun = 'env ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" OMPI_MCA_btl=self,vader '
  .. "OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1 "
  .. "mpirun --oversubscribe --allow-run-as-root"

local function started(ranks, arguments, command)
  return ("%s -n %d %s %s"):format(job.mpirun, ranks, command or job.command, arguments)
end

--- run(ranks, arguments [, command [, seconds]]): what the command (penumbra) prints under mpirun with so many ranks,
--- and the exit code.
function job.run(ranks, arguments, command, seconds)
  return job.alone(started(ranks, arguments, command), seconds)
end

--- run_all(list): the same of a list of {ranks, arguments [, command]} side by side, for what mostly waits: a list of
--- {out =, code =}, and the seconds that all took.
function job.run_all(list)
  local start, pipes, results = os.time(), {}, {}
  for k, one in ipairs(list) do
    pipes[k] = assert(io.popen("{ " .. limited(started(one[1], one[2], one[3])) .. "; } 2>&1"))
  end
  for k, pipe in ipairs(pipes) do
    local out, code = parted(pipe:read "a")
    pipe:close()
    results[k] = { out = out, code = code }
  end
  return results, os.time() - start
end

--- failing(what): arguments of a job in which rank 1 does what fails while others wait.
function job.failing(what)
  return ([[-e 'local mpi, what = pn.mpi, "%s"
    local one = mpi.rank() == 1
    if what == "wait" then mpi.timeout(0.2) end
    if one and what == "raise" then error "boom" end
    if one and what == "memory" then pn.memory_limit(1000000) pn.zeros { 1000000 } end
    if one and what == "leave" then os.exit(3) end
    if one and what == "kill" then os.execute "kill -9 $PPID" end
    if what == "shape" then mpi.all_reduce(pn.zeros { one and 3 or 2 }) end
    if one and what == "wait" then mpi.receive(0) end
    if not one or what == "kill" then mpi.barrier() end']]):format(what)
end

return job
