-- Time in models, m:scan: the compiled density and gradient of models with loops over time are those of eager runs,
-- whatever the turns do; long loops have plans whose size does not depend on their length; chains sample the posterior
-- that is known in closed form; a driver of its own may take the loop over.
local pn = require "penumbra"
local model = require "penumbra.infer.model"
local dist = pn.dist

local function near(got, want, what)
  local gap = (got - want):abs():max():item()
  assert(gap <= 1e-10 * (1 + want:abs():max():item()), ("%s differs by %g"):format(what, gap))
end

-- Density and gradient of the compiled target at some points against eager ones. Returns the plan and the target.
local function check(m, ...)
  pn.seed(11)
  local target = m:target(...)
  for round = 1, 3 do
    local z = pn.randn { target.size } * 0.5
    local lp, g = target:evaluate(z)
    local at = pn.param(z)
    local want = target:log_density(at)
    near(lp, want:detach(), "density, round " .. round)
    near(g, pn.grad(want, { at })[1], "gradient, round " .. round)
  end
  return target:compiled_gradient():plans()[1], target
end

describe("a variable of a scan", function()
  local walk = pn.model(function(m, y)
    m:scan("time", 3, pn.zeros {}, function(h, t)
      h = m:sample("h", dist.normal(h, 1))
      m:observe("y", dist.normal(h, 1), y[t])
      return h
    end)
  end)
  local y = pn.tensor { 1, 2, 3 }

  -- log density of steps h_1 to h_3
  local function density(h)
    local sum, before = 0, 0
    for t, v in ipairs(h) do
      sum, before = sum - ((v - before) ^ 2 + (t - v) ^ 2) / 2 - math.log(2 * math.pi), v
    end
    return sum
  end

  it("is given as one number for all steps, or by step", function()
    for _, given in ipairs { 1.5, pn.tensor(1.5), pn.full({ 3 }, 1.5), { 1.5, 1.5, 1.5 } } do
      near(walk:condition({ h = given }):log_density({}, y), pn.tensor(density { 1.5, 1.5, 1.5 }), "density")
      near(walk:log_density({ h = given }, y), pn.tensor(density { 1.5, 1.5, 1.5 }), "density")
      assert.equal(1.5, walk:intervene({ h = given }):trace(y).sites["h[2]"].value:item())
    end
    near(walk:condition({ h = pn.tensor { 1, 0, 2 } }):log_density({}, y), pn.tensor(density { 1, 0, 2 }), "density")
  end)

  it("says where steps are missing", function()
    local ok, message = pcall(function() return walk:condition({ h = pn.ones(2) }):trace(y) end)
    assert.is_false(ok)
    assert.matches("condition: 'h' stands in m:scan: its values must be a number for all steps, or have the steps "
      .. "along axis 1, got shape %[2%] at step 3", message)
  end)
end)

-- A stochastic volatility model of T steps whose next state is next(h, t, m, mu, phi, sigma).
local function volatility(T, next_state)
  return pn.model(function(m, y)
    local mu, phi = m:sample("mu", dist.normal(0, 2)), m:sample("phi", dist.uniform(-1, 1))
    local sigma = m:sample("sigma", dist.half_normal(1))
    m:scan("time", T, mu, function(h, t)
      h = next_state(h, t, m, mu, phi, sigma)
      m:observe("y", dist.normal(0, (h / 2):exp()), y:select(1, t))
      return h
    end)
  end)
end

local function centred(h, _, m, mu, phi, sigma)
  return m:sample("h", dist.normal(mu + phi * (h - mu), sigma))
end

local function free(h, _, m, mu, phi, sigma)
  return mu + phi * (h - mu) + sigma * m:sample("e", dist.normal(0, 1))
end

