--- What scripts beside it keep of their runs: a text file, a line a run, words `name=value`. Those that say which run
--- it is come first, `on` says when it was kept. It does nothing when it is run by itself.
local kept_runs = {}

--- since: by method (or model), the time from which its runs count, "2026-11-27" or "2026-11-27T03:30" (UTC). A script
--- raises it by hand, kept_runs.since.grs = "...", when a change of it or of the library changes what the method gives:
--- runs of before are then read no more, and are made again.
kept_runs.since = {}

--- counts(run): was it kept since then? A run without `on` is older than any time.
function kept_runs.counts(run)
  local since = kept_runs.since[run.method or run.model]
  return not since or (run.on or "") >= since
end

--- now(): what `on` says of a run that is kept now.
function kept_runs.now() return os.date "!%Y-%m-%dT%H:%M" end

--- read(path): a list of tables by name, numbers where they are, of the runs that count; none where there is no file.
function kept_runs.read(path)
  local list, file = {}, path and io.open(path)
  for line in file and file:lines() or function() end do
    local run = {}
    for name, value in line:gmatch "(%S-)=(%S+)" do run[name] = tonumber(value) or value end
    list[#list + 1] = next(run) and kept_runs.counts(run) and run or nil
  end
  if file then file:close() end
  return list
end

--- key(run, names): the values of these names as one text.
function kept_runs.key(run, names)
  local words = {}
  for k, name in ipairs(names) do words[k] = ("%s=%s"):format(name, tostring(run[name])) end
  return table.concat(words, " ")
end

--- keep(path, run, names, scores): appends a run: names say which, scores what came out.
function kept_runs.keep(path, run, names, scores)
  local words = { kept_runs.key(run, names) }
  for _, name in ipairs(scores) do words[#words + 1] = ("%s=%.6g"):format(name, run[name]) end
  local file = assert(io.open(path, "a"))
  file:write(table.concat(words, " "), " on=", kept_runs.now(), "\n")
  file:close()
end

--- grouped(list, names): runs that agree in these names, in the order of the file: {key =, first =, runs...}.
function kept_runs.grouped(list, names)
  local groups = {}
  for _, run in ipairs(list) do
    local key = kept_runs.key(run, names)
    if not groups[key] then
      groups[key] = { key = key, first = run }
      groups[#groups + 1] = groups[key]
    end
    table.insert(groups[key], run)
  end
  return groups
end

--- mean_sd(runs, name): mean and standard deviation over runs (0 of one).
function kept_runs.mean_sd(runs, name)
  local sum, squares = 0, 0
  for _, run in ipairs(runs) do sum = sum + run[name] end
  local mean = sum / #runs
  for _, run in ipairs(runs) do squares = squares + (run[name] - mean) ^ 2 end
  return mean, #runs > 1 and math.sqrt(squares / (#runs - 1)) or 0
end

--- told(form, mean, sd, count): mean and deviation as text, each by the form ("%.3f"); blanks where one run has none.
function kept_runs.told(form, mean, sd, count)
  local text = (form .. " +- " .. form:gsub("%d*%.", ".")):format(mean, sd)
  return count > 1 and text or form:format(mean) .. (" "):rep(#text - #form:format(mean))
end

return kept_runs
