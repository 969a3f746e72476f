--- Bounds on a risk R in [0, 1] from the share r of it that n data show, a row each. A new one is a row here and a case
--- in spec/golden/pac/bounds.py; spec/pac/bounds_spec.lua tests each by the sums that its proof needs.
---
---   formula        as text
---   source         who
---   needs          what it is told beside risk, n and delta: "kl" = KL(Q || P) of posterior and prior
---   options        {name = default}: what may be given beside, with `nil` written false
---   holds          what is true with probability 1 - delta over the data
---   least          the smallest n that the source proves it for
---   log_moment(n, o)    log of M in E_S E_(h ~ P) e^(exponent(r_S(h), R(h))) <= M: all that a PAC-Bayes bound rests on
---                  (Germain et al. 2009; (5.9) of Haussmann 2021): for all Q, exponent(r, R) <= KL(Q || P) + log(M /
---                  delta) with probability 1 - delta
---   exponent(q, p, n, o)   the function in it, convex in (q, p) together, of tensors
---   value(q, c, n, o)      the largest p with exponent(q, p) <= c, of tensors
---   plain(q, n, delta, o)  the value, of rows that are made otherwise
---   grid(n)        values of `lambda` that are paid for where none is given
---   own(where, given)      the value, of rows that take other arguments
-- help: none
local core = require "penumbra.core"
local options = require "penumbra.options"
local majority_vote = require "penumbra.pac.majority_vote"

local rows = { majority_vote = majority_vote.row }
for name, row in pairs(require "penumbra.pac.path_bounds") do rows[name] = row end

local FOR_ALL <const> = "for all posteriors Q at once, R(Q) is at most the value"

-- 2 sqrt n, which is not below that sum (Maurer 2004), or the sum itself
local function log_constant(n, o)
  return o.constant == "exact" and majority_vote.log_kl_moment(n) or math.log(2) + 0.5 * math.log(n)
end

local function kl_exponent(q, p, n)
  return core.bernoulli_kl(q, p) * n
end

local function kl_value(q, c, n)
  return core.bernoulli_kl_inverse(q, c / n)
end

local constants = { constant = { "bound", "exact" } }

-- ---- one hypothesis, or so many ----

rows.hoeffding = {
  formula = "r + sqrt(log(2 / delta) / (2 n))", source = "Hoeffding 1963; Haussmann 2021, 2.5", needs = {},
  holds = "of one hypothesis that was chosen without the data, |R - r| is at most what the value adds", least = 1,
  plain = function(q, n, delta) return q + math.sqrt(math.log(2 / delta) / (2 * n)) end,
}

rows.finite_class = {
  formula = "r + sqrt(log(2 M / delta) / (2 n))", source = "Hoeffding 1963 and a union; Haussmann 2021, 2.5",
  needs = { "count" }, least = 1,
  holds = "of all M = count hypotheses, named without the data, |R - r| is at most what the value adds",
  plain = function(q, n, delta, o) return q + math.sqrt(math.log(2 * o.count / delta) / (2 * n)) end,
}

-- ---- by kl(r || R), and weaker forms that say how much ----

rows.seeger = {
  formula = "largest p with kl(r || p) <= (KL + log((n + 1) / delta)) / n", source = "Seeger 2002, theorem 1",
  needs = { "kl" }, holds = FOR_ALL, least = 1, exponent = kl_exponent, value = kl_value,
  log_moment = function(n) return math.log(n + 1) end,
}

rows.maurer = {
  formula = "largest p with kl(r || p) <= (KL + log(2 sqrt n / delta)) / n", source = "Maurer 2004, theorem 5",
  needs = { "kl" }, options = constants, holds = FOR_ALL, least = 8, log_moment = log_constant,
  exponent = kl_exponent, value = kl_value,
}

