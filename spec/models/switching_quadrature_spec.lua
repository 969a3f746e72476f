-- Switching systems with bases that differ, covariates in every place and an encoder, in one dimension: the evidence,
-- the filtered state and the forecast of two steps by quadrature over both switches, the matrices averaged here anew
-- from the bases. Replicates are the series of a batch; an estimate is weighed with its unbiased evidence.
local pn = require "penumbra"

local dist = pn.dist
local Y, U = { 0.4, -0.7 }, { { 0.8, -0.5 }, { -0.3, 1.1 } }
local POINTS, REACH = 301, 9

-- The mean of x is `want`, and 6 standard errors are less than `narrow`.
local function expect(want, x, narrow, what)
  local mean, allowed = x:mean():item(), 6 * (x:var():item() / x:numel()) ^ 0.5
  assert.is_true(allowed < narrow, ("%s: 6 standard errors are %g"):format(what, allowed))
  assert.is_true(math.abs(mean - want) <= allowed, ("%s: %.6f is not within %.6f of %.6f"):format(what, mean, allowed,
    want))
end

local averages = {
  scales = function(w, lambda) return (w * (-lambda):exp()):sum(-1):square() end,
  variances = function(w, lambda) return (w * (lambda * -2):exp()):sum(-1) end,
  log_scales = function(w, lambda) return ((w * lambda):sum(-1) * -2):exp() end,
}

-- The numbers a, b u, c, d u, q, r, f, s at switches s [...]; u a list of two numbers.
local function system(m, o, s, u)
  local logits, out = m.bases.net(s:unsqueeze(-1)), {}
  for g, names in ipairs(m.bases.groups) do
    local w = logits:slice(-1, 3 * g - 2, 3 * g):exp()
    w = w / w:sum(-1, true)
    for _, name in ipairs(names) do
      local x = m.bases.bases[name]:detach() * (o.scaling_of_bases or 1)
      if name == "q" or name == "r" or name == "s" then
        out[name] = averages[o.average or "scales"](w, x:reshape { 3 })
      elseif name == "b" or name == "d" then
        out[name] = (w * x:reshape({ 3, 2 }):matmul(pn.tensor(u))):sum(-1)
      else
        out[name] = (w * x:reshape { 3 }):sum(-1)
      end
    end
  end
  out.a, out.c = out.a or 1, out.c or 1 -- (of a level alone)
  out.b, out.d = out.b or 0, out.d or 0 -- (without covariates)
  return out
end

-- Mean and variance of x after x -> a x + b + N(0, q), and after y = c x + d + N(0, r) was seen: the log density, too.
local function predicted(mean, var, k) return mean * k.a + k.b, var * k.a * k.a + k.q end
local function updated(mean, var, k, y)
  local s, off = var * k.c * k.c + k.r, -(mean * k.c + k.d - y)
  local gain = var * k.c / s
  return mean + gain * off, var - gain * k.c * var, (off:square() / s + s:log() + math.log(2 * math.pi)) * -0.5
end

-- Weights of the trapezium rule for the law N(loc, sd^2), and its points, along `axis` of two.
local function grid(loc, sd)
  local z = pn.linspace(-REACH, REACH, POINTS)
  return loc + sd * z, dist.normal(0, 1):log_prob(z) + math.log(2 * REACH / (POINTS - 1))
end

-- Log evidence of one and of two steps, mean and mean square of x_2 and of an observation like y_2 after both, mean of
-- y_2 after y_1.
local function exact(m, o)
  local s1, log_w
  if o.covariates > 0 then
    local first = m.switch.first(pn.tensor(U[1])):detach()
    s1, log_w = grid(first[1]:item(), (1 + first[2]:exp()):log():item())
  else
    s1, log_w = grid(m.switch.loc:item(), math.exp(-m.switch.log_inverse_scale:item()))
  end
  s1, log_w = s1:unsqueeze(2), log_w:unsqueeze(2)
  local k1 = system(m, o, s1, U[1])
  local mean, var = predicted(m.prior_mean:detach(), (m.prior_log_inverse_scale:detach() * -2):exp(), k1)
  local log_p
  mean, var, log_p = updated(mean, var, k1, Y[1])
  log_w = log_w + log_p
  local one = log_w:logsumexp():item()
  local of_u = o.covariates > 0 and m.switch.offset.u(pn.tensor(U[2])):unsqueeze(1) or 0
  local offset = m.switch.offset.rest(m.switch.offset.s(s1) + of_u):detach()
  local loc, spread = offset, k1.s
  if k1.f then loc, spread = loc + k1.f * mean, spread + k1.f * k1.f * var end
  local s2, log_w2 = grid(loc, spread:sqrt())
  log_w = log_w + log_w2
  if k1.f then -- what s_2 says of x_1
    local gain = var * k1.f / spread
    mean, var = mean + gain * (s2 - loc), var - gain * k1.f * var
  end
  local k2 = system(m, o, s2, U[2])
  mean, var = predicted(mean, var, k2)
  local forecast = ((log_w - one):exp() * (k2.c * mean + k2.d)):sum():item()
  local after = table.pack(updated(mean, var, k2, Y[2]))
  mean, var, log_w = after[1], after[2], log_w + after[3]
  local two = log_w:logsumexp():item()
  local w = (log_w - two):exp()
  return { one = one, two = two, forecast = forecast, mean = (w * mean):sum():item(),
    like = (w * (k2.c * mean + k2.d)):sum():item(),
    square = (w * (var + mean:square())):sum():item(),
    like_square = (w * (k2.c * k2.c * var + k2.r + (k2.c * mean + k2.d):square())):sum():item() }
