-- The step machine: weights and evidence, gradients through it, captures, its tree and its trace.
local pn = require "penumbra"
local machine = require "penumbra.smc.machine"
local golden = dofile "spec/golden/smc/resampling.lua"

local inf = math.huge

local function max_gap(x, y)
  return (x - y):abs():max():item()
end

describe("weighing", function()
  it("gives golden weights, evidence, effective sample size and largest weight", function()
    local want = golden.weigh
    for _, dtype in ipairs { "float64", "float32" } do
      local near = dtype == "float64" and 1e-12 or 2e-5
      local s = pn.smc { num_particles = 12, threshold = 0 }
      -- equal weights first: what they are multiplied by is known
      s:weigh(pn.tensor(want.before, { dtype = dtype }))
      assert.near(-math.log(12), s:log_evidence():item(), near)
      local increment = s:weigh(pn.tensor(want.increment, { dtype = dtype }))
      assert.equal(dtype, increment:dtype())
      assert.near(want.evidence, increment:item(), near * 300)
      for i, v in ipairs(want.log_w) do
        local got = s:log_weights()[i]:item()
        assert.is_true(v == got or math.abs(v - got) < near * 1000)
      end
      assert.near(1, s:weights():sum():item(), near)
      assert.near(want.size, s:effective_sample_size():item(), near * 100)
      assert.near(want.largest, s:weights():max():item(), near * 100)
      assert.equal("float64", s:log_evidence():dtype())
    end
  end)

  it("is as exact for filters side by side, whatever their sizes", function()
    pn.seed(1)
    for _, n in ipairs { 1, 7, 4096, 4097, 9000 } do
      local x = pn.randn { n, 3 } * 20
      local s = pn.smc { num_particles = n, batch_shape = { 3 } }
      local increment = s:weigh(x)
      local want = x:logsumexp(1) - math.log(n)
      assert.is_true(max_gap(increment, want) < 1e-11)
      assert.is_true(max_gap(s:log_weights(), x:log_softmax(1)) < 1e-11)
      local size = s:weights():square():sum(1):reciprocal()
      assert.is_true(max_gap(s:effective_sample_size() / size, pn.ones { 3 }) < 1e-10)
      local alone = pn.smc { num_particles = n }
      local one = alone:weigh(x:select(2, 2):contiguous())
      assert.equal(one:item(), increment[2]:item())
    end
  end)

  it("fails by name, with the step and the filter, and changes nothing", function()
    local s = pn.smc { num_particles = 3 }
    s:weigh(pn.tensor { 0, 1, -inf })
    local before, evidence = s:log_weights(), s:log_evidence():item()
    local cases = {
      { { -inf, -inf, -inf }, "must leave a particle with a weight, got %-inf for all that had one at step 2" },
      { { -inf, -inf, 0 }, "must leave a particle with a weight, got %-inf for all that had one at step 2" },
      { { 0 / 0, 0, 0 }, "must be a number, got NaN at step 2" },
      { { 0, inf, 0 }, "must be below %+inf, got inf at step 2" },
    }
    for _, case in ipairs(cases) do
      assert.error_matches(function() s:weigh(pn.tensor(case[1])) end, "weigh: log_increment " .. case[2])
      assert.same(before:totable(), s:log_weights():totable())
      assert.equal(evidence, s:log_evidence():item())
      assert.equal(1, s:steps())
    end
    local two = pn.smc { num_particles = 2, batch_shape = { 2 } }
    assert.error_matches(function() two:weigh(pn.tensor { { 0, -inf }, { 0, -inf } }) end, "of filter 2 must leave")
    assert.error_matches(function() two:weigh(pn.zeros { 3, 2 }) end, "must have shape %[2, 2%], got %[3, 2%]")
  end)

  it("can take weights of 0 as an evidence of 0", function()
    local s = pn.smc { num_particles = 2, batch_shape = { 2 }, degenerate = "zero" }
    local e = s:weigh(pn.tensor { { 0, -inf }, { 1, -inf } })
    assert.equal(-inf, e[2]:item())
    assert.equal(0.5, s:weights()[1][2]:item())
    s:weigh(pn.zeros { 2, 2 })
    assert.equal(-inf, s:log_evidence()[2]:item())
    assert.near(math.log((1 + math.exp(1)) / 2), s:log_evidence()[1]:item(), 1e-14)
    assert.has_error(function() s:weigh(pn.full({ 2, 2 }, 0 / 0)) end)
  end)
end)

