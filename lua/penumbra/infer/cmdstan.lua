--- What CmdStan writes: a CSV file a chain, with the configuration, what adaptation found and times as comments.
---
---     local p = assert(pn.infer.cmdstan { "out_1.csv", "out_2.csv", "out_3.csv", "out_4.csv" })
---     print(p)                             the summary, with what speaks against the draws
---     p.draws.theta                        [chains, draws, ...], of theta.1, theta.2 or theta[1,2]
---     p.adaptation[1].step_size            of the first chain; .inverse_metric [n], or [n, n] where it is dense
---     p.config[1].num_samples              what its comments say
---     p.warmup_draws.draws.theta           where save_warmup was on; .statistics, too
-- help: pn.infer
local core = require "penumbra.core"
local form = require "penumbra.form"
local options = require "penumbra.options"
local posterior = require "penumbra.infer.posterior"

local cmdstan = {}

local files = core.files or setmetatable({}, { __index = function(_, name)
  core.error(name .. ": this script may not open files")
end })

local MOST_AXES = 6 -- of a variable; chains and draws stand before them

-- Raises within form.guarded.
local function refuse(text, ...) error((text):format(...), 0) end

-- ---- comments ----

local METRIC = { ["Diagonal elements of inverse mass matrix"] = 1, ["Elements of inverse mass matrix"] = 2 }

