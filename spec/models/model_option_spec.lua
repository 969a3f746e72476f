--- Whatever an option of a forecaster is, out of a script or a file: the model is made and works, or the error says
--- what the option must be.
local pn = require "penumbra"

local small = { encoder = { 4 }, num_particles = 3, base = 2, states = 2, switches = 2, transition_hidden = 3,
  hidden = { 4 } }
local function with(more)
  local o = {}
  for _, list in ipairs { small, more } do
    for key, value in pairs(list) do o[key] = value or nil end
  end
  return o
end

local models = {
  deepar = { hidden = 3 }, deep_state = { hidden = 3 }, sgls = with {}, rsgls = with {},
  arsgls = with { auxiliary = 1, emission_hidden = { 3 }, encoder = { 4, 4, 4 } },
  rsgls_issm = with { states = false, seasonal = { 2 } },
  kvae = { latent = 1, state = 2, base = 2, units = 3, hidden = { 4 }, belief_draws = 2 },
}

local NAN = 0 / 0
local values = { NAN, 1 / 0, -1, 0, 0.5, 1e300, 1 << 40, math.mininteger, "x", true, {}, { 1 }, { NAN }, { "a" },
  { {} }, { 1, "x" }, { [2] = 3 }, { a = 1 }, { state = {} }, { state = { 1 } }, { state = { NAN, 1 } },
  { state = { -1, 1 } },
  { transition = NAN }, { initial_scale = 0 }, { period = 3 }, { { period = 1.5 } }, { 1 << 40 } }

local raw = { "attempt to ", "bad argument #", "lua/penumbra/", "'for' ", "invalid o", "number has no integer",
  "table index is" }

local function is_ours(message)
  for _, pattern in ipairs(raw) do
    if tostring(message):find(pattern, 1, true) then return false end
  end
  return true
end

