--- Where the nats of the library's amortised models go: approximation, conditioning and amortisation gap (Cremer et al.
--- 2018; Bayer et al. 2021) by pn.gap.measure, in one table.
---
---     penumbra examples/papers/conditioning_gap/where_do_the_nats_go.lua [--quick] [--out FOLDER] [--data FOLDER]
---         [--rows vae,vssm,kvae,deep_state]
---
---   vae          784-200-200-50, Bernoulli, on MNIST (--data, with train-images-idx3-ubyte.gz ...), binarised once, or
---                on the digits of pn.gap.glyph_rows: its encoder sees all of x
---   vssm         residual state-space models of flights (pn.gap.flights, 25 steps), inference partial and full
---   kvae         a Kalman autoencoder of the same flights: q(z_t | y_t) sees no other step
---   deep_state   a structural model of days of traffic, whose states are integrated out exactly: the control
---
--- With --out trained models and finished rows are kept there, and a run goes on from them; where_do_the_nats_go.svg
--- is drawn. --quick trains next to nothing. README.md has results and settings; --check
--- holds a run to them.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
dofile(here .. "/../continual/experiment.lua").checked(arg)
local vae = pn.models.vae

local option = { quick = false, rows = "vae,vssm,kvae,deep_state" }
local i = 1
while arg[i] do
  local name = arg[i]:match "^%-%-(%l+)$"
  if name == "quick" then
    option.quick = true
  elseif (name == "out" or name == "data" or name == "rows") and arg[i + 1] then
    option[name], i = arg[i + 1], i + 1
  else
    io.stderr:write("usage: where_do_the_nats_go.lua [--quick] [--out FOLDER] [--data FOLDER] [--rows NAMES]\n")
    os.exit(1)
  end
  i = i + 1
end

local function choose(full, quick) return option.quick and quick or full end

-- ---- what an earlier run has left ----

local function path_of(name) return ("%s/%s.safetensors"):format(option.out, name) end

local function kept(name)
  local file = option.out and io.open(path_of(name))
  if not file then return nil end
  file:close()
  return assert(pn.load(path_of(name)))
end

-- The model, trained now or before.
local function trained(name, model, train)
  local state = kept(name .. "_model")
  if state then
    model:load_state(state)
  else
    train()
    if option.out then assert(pn.save(path_of(name .. "_model"), model:state())) end
  end
  return model
end

-- ---- the rows ----

local rows = {}

local function mnist(name, generator)
  local x = assert(pn.data.idx(("%s/%s"):format(option.data, name), { dtype = "float32" })):reshape { -1, 784 } / 255
  return pn.rand(x:shape(), { dtype = "float32", generator = generator }):lt(x):to "float32"
end

local function digits(n, seed)
  local x = pn.gap.glyph_rows():sample(n, { seed = seed, dtype = "float32" })
  return x:transpose(1, 2):reshape { n, 784 }
end

function rows.vae()
  pn.seed(1)
  local train, test
  if option.data then
    local generator = pn.generator(2016)
    train, test = mnist("train-images-idx3-ubyte.gz", generator), mnist("t10k-images-idx3-ubyte.gz", generator)
  else
    train, test = digits(choose(10000, 200), 1), digits(choose(2000, 20), 2)
  end
  local m = vae { data = 784, latent = choose(50, 4), hidden = choose({ 200, 200 }, { 16 }), dtype = "float32" }
  trained(option.data and "vae_mnist" or "vae_digits", m, function()
    m:fit { data = train, epochs = choose(8, 2), batch_size = 100 }
  end)
  local family = {}
  for _, name in ipairs({ "diagonal" }) do
    family[#family + 1] = { ("VAE, %s, %s q"):format(option.data and "MNIST" or "glyphs", name),
      pn.gap.measure(m, nil, test:slice(1, 1, choose(100, 20)), { family = name, generator = pn.generator(1),
        steps = choose(200, 5), rounds = choose(6, 1), draws = 2, importance_draws = choose(500, 16),
        judge_draws = 16, tolerance = 0.02 }) }
  end
  return family
end

function rows.vssm()
  local world, out = pn.gap.flights(), {}
  for k, kind in ipairs(choose({ "partial", "full" }, { "partial" })) do
    pn.seed(10 + k)
    local m = pn.models.vssm { size = 3, latent = choose(8, 3), conditioning = kind, units = choose(32, 4),
      flows = choose(2, 0), hidden = { choose(32, 4) }, mean = "first", noise = { 0.15, 0.15, 0.075 } }
    trained("vssm_" .. kind, m, function()
      m:fit { series = { y = (world:sample(choose(4000, 20), { seed = 1 })) }, batch_size = choose(32, 10),
        steps = choose(1500, 3), lr = 3e-3, seed = 1 }
    end)
    local test, training = world:sample(choose(50, 8), { seed = 2 }), world:sample(choose(2000, 16), { seed = 3 })
    out[k] = { "VSSM, flights, " .. kind, pn.gap.measure(m, nil, m:prepared { y = test }, {
      training = m:prepared { y = training }, generator = pn.generator(1), steps = choose(300, 2),
      rounds = choose(6, 1), batch_size = 32, widths = { 1 }, draws = 2, judge_draws = choose(16, 4),
      importance_draws = choose(256, 8), tolerance = 0.02, lr = 0.02 }) }
  end
  return out
