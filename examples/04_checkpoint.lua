--- A convolutional network learns to read the digits of a pocket calculator, is interrupted in the middle of an epoch,
--- goes on from its checkpoint in fresh objects to the very bits of a run that was never interrupted, is exported for
--- PyTorch, and predicts from the exported file.
---
--- Measured (seed 1, one thread): the two runs end at the same bits, all 4042 numbers and the history;
--- 93.2 % of new digits are read right (--quick: 72.4 %), calibration error 0.010. The file that --keep leaves is
--- loaded by PyTorch's load_state_dict, all keys matching:
---
---     nn.Sequential(nn.Conv2d(1, 8, 5, 2, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1),
---                   nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(256, 10))
---
---     penumbra examples/04_checkpoint.lua [--quick] [--seed N] [--out FILE.svg] [--keep FILE.safetensors]
local pn = require "penumbra"
local nn = pn.nn

local quick, seed, out, keep = false, 1, "checkpoint.svg", nil
local i = 1
while arg[i] do
  if arg[i] == "--quick" then
    quick = true
  elseif arg[i] == "--seed" and math.tointeger(tonumber(arg[i + 1])) then
    seed, i = math.tointeger(tonumber(arg[i + 1])), i + 1
  elseif (arg[i] == "--out" or arg[i] == "--keep") and arg[i + 1] then
    if arg[i] == "--out" then out = arg[i + 1] else keep = arg[i + 1] end
    i = i + 1
  else
    io.stderr:write("usage: 04_checkpoint.lua [--quick] [--seed N] [--out FILE.svg] [--keep FILE.safetensors]\n")
    os.exit(1)
  end
  i = i + 1
end
pn.seed(seed)
pn.default_dtype "float32"

-- The data: images [n, 1, 16, 16] of the ten digits in seven segments, shifted by up to two pixels, of any brightness,
-- and noisy enough that some cannot be read. Segments: top, top left, top right, middle, bottom left, bottom right,
-- bottom.
local segments = { { 3, 3, 6, 9 }, { 4, 6, 5, 5 }, { 4, 6, 10, 10 }, { 7, 7, 6, 9 }, { 8, 11, 5, 5 }, { 8, 11, 10, 10 },
  { 12, 12, 6, 9 } } -- rows and columns, from the first to the last
local lit = { [0] = "1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111",
  "1111011" }
local masks = {}
for k = 0, 249 do
  local digit, down, right = k // 25, k % 25 // 5 - 2, k % 5 - 2
  masks[k + 1] = { {} }
  for r = 1, 16 do
    masks[k + 1][1][r] = {}
    for c = 1, 16 do
      local on = 0
      for j, s in ipairs(segments) do
        if lit[digit]:sub(j, j) == "1" and r - down >= s[1] and r - down <= s[2] and c - right >= s[3]
          and c - right <= s[4] then on = 1 end
      end
      masks[k + 1][1][r][c] = on
    end
  end
end
masks = pn.tensor(masks) -- [10 * 25, 1, 16, 16]
local function digits(n)
  local label = pn.randint(0, 10, { n })
  local x = masks:take(1, label * 25 + pn.randint(0, 25, { n }))
  return x * (pn.rand { n, 1, 1, 1 } * 0.8 + 0.4) + pn.randn { n, 1, 16, 16 } * 0.22, label
end
local x, y = digits(quick and 2000 or 8000)
local test_x, test_y = digits(2000)

local function network()
  return nn.sequential {
    nn.conv2d(1, 8, { kernel = 5, stride = 2, padding = 2 }), nn.batch_norm(8), nn.relu(),
    nn.conv2d(8, 16, { kernel = 3, stride = 2, padding = 1 }), nn.batch_norm(16), nn.relu(),
    nn.flatten(), nn.dropout { rate = 0.3 }, nn.linear(256, 10),
  }
end

