--- examples/12_stochastic_volatility: PMMH, SMC^2 and NUTS agree with each other on generated returns, and on the first
--- days of the real ones where these lie beside the repository.
local command = os.getenv "PENUMBRA" or (os.getenv "BUILD" or "build") .. "/penumbra"

local function run(more)
  local picture = os.tmpname() .. ".svg"
  local pipe = assert(io.popen(("'%s' examples/12_stochastic_volatility.lua --quick %s --out %s 2>&1"):format(command,
    more, picture)))
  local text = pipe:read "a"
  local ok = pipe:close()
  local file = io.open(picture)
  local drawn = file and file:read "a" or ""
  if file then
    file:close()
  end
  os.remove(picture)
  os.remove((picture:gsub("%.svg$", "")))
  assert.is_true(ok, text)
  return text, drawn
end

-- Gives what the example printed.
local function check(more)
  local text, drawn = run(more)
  local errors = tonumber(text:match "means differ by at most ([%d.]+) errors")
  assert.is_true(errors < 6, text)
  for name in ("mu rho sigma"):gmatch "%w+" do
    local line, count = text:match("\n(" .. name .. " [^\n]+)"), 0
    for sd, mcse in line:gmatch "%+%-(%d+%.%d+) %((%d+%.%d+)%)" do
      count = count + 1
      assert.is_true(tonumber(mcse) < tonumber(sd) / 2, line) -- or to agree would mean nothing
    end
    assert.equal(3, count)
  end
  assert.matches("log evidence %-%d+%.%d+ %+%- 0%.%d+", text)
  if not text:find "no picture" then
    assert.matches("</svg>", drawn)
  end
  return text
end

describe("stochastic volatility", function()
  local probe = io.open "../shared/data/classics/gbpusd_sv_945.csv"
  local where_present = probe and it or pending
  if probe then
    probe:close()
  end
  where_present("three ways on returns of the pound", function() check "--data ../shared/data" end)

  it("three ways on generated returns, whose posteriors it keeps in files", function()
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute("mkdir '" .. folder .. "'"))
    local first = check("--keep " .. folder)
    local again = run("--keep " .. folder)
    os.execute("rm -r '" .. folder .. "'")
    local function table_of(text) return (text:match "\n\n(.-)\n[^\n]*picture") end
    assert.matches("Monte Carlo error", table_of(first))
    assert.equal(table_of(first), table_of(again))
  end)
end)
