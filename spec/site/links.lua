--- What is wrong with the pages of a folder: links and pictures that lead nowhere, anchors that no page has, ids that
--- stand twice, names of the library that the index lacks. function(folder, names) -> complaints, count of links.
local tool = require "spec.gates.tool"

local function decode(text) return (text:gsub("%%(%x%x)", function(x) return string.char(tonumber(x, 16)) end)) end

-- A path without steps back and forth.
local function straight(path)
  local parts = {}
  for part in path:gmatch "[^/]+" do
    if part == ".." then parts[#parts] = nil elseif part ~= "." then parts[#parts + 1] = part end
  end
  return table.concat(parts, "/")
end

return function(folder, names)
  local found, pages, ids, count = {}, {}, {}, 0
  for _, path in ipairs(tool.files(folder, ".", "*.html")) do
    path = path:gsub("^%./", "")
    local html = assert(tool.read(folder .. "/" .. path))
    pages[path], ids[path] = html, {}
    for id in html:gmatch '%sid="([^"]*)"' do
      if id:find "%s" then found[#found + 1] = ("%s: the id %s has a blank"):format(path, id) end
      if ids[path][id] then found[#found + 1] = ("%s: the id %s stands twice"):format(path, id) end
      ids[path][id] = true
    end
  end
  local files = {}
  for _, path in ipairs(tool.files(folder, ".", "*")) do files[path:gsub("^%./", "")] = true end
  for path, html in pairs(pages) do
    for attribute, target in html:gmatch '%s(%l+)="([^"]*)"' do
      if (attribute == "href" or attribute == "src") and not target:find "^%a+:" then
        local place, anchor = decode(target):match "^([^#]*)#?(.*)$"
        local file = place == "" and path or straight((path:match "^(.*/)[^/]*$" or "") .. place)
        count = count + 1
        if not files[file] then
          found[#found + 1] = ("%s: %s is not there"):format(path, target)
        elseif anchor ~= "" and not (ids[file] or {})[anchor] then
          found[#found + 1] = ("%s: no page has the anchor %s"):format(path, target)
        end
      end
    end
  end
  local index = pages["reference/names.html"] or ""
  for _, name in ipairs(names) do
    if not index:find(">" .. name .. "<", 1, true) then found[#found + 1] = "the index has no name " .. name end
  end
  table.sort(found)
  return found, count
end