describe("resampling by the machine", function()
  local function weighed(options)
    options.num_particles = 4
    local s = pn.smc(options)
    s:weigh(pn.tensor { 0, 0, 0, -3 })
    return s
  end

  it("is due at or below the threshold, always at 1, never at 0", function()
    assert.is_nil(weighed({ threshold = 0 }):resample())
    assert.is_nil(weighed({ threshold = 0.5 }):resample())
    assert.is_truthy(weighed({ threshold = 0.9 }):resample())
    assert.is_truthy(weighed({ threshold = 1 }):resample())
    local s = pn.smc { num_particles = 4, threshold = 1 }
    assert.is_nil(s:resample()) -- all weights are equal still
    s:weigh(pn.zeros { 4 })
    assert.is_truthy(s:resample())
    assert.is_nil(s:resample())
  end)

  it("leaves filters that are not due as they are", function()
    pn.seed(3)
    local s = pn.smc { num_particles = 4, batch_shape = { 2 }, threshold = 0.5 }
    s:weigh(pn.tensor { { 0, 0 }, { 0.1, -50 }, { 0, -50 }, { 0.2, -50 } })
    local before = s:log_weights():select(2, 1):totable()
    local a = s:resample()
    assert.same({ 0, 1, 2, 3 }, a:select(2, 1):totable())
    assert.same({ 0, 0, 0, 0 }, a:select(2, 2):totable())
    assert.same(before, s:log_weights():select(2, 1):totable())
    assert.near(-math.log(4), s:log_weights()[1][2]:item(), 1e-15)
    assert.near(4, s:effective_sample_size()[2]:item(), 1e-12)
    -- the evidence of what comes next: no other 1 / N
    local e = s:weigh(pn.tensor { { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 } })
    assert.near(1, e[1]:item(), 1e-14)
    assert.near(1, e[2]:item(), 1e-14)
  end)

  it("selects states that are tensors or tables, in any place", function()
    local s = pn.smc { num_particles = 3, batch_shape = { 2 } }
    local a = pn.tensor({ { 2, 0 }, { 2, 1 }, { 0, 1 } }, { dtype = "int64" })
    local x = pn.arange(0, 12):reshape { 3, 2, 2 }
    local out = s:select({ x, inner = { y = x:select(3, 1):contiguous() } }, a)
    assert.same({ { { 8, 9 }, { 2, 3 } }, { { 8, 9 }, { 6, 7 } }, { { 0, 1 }, { 6, 7 } } }, out[1]:totable())
    assert.same({ { 8, 2 }, { 8, 6 }, { 0, 6 } }, out.inner.y:totable())
    assert.equal(x, s:select(x, nil))
    assert.error_matches(function() s:select(x, a + 1) end, "ancestors must lie in 0 to 2, got 3")
    assert.error_matches(function() s:select("x", a) end, "state must be a tensor or a table of tensors, got string")
    local g = golden.select_particles
    local flat = pn.tensor(g.x):reshape { 12, 2 }
    local which = pn.tensor(g.ancestors, { dtype = "int64" })
    local one = pn.smc { num_particles = 12 }
    assert.same(g.value, one:select(flat, which):reshape({ 24 }):totable())
    -- and its adjoint
    local p = pn.param(pn.zeros { 12 })
    local add = golden.select_particles_add
    local y = (one:select(p, which) * pn.tensor(add.g)):sum()
    assert.is_true(max_gap(pn.grad(y, { p })[1], pn.tensor(add.value)) < 1e-14)
  end)
end)

