-- The resampling schemes: golden ancestors, the law that all share, weights that break naive ones.
local pn = require "penumbra"
local golden = dofile "spec/golden/smc/resampling.lua"

local machine = require "penumbra.smc.machine"
local inf = math.huge

local function ancestors(log_w, scheme, generator)
  return pn.smc.resample(log_w, { resampling = scheme, generator = generator })
end

-- Copies of each particle: [N, B].
local function copies(a, n)
  local out = {}
  for i = 1, n do
    out[i] = a:eq(i - 1):to("float64"):sum(1)
  end
  return pn.stack(out, 1)
end

for _, scheme in ipairs(pn.smc.schemes()) do
  describe("resampling, " .. scheme, function()
    it("gives the published algorithm's ancestors", function()
      local a = ancestors(pn.tensor(golden.weigh.log_w), scheme, pn.generator(7))
      assert.equal("int64", a:dtype())
      assert.same(golden.resample[scheme], a:totable())
    end)

    it("expects n w copies, within 6 sigma and a narrow interval", function()
      pn.seed(11)
      local filters, w = 20000, { 0.3, 0, 0.05, 0.45, 0.2 }
      local log_w = pn.tensor(w):log():reshape { 5, 1 }:broadcast_to { 5, filters }:contiguous()
      local count = copies(ancestors(log_w, scheme), 5)
      local mean, deviation = count:mean(2):totable(), count:std(2):totable()
      for i = 1, 5 do
        local error = deviation[i] / math.sqrt(filters)
        assert.is_true(math.abs(mean[i] - 5 * w[i]) <= 6 * error + 1e-12)
        assert.is_true(error < 0.01)
      end
      if scheme == "systematic" or scheme == "ssp" then
        for i = 1, 5 do
          local low, high = count[i]:min():item(), count[i]:max():item()
          assert.is_true(low >= math.floor(5 * w[i]) and high <= math.ceil(5 * w[i] - 1e-12))
        end
      elseif scheme ~= "multinomial" and scheme ~= "killing" then
        for i = 1, 5 do -- at least the whole part; stratified may be one below it
          local least = math.floor(5 * w[i]) - (scheme == "stratified" and 1 or 0)
          assert.is_true(count[i]:min():item() >= least)
        end
      end
    end)

    it("never chooses a weight of 0, nor a place beyond the last", function()
      local g = pn.generator(5)
      local cases = {
        { 0 }, { -inf, 0 }, { 0, -inf }, { -inf, -inf, 0, -inf, -inf }, { 0, 0, 0, 0, 0, 0, 0 },
        { -745, -745, -745 }, { -1e308, -1e308, -inf }, { 1e308, 0, 1e308 }, { -740, 0, -740, -inf },
        { -inf, -36.7, -36.7, -36.7, 0, -inf },
      }
      local long = {}
      for i = 1, 5000 do
        long[i] = i > 2 and i < 4990 and -12 or -inf
      end
      cases[#cases + 1] = long
      for _, log_w in ipairs(cases) do
        for _, dtype in ipairs { "float64", "float32" } do
          if not (dtype == "float32" and math.abs(log_w[1]) == 1e308) then
            local x = pn.tensor(log_w, { dtype = dtype })
            for _ = 1, 20 do
              local a = ancestors(x, scheme, g)
              assert.is_true(a:min():item() >= 0 and a:max():item() < #log_w)
              assert.is_true(x:take(1, a):gt(-inf):all():item())
            end
          end
        end
      end
    end)

    it("holds for random weights of many sizes", function()
      local g = pn.generator(6)
      for n = 1, 40 do
        local x = pn.randn({ n }, { generator = g }) * (n % 7) * 30
        x = pn.where(pn.rand({ n }, { generator = g }):lt(0.2), pn.full({ n }, -inf), x)
        x = pn.where(pn.arange(0, n):eq(n // 2), pn.zeros { n }, x)
        local a, w = ancestors(x, scheme, g), x:softmax(1)
        assert.is_true(w:take(1, a):min():item() > 0)
        if scheme == "systematic" then
          local gap = copies(a:reshape { n, 1 }, n):reshape { n } - w * n
          assert.is_true(gap:abs():max():item() < 1 + 1e-9)
        end
        if scheme ~= "killing" and n > 1 then
          assert.is_true((a:slice(1, 2, n) - a:slice(1, 1, n - 1)):min():item() >= 0) -- sorted
        end
      end
    end)

    it("gives the same bits for 1 and 2 threads", function()
      local before = pn.threads()
      local log_w = pn.randn({ 100003 }, { generator = pn.generator(3) }) * 2
      pn.threads(1)
      local one = ancestors(log_w, scheme, pn.generator(4))
      pn.threads(2)
      local two = ancestors(log_w, scheme, pn.generator(4))
      pn.threads(before)
      assert.equal(0, (one - two):abs():max():item())
    end)

    it("gives each filter of a batch numbers of its own", function()
      local log_w = pn.randn({ 50, 1 }, { generator = pn.generator(3) }):broadcast_to { 50, 2 }:contiguous()
      local a = ancestors(log_w, scheme, pn.generator(1))
      assert.is_true((a:select(2, 1) - a:select(2, 2)):abs():max():item() > 0)
      -- the first filter draws what it draws alone
      local alone = ancestors(log_w:select(2, 1):contiguous(), scheme, pn.generator(1))
      assert.same(alone:totable(), a:select(2, 1):totable())
    end)
  end)
end

-- Blocks of particles whose weights are e^2000 apart, or none at all, in any order.
describe("weights of many particles", function()
  it("are summed in every order of their sizes", function()
    local n = 100000
    for _, levels in ipairs { { 0, -2000 }, { -2000, 0 }, { -inf, 0, -2000 }, { 0, -2000, -inf },
      { -2000, -inf, 0 } } do
      local parts, want = {}, 0
      for k, level in ipairs(levels) do
        parts[k] = pn.full({ n }, level + 0.0)
        want = level == 0 and n or want
      end
      local m = machine.new { num_particles = n * #levels }
      local increment = m:weigh(pn.concatenate(parts, 1))
      assert.near(math.log(1 / #levels), increment:item(), 1e-9)
      assert.near(want, m:effective_sample_size():item(), 1e-6)
    end
  end)
end)

describe("pn.smc.resample", function()
  it("names what is wrong", function()
    assert.has_error(function() pn.smc.resample(pn.tensor { -inf, -inf }) end,
      "resample: log_w must leave a particle with a weight, got -inf for all that had one")
    assert.has_error(function() pn.smc.resample(pn.tensor { 0, 0 / 0 }) end,
      "resample: log_w must be a number, got NaN")
    assert.has_error(function() pn.smc.resample(pn.tensor { 0, inf, 1 }) end,
      "resample: log_w must be below +inf, got inf")
    assert.has_error(function() pn.smc.resample(pn.tensor { 0, inf, 0 / 0 }) end,
      "resample: log_w must be a number, got NaN")
    assert.error_matches(function() pn.smc.resample(pn.zeros { 3 }, { resampling = "sistematic" }) end,
      "did you mean 'systematic'")
  end)
end)
