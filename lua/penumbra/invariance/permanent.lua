--- Logs of permanents: of the sum over all permutations of the product of one entry a row and a column.
-- help: none
local core = require "penumbra.core"

local permanent = { MOST = 16 } -- rows: 2^15 x 16 sums for each matrix

local made = {} -- k -> list over sizes r of subsets: {before, nodes, count}

-- Of the subsets of k nodes with r members, in a fixed order: for every member the number of the subset without it
-- among those of r - 1, and the member.
local function tables(k)
  if made[k] then
    return made[k]
  end
  local levels, number = {}, { [0] = 0 }
  for r = 1, k do levels[r] = { before = {}, nodes = {}, count = 0 } end
  for set = 1, (1 << k) - 1 do
    local members, n = {}, 0
    for node = 0, k - 1 do
      if set & (1 << node) ~= 0 then
        n = n + 1
        members[n] = node
      end
    end
    local level = levels[n]
    number[set], level.count = level.count, level.count + 1
    for _, node in ipairs(members) do -- the smaller set has a smaller number: it is known
      level.before[#level.before + 1] = number[set ~ (1 << node)]
      level.nodes[#level.nodes + 1] = node
    end
  end
  for _, level in ipairs(levels) do
    level.before = core.tensor(level.before, { dtype = "int64" })
    level.nodes = core.tensor(level.nodes, { dtype = "int64" })
  end
  made[k] = levels
  return levels
end

--- log_permanent(M): of exp M, M [..., k, k]: [...]. The sum over the ways in which the nodes of a set S fill the first
--- |S| rows is the sum over i in S of that of S less i, times entry i of row |S|: k 2^(k - 1) terms, none negative.
function permanent.log_permanent(M)
  local shape, k = M:shape(), M:size(-1)
  local lead = M:numel() // (k * k)
  M = M:reshape { lead, k, k }
  local f = core.zeros({ lead, 1 }, { dtype = M:dtype() })
  for r, t in ipairs(tables(k)) do
    local g = f:take(2, t.before) + M:select(2, r):take(2, t.nodes)
    f = g:reshape { lead, t.count, r }:logsumexp(3)
  end
  return f:reshape(table.move(shape, 1, #shape - 2, 1, {}))
end

-- ln (g(k) - g(k - 1)) for k = 1 .. n, g(k) = (k!)^(1 / k), g(0) = 0.
local function increments(n, dtype)
  local list, before, log_factorial = {}, 0, 0
  for k = 1, n do
    log_factorial = log_factorial + math.log(k)
    local g = math.exp(log_factorial / k)
    list[k], before = math.log(g - before), g
  end
  return core.tensor(list, { dtype = dtype })
end

-- Soules' bound (2003): the product over rows of the sum of the entries, the largest first, times these increments. It
-- is that of Minc and Bregman for entries 0 and 1, and exact for equal ones.
local function by_rows(M, log_step)
  return (-((-M):sort(3)) + log_step):logsumexp(3):sum(2)
end

--- log_bound(M): an upper bound of log_permanent(M), [S] for M [S, k, k], of any k: the least of Soules' bounds by
--- rows and by columns, of M as it is and with rows and columns scaled to sums of 1 (Sinkhorn): every factor of a
--- row or a column is one of the permanent.
function permanent.log_bound(M)
  local log_step = increments(M:size(-1), M:dtype())
  local least = by_rows(M, log_step):minimum(by_rows(M:transpose(2, 3), log_step))
  local factor = 0
  for _ = 1, 30 do
    for axis = 2, 3 do
      local sums = M:logsumexp(axis, true)
      M, factor = M - sums, factor + sums:sum { 2, 3 }
    end
  end
  return least:minimum(by_rows(M, log_step):minimum(by_rows(M:transpose(2, 3), log_step)) + factor)
end

return permanent
