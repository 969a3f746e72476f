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
end)
