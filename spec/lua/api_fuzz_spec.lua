--- A few seconds of the fuzzer of the Lua API (spec/fuzz/api.lua), always the same seeds; `make fuzz` and `make soak`
--- run others for as long as they are told.
describe("the fuzzer of the Lua API", function()
  it("finds no call that ends the process", function()
    local command = ("LUA_PATH='%s' %s spec/fuzz/api.lua --seed 1 --seconds 5 --calls 400 2>&1"):format(package.path,
      os.getenv "LUA" or "lua5.4")
    local pipe = assert(io.popen(command))
    local text = pipe:read "a"
    assert(pipe:close(), text)
    local calls = tonumber(text:match "api: (%d+) calls")
    assert(calls and calls >= 300, text)
    assert(text:find "%d+ passed, 0 failed", text)
  end)

  it("reports a call that does, with its seed", function()
    local command = ("API_FUZZ_FAULT=1 LUA_PATH='%s' %s spec/fuzz/api.lua --seed 3 --seconds 1 --calls 50 2>&1"):format(
      package.path, os.getenv "LUA" or "lua5.4")
    local pipe = assert(io.popen(command))
    local text = pipe:read "a"
    assert(not pipe:close(), text)
    assert(text:find("seed 3 ended with code", 1, true), text)
    assert(text:find("fault()", 1, true), text)
    assert(text:find("--child 3 --calls 50", 1, true), text)
  end)
end)

describe("the fuzzer of objects with changed fields", function()
  it("finds no call that ends the process", function()
    local command = ("LUA_PATH='%s' %s spec/fuzz/fields.lua --seed 1 --seconds 2 --calls 150 2>&1"):format(package.path,
      os.getenv "LUA" or "lua5.4")
    local pipe = assert(io.popen(command))
    local text = pipe:read "a"
    assert(pipe:close(), text)
    local calls = tonumber(text:match "fields: (%d+) calls")
    assert(calls and calls >= 100, text)
    assert(text:find "%d+ passed, 0 failed", text)
  end)
end)