rows.pinsker = {
  formula = "r + sqrt((KL + log(2 sqrt n / delta)) / (2 n))", source = "Maurer 2004 and Pinsker; Haussmann 2021, 2.5",
  needs = { "kl" }, options = constants, holds = FOR_ALL, least = 8, log_moment = log_constant,
  exponent = function(q, p, n) return (p - q):square() * (2 * n) end,
  value = function(q, c, n) return q + (c / (2 * n)):sqrt() end,
}

rows.mcallester = {
  formula = "r + sqrt((KL + log(n / delta)) / (2 (n - 1)))",
  source = "McAllester 2003; Shalev-Shwartz & Ben-David 2014, theorem 31.1", needs = { "kl" }, holds = FOR_ALL,
  least = 2, log_moment = function(n) return math.log(n) end,
  exponent = function(q, p, n) return (p - q):square() * (2 * (n - 1)) end,
  value = function(q, c, n) return q + (c / (2 * (n - 1))):sqrt() end,
}

-- kl(q || p) >= (p - q)^2 / (2 p) for p above q
rows.quadratic = {
  formula = "(sqrt(r + b) + sqrt b)^2, b = (KL + log(2 sqrt n / delta)) / (2 n)", source = "Rivasplata et al. 2019",
  needs = { "kl" }, options = constants, holds = FOR_ALL, least = 8, log_moment = log_constant,
  exponent = function(q, p, n) return (p - q):relu():square() / (p * 2) * n end,
  value = function(q, c, n)
    local b = c / (2 * n)
    return ((q + b):sqrt() + b:sqrt()):square()
  end,
}

-- (p - q)^2 / (2 p) >= l p (1 - l / 2) - l q for every l, so that the best l costs nothing.
rows.lambda = {
  formula = "r / (1 - l / 2) + (KL + log(2 sqrt n / delta)) / (n l (1 - l / 2)), 0 < l < 2",
  source = "Thiemann, Igel, Wintenberger & Seldin 2017, theorem 3", needs = { "kl" },
  options = { lambda = false, constant = constants.constant }, holds = FOR_ALL, least = 8, log_moment = log_constant,
  exponent = function(q, p, n, o)
    local l = o.lambda or (p - q) / p
    return (l * p * (1 - l * 0.5) - l * q) * n
  end,
  value = function(q, c, n, o)
    local l = o.lambda or 2 / ((q * (2 * n) / c + 1):sqrt() + 1)
    return (q + c / (l * n)) / (1 - l * 0.5)
  end,
}

-- ---- Catoni ----

