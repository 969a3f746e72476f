-- The classic models of examples/05 to 08, as their own tables tell: the weighted draws of a guide agree with NUTS, and
-- the same test says no to the mean-field guide where it is known to be too narrow.
local command = os.getenv "PENUMBRA" or "build/penumbra"

local function run(name)
  local picture = os.tmpname() .. ".svg"
  local pipe = assert(io.popen(("'%s' examples/%s.lua --quick --out %s 2>/dev/null"):format(command, name, picture)))
  local text = pipe:read "a"
  local ok = pipe:close()
  local file = io.open(picture)
  local drawn = file and file:read "a" or ""
  if file then file:close() end
  os.remove(picture)
  os.remove((picture:gsub("%.svg$", "")))
  assert.is_true(ok, text)
  return text, drawn
end

-- The rows of a table: name -> list of {mean, sd}, a pair for each column.
local function rows_of(text)
  local rows = {}
  for line in text:gmatch "[^\n]+" do
    local pairs_of_it = {}
    for mean, sd in line:gmatch "(%-?%d+%.%d+) %+%- *(%d+%.%d+)" do
      pairs_of_it[#pairs_of_it + 1] = { mean = tonumber(mean), sd = tonumber(sd) }
    end
    if #pairs_of_it > 2 then rows[line:match "^(%S+)"] = pairs_of_it end
  end
  return rows
end

-- Distance of two columns' means in deviations, and the ratio of the deviations.
local function apart(row, column)
  return math.abs(row[column].mean - row[1].mean) / row[1].sd, row[column].sd / row[1].sd
end

local cases = {
  { name = "05_eight_schools", rows = 10, narrow = "tau" },
  { name = "06_logistic_regression", rows = 6, narrow = "a" },
  { name = "07_mixture", rows = 9, narrow = "loc[1]" },
  { name = "08_gaussian_process", rows = 3, narrow = "amplitude" },
}

describe("the classic models", function()
  for _, case in ipairs(cases) do
    it(case.name .. " agrees with NUTS", function()
      local text, drawn = run(case.name)
      local errors = tonumber(text:match "differ by at most ([%d.]+) Monte Carlo errors")
      assert.is_true(errors < 4.5, text)
      local rows, count = rows_of(text), 0
      for name, row in pairs(rows) do
        count = count + 1
        local gap, ratio = apart(row, 4)
        assert.is_true(gap < 0.2 and ratio > 0.85 and ratio < 1.18, name .. ": " .. text)
      end
      assert.equal(case.rows, count)
      local _, ratio = apart(rows[case.narrow], 2) -- independent normals
      assert.is_true(ratio < 0.85, text)
      if not text:find "no picture" then assert.matches("</svg>", drawn) end
    end)
  end
end)
