-- Deep switching systems against exact answers: the Kalman filter where all bases are equal, enumerated paths of a
-- categorical switch, and the jointly Gaussian recurrent system of both ways of conditioning. Replicates are the series
-- of a batch; intervals are 6 standard errors and must be narrow.
local pn = require "penumbra"
local oracle = require "spec.smc.switching_oracle"
local close = require("spec.helper").close
local rsgls, sgls = pn.models.rsgls, pn.models.sgls
local kalman = pn.smc.kalman

local NAN = 0 / 0

local function near(want, got, tolerance)
  assert.is_true(math.abs(want - got) <= tolerance, ("%.15g is not %.15g"):format(got, want))
end

-- The mean of x is `want`, and 6 standard errors are less than `narrow`.
local function expect(want, x, narrow, more)
  local n, mean = x:numel(), x:mean():item()
  local allowed = 6 * (x:var():item() / n + (more or 0) ^ 2) ^ 0.5
  assert.is_true(allowed < narrow, ("6 standard errors are %g, which is not below %g"):format(allowed, narrow))
  assert.is_true(math.abs(mean - want) <= allowed, ("%.6f is not within %.6f of %.6f"):format(mean, allowed, want))
end

describe("bases begin", function()
  local base_matrices = require "penumbra.models.base_matrices"
  local function made(more)
    local o = { count = 3, inputs = 2, hidden = { 4 }, groups = { { "a" } }, matrices = {}, noises = {} }
    for name, value in pairs(more) do o[name] = value end
    pn.seed(3)
    return base_matrices.new(o)
  end

  it("where their names say", function()
    for name, variance in pairs { normal = 1, fan_in = 1 / 50, identity = 0.4 ^ 2 / 50 } do
      local x = made { matrices = { a = { name == "identity" and 50 or 80, 50 } }, start = { a = name }, spread = 0.4,
        groups = { { "a" } } }.bases.a
      local off = name == "identity" and x - pn.eye(50) or x
      expect(variance, off:square(), variance * 0.1)
      expect(0, off[1] * off[2] / variance, 0.13) -- each base has draws of its own
    end
    for _, shape in ipairs { { 5, 3 }, { 3, 5 }, { 4, 4 } } do
      local x = made { matrices = { a = shape }, start = { a = "orthogonal" } }.bases.a
      local y = shape[1] < shape[2] and x:transpose(-1, -2) or x
      close(y:transpose(-1, -2):matmul(y), pn.eye(math.min(shape[1], shape[2])):broadcast_to { 3, table.unpack(
        pn.eye(math.min(shape[1], shape[2])):shape()) }, 1e-12, "orthonormal")
      assert.is_true((x[1] - x[2]):abs():max():item() > 0.1)
    end
    local one = made { matrices = { a = { 3, 3 } }, scaling = 5 }.bases.a
    close(one * 5, made { matrices = { a = { 3, 3 } } }.bases.a, 1e-12, "scaling")
  end)

  it("with scales that are a geometric row between the ends", function()
    local x = made { noises = { a = { 2 } }, count = 5, scales = { a = { 0.01, 100 } } }.bases.a
    assert.same({ 5, 2 }, x:shape())
    close((-x):sort(1), (pn.tensor { -2, -1, 0, 1, 2 } * math.log(10)):unsqueeze(2):broadcast_to { 5, 2 }, 1e-12, "row")
    x = made { noises = { a = { 2 } }, count = 1, scales = { a = { 0.01, 4 } } }.bases.a
    close((-x):exp(), pn.full({ 1, 2 }, 0.2), 1e-12, "one")
    x = made { noises = { a = { 1 } }, count = 2 }.bases.a
    close((-x):exp():sort(1), pn.tensor { { 1e-4 }, { 1 } }, 1e-12, "default")
  end)

  it("and are averaged by the weights of their group", function()
    for k, average in ipairs(base_matrices.averages) do
      local b = made { groups = { { "a", "q" }, { "c" } }, matrices = { a = { 2, 3 }, c = { 1, 2 } },
        noises = { q = { 2 } }, average = average, floor = 0.01 }
      local s = pn.randn { 4, 2 }
      local w, m, out = b:weights(s), b:held(), {}
      for name, x in pairs(m(w)) do out[name] = x end
      for name, x in pairs(b:held_columns(b:by_columns "system")(w)) do
        assert.same(out[name]:shape(), x:shape())
        close(x, out[name], 1e-14, name .. " by columns")
      end
      local logits = b.net(s)
      for g = 1, 2 do close(w[g], logits:slice(-1, 3 * g - 2, 3 * g):softmax(-1), 1e-14, "weights") end
      for row = 1, 4 do
        local a, c, q = 0, 0, 0
        local sd = (-b.bases.q):exp()
        for i = 1, 3 do
          a, c = a + w[1][row][i] * b.bases.a[i], c + w[2][row][i] * b.bases.c[i]
          q = q + w[1][row][i] * ({ sd[i], sd[i]:square(), -b.bases.q[i] })[k]
        end
        close(out.a[row], a, 1e-12, "a")
        close(out.c[row], c, 1e-12, "c")
        close(out.q[row], ({ q:square(), q, (q * 2):exp() })[k] + 0.01, 1e-12, average)
      end
      assert.equal(1, b:group_of "q")
      assert.equal(2, b:group_of "c")
    end
  end)
end)

