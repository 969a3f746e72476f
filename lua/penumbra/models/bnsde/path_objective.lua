--- What is maximised or certified of a Bayesian neural SDE: log-likelihoods of drawn paths, their divergence, and the
--- objectives made of them (Haussmann 2021, 6.7 to 6.16, with the signs and constants that its proofs give).
-- help: nowhere
local core = require "penumbra.core"
local drift_weights = require "penumbra.models.bnsde.drift_weights"
local hybrid_path = require "penumbra.models.bnsde.hybrid_path"
local options = require "penumbra.options"

local path_objective = {}

local HALF_LOG_TAU <const> = 0.91893853320467274178 -- log(2 pi) / 2

-- ---- paths of data ----

--- beginning(model, b, draws, generator): h where paths of the trajectories b begin, [S, N, P].
function path_objective.beginning(self, b, draws, generator)
  local count, n = b.y:size(1), self.latent
  local function normal(size)
    return core.randn({ draws, count, size }, { dtype = self.dtype, generator = generator })
  end
  if self.initial == "law" then
    return self.initial_mean + self.initial_scale * normal(n)
  end
  local h
  if self.initial == "encoder" then
    h = self.encoder(b.y:slice(2, 1, self.prefix):reshape { count, self.prefix * self.size })
  else
    h = b.y:select(2, 1)
  end
  h = h:unsqueeze(1):broadcast_to { draws, count, h:size(2) }
  return h:size(3) < n and core.concatenate({ h, normal(n - h:size(3)) }, 3) or h
end

--- emission(model, h): the mean of what is observed of states h [..., P], [..., p].
function path_objective.emission(self, h)
  if self.decoder then
    return self.decoder(h)
  end
  return h:slice(-1, 1, self.size)
end

--- log_likelihood(model, states, y, observed): log p of each number, summed over the last axis and what was observed.
function path_objective.log_likelihood(self, states, y, observed)
  local z = (y - path_objective.emission(self, states)) / self.noise
  return ((z:square() * -0.5 - self.noise:log() - HALF_LOG_TAU) * observed):sum(-1)
end

--- log_peak(model, b): the largest that the log-likelihood of each trajectory can be, [N].
function path_objective.log_peak(self, b)
  local each = -self.noise:log() - HALF_LOG_TAU
  return (b.observed:slice(2, b.counted, b.steps):sum(2) * each):sum(-1)
end

--- draw(model, b, {draws = S, generator =, noise =, weights =, point = false}): paths of the model for the trajectories
--- b: {states = [C, S, N, P] at the counted observations, log_likelihood [S, N], path_kl [S, N]}. point: means in the
--- place of drawn weights.
function path_objective.draw(self, b, how)
  local draws, count, g = how.draws or 1, b.y:size(1), hybrid_path.grid(b)
  local h = path_objective.beginning(self, b, draws, how.generator)
  local weights = how.weights or how.point and drift_weights.mean(self.network)
    or drift_weights.draw(self.network, { weights = self.weights, draws = draws, count = count, steps = g.steps,
      generator = how.generator, rows = path_objective.samples(self) })
  local noise = how.noise or core.randn({ g.steps, draws, count, self.latent }, { dtype = self.dtype,
    generator = how.generator })
  local states, kl = hybrid_path.run(self, h, g, weights, noise)
  local seen = {}
  for k, place in ipairs(g.at) do seen[k] = states[place] end
  seen = core.stack(seen, 1)
  local function counted(x) return x:slice(2, b.counted, b.steps):transpose(1, 2):unsqueeze(2) end
  local ll = path_objective.log_likelihood(self, seen, counted(b.y), counted(b.observed))
  return { states = seen, log_likelihood = ll:sum(1), path_kl = kl }
end

