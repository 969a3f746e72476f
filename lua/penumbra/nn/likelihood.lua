--- Likelihoods: what the outputs f of a network say of data y. Autoencoders, forecasters, the learner on streams, its
--- sites, Laplace's approximation and infer.expected_log_likelihood take them by name, or made here, or in Lua.
---
---     local l = pn.nn.likelihood.normal { scale = 0.1 }    -- the scale is fixed: one output, the mean
---     l(f)                       the distribution of y
---     l:value(y, f)              log p(y | f)
---     l:slope(y, f)              its derivative in f, like f;   l:curvature(y, f)  the second one
---     l:expectation(y, m, v)     E log p(y | f) for independent normal f of mean m and variance v
---     l:predictive(m, v)         the distribution of y for such f, where it is known
---
---   normal             loc, scale (or precision = 1 / scale^2, or log_scale)
---   student_t          df (of outputs: above 2), loc, scale
---   bernoulli          logits of 0 or 1
---   probit             margin: 1 with probability Phi(margin); seen with noise of this `precision`, a parameter
---   categorical        logits of `classes` labels, int64 from 0 on
---   poisson            rate, of outputs their exponential
---   negative_binomial  mean and dispersion a: the variance is mean + a mean^2
---   mixture            of `components` normals: logits, loc, scale
---
--- What is not given as a parameter is an output. l.width of them, in this order, make the last axis of f, [..., width]
--- for y [...]; where l.width is 1 there is no such axis and f is like y, but for categorical, always [..., classes].
--- curvature is like f, or [..., width, width]. Positive numbers are softplus(output) + 1e-6.
---
--- expectation is exact where it is closed (normal, poisson), of second order in f for categorical; otherwise with one
--- output by Gauss-Hermite quadrature with `points` (64), with several the mean of `draws` (1000) by `generator`.
---
--- In Lua: a function of outputs that gives a distribution of y, elementwise, is a likelihood with one output. A table
--- with the fields of a row ({heads = {"loc"}, law = function(h) return pn.dist.laplace(h.loc, 1) end}) is one with as
--- many as it has heads; pn.help "penumbra.nn.likelihood_rows" has the fields. `law` is enough: value, slope and
--- curvature follow by automatic differentiation.
-- help: pn.nn.likelihood, methods
local core = require "penumbra.core"
local matrix = require "penumbra.array.matrix"
local options = require "penumbra.options"
local recording = require "penumbra.autodiff.recording"
local dist = require "penumbra.distribution"
local rows = require "penumbra.nn.likelihood_rows"

local likelihood = {}
local methods = {}
local class = { __name = "likelihood", __index = core.namespace("a likelihood", methods) }

local LEAST <const> = 1e-6

-- Outputs as numbers of their kind.
local maps = {
  positive = function(f) return f:softplus() + LEAST end,
  above_two = function(f) return f:softplus() + 2 end,
}

-- ---- making ----

local bounds = { positive = { 0, "positive" }, above_two = { 0, "positive" }, whole = { 0, "a positive whole number" } }

local function check_parameter(where, name, v, constraint)
  local low = bounds[constraint]
  if core.is_tensor(v) then
    return v
  end
  local whole = constraint ~= "whole" or math.tointeger(v)
  if type(v) ~= "number" or v ~= v or low and not (v > low[1]) or not whole then
    core.error(("%s: %s must be %s, got %s"):format(where, name, low and low[2] or "a number", tostring(v)))
  end
  return constraint == "whole" and math.tointeger(v) or v
end

local known_by_row = setmetatable({}, { __mode = "k" })

-- What may be given to a row: heads, words for them, parameters.
local function known_of(row)
  local known = known_by_row[row]
  if known then
    return known
  end
  known = {}
  known_by_row[row] = known
  for _, head in ipairs(row.heads) do
    known[head] = not (row.sizes and row.sizes[head]) and options.any(nil) or nil
  end
  for name in pairs(row.noise or {}) do known[name] = options.any(nil) end
  for name, default in pairs(row.parameters or {}) do known[name] = options.any(default or nil) end
  return known
end

