--- Connectionist temporal classification against enumeration of all paths and PyTorch (spec/golden/metrics/ctc.py), and
--- pn.kl_div against PyTorch.
local pn = require "penumbra"

local golden = dofile "spec/golden/metrics/ctc.lua"

local function near(got, want, tolerance)
  want = pn.is_tensor(want) and want or pn.tensor(want)
  assert.same(want:shape(), got:shape())
  local same = got:to "float64":eq(want) -- infinities
  local gap = pn.where(same, 0, got:to "float64" - want):abs():max():item()
  assert(gap <= (tolerance or 1e-12) * math.max(1, pn.where(same, 0, want):abs():max():item()), gap)
end

local function refused(pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(pattern, message)
end

local function whole(t) return pn.tensor(t, { dtype = "int64" }) end

-- The options of a golden case.
local function given_of(case, name)
  return { lengths = whole(case.lengths), label_lengths = whole(case.label_lengths),
    blank = name == "blank" and 3 or nil }
end

-- The path without repeats and blanks, as text.
local function collapsed(path, blank)
  local out, last = {}, nil
  for _, c in ipairs(path) do
    if c ~= last and c ~= blank then out[#out + 1] = c end
    last = c
  end
  return table.concat(out, " ")
end

-- Probabilities of all rows of labels by p [T][C]: every path, one by one.
local function by_paths(p, classes, blank)
  local total = {}
  local path = {}
  local function go(t, weight)
    if t > #p then
      local text = collapsed(path, blank)
      total[text] = (total[text] or 0) + weight
      return
    end
    for c = 0, classes - 1 do
      path[t] = c
      go(t + 1, weight * p[t][c + 1])
    end
    path[t] = nil
  end
  go(1, 1)
  return total
end

describe("ctc", function()
  it("sums over all paths, for every row of labels, blank and length", function()
    pn.seed(1)
    for _, case in ipairs { { 5, 3, 0 }, { 4, 4, 2 }, { 1, 3, 0 }, { 6, 2, 1 } } do
      local steps, classes, blank = table.unpack(case)
      local log_p = (pn.randn { steps, classes } * 1.5):log_softmax(2)
      local total = by_paths(log_p:exp():totable(), classes, blank)
      local sum, count = 0, 0
      for text, want in pairs(total) do
        local labels = {}
        for word in text:gmatch "%d+" do labels[#labels + 1] = tonumber(word) end
        local n = #labels
        local row = n > 0 and whole { labels } or pn.zeros({ 1, 0 }, { dtype = "int64" })
        local got = pn.ctc_log_prob(log_p:unsqueeze(2), row, { blank = blank }):exp():item()
        assert(math.abs(got - want) < 1e-14 + 1e-12 * want, text)
        -- beside others, padded with what is not looked at
        local padded = pn.concatenate({ row, pn.full({ 1, 7 - n }, -100, { dtype = "int64" }) }, 2)
        local two = pn.ctc_log_prob(pn.stack({ log_p, log_p }, 2), pn.concatenate({ padded, padded }, 1),
          { blank = blank, label_lengths = whole { n, 0 } }):exp()
        assert(math.abs(two[1]:item() - want) < 1e-14 + 1e-12 * want, text)
        assert(math.abs(two[2]:item() - total[""]) < 1e-13)
        sum, count = sum + got, count + 1
      end
      assert(math.abs(sum - 1) < 1e-12 and count > 1, count)
    end
  end)

  it("has PyTorch's values and slopes for batches of unequal lengths", function()
    for _, name in ipairs { "full", "ragged", "blank", "tight", "zero" } do
      local case, o = golden[name], given_of(golden[name], name)
      for dtype, tolerance in pairs { float64 = 1e-12, float32 = 3e-6 } do
        local x = pn.param(pn.tensor(golden.logits, { dtype = dtype }))
        local labels = whole(case.labels)
        local each = pn.ctc_log_prob(x:log_softmax(3), labels, o)
        local minus = name == "zero" and pn.where(each:eq(-math.huge), 0, -each) or -each
        near(minus:detach(), case.each, tolerance)
        local more = given_of(case, name)
        more.zero_infinity = name == "zero"
        local value = pn.ctc_loss(x:log_softmax(3), labels, more)
        near(value:detach(), case.value, tolerance)
        assert.equal(dtype, value:dtype())
        if case.slope then
          near(pn.grad(value, { x })[1], case.slope, 10 * tolerance)
        end
      end
    end
  end)

  it("has the slopes that differences show, of logits and of log probabilities themselves", function()
    pn.seed(2)
    local w = pn.param(pn.randn { 5, 2, 3 })
    local labels, o = whole { { 1, 1 }, { 2, 1 } }, { lengths = whole { 5, 4 }, label_lengths = whole { 2, 1 } }
    for _, f in ipairs { function() return pn.ctc_loss(w:log_softmax(3), labels, o) end,
      function() return pn.ctc_log_prob(w, labels, o):exp():sum() end } do
      assert(pn.check_gradients(f, { w }, { order = 2 }))
    end
    -- classes that are impossible
    local half = -math.log(2)
    local log_p = pn.param(pn.tensor { { { -math.huge, 0, -math.huge } }, { { half, -math.huge, half } } })
    local value = pn.ctc_log_prob(log_p, whole { { 1 } })
    assert(math.abs(value:item() + math.log(2)) < 1e-14)
    assert.is_true(pn.grad(value:sum(), { log_p })[1]:isfinite():all():item())
    assert.equal(-math.huge, pn.ctc_log_prob(log_p, whole { { 2, 2 } }):item())
    local slope = pn.grad(pn.ctc_loss(log_p, whole { { 2, 2 } }, { zero_infinity = true }), { log_p })[1]
    assert.equal(0, slope:abs():max():item())
  end)

  it("is replayed as it is called, with other lengths", function()
    pn.seed(3)
    local w = pn.param(pn.randn { 3, 4 })
    local function f(x, labels, lengths, counts)
      local loss = pn.ctc_loss(x:matmul(w):log_softmax(3), labels, { lengths = lengths, label_lengths = counts })
      return loss, pn.grad(loss, { w })[1]
    end
    local step = pn.compile(f)
    for k = 1, 3 do
      local x, labels = pn.randn { 6, 2, 3 }, whole { { k, 2 }, { 1, 4 - k } }
      local lengths, counts = whole { 6, 3 + k }, whole { 2, k - 1 }
      local want, slope = f(x, labels, lengths, counts)
      local got, again = step(x, labels, lengths, counts)
      assert.same(want:totable(), got:totable())
      assert.same(slope:totable(), again:totable())
    end
    assert.equal(1, step:captures())
  end)

  it("learns an alignment", function()
    pn.seed(4)
    local x, labels = pn.randn { 8, 1, 3 }, whole { { 2, 1, 1 } }
    local net = pn.nn.mlp { 3, 16, 3 }
    local opt = pn.optim.adam(net, { lr = 0.03 })
    for _ = 1, 200 do opt:step(pn.ctc_loss(net(x):log_softmax(3), labels)) end
    assert.is_true(pn.ctc_log_prob(net(x):log_softmax(3), labels):exp():item() > 0.95)
    local path = {}
    for k, row in ipairs(net(x):squeeze(2):argmax(2):totable()) do path[k] = row end
    assert.equal("2 1 1", collapsed(path, 0))
  end)

  it("refuses by name", function()
    local p, y = pn.zeros { 4, 2, 3 }, whole { { 1, 2 }, { 2, 1 } }
    refused("ctc_loss: shapes must be log_p %[T, N, C%] and labels %[N, S%], got %[4, 2, 3%] and %[2%]", pn.ctc_loss, p,
      whole { 1, 2 })
    refused("ctc_log_prob: labels must be classes from 0 to 2 without the blank, 0", pn.ctc_log_prob, p,
      whole { { 0, 1 }, { 1, 1 } })
    refused("labels must be classes", pn.ctc_loss, p, whole { { 1, 3 }, { 1, 1 } })
    refused("labels must be classes", pn.ctc_loss, p, pn.tensor { { 1, 1.5 }, { 1, 1 } })
    refused("ctc_loss: lengths must be whole numbers from 1 to 4", pn.ctc_loss, p, y, { lengths = whole { 4, 5 } })
    refused("ctc_loss: label_lengths must be whole numbers from 0 to 2", pn.ctc_loss, p, y,
      { label_lengths = whole { 3, 1 } })
    refused("ctc_loss: lengths must have shape %[2%], one for each sequence, got %[3%]", pn.ctc_loss, p, y,
      { lengths = whole { 4, 4, 4 } })
    refused("ctc_loss: blank must be a class, 0 to 2, got 3", pn.ctc_loss, p, y, { blank = 3 })
    refused("ctc_loss: unknown option 'lenghts', did you mean 'lengths'%?", pn.ctc_loss, p, y, { lenghts = y })
    assert.is_true(pn.ctc_loss(p, y:to "float64"):eq(pn.ctc_loss(p, y)):item())
  end)
end)

describe("kl_div", function()
  it("has PyTorch's values and slopes", function()
    for name, log_target in pairs { divergence = false, log_divergence = true } do
      local case = golden[name]
      local x, y = pn.param(pn.tensor(case.x)), pn.param(pn.tensor(case.y))
      local value = pn.kl_div(x:log_softmax(2), log_target and y:log_softmax(2) or y:softmax(2),
        log_target and { log_target = true } or nil)
      near(value:detach(), case.value)
      for k, slope in ipairs(pn.grad(value, { x, y })) do near(slope, case.slopes[k]) end
    end
  end)

  it("counts nothing where p is 0, also of what is impossible there", function()
    local p, log_q = pn.tensor { 0, 0.25, 0.75 }, pn.param(pn.tensor { -math.huge, math.log(0.5), math.log(0.5) })
    local want = 0.25 * math.log(0.5) + 0.75 * math.log(1.5)
    local value = pn.kl_div(log_q, p)
    assert(math.abs(value:item() - want) < 1e-15)
    near(pn.grad(value, { log_q })[1], { 0, -0.25, -0.75 }, 1e-15)
    assert(math.abs(pn.kl_div(log_q, p:log(), { log_target = true }):item() - want) < 1e-15)
    assert.equal(math.huge, pn.kl_div(log_q, pn.tensor { 0.5, 0.25, 0.25 }):item())
    refused("kl_div: log_q and p must have one shape %[..., K%], got %[3%] and %[2%]", pn.kl_div, log_q, pn.ones { 2 })
  end)
end)
