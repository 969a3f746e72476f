--- Fuzzer of what filters and samplers hold: step machines, filters online and their files, populations, chains, hidden
--- Markov models and streams of weights, driven with numbers that are none: NaN, infinities, sums beyond all numbers,
--- places outside, sizes whose product is none, states that other machines gave, files with elements replaced. What a
--- call answers does not matter; that the process lives does.
---     lua spec/fuzz/filter.lua --seconds 60 [--seed 1]   child processes, one seed each, until the time is over
---     lua spec/fuzz/filter.lua --child 17 [--calls 400]  one of them, again
--- A child that dies, or does not end in three minutes, is reported with its seed and its last call. Run it with an
--- interpreter that sanitisers are built into ($(BUILD)/lua-interpreter).

local options = dofile(arg[0]:gsub("[^/]*$", "") .. "children.lua") "filter"
local limit = dofile(arg[0]:gsub("[^/]*$", "") .. "limit.lua")

local function read(from)
  local file = io.open(from, "rb")
  local text = file and file:read "a" or ""
  if file then file:close() end
  return text
end

-- ---- numbers ------------------------------------------------------------------------------------

local core = require "penumbra.core"
local pn = require "penumbra"
local random = math.random
math.randomseed(options.child)
pn.seed(options.child)
pn.threads(random(2))
pn.memory_limit(64 << 20)

local log = assert(io.open("log", "w"))
log:setvbuf "line"
local path = os.tmpname()

