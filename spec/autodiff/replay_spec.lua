-- Compiled functions against eager calls: every operation, distribution and layer, gradients and training;
-- what is refused; when a function is captured anew. Results must be the same bits.
local pn = require "penumbra"
local cases = require "spec.autodiff.op_case"
local common = require "spec.autodiff.replay_case"
local nn, optim, dist, infer = pn.nn, pn.optim, pn.dist, pn.infer

local same, refused = common.same, common.refused

local function scaled(inputs, by)
  local out = {}
  for k, x in ipairs(inputs) do
    out[k] = x * by
  end
  return out
end

describe("a replayed operation", function()
  for _, row in ipairs(pn.rows()) do
    if row.kind == "op" and not row.hidden then
      for _, dtype in ipairs { "float64", "float32" } do
        local shape = row.square and { 2, 3, 3 } or { 2, 3 }
        if row.name == "nonzero" then
          it("nonzero is refused by name", function()
            refused("the shape of nonzero's result", pn.compile(function(x)
              return x:nonzero()
            end), pn.ones(3))
          end)
        else
          it(("%s gives what an eager one gives, %s"):format(row.name, dtype), function()
            local call, inputs = cases.case(row, dtype, shape)
            local f = pn.compile(function(...)
              return call { ... }
            end)
            for _, by in ipairs { 1, 0.99, 0.98 } do
              local x = scaled(inputs, by)
              same(f(table.unpack(x)), call(x), row.name)
            end
            assert.equal(1, f:captures())
          end)
        end
        if row.differentiable then
          it(("%s has the eager gradients, %s"):format(row.name, dtype), function()
            local call, inputs = cases.case(row, dtype, shape)
            local w = cases.params(inputs)
            local function gradients(weight)
              local y = call(w)
              return y, table.unpack(pn.grad((y * y * weight):sum(), w))
            end
            local f = pn.compile(gradients)
            for k, by in ipairs { 1, 0.99, 0.98 } do
              for i, p in ipairs(w) do
                p:set(inputs[i] * by)
              end
              local weight = pn.tensor(0.5 * k, { dtype = dtype })
              local got, want = { f(weight) }, { gradients(weight) }
              for i = 1, #want do
                same(got[i], want[i], ("%s, result %d"):format(row.name, i))
              end
            end
            assert.equal(1, f:captures())
          end)
        end
      end
    end
  end
end)

