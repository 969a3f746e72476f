--- Posteriors to ArviZ's groups and back, to the bit; what ArviZ has written (spec/golden/files/zarr_store.py); draws
--- without a model: what works and what says that it does not.
local pn = require "penumbra"
local helper = require "spec.helper"
local refuses = helper.refuses
local dist = pn.dist

local root = os.tmpname()
os.remove(root)
os.execute(("mkdir -p '%s'"):format(root))
teardown(function() os.execute(("rm -rf '%s'"):format(root)) end)
local function at(name) return ("%s/%s"):format(root, name) end

local y = pn.tensor { 0.3, -0.8, 1.2 }
local model = pn.model(function(m, data)
  local mu = m:sample("mu", dist.normal(0, 2))
  local w = m:sample("w", dist.normal(pn.zeros { 2, 3 }, 1):independent(2))
  m:deterministic("twice", mu * 2)
  m:observe("y", dist.normal(mu + w[1], 1), data)
end)

local function sampled()
  pn.seed(5)
  return pn.nuts(model, { data = { y }, chains = 2, warmup = 60, draws = 50 })
end

local function same(a, b, what)
  assert.same(a:shape(), b:shape(), what)
  assert.equal(a:dtype(), b:dtype(), what)
  assert.is_true(a:eq(b):logical_or(a:isnan():logical_and(b:isnan())):all():item(), what)
end

