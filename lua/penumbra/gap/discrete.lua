--- The highest bound of a hidden Markov model of discrete observations with q(z_t | z_(t-1), x_1 ... x_t), by a dynamic
--- programme over all prefixes: the outer expectations of later steps depend on what earlier q do, so that the shared
--- posterior of each step on its own is not quite the best. Backwards from V_(T+1) = 0, ^p the law of the data,
---
---     V_t(z_(t-1), x_1 ... x_t) = log sum over z_t of p(z_t | z_(t-1)) p(x_t | z_t)
---                                 exp E_^p[V_(t+1)(z_t, x_1 ... x_(t+1))]
---
--- and the q that has this sum as its normaliser is the best; the bound is E_^p[V_1].
-- help: pn.gap
local core = require "penumbra.core"
local options = require "penumbra.options"

local discrete = {}

local MOST = 2 ^ 22 -- prefixes times states
local LEAST = -1e30 -- in place of log 0, so that 0 times it is 0

local function safe_log(p)
  return p:log():clamp(LEAST, 0)
end

-- ---- reading ----

local function probabilities(where, name, value, shape)
  local x = options.numbers(where, name, value, "tensor")
  if x:dtype() ~= "float64" then
    core.error(("%s: %s must be float64 probabilities"):format(where, name))
  end
  local ends = table.concat(x:shape(), ", ")
  local off = x:ge(0):all():item() and (x:sum(-1) - 1):abs():max():item() or 1
  if off > 1e-6 then
    core.error(("%s: %s must be probabilities that sum to 1 along the last axis"):format(where, name))
  elseif shape and ends ~= table.concat(shape, ", ") then
    core.error(("%s: %s must be [%s], got [%s]"):format(where, name, table.concat(shape, ", "), ends))
  end
  return x
end

-- {initial [S], transition of each step [S, S], emission [S, M]}
local function read_model(where, given, T, like)
  local o = options.check(where, given, { initial = options.required(), transition = options.required(),
    emission = options.required() })
  local m = { initial = probabilities(where, "initial", o.initial) }
  if m.initial:ndim() ~= 1 then
    core.error(where .. ": initial must be [S]")
  end
  local S = m.initial:size(1)
  local a = options.numbers(where, "transition", o.transition, "tensor")
  local timed = a:ndim() == 3
  a = probabilities(where, "transition", a, timed and { T, S, S } or { S, S })
  m.transition = {}
  for t = 1, T do m.transition[t] = timed and a[t] or a end
  m.emission = probabilities(where, "emission", o.emission)
  if m.emission:ndim() ~= 2 or m.emission:size(1) ~= S then
    core.error(("%s: emission must be [%d, M], got [%s]"):format(where, S, table.concat(m.emission:shape(), ", ")))
  elseif like and m.emission:size(2) ~= like.emission:size(2) then
    core.error(("%s: the data must have %d symbols as the model has, got %d"):format(where, like.emission:size(2),
      m.emission:size(2)))
  end
  return m
end

-- p(x_1 ... x_t) of all prefixes, a list of [M^t]; the last symbol varies fastest.
local function prefixes(m, T)
  local out, alpha = {}, nil
  for t = 1, T do
    local ahead = alpha and alpha:matmul(m.transition[t]) or m.initial:unsqueeze(1)
    alpha = (ahead:unsqueeze(2) * m.emission:t()):reshape { -1, m.initial:size(1) }
    out[t] = alpha:sum(-1)
  end
  return out
end

-- log p(x_(t+1) ... x_T | z_t), a list of [M^(T - t), S].
local function futures(m, T)
  local S, out = m.initial:size(1), {}
  local beta = core.ones { 1, S }
  out[T] = beta:log()
  for t = T - 1, 1, -1 do
    -- [M, M^(T - t - 1), S] of z_(t+1), then summed over it
    local both = m.emission:t():unsqueeze(2) * beta
    beta = both:reshape { -1, S }:matmul(m.transition[t + 1]:t())
    out[t] = safe_log(beta)
  end
  return out
end

-- ---- values of posteriors ----

-- log p(z_t | z_(t-1)) + log p(x_t | z_t): [M, S, S] (of the first step [M, 1, S]).
local function local_terms(m, t)
  local moves = t == 1 and m.initial:unsqueeze(1) or m.transition[t]
  return safe_log(moves) + safe_log(m.emission):t():unsqueeze(2)
end

-- [M^(t-1), M, S or 1, S] from what each prefix [M^t, S] adds.
local function with_future(terms, future)
  local M = terms:size(1)
  return terms + future:reshape { -1, M, 1, future:size(-1) }
end

