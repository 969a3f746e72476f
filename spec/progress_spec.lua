local core = require "penumbra.core"
local pn = require "penumbra"
local progress = require "penumbra.progress"

-- Something to write to that remembers it.
local function paper()
  local out = { text = "" }
  function out:write(...)
    for _, s in ipairs { ... } do self.text = self.text .. s end
    return self
  end
  function out:flush() return self end
  return out
end

local function lines(text)
  local list = {}
  for line in text:gmatch "[^\n]+" do list[#list + 1] = line end
  return list
end

local function wait(seconds)
  local stop = core.clock() + seconds
  repeat until core.clock() >= stop
end

describe("a progress line", function()
  it("is plain where nobody watches", function()
    local out = paper()
    local bar = progress.new { total = 4, label = "train", out = out, every = 0 }
    for i = 1, 4 do
      wait(0.001)
      bar:step(1, "loss", 1 / i)
    end
    bar:finish()
    bar:finish()
    local list = lines(out.text)
    assert.equal(5, #list)
    assert.matches("^train   25 %%  1/4  loss 1  [%d.e+]+/s  %d.%d s left$", list[1])
    assert.matches("^train  100 %%  4/4  loss 0.25  [%d.e+]+/s  %d.%d s$", list[5])
    assert.not_matches("[\r\27]", out.text)
  end)

  it("is rewritten in place on a terminal", function()
    local out = paper()
    local bar = progress.new { total = 2, out = out, every = 0 }
    bar.terminal = true
    bar:step()
    bar:print "a note"
    bar:step()
    bar:finish()
    assert.matches("^\r 50 %%  1/2  [^\n]*\27%[K\r\27%[Ka note\n\r 50 %%  1/2", out.text)
    assert.matches("\r100 %%  2/2  [^\r\n]*\27%[K\n$", out.text)
  end)

  it("reads tensors when it writes", function()
    local out = paper()
    local bar = progress.new { out = out, every = 0 }
    bar:step(1, "elbo", pn.full({}, -1.5), "note", "ok")
    bar:finish()
    assert.matches("^1  elbo %-1.5  note ok  ", out.text)
  end)

  it("keeps to the width", function()
    local out = paper()
    local bar = progress.new { out = out, every = 0, width = 30, label = ("long "):rep(20) }
    bar:step()
    for _, line in ipairs(lines(out.text)) do assert.is_true(#line <= 30) end
  end)

  it("costs next to nothing", function()
    local out = paper()
    local bar = progress.new { total = 1e6, out = out, every = 0.02 }
    local start = core.clock()
    for _ = 1, 1e6 do bar:step(1, "loss", 0.5) end
    local spent = core.clock() - start
    bar:finish()
    assert.is_true(#lines(out.text) <= spent / 0.02 + 2)
    assert.is_true(#lines(out.text) >= 2)
  end)

  it("goes on steadily when steps become slow", function()
    local out = paper()
    local bar = progress.new { out = out, every = 0.01 }
    for _ = 1, 200000 do bar:step() end
    local before = #lines(out.text)
    for _ = 1, 50000 do bar:step() end
    for _ = 1, 100 do
      wait(0.002)
      bar:step()
    end
    assert.is_true(#lines(out.text) >= before + 5)
  end)

  it("ends with its variable", function()
    local out = paper()
    do
      local bar <close> = progress.new { out = out, every = 100 }
      bar:step(3)
    end
    assert.matches("^3  ", out.text)
  end)

  -- Every run that shows a line: at its end all of what there is to do is done. Broken off in its first step, what it
  -- wrote ends with the line's end.
  describe("tells how far a run is, and is closed when it fails", function()
    local steps = getmetatable(progress.new { out = paper() }).__index
    local own = steps.step
    before_each(function() steps.step = function() error("broken off", 0) end end)
    after_each(function() steps.step = own end)

    local y = pn.tensor { 0.3, -0.2, 0.9, 0.4 }
    local line = pn.model(function(m, x)
      m:observe("x", pn.dist.normal(m:sample("loc", pn.dist.normal(0, 1)), 1):expand { 4 }:independent(1), x)
    end)
    local walk = pn.model(function(m, x)
      local scale = m:sample("scale", pn.dist.gamma(2, 2))
      m:scan("s", 4, pn.tensor(0), function(before, t)
        local now = m:sample("z", pn.dist.normal(before, scale))
        m:observe("x", pn.dist.normal(now, 1), x[t])
        return now
      end)
    end)
    local function over(call, model, more)
      return function(out)
        local o = { data = { y }, progress = out }
        for key, value in pairs(more or {}) do o[key] = value end
        return call(model, o)
      end
    end
    local runs = {
      nuts = over(pn.nuts, line, { warmup = 20, draws = 20 }),
      svi = function(out) return pn.svi(line, "mean_field", { data = { y }, steps = 20, progress = out }) end,
      sbc = over(pn.sbc, line, { simulations = 20, draws = 9 }),
      sample = over(pn.smc.sample, line, { num_particles = 50 }),
      pmmh = over(pn.smc.pmmh, walk, { num_particles = 10, warmup = 5, draws = 5 }),
      particle_gibbs = over(pn.smc.particle_gibbs, walk, { num_particles = 10, warmup = 5, draws = 5 }),
      smc2 = over(pn.smc.smc2, walk, { num_particles = 10, num_parameters = 10 }),
      liu_west = over(pn.smc.liu_west, walk, { num_particles = 50 }),
      fit = function(out)
        local net = pn.nn.linear(1, 1)
        return pn.train.fit { data = { y:reshape { 4, 1 }, y }, epochs = 2, progress = out,
          optimiser = pn.optim.adam(net:parameters()),
          loss = function(a, b) return (net(a):squeeze(2) - b):square():mean() end }
      end,
      forecaster = function(out)
        local m = pn.models.deepar { hidden = 2, layers = 1, scaling = "none" }
        return m:fit { series = pn.data.series { { target = y } }, window = 4, steps = 4, progress = out }
      end,
      learner = function(out)
        local stderr = io.stderr
        local _ <close> = setmetatable({}, { __close = function() rawset(io, "stderr", stderr) end })
        rawset(io, "stderr", out)
        local l = pn.continual.learner { network = pn.nn.linear(1, 1), likelihood = "normal", noise = 1,
          progress = true }
        return l:observe(y:reshape { 4, 1 }, y)
      end,
    }
    local totals = { nuts = 40, svi = 20, sbc = 20, sample = 100, pmmh = 10, particle_gibbs = 10, smc2 = 4,
      liu_west = 4, fit = 2, forecaster = 4 }
    for name, run in pairs(runs) do
      it(name, function()
        local whole = paper()
        steps.step = own
        run(whole)
        local done, total = whole.text:match "100 %%  (%d+)/(%d+) [^\n]*\n$"
        assert.equal(done, total)
        assert.equal(totals[name] or tonumber(total), tonumber(total))
        steps.step = function() error("broken off", 0) end
        local out, before = paper(), core.set_no_grad(false)
        local ok, message = pcall(run, out)
        assert.is_false(core.set_no_grad(before))
        assert.is_false(ok)
        assert.equal("broken off", message)
        assert.matches("[^\n]\n$", out.text)
      end)
    end
  end)

  it("refuses unknown options", function()
    assert.error_matches(function() progress.new { totl = 1 } end, "unknown option 'totl', did you mean 'total'")
  end)
end)

-- On a clock that stands where it is told to.
describe("a progress line by the clock", function()
  local now, reads, clock = 0, 0, core.clock
  before_each(function()
    now, reads = 100, 0
    core.clock = function()
      reads = reads + 1
      return now
    end
  end)
  after_each(function() core.clock = clock end)

  -- The last line of a bar with these options after so many steps in so many seconds.
  local function line(o, seconds, steps, ...)
    o.out, o.every = paper(), 0
    local bar = progress.new(o)
    now = now + seconds
    bar:step(steps, ...)
    bar:finish()
    local list = lines(o.out.text)
    assert.equal(list[1], list[2])
    return list[2]
  end

  it("has the share, what was made by the second, and what is left", function()
    assert.equal("train   45 %  18/40  loss 0.5  2/s  11 s left",
      line({ total = 40, label = "train", done = 10 }, 4, 8, "loss", 0.5))
    assert.equal("  2 %  4/200  0.05/s  1:05:20 left", line({ total = 200 }, 80, 4))
    assert.equal(" 50 %  3e+06/6000000  2 M/s  1.5 s left", (line({ total = 6000000 }, 1.5, 3000000):gsub("3000000/",
      "3e+06/")))
    assert.equal("100 %  50000/50000  25 k/s  2.0 s", line({ total = 50000 }, 2, 50000))
    assert.equal("7  0.5/s  14 s", line({}, 14, 7))
    assert.equal("  0 %  0/10  5.0 s", line({ total = 10 }, 5, 0)) -- no rate yet
    assert.equal("1  0.0 s", line({}, 0, 1))
    assert.equal("10000  10 k/s  1.0 s", line({}, 1, 10000))
    assert.equal("1000000  1 M/s  1.0 s", line({}, 1, 1000000))
    assert.equal("9999  1e+04/s  1.0 s", line({}, 1, 9999))
    assert.equal("2  elbo 0.3333  2/s  1.0 s", line({}, 1, 2, "elbo", pn.full({}, 1 / 3)))
    assert.equal("2  elbo ?  2/s  1.0 s", line({}, 1, 2, "elbo", pn.ones { 2 }))
    assert.equal(("x"):rep(117) .. "...", line({ label = ("x"):rep(130) }, 1, 1)) -- where no terminal has a width
  end)

  it("is cut at its width, and no sooner", function()
    local whole = line({ total = 40, label = "train" }, 4, 8)
    assert.equal(whole, line({ total = 40, label = "train", width = #whole }, 4, 8))
    local cut = line({ total = 40, label = "train", width = #whole - 1 }, 4, 8)
    assert.equal(whole:sub(1, #whole - 4) .. "...", cut)
  end)

  it("looks at the clock after twice as many steps, up to 32, while they are fast, and at each slow one", function()
    local bar = progress.new { out = paper(), every = 16 }
    reads = 0
    local looks = {}
    for k = 1, 200 do
      local before = reads
      bar:step()
      if reads > before then looks[#looks + 1] = k end
    end
    assert.same({ 1, 3, 7, 15, 31, 63, 95, 127, 159, 191 }, looks)
    now = now + 4.5 -- more than a quarter of what lies between two lines
    local before = reads
    repeat bar:step() until reads > before
    before = reads
    for _ = 1, 3 do
      now = now + 4.5
      bar:step()
    end
    assert.equal(before + 3, reads)
    for _ = 1, 40 do bar:step() end -- after 1, 3, 7, 15 and 31 of these
    assert.equal(before + 8, reads)
    assert.equal(1, #lines(bar.out.text)) -- the first after 16 seconds
  end)

  it("gives names their values, and forgets those that come no more", function()
    local bar = progress.new { out = paper(), every = 0 }
    for k, more in ipairs { { "a", 1, "b", 2, "c", "x" }, { "a", 3 }, {}, { "d", 4, "e", 5.12345 } } do
      now = now + 1
      bar:step(1, table.unpack(more))
      assert.equal(({ "1  a 1  b 2  c x  1/s  1.0 s", "2  a 3  1/s  2.0 s", "3  a 3  1/s  3.0 s",
        "4  d 4  e 5.123  1/s  4.0 s" })[k], lines(bar.out.text)[k])
    end
  end)

  it("moves a sampler in blocks that double while they are fast", function()
    local steps = getmetatable(progress.new { out = paper() }).__index
    local own, blocks, sum = steps.step, 0, 0
    steps.step = function(self, n, ...)
      blocks, sum = blocks + 1, sum + n
      return own(self, n, ...)
    end
    local m = pn.model(function(m) m:sample("a", pn.dist.normal(0, 1)) end)
    local ok, message = pcall(pn.nuts, m, { chains = 1, warmup = 100, draws = 155, progress = paper() })
    steps.step = own
    assert(ok, message)
    assert.equal(255, sum)
    assert.is_true(blocks <= 12, blocks) -- 1 + 2 + 4 + ... + 128 = 255, and one more where the warm-up ends
  end)
end)

describe("a progress line and what else is written", function()
  local terminal, stderr = core.terminal, io.stderr
  after_each(function()
    core.terminal = terminal
    rawset(io, "stderr", stderr)
  end)

  it("is as wide as the terminal, less one, and looks ten times a second there; elsewhere every ten seconds", function()
    local file <close> = io.tmpfile()
    for columns, want in pairs { [100] = { true, 99, 0.1 }, [false] = { false, 120, 10 } } do
      core.terminal = function() return columns or nil end
      local bar = progress.new { out = file }
      assert.same(want, { bar.terminal, bar.width, bar.every })
      assert.same({ false, 120, 10 }, (function()
        local plain = progress.new { out = paper() } -- no file
        return { plain.terminal, plain.width, plain.every }
      end)())
      bar = progress.new { out = file, width = 20, every = 3 }
      assert.same({ 20, 3, 0, "" }, { bar.width, bar.every, bar.done, bar.label })
    end
    assert.equal(io.stderr, progress.new().out)
  end)

  it("stands below what is written above it, and is taken away only while it stands", function()
    for _, on in ipairs { false, true } do
      local out = paper()
      local bar = progress.new { out = out, every = 0 }
      bar.terminal = on
      bar:print "first"
      bar:hide()
      assert.equal("first\n", out.text) -- no line yet
      bar:step()
      out.text = ""
      bar:hide()
      assert.equal(on and "\r\27[K" or "", out.text)
      bar:print "second"
      assert.matches(on and "^\r\27%[K\r\27%[Ksecond\n\r1  [^\n]*\27%[K$" or "^second\n$", out.text)
      bar:step(1, "a", 1)
      out.text, out.flushed = "", 0
      function out:flush() self.flushed = self.flushed + 1 end
      bar:finish()
      bar:hide()
      assert.matches(on and "^\r2  a 1  [^\n]*\27%[K\n$" or "^2  a 1  [^\n]*\n$", out.text)
      assert.equal(on and 2 or 1, out.flushed)
      assert.same({ {}, {} }, { bar.names, bar.values }) -- tensors are not kept
    end
  end)

  it("makes room for what is said beside it, which else goes to standard error", function()
    local out, err = paper(), paper()
    rawset(io, "stderr", err)
    local bar = progress.new { out = out, every = 0 }
    bar.terminal = true
    bar:step()
    out.text = ""
    progress.say "note"
    assert.matches("^\r\27%[Knote\n\r1  ", out.text)
    bar:finish()
    out.text = ""
    progress.say "after"
    assert.same({ "", "after\n" }, { out.text, err.text })
    rawset(io, "stderr", nil)
    progress.say "nowhere"
    rawset(io, "stderr", err)
    assert.equal("after\n", err.text)
  end)

  it("looks twice as seldom below a sixteenth of its time, at each step above a quarter, and writes at its end",
    function()
      local now, clock = 0, core.clock
      core.clock = function() return now end
      local bar = progress.new { out = paper(), every = 16 }
      local skips = {}
      for k, seconds in ipairs { 0.99, 1, 4, 0.5, 4, 4.01, 0.48 } do
        now, bar.left = now + seconds, 1
        bar:step()
        skips[k] = bar.skip
      end
      local before = #lines(bar.out.text) -- 14.98 seconds
      now, bar.left = 15.99, 1
      bar:step()
      local sooner = #lines(bar.out.text)
      now, bar.left = 16, 1
      bar:step()
      core.clock = clock
      assert.same({ 2, 2, 2, 4, 4, 1, 2 }, skips)
      assert.same({ 0, 0, 1 }, { before, sooner, #lines(bar.out.text) })
    end)
end)

describe("progress.asked", function()
  it("follows the option, and where it is absent the prompt", function()
    local out = paper()
    assert.is_nil(progress.asked(nil, { total = 1 }))
    assert.is_nil(progress.asked(false, { total = 1 }))
    assert.equal(out, progress.asked(out, { total = 1 }).out)
    assert.equal(io.stderr, progress.asked(true, { total = 1 }).out)
    assert.is_false(progress.show_unasked(true))
    assert.equal(io.stderr, progress.asked(nil, { total = 1 }).out)
    assert.is_nil(progress.asked(false, { total = 1 }))
    assert.is_true(progress.show_unasked(false))
  end)
end)

describe("progress.duration", function()
  it("writes times as people do", function()
    assert.equal("0.0 s", progress.duration(0))
    assert.equal("9.9 s", progress.duration(9.94))
    assert.equal("10 s", progress.duration(9.95))
    assert.equal("59:59", progress.duration(3599))
    assert.equal("1:00:00", progress.duration(3600))
    assert.equal("?", progress.duration(0 / 0))
    assert.equal("10 s", progress.duration(9.96))
    assert.equal("59 s", progress.duration(59.4))
    assert.equal("1:00", progress.duration(59.6))
    assert.equal("3:07", progress.duration(187))
    assert.equal("2:03:07", progress.duration(7387))
    assert.equal("?", progress.duration(1 / 0))
  end)
end)
