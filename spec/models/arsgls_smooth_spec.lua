--- The smoother of systems with an auxiliary variable: the Rauch-Tung-Striebel smoother where there is one switch and
--- no noise between y and z, and with noise; and a nonlinear one, whose switch follows the state, against draws of the
--- prior that are weighed with the whole likelihood, the matrices averaged here anew.
local pn = require "penumbra"
local arsgls = pn.models.arsgls
local kalman = pn.smc.kalman
local helper = require "spec.helper"

local A, C = { { 0.9, 0.2 }, { -0.3, 0.8 } }, { { 1, 0.5 }, { 0.2, -1 } }
local Q, R = { 0.3, 0.2 }, { 0.4, 0.1 }

-- One switch, whatever it is: bases that are all the same; y = z + N(0, noise), and an encoder that is this likelihood.
local function one_system(noise, particles, encoder, dtype)
  local m = arsgls { size = 2, states = 2, switches = 3, auxiliary = 2, base = 3, scaling = "none", floor = 0,
    num_particles = particles, dtype = dtype, emission = function(z) return pn.dist.normal(z, noise ^ 0.5) end,
    encoder = encoder and function(y) return { z = { loc = y, variance = pn.full(y:shape(), noise,
      { dtype = y:dtype() }) } } end }
  local values = { a = pn.tensor(A), c = pn.tensor(C), q = pn.tensor(Q):log() * -0.5, r = pn.tensor(R):log() * -0.5 }
  for name, x in pairs(m.bases.bases) do
    local v = (values[name] or pn.zeros {}):to(x:dtype())
    x:set(v:broadcast_to(x:shape()):contiguous())
  end
  local exact = { transition = pn.tensor(A), transition_cov = pn.tensor(Q):diag_embed(), emission = pn.tensor(C),
    emission_cov = (pn.tensor(R) + noise):diag_embed(), initial_mean = pn.zeros { 2 }, initial_cov = pn.eye(2) }
  return m, exact
end

-- The mean over a batch [B] is within 6 standard errors of `want`, which are less than `narrow`.
local function expect(want, x, narrow, what)
  local mean, allowed = x:mean():item(), 6 * (x:var():item() / x:numel()) ^ 0.5
  assert(allowed < narrow, ("%s: 6 standard errors are %g"):format(what, allowed))
  assert(math.abs(mean - want) <= allowed, ("%s: %.5f is not within %.5f of %.5f"):format(what, mean, allowed, want))
end

