--- Guides: the variational posteriors that pn.svi fits. A guide is a model of one's own over the same latent sites, or
--- one of these, made for a model by name; they live in the unconstrained space of all its continuous latent variables:
---
---     delta        a point: the mode of the density (maximum a posteriori; of the constrained variables)
---     mean_field   independent normals
---     full_rank    one multivariate normal
---     low_rank     a multivariate normal with covariance W W^T + diagonal; option rank
---     flow         a standard normal through inverse autoregressive flows; options flows, hidden
---     laplace      a multivariate normal around the mode with the inverse of the negative Hessian there
---
---     pn.svi(model, "full_rank", {data = {x, y}})
---     pn.svi(model, pn.infer.guide("low_rank", {rank = 3}), {data = {x, y}})
-- help: none
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local optim = require "penumbra.optim"
local options = require "penumbra.options"

local guide = {}

local kinds = {}

-- What C says of a point where the density is 0.
local OUTSIDE = { domain = true, nan = true, singular = true }

-- ---- what the kinds share ----

-- The best of some random starts.
local function good_start(target, o)
  if o.init then
    return target:start_at(o.init, function(z) return target:log_density(z, true, true) end, o.radius)
  end
  local best, most
  for _ = 1, 20 do
    local z = target:start(o.radius)
    local ok, lp = pcall(function() return target:log_density(z, true, true):item() end)
    if ok and lp == lp and lp < math.huge and (not most or lp > most) then
      best, most = z, lp
    end
  end
  if not best then
    core.error "svi: no start with positive density was found in 20 tries (give init, a table site -> value)"
  end
  return best
end

local function column(v, n)
  return core.full({ n }, v, { dtype = "float64" })
end

-- The law of z as a distribution with event [n], where the kind has one.
local function entropy_bound(self, particles)
  local q = self:law()
  local total
  for _ = 1, particles do
    local z = q:rsample()
    local lp = self.target:log_density(z)
    total = total and total + lp or lp
  end
  return total / particles + q:entropy()
end

-- n log-weights log density(z) - log q(z) of draws from the guide: [n, 1]; and the draws [n, size]. No gradient.
local function drawn_log_weights(self, n)
  local z, lq = self:law():rsample_log_prob { n }
  z = z:detach()
  return self.target:log_densities(z) - lq:detach():unsqueeze(2), z
end

-- ---- the kinds ----

kinds.mean_field = {
  options = { scale = 0.1 },
  make = function(self, start, o)
    self.params = { { "loc", core.param(start) }, { "log_scale", core.param(column(math.log(o.scale), self.size)) } }
  end,
  law = function(self)
    return dist.normal(self.params[1][2], self.params[2][2]:exp()):independent(1)
  end,
  bound = entropy_bound,
}

kinds.full_rank = {
  options = { scale = 0.1 },
  make = function(self, start, o)
    local n = self.size
    self.factor = dist.biject_to "lower_cholesky"
    local l = self.factor:inverse(core.eye(n, { dtype = "float64" }) * o.scale)
    self.params = { { "loc", core.param(start) }, { "scale", core.param(l) } }
  end,
  law = function(self)
    return dist.multivariate_normal { loc = self.params[1][2], scale_tril = self.factor:forward(self.params[2][2]) }
  end,
  bound = entropy_bound,
}

kinds.low_rank = {
  options = { scale = 0.1, rank = options.optional "number" },
  make = function(self, start, o)
    local n = self.size
    local rank = o.rank or math.max(1, math.floor(math.sqrt(n)))
    if math.type(rank) ~= "integer" or rank < 1 or rank > n then
      core.error(("guide: rank must be a whole number from 1 to %d, got %s"):format(n, tostring(rank)))
    end
    self.params = { { "loc", core.param(start) },
      { "factor", core.param(core.randn({ n, rank }, { dtype = "float64" }) * (o.scale / math.sqrt(rank))) },
      { "log_diagonal", core.param(column(2 * math.log(o.scale), n)) } }
  end,
  law = function(self)
    return dist.low_rank_multivariate_normal { loc = self.params[1][2], cov_factor = self.params[2][2],
      cov_diag = self.params[3][2]:exp() }
  end,
  bound = entropy_bound,
}