describe("gradients through the machine", function()
  local w = pn.param(pn.tensor { 0.1, 0.2, -0.3, 0.7 })

  it("are those of differences without resampling", function()
    local function value()
      local s = pn.smc { num_particles = 4, threshold = 0 }
      local e = s:weigh(w * 2) + s:tilt(w:square())
      s:resample()
      e = e + s:weigh(w:exp())
      return e + (s:log_weights() * pn.tensor { 1, 2, 3, -1 }):sum() + s:mean(pn.tensor { 1, 2, 5, 9 })
    end
    assert.is_true(pn.check_gradients(value, { w }).error < 1e-6)
  end)

  it("pass weights of 0 by", function()
    local x = pn.param(pn.tensor { 1, 2, 0 })
    local s = pn.smc { num_particles = 3 }
    local e = s:weigh(x:log())
    local g = pn.grad(e, { x })[1]:totable()
    assert.near(1 / 3, g[1], 1e-14)
    assert.near(1 / 3, g[2], 1e-14)
  end)

  it("are dropped, soft or exact in expectation through resampling", function()
    -- Two particles, weights sigmoid(+-b), then increments of 1 and 3: the evidence is E = w1 e^1 + w2 e^3 times what
    -- came before; its estimate after resampling has that mean, so the exact gradient is known.
    local function gradients(kind, draws)
      local b = pn.param(pn.tensor(0.3))
      local s = pn.smc { num_particles = 2, batch_shape = { draws }, threshold = 1, gradient = kind, alpha = 0.7,
        resampling = "multinomial" }
      local first = pn.stack({ b, -b }, 1):reshape({ 2, 1 }):broadcast_to { 2, draws }
      local e = s:weigh(first)
      local a = s:resample()
      local values = s:select(pn.tensor({ 1, 3 }):reshape({ 2, 1 }):broadcast_to({ 2, draws }):contiguous(), a)
      e = e + s:weigh(values)
      local z = e:exp()
      return z:mean():item(), pn.grad(z:mean(), { b })[1]:item(), z:std():item() / math.sqrt(draws)
    end
    local b = 0.3
    local exact = (math.exp(b + 1) + math.exp(3 - b)) / 2
    local slope = (math.exp(b + 1) - math.exp(3 - b)) / 2
    pn.seed(5)
    local draws = 200000
    for _, kind in ipairs { "dropped", "stop_gradient", "soft" } do
      local z, g, error = gradients(kind, draws)
      assert.near(exact, z, 6 * error)
      assert.is_true(error < 0.01 * exact)
      if kind == "stop_gradient" then
        assert.near(slope, g, 0.1)
      elseif kind == "dropped" then
        assert.is_true(math.abs(g - slope) > 1) -- what is left out is not small
      end
    end
  end)

  it("give the score function what it needs", function()
    local s = pn.smc { num_particles = 4, threshold = 1, gradient = "score_function" }
    s:weigh(w * 2)
    assert.is_nil(s:ancestor_log_prob())
    local a = s:resample()
    local want = machine.core_of(s):get("weighed"):slice(1, 1, 4):take(1, a)
    assert.same(want:totable(), s:ancestor_log_prob():totable())
    assert.is_truthy(pn.grad(s:ancestor_log_prob():sum(), { w })[1])
  end)
end)

describe("a captured step", function()
  it("decides anew and gives the eager step's bits", function()
    local n = 50
    local function step(x, weighed, y)
      local s = pn.smc { num_particles = n, threshold = 0.5 }
      machine.core_of(s):restore(weighed)
      local a = s:resample()
      x = s:select(x, a) * 0.9 + pn.randn { n } * 0.5
      local e = s:weigh(-(x - y):square())
      return x, machine.core_of(s):get "weighed", e
    end
    local compiled = pn.compile(step)
    local function run(f)
      pn.seed(2)
      local x = pn.randn { n }
      local s = pn.smc { num_particles = n, threshold = 0.5 }
      s:weigh(-(x * x))
      local weighed, total = machine.core_of(s):get "weighed", {}
      for t = 1, 30 do
        local e
        x, weighed, e = f(x, weighed, pn.tensor(t % 5 * 0.7))
        total[t] = e:item()
      end
      return total
    end
    assert.same(run(step), run(compiled))
    assert.equal(1, compiled:captures())
  end)

  it("refuses a machine from outside", function()
    local s = pn.smc { num_particles = 3 }
    assert.error_matches(function() pn.compile(function(x) return s:weigh(x) end)(pn.zeros { 3 }) end,
      "make the machine inside")
  end)
end)

