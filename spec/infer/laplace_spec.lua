-- Curvature and Laplace's approximation: products against matrices by finite differences and closed forms; evidence,
-- predictions and type-II maximum likelihood of Bayesian linear regression, where all are known.
local pn = require "penumbra"
local infer, dist, nn = pn.infer, pn.dist, pn.nn
local curvature = require "penumbra.autodiff.curvature"
local message_of = require("spec.helper").message_of

local function close(got, want, limit)
  if not pn.is_tensor(want) then want = pn.tensor(want) end
  if not pn.is_tensor(got) then got = pn.tensor(got) end
  assert.same(want:shape(), got:shape())
  local off = ((got - want):abs() - want:abs() * limit):max():item()
  assert(off <= limit, ("off by %.3g"):format(off))
end

-- A small network, data for it, and its loss.
local function setting(classes)
  pn.seed(1)
  local net = nn.sequential { nn.linear(2, 4), nn.tanh(), nn.linear(4, classes or 2) }
  local x = pn.randn { 7, 2 }
  local y = classes and pn.tensor { 0, 1, 2, 1, 0, 2, 2 }:to "int64" or pn.randn { 7, 2 }
  local function likelihood(f)
    if classes then return dist.categorical { logits = f } end
    return dist.normal(f, 0.5):independent(1)
  end
  local function loss(f) return -likelihood(f):log_prob(y):sum() end
  return net, x, y, loss, likelihood
end

-- Rows of d gradient / d w by central differences.
local function differences(net, x, loss)
  local params, rows, h = net:parameters(), {}, 1e-5
  local w = curvature.flatten(params):detach() + 0
  local n = w:numel()
  local function gradient(v)
    for k, t in ipairs(curvature.unflatten(v, params)) do params[k]:set(t:contiguous()) end
    return curvature.flatten(pn.grad(loss(net(x)), params))
  end
  for j = 1, n do
    local e = pn.eye(n):select(1, j) * h
    rows[j] = (gradient(w + e) - gradient(w - e)) / (2 * h)
  end
  gradient(w)
  return pn.stack(rows, 1)
end

describe("curvature", function()
  for _, classes in ipairs { false, 3 } do
    it("is exact by products and as a matrix, " .. (classes and "of classes" or "of numbers"), function()
      local net, x, _, loss = setting(classes or nil)
      local params = net:parameters()
      local want = differences(net, x, loss)
      local h = infer.hessian_matrix(loss(net(x)), params)
      close(h, want, 1e-6)
      close(h, h:t(), 1e-10)
      pn.seed(2)
      local v = {}
      for k, p in ipairs(params) do v[k] = pn.randn(p:shape()) end
      close(curvature.flatten(infer.hessian_product(loss(net(x)), params, v)), h:matmul(curvature.flatten(v)), 1e-10)
    end)

    it("is Gauss and Newton's, " .. (classes and "of classes" or "of numbers"), function()
      local net, x, _, loss = setting(classes or nil)
      local params, f = net:parameters(), net(x)
      local j = infer.jacobian_matrix(f, params)
      -- both ways through it
      local few = infer.jacobian_matrix(f:slice(1, 1, 2), params)
      close(j:slice(1, 1, few:size(1)), few, 1e-12)
      local many = infer.jacobian_matrix(f, { params[4] })
      close(many, j:slice(2, j:size(2) - params[4]:numel() + 1, j:size(2)), 1e-12)
      local bend = infer.hessian_matrix(loss(pn.param(f:detach())), { pn.param(f:detach()) })
      assert.same({ f:numel(), f:numel() }, bend:shape())
      local leaf = pn.param(f:detach())
      bend = infer.hessian_matrix(loss(leaf), { leaf })
      local each = curvature.output_hessians(loss, f)
      for b = 1, f:size(1) do
        local c = f:size(2)
        close(each:select(1, b), bend:slice(1, (b - 1) * c + 1, b * c):slice(2, (b - 1) * c + 1, b * c), 1e-12)
      end
      pn.seed(3)
      local v = {}
      for k, p in ipairs(params) do v[k] = pn.randn(p:shape()) end
      local got = curvature.flatten(infer.gauss_newton_product(f, loss, params, v))
      close(got, j:t():matmul(bend:matmul(j:matmul(curvature.flatten(v)))), 1e-10)
    end)
  end

  it("knows networks of many parameters and outputs", function()
    pn.seed(8)
    local net, x = nn.linear(20, 7), pn.randn { 15, 20 }
    local params = net:parameters() -- 147 elements, 105 outputs
    local j = infer.jacobian_matrix(net(x), params)
    assert.same({ 105, 147 }, j:shape())
    local v = { pn.randn { 20, 7 }, pn.randn { 7 } }
    close(j:matmul(curvature.flatten(v)), (x:matmul(v[1]) + v[2]):reshape { 105 }, 1e-12)
    local wide = infer.jacobian_matrix(nn.linear(20, 7)(pn.randn { 40, 20 }), { params[2] })
    assert.same({ 280, 7 }, wide:shape())
    local loss = ((net(x) ^ 2):sum() * 0.5)
    close(infer.hessian_matrix(loss, params), j:t():matmul(j), 1e-10)
  end)

  it("of what is linear is zero, and vectors must fit", function()
    local w = pn.param(pn.ones { 3 })
    assert.same({ 0, 0, 0 }, infer.hessian_product((w * 2):sum(), { w }, { pn.ones { 3 } })[1]:totable())
    assert.same({ { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 } }, infer.hessian_matrix((w * 2):sum(), { w }):totable())
    assert.matches("hessian_product: v must be a list of 1 tensors, one for each parameter, got 2",
      message_of(infer.hessian_product, w:sum(), { w }, { w, w }))
  end)
end)

