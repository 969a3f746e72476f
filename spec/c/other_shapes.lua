--- What other_shapes_test.c captures: every operation, layer, distribution, bijector and estimator by its row, filters
--- and smoothers, with gradients of both orders. `again(name)` does the operations of the capture that goes on again,
--- with inputs of other shapes. Gives how many cases failed by themselves.
local again = ...
local pn = require "penumbra"
local ops = require "spec.autodiff.op_case"
local layers = require "spec.nn.layer_case"

local dist, smc = pn.dist, pn.smc
local rows = {}
for _, row in ipairs(pn.rows()) do
  rows[row.kind] = rows[row.kind] or {}
  table.insert(rows[row.kind], row)
end

local function is_float(t)
  return t:dtype() == "float64" or t:dtype() == "float32"
end

local function total(list)
  local sum
  for _, y in ipairs(list) do
    if y:requires_grad() and is_float(y) then
      local part = (y * y):sum():to "float64"
      sum = sum and sum + part or part
    end
  end
  return sum
end

local failures = 0

--- f and its gradients in w, of both orders, within a capture that is thrown away.
local function case(name, f, w)
  local stop = {}
  local function body()
    local ok, failed = pcall(function()
      local y = total(table.pack(f()))
      if y and #w > 0 then
        pn.grad(y, w)
        local slope = total(pn.grad(y, w, { create_graph = true }))
        if slope then
          pcall(pn.grad, slope, w)
        end
      end
    end)
    again(name)
    if not ok and os.getenv "PN_SHOW" then print(name, failed) end
    if not ok and name:sub(1, 1) ~= "?" then
      error(("%s: %s"):format(name, failed))
    end
    error(stop)
  end
  local ok, message = pcall(pn.compile(body))
  if not ok and message ~= stop and not tostring(message):find("table:", 1, true) then
    print(message)
    failures = failures + 1
  end
end

for _, row in ipairs(rows.op) do
  if not row.hidden and row.name ~= "nonzero" then
    local call, inputs = ops.case(row, "float64", row.square and { 2, 3, 3 } or { 2, 3 })
    local w = ops.params(inputs)
    case(row.name, function() return call(w) end, w)
  end
end

