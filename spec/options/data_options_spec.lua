--- What options of files, checkpoints, jobs, pictures on the terminal and questions to a person do:
--- spec/options/option_battery.lua on spec/options/data_options.lua.
local battery = require "spec.options.option_battery"

describe("an option changes what comes out:", function()
  for _, case in ipairs(battery.cases(require "spec.options.data_options")) do it(case[1], case[2]) end
end)
