--- examples/papers/posteriordb against reference draws that others computed: fast posteriors of the whole folder where
--- it lies beside the repository, and eight schools, whose data and reference are few enough to stand here.
local build = os.getenv "BUILD" or "build"
local command = os.getenv "PENUMBRA" or build .. "/penumbra"

local folder = os.tmpname()
os.remove(folder)

local function shell(line)
  local pipe = assert(io.popen(line .. " 2>&1"))
  local text = pipe:read "a"
  local ok, _, code = pipe:close()
  return ok and 0 or code, text
end

local function run(arguments)
  return shell(("'%s' examples/papers/posteriordb/run.lua %s"):format(command, arguments))
end

local function write(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end

local function read(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

-- The line of a posterior in the table of NUTS: its words.
local function row_of(text, name)
  local words = {}
  for word in (text:match("\n(" .. name:gsub("%p", "%%%0") .. "[^\n]*)") or ""):gmatch "%S+" do
    words[#words + 1] = word
  end
  return words
end

local probe = io.open "../shared/data/posteriordb/README.md"
if probe then
  probe:close()
end

describe("the posteriors of posteriordb", function()
  local fast = { "arK-arK", "mesquite-logmesquite", "gp_pois_regr-gp_regr", "eight_schools-eight_schools_noncentered" }

  for _, metric in ipairs { "low_rank", "dense", "diagonal" } do
    for _, name in ipairs(fast) do
      local where_present = probe and it or pending
      where_present(("pass by NUTS, %s: %s"):format(metric, name), function()
        local code, text = run(("--data ../shared/data/posteriordb --guides none --only %s --metric %s"):format(name,
          metric))
        local row = row_of(text, name)
        assert.equal(0, code, text)
        assert.equal("ok", row[#row], text)
        assert.is_true(tonumber(row[7]) < 1.01 and tonumber(row[8]) >= 4000, text) -- R-hat, ESS
      end)
    end
  end
end)

-- Rubin 1981. Mean, sd, 5, 50 and 95 % quantiles, Monte Carlo error of the mean and effective draws of the reference
-- posterior eight_schools-eight_schools_noncentered of posteriordb, 10,000 draws.
local data = '{"J": 8, "y": [28, 8, -3, 7, -1, 1, 18, 12], "sigma": [15, 10, 16, 11, 9, 11, 10, 18]}'
local reference = [[
name,mean,sd,q05,q50,q95,mcse_mean,ess
theta[1],6.1505023,5.6158634,-1.6806875,5.5890114,16.329362,0.055892945,10095.3
theta[3],3.9059061,5.280712,-4.9143183,4.1053844,11.844479,0.054084462,9533.2
mu,4.4105183,3.3092965,-0.93617651,4.3638948,9.8320732,0.033025185,10041.1
tau,3.6020595,3.1984777,0.25666379,2.7470214,9.7322089,0.032001948,9989.3
]]
local schools = "eight_schools-eight_schools_noncentered"

describe("the rule of acceptance", function()
  setup(function()
    assert(os.execute(("mkdir -p '%s/%s' '%s/out'"):format(folder, schools, folder)))
    write(("%s/%s/data.json"):format(folder, schools), data)
  end)
  teardown(function() os.execute("rm -rf '" .. folder .. "'") end)

  local function with(rows, more)
    write(("%s/%s/reference.csv"):format(folder, schools), rows)
    local code, text = run(("--data '%s' --only eight_schools %s"):format(folder, more or "--guides none"))
    return code, text, row_of(text, schools)
  end

  it("takes eight schools, and no other mean or spread", function()
    local code, text, row = with(reference)
    assert.equal(0, code, text)
    assert.equal("ok", row[#row])
    assert.is_true(tonumber(row[4]) < 4 and math.abs(tonumber(row[5]) - 1) < 0.1 and tonumber(row[6]) < 4, text)
    for _, change in ipairs { { "mu,4.41", "mu,4.75" }, { "3.1984777", "2.8" }, { "3.1984777", "4" } } do
      local wrong = reference:gsub(change[1], change[2])
      assert.are_not.equal(reference, wrong)
      code, text, row = with(wrong)
      assert.equal(1, code, text)
      assert.equal("MISSED", row[#row])
    end
  end)

  it("is not asked again for what a file holds, and guides stand beside it", function()
    local more = ("--steps 3000 --out '%s/out'"):format(folder)
    local code, text = with(reference, more)
    assert.equal(0, code, text)
    local kept = read(folder .. "/out/results.csv")
    local _, lines = kept:gsub("\n", "")
    assert.equal(5, lines) -- a head, NUTS and three guides
    for _, name in ipairs { "nuts", "mean_field", "full_rank", "flow" } do
      local line = assert(kept:match("\n([^\n]*," .. name .. ",[^\n]*)"))
      assert.is_truthy(line:match "ok$" or line:match "wrong$" or line:match "right$", line)
    end
    local again = select(2, with(reference, more))
    assert.equal(kept, read(folder .. "/out/results.csv"))
    assert.equal(text, again)
  end)

  it("counts a posterior without data as absent, and an option that is not there as an error", function()
    local code, text = run(("--data '%s' --guides none --only arK"):format(folder))
    assert.equal(0, code)
    assert.matches("arK%-arK: no data below", text)
    code, text = run "--drawz 3"
    assert.equal(1, code)
    assert.matches("unknown option %-%-drawz", text)
  end)
end)
