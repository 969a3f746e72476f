--- Scripts that attack the library from within a call: metatables on option tables, finalisers that close, change and
--- collect, lists that change, numbers out of range, objects nested too deep. Each attack runs in a process of its own,
--- and must end with exit code 0: a crash or a report of a sanitiser fails. (`make asan` runs these too.)
local lua = arg and arg[-1] and os.getenv "LUA" or "lua5.4"

--- Everything that an attack may use: a storm of finalisers that run f while other calls allocate.
local prelude = [[
local pn = require "penumbra"
local dist, nn, optim = pn.dist, pn.nn, pn.optim
local core = require "penumbra.core"
local storming = false
local function storm(f)
  storming = true
  collectgarbage("generational", 1) -- what is young is collected whenever the heap has grown by a hundredth
  local function gust() setmetatable({}, {__gc = function() if storming then pcall(f) gust() end end}) end
  for _ = 1, 20 do gust() end
end
-- A call g(arm(f, ...)): at its first allocation everything young and dead is collected, and the finaliser f runs.
collectgarbage "generational"
local function arm(f, ...)
  setmetatable({}, {__gc = function() pcall(f) end})
  collectgarbage "restart"
  return ...
end
local function calm() storming = false collectgarbage() end
local function refused(pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert(not ok, "was not refused: " .. pattern)
  assert(tostring(message):find(pattern), message)
end
]]

local function attack(code, before)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(before or "", prelude, code)
  file:close()
  local command = ("timeout 60 %s %s 2>&1; echo exit $?"):format(os.getenv "LUA" or lua, path)
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  os.remove(path)
  assert(text:find "exit 0%s*$", text)
end

local function it_survives(name, code, before)
  it("survives " .. name, function() attack(code, before) end)
end

describe("options are plain data, read raw:", function()
  it_survives("__index that closes what is worked on", [[
    local x = pn.randn(300, 300)
    local function closing(t) return setmetatable(t, {__index = function() x:close() end}) end
    assert(#x:sum(closing{keepdim = true}):shape() == 2 and x:numel() == 90000)
    local d = dist.normal(pn.zeros{5}, 1)
    local closes = setmetatable({3}, {__index = function() d:close() end})
    assert(d:sample(closes):numel() == 15 and d:mean():numel() == 5)
    pn.rand(3, closing{dtype = "float32"})
    pn.grad(pn.param(pn.ones(2)):sum(), {}, closing{})
    local g = pn.generator(1)
    nn.linear(3, 2, closing{generator = g})
    assert(x:numel() == 90000)]])
  it_survives("__index that grows or nests the list of a tensor", [[
    for _, n in ipairs{100, 65536} do
      local key, t = "dtype", {}
      for i = 1, n do t[i] = i end
      setmetatable(t, {__index = function(_, k)
        if k == key then for i = n + 1, 100000 do rawset(t, i, i) end end
      end})
      assert(pn.tensor(t):numel() == n)
      local u = {1}
      setmetatable(u, {__index = function() u[1] = u end})
      assert(pn.tensor(u):numel() == 1)
    end]])
  it_survives("__index in the options of a Kalman filter", [[
    local m, p, eye = pn.zeros{2}, pn.eye(2), pn.eye(2)
    local y = pn.ones{2}
    local opts = setmetatable({details = true}, {__index = function() m:close() p:close() y:close() end})
    pn.kalman_update(m, p, y, eye, nil, eye, opts)
    pn.kalman_step(m, p, eye, nil, eye, y, eye, nil, eye, setmetatable({}, getmetatable(opts)))
    assert(m:numel() + p:numel() + y:numel() == 8)]])
  it_survives("texts of values in messages: no __tostring is called", [[
    local x = pn.ones(3)
    local evil = setmetatable({}, {__tostring = function() x:close() return "evil" end, __name = "evil"})
    refused("must be", x.slice, x, 1, evil)
    refused("must be", pn.randint, evil, 3)
    refused("must be", pn.seed, evil)
    refused("must be", pn.zeros, {2, evil})
    refused("dtype must be", pn.zeros, 2, {dtype = evil})
    assert(x:numel() == 3)]])
end)

describe("finalisers that run inside of a call:", function()
  it_survives("closing of everything that a call may hold", [[
    local x, d, b = pn.randn(200), dist.normal(pn.zeros(200), 1), dist.bijector.affine(0, pn.ones(200))
    local e, s = dist.transformed(d, b), dist.natural.full(pn.ones(2), pn.eye(2))
    local f = pn.compile(function(a) return a * 2 end)
    local w = pn.param(pn.ones(200))
    local layer = nn.linear(200, 3)
    local opt = optim.sgd({w}, {lr = 0.1})
    storm(function()
      coroutine.wrap(function() pcall(x.close, x) end)()
      for _, o in ipairs{x, d, b, e, s, f} do pcall(o.close, o) end
      pcall(f.forget, f)
      pcall(w.clear_grad, w)
      pcall(w.set, w, x)
      pcall(opt.step, opt, (w * w):sum())
    end)
    for _ = 1, 30 do
      local y = x + 1
      y = d:log_prob(x) y = d:sample{3} y = d:expand{3, 200} y = d:mean() y = d:parameters() y = d.parts
      y = b:forward(x) y = b:forward_log_det(x) y = b:parameters()
      y = e:log_prob(x) y = tostring(e) y = e.parts
      y = s * s y = s:log_normaliser()
      y = f(x)
      y = w * x
      y:sum():backward()
      y = w:grad() y = tostring(w) y = w:totable()
      y = layer(x) y = x:sort() y = x[{{1, 5}}]
    end
    calm()
    assert(x:numel() == 200 and d:mean():numel() == 200 and s:log_normaliser():ndim() == 0)
    x:close() d:close() b:close() e:close() s:close() f:close()
    refused("closed", function() return x + 1 end)
    refused("closed", function() return d:mean() end)
    refused("closed", function() return b:forward(1) end)]])
  it_survives("changes of what parameters and optimisers hold", [[
    local w = pn.param(pn.ones(3))
    local said = {}
    local function try(name, f, ...)
      local ok, message = pcall(f, ...)
      said[name] = ok and "done" or message
    end
    local loss, f = (w * w):sum(), pn.compile(function(x) return x + 1 end)
    local opt = optim.sgd({w}, {lr = 0.1})
    f(w:detach())
    setmetatable({}, {__gc = function()
      try("set", w.set, w, pn.zeros(3))
      try("backward", loss.backward, loss)
      try("clear_grad", w.clear_grad, w)
      try("step", opt.step, opt, loss)
      try("compiled", f, pn.ones(3))
    end})
    collectgarbage()
    for name, message in pairs(said) do assert(message:find "finaliser", name .. ": " .. message) end
    assert(next(said) and w:totable()[1] == 1)]])
  it_survives("failures in the middle of a capture, which are none of the captured function", [[
    local w, failed = pn.param(pn.ones(3)), {}
    local f = pn.compile(function(x)
      x = arm(function()
        failed[1] = not pcall(w.clear_grad, w)
        failed[2] = not pcall(pn.memory_limit, 1e9)
      end, x) + 1
      return x * 2
    end)
    assert(f(pn.ones(3)):sum():item() == 12 and failed[1] and failed[2])
    refused("would be frozen", pn.compile(function(x) pcall(w.clear_grad, w) return x * 2 end), pn.ones(3))]])
  it_survives("lists that change while tensors are made of them", [[
    local t = {}
    storm(function()
      if #t > 0 then
        for i = #t + 1, #t + 50 do t[i] = i end
        t[1] = {t, t}
      end
    end)
    for _ = 1, 500 do
      t = {1, 2, 3, 4}
      pcall(pn.tensor, t)
      local rows = {{1, 2}, {3, 4}}
      t = rows[2]
      pcall(pn.tensor, rows)
    end
    calm()
    local seen = 0
    for _, change in ipairs{
      function(t) t[1] = t end, function(t) t[1] = {t, t} end, function(t) for i = 1, 9999 do t[i] = i end end,
      function(t) t[1] = nil t[2] = nil end, function(t) t[2] = "x" end, function(t) t[1], t[2] = {1, 2, 3}, 5 end,
    } do
      local flat, nested = {1, 2}, {{1, 2}, {3, 4}}
      local ok, x = pcall(pn.tensor, arm(function() seen = seen + 1 change(flat) end, flat))
      assert(ok and x:numel() == 2, x)
      ok, x = pcall(pn.tensor, arm(function() seen = seen + 1 change(nested[2]) end, nested))
      assert(ok and x:numel() == 4, x)
    end
    assert(seen > 9, seen)]])
  it_survives("lists that lose their tensors", [[
    local t = {}
    storm(function() for i in pairs(t) do t[i] = pn.ones(1) end collectgarbage() end)
    for _ = 1, 30 do
      t = {}
      for i = 1, 20 do t[i] = pn.param(pn.ones(30)) end
      pcall(optim.adam, t)
      t = {pn.ones(30), pn.ones(30), pn.ones(30)}
      pcall(pn.stack, t)
      pcall(pn.concatenate, t, 1)
      pcall(pn.einsum, "i,i,i->i", t)
      t = {dist.bijector.exp(), dist.bijector.exp()}
      pcall(core.new_composed_bijector, "chain", t)
    end
    calm()
    local function lose() for i in pairs(t) do t[i] = false end collectgarbage() end
    local function fresh() t = {} for i = 1, 3 do t[i] = pn.param(pn.ones(30)) end return t end
    for _ = 1, 3 do
      pcall(core.new_optim, arm(lose, "adam", fresh()))
      local opt = optim.sgd({pn.param(pn.ones(30)), pn.param(pn.ones(30)), pn.param(pn.ones(30))}, {lr = 1})
      pcall(opt.apply, arm(lose, opt, fresh()))
      pcall(core.new_optim, arm(lose, "adam", fresh(), fresh()))
      pcall(pn.grad, arm(lose, fresh()[1]:sum(), t))
      t = {("a"):rep(50), ("b"):rep(50)}
      pcall(core.files.save_npz, arm(lose, "/nowhere/at/all.npz", t, {pn.ones(2), pn.ones(3)}))
    end]])
  it_survives("those that run when the state is closed", [[
    local later = setmetatable({}, {__gc = function() pcall(pn.add, 1, 2) pcall(pn.ones, 3) end})]])
  it_survives("those older than the module, which run when its context is gone", [[]], [[
    local earlier = setmetatable({}, {__gc = function()
      local pn = require "penumbra"
      pcall(pn.add, 1, 2) pcall(pn.ones, 3) pcall(pn.generator, 1) pcall(pn.dist.normal, 0, 1) pcall(pn.memory)
    end})
  ]])
end)

describe("generators stay while they are used:", function()
  it("draws the same numbers with a generator that nothing else holds", function()
    attack [[
      storm(function() for i = 1, 3 do pn.generator(i) end end)
      local d = dist.normal(pn.zeros(2), 1)
      local function all(g)
        return {
          pn.randn(2, 2, {generator = g()}), pn.randn({2, 2, generator = g()}), pn.randn({2, 2}, {generator = g()}),
          pn.rand(2, 2, {generator = g()}), pn.randint(0, 1000, 4, {generator = g()}),
          pn.randperm(9, {generator = g()}),
          d:sample({2}, {generator = g()}), d:sample({2, generator = g()}), d:rsample(2, g()), d:sample(g()),
          (d:rsample_log_prob({2}, {generator = g()})), nn.linear(2, 2, {generator = g()}):parameters()[1],
          nn.initialise("he", {2, 2}, {generator = g()}),
        }
      end
      local kept = {}
      local right = all(function() kept[#kept + 1] = pn.generator(7) return kept[#kept] end)
      local function nothing() for i = 1, 20 do pn.generator(i) end end
      local function fresh() return {generator = pn.generator(7)} end
      local function same(i, x) assert(x:eq(right[i]):all():item(), "draw " .. i) end
      for _ = 1, 3 do -- collected right before the draw, if nothing holds it
        same(1, pn.randn(2, 2, arm(nothing, fresh())))
        same(2, pn.randn(arm(nothing, {2, 2, generator = pn.generator(7)})))
        same(4, pn.rand(2, 2, arm(nothing, fresh())))
        same(5, pn.randint(0, 1000, 4, arm(nothing, fresh())))
        same(6, pn.randperm(9, arm(nothing, fresh())))
        same(7, d:sample({2}, arm(nothing, fresh())))
        same(9, d:rsample(2, arm(nothing, fresh().generator)))
        same(10, d:sample(arm(nothing, fresh().generator)))
      end
      for _ = 1, 30 do
        for i, t in ipairs(all(function() return pn.generator(7) end)) do
          assert(t:eq(right[i]):all():item(), "draw " .. i)
        end
      end
      calm()]]
  end)
end)

describe("depth:", function()
  it_survives("distributions and bijectors nested without end", [[
    local mask, identity = pn.tensor{true}, dist.bijector.affine(0, 1)
    local function nest(first, f)
      local x, n, said = first, 0, nil
      for _ = 1, 20000 do
        local ok, y = pcall(f, x)
        if not ok then said = y break end
        x, n = y, n + 1
      end
      assert(said and said:find "levels deep", said)
      assert(n >= 64, n)
      return x
    end
    local normal = dist.normal(pn.zeros{1}, 1)
    for _, x in ipairs{
      nest(normal, function(d) return dist.masked(d, mask) end),
      nest(normal, function(d) return dist.transformed(d, identity) end),
      nest(normal, function(d) return dist.mixture(pn.tensor{0.5, 0.5}, {d, normal}) end),
    } do
      assert(x:log_prob(pn.ones{1}):numel() == 1)
      pcall(tostring, x)
    end
    local b = nest(identity, function(m) return dist.bijector.chain{m, identity} end)
    assert(b:forward(2):item() == 2)
    b = nest(identity, function(m) return dist.bijector.inverse(m) end)
    assert(b:inverse(2):item() == 2)
    local shared = dist.masked(normal, mask)
    for _ = 1, 50 do dist.mixture(pn.tensor{0.5, 0.5}, {shared, shared}) end]])
end)

describe("numbers out of range are refused:", function()
  it_survives("sizes, limits and whole numbers", [[
    refused("at most", nn.lstm, 3, 1 << 62)
    refused("at most", nn.gru, 3, 1 << 61)
    refused("at most", nn.linear, 1 << 62, 4)
    refused("must fit into int64", pn.tensor, {1e300}, {dtype = "int64"})
    refused("must fit into int64", pn.tensor, {1, 0 / 0}, {dtype = "int64"})
    assert(pn.tensor({1.5, -1.5, 3}, {dtype = "int64"}):eq(pn.tensor({1, -1, 3}, {dtype = "int64"})):all():item())
    refused("must not be negative", pn.memory_limit, -1)
    refused("whole number", pn.conv2d, pn.ones(1, 1, 4, 4), pn.ones(1, 1, 2, 2), 1e300)
    refused("whole number", pn.conv2d, pn.ones(1, 1, 4, 4), pn.ones(1, 1, 2, 2), 0 / 0)
    refused("whole number", pn.conv2d, pn.ones(1, 1, 4, 4), pn.ones(1, 1, 2, 2), {stride = 1e300})]])
end)
