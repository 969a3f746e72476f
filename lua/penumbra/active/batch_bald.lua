--- Batches of data to ask for by what their labels tell together (BatchBALD: Kirsch, van Amersfoort & Gal 2019): I[y_1,
--- ..., y_B; w] = H[y_1, ..., y_B] - sum over b of E H[y_b | w], for draws of the weights. The joint entropy is a sum
--- over all outcomes where they are few, and else the mean over drawn outcomes, with its standard error.
---
---     local batch = pn.active.batch_bald(draws, 5)           -- draws [K, N, classes]
---     print(batch.places, batch.value, batch.se)
---
--- No datum is looked at by itself: each pick is a few matrix products over all of them, a block of data at a time.
-- help: pn.active, quiet
local core = require "penumbra.core"
local estimate = require "penumbra.estimate"
local options = require "penumbra.options"

local batch_bald = {}

local BLOCK <const> = 1 << 18 -- elements of joint probabilities of a block of data
local PART <const> = 1 << 16 -- and of a part of their outcomes: they stay in the processor's caches

local shape_text = options.shape_text

-- Draws [K, N, C], each a law of one class.
local function checked(where, p)
  options.argument(where, "draws", p, "tensor")
  if p:ndim() ~= 3 or p:size(1) == 0 or p:size(3) == 0 or not p:dtype():find "^float" then
    core.error(("%s: draws must be probabilities [draws, N, classes], got %s %s"):format(where, p:dtype(),
      shape_text(p)))
  end
  p = p:detach()
  if p:numel() == 0 then return p end
  local off = (p:sum(3) - 1):abs():max():item()
  if not (p:min():item() >= 0 and off < 1e-3) then
    core.error(("%s: draws must be probabilities that sum to 1 over the classes, got a least of %g and sums off by %g")
      :format(where, p:min():item(), off))
  end
  return p / p:sum(3, true)
end

-- ---- joint outcomes of what is chosen ----

-- All of them: q [K, M], the probability of each under each draw.
local function all_outcomes(q, p)
  local K = q:size(1)
  return (q:unsqueeze(3) * p:unsqueeze(2)):reshape { K, -1 }
end

-- Labels [S] of one datum, one for each s by its draw's probabilities rows [S, C]: never one of probability 0.
local function labels_of(rows, generator)
  local sums = rows:cumsum(2)
  local u = core.rand({ rows:size(1), 1 }, { dtype = rows:dtype(), generator = generator })
  return (u * sums:slice(2, -1, -1)):gt(sums):to("int64"):sum(2)
end

-- Drawn outcomes: draw s has its labels from draw `member[s]` of the weights. log_q [K, S] of those labels under each.
local function drawn_outcomes(K, S, dtype)
  return { member = core.arange(S):to("int64"):remainder(K), log_q = core.zeros({ K, S }, { dtype = dtype }) }
end

local function extend(s, p, generator)
  local y = labels_of(p:take(1, s.member), generator)
  s.log_q = s.log_q + p:take(2, y):log()
end

-- ---- entropies ----

