--- Jobs that do not need each other, over the ranks of mpirun and over interruptions: seeds and settings of an
--- experiment, folds, replicas of a simulation.
---
---     local list = pn.jobs {jobs = {{seed = 1}, {seed = 2}, {seed = 3}}, results = "runs.json", distributed = true,
---       run = function(job) pn.seed(job.seed) return {loss = train(job.seed)} end}
---     print(list[2].loss)
---
--- As one process the jobs run in order. With distributed = true under mpirun rank 0 hands them out, one at a time to
--- whoever is free, and writes down what comes back; the other ranks run them (start one rank more than processors:
--- rank 0 sleeps between messages). A line is added to the file of results as each job ends, and the jobs that have one
--- are not run again: after a kill, of a rank or of all, the same command goes on where it stood, on any number of
--- ranks.
---
--- A job draws from a stream of the default generator of its own, by its place in the list: what it draws does not
--- depend on who runs it, or on what was run before.
---
--- A job that raises does not stop the others. When all are done jobs raises, once, with the job, the rank and the
--- cause of the first and the number of all; it has no result, so that the next start runs it again.
-- help: pn
local core = require "penumbra.core"
local mpi = require "penumbra.mpi"
local options = require "penumbra.options"
local progress = require "penumbra.progress"
local ranks = require "penumbra.ranks"

local jobs = {}

local TAG = 32000 -- of messages between rank 0 and the others
local MOST_DEEP = 100

-- ---- JSON, one value a line ----

local escapes = { ['"'] = '\\"', ["\\"] = "\\\\" }

