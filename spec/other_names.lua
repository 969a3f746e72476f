--- What Stan's, NumPyro's and PyTorch's names are called here: from their public lists (spec/other_names) and the
--- places where they are not the same word. A name that is nowhere is not there.
---
---     lua5.4 spec/other_names.lua > examples/manual/other_names.md
local pn = require "penumbra"

local other_names = {}

-- Lists in their order: the file, its title, and where a name may stand under its own word.
local LISTS = {
  { file = "stan", title = "Stan: distributions", homes = { "pn.dist" } },
  { file = "numpyro", title = "NumPyro: distributions", homes = { "pn.dist" } },
  { file = "torch_distributions", title = "PyTorch: distributions", homes = { "pn.dist" } },
  { file = "torch_modules", title = "PyTorch: layers and losses", homes = { "pn.nn", "pn" } },
  { file = "torch_optimisers", title = "PyTorch: optimisers and schedules", homes = { "pn.optim" } },
}
local FOLDER = "spec/other_names/"

local function lines(path)
  local list, head = {}, nil
  for line in io.lines(path) do
    if line:sub(1, 1) == "#" then
      head = head or line:gsub("^# *", "")
    elseif line ~= "" then
      list[#list + 1] = line
    end
  end
  return list, head
end

--- Of "pn.dist.normal(0, 1)" the function or table pn.dist.normal, or nil.
function other_names.find(place)
  local value
  for word in place:match("pn[%.%w_]*"):gmatch "[%w_]+" do
    if word == "pn" then
      value = pn
    else
      local ok, part = pcall(function() return value[word] end)
      value = ok and part or nil
    end
    if value == nil then
      return nil
    end
  end
  return value
end

-- MultivariateNormal -> multivariate_normal; GELU -> gelu
local function snake(name)
  return (name:gsub("(%l)(%u)", "%1_%2"):gsub("(%u)(%u%l)", "%1_%2"):lower())
end

local function under_own_word(name, homes)
  for _, home in ipairs(homes) do
    local place = home .. "." .. snake(name)
    if other_names.find(place) ~= nil then
      return place
    end
  end
end

--- The lists with a row {name, place} for each name; place is nil for what is not there.
function other_names.lists()
  local places, lists = {}, {}
  for _, line in ipairs((lines(FOLDER .. "places.txt"))) do
    local list, name, place = line:match "^(%S+) (%S+) = (.+)$"
    places[list .. " " .. name] = assert(place, line)
  end
  for k, about in ipairs(LISTS) do
    local names, head = lines(FOLDER .. about.file .. ".txt")
    local rows, there = {}, 0
    for i, name in ipairs(names) do
      local key = about.file .. " " .. name
      local place = places[key] or under_own_word(name, about.homes)
      rows[i] = { name = name, place = place, by_hand = places[key] ~= nil }
      there = there + (place and 1 or 0)
      places[key] = nil
    end
    lists[k] = { title = about.title, head = head, rows = rows, there = there }
  end
  return lists, next(places)
end

--- The page as Markdown.
function other_names.page()
  local lists = other_names.lists()
  local out = { "# Names of other libraries", "",
    "What Stan's, NumPyro's and PyTorch's names are called here. Made by `lua5.4 spec/other_names.lua` from their",
    "public lists; do not edit. A recipe is a call of what is there; what is not there has no entry.", "",
    "| list | names | there | not there |", "|---|---|---|---|" }
  for _, list in ipairs(lists) do
    out[#out + 1] = ("| %s | %d | %d | %d |"):format(list.title, #list.rows, list.there, #list.rows - list.there)
  end
  for _, list in ipairs(lists) do
    local absent = {}
    table.move({ "", "## " .. list.title, "", list.head, "", "| name | here |", "|---|---|" }, 1, 7, #out + 1, out)
    for _, row in ipairs(list.rows) do
      if row.place then
        out[#out + 1] = ("| `%s` | `%s` |"):format(row.name, row.place)
      else
        absent[#absent + 1] = "`" .. row.name .. "`"
      end
    end
    out[#out + 1] = ""
    out[#out + 1] = "Not there: " .. (#absent > 0 and table.concat(absent, ", ") or "nothing") .. "."
  end
  return table.concat(out, "\n") .. "\n"
end

if arg and arg[0] and arg[0]:find "other_names%.lua$" then
  io.write(other_names.page())
end

return other_names
