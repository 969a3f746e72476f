--- Mixtures of Gaussians, fitted by expectation maximisation in closed form, on data with gaps, too.
---
---     k ~ categorical(logits),   x ~ N(loc[k], cov[k])
---
---     local m = pn.models.gaussian_mixture{data = 2, components = 3}          -- covariance = "diagonal", "spherical"
---     local run = m:fit{data = x}             -- {log_likelihood =, history =, steps =, converged =}; NaN is missing
---     m:predict(x)                            -- probabilities [N, components] of the components
---     m:log_likelihood(x)                     -- [N], of what was observed
---     m:impute(x)  m:generate(5)  m:law()     -- conditional means in the gaps; draws; the law of x
---     m:save "m.safetensors"                  pn.restore "m.safetensors"
---
--- Options: data, the size of x; components; covariance, "full", "diagonal" or "spherical"; floor (0), below which no
--- eigenvalue of a covariance falls: without one the likelihood has no bound, and a component may fall onto a single
--- datum; dtype. Options of fit: max_steps (1000), tolerance (1e-9) of the mean log-likelihood of a datum, weights [N],
--- generator of the start (rows at random, far from one another: Arthur & Vassilvitskii 2007), on_step. The
--- log-likelihood never falls. It finds a maximum, not the highest: fit several and take the best. With gaps it holds a
--- matrix for each row and component. Dempster, Laird & Rubin 1977; Ghahramani & Jordan 1994.
-- help: pn.models, methods mixture
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local em_fit = require "penumbra.models.em_fit"
local form = require "penumbra.form"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local recording = require "penumbra.autodiff.recording"

local gaussian_mixture = {}
local methods = {}

local function zero(self) return core.zeros({}, { dtype = self.dtype }) end

-- Covariances [K, D, D], or variances [K, D] of what is not full.
local function variances(self)
  if self.covariance == "spherical" then
    return self.cov:unsqueeze(2):broadcast_to { self.components, self.data }
  end
  return self.cov
end

-- Of each row and component: log p(x seen | k) [N, K]; what x - loc[k] is, its mean where it was not seen [N, K, D];
-- and the covariance of that, [N, K, D, D] or [N, K, D], nil where all was seen.
local function look(self, x, seen)
  local off = (x:unsqueeze(2) - self.loc) * seen:unsqueeze(2)
  local whole = seen:size(1) == 1 and seen:gt(0):all():item()
  local count = seen:sum(2):unsqueeze(2) * core.log_2pi
  local cov = variances(self)
  if self.covariance ~= "full" then
    local there = seen:unsqueeze(2)
    local log_p = ((off:square() / cov):sum(3) + (there * cov:log()):sum(3) + count) * -0.5
    return log_p, off, not whole and (1 - there) * cov or nil
  end
  local column, row = seen:unsqueeze(2):unsqueeze(4), seen:unsqueeze(2):unsqueeze(3)
  local of_seen = whole and cov:unsqueeze(1) or cov * (column * row) + ((1 - seen):unsqueeze(2)):diag_embed()
  local root, message = of_seen:cholesky()
  if not root then
    core.error("gaussian_mixture: a covariance: " .. message .. "; give a floor")
  end
  local solved = root:cholesky_solve(off:unsqueeze(4)):squeeze(4)
  local log_det = root:diagonal():log():sum(-1) * 2
  local log_p = ((off * solved):sum(3) + log_det + count) * -0.5
  if whole then
    return log_p, off, nil
  end
  local across = cov * row -- from what was seen to all
  local mean = across:matmul(solved:unsqueeze(4)):squeeze(4)
  local rest = cov - across:matmul(root:cholesky_solve(across:transpose(-2, -1)))
  return log_p, core.where(seen:unsqueeze(2):eq(1), off, mean), rest * (1 - column * row)
end

local function joint(self, log_p) return log_p + self.logits:log_softmax(1) end

