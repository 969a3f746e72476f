--- Pictures turned, moved, cut out and mirrored: pn.data.rotate, shift, crop, augment. Pictures are float tensors
--- [..., height, width] (channels before); what comes out is differentiable in the pixels, and in angles and distances.
--- New pixels are bilinear between the four around the place that they come from; beyond the edge is 0.
-- help: pn.data
local core = require "penumbra.core"
local options = require "penumbra.options"

local augment = {}

local function pictures(where, x)
  if not core.is_tensor(x) or x:ndim() < 2 or not x:dtype():find "^float" then
    core.error(where .. ": x must be a float tensor [..., height, width]")
  elseif x:size(-2) == 0 or x:size(-1) == 0 then
    core.error(where .. ": x has no pixels")
  end
  return x:size(-2), x:size(-1)
end

-- A number, or one for each of the pictures along axis 1: a tensor [1] or [N, 1].
local function amount(where, role, x, value)
  if core.is_tensor(value) then
    if value:ndim() ~= 1 or x:ndim() < 3 or value:size(1) ~= x:size(1) then
      core.error(("%s: %s must be a number, or [N] for pictures [N, ..., height, width], got [%s] for [%s]"):format(
        where, role, table.concat(value:shape(), ", "), table.concat(x:shape(), ", ")))
    end
    return value:to(x:dtype()):unsqueeze(2)
  end
  value = options.argument(where, role, value, "number")
  if value ~= value or value == math.huge or value == -math.huge then
    core.error(("%s: %s must be finite, got %s"):format(where, role, tostring(value)))
  end
  return core.full({ 1 }, value, { dtype = x:dtype() })
end

