--- The programs of README.md and of the manual run as they stand there and print what is shown (spec/shown.lua); links
--- lead somewhere.
local shown = require "spec.shown"

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

--- What a C program prints, compiled with warnings as errors.
local function compiled(text)
  local folder, build = io.popen "mktemp -d":read "l", os.getenv "BUILD" or "build"
  local file = assert(io.open(folder .. "/host.c", "w"))
  file:write(text)
  file:close()
  local pipe = io.popen(("exec 2>&1; %s -std=c11 -Wall -Wextra -Werror %s -Isrc %s/host.c -o %s/host -L%s "
    .. "-lpenumbra -lm && LD_LIBRARY_PATH=%s %s/host; rm -r %s"):format(os.getenv "CC" or "cc",
    os.getenv "SANITIZE" or "", folder, folder, build, build, folder, folder))
  local out = pipe:read "a"
  pipe:close()
  return out
end

-- What a host shall rely on stands in a chapter of its own.
local HOSTS = read "examples/manual/hosts.md"

describe("the manual", function()
  for _, path in ipairs(pages) do
    local programs, loose = shown.programs(read(path))
    for count, program in ipairs(programs) do
      it(("%s has program %d, which runs and prints what is shown"):format(path, count), function()
        require "penumbra".seed(0) -- as in a process of its own
        local printed = program.language == "c" and compiled(program.chunk)
          or table.concat(run(program.chunk, path), "\n")
        assert.is_true(#printed > 0)
        local wrong = program.want and shown.differs(program.want, printed, program.tolerance)
        assert(not wrong, wrong and path .. ": " .. wrong .. "\nIt prints:\n" .. printed)
      end)
    end
    if loose ~= 0 then
      it(path .. " shows output directly after programs", function() error(loose .. " blocks stand elsewhere") end)
    end
  end

  it("compares what is shown: texts, numbers to the digits or to a tolerance, no times", function()
    local same = {
      {"a 1.5", "a 1.5"}, {"a 1.5", "a 1.6"}, {"a 1.5", "a  1.54"}, {"a 3", "a 3.2"}, {"1e-3", "2e-3"},
      {"0.5 s", "7 s"}, {"1\n...\n3", "1\n2\n4\n3"}, {"1\n...", "1\n2"}, {"no rate...", "no rate at 5"},
      {"[ 3 12]", "[3 12]"},
      {"1.0", "1.3", "within 0.5"}, {"100", "104", "within 5 %"},
    }
    local other = {
      {"a 1.5", "a 1.7"}, {"a 1.5", "a 1.56"}, {"a 3", "a 4"}, {"a b", "a c"}, {"1e-3", "3e-3"}, {"-1.2", "1.2"},
      {"float64 [2]", "float32 [2]"}, {"conv2d", "conv3d"}, {"nan", "1"}, {"3 things", "4 things"}, {"1", "1\n2"},
      {"1\n2", "1"}, {"1 2", "1 2 3"}, {"1 2 3", "1 2"}, {"a 1 b...", "a 2 b c"}, {"1\n...\n3", "1\n2"},
      {"1.0", "1.6", "within 0.5"}, {"100", "106", "within 5 %"}, {"1", "1", "about 1"},
    }
    for _, case in ipairs(same) do assert.is_nil(shown.differs(table.unpack(case))) end
    for _, case in ipairs(other) do assert(shown.differs(table.unpack(case)), case[1] .. " is " .. case[2]) end
    local page = "```lua\nx\n```\n\n```text within 1\n7\n```\n\nand\n\n```text\n8\n```\n"
    local programs, loose = shown.programs(page)
    assert.same({{language = "lua", chunk = "x\n", want = "7\n", tolerance = " within 1"}}, programs)
    assert.equal(1, loose)
  end)

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

  it("has a program in the head of penumbra.h that runs", function()
    local comment = read "src/penumbra.h":match "\n%*%*   (#include <penumbra.h>\n.-\n%*%*   }\n)"
    assert.matches("^slope [12]%.%d+ %+%- 0%.%d+\n$", compiled((comment:gsub("\n%*%* *", "\n"))))
  end)

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