describe("the tree of ancestors", function()
  -- How many particles of all steps have descendants: `places[t]` [n, filters] of those that now's descend from.
  local function living(places)
    local count = 0
    for _, place in ipairs(places) do
      for f = 1, place:shape()[2] do
        local met = {}
        for _, i in ipairs(place:select(2, f):totable()) do
          count, met[i] = count + (met[i] and 0 or 1), true
        end
      end
    end
    return count
  end

  it("holds the paths that a full record gives, and no particle without descendants", function()
    pn.seed(8)
    for _, scheme in ipairs(pn.smc.schemes()) do
      local n, T = 20, 30
      local s = pn.smc { num_particles = n, batch_shape = { 2 }, history = true, threshold = 0.6, resampling = scheme }
      local x, record, places = nil, {}, {}
      for t = 1, T do
        local a = s:resample()
        x = x and s:select(x, a) + pn.randn { n, 2 } or pn.randn { n, 2 }
        for k = 1, t - 1 do
          record[k], places[k] = s:select(record[k], a), s:select(places[k], a)
        end
        record[t], places[t] = x, pn.stack({ pn.arange(n), pn.arange(n) }, 2)
        s:weigh(-x:square())
        s:keep { x, sign = x:lt(0), pair = pn.stack({ x:to "float32", -x:to "float32" }, 3) }
        assert.equal(living(places), (s:nodes()))
      end
      local paths = s:paths()
      assert.same({ T, n, 2 }, paths[1]:shape())
      assert.equal(0, max_gap(pn.stack(record, 1), paths[1]))
      assert.equal(0, max_gap(paths[1]:lt(0):to "float64", paths.sign:to "float64"))
      assert.same({ T, n, 2, 2 }, paths.pair:shape())
      assert.equal(0, max_gap(paths[1]:to "float32" * -1, paths.pair:select(4, 2)))
      local which = pn.tensor({ 3, 0 }, { dtype = "int64" })
      local one = s:paths(which)[1]
      assert.equal(0, max_gap(one:select(2, 1), paths[1]:select(3, 1):select(2, 4)))
      assert.equal(0, max_gap(one:select(2, 2), paths[1]:select(3, 2):select(2, 1)))
      assert.same({ T, 2 }, s:draw_path()[1]:shape())
    end
  end)

  it("needs O(T + N log N) nodes", function()
    pn.seed(9)
    local function nodes(n, T)
      local s = pn.smc { num_particles = n, history = true, threshold = 1, trace = false }
      local x = pn.zeros { n }
      for _ = 1, T do
        x = s:select(x, s:resample())
        s:weigh(pn.randn { n })
        s:keep(x)
      end
      return (s:nodes())
    end
    local short, long = nodes(100, 200), nodes(100, 2000)
    assert.is_true(long < 2000 + 12 * 100 * math.log(100)) -- and not 200,000
    assert.near(1800, long - short, 400)
  end)

  it("refuses what it cannot do", function()
    local s = pn.smc { num_particles = 3 }
    assert.error_matches(function() s:keep(pn.zeros { 3 }) end, "without history")
    assert.error_matches(function() s:paths() end, "no state was kept")
    local t = pn.smc { num_particles = 3, history = true }
    assert.error_matches(function() t:keep(pn.zeros { 4 }) end, "keep: state must be %[3, B...")
    t:keep(pn.zeros { 3 })
    assert.error_matches(function() t:keep(pn.zeros { 3, 2 }) end, "as it was first, %[3%], got %[3, 2%]")
    assert.error_matches(function() t:paths(pn.tensor({ 3 }, { dtype = "int64" })) end,
      "particles must lie in 0 to 2, got 3")
  end)
end)

