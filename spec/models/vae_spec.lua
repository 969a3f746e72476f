-- Deep latent-variable models against models whose evidence is known: by formula where everything is linear, by sums
-- over a grid of latents where it is not.
local pn = require "penumbra"
local hierarchy = require "penumbra.models.hierarchy"
local dist, nn = pn.dist, pn.nn

local function set(layer, weight, bias)
  local p = layer:parameters()
  p[1]:set(pn.tensor(weight))
  p[2]:set(pn.tensor(bias))
end

-- x = W z + b + noise of variances psi, W with columns that are orthogonal in the metric of psi: the posterior's
-- covariance is diagonal, so that the encoder can be exact.
local W, B, PSI = { { 1.2, 0.3 }, { 0.6, -0.6 } }, { 0.5, -1 }, { 0.5, 0.5 }

local function factor_analysis(dtype)
  local m = pn.models.vae { data = 2, latent = 2, hidden = {}, decoder = "normal", dtype = dtype }
  local w = pn.tensor(W) -- [data, latent]
  local p = pn.tensor(PSI)
  set(m.likelihood.net[1], w:t():totable(), B)
  m.likelihood.log_scale:set(p:log() * 0.5)
  return m, w, p
end

local function evidence_of(m, x)
  local w, b = table.unpack(m.likelihood.net[1]:parameters())
  local covariance = w:t():matmul(w) + (m.likelihood.log_scale * 2):exp():diag_embed()
  return dist.multivariate_normal { loc = b, covariance_matrix = covariance }:log_prob(x)
end

describe("a linear autoencoder", function()
  it("with the exact posterior has the evidence as its bound, whatever is drawn", function()
    pn.seed(1)
    local m = pn.models.vae { data = 3, latent = 2, hidden = {}, decoder = "normal" }
    local w = pn.tensor { { 1, 2 }, { 2, -1 }, { 0, 0.5 } } -- orthogonal columns
    local s2 = 0.3
    set(m.likelihood.net[1], w:t():totable(), { 0.5, -1, 2 })
    m.likelihood.log_scale:set(pn.full({ 3 }, 0.5 * math.log(s2)))
    local precision = (w:t():matmul(w) / s2 + pn.eye(2)):diagonal()
    local gain = (w / s2) / precision -- [3, 2]: mean = (x - b) gain
    local bias = -(pn.tensor { { 0.5, -1, 2 } }:matmul(gain))[1]
    set(m.latents.encoder[1][1], pn.concatenate({ gain, pn.zeros { 3, 2 } }, 2):totable(),
      pn.concatenate({ bias, -precision:log() }, 1):totable())
    local x = pn.randn { 7, 3 } * 2
    local exact = evidence_of(m, x)
    for _, draws in ipairs { 1, 3, 2500 } do
      local more = m:bound(x, { draws = draws, batch_size = 3 })
      local value = more.value
      assert.near(exact:mean():item(), value, 1e-8)
      if draws > 1 then
        assert.is_true(more.se < 1e-8)
        assert.matches("^%-[%d.]+ %(standard error [%d.e-]+%)$", tostring(more))
      end
      assert.near(0, (more.each - exact):abs():max():item(), 1e-8)
      assert.near(value, more.elbo, 1e-8)
      assert.near(draws, more.effective_sample_size, 1e-5 * draws)
    end
    for _, objective in ipairs { "iwae", "dreg" } do
      assert.near(-exact:mean():item(), m:loss(x, { objective = objective, draws = 4 }):item(), 1e-8)
    end
    -- the closed divergence and one draw: right on average
    local mean = m:loss(x, { draws = 20000 }):item()
    assert.near(-exact:mean():item(), mean, 0.05)
  end)

  it("learns to close the gap to its own evidence", function()
    pn.seed(2)
    local target = factor_analysis()
    local x = target:generate(400, { sample = true })
    local m = pn.models.vae { data = 2, latent = 1, hidden = {}, decoder = "normal" }
    local before = m:bound(x, { draws = 1 }).value
    m:fit { data = x, epochs = 150, batch_size = 50, lr = 0.02, draws = 2 }
    local exact = evidence_of(m, x):mean():item()
    local more = m:bound(x, { draws = 200, batch_size = 400 })
    local value = more.value
    assert.is_true(exact > before + 0.2)
    assert.near(exact, value, 0.01)
    assert.is_true(more.elbo <= value and more.elbo > exact - 0.05)
  end)
end)

-- The evidence of models of one latent number: a sum over a grid.
local grid = pn.linspace(-9, 9, 1801):unsqueeze(2)

local function by_grid(m, x, c)
  local out = {}
  for k = 1, x:size(1) do
    local n = grid:size(1)
    local cs = c and c:slice(1, k, k):broadcast_to { n, c:size(2) }:contiguous()
    local given = x:slice(1, k, k):broadcast_to { n, x:size(2) }:contiguous()
    local prior = m.latents.prior[1] and m.latents:run(m.likelihood:given(given), cs, { given = { grid } }).p[1]
      or dist.normal(pn.zeros { 1 }, pn.ones { 1 }):independent(1)
    local log_p = m:decode(grid, { condition = cs }):log_prob(given) + prior:log_prob(grid)
    out[k] = log_p:logsumexp(1):item() + math.log(0.01)
  end
  return pn.tensor(out)
end

