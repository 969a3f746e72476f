--- What switching systems are made of: their options, base matrices, networks and priors. The filter that they share is
--- penumbra.models.switching_system.
---
--- Options of all these models, beside those of forecasters (pn.help "penumbra.models.forecaster"):
---
---     states, switches   sizes of x and s
---     base               base matrices, 10
---     hidden             {32}: hidden layers of the network of the weights; transition_hidden, 32: of f
---     num_particles      64, in training and filtering
---     conditioning       of x_{t-1} on an s_t that depends on it: "exact" counts s_t as an observation of x_{t-1};
---                        "published" leaves that out, as the recursion in the paper does (the filter of another model,
---                        whose switch depends on the moments of x_{t-1}). Only models with recurrence differ
---     average            of noise over bases: "scales", "variances", "log_scales"
---     sharing            of weights: "system" (A, B, C, D, Q, R share theirs, F and S theirs), "all", "none" (F and S
---                        still share)
---     scales             {state =, observation =, switch =}: where scales of the noise begin, {least, most}
---     floor              1e-8 (float32: 1e-6): added to every variance of the model. Covariances to draw from that
---                        rounding has made singular are lifted a little, and only those
---     resampling, threshold   "systematic", 0.5
---     no_resampling      0: the first iterations of fit in which nothing is resampled. A tenth of all is a good choice
---                        without an encoder: training that resamples from the start may not get under way
---     frozen             0: the first iterations in which A, B, C, D, Q and R keep their values
---     resampled_gradient true; false: moments that were resampled pass no gradient to the steps before
---     gradient           of the choice of ancestors, as of pn.smc.fivo: "dropped" (none: biased, of low variance, as
---                        Maddison et al. 2017 and the paper train), "score_function" (unbiased for the mean of the
---                        log-evidence where what is resampled does not hang on the threshold; needs resampling =
---                        "multinomial"), "stop_gradient" (unbiased for the evidence itself, Scibior & Wood 2021)
---     scaling_of_bases   1: Adam moves base matrices so many times as fast as the networks; 5 learns the pendulum of
---                        examples/papers/deep_filters faster
---
--- Where training begins: transitions near the identity, emissions standard normal, F orthogonal, scales of the noise
--- spread evenly in the logarithm between the two ends of `scales`. Source: Kurle, Rangapuram, de Bezenac, Guennemann &
--- Gasthaus 2020, appendix 7.7.
-- help: module
local base_matrices = require "penumbra.models.base_matrices"
local core = require "penumbra.core"
local forecaster = require "penumbra.models.forecaster"
local form = require "penumbra.form"
local options = require "penumbra.options"
local switch_law = require "penumbra.models.switch_law"
local switching_system = require "penumbra.models.switching_system"

local switching_model = {}

switching_model.options = { states = options.optional "number", switches = 5, base = 10, hidden = options.any(nil),
  transition_hidden = 32, num_particles = 64, conditioning = options.choice("exact", "published"),
  average = options.choice(table.unpack(base_matrices.averages)),
  sharing = options.choice("system", "all", "none"), scales = options.optional "table",
  floor = options.optional "number", resampling = "systematic", threshold = 0.5, no_resampling = 0, frozen = 0,
  resampled_gradient = true, gradient = options.choice("dropped", "stop_gradient", "score_function"),
  scaling_of_bases = 1 }

