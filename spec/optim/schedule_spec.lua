--- Learning rates step by step and averages of parameters, each by its recursion.
local pn = require "penumbra"
local near = require("spec.helper").near
local optim = pn.optim

describe("a schedule", function()
  it("is what its recursion gives, at each step", function()
    local rate, fall = 0.8, 0.8
    local exponential, floor, decay = optim.exponential(0.8, 0.9), optim.exponential(0.8, 0.5, 0.05),
      optim.decay(0.8, 0.5, 4)
    local ramp, half = optim.ramp(0.2, 1.4, 7), optim.cosine(0.9, 0.1, 7)
    local constant, warm, after = optim.constant(0.3), optim.warmup(5, 0.4), optim.warmup(3, optim.ramp(1, 2, 5))
    for step = 1, 20 do
      near(exponential(step), rate)
      near(floor(step), math.max(0.05, fall))
      near(decay(step), 0.8 / 2 ^ ((step - 1) // 4))
      near(ramp(step), step < 7 and 0.2 + 0.2 * (step - 1) or 1.4)
      near(half(step), step < 7 and 0.5 + 0.4 * math.cos(math.pi / 6 * (step - 1)) or 0.1)
      assert.equal(0.3, constant(step))
      near(warm(step), step < 5 and 0.08 * step or 0.4)
      near(after(step), step < 3 and step / 3 or math.min(2, 1 + 0.25 * math.max(0, step - 4)))
      rate, fall = rate * 0.9, fall * 0.5
    end
    near(optim.ramp(1, 3, 1)(1), 1)
    near(optim.ramp(1, 3, 1)(2), 3)
    near(optim.cosine(1, 3, 1)(2), 3)
  end)

  it("of a plateau falls after more epochs than it bears without a better loss", function()
    for _, o in ipairs { { patience = 2, factor = 0.5 }, { patience = 0, factor = 0.1, cooldown = 3, least = 0.02 },
      { patience = 1, factor = 0.5, threshold = 0.1, cooldown = 1 } } do
      local plateau = optim.plateau(0.8, o)
      local lr, best, bad, rest = 0.8, math.huge, 0, 0
      for epoch = 1, 40 do
        local loss = 5 / (1 + epoch // 3) + (epoch * 7 % 5) * 0.1 - 1.2
        if loss < best - math.abs(best < math.huge and best or 0) * (o.threshold or 1e-4) then
          best, bad = loss, 0
        else
          bad = bad + 1
        end
        if rest > 0 then
          rest, bad = rest - 1, 0
        end
        if bad > o.patience then
          lr, rest, bad = math.max(o.least or 0, lr * o.factor), o.cooldown or 0, 0
        end
        near(plateau:step(loss), lr)
      end
      assert.is_true(lr < 0.8)
      assert.equal(("plateau(rate = %g, best = %g, %d of %d without a better one)"):format(lr, best, bad, o.patience),
        tostring(plateau))
    end
  end)
end)

describe("an average of parameters", function()
  it("is the mean of all steps, or forgets by its rate, from the first step's values on", function()
    for _, dtype in ipairs { "float64", "float32" } do
      local w = pn.param(pn.zeros({ 2 }, { dtype = dtype }))
      local means = { optim.average { w } }
      for k, decay in ipairs { 0.75, 0 } do means[k + 1] = optim.average({ w }, { decay = decay }) end
      local sum, forgetting = { 0, 0 }, nil
      for step = 1, 6 do
        local now = { step * step, 3 - step }
        w:set(pn.tensor(now, { dtype = dtype }))
        for _, m in ipairs(means) do assert.equal(m, m:update()) end
        for k = 1, 2 do sum[k] = sum[k] + now[k] end
        local old = forgetting or now
        forgetting = { 0.75 * old[1] + 0.25 * now[1], 0.75 * old[2] + 0.25 * now[2] }
        for i, want in ipairs { { sum[1] / step, sum[2] / step }, forgetting, now } do
          local seen = means[i]:with(function(a)
            assert.equal("x", a)
            return w:totable()
          end, "x")
          for k = 1, 2 do near(seen[k], want[k], dtype == "float64" and 1e-12 or 1e-5) end
          assert.equal(step, means[i]:state().count:item())
        end
        assert.same(now, w:totable())
      end
      assert.equal("average(uniform, of 6)", tostring(means[1]))
      assert.equal("average(decay = 0.75, of 6)", tostring(means[2]))
      local kept = means[1]:state()["mean.1"]
      means[1]:apply()
      assert.same(kept:totable(), w:totable())
      means[2]:load_state(means[1]:state())
      assert.same(kept:totable(), means[2]:state()["mean.1"]:totable())
    end
  end)
end)
