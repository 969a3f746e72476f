--- Forecasters of time series, all with one interface: `m = pn.models.deepar { size = 1, covariates = 3 }` and so on.
---
--- A batch is a table, time first:
---     y         [T, B, p], NaN where nothing was observed
---     inputs    [T, B, k] covariates; absent for a model without
---     lengths   list or int64 [B]: steps of each series; what stands after them touches nothing
---     series    list or int64 [B]: identities from 0, for the embedding; a model without does not look at them
---     start     list or int64 [B]: the step at which each series begins, from an origin that all have in common (0):
---               seasons follow from it
---     context   number of steps from the start whose values give the scale of the series (all)
---     location, scale   [B, p]: the scale itself, in place of one taken from y
--- Numbers of the other real dtype, a series set's too, are converted to the model's, which answers in its own.
---
--- Models see (y - location) / scale. What `scaling` may be: "mean" (location 0, scale the mean of |y|: DeepAR's),
--- "standard" (mean and standard deviation), "change" (the first value and the mean of |y_t - y_(t-1)|: for series that
--- wander) or "none". Values that are not there do not count; where the scale would be 0 it is 1. The scale is a
--- constant to the densities: log_evidence is that of y given the scale. Of a window that is to be forecast the scale
--- must come from its `context`, or the model learns from values that it will not have.
---
---     m:fit { series = set, window = 90, context = 60, steps = 2500 }      pn.help "m:fit"
---     m:log_evidence(batch)                        [B]
---     b = m:filter(batch)   b = b:update(y_t, inputs_t)      what the model knows after a series, and after one step
---     more
---     m:forecast(b, 30)                paths [100, 30, B, p]; of a batch, too
---     m:quantiles(b, 30, { 0.1, 0.5, 0.9 })
---     m:smooth(batch)                              of models with a latent state
---     m:save "m.safetensors"    pn.restore "m.safetensors"
---
--- Options of all constructors:
---     size        p, numbers in an observation (1)
---     covariates  k, numbers in inputs (0)
---     series      how many identities there are (0: the model has no embedding)
---     embedding   size of the embedding of an identity (8)
---     features    units of the layer (leaky rectifiers) through which covariates and embedding go in (64); 0: they
---                 go in as they are
---     scaling     "mean", "standard", "change" or "none"
---     least_scale the share of the mean |y| that "standard" and "change" do not go below (0). A context in which next
---                 to nothing moves makes what follows it huge: 1e-3 for exchange rates, of which some are pegged
---     dtype       "float64" or "float32" (pn.default_dtype())
-- help: pn.models, methods m of methods, methods belief of beliefs
local core = require "penumbra.core"
local form = require "penumbra.form"
local data = require "penumbra.data"
local metrics = require "penumbra.metrics"
local nn = require "penumbra.nn"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local prepared_batch = require "penumbra.models.prepared_batch"
local recording = require "penumbra.autodiff.recording"
local rolling_forecast = require "penumbra.models.rolling_forecast"
local saved = require "penumbra.saved"
local window_training = require "penumbra.models.window_training"

local forecaster = { constructors = {} } -- by name, as files have it: penumbra.restore knows them

-- What a kind of model consists of, the table given to forecaster.class.
local function kind_of(self)
  return getmetatable(self).kind
end

-- ---- constructors ----

local common = { size = 1, covariates = 0, series = 0, embedding = 8, features = 64,
  scaling = options.choice("mean", "standard", "change", "none"), least_scale = 0, dtype = options.optional "string" }

--- fits(where, o, forms): raises unless the options o, but for those that are nil or false, have these forms
--- (penumbra.form).
function forecaster.fits(where, o, forms)
  local names = {}
  for name in pairs(forms) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    if o[name] then
      form.check(where, ("'%s'"):format(name), o[name], forms[name])
    end
  end
end

--- The options of a constructor called `where`, checked: those of all forecasters and `own`.
function forecaster.options(where, given, own)
  local o = options.check(where, given, options.merged(common, own))
  o.size = options.whole(where, "size", o.size, 1)
  for _, name in ipairs { "covariates", "series", "features" } do
    o[name] = options.whole(where, name, o[name], 0)
  end
  o.embedding = options.whole(where, "embedding", o.embedding, 1)
  forecaster.fits(where, o, { least_scale = form.number { least = 0 } })
  o.dtype = o.dtype or core.default_dtype()
  if o.dtype ~= "float64" and o.dtype ~= "float32" then
    core.error(("%s: dtype must be 'float64' or 'float32', got '%s'"):format(where, o.dtype))
  end
  return o
end

-- Leaky rectifiers after one layer: the features of inputs and the identity; nil where a model has neither.
local function input_net(o)
  local count = o.covariates + (o.series > 0 and o.embedding or 0)
  local net = { embedding = o.series > 0 and nn.embedding(o.series, o.embedding, { dtype = o.dtype }) or nil }
  if o.features > 0 and count > 0 then
    net.layer = nn.sequential { nn.linear(count, o.features, { dtype = o.dtype }), nn.leaky_relu() }
    count = o.features
  end
  return net, count
end

--- A new model of a class (forecaster.class) with the checked options o: the fields size, dtype, scaling, `inputs` and
--- `input_size`. The constructor adds its networks.
function forecaster.new(class, o)
  local self = { size = o.size, covariates = o.covariates, identities = o.series, scaling = o.scaling,
    least_scale = o.least_scale, dtype = o.dtype, given = o }
  self.inputs, self.input_size = input_net(o)
  return setmetatable(self, class)
end

--- The features [T, B, input_size] of a prepared batch: of inputs and the embedding of the identity; nil where there
--- are none.
function forecaster.features(self, b)
  local net, x = self.inputs, b.inputs
  if net.embedding then
    local e = net.embedding(b.series):unsqueeze(1)
    e = e:broadcast_to { b.steps, b.size, e:size(3) }
    x = x and core.concatenate({ x, e }, 3) or e
  end
  if x and net.layer then
    x = net.layer(x)
  end
  return x
end

-- ---- what all models can do ----

local methods = {}

local drawing = { generator = options.optional "generator" }

--- log_evidence(batch [, {generator =}]): log p(y_1 ... y_T) of each series, [B], given its scale; what the model
--- computes, the density itself or a bound, is said where the model is. Differentiable.
function methods:log_evidence(batch, given)
  local o = options.check("log_evidence", given, drawing)
  local b = prepared_batch.read("log_evidence", self, batch)
  local value = kind_of(self).evidence(self, b, { generator = o.generator })
  return self.discrete and value or value - prepared_batch.log_jacobian(b)
end

--- loss(batch [, {generator =, iteration =}]): minus the log evidence of what the model sees, (y - location) / scale,
--- over the number of observed values; a 0-d tensor, what fit minimises (at that iteration, from 1).
function methods:loss(batch, given)
  local o = options.check("loss", given, { generator = options.optional "generator",
    iteration = options.optional "number" })
  local b = prepared_batch.read("loss", self, batch)
  local how = window_training.settings(self, o.iteration or math.huge)
  how.generator = o.generator
  return window_training.loss(self, b, how)
end

--- fit{series =, steps =, ...}: trains on windows of the series at random; pn.help
--- "penumbra.models.window_training".
function methods:fit(given)
  return window_training.fit(self, given)
end

-- ---- beliefs ----

local beliefs = {}
local belief_class = { __name = "belief" }

local function new_belief(model, b, state)
  return setmetatable({ model = model, state = state, location = b.location, scale = b.scale, series = b.series,
    start = b.start + (b.lengths or b.steps), size = b.size }, belief_class)
end

function belief_class:__tostring()
  return ("belief of %s about %d series"):format(kind_of(self.model).name, self.size)
end

--- update(y_t [, inputs_t]): the belief after one more step, y_t [B, p] (NaN: not observed) and covariates [B, k]; the
--- old one stays as it is. The scale is the one that it began with.
function beliefs:update(y, u)
  local m = self.model
  options.argument("update", "y_t", y, "tensor")
  if y:ndim() ~= 2 then
    core.error(("update: y_t must have shape [%d, %d], got [%s]"):format(self.size, m.size,
      table.concat(y:shape(), ", ")))
  end
  if u ~= nil then
    options.argument("update", "inputs_t", u, "tensor")
  end
  local b = prepared_batch.read("update", m, { y = y:unsqueeze(1), inputs = u and u:unsqueeze(1), series = self.series,
    start = self.start, location = self.location, scale = self.scale }, self.size)
  return new_belief(m, b, recording.off(kind_of(m).advance, m, self.state, b))
end

belief_class.__index = core.namespace("a belief", beliefs)

local filtering = { generator = options.optional "generator", compile = true }

--- filter(batch [, {generator =, compile = true}]): the belief after each series' own last step: b:update(y_t,
--- inputs_t) goes on, m:forecast(b, ...) looks ahead, b.state holds what the model knows. No gradient. compile: as of
--- m:forecast.
function methods:filter(batch, given)
  local o = options.check("filter", given, filtering)
  local b = prepared_batch.read("filter", self, batch)
  return new_belief(self, b, recording.off(kind_of(self).filter, self, b, { generator = o.generator,
    compile = o.compile }))
