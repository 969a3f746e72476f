-- Worlds with exact likelihoods: published figures of evidence and gaps, sums by hand, draws against densities.
local pn = require "penumbra"
local message_of = require("spec.helper").message_of

describe("flights", function()
  it("have the known evidence, ceiling and gaps", function()
    local rows = { [0.15] = { 6.1874202, { 1, 51.9544102, 21.6553663 }, { 2, 45.0215364, 14.7224925 },
      { 3, 34.0949375, 7.0668437 }, { 5, 21.3361280, 1.5319256 }, { 7, 15.8871795, 0.4129541 },
      { 10, 11.5449235, 0.0785863 } },
      [0.075] = { 20.9661595, { 1, 67.7004550, 31.2919611 }, { 2, 48.7581509, 12.3496570 },
      { 3, 34.7015205, 3.8171330 }, { 5, 24.2505262, 0.5460940 }, { 7, 19.9662258, 0.1137507 },
      { 10, 15.8034321, 0.0192275 } } }
    for sd, row in pairs(rows) do
      local system = pn.gap.flights({ noise_scale = { sd } }).system
      for k = 2, #row do
        local g = pn.gap.linear_gaussian(system, { steps = 25, conditioning = "semi", prefix = row[k][1], hold = true,
          first = "predicted" })
        assert.near(row[1], g.log_likelihood:item(), 6e-8)
        assert.near(row[k][2], g.gap:item(), 6e-8)
        assert.near(row[k][3], g.gaps[1]:item(), 6e-8)
      end
      local full = pn.gap.linear_gaussian(system, { steps = 25, conditioning = "full", first = "predicted" })
      assert.near(0, full.gap:item(), 1e-9)
    end
    local world = pn.gap.flights()
    local g = pn.gap.linear_gaussian(world.system, { steps = 25, first = "predicted" })
    assert.near(33.3409998, g.log_likelihood:item(), 6e-8)
    assert.near(2 * 51.9544102 + 67.7004550, g.gap:item(), 2e-7)
    assert.near(3.6276915, world.ceiling, 6e-8)
  end)

  it("draw what their density says", function()
    local world = pn.gap.flights()
    local x, z = world:sample(4000, { seed = 1 })
    assert.same({ 25, 4000, 3 }, x:shape())
    local each = world:log_prob(x)
    local se = each:std():item() / 4000 ^ 0.5
    assert.is_true(se < 0.12)
    assert.near(33.3409998, each:mean():item(), 5 * se)
    assert.near(0.075, (x - z:slice(-1, 1, 3)):select(-1, 3):std():item(), 0.001)
    assert.is_true(((world:sample(2, { seed = 1 })):eq((world:sample(2, { seed = 1 })))):all():item())
    assert.equal("float32", world:sample(2, { dtype = "float32" }):dtype())
    assert.truthy(message_of(world.log_prob, world, x:slice(1, 1, 3)):find("x must be [25, n, 3]", 1, true))
    assert.truthy(message_of(pn.gap.flights, { noise_scale = { 0.1, -1 } }):find(
      "must be a list of positive numbers", 1, true))
    assert.truthy(message_of(world.sample, world, 2, { seed = 1, generator = pn.generator(1) }):find("exclude",
      1, true))
  end)
end)

