--- Sampling from the posterior of a model by Hamiltonian Monte Carlo.
---
---     local p = pn.nuts(model, {data = {x, y}, chains = 4, draws = 1000})
---     print(p)
---
--- A transition is replayed in C; chains run in threads, each with a copy of the log density's plan, and give the
--- same draws whatever their number. In the warm-up the step size follows the acceptance by dual averaging, the mass
--- matrix the draws and their gradients in two overlapping windows, or, by name, as Stan does it.
-- help: pn
local core = require "penumbra.core"
local options = require "penumbra.options"
local posterior = require "penumbra.infer.posterior"
local progress = require "penumbra.progress"
local ranks = require "penumbra.ranks"
local target = require "penumbra.infer.target"
local model = require "penumbra.infer.model"

local nuts = {}

local LOOK = 0.1 -- seconds between two looks at the progress line

local common_options = { data = options.optional "table", chains = 4, warmup = options.optional "number", draws = 1000,
  metric = options.choice("low_rank", "diagonal", "dense"), estimator = options.choice("fisher", "stan"),
  schedule = options.choice("overlapping", "stan"), target_accept = 0.8, init = options.any(false), radius = 2,
  generator = options.optional(), progress = options.optional(), distributed = false }

local nuts_options = options.merged(common_options, { max_depth = 10 })
local hmc_options = options.merged(common_options, { steps = options.required "number" })

-- The starts of the chains, [chains, size]; what init lacks begins elsewhere in each.
local function start_of(o, t, gradient)
  if not o.init then
    return nil
  elseif type(o.init) ~= "table" then
    core.error("init must be a table site -> value, got " .. type(o.init))
  end
  local list = {}
  for c = 1, o.chains do
    list[c] = t:start_at(o.init, gradient, o.radius, o.generator)
  end
  return core.stack(list, 1)
end

-- What was an option of its own.
local function refuse_dense(where, given)
  if type(given) == "table" and given.dense ~= nil then
    core.error(("%s: dense is an option no more: write metric = 'dense' (or 'low_rank', 'diagonal')"):format(where))
  end
end

-- All iterations; a bar moves with the chains of this process.
local function run(where, sampler, o, team)
  local bar <close> = progress.asked(not (team and team.rank > 0) and o.progress,
    { total = sampler:warmup() + o.draws, label = where })
  local block = bar and 1 or math.maxinteger
  while not sampler:finished() do
    local before = sampler:iteration()
    local began = core.clock()
    sampler:run(block)
    if sampler:halted() then
      sampler:judge(team:gather(sampler:windows(), o.chains))
    end
    block = bar and core.clock() - began < LOOK / 2 and block * 2 or block
    if bar then
      bar.total = sampler:warmup() + o.draws
      bar:step(sampler:iteration() - before, "", before < sampler:warmup() and "warm-up" or "sampling")
    end
  end
end

-- A sampler of all chains, or of those of this rank.
local function sampler_of(where, o, settings, gradient, init, team)
  if not team then
    return core.new_sampler(gradient, settings, init, o.generator)
  end
  local first, last = team:share(o.chains)
  if last < first then
    core.error(("%s: distributed chains must be at least as many as ranks, got %d for %d"):format(where, o.chains,
      team.size))
  end
  settings.chains = last - first + 1
  return core.new_sampler(gradient, settings, init and init:slice(1, first, last), o.generator, first - 1)
end

