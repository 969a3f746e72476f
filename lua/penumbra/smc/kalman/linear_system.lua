--- A Gaussian linear system and its observations, read from what a script gave: the operands of the fused operations
--- of whole sequences, and the same cut, shifted and put together.
-- help: pn.smc
local core = require "penumbra.core"
local options = require "penumbra.options"

local linear_system = {}
linear_system.__index = linear_system

-- what a system consists of, and the axes that belong to one step of one series
local rank = {
  transition = 2, transition_offset = 1, transition_input = 2, transition_cov = 2,
  emission = 2, emission_offset = 1, emission_input = 2, emission_cov = 2,
  initial_mean = 1, initial_cov = 2,
}
local needed = { "transition", "transition_cov", "emission", "emission_cov" }
linear_system.rank = rank

local called = { transition_noise = "transition_cov", emission_noise = "emission_cov", a = "transition",
  b = "transition_offset", q = "transition_cov", c = "emission", d = "emission_offset", r = "emission_cov",
  mean = "initial_mean", cov = "initial_cov" }

--- Raises where a table has a key of another spelling.
function linear_system.refuse_other_words(where, given)
  for key in pairs(given) do
    if called[key] then
      core.error(("%s: %s is called %s"):format(where, key, called[key]))
    end
  end
end

local shape_text = options.shape_text

-- ---- small algebra: matrices [..., n, k], vectors [..., n] ----

--- Transposed.
function linear_system.mt(x)
  return x:transpose(-1, -2)
end
local mt = linear_system.mt

--- a x of matrices [..., n, k] and vectors [..., k].
function linear_system.apply(a, x)
  return a:matmul(x:unsqueeze(-1)):squeeze(-1)
end
local apply = linear_system.apply

--- (x + x^T) / 2.
function linear_system.symmetric(x)
  return (x + mt(x)) * 0.5
end

--- x y^T of vectors.
function linear_system.outer(x, y)
  return x:unsqueeze(-1) * y:unsqueeze(-2)
end

--- Of matrices: 1 on the diagonal, with the dtype of x.
function linear_system.unit(x, n)
  return core.eye(n, { dtype = x:dtype() })
end

