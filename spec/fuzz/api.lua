--- Fuzzer of the Lua API: every public function and method, and what the core offers beneath, called with arguments
--- that fit, nearly fit and do not fit at all: closed objects, numbers beyond all ranges, tables whose metamethods
--- close, grow, collect and raise, finalisers that do the same in the middle of calls, lying lengths, cycles, deep
--- nests. What a call answers does not matter; that the process lives does.
---     lua spec/fuzz/api.lua --seconds 60 [--seed 1]      child processes, one seed each, until the time is over
---     lua spec/fuzz/api.lua --child 17 [--calls 400]     one of them, again
--- A child that dies, or does not end in three minutes, is reported with its seed and its last call. Run it with an
--- interpreter that sanitisers are built into ($(BUILD)/lua-interpreter).

local options = dofile(arg[0]:gsub("[^/]*$", "") .. "children.lua") "api"
local limit = dofile(arg[0]:gsub("[^/]*$", "") .. "limit.lua")

-- ---- a child -----------------------------------------------------------------------------------------------------

local core = require "penumbra.core"
local pn = require "penumbra"
local random, unpack, pack = math.random, table.unpack, table.pack
math.randomseed(options.child)
pn.seed(options.child)
pn.threads(1)
pn.memory_limit(24 << 20)

local log = assert(io.open("log", "w"))
log:setvbuf "line"
-- what a call prints, draws or starts is of no interest
for name, library in pairs { popen = io, read = io, lines = io, execute = os } do
  library[name] = function() return nil, "not here" end
end
_G.print = function() end
io.write = _G.print -- luacheck: ignore

