--- Images with segmentation masks, in place of the birds of Kurle, Guennemann & van der Smagt 2019 (section 5.2, table
--- 2), which are not at hand: generated figures (a body and a head on a ground of waves) with their masks, 64 x 64. Two
--- sources, image and mask; L(ind), L(hybrid), both also with the mask as the only target (*), and IWAE from the image
--- alone to the mask. Convolutions of one's own, K = 8, 3,000 steps of 16.
---
---     penumbra examples/papers/multisource/masks.lua [--columns ind,ind_star,hybrid,hybrid_star,iwae] [--steps 3000]
---         [--side 64] [--draws 8] [--lr 2e-4] [--out FOLDER]
---     ... --side 128 --draws 80 --latent 96    the document's sizes
---     ... --images FOLDER --masks FOLDER       one's own, PNG, PGM or PPM, by the same names (picture_folder.lua)
---     ... --images FILE.npy --masks FILE.npy   or arrays, [N, side, side], values in [0, 1]
---
--- writes masks.txt, masks.png and a file for each column, which is gone on with. Results: README.md.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local experiment = dofile(here .. "/../continual/experiment.lua")
local steps = dofile(here .. "/steps.lua")
local picture_folder = dofile(here .. "/picture_folder.lua")
local nn, plot = pn.nn, pn.plot

local option = experiment.options({ columns = "ind,ind_star,hybrid,hybrid_star,iwae", steps = 3000, side = 64,
  draws = 8, latent = 16, batch = 16, lr = 2e-4, seed = 1, train = 3000, test = 500, filters = 16, images = "",
  masks = "", predict = 100 },
  { columns = "hybrid,iwae", steps = 2, side = 16, draws = 2, latent = 2, batch = 4, train = 24, test = 8, filters = 4,
    predict = 5 })
local write = experiment.report(option, "masks")
local o32 <const> = { dtype = "float32" }
local side = option.side
local pixels <const> = side * side

-- ---- figures ----

-- Images and masks [n, pixels] of n figures.
local function figures(n)
  local function number(low, high) return (pn.rand({ n, 1, 1 }, o32) * (high - low) + low) end
  local line = pn.linspace(-1, 1, side, o32)
  local x, y = line:reshape { 1, 1, side }, line:reshape { 1, side, 1 }
  local cx, cy, turn = number(-0.35, 0.35), number(-0.35, 0.35), number(0, 6.28)
  local long, wide = number(0.3, 0.5), number(0.14, 0.26)
  local u = (x - cx) * turn:cos() + (y - cy) * turn:sin()
  local v = (y - cy) * turn:cos() - (x - cx) * turn:sin()
  local body = (u / long):square() + (v / wide):square()
  local head = ((u - long) / (wide * 0.7)):square() + ((v - wide * 0.5) / (wide * 0.7)):square()
  local mask = body:lt(1):logical_or(head:lt(1)):to "float32"
  local ground = 0.5 + number(0.1, 0.3) * (x * number(3, 9) + y * number(-9, 9) + number(0, 6.28)):sin()
  local colour = pn.where(number(0, 1):lt(0.5), number(0.0, 0.25), number(0.75, 1.0))
  local stripes = 0.08 * (u * number(10, 25)):sin()
  local image = mask * (colour + stripes) + (1 - mask) * ground + 0.03 * pn.randn({ n, side, side }, o32)
  return image:reshape { n, pixels }, mask:reshape { n, pixels }
end

pn.seed(option.seed)
local images, masks
if option.images:find "%.npy$" then
  images = assert(pn.data.npy(option.images)):to "float32":reshape { -1, pixels }
  masks = assert(pn.data.npy(option.masks)):to "float32":gt(0.5):to "float32":reshape { -1, pixels }
elseif option.images ~= "" then
  images, masks = picture_folder.read(option.images, option.masks, side)
else
  images, masks = figures(option.train + option.test)
end
local total = images:size(1)
assert(total > option.test, ("--test must leave pictures to train with; there are %d"):format(total))
local test = { image = images:slice(1, total - option.test + 1, total), mask = masks:slice(1, total - option.test + 1,
  total) }
images, masks = images:slice(1, 1, total - option.test), masks:slice(1, 1, total - option.test)

-- ---- networks ----

