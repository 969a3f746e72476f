--- Ways to train one network, a row each, so that they can stand side by side: the same layers, priors, start, data and
--- schedule. A new one is a row here, or a table with these fields that a script gives as `method`:
---
---   doc            one line
---   gates          the rule by which activations of straight pieces pass moments: "identity_heaviside", "clt", or nil
---   closed         are the moments of predictions closed, with no draws?
---   make(net, o)             what is trained, from a network of certain parameters that has its start
---   outputs(net, x, o, generator)           mean and variance of the outputs in training; variance nil: mean is a draw
---   moments(net, x, o, count, generator)    the same for predictions, of `count` draws where they are not closed
---   draws(net, x, o, count, generator)      draws of the outputs, [count, N, out]
---   kl(net, o)     what the bound subtracts: the divergence from the prior, or -log p of a point, 0-d
---   loss(log_likelihood, kl, num_data, o)   what is minimised; absent: kl / num_data less the mean of the
---                                           log-likelihoods
---   after_epoch()  absent, or called after each epoch of a fit
---   likelihood     a head of its own, in the place of the learner's
---
--- o: the learner's options, and {weights = names of parameters with a prior, prior_row =, prior_scale =}.
-- help: none
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local gates = require "penumbra.vbp.gates"
local nn = require "penumbra.nn"
local parameters = require "penumbra.parameters"

local rows = {}

-- ---- with a posterior ----

-- The divergence of every weight from o's prior, summed.
local function divergence(net, o)
  local total
  for _, entry in ipairs(parameters.named(net.net)) do
    local log_scale = net.log_scale[entry[1]]
    local part = log_scale and o.prior_row.kl(entry[2], log_scale, o.prior_scale):sum()
    total = part and (total and total + part or part) or total
  end
  return total
end

-- The network with normal posteriors over all parameters that have a prior; logarithms of variances start normal with
-- mean o.log_variance and deviation o.spread (3.5.4).
local function with_posterior(net, o)
  local prior = dist.normal(0, o.prior_scale)
  local made = nn.bayesian(net, { posterior_scale = math.exp(o.log_variance / 2), estimator = o.estimator,
    prior = function(name) return o.weights[name] and prior or false end })
  for _, name in ipairs(made.names) do
    local p = made.log_scale[name]
    local noise = core.randn(p:shape(), { dtype = p:dtype(), generator = o.generator })
    p:set((noise * o.spread + o.log_variance) * 0.5)
  end
  if o.prior ~= "normal" then -- of which made:kl() knows nothing
    made.kl = function(self) return divergence(self, o) end
  end
  return made
end

local function kl(net)
  return net:kl()
end

local function spread_of(variance, mean)
  return variance and variance:ndim() > mean:ndim() and variance:diagonal() or variance
end

-- A certain input; where covariances pass, one without any.
local function first_variance(x, o)
  return o.structure == "full" and core.zeros({ x:size(1), x:size(-1), x:size(-1) }, { dtype = x:dtype() }) or nil
end

local function moments(net, x, o)
  local m, v = net:moments(x, first_variance(x, o))
  return m, spread_of(v, m)
end

-- Draws of normal outputs, [count, N, out].
local function normal_draws(net, x, o, count, generator)
  local m, v = net:moments(x, first_variance(x, o))
  local e = core.randn({ count, table.unpack(m:shape()) }, { dtype = m:dtype(), generator = generator })
  if v:ndim() > m:ndim() then
    local jitter = core.eye(m:size(-1), { dtype = m:dtype() }) * 1e-12
    return m + assert((v + jitter):cholesky()):matmul(e:unsqueeze(-1)):squeeze(-1)
  end
  return m + v:sqrt() * e
end

local function closed(doc, rule)
  return { doc = doc, gates = rule, closed = true, make = with_posterior, kl = kl, moments = moments,
    draws = normal_draws, outputs = moments }
end

rows.vbp = closed("variance back-propagation: moments through gates (Haussmann, Hamprecht & Kandemir 2019)",
  "identity_heaviside")
rows.clt = closed("moment matching under a normal law of the pre-activations (deterministic variational inference, "
  .. "mean field: Wu et al. 2019)", "clt")

-- ---- by draws ----

local function draws(net, x, _, count, generator)
  return nn.predict(net, x, { draws = count, batch_size = math.max(1, x:size(1)), generator = generator })
end

local function drawn_moments(net, x, _, count, generator)
  return nn.predict(net, x, { draws = count, batch_size = math.max(1, x:size(1)), moments = true,
    generator = generator })
end

rows["local"] = {
  doc = "local reparametrisation: pre-activations are drawn for each datum (VarOut: Kingma, Salimans & Welling 2015)",
  make = function(net, o)
    o.estimator = "local"
    return with_posterior(net, o)
  end,
  outputs = function(net, x, _, generator) return net(x, generator) end,
  kl = kl, moments = drawn_moments, draws = draws,
}

-- -log p(w) of all parameters with a prior.
local function penalty(net, o)
  local total
  for _, entry in ipairs(parameters.named(net)) do
    local part = o.weights[entry[1]] and -o.prior_row.log_prob(entry[2], o.prior_scale):sum()
    total = part and (total and total + part or part) or total
  end
  return total or 0
end

local function is_activation(layer)
  for _, row in ipairs(core.layer_rows()) do
    if row.name == layer:type() then
      return row.activation
    end
  end
end

rows.dropout = {
  doc = "dropout after each activation, in predictions too (Gal & Ghahramani 2016); a point with the prior's penalty",
  point = true,
  make = function(net, o)
    return parameters.map_layers(net, function(layer)
      return is_activation(layer) and nn.module {
        inner = layer, dropout = nn.dropout { rate = o.rate, always = true },
        forward = function(self, x, generator) return self.dropout(self.inner(x), generator) end } or nil
    end)
  end,
  outputs = function(net, x, _, generator) return net(x, generator) end,
  kl = penalty, moments = drawn_moments, draws = draws,
}

rows.map = {
  doc = "the most probable point: likelihood and prior alone",
  point = true, closed = true,
  make = function(net) return net end,
  outputs = function(net, x) return net(x) end,
  kl = penalty,
  moments = function(net, x)
    local f = net:evaluate(x)
    return f, f:zeros_like()
  end,
  draws = function(net, x, _, count)
    local f = net:evaluate(x)
    return f:unsqueeze(1):broadcast_to { count, table.unpack(f:shape()) }
  end,
}

--- outputs(row, net, x, o, generator): mean, variance and, where o.gate_kl asks for it, what the gates of each datum
--- cost, [N].
local function outputs(row, net, x, o, generator)
  if not o.gate_kl then
    return row.outputs(net, x, o, generator)
  end
  local m, v, cost = gates.moments(net, x, first_variance(x, o), o.sharpness, o.gate_kl == "approximate")
  return m, spread_of(v, m), cost
end

return { rows = rows, outputs = outputs, order = { "vbp", "clt", "local", "dropout", "map" } }