describe("glyph rows", function()
  local world = pn.gap.glyph_rows()
  it("share the upper half where they should, and differ otherwise", function()
    local t = world.templates:select(2, 3) -- not moved
    for _, other in ipairs { 3, 8, 9 } do
      assert.is_true(t[1]:slice(1, 1, 12):eq(t[other + 1]:slice(1, 1, 12)):all():item())
    end
    for a = 1, 10 do
      for b = a + 1, 10 do assert.is_true((t[a] - t[b]):abs():sum():item() > 15) end
    end
  end)

  -- Three bars, three rows each, from column 8 to 21, and four posts, three columns each, at their ends.
  it("are those of seven segments, each moved by -2 to 2 pixels", function()
    local of = { top = "0235789", middle = "2345689", bottom = "023568", upper_left = "0345689",
      upper_right = "01234789",
      lower_left = "0268", lower_right = "013456789" }
    for digit = 0, 9 do
      local function has(name) return of[name]:find(digit) ~= nil end
      local bars = { [3] = "top", [4] = "top", [5] = "top", [13] = "middle", [14] = "middle", [15] = "middle",
        [23] = "bottom", [24] = "bottom", [25] = "bottom" }
      for shift = -2, 2 do
        local rows = {}
        for r = 1, 28 do
          local half = r >= 3 and r <= 12 and "upper" or r >= 13 and r <= 25 and "lower"
          rows[r] = {}
          for c = 1, 28 do
            local k = c - shift
            rows[r][c] = (bars[r] and has(bars[r]) and k >= 8 and k <= 21
              or half and (k >= 8 and k <= 10 and has(half .. "_left") or k >= 19 and k <= 21
              and has(half .. "_right"))) and 1 or 0
          end
        end
        assert.same(rows, world.templates[digit + 1][shift + 3]:totable(), digit .. " " .. shift)
      end
    end
  end)

  it("are drawn from every class at every shift, a fiftieth of the pixels turned", function()
    local count = 4000
    local x, label = world:sample(count, { generator = pn.generator(3) })
    local rows = x:transpose(1, 2) -- [count, 28, 28]
    local share = pn.one_hot(label, 10):to "float64":mean(1)
    assert.is_true((share - 0.1):abs():max():item() < 6 * (0.09 / count) ^ 0.5)
    -- the mean of a pixel: of its five templates, each turned with probability 0.02
    local want = world.templates:mean(2) * 0.96 + 0.02
    for class = 0, 9 do
      local mine = rows:take(1, label:eq(class):nonzero():reshape { -1 })
      local error = (mine:mean(1) - want[class + 1]):abs():max():item()
      assert.is_true(error < 6 * (0.25 / mine:size(1)) ^ 0.5, ("class %d: %g"):format(class, error))
    end
  end)

  it("have the density that the sum over templates has", function()
    local x, class = world:sample(300, { seed = 2 })
    assert.same({ 28, 300, 28 }, x:shape())
    local image = x:select(2, 5):totable()
    local total, by_class = 0, {}
    for c, shifted in ipairs(world.templates:totable()) do
      by_class[c] = 0
      for _, rows in ipairs(shifted) do
        local p = 1 / 50
        for r = 1, 28 do
          for k = 1, 28 do p = p * (image[r][k] == rows[r][k] and 0.98 or 0.02) end
        end
        by_class[c] = by_class[c] + p
      end
      total = total + by_class[c]
    end
    assert.near(math.log(total), world:log_prob(x):totable()[5], 1e-9)
    local posterior = world:class_log_probs(x)
    assert.near(by_class[class:totable()[5] + 1] / total, posterior[5]:exp():totable()[class:totable()[5] + 1], 1e-9)
    assert.is_true(posterior:argmax(-1):eq(class):all():item())
    -- pixels flip as often as they should: log p is that of 2 in 100 of 784
    local expected = 784 * (0.98 * math.log(0.98) + 0.02 * math.log(0.02)) - math.log(50)
    local each = world:log_prob(x)
    assert.near(expected, each:mean():item(), 5 * each:std():item() / 300 ^ 0.5 + 0.01)
  end)
end)