-- The names of a constructor's options, out of its own error.
local function option_names(name)
  local _, message = pcall(pn.models[name], { no_such_option_of_a_model = 1 })
  local names = {}
  for each in message:match("known: (.*)"):gmatch "[%w_]+" do names[#names + 1] = each end
  assert(#names > 8, message)
  return names
end

local function run(name, o)
  local m = pn.models[name](o)
  local batch = { y = pn.ones { 3, 2, 1 } }
  m:log_evidence(batch)
  m:forecast(batch, 2, { draws = 2 })
end

describe("the options of", function()
  before_each(function() pn.memory_limit(24 << 20) end)
  after_each(function() pn.memory_limit(0) end)

  for name, given in pairs(models) do
    it(name .. " are what it can work with", function()
      run(name, given)
      for _, key in ipairs(option_names(name)) do
        for _, value in ipairs(values) do
          local o = { [key] = value }
          for other, v in pairs(given) do
            if other ~= key then o[other] = v end
          end
          local ok, message = pcall(run, name, o)
          assert(ok or is_ours(message), ("%s, of %s: %s"):format(key, tostring(value), tostring(message)))
        end
      end
    end)
  end

  it("switching systems say what they must be", function()
    for _, case in ipairs {
      { { scales = { state = { 1 } } }, "sgls: 'scales.state' must be a list of 2" },
      { { scales = { switch = { 1, NAN } } }, "sgls: 'scales.switch.2' must be a finite number above 0, got %-?nan" },
      { { hidden = { 0 } }, "sgls: 'hidden.1' must be a whole number from 1" },
      { { encoder = 3 }, "sgls: 'encoder' must be a table, got 3" },
      { { encoder = { 2.5 } }, "sgls: 'encoder.1' must be a whole number from 1" },
      { { controls = { "e" } }, "sgls: 'controls.1' must be one of 'b', 'd', got 'e'" },
      { { floor = NAN }, "sgls: floor must be a number, got nan" },
      { { stay = 1 / 0 }, "sgls: 'stay' must be a finite number, got inf" },
    } do
      local o = with(case[1])
      local ok, message = pcall(pn.models.sgls, o)
      assert.is_false(ok)
      assert.matches(case[2], message)
    end
    assert.error_matches(function() pn.models.arsgls(with { emission = 3 }) end,
      "arsgls: emission must be a likelihood, or what is called, got number")
    assert.error_matches(function() pn.models.arsgls(with { encoder = {} }) end, "arsgls: encoder must have a layer")
  end)

  local function constant(x, want) assert.is_true((x - want):abs():max():item() < 1e-12, tostring(x)) end

  it("switching systems begin where their defaults say", function()
    local o = { states = 2, switches = 3, base = 4 }
    for _, dtype in ipairs { "float64", "float32" } do
      o.dtype = dtype
      local m = pn.models.rsgls(o)
      assert.equal(dtype == "float32" and 1e-6 or 1e-8, m.floor)
      assert.equal(m.floor, m.bases.floor)
    end
    o.dtype = nil
    for _, name in ipairs { "sgls", "rsgls", "arsgls" } do
      local m = pn.models[name](o)
      for noise, most in pairs { q = 1, r = 0.1, s = 0.1 } do
        local scale = (-m.bases.bases[noise]):exp()
        constant(scale:min(), 1e-4)
        constant(scale:max(), most)
      end
      assert.equal(32, m.bases.net[1]:parameters()[1]:size(2))
      assert.equal(32, m.switch.offset.s:parameters()[1]:size(2))
      for _, least in ipairs { "states", "switches", "base", "transition_hidden" } do
        local one = {}
        for key, value in pairs(o) do one[key] = value end
        one[least] = 1
        pn.models[name](one)
        one[least] = 0
        assert.error_matches(function() pn.models[name](one) end, ("^%s: %s must be a whole number from 1 on, got 0")
          :format(name, least))
      end
      for _, least in ipairs { "no_resampling", "frozen" } do
        assert.error_matches(function() pn.models[name](with { [least] = -1 }) end, least
          .. " must be a whole number from 0 on, got %-1")
      end
      assert.error_matches(function() pn.models[name] { switches = 2 } end, name .. ": states must be a whole number")
    end
    local auxiliary = pn.models.arsgls(o)
    assert.same({ 3, 64, 64, 64 }, { auxiliary.auxiliary, auxiliary.emission.net[1]:parameters()[1]:size(2),
      auxiliary.encoder.stem[1][1]:parameters()[1]:size(2), auxiliary.encoder.stem[3][1]:parameters()[1]:size(2) })
    assert.equal(3, #auxiliary.encoder.stem)
    local structure = pn.models.rsgls_issm { seasonal = { 3 }, switches = 2, covariates = 2, features = 5 }
    assert.same({ { 6, 64 }, 1 }, { structure.encoder.stem[1][1]:parameters()[1]:shape(), #structure.encoder.stem })
    assert.is_nil(pn.models.rsgls_issm({ seasonal = { 3 }, encoder = false }).encoder)
    assert.error_matches(function() pn.models.rsgls_issm { size = 2 } end, "rsgls_issm: size must be 1, got 2")
    assert.error_matches(function() pn.models.sgls(with { gradient = "score_function", resampling = "stratified" }) end,
      "sgls: gradient 'score_function' needs resampling 'multinomial', .*, got 'stratified'")
    pn.models.sgls(with { gradient = "score_function", resampling = "multinomial" })
    for _, name in ipairs { "emission", "encoder" } do
      for _, bad in ipairs { 3, setmetatable({}, {}) } do
        assert.error_matches(function() pn.models.arsgls(with { [name] = bad }) end, ("arsgls: %s must be .*, or what "
          .. "is called, got %s"):format(name, type(bad)))
      end
    end
    assert.error_matches(function() pn.models.arsgls(with { encoder = true }) end, "what is called, got boolean")
  end)

  it("switching systems share weights as they say", function()
    local function groups(name, sharing)
      local m = pn.models[name](with { sharing = sharing, covariates = 1, controls = { "b", "d" } })
      local list = {}
      for k, group in ipairs(m.bases.groups) do list[k] = table.concat(group) end
      assert.equal(m.bases:group_of "s", m.recurrence_group)
      assert.same({ b = m.bases:group_of "b", d = m.bases:group_of "d" }, m.control_group)
      return list
    end
    assert.same({ "abcdqr", "fs" }, groups("rsgls", "system"))
    assert.same({ "abcdqrfs" }, groups("rsgls", "all"))
    assert.same({ "a", "b", "c", "d", "q", "r", "fs" }, groups("rsgls", "none"))
    assert.same({ "abcdqr", "s" }, groups("sgls", "system"))
    assert.same({ "a", "b", "c", "d", "q", "r", "s" }, groups("sgls", "none"))
  end)

  it("switches begin where their options say, and have a variance of the floor at least", function()
    pn.seed(4)
    local law = require "penumbra.models.switch_law"
    for _, stay in ipairs { 2, 0, -3 } do
      local m = pn.models.sgls(with { switch = "categorical", switches = 60, stay = stay ~= 2 and stay or nil })
      local noise = m.switch.transition - pn.eye(60) * stay
      assert.is_true(math.abs(noise:square():mean():item() / 0.01 - 1) < 6 * (2 / 3600) ^ 0.5)
      constant(m.switch.logits, 0)
    end
    local m = pn.models.sgls(with { floor = 0.25 })
    m.switch.log_inverse_scale:set(pn.full({ 2 }, 1))
    constant(law.gaussian.first(m, {}).variance, math.exp(-2) + 0.25)
    m = pn.models.sgls(with { floor = 0.25, covariates = 2, features = 0 })
    m.switch.first:parameters()[1]:set(pn.zeros { 2, 4 })
    m.switch.first:parameters()[2]:set(pn.tensor { 1, 2, 0.3, 0.4 })
    local first = law.gaussian.first(m, { u = pn.ones { 1, 2 } })
    constant(first.loc, pn.tensor { { 1, 2 } })
    constant(first.variance, pn.tensor { { 0.3, 0.4 } }:softplus():square() + 0.25)
    -- as has the encoder's
    local ladder = require "penumbra.models.ladder"
    for _, floor in ipairs { false, 0.25 } do
      local e = ladder.encoder { inputs = 1, hidden = { 2 }, s = 2, z = 1, dtype = "float64", floor = floor or nil }
      for _, head in ipairs { e.s, e.z } do
        local p = head:parameters()
        p[1]:set(p[1]:zeros_like())
        p[2]:set(pn.full(p[2]:shape(), -1e4))
      end
      local q = e(pn.ones { 3, 1 })
      constant(q.s.variance, floor or 1e-8)
      constant(q.z.variance, floor or 1e-8)
      assert.same({ { 3, 2 }, { 3, 1 } }, { q.s.loc:shape(), q.z.loc:shape() }) -- one layer serves both
    end
    assert.is_nil(ladder.encoder({ inputs = 1, hidden = { 2 }, s = 2 })(pn.ones { 3, 1 }).z)
  end)
end)
