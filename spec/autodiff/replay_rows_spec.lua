-- Every row of every registry, eager and replayed: values, gradients, draws and training over 5 steps (20 in
-- `make soak`) in both dtypes must be the same bits, and generators must stand at the same place. Rows join by
-- themselves.
local pn = require "penumbra"
local ops = require "spec.autodiff.op_case"
local case_of = require "spec.autodiff.replay_case"

local dist, nn, optim, infer = pn.dist, pn.nn, pn.optim, pn.infer
local rounds, trajectories = case_of.rounds, case_of.trajectories
local STEPS = os.getenv "PN_SOAK" and 20 or 5
local DTYPES = { "float64", "float32" }

local rows = {}
for _, row in ipairs(pn.rows()) do
  rows[row.kind] = rows[row.kind] or {}
  table.insert(rows[row.kind], row)
end

-- A number out of any results, for training: small slopes whatever the size of the values.
local function objective(...)
  local total
  for _, y in ipairs { ... } do
    if y:dtype():find "float" then
      local part = (y * 1e-3):tanh():mean()
      total = total and total + part or part
    end
  end
  return total
end

-- ---- operations ----

describe("training through the operation", function()
  for _, row in ipairs(rows.op) do
    if row.differentiable and not row.hidden then
      it(row.name .. " goes the eager way", function()
        for _, dtype in ipairs(DTYPES) do
          local call, inputs = ops.case(row, dtype, row.square and { 2, 3, 3 } or { 2, 3 })
          local w = ops.params(inputs)
          local opt = optim.adam(w, { lr = 1e-4 })
          trajectories(row.name, opt, function(weight)
            return objective(call(w)) * weight
          end, STEPS, function(k)
            return pn.tensor(1 + 0.1 * k, { dtype = dtype })
          end)
        end
      end)
    end
  end
end)

-- ---- distributions ----

-- Values of a parameter that stay in its set from round to round: moved a little in the coordinates of all numbers.
local function walk(set, value)
  local ok, map = pcall(dist.biject_to, set)
  local u = ok and map:inverse(value)
  if not u or not u:isfinite():all():item() then
    return function()
      return value
    end
  end
  return function(k)
    local moved = map:forward(u * (1 + 1e-3 * (k % 7)))
    return dist.within(set, moved):all():item() and moved or value
  end
end

