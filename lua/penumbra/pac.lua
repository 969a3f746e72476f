--- Guarantees: what the risk of a predictor is at most, with a probability that is stated. PAC-Bayes bounds by name,
--- the divergence of two events with its inverses, certificates of networks and training on any bound.
---
---     pn.pac.bound("maurer", { risk = 0.02, kl = 4000, n = 30000, delta = 0.025 })
---     pn.pac.describe "maurer"       formula, source, what it needs, what holds with which probability
---     local m = pn.pac.train(net, { x, y }, { bound = "quadratic" })
---     print(m:certificate())         pn.pac.certificate(net, data, options) of other networks
-- help: pn.pac, part
local binary_kl = require "penumbra.pac.binary_kl"
local risk_bounds = require "penumbra.pac.risk_bounds"
local certificate = require "penumbra.pac.certificate"
local split_data = require "penumbra.pac.split_data"
local training = require "penumbra.pac.training"

local pac = {}

--- kl(q, p): the divergence of two events of probabilities q and p, q log(q / p) + (1 - q) log((1 - q) / (1 - p)).
--- Tensors and numbers broadcast; NaN outside [0, 1].
function pac.kl(q, p)
  return binary_kl.kl(q, p)
end

--- kl_inverse(x, bound [, {argument = "p", side = "upper"}]): with argument = "p" the largest (side = "lower":
--- smallest) p with kl(x, p) <= bound; with argument = "q" the largest (smallest) q with kl(q, x) <= bound. Never
--- inside the exact value: an upper one is not below it, a lower one not above. With gradients, implicit ones; NaN
--- where x is outside [0, 1] or the bound is negative. Tensors and numbers broadcast.
function pac.kl_inverse(x, bound, given)
  return binary_kl.inverse(x, bound, given)
end

pac.bound, pac.draws_bound = risk_bounds.bound, risk_bounds.draws_bound
pac.describe, pac.names = risk_bounds.describe, risk_bounds.names

pac.certificate, pac.train, pac.split = certificate.certificate, training.train, split_data.split

return pac
