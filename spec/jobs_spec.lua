--- pn.jobs in one process: what is kept, what is run again, and what is refused. (spec/mpi has it over ranks.)
local pn = require "penumbra"
local helper = require "spec.helper"

local function text_of(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function put(path, text)
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
end

describe("jobs", function()
  local path
  before_each(function() path = os.tmpname() end)
  after_each(function() os.remove(path) end)

  local JOBS = { { seed = 1, name = 'a "b"\n\\' }, { seed = 2, lr = 0.1 }, { seed = 3, sizes = { 1, 2.5, -1 / 0 } } }
  local function run(more)
    local ran = {}
    local o = { jobs = JOBS, results = path, run = function(job, k)
      ran[#ran + 1] = k
      return { seed = job.seed, x = pn.rand({}):item(), missing = 0 / 0, list = { k, { deep = true } }, none = {} }
    end }
    for key, value in pairs(more or {}) do o[key] = value end
    pn.seed(4)
    return pn.jobs(o), ran
  end

  it("come back in order, from the file alone, to the bit", function()
    local first, ran = run()
    assert.same({ 1, 2, 3 }, ran)
    local again
    again, ran = run()
    assert.same({}, ran)
    for k, r in ipairs(first) do
      assert.equal(k, r.seed)
      assert(r.x == again[k].x and again[k].missing ~= again[k].missing)
      assert.same(r.list, again[k].list)
      assert.same({}, again[k].none)
    end
    assert.equal(3, select(2, text_of(path):gsub("\n", "")))
    assert.equal(3, #assert(pn.data.json(path, { lines = true }))) -- each line is JSON
  end)

  it("draw what their place in the list says, whatever ran before", function()
    local first = run()
    assert(first[1].x ~= first[2].x and first[2].x ~= first[3].x)
    local lines = {}
    for line in text_of(path):gmatch "[^\n]+\n" do lines[#lines + 1] = line end
    put(path, lines[3] .. lines[1]:sub(1, 20)) -- the first one cut by a kill, the second lost
    local file <close> = io.tmpfile()
    local again, ran = run { progress = file }
    assert.same({ 1, 2 }, ran)
    for k = 1, 3 do assert.equal(first[k].x, again[k].x) end
    file:seek "set"
    assert.matches("^jobs  100 %%  3/3  ", file:read "a") -- those that were done before count
    assert.equal(3, select(2, text_of(path):gsub("\n", "")))
    pn.seed(5)
    os.remove(path)
    local before = pn.rng_state()
    assert.same({ 1, 1 }, { pn.jobs { jobs = 2, run = function() return 1 end }[2], 1 })
    assert.equal(before[1], pn.rng_state()[1])
  end)

  it("go on after one that raises, which is told once and runs again", function()
    local function failing(job, k)
      if k ~= 1 then error("no " .. job.seed, 0) end
      return k
    end
    helper.refuses('jobs: 2 of 3 jobs failed; job 2, {"lr":0.10000000000000001,"seed":2}, on rank 0: no 2', run,
      { run = failing })
    local list, ran = run()
    assert.same({ 2, 3 }, ran)
    assert.equal(1, list[1])
  end)

  it("are kept by the script where it wants to", function()
    local kept = {}
    local list = pn.jobs { jobs = { "a", "b", "c" }, run = function(name) return name .. name end,
      skip = function(name) return name == "b" end, keep = function(job, result, k) kept[k] = job .. result end }
    assert.same({ "aa", nil, "cc" }, list)
    assert.same({ "aaa", nil, "ccc" }, kept)
  end)

  it("say what is wrong", function()
    local function job(more)
      local o = { jobs = 2, run = function() return 1 end }
      for key, value in pairs(more) do o[key] = value end
      return pn.jobs(o)
    end
    helper.refuses("jobs: jobs 1 and 3 are the same, 7", job, { jobs = { 7, 8, 7 } })
    helper.refuses("got a tensor", job, { jobs = { pn.ones { 2 } } })
    helper.refuses("jobs: 2 of 2 jobs failed; job 1, 1, on rank 0: ", job, { run = function() return print end })
    helper.refuses("got the key 2", job, { run = function() return { [2] = 1 } end })
    helper.refuses("jobs: jobs must be a whole number from 1", job, { jobs = 0 })
    put(path, '{"job":1,"result":2}\nno line\n')
    helper.refuses("jobs: results: ", job, { results = path })
    put(path, '{"job":1}\n')
    helper.refuses("line 1 of " .. path .. " is not a job and its result", job, { results = path })
    helper.refuses("could not be written", job, { results = path .. "/in_a_file" })
    local cyclic = {}
    cyclic[1] = cyclic
    helper.refuses("a deep table", job, { jobs = { cyclic } })
  end)
end)
