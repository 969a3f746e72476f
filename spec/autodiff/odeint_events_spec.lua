-- Events of pn.odeint: times, states and their gradients against closed forms; directions and ends; captures; what is
-- refused.
local pn = require "penumbra"
local assert = require "luassert"

local function near(want, got, tolerance)
  got = type(got) == "number" and got or got:item()
  assert.is_true(math.abs(want - got) < tolerance * (1 + math.abs(want)), ("%.12g, not %.12g"):format(got, want))
end

local function same_bits(a, b)
  assert.same(a:totable(), b:totable())
end

local function options(given)
  local o = { rtol = 1e-10, atol = 1e-12, max_steps = 100000 }
  for key, value in pairs(given) do o[key] = value end
  return o
end

local methods = { "dormand_prince", "rosenbrock" }

local function decay(_, y, k) return -k * y end
local function oscillator(_, y) return pn.stack({ y[2], -y[1] }, 1) end

describe("events", function()
  local pi = math.pi

  it("have the times and states of the closed form, in the directions that count", function()
    for _, method in ipairs(methods) do
      local times = pn.tensor { 0, 3, 10 }
      local y, found = pn.odeint(oscillator, pn.tensor { 1, 0 }, times, options { method = method, events = { -- cos t
        all = function(_, z) return z[1] end,
        up = { function(_, z) return z[1] end, direction = "up", count = 5 },
        down = { function(_, z) return z[1] end, direction = "down", count = 5 },
        fourth = { function(t) return (t - 4) end },
      } })
      assert.same({ 3, 2 }, y:shape())
      near(math.cos(10), y[3][1], 1e-8)
      assert.same({ 16 }, found.all.times:shape())
      assert.same({ 16, 2 }, found.all.states:shape())
      assert.equal(3, found.all.number:item())
      for k = 1, 3 do
        near((k - 0.5) * pi, found.all.times[k], 1e-8)
        near(0, found.all.states[k][1], 1e-12)
        near(k % 2 == 0 and 1 or -1, found.all.states[k][2], 1e-8)
      end
      for k = 4, 16 do assert.is_true(found.all.times[k]:item() ~= found.all.times[k]:item()) end
      assert.same({ 1, 2, 1 }, { found.up.number:item(), found.down.number:item(), found.fourth.number:item() })
      near(1.5 * pi, found.up.times[1], 1e-8)
      near(0.5 * pi, found.down.times[1], 1e-8)
      near(2.5 * pi, found.down.times[2], 1e-8)
      near(4, found.fourth.times[1], 1e-14)
    end
  end)

  it("do not change the solution", function()
    local times = pn.linspace(0, 10, 7)
    local y = pn.odeint(oscillator, pn.tensor { 1, 0 }, times,
      options { events = { e = function(_, z) return z[1] end } })
    same_bits(pn.odeint(oscillator, pn.tensor { 1, 0 }, times, options {}), y)
  end)

  it("end the solution where they are terminal", function()
    for _, method in ipairs(methods) do
      local y, found = pn.odeint(oscillator, pn.tensor { 1, 0 }, pn.tensor { 0, 1, 2, 3 }, options { method = method,
        events = { stop = { function(_, z) return z[1] + 0.5 end, terminal = true },
          later = function(t) return t - 2.5 end, before = function(t) return t - 2 end } })
      near(2 * pi / 3, found.stop.times[1], 1e-8)
      assert.same({ 1, 0, 1 }, { found.stop.number:item(), found.later.number:item(), found.before.number:item() })
      near(math.cos(2), y[3][1], 1e-8)
      assert.is_true(y[4][1]:item() ~= y[4][1]:item() and y[4][2]:item() ~= y[4][2]:item())
      assert.same({ 1 }, found.stop.times:shape())
    end
  end)

  it("do not occur after the end, nor times within its step; before it they do", function()
    for _, method in ipairs(methods) do
      local times = pn.tensor { 0, 0.4, 0.6, 0.9, 2 }
      local y, found = pn.odeint(function(_, y) return y * 0 + 1 end, pn.tensor { 0 }, times,
        { first_step = 2, max_step = 2, method = method, events = {
          a = function(_, z) return z[1] - 0.7 end, b = { function(_, z) return z[1] - 0.5 end, terminal = true },
          c = function(t) return t - 0.3 end, d = function(t) return t - 0.6 end } })
      assert.same({ 0, 1, 1, 0 }, { found.a.number:item(), found.b.number:item(), found.c.number:item(),
        found.d.number:item() })
      near(0.5, found.b.times[1], 1e-14)
      near(0.4, y[2][1], 1e-14)
      for k = 3, 5 do assert.is_true(y[k]:item() ~= y[k]:item()) end
    end
  end)

  it("are found backwards in time, where up and down are those of the way that is gone", function()
    local _, found = pn.odeint(oscillator, pn.tensor { 1, 0 }, pn.tensor { 0, -2 }, options { events = {
      e = { function(_, z) return z[1] end, direction = "down" } } })
    near(-pi / 2, found.e.times[1], 1e-8)
  end)

  it("do not begin at zero, and count a zero at a step's end once", function()
    local _, found = pn.odeint(function(_, y) return y * 0 + 1 end, pn.tensor { 0 }, pn.tensor { 0, 4 },
      options { first_step = 1, max_step = 1, rtol = 1, events = { at_start = function(_, y) return y[1] end,
        at_end = function(t) return t - 2 end } })
    assert.equal(0, found.at_start.number:item())
    assert.equal(1, found.at_end.number:item())
    assert.equal(2, found.at_end.times[1]:item())
    for k = 1, 12 do -- the end, though start + length may be rounded
      local start, stop = 0.1 * k, 0.7 + k / 3
      local _, last = pn.odeint(function(_, y) return y * 0 + 1 end, pn.tensor { 0 }, pn.tensor { start, stop },
        options { events = { at_end = function(t) return t - stop end } })
      assert.equal(stop, last.at_end.times[1]:item())
    end
  end)

  it("are located to rounding, whatever the curve", function()
    local curves = { steep = function(t) return (t - 0.7) ^ 9 end, flat = function(t) return 1e-12 * (t - 0.7) end,
      cliff = function(t) return (1e4 * (t - 0.7)):tanh() + 1e-6 end }
    local _, found = pn.odeint(function(_, y) return y * 0 end, pn.tensor { 1 }, pn.tensor { 0, 1 },
      options { first_step = 1, max_step = 1, events = curves })
    near(0.7, found.flat.times[1], 1e-15)
    near(0.7, found.steep.times[1], 1e-15)
    near(0.7 - 1e-10, found.cliff.times[1], 1e-14)
  end)
end)

