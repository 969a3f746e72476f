-- What the page of examples/papers/lenet says, where it holds by construction.
local pn = require "penumbra"
local near = require("spec.helper").near
local script = require "spec.papers.script"

-- One network by four methods: where no weight has a variance all give what the deterministic one gives.
describe("the claim of lenet/", function()
  it("mnist.lua", function()
    local s, text = script.run "lenet/mnist.lua --quick --method moments"
    assert.matches("moments: test error %d+%.%d+ %%, log%-likelihood %-", text)
    local x, y, want, given = s.test_x:slice(1, 1, 20), s.test_y:slice(1, 1, 20), nil, nil
    for _, method in ipairs { "deterministic", "local", "moments", "clt" } do
      s.option.method = method
      local net = s.new_network()
      local weights = net.net and net.net:named_parameters() or net:named_parameters()
      given = given or weights
      for k, entry in ipairs(weights) do entry[2]:set(given[k][2]:detach()) end
      for _, scale in pairs(net.log_scale or {}) do scale:set(pn.full(scale:shape(), -30, { dtype = "float32" })) end
      local p = s.predict(net, x, 3, pn.generator(1))
      local ll = pn.no_grad(function() return s.log_likelihood(net, x, y):mean():item() end)
      want = want or { p, ll }
      assert((want[1] - p):abs():max():item() < 1e-5, method)
      near(want[2], ll, 1e-4)
    end
  end)
end)
