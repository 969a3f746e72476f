--- What to keep of data, and what becomes of the Gaussian part: scores of sites, selections, updates (Kurle et al.
--- 2020, sections 2.2, 3.2, 3.3 and appendices C to E).
-- help: none
local core = require "penumbra.core"
local gaussian = require "penumbra.continual.gaussian"
local options = require "penumbra.options"

local memory = {}

-- Sites as a factor with one batch axis.
local function batch(where, factors)
  local s = gaussian.factor(where, "sites", factors)
  local rank = s.form == "scalar" and 1 or 2
  if s.precision:ndim() ~= rank or s.precision_mean:ndim() ~= rank then
    core.error(("%s: sites must have one batch axis, of data, got precision of shape [%s]"):format(where,
      table.concat(s.precision:shape(), ", ")))
  end
  return s
end

-- A belief about the weights of the sites s: no batch.
local function belief(where, role, q, s)
  q = gaussian.factor(where, role, q)
  local n = s.form == "diagonal" and s.precision:size(2) or nil
  if q.form ~= s.form or q.precision_mean:ndim() ~= (n and 1 or 0) or n and q.precision_mean:size(1) ~= n then
    core.error(("%s: %s must be of %s, as the sites are, got precision_mean of shape [%s]"):format(where, role,
      n and n .. " weights" or "a number", table.concat(q.precision_mean:shape(), ", ")))
  end
  return q
end

local function values(where, role, t, n)
  t = options.numbers(where, role, t, "tensor")
  if t:ndim() ~= 1 or t:size(1) ~= n then
    core.error(("%s: %s must have shape [%d], a number for each site, got [%s]"):format(where, role, n,
      table.concat(t:shape(), ", ")))
  end
  return t
end

local function part(where, terms, name, n)
  if type(terms) ~= "table" then
    core.error(("%s: terms must be the table that sites gives, got %s"):format(where, type(terms)))
  elseif terms[name] == nil then
    core.error(("%s: terms must have %s, got none"):format(where, name))
  end
  return values(where, "terms." .. name, terms[name], n)
end

-- What log r says in q's mean and from its spread: eta m - lambda m^2 / 2 and -lambda v / 2, summed over weights.
local function log_sites(s, q)
  local mean, variance = gaussian.moments(q)
  local at_mean = s.precision_mean * mean - s.precision * mean:square() * 0.5
  local spread = s.precision * variance * -0.5
  if s.form == "scalar" then
    return at_mean, spread
  end
  return at_mean:sum(-1), spread:sum(-1)
end

local signs = { sum = 1, printed = -1 }

--- pn.continual.correct_bias.
function memory.correct_bias(factors, predecessor, posterior, given)
  local where = "correct_bias"
  local o = options.check(where, given, { sign = options.choice("sum", "printed") })
  local s = batch(where, factors)
  local p, q = belief(where, "predecessor", predecessor, s), belief(where, "posterior", posterior, s)
  local share = signs[o.sign] / s.precision:size(1)
  local function corrected(name)
    return s[name] + (q[name] - p[name] - s[name]:sum(1)) * share
  end
  return gaussian.like(s, corrected "precision_mean", corrected "precision")
end

--- scored(e, kind, weights): the scores of data by {expected =, of_site =, at_mean =, of_spread =}, [N] each: the
--- expected log likelihood less the expected log site; "centred" in their places at the mean, less what spreads.
function memory.scored(e, kind, weights)
  local score = kind == "centred" and e.expected - e.at_mean - e.of_spread or e.expected - e.of_site
  score = weights and score / weights or score
  return kind == "absolute" and score:abs() or score
end

--- pn.continual.scores.
function memory.scores(factors, posterior, terms, given)
  local where = "scores"
  local o = options.check(where, given, { kind = options.choice("residual", "absolute", "centred"),
    weights = options.any(false) })
  local s = batch(where, factors)
  local n = s.precision:size(1)
  local at_mean, spread = log_sites(s, belief(where, "posterior", posterior, s))
  local e = { expected = part(where, terms, "expected_log_likelihood", n), of_site = at_mean + spread,
    at_mean = o.kind == "centred" and part(where, terms, "log_likelihood_at_mean", n), of_spread = spread }
  if o.weights then
    local w = values(where, "weights", o.weights, n)
    if n > 0 and not (w:min():item() > 0) then
      core.error(("scores: weights must be positive, got %g"):format(w:min():item()))
    end
    return memory.scored(e, o.kind, w)
  end
  return memory.scored(e, o.kind)
end

local function places(list)
  return core.tensor(list, { dtype = "int64" })
end

