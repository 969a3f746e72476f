-- Certificates: against risks that are known in closed form, over repeated data; what is spent and said; what is
-- refused.
local pn = require "penumbra"
local refused = require("spec.helper").refuses
local nn, pac, dist = pn.nn, pn.pac, pn.dist

-- Logits (0, w x) with w ~ normal(m, s): the class is 1 where w x > 0.
local function one_weight(m, s, prior)
  local net = nn.linear(1, 2, { bias = false })
  net:load_state { weight = pn.tensor { { 0, m } } }
  local q = nn.bayesian(net, { prior = prior or dist.normal(0, 1), posterior_scale = s })
  return q
end

-- x on both sides of 0, labels by its sign but for a tenth
local function sign_data(n, generator)
  local x = pn.randn({ n, 1 }, { generator = generator })
  local flip = pn.rand({ n }, { generator = generator }):lt(0.1)
  return { x, pn.where(flip, x:squeeze(-1):lt(0), x:squeeze(-1):gt(0)):to "int64" }
end

local function spread(q) -- of w_1 - w_0, both with scale s
  return q:posterior("weight"):stddev()[1][1]:item() * math.sqrt(2)
end

describe("a certificate", function()
  it("measures the loss over the posterior, by draws of either sort", function()
    local q, g = one_weight(0.7, 0.5), pn.generator(4)
    local data = sign_data(400, g)
    local right = (data[1]:squeeze(-1):gt(0):eq(data[2]:gt(0))):to "float64"
    local p = pn.tensor(0.7 / spread(q)):ndtr():item() -- that w > 0
    local want = (right * (1 - p) + (1 - right) * p):mean():item()
    for weights, draws in pairs { each = 50, all = 3000 } do
      local c = pac.certificate(q, data, { draws = draws, weights = weights, prior_data = false, generator = g })
      -- of "each" 20,000 terms, of "all" 3,000 draws of which each is right or wrong as a whole
      local se = math.sqrt(p * (1 - p) / (weights == "each" and 400 * draws or draws))
      assert(math.abs(c.error.seen - want) < 6 * se, ("%s: %g, want %g +- %g"):format(weights, c.error.seen, want, se))
      assert.equal(weights == "each" and 400 * draws or draws, c.draws)
      assert.near(math.log(1 / 0.01) / c.draws, pac.kl(c.error.seen, c.error.posterior):item(), 1e-12)
      assert.near((c.kl + math.log(2 * math.sqrt(400) / 0.025)) / 400, pac.kl(c.error.posterior, c.error.bound):item(),
        1e-12)
      assert.near(q:kl():item(), c.kl, 1e-12)
    end
  end)

  it("draws once for all batches where weights serve all data", function()
    local q, data = one_weight(0.1, 1), sign_data(300, pn.generator(5))
    local function seen(weights, size)
      return pac.certificate(q, data, { draws = 20, weights = weights, batch_size = size, prior_data = false,
        generator = pn.generator(6) })
    end
    for _, size in ipairs { 7, 100, 299 } do
      assert.equal(seen("all", 300).error.seen, seen("all", size).error.seen)
    end
    -- one draw is right or wrong of all data together; draws of their own are not
    local right = data[1]:squeeze(-1):gt(0):eq(data[2]:gt(0)):to("float64"):mean():item()
    for seed = 1, 10 do
      local function one(weights)
        return pac.certificate(q, data, { draws = 1, weights = weights, batch_size = 11, prior_data = false,
          generator = pn.generator(seed) }).error.seen
      end
      local gap = math.min(math.abs(one "all" - right), math.abs(one "all" - (1 - right)))
      assert(gap < 1e-12)
      assert(math.abs(one "each" - 0.5) < 0.2)
    end
  end)

  it("covers the true risk as often as it says", function()
    local g, missed, sets = pn.generator(7), { each = 0, all = 0 }, 250
    for _ = 1, sets do
      local data = sign_data(60, g)
      local own = (data[1]:squeeze(-1) * (data[2] * 2 - 1):to "float64"):mean():item()
      local q = one_weight(own, 0.5) -- a posterior of these data
      local p = pn.tensor(own / spread(q)):ndtr():item()
      local risk = 0.1 * p + 0.9 * (1 - p)
      for weights in pairs(missed) do
        local c = pac.certificate(q, data, { delta = 0.1, draw_delta = 0.1, draws = weights == "all" and 10 or 1,
          weights = weights, losses = { "error" }, prior_data = false, generator = g })
        missed[weights] = missed[weights] + (c.error.bound < risk and 1 or 0)
        assert(c.error.bound < 1)
      end
    end
    for weights, count in pairs(missed) do
      assert(count / sets <= 0.2, ("%s misses %d of %d"):format(weights, count, sets))
    end
  end)

  it("lists every delta, alone and together", function()
    local q, data = one_weight(0.7, 0.5), sign_data(100, pn.generator(8))
    local given = { delta = 0.02, draw_delta = 0.005, prior_data = false, generator = pn.generator(1),
      losses = { "error", "log_loss",
        { name = "half", loss = function(_, y) return y * 0 + 5 end, range = { 4, 6 } } } }
    local c = pac.certificate(q, data, given)
    assert.near(1 - 0.025, c.probability, 1e-15)
    assert.equal(6, #c.deltas)
    assert(c.holds:find("each number alone holds with probability 0.975", 1, true))
    given.joint, given.generator = true, pn.generator(1)
    local both, total = pac.certificate(q, data, given), 0
    for _, entry in ipairs(both.deltas) do total = total + entry.delta end
    assert.near(1 - total, both.probability, 1e-15)
    assert.near(0.075, total, 1e-15)
    assert(both.holds:find("all numbers together hold with probability 0.925", 1, true))
    assert.equal(c.error.bound, both.error.bound)
    assert.equal(0.5, c.half.seen)
    for _, part in ipairs { "error", "log_loss", "half", "0.02", "0.005", "KL(Q || P)" } do
      assert(tostring(both):find(part, 1, true))
    end
  end)

  it("bounds the log-loss where it is cut", function()
    local q, data = one_weight(300, 0.01, dist.normal(300, 0.01)), sign_data(200, pn.generator(9))
    local c = pac.certificate(q, data, { floor = 1e-3, prior_data = false, generator = pn.generator(1) })
    local wrong = data[1]:squeeze(-1):gt(0):ne(data[2]:gt(0)):to("float64"):mean():item()
    assert.near(wrong, c.error.seen, 1e-12)
    -- certain and wrong costs 1, the most there is; a few x near 0 are in between
    assert(c.log_loss.seen <= wrong + 0.02 and c.log_loss.seen >= wrong * 0.9)
  end)

  it("is float64 where the network is float32", function()
    local net = nn.mlp({ 3, 20, 4 }, { activation = "relu", dtype = "float32" })
    local q = nn.bayesian(net, { posterior_scale = 0.1 })
    local data = { pn.randn({ 50, 3 }, { dtype = "float32" }), pn.randint(0, 4, { 50 }) }
    local c, want = pac.certificate(q, data, { prior_data = false }), 0
    for _, name in ipairs(q.names) do
      local p = q:posterior(name)
      local m, s = p:mean():to "float64", p:stddev():to "float64"
      want = want + ((m:square() + s:square() - 1) * 0.5 - s:log()):sum():item()
    end
    assert.near(1, c.kl / want, 1e-12)
    assert(c.error.bound > c.error.posterior and c.error.posterior > c.error.seen)
  end)

  it("takes whole draws of convolutions, and of nothing else less", function()
    local net = nn.sequential { nn.conv2d(1, 2, { kernel = 3 }), nn.relu(), nn.flatten(), nn.linear(8, 3) }
    local q = nn.bayesian(net, { posterior_scale = 0.1 })
    local data = { pn.randn { 20, 1, 4, 4 }, pn.randint(0, 3, { 20 }) }
    local c = pac.certificate(q, data, { draws = 4, prior_data = false })
    assert.equal("all", c.weights)
    assert.equal(4, c.draws)
    refused('weights = "each" needs a sequential of linear layers', pac.certificate, q, data,
      { weights = "each", prior_data = false })
  end)

  it("is refused where it would mean nothing", function()
    local q, data = one_weight(0.7, 0.5), sign_data(100, pn.generator(3))
    local function no(message, net, part, o)
      o = o or {}
      if o.prior_data == nil then o.prior_data = false end
      refused(message, pac.certificate, net, part, o)
    end
    refused("prior_data must say what the prior was learnt from", pac.certificate, q, data, {})
    no("the prior saw 100 of these 100 data", q, data, { prior_data = data })
    local some = { data[1]:slice(1, 91, 100), data[2]:slice(1, 91, 100) }
    no("the prior saw 10 of these 100 data", q, data, { prior_data = some })
    local first, rest = pac.split(data, { split = 0.3 })
    assert.same({ 30, 70 }, { first[1]:size(1), rest[1]:size(1) })
    no("the prior saw 70 of these 70 data", q, rest, { prior_data = rest })
    assert(pac.certificate(q, rest, { prior_data = first }).num_data == 70)
    -- equal rows that are different data
    local twins = { pn.ones { 40, 1 }, pn.ones({ 40 }, { dtype = "int64" }) }
    local a, b = pac.split(twins)
    assert(pac.certificate(q, b, { prior_data = a }))
    no("the prior saw 20 of these 20 data", q, { b[1], b[2] }, { prior_data = { a[1], a[2] } })

    no("loss 'square' must have a range", q, data, { losses = { { name = "square", loss = function() end } } })
    no("loss 'square' must have a range", q, data,
      { losses = { { name = "square", loss = function() end, range = { 0, math.huge } } } })
    no("loss 'square' must have a range", q, data,
      { losses = { { name = "square", loss = function() end, range = { -math.huge, 1 } } } })
    no("loss 'late' left its range [0, 1]", q, data,
      { losses = { { name = "late", loss = function(_, y) return y * 2 end, range = { 0, 1 } } } })
    no("floor must lie strictly between 0 and 1, got 0", q, data, { floor = 0.0 })
    no('losses must be "error", "log_loss" or {name =, loss =, range =}, got mse', q, data, { losses = { "mse" } })
    no("losses must be a list of at least one", q, data, { losses = {} })
    no('weights must be "each" or "all", got \'some\'', q, data, { weights = "some" })
    no("floor must lie strictly between 0 and 1, got 1", q, data, { floor = 1.0 })
    no("y must be labels", q, { data[1], data[2]:unsqueeze(2) })

    no("network must be of pn.nn.bayesian", nn.linear(1, 2), data)
    no("parameter 'bias' has no prior", nn.bayesian(nn.linear(1, 2), { prior = { weight = 1, bias = false } }), data)
    local normalised = nn.bayesian(nn.sequential { nn.linear(1, 4), nn.batch_norm(4), nn.linear(4, 2) })
    no("the network has statistics of its batches", normalised, data)
    local centred = nn.bayesian(nn.sequential { nn.linear(1, 2), function(h) return h - h:mean({ 1 }, true) end })
    no("depends on the other data of its batch", centred, data)
    -- up to a thousandth of 1 and the outputs, which rounding may do
    for _, case in ipairs { { 0, 0.9e-3, true }, { 0, 1.1e-3 }, { 0, -1.1e-3 }, { 999, 0.99, true }, { 999, 1.01 },
      { -999, 0.99, true } } do
      local shifted = nn.bayesian(nn.sequential { nn.linear(1, 2), function(h)
        return h * 0 + case[1] + (h:size(1) == 2 and case[2] or 0)
      end })
      if case[3] then
        assert.equal(100, pac.certificate(shifted, data, { prior_data = false, draws = 1 }).num_data)
      else
        no("depends on the other data of its batch", shifted, data)
      end
    end
    no("the network must give logits [N, C], got 3 axes", nn.bayesian(nn.sequential { nn.linear(1, 2), function(h)
      return h:unsqueeze(2) end }), data)
    local scale = pn.param(pn.tensor(1.0))
    no("a prior has parameters", nn.bayesian(nn.linear(1, 2), { prior = dist.normal(0, scale) }), data)
    local mixed = dist.mixture(dist.categorical { probs = pn.tensor { 0.5, 0.5 } },
      dist.normal(pn.tensor { 0.0, 0 }, pn.tensor { 1, 0.1 }))
    no("would be an estimate, which bounds nothing", nn.bayesian(nn.linear(1, 2), { prior = mixed }), data)
    no("delta must lie strictly between 0 and 1", q, data, { delta = 1 })
    no("draw_delta must lie strictly between 0 and 1", q, data, { draw_delta = -0.1 })
    no("unknown option 'draw_dleta', did you mean 'draw_delta'", q, data, { draw_dleta = 0.1 })
    no("y must be labels", q, { data[1], data[1]:squeeze(-1) })
    no("data must be a list {x, y}", q, { data[1] })
    no("n must be a whole number from 8 on", q, { data[1]:slice(1, 1, 5), data[2]:slice(1, 1, 5) })
    no("bound 'hoeffding' is not of a risk and a divergence", q, data, { bound = "hoeffding" })
    refused("split must leave rows on both sides", pac.split, data, { split = 1.5 })
  end)
end)

describe("data that were seen before", function()
  local common = require("penumbra.pac.split_data").common

  it("are the rows that are equal in all of their numbers", function()
    local function rows(n, seed)
      local g = pn.generator(seed)
      return { pn.randint(0, 7, { n, 2, 2 }, { generator = g }):to "float32", pn.randint(0, 3, { n },
        { generator = g }) }
    end
    local a, b = rows(5000, 1), rows(300, 2) -- more than a block of rows
    local function keys(data)
      local x, y, list = data[1]:reshape({ -1, 4 }):totable(), data[2]:totable(), {}
      for k = 1, #x do list[k] = table.concat(x[k], " ") .. " " .. y[k] end
      return list
    end
    local seen, want = {}, 0
    for _, key in ipairs(keys(a)) do seen[key] = true end
    for _, key in ipairs(keys(b)) do want = want + (seen[key] and 1 or 0) end
    assert.is_true(want > 100 and want < 200)
    assert.equal(want, common(a, b))
    assert.equal(5000, common(a, { a[1], a[2] }))
    -- the same numbers in another order, or of another shape, are others
    local x, y = pn.tensor { { 1, 2 } }, pn.tensor({ 3 }, { dtype = "int64" })
    assert.same({ 1, 0, 0, 0 }, { common({ x, y }, { x, y }), common({ x, y }, { x:flip(2), y }),
      common({ x, y }, { pn.tensor { { 3, 2 } }, y - 2 }), common({ x, y }, { pn.tensor { { 1, 2, 0 } }, y }) })
    assert.equal(2, common({ x, y }, { pn.concatenate({ x, x, x + 1 }, 1), pn.concatenate({ y, y, y }, 1) }))
  end)
end)

describe("data in two parts", function()
  it("have a share each, drawn by the seed alone", function()
    local x = pn.arange(9):to "float64":unsqueeze(2)
    local data = { x, pn.arange(9) }
    for share, want in pairs { [0.5] = 5, [0.3] = 3, [0.05] = false, [0.06] = 1, [0.94] = 8, [0.95] = false } do
      local function part() return pac.split(data, { split = share }) end
      if want then
        local a, b = part()
        assert.same({ want, 9 - want }, { a[2]:size(1), b[2]:size(1) })
        assert.same(pn.arange(9):totable(), pn.concatenate({ a[2], b[2] }, 1):sort(1):totable())
        assert.same(a[1]:squeeze(2):totable(), a[2]:to "float64":totable())
      else
        refused(("split: split must leave rows on both sides, got %g of 9 rows"):format(share), part)
      end
    end
    local function first(seed) return (pac.split(data, { seed = seed }))[2]:totable() end
    pn.seed(1)
    local before, list = pn.rng_state(), first(3)
    assert.same(before, pn.rng_state())
    pn.seed(2)
    assert.same(list, first(3))
    assert.not_same(list, first(4))
    assert.same(first(0), (pac.split(data))[2]:totable())
  end)

  it("are none where rows do not belong together", function()
    local y = pn.arange(4)
    for _, data in ipairs { { pn.ones { 4, 1 } }, { pn.ones { 4, 1 }, y, y }, { pn.ones { 3, 1 }, y },
      { pn.ones {}, y },
      { pn.ones { 4 }, pn.ones {} }, { 3, y }, { y, 3 }, { pn.ones { 0, 1 }, y:slice(1, 1, 0) } } do
      refused("split: data must be a list {x, y} of tensors with as many rows each, at least one", pac.split, data)
    end
    refused("split: data must be a table", pac.split, 3)
  end)
end)

describe("training on a bound", function()
  local function corners(n)
    local g = pn.generator(11)
    local x = pn.randn({ n, 2 }, { generator = g })
    return { x, (x[{ {}, 1 }] * x[{ {}, 2 }]):gt(0):to "int64" }
  end

  it("begins at the prior and makes its bound small", function()
    local data = corners(600)
    for _, name in ipairs { "quadratic", "maurer", "lambda", "catoni" } do
      pn.seed(2)
      local first
      local m = pac.train(nn.mlp({ 2, 16, 2 }, { activation = "relu" }), data, { bound = name, prior_epochs = 15,
        epochs = 10, batch_size = 50, prior_lr = 0.02, lr = 0.01, on_epoch = function(stage, s)
          if stage == "posterior" and s.epoch == 1 then first = s.loss end
        end })
      assert(m.history.posterior.loss < first)
      local c = m:certificate { draws = 10, generator = pn.generator(1) }
      assert.equal(300, c.num_data)
      assert.equal(name, c.bound)
      assert(c.error.bound < 0.3 and c.kl > 0, ("%s: %g"):format(name, c.error.bound))
    end
  end)

  it("follows the value of the bound", function()
    local data = corners(200)
    pn.seed(3)
    local net = nn.mlp({ 2, 4, 2 })
    local start = net(data[1])
    local m = pac.train(net, data, { split = 0, epochs = 1, batch_size = 200, lr = 1e-12, prior_scale = 1e-7,
      bound = "pinsker", delta = 0.1, floor = 0.01 })
    local risk = (-(start:log_softmax(-1):gather(-1, data[2]:unsqueeze(-1)))):clamp(0, -math.log(0.01)):mean():item()
      / -math.log(0.01)
    assert.near(risk + math.sqrt(math.log(2 * math.sqrt(200) / 0.1) / 400), m.history.posterior.loss, 1e-5)
    pn.seed(3)
    local of_lambda = pac.train(nn.mlp({ 2, 4, 2 }), data, { split = 0, epochs = 1, batch_size = 200, lr = 1e-12,
      prior_scale = 1e-7, bound = "lambda", bound_options = { lambda = 0.7 }, delta = 0.1, floor = 0.01 })
    assert.near((risk + math.log(2 * math.sqrt(200) / 0.1) / (200 * 0.7)) / 0.65, of_lambda.history.posterior.loss,
      1e-5)
    assert.equal(false, m.prior_data)
    assert(m:certificate().num_data == 200) -- no data taught the prior: it need not be said
  end)

  it("goes on from its files to the same bits", function()
    local data, path = corners(200), os.tmpname()
    local function train(epochs, resume)
      pn.seed(4)
      return pac.train(nn.mlp({ 2, 4, 2 }), data, { prior_epochs = 3, epochs = epochs, batch_size = 20,
        checkpoint = path, resume = resume })
    end
    train(2, false)
    local resumed = train(4, true).net:state()
    local whole = train(4, false).net:state()
    for name, t in pairs(whole) do assert(resumed[name]:eq(t):all():item(), name) end
    for _, stage in ipairs { "", ".prior", ".posterior" } do os.remove(path .. stage) end
  end)

  it("tells of both trainings, and certifies with what it was trained with", function()
    local data, told = corners(60), {}
    pn.seed(6)
    local m = pac.train(nn.mlp { 2, 3, 2 }, data, { bound = "lambda", bound_options = { lambda = 0.7 }, delta = 0.05,
      floor = 0.01, split = 0.25, prior_epochs = 2, epochs = 3, batch_size = 20, prior_scale = 0.2,
      on_epoch = function(stage, run) told[#told + 1] = stage .. run.epoch end })
    assert.same({ "prior1", "prior2", "posterior1", "posterior2", "posterior3" }, told)
    assert.same({ 15, 45 }, { m.prior_data[1]:size(1), m.data[1]:size(1) })
    assert.same({ 2, 3 }, { m.history.prior.epoch, m.history.posterior.epoch })
    assert.equal("network trained with the bound 'lambda' at delta = 0.05", tostring(m))
    local c = m:certificate { generator = pn.generator(1) }
    assert.same({ "lambda", 0.01, 45 }, { c.bound, c.floor, c.num_data })
    assert.equal(0.05, c.deltas[1].delta)
    local own = pac.certificate(m.net, m.data, { bound = "lambda", bound_options = { lambda = 0.7 }, delta = 0.05,
      floor = 0.01, generator = pn.generator(1) })
    assert.equal(own.log_loss.bound, c.log_loss.bound)
    local other = m:certificate { bound = "maurer", bound_options = {}, delta = 0.1, generator = pn.generator(1) }
    assert.same({ "maurer", 0.1 }, { other.bound, other.deltas[1].delta })
    local row = pac.bound("lambda", { risk = c.error.posterior, kl = c.kl, n = 45, delta = 0.05, lambda = 0.7 }):item()
    assert.near(row, c.error.bound, 1e-12)
    assert.equal(row >= 1, c.error.vacuous)
    -- the scale of the prior, and of the posterior at first
    assert.equal(0.2, m.net.priors["1.weight"].scale:max():item())
    -- no epochs leave the prior at the first values
    pn.seed(6)
    local net = nn.mlp { 2, 3, 2 }
    local first = net:state()["1.weight"] + 0
    local still = pac.train(net, data, { prior_epochs = 0, epochs = 1 })
    assert.is_nil(still.history.prior)
    assert.is_true(still.net.priors["1.weight"].loc:eq(first):all():item())
    assert.equal(30, still.prior_data[1]:size(1))
  end)

  it("refuses what has no bound", function()
    local data = corners(50)
    local function no(message, o, net)
      refused(message, pac.train, net or nn.mlp { 2, 3, 2 }, data, o)
    end
    no("bound 'hoeffding' is not of a risk and a divergence", { bound = "hoeffding" })
    no("there is no bound 'cantelli'", { bound = "cantelli" })
    no("floor must lie strictly between 0 and 1", { floor = 0.0 })
    no("split must be 0 or more and below 1", { split = 1 })
    no("prior_scale must be a positive number", { prior_scale = 0.0 })
    no("the network has statistics of its batches", { prior_epochs = 1, epochs = 1 },
      nn.sequential { nn.linear(2, 4), nn.batch_norm(4), nn.linear(4, 2) })
    no("no posterior of its own", {}, nn.bayesian(nn.linear(2, 2)))
    local m = pac.train(nn.mlp { 2, 3, 2 }, data, { prior_epochs = 1, epochs = 1 })
    refused("the prior saw 25 of these 25 data", pac.certificate, m.net, m.prior_data, {})
  end)
end)

describe("training to a certificate", function()
  it("refuses each number that is out of its range, by name", function()
    local inf = math.huge
    for name, values in pairs { floor = { 0.0, -0.1, 1.0, 1.5, 0 / 0 }, split = { -0.1, 1.0, 2.0, 0 / 0 },
      prior_scale = { 0.0, -1.0, inf, 0 / 0 }, prior_lr = { 0.0, inf, 0 / 0 }, lr = { 0.0, -1.0, inf, 0 / 0 },
      prior_epochs = { -1, 0.5 }, epochs = { 0, 1.5 }, seed = { -1, 0.5 }, batch_size = { 0, 1.5 } } do
      for _, v in ipairs(values) do
        local data = { pn.ones { 8, 2 }, pn.ones({ 8 }, { dtype = "int64" }) }
        local ok, message = pcall(pac.train, pn.nn.linear(2, 2), data, { [name] = v })
        assert.is_false(ok, ("%s = %s is taken"):format(name, v))
        assert(message:find("train: " .. name .. " must", 1, true), message)
        local got = message:match "got ([^:]*)"
        assert(got == (v ~= v and "nan" or ("%g"):format(v)) or got == tostring(v), message)
      end
    end
  end)
end)
