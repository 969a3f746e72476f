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
local nn, optim, dist, infer = pn.nn, pn.optim, pn.dist, pn.infer
local random = math.random
math.randomseed(options.child)
pn.threads(1)

local function one(list) return list[random(#list)] end
local function chance(p) return random() < p end

-- ---- what can be saved ---------------------------------------------------------------------------------------------
-- Each kind: make(path) writes a good file; load(path) gives what was loaded or nil, message, code; use(loaded) works
-- with it; alive() gives what must not have changed when a load fails.

local kinds = {}

-- The numbers of tensors and tables as one text, to the bit.
local function text_of(v)
  if core.is_tensor(v) then
    return v:dtype() .. text_of(v:numel() == 0 and {} or v:detach():reshape { -1 }:totable())
  elseif type(v) == "table" then
    local list = {}
    for key, value in pairs(v) do list[#list + 1] = tostring(key) .. "=" .. text_of(value) end
    table.sort(list)
    return "{" .. table.concat(list, ",") .. "}"
  end
  return math.type(v) == "float" and ("%a"):format(v) or tostring(v)
end

local x = pn.tensor { { 0.1, 0.2 }, { -0.5, 0.3 }, { 0.7, -0.4 }, { 0.2, 0.9 } }
local y = pn.tensor { 0.3, -0.2, 0.5, 0.4 }

kinds.tree = {
  make = function(path)
    local flow = dist.transformed(dist.normal(pn.zeros { 2 }, 1), dist.bijector.affine(1, 2))
    assert(pn.save(path, { a = pn.randn { 2, 3 }, i = pn.arange(4), flag = true, n = 3, r = 0.5, s = "text\0more",
      list = { 1, 2, { deep = { deeper = pn.ones { 1 } } } }, normal = dist.normal(pn.zeros { 3 }, pn.ones { 3 }),
      gamma = dist.gamma(2, pn.tensor { 1, 2 }):expand { 3, 2 }:independent(1), flow = flow,
      categorical = dist.categorical { probs = pn.tensor { 0.2, 0.8 } },
      mixture = dist.mixture(dist.categorical { probs = pn.tensor { 0.2, 0.8 } },
        { dist.normal(0, 1), dist.normal(1, 1) }),
      chain = dist.bijector.chain { dist.bijector.exp(), dist.bijector.affine(0, 2) } }, { note = "text" }))
  end,
  load = function(path) return pn.load(path, chance(0.2) and { nested = chance(0.5) } or nil) end,
  use = function(t)
    for _, v in pairs(t) do
      if core.is_tensor(v) then
        tostring(v * 1)
      elseif type(v) == "userdata" then
        pcall(function()
          tostring(v)
          if v.sample then v:log_prob(v:sample { 2 }) else v:inverse(v:forward(pn.tensor { 0.5, 0.2 })) end
        end)
      end
    end
  end,
}

for format, make in pairs {
  npz = function(path) assert(pn.data.save_npz(path, { a = pn.randn { 3, 2 }, b = { c = pn.arange(3) } })) end,
  npy = function(path) assert(pn.data.save_npy(path, pn.randn { 3, 2 })) end,
  idx = function(path) assert(pn.data.save_idx(path, pn.arange(6):reshape { 2, 3 })) end,
  csv = function(path) assert(pn.data.save_csv(path, pn.randn { 3, 2 }, { names = { "a", "b" } })) end,
  gluonts = function(path)
    write_all(path, '{"start": "2024-01-01", "target": [1, 2.5, NaN, 4], "item_id": "a", "feat_static_cat": [0]}\n'
      .. '{"start": "2024-01-02 10:00", "target": [1, 2, 3], "feat_dynamic_real": [[1, 2, 3]]}\n')
  end,
} do
  kinds[format] = { raw = true, make = make, load = function(path)
    return pn.data[format](path, format == "gluonts" and { freq = "D" } or nil)
  end, use = function(t) tostring(core.is_tensor(t) and t * 2 or t) end }
end

kinds.rows = {
  make = function(path) assert(pn.save(path, { a = pn.randn { 5, 2 } })) end,
  load = function(path) return pn.data.open(path, { name = chance(0.5) and "a" or nil }) end,
  use = function(a)
    tostring(a)
    a:slice(1, 1, a:size(1))
    a:take(1, pn.tensor({ 0, 2, 4 }, { dtype = "int64" }))
    a:close()
  end,
}

-- A fresh run of all that a checkpoint can keep.
local function run_of_all()
  local r = { net = nn.sequential { nn.linear(2, 3), nn.batch_norm(3), nn.tanh(), nn.linear(3, 1) },
    generator = pn.generator(3), w = pn.param(pn.zeros { 2 }), guide = dist.normal(pn.param(pn.ones { 2 }),
      pn.param(pn.ones { 2 })), plateau = optim.plateau(0.01, { patience = 0 }) }
  for _, row in ipairs(pn.rows()) do
    if row.kind == "optimiser" then r[row.name] = optim[row.name](r.net, { lr = 1e-3 }) end
  end
  r.quasi = optim.lbfgs({ r.w }, { max_steps = 2 })
  r.mean = optim.average(r.net)
  return r
end

local function step_all(r)
  local function loss()
    return (r.net(pn.randn({ 4, 2 }, { generator = r.generator })):squeeze(2) - y):square():mean()
  end
  for _, row in ipairs(pn.rows()) do
    if row.kind == "optimiser" then r[row.name]:step(loss()) end
  end
  r.quasi:step(function() return (r.w - pn.tensor { 1, 2 }):square():square():sum() end)
  r.mean:update()
  r.plateau:step(1)
  r.guide:sample()
end

local function states(r)
  local out = { pn.rng_state(), r.generator:state(), r.w }
  for name, part in pairs(r) do
    if name ~= "generator" and name ~= "w" then
      out[name] = part:state()
    end
    if name == "adam" then out.lr = part.lr end
  end
  return text_of(out)
end

local run = run_of_all()
kinds.checkpoint = {
  make = function(path)
    step_all(run)
    assert(pn.checkpoint.save(path, run))
  end,
  load = function(path) return pn.checkpoint.load(path, run) end,
  use = step_all,
  alive = function() return states(run) end,
}

local function training(path, net, resume)
  return pn.train.fit { data = { x, y }, optimiser = optim.adam(net, { lr = 0.01 }), epochs = resume and 4 or 2,
    batch_size = 2, seed = 1, patience = 3, validate = function() return random() end, model = net, checkpoint = path,
    resume = resume, loss = function(a, b) return (net(a):squeeze(2) - b):square():mean() end }
end

local trained = nn.linear(2, 1)
kinds.training = {
  make = function(path) training(path, nn.linear(2, 1)) end,
  load = function(path) return training(path, trained, true) end,
}

local function network() return nn.sequential { nn.linear(2, 3), nn.tanh(), nn.linear(3, 1) } end

for name, more in pairs { normal = { noise = { learn = true, initial = 0.1 } }, bernoulli = {} } do
  local targets = name == "normal" and y or y:gt(0):to "float64"
  kinds["learner_" .. name] = {
    make = function(path)
      local o = { network = network(), likelihood = name, memory = { size = 3 }, seed = 1,
        forget = pn.continual.bayesian_forgetting { rate = 0.05 }, draws = { train = 2, sites = 20, predict = 5 },
        steps = { first = 3, later = 2 } }
      for key, value in pairs(more) do o[key] = value end
      local learner = pn.continual.learner(o)
      learner:observe(x, targets)
      assert(learner:save(path))
    end,
    load = function(path) return pn.continual.load(path, { network = network() }) end,
    use = function(learner)
      tostring(learner)
      learner:predict(x)
      learner:log_predictive(x, targets)
      learner:observe(x, targets)
      learner:observe(x, targets, 7)
      learner:save "again"
    end,
  }
end

-- A model of pools that changes while it learns, and a pool that has been asked and told a part.
local function pool_model()
  local net = nn.bayesian(nn.sequential { nn.linear(2, 3), nn.relu { rule = "clt" }, nn.linear(3, 2) })
  local opt = optim.adam(net, { lr = 0.01 })
  return pn.active.network(net, { classes = 2, link = "probit", keep = { net = net, optimiser = opt },
    fit = function(a) opt:step(net:moments(a):square():mean() + net:kl()) end }), net, opt
end

local pool_x = pn.randn { 12, 2 }
for name, acquisition in pairs { bald = "bald", reinforced = { "reinforced", ranked = 9, every = 2, points = 3,
    hidden = 4 } } do
  local live, net, opt = pool_model()
  kinds["pool_" .. name] = {
    make = function(path)
      local p = pn.active.pool { x = pool_x, model = (pool_model()), acquisition = acquisition, first = 3, count = 2,
        max_labels = 9, seed = 1 }
      p:ask()
      p:tell { 0, -1, 1 }
      p:tell({ 1 }, p:ask():slice(1, 2, 2))
      assert(p:save(path))
    end,
    load = function(path) return pn.active.load(path, { x = pool_x, model = live }) end,
    use = function(p)
      tostring(p)
      p:labelled()
      p:run(function(at) return at:remainder(2) end)
      p:predict(pool_x)
      p:save "again"
    end,
    alive = function() return text_of { net:state(), opt:state() } end,
  }
end

local model = pn.model(function(m, a, b)
  local w = m:sample("w", dist.normal(pn.zeros { 2 }, 1):independent(1))
  local s = m:sample("s", dist.gamma(2, 2))
  m:deterministic("double", w * 2)
  m:observe("y", dist.normal(a:matmul(w), s), b)
end)

kinds.posterior = {
  make = function(path) assert(pn.nuts(model, { data = { x, y }, chains = 2, warmup = 20, draws = 8 }):save(path)) end,
  load = function(path) return infer.load_posterior(path, model, { data = { x, y } }) end,
  use = function(p)
    tostring(p)
    p:summary()
    p:predict { draws = 3 }
    p:log_likelihood()
    p:loo()
    p:save "again"
  end,
}

kinds.particles = {
  make = function(path)
    local p = pn.smc.sample(model, { data = { x, y }, num_particles = 32 })
    assert(p:save(path))
  end,
  load = kinds.posterior.load,
  use = function(p)
    tostring(p)
    p:predict { draws = 3 }
  end,
}

local plain_model = pn.model(function(m, a, b) -- whose posterior is normal
  m:observe("y", dist.normal(a:matmul(m:sample("w", dist.normal(pn.zeros { 2 }, 1):independent(1))), 0.5), b)
end)

for guide, of in pairs { mean_field = model, laplace = plain_model } do
  local name, fit = guide, nil
  local function new(steps) return pn.svi(of, guide, { data = { x, y }, steps = steps }) end
  kinds["fit_" .. name] = {
    make = function(path)
      assert(new(20):save(path))
      fit = new(0)
    end,
    load = function(path) return fit:load(path) end,
    use = function(f)
      tostring(f)
      f:sample(3)
      f:continue(2)
      f:bound { draws = 5 }
    end,
    alive = function() return text_of { fit:state(), fit.optimiser:state(), fit.losses, fit.seconds } end,
  }
end

local function particle_filter()
  return pn.smc.filter { num_particles = 16, threshold = 1,
    resampling = one { "systematic", "stratified", "multinomial", "residual", "ssp", "killing" },
    init = function(n) return pn.randn { n } end,
    step = function(before) return before * 0.9 + pn.randn { 16 } end,
    log_weight = function(state, seen) return dist.normal(state, 0.5):log_prob(seen:broadcast_to { 16 }) end }:online()
end

local function exact_filter()
  return pn.smc.exact_filter { initial_mean = pn.zeros { 1 }, initial_cov = pn.eye(1), transition = pn.eye(1),
    transition_cov = pn.eye(1),
    emission = pn.ones { 1, 1 }, emission_cov = pn.eye(1) }
end

for name, new in pairs { particle_filter = particle_filter, exact_filter = exact_filter } do
  local live
  kinds[name] = {
    make = function(path)
      live = new()
      live:observe(0.3)
      live:observe(nil)
      assert(live:save(path))
    end,
    load = function(path)
      local ok, message, code = live:load(path)
      return ok and live or nil, message, code
    end,
    use = function(f)
      for _ = 1, 3 do
        f:observe(0.1)
        f:observe(nil)
      end
      f:run(pn.tensor { 0.1, 0 / 0, 0.3 })
      return f:mean(), f:variance(), f:log_evidence(), f:effective_sample_size()
    end,
    alive = function()
      return text_of { live:steps(), live:log_evidence(), live:mean(), live:variance(), live:effective_sample_size() }
    end,
  }
end

local batch = { y = pn.randn { 6, 2, 1 } }
for name, make in pairs { deepar = function() return pn.models.deepar { size = 1, hidden = 3 } end,
    deep_state = function() return pn.models.deep_state { size = 1, hidden = 3 } end } do
  kinds[name] = {
    make = function(path) assert(make():save(path)) end,
    load = function(path) return pn.models.load(path) end,
    use = function(m)
      tostring(m)
      m:log_evidence(batch)
      m:forecast(batch, 2, { draws = 3 })
    end,
  }
end

local function windows(path, m, resume)
  m:fit { series = pn.data.series({ { target = pn.randn { 20 } }, { target = pn.randn { 25 } } }, { freq = "D" }),
    steps = 3, batch_size = 2, window = 8, checkpoint = path, resume = resume, progress = false, seed = 1,
    compile = false, on_step = function(s) return resume or s.iteration < 2 end }
  return m
end

local forecaster = pn.models.deepar { size = 1, hidden = 3 }
kinds.window_training = {
  make = function(path) windows(path, pn.models.deepar { size = 1, hidden = 3 }) end,
  load = function(path) return windows(path, forecaster, true) end,
}

local target = nn.sequential { nn.linear(2, 3), nn.batch_norm(3) }
for layout in pairs { penumbra = 1, torch = 1 } do
  kinds["state_" .. layout] = {
    make = function(path) assert(pn.save(path, target:state { layout = layout })) end,
    load = function(path)
      local state, message, code = pn.load(path)
      if not state then return nil, message, code end
      return target:load_state(state, { layout = layout })
    end,
    use = function(net) net(x) end,
    alive = function() return text_of(target:state()) end,
  }
end

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