--- pn.continual.top.
function memory.top(scores, M)
  local s = options.numbers("top", "scores", scores, "tensor")
  if s:ndim() ~= 1 then
    core.error(("top: scores must have one axis, got shape [%s]"):format(table.concat(s:shape(), ", ")))
  end
  M = options.whole("top", "M", M, 0)
  local list, order = s:totable(), {}
  for i, v in ipairs(list) do
    if v ~= v then
      core.error(("top: scores must be numbers, got nan at place %d"):format(i - 1))
    end
    order[i] = i
  end
  table.sort(order, function(a, b)
    if list[a] ~= list[b] then return list[a] > list[b] end
    return a < b
  end)
  local kept = {}
  for k = 1, math.min(M, #order) do kept[k] = order[k] - 1 end
  table.sort(kept)
  return places(kept)
end

--- pn.continual.k_center.
function memory.k_center(x, M, given)
  local where = "k_center"
  local o = options.check(where, given, { first = 0 })
  options.argument(where, "x", x, "tensor")
  M = options.whole(where, "M", M, 0)
  if x:ndim() == 0 or x:size(1) == 0 then
    core.error "k_center: x must have data along its first axis"
  end
  local n = x:size(1)
  local at = options.whole(where, "first", o.first, 0)
  if at >= n then
    core.error(("k_center: first must be below the number of data, %d, got %d"):format(n, at))
  end
  x = x:detach():reshape { n, -1 }
  local chosen, taken, nearest = {}, {}, nil
  for k = 1, math.min(M, n) do
    chosen[k], taken[at + 1] = at, true
    local d = (x - x:slice(1, at + 1, at + 1)):square():sum(2)
    nearest = nearest and nearest:minimum(d) or d
    local best
    for i, v in ipairs(nearest:totable()) do -- data that stand twice are chosen last, each once
      if not taken[i] and (not best or v > best) then best, at = v, i - 1 end
    end
  end
  return places(chosen)
end

--- pn.continual.residual_elbo.
function memory.residual_elbo(factors, predecessor, posterior, terms)
  local where = "residual_elbo"
  local s = batch(where, factors)
  local p = belief(where, "predecessor", predecessor, s)
  local product = gaussian.like(s, p.precision_mean + s.precision_mean:sum(1), p.precision + s.precision:sum(1))
  local at_mean, spread = log_sites(s, belief(where, "posterior", posterior, s))
  local residuals = part(where, terms, "expected_log_likelihood", s.precision:size(1)) - at_mean - spread
  return product:log_normaliser() - p:log_normaliser() + residuals:sum()
end

-- 1 for data that are kept, 0 for others, shaped to multiply the sites' parameters; their number.
local function kept_mask(s, kept)
  local n, mask, count = s.precision:size(1), {}, 0
  local list = core.is_tensor(kept) and (kept:numel() == 0 and {} or kept:totable()) or kept
  if type(list) ~= "table" then
    core.error("gaussian_update: kept must be places of data, got " .. type(kept))
  end
  for i = 1, n do mask[i] = 0 end
  for _, place in ipairs(list) do
    local i = math.tointeger(place)
    if not i or i < 0 or i >= n then
      core.error(("gaussian_update: kept must be places from 0 to %d, got %s"):format(n - 1, place))
    elseif mask[i + 1] == 1 then
      core.error(("gaussian_update: kept must name a datum once, got %d twice"):format(i))
    end
    mask[i + 1], count = 1, count + 1
  end
  local m = core.tensor(mask, { dtype = s.precision:dtype() })
  return s.form == "scalar" and m or m:unsqueeze(2), count
end

--- guarded(factor, predecessor, posterior, floor): the factor with precisions of at least the share `floor` of the
--- predecessor's, the mean there that of the posterior; second how many were raised.
function memory.guarded(factor, p, q, floor)
  local least = p.precision * floor
  local low = factor.precision:lt(least)
  local raised = low:to(factor.precision:dtype()):sum():item()
  return gaussian.like(factor, core.where(low, least * (q.precision_mean / q.precision), factor.precision_mean),
    core.where(low, least, factor.precision)), math.tointeger(raised)
end

--- updated(from, s, sign, predecessor, posterior, floor): the factor `from` times the product s of sites, or over it
--- (sign -1), guarded.
function memory.updated(from, s, sign, p, q, floor)
  local factor = s and gaussian.like(q, from.precision_mean + s.precision_mean * sign,
    from.precision + s.precision * sign) or from
  return memory.guarded(factor, p, q, floor)
end

--- pn.continual.gaussian_update.
function memory.gaussian_update(factors, predecessor, posterior, given)
  local where = "gaussian_update"
  local o = options.check(where, given, { kept = options.any(false), num_new = options.optional "number",
    method = options.choice("auto", "multiply", "divide"), floor = 1e-3 })
  if not (o.floor > 0 and o.floor <= 1) then
    core.error(("gaussian_update: floor must be above 0 and at most 1, got %s"):format(o.floor))
  end
  local s = batch(where, factors)
  local p, q = belief(where, "predecessor", predecessor, s), belief(where, "posterior", posterior, s)
  local mask, count = kept_mask(s, o.kept or {})
  local num_new = options.whole(where, "num_new", o.num_new or s.precision:size(1), 0)
  local method = o.method ~= "auto" and o.method or num_new <= count and "multiply" or "divide"
  local multiply = method == "multiply"
  mask = multiply and 1 - mask or mask
  local next_q, clipped = memory.updated(multiply and p or q, { precision_mean = (s.precision_mean * mask):sum(1),
    precision = (s.precision * mask):sum(1) }, multiply and 1 or -1, p, q, o.floor)
  return next_q, { method = method, clipped = clipped }
end

return memory