local function encoder()
  local layers, f, at = { nn.reshape(1, side, side) }, option.filters, side
  local channels = 1
  while at > 4 do
    layers[#layers + 1] = nn.conv2d(channels, f, { kernel = 3, stride = 2, padding = 1, dtype = "float32" })
    layers[#layers + 1] = nn.leaky_relu { slope = 0.1 }
    channels, at, f = f, at // 2, math.min(2 * f, 64)
  end
  layers[#layers + 1] = nn.flatten()
  layers[#layers + 1] = nn.linear(channels * 16, 2 * option.latent, o32)
  return nn.sequential(layers)
end

-- [..., latent] -> [..., pixels], whatever stands before the latents.
local function decoder()
  local layers, f, at = { nn.linear(option.latent, 64 * 16, o32), nn.reshape(64, 4, 4) }, 64, 4
  while at < side do
    local to = math.max(option.filters, f // 2)
    layers[#layers + 1] = nn.conv2d(f, 4 * to, { kernel = 3, padding = 1, dtype = "float32" })
    layers[#layers + 1] = nn.leaky_relu { slope = 0.1 }
    layers[#layers + 1] = nn.pixel_shuffle { factor = 2 }
    f, at = to, at * 2
  end
  layers[#layers + 1] = nn.conv2d(f, 1, { kernel = 1, dtype = "float32" })
  layers[#layers + 1] = nn.flatten()
  local net = nn.module { net = nn.sequential(layers) }
  function net:forward(z)
    local shape = z:shape()
    shape[#shape] = pixels
    return self.net(z:reshape { -1, option.latent }):reshape(shape)
  end
  return net
end

local function model(sources, targets)
  pn.seed(option.seed)
  local given = { latent = option.latent, dtype = "float32", sources = {}, targets = {} }
  for _, name in ipairs(sources) do given.sources[name] = { size = pixels, encoder = encoder() } end
  for _, name in ipairs(targets) do
    given.targets[name] = { size = pixels, decoder = decoder(), likelihood = name == "mask" and "bernoulli"
      or pn.nn.likelihood.normal { log_scale = pn.param(pn.full({}, math.log(0.3), o32)) } }
  end
  return pn.models.multisource(given)
end

local both <const> = { "image", "mask" }
local columns = {
  ind = { both, both, "ind" }, ind_star = { both, { "mask" }, "ind" }, hybrid = { both, both, "hybrid" },
  hybrid_star = { both, { "mask" }, "hybrid" }, iwae = { { "image" }, { "mask" }, "poe" },
}

-- ---- training and table 2 ----

local function right(predicted) -- share of pixels, of each test image
  return predicted:gt(0.5):to "float32":eq(test.mask):to "float64":mean(2)
end

local base = right(masks:mean { 1 }:unsqueeze(1):broadcast_to { option.test, pixels })
write("mean mask of the training images: accuracy %.4f +- %.4f (standard error over %d test images)",
  base:mean():item(), base:std():item() / math.sqrt(option.test), option.test)
local few <const> = math.min(6, option.test) -- in the picture
local shown = { test.image:slice(1, 1, few), test.mask:slice(1, 1, few) }
for name in option.columns:gmatch "[^,]+" do
  local c = assert(columns[name], "--columns must be of ind, ind_star, hybrid, hybrid_star, iwae")
  local m = model(c[1], c[2])
  local seconds = steps.train { model = m, steps = option.steps, lr = option.lr, seed = option.seed, block = 50,
    name = name, path = not option.quick and ("%s/masks_%s.safetensors"):format(option.out, name) or nil,
    batch = function()
      local rows = pn.randint(0, images:size(1), { option.batch })
      return { images:take(1, rows), masks:take(1, rows) }
    end,
    loss = function(x, y)
      return m:loss({ image = x, mask = y }, { objective = c[3], draws = option.draws })
    end }
  pn.seed(3)
  local function bound(target)
    if not m.decoders[target] then return "-" end
    return ("%.1f"):format(-m:bound(test, { objective = "poe", sources = { "image" }, targets = { target },
      draws = option.draws, batch_size = 10 }).value)
  end
  local parts = {}
  for first = 1, option.test, 10 do
    local image = test.image:slice(1, first, math.min(first + 9, option.test))
    parts[#parts + 1] = m:predict({ image = image }, { targets = { "mask" }, draws = option.predict }).mask:detach()
  end
  local predicted = pn.concatenate(parts, 1)
  local accuracy = right(predicted)
  local gain = accuracy - base
  write("%-12s %d steps, %.0f s: image to mask %s, image to image %s nats; accuracy %.4f, %+.4f +- %.4f above the "
    .. "mean mask", name, option.steps, seconds, bound "mask", bound "image", accuracy:mean():item(),
    gain:mean():item(), gain:std():item() / math.sqrt(option.test))
  shown[#shown + 1] = predicted:slice(1, 1, few)
end
option.pictures = "png"
experiment.picture(option, "masks", plot.panel { title = "test images, masks, predictions from the image",
  plot.images(pn.concatenate(shown, 1):reshape { few * #shown, side, side }:to "float64", { columns = few,
    range = { 0, 1 } }) }, { size = { 80 * few, 60 + 76 * #shown } })
