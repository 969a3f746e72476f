--- Variational autoencoders of handwritten digits after Burda, Grosse & Salakhutdinov 2016: one level of latents
--- (784-200-200-50) or two (784-200-200-100-100-100-50), tanh, Bernoulli pixels that are drawn anew from the grey
--- values in each epoch, trained by the evidence lower bound or the importance weighted bound of 50 draws. The
--- log-likelihood of test images is the importance weighted bound of 5,000 draws.
---
---   penumbra mnist.lua --data FOLDER --model vae1 --epochs 50      FOLDER holds train-images-idx3-ubyte.gz ...
---   penumbra mnist.lua --data FOLDER --model iwae1 --epochs 30 --out RESULTS    goes on where RESULTS/iwae1 stands
---   penumbra mnist.lua --quick                                     seconds, on generated images
---   penumbra mnist.lua --data FOLDER --model iwae1 --epochs 3 --draws 1000 --images 1000 --results iwae.runs
---   penumbra mnist.lua --results iwae.runs --show                  the table of what is kept there
---
--- --images N: the bound of the first N test images alone. --test_images FILE.npy writes the test images and ends:
--- mnist_torch.py, the same by PyTorch, reads them.
---
--- Models: vae1, iwae1, vae2, iwae2 (backward posteriors), ladder2.
---
--- Adam, minibatches of 20, as in the paper; in place of its eight stages over 3,280 epochs the rate falls along half a
--- cosine from 1e-3 to 1e-4. On the last 10,000 training images (`--validate yes`) the elbo after 5 epochs was -113.0
--- with 1e-3, -111.9 with 2e-3 and -123.0 with 3e-3 as the first rate: the paper's was kept, away from the edge.
---
--- What was run and what came out: README.md beside this file, to which --check holds a run.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local kept_runs = dofile(here .. "/../kept_runs.lua")
dofile(here .. "/../continual/experiment.lua").checked(arg)

local option = { data = false, out = false, model = "vae1", epochs = false, draws = 5000, batch = 20, lr = 1e-3,
  last_lr = 1e-4, mean = "two", seed = 1, quick = false, pictures = "yes", validate = "no", test = "yes",
  images = 10000, test_images = false, results = false, show = false }

local function read_options(args)
  local k = 1
  while k <= #args do
    local name = args[k]:match "^%-%-([%w_]+)$"
    if name == nil or option[name] == nil then
      io.stderr:write("mnist: unknown option ", args[k], "\n")
      os.exit(1)
    elseif name == "quick" or name == "show" then
      option[name] = true
    else
      k = k + 1
      option[name] = tonumber(args[k]) or args[k]
    end
    k = k + 1
  end
end

local o32 = { dtype = "float32" }

-- Strokes on [n, side, side]: arcs of random place, size and ends, thick and soft. Something like digits to run on.
local function generated(n, side)
  local t = pn.linspace(0, 1, 24, o32)
  local function number(low, high) return pn.rand({ n, 1 }, o32) * (high - low) + low end
  local start, span, radius = number(0, 6.28), number(1.5, 6), number(0.18, 0.32)
  local angle = start + span * t
  local px, py = number(0.42, 0.58) + radius * 0.8 * angle:cos(), number(0.42, 0.58) + radius * angle:sin()
  local grid = pn.linspace(0, 1, side, o32)
  local dx = (px:unsqueeze(-1) - grid):square() * (-1 / (2 * 0.035 ^ 2))
  local dy = (py:unsqueeze(-1) - grid):square() * (-1 / (2 * 0.035 ^ 2))
  local ink = pn.einsum("ntr,ntc->nrc", { dy:exp(), dx:exp() })
  return ink:clamp(0, 1):reshape { n, side * side }
end

-- Intensities in [0, 1], [n, pixels]: what is trained on, and test images, black or white by one draw.
local function load_images()
  local train, test
  if option.data then
    train = assert(pn.data.idx(option.data .. "/train-images-idx3-ubyte.gz", o32)):reshape { 60000, 784 } / 255
    test = assert(pn.data.idx(option.data .. "/t10k-images-idx3-ubyte.gz", o32)):reshape { 10000, 784 } / 255
  else
    print "no --data: generated arcs instead of MNIST; the figures mean nothing but that it runs"
    local side = option.quick and 12 or 28
    train, test = generated(option.quick and 400 or 20000, side), generated(option.quick and 60 or 2000, side)
  end
  if option.validate == "yes" then -- the last 10,000 training images, to choose settings by
    local n = train:size(1) - train:size(1) // 6
    train, test = train:slice(1, 1, n), train:slice(1, n + 1, -1)
  end
  local g = pn.generator(2016)
  return train, pn.rand(test:shape(), { dtype = "float32", generator = g }):lt(test):to "float32"
end

