-- What a process that replays takes at most, by the account of tensors' memory: the graph of the step that is captured
-- and the memory of its plan are never there together, and the graph goes while its gradients come.
local pn = require "penumbra"
local core = require "penumbra.core"

local MIB <const> = 2 ^ 20
local steps <const>, width <const> = 40, 2 ^ 15

-- h_t = tanh(h_t-1 * w_t + h_t-1), t = 1 .. steps: a graph of two numbers for each of w. Of `rows` steps w has rows of
-- its own, whose gradients all wait for the last one; of one row, all have that.
local function new_chain(rows)
  pn.seed(1)
  local w = pn.param(pn.randn { rows, width } * 0.1)
  local function loss(start)
    local h = start
    for t = 1, steps do
      local now = rows > 1 and w[t] or w
      h = (h * now + h):tanh()
    end
    return h:square():mean(), h:mean()
  end
  return w, loss, pn.optim.sgd({ w }, { lr = 10 })
end

-- Bytes by which f() rises above what there was before.
local function rise(f)
  collectgarbage()
  collectgarbage()
  core.reset_peak()
  local before = core.memory()
  f()
  local _, peak = core.memory()
  return peak - before
end

local function same(a, b) return a:eq(b):all():item() end

-- A network with whatever a step does beside gradients: buffers, draws, slices, and results of its own.
local function new_network()
  pn.seed(2)
  local net = pn.nn.sequential { pn.nn.linear(200, 300), pn.nn.batch_norm(300), pn.nn.relu(),
    pn.nn.dropout { rate = 0.3 }, pn.nn.linear(300, 300), pn.nn.tanh(), pn.nn.linear(300, 4) }
  local function loss(x)
    local y = net(x)
    local left, right = y:slice(2, 1, 2), y:slice(2, 2, 4)
    local noise = pn.randn { x:size(1), 2 }
    return (left - noise):square():mean() + right:exp():mean() * left:square():mean(), y
  end
  return net, loss, pn.optim.adam(net)
end

describe("the memory of a capture", function()
  local start = pn.randn({ width }, { generator = pn.generator(3) })

  -- An eager step and a compiled one of the same chain: by how much each rises, the plan's bytes, a replay's rise.
  local function measure(rows)
    local w, loss, opt = new_chain(rows)
    local eager_loss, replayed_loss
    local eager = rise(function()
      local value = loss(start)
      opt:step(value)
      eager_loss = value:item()
    end)
    local again, again_loss, again_opt = new_chain(rows)
    local step = pn.compile(again_loss, { optimiser = again_opt })
    local captured = rise(function() replayed_loss = step(start) end)
    assert.equal(eager_loss, replayed_loss)
    assert.is_true(same(w, again))
    local replayed = rise(function() step(start) end)
    opt:step((loss(start)))
    assert.is_true(same(w, again))
    return eager, captured, step:plans()[1].bytes, replayed
  end

  local function text(a, b) return ("%.1f of %.1f MiB"):format(a / MIB, b / MIB) end

  it("is not the graph's and the plan's together", function()
    local eager, captured, plan, replayed = measure(1)
    assert.is_true(eager > 20 * MIB and plan > 0.5 * eager, text(plan, eager)) -- so that both would be seen
    assert.is_true(captured < 1.1 * eager, text(captured, eager))
    assert.is_true(replayed < 0.1 * eager, text(replayed, eager))
  end)

  it("is below an eager step's where gradients wait, since the graph goes meanwhile", function()
    local eager, captured, _, replayed = measure(steps)
    assert.is_true(eager > 40 * MIB)
    assert.is_true(captured < 0.9 * eager, text(captured, eager))
    assert.is_true(replayed < 0.1 * eager, text(replayed, eager))
  end)

  it("is not both either where a result still has its graph", function()
    local w, loss = new_chain(1)
    local function f(x)
      local value = loss(x)
      return value, pn.grad(value, { w })[1]
    end
    local value, gradient, replayed_value, replayed_gradient
    local eager = rise(function() value, gradient = f(start) end)
    value, gradient = value:detach(), gradient:detach()
    local compiled = pn.compile(f)
    local captured = rise(function() replayed_value, replayed_gradient = compiled(start) end)
    assert.is_true(same(value, replayed_value) and same(gradient, replayed_gradient))
    local plan = compiled:plans()[1].bytes
    assert.is_true(eager > 20 * MIB and plan > 0.5 * eager, text(plan, eager))
    assert.is_true(captured < 1.2 * eager, text(captured, eager))
  end)

  it("grows by little for each operation: a loop of many turns is listed in small", function()
    local turns <const>, operations <const> = 8000, 5
    local w = pn.param(pn.tensor { 0.9, 0.2, -0.4 })
    local function f(x)
      for _ = 1, turns do
        x = (x * w):tanh():square() - x
        x = x + w
      end
      return x
    end
    local compiled = pn.compile(f)
    local captured = pn.no_grad(function() return rise(function() compiled(pn.ones(3)) end) end)
    -- a value and a note of 40 bytes, in lists that may be a half empty, and what it takes to double one
    assert.is_true(captured < turns * operations * 240, captured / (turns * operations) .. " bytes")
    assert.equal(1, compiled:plans()[1].loops)
  end)

  it("changes no bit: buffers, draws, further results", function()
    local function run(compiled)
      local net, loss, opt = new_network()
      local step = compiled and pn.compile(loss, { optimiser = opt }) or function(x)
        local value, y = loss(x)
        opt:step(value)
        return value:item(), y:detach()
      end
      local list, y = {}, nil
      for k = 1, 3 do
        list[k], y = step(pn.randn({ 2000, 200 }, { generator = pn.generator(10 + k) }))
      end
      return list, y, net
    end
    local a, ya, net = run(false)
    local b, yb, other = run(true)
    assert.same(a, b)
    assert.is_true(same(ya, yb))
    local states = { net:state(), other:state() }
    for name, t in pairs(states[1]) do
      if core.is_tensor(t) then assert.is_true(same(t, states[2][name]), name) end
    end
  end)

  it("leaves everything as it was when a gradient is not finite", function()
    local w, loss, opt = new_chain(1)
    local before = w:detach() * 1
    local step = pn.compile(function(x)
      local value = loss(x)
      return value * (value - value):sqrt()
    end, { optimiser = opt })
    assert.error_matches(function() step(start) end, "gradient of .* must be finite")
    assert.is_true(same(w:detach(), before))
    assert.equal(0, #step:plans())
    local good = pn.compile(loss, { optimiser = opt })
    good(start)
    assert.is_false(same(w:detach(), before))
  end)
end)
