--- Methods side by side: one network, prior, start, data, order of minibatches and schedule, a row for each method and
--- seed; what differs is the method alone.
-- help: none
local core = require "penumbra.core"
local learner_options = require "penumbra.vbp.learner_options"
local method_rows = require "penumbra.vbp.method_rows"
local network_learner = require "penumbra.vbp.network_learner"
local options = require "penumbra.options"

local side_by_side = {}
local methods = {}
local class = { __name = "comparison", __index = core.namespace("a comparison", methods) }

local fit_names <const> = { "data", "epochs", "batch_size", "lr", "schedule", "on_epoch", "progress", "compile" }

-- The options of the comparison itself, those of learners and those of fits.
local function sorted_out(given)
  local known, fit, own = { methods = options.any(nil), seeds = options.any(nil), test = options.optional "table",
    on_row = options.optional "function" }, {}, {}
  local all = {}
  for name, rule in pairs(known) do all[name] = rule end
  for _, name in ipairs(fit_names) do all[name] = options.any(nil) end
  for name in pairs(learner_options.known) do
    if name ~= "method" and name ~= "seed" then all[name] = options.any(nil) end
  end
  all.network = options.required "function"
  all.data, all.epochs = options.required "table", options.required "number"
  local o = options.check("compare", given, all)
  if type(o.network) ~= "function" then
    core.error "compare: network must be a function that makes one: each row has its own"
  end
  for name, value in pairs(o) do
    if known[name] == nil and learner_options.known[name] ~= nil then own[name] = value end
  end
  for _, name in ipairs(fit_names) do fit[name] = o[name] end
  return o, own, fit
end

local function check_list(name, list, default)
  list = list or default
  if type(list) ~= "table" or #list == 0 then
    core.error(("compare: %s must be a list of at least one, got %s"):format(name, type(list)))
  end
  return list
end

local function row_of(own, fit, method, seed, test)
  local o, f = {}, {}
  for name, value in pairs(own) do o[name] = value end
  for name, value in pairs(fit) do f[name] = value end
  o.method, o.seed, f.seed = method, seed, seed
  local m = network_learner.new(o)
  local start = core.clock()
  local run = m:fit(f)
  local seconds = core.clock() - start
  local x, y = test[1], test[2]
  return { method = m.method, seed = seed, loss = run.loss, seconds = seconds, learner = m,
    log_likelihood = m:log_predictive(x, y):mean():item(), error = m:error_rate(x, y):item(),
    bound = m:bound(fit.data[1], fit.data[2]).bound, noise_precision = m.noise_precision:item() }
end

--- pn.vbp.compare.
function side_by_side.compare(given)
  local o, own, fit = sorted_out(given)
  local result = { methods = check_list("methods", o.methods, method_rows.order) }
  for _, seed in ipairs(check_list("seeds", o.seeds, { 1 })) do
    for _, method in ipairs(result.methods) do
      local row = row_of(own, fit, method, options.whole("compare", "seeds", seed, 0), o.test or o.data)
      result[#result + 1] = row
      if o.on_row then o.on_row(row) end
    end
  end
  return setmetatable(result, class)
end

-- Mean and standard error of a list.
local function mean_and_error(list)
  local sum, square = 0, 0
  for _, v in ipairs(list) do sum = sum + v end
  local mean = sum / #list
  for _, v in ipairs(list) do square = square + (v - mean) ^ 2 end
  return { value = mean, se = #list > 1 and (square / (#list - 1) / #list) ^ 0.5 or 0 / 0 }
end

local function name_of(method)
  return type(method) == "string" and method or method.name or "own"
end

-- The numbers of one method by seed, in the order of the seeds.
local function column(self, method, what)
  local list = {}
  for _, row in ipairs(self) do
    if row.method == method then list[#list + 1] = row[what] end
  end
  return list
end

local function check_method(where, self, role, name)
  for _, method in ipairs(self.methods) do
    if name_of(method) == name then return name end
  end
  return core.error(("%s: %s must be one of the methods compared, got %s"):format(where, role, tostring(name)))
end

--- mean(method, what): mean and standard error over seeds, {value =, se =}, of "log_likelihood", "error", "bound",
--- "seconds", "loss" or "noise_precision".
function methods:mean(method, what)
  local list = column(self, check_method("mean", self, "method", method), what)
  if type(list[1]) ~= "number" then
    core.error(("mean: what must be a number of the rows, got %s"):format(tostring(what)))
  end
  return mean_and_error(list)
end

--- difference(method, other, what): method less other, paired by seed, {value =, se =}.
function methods:difference(method, other, what)
  local a = column(self, check_method("difference", self, "method", method), what)
  local b = column(self, check_method("difference", self, "other", other), what)
  if type(a[1]) ~= "number" then
    core.error(("difference: what must be a number of the rows, got %s"):format(tostring(what)))
  end
  local list = {}
  for k = 1, #a do list[k] = a[k] - b[k] end
  return mean_and_error(list)
end

function class:__tostring()
  local lines = { ("%-9s %22s %22s %12s %9s"):format("method", "log-likelihood", "error", "bound", "seconds") }
  local function text(e)
    return e.se == e.se and ("%.4f +- %.4f"):format(e.value, e.se) or ("%.4f"):format(e.value)
  end
  for _, method in ipairs(self.methods) do
    local name = name_of(method)
    lines[#lines + 1] = ("%-9s %22s %22s %12.6g %9.3g"):format(name, text(self:mean(name, "log_likelihood")),
      text(self:mean(name, "error")), self:mean(name, "bound").value, self:mean(name, "seconds").value)
  end
  return table.concat(lines, "\n")
end

core.namespace("a comparison", methods)

return side_by_side
