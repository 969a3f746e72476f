--- Extended, unscented and ensemble Kalman filters: exact where the system is linear, near a large bootstrap filter
--- where it is not.
local pn = require "penumbra"
local smc = pn.smc

local function furthest(a, b)
  assert.same(b:shape(), a:shape())
  return (a - b):abs():max():item()
end

local function positive(n, scale)
  local x = pn.randn { n, n }
  return x:matmul(x:t()) * scale + pn.eye(n) * scale
end

-- A random linear system with inputs and noises that change with time, as functions and as matrices.
local function linear_system(n, p, steps)
  local a, c = pn.randn { n, n } * 0.5, pn.randn { p, n }
  local b, d = pn.randn { n, 2 }, pn.randn { p, 2 }
  local q, r = {}, {}
  for t = 1, steps do q[t], r[t] = positive(n, 0.1), positive(p, 0.2) end
  local m, cov = pn.randn { n }, positive(n, 1)
  return { transition = function(x, _, u) return x:matmul(a:t()) + b:matmul(u) end,
    emission = function(x, t, u) return x:matmul(c:t()) * t ^ 0.5 + d:matmul(u) end,
    transition_cov = function(t) return q[t] end, emission_cov = function(t) return r[t] end,
    initial_mean = m, initial_cov = cov }, { a = a, b = b, c = c, d = d, q = q, r = r, m = m, cov = cov }
end

-- The exact filter, and the smoother by the joint distribution of all states.
local function exact(k, y, u, observed, first)
  local batch = y:ndim() == 3 and y:size(2) or nil
  local mean = batch and k.m:broadcast_to { batch, k.m:size(1) } or k.m
  local cov = batch and k.cov:broadcast_to { batch, k.m:size(1), k.m:size(1) } or k.cov
  local out = { mean = {}, cov = {}, log_prob = {}, predicted_mean = {}, predicted_cov = {} }
  for t = 1, y:size(1) do
    if t > 1 or first ~= "predicted" then
      mean, cov = pn.kalman_predict(mean, cov, k.a, k.b:matmul(u[t]), k.q[t])
    end
    out.predicted_mean[t], out.predicted_cov[t] = mean, cov
    mean, cov, out.log_prob[t] = pn.kalman_update(mean, cov, y[t], k.c * t ^ 0.5, k.d:matmul(u[t]), k.r[t],
      { observed = observed and observed[t] })
    out.mean[t], out.cov[t] = mean, cov
  end
  for name, list in pairs(out) do out[name] = pn.stack(list, 1) end
  return out
end

-- Smoothed moments from the joint Gaussian of x_1 .. x_T and y of one series without gaps.
local function joint_smoothed(k, y, u)
  local steps, n, p = y:size(1), k.a:size(1), y:size(2)
  -- all x and y as linear maps of independent noises [x_0, w_1, v_1, ...]
  local width = n + steps * (n + p)
  local function basis(at, root) -- root placed at columns at + 1 ..
    local size = root:size(2)
    return root:pad(2, at, width - at - size)
  end
  local x, mean = basis(0, k.cov:cholesky()), k.m
  local xs, ms, ys, centre = {}, {}, {}, {}
  for t = 1, steps do
    local at = n + (t - 1) * (n + p)
    x = k.a:matmul(x) + basis(at, k.q[t]:cholesky())
    mean = k.a:matmul(mean) + k.b:matmul(u[t])
    xs[t], ms[t] = x, mean
    local c = k.c * t ^ 0.5
    ys[t] = c:matmul(x) + basis(at + n, k.r[t]:cholesky())
    centre[t] = c:matmul(mean) + k.d:matmul(u[t])
  end
  local all_x, all_y = pn.concatenate(xs, 1), pn.concatenate(ys, 1)
  local gain = all_x:matmul(all_y:t()):matmul((all_y:matmul(all_y:t())):inverse())
  local post = pn.concatenate(ms, 1) + gain:matmul(y:reshape { steps * p } - pn.concatenate(centre, 1))
  local cov = all_x:matmul(all_x:t()) - gain:matmul(all_y:matmul(all_x:t()))
  local covs = {}
  for t = 1, steps do covs[t] = cov[{ { (t - 1) * n + 1, t * n }, { (t - 1) * n + 1, t * n } }] end
  return post:reshape { steps, n }, pn.stack(covs, 1)