local two = { latent = { 100, 50 }, hidden = { { 200, 200 }, { 100, 100 } } }
local one = { latent = 50, hidden = { 200, 200 } }
local models = {
  vae1 = { shape = one, objective = "elbo", draws = 1, epochs = 50 },
  iwae1 = { shape = one, objective = "iwae", draws = 50, epochs = 30 },
  vae2 = { shape = two, objective = "elbo", draws = 1, epochs = 50, warmup = 5 },
  iwae2 = { shape = two, objective = "iwae", draws = 50, epochs = 30 },
  ladder2 = { shape = two, objective = "elbo", draws = 1, epochs = 50, warmup = 5, structure = "ladder" },
}

local function new_model(images, chosen)
  local given = { data = images:size(2), dtype = "float32", structure = chosen.structure,
    mean = (option.mean == "all" or chosen.shape == two) and images:mean { 1 } or false }
  for key, v in pairs(chosen.shape) do given[key] = v end
  if option.quick then
    given.hidden = chosen.shape == two and { { 32, 32 }, { 16, 16 } } or { 32, 32 }
    given.latent = chosen.shape == two and { 8, 4 } or 8
  end
  return pn.models.vae(given)
end

-- ---- going on from a file ----

local function path_of(name) return ("%s/%s_%s"):format(option.out, option.model, name) end

