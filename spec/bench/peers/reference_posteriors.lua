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
--- Figures: examples/papers/posteriordb/README.md.
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
