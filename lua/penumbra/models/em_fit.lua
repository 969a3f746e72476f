--- What models fitted by expectation maximisation in closed form share: data with gaps and weights, the loop, files.
-- help: nowhere
local core = require "penumbra.core"
local data = require "penumbra.data"
local form = require "penumbra.form"
local options = require "penumbra.options"
local recording = require "penumbra.autodiff.recording"
local saved = require "penumbra.saved"

local em_fit = {}

--- rows(self, where, x): x [N, D] of the model's dtype with 0 where it is NaN, and what was observed, float [N, D] or,
--- of data without gaps, [1, D].
function em_fit.rows(self, where, x)
  options.argument(where, "x", x, "tensor")
  if x:ndim() ~= 2 or x:size(2) ~= self.data or x:size(1) == 0 then
    core.error(("%s: x must be [N, %d], got %s"):format(where, self.data, options.shape_text(x)))
  elseif x:dtype() ~= self.dtype then
    core.error(("%s: x must be %s as the model is, got %s"):format(where, self.dtype, x:dtype()))
  end
  local gap = x:isnan()
  if x:isinf():any():item() then
    core.error(where .. ": x must be finite, or NaN where it was not observed")
  elseif not gap:any():item() then
    return x, core.ones({ 1, self.data }, { dtype = self.dtype })
  end
  return core.where(gap, core.zeros({}, { dtype = self.dtype }), x), gap:logical_not():to(self.dtype)
end

local fit_options = { data = options.required "tensor", max_steps = 1000, tolerance = 1e-9,
  weights = options.optional "tensor", generator = options.optional "generator", on_step = options.optional "function" }

-- Weights [N, 1], 1 where none are given.
local function weights_of(self, given, n)
  if not given then
    return core.ones({ n, 1 }, { dtype = self.dtype })
  end
  local fits = given:ndim() == 1 and given:size(1) == n and given:ge(0):all():item() and given:isfinite():all():item()
    and given:sum():item() > 0
  if not fits then
    core.error(("fit: weights must be [%d] numbers that are not negative, not all 0"):format(n))
  end
  return given:to(self.dtype):unsqueeze(2)
end

-- Each number of a datum must be seen in some row that counts.
local function check_columns(seen, w, n)
  local count = (seen:broadcast_to { n, seen:size(2) } * w):sum(1):totable()
  for d, v in ipairs(count) do
    if not (v > 0) then
      core.error(("fit: column %d of the data has no number that was observed"):format(d))
    end
  end
end

--- fit(self, given, begin, step): EM until the mean log-likelihood of a datum grows by less than `tolerance`.
--- begin(x, seen, w, generator) makes starting values; step(x, seen, w) moves the parameters and gives the mean
--- log-likelihood before.
function em_fit.fit(self, given, begin, step)
  local o = options.check("fit", given, fit_options)
  local x, seen = em_fit.rows(self, "fit", o.data)
  local w = weights_of(self, o.weights, x:size(1))
  check_columns(seen, w, x:size(1))
  local s = { history = {}, steps = 0, converged = false }
  recording.off(function()
    if not self.begun then
      begin(x, seen, w, o.generator)
      self.begun = true
    end
    for k = 1, o.max_steps do
      local value = step(x, seen, w)
      if value ~= value then
        core.error("fit: the log-likelihood is not a number")
      end
      s.history[k], s.steps, s.log_likelihood = value, k, value
      s.converged = k > 1 and value - s.history[k - 1] < o.tolerance
      if s.converged or o.on_step and o.on_step(s) == false then
        break
      end
    end
  end)
  return s
end

--- moments(x, seen, w): weighted mean and variance of each column, of what was observed: [1, D].
function em_fit.moments(x, seen, w)
  local share = seen * w
  local total = share:sum(1, true)
  local mean = (share * x):sum(1, true) / total
  local off = x - mean
  return mean, (share * off:square()):sum(1, true) / total
end

--- options(where, given, own): the options of a constructor, checked: data, dtype, floor and `own`.
function em_fit.options(where, given, own)
  local o = options.check(where, given, options.merged({ data = options.required "number", floor = 0,
    dtype = options.optional "string" }, own))
  o.data = options.whole(where, "data", o.data, 1)
  o.dtype = o.dtype or core.default_dtype()
  if o.dtype ~= "float64" and o.dtype ~= "float32" then
    core.error(("%s: dtype must be 'float64' or 'float32', got '%s'"):format(where, o.dtype))
  elseif not (o.floor >= 0 and o.floor < math.huge) then
    core.error(("%s: floor must not be negative, got %g"):format(where, o.floor))
  end
  return o
end

--- file(name, make, forms): how models called `name` are written and restored. make(o) is the constructor; forms(o)
--- gives the forms of the parameters, by name, from the options o. Returns save(self, path).
function em_fit.file(name, make, forms)
  local kind = saved.file {
    noun = name .. " that m:save has written",
    is = function(found) return found.kind == name end,
    form = function(found)
      local ok, o = pcall(make, type(found.options) == "table" and found.options or {})
      return form.record { kind = form.any, options = form.map(form.any), begun = form.boolean,
        parameters = ok and form.record(forms(o)) or form.refused "be of such a model" }
    end,
  }
  saved.restored_by(kind, function(path, given)
    local found, message, code = saved.read("restore", path, kind)
    if not found then
      return nil, message, code
    end
    options.check("restore", given, {})
    return saved.make("restore", path, function()
      local self = make(found.options)
      self:load_state(found.parameters)
      self.begun = found.begun
      return self
    end)
  end)
  return function(self, path)
    options.argument("save", "path", path, "string")
    local kept = {}
    for key, value in pairs(self.given) do kept[key] = value end
    return data.save(path, { kind = name, options = kept, begun = self.begun, parameters = self:state() })
  end
end

return em_fit
