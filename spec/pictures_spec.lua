--- What pictures look like: lines of equal height, legends, axes, and letters on a terminal.
local pn = require "penumbra"
local contour = require "penumbra.plot.contour"
local plot = pn.plot

local function script(content, opt)
  local text = plot.script("a.svg", "svg", content, opt)
  return (text:gsub("\\(%d%d%d)", function(octal) return string.char(tonumber(octal, 8)) end))
end

local function times(text, word)
  local at, n = 1, 0
  while true do
    local from, to = text:find(word, at, true)
    if not from then return n end
    at, n = to + 1, n + 1
  end
end

-- A grid of f at xs and ys as rows.
local function grid(f, xs, ys)
  local rows = {}
  for i, y in ipairs(ys) do
    rows[i] = {}
    for j, x in ipairs(xs) do rows[i][j] = f(x, y) end
  end
  return rows
end

local function steps(low, high, n)
  local list = {}
  for k = 1, n do list[k] = low + (high - low) * (k - 1) / (n - 1) end
  return list
end

local shown = (function()
  local function read(path)
    local file = assert(io.open(path))
    local text = file:read "a"
    file:close()
    return text
  end
  return function(content, opt)
    local path, old = os.tmpname(), io.stdout
    local file = assert(io.open(path, "w"))
    rawset(io, "stdout", file)
    local results = table.pack(pcall(plot.show, content, opt or { kind = "text" }))
    rawset(io, "stdout", old)
    file:close()
    local text = read(path)
    os.remove(path)
    assert(results[1], results[2])
    return text, table.unpack(results, 2, results.n)
  end
end)()

describe("a logarithmic axis", function()
  it("has short labels, and the other axis its own", function()
    local text = script(plot.panel { x_log = true, plot.line({ 1e-6, 1, 1e4 }, { 0, 1, 2 }) })
    assert.equal(1, times(text, "set logscale x\nset format x '%g'"))
    assert.equal(0, times(text, "set format y '%g'"))
    assert.equal(0, times(script(plot.panel { plot.line({ 1, 2 }, { 0, 1 }) }), "'%g'"))
  end)
end)

