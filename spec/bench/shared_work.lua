--- A model on paper of work shared out over ranks: what messages and steps cost here (alpha, beta, seconds of an island
--- and of a chain) says how long an island filter and chains of nuts take on 1 to 1,000 ranks, and where each stops to
--- scale; beside it what 1, 2 and 4 ranks take here. Prints Markdown.
---
---     BUILD=build lua5.4 spec/bench/shared_work.lua [--alpha US] [--beta NS]
---
--- Island filter, a step:  ceil(M / P) c + M w + L alpha + 8 M beta + q f ceil(M / P) 2 (2 alpha + 8 (N + N + 2) beta)
---   c: of an island (of one alone, or of one of many), w: of an island's weight, both as 1 rank works; L = ceil(log2
---   P) rounds of a gather (alpha is that of a header and its numbers); q: exchanges a step, f: the share of islands
---   moved, with states and weights.
--- Chains:  ceil(C / P) t (1 + s sqrt(2 ln C)) + 5 L alpha + 8 C D (n + 7) beta
---   t: of a chain, s: the spread of their lengths (the longest of C is waited for); all get D draws of n numbers.
--- A core for each rank. alpha and beta are those of one machine's memory; those of a network are larger (--alpha, us,
--- --beta, ns a byte). Times in ms.
local option = {}
for k = 1, #arg, 2 do option[arg[k]:match "^%-%-(%w+)$"] = tonumber(arg[k + 1]) end
local build = os.getenv "BUILD" or "build"

local function times(ranks, words)
  local pipe <close> = assert(io.popen(("mpirun --oversubscribe --allow-run-as-root -n %d %s/penumbra "
    .. "spec/mpi/shared_work_times.lua %s"):format(ranks, build, words)))
  local found = {}
  for line in pipe:lines() do
    local name, value = line:match "^(%w+)\t(%S+)$"
    if name then found[name] = tonumber(value) end
  end
  assert(next(found), "nothing came of " .. words)
  return found
end

local PARTICLES, ISLANDS, CHAINS, DRAWS, NUMBERS = 5000, 16, 4, 200, 21
local message = times(2, "messages")
local alpha, beta = (option.alpha or message.alpha) * 1e-6, (option.beta or message.beta) * 1e-9

local many = times(1, ("filter %d %d"):format(ISLANDS, PARTICLES))
local one, weight = times(1, ("filter 1 %d"):format(PARTICLES)).work, times(1, "weights").weight
local chains = times(1, "chains " .. CHAINS)
local chain = chains.work / CHAINS

local function rounds(p) return math.ceil(math.log(p, 2) - 1e-9) end
local function filter(p, m)
  local mine = math.ceil(m / p)
  local moved = p > 1 and many.exchanges * many.moved * mine * 2 * (2 * alpha + 8 * (2 * PARTICLES + 2) * beta) or 0
  local own = mine == 1 and one or mine * many.work / ISLANDS
  return own + m * weight + rounds(p) * alpha + (p > 1 and 8 * m * beta or 0) + moved
end
local function nuts(p, c)
  local longest = p > 1 and 1 + chains.spread * math.sqrt(2 * math.log(c)) or 1
  return math.ceil(c / p) * chain * longest + 5 * rounds(p) * alpha
    + (p > 1 and 8 * c * DRAWS * (NUMBERS + 7) * beta or 0)
end

-- The first power of two at which half of the time is not an island's or a chain's own.
local function limit(f, own)
  local p = 1
  while p < 1 << 30 and f(p) < 2 * own do p = p * 2 end
  return p
end

local function say(form, ...) print(form:format(...)) end
say("alpha %.2f us, beta %.3f ns a byte; a step of an island of %d particles %.0f us (of %d: %.0f us each), of "
  .. "a weight %.1f ns, %.3f exchanges a step that move %.0f %% of the islands; a chain %.0f ms, spread of lengths "
  .. "%.1f %%",
  alpha * 1e6, beta * 1e9, PARTICLES, one * 1e6, ISLANDS, many.work / ISLANDS * 1e6, weight * 1e9, many.exchanges,
  many.moved * 100, chain * 1e3, chains.spread * 100)
say ""
say "| ranks | 16 islands: predicted | own part | by the clock | an island a rank | 4 chains: predicted | own part \z
  | by the clock | a chain a rank |"
say "|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
for _, p in ipairs { 1, 2, 4, 10, 100, 1000 } do
  local here = p <= 4
  local islands = here and times(p, ("filter %d %d"):format(ISLANDS, PARTICLES))
  local four = here and times(p, "chains " .. CHAINS)
  local function ms(v) return v and ("%.2f"):format(v * 1e3) or "-" end
  say("| %d | %s | %s | %s | %s | %s | %s | %s | %s |", p, ms(p <= ISLANDS and filter(p, ISLANDS)),
    ms(islands and islands.work), ms(islands and islands.step), ms(filter(p, p)),
    ms(p <= CHAINS and nuts(p, CHAINS)), ms(four and four.work), ms(four and four.seconds), ms(nuts(p, p)))
end
say ""
say("With an island a rank half of a step is the others' from %d ranks on, with a chain a rank from %d ranks on.",
  limit(function(p) return filter(p, p) end, one), limit(function(p) return nuts(p, p) end, chain))
