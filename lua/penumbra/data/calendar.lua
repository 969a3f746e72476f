--- Dates of the Gregorian calendar as days since 1970-01-01, and the steps of time series from a start on.
-- help: nowhere
local core = require "penumbra.core"

local calendar = {}

-- ---- days ----

--- days(year, month, day): from 1970-01-01. (Hinnant, chrono-compatible low-level date algorithms.)
function calendar.days(year, month, day)
  if month <= 2 then
    year = year - 1
  end
  local era = year // 400
  local year_of_era = year - era * 400
  local day_of_year = (153 * (month + (month > 2 and -3 or 9)) + 2) // 5 + day - 1
  return era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719468
end

--- date(days): year, month, day of a whole number of days; the inverse of days, from the same source.
function calendar.date(days)
  local z = days + 719468
  local era = z // 146097
  local day_of_era = z - era * 146097
  local year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
  local day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
  local shifted = (5 * day_of_year + 2) // 153
  local month = shifted + (shifted < 10 and 3 or -9)
  return year_of_era + era * 400 + (month <= 2 and 1 or 0), month, day_of_year - (153 * shifted + 2) // 5 + 1
end

-- ---- texts ----

local WIDTH = { Y = "(%d%d%d%d)", m = "(%d%d?)", d = "(%d%d?)", H = "(%d%d?)", M = "(%d%d?)", S = "(%d%d?%.?%d*)" }

--- format(where, text): a format such as "%d.%m.%Y" as a pattern and the parts in their order; raises in the name of
--- the function `where`.
function calendar.format(where, text)
  local parts, used = {}, {}
  local pattern = text:gsub("[%^%$%(%)%.%[%]%*%+%-%?]", "%%%0"):gsub("%%(%a)", function(letter)
    if not WIDTH[letter] or used[letter] then
      core.error(("%s: date must be made of %%Y, %%m, %%d, %%H, %%M and %%S, each once, got '%s'"):format(where, text))
    end
    parts[#parts + 1], used[letter] = letter, true
    return WIDTH[letter]
  end)
  if not (used.Y and used.m and used.d) then
    core.error(("%s: date must have %%Y, %%m and %%d, got '%s'"):format(where, text))
  end
  return "^" .. pattern .. "$", parts
end

local LENGTH = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 }

--- read(text, pattern, parts): days since 1970, with the time of day as a fraction, and that time in seconds; nil if
--- the text is no such date.
function calendar.read(text, pattern, parts)
  local found, v = { text:match(pattern) }, { H = 0, M = 0, S = 0 }
  for k, letter in ipairs(parts) do
    v[letter] = tonumber(found[k])
  end
  if not v.Y or not v.m or not LENGTH[v.m] or v.d < 1 or v.d > LENGTH[v.m] or v.H > 24 or v.M > 59 or v.S >= 61 then
    return nil
  end
  local leap = v.Y % 4 == 0 and (v.Y % 100 ~= 0 or v.Y % 400 == 0)
  if v.m == 2 and v.d == 29 and not leap then
    return nil
  end
  local seconds, day = v.H * 3600 + v.M * 60 + v.S, calendar.days(v.Y, v.m, v.d)
  return day + seconds / 86400, day, seconds
end

--- The forms of ISO 8601 that are read without a format.
calendar.ISO = { "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M" }

local iso

--- moment(text): day since 1970 (whole) and second of that day of an ISO date; nil if it is none.
function calendar.moment(text)
  if not iso then
    iso = {}
    for k, form in ipairs(calendar.ISO) do
      iso[k] = { calendar.format("calendar", form) }
    end
  end
  for _, form in ipairs(iso) do
    local _, day, seconds = calendar.read(text, form[1], form[2])
    if day then
      return day, seconds
    end
  end
  return nil
end

-- ---- steps ----

local SECONDS = { S = 1, T = 60, MIN = 60, H = 3600, D = 86400, W = 7 * 86400 }

