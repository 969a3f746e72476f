--- Penumbra: probabilistic deep learning in one small runtime. This module gathers what the core offers
--- (tensors, operations, gradients, random numbers) and loads the larger parts on first use:
--- pn.dist, pn.nn, pn.optim, pn.infer, pn.smc, pn.models, pn.train, pn.data, pn.plot, pn.metrics, pn.invariance,
--- pn.continual, pn.fusion, pn.gap, pn.vbp, pn.active, pn.pac, pn.evidential, pn.mpi, pn.checkpoint.
-- help: pn
local core = require "penumbra.core"
local face = require "penumbra.face"
local recording = require "penumbra.autodiff.recording"

local pn = {}

-- what the other modules are made of stays in the core
local private = {}
for name in ([[methods source error set_no_grad set_tostring traceback terminal terminal_answer modules files
  initialise kl_pairs draws_summary within capture missed last_missed namespace describe public
  call_in_turn text identity leaf_beyond nonfinite_cause trap_nan script_line raised_status ode sde rule sheltered
  set examples reset_peak
  mode buffer with_update update_buffers carried package log_2pi sum_log_prob
  gaussian]]):gmatch "%S+" do
  private[name] = true
end
for name, value in pairs(core) do
  local inner = name:find "_rows$" or name:find "_methods$" or name:find "^new_"
  if not inner and not private[name] then
    pn[name] = value
  end
end

local parts = { dist = "distribution", nn = "nn", optim = "optim", infer = "infer", smc = "smc", train = "train",
  data = "data", plot = "plot", invariance = "invariance", metrics = "metrics", checkpoint = "checkpoint",
  models = "models", continual = "continual", fusion = "fusion", gap = "gap", vbp = "vbp", pac = "pac",
  evidential = "evidential", active = "active", mpi = "mpi" }
-- single functions that live in a module of their own
local members = {
  check_gradients = "autodiff.gradcheck",
  compile = "autodiff.replay",
  odeint = "autodiff.ode",
  sde = "autodiff.sde",
  brownian = "autodiff.brownian",
  op = "autodiff.own_op",
  vmap = "autodiff.vmap",
  per_example_grad = "autodiff.vmap",
  jacobian = "autodiff.derivative",
  hessian = "autodiff.derivative",
  jvp = "autodiff.derivative",
  vjp = "autodiff.derivative",
  help = "shell.help",
  save = "data",
  load = "data",
  restore = "restore",
  nuts = "infer.nuts",
  hmc = "infer.nuts",
  svi = "infer.svi",
  sbc = "infer.calibration",
  vsbc = "infer.calibration",
  calibration = "infer.predictive",
  prior_predictive = "infer.predictive",
  compare = "infer.model_comparison",
  k_fold = "infer.k_fold",
  diagnose = "infer.diagnose",
  model = "infer.model",
  jobs = "jobs",
}
-- of arrays, which are methods of tensors too
local arrays = {
  ["array"] = [[roll unbind split chunk repeat_interleave tile flatten moveaxis meshgrid zeros_like ones_like
    full_like one_hot logit log2 log10 trunc nan_to_num isclose allclose cross_entropy huber mse mae bce bce_logits
    kl_div]],
  ["array.ctc"] = "ctc_log_prob ctc_loss",
  ["array.order"] = [[quantile median cumprod cummax cummin diff trapezoid searchsorted interp isin unique
    bincount histogram nansum nanmean]],
  ["array.matrix"] = [[norm matrix_norm diag trace outer cross kron block_diag matrix_power solve_right
    matrix_rank pinv lstsq cov corrcoef matrix_exp cdist]],
  ["array.fourier"] = "fftfreq rfftfreq fftconvolve",
}
for home, names in pairs(arrays) do
  for name in names:gmatch "%S+" do
    members[name] = home
    core.methods[name] = core.public(function(...)
      return pn[name](...)
    end)
  end
end
core.methods.block_diag = nil -- of a list
core.methods.fftfreq, core.methods.rfftfreq = nil, nil -- of a number

--- Calls f(...) without recording a graph: results need no gradient and keep nothing alive.
--- Returns what f returns; the setting is restored when f raises.
function pn.no_grad(f, ...)
  if type(f) ~= "function" then
    require("penumbra.options").argument("no_grad", "f", f, "function") -- may be callable
  end
  return recording.off(f, ...)
end

--- All rows (operations, distributions, layers...) as a list of {kind, name, doc, args, ...}: what help,
--- the manual's tables and the test batteries loop over.
function pn.rows()
  local rows = {}
  for name, list in pairs(core) do
    if type(list) == "function" and name:match "_rows$" then
      for _, row in ipairs(list()) do
        rows[#rows + 1] = row
      end
    end
  end
  table.sort(rows, function(a, b)
    return a.kind == b.kind and a.name < b.name or a.kind < b.kind
  end)
  return rows
end

local lazy

--- The names that load on first use: what completion offers beside the fields of the module.
function pn.lazy_names()
  return table.move(lazy, 1, #lazy, 1, {})
end

lazy = select(2, face("pn", pn, "penumbra.", members, parts))

return pn
