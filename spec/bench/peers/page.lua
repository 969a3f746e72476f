--- The table of a page, in Markdown: a line a row of `make bench-peers`, a column a processor level; in each by how
--- many times the best peer takes as long as ours, who that is, and ours by the limit.
local page = {}

local titles, levels, cells = {}, {}, {}

--- add(title, level, ratio, who, by_limit): what one row has at one level, numbers or nil.
function page.add(title, level, ratio, who, by_limit)
  if not cells[title] then
    cells[title] = {}
    titles[#titles + 1] = title
  end
  if levels[#levels] ~= level then levels[#levels + 1] = level end
  local told = {ratio and ("%.2f %s"):format(ratio, who), by_limit and ("%.3g"):format(by_limit)}
  cells[title][level] = table.concat({told[1] or "-", told[2]}, ", ")
end

--- write(path): the lines of all rows so far.
function page.write(path)
  local heads, rules, lines = {}, {}, {}
  for k, level in ipairs(levels) do heads[k], rules[k] = level .. ": peer, limit", "---" end
  lines[1] = ("| row | %s |"):format(table.concat(heads, " | "))
  lines[2] = ("|---|%s|"):format(table.concat(rules, "|"))
  for _, title in ipairs(titles) do
    local row = {}
    for k, level in ipairs(levels) do row[k] = cells[title][level] or "-" end
    lines[#lines + 1] = ("| %s | %s |"):format(title, table.concat(row, " | "))
  end
  local file = assert(io.open(path, "w"))
  file:write(table.concat(lines, "\n"), "\n")
  file:close()
end

return page