-- n^(-1/2) 1.5^j up to 2 log n: from where the bound is like Pinsker's to where r = 0 is all there is.
local function catoni_grid(n)
  local list, l = {}, n ^ -0.5
  repeat
    list[#list + 1], l = l, l * 1.5
  until l > 2 * math.log(n) + 1
  return list
end

-- E e^(-C n r) = (1 - R + R e^-C)^n for zeros and ones, so that M = 1.
rows.catoni = {
  formula = "(1 - e^(-C r - (KL + log(m / delta)) / n)) / (1 - e^-C), least over m values C = lambda",
  source = "Catoni 2007, theorem 1.2.6, and a union over m", needs = { "kl" }, holds = FOR_ALL, least = 1,
  options = { lambda = false }, grid = catoni_grid,
  log_moment = function() return 0 end,
  exponent = function(q, p, n, o)
    return ((p * -(1 - math.exp(-o.lambda)) + 1):log() + q * o.lambda) * -n
  end,
  value = function(q, c, n, o)
    return (-(-(q * o.lambda) - c / n):expm1()) / -(core.tensor(-o.lambda):expm1():item())
  end,
}

-- ---- the document's own ----

rows.germain = {
  formula = "r + sqrt((KL + log(B / delta)) / n), log B = n", source = "Germain et al. 2009; Haussmann 2021, (5.9)",
  needs = { "kl" }, options = { log_constant = false }, holds = FOR_ALL, least = 1,
  log_moment = function(n, o) return o.log_constant or n end,
  exponent = function(q, p, n) return (p - q):square() * n end,
  value = function(q, c, n) return q + (c / n):sqrt() end,
}

-- ---- the mean over a posterior, by draws ----

local draw_options = { risk = options.required(), draws = options.required "number",
  delta = options.required "number" }

rows.draws = {
  formula = "largest p with kl(r || p) <= log(1 / delta) / m", least = 1, needs = { "risk", "draws" },
  source = "Hoeffding 1963, theorem 1; Langford & Caruana 2002",
  holds = "the mean of a loss over a posterior, whose mean over m = draws independent draws is r, is at most the value",
  own = function(where, given)
    local o = options.check(where, given, draw_options)
    if not (o.delta > 0 and o.delta < 1) then
      core.error(("%s: delta must lie strictly between 0 and 1, got %s"):format(where, tostring(o.delta)))
    end
    local risk = options.numbers(where, "risk", o.risk)
    risk = core.is_tensor(risk) and risk or core.tensor(risk)
    if not risk:ge(0):logical_and(risk:le(1)):all():item() then
      core.error(where .. ": risk must lie in 0 to 1")
    end
    return core.bernoulli_kl_inverse(risk, core.full({}, math.log(1 / o.delta) / o.draws, { dtype = risk:dtype() }))
  end,
}

-- ---- empirical Bernstein ----

local E2 <const> = math.exp(1) - 2

-- How many lambdas stand on the grid, of ratio c1, of the bound on R, and of ratio c2 of that on the variance.
local function bernstein_counts(n, delta, o)
  local risks = math.ceil(math.log(math.sqrt(E2 * n / (4 * math.log(1 / delta)))) / math.log(o.ratio)) + 1
  local variances = math.ceil(math.log(0.5 * math.sqrt((n - 1) / math.log(1 / delta) + 1) + 0.5)
    / math.log(o.variance_ratio))
  return math.max(1, risks), math.max(1, variances)
end

rows.empirical_bernstein = {
  formula = "r + (1 + c1) sqrt((e - 2) V k1 / n) where that is less than r + 2 k1 / n, which it is else; "
    .. "V = min(1/4, v + (1 + c2) sqrt(v k2 / (2 (n - 1))) + 2 c2 k2 / (n - 1)), k_i = KL + log(2 nu_i / delta)",
  source = "Tolstikhin & Seldin 2013, theorems 3 to 5", needs = { "kl" }, holds = FOR_ALL, least = 2,
  options = { variance = false, ratio = 1.15, variance_ratio = 1.15 },
  counts = bernstein_counts,
  plain = function(q, n, delta, o)
    local m1, m2 = bernstein_counts(n, delta / 2, o)
    local k1, k2 = o.kl + math.log(2 * m1 / delta), o.kl + math.log(2 * m2 / delta)
    -- of a stochastic predictor the mean of the variances is at most that of its mean, and of a mean up to q at most
    -- this
    local most = q:clamp(0, 0.5)
    local v = o.variance or most * (1 - most) * (n / (n - 1))
    local high = (v + (v * k2 / (2 * (n - 1))):sqrt() * (1 + o.variance_ratio) + k2 * (2 * o.variance_ratio / (n - 1)))
      :clamp(0, 0.25)
    local wide = k1:gt(high * (E2 * n))
    return q + core.where(wide, k1 * (2 / n), (high * k1 * (E2 / n)):sqrt() * (1 + o.ratio))
  end,
  -- E e^(l (R - r) - (e - 2) l^2 V / n) <= 1 for l <= n, and the same of the variance v of n data with its mean V:
  -- E e^(l n (V - v) - l^2 n^2 V / (2 (n - 1))) <= 1
  log_moment = function() return 0 end,
  exponent = function(q, p, n, o)
    return (p - q) * o.lambda - p * (1 - p) * (E2 * o.lambda ^ 2 / n)
  end,
  variance_exponent = function(v, p, n, o)
    local variance = p * (1 - p)
    return (variance - v) * (o.lambda * n) - variance * (o.lambda ^ 2 * n ^ 2 / (2 * (n - 1)))
  end,
}

return rows
