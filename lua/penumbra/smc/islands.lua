--- Particle filters on islands: pn.smc.filter{islands = M}. Each island is a filter of num_particles that resamples by
--- itself; its weight is multiplied by its increments of the evidence. When the effective sample size of the islands'
--- weights is at most `exchange` M, islands are resampled whole, as particles are, and their weights are equal again.
---
--- With increments Z_t^i of islands i and weights W_i of sum 1, the evidence is prod_t sum_i W_i Z_t^i, and unbiased:
--- an island is a particle of a model whose potential is its increment. Verge, Dubarry, Del Moral & Moulines 2015 (the
--- double bootstrap); Whiteley, Lee & Heine 2016 and Lee & Whiteley 2016 (exchange where the effective size asks for
--- it).
---
--- Every island draws from a stream of its own, so that the numbers do not depend on the rank where it stands: with
--- distributed = true islands are shared out over the ranks of mpirun, and give the same bits as in one process. An
--- exchange sends what has descendants elsewhere, as few islands as can be: one that lives on stays where it is.
-- help: pn.smc
local core = require "penumbra.core"
local machine = require "penumbra.smc.machine"
local options = require "penumbra.options"
local ranks = require "penumbra.ranks"
local recording = require "penumbra.autodiff.recording"

local islands = {}

--- options: of a filter, for islands.
islands.options = { islands = options.optional "number", exchange = options.optional "number", distributed = false }

--- streams(generator): a function of a number k, from 0 on: the generator of stream k. One number is drawn.
function islands.streams(generator)
  local root = core.generator(core.randint(0, 1 << 53, {}, { generator = generator }):item())
  return function(k) return root:split(k) end, root
end

--- seed(root): what must be the same on all ranks, as team:agree takes it.
function islands.seed(root) return "seed " .. root:state()[1] end

--- places(ancestors): which island each place has after an exchange, a list of numbers from 1 on, by the ancestors
--- [M], int64, 0-based: an island with descendants stays, further ones take the places of those without, in order.
function islands.places(ancestors)
  local count, from = {}, {}
  for k, a in ipairs(ancestors) do
    count[k] = count[k] or 0
    count[a + 1] = (count[a + 1] or 0) + 1
  end
  local island, left = 0, 0
  local function next_copy()
    while left == 0 do
      island = island + 1
      left = count[island] - 1
      left = left > 0 and left or 0
    end
    left = left - 1
    return island
  end
  for k, n in ipairs(count) do from[k] = n > 0 and k end
  for k = 1, #count do from[k] = from[k] or next_copy() end
  return from
end