end

--- smooth(batch [, options]): the latent states given all observations, as the model describes; an error for a model
--- that has none.
function methods:smooth(batch, given)
  local kind = kind_of(self)
  if not kind.smooth then
    core.error(("smooth: %s has no latent state"):format(kind.name))
  end
  local o = options.check("smooth", given, kind.smooth_options or drawing)
  return recording.off(kind.smooth, self, prepared_batch.read("smooth", self, batch), o)
end

-- ---- forecasts ----

local forecast_options = { draws = 100, inputs = options.optional "tensor",
  mode = options.choice("ancestral", "marginal"), batch_size = options.optional "number", compile = true,
  generator = options.optional "generator" }

-- The belief itself, or the one after a batch.
local function belief_of(where, self, given, o)
  if getmetatable(given) == belief_class then
    if given.model ~= self then
      core.error(where .. ": the belief must be one of this model")
    end
    return given
  end
  local b = prepared_batch.read(where, self, given)
  return new_belief(self, b, recording.off(kind_of(self).filter, self, b, { generator = o.generator,
    compile = o.compile }))
end

local function checked_future(where, self, belief, steps, o)
  steps = options.whole(where, "steps", steps, 1)
  local want = ("[%d, %d, %d]"):format(steps, belief.size, self.covariates)
  if self.covariates == 0 and o.inputs then
    core.error(where .. ": inputs must be absent, this model has no covariates")
  elseif self.covariates > 0 and not o.inputs then
    core.error(("%s: inputs, the covariates to come, must have shape %s, got nil"):format(where, want))
  end
  o.inputs = o.inputs and prepared_batch.real(where, self, "inputs, the covariates to come,", o.inputs, want)
  local b = { steps = steps, mode = o.mode, generator = o.generator, compile = o.compile, inputs = o.inputs,
    size = belief.size, series = belief.series, start = belief.start, location = belief.location, scale = belief.scale }
  b.features = recording.off(forecaster.features, self, b)
  return b
