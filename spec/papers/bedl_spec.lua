-- What the page of examples/papers/bedl says, where it holds by construction.
local pn = require "penumbra"
local near = require("spec.helper").near
local script = require "spec.papers.script"

-- kl(q || p) of two coins.
local function kl(q, p)
  local function term(a, b) return a > 0 and a * math.log(a / b) or 0 end
  return term(q, p) + term(1 - q, 1 - p)
end

describe("the claim of bedl/", function()
  -- The half that the prior did not see, each of whose data has draws of its own: kl(seen || posterior) =
  -- log(1 / delta') / draws, kl(posterior || bound) = (KL + log(2 sqrt(n) / delta)) / n, which all looser forms exceed.
  it("certificate.lua", function()
    local s, text = script.run("bedl/certificate.lua --quick --out OUT --images 1000 --epochs 8 --prior_epochs 8 "
      .. "--lr 5e-3 --prior_lr 5e-3")
    local c, n = s.c, 500
    assert.same({ n, 2 * n }, { c.num_data, c.draws })
    for k, what in ipairs { "error", "log_loss" } do
      local r, least = c[what], (c.kl + math.log(2 * math.sqrt(n) / 0.025)) / n
      assert(r.seen < r.posterior and r.posterior < r.bound and r.bound < 0.6)
      near(math.log(1 / 0.01) / (2 * n), kl(r.seen, r.posterior), 1e-9)
      near(least, kl(r.posterior, r.bound), 1e-9)
      for _, name in ipairs { "pinsker", "mcallester", "quadratic", "lambda", "seeger" } do
        assert(script.rows(text, "  the same draws by " .. name)[1][k] >= 100 * r.bound - 5e-4, name)
      end
    end
    assert(s.drawn < 100 * c.error.bound) -- of other data
    near(100 * (c.error.posterior + math.sqrt((c.kl + math.log(2 * math.sqrt(n) / 0.025)) / (2 * n))),
      script.rows(text, "  the same draws by pinsker")[1][1], 1e-3)
  end)

  it("decomposition.lua", function()
    local s, text = script.run "bedl/decomposition.lua --quick --out OUT --epochs 60 --rows 200"
    -- of the truth: what its own law says of the data
    local z = (s.y - (s.x * 2):sin()) / s.scale
    local truth = -(z:square() * 0.5 + s.scale:log()):mean():item() - 0.5 * math.log(2 * math.pi)
    for _, method in ipairs { "bedl", "bedl_pac" } do
      local r = script.rows(text, method .. " +%f[%-]")[1]
      near(truth, r[2], 6e-4)
      assert(r[1] < r[2] and r[3] > 0.9, "the variance follows that of the noise")
      assert(r[4] > 0 and r[4] < 1)
    end
    for _, method in ipairs { "bedl", "bedl_pac", "edl" } do
      local r = script.rows(text, method .. " +%f[%d]")[1]
      assert(r[4] < 0.02 * r[3] and r[6] < 0.02 * r[5], "almost nothing on two moons is")
    end
  end)

  -- A score that is 0 where all is uniform prefers what the sum over data leaves nearly uniform, inside too.
  it("ood.lua", function()
    local _, text = script.run "bedl/ood.lua --quick --out OUT --methods bedl,bedl_pac,bedl_pac_mean --epochs 2"
    local of = {}
    for k, name in ipairs { "BEDL +%d", "BEDL%-PAC, sum", "BEDL%-PAC, mean" } do
      local r = script.rows(text, name)[1]
      of[k] = { entropy = r[4], ecdf = r[5], auc = r[7] }
      assert(r[5] >= 0 and r[5] < math.log(10) and r[4] > 0 and r[4] <= math.log(10))
      assert(math.abs(r[7] - 0.5) > 0.02, "other pictures are no digits")
    end
    assert(of[2].ecdf < of[1].ecdf and of[2].ecdf < of[3].ecdf, "the sum is the best by this score")
    assert(of[2].entropy > of[1].entropy and of[2].entropy > of[3].entropy, "and the least certain inside")
    assert.matches("uniform everywhere: error 90 %%, ECDF%-AUC 0.0000, AUC 0.50", text)
  end)

  it("uci.lua", function()
    local s = script.run "bedl/uci.lua --quick --out OUT --methods bedl --splits 1"
    -- twice the chance of so few of n coins on one side
    for _, case in ipairs { { 19, 20 }, { 13, 20 }, { 2, 5 }, { 10, 20 }, { 0, 8 } } do
      local wins, n = table.unpack(case)
      local few = pn.dist.binomial(n, 0.5):log_prob(pn.arange(0, math.min(wins, n - wins) + 1)):exp():sum():item()
      near(math.min(1, 2 * few), s.sign_test(wins, n), 1e-12)
    end
    -- nats and errors are of the target's own units
    local t = s.tables.energy
    for _, method in ipairs { "bedl", "local" } do
      local job = { set = "energy", split = 1, method = method }
      local own, other = script.in_other_units(s.run, job, t)
      near(own.ll - math.log(4), other.ll, 1e-6)
      near(4 * own.rmse, other.rmse, 1e-6)
    end
    -- what is chosen on training rows does not see the test rows
    local seen, fitted = {}, s.fitted
    script.set(s.chosen_for, "fitted", function(_, _, _, _, train, test)
      seen[#seen + 1] = { train[1]:size(1), test[1]:size(1), train[2], test[2] }
      return -#seen
    end)
    script.silent(s.chosen_for, "energy", "bedl_pac")
    s.choices.energybedl_pac = nil
    t.y = t.y:scatter_add(1, t.splits[1], pn.full({ 15 }, 100.0))
    local chosen = script.silent(s.chosen_for, "energy", "bedl_pac")
    script.set(s.chosen_for, "fitted", fitted)
    assert.equal(0.1, chosen.prior_precision) -- the first of what falls
    assert.equal(6, #seen)
    for k = 1, 3 do
      assert.same({ 108, 27 }, { seen[k][1], seen[k][2] })
      for part = 3, 4 do near(0, (seen[k][part] - seen[k + 3][part]):abs():max():item()) end
    end
  end)
end)
