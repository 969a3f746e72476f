--- Bayesian networks without sampling: variance back-propagation, which passes means and variances through gates in
--- closed form, and what it is compared with (Haussmann, Hamprecht & Kandemir 2019, "Sampling-free variational
--- inference of Bayesian neural networks by variance backpropagation"; Haussmann 2021, chapter 3).
---
---     local m = pn.vbp.learner{network = net, method = "vbp", likelihood = "normal", prior_precision = 10}
---     m:fit{data = {x, y}, epochs = 100, batch_size = 16, lr = 0.01}
---     print(m:log_predictive(test_x, test_y):mean(), m:bound(x, y).bound)
---
--- The moments themselves are those of pn.nn (net:moments with nn.relu{rule = "identity_heaviside"}); expected
--- log-likelihoods stand in pn.infer (expected_log_likelihood, noise_precision, expected_softmax), the divergence of
--- one gate is pn.dist.kl_gate.
-- help: pn.vbp, part
local core = require "penumbra.core"
local heads = require "penumbra.vbp.likelihood_heads"
local method_rows = require "penumbra.vbp.method_rows"
local network_learner = require "penumbra.vbp.network_learner"
local options = require "penumbra.options"
local printed = require "penumbra.vbp.printed"
local relu_net = require "penumbra.vbp.relu_ascent"
local side_by_side = require "penumbra.vbp.side_by_side"

local vbp = {}

-- A copy of the row of this name, or the names of all, sorted.
local function row_of(where, rows, name)
  if name == nil then
    local names = {}
    for each in pairs(rows) do names[#names + 1] = each end
    table.sort(names)
    return names
  end
  options.argument(where, "name", name, "string")
  if not rows[name] then
    core.error(("%s: there is none called '%s'%s"):format(where, name, options.suggestion(name, row_of(where, rows))))
  end
  local copy = {}
  for key, value in pairs(rows[name]) do copy[key] = value end
  return copy
end

--- method([name]): a copy of the row of a method, vbp, clt, local, dropout or map, of which one of one's own can be
--- made: learner{method = row} (pn.help "penumbra.vbp.method_rows"); without a name, the names.
function vbp.method(name)
  return row_of("method", method_rows.rows, name)
end

--- likelihood([name]): a copy of the row of a likelihood, normal, probit or categorical, as method (pn.help
--- "penumbra.vbp.likelihood_heads").
function vbp.likelihood(name)
  return row_of("likelihood", heads, name)
end

--- Formulas of the document as they are printed, where that differs from what is right.
vbp.printed = core.namespace("pn.vbp.printed", printed)

--- learner{network =, method = "vbp", likelihood = "normal", ...}: a network that learns by one of the methods. Methods
--- fit, moments, draws, predict, log_predictive, classes, error_rate, bound, generate, become_prior, save; options:
--- pn.help "penumbra.vbp.network_learner".
function vbp.learner(given)
  return network_learner.new(given)
end

--- compare{network = function() ... end, data = {x, y}, epochs = [, methods =, test =, seeds = {1}, ...]}: the methods
--- side by side, from the same start, in the same order of data: a list of rows {method =, seed =, log_likelihood =
--- (mean a datum of `test`), error = (share of wrong classes, or root mean squared error), bound = (of all data), loss
--- =, noise_precision =, seconds =, learner =}, which prints as a table. Other options are those of learners and of
--- learner:fit. r:mean(method, what) and r:difference(method, other, what), paired by seed, have standard errors.
---   methods    names, or rows of one's own; by default all
---   network    a function that makes the network, called once for each row
---   on_row     called with each row when it is there
function vbp.compare(given)
  return side_by_side.compare(given)
end

--- relu_net{sizes = {in, hidden ..., out} [, prior_precision =, noise_precision =, unit_precision =, seed =]}: the
--- variational ReLU network (Kandemir 2018), without gradients. Methods fit, observe, moments, predict, classes, save;
--- pn.help "penumbra.vbp.relu_ascent".
function vbp.relu_net(given)
  return relu_net.new(given)
end

return vbp
