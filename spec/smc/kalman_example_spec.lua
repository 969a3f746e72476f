-- examples/09_kalman.lua, as its own tables tell: the maximum is where it belongs, the smoother is better than the
-- filter and both than the looks, intervals cover what they say.
local command = os.getenv "PENUMBRA" or "build/penumbra"

local function run(options)
  local picture = os.tmpname() .. ".svg"
  local pipe = assert(io.popen(("'%s' examples/09_kalman.lua --quick --out %s %s 2>/dev/null"):format(command, picture,
    options)))
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

local probe = io.open "../shared/data/classics/nile.csv"
if probe then probe:close() end
local where_present = probe and it or pending

describe("the Kalman example", function()
  it("tracks its object", function()
    local text, drawn = run ""
    local seen, looks = {}, tonumber(text:match "looks%s+([%d.]+)")
    for name, outside, inside, share in text:gmatch "(%l+)%s+([%d.]+)%s+([%d.]+)%s+([%d.]+)\n" do
      seen[name] = { tonumber(outside), tonumber(inside), tonumber(share) }
    end
    assert(seen.filter[1] < looks and seen.smoother[1] < seen.filter[1] and seen.smoother[2] < seen.filter[2], text)
    for _, row in pairs(seen) do assert(row[3] > 0.8 and row[3] < 0.98, text) end
    local push, blur = text:match "push ([%d.]+) .- blur ([%d.]+)"
    assert(math.abs(push - 1.5) < 0.4 and math.abs(blur - 0.3) < 0.05, text)
    if not text:find "no picture" then assert.matches("</svg>", drawn) end
  end)

  where_present("finds the Nile's change", function()
    local text = run "--data ../shared/data"
    local level, stepping = text:match "log likelihood %(diffuse%)%s+(%-[%d.]+)%s+(%-[%d.]+)"
    assert(math.abs(level + 633.4646) < 2e-4, text)
    assert(tonumber(stepping) > tonumber(level) + 10, text)
    local step, error_of_it = text:match "the step of 1899: (%-%d+) %+%- (%d+)"
    assert(math.abs(step + 248) <= 2 and math.abs(error_of_it - 28) <= 2, text)
  end)
end)