for _, row in ipairs(rows.layer) do
  local layer = layers.make(row, { dtype = "float64" })
  local inputs = layers.inputs(row, "float64")
  local first = is_float(inputs[1]) and pn.param(inputs[1]) or nil
  local w = layer:parameters()
  w.names = nil
  w[#w + 1] = first
  case("?" .. row.name, function()
    return layer(first or inputs[1], table.unpack(inputs, 2))
  end, w)
  case("?" .. row.name, function() return layer:kl() end, w)
end

-- Mean and variance of one shape, which other layers' cases do not give.
local mean, variance = pn.param(pn.tensor { { -1, 0.5, 2 } }), pn.param(pn.tensor { { 0.3, 1, 2 } })
case("relu:moments", function() return pn.nn.relu():moments(mean, variance) end, { mean, variance })

-- Parameters of a golden case, and those of them that gradients may flow to.
local function parameters(row, golden)
  local given, leaves = {}, {}
  for _, p in ipairs(row.parameters) do
    local v = golden.params[p.name]
    if v ~= nil then
      given[p.name] = pn.tensor(v, { dtype = "float64" })
      if not p.size and not p.discrete then
        given[p.name] = pn.param(given[p.name])
        leaves[#leaves + 1] = given[p.name]
      end
    end
  end
  return given, leaves
end

local third, draws = pn.param(pn.full({ 4 }, 0.3)), { sample = 3, rsample = 3 }
for _, row in ipairs(rows.distribution) do
  for index, golden in ipairs(require("spec.golden.distribution." .. row.name).cases) do
    local given, leaves = parameters(row, golden)
    for _, method in ipairs(index < 4 and { "log_prob", "cdf", "icdf", "entropy", "rsample", "sample", "mean",
      "variance", "mode", "kl" } or {}) do
      case("?" .. row.name .. ":" .. method, function()
        local d = dist[row.name](given)
        if method == "log_prob" or method == "cdf" then
          return d[method](d, d:sample { 4 })
        elseif method == "kl" then
          return dist.kl(d, dist[row.name](given))
        end
        return d[method](d, draws[method] and { draws[method] } or method == "icdf" and third or nil)
      end, leaves)
    end
  end
end

for index, golden in ipairs(require "spec.golden.distribution.bijector") do
  if not golden.parts then
    local x = pn.param(pn.tensor(golden.x))
    case(("?%s %d"):format(golden.kind, index), function()
      local b = dist.bijector[golden.kind](golden.params)
      return b:forward(x), b:log_abs_det(x), b:inverse(b:forward(x))
    end, { x })
  end
end

local log_w, log_q = pn.param(pn.randn(8, 3)), pn.param(pn.randn(8, 3))
for _, row in ipairs(rows.estimator) do
  local f = pn.infer[row.name]
  for _, way in ipairs {
    function() return f(log_w) end,
    function() return f(log_w, log_q) end,
    function() return f(log_w, log_q, log_q * 2) end,
    function() return f { log_likelihood = log_w, kl = log_q:mean(), num_data = 30 } end,
    function() return f { log_likelihood = log_w, kl = log_q } end,
    function() return f { log_likelihood = log_w:mean(1), log_prior = log_q:mean(), num_data = 30 } end,
  } do
    case("?" .. row.name, way, { log_w, log_q })
  end
end
local core = require "penumbra.core"
case("transport", function()
  return core.new_transport(log_w:exp():unsqueeze(1), pn.full({ 1, 8 }, 3), pn.full({ 1, 3 }, 8))
end, {})
case("image_transport", function()
  return core.new_image_transport(log_w:exp():reshape(2, 4, 3), log_q:exp():reshape(2, 4, 3))
end, {})
case("sir", function() return core.new_sir(log_w, 3) end, {})

-- ---- filters ----

local n, p, steps = 3, 2, 4
local a, q, b = pn.param(pn.eye(n) * 0.5), pn.param(pn.eye(n)), pn.param(pn.randn(n))
local c, r, d = pn.param(pn.randn(p, n)), pn.param(pn.eye(p)), pn.param(pn.randn(p))
local m, cov = pn.param(pn.randn(5, n)), pn.param(pn.eye(n))
local y, seen = pn.param(pn.randn(steps, 5, p)), pn.rand(steps, 5, p):lt(0.7)
local all = { m, cov, a, b, q, c, d, r }
for _, name in ipairs { "kalman_predict", "kalman_root_predict" } do
  case(name, function() return core[name](m, cov, a, b, q) end, all)
end
-- whose gradients are composed of rows: one kernel without
local function cut(t) return t:detach() end
case("kalman_root_predict", function()
  return core.kalman_root_predict(cut(m), cut(cov):broadcast_to { 5, n, n }, cut(a), cut(b), cut(q))
end, {})
case("kalman_root_update", function()
  return core.kalman_root_update(cut(m), cut(cov):broadcast_to { 5, n, n }, cut(y)[1], cut(c), cut(d), cut(r))
end, {})
for _, name in ipairs { "kalman_update", "kalman_root_update" } do
  case(name, function() return core[name](m, cov, y[1], c, d, r) end, all)
  case(name, function() return core[name](m, cov, y[1], c, d, r, { observed = seen[1] }) end, all)
end
case("kalman_step", function() return core.kalman_step(m, cov, a, b, q, y[1], c, d, r) end, all)
for _, name in ipairs { "filter", "root_filter", "log_prob" } do
  case("?" .. name, function() return core.gaussian[name](m, cov, a, b, q, y, c, d, r) end, all)
  case("?" .. name, function() return core.gaussian[name](m, cov, a, b, q, y, c, d, r, seen) end, all)
end
for _, reverse in ipairs { false, true } do
  case("propagate", function() return core.gaussian.propagate(m, cov, a, b, q, steps, reverse) end, all)
  case("path", function()
    return core.gaussian.path(m, a:reshape(1, 1, n, n), y[{ {}, {}, { 1, 1 } }] + b, reverse)
  end, all)
end

local initial, transition = pn.param(pn.randn(1, 3)), pn.param(pn.randn(1, 1, 3, 3))
local emission = pn.param(pn.randn(4, 2, 3))
for _, backward in ipairs { false, true } do
  local hidden = { initial, transition, emission }
  case("hmm_filter", function() return core.new_hmm_filter(initial, transition, emission, backward) end, hidden)
end
case("hmm_viterbi", function()
  return core.new_hmm_viterbi(initial:detach(), transition:detach(), emission:detach(), pn.tensor({ 4, 3 },
    { dtype = "int64" }) * initial:shape()[1])
end, {})
case("hmm_sample", function()
  local _, filtered = core.new_hmm_filter(initial, transition, emission, false)
  return core.new_hmm_sample(filtered:detach(), transition:detach(), 3)
end, {})

local w = pn.param(pn.randn(3))
for _, batch in ipairs { {}, { 2 } } do
  for _, o in ipairs { { threshold = 0.5 }, { threshold = 1 }, { threshold = 0.5, resampling = "multinomial" } } do
    case("particles", function()
      local s = smc { num_particles = 6, batch_shape = batch, trace = false, threshold = o.threshold,
        resampling = o.resampling }
      local x = w[1] + pn.randn { 6, table.unpack(batch) }
      for _ = 1, 3 do
        local from = s:resample()
        x = from and s:select(x, from) or x
        s:weigh(-(x * x))
      end
      return s:weights(), x
    end, { w })
  end
end
case("ancestors", function() return core.new_ancestors("systematic", log_w) end, {})

-- ---- others ----

local halve = pn.op { forward = function(x) return x / 2 end, vjp = function(g) return g / 2 end }
case("own_gradient", function() return halve(w) end, { w })
case("?odeint", function()
  return (pn.odeint(function(_, z, v) return -(z * v) end, pn.ones(3), pn.linspace(0, 1, 3), { parameters = { w } }))
end, { w })
case("?sde", function()
  local function f(_, z, v) return -(z * v) end
  return (pn.sde(f, f, pn.ones(2, 3), pn.linspace(0, 1, 3), { parameters = { w } }))
end, { w })

return failures