-- sum_c of q log q of the products q = weights p, [rows, n], for rows of weights [M, K] and p [K, n, C], by parts of
-- the rows: f(sums, first, last).
local function by_parts(weights, p, f)
  local K, n, C = p:size(1), p:size(2), p:size(3)
  local flat, M = p:reshape { K, n * C }, weights:size(1)
  local rows = math.max(64, PART // (n * C))
  for first = 1, M, rows do
    local last = math.min(M, first + rows - 1)
    local q = weights:slice(1, first, last):matmul(flat)
    local logs = q:xlogy(q)
    f(logs:reshape { -1, n, C }:sum(3), first, last)
    q:close()
    logs:close()
  end
end

-- Of all outcomes and one more datum: a function of p [K, n, C] that gives [n].
local function exact_entropies(q)
  local weights = (q / q:size(1)):t():contiguous() -- [M, K]
  return function(p)
    local total = core.zeros({ p:size(2) }, { dtype = p:dtype() })
    by_parts(weights, p, function(sums) total = total - sums:sum(1) end)
    return total
  end
end

-- By drawn outcomes, with the squares of their standard errors. H[y, y_n] = E[-log p(y) - sum_c r_c log r_c], r_c =
-- p(y, y_n = c) / p(y), over y drawn from p(y), which is not 0 of what was drawn. The r_c, sums of K terms in [0, 1],
-- and their logarithms are in float32, off by 1e-6 where the standard error of so many draws is 1e-2 or so; means over
-- draws are in the dtype of p.
local function drawn_entropies(s)
  local K, S, dtype = s.log_q:size(1), s.log_q:size(2), s.log_q:dtype()
  local log_p = s.log_q:logsumexp(1) - math.log(K)
  local weights = ((s.log_q - log_p):exp() / K):t():contiguous():to "float32" -- [S, K]
  return function(p)
    local list = {}
    by_parts(weights, p:to "float32", function(sums, first, last)
      list[#list + 1] = -sums:to(dtype) - log_p:slice(1, first, last):unsqueeze(2)
    end)
    local each = core.concatenate(list, 1)
    return each:mean(1), each:var(1) / S
  end
end

-- f of blocks of data, joined.
local function by_blocks(p, outcomes, f)
  local n, C = p:size(2), p:size(3)
  local rows = math.max(16, BLOCK // math.max(1, outcomes * C)) -- products of fewer columns are slow
  local first, second = {}, {}
  for from = 1, n, rows do
    local a, b = f(p:slice(2, from, math.min(n, from + rows - 1)))
    first[#first + 1], second[#second + 1] = a, b
  end
  return core.concatenate(first, 1), second[1] and core.concatenate(second, 1) or nil
end

local known = { outcomes = 10000, draws = 5000, generator = options.optional "generator" }

local function read_options(where, given)
  local o = options.check(where, given, known)
  options.whole(where, "draws", o.draws, 2)
  return o
end

-- The outcomes of what is chosen so far: all of them while they are at most o.outcomes with one datum more, then drawn.
local function outcomes_of(p, o)
  local K, C = p:size(1), p:size(3)
  local self = { q = core.ones({ K, 1 }, { dtype = p:dtype() }), chosen = {} }
  function self.add(one) -- [K, C]
    self.chosen[#self.chosen + 1] = one
    if self.q and self.q:size(2) * C * C <= o.outcomes then
      self.q = all_outcomes(self.q, one)
    elseif self.q then
      self.q, self.drawn = nil, drawn_outcomes(K, o.draws, p:dtype())
      for _, each in ipairs(self.chosen) do extend(self.drawn, each, o.generator) end
    else
      extend(self.drawn, one, o.generator)
    end
  end
  function self.entropies(all)
    if self.q then return by_blocks(all, self.q:size(2), exact_entropies(self.q)) end
    return by_blocks(all, o.draws, drawn_entropies(self.drawn))
  end
  return self
end

--- joint_entropy(draws [, {outcomes = 10000, draws = 5000, generator =}]): H[y_1, ..., y_B] of the labels of B data
--- together, for probabilities draws [K, B, classes], each draw of the weights as probable as another: {value =, se =,
--- exact =}. A sum over all classes^B outcomes where they are at most `outcomes` (se is 0), else the mean over drawn
--- ones, `draws` of them.
function batch_bald.joint_entropy(draws, given)
  local where = "joint_entropy"
  local p, o = checked(where, draws), read_options(where, given)
  local B = p:size(2)
  if B == 0 then return estimate.new(0.0, 0.0, { exact = true }) end
  local s = outcomes_of(p, o)
  for b = 1, B - 1 do s.add(p:select(2, b)) end
  local value, square = s.entropies(p:slice(2, B, B))
  return estimate.new(value:item(), square and math.sqrt(square:item()) or 0.0, { exact = square == nil })
end

--- batch_bald(draws, n [, {outcomes = 10000, draws = 5000, generator =}]): n data chosen one after the other, always
--- the one with which the labels of all chosen tell most of the weights. draws [K, N, classes]: probabilities under the
--- same K draws of the weights for all data (draws that differ from datum to datum know nothing of what data share).
--- Gives {places = int64 [n] from 0 on, value =, se =, steps = {{value =, se =, exact =}, ...}}: the mutual information
--- of the first k data, in nats; se of drawn outcomes, 0 where all were summed over, as in joint_entropy.
function batch_bald.batch_bald(draws, n, given)
  local where = "batch_bald"
  local p, o = checked(where, draws), read_options(where, given)
  local N = p:size(2)
  n = math.min(options.whole(where, "n", n, 0), N)
  local result = { places = core.zeros({ 0 }, { dtype = "int64" }), value = 0.0, se = 0.0, steps = {} }
  if n == 0 then return result end
  local conditional, places, s = -p:xlogy(p):sum(3):mean(1), {}, outcomes_of(p, o)
  local taken, known_part = core.zeros({ N }, { dtype = "bool" }), 0
  for k = 1, n do
    local value, square = s.entropies(p)
    local gain = core.where(taken, -math.huge, value - conditional)
    local at = gain:argmax(1):item()
    places[k] = at
    result.steps[k] = { value = math.max(gain[at + 1]:item() - known_part, 0.0),
      se = square and math.sqrt(square[at + 1]:item()) or 0.0, exact = square == nil }
    known_part = known_part + conditional[at + 1]:item()
    taken = taken:logical_or(core.arange(N):eq(at))
    if k < n then s.add(p:select(2, at + 1)) end
  end
  result.places = core.tensor(places, { dtype = "int64" })
  result.value, result.se = result.steps[n].value, result.steps[n].se
  return result
end

return batch_bald
