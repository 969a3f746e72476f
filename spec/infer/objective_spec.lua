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

describe("elbo of other forms", function()
  local ll = pn.tensor { { -1.0, -2.0, -3.0 }, { -1.5, -2.5, 0 } }
  local kl = pn.tensor { 0.5, 0.25, 1 }

  it("agree where the divergence and the entropy are those of the draws", function()
    local log_prior, log_q = pn.randn { 2, 3 }, pn.randn { 2, 3 }
    local want = infer.elbo(ll + log_prior, log_q):item()
    near(infer.elbo({ log_likelihood = ll, kl = log_q - log_prior }):item(), want)
    near(infer.elbo({ log_joint = ll + log_prior, entropy = -log_q }):item(), want)
  end)

  it("keep the bound as value while beta and free bits change the gradient", function()
    local k = pn.param(kl)
    local y = infer.elbo({ log_likelihood = ll, kl = k, beta = 0.1 })
    near(y:item(), ll:mean():item() - kl:mean():item())
    for _, g in ipairs(pn.grad(y, { k })[1]:totable()) do near(g, -0.1 / 3) end
    local beta = pn.tensor(0.5)
    local step = pn.compile(function(b)
      return pn.grad(infer.elbo({ log_likelihood = ll, kl = k, beta = b }), { k })[1]
    end)
    step(beta)
    near(step(pn.tensor(0.2)):totable()[2], -0.2 / 3)
  end)

  it("refuse what does not say how the terms count", function()
    local function refused(text, ...) assert.matches(text, message_of(infer.elbo, ...)) end
    refused("elbo: write elbo{log_likelihood = ll, kl = kl, num_data = N}, elbo{log_joint", { log_likelihood = ll })
    refused("elbo: write elbo{log_likelihood", { log_p = ll, log_q = ll, kl = 1 })
    refused("elbo: write elbo{log_likelihood", {})
    refused("elbo: log_q must be a tensor, got number", ll, 3)
    refused("beta, free_bits and num_data need the form with log_likelihood and kl",
      { log_p = ll, log_q = ll, beta = 1 })
    refused("kl must be %[B%], or %[K, B%] like log_likelihood, without num_data, got shape %[2%]",
      { log_likelihood = ll, kl = pn.ones { 2 } })
    refused("kl must be %[B, D%], a divergence per dimension, for free bits, got shape %[3%]",
      { log_likelihood = ll, kl = kl, free_bits = 1 })
    refused("kl must be %[B, D%], a divergence per dimension, for free bits, got shape %[1%]",
      { log_likelihood = ll, kl = pn.ones { 1 }, free_bits = 1 })
    near(infer.elbo { log_likelihood = pn.tensor { -2 }, kl = pn.tensor { 0.5 } }:item(), -2.5) -- a batch of one
    refused("groups must divide the dimensions of kl, got shape %[3, 4%]",
      { log_likelihood = ll, kl = pn.ones { 3, 4 }, free_bits = 1, groups = 3 })
    refused("beta must have one element, got shape %[3%]", { log_likelihood = ll, kl = kl, beta = kl })
    refused("num_data is required", { log_likelihood = ll, kl = kl:sum() })
    refused("kl must be below %+inf, got inf at element 2", { log_likelihood = ll, kl = pn.tensor { 0, math.huge, 1 } })
    assert.matches("map: num_data is required", message_of(infer.map, { log_likelihood = kl, log_prior = -1 }))
    assert.matches("map: log_prior must have one element", message_of(infer.map,
      { log_likelihood = kl, log_prior = kl, num_data = 3 }))
    assert.matches("map: num_data must be at least the minibatch's size 3, got 2", message_of(infer.map,
      { log_likelihood = kl, log_prior = -1, num_data = 2 }))
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
