-- Pictures turned, moved, cut out and mirrored, against what can be said without sampling, and finite differences.
local pn = require "penumbra"
local case = require "spec.lua.array_case"
local refused = require("spec.helper").refuses
local same = case.same

describe("pictures", function()
  local x = pn.randn({ 2, 3, 5, 5 }, { generator = pn.generator(1) })

  it("turn by right angles as their pixels do, counter-clockwise", function()
    for _, dtype in ipairs { "float64", "float32" } do
      local y, near = x:to(dtype), dtype == "float64" and 1e-13 or 1e-5
      same(pn.data.rotate(y, 90), y:to("float64"):transpose(-1, -2):flip(-2), near)
      same(pn.data.rotate(y, -90), y:to("float64"):transpose(-1, -2):flip(-1), near)
      same(pn.data.rotate(y, 180), y:to("float64"):flip(-1):flip(-2), near)
      assert.equal(dtype, pn.data.rotate(y, 33):dtype())
    end
    same(pn.data.rotate(pn.tensor { { 1, 2 }, { 3, 4 } }, 90), { { 2, 4 }, { 1, 3 } }, 1e-14) -- the right edge is above
    local each = pn.data.rotate(x, pn.tensor { 90, 0 })
    same(each[1], x[1]:transpose(-1, -2):flip(-2), 1e-13)
    same(each[2], x[2], 1e-14)
  end)

  it("keep a linear picture linear within the edge", function()
    local row = pn.arange(9, { dtype = "float64" }):unsqueeze(2):broadcast_to { 9, 9 } - 4
    local angle = math.pi / 6
    local turned = pn.data.rotate(row, 30)
    -- what lies at offset (r, c) comes from row r cos + c sin
    for _, at in ipairs { { 5, 5 }, { 4, 6 }, { 6, 3 }, { 3, 5 } } do
      local r, c = at[1] - 5, at[2] - 5
      assert.near(r * math.cos(angle) + c * math.sin(angle), turned[at[1]][at[2]]:item(), 1e-12)
    end
    assert.near(0, turned[1][1]:item(), 1e-12) -- beyond the edge
  end)

  it("move by whole and half pixels", function()
    local p = pn.tensor { { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 } }
    same(pn.data.shift(p, 1, 0), { { 0, 0, 0 }, { 1, 2, 3 }, { 4, 5, 6 } })
    same(pn.data.shift(p, 0, -1), { { 2, 3, 0 }, { 5, 6, 0 }, { 8, 9, 0 } })
    same(pn.data.shift(p, 0, 0.5), { { 0.5, 1.5, 2.5 }, { 2, 4.5, 5.5 }, { 3.5, 7.5, 8.5 } })
    same(pn.data.crop(p, 2, 1, 2, 2), { { 4, 5 }, { 7, 8 } })
    same(pn.data.crop(p, 1, 3, 3, 1), { { 3 }, { 6 }, { 9 } })
    same(pn.data.crop(p, 3, 1, 1, 3), { { 7, 8, 9 } })
  end)

  it("have gradients in pixels, angles and distances", function()
    local y = pn.randn({ 2, 4, 4 }, { generator = pn.generator(2) })
    case.differentiates(function(v) return pn.data.rotate(v, 25):tanh() end, y)
    case.differentiates(function(a) return pn.data.rotate(y, a * 10):tanh() end, pn.tensor { 2.1, -3.3 })
    case.differentiates(function(d) return pn.data.shift(y, d, 0.3):tanh() end, pn.tensor { 0.4, -1.3 })
  end)

  it("are varied at random, each its own way, again from a seed", function()
    local many = x:slice(1, 1, 1):repeat_interleave(40, 1)
    local function drawn(given)
      given.generator = pn.generator(4)
      return pn.data.augment(many, given)
    end
    local y = drawn { rotate = 20, shift = 1, flip = true }
    same(y, drawn { rotate = 20, shift = 1, flip = true }, 0)
    assert.is_true((y[1] - y[2]):abs():max():item() > 1e-3)
    same(drawn {}, many, 1e-14)
    local mirrored = drawn { flip = true }
    local turned = (mirrored - many):abs():max { 2, 3, 4 }:gt(1e-9):to("float64"):sum():item()
    assert.is_true(turned > 5 and turned < 35)
    same(pn.where((mirrored - many):abs():max({ 2, 3, 4 }, true):gt(1e-9), mirrored:flip(-1), mirrored), many, 1e-14)
    local step = pn.compile(function(v) return pn.data.augment(v, { rotate = 5 }):sum() end)
    assert.is_true(step(many):item() ~= step(many):item()) -- draws are fresh
  end)

  it("are varied by the draws of the generator: angles, two distances, mirrors", function()
    local many = pn.randn({ 6, 2, 4, 7 }, { generator = pn.generator(5) })
    local g = pn.generator(4)
    local angle, down, right = pn.rand({ 6, 1 }, { generator = g }), pn.rand({ 6, 1 }, { generator = g }),
      pn.rand({ 6, 1 }, { generator = g })
    local turned = pn.rand({ 6 }, { generator = g }):gt(0.5):reshape { 6, 1, 1, 1 }
    local function of(u, most) return ((u * 2 - 1) * most):squeeze(2) end
    local function drawn(o)
      o.generator = pn.generator(4)
      return pn.data.augment(many, o)
    end
    same(drawn { rotate = 40 }, pn.data.rotate(many, of(angle, 40)), 1e-12)
    same(drawn { shift = 2.5 }, pn.data.shift(many, of(down, 2.5), of(right, 2.5)), 1e-12)
    same(drawn { flip = true }, pn.where(turned, many:flip(-1), many), 1e-13)
    same(drawn { shift = 2.5, flip = true }, pn.where(turned, pn.data.shift(many, of(down, 2.5), of(right,
      2.5)):flip(-1),
      pn.data.shift(many, of(down, 2.5), of(right, 2.5))), 1e-12)
    same(drawn({ shift = 1, rotate = 9 }):select(2, 2), pn.data.augment(many:select(2, 2), { shift = 1, rotate = 9,
      generator = pn.generator(4) }), 1e-12) -- with channels and without
    same(pn.data.rotate(many, 180), many:flip(-1):flip(-2), 1e-12) -- of any shape
    same(pn.data.shift(many, -1, 2):slice(3, 1, 3):slice(4, 3, 7), many:slice(3, 2, 4):slice(4, 1, 5), 1e-12)
  end)

  it("say what does not fit", function()
    refused("augment: x must be pictures [N, ..., height, width]", pn.data.augment, pn.ones { 3, 3 })
    refused("rotate: x must be a float tensor [..., height, width]", pn.data.rotate, pn.ones { 3 }, 1)
    refused("rotate: degrees must be a number, or [N]", pn.data.rotate, x, pn.ones { 3 })
    refused("shift: down must be finite", pn.data.shift, x, math.huge, 0)
    refused("crop: rows 4 .. 6 and columns 1 .. 2 must lie in a picture of 5 by 5", pn.data.crop, x, 4, 1, 3, 2)
    for at, name in ipairs { "top", "left", "height", "width" } do
      local places = { 1, 1, 1, 1 }
      places[at] = 0
      refused("crop: " .. name .. " must be a whole number", pn.data.crop, x, table.unpack(places))
    end
    refused("augment: rotate must lie in 0 .. 360", pn.data.augment, x, { rotate = -1 })
    refused("augment: unknown option 'turn'", pn.data.augment, x, { turn = 1 })
  end)
end)

describe("weights of classes", function()
  it("make all classes count alike", function()
    local y = pn.tensor({ 0, 0, 0, 2 }, { dtype = "int64" })
    same(pn.data.class_weights(y), { 4 / 9, 0, 4 / 3 })
    same(pn.data.class_weights(y:to "float64", 4), { 4 / 12, 0, 1, 0 })
    local w = pn.data.class_weights(y)
    same(w:take(1, y):sum() / 2, pn.tensor(4 / 3), 1e-14) -- N / K for each class
    refused("class_weights: y must be labels [N]", pn.data.class_weights, pn.tensor { 0.5 })
    refused("class_weights: classes must be a whole number from 3", pn.data.class_weights, y, 2)
  end)
end)
