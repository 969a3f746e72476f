--- What a list of losses, one a step, says of a fit: does the bound still rise, has it fallen?
-- help: nowhere
local trend = {}

-- Mean of the losses first .. last and the variance of that mean.
local function mean_of(losses, first, last)
  local n, mean, square = last - first + 1, 0, 0
  for k = first, last do
    mean = mean + losses[k] / n
  end
  for k = first, last do
    square = square + (losses[k] - mean) ^ 2
  end
  return mean, square / (n * (n - 1))
end

--- rise(losses, first): the rise of the bound within the third quarter of the steps from number `first` on, where
--- the learning rate is still large: from one half to the other, if at least a nat and five standard errors, else
--- 0.
function trend.rise(losses, first)
  local n = #losses - first + 1
  if n < 80 then
    return 0
  end
  local function at(share)
    return first + math.floor(share * n)
  end
  local before, v = mean_of(losses, at(0.5), at(0.625) - 1)
  local after, w = mean_of(losses, at(0.625), at(0.75) - 1)
  local rise = before - after
  return rise >= 1 and rise >= 5 * math.sqrt(v + w) and rise or 0
end

local function median(list)
  table.sort(list)
  local n = #list
  return (list[(n + 1) // 2] + list[n // 2 + 1]) / 2
end

local LOOKS <const> = 25 -- at losses of a tenth of the steps

-- The n losses from number `first` on, LOOKS to twice as many of them where there are more; without a value: infinite.
local function some_of(losses, first, n)
  local list, stride = {}, math.max(1, n // LOOKS)
  for k = first, first + n - 1, stride do
    local loss = losses[k]
    list[#list + 1] = loss == loss and loss or math.huge
  end
  return list
end

--- fall(losses): by how much the bound has fallen from the best tenth of all steps to the last: between medians,
--- which single draws do not move, if at least a nat and five times the best tenth's median deviation, else 0. A
--- bound without a value has fallen without end.
function trend.fall(losses)
  local n = #losses // 10
  if n < 5 then
    return 0
  end
  local from, best, last = math.huge, nil, nil
  for k = 1, 10 do
    local tenth = some_of(losses, #losses - (11 - k) * n + 1, n)
    last = median(tenth)
    if last < from then
      from, best = last, tenth
    end
  end
  if not best or last == math.huge then
    return math.huge
  end
  for k, loss in ipairs(best) do
    best[k] = math.abs(loss - from)
  end
  local fall = last - from
  return fall >= 1 and fall >= 5 * 1.4826 * median(best) and fall or 0
end

return trend
