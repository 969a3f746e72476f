-- What experiments of examples/papers say, at sizes of a second: closed forms computed here in another way, bounds that
-- are above what they bound, orders that hold by construction.
local pn = require "penumbra"
local command = os.getenv "PENUMBRA" or "build/penumbra"

local NUMBER = "(%-?%d+%.?%d*)"

-- What the script prints; it ends well and draws what it says that it wrote.
local function printed(script)
  local root, folder = io.popen("pwd"):read "l", os.tmpname()
  os.remove(folder)
  local program = command:sub(1, 1) == "/" and command or root .. "/" .. command
  local pipe = assert(io.popen(("mkdir '%s' && cd '%s' && '%s' '%s'/examples/papers/%s.lua --quick 2>&1")
    :format(folder, folder, program, root, script)))
  local text = pipe:read "a"
  local ok = pipe:close()
  for path in text:gmatch "wrote %./(%S+)" do assert(io.open(folder .. "/" .. path), path):close() end
  os.execute(("rm -rf '%s'"):format(folder))
  assert(ok, text)
  return text
end

-- The numbers after each match of the beginning of a line: a list for each.
local function rows(text, beginning)
  local list = {}
  for line in text:gmatch "[^\n]+" do
    local rest = line:match("^" .. beginning .. "(.*)$")
    if rest then
      local row = {}
      for word in rest:gmatch "%-?%d+%.%d+" do row[#row + 1] = tonumber(word) end
      list[#list + 1] = row
    end
  end
  assert(#list > 0, beginning)
  return list
end

-- Up to half of the last of so many decimal places.
local function near(want, got, places)
  assert(math.abs(want - got) <= 0.5000001 * 10 ^ -places, ("%.10g, got %.10g"):format(want, got))
end

describe("the claim of", function()
  -- y = 1 for 10 data whose inputs are 1, noise 1 / (2 pi e); the sum of the weights is N(0, 1) for every K.
  it("invariance/linear_model.lua", function()
    local text, noise, n = printed "invariance/linear_model", 1 / (2 * math.pi * math.exp(1)), 10
    local evidence = pn.dist.multivariate_normal { loc = pn.zeros { n }, covariance_matrix = pn.eye(n) * noise
      + pn.ones { n, n } }:log_prob(pn.ones { n }):item()
    near(evidence, rows(text, "q_mix at its optimum, for every K: KL ")[1][3], 6)
    local before
    for _, r in ipairs(rows(text, " *%d+ +%d+%.%d+ / ")) do -- the first number is in the match
      local corrected_kl, mix, mix_corrected, ell, ell_corrected, elbo, elbo_corrected = table.unpack(r)
      near(ell_corrected - corrected_kl, elbo_corrected, 2)
      assert(mix <= mix_corrected and ell <= ell_corrected)
      assert(elbo <= elbo_corrected and elbo_corrected <= evidence + 5e-4)
      near(n / (n + noise), r[10], 4) -- the exact prediction; the printed mean draws it to 0
      assert(not before or r[9] < before[9] and mix < before[2]) -- KL of the mixture falls, that of q_0 rises
      before = r
    end
    for _, r in ipairs { { 10, 84 }, { 100, 532 } } do
      local gap, bound = text:match(("%d data: gap at the optimum of q_mix %s a weight, above the bound %s from K = %d "
        ):format(r[1], NUMBER, NUMBER, r[2]))
      near(r[1] / noise, tonumber(bound), 2)
      assert((r[2] - 1) * gap > tonumber(bound) and (r[2] - 2) * gap < tonumber(bound))
    end
    for _, r in ipairs(rows(text, "the optimum of q[^E]+ELBO ")) do
      assert(r[1] <= r[2] + 1e-4 and r[2] <= r[3] + 1e-4) -- at most the log evidence
    end
    local best = rows(text, "the optimum of q_mix[^E]+ELBO ")[1]
    near(best[3], best[2], 4)
  end)

  it("invariance/permutations.lua", function()
    local text, count = printed "invariance/permutations", 0
    for hidden, rest in text:gmatch "\n(%d[%d +]-) +%d+ +%-(%d[^\n]+)" do
      local all, v = 0, {}
      for size in hidden:gmatch "%d+" do all = all + pn.tensor(size + 1.0):lgamma():item() end
      for word in rest:gmatch "%-?%d+%.%d+" do v[#v + 1] = tonumber(word) end
      local gap, error, limit, lower, upper = v[2], v[3], v[4], v[6], v[7]
      near(all, limit, 4)
      assert(gap >= -1e-4 and gap <= limit + 1e-4, hidden)
      assert(lower <= gap + 6 * error + 0.02 and upper >= gap - 6 * error - 0.02 and upper <= limit + 1e-4, hidden)
      near(v[5], gap - v[1], 2 - 0.31) -- ELBO + gap; two roundings
      count = count + 1
    end
    assert.equal(9, count)
    local way = rows(text, "4 nodes, from the prior to the posterior: gap ")[1]
    near(0, way[1], 4) -- at the prior
    near(math.log(24), way[4], 4)
    assert(way[2] > 0.1 and way[2] <= way[3] and way[3] <= way[4])
  end)

  -- Of a gate that opens with Phi(0) = 1/2, its input a ~ N(0, 1): E[softplus(C a)] - log 2, by (3.9) C / sqrt(2 pi).
  it("vbp/gates.lua", function()
    local text, before = printed "vbp/gates", math.huge
    local count = 0
    for C, quadrature, printed_form, ratio in text:gmatch("\n +(%d+%.?%d*) +(%d+%.%d+) +(%d+%.%d+) +(%d+%.%d+)") do
      local a = pn.linspace(-12, 12, 240001)
      local softplus = pn.logaddexp(a * tonumber(C), pn.zeros {})
      local want = (softplus * (a:square() * -0.5):exp()):sum():item() * 1e-4 / math.sqrt(2 * math.pi) - math.log(2)
      near(want, tonumber(quadrature), 6)
      near(C / math.sqrt(2 * math.pi), tonumber(printed_form), 6)
      assert(tonumber(printed_form) >= tonumber(quadrature) and tonumber(ratio) < before)
      before, count = tonumber(ratio), count + 1
    end
    assert.equal(5, count)
    assert(before < 1.002)
    local difference, error = text:match "draws less quadrature (%d+%.%d+) %(largest standard error (%d+%.%d+)"
    assert(tonumber(difference) < 6 * error)
  end)

  -- x | z ~ N(a z, 0.1), z ~ N(0, 1), data N(0, 1): posterior means a x / (a^2 + 0.1), precision (a^2 + 0.1) / 0.1.
  it("conditioning_gap/gaussian.lua", function()
    local text = printed "conditioning_gap/gaussian"
    local example, count = text:match "The univariate example:.-its gradient\n(.-)\nwrote", 0
    for a, log_p, bound, gap, slope in example:gmatch((NUMBER .. " +"):rep(4) .. NUMBER) do
      a = math.abs(a - 0.94868) < 1e-5 and math.sqrt(0.9) or tonumber(a)
      local v = a * a + 0.1
      near(-0.5 * math.log(2 * math.pi * v) - 0.5 / v, tonumber(log_p), 6)
      near(a * a / (0.2 * v), tonumber(gap), 5)
      near(log_p - gap, tonumber(bound), 4)
      -- d/da of the bound: -a / v + a / v^2 - a / (0.1 v) + a^3 / (0.1 v^2)
      near(-a / v + a / v ^ 2 - a / (0.1 * v) + a ^ 3 / (0.1 * v * v), tonumber(slope), 6)
      count = count + 1
    end
    assert.equal(3, count)
    for s, gap in text:gmatch "\n +(%d%.%d%d) +%d+%.%d+ +(%d+%.%d+)" do near(1 / (2 * s * s), tonumber(gap), 3) end
    local first, before, second
    for _, r in ipairs(rows(text, " +[1-5] +%f[%d]")) do
      first, before = first or r[1], before or math.huge
      assert(r[1] <= before and r[2] <= r[1] + 1e-6)
      before, second = r[1], r[2]
    end
    assert.equal(0, second) -- all is seen
    local of = {}
    for name, value in text:gmatch "\n  (%S[^\n]-)  +(%-?%d+%.%d%d%d%d%d%d)" do of[name] = tonumber(value) end
    assert.same({ first, first, 0, 0 }, { of.partial, of.VRNN, of.full, of.DKS })
    assert(of["semi, k = 3"] < of["semi, k = 2"] and of["semi, k = 2"] < of.partial)
  end)

  it("conditioning_gap/best_linear_system.lua", function()
    local r = rows(printed "conditioning_gap/best_linear_system", "0%.15 +2 +")[1]
    assert.equal(4, #r)
    for k = 2, 4 do assert(r[k - 1] <= r[k], "the bound at the truth, the best one, its log p, the truth's") end
  end)

  -- What a fit has: ELBO = ELL - KL, KL below the data bound, gaps up to ln |P|, a variance below the prior's. NUTS, of
  -- few weights, is nearer to the data than a fit by a product.
  it("invariance/network_collapse.lua", function()
    local text, count, error_of = printed "invariance/network_collapse", 0, {}
    for line in text:gmatch "[^\n]+" do
      local width, way, rest = line:match "^ +(%d+)  ([%a-]+) +(.*)$"
      local v = {}
      for word in (rest or ""):gmatch "%-?%d+%.%d+" do v[#v + 1] = tonumber(word) end
      if way == "mean-field" then
        local kl, bound, ell, elbo = table.unpack(v)
        near(ell - kl, elbo, 2 - 0.31)
        local most = pn.tensor(width + 1.0):lgamma():item()
        local low, high = rest:match "%s(%d+%.%d)%-(%d+%.%d)%s"
        assert(kl < bound and tonumber(high or v[5]) <= most + 0.1 and tonumber(low or 0) <= tonumber(high or 1))
        if not high then assert(v[5] >= -0.005 and v[5] <= most + 0.005) end
      end
      if way then
        assert(v[#v - 1] > 0 and v[#v - 1] < v[#v], line) -- the variance, the prior's
        error_of[way .. width], count = v[#v - 3], count + 1
      end
    end
    assert.equal(5, count)
    assert(error_of.NUTS4 < error_of["mean-field4"] and error_of.NUTS4 < error_of["layer-wise4"])
  end)

  -- log p - approximation - conditioning - amortisation = bound, to the digits printed; nothing is lost where the
  -- posterior is exact, nothing by conditions where all is seen.
  it("conditioning_gap/where_do_the_nats_go.lua", function()
    local text, seen = printed "conditioning_gap/where_do_the_nats_go", {}
    local figure = " +" .. NUMBER .. " %+%- %d+%.%d+"
    for label, log_p, approximation, conditioning, amortisation, bound in text:gmatch("\n(%u[^\n]-) +%d+"
      .. figure:rep(5)) do
      near(log_p - approximation - conditioning - amortisation, tonumber(bound), 3 - 0.7)
      seen[label:match "^%a+"] = { approximation, conditioning, amortisation }
    end
    assert.same({ "0.000", "0.000", "0.000" }, seen.DeepState)
    assert.equal("0.000", seen.VAE[2])
    assert(seen.VSSM and seen.KVAE)
  end)

  -- Forecasts by the true swing leave the noise alone, whose CRPS is sd / sqrt(pi), at all steps; nobody is better.
  it("deep_filters/pendulum.lua", function()
    local text = printed "deep_filters/pendulum"
    local truth = rows(text, "the true swing and its noise ")[1]
    local mean = (truth[1] * 10 + truth[2] * 15 + truth[3] * 25 + truth[4] * 50) / 100
    -- 6 swings of 100 steps, two numbers each, of which CRPS has a deviation of about .6 of its mean: 6 errors
    assert(math.abs(mean / (0.05 / math.sqrt(math.pi)) - 1) < 6 * 0.6 / math.sqrt(1200), mean)
    for _, name in ipairs { "rsgls ", "rsgls_published ", "sgls ", "other swings at the same step " } do
      for k, value in ipairs(rows(text, name .. " +%f[%d]")[1]) do assert(value > truth[k], name) end
    end
  end)
end)