--- frequency(text): {unit =, every =, seconds =} of a step such as "H", "15min", "D", "B" (business days, Monday to
--- Friday), "W", "M" (months), "Q", "Y"; nil if it is none. pandas' words.
function calendar.frequency(text)
  local every, word = text:match "^(%d*)(%a+)"
  if not word then
    return nil
  end
  local unit = word:upper()
  every = every == "" and 1 or math.tointeger(tonumber(every))
  if unit == "MS" or unit == "ME" then
    unit = "M"
  elseif unit == "A" then
    unit = "Y"
  end
  if not SECONDS[unit] and not ("BMQY"):find(unit, 1, true) or every < 1 then
    return nil
  end
  return { unit = unit, every = every, seconds = SECONDS[unit] and SECONDS[unit] * every }
end

-- Monday is 0.
local function day_of_week(day)
  return (day + 3) % 7
end

--- business_day(day): business days from Monday, 1969-12-29 to a day; of a Saturday or Sunday the Friday before counts.
function calendar.business_day(day)
  return (day + 3) // 7 * 5 + math.min(day_of_week(day), 4)
end

local MONTHS = { M = 1, Q = 3, Y = 12 }

--- at(frequency, day, second, i): day and second of step i, from 0, of a series that starts at that day and second.
function calendar.at(f, day, second, i)
  if f.unit == "B" then
    local n = calendar.business_day(day) + i * f.every
    return n // 5 * 7 + n % 5 - 3, second
  elseif f.seconds then
    local s = second + i * f.seconds
    return day + s // 86400, s % 86400
  end
  local year, month, d = calendar.date(day)
  local m = year * 12 + month - 1 + i * f.every * MONTHS[f.unit]
  return calendar.days(m // 12, m % 12 + 1, math.min(d, 28)), second
end

--- origin(frequency, day, second): the step, counted from a Monday's first, at which a series starts that begins then:
--- business days and days since a Monday, hours since a Monday 0:00 and so on; months since a January. Seasons of a
--- regular calendar follow from it.
function calendar.origin(f, day, second)
  if f.unit == "B" then
    return calendar.business_day(day) // f.every
  elseif f.seconds then
    return math.tointeger(((day + 3) * 86400 + second) // f.seconds)
  end
  local year, month = calendar.date(day)
  return (year * 12 + month - 1) // (f.every * MONTHS[f.unit])
end

-- ---- features ----

local function minute_of_hour(_, second)
  return second % 3600 // 60 / 59 - 0.5
end

local function hour_of_day(_, second)
  return second // 3600 / 23 - 0.5
end

local function week_share(day)
  return day_of_week(day) / 6 - 0.5
end

local function day_of_month(day)
  local _, _, d = calendar.date(day)
  return (d - 1) / 30 - 0.5
end

local function day_of_year(day)
  return (day - calendar.days(calendar.date(day), 1, 1)) / 365 - 0.5
end

local function month(day)
  local _, m = calendar.date(day)
  return (m - 1) / 11 - 0.5
end

-- As GluonTS has it.
local function age(_, _, i)
  return math.log(2 + i, 10)
end

--- Functions of day, second of the day and step, from 0: numbers from -1/2 to 1/2, but for age, log10(2 + step).
calendar.features = { minute_of_hour = minute_of_hour, hour_of_day = hour_of_day, day_of_week = week_share,
  day_of_month = day_of_month, day_of_year = day_of_year, month = month, age = age }

local USUAL = {
  S = { "minute_of_hour", "hour_of_day", "day_of_week", "day_of_month", "day_of_year" },
  H = { "hour_of_day", "day_of_week", "day_of_month", "day_of_year" },
  D = { "day_of_week", "day_of_month", "day_of_year" },
  W = { "day_of_month", "day_of_year" },
  M = { "month" }, Q = { "month" }, Y = {},
}
USUAL.T, USUAL.MIN, USUAL.B = USUAL.S, USUAL.S, USUAL.D

--- usual(frequency): the names of the features that tell steps of that frequency apart, and "age".
function calendar.usual(f)
  local names = table.move(USUAL[f.unit], 1, #USUAL[f.unit], 1, {})
  names[#names + 1] = "age"
  return names
end

return calendar
