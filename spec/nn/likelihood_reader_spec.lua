-- Whoever reads likelihoods takes one in Lua in the place of a row, with the same result.
local pn = require "penumbra"
local cases = require "spec.nn.likelihood_case"
local emission = require "penumbra.models.emission"
local output_likelihood = require "penumbra.continual.output_likelihood"
local dist, nn, continual = pn.dist, pn.nn, pn.continual
local likelihood = nn.likelihood

local function gap(a, b)
  return ((a - b):abs() / (b:abs() + 1)):max():item()
end

-- In Lua alone, without closed forms.
local own = {
  normal = { heads = { "loc", "scale" }, constraint = { scale = "positive" }, law = function(h)
    return dist.normal(h.loc, h.scale)
  end },
  student_t = { heads = { "df", "loc", "scale" }, constraint = { df = "above_two", scale = "positive" },
    law = function(h) return dist.student_t(h.df, h.loc, h.scale) end },
  bernoulli = { heads = { "logits" }, targets = "binary", law = function(h)
    return dist.bernoulli { logits = h.logits }
  end },
}

local function noisy(f) return dist.normal(f, 0.4) end
local own_noisy = { heads = { "loc" }, law = function(h) return noisy(h.loc) end }

describe("a likelihood in Lua stands for a row", function()
  it("in autoencoders", function()
    for name, given in pairs { normal = own.normal, student_t = own.student_t, bernoulli = own.bernoulli } do
      local x = name == "bernoulli" and pn.rand { 5, 3 }:gt(0.5):to "float64" or pn.randn { 5, 3 }
      local function loss(kind)
        pn.seed(4)
        local m = pn.models.vae { data = 3, latent = 2, hidden = { 4 }, decoder = kind, noise = "network" }
        return m:loss(x, { draws = 3 })
      end
      assert(gap(loss(given), loss(name)) < 1e-12, name)
    end
    local x = pn.rand { 5, 3 }:gt(0.5):to "float64"
    local values = {}
    for k, kind in ipairs { "bernoulli", function(f) return dist.bernoulli { logits = f } end } do
      pn.seed(4)
      values[k] = pn.models.vae { data = 3, latent = 2, decoder = kind }:loss(x)
    end
    assert(gap(values[2], values[1]) < 1e-12)
    pn.seed(4)
    local counts = pn.models.vae { data = 3, latent = 2, decoder = "poisson" }
    local law = counts:decode(pn.randn { 5, 2 })
    assert(gap(law:mean():log(), counts.likelihood.net(pn.randn { 5, 2 })) < 20)
    assert.equal("poisson", counts.kind)
  end)

  it("in emissions and DeepAR", function()
    local y, seen = pn.randn { 4, 3 }, pn.rand { 4, 3 }:gt(0.3)
    for _, name in ipairs { "normal", "student_t" } do
      local row, lua = emission.new("e", "output", name, 3), emission.new("e", "output", own[name], 3)
      local f = pn.randn { 4, 3 * row.width }
      assert.equal(row.width, lua.width)
      assert(gap(lua:log_prob(f, y, seen), row:log_prob(f, y, seen)) < 1e-13)
      local function value(output)
        pn.seed(2)
        local m = pn.models.deepar { output = output, hidden = 5 }
        return m:log_evidence { y = pn.randn { 9, 2, 1 } }
      end
      local ok, a = pcall(value, own[name])
      assert(ok, a)
      assert(gap(a, value(name)) < 1e-12)
    end
    assert.error_matches(function() emission.new("e", "output", likelihood.categorical { classes = 2 }, 3) end,
      "e: output must not be categorical", 1, true)
  end)

  it("in sites and the learner", function()
    pn.seed(6)
    local x, y = pn.randn { 8, 2 }, pn.randn { 8, 1 }
    local net = nn.mlp({ 2, 3, 1 }, { activation = "tanh" })
    local q = dist.normal(pn.randn { 13 }, 0.3):independent(1)
    local function sites(kind, estimator, noise)
      return (continual.sites(net, x, y, { likelihood = kind, noise_scale = noise, posterior = q, draws = 40,
        estimator = estimator, generator = pn.generator(3) }))
    end
    local named = sites("normal", "hessian", 0.4)
    for _, given in ipairs { own_noisy, likelihood.normal { scale = 0.4 }, likelihood.normal { precision = 6.25 } } do
      local s = sites(given, "hessian")
      assert(gap(s.precision, named.precision) < 1e-10 and gap(s.precision_mean, named.precision_mean) < 1e-10)
    end
    -- the library's own passes take a row that is made as they take its name
    assert.same(sites("normal", nil, 0.4).precision:totable(),
      sites(likelihood.normal { scale = 0.4 }).precision:totable())
    for _, given in ipairs { noisy, function(f, t) return noisy(f):log_prob(t):sum(3) end } do
      assert(gap(sites(own_noisy).precision, sites(given).precision) < 1e-10)
    end

    local function learned(kind, noise, targets)
      local l = continual.learner { network = net, likelihood = kind, noise = noise, seed = 3, steps = { first = 30 },
        draws = { train = 3, sites = 40, predict = 30 }, update = "refit" }
      l:observe(x, targets or y)
      return l
    end
    local by_name, made = learned("normal", 0.4), learned(likelihood.normal { scale = 0.4 })
    assert.near(0.4, by_name.noise_scale, 1e-12)
    assert.same(by_name.projection.precision:totable(), made.projection.precision:totable())
    assert.same(by_name:predict(x).variance:totable(), made:predict(x).variance:totable())
    local of_row, of_function = learned(own_noisy), learned(noisy)
    assert(gap(of_row.projection.precision, of_function.projection.precision) < 1e-9)
    local counts = learned("poisson", nil, pn.rand { 8, 1 }:gt(0.5):to "float64" * 3)
    local p = counts:predict(x)
    assert(p.mean:min():item() > 0 and (p.variance - p.mean):min():item() > 0) -- at least a Poisson's variance
    assert.same({ 8, 1 }, p.mean:shape())
  end)

  it("in Laplace's approximation", function()
    pn.seed(7)
    local x, y = pn.randn { 9, 2 }, pn.randn { 9, 2 }
    local net = nn.mlp { 2, 3, 2 }
    local function evidence(given, t)
      return pn.infer.laplace(net, x, t or y, { likelihood = given, structure = "full" }):log_evidence()
    end
    local exact = evidence(function(f) return noisy(f):independent(1) end)
    assert.near(exact, evidence(likelihood.normal { scale = 0.4 }), 1e-9)
    assert.near(exact, evidence(own_noisy), 1e-9)
    local labels = pn.randint(0, 2, { 9 })
    local by_hand = evidence(function(f) return dist.categorical { logits = f } end, labels)
    assert.near(by_hand, evidence("categorical", labels), 1e-9)
    assert.near(evidence(function(f) return dist.normal(f:select(2, 1), f:select(2, 2):softplus() + 1e-6) end,
      y:select(2, 1)), evidence("normal", y:select(2, 1)), 1e-9)
  end)

  it("in expected log likelihoods", function()
    local y, m, v = pn.randn { 6 }, pn.randn { 6 }, pn.rand { 6 }
    local f = pn.infer.expected_log_likelihood
    local exact = f("normal", y, m, v, { precision = 6.25 })
    for _, given in ipairs { noisy, own_noisy, likelihood.normal { scale = 0.4 } } do
      assert(gap(f(given, y, m, v), exact) < 1e-10)
    end
    assert.error_matches(function() f(own_noisy, y, m, v, { precision = 2 }) end, "precision is of 'normal'", 1, true)
    assert.error_matches(function() f("poisson", y, m, v, { precision = 2 }) end, "precision is of 'normal'", 1, true)
  end)
end)