describe("days of traffic", function()
  local world = pn.gap.traffic_days()

  -- log p of a day and p(jam) after each step, by the forward algorithm in plain numbers.
  local function forward(day)
    local jam, total, beliefs = 0, 0, {}
    for t, x in ipairs(day) do
      local peak = t >= 3 and t <= 6 or t >= 20 and t <= 23
      local onset = peak and 0.25 or 0.02
      jam = jam * 0.7 + (1 - jam) * onset
      local function density(loc, scale)
        return math.exp(-0.5 * ((x - loc) / scale) ^ 2) / (scale * (2 * math.pi) ^ 0.5)
      end
      local a, b = jam * density(25, 6), (1 - jam) * density(60, 3)
      total, jam = total + math.log(a + b), a / (a + b)
      beliefs[t] = jam
    end
    return total, beliefs
  end

  it("have the density of the forward algorithm", function()
    local x, regime = world:sample(2000, { seed = 4 })
    local each = world:log_prob(x):totable()
    for k = 1, 20 do
      assert.near((forward(x:select(2, k):squeeze(-1):totable())), each[k], 1e-9)
    end
    -- how often jams are, step by step
    local share, jam = regime:to("float64"):mean(2):totable(), 0
    for t = 1, 26 do
      jam = jam * 0.7 + (1 - jam) * ((t >= 3 and t <= 6 or t >= 20 and t <= 23) and 0.25 or 0.02)
      assert.near(jam, share[t], 5 * (jam * (1 - jam) / 2000) ^ 0.5)
    end
  end)

  it("go on after a prefix as they should", function()
    local x = world:sample(3, { seed = 4 })
    local after = world:sample_after(x:slice(1, 1, 20), 20000, { generator = pn.generator(1) })
    assert.same({ 20000, 6, 3, 1 }, after:shape())
    for k = 1, 3 do
      local _, beliefs = forward(x:select(2, k):squeeze(-1):totable())
      local jam = beliefs[20] * 0.7 + (1 - beliefs[20]) * 0.25
      local mean = 60 - 35 * jam
      local sd = (jam * (1 - jam) * 35 ^ 2 + jam * 36 + (1 - jam) * 9) ^ 0.5
      assert.near(mean, after:select(2, 1):select(2, k):mean():item(), 5 * sd / 20000 ^ 0.5)
    end
    assert.truthy(message_of(world.sample_after, world, x, 2):find(
      "prefix must be [k, n, 1] with k from 1 to 25", 1, true))
  end)

  it("refuse what is of other worlds, sizes and types", function()
    local flights, glyphs = pn.gap.flights { steps = 3, noise_scale = { 0.1, 0.2 } }, pn.gap.glyph_rows()
    local x = flights:sample(2, { seed = 1 })
    assert.same({ 3, 2, 2 }, x:shape())
    assert.equal("world of sequences of 3 steps of 2 numbers", tostring(flights))
    for want, call in pairs { ["class_log_probs: this is of glyph_rows"] = { flights.class_log_probs, flights, x },
      ["sample_after: this is of traffic_days"] = { glyphs.sample_after, glyphs, x, 2 },
      ["sample: dtype must be 'float64' or 'float32', got 'int64'"] = { flights.sample, flights, 2,
        { dtype = "int64" } },
      ["sample: n must be a whole number from 1 on, got 0"] = { flights.sample, flights, 0 },
      ["log_prob: x must be [3, n, 2], got [3, 2]"] = { flights.log_prob, flights, x:select(3, 1) },
      ["log_prob: x must be [3, n, 2], got [3, 2, 1]"] = { flights.log_prob, flights, x:slice(3, 1, 1) },
      ["log_prob: x must be [3, n, 2], got [3, 0, 2]"] = { flights.log_prob, flights, x:slice(2, 1, 0) },
      ["sample_after: prefix must be [k, n, 1] with k from 1 to 25, got [0, 2, 1]"] = { world.sample_after, world,
        pn.zeros { 0, 2, 1 }, 2 },
      ["sample_after: prefix must be [k, n, 1] with k from 1 to 25, got [5, 2, 2]"] = { world.sample_after, world,
        pn.zeros { 5, 2, 2 }, 2 },
      ["sample_after: draws must be a whole number from 1 on, got 0"] = { world.sample_after, world,
        pn.zeros { 5, 2, 1 }, 0 }, ["flights: noise_scale must be a list of positive numbers"] = { pn.gap.flights,
        { noise_scale = { 0.1, 0.0 } } }, ["flights: steps must be a whole number from 1 on, got 0"] = { pn.gap.flights,
        { steps = 0 } }, ["ceiling: scale must be positive"] = { pn.gap.ceiling, { 1, 0 } } } do
      assert.truthy(message_of(table.unpack(call)):find(want, 1, true), want)
    end
    assert.same({ 1, 1, 2, 1 }, world:sample_after(pn.full({ 25, 2, 1 }, 50), 1):shape())
    assert.same({ 0, 0.25, "float32", "int64" }, { glyphs.ceiling, world.onset[3], glyphs:sample(1,
      { dtype = "float32" })
      :dtype(), select(2, world:sample(1)):dtype() })
    assert.equal("float32", select(2, flights:sample(1, { dtype = "float32" })):dtype())
    assert.near(pn.gap.ceiling(3), world.ceiling, 1e-15)
  end)

  it("have the ceilings of the published noise scales", function()
    for scale, want in pairs { [2.97241] = -2.0083, [0.775862] = -0.6652, [1.28276] = -1.1680 } do
      assert.near(want, pn.gap.ceiling(scale), 5e-5)
    end
    assert.near(3.6276915, pn.gap.ceiling { 0.15, 0.15, 0.075 }, 6e-8)
  end)
end)