--- Public functions by name: namespaces walked, methods of every kind of object.
--- Left out is what would end the fuzzer's own run or spoil its count: settings of the whole process (threads,
--- memory_limit, seed, strict), the terminal, files below a sandbox (fuzzed by spec/fuzz/*.c), sources and the REPL.
local left_out = { "^core%.threads$", "^pn%.threads$", "memory_limit$", "^core%.set_tostring$", "%.error$", "%.strict",
  "^core%.files$", "mpi%.abort$", "^core%.terminal$", "^core%.source$", "^core%.modules$", "^pn%.seed$", "repl",
  "bench" }
local functions, names = {}, {}

local function is_left_out(name)
  for _, pattern in ipairs(left_out) do
    if name:find(pattern) then return true end
  end
end

local function walk(space, label, depth, seen)
  if seen[space] or depth > 3 then return end
  seen[space] = true
  local own = debug.getmetatable(space)
  for _, name in ipairs(type(own) == "table" and own.lazy or {}) do local _ = space[name] end
  for key, value in pairs(space) do
    local name = ("%s.%s"):format(label, key)
    if type(key) == "string" and not is_left_out(name) then
      if type(value) == "function" then
        functions[name] = value
      elseif type(value) == "table" then
        local meta = debug.getmetatable(value)
        if meta and rawget(meta, "__call") and not functions[name] then functions[name] = value end
        walk(value, name, depth + 1, seen)
      end
    end
  end
end

do
  local seen = {}
  walk(pn, "pn", 1, seen)
  for _, name in ipairs { "pn.smc.kalman.filter", "pn.smc.pmmh", "pn.models.kvae", "pn.continual.learner" } do
    assert(functions[name], name .. " is not walked")
  end
  for _, name in ipairs { "distribution.describe", "distribution.natural", "distribution.pack",
      "shell.example", "shell.reference", "metrics", "distribution.bounds", "distribution.divergence" } do
    local ok, part = pcall(require, "penumbra." .. name)
    if ok and type(part) == "table" then walk(part, name, 2, seen) end
  end
  walk(core, "core", 2, seen)
  for name in pairs(functions) do names[#names + 1] = name end
  table.sort(names)
end

local function one(list) return list[random(#list)] end
local function chance(p) return random() < p end

-- ---- values --------------------------------------------------------------------------------------------------------

local pool = {} -- objects by kind; whatever calls return joins them
local kinds = { "tensor", "distribution", "bijector", "natural", "layer", "optimiser", "compiled", "generator",
  "smc", "filter", "population", "rule", "stream", "table" }
for _, kind in ipairs(kinds) do pool[kind] = {} end

local function kind_of(value)
  if type(value) == "table" then return "table" end
  if type(value) ~= "userdata" then return end
  local meta = debug.getmetatable(value)
  return meta and tostring(rawget(meta, "__metatable")):match "^penumbra%.(.*)$"
end

local function keep(value)
  local kind = kind_of(value)
  local list = kind and pool[kind]
  if list then list[#list < 24 and #list + 1 or random(#list)] = value end
  return value
end

--- The objects that stand in fields of a table, as the machine of a filter does.
local function keep_fields(t)
  local of = 0
  pcall(function()
    for _, x in next, t do
      of = of + 1
      if kind_of(x) then keep(x) end
      if of == 12 then return end
    end
  end)
end

local integers = { -1, 0, 1, 2, 3, 4, 5, 8, 63, 64, 65, 1000, 1 << 31, 1 << 32, 1 << 62, -2, -3, -64, math.mininteger,
  math.maxinteger }
local numbers = { 0.5, -0.5, 0.0, -0.0, 0 / 0, 1 / 0, -1 / 0, 1e300, -1e300, 1e-300, 2.0 ^ 53, 0.999, 1.5, 1e9, 3.0 }
local words = { "", "float32", "float64", "int64", "bool", "sum", "mean", "none", "...", "ij,jk->ik", "ii->i", "x",
  "loc", "scale", "\0", "%s%n", "3", "0x10", "he", "zeros", "sgd", "normal", "chain", "exp", "linear", "full", "scalar",
  "real", "positive", "systematic", ("a"):rep(5000), "relu", "min", "max", "csv", "a.npy", "b.safetensors" }
local keys = { "dtype", "generator", "keepdim", "create_graph", "axes", "axis", "lr", "bias", "loc", "scale", "rate",
  "probs", "logits", "concentration", "observed", "details", "validate", "n", "stride", "padding", "epochs",
  "batch_size", "loss", "parameters", "optimiser", "plans", "network", "weight", "x", "y", "init", "momentum", "names",
  "reduction", "total_count", "df", "covariance", "scale_tril", "log_p", "log_q", "steps", 1, 2, 3 }

local value, hostile

local function list_of(n, make)
  local list = {}
  for i = 1, n do list[i] = make() end
  return list
end

local function small() return chance(0.85) and random(0, 4) or one(integers) end

local function one_of_rows(kind)
  local list = {}
  for _, row in ipairs(pn.rows()) do
    if row.kind == kind then list[#list + 1] = row.name end
  end
  return list
end
local optimisers = one_of_rows "optimiser"

local function new_filter()
  return pn.smc.filter { num_particles = random(6), init = function(n) return pn.randn { n } end,
    step = function(x) return x * 0.9 + pn.randn(x:shape()) end,
    log_weight = function(x, y) return -((x - y) ^ 2) end }
end

local makers = {
  function() return pn.randn(list_of(random(0, 4), function() return random(0, 4) end)) end,
  function() return pn.randn(3, 3) end,
  function() return pn.rand(4):to(one { "float32", "int64", "bool", "float64" }) end,
  function() return pn.randint(-2, 5, random(0, 4)) end,
  function() return pn.param(pn.randn(list_of(random(0, 3), function() return random(1, 4) end))) end,
  function() return pn.eye(3) * 2 end,
  function() return pn.randn(4, 5):t() end,
  function() return pn.randn(6)[{ { 5, 1, -2 } }] end,
  function() return pn.ones(1, 3):broadcast_to { 4, 3 } end,
  function() return pn.param(pn.randn(3)):exp():sum() end,
  function() local x = pn.randn(2) x:close() return x end,
  function() return pn.dist.normal(pn.randn(3), 1) end,
  function() return pn.dist.categorical { logits = pn.randn(2, 3) } end,
  function() return pn.dist.multivariate_normal(pn.zeros(3), pn.eye(3)) end,
  function() return pn.dist.transformed(pn.dist.normal(pn.zeros(3), 1), pn.dist.bijector.exp()) end,
  function() return pn.dist.bijector.affine(pn.zeros(3), 2) end,
  function() return pn.dist.bijector.chain { pn.dist.bijector.exp(), pn.dist.bijector.affine(0, 1) } end,
  function() return pn.dist.natural.full(pn.randn(3), pn.eye(3)) end,
  function() return pn.nn.linear(3, 3) end,
  function() return pn.nn.lstm(3, 2) end,
  function() return pn.nn.bayes_linear(3, 2) end,
  function() return pn.nn.sequential { pn.nn.linear(3, 4), pn.nn.relu(), pn.nn.linear(4, 3) } end,
  function() return pn.optim.adam({ pn.param(pn.randn(3)) }, { lr = 0.1 }) end,
  function() return pn.compile(function(a) return a * 2 end) end,
  function() return pn.compile(one { hostile, function(...) return ... end, pn.exp }) end,
  function() return pn.generator(random(9)) end,
  function()
    return pn.optim[one(optimisers)]({ pn.param(pn.randn(random(3))), pn.param(pn.randn(2, 2)) }, { lr = 0.1 })
  end,
  function()
    return pn.op { forward = function(a) return a * 2 end, vjp = one { function(g) return g * 2 end, hostile } }
  end,
  function() return core.rule.new(one { function(g) return g end, hostile }) end,
  function()
    return pn.smc { num_particles = random(5), batch_shape = one { false, { 2 } } or nil, history = chance(0.5) }
  end,
  function() return new_filter() end,
  function() return new_filter():online() end,
  function()
    local i = pn.eye(2)
    return pn.smc.exact_filter { initial_mean = pn.zeros(2), initial_cov = i, transition = i, transition_cov = i,
      emission = i, emission_cov = i }
  end,
  function()
    local f = pn.compile(function(a) return a:sin():sum() end)
    f(pn.zeros(3))
    return core.new_population(f)
  end,
  function() return core.new_stream(random(9)) end,
  function() local d = pn.dist.normal(0, 1) d:close() return d end,
}

local function object(kind)
  local list = pool[kind or one(kinds)]
  if #list == 0 or chance(0.1) then
    local ok, made = pcall(one(makers))
    if ok then return keep(made) end
  end
  return list[random(math.max(#list, 1))]
end

local current = {} -- arguments of the call that goes on

--- Something a metamethod, a callback or a finaliser may do, to t or to what the call works on.
local function mischief(t)
  local what = random(9)
  if #current > 0 and chance(0.5) then t = one(current) end
  if what == 1 then
    for _, x in ipairs(current) do
      if type(x) == "userdata" then pcall(function() x:close() end) end
      for _, y in next, type(x) == "table" and x or {} do pcall(function() y:close() end) end
    end
  elseif what == 2 then
    collectgarbage()
  elseif what == 3 and type(t) == "table" then
    for i = 1, 200 do rawset(t, i, i) end
  elseif what == 4 and type(t) == "table" then
    rawset(t, random(3), t)
  elseif what == 5 then
    error(chance(0.5) and "mischief" or setmetatable({}, { __tostring = error }))
  elseif what == 6 then
    local list = pool[one(kinds)]
    for i = #list, 1, -1 do list[i] = nil end
  elseif what == 7 and type(t) == "table" then
    for k in next, t do rawset(t, k, nil) end
  elseif what == 8 then
    pcall(one(makers))
  end
end

function hostile(t)
  if chance(0.5) then mischief(t) end
  return value(3)
end

local events = { "__index", "__newindex", "__len", "__pairs", "__call", "__eq", "__lt", "__le", "__add", "__mul",
  "__unm", "__concat", "__tostring", "__close", "__gc", "__name", "__metatable", "__mode", "__idiv" }

local function hostile_meta()
  local meta = {}
  for _ = 1, random(4) do
    local event = one(events)
    if event == "__name" or event == "__metatable" then
      meta[event] = value(4)
    elseif event == "__mode" then
      meta[event] = one { "k", "v", "kv" }
    elseif event == "__len" and chance(0.5) then
      meta[event] = function() return one(integers) end
    elseif event == "__index" and chance(0.3) then
      meta[event] = object "table" or meta
    else
      meta[event] = hostile
    end
  end
  return meta
end

local function options_table(depth)
  local t = {}
  for _ = 1, random(0, 3) do t[one(keys)] = value(depth + 1) end
  return t
end

local function deep(n)
  local t = { 1 }
  for _ = 1, n do t = { t } end
  return t
end

local tables = {
  function() return list_of(random(0, 4), small) end,
  function(depth) return list_of(random(0, 4), function() return value(depth + 1) end) end,
  function() return list_of(random(0, 3), function() return object "tensor" end) end,
  function() return list_of(random(0, 3), function() return object() end) end,
  function() return list_of(random(1, 3), function() return list_of(random(1, 3), random) end) end,
  options_table,
  function(depth)
    local t = options_table(depth)
    for i = 1, random(0, 3) do t[i] = small() end
    return t
  end,
  function(depth) return setmetatable(options_table(depth), hostile_meta()) end,
  function(depth)
    return setmetatable(list_of(random(0, 4), function() return value(depth + 1) end), hostile_meta())
  end,
  function() local t = { 1, 2 } t[random(2)] = t return t end,
  function() local t = {} t.x = t t[1] = { t } return t end,
  function() return deep(one { 3, 9, 70, 300 }) end,
  function() return object "table" end,
}

local callbacks = {
  function(...) return ... end, hostile, error, function() end, function() return object "tensor" end,
  function(x) return type(x) == "userdata" and x * 2 or x end,
  coroutine.wrap(function() while true do coroutine.yield(1) end end),
}

function value(depth)
  depth = depth or 1
  local what = random(depth > 3 and 60 or 100)
  if what <= 5 then return nil end
  if what <= 9 then return chance(0.5) end
  if what <= 20 then return small() end
  if what <= 27 then return one(numbers) end
  if what <= 33 then return one(words) end
  if what <= 36 then return one(callbacks) end
  if what <= 50 then return object "tensor" end
  if what <= 60 then return object() end
  return one(tables)(depth)
end

-- ---- calls ---------------------------------------------------------------------------------------------------------

--- Fields of a table as a list {key, value, key, value...}, 6 at most. A finaliser may change the table meanwhile; then
--- those that were seen.
local function some_fields(t)
  local list, n = {}, 0
  pcall(function()
    for k, v in next, t do
      list[n + 1], list[n + 2], n = k, v, n + 2
      if n == 12 then return end
    end
  end)
  return list, n
end

--- A value as text, without calling any of its metamethods.
local function show(x, depth)
  local kind = type(x)
  if kind == "string" then return ("%q"):format(#x > 40 and x:sub(1, 40) or x) end
  if kind == "table" and depth < 3 then
    local parts, fields, n = {}, some_fields(x)
    for k = 1, n, 2 do
      parts[#parts + 1] = (type(fields[k]) == "string" and fields[k] .. " = " or "") .. show(fields[k + 1], depth + 1)
    end
    local meta, text = debug.getmetatable(x), ""
    fields, n = some_fields(type(meta) == "table" and meta or {})
    for k = 1, n, 2 do text = text .. " " .. tostring(fields[k]) end
    return "{" .. table.concat(parts, ", ") .. "}" .. (meta and " with" .. text or "")
  end
  if kind == "userdata" then
    local of = kind_of(x)
    if of ~= "tensor" then return of or kind end
    local ok, text = pcall(function() return ("tensor[%s] %s"):format(table.concat(x:shape(), ","), x:dtype()) end)
    return ok and text or "closed tensor"
  end
  return kind == "number" and tostring(x) or kind == "boolean" and tostring(x) or kind
end

local answered = 0

local function call(name, f, ...)
  local args, text = pack(...), {}
  current = {}
  for i = 1, args.n do current[#current + 1] = args[i] end
  if chance(0.1) then setmetatable({}, { __gc = function() pcall(mischief, {}) end }) end
  for i = 1, args.n do text[i] = show(args[i], 1) end
  log:write(name, "(", table.concat(text, ", "), ")\n")
  limit(400)
  if chance(0.2) then collectgarbage "restart" end -- the next allocation begins a step of the collector
  local results = pack(pcall(f, ...))
  debug.sethook()
  answered = answered + (results[1] and 1 or 0)
  if not results[1] then
    pcall(tostring, results[2])
    return
  end
  for i = 2, results.n do
    keep(results[i])
    if type(results[i]) == "table" then keep_fields(results[i]) end
  end
end

local methods_of = { tensor = "methods", distribution = "distribution_methods", bijector = "bijector_methods",
  natural = "natural_methods", layer = "layer_methods", optimiser = "optimiser_methods" }
local own = { generator = { "split", "state", "set_state" }, compiled = { "plans", "captures", "forget", "close" },
  table = { "parameters", "state", "load_state", "kl", "mean", "step", "forward", "named_parameters", "observe", "run",
    "smooth", "online", "weigh", "resample", "select", "keep", "paths", "trace", "draw_path", "weights", "reset" },
  smc = { "resample", "weigh", "get", "restore", "steps", "reset", "trace", "keep", "paths", "nodes", "assign",
    "close" },
  filter = { "observe", "run", "mean", "variance", "log_evidence", "effective_sample_size", "steps", "reset", "save",
    "load", "close" },
  population = { "evaluate", "close" }, stream = { "add", "count", "close" }, rule = { "close" } }
for kind, list in pairs(methods_of) do
  own[kind] = {}
  for name in pairs(core[list]) do table.insert(own[kind], name) end
  table.sort(own[kind])
end

local function arguments()
  local list, n = {}, one { 0, 1, 1, 2, 2, 3, 4, 6 }
  for i = 1, n do list[i] = value() end
  return unpack(list, 1, n)
end

--- Arguments that a row asks for: "x:t axes:A keepdim:b=false" (src/autodiff/op/op.h has the letters).
local letters = {
  t = function() return object "tensor" end,
  T = function() return list_of(random(3), function() return object "tensor" end) end,
  n = function() return chance(0.7) and random() * 4 or one(numbers) end,
  A = function() return one { 1, -1, { 1, 2 }, 2, {} } end,
  a = function() return one { 1, -1, 2 } end,
  p = function() return one { 1, 2, { 1, 2 }, 0 } end,
  b = function() return chance(0.5) end,
  i = small,
}
local kinds_of_rows = { distribution = pn.dist, layer = pn.nn, optimiser = pn.optim, op = pn,
  bijector = pn.dist.bijector }
local rows = {}
for _, row in ipairs(pn.rows()) do
  local space = kinds_of_rows[row.kind]
  if space and space[row.name] and not row.hidden then rows[#rows + 1] = row end
end

local function fitting(row)
  local args, n = {}, 0
  local function add(make)
    n = n + 1
    if chance(0.9) then args[n] = make() else args[n] = value() end
  end
  if row.kind == "optimiser" then
    add(function() return list_of(random(3), function() return pn.param(pn.randn(3)) end) end)
    if chance(0.3) then add(function() return options_table(1) end) end
  elseif row.parameters and row.kind ~= "layer" then
    for _ = 1, #row.parameters do
      if chance(0.9) then
        add(function() return one { pn.rand(3), pn.rand(2, 3), pn.eye(3), 0.5, 1, 2, pn.tensor(0.3) } end)
      end
    end
  elseif row.kind == "layer" then
    for _ = 1, #row.sizes do add(function() return random(4) end) end
    if chance(0.3) then add(function() return options_table(1) end) end
  else
    for name, letter in row.args:gmatch "([%w_]+):(%a)" do
      if name == "shape" then letter = "s" end
      add(letters[letter] or function() return list_of(random(3), small) end)
    end
  end
  return unpack(args, 1, n)
end

local operators = {
  function(a, b) return a + b end, function(a, b) return a - b end, function(a, b) return a * b end,
  function(a, b) return a / b end, function(a, b) return a ^ b end, function(a, b) return a % b end,
  function(a, b) return a // b end, function(a, b) return a .. b end, function(a, b) return a < b end,
  function(a, b) return a[b] end, function(a, b) a[b] = a end, function(a) return -a end, function(a) return #a end,
  function(a, b) return a(b) end, function(a) return tostring(a) end, function(a, b) return a == b end,
  function(a) local _ <close> = a end, function(a) return pairs(a)(a) end,
}

--- What an object says of itself is given back to it (or to another), with one value changed.
local function round_trip()
  local x = object(one { "optimiser", "table", "generator", "optimiser" })
  local name = one { "state", "state", "parameters" }
  call(name .. " and load_state", function()
    local state = x[name](x)
    if type(state) == "table" and chance(0.7) then
      local fields, n = some_fields(state)
      if n > 0 then state[fields[2 * random(n // 2) - 1]] = value() end
    end
    return (chance(0.8) and x or object "optimiser"):load_state(state)
  end)
end

--- A rule's own way: entered, left and applied with what may or may not fit.
local function by_rule()
  local n = random(0, 3)
  local function tensor() return pn.randn(list_of(random(0, 2), function() return random(0, 3) end)) end
  local inputs = list_of(n + 1, tensor)
  local rule = core.rule.new(function() end)
  call("rule", function()
    local inside = pack(core.rule.enter(rule, inputs[1] + 1, unpack(inputs)))
    local out = {}
    for k = 1, n do out[k] = chance(0.9) and inside[k + 2] * inside[1] or value() end
    core.rule.leave(rule, unpack(out, 1, n))
  end)
  if core.capture.going_on() then pcall(core.capture.cancel) end
  for _ = 1, 3 do
    if chance(0.5) then inputs[random(#inputs)] = pn.param(object "tensor") end
    call("rule applied", function()
      local y = core.rule.apply(rule, unpack(inputs))
      return y, pn.grad(y:sum(), { inputs[#inputs] })
    end)
  end
end

local function step()
  local what = random(106)
  if what <= 25 then
    local name = one(names)
    call(name, functions[name], arguments())
  elseif what <= 45 then
    local row = one(rows)
    call(row.kind .. " " .. row.name, kinds_of_rows[row.kind][row.name], fitting(row))
  elseif what <= 75 then
    local kind = one(kinds)
    local x, name = object(kind), one(own[kind])
    call(kind .. ":" .. name, function(self, ...) return self[name](self, ...) end, x, arguments())
  elseif what <= 85 then
    call("operator", one(operators), object(), value())
  elseif what <= 90 then
    local x = object()
    call("call", function(self, ...) return self(...) end, x, arguments())
  elseif what <= 94 then
    local n = random(5)
    for _ = 1, n do setmetatable({}, { __gc = function() pcall(mischief, {}) end }) end
  elseif what <= 96 then
    collectgarbage(one { "generational", "incremental" })
  elseif what <= 98 then
    collectgarbage(one { "collect", "step" })
  elseif what <= 100 then
    for _ = 1, 3 do object() end
  elseif what <= 103 then
    round_trip()
  else
    pcall(by_rule)
  end
  if core.capture.going_on() then pcall(core.capture.cancel) end
  pcall(core.set_no_grad, false)
end

for i = 1, options.calls do
  if i == 20 and os.getenv "API_FUZZ_FAULT" then -- shows that a death is reported
    log:write "fault()\n"
    os.exit(134, false)
  end
  step()
end
log:write(("-- %d answered\n"):format(answered))
log:close()
