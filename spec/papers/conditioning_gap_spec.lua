-- What the page of examples/papers/conditioning_gap says of trained models, where it holds by construction.
local pn = require "penumbra"
local near = require("spec.helper").near
local script = require "spec.papers.script"

describe("the claim of conditioning_gap/", function()
  -- What is missing is log p(x) - bound: never below 0 but for the draws'. Exact gaps fall with what is seen.
  it("uav.lua", function()
    local s, text = script.run "conditioning_gap/uav.lua --quick --out OUT"
    near(33.341, script.rows(text, "flights: E log p%(x%) = ")[1][1], 6e-4)
    local at_truth = {}
    for _, kind in ipairs { "full", "semi", "partial" } do
      local bound, missing, _, truth, iwae = table.unpack(script.rows(text, kind .. " +1 +4 ")[1])
      assert(missing > 0 and iwae > bound)
      near(s.exact:mean():item(), bound + missing, 2e-3)
      at_truth[#at_truth + 1] = truth
    end
    near(0, at_truth[1])
    assert(at_truth[1] < at_truth[2] and at_truth[2] < at_truth[3])
    near(2 * 51.9544102 + 67.7004550, at_truth[3], 6e-4) -- one axis of each noise (spec/gap/surrogate_spec.lua)
    -- Bands and densities of the last position by draws of its own law, which the steps before do not have.
    local steps, particles = s.world.steps, 4000
    local sd = pn.where(pn.arange(1, steps + 1):eq(steps), 2.0, 0.1):reshape { steps, 1, 1 }
    s.option.test, s.option.particles = 100, particles
    local before = script.set(s.predictions, "test", sd * pn.randn({ steps, 100, 3 }, { generator = pn.generator(1) }))
    local r = s.predictions { filter = function() return { state = { effective_sample_size = pn.ones { 2 } } } end,
      forecast = function(_, _, ahead, how)
        return sd:slice(1, steps - ahead + 1, steps) * pn.randn({ how.draws, ahead, 100, 3 },
          { generator = pn.generator(2) })
      end }
    script.set(s.predictions, "test", before)
    near(0.9, r.coverage, 6 * math.sqrt(0.09 / 300))
    near(-3 * (math.log(2) + 0.5 * math.log(2 * math.pi) + 0.5), r.density, 6 * math.sqrt(3 * 0.5 / 100))
    near(math.sqrt(1.5 / 100), r.density_se, 0.06)
  end)

  -- The same places of the space for each conditioning; counts and bests are those of the file.
  it("search.lua", function()
    local s, text = script.run "conditioning_gap/search.lua --quick --out OUT --test 8 --count 16"
    assert.equal(3, #s.all)
    for _, name in ipairs { "batch", "lr", "transition", "latent", "flows", "units" } do
      for _, r in ipairs(s.all) do assert.equal(s.all[1][name], r[name]) end
    end
    assert.same(s.configuration(3), s.configuration(3))
    assert.are_not.same(s.configuration(3), s.configuration(4))
    for _, r in ipairs(s.all) do near(r.bound, script.rows(text, r.kind .. " +best of 1: ")[1][1], 6e-4) end
    local path, bound, want = os.tmpname(), { full = { 3, 5, 4, 9 }, semi = { 1, 7, 2, 8 }, partial = { 2, 6, 1 } }, {}
    local file = assert(io.open(path, "w"))
    for kind, list in pairs(bound) do
      for k, v in ipairs(list) do
        file:write(("kind=%s configuration=%d updates=3000 batch=8 lr=0.01 transition=plain latent=20 flows=4 units=32 "
          .. "bound=%g fit_minutes=1\n"):format(kind, k, v - 20))
      end
      want[kind] = kind == "full" and "%-11.000 %(configuration 4" or kind == "semi" and "%-12.000 %(configuration 4"
        or "%-14.000 %(configuration 2"
    end
    file:close()
    text = select(2, script.run("conditioning_gap/search.lua --show --out OUT --configurations 4 --results " .. path))
    os.remove(path)
    for kind, told in pairs(want) do assert.matches(kind .. " +best of %d: " .. told, text) end
    assert.matches("full above semi in 3 of 4 .*semi above partial in 2 of 3 .*full above partial in 2 of 3 ", text)
  end)

  -- Speeds in other units: data that go in are the same, figures move by the change of units alone.
  it("traffic.lua", function()
    local s = script.run "conditioning_gap/traffic.lua --quick --out OUT --conditionings full --days 16 --test 24"
    local job, world = { kind = "full", days = 16, seed = 1, updates = 2 }, s.world
    local setting = s.runs.settings.traffic.full
    local own, T = script.silent(s.job_run, job), s.world.steps
    assert(own.missing > 0)
    script.set(s.data_of, "world", { sample = function(_, n, o) return world:sample(n, o) * 8 + 5 end,
      log_prob = function(_, x) return world:log_prob((x - 5) / 8) - T * math.log(8) end })
    setting.scale = setting.scale * 8 -- of the emission, which is told in these units
    local other = script.silent(s.job_run, job)
    near(own.missing, other.missing, 1e-4)
    near(own.bound - T * math.log(8), other.bound, 1e-4)
    near(own.validation - T * math.log(8), other.validation, 1e-4)
    near(own.crps * 8, other.crps, 1e-4)
    near(own.density - math.log(8), other.density, 1e-4)
  end)

  it("mnist_rows.lua", function()
    local s, text = script.run "conditioning_gap/mnist_rows.lua --quick --out OUT --conditionings partial --count 40"
    local r = s.all[1]
    assert(r.missing > 0 and r.iwae > r.elbo_same)
    near(r.missing, script.rows(text, "glyphs +partial ")[1][3], 6e-4)
    -- h log 10 h, summed, of classes; by Bayes' rule those of glyphs are uniform, 2 n times the divergence chi-square
    near(math.log(10), (s.divergence(pn.full({ 7 }, 3):to "int64")))
    near(0, (s.divergence(pn.arange(20):to "int64":remainder(10))))
    near(0.5 * math.log(5) + 0.5 * math.log(5), (s.divergence(pn.arange(20):to "int64":remainder(2))))
    local n = 500
    local x, label = pn.gap.glyph_rows():sample(n, { seed = 5, dtype = "float32" })
    local classes = s.set_of("glyphs").classes(x)
    assert(classes:eq(label):to "float64":mean():item() > 0.97)
    local kl, shares = s.divergence(classes)
    assert(2 * n * kl < 9 + 6 * math.sqrt(18))
    near(classes:eq(4):to "float64":mean():item(), shares[5])
    near(9 / 100, script.rows(text, "divergence of classes from the uniform law: ")[1][1], 6e-6) -- 50 samples
  end)
end)
