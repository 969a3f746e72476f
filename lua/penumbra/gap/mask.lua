--- What an inference network may see at each step: masks of sequential posteriors q(z_t | C_t).
---
---     pn.gap.mask("partial", 25)                         x_1 ... x_t and z_(t-1)
---     pn.gap.mask("semi", 25, {prefix = 7})              at step 1 x_1 ... x_7, then as partial
---     pn.gap.mask{observations = seen, latents = "none"}   any: seen bool [T, T], row t what step t sees
---
--- Names, as the conditions of published models are commonly described:
---     full              all x, z_(t-1)
---     partial, vrnn, planet      x up to t, z_(t-1); VRNN also z before that, which tells nothing more here
---     semi              partial, but z_1 sees x_1 ... x_k, k = prefix; with hold = true each z_t sees x_1 ...
---                       x_max(t, k)
---     dks               x from t on, z_(t-1): all that matters in a state-space model
---     dvbf, slac        x_t alone, z_(t-1)
---     storn             x up to t, no z
---     dkf               all x, no z (as in its experiments)
---     mean_field        all x, no z; another name of dkf
-- help: pn.gap
local core = require "penumbra.core"
local options = require "penumbra.options"

local mask = {}

local MOST = 4096 -- steps

-- Does step t see x_s? and which z.
local kinds = {
  full = { function() return true end, "previous" },
  partial = { function(t, s) return s <= t end, "previous" },
  dks = { function(t, s) return s >= t end, "previous" },
  dvbf = { function(t, s) return s == t end, "previous" },
  storn = { function(t, s) return s <= t end, "none" },
  dkf = { function() return true end, "none" },
}
kinds.vrnn = { kinds.partial[1], "all" }
kinds.planet, kinds.semi, kinds.slac, kinds.mean_field = kinds.partial, kinds.partial, kinds.dvbf, kinds.dkf

local names = {}
for name in pairs(kinds) do names[#names + 1] = name end
table.sort(names)
--- All names, sorted.
mask.names = names

-- A matrix of whether t sees s, as lists.
local function matrix(T, sees)
  local rows = {}
  for t = 1, T do
    rows[t] = {}
    for s = 1, T do rows[t][s] = sees(t, s) end
  end
  return rows
end

local function of_name(where, name, T, o)
  options.argument(where, "conditioning", name, "string")
  local kind = kinds[name]
  if not kind then
    core.error(("%s: conditioning must be one of '%s' or a table, got '%s'%s"):format(where,
      table.concat(names, "', '"), name, options.suggestion(name, names)))
  end
  local k, note = o.prefix, nil
  if name == "semi" and not k then
    core.error(where .. ": conditioning 'semi' needs prefix, the number of steps that the first state sees")
  elseif k and name ~= "semi" and name ~= "partial" then
    core.error(("%s: prefix is of 'semi' and 'partial', got conditioning '%s'"):format(where, name))
  elseif k then
    k = options.whole(where, "prefix", k, 1)
    if k > T then
      k, note = T, ("prefix %d is longer than the %d steps: taken as %d"):format(k, T, T)
    end
  end
  k = k or 1
  return { name = name, prefix = k, note = note, latents = kind[2], observations = matrix(T, function(t, s)
    return kind[1](t, s) or s <= k and (t == 1 or o.hold)
  end) }
end

local function of_table(where, given, T)
  local o = options.check(where .. ": conditioning", given, { observations = options.required(),
    latents = options.choice("previous", "none", "all") })
  local x = core.is_tensor(o.observations) and o.observations:totable() or o.observations
  if type(x) ~= "table" or #x ~= T then
    core.error(("%s: conditioning.observations must be bool [%d, %d]"):format(where, T, T))
  end
  for t = 1, T do
    if type(x[t]) ~= "table" or #x[t] ~= T then
      core.error(("%s: conditioning.observations must be bool [%d, %d]"):format(where, T, T))
    end
    for s = 1, T do options.argument(where, ("conditioning.observations[%d][%d]"):format(t, s), x[t][s], "boolean") end
  end
  return { name = "own", prefix = 1, latents = o.latents, observations = matrix(T, function(t, s) return x[t][s] end) }
end

--- What is known of a mask: `seen` [T] lists of the steps that t sees; `nested`: is the shared posterior of each step
--- the best there is (whatever a step saw, later ones see, or need not)?
function mask.read(where, given, T, o)
  if T > MOST then
    core.error(("%s: steps must be at most %d, got %d"):format(where, MOST, T))
  end
  local m = type(given) == "table" and not given.seen and of_table(where, given, T)
    or type(given) ~= "table" and of_name(where, given, T, o or {}) or given
  if #m.observations ~= T then
    core.error(("%s: the mask is of %d steps, the sequence of %d"):format(where, #m.observations, T))
  end
  m.seen, m.nested = {}, m.latents ~= "none"
  local before = {} -- what any earlier step saw
  for t = 1, T do
    local row, future = m.observations[t], true
    m.seen[t] = {}
    for s = 1, T do
      if row[s] then m.seen[t][#m.seen[t] + 1] = s end
      future = future and (s < t or row[s])
    end
    for s in pairs(before) do
      m.nested = m.nested and (future or row[s])
    end
    for _, s in ipairs(m.seen[t]) do before[s] = true end
  end
  return m
end

--- mask(name or table, steps [, {prefix =, hold = false}]) -> {name, observations (lists of true and false), latents,
--- prefix, note, seen, nested}: see pn.help "penumbra.gap.mask". A prefix longer than the sequence is clamped, which
--- `note` says.
function mask.mask(given, steps, how)
  local o = options.check("mask", how, { prefix = options.optional "number", hold = false })
  return mask.read("mask", given, options.whole("mask", "steps", steps, 1), o)
end

return mask