-- The iterations of fit: without resampling, with the Gaussian part as it is, or as usual.
local function phase(self, iteration)
  local settings, name = {}, {}
  if iteration <= self.no_resampling then
    settings.threshold, name[1] = 0, "no resampling"
  end
  if iteration <= self.frozen then
    settings.frozen, name[#name + 1] = true, "frozen"
  end
  return table.concat(name, ", "), settings
end

--- class(name, more): the class of a model, for forecaster.new.
function switching_model.class(name, more)
  local all = options.merged({ name = name, evidence = switching_system.evidence, filter = switching_system.filter,
    advance = switching_system.advance, paths = switching_system.paths, width = switching_system.width,
    phase = phase, smooth = switching_system.smooth, smooth_options = switching_system.smooth_options }, more or {})
  all.methods = options.merged(switching_system.methods, all.methods or {})
  return forecaster.class(all)
end

local positive = form.number { above = 0 }
local sizes = form.list(form.whole(1))
local ends = form.list(positive, 2)

-- What an option's type does not tell, here and in the models that are made of this one.
local forms = { hidden = sizes, emission_hidden = sizes, controls = form.list(form.text("b", "d")),
  scales = form.record { state = ends, observation = ends, switch = ends }, floor = form.number { least = 0 },
  scaling_of_bases = positive, stay = form.number() }

--- sizes_of(where, name, given): a list of sizes of layers, or false; anything else raises.
function switching_model.sizes_of(where, name, given)
  return given and form.check(where, ("'%s'"):format(name), given, sizes)
end

--- checked(where, given, own): the options of a model, checked: those of forecasters, those above and `own`.
function switching_model.checked(where, given, own)
  local o = forecaster.options(where, given, options.merged(switching_model.options, own or {}))
  for _, name in ipairs { "switches", "base", "transition_hidden" } do
    o[name] = options.whole(where, name, o[name], 1)
  end
  for _, name in ipairs { "no_resampling", "frozen" } do
    o[name] = options.whole(where, name, o[name], 0)
  end
  o.scales = options.check(where .. ": scales", o.scales, { state = { 1e-4, 1 }, observation = { 1e-4, 0.1 },
    switch = { 1e-4, 0.1 } })
  forecaster.fits(where, o, forms)
  if o.gradient == "score_function" and o.resampling ~= "multinomial" then
    core.error(("%s: gradient 'score_function' needs resampling 'multinomial', whose choices have a density, got '%s'")
      :format(where, o.resampling))
  end
  o.floor = o.floor or o.dtype == "float32" and 1e-6 or 1e-8
  o.hidden = o.hidden == nil and { 32 } or o.hidden
  return o
end

local SYSTEM, RECURRENCE = { "a", "b", "c", "d", "q", "r" }, { "f", "s" }

-- Groups of names by `sharing`.
local function groups_of(sharing, has)
  local groups, last = {}, nil
  for _, list in ipairs { SYSTEM, RECURRENCE } do
    for _, name in ipairs(list) do
      -- F and S always share theirs: a particle carries one set of weights to the next step
      local fresh = #groups == 0 or sharing == "system" and last ~= list
        or sharing == "none" and (list == SYSTEM or last ~= list)
      if has[name] and fresh then
        groups[#groups + 1] = {}
      end
      if has[name] then
        table.insert(groups[#groups], name)
        last = list
      end
    end
  end
  return groups
end

--- build(self, o, how): gives a new forecaster the parts of a switching system. how.kind: "gaussian" or "categorical";
--- how.recurrent; how.issm: a structure in place of A and C; how.controls: names of control matrices, {"d"};
--- how.emitted: size of what the linear system emits (o.size).
function switching_model.build(self, o, how)
  local n, k, p = how.issm and how.issm.n or o.states, o.switches, how.emitted or o.size
  local categorical = how.kind == "categorical"
  local matrices, noises = { a = { n, n }, c = { p, n } }, { q = { n }, r = { p }, s = { k } }
  if how.issm then
    matrices.a, matrices.c = nil, nil
  end
  for _, name in ipairs(self.input_size > 0 and how.controls or {}) do
    matrices[name] = { name == "b" and n or p, self.input_size }
  end
  matrices.f, noises.s = how.recurrent and { k, n } or nil, not categorical and { k } or nil
  local has = {}
  for _, list in ipairs { matrices, noises } do
    for name in pairs(list) do
      has[name] = true
    end
  end
  local groups = groups_of(categorical and "all" or o.sharing, has)
  self.states, self.switches, self.auxiliary, self.issm = n, k, how.emitted, how.issm
  self.standing = how.issm ~= nil and not how.issm.moves and p == 1 and n >= 8 -- below, the kernel is faster
  self.kind = switch_law[how.kind]
  self.switch = self.kind.new { switches = k, inputs = self.input_size, dtype = o.dtype,
    transition_hidden = o.transition_hidden, stay = how.stay }
  self.bases = base_matrices.new { count = categorical and k or o.base, inputs = k, groups = groups,
    parts = { f = "recurrence", s = "recurrence", b = "controls", d = "controls" },
    hidden = not categorical and o.hidden or nil, matrices = matrices, noises = noises, average = o.average,
    floor = o.floor, scaling = o.scaling_of_bases, dtype = o.dtype,
    start = { a = "identity", c = "normal", f = "orthogonal" },
    scales = { q = o.scales.state, r = o.scales.observation, s = o.scales.switch } }
  self.prior_mean = core.param(core.zeros({ n }, { dtype = o.dtype }))
  self.prior_log_inverse_scale = core.param(core.zeros({ n }, { dtype = o.dtype }))
  self.recurrence_group = not categorical and self.bases:group_of "s" or 1
  self.control_group = { b = has.b and self.bases:group_of "b", d = has.d and self.bases:group_of "d" }
  for _, name in ipairs { "num_particles", "conditioning", "resampling", "threshold", "no_resampling", "frozen",
    "resampled_gradient", "gradient", "floor" } do
    self[name] = o[name]
  end
  self.frozen_names = { a = true, b = true, c = true, d = true, q = true, r = true }
  return self
end

return switching_model
