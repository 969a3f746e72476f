--- Optimisers: `opt = optim.adam(net:parameters(), {lr = 1e-3})`, then `opt:step(loss)` per step.
--- sgd, adam, adamw, amsgrad, nadam, radam, adamax, rmsprop, adagrad, adadelta, rprop, muon (matrices by orthogonal
--- steps, the rest by AdamW); lbfgs, with a line search; sgld, psgld, sghmc, whose steps draw
--- from a posterior (pn.help "adam" and so on). What is trained is a list of parameters, as
--- net:parameters() gives, a table name -> parameter, or anything that holds parameters: a network, a flow, a
--- distribution, a list of these.
---
---     opt:step(loss)      clears gradients, differentiates, updates; returns the loss as a number
---     opt:apply(grads)    the update alone, from a list of gradients (false: that parameter rests)
---     opt.lr = 1e-4       options are fields that may be read and set
---     opt:parameters()    the list it was given
---     opt:state()         table of tensors to save; opt:load_state(t) goes on exactly there
---
--- Parameter groups have options of their own; lr_scale is a factor of the rate that the others have:
---
---     optim.adamw(net, {lr = 1e-3, groups = {
---       {net.head, lr_scale = 0.1}, {{net.a.bias, net.b.bias}, weight_decay = 0}, {net.frozen, lr = 0}}})
---
--- A gradient that is not finite raises, naming the parameter and the operation where the first such
--- number arose; parameters and state are then as they were.
-- help: pn.optim, part
local core = require "penumbra.core"
local form = require "penumbra.form"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local average = require "penumbra.optim.average"
local lbfgs = require "penumbra.optim.lbfgs"
local plateau = require "penumbra.optim.plateau"

local optim = {}

-- Is it a list of tensors alone, as net:parameters() gives? `names` may stand beside.
local function is_list(t)
  for key, v in next, t do
    local position = math.type(key) == "integer" and core.is_tensor(v)
    if not position and not (key == "names" and type(v) == "table") then
      return false
    end
  end
  return #t > 0
end

-- What stands in a table is to be trained: a constant among it is a mistake.
local function check_members(where, t)
  for key, v in next, t do
    local kind = type(v)
    if math.type(key) ~= "integer" then
      options.argument(where, "name of a parameter", key, "string")
    end
    if kind ~= "table" and kind ~= "userdata" then
      core.error(("%s: parameters: '%s' must be a tensor, a network or a list, got %s"):format(where, tostring(key),
        kind))
    elseif core.is_tensor(v) and not v:is_param() then
      core.error(("%s: parameters: '%s' must be a parameter (pn.param), got a plain tensor"):format(where,
        tostring(key)))
    end
  end
end

-- Whatever holds parameters, as their list and their names.
local function read_parameters(where, given)
  if type(given) ~= "table" and type(given) ~= "userdata" then
    core.error(("%s: parameters must be a list of tensors or a network, got %s"):format(where, type(given)))
  end
  if core.is_tensor(given) then
    core.error(("%s: parameters must be a list of tensors, got one tensor (write {w})"):format(where))
  end
  if type(given) == "table" and not getmetatable(given) then
    if is_list(given) then
      return given, given.names
    end
    check_members(where, given)
  end
  local list = parameters.list(given)
  if #list == 0 then
    core.error(where .. ": there is no parameter in what was given (pn.param makes one)")
  end
  return list, list.names
end

-- {betas = {b1, b2}} is another way to write {beta1 =, beta2 =}.
local function read_options(where, given)
  if type(given) ~= "table" or given.betas == nil then
    return given
  end
  local betas, out = given.betas, {}
  if type(betas) ~= "table" or #betas ~= 2 then
    core.error(where .. ": betas must be a list of two numbers")
  end
  for key, value in pairs(given) do
    out[key] = value
  end
  out.betas, out.beta1, out.beta2 = nil, betas[1], betas[2]
  return out
