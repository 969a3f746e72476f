--- A network of every kind of layer that pn.nn.save_onnx writes: function(pn) gives table name -> {net =, shape = of
--- the input, tried = list of shapes, input = function(shape), an input}. Parameters, buffers and inputs are sixteenths
--- of many values, exact in float32, and none is at one that hides it.
return function(pn)
  local nn = pn.nn
  local function pattern(shape, step, first, period)
    local n = 1
    for _, size in ipairs(shape) do n = n * size end
    return ((pn.arange(n) * step + first) % period):to("float64"):reshape(shape)
  end
  local function shaken(net)
    for k, w in ipairs(net:parameters()) do w:set((pattern(w:shape(), 7, 3 * k, 13) - 6) / 16) end
    local state, changed = net:state(), false
    for name, t in pairs(state) do
      if name:find "running_var" then
        state[name], changed = (pattern(t:shape(), 5, 1, 7) + 1) / 4, true
      elseif name:find "running_mean" then
        state[name], changed = (pattern(t:shape(), 5, 2, 7) - 3) / 8, true
      end
    end
    if changed then net:load_state(state) end
    return net
  end
  local function s(list) return shaken(nn.sequential(list)) end
  local rows, pictures = { { 1, 5 }, { 7, 5 } }, { { 1, 4, 9, 8 }, { 3, 4, 9, 8 } }
  local free = { { 1, 4, 9, 8 }, { 2, 4, 12, 17 } }
  local times = { { 1, 1, 3 }, { 6, 4, 3 }, { 11, 2, 3 } }
  local cases = {
    mlp = { net = shaken(nn.mlp({ 5, 8, 6, 2 }, { activation = "relu" })), shape = { -1, 5 }, tried = rows },
    linear_deep = { net = s { nn.linear(5, 3) }, shape = { -1, 4, 5 }, tried = { { 1, 4, 5 }, { 6, 4, 5 } } },
    linear_bare = { net = s { nn.linear(5, 3, { bias = false }) }, shape = { -1, 5 }, tried = rows },
    one_layer = { net = shaken(nn.linear(5, 3)), shape = { -1, 5 }, tried = rows },
    bayesian = { net = s { nn.bayes_linear(5, 7), nn.tanh(), nn.bayes_linear(7, 2) }, shape = { -1, 5 }, tried = rows },
    functions = { net = s { nn.linear(5, 4), pn.tanh, nn.linear(4, 4), pn.softplus, nn.linear(4, 3), pn.sin },
      shape = { -1, 5 }, tried = rows },
    dropout = { net = s { nn.linear(5, 4), nn.dropout(0.4), nn.linear(4, 3) }, shape = { -1, 5 }, tried = rows },
    lenet = { net = s { nn.conv2d(4, 6, 3, { padding = 1 }), nn.relu(), nn.max_pool2d(2), nn.conv2d(6, 5, 3), nn.tanh(),
      nn.avg_pool2d(2), nn.flatten(), nn.linear(5, 3) }, shape = { -1, 4, 9, 8 }, tried = pictures },
    conv_ways = { net = s { nn.conv2d(4, 6, 3, { stride = 2, padding = 1, groups = 2 }), nn.elu(), nn.conv2d(6, 4, 3,
      { dilation = 2, padding = 2, bias = false }) }, shape = { -1, 4, -1, -1 }, tried = free },
    conv_pair = { net = s { nn.conv2d(4, 3, { kernel = { 3, 2 }, stride = { 1, 2 }, padding = { 1, 0 } }) },
      shape = { -1, 4, 9, 8 }, tried = pictures },
    transposed = { net = s { nn.conv_transpose2d(4, 6, 3, { stride = 2, padding = 1, output_padding = 1, groups = 2 }) },
      shape = { -1, 4, 9, 8 }, tried = pictures },
    pools = { net = s { nn.max_pool2d(3, { stride = 2, padding = 1 }), nn.avg_pool2d(3, { stride = 1, padding = 1 }) },
      shape = { -1, 4, 9, 8 }, tried = pictures },
    global = { net = nn.concat { s { nn.adaptive_avg_pool2d(1), nn.flatten() }, s { nn.adaptive_max_pool2d(1),
      nn.flatten() } }, shape = { -1, 4, -1, -1 }, tried = free },
    sequence = { net = s { nn.conv1d(3, 4, 3, { padding = 1 }), nn.silu(), nn.max_pool1d(2), nn.conv_transpose1d(4, 2, 3) },
      shape = { -1, 3, 10 }, tried = { { 1, 3, 10 }, { 4, 3, 10 } } },
    volume = { net = s { nn.conv3d(2, 3, 2), nn.avg_pool3d(2) }, shape = { -1, 2, 5, 6, 7 },
      tried = { { 1, 2, 5, 6, 7 }, { 2, 2, 5, 6, 7 } } },
    batch_norm = { net = s { nn.linear(5, 4), nn.batch_norm(4), nn.batch_norm(4, { affine = false, epsilon = 1e-3 }) },
      shape = { -1, 5 }, tried = rows },
    batch_norm2 = { net = s { nn.conv2d(4, 4, 3), nn.batch_norm(4) }, shape = { -1, 4, 9, 8 }, tried = pictures },
    layer_norm = { net = s { nn.layer_norm(9, 8), nn.layer_norm(8, { affine = false, epsilon = 1e-2 }) },
      shape = { -1, 4, 9, 8 }, tried = pictures },
    rms_norm = { net = s { nn.rms_norm(9, 8), nn.rms_norm(8, { epsilon = 1e-2 }) }, shape = { -1, 4, 9, 8 },
      tried = pictures },
    group_norm = { net = s { nn.group_norm(2, 4), nn.group_norm(4, 4, { affine = false }) }, shape = { -1, 4, 9, 8 },
      tried = pictures },
    actnorm = { net = s { nn.actnorm(4), nn.reshape(4, 72), nn.actnorm(4) }, shape = { -1, 4, 9, 8 },
      tried = pictures },
    reshape = { net = s { nn.linear(5, 12), nn.reshape(3, -1), nn.linear(4, 2) }, shape = { -1, 5 }, tried = rows },
    prelu = { net = s { nn.linear(5, 4), nn.prelu { channels = 4 }, nn.prelu() }, shape = { -1, 5 }, tried = rows },
    prelu2 = { net = s { nn.prelu { channels = 4 } }, shape = { -1, 4, 9, 8 }, tried = pictures },
    shuffle = { net = s { nn.pixel_shuffle(2), nn.glu(-1), nn.glu(3) }, shape = { -1, 4, 9, 8 }, tried = pictures },
    residual = { net = shaken(nn.residual(nn.sequential { nn.linear(5, 5), nn.tanh() })), shape = { -1, 5 }, tried = rows },
    shortcut = { net = s { nn.residual(nn.linear(5, 3), nn.linear(5, 3)), nn.concat { nn.linear(3, 2), pn.tanh } },
      shape = { -1, 5 }, tried = rows },
    gru = { net = shaken(nn.gru(3, 4)), shape = { -1, -1, 3 }, tried = times },
    gru_bare = { net = shaken(nn.gru(3, 4, { bias = false, reverse = true })), shape = { -1, -1, 3 }, tried = times },
    lstm = { net = shaken(nn.lstm(3, 4)), shape = { -1, -1, 3 }, tried = times },
    rnn = { net = shaken(nn.rnn(3, 4, { activation = "relu" })), shape = { -1, -1, 3 }, tried = times },
    rnn_tanh = { net = shaken(nn.rnn(3, 4)), shape = { -1, -1, 3 }, tried = times },
    stacked = { net = s { nn.recurrent("lstm", 3, 4, { layers = 2, bidirectional = true, dropout = 0.2 }),
      nn.linear(8, 2) }, shape = { -1, -1, 3 }, tried = times },
    embedding = { net = s { nn.embedding(6, 3), nn.linear(3, 2) }, shape = { -1, -1 }, tried = { { 1, 1 }, { 3, 5 } },
      input = function(shape) return pattern(shape, 1, 0, 6):to "int64" end },
    double = { net = s { nn.linear(5, 4), nn.tanh(), nn.linear(4, 3) }, shape = { -1, 5 }, tried = rows,
      dtype = "float64" },
  }
  local activations = {}
  for _, name in ipairs(nn.activations) do activations[#activations + 1] = nn[name]() end
  table.insert(activations, nn.leaky_relu { slope = 0.3 })
  table.insert(activations, nn.elu { alpha = 0.7 })
  table.insert(activations, nn.hard_tanh { low = -0.4, high = 0.6 })
  table.insert(activations, nn.hard_sigmoid { slope = 0.3 })
  cases.activations = { net = nn.concat(activations), shape = { -1, 5 }, tried = rows }
  for _, case in pairs(cases) do
    case.input = case.input or function(shape) return (pattern(shape, 11, 5, 17) - 8) / 8 end
  end
  return cases
end
