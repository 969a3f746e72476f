--- Fuzzer of functions that scripts give: of models, losses, filters, distributions, bijectors and operations of their
--- own, compiled functions and maps over examples. Each does what it should until it does not: it gives another shape
--- or dtype, raises, closes what it was given, gives the same tensor twice or none at all, changes parameters, yields,
--- calls itself or what called it, captures within the capture, collects garbage, jumps out of a coroutine. What comes
--- of it does not matter; that the process lives, that no capture stays open and that a plain computation afterwards
--- has its value does.
---     lua spec/fuzz/function.lua --seconds 60 [--seed 1]      child processes, one seed each, until the time is over
---     lua spec/fuzz/function.lua --child 17 [--calls 400]     one of them, again
local options = dofile(arg[0]:gsub("[^/]*$", "") .. "children.lua") "function"
local limit = dofile(arg[0]:gsub("[^/]*$", "") .. "limit.lua")

local core = require "penumbra.core"
local pn = require "penumbra"
local random, unpack, pack = math.random, table.unpack, table.pack
local dist = pn.dist
math.randomseed(options.child)
pn.seed(options.child)
pn.threads(1)
pn.memory_limit(32 << 20)

local log = assert(io.open("log", "w"))
log:setvbuf "line"
_G.print = function() end

local function one(list) return list[random(#list)] end
local function chance(p) return random() < p end

-- ---- misbehaviour --------------------------------------------------------------------------------------------------

local depth, around = 0, {} -- how deep functions stand within each other; what called them, to be called again
local weights = {} -- parameters of the case

local function close(x)
  if type(x) == "userdata" then pcall(function() x:close() end) end
end

local function other_tensor()
  return one {
    function() return pn.randn(random(0, 4)) end, function() return pn.randn(random(3), random(3)) end,
    function() return pn.zeros() end, function() return pn.zeros(0, 2) end, function() return pn.randint(0, 4, 3) end,
    function() return pn.randn(3):to "float32" end, function() return pn.ones(2):gt(0) end,
    function() return pn.full({ 3 }, 0 / 0) end, function() return pn.full({ 3 }, 1 / 0) end,
    function() return pn.param(pn.randn(3)) end, function() return one(weights) or pn.ones(1) end,
    function() local x = pn.randn(3) x:close() return x end,
  }()
end

local function other_value()
  return one { nil, false, true, 0, -1, 0 / 0, 1 << 62, "x", "", print, {}, { 1 }, coroutine.create(print) }
end

local deeds = {
  function(args) for _, x in ipairs(args) do close(x) end end,
  function(args) close(one(args)) end,
  function() collectgarbage() end,
  function() collectgarbage "step" end,
  function() error(one { "mischief", {}, setmetatable({}, { __tostring = error }), 7 }) end,
  function() error() end,
  function() coroutine.yield(1) end,
  function() for _, w in ipairs(weights) do pcall(w.set, w, w:detach() * 2) end end,
  function() close(one(weights)) end,
  function(args) if depth < 4 and #around > 0 then pcall(one(around), unpack(args, 1, args.n)) end end,
  function(args) if depth < 4 and #around > 0 then return one(around)(unpack(args, 1, args.n)) end end,
  function(args) pcall(pn.compile(function(x) return x * 2 end), args[1]) end,
  function(args) pcall(pn.vmap(function(x) return x:sum() end), args[1]) end,
  function() pcall(core.capture.begin, pn.ones(2)) end,
  function() pcall(core.capture.cancel) end,
  function() pcall(core.set_no_grad, chance(0.5)) end,
  function(args) pcall(function() pn.grad(args[1]:sum(), { args[1] }) end) end,
  function() pcall(function() one(weights):sum():backward() end) end,
  function(args) pcall(function() return args[1]:item() end) end,
  function(args) for k in next, args do if chance(0.5) then args[k] = other_tensor() end end end,
  function() setmetatable({}, { __gc = function() pcall(one(around) or print) end }) end,
  function() local co = coroutine.wrap(function() coroutine.yield(pn.ones(2) * 2) end) pcall(co) end,
  function() pn.seed(random(5)) end,
  function() pcall(pn.memory_limit, 32 << 20) end,
}

--- Changes what a function has given.
local function spoiled(results)
  local k = random(math.max(results.n, 1))
  local what = random(9)
  if what == 1 then return pack() end
  if what == 2 then results[k] = other_tensor() end
  if what == 3 then results[k] = other_value() end
  if what == 4 then close(results[k]) end
  if what == 5 then results[results.n + 1], results.n = results[k], results.n + 1 end
  if what == 6 and core.is_tensor(results[k]) then
    pcall(function() results[k] = results[k]:to(one { "float32", "int64" }) end)
  end
  if what == 7 and core.is_tensor(results[k]) then pcall(function() results[k] = results[k]:unsqueeze(1) end) end
  if what == 8 and core.is_tensor(results[k]) then pcall(function() results[k] = results[k]:detach() end) end
  if what == 9 and core.is_tensor(results[k]) then pcall(function() results[k] = results[k]:sum() end) end
  return results
end

--- f, which misbehaves now and then. (It keeps no count: captures refuse functions that change what is outside.)
local function wild(f, hidden)
  local often = one { 0, 0.03, 0.1, 0.5, 1 }
  local function g(...)
    if not chance(often) then return f(...) end
    depth = depth + 1
    local args = pack(...)
    local ok, results = pcall(function()
      if chance(0.5) then
        local out = pack(one(deeds)(args))
        if out.n > 0 and chance(0.3) then return out end
      end
      local results = pack(f(unpack(args, 1, args.n)))
      if chance(0.2) then one(deeds)(args) end
      return chance(0.6) and spoiled(results) or results
    end)
    depth = depth - 1
    if not ok then error(results, 0) end
    return unpack(results, 1, results.n)
  end
  if not hidden then around[#around % 8 + 1] = g end
  return g
end

-- ---- what takes functions ------------------------------------------------------------------------------------------

local function param(...)
  local w = pn.param(pn.randn(...))
  weights[#weights + 1] = w
  return w
end

local function kept(f) -- may be called by the functions that it calls
  around[#around % 8 + 1] = f
  return f
end

local function regression()
  return pn.model(wild(function(m, x, y)
    local w = m:sample("w", dist.normal(pn.zeros { 2 }, 1):independent(1))
    if chance(0.3) then m:deterministic("twice", w * 2) end
    m:plate("rows", x:size(1), wild(function(i)
      m:observe("y", dist.normal((x:take(1, i) * w):sum(-1), 0.5), y:take(1, i))
    end, true)) -- it keeps w
  end))
end

local function own_normal()
  return dist.custom { name = "wild",
    parameters = { { "loc", default = 0 }, { "scale", constraint = "positive", default = 1 } },
    log_prob = wild(function(d, x) return ((x - d.loc) / d.scale):square() * -0.5 - d.scale:log() end),
    rsample = wild(function(d, shape, g)
      return d.loc + d.scale * pn.randn(shape, { generator = g, dtype = d.dtype })
    end),
    mean = wild(function(d) return d.loc end), entropy = wild(function(d) return d.scale:log() end),
    cdf = wild(function(d, x) return (x - d.loc):sigmoid() end) }
end

local function own_map()
  return dist.bijector.custom { name = "wild", forward = wild(function(x) return x:exp() end),
    inverse = wild(function(y) return y:log() end), log_det = wild(function(x) return x end) }
end

local function own_op()
  return pn.op { name = "wild", forward = wild(function(a, b) return a * b end),
    vjp = wild(function(g, _, a, b) return g * b, g * a end) }
end

local function filter()
  return { num_particles = random(2, 6), init = wild(function(n) return pn.randn { n } end),
    step = wild(function(x) return x * 0.9 + pn.randn(x:shape()) end),
    log_weight = wild(function(x, y) return -((x - y) ^ 2) end) }
end

local cases = {
  compile = function()
    local w = param(3)
    local f = kept(pn.compile(wild(function(x) return (x * w):sin(), x:sum() end)))
    for _ = 1, 6 do pcall(f, chance(0.7) and pn.randn(3) or other_tensor()) end
  end,
  step = function()
    local net = pn.nn.sequential { pn.nn.linear(3, 2), pn.nn.tanh(), pn.nn.linear(2, 1) }
    for _, w in ipairs(net:parameters()) do weights[#weights + 1] = w end
    local opt = pn.optim.adam(net:parameters(), { lr = 0.01 })
    local step = kept(pn.compile(wild(function(x) return net(x):square():mean() end), { optimiser = opt }))
    for _ = 1, 6 do pcall(step, chance(0.8) and pn.randn(4, 3) or other_tensor()) end
  end,
  vmap = function()
    local w = param(3)
    local f = kept(pn.vmap(wild(function(x) return (x * w):sum(), chance(0.5) and w or x end)))
    for _ = 1, 4 do pcall(f, chance(0.8) and pn.randn(random(0, 4), 3) or other_tensor()) end
  end,
  derivatives = function()
    local w = param(3)
    local f = wild(function(x) return ((x or w) * w):sum() end)
    pcall(pn.check_gradients, f, { w })
    pcall(pn.jacobian, f, { w })
    pcall(pn.hessian, f, { w })
    pcall(pn.no_grad, f)
  end,
  op = function()
    local f, w, v = kept(own_op()), param(3), param(3)
    for _ = 1, 4 do
      pcall(function() return pn.grad(f(w, v):sum(), { w, v }, { create_graph = chance(0.5) }) end)
      pcall(pn.compile(function(x) return pn.grad((f(w, x) * x):sum(), { w })[1] end), pn.randn(3))
      pcall(pn.vmap(function(x) return f(w, x):sum() end), pn.randn(2, 3))
    end
  end,
  distribution = function()
    local kind = own_normal()
    for _ = 1, 3 do
      pcall(function()
        local d = kind { loc = param(3), scale = 2 }
        if chance(0.3) then d = dist.transformed(d, own_map()) end
        if chance(0.2) then d = d:independent(1) end
        local x = d:rsample { 2 }
        pn.grad(d:log_prob(x):sum(), weights)
        return d:mean(), d:entropy(), d:cdf(x), dist.kl_monte_carlo(d, d, { draws = 3 })
      end)
    end
  end,
  bijector = function()
    local b = own_map()
    for _ = 1, 3 do
      pcall(function()
        local x = param(3)
        local both = dist.bijector.chain { b, dist.bijector.exp() }
        return b:forward(x), b:inverse(b:forward(x)), b:log_abs_det(x), both:forward(x)
      end)
    end
  end,
  model = function()
    local model, x, y = regression(), pn.randn(5, 2), pn.randn(5)
    pcall(model.trace, model, x, y)
    pcall(model.log_density, model, { w = pn.randn(2) }, x, y)
    pcall(function() return model:condition { w = pn.randn(2) }:trace(x, y) end)
  end,
  nuts = function()
    local data = { pn.randn(5, 2), pn.randn(5) }
    local posterior = pn.nuts(regression(), { data = data, warmup = 4, draws = 4, chains = 1 })
    pcall(posterior.predict, posterior, pn.randn(5, 2), pn.randn(5))
    pcall(posterior.summary, posterior)
  end,
  svi = function()
    local guide = chance(0.5) and "mean_field" or pn.model(wild(function(m)
      m:sample("w", dist.normal(m:param("loc", pn.zeros { 2 }), 1):independent(1))
    end))
    local fit = pn.svi(regression(), guide, { data = { pn.randn(5, 2), pn.randn(5) }, steps = 4,
      on_step = wild(function() end), lr = 0.01 })
    pcall(fit.sample, fit, 3)
  end,
  fit = function()
    local net = pn.nn.linear(3, 1)
    for _, w in ipairs(net:parameters()) do weights[#weights + 1] = w end
    pn.train.fit { data = { pn.randn(8, 3), pn.randn(8, 1) }, optimiser = pn.optim.sgd(net:parameters(), { lr = 0.01 }),
      loss = wild(function(x, y) return (net(x) - y):square():mean() end), epochs = 3, batch_size = 4,
      on_epoch = wild(function() end) }
  end,
  lbfgs = function()
    local w = param(3)
    local opt = pn.optim.lbfgs { w }
    for _ = 1, 3 do pcall(opt.step, opt, wild(function() return (w * w):sum() end)) end
  end,
  filter = function()
    local f = pn.smc.filter(filter())
    for _ = 1, 5 do pcall(f.observe, f, pn.tensor(0.5)) end
    pcall(f.mean, f, wild(function(x) return x end))
    pcall(f.run, f, pn.randn(4))
  end,
  online = function()
    local f = kept(pn.smc.filter(filter()):online())
    for _ = 1, 5 do pcall(f.observe, f, chance(0.8) and 0.5 or other_value()) end
    pcall(f.save, f, "state")
    pcall(f.load, f, "state")
  end,
  ode = function()
    local w = param(3)
    local f = wild(function(_, z, v) return -(z * v) end)
    local y = pn.odeint(f, pn.ones(3), pn.linspace(0, 1, 3), { parameters = { w } })
    return pn.grad(y:sum(), { w })
  end,
  sde = function()
    local w = param(3)
    local f, g = wild(function(_, z, v) return -(z * v) end), wild(function(_, z, v) return z:cos() * v end)
    local y = pn.sde(f, g, pn.ones(2, 3), pn.linspace(0, 1, 3), { parameters = { w }, method = "heun" })
    return pn.grad(y:sum(), { w })
  end,
}
local names = {}
for name in pairs(cases) do names[#names + 1] = name end
table.sort(names)

-- ---- calls ---------------------------------------------------------------------------------------------------------

-- What the case left waiting to be collected runs now and has nothing left to call: a finaliser that turned gradients
-- off in the middle of the plain computation would be right to change it.
local function settle()
  debug.sethook()
  around = {}
  collectgarbage()
  for _ = 1, 20 do
    if not core.capture.going_on() then break end
    pcall(core.capture.cancel)
  end
  pcall(core.set_no_grad, false)
end

local function plain()
  local w = pn.param(pn.tensor { 1, 2, 3 })
  local f = pn.compile(function(x) return pn.grad((w * w * x):sum(), { w })[1] end)
  local got = f(pn.tensor { 1, 1, 2 }):totable()
  assert(got[1] == 2 and got[2] == 4 and got[3] == 12, "a plain computation has another value")
end

for i = 1, options.calls // 10 do
  local name = one(names)
  log:write(i, " ", name, "\n")
  weights, around, depth = {}, {}, 0
  limit(300)
  if chance(0.2) then collectgarbage(one { "generational", "incremental" }) end
  if chance(0.2) then
    local co = coroutine.create(cases[name])
    for _ = 1, 3 do if not coroutine.resume(co, 1) then break end end
  else
    pcall(cases[name])
  end
  settle()
  log:write(i, " plain\n")
  plain()
end
log:close()
