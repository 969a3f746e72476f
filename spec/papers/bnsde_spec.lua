-- What the page of examples/papers/bnsde says, where it holds by construction.
local pn = require "penumbra"
local near = require("spec.helper").near
local script = require "spec.papers.script"
local simulated = dofile "examples/papers/bnsde/simulated.lua"

-- h <- a h + noise is Euler's chain of dh = -theta h dt + s dW.
local THETA <const>, DT <const> = 3, 0.01
local A <const> = 1 - THETA * DT
local reverting = { theta = { THETA }, diffusion = { 0.5, 2 }, start = { 0.3, -1 }, drift = function(th)
  return function(_, h) return h * -th[1] end
end }

describe("the claim of bnsde/", function()
  it("simulated.lua: paths are of the chain, one of so many steps kept, the start too", function()
    local every, n = 20, 3000
    local path = simulated.draw(reverting, { steps = n, every = every, dt = DT, seed = 3 })
    assert.same({ n, 2 }, path:shape())
    assert.same(reverting.start, path[1]:totable())
    for d, s in ipairs(reverting.diffusion) do
      local x = path:select(2, d):slice(1, 101, n)
      local m = x:numel()
      local variance = s * s * DT / (1 - A * A)
      local rho = A ^ every
      local first, last = x:slice(1, 1, m - 1), x:slice(1, 2, m)
      near(variance, x:square():mean():item(), 6 * variance * math.sqrt(2 / m * (1 + rho ^ 2) / (1 - rho ^ 2)))
      near(rho, ((first * last):mean() / x:square():mean()):item(), 6 * math.sqrt((1 - rho ^ 2) / m))
    end
    local w = simulated.windows(path, { from = 7, every = 5, count = 4, size = 8 })
    assert.same({ 8, 4, 2 }, w.y:shape())
    assert.same(path[7 + 10 + 3]:totable(), w.y[4][3]:totable())
    near(0.07, w.times[8]:item())
    for seed = 1, 20 do
      for _, v in ipairs(simulated.disturbed({ 0.1, 2 }, 1, seed, true)) do assert(v > 0) end
    end
  end)

  -- The truth is one more path: by the S paths' mean and deviation it is t with S - 1 degrees of freedom,
  -- (1 + 1 / S)^(1/2) as wide.
  it("simulated.lua: the share within two deviations, and the error of the mean, are those of one more path", function()
    local steps, B, S = 12, 4000, 4
    local g, h, list = pn.generator(5), pn.tensor(reverting.start):broadcast_to { B, 2 }, {}
    local scale = pn.tensor(reverting.diffusion) * DT ^ 0.5
    for k = 1, steps do
      list[k] = h
      h = h * A + scale * pn.randn({ B, 2 }, { generator = g })
    end
    local m = simulated.prior(reverting, reverting.theta, 1)
    local r = simulated.judge(m, { y = pn.stack(list, 1) }, { draws = S, limit = 1000, generator = pn.generator(6) })
    local within = 2 * pn.dist.student_t(S - 1, 0, 1):cdf(pn.tensor(2 / math.sqrt(1 + 1 / S))):item() - 1
    near(within, r.cover, 6 * math.sqrt(within * (1 - within) / (2 * B))) -- steps of a window are one path
    local want = 0
    for k = 1, steps - 1 do
      for _, s in ipairs(reverting.diffusion) do
        want = want + s * s * DT * (1 - A ^ (2 * k)) / (1 - A * A) * (1 + 1 / S) / (2 * steps)
      end
    end
    near(want, r.mse, 6 * want * math.sqrt(2 / B))
    assert.equal(0, r.lost)
    -- another law of the paths is seen
    local other = simulated.judge(simulated.prior(reverting, { -10 }, 1), { y = pn.stack(list, 1) },
      { draws = S, limit = 1000, generator = pn.generator(6) })
    assert(other.cover < within - 0.03 and other.mse > 1.2 * r.mse)
  end)

  -- What is known of the law is worth more than what little data say, and what they say is worth something beside it.
  it("lotka_volterra.lua", function()
    local s, text = script.run("bnsde/lotka_volterra.lua --quick --out OUT --seeds 2 --epochs 15 --off 0.1 --hidden 20 "
      .. "--ahead 10")
    local counts = { text:match("mse50: the hybrid is below the black box in (%d+), below the prior in (%d+), below "
      .. "both in (%d+) of (%d+) seeds") }
    assert.same({ "2", "2", "2", "2" }, counts)
    local black, other = script.rows(text, "black box +%f[%d]")[1], script.rows(text, "hybrid +%f[%d]")[1]
    assert(other[3] > black[3] and other[1] < 0.5 * black[1] and other[4] < black[4])
    local found = s.experiment.find(s.runs, { kind = "hybrid" })
    near((found[1].mse50 + found[2].mse50) / 2, other[1], 6e-5)
  end)

  -- All equations known, their true parameters are the best; of the known ones that of kappa alone halves the error.
  it("lorenz.lua", function()
    local _, text = script.run("bnsde/lorenz.lua --quick --out OUT --rows 2,6,9,10 --off 2 --epochs 40 --hidden 30 "
      .. "--lr 5e-3")
    local function error_of(name) return script.rows(text, name)[1][1] end
    local none, kappa = error_of "none, E%-PAC%-Bayes", error_of "kappa, E%-PAC"
    local prior, truth = error_of "all, prior only", error_of "all, true parameters"
    assert(truth < prior and truth < kappa and kappa < 0.52 * none)
    near(kappa / none, tonumber(text:match "kappa's equation known: (%d%.%d+)"), 2e-3)
  end)
end)
