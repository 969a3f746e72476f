--- Networks for images of one channel: three convolutions with stride 2 down to an eighth of the sides, and three with
--- subpixel shuffles back up (Shi et al. 2016), as Fraccaro et al. 2017 take them.
-- help: module, public
local core = require "penumbra.core"
local nn = require "penumbra.nn"
local options = require "penumbra.options"

local image_network = {}

-- The sides of an eighth of the image.
local function eighth(where, o)
  local rows = options.whole(where, "image[1]", o.image[1] or 0, 8)
  local columns = options.whole(where, "image[2]", o.image[2] or 0, 8)
  if rows % 8 ~= 0 or columns % 8 ~= 0 or rows * columns ~= o.size then
    core.error(("%s: image must be two multiples of 8 whose product is size, %d, got %d and %d"):format(where, o.size,
      rows, columns))
  end
  return rows // 8, columns // 8
end

--- encoder(where, o, outputs): [N, rows * columns] -> [N, outputs]; o has image = {rows, columns}, size, filters,
--- dtype.
function image_network.encoder(where, o, outputs)
  local rows, columns = eighth(where, o)
  local layers, channels = { nn.reshape(1, rows * 8, columns * 8) }, 1
  for _ = 1, 3 do
    layers[#layers + 1] = nn.conv2d(channels, o.filters, { kernel = 3, stride = 2, padding = 1,
      init = "he", dtype = o.dtype })
    layers[#layers + 1] = nn.relu()
    channels = o.filters
  end
  layers[#layers + 1] = nn.flatten()
  layers[#layers + 1] = nn.linear(channels * rows * columns, outputs, { dtype = o.dtype })
  return nn.sequential(layers)
end

--- decoder(where, o, inputs): [N, inputs] -> [N, rows * columns].
function image_network.decoder(where, o, inputs)
  local rows, columns = eighth(where, o)
  local layers = { nn.linear(inputs, o.filters * rows * columns, { dtype = o.dtype }),
    nn.reshape(o.filters, rows, columns) }
  for _ = 1, 3 do
    layers[#layers + 1] = nn.conv2d(o.filters, 4 * o.filters, { kernel = 3, padding = 1, init = "he", dtype = o.dtype })
    layers[#layers + 1] = nn.relu()
    layers[#layers + 1] = nn.pixel_shuffle { factor = 2 }
  end
  layers[#layers + 1] = nn.conv2d(o.filters, 1, { kernel = 1, dtype = o.dtype })
  layers[#layers + 1] = nn.flatten()
  return nn.sequential(layers)
end

return image_network
