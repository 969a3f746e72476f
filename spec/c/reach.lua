--- What a script in a sandbox reaches: reach_test.c runs this, with `gate` (what a script cannot ask), `objects` (the
--- text of spec/fuzz/objects.lua) and `known` (that of spec/gates/inner_reachable.txt). Leaves the numbers `wrong`, how
--- much was found that is neither public nor listed (or is listed in vain), `seen` and `planted`.
local gate, objects, known = _G.gate, _G.objects, _G.known
_G.gate, _G.objects, _G.known = nil, nil, nil
local pn = require "penumbra"

-- ---- the walk: what fields, keys and metatables lead to ----

local ALIKE = 4 -- userdata of one kind that are looked at
local paths, order = {}, {} -- value -> the first path to it; functions and userdata in the order in which they came
local alike, names, queue = {}, {}, {}

local function reach(v, path)
  local kind = type(v)
  if kind ~= "table" and kind ~= "function" and kind ~= "userdata" or paths[v] then return end
  if kind == "userdata" then
    local meta = getmetatable(v)
    alike[meta] = (alike[meta] or 0) + 1
    if alike[meta] > ALIKE then return end
  end
  paths[v] = path
  queue[#queue + 1] = v
  if kind ~= "table" then order[#order + 1] = v end
end

local function member_of(object, name)
  local ok, member = pcall(function() return object[name] end)
  return ok and member or nil
end

local function look(v)
  local path, meta = paths[v], getmetatable(v)
  if type(meta) == "table" then reach(meta, path .. "<metatable>") end
  if type(v) == "table" then
    for _, name in ipairs(type(meta) == "table" and meta.lazy or {}) do reach(v[name], path .. "." .. name) end
    for k, member in next, v do
      if type(k) == "string" then names[k] = true end
      reach(k, path .. "<key>")
      reach(member, path .. (type(k) == "string" and "." .. k or "[]"))
    end
  elseif type(v) == "userdata" then
    gate.add_methods(v, names)
    for name in next, names do reach(member_of(v, name), path .. "." .. name) end
  end
end

local function follow()
  while #queue > 0 do look(table.remove(queue)) end
end

-- ---- and what functions give ----

local function functions_of(object)
  local list, seen = {}, {}
  local function add(name)
    local f = not seen[name] and member_of(object, name)
    seen[name] = true
    if type(f) == "function" then list[#list + 1] = { tostring(name), f } end
  end
  local meta = getmetatable(object)
  local index = type(meta) == "table" and rawget(meta, "__index")
  for name in next, type(object) == "table" and object or {} do add(name) end
  for name in next, type(index) == "table" and index or {} do add(name) end
  for name in next, type(object) == "userdata" and names or {} do add(name) end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

-- Calls each without arguments, as a method and as a function; `depth` more calls of what comes.
local function call_all(object, path, depth)
  local got = {}
  for _, f in ipairs(functions_of(object)) do
    for _, self in ipairs(f[1] == "close" and {} or { { object, n = 1 }, { n = 0 } }) do
      local result = table.pack(pcall(f[2], table.unpack(self, 1, self.n)))
      for i = 2, result[1] and result.n or 1 do
        local v = result[i]
        if v ~= nil and not paths[v] then got[#got + 1] = { v, ("%s:%s()"):format(path, f[1]) } end
        reach(v, ("%s:%s()"):format(path, f[1]))
      end
    end
  end
  for _, g in ipairs(depth > 0 and got or {}) do
    if paths[g[1]] and type(g[1]) ~= "function" then call_all(g[1], g[2], depth - 1) end
  end
end

local held = {} -- what callbacks were given, but for tensors, which compiled functions refuse to leave somewhere

local function hold(...)
  for _, v in ipairs(table.pack(...)) do
    local kind = type(v)
    if kind == "function" or kind == "table" or kind == "userdata" and getmetatable(v) ~= "penumbra.tensor" then
      held[#held + 1] = v
    end
  end
  return ...
end

reach(_G, "_G")
for _, name in ipairs(gate.public) do reach(require(name), name) end
follow()
local made, sorted = load(objects, "=objects", "t")(pn, hold), {}
for name in pairs(made) do sorted[#sorted + 1] = name end
table.sort(sorted)
for _, name in ipairs(sorted) do
  local object = made[name]()
  reach(object, name)
  follow()
  call_all(object, name, 1)
  for _, v in ipairs(held) do reach(v, name .. "<callback>") end
  held = {}
  follow()
end

-- ---- judging ----

local public, inner, documented, listed, used = {}, {}, {}, {}, {}

local function each_function(t, path, visit, done)
  if done[t] then return end
  done[t] = true
  for k, v in next, t do
    if type(v) == "function" then visit(v, path .. "." .. tostring(k)) end
    if type(v) == "table" then each_function(v, path .. "." .. tostring(k), visit, done) end
  end
end
each_function(pn, "pn", function(f) public[f] = true end, {})
local core = gate.inner "penumbra.core"
local methods = {} -- tables of methods, which are public
for k, v in next, core do
  if type(v) == "table" and tostring(k):find "methods$" then methods[v] = true end
end
each_function(core, "core", function(f, path) inner[f] = not public[f] and path or nil end, methods)
for _, e in ipairs(gate.inner "penumbra.shell.help".entries()) do documented[e.name] = true end
for line in known:gmatch "[^\n]+" do
  local what, why = line:match "^(%w+ [%w_.]+) +(%S.*)$"
  if what and why then listed[what] = why elseif line:sub(1, 1) ~= "#" then error("no reason given: " .. line) end
end

-- What v, found at a path, is called in the list; nil if help tells of it or it is Lua's.
local function label_of(v, path)
  if type(v) == "userdata" then return "userdata " .. tostring(getmetatable(v)) end
  if not gate.in_c(v) then return nil end
  local name = path:match "([%w_]+)$" or path:match "([%w_]+)%(%)$" or path
  if inner[v] then return "function " .. inner[v] end
  if not documented[name] and not path:find "^_G" then return "function " .. name end
end

-- How many of those from `first` on are neither public nor listed, each told to `say`.
local function judge(first, say)
  local wrong = 0
  for i = first, #order do
    local path = paths[order[i]]
    local label = label_of(order[i], path)
    if label then used[label] = true end
    if label and not listed[label] then
      wrong = wrong + 1
      say(label, "is reached: " .. path)
    end
  end
  return wrong
end

local seen = #order
local wrong = judge(1, print)
for what in pairs(listed) do
  if not used[what] then
    print("inner_reachable.txt: " .. what .. " is not reached")
    wrong = wrong + 1
  end
end

-- What is planted is seen: the machine in C behind a filter, and a function of the core that a method gives.
local filter = pn.smc { num_particles = 4 }
filter.core = gate.inner "penumbra.smc.machine".core_of(filter)
reach(filter, "planted")
reach(setmetatable({}, { __index = { initialise = core.initialise } }), "planted")
follow()
local planted = 0
judge(seen + 1, function(label)
  if label == "userdata penumbra.smc" or label == "function core.initialise" then planted = planted + 1 end
end)
_G.seen, _G.wrong, _G.planted = seen, wrong, planted
