--- Beliefs of several sources about one latent variable, as the functions of pn.fusion take them: a table from names to
--- normal distributions, or a list. They are gone through in the order of their names, so that the order of the table
--- changes nothing, to the bit.
-- help: nowhere
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local options = require "penumbra.options"

local named_beliefs = {}

local natural = dist.natural

local shape_text = options.shape_text

--- ordered(t): the keys of t in order: numbers, then names.
function named_beliefs.ordered(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if type(a) == type(b) then
      return a < b
    end
    return type(a) == "number"
  end)
  return keys
end

--- quoted(name): 'camera', or 3 of a list.
function named_beliefs.quoted(name)
  return type(name) == "number" and tostring(name) or ("'%s'"):format(tostring(name))
end

-- The Gaussian factor of a belief, which must have a positive precision.
local function factor_of(where, name, belief)
  local ok, s = true, belief
  if not natural.is(belief) then
    ok, s = pcall(natural.of, belief)
  end
  if not ok or type(s) ~= "userdata" then
    core.error(("%s: the belief of source %s must be a normal distribution or a Gaussian factor, got %s"):format(where,
      named_beliefs.quoted(name), dist.is(belief) and belief.name or type(belief)))
  end
  if s == belief then
    local proper, message = pcall(s.to_distribution, s)
    if not proper then
      core.error(("%s: the precision of source %s must be positive%s"):format(where, named_beliefs.quoted(name),
        tostring(message):match ", got .*$" or ""))
    end
    return s, message
  end
  return s, belief
end

--- size(event_shape, form): numbers in the latent variable.
local function size_of(s) return s.form == "scalar" and 0 or s.precision_mean:size(-1) end

--- read(where, beliefs): a list of {name =, law =, factor =} in the order of names, all about latents of one size.
function named_beliefs.read(where, beliefs)
  options.argument(where, "beliefs", beliefs, "table")
  local list = {}
  for k, name in ipairs(named_beliefs.ordered(beliefs)) do
    local s, law = factor_of(where, name, beliefs[name])
    list[k] = { name = name, law = law, factor = s }
    if size_of(s) ~= size_of(list[1].factor) then
      core.error(("%s: the belief of source %s must be about as many numbers as that of %s, %d, got %d"):format(where,
        named_beliefs.quoted(name), named_beliefs.quoted(list[1].name), size_of(list[1].factor), size_of(s)))
    end
  end
  return list
end

--- prior(where, prior, list): the prior as {law =, factor =}: a normal distribution like the beliefs.
function named_beliefs.prior(where, prior, list)
  if prior == nil then
    core.error(where .. ": option 'prior' is required: the normal distribution that all beliefs already count")
  end
  local s, law = factor_of(where, "the prior", prior)
  if list[1] and size_of(s) ~= size_of(list[1].factor) then
    core.error(("%s: prior must be about as many numbers as the beliefs, %d, got %d"):format(where,
      size_of(list[1].factor), size_of(s)))
  end
  return { law = law, factor = s }
end

-- One mask of a table by names, checked.
local function mask_of(where, name, mask, batch)
  if type(mask) == "boolean" then
    mask = core.tensor(mask)
  end
  local shape = core.is_tensor(mask) and mask:shape()
  local fits = shape and mask:dtype() == "bool" and #shape <= #batch
  for k = 1, fits and #shape or 0 do
    fits = fits and (shape[#shape + 1 - k] == batch[#batch + 1 - k] or shape[#shape + 1 - k] == 1)
  end
  if not fits then
    core.error(("%s: observed of source %s must be true, false or bool of shape %s, got %s"):format(where,
      named_beliefs.quoted(name), shape_text(batch), shape and mask:dtype() .. " " .. shape_text(shape) or type(mask)))
  end
  return mask
end

--- batch_shape(list, prior): that which all beliefs (and the prior) broadcast to.
function named_beliefs.batch_shape(list, prior)
  local batch = {}
  local function widen(shape)
    for k = 1, #shape do
      local at = #batch + 1 - k
      if at < 1 then
        table.insert(batch, 1, shape[#shape + 1 - k])
      elseif batch[at] == 1 then
        batch[at] = shape[#shape + 1 - k]
      end
    end
  end
  for _, e in ipairs(list) do widen(e.law.batch_shape) end
  if prior then
    widen(prior.law.batch_shape)
  end
  return batch
end

--- masks(where, observed, list, batch): e.mask of each of the list: a bool tensor that fits the batch, or nil where the
--- source is there for all. observed: a table from names to bools or bool tensors (batch), or one bool tensor [batch,
--- M] whose last axis counts the sources in the order of their names.
function named_beliefs.masks(where, observed, list, batch)
  if observed == nil then
    return
  end
  if core.is_tensor(observed) then
    local shape = observed:shape()
    if observed:dtype() ~= "bool" or shape[#shape] ~= #list or #shape > #batch + 1 then
      local want = table.move(batch, 1, #batch, 1, {})
      want[#want + 1] = #list
      core.error(("%s: observed must be bool of shape %s, one for each of %d sources, got %s %s"):format(where,
        shape_text(want), #list, observed:dtype(), shape_text(shape)))
    end
    for k, e in ipairs(list) do e.mask = mask_of(where, e.name, observed:select(-1, k), batch) end
    return
  end
  options.argument(where, "observed", observed, "table")
  local known, names = {}, {}
  for k, e in ipairs(list) do known[e.name], names[k] = e, tostring(e.name) end
  for name, mask in pairs(observed) do
    if not known[name] then
      core.error(("%s: observed names the source %s, which has no belief%s"):format(where, named_beliefs.quoted(name),
        options.suggestion(name, names)))
    end
    known[name].mask = mask_of(where, name, mask, batch)
  end
end

--- present(list, batch, dtype): [batch, M], 1 where a source is there, else 0.
function named_beliefs.present(list, batch, dtype)
  local columns = {}
  for k, e in ipairs(list) do
    columns[k] = e.mask and e.mask:to(dtype):broadcast_to(batch) or core.ones(batch, { dtype = dtype })
  end
  return core.stack(columns, -1)
end

return named_beliefs