describe("gradients of events", function()
  -- y0 e^(-k t) falls to the level c at log(y0 / c) / k.
  it("are those of the implicit function, in start and parameters", function()
    for _, method in ipairs(methods) do
      for _, gradient in ipairs { "trajectory", "checkpoints" } do
        local y0, k, c = pn.param(pn.tensor { 3 }), pn.param(pn.tensor(0.7)), pn.param(pn.tensor(0.4))
        local _, found = pn.odeint(decay, y0, pn.tensor { 0, 10 }, options { method = method, gradient = gradient,
          parameters = { k, c }, events = { level = function(_, y, _, level) return y[1] - level end } })
        local t = math.log(3 / 0.4) / 0.7
        near(t, found.level.times[1], 1e-8)
        assert.is_false(found.level.number:requires_grad())
        local g = pn.grad(found.level.times[1], { y0, k, c })
        near(1 / (0.7 * 3), g[1][1], 1e-7)
        near(-t / 0.7, g[2], 1e-7)
        near(-1 / (0.7 * 0.4), g[3], 1e-7)
        local of_state = pn.grad(found.level.states[1][1], { y0, k, c })
        near(0, of_state[1][1], 1e-9)
        near(0, of_state[2], 1e-9)
        near(1, of_state[3], 1e-9)
      end
    end
  end)

  it("have the gradients of their own function at their own place, where there are several", function()
    for _, method in ipairs(methods) do
      local y0, low, high = pn.param(pn.tensor { 3 }), pn.param(pn.tensor(0.4)), pn.param(pn.tensor(1.3))
      local _, found = pn.odeint(decay, y0, pn.tensor { 0, 10 }, options { method = method,
        parameters = { pn.tensor(0.7), low, high }, events = {
          low = function(_, y, _, level) return y[1]:square() - level:square() end,
          high = function(_, y, _, _, level) return level - y[1]:exp() + 2.5 end } })
      near(math.log(3 / math.log(3.8)) / 0.7, found.high.times[1], 1e-8)
      local g = pn.grad(found.low.times[1] + 5 * found.high.times[1], { y0, low, high })
      near(6 / (0.7 * 3), g[1][1], 1e-7)
      near(-1 / (0.7 * 0.4), g[2], 1e-7)
      near(-5 / (0.7 * 3.8 * math.log(3.8)), g[3], 1e-7)
    end
  end)

  -- Where cos(t - s) crosses a t: implicit, with the event itself depending on t; s the first time.
  it("see the event's own time, and the first time", function()
    for _, method in ipairs(methods) do
      local a, times = pn.param(pn.tensor(0.5)), pn.param(pn.tensor { 0.2, 0.9, 4 })
      local y0 = pn.tensor { 1, 0 }
      local y, found = pn.odeint(oscillator, y0, times, options { method = method, parameters = { a },
        events = { e = { function(t, z, slope) return z[1] - slope * t end, terminal = true } } })
      local t = found.e.times[1]:item()
      near(math.cos(t - 0.2), 0.5 * t, 1e-8)
      local g = pn.grad(found.e.times[1] + 3 * y[2][1] + found.e.states[1][2], { a, times })
      local rate = -math.sin(t - 0.2) - 0.5
      local of_time = 1 - math.cos(t - 0.2) -- the state's second element is -sin(t - s)
      near(of_time * t / rate, g[1], 1e-7)
      local of_first = of_time * -math.sin(t - 0.2) / rate + math.cos(t - 0.2) + 3 * math.sin(0.7)
      near(of_first, g[2][1], 1e-7)
      near(-3 * math.sin(0.7), g[2][2], 1e-7)
      near(0, g[2][3], 1e-12) -- after the end
    end
  end)

  -- A ball from height h with speed v up under gravity a, of whose speed each impact leaves e.
  it("pass through a bouncing ball's flights", function()
    local function flight(_, y, a) return pn.stack({ y[2], -a }, 1) end
    local ground = { ground = { function(_, y) return y[1] end, direction = "down", terminal = true } }
    local h, v = pn.param(pn.tensor { 2 }), pn.param(pn.tensor { 1 })
    local a, e = pn.param(pn.tensor(9.81)), pn.param(pn.tensor(0.8))
    local state, from, impacts = pn.concatenate({ h, v }, 1), pn.zeros { 1 }, {}
    for k = 1, 4 do
      local _, found = pn.odeint(flight, state, pn.concatenate({ from, pn.tensor { 20 } }, 1),
        options { parameters = { a }, events = ground })
      from, state = found.ground.times, pn.stack({ found.ground.states[1][1] * 0, -e * found.ground.states[1][2] }, 1)
      impacts[k] = from[1]
    end
    local function closed(height, speed, gravity, left, number)
      local fast = (speed * speed + 2 * gravity * height):sqrt()
      local t = (speed + fast) / gravity
      for k = 1, number - 1 do t = t + 2 * left ^ k * fast / gravity end
      return t:sum()
    end
    for k = 1, 4 do
      near(closed(h, v, a, e, k):item(), impacts[k], 1e-9)
      local got, want = pn.grad(impacts[k], { h, v, a, e }), pn.grad(closed(h, v, a, e, k) + 0 * e, { h, v, a, e })
      for i = 1, 4 do near(want[i]:sum():item(), got[i]:sum(), 1e-7) end
    end
  end)

  it("agree with finite differences of the same steps, with a state of any shape", function()
    local w = pn.param(pn.tensor { { -0.3, 0.5 }, { -0.6, 0.1 } })
    local y0 = pn.tensor { { 1, 2 }, { 0.5, -1 } }
    local function loss(value)
      local sum = 0
      for _, method in ipairs(methods) do
        local _, found = pn.odeint(function(t, y, m) return y:matmul(m):tanh() * t:cos() end, y0, pn.tensor { 0, 5 },
          { method = method, first_step = 0.5, max_step = 0.5, rtol = 1e3, atol = 1e3, parameters = { value },
            events = { e = { function(_, y, m) return y:sum() - 2.6 - 0.1 * m[1][1] end, count = 3 },
              f = { function(_, y) return y[1][2] * y[2][1] - 0.6 end, count = 3 } } })
        assert.is_true(found.e.number:item() > 1 and found.f.number:item() > 0)
        sum = sum + found.e.times[1] + found.e.states[2]:square():sum() + 2 * found.f.times[1] * found.f.states[1][1][1]
      end
      return sum
    end
    local g, at = pn.grad(loss(w), { w })[1], w:detach()
    for i = 1, 2 do
      for j = 1, 2 do
        local function moved(d)
          local m = at:totable()
          m[i][j] = m[i][j] + d
          return loss(pn.tensor(m)):item()
        end
        local h = 2.5e-4
        local slope = (8 * (moved(h) - moved(-h)) - moved(2 * h) + moved(-2 * h)) / (12 * h)
        near(slope, g[i][j], 1e-8)
      end
    end
  end)

  it("are of the tensors' types", function()
    local y0 = pn.param(pn.tensor({ 3 }, { dtype = "float32" }))
    local k = pn.param(pn.tensor(0.7, { dtype = "float32" }))
    local _, found = pn.odeint(decay, y0, pn.tensor { 0, 10 }, { parameters = { k }, events = {
      e = function(t, y)
        assert.same({ "float32", "float32" }, { t:dtype(), y:dtype() })
        return y[1] - 0.4
      end } })
    assert.equal("float32", found.e.times:dtype())
    assert.equal("float32", found.e.states:dtype())
    local g = pn.grad(found.e.times[1], { y0, k })
    assert.equal("float32", g[2]:dtype())
    near(-math.log(3 / 0.4) / 0.49, g[2], 1e-5)
  end)
end)