describe("a replayed distribution", function()
  -- (What each draws, and gradients: replay_rows_spec.lua.)
  local function sizes(row)
    local out = {}
    for _, p in ipairs(row.parameters) do
      out[p.name] = p.size
    end
    return out
  end

  for _, row in ipairs(pn.rows()) do
    if row.kind == "distribution" then
      local golden = require("spec.golden.distribution." .. row.name)
      it(row.name .. " has the eager moments, distribution functions and divergence", function()
        local case = golden.cases[1]
        local x = pn.tensor(case.x, { dtype = "float64" })
        local function all(shift, at, p)
          local t, out = {}, {}
          for name, v in pairs(case.params) do
            t[name] = pn.tensor(v, { dtype = "float64" })
            t[name] = sizes(row)[name] and t[name] or t[name] + shift
          end
          local d = dist[row.name](t)
          for _, name in ipairs { "mean", "variance", "stddev", "mode", "entropy" } do
            if row.functions[name] then
              out[#out + 1] = d[name](d)
            end
          end
          if row.functions.cdf then
            out[#out + 1] = d:cdf(at)
            out[#out + 1] = d:log_cdf(at)
            out[#out + 1] = d:log_survival(at)
          end
          if row.functions.icdf then
            out[#out + 1] = d:icdf(p)
          end
          if row.functions.kl then
            out[#out + 1] = dist.kl(d, dist[row.name](case.params))
          end
          out[#out + 1] = d:log_prob(at)
          return table.unpack(out)
        end
        local f = pn.compile(all)
        for _, at in ipairs { x, x + 1e3, x - 1e3, x * (0 / 0), x } do
          for _, p in ipairs { pn.tensor { 0.2, 0.7 }, pn.tensor { -0.1, 1.1 }, pn.tensor { 0.3, 0.4 } } do
            local shift = pn.tensor(0)
            local got, want = { f(shift, at, p) }, { all(shift, at, p) }
            for i = 1, #want do
              same(got[i], want[i], row.name .. ", result " .. i)
            end
          end
        end
        assert.equal(1, f:captures())
      end)

      it(row.name .. " has the eager density where values are outside the support", function()
        local case = golden.cases[1]
        local f = pn.compile(function(x)
          return dist[row.name](case.params):log_prob(x)
        end)
        local x = pn.tensor(case.x, { dtype = "float64" })
        for _, at in ipairs { x, x - 1e3, x * (0 / 0), x } do
          same(f(at), dist[row.name](case.params):log_prob(at), row.name)
        end
        assert.equal(1, f:captures())
      end)
    end
  end

  it("checks its parameters at every call", function()
    local f = pn.compile(function(s)
      return dist.normal(0, s):log_prob(1)
    end)
    same(f(pn.tensor(2)), dist.normal(0, 2):log_prob(1), "normal")
    refused("normal: scale must be positive, got -1", f, pn.tensor(-1))
    local u = pn.compile(function(high)
      return dist.uniform(1, high):log_prob(1.5)
    end)
    same(u(pn.tensor(2)), dist.uniform(1, 2):log_prob(1.5), "uniform")
    refused("uniform: high must be above low", u, pn.tensor(0.5))
    same(f(pn.tensor(3)), dist.normal(0, 3):log_prob(1), "normal")
  end)
end)

local layers = require "spec.nn.layer_case"

describe("a replayed layer", function()
  for _, row in ipairs(pn.rows()) do
    if row.kind == "layer" then
      it(row.name .. " gives values, draws and gradients of an eager one", function()
        for _, dtype in ipairs { "float64", "float32" } do
          local layer = layers.make(row, { dtype = dtype })
          local list = layer:parameters()
          local function run(...)
            local y = layer(...)
            if #list == 0 then
              return y, layer:mean(...)
            end
            local loss = (y * y):sum() + layer:kl():to(dtype)
            return y, layer:mean(...), table.unpack(pn.grad(loss, list))
          end
          local f = pn.compile(run)
          for round = 1, 3 do
            local x = layers.inputs(row, dtype)
            pn.seed(round)
            local want = { run(table.unpack(x)) }
            pn.seed(round)
            local got = { f(table.unpack(x)) }
            for i = 1, #want do
              same(got[i], want[i], row.name)
            end
          end
          assert.equal(1, f:captures())
        end
      end)
    end
  end
end)

describe("replayed training", function()
  local models = {
    ["1-50-1"] = function(o)
      return nn.sequential { nn.linear(1, 50, o), nn.relu(), nn.linear(50, 1, o) }, 1
    end,
    ["a Bayesian network"] = function(o)
      return nn.sequential { nn.bayes_linear(3, 20, o), nn.tanh(), nn.bayes_linear(20, 1, o) }, 3
    end,
    ["a Bayesian network, weights drawn"] = function(o)
      local p = { dtype = o.dtype, estimator = "weights" }
      return nn.sequential { nn.bayes_linear(3, 20, p), nn.softplus(), nn.bayes_linear(20, 1, p) }, 3
    end,
  }
  local optimisers = {
    adam = { lr = 1e-2 },
    ["adam with decay and clipping"] = { "adam", lr = 1e-2, weight_decay = 0.1, clip_norm = 0.5 },
    ["sgd with momentum"] = { "sgd", lr = 1e-2, momentum = 0.9, nesterov = true },
  }
  local function start(name, given, dtype)
    pn.seed(7)
    local net, inputs = models[name] { dtype = dtype }
    local noise = pn.param(pn.full({}, -1, { dtype = dtype }))
    local params, options = net:parameters(), {}
    params[#params + 1], params.names = noise, nil
    for key, value in pairs(given) do
      options[key] = type(key) == "string" and value or nil
    end
    local opt = optim[given[1] or "adam"](params, options)
    local function loss(x, y)
      local ll = dist.normal(net(x), noise:exp()):log_prob(y):sum(2)
      return -infer.elbo { log_likelihood = ll, kl = net:kl(), num_data = 320 } / 320
    end
    return params, opt, loss, inputs
  end
  for name in pairs(models) do
    for kind, given in pairs(optimisers) do
      for _, dtype in ipairs { "float64", "float32" } do
        it(("of %s by %s goes the eager way for 100 steps, %s"):format(name, kind, dtype), function()
          local w, opt, loss, inputs = start(name, given, dtype)
          local w2, opt2, loss2 = start(name, given, dtype)
          local step = pn.compile(loss2, { optimiser = opt2 })
          local data, noise = pn.generator(1), pn.generator(2)
          for k = 1, 100 do
            local n = k % 20 == 0 and 7 or 32
            local x = pn.randn({ n, inputs }, { dtype = dtype, generator = data })
            local y = pn.randn({ n, 1 }, { dtype = dtype, generator = noise })
            if k == 50 then
              opt.lr, opt2.lr = 1e-3, 1e-3
            end
            pn.seed(k)
            local a = opt:step(loss(x, y))
            pn.seed(k)
            local b = step(x, y)
            assert.equal(a, b)
          end
          assert.equal(2, step:captures())
          for i = 1, #w do
            same(w2[i], w[i], "parameter " .. i)
          end
          local s, s2 = opt:state(), opt2:state()
          for key, value in pairs(s) do
            same(s2[key], value, key)
          end
        end)
      end
    end
  end

  it("leaves everything as it was and says why when a number is not finite", function()
    local w = pn.param(pn.tensor { 1, 2 })
    local opt = optim.adam({ w = w }, { lr = 0.1 })
    local step = pn.compile(function(x)
      return (w:log() * x):sum() + pn.randn {} * 0
    end, { optimiser = opt })
    step(pn.tensor { 1, 1 })
    step(pn.tensor { 1, 1 })
    local before, state = w:totable(), opt:state()
    refused("adam: the loss must be finite: input 2 of 'mul'", step, pn.tensor { 1, 1 / 0 })
    assert.same(before, w:totable())
    assert.same(state.step:totable(), opt:state().step:totable())
    assert.is_number(step(pn.tensor { 1, 1 }))
  end)

  it("lets parameters rest that the loss does not reach", function()
    local w, v = pn.param(1), pn.param(5)
    local opt = optim.adam({ w, v }, { lr = 0.1 })
    local step = pn.compile(function(x)
      return w * x
    end, { optimiser = opt })
    for _ = 1, 3 do
      step(pn.tensor(1))
    end
    assert.equal(5, v:item())
    assert.is_true(w:item() < 1)
  end)

  it("gives further results beside the loss", function()
    local w = pn.param(pn.ones(2))
    local step = pn.compile(function(x)
      local y = w * x
      return y:sum(), y, w
    end, { optimiser = optim.sgd({ w }, { lr = 0.5 }) })
    local x = pn.tensor { 1, 2 }
    step(x)
    local loss, y, after = step(x)
    assert.equal(0.5 * 1 + 0, loss)
    assert.same({ 0.5, 0 }, y:totable())
    assert.same({ 0, -1 }, after:totable())
  end)
end)

-- Random programs of elementwise operations, views, reductions and broadcasts: what groups are made of.
describe("a replayed program", function()
  local function shapes(rows, cols)
    return { { rows, cols }, { rows, cols }, { cols }, { rows, 1 }, {}, { 1, cols } }
  end
  local unary = { "neg", "square", "tanh", "sigmoid", "relu", "abs", "exp", "softplus", "sin" }
  local binary = { "add", "sub", "mul", "maximum", "minimum" }

  -- A program is a function of tensors that makes the same choices each time it runs.
  local function program(seed, rows, cols)
    return function(...)
      local g = seed
      local function pick(n)
        g = (g * 1103515245 + 12345) % 2147483648
        return g // 65536 % n + 1
      end
      local pool = { ... }
      local function any()
        return pool[pick(#pool)]
      end
      for _ = 1, 25 do
        local x, kind = any(), pick(12)
        local y
        if kind <= 5 then
          y = pn[unary[pick(#unary)]](x)
        elseif kind <= 9 then
          y = pn[binary[pick(#binary)]](x, any())
        elseif kind == 10 then
          y = pn.where(x:gt(0.1), any(), x)
        elseif kind == 11 then
          y = x:ndim() == 2 and x:size(1) == x:size(2) and x:t() or x:ndim() == 2 and x:flip(pick(2)) or x * 0.5
        else
          y = x:ndim() == 2 and x:sum(pick(2), true) * 0.01 or x:reshape(-1):mean()
        end
        pool[#pool + 1] = y:clamp(-3, 3)
      end
      local last = {}
      for k = #pool - 6, #pool do
        last[#last + 1] = pool[k]:ndim() == 2 and pool[k]:broadcast_to { rows, cols } or pool[k]
      end
      return table.unpack(last)
    end
  end

  local sizes = { { 1, 1 }, { 3, 5 }, { 7, 7 }, { 32, 50 }, { 64, 512 }, { 5, 513 }, { 2, 1500 }, { 700, 300 } }
  for _, size in ipairs(sizes) do
    for _, dtype in ipairs { "float64", "float32" } do
      it(("of %d x %d gives the eager bits, %s"):format(size[1], size[2], dtype), function()
        for seed = 1, size[1] * size[2] > 1e5 and 3 or 25 do
          local f = program(seed, size[1], size[2])
          local compiled = pn.compile(f)
          for round = 1, 2 do
            local x, g = {}, pn.generator(100 * seed + round)
            for k, shape in ipairs(shapes(size[1], size[2])) do
              x[k] = pn.randn(shape, { dtype = dtype, generator = g })
            end
            local want, got = { f(table.unpack(x)) }, { compiled(table.unpack(x)) }
            for k = 1, #want do
              same(got[k], want[k], ("seed %d, round %d, result %d"):format(seed, round, k))
            end
          end
          assert.equal(1, compiled:captures())
        end
      end)
    end
  end
end)

describe("a compiled function", function()
  it("keeps a plan for each combination of shapes, the latest used", function()
    local f = pn.compile(function(x, y)
      return x + y
    end, { plans = 2 })
    for _ = 1, 3 do
      assert.same({ 2, 2 }, f(pn.ones(2), pn.ones(2)):totable())
      assert.same({ 2, 2, 2 }, f(pn.ones(3), pn.ones(3)):totable())
    end
    assert.equal(2, f:captures())
    assert.equal(2, #f:plans())
    f(pn.ones(4), pn.ones(4)) -- [2] gives way
    f(pn.ones(3), pn.ones(3))
    assert.equal(3, f:captures())
    f(pn.ones(2), pn.ones(2))
    assert.equal(4, f:captures())
    f(pn.ones(2, { dtype = "float32" }), pn.ones(2, { dtype = "float32" }))
    assert.equal(5, f:captures())
    f:forget()
    assert.same({}, f:plans())
  end)

  it("takes strided arguments and gives results that later calls leave alone", function()
    local f = pn.compile(function(x)
      return x:reshape(-1) * 2, x
    end)
    local x = pn.arange(12):reshape(4, 3)
    for _, at in ipairs { x:slice(1, 2, 3), x:slice(1, 3, 4), x:t():slice(1, 1, 2):slice(2, 1, 3):reshape(2, 3) } do
      local a, b = f(at)
      same(a, at:reshape(-1) * 2, "double")
      same(b, at, "x")
    end
    local first = f(x:slice(1, 1, 2))
    local second = f(x:slice(1, 2, 3))
    assert.same({ 0, 2, 4, 6, 8, 10 }, first:totable())
    assert.same({ 6, 8, 10, 12, 14, 16 }, second:totable())
  end)

  it("sees parameters in place", function()
    local w = pn.param(pn.tensor { 1, 2 })
    local view = w:detach()
    local f = pn.compile(function(x)
      return w * x, view * 1
    end)
    f(pn.tensor(1))
    w:set(pn.tensor { 3, 4 })
    local a, b = f(pn.tensor(2))
    assert.same({ 6, 8 }, a:totable())
    assert.same({ 3, 4 }, b:totable())
    assert.is_false(a:requires_grad())
    assert.equal(1, f:captures())
  end)

  it("is captured anew when a variable from outside has another value", function()
    local w, beta = pn.param(1), 2
    local f = pn.compile(function(x)
      return w * x * beta
    end)
    assert.equal(2, f(pn.tensor(1)):item())
    beta = 3
    assert.equal(3, f(pn.tensor(1)):item())
    w = pn.param(5)
    assert.equal(15, f(pn.tensor(1)):item())
    assert.equal(15, f(pn.tensor(1)):item())
    assert.equal(3, f:captures())
  end)

  it("is captured anew when a parameter in a table was replaced", function()
    local params = { w = pn.param(2), list = 3, log = {} }
    local f = pn.compile(function(x)
      params.log[#params.log + 1] = "captured"
      return params.w * x
    end)
    assert.equal(2, f(pn.tensor(1)):item())
    params.list = 4 -- the function does not name it
    assert.equal(4, f(pn.tensor(2)):item())
    assert.equal(1, f:captures())
    params.w = pn.param(5)
    assert.equal(5, f(pn.tensor(1)):item())
    assert.equal(2, #params.log)
    params.w = nil
    refused("x is missing", f, pn.tensor(1))
  end)

  it("can be part of another one", function()
    local inner = pn.compile(function(x)
      return x * 2
    end)
    inner(pn.tensor(1))
    local outer = pn.compile(function(x)
      return inner(x) + 1
    end)
    assert.equal(3, outer(pn.tensor(1)):item())
    assert.equal(5, outer(pn.tensor(2)):item())
    local step = pn.compile(function(x)
      return pn.param(1) * x
    end, { optimiser = optim.sgd { pn.param(1) } })
    refused("cannot be part of another", pn.compile(function(x)
      step(x)
      return x
    end), pn.tensor(1))
  end)

  it("draws from generators of one's own as an eager call does", function()
    local g = pn.generator(4)
    local f = pn.compile(function()
      return pn.randn({ 3 }, { generator = g }), pn.randperm(5, { generator = g }), pn.randint(0, 9, 4), pn.rand(2)
    end)
    local h = pn.generator(4)
    pn.seed(9)
    local got = {}
    for k = 1, 3 do
      got[k] = { f() }
    end
    pn.seed(9)
    for k = 1, 3 do
      same(got[k][1], pn.randn({ 3 }, { generator = h }), "randn")
      same(got[k][2], pn.randperm(5, { generator = h }), "randperm")
      same(got[k][3], pn.randint(0, 9, 4), "randint")
      same(got[k][4], pn.rand(2), "rand")
    end
    g = nil
    collectgarbage()
    assert.equal(1, f:captures())
    assert.is_nil(g)
  end)

  it("keeps its plans when it fails, and its generators where an eager call leaves them", function()
    local function whole(x)
      local e = pn.randn { 2, 2 }
      local l, why = (x + e * 0):cholesky()
      return l or error(why)
    end
    local f = pn.compile(whole)
    local good, bad = pn.eye(2), -pn.eye(2)
    f(good)
    pn.seed(1)
    local _, message = pcall(whole, bad)
    local after = pn.rng_state()
    pn.seed(1)
    assert.equal(message, refused("cholesky", f, bad))
    assert.same(after, pn.rng_state())
    same(f(good), pn.eye(2), "cholesky")
    assert.equal(1, f:captures())
  end)

  it("goes the eager way where a replay fails", function()
    local function safe(x)
      local l = x:cholesky()
      return l or (x + pn.eye(2) * 3):cholesky()
    end
    local f = pn.compile(safe)
    for _, x in ipairs { pn.eye(2), pn.eye(2) * 2, -pn.eye(2), pn.eye(2) * 3, -pn.eye(2) * 2 } do
      same(f(x), safe(x), "safe")
    end
    assert.equal(1, f:captures())
    -- but a first call that fails would freeze the second way
    local message = refused("compile: cholesky: matrix must be positive definite", pn.compile(safe), -pn.eye(2))
    assert(message:find "differ from call to call")
    assert(message:find("replay_spec.lua:" .. debug.getinfo(safe, "S").linedefined + 1 .. ":", 1, true), message)
  end)

  it("refuses to go on after a failure that was caught", function()
    local function caught(x)
      local ok, d = pcall(dist.normal, 0, x)
      return ok and d:log_prob(1) or x
    end
    local f = pn.compile(caught)
    assert.equal(caught(pn.tensor(2)):item(), f(pn.tensor(2)):item())
    assert.equal(-2, f(pn.tensor(-2)):item())
    assert.equal(caught(pn.tensor(3)):item(), f(pn.tensor(3)):item())
    refused("its way would be frozen: normal: scale must be positive, got -1", pn.compile(caught), pn.tensor(-1))
    local function read(x)
      local ok, v = pcall(x.item, x)
      return ok and x * v or x
    end
    local message = refused("its way would be frozen: compile: item reads a value", pn.compile(read), pn.tensor(-1))
    assert(message:find(("replay_spec.lua:%d:"):format(debug.getinfo(read, "S").linedefined + 1), 1, true), message)
    -- shapes do not differ from call to call
    local g = pn.compile(function(x)
      local ok = pcall(pn.add, x, pn.ones(7))
      return ok and x or x * 2
    end)
    assert.equal(6, g(pn.ones(3)):sum():item())
    assert.equal(12, g(pn.ones(3) * 2):sum():item())
  end)

  it("passes errors of f on and is captured again", function()
    local broken = true
    local f = pn.compile(function(x)
      if broken then
        error "my own"
      end
      return x + 1
    end)
    refused("my own", f, pn.ones(2))
    refused("shapes must broadcast", pn.compile(function(x)
      return x + pn.ones(3)
    end), pn.ones(2))
    broken = false
    assert.same({ 2, 2 }, f(pn.ones(2)):totable())
    local co = coroutine.wrap(function()
      return pcall(pn.compile(function(x)
        coroutine.yield()
        return x
      end), pn.ones(1))
    end)
    assert.is_false((co()))
    assert.is_false(require("penumbra.core").capture.going_on())
  end)

  it("folds what does not vary and drops what nobody uses", function()
    local f = pn.compile(function(x)
      local k = (pn.arange(3) * 2):sum():item() -- 6
      local unused = x:exp():sum() -- luacheck: ignore
      return x * k
    end)
    assert.same({ 6, 12 }, f(pn.tensor { 1, 2 }):totable())
    assert.same({ 18, 24 }, f(pn.tensor { 3, 4 }):totable())
    assert.equal(1, f:plans()[1].steps)
  end)

  it("refuses what would be frozen, at the line", function()
    local w, d = pn.param(pn.ones(3)), pn.ones(3)
    local reads = {
      { "item", function(x) return x * x:sum():item() end },
      { "totable", function(x) return x * x:totable()[1] end },
      { "tostring", function(x) return #tostring(x) > 0 and x end },
      { "tostring", function(x) return #("x" .. x) > 0 and x end },
      { "item", function(x) return x * w:sum():item() end },
      { "item", function(x) return x * pn.randn {}:item() end },
      { "item", function(x) return x * x:detach():sum():item() end },
      { "nonzero", function(x) return x[x:gt(0)] end },
      { "nonzero", function(x) return d:masked_select(x:gt(0)) end },
      { "param cannot", function(x) return pn.param(x) end },
      { "setting a parameter", function(x) w:set(x) return x end },
      { "loss:backward()", function(x) (w * x):sum():backward() return x end },
      { "opt:step", function(x) optim.sgd({ w }):step((w * x):sum()) return x end },
      { "seeding", function(x) pn.seed(1) return x end },
      { "generator", function(x) return x + pn.randn(3, { generator = pn.generator(1) }) end },
      { "generator's state", function(x) pn.rng_state() return x end },
      { "save_npy", function(x) pn.data.save_npy(os.tmpname(), x) return x end },
      { "archive", function(x) pn.save(os.tmpname(), { x = x }) return x end },
      { "param cannot", function(x) nn.linear(3, 2) return x end },
      { "tostring", function(x) return #tostring(dist.normal(x:sum(), 1)) > 0 and x end },
    }
    for k, case in ipairs(reads) do
      local message = refused("compile: ", pn.compile(case[2]), pn.ones(3))
      assert(message:find(case[1], 1, true), k .. ": " .. message)
      local line = debug.getinfo(case[2], "S").linedefined
      assert(message:find(("replay_spec.lua:%d:"):format(line), 1, true), message)
    end
  end)

  it("refuses arguments and results that it cannot take", function()
    local w = pn.param(pn.ones(3))
    local f = pn.compile(function(x)
      return x
    end)
    refused("argument 1 must be a tensor, got number", f, 1)
    refused("input 1 must be data, got a parameter", f, w)
    refused("input 1 must be data, got a tensor that depends on parameters", f, w * 2)
    f(pn.ones(3)) -- also where a plan fits
    refused("input 1 must be data, got a tensor that depends on parameters", f, w * 2)
    refused("input 1 must be data, got a parameter", f, w)
    refused("must be a tensor, got number", pn.compile(function() return 1 end))
    refused("must return 1 to", pn.compile(function() end))
    refused("must return the loss first", pn.compile(function() end, { optimiser = optim.sgd { w } }))
    local h = w * 2
    refused("outside the function", pn.compile(function(x) return h * x end), pn.ones(3))
    refused("f must be a function", pn.compile, 3)
    refused("did you mean 'optimiser'", pn.compile, function() end, { optimizer = 1 })
    refused("plans must be a whole number from 1 on", pn.compile, function() end, { plans = 0 })
  end)

  it("leaves nothing behind", function()
    collectgarbage()
    local _, _, objects = require("penumbra.core").memory()
    do
      local w = pn.param(pn.ones(3))
      local f = pn.compile(function(x)
        return (w * x + pn.randn(3)):sum()
      end, { optimiser = optim.adam { w } })
      for n = 1, 3 do
        f(pn.ones(n, 3))
        f(pn.ones(n, 3))
      end
      pcall(f, pn.ones(4))
    end
    collectgarbage()
    collectgarbage()
    local _, _, after = require("penumbra.core").memory()
    assert.equal(objects, after)
  end)
end)
