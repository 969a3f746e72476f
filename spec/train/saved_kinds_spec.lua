--- Every kind of file that can be saved (spec/fuzz/file_kinds.lua) is loaded and goes on, and damaged ones are refused
--- by errors of ours that leave what is alive as it was (spec/fuzz/file.lua, always the same seeds; `make fuzz` and
--- `make soak` run others for as long as they are told).
local pn = require "penumbra"

local function write_all(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

describe("every kind of file", function()
  local path, again
  before_each(function() path, again = os.tmpname(), os.tmpname() end)
  after_each(function()
    os.remove(path)
    os.remove(again)
  end)

  it("is loaded and goes on", function()
    pn.seed(1)
    local count = 0
    for name, kind in pairs(assert(loadfile "spec/fuzz/file_kinds.lua")(write_all, again)) do
      kind.make(path)
      local loaded, message = kind.load(path)
      assert(loaded, ("%s: %s"):format(name, tostring(message)))
      if kind.use then kind.use(loaded) end
      count = count + 1
    end
    assert(count > 40)
  end)

  it("may be damaged", function()
    local command = ("LUA_PATH='%s' %s spec/fuzz/file.lua --seed 1 --seconds 3 --calls 250 2>&1"):format(package.path,
      os.getenv "LUA" or "lua5.4")
    local pipe = assert(io.popen(command))
    local text = pipe:read "a"
    assert(pipe:close(), text)
    assert(text:find "%d+ passed, 0 failed", text)
    assert(tonumber(text:match "file: (%d+) calls") >= 250, text)
  end)
end)