describe("a loop over time", function()
  local T = 90
  local y = pn.randn { 120 }

  it("of no, one, two and more turns has the eager density and gradient", function()
    for _, steps in ipairs { 0, 1, 2, 3, 31, 32, 33, 34, 35, 36, 40 } do
      check(volatility(steps, centred), y)
      check(volatility(steps, free), y)
    end
  end)

  it("has a plan whose size does not depend on its length", function()
    for name, next_state in pairs { centred = centred, free = free } do
      local sizes = {}
      for k, steps in ipairs { 50, 100, 1000 } do
        local plan = check(volatility(steps, next_state), pn.randn { steps })
        sizes[k] = plan.steps
        assert(plan.loops >= 2, name)
      end
      assert.same({ sizes[1], sizes[1], sizes[1] }, sizes)
      assert(sizes[1] < 40, name .. ": " .. sizes[1] .. " steps")
    end
  end)

  local ways = {
    ["a first turn of its own"] = function(h, t, m, mu, phi, sigma)
      return m:sample("h", dist.normal(t == 1 and mu or mu + phi * (h - mu), t == 1 and sigma * 2 or sigma))
    end,
    ["a last turn of its own"] = function(h, t, m, mu, phi, sigma)
      return m:sample("h", dist.normal(mu + phi * (h - mu), t == T and sigma + 1 or sigma))
    end,
    ["a last turn that differs in a constant"] = function(h, t, m, mu, phi, sigma)
      return m:sample("h", dist.normal(mu + phi * (h - mu) + (t == T and 0.5 or 0.25), sigma))
    end,
    ["turns that take turns"] = function(h, t, m, mu, phi, sigma)
      return m:sample("h", t % 2 == 0 and dist.normal(mu, sigma) or dist.student_t(4, mu + phi * h, sigma))
    end,
    ["turns without order"] = function(h, t, m, mu, phi, sigma)
      return m:sample("h", t * t % 7 < 3 and dist.normal(mu, sigma) or dist.student_t(4, mu + phi * h, sigma))
    end,
    ["a number made from the turn"] = function(h, t, m, mu, phi, sigma)
      return m:sample("h", dist.normal(mu + phi * (h - mu), sigma * (1 + t / T)))
    end,
    ["two variables"] = function(h, _, m, mu, phi, sigma)
      local drift = m:sample("drift", dist.normal(0, 0.1):expand { 2 }:independent(1))
      return m:sample("h", dist.normal(mu + phi * (h - mu) + drift:sum(), sigma))
    end,
    ["a variable with bounds"] = function(h, _, m, mu, phi, sigma)
      local scale = m:sample("scale", dist.gamma(2, 2))
      return m:sample("h", dist.normal(mu + phi * (h - mu), sigma * scale))
    end,
    ["a plate within"] = function(h, _, m, mu, phi, sigma)
      m:plate("rows", 3, function()
        m:sample("w", dist.normal(h, sigma))
      end)
      return mu + phi * h + sigma
    end,
    ["a factor and a kept value"] = function(h, t, m, mu, phi, sigma)
      m:factor("prior", -(h - mu):square() * t)
      return m:deterministic("h", mu + phi * h + sigma)
    end,
    ["a loop within"] = function(h, _, m, mu, phi, sigma)
      return m:scan("inner", 3, h, function(x)
        return m:sample("x", dist.normal(mu + phi * x, sigma))
      end)
    end,
  }
  for name, next_state in pairs(ways) do
    it("with " .. name .. " has the eager density and gradient", function()
      local plan = check(volatility(T, next_state), y)
      assert.equal(name ~= "turns without order", plan.loops > 0)
    end)
  end

  it("with a table as its state has the eager density and gradient", function()
    local m = pn.model(function(m, seen)
      local phi = m:sample("phi", dist.normal(0, 0.5):expand { 2 }:independent(1))
      m:scan("time", T, { lags = { pn.tensor(0), pn.tensor(0) }, level = 0 }, function(s, t)
        local mean = phi[1] * s.lags[1] + phi[2] * s.lags[2] + s.level
        m:observe("y", dist.normal(mean, 1), seen[t])
        return { lags = { seen[t], s.lags[1] }, level = m:sample("level", dist.normal(s.level, 0.1)) }
      end)
    end)
    local plan = check(m, y)
    assert(plan.loops >= 2)
  end)

  it("with draws inside takes the numbers that an eager run would", function()
    local m = volatility(T, function(h, _, m, mu, phi, sigma)
      m:sample("noise", dist.normal(0, 1))
      return m:sample("h", dist.normal(mu + phi * (h - mu), sigma))
    end):block { "noise" }
    local target = m:target(y)
    local z = pn.randn { target.size } * 0.3
    target:evaluate(z)
    pn.seed(4)
    local lp = target:evaluate(z)
    local place = pn.rng_state()
    pn.seed(4)
    near(lp, target:log_density(z), "density")
    assert.same(pn.rng_state(), place)
    assert(target:compiled_gradient():plans()[1].loops > 0)
  end)

  it("gives each chain the same draws in any number of threads", function()
    local m = volatility(60, free)
    local before, draws = pn.threads(), {}
    for k, threads in ipairs { 1, 2 } do
      pn.threads(threads)
      pn.seed(5)
      draws[k] = pn.nuts(m, { data = { y }, chains = 2, warmup = 60, draws = 30 }).draws.e
    end
    pn.threads(before)
    assert.same({ 2, 30, 60 }, draws[1]:shape())
    assert.is_true(draws[1]:eq(draws[2]):all():item())
  end)

  it("samples the posterior of a long random walk", function()
    pn.seed(3)
    local steps = 40
    local seen = pn.randn { steps } + 1
    local walk = pn.model(function(m, data)
      m:scan("t", steps, pn.tensor(0), function(x, t)
        x = m:sample("x", dist.normal(x, 1))
        m:observe("y", dist.normal(x, 1), data[t])
        return x
      end)
    end)
    local p = pn.nuts(walk, { data = { seen }, chains = 2, warmup = 300, draws = 500 })
    -- the posterior mean solves (K + I) a = y, K_st = min(s, t)
    local rows = {}
    for s = 1, steps do
      rows[s] = {}
      for t = 1, steps do
        rows[s][t] = math.min(s, t)
      end
    end
    local k = pn.tensor(rows)
    local want = k:matmul((k + pn.eye(steps)):cholesky():cholesky_solve(seen:unsqueeze(2))):squeeze(2)
    for t = 1, steps do
      local row = p:summary()[("x[%d]"):format(t)]
      assert.is_true(math.abs(row.mean - want[t]:item()) < 6 * row.mcse and row.mcse < 0.06)
    end
  end)

  it("can be driven by somebody else", function()
    local m, told = volatility(3, centred), nil
    local t = model.run(m, table.pack(y), { drive = function(recorder, name, steps, carry, turn)
      told = { name, steps, recorder.scale }
      for k = 1, steps do
        carry = turn(carry, k)
      end
      return turn(carry, 9)
    end })
    assert.same({ "time", 3, 1 }, told)
    assert.same({ "mu", "phi", "sigma", "h[1]", "y[1]", "h[2]", "y[2]", "h[3]", "y[3]", "h[9]", "y[9]" },
      (function()
        local names = {}
        for k, site in ipairs(t.order) do
          names[k] = site.name
        end
        return names
      end)())
  end)
end)

