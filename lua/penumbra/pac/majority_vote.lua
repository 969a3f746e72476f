--- The bound on a majority vote by how often two members err together (Lacasse et al. 2006; Germain, Lacasse,
--- Laviolette, Marchand & Roy 2015, "PAC-bound 2"): of a vote of whose members two differ with probability d and both
--- err with e, so that one errs with e + d / 2, the risk is at most 1 - (1 - 2 e - d)^2 / (1 - 2 d) (the C-bound,
--- Cantelli's inequality for the margin). The largest that it is over all pairs (d, e) with
---
---     n kl((d_S, e_S) || (d, e)) <= 2 KL(Q || P) + log((xi(n) + n) / delta),
---
--- kl of three classes, xi(n) = E e^(n kl(r || R)) of two. Pairs of members have the posterior Q x Q, whose divergence
--- is twice that of Q, and xi(n) + n is the moment of three classes itself.
-- help: none
local core = require "penumbra.core"
local options = require "penumbra.options"

local majority_vote = {}

local known = { risk = options.required "number", disagreement = options.required "number",
  kl = options.required "number", n = options.required "number", delta = options.required "number" }

--- log of the sum over k of C(n, k) (k / n)^k (1 - k / n)^(n - k), which is E e^(n kl(r || R)) whatever R is.
function majority_vote.log_kl_moment(n)
  local k = core.arange(n + 1):to "float64"
  local q = k / n
  local log_choose = math.log(1) + core.tensor(n + 1.0):lgamma() - (k + 1):lgamma() - (n + 1 - k):lgamma()
  return (log_choose + k:xlogy(q) + (n - k):xlogy(1 - q)):logsumexp(1):item()
end

local function check(where, given)
  local o = options.check(where, given, known)
  o.n = options.whole(where, "n", o.n, 1)
  if not (o.delta > 0 and o.delta < 1) then
    core.error(("%s: delta must lie strictly between 0 and 1, got %g"):format(where, o.delta))
  elseif not (o.kl >= 0) then
    core.error(("%s: kl must not be negative, and a number, got %g"):format(where, o.kl))
  elseif not (o.risk >= 0 and o.risk <= 1) then
    core.error(("%s: risk must lie in 0 to 1, got %g"):format(where, o.risk))
  elseif not (o.disagreement >= 0 and o.disagreement <= 2 * o.risk * (1 - o.risk) + 1e-12) then
    core.error(("%s: disagreement must lie in 0 to 2 risk (1 - risk), got %g"):format(where, o.disagreement))
  end
  return o
end

-- The largest x in [low, high] where f, which does not fall there, is at most c; never below it.
local function last_below(f, c, low, high)
  if f(high) <= c then return high end
  while true do
    local middle = 0.5 * (low + high)
    if middle <= low or middle >= high then return high end
    if f(middle) <= c then low = middle else high = middle end
  end
end

-- q log(q / p)
local function part(q, p) return q > 0 and q * math.log(q / p) or 0 end

-- The largest C-bound of the pairs whose disagreement is d. (Of three classes the divergence is least, at that d, where
-- both err in the proportion in which they do on the data.)
local function largest_at(d, d_s, e_s, c)
  local rest = math.max(0, 1 - d_s - e_s)
  local function divergence(e) return part(d_s, d) + part(e_s, e) + part(rest, 1 - d - e) end
  local e = last_below(divergence, c, d_s < 1 and e_s / (1 - d_s) * (1 - d) or 0, 1 - d)
  local margin = 1 - 2 * e - d
  return margin > 0 and 1 - margin ^ 2 / (1 - 2 * d) or 1
end

-- The largest of f, which rises and then falls, on [low, high], by golden section.
local function largest(f, low, high)
  local share <const> = 0.5 * (math.sqrt(5) - 1)
  local a, b = high - share * (high - low), low + share * (high - low)
  local fa, fb = f(a), f(b)
  local best = math.max(f(low), f(high), fa, fb)
  for _ = 1, 80 do
    if fa >= fb then
      high, b, fb = b, a, fa
      a = high - share * (high - low)
      fa = f(a)
    else
      low, a, fa = a, b, fb
      b = low + share * (high - low)
      fb = f(b)
    end
    best = math.max(best, fa, fb)
  end
  return best
end

local function value(where, given)
  local o = check(where, given)
  local d_s = o.disagreement
  local e_s = math.max(0, o.risk - 0.5 * d_s)
  local c = (2 * o.kl + math.log((math.exp(majority_vote.log_kl_moment(o.n)) + o.n) / o.delta)) / o.n
  local low = core.bernoulli_kl_inverse(core.tensor(d_s), core.tensor(c), 1):item()
  local high = core.bernoulli_kl_inverse(core.tensor(d_s), core.tensor(c)):item()
  -- (The C-bound is concave, so that its largest value of a disagreement is too: it has one top. What the search leaves
  -- out of it is of the order of the rounding.)
  local top = largest(function(d) return largest_at(d, d_s, e_s, c) end, low, math.min(high, 0.5 - 1e-12))
  return core.tensor(math.min(1, top * (1 + 1e-12)))
end

majority_vote.row = {
  formula = "largest 1 - (1 - 2 e - d)^2 / (1 - 2 d) with n kl((d_S, e_S) || (d, e)) <= 2 KL + log((xi(n) + n) / "
    .. "delta)",
  source = "Germain et al. 2015, PAC-bound 2", needs = { "kl", "disagreement" }, least = 1, own = value,
  holds = "for all posteriors Q at once, the risk of the majority vote of Q is at most the value, of numbers: risk is "
    .. "the mean of its members, disagreement how often two of them differ, both on the data",
}

return majority_vote
