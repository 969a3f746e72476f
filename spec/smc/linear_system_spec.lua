-- One linear Gaussian system, which every exact filter takes: the same numbers from all of them, with offsets, inputs
-- and gaps.
local pn = require "penumbra"
local off = require("spec.helper").off
local kalman, smc = pn.smc.kalman, pn.smc
local NAN = 0 / 0
local function close(got, want, limit, what)
  local d = off(got, want)
  assert(d <= (limit or 1e-10), ("%s: off by %.3g"):format(what or "value", d))
end

local function covariance(n)
  local x = pn.randn { n, n }
  return x:matmul(x:t()) / n + pn.eye(n) * 0.3
end

local function parts(changes)
  local s = { transition = pn.tensor { { 0.9, 0.2 }, { -0.3, 0.7 } }, transition_offset = pn.tensor { 0.3, -0.4 },
    transition_input = pn.tensor { { 1, 0, 0.5 }, { 0.2, -1, 0 } }, transition_cov = covariance(2),
    emission = pn.tensor { { 1, 0.5 }, { 0, 2 }, { 0.3, 0.3 } }, emission_offset = pn.tensor { 1, -2, 0.5 },
    emission_input = pn.randn { 3, 3 }, emission_cov = covariance(3), initial_mean = pn.tensor { 1, -1 },
    initial_cov = covariance(2) }
  for name, x in pairs(changes or {}) do s[name] = x or nil end
  return s
end

local function with_gaps(y)
  return pn.where(pn.rand(y:shape()):lt(0.3), pn.full({}, NAN), y)
end