local function names(t)
  local list = {}
  for name in pairs(t) do list[#list + 1] = name end
  table.sort(list)
  return list
end

describe("a posterior as ArviZ's store", function()
  local p = sampled()
  local path = at "p.zarr"
  assert(p:save_arviz(path, { groups = { "log_likelihood", "posterior_predictive", "prior" }, draws = 20,
    dims = { w = { "row", "place" } }, coords = { row = { "up", "down" } } }))
  local groups, about = assert(pn.data.zarr(path))

  it("has the groups, names and dtypes of the schema", function()
    assert.same({ "log_likelihood", "observed_data", "posterior", "posterior_predictive", "prior", "sample_stats" },
      names(groups))
    assert.same({ "mu", "twice", "w" }, names(groups.posterior))
    assert.same({ "acceptance_rate", "diverging", "energy", "lp", "n_steps", "step_size", "tree_depth" },
      names(groups.sample_stats))
    assert.same({ "bool", "int64", "int64", "float64" }, { groups.sample_stats.diverging:dtype(),
      groups.sample_stats.n_steps:dtype(), groups.sample_stats.tree_depth:dtype(), groups.sample_stats.lp:dtype() })
    assert.same({ "chain", "draw", "row", "place" }, about.dims.posterior.w)
    assert.same({ "chain", "draw", "y_dim_0" }, about.dims.log_likelihood.y)
    assert.same({ "y_dim_0" }, about.dims.observed_data.y)
    assert.same({ "up", "down" }, about.coords.posterior.row)
    assert.same({ 2, 50, 3 }, groups.posterior_predictive.y:shape())
    assert.same({ 1, 20, 2, 3 }, groups.prior.w:shape())
    assert.same({ "y" }, names(groups.posterior_predictive))
    assert.equal("penumbra", about.attributes.sample_stats.inference_library)
    assert.same({ 60, p.seconds, p.max_depth }, { about.attributes.posterior.tuning_steps,
      about.attributes.posterior.sampling_time, about.attributes.posterior.max_tree_depth })
    for name in pairs(groups) do
      assert.equal(require("penumbra.core").version, about.attributes[name].inference_library_version)
    end
  end)

  it("has the draws and statistics to the bit", function()
    for name, t in pairs(p.draws) do same(t, groups.posterior[name], name) end
    same(p.statistics.log_density, groups.sample_stats.lp)
    same(p.statistics.accept, groups.sample_stats.acceptance_rate)
    same(p.statistics.step_size, groups.sample_stats.step_size)
    same(p.statistics.energy, groups.sample_stats.energy)
    same(p.statistics.depth, groups.sample_stats.tree_depth:to "float64")
    same(p.statistics.leapfrogs, groups.sample_stats.n_steps:to "float64")
    same(p.statistics.divergent, groups.sample_stats.diverging:to "float64")
    same(y, groups.observed_data.y)
    local by_hand = dist.normal(p.draws.mu:unsqueeze(3) + p.draws.w:select(3, 1), 1):log_prob(y)
    assert.is_true((by_hand - groups.log_likelihood.y):abs():max():item() < 1e-12)
  end)

  it("comes back as a posterior without a model", function()
    local q = assert(pn.infer.arviz(path))
    for name, t in pairs(p.draws) do same(t, q.draws[name], name) end
    assert.same(names(p.statistics), names(q.statistics))
    for name, t in pairs(p.statistics) do same(t, q.statistics[name], name) end
    for _, row in ipairs(p:summary()) do
      for key, value in pairs(row) do
        local other = q:summary()[row.name][key]
        assert.is_true(other == value or other ~= other and value ~= value, row.name .. key)
      end
    end
    assert.same(p.e_bfmi, q.e_bfmi)
    assert.same({ p.divergences, p.chains, p.warmup, p.length }, { q.divergences, q.chains, q.warmup, q.length })
    assert.same(#p.warnings, #q.warnings)
    helper.near(q:loo().elpd, p:loo().elpd, 1e-12)
    helper.near(q:waic().elpd, p:waic().elpd, 1e-12)
    assert.matches("100 draws of 2 chains after 60 of warm%-up", tostring(q))
    local plot = require "penumbra.plot"
    local save, panels = plot.save, {}
    plot.save = function(_, list) panels[#panels + 1] = #list end
    for _, kind in ipairs { "trace", "rank", "marginal", "forest", "pairs", "energy" } do
      q:plot("x.svg", { kind = kind, names = { "w" } })
    end
    plot.save = save
    assert.same({ 12, 6, 6, 1, 21, 1 }, panels)
    -- and once more
    assert(q:save_arviz(at "again.zarr"))
    local r = assert(pn.infer.arviz(at "again.zarr"))
    for name, t in pairs(p.draws) do same(t, r.draws[name], name) end
    for name, t in pairs(p.statistics) do same(t, r.statistics[name], name) end
    helper.near(r:loo().elpd, p:loo().elpd, 1e-12)
    same(y, pn.data.zarr(at "again.zarr").observed_data.y)
  end)

  it("gives its log densities block by block", function()
    local at_draws = require "penumbra.infer.at_draws"
    local one, two = pn.arange(8):reshape { 2, 2, 2 }, pn.arange(12):reshape { 2, 2, 3 } + 100
    local shapes, order, block = at_draws.stored_blocks { b = two, a = one }
    assert.same({ { 2 }, { 3 }, { "a", "b" } }, { shapes.a, shapes.b, order })
    assert.same({ { 1, 100, 101 }, { 3, 103, 104 }, { 5, 106, 107 }, { 7, 109, 110 } },
      block(order, 2, 4):totable())
  end)

  it("says what needs a model", function()
    local q = assert(pn.infer.arviz(path))
    for _, name in ipairs { "predict", "check", "labels", "label_draws" } do
      refuses(name .. ": these draws were read from a file without their model", q[name], q)
    end
    refuses("save: these draws were read", q.save, q, at "x")
    refuses("kind 'predictive' needs a model", q.plot, q, at "x.svg", { kind = "predictive" })
    refuses("group 'prior' needs a model", q.save_arviz, q, at "x.zarr", { groups = { "prior" } })
    local bare = assert(pn.infer.arviz(p:save_arviz(at "bare.zarr") and at "bare.zarr"))
    refuses("log_likelihood: these draws were read", bare.loo, bare)
  end)

  it("refuses options that do not fit", function()
    refuses("groups must be of", p.save_arviz, p, at "x.zarr", { groups = { "posteriors" } })
    refuses("dims.w must name 2 axes", p.save_arviz, p, at "x.zarr", { dims = { w = { "a" } } })
    refuses("dims must be a table site", p.save_arviz, p, at "x.zarr", { dims = { w = "a" } })
    refuses("dims must be a table site", p.save_arviz, p, at "x.zarr", { dims = { { "a", "b" } } })
    refuses("list of texts of 2", p.save_arviz, p, at "x.zarr", { dims = { w = { "a", "b" } },
      coords = { a = { "z" } } })
    refuses("path must be a string", p.save_arviz, p)
    refuses("draws must be a whole number", p.save_arviz, p, at "x.zarr", { draws = 0 })
  end)
end)

describe("other posteriors", function()
  it("of float32 stay so", function()
    local x = pn.randn({ 2, 5, 3 }, { dtype = "float32" })
    assert(pn.data.save_zarr(at "f.zarr", { posterior = { x = x } }, { dims = { x = { "chain", "draw", "k" } } }))
    same(x, pn.infer.arviz(at "f.zarr").draws.x)
  end)

  it("of a guide are one chain", function()
    pn.seed(2)
    local fit = pn.svi(model, "mean_field", { data = { y }, steps = 5 })
    assert(fit:save_arviz(at "fit.zarr", { draws = 7 }))
    local groups = pn.data.zarr(at "fit.zarr")
    assert.same({ "observed_data", "posterior" }, names(groups))
    assert.same({ 1, 7, 2, 3 }, groups.posterior.w:shape())
    same(groups.posterior.mu * 2, groups.posterior.twice)
    assert(fit:save_arviz(at "many.zarr"))
    local many, about = pn.data.zarr(at "many.zarr")
    assert.same({ 1, 1000 }, many.posterior.mu:shape())
    same(y, many.observed_data.y)
    assert.equal(fit.seconds, about.attributes.posterior.sampling_time)
    local own = pn.svi(model, pn.model(function(g)
      g:sample("mu", dist.normal(g:param("loc", 3), 0.1))
      g:sample("w", dist.normal(pn.zeros { 2, 3 }, 0.1):independent(2))
    end), { data = { y }, steps = 2 })
    assert(own:save_arviz(at "own.zarr", { draws = 7 }))
    groups = pn.data.zarr(at "own.zarr")
    assert.same({ "mu", "w" }, names(groups.posterior))
    assert.same({ 1, 7 }, groups.posterior.mu:shape())
    same(y, groups.observed_data.y)
    refuses("groups is of posteriors", fit.save_arviz, fit, at "x.zarr", { groups = { "prior" } })
  end)

  it("of particles keep their evidence", function()
    pn.seed(3)
    local p = pn.smc.sample(model, { data = { y }, num_particles = 64 })
    assert(p:save_arviz(at "smc.zarr"))
    local q = assert(pn.infer.arviz(at "smc.zarr"))
    assert.is_true(q.particles)
    assert.equal(p.log_evidence.value, q.log_evidence.value)
    same(p.draws.w, q.draws.w)
    assert.matches("64 particles.*log evidence", tostring(q))
  end)

  it("of ArviZ itself: chunks, float32, truth values", function()
    local golden = assert(pn.data.json "spec/golden/files/zarr_store.json").arviz
    local folder = at "golden.zarr"
    for key, hex in pairs(golden.files) do
      os.execute(("mkdir -p '%s/%s'"):format(folder, key:match "^(.*)/" or ""))
      local file = assert(io.open(("%s/%s"):format(folder, key), "wb"))
      file:write((hex:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end)))
      file:close()
    end
    local p = assert(pn.infer.arviz(folder))
    assert.same(golden.expected.posterior.theta, p.draws.theta:totable())
    assert.same({ 2, 4 }, { p.chains, p.length })
    assert.equal(3, p.divergences)
    assert.same(golden.expected.sample_stats.lp, p.statistics.log_density:totable())
    assert.same(golden.expected.log_likelihood.y, p:log_likelihood().y:totable())
  end)
end)

describe("a store that is no posterior", function()
  local function fails(want, groups, dims)
    assert(pn.data.save_zarr(at "bad.zarr", groups, { dims = dims }))
    local p, message, code = pn.infer.arviz(at "bad.zarr")
    assert.is_nil(p)
    assert.equal("format", code)
    assert.matches(want, message)
  end
  local x = pn.zeros { 2, 5 }
  local axes = { x = { "chain", "draw" }, z = { "chain", "draw" } }

  it("is refused", function()
    fails("no group 'posterior'", { prior = { x = x } }, axes)
    fails("must have the axes chain and draw", { posterior = { x = x } })
    fails("others 2 of 5", { posterior = { x = x }, sample_stats = { z = pn.zeros { 2, 4 } } }, axes)
    fails("is empty", { posterior = { x = pn.zeros { 2, 0 } } }, axes)
    local p, _, code = pn.infer.arviz(at "nowhere.zarr")
    assert.is_nil(p)
    assert.equal("io", code)
  end)

  it("or has statistics that mean nothing is read without them, and says so", function()
    assert(pn.data.save_zarr(at "odd.zarr", { posterior = { x = pn.randn { 2, 5 } }, sample_stats = {
      energy = pn.full({ 2, 5 }, 0 / 0), diverging = pn.full({ 2, 5 }, 3) } },
      { dims = { ["posterior/x"] = { "chain", "draw" }, energy = { "chain", "draw" },
        diverging = { "chain", "draw" } } }))
    local p = assert(pn.infer.arviz(at "odd.zarr"))
    assert.is_nil(p.statistics.energy)
    assert.is_nil(p.divergences)
    assert.matches("'energy' is not finite everywhere.*'divergent' is not 0 or 1", table.concat(p.warnings, "; "))
  end)

  it("or in parts means nothing is read without them", function()
    local function read(attributes, statistics)
      local dims = { ["posterior/x"] = { "chain", "draw" } }
      for name, t in pairs(statistics or {}) do
        dims["sample_stats/" .. name] = { "chain", "draw", t:ndim() == 3 and "k" or nil }
      end
      assert(pn.data.save_zarr(at "part.zarr", { posterior = { x = pn.randn { 2, 5 } }, sample_stats = statistics },
        { dims = dims, attributes = { posterior = attributes } }))
      return assert(pn.infer.arviz(at "part.zarr"))
    end
    local p = read { tuning_steps = 0, sampling_time = 0.5, max_tree_depth = 3, log_evidence = -7.5,
      log_evidence_error = 0.25 }
    assert.same({ 0, 0.5, 3, -7.5, 0.25 }, { p.warmup, p.seconds, p.max_depth, p.log_evidence.value,
      p.log_evidence.se })
    assert.is_nil(p.particles)
    p = read { tuning_steps = -1, sampling_time = -1, max_tree_depth = 2.5, particles = 1, log_evidence_error = 1 }
    for _, name in ipairs { "warmup", "seconds", "max_depth", "particles", "log_evidence", "log_evidence_error" } do
      assert.is_nil(p[name], name)
    end
    assert.equal(0, read({ sampling_time = 0 }).seconds)
    p = read({ log_evidence = -7.5, log_evidence_error = -1 }, { tree_depth = pn.full({ 2, 5 }, 0 / 0),
      wide = pn.ones { 2, 5, 3 }, own = pn.arange(10):reshape { 2, 5 },
      diverging = pn.arange(10):reshape { 2, 5 } % 2 })
    assert.equal(-7.5, p.log_evidence.value)
    assert.is_nil(p.log_evidence.se)
    assert.is_nil(p.statistics.depth)
    assert.is_nil(p.statistics.wide)
    assert.same({ { 0, 1, 2, 3, 4 }, { 5, 6, 7, 8, 9 } }, p.statistics.own:totable())
    assert.equal("float64", p.statistics.own:dtype())
    assert.equal(5, p.divergences)
    assert.matches("statistic 'depth' is not finite everywhere and left out", table.concat(p.warnings, "; "))
    refuses("path must be a string", pn.infer.arviz, 3)
  end)

  it("turns axes that come in another order", function()
    local t = pn.randn { 3, 5, 2 }
    assert(pn.data.save_zarr(at "turned.zarr", { posterior = { t = t } }, { dims = { t = { "k", "draw", "chain" } } }))
    same(t:permute { 3, 2, 1 }, pn.infer.arviz(at "turned.zarr").draws.t)
  end)
end)
