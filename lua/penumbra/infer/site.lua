--- A site of a model as a run meets it: its name, its place among plates, its value, and the density of that.
-- help: nowhere
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local options = require "penumbra.options"

local shape_text = options.shape_text

local function refuse(kind, format, ...)
  core.error(("%s: " .. format):format(kind, ...))
end

-- The name of a site within the loops of m:scan around it.
local function full_name(m, kind, name)
  if type(name) ~= "string" or name == "" then
    refuse(kind, "the first argument must be the site's name, a string, got %s", type(name))
  end
  return m.step == "" and name or name .. m.step
end

-- From here on the run meets other sites than the last one of its kind: what it has met stands in lists of its own.
local function part(m)
  local sites, order = {}, {}
  for k = 1, m.count do
    local site = m.order[k]
    sites[site.name], order[k] = site, site
  end
  m.sites, m.order = sites, order
end

-- A run in the tables of the last one (trace.run) finds a site where that one had it.
local function add_site(m, kind, name)
  local known = m.order[m.count + 1]
  if known then
    if known.base == name and known.kind == kind and known.plates == m.plates and known.step == m.step then
      m.count = m.count + 1
      return known
    end
    part(m)
  end
  local full = full_name(m, kind, name)
  local old = m.sites[full]
  if old then
    refuse(kind, "there is a site '%s' already%s: each needs a name of its own (in a loop over time use m:scan)", full,
      old.where ~= "" and ", at " .. old.where or "")
  end
  local where = m.how.locate and core.script_line() or ""
  if kind == "sample" or kind == "observe" then -- (with room for what is said later)
    return { kind = kind, name = full, base = name, step = m.step, time = m.time, scale = m.scale, plates = m.plates,
      where = where, value = nil, dist = nil }
  end
  return { kind = kind, name = full, base = name, step = m.step, time = m.time, scale = m.scale, plates = m.plates,
    where = where, value = nil }
end

-- Returns the site's value.
local function keep_site(m, site)
  local k, order = m.count, m.order
  if order[k] ~= site then
    m.sites[site.name], order[k + 1], m.count = site, site, k + 1
  end
  return site.value
end

