--- The seventeen posteriors of posteriordb in the group `sampling` of `make bench-peers`: pn.nuts with whatever its
--- defaults are beside nutpie (diagonal and low rank, with its own defaults), which drives the very same densities
--- through src/bridge, and stanli, a Stan of replayed graphs, by its own sampler and by nutpie. Data are those of
--- ../shared/data/posteriordb (or the folder POSTERIORDB) where it is there, else generated ones of the same form.
---
--- Keys; all of 4 chains one after another on one processor, 1000 draws a chain, warm-up included, medians of SEEDS
--- runs; an effective draw is one of the least of bulk, tail and squares (of what is left of the mean) over all latent
--- variables:
---   gradients NAME    gradients an effective draw
---   draw NAME         seconds of processor time an effective draw
---   gradient NAME     seconds of processor time a gradient, the sampler's own work included
--- What nutpie takes for a gradient is therefore ours and its own work; "stanli" and "stanli by nutpie" are of stanli.
---
--- Measured with nutpie 0.16.8 and stanli 0.24.0, one seed, the data of posteriordb, on a machine that others used, too
--- (load of 8 to 10 on two cores), each program stopped after 240 seconds (-: not reached). N, L: nutpie, diagonal and
--- low rank; S: stanli's own sampler; SN, SL: nutpie on stanli's densities; us: ours, whose default then was Stan's
--- adaptation and which did not tell how many gradients the warm-up took.
---
---                             gradients an         microseconds of the processor an          microseconds
---                             effective draw       effective draw                            a gradient
---                                N      L      S     us      N      L      S     SN     SL      N     SN      S
---   kidscore_momiq              128   12.7    222    579    408   84.5    405    195   67.1   3.19   1.93   1.82
---   kidscore_interaction        530   12.8    892   2590   1766   89.3   1699    821   72.7   3.33   1.59   1.90
---   logearn_height              230   11.6    408   2684   1370    111   1237    796   75.8   5.95   2.95   3.03
---   logmesquite                99.3   21.4    130    119    128   91.2    107   79.1   87.6   1.29   0.93   0.82
---   nes                         130   21.8    182    993    755    213    638    413    157   5.82   3.30   3.50
---   blr                        53.8   16.3    148    228    133   86.0    159   75.7   71.4   2.47   1.70   1.07
---   diamonds                   4062   47.3      -   9310   9388    428      -      -      -   2.31      -      -
---   kilpisjarvi                3079   14.6   3916   4989   4232   62.0   2727   2105   62.5   1.37   0.57   0.70
---   arK                        69.9   15.9    122    314    207    101    195    102   85.1   2.95   1.46   1.60
---   garch11                    34.0   20.8   57.3   1147    865    594   1242    565    452   25.4   18.3   21.7
---   hmm_drive_0                17.8   30.1   52.4   4132   1934   3386   8304      -      -    108      -    159
---   eight_schools              30.0   30.7   39.7   58.5   62.0    128   30.1   35.5    114   2.07   1.40   0.76
---   low_dim_gauss_mix          15.0   14.7   31.9   1017    573    597   2480   1063   1103   38.2   70.8   77.9
---   gp_regr                    9.63   11.5   18.7    134   95.2    131    103   73.9   90.7   9.89   7.68   5.48
---   gp_pois_regr               1731  10685    838   6235  10373  96841   3155   7313  16898   5.99   3.70   3.76
---   lotka_volterra              118   7259    280      -  16108 1401980  30644      -      -    137      -    109
--- (one_comp_mm_elim_abs was not reached. What has not mixed has few effective draws, hence the largest figures.)
local pn = require "penumbra"
local core = require "penumbra.core"
local models = dofile "examples/papers/posteriordb/models.lua"

local DATA = (os.getenv "POSTERIORDB" or "../shared/data/posteriordb") .. "/"
local SEEDS = tonumber(os.getenv "SEEDS") or 3

local reference = {}

local function short(entry) return entry.name:match "%-(.*)$" end

local function data_of(entry)
  for _, name in ipairs{"/data.json", "/data.json.gz"} do
    local file = io.open(DATA .. entry.name .. name)
    if file then
      file:close()
      return assert(pn.data.json(DATA .. entry.name .. name))
    end
  end
  pn.seed(1)
  return entry.generate()
end

local SCRIPT = [[
local pn = require "penumbra"
local entry = dofile "models.lua"["%s"]
local arguments = entry.arguments(pn.data.json "%s.json")
target = entry.model:target(table.unpack(arguments))
]]

local function copy(from, to)
  local file = assert(io.open(from, "rb"))
  local text = file:read "a"
  file:close()
  file = assert(io.open(to, "wb"))
  assert(file:write(text))
  file:close()
end

--- Writes NAME.json, and models that the bridge makes of NAME.lua, into the folder; gives the names.
function reference.prepare(folder, build, json)
  os.execute(("mkdir -p '%s'"):format(folder))
  copy("examples/papers/posteriordb/models.lua", folder .. "/models.lua")
  for _, entry in ipairs(models) do
    local path = folder .. "/" .. short(entry)
    local file = assert(io.open(path .. ".json", "w"))
    file:write(json(data_of(entry)), "\n")
    file:close()
    file = assert(io.open(path .. ".lua", "w"))
    file:write(SCRIPT:format(entry.name, short(entry)))
    file:close()
    copy(build .. "/libpenumbra_bridge.so", path .. ".so")
  end
end

local function least(summary, column)
  local worst = math.huge
  for _, row in ipairs(summary:totable()) do worst = math.min(worst, row[column]) end
  return worst
end

-- Effective draws of the latent variables [chains, draws, n].
local function effective(x)
  local apart = x - x:mean{1, 2}:reshape{1, 1, x:size(3)}
  local summary = core.draws_summary(x)
  return math.min(least(summary, 7), least(summary, 8), least(core.draws_summary((apart * apart):contiguous()), 7))
end

local function draws_of(p)
  local parts = {}
  for k, site in ipairs(p.target.layout) do
    local x = p.draws[site.name]
    parts[k] = x:reshape{x:size(1), x:size(2), -1}
  end
  return pn.concatenate(parts, 3)
end

local function median(values)
  table.sort(values)
  return values[#values // 2 + 1]
end

--- Draws of pn.nuts with its defaults, [chains, draws, n], into NAME.npz of the folder.
function reference.sample(folder, name, seed)
  for _, entry in ipairs(models) do
    if short(entry) == name then
      local p = pn.nuts(entry.model, {data = entry.arguments(data_of(entry)), generator = pn.generator(seed)})
      assert(pn.data.save_npz(("%s/%s.npz"):format(folder, name), {draws = draws_of(p)}))
    end
  end
end

--- Our figures. What counts gradients only where a posterior tells how many it took, warm-up included.
function reference.measure(print_row, wanted)
  for _, entry in ipairs(models) do
    local name, found = short(entry), {gradients = {}, draw = {}, gradient = {}}
    local arguments = wanted(name) and entry.arguments(data_of(entry))
    for seed = 1, arguments and SEEDS or 0 do
      local start = os.clock()
      local p = pn.nuts(entry.model, {data = arguments, generator = pn.generator(seed)})
      local spent, draws = os.clock() - start, effective(draws_of(p))
      table.insert(found.draw, spent / draws)
      if p.gradients then
        table.insert(found.gradients, p.gradients / draws)
        table.insert(found.gradient, spent / p.gradients)
      end
    end
    for what, values in pairs(found) do
      if #values > 0 then print_row(what .. " " .. name, "replayed", median(values)) end
    end
  end
end

return reference
