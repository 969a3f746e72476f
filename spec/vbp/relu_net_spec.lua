-- The variational ReLU network against coordinate ascent one number at a time (spec/golden/vbp/relu_net.py), the exact
-- evidence of a linear model, its bound at each update, one pass over batches, its file.
local pn = require "penumbra"
local near = require("spec.helper").within
local golden = dofile "spec/golden/vbp/relu_net.lua"

-- The golden net with its first weights: out of a file, where they can be set.
local function started(dtype)
  local path = os.tmpname()
  local layers = {}
  for l, w in ipairs(golden.start) do
    local mean = pn.tensor(w, { dtype = dtype })
    local precision = pn.eye(mean:size(1), { dtype = dtype }) * golden.alpha
    layers[l] = { mean = mean, precision = precision, prior_mean = mean:zeros_like(), prior_precision = precision }
  end
  assert(pn.checkpoint.save(path, { kind = "relu net", layers = layers, sizes = golden.sizes, dtype = dtype, seen = 0,
    prior_precision = golden.alpha, noise_precision = golden.beta, unit_precision = golden.gamma }))
  local m = assert(pn.restore(path))
  os.remove(path)
  return m, path
end

local function weights_of(m, l)
  local path = os.tmpname()
  assert(m:save(path))
  local found = assert(pn.checkpoint.load(path))
  os.remove(path)
  return found.layers[l]
end

