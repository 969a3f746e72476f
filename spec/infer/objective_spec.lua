-- Objectives against sums written out by hand.
local pn = require "penumbra"
local infer = pn.infer

local function near(got, want)
  assert(math.abs(got - want) < 1e-12 * math.max(1, math.abs(want)), ("got %.15g, want %.15g"):format(got, want))
end

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

describe("elbo of a minibatch", function()
  local ll = pn.tensor { -1.0, -2.0, -3.0 }

  it("scales the likelihood to the data set and counts the divergence once", function()
    near(infer.elbo({ log_likelihood = ll, kl = 5, num_data = 30 }):item(), -6 * 10 - 5)
    near(infer.elbo({ log_likelihood = ll, kl = pn.tensor(5), num_data = 3 }):item(), -11)
    near(infer.elbo({ log_likelihood = ll, kl = pn.tensor { 5.0 }, num_data = 3 }):item(), -11)
  end)

  it("takes the mean over draws, the sum over data", function()
    local draws = pn.stack({ ll, ll * 3 }, 1)
    near(infer.elbo({ log_likelihood = draws, kl = 1, num_data = 6 }):item(), (-6 - 18) / 2 * 2 - 1)
  end)

  it("asks for N", function()
    assert.matches("objective_spec.lua:%d+: elbo: num_data is required: the number N of data",
      message_of(infer.elbo, { log_likelihood = ll, kl = 1 }))
  end)

  it("refuses an N below the minibatch, a sum in place of likelihoods, a divergence per weight", function()
    assert.matches("num_data must be at least the minibatch's size 3, got 2",
      message_of(infer.elbo, { log_likelihood = ll, kl = 1, num_data = 2 }))
    assert.matches("log_likelihood must have 1 to 2 axes",
      message_of(infer.elbo, { log_likelihood = ll:sum(), kl = 1, num_data = 3 }))
    assert.matches("kl must have one element", message_of(infer.elbo, { log_likelihood = ll, kl = ll, num_data = 3 }))
    assert.matches("unknown option 'kll', did you mean 'kl'",
      message_of(infer.elbo, { log_likelihood = ll, kll = 1, num_data = 3 }))
  end)
end)

describe("bounds of log-weights", function()
  local log_w = pn.tensor { { -1.0, 0.5 }, { -2.0, 0.25 }, { 0.75, -3.0 } }

  it("elbo is the mean", function()
    near(infer.elbo(log_w, log_w * 0):item(), (-1 + 0.5 - 2 + 0.25 + 0.75 - 3) / 6)
  end)

  it("iwae is the mean over data of the log of the mean weight", function()
    local a = math.log((math.exp(-1) + math.exp(-2) + math.exp(0.75)) / 3)
    local b = math.log((math.exp(0.5) + math.exp(0.25) + math.exp(-3)) / 3)
    near(infer.iwae(log_w):item(), (a + b) / 2)
  end)

  it("one draw is the elbo; more are never below it; -inf among the weights is a weight of 0", function()
    local one = log_w[{ { 1, 1 } }]
    near(infer.iwae(one):item(), infer.elbo(one, one * 0):item())
    assert.is_true(infer.iwae(log_w):item() >= infer.elbo(log_w, log_w * 0):item())
    local dead = pn.tensor { { 0.0 }, { -math.huge } }
    near(infer.iwae(dead):item(), -math.log(2))
  end)
end)