end

-- Takes `groups` out of the options: the options without it, and the list of groups.
local function take_groups(where, given)
  local groups = type(given) == "table" and rawget(given, "groups")
  if not groups then
    return given
  end
  options.argument(where, "groups", groups, "table")
  local rest = {}
  for key, value in next, given do
    rest[key] = key ~= "groups" and value or nil
  end
  return rest, groups
end

-- The options of group g for the parameters at the places `at` (identity -> number in the list).
local function set_group(where, opt, g, group, at, taken)
  if type(group) ~= "table" or group[1] == nil then
    core.error(("%s: groups[%d] must be a table {what, option = value...}"):format(where, g))
  end
  local what = group[1]
  local list = parameters.list(core.is_tensor(what) and { what } or what)
  if #list == 0 then
    core.error(("%s: groups[%d]: there is no parameter in it"):format(where, g))
  end
  for k, w in ipairs(list) do
    local i = at[core.identity(w)]
    if not i then
      core.error(("%s: groups[%d]: '%s' is none of this optimiser's parameters"):format(where, g, list.names[k]))
    elseif taken[i] then
      core.error(("%s: groups[%d]: '%s' stands in groups[%d] too"):format(where, g, list.names[k], taken[i]))
    end
    taken[i] = g
    for key, value in next, group do
      if key ~= 1 then
        if type(key) ~= "string" or type(value) ~= "number" then
          core.error(("%s: groups[%d]: '%s' must be a number, got %s"):format(where, g, tostring(key), type(value)))
        end
        opt:set_own(i, key, value)
      end
    end
  end
end

for _, row in ipairs(core.optimiser_rows()) do
  optim[row.name] = function(trained, given)
    local list, names = read_parameters(row.name, trained)
    local rest, groups = take_groups(row.name, read_options(row.name, given))
    local opt = core.new_optim(row.name, list, names, rest)
    local at, taken = {}, {}
    for i, w in ipairs(groups and list or {}) do
      at[core.identity(w)] = i
    end
    for g, group in ipairs(groups or {}) do
      set_group(row.name, opt, g, group, at, taken)
    end
    return opt
  end
end

--- L-BFGS with a line search that meets the strong Wolfe conditions, for losses that are the same at each call:
---
---     local opt = optim.lbfgs(net, {history = 20})
---     for _ = 1, 10 do print(opt:step(function() return loss(net, x, y) end)) end
---
--- opt:step(f) does up to max_steps (20) iterations, fewer when the largest element of the gradient is at most
--- tolerance_grad (1e-7), or that of the step, or the change of the loss, below tolerance_change (1e-9), or after
--- max_evaluations (5 / 4 of max_steps) calls of f; it gives the loss afterwards. lr (1) scales the first trial of
--- each line search; history (100) is the number of pairs kept. Liu & Nocedal 1989; Nocedal & Wright 2006, chapter 7.
function optim.lbfgs(trained, given)
  return lbfgs.new(read_parameters("lbfgs", trained), given)
end

--- An average of parameters over steps: of all (Polyak, SWA), or with {decay = 0.999} one that forgets (EMA).
---
---     local mean = optim.average(net, {decay = 0.999})
---     opt:step(loss) mean:update()                       -- at each step
---     mean:with(function() print(validate()) end)        -- the network with the averages
---     mean:apply()                                       -- at the end
function optim.average(trained, given)
  local list, names = read_parameters("average", trained)
  return average.new(list, names, given)
end

local methods = core.optimiser_methods

--- Table key -> tensor: "step" (the updates that each parameter has had) and, per parameter, the
--- optimiser's arrays, as "m.1.weight". Copies: later steps do not change them.
function methods:state()
  local state = {}
  for i = 1, self:num_states() do
    local key, value = self:state_at(i)
    state[key] = value
  end
  return state
end