describe("the bound of many draws", function()
  local cases = {
    bernoulli = {}, normal = { noise = "network" }, categorical = { categories = 3 }, mixture = { components = 3 },
    flow = { decoder = "bernoulli", posterior = "flow", flow = "planar", flows = 2 },
    conditional = { decoder = "bernoulli", condition = 2, prior = "conditional" },
  }
  for name, o in pairs(cases) do
    it("reaches the evidence of a model: " .. name, function()
      pn.seed(5)
      o.data, o.latent, o.hidden, o.decoder = 3, 1, { 4 }, o.decoder or name
      local m = pn.models.vae(o)
      for _, w in ipairs(m.likelihood:parameters()) do w:set(w * 1.5) end
      local x = name == "categorical" and (pn.rand { 4, 3 } * 3):floor():to "int64"
        or pn.rand { 4, 3 }:gt(0.5):to "float64"
      local c = o.condition and pn.randn { 4, 2 } * 3
      local exact = by_grid(m, x, c)
      local more = m:bound(x, { draws = 20000, batch_size = 3, condition = c })
      local wrong = (more.each - exact):abs():max():item()
      assert.is_true(wrong < 0.05, ("%g"):format(wrong))
      -- more draws never lower it, up to the error of the estimate
      local one = m:bound(x:take(1, pn.zeros({ 2000 }, { dtype = "int64" })), { draws = 1, batch_size = 2000,
        condition = c and c:take(1, pn.zeros({ 2000 }, { dtype = "int64" })) }).value
      local ten_more = m:bound(x:take(1, pn.zeros({ 2000 }, { dtype = "int64" })), { draws = 10, batch_size = 200,
        condition = c and c:take(1, pn.zeros({ 2000 }, { dtype = "int64" })) })
      local ten = ten_more.value
      assert.is_true(one < ten and ten < exact[1]:item() + 0.02)
      assert.is_true(ten_more.elbo < ten)
      -- the loss, by a divergence in closed form, agrees with one by draws
      local loss = m:loss(x:slice(1, 1, 1), { draws = 20000, condition = c and c:slice(1, 1, 1) })
      assert.near(-one, loss:item(), 0.1)
    end)
  end
end)

