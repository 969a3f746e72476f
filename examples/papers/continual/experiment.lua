--- What the experiments of this folder share: the command line, tables that go to the terminal and to a file, runs that
--- are kept in a file of results and made once, means, paired differences, pictures, the comparison with a page. It
--- does nothing when it is run by itself.
local pn = require "penumbra"
local kept_runs = dofile(debug.getinfo(1, "S").source:match "^@(.*/)" .. "../kept_runs.lua")

--- since: the times from which runs of a method count (kept_runs.lua).
local experiment = { since = kept_runs.since }

local muted = false -- a rank that does not report

-- ---- the command line ----

local function usage(option, message)
  local names = {}
  for name, value in pairs(option) do
    names[#names + 1] = ("  --%s (%s)"):format(name, tostring(value))
  end
  table.sort(names)
  io.stderr:write(message, "; options and their defaults:\n", table.concat(names, "\n"), "\n")
  os.exit(1)
end

-- The words by which the script was called, but for --check.
local function called_again(args)
  local words = {}
  for k = -9, #args do
    if arg[k] and k <= 0 or k > 0 and args[k] ~= "--check" then
      words[#words + 1] = "'" .. (k > 0 and args or arg)[k]:gsub("'", "'\\''") .. "'"
    end
  end
  return table.concat(words, " ")
end

-- Compares the text of a run with the page beside the script, says what differs, and ends the process.
local function judged(text, ok, first)
  local page = (arg[0]:match "^(.*)/[^/]*$" or ".") .. "/README.md"
  local file <close> = io.open(page)
  local r = experiment.compared(file and file:read "a" or "", text, first)
  for _, line in ipairs(r.outside) do print("check: " .. line) end
  print(("check: %d of %d lines with a spread stand on %s; of their %d figures %d are off by more than %g standard "
    .. "errors"):format(r.found, r.lines, page, r.figures, #r.outside, experiment.limit))
  os.exit(ok == true and r.found > 0 and #r.outside == 0)
end

-- Runs the script again without --check and judges the tables that it wrote.
local function check_run(option, args)
  local mark = os.tmpname()
  local ok = os.execute(called_again(args))
  local list = io.popen(("find '%s' -maxdepth 1 -name '*.txt' -newer '%s' | LC_ALL=C sort"):format(option.out, mark))
  local text = {}
  for path in list:lines() do
    local file <close> = assert(io.open(path))
    text[#text + 1] = file:read "a"
  end
  list:close()
  os.remove(mark)
  judged(table.concat(text), ok)
end

--- checked(args): for a script that reads its options by itself and prints its results: where --check is among args,
--- runs it again without, judges what it printed by the lines of the page beside it that begin alike, and ends the
--- process.
function experiment.checked(args)
  local asked = false
  for _, word in ipairs(args or {}) do asked = asked or word == "--check" end
  if not asked then return end
  local pipe, text = assert(io.popen(called_again(args))), {}
  for line in pipe:lines() do
    text[#text + 1] = line
    print(line)
  end
  judged(table.concat(text, "\n"), pipe:close(), true)
end

--- options(defaults, quick [, args]): the table of defaults with what `--name value` says. Of a default that is false
--- `--name` alone makes true; give "" where a text may be missing. `quick` holds what other defaults --quick means. All
--- scripts have --quick, --out (the folder for tables and pictures), --pictures (svg, png or pdf), --threads (1) and
--- --check, which compares the tables of the run (with --show: of the results that are kept) with those on README.md
--- beside the script: experiment.compared. With --ranks, under mpirun -n 3 or more, runs are shared out over ranks
--- (pn.jobs); rank 0 reports.
function experiment.options(defaults, quick, args)
  io.stdout:setvbuf "line"
  local option, given, i = { quick = false, out = ".", pictures = "svg", threads = 1, check = false, ranks = false },
    {}, 1
  for name, value in pairs(defaults) do option[name] = value end
  args = args or arg or {}
  while args[i] do
    local name = args[i]:match "^%-%-([%w_]+)$"
    if name == nil or option[name] == nil then
      usage(option, "unknown option " .. args[i])
    elseif option[name] == false then
      given[name] = true
    else
      i = i + 1
      local value = args[i]
      if type(option[name]) == "number" then
        value = tonumber(value)
        value = math.tointeger(value) or value
      end
      if value == nil then usage(option, "--" .. name .. " needs a value") end
      given[name] = value
    end
    i = i + 1
  end
  for name, value in pairs(given.quick and quick or {}) do option[name] = value end
  for name, value in pairs(given) do option[name] = value end
  if option.check then check_run(option, args) end
  muted = option.ranks and pn.mpi.rank() > 0
  pn.threads(option.threads)
  return option
end

--- words(text): the list of words parted by commas; numbers as numbers.
function experiment.words(text)
  local list = {}
  for word in tostring(text):gmatch "[^,]+" do
    list[#list + 1] = math.tointeger(tonumber(word)) or tonumber(word) or word
  end
  return list
end

--- only(name): is this the script that is run, not one that loads it?
function experiment.only(name)
  return arg and arg[0] and arg[0]:match "([^/]+)$" == name
end

-- ---- the page beside a script ----

experiment.limit = 3 -- standard errors

-- A line's figures, {value =, digit = half of the last one printed, spread = what stands behind +-}, and its words with
-- # for each figure; third those up to the last figure with a spread, if there is one.
local function parts_of(line)
  local figures, words, after, told = {}, {}, false, nil
  for word in line:gmatch "[^%s|]+" do
    local text = word:match "^[(%[]*([+-]?%d*%.?%d+[eE]?[+-]?%d*)[,;:)%]%%]*$"
    if word == "+-" then
      after = true
    elseif text and tonumber(text) then
      local digit = 0.5 * 10.0 ^ -#(text:match "%.(%d*)" or "")
      if after and #figures > 0 then
        figures[#figures].spread, told = tonumber(text), #words
      else
        figures[#figures + 1] = { value = tonumber(text), digit = digit }
        words[#words + 1] = "#"
      end
      after = false
    else
      words[#words + 1], after = word, false
    end
  end
  return figures, table.concat(words, " "), told and table.concat(words, " ", 1, told)
end

-- The figures to which the page b gives a spread and that are further apart than both spreads explain.
local function off_by(a, b)
  local list, distance = {}, 0
  for k, g in ipairs(b) do
    local f = a[k]
    if not f then break end
    local scale = math.sqrt((f.spread or 0) ^ 2 + (g.spread or 0) ^ 2)
    if g.spread and math.abs(f.value - g.value) > experiment.limit * scale + f.digit + g.digit then
      list[#list + 1] = ("%g +- %g, on the page %g +- %g"):format(f.value, f.spread or 0, g.value, g.spread)
    end
    distance = distance + math.abs(f.value - g.value) / (math.abs(f.value) + math.abs(g.value) + 1e-300)
  end
  return list, distance
end

-- The lines of a page that say the same as a line of a report with these words.
local function alike(lines, words, first)
  local list = {}
  for _, line in ipairs(lines) do
    local begins = first and line.told:find "%a" and words:sub(1, #line.told) == line.told
      and (#words == #line.told or words:sub(#line.told + 1, #line.told + 1) == " ")
    if begins or line.words == words then list[#list + 1] = line.figures end
  end
  return list
end

local function count_told(figures)
  local count = 0
  for _, f in ipairs(figures) do count = count + (f.spread and 1 or 0) end
  return count
end

--- compared(page, report [, first]): the lines of a report in which a figure has a spread (1.23 +- 0.04), there or on
--- the page, each with the line of the page that has the same words (with `first`: the same ones up to the last figure
--- to which the page gives a spread); where several have, with the nearest. Gives {lines =, found = (on the page),
--- figures = (with a spread, of these), outside = list of texts: what is further apart than experiment.limit (3)
--- standard errors of both}. Figures to which the page gives no spread are not judged.
function experiment.compared(page, report, first)
  local lines, r = {}, { lines = 0, found = 0, figures = 0, outside = {} }
  for line in page:gmatch "[^\n]+" do
    local figures, words, told = parts_of(line)
    lines[#lines + 1] = count_told(figures) > 0 and { figures = figures, words = words, told = told } or nil
  end
  for line in report:gmatch "[^\n]+" do
    local figures, words = parts_of(line)
    local best, least, count = nil, { math.huge, math.huge }, 0
    for _, other in ipairs(alike(lines, words, first)) do
      local list, distance = off_by(figures, other)
      if #list < least[1] or #list == least[1] and distance < least[2] then
        best, least, count = list, { #list, distance }, count_told(other)
      end
    end
    r.lines, r.found = r.lines + ((best or count_told(figures) > 0) and 1 or 0), r.found + (best and 1 or 0)
    r.figures = r.figures + count
    for _, text in ipairs(best or {}) do r.outside[#r.outside + 1] = words:match "^[^#]*" .. text end
  end
  return r
end

-- ---- tables and pictures ----

--- report(option, name): a function that writes a line, given as string.format wants it, to the terminal and to the
--- file name.txt in the folder of the options, which starts empty.
function experiment.report(option, name)
  if muted then return function() end end
  local path = ("%s/%s.txt"):format(option.out, name)
  assert(io.open(path, "w")):close()
  return function(form, ...)
    local line = form:format(...):gsub(" +$", "") .. "\n"
    io.write(line)
    io.flush()
    local file = assert(io.open(path, "a"))
    file:write(line)
    file:close()
  end
end

--- picture(option, name, panels [, more]): pn.plot.save into the folder of the options, and a line that says so.
function experiment.picture(option, name, panels, more)
  if muted then return end
  local saved, message = pn.plot.save(("%s/%s.%s"):format(option.out, name, option.pictures), panels, more)
  print(saved and "wrote " .. saved or "no picture: " .. message)
end

-- ---- numbers ----

--- moments(list): mean, standard deviation and standard error of the mean of a list of numbers.
function experiment.moments(list)
  local n, sum, squares = #list, 0, 0
  for _, v in ipairs(list) do sum = sum + v end
  for _, v in ipairs(list) do squares = squares + (v - sum / n) ^ 2 end
  local sd = n > 1 and math.sqrt(squares / (n - 1)) or 0
  return n > 0 and sum / n or 0 / 0, sd, n > 0 and sd / math.sqrt(n) or 0
end

--- paired(a, b): mean and standard error of a - b over the keys that both tables have, and their number.
function experiment.paired(a, b)
  local list = {}
  for key, value in pairs(a) do
    list[#list + 1] = b[key] and value - b[key]
  end
  local mean, _, error_of_mean = experiment.moments(list)
  return mean, error_of_mean, #list
end

-- ---- runs in a file: one a line, "name=value" each ----

-- The text of a value: numbers shortened, lists parted by commas.
local function text_of(value)
  if type(value) == "table" then
    local list = {}
    for k, v in ipairs(value) do list[k] = text_of(v) end
    return table.concat(list, ",") .. ","
  elseif math.type(value) == "float" then
    return ("%.6g"):format(value)
  end
  return (tostring(value):gsub("[%s=,]", "_"))
end

local function line_of(record, order)
  local words, names = {}, {}
  for _, name in ipairs(order) do
    words[#words + 1] = name .. "=" .. text_of(record[name])
    names[name] = true
  end
  local rest = {}
  for name in pairs(record) do
    if not names[name] then rest[#rest + 1] = name end
  end
  table.sort(rest)
  for _, name in ipairs(rest) do words[#words + 1] = name .. "=" .. text_of(record[name]) end
  return table.concat(words, " ")
end

--- read(path): the list of runs in a file that count, tables of numbers, texts and lists; empty where there is no file.
function experiment.read(path)
  local list, file = {}, io.open(path)
  for line in file and file:lines() or function() end do
    local record = {}
    for name, text in line:gmatch "(%S+)=(%S*)" do
      record[name] = text:find "," and experiment.words(text) or math.tointeger(tonumber(text)) or tonumber(text)
        or text
    end
    list[#list + 1] = next(record) and kept_runs.counts(record) and record or nil
  end
  if file then file:close() end
  return list
end

local function is_of(record, job)
  for name, value in pairs(job) do
    if text_of(record[name]) ~= text_of(value) then return false end
  end
  return true
end

--- find(list, job): the runs of a list that have all values of the table `job`.
function experiment.find(list, job)
  local found = {}
  for _, record in ipairs(list) do
    found[#found + 1] = is_of(record, job) and record or nil
  end
  return found
end

-- find for many jobs: a function of the job, which looks each up by the texts of its values.
local function finder(list)
  local by_names = {}
  return function(job)
    local names = {}
    for name in pairs(job) do names[#names + 1] = name end
    table.sort(names)
    local function key_of(record)
      local texts = {}
      for k, name in ipairs(names) do texts[k] = text_of(record[name]) end
      return table.concat(texts, "\n")
    end
    local kind = table.concat(names, " ")
    local by_key = by_names[kind]
    if not by_key then
      by_key = {}
      for _, record in ipairs(list) do
        local key = key_of(record)
        by_key[key] = by_key[key] or {}
        table.insert(by_key[key], record)
      end
      by_names[kind] = by_key
    end
    return by_key[key_of(job)] or {}
  end
end

-- A job done and its line added to the file.
local function kept(o, path, job, record)
  for name, value in pairs(job) do record[name] = value end
  record.on = kept_runs.now()
  local file = assert(io.open(path, "a"))
  file:write(line_of(record, o.order), "\n")
  file:close()
end

local function timed(run, job)
  local began = os.time()
  local record = run(job)
  record.minutes = (os.time() - began) / 60
  return record
end

local function is_there(path, job) return #experiment.find(experiment.read(path), job) > 0 end

-- The same over ranks: rank 0 hands the jobs out and writes.
local function runs_over_ranks(o, path)
  assert(o.option.results ~= "", "--ranks needs a file of results")
  pn.jobs { jobs = o.jobs, distributed = true, run = function(job) return timed(o.run, job) end,
    skip = function(job) return is_there(path, job) end,
    keep = function(job, record) kept(o, path, job, record) end }
end

--- runs{option = options, jobs = list of tables, run = function, order = names}: calls run(job) for each job of which
--- the file option.results has no line yet and appends one, the job's values and those of the table that run returns.
--- Stopped, it goes on where it stood. option.part "2/3": of three processes on one file the second, which takes every
--- third job; option.ranks: over the ranks of mpirun; option.show: nothing is run; option.results "": no file is kept.
--- Returns all runs of these jobs.
function experiment.runs(o)
  local mine, parts = tostring(o.option.part):match "^(%d+)/(%d+)$"
  assert(mine, "part must be as 1/2")
  local path = o.option.results ~= "" and o.option.results or os.tmpname()
  local known, all = {}, {}
  if o.option.ranks and not o.option.show then runs_over_ranks(o, path) end
  for k, job in ipairs((o.option.show or o.option.ranks) and {} or o.jobs) do
    if (k - mine) % parts == 0 and not is_there(path, job) then kept(o, path, job, timed(o.run, job)) end
  end
  local list = experiment.read(path)
  if o.option.results == "" then os.remove(path) end
  local find = finder(list)
  for _, job in ipairs(o.jobs) do
    for _, record in ipairs(find(job)) do
      all[#all + 1] = not known[record] and record or nil
      known[record] = true
    end
  end
  return all
end

-- ---- a learner on a stream (streams.lua) ----

--- Methods by name: how a memory is chosen and the Gaussian part updated. The first three are those of the document's
--- table 1, the next two its ablations (figure 8), then other scores and their ablations, no memory, and one step on
--- all rows of a stream at once (which the caller gives so: streams.whole).
experiment.methods = {
  grs = { update = "sites", select = "residual" },
  k_center = { update = "refit", select = "k_center" },
  random = { update = "refit", select = "random" },
  grs_k_center = { update = "sites", select = "k_center" },
  grs_refit = { update = "refit", select = "residual" },
  grs_absolute = { update = "sites", select = "residual", score = "absolute" },
  grs_centred = { update = "sites", select = "residual", score = "centred" },
  grs_absolute_refit = { update = "refit", select = "residual", score = "absolute" },
  grs_centred_refit = { update = "refit", select = "residual", score = "centred" },
  none = {},
  offline = {},
}

--- choice(streams, name, option): the settings of a set that the document leaves open, streams.chosen, but for what
--- option.lr (not 0), .activation and .noise (not "") and .prior_units say.
function experiment.choice(streams, name, option)
  local c = {}
  for key, value in pairs(streams.chosen[name]) do c[key] = value end
  c.lr = option.lr > 0 and option.lr or c.lr
  c.activation = option.activation ~= "" and option.activation or c.activation
  if c.noise and option.noise ~= "" then c.noise = tonumber(option.noise) or option.noise end
  c.prior_units = option.prior_units
  return c
end

--- size(streams, name, option): {draws =, sites =, first =, later =, predict =}: those of the options, the first four
--- where option.size is "document" the document's.
function experiment.size(streams, name, option)
  local from, size = option.size == "document" and streams.sets[name].document or option, { predict = option.predict }
  for _, key in ipairs { "draws", "sites", "first", "later" } do size[key] = from[key] end
  return size
end

--- suffix(option): what else tells runs apart: data that are made up (--show alone shows what real ones gave), and
--- streams that were to end after so many steps.
function experiment.suffix(option)
  return ((option.data ~= "" or option.show) and "" or "-made-up")
    .. (option.steps < 100000 and "-first-" .. option.steps or "")
end

--- described(size, choice): both as texts, by which runs are told apart in a file of results.
function experiment.described(size, choice)
  return ("%d-%d-%d-%d"):format(size.draws, size.sites, size.first, size.later)
    .. (size.predict == 500 and "" or "-" .. size.predict), ("%s-%g-%s%s"):format(choice.activation, choice.lr,
    tostring(choice.noise or ""), choice.prior_units and "-prior_units" or "")
end

--- network(inputs, hidden, outputs, activation [, dtype]): linear layers with the activation between them.
function experiment.network(inputs, hidden, outputs, activation, dtype)
  local sizes = { inputs, table.unpack(hidden) }
  sizes[#sizes + 1] = outputs
  return pn.nn.mlp(sizes, { activation = activation, dtype = dtype })
end

--- learner(stream, {method =, memory =, seed =, size =, choice =, forget =}): a pn.continual.learner for the stream.
--- size: {draws =, sites =, first =, later =, predict =}; choice: {activation =, lr =, noise =, prior_units =}, where
--- noise is a number or "learned".
function experiment.learner(stream, o)
  local method, set, size, choice = experiment.methods[o.method], stream.set, o.size, o.choice
  local noise = set.likelihood == "normal" and (choice.noise == "learned" and { learn = true, initial = 0.3 }
    or choice.noise) or nil
  return pn.continual.learner {
    network = experiment.network(stream.inputs, set.hidden, stream.outputs, choice.activation, stream.x:dtype()),
    likelihood = set.likelihood, noise = noise, forget = o.forget, seed = o.seed,
    memory = method.select and o.memory > 0 and { size = o.memory, select = method.select,
      score = method.score } or nil,
    update = method.update, draws = { train = size.draws, sites = size.sites, predict = size.predict or 500 },
    steps = { first = size.first, later = size.later },
    optimiser = { lr = choice.lr, prior_units = choice.prior_units },
  }
end

--- follow(streams, stream, learner [, {steps =, told =}]): observes the batches of a stream, told(k, learner, report)
--- after each; gives {curve, ahead, clipped, unconverged}: the mean log predictive density of the test rows after each
--- step (where there are any) and of each batch before it was learned, and how often guards had to act.
function experiment.follow(streams, stream, learner, o)
  o = o or {}
  local result = { curve = {}, ahead = {} }
  for k = 1, math.min(stream.num_steps, o.steps or stream.num_steps) do
    local x, y = streams.batch(stream, k)
    local report = learner:observe(x, y, k - 1)
    result.ahead[k] = report.log_predictive_before
    if stream.test_x then
      result.curve[k] = learner:log_predictive(stream.test_x, stream.test_y):mean():item()
    end
    if o.told then o.told(k, learner, report) end
  end
  result.clipped, result.unconverged = learner.counts.clipped, learner.counts.unconverged
  result.noise = learner.noise_scale or 0
  return result
end

--- last_mean(list, share): the mean of the last share of a list, of at least one.
function experiment.last_mean(list, share)
  local from, sum = #list - math.max(1, math.floor(#list * share + 0.5)) + 1, 0
  for k = from, #list do sum = sum + list[k] end
  return sum / (#list - from + 1)
end

return experiment
