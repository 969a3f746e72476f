-- pn.gap.measure where every part is known: a linear Gaussian system whose network is bad on purpose; models that have
-- no conditioning gap, or no gap at all; log joints against the models' own bounds.
local pn = require "penumbra"
local message_of = require("spec.helper").message_of
local vae = pn.models.vae

local T = 5
local system = pn.smc.linear_system { transition = { { 0.9 } }, transition_cov = { { 0.19 } }, emission = { { 1 } },
  emission_cov = { { 0.25 } }, initial_mean = { 0 }, initial_cov = { { 1 } } }

local function evidence(x)
  return system:log_likelihood(x:transpose(1, 2):contiguous(), { first = "predicted" })
end

-- The covariance of x_1 ... x_T.
local function law()
  local rows = {}
  for i = 1, T do
    rows[i] = {}
    for j = 1, T do rows[i][j] = 0.9 ^ math.abs(i - j) + (i == j and 0.25 or 0) end -- all z have variance 1
  end
  return pn.tensor(rows)
end

-- n sequences [n, T, 1] whose mean is 0 and whose second moments are exactly those of the law: what is quadratic in x,
-- as the gaps are, has no sampling error.
local function matched(n, seed)
  local z = pn.randn({ n, T }, { generator = pn.generator(seed) })
  z = z - z:mean(1)
  local white = (z:t():matmul(z) / n):cholesky():solve_triangular(z:t())
  return law():cholesky():matmul(white):t():unsqueeze(-1):contiguous()
end

local model = { log_joint = function(_, z, x)
  local normal = pn.dist.normal
  return normal(0, 1):log_prob(z:slice(3, 1, 1)):sum { -2, -1 }
    + normal(z:slice(3, 1, T - 1) * 0.9, 0.19 ^ 0.5):log_prob(z:slice(3, 2, T)):sum { -2, -1 }
    + normal(z, 0.5):log_prob(x):sum { -2, -1 }
end }