describe("a trace", function()
  -- Ancestors in the first step, as the machine's own ancestors make them, by lists.
  local function descended(eve, ancestors)
    local out, met, unique = {}, {}, 0
    for i, a in ipairs(ancestors:totable()) do
      out[i] = eve[a + 1]
      unique = unique + (met[a] and 0 or 1)
      met[a] = true
    end
    return out, unique
  end

  local function variance(eve, weights, rounds)
    local sum, together, n = {}, 0, #eve
    for i, w in ipairs(weights:totable()) do sum[eve[i]] = (sum[eve[i]] or 0) + w end
    for _, w in pairs(sum) do together = together + w * w end
    return 1 - (n / (n - 1)) ^ (rounds + 1) * (1 - together)
  end

  -- Three steps of which the second one leaves few ancestors, so that most blocks of particles have one; in
  -- `want` what the trace must tell.
  local function traced(scheme, dtype, n)
    pn.seed(4)
    local s = pn.smc { num_particles = n, threshold = 1, resampling = scheme }
    local eve, want, x = {}, { unique = {}, variance = {} }, pn.linspace(0, 1, n):to(dtype)
    for i = 1, n do eve[i] = i end
    for t = 1, 3 do
      local ancestors, unique = s:resample(), n
      if ancestors then
        x, eve, unique = s:select(x, ancestors), descended(eve, ancestors)
      end
      s:weigh(pn.randn({ n }, { dtype = dtype }) * 0.3 - (x - 0.4):square() * (t == 2 and 3e6 or 1))
      want.unique[t], want.variance[t] = unique, variance(eve, s:weights(), t - 1)
    end
    return s:trace(), want
  end

  it("tells as lists do how many have descendants, and the variance, for any number of threads", function()
    local before = pn.threads()
    for _, given in ipairs { { "systematic", "float64", 40001 }, { "killing", "float64", 40001 },
      { "systematic", "float32", 40001 }, { "multinomial", "float64", 100 } } do
      local bits = {}
      for threads = 1, 2 do
        pn.threads(threads)
        local trace, want = traced(table.unpack(given))
        assert.same(want.unique, trace.unique_ancestors:totable())
        for t, v in ipairs(want.variance) do
          assert.near(v, trace.log_evidence_variance[t]:item(), 1e-9)
        end
        bits[threads] = trace.log_evidence_variance:totable()
        assert.is_true(bits[threads][3] > 1e-6)
      end
      assert.same(bits[1], bits[2])
    end
    pn.threads(before)
  end)

  -- Four filters, of which weights as unequal as their strengths make some due at a step and others not.
  local function check_filters(scheme, dtype, n, steps)
    local s = pn.smc { num_particles = n, batch_shape = { 2, 2 }, threshold = 0.5, resampling = scheme }
    local strength, o, eve, rounds = pn.tensor({ { 0.1, 1 }, { 2, 5 } }, { dtype = dtype }), { dtype = dtype }, {}, {}
    local want, evidence = {}, pn.zeros { 2, 2 }
    for f = 1, 4 do
      eve[f], rounds[f] = {}, 0
      for i = 1, n do eve[f][i] = i end
    end
    for t = 1, steps do
      local size, a = s:effective_sample_size():reshape(4), s:resample()
      local row = { unique = {}, resampled = {}, variance = {} }
      for f = 1, 4 do
        local due = a and size[f]:item() <= 0.5 * n
        row.unique[f], row.resampled[f] = n, due and 1 or 0
        if due then
          eve[f], row.unique[f] = descended(eve[f], a:reshape(n, 4):select(2, f))
          rounds[f] = rounds[f] + 1
        end
      end
      if t % 3 == 2 then s:tilt(pn.randn({ n, 2, 2 }, o) * strength) end
      s:weigh(pn.randn({ n, 2, 2 }, o) * strength)
      local w = s:weights():reshape(n, 4)
      for f = 1, 4 do row.variance[f] = variance(eve[f], w:select(2, f), rounds[f]) end
      row.size, row.largest = s:effective_sample_size():reshape(4), w:max(1)
      row.increment, evidence = (s:log_evidence() - evidence):reshape(4), s:log_evidence()
      want[t] = row
    end
    local trace, seen = s:trace(), 0
    for t, row in ipairs(want) do
      local function of(name) return trace[name][t]:reshape(4) end
      assert.same(row.unique, of "unique_ancestors":totable())
      assert.same(row.resampled, of "resampled":totable())
      assert.is_true(max_gap(of "effective_sample_size", row.size:to "float64") == 0)
      assert.is_true(max_gap(of "largest_weight", row.largest:to "float64") < (dtype == "float64" and 1e-15 or 1e-6))
      assert.is_true(max_gap(of "log_increment", row.increment) < 1e-11 * steps)
      assert.is_true(max_gap(of "log_evidence_variance", pn.tensor(row.variance)) < 1e-9)
      local due = row.resampled[1] + row.resampled[2] + row.resampled[3] + row.resampled[4]
      if due > 0 and due < 4 then seen = seen + 1 end
    end
    assert.is_true(seen > 0)
    assert.same({ steps, 2, 2 }, trace.resampled:shape())
  end

  it("tells of each filter by itself, of those that are due, beyond the room of its beginning", function()
    pn.seed(8)
    check_filters("systematic", "float64", 2, 130)
    check_filters("multinomial", "float32", 20, 65)
    check_filters("stratified", "float64", 2048, 3)
    check_filters("killing", "float32", 2049, 3)
    check_filters("multinomial", "float64", 4097, 3)
  end)
end)

