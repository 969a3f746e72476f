--- One good file of each kind that can be saved, for the fuzzer of files (file.lua) and
--- spec/train/saved_kinds_spec.lua. A chunk (write_all, again), the path `again` for what loaded objects save, that
--- gives the kinds by name:
---     make(path)   writes a good file
---     load(path)   what was loaded, or nil, message, code
---     use(loaded)  works with it;    alive()  a text of what must not have changed when a load fails
---     raw          a file that is no safetensors file
--- Guides, optimisers and forecasters are those of the library's own lists: what is new there is taken up, or asked for
--- by an error here.
local write_all, again = ...
local core = require "penumbra.core"
local pn = require "penumbra"
local nn, optim, dist, infer = pn.nn, pn.optim, pn.dist, pn.infer
local random = math.random

local function one(list) return list[random(#list)] end
local function chance(p) return random() < p end

local kinds = {}

-- The numbers of tensors and tables as one text, to the bit.
local function text_of(v)
  if core.is_tensor(v) then
    return v:dtype() .. text_of(v:numel() == 0 and {} or v:detach():reshape { -1 }:totable())
  elseif type(v) == "table" then
    local list = {}
    for key, value in pairs(v) do list[#list + 1] = tostring(key) .. "=" .. text_of(value) end
    table.sort(list)
    return "{" .. table.concat(list, ",") .. "}"
  end
  return math.type(v) == "float" and ("%a"):format(v) or tostring(v)
end

local x = pn.tensor { { 0.1, 0.2 }, { -0.5, 0.3 }, { 0.7, -0.4 }, { 0.2, 0.9 } }
local y = pn.tensor { 0.3, -0.2, 0.5, 0.4 }

kinds.tree = {
  make = function(path)
    local flow = dist.transformed(dist.normal(pn.zeros { 2 }, 1), dist.bijector.affine(1, 2))
    assert(pn.save(path, { a = pn.randn { 2, 3 }, i = pn.arange(4), flag = true, n = 3, r = 0.5, s = "text\0more",
      list = { 1, 2, { deep = { deeper = pn.ones { 1 } } } }, normal = dist.normal(pn.zeros { 3 }, pn.ones { 3 }),
      gamma = dist.gamma(2, pn.tensor { 1, 2 }):expand { 3, 2 }:independent(1), flow = flow,
      categorical = dist.categorical { probs = pn.tensor { 0.2, 0.8 } },
      mixture = dist.mixture(dist.categorical { probs = pn.tensor { 0.2, 0.8 } },
        { dist.normal(0, 1), dist.normal(1, 1) }),
      chain = dist.bijector.chain { dist.bijector.exp(), dist.bijector.affine(0, 2) } }, { note = "text" }))
  end,
  load = function(path) return pn.load(path, chance(0.2) and { nested = chance(0.5) } or nil) end,
  use = function(t)
    for _, v in pairs(t) do
      if core.is_tensor(v) then
        tostring(v * 1)
      elseif type(v) == "userdata" then
        pcall(function()
          tostring(v)
          if v.sample then v:log_prob(v:sample { 2 }) else v:inverse(v:forward(pn.tensor { 0.5, 0.2 })) end
        end)
      end
    end
  end,
}

local function bytes(hex)
  return (hex:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

-- palette2.png of spec/golden/files, and a PGM file.
local pictures = { bytes(
  "89504e470d0a1a0a0000000d494844520000000700000003020300000022adfd5600000009504c54455927f8186da27f" ..
  "18f4f79362a90000001149444154789c63e0c86058b08041a9050009890257c471a02e0000000c74455874436f6d6d65" ..
  "6e74006e6f6e65f08e552a0000000049454e44ae426082"
), "P5 4 3 200\nABCDEFGHIJKL" }

for format, make in pairs {
  npz = function(path) assert(pn.data.save_npz(path, { a = pn.randn { 3, 2 }, b = { c = pn.arange(3) } })) end,
  npy = function(path) assert(pn.data.save_npy(path, pn.randn { 3, 2 })) end,
  idx = function(path) assert(pn.data.save_idx(path, pn.arange(6):reshape { 2, 3 })) end,
  raw = function(path) write_all(path, ("abcdefgh"):rep(6)) end,
  image = function(path) write_all(path, one(pictures)) end,
  csv = function(path) assert(pn.data.save_csv(path, pn.randn { 3, 2 }, { names = { "a", "b" } })) end,
  gluonts = function(path)
    write_all(path, '{"start": "2024-01-01", "target": [1, 2.5, NaN, 4], "item_id": "a", "feat_static_cat": [0], '
      .. '"feat_dynamic_real": [[1, 2, 3, 4.5]]}\n{"start": "2024-01-02 10:00", "target": [1, 2, 3], '
      .. '"feat_dynamic_real": [[1, 2, 3]]}\n')
  end,
  json = function(path) write_all(path, '{"a": [1, -2.5e3, "\\u00e9"], "b": {"c": null, "d": true}}') end,
  series_csv = function(path) write_all(path, "date,a,b\n2024-01-01,1,2\n2024-01-02,,3.5\n2024-01-03,2,NaN\n") end,
} do
  local given = ({ gluonts = { freq = "D" }, series_csv = { freq = "D", date = "date" },
    raw = { shape = { 6, 4 }, element = "int16" } })[format]
  kinds[format] = { raw = true, make = make, load = function(path) return pn.data[format](path, given) end,
    use = function(t) tostring(core.is_tensor(t) and t * 2 or t) end }
end

-- A store is a folder: the file that is damaged is its metadata, or the chunk of one array, by turns.
local store_files = { ".zmetadata", "posterior/mu/0.0", "posterior/school/0" }
local good_store

local function read_all(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

kinds.store = {
  raw = true,
  make = function(path)
    good_store = path .. ".zarr"
    assert(pn.data.save_zarr(good_store, { posterior = { mu = pn.randn { 2, 4 }, k = pn.randn { 2, 4, 2 } },
      sample_stats = { diverging = pn.randn({ 2, 4 }):gt(0), energy = pn.randn { 2, 4 } },
      log_likelihood = { y = pn.randn { 2, 4, 3 } } }, { dims = { mu = { "chain", "draw" },
      k = { "chain", "draw", "school" }, y = { "chain", "draw", "y_dim_0" }, diverging = { "chain", "draw" },
      energy = { "chain", "draw" } }, coords = { school = { "one", "two" } } }))
    write_all(path, read_all(good_store .. "/.zmetadata"))
  end,
  load = function(path)
    local at = chance(0.8) and 1 or random(#store_files)
    if path ~= "bad" then return infer.arviz(good_store) end
    local place = ("%s/%s"):format(good_store, store_files[at])
    local kept = read_all(place)
    write_all(place, read_all(path))
    local read = chance(0.3) and pn.data.zarr or infer.arviz
    local results = table.pack(pcall(read, good_store))
    write_all(place, kept)
    if not results[1] then error(results[2], 0) end
    return table.unpack(results, 2, results.n)
  end,
  use = function(p)
    if p.summary then
      tostring(p)
      if p.log_densities then p:loo() end
    end
  end,
}

kinds.cmdstan = {
  raw = true,
  make = function(path)
    local rows = {}
    for k = 1, 5 do rows[k] = ("%d,0.9,0.5,2,3,%d,8.5,0.25,1,2,3,4,-1.5\n"):format(-k, k % 2) end
    write_all(path, "# method = sample (Default)\n# num_samples = 4\n# num_warmup = 1\n# save_warmup = 1\n# thin = 1\n"
      .. "lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__,mu,a.1.1,a.2.1,a.1.2,a.2.2,"
      .. "log_lik.1\n" .. rows[1] .. "# Step size = 0.5\n# Elements of inverse mass matrix:\n# 1, 0.5\n# 0.5, 2\n"
      .. table.concat(rows, "", 2) .. "#  Elapsed Time: 0.1 seconds (Warm-up)\n#     0.2 seconds (Total)\n")
  end,
  load = function(path) return infer.cmdstan(path, { partial = chance(0.5) }) end,
  use = kinds.store.use,
}

-- (It goes on with the file: jobs that it does not know are added.)
kinds.job_results = { raw = true,
  make = function(path)
    os.remove(path)
    pn.jobs { jobs = { 1, { a = 2 } }, results = path,
      run = function(_, k) return { k, { x = k / 3, name = "n" } } end }
  end,
  load = function(path)
    local ok, list = pcall(pn.jobs, { jobs = { 1, { a = 2 }, "b" }, results = path, run = function() return 1 end })
    if ok then return list end
    return nil, list, "format"
  end,
  use = function(list) assert(#list == 3) end }

kinds.rows = {
  make = function(path) assert(pn.save(path, { a = pn.randn { 5, 2 } })) end,
  load = function(path) return pn.data.open(path, { name = chance(0.5) and "a" or nil }) end,
  use = function(a)
    tostring(a)
    a:slice(1, 1, a:size(1))
    a:take(1, pn.tensor({ 0, 2, 4 }, { dtype = "int64" }))
    a:close()
  end,
}

-- A fresh run of all that a checkpoint can keep.
local function run_of_all()
  local r = { net = nn.sequential { nn.linear(2, 3), nn.batch_norm(3), nn.tanh(), nn.linear(3, 1) },
    generator = pn.generator(3), w = pn.param(pn.zeros { 2 }), guide = dist.normal(pn.param(pn.ones { 2 }),
      pn.param(pn.ones { 2 })), plateau = optim.plateau(0.01, { patience = 0 }) }
  for _, row in ipairs(pn.rows()) do
    if row.kind == "optimiser" then r[row.name] = optim[row.name](r.net, { lr = 1e-3 }) end
  end
  r.quasi = optim.lbfgs({ r.w }, { max_steps = 2 })
  r.mean = optim.average(r.net)
  return r
end

local function step_all(r)
  local function loss()
    return (r.net(pn.randn({ 4, 2 }, { generator = r.generator })):squeeze(2) - y):square():mean()
  end
  for _, row in ipairs(pn.rows()) do
    if row.kind == "optimiser" then r[row.name]:step(loss()) end
  end
  r.quasi:step(function() return (r.w - pn.tensor { 1, 2 }):square():square():sum() end)
  r.mean:update()
  r.plateau:step(1)
  r.guide:sample()
end

local function states(r)
  local out = { pn.rng_state(), r.generator:state(), r.w }
  for name, part in pairs(r) do
    if name ~= "generator" and name ~= "w" then
      out[name] = part:state()
    end
    if name == "adam" then out.lr = part.lr end
  end
  return text_of(out)
end

local run = run_of_all()
kinds.checkpoint = {
  make = function(path)
    step_all(run)
    assert(pn.checkpoint.save(path, run))
  end,
  load = function(path) return pn.checkpoint.load(path, run) end,
  use = step_all,
  alive = function() return states(run) end,
}

local function training(path, net, resume)
  return pn.train.fit { data = { x, y }, optimiser = optim.adam(net, { lr = 0.01 }), epochs = resume and 4 or 2,
    batch_size = 2, seed = 1, patience = 3, validate = function() return random() end, model = net, checkpoint = path,
    resume = resume, loss = function(a, b) return (net(a):squeeze(2) - b):square():mean() end }
end

local trained = nn.linear(2, 1)
kinds.training = {
  make = function(path) training(path, nn.linear(2, 1)) end,
  load = function(path) return training(path, trained, true) end,
}

-- What is saved must be asked for by name as well: a likelihood of the rows, one made of them, a function.
local function log_likelihood(f, v) return dist.normal(f:squeeze(-1), 0.3):log_prob(v) end

local learners = {
  normal = { noise = { learn = true, initial = 0.1 } }, bernoulli = { y = y:gt(0):to "float64" },
  categorical = { y = y:gt(0):to "int64", outputs = 2 },
  poisson = { y = y:gt(0):to "float64", update = "refit", forget = false,
    memory = { size = 3, select = "random" } },
  diffusion = { likelihood = "bernoulli", y = y:gt(0):to "float64", memory = false,
    forget = pn.continual.ornstein_uhlenbeck { stiffness = 0.1, lag = 2 } },
  ["function"] = { likelihood = log_likelihood, given = log_likelihood, estimator = "reparametrised" },
}
for name, more in pairs(learners) do
  local targets, outputs, given = more.y or y, more.outputs or 1, more.given
  more.y, more.outputs, more.given = nil, nil, nil
  local function network() return nn.sequential { nn.linear(2, 3), nn.tanh(), nn.linear(3, outputs) } end
  kinds["learner_" .. name] = {
    make = function(path)
      local o = { network = network(), likelihood = name, memory = { size = 3 }, seed = 1,
        forget = pn.continual.bayesian_forgetting { rate = 0.05 }, draws = { train = 2, sites = 20, predict = 5 },
        steps = { first = 3, later = 2 } }
      for key, value in pairs(more) do o[key] = value or nil end
      local learner = pn.continual.learner(o)
      learner:observe(x, targets)
      assert(learner:save(path))
    end,
    load = function(path) return pn.restore(path, { network = network(), likelihood = given }) end,
    use = function(learner)
      tostring(learner)
      learner:predict(x)
      learner:log_predictive(x, targets)
      learner:observe(x, targets)
      learner:observe(x, targets, 7)
      learner:save(again)
    end,
  }
end

local model = pn.model(function(m, a, b)
  local w = m:sample("w", dist.normal(pn.zeros { 2 }, 1):independent(1))
  local s = m:sample("s", dist.gamma(2, 2))
  m:deterministic("double", w * 2)
  m:observe("y", dist.normal(a:matmul(w), s), b)
end)

kinds.posterior = {
  make = function(path) assert(pn.nuts(model, { data = { x, y }, chains = 2, warmup = 20, draws = 8 }):save(path)) end,
  load = function(path) return pn.restore(path, { model = model, data = { x, y } }) end,
  use = function(p)
    tostring(p)
    p:summary()
    p:predict { draws = 3 }
    p:log_likelihood()
    p:loo()
    p:save(again)
  end,
}

local labelled = pn.model(function(m, b) -- with labels that are summed out
  local loc = m:sample("loc", dist.normal(pn.zeros { 2 }, 1):independent(1))
  m:plate("rows", 4, function()
    local k = m:sample("k", dist.categorical { probs = pn.tensor { 0.3, 0.7 } }, { enumerate = true })
    m:observe("y", dist.normal(loc:take(1, k), 0.5), b)
  end)
end)

kinds.labels = {
  make = function(path) assert(pn.nuts(labelled, { data = { y }, chains = 2, warmup = 20, draws = 8 }):save(path)) end,
  load = function(path) return pn.restore(path, { model = labelled, data = { y } }) end,
  use = function(p)
    tostring(p)
    p:summary()
    p:save(again)
  end,
}

kinds.particles = {
  make = function(path)
    local p = pn.smc.sample(model, { data = { x, y }, num_particles = 32 })
    assert(p:save(path))
  end,
  load = kinds.posterior.load,
  use = function(p)
    tostring(p)
    p:predict { draws = 3 }
  end,
}

local plain_model = pn.model(function(m, a, b) -- whose posterior is normal
  m:observe("y", dist.normal(a:matmul(m:sample("w", dist.normal(pn.zeros { 2 }, 1):independent(1))), 0.5), b)
end)

local function own_guide(m) m:sample("w", dist.normal(m:param("loc", pn.zeros { 2 }), 1):independent(1)) end

local function add_fit(name, of, guide)
  local fit
  local function new(steps) return pn.svi(of, guide, { data = { x, y }, steps = steps }) end
  kinds["fit_" .. name] = {
    make = function(path)
      assert(new(20):save(path))
      fit = new(0)
    end,
    load = function(path) return pn.restore(path, { model = of, guide = guide, data = { x, y } }) end,
    use = function(f)
      tostring(f)
      f:sample(3)
      f:continue(2)
      if name ~= "delta" then f:bound { draws = 5 } end
    end,
    alive = function() return text_of { fit:state(), fit.optimiser:state(), fit.losses, fit.seconds } end,
  }
end

local _, known = pcall(infer.guide, "?")
for name in known:match("there are ([%w_, ]+)"):gmatch "[%w_]+" do
  add_fit(name, name == "laplace" and plain_model or model, name)
end
add_fit("own", plain_model, pn.model(own_guide))

local function particle_filter()
  return pn.smc.filter { num_particles = 16, threshold = 1,
    resampling = one { "systematic", "stratified", "multinomial", "residual", "ssp", "killing" },
    init = function(n) return pn.randn { n } end,
    step = function(before) return before * 0.9 + pn.randn { 16 } end,
    log_weight = function(state, seen) return dist.normal(state, 0.5):log_prob(seen:broadcast_to { 16 }) end }:online()
end

local function exact_filter()
  return pn.smc.exact_filter { initial_mean = pn.zeros { 1 }, initial_cov = pn.eye(1), transition = pn.eye(1),
    transition_cov = pn.eye(1),
    emission = pn.ones { 1, 1 }, emission_cov = pn.eye(1) }
end

for name, new in pairs { particle_filter = particle_filter, exact_filter = exact_filter } do
  local live
  kinds[name] = {
    make = function(path)
      live = new()
      live:observe(0.3)
      live:observe(nil)
      assert(live:save(path))
    end,
    load = function(path)
      local ok, message, code = live:load(path)
      return ok and live or nil, message, code
    end,
    use = function(f)
      for _ = 1, 3 do
        f:observe(0.1)
        f:observe(nil)
      end
      f:run(pn.tensor { 0.1, 0 / 0, 0.3 })
      return f:mean(), f:variance(), f:log_evidence(), f:effective_sample_size()
    end,
    alive = function()
      return text_of { live:steps(), live:log_evidence(), live:mean(), live:variance(), live:effective_sample_size() }
    end,
  }
end

local batch = { y = pn.randn { 6, 2, 1 } }
local small = { encoder = { 4 }, num_particles = 3, base = 2, states = 2, switches = 2, transition_hidden = 3,
  hidden = { 4 } }
local function with(more)
  local o = { size = 1 }
  for _, list in ipairs { small, more } do
    for key, value in pairs(list) do o[key] = value or nil end
  end
  return o
end
local forecasters = {
  deepar = { hidden = 3 }, deep_state = { hidden = 3 }, sgls = with {}, rsgls = with {},
  arsgls = with { auxiliary = 1, emission_hidden = { 3 }, encoder = { 4, 4, 4 } },
  rsgls_issm = with { states = false, seasonal = { 2 } },
  kvae = { latent = 1, state = 2, base = 2, units = 3, hidden = { 4 }, belief_draws = 2 },
}
local function own_networks() return { encoder = nn.linear(1, 4), decoder = nn.linear(2, 2) } end

kinds.kvae_own = {
  make = function(path)
    local o = own_networks()
    o.size, o.latent, o.state, o.base, o.units, o.scaling = 1, 2, 2, 2, 3, "none"
    assert(pn.models.kvae(o):save(path))
  end,
  load = function(path) return pn.restore(path, own_networks()) end,
  use = function(m)
    tostring(m)
    m:log_evidence(batch)
  end,
}

for name, decoder in pairs { vae = "bernoulli", vae_own = nn.likelihood.poisson {} } do
  local ones = x:gt(0):to "float64"
  kinds[name] = {
    make = function(path)
      assert(pn.models.vae { data = 2, latent = { 2, 1 }, hidden = { 3 }, decoder = decoder }:save(path))
    end,
    load = function(path) return pn.restore(path, name == "vae_own" and { decoder = decoder } or nil) end,
    use = function(m)
      tostring(m)
      m:loss(ones:slice(2, 1, 1):broadcast_to { 4, m.data }:contiguous())
      m:generate(2)
      m:save(again)
    end,
  }
end

for name, o in pairs { factor_analysis = { latent = 1 }, gaussian_mixture = { components = 2, floor = 0.1 } } do
  o.data = 2
  kinds[name] = {
    make = function(path)
      local m = pn.models[name](o)
      m:fit { data = pn.randn { 6, 2 }, max_steps = 2 }
      assert(m:save(path))
    end,
    load = function(path) return pn.restore(path) end,
    use = function(m)
      m:log_likelihood(pn.zeros { 1, m.data })
      m:generate(2)
      m:fit { data = pn.randn { 5, m.data }, max_steps = 2 }
      m:save(again)
    end,
  }
end

kinds.variational_em = {
  make = function(path)
    local m = pn.models.variational_em { data = 2, latent = 2, hidden = { 3 }, decoder = "normal" }
    m:fit { data = x, epochs = 1, batch_size = 3 }
    assert(m:save(path))
  end,
  load = function(path) return pn.restore(path) end,
  use = function(m)
    m:posteriors():sample()
    m:decode(pn.zeros { 1, m.latent }):sample()
    m:save(again)
  end,
}

local function sources_with(net)
  return { a = { size = 2, encoder = net }, label = { categories = 3, hidden = { 2 } } }
end
local seen = { a = pn.randn { 4, 2 }, label = pn.tensor({ { 0 }, { 2 }, { 1 }, { 1 } }, { dtype = "int64" }) }
for _, own in ipairs { false, true } do -- a model of several sources, also with a network that the script gives
  local net = own and nn.linear(2, 4) or nil
  kinds["multisource" .. (own and "_own" or "")] = {
    make = function(path)
      assert(pn.models.multisource({ latent = 2, hidden = { 3 }, likelihood = "normal", sources = sources_with(net),
        targets = { a = { size = 2 } } }):save(path))
    end,
    load = function(path) return pn.restore(path, own and { sources = sources_with(net) } or nil) end,
    use = function(m)
      tostring(m)
      pcall(m.bound, m, seen, { draws = 3 }) -- sizes out of the file may be others
      pcall(m.impute, m, { label = seen.label })
      m:generate(2)
    end,
  }
end

local paths = { y = pn.randn { 4, 8, 2 }, times = pn.tensor { 0, 0.2, 0.3, 0.6 } }
for own in pairs { [false] = 1, [true] = 1 } do
  local function drift(_, h) return h:sin() end
  kinds["bnsde" .. (own and "_own" or "")] = {
    make = function(path)
      local m = pn.models.bnsde { size = 2, latent = own and 2 or 3, hidden = { 3 }, noise = { 0.5, 1 },
        diffusion = 0.3, prior_drift = own and drift or nil, gamma = own and { 1, 0.5 } or nil, step = 0.1,
        initial = not own and { mean = 0, scale = { 1, 1, 2 } } or nil, weights = one { "trajectory", "draw", "step" } }
      if own then m:fit { data = paths, objective = "sgld", epochs = 3, warmup = 1, count = 2, seed = 1 } end
      assert(m:save(path))
    end,
    load = function(path) return pn.restore(path, own and { prior_drift = drift } or nil) end,
    use = function(m)
      tostring(m)
      pcall(m.bound, m, paths, { draws = 2 }) -- sizes out of the file may be others
      pcall(m.forecast, m, paths, 2, { draws = 3 })
      pcall(m.filter, m, paths, { num_particles = 3 })
      m:sample_weights()
      m:save(again)
    end,
  }
end

for name, o in pairs { hard = {}, soft = { sharpness = 5, gate_kl = "exact", method = "vbp" },
  drawn = { method = "local", prior = "horseshoe" }, one_pass = { method = "clt" } } do
  local function relu() return nn.mlp({ 2, 3, 1 }, { activation = "relu" }) end
  kinds["vbp_" .. name] = {
    make = function(path)
      local given = { network = relu(), seed = 1 }
      for key, value in pairs(o) do given[key] = value end
      local m = pn.vbp.learner(given)
      m:fit { data = { x, y }, epochs = 1 }
      if name == "one_pass" then m:become_prior() end
      assert(m:save(path))
    end,
    load = function(path) return pn.restore(path, { network = relu }) end,
    use = function(m)
      m:predict(x, { draws = 3 })
      m:log_predictive(x, y, { draws = 3 })
      m:bound(x, y)
      m:fit { data = { x, y }, epochs = 1 }
      m:save(again)
    end,
  }
end

for name, o in pairs { edl = { method = "edl" }, pac = { method = "bedl_pac", likelihood = "normal" } } do
  local function two() return nn.mlp({ 2, 3, 2 }, { activation = "relu" }) end
  local targets = name == "edl" and y:gt(0):to "int64" or y
  kinds["evidential_" .. name] = {
    make = function(path)
      local m = pn.evidential.learner { network = two, method = o.method, likelihood = o.likelihood, seed = 1 }
      m:fit { data = { x, targets }, epochs = 1 }
      assert(m:save(path))
    end,
    load = function(path)
      local row = pn.evidential.row(o.method, { likelihood = o.likelihood })
      return pn.restore(path, { network = two, method = row, likelihood = row.likelihood })
    end,
    use = function(m)
      m:predict(x)
      m:log_predictive(x, targets)
      m:fit { data = { x, targets }, epochs = 1 }
      m:save(again)
    end,
  }
end

-- A model of pools that changes while it learns, and a pool that has been asked and told a part.
local function pool_model()
  local net = nn.bayesian(nn.sequential { nn.linear(2, 3), nn.relu { rule = "clt" }, nn.linear(3, 2) })
  local opt = optim.adam(net, { lr = 0.01 })
  return pn.active.network(net, { classes = 2, link = "probit", keep = { net = net, optimiser = opt },
    fit = function(a) opt:step(net:moments(a):square():mean() + net:kl()) end }), net, opt
end

local pool_x = pn.randn { 12, 2 }
for name, acquisition in pairs { bald = "bald", reinforced = { "reinforced", ranked = 9, every = 2, points = 3,
    hidden = 4 } } do
  local live, net, opt = pool_model()
  kinds["pool_" .. name] = {
    make = function(path)
      local p = pn.active.pool { x = pool_x, model = (pool_model()), acquisition = acquisition, first = 3, count = 2,
        max_labels = 9, seed = 1 }
      p:ask()
      p:tell { 0, -1, 1 }
      p:tell({ 1 }, p:ask():slice(1, 2, 2))
      assert(p:save(path))
    end,
    load = function(path) return pn.restore(path, { x = pool_x, model = live }) end,
    use = function(p)
      tostring(p)
      p:labelled()
      p:run(function(at) return at:remainder(2) end)
      p:predict(pool_x)
      p:save(again)
    end,
    alive = function() return text_of { net:state(), opt:state() } end,
  }
end

kinds.relu_net = {
  make = function(path)
    local m = pn.vbp.relu_net { sizes = { 2, 3, 1 }, seed = 1 }
    m:observe(x, y)
    assert(m:save(path))
  end,
  load = function(path) return pn.restore(path) end,
  use = function(m)
    m:predict(x)
    m:observe(x, y)
    m:fit { data = { x, y }, max_sweeps = 2 }
    m:save(again)
  end,
}

function forecasters.vssm()
  local conditioning = one { "partial", "semi", "full", pn.ones({ 6, 6 }):gt(0) }
  return { size = 1, latent = 2, units = 3, flows = 2, num_particles = 8, layers = random(2),
    conditioning = conditioning, prefix = conditioning == "semi" and 3 or nil, posterior = one { "noise", "state" },
    noise = one { "shared", "network", 0.3 }, gain = one { "shared", "network", { 0.5, 2 } } }
end

for _, entry in ipairs(require "penumbra.shell.help".entries()) do
  local name = entry.qualified and entry.qualified:match "^pn%.models%.([%w_]+)$"
  if name and not kinds[name] then
    local make, o = pn.models[name], assert(forecasters[name], "file_kinds.lua needs options of a small " .. name)
    if type(o) == "function" then o = o() end
    kinds[name] = {
      make = function(path) assert(make(o):save(path)) end,
      load = function(path) return pn.restore(path) end,
      use = function(m)
        tostring(m)
        m:log_evidence(batch)
        m:forecast(batch, 2, { draws = 3 })
        m:save(again)
      end,
    }
  end
end

local function windows(path, m, resume)
  m:fit { series = pn.data.series({ { target = pn.randn { 20 } }, { target = pn.randn { 25 } } }, { freq = "D" }),
    steps = 3, batch_size = 2, window = 8, checkpoint = path, resume = resume, progress = false, seed = 1,
    validate_every = 1, patience = 5, validate = function(s) return s.loss end,
    compile = false, on_step = function(s) return resume or s.iteration < 2 end }
  return m
end

local forecaster = pn.models.deepar { size = 1, hidden = 3 }
kinds.window_training = {
  make = function(path) windows(path, pn.models.deepar { size = 1, hidden = 3 }) end,
  load = function(path) return windows(path, forecaster, true) end,
}

local target = nn.sequential { nn.linear(2, 3), nn.batch_norm(3) }
for layout in pairs { penumbra = 1, torch = 1 } do
  kinds["state_" .. layout] = {
    make = function(path) assert(pn.save(path, target:state { layout = layout })) end,
    load = function(path)
      local state, message, code = pn.load(path)
      if not state then return nil, message, code end
      return target:load_state(state, { layout = layout })
    end,
    use = function(net) net(x) end,
    alive = function() return text_of(target:state()) end,
  }
end

-- Models that keep their state by pn.save, which load_state takes.
local function add_state(name, m, use)
  kinds["state_of_" .. name] = {
    make = function(path) assert(pn.save(path, m:state())) end,
    load = function(path)
      local state, message, code = pn.load(path)
      if not state then return nil, message, code end
      return m:load_state(state)
    end,
    use = use,
    alive = function() return text_of(m:state()) end,
  }
end

local pixels = pn.rand { 4, 3 }:gt(0.5):to "float64"
local autoencoder = pn.models.vae { data = 3, latent = { 2, 1 }, hidden = { 4 } }
local fitted = pn.models.variational_em { data = 3, latent = 2, hidden = { 4 } }
local weights = pn.model(function(m) m:observe("y", dist.normal(m:param("loc", pn.zeros { 4 }), 1), y) end)
autoencoder:fit { data = pixels, epochs = 1 }
fitted:fit { data = pixels, epochs = 1 }
weights:trace()
add_state("vae", autoencoder, function(m)
  m:bound(pixels, { draws = 3 })
  m:reconstruct(pixels)
end)
add_state("variational_em", fitted, function(m)
  m:posteriors():mean()
  m:bound(pixels, { draws = 3, steps = 2 })
end)
add_state("model", weights, function(m) m:trace() end)

return kinds