-- ---- the start ----

-- Rows far from one another: each is drawn with a probability that grows with the square of its distance, in standard
-- deviations of what was seen, from those that are there.
local function spread_rows(self, x, seen, w, scale, generator)
  local places, nearest = {}, nil
  local weight = w:squeeze(2)
  for k = 1, self.components do
    local chance = nearest and nearest * weight or weight
    local law = dist.categorical { logits = core.where(chance:gt(0), chance, chance * 0 + 1e-30):log() }
    local place = law:sample({ generator = generator }):item()
    places[k] = place
    local row = x:slice(1, place + 1, place + 1)
    local both = seen * (seen:size(1) > 1 and seen:slice(1, place + 1, place + 1) or seen)
    local apart = ((x - row):square() * both / scale):sum(2)
    nearest = nearest and nearest:minimum(apart) or apart
  end
  return x:take(1, core.tensor(places, { dtype = "int64" })), core.tensor(places, { dtype = "int64" })
end

local function begin(self)
  return function(x, seen, w, generator)
    if x:size(1) < self.components then
      core.error(("fit: data must have at least %d rows, one for each component"):format(self.components))
    end
    local mean, variance = em_fit.moments(x, seen, w)
    if not variance:gt(0):all():item() then
      core.error "fit: a column of the data does not vary"
    end
    local loc, places = spread_rows(self, x, seen, w, variance, generator)
    local there = seen:size(1) > 1 and seen:take(1, places) or seen
    self.loc:set(core.where(there:eq(1), loc, mean))
    self.logits:set(self.logits:detach() * 0)
    local shape = self.cov:shape()
    variance = variance:squeeze(1)
    self.cov:set((self.covariance == "full" and variance:diag_embed() or self.covariance == "diagonal" and variance
      or variance:mean()):broadcast_to(shape):contiguous())
  end
end

-- ---- a step ----

-- The covariance of the highest likelihood among those whose eigenvalues do not fall below the floor.
local function lifted(self, cov)
  if self.covariance ~= "full" then
    return cov:clamp(math.max(self.floor, 1e-300), math.huge)
  elseif self.floor == 0 then
    return cov
  end
  local values, vectors = cov:eigh()
  return (vectors * values:clamp(self.floor, math.huge):unsqueeze(2)):matmul(vectors:transpose(-2, -1))
end

local function em_step(self)
  return function(x, seen, w)
    local log_p, off, rest = look(self, x, seen)
    local total = joint(self, log_p)
    local each = total:logsumexp(2)
    local share = (total - each:unsqueeze(2)):exp() * w -- [N, K]
    local count = share:sum(1)
    local alive = count:gt(0)
    local safe = core.where(alive, count, zero(self) + 1)
    local move = (share:unsqueeze(3) * off):sum(1) / safe:unsqueeze(2)
    local left = off - move
    local cov
    if self.covariance == "full" then
      local weighted = left * share:unsqueeze(3)
      cov = weighted:permute({ 2, 3, 1 }):matmul(left:permute { 2, 1, 3 })
      cov = rest and cov + (share:unsqueeze(3):unsqueeze(4) * rest):sum(1) or cov
      cov = lifted(self, cov / safe:unsqueeze(2):unsqueeze(3))
    else
      cov = left:square()
      cov = (share:unsqueeze(3) * (rest and cov + rest or cov)):sum(1) / safe:unsqueeze(2)
      cov = lifted(self, self.covariance == "spherical" and cov:mean(2) or cov)
    end
    local value = ((each:unsqueeze(2) * w):sum() / w:sum()):item()
    local mask = alive
    for _ = 2, cov:ndim() do mask = mask:unsqueeze(-1) end
    self.cov:set(core.where(mask, cov, self.cov))
    self.loc:set(self.loc + core.where(alive:unsqueeze(2), move, zero(self)))
    self.logits:set(core.where(alive, safe, zero(self) + 1e-300):log())
    return value
  end
