--- Values of options that cannot be: each is refused where it is given, by the name of the function, the option and the
--- value, and the next value that can be is taken.
local pn = require "penumbra"
local refuses = require("spec.helper").refuses
local dist, nn, infer, metrics = pn.dist, pn.nn, pn.infer, pn.metrics

local function still(_, y) return y * 0 end
local y0, times = pn.ones(2, 2), pn.tensor { 0, 1 }
local function sde(o) return pn.sde(still, still, y0, times, o) end
local function odeint(o) return pn.odeint(function(_, y) return y * 0 end, pn.ones { 2 }, times, o) end

local line = pn.model(function(m)
  local a = m:sample("a", dist.normal(0, 1))
  m:observe("y", dist.normal(a, 1):expand { 12 }:independent(1), pn.zeros { 12 })
end)
local function svi(o)
  if o.steps == nil then o.steps = 1 end
  return pn.svi(line, "mean_field", o)
end
local function nuts(o)
  for name, v in pairs { chains = 1, warmup = 5, draws = 4 } do
    if o[name] == nil then o[name] = v end
  end
  return pn.nuts(line, o)
end
local probabilities, labels = pn.tensor { { 0.2, 0.8 }, { 0.6, 0.4 } }, pn.tensor({ 1, 0 }, { dtype = "int64" })
local mixture = dist.mixture(dist.categorical { 0.5, 0.5 }, dist.normal(pn.tensor { 0, 1 }, 1))
local history = pn.arange(10):to "float64"
local function augment(o) return pn.data.augment(pn.ones { 1, 3, 3 }, o) end
local fit

-- name, call, option, then pairs of a value and what is said of it; last a value that is taken.
local cases = {
  { "sde", sde, "step", -1, "sde: step must not be negative, got -1", 0 },
  { "sde", sde, "max_steps", 0, "sde: max_steps must be a whole number from 1 on, got 0", 7 },
  { "sde", sde, "chunk", -1, "sde: chunk must be a whole number from 0 on, got -1", 0 },
  { "sde", sde, "rtol", 0, "sde: rtol must be positive, got 0", 1e-9 },
  { "sde", sde, "atol", 0, "sde: atol must be positive, got 0", 1e-9 },
  { "sde", sde, "first_step", -0.5, "sde: first_step must not be negative, got -0.5", 0 },
  { "odeint", odeint, "max_steps", 0, "odeint: max_steps must be a whole number from 1 on, got 0", 100 },
  { "cross_entropy", function(o) return pn.cross_entropy(probabilities, labels, o) end, "smoothing", -0.1,
    "cross_entropy: smoothing must lie in 0 to 1, got -0.1", 0 },
  { "cross_entropy", function(o) return pn.cross_entropy(probabilities, labels, o) end, "smoothing", 1.5,
    "cross_entropy: smoothing must lie in 0 to 1, got 1.5", 1 },
  { "augment", augment, "rotate", -1, "rotate", 0 },
  { "augment", augment, "rotate", 361, "rotate", 360 },
  { "augment", augment, "shift", -1, "shift", 0 },
  { "augment", augment, "shift", math.huge, "shift", 5 },
  { "kl_mixture", function(o) return dist.kl_mixture(mixture, mixture, o) end, "steps", 0,
    "kl_mixture: steps must be a whole number from 1 on, got 0", 1 },
  { "kl_mixture", function(o) return dist.kl_mixture(mixture, mixture, o) end, "steps", 1.5,
    "kl_mixture: steps must be a whole number from 0 on, got 1.5", 2 },
  { "panel of a law", function(o) return dist.panel(dist.normal(0, 1), o) end, "num_points", 1,
    "plot: num_points must be at least 2, got 1", 2 },
  { "kl_monte_carlo", function(o) return dist.kl_monte_carlo(dist.normal(0, 1), dist.normal(1, 1), o) end, "draws", 1,
    "draws must be at least 2, got 1", 2 },
  { "sbc", function(o)
      return pn.sbc(line, { simulations = o.simulations or 10, draws = o.draws or 3,
        sampler = function(_, n) return { a = pn.randn { n } } end })
    end, "simulations", 9, "sbc: simulations must be a whole number from 10 on, got 9", 10 },
  { "sbc", function(o)
      return pn.sbc(line, { simulations = 201, draws = o.draws,
        sampler = function(_, n) return { a = pn.randn { n } } end })
    end, "draws", 0, "sbc: draws must be a whole number from 1 on, got 0", 1 },
  { "diagnose", function(o) return pn.diagnose(line, o) end, "draws", 0,
    "diagnose: draws must be a whole number from 1 on, got 0", 1 },
  { "nuts", nuts, "chains", 0, "nuts: chains must be a whole number from 1 on, got 0", 1 },
  { "nuts", nuts, "draws", 3, "nuts: draws must be a whole number from 4 on, got 3", 4 },
  { "nuts", nuts, "max_depth", 0, "nuts: max_depth must be a whole number from 1 on, got 0", 1 },
  { "nuts", nuts, "warmup", -1, "nuts: warmup must be a whole number from 0 on, got -1", 0 },
  { "svi", svi, "steps", -1, "svi: steps must be a whole number from 0 on, got -1", 0 },
  { "svi", svi, "steps", 1.5, "svi: steps must be a whole number from 0 on, got 1.5", 2 },
  { "svi", svi, "draws", 0, "svi: draws must be a whole number from 1 on, got 0", 1 },
  { "bound", function(o)
      fit = fit or svi {}
      return fit:bound(o)
    end, "draws", 0, "bound: draws must be a whole number from 1 on, got 0", 1 },
  { "predict", function(o)
      fit = fit or svi {}
      return fit:predict(o)
    end, "draws", 0, "predict: draws must be a whole number from 1 on, got 0", 1 },
  { "check", function(o)
      fit = fit or svi {}
      return fit:check(o)
    end, "draws", 1, "check: draws must be a whole number from 2 on, got 1", 2 },
  { "prior_predictive", function(o) return pn.prior_predictive(line, o) end, "draws", 0,
    "prior_predictive: draws must be a whole number from 1 on, got 0", 1 },
  { "mean_scaled_interval_score", function(o)
      return metrics.mean_scaled_interval_score(pn.ones { 2 }, pn.zeros { 2 }, pn.ones { 2 }, history, o)
    end, "season", 0, "mean_scaled_interval_score: season must be a whole number from 1 on, got 0", 1 },
  { "mean_scaled_interval_score", function(o)
      return metrics.mean_scaled_interval_score(pn.ones { 2 }, pn.zeros { 2 }, pn.ones { 2 }, history, o)
    end, "season", 10, "history must be longer than a season of 10 steps, got [10]", 9 },
  { "reliability", function(o) return metrics.reliability(labels, probabilities, o) end, "bins", 0,
    "reliability: bins must be a whole number from 1 on, got 0", 1 },
  { "calibration_curve", function(o)
      return metrics.calibration_curve(labels, probabilities:select(2, 2), o)
    end, "bins", 0, "calibration_curve: bins must be a whole number from 1 on, got 0", 1 },
  { "recurrent", function(o) return nn.recurrent("gru", 2, 3, o) end, "layers", 0,
    "recurrent: layers must be a whole number from 1 on, got 0", 1 },
  { "bayesian", function(o) return nn.bayesian(nn.linear(2, 1), o) end, "draws", 0,
    "bayesian: draws must be a whole number from 1 on, got 0", 1 },
  { "transformer_encoder", function(o) return nn.transformer_encoder(4, 2, 1, o) end, "dropout", -0.1,
    "dropout must lie in 0 to 1, got -0.1", 0 },
  { "transformer_encoder", function(o) return nn.transformer_encoder(4, 2, 1, o) end, "dropout", 1.1,
    "dropout must lie in 0 to 1, got 1.1", 1 },
  { "running_baseline", infer.running_baseline, "decay", 1, "running_baseline: decay must lie in [0, 1), got 1", 0 },
  { "running_baseline", infer.running_baseline, "decay", -0.1, "decay must lie in [0, 1), got -0.1", 0.99 },
}

