-- Which sites outside of m:scan are parameters: all but those that only start the carry. And a model that draws numbers
-- itself, whose density is not one.
local pn = require "penumbra"

local dist = pn.dist
local y = pn.tensor { 0.3, -0.2, 0.9, 1.4, 0.1, -0.6 }

-- Help's own example: the mean is the first state and stays in the law of all.
local volatility = pn.model(function(m, v)
  local mu, phi = m:sample("mu", dist.normal(0, 1)), m:sample("phi", dist.beta(8, 2))
  m:scan("t", v:size(1), mu, function(h, t)
    h = m:sample("h", dist.normal(mu + phi * (h - mu), 0.5))
    m:observe("y", dist.normal(0, (h / 2):exp()), v[t])
    return h
  end)
end)

local function walk(start)
  return pn.model(function(m, v)
    local rho, x0 = m:sample("rho", dist.beta(9, 1)), m:sample("x0", dist.normal(0, 1))
    m:scan("x", v:size(1), start and start(x0) or x0, function(x, t)
      x = m:sample("x", dist.normal(rho * (start and x.x or x), 1))
      m:observe("y", dist.normal(x, 0.5), v[t])
      return start and { x = x } or x
    end)
  end)
end

local settings = { data = { y }, num_particles = 16, warmup = 8, draws = 8, chains = 2 }

-- A step draws numbers of its own.
local drawn_within = pn.model(function(m, v)
  local rho = m:sample("rho", dist.beta(9, 1))
  m:scan("x", v:size(1), pn.zeros {}, function(x, t)
    x = m:sample("x", dist.normal(x * rho, 1))
    m:observe("y", dist.normal(x + pn.randn {}, 0.5), v[t])
    return x
  end)
end)

describe("a site that starts the carry of m:scan", function()
  it("is a parameter where it reaches more than the carry", function()
    local p = pn.smc.pmmh(volatility, settings)
    assert.same({ 2, 8 }, p.draws.mu:shape())
    assert.same({ 2, 8 }, p.draws.phi:shape())
    assert.is_true(pn.smc.filter(volatility, { data = { y }, values = { mu = 0.1, phi = 0.9 }, num_particles = 16 })
      .log_evidence:isfinite():item())
    assert.error_matches(function()
      pn.smc.filter(volatility, { data = { y }, values = { phi = 0.9 }, num_particles = 16 })
    end, "'mu' is a parameter of the model", 1, true)
  end)

  -- Found by other values of the site, of which some do not show it, and by two turns of the scan.
  it("is one wherever that shows: in some values, from the second step on, in sites, in failures", function()
    local function of(law, body)
      return pn.model(function(m, v)
        local k = m:sample("k", law)
        m:scan("t", v:size(1), k, function(h, t) return body(m, k, h, t) end)
      end)
    end
    local function h_of(m, loc) return m:sample("h", dist.normal(loc, 0.5)) end
    for name, model in pairs {
      bits = of(dist.bernoulli(0.5), function(m, k, h) return h_of(m, h + k) end),
      later = of(dist.normal(0, 1), function(m, k, h, t) return h_of(m, t > 1 and h + k or h) end),
      sites = of(dist.normal(0, 1), function(m, k, h, t)
        h = h_of(m, h)
        if t == 2 and k:item() > 0 then m:factor("more", h * 0) end
        return h
      end),
      failures = of(dist.normal(2, 1.5), function(m, k, h)
        if k:item() < 1 then m:factor("none", dist.normal(0, -1)) end
        return h_of(m, h)
      end) } do
      local met = 0
      for seed = 1, 12 do
        pn.seed(seed)
        local o = { data = { y }, values = { k = 2 }, num_particles = 4 }
        local ok, message = pcall(pn.smc.filter, model, o)
        -- (a value at which the model is none cannot be the first)
        assert(ok or name == "failures" and message:find("scale", 1, true), ("%s, %d: %s"):format(name, seed,
          tostring(message)))
        met = met + (ok and 1 or 0)
      end
      assert(met > 6)
    end
    -- drawing numbers of its own is seen at one step, too
    assert.error_matches(function()
      pn.smc.filter(drawn_within, { data = { y:slice(1, 1, 1) }, values = { rho = 0.5 }, num_particles = 4 })
    end, "'y[1]': its log density is another one at the same values", 1, true)
  end)

  it("has the likelihood of the model in which it does not start the carry", function()
    local apart = pn.model(function(m, v)
      local mu, phi = m:sample("mu", dist.normal(0, 1)), m:sample("phi", dist.beta(8, 2))
      m:scan("t", v:size(1), mu + 0, function(h, t)
        h = m:sample("h", dist.normal(mu + phi * (h - mu), 0.5))
        m:observe("y", dist.normal(0, (h / 2):exp()), v[t])
        return h
      end)
    end)
    local values = { mu = 0.4, phi = 0.8 }
    local function evidence(model)
      return pn.smc.filter(model, { data = { y }, values = values, num_particles = 400, generator = pn.generator(3) })
        .log_evidence:item()
    end
    assert.equal(evidence(apart), evidence(volatility))
  end)

  it("belongs to the state where it does not, alone or in a table", function()
    for _, start in ipairs { false, function(x0) return { x = x0 } end } do
      local model = walk(start)
      local p = pn.smc.pmmh(model, settings)
      assert.is_nil(p.draws.x0)
      assert.same({ 2, 8 }, p.draws.rho:shape())
      assert.error_matches(function()
        pn.smc.filter(model, { data = { y }, values = { rho = 0.9, x0 = 0 }, num_particles = 16 })
      end, "filter: 'x0' belongs to the state: it starts the carry of m:scan and reaches nothing else", 1, true)
    end
    local p = pn.smc.pmmh(walk(function(x0) return { x = x0 + 0 } end), settings)
    assert.same({ 2, 8 }, p.draws.x0:shape())
  end)

  it("draws nothing from the generator of all to find that out", function()
    pn.seed(4)
    local first = pn.smc.filter(walk(), { data = { y }, values = { rho = 0.9 }, num_particles = 16,
      generator = pn.generator(1) }).log_evidence:item()
    pn.seed(5)
    assert.equal(first, pn.smc.filter(walk(), { data = { y }, values = { rho = 0.9 }, num_particles = 16,
      generator = pn.generator(1) }).log_evidence:item())
  end)
end)

