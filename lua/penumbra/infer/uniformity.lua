--- Are numbers uniform? The empirical distribution function of n of them within bands that hold it everywhere at once
--- with a given probability, exactly and for any n (Sailynoja, Burkner & Vehtari 2022), and a test of symmetry (Butler
--- 1969). What simulation-based calibration and probability integral transforms are judged by.
---
--- Counts R_j of numbers below z_1 < z_2 < ... are binomial one by one; a band is what has at least gamma / 2 on either
--- side at each z_j. How likely all R_j lie within: the increments of a multinomial are those of a Poisson process
--- given its total, so the law of (R_1 .. R_j within) is a vector that a Toeplitz matrix takes from z_j to z_{j+1}.
-- help: pn
local core = require "penumbra.core"
local dist = require "penumbra.distribution"

local uniformity = {}

local POINTS, ELEMENTS = 100, 2e6 -- at most so many z, and so many elements of a table z by counts

local methods = {}

-- The matrix of the probabilities of Poisson increments from counts low .. high to next_low .. next_high.
local function transition(mass, low, high, next_low, next_high)
  local from = core.arange(low, high + 1, { dtype = "int64" }):unsqueeze(2)
  local more = core.arange(next_low, next_high + 1, { dtype = "int64" }):unsqueeze(1) - from
  local shape = more:shape()
  local p = mass:take(1, core.maximum(more, 0):reshape { -1 }):reshape(shape)
  return core.where(more:ge(0), p, core.zeros(shape))
end

-- The least and the largest counts whose both tails are above gamma / 2, lists.
local function bounds(self, gamma)
  local least, most = self.below:le(gamma / 2):sum(2):totable(), self.above:le(gamma / 2):sum(2):totable()
  for j, k in ipairs(most) do
    least[j], most[j] = math.floor(least[j] + 0.5), self.n - math.floor(k + 0.5)
  end
  return least, most
end

--- coverage(gamma): the probability that uniform numbers have both tails above gamma / 2 at every z.
function methods:coverage(gamma)
  local least, most = bounds(self, gamma)
  local low, high = 0, 0
  local law = core.ones { 1, 1 }
  for j, gap in ipairs(self.gaps) do
    local next_low, next_high = self.n, self.n
    if j < #self.gaps then
      next_low, next_high = least[j], most[j]
      if next_low > next_high then
        return 0
      end
    end
    law = law:matmul(transition(self.masses[gap], low, high, next_low, next_high))
    low, high = next_low, next_high
  end
  return law:item() / self.total
end

--- band(level): lists of the least and the largest counts at z_1, z_2, ... that the numbers have, all at once, with
--- probability `level` (or a little more: counts are discrete).
function methods:band(level)
  local low, high = 0, 1
  for _ = 1, 40 do
    local middle = (low + high) / 2
    if self:coverage(middle) >= level then
      low = middle
    else
      high = middle
    end
  end
  return bounds(self, low)
end

--- p_value(counts): how likely uniform numbers leave so far somewhere as these, counts a list for z_1, z_2, ...
function methods:p_value(counts)
  local least = 2 -- twice the smaller tail, above 1 in the middle
  local tails = core.minimum(self.below, self.above):totable()
  for j, r in ipairs(counts) do
    least = math.min(least, 2 * tails[j][r + 1])
  end
  -- inside bands that are a little narrower, they are not
  return math.min(1, math.max(0, 1 - self:coverage(least * (1 + 1e-9))))
end

local class = { __index = methods, __name = "uniformity" }

local cache = setmetatable({}, { __mode = "v" })

--- new(n, cells): the law of n numbers that are uniform over `cells` equally likely values 0, 1, ... (ranks; for
--- numbers on (0, 1) any large number of cells will do). Its points z_j are self.points[j] / cells: at most 99, and
--- fewer than n.
function uniformity.new(n, cells)
  local key = n .. " " .. cells
  if cache[key] then
    return cache[key]
  end
  local self = setmetatable({ n = n, cells = cells, points = {}, gaps = {}, masses = {} }, class)
  local parts, before = math.max(2, math.min(POINTS, cells, n, ELEMENTS // n)), 0
  for j = 1, parts do
    local at = math.floor(j * cells / parts + 0.5)
    if at > before then
      self.gaps[#self.gaps + 1] = at - before
      if at < cells then
        self.points[#self.points + 1] = at
      end
      before = at
    end
  end
  local count = core.arange(n + 1, { dtype = "float64" })
  for _, gap in ipairs(self.gaps) do
    self.masses[gap] = self.masses[gap] or dist.poisson(n * gap / cells):log_prob(count):exp()
  end
  self.total = dist.poisson(n):log_prob(n):exp():item()
  local z = core.tensor(self.points):to("float64"):unsqueeze(2) / cells
  local law = dist.binomial { total_count = n, probs = z }
  count = count:unsqueeze(1):broadcast_to { #self.points, n + 1 }
  self.below = law:cdf(count) -- P(R <= r)
  self.above = 1 - self.below + law:log_prob(count):exp() -- P(R >= r)
  cache[key] = self
  return self
end

--- counts(values): for each point how many of the values, a list of whole numbers from 0 to cells - 1, lie below it.
function methods:counts(values)
  local at, counts = 1, {}
  local sorted = table.move(values, 1, #values, 1, {})
  table.sort(sorted)
  for j, point in ipairs(self.points) do
    while sorted[at] and sorted[at] < point do
      at = at + 1
    end
    counts[j] = at - 1
  end
  return counts
end

--- symmetry(values): a list of numbers that shall be symmetric about 0; the probability that the two tails of symmetric
--- numbers differ somewhere by as many as these (Butler's test, exact: with the largest first, signs are fair coins,
--- whose sums walk at random).
function uniformity.symmetry(values)
  local sorted = {}
  for _, v in ipairs(values) do
    if v ~= 0 then
      sorted[#sorted + 1] = v
    end
  end
  table.sort(sorted, function(a, b) return math.abs(a) > math.abs(b) end)
  local sum, most = 0, 0
  for k, v in ipairs(sorted) do
    sum = sum + (v > 0 and 1 or -1)
    if not sorted[k + 1] or math.abs(sorted[k + 1]) < math.abs(v) then
      most = math.max(most, math.abs(sum))
    end
  end
  if most == 0 then
    return 1
  end
  -- the law of the sum of the walks that have stayed within (-most, most)
  local width = 2 * most - 1
  local law = {}
  for i = 1, width do
    law[i] = i == most and 1 or 0
  end
  for _ = 1, #sorted do
    local after = {}
    for i = 1, width do
      after[i] = 0.5 * ((law[i - 1] or 0) + (law[i + 1] or 0))
    end
    law = after
  end
  local stay = 0
  for i = 1, width do
    stay = stay + law[i]
  end
  return 1 - stay
end

return uniformity
