-- Part 2 of 4 of the distributions against the battery.
for _, row in ipairs(require "spec.distribution.rows"(2, 4)) do
  describe(row.name, function()
    for _, case in ipairs(row.cases) do
      it(case[1], case[2])
    end
  end)
end
