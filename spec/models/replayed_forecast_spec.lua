-- Forecasts and beliefs of switching systems whose steps are captured once and replayed: the bits of the same without a
-- capture, for either dtype, generator and mode; what was changed since the capture counts; networks that no plan can
-- keep; paths drawn some at a time, and what these hold.
local pn = require "penumbra"
local core = require "penumbra.core"
local message_of = require("spec.helper").message_of
local nn = require "penumbra.nn"
local switch_law = require "penumbra.models.switch_law"

local STEPS = 9
local base = { states = 3, switches = 2, base = 2, hidden = { 4 }, transition_hidden = 4, num_particles = 4,
  threshold = 0.9, covariates = 2, scaling = "none" }

local kinds = {
  sgls = { switch = "categorical" }, rsgls = { size = 2 }, rsgls_issm = { seasonal = { 5, 4 } },
  arsgls = { auxiliary = 2, emission_hidden = { 4 } },
}

local function make(name, more)
  local o = {}
  for _, list in ipairs { base, kinds[name], more or {} } do
    for key, value in pairs(list) do o[key] = value end
  end
  if name == "rsgls_issm" then o.states = nil end
  pn.seed(7)
  local m = pn.models[name](o)
  local g = pn.generator(8)
  for _, p in ipairs(m:parameters()) do -- biases of 0 among them
    p:set(p:detach() + pn.randn(p:shape(), { generator = g, dtype = p:dtype() }) * 0.1)
  end
  return m
end

-- Series of different lengths with a gap, and what comes after them.
local function given(m, size)
  local g = pn.generator(2)
  local y = pn.randn({ STEPS, 3, size or m.size }, { generator = g }):totable()
  y[4][2][1] = 0 / 0
  return { y = pn.tensor(y):to(m.dtype), inputs = pn.randn({ STEPS, 3, 2 }, { generator = g }):to(m.dtype),
    lengths = { 9, 6, 9 } }, pn.randn({ 6, 3, 2 }, { generator = g }):to(m.dtype)
end

local function same(a, b)
  return a:eq(b):all():item()
end