end

function rows.kvae()
  pn.seed(2)
  local world = pn.gap.flights()
  local m = pn.models.kvae { size = 3, latent = 3, state = 6, base = choose(3, 2), units = choose(32, 4),
    hidden = choose({ 64, 64 }, { 8 }), scaling = "none" }
  trained("kvae_flights", m, function()
    local x = world:sample(choose(2000, 20), { seed = 1 })
    local items = {}
    for k = 1, x:size(2) do items[k] = { target = x:select(2, k):totable() } end
    m:fit { series = pn.data.series(items, { freq = "D" }), window = 25, context = 25, steps = choose(1500, 3),
      batch_size = 32, lr = 3e-3, seed = 1 }
  end)
  local test, training = world:sample(choose(40, 8), { seed = 2 }), world:sample(choose(1000, 16), { seed = 3 })
  return { { "KVAE, flights", pn.gap.measure(m, nil, { y = test }, { training = { y = training },
    generator = pn.generator(1), steps = choose(200, 2), rounds = choose(5, 1), batch_size = 32,
    widths = { 1 }, draws = 2, judge_draws = choose(16, 4), importance_draws = choose(128, 8),
    tolerance = 0.02 }) } }
end

function rows.deep_state()
  pn.seed(3)
  local world = pn.gap.traffic_days()
  local m = pn.models.deep_state { hidden = choose(20, 4), scaling = "none" }
  trained("deep_state_traffic", m, function()
    local x = world:sample(choose(500, 20), { seed = 1 })
    local items = {}
    for k = 1, x:size(2) do items[k] = { target = x:select(2, k):totable() } end
    m:fit { series = pn.data.series(items, { freq = "D" }), window = 26, context = 26, steps = choose(3000, 3),
      batch_size = 32, lr = 1e-2, seed = 1 }
  end)
  return { { "DeepState, traffic", pn.gap.measure(m, nil, { y = (world:sample(choose(200, 8), { seed = 2 })) }) } }
end

-- ---- the table ----

local NAMES = { "log_likelihood", "approximation", "conditioning", "amortisation", "amortised_bound" }

-- What is kept of a report.
local function short(label, report)
  local out = { label = label, count = report.count, notes = table.concat(report.notes, "; ") }
  for _, name in ipairs(NAMES) do
    local v = report[name]
    out[name] = v and { value = v.value, se = v.se }
  end
  return out
end

local function row_of(name)
  local done = kept(name .. "_row")
  if done then return done end
  local started, out = pn.clock(), {}
  for k, pair in ipairs(rows[name]()) do
    print(("\n%s (%.0f s)\n%s"):format(pair[1], pn.clock() - started, pair[2]))
    out[k] = short(pair[1], pair[2])
  end
  if option.out then assert(pn.save(path_of(name .. "_row"), out)) end
  return out
end

local panels, all = { columns = 2, size = { 900, 700 } }, {}
for name in option.rows:gmatch "[%w_]+" do
  if not rows[name] then
    io.stderr:write(("where_do_the_nats_go: --rows knows vae, vssm, kvae, deep_state, got %s\n"):format(name))
    os.exit(1)
  end
  for _, row in ipairs(row_of(name)) do all[#all + 1] = row end
end
print(("\n%-26s %5s %18s %18s %18s %18s %18s"):format("nats a datum", "data", "log p(x)", "approximation",
  "conditioning", "amortisation", "bound"))
for _, row in ipairs(all) do
  local text, marks = ("%-26s %5d"):format(row.label, row.count), { title = row.label, y_label = "nats a datum",
    legend = "none", x_names = {}, x_range = { 0.5, 3.5 } }
  for _, name in ipairs(NAMES) do
    local v = row[name]
    text = text .. (" %18s"):format(v and ("%.3f +- %.3f"):format(v.value, v.se) or "not known")
    if v and name ~= "log_likelihood" and name ~= "amortised_bound" then
      local k = #marks.x_names + 1
      marks.x_names[k] = name
      marks[#marks + 1] = pn.plot.error_bars({ k }, { v.value }, { 2 * v.se }, { colour = "#c0392b", size = 1 })
    end
  end
  print(text)
  panels[#panels + 1] = pn.plot.panel(marks)
end
for _, row in ipairs(all) do
  if row.notes ~= "" then print(row.label .. ": " .. row.notes) end
end
local path, message = pn.plot.save((option.out or ".") .. "/where_do_the_nats_go.svg", panels)
print(path and "wrote " .. path or "no picture: " .. message)