local function exists(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

-- What an earlier run has left: epochs and seconds that are done.
local function resume(m, opt)
  if not option.out or not exists(path_of "state.safetensors") then return 0, 0 end
  local saved = assert(pn.load(path_of "state.safetensors"))
  m:load_state(saved.model)
  opt:load_state(saved.optimiser)
  return saved.epoch, saved.seconds
end

local function save(m, opt, epoch, seconds)
  if not option.out then return end
  assert(pn.save(path_of "state.safetensors", { model = m:state(), optimiser = opt:state(), epoch = epoch,
    seconds = seconds }))
end

local function train(m, images, chosen)
  local epochs = option.epochs or option.quick and 3 or chosen.epochs
  -- a variance that falls far in one step would ruin the moments of a hierarchy: gradients are cut
  local opt = pn.optim.adam(m:parameters(), { lr = option.lr, clip_norm = chosen.shape == two and 50 or nil })
  local done, before = resume(m, opt)
  local each = math.ceil(images:size(1) / option.batch)
  local falling = pn.optim.cosine(option.lr, option.last_lr, epochs * each)
  local seconds = before
  pn.seed(option.seed + done)
  if done < epochs then
    m:fit { data = images, binarise = true, epochs = epochs - done, batch_size = option.batch, optimiser = opt,
      objective = chosen.objective, draws = option.quick and chosen.draws > 1 and 5 or chosen.draws,
      schedule = function(step) return falling(done * each + step) end,
      warmup = chosen.objective == "elbo" and math.max(0, (chosen.warmup or 0) - done) or nil,
      on_epoch = function(s)
        seconds = before + s.seconds
        print(("%s epoch %d of %d: bound %.2f nats, %.0f s"):format(option.model, done + s.epoch, epochs, -s.loss,
          seconds))
        io.stdout:flush()
        save(m, opt, done + s.epoch, seconds)
      end }
  end
  return epochs, seconds
end

-- The bound of all test images, in parts that are kept in a file so that an interrupted run goes on.
local function test_bound(m, images)
  local draws, part = option.quick and 200 or option.draws, 500
  local path = option.out and path_of(("bounds_%d.safetensors"):format(draws))
  local kept = path and exists(path) and assert(pn.load(path)) or { each = {}, elbo = {}, seconds = 0 }
  local n = images:size(1)
  for first = 1, n, part do
    local k = (first - 1) // part + 1
    if not kept.each[k] then
      local start = pn.clock()
      local more = m:bound(images:slice(1, first, math.min(n, first + part - 1)), { draws = draws })
      kept.each[k], kept.elbo[k] = more.each, more.elbo * more.each:size(1)
      kept.seconds = kept.seconds + pn.clock() - start
      if path then assert(pn.save(path, kept)) end
    end
  end
  local elbo = 0
  for _, v in ipairs(kept.elbo) do elbo = elbo + v end
  return pn.concatenate(kept.each, 1):to "float64":mean():item(), elbo / n, draws, kept.seconds
end

-- Units that tell images apart, a number a level: those whose posterior mean varies over images by more than 0.01
-- (the paper's section 5.2; of several levels means given the means of the levels before).
local function active_units(m, images)
  local means = m:encode(images)
  local counts = {}
  for k, z in ipairs(pn.is_tensor(means) and { means } or means) do
    counts[k] = (z - z:mean { 1 }):square():mean { 1 }:gt(0.01):sum():item()
  end
  return counts
end

-- ---- pictures ----

-- [n, pixels] as one matrix of `columns` images a row.
local function mosaic(images, columns)
  local n, side = images:size(1), math.tointeger(math.sqrt(images:size(2)) // 1)
  local rows = n // columns
  return images:reshape { rows, columns, side, side }:permute { 1, 3, 2, 4 }:reshape { rows * side, columns * side }
end

local function grey(title, images, columns)
  local matrix = mosaic(images, columns)
  return pn.plot.panel { title = title, legend = "none", pn.plot.heatmap(matrix, { palette = "grey" }) }
end

local function pictures(m, test)
  local folder = option.out or "."
  local function draw(name, panels, size)
    local path, message = pn.plot.save(("%s/%s_%s.png"):format(folder, option.model, name), panels, { size = size })
    print(path and "picture: " .. path or "no picture: " .. message)
  end
  draw("samples", { grey("means of p(x | z), z from the prior", m:generate(100), 10) }, { 640, 600 })
  local side = math.tointeger(math.sqrt(test:size(2)) // 1)
  local x = test:slice(1, 1, 10)
  -- the lower half is missing
  local mask = (pn.arange(side * side) - side * (side // 2)):lt(0):broadcast_to { 10, side * side }:contiguous()
  local filled, taken = m:impute(x, mask, { draws = 200, warmup = 400 })
  local half = pn.where(mask, x, pn.full({}, 0.3, o32))
  draw("reconstructions", { grey(("test, reconstructed, upper half, its mean completion (%.0f %% taken)"):format(
    100 * taken), pn.concatenate({ x, m:reconstruct(x), half, filled }, 1), 10) }, { 760, 340 })
  -- from one test image's latents to another's, in a straight line
  local z = m:encode(test:slice(1, 1, 16))
  z = pn.is_tensor(z) and z or z[1]
  local lines = {}
  for k = 1, 8 do
    local t = pn.linspace(0, 1, 10, o32):unsqueeze(-1)
    lines[k] = z[2 * k - 1] * (1 - t) + z[2 * k] * t
  end
  draw("traversals", { grey("between the latents of two test images",
    m:decode(pn.concatenate(lines, 1)):mean():detach(), 10) }, { 640, 500 })
end

-- ---- what is kept of runs ----

local SETTINGS = { "by", "model", "epochs", "draws", "images" }
local WHICH = { "by", "model", "epochs", "draws", "images", "seed" }

-- Mean and deviation of the active units of a level; a dash where a run has not counted them.
local function told_active(runs, level)
  for _, run in ipairs(runs) do
    if not run["active_" .. level] then return "-" end
  end
  local mean, sd = kept_runs.mean_sd(runs, "active_" .. level)
  return kept_runs.told("%.1f", mean, sd, #runs)
end

local function show()
  print("model  epochs  draws  images  by       seeds  bound, mean and sd over seeds   minutes of processor  "
    .. "active units, by level")
  for _, runs in ipairs(kept_runs.grouped(kept_runs.read(option.results), SETTINGS)) do
    local first, mean, sd = runs.first, kept_runs.mean_sd(runs, "bound")
    print((("%-6s %6d %6d  %6d  %-8s %5d  %-17s %17.1f  %22s  %s"):format(first.model, first.epochs, first.draws,
      first.images, first.by, #runs, kept_runs.told("%.2f", mean, sd, #runs), (kept_runs.mean_sd(runs, "minutes")),
      told_active(runs, 1), first.active_2 and told_active(runs, 2) or ""):gsub("%s+$", "")))
  end
end

read_options(arg or {})
if option.show then return show() end
local chosen = models[option.model]
if not chosen then
  io.stderr:write("mnist: --model must be vae1, iwae1, vae2, iwae2 or ladder2\n")
  os.exit(1)
end
pn.seed(option.seed)
local images, test = load_images()
if option.test_images then
  assert(pn.data.save_npy(option.test_images, test))
  return
end
test = test:slice(1, 1, math.min(test:size(1), option.images))
local m = new_model(images, chosen)
print(m)
local processor = os.clock()
local epochs, seconds = train(m, images, chosen)
processor = os.clock() - processor
if option.test == "yes" then
  local bound, elbo, draws, testing = test_bound(m, test)
  print(("%s: %d epochs in %.1f minutes; %d %s images: bound of %d draws %.2f nats, elbo %.2f (%.1f minutes)"):format(
    option.model, epochs, seconds / 60, test:size(1), option.validate == "yes" and "validation" or "test", draws, bound,
    elbo, testing / 60))
  local active = active_units(m, test)
  print(("active units: %s"):format(table.concat(active, " + ")))
  if option.results then
    kept_runs.keep(option.results, { by = "penumbra", model = option.model, epochs = epochs, draws = draws,
      images = test:size(1), seed = option.seed, bound = bound, minutes = processor / 60, active_1 = active[1],
      active_2 = active[2] }, WHICH, { "bound", "minutes", "active_1", active[2] and "active_2" })
  end
end
if option.pictures == "yes" and (option.out or not option.quick) then pictures(m, test) end
