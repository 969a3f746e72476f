--- The manual, where it is to be had as files: its sections by what they treat, and their programs. In a checkout it is
--- examples/manual, where Penumbra is installed PREFIX/share/doc/penumbra/examples/manual; no other place is looked at.
-- help: nowhere
local chapters = {}

-- Pages that treat no subject of their own.
local OTHER = { ["README.md"] = true, ["building.md"] = true, ["design.md"] = true, ["other_names.md"] = true,
  ["performance.md"] = true }

local function readable(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

local function read(path)
  local file = io.open(path)
  local text = file and file:read "a"
  if file then file:close() end
  return text
end

-- Folders that may have the manual below them: of the module's file, of the program, of the paths of modules.
local function bases()
  local list = {}
  local function put(folder, more) list[#list + 1] = folder and folder .. more end
  local source = debug and debug.getinfo(1, "S").source:match "^@(.*)lua/penumbra/shell/chapters%.lua$"
  put(source, "")
  local given, first = rawget(_G, "arg"), 0
  given = type(given) == "table" and given or {}
  while type(given[first - 1]) == "string" do first = first - 1 end
  local program = type(given[first]) == "string" and given[first] or ""
  local folder = program:match "^(.*/)[^/]*$"
  put(folder, "../") -- build/penumbra
  put(folder, "../share/doc/penumbra/")
  for place in (folder and "" or os and os.getenv and os.getenv "PATH" or ""):gmatch "[^:]+" do
    if readable(place .. "/" .. program) then put(place, "/../share/doc/penumbra/") end
  end
  for place in (package and package.path or ""):gmatch "([^;]*/)lua/5%.4/%?%.lua" do put(place, "doc/penumbra/") end
  return list
end

local folder -- of the manual, with its slash; false: there is none

local function found()
  if folder == nil then
    folder = false
    for _, base in ipairs(io and io.open and bases() or {}) do
      if readable(base .. "examples/manual/README.md") then
        folder = base .. "examples/manual/"
        break
      end
    end
  end
  return folder
end

-- The pages that the manual's own first page leads to, in its order.
local function pages(place)
  local list, seen = {}, {}
  for name in (read(place .. "README.md") or ""):gmatch "%(([%w_]+%.md)[#%)]" do
    if not seen[name] and not OTHER[name] then list[#list + 1] = name end
    seen[name] = true
  end
  return list
end

local function add_sections(list, path, text)
  local section, fenced, program = nil, false, nil
  for line in (text .. "\n"):gmatch "(.-)\r?\n" do
    local title = not fenced and line:match "^#+%s+(.-)%s*$"
    if title then
      local chapter = section and section.chapter or title
      section = { path = path, chapter = chapter, title = title, lines = {}, programs = {} }
      list[#list + 1] = section
    elseif section then
      if line:find "^```" then
        if program then section.programs[#section.programs + 1] = table.concat(program, "\n") end
        fenced, program = not fenced, line:find "^```lua%s*$" and not fenced and {} or nil
      elseif program then
        program[#program + 1] = line
      end
      section.lines[#section.lines + 1] = line
    end
  end
end

local sections

--- list(): the sections of the manual: {path, chapter, title, text, programs = {text}}; none where it is not to be had.
function chapters.list()
  if not sections then
    sections = {}
    local place = found()
    for _, name in ipairs(place and pages(place) or {}) do
      add_sections(sections, place .. name, read(place .. name) or "")
    end
    for _, s in ipairs(sections) do s.text = table.concat(s.lines, "\n") end
  end
  return sections
end

-- How often a text speaks of each name and part of a name, of "pn.nn.dropout" also of "nn.dropout"; and the calls at
-- the heads of rows of tables.
local function spoken_of(text)
  local count, row = {}, {}
  for token in text:gmatch "[%a_][%w_.]*" do
    local parts = {}
    for part in token:gmatch "[%w_]+" do parts[#parts + 1] = part end
    local most = math.min(#parts, 4)
    for first = 1, most do
      for last = first, most do
        local name = table.concat(parts, ".", first, last)
        count[name] = (count[name] or 0) + 1
      end
    end
  end
  for name in ("\n" .. text):gmatch "\n| `([%w_]+)%(" do row[name] = true end
  return { count = count, row = row }
end

local function mentions(said, qualified)
  return (said.count[qualified:gsub("^pn%.", "")] or 0) + (said.row[qualified:match "[%w_]+$"] and 20 or 0)
end

--- about(qualified): the section that treats what has the name, or nil.
function chapters.about(qualified)
  local best, most = nil, 0
  if not qualified:find "%.%w" then return nil end
  for _, s in ipairs(chapters.list()) do
    s.spoken = s.spoken or spoken_of(s.text)
    local n = mentions(s.spoken, qualified)
    if n > 0 and s.title:lower():find(qualified:match "([%w_]+)$":gsub("_", " "), 1, true) then n = n + 5 end
    if n > most then best, most = s, n end
  end
  return best
end

--- program(qualified): the shortest program of the manual that uses what has the name, and its section; or nil.
function chapters.program(qualified)
  local best, home
  for _, s in ipairs(chapters.list()) do
    for _, text in ipairs(s.programs) do
      if mentions(spoken_of(text), qualified) > 0 and (not best or #text < #best) then best, home = text, s end
    end
  end
  return best, home
end

--- where(section): how a person finds it.
function chapters.where(section)
  local title = section.title == section.chapter and section.title or section.chapter .. ", " .. section.title
  return ("%s (%s)"):format(title, section.path)
end

return chapters