--- Restores what state() gave. Missing, extra and misshapen entries raise, and so do numbers that no optimiser has
--- (negative sums of squares or counts of steps); then nothing has changed.
function methods:load_state(state)
  options.argument("load_state", "state", state, "table")
  local fields, keys = {}, {}
  for i = 1, self:num_states() do
    local key, now = self:state_at(i)
    fields[key], keys[i] = form.tensor { like = now }, key
  end
  form.check("load_state", "state", state, form.record(fields, "part of this optimiser's state"))
  for i, key in ipairs(keys) do self:check_state_at(i, state[key]) end
  for i, key in ipairs(keys) do self:set_state_at(i, state[key]) end
  return self
end

core.public(methods)

core.set_tostring("penumbra.optimiser", function(opt)
  local parts = {}
  for _, row in ipairs(core.optimiser_rows()) do
    for _, option in ipairs(row.name == opt:type() and row.options or {}) do
      if option.name == "lr" or opt[option.name] ~= option.default then
        parts[#parts + 1] = ("%s = %s"):format(option.name, tostring(opt[option.name]))
      end
    end
  end
  return ("%s(%s)"):format(opt:type(), table.concat(parts, ", "))
end)

-- ---- schedules: functions of the step (from 1) that give a learning rate: opt.lr = schedule(step) ----

-- The schedule f of the function `where`; `numbers`: its arguments as name, value, name, value...
local function schedule(where, f, ...)
  for k = 1, select("#", ...), 2 do
    local role, value = select(k, ...)
    options.argument(where, role, value, "number")
  end
  return core.public(function(step)
    return f(options.argument(where, "step", step, "number"))
  end)
end

--- Always `rate`.
function optim.constant(rate)
  options.argument("constant", "rate", rate, "number")
  return function()
    return rate
  end
end

--- `from` times `factor` at every step: from factor^(step - 1), but not below `least` (0).
function optim.exponential(from, factor, least)
  least = least or 0
  return schedule("exponential", function(step)
    return math.max(least, from * factor ^ (step - 1))
  end, "from", from, "factor", factor, "least", least)
end

--- From `from` down to `to` along half a cosine over `steps`, then `to`. Loshchilov & Hutter 2017.
function optim.cosine(from, to, steps)
  return schedule("cosine", function(step)
    local t = math.min(1, (step - 1) / math.max(1, steps - 1))
    return to + (from - to) * 0.5 * (1 + math.cos(math.pi * t))
  end, "from", from, "to", to, "steps", steps)
end

--- From `from` to `to` in a straight line over `steps`, then `to`.
function optim.ramp(from, to, steps)
  return schedule("ramp", function(step)
    return from + (to - from) * math.min(1, (step - 1) / math.max(1, steps - 1))
  end, "from", from, "to", to, "steps", steps)
end

--- `from` times `factor` after every `every` steps.
function optim.decay(from, factor, every)
  return schedule("decay", function(step)
    return from * factor ^ ((step - 1) // every)
  end, "from", from, "factor", factor, "every", every)
end

--- Rises from 0 over `steps`, then goes on with the schedule or number `after`.
function optim.warmup(steps, after)
  if type(after) ~= "number" then
    options.argument("warmup", "after", after, "function")
  end
  return schedule("warmup", function(step)
    local rate = type(after) == "number" and after or after(math.max(1, step - steps))
    options.argument("warmup", "what 'after' gives", rate, "number")
    return step < steps and rate * step / steps or rate
  end, "steps", steps)
end

--- A rate that is `from` until the loss has not fallen for more than `patience` (10) epochs, then `factor` (0.1) of
--- it, and so on, not below `least` (0): `opt.lr = plateau:step(loss)` after each epoch. Better means below best by the
--- share `threshold` (1e-4); after a fall `cooldown` (0) epochs do not count. It has state() and load_state(t).
function optim.plateau(from, given)
  return plateau.new(from, given)
end

return optim
