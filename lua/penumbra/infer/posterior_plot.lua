--- Pictures of a posterior's draws, as panels: what p:plot draws.
--- Sources: Vehtari, Gelman, Simpson, Carpenter & Burkner 2021 (ranks); Betancourt 2016 (energies); Silverman 1986
--- (bandwidth).
-- help: nowhere
local core = require "penumbra.core"
local at_draws = require "penumbra.infer.at_draws"
local metrics = require "penumbra.metrics"
local options = require "penumbra.options"
local order = require "penumbra.array.order"
local plot = require "penumbra.plot"

local posterior_plot = {}

local RED, DARK, BLUE, GREY = "#b5486a", "#333333", "#2f6db3", "#9aa5b1"

-- ---- what is drawn ----

-- The numbers of these sites, or of some of their elements: {name, draws [chains, draws]}.
local function numbers_of(p, names, most)
  local chosen, wanted, known, list = {}, {}, {}, {}
  for _, name in ipairs(names or p.latent) do
    wanted[name] = true
    chosen[#chosen + 1] = name
  end
  for _, site in ipairs(p.names) do
    local draws = p.draws[site]:to "float64"
    local shape = draws:shape()
    local flat = draws:reshape { shape[1], shape[2], -1 }
    for k, name in ipairs(at_draws.element_names(site, { table.unpack(shape, 3) })) do
      known[name], known[site] = true, true
      if wanted[site] or wanted[name] then
        list[#list + 1] = { name = name, draws = flat:select(3, k):contiguous() }
      end
    end
  end
  local all = {}
  for name in pairs(known) do
    all[#all + 1] = name
  end
  for _, name in ipairs(chosen) do
    if not known[name] then
      core.error(("plot: there is no site '%s'%s"):format(tostring(name), options.suggestion(name, all)))
    end
  end
  local count = #list
  local title = count > most and ("the first %d of %d numbers (names says which)"):format(most, count) or nil
  return { table.unpack(list, 1, math.min(most, count)) }, title
end

-- Shares of the whole numbers low, low + 1, ..., high among the last axis of x.
local function shares_of(x, low, high)
  local grid = core.linspace(low, high, math.tointeger(high - low + 1), { dtype = "float64" })
  return x:unsqueeze(-1):eq(grid):to("float64"):mean(-2), grid
end

-- Curve of the density of a vector on `points` places: a Gaussian kernel whose width is Silverman's rule. Where it is
-- bounded there is no mass beyond its lowest and highest value: the kernel is reflected there.
local function density(x, points, bounded)
  local n, s = x:numel(), x:sort(1)
  local spread = (s[math.ceil(0.75 * n)] - s[math.max(1, math.floor(0.25 * n))]):item() / 1.34
  local sd = x:std():item()
  local width = 0.9 * (spread > 0 and math.min(spread, sd) or sd) * n ^ -0.2
  width = width > 0 and width or 1e-3
  local low, high = s[1]:item(), s[n]:item()
  local margin = bounded and 0 or 2.5 * width
  local at = core.linspace(low - margin, math.max(high, low + width) + margin, points, { dtype = "float64" })
  local total = 0
  for _, place in ipairs(bounded and { at, 2 * low - at, 2 * high - at } or { at }) do
    local z = (place:unsqueeze(2) - s:unsqueeze(1)) / width
    total = total + (-z:square() / 2):exp():mean(2)
  end
  return at, total / (width * math.sqrt(2 * math.pi))
end

posterior_plot.density = density

local function whole(x)
  return x:eq(x:round()):all():item()
end

-- The law of a chain as a line: of whole numbers their shares, else a density.
local function law_of_chain(x, given)
  if whole(x) then
    local low, high = x:min():item(), x:max():item()
    if high - low < 60 then
      local share, at = shares_of(x, low, high)
      return plot.line(at, share, given)
    end
  end
  local at, y = density(x, 160, true)
  return plot.line(at, y, given)
end

-- The law of a vector as marks: bars of whole numbers, else a curve.
local function law(x, given)
  if whole(x) then
    return plot.histogram(x, { density = true, colour = given.colour, label = given.label, opacity = 0.5 })
  end
  local at, y = density(x, 160, true)
  return plot.line(at, y, given)
end

local function chain_label(p, c)
  return p.chains > 1 and p.chains <= 8 and ("chain %d"):format(c) or nil
end

local COLOURS = { "#2f6db3", "#d9752b", "#3a9276", "#7a62ad", "#8a7433", "#5f6b78" }

local function colour_of(c)
  return COLOURS[(c - 1) % #COLOURS + 1]
end

-- Draws (from 1 on) of chain c that diverged.
local function diverged(p, c)
  local d = p.statistics.divergent
  return d and d[c]:ne(0):nonzero():reshape { -1 } or core.zeros({ 0 }, { dtype = "int64" })
end

local function count_divergences(p)
  return p.divergences and p.divergences > 0 and p.divergences or nil
end

-- A step of 1, 2 or 5 times a power of ten that the extent of x holds about three times.
local function wide_step(x)
  local size = (x:max() - x:min()):item() / 3.5
  local power = 10 ^ math.floor(math.log(size > 0 and size or 1, 10))
  local lead = size / power
  return (lead < 1.5 and 1 or lead < 3.2 and 2 or lead < 7 and 5 or 10) * power
end

-- ---- the kinds: each gives panels and what the figure is ----

local kinds = {}

local MOST = { trace = 8, rank = 9, marginal = 16, forest = 60, pairs = 6 }

-- Laws and paths of the chains side by side; divergences as marks at the foot of the paths.
function kinds.trace(p, list)
  local panels = {}
  for k, one in ipairs(list) do
    local left = { title = one.name, y_label = "density", y_names = {} }
    local right = { title = one.name, x_label = k == #list and "draw" or nil, y_step = wide_step(one.draws) }
    local low = one.draws:min():item()
    local at = {}
    for c = 1, p.chains do
      local colour, label = colour_of(c), chain_label(p, c)
      left[c] = law_of_chain(one.draws[c], { colour = colour, width = 1.5, label = label })
      right[c] = plot.line(nil, one.draws[c], { colour = colour, width = 0.6 })
      for _, i in ipairs(diverged(p, c):totable()) do
        at[#at + 1] = i + 1
      end
    end
    if #at > 0 then
      local foot = {}
      for i = 1, #at do foot[i] = low end
      right[#right + 1] = plot.points(at, foot, { colour = RED, size = 0.4, label = "diverged" })
    end
    panels[#panels + 1], panels[#panels + 2] = plot.panel(left), plot.panel(right)
  end
  return panels, { columns = 2, size = { 900, 210 * #list + 60 }, legend = "below" }
end

local BINS = 20

-- Ranks from 0 of all draws, [chains, draws]. Equal ones are ranked in an order of their own, by chance: by their place
-- the first chain would always be the lowest.
local function ranks_of(draws)
  local flat = draws:reshape { -1 }
  local shuffled = core.randperm(flat:numel(), { generator = core.generator(1) })
  return flat:take(1, shuffled):argsort():argsort():take(1, shuffled:argsort()):reshape(draws:shape())
end

-- How often the ranks of each chain among all draws fall where: level where the chains have one law. The band holds 95
-- % of bins of independent draws.
function kinds.rank(p, list)
  local panels = {}
  local n = p.length
  local mean = n / BINS
  local sd = math.sqrt(n * (1 / BINS) * (1 - 1 / BINS))
  for k, one in ipairs(list) do
    local ranks, top = ranks_of(one.draws), mean + 2.5 * sd
    local panel = { title = one.name, x_label = "rank of all draws", y_label = "draws", x_range = { 0, p.chains * n },
      plot.band({ 0, p.chains * n }, { mean - 1.96 * sd, mean - 1.96 * sd }, { mean + 1.96 * sd, mean + 1.96 * sd },
        { colour = GREY, label = "independent, 95 %" }) }
    for c = 1, p.chains do
      local bin = (ranks[c]:to "float64" * (BINS / (p.chains * n))):floor():to("int64")
      local counts = order.bincount(bin, { num_bins = BINS }):totable()
      local x, y = {}, {}
      for b = 1, BINS do
        local from, to = (b - 1) * p.chains * n / BINS, b * p.chains * n / BINS
        table.move({ from, to }, 1, 2, #x + 1, x)
        table.move({ counts[b], counts[b] }, 1, 2, #y + 1, y)
        top = math.max(top, counts[b])
      end
      panel[#panel + 1] = plot.line(x, y, { colour = colour_of(c), width = 1.3, label = chain_label(p, c) })
    end
    panel.y_range = { 0, 1.05 * top }
    panels[k] = plot.panel(panel)
  end
  return panels, { legend = "below" }
end

-- The law of all draws, the middle 90 % and the mean.
function kinds.marginal(_, list)
  local panels = {}
  for k, one in ipairs(list) do
    local x = one.draws:reshape { -1 }
    local ends = metrics.quantiles(x, { 0.05, 0.95 }):totable()
    local panel = { title = one.name, y_label = "density", y_names = {} }
    if whole(x) then
      panel[1] = law(x, { colour = BLUE })
    else
      local at, y = density(x, 240, true)
      local inside = at:ge(ends[1]):logical_and(at:le(ends[2]))
      local xs, ys = at:masked_select(inside), y:masked_select(inside)
      panel[1] = plot.band(xs, xs * 0, ys, { colour = BLUE, label = "middle 90 %" })
      panel[2] = plot.line(at, y, { colour = BLUE })
      panel[3] = plot.line({ x:mean():item(), x:mean():item() }, { 0, y:max():item() }, { colour = DARK, width = 1,
        dashed = true, label = "mean" })
    end
    panels[k] = plot.panel(panel)
  end
  return panels, { legend = "below" }
end

-- Medians with the middle 50 % and 90 %, a line for each number.
function kinds.forest(_, list)
  local names, thin, thick, medians, heights = {}, {}, {}, {}, {}
  for k, one in ipairs(list) do
    local q = metrics.quantiles(one.draws:reshape { -1 }, { 0.05, 0.25, 0.5, 0.75, 0.95 }):totable()
    local y = #list + 1 - k
    names[y], heights[k], medians[k] = one.name, y, q[3]
    thin[k] = plot.line({ q[1], q[5] }, { y, y }, { colour = BLUE, width = 1.2 })
    thick[k] = plot.line({ q[2], q[4] }, { y, y }, { colour = BLUE, width = 4 })
    thin[k].plain = { "DOTS using 1:2 with lines linecolor rgb '%s'" }
  end
  local panel = { y_names = names, y_range = { 0.3, #list + 0.7 }, x_label = "median, middle 50 % and 90 %",
    legend = "none" }
  table.move(thin, 1, #thin, 1, panel)
  table.move(thick, 1, #thick, #panel + 1, panel)
  panel[#panel + 1] = plot.points(medians, heights, { colour = DARK, size = 0.7 })
  return { plot.panel(panel) }, { size = { 640, math.max(220, 90 + 24 * #list) } }
end

local DOTS, ALL_DOTS = 1500, 12000 -- of a panel of pairs, of all

-- Lowest and highest value with a margin.
local function range_of(x)
  local low, high = x:min():item(), x:max():item()
  local margin = high > low and 0.05 * (high - low) or 0.5
  return { low - margin, high + margin }
end

-- Each number against each other one, divergences in red on top; laws on the diagonal.
function kinds.pairs(p, list)
  local panels, n = {}, #list
  local total = p.chains * p.length
  local dots = math.min(DOTS, 2 * ALL_DOTS // math.max(1, n * (n - 1)))
  local some = total > dots and core.linspace(0, total - 1, dots):round():to "int64"
    or core.arange(total, { dtype = "int64" })
  local bad = count_divergences(p) and p.statistics.divergent:reshape({ -1 }):ne(0):nonzero():reshape { -1 }
  for i = 1, n do
    for j = 1, i do
      local x, y = list[j].draws:reshape { -1 }, list[i].draws:reshape { -1 }
      local panel = { x_label = i == n and list[j].name or nil, y_label = j == 1 and list[i].name or nil,
        x_range = range_of(x), x_step = wide_step(x), x_names = i < n and {} or nil }
      if i == j then
        panel[1] = law(x, { colour = BLUE, width = 1.5 })
        panel.y_names = {}
      else
        panel.y_range, panel.y_step, panel.y_names = range_of(y), wide_step(y), j > 1 and {} or nil
        panel[1] = plot.points(x:take(1, some), y:take(1, some), { colour = GREY, size = 0.25,
          label = bad and "draws" or nil })
        if bad then
          panel[2] = plot.points(x:take(1, bad), y:take(1, bad), { colour = RED, size = 0.5, label = "diverged" })
        end
      end
      panels[#panels + 1] = plot.panel(panel)
      panels[#panels].cell = (i - 1) * n + j
    end
  end
  local side = 230 - 12 * n
  return panels, { columns = n, size = { n * side + 90, n * side + 120 }, legend = "below", aligned = true }
end

-- Energies less their mean, and the steps that momenta make: where the second are far narrower, tails are not reached.
function kinds.energy(p)
  local energy = p.statistics.energy
  if not energy or energy:size(2) < 3 then
    core.error "plot: kind 'energy' is of draws by trajectories (pn.nuts, pn.hmc)"
  end
  local n = energy:size(2)
  local level = (energy - energy:mean(2, true)):reshape { -1 }
  local step = (energy:slice(2, 2, n) - energy:slice(2, 1, n - 1)):reshape { -1 }
  local texts = {}
  for c, v in ipairs(p.e_bfmi) do
    texts[c] = ("%.2f"):format(v)
  end
  return { plot.panel { title = "E-BFMI " .. table.concat(texts, ", "), x_label = "energy", y_label = "density",
    y_names = {}, legend = "below", law(level, { colour = BLUE, label = "energy less its mean" }),
    law(step, { colour = "#d9752b", label = "its change in a transition" }) } }
end

local REPLICATES = 40

-- Laws of replicated data, thin, and that of what was observed.
function kinds.predictive(p, _, o)
  if not p.target then
    core.error "plot: kind 'predictive' needs a model, and these draws were read from a file without one"
  end
  local seen, names = at_draws.observed(p.model, p.args, p.target:values_at(p.unconstrained[1][1]))
  local site = o.site or names[1]
  if not site or not seen[site] then
    core.error(o.site and ("plot: the model observes no '%s'%s"):format(o.site, options.suggestion(o.site, names))
      or "plot: the model observes nothing")
  end
  local y = seen[site]:to("float64"):reshape { -1 }
  local drawn = p:predict({ draws = REPLICATES })[site]:reshape { -1, y:numel() }
  local panel = { x_label = site, y_label = "density", y_names = {}, legend = "below" }
  if whole(y) then -- shares of each number: those of the replications as bars of their middle 90 %
    local low = math.min(y:min():item(), drawn:min():item())
    local high = math.max(y:max():item(), drawn:max():item())
    if high - low < 60 then
      local shares, x = shares_of(drawn, low, high)
      local ends = metrics.quantiles(shares, { 0.05, 0.5, 0.95 })
      local share = shares_of(y, low, high)
      panel[1] = plot.error_bars(x, ends[2], { lower = ends[1], upper = ends[3] }, { colour = GREY,
        label = "replicated, 90 %" })
      local top = share:max():item()
      panel[2] = plot.points(x, share, { colour = RED, size = 0.8,
        label = "observed" })
      panel.y_label, panel.y_names = "share", nil
      panel.x_range, panel.y_range = { low - 0.6, high + 0.6 }, { 0, 1.1 * math.max(ends[3]:max():item(), top) }
      return { plot.panel(panel) }
    end
  end
  for k = 1, drawn:size(1) do
    local at, height = density(drawn[k], 120)
    panel[k] = plot.line(at, height, { colour = GREY, width = 0.6, label = k == 1 and "replicated" or nil })
  end
  local at, height = density(y, 200)
  panel[#panel + 1] = plot.line(at, height, { colour = RED, width = 2.5, label = "observed" })
  return { plot.panel(panel) }
end

local NAMES = { "trace", "rank", "marginal", "forest", "pairs", "energy", "predictive" }

local plot_options = { kind = options.one_of("trace", NAMES), names = options.optional "table",
  site = options.optional "string", title = options.optional "string", size = options.optional "table" }

--- What p:plot does.
function posterior_plot.draw(p, path, given)
  if type(path) == "table" then
    path, given = nil, path
  end
  local o = options.check("plot", given, plot_options)
  local list, left
  if MOST[o.kind] then
    list, left = numbers_of(p, o.names, MOST[o.kind])
  end
  local panels, figure = kinds[o.kind](p, list, o)
  figure = figure or {}
  figure.size, figure.title = o.size or figure.size, o.title or left
  if path == nil then
    return plot.show(panels, figure)
  end
  return plot.save(options.argument("plot", "path", path, "string"), panels, figure)
end

return posterior_plot