-- The parameters that have defaults.
local function defaults_of(row)
  local p = {}
  for name, default in pairs(row.parameters or {}) do p[name] = default or nil end
  return p
end

local function size_of(row, p, head)
  return row.sizes and row.sizes[head] and p[row.sizes[head]]
end

-- The likelihood of a row with checked parameters p.
local function made(name, row, p)
  local fixed, heads, width, wide = {}, {}, 0, false
  for word, head in pairs(row.noise or {}) do fixed[head] = fixed[head] or p[word] ~= nil end
  for _, head in ipairs(row.heads) do
    if not fixed[head] and p[head] == nil then
      local n = size_of(row, p, head)
      heads[#heads + 1], width, wide = head, width + (n or 1), wide or n ~= nil
    end
  end
  return setmetatable({ name = name, row = row, parameters = p, heads = heads, width = width,
    vector = wide or width > 1, closed = #heads == 1 and heads[1] == row.at }, class)
end

-- A likelihood of a row, p its parameters, of known names.
local function of_row(where, name, row, p)
  for parameter, v in pairs(p) do
    p[parameter] = check_parameter(where, parameter, v, (row.constraint or {})[parameter])
  end
  for parameter, default in pairs(row.parameters or {}) do
    if not default and p[parameter] == nil then
      core.error(("%s: %s must be given"):format(where, parameter))
    end
  end
  for word, head in pairs(row.noise or {}) do
    for other in pairs(p) do
      if p[word] ~= nil and other ~= word and (other == head or row.noise[other] == head) then
        core.error(("%s: %s and %s say the same, give one of them"):format(where, other, word))
      end
    end
  end
  return made(name, row, p)
end

for name, row in pairs(rows) do
  likelihood[name] = function(given)
    local where = "likelihood." .. name
    return of_row(where, name, row, options.check(where, given or {}, known_of(row)))
  end
end

--- The names of all likelihoods, sorted.
likelihood.names = {}
for name in pairs(rows) do
  likelihood.names[#likelihood.names + 1] = name
end
table.sort(likelihood.names)

-- The row of a script's function of one output.
local function of_function(where, role, f)
  return { heads = { "output" }, law = function(h)
    local law = f(h.output)
    options.argument(where, role .. "(f)", law, "distribution")
    return law
  end }
end

local function check_own(where, role, row)
  if type(row.law) ~= "function" then
    core.error(("%s: %s.law must be a function that gives a distribution, got %s"):format(where, role, type(row.law)))
  elseif type(row.heads) ~= "table" or type(row.heads[1]) ~= "string" then
    core.error(("%s: %s.heads must be a list of names, one for each output"):format(where, role))
  end
  return row
end

local function quoted(names)
  return "'" .. table.concat(names, "', '") .. "'"
end

--- read(where, given [, {parameters =, role = "likelihood", without =}]): the likelihood that a script gave as its
--- option `role`: by its name with these parameters (those it does not know are left out), made, a table with the
--- fields of a row, or a function of outputs that gives a distribution. without: a kind of targets that the caller
--- cannot take.
function likelihood.read(where, given, o)
  o = options.argument(where, "options", o or {}, "table")
  local role = o.role or "likelihood"
  if getmetatable(given) == class then
    if o.without and given.row.targets == o.without then
      core.error(("%s: %s must not be %s, which is of %ss"):format(where, role, given.name, o.without))
    end
    return given
  elseif type(given) == "function" then
    return made("function", of_function(where, role, given), {})
  elseif type(given) == "table" then
    local row = check_own(where, role, given)
    return of_row(where, row.name or "function", row, defaults_of(row))
  elseif given == "gaussian" then
    core.error(where .. ": gaussian is called normal")
  end
  local row, names = rows[given], {}
  if row and (not o.without or row.targets ~= o.without) then
    local known, p = known_of(row), defaults_of(row)
    for key, v in pairs(o.parameters or {}) do
      if known[key] then p[key] = v end
    end
    return of_row(where, given, row, p)
  end
  for _, name in ipairs(likelihood.names) do
    names[#names + 1] = rows[name].targets ~= (o.without or false) and name or nil
  end
  return core.error(("%s: %s must be one of %s, a pn.nn.likelihood or a function, got %s"):format(where, role,
    quoted(names), type(given) == "string" and "'" .. given .. "'" .. options.suggestion(given, names) or type(given)))
end

--- is(v): whether v is a likelihood that was made here or a table with the fields of a row.
function likelihood.is(v)
  local meta = getmetatable(v)
  return meta == class or type(v) == "table" and meta == nil and type(v.law) == "function"
end

-- ---- outputs to distributions ----

--- law_from(take [, maps]): the distribution where take(k, head, size) gives the outputs of the k-th head, [...] or
--- [..., size]. maps {head or constraint = function}: other ways from outputs to numbers than those of the row.
function methods:law_from(take, own)
  local row, h, p = self.row, {}, self.parameters
  for _, head in ipairs(row.heads) do h[head] = p[head] end
  for k, head in ipairs(self.heads) do
    local y, constraint = take(k, head, size_of(row, p, head)), row.constraint and row.constraint[head]
    local map = own and own[head] or row.link and row.link[head] or own and own[constraint] or maps[constraint]
    h[head] = map and map(y) or y
  end
  return row.law(h, p)
end

--- size(head): of how many numbers a head is that is a vector; nil of others.
function methods:size(head)
  return size_of(self.row, self.parameters, head)
end

-- [..., data * n] as [..., data, n].
local function unfold(y, n)
  local shape = y:shape()
  shape[#shape] = shape[#shape] // n
  shape[#shape + 1] = n
  return y:reshape(shape)
end

--- law_of_blocks(f [, maps]): the distribution of y [..., data] where f [..., width * data] has all numbers of the
--- first head first, then those of the next.
function methods:law_of_blocks(f, own)
  local data, from = f:size(-1) // self.width, 0
  return self:law_from(function(_, _, size)
    local n = data * (size or 1)
    local y = #self.heads == 1 and f or f:slice(-1, from + 1, from + n)
    from = from + n
    return size and unfold(y, size) or y
  end, own)
end

--- law(f [, maps]), or l(f): the distribution of y [...] for outputs f [...] or [..., width].
function methods:law(f, own)
  if self.vector and (f:ndim() == 0 or f:size(-1) ~= self.width) then
    core.error(("%s: f must have %d outputs along its last axis, got shape [%s]"):format(self.name, self.width,
      table.concat(f:shape(), ", ")))
  end
  local from = 0
  return self:law_from(function(_, _, size)
    if #self.heads == 1 then return f end
    from = from + (size or 1)
    return size and f:slice(-1, from - size + 1, from) or f:select(-1, from)
  end, own)
end

class.__call = methods.law

function class:__tostring()
  return ("likelihood.%s(%s)"):format(self.name, table.concat(self.heads, ", "))
end

-- ---- values and derivatives ----

--- prepared(y, dtype): y as the closed forms take it, once for many calls of value, slope and curvature.
function methods:prepared(y, dtype)
  if self.closed and self.row.prepare and y:dtype() == "int64" then
    return self.row.prepare(y, self.parameters, dtype)
  end
  return self.row.targets ~= "label" and y:to(dtype) or y
end

-- Are the axes of y, from the last, those of x? What x has more stands before them, as draws do.
local function agrees(y, x, fewer)
  local have, want = y:shape(), x:shape()
  local ahead = #want - fewer - #have
  for k = 1, #have do
    if have[k] ~= want[ahead + k] then return false end
  end
  return ahead >= 0
end

-- Raises where y would be stretched: a column [n, 1] never meets outputs [n]. What `prepared` gives may be like f.
local function check_shapes(self, where, y, f)
  if not agrees(y, f, self.vector and 1 or 0) and not (self.vector and agrees(y, f, 0)) then
    core.error(("%s: y must have the shape of what f [%s] says of it%s, or its last axes, got [%s]"):format(where,
      table.concat(f:shape(), ", "), self.vector and ", all but the last axis" or "", table.concat(y:shape(), ", ")))
  end
end

--- value(y, f): log p(y | f), [...].
function methods:value(y, f)
  check_shapes(self, "value", y, f)
  y = self:prepared(y, f:dtype())
  if self.closed and self.row.value then
    return self.row.value(y, f, self.parameters)
  end
  return self:law(f):log_prob(y)
end

-- d sum(value) / d f with its graph, and f.
local function slope_with_graph(self, y, f, again)
  f = f:detach()
  f:requires_grad(true)
  return core.grad(self:value(y, f):sum(), { f }, { create_graph = again })[1], f
end

--- slope(y, f): d value / d f, like f.
function methods:slope(y, f)
  check_shapes(self, "slope", y, f)
  if self.closed and self.row.slope then
    return self.row.slope(self:prepared(y, f:dtype()), f, self.parameters)
  end
  return (recording.on(slope_with_graph, self, y, f, false)):detach()
end

local function second(self, y, given)
  local slope, f = slope_with_graph(self, y, given, true)
  local function of(t)
    return t:requires_grad() and core.grad(t:sum(), { f }, { create_graph = true })[1]:detach()
      or f:detach():zeros_like()
  end
  if not self.vector then
    return of(slope)
  end
  local columns = {}
  for k = 1, self.width do columns[k] = of(slope:select(-1, k)) end
  return core.stack(columns, -1)
end

--- curvature(y, f): the second derivatives, like f or [..., width, width].
function methods:curvature(y, f)
  check_shapes(self, "curvature", y, f)
  if self.closed and self.row.curvature then
    return self.row.curvature(self:prepared(y, f:dtype()), f, self.parameters)
  end
  return recording.on(second, self, y, f)
end

-- ---- normal outputs ----

-- Nodes and weights of Gauss-Hermite quadrature for a standard normal: eigenvalues of the Jacobi matrix and the squares
-- of the first components of its eigenvectors. Golub & Welsch 1969.
local function hermite(n, dtype)
  local off = matrix.diag(core.arange(1, n):to "float64":sqrt(), 1)
  local x, vectors = (off + off:t()):eigh()
  return x:to(dtype), vectors:select(1, 1):square():to(dtype)
end

-- value at f [K, ...] for y [...]
local function value_of_each(self, y, f)
  local shape = y:shape()
  table.insert(shape, 1, f:size(1))
  return self:value(y:unsqueeze(1):broadcast_to(shape), f)
end

local function leading(t, like)
  local shape = { t:size(1) }
  for k = 1, like:ndim() do shape[k + 1] = 1 end
  return t:reshape(shape)
end

--- expectation(y, mean, variance [, {points = 64, draws = 1000, generator =}]): E value(y, f) for independent normal f.
function methods:expectation(y, mean, variance, given)
  check_shapes(self, "expectation", y, mean)
  if self.closed and self.row.expectation then
    return self.row.expectation(y, mean, variance, self.parameters)
  end
  local o = options.check("expectation", given or {}, { points = 64, draws = 1000,
    generator = options.optional "generator" })
  if not self.vector then
    local x, w = hermite(options.whole("expectation", "points", o.points, 2), mean:dtype())
    return (value_of_each(self, y, mean + variance:sqrt() * leading(x, mean)) * leading(w, mean)):sum(1)
  end
  local shape = mean:shape()
  table.insert(shape, 1, o.draws)
  local eps = core.randn(shape, { dtype = mean:dtype(), generator = o.generator })
  return value_of_each(self, y, mean + variance:sqrt() * eps):mean(1)
end

--- predictive(mean, variance): the distribution of y for independent normal f; an error where none is known.
function methods:predictive(mean, variance)
  if self.closed and self.row.predictive then
    return self.row.predictive(mean, variance, self.parameters)
  elseif self.row.targets == "binary" and self.row.probabilities then
    local x, w = hermite(64, mean:dtype())
    local p = self.row.probabilities(mean + variance:sqrt() * leading(x, mean), self.parameters)
    return dist.bernoulli { probs = (p * leading(w, mean)):sum(1) }
  end
  return core.error(("predictive: none is known for %s, draw outputs instead"):format(self.name))
end

return likelihood
