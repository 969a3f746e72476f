--- Smoothing of particle filters: paths drawn backwards through all recorded particles, which do not share their early
--- ancestors as the surviving paths of a filter do.
-- help: pn.smc
local core = require "penumbra.core"
local machine = require "penumbra.smc.machine"
local options = require "penumbra.options"
local categorical = require("penumbra.distribution").categorical

local smoothing = {}

--- The ways of filter:smooth, an option's rule.
smoothing.methods = options.choice("backward", "two_filter")

local MOST = 1 << 20 -- pairs of a particle and a path at a time

local function gumbel(log_w, generator)
  local u = core.rand(log_w:shape(), { generator = generator, dtype = log_w:dtype() })
  return log_w - (-u:log()):log()
end

-- x [N, ...] as [N * M, ...], each particle M times in a row.
local function repeated(x, m)
  local shape = x:shape()
  table.insert(shape, 2, 1)
  local wide = table.move(shape, 1, #shape, 1, {})
  wide[2] = m
  local flat = x:shape()
  flat[1] = flat[1] * m
  return x:reshape(shape):broadcast_to(wide):contiguous():reshape(flat)
end

-- x [M, ...] as [N * M, ...], all of it N times.
local function tiled(x, n)
  local shape = x:shape()
  table.insert(shape, 1, 1)
  local wide = table.move(shape, 1, #shape, 1, {})
  wide[1] = n
  local flat = x:shape()
  flat[1] = flat[1] * n
  return x:reshape(shape):broadcast_to(wide):contiguous():reshape(flat)
end

--- pair_log_prob(filter, state, after, t, u): log p(after[j] | state[i]) of the transition to t, [N, M, B...].
--- Internal.
function smoothing.pair_log_prob(self, state, after, t, u)
  local n, m = machine.flatten("smooth", state, {})[1]:size(1), machine.flatten("smooth", after, {})[1]:size(1)
  local lp = self.model.transition_log_prob(machine.map("smooth", function(x) return repeated(x, m) end, state),
    machine.map("smooth", function(x) return tiled(x, n) end, after), t, u)
  return lp:reshape { n, m, table.unpack(self.machine.batch_shape) }
end

--- in_chunks(m, n, f): f(first, last) for parts of 1 .. m, each of which makes at most MOST pairs with n others, one
--- under the other. Internal.
function smoothing.in_chunks(m, n, f)
  local each, parts = math.max(1, MOST // n), {}
  for first = 1, m, each do
    parts[#parts + 1] = f(first, math.min(m, first + each - 1))
  end
  return core.concatenate(parts, 1)
end

-- Ancestors [M, B...] of the states `after` [M, ...] by w p(after | particle).
local function in_parts(self, state, log_w, after, t, u)
  local m = machine.flatten("smooth", after, {})[1]:size(1)
  return smoothing.in_chunks(m, log_w:numel(), function(first, last)
    local some = machine.map("smooth", function(x) return x:slice(1, first, last) end, after)
    local lp = smoothing.pair_log_prob(self, state, some, t, u)
    return gumbel(lp + log_w:unsqueeze(2), self.generator):argmax(1)
  end)
end

-- count particles of each filter by their weights: [count, B...].
local function draw(log_w, count, generator)
  local order = {}
  for k = 2, log_w:ndim() do
    order[k - 1] = k
  end
  order[#order + 1] = 1
  local logits = #order > 1 and log_w:permute(order):contiguous() or log_w
  return categorical({ logits = logits }):sample({ count }, generator):to "int64"
end

-- The states at places [M, B...].
local function at(state, index)
  return machine.map("smooth", function(x) return core.new_selected(x, index) end, state)
end

local ROUNDS = 30

-- The same by rejection: a particle by its weight is taken with probability p(after | particle) / bound; paths that are
-- left over after some rounds look at all particles.
local function by_rejection(self, step, after, t, u, log_bound)
  local state, log_w = step.state, step.log_w
  local m = machine.flatten("smooth", after, {})[1]:size(1)
  local chosen, open = core.zeros({ m }, { dtype = "int64" }), core.arange(0, m):to "int64"
  for _ = 1, ROUNDS do
    local count = open:size(1)
    if count == 0 then
      return chosen
    end
    local proposed = draw(log_w, count, self.generator)
    local lp = self.model.transition_log_prob(at(state, proposed), at(after, open), t, u) - log_bound
    if lp:max():item() > 1e-9 then
      core.error(("smooth: log_bound must not be below the transition's log density, which is %g above it at step %d")
        :format(lp:max():item(), t))
    end
    local accepted = core.rand({ count }, { generator = self.generator, dtype = lp:dtype() }):log():le(lp)
    local index = accepted:nonzero():reshape { -1 }
    local places = open:take(1, index)
    chosen = chosen:scatter_add(1, places, proposed:take(1, index) - chosen:take(1, places))
    open = open:take(1, accepted:logical_not():nonzero():reshape { -1 })
  end
  if open:size(1) == 0 then
    return chosen
  end
  local rest = in_parts(self, state, log_w, at(after, open), t, u)
  return chosen:scatter_add(1, open, rest - chosen:take(1, open))
end

--- recorded(filter): what filter:run(ys, {record = true}) has kept, at least one step. Internal.
function smoothing.recorded(self)
  if not self.record or #self.record == 0 then
    core.error "smooth: nothing was recorded (filter:run(ys, {record = true}))"
  end
  return self.record
end

--- smooth(filter, given): see filter:smooth with method = "backward". Internal.
function smoothing.smooth(self, given)
  local o = options.check("smooth", given, { method = smoothing.methods, draws = options.optional "number",
    log_bound = options.optional() })
  if not o.draws then
    core.error "smooth: option 'draws' is required"
  end
  local m = o.draws
  local record = smoothing.recorded(self)
  if not self.model.transition_log_prob then
    core.error "smooth: needs the transition's density (transition_log_prob)"
  elseif o.log_bound and #self.machine.batch_shape > 0 then
    core.error "smooth: log_bound is for filters without a batch"
  end
  local bound = o.log_bound
  if bound ~= nil and type(bound) ~= "number" and type(bound) ~= "function" then
    core.error(("smooth: log_bound must be a number or a function of t, got %s"):format(type(bound)))
  end
  local last = record[#record]
  local index = draw(last.log_w, m, self.generator)
  local after = at(last.state, index)
  local path = { [#record] = after }
  for t = #record - 1, 1, -1 do
    local step, later = record[t], record[t + 1]
    if bound then
      local log_bound = type(bound) == "function" and bound(t + 1) or bound
      index = by_rejection(self, step, after, t + 1, later.u, log_bound)
    else
      index = in_parts(self, step.state, step.log_w, after, t + 1, later.u)
    end
    after = at(step.state, index)
    path[t] = after
  end
  return machine.stack(path)
end

return smoothing