--- moved(team, from, mine, parts_of, put): an exchange. from: places(); mine: what stands here by its number; parts_of(
--- island): its tensors, in an order and of shapes that are the same for all; put(k, tensors): place k takes them.
--- All ranks go through the list in one order, so that no two wait for each other.
function islands.moved(team, from, mine, parts_of, put)
  local parts = {}
  for k, island in pairs(mine) do parts[k] = parts_of(island) end
  local like = parts[next(parts)]
  for k, a in ipairs(from) do
    local here, there = mine[k] ~= nil, mine[a] ~= nil
    if k ~= a and here and there then
      put(k, parts[a])
    elseif k ~= a and there then
      for _, x in ipairs(parts[a]) do team:send(x, team:owner(k, #from)) end
    elseif k ~= a and here then
      local list = {}
      for n = 1, #like do list[n] = team:receive(team:owner(a, #from)) end
      put(k, list)
    end
  end
end

-- Calls f with the default generator standing where the island's stream stands.
local function within(stream, f)
  local before = core.rng_state()
  core.set_rng_state(stream:state())
  local ok, a = pcall(f)
  stream:set_state(core.rng_state())
  core.set_rng_state(before)
  if not ok then
    error(a, 0)
  end
  return a
end

local methods = {}

-- A number [] (or tensors of a state) from each island, one below the other: [M, ...].
local function gathered(self, f)
  local first
  local columns = {}
  for k = self.first, self.last do
    local value = recording.off(f, self.filters[k])
    first = first or value
    for n, x in ipairs(machine.flatten("islands", value, {})) do
      columns[n] = columns[n] or {}
      table.insert(columns[n], x:detach())
    end
  end
  for n, list in ipairs(columns) do
    columns[n] = self.team:gather(core.stack(list, 1), self.count)
  end
  return machine.rebuild(first, columns)
end

-- A filter's state and the weights of its particles.
local function parts_of(f)
  local list = machine.flatten("exchange", f.state, {})
  list[#list + 1] = machine.core_of(f.machine):get "weighed"
  return list
end

local function exchange(self)
  local ancestors = self.machine:resample()
  if not ancestors then
    return
  end
  islands.moved(self.team, islands.places(ancestors:totable()), self.filters, parts_of, function(k, list)
    local f = self.filters[k]
    machine.core_of(f.machine):restore(list[#list])
    f.state = machine.rebuild(f.state, list)
  end)
end

--- islands:observe(y [, u]): one step of all islands, after an exchange if that is due: the increment [] of the log
--- evidence. See pn.smc.filter's.
function methods:observe(y, u)
  if self.machine:steps() > 0 then
    exchange(self)
  end
  local increments = gathered(self, function(f)
    return within(self.streams[f], function() return f:observe(y, u) end):to "float64"
  end)
  return self.machine:weigh(increments)
end

local function square(x) return x * x end

--- islands:mean([f]): the weighted mean of the state now, or of f(state).
function methods:mean(f)
  return self.machine:mean(gathered(self, function(filter) return filter:mean(f) end))
end

--- islands:variance([f]): the weighted variance of each number of the state now, or of f(state).
function methods:variance(f)
  local function seen(state) return f and f(state) or state end
  local mean = self:mean(f)
  return self:mean(function(state)
    local list, centre = machine.flatten("variance", seen(state), {}), machine.flatten("variance", mean, {})
    for n, x in ipairs(list) do list[n] = square(x - centre[n]) end
    return machine.rebuild(mean, list)
  end)
end

--- islands:log_evidence(): the log-evidence so far, [], float64.
function methods:log_evidence() return self.machine:log_evidence() end

--- islands:effective_sample_size(): of the islands' weights, from 1 to M. (islands.machine is a machine whose particles
--- are the islands: its trace() tells the exchanges.)
function methods:effective_sample_size() return self.machine:effective_sample_size() end

--- islands:run(ys [, {inputs = us, moments = true}]): observes ys[1], ys[2], ... (a tensor [T, ...] or a list, in which
--- false stands for a missing observation): {log_evidence = [], increments = [T]}; with moments also mean and square
--- [T, event...], the filtered E[x] and E[x^2].
function methods:run(ys, given)
  local o = options.check("run", given, { inputs = options.optional(), moments = false })
  local n = core.is_tensor(ys) and ys:size(1) or #ys
  local increments, mean, squares = {}, {}, {}
  for t = 1, n do
    increments[t] = self:observe(ys[t] or nil, o.inputs and o.inputs[t])
    if o.moments then
      mean[t] = self:mean()
      squares[t] = self:mean(function(state) return machine.map("mean", square, state) end)
    end
  end
  increments = core.stack(increments, 1)
  return { log_evidence = increments:sum(1), increments = increments, mean = o.moments and machine.stack(mean) or nil,
    square = o.moments and machine.stack(squares) or nil }
end

--- islands:reset(): back to before the first observation; the streams go on.
function methods:reset()
  self.machine:reset()
  for _, f in pairs(self.filters) do f:reset() end
end

local class = { __index = core.public(methods), __name = "islands" }

function class:__tostring()
  return ("islands: %d filters at t = %d"):format(self.count, self.machine:steps())
end

--- team(where, o): the ranks that islands are shared out to, and the defaults of the options; nil where there are none.
function islands.team(where, o)
  if not o.islands and not o.distributed then
    if o.exchange then
      core.error(("%s: exchange is between islands (islands = 4)"):format(where))
    end
    return nil
  end
  local team = ranks.team(where, o.distributed)
  o.islands, o.exchange = o.islands or team.size, o.exchange or 0.5
  options.whole(where, "islands", o.islands, team.size)
  if not (o.exchange >= 0 and o.exchange <= 1) then
    core.error(("%s: exchange must lie in [0, 1], got %g"):format(where, o.exchange))
  end
  return team
end

local REFUSED = { "batch_shape", "history", "conditional" }

local function check(o)
  for _, name in ipairs(REFUSED) do
    if o[name] then
      core.error(("filter: %s is for filters without islands, got islands = %d"):format(name, o.islands))
    end
  end
  if o.gradient ~= "dropped" then
    core.error(("filter: islands have no gradient: gradient must be 'dropped', got '%s'"):format(o.gradient))
  end
end

--- new(team, make, o): islands of filters, each made by make(). Internal to pn.smc.filter.
function islands.new(team, make, o)
  check(o)
  local stream, root = islands.streams(o.generator)
  team:agree { "islands = " .. o.islands, "exchange = " .. o.exchange, "num_particles = " .. o.num_particles,
    "threshold = " .. o.threshold, "resampling = " .. o.resampling, islands.seed(root) }
  local self = setmetatable({ team = team, count = o.islands, filters = {}, streams = {},
    machine = machine.new { num_particles = o.islands, threshold = o.exchange, generator = stream(o.islands),
      degenerate = o.degenerate } }, class)
  self.first, self.last = team:share(o.islands)
  for k = self.first, self.last do
    self.filters[k] = make()
    self.streams[self.filters[k]] = stream(k - 1)
  end
  return self
end

return islands