-- The bound of the posteriors that `pick(t, terms, value)` gives as logits, and those posteriors.
local function evaluate(m, weights, T, pick)
  local S, M = m.initial:size(1), m.emission:size(2)
  local ahead = core.zeros { M ^ T // 1 | 0, S } -- E V_(t+1) by prefix and z_t
  local laws = {}
  for t = T, 1, -1 do
    local terms = local_terms(m, t)
    local log_q = pick(t, terms, ahead):log_softmax(-1):clamp(LEAST, 0)
    local value = (log_q:exp() * (with_future(terms, ahead) - log_q)):sum(-1) -- [M^(t-1), M, S or 1]
    laws[t] = log_q:exp()
    ahead = (weights[t] * value):sum(2)
  end
  return ahead:sum():item(), laws
end

--- discrete{initial =, transition =, emission =, steps = T [, data =]} -> {log_likelihood, bound = {full, optimal,
--- greedy, bayes}, gap, first_gap, posteriors}: exact bounds, in nats a sequence, of a hidden Markov model of S states
--- and M symbols: initial [S], transition [S, S] or [T, S, S] (entry t leads into step t), emission [S, M]. data:
--- another such model, the law of the data (the model itself). Of q(z_t | z_(t-1), x_1 ... x_t)
---
---   optimal   the best there is, by dynamic programming; gap is log_likelihood less this
---   greedy    the shared posterior of each step on its own, the geometric mean of p(z_t | z_(t-1), x_t ... x_T)
---   bayes     p(z_t | z_(t-1), x_t), which filters
---   full      with all of x: log_likelihood
---
--- first_gap [M]: -log Z of the shared posterior of z_1, for each x_1 (0 where the data never begin with it).
--- posteriors: of each of the three names a list of T tensors [M^(t-1), M, S, S], prefixes before t (the last symbol
--- varies fastest), x_t, z_(t-1), z_t; [1, M, 1, S] of the first. All M^T sequences are enumerated.
function discrete.discrete(given)
  local where = "discrete"
  local o = options.check(where, given, { initial = options.required(), transition = options.required(),
    emission = options.required(), steps = options.required "number", data = options.optional "table" })
  local T = options.whole(where, "steps", o.steps, 1)
  local m = read_model(where, { initial = o.initial, transition = o.transition, emission = o.emission }, T)
  local source = o.data and read_model(where .. ": data", o.data, T, m) or m
  local S, M = m.initial:size(1), m.emission:size(2)
  if T * math.log(M) + 2 * math.log(math.max(S, 2)) > math.log(MOST) then
    core.error(("%s: %d steps of %d symbols are more sequences than can be enumerated (states^2 M^T up to %d)")
      :format(where, T, M, MOST // 1))
  end
  local seen, own, beta = prefixes(source, T), prefixes(m, T), futures(m, T)
  local weights, expected = {}, {}
  for t = 1, T do
    local before = t == 1 and core.ones { 1 } or seen[t - 1]
    local each = seen[t]:reshape { -1, M } / before:unsqueeze(-1)
    weights[t] = core.where(each:isnan(), core.zeros {}, each):unsqueeze(-1)
    local rest = seen[T]:reshape { seen[t]:size(1), -1 } / seen[t]:unsqueeze(-1)
    expected[t] = core.where(rest:isnan(), core.zeros {}, rest):matmul(beta[t])
  end
  local bound, posteriors = {}, {}
  local picks = {
    optimal = function(_, terms, ahead) return with_future(terms, ahead) end,
    greedy = function(t, terms) return with_future(terms, expected[t]) end,
    bayes = function(_, terms, ahead) return with_future(terms, ahead * 0) end,
  }
  for name, pick in pairs(picks) do
    bound[name], posteriors[name] = evaluate(m, weights, T, pick)
  end
  local log_own = safe_log(own[T])
  bound.full = (seen[T] * log_own):sum():item()
  for name, value in pairs(bound) do -- data that the model cannot make
    bound[name] = value < LEAST / 1e15 and -math.huge or value
  end
  local log_likelihood = bound.full
  -- E log p(x | x_1) less the normaliser of the first shared posterior
  local rest = core.where(seen[1]:unsqueeze(-1):eq(0), core.zeros {}, seen[T]:reshape { M, -1 }
    / seen[1]:unsqueeze(-1))
  local normaliser = (local_terms(m, 1):squeeze(2) + expected[1]):logsumexp(-1)
  return { log_likelihood = log_likelihood, bound = bound, gap = log_likelihood - bound.optimal,
    first_gap = core.where(seen[1]:eq(0), core.zeros {}, (rest * log_own:reshape { M, -1 }):sum(-1) - normaliser),
    posteriors = posteriors }
end

return discrete
