--- pn.mpi under mpirun: what each of 1, 2 and 4 ranks gets, and how a job ends when a rank fails. (A job is several
--- processes that end by themselves; a time limit is there for those that do not.)
local job = require "spec.mpi.job"

describe("pn.mpi", function()
  if not job.possible then
    it("needs MPI", function() pending(job.why) end)
    return
  end

  for _, n in ipairs { 1, 2, 4 } do
    it(("gives each of %d ranks what arithmetic says"):format(n), function()
      local out, code = job.run(n, "spec/mpi/ranks.lua " .. n)
      assert(code == 0 and out:find("passed: " .. n, 1, true), out)
    end)
  end

  it("is one rank without mpirun, in the stock interpreter too", function()
    local out, code = job.alone(job.lua .. " spec/mpi/ranks.lua 1")
    assert(code == 0 and out:find("passed: 1", 1, true), out)
  end)

  it("speaks through the MPI of a host in C, and leaves it to the host", function()
    local program = os.tmpname()
    local out, code = job.alone(("cc -std=c11 -Isrc spec/mpi/mpi_host.c $(pkg-config --cflags --libs ompi-c) -L%s "
      .. "-lpenumbra -Wl,-rpath,%s %s -o %s"):format(job.build, job.build, os.getenv "SANITIZE" or "", program))
    assert.equal(0, code, out)
    out = job.run(2, job.build .. "/lua", program)
    os.remove(program)
    assert(out:find("host: right, then time", 1, true), out)
  end)

  it("says what is missing where its module is not found", function()
    local out = job.alone(job.lua .. [[ -e 'local pn = require "penumbra"; package.cpath = ""
      print(pn.mpi.available(), pcall(pn.mpi.rank))']])
    assert(out:find "^false\tfalse\t.*rank: MPI is not there: .*apt install libopenmpi%-dev openmpi%-bin", out)
  end)

  -- what fails on one rank, and the one message
  local failures = {
    { "raise", "penumbra: rank 1 of 3 ends the job: %(command line%):%d+: boom" },
    { "memory", "penumbra: rank 1 of 3 ends the job: %(command line%):%d+: out of memory" },
    { "leave", "penumbra: rank 1 of 3 ends the job: it ended with code 3" },
    { "stop", "penumbra: rank 0 of 3 ends the job: .*differ in what they call: the end of the script and barrier" },
    { "shape", "penumbra: rank 0 of 3 ends the job: .*differ in the size of axis 1: 2 and 3" },
    { "wait", "penumbra: rank %d of 3 ends the job: .*: rank %d has waited 0.2 s for " },
    { "kill", "rank 1 .*signal 9" },
  }

  it("ends the job with one message when a rank fails, is killed or waits for ever", function()
    local jobs = {}
    for k, failure in ipairs(failures) do jobs[k] = { 3, job.failing(failure[1]) } end
    local results, seconds = job.run_all(jobs)
    for k, failure in ipairs(failures) do
      local out = results[k].out
      assert(results[k].code ~= 0 and out:find(failure[2]), failure[1] .. ": " .. out)
      local messages = select(2, out:gsub("ends the job", ""))
      assert(failure[1] == "wait" or messages == (failure[1] == "kill" and 0 or 1), out)
    end
    assert(seconds < 30, seconds) -- nobody waits as long as a call may
  end)
end)
