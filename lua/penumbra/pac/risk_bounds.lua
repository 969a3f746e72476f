--- Bounds by name: what is true of a risk with probability 1 - delta over the data. See penumbra.pac.bound_rows.
-- help: pn.pac
local core = require "penumbra.core"
local options = require "penumbra.options"
local rows = require "penumbra.pac.bound_rows"

local risk_bounds = {}

-- ---- what all take ----

local function check_row(where, name)
  options.argument(where, "name", name, "string")
  if not rows[name] then
    core.error(("%s: there is no bound '%s'%s"):format(where, name, options.suggestion(name, risk_bounds.names())))
  end
  return rows[name]
end

--- names(): the bounds there are, in the order of the alphabet.
function risk_bounds.names()
  local list = {}
  for name in pairs(rows) do list[#list + 1] = name end
  table.sort(list)
  return list
end

local row_meta = {}

function row_meta:__tostring()
  local lines = { self.name, "  " .. self.formula, "  source  " .. self.source,
    ("  needs   %s; n >= %d"):format(table.concat(self.needs, ", "), self.least),
    "  holds   with probability 1 - delta over n independent data (or m draws), " .. self.holds }
  return table.concat(lines, "\n")
end

--- describe([name]): what a bound is, as a table {name, formula, source, needs, options, holds, least} that prints; of
--- all, a list.
function risk_bounds.describe(name)
  if name == nil then
    local list = {}
    for k, each in ipairs(risk_bounds.names()) do list[k] = risk_bounds.describe(each) end
    return list
  end
  local row, names = check_row("describe", name), {}
  for key in pairs(row.options or {}) do names[#names + 1] = key end
  table.sort(names)
  local needs = row.own and { "delta" } or { "risk", "n", "delta" }
  table.move(row.needs, 1, #row.needs, #needs + 1, needs)
  return setmetatable({ name = name, formula = row.formula, source = row.source, needs = needs,
    options = names, holds = row.holds, least = row.least }, row_meta)
end

--- delta(where, value [, role = "delta"]): value, a probability strictly between 0 and 1; raises otherwise.
function risk_bounds.check_delta(where, value, role)
  if type(value) ~= "number" or not (value > 0 and value < 1) then
    core.error(("%s: %s must lie strictly between 0 and 1, got %s"):format(where, role or "delta", tostring(value)))
  end
  return value
end

local function known_options(row)
  local known = { risk = options.required(), n = options.required "number", delta = options.required "number" }
  for _, name in ipairs(row.needs) do known[name] = options.required() end
  for name, default in pairs(row.options or {}) do
    known[name] = type(default) == "table" and options.one_of(default[1], default) or default
  end
  return known
end

local function all(t, test)
  return test(t):all():item()
end

-- The options, checked, with risk and kl as tensors of one dtype.
local function check(where, row, given)
  local o = options.check(where, given, known_options(row))
  o.n = options.whole(where, "n", o.n, row.least)
  risk_bounds.check_delta(where, o.delta)
  o.risk = options.numbers(where, "risk", o.risk)
  o.kl = o.kl and options.numbers(where, "kl", o.kl)
  local like = core.is_tensor(o.risk) and o.risk or core.is_tensor(o.kl) and o.kl or core.tensor(0)
  local zero = core.zeros({}, { dtype = like:dtype() })
  o.risk = zero + o.risk
  if not all(o.risk:detach(), function(t) return t:ge(0):logical_and(t:le(1)) end) then
    core.error(where .. ": risk must lie in 0 to 1: a bound holds for losses in [0, 1] only")
  elseif o.kl then
    o.kl = zero + o.kl
    if not all(o.kl:detach(), function(t) return t:ge(0) end) then
      core.error(where .. ": kl must not be negative, and a number")
    end
  end
  if row.needs[1] == "count" then o.count = options.whole(where, "count", o.count, 1) end
  for _, name in ipairs { "ratio", "variance_ratio" } do
    if o[name] and not (o[name] > 1 and o[name] < math.huge) then
      core.error(("%s: %s must be above 1, got %s"):format(where, name, tostring(o[name])))
    end
  end
  if o.variance then o.variance = zero + options.numbers(where, "variance", o.variance) end
  if o.log_constant and type(o.log_constant) ~= "number" then
    core.error(("%s: log_constant must be a number, got %s"):format(where, type(o.log_constant)))
  end
  return o
end

local function check_lambda(where, l, most)
  if type(l) ~= "number" or not (l > 0 and l < most) then
    core.error(("%s: lambda must lie between 0 and %g, got %s"):format(where, most, tostring(l)))
  end
  return l
end

-- The least of the values over a grid, each at its share of delta.
local function over_grid(where, row, o)
  local grid = o.lambda or row.grid(o.n)
  grid = type(grid) == "number" and { grid } or grid
  options.argument(where, "lambda", grid, "table")
  for _, l in ipairs(grid) do check_lambda(where, l, 700) end
  if #grid == 0 then core.error(where .. ": lambda must be a number or a list of at least one") end
  local extra = row.log_moment(o.n, o) + math.log(#grid / o.delta)
  return function(risk, kl)
    local best
    for _, l in ipairs(grid) do
      local value = row.value(risk, kl + extra, o.n, { lambda = l })
      best = best and core.minimum(best, value) or value
    end
    return best
  end
end

-- The value as a function of risk and kl, without checks: what training follows.
local function value_of(where, row, o)
  if row.plain then
    return function(risk, kl)
      local own = setmetatable({ kl = kl }, { __index = o })
      return row.plain(risk, o.n, o.delta, own)
    end
  elseif row.grid then
    return over_grid(where, row, o)
  elseif o.lambda then
    check_lambda(where, o.lambda, 2)
  end
  local extra = row.log_moment(o.n, o) + math.log(1 / o.delta)
  return function(risk, kl) return row.value(risk, kl + extra, o.n, o) end
end

--- bound(name, {risk =, n =, delta =, kl =, ...}): the bound of that name: what the risk R is at most, with probability
--- 1 - delta over n independent data, on which it is `risk`; losses lie in [0, 1]. risk and kl are numbers or tensors,
--- which broadcast, and gradients flow to both. A value of 1 or more says nothing. pn.pac.describe(name) tells what
--- each needs and says:
---     pn.pac.bound("maurer", { risk = 0.02, kl = 4000, n = 30000, delta = 0.025 })
--- Options of some: constant = "exact" (maurer, pinsker, quadratic, lambda): E e^(n kl(r || R)) itself in the place of
--- 2 sqrt n. lambda: of "lambda" a number in (0, 2), else the best, which is free; of "catoni" a number, or a list that
--- is paid for, chosen without the data. variance (empirical_bernstein): the mean over Q of the empirical variance,
--- with divisor n - 1; without it r (1 - r) n / (n - 1), r = min(risk, 1/2), which is not below. log_constant
--- (germain): log B.
function risk_bounds.bound(name, given)
  local where = "bound"
  local row = check_row(where, name)
  if row.own then return row.own(where, given) end
  local o = check(where, row, given)
  return value_of(where, row, o)(o.risk, o.kl)
end

--- objective(where, name, {n =, delta =, ...}): the bound of that name, one that needs KL(Q || P), as a function of
--- risk and kl that checks neither.
function risk_bounds.objective(where, name, given)
  local row = check_row(where, name)
  if row.needs[1] ~= "kl" or row.own then
    core.error(("%s: bound '%s' is not of a risk and a divergence"):format(where, name))
  end
  local all_given = { risk = 0, kl = 0 }
  for key, v in pairs(given) do all_given[key] = v end
  return value_of(where, row, check(where, row, all_given))
end

-- ---- a stochastic predictor by draws ----

--- draws_bound{risk =, draws =, delta =}: what the mean over the posterior of a loss in [0, 1] is at most, with
--- probability 1 - delta over `draws` independent draws of the weights whose mean loss is `risk`: the largest p with
--- kl(risk || p) <= log(1 / delta) / draws (Chernoff; Hoeffding 1963, theorem 1). Draws need not have one law: with
--- weights drawn anew for each datum the terms are independent and not identical, and theorem 1 bounds their mean all
--- the same, so that each term counts as a draw. (Langford & Caruana 2002 take log(2 / delta), for both sides.)
function risk_bounds.draws_bound(given)
  return rows.draws.own("draws_bound", given)
end

return risk_bounds
