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

  it("has a C program that compiles, runs and prints", function()
    local build = os.getenv "BUILD" or "build"
    local folder = io.popen "mktemp -d":read "l"
    local file = assert(io.open(folder .. "/host.c", "w"))
    file:write((assert(text:match "```c\n(.-)```")))
    file:close()
    local pipe = io.popen(("exec 2>&1; %s -std=c11 -Wall -Wextra -Werror %s -Isrc %s/host.c -o %s/host -L%s -lpenumbra "
      .. "&& LD_LIBRARY_PATH=%s %s/host; rm -r %s"):format(os.getenv "CC" or "cc", os.getenv "SANITIZE" or "", folder,
      folder, build, build, folder, folder))
    local out = pipe:read "a"
    pipe:close()
    assert.truthy(out:find("^1 2.71828 7.38906\n[^\n]*instruction"), out)
  end)

  it("names a test that exists for every promise to hosts", function()
    local page = assert(text:match "\n## What a host can rely on\n(.-)\n## ")
    local promises = 0
    for row in page:match("|%-%-%-|%-%-%-|\n(.-)\n\n"):gmatch "[^\n]+" do
      local test = assert(row:match "| `([%w_/.]+)` |$", row)
      local file = assert(io.open(test), test .. ", which README.md names, is not there")
      file:close()
      -- and it is one that runs: itself a test or example, or the rows of one
      local runner = test:gsub("_?rows%.def$", "_test.c"):gsub("%.def$", "_test.c")
      assert.truthy(runner:find "_test%.c$" or runner:find "_spec%.lua$" or runner:find "^examples/embed/.*%.c$", test)
      io.open(runner):close()
      promises = promises + 1
    end
    assert.is_true(promises >= 20)
  end)

  it("has a tour", function() assert.is_true(count >= 1) end)
end)
