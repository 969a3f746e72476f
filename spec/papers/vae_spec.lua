-- What the page of examples/papers/vae says, where it holds by construction.
local pn = require "penumbra"
local script = require "spec.papers.script"

describe("the claim of vae/mnist.lua", function()
  -- elbo <= bound of few draws <= bound of many, of every model, but for the draws' noise.
  for _, model in ipairs { "vae1", "iwae1", "vae2", "iwae2", "ladder2" } do
    it("for " .. model, function()
      local s, text = script.run("vae/mnist.lua --quick --pictures no --images 40 --epochs 2 --model " .. model)
      local bound, elbo = text:match "bound of 200 draws (%-%d+%.%d+) nats, elbo (%-%d+%.%d+)"
      s.option.quick, s.option.draws = false, 5
      local few, again, draws = s.test_bound(s.m, s.test)
      assert.equal(5, draws)
      assert(again < few and few < tonumber(bound) and math.abs(again - elbo) < 0.1 * math.abs(few - elbo) + 2)
    end)
  end

  -- variances over images of the means: 0.04, 0.0121, 0.0081, 0, and of the second level 0.0025, 1
  it("counts the units whose means vary by more than 0.01 over images", function()
    local s = script.run "vae/mnist.lua --quick --pictures no --images 10 --epochs 1"
    local sign = pn.tensor { { 1 }, { -1 }, { 1 }, { -1 } }
    local first = sign * pn.tensor { 0.2, 0.11, 0.09, 0 } + pn.tensor { 3, 0, 0, 7 }
    local second = sign * pn.tensor { 0.05, 1 }
    local function of(z) return s.active_units({ encode = function() return z end }) end
    assert.same({ 2 }, of(first))
    assert.same({ 2, 1 }, of { first, second })
    assert.same({ s.m:encode(s.test):var { 1 }:gt(0.01):sum():item() }, s.active_units(s.m, s.test))
  end)
end)
