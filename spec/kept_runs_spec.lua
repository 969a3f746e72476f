-- What scripts of examples/papers keep of their runs: what was kept is read again, runs of one setting are one row, and
-- the tables that --show draws have the means and deviations of the lines in the file.
local kept_runs = dofile "examples/papers/kept_runs.lua"
local command = os.getenv "PENUMBRA" or "build/penumbra"

local function near(want, got) assert.is_true(math.abs(want - got) < 1e-12 * math.max(1, math.abs(want))) end

-- What a script prints of the lines of a file.
local function shown(script, lines)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(table.concat(lines, "\n"), "\n")
  file:close()
  local pipe = assert(io.popen(("'%s' examples/papers/%s --results '%s' --show 2>&1"):format(command, script, path)))
  local text = pipe:read "a"
  assert(pipe:close(), text)
  os.remove(path)
  return text
end

describe("runs that are kept", function()
  it("are read as they were written", function()
    local path = os.tmpname()
    os.remove(path)
    assert.same({}, kept_runs.read(path))
    local run = { model = "a", lr = 0.005, seed = 3, filters = "-", score = 1 / 3, minutes = 2 }
    kept_runs.keep(path, run, { "model", "lr", "seed", "filters" }, { "score", "minutes" })
    kept_runs.keep(path, run, { "model" }, {})
    local again = kept_runs.read(path)
    os.remove(path)
    for _, one in ipairs(again) do
      assert.matches("^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d$", one.on)
      one.on = nil
    end
    assert.same({ { model = "a", lr = 0.005, seed = 3, filters = "-", score = 0.333333, minutes = 2 },
      { model = "a" } }, again)
    assert.equal(kept_runs.key(run, { "model", "lr", "seed" }), kept_runs.key(again[1], { "model", "lr", "seed" }))
  end)

  it("count from the time that is said of their method on", function()
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write("method=a seed=1 x=1\nmethod=a seed=2 x=2 on=2026-11-27T03:29\nmethod=b seed=1 x=3\n",
      "model=c seed=1 x=4 on=2026-11-27T03:29\nmethod=a seed=3 x=5 on=2026-11-28T00:10\n")
    file:close()
    local function read(list)
      local seen = {}
      for k, run in ipairs(list) do seen[k] = run.x end
      return table.concat(seen, " ")
    end
    local experiment = dofile "examples/papers/continual/experiment.lua"
    for _, module in ipairs { kept_runs, experiment } do
      for _, each in ipairs { { "1 2 3 4 5" }, { "2 3 4 5", a = "2026-11-27" }, { "2 3 4 5", a = "2026-11-27T03:29" },
        { "3 4 5", a = "2026-11-27T03:30" }, { "1 2 3 5", c = "2026-11-28" } } do
        module.since.a, module.since.c = each.a, each.c
        assert.equal(each[1], read(module.read(path)))
      end
    end
    experiment.since.a, experiment.since.c = kept_runs.now(), nil -- what counts no more is made again
    local seen, option, jobs = {}, { results = path, part = "1/1" }, { { method = "a", seed = 1 },
      { method = "b", seed = 1 } }
    local runs = experiment.runs { option = option, jobs = jobs, order = {}, run = function(job)
      seen[#seen + 1] = job.method
      return { x = 6 }
    end }
    assert.same({ { "a" }, 2 }, { seen, #runs })
    os.remove(path)
    kept_runs.since.a, kept_runs.since.c = nil, nil
  end)

  it("make a row for each setting, of mean and deviation", function()
    local list = { { m = "a", x = 1 }, { m = "b", x = 7 }, { m = "a", x = 2 }, { m = "a", x = 6 } }
    local groups = kept_runs.grouped(list, { "m" })
    assert.same({ 3, 1 }, { #groups[1], #groups[2] })
    local mean, sd = kept_runs.mean_sd(groups[1], "x")
    near(3, mean)
    near(7 ^ 0.5, sd) -- of (4 + 1 + 9) / 2
    assert.same({ 7, 0 }, { kept_runs.mean_sd(groups[2], "x") })
    assert.equal("3.00 +- 0.25", kept_runs.told("%.2f", 3, 0.25, 2))
    assert.equal("3.00        ", kept_runs.told("%.2f", 3, 0, 1))
  end)

  it("are what --show draws its tables from", function()
    local which = "kind=box model=%s network=layers filters=- train=9 batch=8 iterations=7 lr=0.005 particles=%s "
      .. "weight=0.3 encoder=- gradient=%s resampling=- videos=test test=5 samples=32 seed=%d "
    local scores = "seen=0.25 next=0.5 ten=%g ahead=%g last=9 seen_same=0.75 ahead_same=0.5 loss=0.1 minutes=2"
    local text = shown("deep_filters/balls.lua", { which:format("arsgls", "4", "dropped", 1) .. scores:format(1, 3),
      which:format("kvae_rb", "-", "-", 1) .. scores:format(8, 16),
      which:format("arsgls", "4", "dropped", 2) .. scores:format(2, 7) })
    assert.truthy(text:find("arsgls +4 +dropped +2 +0.250 +0.500 +1.500 %+%- 0.707 +5.000 %+%- 2.828 +9.000"))
    assert.truthy(text:find("kvae_rb +%- +%- +1 +0.250 +0.500 +8.000 +16.000 +9.000"))
    text = shown("vae/mnist.lua", { "by=torch model=iwae1 epochs=2 draws=10 images=5 seed=1 bound=-100 minutes=1",
      "by=torch model=iwae1 epochs=2 draws=10 images=5 seed=2 bound=-102 minutes=2" })
    assert.truthy(text:find("iwae1 +2 +10 +5 +torch +2 +%-101.00 %+%- 1.41 +1.5"))
    text = shown("deep_filters/exchange.lua", { "exchange kvae_mc 1 0.01 0.02 0.1 0.1 0.1 0.1 1.00",
      "exchange kvae_mc 2 0.03 0.04 0.1 0.1 0.1 0.1 3.00", "exchange-float32 kvae_mc 1 9 9 9 9 9 9 9" })
    assert.truthy(text:find("kvae_mc +2 +0.0200 %+%- 0.0141 +0.0300 %+%- 0.0141"))
  end)
end)