end

local function series(o, steps, size)
  local y, u = pn.tensor(Y):reshape { 2, 1, 1 }, pn.tensor(U):reshape { 2, 1, 2 }
  return { y = y:slice(1, 1, steps):broadcast_to({ steps, size, 1 }):contiguous(),
    inputs = o.covariates > 0 and u:slice(1, 1, steps):broadcast_to({ steps, size, 2 }):contiguous() or nil }
end

local function made(name, more)
  local o = { switches = 1, base = 3, hidden = { 4 }, transition_hidden = 3, num_particles = 40, covariates = 2,
    features = 0, scaling = "none", floor = 0, controls = { "b", "d" }, encoder = false,
    scales = { state = { 0.3, 1 }, observation = { 0.4, 0.9 }, switch = { 0.5, 1.2 } } }
  o.states = name ~= "rsgls_issm" and 1 or nil
  for key, value in pairs(more) do o[key] = value end
  if name == "rsgls_issm" and o.encoder == false then o.encoder = nil end
  pn.seed(11)
  local m = pn.models[name](o)
  for _, p in ipairs(m:parameters()) do -- away from zeros and from one another
    p:set((p + pn.randn(p:shape()) * 0.4):detach())
  end
  if o.covariates == 0 then m.switch.log_inverse_scale:set(pn.tensor { 0.9 }) end
  if m.encoder then -- wide, or weights have no variance: what it says makes proposals narrower than the law
    local weight, bias = table.unpack(m.encoder.s:parameters())
    weight:set(weight:detach() * 0.3)
    bias:set(pn.tensor { 0.8, 2 })
  end
  return m, o
end

describe("a switching system whose bases differ", function()
  for _, case in ipairs {
    { "sgls", {} }, { "sgls", { average = "variances", sharing = "all", encoder = { 4 } } },
    { "rsgls", {} }, { "rsgls", { average = "log_scales", sharing = "none", encoder = { 4 } } },
    { "rsgls", { average = "variances", encoder = { 4, 3 }, scaling_of_bases = 1.5 } },
    { "rsgls_issm", { encoder = { 4 } } }, { "rsgls", { covariates = 0, encoder = { 4 } } },
  } do
    local name, more = case[1], case[2]
    it(("has the evidence and the state of quadrature: %s, %s, %s, %s"):format(name, more.average or "scales",
      more.sharing or "system", more.encoder and "by its encoder" or "by its law"), function()
      local m, o = made(name, more)
      local want, size = pn.no_grad(exact, m, o), 3000
      pn.no_grad(function()
        local e = m:log_evidence(series(o, 2, size), { generator = pn.generator(3) })
        expect(1, (e - want.two):exp(), 0.06, "evidence")
        local b = m:filter(series(o, 2, size), { generator = pn.generator(4) })
        local share = (b.state.log_evidence - want.two):exp()
        expect(0, share * (m:moments(b):squeeze(-1) - want.mean), 0.06, "filtered mean")
        local along = m:filtered(series(o, 2, size), { generator = pn.generator(4) })
        share = (along.increments:sum(1) - want.two):exp()
        expect(0, share * (along.state_mean[2]:squeeze(-1) - want.mean), 0.06, "filtered along the way")
        expect(0, share * (along.mean[2]:squeeze(-1) - want.like), 0.1, "an observation like the last")
        local function squares(what)
          local x = along[what .. "mean"][2]:square() + along[what .. "variance"][2]
          return share * (x:squeeze(-1) - want[what == "" and "like_square" or "square"])
        end
        expect(0, squares "state_", 0.1, "mean square of the state along the way")
        expect(0, squares "", 0.2, "mean square of an observation like the last")
        b = m:filter(series(o, 1, size), { generator = pn.generator(5) })
        local u = o.covariates > 0 and pn.tensor { U[2] }:broadcast_to({ size, 2 }):contiguous() or nil
        local after = b:update(pn.full({ size, 1 }, Y[2]), u)
        share = (after.state.log_evidence - want.two):exp()
        expect(1, share, 0.06, "evidence of a belief that goes on")
        expect(0, share * (m:moments(after):squeeze(-1) - want.mean), 0.06, "mean of a belief that goes on")
        share = (b.state.log_evidence - want.one):exp()
        u = u and u:unsqueeze(1)
        for _, mode in ipairs { "ancestral", "marginal" } do
          local y = m:forecast(b, 1, { draws = 20, inputs = u, mode = mode, generator = pn.generator(6) })
          expect(0, share * (y:mean(1):reshape { size } - want.forecast), 0.15, mode .. " forecast")
        end
      end)
    end)
  end
end)
