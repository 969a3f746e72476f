--- Text in lines: paragraphs that are filled, columns, values as people write them; each line as full as it can be.
local help = require "penumbra.shell.help"
local layout = require "penumbra.layout"
local pn = require "penumbra"
local pretty = require "penumbra.shell.pretty"

-- Words of a text in order.
local function words_of(text)
  local list = {}
  for word in text:gmatch "%S+" do list[#list + 1] = word end
  return list
end

-- Lines hold the words in order within the width, and none has room for the word that begins the next.
local function check_filled(text, words, first, other, width)
  local at, before = 0, nil
  for line in (text .. "\n"):gmatch "(.-)\n" do
    local head = at == 0 and first or other
    assert.equal(head, line:sub(1, #head))
    local row = words_of(line:sub(#head + 1))
    assert.equal(head .. table.concat(row, " "), line)
    assert(#line <= width or #row == 1, line)
    if before then assert(#before + 1 + #row[1] > width, before .. "|" .. row[1]) end
    for _, word in ipairs(row) do
      at = at + 1
      assert.equal(words[at], word)
    end
    before = line
  end
  assert.equal(#words, at)
end

local TEXT = "a bb ccc dddd eeeee ffffff ggggggg hhhhhhhh i jj kkk llll mmmmm nnnnnn ooooooo pppppppp q"

describe("a paragraph", function()
  it("is filled: no line is longer than the width, none has room for more", function()
    for width = 12, 40 do
      check_filled(layout.fill(TEXT, "", "", width), words_of(TEXT), "", "", width)
      check_filled(layout.fill(TEXT, "- ", "    ", width), words_of(TEXT), "- ", "    ", width)
      check_filled(layout.wrap(TEXT, "  ", width), words_of(TEXT), "  ", "  ", width)
    end
  end)

  it("of an item hangs below its text, of code two further in; short ones stay as they are", function()
    assert.equal("  name    one two\n          three", layout.wrap("name    one two three", "  ", 17))
    assert.equal("  name    one two three", layout.wrap("name    one two three", "  ", 23))
    assert.equal("  name    one two\n          three", layout.wrap("name    one two three", "  ", 22))
    assert.equal("      f(aaa,\n        bbb,\n        ccc)", layout.wrap("    f(aaa, bbb, ccc)", "  ", 13))
    assert.equal("  one.\n  Two", layout.wrap("one.   Two", "  ", 8)) -- blanks that end a sentence make no column
    assert.equal("a\n\nb", layout.wrap("a\n\nb", "", 20))
  end)

  it("is joined where it was broken for want of room alone", function()
    local full = ("x"):rep(80)
    assert.equal(full .. " words go on", layout.unfold(full .. "\nwords go on"))
    assert.equal(full .. "\nwo go on", layout.unfold(full .. "\nwo go on")) -- "wo" would have had room
    assert.equal("short\nline", layout.unfold "short\nline")
    assert.equal("name    means this and that\nnext", layout.unfold "name    means this\n        and that\nnext")
    assert.equal("name    means this\n       and that", layout.unfold "name    means this\n       and that")
    assert.equal(full .. "\n\nwords", layout.unfold(full .. "\n\nwords"))
  end)
end)

describe("help", function()
  it("lists a part's functions with their first sentence or a piece of it, without the stop", function()
    for _, part in ipairs { "pn.data", "pn.metrics", "pn.infer", "pn.plot", "pn" } do
      local text, known, lines = help.text(part), {}, 0
      for _, e in ipairs(help.entries()) do known[e.qualified] = e.text end
      local flat = text:gsub("\n    +", " ")
      for name, said in flat:gmatch "\n  ([%w_]+)%s%s+([^\n]+)" do
        local own = known[part .. "." .. name]
        if own then
          local whole = table.concat(words_of(own:match "^[^\n]*"), " ")
          said = table.concat(words_of(said), " ")
          assert.equal(whole:sub(1, #said), said)
          local rest = whole:sub(#said + 1)
          assert(rest:find "^%.?$" or rest:find "^[.:;]%s", name .. ": " .. said .. "|" .. rest)
          assert(not said:find "%.$" or rest == "" and #whole <= 15, said)
          lines = lines + 1
        end
      end
      assert(lines > 15, part)
    end
  end)

  it("lists the methods of a tensor in lines as full as can be", function()
    local text = help.text(pn.ones(2))
    local block = text:match "and so on%):\n(.*)$"
    local names = {}
    for name in pairs(require("penumbra.core").methods) do names[#names + 1] = name end
    table.sort(names)
    check_filled(block, names, "  ", "  ", 79)
    assert.matches("^a tensor: float64 %[2%]\nmin 1, mean 1, max 1\n", text)
  end)

  it("tells the least, mean and largest of the numbers that are numbers", function()
    local function said(list) return help.text(pn.tensor(list)):match "\n([^\n]*)\n" end
    assert.equal("min -2, mean 1.5, max 4", said { -2, 4, 2.5 })
    assert.equal("min -2, mean 1, max 4; 2 not finite", said { 1 / 0, 4, 0 / 0, -2 })
    assert.equal("None of its numbers is finite.", said { 0 / 0, 1 / 0 })
    assert.matches("a parameter", help.text(pn.param(pn.ones { 2 })))
    assert.matches("part of a graph", help.text(pn.param(pn.ones { 2 }) * 2))
  end)
end)

describe("a table as text", function()
  it("has short entries as many to a line as fit, long ones each a line of its own", function()
    local list, names = {}, {}
    for k = 1, 60 do list[k], names[k] = k * k, tostring(k * k) .. (k < 60 and "," or "") end
    for _, width in ipairs { 30, 41, 79 } do
      local text = pretty.format(list, { width = width })
      check_filled(text:match "^{\n(.*)\n}$", names, "  ", "  ", width)
    end
    assert.equal("{\n  1, 2,\n  a = 3,\n  b = {4},\n}", (pretty.format({ 1, 2, a = 3, b = { 4 } }, { width = 10 })
      :gsub("}\n}", "},\n}")))
  end)

  it("says how many entries are left out, of a list and of names", function()
    local t = {}
    for k = 1, 9 do t["k" .. k] = k end
    assert.equal("{k1 = 1, k2 = 2, k3 = 3, ... 6 more}", pretty.format(t, { items = 3 }))
    assert.equal("{1, 2, 3, ... 2 more}", pretty.format({ 1, 2, 3, 4, 5 }, { items = 3 }))
    assert.equal('"abc..."', pretty.format("abcdef", { text = 3 }))
    assert.equal("{{{...}}}", pretty.format({ { { 1 } } }, { depth = 2 }))
  end)

  it("is in one line exactly as long as the width", function()
    assert.equal("{10, 20, 30}", pretty.format({ 10, 20, 30 }, { width = 12 }))
    assert.equal("{\n  10, 20,\n  30\n}", pretty.format({ 10, 20, 30 }, { width = 11 }))
    assert.equal("{\n  a = {1},\n  b = {2}\n}", pretty.format({ a = { 1 }, b = { 2 } }, { width = 12 }))
    assert.equal("{[true] = 1, [2.5] = 3}", (pretty.format { [true] = 1, [2.5] = 3 }
      :gsub("%[2.5%] = 3, %[true%] = 1", "[true] = 1, [2.5] = 3")))
  end)
end)
