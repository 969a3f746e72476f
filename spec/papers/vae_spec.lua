-- What the page of examples/papers/vae says, where it holds by construction.
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
end)
