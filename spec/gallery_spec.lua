--- `make gallery` for one script and for a chapter: what it draws and what its page says.
local drawn_by = require "spec.site.drawn_by"
local tool = require "spec.gates.tool"

describe("make gallery", function()
  local tmp

  setup(function() tmp = tool.lines("mktemp -d")[1] end)
  teardown(function() os.execute("rm -rf " .. tmp) end)

  local function run(script, arguments)
    return tool.run("%s spec/site/%s %s", os.getenv "LUA" or "lua5.4", script, arguments)
  end

  it("draws a script's pictures and shows them beside the committed ones", function()
    local ok, said = run("gallery.lua", tmp .. "/g only vbp/gates")
    assert(ok, said)
    local html = assert(tool.read(tmp .. "/g/index.html"))
    local shown = 0
    for source in html:gmatch 'src="([^"]*)"' do
      shown = shown + 1
      assert.equal("\137PNG", (assert(tool.read(tmp .. "/g/" .. source), source):sub(1, 4)))
    end
    assert.equal(2, shown)
    assert.truthy(html:find("on the page: examples/papers/vbp/gates.png", 1, true))
    assert.truthy(html:find('<a href="../../examples/papers/vbp/gates.lua">', 1, true))
    assert.truthy(html:find("In full: ", 1, true))
  end)

  it("tells of a script that fails", function()
    local lua = os.getenv "LUA" or "lua5.4"
    local ok, said = tool.run("LUA=false %s spec/site/gallery.lua %s/f only vbp/gates", lua, tmp)
    assert.is_false(ok)
    assert.truthy(said:find("1 scripts failed", 1, true))
    assert.truthy(tool.read(tmp .. "/f/index.html"):find("<strong>failed</strong>", 1, true))
  end)

  it("knows which pictures a chapter's programs save", function()
    local program = 'pn = 1\npn.plot.save("a_1.png", x)\n  pn.plot.save("b.svg", y)\n-- pn.plot.save("c.svg")'
    assert.same({"a_1.png", "b.svg"}, drawn_by.saved(program))
    local rows, pictures = drawn_by.rows ".", 0
    for _, row in ipairs(rows) do pictures = pictures + #row.pictures end
    assert.is_true(#rows > 40 and pictures > 30)
  end)
end)
