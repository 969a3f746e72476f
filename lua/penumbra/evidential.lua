--- Evidential networks: outputs that say how sure they are of what they say, and of which kind the rest is (Sensoy,
--- Kaplan & Kandemir 2018; Haussmann 2021, chapter 5).
---
---     local m = pn.evidential.learner { network = net, method = "bedl_pac", likelihood = "categorical" }
---     m:fit { data = { x, y }, epochs = 20, batch_size = 100 }
---     local p = m:predict(x)      p.probabilities, p.epistemic, p.aleatoric: both add up to p (1 - p)
---
--- Learners are those of pn.vbp (pn.help "penumbra.vbp.network_learner"), with methods of their own:
---   blnn         weights are drawn for each datum: log of the mean likelihood, means and variances by type-II
---                likelihood; of numbers with one output each
---   edl          a deterministic network; of classes
---   bedl         outputs are the evidence of a Dirichlet law, or mean and log-variance of a normal one (two outputs
---                for each number, first all means); integrated out
---   bedl_hyper   bedl with priors on means and variances of the weights
---   bedl_pac     bedl with a PAC-Bayes bound as regulariser
-- help: pn.evidential, part
local core = require "penumbra.core"
local array = require "penumbra.array"
local evidence = require "penumbra.evidential.evidence"
local evidential_rows = require "penumbra.evidential.evidential_rows"
local network_learner = require "penumbra.vbp.network_learner"
local options = require "penumbra.options"

local evidential = {}

-- What a learner is told, apart from what a row is.
local function sorted_out(where, given)
  options.argument(where, "options", given, "table")
  local row, rest = {}, {}
  for key, v in pairs(given) do
    if evidential_rows.known[key] ~= nil then row[key] = v else rest[key] = v end
  end
  rest.method = nil
  return evidential_rows.row(given.method or "bedl", row), rest
end

--- learner{network =, method = "bedl", likelihood = "categorical", ...}: a learner of pn.vbp (fit, predict, draws,
--- moments, log_predictive, classes, error_rate, save) by an evidential method. Options of pn.vbp.learner, and
---   draws            of the outputs, wherever a mean over them is taken (5)
---   noise_precision  beta of "normal", which stays (100)
---   evidence, limit  edl: concentrations exp(f), f cut at +-limit (15), or "relu": relu(f) + 1
---   annealing        edl: the divergence grows over anneal_epochs (10) from 0: "linear"; or "none"
---   divergence       bedl_pac: KL(Q || P) of all data, "sum" as the document says, or "mean", N times less
---   log_constant     bedl_pac: log B is its "bound" (N of classes, N beta / (2 pi) of numbers), or "log_n"
---   delta            bedl_pac: the probability of the bound's failing (0.1)
---   prior_precision  bedl_pac: alpha of P = N(0, 1 / alpha) of numbers; bedl_hyper: of the means of the weights (1)
---   concentration, rate   bedl_hyper: of the inverse gamma law of the weights' variances (1, 0.01)
--- predict gives, beside what pn.vbp's does, epistemic and aleatoric [N, C] or [N, D], whose sum is p (1 - p) or the
--- variance of y, and of edl the concentration.
function evidential.learner(given)
  local row, rest = sorted_out("learner", given)
  rest.method, rest.likelihood = row, row.likelihood
  rest.draws = { train = 1, predict = given.draws or evidential_rows.known.draws }
  return network_learner.new(rest)
end

--- row(method [, options]): a method as a row, with its likelihood, for pn.vbp.compare { methods = { "clt", row } } and
--- pn.restore(path, { network = net, method = row, likelihood = row.likelihood }), which makes again what m:save wrote.
--- Options: those of learner that are of the method.
function evidential.row(method, given)
  return evidential_rows.row(method, given)
end

--- concentrations(f [, {evidence = "exp", limit = 15}]): of a Dirichlet law from outputs: exp(f) with f cut at +-limit,
--- or relu(f) + 1 ("relu", Sensoy, Kaplan & Kandemir 2018).
function evidential.concentrations(f, given)
  return evidence.concentrations(options.numbers("concentrations", "f", f, "tensor"), given)
end

--- divergence(alpha): KL(Dir(alpha) || Dir(1, ..., 1)) along the last axis.
function evidential.divergence(alpha)
  return evidence.divergence(options.numbers("divergence", "alpha", alpha, "tensor"))
end

--- loss(y, alpha [, share = 1]): of evidential deep learning, of labels y int64 [N] and concentrations [N, C]: E ||y -
--- lambda||^2 + share KL(Dir(y + (1 - y) alpha) || Dir(1)), [N].
function evidential.loss(y, alpha, share)
  options.argument("loss", "y", y, "tensor")
  alpha = options.numbers("loss", "alpha", alpha, "tensor")
  local hot = array.one_hot(y, alpha:size(-1), alpha:dtype())
  return evidence.squares(hot, alpha) + evidence.divergence(evidence.misleading(hot, alpha)) * (share or 1)
end

--- parts(probabilities): mean, epistemic and aleatoric variance of each class's indicator, [N, C] each, from draws
--- [S, N, C] of the probabilities: the last two add up to mean (1 - mean).
function evidential.parts(probabilities)
  options.argument("parts", "probabilities", probabilities, "tensor")
  if probabilities:ndim() ~= 3 then
    core.error(("parts: probabilities must be draws [S, N, C], got %d axes"):format(probabilities:ndim()))
  end
  return evidence.parts(probabilities)
end

return evidential
