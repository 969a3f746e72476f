--- What pictures of draws show, by loops over lists: quantiles and densities.
local curves = {}

-- Between the two draws that stand around it.
function curves.quantile(list, q)
  local sorted, at = table.move(list, 1, #list, 1, {}), 1 + q * (#list - 1)
  table.sort(sorted)
  local k = math.min(math.floor(at), #list - 1)
  return sorted[k] + (at - k) * (sorted[k + 1] - sorted[k])
end

-- A Gaussian kernel of Silverman's width at `points` places; with `bounded` what lies beyond the ends is reflected.
function curves.density(list, points, bounded)
  local s, n, mean, square = table.move(list, 1, #list, 1, {}), #list, 0, 0
  table.sort(s)
  for _, v in ipairs(s) do mean = mean + v / n end
  for _, v in ipairs(s) do square = square + (v - mean) ^ 2 / (n - 1) end
  local spread = (s[math.ceil(0.75 * n)] - s[math.max(1, math.floor(0.25 * n))]) / 1.34
  local width = 0.9 * (spread > 0 and math.min(spread, square ^ 0.5) or square ^ 0.5) * n ^ -0.2
  if width == 0 then width = 1e-3 end
  local first, last = s[1], math.max(s[n], s[1] + width)
  if not bounded then first, last = first - 2.5 * width, last + 2.5 * width end
  local x, heights = {}, {}
  for k = 1, points do
    x[k], heights[k] = first + (last - first) * (k - 1) / (points - 1), 0
    for _, at in ipairs(bounded and { x[k], 2 * s[1] - x[k], 2 * s[n] - x[k] } or { x[k] }) do
      for _, v in ipairs(s) do heights[k] = heights[k] + math.exp(-((at - v) / width) ^ 2 / 2) end
    end
    heights[k] = heights[k] / (n * width * math.sqrt(2 * math.pi))
  end
  return x, heights
end

return curves
