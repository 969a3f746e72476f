--- What options of what is made of functions, of likelihoods and of methods do: spec/options/option_battery.lua on
--- spec/options/own_options.lua.
local battery = require "spec.options.option_battery"

describe("an option changes what comes out:", function()
  for _, case in ipairs(battery.cases(require "spec.options.own_options")) do it(case[1], case[2]) end
end)
