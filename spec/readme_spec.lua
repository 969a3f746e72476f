--- The programs of README.md run as they stand there.
local text = io.open "README.md":read "a"

--- Runs a chunk with print caught; returns what it printed.
local function run(chunk)
  local lines = {}
  local env = setmetatable({print = function(...)
    local list = table.pack(...)
    for k = 1, list.n do list[k] = tostring(list[k]) end
    lines[#lines + 1] = table.concat(list, "\t")
  end}, {__index = _G})
  assert(load(chunk, "@README.md", "t", env))()
  return lines
end

describe("README.md", function()
  local count = 0
  for chunk in text:gmatch "```lua\n(.-)```" do
    count = count + 1
    it("has Lua program " .. count .. " that runs and prints", function()
      assert.is_true(#run(chunk) > 0)
    end)
  end

  it("has a tour", function() assert.is_true(count >= 1) end)
end)
