--- What options of checks, comparisons and what predicts do: spec/options/option_battery.lua on
--- spec/options/study_options.lua.
local battery = require "spec.options.option_battery"

describe("an option changes what comes out:", function()
  for _, case in ipairs(battery.cases(require "spec.options.study_options")) do it(case[1], case[2]) end
end)