end

--- fit{data =, max_steps = 1000, tolerance = 1e-9, weights =, generator =, on_step =}: expectation maximisation on x
--- [N, data], NaN where it was not observed; again it goes on from where it stood. Gives {log_likelihood =, history =,
--- steps =, converged =}: mean log-likelihoods of a datum, each before its step.
function methods:fit(given)
  return em_fit.fit(self, given, begin(self), em_step(self))
end

--- log_likelihood(x): log density of what was observed of each row of x [N, data]: [N]. Differentiable in the
--- parameters.
function methods:log_likelihood(x)
  local rows, seen = em_fit.rows(self, "log_likelihood", x)
  return joint(self, (look(self, rows, seen))):logsumexp(2)
end

--- predict(x): probabilities of the components given what was observed of each row: [N, components].
function methods:predict(x)
  local rows, seen = em_fit.rows(self, "predict", x)
  return joint(self, (look(self, rows, seen))):softmax(2)
end

--- impute(x): x with its mean given the rest of the row in the place of each NaN.
function methods:impute(x)
  return recording.off(function()
    local rows, seen = em_fit.rows(self, "impute", x)
    local log_p, off = look(self, rows, seen)
    local share = joint(self, log_p):softmax(2)
    local mean = (share:unsqueeze(3) * (off + self.loc)):sum(2)
    return core.where(x:isnan(), mean, x)
  end)
end

--- law(): the law of x, a distribution.
function methods:law()
  local cov = variances(self)
  local parts = self.covariance == "full" and dist.multivariate_normal { loc = self.loc, covariance_matrix = cov }
    or dist.normal(self.loc, cov:sqrt()):independent(1)
  return dist.mixture(dist.categorical { logits = self.logits }, parts)
end

--- generate(n [, {generator =}]): n draws of x, [n, data].
function methods:generate(n, given)
  local o = options.check("generate", given, { generator = options.optional "generator" })
  n = options.whole("generate", "n", n, 1)
  return recording.off(function() return self:law():sample { n, generator = o.generator } end)
end

for name, method in pairs(parameters.methods) do methods[name] = method end

local class = { network = true, __name = "gaussian_mixture", __tostring = function(self)
  return ("gaussian_mixture(%d components, %d numbers, %s covariance)"):format(self.components, self.data,
    self.covariance)
end }

--- gaussian_mixture{data =, components =, covariance = "full", floor = 0, dtype =}: a mixture of Gaussians; pn.help
--- "penumbra.models.gaussian_mixture".
function gaussian_mixture.gaussian_mixture(given)
  local o = em_fit.options("gaussian_mixture", given, { components = options.required "number",
    covariance = options.choice("full", "diagonal", "spherical") })
  local f, k, d = { dtype = o.dtype }, o.components, o.data
  local cov = o.covariance == "full" and core.eye(d, f):broadcast_to({ k, d, d }):contiguous()
    or core.ones(o.covariance == "diagonal" and { k, d } or { k }, f)
  return setmetatable({ data = d, components = k, covariance = o.covariance, floor = o.floor, dtype = o.dtype,
    given = o, begun = false, logits = core.param(core.zeros({ k }, f)), loc = core.param(core.zeros({ k, d }, f)),
    cov = core.param(cov) }, class)
end

local function forms(m)
  local cov = m.covariance == "full" and form.tensor { like = m.cov, finite = true }
    or form.tensor { like = m.cov, positive = true }
  return { logits = form.tensor { like = m.logits, finite = true }, loc = form.tensor { like = m.loc, finite = true },
    cov = cov }
end

--- save(path): writes options and parameters; pn.restore(path) makes the model again. Returns true, or nil, message,
--- code.
methods.save = em_fit.file("Gaussian mixture", gaussian_mixture.gaussian_mixture, forms)
class.__index = core.namespace("a Gaussian mixture", methods)

return gaussian_mixture
