--- What a notebook's front end is answered, in this process: the functions that the program gives are stand-ins that
--- note what they are called with. (spec/kernel_spec.lua has the program and Jupyter's own client.)
local pn = require "penumbra"
local gnuplot = require "penumbra.plot.gnuplot"
local notebook = require "penumbra.notebook"
local rich = require "penumbra.shell.rich"

local NULL = setmetatable({}, { __name = "null" })

-- A notebook, what it published, and the lines that a person will type.
local function fresh()
  local published, lines = {}, {}
  local n = notebook.new { null = NULL, list = function(t) return t end,
    publish = function(kind, content) published[#published + 1] = { kind, content } end,
    call = function(f, ...) return false, pcall(f, ...) end,
    ask = function(prompt, password)
      published[#published + 1] = { "asked", prompt, password }
      local line = table.remove(lines, 1)
      return line, not line and "nobody is there" or nil
    end }
  return n, published, lines
end

local function run(n, code, more)
  local content = { code = code }
  for key, value in pairs(more or {}) do content[key] = value end
  return n:answer("execute_request", content)
end

local function of(published, kind)
  local list = {}
  for _, each in ipairs(published) do
    if each[1] == kind then list[#list + 1] = each[2] end
  end
  return list
end

describe("a notebook", function()
  local viewer
  before_each(function() viewer = gnuplot.viewer end)
  after_each(function() gnuplot.viewer = viewer end)

  it("says what it is", function()
    local info = fresh().info
    assert.same({ "ok", "5.3", "penumbra", "lua", ".lua" }, { info.status, info.protocol_version, info.implementation,
      info.language_info.name, info.language_info.file_extension })
    assert.equal(("Penumbra %s, %s, %s"):format(pn.version, _VERSION, (require("penumbra.core").blas())), info.banner)
    assert.same({ pn.version, false, {}, "lua", "lua", "text/x-lua", _VERSION:match "[%d.]+$" }, {
      info.implementation_version, info.debugger, info.help_links, info.language_info.pygments_lexer,
      info.language_info.codemirror_mode, info.language_info.mimetype, info.language_info.version })
  end)

  it("tells an interruption from an error, whatever came of the cell", function()
    local n, published = fresh()
    local call = n.kernel.call
    local function names(interrupted)
      n.kernel.call = interrupted and function(f, ...) return true, pcall(f, ...) end or call
      local list = {}
      for _, code in ipairs { "error 'x'", "1 + 1" } do
        local reply = run(n, code)
        list[#list + 1] = reply.ename or reply.status
      end
      return list
    end
    assert.same({ "Error", "ok" }, names(false))
    assert.same({ "Interrupted", "Interrupted" }, names(true))
    assert.equal("interrupted", of(published, "error")[3].evalue)
    assert.same({ "Error", "ok" }, names(false))
  end)

  it("numbers cells that are stored, and tells what they came to", function()
    local n, published = fresh()
    local reply = run(n, "x = 2\nreturn x + 1")
    assert.same({ "ok", 1, {} }, { reply.status, reply.execution_count, reply.payload })
    assert.same({ { code = "x = 2\nreturn x + 1", execution_count = 1 } }, of(published, "execute_input"))
    local result = of(published, "execute_result")
    assert.equal(1, #result)
    assert.same({ 1, "3" }, { result[1].execution_count, result[1].data["text/plain"] })
    run(n, "x + 1;") -- a semicolon hides it
    assert.equal(2, n.count)
    assert.equal(1, #of(published, "execute_result"))
    assert.equal(2, run(n, "x = 5", { store_history = false }).execution_count)
    assert.equal(3, #of(published, "execute_input"))
    run(n, "x = 7", { silent = true })
    assert.equal(3, #of(published, "execute_input"))
    assert.same({ 2, 2 }, { n.count, #n.history })
    assert.equal("7", run(n, "x", { user_expressions = { y = "x", z = "nothing.there" } }).user_expressions.y.data[
      "text/plain"])
    assert.same({ 3, "x", "7" }, n.history[3])
    assert.same({ { source = "ask_exit", keepkernel = false } }, run(n, "quit").payload)
  end)

  it("publishes errors with the cell's own line, drops what waits unless told not to", function()
    local n, published = fresh()
    local reply, drop = run(n, "local a = 1\nerror 'boom'")
    assert.is_true(drop)
    assert.same({ "error", "Error", 1 }, { reply.status, reply.ename, reply.execution_count })
    assert.matches("In%[1%]:2: boom", reply.evalue)
    assert.equal("\27[31m" .. reply.evalue .. "\27[0m", reply.traceback[1])
    assert.same({ reply }, of(published, "error"))
    reply, drop = run(n, "for i = 1, 2 do", { stop_on_error = false, silent = true })
    assert.is_false(drop)
    assert.matches("<eof>", reply.evalue)
    assert.matches("^In:", reply.evalue)
    assert.equal(1, #of(published, "error"))
    local bad = run(n, "1", { user_expressions = { a = "error({})", b = "1 +", c = "error('x', 0)" } }).user_expressions
    assert.equal("error: a table value", bad.a.evalue)
    assert.equal("error", bad.b.status)
    assert.equal("x", bad.c.evalue)
  end)

  it("asks, shows and clears from within a cell", function()
    local n, published, lines = fresh()
    lines[1] = "Ada"
    run(n, "name = input('who? ', true); display(1, {2}); clear_output(true); clear_output()")
    assert.same({ "asked", "who? ", true }, published[2])
    assert.equal("Ada", n.session.env.name)
    local shown = of(published, "display_data")
    assert.same({ "1", "{2}" }, { shown[1].data["text/plain"], shown[2].data["text/plain"] })
    assert.same({ { wait = true }, { wait = false } }, of(published, "clear_output"))
    assert.matches("input: nobody is there", run(n, "input()").evalue)
    assert.matches("prompt must be a string", run(n, "input(3)").evalue)
  end)

  it("shows pictures where they are made, and not that they were", function()
    local n, published = fresh()
    run(n, "pn = require 'penumbra'")
    if select(3, rich.picture(pn.plot.line(nil, { 1, 2 }))) == "missing" then return pending "no gnuplot" end
    assert.equal("ok", run(n, "pn.plot.show({pn.plot.line(nil, {1, 2})}, {size = {300, 200}})").status)
    local shown = of(published, "display_data")
    assert.matches('width="300" height="200"', shown[1].data["image/svg+xml"])
    assert.matches("<svg", shown[1].data["image/svg+xml"])
    assert.same({ {}, {} }, { shown[1].metadata, shown[1].transient })
    run(n, "pn.dist.normal(0, 1):plot()") -- shown as well
    assert.equal(2, #of(published, "display_data"))
    run(n, "pn.plot.show(pn.plot.line(nil, {1, 2})), 5") -- of several values none is hidden
    assert.equal("true  5", table.remove(of(published, "execute_result")).data["text/plain"])
    published[#published] = nil
    assert.equal("a picture", shown[1].data["text/plain"])
    assert.equal(0, #of(published, "execute_result"))
    run(n, "true")
    assert.equal(1, #of(published, "execute_result")) -- true by itself is a result
  end)

  it("begins each cell anew, whatever was begun before it", function()
    local n = fresh()
    n.session:feed "for i = 1, 2 do"
    assert.equal("ok", run(n, "x = 1").status)
    assert.equal("error", run(n, "for i = 1, 2 do").status)
    assert.is_false(n.session:unfinished())
    n.kernel.call = function() return false, false, "out of room" end -- the call itself has failed
    local reply = run(n, "x")
    assert.same({ "Error", "out of room" }, { reply.ename, reply.evalue })
  end)

  it("shows all values of a cell of several as text, and hides any that end in a semicolon", function()
    local n, published = fresh()
    run(n, "pn.ones{2}, 3")
    assert.same({ execution_count = 1, metadata = {}, data = { ["text/plain"] = "[1 1]\nfloat64 [2]\n3" } },
      of(published, "execute_result")[1])
    for _, code in ipairs { "pn.ones{2};", "pn.ones{2}, 3; ", "x = 1;" } do run(n, code) end
    assert.equal(1, #of(published, "execute_result"))
    run(n, "pn.ones{2}")
    assert.matches("<table>", of(published, "execute_result")[2].data["text/html"])
  end)

  it("takes what is no text for none, and what is no number of letters for the end", function()
    local n = fresh()
    assert.equal("ok", run(n, 7).status)
    assert.same({ "complete" }, { n:answer("is_complete_request", {}).status })
    run(n, "longish = 2")
    for _, at in ipairs { 5.5, "x", 99 } do
      assert.same({ "longish" }, n:answer("complete_request", { code = "longi", cursor_pos = at }).matches)
    end
    local got = n:answer("complete_request", { code = "\xff = longi" }) -- letters that cannot be counted are bytes
    assert.same({ { "longish" }, 4, 9 }, { got.matches, got.cursor_start, got.cursor_end })
    got = n:answer("complete_request", { code = "longi", cursor_pos = -1 })
    assert.same({ 0, 0 }, { got.cursor_start, got.cursor_end })
    assert.same({ status = "ok", matches = {}, cursor_start = 7, cursor_end = 7, metadata = {} }, -- to be looked at
      n:answer("complete_request", { code = "pn.exp(", cursor_pos = 7 }))
    assert.is_false(n:answer("inspect_request", { code = "", cursor_pos = 0 }).found)
    assert.is_true(n:answer("inspect_request", { code = "pn.exp{", cursor_pos = 7 }).found)
    assert.is_false(n:answer("inspect_request", { code = "pn.exp(1)(", cursor_pos = 10 }).found)
    assert.same({ status = "ok", execution_count = 3, payload = {}, user_expressions = {} },
      run(n, "", { user_expressions = 3 }))
    assert.same({ "ok", "7" }, { run(n, "x = 7").status, n:answer("execute_request", { code = "", user_expressions = {
      a = "x" } }).user_expressions.a.data["text/plain"] })
  end)

  it("knows whether code is whole, and how far the next line is indented", function()
    local n = fresh()
    for code, want in pairs { ["x = 1"] = { "complete" }, ["x = ="] = { "invalid" },
      ["for i = 1, 2 do"] = { "incomplete", "  " }, ["  if x then"] = { "incomplete", "    " },
      ["if x then y() else"] = { "incomplete", "  " }, ["repeat"] = { "incomplete", "  " },
      ["f = function(a, b)"] = { "incomplete", "  " }, ["f("] = { "incomplete", "  " },
      ["t = {"] = { "incomplete", "  " }, ["do\n  x = 1"] = { "incomplete", "  " }, ["x = 1 +"] = { "incomplete", "" } }
    do
      local got = n:answer("is_complete_request", { code = code })
      assert.same(want, { got.status, got.indent }, code)
    end
  end)

  it("completes and explains at a cursor that counts letters", function()
    local n = fresh()
    run(n, "pn = require 'penumbra'; longish = {inner = 2}")
    local function complete(code, at)
      local got = n:answer("complete_request", { code = code, cursor_pos = at })
      return got.matches, got.cursor_start, got.cursor_end
    end
    local found, from, to = complete("s = #'Łódź' + longi + 1", 19)
    assert.same({ { "longish" }, 14, 19 }, { found, from, to })
    found, from, to = complete("x = 1\ny = longish.in", 20)
    assert.same({ { "inner" }, 18, 20 }, { found, from, to })
    found, from, to = complete("   ", 3)
    assert.same({ {}, 3, 3 }, { found, from, to })
    assert.same({ "longish" }, (complete("longi", 99)))
    local function about(code, at)
      local got = n:answer("inspect_request", { code = code, cursor_pos = at })
      return got.found and got.data["text/plain"]:match "^[^\n]*" or got.found
    end
    local want = about("pn.exp", 6)
    assert.matches("pn.exp", want)
    assert.equal(want, about("y = pn.exp(3, ", 14))       -- within the call
    assert.equal(want, about("y = pn.exp(3 + (2", 17))
    assert.equal(want, about("Łódź = pn.exp", 10))         -- in the middle of the name
    assert.is_false(about("3 + 4", 2))
    assert.is_false(about("pn.exp(x)", 9))                 -- behind it
  end)

  it("has a history by range, by pattern and from the end", function()
    local n = fresh()
    for _, code in ipairs { "a = 1", "b = 2", "return 3", "a = 1", "c.d = 4" } do run(n, code) end
    local function codes(content)
      local list = {}
      for i, entry in ipairs(n:answer("history_request", content).history) do
        list[i] = ("%d%d %s"):format(entry[1], entry[2], type(entry[3]) == "table" and entry[3][1] or entry[3])
      end
      return list
    end
    assert.same({ "14 a = 1", "15 c.d = 4" }, codes { hist_access_type = "tail", n = 2 })
    assert.equal(5, #codes {})
    assert.equal(0, #codes { n = 0 })
    assert.same({ "12 b = 2", "13 return 3" }, codes { hist_access_type = "range", session = 0, start = 2, stop = 4 })
    assert.equal(5, #codes { hist_access_type = "range" })
    assert.equal(0, #codes { hist_access_type = "range", session = 2 })
    assert.same({ "11 a = 1", "14 a = 1" }, codes { hist_access_type = "search", pattern = "a*" })
    assert.same({ "14 a = 1" }, codes { hist_access_type = "search", pattern = "a*", unique = true })
    assert.same({ "14 a = 1" }, codes { hist_access_type = "search", pattern = "?*=*1", n = 1 })
    assert.same({}, codes { hist_access_type = "search", pattern = "c?x = 4" })
    assert.same({ "15 c.d = 4" }, codes { hist_access_type = "search", pattern = "c.d*" })
    local outputs = n:answer("history_request", { output = true }).history
    assert.same({ "return 3", outputs[3][3][2] }, outputs[3][3])
    assert.matches("3", outputs[3][3][2])
    assert.equal(NULL, outputs[1][3][2])
    run(n, "error 'no'")
    run(n, "7")
    local tail = n:answer("history_request", { output = true, n = 2 }).history
    assert.same({ { "error 'no'", NULL }, { "7", "7" } }, { tail[1][3], tail[2][3] })
    assert.equal(0, #codes { n = -1 })
    assert.equal(7, #codes { n = 99 })
    assert.equal(7, #codes { hist_access_type = "range", session = 1 })
    assert.same({ "11 a = 1" }, codes { hist_access_type = "range", stop = 2 })
    assert.same({ "16 error 'no'", "17 7" }, codes { hist_access_type = "range", start = 6 })
    run(n, "s = '(%w+)^$[x]?'")
    assert.same({ "18 s = '(%w+)^$[x]?'" }, codes { hist_access_type = "search", pattern = "s = '(%w+)^$[x]?'" })
    assert.same({ "18 s = '(%w+)^$[x]?'" }, codes { hist_access_type = "search", n = 1 })
    for i = 1, 12 do run(n, "x = " .. i) end
    assert.equal(10, #codes {}) -- unless said otherwise
  end)

  it("closes what wants to talk, and has no answer to what it does not know", function()
    local n, published = fresh()
    n:answer("comm_open", { comm_id = "7" })
    assert.same({ { comm_id = "7", data = {} } }, of(published, "comm_close"))
    assert.same({ status = "ok", comms = {} }, n:answer("comm_info_request", {}))
    assert.is_nil(n:answer("unheard_of", {}))
  end)
end)

describe("values as tables of HTML", function()
  -- Rows of cells, without the escapes' names.
  local function cells(value)
    local html, rows = rich.bundle(value)["text/html"], {}
    if not html then return nil end
    for row in html:gmatch "<tr>(.-)</tr>" do
      local list = {}
      for text in row:gmatch "<t[hd]>(.-)</t[hd]>" do list[#list + 1] = text end
      rows[#rows + 1] = list
    end
    return rows, html:match "<pre>(.-)</pre>"
  end

  -- 1 .. n with a gap where there are more than `most`: half of these from the front, the others from the end.
  local function placed(n, most)
    local list = {}
    for i = 1, n <= most and n or most // 2 do list[#list + 1] = i end
    if n <= most then return list end
    list[#list + 1] = "gap"
    for i = n - (most - most // 2) + 1, n do list[#list + 1] = i end
    return list
  end

  it("of tensors are of their elements, whole or with gaps", function()
    for _, size in ipairs { { 2, 3 }, { 20, 12 }, { 21, 12 }, { 20, 13 }, { 50, 40 }, { 1, 1 }, { 1, 30 } } do
      local n, m = table.unpack(size)
      local got, note = cells(pn.arange(n * m):to "int64":reshape { n, m })
      local want = { { "" } }
      for _, j in ipairs(placed(m, 12)) do table.insert(want[1], j == "gap" and "…" or tostring(j)) end
      for _, i in ipairs(placed(n, 20)) do
        local row = { i == "gap" and "…" or tostring(i) }
        for _, j in ipairs(placed(m, 12)) do
          row[#row + 1] = (i == "gap" or j == "gap") and "…" or tostring((i - 1) * m + j - 1)
        end
        want[#want + 1] = row
      end
      assert.same(want, got)
      assert.equal(("int64 [%d, %d]"):format(n, m), note)
    end
  end)

  it("of tensors are one row of a vector, and no table of other shapes", function()
    assert.same({ { "", "1", "2", "3" }, { "", "0.33333", "-2", "1e+10" } },
      (cells(pn.tensor { 1 / 3, -2, 1e10 })))
    assert.same({ { "", "1", "2" }, { "", "true", "false" } }, (cells(pn.tensor { 1, 0 }:gt(0))))
    for _, x in ipairs { pn.tensor(1), pn.zeros { 2, 2, 2 }, pn.zeros { 0, 3 } } do
      local bundle = rich.bundle(x, "<as text>")
      assert.same({ ["text/plain"] = "<as text>" }, bundle)
    end
  end)

  it("escape what HTML would read", function()
    assert.equal("&lt;a href=&#39;x&#39;&gt; &amp; &quot;b&quot;", rich.escape "<a href='x'> & \"b\"")
  end)

  it("of tensors have all numbers of small ones, both ends of large ones", function()
    local rows, note = cells(pn.tensor { { 1.5, -2 }, { 1e9, 0.123456789 } })
    assert.same({ { "", "1", "2" }, { "1", "1.5", "-2" }, { "2", "1e+09", "0.12346" } }, rows)
    assert.equal("float64 [2, 2]", note)
    assert.same({ { "", "1", "2", "3" }, { "", "4", "5", "6" } }, (cells(pn.tensor({ 4, 5, 6 }, { dtype = "int64" }))))
    for _, shape in ipairs { { 20, 12 }, { 21, 13 }, { 40, 12 }, { 20, 30 }, { 33, 5 } } do
      local m, n = shape[1], shape[2]
      local function shown(size, most)
        local list = {}
        for i = 1, size do
          if size <= most or i <= most / 2 or i > size - most / 2 then
            list[#list + 1] = i
          elseif i == most / 2 + 1 then
            list[#list + 1] = "…"
          end
        end
        return list
      end
      local down, right, want = shown(m, 20), shown(n, 12), { { "" } }
      for j, at in ipairs(right) do want[1][j + 1] = tostring(at) end
      for i, row in ipairs(down) do
        want[i + 1] = { tostring(row) }
        for j, at in ipairs(right) do
          want[i + 1][j + 1] = (row == "…" or at == "…") and "…" or tostring(100 * row + at)
        end
      end
      local x = pn.arange(1, m + 1):unsqueeze(2) * 100 + pn.arange(1, n + 1)
      assert.same(want, (cells(x:to "int64")), ("%d x %d"):format(m, n))
    end
    assert.is_nil(cells(pn.ones { 2, 2, 2 }))
    assert.is_nil(cells(pn.tensor(3)))
    assert.is_nil(cells(pn.ones { 0, 3 }))
  end)

  it("are whole: what is opened is closed, in order", function()
    for _, value in ipairs { pn.ones { 2, 3 }, pn.nn.linear(2, 1), pn.ones { 30, 30 } } do
      local open = {}
      local html = rich.bundle(value)["text/html"]
      for slash, tag in html:gmatch "<(/?)(%l+)>" do
        if slash == "" then
          open[#open + 1] = tag
        else
          assert.equal(table.remove(open), tag)
        end
      end
      assert.same({}, open)
      assert.matches("^<table><thead>.*</thead>\n<tbody>.*</tbody></table><pre>.*</pre>$", html)
    end
  end)

  it("of posteriors have the summary's words, of networks their parameters", function()
    pn.seed(1)
    local p = pn.nuts(pn.model(function(m)
      m:deterministic("twice <b>", m:sample("a & b", pn.dist.normal(0, 1)) * 2)
    end), { chains = 2, warmup = 50, draws = 50 })
    local summary = p:summary(p.latent)
    local rows, note = cells(p)
    assert.equal(2, #rows)
    assert.same({ "", table.unpack(summary.columns) }, rows[1])
    assert.equal("a &amp; b", rows[2][1])
    for k, word in ipairs(rows[2]) do
      if k > 1 then
        assert(math.abs(tonumber(word) - summary[1][summary.columns[k - 1]]) <= 0.006 * (1 + math.abs(tonumber(word))),
          summary.columns[k - 1])
      end
    end
    assert.matches("100 draws of 2 chains", note)
    assert.equal("twice &lt;b&gt;", cells(p:summary())[3][1])
    local net = pn.nn.sequential { pn.nn.linear(2, 3), pn.nn.tanh(), pn.nn.linear(3, 1) }
    rows, note = cells(net)
    local total = 0
    for k = 2, #rows do
      local x = net:state()[rows[k][1]]
      assert.same({ x:dtype(), table.concat(x:shape(), " × "), tostring(x:numel()) }, { table.unpack(rows[k], 2) })
      total = total + rows[k][4]
      assert.is_true(k == 2 or rows[k - 1][1] < rows[k][1])
    end
    assert.equal(13, total)
    assert.equal(rich.escape(tostring(net)), note)
    assert.is_nil(cells(pn.nn.tanh()))
    assert.equal("&lt;&amp;&gt;&quot;&#39;", rich.escape "<&>\"'")
  end)
end)
