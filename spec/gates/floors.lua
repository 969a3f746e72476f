--- lua/ is a house with floors: a module requires modules of its own floor or below, each where the file is loaded and
--- not inside a function; none needs itself by way of others, and no part requires the face of its folder. Faces (files
--- beside a folder of their name) list what they hold, which face.lua loads on first use: they may also require what
--- stands below them inside a function.
local tool = require "spec.gates.tool"

-- A folder's floor holds for the file of its name too; a name that is not here stands on the ground.
local FLOOR = {
  array = 1, autodiff = 1, metrics = 1, plot = 1,
  distribution = 2,
  nn = 3, optim = 3, data = 3, train = 3, checkpoint = 3,
  infer = 4, smc = 4,
  models = 5, active = 5, continual = 5, evidential = 5, fusion = 5, gap = 5, invariance = 5, pac = 5, vbp = 5,
  init = 6, restore = 6, saved = 3,
  shell = 7,
  notebook = 8,
}

--- The floor of a module, "penumbra.nn.predict" or "penumbra" itself.
local function floor_of(module)
  return FLOOR[module == "penumbra" and "init" or module:match "^penumbra%.([%w_]+)"] or 0
end

--- Lua's words and marks one by one, with their lines: word or mark, text of a string, line. Comments are left out.
local function tokens(text)
  local at, line = 1, 1
  return function()
    while at <= #text do
      local from, eq = at, text:match("^%-%-%[(=*)%[", at)
      local long = eq or text:match("^%[(=*)%[", at)
      local stop, word, held
      if long then
        local _, close = text:find("]" .. long .. "]", at, true)
        stop, held = close or #text, not eq and text:sub(at, close) or nil
        word = held and "string"
      elseif text:find("^%-%-", at) then
        stop = (text:find("\n", at, true) or #text + 1) - 1
      elseif text:find("^[\"']", at) then
        local quote, i = text:sub(at, at), at + 1
        while i <= #text and text:sub(i, i) ~= quote do i = i + (text:sub(i, i) == "\\" and 2 or 1) end
        stop, word, held = i, "string", text:sub(at + 1, i - 1)
      else
        word = text:match("^[%a_][%w_]*", at)
        stop = word and at + #word - 1 or at
        word = word or text:match("^%S", at)
      end
      at = stop + 1
      local here = line
      for _ in text:sub(from, stop):gmatch "\n" do line = line + 1 end
      if word then return word, held, here end
    end
  end
end

local OPENS = {["function"] = true, ["if"] = true, ["do"] = true, ["repeat"] = true}
local CLOSES = {["end"] = true, ["until"] = true}

--- The requires of a Lua text: a list of {name = "a.b" or nil where it is computed, line =, inner = in a function}.
local function requires(text)
  local list, open, functions, before, pending = {}, {}, 0, nil, nil
  for word, held, line in tokens(text) do
    if pending and word ~= "(" then
      list[#list + 1] = {name = word == "string" and held or nil, line = pending, inner = functions > 0}
      pending = nil
    end
    if OPENS[word] then
      open[#open + 1] = word
      functions = functions + (word == "function" and 1 or 0)
    elseif CLOSES[word] then
      functions = functions - (table.remove(open) == "function" and 1 or 0)
    elseif word == "require" and before ~= "." and before ~= ":" then
      pending = line
    end
    before = word
  end
  return list
end

--- The circles in `needs` (module -> sorted list of modules), each named once, by its first member.
local function circles(needs, modules)
  local state, path, found = {}, {}, {}
  local function visit(module)
    state[module], path[#path + 1] = "open", module
    for _, other in ipairs(needs[module] or {}) do
      if state[other] == "open" then
        local from = 1
        while path[from] ~= other do from = from + 1 end
        found[#found + 1] = "a circle: " .. table.concat(path, " -> ", from) .. " -> " .. other
      elseif not state[other] then
        visit(other)
      end
    end
    state[module], path[#path] = "done", nil
  end
  for _, module in ipairs(modules) do if not state[module] then visit(module) end end
  return found
end

return function(root)
  local found, needs, modules, folders = {}, {}, {}, {}
  local paths = tool.files(root, "lua", "*.lua")
  local function module_of(path) return (path:match "^lua/(.*)%.lua$":gsub("/init$", ""):gsub("/", ".")) end
  for _, path in ipairs(paths) do folders[module_of(path):match "^(.*)%." or ""] = true end
  for _, path in ipairs(paths) do
    local module = module_of(path)
    modules[#modules + 1], needs[module] = module, {}
    for _, r in ipairs(requires(tool.read(root .. "/" .. path))) do
      local name = r.name or ""
      local below = folders[module] and (r.name == nil or name:sub(1, #module + 1) == module .. ".")
      local own = below or module == "penumbra.face"
      local where = ("%s:%d: "):format(path, r.line)
      if name ~= "penumbra" and module:sub(1, #name + 1) == name .. "." then
        found[#found + 1] = where .. "requires " .. name .. ", whose part it is"
      end
      if r.inner and not own then
        found[#found + 1] = where .. "requires " .. (r.name or "a computed name") .. " inside a function"
      end
      local rising = floor_of(name) > floor_of(module)
      if rising and not (r.inner and own) then
        found[#found + 1] = where .. "requires " .. name .. " from a floor above"
      elseif not (r.inner and own) and name:find "^penumbra" then
        table.insert(needs[module], name)
      end
    end
  end
  table.sort(found)
  local round = circles(needs, modules)
  return table.move(round, 1, #round, #found + 1, found)
end
