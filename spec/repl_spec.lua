local pretty = require "penumbra.shell.pretty"
local repl = require "penumbra.shell"

local function fresh()
  local env = setmetatable({}, { __index = _G })
  for name, value in pairs(_G) do rawset(env, name, value) end
  setmetatable(env, nil)
  return repl.session { env = env }, env
end

-- Feeds lines and returns kind and text of the last answer.
local function feed(state, ...)
  local kind, text
  for _, line in ipairs { ... } do kind, text = state:feed(line) end
  return kind, text
end

describe("a session", function()
  it("tells by ? of the user's own variables", function()
    local s = fresh()
    feed(s, "x = pn.tensor({{1, 2}, {6, 0 / 0}}, {dtype = 'float32'})", "function f(a, b)", "  return a + b", "end",
      "sum = 3", "draws = {w = {x}}", "word = 'exp'", "mine = pn.exp")
    local function tells(question, ...)
      local kind, text = feed(s, question)
      assert.equal("ok", kind)
      for _, part in ipairs { ... } do assert(text:find(part, 1, true), question .. ": " .. part .. "\n" .. text) end
    end
    tells("?x", "x is a tensor: float32 [2, 2]", "min 1, mean 3, max 6; 1 not finite", "matmul")
    tells("?draws.w[1]", "draws.w[1] is a tensor: float32 [2, 2]")
    tells("help x", "x is a tensor")
    tells("?f", "f is a function of yours: function(a, b) stdin:1")
    tells("?sum", "sum is a number: 3", 'help "sum" tells of pn.sum')
    tells("?word", 'word is a string: "exp"')
    tells("?mine", "mine is pn.exp(x)")
    feed(s, "h = pn.smc.hmm{initial = {0.5, 0.5}, transition = {{0.9, 0.1}, {0.2, 0.8}},",
      "emission = pn.dist.normal(pn.tensor{-1, 1}, 0.5)}")
    tells("?h", "hidden Markov model of 2 states", "Of penumbra.smc.hmm", "smooth, viterbi")
    feed(s, "m = pn.model(function(m, y)",
      "m:observe('y', pn.dist.normal(m:sample('a', pn.dist.normal(0, 1)), 1), y) end)",
      "fit = pn.svi(m, 'mean_field', {data = {1}, steps = 2})")
    tells("?m", "model of stdin:1", "Of penumbra.infer.model", "with pn.model", "intervene")
    tells("?fit", "Of penumbra.infer.svi, with pn.svi", "log_weights")
  end)

  it("shows results without return", function()
    local s = fresh()
    assert.same({ "ok", "2" }, { feed(s, "1 + 1") })
    assert.same({ "ok", '"a"  {1, 2}' }, { feed(s, '"a", {1, 2}') })
    assert.same({ "ok", "nil" }, { feed(s, "nil") })
    assert.same({ "ok", "3" }, { feed(s, "= 3") })
    assert.same({ "ok", "" }, { feed(s, "x = 5") })
    assert.same({ "ok", "" }, { feed(s, "") })
    assert.same({ "ok", "5" }, { feed(s, "x") })
  end)

  it("does not tell that a picture was shown", function()
    local gnuplot = require "penumbra.plot.gnuplot"
    local viewer, seen = gnuplot.viewer, 0
    function gnuplot.viewer()
      seen = seen + 1
      return true
    end
    local s = fresh()
    feed(s, "line = pn.plot.line(nil, {1, 2})")
    local said = {}
    for k, code in ipairs { "pn.plot.show(line)", "pn.dist.normal(0, 1):plot()", "pn.plot.show{line}, 3",
      "pn.plot.show{line} and 7", "true" } do
      said[k] = select(2, feed(s, code))
    end
    gnuplot.viewer = viewer
    assert.same({ "", "", "true  3", "7", "true" }, said)
    assert.equal(4, seen)
    assert.same({ "ok", "true  7  true  3" }, { feed(s, "_1, _2, _3, _4") })
  end)

  it("shows tensors as the core prints them", function()
    local s = fresh()
    local _, text = feed(s, "pn.tensor{{1, 2}, {3, 4}}")
    assert.equal("[[1 2]\n [3 4]]\nfloat64 [2, 2]", text)
  end)

  it("shows the expression that ends several lines where they are a cell", function()
    local s = repl.session { env = setmetatable({}, { __index = _G }), cells = true }
    assert.same({ "ok", "6" }, { feed(s, "x = 5\nx + 1") })
    assert.same({ "ok", "7" }, { feed(s, "x = 5\nmath.max(x,\n  7) -- seven\n") })
    assert.same({ "ok", "" }, { feed(s, "y = x\n-1") }) -- 5 - 1
    assert.same({ "ok", "4  5" }, { feed(s, "-- two\ny, x") })
    assert.same({ "ok", "" }, { feed(s, "for i = 1, 3 do\n  y = y + i\nend") })
    assert.same({ "ok", "10" }, { feed(s, "local z = y\nz") })
    s:feed("function f(a)\n  return a.b.c\nend", "In[7]")
    local kind, text = s:feed("x = 1\nlocal r = f{}", "In[8]")
    assert.equal("error", kind)
    assert.matches("^In%[7%]:2: attempt to index a nil value [^\n]*\n  2 | return a.b.c\n", text)
    assert.matches("\n  In%[8%]:2: in the main part$", text)
    assert.same({ "error", "In[9]:1: boo" }, { s:feed("error 'boo'", "In[9]") })
    assert.same({ "ok", "2" }, { fresh():feed "1 + 1" }) -- at the prompt as ever
    assert.equal("more", (fresh():feed "x = 5\nx")) -- x = ... may follow
  end)

  it("tells whether lines are complete without running them", function()
    local s, env = fresh()
    for code, want in pairs { ["x = 1"] = "complete", ["= x"] = "complete", ["?pn"] = "complete", [""] = "complete",
      ["help"] = "complete", ["for i = 1, 2 do"] = "incomplete", ["f("] = "incomplete", ["s = [["] = "incomplete",
      [")"] = "invalid", ["x = = 1"] = "invalid", ["ran = true"] = "complete" } do
      assert.equal(want, s:status(code), code)
    end
    assert.is_nil(rawget(env, "ran"))
  end)

  it("says what there is to say about a name, or nothing", function()
    local s = fresh()
    feed(s, "mine = pn.zeros{2}")
    assert.matches("^mine is a tensor: float64 %[2%]", s:about "mine")
    assert.matches("^pn.zeros%(", s:about "pn.zeros")
    assert.is_nil(s:about "nothing_like_it_zzq")
  end)

  it("keeps the last results", function()
    local s = fresh()
    feed(s, "10", "20", "30")
    assert.same({ "ok", "30  30  20  10" }, { feed(s, "_, _1, _2, _3") })
    assert.same({ "ok", "30" }, { feed(s, "_") })
    for i = 1, 20 do feed(s, tostring(i)) end
    local _, text = feed(s, "_9")
    assert.equal("12", text)
  end)

  it("has the values of the last statement, none where it gave none", function()
    local s = fresh()
    feed(s, "7, nil")
    assert.same({ 7, nil, n = 2 }, s.values)
    for _, line in ipairs { "x = 5", "error 'no'", "x + )", "", "x:shape" } do
      feed(s, "7")
      assert.same({ 7, n = 1 }, s.values)
      feed(s, line)
      assert.is_nil(s.values, line)
    end
  end)

  it("goes on in the next line", function()
    local s = fresh()
    assert.equal("more", (s:feed "for i = 1, 3 do"))
    assert.is_true(s:unfinished())
    assert.equal("more", (s:feed "  total = (total0 or 0) + i" ))
    assert.equal("error", (s:feed "end"))
    assert.is_false(s:unfinished())
    assert.same({ "ok", "6" }, { feed(s, "f = function(a)", "return a * 2", "end", "f(3)") })
    assert.same({ "ok", '"a\\nb"' }, { feed(s, "[[a", "b]]") })
    assert.same({ "ok", "{1, 2}" }, { feed(s, "{1,", "2}") })
    feed(s, "do")
    s:reset()
    assert.same({ "ok", "7" }, { feed(s, "7") })
  end)

  it("reports errors at the line of the prompt", function()
    local s = fresh()
    assert.same({ "error", "stdin:1: boo" }, { feed(s, "error 'boo'") })
    assert.same({ "error", "stdin:2: boo" }, { feed(s, "do", "error 'boo'", "end") })
    local kind, text = feed(s, "pn.zeros{2}:matmul(pn.ones{3})")
    assert.equal("error", kind)
    assert.matches("^stdin:1: matmul: .*%[2%].*%[3%]$", text)
    assert.same({ "error", "{code = 3}" }, { feed(s, "error{code = 3}") })
    kind, text = feed(s, ")")
    assert.equal("error", kind)
    assert.matches("^stdin:1: unexpected symbol", text)
    assert.equal("ok", (feed(s, "1")))
  end)

  it("quotes the line of a statement typed earlier", function()
    local s = fresh()
    feed(s, "model = pn.model(function(m, y)", "  local a = m:sample('a', pn.dist.normal(0, 1))",
      "  m:observe('y', pn.dist.gamma(1, 1), y)", "end)")
    feed(s, "1 + 1")
    local kind, text = feed(s, "pn.nuts(model, {data = {pn.tensor{-1}}})")
    assert.equal("error", kind)
    assert.matches("^stdin:3: observe: 'y' has values outside [^\n]*\n  3 | m:observe%('y', ", text)
    assert.same({ "ok", "model of stdin:1" }, { feed(s, "model") })
    feed(s, "function f(x)", "  return x.y.z", "end")
    local _, nil_field = feed(s, "local r = f{}")
    assert.matches("^stdin:2: attempt to index a nil value [^\n]*\n  2 | return x.y.z\n  stdin:2: in function 'f'\n",
      nil_field)
    assert.same({ "error", "stdin:2: boo" }, { feed(s, "do", "error 'boo'", "end") }) -- it is on the screen
  end)

  it("counts the lines of wrong syntax from the start of the statement", function()
    local s = fresh()
    feed(s, "x = 1", "y = 2")
    assert.same({ "error", "stdin:3: 'end' expected (to close 'if' at line 2) near 'until'" },
      { feed(s, "do", "if x then", "until") })
    assert.same({ "error", "stdin:1: unexpected symbol near ')'" }, { feed(s, ")") })
  end)

  it("takes a statement of several lines as one entry", function()
    local s = fresh()
    assert.same({ "ok", "" }, { feed(s, "function g(a)\n  return a + 1\nend") })
    assert.same({ "ok", "3" }, { feed(s, "g(2)") })
    assert.equal("more", (s:feed "function h(a)\n  return a"))
    assert.same({ "ok", "" }, { feed(s, "end") })
  end)

  it("shows a short traceback without its own frames", function()
    local s = fresh()
    feed(s, "function inner(n) error 'deep' end", "function outer() inner(1) return 1 end")
    local _, text = feed(s, "local r = outer()")
    assert.equal("stdin:1: deep\n  stdin:1: in function 'inner'\n  stdin:1: in function 'outer'\n" ..
      "  stdin:1: in the main part", text)
  end)

  it("reports undefined globals and names near ones", function()
    local s = fresh()
    assert.same({ "error", "stdin:1: undefined global 'prnt', did you mean 'print'?" }, { feed(s, "prnt(1)") })
    assert.same({ "error", "stdin:1: undefined global 'zeros', did you mean 'pn.zeros'?" }, { feed(s, "zeros{2}") })
    local _, text = feed(s, "local a, b = 1, 2", "b")
    assert.equal("stdin:1: undefined global 'b': it was local to an earlier line; leave out 'local' here", text)
    assert.same({ "ok", "4" }, { feed(s, "function f() made = 4 end", "f()", "made") })
  end)

  it("says what is near where a name alone is asked for that is not there", function()
    local s = fresh()
    assert.same({ "ok", "nil (pn has no 'nust', did you mean 'nuts'?)" }, { feed(s, "pn.nust") })
    assert.same({ "ok", "nil (pn.dist has no 'gama', did you mean 'gamma'?)" }, { feed(s, "d = pn.dist", "d.gama") })
    assert.same({ "ok", "nil" }, { feed(s, "t = {}", "t.gama") })
    assert.same({ "ok", "nil" }, { feed(s, "nil") })
    assert.same({ "ok", "true" }, { feed(s, "pn.dist.gama == nil") })
  end)

  it("survives values that cannot be shown", function()
    local s = fresh()
    assert.same({ "ok", "<table, cannot be shown>" },
      { feed(s, "setmetatable({}, {__tostring = function() error 'no' end})") })
    local kind, text = feed(s, "error(setmetatable({}, {__tostring = function() error 'no' end}))")
    assert.equal("error", kind)
    assert.equal("<table, cannot be shown>", text)
    feed(s, "x = pn.ones{2}", "x:close()")
    assert.same({ "ok", "tensor (closed)" }, { feed(s, "x") })
  end)

  it("asks for help in short", function()
    local s = fresh()
    local said = {}
    local old = print
    _G.print = function(text) said[#said + 1] = text end
    feed(s, "?matmul", "help matmul", "help 'matmul'", "?", "help", "?m:sample", "?fit:k_hat", "?p:loo", "?model:trace")
    _G.print = old
    assert.equal(9, #said)
    assert.equal(said[4], said[5])
    assert.matches("^m:sample%(name, d", said[6])
    assert.matches("^fit:k_hat%(n", said[7])
    assert.matches("^p:loo%(", said[8])
    assert.matches("^model:trace%(", said[9])
    assert.matches("^pn.matmul%(x, y%)", said[1])
    assert.equal(said[1], said[2])
    assert.equal(said[1], said[3])
    assert.matches("^Penumbra ", said[4])
  end)

  it("explains methods that are not called", function()
    local s = fresh()
    assert.same({ "error", "stdin:1: x:shape is a method; call it, as in x:shape()" }, { feed(s, "x:shape") })
  end)

  it("ends", function()
    local s, env = fresh()
    assert.equal("end", (s:feed "exit"))
    assert.equal("end", (s:feed "quit()"))
    rawset(env, "exit", 3)
    assert.same({ "ok", "3" }, { feed(s, "exit") })
  end)
end)

describe("the prompt", function()
  local core, pn = require "penumbra.core", require "penumbra"
  local progress = require "penumbra.progress"
  local kept = { terminal = core.terminal, session = repl.session, getenv = os.getenv, stdout = io.stdout,
    stderr = io.stderr, read = io.read, print = print }
  after_each(function()
    core.terminal, repl.session, _G.print = kept.terminal, kept.session, kept.print
    rawset(os, "getenv", kept.getenv)
    for _, name in ipairs { "stdout", "stderr", "read" } do rawset(io, name, kept[name]) end
  end)

  -- Runs the prompt on lines: what was printed, written to both files, asked by, and kept in the history. o: terminals
  -- (of stdin, stdout and stderr), environment, locals, editor (false: none), seen(state) at each line.
  local function run(lines, o)
    local seen = { out = "", err = "", prompts = {}, history = {}, saved = {} }
    local function file(name)
      return { write = function(_, ...) seen[name] = seen[name] .. table.concat { ... } end, flush = function() end }
    end
    local files, at = { [io.stdin] = "stdin" }, 0
    for _, name in ipairs { "stdout", "stderr" } do
      rawset(io, name, file(name == "stdout" and "out" or "err"))
      files[io[name]] = name
    end
    core.terminal = function(f) return (o.terminals or {})[files[f]] end
    rawset(os, "getenv", function(name) return (o.environment or {})[name] end)
    _G.print = function(text) seen.out = seen.out .. (text or "") .. "\n" end
    function repl.session(given)
      repl.session = kept.session
      local _, env = fresh()
      seen.width = given.width
      return kept.session { env = env, width = given.width }
    end
    local function following()
      at = at + 1
      if o.seen then o.seen(seen, at) end
      return lines[at]
    end
    rawset(io, "read", function(what)
      assert.equal("L", what)
      return following()
    end)
    local editor = o.editor ~= false and { readline = function(prompt)
        seen.prompts[at + 1] = prompt
        return following()
      end, add_history = function(text) seen.history[#seen.history + 1] = text end,
      history_load = function(path) seen.loaded = path end,
      history_save = function(path) seen.saved[#seen.saved + 1] = path end } or nil
    for name, value in pairs(editor and o.editor or {}) do editor[name] = value end
    seen.whole = repl.run(editor, o.locals)
    return seen
  end

  it("takes lines until they end, and keeps each statement whole, with those that were dropped", function()
    local seen = run({ "x = 1", "for i = 1, 2 do", "  f()", false, "x\r\n", "error 'boo'", "", "y =", "2" }, {
      environment = { XDG_STATE_HOME = "/state", HOME = "/me" } })
    assert.same({ "> ", "> ", ">> ", ">> ", "> ", "> ", "> ", "> ", ">> ", "> " }, seen.prompts)
    assert.same({ "x = 1", "for i = 1, 2 do\n  f()", "x", "error 'boo'", "y =\n2" }, seen.history)
    assert.same({ "1\n", "stdin:1: boo\n", true, 79 }, { seen.out, seen.err, seen.whole, seen.width })
    assert.equal("/state/penumbra/history", seen.loaded)
    assert.equal(5, #seen.saved)
    for _, path in ipairs(seen.saved) do assert.equal("/state/penumbra/history", path) end
    for _, case in ipairs { { { XDG_STATE_HOME = "", HOME = "/me" }, "/me/.local/state/penumbra/history" },
      { { HOME = "/me" }, "/me/.local/state/penumbra/history" }, { { HOME = "" } }, { {} } } do
      seen = run({ "1" }, { environment = case[1] })
      assert.same({ case[2] or false, { case[2] }, { "1" } }, { seen.loaded or false, seen.saved, seen.history })
    end
  end)

  it("ends when it is told, after an unfinished statement only where nobody sees it", function()
    local seen = run({ "exit", "1" }, {})
    assert.same({ true, "", { "exit" } }, { seen.whole, seen.out, seen.history })
    seen = run({ "do" }, { editor = false })
    assert.same({ false, "stdin: unfinished statement at the end of the input\n" }, { seen.whole, seen.err })
    seen = run({ "do" }, { editor = false, terminals = { stdin = 80, stdout = 80 } })
    assert.same({ true, "" }, { seen.whole, seen.err })
    for _, terminals in ipairs { { stdin = 80 }, { stdout = 80 } } do
      assert.same({ "2\n", false }, { run({ "1 + 1", "do" }, { editor = false, terminals = terminals }).out,
        run({ "do" }, { editor = false, terminals = terminals }).whole })
    end
  end)

  it("greets where it is seen, tells what a script left, and is as wide as the terminal", function()
    local banner = "Penumbra %s, %s, %s\nhelp() shows the way, ?name explains a name, Ctrl-D ends\n"
    banner = banner:format(core.version, _VERSION, (core.blas()))
    local terminals = { stdin = 80, stdout = 100 }
    local seen = run({ "a + b\n", "pn.version\r\n" }, { editor = false, terminals = terminals, locals = { b = 2, a = 1,
      print = 3 } })
    assert.equal(banner .. "of the script: a, b\n> 3\n> " .. ("%q"):format(pn.version) .. "\n> \n", seen.out)
    assert.equal(99, seen.width)
    assert.equal(banner .. "7\n", run({ "7" }, { terminals = terminals }).out) -- an editor ends its own line
    assert.equal("3\n", run({ "a" }, { locals = { a = 3 } }).out)
  end)

  it("has errors in red, their first line, on a terminal that has colours", function()
    local red = "\27[31mstdin:1: boo\27[0m\n"
    assert.equal("stdin:1: boo\n", run({ "error 'boo'" }, {}).err)
    assert.equal(red, run({ "error 'boo'" }, { terminals = { stderr = 80 }, environment = { TERM = "xterm" } }).err)
    for name, value in pairs { NO_COLOR = "1", TERM = "dumb" } do
      assert.equal("stdin:1: boo\n", run({ "error 'boo'" }, { terminals = { stderr = 80 }, environment = {
        [name] = value } }).err)
    end
    assert.matches("^\27%[31mstdin:1: deep\27%[0m\n  stdin:1: in function 'f'\n",
      run({ "function f() error 'deep' end", "local r = f()" }, { terminals = { stderr = 80 } }).err)
  end)

  it("tells of an interruption in place of what came of the line", function()
    local calls = 0
    local seen = run({ "1", "do", "2", "3" }, { editor = { interrupted = function()
      calls = calls + 1
      return calls == 1 or calls == 2
    end } })
    assert.same({ "2\n3\n", "interrupted\ninterrupted\n", 4 }, { seen.out, seen.err, calls })
  end)

  it("is run by -l of Lua's own, which then ends", function()
    local module, meta, exit, ended = package.loaded["penumbra.shell"], getmetatable(_G), os.exit, 0
    local given = { arg = rawget(_G, "arg"), pn = rawget(_G, "pn"), help = rawget(_G, "help"), example = _G.example }
    core.terminal = function() end
    rawset(os, "exit", function(...) ended = ended + (select("#", ...) == 2 and 1 or 9) end)
    rawset(io, "read", function() return nil end)
    for _, args in ipairs { { "-lpenumbra.shell" }, { "-i", "-l", "penumbra.shell" }, { "-l", "x" }, {},
      { "penumbra.shell" }, "-lpenumbra.shell" } do
      rawset(_G, "arg", args)
      package.loaded["penumbra.shell"] = nil
      require "penumbra.shell"
    end
    setmetatable(_G, meta)
    rawset(os, "exit", exit)
    for _, name in ipairs { "arg", "pn", "help", "example" } do rawset(_G, name, given[name]) end
    package.loaded["penumbra.shell"] = module
    assert.equal(2, ended) -- of the first two alone
  end)

  it("completes by the lines above, and lets long runs show how far they are where both are seen", function()
    local completed
    local seen = run({ "p = pn.nuts(model, {", false, "1" }, { terminals = { stdin = 80, stdout = 80, stderr = 80 },
      editor = { complete = function(f) completed = f end }, seen = function(state, at)
        state[at] = { completed "  ta", completed "pn.logsu" }
        state.shown = progress.show_unasked(false)
        progress.show_unasked(state.shown)
      end })
    assert.same({ { "table" }, { "logsumexp" }, 5 }, seen[1])
    assert.same({ "target_accept" }, seen[2][1])
    assert.same({ true, false }, { seen.shown, progress.show_unasked(false) })
    for _, terminals in ipairs { { stdin = 80, stdout = 80 }, { stderr = 80 } } do
      run({ "1" }, { terminals = terminals, seen = function(state) state.shown = progress.show_unasked(false) end })
      assert.is_false(progress.show_unasked(false))
    end
  end)
end)

describe("completion", function()
  local pn = require "penumbra"
  local _, env = fresh()
  rawset(env, "config", { model = { layers = { 1, { width = 3, kind = "relu" } } }, seed = 1, ["not a name"] = 2 })
  rawset(env, "x", require("penumbra").ones { 2 })

  local function complete(text) return repl.complete(env, text) end

  it("offers only what is there", function()
    local count = 0
    local function look(path, value)
      for _, name in ipairs((complete(path .. "."))) do
        local ok, member = pcall(function() return value[name] end)
        assert(ok and member ~= nil, path .. "." .. name .. " is offered and not there")
        count = count + 1
        if type(member) == "table" then look(path .. "." .. name, member) end
      end
    end
    look("pn", require "penumbra")
    assert.is_true(count > 300)
  end)

  it("knows globals and keywords", function()
    local list, n = complete "y = confi"
    assert.same({ "config" }, list)
    assert.equal(5, n)
    assert.same({ "repeat", "require", "return" }, (complete "re"))
    assert.same({}, (complete "nosuchname"))
    assert.same({}, (complete "12e"))
    assert.same({ "  " }, (complete "  "))
  end)

  it("knows fields of libraries", function()
    assert.same({ "floor" }, (complete "math.fl"))
    assert.same({ "logsumexp" }, (complete "pn.logsu"))
    assert.same({ "dist" }, (complete "pn.dis"))
  end)

  it("knows nested tables", function()
    assert.same({ "model", "seed" }, (complete "config."))
    assert.same({ "layers" }, (complete "config.model.la"))
    assert.same({ "kind", "width" }, (complete "print(config.model.layers[2]."))
    assert.same({ "layers" }, (complete "config['model'].l"))
    assert.same({}, (complete "config.nothing.x"))
  end)

  it("knows methods", function()
    assert.same({ "matmul" }, (complete "x:matm"))
    local found = {}
    for _, name in ipairs((complete "x:")) do found[name] = true end
    assert.is_true(found.shape and found.exp and found.sum)
    rawset(env, "word", "text")
    assert.same({ "format" }, (complete "word:fo"))
    assert.same({}, (complete "config:s"))
  end)

  it("knows what a model that is being typed can do", function()
    local above = { "f = pn.model(function(rec, x)" }
    assert.same({ "sample" }, (repl.complete(env, "  local a = rec:sam", above)))
    assert.same({ "observe" }, (repl.complete(env, "f = pn.model(function(m) m:obs")))
    assert.same({}, (repl.complete(env, "  local a = other:sam", above)))
    assert.matches("^m:plate%(", repl.complete(env, "  rec:plate(", above)[1])
  end)

  it("knows models, posteriors and fits", function()
    env.model = pn.model(function(m) m:sample("a", pn.dist.normal(0, 1)) end)
    env.p = pn.nuts(env.model, { warmup = 20, draws = 10, chains = 1 })
    env.fit = pn.svi(env.model, "mean_field", { steps = 2 })
    assert.same({ "condition" }, (complete "model:con"))
    assert.same({ "summary" }, (complete "p:sum"))
    assert.same({ "a" }, (complete "p.draws."))
    assert.same({ "divergences" }, (complete "p.div"))
    assert.same({ "resample" }, (complete "fit:res"))
    assert.same({ "losses" }, (complete "fit.los"))
    assert.same({ "model", "models" }, (complete "pn.mod"))
    env.model, env.p, env.fit = nil, nil, nil
  end)

  it("knows parameters of distributions", function()
    rawset(env, "d", require("penumbra").dist.normal(0, 1))
    assert.same({ "scale" }, (complete "d.sca"))
    assert.same({ "log_prob" }, (complete "d:log_p"))
    assert.same({}, (complete "d:sca"))
    assert.same({ "to" }, (complete "d:to"))
  end)

  it("shows how a function is called after its bracket", function()
    env.d, env.mine = require("penumbra").dist.normal(0, 1), function(a, b) return a + b end
    assert.same({ { "pn.dist.gamma(concentration, rate = 1)", "" }, 0 }, { complete "x = pn.dist.gamma(" })
    assert.same({ "pn.dist.gamma(concentration, rate = 1)", "concentration", "rate", "validate", "" },
      (complete "pn.dist.gamma{ "))
    assert.same({ "d:log_prob(x)", "" }, (complete "d:log_prob("))
    assert.same({ "pn.dist.bijector.affine(loc = 0, scale = 1)", "" }, (complete "pn.dist.bijector.affine("))
    assert.matches("^function%(a, b%) ", (complete "mine(")[1])
    assert.same({}, (complete "nosuch("))
  end)

  it("knows options inside the braces of a call", function()
    assert.same({ { "target_accept" }, 2 }, { complete "pn.nuts{ ta" })
    assert.same({ { "target_accept" }, 2 }, { complete "p = pn.nuts(model, { data = {x, y}, ta" })
    assert.same({ { "target_accept" }, 2 }, { repl.complete(env, "  ta", { "p = pn.nuts(model, {", "  chains = 2," }) })
    assert.same({ "concentration" }, (complete "pn.dist.gamma{co"))
    assert.same({ "weight_decay" }, (complete "pn.optim.adamw(net, {wei"))
    assert.same({ "channels" }, (complete "pn.nn.prelu{ch"))
    assert.same({ "dtype" }, (complete "pn.zeros({2}, {dt")) -- from how it is called
    assert.same({ "width" }, (complete "pn.plot.line(x, y, {label = ',{', wi"))
    assert.same({}, (complete "pn.nuts(model, { chains = 4, cha")) -- given already
    local all = {}
    for _, name in ipairs((complete "pn.nuts(model, {chains = 2, ")) do all[name] = true end
    assert.is_true(all.warmup and all.draws and all.metric and not all.chains)
    assert.same({ "floor" }, (complete "pn.nuts(model, { draws = math.fl")) -- a value
    assert.same({ "target_accept" }, (complete "-- {'\"\npn.nuts{ ta"))
    assert.same({ "target_accept" }, (complete "--[[ {\n ]] f([=[ { ]=]) pn.nuts{ ta"))
    for _, comment in ipairs { "-- pn.nuts{ ta", "pn.nuts{ -- ta", "pn.nuts{ draws = 3, --[[ ta",
      "pn.nuts{ data = -- ta" } do
      assert.same({ "table" }, (complete(comment))) -- as any name
    end
    env.fit = pn.svi(pn.model(function(m) m:sample("a", pn.dist.normal(0, 1)) end), "mean_field", { steps = 2 })
    assert.same({ "draws" }, (complete "fit:resample{dr"))
    env.fit = nil
  end)

  it("knows what an option may be", function()
    assert.same({ { '"dense"', '"diagonal"', '"low_rank"' }, 0 }, { complete "pn.nuts(model, {metric = " })
    assert.same({ { 'dense"' }, 2 }, { complete 'pn.nuts(model, {draws = 10, metric = "de' })
    assert.same({ { "low_rank'" }, 0 + 1 }, { complete "pn.nuts{metric = 'l" })
    assert.same({ { "true" }, 2 }, { complete "pn.plot.line(x, y, {dashed = tr" })
    assert.same({ '"float32"', '"float64"' }, (complete "pn.nn.linear(2, 3, {dtype = "))
    assert.same({}, (complete 'pn.nuts(model, {metric = "zz'))
  end)

  it("does not run the user's code", function()
    rawset(env, "trap", setmetatable({}, { __index = function() error "ran" end, __call = function() error "ran" end }))
    assert.same({}, (complete "trap.a.b"))
    assert.same({}, (complete "trap:a"))
  end)
end)

describe("pretty.format", function()
  local function text(value, opt) return pretty.format(value, opt) end

  it("writes tables as Lua does, keys sorted", function()
    assert.equal('{1, 2, [5] = 3, a = 1, ["b c"] = 2, ["end"] = 3}',
      text { 1, 2, [5] = 3, a = 1, ["b c"] = 2, ["end"] = 3 })
    assert.equal("{}", text {})
    assert.equal('"a\\"b\\n\\x01"', text 'a"b\n\1')
  end)

  it("names cycles", function()
    local t = { inner = { deep = {} } }
    t.inner.deep.top, t.inner.self = t, t.inner
    assert.equal("{inner = {deep = {top = <cycle: it>}, self = <cycle: it.inner>}}", text(t))
    local shared = {}
    assert.equal("{{}, {}}", text { shared, shared })
  end)

  it("cuts what is long or deep", function()
    local list, deep = {}, {}
    for i = 1, 1000 do list[i] = i end
    assert.matches("%.%.%. 940 more\n}$", text(list))
    local at = deep
    for _ = 1, 100 do
      at.x = {}
      at = at.x
    end
    assert.equal("{x = {x = {x = {x = {x = {x = {...}}}}}}}", text(deep))
    local wide = { {} }
    for i = 2, 40 do wide[i] = { wide[i - 1], wide[i - 1] } end
    assert.is_true(#text(wide[40], { depth = 50 }) < 200000)
    assert.is_true(#text(("x"):rep(1e6)) < 3000)
  end)

  it("breaks lines", function()
    for line in text({ a = ("x"):rep(60), b = { ("y"):rep(60) } }):gmatch "[^\n]+" do
      assert.is_true(#line <= 79)
    end
  end)

  it("says where functions are from", function()
    local f = function(a, b, ...) return a, b, ... end
    assert.matches("^function%(a, b, %.%.%.%) .*repl_spec.lua:%d+$", text(f))
    assert.equal("function (built in)", text(print))
  end)

  it("shows tensors inside tables in short", function()
    local pn = require "penumbra"
    assert.equal("{w = [1 1] float64 [2]}", text { w = pn.ones { 2 } })
    assert.equal("{w = tensor float64 [20, 30]}", text { w = pn.ones { 20, 30 } })
  end)
end)