-- The numbers of a line of comment, nil where it is something else.
local function numbers_in(line)
  local list = {}
  for word in line:gmatch "[^,%s]+" do
    list[#list + 1] = tonumber(word)
    if not list[#list] or #list == 0 then
      return nil
    end
  end
  return #list > 0 and list or nil
end

-- The matrix or diagonal that begins after line k; nil where its lines do not make one.
local function metric_after(lines, k, axes)
  local rows = {}
  for i = k + 1, #lines do
    local row = numbers_in(lines[i])
    if not row or rows[1] and #row ~= #rows[1] then
      break
    end
    rows[#rows + 1] = row
    if #rows == #row then
      break
    end
  end
  if #rows == 0 or axes == 2 and #rows ~= #rows[1] then
    return nil
  end
  return core.tensor(axes == 1 and rows[1] or rows, { dtype = "float64" })
end

-- "# num_samples = 1000 (Default)" and the like by name; step size and metric; seconds of the whole run, nil where it
-- has not ended.
local function read_comments(path)
  local lines, message, code = files.load_lines(path, "#")
  if not lines then
    return nil, message, code
  end
  local config, adaptation, seconds = {}, {}, nil
  for k, line in ipairs(lines) do
    lines[k] = line:gsub("^#%s*", ""):gsub("%s+$", "")
  end
  for k, line in ipairs(lines) do
    local name, value = line:match "^([%a_][%w_]*)%s*=%s*(.-)$"
    local found = line:match "^(.-):?$"
    if name then
      value = value:gsub("%s*%(Default%)$", "")
      config[name] = math.tointeger(tonumber(value)) or tonumber(value) or value
    elseif METRIC[found] then
      adaptation.inverse_metric = metric_after(lines, k, METRIC[found])
    end
    adaptation.step_size = tonumber(line:match "^Step size%s*=%s*(%S+)$") or adaptation.step_size
    seconds = tonumber(line:match "([%d.eE+-]+) seconds %(Total%)") or seconds
  end
  return { config = config, adaptation = adaptation, seconds = seconds }
end

-- ---- names of columns ----

-- "theta.2.1", "theta[2,1]" and "z.2.1.real" as a name and a list of indices.
local function parts_of(name)
  local suffix = name:match "%.real$" or name:match "%.imag$" or ""
  local whole = name:sub(1, #name - #suffix)
  local base, inside = whole:match "^([^%[%]]+)%[([%d,%s]+)%]$"
  if not base then
    base, inside = whole:match "^(.-)%.([%d.]+)$"
  end
  local indices = {}
  for digits in (inside or ""):gmatch "%d+" do
    local i = math.tointeger(tonumber(digits))
    if not i or i < 1 then
      return name, {}
    end
    indices[#indices + 1] = i
  end
  return (base or whole) .. suffix, indices
end

-- Columns as variables in order: {name =, shape =, columns = list of columns in row-major order}.
local function variables_of(names)
  local list, known = {}, {}
  for column, name in ipairs(names) do
    local base, indices = parts_of(name)
    local v = known[base]
    if not v then
      v = { name = base, shape = {}, entries = {} }
      known[base], list[#list + 1] = v, v
      for k in ipairs(indices) do v.shape[k] = 0 end
    end
    if #indices ~= #v.shape or #indices > MOST_AXES then
      refuse("column '%s' has %d indices, another of '%s' %d (at most %d are possible)", name, #indices, base, #v.shape,
        MOST_AXES)
    end
    for k, i in ipairs(indices) do v.shape[k] = math.max(v.shape[k], i) end
    v.entries[#v.entries + 1] = { column = column, indices = indices }
  end
  return list
end

-- Where each entry of a variable stands, row by row; each place has one column.
local function ordered(v)
  local n, columns = 1, {}
  for _, size in ipairs(v.shape) do
    n = size <= #v.entries // n and n * size or #v.entries + 1
  end
  if n ~= #v.entries then
    refuse("'%s' of shape [%s] has %d columns", v.name, table.concat(v.shape, ", "), #v.entries)
  end
  for _, entry in ipairs(v.entries) do
    local place = 0
    for k, i in ipairs(entry.indices) do place = place * v.shape[k] + i - 1 end
    if columns[place + 1] then
      refuse("'%s' has an element twice", v.name)
    end
    columns[place + 1] = entry.column - 1
  end
  return columns
end

-- ---- files ----

-- The table of a file and its names; only lines that end where `whole` is set.
local function table_of(path, whole)
  return files.load_csv(path, ",", true, "float64", nil, nil, nil, 0, 0, "#", whole)
end

local function saved_of(config, name)
  local n, thin = config[name], math.tointeger(config.thin) or 1
  n = math.tointeger(n)
  return n and n >= 0 and thin > 0 and (n + thin - 1) // thin or nil
end

-- What is missing of a file's lines, as a text; nil if nothing is.
local function cut(path, x, about, expected)
  if about.seconds and (not expected or x:size(1) == expected) then
    return nil
  elseif not about.seconds then
    local whole = table_of(path, true)
    if not whole or whole:size(1) ~= x:size(1) then
      return "its last line does not end"
    end
  end
  if expected and x:size(1) < expected then
    return ("it has %d of %d draws"):format(x:size(1), expected)
  elseif expected and not about.seconds then
    return "it does not say how long the run took, so its last line may be no whole one"
  end
  return nil
end

-- One chain: {x =, names =, warmup = rows of warm-up, about =}, or nil, message, code.
local function read_file(path, partial)
  local about, message, code = read_comments(path)
  if not about then
    return nil, message, code
  end
  local method = about.config.method
  if method and method ~= "sample" then
    refuse("'%s' is of method %s; draws of method sample are read", path, tostring(method))
  end
  local save = about.config.save_warmup
  local warmup = (save == 1 or save == "true") and saved_of(about.config, "num_warmup") or 0
  local expected = saved_of(about.config, "num_samples")
  expected = expected and expected + warmup
  local x, names, why = table_of(path, partial)
  if not x and not partial and why == "format" and not about.seconds and table_of(path, true) then
    refuse("'%s' is cut off: its last line does not end (partial = true takes the whole lines)", path)
  elseif not x then
    return nil, names, why
  end
  local missing = not partial and cut(path, x, about, expected)
  if missing then
    refuse("'%s' is cut off: %s (partial = true takes the whole lines)", path, missing)
  elseif expected and x:size(1) > expected then
    refuse("'%s' has %d draws where its comments say %d", path, x:size(1), expected)
  elseif not names or x:size(1) <= warmup then
    refuse("'%s' has no draws after %d of warm-up", path, warmup)
  end
  return { x = x, names = names, warmup = warmup, about = about, ended = about.seconds ~= nil or not expected }
end

local function check_alike(chains, paths)
  local first = chains[1]
  for k, chain in ipairs(chains) do
    if table.concat(chain.names, ",") ~= table.concat(first.names, ",") then
      refuse("'%s' has other columns than '%s'", paths[k], paths[1])
    elseif chain.warmup ~= first.warmup then
      refuse("'%s' has %d draws of warm-up, '%s' %d", paths[k], chain.warmup, paths[1], first.warmup)
    end
  end
end

-- ---- the posterior ----

local STATISTICS = { lp__ = "log_density", accept_stat__ = "accept", stepsize__ = "step_size", treedepth__ = "depth",
  n_leapfrog__ = "leapfrogs", divergent__ = "divergent", energy__ = "energy" }

-- Rows first + 1 to last of all chains by variable.
local function taken(chains, variables, first, last)
  local rows, draws, statistics, names = {}, {}, {}, {}
  for c, chain in ipairs(chains) do rows[c] = chain.x:slice(1, first + 1, last) end
  local all = core.stack(rows, 1)
  for _, v in ipairs(variables) do
    local columns = core.tensor(v.columns, { dtype = "int64" })
    local values = all:take(3, columns):reshape { #chains, last - first, table.unpack(v.shape) }:contiguous()
    if v.name:find "__$" then
      statistics[STATISTICS[v.name] or v.name] = values
    else
      draws[v.name], names[#names + 1] = values, v.name
    end
  end
  return draws, statistics, names
end

local function least_rows(chains, paths, partial, notes)
  local rows = chains[1].x:size(1)
  for k, chain in ipairs(chains) do
    if chain.x:size(1) ~= chains[1].x:size(1) and not partial then
      refuse("'%s' has %d draws, '%s' %d (partial = true takes the least)", paths[k], chain.x:size(1) - chain.warmup,
        paths[1], chains[1].x:size(1) - chain.warmup)
    end
    rows = math.min(rows, chain.x:size(1))
    if partial and not chain.ended then
      notes[#notes + 1] = ("'%s' is of a run that has not ended"):format(paths[k])
    end
  end
  for k, chain in ipairs(chains) do
    local left = chain.x:size(1) - rows
    notes[#notes + 1] = left > 0 and ("%d draws of '%s' are left out: another chain has no more"):format(left, paths[k])
      or nil
  end
  return rows
end

-- Statistics that mean something where the library goes by them.
local function check_statistics(statistics)
  for name, most in pairs { divergent = 1, depth = 64 } do
    local t = statistics[name]
    if t and not (t:ge(0):logical_and(t:le(most)):all():item()) then
      refuse("column '%s__' must have numbers from 0 to %d", name == "depth" and "treedepth" or name, most)
    end
  end
end

local function posterior_of(paths, partial)
  local chains, notes = {}, {}
  for k, path in ipairs(paths) do
    local chain, message, code = read_file(path, partial)
    if not chain then
      return nil, message, code
    end
    chains[k] = chain
  end
  check_alike(chains, paths)
  local variables = variables_of(chains[1].names)
  for _, v in ipairs(variables) do v.columns = ordered(v) end
  local warmup, rows = chains[1].warmup, least_rows(chains, paths, partial, notes)
  local draws, statistics, names = taken(chains, variables, warmup, rows)
  if #names == 0 then
    refuse("'%s' has no columns but those of the sampler", paths[1])
  end
  check_statistics(statistics)
  local self = { draws = draws, names = names, statistics = statistics, notes = notes, config = {}, adaptation = {} }
  local densities = draws.log_lik
  if densities and #names > 1 then -- by custom those of the observations
    self.log_densities, draws.log_lik = { log_lik = densities }, nil
    for k = #names, 1, -1 do
      if names[k] == "log_lik" then table.remove(names, k) end
    end
  end
  for k, chain in ipairs(chains) do
    self.config[k], self.adaptation[k] = chain.about.config, chain.about.adaptation
    self.seconds = math.max(self.seconds or 0, chain.about.seconds or 0)
  end
  self.warmup, self.max_depth = math.tointeger(self.config[1].num_warmup), math.tointeger(self.config[1].max_depth)
  if warmup > 0 then
    local before = {}
    before.draws, before.statistics = taken(chains, variables, 0, warmup)
    self.warmup_draws = before
  end
  return posterior.of_draws(self)
end

local cmdstan_options = { partial = false }

--- cmdstan(paths [, {partial =}]): the posterior of the CSV files that CmdStan (or CmdStanPy, CmdStanR) has written,
--- one for each chain, a list or one path: p.draws by name [chains, draws, ...] in the order of Stan's indices, the
--- sampler's columns as p.statistics under this library's names, p:summary(), p:plot(), p:loo() where there is a
--- variable log_lik; p.adaptation and p.config, lists by chain, p.warmup_draws where they were saved
--- (pn.help "penumbra.infer.cmdstan"). nil, message, code for what is no such file or not alike. A file that is cut off
--- is refused, unless partial is true: then whole lines are taken, of each chain as many as the shortest has, and
--- p.warnings says so.
function cmdstan.cmdstan(paths, given)
  paths = type(paths) == "string" and { paths } or paths
  options.argument("cmdstan", "paths", paths, "table")
  local o = options.check("cmdstan", given, cmdstan_options)
  if #paths == 0 then
    core.error "cmdstan: paths must have the path of a file for each chain"
  end
  for k, path in ipairs(paths) do options.argument("cmdstan", ("paths[%d]"):format(k), path, "string") end
  return form.guarded("cmdstan", posterior_of, paths, o.partial)
end

return cmdstan