end

local MOST <const> = 2 ^ 22 -- numbers that a step of all paths may hold, unless batch_size is given

-- How many paths are drawn at a time.
local function paths_at_a_time(self, belief, o)
  local width = kind_of(self).width
  return o.batch_size or math.max(1, MOST // (belief.size * (width and width(self) or 1)))
end

local function forecast(where, self, given, steps, o)
  local belief = belief_of(where, self, given, o)
  local future, list = checked_future(where, self, belief, steps, o), {}
  local most = paths_at_a_time(self, belief, o)
  for first = 1, o.draws, most do
    future.draws = math.min(most, o.draws - first + 1)
    local paths = recording.off(kind_of(self).paths, self, belief.state, future)
    list[#list + 1] = self.discrete and paths or paths * belief.scale + belief.location
  end
  return #list == 1 and list[1] or core.concatenate(list, 1)
end

--- forecast(b, steps [, {draws = 100, inputs =, mode = "ancestral", batch_size =, compile = true, generator =}]): draws
--- of the next observations of a belief, or after a batch: [draws, steps, B, p]. inputs [steps, B, k] are the
--- covariates to come. "ancestral" gives joint paths; "marginal", where a model has it, draws each step's observation
--- with the state integrated out, which costs the correlation between steps.
---
--- batch_size: paths of all series that are drawn at a time (as many as 2^22 numbers of a step allow): what is held
--- beside the result is that of so many, however many are asked for. compile: steps of switching systems are captured
--- once and replayed, to the same draws and bits; false: never. (A network of one's own that cannot be captured is
--- called at each step.)
function methods:forecast(belief, steps, given)
  return forecast("forecast", self, belief, steps, options.check("forecast", given, forecast_options))
end

--- quantiles(b, steps, levels [, {...}]): quantiles of forecast(b, steps, {...}) at a list of levels,
--- [Q, steps, B, p].
function methods:quantiles(belief, steps, levels, given)
  local o = options.check("quantiles", given, forecast_options)
  return metrics.quantiles(forecast("quantiles", self, belief, steps, o), levels)
end

--- backtest{series =, steps =, origins = 1, every =, history =, season = 1, draws = 100}: scores of forecasts from
--- several origins of a series set, each seen up to there, with the parameters as they are: the last origin stands
--- `steps` before the ends of the series, the others `every` (steps) apart before it. history: steps that the model
--- sees (all). Gives what pn.metrics.backtest gives, with origins as -steps from the ends. Train on set:without(n), n
--- all the steps that are forecast, or it has seen them.
function methods:backtest(given)
  return rolling_forecast.backtest(self, given)
end

-- ---- files ----

--- save(path): writes options and parameters; pn.restore(path, {...}) makes the model again, given the options that
--- were functions or networks. Returns true, or nil, message, code.
function methods:save(path)
  options.argument("save", "path", path, "string")
  local kept, asked = saved.parted(self.given)
  return data.save(path, { kind = "forecaster", name = kind_of(self).name, options = kept, asked = asked,
    parameters = self:state() })
end

local forecaster_file = saved.file {
  noun = "forecaster that m:save has written",
  is = function(found) return found.kind == "forecaster" end,
  form = function()
    return form.record { kind = form.any, name = form.text(),
      options = form.map(form.any), asked = saved.asked_form, parameters = form.map(form.tensor { finite = true }) }
  end,
}

saved.restored_by(forecaster_file, function(path, given)
  local found, message, code = saved.read("restore", path, forecaster_file)
  if not found then
    return nil, message, code
  end
  local o = saved.joined("restore", found.options, found.asked, given)
  return saved.make("restore", path, function()
    local make = forecaster.constructors[found.name]
    local m = make and make(o)
    if not m or not kind_of(m) then
      core.error(("restore: there is no forecaster '%s'"):format(found.name))
    end
    return m:load_state(found.parameters)
  end)
end)

for name, method in pairs(parameters.methods) do
  methods[name] = method
end

-- ---- classes ----

--- class{name =, methods =, evidence =, filter =, advance =, paths =, ...}: the metatable of a kind of forecaster,
--- given to forecaster.new. b is a prepared batch (pn.help "penumbra.models.prepared_batch"), `how` has generator and
--- what `phase` set:
---
--- name        the constructor's, in pn.models
--- methods     further methods
--- evidence    function (self, b, how): log evidence of b.y, [B]
--- filter      function (self, b, how): what is known after each series' last step, a table
--- advance     function (self, state, b): the same after one step more, a batch of one step
--- paths       function (self, state, o): draws [draws, steps, B, p] of what the model sees (of b.raw where
---             self.discrete); o has steps, draws, mode, generator, size (B), inputs [steps, B, k], features, series,
---             start (the first step to come), location and scale
--- width       function (self): numbers that a step of one path of one series holds (1)
--- smooth      function (self, b, o) of a model with latent states; `smooth_options`, the table of its options
--- phase       function (self, iteration): in what fit's iterations differ: a text, which is another for each way to
---             compute, and a table that goes into `how`; third a list of numbers that may differ from iteration to
---             iteration and come as the tensor how.values
function forecaster.class(kind)
  local all = {}
  for _, list in ipairs { methods, kind.methods or {} } do
    for name, method in pairs(list) do
      all[name] = method
    end
  end
  return { kind = kind, network = true, __name = kind.name, __index = core.namespace("a forecaster", all),
    __tostring = function(self)
      return ("%s(%d observed, %d covariates, %d parameters)"):format(kind.name, self.size, self.covariates,
        self:num_parameters())
    end }
end

return forecaster
