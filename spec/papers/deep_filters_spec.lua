-- What the page of examples/papers/deep_filters says of series and videos, where it holds by construction.
local pn = require "penumbra"
local near = require("spec.helper").near
local script = require "spec.papers.script"

-- A method's row: rolling and long-term.
local function scores(text, name)
  local r = script.rows(text, name .. " +%d+ +")[1]
  return r[1], r[2]
end

describe("the claim of deep_filters/", function()
  -- Of a random walk nobody forecasts better than itself: at h steps its CRPS is sd (h / pi)^(1/2); what stood a season
  -- ago is behind by as much as the walk went since.
  it("exchange.lua", function()
    local line = "deep_filters/exchange.lua --quick --methods random_walk,seasonal_naive,deep_state"
    local s, text = script.run(line)
    local walk, walk_long = scores(text, "random_walk")
    local season, season_long = scores(text, "seasonal_naive")
    assert(walk < season and walk_long < season_long)
    assert.matches("seasonal_naive[^\n]*does not beat random_walk\n", text)
    -- many walks of 0, so that the changes are those of one law
    local items, sd, count = {}, 0.5, 2000
    local g = pn.generator(4)
    for k = 1, count do
      items[k] = { target = 50 + (pn.randn({ 40 }, { generator = g }) * sd):cumsum(1), start = "1990-01-01" }
    end
    local problem = {}
    for key, v in pairs(s.problem) do problem[key] = v end
    problem.set, problem.paths = pn.data.series(items, { freq = "B", features = true }), 40
    local r = s.forecasting.run(problem, "random_walk", s.choices.all, 1)
    local function crps(horizon, test)
      local total = 0
      for h = 1, horizon do total = total + sd * math.sqrt(h / math.pi) / horizon end
      local y = problem.set:future { steps = test, drop = test }
      return total / y.y:abs():mean():item()
    end
    -- of S paths: (1 + 1 / S) times as much, here without `fair`; the spread of a score is .6 of it, a walk counts once
    local error = 6 * 0.6 / math.sqrt(count)
    near(1, r.rolling.crps / crps(problem.horizon, problem.test) / (1 + 1 / problem.paths), error)
    near(1, r.long.crps / crps(problem.test, problem.test) / (1 + 1 / problem.paths), error)
    local draws = s.forecasting.methods.random_walk.draw(problem, nil, 10, 9, 40, g)
    for h = 1, 9, 4 do near(sd * math.sqrt(h), draws[{ {}, h }]:std(1):mean():item(), 0.05) end
    -- windows follow each other up to the last step: who knows what comes has no error
    local asked = {}
    s.forecasting.methods.knows = { draw = function(p, _, drop, steps)
      asked[#asked + 1] = { drop, steps }
      return p.set:future({ steps = steps, drop = drop }).y:unsqueeze(1):broadcast_to { 2, steps, #p.set, 1 }
    end }
    r = s.forecasting.run(problem, "knows", s.choices.all, 1)
    assert.same({ { 10, 5 }, { 5, 5 }, { 10, 10 } }, asked)
    near(0, r.rolling.tenths + r.rolling.crps + r.long.tenths + r.long.crps)
  end)

  -- A line of a method counts from the time that is said of it on.
  it("forecasting.lua, of runs that are kept", function()
    local s, path = script.run "deep_filters/exchange.lua --quick --methods random_walk", os.tmpname()
    local file, name = assert(io.open(path, "w")), s.problem.name
    for _, rest in ipairs { "deepar 1 1", "deepar 2 2 on=2026-11-27T03:29", "arsgls 1 3", "random_walk 1 4" } do
      file:write(name, " ", (rest:gsub("^(%S+ %S+ %S+)", "%1 0 0 0 0 0 0")), "\n")
    end
    file:close()
    local option = { results = path, first = 1, seeds = 1 }
    local since = s.forecasting.since
    since.deepar, since.random_walk = "2026-11-27", os.date "!%Y-%m-%d"
    local found = s.forecasting.shown(s.problem, option)
    assert.same({ 1, 2, 1 }, { #found.deepar, found.deepar[1].seed, #found.arsgls })
    assert.equal(nil, found.random_walk) -- and is made again, once
    for _ = 1, 2 do found = s.forecasting.run_all(s.problem, { "random_walk" }, s.choices, option) end
    os.remove(path)
    assert.equal(1, #found.random_walk)
  end)

  -- Series with a day: the value of a season ago is worth more than the last one.
  it("hourly.lua", function()
    local s = script.run "deep_filters/hourly.lua --quick --methods random_walk"
    local items, g = {}, pn.generator(3)
    for k = 1, 12 do
      items[k] = { target = ((pn.arange(24 * 12) * (2 * math.pi / 24) + k):sin() * 2
        + pn.randn({ 24 * 12 }, { generator = g }) * 0.3 + 8) * (10 * k), start = s.MONDAY }
    end
    local problem = {}
    for key, v in pairs(s.problem) do problem[key] = v end
    problem.set, problem.season = pn.data.series(items, { freq = "H", features = s.features }), 24
    local _, text = script.silent(function()
      s.forecasting.print_table(problem, (s.forecasting.run_all(problem, { "random_walk", "seasonal_naive" },
        s.choices, s.option)))
    end)
    local walk, walk_long = scores(text, "random_walk")
    local season, season_long = scores(text, "seasonal_naive")
    assert(season < walk and season_long < walk_long)
    assert.matches("random_walk[^\n]*0%.0\n", (text:gsub(" +\n", "\n"))) -- nothing that it does not beat
    -- the errors are two noises of 0.3: CRPS 0.3 2^(1/2) / pi^(1/2) a unit of the series, over the mean of |y|, 8
    near(1, season / (0.3 * math.sqrt(2 / math.pi) / 8), 0.25)
    local draws, spread = s.forecasting.methods.seasonal_naive.draw(problem, nil, 12, 30, 400, g), 0
    for k = 1, 12 do spread = spread + draws:std(1)[{ { 1, 24 }, k }]:mean():item() / (10 * k) / 12 end
    near(1, spread / (0.3 * math.sqrt(2)), 0.1)
    near(math.sqrt(2), draws:std(1):slice(1, 25, 30):sum():item() / draws:std(1):slice(1, 1, 6):sum():item(), 0.05)
  end)

  -- A disc that moved by d is at the Wasserstein distance d from what it was, up to a pixel's edge; of images that are
  -- seen nothing is missing.
  it("balls.lua", function()
    local s, text = script.run "deep_filters/balls.lua --quick --model last"
    assert.matches("last +W1: seen 0.000, .- accuracy: seen 1.0000", text)
    local videos, ball = pn.data.ball_video(12, { steps = 60, seed = 5, dtype = "float32" })
    local context = 20
    script.set(s.baselines.last, "CONTEXT", context)
    script.set(s.baselines.last, "AHEAD", 40)
    local far = s.scores(s.baselines.last, videos)
    assert.same({ 60 }, far:shape())
    near(0, far:slice(1, 1, context):max():item())
    for t = context + 1, 60, 7 do
      local moved = (ball[t] - ball[context]):slice(2, 1, 2):to "float64":square():sum(2):sqrt():mean():item()
      near(moved, far[t]:item(), 0.3)
    end
    -- of another video nothing is known, at any time
    local other = s.scores(s.baselines.other, videos)
    near(1, other:slice(1, 1, context):mean():item() / other:slice(1, context + 1, 60):mean():item(), 0.35)
    -- the law of the pixels in the filter: the weight times a Bernoulli's, whose draws are not weighted
    pn.seed(1)
    local law, z = s.pixels():forward(pn.zeros { 1, 2, dtype = "float32" }), videos:select(1, 1):slice(1, 1, 1)
    s.option.weight = 1
    local whole = law:log_prob(z):to "float64"
    s.option.weight = 0.3
    near(0, (law:log_prob(z):to "float64" / whole - 0.3):abs():max():item(), 1e-6)
  end)
end)