describe("a value that cannot be", function()
  for _, case in ipairs(cases) do
    local name, call, option, bad, message, good = table.unpack(case)
    it(("is refused: %s = %s of %s"):format(option, bad, name), function()
      refuses(message, call, { [option] = bad })
      refuses(option, call, { [option] = bad })
      pn.seed(1)
      local ok, said = pcall(call, { [option] = good })
      assert(ok, said)
    end)
  end
end)

describe("a kind of one's own", function()
  local function f() end
  local callable = setmetatable({}, { __call = function() end })

  it("is called by its name in messages", function()
    local function bijector(more)
      local o = { name = "mine", forward = f, inverse = f, log_det = f }
      for key, v in pairs(more) do o[key] = v end
      return function() return dist.bijector.custom(o) end
    end
    refuses("mine: forward must be a function, got a callable table", bijector { forward = callable })
    refuses("mine: there is no set 'reel'", bijector { domain = "reel" })
    refuses("mine: there is no set 'reel'", bijector { codomain = "reel" })
    refuses("mine: event_ndim must be a whole number from 0 on, got -1", bijector { event_ndim = -1 })
    refuses("mine: event_ndim must be at least 1, as members of the sets have, got 0", bijector { codomain = "simplex",
      event_ndim = 0 })
    refuses("mine: ", bijector { parameters = { { "a", constrain = "real" } } })
    refuses("custom: there is no set", function()
      dist.bijector.custom { forward = f, inverse = f, log_det = f, domain = "reel" }
    end)
    local function law(more)
      local o = { name = "mine", log_prob = f }
      for key, v in pairs(more) do o[key] = v end
      return function() return dist.custom(o) end
    end
    refuses("mine: log_prob must be a function, got a callable table", law { log_prob = callable })
    refuses("mine: there is no set 'reel'", law { support = "reel" })
    refuses("mine: support 'interval' depends on parameters: give in_support", law { support = "interval" })
    refuses("mine: event_shape must be a list of sizes or a function, got number", law { event_shape = 3 })
    refuses("mine: event_ndim must be a whole number from", law { event_ndim = 0.5 })
    refuses("mine: parameter 'name' has the name of a field", law { parameters = { "name" } })
    refuses("mine", law { parameters = { { "a", constrain = "real" } } })
    local op = pn.op { name = "mine", forward = function() return 3 end, vjp = f }
    refuses("mine: forward must return one tensor, got number", op, pn.ones { 2 })
    refuses("mine: vjp must be a function, got a callable table", pn.op, { name = "mine", forward = f, vjp = callable })
    assert.equal("operation mine", tostring(op))
    assert.equal("operation op", tostring(pn.op { forward = f, vjp = f }))
  end)
end)
