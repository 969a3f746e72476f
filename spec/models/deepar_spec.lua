-- DeepAR: the likelihood step by step with distributions of their own, forecasts in law, and an AR(1) learnt.
local pn = require "penumbra"

local function max_difference(a, b)
  return (a - b):abs():max():item()
end

-- The law of what the model sees at each step, by steps of the layers alone; b without lengths.
local function by_hand(m, y, u, output)
  local steps, size, p = y:size(1), y:size(2), y:size(3)
  local before, seen, states, total = pn.zeros { size, p }, pn.zeros { size, p }, {}, pn.zeros { size }
  for t = 1, steps do
    local x = m.inputs.layer(u[t])
    local h = pn.concatenate({ before, seen, x }, 2)
    for k, layer in ipairs(m.layers) do
      local c
      h, c = layer:step(h, table.unpack(states[k] or {}))
      states[k] = { h, c }
    end
    local out = m.head(h):reshape { size, p, -1 }
    local function at(i) return out:slice(3, i, i):squeeze(3) end
    local law
    if output == "normal" then
      law = pn.dist.normal(at(1), pn.softplus(at(2)) + 1e-6)
    elseif output == "student_t" then
      law = pn.dist.student_t(2 + pn.softplus(at(3)), at(1), pn.softplus(at(2)) + 1e-6)
    else -- mean and dispersion, in the scale of the series, which is 4 here
      local mean, a = (pn.softplus(at(1)) + 1e-6) * 4, (pn.softplus(at(2)) + 1e-6) / 2
      law = pn.dist.negative_binomial { total_count = 1 / a, probs = mean * a / (1 + mean * a) }
    end
    local there = y[t]:eq(y[t])
    local value = pn.where(there, y[t], pn.zeros {})
    total = total + pn.where(there, law:log_prob(value), pn.zeros {}):sum(2)
    before, seen = output == "negative_binomial" and value / 4 or value, there:to "float64"
  end
  return total
end

describe("deepar", function()
  for _, output in ipairs { "normal", "student_t", "negative_binomial" } do
    it("has the log likelihood that the steps add up to: " .. output, function()
      pn.seed(3)
      local p, counts = 2, output == "negative_binomial"
      local m = pn.models.deepar { size = p, covariates = 2, features = 3, hidden = 4, output = output,
        scaling = counts and "mean" or "none" }
      local y, u = counts and pn.randint(0, 9, { 6, 3, p }):to "float64" or pn.randn { 6, 3, p }, pn.randn { 6, 3, 2 }
      local list = y:totable()
      list[2][1][2], list[6][3][1] = 0 / 0, 0 / 0
      y = pn.tensor(list)
      local batch = { y = y, inputs = u, location = counts and pn.zeros { 3, p } or nil,
        scale = counts and pn.full({ 3, p }, 4) or nil }
      assert.is_true(max_difference(m:log_evidence(batch), by_hand(m, y, u, output)) < 1e-11)
      local paths = m:forecast(batch, 2, { draws = 7, inputs = u:slice(1, 1, 2) })
      assert.same({ 7, 2, 3, p }, paths:shape())
      if counts then
        assert.is_true(paths:eq(paths:floor()):all():item() and paths:min():item() >= 0)
        assert.is_false(pcall(pn.models.deepar, { output = output, scaling = "change" }))
      end
    end)
  end

  it("forecasts by its own laws, path by path", function()
    pn.seed(4)
    local m = pn.models.deepar { hidden = 6, layers = 1, scaling = "none" }
    local n, y = 40000, pn.randn { 5, 1, 1 }
    local paths = m:forecast({ y = y }, 2, { draws = n }):reshape { n, 2 }
    -- the law of a step as its likelihood: the first step's mean and variance, and the second's given the first
    local function log_density(values) -- values [k, N]: of N continuations at once
      local k = values:size(1)
      local all = pn.concatenate({ y:broadcast_to { 5, values:size(2), 1 }, values:reshape { k, -1, 1 } }, 1)
      return m:log_evidence { y = all }
    end
    local grid = pn.linspace(-12, 12, 4001)
    local width = 24 / 4000
    local first = (log_density(grid:reshape { 1, -1 }) - m:log_evidence { y = y }):exp()
    assert.is_true(math.abs(first:sum():item() * width - 1) < 1e-6)
    local mean = (first * grid):sum():item() * width
    local variance = (first * (grid - mean):square()):sum():item() * width
    local drawn = paths:select(2, 1)
    assert.is_true(math.abs(drawn:mean():item() - mean) < 6 * math.sqrt(variance / n))
    assert.is_true(math.abs(drawn:var():item() / variance - 1) < 6 * math.sqrt(2 / n))
    -- the second step, standardised by its own law (slope over root of curvature of the log density): standard normal
    local pairs_of = paths:slice(1, 1, 4000):t():contiguous()
    local two = log_density(pairs_of) - log_density(pairs_of:slice(1, 1, 1)) -- log p(y_2 | y_1)
    local shifted = log_density(pn.stack({ pairs_of[1], pairs_of[2] + 1 }, 1)) - log_density(pairs_of:slice(1, 1, 1))
    local back = log_density(pn.stack({ pairs_of[1], pairs_of[2] - 1 }, 1)) - log_density(pairs_of:slice(1, 1, 1))
    local precision = -(shifted + back - two * 2)
    local z = (shifted - back) / 2 / precision:sqrt()
    assert.is_true(math.abs(z:mean():item()) < 6 / math.sqrt(4000))
    assert.is_true(math.abs(z:var():item() - 1) < 6 * math.sqrt(2 / 4000))
  end)

  it("learns an AR(1): its likelihood and its forecasts come near the exact ones", function()
    pn.seed(6)
    local a, items = 0.8, {}
    local function series(steps)
      local e, y = pn.randn({ steps }):totable(), {}
      for t = 1, steps do
        y[t] = t == 1 and e[1] / 0.6 or a * y[t - 1] + e[t]
      end
      return y
    end
    for k = 1, 20 do
      items[k] = { target = series(200) }
    end
    local m = pn.models.deepar { hidden = 8, layers = 1, scaling = "none" }
    m:fit { series = pn.data.series(items), window = 40, steps = 400, batch_size = 32, lr = 2e-2, seed = 1 }
    local test = pn.tensor(series(4000)):reshape { 40, 100 }:t():reshape { 100, 40, 1 }
    local own = m:log_evidence { y = test } - m:log_evidence { y = test:slice(1, 1, 20) }
    local residual = test:slice(1, 21, 100) - test:slice(1, 20, 99) * a
    local truth = pn.dist.normal(0, 1):log_prob(residual):sum { 1, 3 }
    local gap = (truth - own):sum():item() / (80 * 40) -- nats a step
    assert.is_true(gap > -0.01 and gap < 0.02, gap)
    -- from y_T = 3: mean a^h y_T, variance (1 - a^2h) / (1 - a^2)
    local last = pn.concatenate { test:slice(2, 1, 1), pn.full({ 1, 1, 1 }, 3) }
    local paths = m:forecast({ y = last }, 5, { draws = 4000 }):reshape { 4000, 5 }
    for h = 1, 5 do
      local sd = math.sqrt((1 - a ^ (2 * h)) / (1 - a * a))
      local mean = paths:select(2, h):mean():item()
      assert.is_true(math.abs(mean - 3 * a ^ h) < 0.25 * sd, mean)
      assert.is_true(math.abs(paths:select(2, h):std():item() / sd - 1) < 0.12)
    end
  end)
end)
