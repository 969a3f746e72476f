--- Numbers that are told beside draws and fits, each by a loop: energy fractions, the bound of the last steps, bands of
--- uniform numbers, the colours of chains.
local pn = require "penumbra"
local near = require("spec.helper").near
local uniformity = require "penumbra.infer.uniformity"
local dist = pn.dist

local model = pn.model(function(m)
  local a = m:sample("a", dist.normal(0, 1))
  m:observe("y", dist.normal(a, 1):expand { 3 }:independent(1), pn.tensor { 1, 2, 4 })
end)

describe("what is told of draws", function()
  it("is each chain's share of the energy that momenta move", function()
    pn.seed(3)
    local p = pn.nuts(model, { chains = 3, warmup = 50, draws = 60 })
    local energy = p.statistics.energy:totable()
    for c = 1, 3 do
      local mean, steps, spread = 0, 0, 0
      for _, e in ipairs(energy[c]) do mean = mean + e / 60 end
      for k, e in ipairs(energy[c]) do
        spread = spread + (e - mean) ^ 2
        if k > 1 then steps = steps + (e - energy[c][k - 1]) ^ 2 end
      end
      near(p.e_bfmi[c], steps / spread, 1e-9)
    end
  end)

  it("colours chains in turn, each its own up to the sixth", function()
    pn.seed(3)
    local p = pn.nuts(model, { chains = 8, warmup = 5, draws = 8 })
    local save, got = pn.plot.save, nil
    pn.plot.save = function(_, panels) got = panels return "x" end
    local ok, message = pcall(p.plot, p, "x.svg")
    pn.plot.save = save
    assert(ok, message)
    local seen = {}
    for c = 1, 8 do seen[c] = got[2].marks[c].colour or got[2].marks[c].style:match "#%x+" end
    assert.equal(seen[1], seen[7])
    assert.equal(seen[2], seen[8])
    local other = {}
    for c = 1, 6 do
      assert.is_string(seen[c])
      assert.is_nil(other[seen[c]])
      other[seen[c]] = true
    end
  end)
end)

describe("what is told of a fit", function()
  it("is the bound's mean over the last tenth of the steps, one at least", function()
    pn.seed(1)
    for steps, count in pairs { [3] = 1, [10] = 1, [25] = 2, [47] = 4 } do
      local fit = pn.svi(model, "mean_field", { steps = steps })
      for k = 1, steps do fit.losses[k] = (k * 7 % 13) + k * 0.25 end
      local sum = 0
      for k = steps - count + 1, steps do sum = sum + fit.losses[k] end
      local text = tostring(fit)
      local bound = ("%.3f"):format(-sum / count)
      assert(text:find(("bound %s (last %d steps)"):format(bound, count), 1, true), text)
    end
    local fit = pn.svi(model, "mean_field", { steps = 2 })
    fit.losses = { 1e12, 2e12 }
    assert.matches("bound %-2e%+12 %(last 1 steps%)", tostring(fit))
  end)
end)

describe("a band of uniform numbers", function()
  -- Probabilities of a binomial by products.
  local function binomial(n, p)
    local mass = { [0] = (1 - p) ^ n }
    for k = 1, n do mass[k] = mass[k - 1] * (n - k + 1) / k * p / (1 - p) end
    return mass
  end

  -- (Of two tails that are equal, rounding may leave one out.)
  it("is no wider than the narrowest of those whose tails are alike that holds its level", function()
    for _, size in ipairs { { 5, 4 }, { 4, 7 }, { 6, 3 } } do
      local n, cells = size[1], size[2]
      local law = uniformity.new(n, cells)
      local tails, at_once = {}, {}
      for j, point in ipairs(law.points) do
        local mass, sum = binomial(n, point / cells), 0
        tails[j] = {}
        for r = 0, n do
          local above = 1 - sum
          sum = sum + mass[r]
          tails[j][r] = { sum, above } -- of r or fewer, of r or more
          at_once[#at_once + 1] = 2 * sum
          at_once[#at_once + 1] = 2 * above
        end
      end
      table.sort(at_once)
      -- all outcomes: the least gamma that leaves each out
      local outcomes = {}
      for k = 0, math.tointeger(cells ^ n) - 1 do
        local values, rest, least = {}, k, math.huge
        for i = 1, n do values[i], rest = rest % cells, rest // cells end
        for j, r in ipairs(law:counts(values)) do
          least = math.min(least, 2 * tails[j][r][1], 2 * tails[j][r][2])
        end
        outcomes[k + 1] = least
      end
      for _, level in ipairs { 0.5, 0.8, 0.95 } do
        local best = 0
        for i = 1, #at_once do
          local gamma, within = (at_once[i] + (at_once[i + 1] or 2)) / 2, 0 -- between two that differ
          for _, least in ipairs(outcomes) do within = within + (least > gamma and 1 or 0) end
          local apart = (at_once[i + 1] or 2) - at_once[i] > 1e-9
          if apart and within / #outcomes >= level then best = math.max(best, gamma) end
        end
        local least, most = law:band(level)
        for j in ipairs(law.points) do
          local low, high = 0, n
          while 2 * tails[j][low][1] <= best do low = low + 1 end
          while 2 * tails[j][high][2] <= best do high = high - 1 end
          assert(low <= least[j] and most[j] <= high, ("n %d, level %g, point %d"):format(n, level, j))
        end
      end
    end
  end)
end)