describe("lines of equal height", function()
  it("are those of a plane, exactly, each in one piece", function()
    local xs, ys = steps(0, 4, 9), steps(-1, 1, 7)
    local paths = contour.paths(grid(function(x, y) return x + 2 * y end, xs, ys), xs, ys, 1.9)
    assert.equal(1, #paths)
    local length = 0
    for k, at in ipairs(paths[1]) do
      assert(math.abs(at[1] + 2 * at[2] - 1.9) < 1e-12)
      local before = paths[1][k - 1]
      if before then length = length + math.sqrt((at[1] - before[1]) ^ 2 + (at[2] - before[2]) ^ 2) end
    end
    -- from (0, 0.95) to (3.9, -1), and no place is gone over twice
    assert(math.abs(length - math.sqrt(3.9 ^ 2 + 1.95 ^ 2)) < 1e-12, length)
  end)

  it("close around a hill", function()
    local xs = steps(-2, 2, 41)
    local paths = contour.paths(grid(function(x, y) return -x * x - y * y end, xs, xs), xs, xs, -1)
    assert.equal(1, #paths)
    local path = paths[1]
    assert.same(path[1], path[#path])
    local length = 0
    for k, at in ipairs(path) do
      assert(math.abs(math.sqrt(at[1] ^ 2 + at[2] ^ 2) - 1) < 2e-3)
      local before = path[k - 1]
      if before then length = length + math.sqrt((at[1] - before[1]) ^ 2 + (at[2] - before[2]) ^ 2) end
    end
    assert(math.abs(length - 2 * math.pi) < 0.01, length)
  end)

  it("close around a single height by every place that they cross", function()
    -- halfway down from 1 to 0 on four sides: a square of diagonal 1
    local paths = contour.paths({ { 0, 0, 0 }, { 0, 1, 0 }, { 0, 0, 0 } }, { 1, 2, 3 }, { 1, 2, 3 }, 0.5)
    assert.equal(1, #paths)
    assert.equal(5, #paths[1])
    assert.same(paths[1][1], paths[1][5])
    for k = 1, 4 do
      local from, to = paths[1][k], paths[1][k + 1]
      assert(math.abs((from[1] - to[1]) ^ 2 + (from[2] - to[2]) ^ 2 - 0.5) < 1e-12)
      assert(math.abs(math.abs(from[1] - 2) + math.abs(from[2] - 2) - 0.5) < 1e-12)
    end
  end)

  it("go between the higher corners of a saddle by its mean, and leave out what has no value", function()
    local at = { 1, 2 }
    -- 1 and 2 on the diagonal, 0 beside: at 0.6 (mean 0.75) the high corners are joined, at 0.9 apart
    local function places(level)
      local paths = contour.paths({ { 1, 0 }, { 0, 2 } }, at, at, level)
      assert.equal(2, #paths)
      local sums = {}
      for k, path in ipairs(paths) do sums[k] = path[1][1] + path[1][2] + path[2][1] + path[2][2] end
      table.sort(sums)
      return sums
    end
    -- joined: each line cuts off a low corner, (2, 1) or (1, 2), and its two ends lie on both sides of x + y = 3
    local joined = places(0.6)
    assert(math.abs(joined[1] - (1.4 + 1 + 2 + 1.3)) < 1e-12 and math.abs(joined[2] - joined[1]) < 1e-12)
    -- apart: the line around (1, 1) lies near it
    local apart = places(0.9)
    assert(math.abs(apart[1] - (1.1 + 1 + 1 + 1.1)) < 1e-12, apart[1])
    assert.equal(0, #contour.paths({ { 0, 1 }, { 0 / 0, 1 } }, at, at, 0.5))
  end)

  it("are marks with their heights in the legend, or of one colour", function()
    local marks = plot.contours(pn.linspace(0, 1, 12):reshape { 3, 4 }, { levels = 3 })
    local labels = {}
    for k, m in ipairs(marks) do labels[k] = m.label end
    assert.same({ "0.25", "0.5", "0.75" }, labels)
    for count, several in pairs { [3] = marks, [2] = plot.impulses({ 1, 2 }, { 1, 2 }),
      [1] = plot.fan({ 1, 2 }, { { 1, 2 }, { 3, 4 } }) } do
      assert.equal(count + 1, #plot.panel({ several, plot.line({ 1, 2 }, { 1, 2 }) }).marks) -- one after another
    end
    marks = plot.contours({ { 0, 1 }, { 0, 1 } }, { levels = { 0.25, 0.5 }, colour = "#333333", label = "border",
      x = { 10, 20 }, y = { 5, 6 } })
    assert.equal("border", marks[1].label)
    assert.is_nil(marks[2].label)
    assert.same({ "12.5 5", "12.5 6" }, marks[1].data)
    for pattern, f in pairs {
      ["plot.contours: no level crosses the heights, which lie between 0 and 1"] = function()
        plot.contours({ { 0, 1 }, { 0, 1 } }, { levels = { 3 } })
      end,
      ["plot.contours: matrix must have 2 rows and 2 columns at least, got %[1, 2%]"] = function()
        plot.contours { { 0, 1 } }
      end,
      ["plot.contours: levels must hold"] = function() plot.contours({ { 0, 1 }, { 0, 1 } }, { levels = {} }) end,
      ["plot.contours: x must have 2 values, got 3"] = function()
        plot.contours({ { 0, 1 }, { 0, 1 } }, { x = { 1, 2, 3 } })
      end,
    } do
      assert.error_matches(f, pattern)
    end
  end)
end)

describe("a picture", function()
  it("shows bars below zero", function()
    local text = script { plot.bars(nil, { 3, -1, 2 }) }
    assert.is_truthy(text:find("set yrange [*<0:0<*]", 1, true) and text:find("set xzeroaxis", 1, true))
    assert.is_truthy(script({ plot.bars(nil, { 3, 1, 2 }) }):find("set yrange [0:*]", 1, true))
    local letters = shown { plot.bars(nil, { 4, -4, 4 }) }
    assert.matches("\n *%-4 %+", letters)
    local last
    for line in letters:gmatch "[^\n]+" do last = line:find "^ *%-2" and line or last end
    assert.matches("%*.*%*", last) -- the sides of the middle one
  end)

  it("has one legend for all panels, each label once", function()
    local x = { 1, 2, 3 }
    local function panel(more)
      return plot.panel { plot.line(x, x, { label = "a" }), plot.line(x, { 3, 2, 1 }, { label = "b" }), more }
    end
    local panels = { panel(), panel(plot.points(x, x, { label = "c" })), panel() }
    local text = script(panels, { legend = "below", columns = 3, size = { 900, 300 } })
    local head, strip = text:match "^(.*)%$none << EOD\n(.*)$"
    assert.equal(0, times(head, 'title "a"'))
    assert.equal(3, times(head, "unset key\n"))
    for _, name in ipairs { "a", "b", "c" } do assert.equal(1, times(strip, ('title "%s"'):format(name))) end
    assert.equal(0, times(script(panels), "$none"))
    assert.equal(3, times(script(panels), 'title "a"'))
    local letters = shown(panels, { kind = "text", legend = "below" })
    assert.equal(1, times(letters, " a "))
    assert.error_matches(function() script(panels, { legend = "above" }) end, "legend must be one of")
  end)

  it("has aligned panels whose axes are equally large, in their cells", function()
    local panels = {}
    for k, cell in ipairs { 1, 3, 4 } do
      panels[k] = plot.panel { plot.line({ 1, 2 }, { 10 ^ (2 * k), 2 }) }
      panels[k].cell = cell
    end
    local text = script(panels, { columns = 2, aligned = true, size = { 800, 600 } })
    local boxes = {}
    local margin = "set %smargin at screen (%%S+)\n"
    for l, r, t, b in text:gmatch(margin:format "l" .. margin:format "r" .. margin:format "t" .. margin:format "b") do
      boxes[#boxes + 1] = { tonumber(l), tonumber(r), tonumber(t), tonumber(b) }
    end
    assert.equal(3, #boxes)
    for _, box in ipairs(boxes) do
      assert(math.abs((box[2] - box[1]) - (boxes[1][2] - boxes[1][1])) < 1e-5)
      assert(math.abs((box[3] - box[4]) - (boxes[1][3] - boxes[1][4])) < 1e-5)
      assert(box[1] > 0 and box[2] < 1 and box[4] > 0 and box[3] <= 1)
    end
    assert.equal(boxes[1][1], boxes[2][1])
    assert(boxes[3][1] > boxes[2][2] and boxes[2][3] < boxes[1][4])
    assert.equal(boxes[2][4], boxes[3][4])
  end)

  it("has panels that fill the canvas, row below row, above the strip of a legend", function()
    local panels = {}
    for k = 1, 5 do panels[k] = plot.panel { plot.line({ 1, 2 }, { k, 2 }, { label = "a" }) } end
    for _, legend in ipairs { false, "below" } do
      local text = script(panels, { columns = 2, legend = legend or nil, size = { 800, 600 } })
      local boxes = {}
      for w, h, x, y in text:gmatch "set size (%S+), (%S+)\nset origin (%S+), (%S+)" do
        boxes[#boxes + 1] = { tonumber(x), tonumber(y), tonumber(w), tonumber(h) }
      end
      assert.equal(legend and 6 or 5, #boxes) -- the last one is the legend's
      boxes[6] = nil
      local foot = boxes[5][2]
      assert(legend and foot > 0.03 or foot == 0)
      for k, box in ipairs(boxes) do
        local row, column = (k - 1) // 2, (k - 1) % 2
        assert(math.abs(box[1] - column / 2) < 1e-5 and math.abs(box[3] - 0.5) < 1e-5)
        assert(math.abs(box[4] - boxes[1][4]) < 1e-5)
        assert(math.abs(box[2] - (foot + (2 - row) * box[4])) < 1e-5, "a row stands elsewhere")
        assert(box[2] + box[4] <= 1 + 1e-5)
      end
    end
  end)

  it("of a reliability diagram begins where its intervals do", function()
    local bins = { { low = 0.6, high = 0.7, count = 400, confidence = 0.65, accuracy = 0.6 },
      { low = 0.9, high = 1, count = 400, confidence = 0.95, accuracy = 0.97 } }
    local panel = plot.reliability(bins)
    -- Agresti and Coull: (0.6 400 + 2) / 404 less two standard errors, and a fiftieth for the margin
    local centre = 242 / 404
    local low = centre - 2 * math.sqrt(centre * (1 - centre) / 404)
    assert(math.abs(panel.y_range[1] - (math.min(low, panel.x_range[1]) - 0.02)) < 1e-12)
    assert.same({ 0.58, 1 }, panel.x_range)
  end)

  it("puts words beside what they name, in the middle unless told", function()
    assert.matches("labels center textcolor", script { plot.text({ 1 }, { 1 }, { "a" }) })
    assert.matches("labels center offset 0, 0.8 textcolor", script { plot.text({ 1 }, { 1 }, { "a" },
      { place = "above" }) })
    assert.error_matches(function() plot.text({ 1 }, { 1 }, { "a" }, { place = "over" }) end, "place must be one of")
  end)

  it("counts whole epochs", function()
    local panels = plot.history { history = { 3, 2, 1 }, scores = { 1, 2, 1.5 }, best_epoch = 2, best = 2, epoch = 3 }
    assert.equal(1, panels[1].x_step)
    assert.equal(1, panels[2].x_step)
  end)
end)

describe("a picture in letters", function()
  it("of pixels has two letters for each, by its shade", function()
    local text = shown { plot.images(pn.tensor { { { 0, 1 }, { 0.5, 0 } }, { { 1, 1 }, { 0, 0 } } }, { columns = 2 }) }
    assert.matches("^ +%.%.@@  @@@@\n +==%.%.  %.%.%.%.\n", text)
    -- one letter where there is no room for two, then for each second row; of more than that each so manieth pixel
    local wide = shown { plot.images(pn.ones { 1, 4, 60 }, { range = { 0, 1 } }) }
    assert.matches(("^ +%s\n +%s\n"):format(("@"):rep(60), ("@"):rep(60)), wide)
    local _, lines = shown({ plot.images(pn.ones { 1, 8, 200 }, { range = { 0, 1 } }) }):gsub("@+\n", "")
    assert.equal(2, lines) -- of 8 rows each third and of those each second: rows 1 and 7
  end)

  it("has its title, the label of y above the axis, and error bars with one sample", function()
    local p = plot.panel { title = "one", y_label = "a long label of y", y_names = { "first", "second" },
      plot.error_bars({ 1, 2 }, { 1, 2 }, { 0.2, 0.2 }, { label = "e" }) }
    local text = shown({ p, plot.panel { plot.line({ 1, 2 }, { 1, 2 }) } }, { kind = "text", title = "of all" })
    assert.matches("^ +of all\n", text)
    assert.matches("a long label of y +one", text)
    assert.matches("\n *second |", text)
    assert.matches("\n[^%*\n]*A +e *\n", text) -- no bars of a sample above and below
  end)
end)
