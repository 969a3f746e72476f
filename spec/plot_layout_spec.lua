--- Where things stand in pictures: legends in corners that nothing reaches, panels that fill the canvas, numbers of
--- marks, colours in turn. Read off the program that gnuplot is given.
local pn = require "penumbra"
local plot = pn.plot

local function script(content, opt) return plot.script("a.svg", "svg", content, opt) end

-- The rows of numbers of the k-th data block of a program.
local function block(text, k)
  local rows = {}
  for line in text:match("%$data" .. k .. " << EOD\n(.-)EOD"):gmatch "[^\n]+" do
    local row = {}
    for word in line:gmatch "%S+" do row[#row + 1] = tonumber(word) or word end
    rows[#rows + 1] = row
  end
  return rows
end

local function near(want, got, what)
  assert(math.abs(want - got) < 2e-5, ("%s: %.8g, not %.8g"):format(what or "", got, want))
end

describe("a legend", function()
  local function corner_of(text)
    return text:match "set key inside vertical (%a+ %a+)" or text:match "set key bmargin" and "below" or "none"
  end

  -- marks: lists of {x, y, down = it reaches down to zero}.
  local function free(points, x_range, y_range, x_log, y_log)
    local function shares(k, given, log)
      local list, low, high = {}, math.huge, -math.huge
      for i, p in ipairs(points) do
        list[i] = log and math.log(p[k]) or p[k]
        low, high = math.min(low, list[i]), math.max(high, list[i])
      end
      if given then
        low, high = math.min(given[1], given[2]), math.max(given[1], given[2])
        if log then low, high = math.log(low), math.log(high) end
      end
      for i, v in ipairs(list) do list[i] = (v - low) / (high - low) end
      return list
    end
    local x, y = shares(1, x_range, x_log), shares(2, y_range, y_log)
    for _, corner in ipairs { "top right", "top left", "bottom right", "bottom left" } do
      local taken = false
      for i, p in ipairs(points) do
        local across = corner:find "right" and x[i] > 0.6 or corner:find "left" and x[i] < 0.4
        local along = corner:find "top" and y[i] > 0.65 or corner:find "bottom" and (y[i] < 0.35 or p.down)
        taken = taken or across and along
      end
      if not taken then return corner end
    end
    return "below"
  end

  it("stands in the first corner that no mark reaches, or below", function()
    local g, seen = pn.generator(4), {}
    for trial = 1, 60 do
      local n = trial % 6 + 2
      local x, y = (pn.rand({ n }, { generator = g }) * 9 + 1):totable(), (pn.rand({ n }, { generator = g }) * 5 + 1)
        :totable()
      local points, kind, p = {}, trial % 4, { x_log = trial % 3 == 0, y_log = trial % 5 == 0 }
      if trial % 7 == 0 then p.x_range, p.y_range = { 0.5, 12 }, { 7, 0.5 } end
      for i = 1, n do points[i] = { x[i], y[i] } end
      if kind == 0 then
        p[1] = plot.points(x, y, { label = "a" })
      elseif kind == 1 then
        p[1] = plot.line(x, y, { label = "a" })
      elseif kind == 2 then
        local upper = {}
        for i = 1, n do
          upper[i] = y[i] + 2
          points[n + i] = { x[i], upper[i] }
        end
        p[1] = plot.band(x, y, upper, { label = "a" })
      else
        p.y_log = false
        p[1] = plot.bars(x, y, { label = "a" })
        for i = 1, n do points[i].down = true end
      end
      local corner = corner_of(script(p))
      assert.equal(free(points, p.x_range, p.y_range, p.x_log, p.y_log), corner, trial)
      seen[corner] = true
    end
    assert.is_true(seen["top right"] and seen["top left"] and seen["bottom right"] and seen.below)
    assert.equal("none", corner_of(script { plot.line({ 1, 2 }, { 1, 2 }) })) -- without a label there is none
    assert.matches("unset key", script { legend = "none", plot.line({ 1, 2 }, { 1, 2 }, { label = "a" }) })
  end)

  it("of all panels stands below them, each label once", function()
    local list = {}
    for k = 1, 3 do
      list[k] = plot.panel { plot.line({ 1, 2 }, { k, 2 }, { label = "one" }), plot.points({ 1, 2 }, { k, 2 },
        { label = k == 3 and "three" or "two" }) }
    end
    local text = script(list, { legend = "below", columns = 2 })
    local height = 2 * 330 + 30
    local strip = text:match "set size 1, ([%d.]+)\nset origin 0, 0"
    near(34 / height, strip, "strip")
    near(17 / height, text:match "set key at screen 0.5, screen ([%d.]+) center", "middle")
    local labels = {}
    for label in text:match "\nplot (%$none[^\n]*)":gmatch 'title "(.-)"' do labels[#labels + 1] = label end
    assert.same({ "one", "two", "three" }, labels)
    local before = text:match "^(.*)%$none << EOD"
    assert.equal(0, select(2, before:gsub('title "one"', "")))
  end)
end)

describe("a grid of panels", function()
  local function panels(n)
    local list = {}
    for k = 1, n do list[k] = plot.panel { title = "p" .. k, plot.line({ 1, 2 }, { 1, 2 }, { label = "a" }) } end
    return list
  end

  it("fills the canvas row by row below the title and above the legend", function()
    for _, case in ipairs { { 2 }, { 3 }, { 5 }, { 5, 1 }, { 6, 3 }, { 7, 3, title = "T" }, { 4, 2, legend = "below" },
      { 5, 2, title = "T", legend = "below", size = { 500, 400 } } } do
      local n, columns = case[1], case[2] or math.ceil(math.sqrt(case[1]))
      local rows = math.ceil(n / columns)
      local text = script(panels(n), { columns = case[2], title = case.title, legend = case.legend, size = case.size })
      local width = case.size and case.size[1] or columns * 440
      local height = case.size and case.size[2] or rows * 330 + (case.title and 30 or 0) + (case.legend and 30 or 0)
      assert.matches(("size %d,%d "):format(width, height), text)
      local at = {}
      for w, h, x, y in text:gmatch "set size ([%d.]+), ([%d.]+)\nset origin ([%d.]+), ([%d.]+)" do
        at[#at + 1] = { w = tonumber(w), h = tonumber(h), x = tonumber(x), y = tonumber(y) }
      end
      assert.equal(case.legend and n + 1 or n, #at)
      for k = 1, n do
        local row, column = (k - 1) // columns + 1, (k - 1) % columns + 1
        near(1 / columns, at[k].w, "width")
        near((column - 1) / columns, at[k].x, "left")
        near(row == 1 and 1 - (case.title and 26 or 6) / height or at[k - columns].y, at[k].y + at[k].h, "top")
        if row == rows then near((case.legend and 34 or 0) / height, at[k].y, "bottom") end
      end
    end
  end)

  it("with axes that are equally large has even gaps between them", function()
    for _, case in ipairs { { 3, 3 }, { 6, 2, title = "T" }, { 4, 3, legend = "below" } } do
      local n, columns = case[1], case[2]
      local rows = math.ceil(n / columns)
      local text = script(panels(n), { columns = columns, title = case.title, legend = case.legend, aligned = true,
        size = { 700, 600 } })
      local at = {}
      local margins = ""
      for k, side in ipairs { "l", "r", "t", "b" } do
        margins = ("%s%sset %smargin at screen ([%%d.]+)"):format(margins, k > 1 and "\n" or "", side)
      end
      for l, r, t, b in text:gmatch(margins) do
        at[#at + 1] = { l = l * 700, r = r * 700, t = t * 600, b = b * 600 }
      end
      assert.equal(n, #at)
      for k = 1, n do
        local row, column = (k - 1) // columns + 1, (k - 1) % columns + 1
        local function close(want, got) assert(math.abs(want - got) < 0.01, ("%g %g"):format(want, got)) end
        close(at[1].r - at[1].l, at[k].r - at[k].l)
        close(at[1].t - at[1].b, at[k].t - at[k].b)
        close(column == 1 and 74 or at[k - 1].r + 20, at[k].l)
        close(row == 1 and 600 - (case.title and 26 or 6) or at[k - columns].b - 20, at[k].t)
        if column == columns then close(680, at[k].r) end
        if row == rows then close(60 + (case.legend and 34 or 0), at[k].b) end
      end
    end
  end)

  it("of one panel takes the title of the figure, of pictures the shape of the pictures", function()
    assert.matches('set title "T"', (script({ plot.panel { plot.line({ 1, 2 }, { 1, 2 }) } }, { title = "T" })))
    assert.matches('size 680,430 ', script { plot.line({ 1, 2 }, { 1, 2 }) })
    for _, case in ipairs { { 1, 2, 4, 640, 640 * 4 / 9 }, { 2, 2, 4, 640 * 4 / 9, 640, "T" } } do
      -- two pictures of 4 x 4 with a white line between: 4 x 9, or 9 x 4
      local m = plot.images(pn.rand { 2, 4, 4 }, { columns = case[1] == 1 and 2 or 1 })
      local text = script({ m }, { title = case[6] })
      local w, h = text:match "size (%d+),(%d+) "
      near(math.floor(case[4]), tonumber(w))
      near(math.floor(case[5] + (case[6] and 30 or 0)), tonumber(h))
    end
  end)
end)

describe("a program", function()
  it("has a statement for all that a panel has, each panel after what undoes the one before", function()
    local line = plot.line({ 1, 2 }, { 3, 4 }, { label = "l" })
    local function lines_of(p)
      local seen = {}
      for l in (script(p) .. "\n"):gmatch "([^\n]*)\n" do seen[l] = (seen[l] or 0) + 1 end
      return seen
    end
    local function has(p, ...)
      local seen = lines_of(p)
      for _, want in ipairs { ... } do assert(seen[want], want .. "\n" .. script(p)) end
    end
    local grey = " textcolor rgb '#333333'"
    local always = { "unset title", "unset xlabel", "set xtics autofreq", "set yrange [*:*] noreverse", "set grid",
      "set encoding utf8", "set output \"\\056\\057a\\056svg\"", "unset output", "$data1 << EOD", "EOD" }
    local function with(...) return table.unpack(table.move({ ... }, 1, select("#", ...), #always + 1,
      table.move(always, 1, #always, 1, {}))) end
    has({ title = "t", x_label = "u", y_label = "v", x_log = true, y_log = true, x_step = 2, y_step = 0.5,
      x_range = { 1, 8 }, y_range = { 2, 9 }, legend = "top left", legend_title = "w", line },
      with('set title "t" textcolor rgb \'#222222\'', 'set xlabel "u"' .. grey, 'set ylabel "v"' .. grey,
        "set logscale x", "set format x '%g'", "set logscale y", "set format y '%g'", "set xtics 2",
        "set format x '%.7g'", "set ytics 0.5", "set format y '%.7g'", "set xrange [1:8]", "set yrange [2:9]",
        "set key inside vertical top left", 'set key title "w"', "1 3", "2 4"))
    has({ x_label = "u", legend = "below", line }, with('set xlabel "u\\n"' .. grey,
      "set key bmargin center horizontal"))
    has({ x_range = { 8, 1 }, plot.bars({ 1, 2 }, { -3, 4 }) }, with("set xrange [8:1]", "set yrange [*<0:0<*]",
      "set xzeroaxis linetype 1 linecolor rgb '#5a5a5a' linewidth 1", "unset key"))
    has({ plot.bars({ 1, 2 }, { 3, 4 }) }, with("set yrange [0:*]", "set autoscale xfix",
      "set offsets graph 0.02, graph 0.02, 0, 0"))
    has({ plot.heatmap({ { 1, 2 }, { 3, 4 } }, { colour_label = "c" }) }, with("set yrange [*:*] reverse",
      "unset grid", "set autoscale yfix", "set datafile missing", 'set cblabel "c"' .. grey))
    has({ title = "p", plot.images(pn.rand { 1, 3, 3 }, { range = { 0, 2 } }) }, with("set cbrange [0:2]",
      "set size ratio -1", "set border 0", "unset colorbox", "set margins 0.5,0.5,0.5,2"))
    local three = {}
    for k = 1, 3 do three[k] = plot.panel { title = "p" .. k, line } end
    for legend, resets in pairs { panels = 3, below = 4 } do
      local text = script(three, { legend = legend, title = "all" })
      assert.equal(resets, select(2, text:gsub("unset title\n", "")))
      assert.equal(resets, select(2, text:gsub("set size [%d.]+, [%d.]+\nset origin", "")))
      assert.matches('set multiplot title "all"\n', text)
      assert.matches("unset multiplot\nunset output", text)
      for k = 1, 3 do assert(text:find('set title "p\\06' .. k .. '"', 1, true)) end
    end
  end)
end)

describe("marks", function()
  it("have the numbers that they were given", function()
    local x, y = { 3, 1, 2.5 }, { 4, -1, 0.5 }
    local text = script { plot.error_bars(x, y, { 0.5, 0.25, 1 }), plot.error_bars(x, y, { lower = { 3, -2, 0 },
      upper = { 5, 0, 9 } }), plot.bars(x, y), plot.bars(x, y, { width = 0.5 }), plot.bars({ 7 }, { 2 }),
      plot.heatmap({ { 1, 2, 3 }, { 4, 5, 6 } }), plot.heatmap({ { 1, 2 } }, { x = { 5, 6 }, y = { 9 } }),
      plot.text({ 1, 2 }, { 3, 4 }, { "a", "b c" }) }
    assert.same({ { 3, 4, 3.5, 4.5 }, { 1, -1, -1.25, -0.75 }, { 2.5, 0.5, -0.5, 1.5 } }, block(text, 1))
    assert.same({ { 3, 4, 3, 5 }, { 1, -1, -2, 0 }, { 2.5, 0.5, 0, 9 } }, block(text, 2))
    -- the narrowest gap is that between 1 and 2.5 in the order of the list: |1 - 3| = 2 and |2.5 - 1| = 1.5
    assert.same({ { 3, 4, 1.2 }, { 1, -1, 1.2 }, { 2.5, 0.5, 1.2 } }, block(text, 3))
    assert.equal(0.75, block(text, 4)[1][3])
    assert.same({ { 7, 2, 0.8 } }, block(text, 5))
    assert.same({ { 1, 1, 1 }, { 2, 1, 2 }, { 3, 1, 3 }, { 1, 2, 4 }, { 2, 2, 5 }, { 3, 2, 6 } }, block(text, 6))
    assert.same({ { 5, 9, 1 }, { 6, 9, 2 } }, block(text, 7))
    assert.same({ 1, 3 }, { table.unpack(block(text, 8)[1], 1, 2) })
    assert.matches("set yrange %[%*<0:0<%*%]", text) -- bars below zero
    local up = script { plot.bars({ 1, 2 }, { 3, 4 }) }
    assert.matches("set yrange %[0:%*%]", up)
    assert.not_matches("xzeroaxis linetype", up)
    local fan = script { plot.fan({ 1, 2 }, { { 1, 1 }, { 2, 2 }, { 3, 3 }, { 4, 4 }, { 5, 6 } }, { label = "l" }) }
    assert.same({ { 1, 1, 5 }, { 2, 1, 6 } }, block(fan, 1))
    assert.same({ { 1, 2, 4 }, { 2, 2, 4 } }, block(fan, 2))
    assert.same({ { 1, 3 }, { 2, 3 } }, block(fan, 3))
  end)

  it("take the colours in turn, those of a fan one, and begin again after the last", function()
    local marks, want = {}, {}
    local wheel = { "#2f6db3", "#d9752b", "#3a9276", "#b5486a", "#7a62ad", "#8a7433", "#5f6b78" }
    local x = { 1, 2 }
    local function add(m, n, k)
      marks[#marks + 1] = m
      for _ = 1, n do want[#want + 1] = wheel[k] end
    end
    add(plot.line(x, x), 1, 1)
    add(plot.fan(x, { { 1, 1 }, { 2, 2 }, { 3, 3 }, { 4, 4 } }), 2, 2)
    add(plot.points(x, x), 1, 3)
    marks[#marks + 1], want[#want + 1] = plot.line(x, x, { colour = "#123456" }), "#123456"
    for k = 4, 7 do add(plot.line(x, x), 1, k) end
    add(plot.line(x, x), 1, 1)
    local got = {}
    for colour in script(marks):match "\nplot ([^\n]*)":gmatch "linecolor rgb '(#%x+)'" do got[#got + 1] = colour end
    assert.same(want, got)
  end)

  it("that are dots have room at the edges, words more, none on logarithmic axes", function()
    local function offsets(p) return script(p):match "set offsets ([^\n]*)" end
    local x, bars = { 1, 2 }, plot.error_bars({ 1, 2 }, { 1, 2 }, { 0.1, 0.1 })
    assert.equal("graph 0.04, graph 0.04, graph 0.03, graph 0.03", offsets { bars })
    assert.equal("graph 0, graph 0, graph 0.03, graph 0.03", offsets { x_log = true, bars })
    assert.equal("graph 0.04, graph 0.04, graph 0, graph 0", offsets { y_log = true, bars })
    assert.equal("graph 0.04, graph 0.04, graph 0.06, graph 0.06", offsets { plot.text(x, x, { "a", "b" }) })
    assert.is_nil(offsets { plot.line(x, x) })
  end)

  it("of names turn upright where there is no room: two letters beside each, sixty in a row", function()
    local function upright(count, length, columns)
      local names, x = {}, {}
      for k = 1, count do names[k], x[k] = ("n"):rep(length), k end
      local p = plot.panel { x_names = names, plot.points(x, x) }
      return script(columns and { p, p, columns = columns } or p):find("rotate by 90", 1, true) ~= nil
    end
    assert.is_false(upright(5, 10))
    assert.is_true(upright(5, 11))
    assert.is_false(upright(3, 8, 2))
    assert.is_true(upright(3, 9, 2))
  end)
end)

describe("pictures in letters", function()
  it("have their title in the middle", function()
    local m = plot.images(pn.rand { 1, 4, 4 })
    local panel = plot.panel { title = "inner", m }
    local path, stdout = os.tmpname(), io.stdout
    local file <close> = assert(io.open(path, "w+"))
    rawset(io, "stdout", file)
    local ok, message = pcall(plot.show, { panel, panel }, { kind = "text", title = "outside" })
    rawset(io, "stdout", stdout)
    assert(ok, message)
    file:seek "set"
    local text, width = file:read "a", 79
    os.remove(path)
    assert.equal((" "):rep((width - 7) // 2) .. "outside", text:match "[^\n]*")
    assert.equal((" "):rep((width - 5) // 2) .. "inner", text:match "\n( *inner)")
  end)
end)

describe("lines of equal height", function()
  -- Pieces of a mark's lines, between which the pen is lifted.
  local function pieces(mark)
    local list = { {} }
    for _, line in ipairs(mark.data) do
      if line == "" then
        list[#list + 1] = {}
      else
        local x, y = line:match "^(%S+) (%S+)$"
        table.insert(list[#list], { tonumber(x), tonumber(y) })
      end
    end
    return list
  end

  it("lie where the surface has their height, in one piece for each hill", function()
    local wheel = { "#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39" }
    local xs, ys, plane = { 1, 2, 4, 7 }, { -1, 0, 3 }, {}
    for i, y in ipairs(ys) do
      plane[i] = {}
      for j, x in ipairs(xs) do plane[i][j] = x + 2 * y end
    end
    for _, count in ipairs { 1, 2, 3, 6, 9 } do
      local marks = plot.contours(plane, { x = xs, y = ys, levels = count })
      assert.equal(count, #marks)
      for k, m in ipairs(marks) do
        local height = -1 + 14 * k / (count + 1)
        assert.equal(("%.4g"):format(height), m.label)
        assert.equal(wheel[count > 1 and 1 + math.floor(6 * (k - 1) / (count - 1) + 0.5) or 1], m.colour)
        assert.equal(1, #pieces(m))
        for _, at in ipairs(pieces(m)[1]) do assert(math.abs(at[1] + 2 * at[2] - height) < 1e-8) end
      end
    end
    local hills = { { 0, 0, 0, 0, 0 }, { 0, 1, 0, 1, 0 }, { 0, 0, 0, 0, 0 } }
    local two = pieces(plot.contours(hills, { levels = { 0.5 }, colour = "#333333" })[1])
    assert.equal(2, #two)
    local middles = {}
    for k, piece in ipairs(two) do
      local points, x, y = {}, 0, 0
      for _, at in ipairs(piece) do points[at[1] .. " " .. at[2]] = at end
      for _, at in pairs(points) do x, y = x + at[1] / 4, y + at[2] / 4 end
      assert.equal(5, #piece) -- four sides' middles, and the first again
      assert.same(piece[1], piece[5])
      assert.equal(2, y)
      middles[k] = x
    end
    table.sort(middles)
    assert.same({ 2, 4 }, middles)
  end)

  it("of pictures in letters: two for each pixel where there is room, in the middle", function()
    local shades = ".:-=+*#@"
    for _, case in ipairs { { 2, 5, 20 }, { 6, 9, 12 }, { 9, 30, 12 }, { 4, 12, 24 }, { 3, 8, 15 } } do
      local h, w, letters = table.unpack(case)
      local x = pn.rand({ h, w }, { generator = pn.generator(w) })
      local text = plot.images(x:unsqueeze(1), { range = { 0.2, 0.9 } }).letters(letters)
      local twice = 2 * w <= letters
      local every = math.ceil((twice and 2 or 1) * w / letters)
      local want, rows = {}, x:totable()
      for i = 1, h, every * (twice and 1 or 2) do
        local line = ""
        for j = 1, w, every do
          local v = math.min(1, math.max(0, (rows[i][j] - 0.2) / 0.7))
          local at = math.min(8, math.floor(v * 7.999) + 1)
          line = line .. shades:sub(at, at):rep(twice and 2 or 1)
        end
        want[#want + 1] = (" "):rep((letters - #line) // 2) .. line
      end
      assert.equal(table.concat(want, "\n") .. "\n", text)
    end
  end)
end)

describe("a figure", function()
  local gnuplot = require "penumbra.plot.gnuplot"
  local refuses = require("spec.helper").refuses
  local function panel(o)
    o = o or {}
    o[1] = plot.line({ 1, 2 }, { 3, 4 }, { label = "a" })
    return plot.panel(o)
  end
  local function size_of(content, o, kind)
    local w, h = plot.script("a." .. (kind or "svg"), kind or "svg", content, o):match "size ([%d.]+)i?n?,([%d.]+)"
    return { tonumber(w), tonumber(h) }
  end

  it("is as large as its format asks for, or as it is told", function()
    assert.same({ 680, 430 }, size_of(panel()))
    assert.same({ 1360, 860 }, size_of(panel(), nil, "png"))
    local inches = size_of(panel(), nil, "pdf")
    assert.near(680 / 72, inches[1], 1e-3)
    assert.near(430 / 72, inches[2], 1e-3)
    for _, size in ipairs { { 50, 10000 }, { 10000, 50 } } do
      assert.same(size, size_of(panel(), { size = size }))
    end
    for _, size in ipairs { { 49.9, 60 }, { 60, 49.9 }, { 10001, 60 }, { 60, 10001 }, { 60 }, { "60", 60 }, {} } do
      refuses("plot.save: size must be {width, height}, each from 50 to 10000", size_of, panel(), { size = size })
    end
  end)

  it("is refused where it is none, by the word that is wrong", function()
    refuses("plot.save: needs a panel or a list of panels", size_of, 3)
    refuses("plot.save: needs at least one mark such as plot.line(x, y), or panels", size_of, {})
    refuses("plot.save: item 2 must be a plot.panel", size_of, { panel(), plot.line({ 1 }, { 2 }) })
    refuses("plot.save: unknown option 'colums', did you mean 'columns'", size_of, { panel(), panel(), colums = 1 })
    for _, columns in ipairs { 0, 1.5, -1 } do
      refuses("columns", size_of, { panel(), panel() }, { columns = columns })
    end
    refuses("plot.script: kind must be 'svg', 'png' or 'pdf', got 'gif'", size_of, panel(), nil, "gif")
    refuses("plot.save: path must be a string, got a number", plot.save, 3, panel())
    refuses("plot.script: target must be a string, got 3", plot.script, 3, "svg", panel())
    refuses("plot.save: path must end in .svg, .png or .pdf, got 'a.gif'", plot.save, "a.gif", panel())
    refuses("plot.save: path must end in .svg, .png or .pdf, got 'svg'", plot.save, "svg", panel())
    refuses("plot.save: path must not contain control characters", plot.save, "a\n.svg", panel())
    refuses("plot.panel: needs a table of marks", plot.panel, 3)
    local quote = gnuplot.quote
    for given, told in pairs { ["/t/a.svg"] = "/t/a.svg", ["|a.svg"] = "./|a.svg", ["a.svg"] = "./a.svg" } do
      assert.matches("set output " .. quote(told), plot.script(given, "svg", panel()), 1, true)
    end
  end)

  it("is told the same beside its panels or after them, and of marks as of their panel", function()
    local told = { title = "T", legend = "below", columns = 1, size = { 300, 500 }, aligned = true }
    local content = { panel(), panel { y_label = "v" } }
    local want = script(content, told)
    for name, value in pairs(told) do content[name] = value end
    assert.equal(want, script(content))
    local m, fan = plot.line({ 1, 2 }, { 3, 4 }, { label = "a" }), plot.fan({ 1, 2 }, { { 1, 1 }, { 2, 2 }, { 3, 3 } })
    assert.equal(script(panel { title = "t", legend = "none" }, { size = { 300, 200 } }),
      script { m, title = "t", legend = "none", size = { 300, 200 } })
    assert.equal(script { m }, script(m)) -- a mark, and the marks of a fan, by themselves
    assert.equal(script { fan }, script(fan))
    assert.equal(script({ m }, { title = "t" }), script(m, { title = "t" }))
    refuses("plot.save: item 2 must be a plot.panel", script, { panel(), m })
  end)

  -- Calls f while gnuplot has other functions.
  local function with(functions, f)
    local kept = {}
    for name, g in pairs(functions) do kept[name], gnuplot[name] = gnuplot[name], g end
    local results = table.pack(pcall(f))
    for name in pairs(functions) do gnuplot[name] = kept[name] end
    assert(results[1], results[2])
    return table.unpack(results, 2, results.n)
  end

  it("is missing where nobody may draw, and leaves nothing where it could not be drawn", function()
    local path = os.tmpname()
    local function there()
      local pipe = io.popen("ls '" .. path .. "'*")
      local text = pipe:read "a"
      pipe:close()
      return text
    end
    local file = path .. ".svg"
    local function nobody() return false end
    for name, f in pairs { save = function() return plot.save(file, panel()) end,
      show = function() return plot.show(panel(), { kind = "text" }) end } do
      assert.same({ n = 3, nil, ("plot.%s: gnuplot draws, and this host lets scripts start no programs"):format(name),
        "missing" }, table.pack(with({ may_draw = nobody }, f)))
      assert.same({ n = 3, nil, "it says why", "state" },
        table.pack(with({ run = function() return nil, "it says why", "state" end }, f)))
    end
    local tmpname, given = os.tmpname, nil
    rawset(os, "tmpname", function()
      given = tmpname()
      return given
    end)
    local results = table.pack(with({ run = function() return "" end }, function() return plot.save(file, panel()) end))
    rawset(os, "tmpname", tmpname)
    assert.same({ n = 3, nil, "plot.save: gnuplot wrote nothing", "state" }, results)
    assert.is_nil((io.open(given))) -- only the name was wanted
    assert.equal(path .. "\n", there())
    os.execute("mkdir '" .. file .. "'")
    local ok, message, code = with({ run = function() return "" end, exists = function() return true end },
      function() return plot.save(file, panel()) end)
    os.execute("rmdir '" .. file .. "'")
    assert.same({ false, "io" }, { ok or false, code })
    assert.matches("irectory", message)
    assert.equal(path .. "\n", there())
    os.remove(path)
    for name, home in pairs { popen = io, tmpname = os } do
      local kept = home[name]
      rawset(home, name, nil)
      local may = gnuplot.may_draw()
      rawset(home, name, kept)
      assert(not may and gnuplot.may_draw())
    end
  end)

  -- What plot.show, freshly loaded, hands gnuplot and writes, on a terminal so wide that answers so.
  local function shown(content, o, width, answer, said)
    local core, written = require "penumbra.core", ""
    local terminal, ask, module = core.terminal, core.terminal_answer, package.loaded["penumbra.plot"]
    local stdout = io.stdout
    local asked, scripts, flushed = 0, {}, 0
    local file = { write = function(_, ...) written = written .. table.concat { ... } end,
      flush = function() flushed = flushed + 1 end }
    core.terminal, core.terminal_answer = function() return width end, function()
      asked = asked + 1
      return answer
    end
    package.loaded["penumbra.plot"] = nil
    rawset(io, "stdout", file)
    local ok, result = pcall(with, { run = function(text)
      scripts[#scripts + 1] = text
      return said or "letters\n"
    end }, function()
      local fresh = require "penumbra.plot"
      assert(fresh.show(content, o) == true)
      return fresh.show(content, o)
    end)
    rawset(io, "stdout", stdout)
    core.terminal, core.terminal_answer, package.loaded["penumbra.plot"] = terminal, ask, module
    assert(ok, result)
    assert.equal(2, flushed)
    return scripts, written, asked
  end

  it("is shown in colours where the terminal says that it has sixels, which it is asked once", function()
    for answer, sixels in pairs { ["\27[?62;4;6c"] = true, ["\27[?4c"] = true, ["\27[?62;14;40c"] = false,
      ["4c"] = false, [""] = false } do
      local scripts, text, asked = shown(panel(), nil, 80, answer)
      assert.equal(sixels, scripts[1]:find("set terminal sixelgd truecolor noenhanced size 680,430 background '#fff",
        1, true) ~= nil, answer)
      assert.same({ 1, sixels and "letters\n\nletters\n\n" or "letters\nletters\n" }, { asked, text })
    end
    local scripts, _, asked = shown(panel(), nil, nil, "\27[?4c") -- no terminal
    assert.same({ true, 0 }, { scripts[1]:find "set terminal dumb" ~= nil, asked })
    _, _, asked = shown(panel(), { kind = "text" }, 80, "\27[?4c")
    assert.equal(0, asked)
    scripts = shown({ panel(), panel() }, { kind = "sixel", columns = 1, title = "T" })
    assert.matches("sixelgd truecolor noenhanced size 440,690 ", scripts[1])
  end)

  it("is handed to who shows pictures in place of the terminal, unless letters or sixels are asked for", function()
    local given, content = { title = "T", kind = "auto" }, panel()
    local seen = {}
    local function viewer(...)
      seen[#seen + 1] = { ... }
      return nil, "no", "state"
    end
    assert.same({ n = 3, nil, "no", "state" }, table.pack(with({ viewer = viewer }, function()
      return plot.show(content, given)
    end)))
    assert.same({ { content, { title = "T" } } }, seen)
    assert.equal(content, seen[1][1])
    for _, kind in ipairs { "text", "sixel" } do
      assert.equal("drawn", select(2, with({ viewer = viewer, run = function() return nil, "drawn", "state" end },
        function() return plot.show(content, { kind = kind }) end)))
    end
    assert.equal(1, #seen)
  end)

  it("is as wide as the terminal in letters, from 40 to 160, and a quarter as high, from 16 to 30", function()
    for width, want in pairs { [30] = "40,16", [41] = "40,16", [69] = "68,17", [80] = "79,19", [101] = "100,25",
      [125] = "124,30", [161] = "160,30", [400] = "160,30" } do
      assert.matches("terminal dumb noenhanced size " .. want .. "\n", (shown(panel(), { kind = "text" }, width)[1]))
    end
    assert.matches("size 79,19\n", (shown(panel(), { kind = "text" }))[1])
    local function upright(count, length) -- names in 79 - 8 letters, two beside each
      local names = {}
      for k = 1, count do names[k] = ("n"):rep(length) end
      return shown(panel { x_names = names }, { kind = "text" })[1]:find("rotate by 90", 1, true) ~= nil
    end
    assert.same({ false, true, false, true }, { upright(5, 12), upright(5, 13), upright(1, 69), upright(1, 70) })
  end)

  it("has its title once in letters, and no blank lines above it", function()
    local function title_of(content, o)
      local scripts, text = shown(content, o, nil, nil, "\f\n\na  \n\n\n\nb\n")
      return scripts[1]:match 'set title "(%w*)"' or false, text:sub(1, #text // 2), #scripts // 2
    end
    local text = { kind = "text" }
    assert.same({ false, "a\n\nb\n", 1 }, { title_of(panel(), text) })
    assert.same({ "T", "a\n\nb\n", 1 }, { title_of(panel(), { kind = "text", title = "T" }) })
    local above = (" "):rep(39) .. "T\n\na\n\nb\n"
    assert.same({ "p", above, 1 }, { title_of(panel { title = "p" }, { kind = "text", title = "T" }) })
    assert.same({ false, above, 1 }, { title_of({ panel(), panel() }, { kind = "text", title = "T" }) })
    local long = ("T"):rep(90) -- longer than the line
    assert.equal(long .. "\n\na\n\nb\n", (select(2, title_of(panel { title = "p" }, { kind = "text", title = long }))))
  end)
end)
