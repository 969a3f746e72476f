--- Three labels a class, and six hundred points without: a variational autoencoder that stands on the label learns from
--- both, where a classifier of the labelled points alone cannot know the shape of the classes.
---
---     p(x, y, z) = p(y) N(z; 0, 1) p(x | y, z),   q(y | x) a classifier,   q(z | x, y) the encoder
---     with a label      L(x, y) = E log p(x | y, z) p(y) p(z) / q(z | x, y), and log q(y | x)
---     without one       sum_y q(y | x) (L(x, y) - log q(y | x)):   labels are summed out
---
--- Source: Kingma, Rezende, Mohamed & Welling 2014, the model M2.
---
---     penumbra examples/16_semi_supervised.lua [--quick] [--seed N] [--out FILE.svg]
local pn = require "penumbra"

local quick, seed, out = false, 1, "semi_supervised.svg"
local i = 1
while arg[i] do
  if arg[i] == "--quick" then
    quick = true
  elseif arg[i] == "--seed" and math.tointeger(tonumber(arg[i + 1])) then
    seed, i = math.tointeger(tonumber(arg[i + 1])), i + 1
  elseif arg[i] == "--out" and arg[i + 1] then
    out, i = arg[i + 1], i + 1
  else
    io.stderr:write("usage: 16_semi_supervised.lua [--quick] [--seed N] [--out FILE.svg]\n")
    os.exit(1)
  end
  i = i + 1
end
pn.seed(seed)

-- The data: two moons; the first PER points of each class have kept their labels.
local CLASSES, PER = 2, 3
local x, y = pn.data.two_moons(600, { noise = 0.1, seed = seed })
local test_x, test_y = pn.data.two_moons(1000, { noise = 0.1, seed = seed + 100 })
local places, seen = {}, {}
for n, class in ipairs(y:totable()) do
  seen[class] = (seen[class] or 0) + 1
  if seen[class] <= PER then places[#places + 1] = n - 1 end
end
local at = pn.tensor(places, { dtype = "int64" })
local label_x, label_y = x:take(1, at), y:take(1, at)

-- The model: an autoencoder under the condition of the label, and a classifier.
local m = pn.models.vae { data = 2, latent = 1, hidden = { 32, 32 }, decoder = "normal", condition = CLASSES,
  mean = false }
local function classifier() return pn.nn.mlp({ 2, 32, 32, CLASSES }, { activation = "tanh" }) end
local network = classifier()
local one_hot, log_prior = pn.eye(CLASSES), -math.log(CLASSES)

-- log p(x, y, z) - log q(z | x, y) at a draw of z: [B]. c: labels as one of K, [B, K].
local function bound(a, c)
  local q = m:posterior_law(a, { condition = c })
  local z = q:rsample { 1 }
  return (m:log_joint(z, { a, c }) - q:log_prob(z)):squeeze(1) + log_prior
end

local function bound_without_label(a)
  local n, log_q = a:size(1), network(a):log_softmax(2)
  local each = bound(a:repeat_interleave(CLASSES, 1), one_hot:tile { n, 1 }):reshape { n, CLASSES }
  return (log_q:exp() * (each - log_q)):sum(2)
end

local step = pn.compile(function(a)
  local labelled = bound(label_x, one_hot:take(1, label_y)):sum()
  local all = (labelled + bound_without_label(a):sum()) / (a:size(1) + label_x:size(1))
  return pn.cross_entropy(network(label_x), label_y) - all
end, { optimiser = pn.optim.adam({ m, network }, { lr = 3e-3 }) })

local function accuracy(net) return pn.metrics.accuracy(test_y, net(test_x):softmax(2)) end

local steps = quick and 2500 or 6000
for k = 1, steps do
  local loss = step(x:take(1, pn.randperm(600):slice(1, 1, 100)))
  if k % (steps // 5) == 0 then print(("%5d  loss %.3f  accuracy %.3f"):format(k, loss, accuracy(network))) end
end

local alone = classifier()
local opt = pn.optim.adam(alone, { lr = 3e-3 })
for _ = 1, 500 do opt:step(pn.cross_entropy(alone(label_x), label_y)) end
print(("labels alone: accuracy %.3f; with the other points %.3f"):format(accuracy(alone), accuracy(network)))

-- The bound is one: log p(x) itself, the sum over labels of an integral over z by the trapezium rule.
local few, nodes = test_x:slice(1, 1, 100), 401
local z = pn.linspace(-8, 8, nodes)
local evidence = pn.no_grad(function()
  local grid, parts = z:reshape({ nodes, 1, 1 }):broadcast_to({ nodes, 100, 1 }):contiguous(), {}
  for k = 1, CLASSES do
    parts[k] = m:log_joint(grid, { few, one_hot[k]:broadcast_to({ 100, CLASSES }):contiguous() }):logsumexp(1)
  end
  return pn.stack(parts, 1):logsumexp(1) + math.log(16 / (nodes - 1)) + log_prior
end)
local draws = {}
pn.no_grad(function()
  for k = 1, 200 do draws[k] = bound_without_label(few):mean():item() end
end)
local drawn = pn.tensor(draws)
local lower, error_of = drawn:mean():item(), drawn:std():item() / (#draws) ^ 0.5
print(("of 100 points: bound %.3f (standard error %.3f), log p(x) %.3f"):format(lower, error_of,
  evidence:mean():item()))

local marks = {}
for class = 0, CLASSES - 1 do
  local colour = class == 0 and "#2f6db3" or "#c8553d"
  local mine = network(test_x):argmax(2):eq(class)
  marks[#marks + 1] = pn.plot.points(test_x:select(2, 1)[mine], test_x:select(2, 2)[mine], { colour = colour,
    size = 0.3, label = "called " .. class })
end
marks[#marks + 1] = pn.plot.points(label_x:select(2, 1), label_x:select(2, 2), { colour = "#000000", size = 1.2,
  label = "labels" })
local ok, message = pn.plot.save(out, { pn.plot.panel { title = "What six labels and 600 points tell",
  table.unpack(marks) } })
print(ok and "picture: " .. out or message)
if lower > evidence:mean():item() + 6 * error_of or accuracy(network) < accuracy(alone) then
  io.stderr:write "16_semi_supervised: the bound is none, or the points without labels were of no use\n"
  os.exit(1)
end