end

describe("extended and unscented Kalman filters", function()
  before_each(function() pn.seed(8) end)

  it("are the exact filter of a linear system", function()
    local steps, b = 12, 4
    local system, k = linear_system(3, 2, steps)
    local y, u = pn.randn { steps, b, 2 }, pn.randn { steps, 2 }
    local observed = pn.rand { steps, b, 2 }:gt(0.3)
    local gaps = pn.where(observed, y, pn.full({}, 0 / 0))
    for _, first in ipairs { "initial", "predicted" } do
      local want, whole = exact(k, y, u, observed, first), exact(k, y, u, nil, first)
      for _, form in ipairs { "covariance", "square_root" } do
        for _, f in ipairs { smc.extended, smc.unscented } do
          local got = f(system, gaps, { inputs = u, first = first, form = form })
          for name in pairs(want) do assert.is_true(furthest(got[name], want[name]) < 1e-10, name) end
          assert.is_true(furthest(got.log_likelihood, want.log_prob:sum(1)) < 1e-10)
          local full = f(system, y, { inputs = u, first = first, form = form })
          assert.is_true(furthest(full.mean, whole.mean) < 1e-10)
          local masked = f(system, y, { inputs = u, first = first, form = form, observed = observed })
          assert.is_true(furthest(masked.mean, want.mean) < 1e-10)
        end
      end
    end
  end)

  -- Values and slopes of the parts, by the filter that is written for them.
  it("take a linear system as it is: what the exact filter gives, and its slopes in every part", function()
    local steps, b = 5, 2
    local parts, list, names = {}, {}, {}
    local function part(name, x)
      parts[name] = pn.param(x)
      list[#list + 1], names[#names + 1] = parts[name], name
    end
    part("transition", pn.randn { steps, 1, 2, 2 } * 0.5)
    part("transition_offset", pn.randn { steps, 1, 2 })
    part("transition_input", pn.randn { 2, 3 })
    part("transition_cov", positive(2, 0.3))
    part("emission", pn.randn { steps, 1, 2, 2 })
    part("emission_offset", pn.randn { steps, 1, 2 })
    part("emission_input", pn.randn { 2, 3 })
    part("emission_cov", positive(2, 0.4))
    part("initial_mean", pn.randn { 2 })
    part("initial_cov", positive(2, 1))
    local y = pn.where(pn.rand { steps, b, 2 }:gt(0.25), pn.randn { steps, b, 2 }, pn.full({}, 0 / 0))
    for _, first in ipairs { "initial", "predicted" } do
      local o = { inputs = pn.randn { steps, b, 3 }, first = first }
      local want = smc.kalman.filter(parts, y, o)
      local slopes = pn.grad(want.log_likelihood[1] + want.log_likelihood[2] * 2, list)
      local way, at, slope, h = {}, {}, 0, 1e-5 -- along one direction of all
      for k, x in ipairs(list) do
        way[k], at[k] = pn.randn(x:shape()), x:detach() + 0
        way[k] = names[k]:find "_cov" and way[k] + way[k]:t() or way[k]
        slope = slope + (slopes[k] * way[k]):sum():item()
      end
      local function along(step)
        for k, x in ipairs(list) do x:set(at[k] + way[k] * step) end
        local value = smc.kalman.log_likelihood(parts, y, o)
        return value[1]:item() + value[2]:item() * 2
      end
      assert.near((8 * (along(h) - along(-h)) - along(2 * h) + along(-2 * h)) / (12 * h), slope, 1e-6 * math.abs(slope))
      along(0)
      for _, f in ipairs { smc.extended, smc.unscented } do
        local got = f(parts, y, o)
        for _, name in ipairs { "mean", "cov" } do assert.is_true(furthest(got[name], want[name]) < 1e-9, name) end
        for k, g in ipairs(pn.grad(got.log_likelihood[1] + got.log_likelihood[2] * 2, list)) do
          assert.is_true(furthest(g, slopes[k]) < 1e-7, names[k])
        end
      end
    end
  end)

  it("smooth as the joint distribution says", function()
    local steps = 6
    local system, k = linear_system(3, 2, steps)
    local y, u = pn.randn { steps, 2 }, pn.randn { steps, 2 }
    local mean, cov = joint_smoothed(k, y, u)
    for _, form in ipairs { "covariance", "square_root" } do
      for _, f in ipairs { smc.extended, smc.unscented } do
        local got = f(system, y, { inputs = u, smooth = true, form = form })
        assert.is_true(furthest(got.smoothed_mean, mean) < 1e-10)
        assert.is_true(furthest(got.smoothed_cov, cov) < 1e-10)
      end
    end
  end)

  it("take any spread of the points", function()
    local steps = 8
    local system, k = linear_system(2, 1, steps)
    local y, u = pn.randn { steps, 1 }, pn.randn { steps, 2 }
    local want = exact(k, y, u)
    for _, o in ipairs { { alpha = 1, beta = 0, kappa = 1 }, { alpha = 0.5, beta = 2, kappa = 0 }, { kappa = -1 } } do
      o.inputs = u
      local got = smc.unscented(system, y, o)
      assert.is_true(furthest(got.mean, want.mean) < 1e-10)
      assert.is_true(furthest(got.cov, want.cov) < 1e-10)
    end
    assert.error_matches(function()
      smc.unscented(system, y, { inputs = u, kappa = -2 })
    end, "must be positive", 1, true)
    assert.error_matches(function()
      smc.unscented(system, y, { inputs = u, alpha = 0.5, beta = 0, form = "square_root" })
    end, "no weight may be negative", 1, true)
  end)

  it("have the exact mean and, by points, the exact covariance of a square", function()
    -- x ~ N(m, v): E x^2 = m^2 + v, var = 4 m^2 v + 2 v^2, by points where kappa = 2 (n + kappa = 3)
    local m, v = 0.7, 0.4
    local system = { transition = function(x) return x:square() end, emission = function(x) return x end,
      transition_cov = pn.full({ 1, 1 }, 0.01), emission_cov = pn.eye(1), initial_mean = pn.tensor { m },
      initial_cov = pn.full({ 1, 1 }, v) }
    local y = pn.zeros { 1, 1 }
    local points = smc.unscented(system, y, { alpha = 1, beta = 0, kappa = 2 })
    assert.is_true(math.abs(points.predicted_mean:item() - (m * m + v)) < 1e-14)
    assert.is_true(math.abs(points.predicted_cov:item() - (4 * m * m * v + 2 * v * v + 0.01)) < 1e-13)
    local tangent = smc.extended(system, y)
    assert.is_true(math.abs(tangent.predicted_mean:item() - m * m) < 1e-14)
    assert.is_true(math.abs(tangent.predicted_cov:item() - (4 * m * m * v + 0.01)) < 1e-13)
  end)

  it("are differentiable in all they depend on", function()
    local steps = 4
    local y = pn.randn { steps, 2, 1 }
    local theta = pn.param(pn.tensor { 0.9, 0.3, 0.5 })
    local m = pn.param(pn.tensor { 0.3, -0.2 })
    for _, o in ipairs { {}, { form = "square_root" }, { smooth = true } } do
      for _, f in ipairs { smc.extended, smc.unscented } do
        local function value()
          local out = f({ initial_mean = m, initial_cov = pn.eye(2) * 0.5,
            transition = function(x) return (x * theta[1]):sin() + theta[2] end,
            emission = function(x) return (x:square():sum({ -1 }, true) * theta[3]) end,
            transition_cov = pn.eye(2) * theta[2], emission_cov = pn.full({ 1, 1 }, 0.4) }, y, o)
          return out.log_likelihood:sum() + (o.smooth and out.smoothed_mean:sum() or 0)
        end
        assert.is_true(pn.check_gradients(value, { theta, m }).error < 1e-6)
      end
    end
    -- nothing to differentiate: no graph is left behind, also where none may be made
    local system = linear_system(2, 1, steps)
    local u = pn.randn { steps, 2 }
    assert.is_false(smc.extended(system, y, { inputs = u }).mean:requires_grad())
    local plain = smc.extended(system, y, { inputs = u }).mean
    local off = pn.no_grad(function() return smc.extended(system, y, { inputs = u }).mean end)
    assert.same(plain:totable(), off:totable())
  end)

  it("keep covariances positive where an exact observation makes them all but singular", function()
    local system = { transition = function(x) return x end, emission = function(x) return x:sum({ -1 }, true) end,
      transition_cov = pn.eye(3) * 1e-14, emission_cov = pn.full({ 1, 1 }, 1e-14), initial_mean = pn.zeros { 3 },
      initial_cov = pn.eye(3) * 1e4 }
    for _, f in ipairs { smc.extended, smc.unscented } do
      local out = f(system, pn.zeros { 200, 1 }, { form = "square_root" })
      assert.is_true(out.cov:eigh():min():item() > -1e-11)
      -- the sum is known, its parts are not
      assert.is_true(math.abs(out.cov[200]:sum():item()) < 1e-10)
      assert.is_true(math.abs(out.cov[{ 200, 1, 1 }]:item() / (1e4 * 2 / 3) - 1) < 1e-6)
    end
  end)

  it("iterate an update to the mode", function()
    -- one observation of x^2: the mode of the posterior
    local system = { transition = function(x) return x end, emission = function(x) return x:square() end,
      transition_cov = pn.eye(1), emission_cov = pn.full({ 1, 1 }, 0.1), initial_mean = pn.tensor { 1 },
      initial_cov = pn.eye(1) * 0.5 }
    local out = smc.extended(system, pn.tensor { { 4 } }, { steps = 30, first = "predicted" })
    local x = out.mean:item()
    -- slope of the log density: (4 - x^2) 2 x / 0.1 - (x - 1) / 0.5
    assert.is_true(math.abs((4 - x * x) * 2 * x / 0.1 - (x - 1) / 0.5) < 1e-6)
  end)

  it("tell of a covariance that is not positive definite", function()
    local system = { transition = function(x) return x end, emission = function(x) return x end,
      transition_cov = pn.eye(1), emission_cov = pn.full({ 1, 1 }, -5), initial_mean = pn.tensor { 1 },
      initial_cov = pn.eye(1) * 0.5 }
    local out, message, code = smc.extended(system, pn.ones { 2, 1 })
    assert.is_nil(out)
    assert.matches("^extended: ", message)
    assert.equal("singular", code)
    system.initial_cov = pn.eye(1) * -1
    for _, name in ipairs { "unscented", "ensemble" } do
      out, message, code = smc[name](system, pn.ones { 2, 1 }, name == "ensemble" and { num_particles = 5 } or nil)
      assert.is_nil(out)
      assert.matches("^" .. name .. ": ", message)
      assert.equal("singular", code)
    end
  end)

  it("tell which covariance it is, in each form, of each part", function()
    local function system(bad, value)
      local o = { transition = function(x) return x end, emission = function(x) return x:slice(-1, 1, 1) end,
        transition_cov = pn.eye(2), emission_cov = pn.eye(1), initial_mean = pn.zeros { 2 }, initial_cov = pn.eye(2) }
      o[bad] = (o[bad] or pn.eye(2)) * value
      return o
    end
    local function singular(name, text, given, o)
      local out, message, code = smc[name](given, pn.ones { 2, 1 }, o)
      assert.is_nil(out)
      assert.equal("singular", code)
      assert(message:find(name .. ": " .. text, 1, true), message)
    end
    for _, bad in ipairs { "initial_cov", "transition_cov", "emission_cov" } do
      for _, form in ipairs { "covariance", "square_root" } do
        for _, name in ipairs { "extended", "unscented" } do singular(name, "", system(bad, -50), { form = form }) end
      end
      for _, update in ipairs { "stochastic", "transform" } do
        singular("ensemble", bad == "initial_cov" and "initial_cov: " or "", system(bad, -50),
          { num_particles = 6, update = update })
        -- observations have a covariance, their noise has none
        singular("ensemble", "", system("emission_cov", -1e-3), { num_particles = 6, update = update })
      end
    end
    local still = system("transition_cov", 0)
    still.initial_cov = pn.zeros { 2, 2 }
    assert.is_table(smc.extended(still, pn.ones { 2, 1 }))
    singular("extended", "", still, { smooth = true })
    -- a centre of weight 0 is none that is negative
    local same = system("initial_cov", 1)
    local a = smc.unscented(same, pn.ones { 2, 1 }, { beta = 0 })
    local b = smc.unscented(same, pn.ones { 2, 1 }, { beta = 0, form = "square_root" })
    assert.is_true(furthest(a.cov, b.cov) < 1e-12)
  end)
end)

describe("ensemble Kalman filters", function()
  before_each(function() pn.seed(9) end)

  it("are the exact filter of a linear system but for the error of draws", function()
    local steps, b, count = 6, 64, 500
    local system, k = linear_system(3, 2, steps)
    local one, u = pn.randn { steps, 1, 2 }, pn.randn { steps, 2 }
    local y, there = one:broadcast_to { steps, b, 2 }, pn.rand { steps, 1, 2 }:gt(0.2)
    local observed = there:broadcast_to { steps, b, 2 }
    local want = exact(k, one, u, there)
    for _, update in ipairs { "stochastic", "transform" } do
      -- 64 filters of the same data: their mean, and how far it may lie
      local got = smc.ensemble(system, y, { inputs = u, observed = observed, num_particles = count, update = update })
      for _, name in ipairs { "mean", "log_prob" } do
        local off = got[name]:mean({ 2 }, true) - want[name]
        local error = got[name]:std({ 2 }, 1, true) / b ^ 0.5
        assert.is_true((off:abs() / error):max():item() < 6, update .. name)
        assert.is_true(error:max():item() < 0.1)
      end
      local ratio = got.cov:mean(2) / want.cov:squeeze(2)
      assert.is_true((ratio:diagonal() - 1):abs():max():item() < 0.05, update)
    end
  end)

  it("transform an ensemble to exactly the moments of the update", function()
    local n, p, count = 4, 3, 10
    local system = linear_system(n, p, 1)
    local y, u = pn.randn { 1, p }, pn.randn { 1, 2 }
    local out = smc.ensemble(system, y, { inputs = u, num_particles = count, update = "transform" })
    local d = system.emission(pn.zeros { n }, 1, u[1])
    local c = (system.emission(pn.eye(n), 1, u[1]) - d):t()
    local mean, cov, log_prob = pn.kalman_update(out.predicted_mean[1], out.predicted_cov[1], y[1], c, d,
      system.emission_cov(1))
    assert.is_true(furthest(out.mean[1], mean) < 1e-12)
    assert.is_true(furthest(out.cov[1], cov) < 1e-12)
    assert.is_true(furthest(out.log_prob[1], log_prob) < 1e-12)
    assert.is_true(furthest(out.ensemble:mean(1), mean) < 1e-12)
  end)

  -- Two steps of two series, member by member, of the same draws: the start's, each move's and each observation's.
  it("move each member by the gain of the ensemble's own moments, tapered, inflated, with gaps", function()
    local n, p, count, b, steps = 3, 2, 5, 2, 2
    local function part(...) return pn.param(pn.randn { ... }) end
    local a, c, d, q, r, m, v = part(n, n), part(p, n), part(p), part(n, n), part(p, p), part(b, n), part(n, n)
    local list = { a, c, d, q, r, m, v }
    local function cov_of(x) return x:matmul(x:t()) + pn.eye(x:size(1)) * 0.5 end
    local system = { transition = function(x) return x:matmul(a:t()) end,
      emission = function(x) return x:matmul(c:t()) + d end,
      transition_cov = function() return cov_of(q) end, emission_cov = function() return cov_of(r) end }
    local function settle() system.initial_mean, system.initial_cov = m, cov_of(v) end
    local y, observed = pn.randn { steps, b, p }, pn.tensor { { { true, true }, { false, true } }, { { true, false },
      { true, true } } }
    local taper, emission_taper = pn.rand { n, p }, pn.tensor { { 1, 0.4 }, { 0.4, 1 } }
    for _, o in ipairs { { taper = taper, emission_taper = emission_taper, inflation = 1.3, observed = observed },
      { observed = observed }, { update = "transform", inflation = 1.2, observed = observed } } do
      o.num_particles = count
      local function run()
        settle()
        o.generator = pn.generator(5)
        return smc.ensemble(system, y, o)
      end
      local got, g = run(), pn.generator(5)
      local function noise(cov, ...)
        return pn.randn({ count, b, ... }, { generator = g }):matmul(cov:cholesky():t())
      end
      local x = m + noise(cov_of(v), n)
      for t = 1, steps do
        x = x:matmul(a:t()) + noise(cov_of(q), n)
        x = x:mean(1) + (x - x:mean(1)) * (o.inflation or 1)
        local e = o.update ~= "transform" and pn.randn({ count, b, p }, { generator = g })
        local members = {}
        for i = 1, b do
          local own, z = x:select(2, i), system.emission(x:select(2, i))
          local places = {}
          for k = 1, p do places[#places + 1] = observed[t][i][k]:item() and k - 1 or nil end
          local at = pn.tensor(places, { dtype = "int64" })
          local apart, of_z = own - own:mean(1), (z - z:mean(1)):take(2, at)
          local cross, spread = apart:t():matmul(of_z) / (count - 1), of_z:t():matmul(of_z) / (count - 1)
          if o.taper then
            cross, spread = cross * taper:take(2, at), spread * emission_taper:take(1, at):take(2, at)
          end
          local whole = spread + cov_of(r):take(1, at):take(2, at)
          local gain, off = cross:matmul(whole:inverse()), (y[t][i] - z:mean(1)):take(1, at)
          local close_to = pn.dist.multivariate_normal { loc = off * 0, covariance_matrix = whole }
          assert.near(close_to:log_prob(off):item(), got.log_prob[t][i]:item(), 1e-9)
          assert.is_true(furthest(got.predicted_mean[t][i], own:mean(1)) < 1e-9)
          assert.is_true(furthest(got.predicted_cov[t][i], apart:t():matmul(apart) / (count - 1)) < 1e-9)
          local mean = own:mean(1) + gain:matmul(off)
          assert.is_true(furthest(got.mean[t][i], mean) < 1e-9)
          if e then
            local own_noise = e:select(2, i):take(2, at):matmul(cov_of(r):take(1, at):take(2, at):cholesky():t())
            own_noise = own_noise - own_noise:mean(1)
            members[i] = own + ((y[t][i] - z):take(2, at) + own_noise):matmul(gain:t())
          else -- P - K S K'
            local cov = apart:t():matmul(apart) / (count - 1) - gain:matmul(whole):matmul(gain:t())
            assert.is_true(furthest(got.cov[t][i], cov) < 1e-9)
          end
        end
        if not e then break end -- its members have these moments, and are others
        x = pn.stack(members, 2)
        local apart = x - x:mean(1)
        assert.is_true(furthest(got.cov[t], (apart:unsqueeze(-1) * apart:unsqueeze(-2)):sum(1) / (count - 1)) < 1e-9)
        if t == steps then assert.is_true(furthest(got.ensemble, x) < 1e-9) end
      end
      assert(pn.check_gradients(function()
        local out = run()
        return out.mean:sin():sum() + (out.cov * 0.3):cos():sum() + (out.log_prob * pn.tensor { 1, 2 }):sum()
          + out.ensemble:sin():sum() + out.predicted_mean:cos():sum() + out.predicted_cov:sin():sum()
      end, list))
    end
  end)

  it("see through the noise of a small ensemble with a taper and inflation", function()
    local n, count, steps = 40, 8, 30
    local place = pn.arange(n)
    local apart = (place:unsqueeze(2) - place:unsqueeze(1)):abs()
    local field = (apart:square() / -18):exp() + pn.eye(n) * 1e-6
    local taper = smc.gaspari_cohn(apart, 6)
    local system = { transition = function(x) return x * 0.9 end, emission = function(x) return x end,
      transition_cov = field * 0.19, emission_cov = pn.eye(n) * 0.5, initial_mean = pn.zeros { n },
      initial_cov = field }
    local x, root, truth, y = field:cholesky():matmul(pn.randn { n }), (field * 0.19):cholesky(), {}, {}
    for t = 1, steps do
      x = x * 0.9 + root:matmul(pn.randn { n })
      truth[t], y[t] = x, x + pn.randn { n } * 0.5 ^ 0.5
    end
    truth, y = pn.stack(truth, 1), pn.stack(y, 1)
    local function error(o)
      o.num_particles = count
      return (smc.ensemble(system, y, o).mean - truth):square():mean():item() ^ 0.5
    end
    local best = (smc.extended({ transition = system.transition, emission = system.emission,
      transition_cov = field[{ { 1, 20 }, { 1, 20 } }] * 0.19, emission_cov = pn.eye(20) * 0.5,
      initial_mean = pn.zeros { 20 }, initial_cov = field[{ { 1, 20 }, { 1, 20 } }] }, y[{ {}, { 1, 20 } }]).mean
      - truth[{ {}, { 1, 20 } }]):square():mean():item() ^ 0.5
    local bare = error {}
    local tapered = error { taper = taper, emission_taper = taper }
    local inflated = error { taper = taper, emission_taper = taper, inflation = 1.05 }
    assert.is_true(tapered < 0.75 * bare and inflated < 0.75 * bare,
      ("%g, %g with a taper, %g inflated, %g exact"):format(bare, tapered, inflated, best))
    assert.is_true(tapered < 1.6 * best)
  end)

  it("taper smoothly to nothing", function()
    local z = pn.tensor { 0, 1, 2, 5, -1 }
    -- at 1: 1 - 5/3 + 5/8 + 1/2 - 1/4 = 5/24
    assert.is_true(furthest(smc.gaspari_cohn(z * 3, 3), pn.tensor { 1, 5 / 24, 0, 0, 5 / 24 }) < 1e-14)
    local near = smc.gaspari_cohn(pn.tensor { 1 - 1e-7, 1 + 1e-7, 2 - 1e-7 }, 1)
    assert.is_true((near[1] - near[2]):abs():item() < 1e-6 and near[3]:abs():item() < 1e-12)
    local d = pn.arange(30)
    local m = smc.gaspari_cohn((d:unsqueeze(2) - d:unsqueeze(1)), 4)
    assert.is_true((m:eigh()):min():item() > 0)
  end)
end)

describe("filters of a tracked object", function()
  -- Position and velocity in the plane, seen by distance and direction from the origin.
  local dt, q = 1, 0.02
  local f = pn.tensor { { 1, 0, dt, 0 }, { 0, 1, 0, dt }, { 0, 0, 1, 0 }, { 0, 0, 0, 1 } }
  local noise = pn.tensor { { dt ^ 3 / 3, 0, dt ^ 2 / 2, 0 }, { 0, dt ^ 3 / 3, 0, dt ^ 2 / 2 },
    { dt ^ 2 / 2, 0, dt, 0 }, { 0, dt ^ 2 / 2, 0, dt } } * q
  local r = pn.tensor { { 0.04, 0 }, { 0, 0.0025 } }
  local system = { transition = function(x) return x:matmul(f:t()) end,
    emission = function(x)
      local east, north = x:select(-1, 1), x:select(-1, 2)
      return pn.stack({ (east:square() + north:square()):sqrt(), north:atan2(east) }, -1)
    end, transition_cov = noise, emission_cov = r, initial_mean = pn.tensor { 3, 6, 0.3, -0.2 },
    initial_cov = pn.eye(4) * 0.1 }

  it("agree with a large bootstrap filter", function()
    pn.seed(10)
    local steps, count = 25, 100000
    local x, root, y = system.initial_mean, noise:cholesky(), {}
    for t = 1, steps do
      x = system.transition(x) + root:matmul(pn.randn { 4 })
      y[t] = system.emission(x) + r:sqrt():matmul(pn.randn { 2 })
    end
    y = pn.stack(y, 1)
    -- the reference: resampled at each step
    local particles, evidence, means, covs = system.initial_mean + pn.randn { count, 4 } * 0.1 ^ 0.5, 0, {}, {}
    local scale = pn.tensor { 0.2, 0.05 }
    for t = 1, steps do
      particles = system.transition(particles) + pn.randn { count, 4 }:matmul(root:t())
      local seen = y[t]:unsqueeze(1):broadcast_to { count, 2 }
      local log_w = pn.dist.normal(system.emission(particles), scale):log_prob(seen):sum(2)
      evidence = evidence + log_w:logsumexp(1):item() - math.log(count)
      local w = log_w:softmax(1)
      means[t] = (particles * w:unsqueeze(2)):sum(1)
      local away = particles - means[t]
      covs[t] = (away * w:unsqueeze(2)):t():matmul(away)
      particles = particles:take(1, pn.infer.sir(log_w:unsqueeze(2), count):squeeze(2))
    end
    local mean, cov = pn.stack(means, 1), pn.stack(covs, 1)
    local spread = cov:diagonal():sqrt()
    for name, limit in pairs { extended = 0.5, unscented = 0.4, ensemble = 0.4 } do
      local out = smc[name](system, y, name == "ensemble" and { num_particles = 4000 } or nil)
      local off = ((out.mean - mean) / spread):abs()
      assert.is_true(off:max():item() < limit, ("%s: %g posterior deviations"):format(name, off:max():item()))
      assert.is_true((out.cov:diagonal():sqrt() / spread - 1):abs():max():item() < 0.2, name)
      assert.is_true(math.abs(out.log_likelihood:item() - evidence) < 1, name)
    end
    -- points see the curvature that tangents do not
    local off = {}
    for _, name in ipairs { "extended", "unscented" } do
      off[name] = ((smc[name](system, y).mean - mean) / spread):square():mean():item()
    end
    assert.is_true(off.unscented < off.extended)
  end)
end)

describe("nonlinear filters", function()
  it("refuse what does not fit, at the line", function()
    local good = { transition = function(x) return x end, emission = function(x) return x end,
      transition_cov = pn.eye(2), emission_cov = pn.eye(2), initial_mean = pn.zeros { 2 }, initial_cov = pn.eye(2) }
    local y = pn.zeros { 3, 2 }
    local function with(change, options)
      local system = {}
      for key, v in pairs(good) do system[key] = v end
      for key, v in pairs(change) do system[key] = v end
      return function() smc.extended(system, y, options) end
    end
    local cases = {
      ["transition must be a function"] = with { transition = 3 },
      ["transition_noise is called transition_cov"] = with { transition_noise = pn.eye(2) },
      ["initial_cov must have shape [..., 2, 2], got [3, 3]"] = with { initial_cov = pn.eye(3) },
      ["transition_cov must have shape [..., 2, 2]"] = with { transition_cov = pn.eye(1) },
      ["emission's result must have shape [..., 2], got"] = with {
        emission = function(x) return x:sum({ -1 }, true) end },
      ["transition's result must be a tensor"] = with { transition = function() end },
      ["unknown option 'emision'"] = with { emision = 3 },
      ["observed must be bool, got float64"] = with({}, { observed = pn.ones { 3, 2 } }),
      ["observed must be bool of y's shape"] = with({}, { observed = pn.ones({ 2, 2 }):gt(0) }),
      ["missing has gone"] = with({}, { missing = "nan" }),
      ["inputs must have a row for each of 3 steps"] = with({}, { inputs = pn.ones { 2, 1 } }),
      ["option 'num_particles' is required"] = function() smc.ensemble(good, y) end,
      ["extended: steps must be a whole number from 1 on, got 0"] = with({}, { steps = 0 }),
      ["extended: initial_mean must have shape [..., n], got []"] = with { initial_mean = pn.full({}, 1) },
      ["extended: y must have shape [T, B..., p] with at least one step, got [0, 2]"] = function()
        smc.extended(good, pn.zeros { 0, 2 })
      end,
      ["extended: needs initial_cov, got a diffuse state"] = function()
        smc.extended({ transition = pn.eye(2), transition_cov = pn.eye(2), emission = pn.eye(2),
          emission_cov = pn.eye(2), diffuse = true }, y)
      end,
      ["ensemble: num_particles must be a whole number from 2 on, got 1"] = function()
        smc.ensemble(good, y, { num_particles = 1 })
      end,
      ["ensemble: taper must have shape [..., 2, 2], got [3, 3]"] = function()
        smc.ensemble(good, y, { num_particles = 5, taper = pn.eye(3) })
      end,
      ["ensemble: emission_taper must have shape [..., 2, 2], got [2, 1]"] = function()
        smc.ensemble(good, y, { num_particles = 5, emission_taper = pn.ones { 2, 1 } })
      end,
      ["ensemble: taper must be absent with update = 'transform'"] = function()
        smc.ensemble(good, y, { num_particles = 5, update = "transform", emission_taper = pn.eye(2) })
      end,
      ["gaspari_cohn: radius must be positive, got -1"] = function() smc.gaspari_cohn(pn.zeros { 2 }, -1) end,
      ["taper must be absent"] = function()
        smc.ensemble(good, y, { num_particles = 5, update = "transform", taper = pn.eye(2) })
      end,
      ["y must have shape [T, B..., p]"] = function() smc.unscented(good, pn.zeros { 2 }) end,
      ["radius must be positive"] = function() smc.gaspari_cohn(pn.zeros { 2 }, 0) end,
    }
    for pattern, f in pairs(cases) do
      local ok, message = pcall(f)
      assert.is_false(ok, pattern)
      assert.matches("nonlinear_spec.lua:%d+:", message)
      assert.matches(pattern, message, 1, true)
    end
  end)
end)
