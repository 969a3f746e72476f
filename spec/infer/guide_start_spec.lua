--- Guides as they begin: the spread that they are given, their bounds by a loop over the same draws, gradients of these
--- against differences, the terms of draws for estimators of weights.
local pn = require "penumbra"
local helper = require "spec.helper"
local near, close = helper.near, helper.close
local dist = pn.dist

local x = pn.tensor { { 1, 0.5 }, { -0.3, 2 }, { 0.7, -1 } }
local model = pn.model(function(m)
  local w = m:sample("w", dist.normal(pn.tensor { 0.5, -1 }, pn.tensor { 1, 2 }):independent(1))
  local s = m:sample("s", dist.gamma(3, 2))
  m:plate("rows", 3, function() m:observe("y", dist.normal(x:matmul(w), s), pn.tensor { 1, -2, 0.5 }) end)
end)

local function begun(name, options, more)
  pn.seed(2)
  local o = { steps = 0, draws = 3, compile = false }
  for key, value in pairs(more or {}) do o[key] = value end
  local fit = pn.svi(model, pn.infer.guide(name, options), o)
  return fit, fit.guide
end

local plans = { { "mean_field", { scale = 0.3 } }, { "full_rank", { scale = 0.3 } }, { "low_rank", { scale = 0.3,
  rank = 2 } }, { "flow", { scale = 0.3, flows = 2, hidden = { 4 } } } }

