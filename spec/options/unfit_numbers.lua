--- Numbers that an option cannot be, for spec/options/option_battery.lua: NaN, a fraction of what is counted, what is
--- below the least. Each must be refused where it is given, by the option's name.
local unfit = {}

local function set(text, rows)
  local names = {}
  for name in text:gmatch "%S+" do names[name] = true end
  for _, name in ipairs(rows or {}) do names[name] = true end
  return names
end

-- Numbers of the data's own kind: NaN gives NaN.
local NAN = set [[baseline diffusion fill nan neginf offset posinf prior_mean transition]]

-- Options with whole defaults that are no counts; where a name is a count elsewhere, of a row ("row: name").
local FRACTION = set([[alpha atol baseline beta concentration conflict_threshold correction cycles data_variance
  degrees df empty fill first_step floor from function_variance inflation iteration jitter kappa least_scale limit
  log_scale log_variance max_step nan neginf noise noise_precision num_data offset posinf posterior_lr precision
  prior_mean prior_precision prior_scale radius reconstruction rotate scale scaling_of_bases shift shortest
  smoothing start stay target to tolerance unit_precision width]],
  { "pn.norm: p", "pn.cdist: p" })

-- Options that are below 0, too.
local SIGNED = set([[alpha baseline beta correction degrees diffusion empty fill from iteration kappa least
  log_scale log_variance nan neginf offset posinf prior_mean reconstruction start stay target to tolerance
  tolerance_grad tolerance_change transition turns]],
  { "pn.data.rotating_boundary: scale", "pn.invariance.linear_model: scale", "pn.cdist: p", "pn.norm: p",
  "pn.invariance.translate_network: scale", "pn.dist.bijector.random: scale",
  "pn.vbp.learner: rate" })

-- Counts begin at 1, but for these, by their name or that of the row and theirs.
local FROM = { ahead = 0, blank = 0, condition = 0, cooldown = 0, covariates = 0, drop = 0, event_ndim = 0,
  features = 0, first = 0, folds = 2, frozen = 0, gap = 0, lag = 0, no_resampling = 0, num_bins = 0, num_new = 0,
  num_parameters = 4, p = 0, period = 2, prior_epochs = 0, q = 0, seed = 0, series = 0, simulations = 10, steps = 0,
  waste_free = 2, warmup = 0, ["pn.models.vssm: flows"] = 0, ["pn.optim.plateau: patience"] = 0,
  ["pn.active.network: classes"] = 2, ["pn.active.predictor: classes"] = 2,
  ["pn.active.posterior: classes"] = 2 }

--- unfit.of(row, option, now): numbers that the option of the row of this name cannot be, where it is `now`: a list of
--- {value, from =}; from: the least that the message must say, if it says one.
function unfit.of(row, option, now)
  local list, name = {}, option.name
  local own = row .. ": " .. name
  if type(now) ~= "number" and option.kind ~= "number" then return list end
  if not NAN[name] then list[1] = { 0 / 0 } end
  if math.type(now) == "integer" and not (FRACTION[name] or FRACTION[own]) then
    local from = FROM[own] or FROM[name] or 1
    list[#list + 1] = { now + 0.5 }
    list[#list + 1] = { from - 1, from = from }
  elseif not (SIGNED[name] or SIGNED[own]) then
    list[#list + 1] = { -1e300 }
  end
  return list
end

-- A number that a message tells: 0.5, 1/3, inf.
local function number(text)
  local a, b = text:match "^(%-?%d+)/(%d+)$"
  return a and a / b or tonumber(text) or text == "inf" and math.huge or nil
end

local PHRASES = { -- what follows "must", and whether its ends are let pass
  { "^lie strictly between (%S-) and (%S-)%f[,\0]", false, false },
  { "^lie between (%S-) and (%S-)%f[,\0]", false, false },
  { "^lie in %[(%S+), (%S-)%]", true, true }, { "^lie in %[(%S+), (%S-)%)", true, false },
  { "^lie in %((%S+), (%S-)%]", false, true }, { "^lie in %((%S+), (%S-)%)", false, false },
  { "^lie in (%S+) to (%S-)%f[,\0]", true, true }, { "^be above (%S-) and at most (%S-)%f[,\0]", false, true },
  { "^be at least (%S-) and below (%S-)%f[,\0]", true, false },
  { "^be (%S-) or more and below (%S-)%f[,\0]", true, false },
  { "^be above (%S-)%f[,\0]", false }, { "^be a number from (%S-) on", true } }

--- unfit.ends(name, message): what a refusal of the option of this name tells of the ends of its interval: a list of
--- {value, taken = whether it is let pass (nil: either)}.
function unfit.ends(name, message)
  local list, said = {}, message:match("%f[%w_]" .. name .. "%f[^%w_][%w_, ]- must (.*)") or ""
  local function add(end_of, is_taken, way)
    if not end_of then return end
    list[#list + 1] = { end_of, taken = is_taken }
    if is_taken and math.abs(end_of) < math.huge then
      list[#list + 1] = { end_of + way * 1e-9 * math.max(1, math.abs(end_of)), taken = false }
    end
  end
  for _, phrase in ipairs(PHRASES) do
    local low, high = said:match(phrase[1])
    if low then
      add(number(low), phrase[2], -1)
      add(high and number(high), phrase[3], 1)
      if not high then list[#list + 1] = { 2 } end -- what is a share says more
      return list
    end
  end
  if said:find "^be positive%f[,\0]" or said:find "^be a positive number" then add(0, false)
  elseif said:find "^not be negative" then add(0, true, -1) end
  return list
end

return unfit
