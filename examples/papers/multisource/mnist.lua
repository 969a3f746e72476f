--- Handwritten digits as data of several sources (Kurle, Guennemann & van der Smagt 2019, section 5.2): top and bottom
--- halves (tb), quarters (qu), four noisy copies of one clean digit (no), drawn black or white anew each time. Trained
--- by L(ind), L(MoE), L(PoE), L(hybrid), L(hybrid) with K = 1 and as IWAE (the whole digit; of `no` one copy), each
--- model then seen by each bound (table 1).
---
---     penumbra examples/papers/multisource/mnist.lua --data FOLDER --variant qu --steps 20000 [--batch 128] [--lr
---         5e-5] [--columns ind,moe,poe,hybrid,hybrid1,iwae] [--test 10000] [--out FOLDER]
---     ... --validate    tests on the last 10,000 training images instead, to choose settings by
---     ... --label       a label is a third source: draws of each class (figure 3b), tb by L(hybrid)
---
--- FOLDER holds train-images-idx3-ubyte.gz and so on; without --data arcs are drawn in place of digits. Each column is
--- kept in a file and gone on with. Writes mnist_VARIANT.txt and pictures. Results and sizes of what was run:
--- README.md.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local experiment = dofile(here .. "/../continual/experiment.lua")
local steps = dofile(here .. "/steps.lua")
local plot = pn.plot

local option = experiment.options({ data = "", variant = "qu", steps = 20000, batch = 128, lr = 5e-5, seed = 1,
  draws = 16, latent = 16, hidden = 200, columns = "ind,moe,poe,hybrid,hybrid1,iwae", test = 10000, flip = 0.05,
  validate = false, label = false, chain = 150, chosen = "hybrid" },
  { steps = 10, batch = 16, lr = 1e-3, draws = 3, latent = 4, hidden = 16, test = 32, chain = 5 })
local write = experiment.report(option, "mnist_" .. option.variant .. (option.label and "_label" or ""))
local o32 <const> = { dtype = "float32" }

-- ---- images ----

-- Arcs of random place, size and ends on [n, side, side].
local function arcs(n, side)
  local t = pn.linspace(0, 1, 24, o32)
  local function number(low, high) return pn.rand({ n, 1 }, o32) * (high - low) + low end
  local angle = number(0, 6.28) + number(1.5, 6) * t
  local radius = number(0.18, 0.32)
  local px, py = number(0.42, 0.58) + radius * angle:cos(), number(0.42, 0.58) + radius * angle:sin()
  local grid = pn.linspace(0, 1, side, o32)
  local dx = (px:unsqueeze(-1) - grid):square() * (-1 / (2 * 0.035 ^ 2))
  local dy = (py:unsqueeze(-1) - grid):square() * (-1 / (2 * 0.035 ^ 2))
  return pn.einsum("ntr,ntc->nrc", { dy:exp(), dx:exp() }):clamp(0, 1):reshape { n, side * side }
end

local function load(part, kind)
  return assert(pn.data.idx(("%s/%s-%s.gz"):format(option.data, part, kind), { dtype = kind:find "images" and "float32"
    or "int64" }))
end

local images, test, labels, test_labels
pn.seed(option.seed)
if option.data ~= "" then
  images = load("train", "images-idx3-ubyte"):reshape { 60000, 784 } / 255
  test = load("t10k", "images-idx3-ubyte"):reshape { 10000, 784 } / 255
  labels, test_labels = load("train", "labels-idx1-ubyte"), load("t10k", "labels-idx1-ubyte")
else
  print "no --data: generated arcs instead of digits; the figures mean nothing but that it runs"
  local side = option.quick and 12 or 28
  images, test = arcs(option.quick and 200 or 5000, side), arcs(option.test, side)
  labels, test_labels = pn.randint(0, 10, { images:size(1) }), pn.randint(0, 10, { test:size(1) })
