-- What is observed counts once: a column [n, 1] that meets a vector [n], in plates and outside, is an error with both
-- shapes in it, wherever a model is run; what looks alike and is right goes on.
local pn = require "penumbra"

local dist = pn.dist
local n = 6
local x, y = pn.linspace(-1, 1, n):unsqueeze(2), pn.linspace(0, 2, n)

local function plated(body)
  return pn.model(function(m, ...)
    local args = table.pack(...)
    local a = m:sample("a", dist.normal(0, 1))
    m:plate("rows", n, function(i) body(m, a, i, table.unpack(args, 1, args.n)) end)
  end)
end

local column = plated(function(m, a, _, u, v) m:observe("y", dist.normal(u * a, 1), v) end)

local function refused(text, f, ...)
  local ok, message = pcall(f, ...)
  assert(not ok, "must be refused")
  assert(message:find(text, 1, true), message)
  assert(message:find("squeeze(-1)", 1, true) and message:find(":independent(", 1, true), message)
end

describe("a column against a vector", function()
  local told = "values of shape [6] and a distribution of batch shape [6, 6] and event shape [], of which they must "
    .. "have [6, 6]: each would count 6 times"

  it("in a plate is refused by all that runs a model", function()
    local data = { x, y }
    for name, run in pairs {
      trace = function() column:trace(x, y) end,
      log_density = function() column:log_density({ a = 1 }, x, y) end,
      target = function() column:target(x, y) end,
      nuts = function() pn.nuts(column, { data = data, warmup = 4, draws = 4 }) end,
      sample = function() pn.smc.sample(column, { data = data, num_particles = 8 }) end,
      svi = function() pn.svi(column, "mean_field", { data = data, steps = 1 }) end,
      guide = function()
        pn.svi(column, pn.model(function(m) m:sample("a", dist.normal(m:param("loc", 0), 1)) end),
          { data = data, steps = 1 })
      end,
      laplace = function() pn.svi(column, "laplace", { data = data, steps = 1 }) end,
    } do
      local ok, message = pcall(run)
      assert(not ok and message:find(told, 1, true), name .. ": " .. tostring(message))
    end
    local found = tostring(pn.diagnose(column, { data = data }))
    assert(found:find("each would count 6 times", 1, true), found)
  end)

  it("is refused where no plate stands, and where rows repeat a vector", function()
    local bare = pn.model(function(m, u, v) m:observe("y", dist.normal(u, 1), v) end)
    refused("values of shape [6] and a distribution of batch shape [6, 1] and event shape []", bare.trace, bare, x, y)
    refused("each would count 7 times", bare.trace, bare, pn.zeros { 7, 6 }, y)
    refused("each would count 3 times", pn.model(function(m)
      m:observe("y", dist.normal(pn.zeros { 3, 3 }, 1):independent(1), pn.zeros { 3 })
    end).trace, pn.model(function(m)
      m:observe("y", dist.normal(pn.zeros { 3, 3 }, 1):independent(1), pn.zeros { 3 })
    end))
  end)

  it("is refused of latent variables, factors, mixtures, networks and loops over time", function()
    local net = pn.nn.linear(1, 1)
    for text, body in pairs {
      ["sample: 'z' has batch shape [6, 6], whose axis -2"] = function(m) m:sample("z", dist.normal(x, 1)) end,
      ["factor: 'f' has shape [6, 6], whose axis -2"] = function(m, a) m:factor("f", -(x * a - y):square()) end,
      ["factor: 'g' has shape [6, 1], whose axis -2"] = function(m, a) m:factor("g", x * a) end,
      ["observe: 'y' has values of shape [6] and a distribution of batch shape [6, 6]"] = function(m, a)
        m:observe("y", dist.mixture(pn.tensor { 0.5, 0.5 }, dist.normal((x * a):unsqueeze(-1) + pn.tensor { 0, 1 }, 1)),
          y)
      end,
      ["observe: 'w' has values of shape [6, 6] and a distribution of batch shape [6]"] = function(m, a)
        m:observe("w", dist.normal(a, 1), pn.zeros { 6, 6 })
      end,
      ["observe: 'v' has batch shape [6, 6], whose axis -2"] = function(m, a)
        m:observe("v", dist.normal(x * a + pn.zeros { 6 }, 1), pn.zeros { 6, 6 })
      end,
    } do
      local model = plated(body)
      local ok, message = pcall(model.trace, model)
      assert(not ok and message:find(text, 1, true), text .. " / " .. tostring(message))
    end
    local network = pn.model(function(m, u, v)
      local f = m:network("f", net)
      m:plate("rows", n, function() m:observe("y", dist.normal(f(u), 1), v) end)
    end)
    refused(told, network.trace, network, x, y)
    local loop = pn.model(function(m, v)
      m:scan("t", 2, m:sample("a", dist.normal(0, 1)), function(state)
        m:plate("rows", n, function() m:observe("y", dist.normal(x * state, 1), v) end)
        return state
      end)
    end)
    refused("'y[1]' has " .. told, loop.trace, loop, y)
  end)

  it("is refused of a guide's value with more axes than the model's law", function()
    local rows = pn.model(function(m)
      m:plate("rows", n, function()
        local z = m:sample("z", dist.normal(0, 1))
        m:observe("y", dist.normal(z, 1), y)
      end)
    end)
    assert.error_matches(function() rows:log_density { z = x } end,
      "sample: 'z' has a value of shape [6, 1], more axes", 1, true)
  end)
end)

describe("what counts once", function()
  it("goes on: vectors, laws of one number, events, numbers, two plates, masks", function()
    local model = pn.model(function(m)
      local a = m:sample("a", dist.normal(0, 1))
      m:observe("many", dist.normal(a, 1), y)
      m:observe("matrix", dist.normal(pn.zeros { 2, 3 }, 1), pn.ones { 2, 3 })
      m:observe("soft", dist.normal(pn.zeros { 3 } + a, 0.1), 0) -- a number stands for any shape
      m:plate("rows", n, function()
        m:observe("y", dist.normal(x:squeeze(-1) * a, 1), y)
        m:observe("one", dist.normal(a, 1), 0.5)
        m:observe("pairs", dist.normal(pn.zeros { n, 2 }, 1):independent(1), pn.ones { n, 2 })
        m:observe("gaps", dist.masked(dist.normal(pn.zeros { n } + a, 1), y:gt(1)), pn.where(y:gt(1), y, 0 / 0))
        m:plate("columns", 2, function()
          m:observe("table", dist.normal(pn.zeros { 2, n } + a, 1), pn.ones { 2, n })
        end)
      end)
    end)
    local t = model:trace()
    for name, count in pairs { many = 6, matrix = 6, soft = 3, y = 6, one = 6, pairs = 6, gaps = 6, table = 12 } do
      assert.equal(count, t.sites[name].log_prob:numel(), name)
    end
    pn.nuts(model, { warmup = 4, draws = 4, chains = 1 })
  end)

  it("gives the posterior that is exact", function()
    local model = plated(function(m, a, _, u, v) m:observe("y", dist.normal(u:squeeze(-1) * a, 1), v) end)
    local fit = pn.svi(model, "laplace", { data = { x, y }, steps = 200 })
    local precision = 1 + (x * x):sum():item()
    assert.is_true(math.abs(fit.guide:law():variance():item() * precision - 1) < 1e-9)
  end)
end)
