--- What a list of losses says of a fit, and what is made of weights and steps beside, by loops over plain lists.
local pn = require "penumbra"
local near = require("spec.helper").near
local trend = require "penumbra.infer.losses"
local infer = pn.infer

local function median(list)
  local s = table.move(list, 1, #list, 1, {})
  table.sort(s)
  local n = #s
  return n % 2 == 1 and s[(n + 1) / 2] or (s[n / 2] + s[n / 2 + 1]) / 2
end

-- Losses around a line, with noise of a size.
local function losses(n, slope, noise, seed)
  local eps, list = pn.randn({ n }, { generator = pn.generator(seed) }):totable(), {}
  for k = 1, n do list[k] = 50 + slope * k + noise * eps[k] end
  return list
end

describe("the trend of losses", function()
  it("rises by the difference of two eighths, if that is a nat and five standard errors", function()
    local told = { 0, 0 }
    for seed = 1, 40 do
      local n, first = 80 + seed * 7, seed % 3 * 5 + 1
      local list = losses(n + first - 1, -0.02 * (seed % 7), ({ 0.2, 1, 6 })[seed % 3 + 1], seed)
      local function part(from, to) -- mean and squared standard error of the losses in these shares
        local some = {}
        for k = first + math.floor(from * n), first + math.floor(to * n) - 1 do some[#some + 1] = list[k] end
        local mean, square = 0, 0
        for _, v in ipairs(some) do mean = mean + v / #some end
        for _, v in ipairs(some) do square = square + (v - mean) ^ 2 / (#some - 1) end
        return mean, square / #some
      end
      local a, v = part(0.5, 0.625)
      local b, w = part(0.625, 0.75)
      local want = a - b >= 1 and (a - b) ^ 2 >= 25 * (v + w) and a - b or 0
      near(trend.rise(list, first), want, 1e-9)
      told[want > 0 and 1 or 2] = told[want > 0 and 1 or 2] + 1
    end
    assert.is_true(told[1] > 4 and told[2] > 4)
    -- ten losses of +1 and -1 about each mean: five standard errors are 5 (2 * 10 / (10 * 9))^(1/2) = 2.357
    for drop, want in pairs { [2.31] = 0, [2.40] = 2.40 } do
      local list = {}
      for k = 1, 80 do list[k] = (k % 2 == 0 and 1 or -1) - (k > 50 and drop or 0) end
      near(trend.rise(list, 1), want, 1e-9)
    end
    assert.equal(0, trend.rise(losses(79, -1, 0.01, 1), 1))
    assert.is_true(trend.rise(losses(80, -1, 0.01, 1), 1) > 9)
    assert.equal(0, trend.rise(losses(80, -1, 0.01, 1), 2))
  end)

  it("falls from the best tenth to the last by medians, if that is a nat and five deviations", function()
    local told = { 0, 0 }
    for seed = 1, 40 do
      local n = 50 + seed * 11
      local list = losses(n, seed % 4 == 0 and -0.05 or 0.01 * (seed % 5), ({ 0.1, 0.8, 3 })[seed % 3 + 1], seed)
      local size, best, last, tenth = n // 10, math.huge, nil, nil
      for k = 10, 1, -1 do -- tenths that end with the last loss, 25 to 50 of each looked at
        local some, from = {}, n - k * size + 1
        for i = from, from + size - 1, math.max(1, size // 25) do some[#some + 1] = list[i] end
        last = median(some)
        if last < best then best, tenth = last, some end
      end
      local away = {}
      for i, v in ipairs(tenth) do away[i] = math.abs(v - best) end
      local fall = last - best
      local want = fall >= 1 and fall >= 5 * 1.4826 * median(away) and fall or 0
      near(trend.fall(list), want, 1e-9)
      told[want > 0 and 1 or 2] = told[want > 0 and 1 or 2] + 1
    end
    assert.is_true(told[1] > 4 and told[2] > 4)
    assert.equal(0, trend.fall(losses(49, 1, 0.01, 1)))
    assert.is_true(trend.fall(losses(50, 1, 0.01, 1)) > 40)
    local ended = losses(100, 0, 0.1, 1)
    for k = 90, 100 do ended[k] = 0 / 0 end
    assert.equal(math.huge, trend.fall(ended))
  end)
end)

describe("beside estimators", function()
  it("a running baseline is the mean by weights that forget, as if it had begun with them", function()
    local b = infer.running_baseline { decay = 0.8 }
    local seen = {}
    assert.equal(0, b.value)
    for k, bound in ipairs { 3, -1, 4, 1.5, 9 } do
      seen[k] = bound
      local sum, weight = 0, 0
      for i = 1, k do
        local w = 0.8 ^ (k - i)
        sum, weight = sum + w * seen[i], weight + w
      end
      near(b:update(bound), sum / weight)
      near(b.value, sum / weight)
    end
  end)

  it("annealing rises in a line, or in ramps that begin anew", function()
    for step = 0, 24 do
      near(infer.anneal(step, { steps = 20 }), math.min(1, step / 20))
      near(infer.anneal(step, { steps = 20, from = 0.2, to = 0.6 }), 0.2 + 0.4 * math.min(1, step / 20))
      near(infer.anneal(step, { steps = 20, ramp = 0.5 }), math.min(1, step / 10))
      for _, ramp in ipairs { 0.5, 0.8 } do
        local want = step >= 20 and 1 or math.min(1, step % 5 / (5 * ramp))
        near(infer.anneal(step, { steps = 20, cycles = 4, ramp = ramp ~= 0.5 and ramp or nil }), want)
      end
    end
  end)

  it("k-hat is trusted up to 1 - 1 / log10 of the draws, 0.7 at most", function()
    near(infer.pareto_k_threshold(100), 0.5)
    near(infer.pareto_k_threshold(1000), 2 / 3)
    near(infer.pareto_k_threshold(10000), 0.7)
    local function told(k, draws) return infer.pareto_warning(pn.tensor(k), draws) end
    assert.is_nil(told({ 0.5, 0.1 }, 100))
    assert.equal("Pareto k-hat is above 0.50 for 1 of 3 data (the largest is 0.60): at least 317 draws are needed",
      told({ 0.6, 0.1, 0.5 }, 100)) -- 10^(1 / 0.4) = 316.2
    assert.matches("for 2 of 2 data %(the largest is 0.80%): estimates converge too slowly", told({ 0.8, 0.71 }, 1e6))
    assert.matches("the weights have no mean", told({ 1, 0.1 }, 1e6))
  end)

  it("resampled draws stand at their places", function()
    local draws = pn.arange(24):to("float64"):reshape { 4, 2, 3 }
    local log_w = pn.tensor { { -1e9, 0 }, { 0, -1e9 }, { -1e9, -1e9 }, { -1e9, 0 } }
    local places = infer.sir(log_w, 50, { generator = pn.generator(1) })
    local z = infer.sir(log_w, 50, { generator = pn.generator(1), values = draws })
    assert.same({ 50, 2 }, places:shape())
    assert.same({ 50, 2, 3 }, z:shape())
    for i = 1, 50 do
      assert.equal(1, places[i][1]:item())
      for b = 1, 2 do
        assert.same(draws[math.tointeger(places[i][b]:item()) + 1][b]:totable(), z[i][b]:totable())
      end
    end
    local second = places:select(2, 2):to "float64"
    assert.is_true(second:min():item() == 0 and second:max():item() == 3)
  end)
end)

describe("the trend of losses at its bounds", function()
  -- n losses, each what f(k) gives of its number from 1 on.
  local function list(n, f)
    local out = {}
    for k = 1, n do out[k] = f(k) end
    return out
  end

  it("is a rise of a nat or more, and of five standard errors, in the third quarter", function()
    local function rise(by, noise) -- from steps 65 to 80 to 81 to 96, of 128
      return trend.rise(list(128, function(k) return (k <= 80 and by or 0) + (k % 2 == 0 and noise or -noise) end), 1)
    end
    assert.equal(1, rise(1, 0))
    assert.equal(0, rise(1 - 2 ^ -30, 0))
    assert.equal(0, trend.rise(list(79, function(k) return -9 * k end), 1))
    near(trend.rise(list(80, function(k) return -9 * k end), 1), 90, 1e-9)
    -- the variance of a mean of 16 is noise^2 / 15: five errors of the difference are 5 noise sqrt(2 / 15)
    near(rise(2, 1.09), 2, 1e-9)
    assert.equal(0, rise(2, 1.1))
  end)

  it("is a fall of a nat or more, and of five deviations of the best tenth", function()
    local function fall(by, noise, later) -- tenths of 10, the first as good as the second, the last worse
      return trend.fall(list(100, function(k)
        local side = k % 2 == 0 and 1 or -1
        return k <= 10 and noise * side or k <= 20 and (later or noise) * side or k <= 90 and 100 or by
      end))
    end
    assert.equal(1, fall(1, 0))
    assert.equal(0, fall(1 - 2 ^ -30, 0))
    assert.equal(5 * 1.4826, fall(5 * 1.4826, 1))
    assert.equal(0, fall(5 * 1.4826 - 2 ^ -30, 1))
    assert.equal(3, fall(3, 0, 9)) -- of two that are as good the first
    assert.equal(math.huge, fall(0 / 0, 0))
    assert.equal(0, trend.fall(list(49, function(k) return k end)))
    assert.equal(45, trend.fall(list(50, function(k) return k end)))
  end)
end)
