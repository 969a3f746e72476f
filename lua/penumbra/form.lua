--- What a value must be that was read, declared once and looked at before anything uses it: values out of files are
--- checked as values out of scripts are.
---
---     local run = form.record { step = form.whole(0), losses = form.tensor { shape = { -1 }, finite = true },
---       memory = form.optional(form.record { ... }) }
---     local wrong = form.misfits(saved, run)          -- { "'losses' must be finite" }, {} if nothing is wrong
---     form.check("load_state", "state", saved, run)   -- raises at the script's line
---     local made, message, code = form.guarded("load: 'a' does not fit", f, ...)
---
--- A form is a function (value, name, wrong) that adds a phrase to the list `wrong` for everything that does not fit.
-- help: nowhere
local core = require "penumbra.core"

local form = {}

local MOST = 8 -- phrases of one message

local function said(name, what) return ("%s must %s"):format(name, what) end

local function kind_of(v)
  if core.is_tensor(v) then
    return ("%s of shape [%s]"):format(v:dtype(), table.concat(v:shape(), ", "))
  elseif type(v) == "number" or type(v) == "boolean" then
    return tostring(v)
  elseif type(v) == "string" then
    return ("'%s'"):format(#v > 40 and v:sub(1, 37) .. "..." or v)
  end
  return type(v) == "userdata" and tostring(getmetatable(v)):gsub("^penumbra%.", "") or type(v)
end

-- Adds "'x' is missing" or "'x' must be ..., got ...".
local function refuse(v, name, wrong, what)
  wrong[#wrong + 1] = v == nil and name .. " is missing" or ("%s, got %s"):format(said(name, what), kind_of(v))
end

-- ---- numbers and texts ----

--- number{above =, least =, most =}: a finite number; bounds that it may not reach, or not pass.
function form.number(o)
  o = o or {}
  local above, least, most = o.above or -math.huge, o.least or -math.huge, o.most or math.huge
  local what = "be a finite number"
  if o.above then
    what = what .. (" above %g"):format(above)
  elseif o.least then
    what = what .. (" from %g on"):format(least)
  end
  what = o.most and what .. (" up to %g"):format(most) or what
  return function(v, name, wrong)
    if type(v) ~= "number" or v - v ~= 0 or not (v > above and v >= least and v <= most) then
      refuse(v, name, wrong, what)
    end
  end
end

--- whole(least [, most]): an integer in this range; up to 2^53 unless told.
function form.whole(least, most)
  most = most or 1 << 53
  return function(v, name, wrong)
    if math.type(v) ~= "integer" or v < least or v > most then
      refuse(v, name, wrong, ("be a whole number from %d to %d"):format(least, most))
    end
  end
end

--- Any integer: those of a generator's state.
function form.integer(v, name, wrong)
  if math.type(v) ~= "integer" then
    refuse(v, name, wrong, "be a whole number")
  end
end

--- true or false.
function form.boolean(v, name, wrong)
  if type(v) ~= "boolean" then
    refuse(v, name, wrong, "be true or false")
  end
end

--- text(...): one of these; any string without.
function form.text(...)
  local allowed, n = {}, select("#", ...)
  local what = "be a string"
  for k = 1, n do allowed[select(k, ...)] = true end
  if n > 0 then what = ("be one of '%s'"):format(table.concat({ ... }, "', '")) end
  return function(v, name, wrong)
    if type(v) ~= "string" or n > 0 and not allowed[v] then
      refuse(v, name, wrong, what)
    end
  end
end

-- ---- tensors ----

local function all(t) return t:all():item() end

-- What the numbers of t must be; nil if they are.
local function wrong_numbers(t, o)
  if t:numel() == 0 then
    return o.nonempty and "not be empty" or nil
  end
  if (o.positive or o.least or o.most) and not t:dtype():find "^float" then
    t = t:to "float64"
  end
  if o.finite and not all(t:isfinite()) then
    return "be finite"
  elseif o.positive and not all(t:gt(0)) then
    return "be positive"
  elseif o.least and not all(t:ge(o.least)) then
    return ("be %g or more"):format(o.least)
  elseif o.most and not all(t:le(o.most)) then
    return ("be %g or less"):format(o.most)
  end
end

local function fits(shape, t)
  local got = t:shape()
  for k = 1, #shape do
    if got[k] ~= shape[k] and not (shape[k] == -1 and got[k]) then
      return false
    end
  end
  return #got == #shape
end

local function shape_text(shape) return ("[%s]"):format(table.concat(shape, ", "):gsub("%-1", "any")) end

--- tensor{dtype =, shape =, like =, finite =, positive =, least =, most =, nonempty =}: a tensor; of a dtype (or one of
--- a list), a shape (-1: any size), or those of another one; numbers that are finite, above 0, not below or not above a
--- number.
function form.tensor(o)
  local shape, dtype = o.like and o.like:shape() or o.shape, o.like and o.like:dtype() or o.dtype
  local dtypes = type(dtype) == "table" and dtype or { dtype }
  return function(t, name, wrong)
    if not core.is_tensor(t) then
      return refuse(t, name, wrong, "be a tensor")
    end
    local before, known = #wrong, #dtypes == 0
    for _, each in ipairs(dtypes) do known = known or t:dtype() == each end
    if not known then
      wrong[#wrong + 1] = ("%s, got %s"):format(said(name, "be " .. table.concat(dtypes, " or ")), t:dtype())
    end
    if shape and not fits(shape, t) then
      wrong[#wrong + 1] = ("%s, got %s"):format(said(name, "have shape " .. shape_text(shape)), shape_text(t:shape()))
    end
    local what = #wrong == before and wrong_numbers(t, o)
    if what then
      wrong[#wrong + 1] = said(name, what)
    end
  end
end

-- ---- tables ----

local function sorted(t)
  local keys = {}
  for key in next, t do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return keys
end

-- 'a.b' within 'a'.
local function within(name, key)
  return name:sub(-1) == "'" and ("%s.%s'"):format(name:sub(1, -2), tostring(key)) or ("'%s'"):format(tostring(key))
end

local function plain_table(v, name, wrong)
  if type(v) ~= "table" then
    refuse(v, name, wrong, "be a table")
    return false
  end
  return true
end

--- record(fields [, what]): a table with these fields, each of its form, and no others; `what` says of what others are
--- no part: "is not part of <what>".
function form.record(fields, what)
  local names = sorted(fields)
  return function(v, name, wrong)
    if not plain_table(v, name, wrong) then
      return
    end
    for _, key in ipairs(names) do
      fields[key](v[key], within(name, key), wrong)
    end
    for _, key in ipairs(sorted(v)) do
      if not fields[key] then
        wrong[#wrong + 1] = ("%s is not %s"):format(within(name, key), what or "part of it")
      end
    end
  end
end

--- map(f): a table from any strings to values of this form.
function form.map(f)
  return function(v, name, wrong)
    for _, key in ipairs(plain_table(v, name, wrong) and sorted(v) or {}) do
      if type(key) ~= "string" then
        wrong[#wrong + 1] = ("%s must have names, got %s"):format(name, tostring(key))
      end
      f(v[key], within(name, key), wrong)
    end
  end
end

--- list(f [, n]): a list of values of this form; of n of them.
function form.list(f, n)
  return function(v, name, wrong)
    if not plain_table(v, name, wrong) then
      return
    end
    local count = 0
    for _ in next, v do count = count + 1 end
    if count ~= #v or n and count ~= n then
      wrong[#wrong + 1] = said(name, ("be a list%s"):format(n and (" of %d"):format(n) or ""))
      return
    end
    for k = 1, #v do
      f(v[k], within(name, k), wrong)
      if #wrong > MOST then
        return
      end
    end
  end
end

--- Anything that is there.
function form.any(v, name, wrong)
  if v == nil then
    wrong[#wrong + 1] = name .. " is missing"
  end
end

--- refused(what): no value: each must be something else.
function form.refused(what)
  return function(_, name, wrong) wrong[#wrong + 1] = said(name, what) end
end

--- optional(f): nothing, or a value of this form.
function form.optional(f)
  return function(v, name, wrong)
    if v ~= nil then
      f(v, name, wrong)
    end
  end
end

--- The state of a generator.
form.generator = form.list(form.integer, 2)

-- ---- looking ----

--- misfits(value, f [, role]): what of the value, called `role` ("it"), does not fit, a list of phrases.
function form.misfits(value, f, role)
  local wrong = {}
  f(value, role or "it", wrong)
  return wrong
end

--- The phrases as one text; of a long list the beginning.
function form.text_of(wrong)
  local more = #wrong - MOST
  return table.concat(wrong, "; ", 1, math.min(#wrong, MOST)) .. (more > 0 and ("; and %d more"):format(more) or "")
end

--- check(where, role, value, f): raises unless the argument `role` fits. Returns it.
function form.check(where, role, value, f)
  local wrong = form.misfits(value, f, role)
  if #wrong > 0 then
    core.error(("%s: %s"):format(where, form.text_of(wrong)))
  end
  return value
end

-- ---- doing ----

--- reason(message): an error's text without its place and the name of the function that raised it.
function form.reason(message)
  return (tostring(message):gsub("^[^\n]-:%d+: ", ""):gsub("^[%w_.]+: ", ""))
end

--- passes_on(message): is it of what a host has ended, or of memory that was not there: no fault of a file?
function form.passes_on(message)
  local status = core.raised_status(message)
  return status == "cancelled" or status == "time" or status == "memory" or message == "not enough memory"
end

--- guarded(lead, f, ...): what f gives; or nil, "<lead>: <why>", "format" where the values that it makes something of
--- are refused. For functions of ours, which raise for what does not fit.
function form.guarded(lead, f, ...)
  local results = table.pack(pcall(f, ...))
  if results[1] then
    return table.unpack(results, 2, results.n)
  elseif form.passes_on(results[2]) then
    error(results[2], 0)
  end
  return nil, ("%s: %s"):format(lead, form.reason(results[2])), "format"
end

--- all_or_nothing(steps): calls step.load() of each in turn; after an error step.undo() of this one and those before
--- it, whatever one of them raises. Returns true, or false, the error and the step.
function form.all_or_nothing(steps)
  for i, step in ipairs(steps) do
    local ok, message = pcall(step.load)
    if not ok then
      for k = i, 1, -1 do pcall(steps[k].undo) end
      return false, message, step
    end
  end
  return true
end

return form
