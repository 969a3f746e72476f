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
end)
