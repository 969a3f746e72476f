--- Tables of HTML that a notebook shows of tensors: which cells there are, what stands in them, where the gaps are.
local pn = require "penumbra"
local rich = require "penumbra.shell.rich"

-- The cells of a table, row by row, and the note below.
local function cells(html)
  local rows = {}
  for line in html:gmatch "<tr>(.-)</tr>" do
    local row = {}
    for text in line:gmatch "<t[hd]>(.-)</t[hd]>" do row[#row + 1] = text end
    rows[#rows + 1] = row
  end
  return rows, html:match "<pre>(.-)</pre>"
end

-- 1 .. n with a gap where there are more than `most`: half of these from the front, the others from the end.
local function shown(n, most)
  local list = {}
  for i = 1, n <= most and n or most // 2 do list[#list + 1] = i end
  if n <= most then return list end
  list[#list + 1] = "gap"
  for i = n - (most - most // 2) + 1, n do list[#list + 1] = i end
  return list
end

describe("a tensor in a notebook", function()
  it("is a table of its elements, whole or with gaps", function()
    for _, size in ipairs { { 2, 3 }, { 20, 12 }, { 21, 12 }, { 20, 13 }, { 50, 40 }, { 1, 1 }, { 1, 30 } } do
      local n, m = table.unpack(size)
      local html = rich.bundle(pn.arange(n * m):to "int64":reshape { n, m })["text/html"]
      local got, note = cells(html)
      local want = { { "" } }
      for _, j in ipairs(shown(m, 12)) do table.insert(want[1], j == "gap" and "…" or tostring(j)) end
      for _, i in ipairs(shown(n, 20)) do
        local row = { i == "gap" and "…" or tostring(i) }
        for _, j in ipairs(shown(m, 12)) do
          row[#row + 1] = (i == "gap" or j == "gap") and "…" or tostring((i - 1) * m + j - 1)
        end
        want[#want + 1] = row
      end
      assert.same(want, got)
      assert.equal(("int64 [%d, %d]"):format(n, m), note)
    end
  end)

  it("is one row of a vector, and no table of other shapes", function()
    assert.same({ { "", "1", "2", "3" }, { "", "0.33333", "-2", "1e+10" } },
      (cells(rich.bundle(pn.tensor { 1 / 3, -2, 1e10 })["text/html"])))
    assert.same({ { "", "1", "2" }, { "", "true", "false" } },
      (cells(rich.bundle(pn.tensor { 1, 0 }:gt(0))["text/html"])))
    for _, x in ipairs { pn.tensor(1), pn.zeros { 2, 2, 2 }, pn.zeros { 0, 3 } } do
      local bundle = rich.bundle(x, "<as text>")
      assert.same({ ["text/plain"] = "<as text>" }, bundle)
    end
  end)

  it("escapes what HTML would read", function()
    assert.equal("&lt;a href=&#39;x&#39;&gt; &amp; &quot;b&quot;", rich.escape "<a href='x'> & \"b\"")
  end)
end)
