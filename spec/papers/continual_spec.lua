-- What the page of examples/papers/continual says, where it holds by construction. (Streams, folds and keys of runs:
-- spec/continual/streams_spec.lua.)
local pn = require "penumbra"
local near = require("spec.helper").near
local script = require "spec.papers.script"

describe("the claim of continual/", function()
  -- After t lags: forgetting has the natural parameters (1 - rate)^t of what they had beyond the prior's; the process
  -- e^(-s t) of the mean, and the variance 1 - e^(-2 s t) (1 - 0.1^2).
  it("forgetting_curves.lua", function()
    local _, text = script.run "continual/forgetting_curves.lua --quick --out OUT"
    local list = script.rows(text, " +%f[%d]")
    assert.equal(7, #list)
    for _, r in ipairs(list) do
      local t, mean, sd, ou_mean, ou_sd = table.unpack(r)
      local left, decay = 0.95 ^ t, math.exp(-0.025 * t)
      local precision = 1 + 99 * left
      near(500 * left / precision, mean, 2e-5)
      near(precision ^ -0.5, sd, 2e-5)
      near(5 * decay, ou_mean, 2e-5)
      near(math.sqrt(1 - decay ^ 2 * 0.99), ou_sd, 2e-5)
    end
    assert.equal(2.5, list[4][4]) -- ln 2 / stiffness
  end)

  it("prior_init.lua", function()
    local s = script.run "continual/prior_init.lua --quick --out OUT --networks 12"
    local n = s.option.networks
    for name, f in pairs(s.found) do
      -- in the first layer the variance is 1 for every activation, under the prior and at the start, with a bias too
      for k = 1, 3 do
        local l = f[k][1]
        near(1, l.variance, 6 * l.spread / math.sqrt(n) + 0.02)
      end
      for l = 1, 3 do
        if name == "identity" then near(1, f[1][l].variance, 6 * f[1][l].spread / math.sqrt(n) + 0.02) end
      end
    end
    assert(math.abs(s.found.relu[1][2].variance - 1) < 0.25)
  end)

  -- E log p under the truth: of the linear predictor f of x uniform on a square, -E entropy(sigmoid(f)); parallel to a
  -- side f is uniform on (-30, 30): -(1 / 30) times the integral of the entropy from 0 on, pi^2 / 6.
  it("rotating_boundary.lua", function()
    local s, text = script.run "continual/rotating_boundary.lua --quick --out OUT --parts logistic"
    s.option.quick = false
    near(-math.pi ^ 2 / 6 / 30, s.best(s.truth(0)), 2e-6)
    near(s.best(s.truth(0)), s.best(s.truth(18)), 1e-6) -- 90 degrees
    near(-0.0745, s.best(s.truth(9)), 6e-5)
    assert(s.best(s.truth(3), s.truth(2)) < s.best(s.truth(3)), "other weights are behind")
    near(0.5 * math.log(0.5), s.log_likelihood(pn.zeros { 1 }, pn.ones { 1 }):item() * 0.5)
    assert.equal(4, #script.rows(text, "%a[%a ]+ +%d+%.?%d* +%-"))
    -- a belief that forgets follows a boundary that turns by 90 degrees, one that does not stays where the mean is
    s.option.steps, s.option.batch, s.option.first, s.option.later = 19, 100, 300, 60
    local gain = {}
    for _, law in ipairs { { "none", 0 }, { "bayesian_forgetting", 0.3 } } do
      local job = { label = "", hidden = "-", forget = law[1], value = law[2], memory = 0, seed = 1 }
      local r = script.silent(s.run, job)
      gain[#gain + 1] = s.mean_from(r.ahead, 10)
      for t = 10, 19 do assert(r.true_ahead[t] > r.ahead[t] - 0.1) end
    end
    assert(gain[2] > gain[1] + 0.03, gain[1] .. " and " .. gain[2])
  end)

  it("scores.lua", function()
    local s = script.run "continual/scores.lua --quick --out OUT"
    local g, list, other = pn.generator(2), {}, {}
    for k, v in ipairs(pn.rand({ 40 }, { generator = g }):totable()) do list[k] = v end
    for k, v in ipairs(pn.rand({ 40 }, { generator = g }):totable()) do other[k] = v + list[k] end
    local a, b, turned = s.ranks(list), s.ranks(other), {}
    for k, v in ipairs(list) do turned[k] = -v end
    assert.same({ 1, 0, 0.5 }, s.ranks { 3, 1, 2 })
    near(1, s.correlation(a, a))
    near(-1, s.correlation(a, s.ranks(turned)))
    -- Spearman's is Pearson's of ranks
    local x, y = pn.tensor(a), pn.tensor(b)
    x, y = x - x:mean(), y - y:mean()
    near(((x * y):sum() / (x:square():sum() * y:square():sum()):sqrt()):item(), s.correlation(a, b))
    near((a[4] + a[7]) / 2, s.mean_at(a, { 3, 6 }))
    for _, kind in ipairs(s.kinds) do -- the data that are kept are those of the largest scores
      for k = 1, 4 do assert(math.abs(s.runs[1][kind][k]) <= 1) end
    end
  end)

  -- All rows at once, which no stream should beat; a stream without a memory counts each row once.
  it("uci_stream.lua", function()
    local s, text = script.run("continual/uci_stream.lua --quick --out OUT --seeds 1 --methods none,offline "
      .. "--first 300 --later 100 --steps 6 --draws 4")
    local none, offline = script.rows(text, "yacht +0 none +1 +")[1], script.rows(text, "yacht +0 offline +1 +")[1]
    assert(offline[1] > none[1] and none[1] > none[3]) -- more rows, more known
    assert(offline[1] == offline[3])
    near(1.25, s.largest_fall { 1, 2, 0.75, 3, 2 })
    assert.equal("1.000 +- 1.041", s.less({ 1, 2, 4 }, { 0.5, 2.5, 1 })) -- of 0.5, -0.5 and 3
    local count, most, first = s.falls({ { method = "a", curve = { 1, 0.75, 0.5 } },
      { method = "a", curve = { 3, 2.5 } }, { method = "b", curve = { 9, 0 } } }, { method = "a" })
    assert.same({ 1, 0.5, 2 }, { count, most, first })
  end)

  -- Where the law changes all the time, what forgets is ahead of what does not; frequencies are of rows before.
  it("drift.lua", function()
    local s, text = script.run("continual/drift.lua --quick --out OUT --methods bayesian_forgetting --sets weather "
      .. "--values 2 --steps 3")
    local xs, ys = {}, {}
    for t = 1, 19 do xs[t], ys[t] = pn.data.rotating_boundary(100, t, { seed = 2 }) end
    s.cache.weather = { set = { likelihood = "bernoulli", hidden = {} }, inputs = 2, outputs = 1, num_steps = 19,
      first = 100, later = 100, x = pn.concatenate(xs, 1), y = pn.concatenate(ys, 1) }
    local lml = {}
    for k, law in ipairs { { "none", 0 }, { "bayesian_forgetting", 0.3 } } do
      local job = { set = "weather", method = law[1], value = law[2], memory = 0, run = 1 }
      local size = { draws = 2, sites = 200, first = 300, later = 60, predict = 100 }
      lml[k] = script.silent(s.run, job, size, 0.05, 19).lml
    end
    assert(lml[2] > lml[1] + 0.03, lml[1] .. " and " .. lml[2])
    -- four rows a batch
    local function stream(list)
      return { num_steps = #list / 4, first = 4, later = 4, x = pn.zeros { #list, 1 }, y = pn.tensor(list):to "int64" }
    end
    s.option.steps = 100
    local all, last = s.by_frequencies(stream { 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 1, 1 })
    near(math.log(1 / 2), all[1])
    near(math.log(4 / 6), all[2])
    near(math.log(2 / 10), all[3])
    near(math.log(1 / 6), last[3])
    assert.matches("frequencies of classes so far", text)
  end)

  it("ablation.lua", function()
    local s, text = script.run("continual/ablation.lua --quick --out OUT --methods grs,grs_refit,k_center")
    for _, r in ipairs(s.runs) do -- grs is the first
      local row = script.rows(text, "energy +15 +" .. r.method .. " +1 +")[1]
      near(r.lml, row[1], 6e-4)
      near(r.curve[#r.curve], r.lml) -- the last tenth of three steps
      if r.method ~= "grs" then near(s.runs[1].lml - r.lml, row[3], 6e-4) end
    end
    local methods = dofile("examples/papers/continual/experiment.lua").methods
    assert.same({ update = "sites", select = "residual" }, methods.grs)
    -- each ablation changes one part of two
    assert.same({ "refit", "residual" }, { methods.grs_refit.update, methods.grs_refit.select })
    assert.same({ "sites", "k_center" }, { methods.grs_k_center.update, methods.grs_k_center.select })
  end)

  -- The memory holds what is asked for; what it keeps of a batch and what it leaves is the batch.
  it("two_moons.lua", function()
    local s, text = script.run "continual/two_moons.lua --quick --out OUT --scores residual,centred"
    assert.equal(3, #script.rows(text, "residual, rate 0.05, seed 1: ")[1])
    local r = script.silent(s.run, { score = "centred", seed = 2, lr = 0.05 })
    local steps, batch = s.option.steps, s.option.later_batch
    assert.equal(steps * batch, r.num_kept + r.num_left)
    near(r.ahead, (r.kept * r.num_kept + r.left * r.num_left) / (steps * batch))
    assert(r.num_kept > 0 and r.num_kept <= s.option.memory * steps)
    local mean, n = s.mean_where(pn.tensor { 1, 2, 4, 8 }, pn.tensor { 1, 0, 1, 0 }:ne(0))
    near(2.5, mean)
    assert.equal(2, n)
    local memory = pn.tensor { { 0, 1 }, { 2, 3 } }
    assert.same({ false, true, false }, s.kept_rows({ memory = { x = memory } },
      pn.tensor { { 0, 3 }, { 2, 3 }, { 1, 0 } }):totable())
  end)

  -- ELBO = E log p - KL, to the digits; a line decides as a line.
  it("vb_or_mcmc.lua", function()
    local s, text = script.run "continual/vb_or_mcmc.lua --quick --out OUT"
    for _, r in ipairs(script.rows(text, "VB +%d+ ")) do
      near(r[4] - r[5], r[6], 0.011)
      assert(r[5] > 0 and r[1] < 0 and r[2] > 0.5)
    end
    local line = s.straight():to "float64":reshape { s.side, s.side }
    -- along each row of the grid the decision changes once at most
    assert(((line:slice(2, 2, s.side) - line:slice(2, 1, s.side - 1)):abs():sum(2)):max():item() <= 1)
    near(math.log(0.5), s.lml_of(pn.zeros { 3, s.option.test, 1 }))
  end)
end)