end
if option.validate then
  local n = images:size(1)
  test, test_labels = images:slice(1, n - n // 6 + 1, n), labels:slice(1, n - n // 6 + 1, n)
  images, labels = images:slice(1, 1, n - n // 6), labels:slice(1, 1, n - n // 6)
end
local pixels = images:size(2)
local side = math.tointeger(math.sqrt(pixels) // 1)
local half = side // 2

-- ---- how an image is seen: tables of sources and targets ----

local function window(x, rows, columns)
  local n = x:size(1)
  local r, c = rows == 0 and { 1, side } or { (rows - 1) * half + 1, rows * half },
    columns == 0 and { 1, side } or { (columns - 1) * half + 1, columns * half }
  return x:reshape { n, side, side }:slice(2, r[1], r[2]):slice(3, c[1], c[2]):contiguous():reshape { n,
    (r[2] - r[1] + 1) * (c[2] - c[1] + 1) }
end

local function flipped(x) return pn.where(pn.rand(x:shape(), o32):lt(option.flip), 1 - x, x) end

local views = {
  tb = { names = { "bottom", "top" }, see = function(x)
    return { top = window(x, 1, 0), bottom = window(x, 2, 0) }
  end },
  qu = { names = { "q1", "q2", "q3", "q4" }, see = function(x)
    return { q1 = window(x, 1, 1), q2 = window(x, 1, 2), q3 = window(x, 2, 1), q4 = window(x, 2, 2) }
  end },
  no = { names = { "copy1", "copy2", "copy3", "copy4" }, see = function(x)
    return { copy1 = flipped(x), copy2 = flipped(x), copy3 = flipped(x), copy4 = flipped(x), digit = x }
  end, targets = { digit = { size = pixels } } },
}
local view = assert(views[option.variant], "--variant must be tb, qu or no")
local one = option.variant == "no" and { see = function(x) return { copy1 = flipped(x), digit = x } end,
  names = { "copy1" }, targets = view.targets } or { see = function(x) return { digit = x } end, names = { "digit" } }

local function model(v)
  local sources = {}
  local sample = v.see(images:slice(1, 1, 1))
  for _, name in ipairs(v.names) do sources[name] = { size = sample[name]:size(2) } end
  if option.label then sources.label = { categories = 10 } end
  local targets = v.targets
  if option.label then
    targets = { label = { categories = 10 } }
    for _, name in ipairs(v.names) do targets[name] = { size = sources[name].size } end
  end
  pn.seed(option.seed)
  return pn.models.multisource { sources = sources, targets = targets, latent = option.latent,
    hidden = { option.hidden, option.hidden }, activation = "elu", dtype = "float32" }
end

-- ---- training ----

local columns = {
  ind = { view = view, objective = "ind" }, moe = { view = view, objective = "moe" },
  poe = { view = view, objective = "poe" }, hybrid = { view = view, objective = "hybrid" },
  hybrid1 = { view = view, objective = "hybrid", draws = 1 }, iwae = { view = one, objective = "poe" },
}

local function black_or_white(x) return pn.rand(x:shape(), o32):lt(x):to "float32" end

local function trained(name)
  local c = assert(columns[name], "--columns must be of ind, moe, poe, hybrid, hybrid1, iwae")
  local m, n = model(c.view), images:size(1)
  local keep = not option.quick and ("%s/%s_%s%s.safetensors"):format(option.out, option.variant, name,
    option.label and "_label" or "") or nil
  local seconds, loss = steps.train { model = m, steps = option.steps, lr = option.lr, seed = option.seed,
    block = option.quick and 10 or 100, path = keep, name = option.variant .. " " .. name,
    batch = function()
      local rows = pn.randint(0, n, { option.batch })
      return { images:take(1, rows), labels:take(1, rows):unsqueeze(2) }
    end,
    loss = function(x, y)
      local data = c.view.see(black_or_white(x))
      data.label = option.label and y or nil
      return m:loss(data, { objective = c.objective, draws = c.draws or option.draws })
    end }
  return m, seconds, loss
end

-- ---- table 1 ----

local document = { tb = { ind = { 102.20, 102.40, 265.59, 104.03, 108.97 },
    moe = { 101.51, 101.82, 264.48, 103.37, 108.30 },
    poe = { 94.38, 94.39, 87.59, 90.07, 90.81, 88.79 } },
  qu = { ind = { 120.46, 120.37, 447.67, 129.63, 140.61 }, moe = { 119.10, 119.98, 446.02, 128.16, 139.19 },
    poe = { 108.07, 107.85, 87.67, 89.20, 90.17, 88.79 } },
  no = { ind = { 94.81, 94.86, 101.20, 96.27, 95.31 }, moe = { 93.98, 94.03, 100.36, 95.58, 94.55 },
    poe = { 94.52, 94.65, 92.27, 92.21, 94.49, 94.95 } } }
local places = { ind = 1, moe = 2, poe = 3, hybrid = 4, hybrid1 = 5, iwae = 6 }

-- The test images, black or white by one seed, as each view sees them by the same.
pn.seed(2019)
test = black_or_white(test:slice(1, 1, math.min(option.test, test:size(1))))
local seen, seen_one = view.see(test), one.see(test)
if option.label then seen.label = test_labels:slice(1, 1, test:size(1)):unsqueeze(2) end

local names, models = {}, {}
for name in option.columns:gmatch "[^,]+" do names[#names + 1] = name end
if option.label then names = { option.chosen } end
for _, name in ipairs(names) do
  local seconds, loss
  models[name], seconds, loss = trained(name)
  write("%s %s: %d steps of %d images, rate %g, K = %d, %.0f s, last loss %.2f", option.variant, name, option.steps,
    option.batch, option.lr, columns[name].draws or option.draws, seconds, loss)
end
write("\nnegative bounds of %d %s images, K = %d, nats (the document's after 250,000 steps of 128); columns are what"
  .. " was", test:size(1), option.validate and "validation" or "test", option.draws)
write "trained, rows what it is seen by"
local head = ("%-4s"):format ""
for _, name in ipairs(names) do head = head .. (" %19s"):format(name) end
write("%s", head)
for _, objective in ipairs { "ind", "moe", "poe" } do
  local line = ("%-4s"):format(objective)
  for _, name in ipairs(names) do
    if name ~= "iwae" or objective == "poe" then
      pn.seed(7)
      local value = models[name]:bound(name == "iwae" and seen_one or seen, { objective = objective,
        draws = option.draws, batch_size = 50 }).value
      local told = not option.label and document[option.variant][objective][places[name]]
      line = line .. (told and (" %9.2f (%7.2f)"):format(-value, told) or (" %19.2f"):format(-value))
    else
      line = line .. (" %19s"):format ""
    end
  end
  write("%s", line)
end

-- ---- pictures ----

local function whole(x) -- the parts of a table as images [n, side, side]
  local n = (x.digit or x.top or x.q1):size(1)
  local function at(t, high, wide) return t:reshape { n, high, wide } end
  if x.digit then
    return at(x.digit, side, side)
  elseif x.top then
    return pn.concatenate({ at(x.top, half, side), at(x.bottom, half, side) }, 2)
  end
  return pn.concatenate({ pn.concatenate({ at(x.q1, half, half), at(x.q2, half, half) }, 3),
    pn.concatenate({ at(x.q3, half, half), at(x.q4, half, half) }, 3) }, 2)
end

local function picture(name, pictures, across, heading)
  local x = pn.concatenate(pictures, 1)
  local height = math.ceil(x:size(1) / across)
  experiment.picture(option, ("mnist_%s_%s"):format(option.variant, name),
    plot.panel { title = heading, plot.images(x:to "float64", { columns = across, range = { 0, 1 } }) },
    { size = { 40 + 42 * across, 60 + 44 * height } })
end

local m = models[option.chosen]
option.pictures = "png"
if m and option.label then
  -- draws of each class: z from the belief of the label alone
  local y = (pn.arange(100) // 10):to "int64":unsqueeze(2)
  pn.seed(3)
  local z = m:encode({ label = y }, { draws = 1 })[1]
  local laws, means = m:decode(z), {}
  for _, name in ipairs(view.names) do means[name] = laws[name]:mean():detach() end
  picture("classes", { whole(means) }, 10, "draws of each class, by the label's belief")
elseif m then
  local few, rows = view.see(test:slice(1, 1, 10)), {}
  rows[1] = test:slice(1, 1, 10):reshape { 10, side, side }
  for _, name in ipairs(view.names) do rows[#rows + 1] = whole(m:reconstruct({ [name] = few[name] })) end
  rows[#rows + 1] = whole(m:reconstruct(few))
  picture("subsets", rows, 10, "test, from each source alone, from all")
end

-- ---- imputation: one pass against a chain (figure 4) ----

local first = view.names[#view.names] -- the part that is missing
if m and not option.label and option.variant ~= "no" then
  local n = math.min(500, test:size(1))
  local full, given = view.see(test:slice(1, 1, n)), {}
  for name, x in pairs(full) do given[name] = name ~= first and x or nil end
  pn.seed(5)
  local one_draw = m:log_predictive(full, { targets = { first }, draws = 1 }):mean():item()
  local hundred = m:log_predictive(full, { targets = { first }, draws = 100 }):mean():item()
  local curve = {}
  m:impute(given, { method = "chain", steps = option.chain, sources = view.names,
    start = { [first] = pn.rand(full[first]:shape(), o32):lt(0.5):to "float32" },
    on_step = function(step, _, z)
      curve[step] = m:decode(z)[first]:log_prob(full[first]):mean():item()
    end })
  write("\n%s missing, %d images: log p(missing | z), nats: one draw of the others' belief %.2f; the chain's z after "
    .. "1, 10, %d steps %.2f, %.2f, %.2f", first, n, one_draw, option.chain, curve[1],
    curve[math.min(10, option.chain)], curve[option.chain])
  write("log predictive of 100 draws, one pass: %.2f", hundred)
  option.pictures = "svg"
  experiment.picture(option, ("mnist_%s_imputation"):format(option.variant), { plot.panel {
    title = first .. " missing", x_label = "step of the chain", y_label = "log p(missing | z), nats",
    legend = "bottom right", plot.line(nil, curve, { label = "chain" }),
    plot.line({ 1, option.chain }, { one_draw, one_draw }, { label = "one pass", dashed = true }) } })
end