-- q(z_t | z_(t-1), x_1 ... x_t): a linear layer and a scale for each step.
local function network(seed)
  local self = { log_scale = pn.param(pn.full({ T }, -1)), layers = {} }
  pn.seed(seed)
  for t = 1, T do self.layers[t] = pn.nn.linear(t + (t > 1 and 1 or 0), 1) end
  function self.parameters()
    local list = { self.log_scale }
    for _, layer in ipairs(self.layers) do
      for _, w in ipairs(layer:parameters()) do list[#list + 1] = w end
    end
    return list
  end
  function self.widened(_, factor) return network(seed + factor) end
  function self.draw(_, x, draws, generator)
    local n, z, list = x:size(1), nil, {}
    local noise = pn.randn({ draws, n, T }, { generator = generator })
    for t = 1, T do
      local seen = x:slice(2, 1, t):reshape({ n, t }):unsqueeze(1):broadcast_to { draws, n, t }
      seen = z and pn.concatenate({ seen, z }, -1) or seen
      z = self.layers[t](seen:reshape { draws * n, -1 }):reshape { draws, n, 1 }
        + self.log_scale[t]:exp() * noise:slice(3, t, t)
      list[t] = z
    end
    return pn.stack(list, 3), (noise:square() * -0.5 - 0.5 * math.log(2 * math.pi) - self.log_scale):sum(-1)
  end
  return self
end

-- The exact bound of such a network: moments of (z, x), then E log p - E log q residual by residual.
local function bound_of(q)
  local gains, weights, bias = {}, {}, {}
  for t = 1, T do
    local state = q.layers[t]:state()
    local w = state.weight:reshape({ -1 }):totable()
    bias[t] = state.bias:item()
    gains[t], weights[t] = {}, {}
    for s = 1, T do
      weights[t][s] = s <= t and w[s] or 0
      gains[t][s] = s == t - 1 and w[t + 1] or 0
    end
  end
  local through = (pn.eye(T) - pn.tensor(gains)):inverse()
  local to_z, scale = through:matmul(pn.tensor(weights)), q.log_scale:exp()
  local mean = through:matmul(pn.tensor(bias))
  local cov_x = law()
  local cov_z = to_z:matmul(cov_x):matmul(to_z:t()) + through:matmul(scale:square():diag_embed()):matmul(through:t())
  local cross = to_z:matmul(cov_x)
  local total = q.log_scale:sum():item() + T / 2 * (math.log(2 * math.pi) + 1)
  local function expected(variance, square) return -0.5 * (math.log(2 * math.pi * variance) + square / variance) end
  local m, v, c, x = mean:totable(), cov_z:totable(), cross:totable(), cov_x:totable()
  for t = 1, T do
    if t == 1 then
      total = total + expected(1, v[1][1] + m[1] ^ 2)
    else
      total = total + expected(0.19, v[t][t] - 2 * 0.9 * v[t][t - 1] + 0.81 * v[t - 1][t - 1]
        + (m[t] - 0.9 * m[t - 1]) ^ 2)
    end
    total = total + expected(0.25, x[t][t] - 2 * c[t][t] + v[t][t] + m[t] ^ 2)
  end
  return total
end

describe("measure, of a linear Gaussian system with a bad network,", function()
  local q = network(7)
  local report = pn.gap.measure(model, q, matched(1000, 1), { training = matched(5000, 2), log_likelihood = evidence,
    generator = pn.generator(3), widths = { 1, 2 }, steps = 250 })

  it("finds each gap", function()
    assert.near(-6.0657051554, report.log_likelihood.value, 1e-9)
    local wanted = { approximation = 0, conditioning = 0.5975582411,
      amortisation = -6.6632633965 - bound_of(q) }
    assert.is_true(wanted.amortisation > 1)
    for name, want in pairs(wanted) do
      local off = math.abs(report[name].value - want)
      -- Monte Carlo error of 256 draws for each datum beside the data's own standard error
      assert.is_true(off <= 3 * report[name].se + 5e-4, ("%s is off by %g"):format(name, off))
      assert.is_true(off <= 0.02 * math.max(1, want), ("%s is off by %g"):format(name, off))
    end
    local total = report.log_likelihood.value - report.amortised_bound.value
    assert.near(total, report.approximation.value + report.conditioning.value + report.amortisation.value, 1e-9)
    assert.same({ ["local"] = true, mask = true }, report.settled)
    assert.same({ 1000 }, report.each.mask_bound:shape())
  end)

  it("pairs its standard errors, and prints and draws what it found", function()
    local d = report.each.local_bound - report.each.mask_bound
    assert.near(d:std():item() / 1000 ^ 0.5, report.conditioning.se, 1e-12)
    assert.is_true(report.conditioning.se < 0.5 * report.mask_bound.se)
    local text = tostring(report)
    assert.truthy(text:find("conditioning gap +0%.%d+ %+%- 0%.0%d+"))
    assert.truthy(text:find("conditioning is an upper bound by what the refitted network lacks", 1, true))
    local panel, told = report:panel(), {}
    for _, mark in ipairs(panel.marks) do
      for _, line in ipairs(mark.data) do told[#told + 1] = line end
    end
    local k = 0
    for i, name in ipairs { "approximation", "conditioning", "amortisation" } do
      local v = report[name]
      for _, corner in ipairs { { i - 0.2, 0 }, { i + 0.2, 0 }, { i + 0.2, v.value }, { i - 0.2, v.value },
        { i - 0.2, 0 }, { i, v.value, v.value - 2 * v.se, v.value + 2 * v.se } } do
        k = k + 1
        local column = 0
        for number in told[k]:gmatch "%S+" do
          column = column + 1
          assert.near(corner[column], tonumber(number), 1e-5)
        end
        assert.equal(#corner, column)
      end
    end
    assert.equal(k, #told)
  end)

  it("leaves the model and the network as they were, and tells what had not settled", function()
    local before = q.log_scale:detach() + 0
    local hasty = pn.gap.measure(model, q, matched(64, 4), { log_likelihood = evidence, steps = 3, rounds = 1,
      widths = { 1 }, generator = pn.generator(1) })
    assert.is_true(q.log_scale:eq(before):all():item())
    assert.same({ ["local"] = false, mask = false }, hasty.settled)
    local all = table.concat(hasty.notes, "\n") -- each beside the others
    for _, note in ipairs { "local posteriors had not settled after 1 rounds of 3 steps", "refitted network",
      "conditioning is an upper bound", "refitting had not settled (1 rounds of 3 steps, widths up to 1)",
      "networks were refitted on the data that are measured" } do
      assert(all:find(note, 1, true), note .. " is not told:\n" .. all)
    end
    local text = tostring(hasty)
    assert.truthy(text:find("local posteriors had not settled after 1 rounds of 3 steps", 1, true))
    assert.truthy(text:find("refitting had not settled", 1, true))
    assert.truthy(text:find("networks were refitted on the data that are measured", 1, true))
    local still = pn.gap.measure(model, q, matched(8, 4), { steps = 1, rounds = 1, lr = 1e-12, widths = { 1 },
      judge_draws = 8, importance_draws = 8, generator = pn.generator(1) })
    assert.same({ ["local"] = false, mask = false }, still.settled) -- one round without a gain is not two
    local bare = { draw = q.draw, parameters = q.parameters }
    local without = pn.gap.measure(model, bare, matched(64, 4), { steps = 20, rounds = 1, generator = pn.generator(1) })
    assert.is_nil(without.conditioning)
    assert.truthy(tostring(without):find("L, best with the mask +not known"))
    assert.truthy(tostring(without):find("the approximation gap is at least this", 1, true))
  end)

  it("says what is wrong", function()
    local x = matched(16, 1)
    local function wrong(...) return message_of(pn.gap.measure, ...) end
    assert.truthy(wrong({}, nil, x):find("a model with amortised_posterior, where no posterior is given", 1, true))
    assert.truthy(wrong({}, q, x):find("measure: model must be a model with log_joint", 1, true))
    assert.truthy(wrong(model, {}, x):find("a posterior with draw and parameters", 1, true))
    assert.truthy(wrong(model, q, 3):find("data must be a tensor", 1, true))
    assert.truthy(wrong(model, q, x, { split = 1 }):find("split must lie between 0 and 1", 1, true))
    assert.truthy(wrong(model, q, x, { log_likelihood = function() return pn.ones { 3 } end, steps = 1, rounds = 1 })
      :find("log_likelihood must give a tensor [16], got [3]", 1, true))
    assert.truthy(wrong(model, q, { y = x, lengths = { 1 } }):find("a batch in data may have y and inputs", 1, true))
  end)
end)

describe("measure, of the library's models,", function()
  local generator = pn.generator(5)
  local z = pn.randn({ 400, 1 }, { generator = generator })
  local x = z:matmul(pn.tensor { { 1, -1, 0.5 } }) + pn.randn({ 400, 3 }, { generator = generator }) * 0.3

  it("a variational autoencoder: no conditioning gap, with and without a flow, by its own log joint", function()
    pn.seed(1)
    for _, given in ipairs { { posterior = "gaussian" }, { posterior = "flow" } } do
      local m = vae { data = 3, latent = 2, hidden = { 8 }, decoder = "normal", posterior = given.posterior }
      m:fit { data = x, epochs = 8, lr = 0.01 }
      local part = x:slice(1, 1, 60)
      local q, n = m:amortised_posterior(), given.posterior == "flow" and 1000 or 4000 -- (draws of flows are dear)
      local drawn, log_q = q:draw(part, n)
      local weights = (m:log_joint(drawn, part) - log_q):detach()
      local bound = m:bound(part, { draws = n })
      assert.near(bound.value, (weights:logsumexp(1) - math.log(n)):mean():item(), 6 * bound.se + 1e-3)
      assert.near(bound.elbo, weights:mean():item(), 0.03)
      local report = pn.gap.measure(m, nil, part, { generator = generator, family = "full" })
      assert.equal(0, report.conditioning.value)
      assert.is_true(report.approximation.value > -1e-3 and report.amortisation.value > 0)
      assert.is_true(report.settled["local"])
      local diagonal = pn.gap.measure(m, nil, part, { generator = generator, steps = 200,
        log_likelihood = function() return bound.each end })
      assert.is_true(diagonal.approximation.value > -0.02 and diagonal.approximation.value < 0.5)
      assert.is_true(diagonal.local_bound.value < report.local_bound.value + 0.01)
      -- gradients that the model keeps are its own
      local own = m:parameters()[1]
      assert.is_true(own:grad() == nil or own:grad():isfinite():all():item())
    end
    local deep = vae { data = 3, latent = { 2, 1 }, hidden = { 8 }, decoder = "normal" }
    assert.truthy(message_of(deep.log_joint, deep, pn.zeros { 1, 400, 2 }, x):find("one level of latents", 1, true))
  end)

  it("a model of exact states: nothing at all", function()
    local m = pn.models.deep_state { hidden = 4 }
    local batch = { y = pn.randn({ 8, 5, 1 }, { generator = generator }):cumsum(1) }
    local report = pn.gap.measure(m, nil, batch)
    for _, name in ipairs { "approximation", "conditioning", "amortisation" } do
      assert.same({ value = 0, se = 0 }, report[name])
    end
    assert.near(m:log_evidence(batch):mean():item(), report.amortised_bound.value, 1e-12)
  end)

  it("a Kalman autoencoder: its log joint is that of its bound, and its encoder is widened", function()
    pn.seed(2)
    local m = pn.models.kvae { size = 2, latent = 1, state = 2, base = 2, units = 4, hidden = { 6 } }
    local batch = { y = pn.randn({ 6, 4, 2 }, { generator = generator }):cumsum(1) }
    local q = m:amortised_posterior()
    local drawn, log_q = q:draw(batch, 3, generator)
    assert.same({ 3, 4, 6, 1 }, drawn:shape())
    local weights = (m:log_joint(drawn, batch) - log_q):detach()
    local single, log_q1 = q:draw(batch, 1, pn.generator(9)) -- the draw that its bound of one draw makes
    local bound = m:bound(batch, { draws = 1, generator = pn.generator(9) })
    assert.is_true(((m:log_joint(single, batch) - log_q1)[1] - bound):abs():max():item() < 1e-10)
    for k = 1, 3 do -- draws do not mix
      local alone = m:log_joint(drawn:slice(1, k, k), batch)[1] - log_q[k]
      assert.is_true((alone - weights[k]):abs():max():item() < 1e-10)
    end
    local few = pn.param(drawn:slice(1, 1, 2):detach())
    pn.check_gradients(function() return m:log_joint(few, batch):sum() end, { few })
    assert.equal(2 * 2 * 6 + 12 + 12 * 2 + 2, q:widened(2).network:num_parameters())
    local report = pn.gap.measure(m, nil, batch, { steps = 5, rounds = 1, widths = { 1 }, importance_draws = 64,
      generator = generator })
    assert.truthy(report.conditioning)
  end)
end)
