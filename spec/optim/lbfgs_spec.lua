-- L-BFGS, schedules that listen, averages and groups: against PyTorch's values (spec/golden/optim/lbfgs.py) and closed
-- forms; states that go on exactly; the stationary moments of the optimisers that draw.
local pn = require "penumbra"
local optim = pn.optim
local golden = dofile "spec/golden/optim/lbfgs.lua"

local function start()
  return pn.param(pn.tensor{-0.5, 0.8}), pn.param(pn.tensor{0, 2, -3})
end

local function objective(p, q)
  local x, y = p[1], p[2]
  return (1 - x) ^ 2 + 10 * (y - x ^ 2) ^ 2 + (pn.tensor{1, 10, 0.1} * (q - 1) ^ 2):sum()
end

local function close(got, want, limit)
  assert.are.equal(#want, #got)
  for k, v in ipairs(want) do
    assert(math.abs(got[k] - v) <= limit * math.max(1, math.abs(v)),
      ("element %d: got %.17g, want %.17g"):format(k, got[k], v))
  end
end

local function values(p, q)
  return table.move(q:totable(), 1, 3, 3, p:totable())
end

describe("lbfgs", function()
  local cases = { single = { max_steps = 1 }, short = { max_steps = 1, history = 2, lr = 0.5 },
    whole = { max_evaluations = 1000 } }
  for name, given in pairs(cases) do
    it("follows PyTorch's, " .. name, function()
      local p, q = start()
      local opt = optim.lbfgs({ p, q }, given)
      for _, want in ipairs(golden[name]) do
        local loss = opt:step(function() return objective(p, q) end)
        close(values(p, q), want, 1e-10)
        assert.are.equal(objective(p, q):item(), loss)
      end
    end)
  end

  -- Three values and slopes decide a cubic: after a first step too far the second trial is its minimum, exactly. The
  -- third case ends before the first trial, the last one goes on from two points that descend.
  it("finds the minimum of a cubic at its second trial", function()
    for _, case in ipairs { { from = -0.5, lr = 8 }, { from = 0.2, lr = 3 }, { from = 0, lr = 2.4, scale = 1.5 } } do
      local k, places = case.scale or 1, {}
      local x = pn.param(pn.tensor { case.from })
      local opt = optim.lbfgs({ x }, { lr = case.lr, max_steps = 1 })
      opt:step(function()
        places[#places + 1] = x:item()
        return ((x ^ 3) / 3 - x * k ^ 2):sum()
      end)
      assert.are.equal(case.from, places[1])
      assert(places[2] > k, "the first trial is not beyond the minimum")
      assert.near(k, places[3], 1e-12)
    end
  end)

  -- Values and slopes are told by the number of the trial, so that the interval does not begin at the start. The cubic
  -- f + s u + c u^2 + e u^3 of its lower end has its minimum where s + 2 c u + 3 e u^2 rises through 0.
  it("interpolates within an interval that does not begin at the start", function()
    local told = { { 0, -1 }, { -0.5, -0.95 }, { -0.4, 2 }, { -0.9, 0 } }
    local x, places = pn.param(pn.tensor { 0. }), {}
    optim.lbfgs({ x }, { max_steps = 1 }):step(function()
      places[#places + 1] = x:item()
      local now = told[#places]
      return pn.tensor(now[1]), pn.tensor { now[2] }
    end)
    assert.near(1, places[2], 1e-14)
    assert(places[3] > 1)
    local h = places[3] - places[2]
    local rise, s, last = (told[3][1] - told[2][1]) / h, told[2][2], told[3][2]
    local c, e = (3 * rise - 2 * s - last) / h, (s + last - 2 * rise) / h ^ 2
    assert.near(places[2] + (-c + math.sqrt(c * c - 3 * e * s)) / (3 * e), places[4], 1e-12)
    assert.are.equal(4, #places)
  end)

  it("takes a compiled function that gives the gradients too, and goes on from a state", function()
    local p, q = start()
    local opt = optim.lbfgs({ p, q }, { max_steps = 2 })
    local f = pn.compile(function()
      local y = objective(p, q)
      return y, table.unpack(pn.grad(y, { p, q }))
    end)
    for _ = 1, 3 do opt:step(f) end
    local p2, q2 = pn.param(p), pn.param(q)
    local other = optim.lbfgs({ p2, q2 }, { max_steps = 2 }):load_state(opt:state())
    for _ = 1, 3 do
      opt:step(f)
      other:step(function() return objective(p2, q2) end)
      assert.are.same(values(p, q), values(p2, q2))
    end
    assert.are.same({ "step" }, { (pcall(opt.step, opt, 1)) and "" or "step" })
  end)

  it("leaves everything as it was when the loss is not finite or f fails, and names the operation", function()
    local w = pn.param(pn.tensor{ 1.0, -1.0 })
    local opt = optim.lbfgs({ w })
    local ok, message = pcall(opt.step, opt, function() return w:log():sum() end)
    assert.is_false(ok)
    assert.matches("lbfgs: the loss must be finite: 'log'", message)
    ok, message = pcall(opt.step, opt, function() return (w * 0):sqrt():sum() end)
    assert.is_false(ok)
    assert.matches("the gradient must be finite: the derivative of 'sqrt'", message)
    local before, calls = w:totable(), 0
    assert.is_false(pcall(opt.step, opt, function()
      calls = calls + 1
      if calls == 3 then error "stop" end
      return (w - pn.tensor{ 5, -3 }):square():square():sum()
    end))
    assert.are.equal(3, calls)
    assert.are.same(before, w:totable())
    assert.are.equal(0, opt:state().numbers:totable()[2])
  end)

  it("gives a single vector back where f fails after a step into it", function()
    for _, shape in ipairs { { 2 }, { 2, 1 } } do
      local p, calls = pn.param(pn.tensor { 1.5, -2 }:reshape(shape)), 0
      local opt, moved = optim.lbfgs({ p }, { max_steps = 3 }), false
      local ok = pcall(opt.step, opt, function()
        calls = calls + 1
        moved = moved or p:reshape { 2 }[1]:item() ~= 1.5
        if calls == 3 then error "stopped" end
        return (p:square() * pn.tensor { 1, 3 }:reshape(shape)):sum()
      end)
      assert.is_false(ok)
      assert.is_true(moved)
      assert.same({ 1.5, -2 }, p:reshape { 2 }:totable())
    end
  end)

  it("steps back from where the loss is not finite", function()
    local w = pn.param(pn.tensor{ 0.05 })
    local opt = optim.lbfgs({ w }, { lr = 10 })
    for _ = 1, 5 do opt:step(function() return (w - w:log()):sum() end) end -- its minimum is 1; no log beyond 0
    close(w:totable(), { 1 }, 1e-5)
  end)

  it("looks up to ten times as far where the slope is still steep, and at least a hundredth further", function()
    -- the places that a first step from 0 looks at, for a loss and its slope
    local function places(lr, loss, slope)
      local w, seen = pn.param(pn.zeros { 1 }), {}
      optim.lbfgs({ w }, { lr = lr, max_steps = 1, max_evaluations = 1 }):step(function()
        local x = w:item()
        seen[#seen + 1] = x
        return pn.tensor { loss(x) }, pn.tensor { slope(x) }
      end)
      return seen
    end
    -- of a parabola the cubic's minimum is 1, further than ten times .005 and .05
    close(places(0.005, function(x) return (x - 1) ^ 2 / 2 end, function(x) return x - 1 end), { 0, 0.005, 0.05, 0.5 },
      1e-12)
    -- of values 0, -.05 and slopes -1, -1 at 0 and 1 it is .23, which lies behind; and so again where the slope rises
    local function wave(x) return -0.05 * x - 0.95 * math.sin(2 * math.pi * x) / (2 * math.pi) end
    local seen = places(1, wave, function(x) return -0.05 - 0.95 * math.cos(2 * math.pi * x) end)
    close({ seen[1], seen[2], seen[3] }, { 0, 1, 1.01 }, 1e-12)
  end)

  it("ends a search that cannot end well once no more than the tolerance is left of its interval", function()
    for _, tolerance in ipairs { 0.5, 0.05, 1e-3 } do
      local w, seen = pn.param(pn.zeros { 1 }), {}
      local opt = optim.lbfgs({ w }, { lr = 3, max_steps = 1, tolerance_change = tolerance })
      opt:step(function() -- |w - 1|, whose slope never falls
        seen[#seen + 1] = w:item()
        return pn.tensor { math.abs(w:item() - 1) }, pn.tensor { w:item() < 1 and -1 or 1 }
      end)
      local low, high = 0, 3
      for k = 3, #seen do
        assert.is_true(high - low >= tolerance)
        low, high = seen[k] < 1 and math.max(low, seen[k]) or low, seen[k] > 1 and math.min(high, seen[k]) or high
      end
      assert.is_true(high - low < tolerance and #seen < 25)
      assert.is_true(math.abs(w:item() - 1) < tolerance)
    end
  end)

  it("refuses states that do not fit", function()
    local p, q = start()
    local opt = optim.lbfgs({ p, q })
    opt:step(function() return objective(p, q) end)
    local state = opt:state()
    state.y = nil
    assert.has_error(function() opt:load_state(state) end, "load_state: 'y' is missing")
    assert.has_error(function() optim.lbfgs({ p }):load_state(opt:state()) end)
    assert.has_error(function() optim.lbfgs({ p }, { max_steps = 0 }) end)
  end)
end)

describe("a plateau", function()
  it("gives PyTorch's rates, and goes on from a state", function()
    for name, given in pairs { plateau = { factor = 0.5, patience = 2 },
      cooled = { factor = 0.5, patience = 1, cooldown = 2, threshold = 0.1, least = 0.1 } } do
      local p, rates = optim.plateau(1, given), {}
      for k, loss in ipairs(golden.losses) do
        rates[k] = p:step(loss)
        p = optim.plateau(1, given):load_state(p:state())
      end
      close(rates, golden[name], 1e-15)
    end
  end)
  it("asks as much of losses below zero", function()
    local p = optim.plateau(1, { patience = 0, threshold = 0.1 })
    assert.are.equal(1, p:step(-1))
    assert.are.equal(1, p:step(-1.2))
    assert.are.equal(0.1, p:step(-1.25))
  end)
  it("counts a NaN as no better", function()
    local p = optim.plateau(1, { patience = 0 })
    assert.are.equal(1, p:step(3))
    assert.are.equal(0.1, p:step(0 / 0))
  end)
end)

describe("an average", function()
  it("of all steps, or one that forgets, is PyTorch's", function()
    for name, given in pairs { ema = { decay = 0.9 }, swa = {} } do
      local w = pn.param(pn.zeros{ 1 })
      local mean, seen = optim.average({ w = w }, given), {}
      for k = 1, 7 do
        w:set(pn.full({ 1 }, k * k * 0.1))
        mean:update()
        seen[k] = mean:with(function() return w:item() end)
        mean = optim.average({ w = w }, given):load_state(mean:state())
      end
      close(seen, golden[name], 1e-14)
      assert.are.equal(4.9, w:item())
      mean:apply()
      close({ w:item() }, { golden[name][7] }, 1e-14)
    end
  end)
  it("gives the parameters back after an error, and refuses to be used empty", function()
    local w = pn.param(pn.ones{ 2 })
    local mean = optim.average({ w })
    assert.has_error(function() mean:apply() end, "apply: nothing has been averaged yet (average:update())")
    mean:update()
    w:set(pn.zeros{ 2 })
    assert.is_false(pcall(mean.with, mean, function() error "stop" end))
    assert.are.same({ 0, 0 }, w:totable())
    assert.has_error(function() mean:load_state{ count = pn.tensor({ 1 }, { dtype = "int64" }) } end,
      "load_state: 'mean.1' is missing")
  end)
end)

describe("groups", function()
  local function one_step(given, lr)
    local a, b = pn.param(pn.ones{ 2 }), pn.param(pn.ones{ 2 })
    local net = { a = a, b = b }
    local opt = optim.sgd(net, given(net))
    if lr then opt.lr = lr end
    opt:apply { pn.ones{ 2 }, pn.ones{ 2 } }
    return { a:totable()[1], b:totable()[1] }
  end
  it("have a rate and a decay of their own, or none", function()
    close(one_step(function(n) return { lr = 0.1, groups = { { n.b, lr = 0.5 } } } end), { 0.9, 0.5 }, 1e-15)
    close(one_step(function(n) return { lr = 0.1, groups = { { n.b, lr_scale = 0.5 } } } end, 0.2), { 0.8, 0.9 }, 1e-15)
    close(one_step(function(n) return { lr = 0.1, groups = { { { n.b }, lr = 0 } } } end, 0.2), { 0.8, 1 }, 1e-15)
    close(one_step(function(n) return { lr = 0.1, weight_decay = 1, groups = { { n.a, weight_decay = 0 } } } end),
      { 0.9, 0.8 }, 1e-15)
  end)
  it("are the same as optimisers of their own, replayed too", function()
    local function train(split, replayed)
      local p, q = start()
      local opt = split and { optim.adam({ p }, { lr = 0.02 }), optim.adam({ q }, { lr = 0.1, weight_decay = 0.2 }) }
        or { optim.adam({ p, q }, { lr = 0.02, groups = { { q, lr = 0.1, weight_decay = 0.2 } } }) }
      local step = replayed and pn.compile(function() return objective(p, q) end, { optimiser = opt[1] })
      for _ = 1, 10 do
        if step then
          step()
        elseif split then
          local g = pn.grad(objective(p, q), { p, q })
          opt[1]:apply { g[1] }
          opt[2]:apply { g[2] }
        else
          opt[1]:step(objective(p, q))
        end
      end
      return values(p, q)
    end
    assert.are.same(train(true), train(false))
    assert.are.same(train(false), train(false, true))
  end)
  it("are refused by name where they make no sense", function()
    local p, q = start()
    local function message(groups)
      return select(2, pcall(optim.adam, { p }, { groups = groups }))
    end
    assert.matches("groups%[1%]: '1' is none of this optimiser's parameters", message { { q, lr = 1 } })
    assert.matches("stands in groups%[1%] too", message { { p, lr = 1 }, { p, lr = 2 } })
    assert.matches("unknown option 'rate'", message { { p, rate = 1 } })
    assert.matches("lr must lie in", message { { p, lr = -1 } })
    assert.matches("of all parameters together", message { { p, clip_norm = 1 } })
    assert.matches("must be a table {what, option = value...}", message { 3 })
  end)
end)

describe("an optimiser", function()
  it("takes a flow, a distribution, and lists of these and of networks", function()
    local b = pn.dist.bijector
    local function flow() return pn.dist.transformed(pn.dist.normal(pn.param(pn.zeros{ 1 }), 1),
      b.affine(pn.param(pn.zeros{ 1 }), pn.param(pn.ones{ 1 }))) end
    local f, net, d = flow(), pn.nn.linear(2, 1), pn.dist.gamma(pn.param(pn.ones{ 1 }), 1)
    local x = pn.tensor{ { 2, 3 } }
    local function loss()
      return -f:log_prob(pn.tensor{ 3 }):sum() + net(x):square():sum() - d:log_prob(pn.tensor{ 2 }):sum()
    end
    for _, make in ipairs { optim.adam, optim.lbfgs, optim.average } do
      local holders = { f, { net, deep = { d } } }
      local made = make(holders)
      if made.parameters then
        assert.are.equal(6, #made:parameters())
        local before = loss():item()
        made:step(made:type() == "lbfgs" and loss or loss())
        assert.is_true(loss():item() < before)
      end
    end
    assert.are.equal(3, #optim.adam(f):parameters())
    assert.are.equal(3, f:num_parameters())
    assert.are.same({ "1.loc", "2.loc", "2.scale" }, f:parameters().names)
  end)
end)

-- ---- draws: a quadratic loss h p^2 / 2, where every moment of the discrete chain is known ----

describe("draws of", function()
  local N, STEPS = 4000, 300

  -- The mean square of N independent chains after many steps; its standard error is that of normal draws.
  local function mean_square(kind, given, h, mean)
    pn.seed(11)
    local p = pn.param(pn.zeros{ N })
    local opt = optim[kind]({ p }, given)
    if mean then opt:load_state{ step = opt:state().step, ["v.1"] = pn.full({ N }, mean) } end
    local step = pn.compile(function() return (p:square() * (h / 2)):sum() end, { optimiser = opt })
    for _ = 1, STEPS do step() end
    return p:detach():square():mean():item()
  end
  local function within(got, want)
    local error_of = want * math.sqrt(2 / N)
    assert(math.abs(got - want) < 6 * error_of, ("variance %g, want %g +- %g"):format(got, want, error_of))
    assert(6 * error_of < 0.15 * want)
  end

  it("sgld have the variance of the discrete chain, T / (h (1 - lr h / 2))", function()
    within(mean_square("sgld", { lr = 0.3 }, 2), 1 / (2 * (1 - 0.3)))
    within(mean_square("sgld", { lr = 0.1, temperature = 0.25 }, 2), 0.25 / (2 * (1 - 0.1)))
    within(mean_square("sgld", { lr = 0.1, weight_decay = 1 }, 1), 1 / (2 * (1 - 0.1)))
  end)

  it("sghmc have the covariance that the recursion of position and velocity settles at", function()
    local lr, h, friction = 0.05, 2, 0.3
    local xx, xv, vv = 0, 0, 0 -- v' = (1 - f) v - lr h x + noise, x' = x + v'
    for _ = 1, 10000 do
      local k, c = 1 - friction, -lr * h
      local new_vv = k * k * vv + 2 * k * c * xv + c * c * xx + 2 * friction * lr
      local new_xv = k * xv + c * xx + new_vv
      xx, xv, vv = xx + 2 * (k * xv + c * xx) + new_vv, new_xv, new_vv
    end
    within(mean_square("sghmc", { lr = lr, friction = friction }, h), xx)
  end)

  it("psgld are those of sgld with steps scaled by the preconditioner that the gradient's mean square gives", function()
    -- with alpha close to 1 the mean square v settles at h^2 var, and G = 1 / (h sd): var (h - lr G h^2 / 2) = 1
    local lr, h = 0.05, 2
    local var = 1 / h
    for _ = 1, 100 do
      local metric = 1 / (math.sqrt(h * h * var) + 1e-5)
      var = 1 / (h * (1 - lr * metric * h / 2))
    end
    within(mean_square("psgld", { lr = lr, alpha = 0.9999 }, h, h * h * var), var)
  end)

  it("each optimiser are the same eagerly and replayed", function()
    for _, kind in ipairs { "sgld", "psgld", "sghmc" } do
      local function run(replayed)
        pn.seed(3)
        local p, q = start()
        local opt = optim[kind]({ p, q }, { lr = 1e-3 })
        local f = function() return objective(p, q) * (1 + pn.rand{1}:sum() * 0.1) end
        local step = replayed and pn.compile(f, { optimiser = opt }) or function() opt:step(f()) end
        for _ = 1, 5 do step() end
        return values(p, q), pn.rand{1}:item()
      end
      local a, x = run(false)
      local b, y = run(true)
      assert.are.same(a, b)
      assert.are.equal(x, y)
    end
  end)
end)
