--- Levels of latents z_1 (nearest to the data) to z_L, their prior and the posteriors that are drawn from:
---
---     p(z) = p(z_L) p(z_{L-1} | z_L) ... p(z_1 | z_2), each given factor normal by a network
---     backward   q(z | x) = q(z_1 | x) q(z_2 | z_1) ... q(z_L | z_{L-1})              Burda et al. 2016
---     ladder     q(z | x) = prod_l h(z_l | x) p(z_l | z_{l+1}) / Z_l, from l = L down    Soenderby et al. 2016
---
--- where d_1 = f_1(x), d_l = f_l(d_{l-1}) run up, h(z_l | x) = N(m_l(d_l), v_l(d_l)), and the product of two normals
--- has the sum of their precisions and of their precision-weighted means. With a flow (one level) z = f(e), e from the
--- normal of the encoder. With one level there is nothing to multiply but the prior: backward is used.
local core = require "penumbra.core"
local decoder = require "penumbra.models.decoder"
local dist = require "penumbra.distribution"
local nn = require "penumbra.nn"
local parameters = require "penumbra.parameters"

local hierarchy = {}

local normal_law = decoder.normal_law

local function multilayer(sizes, activation, dtype)
  return nn.mlp(sizes, { init = "xavier", activation = activation, dtype = dtype })
end

