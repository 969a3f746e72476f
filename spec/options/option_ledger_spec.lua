--- The ledger of options: each that the library lists (functions below pn, methods of objects) has a row in one of the
--- tables here, a reason there, or a spec that spec/options/elsewhere.lua names. A new option that is in none of them
--- fails. OPTION_LEDGER=1 prints how many are where.
local pn = require "penumbra"
local battery = require "spec.options.option_battery"
local elsewhere = require "spec.options.elsewhere"

local TABLES = { "smc", "learning", "computing", "inference", "object", "study", "data", "own" }

-- Function -> the rows that are about it.
local function rows()
  local of = {}
  for _, name in ipairs(TABLES) do
    for f, case in pairs(battery.by_function(require("spec.options." .. name .. "_options"))) do
      of[f] = of[f] or {}
      table.move(case, 1, #case, #of[f] + 1, of[f])
    end
  end
  return of
end

describe("the ledger of options", function()
  it("has every one: in a row, with a reason, or in a spec of its own", function()
    pn.seed(1)
    local objects = assert(loadfile "spec/fuzz/objects.lua")(pn, function(...) return ... end)
    local of, count, open = rows(), { row = 0, reason = 0, asked = 0, open = 0 }, {}
    for _, entry in ipairs(battery.functions(objects)) do
      local name, f, options = table.unpack(entry)
      local missing = {}
      for _, option in ipairs(options) do
        local said
        for _, case in ipairs(of[f] or {}) do
          local now = battery.says(case, option.name)
          said = now == "row" and now or said or now
        end
        said = said or elsewhere.asked[name] and "asked" or "open"
        count[said] = count[said] + 1
        if said == "open" then missing[#missing + 1] = option.name end
      end
      open[name] = #missing > 0 and table.concat(missing, " ") or nil
    end
    if os.getenv "OPTION_LEDGER" then
      print(("%d in rows, %d with a reason, %d in specs of their own, %d open"):format(count.row, count.reason,
        count.asked, count.open))
    end
    assert.same({}, open)
    assert.is_true(count.row > 1100)
  end)

  it("sees an option that changes nothing", function()
    local dead = { ["an option that is ignored"] = { function() return 1 end, {}, {}, {},
      method = function() return pn.smc.resample end, only = { "resampling" } } }
    assert.error_matches(battery.cases(dead)[1][2], "changes nothing")
  end)
end)
