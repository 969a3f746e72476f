--- Options of files, checkpoints, jobs, pictures on the terminal and questions to a person, for
--- spec/options/option_battery.lua.
local pn = require "penumbra"
local gnuplot = require "penumbra.plot.gnuplot"
local battery = require "spec.options.option_battery"
local at, list, made, refused = battery.at, battery.list, battery.made, battery.refused
local active, data, plot = pn.active, pn.data, pn.plot

local drawn = battery.drawn
local cases = {}

-- What f gives of the path of a new file with this text, which is gone afterwards; whatever f writes beside it, too.
local function with_file(text, ending, f)
  local name = os.tmpname()
  local path = name .. ending
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
  file:flush()
  local got = table.pack(pcall(f, path))
  os.remove(name)
  os.remove(path)
  if not got[1] then error(got[2], 0) end
  return table.unpack(got, 2, got.n)
end

local function contents(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

-- ---- files ----

-- The numbers of a file, and the names or levels beside them.
local function csv(text, both, others, reasons)
  return { function(o)
    return with_file(text, ".csv", function(path) return assert(data.csv(path, o)) end)
  end, both, others, reasons or {} }
end
cases["pn.data.csv"] = csv("%a,b,c\n1,2,3\n4,-1,6\n7,8,9\n", {}, { columns = list { { "c", "b" }, { 3, 1 } },
  rows = list { { 2 }, { 1, 2 } }, missing = "-1", comment = "%", header = refused(false, "line 1"),
  dtype = list { "float32", "int64" }, delimiter = refused(";", "line") },
  { decimal = "a row of its own", kinds = "a row of its own", levels = "a row of its own", date = "a row of its own" })
cases["pn.data.csv of numbers with commas"] = { function(o)
  return with_file("a;b\n1,5;2\n-3,25;4\n", ".csv", function(path)
    local ok, x = pcall(data.csv, path, o)
    return ok and x or "refused"
  end)
end, { delimiter = ";" }, { decimal = "," }, {}, method = function() return data.csv end, only = { "decimal" } }
local mixed = "place,day,x\nhere,03.01.1970,1\nthere,02.02.1970,2\nhere,,3\n"
local of_kinds = { kinds = { place = "category", day = "date" }, date = "%d.%m.%Y" }
cases["pn.data.csv of texts and dates"] = { function(o)
  return with_file(mixed, ".csv", function(path) return data.csv(path, o) end)
end, of_kinds, { kinds = list { { place = "category", day = "skip" }, { place = "skip", day = "date" } },
  date = "%m.%d.%Y", levels = list { { place = { "there", "here" } }, { place = { "nowhere", "here", "there" } } } },
  {}, method = function() return data.csv end, only = { "kinds", "levels", "date" } }
local table_of = drawn(1, 3, 2)
cases["pn.data.save_csv"] = { function(o)
  return with_file("", ".csv", function(path)
    assert(data.save_csv(path, table_of, o))
    return contents(path)
  end)
end, {}, { delimiter = ";", names = { "a", "b" } } }
cases["pn.data.save_npz"] = { function(o)
  return with_file("", ".npz", function(path)
    assert(data.save_npz(path, { x = pn.zeros { 400 } }, o))
    return #contents(path), data.npz(path).x
  end)
end, {}, { compressed = true } }
local idx = "\0\0\8\1\0\0\0\3\1\2\255" -- bytes, one axis of three
cases["pn.data.idx"] = { function(o)
  return with_file(idx, ".idx", function(path) return assert(data.idx(path, o)) end)
end, {}, { dtype = list { "float32", "float64" } } }
cases["pn.data.image"] = { function(o)
  return with_file("P5\n2 1\n255\n\0\128", ".pgm", function(path) return assert(data.image(path, o)) end)
end }
cases["pn.data.json"] = { function(o)
  return with_file("[1, 2]\n[3]\n", ".json", function(path)
    return data.json(path, o) or "nothing"
  end)
end, {}, { lines = true } }
cases["pn.data.raw"] = { function(o)
  return with_file("\1\2\255\4\5\6\7\8", ".bin", function(path) return assert(data.raw(path, o)) end)
end, { shape = { 8 } }, { shape = { 2, 4 }, dtype = list { "float32", "float64" },
  element = list { "int8" } } }
cases["pn.data.raw of wider numbers"] = { function(o)
  return with_file("\0\0\128\63\0\0\0\64", ".bin", function(path) return assert(data.raw(path, o)) end)
end, { shape = { 2 }, element = "float32" }, { element = list { "int32", "uint32" } }, {},
  method = function() return data.raw end, only = { "element" } }
-- A file of names with dots, as PyTorch's are, and one of two tensors.
local function saved(tensors, f)
  return with_file("", ".safetensors", function(path)
    assert(data.save_safetensors(path, tensors))
    return f(path)
  end)
end
cases["pn.data.load"] = { function(o)
  return saved({ ["layer.weight"] = table_of, ["layer.bias"] = table_of[1] }, function(path)
    return (assert(data.load(path, o)))
  end)
end, {}, { nested = true } }
cases["pn.data.open"] = { function(o)
  return saved({ a = table_of, b = table_of * 2 }, function(path)
    local array <close> = assert(data.open(path, o))
    return array:slice(1, 1, 2)
  end)
end, { name = "a" }, { name = "b" }, { dtype = "a row of its own: of narrower elements" } }
cases["pn.data.open of bytes"] = { function(o)
  return with_file(idx, ".idx", function(path)
    local array <close> = assert(data.open(path, o))
    return array:slice(1, 1, 3)
  end)
end, {}, { dtype = list { "float32", "float64" } }, {}, method = function() return data.open end, only = { "dtype" } }
cases["pn.checkpoint.load"] = { function(o)
  return with_file("", ".safetensors", function(path)
    local net = pn.nn.linear(2, 1)
    assert(pn.checkpoint.save(path, { net = net }))
    pn.seed(99)
    assert(pn.checkpoint.load(path, { net = net }, o))
    return pn.rand { 2 }
  end)
end }

-- ---- jobs ----

cases["pn.jobs"] = { function(o)
  local seen = {}
  local given = {}
  for key, v in pairs(o) do given[key] = v end
  for _, name in ipairs { "skip", "keep" } do
    given[name] = o[name] and function(...)
      seen[#seen + 1] = name
      return o[name](...)
    end
  end
  return pn.jobs(given), seen
end, { jobs = { 3, 5 }, run = function(job, k) return job * 10 + k end }, { jobs = { 3, 6 },
  run = function(job) return -job end, skip = at(function(job) return job == 3 end, { keep = function() end }),
  keep = at(function() end, { skip = function() return false end }) }, { results = "a row of its own",
  keep = "a row of its own", skip = "a row of its own" } }
cases["pn.jobs whose results are kept"] = { function(o)
  return with_file("", ".jsonl", function(path)
    local runs = 0
    local function again()
      return pn.jobs { jobs = { 3, 5 }, results = o.results and path or nil, run = function(job)
        runs = runs + 1
        return job
      end }
    end
    again()
    return again(), runs
  end)
end, {}, { results = "here" }, {}, method = function() return pn.jobs end, only = { "results" } }
cases["pn.jobs of results that the script keeps"] = { function(o)
  local kept = {}
  local runs = 0
  pn.jobs { jobs = { 3, 5 }, skip = o.skip, run = function(job)
    runs = runs + 1
    return job
  end, keep = o.keep and function(job, result) kept[#kept + 1] = job + o.keep(job, result) end }
  return runs, kept
end, { keep = function(_, result) return result end, skip = function() return false end }, {
  skip = function(job) return job == 3 end, keep = function() return 7 end }, {},
  method = function() return pn.jobs end, only = { "skip", "keep" } }

-- ---- pictures on the terminal: what gnuplot is told ----

local panels = { plot.panel { title = "one", plot.line({ 1, 2 }, { 1, 4 }, { label = "a" }) },
  plot.panel { title = "two", plot.line({ 1, 2 }, { 3, 1 }, { label = "b" }) } }

-- What plot.show writes where gnuplot says what it was asked.
local function shown(o)
  return with_file("", ".txt", function(path)
    local old = { run = gnuplot.run, may_draw = gnuplot.may_draw, stdout = io.stdout }
    local file <close> = assert(io.open(path, "w"))
    gnuplot.run, gnuplot.may_draw = function(script) return script .. "\n" end, function() return true end
    rawset(io, "stdout", file)
    local ok, message = pcall(plot.show, panels, o)
    gnuplot.run, gnuplot.may_draw = old.run, old.may_draw
    rawset(io, "stdout", old.stdout)
    file:flush()
    assert(ok, message)
    return contents(path)
  end)
end
cases["pn.plot.show"] = { shown, { kind = "sixel" }, { kind = "text", aligned = true, columns = 1,
  legend = "below", size = { 300, 200 }, title = "both" } }
local trace = { effective_sample_size = pn.tensor { { 80, 10 }, { 40, 20 }, { 90, 30 } },
  resampled = pn.tensor { { 0, 1 }, { 0, 0 }, { 1, 0 } }, largest_weight = pn.full({ 3, 2 }, 0.1),
  log_increment = pn.tensor { { -1, -4 }, { -2, -5 }, { -3, -6 } },
  unique_ancestors = pn.tensor { { 100, 1 }, { 100, 2 }, { 35, 3 } } }
cases["pn.plot.filter_trace"] = { function(o)
  return plot.script("a.svg", "svg", plot.filter_trace(trace, o))
end, { num_particles = 100 }, { num_particles = 90, threshold = 0.3, filter = 2, x = { 2, 4, 8 }, x_label = "day" } }

-- ---- a person who labels ----

local rows = drawn(2, 12, 2)
local function asked(o)
  local pool = active.pool { x = rows, first = 2, count = 2, seed = 3, model = active.predictor { classes = 2,
    probabilities = function(a) return pn.full({ a:size(1), 2 }, 0.5) end } }
  local written, k = {}, 0
  local lines = { "0", "cat", "1", "0", "1", "q" }
  local given = { read_from = { read = function()
    k = k + 1
    return lines[k]
  end }, write_to = { flush = function() end, write = function(_, ...)
    for _, v in ipairs { ... } do written[#written + 1] = tostring(v) end
  end } }
  for key, v in pairs(o) do given[key] = v end
  local _, why = active.ask(pool, given)
  local positions, _, labels = pool:labelled()
  return table.concat(written), why or "over", positions, labels
end
cases["pn.active.ask"] = { asked, { steps = 2, show = function() return "datum" end }, { steps = 1,
  names = { "dog", "cat" }, show = function() return "something else" end,
  read_from = made(function() return { read = function() return "q" end } end) },
  { path = "a row of its own", write_to = "a row of its own" } }
cases["pn.active.ask that saves"] = { function(o)
  return with_file("", ".safetensors", function(path)
    local elsewhere = {}
    asked { steps = 1, show = function() return "datum" end, path = o.path and path or nil, write_to = o.write_to
      and { flush = function() end, write = function(_, ...) elsewhere[#elsewhere + 1] = table.concat { ... } end } }
    return #contents(path) > 0, elsewhere
  end)
end, {}, { path = "here", write_to = {} }, {}, method = function() return active.ask end,
  only = { "path", "write_to" } }

return cases
