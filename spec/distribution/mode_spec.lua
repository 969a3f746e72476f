--- Modes of distributions over numbers, at parameters about those where a mode moves to an end of the support: nowhere
--- is the density larger, and where it has no pole there the mode is inside the support.
local pn = require "penumbra"
local dist = pn.dist

local CASES = {
  beta = { { 1.5, 3 }, { 3, 1.5 }, { 1.2, 1.1 }, { 2, 2 }, { 7, 1.01 }, { 30, 40 } },
  gamma = { { 1.5, 2 }, { 1.01, 0.5 }, { 2, 1 }, { 9, 0.3 } },
  inverse_gamma = { { 0.5, 2 }, { 1.5, 2 }, { 4, 0.3 } },
  chi2 = { { 2.5 }, { 3 }, { 8 } },
  weibull = { { 2, 1.5 }, { 0.5, 1.1 }, { 3, 4 } },
  kumaraswamy = { { 1.5, 3 }, { 3, 1.5 }, { 1.2, 1.1 } },
  log_normal = { { 0.3, 0.5 }, { -2, 1.5 } },
  normal = { { -3, 0.2 } }, laplace = { { 1, 2 } }, cauchy = { { 1, 2 } }, gumbel = { { 1, 2 } },
  logistic = { { 1, 2 } },
  student_t = { { 0.7, 1, 2 }, { 3, -1, 0.5 } }, von_mises = { { 1, 0.4 }, { -2, 5 } },
}

describe("a mode", function()
  for name, cases in pairs(CASES) do
    it("of " .. name .. " is where the density is largest", function()
      local tried = 0
      for k, case in ipairs(cases) do
        local d = dist[name](table.unpack(case))
        local ok, mode = pcall(d.mode, d)
        if ok then
          tried = tried + 1
          local top = d:log_prob(mode):item()
          assert(top == top and top < math.huge, name)
          local beside = d:sample({ 4000 }, { generator = pn.generator(k) })
          local near = mode + (beside - mode) * 1e-3 -- as well as far away
          for _, x in ipairs { beside, near } do
            local most = d:log_prob(x):max():item()
            assert(most <= top + 1e-10, ("%s %d: %.12g above %.12g"):format(name, k, most, top))
          end
        end
      end
      assert(tried == #cases or tried == 0, name .. " has a mode at some parameters only")
      if name ~= "kumaraswamy" then assert(tried > 0, name .. " has no mode") end
    end)
  end

  it("of multinomial is among the likeliest ways to share, for all shares and numbers of trials of a batch", function()
    pn.seed(4)
    for n = 1, 4 do
      local probs = (pn.rand { 12, n } * 4 - 2):exp()
      local whole = pn.full({ n }, 1)
      local rows = { probs / probs:sum(-1, true), (whole / n):unsqueeze(1), pn.eye(n):slice(1, 1, 1) }
      if n > 2 then rows[4] = pn.tensor({ { 0.5, 0, 0.5, 0 } }):slice(2, 1, n) end
      probs = pn.concatenate(rows, 1)
      local trials = pn.arange(10):to "float64":unsqueeze(2)
      local mode = dist.multinomial(trials, probs):mode()
      for m = 0, 9 do
        local ways = {}
        local function share(way, left)
          if #way == n - 1 then
            way[n] = left
            ways[#ways + 1] = { table.unpack(way) }
            way[n] = nil
            return
          end
          for k = 0, left do
            way[#way + 1] = k
            share(way, left - k)
            way[#way] = nil
          end
        end
        share({}, m)
        for r = 1, probs:size(1) do
          local d, most = dist.multinomial(m, probs[{ r }]), mode:select(1, m + 1):select(1, r)
          assert.equal(m, most:sum():item())
          local top = d:log_prob(pn.tensor(ways)):max():item()
          assert(d:log_prob(most):item() >= top - 1e-11, ("%d trials, %d classes, row %d"):format(m, n, r))
        end
      end
    end
  end)

  it("of multinomial has all trials where shares sum to 1 but for their rounding", function()
    for _, off in ipairs { 9e-6, -9e-6 } do
      local probs = pn.tensor { 0.3, 0.25, 0.45 + off }
      for _, m in ipairs { 1e5, 1e6, 12345678 } do
        local mode = dist.multinomial(m, probs):mode()
        assert.equal(m, mode:sum():item())
        assert((mode - probs / (1 + off) * m):abs():max():item() < 1)
      end
    end
  end)
end)
