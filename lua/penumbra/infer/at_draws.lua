--- What a model's run gives at each of many draws: values of its sites, densities of what it observes. One run is
--- captured and replayed for all draws.
-- help: nowhere
local core = require "penumbra.core"
local enumeration = require "penumbra.infer.enumeration"
local model = require "penumbra.infer.model"
local replay = require "penumbra.autodiff.replay"

local at_draws = {}

-- The sites of a list of {name, base, time} by name, those of a scan joined: table name -> list of places in the list,
-- and the names in order.
local function joined_names(list)
  local places, order = {}, {}
  for k, site in ipairs(list) do
    local name = site.time and #site.time == 1 and site.base or site.name
    if not places[name] then
      places[name] = {}
      order[#order + 1] = name
    end
    table.insert(places[name], k)
  end
  return places, order
end

local function shape_text(t)
  return table.concat(t:shape(), ",")
end

--- Tensors [lead..., shape of the site], one for each of a list of {name, base, time}, as table name -> tensor; those
--- of a scan joined, time after the `lead` first axes. Steps of different shapes stay apart. And the names in order.
function at_draws.joined(list, tensors, lead)
  local places, order = joined_names(list)
  local sites, names = {}, {}
  for _, name in ipairs(order) do
    local parts, same = {}, true
    for j, k in ipairs(places[name]) do
      parts[j] = tensors[k]
      same = same and shape_text(tensors[k]) == shape_text(parts[1])
    end
    local alone = #parts == 1 and list[places[name][1]].name == name
    if alone or same then
      sites[name] = alone and parts[1] or core.stack(parts, lead + 1)
      names[#names + 1] = name
    else
      for j, k in ipairs(places[name]) do
        sites[list[k].name] = parts[j]
        names[#names + 1] = list[k].name
      end
    end
  end
  return sites, names
end

--- Values [chains, draws, n] cut into the sites of a target's outputs(), by name; those of a scan joined, time first.
function at_draws.by_site(values, outputs)
  local parts = {}
  for k, out in ipairs(outputs) do
    local shape = { values:size(1), values:size(2), table.unpack(out.shape) }
    parts[k] = values:slice(3, out.first, out.last):reshape(shape):contiguous()
  end
  return at_draws.joined(outputs, parts, 2)
end

--- "w[2, 1]" for the elements of a value of this shape, row by row.
function at_draws.element_names(name, shape)
  local n = 1
  for _, size in ipairs(shape) do
    n = n * size
  end
  if #shape == 0 then
    return { name }
  end
  local names = {}
  for i = 0, n - 1 do
    local place, rest = {}, i
    for k = #shape, 1, -1 do
      place[k] = rest % shape[k] + 1
      rest = rest // shape[k]
    end
    names[i + 1] = ("%s[%s]"):format(name, table.concat(place, ", "))
  end
  return names
end

-- f(z) as a compiled function of a row of z that gives one vector; shapes() are those of what f gives, a list.
local function compiled(z, watch, f)
  local shapes
  local plan = replay.compile(function(x)
    local parts, flat = f(x), {}
    shapes = {}
    for k, t in ipairs(parts) do
      shapes[k] = t:shape()
      flat[k] = t:to("float64"):reshape { -1 }
    end
    return core.concatenate(flat, 1)
  end, { watch = watch, plans = 1 })
  f(z[1]) -- once outside of a capture
  plan(z[1])
  return plan, function() return shapes end
end

-- Rows [..., n] cut into tensors of these shapes, with the axes before.
local function cut(rows, shapes)
  local list, at, lead = {}, 1, rows:shape()
  local last = #lead
  lead[last] = nil
  for k, shape in ipairs(shapes) do
    local n = 1
    for _, size in ipairs(shape) do
      n = n * size
    end
    local sizes = table.move(shape, 1, #shape, #lead + 1, table.move(lead, 1, #lead, 1, {}))
    list[k] = rows:slice(last, at, at + n - 1):reshape(sizes):contiguous()
    at = at + n
  end
  return list
end

--- f(z) gives a list of tensors: these for every row of z [N, n], each [N, ...], float64. watch: the function of the
--- model, whose outer variables are watched.
function at_draws.each(z, watch, f)
  local plan, shapes = compiled(z, watch, f)
  return cut(plan:map(z), shapes())
end

local BLOCK = 256 -- draws that are held at a time

--- The means over the rows of z of the tensors of f(z): a list. Memory does not depend on the number of rows.
function at_draws.mean(z, watch, f)
  local plan, shapes = compiled(z, watch, f)
  local total, n = nil, z:size(1)
  for first = 1, n, BLOCK do
    local block = plan:map(z:slice(1, first, math.min(n, first + BLOCK - 1)):contiguous()):sum(1)
    total = total and total + block or block
  end
  return cut(total / n, shapes())
end

--- Values of the sites of model m on args at each row of z, by name [N, ...], and the names in order. how(x): the
--- options of the run at a row; keep(site): is it wanted? where: the function called.
function at_draws.sites(where, m, args, z, how, keep)
  local kept
  local list = at_draws.each(z, m.body, function(x)
    local parts = {}
    kept = {}
    for _, site in ipairs(model.run(m, args, how(x)).order) do
      if keep(site) then
        kept[#kept + 1] = { name = site.name, base = site.base, time = site.time }
        parts[#parts + 1] = site.value
      end
    end
    if #parts == 0 then
      core.error(where .. ": the model observes nothing")
    end
    return parts
  end)
  return at_draws.joined(kept, list, 1)
end

--- Draws of what model m observes on args, and its deterministic sites, at each row of z, a draw of the target t: by
--- site [N, ...].
function at_draws.predicted(t, m, args, z)
  return (at_draws.sites("predict", m, args, z, function(x)
    return { predict = true, whole = true, value = t:predictive_values_at(x) }
  end, function(site)
    return site.predicted or site.kind == "deterministic"
  end))
end

-- The name of what shares enumerated variables: "x, y"; the steps of a scan by their base.
local function shared_name(observed)
  local names, seen = {}, {}
  for _, site in ipairs(observed) do
    local name = #observed > 1 and site.time and site.base or site.name
    if not seen[name] then
      names[#names + 1], seen[name] = name, true
    end
  end
  return table.concat(names, ", ")
end

-- The log densities of what is observed in a run, two lists: {name, base, time}, tensors. Where enumerated variables
-- are summed out, what shares one is joined.
local function likelihoods(t)
  local sites, parts = {}, {}
  if not t.enumerated then
    for _, site in ipairs(t.order) do
      if site.observed then
        sites[#parts + 1] = { name = site.name, base = site.base, time = site.time }
        parts[#parts + 1] = site.log_prob
      end
    end
    return sites, parts
  end
  for _, factor in ipairs(enumeration.factors(t)) do
    if #factor.observed > 0 then
      local name = shared_name(factor.observed)
      if factor.latent then
        core.error(("log_likelihood: '%s' has no density of its own: what is summed out carries latent variables "
          .. "beside it"):format(name))
      end
      local lp = factor.log_prob
      while lp:ndim() > factor.depth and lp:size(1) == 1 do
        lp = lp:squeeze(1)
      end
      sites[#parts + 1], parts[#parts + 1] = { name = name }, lp
    end
  end
  return sites, parts
end

-- The log densities of what model m observes on args as a function of a draw of the target t, a list of tensors; and
-- a function that gives the list of {name, base, time} they are of.
local function likelihoods_at(t, m, args)
  local sites
  return function(x)
    local parts
    local how = { whole = true, value = t:values_at(x) }
    if t.enumerates then
      how.enumerate, how.most = true, t.most
    end
    sites, parts = likelihoods(model.run(m, args, how))
    if #parts == 0 then
      core.error "log_likelihood: the model observes nothing"
    end
    return parts
  end, function() return sites end
end

--- The log density of each observation of model m on args at each row of z, a draw of the target t: by name [N, ...],
--- and the names in order.
function at_draws.log_likelihood(t, m, args, z)
  local f, sites = likelihoods_at(t, m, args)
  local list = at_draws.each(z, m.body, f)
  return at_draws.joined(sites(), list, 1)
end

--- The same for as many observations at a time as one wants: a table of the sites' shapes by name, their names in
--- order, and block(list, first, last): of the observations of the sites of that list, one after the other, those from
--- first to last at each row of z, [N, last - first + 1]. Each block runs the model on all data anew: memory goes by
--- the block, time by their number.
function at_draws.likelihood_blocks(t, m, args, z)
  local f, sites = likelihoods_at(t, m, args)
  local function by_name(x)
    local parts = f(x)
    return at_draws.joined(sites(), parts, 0)
  end
  local shapes, now, names = {}, by_name(z[1])
  for name, value in pairs(now) do
    shapes[name] = value:shape()
  end
  return shapes, names, function(list, first, last)
    return at_draws.each(z, m.body, function(x)
      local values, vectors = by_name(x), {}
      for k, name in ipairs(list) do
        vectors[k] = values[name]:to("float64"):reshape { -1 }
      end
      return { core.concatenate(vectors, 1):slice(1, first, last) }
    end)[1]
  end
end

--- The same of log densities that are there already, by name [chains, draws, ...].
function at_draws.stored_blocks(sites)
  local shapes, names = {}, {}
  for name, t in pairs(sites) do
    shapes[name], names[#names + 1] = { table.unpack(t:shape(), 3) }, name
  end
  table.sort(names)
  return shapes, names, function(list, first, last)
    local parts = {}
    for k, name in ipairs(list) do
      local t = sites[name]
      parts[k] = t:to("float64"):reshape { t:size(1) * t:size(2), -1 }
    end
    return core.concatenate(parts, 2):slice(2, first, last):contiguous()
  end
end

--- What model m observes on args, all rows, by name, and the names in order; those of a scan joined. Latent variables:
--- whatever `value` says (a function of model.run).
function at_draws.observed(m, args, value)
  local list, values = {}, {}
  for _, site in ipairs(model.run(m, args, { value = value, whole = true }).order) do
    if site.observed then
      list[#list + 1] = { name = site.name, base = site.base, time = site.time }
      values[#values + 1] = site.value:detach()
    end
  end
  return at_draws.joined(list, values, 0)
end

--- All numbers that posterior p observes, or those of one site, as a vector in the order of p:loo; nil where sites
--- share an enumerated variable and have no density of their own.
function at_draws.observed_values(p, site)
  if not p.target then
    return nil
  end
  local sites, names = at_draws.observed(p.model, p.args, p.target:values_at(p.unconstrained[1][1]))
  table.sort(names)
  local list = {}
  for _, name in ipairs(site and { site } or names) do
    list[#list + 1] = sites[name] and sites[name]:to("float64"):reshape { -1 } or nil
  end
  return #list > 0 and core.concatenate(list, 1) or nil
end

return at_draws
