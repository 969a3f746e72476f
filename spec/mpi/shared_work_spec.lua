--- Work shared out over ranks under mpirun: the bits of one process on 1, 2 and 4 ranks, and how a job ends where
--- something is wrong on one of them.
local job = require "spec.mpi.job"

local SCRIPT = "spec/mpi/shared_work.lua "

local function lines_of(path)
  local file <close> = io.open(path)
  local list = {}
  for line in file and file:lines() or function() end do list[#list + 1] = line end
  return list
end

-- Did it fail by itself, and was not ended by the time limit (124)? A job is over in a second or two where nothing else
-- runs; here no clock is asked.
local function ended(result) return result.code ~= 0 and result.code ~= 124 end

describe("work over ranks", function()
  if not job.possible then
    it("needs MPI", function() pending(job.why) end)
    return
  end

  local function under(n, program, words)
    return ("%s -n %d %s %s%s"):format(job.mpirun, n, program, SCRIPT, words)
  end

  it("gives the bits of one process", function()
    local want, code = job.alone(job.command .. " " .. SCRIPT .. "all alone")
    assert(code == 0, want)
    for n, program in pairs { [1] = job.command, [2] = job.lua, [4] = job.command } do -- the stock interpreter, too
      local got
      got, code = job.alone(under(n, program, "all"))
      assert(code == 0 and got == want, ("%d ranks:\n%sone process:\n%s"):format(n, got, want))
    end
  end)

  it("ends with one message that names rank and cause", function()
    local faults = {
      { "seeds", "rank 0 .*nuts: all ranks must do the same: rank 0 has seed and draws .*, rank 1 seed and draws " },
      { "settings", "rank 0 .*nuts: all ranks must do the same: rank 0 has chains = 4, rank 1 chains = 5" },
      { "sizes", "rank 0 .*filter: all ranks must do the same: rank 0 has islands = 6, rank 1 islands = 3" },
      { "models", "rank 0 .*nuts: all ranks must do the same: rank 0 has the site 'v', rank 1 the site 'mu'" },
      { "data", "rank 0 .*nuts: all ranks must do the same: rank 0 has the log density .* rank 1 the log density" },
      { "scripts", "rank 0 .*: all ranks must do the same: rank 0 has .*, rank 1 islands = 3" },
      { "lists", "rank 0 .*jobs: all ranks must do the same: rank 0 has jobs of check sum %x+, rank 1 jobs of" },
      { "few", "rank %d .*filter: islands must be a whole number .*3 .*got 2" },
      { "raise", "rank 1 .*shared_work.lua:%d+: no transition" },
      { "memory", "rank 1 .*out of memory" },
    }
    local list = {}
    for k, fault in ipairs(faults) do list[k] = { 3, SCRIPT .. fault[1] } end
    local results = job.run_all(list)
    for k, fault in ipairs(faults) do
      local out = results[k].out
      assert(ended(results[k]) and out:find("penumbra: " .. fault[2]), fault[1] .. ": " .. out)
      assert(fault[1] == "few" or select(2, out:gsub("ends the job", "")) == 1, out)
    end
  end)

  -- A rank is killed among islands, jobs lose one of them, and another is killed; then the jobs go on where they stood.
  it("ends when a rank is killed, and finishes jobs, none of them twice", function()
    local files, faults = {}, { "raise", "kill" }
    local list = { { 3, SCRIPT .. "kill" } }
    for k, fault in ipairs(faults) do
      files[k] = { results = os.tmpname(), ran = os.tmpname() }
      list[k + 1] = { 3, ("%sfailing_jobs %s %s %s"):format(SCRIPT, files[k].results, files[k].ran, fault) }
    end
    local first = job.run_all(list)
    local told = { "rank 1.*signal 9", "penumbra: rank 0 .*jobs: 1 of 6 jobs failed; job 4, 4, on rank %d: .*no such",
      "rank %d.*signal 9" }
    for k, text in ipairs(told) do assert(ended(first[k]) and first[k].out:find(text), first[k].out) end
    for k, fault in ipairs(faults) do
      local done, begun = #lines_of(files[k].results), #lines_of(files[k].ran)
      assert(fault == "raise" and done == 5 or fault == "kill" and done < 6, done)
      files[k].done, files[k].begun = done, begun
    end
    local file = io.open(files[2].results, "a")
    file:write '{"job":6,"resu' -- a line that a kill has cut
    file:close()
    list = {}
    for k in ipairs(faults) do
      list[k] = { 2, ("%sfailing_jobs %s %s"):format(SCRIPT, files[k].results, files[k].ran) }
    end
    for k, again in ipairs((job.run_all(list))) do
      assert(again.code == 0 and again.out == "1 4 9 16 25 36\n", again.out)
      assert.equal(6, #lines_of(files[k].results))
      assert.equal(files[k].begun + 6 - files[k].done, #lines_of(files[k].ran)) -- what had a result did not run again
      os.remove(files[k].results)
      os.remove(files[k].ran)
    end
  end)
end)