describe("a step machine", function()
  local refuses = require("spec.helper").refuses

  it("names its schemes, the default first, in a list of one's own", function()
    local names = pn.smc.schemes()
    assert.equal("systematic", names[1])
    for k = 3, #names do assert.is_true(names[k - 1] < names[k]) end
    names[1] = "none"
    assert.equal("systematic", pn.smc.schemes()[1])
    local log_w = pn.randn({ 30 }, { generator = pn.generator(1) }) * 2
    local function drawn(o) return pn.smc.resample(log_w, o):totable() end
    assert.same(drawn { generator = pn.generator(2), resampling = "systematic" }, drawn { generator = pn.generator(2) })
    assert.not_same(drawn { generator = pn.generator(2), resampling = "multinomial" },
      drawn { generator = pn.generator(2) })
  end)

  it("goes back to its beginning", function()
    local s = pn.smc { num_particles = 3, history = true, gradient = "score_function", threshold = 1,
      resampling = "multinomial" }
    s:weigh(pn.tensor { 0, 1, 2 })
    s:keep(pn.arange(3))
    s:resample()
    s:weigh(pn.tensor { 0, 1, 2 })
    assert.equal("smc machine of 3 particles at step 2", tostring(s))
    assert.is_truthy(s.scores[2])
    s:reset()
    assert.same({ 0, 0 }, { s:steps(), s:log_evidence():item() })
    assert.near(-math.log(3), s:log_weights()[1]:item(), 1e-15)
    assert.is_nil(next(s.scores))
    assert.equal("smc machine of 3 particles at step 0", tostring(s))
    refuses("paths: no state was kept", s.paths, s)
  end)

  it("draws particles by their weights, from its generator", function()
    local n = 20000
    local function drawn(seed)
      local s = pn.smc { num_particles = 3, batch_shape = { n }, generator = pn.generator(seed) }
      s:weigh(pn.tensor({ 0.2, 0.5, 0.3 }):log():unsqueeze(2):broadcast_to { 3, n })
      return s:draw()
    end
    local places = drawn(4)
    assert.same({ "int64", n }, { places:dtype(), places:size(1) })
    for k, w in ipairs { 0.2, 0.5, 0.3 } do
      assert.near(w, places:eq(k - 1):to("float64"):mean():item(), 6 * (w * (1 - w) / n) ^ 0.5)
    end
    assert.same(places:totable(), drawn(4):totable())
  end)

  it("has means in the type of each part", function()
    local s = pn.smc { num_particles = 3, batch_shape = { 2 }, threshold = 0 }
    s:weigh(pn.tensor { { 0, 1 }, { 1, 0.5 }, { -1, 2 } })
    local w, x = s:weights(), pn.randn({ 3, 2, 4 }, { generator = pn.generator(5) })
    local mean = s:mean { a = x:to "float32", b = { x, x:select(3, 1) } }
    assert.equal("float32", mean.a:dtype())
    assert.is_true(max_gap(mean.b[1], (w:unsqueeze(3) * x):sum(1)) < 1e-14)
    assert.is_true(max_gap(mean.b[2], (w * x:select(3, 1)):sum(1)) < 1e-14)
    assert.is_true(max_gap(mean.a:to "float64", mean.b[1]) < 1e-6)
  end)

  it("refuses what transport has not, and calls without a machine", function()
    for _, name in ipairs { "history", "conditional" } do
      refuses("smc: gradient 'transport' has no ancestors, which history and conditional are about", pn.smc,
        { num_particles = 3, gradient = "transport", [name] = true })
    end
    local s = pn.smc { num_particles = 3 }
    refuses("smc: methods are called with a colon, as in s:weigh(log_increment)", s.weigh, pn.zeros { 3 })
    local kept = pn.smc { num_particles = 3, history = true }
    refuses("transport: a machine with history = true keeps ancestors", kept.transport, kept, pn.zeros { 3 })
  end)

  it("goes through the parts of a state by their keys, numbers before names", function()
    local states = require "penumbra.smc.particle_state"
    local function at(k) return pn.full({ 2 }, k) end
    local state = { b = at(4), [2] = at(2), a = { z = at(3) }, [1] = { at(1) } }
    local list = states.flatten("here", state, { at(0) })
    for k = 0, 4 do assert.equal(k, list[k + 1][1]:item()) end
    table.remove(list, 1)
    local back = states.rebuild(state, list)
    assert.same({ list[1], list[2], list[3], list[4] }, { back[1][1], back[2], back.a.z, back.b })
    local stacked = states.stack { state, states.map("here", function(x) return x * 10 end, state) }
    assert.same({ { 4, 4 }, { 40, 40 } }, stacked.b:totable())
    assert.same({ { 1, 1 }, { 10, 10 } }, stacked[1][1]:totable())
    refuses("here: state must be a tensor or a table of tensors, got number", states.map, "here", print, { a = 3 })
    refuses("here: state must be a tensor or a table of tensors, got table", states.map, "here", print,
      setmetatable({}, {}))
  end)
end)
