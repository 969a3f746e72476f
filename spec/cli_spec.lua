--- Runs the command itself: scripts, options, errors, Ctrl-C, and the prompt through a pipe and on a
--- pseudo-terminal made by script(1).
local core = require "penumbra.core"

local build = os.getenv "BUILD" or "build"
local command = build .. "/penumbra"

-- The stock interpreter. A sanitised build's own interpreter is a plain one that knows no -l; there the stock
-- one runs with the sanitiser loaded first.
local function stock_interpreter()
  local lua = os.getenv "LUA" or "lua5.4"
  if os.execute(lua .. " -l string -e '' >/dev/null 2>&1") then return lua end
  return "LD_PRELOAD=$(${CC:-cc} -print-file-name=libasan.so) lua5.4"
end
local lua = stock_interpreter()
local folder = os.tmpname()
os.remove(folder)
os.execute("mkdir '" .. folder .. "'")

local function quote(s) return "'" .. s:gsub("'", "'\\''") .. "'" end

local function write(name, text)
  local path = folder .. "/" .. name
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  return path
end

local function read(path)
  local file = io.open(path, "rb")
  local text = file and file:read "a" or ""
  if file then file:close() end
  return text
end

-- Runs a shell line; returns its exit code, standard output and standard error.
local function shell(line)
  local _, _, code = os.execute(("{ %s; } >%s/out 2>%s/err"):format(line, folder, folder))
  return code, read(folder .. "/out"), read(folder .. "/err")
end

-- Runs the command with these arguments (shell words), standard input empty.
local function run(arguments) return shell(command .. " " .. arguments .. " </dev/null") end

