--- Deals the distributions to several specs that run side by side.
local pn = require "penumbra"
local battery = require "spec.distribution.battery"
local sets = require "spec.golden.distribution.constraint"

local behaviours = {}
for name in pairs(battery) do
  behaviours[#behaviours + 1] = name
end
table.sort(behaviours)

--- Every `parts`-th distribution, from the `part`-th on: a list of {name =, cases = list of {behaviour, function}}.
return function(part, parts)
  local list, count = {}, 0
  for _, row in ipairs(pn.rows()) do
    if row.kind == "distribution" then
      count = count + 1
      if count % parts == part % parts then
        local golden, cases = require("spec.golden.distribution." .. row.name), {}
        for k, name in ipairs(behaviours) do
          cases[k] = { (name:gsub("_", " ")), function()
            battery[name](row, golden, sets)
          end }
        end
        list[#list + 1] = { name = row.name, cases = cases }
      end
    end
  end
  return list
end