-- d repeated along the plates around it, some of which it lacks.
local function along_plates(m, d, batch)
  local depth, want = #m.plates, {}
  for k = 1, #batch - depth do
    want[k] = batch[k]
  end
  for k = depth, 1, -1 do
    want[#want + 1] = m.plates[k].rows
  end
  return d:expand(want)
end

-- The distribution with the axes of the plates around it.
local function within_plates(m, kind, name, d)
  local plates, strict = m.plates, m.strict
  local depth = #plates
  if depth == 0 and not strict then
    return d
  end
  local batch = d.batch_shape
  local n = #batch
  local same = n >= depth
  for k = 1, depth do
    local plate, size = plates[k], batch[n - k + 1] or 1
    if size ~= plate.rows and size ~= 1 then
      refuse(kind, "'%s' has batch shape %s, whose axis %d must have the %d rows of plate '%s', got %d%s", name,
        shape_text(batch), -k, plate.rows, plate.name, size,
        #d.event_shape == 0 and " (axes of one value are joined by :independent(1))" or "")
    end
    same = same and size == plate.rows
  end
  if strict and n > m.most + (m.enumerated or m.particles and 1 or 0) then
    refuse(kind, "'%s' has batch shape %s, more axes than there are plates: with particles or enumeration axes of "
      .. "one value must be joined by :independent(%d), or stand in a plate", name, shape_text(batch), n - m.most)
  end
  return same and d or along_plates(m, d, batch)
end

-- An axis left of all plates that is as long as one of them: a column [n, 1] has met the rows [n] of a plate.
local function check_beside_plates(m, kind, name, shape, what)
  for k = #m.plates + 1, #shape do
    for _, plate in ipairs(m.plates) do
      if shape[#shape - k + 1] == plate.rows and plate.rows > 1 then
        refuse(kind, "'%s' has %s %s, whose axis %d, left of all plates, has the %d rows of plate '%s', too: a column "
          .. "[%d, 1] becomes rows by squeeze(-1), axes of one value are joined by :independent(k), and another plate "
          .. "makes rows of both", name, what, shape_text(shape), -k, plate.rows, plate.name, plate.rows)
      end
    end
  end
end

-- Each number that was seen counts once: a law that has more axes, or longer ones, than the value would repeat it. In
-- plates their shapes agree exactly. (A number of Lua stands for any shape.)
local function check_counted_once(m, site, d, value)
  local batch, event = d.batch_shape, d.event_shape
  local want, have = table.move(event, 1, #event, #batch + 1, table.move(batch, 1, #batch, 1, {})), value:shape()
  local exact, repeated = #have == #want, 1
  for k = 1, #want do
    local size, own = want[#want - k + 1], have[#have - k + 1] or 1
    exact = exact and size == own
    repeated = size ~= own and own == 1 and repeated * size or repeated
  end
  if repeated > 1 or #m.plates > 0 and not exact then
    refuse(site.kind, "'%s' has values of shape %s and a distribution of batch shape %s and event shape %s, of which "
      .. "they must have %s: %s (a column [n, 1] becomes a vector by squeeze(-1); axes of one value are joined by "
      .. ":independent(k))", site.name, shape_text(have), shape_text(batch), shape_text(event), shape_text(want),
      repeated > 1 and ("each would count %d times"):format(repeated)
        or "the rows of plates are counted from the right")
  end
  check_beside_plates(m, site.kind, site.name, batch, "batch shape")
end

-- Repeats d along the axis of particles unless an earlier draw has brought it.
local function with_particles(m, d)
  if not m.particles then
    return d
  end
  local batch = d.batch_shape
  if #batch > m.most then
    return d
  end
  local sizes = { m.particles }
  for k = 1, m.most do
    sizes[k + 1] = batch[#batch - m.most + k] or 1
  end
  return d:expand(sizes)
end

-- Of values of a site at all steps of the scans around it, time first, those of this step; one number is for all steps.
local function at_step(where, site, value)
  value = core.is_tensor(value) and value or core.tensor(value)
  if value:ndim() == 0 then
    return value
  end
  local whole = value
  for k, t in ipairs(site.time) do
    if value:ndim() == 0 or value:size(1) < t then
      refuse(where, "'%s' stands in m:scan: its values must be a number for all steps, or have the steps along axis "
        .. "%d, got shape %s at step %d", site.base, k, shape_text(whole), t)
    end
    value = value:select(1, t)
  end
  return value
end

-- Of a table of values by site, that of this one; sites of a scan may be given together, time first.
local function given_value(where, values, site)
  local value = values[site.name]
  if value == nil and site.time and values[site.base] ~= nil then
    return at_step(where, site, values[site.base])
  end
  if type(value) == "table" then
    value = core.tensor(value)
  elseif type(value) == "number" then
    value = core.tensor(value)
  end
  return value
end

-- Draws are reparametrised where that is possible; what a first run found is remembered for those that are captured.
local function draw(m, site, d)
  local known = m.model.reparametrised
  if m.how.detached then
    site.score = true
    return d:sample()
  elseif known[site.base] then
    return d:rsample()
  elseif known[site.base] == nil and not core.capture.going_on() then
    local ok, value = pcall(d.rsample, d)
    known[site.base] = ok
    if ok then
      return value
    end
  end
  site.score = true
  return d:sample()
end

-- Supports that no parameter moves: a value outside is a mistake, not an improbable one.
local MOVED = { interval = true, half_line = true, trials = true, integer_interval = true, atom = true, point = true,
  extended_real = true }

-- A NaN among what was seen makes the density NaN wherever a sampler looks. (Elsewhere it may be looked at.)
local function check_finite(site, value)
  local nan = value:dtype():find "^float" and value:isnan()
  local count = nan and nan:to("int64"):sum():item() or 0
  if count == 0 then
    return
  end
  local which = "is NaN"
  if value:ndim() > 0 then
    local first = nan:nonzero()[1]:totable()
    for axis, place in ipairs(first) do
      first[axis] = ("%d"):format(place + 1)
    end
    which = ("has NaN, %d of %d values, the first at [%s]"):format(count, value:numel(), table.concat(first, ", "))
  end
  refuse("observe", "'%s' %s: the density is NaN everywhere. Leave out what is missing with dist.masked(d, "
    .. "y:isnan():logical_not()), or make it a latent variable, m:sample", site.name, which)
end

local function check_observed(site, d, value)
  if value:ndim() < #d.event_shape then
    refuse("observe", "'%s' must have the %d event axes %s of its distribution, got shape %s", site.name,
      #d.event_shape, shape_text(d.event_shape), shape_text(value))
  end
  if MOVED[d.support] or d.name == "masked" or d.support == "real" or d.support == "real_vector" then
    return
  end
  local ok, inside = pcall(dist.within, d.support, value)
  if ok and not inside:all():item() then
    refuse("observe", "'%s' has values outside of the support of %s, which is %s", site.name, d.name, d.support)
  end
end

local getmetatable = getmetatable

local function check_distribution(kind, name, d)
  if getmetatable(d) ~= "penumbra.distribution" and not dist.is(d) then
    refuse(kind, "'%s' needs a distribution, got %s", tostring(name), type(d))
  end
end

-- With particles or enumeration an axis left of the plates is theirs, and nobody else's.
local function check_axes(m, site, lp)
  local n = lp:ndim()
  if n <= m.most or n == m.most + 1 and lp:size(1) == m.particles then
    return
  end
  local most = m.most + (m.enumerated or m.particles and 1 or 0)
  local wrong = n > most or m.particles and lp:size(1) ~= m.particles and lp:size(1) ~= 1
  for axis = m.most + 1, n do
    local size = m.axis_sizes and m.axis_sizes[axis]
    wrong = wrong or size and lp:size(-axis) ~= 1 and lp:size(-axis) ~= size
    if wrong and size == 1 then
      refuse(site.kind, "'%s' depends on an enumerated variable of an earlier turn that the carry of m:scan did not "
        .. "hold: what later turns depend on goes through the carry", site.name)
    end
  end
  if wrong then
    refuse(site.kind, "'%s' has a log density of shape %s, more axes than there are plates: with particles or "
      .. "enumeration axes of one value must be joined by :independent(k), or stand in a plate", site.name,
      shape_text(lp))
  end
end

local function score(m, site, d, value)
  local ok, lp = pcall(d.log_prob, d, value)
  if not ok then
    local why = tostring(lp):gsub("^[^:]*:%d+: ", "")
    refuse(site.kind, "'%s': %s", site.name, why)
  end
  if m.strict then
    check_axes(m, site, lp)
  end
  return lp
end

local function observed(m, site, d, value)
  local given = value
  if not core.is_tensor(value) then
    if value == nil then
      refuse("observe", "'%s' has no value: give one, or by condition; p:predict() and model:trace() draw it",
        site.name)
    elseif type(value) ~= "number" and type(value) ~= "table" then
      refuse("observe", "'%s' needs a value (a tensor, number or list), got %s", site.name, type(value))
    end
    value = core.tensor(value, { dtype = d.dtype })
  end
  local how = m.how
  if how.check then
    check_observed(site, d, value)
    if how.finite and d.name ~= "masked" then
      check_finite(site, value)
    end
    if not m.strict and type(given) ~= "number" then
      check_counted_once(m, site, d, value)
    end
  end
  site.observed, site.dist, site.value = true, d, value
  site.log_prob = score(m, site, d, value)
  keep_site(m, site)
  return value
end

return { refuse = refuse, full_name = full_name, add_site = add_site, keep_site = keep_site, part = part,
  within_plates = within_plates, check_beside_plates = check_beside_plates, with_particles = with_particles,
  given_value = given_value, draw = draw, check_distribution = check_distribution, check_axes = check_axes,
  score = score, observed = observed }
