-- The oracle of linear systems: the joint normal distribution of all states and observations of one short series as one
-- dense matrix, and what conditioning it gives.
local pn = require "penumbra"

local joint = {}

local function mt(x) return x:transpose(-1, -2) end

-- Operand x of `own` axes at step t.
local function at(x, own, t)
  return x and (x:ndim() > own and x:select(1, x:size(1) == 1 and 1 or t) or x)
end

local function put(matrix, i, j, block)
  for a = 1, block:size(1) do
    for b = 1, block:size(2) do matrix[i + a - 1][j + b - 1] = block[a][b]:item() end
  end
end

local function zeros(n, k)
  local x = {}
  for i = 1, n do
    x[i] = {}
    for j = 1, k do x[i][j] = 0 end
  end
  return x
end

--- The distribution of s = (x_0, ..., x_T, y_1, ..., y_T): mean [M], cov [M, M]; places of states and observations.
--- `predicted`: the initial state is that of the first observation (x_1 first).
function joint.of(s, steps, predicted)
  local n, p = s.transition:size(-1), s.emission:size(-2)
  local count = predicted and steps or steps + 1
  -- states are a linear map of independent noises (x_0, w_1, ...): the map by its columns
  local map, mean = {}, { s.initial_mean }
  local noise = { s.initial_cov }
  for k = 1, count do map[k] = {} end
  map[1][1] = pn.eye(n)
  for k = 2, count do
    local t = predicted and k or k - 1
    local a = at(s.transition, 2, t)
    for j = 1, k - 1 do map[k][j] = a:matmul(map[k - 1][j]) end
    map[k][k] = pn.eye(n)
    mean[k] = a:matmul(mean[k - 1]:unsqueeze(-1)):squeeze(-1)
    local b = at(s.transition_offset, 1, t)
    if b then mean[k] = mean[k] + b end
    noise[k] = at(s.transition_cov, 2, t)
  end
  local m = n * count + p * steps
  local g, q, centre = zeros(m, n * count + p * steps), zeros(n * count + p * steps, n * count + p * steps), {}
  for k = 1, count do
    for j = 1, k do put(g, (k - 1) * n + 1, (j - 1) * n + 1, map[k][j]) end
    put(q, (k - 1) * n + 1, (k - 1) * n + 1, noise[k])
    for i = 1, n do centre[(k - 1) * n + i] = mean[k][i]:item() end
  end
  for t = 1, steps do
    local k, row = predicted and t or t + 1, n * count + (t - 1) * p
    local c = at(s.emission, 2, t)
    for j = 1, k do put(g, row + 1, (j - 1) * n + 1, c:matmul(map[k][j])) end
    put(g, row + 1, row + 1, pn.eye(p))
    put(q, row + 1, row + 1, at(s.emission_cov, 2, t))
    local y = c:matmul(mean[k]:unsqueeze(-1)):squeeze(-1)
    local d = at(s.emission_offset, 1, t)
    if d then y = y + d end
    for i = 1, p do centre[row + i] = y[i]:item() end
  end
  g, q = pn.tensor(g), pn.tensor(q)
  return { mean = pn.tensor(centre), cov = g:matmul(q):matmul(mt(g)), n = n, p = p, count = count, steps = steps }
end

-- 0-based places of the observations to step t that were observed.
local function seen(z, t, observed)
  local places = {}
  for step = 1, t do
    for i = 1, z.p do
      if not observed or observed[step][i]:item() then
        places[#places + 1] = z.n * z.count + (step - 1) * z.p + i - 1
      end
    end
  end
  return places
end

--- The states, all of them, given the observations to step t: mean [count, n], cov [count n, count n], and log
--- p(y_1:t).
function joint.given(z, y, t, observed)
  local places = seen(z, t, observed)
  local states = z.n * z.count
  local mean, cov = z.mean:slice(1, 1, states), z.cov:slice(1, 1, states):slice(2, 1, states)
  if #places == 0 then
    return mean:reshape { z.count, z.n }, cov, 0
  end
  local index = pn.tensor(places, { dtype = "int64" })
  local values = y:reshape { -1 }:take(1, index - states)
  local cross = z.cov:slice(1, 1, states):take(2, index)
  local own = z.cov:take(1, index):take(2, index)
  local off = (values - z.mean:take(1, index)):unsqueeze(-1)
  local gain = mt(own:solve(mt(cross)))
  local log_prob = -0.5 * ((mt(off):matmul(own:solve(off))):item() + own:logdet():item()
    + #places * math.log(2 * math.pi))
  return (mean + gain:matmul(off):squeeze(-1)):reshape { z.count, z.n }, cov - gain:matmul(mt(cross)), log_prob
end

--- Block [n, n] of a covariance of all states: state i with state j, from 1.
function joint.block(z, cov, i, j)
  return cov:slice(1, (i - 1) * z.n + 1, i * z.n):slice(2, (j - 1) * z.n + 1, j * z.n)
end

return joint
