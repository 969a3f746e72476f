--- Variables that are summed out, against sums over all their values written out.
local logsumexp = require "spec.infer.enumerated".logsumexp
local pn = require "penumbra"
local dist = pn.dist
local model = require "penumbra.infer.model"
local near = require("spec.helper").near

-- The log density of m with its enumerated variables summed out, and the gradient by loc if it is a parameter.
local function summed(m, args, values, most, loc)
  local t = model.run(m, args, { enumerate = true, most = most, value = function(_, site)
    return model.given_value(values, site)
  end })
  local lp = t:log_density()
  return lp:item(), loc and pn.grad(lp, { loc })[1]:totable()
end

local enumerate = { enumerate = true }

describe("an enumerated variable", function()
  local y = pn.tensor { -1, 0.5, 2, 3 }
  local probs, loc = pn.tensor { 0.2, 0.5, 0.3 }, pn.param(pn.tensor { -1, 0, 2 })

  it("of each row is a mixture, and its gradient the mixture's", function()
    local m = pn.model(function(m)
      m:plate("rows", 4, function()
        local z = m:sample("z", dist.categorical(probs), enumerate)
        m:observe("y", dist.normal(loc:take(1, z), 1), y)
      end)
    end)
    local got, slope = summed(m, {}, {}, 1, loc)
    local lp = dist.mixture(probs, dist.normal(loc, 1)):log_prob(y):sum()
    near(got, lp:item())
    for k, g in ipairs(pn.grad(lp, { loc })[1]:totable()) do near(slope[k], g) end
  end)

  it("of all rows is a mixture of products", function()
    local m = pn.model(function(m)
      local z = m:sample("z", dist.categorical(probs), enumerate)
      m:plate("rows", 4, function() m:observe("y", dist.normal(loc:take(1, z), 1), y) end)
    end)
    local terms = {}
    for k = 1, 3 do
      terms[k] = math.log(probs[k]:item()) + dist.normal(loc[k]:item(), 1):log_prob(y):sum():item()
    end
    near((summed(m, {}, {}, 1)), logsumexp(terms))
  end)

  it("and another one that depends on it are summed in turn", function()
    local next_probs = pn.tensor { { 0.9, 0.1 }, { 0.4, 0.6 }, { 0.2, 0.8 } }
    local m = pn.model(function(m)
      m:plate("rows", 4, function()
        local a = m:sample("a", dist.categorical(probs), enumerate)
        local b = m:sample("b", dist.categorical(next_probs:take(1, a)), enumerate)
        m:observe("y", dist.normal(loc:take(1, a) + b:to "float64" * 0.5, 1), y)
      end)
    end)
    local want = 0
    for i = 1, 4 do
      local terms = {}
      for a = 1, 3 do
        for b = 1, 2 do
          terms[#terms + 1] = math.log(probs[a]:item()) + math.log(next_probs[a][b]:item())
            + dist.normal(loc[a]:item() + (b - 1) * 0.5, 1):log_prob(y[i]):item()
        end
      end
      want = want + logsumexp(terms)
    end
    near((summed(m, {}, {}, 1)), want)
  end)

  it("of a group sums products over the rows within", function()
    local data = pn.tensor { { -1, 0.5, 2 }, { 0, 1, 1.5 } } -- [rows, groups]
    local m = pn.model(function(m)
      m:plate("groups", 3, function()
        local z = m:sample("z", dist.bernoulli(0.3), enumerate)
        m:plate("rows", 2, function() m:observe("y", dist.normal(z * 2, 1), data) end)
        m:observe("x", dist.normal(z, 1), pn.tensor { 1, 2, 3 })
      end)
    end)
    local want = 0
    for j = 1, 3 do
      local terms = {}
      for z = 0, 1 do
        local lp = math.log(z == 1 and 0.3 or 0.7) + dist.normal(z, 1):log_prob(j):item()
        for i = 1, 2 do lp = lp + dist.normal(2 * z, 1):log_prob(data[i][j]):item() end
        terms[z + 1] = lp
      end
      want = want + logsumexp(terms)
    end
    near((summed(m, {}, {}, 2)), want)
  end)

  -- x [2] of a row hangs on its z: the law of x has an axis for z, its part of the unconstrained vector has none
  it("lets vectors of rows hang on it, in all rows and in some of them", function()
    local function model_of(rows, batch)
      return pn.model(function(m)
        m:plate("rows", rows, batch and { batch_size = batch } or {}, function(i)
          local z = m:sample("z", dist.bernoulli(0.3), enumerate)
          local x = m:sample("x", dist.log_normal(pn.stack({ z, z * 2 }, -1), 1):independent(1))
          m:observe("y", dist.normal(x:sum(-1), 1), pn.full({ i:numel() }, 2))
        end)
      end)
    end
    local z, one, all = pn.randn({ 3, 2 }, { generator = pn.generator(3) }), {}, 0
    local single = model_of(1):target()
    for k = 1, 3 do
      one[k] = single:log_density(z[k]):item()
      all = all + one[k]
    end
    near(all, model_of(3):target():log_density(z:reshape { 6 }):item())
    pn.seed(4)
    local some, seen = model_of(3, 1):target(), 0
    for _ = 1, 20 do
      local got = some:log_density(z:reshape { 6 }):item()
      local is = { math.abs(got - 3 * one[1]) < 1e-9, math.abs(got - 3 * one[2]) < 1e-9,
        math.abs(got - 3 * one[3]) < 1e-9 }
      assert(is[1] or is[2] or is[3], got)
      seen = seen | (is[1] and 1 or 0) | (is[2] and 2 or 0) | (is[3] and 4 or 0)
    end
    assert.equal(7, seen)
  end)

  it("is looked for without a draw, in vmap too", function()
    local m = pn.model(function(m)
      local z = m:sample("z", dist.categorical(pn.tensor { 0.2, 0.3, 0.5 }), enumerate)
      m:sample("x", dist.normal(z:to "float64", 1))
    end)
    local x, target = pn.tensor { -1, 0.5, 3 }, m:target()
    local before = pn.rng_state()
    local rows = pn.vmap(function(v) return m:log_density { x = v } end)(x)
    for k = 1, 3 do
      local terms = {}
      for j, p in ipairs { 0.2, 0.3, 0.5 } do terms[j] = math.log(p) + dist.normal(j - 1, 1):log_prob(x[k]):item() end
      near(logsumexp(terms), rows[k]:item())
      near(logsumexp(terms), m:log_density { x = x[k] }:item())
    end
    target:unconstrain { x = x[1] }
    assert.same(before, pn.rng_state())
  end)

  it("of each time is a hidden Markov model", function()
    local start, move = pn.tensor { 0.6, 0.4 }, pn.tensor { { 0.8, 0.2 }, { 0.3, 0.7 } }
    local m = pn.model(function(m)
      m:scan("t", 4, false, function(z, t)
        z = m:sample("z", dist.categorical(z and move:take(1, z) or start), enumerate)
        m:observe("y", dist.normal(z:to "float64" * 2, 1), y[t])
        return z
      end)
    end)
    local alpha = { math.log(0.6), math.log(0.4) }
    local function emit(k, t) return dist.normal((k - 1) * 2, 1):log_prob(y[t]):item() end
    for k = 1, 2 do alpha[k] = alpha[k] + emit(k, 1) end
    for t = 2, 4 do
      local next_alpha = {}
      for k = 1, 2 do
        next_alpha[k] = emit(k, t)
          + logsumexp { alpha[1] + math.log(move[1][k]:item()), alpha[2] + math.log(move[2][k]:item()) }
      end
      alpha = next_alpha
    end
    near((summed(m, {}, {}, 0)), logsumexp(alpha))
  end)

  it("is summed out by samplers and guides", function()
    pn.seed(2)
    local data = pn.concatenate { pn.randn { 30 } * 0.5 - 2, pn.randn { 20 } * 0.5 + 2 }
    local function body(enumerated)
      return pn.model(function(m, x)
        local mu = m:sample("mu", dist.normal(pn.tensor { -2, 2 }, 0.5):independent(1))
        local p = m:sample("p", dist.beta(2, 2))
        m:plate("rows", x:size(1), function()
          if enumerated then
            local z = m:sample("z", dist.bernoulli(p), enumerate)
            m:observe("y", dist.normal(mu:take(1, z:to "int64"), 0.5), x)
          else
            local each = dist.normal(mu, 0.5)
            m:observe("y", dist.mixture { probs = pn.stack({ 1 - p, p }, 1), components = each }, x)
          end
        end)
      end)
    end
    local m = body(true)
    local post = pn.nuts(m, { data = { data }, chains = 2, warmup = 200, draws = 200,
      init = { mu = { -2, 2 }, p = 0.5 } })
    local row = post:summary().p
    assert(math.abs(row.mean - 22 / 54) < 6 * row.mcse + 0.02, row.mean)
    local ll = post:log_likelihood().y
    assert.same({ 2, 200, 50 }, ll:shape())
    local mu, p = post.draws.mu[2][7], post.draws.p[2][7]:item()
    local want = dist.mixture({ 1 - p, p }, dist.normal(mu, 0.5)):log_prob(data):totable()
    for i, v in ipairs(ll[2][7]:totable()) do near(v, want[i]) end
    local fit = pn.svi(m, pn.infer.guide("full_rank", { init = { mu = { -2, 2 }, p = 0.5 } }), { data = { data },
      steps = 600, lr = 0.02 })
    near(fit:summary().p.mean, row.mean, 0.05)
    assert.is_true(fit:k_hat() < 0.7)
  end)

  it("has no likelihood to tell of what it shares with a latent variable", function()
    local m = pn.model(function(m)
      local z = m:sample("z", dist.bernoulli(0.4), enumerate)
      local a = m:sample("a", dist.normal(z * 2, 1))
      m:observe("y", dist.normal(a + z, 1), 0.3)
    end)
    local ok, message = pcall(function()
      return pn.nuts(m, { warmup = 4, draws = 4, chains = 1, progress = false }):log_likelihood()
    end)
    assert.is_false(ok)
    assert.matches("log_likelihood: 'y' has no density of its own", message)
  end)

  it("that cannot be enumerated, or is used outside of its plate, is refused", function()
    local function refused(pattern, body, most)
      local ok, message = pcall(summed, pn.model(body), {}, {}, most or 1)
      assert.is_false(ok)
      assert.matches(pattern, message)
    end
    refused("sample: 'z' cannot be enumerated: poisson has no finite list of values", function(m)
      m:sample("z", dist.poisson(1), enumerate)
    end)
    refused("sample: 'z' cannot be enumerated: its values are not numbers", function(m)
      m:sample("z", dist.bernoulli(pn.tensor { 0.1, 0.2 }):independent(1), enumerate)
    end)
    refused("sample: 'z' is enumerated in plate 'rows', but what depends on it stands outside", function(m)
      local z
      m:plate("rows", 4, function() z = m:sample("z", dist.bernoulli(0.5), enumerate) end)
      m:plate("others", 4, function() m:observe("y", dist.normal(z, 1), y) end)
    end)
    refused("sample: 'z8' would be the variable number 8 that is enumerated", function(m)
      m:plate("rows", 2, function()
        for k = 1, 8 do m:sample("z" .. k, dist.bernoulli(0.5), enumerate) end
      end)
    end)
    for most = 0, 1 do -- one axis beside those of the plates
      local values = most == 0 and y or pn.zeros { 3, 2, 4 }
      refused("more axes than there are plates", function(m)
        m:sample("z", dist.bernoulli(0.5), enumerate)
        m:observe("y", dist.normal(values * 0, 1), values)
      end, most)
    end
  end)
end)

describe("draws of enumerated variables", function()
  local y = pn.tensor { 2.1, 1.9, 2.3, 1.7 }

  -- y_i = a + noise, a = mu + 4 z + w: normal with covariance I + 11^T given z and w
  local m = pn.model(function(m, seen)
    local z = m:sample("z", dist.bernoulli(0.5), enumerate)
    local w = m:sample("w", dist.categorical(pn.tensor { 0.2, 0.3, 0.5 }), enumerate)
    local mu = m:sample("mu", dist.normal(0, 1))
    m:deterministic("both", z + w:to "float64" * 10)
    m:plate("rows", 4, function() m:observe("y", dist.normal(mu + z * 4 + w:to "float64", 1), seen) end)
  end)

  local function moments()
    local total, z, w = 0, 0, 0
    for i = 0, 1 do
      for j = 0, 2 do
        local law = dist.multivariate_normal { loc = pn.full({ 4 }, 4 * i + j),
          covariance_matrix = pn.eye(4) + pn.ones { 4, 4 } }
        local p = ({ 0.2, 0.3, 0.5 })[j + 1] * math.exp(law:log_prob(y):item())
        total, z, w = total + p, z + p * i, w + p * j
      end
    end
    return z / total, w / total
  end

  it("in no plate are those of the posterior, in predictions and in deterministic sites", function()
    pn.seed(5)
    local p = pn.nuts(m, { data = { y }, draws = 2000 })
    local z, w = moments()
    local slack = 6 * 5 / math.sqrt(p:summary().mu.ess_bulk)
    assert(slack < 1.2) -- from priors the mean would be z + 10 w = 13.5
    near(p.draws.both:mean():item(), z + 10 * w, slack / 15)
    local mean = p:predict().y:mean():item() -- from priors it would be 3.4
    assert(math.abs(mean - (p.draws.mu:mean():item() + 4 * z + w)) < 6 * 1.6 / math.sqrt(p:summary().mu.ess_bulk))
    -- what depends on several of them is drawn jointly
    local first = p.draws.both - (p.draws.both / 10):floor() * 10
    assert.same({ 0, 1 }, { first:min():item(), first:max():item() })
  end)

  it("are kept by a file", function()
    pn.seed(6)
    local p, path = pn.nuts(m, { data = { y }, draws = 50, warmup = 100 }), os.tmpname()
    assert(p:save(path))
    local again = assert(pn.restore(path, { model = m, data = { y } }))
    os.remove(path)
    assert.same(p.draws.both:totable(), again.draws.both:totable())
  end)

  it("of chains and of rows have the law of a walk through all values", function()
    -- s_1, s_2 | s_1, and for each row i a label t_i | s_2: y_i ~ N(s_1 + 2 s_2 + t_i, 1)
    local start, move = pn.tensor { 0.3, 0.7 }, pn.tensor { { 0.9, 0.1 }, { 0.4, 0.6 } }
    local labels, seen = pn.tensor { { 0.8, 0.2 }, { 0.1, 0.9 } }, pn.tensor { 0.4, 2.5 }
    local chain = pn.model(function(r)
      local a = r:sample("a", dist.categorical(start), enumerate)
      local b = r:sample("b", dist.categorical(move:take(1, a)), enumerate)
      r:plate("rows", 2, function()
        local t = r:sample("t", dist.categorical(labels:take(1, b)), enumerate)
        r:observe("y", dist.normal((a + b * 2 + t):to "float64", 1), seen)
      end)
    end)
    local how = { enumerate = true, most = 1 }
    local enumeration, n, count = require "penumbra.infer.enumeration", 4000, {}
    pn.seed(7)
    local t = model.run(chain, {}, how)
    for _ = 1, n do
      local v = enumeration.draw(t)
      assert.same({ 2 }, v.t:shape())
      local key = table.concat({ v.a:item(), v.b:item(), v.t[1]:item(), v.t[2]:item() }, ",")
      count[key] = (count[key] or 0) + 1
    end
    local weight, total = {}, 0
    for index = 0, 15 do
      local a, b, t1, t2 = index // 8, index // 4 % 2, index // 2 % 2, index % 2
      local p = start[a + 1]:item() * move[a + 1][b + 1]:item()
      for i, label in ipairs { t1, t2 } do
        p = p * labels[b + 1][label + 1]:item() * math.exp(-(seen[i]:item() - a - 2 * b - label) ^ 2 / 2)
      end
      weight[table.concat({ a, b, t1, t2 }, ",")], total = p, total + p
    end
    for key, w in pairs(weight) do
      local p = w / total
      assert(math.abs((count[key] or 0) / n - p) <= 6 * math.sqrt(p * (1 - p) / n) + 1 / n, key)
    end
  end)
end)