-- ---- models whose bases are equal: linear systems ----

local SYSTEM = { a = { { 0.9, 0.2 }, { -0.3, 0.8 } }, c = { { 1, 0.5 }, { 0.2, -1 } }, q = { 0.3, 0.2 },
  r = { 0.4, 0.1 } }

local function all_equal(m, values)
  for name, x in pairs(m.bases.bases) do
    local v = pn.tensor(values[name] or 0)
    if name == "q" or name == "r" then
      v = v:log() * -0.5
    elseif name == "s" or name == "f" then
      v = v * 0
    end
    x:set(v:broadcast_to(x:shape()):contiguous())
  end
  m.prior_mean:set(pn.tensor { 0.5, -0.2 })
  m.prior_log_inverse_scale:set(pn.tensor { 1.7, 0.6 }:log() * -0.5)
  return m
end

local function linear()
  return { transition = pn.tensor(SYSTEM.a), transition_cov = pn.tensor(SYSTEM.q):diag_embed(),
    emission = pn.tensor(SYSTEM.c), emission_cov = pn.tensor(SYSTEM.r):diag_embed(),
    initial_mean = pn.tensor { 0.5, -0.2 }, initial_cov = pn.tensor { 1.7, 0.6 }:diag_embed() }
end

local function constant(make, more)
  local o = { size = 2, states = 2, switches = 3, base = 4, scaling = "none", floor = 0, num_particles = 5 }
  for name, value in pairs(more or {}) do
    o[name] = value
  end
  return all_equal(make(o), SYSTEM)
end

local function some_series(steps, size)
  return pn.randn({ steps, size, 2 }, { generator = pn.generator(7) })
end

describe("a switching system whose bases are equal", function()
  it("has the Kalman filter's evidence with any number of particles, missing data and lengths", function()
    local y = some_series(6, 3)
    y = pn.where(pn.tensor({ { 0, 0 }, { 0, 1 }, { 1, 1 }, { 0, 0 }, { 0, 0 }, { 1, 0 } }):gt(0):unsqueeze(2), NAN, y)
    local want = kalman.filter(linear(), y).log_likelihood
    for _, make in ipairs { sgls, rsgls } do
      for _, more in ipairs { {}, { num_particles = 1 }, { num_particles = 64, sharing = "all" }, { sharing = "none" },
        { encoder = { 8 }, average = "variances" }, { conditioning = "published", average = "log_scales" } } do
        local m = constant(make, more)
        local got = m:log_evidence { y = y }
        if not more.encoder then -- the encoder's proposal makes weights differ
          close(got, want, 1e-8, make == sgls and "sgls" or "rsgls")
        end
        close(m:log_evidence { y = y:select(2, 1):unsqueeze(2) * NAN }, pn.zeros { 1 }, 1e-12, "nothing observed")
      end
    end
    local m = constant(rsgls)
    local mean, cov = m:moments(m:filter { y = y })
    local f = kalman.filter(linear(), y)
    close(mean, f.mean:select(1, 6), 1e-9, "mean")
    close(cov, f.cov:select(1, 6), 1e-9, "cov")
    local smoothed = m:smooth({ y = y }, { draws = 3 })
    close(smoothed.mean, kalman.smooth(linear(), y).mean, 1e-9, "smoothed")
  end)

  it("forecasts as the Kalman filter does, in both modes", function()
    local y = some_series(5, 2)
    local want = kalman.forecast(linear(), y, 4)
    local m = constant(rsgls)
    local belief = m:filter { y = y }
    for _, mode in ipairs { "ancestral", "marginal" } do
      local paths = m:forecast(belief, 4, { draws = 20000, mode = mode, generator = pn.generator(3) })
      assert.same({ 20000, 4, 2, 2 }, paths:shape())
      local sd = want.cov:diagonal():sqrt()
      local z = (paths - want.mean) / sd
      assert.is_true(z:mean(1):abs():max():item() < 6 / 20000 ^ 0.5)
      assert.is_true((z:square():mean(1) - 1):abs():max():item() < 6 * (2 / 20000) ^ 0.5)
      -- joint paths: the correlation of neighbours is the system's, of marginal draws less
      local cross = (z:select(2, 1) * z:select(2, 2)):mean(1):select(1, 1):select(1, 1):item()
      local p, h = pn.tensor(SYSTEM.a), pn.tensor(SYSTEM.c)
      local lag = h:matmul(p):matmul(want.state_cov:select(1, 1):select(1, 1)):matmul(h:t()):select(1, 1):select(1, 1)
      lag = (lag / (sd:select(1, 1):select(1, 1):select(1, 1) * sd:select(1, 2):select(1, 1):select(1, 1))):item()
      assert.is_true(lag > 0.1)
      near(mode == "ancestral" and lag or 0, cross, 6 / 20000 ^ 0.5 * 1.5)
    end
  end)
end)

