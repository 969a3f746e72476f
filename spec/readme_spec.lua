--- The programs of README.md and of the manual run as they stand there; links lead somewhere.
local function read(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

local function files_of(pattern)
  local list = {}
  for path in io.popen("LC_ALL=C ls " .. pattern):lines() do list[#list + 1] = path end
  return list
end

local pages = {"README.md", table.unpack(files_of "examples/manual/*.md")}

-- Pictures of chapters go where nothing is kept (spec/manual_pictures.lua draws those that stand beside them).
local pn = require "penumbra"
local save = pn.plot.save
local function save_aside(name, ...)
  local path = os.tmpname()
  local saved, why, code = save(path .. name:match "%.%w+$", ...)
  os.remove(path)
  os.remove(path .. name:match "%.%w+$")
  return saved, why, code
end

--- Runs a chunk with print caught; returns what it printed.
local function run(chunk, path)
  local lines = {}
  pn.plot.save = save_aside
  local env = setmetatable({print = function(...)
    local list = table.pack(...)
    for k = 1, list.n do list[k] = tostring(list[k]) end
    lines[#lines + 1] = table.concat(list, "\t")
  end}, {__index = _G})
  local ok, why = xpcall(assert(load(chunk, "@" .. path, "t", env)), debug.traceback)
  pn.plot.save = save
  return assert(ok and lines, why)
end

-- What a host shall rely on stands in a chapter of its own.
local HOSTS = read "examples/manual/hosts.md"

describe("the manual", function()
  for _, path in ipairs(pages) do
    local count = 0
    for chunk in read(path):gmatch "```lua\n(.-)```" do
      count = count + 1
      it(("%s has Lua program %d that runs and prints"):format(path, count), function()
        assert.is_true(#run(chunk, path) > 0)
      end)
    end
  end

  it("has a page with programs for whoever begins", function()
    assert.truthy(read "README.md":find("```lua\n", 1, true))
    assert.truthy(read "examples/manual/tour.md":find("```lua\n", 1, true))
  end)

  it("README.md has at most 250 lines before the licence", function()
    local _, lines = read "README.md":match "^(.-)\n## Licence":gsub("\n", "")
    assert.is_true(lines <= 250)
  end)

  -- The anchor of a heading, as the repository's viewer makes it.
  local function anchor_of(heading)
    return (heading:lower():gsub("`", ""):gsub("[^%w%s_-]", ""):gsub("%s", "-"))
  end

  it("has links that lead to files and headings that are there", function()
    local links = 0
    local all = table.move(pages, 1, #pages, 1, {})
    for _, path in ipairs(files_of "examples/papers/README.md examples/papers/*/README.md") do all[#all + 1] = path end
    for _, path in ipairs(all) do
      local text = read(path):gsub("```.-```", "")
      for target in text:gmatch "%]%(([^)%s]+)%)" do
        local place, anchor = target:match "^([^#]*)#?(.*)$"
        if not place:find "^https?:" then
          links = links + 1
          local folder = path:match "^(.*/)[^/]*$" or ""
          local file = place == "" and path or folder .. place
          local handle = io.open(file)
          assert(handle, ("%s: link to %s, which is not there"):format(path, target))
          handle:close()
          local found = anchor == ""
          for heading in ("\n" .. (found and "" or read(file))):gmatch "\n#+ ([^\n]+)" do
            found = found or anchor_of(heading) == anchor
          end
          assert(found, ("%s: %s has no heading %s"):format(path, file, anchor))
        end
      end
    end
    assert.is_true(links >= 60)
  end)

  it("has what experiments found on pages, and heads of at most 25 lines in scripts", function()
    for _, path in ipairs(files_of "examples/*.lua examples/papers/*.lua examples/papers/*/*.lua") do
      local lines = 0
      for line in io.lines(path) do
        if not line:find "^%-%-" then break end
        lines = lines + 1
      end
      assert(lines <= 25, ("%s: a head of %d lines"):format(path, lines))
    end
  end)

  for _, path in ipairs {"README.md", "examples/manual/hosts.md"} do
    it(path .. " has a C program that compiles, runs and prints", function()
      local text, build = read(path), os.getenv "BUILD" or "build"
      local folder = io.popen "mktemp -d":read "l"
      local file = assert(io.open(folder .. "/host.c", "w"))
      file:write((assert(text:match "```c\n(.-)```")))
      file:close()
      local pipe = io.popen(("exec 2>&1; %s -std=c11 -Wall -Wextra -Werror %s -Isrc %s/host.c -o %s/host -L%s "
        .. "-lpenumbra && LD_LIBRARY_PATH=%s %s/host; rm -r %s"):format(os.getenv "CC" or "cc",
        os.getenv "SANITIZE" or "", folder, folder, build, build, folder, folder))
      local out = pipe:read "a"
      pipe:close()
      assert.truthy(out:find("^1 2.71828 7.38906\n[^\n]*instruction"), out)
    end)
  end

  it("names a test that exists for every promise to hosts", function()
    local page = assert((HOSTS .. "\n## "):match "\n## What a host can rely on\n(.-)\n## ")
    local promises = 0
    for row in page:match("|%-%-%-|%-%-%-|\n(.-)\n\n"):gmatch "[^\n]+" do
      local test = assert(row:match "| `([%w_/.]+)` |$", row)
      local file = assert(io.open(test), test .. ", which the promises name, is not there")
      file:close()
      -- and it is one that runs: itself a test or example, or the rows of one
      local runner = test:gsub("_?rows%.def$", "_test.c"):gsub("%.def$", "_test.c")
      assert.truthy(runner:find "_test%.c$" or runner:find "_spec%.lua$" or runner:find "^examples/embed/.*%.c$", test)
      io.open(runner):close()
      promises = promises + 1
    end
    assert.is_true(promises >= 20)
  end)
end)
