--- Layers of each row and inputs that fit, for the batteries that loop over the rows. Rows that are not listed take
--- sizes 3 and 2 and one input [4, 3]; the first axis of listed inputs is the batch.
local pn = require "penumbra"

local M = {}

local line, image, volume = { { 2, 4, 5 } }, { { 2, 4, 3, 4 } }, { { 2, 4, 3, 2, 3 } }
local cases = {
  bilinear = { sizes = { 3, 2, 2 }, inputs = { { 4, 3 }, { 4, 2 } } },
  embedding = { sizes = { 5, 2 }, inputs = { { 4, 3, whole = 5 } } },
  highway = { sizes = { 3 }, inputs = { { 4, 3 } } },
  multi_head_attention = { sizes = { 4, 2 }, inputs = { { 2, 3, 4 }, { 2, 2, 4 } } },
  conv1d = { sizes = { 4, 2 }, options = { kernel = 2 }, inputs = { { 2, 4, 5 } } },
  conv2d = { sizes = { 4, 2 }, options = { kernel = { 2, 3 }, stride = { 2, 1 }, padding = 1 },
    inputs = image },
  conv3d = { sizes = { 4, 2 }, options = { kernel = { 2, 1, 2 }, stride = { 1, 2, 1 }, padding = { 1, 0, 0 } },
    inputs = volume },
  conv_transpose1d = { sizes = { 4, 2 }, options = { kernel = 2, stride = 2 }, inputs = line },
  conv_transpose2d = { sizes = { 4, 2 }, options = { kernel = 2, stride = { 1, 2 } }, inputs = image },
  max_pool2d = { options = { kernel = 2 }, inputs = image },
  avg_pool2d = { options = { kernel = { 2, 3 }, padding = 1 }, inputs = image },
  max_pool1d = { options = { kernel = 2 }, inputs = line },
  avg_pool1d = { options = { kernel = 3, padding = 1 }, inputs = line },
  max_pool3d = { options = { kernel = { 2, 1, 2 } }, inputs = volume },
  avg_pool3d = { options = { kernel = 2, padding = { 1, 0, 1 } }, inputs = volume },
  adaptive_avg_pool1d = { options = { size = 3 }, inputs = line },
  adaptive_avg_pool2d = { options = { size = { 2, 3 } }, inputs = image },
  adaptive_avg_pool3d = { options = { size = { 2, 1, 2 } }, inputs = volume },
  adaptive_max_pool1d = { options = { size = 3 }, inputs = line },
  adaptive_max_pool2d = { options = { size = { 2, 3 } }, inputs = image },
  adaptive_max_pool3d = { options = { size = { 2, 1, 2 } }, inputs = volume },
  glu = { inputs = { { 4, 3, 6 } } },
  upsample_bilinear = { inputs = image },
  batch_norm = { sizes = { 4 }, inputs = image, training_batch = 2 },
  layer_norm = { sizes = { 3, 4 }, inputs = image },
  rms_norm = { sizes = { 3, 4 }, inputs = image },
  group_norm = { sizes = { 2, 4 }, inputs = image },
  actnorm = { sizes = { 4 }, inputs = image },
  flatten = { inputs = image },
  reshape = { sizes = { 2, -1 }, inputs = image },
  pixel_shuffle = { inputs = image },
}

--- case(row): {sizes =, options =, inputs = shapes}; listed: whether it stands above.
function M.case(row)
  local case = cases[row.name]
  if case then
    return { sizes = { table.unpack(case.sizes or {}) }, options = case.options or {}, inputs = case.inputs,
      listed = true, training_batch = case.training_batch or 0 }
  end
  return { sizes = { table.unpack({ 3, 2 }, 1, #row.sizes) }, options = {}, inputs = { { 4, 3 } },
    training_batch = 0 }
end

--- make(row, options): a layer; options beside those of the case.
function M.make(row, options)
  local case, all = M.case(row), {}
  for _, list in ipairs { case.options, options or {} } do
    for key, value in pairs(list) do
      all[key] = value
    end
  end
  case.sizes[#case.sizes + 1] = all
  return pn.nn[row.name](table.unpack(case.sizes))
end

--- inputs(row [, dtype [, batch]]): tensors that fit, drawn from the default generator; with another batch size if
--- given.
function M.inputs(row, dtype, batch)
  local list = {}
  for k, shape in ipairs(M.case(row).inputs) do
    local sizes = { table.unpack(shape) }
    sizes[1] = batch or sizes[1]
    list[k] = shape.whole and (pn.rand(sizes) * shape.whole):to "int64" or pn.randn(sizes, { dtype = dtype })
  end
  return list
end

return M
