--- Inference on random conjugate models (spec/infer/conjugate_blocks.lua), whose posteriors are known in closed form:
--- the joint density is posterior times evidence; draws of NUTS have the posterior's means, variances and distribution
--- functions where the truth lies, whose ranks are uniform over models; SMC samplers find the evidence; the guide
--- around the mode is exact where all is normal. Under PN_SOAK more models, and simulation-based calibration of single
--- ones; PN_SEED: others.
local pn = require "penumbra"
local core = require "penumbra.core"
local blocks = require "spec.infer.conjugate_blocks"
local drawn_numbers = require "spec.infer.drawn_numbers"
local uniformity = require "penumbra.infer.uniformity"

local SOAK = tonumber(os.getenv "PN_SOAK")
local MODELS = SOAK and 700 or 14
local CHAINS, DRAWS, THIN = 4, 250, 10

-- A random model with a truth and data drawn from it, and the posterior given these.
local function case_of(seed)
  local c = blocks.model(drawn_numbers(seed))
  pn.seed(seed)
  local lists, values = {}, {}
  c.data, c.truth, c.what = {}, {}, ("model %d (%s, %s)"):format(seed, c.kinds[1], c.kinds[#c.kinds])
  for name, site in pairs(c.model:trace({}).sites) do
    if site.kind == "observe" then
      c.data[name], lists[name] = site.value, site.value:totable()
    elseif site.kind == "sample" then
      values[name] = site.value
    end
  end
  for k, entry in ipairs(c.latent) do
    local v = values[entry[1]]
    for j = 2, #entry do v = v[entry[j]] end
    c.truth[k] = v:item()
  end
  c.values, c.posterior = values, c.exact(lists)
  return c
end

-- What hangs on the latent numbers, [..., latent], of draws by site [..., shape].
local function joined(c, draws, axes)
  local columns = {}
  for k, entry in ipairs(c.latent) do
    local v = draws[entry[1]]
    for j = 2, #entry do v = v:select(axes + 1, entry[j]) end
    columns[k] = v
  end
  return pn.stack(columns, -1)
end

local function off(c, k, what, got, want)
  return ("%s: %s of %s: %.6g, exact %.6g"):format(c.what, what, table.concat({ c.latent[k][1], c.latent[k][2],
    c.latent[k][3] }, " "), got, want)
end

-- Adds the squares of how many standard errors NUTS is off to `sums`, and the rank of one of the truth's numbers.
local function check_draws(c, sums)
  local p = pn.nuts(c.model, { data = { c.data }, chains = CHAINS, warmup = 300, draws = DRAWS, target_accept = 0.9 })
  local x = joined(c, p.draws, 2)
  local mean, want = {}, { {}, {}, {} }
  for k, marginal in ipairs(c.posterior.marginals) do
    mean[k] = marginal.mean
    want[1][k], want[2][k], want[3][k] = marginal.mean, marginal.variance, marginal.law:cdf(c.truth[k]):item()
  end
  local parts = { x, (x - pn.tensor(mean)):square(), x:lt(pn.tensor(c.truth)):to "float64" }
  for j, what in ipairs { "mean", "variance", "distribution function at the truth" } do
    local summary = core.draws_summary(parts[j])
    for k, row in ipairs(summary:totable()) do
      local got, error_of = row[1], row[2] / math.sqrt(row[7])
      if j == 3 then -- what is rarely seen has an error all the same: that of the exact law
        error_of = math.max(error_of == error_of and error_of or 0, math.sqrt(want[3][k] * (1 - want[3][k])
          / (CHAINS * DRAWS)))
      end
      local z = (got - want[j][k]) / error_of
      assert(math.abs(z) < 6, off(c, k, what, got, want[j][k]))
      sums[j] = sums[j] + z * z
    end
  end
  sums.count = sums.count + #c.latent
  local one = 1 + sums.models % #c.latent
  local rank = parts[3]:slice(2, THIN, DRAWS, THIN):select(-1, one):sum():item()
  sums.ranks[#sums.ranks + 1] = math.floor(rank + 0.5)
  sums.models = sums.models + 1
end

local function check_evidence(c)
  local p = pn.smc.sample(c.model, { data = { c.data }, num_particles = 400 })
  local e = p.log_evidence
  local z = (e.value - c.posterior.log_evidence) / math.max(e.se, 0.01)
  assert(math.abs(z) < 6 and e.se < 0.5, ("%s: log evidence %.4f +- %.4f, exact %.4f"):format(c.what, e.value, e.se,
    c.posterior.log_evidence))
end

-- Of a posterior that is normal the guide around the mode is the posterior, and its bound the evidence.
local function check_guide(c)
  local fit = pn.svi(c.model, "laplace", { data = { c.data }, steps = 400, lr = 0.05 })
  local bound = fit:bound { draws = 50 }
  assert(math.abs(bound.elbo - c.posterior.log_evidence) < 1e-4 * math.max(1, math.abs(c.posterior.log_evidence)),
    ("%s: the bound of Laplace's guide %.8g, exact %.8g"):format(c.what, bound.elbo, c.posterior.log_evidence))
end

describe("a random conjugate model", function()
  it("has a joint density that is posterior times evidence, which samplers find", function()
    local sums = { 0, 0, 0, count = 0, ranks = {}, models = 0 }
    local kinds, guides = {}, 0
    for seed = 1, MODELS do
      local c = case_of(seed)
      for _, kind in ipairs(c.kinds) do kinds[kind] = true end
      local lp, want = c.model:log_density(c.values, c.data):item(), c.posterior.log_density(c.truth)
        + c.posterior.log_evidence
      assert(math.abs(lp - want) < 1e-9 * math.max(1, math.abs(want)), ("%s: joint density %.12g, posterior times "
        .. "evidence %.12g"):format(c.what, lp, want))
      check_draws(c, sums)
      if seed % 2 == 0 then check_evidence(c) end
      if c.normal then
        guides = guides + 1
        check_guide(c)
      end
    end
    local n = 0
    for _ in pairs(kinds) do n = n + 1 end
    assert(n == 7 and guides > 0)
    -- errors are as large as they say: squares around 1, give or take (numbers of one model hang together)
    for j = 1, 3 do
      local ratio = sums[j] / sums.count
      local spread = 6 * math.sqrt(2 / (sums.count / 2))
      assert(math.abs(ratio - 1) < spread, ("mean square of %d errors: %.3f"):format(sums.count, ratio))
    end
    local law = uniformity.new(MODELS, CHAINS * DRAWS / THIN + 1)
    local p = law:p_value(law:counts(sums.ranks))
    assert(p > 1e-4, ("ranks of the truth over %d models: p = %.2g"):format(MODELS, p))
    if SOAK then
      print(("%d models, %d numbers: mean squares of the errors of mean, variance, distribution function %.3f %.3f "
        .. "%.3f; ranks p = %.3f"):format(MODELS, sums.count, sums[1] / sums.count, sums[2] / sums.count,
        sums[3] / sums.count, p))
    end
  end)
end)

local where_soaked = SOAK and it or function() end
describe("NUTS on one random conjugate model after another", function()
  where_soaked("passes simulation-based calibration", function()
    for seed = 1, 14 do
      local c = blocks.model(drawn_numbers(5000 + seed))
      pn.seed(seed)
      local sbc = pn.sbc(c.model, { data = { {} }, simulations = 200, draws = 49 })
      assert(sbc:passed(0.999), ("model %d:\n%s"):format(seed, tostring(sbc)))
    end
  end)
end)
