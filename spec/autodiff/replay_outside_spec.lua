-- Densities of values outside of the support: a plan that was captured on values inside gives what an eager call gives
-- on others, -inf, NaN and no gradient, whatever the batch.
local pn = require "penumbra"
local case = require "spec.autodiff.replay_case"

local dist = pn.dist
local rows = {
  { "exponential", { rate = 2 }, -1 },
  { "gamma", { concentration = 1.5, rate = 2 }, -1 },
  { "half_cauchy", { scale = 2 }, -1 },
  { "beta", { concentration1 = 1.5, concentration0 = 2 }, 2 },
  { "uniform", { low = 0, high = 1 }, 2 },
  { "poisson", { rate = 2 }, -1 },
  { "dirichlet", { concentration = { 1.5, 2, 3 } }, 2 },
  { "multivariate_normal", { loc = { 0, 1, 2 }, scale_tril = { { 1, 0, 0 }, { 0.5, 2, 0 }, { 0.1, 0.2, 1 } } },
    math.huge },
  { "one_hot_categorical", { logits = { 0.1, 0.2, -1 } }, 2 },
  { "wishart", { df = 5, scale_tril = { { 1, 0 }, { 0.5, 2 } } }, -9 },
}

local function made(name, parameters, tracked)
  local t, leaves = {}, {}
  for key, v in pairs(parameters) do
    t[key] = tracked and pn.param(pn.tensor(v)) or pn.tensor(v)
    leaves[#leaves + 1] = t[key]
  end
  return dist[name](t), leaves
end

-- x with all numbers of item k replaced by v.
local function with(x, k, v)
  local mask = pn.zeros(x:shape())
  local size = x:shape()
  local pick = pn.arange(size[1]):eq(k - 1)
  for _ = 2, #size do
    pick = pick:unsqueeze(-1)
  end
  return pn.where(pick, mask + v, x:to "float64"):to(x:dtype())
end

describe("a replay outside of the support", function()
  for _, row in ipairs(rows) do
    local name, parameters, bad = table.unpack(row)
    it("is the eager call of " .. name, function()
      pn.seed(1)
      for _, n in ipairs { 1, 5, 700 } do
        local d = made(name, parameters)
        local x = d:sample { n }
        local plan = pn.compile(function(t)
          return d:log_prob(t)
        end)
        local e, leaves = made(name, parameters, true)
        local slopes = pn.compile(function(t)
          return table.unpack(pn.grad(e:log_prob(t):sum(), leaves))
        end)
        plan(x)
        slopes(x)
        for _, k in ipairs { 1, (n + 1) // 2, n } do
          for _, v in ipairs { bad, x:dtype() ~= "int64" and 0 / 0 or bad } do
            local y = with(x, k, v)
            local want = d:log_prob(y)
            case.same(plan(y), want, name)
            local lp = want:totable()[k]
            assert(v ~= v and lp ~= lp or lp == -math.huge, name)
            local got = { slopes(y) }
            for i, g in ipairs(pn.grad(e:log_prob(y):sum(), leaves)) do
              case.near(got[i], g, name .. ", slope")
              if n == 1 and v == v then
                assert.equal(0, g:abs():max():item())
              end
            end
          end
        end
        assert.equal(1, plan:captures())
      end
    end)
  end
end)
