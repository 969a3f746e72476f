local pn = require "penumbra"
local plot = require "penumbra.plot"

local folder = os.tmpname()
os.remove(folder)
os.execute("mkdir '" .. folder .. "'")

local function read(path)
  local file = io.open(path, "rb")
  local text = file and file:read "a"
  if file then file:close() end
  return text
end

local function names()
  local pipe = io.popen("ls -A '" .. folder .. "'")
  local text = pipe:read "a"
  pipe:close()
  return text
end

local function count(text, word)
  local _, n = text:gsub(word, "")
  return n
end

describe("a grid of pictures", function()
  it("has each pixel at its place, white in between, and square pixels", function()
    local x = pn.arange(12):reshape { 3, 2, 2 }
    local m = plot.images(x, { columns = 2, range = { 0, 11 } })
    local at = {}
    for _, line in ipairs(m.data) do
      local i, j, v = line:match "(%S+) (%S+) (%S+)"
      at[j .. "," .. i] = v
    end
    assert.same({ "0", "1", "NaN", "4", "5" }, { at["1,1"], at["1,2"], at["1,3"], at["1,4"], at["1,5"] })
    assert.same({ "8", "9", "NaN", "NaN", "NaN" }, { at["4,1"], at["4,2"], at["4,3"], at["4,4"], at["4,5"] })
    assert.equal("NaN", at["3,1"])
    assert.equal(25, #m.data)
    local script = plot.script("a.pdf", "pdf", { m })
    assert.matches("set size ratio %-1", script)
    assert.matches("set cbrange %[0:11%]", script)
    assert.matches("set terminal pdfcairo noenhanced size 8%.889in,8%.889in", script)
    for _, bad in ipairs { { columns = 0 }, { gap = -1 }, { range = { 1, 1 } }, { palette = "red" } } do
      assert.has_error(function() plot.images(x, bad) end)
    end
    assert.has_error(function() plot.images(x[1]) end)
  end)

  it("is shown on the terminal", function()
    local pipe = io.popen((os.getenv "BUILD" or "build") .. [[/penumbra -e 'local pn = require "penumbra"
      local x = pn.linspace(0, 1, 48):reshape { 3, 4, 4 }
      print(pn.plot.show({ pn.plot.images(x) }, { kind = "text" }))' 2>&1]])
    local text = pipe:read "a"
    pipe:close()
    if text:find "missing" then return pending "no gnuplot" end
    assert.matches("%.%.%..*@@@.*true", text)
    assert.not_matches("NaN", text)
  end)

  it("is written as PDF", function()
    local path = os.tmpname() .. ".pdf"
    local ok, _, code = plot.save(path, { plot.images(pn.rand { 6, 8, 8 }) })
    if code == "missing" then return pending "no gnuplot" end
    assert.equal(path, ok)
    local file = assert(io.open(path, "rb"))
    assert.equal("%PDF-", file:read(5))
    file:close()
    os.remove(path)
  end)
end)

describe("plot.save", function()
  teardown(function() os.execute("rm -rf '" .. folder .. "'") end)

  local x = pn.linspace(-3, 3, 50)

  it("keeps cells without a value, and each panel's own legend", function()
    local heat = plot.panel { plot.heatmap { { 1, 0 / 0 }, { 2, 3 } } }
    local line = plot.panel { plot.line(x, x, { label = "a" }), legend = "below", legend_title = "name", x_step = 2 }
    local script = plot.script("a.png", "png", { heat, line, plot.panel { plot.line(x, x, { label = "b" }) } })
    local first = script:match "unset title.-unset title"
    local second, third = script:match "unset title.-(unset title.*)(unset title.*)$"
    assert(first and second and third)
    assert(first:find("set datafile missing\n", 1, true))
    assert(second:find("set datafile missing 'NaN'", 1, true))
    assert(second:find("set key title \"name\"", 1, true) and second:find("set xtics 2", 1, true))
    assert(third:find("set key title ''", 1, true) and third:find("set xtics autofreq", 1, true))
    assert(third:find("set key inside vertical top left", 1, true)) -- the corner that the line leaves empty
  end)

  it("puts words on the axes of one panel, not of the next", function()
    local long = ("a"):rep(60) -- stands upright
    local dots = plot.panel { plot.points({ 1, 2 }, { 1, 2 }), x_names = { long, "it's" }, y_names = { "left", "" } }
    local script = plot.script("a.png", "png", { dots, plot.panel { plot.line(x, x) } })
    local first, second = script:match "unset title(.-)unset title(.*)$"
    assert(first:find('set xtics rotate by 90 right ("' .. long .. '" 1, ', 1, true))
    local short = plot.script("a.png", "png", { x_names = { "a", "b" }, plot.points({ 1, 2 }, { 1, 2 }) })
    assert(short:find('set xtics ("a" 1, "b" 2)', 1, true))
    assert(first:find('set ytics ("left" 1, "" 2)', 1, true))
    assert(second:find("set xtics norotate\nset xtics autofreq\nset ytics autofreq", 1, true))
    assert.has_error(function() plot.script("a.png", "png", { x_names = { 3 }, plot.line(x, x) }) end)
    local path = folder .. "/names.svg"
    assert.equal(path, plot.save(path, dots))
    assert.matches("it's", read(path):gsub("&#39;", "'"), 1, true)
    os.remove(path)
  end)

  it("draws a predictive band as SVG", function()
    local path = folder .. "/band.svg"
    local m = x:sin()
    assert.equal(path, plot.save(path, { title = "A band", x_label = "x", y_label = "y",
      plot.fan(x, { m - 1, m - 0.5, m, m + 0.5, m + 1 }, { label = "prediction" }),
      plot.points({ 0, 1 }, { 0, 1 }, { label = "data" }) }))
    local text = read(path)
    assert.matches("^<%?xml", text)
    assert.matches("</svg>%s*$", text)
    for _, word in ipairs { ">A band<", ">prediction<", ">data<" } do assert.matches(word, text, 1, true) end
    assert.is_true(count(text, "fill%-opacity") >= 2)
    assert.equal("band.svg\n", names())
  end)

  it("draws several panels as PNG", function()
    local path = folder .. "/many.png"
    assert.equal(path, plot.save(path, {
      plot.panel { title = "one", plot.histogram(pn.randn { 500 }, { density = true }),
        plot.line(x, (x * x * -0.5):exp()) },
      plot.panel { title = "two", plot.heatmap(pn.randn { 6, 9 }, { colour_label = "value" }) },
      plot.panel { title = "three", plot.error_bars({ 1, 2, 3 }, { 2, 3, 1 }, { 0.5, 0.2, 0.1 }) },
      plot.panel { title = "four", y_log = true, legend = "below",
        plot.line(nil, { 1, 0.1, 0.01 }, { label = "loss" }) },
      title = "all", columns = 2, size = { 600, 400 } }))
    local text = read(path)
    assert.equal("\137PNG\r\n\26\n", text:sub(1, 8))
    assert.equal(1200, (string.unpack(">I4", text, 17)))
    assert.equal(800, (string.unpack(">I4", text, 21)))
  end)

  it("gives panels in rows the room of as many rows as they need", function()
    local one = plot.panel { plot.line(nil, { 1, 2 }) }
    local height = {}
    for _, of in ipairs { { 2, 2 }, { 3, 2 }, { 4, 2 }, { 5, 2 }, { 3, 3 }, { 3, 1 } } do
      local panels = {}
      for k = 1, of[1] do panels[k] = one end
      panels.columns = of[2]
      local _, high = plot.script("x.svg", "svg", panels):match "size (%d+),%s*(%d+)"
      height[of[1] .. " by " .. of[2]] = tonumber(high) / math.ceil(of[1] / of[2])
    end
    for _, each in pairs(height) do assert.equal(height["2 by 2"], each) end
  end)

  it("writes text as it stands", function()
    local path = folder .. "/text.svg"
    local odd = "50 % of 'x_1' {a^2} `date` $HOME \\n \"q\" @pi|ls"
    assert.equal(path, plot.save(path, { title = odd, plot.line(nil, { 1, 2 }, { label = odd }) }))
    local text = read(path):gsub("<title>.-</title>", ""):gsub("&lt;", "<"):gsub("&gt;", ">")
      :gsub("&quot;", '"'):gsub("&apos;", "'"):gsub("&#39;", "'"):gsub("&amp;", "&")
    assert.equal(2, count(text, odd:gsub("%p", "%%%0")))
  end)

  it("runs nothing that is hidden in names", function()
    local trap = folder .. "/trap"
    local texts = { "'\nsystem 'touch " .. trap .. "'", "''; system 'touch " .. trap .. "'; '", '"; system "touch ' ..
      trap .. '"; "', "`touch " .. trap .. "`", "\\042; system 'touch " .. trap .. "'" }
    for i, name in ipairs { "'; touch trap; '.svg", "$(touch trap).svg", "`touch trap`.svg",
      "a' ; system 'touch trap.svg", "|touch trap .svg" } do
      local path = folder .. "/" .. name
      local saved = plot.save(path, { title = texts[i], x_label = texts[i],
        plot.line(nil, { 1, 2 }, { label = texts[i] }) })
      assert.equal(path, saved)
      assert.is_not_nil(read(path))
      assert.is_nil(read(trap))
      os.remove(path)
    end
    assert.error_matches(function() plot.save("a\nb.svg", { plot.line(nil, { 1, 2 }) }) end, "control characters")
  end)

  it("leaves out what is not finite", function()
    local path = folder .. "/nan.svg"
    assert.equal(path, plot.save(path, { plot.line(nil, { 1, 0 / 0, 2, math.huge, 3 }) }))
    assert.not_matches("nan", read(path):lower():gsub("nanum", ""))
  end)

  it("leaves the old file where it fails", function()
    local path = folder .. "/old.svg"
    local file = io.open(path, "wb")
    file:write "old"
    file:close()
    local ok, message, code = plot.save(path, { plot.line(nil, { 0 / 0, 0 / 0 }) })
    assert.is_nil(ok)
    assert.matches("^plot.save: gnuplot failed: ", message)
    assert.equal("state", code)
    assert.equal("old", read(path))
    assert.not_matches("tmp", names())
    ok, message, code = plot.save(folder .. "/none/a.svg", { plot.line(nil, { 1, 2 }) })
    assert.is_nil(ok)
    assert.matches("/none/a.svg: No such file or directory$", message)
    assert.equal("io", code)
  end)

  it("says so without gnuplot", function()
    local build = os.getenv "BUILD" or "build"
    local code = [[local plot = require "penumbra.plot" print(plot.save("]] .. folder ..
      [[/x.svg", {plot.line(nil, {1, 2})}))]]
    local pipe = io.popen(("PATH=/nonexistent %s/penumbra -e '%s' 2>&1"):format(build, code))
    local said = pipe:read "a"
    pipe:close()
    assert.matches("^nil%s+plot.save: gnuplot is not installed.*missing\n$", said)
    assert.is_nil(read(folder .. "/x.svg"))
  end)

  it("draws a matrix in the palette that was chosen", function()
    local function palette(options)
      local script = plot.script("a.png", "png", { plot.heatmap({ { 0, 1 }, { 2, 3 } }, options) })
      return script:match "set palette defined (%b())"
    end
    assert.matches("^%(0 '#440154',.*9 '#fde725'%)$", palette())
    assert.equal("(0 '#000000', 1 '#ffffff')", palette { palette = "grey" })
  end)

  it("names what is wrong", function()
    local function refuses(pattern, f) assert.error_matches(f, pattern) end
    refuses("palette must be one of 'viridis', 'grey', got 'gray', did you mean 'grey'",
      function() plot.heatmap({ { 1 } }, { palette = "gray" }) end)
    refuses("plot.line: y must have 50 values as x has, got 2", function() plot.line(x, { 1, 2 }) end)
    refuses("plot.line: y must be a tensor or a list of numbers, got a string", function() plot.line(nil, "abc") end)
    refuses("unknown option 'color', did you mean 'colour'",
      function() plot.line(nil, { 1 }, { color = "#ff0000" }) end)
    refuses("colour must be like '#2f6db3', got 'red'", function() plot.line(nil, { 1 }, { colour = "red" }) end)
    refuses("path must end in .svg, .png or .pdf, got 'x.bmp'",
      function() plot.save("x.bmp", { plot.line(nil, { 1 }) }) end)
    refuses("unknown option 'titel', did you mean 'title'",
      function() plot.save("x.svg", { titel = "", plot.line(nil, { 1 }) }) end)
    refuses("needs at least one mark", function() plot.save("x.svg", { title = "" }) end)
    refuses("item 1 must be a mark", function() plot.save("x.svg", { { 1, 2 } }) end)
    refuses("matrix must have 2 axes, got 1", function() plot.heatmap { 1, 2 } end)
    refuses("rows of matrix must be equally long, got 2 and 1", function() plot.heatmap { { 1, 2 }, { 3 } } end)
    refuses("quantiles must be at least 2 curves, got 1", function() plot.fan(nil, { { 1, 2 } }) end)
    refuses("must be one of", function() plot.panel { plot.line(nil, { 1 }), legend = "somewhere" } end)
  end)
end)

describe("plot.show", function()
  local x = pn.linspace(-3, 3, 50)

  -- What f writes to standard output, and what it returns.
  local function shown(f)
    local path, old = os.tmpname(), io.stdout
    local file = assert(io.open(path, "w"))
    rawset(io, "stdout", file)
    local results = table.pack(pcall(f))
    rawset(io, "stdout", old)
    file:close()
    local text = read(path)
    os.remove(path)
    assert(results[1], results[2])
    return text, table.unpack(results, 2, results.n)
  end

  it("draws in letters, 79 columns wide where there is no terminal", function()
    local panel = plot.panel { title = "A curve", plot.line(x, x:sin(), { label = "sine" }),
      plot.points(x, x:cos(), { label = "cosine" }) }
    local text, ok = shown(function() return panel:show() end)
    assert.is_true(ok)
    for line in text:gmatch "[^\n]+" do assert.is_true(#line <= 79, line) end
    assert.matches("A curve", text)
    assert.matches("%*+ sine", text) -- sample and label, apart
    assert.matches("B +cosine", text)
    assert.is_true(count(text, "%*") > 30 and count(text, "B") > 20)
    assert.is_nil(text:find "\27")
  end)

  it("shows what each mark has to show", function()
    local function look(m) return (shown(function() return plot.show { m } end)) end
    assert.is_true(count(look(plot.band(x, x - 1, x + 1)), "[%.%+]") > 80) -- two edges of dots
    local heat = look(plot.heatmap { { 0, 1, 2 }, { 3, 4, 5 }, { 6, 7, 8 } })
    assert.matches("@", heat)
    assert.matches("=", heat)
    assert.is_true(count(look(plot.histogram(x)), "%*") > 20)
    assert.is_true(count(look(plot.error_bars({ 1, 2 }, { 1, 2 }, { 1, 1 })), "%*") > 8)
  end)

  it("puts one panel below the other", function()
    local text = shown(function()
      return plot.show { plot.panel { title = "first", plot.line(x, x) },
        plot.panel { title = "second", plot.line(x, x) } }
    end)
    assert.matches("first.-%-%-%-%-.-second.-%-%-%-%-", text)
  end)

  it("asks for sixels by their terminal", function()
    local text = shown(function() return plot.show({ plot.line(x, x) }, { kind = "sixel" }) end)
    assert.matches("^%s*\27P", text)
  end)

  it("names what is wrong", function()
    assert.error_matches(function() plot.show(3) end, "plot.show: needs a panel or a list of panels")
    assert.error_matches(function() plot.show {} end, "plot.show: needs at least one mark")
    assert.error_matches(function() plot.show({ plot.line(x, x) }, { kind = "ascii" }) end, "kind must be one of")
    assert.matches("^a panel \"t\" of 1 mark: p:show()", tostring(plot.panel { title = "t", plot.line(x, x) }))
    assert.matches("^a mark of 50 points", tostring(plot.line(x, x)))
  end)
end)

describe("plot.histogram", function()
  it("counts every finite value once", function()
    local h = plot.histogram({ 0, 0.5, 1, 1.5, 2, 2.5, 3, 0 / 0, math.huge }, { bins = 3 })
    assert.same({ 2, 2, 3 }, h.counts)
    h = plot.histogram({ 5, 5, 5 }, { bins = 2 })
    assert.same({ 3 }, h.counts) -- a whole number has one bin
    assert.same({ 0, 3 }, plot.histogram({ 5.5, 5.5, 5.5 }, { bins = 2 }).counts)
  end)

  -- Bins as wide as 2 (q_3 - q_1) n^(-1/3): of 131 numbers 2 (99 - 33) 131^(-1/3) = 25.99, of which their range of 130
  -- has 5.002; of 214 numbers 2 (161 - 54) 214^(-1/3) = 35.78, and 213 has 5.953.
  it("has as many bins as the rule says", function()
    for _, case in ipairs { { 131, 6 }, { 214, 6 }, { 4, 5 } } do
      local list = {}
      for k = 1, case[1] do list[k] = k + 0.1 end
      assert.equal(case[2], #plot.histogram(list).counts)
    end
  end)

  it("has area one as a density", function()
    local h, area = plot.histogram(pn.randn { 1000 }, { density = true }), 0
    for i, line in ipairs(h.data) do area = area + h.counts[i] * tonumber(line:match "%S+$") end
    assert.is_true(math.abs(area - 1) < 1e-9)
  end)
end)
