--- Factor analysis and probabilistic principal components, fitted by expectation maximisation in closed form.
---
---     z ~ N(0, I),   x = loc + loadings z + N(0, diag(variance))
---
---     local m = pn.models.factor_analysis{data = 10, latent = 3}              -- noise = "isotropic": PPCA
---     local run = m:fit{data = x}             -- {log_likelihood =, history =, steps =, converged =}; NaN is missing
---     m:log_likelihood(x)                     -- [N], of what was observed
---     m:encode(x)                             -- the posterior of z, a distribution
---     m:impute(x)  m:generate(5)  m:law()     -- conditional means in the gaps; draws; the law of x
---     m:save "m.safetensors"                  pn.restore "m.safetensors"
---
--- Options: data and latent, the sizes of x and z; noise, "diagonal" or "isotropic"; floor (0), below which no variance
--- falls (where one tends to 0, the likelihood has no bound: a Heywood case); dtype. Options of fit: max_steps (1000),
--- tolerance (1e-9) of the mean log-likelihood of a datum, weights [N], generator of the start, on_step. The
--- log-likelihood never falls. loadings are known up to a rotation. Rubin & Thayer 1982; Tipping & Bishop 1999.
-- help: pn.models, methods factors
local core = require "penumbra.core"
local dist = require "penumbra.distribution"
local em_fit = require "penumbra.models.em_fit"
local form = require "penumbra.form"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local recording = require "penumbra.autodiff.recording"

local factor_analysis = {}
local methods = {}

-- Posterior precision G = I + W^T diag(seen / variance) W of z, its Cholesky factor, W^T diag(seen / variance) (x -
-- loc) and the rest, for each row.
local function look(self, x, seen)
  local w = self.loadings
  local precision = seen / self.variance
  local off = (x - self.loc) * seen
  local g = (precision:unsqueeze(2) * w:t()):matmul(w) + core.eye(self.latent, { dtype = self.dtype })
  local root, message = g:cholesky()
  if not root then
    core.error("factor_analysis: the precision of the factors: " .. message)
  end
  return g, root, (precision * off):matmul(w), precision, off
end

-- Posterior mean of z [N, k], the factor of its precision, log-likelihoods [N].
local function explained(self, x, seen)
  local _, root, b, precision, off = look(self, x, seen)
  local mean = root:cholesky_solve(b:unsqueeze(3)):squeeze(3)
  local square = (precision * off:square()):sum(2) - (b * mean):sum(2)
  local log_det = (seen * self.variance:log()):sum(2) + root:diagonal():log():sum(-1) * 2
  return mean, root, (square + log_det + seen:sum(2) * core.log_2pi) * -0.5, off
end

local function begin(self)
  return function(x, seen, w, generator)
    local mean, variance = em_fit.moments(x, seen, w)
    if not variance:gt(0):all():item() then
      core.error "fit: a column of the data does not vary"
    end
    self.loc:set(mean:squeeze(1))
    self.variance:set(self.noise == "isotropic" and variance:mean():broadcast_to { self.data } or variance:squeeze(1))
    local noise = core.randn({ self.data, self.latent }, { dtype = self.dtype, generator = generator })
    self.loadings:set(noise * (variance:squeeze(1):unsqueeze(2) / self.latent):sqrt())
  end
end