--- The tensor with leading axes `lead` in front of its own last `own` axes.
function linear_system.spread(x, lead, own)
  local shape, have = { table.unpack(lead) }, x:shape()
  for axis = #have - own + 1, #have do
    shape[#shape + 1] = have[axis]
  end
  return x:broadcast_to(shape)
end

-- ---- reading ----

local function system_tensors(where, given)
  options.argument(where, "system", given, "table")
  linear_system.refuse_other_words(where, given)
  local known = { diffuse = false }
  for name in pairs(rank) do
    known[name] = false
  end
  local s = options.check(where, given, known)
  for name, own in pairs(rank) do
    local x = s[name]
    if x == false then
      s[name] = nil
    else
      x = options.numbers(where, name, x, "tensor")
      if x:ndim() < own then
        core.error(("%s: %s must have at least %d ax%s, got %s"):format(where, name, own, own == 1 and "is" or "es",
          shape_text(x)))
      end
      s[name] = x
    end
  end
  for _, name in ipairs(needed) do
    if not s[name] then
      core.error(("%s: the system needs %s"):format(where, name))
    end
  end
  local dtype = s.transition:dtype()
  if not dtype:find "^float" then
    core.error(("%s: transition must be float64 or float32, got %s (convert with :to)"):format(where, dtype))
  end
  for name in pairs(rank) do
    if s[name] and s[name]:dtype() ~= dtype then
      core.error(("%s: %s must be %s as the transition is, got %s (convert with :to)"):format(where, name, dtype,
        s[name]:dtype()))
    end
  end
  return s
end

-- The columns of what is not known at all about the state before the first step: [n, k] or nil.
local function diffuse_columns(where, given, like, n)
  if given == false or given == nil then
    return nil
  elseif given == true then
    return core.eye(n, { dtype = like:dtype() })
  elseif core.is_tensor(given) then
    if given:ndim() ~= 2 or given:size(1) ~= n then
      core.error(("%s: diffuse must be [%d, k], got %s"):format(where, n, shape_text(given)))
    end
    return given
  elseif type(given) ~= "table" or #given == 0 then
    core.error(("%s: diffuse must be true, a list of places in the state or a tensor [n, k], got %s"):format(where,
      type(given) == "table" and "an empty list" or type(given)))
  end
  local columns = {}
  for k, place in ipairs(given) do
    if options.whole(where, "diffuse[" .. k .. "]", place, 1) > n then
      core.error(("%s: diffuse[%d] must be at most %d, the order of the state, got %d"):format(where, k, n, place))
    end
    columns[k] = core.eye(n, { dtype = like:dtype() }):slice(2, place, place)
  end
  return core.concatenate(columns, 2)
end

-- The offset of a step: what is given and what the inputs u [T, batch..., m] add.
local function offset(where, s, which, u)
  local by_input, own = s[which .. "_input"], s[which .. "_offset"]
  if not by_input then
    return own
  elseif not u then
    core.error(("%s: %s_input needs the option inputs, [T, ..., %d]"):format(where, which, by_input:size(-1)))
  end
  local added = apply(by_input, u)
  return own and added + own or added
end

local known_options = { inputs = false, observed = false, first = options.choice("initial", "predicted") }
linear_system.known_options = known_options

--- The options that all functions of sequences have, checked, with `more` of the function's own.
function linear_system.options(where, given, more)
  linear_system.refuse_missing(where, given)
  return options.check(where, given, options.merged(known_options, more or {}))
end

--- Raises where options still say what NaN means.
function linear_system.refuse_missing(where, given)
  if type(given) == "table" and given.missing ~= nil and given.missing ~= false then
    core.error(where .. ": option missing has gone: NaN in y is missing by itself")
  end
end

--- What of y was observed: a bool tensor shaped like y, or nil where all was. NaN is missing, and what `observed` says;
--- observed = true: all is there, y is not looked at.
function linear_system.observed_of(where, y, observed)
  if observed == true then
    return nil
  elseif observed == false or observed == nil then
    observed = nil
  else
    options.argument(where, "observed", observed, "tensor")
    if observed:dtype() ~= "bool" then
      core.error(("%s: observed must be bool, got %s"):format(where, observed:dtype()))
    elseif observed:ndim() == y:ndim() - 1 and y:size(-1) == 1 then
      observed = observed:unsqueeze(-1)
    end
  end
  local gone = y:detach():isnan()
  if not core.capture.going_on() and not gone:any():item() then -- what is captured is replayed with other y
    return observed
  end
  return observed and observed:logical_and(gone:logical_not()) or gone:logical_not()
end

-- Checked numbers of the option `name`, nil for none.
local function numbers_option(where, o, name)
  if o[name] == false or o[name] == nil then
    return nil
  end
  return options.numbers(where, name, o[name], "tensor")
end

local function read_observations(where, self, y, o)
  y = options.numbers(where, "y", y, "tensor")
  if y:ndim() == 1 and self.p == 1 then
    y = y:unsqueeze(-1)
  end
  if y:ndim() < 2 or y:size(-1) ~= self.p then
    core.error(("%s: y must be [T, ..., %d], got %s"):format(where, self.p, shape_text(y)))
  elseif y:size(1) == 0 then
    core.error(("%s: y must have at least one step, got %s"):format(where, shape_text(y)))
  end
  if y:dtype() ~= self.a:dtype() then
    core.error(("%s: y must be %s as the system is, got %s (convert with :to)"):format(where, self.a:dtype(),
      y:dtype()))
  end
  self.observed = linear_system.observed_of(where, y, o.observed)
  self.y, self.steps, self.batch = y, y:size(1), y:ndim() - 2
end

-- The leading axes of the batch, to which all operands broadcast.
local function find_lead(self)
  local lead = {}
  for axis = 1, self.batch do
    lead[axis] = self.y and self.y:size(axis + 1) or 1
  end
  for name, own in pairs { a = 2, q = 2, c = 2, r = 2, b = 1, d = 1, mean = 1, cov = 2 } do
    local x = self[name]
    local have = x and x:ndim() - own or 0
    for axis = 1, self.batch do
      local at = have - self.batch + axis
      if at >= 1 and x:size(at) ~= 1 then
        lead[axis] = math.max(lead[axis], x:size(at))
      end
    end
  end
  return lead
end

-- Each part of a system ends as it must; m: elements of inputs, or false.
local function check_sizes(where, s, m)
  local n, p = s.transition:size(-1), s.emission:size(-2)
  local want = { transition = { n, n }, transition_offset = { n }, transition_input = { n, m },
    transition_cov = { n, n }, emission = { p, n }, emission_offset = { p }, emission_input = { p, m },
    emission_cov = { p, p }, initial_mean = { n }, initial_cov = { n, n } }
  for name, own in pairs(rank) do
    local x = s[name]
    for axis = 1, x and own or 0 do
      local size = want[name][axis]
      if size and x:size(axis - own - 1) ~= size then
        core.error(("%s: %s must be [..., %s], got %s"):format(where, name,
          table.concat({ want[name][1], want[name][2] or nil }, ", "), shape_text(x)))
      end
    end
  end
end

--- The parts of a system that a script gave, tensors that fit each other; needs initial_cov or diffuse.
function linear_system.parts(where, given)
  local s = system_tensors(where, given)
  check_sizes(where, s, (s.transition_input or s.emission_input) and (s.transition_input or s.emission_input):size(-1))
  diffuse_columns(where, s.diffuse, s.transition, s.transition:size(-1))
  if not (s.initial_cov or s.diffuse) then
    core.error(("%s: the system needs initial_cov, or diffuse"):format(where))
  end
  return s
end

-- The same, and no part has more axes than time and the batch; a time axis is steps or 1.
local function check_shapes(self)
  local where, s = self.where, self.given
  check_sizes(where, s, self.inputs and self.inputs:size(-1) or false)
  for name, own in pairs(rank) do
    local x = s[name]
    local lead, most = x and x:ndim() - own or 0, self.batch + (name:find "^initial" and 0 or 1)
    if lead > most then
      core.error(("%s: %s must have at most %d axes before its own (%s), got %s"):format(where, name, most,
        name:find "^initial" and "the batch's" or "time and the batch's", shape_text(x)))
    elseif lead > self.batch and x:size(1) ~= 1 and x:size(1) ~= self.steps then
      core.error(("%s: %s must have a time axis of %d or 1, got %s"):format(where, name, self.steps, shape_text(x)))
    end
  end
end

--- What a call is about: the system's operands by the names of pn.kalman_step (a, b, q, c, d, r; mean, cov), y
--- [T, batch..., p], observed, steps T, batch (axes), lead (their sizes), n, p, predicted (is the initial state that
--- of the first observation?), diffuse [n, k]. Without y the number of steps is o.steps.
function linear_system.read(where, system, y, o)
  local s = system_tensors(where, system)
  local self = setmetatable({ where = where, given = s, a = s.transition, q = s.transition_cov, c = s.emission,
    r = s.emission_cov, n = s.transition:size(-1), p = s.emission:size(-2) }, linear_system)
  self.inputs = numbers_option(where, o, "inputs")
  self.predicted = o.first == "predicted"
  self.diffuse = diffuse_columns(where, s.diffuse, s.transition, self.n)
  local zero = { dtype = s.transition:dtype() }
  self.mean, self.cov = s.initial_mean, s.initial_cov
  if not (self.cov or self.diffuse) then
    core.error(("%s: the system needs initial_cov, or diffuse"):format(where))
  end
  self.mean = self.mean or core.zeros({ self.n }, zero)
  self.cov = self.cov or core.zeros({ self.n, self.n }, zero)
  if y ~= nil or not o.steps then
    read_observations(where, self, y, o)
  else
    self.steps, self.batch = o.steps, o.batch or 0
  end
  check_shapes(self)
  self.b, self.d = offset(where, s, "transition", self.inputs), offset(where, s, "emission", self.inputs)
  self.lead = find_lead(self)
  return self
end

--- The same with other fields.
function linear_system:with(fields)
  return setmetatable(options.merged(self, fields), linear_system)
end

-- ---- time ----

local own_axes = { a = 2, b = 1, q = 2, c = 2, d = 1, r = 2, y = 1, observed = 1 }

--- Has operand `name` an axis of time?
function linear_system:timed(name)
  local x = self[name]
  return x ~= nil and x:ndim() - own_axes[name] > self.batch
end

--- Operand `name` at the steps from first to last; itself where it does not change with time.
function linear_system:between(name, first, last)
  local x = self[name]
  if not self:timed(name) or x:size(1) == 1 then
    return x
  end
  return x:slice(1, first, last)
end

--- Operand `name` at one step, without an axis of time.
function linear_system:at(name, step)
  local x = self[name]
  if not self:timed(name) then
    return x
  end
  return x:select(1, x:size(1) == 1 and 1 or step)
end

--- All of the system at the steps from `first` to `last` (the end).
function linear_system:from(first, last)
  last = last or self.steps
  local cut = { steps = last - first + 1 }
  for name in pairs(own_axes) do
    cut[name] = self:between(name, first, last)
  end
  return self:with(cut)
end

--- The emission without the rows of what is missing.
function linear_system:seen_emission()
  if not self.observed then
    return self.c
  end
  return self.c * self.observed:to(self.c:dtype()):unsqueeze(-1)
end

return linear_system
