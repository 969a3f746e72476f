--- The variational ReLU network (Kandemir 2018, as Haussmann 2021, 3.1.2.1, states it): pre- and post-activations are
--- random, too, so that every factor has a closed best form and no gradient is taken:
---
---     w_j ~ N(0, alpha^-1 I),   f_nj | w, h ~ N(w_j' h_n, beta^-1),   z_nj ~ Bernoulli(sigmoid(C f_nj)),
---     h_nj | z, f ~ N(z f, gamma^-1),   y_nk | w, h ~ N(w_k' h_n, beta^-1)
---
---     local m = pn.vbp.relu_net { sizes = { 784, 500, 10 } }
---     m:fit { data = { x, y }, max_sweeps = 20 }              -- coordinate ascent on all data
---     m:observe(x, y)                                         -- or batch by batch: the posterior is the next prior
---     m:classes(x)
---
--- Each layer's inputs have a constant 1 at their end. y: numbers [N, out] or [N], or labels int64 [N], which are
--- regressed on as zeros and ones. Options:
---   sizes            inputs, hidden units, outputs: a list of whole numbers
---   prior_precision  alpha (1);  noise_precision  beta (10);  unit_precision  gamma (10)
---   dtype            "float64"
---   seed             of the first weights, normal of variance 2 / fan-in
-- help: pn.vbp, methods relu_net
local array = require "penumbra.array"
local checkpoint = require "penumbra.checkpoint"
local core = require "penumbra.core"
local form = require "penumbra.form"
local options = require "penumbra.options"
local recording = require "penumbra.autodiff.recording"
local saved = require "penumbra.saved"

local relu_net = {}
local methods = {}
local inner = setmetatable({}, { __mode = "k" })
local class = { __name = "relu_net", __index = core.namespace("a relu_net", methods),
  __tostring = function(self) return "relu_net of layers " .. table.concat(self.sizes, "-") end }

local LOG_2PI <const> = core.log_2pi

-- ---- small parts ----

-- [N, n] with a column of ones at its end.
local function with_one(h)
  return core.concatenate({ h, core.ones({ h:size(1), 1 }, { dtype = h:dtype() }) }, 2)
end

-- The mean of the inputs of layer l and their variances, with the constant: data for the first.
local function inputs_of(state, l)
  if l == 1 then
    return state.x, state.x:zeros_like()
  end
  local h = state.hidden[l - 1]
  return with_one(h.mean), core.concatenate({ h.variance, core.zeros({ h.mean:size(1), 1 },
    { dtype = h.mean:dtype() }) }, 2)
end

-- The mean of the pre-activations above layer l's weights, and their variances: of the outputs they are data.
local function target_of(state, l)
  local h = state.hidden[l]
  if h then
    return h.input, h.input_variance
  end
  return state.y, nil
end

-- var(w' h) for each datum, [N, 1], and unit, [N, out]: m_h' S m_h + sum_i (m_w,i^2 + S_ii) v_h,i.
local function product_variance(w, m, v)
  local shared = (m:matmul(w.cov) * m):sum(2, true) + v:matmul(w.cov:diagonal():unsqueeze(2))
  return shared + v:matmul(w.mean:square())
end

-- ---- updates, each the best of its factor while the others stand ----

-- q(w_j) = N(m_j, S): S = (L0 + beta sum E h h')^-1, m_j = S (L0 m0_j + beta sum E f_nj E h_n).
local function update_weights(p, state, l)
  local w, m, v = p.layers[l], inputs_of(state, l)
  local f = target_of(state, l)
  local precision = w.prior_precision + (m:t():matmul(m) + v:sum(1):diag_embed()) * p.beta
  local root, message, code = precision:cholesky()
  if not root then
    error({ failed = true, message = message, code = code })
  end
  w.precision, w.root = precision, root
  w.cov = root:cholesky_solve(core.eye(precision:size(1), { dtype = precision:dtype() }))
  w.mean = root:cholesky_solve(w.prior_precision:matmul(w.prior_mean) + m:t():matmul(f) * p.beta)
end

-- q(f): precision beta + gamma z, mean (beta w' h + gamma z h) / (beta + gamma z).
local function update_inputs(p, state, l)
  local h, below = state.hidden[l], inputs_of(state, l):matmul(p.layers[l].mean)
  local precision = h.open * p.gamma + p.beta
  h.input = (below * p.beta + h.open * h.mean * p.gamma) / precision
  h.input_variance = precision:reciprocal()
end

-- q(z) = 1 where E f > 0.
local function update_gates(state, l)
  local h = state.hidden[l]
  h.open = h.input:gt(0):to(h.input:dtype())
end

-- q(h_j), one unit after another: precision gamma + beta sum_k E w_kj^2, and the mean that solves row j of P h = r with
-- P = gamma I + beta sum_k E w_k w_k' while the other units stand. All units in turn are one step of Gauss and Seidel,
-- (D + L) h_new = r - U h_old, for all data at once.
local function update_hidden(p, state, l)
  local h, above = state.hidden[l], p.layers[l + 1]
  local n, k = h.mean:size(2), above.mean:size(2)
  local second = (above.mean:matmul(above.mean:t()) + above.cov * k) * p.beta
  local f = target_of(state, l + 1)
  local square = second:slice(1, 1, n):slice(2, 1, n) + core.eye(n, { dtype = second:dtype() }) * p.gamma
  local constant = second:slice(1, 1, n):slice(2, n + 1, n + 1):t()
  local right = h.open * h.input * p.gamma + f:matmul(above.mean:slice(1, 1, n):t()) * p.beta - constant
  local rest = right - h.mean:matmul(square:triu(1):t())
  h.mean = assert(square:solve_triangular(rest:t(), { upper = false })):t():contiguous()
  h.variance = square:diagonal():reciprocal():unsqueeze(1):broadcast_to(h.mean:shape()):contiguous()
end

-- ---- the bound, without E log p(z | f) ----

local function normal_term(square, precision)
  return (square * -precision + (math.log(precision) - LOG_2PI)):sum() * 0.5
end

local function entropy(variance)
  return (variance:log() + (LOG_2PI + 1)):sum() * 0.5
end

-- KL(N(m_j, S) || N(m0_j, L0^-1)), summed over units.
local function weight_divergence(w)
  local n, k = w.mean:size(1), w.mean:size(2)
  local d = w.mean - w.prior_mean
  local trace = (w.prior_precision * w.cov):sum()
  local log_det = w.root:diagonal():log():sum() * 2 - w.prior_log_det
  return ((w.prior_precision:matmul(d) * d):sum() + (trace - n + log_det) * k) * 0.5
end

local function bound_of(p, state)
  local total = 0
  for l, w in ipairs(p.layers) do
    local m, v = inputs_of(state, l)
    local f, spread = target_of(state, l)
    local square = (f - m:matmul(w.mean)):square() + product_variance(w, m, v)
    total = normal_term(spread and square + spread or square, p.beta) - weight_divergence(w) + total
    local h = state.hidden[l]
    if h then
      local own = h.variance + (h.mean - h.open * h.input):square() + h.open * h.input_variance
      total = normal_term(own, p.gamma) + entropy(h.input_variance) + entropy(h.variance) + total
    end
  end
  return total:item()
end

-- ---- sweeps ----

-- Pre- and post-activations of a batch as the means of the weights give them.
local function begin(p, x, y)
  local state = { x = with_one(x), y = y, hidden = {} }
  for l = 1, #p.layers - 1 do
    local f = inputs_of(state, l):matmul(p.layers[l].mean)
    local open = f:gt(0):to(f:dtype())
    state.hidden[l] = { input = f, open = open, mean = open * f,
      input_variance = (open * p.gamma + p.beta):reciprocal(), variance = f:zeros_like() + 1 / p.gamma }
  end
  return state
end

-- One sweep from the inputs to the outputs; told(what, layer) after each update.
local function sweep(p, state, told)
  for l = 1, #p.layers do
    update_weights(p, state, l)
    told("weights", l)
    if state.hidden[l] then
      update_inputs(p, state, l)
      told("inputs", l)
      update_gates(state, l)
      told("gates", l)
      update_hidden(p, state, l)
      told("hidden", l)
    end
  end
end

-- The prior of layer n -> k before any data.
local function first_layer(n, k, alpha, how)
  local dtype = how.dtype
  local eye = core.eye(n + 1, { dtype = dtype })
  local start = core.randn({ n, k }, how) * (2 / n) ^ 0.5
  local mean = core.concatenate({ start, core.zeros({ 1, k }, { dtype = dtype }) }, 1)
  return { prior_mean = core.zeros({ n + 1, k }, { dtype = dtype }), prior_precision = eye * alpha,
    prior_log_det = (n + 1) * math.log(alpha), mean = mean, cov = eye / alpha, precision = eye * alpha,
    root = eye * alpha ^ 0.5 }
end

local known = { sizes = options.required "table", prior_precision = 1, noise_precision = 10, unit_precision = 10,
  dtype = options.choice("float64", "float32"), seed = options.optional "number" }

local function check_options(given)
  local o = options.check("relu_net", given, known)
  for _, name in ipairs { "prior_precision", "noise_precision", "unit_precision" } do
    if not (o[name] > 0 and o[name] < math.huge) then
      core.error(("relu_net: %s must be a positive number, got %s"):format(name, tostring(o[name])))
    end
  end
  if #o.sizes < 2 then
    core.error "relu_net: sizes must be a list of at least two, of inputs and of outputs"
  end
  for k, size in ipairs(o.sizes) do options.whole("relu_net", ("sizes[%d]"):format(k), size, 1) end
  return o
end

--- pn.vbp.relu_net.
function relu_net.new(given)
  local o = check_options(given)
  local p = { o = o, layers = {}, beta = o.noise_precision, gamma = o.unit_precision, seen = 0 }
  local generator = core.generator(o.seed or core.randint(0, 1 << 53, {}):item())
  for l = 1, #o.sizes - 1 do
    p.layers[l] = first_layer(o.sizes[l], o.sizes[l + 1], o.prior_precision, { dtype = o.dtype, generator = generator })
  end
  local self = setmetatable({ sizes = { table.unpack(o.sizes) } }, class)
  inner[self] = p
  return self
end

local function parts(where, self)
  return inner[self] or core.error(("%s: needs a relu_net, as in m:%s(...)"):format(where, where))
end

local function check_x(where, p, x)
  options.argument(where, "x", x, "tensor")
  if x:ndim() ~= 2 or x:size(2) ~= p.o.sizes[1] or x:dtype() ~= p.o.dtype then
    core.error(("%s: x must be %s [N, %d], got %s [%s]"):format(where, p.o.dtype, p.o.sizes[1], x:dtype(),
      table.concat(x:shape(), ", ")))
  elseif not x:isfinite():all():item() then
    core.error(where .. ": x must be finite")
  end
  return x
end

-- y as numbers [N, out].
local function check_y(where, p, y, n)
  local out = p.o.sizes[#p.o.sizes]
  options.argument(where, "y", y, "tensor")
  if y:dtype() == "int64" and y:ndim() == 1 and out > 1 then
    if y:numel() > 0 and (y:min():item() < 0 or y:max():item() >= out) then
      core.error(("%s: y must be labels from 0 to %d"):format(where, out - 1))
    end
    y = array.one_hot(y, out, p.o.dtype)
  end
  y = y:ndim() == 1 and y:unsqueeze(2) or y
  if y:ndim() ~= 2 or y:size(1) ~= n or y:size(2) ~= out then
    core.error(("%s: y must be labels int64 [%d], or numbers [%d, %d], got [%s]"):format(where, n, n, out,
      table.concat(y:shape(), ", ")))
  end
  y = y:to(p.o.dtype)
  if not y:isfinite():all():item() then
    core.error(where .. ": y must be finite")
  end
  return y
end

-- o.max_sweeps sweeps on one batch, fewer where one raises the bound by less than o.tolerance; with o.trace the bound
-- after each update.
local function ascend(p, x, y, o)
  local state, bounds, steps = begin(p, x, y), {}, {}
  local function told(what, layer)
    if o.trace then
      steps[#steps + 1] = { update = what, layer = layer, bound = bound_of(p, state) }
    end
  end
  for k = 1, o.max_sweeps do
    sweep(p, state, told)
    bounds[k] = bound_of(p, state)
    if o.tolerance and k > 1 and bounds[k] - bounds[k - 1] < o.tolerance then
      break
    end
  end
  return { bounds = bounds, bound = bounds[#bounds], steps = o.trace and steps or nil }
end

-- ascend, after which layers are as they were if it cannot be done: nil, message, code where a factorisation fails.
local function attempt(where, p, x, y, o)
  local before = {}
  for l, w in ipairs(p.layers) do
    before[l] = {}
    for name, t in pairs(w) do before[l][name] = t end
  end
  local ok, report = pcall(recording.off, ascend, p, x, y, o)
  if ok then
    return report
  end
  p.layers = before
  if type(report) == "table" and report.failed then
    return nil, ("%s: %s"):format(where, report.message), report.code
  end
  return error(report, 0)
end

--- fit{data = {x, y}, max_sweeps = 10, tolerance =, trace = false}: coordinate ascent on all data from the prior; each
--- sweep updates weights, pre-activations, gates and post-activations layer by layer. Gives {bound =, bounds = after
--- each sweep}, and with trace `steps`, a list of {update =, layer =, bound =}. The bound leaves out E log p(z | f): it
--- does not fall with "weights", "inputs" and "hidden"; "gates", which follow E f alone, may lower it. Gives nil,
--- message, code, and changes nothing, where a precision cannot be factorised: numbers of too different sizes.
function methods:fit(given)
  local p = parts("fit", self)
  local o = options.check("fit", given, { data = options.required "table", max_sweeps = 10,
    tolerance = options.optional "number", trace = false })
  local x = check_x("fit", p, o.data[1])
  local y = check_y("fit", p, o.data[2], x:size(1))
  return attempt("fit", p, x, y, o)
end

--- observe(x, y [, {max_sweeps = 3, tolerance =}]): learns from a batch, whose posterior is then the prior of the next:
--- one pass over a stream. Gives {bound =, bounds =} of this batch under its prior, or nil, message, code, as fit.
function methods:observe(x, y, given)
  local p = parts("observe", self)
  local o = options.check("observe", given, { max_sweeps = 3, tolerance = options.optional "number" })
  check_x("observe", p, x)
  local ready = check_y("observe", p, y, x:size(1))
  local report, message, code = attempt("observe", p, x, ready, o)
  if not report then
    return nil, message, code
  end
  for _, w in ipairs(p.layers) do
    w.prior_mean, w.prior_precision = w.mean, w.precision
    w.prior_log_det = w.root:diagonal():log():sum():item() * 2
  end
  p.seen = p.seen + x:size(1)
  return report
end

--- moments(x): mean and variance of the outputs without their noise, [N, out]: layer by layer with the gates of the
--- mean.
function methods:moments(x)
  local p = parts("moments", self)
  check_x("moments", p, x)
  return recording.off(function()
    local m, v = with_one(x), core.zeros({ x:size(1), x:size(2) + 1 }, { dtype = x:dtype() })
    for l, w in ipairs(p.layers) do
      local f, spread = m:matmul(w.mean), product_variance(w, m, v)
      if l == #p.layers then
        return f, spread
      end
      local open = f:gt(0):to(f:dtype())
      m = with_one(open * f)
      v = core.concatenate({ open * (spread + 1 / p.beta) + 1 / p.gamma, core.zeros({ x:size(1), 1 },
        { dtype = x:dtype() }) }, 2)
    end
  end)
end

--- predict(x): {mean =, variance = of y, spread = of the outputs}, [N, out] each.
function methods:predict(x)
  local m, v = self:moments(x)
  return { mean = m, variance = v + 1 / inner[self].beta, spread = v }
end

--- classes(x): the largest output of each datum, int64 [N] from 0 on.
function methods:classes(x)
  return (self:moments(x):argmax(-1))
end

-- ---- files ----

local KIND <const> = "relu net"
local KEPT <const> = { "prior_mean", "prior_precision", "mean", "precision" }

--- save(path): whole or not at all; pn.restore reads it. Returns true, or nil, message, code.
function methods:save(path)
  local p = parts("save", self)
  options.argument("save", "path", path, "string")
  local layers, o = {}, p.o
  for l, w in ipairs(p.layers) do
    layers[l] = {}
    for _, name in ipairs(KEPT) do layers[l][name] = w[name] end
  end
  return checkpoint.save(path, { kind = KIND, layers = layers, sizes = self.sizes, dtype = o.dtype, seen = p.seen,
    prior_precision = o.prior_precision, noise_precision = o.noise_precision, unit_precision = o.unit_precision })
end

local function net_form(found)
  local sizes = type(found.sizes) == "table" and found.sizes or {}
  local layers = {}
  local dtype = found.dtype == "float32" and "float32" or "float64"
  for l = 1, #sizes - 1 do
    local n, k = math.tointeger(sizes[l]), math.tointeger(sizes[l + 1])
    if not (n and k and n > 0 and k > 0 and n < 1 << 24 and k < 1 << 24) then
      return form.record { sizes = form.refused "be sizes of layers" }
    end
    local mean = form.tensor { dtype = dtype, shape = { n + 1, k }, finite = true }
    local square = form.tensor { dtype = dtype, shape = { n + 1, n + 1 }, finite = true }
    layers[l] = form.record { prior_mean = mean, prior_precision = square, mean = mean, precision = square }
  end
  local all = {}
  for l, each in ipairs(layers) do all[l] = each end
  local positive = form.number { above = 0 }
  return form.record { kind = form.text(KIND), dtype = form.text("float64", "float32"), seen = form.whole(0),
    sizes = form.list(form.whole(1)), layers = form.record(all), prior_precision = positive, noise_precision = positive,
    unit_precision = positive }
end

local net_file = saved.file { noun = "net that relu_net:save has written", read = checkpoint.load,
  is = function(found) return found.kind == KIND end, form = net_form }

local function root_of(precision)
  local root, message = precision:cholesky()
  if not root then
    core.error("restore: a precision must be positive definite: " .. message)
  end
  return root
end

local function restored(found)
  local self = relu_net.new { sizes = found.sizes, dtype = found.dtype, prior_precision = found.prior_precision,
    noise_precision = found.noise_precision, unit_precision = found.unit_precision, seed = 0 }
  local p = inner[self]
  for l, w in ipairs(found.layers) do
    local own = p.layers[l]
    for _, name in ipairs(KEPT) do own[name] = w[name] end
    own.root = root_of(w.precision)
    own.cov = own.root:cholesky_solve(core.eye(w.precision:size(1), { dtype = found.dtype }))
    own.prior_log_det = root_of(w.prior_precision):diagonal():log():sum():item() * 2
  end
  p.seen = found.seen
  return self
end

saved.restored_by(net_file, function(path, asked)
  options.check("restore", asked, {})
  local found, message, code = saved.read("restore", path, net_file)
  if not found then
    return nil, message, code
  end
  return saved.make("restore", path, recording.off, restored, found)
end)

core.namespace("a relu_net", methods)

return relu_net