describe("likelihoods of outputs [S, N, out]", function()
  it("have the slopes and matrices of their values, for several targets each", function()
    pn.seed(8)
    for _, name in ipairs(likelihood.names) do
      for _, given in ipairs(cases[name].given) do
        local l = likelihood[name](given)
        local label = l.row.targets == "label"
        local kind = output_likelihood.kind("here", l)
        local out = label and l.width or 2 * l.width
        local y = label and cases[name].y(4) or cases[name].y(8):reshape { 4, 2 }
        local o = { dtype = "float64", noise_scale = kind.noise }
        local t = kind.check("here", y, 4, out, o)
        local f = pn.randn { 3, 4, out } * 0.7
        f:requires_grad(true)
        local value = kind.value(t, f, o)
        local each = label and l:law(f) or l:law(l.vector and f:reshape { 3, 4, 2, -1 } or f)
        local log_prob = each:log_prob(y)
        assert(gap(value, label and log_prob or log_prob:sum(3)) < 1e-12, tostring(l))
        local slope = pn.grad(value:sum(), { f }, { create_graph = true })[1]
        assert(gap(kind.slope(t, f:detach(), o), slope) < 1e-9, tostring(l))
        local rows = {}
        for k = 1, out do
          rows[k] = pn.grad(slope:select(3, k):sum() + (f * 0):sum(), { f }, { create_graph = true })[1]
        end
        assert(gap(kind.curvature(t, f:detach(), o), pn.stack(rows, 3)) < 1e-9, tostring(l))
      end
    end
  end)

  it("refuse what their targets cannot be", function()
    local o = { dtype = "float64" }
    local function refused(text, kind, y, out)
      local function check() return output_likelihood.kind("here", kind).check("here", y, 2, out, o) end
      assert.error_matches(check, text, 1, true)
    end
    refused("here: y must be whole numbers from 0 on", "poisson", pn.tensor { 1, -1 }, 1)
    refused("here: y must be 0 or 1", "probit", pn.tensor { 1, 0.5 }, 1)
    refused("takes 3 outputs, the network has 4", likelihood.categorical { classes = 3 },
      pn.zeros({ 2 }, { dtype = "int64" }), 4)
    refused("takes 2 outputs, the network has 3", likelihood.normal {}, pn.zeros { 2 }, 3)
    refused("noise_scale must be a positive number", "normal", pn.zeros { 2 }, 1)
  end)
end)
