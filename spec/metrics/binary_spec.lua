--- Scores of two classes and of numbers, losses under the names that people know, and their pictures: by counting, and
--- by hand.
local pn = require "penumbra"
local refused = require("spec.helper").refused
local metrics, plot = pn.metrics, pn.plot

local function near(got, want, tolerance)
  got = type(got) == "number" and got or got:item()
  assert(math.abs(got - want) <= (tolerance or 1e-12) * math.max(1, math.abs(want)), ("%.15g, %.15g"):format(got, want))
end

local y = pn.tensor({ 1, 0, 1, 1, 0, 0, 1, 0 }, { dtype = "int64" })
local p = pn.tensor { 0.9, 0.2, 0.4, 0.7, 0.7, 0.1, 0.5, 0.6 }

describe("scores of two classes", function()
  it("take probabilities of class 1, and whole floats as classes", function()
    local both = pn.stack({ 1 - p, p }, 2)
    for _, name in ipairs { "accuracy", "log_likelihood", "brier", "ece", "f1" } do
      near(metrics[name](y, p), metrics[name](y, both))
      near(metrics[name](y:to "float64", p), metrics[name](y, both))
      near(metrics[name](y:eq(1), p), metrics[name](y, both))
    end
    -- the first of equal ones counts: 0.5 is class 0
    assert.equal(4 / 8, metrics.accuracy(y, p))
    assert.same({ { 2, 2 }, { 2, 2 } }, metrics.confusion(y, p):totable())
    near(metrics.f1(y, p), 2 * 2 / (2 * 2 + 2 + 2))
    near(metrics.f1(y, pn.tensor { 0.9, 0.2, 0.4, 0.7, 0.2, 0.1, 0.6, 0.6 }), 2 * 3 / (2 * 3 + 1 + 1))
    refused("accuracy: y must be classes, whole numbers from 0 on, got float64 with others", metrics.accuracy,
      y:to "float64" + 0.5, p)
    refused("accuracy: probs must be probabilities", metrics.accuracy, y, p * 2)
  end)

  it("of several classes are counted by row and column", function()
    local probs = pn.tensor { { 0.8, 0.1, 0.1 }, { 0.2, 0.7, 0.1 }, { 0.1, 0.8, 0.1 }, { 0.5, 0.3, 0.2 } }
    local labels = pn.tensor({ 0, 1, 2, 1 }, { dtype = "int64" })
    assert.same({ { 1, 0, 0 }, { 1, 1, 0 }, { 0, 1, 0 } }, metrics.confusion(labels, probs):totable())
    near(metrics.f1(labels, probs), (2 / 3 + 2 / 4 + 0) / 3)
  end)

  it("have a curve whose area is auc, ties in one step", function()
    local c = metrics.roc(y, p)
    assert.same({ math.huge, 0.9, 0.7, 0.6, 0.5, 0.4, 0.2, 0.1 }, c.threshold:totable())
    assert.same({ 0, 0.25, 0.5, 0.5, 0.75, 1, 1, 1 }, c.true_positive:totable())
    assert.same({ 0, 0, 0.25, 0.5, 0.5, 0.5, 0.75, 1 }, c.false_positive:totable())
    pn.seed(1)
    local score = (pn.randn { 500 } * 4):round()
    local label = pn.rand({ 500 }):lt(score:sigmoid()):to "int64"
    c = metrics.roc(label, score)
    near(pn.trapezoid(c.true_positive, c.false_positive), metrics.auc(label, score))
    refused("roc: y must be 0 or 1, and have both", metrics.roc, y * 0, p)
    refused("roc: score is NaN", metrics.roc, y, p * 0 / 0)
  end)

  it("have a calibration curve of class 1", function()
    local bins = metrics.calibration_curve(y, p, { bins = 2 })
    assert.equal(2, #bins)
    assert.equal(4, bins[1].count) -- 0.2, 0.4, 0.1, 0.5
    near(bins[1].confidence, 1.2 / 4)
    near(bins[1].accuracy, 2 / 4)
    near(bins[2].confidence, 2.9 / 4)
    near(bins[2].accuracy, 2 / 4)
    refused("calibration_curve: is of two classes, got 3", metrics.calibration_curve, y, pn.ones { 8, 3 } / 3)
  end)
end)

describe("scores of numbers and losses", function()
  local x, z = pn.tensor { 1, 2, 4 }, pn.tensor { 1.5, 2, 3 }

  it("have their values", function()
    near(metrics.r_squared(x, z), 1 - 1.25 / (16 / 9 + 1 / 9 + 25 / 9))
    near(metrics.r_squared(x, pn.full({ 3 }, x:mean():item())), 0)
    near(pn.mse(x, z), 1.25 / 3)
    near(x:mae(z), 1.5 / 3)
    local q, t = pn.tensor { 0.2, 0.9, 0 }, pn.tensor { 0, 1, 0 }
    near(pn.bce(q, t), -(math.log(0.8) + math.log(0.9)) / 3)
    near(pn.bce_logits(pn.tensor { -2, 800, -800 }, t), (math.log(1 + math.exp(-2))) / 3)
    near(pn.bce_logits(pn.tensor { 3, 0.5, -1 }, t), pn.bce(pn.tensor({ 3, 0.5, -1 }):sigmoid(), t):item())
  end)

  it("have gradients, and refuse what would be compared crosswise", function()
    local w, t = pn.param(pn.tensor { 0.3, -0.8 }), pn.tensor { 1, 0.25 }
    for _, f in ipairs { function() return pn.bce_logits(w, t) end, function() return pn.bce(w:sigmoid(), t) end,
      function() return pn.mse(w, t) end, function() return pn.mae(w, t) end } do
      assert.is_true(pn.check_gradients(f, { w }).error < 1e-7)
    end
    for _, name in ipairs { "mse", "mae", "bce", "bce_logits" } do
      refused(name .. ": [xp] and y must have one shape, got %[2%] and %[2, 1%]: they would be compared crosswise",
        pn[name], t, t:unsqueeze(2))
    end
  end)
end)

-- The legend that gnuplot is told.
local function legend(panel)
  return plot.script("a.svg", "svg", panel):match "set key (inside vertical [%a ]+)\n"
    or plot.script("a.svg", "svg", panel):match "set key (bmargin)"
end

describe("pictures", function()
  it("of curves and counts have their numbers", function()
    local roc = plot.roc(metrics.roc(y, p), { label = "net" })
    assert.matches(("net: area %.3f"):format(metrics.auc(y, p)), roc.marks[2].label, 1, true)
    local confusion = plot.confusion(metrics.confusion(y, pn.tensor { 1, 0, 1, 1, 0, 0, 0, 0 }),
      { names = { "a", "b" } })
    local words = {}
    for m = 2, #confusion.marks do
      for _, line in ipairs(confusion.marks[m].data) do words[#words + 1] = line end
    end
    table.sort(words)
    local function quoted(text) return require("penumbra.plot.gnuplot").quote(text) end
    assert.same({ "1 1 " .. quoted "4", "1 2 " .. quoted "1", "2 1 " .. quoted "0", "2 2 " .. quoted "3" }, words)
    local curve = plot.calibration_curve(metrics.calibration_curve(y, p, { bins = 4 }))
    assert.equal(2, #curve)
    assert.equal(4, #curve[2].marks[1].data)
    local reliability = plot.reliability(metrics.reliability(y, p))
    assert.is_true(reliability.x_range[1] > 0.4) -- confidences of two classes begin at 0.5
    refused("plot.confusion: names must be 2, as there are classes, got 1", plot.confusion, metrics.confusion(y, p),
      { names = { "a" } })
    assert.is_true((plot.save(os.tmpname() .. ".svg", curve)) ~= false)
  end)

  it("have legends in a corner without marks, else below", function()
    local x = pn.linspace(0, 1, 20)
    assert.equal("inside vertical top left", legend { plot.line(x, x, { label = "a" }) })
    assert.equal("inside vertical top right", legend { plot.line(x, 1 - x, { label = "a" }) })
    assert.equal("inside vertical bottom right", legend { plot.line(x, x, { label = "a" }),
      plot.line(x, x * 0 + 1, { label = "b" }) })
    assert.equal("bmargin", legend { plot.line(x, x, { label = "a" }), plot.line(x, 1 - x, { label = "b" }) })
    assert.equal("inside vertical top right", legend { plot.bars(nil, { 5, 3, 1 }, { label = "a" }) })
    assert.equal("inside vertical bottom left", legend { plot.line(x, x, { label = "a" }), legend = "bottom left" })
    assert.equal("inside vertical bottom left", legend { plot.band(x, x * 0 + 0.8, x * 0 + 2, { label = "a" }),
      plot.line({ 1 }, { 0 }) })
  end)

  it("of images fill their canvas", function()
    local script = plot.script("a.svg", "svg", { plot.images(pn.ones { 8, 5, 10 }, { columns = 8, gap = 0 }) })
    assert.matches("size 640,120", script)
    assert.matches("set margins 0.5,0.5,0.5,0.5", script, 1, true)
    local tall = plot.script("a.svg", "svg", { title = "t",
      plot.images(pn.ones { 2, 10, 10 }, { columns = 1, gap = 0 }) })
    assert.matches("size 320,670", tall)
  end)

  it("of words refuse what are none", function()
    refused("plot.text: words must have a string for each of the 2 places, got a number", plot.text, { 1, 2 }, { 1, 2 },
      { "a", 3 })
    assert.same({ "1 3 0.8", "2 4 0.8" }, plot.bars(nil, { 3, 4 }).data)
  end)
end)
