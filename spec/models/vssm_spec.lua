-- Residual variational state-space models: parts against definitions, linear ones against Kalman's exact answers.
local pn = require "penumbra"
local residual_states = require "penumbra.models.residual_states"
local vssm = require "penumbra.models.vssm"
local prepared_batch = require "penumbra.models.prepared_batch"

local case = require "spec.models.linear_vssm"
local linear, train, exact, copies, near_mean, lower = case.linear, case.train, case.exact, case.copies, case.near_mean,
  case.lower

local function largest(a, b) return (a - b):abs():max():item() end

-- States of a flow with large weights.
local function wild(n, flows)
  local s = residual_states.new("vssm", { latent = n, inputs = 0, transition = "plain", gain = "network", floor = 1e-4,
    hidden = { 3 }, activation = "tanh", flows = flows, flow_hidden = { 6 }, dtype = "float64" })
  for _, p in ipairs(s.flow[1] and pn.nn.module { s.flow }:parameters() or {}) do
    p:set(p + pn.randn(p:shape()))
  end
  s.loc:set(pn.randn { n })
  s.log_scale:set(pn.randn { n } * 0.3 + 1)
  return s
end

local function log_density(s, z)
  local e, log_det = s:undo(z)
  return pn.dist.normal(0, 1):log_prob(e):sum(-1) - log_det
end

describe("the first state's flow", function()
  it("is undone, and its log-determinant is that of the numeric Jacobian", function()
    pn.seed(1)
    for n = 1, 4 do
      local s, step = wild(n, 3), 1e-6
      local e = pn.randn { 5, n }
      local z = pn.no_grad(function() return s:start(e) end) + 0
      local back, log_det = s:undo(z)
      assert.near(0, largest(e, back), 1e-9)
      for k = 1, 5 do
        local columns = {}
        for i = 1, n do
          local d = pn.where(pn.arange(n):eq(i - 1), pn.full({}, step), pn.zeros {})
          columns[i] = (s:start(e[k]:unsqueeze(1) + d) - s:start(e[k]:unsqueeze(1) - d)):squeeze(1) / (2 * step)
        end
        local _, log_abs = pn.stack(columns, 2):detach():slogdet()
        assert.near(log_abs:item(), log_det[k]:item(), 1e-6)
      end
    end
  end)

  it("has a density that integrates to one", function()
    pn.seed(2)
    for n = 1, 2 do
      local s, points = wild(n, 2), n == 1 and 4001 or 501
      local z = s:start(pn.randn { 4000, n })
      local cells, volume = {}, 1
      for k = 1, n do
        local middle, width = z:select(2, k):mean():item(), z:select(2, k):std():item() * 10
        cells[k] = pn.linspace(middle - width, middle + width, points)
        volume = volume * 2 * width / (points - 1)
      end
      local grid = n == 1 and cells[1]:unsqueeze(2) or pn.stack({
        cells[1]:unsqueeze(2):broadcast_to { points, points }:reshape { -1 },
        cells[2]:unsqueeze(1):broadcast_to { points, points }:reshape { -1 } }, 2)
      assert.near(1, pn.no_grad(log_density, s, grid):exp():sum():item() * volume, 1e-3)
    end
  end)
end)

describe("a smoothed path", function()
  it("is of its own series, and observations of it are in the series' own units", function()
    pn.seed(5)
    local m = case.linear { scaling = "standard" }
    local y = case.draws_of(6, 3) * 4 + 7
    local function smoothed(x)
      return m:smooth({ y = x }, { draws = 300, generator = pn.generator(1) })
    end
    local s = smoothed(y)
    assert.same({ 300, 6, 3, 1 }, s.state:shape())
    -- y = z + noise
    local mean = y:mean(1)
    local sd = (y - mean):square():mean(1):sqrt()
    local noise = (s.observation - mean) / sd - s.state
    case.near_mean(0, noise, 0.02)
    case.near_mean(0.25, noise:square(), 0.02)
    local turned = pn.stack({ y:select(2, 1), y:select(2, 2) * pn.tensor { 1, -1, 1, -1, 1, -1 }:unsqueeze(2),
      y:select(2, 3) }, 2)
    local moved = (smoothed(turned).state - s.state):abs():max(1):max(1):reshape { 3 }:totable()
    assert.is_true(moved[1] == 0 and moved[2] > 0.01 and moved[3] == 0)
    assert.is_true((s.state:select(1, 1) - s.state:select(1, 2)):abs():min():item() > 0)
  end)
end)

