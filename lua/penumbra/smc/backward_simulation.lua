--- Smoothing for Rao-Blackwellised filters: paths of the particle part drawn backwards given all observations, with
--- the Gaussian part summed out as in the filter (Lindsten, Bunch, Saerkkae, Schoen & Godsill 2016), and the
--- Rauch-Tung-Striebel smoother of x given each path. Internal to penumbra.smc.rbpf.
---
--- What lies ahead of x_t is kept as p(y_{t+1:T}, s_{t+1:T} | x_t, s_t) = exp(-x^T O x / 2 + l^T x) up to a constant.
--- Where particles carry an observation of their own, z_t of a step, it is drawn along with s_t and stands for y_t:
--- what y_t says of z_t is the same whatever the past was.
-- help: none
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local switching = require "penumbra.smc.switching"

local backward = {}

local function column(x) return x:unsqueeze(-1) end
local function turned(x) return x:transpose(-2, -1) end
local function times(matrix, vector) return matrix:matmul(column(vector)):squeeze(-1) end

local function solved(matrix, right, what)
  local x, message = matrix:solve(right)
  return x or core.error(("rbpf: smooth: %s: %s"):format(what, message))
end

-- ---- what lies ahead, in information form ----

local function nothing_ahead(lead, n, dtype)
  local shape = table.move(lead, 1, #lead, 1, {})
  shape[#shape + 1] = n
  local vector = core.zeros(shape, { dtype = dtype })
  shape[#shape + 1] = n
  return { matrix = core.zeros(shape, { dtype = dtype }), vector = vector }
end

-- Takes in a value = matrix x + offset + N(0, cov), of which only `observed` counts.
local function take_in(ahead, value, matrix, offset, cov, observed)
  if offset then
    value = value - offset
  end
  if observed then
    local on = observed:to(cov:dtype())
    matrix, value = matrix * column(on), core.where(observed, value, core.zeros({ 1 }, { dtype = cov:dtype() }))
    cov = cov * (column(on) * on:unsqueeze(-2)) + (1 - on):diag_embed()
  end
  local weighted = solved(cov, matrix, "the covariance of what was observed")
  return { matrix = ahead.matrix + turned(matrix):matmul(weighted),
    vector = ahead.vector + times(turned(weighted), value) }
end

-- From x_t to x_{t-1}, x_t = a x_{t-1} + b + N(0, q): O' = a^T (I + O q)^-1 O a, l' = a^T (I + O q)^-1 (l - O b).
local function step_back(ahead, m)
  local o, n = ahead.matrix, ahead.vector:size(-1)
  local right = m.b and ahead.vector - times(o, m.b) or ahead.vector
  local both = core.concatenate({ o:matmul(m.a), column(right) }, -1)
  both = turned(m.a):matmul(solved(core.eye(n, { dtype = o:dtype() }) + o:matmul(m.q), both, "the state's noise"))
  local matrix = both:slice(-1, 1, n)
  return { matrix = (matrix + turned(matrix)) * 0.5, vector = both:select(-1, n + 1) }
end

-- log of the integral of N(x; mean, cov) times what lies ahead: with l' = l - O mean and W = I + cov O
-- mean^T (l + l') / 2 + l'^T W^-1 cov l' / 2 - log |W| / 2.
local function log_overlap(mean, cov, ahead)
  local o, l = ahead.matrix:unsqueeze(2), ahead.vector:unsqueeze(2)
  local left = l - times(o, mean)
  local w = core.eye(mean:size(-1), { dtype = mean:dtype() }) + cov:matmul(o)
  local inner = solved(w, column(times(cov, left)), "a particle's covariance"):squeeze(-1)
  return ((mean * (l + left)):sum(-1) + (left * inner):sum(-1) - w:logdet()) * 0.5
end

-- ---- paths of the particle part ----

-- Places among the first axis of log-weights [N, B...]: [M, B...].
local function draw_first(self, log_w, num)
  local order = {}
  for k = 1, log_w:ndim() do
    order[k] = k % log_w:ndim() + 1
  end
  return dist.categorical { logits = log_w:permute(order) }:sample { num, generator = self.generator }
end

-- The same of log-weights [M, N, B...], one place for each of the M.
local function draw_second(self, log_w)
  local order = { 1 }
  for k = 2, log_w:ndim() do
    order[k] = k == log_w:ndim() and 2 or k + 1
  end
  return dist.categorical { logits = log_w:permute(order) }:sample { generator = self.generator }
end

-- log p(s_{t+1} = later | each particle of `now`) [M, N, B...], and the particles' moments given it.
local function log_transition(self, now, later, t, input)
  local lead = later:unsqueeze(2)
  if self.coupling then
    local link = switching.link_at(self, now.s, t + 1, input)
    local mean, cov, log_prob = core.kalman_update(now.mean, now.cov, lead, link.matrix, link.offset, link.cov)
    if not mean then
      core.error("rbpf: smooth: conditioning on s: " .. cov)
    end
    return log_prob, mean, cov
  end
  local law = switching.law_at(self, now.s, t + 1, input, self.shape)
  if not dist.is(law) then
    core.error "rbpf: smooth needs a transition that gives a distribution, whose density it can ask"
  end
  local shape = lead:shape()
  shape[2] = self.shape[1]
  return law:log_prob(lead:broadcast_to(shape)), now.mean, now.cov
end

-- s_1 ... s_T, each [M, B..., event], drawn from the last to the first; and what was observed along each path, y_t or
-- the path's own z_t.
local function draw_paths(self, steps, num)
  local last = steps[#steps]
  local s, seen = {}, {}
  local function take(t, places)
    s[t] = core.new_selected(steps[t].s, places)
    seen[t] = steps[t].z and core.new_selected(steps[t].z, places) or steps[t].y
  end
  take(#steps, draw_first(self, last.log_weights, num))
  local lead = table.move(self.shape, 2, #self.shape, 2, { num })
  local ahead = nothing_ahead(lead, last.mean:size(-1), last.mean:dtype())
  for t = #steps - 1, 1, -1 do
    local now, next = steps[t], steps[t + 1]
    local later = s[t + 1]
    local m = switching.system_at(self, later, t + 1, next.input)
    if seen[t + 1] then
      ahead = take_in(ahead, seen[t + 1], m.c, m.d, m.r, next.observed)
    end
    ahead = step_back(ahead, m)
    local log_prob, mean, cov = log_transition(self, now, later, t, next.input)
    take(t, draw_second(self, now.log_weights + log_prob + log_overlap(mean, cov, ahead)))
    if self.coupling then
      local link = switching.link_at(self, s[t], t + 1, next.input)
      ahead = take_in(ahead, later, link.matrix, link.offset, link.cov)
    end
  end
  return s, seen
end

-- ---- the Gaussian part given a path ----

-- Forward: per step the moments before and after prediction, and after y. before[t] are those of x_t that know of s_{t
-- + 1}.
local function filter_path(self, steps, s, seen, mean, cov)
  local before, after, ahead, systems = {}, {}, {}, {}
  for t, step in ipairs(steps) do
    if t > 1 and self.coupling then
      local link = switching.link_at(self, s[t - 1], t, step.input)
      mean, cov = core.kalman_update(mean, cov, s[t], link.matrix, link.offset, link.cov)
    end
    before[t - 1] = { mean, cov }
    local m = switching.system_at(self, s[t], t, step.input)
    mean, cov = core.kalman_predict(mean, cov, m.a, m.b, m.q)
    ahead[t], systems[t] = { mean, cov }, m
    if seen[t] then
      mean, cov = core.kalman_update(mean, cov, seen[t], m.c, m.d, m.r, { observed = step.observed })
    end
    after[t] = { mean, cov }
  end
  return before, ahead, after, systems
end

-- m_t + G (m'_{t+1} - m_{t+1|t}), P_t + G (P'_{t+1} - P_{t+1|t}) G^T, G = P_t a^T P_{t+1|t}^-1.
local function smooth_path(self, steps, s, seen, mean, cov)
  local before, ahead, after, systems = filter_path(self, steps, s, seen, mean, cov)
  local means, covs = {}, {}
  means[#steps], covs[#steps] = after[#steps][1], after[#steps][2]
  for t = #steps - 1, 1, -1 do
    local m, p = before[t][1], before[t][2]
    local gain = turned(solved(ahead[t + 1][2], systems[t + 1].a:matmul(p), "the predicted covariance"))
    means[t] = m + times(gain, means[t + 1] - ahead[t + 1][1])
    covs[t] = p + gain:matmul(covs[t + 1] - ahead[t + 1][2]):matmul(turned(gain))
  end
  return means, covs
end

--- `num` paths s_1 ... s_T [T, M, B..., event] given all observations of `steps` (what a filter kept), mean and cov of
--- x_1 ... x_T along each of them, [T, M, B..., n] and [T, M, B..., n, n], and their own observations z [T, M, B..., p]
--- where steps have them. mean, cov: of x_0, [..., n], [..., n, n].
function backward.simulate(self, steps, num, mean, cov)
  local s, seen = draw_paths(self, steps, num)
  local lead = table.move(self.shape, 2, #self.shape, 2, { num })
  lead[#lead + 1] = mean:size(-1)
  local means, covs = smooth_path(self, steps, s, seen, mean:broadcast_to(lead), cov)
  for t = 1, #covs do
    lead[#lead] = nil
    lead[#lead + 1] = mean:size(-1)
    local wide = table.move(lead, 1, #lead, 1, {})
    wide[#wide + 1] = mean:size(-1)
    covs[t] = covs[t]:broadcast_to(wide)
  end
  return core.stack(s, 1), core.stack(means, 1), core.stack(covs, 1), steps[1].z and core.stack(seen, 1) or nil
end

return backward