-- Parameters of a golden case as leaves, and how they move; nil if the dtype is too narrow for the case.
local function leaves_of(row, case, dtype)
  local named, list, move = {}, {}, {}
  for _, p in ipairs(row.parameters) do
    local v = case.params[p.name]
    if v ~= nil then
      local t = pn.tensor(v, { dtype = dtype })
      if not dist.within(p.constraint, t):all():item() then
        return nil
      end
      named[p.name] = t
      if not p.size and not p.discrete then -- which a plan fixes, or has no gradient
        local leaf = pn.param(t)
        named[p.name], list[#list + 1] = leaf, leaf
        move[#move + 1] = walk(p.constraint, t)
      end
    end
  end
  if not pcall(dist[row.name], named) then
    return nil
  end
  return named, list, function(k)
    for i, leaf in ipairs(list) do
      local before = leaf:detach() * 1
      leaf:set(move[i](k))
      if not pcall(dist[row.name], named) then -- parameters that depend on each other
        leaf:set(before)
      end
    end
  end
end

local function has_gradient(t)
  return t:requires_grad()
end

-- Everything that one distribution does, as one function of points and probabilities.
local function everything(row, named, list)
  return function(x, p)
    local d, out = dist[row.name](named), {}
    local function add(t)
      out[#out + 1] = t
      if has_gradient(t) then
        local finite = pn.where(t:isfinite(), t, t:detach() * 0)
        for _, g in ipairs(pn.grad(finite:sum(), list)) do
          out[#out + 1] = g
        end
      end
    end
    for _, name in ipairs { "mean", "variance", "stddev", "mode", "entropy" } do
      if row.functions[name] then
        add(d[name](d))
      end
    end
    add(d:log_prob(x))
    if row.functions.cdf then
      add(d:cdf(x))
    end
    if row.functions.icdf then
      add(d:icdf(p))
    end
    if row.functions.kl then
      add(dist.kl(d, d))
    end
    local s = d:sample { 3 }
    add(s)
    add(d:log_prob(s))
    if row.functions.rsample then
      add(d:rsample { 2 })
    end
    return table.unpack(out)
  end
end

describe("a replayed distribution", function()
  for _, row in ipairs(rows.distribution) do
    it(row.name .. " does all that it does as an eager one, in every case", function()
      local done = 0
      for index, case in ipairs(require("spec.golden.distribution." .. row.name).cases) do
        for _, dtype in ipairs(DTYPES) do
          local named, list, move = leaves_of(row, case, dtype)
          if named then
            local x = pn.tensor(case.x, { dtype = dtype })
            local p = pn.tensor({ 0.1, 0.5, 0.9 }, { dtype = dtype })
            local f, what = everything(row, named, list), ("%s, case %d, %s"):format(row.name, index, dtype)
            rounds(what, f, STEPS, function(k)
              move(k)
              return k % 5 == 0 and x:flip(1) or x, p * (1 - 0.01 * k)
            end)
            done = done + 1
          end
        end
      end
      assert(done > 0)
    end)
  end
end)

describe("a replayed composite", function()
  local B = dist.bijector
  local examples = {
    transformed = function(p)
      return dist.transformed(dist.normal(p[1], p[2]:exp()), B.chain { B.affine(p[1], 2), B.softplus() })
    end,
    mixture = function(p)
      return dist.mixture(dist.categorical { logits = p[1] }, dist.gamma(p[2]:exp(), 2))
    end,
    masked = function(p)
      return dist.masked(dist.laplace(p[1], p[2]:exp()), pn.tensor { true, false, true })
    end,
  }
  for _, row in ipairs(rows.composite) do
    it(row.name .. " gives an eager one's densities, draws and gradients", function()
      local make = assert(examples[row.name], "an example of " .. row.name)
      for _, dtype in ipairs(DTYPES) do
        local p = {}
        for i, v in ipairs { { 0.3, -0.2, 0.5 }, { 0.1, 0.4, -0.3 } } do
          p[i] = pn.param(pn.tensor(v, { dtype = dtype }))
        end
        local function all(x)
          local d, out = make(p), {}
          local function add(t)
            out[#out + 1] = t
            if has_gradient(t) then
              for _, g in ipairs(pn.grad(t:sum(), p)) do
                out[#out + 1] = g
              end
            end
          end
          add(d:log_prob(x))
          for _, name in ipairs { "mean", "variance" } do
            local ok, t = pcall(d[name], d)
            if ok then
              add(t)
            end
          end
          for _, name in ipairs { "cdf", "rsample" } do
            local ok, t = pcall(d[name], d, name == "cdf" and x or { 2 })
            if ok then
              add(t)
            end
          end
          local s = d:sample { 4 }
          add(s)
          add(d:log_prob(s))
          return table.unpack(out)
        end
        rounds(row.name, all, STEPS, function(k)
          for _, leaf in ipairs(p) do
            leaf:set(leaf * (1 + 1e-3 * k))
          end
          return pn.rand({ 2, 3 }, { generator = pn.generator(k), dtype = dtype }) * 3
        end, case_of.near) -- a capture does not know whether all values are inside and takes the longer way
      end
    end)
  end
end)

-- ---- bijectors ----

describe("a replayed bijector", function()
  local by_name, B = {}, dist.bijector
  for _, row in ipairs(rows.bijector) do
    by_name[row.name] = row
  end
  local function whole(kind, name)
    for _, p in ipairs(by_name[kind].parameters) do
      if p.name == name then
        return p.discrete
      end
    end
  end
  local function build(case, dtype, leaves)
    local t = {}
    for i, part in ipairs(case.parts or {}) do
      t[i] = build(part, dtype, leaves)
    end
    for name, v in pairs(case.parts and {} or case.params) do
      if whole(case.kind, name) then
        t[name] = pn.tensor(v, { dtype = "int64" })
      else
        t[name] = pn.param(pn.tensor(v, { dtype = dtype }))
        leaves[#leaves + 1] = t[name]
      end
    end
    return B[case.kind](case.kind == "inverse" and t[1] or t)
  end

  local covered = {}
  for index, case in ipairs(require "spec.golden.distribution.bijector") do
    covered[case.kind] = true
    it(("%s gives an eager one's values, determinants and gradients, case %d"):format(case.kind, index), function()
      for _, dtype in ipairs(DTYPES) do
        local leaves = {}
        local b = build(case, dtype, leaves)
        local x = pn.tensor(case.x, { dtype = dtype })
        local y = b:forward(x):detach() * 1
        local function all(from, to)
          local out = { b:forward(from), b:log_abs_det(from), b:inverse(to) }
          for k = 1, 3 do
            if has_gradient(out[k]) then
              for _, g in ipairs(pn.grad(out[k]:sum(), leaves)) do
                out[#out + 1] = g
              end
            end
          end
          return table.unpack(out)
        end
        rounds(case.kind, all, STEPS, function(k)
          for _, leaf in ipairs(leaves) do
            leaf:set(leaf * (1 - 1e-3 * k))
          end
          return k % 2 == 0 and x:flip(1) or x, k % 3 == 0 and y:flip(1) or y
        end)
      end
    end)
  end

  it("stands for each row", function()
    for name in pairs(by_name) do
      assert(covered[name], name)
    end
  end)
end)

-- ---- layers ----

local layers = require "spec.nn.layer_case"

describe("training the layer", function()
  for _, row in ipairs(rows.layer) do
    it(row.name .. " goes the eager way", function()
      for _, dtype in ipairs(DTYPES) do
        pn.seed(1)
        local layer, scale = layers.make(row, { dtype = dtype }), pn.param(pn.tensor(0.5, { dtype = dtype }))
        local params = layer:parameters()
        params[#params + 1], params.names = scale, nil
        for _, method in ipairs { "sample", "mean" } do
          local data = {}
          for k = 1, STEPS do
            data[k] = layers.inputs(row, dtype)
          end
          trajectories(row.name, optim.adam(params, { lr = 1e-2 }), function(...)
            local loss
            if method == "sample" then
              loss = objective(layer(...)) * scale
            else
              loss = objective(layer:mean(...)) * scale
            end
            return #params > 1 and loss + layer:kl():to(dtype) * 1e-3 or loss
          end, STEPS, function(k)
            return table.unpack(data[k])
          end)
        end
      end
    end)
  end
end)

-- ---- objectives ----

describe("training with the objective", function()
  for _, row in ipairs(rows.estimator) do
    local name, f = row.name, infer[row.name]
    if row.result:find "maximised" or row.result:find "minimised" then
      it(name .. " goes the eager way", function()
        for _, dtype in ipairs(DTYPES) do
          local w = pn.param(pn.tensor({ 0.3, -0.5, 0.2 }, { dtype = dtype }))
          local function terms(x)
            local q = dist.normal(w * x, w:exp())
            local z = q:rsample { 5 }
            return dist.normal(0, pn.tensor(1, { dtype = dtype })):log_prob(z) + dist.normal(z, w:exp()):log_prob(x),
              q:log_prob(z), z
          end
          local ways = {
            function(x)
              local log_p, log_q = terms(x)
              return f(log_p - log_q)
            end,
            function(x)
              local log_p, log_q = terms(x)
              return f(log_p, log_q)
            end,
            function(x)
              return f(terms(x))
            end,
            function(x)
              local log_p, log_q = terms(x)
              return f { log_likelihood = log_p, kl = log_q:mean(), num_data = 30 }
            end,
            function(x)
              local log_p, log_q = terms(x)
              return f { log_likelihood = log_p:mean(1), log_prior = log_q:mean(), num_data = 30 }
            end,
            function(x)
              local log_p, log_q = terms(x)
              return f { log_likelihood = log_p, kl = log_q, beta = x:mean() }
            end,
          }
          local tried = 0
          for _, way in ipairs(ways) do
            local x = pn.tensor({ 0.1, 1, -1 }, { dtype = dtype })
            if pcall(way, x) then
              tried = tried + 1
              trajectories(name, optim.adam({ w }, { lr = 1e-2 }), function(t)
                return -way(t):sum()
              end, STEPS, function(k)
                return x * (1 + 0.1 * k)
              end)
            end
          end
          assert(tried > 0, "no way to call " .. name)
        end
      end)
    end
  end
end)

-- ---- optimisers ----

describe("replayed steps of the optimiser", function()
  for _, row in ipairs(rows.optimiser) do
    -- defaults, then each option by itself at another value
    local settings = { {} }
    for _, option in ipairs(row.options) do
      local v = option.default
      if option.name == "clip_norm" or option.name == "clip_value" then
        v = 0.1
      elseif type(v) == "boolean" then
        v = not v
      elseif type(v) == "string" then
        v = option.choices[1] == v and option.choices[2] or option.choices[1]
      elseif math.type(v) == "integer" then
        v = v - 1
      elseif type(v) == "number" then
        v = v == 0 and 0.1 or v * 0.9
      end
      settings[#settings + 1] = { [option.name] = v }
    end
    it(row.name .. " are the eager ones, with each option", function()
      for _, dtype in ipairs(DTYPES) do
        for _, given in ipairs(settings) do
          pn.seed(3)
          local o = { dtype = dtype }
          local net = nn.sequential { nn.linear(3, 8, o), nn.tanh(), nn.linear(8, 1, o) }
          local resting = pn.param(pn.ones({ 2 }, { dtype = dtype }))
          local params = net:parameters()
          params[#params + 1], params.names = resting, nil
          local options = { lr = 0.05 }
          for key, v in pairs(given) do
            options[key] = v
          end
          if options.nesterov then
            options.momentum = 0.9
          end
          local ok, opt = pcall(optim[row.name], params, options)
          assert(ok, opt)
          local x, y = pn.randn({ 16, 3 }, { dtype = dtype }), pn.randn({ 16, 1 }, { dtype = dtype })
          local rate = optim.cosine(options.lr, options.lr / 10, STEPS)
          local step = trajectories(row.name, opt, function(a, b)
            return (net(a) - b):square():mean()
          end, STEPS, function(k)
            return x * (1 + 0.01 * k), y
          end, function(k)
            opt.lr = rate(k)
          end)
          assert.equal(1, step:captures())
        end
      end
    end)
  end
end)

-- ---- examples ----

-- Runs an example with its fit replaced by eager and by replayed steps of the same loss; then it ends.
local function steps_of(path)
  local train, fits = pn.train, 0
  local done = {}
  local function fit(given)
    local data = given.data
    if require("penumbra.core").is_tensor(data) then
      data = { data }
    end
    local n = data[1]:size(1)
    local size = given.batch_size and given.batch_size > 0 and math.min(given.batch_size, n) or n
    trajectories(path, given.optimiser, given.loss, STEPS, function(k)
      local batch = {}
      for i, t in ipairs(data) do
        local first = 1 + (k - 1) * size % math.max(1, n - size + 1)
        batch[i] = t:slice(1, first, first + size - 1)
      end
      return table.unpack(batch)
    end, function(k)
      if given.schedule then
        given.optimiser.lr = given.schedule(k)
      end
    end)
    fits = fits + 1
    error(done, 0)
  end
  local saved_fit, saved_print, saved_arg = train.fit, print, arg
  train.fit = fit
  _G.print = function() end
  _G.arg = { [0] = path, "--quick" }
  if path:find "uci_regression" then -- in this process, not in children
    _G.arg = { [0] = path, "--quick", "--split", "1.001" }
  end
  local ok, message = pcall(assert(loadfile(path)), table.unpack(_G.arg))
  train.fit, _G.print, _G.arg = saved_fit, saved_print, saved_arg
  assert(ok or message == done, message)
  return fits
end

local function contains(path, text)
  local file = assert(io.open(path))
  local all = file:read "a"
  file:close()
  return all:find(text, 1, true)
end

describe("replayed training steps of", function()
  local pipe = assert(io.popen "find examples -name '*.lua' | LC_ALL=C sort")
  for path in pipe:lines() do
    -- forecasters have a loop of their own (spec/models/forecaster_spec.lua, vssm_use_spec.lua), learners of networks a
    -- generator (spec/vbp, spec/evidential), a file that is read by rows no tensor (spec/mpi)
    local own = path:find "deep_filters" or path:find "conditioning_gap" or path:find "papers/bedl"
      or path:find "papers/vbp" or path:find "17_beyond_memory"
    if (contains(path, "fit {") or contains(path, "fit{")) and not own then
      it(path .. " are the eager ones", function()
        assert.equal(1, steps_of(path))
      end)
    end
  end
  pipe:close()
end)