describe("events in compiled functions", function()
  it("are found anew at each call, as many as there are", function()
    local w = pn.param(pn.tensor(1))
    local function f(x)
      local y, found = pn.odeint(function(_, y, r) return pn.stack({ y[2], -r * r * y[1] }, 1) end, pn.tensor { 1, 0 },
        pn.tensor { 0, 5 }, { parameters = { x * w }, events = { e = function(_, y) return y[1] end } })
      return y, found.e.number, found.e.times, found.e.states
    end
    local compiled = pn.compile(f)
    for _, rate in ipairs { 1, 2.5, 0.2, 4 } do
      local got, want = { compiled(pn.tensor(rate)) }, { f(pn.tensor(rate)) }
      assert.equal(math.floor(5 * rate / math.pi + 0.5), got[2]:item())
      same_bits(want[1], got[1])
      for k = 1, got[2]:item() do
        assert.equal(want[3][k]:item(), got[3][k]:item())
        same_bits(want[4][k], got[4][k])
      end
    end
    assert.equal(1, compiled:captures())
  end)
end)

describe("pn.odeint names of events", function()
  local function refused(pattern, events, f)
    local ok, message = pcall(pn.odeint, f or oscillator, pn.tensor { 1, 0 }, pn.tensor { 0, 10 }, { events = events })
    assert.is_false(ok)
    assert.matches(pattern, message, 1, true)
    assert.matches("odeint_events_spec.lua:", message, 1, true)
  end
  local function zero(_, y) return y[1] end

  it("what is wrong with them", function()
    refused("events must be a table", 1)
    refused("event 'e' must be a function", { e = 1 })
    refused("event 'e' must be a function", { e = { direction = "up" } })
    refused("name must be a text", { zero })
    refused("name must be a text of at most 31", { [("x"):rep(32)] = zero })
    local longest = ("x"):rep(31)
    local _, found = pn.odeint(oscillator, pn.tensor { 1, 0 }, pn.tensor { 0, 2 }, { events = { [longest] = zero } })
    assert.near(math.pi / 2, found[longest].times[1]:item(), 1e-5)
    refused("event 'e': direction", { e = { zero, direction = "left" } })
    refused("did you mean", { e = { zero, terminl = true } })
    refused("terminal must be", { e = { zero, terminal = 1 } })
    refused("count must be a whole number from 1 on", { e = { zero, count = 0 } })
    refused("count", { e = { zero, count = 10000000 } })
    refused("event 'e' must give a tensor of one number, got shape [2]", { e = function(_, y) return y end })
    refused("event 'e' must give a tensor of one number, got number", { e = function() return 1 end })
    refused("event 'e' must give float64 or float32, got bool", { e = function(_, y) return y[1]:gt(0) end })
    refused("must not draw", { e = function(_, y) return y[1] * pn.rand {} end })
    local list = {}
    for k = 1, 65 do list["e" .. k] = zero end
    refused("events", list)
  end)

  it("what happens to them", function()
    refused("event 'e' occurs more often than count = 2 times, again at t = 7.85", { e = { zero, count = 2 } })
    refused("event 'e' must be finite, got nan at t = ", { e = function(t) return (5 - t):log() end })
    local y0 = pn.param(pn.tensor { 0 })
    local _, found = pn.odeint(function(_, y) return y * 0 + 1 end, y0, pn.tensor { 0, 4 }, { first_step = 1,
      max_step = 1, rtol = 1, events = { e = function(t, y) return (t - 2) ^ 3 + 0 * y[1] end } })
    local ok, message = pcall(pn.grad, found.e.times[1], { y0 })
    assert.is_false(ok)
    assert.matches("event 'e' at t = 2 has no gradient: it does not pass through zero at a rate", message, 1, true)
  end)
end)