-- h, and the condition along its last axis.
local function beside(h, c)
  if c == nil then
    return h
  elseif h:ndim() > c:ndim() then
    local shape = h:shape()
    shape[#shape] = c:size(-1)
    c = c:broadcast_to(shape)
  end
  return core.concatenate({ h, c }, -1)
end

hierarchy.beside = beside

--- product(a, b): the normal proportional to the product of the densities of two (log-variance) normals, given as a
--- network's outputs: means m, then logarithms u of variances. By shares of the precision, which cannot overflow:
---   w = sigmoid(u_b - u_a),  mean m_b + w (m_a - m_b),  log variance -log(e^-u_a + e^-u_b)
function hierarchy.product(a, b)
  local n = a:size(-1) // 2
  local ma, mb, ua, ub = a:slice(-1, 1, n), b:slice(-1, 1, n), a:slice(-1, n + 1, 2 * n), b:slice(-1, n + 1, 2 * n)
  local loc = mb + (ub - ua):sigmoid() * (ma - mb)
  return dist.normal(loc, ((-ua):logaddexp(-ub) * -0.5):exp()):independent(1)
end

-- One value of each latent: the given one, the mean, or draws (k of them at the first latent that is drawn).
local function value(run, law, level)
  if run.given then
    return run.given[level]
  elseif run.mean then
    return law:mean()
  elseif run.draws then
    local k = run.draws
    run.draws = nil
    return law:rsample { k }
  end
  return law:rsample()
end

-- The output of the network of p(z_l | z_{l+1}) or of p(z_L | c); nil for the standard normal.
local function prior_output(self, level, above, c)
  local net = self.prior[level]
  return net and net(level == self.levels and c or above) or nil
end

local function prior_law(self, output)
  return output and normal_law(output) or self.standard
end

local function run_backward(self, run, x, c)
  local below = beside(x, c)
  for level = 1, self.levels do
    local q = normal_law(self.encoder[level](below))
    local z = value(run, q, level)
    run.q[level], run.z[level] = q, z
    below = z
  end
  for level = 1, self.levels do
    run.p[level] = prior_law(self, prior_output(self, level, run.z[level + 1], c))
  end
end

local function run_ladder(self, run, x, c)
  local d, h = beside(x, c), {}
  for level = 1, self.levels do
    d = self.encoder[level](d)
    h[level] = self.heads[level](d)
  end
  for level = self.levels, 1, -1 do
    local output = prior_output(self, level, run.z[level + 1], c) or self.standard_output
    local q = hierarchy.product(h[level], output)
    run.p[level] = level == self.levels and not self.prior[level] and self.standard or normal_law(output)
    run.q[level], run.z[level] = q, value(run, q, level)
  end
end

local function run_flow(self, run, x, c)
  local base = normal_law(self.encoder[1](beside(x, c)))
  if run.given then
    run.z[1] = run.given[1]
    run.log_q = dist.transformed(base, self.flow):log_prob(run.z[1])
  else
    local e = value(run, base, 1)
    local z, log_det = self.flow:forward_log_det(e)
    run.z[1], run.log_q = z, base:log_prob(e) - log_det
  end
  run.q[1], run.p[1] = base, prior_law(self, prior_output(self, 1, nil, c))
end

local methods = {}

--- run(x, c, how): the latents z, their laws q and p given what each is drawn from, and log_q of a flow. how.draws: k
--- draws side by side, [k, B, ...]; how.mean: means instead of draws; how.given: latents to be used.
function methods:run(x, c, how)
  local run = { z = {}, q = {}, p = {}, draws = how.draws, mean = how.mean, given = how.given }
  self.walk(self, run, x, c)
  return run
end

--- log_prior(run): log p(z), [B] or [k, B].
function methods:log_prior(run)
  local sum = run.p[1]:log_prob(run.z[1])
  for level = 2, self.levels do
    sum = sum + run.p[level]:log_prob(run.z[level])
  end
  return sum
end

--- log_posterior(run): log q(z | x), [B] or [k, B].
function methods:log_posterior(run)
  local sum = run.log_q or run.q[1]:log_prob(run.z[1])
  for level = 2, self.levels do
    sum = sum + run.q[level]:log_prob(run.z[level])
  end
  return sum
end

--- relative_entropy(run): an estimate of KL(q || p), [B] or [k, B], in closed form at each level where q and p depend
--- on the same draws.
function methods:relative_entropy(run)
  if run.log_q then
    return run.log_q - run.p[1]:log_prob(run.z[1])
  end
  local sum
  for level = 1, self.levels do
    local q, p = run.q[level], run.p[level]
    local closed = self.structure == "ladder" or level == self.levels
    local term = closed and dist.kl(q, p) or q:log_prob(run.z[level]) - p:log_prob(run.z[level])
    sum = sum and sum + term or term
  end
  return sum
end

--- generate(n, c): draws of all latents from the prior, [n, ...].
function methods:generate(n, c)
  local z = {}
  for level = self.levels, 1, -1 do
    local output = prior_output(self, level, z[level + 1], c)
    z[level] = output and normal_law(output):sample() or self.standard:sample { n }
  end
  return z
end

for name, method in pairs(parameters.methods) do
  methods[name] = method
end

local class = { __index = core.namespace("a hierarchy of latents", methods) }

local walks = { backward = run_backward, ladder = run_ladder, flow = run_flow }

local function reversed(list)
  local out = {}
  for k = #list, 1, -1 do
    out[#out + 1] = list[k]
  end
  return out
end

hierarchy.reversed = reversed

local function with(first, middle, last)
  local sizes = { first, table.unpack(middle) }
  sizes[#sizes + 1] = last
  return sizes
end

-- flows of vectors of n, the order turned round between them.
local function new_flow(o, n)
  local b, parts = dist.bijector, {}
  local turn = {}
  for k = 1, n do
    turn[k] = n - k
  end
  for k = 1, o.flows do
    parts[#parts + 1] = b.random(o.flow, n, { hidden = { o.flow_hidden }, dtype = o.dtype })
    if k < o.flows and n > 1 and o.flow ~= "planar" then
      parts[#parts + 1] = b.permutation { index = turn }
    end
  end
  return #parts == 1 and parts[1] or b.chain(parts)
end

--- new(o): o.latent (a list, from the data up), o.hidden (a list of lists), o.inputs, o.condition (size or 0),
--- o.conditional_prior, o.structure ("backward", "ladder", "flow"), o.activation, o.dtype, o.flow, o.flows,
--- o.flow_hidden; o.first, a network of one's own in the place of the first level's encoder (of no ladder).
function hierarchy.new(o)
  local levels, encoder, heads, prior = #o.latent, {}, {}, {}
  local f = { dtype = o.dtype }
  for level = 1, levels do
    local from = level == 1 and o.inputs + o.condition or nil
    local hidden, n = o.hidden[level], o.latent[level]
    if level == 1 and o.first then
      encoder[1] = o.first
    elseif o.structure == "ladder" then
      local before = o.hidden[level - 1] or {}
      encoder[level] = multilayer({ from or before[#before], table.unpack(hidden) }, o.activation, o.dtype)
      table.insert(encoder[level], nn[o.activation]())
      heads[level] = multilayer({ hidden[#hidden], 2 * n }, o.activation, o.dtype)
    else
      encoder[level] = multilayer(with(from or o.latent[level - 1], hidden, 2 * n), o.activation, o.dtype)
    end
    if level < levels then
      prior[level] = multilayer(with(o.latent[level + 1], reversed(o.hidden[level + 1]), 2 * n), o.activation, o.dtype)
    elseif o.conditional_prior then
      prior[level] = multilayer(with(o.condition, reversed(hidden), 2 * n), o.activation, o.dtype)
    end
  end
  local top = o.latent[levels]
  return setmetatable({ levels = levels, structure = o.structure, encoder = encoder, heads = heads, prior = prior,
    flow = o.structure == "flow" and new_flow(o, top) or nil, walk = walks[o.structure],
    standard = dist.normal(core.zeros({ top }, f), core.ones({ top }, f)):independent(1),
    standard_output = core.zeros({ 2 * top }, f) }, class)
end

return hierarchy