describe("a linear system", function()
  before_each(function() pn.seed(31) end)

  it("gives the same evidence in every filter that takes it, with offsets, inputs and gaps", function()
    local y, u = with_gaps(pn.randn { 8, 3 }), pn.randn { 8, 3 }
    local given = parts()
    for _, s in ipairs { given, smc.linear_system(given) } do
      local o = { inputs = u }
      local f = kalman.filter(s, y, o)
      local want = f.log_likelihood
      assert.is_true(want:item() > -1e9 and want:item() < 0)
      close(kalman.log_likelihood(s, y, o), want)
      for _, name in ipairs { "extended", "unscented" } do
        local g = smc[name](s, y, o)
        close(g.log_likelihood, want, 1e-9, name)
        close(g.cov, f.cov, 1e-9, name)
      end
      local particles = smc.rbpf { num_particles = 3, system = s, init = pn.dist.categorical { 0.5, 0.5 },
        transition = function(k) return pn.dist.categorical { probs = pn.full({ 2 }, 0.5) }:expand(k:shape()) end }
      local r = particles:run(y, { inputs = u })
      close(r.log_evidence, want, 1e-9, "rbpf")
      close(r.mean, f.mean, 1e-9, "rbpf")
    end
    local plain = parts { transition_input = false, emission_input = false }
    for _, s in ipairs { plain, smc.linear_system(plain) } do
      local live = smc.exact_filter(s)
      live:run(y)
      close(kalman.log_likelihood(s, y, { first = "predicted" }), live:log_evidence(), 1e-9, "exact_filter")
    end
  end)

  it("has methods: data, a count of steps, a table", function()
    local y, u = with_gaps(pn.randn { 6, 4, 3 }), pn.randn { 9, 1, 3 }
    local s = smc.linear_system(parts())
    local past = { inputs = u:slice(1, 1, 6) }
    close(s:log_likelihood(y, past), kalman.log_likelihood(s, y, past), 0)
    local f, x = s:filter(y, past), s:smooth(y, past)
    assert.same({ 6, 4, 2 }, f.mean:shape())
    assert.same({ 6, 4, 2 }, x.mean:shape())
    assert.same({ 5, 4, 2, 2 }, x.lag_one:shape())
    assert.same({ 4, 2 }, x.initial.mean:shape())
    close(x.mean[6], f.mean[6], 1e-12)
    local ahead = s:forecast(y, 3, { inputs = u })
    local gap = pn.full({ 3, 4, 3 }, NAN)
    local all = s:filter(pn.concatenate({ y, gap }, 1), { inputs = u })
    close(ahead.state_mean, all.mean:slice(1, 7, 9), 1e-12)
    close(ahead.state_cov, all.cov:slice(1, 7, 9), 1e-12)
    local g = pn.generator(3)
    local states, seen, initial = s:sample(6, { inputs = past.inputs, draws = 5, batch_shape = { 4 }, generator = g })
    assert.same({ 5, 6, 4, 2 }, states:shape())
    assert.same({ 5, 6, 4, 3 }, seen:shape())
    assert.same({ 5, 4, 2 }, initial:shape())
    assert.same({ 7, 6, 4, 2 }, s:sample_posterior(y, { inputs = past.inputs, draws = 7 }):shape())
    local fit = s:em(y, { inputs = past.inputs, steps = 3 })
    assert.is_true(fit.log_likelihood[4]:item() > fit.log_likelihood[1]:item())
    close(fit.system:log_likelihood(y, past):sum(), fit.log_likelihood[4], 1e-8)
  end)

  it("is fitted to series of unequal lengths", function()
    local truth = smc.linear_system(parts { transition_input = false, emission_input = false })
    local list = {}
    for k, steps in ipairs { 30, 7, 1, 19 } do list[k] = select(2, truth:sample(steps)):squeeze(1) end
    local function evidence(s)
      local sum = 0
      for _, y in ipairs(list) do sum = sum + s:log_likelihood(y) end
      return sum
    end
    local names, kept = { "transition", "transition_cov", "initial_mean" }, { "initial_cov", "emission",
      "emission_offset", "emission_cov" }
    local start = parts { transition_input = false, emission_input = false, transition_offset = false,
      transition = pn.eye(2) / 2, transition_cov = pn.eye(2), initial_mean = pn.tensor { 4, -4 } }
    local fit = smc.linear_system(start):em(list, { steps = 1500, fixed = kept })
    assert.is_true(fit.log_likelihood:diff():min():item() > -1e-9)
    close(fit.log_likelihood[1], evidence(smc.linear_system(start)), 1e-9)
    close(fit.log_likelihood[-1], evidence(fit.system), 1e-9)
    local function slopes(of) -- 0 at a maximum
      local leaves, at = {}, {}
      for name, v in pairs(start) do at[name] = of[name] or v end
      for k, name in ipairs(names) do
        leaves[k] = pn.param(of[name]:detach())
        at[name] = leaves[k]
      end
      return pn.grad(evidence(smc.linear_system(at)), leaves)
    end
    local before = slopes(start)
    for k, slope in ipairs(slopes(fit.system)) do
      local size = slope:abs():max():item()
      assert(size < 1e-3 and before[k]:abs():max():item() > 1, names[k] .. size)
    end
    assert.error_matches(function() kalman.em(start, { list[1], pn.zeros { 3, 2 } }) end,
      "kalman.em: y[2] must be float64 of shape [T, 3] as the first is, got float64 [3, 2]", 1, true)
  end)

  it("counts NaN as missing, beside what was not observed", function()
    local y = pn.randn { 7, 5, 3 }
    local s = smc.linear_system(parts { transition_input = false, emission_input = false })
    local gone, hidden = pn.rand { 7, 5, 3 }:lt(0.2), pn.rand { 7, 5, 3 }:lt(0.2)
    local holes = pn.where(gone, pn.full({}, NAN), y)
    local there = gone:logical_not():logical_and(hidden:logical_not())
    local want = s:filter(y, { observed = there })
    local got = s:filter(holes, { observed = hidden:logical_not() })
    close(got.log_prob, want.log_prob, 0)
    close(got.mean, want.mean, 0)
    assert(off(s:filter(holes).mean, want.mean) > 1e-3)
    local first = holes:select(2, 1)
    close(smc.extended(s, first, { observed = hidden:select(2, 1):logical_not() }).log_prob,
      want.log_prob:select(2, 1), 1e-9)
    local filter = smc.rbpf { num_particles = 1, batch_shape = { 5 }, system = s, init = pn.dist.categorical { 1 },
      transition = function(k) return pn.dist.categorical { probs = pn.ones { 1 } }:expand(k:shape()) end }
    close(filter:run(holes, { observed = hidden:logical_not() }).increments, want.log_prob, 1e-9)
    close(s:log_likelihood(y, { observed = true }), s:log_likelihood(y), 0)
    local compiled = pn.compile(function(data) return s:log_likelihood(data) end)
    close(compiled(y), s:log_likelihood(y), 1e-12)
    close(compiled(holes), s:log_likelihood(holes), 1e-12)
  end)

  it("has no gradient where y is missing", function()
    local s = parts { transition_input = false, emission_input = false }
    local y = pn.param(with_gaps(pn.randn { 6, 3 }))
    local slope = pn.grad(kalman.log_likelihood(s, y), { y })[1]
    close(pn.where(y:isnan(), slope, pn.full({}, 0.0)), pn.zeros { 6, 3 }, 0)
    assert(slope:isnan():any():item() == false and slope:abs():max():item() > 0)
  end)

  it("is what a structural model gives, also of many seasons", function()
    local m = smc.structural.level { scale = 0.3 } + smc.structural.seasonal { period = 36, scale = 0.1 }
      + smc.structural.irregular { scale = 0.5 }
    local t = pn.arange(120, { dtype = "float64" })
    local y = with_gaps((t * (2 * math.pi / 36)):sin() + pn.randn { 120 } * 0.1)
    local s = m:system(y)
    close(s:log_likelihood(y:unsqueeze(-1), { first = "predicted" }), m:log_likelihood(y), 0)
    local f = m:forecast(y, 36)
    assert(off(f.mean, ((t:slice(1, 1, 36) + 120) * (2 * math.pi / 36)):sin()) < 0.7)
    assert(f.scale:isfinite():all():item())
  end)

  it("says what is wrong when it is made", function()
    for _, case in ipairs {
      { "linear_system: unknown option 'emision', did you mean 'emission'", parts { emision = 1 } },
      { "linear_system: transition_noise is called transition_cov", parts { transition_noise = pn.eye(2) } },
      { "linear_system: a is called transition", parts { a = pn.eye(2) } },
      { "linear_system: r is called emission_cov", parts { r = pn.eye(2) } },
      { "linear_system: emission_cov must be %[%.%.%., 3, 3%], got %[2, 2%]", parts { emission_cov = pn.eye(2) } },
      { "linear_system: emission_input must be %[%.%.%., 3, 3%], got %[3, 2%]",
        parts { emission_input = pn.zeros { 3, 2 } } },
      { "transition_cov must be finite and symmetric", parts { transition_cov = pn.tensor { { 1, 0.5 }, { 0, 1 } } } },
      { "initial_cov must be finite and symmetric", parts { initial_cov = pn.full({ 2, 2 }, NAN) } },
      { "transition_cov must be positive semidefinite", parts { transition_cov = pn.tensor { { 1, 2 }, { 2, 1 } } } },
      { "initial_mean must be float64 as the transition is", parts { initial_mean = pn.zeros({ 2 }):to "float32" } },
      { "the system needs initial_cov, or diffuse", parts { initial_cov = false } },
    } do
      assert.error_matches(function() smc.linear_system(case[2]) end, case[1])
    end
    assert.error_matches(function()
      smc.linear_system { transition = pn.zeros { 1, 1 }, transition_cov = pn.eye(1), initial_mean = pn.zeros { 1 },
        initial_cov = pn.eye(1), emission = pn.zeros { 4097, 1 }, emission_cov = pn.zeros { 4097, 4097 } }
    end, "linear_system: the observation must have at most 4096 numbers, got 4097", 1, true)
    assert.error_matches(function() smc.exact_filter(parts()) end, "exact_filter: the system may have no .*_input")
    assert.error_matches(function() smc.exact_filter { mean = 1 } end, "exact_filter: mean is called initial_mean")
    smc.linear_system(parts { transition_cov = pn.zeros { 2, 2 } }) -- semidefinite is enough
  end)

  -- Symmetric and positive semidefinite but for 1e-9 of the largest number, in float32 1e-4.
  it("takes covariances that are none by less than rounding", function()
    for dtype, slack in pairs { float64 = 1e-9, float32 = 1e-4 } do
      local function made(cov)
        local o = { transition = pn.eye(2), transition_cov = pn.tensor(cov), emission = pn.eye(2),
          emission_cov = pn.eye(2), initial_mean = pn.zeros { 2 }, initial_cov = pn.eye(2) }
        for name, x in pairs(o) do o[name] = x:to(dtype) end
        return smc.linear_system(o)
      end
      made { { 8, 0 }, { 8 * slack * 0.9, 1 } }
      made { { 8, 0 }, { 0, -8 * slack * 0.9 } }
      made { { 0, 0 }, { 0, 0 } }
      assert.error_matches(function() made { { 8, 0 }, { 8 * slack * 1.1, 1 } } end,
        "transition_cov must be finite and symmetric")
      assert.error_matches(function() made { { 8, 0 }, { 0, -8 * slack * 1.1 } } end,
        "transition_cov must be positive semidefinite")
    end
    assert.equal("linear_system: state 2, observation 3", tostring(smc.linear_system(parts())))
    assert.error_matches(function()
      smc.linear_system { transition = pn.eye(4097), transition_cov = pn.eye(4097), initial_mean = pn.zeros { 4097 },
        diffuse = true, emission = pn.zeros { 1, 4097 }, emission_cov = pn.eye(1) }
    end, "linear_system: the state must have at most 4096 numbers, got 4097", 1, true)
    local broken = smc.linear_system { transition = pn.eye(1), transition_cov = pn.zeros { 1, 1 }, emission = pn.eye(1),
      emission_cov = pn.zeros { 1, 1 }, initial_mean = pn.zeros { 1 }, initial_cov = pn.zeros { 1, 1 } }
    local fit, message, code = broken:em(pn.ones { 3, 1 }, { steps = 1 })
    assert.is_nil(fit)
    assert.is_string(message)
    assert.equal("singular", code)
  end)
end)