--- samples(model): the weights that SGLD has kept, [M, W]; nil without.
function path_objective.samples(self)
  local filled = self.kept and math.min(self.kept_count:item() // 1 | 0, self.kept:size(1)) or 0
  return filled > 0 and self.kept:slice(1, 1, filled) or nil
end

-- ---- objectives: what is minimised, of draws `p` and o = {num_data = N, delta =, path_kl =} ----

local function log_mean(ll) return ll:logsumexp(1) - math.log(ll:size(1)) end

--- divergence(model, path_kl [S, N'], o): KL(Q || P) of the weights and of the paths of N = o.num_data trajectories, of
--- which N' are here: the sum of theirs, or with o.path_kl = "mean" the mean.
function path_objective.divergence(self, path_kl, o)
  local paths = path_kl:mean()
  return self.network:kl() + (o.path_kl == "mean" and paths or paths * o.num_data)
end

-- (6.8): the mean over trajectories of the logarithm of the mean over draws
local function e_bayes(_, p) return -log_mean(p.log_likelihood):mean() end

-- (6.15): minus the mean log-likelihood, + sqrt((KL + log(4 sqrt N / delta)) / (2 N)); its constants are left out
local function e_pac_bayes(self, p, o)
  local n = o.num_data
  local kl = path_objective.divergence(self, p.path_kl, o)
  return -p.log_likelihood:mean() + ((kl + math.log(4 * math.sqrt(n) / o.delta)) / (2 * n)):sqrt()
end

-- minus the evidence lower bound of a trajectory (Hegde et al. 2019 in this set-up)
local function vi(self, p, o) return -p.log_likelihood:mean() + self.network:kl() / o.num_data end

-- minus the log joint density of weights and data, at the weights themselves
local function sgld(self, p, o)
  local loss = -log_mean(p.log_likelihood):mean() * o.num_data
  for _, name in ipairs(self.network.names) do
    loss = loss - self.network.priors[name]:log_prob(self.network:posterior(name):mean()):sum()
  end
  return loss
end

local rows = {
  e_bayes = { loss = e_bayes, hybrid = false },
  e_pac_bayes = { loss = e_pac_bayes, hybrid = false },
  e_bayes_hybrid = { loss = e_bayes, hybrid = true },
  e_pac_bayes_hybrid = { loss = e_pac_bayes, hybrid = true },
  vi = { loss = vi },
  sgld = { loss = sgld, point = true },
}

--- The options of an objective.
path_objective.options = { objective = options.optional "string", draws = 1, delta = 0.05,
  path_kl = options.choice("sum", "mean") }

--- row(where, model, o): the row of o.objective, which must suit the model; by default that of the PAC-Bayes bound. The
--- numbers of o are checked.
function path_objective.row(where, self, o)
  local hybrid = self.prior_drift ~= nil
  o.objective = o.objective or hybrid and "e_pac_bayes_hybrid" or "e_pac_bayes"
  local row, names = rows[o.objective], {}
  for name in pairs(rows) do names[#names + 1] = name end
  table.sort(names)
  if not row then
    core.error(("%s: objective must be one of '%s', got '%s'%s"):format(where, table.concat(names, "', '"), o.objective,
      options.suggestion(o.objective, names)))
  elseif row.hybrid ~= nil and row.hybrid ~= hybrid then
    core.error(("%s: objective '%s' is of a model %s prior_drift; take '%s'"):format(where, o.objective,
      row.hybrid and "with a" or "without", row.hybrid and o.objective:gsub("_hybrid", "") or o.objective .. "_hybrid"))
  end
  if not (o.delta > 0 and o.delta < 1) then
    core.error(("%s: delta must lie strictly between 0 and 1, got %g"):format(where, o.delta))
  end
  return row
end

--- loss(model, b, row, o): the objective of a row for the trajectories b, to be minimised, 0-d; o: the options, with
--- num_data.
function path_objective.loss(self, b, row, o)
  local p = path_objective.draw(self, b, { draws = o.draws, generator = o.generator, point = row.point,
    noise = o.noise, weights = o.drawn })
  return row.loss(self, p, o)
end

return path_objective
