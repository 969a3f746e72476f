--- Every kind of file that can be saved (spec/fuzz/file_kinds.lua) is loaded and goes on. (saved_spec.lua damages
--- them.)
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
    os.execute(("rm -rf '%s.zarr'"):format(path))
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
end)
