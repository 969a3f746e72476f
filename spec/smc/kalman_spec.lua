-- Gaussian linear systems: every output against the joint normal distribution of the whole sequence, against golden
-- numbers and against each other; gradients, draws, EM, continuous time.
local pn = require "penumbra"
local joint = require "spec.smc.joint_gaussian"
local helper = require "spec.helper"
local off, close = helper.off, helper.close
local kalman = pn.smc.kalman

local function mt(x) return x:transpose(-1, -2) end

-- What a smoother gives with x_0 in front of the others.
local function whole(x)
  local first = x and x.initial
  if not first then return x end
  local function before(a, b) return b and pn.concatenate({ a:unsqueeze(1), b }, 1) or a and a:unsqueeze(1) end
  return { mean = before(first.mean, x.mean), cov = before(first.cov, x.cov),
    lag_one = before(first.lag_one, x.lag_one) }
end

-- kalman.smooth as it was with x_0 in front; and draws.
local function smooth_all(s, y, o)
  local x, message, code = kalman.smooth(s, y, o)
  return whole(x), message, code
end
local function draws_of_all(states, initial)
  return initial and pn.concatenate({ initial:unsqueeze(2), states }, 2) or states
end

local function covariance(...)
  local shape = { ... }
  local n = shape[#shape]
  local x = pn.randn(shape)
  return x:matmul(mt(x)) / n + pn.eye(n) * 0.3
end

-- ---- the systems of the tests ----

-- The worked example of a two-dimensional state with four observations.
local function worked_example()
  return {
    transition = pn.tensor { { 1, .1 }, { -.2, .95 } }, transition_offset = pn.tensor { .05, -.02 },
    transition_cov = pn.tensor { { .05, .01 }, { .01, .08 } },
    emission = pn.tensor { { 1, .3 } }, emission_offset = pn.tensor { .1 }, emission_cov = pn.tensor { { .2 } },
    initial_mean = pn.tensor { .5, -.3 }, initial_cov = pn.tensor { { 1, .2 }, { .2, .5 } },
  }, pn.tensor { .9, .4, -.1, .3 }
end

-- lead: of operands ({}: constant, {T}: changing with time...)
local function random_system(n, p, lead)
  local function shaped(...)
    local shape = { table.unpack(lead or {}) }
    for _, size in ipairs { ... } do shape[#shape + 1] = size end
    return shape
  end
  return {
    transition = pn.randn(shaped(n, n)) * (0.8 / n ^ 0.5), transition_offset = pn.randn(shaped(n)),
    transition_cov = covariance(table.unpack(shaped(n, n))), emission = pn.randn(shaped(p, n)),
    emission_offset = pn.randn(shaped(p)), emission_cov = covariance(table.unpack(shaped(p, p))),
    initial_mean = pn.randn { n }, initial_cov = covariance(n, n),
  }
end

-- Series b of a system with batch axes; time: do its operands have an axis of time?
local own_axes = { transition = 2, transition_offset = 1, transition_cov = 2, emission = 2, emission_offset = 1,
  emission_cov = 2, initial_mean = 1, initial_cov = 2 }
local function series_of(s, b)
  local one = {}
  for name, x in pairs(s) do
    local have = x:ndim() - own_axes[name]
    if name:find "^initial" then
      one[name] = have == 1 and x[math.min(b, x:size(1))] or x
    elseif have == 2 then
      one[name] = x:select(2, math.min(b, x:size(2)))
    else
      one[name] = have == 1 and x[math.min(b, x:size(1))] or x
    end
  end
  return one
end

-- ---- against the joint distribution ----

local LIMIT = 1e-10

local function check_filter(z, f, y, observed)
  local before = 0
  for t = 1, z.steps do
    local k = z.count - z.steps + t
    local mean, cov, log_prob = joint.given(z, y, t, observed)
    close(f.mean[t], mean[k], LIMIT, "mean " .. t)
    close(f.cov[t], joint.block(z, cov, k, k), LIMIT, "cov " .. t)
    close(f.log_prob[t], log_prob - before, LIMIT, "log_prob " .. t)
    before = log_prob
    mean, cov = joint.given(z, y, t - 1, observed)
    close(f.predicted_mean[t], mean[k], LIMIT, "predicted mean " .. t)
    close(f.predicted_cov[t], joint.block(z, cov, k, k), LIMIT, "predicted cov " .. t)
  end
  close(f.log_likelihood, before, LIMIT, "log likelihood")
end

local function check_smoother(z, x, y, observed)
  local mean, cov = joint.given(z, y, z.steps, observed)
  close(x.mean, mean, LIMIT, "smoothed mean")
  for k = 1, z.count do
    close(x.cov[k], joint.block(z, cov, k, k), LIMIT, "smoothed cov " .. k)
    if k < z.count and x.lag_one then
      close(x.lag_one[k], joint.block(z, cov, k, k + 1), LIMIT, "lag one " .. k)
    end
  end
end

local forms, methods = { "covariance", "square_root", "information" }, { "rts", "disturbance", "two_filter" }

local function check_all(s, y, o)
  o = o or {}
  local z = joint.of(s, y:size(1), o.first == "predicted")
  for _, form in ipairs(forms) do
    if form ~= "information" or o.first ~= "predicted" then
      local f = assert(kalman.filter(s, y, { form = form, observed = o.observed, first = o.first }))
      check_filter(z, f, y, o.observed)
    end
  end
  for _, method in ipairs(methods) do
    check_smoother(z, assert(smooth_all(s, y, { method = method, observed = o.observed, first = o.first })), y,
      o.observed)
  end
  close(kalman.log_likelihood(s, y, { observed = o.observed, first = o.first }),
    (select(3, joint.given(z, y, z.steps, o.observed))), LIMIT, "log likelihood alone")
end

describe("a Gaussian linear system", function()
  it("reproduces the worked example to all printed digits", function()
    local s, y = worked_example()
    local x = { mean = pn.tensor { 0.619715640816, -0.388516442228 },
      cov = pn.tensor { { 0.203089899041, -0.115928791768 }, { -0.115928791768, 0.343012831890 } } }
    for _, form in ipairs(forms) do
      local f = kalman.filter(s, y, { form = form })
      close(f.log_likelihood, -3.226360430419, 6e-13)
      close(f.log_prob, pn.tensor { -1.133781389774, -0.683519791683, -0.982688233691, -0.426371015271 }, 6e-13)
      close(f.mean[4], pn.tensor { 0.415279629225, -0.918093015139 }, 6e-13)
      close(f.cov[4], pn.tensor { { 0.101483610300, -0.112729712329 }, { -0.112729712329, 0.616310527299 } }, 6e-13)
    end
    for _, method in ipairs(methods) do
      local got = smooth_all(s, y, { method = method })
      close(got.mean[1], x.mean, 6e-13)
      close(got.cov[1], x.cov, 6e-13)
    end
  end)

  it("gives the parts of the bound, whose sum is the log likelihood, by three forms of the entropy", function()
    local s, y = worked_example()
    for _, form in ipairs { "forward", "backward", "pairwise" } do
      local parts = kalman.elbo(s, y, { entropy = form })
      close(parts.prior, -2.004144298869, 6e-13)
      close(parts.transition, -0.101936723596, 6e-13)
      close(parts.emission, -1.888502709513, 6e-13)
      close(parts.entropy, 0.768223301560, 6e-13)
      close(parts.elbo, -3.226360430419, 6e-13)
    end
  end)

  it("differs from the printed entropy, which takes the filter's predicted covariances", function()
    local s, y = worked_example()
    local f = kalman.filter(s, y)
    local printed = (f.predicted_cov:logdet():sum() + s.initial_cov:logdet()) * 0.5 + 5 * (1 + math.log(2 * math.pi))
    close(printed, 10.041034654657, 3e-9) -- (computed there with log 2 pi = 1.8378770659)
    assert(off(kalman.elbo(s, y).entropy, printed) > 9)
  end)

  it("agrees with the joint distribution in all forms and methods", function()
    pn.seed(11)
    for _, size in ipairs { { 1, 1 }, { 2, 1 }, { 3, 2 }, { 4, 2 }, { 2, 3 } } do
      local n, p = table.unpack(size)
      check_all(random_system(n, p), pn.randn { 5, p })
      check_all(random_system(n, p), pn.randn { 1, p })
      check_all(random_system(n, p, { 5 }), pn.randn { 5, p })
    end
  end)

  it("agrees with it where observations are missing, partly or wholly", function()
    pn.seed(12)
    for _, lead in ipairs { {}, { 6 } } do
      local s, y = random_system(3, 2, lead), pn.randn { 6, 2 }
      local observed = pn.tensor { { 1, 1 }, { 0, 1 }, { 0, 0 }, { 1, 0 }, { 1, 1 }, { 0, 0 } }:gt(0)
      local holes = pn.where(observed, y, pn.full({}, 0 / 0))
      check_all(s, holes, { observed = observed })
      check_all(s, holes, { observed = observed, first = "predicted" })
      local a, b = kalman.filter(s, holes, { observed = observed }), kalman.filter(s, holes, {})
      close(a.mean, b.mean, 0)
      close(a.log_prob, b.log_prob, 0)
    end
  end)

  it("starts at the first observation too", function()
    pn.seed(13)
    check_all(random_system(3, 2), pn.randn { 5, 2 }, { first = "predicted" })
    check_all(random_system(3, 2, { 5 }), pn.randn { 5, 2 }, { first = "predicted" })
    check_all(random_system(2, 1), pn.randn { 1, 1 }, { first = "predicted" })
  end)

  it("takes batches: every axis of every operand as for the single series", function()
    pn.seed(14)
    local steps, batch, n, p = 5, 19, 3, 2
    for _, lead in ipairs { {}, { batch }, { steps, 1 }, { steps, batch } } do
      local s, y = random_system(n, p, lead), pn.randn { steps, batch, p }
      s.initial_mean = pn.randn { batch, n }
      local observed = pn.rand { steps, batch, p }:gt(0.2)
      for _, o in ipairs { { observed = observed }, { observed = observed, first = "predicted" } } do
        local f, x = kalman.filter(s, y, o), smooth_all(s, y, o)
        for _, b in ipairs { 1, 7, 19 } do
          local one, own = series_of(s, b), { observed = observed:select(2, b), first = o.first }
          local g, w = kalman.filter(one, y:select(2, b), own), smooth_all(one, y:select(2, b), own)
          for name, value in pairs(g) do
            close(name == "log_likelihood" and f[name][b] or f[name]:select(2, b), value, 1e-12, name)
          end
          for name, value in pairs(w) do close(x[name]:select(2, b), value, 1e-12, name) end
        end
      end
    end
  end)

  it("has as many series as the operand that has most", function()
    pn.seed(15)
    local steps, batch, s = 3, 4, random_system(2, 1)
    local y = pn.randn { steps, 1, 1 }
    for name, own in pairs(own_axes) do
      local wide, x = {}, s[name]
      for key, value in pairs(s) do wide[key] = value end
      wide[name] = pn.stack({ x, x * 1.1, x * 0.9, x * 1.2 }, 1)
      local f, l = kalman.filter(wide, y), kalman.log_likelihood(wide, y)
      assert.same({ steps, batch, 2 }, f.mean:shape(), name)
      assert.same({ batch }, l:shape())
      for b = 1, batch do
        local one = kalman.filter(series_of(wide, b), y:select(2, 1))
        close(f.mean:select(2, b), one.mean, 1e-12, name)
        close(l[b], one.log_likelihood, 1e-12, name)
      end
      assert.equal(own + 1, wide[name]:ndim())
    end
    assert.same({ 1 }, kalman.log_likelihood(s, y):shape())
  end)

  it("has one covariance where all series share it: the same densities and gradients as each by itself", function()
    for _, steps in ipairs { 1, 7 } do
      for _, timed in ipairs { false, true } do
        pn.seed(16)
        local n, p = 6, 2
        local s = random_system(n, p, timed and { steps, 1, 1 } or {})
        s.emission_offset, s.initial_mean = pn.randn { 5, p }, pn.randn { 5, n }
        local wide, held, list = {}, {}, { pn.param(pn.randn { steps, 4, 5, p }) }
        for name, x in pairs(s) do
          held[name] = pn.param(x)
          list[#list + 1] = held[name]
          wide[name] = held[name]
          if own_axes[name] == 2 then
            local lead = name == "initial_cov" and { 4, 5 } or { steps, 4, 5 }
            local shape = x:shape()
            lead[#lead + 1], lead[#lead + 2] = shape[#shape - 1], shape[#shape]
            wide[name] = held[name]:broadcast_to(lead)
          end
        end
        local got, want = kalman.log_likelihood(held, list[1]), kalman.log_likelihood(wide, list[1])
        close(got, want, 1e-11, "log likelihood")
        local g, w = pn.grad(got:sin():sum(), list), pn.grad(want:sin():sum(), list)
        for k = 1, #list do close(g[k], w[k], 1e-10 * (1 + w[k]:abs():max():item()), "gradient " .. k) end
      end
    end
  end)

  it("has paths without noise, with gradients of all orders", function()
    pn.seed(17)
    local path = require "penumbra.core".gaussian.path
    for _, reverse in ipairs { false, true } do
      for _, lead in ipairs { { 1, 1 }, { 1, 3 }, { 4, 1 }, { 4, 3 } } do
        local a = pn.param(pn.randn { lead[1], lead[2], 2, 2 } * 0.4)
        local x, b = pn.param(pn.randn { 3, 2 }), pn.param(pn.randn { 4, 3, 2 })
        local function paths() return path(x, a, b, reverse) end
        local nothing = pn.zeros { 2, 2 }
        close(paths(), (require "penumbra.core".gaussian.propagate(x, nothing, a, b, nothing, 4, reverse)), 1e-12)
        assert(pn.check_gradients(function() return paths():sin():sum() end, { x, a, b }))
        assert(pn.check_gradients(function()
          local sum = 0
          for _, g in ipairs(pn.grad(paths():sin():sum(), { x, a, b }, { create_graph = true })) do
            sum = sum + g:sin():sum()
          end
          return sum
        end, { x, a, b }))
      end
    end
  end)

  it("says what is wrong with what it is given", function()
    local s, y = worked_example()
    local function with(name, value)
      local other = {}
      for key, x in pairs(s) do other[key] = x end
      other[name] = value
      return other
    end
    for _, case in ipairs {
      { "y must be a tensor or a list of numbers, got nil", s, nil },
      { "y must be %[T, %.%.%., 1%], got %[3, 2%]", s, pn.zeros { 3, 2 } },
      { "y must be float64 as the system is, got float32", s, y:to "float32" },
      { "emission must be float64 as the transition is, got float32", with("emission", s.emission:to "float32"), y },
      { "unknown option 'emision', did you mean 'emission'", with("emision", 1), y },
      { "the system needs transition_cov", { transition = pn.eye(2) }, y },
      { "the system needs initial_cov, or diffuse", with("initial_cov", nil), y },
      { "observed must be bool, got float64", s, y, { observed = y } },
      { "missing has gone: NaN in y is missing by itself", s, y, { missing = "nan" } },
      { "transition_noise is called transition_cov", with("transition_noise", s.transition_cov), y },
      { "q is called transition_cov", with("q", s.transition_cov), y },
      { "diffuse%[1%] must be at most 2", with("diffuse", { 3 }), y },
      { "form must be one of", s, y, { form = "root" } },
      { "transition_cov must be %[%.%.%., 2, 2%], got %[3, 3%]", with("transition_cov", pn.eye(3)), y },
      { "transition must have a time axis of 4 or 1, got %[3, 2, 2%]", with("transition", pn.zeros { 3, 2, 2 }), y },
      { "emission must have at most 1 axes before its own", with("emission", pn.zeros { 4, 5, 1, 2 }), y },
      { "emission_input must be %[%.%.%., 1, 3%], got %[1, 2%]", with("emission_input", pn.zeros { 1, 2 }), y,
        { inputs = pn.zeros { 4, 3 } } },
    } do
      assert.error_matches(function() kalman.filter(case[2], case[3], case[4]) end, case[1])
    end
  end)

  it("says which functions need an initial state that is known, and which a covariance that can be inverted", function()
    local s, y = worked_example()
    local known = {}
    for name, x in pairs(s) do known[name] = x end
    s.initial_cov, s.diffuse = pn.zeros { 2, 2 }, true
    for text, f in pairs {
      ["kalman.sample: a diffuse state cannot be drawn"] = function() kalman.sample(s, 2) end,
      ["method 'ffbs' needs a proper initial state"] = function() kalman.sample_posterior(s, y) end,
      ["kalman.elbo: needs a proper initial state"] = function() kalman.elbo(s, y) end,
      ["kalman.fisher_gradient: needs a proper"] = function() kalman.fisher_gradient(s, y, {}) end,
      ["kalman.em: needs a proper"] = function() kalman.em(s, y) end,
      ["form 'square_root' needs a proper initial state"] = function()
        kalman.filter(s, y, { form = "square_root" })
      end,
      ["form 'information' needs first = 'initial'"] = function()
        kalman.filter(known, y, { form = "information", first = "predicted" })
      end,
      ["extended: needs initial_cov, got a diffuse state"] = function() pn.smc.extended(s, y) end,
      ["kalman.forecast: y must be [T, ..., p], got a number"] = function()
        kalman.forecast(known, pn.full({}, 3), 2)
      end,
      ["kalman.matrix_exponential: x must be [..., n, n], got [2, 3]"] = function()
        kalman.matrix_exponential(pn.zeros { 2, 3 })
      end,
      ["kalman.matrix_exponential: x must be [..., n, n], got [3]"] = function()
        kalman.matrix_exponential(pn.zeros { 3 })
      end,
    } do
      helper.refuses(text, f)
    end
    s.diffuse, s.initial_cov = { 2 }, pn.eye(2)
    local f, message, code = kalman.filter(s, y, { form = "information" })
    assert.same({ nil, "domain" }, { f, code })
    assert.matches("all is diffuse or nothing", message)
    -- nil, message, code of each function where the third observation's noise is below zero
    known.emission_cov = pn.where(pn.arange(4):reshape { 4, 1, 1 }:eq(2), pn.full({}, -50.0), known.emission_cov)
    local diffuse = {}
    for name, x in pairs(known) do diffuse[name] = x end
    diffuse.initial_cov, diffuse.diffuse = pn.zeros { 2, 2 }, true
    for _, system in ipairs { known, diffuse } do
      local all = { { "log_likelihood" }, { "filter" }, { "smooth", { method = "rts" } },
        { "smooth", { method = "disturbance" } }, { "smooth", { method = "two_filter" } },
        { "sample_posterior", { method = "simulation" } } }
      if system == known then
        local held = { "emission", "emission_cov", "emission_offset" }
        for _, case in ipairs { { "filter", { form = "information" } }, { "sample_posterior" }, { "elbo" },
          { "em", { fixed = held } } } do all[#all + 1] = case end
      end
      for _, case in ipairs(all) do
        local x, why, kind = kalman[case[1]](system, y, case[2])
        assert.is_nil(x, case[1])
        assert.is_string(why)
        assert.equal("singular", kind)
      end
      local longer = {}
      for name, x in pairs(system) do longer[name] = x end
      longer.emission_cov = pn.concatenate({ known.emission_cov, pn.ones { 1, 1, 1 } }, 1)
      local x, why, kind = kalman.forecast(longer, y, 1, { first = "predicted" })
      assert.is_nil(x)
      assert.is_string(why)
      assert.equal("singular", kind)
    end
  end)

  it("takes inputs as offsets", function()
    pn.seed(15)
    local s, y, u = random_system(2, 2), pn.randn { 6, 2 }, pn.randn { 6, 3 }
    local by_input, to_output = pn.randn { 2, 3 }, pn.randn { 2, 3 }
    local b, d = s.transition_offset, s.emission_offset
    s.transition_offset, s.emission_offset = b + u:matmul(by_input:t()), d + u:matmul(to_output:t())
    local want = smooth_all(s, y)
    s.transition_offset, s.emission_offset, s.transition_input, s.emission_input = b, d, by_input, to_output
    close(smooth_all(s, y, { inputs = u }).mean, want.mean, 1e-13)
    assert.error_matches(function() smooth_all(s, y) end, "needs the option inputs")
  end)
end)

-- ---- diffuse initial states ----

describe("a diffuse initial state", function()
  -- The joint distribution with delta of variance k: with it the limit is reached as 1 / k.
  local function limit_of(s, columns, k)
    local copy = {}
    for name, x in pairs(s) do copy[name] = x end
    copy.diffuse = nil
    copy.initial_cov = s.initial_cov + columns:matmul(columns:t()) * k
    return copy
  end

  local function extrapolated(f)
    -- of values with errors of order 1 / k: Richardson's
    local a, b = f(1e4), f(2e4)
    return b * 2 - a
  end

  for _, first in ipairs { "initial", "predicted" } do
    it("is the limit of large variances, wholly and partly, first = " .. first, function()
      pn.seed(21)
      for _, case in ipairs { { true, pn.eye(3) }, { { 2 }, pn.eye(3):slice(2, 2, 2) },
        { pn.tensor { { 1, 0 }, { 1, 0 }, { 0, 2 } }, pn.tensor { { 1, 0 }, { 1, 0 }, { 0, 2 } } } } do
        local s, y = random_system(3, 1), pn.randn { 8, 1 }
        s.initial_cov = case[1] == true and pn.zeros { 3, 3 } or s.initial_cov
        s.diffuse = case[1]
        local observed = pn.tensor { 1, 1, 1, 0, 1, 1, 1, 1 }:gt(0):unsqueeze(-1)
        local o = { observed = observed, first = first }
        local f = assert(kalman.filter(s, y, o))
        local k = case[2]:size(2)
        for t = k + 1, 8 do
          for _, name in ipairs { "mean", "cov", "predicted_mean", "predicted_cov" } do
            local want = extrapolated(function(v) return kalman.filter(limit_of(s, case[2], v), y, o)[name][t] end)
            if not (name:find "^predicted" and t == k + 1) then
              close(f[name][t] / want:abs():max(), want / want:abs():max(), 2e-5, name .. " " .. t)
            end
          end
        end
        local want = extrapolated(function(v)
          return kalman.log_likelihood(limit_of(s, case[2], v), y, o) + k / 2 * math.log(v)
        end)
        close(kalman.log_likelihood(s, y, o), want, 1e-5, "log likelihood")
        close(f.log_likelihood, kalman.log_likelihood(s, y, o), 1e-12)
        for _, method in ipairs(methods) do
          local x = assert(smooth_all(s, y, { method = method, observed = observed, first = first }))
          for name, value in pairs(x) do
            local limit = extrapolated(function(v) return smooth_all(limit_of(s, case[2], v), y, o)[name] end)
            local size = limit:abs():max()
            close(value / size, limit / size, 2e-5, method .. " " .. name)
          end
        end
      end
    end)
  end

  -- Durbin & Koopman (2012), section 5.2.1: the exact initial Kalman filter for one observation at a time, F_inf > 0.
  it("is that of the exact initial recursions", function()
    pn.seed(22)
    local y = pn.randn { 10 }:cumsum(1)
    local q1, q2, r = 0.3, 0.05, 0.7
    local s = { transition = pn.tensor { { 1, 1 }, { 0, 1 } }, transition_cov = pn.tensor { { q1, 0 }, { 0, q2 } },
      emission = pn.tensor { { 1, 0 } }, emission_cov = pn.tensor { { r } }, diffuse = true }
    -- a, P_* and P_inf of the trend before y_1, then by (5.6) to (5.11) with Z = [1 0]
    local a, star = { 0, 0 }, { { 0, 0 }, { 0, 0 } }
    local infinite = { { 1, 0 }, { 0, 1 } }
    local total = 0
    local function transit(p)
      return { { p[1][1] + p[1][2] + p[2][1] + p[2][2], p[1][2] + p[2][2] }, { p[2][1] + p[2][2], p[2][2] } }
    end
    local states = {}
    for t = 1, 10 do
      local v = y[t]:item() - a[1]
      local f_inf, f_star = infinite[1][1], star[1][1] + r
      local filtered, new_star, new_inf = {}, { {}, {} }, { {}, {} }
      if f_inf > 1e-12 then
        total = total - 0.5 * (math.log(2 * math.pi) + math.log(f_inf))
        for i = 1, 2 do
          local k0 = infinite[i][1] / f_inf
          filtered[i] = a[i] + k0 * v
          for j = 1, 2 do
            local kj = infinite[j][1] / f_inf
            new_inf[i][j] = infinite[i][j] - k0 * kj * f_inf
            new_star[i][j] = star[i][j] - star[i][1] * kj - k0 * star[1][j] + k0 * kj * f_star
          end
        end
      else
        total = total - 0.5 * (math.log(2 * math.pi * f_star) + v * v / f_star)
        for i = 1, 2 do
          filtered[i] = a[i] + star[i][1] / f_star * v
          for j = 1, 2 do
            new_inf[i][j] = 0
            new_star[i][j] = star[i][j] - star[i][1] * star[1][j] / f_star
          end
        end
      end
      states[t] = { filtered, new_star, f_inf }
      a = { filtered[1] + filtered[2], filtered[2] }
      star, infinite = transit(new_star), transit(new_inf)
      star[1][1], star[2][2] = star[1][1] + q1, star[2][2] + q2
    end
    local f = kalman.filter(s, y, { first = "predicted" })
    for t = 3, 10 do
      close(f.mean[t], pn.tensor(states[t][1]), 1e-10, "mean " .. t)
      close(f.cov[t], pn.tensor(states[t][2]), 1e-10, "cov " .. t)
    end
    close(f.log_likelihood, total, 1e-10, "log likelihood")
    assert.is_true(f.mean[1]:isnan():all():item())
    close(f.log_prob[1], 0, 0)
    -- before the first two observations nothing, or not all, is known of the state; then it is the one before, moved on
    for t = 1, 2 do
      assert.is_true(f.predicted_mean[t]:isnan():all():item())
      assert.equal(math.huge, f.predicted_cov[t]:max():item())
    end
    for t = 4, 10 do
      close(f.predicted_mean[t]:unsqueeze(2), s.transition:matmul(f.mean[t - 1]:unsqueeze(2)), 1e-10, "before " .. t)
      close(f.predicted_cov[t], s.transition:matmul(f.cov[t - 1]):matmul(s.transition:t()) + s.transition_cov, 1e-10)
    end
  end)

  it("starts the filter on precisions at zero", function()
    local s, y = worked_example()
    s.initial_mean, s.initial_cov, s.diffuse = nil, nil, true
    local f, g = kalman.filter(s, y), kalman.filter(s, y, { form = "information" })
    close(g.precision[4]:inverse(), f.cov[4], 1e-11)
    close(g.precision[4]:solve(g.information[4]:unsqueeze(-1)):squeeze(-1) * 0 + f.mean[4], f.mean[4], 1e-11)
  end)

  it("has the gradient of its log likelihood", function()
    pn.seed(23)
    local s, y = random_system(2, 1), pn.randn { 6, 1 }
    s.initial_cov, s.diffuse = pn.zeros { 2, 2 }, true
    local a, q = pn.param(s.transition), pn.param(s.transition_cov)
    s.transition, s.transition_cov = a, q
    assert(pn.check_gradients(function() return kalman.log_likelihood(s, y) end, { a, q }))
  end)

  it("has gradients of the moments that are known, of the filter, the smoother and a forecast", function()
    pn.seed(24)
    local s, y = random_system(2, 1), pn.param(pn.randn { 5, 1 })
    s.initial_cov, s.diffuse = pn.zeros { 2, 2 }, true
    local a, q = pn.param(s.transition), pn.param(s.transition_cov)
    s.transition, s.transition_cov = a, q
    local function total(x) -- from the third step on, where two numbers are known
      return x.mean:slice(1, 3, x.mean:size(1)):sin():sum() + (x.cov:slice(1, 3, x.cov:size(1)) * 0.3):cos():sum()
    end
    for name, f in pairs { filter = function() return total(kalman.filter(s, y)) end,
      smooth = function() return total(kalman.smooth(s, y)) end,
      forecast = function() return total(kalman.forecast(s, y, 4)) end } do
      assert(pn.check_gradients(f, { a, q, y }), name)
    end
  end)
end)

-- ---- gradients ----

local function parameters_of(s)
  local held, list, names = {}, {}, {}
  for name in pairs(s) do names[#names + 1] = name end
  table.sort(names)
  for k, name in ipairs(names) do
    held[name] = pn.param(s[name])
    list[k] = held[name]
  end
  return held, list
end

local function options_with(o, more)
  for name, value in pairs(o) do more[name] = value end
  return more
end

describe("gradients of a linear system", function()
  it("are those of finite differences and of single steps", function()
    pn.seed(31)
    local steps, batch, n, p = 4, 3, 2, 1
    for _, lead in ipairs { {}, { batch }, { steps, 1 }, { steps, batch } } do
      local s, list = parameters_of(random_system(n, p, lead))
      local y = pn.param(pn.randn { steps, batch, p })
      list[#list + 1] = y
      local observed = pn.rand { steps, batch, p }:gt(0.3)
      for _, o in ipairs { {}, { observed = observed }, { first = "predicted" } } do
        assert(pn.check_gradients(function() return kalman.log_likelihood(s, y, o):sum() end, list))
        local function outputs()
          local f = kalman.filter(s, y, o)
          return f.mean:sin():sum() + f.cov:cos():sum() + f.log_prob:square():sum() * 0.1
        end
        assert(pn.check_gradients(outputs, list))
      end
      -- what is repeated along time is no constant
      local wide = {}
      for name, x in pairs(s) do
        if not name:find "^initial" then
          wide[name] = x:broadcast_to { steps, batch, table.unpack(x:shape(), x:ndim() - own_axes[name] + 1) }
        else
          wide[name] = x
        end
      end
      local repeated = pn.grad(kalman.log_likelihood(wide, y):sum(), list)
      for k, g in ipairs(pn.grad(kalman.log_likelihood(s, y):sum(), list)) do
        close(repeated[k], g, 1e-10, "repeated")
      end
      -- one step after the other
      local function at(x, own, t) return x:ndim() == own + 2 and x[math.min(t, x:size(1))] or x end
      local mean, cov, total = s.initial_mean, s.initial_cov, 0
      for t = 1, steps do
        local log_prob
        mean, cov, log_prob = pn.kalman_step(mean, cov, at(s.transition, 2, t), at(s.transition_offset, 1, t),
          at(s.transition_cov, 2, t), y[t], at(s.emission, 2, t), at(s.emission_offset, 1, t),
          at(s.emission_cov, 2, t))
        total = total + log_prob:sum()
      end
      local want, got = pn.grad(total, list), pn.grad(kalman.log_likelihood(s, y):sum(), list)
      for k = 1, #list do
        close(got[k], want[k], 1e-10, "gradient " .. k)
        close(pn.grad(kalman.log_likelihood(s, y):sum(), { list[k] })[1], got[k], 1e-12, "asked for alone " .. k)
      end
    end
  end)

  it("have gradients", function()
    pn.seed(32)
    for _, lead in ipairs { {}, { 3 } } do
      local s, list = parameters_of(random_system(2, 1, lead))
      local y = pn.randn { 3, 1 }
      assert(pn.check_gradients(function()
        local g = pn.grad(kalman.log_likelihood(s, y), list, { create_graph = true })
        local sum = 0
        for _, x in ipairs(g) do sum = sum + x:sin():sum() end
        return sum
      end, list))
      assert(pn.check_gradients(function()
        local x = smooth_all(s, y)
        return pn.grad(x.mean:square():sum() + x.cov:sum(), { s.transition }, { create_graph = true })[1]:square():sum()
      end, { s.transition_cov }))
    end
  end)

  -- Along one direction of the whole system and of y: of all that a function gives, each number with its own weight.
  local functions = {
    filter = function(s, y, o) return kalman.filter(s, y, o) end,
    information = function(s, y, o)
      return o.first ~= "predicted" and kalman.filter(s, y, { observed = o.observed, form = "information" }) or {}
    end,
    ffbs = function(s, y, o)
      return { kalman.sample_posterior(s, y, { observed = o.observed, first = o.first, draws = 2, method = "ffbs",
        generator = pn.generator(5) }) }
    end,
    simulation = function(s, y, o)
      return { kalman.sample_posterior(s, y, { observed = o.observed, first = o.first, draws = 2,
        method = "simulation", generator = pn.generator(5) }) }
    end,
    sample = function(s, y, o)
      return { kalman.sample(s, y:size(1), { first = o.first, draws = 2, batch_shape = { y:size(2) },
        generator = pn.generator(5) }) }
    end,
    elbo = function(s, y, o) return kalman.elbo(s, y, o) end,
    backward = function(s, y, o) return kalman.elbo(s, y, options_with(o, { entropy = "backward" })) end,
    pairwise = function(s, y, o) return kalman.elbo(s, y, options_with(o, { entropy = "pairwise" })) end,
    log_likelihood = function(s, y, o) return { kalman.log_likelihood(s, y, o) } end,
  }
  for _, method in ipairs(methods) do
    functions[method] = function(s, y, o) return kalman.smooth(s, y, options_with(o, { method = method })) end
  end
  local of_constant = { forecast = function(s, y, o) return kalman.forecast(s, y, 2, o) end }

  -- The sum of all finite numbers of what f gives, from the first step on of which that is asked.
  local function weighed(x, from, g)
    local sum = 0
    if pn.is_tensor(x) then
      local t = from > 1 and x:ndim() > 1 and x:slice(1, from, x:size(1)) or x
      return (t * pn.randn(t:shape(), { generator = g })):sum()
    end
    local names = {}
    for name in pairs(x) do names[#names + 1] = name end
    table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
    for _, name in ipairs(names) do sum = sum + weighed(x[name], from, g) end
    return sum
  end

  local function check_slope(what, list, f)
    local g, slope, way, at = pn.generator(6), 0, {}, {}
    for k, p in ipairs(list) do
      way[k], at[k] = pn.randn(p:shape(), { generator = g }), p:detach() + 0
      if p:ndim() > 1 and p:size(-1) == p:size(-2) then way[k] = way[k] + mt(way[k]) end
    end
    for k, d in ipairs(pn.grad(f(), list)) do slope = slope + (d and (d * way[k]):sum():item() or 0) end
    local function along(h)
      for k, p in ipairs(list) do p:set(at[k] + way[k] * h) end
      return f():item()
    end
    local h = 1e-4
    local want = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h)
    for k, p in ipairs(list) do p:set(at[k]) end
    assert(math.abs(slope - want) <= 1e-6 * math.max(1, math.abs(want)), ("%s: %.10g and %.10g"):format(what, slope,
      want))
    assert(math.abs(want) > 1e-3, what)
  end

  it("are those of differences in all that functions give", function()
    pn.seed(36)
    local steps, batch = 4, 2
    for _, lead in ipairs { {}, { batch }, { steps, 1 } } do
      local s, list = parameters_of(random_system(2, 2, lead))
      list[#list + 1] = pn.param(pn.randn { steps, batch, 2 })
      local y, observed = list[#list], pn.rand { steps, batch, 2 }:gt(0.25)
      for _, o in ipairs { {}, { observed = observed }, { observed = observed, first = "predicted" } } do
        local function check(all)
          for name, f in pairs(all) do
            local what = ("%s, %d axes, %s"):format(name, #lead, o.first or "")
            if next(f(s, y, o)) then
              check_slope(what, list, function() return weighed(f(s, y, o), 1, pn.generator(7)) end)
            end
          end
        end
        check(functions)
        if #lead < 2 then check(of_constant) end
      end
    end
  end)

  it("are those of differences where the state starts diffuse, too", function()
    pn.seed(37)
    for _, diffuse in ipairs { { 2 }, true } do
      local s, list = parameters_of(random_system(2, 1))
      s.diffuse, s.initial_cov = diffuse, diffuse == true and pn.zeros { 2, 2 } or s.initial_cov
      if diffuse == true then s.initial_mean = pn.zeros { 2 } end
      list[#list + 1] = pn.param(pn.randn { 5, 2, 1 })
      local y, observed = list[#list], pn.tensor { 1, 1, 1, 0, 1 }:reshape { 5, 1, 1 }:broadcast_to { 5, 2, 1 }:gt(0)
      for _, o in ipairs { {}, { observed = observed }, { observed = observed, first = "predicted" } } do
        for name, from in pairs { filter = 4, log_likelihood = 1, simulation = 1, rts = 1, disturbance = 1,
          two_filter = 1, forecast = 1 } do
          local f = functions[name] or of_constant[name]
          check_slope(name .. " of a diffuse start", list, function() return weighed(f(s, y, o), from,
            pn.generator(7)) end)
        end
      end
    end
  end)

  it("reach the smoothed states by each method", function()
    pn.seed(33)
    local s, list = parameters_of(random_system(2, 1))
    local y = pn.randn { 4, 1 }
    for _, method in ipairs(methods) do
      assert(pn.check_gradients(function()
        local x = smooth_all(s, y, { method = method })
        return x.mean:sin():sum() + x.cov:cos():sum()
      end, list))
    end
  end)

  it("are those of Fisher's identity", function()
    pn.seed(34)
    for _, o in ipairs { {}, { first = "predicted" }, { observed = pn.rand { 7, 5, 2 }:gt(0.3) } } do
      local s, list = parameters_of(random_system(3, 2))
      local y = pn.randn { 7, 5, 2 }
      local got, want = kalman.fisher_gradient(s, y, list, o), pn.grad(kalman.log_likelihood(s, y, o):sum(), list)
      for k = 1, #list do close(got[k], want[k], 1e-8 * math.max(1, want[k]:abs():max():item()), "gradient " .. k) end
    end
  end)

  it("do not exist for roots, by name", function()
    local s, list = parameters_of((worked_example()))
    local f = kalman.filter(s, pn.tensor { 1, 2 }, { form = "square_root" })
    assert.error_matches(function() pn.grad(f.log_likelihood, list) end, "has no gradient")
  end)

  it("are the same in a compiled function", function()
    pn.seed(35)
    local s, list = parameters_of(random_system(3, 2))
    local function step(y)
      return table.unpack(pn.grad(kalman.log_likelihood(s, y):sum(), list))
    end
    local compiled = pn.compile(step)
    for _ = 1, 3 do
      local y = pn.randn { 6, 4, 2 }
      local got, want = { compiled(y) }, { step(y) }
      for k = 1, #list do close(got[k], want[k], 0) end
    end
  end)
end)

-- ---- robustness ----

describe("long sequences", function()
  it("keep covariances positive for 100000 steps of float32", function()
    pn.seed(41)
    local function single(x) return x:to "float32" end
    local s = { transition = single(pn.tensor { { 1, 0.1 }, { 0, 1 } }),
      transition_cov = single(pn.tensor { { 1e-6, 0 }, { 0, 1e-5 } }), emission = single(pn.tensor { { 1, 0 } }),
      emission_cov = single(pn.tensor { { 1e-4 } }),
      initial_mean = single(pn.zeros { 2 }), initial_cov = single(pn.eye(2) * 1e3) }
    local y = single(pn.randn { 100000, 1 })
    local x = pn.no_grad(function() return smooth_all(s, y) end)
    local f = kalman.filter(s, y)
    for _, cov in ipairs { f.cov, x.cov } do
      local first, second = cov:select(-1, 1), cov:select(-1, 2)
      local det = first:select(-1, 1) * second:select(-1, 2) - first:select(-1, 2) ^ 2
      assert.is_true(cov:isfinite():all():item())
      assert(cov:diagonal():min():item() > 0)
      assert(det:min():item() > 0)
    end
    close(f.cov, mt(f.cov), 0)
  end)

  it("are the same bits for one thread and two", function()
    pn.seed(42)
    local s, list = parameters_of(random_system(3, 2))
    local y = pn.randn { 300, 70, 2 }
    local threads, all = pn.threads(), {}
    for n = 1, 2 do
      pn.threads(n)
      local f = kalman.filter(s, y)
      all[n] = { f.mean, f.cov, f.log_prob, table.unpack(pn.grad(kalman.log_likelihood(s, y):sum(), list)) }
    end
    pn.threads(threads)
    for k = 1, #all[1] do close(all[1][k], all[2][k], 0) end
  end)

  it("name step and series where a covariance has no factor", function()
    local s = worked_example()
    s.emission_cov = pn.full({ 4, 3, 1, 1 }, 0.2)
    s.emission_cov = pn.where((pn.arange(12):reshape { 4, 3, 1, 1 }):eq(7), pn.full({}, -50.0), s.emission_cov)
    local f, message, code = kalman.filter(s, pn.zeros { 4, 3, 1 })
    assert.is_nil(f)
    assert.equal("singular", code)
    assert.matches("step 3: innovation covariance, matrix %[2%] of the batch, must be positive definite", message)
    assert.is_nil((kalman.log_likelihood(s, pn.zeros { 4, 3, 1 })))
  end)
end)

-- ---- forecasts and draws ----

describe("forecasts", function()
  it("are the filter's with all missing", function()
    pn.seed(51)
    for _, lead in ipairs { {}, { 9 } } do
      local s, y = random_system(3, 2, lead), pn.randn { 5, 2 }
      local none = pn.concatenate({ pn.ones { 5, 2 }, pn.zeros { 4, 2 } }, 1):gt(0)
      local f = kalman.filter(s, pn.concatenate({ y, pn.zeros { 4, 2 } }, 1), { observed = none })
      local g = kalman.forecast(s, y, 4)
      close(g.state_mean, f.mean:slice(1, 6, 9), 1e-12)
      close(g.state_cov, f.cov:slice(1, 6, 9), 1e-12)
      local c = #lead == 1 and s.emission:slice(1, 6, 9) or s.emission
      local d = #lead == 1 and s.emission_offset:slice(1, 6, 9) or s.emission_offset
      close(g.mean, c:matmul(g.state_mean:unsqueeze(-1)):squeeze(-1) + d, 1e-12)
    end
    local s = random_system(2, 1, { 5 })
    assert.error_matches(function() kalman.forecast(s, pn.randn { 5, 1 }, 2) end,
      "must have a time axis of 7 or 1, got")
  end)
end)

describe("draws of a linear system", function()
  it("have the joint distribution's moments, prior and posterior", function()
    pn.seed(52)
    local s, draws = random_system(2, 1), 40000
    local later, seen, initial = kalman.sample(s, 4, { draws = draws })
    local states = draws_of_all(later, initial)
    assert.same({ draws, 4, 2 }, later:shape())
    assert.same({ draws, 4, 1 }, seen:shape())
    local z = joint.of(s, 4)
    local all = pn.concatenate({ states:reshape { draws, 10 }, seen:reshape { draws, 4 } }, 2)
    local function check(x, mean, cov)
      local scale = cov:diagonal():sqrt()
      local error_of_mean = ((x:mean(1) - mean) / scale):abs():max():item() * draws ^ 0.5
      assert(error_of_mean < 6, error_of_mean)
      local centred = (x - mean) / scale
      local correlation = cov / scale:unsqueeze(-1) / scale
      local wrong = (centred:t():matmul(centred) / draws - correlation):abs():max():item() * (draws / 2) ^ 0.5
      assert(wrong < 6, wrong)
    end
    check(all, z.mean, z.cov)
    local y = pn.randn { 4, 1 }
    local mean, cov = joint.given(z, y, 4)
    for _, method in ipairs { "ffbs", "simulation" } do
      local d = draws_of_all(kalman.sample_posterior(s, y, { draws = draws, method = method }))
      check(d:reshape { draws, 10 }, mean:reshape { 10 }, cov)
    end
    s.initial_cov, s.diffuse = pn.zeros { 2, 2 }, true
    local x = smooth_all(s, y)
    local d = draws_of_all(kalman.sample_posterior(s, y, { draws = draws, method = "simulation" }))
    assert((((d:mean(1) - x.mean) / x.cov:diagonal():sqrt()):abs():max() * draws ^ 0.5):item() < 6)
  end)

  it("come in batches and repeat with their generator", function()
    pn.seed(53)
    local s = random_system(3, 2)
    local states, seen = kalman.sample(s, 6, { draws = 2, batch_shape = { 5 } })
    assert.same({ 2, 6, 5, 3 }, states:shape())
    assert.same({ 2, 6, 5, 2 }, seen:shape())
    for _, method in ipairs { "ffbs", "simulation" } do
      local a = kalman.sample_posterior(s, seen[1], { draws = 3, method = method, generator = pn.generator(7) })
      local b = kalman.sample_posterior(s, seen[1], { draws = 3, method = method, generator = pn.generator(7) })
      assert.same({ 3, 6, 5, 3 }, a:shape())
      close(a, b, 0)
    end
  end)
end)

-- ---- EM ----

describe("EM", function()
  local function rises(e, least)
    local l = e.log_likelihood:totable()
    for k = 2, #l do
      assert(l[k] >= l[k - 1] - 1e-9 * math.abs(l[k - 1]), ("step %d: %.12g"):format(k, l[k] - l[k - 1]))
    end
    assert(l[#l] > l[1] + (least or 0))
  end

  it("never loses likelihood, pooled over series, with inputs, holes and parts held", function()
    pn.seed(61)
    local s = random_system(2, 2)
    s.transition_input, s.emission_input = pn.randn { 2, 1 }, pn.randn { 2, 1 }
    local u = pn.randn { 30, 1, 1 }:broadcast_to { 30, 6, 1 }
    local _, y = kalman.sample(s, 30, { batch_shape = { 6 }, inputs = u })
    y = y[1]
    local start = {}
    for name, x in pairs(s) do start[name] = name:find "_cov" and x * 2 or x * 0.7 end
    local observed = pn.rand { 30, 6, 2 }:gt(0.25)
    for _, o in ipairs { {}, { observed = observed }, { first = "predicted" },
      { fixed = { "emission", "emission_cov", "initial_cov" } }, { fixed = { "transition", "emission_offset" } },
      { fixed = { "transition_offset", "transition_cov", "emission_input" }, observed = observed } } do
      o.inputs, o.steps = u, 8
      local e = assert(kalman.em(start, y, o))
      rises(e, 1)
      for _, name in ipairs(o.fixed or {}) do assert.equal(start[name], e.system[name]) end
      assert.equal(9, e.log_likelihood:size(1))
    end
  end)

  -- One state, two observations with noises that hang together, offsets; of those that are missing only one, or both.
  it("ends where the gradient is zero, with gaps and without", function()
    local s = { transition = pn.tensor { { 0.9 } }, transition_cov = pn.tensor { { 1.5 } },
      emission = pn.tensor { { 1 }, { 0.6 } }, emission_cov = pn.tensor { { 0.6, 0.2 }, { 0.2, 0.5 } },
      emission_offset = pn.tensor { 0.5, -1 }, initial_mean = pn.zeros { 1 }, initial_cov = pn.eye(1) }
    for _, gaps in ipairs { false, true } do
      pn.seed(62)
      local _, y = kalman.sample(s, 40, { batch_shape = { 12 } })
      local o = { observed = gaps and pn.rand { 40, 12, 2 }:gt(0.25) or nil }
      local e = kalman.em(s, y[1], { observed = o.observed, steps = 2000, tolerance = 1e-13,
        fixed = { "emission", "initial_cov" } }) -- (the latter would go to 0, at its edge)
      assert.is_true(e.converged)
      rises(e)
      local held, list = {}, {}
      for name, x in pairs(e.system) do
        held[name] = pn.param(x)
        if name ~= "emission" and name ~= "initial_cov" then list[#list + 1] = held[name] end
      end
      assert.equal(5, #list)
      local at_start, scale = {}, 0
      for name, x in pairs(s) do at_start[name] = pn.param(x) end
      for _, g in ipairs(pn.grad(kalman.log_likelihood(at_start, y[1], o):sum(), { at_start.transition,
        at_start.emission_cov })) do scale = math.max(scale, g:abs():max():item()) end
      assert(scale > 1) -- it was not so from the start
      for _, g in ipairs(pn.grad(kalman.log_likelihood(held, y[1], o):sum(), list)) do close(g, 0, 1e-3, "gradient") end
    end
  end)

  it("ends there in mean and covariance of the first states of many series, too", function()
    pn.seed(64)
    local s = random_system(2, 1)
    s.initial_cov = s.initial_cov * 3
    local _, y = kalman.sample(s, 3, { batch_shape = { 150 } })
    local fixed, held = {}, {}
    for name in pairs(s) do fixed[#fixed + 1] = not name:find "^initial" and name or nil end
    s.initial_mean, s.initial_cov = s.initial_mean + 2, s.initial_cov * 2
    local e = kalman.em(s, y[1], { steps = 1500, tolerance = 1e-14, fixed = fixed })
    local values = e.log_likelihood:totable()
    assert.is_true(values[#values] > values[1] + 1)
    for name, x in pairs(e.system) do held[name] = pn.param(x) end
    for _, g in ipairs(pn.grad(kalman.log_likelihood(held, y[1]):sum(), { held.initial_mean, held.initial_cov })) do
      close(g, 0, 2e-3, "gradient")
    end
  end)

  it("fits parts with the batch's axes to each series", function()
    pn.seed(63)
    local s = random_system(2, 1)
    local _, y = kalman.sample(s, 40, { batch_shape = { 3 } })
    y = y[1]
    local wide = {}
    for name, x in pairs(s) do
      local shape = { 3, table.unpack(x:shape()) }
      wide[name] = x:broadcast_to(shape)
    end
    local e = kalman.em(wide, y, { steps = 5 })
    for b = 1, 3 do
      local one = kalman.em(s, y:select(2, b), { steps = 5 })
      for name, x in pairs(one.system) do close(e.system[name][b], x, 1e-9, name) end
    end
    wide.transition = s.transition
    assert.error_matches(function() kalman.em(wide, y, { steps = 1 }) end, "series whose transition_cov differ")
    assert.error_matches(function() kalman.em(random_system(2, 1, { 40, 1 }), y) end, "changes with time")
    -- a regression whose noise changes with time has no closed form, however many series there are
    wide.transition, wide.transition_cov = wide.transition_cov, s.transition_cov * pn.ones { 40, 1, 1, 1 }
    local few = { fixed = { "transition_cov", "emission_cov" }, steps = 1 }
    assert.error_matches(function() kalman.em(wide, y, few) end,
      "kalman.em: transition cannot be fitted where transition_cov changes with time: name it in fixed", 1, true)
    assert.error_matches(function() kalman.em(s, y, { fixed = { "emision" } }) end, "did you mean 'emission'")
  end)
end)

-- ---- continuous time ----

describe("discretisation", function()
  it("is exact: closed forms, and steps that add up", function()
    local rate, noise = 0.7, 0.9
    local d = kalman.discretise { drift = pn.tensor { { -rate } }, diffusion = pn.tensor { { noise } },
      step = pn.tensor { 0, 0.01, 1, 40, 4000 }, offset = pn.tensor { 0.3 } }
    for k, h in ipairs { 0, 0.01, 1, 40, 4000 } do
      close(d.transition[k], math.exp(-rate * h), 1e-12) -- (rounding doubles with each of 12 doublings)
      close(d.transition_cov[k], noise * (1 - math.exp(-2 * rate * h)) / (2 * rate), 1e-12)
      close(d.transition_offset[k], 0.3 * (1 - math.exp(-rate * h)) / rate, 1e-12)
    end
    -- constant velocity
    d = kalman.discretise { drift = pn.tensor { { 0, 1 }, { 0, 0 } }, diffusion = pn.tensor { { 0, 0 }, { 0, 2 } },
      step = 3 }
    close(d.transition, pn.tensor { { 1, 3 }, { 0, 1 } }, 1e-13)
    close(d.transition_cov, pn.tensor { { 18, 9 }, { 9, 6 } }, 1e-11)
    pn.seed(71)
    local f, q = pn.randn { 3, 3 }, covariance(3, 3)
    for _, many in ipairs { { drift = pn.stack({ f, f * 0.5 }, 1), diffusion = q, step = 0.4 },
      { drift = f, diffusion = pn.stack({ q, q * 2 }, 1), step = 0.4 } } do
      local both = kalman.discretise(many)
      for k = 1, 2 do
        local own = kalman.discretise { drift = many.drift:ndim() == 3 and many.drift[k] or f,
          diffusion = many.diffusion:ndim() == 3 and many.diffusion[k] or q, step = 0.4 }
        assert.same({ 2, 3, 3 }, both.transition:shape())
        assert.is_true((both.transition[k] - own.transition):abs():max():item() < 1e-12)
        assert.is_true((both.transition_cov[k] - own.transition_cov):abs():max():item() < 1e-12)
      end
    end
    local one = kalman.discretise { drift = f, diffusion = q, step = 0.4, offset = pn.ones { 3 } }
    local two = kalman.discretise { drift = f, diffusion = q, step = 0.8, offset = pn.ones { 3 } }
    local a, w = one.transition, one.transition_cov
    close(two.transition, a:matmul(a), 1e-12)
    close(two.transition_cov, a:matmul(w):matmul(a:t()) + w, 1e-12)
    local c = one.transition_offset
    close(two.transition_offset, a:matmul(c:unsqueeze(-1)):squeeze(-1) + c, 1e-12)
  end)

  it("makes irregular steps of one equation: the filter does not mind where nothing is seen", function()
    pn.seed(72)
    local f, q = pn.tensor { { 0, 1 }, { -2, -0.3 } }, pn.tensor { { 0, 0 }, { 0, 1 } }
    local function system(steps)
      local d = kalman.discretise { drift = f, diffusion = q, step = steps }
      return { transition = d.transition, transition_cov = d.transition_cov, emission = pn.tensor { { 1, 0 } },
        emission_cov = pn.tensor { { 0.1 } }, initial_mean = pn.zeros { 2 }, initial_cov = pn.eye(2) }
    end
    local y = pn.randn { 3, 1 }
    local few = kalman.log_likelihood(system(pn.tensor { 0.5, 1.2, 0.1 }), y)
    local all = pn.tensor { y[1]:item(), 0, 0, y[2]:item(), y[3]:item() }
    local seen = pn.tensor { 1, 0, 0, 1, 1 }:gt(0):unsqueeze(-1)
    close(kalman.log_likelihood(system(pn.tensor { 0.5, 0.3, 0.2, 0.7, 0.1 }), all, { observed = seen }), few, 1e-12)
  end)

  it("has gradients", function()
    pn.seed(73)
    local f, q, c = pn.param(pn.randn { 2, 2 }), pn.param(covariance(2, 2)), pn.param(pn.randn { 2 })
    assert(pn.check_gradients(function()
      local d = kalman.discretise { drift = f, diffusion = q, step = pn.tensor { 0.3, 2 }, offset = c }
      return d.transition:sin():sum() + d.transition_cov:square():sum() + d.transition_offset:sin():sum()
    end, { f, q, c }))
  end)
end)

describe("an update that is refused", function()
  it("names its cause below a Kalman step, whose own gradient is finite", function()
    local core = require "penumbra.core"
    local w, eye = pn.param(pn.zeros { 2 }), pn.eye(2)
    local _, _, log_prob = core.kalman_step(w:sqrt(), eye, eye, nil, eye, pn.ones { 2 }, eye, nil, eye)
    assert.error_matches(function() pn.optim.adam({ w }, { lr = 1e-2 }):step(-log_prob) end, "the derivative of 'sqrt'")
  end)
end)
