--- Fuzzer of files: one good file of each kind that can be saved, damaged in every way that keeps it readable and in
--- many that do not (bytes; numbers, shapes, dtypes and names of tensors; metadata), then loaded, and what was loaded
--- used. An error must be one of ours (nil, message, code, or raised at the script's line), and must leave what is
--- alive as it was; nothing may crash.
---     lua spec/fuzz/file.lua --seconds 60 [--seed 1]     child processes, one seed each, until the time is over
---     lua spec/fuzz/file.lua --child 17 [--calls 400]    one of them, again; --kind checkpoint: files of one kind
--- Run it with an interpreter that sanitisers are built into ($(BUILD)/lua-interpreter).

local options = dofile(arg[0]:gsub("[^/]*$", "") .. "children.lua") "file"

local function read_all(path)
  local file = io.open(path, "rb")
  local text = file and file:read "a" or ""
  if file then file:close() end
  return text
end

local function write_all(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

-- ---- a child -----------------------------------------------------------------------------------------------------

local core = require "penumbra.core"
local pn = require "penumbra"
local random = math.random
math.randomseed(options.child)
pn.threads(1)

local function one(list) return list[random(#list)] end
local function chance(p) return random() < p end

local kinds = assert(loadfile(arg[0]:gsub("[^/]*$", "") .. "file_kinds.lua"))(write_all, "again")

-- ---- damage --------------------------------------------------------------------------------------------------------

local numbers = { 0 / 0, 1 / 0, -1 / 0, -1, 0, -0.0, 1, 2, 0.5, 1e300, -1e300, 5e-324, 1e38, -3.5, 2 ^ 53, 2 ^ 31, 1e9 }
local wholes = { -1, 0, 1, 2, 3, 17, 1 << 31, 1 << 40, 1 << 53, math.maxinteger, math.mininteger, -7 }
local dtypes = { "float64", "float32", "int64", "bool" }
local tokens = { "-1", "0", "1", "3", "2.5", "-0.0", "inf", "-inf", "nan 7ff8000000000000", "1e+300",
  "9223372036854775807", "-9223372036854775808", "true", "false", '"text"', '""', "{}", '{[1] = {}}', '{["a"] = 1}',
  'tensor "none"', "", "}", "{",
  ("{[1] = "):rep(1200) .. "1" .. ("}"):rep(1200) }

-- A tensor like t with something wrong.
local tensor_damages = {
  function(t) -- a number
    local n = t:numel()
    if n == 0 then return t end
    local list, dtype = t:reshape { n }:totable(), t:dtype()
    local value = dtype == "bool" and chance(0.5) or dtype == "int64" and one(wholes) or one(numbers)
    if dtype == "bool" then value = value and true or false end
    if chance(0.3) then
      for k = 1, n do list[k] = value end
    else
      list[random(n)] = value
    end
    return pn.tensor(list, { dtype = dtype }):reshape(t:shape())
  end,
  function(t) -- another shape of as many numbers
    local shapes = { { -1 }, { t:numel(), 1 }, { 1, t:numel() } }
    return t:numel() > 0 and t:reshape(one(shapes)) or t
  end,
  function(t) return t:ndim() > 0 and t:size(1) > 0 and t:slice(1, 1, t:size(1) - 1) or pn.zeros { 0 } end,
  function(t) return t:ndim() > 0 and pn.concatenate({ t, t }, 1) or t:reshape { 1 } end,
  function(t) return t:unsqueeze(1) end,
  function(t) return t:ndim() > 1 and t:transpose(1, 2) or t:reshape { t:numel() } end,
  function(t) return t:to(one(dtypes)) end,
  function(t) return pn.zeros({ 0 }, { dtype = t:dtype() }) end,
  function(t) return t:numel() > 0 and t:reshape { -1 }[1] or t end,
}

-- One token of a text: a number, a word, a string, something in braces.
local function damaged_text(text)
  local how = random(6)
  if how <= 3 then
    local places = {}
    for from, to in text:gmatch "= ()[^{}%[%],]+()" do places[#places + 1] = { from, to } end
    for from, to in text:gmatch "()%f[%w]%-?[%d.]+()" do places[#places + 1] = { from, to } end
    local at = one(places)
    return at and text:sub(1, at[1] - 1) .. one(tokens) .. text:sub(at[2]) or text
  elseif how == 4 then -- a name
    local places = {}
    for from, name, to in text:gmatch '()"([^"]*)"()' do places[#places + 1] = { from, to, name } end
    local at = one(places)
    local other = at and one { at[3] .. "x", "", at[3]:sub(2), "1", one(places)[3] }
    return at and text:sub(1, at[1] - 1) .. '"' .. other .. '"' .. text:sub(at[2]) or text
  elseif how == 5 then -- a part is gone, or there twice
    local a, b = random(#text), random(#text)
    if a > b then a, b = b, a end
    return chance(0.5) and text:sub(1, a) .. text:sub(b) or text:sub(1, b) .. text:sub(a)
  end
  local words = {}
  for from, to in text:gmatch "()%a[%w_]+()" do words[#words + 1] = { from, to } end
  local at = one(words)
  return at and text:sub(1, at[1] - 1) .. one { "normal", "gamma", "adam", "x", "exp", "natural", "transformed",
    "mixture", "full", "diagonal", "function", "residual", "sites" } .. text:sub(at[2]) or text
end

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

-- What a good file holds, written again with something wrong.
local function damage_contents(good, path)
  local flat, _, texts = core.files.load_safetensors(good)
  local names, said = sorted_keys(flat), {}
  for _ = 1, chance(0.7) and 1 or random(3) do
    local name, how = one(names), random(10)
    if name == nil or how >= 7 then
      local key = one(sorted_keys(texts))
      if key then
        texts[key] = chance(0.05) and one { "", "x", "{}" } or damaged_text(texts[key])
        said[#said + 1] = "text " .. key
      end
    elseif flat[name] and how <= 4 then
      local k = random(#tensor_damages)
      if chance(0.5) then k = 1 end
      flat[name] = tensor_damages[k](flat[name])
      said[#said + 1] = ("%s %d"):format(name, k)
    elseif how == 5 then
      flat[name .. one { "x", ".1", ".weight" }] = flat[name]
      if chance(0.7) then flat[name] = nil end
      said[#said + 1] = "renamed " .. name
    else
      local other = one(names)
      flat[name], flat[other] = flat[other], flat[name]
      if chance(0.3) then flat[name] = nil end
      said[#said + 1] = ("%s and %s"):format(name, other)
    end
  end
  local list, keys, values = {}, sorted_keys(texts), {}
  names = sorted_keys(flat)
  for k, name in ipairs(names) do list[k] = flat[name]:contiguous() end
  for k, key in ipairs(keys) do values[k] = texts[key]:gsub("%z", "") end
  if not core.files.save_safetensors(path, names, list, keys, values) then write_all(path, read_all(good)) end
  return table.concat(said, ", ")
end

-- Bytes of a good file changed; of a header more often than of what follows.
local function damage_bytes(good, path)
  local text, how = read_all(good), random(6)
  local n = chance(0.6) and math.min(#text, 600) or #text
  local at = random(n)
  if how <= 2 then
    for _ = 1, random(3) do
      at = random(n)
      text = text:sub(1, at - 1) .. string.char(random(0, 255)) .. text:sub(at + 1)
    end
  elseif how == 3 then
    text = text:sub(1, random(0, #text))
  elseif how == 4 then
    text = text:sub(1, at) .. text:sub(at + random(16))
  elseif how == 5 then
    text = text:sub(1, at) .. text:sub(at, at + random(32)) .. text:sub(at)
  else
    local from, to = text:match("()%d+()", at)
    if from then text = text:sub(1, from - 1) .. one(wholes) .. text:sub(to) end
  end
  write_all(path, text)
  return ("bytes %d at %d"):format(how, at)
end

-- ---- loading and using ---------------------------------------------------------------------------------------------

local codes = {}
for code in ([[memory shape dtype domain nan singular degenerate missing stale state io format cancelled
  limit]]):gmatch "%a+" do
  codes[code] = true
end

local raw = { "attempt to ", "bad argument #", "stack overflow", "lua/penumbra/", "'for' ", "invalid option",
  "invalid order", "number has no integer", "table index is", "wrong number of arguments", "too many results" }

-- Why a message is none of ours; nil if it is.
local function wrong_message(message)
  if type(message) ~= "string" then return "it is a " .. type(message) end
  if message == "too long" or message:find "not enough memory" then return end
  for _, pattern in ipairs(raw) do
    if message:find(pattern, 1, true) then return "it has '" .. pattern .. "'" end
  end
end

local function complain(what, message)
  io.stderr:write(("file: %s: %s\n"):format(what, tostring(message)))
  os.exit(1)
end

-- f(...) with an end; ok, results. What Lua loops over for too long is no fault.
local function limited(f, ...)
  local over = os.clock() + 2
  debug.sethook(function()
    if os.clock() > over then error("too long", 0) end
  end, "", 100000)
  local results = table.pack(xpcall(f, function(message)
    if wrong_message(message) then io.stderr:write(debug.traceback(tostring(message)), "\n") end
    return message
  end, ...))
  debug.sethook()
  return table.unpack(results, 1, results.n)
end

local function judge(ok, message, what)
  local wrong = not ok and wrong_message(message)
  if wrong then complain(what .. ": " .. wrong, message) end
end

local names = options.kind and { options.kind } or sorted_keys(kinds)
pn.seed(options.child)
for _, name in ipairs(names) do kinds[name].make("good." .. name) end

local loaded_count = 0
local log = assert(io.open("log", "w"))
log:setvbuf "line"
for round = 1, options.calls do
  local name = one(names)
  local kind = kinds[name]
  local how = (kind.raw or chance(0.25)) and damage_bytes or damage_contents
  pn.memory_limit(0)
  local said = how("good." .. name, "bad")
  log:write(("round %d, %s: %s"):format(round, name, said:gsub("\n", " ")), "\n")
  pn.memory_limit(64 << 20)
  local what = ("round %d, %s, damaged in %s"):format(round, name, said)
  local before = kind.alive and kind.alive()
  local ok, loaded, message, code = limited(kind.load, "bad")
  judge(ok, loaded, what)
  if ok and not loaded then
    judge(false, message, what)
    if not codes[code] then complain(what .. ": the code", code) end
  end
  loaded_count = loaded_count + (ok and loaded and 1 or 0)
  if not (ok and loaded) then
    if before and kind.alive() ~= before then complain(what, "what was alive has changed by a load that failed") end
  elseif kind.use then
    ok, message = limited(kind.use, loaded)
    judge(ok, message, what)
    if kind.alive then pn.memory_limit(0) assert(kind.load("good." .. name)) end
  end
end
os.remove "bad"
print(("%d files, %d loaded"):format(options.calls, loaded_count))