describe("a guide at its start", function()
  it("has the spread that it was given", function()
    local init = { w = { 0.2, 0.4 }, s = 1 }
    local eye = pn.eye(3)
    for _, scale in ipairs { 0.1, 0.6 } do
      local function law(name, more)
        local o = { scale = scale, init = init }
        for key, value in pairs(more or {}) do o[key] = value end
        local _, guide = begun(name, o)
        return guide:law(), guide
      end
      local q = law "mean_field"
      close(q:mean(), pn.tensor { 0.2, 0.4, q:mean()[3]:item() }, 1e-12)
      close(q:variance(), pn.full({ 3 }, scale ^ 2), 1e-12)
      close(law("full_rank").scale_tril, eye * scale, 1e-12)
      local low, guide = law("low_rank", { rank = 2 })
      local factor = guide.params[2][2]
      assert.same({ 3, 2 }, factor:shape())
      close(low.cov_factor, factor, 0)
      close(low.cov_diag, pn.full({ 3 }, scale ^ 2), 1e-12)
      close(law("flow", { flows = 0 }):rsample({ 4000 }):std(1), pn.full({ 3 }, scale), scale * 6 / 8000 ^ 0.5)
    end
    -- the factor's rows have the scale's square as their expected square; sqrt(n) columns unless given
    local n = 400
    local wide = pn.model(function(m) m:sample("a", dist.normal(pn.zeros { n }, 1):independent(1)) end)
    pn.seed(3)
    local factor = pn.svi(wide, pn.infer.guide("low_rank", { scale = 0.5 }), { steps = 0 }).guide.params[2][2]
    assert.same({ n, 20 }, factor:shape())
    assert(math.abs(factor:square():sum(2):mean():item() / 0.25 - 1) < 6 * (2 / (20 * n)) ^ 0.5)
    local _, flow = begun("flow", { flows = 3, hidden = { 4 } })
    assert.equal(6, #flow.parts)
    close(flow.parts[2]:forward(pn.tensor { 1, 2, 3 }), pn.tensor { 3, 2, 1 }, 0)
    local names = {}
    for _, entry in ipairs(flow:named_parameters()) do names[entry[1]:match "^guide%.flow%.%d" or entry[1]] = true end
    for _, name in ipairs { "guide.loc", "guide.log_scale", "guide.flow.1", "guide.flow.2", "guide.flow.3" } do
      assert.is_true(names[name], name)
    end
  end)

  it("has the bound of a loop over the same draws, whose gradient is that of differences", function()
    for _, plan in ipairs(plans) do
      local fit, guide = begun(plan[1], plan[2])
      local state = pn.rng_state()
      fit:continue(1)
      local fresh = select(2, begun(plan[1], plan[2]))
      pn.set_rng_state(state)
      local q, sum = fresh:law(), 0
      for _ = 1, 3 do
        local z, lq = q:rsample_log_prob()
        sum = sum + fresh.target:log_density(z):item() - (plan[1] == "flow" and lq:item() or 0)
      end
      near(-fit.losses[1], sum / 3 + (plan[1] == "flow" and 0 or q:entropy():item()), 1e-9)
      local list = {}
      for k, entry in ipairs(guide:named_parameters()) do list[k] = entry[2] end
      assert.is_true(pn.check_gradients(function()
        pn.seed(5)
        return guide:bound(2)
      end, list).error < 1e-5, plan[1])
    end
  end)

  it("of a point has the density there, with and without the bijector's part", function()
    for name, jacobian in pairs { delta = false, laplace = true } do
      local fit, guide = begun(name, { init = { w = { 0.3, -0.2 }, s = 1.7 } })
      local w = guide:named_parameters()[1][2]
      near(guide:bound(1):item(), fit.guide.target:log_density(w:detach(), jacobian):item())
      local b, z = dist.biject_to(dist.gamma(3, 2)), w:detach() -- (laplace is at the mode already)
      local v, scale = z:slice(1, 1, 2), b:forward(z[3])
      local want = dist.normal(pn.tensor { 0.5, -1 }, pn.tensor { 1, 2 }):log_prob(v):sum():item()
        + dist.gamma(3, 2):log_prob(scale):item() + dist.normal(x:matmul(v), scale):log_prob(pn.tensor { 1, -2, 0.5 })
          :sum():item()
      near(guide:bound(1):item(), want + (jacobian and select(2, b:forward_log_det(z[3])):item() or 0), 1e-9)
      assert.is_true(pn.check_gradients(function() return guide:bound(1) end, { w }).error < 1e-6)
    end
  end)

  it("has terms for estimators of weights: of each draw, and of the same draws held fixed", function()
    for k = 1, 3 do
      local _, guide = begun(plans[k][1], plans[k][2])
      local list = {}
      for i, entry in ipairs(guide:named_parameters()) do list[i] = entry[2] end
      pn.seed(7)
      local t = guide:densities(4, "weighted")
      pn.seed(7)
      local z = guide:law():rsample { 4 }
      for i = 1, 4 do
        near(t.log_p[i][1]:item(), guide.target:log_density(z[i]):item(), 1e-9)
        near(t.fixed_p[i][1]:item(), guide.target:log_density(z[i]):item(), 1e-9)
        near(t.log_q[i][1]:item(), guide:law():log_prob(z[i]):item(), 1e-9)
        near(t.fixed_q[i][1]:item(), guide:law():log_prob(z[i]):item(), 1e-9)
      end
      assert.is_false(t.fixed_p:requires_grad())
      for i, g in ipairs(pn.grad(t.fixed_q:sum(), list)) do
        local want = pn.grad(guide:law():log_prob(z:detach()):sum(), list)[i]
        close(g, want, 1e-9 * (1 + want:abs():max():item()))
      end
      for _, name in ipairs { "log_p", "log_q" } do
        pn.seed(7)
        assert.is_true(pn.check_gradients(function()
          pn.seed(7)
          return guide:densities(2)[name]
        end, list).error < 1e-5, name)
      end
      local log_w, at = guide:log_weights(5)
      assert.is_false(log_w:requires_grad() or at:requires_grad())
      for i = 1, 5 do
        near(log_w[i][1]:item(), guide.target:log_density(at[i]):item() - guide:law():log_prob(at[i]):item(), 1e-9)
      end
      pn.seed(7)
      local path = guide:densities(4, "alone")
      assert.is_nil(path.fixed_p)
      close(path.fixed_q, t.fixed_q, 1e-12)
      pn.seed(7)
      assert.is_nil(guide:densities(4).fixed_q)
    end
  end)
end)