describe("what a bound tells", function()
  it("are moments of the weights that its draws have, in blocks of data of unequal sizes", function()
    pn.seed(12)
    local m = pn.models.vae { data = 4, latent = 2, hidden = { 3 } }
    local x, draws, q = pn.rand { 5, 4 }:gt(0.5):to "float64", 30, m:amortised_posterior()
    pn.seed(13)
    local b = m:bound(x, { draws = draws, batch_size = 3 })
    pn.seed(13)
    local list = {}
    for _, rows in ipairs { x:slice(1, 1, 3), x:slice(1, 4, 5) } do
      local z, log_q = q:draw(rows, draws)
      list[#list + 1] = (m:log_joint(z, rows) - log_q):detach()
    end
    local log_w = pn.concatenate(list, 2)
    local each, share = log_w:logsumexp(1) - math.log(draws), log_w:softmax(1)
    assert.near(0, (b.each - each):abs():max():item(), 1e-10)
    assert.near(each:mean():item(), b.value, 1e-10)
    assert.near(log_w:mean():item(), b.elbo, 1e-10)
    assert.near((1 / share:square():sum(1)):mean():item(), b.effective_sample_size, 1e-9)
    local stream = pn.infer.stream { draws = draws }
    stream:add(log_w)
    assert.near(stream:standard_error():square():sum():sqrt():item() / 5, b.se, 1e-10)
  end)
end)

describe("the encoder's posterior on its own", function()
  it("has draws and densities with gradients in its parameters", function()
    pn.seed(17)
    local m = pn.models.vae { data = 4, latent = 2, hidden = { 3 }, activation = "tanh" }
    local x, q = pn.rand({ 5, 4 }):gt(0.5):to "float64", m:amortised_posterior()
    local function with(weight)
      return pn.check_gradients(function()
        local z, log_q = q:draw(x, 3, pn.generator(2))
        return (z * pn.tensor { 1, -2 }):sin():sum() + weight * log_q:sum()
      end, q:parameters()).error
    end
    assert.is_true(with(0) < 1e-6 and with(0.7) < 1e-6)
  end)
end)

describe("a loss", function()
  it("of so many draws is the mean of log p(x | z) at them, less the divergence, with one draw or more", function()
    local m = pn.models.vae { data = 4, latent = 2, hidden = { 3 } }
    local x = pn.rand { 5, 4 }:gt(0.5):to "float64"
    local law = m:posterior_law(x)
    local divergence = dist.kl(law, dist.normal(pn.zeros { 2 }, 1):independent(1))
    for draws = 1, 3 do
      pn.seed(draws)
      local loss = m:loss(x, { draws = draws })
      pn.seed(draws)
      local z = draws > 1 and law:rsample { draws } or law:rsample():unsqueeze(1)
      local ll = 0
      for k = 1, draws do ll = ll + m:decode(z[k]):log_prob(x) / draws end
      assert.near((divergence - ll):mean():item(), loss:item(), 1e-12)
    end
  end)

  it("has 50 draws by default where they are weighed, one where they are not", function()
    local x = pn.rand { 6, 3 }:gt(0.5):to "float64"
    for objective, draws in pairs { elbo = 1, iwae = 50, dreg = 50 } do
      local lists = {}
      for k, given in ipairs { {}, { draws = draws }, { draws = draws + 1 } } do
        pn.seed(4)
        local m = pn.models.vae { data = 3, latent = 1, hidden = { 2 } }
        given.data, given.epochs, given.objective, given.seed = x, 2, objective, 1
        lists[k] = m:fit(given).history
      end
      assert.same(lists[2], lists[1])
      assert.are_not.same(lists[3], lists[1])
    end
  end)
end)

describe("a likelihood", function()
  -- The law by the networks' outputs y at latents z, from its formula.
  local formulas = {
    bernoulli = function(_, y, x) return (x * y - y:softplus()):sum(2) end,
    normal = function(_, y, x)
      return dist.normal(y:slice(2, 1, 3), (y:slice(2, 4, 6) / 2):exp()):log_prob(x):sum(2)
    end,
    shared = function(m, y, x) return dist.normal(y, m.likelihood.log_scale:exp()):log_prob(x):sum(2) end,
    categorical = function(_, y, x)
      return y:reshape { 4, 3, 3 }:log_softmax(3):gather(3, x:unsqueeze(3)):squeeze(3):sum(2)
    end,
    mixture = function(_, y, x)
      local logits, loc = y:slice(2, 1, 6):reshape { 4, 3, 2 }, y:slice(2, 7, 12):reshape { 4, 3, 2 }
      local scale = (y:slice(2, 13, 18):reshape { 4, 3, 2 } / 2):exp()
      local each = dist.normal(loc, scale):log_prob(x:unsqueeze(3):broadcast_to { 4, 3, 2 })
      return (logits:log_softmax(3) + each):logsumexp(3):sum(2)
    end,
  }
  for name, formula in pairs(formulas) do
    it("is what its name says: " .. name, function()
      pn.seed(14)
      local m = pn.models.vae { data = 3, latent = 2, hidden = { 4 }, decoder = name == "shared" and "normal" or name,
        noise = name == "shared" and "shared" or "network", categories = 3, components = 2 }
      if name == "shared" then m.likelihood.log_scale:set(pn.tensor { 0.2, -0.3, 0.5 }) end
      local x = name == "categorical" and (pn.rand { 4, 3 } * 3):floor():to "int64"
        or pn.rand { 4, 3 }:gt(0.5):to "float64"
      local z = pn.randn { 4, 2 }
      local want = formula(m, m.likelihood.net(z), x)
      assert.near(0, (m:decode(z):log_prob(x) - want):abs():max():item(), 1e-10)
    end)
  end
end)

-- Two levels of one number each, all affine with constant variances.
local function chain(structure)
  local m = pn.models.vae { data = 1, latent = { 1, 1 }, hidden = structure == "ladder" and { { 2 }, { 2 } } or {},
    decoder = "normal", structure = structure, layers = 2 }
  local prior = m.latents.prior[1]
  if structure == "backward" then
    set(prior[1], { { 0.8, 0 } }, { 0.3, math.log(0.5) })
    set(m.likelihood.net[1], { { 1.5 } }, { -0.2 })
    set(m.latents.encoder[1][1], { { 0.4, 0 } }, { 0.1, math.log(0.4) })
    set(m.latents.encoder[2][1], { { 0.7, 0 } }, { -0.1, math.log(0.6) })
  end
  m.likelihood.log_scale:set(pn.full({ 1 }, math.log(0.7)))
  return m
end

-- All pairs of the grid as latents [n^2, 1] twice, and the area of a cell.
local function plane(step)
  local g = pn.arange(math.floor(14 / step) + 1) * step - 7
  local n = g:numel()
  local a = g:unsqueeze(2):broadcast_to { n, n }:contiguous():reshape { n * n, 1 }
  local b = g:unsqueeze(1):broadcast_to { n, n }:contiguous():reshape { n * n, 1 }
  return { a, b }, step * step
end

describe("a hierarchy", function()
  it("has the densities of its factors", function()
    local m = chain "backward"
    local x, z = pn.tensor { { 1.1 }, { -0.4 } }, { pn.tensor { { 0.2 }, { 1 } }, pn.tensor { { -0.5 }, { 0.9 } } }
    local run = m.latents:run(x, nil, { given = z })
    local log_p = dist.normal(0, 1):log_prob(z[2]) + dist.normal(0.8 * z[2] + 0.3, 0.5 ^ 0.5):log_prob(z[1])
    local log_q = dist.normal(0.4 * x + 0.1, 0.4 ^ 0.5):log_prob(z[1])
      + dist.normal(0.7 * z[1] - 0.1, 0.6 ^ 0.5):log_prob(z[2])
    assert.near(0, (m.latents:log_prior(run) - log_p:squeeze(2)):abs():max():item(), 1e-12)
    assert.near(0, (m.latents:log_posterior(run) - log_q:squeeze(2)):abs():max():item(), 1e-12)
    -- the evidence of the affine model, reached by the bound
    local exact = dist.normal(1.5 * 0.3 - 0.2, (1.5 ^ 2 * (0.64 + 0.5) + 0.49) ^ 0.5):log_prob(x):mean():item()
    assert.near(exact, m:bound(x, { draws = 40000 }).value, 0.02)
  end)

  for _, structure in ipairs { "backward", "ladder" } do
    it("has a normalised posterior, and a bound below the evidence: " .. structure, function()
      pn.seed(3)
      local m = chain(structure)
      local x = pn.tensor { { 0.7 } }
      local z, cell = plane(0.1)
      local n = z[1]:size(1)
      local run = m.latents:run(x:broadcast_to { n, 1 }:contiguous(), nil, { given = z })
      assert.near(1, m.latents:log_posterior(run):exp():sum():item() * cell, 1e-4)
      assert.near(1, m.latents:log_prior(run):exp():sum():item() * cell, 1e-4)
      local joint = m:decode(z[1]):log_prob(x:broadcast_to { n, 1 }:contiguous()) + m.latents:log_prior(run)
      local exact = joint:logsumexp(1):item() + math.log(cell)
      assert.near(exact, m:bound(x, { draws = 40000 }).value, 0.02)
      -- E_q[log p - log q] on the grid against the loss with closed divergences
      local q = m.latents:log_posterior(run)
      local elbo = (q:exp() * (joint - q)):sum():item() * cell
      assert.near(-elbo, m:loss(x, { draws = 40000 }):item(), 0.05)
      assert.is_true(elbo < exact)
    end)
  end

  it("of ladders multiplies normals of any width, with slopes, in float32", function()
    local a = pn.param(pn.tensor({ { 1, -2, -100, 60 } }, { dtype = "float32" }))
    local b = pn.param(pn.tensor({ { 3, 5, 40, -90 } }, { dtype = "float32" }))
    local product = hierarchy.product(a, b)
    assert.same({ { 1, 5 } }, product:mean():totable()) -- the narrow one of each pair decides
    local width = product.scale:totable()[1]
    assert.near(1, width[1] / math.exp(-50), 1e-4)
    assert.near(1, width[2] / math.exp(-45), 1e-4)
    for _, g in ipairs(pn.grad(product:mean():sum() + product.scale:log():sum(), { a, b })) do
      assert.is_true(g:isfinite():all():item())
    end
  end)

  it("of ladders multiplies two normals at each level", function()
    pn.seed(4)
    local a, b = pn.randn { 5, 4 }, pn.randn { 5, 4 }
    local product = hierarchy.product(a, b)
    local function part(y) return y:slice(2, 1, 2), y:slice(2, 3, 4):exp() end
    local ma, va = part(a)
    local mb, vb = part(b)
    local x = pn.randn { 5, 2 }
    -- log of the product less that of the result is the same constant wherever x is
    local function ratio(at)
      return dist.normal(ma, va:sqrt()):log_prob(at):sum(2) + dist.normal(mb, vb:sqrt()):log_prob(at):sum(2)
        - product:log_prob(at)
    end
    assert.near(0, (ratio(x) - ratio(x + 1.3)):abs():max():item(), 1e-10)
    -- and is so used: the top with the standard normal, below with p(z_1 | z_2)
    local m = pn.models.vae { data = 3, latent = { 2, 2 }, hidden = { 4 }, structure = "ladder" }
    local data = pn.rand { 5, 3 }:gt(0.5):to "float64"
    local run = m.latents:run(data, nil, {})
    local d1 = m.latents.encoder[1](data)
    local h1, h2 = m.latents.heads[1](d1), m.latents.heads[2](m.latents.encoder[2](d1))
    assert.near(0, (run.q[2]:mean() - hierarchy.product(h2, pn.zeros { 4 }):mean()):abs():max():item(), 1e-12)
    local p1 = m.latents.prior[1](run.z[2])
    assert.near(0, (run.q[1]:mean() - hierarchy.product(h1, p1):mean()):abs():max():item(), 1e-12)
    assert.near(0, (run.p[1]:mean() - p1:slice(2, 1, 2)):abs():max():item(), 1e-12)
  end)
end)

-- The exact posterior of factor_analysis, or a wrong one that covers it.
local encoders = {
  exact = function(m, w, psi)
    local precision = (w:t():matmul(w / psi:unsqueeze(2)) + pn.eye(2)):diagonal()
    local gain = (w / psi:unsqueeze(2)) / precision
    set(m.latents.encoder[1][1], pn.concatenate({ gain, pn.zeros { 2, 2 } }, 2):totable(),
      pn.concatenate({ -pn.tensor { B }:matmul(gain)[1], -precision:log() }, 1):totable())
  end,
  wrong = function(m)
    set(m.latents.encoder[1][1], pn.zeros { 2, 4 }:totable(), { 0.4, -0.3, 0.3, 0.2 })
  end,
}

describe("imputation", function()
  -- A decoder that does not see z: every draw has its mean, and z from the prior is always taken.
  it("keeps as many draws as are asked for, after the warmup, and averages them", function()
    pn.seed(7)
    local m = factor_analysis()
    set(m.likelihood.net[1], pn.zeros { 2, 2 }:totable(), { 0.7, -1.2 })
    set(m.latents.encoder[1][1], pn.zeros { 2, 4 }:totable(), { 0, 0, 0, 0 })
    local x, mask = pn.tensor { { 3, 0 }, { 1, 2 } }, pn.tensor { { true, false }, { false, true } }
    for _, o in ipairs { { 1, 0 }, { 3, 4 }, { 4, 3 } } do
      local filled, taken = m:impute(x, mask, { draws = o[1], warmup = o[2] })
      assert.near(0, (filled - pn.tensor { { 3, -1.2 }, { 0.7, 2 } }):abs():max():item(), 1e-12)
      assert.equal(1, taken)
      assert.same({ o[1], 2, 2 }, m:impute(x, mask, { draws = o[1], warmup = o[2], history = true }):shape())
    end
  end)

  -- z is x + 100, x is z, both nearly certain: no such step is ever taken unless it is forced, the first one apart, at
  -- whose start z is proposed already.
  it("takes all proposals in the first half of the warmup, and none of these later", function()
    local m = pn.models.vae { data = 1, latent = 1, hidden = {}, decoder = "normal", mean = false }
    set(m.likelihood.net[1], { { 1 } }, { 0 })
    m.likelihood.log_scale:set(pn.full({ 1 }, -7))
    set(m.latents.encoder[1][1], { { 1, 0 } }, { 100, -14 })
    local x, none = pn.zeros { 3, 1 }, pn.tensor { { false }, { false }, { false } }
    for warmup, want in pairs { [2] = 1, [4] = 2, [5] = 2, [7] = 3 } do
      local values, taken = m:impute(x, none, { draws = 4, warmup = warmup, history = true })
      assert.is_true((values - 100 * want):abs():max():item() < 10, warmup)
      assert.equal(0, taken)
    end
  end)

  for name, encode in pairs(encoders) do
    it("gives the conditional law of a linear model, the encoder being " .. name, function()
      pn.seed(6)
      local m, w, psi = factor_analysis()
      encode(m, w, psi)
      local covariance = w:matmul(w:t()) + psi:diag_embed()
      local s11, s12, s22 = covariance[1][1]:item(), covariance[1][2]:item(), covariance[2][2]:item()
      local n, at = 600, 1.7
      local x = pn.tensor { { at, 0 / 0 } }:broadcast_to { n, 2 }:contiguous() -- what is missing has no influence
      local mask = pn.tensor { { true, false } }:broadcast_to { n, 2 }:contiguous()
      local mean, variance = B[2] + s12 / s11 * (at - B[1]), s22 - s12 * s12 / s11
      local filled, taken = m:impute(x, mask, { draws = 100, warmup = 50 })
      local got = filled:slice(2, 2, 2)
      local error_of = got:std():item() / n ^ 0.5
      assert.near(mean, got:mean():item(), 5 * error_of)
      assert.is_true(error_of < 0.02)
      if name == "exact" then assert.near(1, taken, 1e-12) else assert.is_true(taken > 0.1 and taken < 0.5) end
      assert.equal(at, filled[1][1]:item())
      local chain_values = m:impute(x, mask, { draws = 1, warmup = 100, history = true })
      assert.same({ 1, n, 2 }, chain_values:shape())
      local draws = chain_values:slice(3, 2, 2)
      assert.near(mean, draws:mean():item(), 5 * (variance / n) ^ 0.5)
      assert.near(variance, draws:std():item() ^ 2, 5 * variance * (2 / n) ^ 0.5)
    end)
  end
end)

local shapes = {
  { latent = 3 }, { latent = 3, decoder = "normal" }, { latent = 3, decoder = "categorical", categories = 4 },
  { latent = 3, decoder = "mixture", components = 3 }, { latent = 3, posterior = "flow" },
  { latent = 4, posterior = "flow", flow = "real_nvp" }, { latent = { 4, 2 }, hidden = { { 6, 5 }, { 4 } } },
  { latent = 3, layers = 3, structure = "ladder" }, { latent = 3, layers = 2, structure = "ladder", condition = 2,
    prior = "conditional" }, { latent = 2, condition = 2, decoder = "normal", noise = "network" },
}

local function data_for(m, n)
  local x = m.kind == "categorical" and (pn.rand { n, 5 } * 4):floor():to "int64"
    or pn.rand { n, 5 }:gt(0.5):to(m.dtype)
  return x, m.condition > 0 and pn.randn({ n, 2 }, { dtype = m.dtype }) or nil
end

local function each_shape(visit)
  for _, o in ipairs(shapes) do
    for _, dtype in ipairs { "float64", "float32" } do
      local given = { data = 5, hidden = { 6, 5 }, dtype = dtype }
      for key, v in pairs(o) do given[key] = v end
      visit(given, pn.models.vae(given))
    end
  end
end

describe("every kind of model", function()
  it("trains, draws, fills in and encodes in float64 and float32, one datum or many", function()
    pn.seed(7)
    each_shape(function(_, m)
      for _, n in ipairs { 1, 3 } do
        local x, c = data_for(m, n)
        local o = { condition = c }
        assert.equal(m.dtype, m:loss(x, o):dtype())
        assert.same({}, m:loss(x, o):shape())
        local more = m:bound(x, { draws = 7, condition = c })
        assert.is_true(more.value - more.value == 0 and more.se > 0)
        assert.same({ n }, more.each:shape())
        assert.same({ n, 5 }, m:generate(n, { condition = c, sample = true }):shape())
        local again = m:reconstruct(x, o)
        assert.same({ n, 5 }, again:shape())
        local filled = m:impute(x, pn.rand { n, 5 }:gt(0.5), { draws = 2, warmup = 2, condition = c })
        assert.equal(x:dtype(), filled:dtype())
        local z = m:encode(x, { draws = 2, condition = c })
        z = #m.latent > 1 and z[#z] or z
        assert.same({ 2, n, m.latent[#m.latent] }, z:shape())
        for _, objective in ipairs { "elbo", "iwae", m.posterior ~= "flow" and "dreg" or nil } do
          m:fit { data = x, condition = c, epochs = 2, batch_size = 2, objective = objective, draws = 2 }
        end
      end
    end)
  end)

  -- Along one direction of all parameters, at the same draws. (That of "dreg" is not the slope of its value.)
  it("has the gradient of its loss and of its joint density, by differences", function()
    each_shape(function(given, m)
      if given.dtype == "float32" then return end
      local x, c = data_for(m, 3)
      local g, list, way, at = pn.generator(4), m:parameters(), {}, {}
      for k, p in ipairs(list) do
        way[k] = pn.randn(p:shape(), { generator = g })
        at[k] = p:detach() + pn.randn(p:shape(), { generator = g }) * 0.1
      end
      local z = #m.latent == 1 and pn.randn({ 2, 3, m.latent[1] }, { generator = g }) or nil
      for _, o in ipairs { { objective = "elbo" }, { objective = "elbo", draws = 3 }, { objective = "iwae", draws = 3 },
        z and {} or nil } do
        local function value(h)
          for k, p in ipairs(list) do p:set(at[k] + way[k] * h) end
          pn.seed(6)
          if not o.objective then return (m:log_joint(z, { x, c }) * pn.tensor { 1, 2, -0.5 }):sum() end
          return m:loss(x, { condition = c, objective = o.objective, draws = o.draws })
        end
        local slope, h = 0, 1e-5
        for k, grad in ipairs(pn.grad(value(0), list)) do
          slope = slope + (grad and (grad * way[k]):sum():item() or 0)
        end
        local function along(step) return value(step):item() end
        local wanted = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h)
        assert.near(wanted, slope, 1e-6 * math.max(1, math.abs(slope)))
        assert.is_true(math.abs(slope) > 1e-3)
      end
    end)
  end)

  -- The decoder does not see z: what moves the posterior's mean 0.4 is the divergence alone, of slope 0.4.
  it("lets the weight of the divergence rise from 0 to 1 in the steps of so many epochs", function()
    local m = pn.models.vae { data = 2, latent = 1, hidden = {}, decoder = "normal" }
    set(m.likelihood.net[1], { { 0, 0 } }, { 0, 0 })
    local head = m.latents.encoder[1][1]
    set(head, pn.zeros({ 2, 2 }):totable(), { 0.4, 0.3 })
    local bias, lr, sum = head:parameters()[2], 1e-6, 0
    m:fit { data = pn.ones { 5, 2 }, epochs = 4, batch_size = 2, warmup = 2, compile = false,
      optimiser = pn.optim.sgd({ bias }, { lr = lr }), on_epoch = function(s)
        for k = 1, 3 do sum = sum + math.min(1, ((s.epoch - 1) * 3 + k - 1) / 6) end
        assert.near(sum, (0.4 - bias[1]:item()) / (0.4 * lr), 1e-4)
      end }
    assert.near(6 + 15 / 6, sum, 1e-12)
  end)

  it("takes the order of the data from a seed", function()
    local x = pn.rand { 40, 3 }:gt(0.5):to "float64"
    local function weights(seed)
      pn.seed(4)
      local m = pn.models.vae { data = 3, latent = 1, hidden = { 4 } }
      pn.seed(5)
      assert.equal(seed, m:fit({ data = x, epochs = 2, batch_size = 7, seed = seed }).seed)
      return m:state()["likelihood.net.1.weight"]:totable()
    end
    assert.same(weights(1), weights(1))
    assert.are_not.same(weights(1), weights(2))
  end)

  it("goes on from a checkpoint to the same bits", function()
    local x = pn.rand { 40, 3 }:gt(0.5):to "float64"
    local path = os.tmpname()
    local function run(epochs, file, resume)
      pn.seed(4)
      local m = pn.models.vae { data = 3, latent = 1, hidden = { 4 } }
      pn.seed(resume and 99 or 5) -- what comes out of the file counts
      m:fit { data = x, epochs = epochs, batch_size = 7, seed = 6, warmup = 3, checkpoint = file, resume = resume }
      return m:state()
    end
    local whole = run(4)
    run(2, path)
    local rest = run(4, path, true)
    os.remove(path)
    for name, v in pairs(whole) do assert.same(v:totable(), rest[name]:totable(), name) end
    assert.are_not.same(run(2)["likelihood.net.1.weight"]:totable(), whole["likelihood.net.1.weight"]:totable())
  end)

  it("trains to the same bits eagerly and replayed", function()
    each_shape(function(given)
      for _, objective in ipairs { "elbo", "iwae", given.posterior ~= "flow" and "dreg" or nil } do
        local states = {}
        for k, compile in ipairs { false, true } do
          pn.seed(8)
          local m = pn.models.vae(given)
          local x, c = data_for(m, 5)
          local s = m:fit { data = x, condition = c, epochs = 3, batch_size = 2, objective = objective, draws = 2,
            compile = compile, warmup = objective == "elbo" and 1 or nil,
            binarise = m.kind == "bernoulli" and m.condition == 0 }
          states[k] = { m:state(), s.loss }
        end
        assert.equal(states[1][2], states[2][2])
        for name, v in pairs(states[1][1]) do assert.same(v:totable(), states[2][1][name]:totable(), name) end
      end
    end)
  end)

  it("is trained, saved and loaded whole", function()
    local path = os.tmpname() .. ".safetensors"
    each_shape(function(given, m)
      pn.seed(9)
      local before = m:state()
      local x, c = data_for(m, 6)
      m:fit { data = x, condition = c, epochs = 2, objective = "iwae", draws = 3 }
      for name, v in pairs(m:state()) do
        assert.is_true((v - before[name]):abs():max():item() > 0, name .. " stays as it was")
      end
      assert(pn.save(path, m:state()))
      local other = pn.models.vae(given)
      other:load_state(assert(pn.load(path)))
      pn.seed(10)
      local value = m:bound(x, { draws = 20, condition = c }).value
      pn.seed(10)
      assert.equal(value, other:bound(x, { draws = 20, condition = c }).value)
      assert.equal(m:num_parameters(), other:num_parameters())
    end)
    os.remove(path)
  end)
end)

describe("a model that begins at the data's mean", function()
  it("generates it where all else is nothing", function()
    local mean = pn.tensor { 0.1, 0.8, 0.5 }
    for _, o in ipairs { { "bernoulli" }, { "normal", "shared" }, { "normal", "network" } } do
      local m = pn.models.vae { data = 3, latent = 2, hidden = { 4 }, decoder = o[1], noise = o[2], mean = mean }
      for _, w in ipairs(m.likelihood.net[1]:parameters()) do w:set(w * 0) end
      assert.near(0, (m:generate(1)[1] - mean):abs():max():item(), 1e-12)
    end
  end)
end)

describe("a mixture's decoder", function()
  it("begins with components that stand apart, of one scale and alike likely", function()
    local m = pn.models.vae { data = 2, latent = 1, hidden = { 3 }, decoder = "mixture", components = 3 }
    assert.same({ 0, 0, 0, 0, 0, 0, -1, 0, 1, -1, 0, 1, 0, 0, 0, 0, 0, 0 }, m.likelihood:bias():totable())
    assert.is_false(m.likelihood:begin_at(pn.zeros { 2 }))
  end)
end)

describe("the first fit of a model without a mean", function()
  local data = pn.tensor { { 0, 1, 1 }, { 0, 0, 1 }, { 1, 1, 1 }, { 0, 1, 1 } }
  local still = { data = data, epochs = 1, lr = 0 }
  local function start(given, change)
    pn.seed(3)
    local o = { data = 3, latent = 2, hidden = { 4 } }
    for k, v in pairs(given) do o[k] = v end
    local m = pn.models.vae(o)
    local before = m.likelihood:bias():detach() + 0
    if change then change(m) end
    m:fit(still)
    return m.likelihood:bias(), before, m
  end
  local function far(a, b) return (a - b):abs():max():item() end

  it("begins at the data's", function()
    local mean = data:mean { 1 }
    local want = mean:clamp(1e-3, 1 - 1e-3):logit()
    local bias, _, m = start {}
    assert.near(0, far(bias, want), 1e-12)
    m.likelihood:bias():set(want * 2) -- and only the first
    m:fit(still)
    assert.near(0, far(m.likelihood:bias(), want * 2), 1e-12)
    assert.near(0, far(start { decoder = "normal" }, mean), 1e-12)
    assert.near(0, far(start { latent = { 2, 2 } }, want), 1e-12)
  end)

  it("leaves what was given, trained or loaded, and what mean = false asks for", function()
    local bias, before = start { mean = false }
    assert.equal(0, far(bias, before))
    assert.near(0, far(start { mean = pn.full({ 3 }, 0.5) }, pn.zeros { 3 }), 1e-12)
    local loaded = start({}, function(m)
      local state = m:state()
      for k, v in pairs(state) do state[k] = v + 1 end
      m:load_state(state)
    end)
    assert.near(0, far(loaded, before + 1), 1e-12)
    bias, before = start { decoder = "mixture" }
    assert.equal(0, far(bias, before))
    local _, as_drawn, m = start {}
    m.likelihood:bias():set(as_drawn) -- it is no longer new
    m:fit(still)
    assert.equal(0, far(m.likelihood:bias(), as_drawn))
  end)

  it("begins there after a file, too, unless it was trained, or begins elsewhere", function()
    local path = os.tmpname()
    local want = data:mean { 1 }:clamp(1e-3, 1 - 1e-3):logit()
    local function again(m)
      assert(m:save(path))
      local other = assert(pn.restore(path))
      assert.equal(m.dtype, other.dtype)
      other:fit { data = data:to(m.dtype), epochs = 1, lr = 0 }
      return other.likelihood:bias()
    end
    local new = pn.models.vae { data = 3, latent = 2, hidden = { 4 } }
    assert.near(0, far(again(new), want), 1e-12)
    new:fit(still)
    new.likelihood:bias():set(want * 2)
    assert.near(0, far(again(new), want * 2), 1e-12)
    local given = pn.models.vae { data = 3, latent = 2, hidden = { 4 }, mean = pn.full({ 3 }, 0.5) }
    assert.near(0, far(again(given), pn.zeros { 3 }), 1e-12)
    -- a file knows its dtype, whatever is the default now
    local before = pn.default_dtype()
    local single = pn.models.vae { data = 3, latent = 2, hidden = { 4 } }
    pn.default_dtype "float32"
    local ok, message = pcall(again, single)
    pn.default_dtype(before)
    assert(ok, message)
    os.remove(path)
  end)
end)

describe("training", function()
  it("draws pixels anew from intensities", function()
    pn.seed(11)
    local m = pn.models.vae { data = 2, latent = 1, hidden = { 4 } }
    m:fit { data = pn.tensor { { 0.3, 0.9 } }:broadcast_to { 500, 2 }:contiguous(), epochs = 80, batch_size = 50,
      binarise = true, lr = 0.02, schedule = pn.optim.cosine(0.02, 1e-3, 800) }
    local p = m:bound(pn.tensor { { 1, 1 } }, { draws = 500 }).value
    assert.near(math.log(0.27), p, 0.12)
    assert.near(0.3, m:generate(2000):mean { 1 }[1]:item(), 0.04)
  end)

  it("with a conditional model learns what depends on the condition", function()
    pn.seed(12)
    local c = pn.randn { 400, 1 }:sign()
    local x = c:gt(0):to "float64" * pn.ones { 1, 3 }
    local m = pn.models.vae { data = 3, latent = 1, hidden = { 8 }, condition = 1 }
    m:fit { data = x, condition = c, epochs = 30, batch_size = 40, lr = 0.02 }
    assert.is_true(m:bound(x, { condition = c, draws = 10, batch_size = 400 }).value > -0.1)
    assert.is_true(m:generate(20, { condition = pn.ones { 20, 1 } }):min():item() > 0.8)
    assert.is_true(m:generate(20, { condition = -pn.ones { 20, 1 } }):max():item() < 0.2)
  end)
end)

describe("wrong use of a model", function()
  local x = pn.zeros { 2, 4 }
  local m = pn.models.vae { data = 4, latent = 2, hidden = { 3 } }
  local flow = pn.models.vae { data = 4, latent = 2, hidden = { 3 }, posterior = "flow" }
  local conditional = pn.models.vae { data = 4, latent = 2, hidden = { 3 }, condition = 3 }
  local normal = pn.models.vae { data = 4, latent = 2, hidden = { 3 }, decoder = "normal" }
  local cases = {
    { "vae: option 'data' is required", function() pn.models.vae { latent = 2 } end },
    { "vae: unknown option 'laten', did you mean 'latent'?", function() pn.models.vae { data = 4, laten = 2 } end },
    { "vae: latent must be a whole number from 1 on, got 0", function() pn.models.vae { data = 4, latent = 0 } end },
    { "vae: decoder must be one of 'bernoulli'",
      function() pn.models.vae { data = 4, latent = 2, decoder = "gausian" } end },
    { "vae: posterior 'flow' is for one level of latents, got 2",
      function() pn.models.vae { data = 4, latent = { 2, 2 }, posterior = "flow" } end },
    { "vae: prior 'conditional' needs a condition",
      function() pn.models.vae { data = 4, latent = 2, prior = "conditional" } end },
    { "vae: hidden must have a list for each of 2 levels, got 1",
      function() pn.models.vae { data = 4, latent = { 2, 2 }, hidden = { { 3 } } } end },
    { "vae: layers must be the length of latent, 2, got 3",
      function() pn.models.vae { data = 4, latent = { 2, 2 }, layers = 3 } end },
    { "vae: dtype must be 'float64' or 'float32', got 'int64'",
      function() pn.models.vae { data = 4, latent = 2, dtype = "int64" } end },
    { "vae: mean must be float64 of shape [4], got float64 [2, 4]",
      function() pn.models.vae { data = 4, latent = 2, mean = x } end },
    { "vae: mean is for a bernoulli or normal decoder, got 'mixture'",
      function() pn.models.vae { data = 4, latent = 2, mean = x[1], decoder = "mixture" } end },
    { "vae: mean must be float64 of shape [4], got float64 [3]",
      function() pn.models.vae { data = 4, latent = 2, mean = pn.zeros { 3 } } end },
    { "vae: mean must be float64 of shape [4], got float64 [4, 1]",
      function() pn.models.vae { data = 4, latent = 2, mean = pn.zeros { 4, 1 } } end },
    { "vae: mean must be float64 of shape [4], got float32 [4]",
      function() pn.models.vae { data = 4, latent = 2, mean = pn.zeros({ 4 }, { dtype = "float32" }) } end },
    { "vae: latent must be a list of sizes, got an empty one",
      function() pn.models.vae { data = 4, latent = {} } end },
    { "vae: hidden must be a list of sizes, got an empty one",
      function() pn.models.vae { data = 4, latent = { 2, 2 }, hidden = {}, structure = "ladder" } end },
    { "vae: hidden[2] must be a list of sizes, got 4",
      function() pn.models.vae { data = 4, latent = { 2, 2 }, hidden = { { 3 }, 4 } } end },
    { "vae: hidden[1][2] must be a whole number from 1 on, got 0",
      function() pn.models.vae { data = 4, latent = 2, hidden = { { 3, 0 } } } end },
    { "posterior_law: only one level without a flow",
      function() pn.models.vae { data = 4, latent = { 2, 2 }, hidden = { 3 } }:posterior_law(x) end },
    { "fit: binarise needs a bernoulli decoder", function() m:fit { data = x - 0.5, epochs = 1, binarise = true } end },
    { "fit: binarise needs a bernoulli decoder", function() normal:fit { data = x, epochs = 1, binarise = true } end },
    { "loss: x must have shape [B, 4], got [0, 4]", function() m:loss(pn.zeros { 0, 4 }) end },
    { "loss: x must have shape [B, 4], got [2, 3]", function() m:loss(pn.zeros { 2, 3 }) end },
    { "loss: x must be a tensor, got nil", function() m:loss() end },
    { "loss: x must be float64, got float32", function() m:loss(pn.zeros({ 2, 4 }, { dtype = "float32" })) end },
    { "loss: draws must be a whole number from 1 on, got 0", function() m:loss(x, { draws = 0 }) end },
    { "loss: dreg needs log q at given draws", function() flow:loss(x, { objective = "dreg", draws = 2 }) end },
    { "bound: this model has no condition", function() m:bound(x, { condition = x }) end },
    { "bound: condition must be a tensor, got nil", function() conditional:bound(x) end },
    { "bound: condition must be float64 of shape [2, 3], got float64 [2, 4]",
      function() conditional:bound(x, { condition = x }) end },
    { "bound: condition must be float64 of shape [2, 3], got float64 [3, 3]",
      function() conditional:bound(x, { condition = pn.zeros { 3, 3 } }) end },
    { "bound: condition must be float64 of shape [2, 3], got float32 [2, 3]",
      function() conditional:bound(x, { condition = pn.zeros({ 2, 3 }, { dtype = "float32" }) }) end },
    { "bound: condition must be float64 of shape [2, 3], got float64 [2]",
      function() conditional:bound(x, { condition = pn.zeros { 2 } }) end },
    { "fit: option 'data' is required", function() m:fit { epochs = 2 } end },
    { "fit: warmup is of objective 'elbo' only",
      function() m:fit { data = x, epochs = 1, warmup = 1, objective = "iwae" } end },
    { "fit: binarise needs a bernoulli decoder and data between 0 and 1",
      function() m:fit { data = x + 2, epochs = 1, binarise = true } end },
    { "impute: observed must be bool of shape [2, 4], got float64 [2, 4]", function() m:impute(x, x) end },
    { "generate: n must be a whole number from 1 on, got nil", function() m:generate() end },
    { "decode: z must be float64 of shape [B, 2], got float64 [2, 4]", function() m:decode(x) end },
    { "posterior_law: only one level without a flow", function() flow:posterior_law(x) end },
    { "encode: draws must be a whole number from 1 on, got 0.5", function() m:encode(x, { draws = 0.5 }) end },
  }
  local source = debug.getinfo(1, "S").short_src
  for _, case in ipairs(cases) do
    it("is told: " .. case[1], function()
      local ok, message = pcall(case[2])
      assert.is_false(ok)
      local line = debug.getinfo(case[2], "S").linedefined
      local told = ("%s:%d: %s"):format(source, line, case[1])
      assert.equal(told, message:sub(1, #told))
    end)
  end

  it("does not keep the law from being asked for", function()
    assert.same({ 2 }, m:posterior_law(x).event_shape)
    assert.is_true(nn.is_network(m))
    assert.truthy(tostring(m):find("vae(4 -> 2, bernoulli decoder, gaussian posterior", 1, true))
    assert.truthy(tostring(flow):find("vae(4 -> 2, bernoulli decoder, flow posterior", 1, true))
    for _, structure in ipairs { "backward", "ladder" } do
      local two = pn.models.vae { data = 4, latent = { 3, 2 }, hidden = { 3 }, structure = structure }
      assert.truthy(tostring(two):find("vae(4 -> 3 -> 2, bernoulli decoder, " .. structure .. " posterior", 1, true))
    end
    -- one level is no ladder, and needs no hidden layer
    assert.matches("gaussian posterior", tostring(pn.models.vae { data = 4, latent = 2, structure = "ladder",
      hidden = {} }))
    local ones = x + 1
    for _, good in ipairs { x, ones } do m:fit { data = good, epochs = 1, binarise = true } end
  end)
end)
