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

describe("measure, whatever form data have,", function()
  local helper = require "spec.helper"
  local few = { judge_draws = 4, importance_draws = 8, steps = 2, rounds = 1, widths = { 1 }, batch_size = 4,
    local_batch = 3 }

  -- The model and a network of it for data of another form, of which `rows` gives x [N, T, 1].
  local function other(rows, more)
    local m = { log_joint = function(_, z, d) return model:log_joint(z, rows(d)) end }
    for name, f in pairs(more or {}) do m[name] = f end
    local function wrapped(q)
      return { parameters = q.parameters, widened = function(_, factor) return wrapped(q:widened(factor)) end,
        draw = function(_, d, draws, generator) return q:draw(rows(d), draws, generator) end }
    end
    return m, wrapped(network(7))
  end

  local function run(m, q, x, more)
    local o = { generator = pn.generator(5) }
    for _, list in ipairs { few, more or {} } do
      for key, value in pairs(list) do o[key] = value end
    end
    return pn.gap.measure(m, q, x, o)
  end

  it("finds the same, with pieces of them", function()
    local x, learn, sizes = matched(7, 3), matched(9, 4), {}
    local function batch(v)
      v = v:transpose(1, 2):contiguous()
      return { y = v, inputs = v * 2 }
    end
    local want = run(model, network(7), x, { training = learn })
    assert.same({ 7, false }, { want.count, want.settled.mask })
    for name, case in pairs {
      list = { function(d) return d[1] end, nil, { x }, { learn, learn:select(2, 1) } },
      batch = { function(d)
        assert.same(d.y:shape(), d.inputs:shape())
        return (d.inputs - d.y):transpose(1, 2)
      end, nil, batch(x), batch(learn) },
      own = { function(d) return d.rows end, { count = function(_, d) return d.rows:size(1) end,
        take = function(_, d, index)
          sizes[index:size(1)] = true
          return { rows = d.rows:take(1, index) }
        end }, { rows = x }, { rows = learn } } } do
      local m, q = other(case[1], case[2])
      local got = run(m, q, case[3], { training = case[4] })
      for bound, each in pairs(want.each) do assert.same(each:totable(), got.each[bound]:totable(), name .. bound) end
      assert.same(want.notes, got.notes)
    end
    -- local posteriors of three and three and one; a fifth of nine rows, rounded down, validates
    for _, n in ipairs { 3, 1, 8, 4 } do assert(sizes[n], n) end
  end)

  it("takes local posteriors of the model's own", function()
    local x, sizes = matched(7, 3), {}
    local m = other(function(d) return d end, { local_posterior = function(_, part)
      sizes[#sizes + 1] = part:size(1)
      local z = network(7):draw(part, 64, pn.generator(2))
      return require "penumbra.gap.local_posterior".new(z:detach())
    end })
    local report = run(m, network(7), x)
    assert.same({ 3, 3, 1 }, sizes)
    assert(report.each.local_bound:isfinite():all():item())
  end)

  it("tells what is exact, what is negative, and draws what is known", function()
    local x = matched(6, 3)
    local exact = run({ log_evidence = function(_, d) return evidence(d):to "float32" end }, { exact = true }, x)
    local told = run({}, { exact = true }, x, { log_likelihood = evidence })
    assert.equal("float64", exact.each.mask_bound:dtype())
    helper.close(exact.each.mask_bound, evidence(x), 1e-5)
    assert.same(evidence(x):totable(), told.each.amortised_bound:totable())
    assert.same({ 6, { "the posterior is exact: there is nothing to lose" }, { ["local"] = true, mask = true } },
      { exact.count, exact.notes, exact.settled })
    local negative = "approximation is negative: the family of the network holds more"
    for off, want in pairs { [-100] = true, [0] = false } do
      local r = run(model, network(7), x, { log_likelihood = function(d) return evidence(d) + off end })
      assert.equal(want, tostring(r):find(negative, 1, true) ~= nil)
      assert.is_nil(tostring(r):find("amortisation is negative", 1, true))
    end
    -- of one datum there is no error, and without a wider network no mask
    local q = network(7)
    local bare = { draw = q.draw, parameters = q.parameters }
    local one = run(model, bare, x:slice(1, 1, 1), { log_likelihood = evidence })
    assert.is_true(one.approximation.se ~= one.approximation.se)
    assert.is_nil(one.conditioning or one.amortisation or one.mask_bound)
    local panel = one:panel { title = "here" }
    assert.same({ 1, "here", { 0.5, 3.5 } }, { #panel.marks, panel.title, panel.x_range })
    local path = os.tmpname()
    os.remove(path)
    path = path .. ".svg"
    local drawn, _, code = one:plot(path)
    if code == "missing" then return end -- gnuplot
    assert.equal(path, drawn)
    local file = assert(io.open(path))
    local picture = file:read "a"
    file:close()
    os.remove(path)
    for _, text in ipairs { "where the nats go", "nats a datum", "approximation", "conditioning", "amortisation" } do
      assert(picture:find(text, 1, true), text)
    end
  end)

  it("refuses options, data and draws that are none", function()
    local x, q = matched(6, 3), network(7)
    for _, name in ipairs { "steps", "rounds", "local_batch", "judge_draws", "importance_draws" } do
      helper.refuses(("measure: %s must be a whole number from 1 on, got 0"):format(name), run, model, q, x,
        { [name] = 0 })
    end
    helper.refuses("measure: widths[2] must be a whole number from 1 on, got 0", run, model, q, x,
      { widths = { 1, 0 } })
    for _, name in ipairs { "lr", "tolerance" } do
      helper.refuses("measure: lr and tolerance must be positive", run, model, q, x, { [name] = 0.0 })
    end
    helper.refuses("measure: split must lie between 0 and 1, got 0", run, model, q, x, { split = 0.0 })
    helper.refuses("measure: model must be a model or a table of functions, got number", run, 3, q, x)
    for _, data in ipairs { { 3 }, {}, "x" } do
      helper.refuses("measure: data must be a tensor [N, ...], a list of such or a batch {y =, inputs =}", run, model,
        q, data)
    end
    helper.refuses("measure: training must be a tensor", run, model, q, x, { training = {} })
    helper.refuses("measure: log_likelihood must give a tensor [6], got [6, 1]", run, model, q, x,
      { log_likelihood = function() return pn.ones { 6, 1 } end })
    helper.refuses("measure: log_likelihood must give a tensor [6], got number", run, model, q, x,
      { log_likelihood = function() return 3 end })
    for _, shape in ipairs { { 64, 3 }, { 64, 3, 1, 1, 1 } } do
      helper.refuses("measure: draws of the posterior must be [S, N, n] or [S, N, T, n] for local posteriors", run,
        model, { draw = function() return pn.ones(shape), pn.ones { 64, 3 } end, parameters = q.parameters }, x)
    end
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
