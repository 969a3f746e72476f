-- Calls drawn at random for runtime_limit_test.c: each public function and method, and what lies in the core beneath,
-- gets tensors of every rank to 4 with one long axis or many, large kernels and large whole numbers. `drawn(k)` makes
-- the k-th call from the global `seed`; what it answers is of no interest, only that it ends with its time.
local pn, core = require "penumbra", require "penumbra.core"
local unpack = table.unpack
math.randomseed(seed) -- luacheck: ignore
local random = math.random
local function one(list) return list[random(#list)] end
local function chance(p) return random() < p end

-- ---- tensors -------------------------------------------------------------------------------------------------------

local N = 1 << 22
local shapes = {
  {N}, {N, 1}, {1, N}, {2, N // 2}, {N // 2, 2}, {2048, 2048}, {64, N // 64}, {N // 64, 64}, {3, 1 << 20},
  {1, 1, N}, {1, N, 1}, {N, 1, 1}, {128, 128, 256}, {2, 1024, 2048},
  {1, 1, 2048, 2048}, {1, 1, 1, N}, {1, 1, N, 1}, {N, 1, 1, 1}, {1, N, 1, 1}, {8, 8, 256, 256}, {1, 1, 301, 301},
  {N // 16, 1, 4, 4}, {1, 64, 256, 256},
}
local small_shapes = {
  {}, {1}, {3}, {1, 1}, {2, 2}, {64, 64}, {512}, {2048}, {301, 301}, {1, 1, 41, 41}, {1, 1, 1, 3}, {2, 1, 3, 3},
  {8, 1, 3, 3}, {16, 8, 3, 3}, {1, 1, 301, 301}, {1 << 16}, {1 << 16, 2}, {2, 1 << 16}, {4096, 16}, {1500, 1500},
  {0}, {1 << 50, 0}, {0, 1 << 50}, {1, 1, 150, 150}, {16000}, {400, 400, 4},
}
local function numel(s)
  local n = 1
  for i = 1, #s do n = n * s[i] end
  return n
end

local contents = {
  function(n) return pn.linspace(0.01, 0.99, n) end,
  function(n) return pn.linspace(0.99, 0.01, n):flip(1) end,
  function(n) return pn.linspace(-3, 3, n) end,
  function(n) return pn.linspace(1, 1e9, n):floor() end,
  function(n) return pn.linspace(0, 0.9999, n) * 7 % 1 end,
  function(n) return pn.ones(n) end,
  function(n) return pn.arange(n) end,
  function(n) return pn.arange(n):to "int64" end,
  function(n) return (pn.linspace(0, 5e7, n) % 1000):to "int64" end,
  function(n) return pn.zeros(n, {dtype = "int64"}) end,
  function(n) return pn.linspace(0, 5e6, n) % 2 end,
  function(n) return (pn.linspace(0, 5e6, n) % 2):to "bool" end,
  function(n) return pn.linspace(0.01, 0.99, n):to "float32" end,
  function(n) return pn.full({n}, 2e9) end,
}
local made = {} -- the long ones, made once each
local function filled(what, n)
  if n < 2 then return contents[what](1):slice(1, 1, n) end
  if n < N // 2 then return contents[what](n) end
  local key = what * 100000000 + n
  if not made[key] then made[key] = contents[what](n) end
  return made[key]
end
local function tensor()
  if chance(0.06) then
    local views = {{1 << 30}, {1, 1 << 30}, {1 << 30, 1}, {1 << 15, 1 << 15}, {1, 1, 1 << 15, 1 << 15}}
    local s = one(views)
    local ones = {}
    for i = 1, #s do ones[i] = 1 end
    return pn.full(ones, one {0.5, 1, 3}):broadcast_to(s)
  end
  local s = chance(0.6) and one(shapes) or one(small_shapes)
  local t = filled(random(#contents), numel(s)):reshape(s)
  if #s > 1 and chance(0.15) then t = t:transpose(1, #s) end
  if chance(0.1) and (t:dtype() == "float64" or t:dtype() == "float32") then t = pn.param(t) end
  return t
end

-- ---- other arguments -----------------------------------------------------------------------------------------------

local whole = {-1, 0, 1, 2, 3, 5, 41, 150, 301, 1000, 16000, 1 << 16, 1 << 20, N, 1e8, 2e9, 1 << 53, -1e8, -(1 << 53)}
local reals = {0.5, -0.5, 1e-300, 1e300, 1, 3, 1e8, 2e9, -2e9, 1 / 0, 0.999, 1e5}
local pairs_of = {1, 2, 3, 41, 150, 301, {301, 301}, {1, 301}, {301, 1}, {41, 41}, {1, 100000}, {100000, 1}, {1, 2}}
local words = {"sum", "mean", "none", "linear", "bernoulli", "ij,jk->ik", "ij->ji", "ij,ij->", "ii->i", "i,j->ij",
  "reduced", "complete", "systematic", "spearman", "fro", "float32", "int64", "bool", "zeros", "normal"}
local keys = {"dtype", "generator", "keepdim", "axes", "axis", "draws", "steps", "n", "stride", "padding", "epochs",
  "batch_size", "bins", "levels", "num_particles", "degree", "order", "size", "num_classes", "max_steps", "window",
  "lags", "step", "thin", "warmup", "chains", "width", "height", "levels", "upper", "unbiased", "ddof", "p"}
local letters = {
  t = tensor,
  T = function() local t = tensor() local list = {} for i = 1, one {1, 2, 3, 500} do list[i] = t end return list end,
  n = function() return one(reals) end,
  A = function() return one {1, -1, {1, 2}, 2, {}, {1, -1}} end,
  a = function() return one {1, -1, 2, 3} end,
  p = function() return one(pairs_of) end,
  b = function() return chance(0.5) end,
  i = function() return one(whole) end,
  s = function() return one {one(shapes), one(small_shapes), {-1}, {1 << 30}, {1 << 15, 1 << 15}} end,
  P = function() return one {{1}, {2, 1}, {3, 2, 1}, {1, 3, 2}, {4, 3, 2, 1}, {1, 3, 2, 4}} end,
}
local function list_of(n, make)
  local t = {}
  for i = 1, n do t[i] = make() end
  return t
end
local value
local function options()
  local t = {}
  for _ = 1, random(2) do t[one(keys)] = value() end
  return t
end
function value()
  local what = random(100)
  if what <= 45 then return tensor() end
  if what <= 65 then return one(whole) end
  if what <= 70 then return one(reals) end
  if what <= 76 then return list_of(random(3), tensor) end
  if what <= 82 then return list_of(random(4), function() return one(whole) end) end
  if what <= 86 then return one(words) end
  if what <= 88 then return chance(0.5) end
  if what <= 90 then return function(x) return x end end
  if what <= 92 then return pn.generator(1) end
  return options()
end

-- ---- what is called ------------------------------------------------------------------------------------------------

local subjects = {} -- name -> function that makes the arguments
local ops = {}
for _, row in ipairs(core.op_rows()) do
  if not row.hidden then
    ops[row.name] = true
    local kinds = {}
    for kind in row.args:gmatch ":(%a)" do kinds[#kinds + 1] = kind end
    subjects["pn." .. row.name] = {pn[row.name], function()
      local t = {}
      for i = 1, #kinds do t[i] = letters[kinds[i]]() end
      if #kinds > 1 and kinds[2] == "t" and chance(0.5) then t[2] = t[1] end
      return t
    end}
  end
end

-- settings of the process, the terminal, files; what would spoil the tensors of the others
local left_out = {threads = true, memory_limit = true, seed = true, set_tostring = true, error = true, strict = true,
  files = true, terminal = true, source = true, modules = true, repl = true, close = true, default_dtype = true,
  set_no_grad = true, trap_nan = true, validate = true, set_rng_state = true, set = true, sheltered = true,
  terminal_answer = true, call_in_turn = true, load_state = true, reset_peak = true, namespace = true}
local function arguments() return list_of(one {1, 1, 2, 2, 2, 3, 4}, value) end
local function walk(space, label, depth, seen)
  if seen[space] or depth > 4 then return end
  seen[space] = true
  local own = getmetatable(space)
  for _, name in ipairs(type(own) == "table" and own.lazy or {}) do local _ = space[name] end
  for key, v in pairs(space) do
    if type(key) == "string" and not left_out[key] and not (ops[key] and depth == 1) then
      local name, meta = label .. "." .. key, debug and debug.getmetatable(v) or getmetatable(v)
      local callable = type(v) == "function" or type(meta) == "table" and rawget(meta, "__call")
      if callable and not subjects[name] then subjects[name] = {v, arguments} end
      if type(v) == "table" then walk(v, name, depth + 1, seen) end
    end
  end
end
walk(pn, "pn", 1, {})
for _, name in ipairs {"pn.smc.kalman.filter", "pn.smc.pmmh", "pn.models.kvae", "pn.continual.learner"} do
  assert(subjects[name], name .. " is not walked")
end
walk(core, "core", 1, {})

-- ---- objects and their methods -------------------------------------------------------------------------------------

local function methods(kind, list, make, gives)
  for name, f in pairs(list) do
    if type(f) == "function" and not left_out[name] and name:sub(1, 2) ~= "__" then
      subjects[kind .. ":" .. name] = {f, function()
        local t = gives and gives(name) or list_of(random(0, 2), value)
        table.insert(t, 1, make())
        return t
      end}
    end
  end
end
local function drawn_rows(rows, space)
  local names = {}
  for _, row in ipairs(rows) do if space[row.name] then names[#names + 1] = row.name end end
  table.sort(names)
  return names
end
local laws = drawn_rows(core.distribution_rows(), pn.dist)
local function law()
  local parameters = list_of(4, function() return chance(0.5) and one {0.5, 1, 3, 30, 1e6, 2e9, 0.99} or tensor() end)
  for n = 4, 1, -1 do
    local ok, d = pcall(pn.dist[one(laws)], unpack(parameters, 1, n))
    if ok then return d end
  end
  return pn.dist.normal(tensor(), 1)
end
methods("distribution", core.distribution_methods, law, function(name)
  if name:find "sample" then return {one {{}, {N}, {3}, {1000, 1000}, {1 << 26}}} end
  return chance(0.8) and {tensor()} or list_of(random(0, 2), value)
end)
local layers = drawn_rows(core.layer_rows(), pn.nn)
methods("layer", core.layer_methods, function()
  for _ = 1, 5 do
    local ok, l = pcall(pn.nn[one(layers)], unpack(list_of(random(0, 3), function()
      return one {1, 1, 2, 3, 8, 41, 64, 301, 2048, 1 << 16, N}
    end)))
    if ok then return l end
  end
  return pn.nn.linear(2048, 64)
end, function(name) return (name == "forward" or chance(0.5)) and {tensor()} or {value()} end)
methods("bijector", core.bijector_methods, function()
  local b = pn.dist.bijector
  return one {b.exp, b.affine, b.power, b.ordered, b.softmax_centred, b.cholesky_outer, b.correlation_cholesky,
    b.planar, b.permutation} (tensor(), tensor())
end, function() return {tensor()} end)
methods("optimiser", core.optimiser_methods, function() return pn.optim.adam {pn.param(tensor():to "float64")} end)
methods("natural", core.natural_methods, function() return pn.dist.natural.scalar(tensor(), tensor()) end)
methods("tensor", core.methods, tensor)
subjects["gradient"] = {function(f, x, ...) return pn.grad(f(x, ...):sum(), {x}) end, function()
  local names = {}
  for name in pairs(ops) do names[#names + 1] = name end
  table.sort(names)
  local t = subjects["pn." .. one(names)]
  local list = t[2]()
  if pn.is_tensor(list[1]) then list[1] = pn.param(list[1]:to "float64") end
  return {t[1], unpack(list)}
end}
subjects["gradient of pools"] = {function(f, x, ...)
  return pn.grad(f(x, ...):sum(), {x})
end, function()
  local x = pn.param(tensor():to "float64")
  local k = one(pairs_of)
  return {one {pn.max_pool2d, pn.avg_pool2d}, x, k, one {1, 1, 2, 3}, type(k) == "number" and k // 2 or 0}
end}
subjects["gradient of convolutions"] = {function(f, x, w, ...)
  return pn.grad(f(x, w, ...):sum(), {x, w})
end, function()
  local w = one {{1, 1, 41, 41}, {8, 1, 3, 3}, {64, 64, 3, 3}, {1, 1, 301, 301}, {1, 64, 1, 1}, {1, 1, 1, 10000}}
  local x = one {{1, 1, 2048, 2048}, {8, 1, 512, 512}, {1, 64, 256, 256}, {1, 1, 1, 1 << 20}, {1000, 1, 64, 64}}
  local f = one {pn.conv2d, pn.conv_transpose2d}
  return {f, pn.param(filled(1, numel(x)):reshape(x)), pn.param(filled(1, numel(w)):reshape(w)), one {1, 1, 2, 3},
    one {0, 1, 20}, one {1, 1, 2, 5}}
end}

-- ---- cases ---------------------------------------------------------------------------------------------------------

local names = {}
for name in pairs(subjects) do names[#names + 1] = name end
table.sort(names)
if only then -- luacheck: ignore
  local some = {}
  for _, name in ipairs(names) do if name:find(only) then some[#some + 1] = name end end -- luacheck: ignore
  names = some
end

local function show(v, depth)
  if pn.is_tensor(v) then return ("%s[%s]"):format(v:dtype(), table.concat(v:shape(), ",")) end
  if type(v) == "table" and depth < 3 then
    local t = {}
    for k, x in pairs(v) do
      t[#t + 1] = (type(k) == "string" and k .. " = " or "") .. show(x, depth + 1)
      if #t > 4 then t[#t] = "..." break end
    end
    return "{" .. table.concat(t, ", ") .. "}"
  end
  return type(v) == "string" and ("%q"):format(v) or tostring(v)
end

local call, list, subject
local function run() call(unpack(list, 1, #list)) end
-- rawset: the test asks for these by name
rawset(_G, "count", #names)
rawset(_G, "prepare", function(k)
  call, list, subject = nil, nil, nil
  rawset(_G, "limit", 0.015)
  math.randomseed(seed, k) -- luacheck: ignore
  subject = names[(k - 1) % #names + 1]
  for _ = 1, 3 do
    local ok, t = pcall(subjects[subject][2])
    if ok then call, list = subjects[subject][1], t break end
  end
end)
rawset(_G, "run", function() if call then run() end end)
rawset(_G, "show_case", function()
  local t = {}
  for i = 1, list and #list or 0 do t[i] = show(list[i], 1) end
  print(("%s(%s)"):format(subject, table.concat(t, ", ")))
end)