-- One run: everything that can be random depends on seeds, and goes with the checkpoint. `stop_at`: the step at which
-- the run is interrupted, as Ctrl-C would do it.
local epochs, batch = quick and 10 or 20, 50
local function train(file, stop_at)
  pn.seed(seed + 1)
  local net = network()
  local opt = pn.optim.adamw(net, { lr = 1e-2 })
  local step = 0
  local ok, run = pcall(pn.train.fit, {
    data = { x, y }, model = net, optimiser = opt, epochs = epochs, batch_size = batch, split = 0.2, seed = seed,
    schedule = pn.optim.cosine(1e-2, 1e-5, epochs * x:size(1) * 4 // 5 // batch), progress = true,
    loss = function(a, b)
      step = step + 1
      if step == stop_at then error("interrupted", 0) end
      return -net(a):log_softmax(-1):gather(2, b:unsqueeze(2)):mean()
    end,
    checkpoint = file, resume = file ~= nil,
  })
  if not ok and run ~= "interrupted" then error(run, 0) end
  return net, run
end

local file = os.tmpname()
os.remove(file)
local whole, whole_run = train(nil)
local stop_at = (epochs // 2) * x:size(1) * 4 // 5 // batch + 7
local _, why = train(file, stop_at)
local saved = assert(pn.load(file))
print(("run 1: %d epochs; run 2: %s, its checkpoint stands at epoch %d, minibatch %d"):format(whole_run.epoch, why,
  saved.epoch, saved.batch))
local net, run = train(file)
os.remove(file)

-- The two runs end at the same bits: every parameter, every buffer, every entry of the history.
local same, numbers, before = true, 0, whole:state()
for name, t in pairs(net:state()) do
  same, numbers = same and t:eq(before[name]):all():item(), numbers + t:numel()
end
for epoch, loss in ipairs(whole_run.history) do
  same = same and loss == run.history[epoch] and whole_run.scores[epoch] == run.scores[epoch]
end
print(("resumed and uninterrupted: %s in %d parameters and statistics and %d epochs"):format(
  same and "the same bits" or "DIFFERENT", numbers, #run.history))
if not same then os.exit(1) end

-- Export for PyTorch, and back: a program that only predicts needs this file and the network's shape.
local export = keep or os.tmpname()
assert(pn.save(export, net:state { layout = "torch" }))
local reader = network():load_state(assert(pn.load(export)), { layout = "torch" })
if not keep then os.remove(export) end
local probability = pn.no_grad(function() return reader:evaluate(test_x):softmax(-1) end)
local top, guess = probability:max(2), probability:argmax(2)
local right = guess:eq(test_y)
print(("%.2f %% of %d new digits are read right; calibration error %.3f"):format(
  100 * right:to("float32"):mean():item(), test_y:numel(), pn.metrics.ece(test_y, probability)))

-- The picture: the history of both runs, digits that were read and digits that it is least sure of.
local unsure = top:argsort(1):slice(1, 1, 36)
local again, after, contrast = {}, {}, { range = { -0.4, 1.2 } }
for epoch = saved.epoch, run.epoch do again[#again + 1], after[#after + 1] = epoch, -run.scores[epoch] end
local held = {}
for epoch = 1, run.epoch do held[epoch] = -whole_run.scores[epoch] end
local picture, reason = pn.plot.save(out, { columns = 3, size = { 1320, 420 },
  pn.plot.panel { title = "Interrupted and resumed", x_label = "epoch", y_label = "nats per digit",
    legend = "top right",
    pn.plot.line(nil, whole_run.history, { label = "training" }),
    pn.plot.line(nil, held, { label = "held out" }),
    pn.plot.points(again, after, { label = "after the break" }) },
  pn.plot.panel { title = "Some digits", pn.plot.images(test_x:slice(1, 1, 36):squeeze(2), contrast) },
  pn.plot.panel { title = "The least sure", pn.plot.images(test_x:take(1, unsure):squeeze(2), contrast) } })
print(picture and "picture: " .. picture or "no picture: " .. reason)