-- Forecasts after a batch, after a belief and after an update of it, by one generator (nil: the default one); second
-- where it stands then.
local function forecasts(m, compile, mode, generator)
  local batch, u = given(m)
  pn.seed(3)
  local function ahead(x)
    return m:forecast(x, 6, { draws = 5, inputs = u, mode = mode, compile = compile, generator = generator })
  end
  local first, belief = ahead(batch), m:filter(batch, { compile = compile, generator = generator })
  local list = { first, belief.state.log_evidence, belief.state.log_weights, belief.state.particles.cov, ahead(belief) }
  if compile then list[#list + 1] = ahead(batch) end -- by what was captured before
  return list, generator and generator:state() or core.rng_state()
end

-- f(), and how often paths went on by a call of a function.
local function steps_called(kind, f)
  local law, count = switch_law[kind], 0
  local onward = law.onward
  function law.onward(...)
    count = count + 1
    return onward(...)
  end
  local ok, message = pcall(f)
  law.onward = onward
  assert(ok, message)
  return count
end

describe("replayed forecasts", function()
  for _, name in ipairs { "sgls", "rsgls", "rsgls_issm", "arsgls" } do
    it("have the draws and bits of plain ones: " .. name, function()
      for _, dtype in ipairs { "float64", "float32" } do
        local m = make(name, { dtype = dtype })
        for _, mode in ipairs { "ancestral", "marginal" } do
          for _, own in ipairs { true, false } do
            local plain, at = forecasts(m, false, mode, own and pn.generator(5) or nil)
            local replayed = forecasts(m, true, mode, own and pn.generator(5) or nil)
            for k, x in ipairs(plain) do assert.is_true(same(x, replayed[k])) end
            local generator = own and pn.generator(5) or nil
            local again = forecasts(m, true, mode, generator)
            for k, x in ipairs(replayed) do assert.is_true(same(x, again[k])) end
            assert.is_false(same(again[1], again[6])) -- other draws later
            -- where the generator stands: after as many draws
            pn.seed(3)
            generator = own and pn.generator(5) or nil
            local batch, u = given(m)
            for _ = 1, 2 do
              if _ == 2 then batch = m:filter(batch, { generator = generator }) end
              m:forecast(batch, 6, { draws = 5, inputs = u, mode = mode, generator = generator })
            end
            assert.same(at, generator and generator:state() or core.rng_state())
          end
        end
      end
    end)
  end

  it("have them for another number of series, too", function()
    for name in pairs(kinds) do
      local m = make(name)
      local batch, u = given(m)
      local function ahead(size, compile)
        return m:forecast({ y = batch.y:slice(2, 1, size), inputs = batch.inputs:slice(2, 1, size),
          lengths = { table.unpack(batch.lengths, 1, size) } }, 6, { draws = 5, inputs = u:slice(2, 1, size),
          compile = compile, generator = pn.generator(5) })
      end
      for _, size in ipairs { 3, 2, 3, 1 } do assert.is_true(same(ahead(size, false), ahead(size, true))) end
    end
  end)

  it("run a step once for each form of it", function()
    for name, kind in pairs { sgls = "categorical", arsgls = "gaussian" } do
      local m = make(name)
      assert.equal(12, steps_called(kind, function() forecasts(m, false, "ancestral") end))
      assert.equal(1, steps_called(kind, function() forecasts(m, true, "ancestral") end))
      assert.equal(1, steps_called(kind, function() forecasts(m, true, "ancestral", pn.generator(1)) end))
      assert.equal(0, steps_called(kind, function() forecasts(m, true, "ancestral") end))
    end
  end)

  it("see what was changed since: parameters, options, updates of beliefs", function()
    local m = make "arsgls"
    forecasts(m, true, "ancestral")
    local before = forecasts(m, true, "ancestral")
    for _, p in ipairs(m:parameters()) do p:set(p:detach() * 1.25) end
    for _, change in ipairs { function() end, function() m.num_particles = 7 end, function() m.threshold = 0 end,
      function() m.conditioning = "published" end } do
      change()
      local plain, replayed = forecasts(m, false, "ancestral"), forecasts(m, true, "ancestral")
      assert.is_false(same(plain[1], before[1]))
      for k, x in ipairs(plain) do assert.is_true(same(x, replayed[k])) end
      before = plain
    end
  end)

  it("see a number that a network of one's own has", function()
    local own = setmetatable({ net = nn.linear(2, 2), sharpness = 1 }, { __call = function(self, z)
      local y = self.net(z)
      return pn.dist.normal(y:slice(-1, 1, 1), (y:slice(-1, 2, 2) * self.sharpness):exp())
    end })
    local m = make("arsgls", { emission = own, encoder = false })
    local before = forecasts(m, true, "ancestral", pn.generator(5))[1]
    own.sharpness = 3
    local plain, replayed = forecasts(m, false, "ancestral", pn.generator(5)), forecasts(m, true, "ancestral",
      pn.generator(5))
    assert.is_false(same(plain[1], before))
    for k, x in ipairs(plain) do assert.is_true(same(x, replayed[k])) end
  end)

  it("call networks of one's own that no plan can keep at each step", function()
    local meta = { __call = function(self, z)
      local y = self.net(z)
      local scale = self.looks and (y:abs():sum():item() * 0 + 1) or 1
      return pn.dist.normal(y:slice(-1, 1, 1), y:slice(-1, 2, 2):exp() * scale)
    end }
    local lists = {}
    for k, looks in ipairs { true, false } do
      pn.seed(9)
      local own = setmetatable({ net = nn.linear(2, 2), looks = looks }, meta)
      local m = make("arsgls", { emission = own, encoder = false })
      lists[k] = forecasts(m, true, "ancestral", pn.generator(5))
      local again = forecasts(m, true, "ancestral", pn.generator(5))
      local plain = forecasts(m, false, "ancestral", pn.generator(5))
      for i, x in ipairs(plain) do assert.is_true(same(x, lists[k][i]) and same(x, again[i])) end
      -- by the default generator, before and after the capture has failed
      m = make("arsgls", { emission = own, encoder = false })
      plain = forecasts(m, false, "ancestral")
      for _ = 1, 2 do
        for i, x in ipairs(forecasts(m, true, "ancestral")) do assert.is_true(i > #plain or same(x, plain[i])) end
      end
    end
    for i, x in ipairs(lists[1]) do assert.is_true(same(x, lists[2][i])) end
  end)

  it("may stand in a compiled function", function()
    local m = make "rsgls_issm"
    local batch, u = given(m)
    local belief = m:filter(batch, { generator = pn.generator(1) })
    local f = pn.compile(function(x) return m:forecast(belief, 6, { draws = 5, inputs = x }) end)
    for _ = 1, 2 do
      pn.seed(4)
      local inside = f(u)
      pn.seed(4)
      assert.is_true(same(inside, m:forecast(belief, 6, { draws = 5, inputs = u })))
    end
  end)
end)

describe("paths some at a time", function()
  it("are the paths of as many calls, and of all kinds of models", function()
    for _, name in ipairs { "arsgls", "rsgls", "deepar" } do
      local m = name == "deepar" and pn.models.deepar { covariates = 2, hidden = 3 } or make(name)
      local batch, u = given(m)
      local belief = m:filter(batch, { generator = pn.generator(1) })
      for _, mode in ipairs { "ancestral", name ~= "deepar" and "marginal" or nil } do
        local function ahead(draws, generator, most)
          return m:forecast(belief, 6, { draws = draws, inputs = u, mode = mode, generator = generator,
            batch_size = most })
        end
        local g = pn.generator(6)
        local parts = { ahead(2, g), ahead(2, g), ahead(1, g) }
        local all = ahead(5, pn.generator(6), 2)
        assert.is_true(same(all, pn.concatenate(parts, 1)))
        assert.is_true(same(ahead(5, pn.generator(6)), ahead(5, pn.generator(6), 5)))
      end
    end
    assert.matches("forecast: batch_size must be", message_of(function()
      local m = make "rsgls"
      local batch, u = given(m)
      m:forecast(batch, 6, { inputs = u, batch_size = 0 })
    end))
  end)

  -- 20 series with a state of 25: a covariance for each of 1000 paths would be 100 MB.
  it("hold what some paths need, by themselves where there are many", function()
    local m = pn.models.rsgls_issm { seasonal = { 24 }, switches = 2, base = 2, hidden = { 4 }, transition_hidden = 4,
      num_particles = 2 }
    local belief = m:filter { y = pn.zeros { 2, 20, 1 } }
    local function held(draws, batch_size)
      collectgarbage()
      collectgarbage()
      local before = core.memory()
      core.reset_peak()
      local paths = m:forecast(belief, 2, { draws = draws, batch_size = batch_size, generator = pn.generator(1) })
      local _, peak = core.memory()
      assert.same({ draws, 2, 20, 1 }, paths:shape())
      return peak - before
    end
    local some = held(50, 50)
    assert.is_true(some > 50 * 20 * 625 * 8 and some < 20e6)
    assert.is_true(held(1000, 50) < some and held(4000, 50) < some) -- nothing is captured any more
    assert.is_true(held(1000) < 100e6)
    assert.is_true(held(1000, 1000) > 200e6)
  end)
end)