describe("a step of the state", function()
  it("is z + h, h, or z + sigmoid(k) (h - z), of what the network gives", function()
    pn.seed(8)
    for _, kind in ipairs { "residual", "plain", "highway" } do
      local m = pn.models.vssm { size = 1, latent = 3, covariates = 2, units = 4, transition = kind, gain = "network",
        floor = 0.25 }
      local z, u = pn.randn { 5, 3 }, pn.randn { 5, 2 }
      local out = m.states.net(pn.concatenate({ z, u }, 2)):totable()
      local f, g = m.states:move(z, u)
      for k = 1, 5 do
        for d = 1, 3 do
          local h, at = out[k][d], z[k][d]:item()
          local share = kind == "highway" and 1 / (1 + math.exp(-out[k][3 + d])) or 1
          local want = kind == "residual" and at + h or at + share * (h - at)
          assert.near(want, f[k][d]:item(), 1e-14)
          assert.near(math.log(1 + math.exp(out[k][kind == "highway" and 6 + d or 3 + d])) + 0.25, g[k][d]:item(),
            1e-14)
        end
      end
    end
  end)
end)

describe("the gain", function()
  it("that all share begins at softplus(0.5)", function()
    local m = pn.models.vssm { latent = 3, units = 2, gain = "shared", floor = 0.25 }
    local _, g = m.states:move(pn.randn { 2, 3 })
    assert.near(0, (g - math.log(1 + math.exp(0.5)) - 0.25):abs():max():item(), 1e-15)
    assert.same({ 3 }, g:shape())
  end)

  it("never falls below its floor", function()
    for _, gain in ipairs { "shared", "network" } do
      local m = pn.models.vssm { latent = 2, units = 2, gain = gain, transition = "plain", floor = 1e-3,
        hidden = { transition = {} } }
      local p = gain == "shared" and m.states.raw_gain or m.states.net[1]:parameters()[2]
      p:set(p * 0 - 1e4)
      local _, g = m.states:move(pn.randn { 3, 2 })
      assert.near(0, (g - 1e-3):abs():max():item(), 1e-15)
      p:set(p * 0 + 2)
      if gain == "network" then m.states.net[1]:parameters()[1]:set(pn.zeros { 2, 4 }) end
      _, g = m.states:move(pn.randn { 3, 2 })
      assert.near(0, (g - math.log(1 + math.exp(2)) - 1e-3):abs():max():item(), 1e-12)
    end
  end)
end)

