--- The streams of data of this folder's experiments: tables of the UCI repository and MNIST, cut into a first batch
--- and later ones in random order, with a fifth of the rows held out; and three sets in their order in time, Weather,
--- Gas and Covertype. Sizes and networks are those of the document's table 2. Files are those of the folder that --data
--- names: uci/{concrete,bostonHousing,energy,yacht,spambase,wine-quality-white,wine-quality-red}.csv.gz, mnist/*.gz and
--- drift/{noaa_weather,gas_drift_raw_8of10,covtype_first20000}.csv.gz; the target is the last column, of Gas the
--- second.
--- Without a folder streams are made up, and say so. It does nothing when it is run by itself.
local pn = require "penumbra"

local streams = {}

-- ---- what the document's table 2 says, and the memory of its table 1 ----

local function row(path, likelihood, first, later, memory, memories, hidden, draws, sites)
  return { path = path, likelihood = likelihood, first = first, later = later, memory = memory, memories = memories,
    hidden = hidden, document = { draws = draws, sites = sites, first = 50000, later = 10000 } }
end

local small, middle, large = { 5, 10, 15, 20, 25 }, { 10, 20, 30, 40, 50 }, { 50, 100, 150, 200, 250 }

--- Sets by name: path, likelihood, first and later (sizes of batches), memory, memories (those compared), hidden,
--- document = {draws, sites, first, later}, the size of its optimisations.
streams.sets = {
  concrete = row("uci/concrete.csv.gz", "normal", 100, 10, 15, small, { 16, 16 }, 1000, 50000),
  boston = row("uci/bostonHousing.csv.gz", "normal", 100, 10, 15, small, { 16, 16 }, 1000, 50000),
  energy = row("uci/energy.csv.gz", "normal", 100, 10, 15, small, { 16, 16 }, 1000, 50000),
  yacht = row("uci/yacht.csv.gz", "normal", 100, 10, 15, small, { 16, 16 }, 1000, 50000),
  spam = row("uci/spambase.csv.gz", "bernoulli", 250, 25, 25, middle, { 32, 32 }, 400, 50000),
  wine_red = row("uci/wine-quality-red.csv.gz", "categorical", 250, 25, 25, middle, { 32, 32 }, 400, 50000),
  wine = row("uci/wine-quality-white.csv.gz", "categorical", 250, 25, 25, middle, { 32, 32 }, 400, 50000),
  mnist = row("mnist", "categorical", 2500, 250, 150, large, { 64, 64 }, 40, 50000),
  gas = row("drift/gas_drift_raw_8of10.csv.gz", "categorical", 500, 50, 50, nil, { 8, 8 }, 200, 100000),
  weather = row("drift/noaa_weather.csv.gz", "bernoulli", 1000, 100, 50, nil, { 16, 16 }, 100, 100000),
  covertype = row("drift/covtype_first20000.csv.gz", "categorical", 1000, 1000, 200, nil, { 32, 32 }, 400, 100000),
}
for name, set in pairs(streams.sets) do set.name = name end

--- What the document leaves open, by set: {activation =, lr =, noise =}, what `uci_stream.lua --choose` found on
--- training rows.
streams.chosen = {
  concrete = { activation = "relu", lr = 0.005, noise = 0.3 },
  boston = { activation = "relu", lr = 0.005, noise = 0.3 },
  energy = { activation = "tanh", lr = 0.05, noise = 0.1 }, yacht = { activation = "relu", lr = 0.02, noise = 0.05 },
  spam = { activation = "relu", lr = 0.1 }, wine = { activation = "tanh", lr = 0.01 },
  wine_red = { activation = "tanh", lr = 0.02 },
  mnist = { activation = "relu", lr = 0.005 },
}
for _, name in ipairs { "gas", "weather", "covertype" } do streams.sets[name].drift = true end

-- ---- rows ----

-- Images over 255 and digits of both files: 70,000.
local function read_mnist(folder)
  local images, digits = {}, {}
  for k, part in ipairs { "train", "t10k" } do
    local x = assert(pn.data.idx(("%s/mnist/%s-images-idx3-ubyte.gz"):format(folder, part), { dtype = "float32" }))
    images[k] = x:reshape { x:size(1), -1 } / 255
    digits[k] = assert(pn.data.idx(("%s/mnist/%s-labels-idx1-ubyte.gz"):format(folder, part)))
  end
  return pn.concatenate(images, 1), pn.concatenate(digits, 1)
end

-- The table of a set as inputs [N, D] and targets [N], classes not yet counted from 0.
local function read_table(set, folder)
  local values = assert(pn.data.csv(folder .. "/" .. set.path))
  local last = values:size(2)
  if set.name == "gas" then -- batch, gas, features
    return values:slice(2, 3, last), values:select(2, 2)
  elseif set.name == "weather" then -- two rows have a pressure of 5503, a defect of the source: the median instead
    local pressure = values:select(2, 3)
    local median = pn.metrics.quantiles(pressure, { 0.5 })[1]:item()
    values = pn.concatenate({ values:slice(2, 1, 2), pn.where(pressure:gt(2000), median, pressure):unsqueeze(2),
      values:slice(2, 4, last) }, 2)
  end
  return values:slice(2, 1, last - 1), values:select(2, last)
end

-- Made-up rows: a smooth function of four inputs; classes by its height, which moves with time in the sets that drift.
local function made_up(set, rows)
  local g = pn.generator(7)
  local x = pn.randn({ rows, 4 }, { generator = g })
  local time = set.drift and pn.arange(rows):to "float64" / rows * 6 or pn.zeros { rows }
  local y = (x:select(2, 1) * 2 + time):sin() + x:select(2, 2) * x:select(2, 3) * 0.5
    + pn.randn({ rows }, { generator = g }) * 0.1
  if set.likelihood == "normal" then return x, y end
  return x, set.likelihood == "bernoulli" and y:gt(0):to "float64"
    or y:gt(-0.5):to "float64" + y:gt(0.5):to "float64"
end

local cache = {}

local function rows_of(set, folder, rows)
  local key = set.name .. (folder and "" or rows)
  if not cache[key] then
    local x, y
    if folder and set.name == "mnist" then
      x, y = read_mnist(folder)
    elseif folder then
      x, y = read_table(set, folder)
    else
      x, y = made_up(set, rows)
    end
    if set.likelihood ~= "normal" then y = (y - y:min():item()):to "int64" end
    cache[key] = { x = x, y = y }
  end
  return cache[key].x, cache[key].y
end

-- Mean and scale of columns; those that do not change keep their scale. Of images one for all pixels.
local function standard(x, whole)
  local mean, scale
  if whole then
    mean, scale = x:mean(), x:reshape { -1 }:std(1, 0)
  else
    mean, scale = x:mean(1), x:std(1, 0)
  end
  scale = pn.where(scale:gt(1e-12), scale, scale * 0 + 1)
  return function(t) return (t - mean) / scale end
end

-- ---- streams ----

local function outputs(set, y)
  return set.likelihood == "categorical" and y:max():item() + 1 or 1
end

local function places(list, from, to)
  return list:slice(1, from, to)
end

--- folded(train, k): of places of training rows those without the k-th fifth, beginning behind it, and that fifth.
function streams.folded(train, k)
  local kept = train:numel()
  local from, to = (k - 1) * kept // 5, k * kept // 5
  local rest = { to < kept and places(train, to + 1, kept) or nil }
  rest[#rest + 1] = from > 0 and places(train, 1, from) or nil
  return pn.concatenate(rest, 1), places(train, from + 1, to)
end

--- stream(name, {data = folder or false, seed =, fold =, rows = 400}): {set =, x, y in the order of the stream,
--- test_x, test_y, inputs, outputs, first, later, num_steps}. Inputs, and targets of regression, are float32 and
--- standardised by the rows that are not held out. fold, 1 to 5: the stream of seed 0's training rows alone, that fifth
--- of those held out, for choices that may not see test rows. rows: of a made-up set. Sets that drift have no test
--- rows, the order of their files, and are standardised by all of their rows (their inputs, not their classes).
--- Made-up ones come in batches of 40 and 10.
function streams.stream(name, o)
  local set = assert(streams.sets[name], "no such set: " .. tostring(name))
  local x, y = rows_of(set, o.data, o.rows or 400)
  local n = x:size(1)
  local s = { set = set, inputs = x:size(2), outputs = outputs(set, y), made_up = not o.data,
    first = o.data and set.first or 40, later = o.data and set.later or 10 }
  if set.drift then
    s.x, s.y = standard(x)(x):to "float32", y
  else
    local order = pn.randperm(n, { generator = pn.generator(5000 + (o.fold and 0 or o.seed)) })
    local held = n // 5
    local train, test = places(order, held + 1, n), places(order, 1, held)
    if o.fold then train, test = streams.folded(train, o.fold) end
    local own_x = standard(x:take(1, train), name == "mnist")
    s.x, s.test_x = own_x(x:take(1, train)):to "float32", own_x(x:take(1, test)):to "float32"
    s.y, s.test_y = y:take(1, train), y:take(1, test)
    if set.likelihood == "normal" then
      local own_y = standard(s.y)
      s.y, s.test_y = own_y(s.y):to "float32", own_y(s.test_y):to "float32"
    end
  end
  s.num_steps = 1 + (s.x:size(1) - s.first) // s.later
  return s
end

--- whole(stream): the same rows in one step, for learning offline.
function streams.whole(s)
  local all = {}
  for name, value in pairs(s) do all[name] = value end
  all.first, all.num_steps = s.x:size(1), 1
  return all
end

--- batch(stream, k): inputs and targets of the k-th step, from 1 on. Rows after the last whole batch are not used.
function streams.batch(s, k)
  local first, later = s.first, s.later
  local from = k == 1 and 1 or first + (k - 2) * later + 1
  local to = k == 1 and first or from + later - 1
  return s.x:slice(1, from, to), s.y:slice(1, from, to)
end

return streams