-- Bayesian linear regression with known evidence.
local function regression(n, d, seed)
  pn.seed(seed)
  local x = pn.randn { n, d } * pn.linspace(0.3, 2, d)
  return x, x:matmul(pn.linspace(-1, 1.5, d)) + pn.randn { n } * 0.4
end
local function log_evidence(x, y, alpha, beta)
  local n = x:size(1)
  local covariance = x:matmul(x:t()) / alpha + pn.eye(n) / beta
  return dist.multivariate_normal { loc = pn.zeros { n }, covariance_matrix = covariance }:log_prob(y)
end

describe("type-II maximum likelihood", function()
  it("is where the gradient of the evidence is zero", function()
    local x, y = regression(30, 4, 4)
    for _, learn in ipairs { true, false } do
      local r = assert(infer.evidence_fixed_point(x, y, { beta = 5, learn_beta = learn }))
      local a, b = pn.param(pn.tensor(math.log(r.alpha))), pn.param(pn.tensor(math.log(r.beta)))
      local value = log_evidence(x, y, a:exp(), b:exp())
      close(r.log_evidence, value:item(), 1e-10)
      local g = pn.grad(value, { a, b })
      assert(math.abs(g[1]:item()) < 1e-6)
      assert(learn == (math.abs(g[2]:item()) < 1e-6), "beta is learnt or not")
      assert(learn or r.beta == 5)
      -- a climb by gradients ends there
      local opt = pn.optim.adam(learn and { a, b } or { a }, { lr = 0.05 })
      a:set(pn.tensor(0.0))
      for _ = 1, 800 do opt:step(-log_evidence(x, y, a:exp(), b:exp())) end
      close(math.exp(a:item()), r.alpha, 1e-3)
    end
  end)

  it("says where there is no such point", function()
    local x = pn.randn { 20, 2 }
    local r, message, code = infer.evidence_fixed_point(x, pn.zeros { 20 }, { max_steps = 50 })
    assert.is_nil(r)
    assert.matches("did not settle in 50 steps", message)
    assert.equal("DEGENERATE", code)
    for _, bad in ipairs { { alpha = 0 }, { alpha = -1 }, { beta = 0 }, { beta = -2 }, { alpha = 0, beta = 0 } } do
      assert.matches("evidence_fixed_point: alpha and beta must be positive",
        message_of(infer.evidence_fixed_point, x, pn.ones { 20 }, bad))
    end
    for _, shape in ipairs { { 20, 1 }, { 19 } } do
      assert.matches("evidence_fixed_point: x must be %[N, D%]", message_of(infer.evidence_fixed_point, x,
        pn.zeros(shape)))
    end
    assert.matches("evidence_fixed_point: x must be %[N, D%]", message_of(infer.evidence_fixed_point, x[1],
      pn.zeros { 20 }))
    assert.matches("evidence_fixed_point: x must be %[N, D%] and y %[N%]",
      message_of(infer.evidence_fixed_point, x, pn.zeros { 3 }))
  end)
end)