-- The pixels of pictures x at places [P], or [N, P] of each picture: row and column from 0 on, with fractions.
local function sampled(x, row, column)
  local h, w = x:size(-2), x:size(-1)
  local sizes = x:shape()
  sizes[#sizes - 1], sizes[#sizes] = h * w, nil
  local flat, total = x:reshape(sizes), nil
  local top, left = row:detach():floor(), column:detach():floor()
  for below = 0, 1 do
    for right = 0, 1 do
      local r, c = top + below, left + right
      local near = (below == 1 and row - top or 1 - (row - top)) * (right == 1 and column - left or 1 - (column - left))
      local inside = r:ge(0):logical_and(r:lt(h)):logical_and(c:ge(0)):logical_and(c:lt(w))
      local weight = core.where(inside, near, core.zeros({}, { dtype = x:dtype() }))
      local at = (r:clamp(0, h - 1) * w + c:clamp(0, w - 1)):to "int64"
      local value
      if at:ndim() == 1 then
        value = flat:take(-1, at) * weight
      else
        for _ = 1, x:ndim() - 3 do
          at, weight = at:unsqueeze(2), weight:unsqueeze(2)
        end
        sizes[#sizes] = at:size(-1)
        value = flat:gather(-1, at:broadcast_to(sizes)) * weight
      end
      total = total and total + value or value
    end
  end
  return total:reshape(x:shape())
end

-- Rows and columns of all pixels, [P], from the middle of the picture.
local function from_middle(h, w, dtype)
  local row = (core.arange(h, { dtype = dtype }) - (h - 1) / 2):unsqueeze(2):broadcast_to { h, w }:reshape { -1 }
  local column = (core.arange(w, { dtype = dtype }) - (w - 1) / 2):unsqueeze(1):broadcast_to { h, w }:reshape { -1 }
  return row, column
end

-- Turned by `angle` (radians) about the middle, then moved.
local function moved(x, angle, down, right)
  local h, w = x:size(-2), x:size(-1)
  local row, column = from_middle(h, w, x:dtype())
  row, column = row - down, column - right
  local cos, sin = angle:cos(), angle:sin()
  return sampled(x, column * sin + row * cos + (h - 1) / 2, column * cos - row * sin + (w - 1) / 2)
end

--- rotate(x, degrees): pictures [..., height, width] turned counter-clockwise about their middle. degrees: a number, or
--- [N], one for each picture of [N, ..., height, width].
function augment.rotate(x, degrees)
  pictures("rotate", x)
  local none = core.zeros({ 1 }, { dtype = x:dtype() })
  return moved(x, amount("rotate", "degrees", x, degrees) * (math.pi / 180), none, none)
end

--- shift(x, down, right): pictures [..., height, width] moved by so many pixels (negative: up, left; fractions are
--- between pixels). Each a number, or [N], one for each picture of [N, ..., height, width].
function augment.shift(x, down, right)
  pictures("shift", x)
  return moved(x, core.zeros({ 1 }, { dtype = x:dtype() }), amount("shift", "down", x, down),
    amount("shift", "right", x, right))
end

--- crop(x, top, left, height, width): the part of pictures [..., h, w] whose first row and column are top and left,
--- from 1: [..., height, width].
function augment.crop(x, top, left, height, width)
  local h, w = pictures("crop", x)
  top, left = options.whole("crop", "top", top, 1), options.whole("crop", "left", left, 1)
  height, width = options.whole("crop", "height", height, 1), options.whole("crop", "width", width, 1)
  if top + height - 1 > h or left + width - 1 > w then
    core.error(("crop: rows %d .. %d and columns %d .. %d must lie in a picture of %d by %d"):format(top,
      top + height - 1, left, left + width - 1, h, w))
  end
  return x:slice(-2, top, top + height - 1):slice(-1, left, left + width - 1)
end

local augment_options = { rotate = 0, shift = 0, flip = false, generator = options.optional() }

--- augment(x, {rotate = 0, shift = 0, flip = false, generator =}): pictures [N, ..., height, width], each turned by an
--- angle of its own from -rotate to rotate degrees, moved by -shift to shift pixels both ways, and with `flip` mirrored
--- left to right, half of them: new data of the same classes at each call.
---
---     for x, y in pn.data.batches({images, labels}, {batch_size = 64}) do
---       opt:step(pn.cross_entropy(net(pn.data.augment(x, {rotate = 10, shift = 2})), y))
---     end
function augment.augment(x, given)
  local o = options.check("augment", given, augment_options)
  pictures("augment", x)
  if x:ndim() < 3 then
    core.error "augment: x must be pictures [N, ..., height, width]"
  end
  if not (o.rotate >= 0 and o.rotate <= 360 and o.shift >= 0 and o.shift < math.huge) then
    core.error "augment: rotate must lie in 0 .. 360 degrees and shift be at least 0 pixels"
  end
  local n = x:size(1)
  local function drawn(most)
    return (core.rand({ n, 1 }, { dtype = x:dtype(), generator = o.generator }) * 2 - 1) * most
  end
  local angle, down, right = drawn(o.rotate * math.pi / 180), drawn(o.shift), drawn(o.shift)
  local y = moved(x, angle, down, right)
  if o.flip then
    local turned = core.rand({ n }, { generator = o.generator }):gt(0.5)
    for _ = 2, x:ndim() do
      turned = turned:unsqueeze(-1)
    end
    y = core.where(turned, y:flip(-1), y)
  end
  return y
end

--- class_weights(y [, classes]): what each class counts so that all count alike: N / (K count) for labels y [N], whole
--- numbers from 0 on, [K], for pn.cross_entropy{weights =}. classes: how many (the largest label + 1). 0 for a class
--- that is not there.
function augment.class_weights(y, classes)
  options.argument("class_weights", "y", y, "tensor")
  local whole = y:dtype() == "int64" or y:dtype() ~= "bool" and y:eq(y:round()):all():item()
  if y:ndim() ~= 1 or y:size(1) == 0 or not whole or y:min():item() < 0 then
    core.error("class_weights: y must be labels [N], whole numbers from 0 on")
  end
  local most = math.tointeger(y:max():item()) + 1
  classes = classes == nil and most or options.whole("class_weights", "classes", classes, most)
  local count = core.zeros({ classes }, { dtype = "int64" }):scatter_add(1, y:to "int64", core.ones({ y:size(1) },
    { dtype = "int64" })):to "float64"
  return core.where(count:gt(0), y:size(1) / (classes * count:clamp(1, math.huge)), core.zeros { 1 }):to(
    core.default_dtype())
end

return augment
