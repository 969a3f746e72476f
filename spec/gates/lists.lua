--- Lists against files: every row X(name) of a .def list has its descriptor, every descriptor its row, and
--- every visible row its golden values (a file of its name, or its name in a file, below spec/golden).
local tool = require "spec.gates.tool"

--- prefix of the descriptors a list declares: from `#define X(name) extern const T prefix##name;`.
local function prefix_of(root, list)
  for _, path in ipairs(tool.files(root, list:match "^(.*)/", "*.h")) do
    local own = path:match "^(.*)/" == list:match "^(.*)/" -- folders below have lists of their own
    local text = own and tool.read(root .. "/" .. path) or ""
    local declaration = '#define X%(name%)%s+extern const [%w_]+ ([%w_]+_)##name;[^;]-#include "'
    local prefix = text:match(declaration .. list:match "[^/]+$")
    if prefix then return prefix end
  end
end

--- Names of the constants of one layer whose symbols begin with prefix.
local function descriptors(symbols, folder, prefix)
  local names = {}
  for _, symbol in ipairs(symbols) do
    if symbol.object:find("^" .. folder .. "/") then
      local name = symbol.name:match("^" .. prefix .. "([%w_]+)$")
      if name and symbol.kind:find "O" and symbol.section ~= "*UND*" then names[name] = symbol.object end
    end
  end
  return names
end

-- rows that are checked by what uses them
local NO_VALUES = {["src/distribution/constraint.def"] = true}

local function golden_words(root)
  local words = {}
  for _, path in ipairs(tool.files(root, "spec/golden", "*")) do
    words[path:match("([^/]+)%.%w+$") or path] = true
    if not path:find "%.gz$" then
      for word in (tool.read(root .. "/" .. path) or ""):gmatch "[%a_][%w_]*" do words[word] = true end
    end
  end
  return words
end

return function(root, build)
  local found, golden = {}, golden_words(root)
  local symbols = tool.symbols(build)
  for _, list in ipairs(tool.files(root, "src", "*.def")) do
    local prefix, folder = prefix_of(root, list), list:match "^src/([^/]*)/" -- anywhere in the layer
    local rows = {}
    if prefix then
      for _, name in ipairs(tool.entries(tool.read(root .. "/" .. list))) do
        if rows[name] then found[#found + 1] = list .. ": " .. name .. " stands there twice" end
        rows[name] = true
      end
      local made = descriptors(symbols, folder, prefix)
      for name in pairs(rows) do
        if not made[name] then found[#found + 1] = list .. ": " .. name .. " has no descriptor " .. prefix .. name end
        if not golden[name] and not NO_VALUES[list] then
          found[#found + 1] = list .. ": " .. name .. " has no values below spec/golden"
        end
      end
      for name, object in pairs(made) do
        if not rows[name] then found[#found + 1] = object .. ": " .. prefix .. name .. " has no row in " .. list end
      end
    end
  end
  table.sort(found)
  return found
end
