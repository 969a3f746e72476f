--- What is told of a fit or of draws has no graph, even where parameters went in; what a loss is made of has one.
local pn = require "penumbra"
local dist, nn, infer = pn.dist, pn.nn, pn.infer

local function has_none(t, what)
  if pn.is_tensor(t) then
    assert.is_false(t:requires_grad(), what)
  else
    for name, value in pairs(t) do has_none(value, ("%s.%s"):format(what, name)) end
  end
end

local model = pn.model(function(m, y)
  local scale = m:param("scale", 1.5, { constraint = "positive" })
  local a = m:sample("a", dist.normal(m:param("loc", 0.3), scale))
  m:deterministic("twice", a * 2)
  m:observe("y", dist.normal(a, 1):expand { 3 }:independent(1), y)
end)
local guide = pn.model(function(g)
  g:sample("a", dist.normal(g:param("at", 0.1), 0.5))
end)

describe("results without a graph:", function()
  it("draws, predictions, values and parameters of a fit", function()
    pn.seed(1)
    local y = pn.tensor { 1, 2, 0.5 }
    for _, of in ipairs { "mean_field", guide } do
      local fit = pn.svi(model, of, { data = { y }, steps = 2, draws = 3 })
      has_none(fit:sample(4), "sample")
      has_none(fit:predict { draws = 3 }, "predict")
      has_none(model:param "loc", "loc")
      has_none(model:param "scale", "scale")
      local value = fit:bound { draws = 20 }
      has_none(pn.is_tensor(value) and { value } or {}, "bound")
    end
    has_none(guide:param "at", "at")
    local p = pn.nuts(pn.model(function(m) m:observe("y", dist.normal(m:sample("a", dist.normal(0, 1)), 1):expand { 3 }
      :independent(1), y) end), { chains = 1, warmup = 5, draws = 4 })
    has_none(p.draws, "draws")
    has_none(p:predict(), "predict")
    has_none(p:log_likelihood(), "log_likelihood")
    has_none(p.statistics, "statistics")
    local one = pn.param(1)
    has_none(pn.prior_predictive(pn.model(function(m)
      m:observe("y", dist.normal(m:sample("a", dist.normal(one, 1)), 1), 0)
    end), { draws = 3 }), "prior")
  end)

  it("standard errors, but not the estimates", function()
    local loc = pn.param(0.4)
    local p, q = dist.normal(loc, 1), dist.normal(0, 2)
    for name, e in pairs { kl = dist.kl_monte_carlo(p, q, { draws = 5 }), entropy = dist.entropy_monte_carlo(
      dist.normal(0, loc:exp()), { draws = 5 }), expectation = dist.expectation_monte_carlo(p, function(x)
        return x * x
      end, { draws = 5, pathwise = true }) } do
      assert.is_true(e.value:requires_grad(), name)
      has_none(e.se, name)
    end
  end)

  it("outputs of Laplace's approximation, slopes of likelihoods", function()
    pn.seed(2)
    local net, x, y = nn.linear(2, 1), pn.randn { 6, 2 }, pn.randn { 6, 1 }
    local l = infer.laplace(net, x, y, { likelihood = nn.likelihood.normal { scale = 1 }, structure = "full" })
    local law = l:linearised(pn.param(x))
    has_none({ law:mean(), law.covariance_matrix }, "linearised")
    local post = l:posterior()
    has_none({ post:mean() }, "posterior")
    local f = pn.param(pn.randn { 4 })
    local own = nn.likelihood.read("here", function(g) return dist.laplace(g, 1) end)
    has_none({ own:slope(pn.randn { 4 }, f), own:curvature(pn.randn { 4 }, f) }, "likelihood")
    assert.is_true(own:value(pn.randn { 4 }, f):requires_grad())
    has_none({ pn.matrix_rank(pn.param(pn.randn { 3, 3 })) }, "rank")
    local w = pn.param(pn.randn { 2, 2 })
    assert.is_true(pn.pinv(w):requires_grad())
    has_none(net:state(), "state")
  end)
end)