describe("the smoother of arsgls", function()
  it("is the exact one, path by path, where z is y", function()
    for _, dtype in ipairs { "float64", "float32" } do
      local m, s = one_system(1e-14, 6, true, dtype)
      local y = pn.randn({ 7, 3, 2 }, { generator = pn.generator(2) })
      y = pn.where(pn.tensor { 0, 0, 1, 0, 0, 0, 1 }:gt(0):reshape { 7, 1, 1 }, 0 / 0, y) -- a gap, and one at the end
      local want = kalman.smooth(s, y)
      local got = m:smooth({ y = y:to(dtype) }, { draws = 4 })
      local tolerance = dtype == "float64" and 1e-5 or 2e-3
      assert.is_true(helper.off(got.mean:to "float64", want.mean) < tolerance)
      assert.is_true(helper.off(got.cov:to "float64", want.cov) < tolerance)
      assert.same({ 7, 4, 3, 2 }, got.path_mean:shape())
      assert.same({ 7, 4, 3, 3 }, got.s:shape())
      local seen = y:isnan():logical_not():unsqueeze(2)
      local apart = pn.where(seen, got.z:to "float64" - pn.where(seen, y:unsqueeze(2), 0), 0)
      assert.is_true(apart:abs():max():item() < tolerance) -- z is y where y was observed
    end
  end)

  it("is without bias where z has noise of its own, with an encoder and without", function()
    local y = pn.randn({ 4, 1, 2 }, { generator = pn.generator(2) })
    y = pn.where(pn.tensor { 0, 0, 1, 0 }:gt(0):reshape { 4, 1, 1 }, 0 / 0, y)
    for k, encoder in ipairs { true, false } do
      local m, s = one_system(0.3, encoder and 40 or 100, encoder)
      local want, evidence = kalman.smooth(s, y), kalman.log_likelihood(s, y)
      local wide = y:broadcast_to({ 4, 1000, 2 }):contiguous()
      local got = m:smooth({ y = wide }, { draws = 10, generator = pn.generator(k) })
      local share = (got.log_evidence - evidence):exp() -- of which the estimates are without bias
      expect(1, share, 0.13, "evidence")
      local square = got.cov + got.mean:unsqueeze(-1) * got.mean:unsqueeze(-2)
      for t = 1, 4 do
        for i = 1, 2 do
          local mean = want.mean[t][1][i]:item()
          expect(mean, share * got.mean[t]:select(2, i), 0.15, "mean " .. t)
          expect(want.cov[t][1][i][1]:item() + mean * want.mean[t][1][1]:item(),
            share * square[t]:select(2, i):select(2, 1), 0.2, "square " .. t)
        end
      end
    end
  end)

  it("draws switches that follow the state backwards, with their z", function()
    pn.seed(4)
    local noise, steps, y = 0.2, 3, { 0.9, -0.6, 1.2 }
    local m = arsgls { size = 1, states = 1, switches = 1, auxiliary = 1, base = 3, hidden = { 4 },
      transition_hidden = 3, scaling = "none", floor = 0, num_particles = 40,
      emission = function(z) return pn.dist.normal(z, noise ^ 0.5) end, encoder = { 4, 5, 6 },
      scales = { state = { 0.3, 1 }, observation = { 0.4, 0.9 }, switch = { 0.5, 1.2 } } }
    for _, p in ipairs(m:parameters()) do p:set((p + pn.randn(p:shape()) * 0.4):detach()) end
    for _, part in ipairs { m.encoder.s, m.encoder.z } do -- wide, or the weights have no variance
      local weight, bias = table.unpack(part:parameters())
      weight:set(weight:detach() * 0.3)
      bias:set(pn.tensor { 0, 2 })
    end
    -- the model as it is defined, by draws of all of it: x_0, then switch and state in turn
    local function numbers(s)
      local logits, out = m.bases.net(s:unsqueeze(-1)):detach(), {}
      for g, names in ipairs(m.bases.groups) do
        local w = logits:slice(-1, 3 * g - 2, 3 * g):softmax(-1)
        for _, name in ipairs(names) do
          local x = m.bases.bases[name]:detach():reshape { 3 }
          local noisy = name == "q" or name == "r" or name == "s"
          out[name] = noisy and (w * (-x):exp()):sum(-1):square() or (w * x):sum(-1)
        end
      end
      return out
    end
    local count, g = 400000, pn.generator(6)
    local function draw() return pn.randn({ count }, { generator = g }) end
    local x = m.prior_mean:detach() + (-m.prior_log_inverse_scale:detach()):exp() * draw()
    local s, k, log_w, xs, ss = nil, nil, 0, {}, {}
    for t = 1, steps do
      if t == 1 then
        s = m.switch.loc:detach() + (-m.switch.log_inverse_scale:detach()):exp() * draw()
      else
        local offset = m.switch.offset.rest(m.switch.offset.s(s:unsqueeze(2))):detach():squeeze(2)
        s = k.f * x + offset + k.s:sqrt() * draw()
      end
      k = numbers(s)
      x = k.a * x + k.q:sqrt() * draw()
      log_w = log_w + pn.dist.normal(k.c * x, (k.r + noise):sqrt()):log_prob(y[t]) -- z is summed out
      xs[t], ss[t] = x, s
    end
    local log_evidence = (log_w:logsumexp() - math.log(count)):item()
    local w = (log_w - log_evidence):exp()
    local allowed = 6 * (w:var():item() / count) ^ 0.5
    assert.is_true(allowed < 0.03)
    local got = m:smooth({ y = pn.tensor(y):reshape({ steps, 1, 1 }):broadcast_to({ steps, 1500, 1 }):contiguous() },
      { draws = 30, generator = pn.generator(1) })
    local share = (got.log_evidence - log_evidence):exp()
    local function agree(value, estimate, what)
      local error = 6 * ((w * value):var():item() / count + (share * estimate):var():item() / 1500) ^ 0.5
      local apart = (w * value):mean():item() - (share * estimate):mean():item()
      assert(error < 0.12 and math.abs(apart) <= error, ("%s: %g apart, %g allowed"):format(what, apart, error))
    end
    agree(xs[1] * 0 + 1, share * 0 + 1, "evidence")
    for t = 1, steps do
      agree(xs[t], got.mean[t]:squeeze(2), "x_" .. t)
      agree(xs[t]:square(), (got.path_cov[t]:reshape { 30, 1500 } + got.path_mean[t]:squeeze(3):square()):mean(1),
        "x_" .. t .. " squared")
      agree(ss[t], got.s[t]:squeeze(3):mean(1), "s_" .. t)
      agree(xs[t] * ss[1], (got.path_mean[t]:squeeze(3) * got.s[1]:squeeze(3)):mean(1), "x_" .. t .. " and s_1")
    end
  end)

  it("refuses the recursion that does not count switches as observations", function()
    local m = arsgls { size = 1, states = 1, switches = 1, conditioning = "published", encoder = false }
    helper.refuses("smooth: needs conditioning = 'exact'", m.smooth, m, { y = pn.ones { 2, 1, 1 } })
    m = arsgls { size = 1, states = 1, switches = 1, conditioning = "published", encoder = false, recurrent = false }
    assert.same({ 2, 1, 1 }, m:smooth({ y = pn.ones { 2, 1, 1 } }, { draws = 3 }).mean:shape())
    helper.refuses("num_particles must be a whole number from 1 on, got 0", m.smooth, m, { y = pn.ones { 2, 1, 1 } },
      { num_particles = 0 })
  end)
end)