describe("penumbra", function()

teardown(function() os.execute("rm -rf " .. quote(folder)) end)

describe("the command", function()
  it("runs a script with its arguments", function()
    local path = write("args.lua", "print(arg[0], arg[1], arg[2], #arg, ...) print(arg[-1])")
    local code, out, err = run(path .. " one 'two 2'")
    assert.equal(0, code)
    assert.equal(path .. "\tone\ttwo 2\t2\tone\ttwo 2\n" .. command .. "\n", out)
    assert.equal("", err)
    code, out = run("--seed 3 -e 'x = 1' " .. path .. " --seed")
    assert.equal(0, code)
    assert.matches("\t%-%-seed\tnil\t1\t%-%-seed\n", out)
  end)

  it("runs expressions in order", function()
    local code, out = run "-e 'x = 1' -e 'print(x + 1)'"
    assert.equal(0, code)
    assert.equal("2\n", out)
    code, out = run "-e 'error(1, 0)' -e 'print(2)'"
    assert.equal(1, code)
    assert.equal("", out)
  end)

  it("runs standard input", function()
    local code, out, err = shell("echo 'print(1 + 1, arg[0])' | " .. command)
    assert.same({ 0, "2\t" .. command .. "\n", "" }, { code, out, err })
    code, out = shell("echo 'print(...)' | " .. command .. " - a b")
    assert.same({ 0, "a\tb\n" }, { code, out })
    code, out, err = shell("printf 'local x = 1\\nfor' | " .. command)
    assert.same({ 1, "", "stdin:2: <name> expected near <eof>\n" }, { code, out, err })
  end)

  it("reports an output that is full or closed", function()
    local long = write("long.lua", "for i = 1, 3000 do print(i, 'some text') end")
    local exits = write("exits.lua", "print 'x' os.exit(true, true)")
    local quiet = write("quiet.lua", "local f = io.open(arg[1], 'w') print 'lost' f:write 'kept' f:close()")
    for _, sink in ipairs { ">/dev/full", ">&-" } do
      for _, arguments in ipairs { "-e 'print(1)'", long, exits, "--version", "--help", "-e 'io.write(1)'" } do
        local code, out, err = shell(("sh -c %s"):format(quote(command .. " " .. arguments .. sink)))
        assert.equal(1, code, arguments .. sink)
        assert.equal("", out)
        assert.matches("penumbra: standard output cannot be written", err, 1, true)
      end
    end
    local kept = folder .. "/kept"
    local code = shell(("sh -c %s"):format(quote(command .. " " .. quiet .. " " .. kept .. " >&-")))
    assert.same({ 1, "kept" }, { code, read(kept) }) -- what was printed is not in the script's file
    code = shell(("sh -c %s"):format(quote(command .. " -e 'x = 1' >&- 2>&- <&-")))
    assert.equal(0, code)
  end)

  it("tells versions, BLAS and processor", function()
    local code, out = run "--version"
    assert.equal(0, code)
    local blas = core.blas():gsub(" %(%w+%)$", "") -- which kernels: the command may choose better ones
    assert.truthy(out:find(("Penumbra %s, Lua 5.4."):format(core.version), 1, true))
    assert.truthy(out:find(", " .. blas, 1, true))
    local older = "OpenBLAS runs kernels for older processors" -- a choice of kernels that was forced is told of
    assert.truthy(out:find "vectors\n$" or out:find("vectors\n" .. older .. "[^\n]*\n$"))
    code, out = run "--help"
    assert.equal(0, code)
    for _, word in ipairs { "-e ", "-i ", "--seed", "--threads", "--dtype", "--version", "--help" } do
      assert.is_truthy(out:find(word, 1, true))
    end
  end)

  it("leaves the choice of BLAS kernels to who has made it, and the environment as it was", function()
    local show = [[local get = os.getenv
      print(get "OPENBLAS_CORETYPE", get "OPENBLAS_NUM_THREADS", get "PENUMBRA_BLAS_START")]]
    local line = ("%s %s -e %s"):format("env -u OPENBLAS_NUM_THREADS %s", command, quote(show))
    local _, out = shell(line:format "OPENBLAS_CORETYPE=Haswell")
    assert.equal("Haswell\tnil\tnil\n", out)
    _, out = shell(line:format "-u OPENBLAS_CORETYPE")
    assert.equal("nil\tnil\tnil\n", out)
    -- as after a start with better kernels
    _, out = shell(line:format "OPENBLAS_CORETYPE=SkylakeX OPENBLAS_NUM_THREADS=1 PENUMBRA_BLAS_START=tn")
    assert.equal("nil\tnil\tnil\n", out)
  end)

  it("refuses what it does not know", function()
    local code, out, err, _ = run "--sed 3"
    assert.equal(1, code)
    assert.equal("", out)
    assert.matches("^penumbra: unknown option '%-%-sed'\nusage: ", err)
    for arguments, message in pairs {
      ["--seed"] = "option %-%-seed needs a value",
      ["--seed x -e ''"] = "%-%-seed must be a whole number from %-%d+ to %d+, got 'x'",
      ["--threads 0 -e ''"] = "%-%-threads must be a whole number from 1 to 256, got '0'",
      ["--dtype int8 -e ''"] = "%-%-dtype must be float64 or float32, got 'int8'",
      ["-e"] = "option %-e needs a value",
    } do
      code, _, err = run(arguments)
      assert.equal(1, code)
      assert.matches("^penumbra: " .. message, err)
    end
    code, _, err = run(folder .. "/none.lua")
    assert.equal(1, code)
    assert.matches("none.lua", err)
  end)

  it("sets seed, threads and dtype", function()
    local show = [[-e 'local pn = require "penumbra"
      print(pn.randn{2}:sum():item(), pn.threads(), pn.zeros{1}:dtype())']]
    local _, first = run("--seed 5 --threads 1 " .. show)
    local _, again = run("--seed=5 --threads=2 " .. show)
    local _, other = run("--seed 6 --dtype float32 " .. show)
    assert.matches("\t1\tfloat64\n$", first)
    assert.matches("\t2\tfloat64\n$", again)
    assert.matches("\tfloat32\n$", other)
    assert.equal(first:match "^%S+", again:match "^%S+")
    assert.not_equal(first:match "^%S+", other:match "^%S+")
  end)

  it("sets no globals for scripts", function()
    local path = write("globals.lua", [[print(rawget(_G, "pn"), rawget(_G, "penumbra"), rawget(_G, "help"))]])
    local code, out = run(path)
    assert.same({ 0, "nil\tnil\tnil\n" }, { code, out })
  end)

  it("points at the script's line", function()
    local path = write("bad.lua", [[
local pn = require "penumbra"
local function loss(w)
  local y = w:matmul(pn.zeros{5, 2})
  return y
end
local function step() local l = loss(pn.ones{3, 4}) return l end
local l = step()
]])
    local code, out, err = run(path)
    assert.equal(1, code)
    assert.equal("", out)
    local expected = [[
FILE:3: matmul: inner sizes must agree, got [3, 4] and [5, 2]
  FILE:3: in function 'loss'
  FILE:6: in function 'step'
  FILE:7: in the main part
]]
    assert.equal(expected, (err:gsub(path:gsub("%p", "%%%0"), "FILE")))
  end)

  it("hides its own frames", function()
    local path = write("inner.lua", [[
local pn = require "penumbra"
local function f() local r = pn.no_grad(function() error "inside" end) return r end
local r = f()
]])
    local _, _, err = run(path)
    assert.not_matches("penumbra%.", err)
    assert.not_matches("%[C%]", err)
    path = write("options.lua", 'local plot = require "penumbra.plot"\nplot.line(nil, {1}, {colr = 1})\n')
    _, _, err = run(path)
    assert.equal(path .. ":2: plot.line: unknown option 'colr', did you mean 'colour'?\n", err)
  end)

  it("reports any error object", function()
    for object, message in pairs {
      ["{}"] = "error: the error object is a table value\n",
      ["nil"] = "error: the error object is a nil value\n",
      ['setmetatable({}, {__tostring = function() return "mine" end})'] = "mine\n",
      ["12"] = "12\n",
    } do
      local code, _, err = run("-e " .. quote("error(" .. object .. ", 0)"))
      assert.same({ 1, message }, { code, err })
    end
  end)

  it("survives endless recursion", function()
    local start = core.clock()
    local code, _, err = run [[-e 'local function f(n) local x = f(n + 1) return x end f(1)']]
    assert.equal(1, code)
    assert.matches("stack overflow", err)
    local _, count = err:gsub("\n", "")
    assert.is_true(count < 20)
    assert.is_true(core.clock() - start < 20)
  end)

  it("reports undeclared globals", function()
    local path = write("strict.lua", "local x = 1\nprint(undefned)\n")
    local code, _, err = run(path)
    assert.same({ 1, path .. ":2: undefined global 'undefned'\n" }, { code, err })
    path = write("assign.lua", "local function f() count = 1 end\nf()\n")
    code, _, err = run(path)
    assert.equal(1, code)
    assert.matches("assign.lua:1: assignment to undeclared global 'count' in a function", err)
  end)

  it("passes exit codes on", function()
    assert.equal(3, (run "-e 'os.exit(3)'"))
    assert.equal(1, (run "-e 'os.exit(false)'"))
    assert.equal(0, (run "-e 'os.exit(true, true)'"))
  end)
end)

describe("Ctrl-C", function()
  -- Starts a script that makes the file `ready`, interrupts it, and returns exit code and standard error.
  local function interrupt(code)
    os.remove(folder .. "/ready")
    local path = write("long.lua", ("io.open(%q, 'w'):close()\n"):format(folder .. "/ready") .. code)
    local line = ([[%s %s & pid=$!; i=0
      while [ ! -e %s/ready ] && [ $i -lt 500 ]; do sleep 0.02; i=$((i+1)); done
      sleep 0.1; kill -INT $pid; ( sleep 20; kill -KILL $pid ) 2>/dev/null & watch=$!
      wait $pid; code=$?; kill $watch; exit $code]]):format(command, path, folder)
    -- background jobs of a plain sh ignore SIGINT; the command sets its own handler
    local exit, out, err = shell("sh -c " .. quote(line))
    return exit, err, out
  end

  it("ends a loop with code 130", function()
    local code, err = interrupt "while true do end"
    assert.equal(130, code)
    assert.matches("long.lua:2: interrupted\n", err)
  end)

  it("ends a loop that catches errors", function()
    local code, err = interrupt "while true do pcall(function() while true do end end) end"
    assert.equal(130, code)
    assert.matches("interrupted", err)
  end)

  it("ends a loop in a coroutine", function()
    local code, err = interrupt [[coroutine.wrap(function()
  while true do pcall(function() while true do end end) end
end)()]]
    assert.equal(130, code)
    assert.matches("interrupted", err)
  end)

  it("ends tensor work", function()
    local code, err = interrupt [[local pn = require "penumbra"
local x = pn.ones{400, 400}
while true do x = x:matmul(x) * 0.001 end]]
    assert.equal(130, code)
    assert.matches("long.lua:4: ", err)
  end)

  it("lets a script tidy up", function()
    local code, _, out = interrupt [[local guard <close> = setmetatable({}, {__close = function()
  for i = 1, 100 do end
  print "tidied"
end})
while true do end]]
    assert.same({ 130, "tidied\n" }, { code, out })
  end)
end)

describe("the prompt through a pipe", function()
  local function session(text, environment)
    return shell(("printf %%s %s | %s %s -i"):format(quote(text), environment or "", command))
  end

  it("shows results and nothing else", function()
    local code, out, err = session "x = 20\nx + 1\n_ * 2\n'a', {1, b = 2}\n\npn.ones{2}\n"
    assert.same({ 0, '21\n42\n"a"  {1, b = 2}\n[1 1]\nfloat64 [2]\n', "" }, { code, out, err })
  end)

  it("goes on after errors", function()
    local code, out, err = session "1 +\n2\nerror 'boo'\nnothere\n)\n7\n"
    assert.equal(0, code)
    assert.equal("3\n7\n", out)
    assert.equal("stdin:1: boo\nstdin:1: undefined global 'nothere'\nstdin:1: unexpected symbol near ')'\n", err)
  end)

  it("says when the input ends inside a statement", function()
    local code, _, err = session "for i = 1, 2 do\n"
    assert.equal(0, code)
    assert.equal("stdin: unfinished statement at the end of the input\n", err)
  end)

  it("follows a script", function()
    local path = write("before.lua", "made = 41\n")
    local code, out = shell(("echo 'made + 1' | %s -i %s"):format(command, path))
    assert.same({ 0, "42\n" }, { code, out })
    code, out = shell(("echo 'made + 1' | %s -e 'made = 1' -i"):format(command))
    assert.same({ 0, "2\n" }, { code, out })
    -- also what was local to it; a global of that name stays, and so does what a function had
    path = write("before.lua", "x = 1\nlocal x, y = 2, {7}\nlocal function f() local z = y[1] return z end\nf()\n"
      .. "for k = 1, 2 do local z = k end\nif #arg == 0 then return end\n")
    code, out = shell(("printf 'x\\ny[1]\\nf() + 1\\nrawget(_G, \"z\")\\n' | %s -i %s"):format(command, path))
    assert.same({ 0, "1\n7\n8\nnil\n" }, { code, out })
  end)

  -- A sanitised module does not load into an interpreter that is not.
  local in_stock = os.getenv "PN_SLOW" and function() end or it
  in_stock("runs in the stock interpreter", function()
    local paths = ("LUA_PATH='lua/?.lua;lua/?/init.lua' LUA_CPATH='%s/lua/?.so'"):format(build)
    local code, out, err = shell(("printf 'pn.ones{2}\\nnope\\n1+1\\n' | %s %s -l penumbra.shell"):format(paths, lua))
    assert.equal(0, code)
    assert.equal("[1 1]\nfloat64 [2]\n2\n", out)
    assert.equal("stdin:1: undefined global 'nope'\n", err)
    code, out = shell(("echo '3' | %s %s -lpenumbra.shell"):format(paths, lua))
    assert.same({ 0, "3\n" }, { code, out })
    code, out = shell(("%s %s -e 'require \"penumbra.shell\" print(1)' </dev/null"):format(paths, lua))
    assert.same({ 0, "1\n" }, { code, out })
  end)
end)

describe("the prompt on a terminal", function()
  local term = {}
  term.__index = term

  -- Starts `line` on a pseudo-terminal of its own.
  local function terminal(line)
    local name = folder .. "/term"
    os.execute(("rm -f %s.in %s.out && mkfifo %s.in && : >%s.out"):format(name, name, name, name))
    local wrapped = ("stty cols 100 rows 30; %s; echo \"[code $?]\""):format(line)
    os.execute(("TERM=xterm script -qefc %s /dev/null <%s.in >%s.out 2>&1 &"):format(quote(wrapped), name, name))
    return setmetatable({ input = assert(io.open(name .. ".in", "wb")), output = name .. ".out", seen = 0 }, term)
  end

  function term:send(text)
    self.input:write(text)
    self.input:flush()
  end

  -- Waits for `pattern` in what has appeared since the last match; returns the text up to its end.
  function term:expect(pattern)
    local stop = core.clock() + 30
    repeat
      local text = read(self.output):sub(self.seen + 1)
      local _, last = text:find(pattern)
      if last then
        self.seen = self.seen + last
        return text:sub(1, last)
      end
      os.execute "sleep 0.02"
    until core.clock() > stop
    error(("waited in vain for %q after %q"):format(pattern, read(self.output):sub(self.seen + 1)), 2)
  end

  function term:close() self.input:close() end

  local state = folder .. "/state"
  local start = ("XDG_STATE_HOME=%s %s"):format(quote(state), command)

  it("completes, keeps history, interrupts and ends", function()
    local t = terminal(start)
    t:expect "Penumbra .*Ctrl%-D ends.*> "
    t:send "xvalue = pn.ones\t{2, 2}\r"
    t:expect "{2, 2}\r?\n.*> "
    t:send "xval\t:sha\t()\r"
    t:expect "\n%[2, 2%]\r?\n"
    t:send "pn.log_\t\t"
    t:expect "log_ndtr .*log_sigmoid +log_softmax"
    t:send "\21" -- kills the line
    t:send "for i = 1, 2 do\r"
    t:expect "\n[^\n]*>> "
    t:send "yvalue = i * 21 end\r"
    t:expect "\n[^\n]*> "
    t:send "yvalue\r"
    t:expect "\n42\r?\n.*> "
    -- a long computation
    t:send "while true do end\r"
    t:expect "while true do end.*\n"
    os.execute "sleep 0.2"
    t:send "\3"
    t:expect "interrupted.*> "
    t:send "w = pn.ones{500, 500} while true do w = w:matmul(w) * 1e-3 end\r"
    t:expect "1e%-3 end.*\n"
    os.execute "sleep 0.3"
    t:send "\3"
    t:expect "interrupted.*> "
    -- an unfinished statement is dropped
    t:send "do\r"
    t:expect "\n[^\n]*>> "
    t:send "\3"
    t:expect "\n> "
    t:send "xvalue:sum():item()\r"
    t:expect "\n4%.?0?\r?\n.*> "
    t:send "111 + 111\r"
    t:expect "\n222\r?\n.*> "
    t:send "\16\r" -- the line above
    t:expect "\n222\r?\n.*> "
    t:send "noname\r"
    t:expect "\27%[31mstdin:1: undefined global 'noname'\27%[0m"
    t:send "\4"
    t:expect "%[code 0%]"
    t:close()
    assert.matches("111", read(state .. "/penumbra/history"))
  end)

  it("remembers the last session", function()
    local t = terminal(start .. " -i -e 'print(1)'")
    t:expect "ends.*> "
    t:send "\16\16\r"
    t:expect "\n222\r?\n.*> "
    t:send "exit\r"
    t:expect "%[code 0%]"
    t:close()
  end)

  it("takes letters beyond ASCII", function()
    local t = terminal("LC_ALL=C.UTF-8 " .. start)
    t:expect "ends.*> "
    t:send "#'\195\169t\195\169'\r"
    t:expect "\n5\r?\n.*> "
    t:send "\4"
    t:expect "%[code 0%]"
    t:close()
  end)

  it("does without colours where asked", function()
    local t = terminal("NO_COLOR=1 " .. start)
    t:expect "ends.*> "
    t:send "noname\r"
    assert.not_matches("\27%[31m", t:expect "undefined global 'noname'")
    t:send "\4"
    t:expect "%[code 0%]"
    t:close()
  end)

  -- From the first line to tomorrow: what a newcomer types.
  local MODEL = { "model = pn.model(function(m, x, y)", '  local a = m:sample("a", pn.dist.normal(0, 5))',
    '  local b = m:sample("b", pn.dist.normal(0, 5))', '  m:plate("rows", x:size(1), function()',
    '    m:observe("y", pn.dist.normal(a + b * x, 0.4), y)', "  end)", "end)" }
  local DATA = { "x = pn.linspace(-2, 2, 40)", "y = x * 1.5 + 0.3 + pn.randn{40} * 0.4" }

  local function type_in(t, lines)
    for k, line in ipairs(lines) do
      t:send(line .. "\r")
      t:expect(k < #lines and "\n[^\n]*>+ " or "\n> ")
    end
  end

  it("takes a model line by line, samples, fits, draws pictures and saves", function()
    local t = terminal("stty cols 80; " .. start)
    t:expect "ends.*> "
    for _, line in ipairs(DATA) do type_in(t, { line }) end
    for k, line in ipairs(MODEL) do
      t:send(line .. "\r")
      t:expect(k < #MODEL and "\n[^\n]*>> " or "\n> ")
    end
    t:send "p = pn.nuts(model, {data = {x, y}, warmup = 200, draws = 200})\r"
    t:expect "nuts  100 %%  400/400" -- the progress line, unasked
    t:expect "\n> "
    t:send "p\r"
    local shown = t:expect "800 draws of 4 chains.-\n> "
    assert.matches("\na +0%.%d+ .-\nb +1%.%d+ ", shown)
    for line in shown:gsub("\r", ""):gmatch "[^\n]+" do assert.is_true(#line <= 80, line) end
    t:send 'fit = pn.svi(model, "full_rank", {data = {x, y}, steps = 300})\r'
    t:expect "svi  100 %%  300/300"
    t:expect "\n> "
    t:send "fit\r"
    t:expect "svi, full_rank: 300 steps.-\n> "
    -- a picture in letters; the terminal says nothing of itself
    t:send "panel = pn.plot.panel{title = 'slope', pn.plot.histogram(p.draws.b)}\r"
    t:expect "\n> "
    t:send "panel:show()\r"
    local picture = t:expect "slope.-%-%-%-%-%-%-.-\n> "
    assert.matches("\27%[c", read(t.output)) -- it was asked
    assert.matches("%*%*%*%*", picture)
    assert.matches("\n *0 %+%-%-", picture)
    for line in picture:gsub("\r", ""):gmatch "[^\n]+" do assert.is_true(#line <= 80, line) end
    t:send "help\r"
    t:expect "pn%.model.-\n> "
    t:send "?m:plate\r"
    t:expect "m:plate%(name, size.-\n> "
    t:send(("p:save '%s/draws', fit:save '%s/fit'\r"):format(folder, folder))
    t:expect "true  true.-\n> "
    t:send "\4"
    t:expect "%[code 0%]"
    t:close()
  end)

  it("goes on tomorrow from the file, the model called back from the history", function()
    local t = terminal(start)
    t:expect "ends.*> "
    for _, line in ipairs(DATA) do type_in(t, { line }) end
    -- the whole model is one entry: search for it and run it
    t:send "\18m:plate("
    t:expect "bck:"
    t:send "\r"
    t:expect "\n> "
    t:send "model\r"
    t:expect "model of stdin:1\r?\n> "
    t:send(("p = pn.restore('%s/draws', {model = model, data = {x, y}})\r"):format(folder))
    t:expect "\n> "
    t:send "p.draws.b:shape()\r"
    t:expect "%[4, 200%].-\n> "
    t:send(("fit = pn.restore('%s/fit', {model = model, guide = 'full_rank', data = {x, y}})\r"):format(folder))
    t:expect "\n> "
    t:send "#fit:continue(100).losses\r"
    t:expect "\n400\r?\n> "
    t:send "\4"
    t:expect "%[code 0%]"
    t:close()
  end)

  it("points at the typed line of a model and completes its methods", function()
    local t = terminal(start)
    t:expect "ends.*> "
    t:send "wrong = pn.model(function(m, y)\r"
    t:expect ">> "
    t:send '  local a = m:sam\t("a", pn.dist.normal(0, 1))\r'
    t:expect "ple.->> "
    t:send '  m:observe("y", pn.dist.gamma(1, 1), y)\r'
    t:expect "\n[^\n]*>> "
    t:send "end)\r"
    t:expect "\n> "
    t:send "1 + 1\r"
    t:expect "\n2\r?\n> "
    t:send "pn.nuts(wrong, {data = {pn.tensor{-1}}})\r"
    local said = t:expect "3 | m:observe.-\n> "
    assert.matches("stdin:3: observe: 'y' has values outside of the support of gamma", said)
    -- a run that lasts is interrupted
    t:send "fine = pn.model(function(m) m:sample('a', pn.dist.normal(pn.zeros{50}, 1):independent(1)) end)\r"
    t:expect "\n> "
    t:send "pn.nuts(fine, {draws = 300000, chains = 1})\r"
    t:expect "nuts +%d+ %%"
    t:send "\3"
    t:expect "interrupted.-> "
    t:send "pn.svi(fine, 'mean_field', {steps = 100000000})\r"
    t:expect "loss"
    t:send "\3"
    t:expect "interrupted.-> "
    t:send "\4"
    t:expect "%[code 0%]"
    t:close()
  end)

  it("shows sixels where the terminal says that it understands them", function()
    local t = terminal(start)
    t:expect "ends.*> "
    t:send "pn.plot.show{pn.plot.line({1, 2}, {1, 2})}\r"
    t:expect "\27%[c"
    t:send "\27[?62;4;6c"
    t:expect "\27P.-q.-\27\\"
    assert.is_nil(t:expect("> "):find "true")
    t:send "1 + 2\r"
    t:expect "\n3\r?\n.*> "
    t:send "\4"
    t:expect "%[code 0%]"
    t:close()
  end)

  local in_stock = os.getenv "PN_SLOW" and function() end or it
  in_stock("reads plainly in the stock interpreter", function()
    local paths = ("LUA_PATH='lua/?.lua;lua/?/init.lua' LUA_CPATH='%s/lua/?.so'"):format(build)
    local t = terminal(paths .. " " .. lua .. " -l penumbra.shell")
    t:expect "ends.*> "
    t:send "6 * 7\r"
    t:expect "\n42\r?\n> "
    t:send "\4"
    t:expect "%[code 0%]"
    t:close()
  end)
end)

end)