local function one(list) return list[random(#list)] end
local function chance(p) return random() < p end

local NAN, INF = 0 / 0, math.huge
local numbers = { NAN, INF, -INF, -1, 0, 1e300, -1e300, 1e308, 5e-324, -5e-324, 0.5, 1, 2.0 ^ 31, -2.0 ^ 31, 2.0 ^ 63 }
local integers = { -1, 0, 1, 2, 3, 5, 7, 8, 1 << 31, -1 << 31, 1 << 32, 1 << 40, 1 << 62, math.maxinteger,
  math.mininteger }

local function count() return chance(0.8) and random(0, 8) or one(integers) end
local function sizes(n)
  local list = {}
  for i = 1, n or random(0, 3) do list[i] = chance(0.9) and random(1, 4) or count() end
  return list
end

-- x with some of its elements replaced.
local function spoilt(x)
  local n = x:numel()
  if n == 0 then return x end
  local dtype = x:dtype()
  local flat = x:detach():to(dtype == "int64" and "int64" or "float64"):reshape { n }:contiguous():totable()
  for _ = 1, one { 1, 1, 2, n } do
    flat[random(n)] = dtype == "int64" and one(integers) or one(numbers)
  end
  return pn.tensor(flat, { dtype = dtype == "int64" and "int64" or "float64" }):to(dtype):reshape(x:shape())
end

local function maybe(x) return chance(0.4) and spoilt(x) or x end

local main = "float64" -- the type of an actor's tensors, most of them

local function floats(shape)
  local x = pn.randn(shape, { dtype = chance(0.97) and main or "float32" })
  return chance(0.1) and pn.full(shape, one(numbers)) or maybe(x)
end

local function places(shape, n)
  return maybe(pn.randint(0, math.max(n or 4, 1), shape))
end

local function any()
  return one { function() return floats(sizes()) end, function() return places(sizes(), 5) end,
    function() return one(numbers) end, function() return one(integers) end, function() return nil end,
    function() return { one(numbers), one(numbers) } end, function() return pn.rand(sizes()):gt(0.5) end }()
end

-- ---- calls --------------------------------------------------------------------------------------

local answered, calls = 0, 0

local function call(name, f, ...)
  calls = calls + 1
  log:write(name, "\n")
  limit(400)
  local results = table.pack(pcall(f, ...))
  debug.sethook()
  if results[1] then
    answered = answered + 1
    return table.unpack(results, 2, results.n)
  end
  pcall(tostring, results[2])
end

local function method(object, name, ...) return call(name, function(...) return object[name](object, ...) end, ...) end

-- ---- step machines ------------------------------------------------------------------------------

local packed = {} -- what machines gave

local function machine_options()
  local scheme = one(pn.smc.schemes())
  local o = { num_particles = chance(0.95) and random(1, 9) or one(integers), resampling = scheme,
    threshold = one { 0, 0.5, 1, 1 }, history = chance(0.5), trace = chance(0.7), degenerate = one { "error", "zero" },
    gradient = one { "dropped", "dropped", "stop_gradient", "score_function", "soft" } }
  if chance(0.4) then o.batch_shape = sizes(random(1, 2)) end
  if scheme == "multinomial" then o.conditional = chance(0.7) end
  return o
end

local function step_machine()
  local o = machine_options()
  local s = call("smc", pn.smc, o)
  o.zero_possible, o.degenerate = o.degenerate == "zero", nil
  local raw = call("new_smc", core.new_smc, o)
  if not s or not raw then return end
  local shape = { o.num_particles, table.unpack(o.batch or {}) }
  local state = floats(shape)
  for _ = 1, random(3, 20) do
    local what = random(12)
    if what <= 2 then
      local a = method(s, "resample")
      if a and chance(0.3) then a = spoilt(a) end
      state = method(s, "select", state, a) or state
    elseif what <= 5 then
      method(s, chance(0.8) and "weigh" or "tilt", chance(0.95) and floats(shape) or any())
      method(raw, "weigh", floats(shape), chance(0.2))
      packed[random(8)] = method(raw, "get", "weighed")
    elseif what == 6 then
      method(s, "keep", chance(0.8) and state or any())
    elseif what == 7 then
      method(s, "paths", chance(0.5) and places(o.batch or {}, o.num_particles) or nil)
      method(s, one { "draw_path", "nodes", "trace", "reset", "draw" })
    elseif what <= 9 then
      local w = chance(0.5) and packed[random(8)] or method(raw, "get", "weighed")
        or floats { 2 * o.num_particles + 3, table.unpack(o.batch or {}) }
      method(raw, "restore", chance(0.7) and spoilt(w) or w)
      method(raw, "resample")
    elseif what == 10 then
      method(raw, "assign", chance(0.8) and places(o.batch or {}, o.num_particles) or any())
      method(raw, "resample")
    elseif what == 11 then
      method(s, one { "log_weights", "weights", "log_evidence", "effective_sample_size", "ancestor_log_prob" })
      method(s, "mean", floats(shape))
    else
      method(raw, "keep", state, chance(0.3) and floats(shape) or nil)
      method(raw, "paths", count(), any())
      method(raw, "trace")
      method(s, "transport", floats(shape), { epsilon = one(numbers), steps = random(5) })
    end
  end
end

-- ---- filters online and their files -------------------------------------------------------------

local function particle_filter()
  local n, dtype = random(1, 12), one { "float64", "float64", "float32" }
  local of = { dtype = dtype }
  return call("filter", function()
    return pn.smc.filter({ num_particles = n, resampling = one(pn.smc.schemes()), threshold = one { 0.5, 1 },
      degenerate = one { "error", "zero" },
      init = function() return { x = pn.randn({ n }, of), k = pn.randint(0, 3, { n }) } end,
      step = function(state)
        local table_of = pn.tensor({ 0.1, 0.5, 0.9 }, of)
        return { x = state.x * table_of:take(1, state.k) + pn.randn({ n }, of), k = pn.randint(0, 3, { n }) }
      end,
      log_weight = function(state, y)
        return -(state.x - y:to(dtype):broadcast_to { n }):square()
      end }):online()
  end)
end

local function exact_filter(p)
  local n = random(1, 3)
  return call("exact_filter", function()
    local f = chance(0.7) and function(x) return x end or maybe
    return pn.smc.exact_filter { initial_mean = f(pn.randn { n }), initial_cov = f(pn.eye(n)),
      transition = f(pn.eye(n) * 0.9), transition_cov = f(pn.eye(n)),
      emission = f(pn.randn { p, n }), emission_cov = f(pn.eye(p)) }
  end)
end

-- The file of a state with numbers in place of some of its own, or with bytes changed.
local function spoil_file()
  local text = read(path)
  if #text < 16 then return end
  local header = 8 + string.unpack("<I8", text)
  for _ = 1, random(4) do
    local at = chance(0.8) and header + 8 * random(0, math.max((#text - header) // 8 - 1, 0)) or random(0, #text - 8)
    local bytes = chance(0.5) and string.pack("<d", one(numbers)) or chance(0.5) and string.pack("<i8", one(integers))
      or string.pack("<ff", 1, one(numbers))
    text = (text:sub(1, at) .. bytes .. text:sub(at + 9)):sub(1, #text)
  end
  local file = io.open(path, "wb")
  file:write(text)
  file:close()
end

local function live_filter()
  local p = random(2)
  local f = p == 1 and chance(0.7) and particle_filter() or exact_filter(p)
  if not f then return end
  for _ = 1, random(3, 16) do
    local what = random(8)
    if what <= 3 then
      method(f, "observe", chance(0.7) and pn.randn { p } or any())
    elseif what == 4 then
      method(f, "run", pn.randn { random(0, 4), p })
      method(f, "run", floats { random(0, 4), p })
    elseif what <= 6 then
      method(f, "save", path)
      if chance(0.8) then call("spoil", spoil_file) end
      method(f, "load", path)
    else
      method(f, one { "mean", "variance", "log_evidence", "effective_sample_size", "steps", "reset" })
    end
  end
end

-- ---- filters of whole sequences, with smoothing -------------------------------------------------

local function whole_filter()
  local n = random(2, 8)
  local f = call("filter", pn.smc.filter, { num_particles = n, threshold = 1, history = chance(0.5),
    resampling = one { "multinomial", "systematic", "killing" },
    prior = function() return pn.dist.normal(pn.zeros { n }, 1) end,
    transition = function(x) return pn.dist.normal(x, 1) end,
    observation = function(x) return pn.dist.normal(x, chance(0.9) and 1 or 1e-3) end })
  if not f then return end
  method(f, "run", floats { random(1, 6) },
    { record = true, moments = chance(0.5), lag = chance(0.3) and count() or nil })
  method(f, "smooth", one { { draws = count() }, { method = "two_filter" }, { draws = 3, log_bound = one(numbers) } })
  method(f, "observe", any())
end

local function hidden_markov()
  local k, t = random(1, 4), random(1, 6)
  local m = call("hmm", pn.smc.hmm, { initial_logits = floats { k },
    transition_logits = floats(chance(0.7) and { k, k } or { t, k, k }),
    emission = chance(0.8) and function() return floats { t, k } end or pn.dist.normal(pn.randn { k }, 1) })
  if not m then return end
  local y = floats { t }
  for _ = 1, 4 do
    method(m, one { "log_likelihood", "filter", "smooth", "viterbi" }, y)
    method(m, "sample_states", y, { draws = count() })
    method(m, "forecast", y, count())
    method(m, "sample", count())
  end
end

-- ---- populations, chains, streams ---------------------------------------------------------------

local function population()
  local n = random(1, 4)
  local f = pn.compile(function(x) return -(x * x):sum():reshape { 1 } end)
  call("compile", f, pn.zeros { n })
  local q = call("new_population", core.new_population, f)
  if not q then return end
  for _ = 1, 4 do
    method(q, "evaluate", chance(0.8) and floats { random(0, 5), chance(0.8) and n or 2 } or any())
  end
end

local function settings()
  local o = { chains = random(3), warmup = random(0, 30), draws = random(30),
    metric = one { "diagonal", "low_rank", "dense" },
    estimator = one { "fisher", "stan" }, schedule = one { "overlapping", "stan" },
    max_depth = random(4), max_steps = random(8), target_accept = 0.8, step_size = one { 0, 0.1 },
    radius = one { 0, 2 } }
  for _, name in ipairs { "chains", "warmup", "draws", "target_accept", "step_size", "radius" } do
    if chance(0.06) then o[name] = chance(0.5) and one(numbers) or one(integers) end
  end
  -- as many steps as are asked for are made, unless a limit ends them
  if chance(0.1) then o[one { "max_depth", "max_steps" }] = one { -1, NAN, -INF, math.mininteger } end
  return o
end

local function chains()
  local n, o = random(1, 3), settings()
  local f = pn.compile(function(x)
    local y = -(x * x):sum() * 0.5
    return y, -x
  end)
  call("compile", f, pn.zeros { n })
  local start = one { function() return floats { o.chains, n } end, function() return pn.zeros { o.chains, n } end,
    function() end, any }
  local s = call("new_sampler", core.new_sampler, f, o, start(), pn.generator(1))
  if not s then return end
  for _ = 1, 3 do
    -- more than there are where these are few: nothing but a limit ends the others
    method(s, "run", (o.draws > 30 or o.warmup > 30 or chance(0.8)) and random(30) or one(integers))
    method(s, one { "draws", "statistics", "metric", "iteration", "finished", "warmup", "gradients" })
  end
end

local function draws()
  local x = floats { random(1, 4), random(1, 40), table.unpack(sizes(random(0, 2))) }
  call("draws_summary", core.draws_summary, chance(0.8) and floats { random(3), random(1, 40), random(2) } or x)
  local log_w = floats { random(1, 60), random(2) }
  call("psis", pn.infer.psis, log_w,
    { relative_efficiency = chance(0.3) and one { one(numbers), floats { 1 } } or nil })
  call("effective_sample_size", pn.infer.effective_sample_size, log_w)
  call("self_normalised", pn.infer.self_normalised, log_w, floats(log_w:shape()))
  call("sir", pn.infer.sir, log_w, count())
  local stream = call("stream", pn.infer.stream, { draws = chance(0.8) and random(0, 80) or one(integers) })
  local columns = random(3)
  for _ = 1, stream and random(5) or 0 do
    method(stream, "add", floats { random(20), chance(0.9) and columns or random(3) })
    for _, name in ipairs { "log_mean", "standard_error", "elbo", "effective_sample_size", "pareto_k" } do
      call(name, function() return stream[name] end)
    end
  end
end

-- ---- numbers that are places --------------------------------------------------------------------

local function indexed()
  local shape = sizes(random(1, 3))
  local x, axis = floats(shape), chance(0.9) and random(1, #shape) or one(integers)
  local like = table.move(shape, 1, #shape, 1, {})
  like[random(#like)] = chance(0.8) and random(0, 3) or nil
  local a = places(chance(0.6) and like or sizes(random(0, 2)), shape[axis])
  method(x, "take", axis, a)
  method(x, "gather", axis, a)
  method(x, "scatter_add", axis, a, floats(a:shape()))
  method(x, "topk", count(), axis)
  method(x, "slice", axis, count(), count(), count())
  call("select", pn.smc.schemes and core.new_selected, x, a)
  call("resample", pn.smc.resample, floats(sizes(random(1, 3))), { resampling = one(pn.smc.schemes()) })
  local d = call("categorical", pn.dist.categorical, { [one { "logits", "probs" }] = floats(sizes(random(1, 2))) })
  if d then
    method(d, "sample", { count() })
    method(d, "log_prob", chance(0.5) and a or a:to "float64")
    method(d, "icdf", floats {})
  end
  local table_of = call("embedding", pn.nn.embedding, random(1, 4), random(1, 3))
  if table_of then call("embedded", table_of, a) end
  call("one_hot", function() return pn.one_hot(a, count()) end)
  call("zeros", pn.zeros, sizes())
  call("expand", function() return pn.zeros { 1 }:broadcast_to(sizes(random(1, 3))) end)
end

local kinds = { step_machine, step_machine, live_filter, live_filter, whole_filter, hidden_markov, population, chains,
  draws, indexed, indexed }

while calls < options.calls do
  main = one { "float64", "float64", "float32" }
  pcall(one(kinds))
  if chance(0.2) then collectgarbage() end
end
os.remove(path)
log:close()
if answered == 0 then error "filter: nothing was answered" end
