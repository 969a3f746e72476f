-- Bessel and polygamma functions of large orders: by their recurrences in the order and the argument.
local pn = require "penumbra"

describe("functions of an order that is no small number", function()
  it("goes over from sums to expansions without a step", function()
    local x = pn.tensor { 900.0, 5000, 1e5 }
    for _, n in ipairs { 999, 1000, 1001, 1002 } do
      local low, mid, high = x:ive(n - 1), x:ive(n), x:ive(n + 1)
      local r = (low - high - mid * (2 * n) / x) / low -- I_(n-1) - I_(n+1) = 2 n / x I_n
      assert.is_true(r:abs():max():item() < 1e-11)
    end
    assert.equal(0, pn.tensor { 5.0 }:ive(2000000000):item())
    local far, n = 1e12, 2000000 -- e^-x I_n(x) ~ e^(-n^2 / (2 x)) / sqrt(2 pi x)
    assert.near(1, pn.tensor { far }:ive(n):item() * math.sqrt(2 * math.pi * far) / math.exp(-n ^ 2 / (2 * far)), 1e-5)
    for _, order in ipairs { 1000, 1001, 1002 } do -- psi_n(x + 1) - psi_n(x) = (-1)^n n! / x^(n + 1)
      local at = order / math.exp(1)
      local d = pn.tensor { at + 1.0 }:polygamma(order):item() - pn.tensor { at }:polygamma(order):item()
      local log_size = pn.tensor { order + 1.0 }:lgamma():item() - (order + 1) * math.log(at)
      assert.near(1, d / ((order % 2 == 0 and 1 or -1) * math.exp(log_size)), 1e-9)
    end
  end)
end)