-- ---- structures whose bases are equal: level, slope and seasons, which noise enters where y sees them ----

describe("a structure whose bases are equal", function()
  it("has the Kalman filter's evidence and state, each series from the season that it begins with", function()
    for _, trend in ipairs { false, true } do
      local m = pn.models.rsgls_issm { trend = trend, seasonal = { { period = 2, every = 2 } }, switches = 2, base = 3,
        scaling = "none", floor = 0, num_particles = 3, encoder = false }
      local lead = trend and { 0.3, 0.05 } or { 0.3 }
      local n, noise = #lead + 2, pn.concatenate({ pn.tensor(lead), pn.tensor { 0.2, 0.6 } }, 1)
      for name, x in pairs(m.bases.bases) do
        local v = name == "q" and noise:log() * -0.5 or pn.full({}, name == "r" and math.log(0.4) * -0.5 or 0)
        x:set(v:broadcast_to(x:shape()):contiguous())
      end
      local x0, v0 = pn.linspace(-0.5, 0.8, n), pn.linspace(0.4, 1.5, n)
      m.prior_mean:set(x0)
      m.prior_log_inverse_scale:set(v0:log() * -0.5)
      local y = pn.randn({ 7, 2, 1 }, { generator = pn.generator(3) })
      y = pn.where(pn.tensor({ { 0, 0 }, { 0, 1 }, { 1, 0 }, { 0, 0 }, { 0, 0 }, { 0, 0 }, { 0, 0 } }):gt(0)
        :unsqueeze(3), NAN, y)
      local batch, want, state = { y = y, start = { 0, 3 } }, {}, {}
      local moves = pn.eye(n)
      if trend then
        moves = moves + pn.eye(n):select(1, 1):unsqueeze(2) * pn.eye(n):select(1, 2):unsqueeze(1)
      end
      for b, start in ipairs(batch.start) do
        local mean, cov, total = x0, v0:diag_embed(), 0
        for t = 1, 7 do
          local row, season = {}, (start + t - 1) // 2 % 2
          for k = 1, n do row[k] = (k <= #lead or k == #lead + 1 + season) and 1 or 0 end
          local c, v = pn.tensor { row }, y[t][b]
          local log_p
          mean, cov, log_p = pn.kalman_step(mean, cov, moves, nil, (noise * c[1]):diag_embed(), v, c, nil,
            pn.tensor { { 0.4 } }, { observed = v:isnan():logical_not() })
          total = total + log_p:item()
        end
        want[b], state[b] = total, mean
      end
      close(m:log_evidence(batch), pn.tensor(want), 1e-9, "evidence")
      close(m:moments(m:filter(batch)), pn.stack(state, 1), 1e-9, "state")
    end
  end)
end)

-- ---- one of two labels ----

local TWO = { a = { 0.9, -0.5 }, c = { 1, 0.7 }, q = { 0.1, 0.4 }, r = { 0.2, 0.05 }, first = { 0.6, 0.4 },
  transition = { { 0.85, 0.15 }, { 0.3, 0.7 } }, mean = 0.2, cov = 1 }

local function two_labels(particles)
  local m = sgls { switch = "categorical", states = 1, switches = 2, scaling = "none", floor = 0,
    num_particles = particles }
  local bases = m.bases.bases
  bases.a:set(pn.tensor(TWO.a):reshape { 2, 1, 1 })
  bases.c:set(pn.tensor(TWO.c):reshape { 2, 1, 1 })
  bases.q:set(pn.tensor(TWO.q):log():reshape { 2, 1 } * -0.5)
  bases.r:set(pn.tensor(TWO.r):log():reshape { 2, 1 } * -0.5)
  m.switch.logits:set(pn.tensor(TWO.first):log())
  m.switch.transition:set(pn.tensor(TWO.transition):log())
  m.prior_mean:set(pn.tensor { TWO.mean })
  return m
end

local function repeated(y, batch)
  return pn.tensor(y):reshape { #y, 1, 1 }:broadcast_to({ #y, batch, 1 }):contiguous()
end

describe("a categorical switch", function()
  it("has the enumerated evidence without bias, and its logarithm's known mean, monotone in particles", function()
    local y, last = { 0.5, -0.3, 0.4, 0.9 }, -math.huge
    for _, known in ipairs { { 1, -3.89989393, 0, 20000 }, { 4, -3.7499, 0.0004, 20000 }, { 16, -3.6845, 0.0003, 8000 },
      { 64, -3.6644, 0.0003, 3000 } } do
      local m = two_labels(known[1])
      local e = pn.no_grad(function() return m:log_evidence({ y = repeated(y, known[4]) },
        { generator = pn.generator(5) }) end)
      expect(1, (e + 3.656840138624):exp(), 0.05)
      expect(known[2], e, 0.05, known[3])
      assert.is_true(e:mean():item() > last)
      last = e:mean():item()
    end
    local b = two_labels(64):filter({ y = repeated(y, 3000) }, { generator = pn.generator(6) })
    expect(oracle.enumerate(TWO, y).mean, two_labels(64):moments(b), 0.03)
  end)

  it("is smoothed to the enumerated moments of the state, and a Gaussian one that does not know of it, too", function()
    local y = { 0.5, NAN, 0.4, 0.9 }
    local e, m = oracle.enumerate(TWO, y), two_labels(600)
    local s = m:smooth({ y = repeated(y, 12) }, { draws = 200, generator = pn.generator(3) })
    for t = 1, 4 do
      near(e.smoothed[t][1], s.mean:select(1, t):mean():item(), 0.02)
      near(e.smoothed[t][2], s.cov:select(1, t):mean():item(), 0.02)
      near(e.probabilities[t][1], s.s:select(1, t):eq(0):to("float64"):mean():item(), 0.04)
    end
    local wide = some_series(5, 3)
    local of_normal = constant(sgls):smooth({ y = wide }, { draws = 2 })
    close(of_normal.mean, kalman.smooth(linear(), wide).mean, 1e-9, "smoothed")
    close(of_normal.cov, kalman.smooth(linear(), wide).cov, 1e-9, "smoothed")
  end)

  it("is drawn from its law times what an encoder makes of y, and weighed by the two's ratio", function()
    local y = repeated({ 0.5, -0.3, 0.4, 0.9 }, 8000)
    local m = two_labels(16)
    function m.encoder(x)
      local l = x * 0.4 + 0.3
      return { s = { loc = pn.concatenate({ l, -l }, -1), variance = l * 0 + 1 } }
    end
    local function evidence(x) return pn.no_grad(m.log_evidence, m, { y = x }, { generator = pn.generator(5) }) end
    expect(1, (evidence(y) + 3.656840138624):exp(), 0.05)
    m.threshold = 0
    for _, first in ipairs { 0.5, NAN } do
      local b = pn.no_grad(m.filter, m, { y = y:slice(1, 1, 1) * 0 + first }, { generator = pn.generator(6) })
      local l = first == first and first * 0.4 + 0.3 or 0 -- nothing was seen
      local p = TWO.first[1] * math.exp(l) / (TWO.first[1] * math.exp(l) + TWO.first[2] * math.exp(-l))
      expect(p, b.state.particles.s:select(-1, 1), 0.01)
    end
  end)

  it("passes a gradient to the laws of the labels: that of the evidence itself with one step", function()
    local m = two_labels(200)
    local e = m:log_evidence({ y = repeated({ 0.5 }, 500) }, { generator = pn.generator(1) }):mean()
    local g = pn.grad(e, { m.switch.logits })[1]
    local density = {}
    for k = 1, 2 do
      local v = TWO.c[k] ^ 2 * (TWO.a[k] ^ 2 * TWO.cov + TWO.q[k]) + TWO.r[k]
      density[k] = TWO.first[k] * math.exp(-0.5 * (0.5 - TWO.c[k] * TWO.a[k] * TWO.mean) ^ 2 / v) / v ^ 0.5
    end
    near(density[1] / (density[1] + density[2]) - TWO.first[1], g:totable()[1], 0.003)
  end)
end)

-- ---- a switch that depends on the state ----

local LINKED = { f = 0.8, g = 0.3, noise = 0.2, a = 0.7, b = 0.9, q = 0.05, r = 0.1, mean = 0, cov = 1, first = 1 }
local CASE = { 0.8, 0.5, 0.9, 1.2, 0.6 }

-- A recurrent model whose matrices and networks are the given numbers.
local function linked(particles, more)
  local o = { states = 1, switches = 1, base = 1, scaling = "none", floor = 0, num_particles = particles }
  for name, value in pairs(more or {}) do o[name] = value end
  local m = rsgls(o)
  local function one(v, s) return pn.full({ 1 }, v):broadcast_to(s:shape()) end
  m.bases = { bases = { f = true }, scaling = 1, weights = function(_, s) return { s } end, held = function()
    return function(w, part)
      local s = type(w) == "table" and w[1] or w
      if part == "recurrence" then
        return { f = one(LINKED.f, s):unsqueeze(-1), s = one(LINKED.noise, s) }
      end
      return { a = one(LINKED.a, s):unsqueeze(-1), b = LINKED.b * s, c = one(1, s):unsqueeze(-1), q = one(LINKED.q, s),
        r = one(LINKED.r, s) }
    end
  end, by_columns = function() return {} end }
  m.bases.held_columns = m.bases.held
  m.recurrence_group = 1
  m.switch.offset = { s = function(s) return LINKED.g * s end, rest = function(h) return h end }
  return m
end

describe("a recurrent switch", function()
  it("is conditioned exactly, or as published: each has its own evidence", function()
    local y = repeated(CASE, 4000)
    for mode, want in pairs { exact = -6.029046028335, published = -6.080769881073 } do
      local m = linked(64, { conditioning = mode })
      local e = pn.no_grad(function() return m:log_evidence({ y = y }, { generator = pn.generator(9) }) end)
      expect(1, (e - want):exp(), 0.04)
      local b = m:filter({ y = y }, { generator = pn.generator(9) })
      close(b.state.log_evidence, e, 1e-12)
      local mean = m:moments(b)
      expect(mode == "exact" and 0.859298345537 or 0.884421665225, mean:squeeze(-1) * (e - want):exp(), 0.05)
    end
    -- pn.smc.rbpf of the same model, which smooths it
    local m = linked(200)
    local smoothed = m:smooth({ y = y:slice(2, 1, 20) }, { draws = 50, generator = pn.generator(4) })
    expect(oracle.recurrent(LINKED, CASE).mean, smoothed.mean:select(1, 5):squeeze(-1), 0.1)
    assert.error_matches(function() linked(4, { conditioning = "published" }):smooth { y = y:slice(2, 1, 2) } end,
      "smooth needs conditioning = 'exact'")
  end)

  it("forecasts the same marginals in both modes if conditioning is exact", function()
    local m = linked(100)
    local b = m:filter({ y = repeated(CASE, 1) }, { generator = pn.generator(2) })
    local function moments(mode, model)
      local p = (model or m):forecast(b, 3, { draws = 40000, mode = mode, generator = pn.generator(8) })
      local last = p:select(2, 3):reshape { -1 }
      return last:mean():item(), last:var():item()
    end
    local mean, var = moments "ancestral"
    local other_mean, other_var = moments "marginal"
    near(mean, other_mean, 6 * (2 * var / 40000) ^ 0.5)
    near(var, other_var, 6 * 2 * var / 40000 ^ 0.5)
    m.conditioning = "published"
    local _, narrow = moments "marginal"
    assert.is_true(math.abs(narrow - var) > 6 * 2 * var / 40000 ^ 0.5) -- what it leaves out shows
  end)
end)
