--- Fuzzer of what is captured once and applied to other tensors: random programs of the library's operations, compiled,
--- mapped over examples, and as gradients of operations of their own (and of rules by hand), with other sizes, ranks
--- and dtypes, views and empty tensors. What a compiled program gives must be what the program gives, what a map gives
--- the results of the examples one by one, and a rule either fits or says that it does not.
---     lua spec/fuzz/rule.lua --seconds 60 [--seed 1]      child processes, one seed each, until the time is over
---     lua spec/fuzz/rule.lua --child 17 [--calls 400]     one of them, again
local options = dofile(arg[0]:gsub("[^/]*$", "") .. "children.lua") "rule"

local core = require "penumbra.core"
local pn = require "penumbra"
local random, unpack, pack = math.random, table.unpack, table.pack
math.randomseed(options.child)
pn.seed(options.child)
pn.threads(1)
pn.memory_limit(64 << 20)

local log = assert(io.open("log", "w"))
log:setvbuf "line"

local function one(list) return list[random(#list)] end
local function chance(p) return random() < p end

-- ---- programs ------------------------------------------------------------------------------------------------------

local function size() return one { 0, 1, 1, 2, 2, 3, 3, 4, 5 } end
local function shape(most)
  local list = {}
  for i = 1, random(0, most or 3) do list[i] = size() end
  return list
end
local function matrix(t) return t:matmul(t:t()) + pn.eye(t:size(-2)):to(t:dtype()) end

--- Each draws what it needs when the program is made and gives a function of the tensors so far.
local steps = {
  function() local name = one { "sin", "exp", "tanh", "sigmoid", "square", "abs", "relu", "softplus", "neg", "floor",
      "erf", "lgamma", "log1p", "isfinite" }
    return function(a) return pn[name](a) end end,
  function() local name = one { "add", "sub", "mul", "div", "maximum", "minimum", "atan2", "logaddexp", "lt", "eq" }
    return function(a, b) return pn[name](a, b) end end,
  function() local name = one { "sum", "mean", "max", "min", "logsumexp", "prod", "any", "all" }
    local at, keep = random(-2, 2), chance(0.5)
    return function(a) return pn[name](a, at ~= 0 and at or nil, { keepdim = keep }) end end,
  function() local name, at = one { "softmax", "log_softmax", "cumsum", "argmax", "argmin", "logcumsumexp", "argsort",
      "argcummax", "flip" }, one { -1, 1, 2 }
    return function(a) return pn[name](a, at) end end,
  function() local s = shape() return function(a) return a:reshape(s) end end,
  function() local s = shape(4) return function(a) return a:broadcast_to(s) end end,
  function() local at, from, to = one { 1, 1, -1 }, random(-3, 3), random(-3, 3)
    return function(a) return a:slice(at, from, to) end end,
  function() local k = random(3) return function(a) return a[k] end end,
  function() return function(a) return a:t() end end,
  function() return function(a) return a:unsqueeze(1) end end,
  function() local at = one { -1, 1, 2 } return function(a, b) return pn.concatenate({ a, b }, at) end end,
  function() local at = one { -1, 1 } return function(a, b) return pn.stack({ a, b }, at) end end,
  function() return function(a, b) return a:matmul(b) end end,
  function() return function(a) return matrix(a):cholesky() end end,
  function() return function(a, b) return matrix(a):solve(b) end end,
  function() return function(a) return matrix(a):logdet() end end,
  function() return function(a) return a:tril() end end,
  function() return function(a) return a:diagonal() end end,
  function() return function(a, b) return pn.where(a:gt(0), a, b) end end,
  function() return function(a) return a:to "float32" end end,
  function() return function(a) return a:to "int64" end end,
  function() local at = pn.randint(-1, 3, shape(2)) return function(a) return a:take(1, at) end end,
  function() local at = one { 1, -1 } return function(a, b) return a:gather(at, b:to "int64") end end,
  function() local k, s, p = random(3), random(2), random(0, 1)
    return function(a) return pn.max_pool2d(a, k, s, p) end end,
  function() local k = random(2) return function(a) return pn.avg_pool2d(a, k) end end,
  function() return function(a, b) return pn.conv2d(a, b, { padding = 1 }) end end,
  function() return function(a) return a:diag_embed() end end,
  function() local b, e = random(0, 2), random(0, 2) return function(a) return a:pad(1, b, e) end end,
  function() return function(a, b) return pn.einsum("...i,...i->...", a, b) end end,
  function() return function(a, b) return a:linear_recurrence(b, 1) end end,
}

--- A program: a function of tensors to the last tensor that it makes; steps that do not fit are left out for good.
local function program(examples)
  local list, values = {}, pack(unpack(examples))
  for _ = 1, random(1, 7) do
    local step, i, j = one(steps)(), random(#values), random(#values)
    local ok, y = pcall(step, values[i], values[j])
    if ok and core.is_tensor(y) and y:numel() < 4000 then
      list[#list + 1] = { step, i, j }
      values[#values + 1] = y
    end
  end
  return function(...)
    local t = { ... }
    for _, s in ipairs(list) do t[#t + 1] = s[1](t[s[2]], t[s[3]]) end
    return t[#t]
  end
end

-- ---- inputs --------------------------------------------------------------------------------------------------------

local function tensor(s, dtype)
  local t = dtype == "int64" and pn.randint(0, 4, s) or pn.rand(s, { dtype = dtype })
  local way = random(6)
  if way == 1 and #s > 1 then return (t:t() * 1):t() end
  if way == 2 and #s > 0 then return pn.stack({ t, t }, -1):slice(-1, 1, 1):squeeze(-1) end
  if way == 3 and #s > 0 then return t:flip(1) end
  return t
end

local function other(t)
  local s, way = t:shape(), random(6)
  if way == 1 and #s > 0 then s[random(#s)] = size() end
  if way == 2 then table.insert(s, random(#s + 1), size()) end
  if way == 3 and #s > 0 then table.remove(s, random(#s)) end
  if way == 4 and #s > 1 then s[1], s[2] = s[2], s[1] end
  return tensor(s, way == 5 and one { "float32", "int64", "float64" } or t:dtype())
end

-- ---- what must hold ------------------------------------------------------------------------------------------------

local function failed(...)
  log:write("DIFFERS ", string.format(...), "\n")
  print(string.format(...))
  os.exit(1, false)
end

local function text(t) return ("%s [%s]"):format(t:dtype(), table.concat(t:shape(), ", ")) end

--- The same, to rounding where numbers are large or come by another way.
local function same(what, got, want)
  if text(got) ~= text(want) then failed("%s gives %s instead of %s", what, text(got), text(want)) end
  local a, b = got:detach():to "float64", want:detach():to "float64"
  local tolerance = want:dtype() == "float32" and 1e-3 or 1e-7
  local fine = a:eq(b):logical_or((a - b):abs():le(b:abs() * tolerance + tolerance))
  fine = fine:logical_or(b:isfinite():logical_not():logical_and(a:isfinite():logical_not()))
  if not fine:all():item() then failed("%s gives %s instead of %s", what, tostring(got), tostring(want)) end
end

local function settle()
  for _ = 1, 20 do
    if not core.capture.going_on() then break end
    pcall(core.capture.cancel)
  end
  pcall(core.set_no_grad, false)
end

local function said(name, list)
  local parts = {}
  for k, t in ipairs(list) do parts[k] = text(t) end
  log:write(name, "(", table.concat(parts, ", "), ")\n")
end

local function inputs()
  local list = {}
  for k = 1, random(2) do list[k] = tensor(shape(4), one { "float64", "float64", "float32", "int64" }) end
  return list
end

local function compiled()
  local x = inputs()
  local f = program(x)
  local g = pn.compile(f)
  for _ = 1, 4 do
    said("compiled", x)
    local ok, want = pcall(f, unpack(x))
    local fine, got = pcall(g, unpack(x))
    if ok and fine and core.is_tensor(got) then same("a compiled program", got, want) end
    if ok and not fine and not tostring(got):find "compile" then
      failed("a compiled program fails: %s", tostring(got))
    end
    x[random(#x)] = other(one(x))
  end
end

local function mapped()
  local x = inputs()
  local f, n = program(x), random(0, 4)
  local g, whole = pn.vmap(f), {}
  for k, t in ipairs(x) do whole[k] = n == 0 and t:unsqueeze(1):slice(1, 1, 0) or pn.stack({ t, unpack((function()
    local more = {}
    for i = 1, n - 1 do more[i] = tensor(t:shape(), t:dtype()) end
    return more
  end)()) }, 1) end
  said("mapped", whole)
  local fine, got = pcall(g, unpack(whole))
  if not fine or n == 0 then return end
  local each = {}
  for i = 1, n do
    local row = {}
    for k, t in ipairs(whole) do row[k] = t[i] end
    local ok, y = pcall(f, unpack(row))
    if not ok then return end
    each[i] = y
  end
  local ok, want = pcall(pn.stack, each, 1)
  if ok and not core.is_tensor(got) then failed "a map gives no tensor" end
  if ok then same("a map", got, want) end
  pcall(g, unpack((function() whole[random(#whole)] = other(one(whole)) return whole end)()))
end

local function operations()
  local x = tensor(shape(3), "float64")
  local inner = program { x }
  local function slope(v)
    local d = inner(v)
    return (d:to(v:dtype()):sum() + v * 0):detach()
  end
  local f = pn.op { forward = function(v) return v * 2 end, vjp = function(g, _, v) return g * slope(v) end }
  for _ = 1, 3 do
    said("operation", { x })
    local w = pn.param(x)
    local ok, want = pcall(slope, x)
    local fine, got = pcall(function() return pn.grad(f(w):sum(), { w })[1] end)
    if ok and fine then same("an operation's gradient", got, want) end
    pcall(function() return pn.grad(pn.vmap(f)(w):sum(), { w })[1] end)
    x = other(x)
    if x:dtype() == "int64" then x = x:to "float64" end
  end
end

local function rules()
  local x = inputs()
  for k, t in ipairs(x) do x[k] = t:to "float64" end
  local f = program(x)
  local rule = core.rule.new(f)
  local ok, y = pcall(f, unpack(x))
  if not ok or y:dtype() ~= "float64" then return end
  y = y:detach()
  said("rule", x)
  pcall(function()
    local inside = pack(core.rule.enter(rule, pn.ones(y:shape()), y, unpack(x)))
    local z, out = f(unpack(inside, 3, inside.n)), {}
    for k = 1, #x do out[k] = (inside[k + 2] * z:sum()) * inside[1]:sum() end
    core.rule.leave(rule, unpack(out))
  end)
  settle()
  for _ = 1, 4 do
    local v = {}
    for k, t in ipairs(x) do v[k] = pn.param((chance(0.5) and other(t) or t):to "float64") end
    said("rule applied", v)
    pcall(function()
      local z = core.rule.apply(rule, chance(0.7) and y or other(y), unpack(v))
      for k, d in ipairs(pn.grad(z:sum(), v)) do
        if text(d) ~= text(v[k]) then failed("a rule gives %s for %s", text(d), text(v[k])) end
      end
    end)
  end
end

for i = 1, options.calls // 4 do
  one { compiled, mapped, operations, rules, compiled, mapped }()
  settle()
  if i % 50 == 0 then collectgarbage() end
end
log:close()
