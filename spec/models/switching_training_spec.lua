-- What a deep switching system is to a training loop and to a device: gradients, lengths, missing data, compiled steps,
-- files, and a filter that goes on.
local pn = require "penumbra"
local close = require("spec.helper").close
local models = pn.models

local NAN = 0 / 0

-- Small models of all four kinds, with covariates and encoders.
local function some(name, more)
  local o = { states = 2, switches = 2, base = 3, hidden = { 4 }, transition_hidden = 4, num_particles = 4,
    scaling = "none", covariates = 2, features = 3, controls = { "b", "d" }, encoder = { 5 } }
  if name == "arsgls" then
    o.emission_hidden, o.auxiliary = { 4 }, 2
  elseif name == "rsgls_issm" then
    o.states, o.seasonal = nil, { 3 }
  end
  for key, value in pairs(more or {}) do o[key] = value end
  pn.seed(3)
  return models[name](o)
end

local KINDS = { "sgls", "rsgls", "rsgls_issm", "arsgls" }

local function batch_of(steps, size)
  local g = pn.generator(4)
  return { y = pn.randn({ steps, size, 1 }, { generator = g }), inputs = pn.randn({ steps, size, 2 }, {
    generator = g }) }
end

describe("the loss of a switching system", function()
  it("has the gradient of its value, by differences, where nothing is resampled", function()
    local b = batch_of(3, 2)
    b.y = pn.where(pn.tensor({ { 0, 0 }, { 1, 0 }, { 0, 0 } }):gt(0):unsqueeze(3), NAN, b.y)
    for _, name in ipairs(KINDS) do
      local m = some(name, { threshold = 0, sharing = "none", average = "log_scales" })
      local list = {}
      for k, p in ipairs(m:parameters()) do
        list[#list + 1] = p:numel() < 13 and k % 2 == 1 and p or nil
      end
      for _, p in ipairs { m.bases.bases.q, m.bases.bases.d, m.bases.bases.f, m.prior_mean } do
        list[#list + 1] = p
      end
      assert.is_true(#list > 5)
      pn.check_gradients(function() return m:loss(b, { generator = pn.generator(1) }) end, list)
    end
  end)

  it("drops the gradient of resampled moments where asked, and keeps the value", function()
    local b = batch_of(6, 3)
    local whole, parts = some("rsgls", { threshold = 1 }), some("rsgls", { threshold = 1, resampled_gradient = false })
    local function loss(m) return m:loss(b, { generator = pn.generator(1) }) end
    close(loss(whole), loss(parts), 0)
    local p, q = whole.prior_mean, parts.prior_mean
    local g, h = pn.grad(loss(whole), { p })[1], pn.grad(loss(parts), { q })[1]
    assert.is_true((g - h):abs():max():item() > 1e-6)
    -- what is left is the gradient of the first step
    local first = { y = b.y:slice(1, 1, 1), inputs = b.inputs:slice(1, 1, 1) }
    close(h * 6, pn.grad(parts:loss(first, { generator = pn.generator(1) }), { q })[1], 1e-9)
    parts.resampled_gradient, parts.threshold = false, 0 -- none is due
    whole.threshold = 0
    close(pn.grad(loss(whole), { p })[1], pn.grad(loss(parts), { q })[1], 1e-12)
  end)

  it("is trained alike compiled and eager, through iterations without resampling and a frozen part", function()
    local b = batch_of(5, 3)
    for _, name in ipairs { "rsgls", "arsgls" } do
      local ends, start = {}, some(name).bases.bases.a:detach()
      for k, compile in ipairs { true, false } do
        local m = some(name, { no_resampling = 2, frozen = 4 })
        m:fit { series = b, steps = 3, lr = 1e-2, seed = 2, compile = compile }
        close(m.bases.bases.a, start, 0, "frozen")
        local s = m:fit { series = b, steps = 8, lr = 1e-2, seed = 2, compile = compile }
        ends[k] = s.loss
        assert.is_true((m.bases.bases.a - start):abs():max():item() > 0)
      end
      assert.is_true(math.abs(ends[1] - ends[2]) < 1e-9, name)
    end
  end)
end)

describe("a run of fit", function()
  it("resamples nothing in the first iterations, and keeps what is frozen in just so many", function()
    local b = batch_of(5, 3)
    local function losses(more, steps)
      local m, moved = some("rsgls", more), {}
      for name, x in pairs(m.bases.bases) do moved[name] = x:detach() + 0 end
      local s = m:fit { series = b, steps = steps, lr = 1e-2, decay = 1, seed = 2 }
      for name, x in pairs(m.bases.bases) do moved[name] = (x - moved[name]):abs():max():item() > 0 end
      return s.history, moved
    end
    local never, first = losses({ threshold = 0 }, 4), losses({ threshold = 1, no_resampling = 3 }, 4)
    for k = 1, 3 do assert.equal(never[k], first[k]) end
    assert.is_true(never[4] ~= first[4])
    for steps = 3, 4 do
      local more = steps > 3
      assert.same({ a = more, b = more, c = more, d = more, q = more, r = more, f = true, s = true },
        (select(2, losses({ frozen = 3 }, steps))))
    end
  end)

  it("goes on from its file to the same bits, across the end of the first phase", function()
    local b, path = batch_of(5, 3), os.tmpname()
    local function fit(file, stop)
      local m = some("rsgls", { no_resampling = 3 })
      return m, m:fit { series = b, steps = 6, seed = 2, checkpoint = file, resume = file and true,
        on_step = function(s) return s.iteration ~= stop end }
    end
    local whole, run = fit()
    os.remove(path)
    fit(path, 2)
    local again, rest = fit(path)
    os.remove(path)
    assert.equal(run.loss, rest.loss)
    for name, x in pairs(whole:state()) do
      close(x, again:state()[name], 0, name)
    end
  end)
end)

describe("a switching system's batch", function()
  it("is touched by nothing behind the end of a series", function()
    local b = batch_of(7, 3)
    for _, name in ipairs(KINDS) do
      local m = some(name)
      local short = { y = b.y:slice(1, 1, 5), inputs = b.inputs:slice(1, 1, 5), lengths = { 5, 2, 4 } }
      local noise = pn.full({ 2, 3, 1 }, 1e3)
      local long = { y = pn.concatenate({ short.y, noise }, 1), inputs = pn.concatenate({ short.inputs,
        pn.full({ 2, 3, 2 }, NAN) }, 1), lengths = { 5, 2, 4 } }
      local function value(x) return m:log_evidence(x, { generator = pn.generator(1) }) end
      close(value(short), value(long), 0, name)
      local g, h = pn.grad(value(short):sum(), m:parameters()), pn.grad(value(long):sum(), m:parameters())
      for k = 1, #g do
        close(g[k], h[k], 1e-12, name)
      end
      local one = m:filter(short, { generator = pn.generator(1) })
      local two = m:filter(long, { generator = pn.generator(1) })
      close(one.state.particles.mean, two.state.particles.mean, 0)
      close(one.state.log_weights, two.state.log_weights, 0)
      close(one.state.log_evidence, value(long), 1e-12)
      assert.same({ 5, 2, 4 }, two.start:totable())
    end
  end)

  it("may lack observations: a step without any leaves the evidence as it is", function()
    local b = batch_of(4, 2)
    for _, name in ipairs(KINDS) do
      local m = some(name)
      local gone = { y = pn.where(pn.tensor({ 0, 0, 1, 1 }):gt(0):reshape { 4, 1, 1 }, NAN, b.y), inputs = b.inputs }
      local head = { y = b.y:slice(1, 1, 2), inputs = b.inputs:slice(1, 1, 2) }
      local function value(x) return m:log_evidence(x, { generator = pn.generator(1) }) end
      close(value(gone), value(head), 1e-12, name)
    end
  end)
end)

describe("a belief", function()
  it("goes on step by step as the filter of the longer batch does", function()
    local b = batch_of(5, 3)
    for _, name in ipairs(KINDS) do
      local m = some(name)
      pn.seed(3)
      local whole = m:filter(b)
      pn.seed(3)
      local belief = m:filter { y = b.y:slice(1, 1, 3), inputs = b.inputs:slice(1, 1, 3) }
      local kept = belief.state.log_weights
      for t = 4, 5 do
        belief = belief:update(b.y:select(1, t), b.inputs:select(1, t))
      end
      close(belief.state.log_evidence, whole.state.log_evidence, 1e-10, name)
      close(belief.state.particles.mean, whole.state.particles.mean, 1e-10, name)
      close(belief.state.log_weights, whole.state.log_weights, 1e-10, name)
      assert.same(whole.start:totable(), belief.start:totable())
      assert.is_true(kept:isfinite():all():item())
      local future = pn.randn { 2, 3, 2 }
      for _, mode in ipairs { "ancestral", "marginal" } do
        local function paths(from)
          return m:forecast(from, 2, { draws = 7, inputs = future, mode = mode, generator = pn.generator(1) })
        end
        local one, two = paths(belief), paths(whole)
        assert.same({ 7, 2, 3, 1 }, one:shape())
        close(one, two, 1e-9, mode)
      end
    end
  end)

  it("has moments along the way", function()
    local b, m = batch_of(4, 2), some "rsgls"
    local f = m:filtered(b, { generator = pn.generator(1) })
    local mean, cov = m:moments(m:filter(b, { generator = pn.generator(1) }))
    close(f.state_mean:select(1, 4), mean, 1e-12)
    close(f.state_variance:select(1, 4), cov:diagonal(), 1e-12)
    close(f.increments:sum(1), m:log_evidence(b, { generator = pn.generator(1) }), 1e-12)
    assert.same({ 4, 2, 1 }, f.mean:shape())
    assert.is_true(f.variance:min():item() > 0 and f.effective_sample_size:min():item() >= 1)
    -- of y in other units: moments in these
    local wide = { y = b.y * 5 - 2, inputs = b.inputs, location = pn.full({ 2, 1 }, -2), scale = pn.full({ 2, 1 }, 5) }
    local g = m:filtered(wide, { generator = pn.generator(1) })
    close(g.mean, f.mean * 5 - 2, 1e-11)
    close(g.variance, f.variance * 25, 1e-11)
    close(g.state_mean, f.state_mean, 1e-12)
  end)
end)

describe("a structure that stands still", function()
  it("is filtered as the Kalman kernel does it, also where y is missing", function()
    local b, m = batch_of(6, 2), some("rsgls_issm", { seasonal = { 7 }, controls = { "b", "d" } })
    local gone = pn.tensor { { 0, 0 }, { 1, 0 }, { 1, 0 }, { 0, 1 }, { 0, 0 }, { 0, 0 } }
    b.y = pn.where(gone:gt(0):unsqueeze(3), NAN, b.y)
    local function value() return m:log_evidence(b, { generator = pn.generator(1) }) end
    assert.is_true(m.standing)
    local fast, slope = value(), pn.grad(value():sum(), m:parameters())
    m.standing = false
    close(fast, value(), 1e-10)
    for k, g in ipairs(pn.grad(value():sum(), m:parameters())) do
      close(slope[k], g, 1e-8)
    end
  end)
end)

describe("a file", function()
  it("holds a model with its options", function()
    local path = os.tmpname()
    for _, name in ipairs(KINDS) do
      local m, b = some(name), batch_of(3, 2)
      assert(m:save(path))
      local again = assert(pn.restore(path))
      local function value(model) return model:log_evidence(b, { generator = pn.generator(1) }) end
      close(value(again), value(m), 0)
    end
    os.remove(path)
    local own = models.arsgls { states = 1, switches = 1, emission = function(z) return pn.dist.normal(z, 1) end }
    assert.error_matches(function() own:save(path) end, "this model has networks of your own")
  end)
end)

describe("a constructor", function()
  it("says what is wrong", function()
    local function refused(text, f) assert.error_matches(f, text, 1, true) end
    refused("rsgls: states must be a whole number from 1 on", function() models.rsgls {} end)
    refused("unknown option 'num_partcles', did you mean 'num_particles'?", function() models.sgls {
      num_partcles = 3 } end)
    refused("states follow from level, trend and seasonal", function() models.rsgls_issm { states = 3 } end)
    refused("arsgls: gaussian is called normal", function() models.arsgls { states = 1, emission = "gaussian" } end)
    refused("arsgls: emission must be one of 'bernoulli', 'mixture'", -- nothing of labels
      function() models.arsgls { states = 1, emission = "categorical" } end)
    refused("conditioning must be one of 'exact', 'published'", function()
      models.rsgls { states = 1, conditioning = "paper" }
    end)
  end)
end)