kinds.flow = {
  options = { flows = 2, hidden = options.any { 32 }, scale = 0.1 },
  make = function(self, start, o)
    local n, parts = self.size, {}
    local loc, log_scale = core.param(start), core.param(column(math.log(o.scale), n))
    self.params = { { "loc", loc }, { "log_scale", log_scale } }
    for k = 1, o.flows do
      local b = dist.bijector.random("inverse_autoregressive", n, { hidden = o.hidden, dtype = "float64" })
      for _, entry in ipairs(b:named_parameters()) do
        self.params[#self.params + 1] = { ("flow.%d.%s"):format(k, entry[1]), entry[2] }
      end
      parts[#parts + 1] = b
      if n > 1 then
        local order = {}
        for i = 1, n do
          order[i] = n - i
        end
        parts[#parts + 1] = dist.bijector.permutation { index = core.tensor(order, { dtype = "int64" }) }
      end
    end
    self.parts = parts
  end,
  law = function(self)
    local list = { table.unpack(self.parts) }
    list[#list + 1] = dist.bijector.affine(self.params[1][2], self.params[2][2]:exp())
    return dist.transformed(dist.normal(column(0, self.size), 1):independent(1), dist.bijector.chain(list))
  end,
  bound = function(self, particles)
    local q, total = self:law(), nil
    for _ = 1, particles do
      local z, lq = q:rsample_log_prob()
      local term = self.target:log_density(z) - lq
      total = total and total + term or term
    end
    return total / particles
  end,
}

kinds.delta = {
  options = {},
  make = function(self, start)
    self.params = { { "loc", core.param(start) } }
  end,
  bound = function(self)
    return self.target:log_density(self.params[1][2], false)
  end,
  draw = function(self, n)
    return self.params[1][2]:detach():unsqueeze(1):broadcast_to({ n, self.size }):contiguous()
  end,
}

-- L-BFGS on the log density from where first-order steps have ended, which go through a long valley (a regression whose
-- inputs are far from 0) too slowly. Where it finds nothing higher the place stays.
local function climb(self)
  local w, target = self.params[1][2], self.target
  local before = w:detach():contiguous()
  local function loss()
    return -target:log_density(w, true, true)
  end
  local start = loss():item()
  local optimiser = optim.lbfgs({ w }, { max_steps = 500, history = 20, tolerance_change = 1e-12 })
  local ok, last = pcall(function()
    optimiser:step(loss)
    return loss():item()
  end)
  if not ok and not OUTSIDE[core.raised_status(last)] then
    error(last, 0)
  elseif not ok or not (last <= start) then
    w:set(before)
  end
end

kinds.laplace = {
  options = {},
  make = kinds.delta.make,
  bound = function(self)
    return self.target:log_density(self.params[1][2])
  end,
  finish = function(self)
    climb(self)
    guide.newton(self)
    local precision = -guide.hessian(self.target, self.params[1][2]:detach())
    local factor, why = precision:cholesky()
    if not factor then
      core.error(("svi: the Hessian at the point found is not negative definite (%s): it is no mode; more steps or "
        .. "another start (init) may find one"):format(tostring(why)))
    end
    self.normal = dist.multivariate_normal { loc = self.params[1][2]:detach(), precision_matrix = precision }
  end,
  law = function(self)
    if not self.normal then
      core.error "guide: the law of a laplace guide is known when pn.svi has ended"
    end
    return self.normal
  end,
}

-- ---- modes ----

--- The Hessian of a target's log density at z [n]: [n, n].
function guide.hessian(target, z)
  local x = z + target.zero
  local g = core.grad(target:log_density(x, true, true), { x }, { create_graph = true })[1]
  local rows = {}
  for i = 1, z:size(1) do
    rows[i] = core.grad(g:slice(1, i, i):sum(), { x })[1]
  end
  local h = core.stack(rows, 1)
  return (h + h:t()) * 0.5
end

--- Newton's steps on log density from where first-order steps have ended, as long as they rise.
function guide.newton(self)
  local w, target = self.params[1][2], self.target
  for _ = 1, 20 do
    local z = w:detach()
    local x = z + target.zero
    local lp = target:log_density(x, true, true)
    local g = core.grad(lp, { x })[1]
    local factor = (-guide.hessian(target, z)):cholesky()
    if not factor then
      return
    end
    local step = factor:cholesky_solve(g:unsqueeze(2)):squeeze(2)
    local size, risen = 1, false
    for _ = 1, 20 do
      local next_z = z + step * size
      local ok, higher = pcall(function() return target:log_density(next_z, true, true):item() end)
      if ok and higher >= lp:item() then
        w:set(next_z:detach())
        risen = true
        break
      end
      size = size / 2
    end
    if not risen or (step * step):sum():item() < 1e-20 then
      return
    end
  end
end

-- ---- guides ----

local methods = {}

--- List of {name, parameter}.
function methods:named_parameters()
  local list = {}
  for k, entry in ipairs(self.params) do
    list[k] = { "guide." .. entry[1], entry[2] }
  end
  return list
end

--- n draws of the unconstrained vector: [n, size].
function methods:draw_real(n)
  if self.kind.draw then
    return self.kind.draw(self, n)
  end
  return self:law():sample { n }:detach()
end

--- The law of the unconstrained vector, a distribution (delta has none).
function methods:law()
  if not self.kind.law then
    core.error(("guide: '%s' has no density"):format(self.name))
  end
  return self.kind.law(self)
end

--- The terms of n draws for estimators of weights: tables of log_p and log_q, [n, 1]; with path also fixed_q, and
--- fixed_p where it is "weighted", of the same draws held fixed. Internal.
function methods:densities(n, path)
  local q = self:law()
  local z, log_q = q:rsample_log_prob { n }
  local terms = { log_q = log_q:unsqueeze(2) }
  local function density(x)
    local rows = {}
    for k = 1, n do
      rows[k] = self.target:log_density(x[k])
    end
    return core.stack(rows, 1):unsqueeze(2)
  end
  terms.log_p = density(z)
  if path then
    local fixed = z:detach()
    terms.fixed_q = q:log_prob(fixed):unsqueeze(2)
    terms.fixed_p = path == "weighted" and density(fixed) or nil
  end
  return terms
end

local class = { __index = methods, __name = "guide", __tostring = function(self)
  return ("guide %s of %d numbers"):format(self.name, self.size)
end }

-- What pn.infer.guide gives: a name and options, to be made for a model.
local plan_class = { __name = "guide", __tostring = function(self) return "guide " .. self.name end }

--- guide(name, options) -> a guide to be given to pn.svi. Options of all: init, a table site -> value to start from;
--- radius (2) of random starts; scale (0.1), the standard deviation at the start; rank, flows, hidden as named above.
function guide.new(name, given)
  local kind = kinds[name]
  if not kind then
    local names = {}
    for each in pairs(kinds) do
      names[#names + 1] = each
    end
    table.sort(names)
    core.error(("guide: there is no guide '%s', there are %s%s"):format(tostring(name), table.concat(names, ", "),
      options.suggestion(name, names)))
  end
  local known = { init = options.any(false), radius = 2 }
  for key, value in pairs(kind.options) do
    known[key] = value
  end
  return setmetatable({ name = name, kind = kind, options = options.check("guide", given, known) }, plan_class)
end

--- Is x what guide.new gives?
function guide.is_plan(x)
  return type(x) == "table" and getmetatable(x) == plan_class
end

--- Makes a planned guide for a target (penumbra.infer.target). Internal.
function guide.make(plan, target)
  local self = setmetatable({ name = plan.name, kind = plan.kind, target = target, size = target.size }, class)
  plan.kind.make(self, good_start(target, plan.options), plan.options)
  self.bound = plan.kind.bound
  self.log_weights = plan.kind.law and drawn_log_weights or nil
  return self
end

return guide