describe("what inference is told", function()
  local steps, kinds = 6, { "partial", "semi", "full", lower(6):logical_and(lower(6):t():logical_not():logical_or(
    pn.eye(6):gt(0))), pn.tensor { { true, false, true }, { false, true, false }, { true, true, false } } }

  it("depends on what sees(t) says, and its gradients in all else are exactly 0", function()
    pn.seed(3)
    for _, kind in ipairs(kinds) do
      for _, dtype in ipairs { "float64", "float32" } do
        local long = pn.is_tensor(kind) and kind:size(1) or steps
        local m = pn.models.vssm { size = 2, latent = 3, covariates = 1, conditioning = kind, units = 5, layers = 2,
          prefix = kind == "semi" and 3 or nil, dtype = dtype }
        local x = pn.param(pn.randn({ long, 4, 5 }, { dtype = dtype }))
        local first, later = m.told:of(x)
        for t = 1, long do
          local f = t == 1 and first or later[t]
          local g = pn.grad((f * pn.randn(f:shape(), { dtype = dtype })):sum(), { x })[1]
          local touched = g:ne(0):any(-1):any(-1)
          local said = m:sees(t, long)
          assert.same(said.observations:totable(), touched:totable())
          assert.equal(t > 1, said.state)
        end
      end
    end
  end)

  it("is all that the posterior of a step has, beside z_(t-1)", function()
    for _, kind in ipairs { "partial", "semi", "full", lower(steps) } do
      for _, markov in ipairs { true, false } do
        pn.seed(4)
        local m = pn.models.vssm { size = 1, latent = 2, conditioning = kind, units = 4, markov = markov, flows = 2,
          prefix = kind == "semi" and 2 or nil }
        local b = prepared_batch.read("spec", m, { y = pn.randn { steps, 3, 1 } })
        b.y = pn.param(b.y)
        local noise = pn.param(pn.randn { steps, 3, 2 })
        local z = vssm.path_of(m, b, { noise = noise })
        local reach = pn.zeros { steps }:gt(0) -- through the states before
        for t = 1, steps do
          local g = pn.grad(z[t]:sum(), { b.y, noise })
          local said = m:sees(t, steps)
          reach = said.state and reach:logical_or(said.observations) or said.observations
          assert.same(reach:totable(), g[1]:ne(0):any(-1):any(-1):totable())
          local before = t > 1 and g[2][t - 1]:ne(0):any():item()
          assert.equal(said.state, before)
        end
      end
    end
  end)

  it("has a prefix that ends with the series, and says so once", function()
    pn.seed(5)
    local m = pn.models.vssm { size = 1, latent = 2, conditioning = "semi", prefix = 9, units = 4 }
    local real, text = io.stderr, {}
    io.stderr = { write = function(_, ...) text[#text + 1] = table.concat { ... } end } -- luacheck: ignore 122
    local y = pn.randn { 5, 3, 1 }
    local ok, value = pcall(m.log_evidence, m, { y = y }, { generator = pn.generator(1) })
    m:log_evidence({ y = y })
    io.stderr = real -- luacheck: ignore 122
    local said = table.concat(text)
    assert.is_true(ok, value)
    assert.matches("prefix 9 is longer than a series of 5 steps", said)
    assert.equal(1, select(2, said:gsub("prefix 9", "")))
    assert.same({ true, true, true, true, true }, m:sees(1, 5).observations:totable())
    -- the same as of a series that goes on without observations
    local longer = pn.concatenate({ y, pn.full({ 4, 3, 1 }, 0 / 0) }, 1)
    local long = prepared_batch.read("spec", m, { y = longer, lengths = { 5, 5, 5 } })
    local short = prepared_batch.read("spec", m, { y = y })
    local seen = function(b) return pn.concatenate({ b.y, b.observed:to "float64" }, 3) end
    assert.equal(0, largest(m.told:of(seen(long), long.lengths), (m.told:of(seen(short)))))
  end)
end)

describe("a bound", function()
  local kinds = { "partial", "semi", "full", lower(4) }

  it("has weights whose mean is the evidence, with gaps and without, whatever q sees", function()
    for k, kind in ipairs(kinds) do
      for _, posterior in ipairs { "noise", "state" } do
        pn.seed(10 + k)
        local m = linear { conditioning = kind, posterior = posterior, prefix = kind == "semi" and 2 or nil,
          markov = k ~= 2 }
        train(m, m:inference_parameters(), { steps = 4, rows = 50, turns = 200, lr = 0.02, last = 0.1 })
        for _, net in ipairs { m.initial, m.disturbance.rest } do -- wider, so that weights have a variance
          local list = net:parameters()
          list[#list]:set(list[#list] + pn.tensor { 0, 0.7 })
        end
        for _, y in ipairs { { 0.9, -0.4, 1.7, 0.2 }, { 0.9, 0 / 0, 0 / 0, 0.8 } } do
          local want = exact(copies(y, 1)):item()
          local bound = m:bound({ y = copies(y, 20) }, { draws = 3000 })
          near_mean(1, (bound - want):exp(), 0.05)
          local one = m:bound({ y = copies(y, 20000) })
          assert.is_true(one:mean():item() < want)
          -- of one draw, the divergence in closed form and the log weight are the same on average
          local weighed = vssm.bound_of(m, prepared_batch.read("spec", m, { y = copies(y, 20000) }), { weighed = true })
          near_mean(0, one - weighed, 0.1)
        end
      end
    end
  end)

  it("has divergences of residuals that are those of states", function()
    pn.seed(20)
    for _, transition in ipairs { "plain", "residual", "highway" } do
      for _, markov in ipairs { true, false } do
        local m = pn.models.vssm { size = 2, latent = 3, covariates = 1, transition = transition, units = 4,
          conditioning = "partial", markov = markov }
        local batch = { y = pn.randn { 2, 5, 2 }, inputs = pn.randn { 2, 5, 1 } }
        local b = prepared_batch.read("spec", m, batch)
        local noise = pn.randn { 1, 5, 3 }
        local function path(e) return vssm.path_of(m, b, { noise = pn.concatenate({ noise, e }, 1) }) end
        local at0, lost = path(pn.zeros { 1, 5, 3 })
        local at1 = path(pn.ones { 1, 5, 3 })
        local _, first = vssm.path_of(m, prepared_batch.read("spec", m, { y = batch.y:slice(1, 1, 1),
          inputs = batch.inputs:slice(1, 1, 1) }), { noise = noise })
        local f, g = m.states:move(at0[1], batch.inputs[1])
        local kl = pn.dist.kl(pn.dist.normal(at0[2], at1[2] - at0[2]), pn.dist.normal(f, g)):sum(-1)
        assert.near(0, largest(kl, lost - first), 1e-10)
        assert.is_true(kl:min():item() > 1e-3)
      end
    end
  end)

  it("has the divergence of the first step as its definition says, of noise and of states", function()
    pn.seed(21)
    for _, posterior in ipairs { "noise", "state" } do
      local m = pn.models.vssm { size = 1, latent = 2, units = 4, conditioning = "partial", posterior = posterior }
      local b = prepared_batch.read("spec", m, { y = copies({ 0.7 }, 40000) })
      local _, lost = vssm.path_of(m, b, {})
      local zero, one = pn.zeros { 1, 40000, 2 }, pn.ones { 1, 40000, 2 }
      local function x_of(noise) -- the point that q is normal in
        local z = vssm.path_of(m, b, { noise = noise })[1]:detach() + 0
        return posterior == "state" and z or (m.states:undo(z))
      end
      local loc = x_of(zero)
      local q = pn.dist.normal(loc, x_of(one) - loc)
      if posterior == "noise" then
        assert.near(0, largest(pn.dist.kl(q, pn.dist.normal(0, 1)):sum(-1), lost), 1e-9)
      else -- a draw of log q - log p each
        local z = q:sample()
        near_mean(0, lost - (q:log_prob(z):sum(-1) - log_density(m.states, z)), 0.02)
      end
    end
  end)

  it("has the weights that the densities of paths give, which pn.gap.measure takes", function()
    for _, o in ipairs { { posterior = "noise", gain = "network" }, { posterior = "state", gain = "shared" },
      { posterior = "noise", gain = { 0.5, 2 }, markov = false }, { posterior = "state", gain = "network",
        markov = false } } do
      pn.seed(24)
      o.size, o.latent, o.units, o.covariates, o.conditioning = 2, 2, 4, 1, "partial"
      local m = pn.models.vssm(o)
      local y = pn.where(pn.rand { 4, 3, 2 }:lt(0.2), pn.full({}, 0 / 0), pn.randn { 4, 3, 2 })
      local b = m:prepared { y = y, inputs = pn.randn { 4, 3, 1 }, lengths = { 2, 4, 3 } }
      local q = m:amortised_posterior()
      local z, log_q = q:draw(b, 5, pn.generator(1))
      assert.same({ 5, 3, 4, 2 }, z:shape())
      local want = vssm.bound_of(m, b, { draws = 5, generator = pn.generator(1), weighed = true }):reshape { 5, 3 }
      assert.near(0, largest(want, m:log_joint(z + 0, b) - log_q), 1e-9)
      for steps = 1, 2 do -- no step goes on, or one
        local few = m:prepared { y = y:slice(1, 1, steps), inputs = pn.randn { steps, 3, 1 } }
        z, log_q = q:draw(few, 2, pn.generator(1))
        assert.same({ 2, 3, steps, 2 }, z:shape())
        want = vssm.bound_of(m, few, { draws = 2, generator = pn.generator(1), weighed = true }):reshape { 2, 3 }
        assert.near(0, largest(want, m:log_joint(z + 0, few) - log_q), 1e-9)
      end
      assert.is_nil(q.sees_all)
      local wide = q:widened(2)
      assert.equal(2, (wide:draw(m:take(b, pn.tensor({ 0, 2 }, { dtype = "int64" })), 3)):size(2))
      assert.equal(#q:parameters(), #wide:parameters())
      assert.is_true(wide:parameters()[1]:numel() > q:parameters()[1]:numel())
      assert.equal(m.states, wide.model.states)
      for factor = 1, 2 do -- units and layers, all so many times as wide
        local own = { units = 4 * factor, hidden = { 32 * factor } }
        for key, v in pairs(o) do own[key] = own[key] or v end
        local list = q:widened(factor):parameters()
        for k, w in ipairs(pn.models.vssm(own):amortised_posterior():parameters()) do
          assert.same(w:shape(), list[k]:shape())
        end
      end
      -- the slope of what pn.gap.measure makes large, along one direction of all parameters
      local all, way, at, slope = m:parameters(), {}, {}, 0
      for k, p in ipairs(all) do
        way[k], at[k] = pn.randn(p:shape()), p:detach() + pn.randn(p:shape()) * 0.05
      end
      local function along(h)
        for k, p in ipairs(all) do p:set(at[k] + way[k] * h) end
        local drawn, log_of = q:draw(b, 2, pn.generator(2))
        return ((m:log_joint(drawn, b) - log_of * 0.7) * pn.tensor { 1, -2, 3 }):sum()
      end
      for k, grad in ipairs(pn.grad(along(0), all)) do slope = slope + (grad and (grad * way[k]):sum():item() or 0) end
      local h = 1e-5
      local wanted = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))):item() / (12 * h)
      assert.near(wanted, slope, 1e-6 * math.max(1, math.abs(slope)))
      for k, p in ipairs(all) do p:set(at[k]) end
    end
    assert.is_true(pn.models.vssm { units = 3 }:amortised_posterior().sees_all)
  end)

  it("has a joint density that is the sum of those of its parts, whatever the gain is", function()
    for _, o in ipairs { { gain = 0.7 }, { gain = { 0.5, 2, 0.1 } }, { gain = "shared" }, { gain = "network" } } do
      pn.seed(32)
      o.size, o.latent, o.units, o.covariates, o.conditioning = 2, 3, 4, 1, "partial"
      local m, lengths = pn.models.vssm(o), { 2, 4 }
      local y, u = pn.randn { 4, 2, 2 }, pn.randn { 4, 2, 1 }
      local z = pn.randn { 5, 2, 4, 3 }
      local got = m:log_joint(z, m:prepared { y = y, inputs = u, lengths = lengths })
      assert.same({ 5, 2 }, got:shape())
      for i, n in ipairs(lengths) do
        for s = 1, 5 do
          local path = z[s][i]
          local sum = log_density(m.states, path:slice(1, 1, 1)):item()
          for t = 1, n do
            if t > 1 then
              local f, g = m.states:move(path:slice(1, t - 1, t - 1), u[t - 1][i]:unsqueeze(1))
              sum = sum + pn.dist.normal(f, g):log_prob(path:slice(1, t, t)):sum():item()
            end
            local loc = m.decoder(path[t]:unsqueeze(1)):squeeze(1)
            sum = sum + pn.dist.normal(loc, m.log_noise:exp()):log_prob(y[t][i]):sum():item()
          end
          assert.near(sum, got[s][i]:item(), 1e-9)
        end
      end
    end
  end)

  it("of a series within a batch of longer ones is that of the series alone", function()
    for k, kind in ipairs(kinds) do
      pn.seed(30)
      local m = pn.models.vssm { size = 2, latent = 2, covariates = 1, conditioning = kind, units = 4,
        prefix = kind == "semi" and 2 or nil }
      local y, u, noise = pn.randn { 4, 3, 2 }, pn.randn { 4, 3, 1 }, pn.randn { 4, 3, 2 }
      local lengths = { 2, 4, 3 }
      local all = vssm.bound_of(m, prepared_batch.read("spec", m, { y = y, inputs = u, lengths = lengths }),
        { noise = noise })
      local junk = pn.where(pn.arange(4, { dtype = "int64" }):unsqueeze(2):ge(pn.tensor(lengths,
        { dtype = "int64" })):unsqueeze(3), pn.full({}, 0 / 0), y)
      local with_junk = vssm.bound_of(m, prepared_batch.read("spec", m, { y = junk, inputs = u, lengths = lengths }),
        { noise = noise })
      assert.equal(0, largest(all, with_junk), k)
      for i, n in ipairs(lengths) do
        local alone = vssm.bound_of(m, prepared_batch.read("spec", m, { y = y:slice(1, 1, n):slice(2, i, i),
          inputs = u:slice(1, 1, n):slice(2, i, i) }), { noise = noise:slice(1, 1, n):slice(2, i, i) })
        assert.near(alone:item(), all[i]:item(), 1e-12)
      end
    end
  end)

  it("has the gradient that differences give, through the prior's means too, which inference sees", function()
    for _, o in ipairs { { conditioning = "semi", prefix = 2, transition = "highway" }, { conditioning = "full",
      markov = false, gain = "shared", posterior = "state", noise = "network" }, { conditioning = lower(3),
        output = "bernoulli", transition = "residual" } } do
      pn.seed(26)
      o.size, o.latent, o.units, o.covariates, o.hidden, o.flows, o.flow_hidden = 1, 2, 2, 1, { 3 }, 2, { 3 }
      local m = pn.models.vssm(o)
      local b = m:prepared { y = pn.tensor { { 0, 1 }, { 1, 0 }, { 1, 1 } }:unsqueeze(3), inputs = pn.randn { 3, 2, 1 },
        lengths = { 3, 2 } }
      local noise = pn.randn { 3, 2, 2 }
      assert(pn.check_gradients(function() return vssm.bound_of(m, b, { noise = noise }):sum() end, m:parameters()))
    end
  end)

  it("in parts, in float32 and as the mean of draws is the same", function()
    pn.seed(31)
    local m = linear { conditioning = "full" }
    local y = pn.randn { 2, 20000, 1 }
    local each = m:bound({ y = y }, { draws = 10, objective = "elbo", batch_size = 50000 })
    near_mean(0, each - m:bound { y = y }, 0.05)
    near_mean(0, m:bound({ y = y }, { draws = 10, batch_size = 50000 }) - m:bound({ y = y }, { draws = 10 }), 0.02)
    -- parts of as many series as batch_size has paths of draws for, one after another
    local three, g = pn.randn { 2, 3, 1 }, pn.generator(6)
    local parts = {}
    for k, range in ipairs { { 1, 2 }, { 3, 3 } } do
      parts[k] = m:bound({ y = three:slice(2, range[1], range[2]) }, { draws = 4, generator = g })
    end
    local whole = m:bound({ y = three }, { draws = 4, batch_size = 11, generator = pn.generator(6) })
    assert.same(pn.concatenate(parts, 1):totable(), whole:totable())
    y = pn.randn { 4, 5, 1 }
    pn.seed(31)
    local small = linear { conditioning = "full", dtype = "float32" }
    small:load_state((function(s)
      for name, x in pairs(s) do s[name] = x:to "float32" end
      return s
    end)(m:state()))
    local b = { y = y }
    local noise = pn.randn { 4, 5, 1 }
    local a = vssm.bound_of(m, prepared_batch.read("spec", m, b), { noise = noise })
    local c = vssm.bound_of(small, prepared_batch.read("spec", small, b), { noise = noise:to "float32" })
    assert.near(0, largest(a, c:to "float64"), 1e-4)
  end)
end)