describe("Laplace's approximation", function()
  -- weights and bias of a linear layer, y of two columns with different noise
  local function linear_model()
    local x, y = regression(25, 3, 5)
    local both = pn.stack({ y, y * 0.5 + x:select(2, 1) }, 2)
    local scale = pn.tensor { 0.4, 0.8 }
    local alpha, design = 0.7, pn.concatenate({ x, pn.ones { 25, 1 } }, 2)
    local net = nn.sequential { nn.linear(3, 2) }
    local want, means, variances = 0, {}, {}
    for c = 1, 2 do
      local beta = scale:select(1, c):item() ^ -2
      want = want + log_evidence(design, both:select(2, c), alpha, beta):item()
      local precision = design:t():matmul(design) * beta + pn.eye(4) * alpha
      means[c] = precision:solve(design:t():matmul(both:select(2, c)) * beta)
      variances[c] = precision:inverse()
    end
    local w = pn.stack(means, 2)
    net:parameters()[1]:set(w:slice(1, 1, 3):contiguous())
    net:parameters()[2]:set(w:select(1, 4):contiguous())
    return net, x, both, function(f) return dist.normal(f, scale):independent(1) end, alpha, want, variances, design
  end

  for _, structure in ipairs { "full", "kronecker", "last_layer" } do
    it("is exact for a linear model: " .. structure, function()
      local net, x, y, likelihood, alpha, want, variances, design = linear_model()
      local la = infer.laplace(net, x, y, { likelihood = likelihood, prior_precision = alpha, structure = structure })
      close(la:log_evidence(), want, 1e-10)
      local out = la:linearised(x:slice(1, 1, 5))
      assert.same({ 5 }, out.batch_shape)
      close(out.loc, net(x:slice(1, 1, 5)):detach(), 1e-12)
      for c = 1, 2 do
        local d = design:slice(1, 1, 5)
        local exact = (d:matmul(variances[c]) * d):sum(2)
        close(out.covariance_matrix:select(2, c):select(2, c), exact, 1e-9)
      end
      assert(out.covariance_matrix:select(2, 1):select(2, 2):abs():max():item() < 1e-12)
      if structure ~= "kronecker" then
        local sd = la:posterior():variance()
        close(sd:slice(1, 7, 8), pn.stack({ variances[1]:select(1, 4):select(1, 4),
          variances[2]:select(1, 4):select(1, 4) }, 1), 1e-9)
      else
        assert.matches("posterior: the kronecker structure has none in one piece", message_of(la.posterior, la))
      end
    end)
  end

  it("fits the prior by the fixed point, where the evidence is largest", function()
    local net, x, y, likelihood = linear_model()
    for _, structure in ipairs { "full", "diagonal", "kronecker" } do
      local la = infer.laplace(net, x, y, { likelihood = likelihood, structure = structure }):fit_prior()
      local a = la.prior_precision
      assert(la:log_evidence() > la:with_prior(a * 1.01):log_evidence())
      assert(la:log_evidence() > la:with_prior(a * 0.99):log_evidence())
      close(a * (la.loc ^ 2):sum():item(), la:effective_parameters(), 1e-9)
    end
  end)

  it("has the diagonal of Gauss and Newton's matrix, and the matrix, of a network", function()
    for _, classes in ipairs { false, 3 } do
      local net, x, y, loss, likelihood = setting(classes or nil)
      local f, params = net(x), net:parameters()
      local leaf = pn.param(f:detach())
      local j, bend = infer.jacobian_matrix(f, params), infer.hessian_matrix(loss(leaf), { leaf })
      local h = j:t():matmul(bend:matmul(j))
      local given = { likelihood = likelihood, prior_precision = 2 }
      local full = infer.laplace(net, x, y, given)
      local p = h:size(1)
      local want = loss(f):item() * -1 - (full.loc ^ 2):sum():item() + p / 2 * math.log(2)
        - 0.5 * (h + pn.eye(p) * 2):logdet():item()
      close(full:log_evidence(), want, 1e-9)
      local c = f:size(2)
      local first = j:slice(1, 1, c)
      close(full:linearised(x).covariance_matrix:select(1, 1),
        first:matmul((h + pn.eye(p) * 2):inverse()):matmul(first:t()), 1e-9)
      given.structure = "diagonal"
      local diagonal = infer.laplace(net, x, y, given)
      close(diagonal:posterior():variance(), 1 / (h:diagonal() + 2), 1e-10)
      close(diagonal:linearised(x).covariance_matrix:select(1, 1),
        (first / (h:diagonal() + 2)):matmul(first:t()), 1e-10)
      given.structure = "last_layer"
      local last = infer.laplace(net, x, y, given)
      assert.equal(net[3]:parameters()[1]:numel() + net[3]:parameters()[2]:numel(), last.loc:numel())
      local from = p - last.loc:numel() + 1
      close(last:posterior().covariance_matrix,
        (h:slice(1, from, p):slice(2, from, p) + pn.eye(last.loc:numel()) * 2):inverse(), 1e-9)
    end
  end)

  it("has Kronecker factors of each layer", function()
    local net, x, y, loss, likelihood = setting(3)
    local given = { likelihood = likelihood, prior_precision = 2, structure = "kronecker" }
    local la = infer.laplace(net, x, y, given)
    -- written out: A = (1/B) sum a a', G = sum g H g' of each layer, precision A x G + 2
    local hidden = net[1](x)
    local a = { pn.concatenate({ x, pn.ones { 7, 1 } }, 2), pn.concatenate({ hidden:tanh(), pn.ones { 7, 1 } }, 2) }
    local f = net(x)
    local bend = curvature.output_hessians(loss, f)
    local w = net[3]:parameters()[1]
    local slope = 1 - hidden:tanh() ^ 2 -- [7, 4]
    local g = { w:t():unsqueeze(1) * slope:unsqueeze(2), pn.eye(3):unsqueeze(1):broadcast_to { 7, 3, 3 } }
    local det, at, covariance = 0, a, 0
    for l = 1, 2 do
      local big_a = a[l]:t():matmul(a[l]) / 7
      local big_g = pn.einsum("bci,bcd,bdj->ij", { g[l], bend, g[l] })
      local na, ng = big_a:size(1), big_g:size(1)
      local kron = pn.einsum("ij,kl->ikjl", { big_a, big_g }):reshape { na * ng, na * ng } + pn.eye(na * ng) * 2
      det = det + kron:logdet():item()
      local j = pn.einsum("bi,bco->bcio", { at[l], g[l] }):reshape { 7, 3, na * ng }
      covariance = covariance + j:matmul(kron:inverse()):matmul(j:transpose(-1, -2))
    end
    local p = la.loc:numel()
    close(la:log_evidence(), -loss(f):item() - (la.loc ^ 2):sum():item() + p / 2 * math.log(2) - 0.5 * det, 1e-9)
    close(la:linearised(x).covariance_matrix, covariance:detach(), 1e-9)
  end)

  it("works at the maximum that `map` climbs to", function()
    local net, x, y, _, likelihood = setting(3)
    local opt = pn.optim.adam(net:parameters(), { lr = 0.05 })
    local function objective()
      local prior = 0
      for _, p in ipairs(net:parameters()) do prior = prior - (p ^ 2):sum() end
      return infer.map { log_likelihood = likelihood(net(x)):log_prob(y), log_prior = prior, num_data = 7 }
    end
    for k = 1, 2000 do
      opt.lr = k < 1000 and 0.05 or 0.05 * 0.99 ^ (k - 1000)
      opt:step(-objective())
    end
    for _, g in ipairs(pn.grad(objective(), net:parameters())) do assert(g:abs():max():item() < 1e-3) end
    local la = infer.laplace(net, x, y, { likelihood = likelihood, prior_precision = 2 })
    -- importance sampling from it: the evidence within what it tells, and weights that may be trusted
    local q, params, kept = la:posterior(), net:parameters(), la.loc
    local log_w = {}
    pn.seed(6)
    for k = 1, 1500 do
      local w = q:sample()
      for i, t in ipairs(curvature.unflatten(w, params)) do params[i]:set(t:contiguous()) end
      local log_p = likelihood(net(x)):log_prob(y):sum() + dist.normal(0, 0.5 ^ 0.5):log_prob(w):sum()
      log_w[k] = (log_p - q:log_prob(w)):item()
    end
    for i, t in ipairs(curvature.unflatten(kept, params)) do params[i]:set(t:contiguous()) end
    log_w = pn.tensor(log_w):unsqueeze(2)
    local _, k = infer.psis(log_w)
    local s = infer.stream():add(log_w)
    assert(k:item() < 1)
    assert(s:standard_error():item() < 0.1)
    assert(math.abs(s:log_mean():item() - la:log_evidence()) < 0.6) -- what Laplace's approximation costs here
  end)

  it("says what it cannot do", function()
    local net, x, y, _, likelihood = setting(3)
    local function refused(text, n, given)
      assert.matches(text, message_of(infer.laplace, n, x, y, given))
    end
    refused("laplace: prior_precision must be positive, got 0", net, { likelihood = likelihood, prior_precision = 0 })
    refused("laplace: option 'likelihood' is required", net, {})
    refused("likelihood must give one density for each of 7 data", net,
      { likelihood = function(f) return dist.categorical { logits = f }:independent(1) end })
    local gru = nn.sequential { nn.gru(2, 3) }
    refused("laplace: the structure kronecker needs an nn.sequential whose last layer is linear", gru,
      { likelihood = likelihood, structure = "kronecker" })
    local nested = nn.sequential { nn.sequential { nn.linear(2, 3) }, nn.linear(3, 3) }
    refused("laplace: layer 1 must be linear or without parameters for the kronecker structure, got a network", nested,
      { likelihood = likelihood, structure = "kronecker" })
  end)
end)