-- Do all ranks sample the same, with generators that stand alike?
local function agree(team, t, o, settings)
  local words = {}
  for key, value in pairs(settings) do
    words[#words + 1] = key .. " = " .. tostring(value)
  end
  table.sort(words)
  for _, entry in ipairs(t.layout) do
    words[#words + 1] = ("the site '%s'"):format(entry.name)
  end
  words[#words + 1] = t.size .. " unconstrained numbers"
  words[#words + 1] = "seed and draws " .. table.concat(o.generator and o.generator:state() or core.rng_state(), ", ")
  team:agree(words)
end

local function sample(where, m, o, more)
  if not model.is(m) then
    core.error(("%s: needs a model (pn.model), got %s"):format(where, type(m)))
  end
  options.whole(where, "draws", o.draws, 4)
  local team = o.distributed and ranks.team(where, true) or nil
  local args = model.packed(o.data)
  local t = target.new(m, args, o.generator, true):repeated()
  local settings = { chains = o.chains, warmup = o.warmup == 0 and -1 or o.warmup, draws = o.draws, metric = o.metric,
    estimator = o.estimator, schedule = o.schedule, target_accept = o.target_accept, radius = o.radius }
  for key, value in pairs(more) do
    settings[key] = value
  end
  if team then
    agree(team, t, o, settings)
  end
  local gradient = t:compiled_gradient()
  local init = start_of(o, t, gradient)
  local density
  if init then
    density = gradient(init[1])
  else
    density = t:from_start(gradient, o.radius, o.generator)
  end
  if team then -- (to six digits: processors round differently)
    team:agree { ("the log density %.6g at the start: the same data?"):format(density:item()) }
  end
  local clock = core.clock()
  local sampler = sampler_of(where, o, settings, gradient, init, team)
  run(where, sampler, o, team)
  local draws, statistics, gradients = sampler:draws(), sampler:statistics(), sampler:gradients()
  if team then
    draws, statistics = team:gather(draws, o.chains), team:gather(statistics, o.chains)
    gradients = team:sum(gradients)
  end
  return posterior.new { model = m, args = args, target = t, unconstrained = draws, statistics = statistics,
    warmup = sampler:warmup(), gradients = gradients, seconds = core.clock() - clock, max_depth = more.max_depth }
end

--- nuts(model, options) -> a posterior (pn.help "penumbra.infer.posterior"): the no-U-turn sampler.
---
--- data           list of the model's arguments after m
--- chains         4
--- draws          1000, iterations per chain that are kept
--- warmup         iterations per chain for adaptation before them: exactly so many. Unless given 300, and by 300 more
---                up to 1200 while the chains' windows disagree (split R-hat above 1.1); p.warmup: how many they were
--- metric         form of the mass matrix: "low_rank" (a diagonal and k <= 64 directions, n k operations a leapfrog),
---                "diagonal", "dense" (n^2)
--- estimator      what it is made of: "fisher", draws and gradients, by the least Fisher divergence (Seyboldt, Carlson
---                and Carpenter 2026), exact for a normal posterior; or "stan", the draws' covariance
--- schedule       windows: "overlapping", two that overlap, from every draw; or "stan", windows that double (then the
---                warm-up is 1000 unless given)
--- target_accept  0.8; nearer to 1 takes shorter steps
--- max_depth      10: trajectories of at most 2^10 - 1 leapfrogs
--- init           table site -> value from which all chains start; else uniform on (-radius, radius) in the
---                unconstrained space, radius = 2, until the density is positive
--- distributed    true: chains are shared out over the ranks of mpirun, their windows judged together. All ranks have
---                the posterior, to the bit that of one process; they must be given the same data and seed
--- generator      a pn.generator
--- progress       true for a line on standard error, or a file; at the prompt true unless said otherwise
---
--- A plate takes all its rows here, whatever its batch. Hoffman & Gelman 2014; Betancourt 2017.
function nuts.nuts(m, given)
  refuse_dense("nuts", given)
  local o = options.check("nuts", given, nuts_options)
  return sample("nuts", m, o, { max_depth = options.whole("nuts", "max_depth", o.max_depth, 1) })
end

--- hmc(model, options): trajectories of `steps` leapfrogs, one acceptance each; other options as pn.nuts has them.
function nuts.hmc(m, given)
  refuse_dense("hmc", given)
  local o = options.check("hmc", given, hmc_options)
  return sample("hmc", m, o, { max_steps = options.whole("hmc", "steps", o.steps, 1) })
end

return nuts