describe("what a run gives at each draw", function()
  it("has the steps of a scan joined, time after the axes of the draws, and apart where their shapes differ", function()
    local at_draws = require "penumbra.infer.at_draws"
    local list, tensors = {}, {}
    local function add(name, time, t)
      list[#list + 1] = { name = time and ("%s[%s]"):format(name, table.concat(time, ",")) or name, base = name,
        time = time }
      tensors[#list] = t
    end
    local function some(shape) return pn.randn(shape, { generator = pn.generator(#list) }) end
    add("a", nil, some { 4 })
    add("x", { 1 }, some { 4, 2 })
    add("z", { 1 }, some { 4, 2 })
    add("x", { 2 }, some { 4, 2 })
    add("z", { 2 }, some { 4, 3 })
    add("s", { 1 }, some { 4 })
    add("w", { 1, 2 }, some { 4 })
    local sites, names = at_draws.joined(list, tensors, 1)
    assert.same({ "a", "x", "z[1]", "z[2]", "s", "w[1,2]" }, names)
    assert.same({ 4, 2, 2 }, sites.x:shape())
    assert.same({ 4, 1 }, sites.s:shape())
    for _, case in ipairs { { sites.a, 1 }, { sites.x:select(2, 1), 2 }, { sites.x:select(2, 2), 4 },
      { sites["z[1]"], 3 }, { sites["z[2]"], 5 }, { sites.s:select(2, 1), 6 }, { sites["w[1,2]"], 7 } } do
      near(case[1], tensors[case[2]], case[2])
    end
    assert.is_nil(sites.z or sites["x[1]"] or sites["s[1]"])
  end)
end)
