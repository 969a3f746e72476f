--- Lines of equal height on a grid: marching squares, joined into paths. Lorensen & Cline 1987 in two dimensions; where
--- two corners across a cell are above and two below, the mean of the four says which are joined (Nielson & Hamann 1991
--- decide by the bilinear saddle instead).
-- help: nowhere
local contour = {}

-- The names of the edges of cell (i, j) and the corners at their ends: top, right, bottom, left.
local function edges_of(i, j)
  return { { "h", i, j, i, j, i, j + 1 }, { "v", i, j + 1, i, j + 1, i + 1, j + 1 },
    { "h", i + 1, j, i + 1, j, i + 1, j + 1 }, { "v", i, j, i, j, i + 1, j } }
end

-- The pairs of edges of a cell that the line of a level joins; none where a corner has no value.
local function crossed(z, i, j, level)
  local a, b, c, d = z[i][j], z[i][j + 1], z[i + 1][j + 1], z[i + 1][j]
  local mean = (a + b + c + d) / 4
  if mean - mean ~= 0 then return {} end
  a, b, c, d = a > level, b > level, c > level, d > level
  local cut = { a ~= b, b ~= c, c ~= d, d ~= a }
  if cut[1] and cut[2] and cut[3] and cut[4] then
    local apart = (mean > level) == a -- the corners a and c are joined, b and d cut off
    return apart and { { 1, 2 }, { 3, 4 } } or { { 4, 1 }, { 2, 3 } }
  end
  local pair = {}
  for k = 1, 4 do pair[#pair + 1] = cut[k] and k or nil end
  return #pair == 2 and { pair } or {}
end

-- Neighbours along the line of each edge that it crosses, their places, and their names in the order of the grid.
local function collect(z, xs, ys, level)
  local next_to, place, order = {}, {}, {}
  local function add(edge)
    local name = edge[1] .. edge[2] .. "," .. edge[3]
    if not place[name] then
      local i, j, k, l = table.unpack(edge, 4)
      local share = (level - z[i][j]) / (z[k][l] - z[i][j])
      place[name] = { xs[j] + share * (xs[l] - xs[j]), ys[i] + share * (ys[k] - ys[i]) }
      next_to[name], order[#order + 1] = {}, name
    end
    return name
  end
  for i = 1, #z - 1 do
    for j = 1, #z[1] - 1 do
      local edges
      for _, pair in ipairs(crossed(z, i, j, level)) do
        edges = edges or edges_of(i, j)
        local one, other = add(edges[pair[1]]), add(edges[pair[2]])
        table.insert(next_to[one], other)
        table.insert(next_to[other], one)
      end
    end
  end
  return next_to, place, order
end

--- Paths where the heights z (a list of rows, at xs and ys) have a level: lists of places {x, y}; a closed one ends
--- where it begins.
function contour.paths(z, xs, ys, level)
  local next_to, place, order = collect(z, xs, ys, level)
  local paths, done = {}, {}
  local function walk(name)
    local path, first = {}, name
    while name do
      done[name], path[#path + 1] = true, place[name]
      local following
      for _, other in ipairs(next_to[name]) do following = following or not done[other] and other or nil end
      if not following and #path > 2 and (next_to[name][1] == first or next_to[name][2] == first) then
        path[#path + 1] = place[first]
      end
      name = following
    end
    paths[#paths + 1] = path
  end
  for _, ends in ipairs { true, false } do -- open ones from their ends, then closed ones
    for _, name in ipairs(order) do
      if not done[name] and (not ends or #next_to[name] == 1) then walk(name) end
    end
  end
  return paths
end

return contour
