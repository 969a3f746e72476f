--- Objectives of variational inference: functions of log-likelihoods, divergences and log-weights. All
--- are to be maximised; a loss is their negative.
local core = require "penumbra.core"
local options = require "penumbra.options"

local infer = {}

local function check_tensor(where, role, t, least, most)
  if not core.is_tensor(t) then
    core.error(("%s: %s must be a tensor, got %s"):format(where, role, type(t)))
  end
  if t:ndim() < least or t:ndim() > most then
    core.error(("%s: %s must have %d%s axes, got shape [%s]"):format(where, role, least,
      most > least and " to " .. most or "", table.concat(t:shape(), ", ")))
  end
end

-- ELBO of a data set of N from a minibatch: N / B sum_b E log p(y_b | w) - KL(q | p), KL once.
local function minibatch_elbo(given)
  local o = options.check("elbo", given, {
    log_likelihood = options.required(),
    kl = options.required(),
    num_data = options.optional "number",
  })
  if not o.num_data then
    core.error("elbo: num_data is required: the number N of data in the whole set, by which the minibatch is scaled "
      .. "up against a KL that is counted once (N = the minibatch's size if that is all there is)")
  end
  local ll, kl, n = o.log_likelihood, o.kl, o.num_data
  check_tensor("elbo", "log_likelihood", ll, 1, 2)
  if core.is_tensor(kl) and kl:numel() ~= 1 then
    core.error(("elbo: kl must have one element (the sum over all weights), got shape [%s]"):format(
      table.concat(kl:shape(), ", ")))
  elseif not core.is_tensor(kl) and type(kl) ~= "number" then
    core.error(("elbo: kl must be a tensor or a number, got %s"):format(type(kl)))
  end
  local batch = ll:size(-1)
  if n < batch then
    core.error(("elbo: num_data must be at least the minibatch's size %d, got %s"):format(batch, tostring(n)))
  end
  local draws = ll:ndim() == 2 and ll:size(1) or 1
  return ll:sum() * (n / (batch * draws)) - (core.is_tensor(kl) and kl:reshape {} or kl)
end

--- The evidence lower bound.
---
---     infer.elbo{log_likelihood = ll, kl = net:kl(), num_data = N}
---
--- for global latents (weights): ll holds the log-likelihoods of the minibatch's data, [B], or [S, B] for
--- S draws. The result estimates the bound for the whole data set, in nats: N / B times the sum over
--- the minibatch (the mean over draws) minus the KL divergence, once. Divide by N for a loss of order 1.
---
---     infer.elbo(log_p, log_q)
---
--- for local latents: the mean of log_p - log_q over draws and data ([K, B] or [B]): nats per datum.
--- Jordan, Ghahramani, Jaakkola & Saul 1999; Kingma & Welling 2014.
function infer.elbo(log_p, log_q)
  if core.is_tensor(log_p) then
    if not core.is_tensor(log_q) then
      core.error("elbo: log_q must be a tensor, got " .. type(log_q))
    end
    local p, q = table.concat(log_p:shape(), ", "), table.concat(log_q:shape(), ", ")
    if p ~= q then
      core.error(("elbo: log_p and log_q must have one shape, got [%s] and [%s]"):format(p, q))
    end
    return (log_p - log_q):mean()
  end
  if log_q ~= nil or type(log_p) ~= "table" then
    core.error("elbo: write elbo{log_likelihood = ll, kl = kl, num_data = N} or elbo(log_p, log_q)")
  end
  return minibatch_elbo(log_p)
end

--- The importance weighted bound of log-weights [K, B]: the mean over data of logsumexp over the K draws
--- minus log K, nats per datum. K = 1 is the ELBO. Burda, Grosse & Salakhutdinov 2016.
function infer.iwae(log_w)
  check_tensor("iwae", "log_w", log_w, 2, 2)
  return log_w:logsumexp(1):mean() - math.log(log_w:size(1))
end

return infer
