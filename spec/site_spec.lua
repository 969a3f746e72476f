--- The site of `make docs`, made from this tree: its links and anchors, the index of names, and faults planted in it.
local links = require "spec.site.links"
local page = require "spec.site.page"
local public = require "spec.site.public"
local tool = require "spec.gates.tool"

local has_pandoc = tool.run "command -v pandoc"
local it = has_pandoc and it or pending
if not has_pandoc then print "site_spec: skipped, since pandoc is not installed (make docs installs it)" end

describe("make docs", function()
  local tmp

  setup(function()
    tmp = tool.lines("mktemp -d")[1]
  end)
  teardown(function() os.execute("rm -rf " .. tmp) end)

  local function read(path) return assert(tool.read(tmp .. "/docs/" .. path), path) end

  local function write(path, text)
    local file = assert(io.open(tmp .. "/docs/" .. path, "w"))
    file:write(text)
    file:close()
  end

  -- The complaints while the text of a page is another.
  local function with(path, text)
    local old = read(path)
    write(path, text)
    local found = links(tmp .. "/docs", public "src/penumbra.h")
    write(path, old)
    return table.concat(found, "\n")
  end

  it("makes pages whose links lead somewhere and an index of every public name", function()
    local ok, said = tool.run("%s spec/site/build.lua %s/docs", os.getenv "LUA" or "lua5.4", tmp)
    assert(ok, said)
    local found, count = links(tmp .. "/docs", public "src/penumbra.h")
    assert.same({}, found)
    assert.is_true(count > 5000)
  end)

  it("has formulas, code and pictures in the pages, names in the reference", function()
    local index = read "index.html"
    assert.truthy(index:find('<img src="examples/manual/regression.png"', 1, true))
    assert.truthy(index:find('<a href="examples/papers/vbp/index.html"', 1, true))
    assert.truthy(index:find('<code class="sourceCode lua">', 1, true))
    assert.truthy(read "examples/papers/vbp/index.html":find('uci.lua.html"><code>uci.lua</code>', 1, true))
    assert.truthy(read "reference/pn.dist.html":find('<h3 id="pn.dist.gamma"><code>pn.dist.gamma(conc', 1, true))
    assert.truthy(read "reference/penumbra.h.html":find('id="pn_dist_rsample"', 1, true))
    assert.truthy(read "reference/names.html":find('"pn.html#pn.matmul">x:matmul<', 1, true))
    assert.matches("<math.*<msup>", select(2, tool.run("printf '$x^2$' | " .. page.PANDOC)))
    for _, path in ipairs(tool.files(tmp .. "/docs", ".", "*.html")) do
      assert(not read(path):find '%s[sh][rt][ce]f?="https?:', path .. " needs the network")
    end
  end)

  it("is refused where a link, an anchor, an id or a name is wrong", function()
    local index, names = read "index.html", read "reference/names.html"
    local found = with("index.html", index .. '<a href="lost.html">x</a><img src="lost.png"><a href="#lost">x</a>'
      .. '<a href="reference/pn.html#lost">x</a><p id="licence"><p id="a b">')
    for _, what in ipairs {"lost.html is not there", "lost.png is not there", "no page has the anchor #lost",
                           "no page has the anchor reference/pn.html#lost", "the id licence stands twice",
                           "the id a b has a blank"} do
      assert.truthy(found:find("index.html: " .. what, 1, true), found)
    end
    local less, missing = names, {}
    for _, name in ipairs {"pn.matmul", "x:topk", "pn.dist.gamma", "pn.smc.kalman.smooth", "pn_tensor_ref"} do
      less = less:gsub(">" .. name:gsub("%p", "%%%0") .. "<", "><")
      missing[#missing + 1] = "the index has no name " .. name
    end
    table.sort(missing)
    assert.equal(table.concat(missing, "\n"), with("reference/names.html", less))
    assert.equal("", with("index.html", index))
  end)
end)
