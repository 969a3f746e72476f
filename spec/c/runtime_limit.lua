-- Every function that a safe script finds outside of Penumbra, with the largest inputs for it; runtime_limit_test.c
-- runs the cases. A function without an entry here is a failure: give it the arguments that keep it busy the longest.
local SIZE = 1 << 24
local text = ("a"):rep(SIZE) -- a number of base 36, a pattern, a format, a name
local digits, spaces, tails = ("1"):rep(SIZE), (" "):rep(SIZE), ("\x80"):rep(SIZE)
local program = ("x=1 "):rep(SIZE // 4)
local list, keys = {}, {}
for i = 1, 1 << 20 do list[i] = i end
for i = 1, 1 << 18 do keys["k" .. i] = true end
local endless = setmetatable({}, {__len = function() return 1 << 60 end, __index = function() return "x" end})
local function many(v, n) return table.unpack((function() local t = {} for i = 1, n do t[i] = v end return t end)()) end
local set = "[" .. ("b"):rep(SIZE) .. "]"

-- name -> lists of arguments; {} alone: it takes no time that a script could stretch
local functions = {
  assert = {{text}}, collectgarbage = {{}, {"step", 1 << 30}}, error = {{text}}, getmetatable = {{text}},
  ipairs = {{list}}, load = {{program}, {text}, {function() return program end}, {"return " .. ("{"):rep(1 << 16)}},
  next = {{keys}, {list}}, pairs = {{keys}}, pcall = {{string.rep, text, 2}, {error, text}}, print = {{text, text}},
  rawequal = {{text, text .. ""}}, rawget = {{keys, text}}, rawlen = {{list}}, rawset = {{{}, text, 1}},
  select = {{"#", many(1, 1 << 17)}, {-1, many(1, 1 << 17)}}, setmetatable = {{{}, {}}},
  tonumber = {{text, 36}, {digits}, {digits, 10}, {spaces .. "1"}, {spaces, 36}, {"0x" .. text}, {"0x." .. digits}},
  tostring = {{text}, {list}}, type = {{text}}, warn = {{text, text}}, xpcall = {{error, tostring, text}},
  require = {{text}}, _VERSION = {},

  ["string.byte"] = {{text, 1, -1}, {text, 1, 1 << 17}}, ["string.char"] = {{many(65, 1 << 17)}},
  ["string.find"] = {{text, "b"}, {text, "b", 1, true}, {text, ("a"):rep(SIZE // 2) .. "b", 1, true}, {text, ".-b"},
    {text, "%f" .. set}, {text, set}, {text, set .. "*"}, {text, "()%1"}, {text, "(.-)%1b"}, {text, "%bab"},
    {text, text},
    {text, ("a?"):rep(60) .. "b"}, {text, ("a*"):rep(20) .. "b"}, {text, "$"}, {text, spaces}, {text, digits .. "*"},
    {text, "%f[" .. ("%a-"):rep(1 << 16) .. "]"}, {text, ("()"):rep(31) .. "b"}, {text, "^(a*)*b"}},
  ["string.format"] = {{text}, {"%q", text}, {("%.1s"):rep(1 << 14), many(text, 1 << 14)},
    {("%q"):rep(1 << 14), many(text, 1 << 14)}, {("%%"):rep(SIZE // 2)},
    {("%99.99f"):rep(1 << 14), many(1e308, 1 << 14)},
    {("%s"):rep(1 << 14), many(setmetatable({}, {__tostring = function() return text end}), 1 << 14)}},
  ["string.gmatch"] = {{text, set}}, ["string.len"] = {{text}}, ["string.lower"] = {{text}},
  ["string.gsub"] = {{text, "", ""}, {text, "a*", text}, {text, ".", "%0%0"}, {text, set, ""}, {text, "a", {a = "b"}},
    {text, "%f" .. set, ""}, {text, "a", function() return "b" end}, {text, "b", text}, {text, "()", "%1"}},
  ["string.match"] = {{text, "(.-)b"}, {text, "%f" .. set}, {text, "()()%1%2"}},
  ["string.pack"] = {{("b"):rep(SIZE), 1}, {spaces}, {"s", text}, {"z", text}, {"c" .. SIZE, text}, {"!16" .. spaces}},
  ["string.packsize"] = {{("x"):rep(SIZE)}, {spaces}, {("!1"):rep(1 << 15)}, {digits}, {"c" .. digits}},
  ["string.rep"] = {{text, 16}, {"", 1 << 60}, {"x", 1 << 28}}, ["string.reverse"] = {{text}},
  ["string.sub"] = {{text, 2}},
  ["string.unpack"] = {{spaces, text}, {"z", text}, {("b"):rep(1 << 16), text}, {"s4", text}},
  ["string.upper"] = {{text}},

  ["table.concat"] = {{list}, {list, text}, {endless}, {endless, ""}},
  ["table.insert"] = {{list, 1, 1}, {endless, 1, 1}}, ["table.move"] = {{list, 1, 1 << 20, 2}, {{}, 1, 1 << 60, 2}},
  ["table.pack"] = {{many(1, 1 << 17)}}, ["table.remove"] = {{list, 1}, {endless, 1}},
  ["table.sort"] = {{list}, {list, function(a, b) return a > b end}, {list, function() return true end},
    {list, rawequal}},
  ["table.unpack"] = {{list, 1, 1 << 17}, {{}, 1, 1e6 // 1 | 0}},

  ["utf8.char"] = {{many(0x7fffffff, 1 << 16)}}, ["utf8.charpattern"] = {}, ["utf8.codepoint"] = {{text, 1, -1}},
  ["utf8.codes"] = {{text}, {tails}}, ["utf8.len"] = {{text}, {tails}, {("é"):rep(SIZE // 2)}, {text, 1, -2, true}},
  ["utf8.offset"] = {{text, SIZE}, {tails, -1}, {tails, 0, SIZE}, {text, -SIZE}},

  ["coroutine.close"] = {{coroutine.create(print)}}, ["coroutine.create"] = {{print}},
  ["coroutine.isyieldable"] = {{}}, ["coroutine.resume"] = {{coroutine.create(print), many(1, 1 << 17)}},
  ["coroutine.running"] = {{}}, ["coroutine.status"] = {{coroutine.create(print)}}, ["coroutine.wrap"] = {{print}},
  ["coroutine.yield"] = {{text}},

  ["os.clock"] = {{}}, ["os.difftime"] = {{0, 1}}, ["os.time"] = {{{year = 1 << 31, month = 1 << 31, day = 1 << 31}}},
  ["os.date"] = {{("%c"):rep(SIZE // 2)}, {text}, {("%c"):rep(512)}, {"*t"}, {"!%c", 1 << 55}},
}
for name in pairs(math) do functions["math." .. name] = {{3, 5}} end -- numbers alone
for name, f in pairs(getmetatable "") do
  if type(f) == "function" then functions["string's metatable." .. name] = {{digits, digits}, {spaces .. "1", 1}} end
end
functions["math.max"] = {{many(1, 1 << 17)}}
functions["math.min"] = functions["math.max"]

local whole = rawget(_G, "soak") == 1 -- under `make soak`: all, otherwise parts in turns
local cases = {}
rawset(_G, "cases", cases)
local function add(name, run) cases[#cases + 1] = {name = name, run = run} end

local function show(arguments)
  local t = {}
  for i = 1, #arguments do
    local v = arguments[i]
    t[i] = type(v) ~= "string" and tostring(v) or ("%q"):format(#v > 12 and v:sub(1, 8) .. "..." or v)
    if i == 4 then t[4] = "..." break end
  end
  return table.concat(t, ", ")
end

-- Again and again, as a script would that means ill.
local function enter(name, f, arguments)
  add(("%s(%s)"):format(name, show(arguments)), function()
    if name:find "^coroutine.yield" then return end
    while true do pcall(f, table.unpack(arguments, 1, #arguments)) end
  end)
end

-- As what closes variables, where no instruction lies between two calls: while an error is on its way, and after, each
-- for every other function.
local function close_after(cause, name, f)
  add(("__close = %s after %s"):format(name, cause), function()
    local meta = getmetatable ""
    meta.__close = f
    local function nest(n)
      local _ <close> = n % 2 == 0 and text or spaces
      if n > 1 then nest(n - 1) elseif cause == "an error" then error(2) else while true do end end
    end
    pcall(nest, 2000)
  end)
end
local closers = 0
local function close_with(name, f)
  closers = closers + 1
  for k, cause in ipairs {"an error", "the limit"} do
    if whole or (k + closers) % 2 == 0 then close_after(cause, name, f) end
  end
end

local known = {}
local function sweep(prefix, t)
  for name, f in pairs(t) do
    if type(f) == "function" then
      local full = prefix .. name
      local lists = functions[full]
      known[full] = true
      if not lists then
        add("unclassified: " .. full, function() error "a function without an entry in runtime_limit.lua" end)
      end
      for _, arguments in ipairs(lists or {}) do enter(full, f, arguments) end
      if full ~= "coroutine.yield" then close_with(full, f) end
    end
  end
end
local library = {string = true, table = true, utf8 = true, math = true, coroutine = true, os = true}
for name, t in pairs(_G) do
  if library[name] then sweep(name .. ".", t) end
  if type(t) == "table" and not library[name] and name ~= "_G" and name ~= "package" and name ~= "cases" then
    add("unclassified: " .. name, function() error "a library without an entry in runtime_limit.lua" end)
  end
end
sweep("", _G)
sweep("string's metatable.", getmetatable "")
for name in pairs(functions) do
  if not known[name] and #functions[name] > 0 and not name:find "^math" then
    add("gone: " .. name, function() error "an entry in runtime_limit.lua for no function" end)
  end
end

-- What the language itself does with long strings: an instruction goes through all of it.
local other = text .. "x"
local operators = {
  ["=="] = function() return text == text:sub(1, -2) .. "a" end,
  ["<"] = function() return text < other end, [".."] = function() return text .. text end,
  ["+"] = function() return digits + 1 end, ["|"] = function() return ("0x" .. text) | 1 end,
  ["t[s]"] = function() return keys[text .. "y"] end, ["#"] = function() return #list end,
  ["-s"] = function() return -digits end,
}
for name, f in pairs(operators) do
  add("operator " .. name, function() while true do pcall(f) end end)
  add("operator straight " .. name, function()
    local a, b = digits, text
    if name == "+" then while true do local _ = pcall(rawequal, a) and tonumber(a) + a + a + a + a + a + a + a end end
    if name == "<" then while true do local _ = b < other or b < other or b < other or b < other end end
  end)
end

-- ---- Penumbra ----

local pn, core = require "penumbra", require "penumbra.core"

-- Parts that stand in many places: sixty lines make 2^60 uses. A clear error, or an end in time; never the whole walk.
local bijectors, laws = pn.dist.bijector, pn.dist
local function nest(start, times, make)
  for _ = 1, times do start = make(start) end
  return start
end
local function twice(b) return bijectors.chain {b, b} end
local halves = laws.categorical {probs = pn.tensor {0.5, 0.5}}
local function mixed(d) return laws.mixture(halves, {d, d}) end
local shared, law = nest(bijectors.affine(1, 2), 12, twice), nest(laws.normal(0, 1), 11, mixed)
local flow = laws.transformed(laws.normal(0, 1), shared)
local net = nest(pn.nn.linear(2, 2), 60, function(n) return pn.nn.sequential {n, n} end)
local leaves = nest(1, 8, function(t) return {t, t, t, t, t, t, t, t} end)
local empty = nest({}, 7, function(t) local u = {} for i = 1, 1000 do u[i] = t end return u end)
local row = {}
for i = 1, 1000 do row[i] = 1 end
local rows = {}
for i = 1, 100000 do rows[i] = row end
local constant = assert(load("local t = ... return function(x) local s = '" .. text .. "' return x + t.a end"))
local fields = {a = 1}
for i = 1, 999 do fields["field" .. i] = i end

local function refused(name, start, make)
  add("2^60 uses: " .. name, function()
    local ok, message = pcall(nest, start, 60, make)
    if ok or not tostring(message):find "counted as often as it is used" then error(message) end
  end)
end
refused("chain", bijectors.exp(), twice)
refused("mixture", laws.normal(0, 1), mixed)
refused("transformed", laws.normal(0, 1), function(d) return mixed(laws.transformed(d, bijectors.affine(0, 1))) end)

local x, pair = pn.tensor(0.3), pn.ones(2, 2)
for name, f in pairs {
  forward = function() shared:forward(x) end, inverse = function() shared:inverse(x) end,
  log_abs_det = function() shared:log_abs_det(x) end, text = function() tostring(shared) end,
  parameters = function() shared:parameters() end, transformed = function() flow:log_prob(x) end,
  draw = function() flow:rsample() end, mixture = function() law:log_prob(x) end, mean = function() law:mean() end,
  quantile = function() law:icdf(x) end, sample = function() law:sample {3} end, expand = function() law:expand {3} end,
  ["text of a mixture"] = function() tostring(law) end, ["parts"] = function() return law.parts[2].parts end,
  ["kl of networks"] = function() net:kl() end, ["text of networks"] = function() tostring(net) end,
  ["output of networks"] = function() net(pair) end,
  compiled = function() pn.compile(function(v) return net(v) end)(pair) end,
  ["shared lists"] = function() pn.tensor(leaves) end, ["empty lists"] = function() pn.tensor(empty) end,
  ["one row many times"] = function() pn.tensor(rows) end, ["a large constant"] = function()
    pn.compile(constant(fields))(pair)
  end, totable = function() pn.ones {1}:broadcast_to {100000, 1000}:totable() end,
} do
  add("shared: " .. name, function() while true do pcall(f) end end)
end
add("parameters of shared networks", function()
  if #net:parameters() ~= 2 then error "a parameter is listed once" end
end)

-- What cannot be interrupted is refused before it begins; batches are left between two matrices.
local large, wide = pn.eye(2000) + 0.001, pn.ones(5000, 5000)
local batch = (pn.eye(32) + 0.001):broadcast_to {20000, 32, 32}
for name, f in pairs {
  svd = function(a) return a:svd() end, eigh = function(a) return a:eigh() end, qr = function(a) return a:qr() end,
  cholesky = function(a) return a:cholesky() end, inverse = function(a) return a:inverse() end,
  logdet = function(a) return a:logdet() end, det = function(a) return a:det() end,
  solve = function(a) return a:solve(a) end, solve_triangular = function(a) return a:solve_triangular(a) end,
} do
  add(name .. " of a large matrix", function() f(large) error "it was not refused" end)
  add(name .. " of a batch", function() while true do f(batch) end end)
end
add("a large product", function() wide:matmul(wide) end)

-- Loops whose length a script can choose: large windows and kernels, orders, numbers of states, classes and steps. What
-- they work on is made before the limit begins.
local function image() return pn.param(pn.rand(1, 16, 256, 256)) end
local function wide_image() return pn.rand(1, 1, 2048, 2048) end
local function states(n) return pn.zeros(1, n), pn.zeros(1, 1, n, n), pn.zeros(3, 1, n) end
local long = {
  ["a large maximum"] = {image, function(v) v:max_pool2d(301, 1, 150) end},
  ["a large mean"] = {image, function(v) v:avg_pool2d(301, 1, 150) end},
  ["one large maximum"] = {wide_image, function(v) v:max_pool2d(2048, 1, 1024) end},
  ["a gradient of a large maximum"] = {function()
    local v = pn.param(pn.rand(1, 1, 256, 256))
    return v:max_pool2d(301, 1, 150):sum(), v
  end, function(y, v) while true do pn.grad(y, {v}) end end},
  ["a gradient of a large mean"] = {function()
    local v = image()
    return v:avg_pool2d(301, 2, 150):sum(), v
  end, function(y, v) while true do pn.grad(y, {v}) end end},
  ["a large kernel"] = {wide_image, function(v) v:conv2d(pn.ones(1, 1, 41, 41)) end},
  ["a kernel as large as the image"] = {wide_image, function(v) v:conv2d(pn.ones(1, 1, 1500, 1500)) end},
  ["a long row of a convolution"] = {function() return pn.rand(1, 1, 1, 1 << 20) end,
    function(v) v:conv2d(pn.ones(1, 1, 1, 4096)) end},
  ["many channels"] = {function() return pn.rand(1, 64, 256, 256) end,
    function(v) v:conv2d(pn.ones(64, 64, 11, 11)) end},
  ["a transposed convolution"] = {wide_image, function(v) v:conv_transpose2d(pn.ones(1, 1, 301, 301), 1, 20, 5) end},
  ["polygamma of a large order"] = {function() return pn.full({4096}, 7.5e8) end,
    function(v) v:polygamma(2000000000) end},
  ["ive of a large order"] = {function() return pn.full({4096}, 1e9) end, function(v) v:ive(2000000000) end},
  ["a large permutation"] = {function() end, function() pn.randperm(100000000) end},
  ["Viterbi with many states"] = {function() return states(3500) end,
    function(...) while true do core.new_hmm_viterbi(...) end end},
  ["a hidden Markov filter with many states"] = {function() return states(3000) end,
    function(...) while true do core.new_hmm_filter(...) end end},
  ["one step of a large Kalman filter"] = {function()
    local n, p = 900, 800
    return pn.smc.linear_system {initial_mean = pn.zeros {n}, initial_cov = pn.eye(n), transition = pn.eye(n),
      transition_cov = pn.eye(n), emission = pn.full({p, n}, 0.01), emission_cov = pn.eye(p)}, pn.zeros {1, p}
  end, function(system, v) while true do pn.smc.kalman.log_likelihood(system, v) end end},
  ["one step of a large Kalman filter on roots"] = {function()
    local n = 800
    return pn.smc.linear_system {initial_mean = pn.zeros {n}, initial_cov = pn.eye(n), transition = pn.ones {n, n},
      transition_cov = pn.eye(n), emission = pn.ones {9, n}, emission_cov = pn.eye(9)}, pn.zeros {1, 9}
  end, function(system, v) while true do pn.smc.kalman.filter(system, v, {form = "square_root"}) end end},
  ["a long recurrent network"] = {function() return pn.nn.lstm(64, 64), pn.zeros(4000, 16, 64) end,
    function(network, v) while true do network(v) end end},
  ["a long inner product"] = {function() return pn.ones(512, 1 << 14), pn.ones(1 << 14, 256) end,
    function(v, y) while true do v:matmul(y) end end},
  ["many right sides of one matrix"] = {function()
    return (pn.eye(1000) * 2):broadcast_to {4000, 1000, 1000}, pn.ones(4000, 1000, 1)
  end, function(a, b) while true do a:solve_triangular(b) end end},
  ["one long order"] = {function() return pn.rand(1 << 22) end, function(v) while true do v:argsort() end end},
  ["one long running sum of exponentials"] = {function() return pn.rand(1 << 23) end,
    function(v) while true do v:logcumsumexp() end end},
  ["one long recurrence"] = {function() return pn.ones(1 << 23) end,
    function(v) while true do v:linear_recurrence(pn.tensor(0.5)) end end},
  ["one long gather"] = {function() return pn.ones(1 << 22), pn.randint(0, 1 << 22, 1 << 22) end,
    function(v, index) while true do v:gather(1, index) end end},
  ["a multinomial of many classes"] = {function() return pn.dist.multinomial(1e9, pn.full({1 << 22}, 2.0 ^ -22)) end,
    function(d) while true do d:sample() end end},
  ["the text of many axes"] = {function()
    return pn.ones(1, 1, 1, 1, 1, 1, 1, 1):broadcast_to {7, 7, 7, 7, 7, 7, 7, 7}
  end, function(v) while true do tostring(v) end end},
  ["zeros"] = {function() end, function() while true do pn.zeros(1 << 26) end end},
}
for name, parts in pairs(long) do
  add("a long loop: " .. name, function(...) parts[2](...) end)
  cases[#cases].prepare = parts[1]
end

-- Every function and method of the core on large tensors, strings and lists: each on one of the first, and every third
-- on a matrix and one of the second.
local turn = 0
local N = 1 << 20
local numbers = pn.linspace(0.01, 0.99, N)
collectgarbage()
local first = {numbers, numbers:reshape(1024, 1024), numbers:reshape(4, 1, 512, 512), text, list,
  pn.ones {1}:broadcast_to {1 << 30}}
local second = {first[2], pn.arange(N):to "int64", 3}
local seen = {}
local closing = {close = true, __close = true, __gc = true} -- after these there would be no input for the others
local function names_of(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  return names
end
local function large_inputs(prefix, t)
  if seen[t] then return end
  seen[t] = true
  for _, name in ipairs(names_of(t)) do
    local f = t[name]
    if type(f) == "table" then large_inputs(prefix .. tostring(name) .. ".", f) end
    if type(f) == "function" and not tostring(name):find "^set_" and not closing[name] and not seen[f] then
      seen[f] = true
      local function enter_one(what, i, ...)
        local arguments = table.pack(...)
        add(("%s%s on %s%d"):format(prefix, name, what, i), function()
          core.trap_nan(i % 2 == 0) -- every other time all results are looked through, too
          pcall(f, table.unpack(arguments, 1, arguments.n))
        end)
      end
      turn = turn + 1
      for i, a in ipairs(first) do
        if whole or (i + turn) % #first == 0 then enter_one("input ", i, a) end
      end
      for i, b in ipairs(second) do
        if whole or (i + turn) % (3 * #second) == 0 then enter_one("a matrix and input ", i, first[2], b) end
      end
    end
  end
end
large_inputs("core.", core)
add("the inputs of all of these", function()
  local left = first[1]:numel() + first[2]:numel() + first[3]:numel() + first[6]:numel() + second[2]:numel()
  if left ~= 4 * N + (1 << 30) then error "an input was closed or changed on the way" end
end)

-- prepare(k) makes what run(k) works on: globals, which are no function of the script's library.
local inputs = table.pack()
rawset(_G, "prepare", function(k)
  inputs = table.pack()
  if cases[k].prepare then collectgarbage() end
  rawset(_G, "limit", (cases[k].prepare and 0.05 or 0.015) * (whole and 1 or 2 / 3)) -- seconds: enough for the loop
  if cases[k].prepare then inputs = table.pack(cases[k].prepare()) end
end)
rawset(_G, "run", function(k) cases[k].run(table.unpack(inputs, 1, inputs.n)) end)
