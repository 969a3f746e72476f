--- Sizes of packages and how long each target took when `make packages` last ran (spec/packages/run.lua keeps them):
--- what was skipped there or failed has no row. Where it never ran, that is said.
return function(bench)
  local file = io.open(bench.build .. "/packages.txt")
  if not file then
    io.stderr:write "packages: skipped, `make packages` has not run here\n"
    return
  end
  for line in file:lines() do
    local target, what, value, unit = line:match "^([^\t]+)\t([^\t]+)\t([^\t]+)\t([^\t]+)$"
    if target then bench.row(("make packages, %s: %s"):format(target, what), tonumber(value), unit) end
  end
  file:close()
end
