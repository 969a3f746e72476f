-- Layers, loops over the rows: gradients, purity, state, dtype, refusals; then what single layers promise.
local pn = require "penumbra"
local layers = require "spec.nn.layer_case"
local nn, infer = pn.nn, pn.infer

local make, inputs, case = layers.make, layers.inputs, layers.case

local function max_difference(a, b)
  return (a - b):abs():max():item()
end

local golden, by_torch = dofile "spec/golden/nn/layers.lua", {}
for _, entry in ipairs(dofile "spec/golden/nn/torch_layers.lua") do
  by_torch[entry.row] = true
end

local rows = {}
for _, row in ipairs(pn.rows()) do
  if row.kind == "layer" then
    rows[#rows + 1] = row
  end
end

describe("layer", function()
  it("rows are there", function()
    assert.is_true(#rows >= 10)
  end)

  for _, row in ipairs(rows) do
    it(row.name .. " has the gradients that differences show, in its parameters and its inputs", function()
      pn.seed(3)
      local layer, list = make(row), inputs(row)
      local params = layer:parameters()
      params.names = nil
      for k, x in ipairs(list) do
        if x:dtype() == "float64" then
          list[k] = pn.param(x)
          params[#params + 1] = list[k]
        end
      end
      list[#list + 1] = pn.generator(1)
      for _, f in ipairs { layer, layer.evaluate } do
        assert(pn.check_gradients(function()
          list[#list] = pn.generator(1) -- the same noise at every call
          return f == layer and layer(table.unpack(list)) or f(layer, table.unpack(list))
        end, params, { order = 2 }))
      end
    end)

    it(row.name .. " gives the values of spec/golden/nn/layers.py", function()
      local want = golden[row.name]
      assert.is_true(want ~= nil or by_torch[row.name] == true)
      for dtype, tolerance in pairs(want and { float64 = 1e-12, float32 = 2e-6 } or {}) do
        local options = { dtype = #row.sizes > 0 and dtype or nil }
        for key, value in pairs(want.options or {}) do
          options[key] = value
        end
        local layer, x, state = make(row, options), pn.tensor(golden.x, { dtype = dtype }), {}
        for key, value in pairs(want.state or {}) do
          state[key] = pn.tensor(value, { dtype = dtype })
        end
        layer:load_state(state)
        local function check(got, values)
          local expected = pn.tensor(values)
          assert.is_true(max_difference(got:to "float64", expected) <= tolerance * expected:abs():max():item())
        end
        check(layer:mean(x), want.mean)
        if want.kl then
          check(layer:kl(), want.kl)
        end
        if want.variance then
          local mean, variance = layer:moments(x)
          check(mean, want.mean)
          check(variance, want.variance)
        end
      end
    end)

    it(row.name .. " is pure: the same input gives the same output, whatever was called between", function()
      local layer, list, other = make(row), inputs(row), inputs(row)
      local function call()
        list[#case(row).inputs + 1] = pn.generator(2)
        return layer(table.unpack(list)):totable()
      end
      local first, state = call(), layer:state()
      layer(table.unpack(other))
      layer:mean(table.unpack(other))
      layer:evaluate(table.unpack(other))
      assert.same(first, call())
      for name, t in pairs(layer:state()) do
        assert.same(state[name]:totable(), t:totable())
      end
    end)

    if not case(row).listed then
      it(row.name .. " takes leading axes as batches", function()
        -- the first axis of a recurrent layer is time, not batch
        local recurrent = row.states > 0
        local layer, x = make(row), pn.randn(recurrent and { 5, 2, 4, 3 } or { 2, 4, 3 })
        local y = layer:mean(x)
        local again = layer:mean(x:reshape(recurrent and { 5, 8, 3 } or { 8, 3 })):reshape(y:shape())
        assert.is_true(max_difference(y, again) < 1e-14)
      end)
    end

    it(row.name .. " takes batches of one and of none, whose examples are those of the larger batch", function()
      local layer, list = make(row), inputs(row)
      local whole = layer:mean(table.unpack(list))
      local batch = list[1]:size(1)
      local function part(count)
        local some = {}
        for k, x in ipairs(list) do
          some[k] = x:slice(1, 1, count)
        end
        return layer:mean(table.unpack(some))
      end
      if row.states == 0 then
        assert.is_true(max_difference(part(1), whole:slice(1, 1, 1)) < 1e-13)
      end
      local shape = whole:shape()
      local empty = inputs(row, nil, 0)
      if row.states == 0 then
        shape[1] = 0
        assert.same(shape, layer:mean(table.unpack(empty)):shape())
        if case(row).training_batch == 0 then
          assert.same(shape, layer(table.unpack(empty)):shape())
        end
      end
      assert.equal(batch, whole:size(1))
    end)

    it(row.name .. " is replayed as it is called, in each mode, with its gradients", function()
      for _, mode in ipairs { "training", "evaluation", "mean" } do
        local layer, params = make(row), nil
        params = layer:parameters()
        local list = inputs(row)
        local function f(...)
          local y = layer(...)
          if #params == 0 then
            return y
          end
          local g = pn.grad(y:square():sum(), params)
          return y, table.unpack(g)
        end
        local step = pn.compile(f)
        for _ = 1, 3 do
          pn.seed(4)
          local want = { nn.mode(mode, f, table.unpack(list)) }
          pn.seed(4)
          local got = { nn.mode(mode, step, table.unpack(list)) }
          for k = 1, #want do
            assert.same(want[k]:totable(), got[k]:totable())
          end
          list = inputs(row)
        end
        assert.equal(1, step:captures())
      end
    end)

    it(row.name .. " computes in float32 when asked to", function()
      local own = #row.parameters + #row.buffers > 0
      local layer = make(row, own and { dtype = "float32" } or nil)
      local list = inputs(row, "float32")
      assert.equal("float32", layer(table.unpack(list)):dtype())
      for _, w in ipairs(layer:parameters()) do
        assert.equal("float32", w:dtype())
      end
      if own and list[1]:dtype() == "float32" then
        local ok, message = pcall(layer, table.unpack(inputs(row)))
        assert.is_false(ok)
        assert.matches("must be float32, got float64", message)
      end
    end)

    it(row.name .. " saves and loads what it holds", function()
      local a, b = make(row), make(row)
      local list = inputs(row)
      b:load_state(a:state())
      assert.same(a:mean(table.unpack(list)):totable(), b:mean(table.unpack(list)):totable())
    end)

    it(row.name .. " refuses shapes by name", function()
      local layer, fixed = make(row), row.inputs[1].shape
      if fixed then
        local ok, message = pcall(layer, pn.zeros {}, table.unpack(inputs(row), 2))
        assert.is_false(ok)
        assert.matches("^[^ ]*layer_spec.lua:%d+: " .. row.name .. ": %w+ must have shape %[.*%], got %[%]", message)
      end
    end)

    it(row.name .. " refuses an unknown option and names the nearest", function()
      local option = row.options[1] and row.options[1].name or "dtype"
      option = #option < 3 and "dtype" or option -- shorter ones are near nothing
      local ok, message = pcall(make, row, { [option .. "x"] = 1 })
      assert.is_false(ok)
      assert.matches(("unknown option '%sx', did you mean '%s'"):format(option, option), message)
    end)

    if row.stochastic then
      it(row.name .. ": every parameter feels both the data and the divergence", function()
        local layer, x = make(row, { bias_init = "he" }), pn.randn { 6, 3 }
        for _, objective in ipairs { layer(x):square():sum(), layer:kl() } do
          for k, g in ipairs(pn.grad(objective, layer:parameters())) do
            assert.is_true(g:abs():min():item() > 0, row.parameters[k])
          end
        end
      end)
    end
  end
end)

describe("bayes_linear", function()
  it("has no divergence from a prior equal to its posterior", function()
    local layer = nn.bayes_linear(3, 2, { init = "zeros", prior_scale = 0.3, posterior_scale = 0.3 })
    assert.is_true(math.abs(layer:kl():item()) < 1e-14)
  end)

  it("has the divergence that draws show, within 6 standard errors", function()
    pn.seed(11)
    local layer = nn.bayes_linear(4, 3, { prior_scale = 0.8, posterior_scale = 0.4, bias = false })
    local s = layer:state()
    local n, scale = 40000, s.weight_log_scale:exp()
    local eps = pn.randn { n, 4, 3 }
    local w = s.weight_loc + scale * eps
    -- log q - log p per draw; the normalisers of both share 1/2 log 2 pi
    local log_q = eps:square() * -0.5 - s.weight_log_scale
    local log_p = w:square() * (-0.5 / 0.64) - math.log(0.8)
    local log_ratio = (log_q - log_p):sum { 2, 3 }
    local mean = log_ratio:mean():item()
    local error = (log_ratio - mean):square():mean():sqrt():item() / math.sqrt(n)
    assert.is_true(error < 0.02 * math.abs(mean)) -- narrow enough to mean something
    assert.is_true(math.abs(mean - layer:kl():item()) < 6 * error)
  end)

  it("draws outputs with the moments it states, with both estimators, within 6 standard errors", function()
    pn.seed(12)
    for _, estimator in ipairs { "local", "weights" } do
      local layer = nn.bayes_linear(3, 2, { estimator = estimator, posterior_scale = 0.5, bias_init = "he" })
      local x, n = pn.randn { 1, 3 }, 20000
      local mean, variance = layer:moments(x)
      local sum, squares = pn.zeros { 1, 2 }, pn.zeros { 1, 2 }
      pn.no_grad(function()
        for _ = 1, n do
          local d = layer(x) - mean
          sum, squares = sum + d, squares + d:square()
        end
      end)
      local z_mean = (sum / n):abs() / (variance / n):sqrt()
      local z_variance = (squares / n - variance):abs() / (variance * math.sqrt(2 / n))
      assert.is_true(z_mean:max():item() < 6, estimator)
      assert.is_true(z_variance:max():item() < 6, estimator)
    end
  end)

  it("local draws make quieter gradients than weight draws, of the same mean", function()
    pn.seed(13)
    local x, y = pn.randn { 64, 3 }, pn.randn { 64, 1 }
    local state = nn.bayes_linear(3, 1, { posterior_scale = 0.3 }):state()
    local mean, variance = {}, {}
    for _, estimator in ipairs { "local", "weights" } do
      local layer = nn.bayes_linear(3, 1, { estimator = estimator }):load_state(state)
      local first, second, n = pn.zeros { 3, 1 }, pn.zeros { 3, 1 }, 3000
      for _ = 1, n do
        local g = pn.grad((layer(x) - y):square():mean(), { layer:parameters()[1] })[1]
        first, second = first + g / n, second + g:square() / n
      end
      mean[estimator], variance[estimator] = first, second - first:square()
    end
    local ratio = (variance.weights / variance["local"]):min():item()
    assert.is_true(ratio > 5, ("variance ratio %g"):format(ratio))
    local se = ((variance.weights + variance["local"]) / 3000):sqrt()
    assert.is_true(((mean.weights - mean["local"]):abs() / se):max():item() < 6)
  end)

  it("rows of one call share a function with weight draws, and do not with local ones", function()
    pn.seed(14)
    local x = pn.ones { 2, 3 }
    for estimator, shared in pairs { weights = true, ["local"] = false } do
      local y = nn.bayes_linear(3, 1, { estimator = estimator, posterior_scale = 1 })(x)
      assert.equal(shared, math.abs(y[1]:item() - y[2]:item()) < 1e-12)
    end
  end)

  it("survives a dead row without bias", function()
    local layer, x = nn.bayes_linear(3, 2, { bias = false }), pn.param(pn.zeros { 4, 3 })
    layer(x):sum():backward()
    assert.is_true(x:grad():isfinite():all():item())
  end)
end)

describe("minibatch scaling", function()
  it("gives on average the gradient of the whole data set's ELBO", function()
    pn.seed(15)
    local x, y = pn.randn { 12, 3 }, pn.randn { 12 }
    local layer = nn.bayes_linear(3, 1)
    local function gradient(range, n)
      local mean, variance = layer:moments(x[{ range }])
      local ll = ((y[{ range }] - mean:reshape { n }):square() + variance:reshape { n }) * -0.5
      return pn.grad(infer.elbo { log_likelihood = ll, kl = layer:kl(), num_data = 12 }, layer:parameters())
    end
    local whole = gradient({ 1, 12 }, 12)
    local mean = {}
    for first = 1, 12, 4 do
      for k, g in ipairs(gradient({ first, first + 3 }, 4)) do
        mean[k] = mean[k] and mean[k] + g / 3 or g / 3
      end
    end
    for k, g in ipairs(whole) do
      assert.is_true(max_difference(g, mean[k]) < 1e-12 * math.max(1, g:abs():max():item()))
    end
  end)
end)

describe("network", function()
  local function network()
    local inner = nn.sequential { nn.linear(4, 3), pn.tanh }
    return nn.sequential { nn.bayes_linear(2, 4), nn.relu(), inner, nn.linear(3, 1) }
  end

  it("names its parameters by place and lists them in one order", function()
    local names = {}
    for k, entry in ipairs(network():named_parameters()) do
      names[k] = entry[1]
    end
    assert.same({
      "1.weight_loc", "1.weight_log_scale", "1.bias_loc", "1.bias_log_scale", "3.1.weight", "3.1.bias", "4.weight",
      "4.bias",
    }, names)
  end)

  it("gives the same parameter the same Lua value, and a shared one once", function()
    local layer = nn.linear(2, 2)
    assert.equal(layer:parameters()[1], layer:parameters()[1])
    assert.equal(2, #nn.sequential({ layer, nn.relu(), layer }):parameters())
  end)

  it("saves a snapshot and loads it; later steps do not change it", function()
    local net, x = network(), pn.randn { 5, 2 }
    local state, before = net:state(), net:mean(x):totable()
    local opt = pn.optim.adam(net:parameters(), { lr = 0.1 })
    opt:step(net(x):square():sum())
    assert.is_not.same(before, net:mean(x):totable())
    net:load_state(state)
    assert.same(before, net:mean(x):totable())
    assert.same(before, network():load_state(state):mean(x):totable())
  end)

  it("names what is missing, misshapen or extra, and then changes nothing", function()
    local net = network()
    local state, before = net:state(), net:state()
    state["4.bias"], state["3.1.weight"], state["5.weight"] = nil, pn.zeros { 3, 4 }, pn.zeros { 1 }
    state["4.weight"] = pn.zeros({ 3, 1 }, { dtype = "float32" })
    local ok, message = pcall(net.load_state, net, state)
    assert.is_false(ok)
    for _, part in ipairs {
      "'4.bias' is missing", "'3.1.weight' must have shape %[4, 3%], got %[3, 4%]",
      "'5.weight' is not a parameter or buffer of this network", "'4.weight' must be float64, got float32",
    } do
      assert.matches(part, message)
    end
    for key, value in pairs(net:state()) do
      assert.same(before[key]:totable(), value:totable())
    end
  end)

  it("sums the divergence of its layers, and is a constant without any", function()
    local a, b = nn.bayes_linear(2, 3), nn.bayes_linear(3, 1)
    local net = nn.sequential { a, nn.relu(), b }
    assert.is_true(math.abs(net:kl():item() - a:kl():item() - b:kl():item()) < 1e-12)
    assert.equal(0, nn.sequential({ nn.linear(2, 2) }):kl():item())
  end)

  it("passes a generator on, so a draw can be repeated", function()
    local net, x = network(), pn.randn { 5, 2 }
    assert.same(net(x, pn.generator(4)):totable(), net(x, pn.generator(4)):totable())
    assert.is_not.same(net(x, pn.generator(4)):totable(), net(x, pn.generator(5)):totable())
  end)

  it("is readable as text", function()
    local text = tostring(network())
    assert.matches("1: bayes_linear%(2 %-> 4%)%s+24", text)
    assert.matches("2: relu%(%)", text)
    assert.matches("43 parameters$", text)
    assert.equal("bayes_linear(1 -> 2, bias = false, estimator = weights)",
      tostring(nn.bayes_linear(1, 2, { bias = false, estimator = "weights" })))
  end)

  it("of one's own is a module: fields are found, forward is called", function()
    local net = nn.module {
      trunk = nn.sequential { nn.linear(2, 3), nn.relu() },
      head = nn.bayes_linear(3, 1),
      log_noise = pn.param(pn.zeros {}),
      forward = function(self, x, generator)
        return self.head(self.trunk(x), generator), self.log_noise:exp()
      end,
    }
    local y, noise = net(pn.randn { 4, 2 })
    assert.same({ 4, 1 }, y:shape())
    assert.equal(1, noise:item())
    local names = {}
    for k, entry in ipairs(net:named_parameters()) do
      names[k] = entry[1]
    end
    assert.same({
      "head.weight_loc", "head.weight_log_scale", "head.bias_loc", "head.bias_log_scale", "log_noise",
      "trunk.1.weight", "trunk.1.bias",
    }, names)
    assert.is_true(net:kl():item() == net.head:kl():item())
  end)

  it("refuses what is no layer, at the script's line", function()
    for _, f in ipairs {
      function() nn.sequential { nn.relu } end,
      function() nn.sequential { 3 } end,
      function() nn.sequential { first = nn.relu() } end,
      function() nn.linear(2) end,
      function() nn.linear(2, 3)(pn.zeros { 4, 5 }) end,
      function() nn.linear(2, 3)("x") end,
      function() nn.initialise("glorotx", { 2 }) end,
      function() nn.module { x = 1 } end,
    } do
      local ok, message = pcall(f)
      if ok then -- nn.relu is a function of a tensor like any other; calling it shows the mistake
        ok, message = pcall(nn.sequential { nn.relu }, pn.zeros { 1 })
      end
      assert.is_false(ok)
      assert.matches("layer_spec.lua:%d+: ", message)
    end
  end)
end)

describe("initialiser", function()
  for _, row in ipairs(pn.rows()) do
    if row.kind == "initialiser" then
      it(row.name .. " makes the shape and element type asked for, from the generator given", function()
        local t = nn.initialise(row.name, { 4, 3 }, { dtype = "float32", generator = pn.generator(1) })
        local again = nn.initialise(row.alias or row.name, { 4, 3 }, { dtype = "float32", generator = pn.generator(1) })
        assert.same({ 4, 3 }, t:shape())
        assert.equal("float32", t:dtype())
        assert.same(t:totable(), again:totable())
      end)
    end
  end

  it("scales by how many numbers a layer adds up, and gives", function()
    pn.seed(3)
    for _, init in ipairs { "lecun", "he", "xavier" } do
      local o = { init = init }
      for _, row in ipairs {
        { nn.linear(30, 90, o), 30, 90 },
        { nn.bayes_linear(30, 90, o), 30, 90 },
        { nn.conv2d(8, 60, { kernel = { 3, 5 }, groups = 2, init = init }), 4 * 15, 30 * 15 },
        { nn.conv1d(12, 80, { kernel = 3, init = init }), 12 * 3, 80 * 3 },
        { nn.bilinear(6, 7, 50, o), 6 * 7, 50 },
        { nn.highway(50, o), 50, 50 },
      } do
        local layer, into, out = table.unpack(row)
        local weight = layer:parameters()[1]:detach()
        local want = init == "lecun" and 1 / into or init == "he" and 2 / into or 2 / (into + out)
        local limit = 6 * math.sqrt(2 / weight:numel()) -- of a variance of normal numbers
        assert(math.abs(weight:square():mean():item() / want - 1) < limit, init .. ", " .. tostring(layer))
      end
    end
  end)

  it("orthogonal gives orthonormal rows or columns, whichever are fewer, times the gain", function()
    for _, shape in ipairs { { 5, 3 }, { 3, 5 }, { 4, 2, 3, 3 }, { 4, 4 }, { 7 } } do
      local height = #shape > 1 and shape[1] or 1
      for dtype, tolerance in pairs { float64 = 1e-14, float32 = 2e-6 } do
        local t = nn.initialise("orthogonal", shape, { gain = 3, dtype = dtype })
        local m = t:reshape { height, t:numel() // height }:to "float64"
        local product = height < m:size(2) and m:matmul(m:t()) or m:t():matmul(m)
        assert.is_true(max_difference(product, pn.eye(product:size(1)) * 9) < 9 * 10 * tolerance)
      end
    end
    -- uniform: a rotation of the space changes nothing, so every entry of many draws has mean 0 and variance 1 / n
    local n, sum, squares = 2000, pn.zeros { 3, 3 }, pn.zeros { 3, 3 }
    for _ = 1, n do
      local q = nn.initialise("orthogonal", { 3, 3 })
      sum, squares = sum + q, squares + q:square()
    end
    assert.is_true((sum / n):abs():max():item() < 6 * math.sqrt(1 / 3 / n))
    assert.is_true(max_difference(squares / n, pn.full({ 3, 3 }, 1 / 3)) < 6 * 0.3 / math.sqrt(n))
  end)
end)