local function text_of(s)
  return '"' .. s:gsub('[%c"\\]', function(c) return escapes[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
end

local json

local function of_list(v, depth)
  local list = {}
  for k = 1, #v do list[k] = json(v[k], depth + 1) end
  return "[" .. table.concat(list, ",") .. "]"
end

local function of_object(v, depth)
  local names = {}
  for name in pairs(v) do
    if type(name) ~= "string" then
      core.error(("jobs: jobs and results are made of lists and of tables by name, got the key %s"):format(
        tostring(name)))
    end
    names[#names + 1] = name
  end
  table.sort(names)
  for k, name in ipairs(names) do names[k] = text_of(name) .. ":" .. json(v[name], depth + 1) end
  return "{" .. table.concat(names, ",") .. "}"
end

-- A value as JSON, names in order; NaN as null, which is read as NaN.
function json(v, depth)
  if type(v) == "string" then
    return text_of(v)
  elseif type(v) == "boolean" then
    return tostring(v)
  elseif type(v) == "number" then
    if v ~= v then return "null" end
    return v == math.huge and "1e999" or v == -math.huge and "-1e999" or v == 0 and "0"
      or math.type(v) == "integer" and ("%d"):format(v) or ("%.17g"):format(v)
  elseif type(v) ~= "table" or getmetatable(v) or depth > MOST_DEEP then
    core.error(("jobs: jobs and results are made of numbers, texts, booleans and tables of these, got %s"):format(
      core.is_tensor(v) and "a tensor (t:item() or t:totable())" or type(v) == "table" and "a deep table or an object"
      or type(v)))
  end
  return (#v > 0 or next(v) == nil) and of_list(v, depth) or of_object(v, depth)
end

-- ---- the file of results ----

-- A line that a kill has cut short is taken away.
local function mend(path)
  local file = io.open(path, "rb")
  local text = file and file:read "a" or ""
  if file then file:close() end
  if text == "" or text:sub(-1) == "\n" then
    return
  end
  local new, message = io.open(path .. ".new", "wb")
  if new then
    local ok = new:write((text:match "^.*\n" or "")) and new:close()
    if ok and os.rename(path .. ".new", path) then
      return
    end
  end
  core.error(("jobs: %s could not be mended: %s"):format(path, message or "it could not be written"))
end

local function exists(path)
  local file = io.open(path)
  return file ~= nil and file:close()
end

-- Results by the job's text.
local function read(path)
  local known = {}
  mend(path)
  if not exists(path) then
    return known
  end
  local lines, message = core.files.json(path, true)
  if not lines then
    core.error("jobs: results: " .. message)
  end
  for k, line in ipairs(lines) do
    if type(line) ~= "table" or line.job == nil or line.result == nil then
      core.error(("jobs: results: line %d of %s is not a job and its result"):format(k, path))
    end
    known[json(line.job, 0)] = { line.result }
  end
  return known
end

local function append(path, line)
  local file, message = io.open(path, "ab")
  local ok = file and file:write(line, "\n") and file:close()
  if not ok then
    core.error(("jobs: results: %s could not be written: %s"):format(path, message or "is there room?"))
  end
end

-- ---- one job ----

-- Runs job k: {k =, result =, line =} or {k =, message =}. An interruption is no job's fault.
local function run_one(self, k)
  local before, clock = core.rng_state(), core.clock()
  core.set_rng_state(self.root:split(k - 1):state())
  local job = self.list[k]
  local ok, result = pcall(function()
    local value = self.run(job, k)
    return { k = k, result = value, line = ('{"job":%s,"result":%s,"rank":%d,"seconds":%.6g}'):format(self.texts[k],
      json(value, 0), self.team.rank, core.clock() - clock) }
  end)
  core.set_rng_state(before)
  if not ok and tostring(result):find "interrupted$" then
    error(result, 0)
  end
  return ok and result or { k = k, message = tostring(result) }
end

-- What has come back, on rank 0.
local function take(self, back, from)
  if back.message then
    self.failures[#self.failures + 1] = { k = back.k, message = back.message, rank = from }
  else
    if self.results then
      append(self.results, back.line)
    end
    if self.keep then
      self.keep(self.list[back.k], back.result, back.k)
    end
    self.got[back.k] = { back.result }
  end
  if self.bar then
    self.bar:step(1, "failed", #self.failures)
  end
end

-- ---- over ranks ----

local function hand_out(self, pending)
  local at, left = 0, self.team.size - 1
  while left > 0 do
    local back, from = mpi.receive_value(nil, TAG)
    if back.k then
      take(self, back, from)
    end
    at = at + 1
    left = pending[at] and left or left - 1
    mpi.send_value(pending[at] or false, from, TAG)
  end
end

local function work(self)
  local back = {}
  while true do
    mpi.send_value(back, 0, TAG)
    local k = mpi.receive_value(0, TAG)
    if not k then
      return
    end
    back = run_one(self, k)
  end
end

-- A job may take as long as it likes: who waits here is ended with the others if a rank ends.
local function over_ranks(self, pending)
  local before = mpi.timeout()
  mpi.timeout(0)
  local ok, message
  if self.team.rank == 0 then
    ok, message = pcall(hand_out, self, pending)
  else
    ok, message = pcall(work, self)
  end
  mpi.timeout(before)
  if not ok then
    error(message, 0)
  end
end

-- ---- all of them ----

local function list_of(given)
  if math.type(given) == "integer" then
    local count, list = options.whole("jobs", "jobs", given, 1), {}
    for k = 1, count do list[k] = k end
    return list
  end
  return options.argument("jobs", "jobs", given, "table")
end

local function texts_of(list)
  local texts, seen = {}, {}
  for k, job in ipairs(list) do
    texts[k] = json(job, 0)
    if seen[texts[k]] then
      core.error(("jobs: jobs %d and %d are the same, %s: results are known by their jobs"):format(seen[texts[k]], k,
        texts[k]))
    end
    seen[texts[k]] = k
  end
  return texts
end

-- By which ranks see that they have the same jobs (FNV-1a).
local function check_sum(texts)
  local sum = -3750763034362895579
  for _, text in ipairs(texts) do
    for k = 1, #text do sum = (sum ~ text:byte(k)) * 1099511628211 end
  end
  return ("jobs of check sum %016x"):format(sum)
end

local function told(self, path)
  local first = self.failures[1]
  for _, f in ipairs(self.failures) do
    first = f.k < first.k and f or first
  end
  return ("jobs: %d of %d jobs failed; job %d, %s, on rank %d: %s%s"):format(#self.failures, #self.list, first.k,
    self.texts[first.k], first.rank, first.message, path and " (the others' results are in " .. path
    .. ": the same again runs what failed)" or "")
end

-- The places of jobs without a result; only rank 0 reads.
local function pending_of(self, o)
  local known, pending = o.results and read(o.results) or {}, {}
  for k, job in ipairs(self.list) do
    self.got[k] = known[self.texts[k]]
    if not self.got[k] and not (o.skip and o.skip(job, k)) then
      pending[#pending + 1] = k
    end
  end
  return pending
end

--- jobs{jobs =, run =, ...}: a list of what run gave, in the order of the jobs (pn.help "penumbra.jobs").
---
--- jobs         a list of numbers, texts or tables of these, no two alike; a number n: 1 to n
--- run(job, k)  does job k and gives what is to be kept: numbers, texts, booleans, lists and tables by name of these
--- results      path of a file with a line of JSON, {"job":, "result":, "rank":, "seconds":}, for each job that is
---              done; without it nothing outlasts the process
--- distributed  true: over the ranks of mpirun. All have the list at the end
--- skip(job, k), keep(job, result, k)     of results that the script keeps itself, called on rank 0: is it there? And:
---              here it is. Of jobs that are skipped the list has nothing
--- progress     true for a line on standard error, or a file
function jobs.jobs(given)
  local o = options.check("jobs", given, { jobs = options.any(), run = options.required "function",
    results = options.optional "string", distributed = false, skip = options.optional "function",
    keep = options.optional "function", progress = options.any(false) })
  local list = list_of(o.jobs)
  if o.results and not core.files then
    core.error "jobs: results: this script may open no files"
  end
  local self = { list = list, texts = texts_of(list), run = o.run, results = o.results, keep = o.keep, failures = {},
    got = {}, team = ranks.team("jobs", o.distributed), root = core.generator(core.randint(0, 1 << 53, {}):item()) }
  self.team:agree { #list .. " jobs", check_sum(self.texts), "seed " .. self.root:state()[1] }
  local first = self.team.rank == 0
  local pending = first and pending_of(self, o) or {}
  local bar <close> = progress.asked(first and o.progress, { total = #list, done = #list - #pending, label = "jobs" })
  self.bar = bar
  if self.team.size > 1 then
    over_ranks(self, pending)
    self.failures, self.got = table.unpack(mpi.broadcast_value(first and { self.failures, self.got } or nil))
  else
    for _, k in ipairs(pending) do take(self, run_one(self, k), 0) end
  end
  if #self.failures > 0 then
    self.team:fail(told(self, o.results))
  end
  local out = {}
  for k = 1, #list do out[k] = self.got[k] and self.got[k][1] end
  return out
end

return jobs
