--- What Lua lets pass in silence where tensors are meant, and what --strict and the prompt say of it.
local pn = require "penumbra"
local doubts = require "penumbra.shell.doubts"
local repl = require "penumbra.shell"

local build = os.getenv "BUILD" or "build"

local function lines(code)
  local list = {}
  for _, one in ipairs(doubts.scan(code)) do list[#list + 1] = one.line end
  return list
end

-- Runs f with == of tensors watched, and leaves it as it was.
local function watched(tell, f)
  local meta = debug.getmetatable(pn.zeros { 1 })
  local before = meta.__eq
  doubts.watch(tell)
  local results = table.pack(pcall(f))
  meta.__eq = before
  return table.unpack(results, 1, results.n)
end

describe("a doubt", function()
  it("is a condition that is a tensor", function()
    for _, code in ipairs {
      "if x:gt(0) then f() end", "if a and x[1]:isnan() then end", "while f(x):lt(y):all() do end",
      "if pn.eq(x, y) then end",
      "local z = x:eq(y) and 1 or 2", "if not x.y:any() then end", "repeat until x:ge(1)", "if (x + 1):gt(0) then end",
      "return x:gt(0) or 3", "if f{1}:gt(0) then end", "if x:gt(f(1, {2})) then end" } do
      assert.same({ 1 }, lines(code), code)
    end
  end)

  it("is a tensor beside a number", function()
    assert.same({ 1 }, lines "if x:sum() == 0 then end")
    assert.same({ 2 }, lines "local a\nlocal b = y:all() == true")
    assert.same({ 1 }, lines "print(x:max(1) ~= .5)")
    assert.matches("x:sum():item() == 0", doubts.scan("x:sum() == 0")[1].text, 1, true)
  end)

  it("is nothing that may be meant", function()
    for _, code in ipairs {
      "if x then end", "if y and y:take(1, i) then end", "if x:gt(0):all():item() then end", "local m = x:gt(0)",
      "local m = use and x:gt(0) or ones", "x:sum():item()", "if x:sum():item() == 0 then end", "f(x:gt(0))",
      "-- if x:gt(0) then", "--[[ if x:gt(0) then\n ]] local a", "local s = 'if x:gt(0) then'",
      "s = [[\nif x:gt(0) then]]", "for i, v in x:eq(y) do end",
      "for i in ipairs(x:gt(0)) do end", "if rawequal(x, y) then end", "if eq(x, y) then end", "if set.all(x) then end",
      "if x:gt(0):sum():item() > 3 then end", "local s = \"\\\" if x:gt(0) then\"", "repeat until x:gt(0):all():item()",
      "repeat local y = f(x) until y:sum():item() == 0", "if d:all():item() and b then end", "" } do
      assert.same({}, lines(code), code)
    end
    assert.same({ 5 }, lines "-- a\n'b\\\nc'\n--[==[ ]]\n]==] if x:gt(0) then end")
    -- a text ends at its own quote, behind what is escaped, or with its line
    for code, want in pairs { ["s = '\\\\' if x:gt(0) then end"] = { 1 }, ["s = 'a\\'b' if x:gt(0) then end"] = { 1 },
      ["s = '\"' if x:gt(0) then end"] = { 1 }, ["s = 'a\nif x:gt(0) then end"] = { 2 }, ["s = 'a"] = {},
      ["s = 'a\\"] = {}, ["s = '' if x:gt(0) then end"] = { 1 } } do
      assert.same(want, lines(code), code)
    end
  end)

  it("is found in none of the examples", function()
    local pipe = assert(io.popen "find examples lua -name '*.lua'")
    local n = 0
    for path in pipe:lines() do
      local file = assert(io.open(path))
      local found = doubts.scan((file:read "a":gsub("^#[^\n]*", "")))
      file:close()
      assert(#found == 0, found[1] and ("%s:%d: %s"):format(path, found[1].line, found[1].text))
      n = n + 1
    end
    pipe:close()
    assert.is_true(n > 100)
  end)

  it("is == of two tensors, in a script alone", function()
    local x, y = pn.ones { 2 }, pn.ones { 2 }
    local ok, message = watched(nil, function() return x == y end)
    assert.is_false(ok)
    assert.matches("doubts_spec.lua:%d+: x == y asks whether two tensors are one object", message)
    local told = 0
    local different, same
    ok, different, same = watched(function() told = told + 1 end, function() return x ~= y, x == x end)
    assert.is_true(ok and different and same)
    assert.equal(1, told)
    ok, same = watched(nil, load("local x, y = ... return function() return x == y end", "=penumbra.infer.model")(x, y))
    assert.is_true(ok)
    assert.is_false(same)
    assert.is_true(watched(nil, function() return rawequal(x, y) or x == nil or x == 1 end))
    assert.is_false(x == y) -- unwatched
  end)

  it("is told at the prompt beside the result, == once", function()
    local meta = debug.getmetatable(pn.zeros { 1 })
    local before = meta.__eq
    local env = setmetatable({}, { __index = _G })
    local session = repl.session { env = env }
    session:feed "a, b = pn.ones{2}, pn.ones{2}"
    local kind, text = session:feed "a == b"
    assert.equal("ok", kind)
    assert.matches("^false\n%(x == y asks whether two tensors are one object.*%)$", text)
    assert.equal("false", select(2, session:feed "a == b"))
    assert.equal("true", select(2, session:feed "a == a"))
    kind, text = session:feed "if a:lt(0) then c = 1 end"
    assert.equal("ok", kind)
    assert.matches("^%(a tensor is always true: x:lt%(...%):all%(%):item%(%)", text)
    meta.__eq = before
  end)
end)

describe("penumbra --strict", function()
  local function run(words)
    local pipe = assert(io.popen(build .. "/penumbra " .. words .. " 2>&1 </dev/null"))
    local text = pipe:read "a"
    local _, _, code = pipe:close()
    return text, code
  end

  it("refuses == of tensors and warns of conditions", function()
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write "#!penumbra\nlocal pn = require 'penumbra'\nlocal x = pn.ones{2}\n"
    file:write "if x:lt(0) then print 'yes' end\nprint(x == x + 0)\n"
    file:close()
    local text, code = run("--strict " .. path)
    assert.equal(1, code)
    assert.matches(":4: warning: a tensor is always true.*\nyes\n.*:5: x == y asks whether", text)
    assert.is_nil(text:find("warning.*warning"))
    text, code = run(path)
    assert.equal("yes\nfalse\n", text)
    assert.equal(0, code)
    os.remove(path)
    text = run "--strict -e 'print(pn.ones{2}:sum() == 2)'"
    assert.matches("^%(command line%):1: warning: a tensor is never equal to 2.*\nfalse\n$", text)
  end)

  it("leaves the library as it is", function()
    local text, code = run [[--strict -e 'local linear = pn.nn.linear(1, 1)
    local m = pn.model(function(m, y)
      local net = m:network("net", linear, pn.dist.normal(0, 1))
      m:observe("y", pn.dist.normal(net(y), m:sample("s", pn.dist.gamma(2, 2))):independent(2), y)
    end)
    local q = pn.nuts(m, {data = {pn.randn{5, 1}}, chains = 2, warmup = 20, draws = 20})
    print(q, pn.svi(m, "mean_field", {data = {pn.randn{5, 1}}, steps = 5}))']]
    assert.equal(0, code, text)
    assert.is_nil(text:find("warning: a tensor", 1, true))
  end)
end)
