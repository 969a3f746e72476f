local strict = require "penumbra.shell.strict"

local function run(env, code)
  local chunk = assert(load(code, "=script", "t", env))
  return pcall(chunk)
end

local function fresh(extra)
  local env = {math = math, string = string, pairs = pairs, print = print, pcall = pcall}
  for key, value in pairs(extra or {}) do env[key] = value end
  return env
end

describe("strict globals", function()
  it("refuse undefined names and name near ones", function()
    local env = strict.install(fresh())
    local ok, message = run(env, "local a = 1\nreturn prnt(a)")
    assert.is_false(ok)
    assert.equal("script:2: undefined global 'prnt', did you mean 'print'?", message)
    ok, message = run(env, "return floor(1.5)")
    assert.is_false(ok)
    assert.equal("script:1: undefined global 'floor', did you mean 'math.floor'?", message)
    ok, message = run(env, "return zzz")
    assert.is_false(ok)
    assert.equal("script:1: undefined global 'zzz'", message)
  end)

  it("let the main part declare", function()
    local env = strict.install(fresh())
    assert.is_true(run(env, "x = 1; x = x + 1; y = nil"))
    assert.equal(2, env.x)
    assert.is_true(run(env, "local function f() x = 5 end f()"))
    assert.equal(5, env.x)
  end)

  it("keep functions from creating globals", function()
    local env = strict.install(fresh())
    local ok, message = run(env, "local function f()\n  count = 1\nend\nf()")
    assert.is_false(ok)
    assert.matches("^script:2: assignment to undeclared global 'count' in a function", message)
    assert.is_true(run(strict.install(fresh(), {assign = "anywhere"}), "(function() count = 1 end)()"))
  end)

  it("tolerate what portable code asks for", function()
    local ok, value = run(strict.install(fresh()), "return (unpack == nil) and (jit == nil) and _TEST == nil")
    assert.is_true(ok)
    assert.is_true(value)
  end)

  it("chain and restore an older metatable", function()
    local env = fresh()
    local old = {__index = {inner = 7}}
    setmetatable(env, old)
    strict.install(env)
    strict.install(env)
    local ok, value = run(env, "return inner")
    assert.is_true(ok)
    assert.equal(7, value)
    assert.is_false(run(env, "return outer"))
    strict.remove(env)
    assert.equal(old, getmetatable(env))
    assert.is_true(run(env, "return outer"))
  end)

  it("leave other tables and the caller's globals alone", function()
    local before = getmetatable(_G)
    strict.install(fresh())
    assert.equal(before, getmetatable(_G))
  end)
end)
