--- What options of functions that compute do: spec/options/option_battery.lua on spec/options/computing_options.lua.
local battery = require "spec.options.option_battery"

describe("an option changes what comes out:", function()
  for _, case in ipairs(battery.cases(require "spec.options.computing_options")) do it(case[1], case[2]) end
end)
