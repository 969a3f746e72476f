--- SMC samplers on islands: pn.smc.sample{islands = M}. Each island is a population of num_particles that is resampled
--- and moved by itself at each temperature; its weight is multiplied by the mean of its incremental weights. All climb
--- one ladder: the next temperature is the largest at which the incremental weights of all particles, those of an
--- island weighed as it is, keep threshold of their conditional effective sample size (Zhou, Johansen & Aston 2016),
---   (sum_i W_i w_i)^2 / (sum_i W_i w_i^2 sum_{w_i > 0} W_i).
--- Whole islands are resampled where the effective sample size of their weights is at most exchange M, where one has
--- lost all its particles, and at the last level, after which islands count alike (pn.help "penumbra.smc.islands").
-- help: nowhere
local core = require "penumbra.core"
local islands = require "penumbra.smc.islands"

local island_sampler = {}

local float64 = { dtype = "float64" }

-- The next level, and the log-weights [M, N] that lead to it.
local function next_level(self, factors, level)
  local log_share = self.log_share:unsqueeze(2) - math.log(self.n)
  local alive = factors:gt(-math.huge)
  if alive:sum():item() == 0 then
    core.error "sample: all particles have density 0: none of the start's draws lies where the posterior is"
  end
  local of_alive = core.where(alive, log_share, core.full({ 1, 1 }, -math.huge, float64)):reshape({ -1 }):logsumexp(1)
  local function share_kept(step)
    local log_w = factors * step
    local log_sum = (log_share + log_w):reshape({ -1 }):logsumexp(1)
    return (log_sum * 2 - (log_share + log_w * 2):reshape({ -1 }):logsumexp(1) - of_alive):exp():item()
  end
  local step = self.largest_power(self, function(step) return share_kept(step) >= self.threshold end, 1 - level, level)
  return level + step, factors * step, share_kept(step) * self.n * self.count
end

-- Ancestors of islands, as a list of numbers from 1 on, nil where no exchange is due.
local function exchanged(self, last)
  local ess = math.exp(-(self.log_share * 2):logsumexp(1):item())
  if not (last or ess <= self.exchange * self.count or self.log_share:min():item() == -math.huge) then
    return nil, ess
  end
  local ancestors = core.new_ancestors("systematic", self.log_share, self.root)
  self.log_share = core.full({ self.count }, -math.log(self.count), float64)
  return islands.places(ancestors:totable()), ess
end

local function parts_of(island)
  local p = island.particles
  return { p.z, p.base, p.factors, core.full({ 1 }, island.step, float64) }
end

-- An island at place k resampled and moved by its log-weights, its record among `records`.
local function rejuvenate(self, island, log_w, level, records)
  local record = {}
  island.particles = self.rejuvenated(island, island.particles, log_w, level, record)
  records[#records + 1] = core.tensor({ record.moves, record.accept, record.mixing, record.step_size }, float64)
end

local function first_islands(self, stream)
  local first, last = self.team:share(self.count)
  for k = first, last do
    local island = setmetatable({ generator = stream(k - 1), step = self.step, account = {} },
      { __index = self })
    function island.account.resampled(_, places) island.places = places end
    island.particles = self.first_particles(island)
    self.islands[k] = island
  end
  return first, last
end

-- f(island) of the islands here, one below the other, as [M, ...] of all.
local function gathered(self, first, last, f)
  local rows = {}
  for k = first, last do
    rows[#rows + 1] = f(self.islands[k], k)
  end
  return self.team:gather(core.stack(rows, 1), self.count)
end

-- One level of all islands. Gives it and its record.
local function climb_once(self, first, last, level)
  local factors = gathered(self, first, last, function(island) return island.particles.factors:select(2, 1) end)
  local above, log_w, ess = next_level(self, factors, level)
  local log_mean = self.account:add(log_w:reshape { -1 }, (self.log_share:unsqueeze(2) - math.log(self.n)):broadcast_to(
    log_w:shape()):reshape { -1 })
  if log_mean ~= log_mean or log_mean == math.huge then
    core.error(("sample: weights are not finite at level %g"):format(above))
  end
  self.log_evidence = self.log_evidence + log_mean
  self.log_share = self.log_share + log_w:logsumexp(2) - math.log(self.n) - log_mean
  local from, islands_ess = exchanged(self, above == 1)
  if from then
    islands.moved(self.team, from, self.islands, parts_of, function(k, list)
      local island = self.islands[k]
      island.particles, island.step = { z = list[1], base = list[2], factors = list[3] }, list[4]:item()
    end)
  end
  local records = {}
  for k = first, last do
    rejuvenate(self, self.islands[k], log_w[from and from[k] or k], above, records)
  end
  self.account:resampled(gathered(self, first, last, function(island, k)
    return island.places + ((from and from[k] or k) - 1) * self.n
  end):reshape { -1 })
  records = self.team:gather(core.stack(records, 1), self.count)
  return above, { level = above, ess = ess, islands_ess = islands_ess, exchanged = from ~= nil,
    log_evidence = self.log_evidence, moves = math.tointeger(records:select(2, 1):max():item()),
    accept = records:select(2, 2):mean():item(), mixing = records:select(2, 3):min():item(),
    step_size = records:select(2, 4):mean():item() }
end

--- climb(self, o, bar): the particles of all islands, {z = [M N, d], base = [M N], factors = [M N, 1]}, and the ladder.
--- self: the sampler of one island, with first_particles, rejuvenated and largest_power. Internal to pn.smc.sample.
function island_sampler.climb(self, o, bar)
  local stream, root = islands.streams(self.generator)
  local words = { "islands = " .. self.count, "exchange = " .. o.exchange, "num_particles = " .. self.n,
    "threshold = " .. self.threshold, "kernel = " .. o.kernel, self.size .. " unconstrained numbers",
    islands.seed(root) }
  for _, entry in ipairs(self.target.layout) do
    words[#words + 1] = ("the site '%s'"):format(entry.name)
  end
  self.team:agree(words)
  self.root, self.islands, self.exchange = stream(self.count), {}, o.exchange
  self.log_share = core.full({ self.count }, -math.log(self.count), float64)
  local first, last = first_islands(self, stream)
  local level, ladder = 0, {}
  while level < 1 do
    local above, record = climb_once(self, first, last, level)
    ladder[#ladder + 1] = record
    if bar then
      bar:step(math.floor(100 * above) - math.floor(100 * level), "level", above, "accept", record.accept)
    end
    level = above
  end
  local all = {}
  for _, name in ipairs { "z", "base", "factors" } do
    local x = gathered(self, first, last, function(island) return island.particles[name] end)
    local shape = x:shape()
    all[name] = x:reshape { shape[1] * shape[2], table.unpack(shape, 3) }
  end
  return all, ladder
end

return island_sampler
