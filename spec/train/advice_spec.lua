-- What a training loop is told when something goes wrong: the cause, and what to do.
local pn = require "penumbra"
local progress = require "penumbra.progress"

-- What f writes on standard error.
local function said(f)
  local real, text = io.stderr, {}
  io.stderr = { write = function(_, ...) text[#text + 1] = table.concat { ... } end } -- luacheck: ignore 122
  local ok, message = pcall(f)
  io.stderr = real -- luacheck: ignore 122
  assert(ok, message)
  return table.concat(text)
end

describe("a compiled step that is captured anew", function()
  local sgd = function(w) return pn.optim.sgd({ w }, { lr = 0.1 }) end

  local function loop(turns, change)
    local w = pn.param(pn.ones { 3 })
    local beta, x = 1, pn.ones { 3 }
    local step = pn.compile(function() return (w * x):sum() * beta end, { optimiser = sgd(w) })
    for k = 1, turns do
      step()
      if change == "number" then beta = beta * 0.9 else x = x + k end
    end
    return step
  end

  it("says once which value made it, and how to pass it", function()
    local text = said(function() assert.equal(12, loop(12, "number"):captures()) end)
    assert.matches("^spec/train/advice_spec.lua:%d+: compile: captured anew 5 times because 'beta', outside of the " ..
      "function, held another number each time: pass it as an argument, pn%.tensor%(v%)", text)
    local _, count = text:gsub("captured anew", "")
    assert.equal(1, count)
    assert.matches("'x', .* another tensor each time: pass it as an argument\n$", said(function() loop(12, "x") end))
  end)

  local full = "captured anew 5 times because what it sees, outside of the function, held more than the 20000 " ..
    "values that are watched: pass lists of numbers as a tensor\n$"

  it("says that it sees more than can be watched, and misses no change of it", function()
    for _, case in ipairs { { 19000, 3, "^$" }, { 20001, 12, full } } do
      local numbers, total = {}, 0
      for k = 1, case[1] do numbers[k] = k end
      local w = pn.param(pn.ones { 1 })
      local step = pn.compile(function() return w:sum() * numbers[#numbers] end)
      local text = said(function()
        for k = 1, 12 do
          if k > 10 then numbers[#numbers] = k end
          total = total + step():item()
        end
      end)
      assert.equal(10 * case[1] + 11 + 12, total)
      assert.equal(case[2], step:captures())
      assert.matches(case[3], text)
    end
  end)

  it("is silent where a value changes now and then, or is an argument", function()
    assert.equal("", said(function() loop(5, "number") end))
    assert.equal("", said(function()
      local w = pn.param(pn.ones { 3 })
      local step = pn.compile(function(beta) return (w * beta):sum() end, { optimiser = sgd(w) })
      for k = 1, 12 do step(pn.tensor(k / 2)) end
      assert.equal(1, step:captures())
    end))
  end)

  it("is told above a line of progress", function()
    local out = { text = "" }
    function out:write(...) self.text = self.text .. table.concat { ... } return self end
    function out:flush() return self end
    local bar = progress.new { total = 2, out = out, every = 0 }
    bar.terminal = true
    bar:step()
    progress.say "a note"
    assert.matches("\r\27%[Ka note\n\r", out.text)
    bar:hide()
    assert.matches("\r\27%[K$", out.text)
    bar:finish()
  end)
end)

describe("a step that is refused", function()
  it("because of a value of bernoulli between 0 and 1 names continuous_bernoulli, and changes nothing", function()
    for _, how in ipairs { "logits", "probs" } do
      for _, compile in ipairs { false, true } do
        local w = pn.param(pn.full({ 4 }, 0.3))
        local x = pn.tensor { 0, 1, 0.25, 1 }
        local ok, message = pcall(pn.train.fit, { data = x, epochs = 1, compile = compile,
          optimiser = pn.optim.adam({ w }, { lr = 0.1 }),
          loss = function(v) return -pn.dist.bernoulli { [how] = w }:log_prob(v):sum() end })
        assert.is_false(ok)
        assert.matches("adam: the loss must be finite: 'bernoulli_log_mass' .* gave %-inf from finite inputs: a " ..
          "value of bernoulli is neither 0 nor 1 %(for values between them there is continuous_bernoulli%)", message)
        assert.same({ 0.3, 0.3, 0.3, 0.3 }, w:totable())
      end
    end
  end)

  it("because of a gradient names the operation, and changes nothing", function()
    local w = pn.param(pn.zeros { 2 })
    local ok, message = pcall(pn.train.fit, { data = pn.ones { 2 }, epochs = 1,
      optimiser = pn.optim.sgd({ w }, { lr = 1 }), loss = function(x) return (w * x):sqrt():sum() end })
    assert.is_false(ok)
    assert.matches("sgd: gradient of .* must be finite: the derivative of 'sqrt'", message)
    assert.same({ 0, 0 }, w:totable())
  end)
end)

describe("the picture of a run", function()
  it("has the loss, and the score with its best", function()
    local run = { epoch = 3, history = { 3, 2, 1 }, scores = { [1] = -4, [3] = -2 }, best = -2, best_epoch = 3 }
    local panels = pn.plot.history(run)
    assert.equal(2, #panels)
    assert.same({ "1 3", "2 2", "3 1" }, panels[1].marks[1].data)
    assert.same({ "1 -4", "3 -2" }, panels[2].marks[1].data)
    assert.same({ "3 -2" }, panels[2].marks[2].data)
    assert.equal(1, #pn.plot.history { history = { 1 } })
    assert.has_error(function() pn.plot.history { history = {} } end)
  end)
end)
