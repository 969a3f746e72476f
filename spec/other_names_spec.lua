--- The page of other libraries' names (spec/other_names.lua): it is what the script writes, its places lead somewhere,
--- and recipes have the densities that their names promise.
local pn = require "penumbra"
local other_names = require "spec.other_names"
local dist = pn.dist

describe("names of other libraries", function()
  it("stand on the page that the script writes", function()
    local file = assert(io.open "examples/manual/other_names.md")
    local text = file:read "a"
    file:close()
    assert.equal(other_names.page(), text)
  end)

  it("lead somewhere, and all that are given by hand are names of a list", function()
    local lists, left = other_names.lists()
    assert.is_nil(left)
    for _, list in ipairs(lists) do
      assert.is_true(list.there > 0 and list.there < #list.rows)
      for _, row in ipairs(list.rows) do
        for place in (row.place or ""):gmatch "%f[%w_.]pn%.[%w_.]+" do
          assert(other_names.find(place) ~= nil, row.name .. ": " .. place)
        end
      end
    end
  end)

  -- recipes of one number, as they stand in the list, against formulas
  local x = 1.7
  local formulas = {
    stan = {
      frechet = { { alpha = 2.5, sigma = 1.3 }, function(y)
        return 2.5 / 1.3 * (y / 1.3) ^ -3.5 * math.exp(-(y / 1.3) ^ -2.5)
      end },
      inv_chi_square = { { nu = 4 }, function(y) return 2 ^ -2 * y ^ -3 * math.exp(-0.5 / y) end },
      scaled_inv_chi_square = { { nu = 4, sigma = 1.5 }, function(y)
        return (2 * 1.5 ^ 2) ^ 2 * y ^ -3 * math.exp(-2 * 1.5 ^ 2 / y)
      end },
      loglogistic = { { alpha = 1.2, beta = 3 }, function(y)
        return 3 / 1.2 * (y / 1.2) ^ 2 / (1 + (y / 1.2) ^ 3) ^ 2
      end },
      pareto_type_2 = { { mu = 0.5, lambda = 2, alpha = 3 }, function(y) return 3 / 2 * (1 + (y - 0.5) / 2) ^ -4 end },
      rayleigh = { { sigma = 1.3 }, function(y) return y / 1.69 * math.exp(-y * y / 3.38) end },
      double_exponential = { { mu = 0.5, sigma = 2 }, function(y) return math.exp(-math.abs(y - 0.5) / 2) / 4 end },
      neg_binomial_2 = { { mu = 3, phi = 2 }, function() return 3 * (2 / 5) ^ 2 * (3 / 5) ^ 2 end, at = 2 },
      neg_binomial_2_log = { { eta = math.log(3), phi = 2 }, function() return 3 * 4 / 25 * 9 / 25 end, at = 2 },
      neg_binomial = { { alpha = 2, beta = 0.5 }, function() return 3 * (1 / 3) ^ 2 * (2 / 3) ^ 2 end, at = 2 },
    },
    torch_distributions = {
      GeneralizedPareto = { { sigma = 2, xi = 0.4, loc = 0.5 }, function(y)
        return (1 + 0.4 * (y - 0.5) / 2) ^ (-1 / 0.4 - 1) / 2
      end },
    },
  }

  it("have the values of the modules that they stand for", function()
    local golden, tried = dofile "spec/golden/nn/recipes.lua", 0
    for line in io.lines "spec/other_names/places.txt" do
      local list, name, place = line:match "^(%S+) (%S+) = (.+)$"
      local case = list == "torch_modules" and golden[name]
      if case then
        local env = { pn = pn }
        for key, v in pairs(case[1]) do
          env[key] = type(v) == "table" and pn.tensor(v, { dtype = key == "labels" and "int64" or nil }) or v
        end
        local got, want = assert(load("return " .. place, name, "t", env))(), pn.tensor(case[2])
        assert.same(want:shape(), got:shape())
        assert((got - want):abs():max():item() < 1e-13, name)
        tried = tried + 1
      end
    end
    assert.equal(16, tried)
  end)

  it("have the densities that they promise", function()
    local tried = 0
    for line in io.lines "spec/other_names/places.txt" do
      local list, name, place = line:match "^(%S+) (%S+) = (.+)$"
      local case = list and formulas[list] and formulas[list][name]
      if case then
        local env = { pn = pn }
        for key, v in pairs(case[1]) do env[key] = pn.tensor(v) end
        local d = assert(load("return " .. place:gsub(" for xi > 0", ""), name, "t", env))()
        local at = case.at or x
        local got, want = d:log_prob(pn.tensor(at)):exp():item(), case[2](at)
        assert(math.abs(got - want) < 1e-12, ("%s: %.15g, %.15g"):format(name, got, want))
        tried = tried + 1
      end
    end
    assert.equal(11, tried)
    local d = dist.beta(pn.tensor(0.3) * 5, (1 - 0.3) * 5) -- beta_proportion: its mean and concentration
    assert(math.abs(d:mean():item() - 0.3) < 1e-12 and math.abs(d:variance():item() - 0.3 * 0.7 / 6) < 1e-12)
  end)
end)
