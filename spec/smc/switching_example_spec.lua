-- examples/11_switching.lua on the series that it makes, whose regimes it knows.
local command = os.getenv "PENUMBRA" or "build/penumbra"

describe("the example of regimes", function()
  it("finds them, and the volatilities that the series was made with", function()
    local picture = os.tmpname() .. ".svg"
    local line = ("'%s' examples/11_switching.lua --quick --out %s 2>/dev/null"):format(command, picture)
    local pipe = assert(io.popen(line))
    local text = pipe:read "a"
    local ok = pipe:close()
    local file = io.open(picture)
    local drawn = file and file:read "a" or ""
    if file then file:close() end
    os.remove(picture)
    os.remove((picture:gsub("%.svg$", "")))
    assert.is_true(ok, text)
    assert.matches("a series of 1500 days made for the purpose", text)
    assert.is_true(tonumber(text:match "right on (%d+) %%") >= 85, text)
    local low, high = text:match "volatility of the regimes ([%d.]+) and ([%d.]+)"
    assert.is_true(math.abs(low - 0.55) < 0.15 and math.abs(high - 1.35) < 0.35, text)
    if not text:find "no picture" then assert.matches("</svg>", drawn) end
  end)
end)
