-- Variational EM on factor analysis, whose evidence and posterior are known.
local pn = require "penumbra"
local dist = pn.dist

local function linear(m)
  local w, b = table.unpack(m.likelihood.net[1]:parameters()) -- [latent, data], [data]
  return w, b, (m.likelihood.log_scale * 2):exp()
end

local function evidence_of(m, x)
  local w, b, psi = linear(m)
  return dist.multivariate_normal { loc = b, covariance_matrix = w:t():matmul(w) + psi:diag_embed() }:log_prob(x)
end

describe("variational EM", function()
  it("of factor analysis reaches its own evidence, row by row, and the exact posterior", function()
    pn.seed(1)
    local z = pn.randn { 250, 1 }
    local x = z * pn.tensor { { 1, -0.8, 0.5 } } + pn.randn { 250, 3 } * 0.5 + pn.tensor { 1, 0, -1 }
    local m = pn.models.variational_em { data = 3, latent = 1, decoder = "normal" }
    local s = m:fit { data = x, epochs = 120, batch_size = 100, steps = 5, lr = 0.02, draws = 4 }
    assert.is_true(s.history[#s.history] < s.history[1] - 1)
    local exact = evidence_of(m, x)
    -- the truth has three numbers of noise 0.5 and one latent
    local best = dist.multivariate_normal { loc = { 1, 0, -1 }, covariance_matrix = pn.eye(3) * 0.25
      + pn.tensor { { 1, -0.8, 0.5 } }:t():matmul(pn.tensor { { 1, -0.8, 0.5 } }) }:log_prob(x)
    assert.is_true(exact:mean():item() > best:mean():item() - 0.02)
    local more = m:bound(x, { draws = 100 })
    local value = more.value
    assert.near(exact:mean():item(), value, 1e-3)
    assert.near(0, (more.each - exact):abs():max():item(), 0.02)
    assert.near(value, more.elbo, 0.01)
    -- q_n = N(V W' (x - b) / psi, V), V = 1 / (1 + W' W / psi)
    local w, b, psi = linear(m)
    local v = 1 / (1 + (w:square() / psi):sum():item())
    local mean = ((x - b) / psi):matmul(w:t()) * v
    local q = m:infer(x, { steps = 400, draws = 20 })
    assert.near(0, (q:mean() - mean):abs():max():item(), 0.05)
    assert.near(v, q:variance():mean():item(), 0.05 * v)
    assert.near(0, (m:posteriors():mean() - mean):abs():mean():item(), 0.15)
    assert.same({ 250 }, m:posteriors().batch_shape)
  end)

  -- A decoder that does not see z, and does not learn: what is left is the divergence, without a draw, so that Adam's
  -- steps on it can be taken beside. Blocks of 3 and of 2 rows.
  it("goes on with posteriors and with the state of their optimiser, and tells the mean of all rows", function()
    local N, latent, steps, epochs, rate = 5, 2, 3, 4, 0.05
    local m = pn.models.variational_em { data = 3, latent = latent, decoder = "bernoulli" }
    for _, w in ipairs(m.likelihood:parameters()) do w:set(w * 0) end
    local x = pn.ones { N, 3 }
    local o = { data = x, epochs = 1, batch_size = 3, steps = steps, lr = 1e-30, posterior_lr = rate }
    m:fit(o)
    local start = pn.randn({ N, 2 * latent }, { generator = pn.generator(3) }) * 2
    m.q[1]:set(start:slice(1, 1, 3))
    m.q[2]:set(start:slice(1, 4, 5))
    o.epochs = epochs
    local s = m:fit(o)
    local function divergence(phi) -- of N(mean, e^l) from N(0, 1), each row's
      local mean, l = phi:slice(2, 1, latent), phi:slice(2, latent + 1, 2 * latent)
      return ((mean:square() + l:exp() - 1 - l) * 0.5):sum(2)
    end
    local told = pn.zeros { epochs }:totable()
    for k, rows in ipairs { { 1, 3 }, { 4, 5 } } do
      local phi = pn.param(start:slice(1, rows[1], rows[2]))
      local adam = pn.optim.adam({ phi }, { lr = rate })
      for epoch = 1, epochs do
        local value
        for _ = 1, steps do value = adam:step(divergence(phi):mean()) end
        told[epoch] = told[epoch] + (value + 3 * math.log(2)) * phi:size(1) / N
      end
      assert.near(0, (m.q[k] - phi):abs():max():item(), 1e-9)
    end
    for epoch = 1, epochs do assert.near(told[epoch], s.history[epoch], 1e-9) end
    assert.equal(s.history[epochs], s.loss)
    assert.is_true((m.q[1] - start:slice(1, 1, 3)):abs():min():item() > 0.2)
  end)

  it("has as its bound the moments of the weights that draws of its posteriors have", function()
    pn.seed(5)
    local m = pn.models.variational_em { data = 3, latent = 2, hidden = { 4 }, decoder = "normal" }
    local x, prior = pn.randn { 5, 3 } * 2, dist.normal(pn.zeros { 2 }, 1):independent(1)
    pn.seed(6)
    local b = m:bound(x, { draws = 70, steps = 4 })
    pn.seed(6)
    local q, list = m:infer(x, { steps = 4 }), {}
    for _, count in ipairs { 50, 20 } do
      local z = q:sample { count }
      list[#list + 1] = (m:decode(z):log_prob(x) + prior:log_prob(z) - q:log_prob(z)):detach()
    end
    local log_w = pn.concatenate(list, 1)
    local each, stream = log_w:logsumexp(1) - math.log(70), pn.infer.stream { draws = 70 }
    stream:add(log_w)
    assert.near(0, (b.each - each):abs():max():item(), 1e-10)
    assert.near(each:mean():item(), b.value, 1e-10)
    assert.near(log_w:mean():item(), b.elbo, 1e-10)
    assert.near(stream:standard_error():square():sum():sqrt():item() / 5, b.se, 1e-10)
  end)

  it("keeps posteriors of as many blocks of the same sizes, and begins others anew", function()
    local m = pn.models.variational_em { data = 2, latent = 1, decoder = "normal" }
    local x = pn.randn { 7, 2 }
    local function fit(n, size, more)
      local o = { data = x:slice(1, 1, n), epochs = 1, batch_size = size, posterior_lr = 1e-12, steps = 1 }
      for key, value in pairs(more or {}) do o[key] = value end
      return m:fit(o)
    end
    local function sizes()
      local list = {}
      for k, q in ipairs(m.q) do list[k] = q:size(1) end
      return list
    end
    local function marked() return m.q[1]:abs():max():item() > 1 end
    for _, case in ipairs { { 7, 3, { 3, 3, 1 }, false }, { 7, 3, { 3, 3, 1 }, true }, { 6, 3, { 3, 3 }, false },
      { 5, 3, { 3, 2 }, false }, { 2, 3, { 2 }, false } } do
      fit(case[1], case[2])
      assert.same({ case[3], case[4] }, { sizes(), marked() })
      assert.same({ case[1] }, m:posteriors().batch_shape)
      m.q[1]:set(m.q[1] * 0 + 2)
    end
    local epochs = 0
    local s = fit(2, 3, { epochs = 5, on_epoch = function(now)
      epochs = epochs + 1
      return now.epoch < 2
    end })
    assert.same({ 2, 2, 2 }, { epochs, s.epoch, #s.history })
    assert.equal("model without encoder: 1 latents of 2 data", tostring(m))
  end)

  it("tells the standard error of its bound", function()
    pn.seed(4)
    local m = pn.models.variational_em { data = 3, latent = 1, decoder = "normal" }
    local x, values, claimed = pn.randn { 6, 3 } * 2, {}, 0
    for k = 1, 60 do
      local b = m:bound(x, { draws = 200, steps = 1 })
      values[k], claimed = b.value, claimed + b.se / 60
    end
    local ratio = pn.tensor(values):std():item() / claimed
    assert.is_true(claimed > 1e-4 and ratio > 0.6 and ratio < 1.6, ratio)
  end)

  it("takes every likelihood, float32, one row, and is saved with its posteriors", function()
    local path = os.tmpname() .. ".safetensors"
    for _, name in ipairs { "bernoulli", "normal", "categorical", "mixture" } do
      for _, dtype in ipairs { "float64", "float32" } do
        pn.seed(2)
        local given = { data = 3, latent = 2, hidden = { 4 }, decoder = name, categories = 3, dtype = dtype }
        local m = pn.models.variational_em(given)
        for _, n in ipairs { 1, 5 } do
          local x = name == "categorical" and (pn.rand { n, 3 } * 3):floor():to "int64"
            or pn.rand { n, 3 }:gt(0.5):to(dtype)
          local first = m:fit { data = x, epochs = 1, batch_size = 3 }.loss
          m:fit { data = x, epochs = 60, batch_size = 3 }
          assert.is_true(m:fit { data = x, epochs = 1, batch_size = 3, draws = 20 }.loss < first)
          assert.is_true(m:bound(x, { draws = 60, steps = 5 }).value < 10)
        end
        assert(pn.save(path, m:state()))
        local other = pn.models.variational_em(given)
        other:fit { data = name == "categorical" and pn.zeros({ 5, 3 }, { dtype = "int64" })
          or pn.zeros({ 5, 3 }, { dtype = dtype }), epochs = 1, batch_size = 3 }
        other:load_state(assert(pn.load(path)))
        assert.same(m:posteriors():mean():totable(), other:posteriors():mean():totable())
      end
    end
    os.remove(path)
  end)

  local m = pn.models.variational_em { data = 3, latent = 2 }
  local source = debug.getinfo(1, "S").short_src
  for text, f in pairs {
    ["variational_em: option 'data' is required"] = function() pn.models.variational_em { latent = 1 } end,
    ["variational_em: latent must be a whole number from 1 on, got 1.5"] =
      function() pn.models.variational_em { data = 2, latent = 1.5 } end,
    ["fit: x must be float64 of shape [N, 3], got float64 [2, 2]"] =
      function() m:fit { data = pn.zeros { 2, 2 }, epochs = 1 } end,
    ["posteriors: there are none before fit"] = function() m:posteriors() end,
    ["infer: x must be a tensor, got nil"] = function() m:infer() end,
    ["bound: draws must be a whole number from 1 on, got 0"] = function() m:bound(pn.zeros { 1, 3 }, { draws = 0 }) end,
  } do
    it("tells " .. text, function()
      local _, message = pcall(f)
      local place = ("%s:%d: "):format(source, debug.getinfo(f, "S").linedefined)
      assert.equal(place .. text, message:sub(1, #place + #text))
    end)
  end
end)
