-- What the page of examples/papers/posteriordb says of warm-ups and of funnels, where it holds by construction.
local pn = require "penumbra"
local near = require("spec.helper").near
local script = require "spec.papers.script"

describe("the claim of posteriordb/", function()
  -- On a Gaussian scores say the metric as soon as there are more draws than numbers.
  it("adaptation.lua", function()
    local s = script.run "posteriordb/adaptation.lua --quick --only none"
    local entry
    for _, each in ipairs(s.models) do entry = each.name:find "kidscore_momiq$" and each or entry end
    local data, cost = entry.arguments(entry.generate()), {}
    for _, way in ipairs { { "low_rank", "fisher", "overlapping" }, { "diagonal", "stan", "stan" },
      { "low_rank", "stan", "overlapping" } } do
      local each = {} -- the median of three seeds: one in 150 draws is far away
      for seed = 1, 3 do
        local r = { metric = way[1], estimator = way[2], schedule = way[3], asked = "80", draws = 150, seed = seed }
        s.run(entry, data, r)
        assert(r.gradients > r.leapfrogs and r.divergences == 0)
        each[seed] = s.cost(r)
      end
      table.sort(each)
      cost[#cost + 1] = each[2]
    end
    assert(cost[1] < 0.3 * cost[2] and cost[1] < 0.8 * cost[3], table.concat(cost, ", "))
    -- a cell: the median of the seeds, what is marked, divergences of all
    local function row(gradients, r_hat, z, divergences)
      return { gradients = gradients, bulk = 30, tail = 10, squares = 20, r_hat = r_hat, z = z,
        divergences = divergences }
    end
    assert.equal("20", s.cell { row(900, 1, 0, 0), row(200, 1, 0, 0), row(100, 1, 1, 0) })
    assert.equal("10? (3)", s.cell { row(100, 1, 5, 1), row(100, 1, 0, 2), row(200, 1, 0, 0) })
    assert.equal("1500!", s.cell { row(15000, 1.02, 5, 0) })
    -- the largest standardised error of a mean against a reference
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute(("mkdir -p '%s/a'"):format(folder)))
    local file = assert(io.open(folder .. "/a/reference.csv", "w"))
    file:write "name,mean,mcse_mean\nmu,1,0.3\ntau,5,1\nother,9,9\n"
    file:close()
    s.option.data = folder
    local z = s.error_of({ name = "a" }, { summary = function()
      return { mu = { mean = 2, mcse = 0.4 }, tau = { mean = 3.9, mcse = 0 } }
    end })
    os.execute(("rm -r '%s'"):format(folder))
    near(2, z) -- 1 / (0.3^2 + 0.4^2)^(1/2), above 1.1
  end)

  -- Neal's funnel: v ~ N(0, 3). Scaled and shifted from standard numbers it is a Gaussian; as it is written the advice
  -- names it.
  it("funnels.lua", function()
    local s = script.run "posteriordb/funnels.lua --quick --draws 4 --warmup 10"
    s.option.draws, s.option.warmup, s.option.seeds = 300, 100, 1
    local function figures(model)
      local list = {}
      for word in s.run(model, {}, "v"):gmatch "%S+" do list[#list + 1] = tonumber(word) end
      return table.unpack(list)
    end
    local cost, divergences, r_hat, mean, sd = figures(s.neal(false))
    assert(divergences == 0 and r_hat < 1.02)
    near(0, mean, 6 * 3 / math.sqrt(600))
    near(1, sd / 3, 0.15)
    local centred = figures(s.neal(true))
    assert(centred > 5 * cost)
    local draws = pn.nuts(s.neal(false), { data = {}, draws = 100, warmup = 60 }).draws
    local z = draws.x / (draws.v / 2):exp():unsqueeze(-1) -- x ~ N(0, e^v)
    near(1, z:square():mean():item(), 6 * math.sqrt(2 / 3600))
    near(1, (draws.x_standard - z):abs():max():item() + 1, 1e-9)
    local advice = pn.diagnose(s.neal(true), { data = {}, draws = 10 }).advice
    assert.matches("the scale of 'x' depends on 'v'", advice[1].message)
    for _, each in ipairs(pn.diagnose(s.neal(false), { data = {}, draws = 10 }).advice) do
      assert(not each.message:find "depends on")
    end
  end)
end)