-- Each number of x is a regression on (z, 1), with the moments of z given what was observed of its row.
local function em_step(self)
  return function(x, seen, w)
    local n, k, d = x:size(1), self.latent, self.data
    local mean, root, log_p, off = explained(self, x, seen)
    local eye = core.eye(k, { dtype = self.dtype })
    local cov = root:cholesky_solve(eye)
    local z = core.concatenate({ mean, core.ones({ n, 1 }, { dtype = self.dtype }) }, 2)
    local squares = z:unsqueeze(3) * z:unsqueeze(2) + core.pad(core.pad(cov, 2, 0, 1), 3, 0, 1)
    local share = (w * seen):broadcast_to { n, d }
    local a = share:t():matmul(squares:reshape { n, (k + 1) ^ 2 // 1 }):reshape { d, k + 1, k + 1 }
    local b = (share * off):t():matmul(z)
    local beta, message = a:solve(b:unsqueeze(3))
    if not beta then
      core.error("fit: the factors' second moments: " .. message)
    end
    beta = beta:squeeze(3)
    local left, count = (share * off:square()):sum(1) - (beta * b):sum(2), share:sum(1)
    local variance = self.noise == "isotropic" and (left:sum() / count:sum()):broadcast_to { d } or left / count
    local value = ((log_p:unsqueeze(2) * w):sum() / w:sum()):item()
    self.loc:set(self.loc + beta:select(2, k + 1))
    self.loadings:set(beta:slice(2, 1, k))
    self.variance:set(variance:clamp(math.max(self.floor, 1e-300), math.huge))
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
  return select(3, explained(self, rows, seen))
end

--- encode(x): the posterior of z given what was observed of each row: a distribution over [N] rows.
function methods:encode(x)
  local rows, seen = em_fit.rows(self, "encode", x)
  local g, root, b = look(self, rows, seen)
  local n = rows:size(1)
  local mean = root:cholesky_solve(b:unsqueeze(3)):squeeze(3)
  return dist.multivariate_normal { loc = mean, precision_matrix = g:broadcast_to { n, self.latent, self.latent } }
end

--- impute(x): x with its mean given the rest of the row in the place of each NaN.
function methods:impute(x)
  return recording.off(function()
    local rows, seen = em_fit.rows(self, "impute", x)
    local mean = explained(self, rows, seen)
    return core.where(x:isnan(), self.loc + mean:matmul(self.loadings:t()), x)
  end)
end

--- law(): the law of x, a distribution.
function methods:law()
  return dist.low_rank_multivariate_normal { loc = self.loc, cov_factor = self.loadings, cov_diag = self.variance }
end

--- generate(n [, {generator =}]): n draws of x, [n, data].
function methods:generate(n, given)
  local o = options.check("generate", given, { generator = options.optional "generator" })
  n = options.whole("generate", "n", n, 1)
  return recording.off(function() return self:law():sample { n, generator = o.generator } end)
end

for name, method in pairs(parameters.methods) do methods[name] = method end

local class = { __index = methods, network = true, __name = "factor_analysis", __tostring = function(self)
  return ("factor_analysis(%d -> %d, %s noise)"):format(self.data, self.latent, self.noise)
end }

--- factor_analysis{data =, latent =, noise = "diagonal", floor = 0, dtype =}: factor analysis, or with noise =
--- "isotropic" probabilistic principal components; pn.help "penumbra.models.factor_analysis".
function factor_analysis.factor_analysis(given)
  local o = em_fit.options("factor_analysis", given, { latent = options.required "number",
    noise = options.choice("diagonal", "isotropic") })
  o.latent = options.whole("factor_analysis", "latent", o.latent, 1)
  local f = { dtype = o.dtype }
  return setmetatable({ data = o.data, latent = o.latent, noise = o.noise, floor = o.floor, dtype = o.dtype, given = o,
    begun = false, loc = core.param(core.zeros({ o.data }, f)), variance = core.param(core.ones({ o.data }, f)),
    loadings = core.param(core.zeros({ o.data, o.latent }, f)) }, class)
end

local function forms(m)
  return { loc = form.tensor { like = m.loc, finite = true }, loadings = form.tensor { like = m.loadings,
    finite = true }, variance = form.tensor { like = m.variance, positive = true } }
end

--- save(path): writes options and parameters; pn.restore(path) makes the model again. Returns true, or nil, message,
--- code.
methods.save = em_fit.file("factor analysis", factor_analysis.factor_analysis, forms)
class.__index = core.namespace("a factor analysis", methods)

return factor_analysis
