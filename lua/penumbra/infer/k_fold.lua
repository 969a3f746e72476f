--- Cross-validation by fitting again: the data in folds, each predicted by a posterior of all others.
--- Source: Vehtari & Lampinen 2002.
-- help: pn
local core = require "penumbra.core"
local model = require "penumbra.infer.model"
local nuts = require "penumbra.infer.nuts"
local options = require "penumbra.options"
local predictive_density = require "penumbra.infer.predictive_density"

local k_fold = {}

-- The places of the arguments that have rows, and how many rows there are.
local function rows_of(args, given)
  local n, places = nil, {}
  for k = args.n, 1, -1 do
    n = n or core.is_tensor(args[k]) and args[k]:ndim() > 0 and args[k]:size(1) or nil
  end
  if not n then
    core.error "k_fold: data has no tensor whose rows could be left out"
  end
  for k = 1, given and 0 or args.n do
    places[#places + 1] = core.is_tensor(args[k]) and args[k]:ndim() > 0 and args[k]:size(1) == n and k or nil
  end
  for _, k in ipairs(given or {}) do
    local t = args[k]
    if not core.is_tensor(t) or t:ndim() == 0 then
      core.error(("k_fold: rows names argument %s, which is no tensor with rows"):format(tostring(k)))
    end
    places[#places + 1] = k
    n = #places == 1 and t:size(1) or n
    if t:size(1) ~= n then
      core.error(("k_fold: arguments of rows must have as many rows as each other, got %d and %d"):format(n, t:size(1)))
    end
  end
  return places, n
end

-- Are all numbers of a tensor whole? int64 are, floats may be.
local function all_whole(x)
  return x:dtype() == "int64" or x:dtype() ~= "bool" and x:floor():eq(x):all():item()
end

-- The fold of each of n rows, int64 [n] from 0 on, and how many there are.
local function folds_of(given, n, generator)
  if core.is_tensor(given) then
    if given:ndim() ~= 1 or given:size(1) ~= n or not all_whole(given) then
      core.error(("k_fold: folds must have a whole number for each of the %d rows, got %s [%s]"):format(n,
        given:dtype(), table.concat(given:shape(), ", ")))
    end
    given = given:to "int64"
    local count = given:max():item() + 1
    if given:min():item() < 0 or count > n then
      core.error(("k_fold: folds must be numbered from 0 on, got %d to %d"):format(given:min():item(), count - 1))
    end
    return given, count
  end
  local count = options.whole("k_fold", "folds", given, 2)
  if count > n then
    core.error(("k_fold: there are %d rows, too few for %d folds"):format(n, count))
  end
  local order = core.randperm(n, { generator = generator })
  return order:remainder(count), count
end

local function with_rows(args, places, rows)
  local list = table.move(args, 1, args.n, 1, { n = args.n })
  for _, k in ipairs(places) do
    list[k] = args[k]:take(1, rows)
  end
  return list
end

-- Log predictive densities of what p observes on data, by site [rows, ...], and the names in order.
local function densities(p, data, count)
  local sites, names = p:log_likelihood { data = data }, {}
  for name, ll in pairs(sites) do
    names[#names + 1] = name
    if ll:ndim() < 3 or ll:size(3) ~= count then
      core.error(("k_fold: '%s' has densities of shape [%s] for %d rows left out: each row must have its own (rows "
        .. "says which arguments have rows)"):format(name, table.concat(ll:shape(), ", ", 3), count))
    end
    local shape = ll:shape()
    sites[name] = ll:reshape { shape[1] * shape[2], table.unpack(shape, 3) }:logsumexp(1)
      - math.log(shape[1] * shape[2])
  end
  table.sort(names)
  return sites, names
end

local fold_options = { data = options.required "table", folds = options.any(10), rows = options.optional "table",
  fit = options.optional "function", generator = options.optional() }

--- k_fold(model, {data = {x, y}}): how well the model predicts rows from all others, by fitting it again without each
--- fold of them: what p:loo estimates from one fit, where its k-hat says that it cannot. What it gives goes into
--- pn.compare beside that of another model with the same folds.
---
---     local folds = pn.randint(0, 5, {100})                     -- or folds = 10
---     local cv = pn.k_fold(model, {data = {x, y}, folds = folds,
---       fit = function(m, data) return pn.nuts(m, {data = data, chains = 2, draws = 500}) end})
---     print(cv, cv.elpd, cv.se)
---
--- data: the model's arguments after m. rows: the places of those that have rows (unless given, all tensors that are as
--- long as the last one). folds: how many (10), at random (generator), or a fold's number, from 0 on, for each row:
--- rows that belong together are left out together. fit(model, data): a posterior (pn.nuts unless given). Latent
--- variables must not stand in the rows' plate. Gives elpd, se, pointwise [N], fits (the posteriors), folds.
function k_fold.k_fold(m, given)
  local o = options.check("k_fold", given, fold_options)
  if not model.is(m) then
    core.error(("k_fold: needs a model (pn.model), got %s"):format(type(m)))
  end
  local args = model.packed(o.data)
  local places, n = rows_of(args, o.rows)
  local folds, count = folds_of(o.folds, n, o.generator)
  local fit = o.fit or function(of, data) return nuts.nuts(of, { data = data, generator = o.generator }) end
  local order, parts, fits, draws, names = {}, {}, {}, 0, nil
  for k = 0, count - 1 do
    local out = folds:eq(k):nonzero():reshape { -1 }
    if out:numel() == 0 then
      core.error(("k_fold: fold %d has no rows"):format(k))
    end
    local p = fit(m, with_rows(args, places, folds:ne(k):nonzero():reshape { -1 }))
    options.object("k_fold", "what fit gives", p, "a posterior", "log_likelihood", "loo")
    local sites
    sites, names = densities(p, with_rows(args, places, out), out:numel())
    order[k + 1], fits[k + 1] = out, p
    for _, name in ipairs(names) do
      parts[name] = parts[name] or {}
      table.insert(parts[name], sites[name])
    end
    draws = draws + p.chains * p.unconstrained:size(2)
  end
  local back = core.concatenate(order, 1):argsort()
  local pointwise = {}
  for k, name in ipairs(names) do
    pointwise[k] = core.concatenate(parts[name], 1):take(1, back):reshape { -1 }
  end
  return predictive_density.new(core.concatenate(pointwise, 1), { method = "k_fold", draws = draws, fits = fits,
    folds = folds })
end

return k_fold
