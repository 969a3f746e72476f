-- --check of the experiments of examples/papers: a run's tables beside those of its page, within the spread.
local pn = require "penumbra" -- luacheck: ignore (what experiment.lua loads)
local experiment = dofile "examples/papers/continual/experiment.lua"

local PAGE = [[
# A page

set        first             second
boston    20   -2.769 +- 0.121   -2.455 +- 0.047    -2.45 -2.57
energy    20   -1.577 +- 0.034   -1.662 +- 0.025    -0.87 -2.59
boston      0.115 +- 0.023   better in 19 of 20 splits, p = 4.01e-05
boston      0.314 +- 0.085   better in 18 of 20 splits, p = 0.000402
| moons | 0.52 +- 0.01 | 12 |
]]

local function compared(report)
  local r = experiment.compared(PAGE, report)
  return { r.lines, r.found, r.figures, #r.outside }, r.outside
end

describe("a report beside its page", function()
  it("agrees with itself, and within three standard errors of both", function()
    assert.same({ 5, 5, 7, 0 }, compared(PAGE))
    -- 3 (0.034^2 + 0.034^2)^(1/2) = 0.144, and the halves of the last digits
    local line = "energy    20   %.3f +- 0.034   -1.662 +- 0.025    -0.87 -2.59\n"
    assert.same({ 1, 1, 2, 0 }, compared(line:format(-1.577 + 0.144)))
    local counts, outside = compared(line:format(-1.577 + 0.147))
    assert.same({ 1, 1, 2, 1 }, counts)
    assert.equal("energy -1.43 +- 0.034, on the page -1.577 +- 0.034", outside[1])
    assert.same({ 1, 1, 2, 1 }, compared(line:format(-1.577 - 0.147)))
  end)

  it("takes the nearest of lines with the same words, and tells what the page lacks", function()
    assert.same({ 1, 1, 1, 0 }, compared "boston 0.32 +- 0.08 better in 18 of 20 splits, p = 0.0004\n")
    assert.same({ 1, 1, 1, 1 }, compared "boston 0.9 +- 0.01 better in 18 of 20 splits, p = 0.0004\n")
    assert.same({ 1, 0, 0, 0 }, compared "kin8nm    20    1.050 +- 0.013    1.108 +- 0.008    1.12  0.44\n")
    assert.same({ 0, 0, 0, 0 }, compared "boston  1 2 3\nnothing here\n")
    assert.same({ 1, 1, 1, 0 }, compared "moons 0.53 +- 0.01 12\n")
  end)

  it("is held to the spreads of the page alone, of lines that begin alike where a script prints by itself", function()
    local page = "text +- more\nlocal: error 1.15 +- 0.11 %\n| 4 mean-field | 56.64 +- 0.2 | 3.1 |\n1 2.50 +- 0.01\n"
    local function of(report, first)
      local r = experiment.compared(page, report, first)
      return { r.lines, r.found, r.figures, #r.outside }
    end
    assert.same({ 1, 1, 1, 0 }, of("local: error 1.30 %\n"))
    assert.same({ 1, 1, 1, 1 }, of("local: error 1.50 %\n"))
    assert.same({ 0, 0, 0, 0 }, of("local: error 1.30 %, more\n"))
    assert.same({ 1, 1, 1, 0 }, of("local: error 1.30 % , more 3 4\n", true))
    assert.same({ 0, 0, 0, 0 }, of("local: errors 1.30 %\nlocally: error 1.30 %\n", true))
    assert.same({ 1, 1, 1, 1 }, of("   4  mean-field  58.0  1-3  0.5\n", true))
    assert.same({ 1, 1, 1, 0 }, of("1 2.51\n", true))
    assert.same({ 0, 0, 0, 0 }, of("1 2.51 3\n", true)) -- numbers alone are alike only as a whole
  end)

  it("is there for every script that does something when it is run", function()
    local pipe, count = assert(io.popen "LC_ALL=C ls examples/papers/*/*.lua"), 0
    for path in pipe:lines() do
      local file <close> = assert(io.open(path))
      local text = file:read "a"
      local head = text:match "^[^\n]*\n.-\n[^-]"
      local nothing = head:gsub("\n%-*%s*", " "):find("does nothing when it is run by itself", 1, true)
      local list = path:find "posteriordb/models"
      count = count + (nothing and 0 or 1)
      assert(nothing or list or text:find("experiment%.options%(") or text:find("%.checked%(arg%)"), path)
    end
    pipe:close()
    assert.is_true(count > 40)
  end)

  it("decides how a script with --check ends", function()
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute("mkdir " .. folder))
    local function write(name, text)
      local file <close> = assert(io.open(folder .. "/" .. name, "w"))
      file:write(text)
    end
    write("script.lua", [[
      local experiment = dofile "examples/papers/continual/experiment.lua"
      local option = experiment.options({ value = 1.0 }, {})
      local report = experiment.report(option, "script")
      report("mean %.2f +- 0.10", option.value)
    ]])
    local function run(more)
      local pipe = assert(io.popen(("%s %s/script.lua --out '%s' --check %s 2>&1; echo code $?"):format(
        os.getenv "LUA" or "lua5.4", folder, folder, more)))
      local text = pipe:read "a"
      pipe:close()
      return text
    end
    assert.matches("0 of 1 lines with a spread stand on .*code 1", run "") -- there is no page
    write("README.md", "text\n\n    mean 1.10 +- 0.10\n")
    assert.matches("1 of 1 lines .* of their 1 figures 0 are off.*code 0", run "")
    assert.matches("check: mean 2 %+%- 0.1, on the page 1.1 %+%- 0.1\n.*1 are off.*code 1", run "--value 2")
    -- a script that reads its options by itself and prints
    write("script.lua", [[
      dofile("examples/papers/continual/experiment.lua").checked(arg)
      print("mean " .. (arg[3] == "--value" and arg[4] or "1.1"))
      os.exit(arg[5] ~= "--fail")
    ]])
    assert.matches("^mean 1.1\ncheck: 1 of 1 lines .* of their 1 figures 0 are off.*code 0", run "")
    assert.matches("1 are off.*code 1", run "--value 2")
    assert.matches("0 are off.*code 1", run "--value 1.1 --fail")
    os.execute("rm -r " .. folder)
  end)
end)