describe("the variational ReLU network", function()
  local g = pn.generator(3)
  local x = pn.randn({ 90, 3 }, { generator = g })
  local y = x[{ {}, 1 }] + x[{ {}, 2 }]:abs() + pn.randn({ 90 }, { generator = g }) * .1

  it("climbs as one number at a time does, to the same bounds and weights", function()
    local m = started "float64"
    local r = m:fit { data = { pn.tensor(golden.x), pn.tensor(golden.y) }, max_sweeps = 3 }
    for k, want in ipairs(golden.bounds) do near(r.bounds[k], want, 1e-8, "bound") end
    for l, want in ipairs(golden.mean) do
      near((weights_of(m, l).mean - pn.tensor(want)):abs():max(), 0, 1e-7, "weights")
    end
    local m32 = started "float32"
    local r32 = m32:fit { data = { pn.tensor(golden.x):to "float32", pn.tensor(golden.y) }, max_sweeps = 3 }
    near(r32.bound, golden.bounds[3], 2e-3)
  end)

  it("never lowers its bound by an update of weights, inputs or hidden units, at any depth", function()
    for _, sizes in ipairs { { 3, 12, 1 }, { 3, 8, 7, 1 }, { 3, 5, 5, 5, 1 } } do
      local m = pn.vbp.relu_net { sizes = sizes, seed = 1, noise_precision = 20, unit_precision = 30 }
      local r = m:fit { data = { x, y }, max_sweeps = 12, trace = true }
      local before, fell, seen = nil, 0, {}
      for _, step in ipairs(r.steps) do
        assert.is_true(step.bound - step.bound == 0)
        if before and step.update == "gates" then
          fell = fell + (step.bound < before - 1e-9 and 1 or 0)
        elseif before then
          assert.is_true(step.bound >= before - 1e-10 * math.abs(before), step.update .. step.layer)
        end
        before, seen[step.update] = step.bound, true
      end
      assert.same({ weights = true, inputs = true, gates = true, hidden = true }, seen)
      assert.is_true(fell > 0) -- gates follow E f, not the bound: that they are told apart matters
      assert.equal(r.bounds[12], r.bound)
    end
  end)

  it("without hidden units is linear regression: bound and posterior are exact", function()
    local m = pn.vbp.relu_net { sizes = { 3, 1 }, prior_precision = .7, noise_precision = 5 }
    local r = m:fit { data = { x, y }, max_sweeps = 1 }
    local wide = pn.concatenate({ x, pn.ones { 90, 1 } }, 2)
    local covariance = wide:matmul(wide:t()) / .7 + pn.eye(90) / 5
    local law = pn.dist.multivariate_normal { loc = pn.zeros { 90 }, covariance_matrix = covariance }
    near(r.bound, law:log_prob(y):item(), 1e-8)
    local p = m:predict(x)
    local gain = wide:matmul(wide:t()):matmul(covariance:inverse()) / .7
    near((p.mean:squeeze(2) - gain:matmul(y)):abs():max(), 0, 1e-9)
    near((p.variance - p.spread - .2):abs():max(), 0, 1e-12)
  end)

  it("batch by batch without hidden units learns what all data at once say", function()
    local whole = pn.vbp.relu_net { sizes = { 3, 1 } }
    whole:fit { data = { x, y }, max_sweeps = 1 }
    local one_pass = pn.vbp.relu_net { sizes = { 3, 1 } }
    local bound = 0
    for from = 1, 90, 25 do
      local last = math.min(90, from + 24)
      bound = bound + one_pass:observe(x:slice(1, from, last), y:slice(1, from, last), { max_sweeps = 1 }).bound
    end
    local m, v = whole:moments(x)
    local own_m, own_v = one_pass:moments(x)
    near((m - own_m):abs():max(), 0, 1e-9)
    near((v - own_v):abs():max(), 0, 1e-10)
    near(bound, pn.vbp.relu_net { sizes = { 3, 1 } }:fit { data = { x, y }, max_sweeps = 1 }.bound, 1e-7)
  end)

  it("learns, all at once and in one pass, labels too", function()
    local labels = x[{ {}, 1 }]:gt(0):to "int64" + x[{ {}, 2 }]:gt(.3):to "int64"
    local m = pn.vbp.relu_net { sizes = { 3, 20, 3 }, seed = 2, unit_precision = 100 }
    m:fit { data = { x, labels }, max_sweeps = 30 }
    assert.is_true(m:classes(x):ne(labels):to("float64"):mean():item() < .15)
    local online = pn.vbp.relu_net { sizes = { 3, 20, 3 }, seed = 2, unit_precision = 100 }
    for from = 1, 90, 15 do online:observe(x:slice(1, from, from + 14), labels:slice(1, from, from + 14)) end
    assert.is_true(online:classes(x):ne(labels):to("float64"):mean():item() < .15)
  end)

  -- mean of w' h; its variance m' S m + sum_i v_i (E w_i^2), of a unit's input; of an open unit 1 / beta comes on top,
  -- and of each 1 / gamma.
  it("has the moments of a product of independent normals, layer after layer, and tells what it has seen", function()
    local m = pn.vbp.relu_net { sizes = { 3, 4, 3, 2 }, seed = 5, prior_precision = 3, noise_precision = 4,
      unit_precision = 6 }
    local both = pn.stack({ y, y * 0.5 + 1 }, 2)
    m:observe(x:slice(1, 1, 30), both:slice(1, 1, 30))
    m:observe(x:slice(1, 31, 50), both:slice(1, 31, 50))
    local mean, variance = m:moments(x:slice(1, 1, 4))
    for n = 1, 4 do
      local h, v = x[n]:totable(), { 0, 0, 0 }
      for l = 1, 3 do
        local w = weights_of(m, l)
        local cov = w.precision:inverse():totable()
        h[#h + 1], v[#v + 1] = 1, 0
        local next_h, next_v = {}, {}
        for k = 1, w.mean:size(2) do
          local f, spread = 0, 0
          for i = 1, #h do
            f = f + w.mean[i][k]:item() * h[i]
            for j = 1, #h do spread = spread + h[i] * cov[i][j] * h[j] end
            spread = spread + v[i] * (w.mean[i][k]:item() ^ 2 + cov[i][i])
          end
          next_h[k], next_v[k] = f, spread
          if l < 3 then next_h[k], next_v[k] = math.max(f, 0), (f > 0 and spread + 1 / 4 or 0) + 1 / 6 end
        end
        h, v = next_h, next_v
      end
      for k = 1, 2 do
        near(mean[n][k], h[k], 1e-10)
        near(variance[n][k], v[k], 1e-10)
      end
    end
    local path = os.tmpname()
    assert(m:save(path))
    local found = assert(pn.checkpoint.load(path))
    os.remove(path)
    assert.same({ 50, 3, 4, 6, "float64" }, { found.seen, found.prior_precision, found.noise_precision,
      found.unit_precision, found.dtype })
  end)

  it("comes back from its file and goes on to the same bits", function()
    local m = pn.vbp.relu_net { sizes = { 3, 6, 1 }, seed = 4, prior_precision = 3, noise_precision = 20,
      unit_precision = 30 }
    m:observe(x:slice(1, 1, 40), y:slice(1, 1, 40))
    local path = os.tmpname()
    assert(m:save(path))
    local other = assert(pn.restore(path))
    m:observe(x:slice(1, 41, 90), y:slice(1, 41, 90))
    other:observe(x:slice(1, 41, 90), y:slice(1, 41, 90))
    near((m:moments(x) - other:moments(x)):abs():max(), 0, 1e-12)
    near(m:observe(x:slice(1, 1, 5), y:slice(1, 1, 5)).bound, other:observe(x:slice(1, 1, 5), y:slice(1, 1, 5)).bound,
      1e-10)
    assert(pn.save(path, { a = pn.ones { 2 } }))
    assert.is_nil((pn.restore(path)))
    os.remove(path)
  end)

  it("starts with weights of variance 2 / fan-in and biases of 0, and comes out of its file so", function()
    local m, path = pn.vbp.relu_net { sizes = { 40, 300, 50 }, seed = 6, prior_precision = .7 }, os.tmpname()
    for l, fan in ipairs { 40, 300 } do
      local w = weights_of(m, l).mean
      local start, n = w:slice(1, 1, fan), fan * w:size(2)
      near(start:square():mean() * fan / 2, 1, 6 * (2 / n) ^ .5)
      near(start:mean() * (fan / 2) ^ .5, 0, 6 / n ^ .5)
      assert.equal(0, w:slice(1, fan + 1, fan + 1):abs():max():item())
    end
    -- of its file, covariances and roots come from precisions: before any data, and behind some
    local own = pn.vbp.relu_net { sizes = { 3, 6, 4, 1 }, seed = 4, prior_precision = .7 }
    for _ = 1, 2 do
      assert(own:save(path))
      local other = assert(pn.restore(path))
      near((select(2, own:moments(x)) - select(2, other:moments(x))):abs():max(), 0, 1e-9)
      local a = own:fit { data = { x, y }, max_sweeps = 1, trace = true }
      local b = other:fit { data = { x, y }, max_sweeps = 1, trace = true }
      assert.equal(9, #a.steps)
      for k, step in ipairs(a.steps) do near(step.bound, b.steps[k].bound, 1e-7 * math.abs(step.bound), step.update) end
      own:observe(x:slice(1, 1, 40), y:slice(1, 1, 40))
    end
    os.remove(path)
  end)

  it("sweeps so often as it is told, or until the bound hardly rises", function()
    local function fit(o)
      o.data = { x, y }
      return pn.vbp.relu_net { sizes = { 3, 6, 1 }, seed = 4 }:fit(o)
    end
    local r = fit {}
    assert.same({ 10, nil }, { #r.bounds, r.steps })
    local m = pn.vbp.relu_net { sizes = { 3, 6, 1 }, seed = 4 }
    assert.equal(3, #m:observe(x, y).bounds)
    assert.equal("relu_net of layers 3-6-1", tostring(m))
    local rise = {}
    for k = 2, 10 do rise[k] = r.bounds[k] - r.bounds[k - 1] end
    assert.is_true(rise[2] > rise[3] and rise[3] > rise[4])
    assert.equal(2, #fit({ tolerance = 1e9 }).bounds)
    assert.equal(4, #fit({ tolerance = rise[3] }).bounds) -- what rises by as much goes on
    assert.equal(r.bounds[3], fit({ max_sweeps = 3 }).bound)
  end)

  it("takes no data, too, and looks at a single label", function()
    local m = pn.vbp.relu_net { sizes = { 3, 2, 3 }, seed = 4 }
    local before = m:moments(x):totable()
    for _, label in ipairs { -1, 3 } do
      assert.error_matches(function() m:observe(x:slice(1, 1, 1), pn.tensor({ label }, { dtype = "int64" })) end,
        "y must be labels from 0 to 2")
    end
    local r = m:observe(pn.zeros { 0, 3 }, pn.zeros({ 0 }, { dtype = "int64" }))
    assert.same({ true, 3 }, { r.bound == r.bound, #r.bounds })
    assert.equal(0, m:moments(x):sum():item()) -- the best weights are the prior's
    assert.is_not.same(before, m:moments(x):totable())
  end)

  it("names what is wrong with a file", function()
    local path = os.tmpname()
    local function refuses(text, change)
      local eye, mean = pn.eye(4), pn.zeros { 4, 1 }
      local found = { kind = "relu net", sizes = { 3, 1 }, dtype = "float64", seen = 0, prior_precision = .5,
        noise_precision = .5, unit_precision = .5, layers = { { mean = mean, precision = eye, prior_mean = mean,
          prior_precision = eye } } }
      change(found)
      assert(pn.checkpoint.save(path, found))
      local m, message, code = pn.restore(path)
      if not text then return assert(m, message) end
      assert.is_nil(m)
      assert.equal("format", code)
      assert(message:find(text, 1, true), message)
    end
    refuses(nil, function() end)
    for _, sizes in ipairs { { 0, 1 }, { 3, 0 }, { 1 << 24, 1 }, { 3, 1 << 24 }, { 3.5, 1 }, { 3, 1.5 } } do
      refuses("'sizes' must be sizes of layers", function(found) found.sizes = sizes end)
    end
    refuses("sizes", function(found) found.sizes = 3 end)
    for _, name in ipairs { "mean", "prior_mean", "precision", "prior_precision" } do
      refuses(("'layers.1.%s' must"):format(name), function(found)
        local w = found.layers[1]
        w[name] = pn.where(pn.arange(4):unsqueeze(2):eq(2), 0 / 0, w[name])
      end)
    end
    for _, name in ipairs { "precision", "prior_precision" } do
      refuses("a precision must be positive definite", function(found) found.layers[1][name] = -pn.eye(4) end)
    end
    refuses("seen", function(found) found.seen = -1 end)
    local least = pn.vbp.relu_net { sizes = { 1, 1, 1 }, seed = 1 }
    assert(least:save(path))
    local one = pn.ones { 2, 1 }
    assert.same(least:moments(one):totable(), assert(pn.restore(path)):moments(one):totable())
    refuses("noise_precision", function(found) found.noise_precision = 0 end)
    os.remove(path)
  end)

  it("refuses what it cannot take, and is then as it was", function()
    local m = pn.vbp.relu_net { sizes = { 3, 6, 1 }, seed = 4 }
    local before = m:moments(x):totable()
    local bad = y * 1
    assert.error_matches(function() m:observe(x, pn.where(pn.arange(90):eq(3), 0 / 0, bad)) end, "y must be finite")
    assert.error_matches(function() m:observe(x:slice(2, 1, 2), y) end, "x must be float64 %[N, 3%]")
    assert.error_matches(function() m:observe(x, y:slice(1, 1, 5)) end, "y must be labels")
    assert.error_matches(function() pn.vbp.relu_net { sizes = { 3 } } end, "at least two")
    assert.error_matches(function() pn.vbp.relu_net { sizes = { 3, 0 } } end, "sizes%[2%]")
    assert.error_matches(function() pn.vbp.relu_net { sizes = { 3, 1 }, unit_precision = 0 } end, "unit_precision must")
    for _, name in ipairs { "prior_precision", "noise_precision", "unit_precision" } do
      for _, v in ipairs { 0.0, -1.0, math.huge } do
        assert.error_matches(function() pn.vbp.relu_net { sizes = { 3, 1 }, [name] = v } end, name
          .. " must be a positive number, got ")
      end
    end
    for _, wrong in ipairs { x[1], x:to "float32", x:unsqueeze(1) } do
      assert.error_matches(function() m:observe(wrong, y) end, "observe: x must be float64 %[N, 3%]")
    end
    assert.error_matches(function() m:observe(x / 0, y) end, "observe: x must be finite")
    assert.error_matches(function() m.observe({}, x, y) end, "observe: needs a relu_net, as in m:observe")
    local three = pn.vbp.relu_net { sizes = { 3, 2, 3 }, seed = 4 }
    for want, labels in pairs { ["y must be labels from 0 to 2"] = { 0, 3 }, ["y must be labels from 0 to 2 "] = { -1,
      0 },
      ["y must be labels int64 [2], or numbers [2, 3], got [3, 3]"] = { 0, 1, 2 } } do
      assert.error_matches(function() three:observe(x:slice(1, 1, 2), pn.tensor(labels, { dtype = "int64" })) end,
        want:gsub(" $", ""), 1, true)
    end
    for _, wrong in ipairs { pn.ones { 2 }, pn.ones { 2, 2 }, pn.ones { 2, 3, 1 }, pn.ones { 3, 3 } } do
      assert.error_matches(function() three:observe(x:slice(1, 1, 2), wrong) end,
        "y must be labels int64 [2], or numbers",
        1, true)
    end
    three:observe(x:slice(1, 1, 2), pn.tensor({ 0, 2 }, { dtype = "int64" }))
    -- classes are zeros and ones, whole numbers are numbers
    local classes = pn.tensor({ 0, 1, 1 }, { dtype = "int64" })
    for _, case in ipairs { { 2, classes, pn.eye(2):take(1, classes) }, { 1, classes, classes:to "float64" } } do
      local means = {}
      for k = 2, 3 do
        local net = pn.vbp.relu_net { sizes = { 3, 2, case[1] }, seed = 4 }
        net:observe(x:slice(1, 1, 3), case[k])
        means[k] = net:moments(x):totable()
      end
      assert.same(means[2], means[3])
    end
    assert.error_matches(function() m:observe(3, y) end, "observe: x must be a tensor, got 3")
    assert.error_matches(function() m:observe(x, 3) end, "observe: y must be a tensor, got 3")
    -- a precision that cannot be factorised
    for _, what in ipairs { "observe", "fit" } do
      local huge = x:slice(2, 1, 1):broadcast_to { 90, 3 } * 1e12
      local report, message, code = m[what](m, what == "fit" and { data = { huge, y } } or huge, y)
      assert.is_nil(report)
      assert.matches("^" .. what .. ": cholesky: ", message)
      assert.is_string(code)
    end
    assert.same(before, m:moments(x):totable())
    assert.error_matches(function() m:observe(x * 1e200, y) end, "observe: cholesky: matrix must be finite")
    assert.same(before, m:moments(x):totable())
  end)
end)