describe("a model that draws numbers itself", function()
  local told = "its log density is another one at the same values: the model's function draws numbers itself"
  local function drawing(noise)
    return pn.model(function(m)
      local a = m:sample("a", dist.normal(0, 1))
      m:observe("y", dist.normal(a + noise(), 1), y)
    end)
  end

  it("is refused where one density is replayed", function()
    local dropout = pn.nn.dropout { rate = 0.5, always = true }
    for _, noise in ipairs { function() return pn.randn {} end, math.random,
      function() return dist.normal(0, 1):sample() end,
      function() return dropout(pn.ones { 6 }) end } do
      local model = drawing(noise)
      for name, run in pairs {
        nuts = function() pn.nuts(model, { warmup = 4, draws = 4 }) end,
        hmc = function() pn.hmc(model, { warmup = 4, draws = 4, steps = 2 }) end,
        laplace = function() pn.svi(model, "laplace", { steps = 1 }) end,
        sample = function() pn.smc.sample(model, { num_particles = 8 }) end,
        target = function() model:target() end,
      } do
        local ok, message = pcall(run)
        local want = ("%s: 'y': %s"):format(name == "laplace" and "svi" or name, told)
        assert(not ok and message:find(want, 1, true), name .. ": " .. tostring(message))
      end
    end
    assert.error_matches(function() pn.smc.pmmh(drawn_within, settings) end, "'y[1]': " .. told, 1, true)
  end)

  it("is drawn anew by pn.svi, and may be simulated", function()
    local model = drawing(function() return pn.randn {} * 3 end)
    local fit = pn.svi(model, "mean_field", { steps = 50 })
    assert.is_true(pn.tensor(fit.losses):std():item() > 1)
    assert.not_equal(model:trace().sites.y.log_prob:sum():item(), model:trace().sites.y.log_prob:sum():item())
  end)

  it("weighs particles by all that a step observes, and by its factors", function()
    local other = pn.tensor { 1, -2, 0.5, 2, 0, 0.4 }
    local both = pn.stack({ y, other }, 2)
    local function model(seen)
      return pn.model(function(m)
        m:scan("t", 6, m:sample("x0", dist.normal(0, 1)), function(x, t)
          x = m:sample("x", dist.normal(x, 1))
          seen(m, x, t)
          return x
        end)
      end)
    end
    local function run(of)
      local r = pn.smc.filter(model(of), { num_particles = 64, generator = pn.generator(3) })
      return r.increments, r.filtered.x.mean
    end
    local increments, means = run(function(m, x, t)
      m:observe("y", dist.normal(pn.stack({ x, x * 2 }, -1), pn.tensor { 0.5, 1 }):independent(1), both[t])
    end)
    for _, of in ipairs { function(m, x, t)
      m:observe("y", dist.normal(x, 0.5), y[t])
      m:observe("other", dist.normal(x * 2, 1), other[t])
    end, function(m, x, t)
      m:factor("y", dist.normal(x, 0.5):log_prob(y[t]))
      m:observe("other", dist.normal(x * 2, 1), other[t])
    end } do
      local got, mean = run(of)
      assert.is_true((got - increments):abs():max():item() < 1e-10)
      assert.is_true((mean - means):abs():max():item() < 1e-10)
    end
  end)

  it("may draw what its density does not depend on", function()
    local model = pn.model(function(m)
      local a = m:sample("a", dist.normal(0, 1))
      m:deterministic("next", a + pn.randn {})
      m:observe("y", dist.normal(a, 1), y)
    end)
    local p = pn.nuts(model, { warmup = 50, draws = 200 })
    assert.is_true((p.draws.next - p.draws.a):std():item() > 0.8)
  end)
end)
