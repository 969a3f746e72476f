-- Filters' states out of files that hold numbers no filter can have, and sizes whose product is none.
local pn = require "penumbra"

local NAN, INF = 0 / 0, math.huge
local N = 50

local function particles(dtype, scheme)
  return pn.smc.filter({ num_particles = N, resampling = scheme, threshold = 1,
    init = function(n) return pn.randn({ n }, { dtype = dtype }) end,
    step = function(x) return x * 0.9 + pn.randn({ N }, { dtype = dtype }) end,
    log_weight = function(x, y)
      return pn.dist.normal(x, pn.full({}, 0.7, { dtype = dtype })):log_prob(y:to(dtype):broadcast_to { N })
    end }):online()
end

local function exact()
  return pn.smc.exact_filter { initial_mean = pn.tensor { 3, 1 }, initial_cov = pn.eye(2),
    transition = pn.eye(2) * 0.9, transition_cov = pn.eye(2) * 0.25,
    emission = pn.tensor { { 1, 0 } }, emission_cov = pn.tensor { { 0.49 } } }
end

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

-- The file's text with element `at` (from 0) of `name` replaced.
local function patched(text, name, at, value)
  local header = 8 + string.unpack("<I8", text)
  local entry = text:sub(9, header):match('"' .. name:gsub("%.", "%%.") .. '":(%b{})')
  local format = entry:find("F64", 1, true) and "<d" or "<f"
  local begin = header + tonumber(entry:match '"data_offsets":%[(%d+)') + at * string.packsize(format)
  return text:sub(1, begin) .. string.pack(format, value) .. text:sub(begin + string.packsize(format) + 1)
end

describe("a filter's state out of a file", function()
  local path = os.tmpname()
  teardown(function() os.remove(path) end)

  -- Loads what `change` makes of the text of f's file into f: refused, and f is what it was.
  local function refused(f, text, place)
    write(path, text)
    local before, steps = f:log_evidence(), f:steps()
    local state = pn.get_rng_state and pn.get_rng_state()
    local ok, message, code = f:load(path)
    assert.is_nil(ok, place)
    assert.equal("format", code)
    assert.matches("numbers that such a filter can have", message, 1, true)
    assert.equal(before, f:log_evidence())
    assert.equal(steps, f:steps())
    if state then
      assert.same(state, pn.get_rng_state())
    end
  end

  for _, dtype in ipairs { "float64", "float32" } do
    for _, scheme in ipairs(pn.smc.schemes()) do
      it("has weights, " .. scheme .. ", " .. dtype, function()
        pn.seed(3)
        local f = particles(dtype, scheme)
        for t = 1, 3 do
          f:observe(t / 2)
        end
        assert.is_true(f:save(path))
        local text = read(path)
        for _, value in ipairs { NAN, INF, -INF, -1, 1e30 } do
          refused(f, patched(text, "state.2", N + 7, value), "a weight of " .. value)
        end
        refused(f, patched(text, "state.2", 0, NAN), "a log-weight")
        refused(f, patched(text, "state.2", 2 * N, NAN), "the increment")
        refused(f, patched(text, "state.2", 2 * N + 1, NAN), "the size")
        refused(f, patched(text, "state.2", 2 * N + 2, INF), "the largest weight")
        refused(f, patched(text, "summary", 0, NAN), "the increment of the summary")
        local zeros = text
        for i = 0, N - 1 do
          zeros = patched(zeros, "state.2", N + i, 0)
        end
        refused(f, zeros, "weights of 0")
        write(path, text)
        assert.is_true(f:load(path))
        assert.is_true(f:observe(1) > -INF)
      end)
    end
  end

  it("has moments that are finite", function()
    local f = exact()
    f:observe(1)
    assert.is_true(f:save(path))
    local text = read(path)
    for _, value in ipairs { NAN, INF, -INF } do
      for at = 0, 6 do
        refused(f, patched(text, "state.1", at, value), at)
      end
      refused(f, patched(text, "summary", 2, value), "the mean")
    end
    refused(f, patched(text, "state.1", 2, -3), "a negative variance")
    write(path, text)
    assert.is_true(f:load(path))
  end)

  it("has a count of steps that can go on", function()
    local f = exact()
    f:observe(1)
    assert.is_true(f:save(path))
    local text = read(path)
    local old = text:match "exact 1 2 1 "
    for _, steps in ipairs { "9223372036854775807", "-1", "99999999999999999999999" } do
      local new, size = "exact 1 2 " .. steps .. " ", string.unpack("<I8", text)
      local header = text:sub(9, 8 + size):gsub(old, (new:gsub("%%", "%%%%")))
      write(path, string.pack("<I8", #header) .. header .. text:sub(9 + size))
      local ok, _, code = f:load(path)
      assert.is_nil(ok)
      assert.equal("format", code)
      assert.equal(1, f:steps())
    end
  end)
end)

describe("sizes whose product is none", function()
  it("make no machine", function()
    for _, batch in ipairs { { 1 << 40, 1 << 40 }, { 1 << 32, 1 << 32 }, { math.maxinteger, 2 }, { 1 << 40 } } do
      for _, trace in ipairs { false, true } do
        assert.error_matches(function()
          pn.smc({ num_particles = 4, batch_shape = batch, history = true, trace = trace }):keep(pn.zeros { 4 })
        end, "particles of all filters must be at most 2^40", 1, true)
      end
    end
  end)

  it("make no tensor, with a size of 0 among them or not", function()
    for _, shape in ipairs { { 1 << 40, 1 << 40 }, { 0, 1 << 40, 1 << 40 }, { 1 << 40, 0, 1 << 40 },
      { 1 << 62, 1 << 62, 0 }, { math.maxinteger, 0, 2 } } do
      assert.error_matches(function() return pn.zeros(shape) end, "is too large", 1, true)
      assert.error_matches(function() return pn.zeros({ 1, 0 }):reshape(shape) end, ".")
    end
    assert.same({ 0, 1 << 40 }, pn.zeros({ 0, 1 << 40 }):shape())
  end)
end)
