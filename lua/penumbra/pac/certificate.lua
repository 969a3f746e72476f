--- Risk certificates of networks with a posterior: what the error of the stochastic network on new data is at most, and
--- what its bounded log-loss is, with a probability that is stated and all of whose parts are listed.
---
---     local c = pn.pac.certificate(net, { x, y }, { delta = 0.025, draw_delta = 0.01, draws = 5, prior_data = false })
---     print(c)
---     c.error.bound   c.error.posterior   c.error.seen   c.kl   c.num_data   c.deltas   c.holds
---
--- Two steps, each with its own probability of failing. The mean of the loss over the posterior on the n data is not
--- known, but bounded by draws of the weights (pn.pac.draws_bound, draw_delta); with that in the place of the risk seen
--- the PAC-Bayes bound holds for new data (delta).
---
---   network       of pn.nn.bayesian, all of whose parameters have a prior, of a normal posterior and a prior to which
---                 the divergence has a closed form. Its outputs are logits [N, C]
---   data          {x, y}, y labels int64 [N]; data that the prior did not see
---   delta         of the PAC-Bayes bound
---   draw_delta    of the draws
---   bound         name of pn.pac.describe (default "maurer"); bound_options: what it takes beside
---   draws         how many passes (default 5). Where weights are drawn anew for each datum ("each") a pass is N draws,
---                 independent but not of one law, for which the bound holds too; where one draw serves all data
---                 ("all") a pass is one
---   weights       "each", "all", or nil: "each" for a sequential of linear layers, elementwise activations and
---                 flatten, of which local reparametrisation is exactly an own draw of all weights for each datum;
---                 convolutions share their weights among positions, and drawing outputs would be another predictor:
---                 "all"
---   losses        list of "error", "log_loss" (-log max(p, floor) / -log floor) and {name =, loss = function(f,
---                 y), range = {low, high}}: of each datum, [N]
---   floor         probability below which the log-loss does not look (1e-5)
---   joint         false: each number alone is true with probability 1 - delta - draw_delta; true: all together with 1
---                 minus the sum, each at these deltas
---   prior_data    the {x, y} that the prior was learnt from, or false: from none. Needed, but of networks of
---                 pn.pac.train
---   batch_size, generator
---
--- What was chosen by looking at certificates on these data (a scale, a network) costs a share of delta for each choice
--- that there was; what was chosen on prior_data costs nothing.
---
--- Refused, with the reason: data that the prior saw, losses without bounds, networks whose output for a datum depends
--- on others (batch statistics), priors that are trained with the posterior, parameters without a prior, divergences
--- that are estimates. Perez-Ortiz, Rivasplata, Shawe-Taylor & Szepesvari 2021; Langford & Caruana 2002.
-- help: pn.pac
local core = require "penumbra.core"
local options = require "penumbra.options"
local parameters = require "penumbra.parameters"
local recording = require "penumbra.autodiff.recording"
local dist = require "penumbra.distribution"
local nn = require "penumbra.nn"
local risk_bounds = require "penumbra.pac.risk_bounds"
local split_data = require "penumbra.pac.split_data"

local certificate = {}

local WHERE <const> = "certificate"
local prior_data_of = setmetatable({}, { __mode = "k" }) -- network of pn.pac.train -> {x, y} of its prior, or false

local function refuse(text, ...)
  core.error((WHERE .. ": " .. text):format(...))
end

-- ---- the network ----

local activations -- name -> true

local function is_activation(kind)
  if not activations then
    activations = {}
    for _, row in ipairs(core.layer_rows()) do activations[row.name] = row.activation or nil end
  end
  return activations[kind]
end

-- Is each output row computed from one product with each weight? Then drawing the products draws the weights.
local function is_dense(net)
  local list = type(net) == "userdata" and { net } or net.kind == "sequential" and net or {}
  for _, layer in ipairs(list) do
    local kind = type(layer) == "userdata" and layer:type()
    if not (kind == "linear" or kind == "flatten" or kind and is_activation(kind)) then return false end
  end
  return #list > 0
end

--- check_network(where, net): raises unless a certificate of it could mean something.
function certificate.check_network(where, net)
  if type(net) ~= "table" or not net.log_scale or not net.priors or not net.net then
    core.error(("%s: network must be of pn.nn.bayesian, with a posterior and a prior, got %s"):format(where, type(net)))
  end
  for _, entry in ipairs(parameters.named(net.net)) do
    if not net.priors[entry[1]] then
      core.error(("%s: parameter '%s' has no prior: of a point that saw the data the divergence is infinite"):format(
        where, entry[1]))
    end
  end
  if #parameters.named_buffers(net.net) > 0 then
    core.error(("%s: the network has statistics of its batches ('%s'): its output for a datum depends on others, and "
      .. "no bound for independent data holds (layer_norm, group_norm or actnorm do not look at other data)"):format(
      where, parameters.named_buffers(net.net)[1][1]))
  end
  if #parameters.named { net.priors } > 0 then
    core.error(where .. ": a prior has parameters, which are trained with the posterior: it depends on the data "
      .. "(net:become_prior() makes one that does not)")
  end
end

-- The same output for a datum alone, at the posterior means.
local function check_alone(net, x)
  local two, one = net:mean(x:slice(1, 1, 2)), net:mean(x:slice(1, 1, 1))
  if two:ndim() ~= 2 then
    refuse("the network must give logits [N, C], got %d axes", two:ndim())
  end
  local gap = (two:slice(1, 1, 1) - one):abs():max():item()
  if not (gap <= 1e-3 * (1 + one:abs():max():item())) then
    refuse "the network's output for a datum depends on the other data of its batch: no bound holds"
  end
end

-- KL(Q || P) in float64.
local function divergence(net)
  local known, total = {}, 0
  for _, pair in ipairs(dist.kl_pairs()) do known[pair[1] .. " " .. pair[2]] = true end
  for _, name in ipairs(net.names) do
    local q, p = net:posterior(name), net.priors[name]
    if not known["normal " .. p.name] then
      refuse("the divergence from the prior of '%s' (%s) would be an estimate, which bounds nothing", name, p.name)
    end
    total = total + dist.kl(q:to "float64", p.dtype == "float64" and p or p:to "float64"):broadcast_to(
      q.batch_shape):sum():item()
  end
  return total
end

-- The network drawn in another way.
local function drawn_by(net, estimator)
  local copy = {}
  for key, v in pairs(net) do copy[key] = v end
  copy.estimator = estimator
  return setmetatable(copy, getmetatable(net))
end

-- ---- losses ----

local rows = {
  error = function(f, y) return f:argmax(-1):ne(y):to "float64" end,
  log_loss = function(f, y, o)
    local log_p = f:log_softmax(-1):gather(-1, y:unsqueeze(-1)):squeeze(-1):to "float64"
    return log_p:clamp(math.log(o.floor), 0) / math.log(o.floor)
  end,
}

--- surrogate(f, y, floor): the bounded log-loss of logits as training follows it, [N], in [0, 1].
function certificate.surrogate(f, y, floor)
  local log_p = f:log_softmax(-1):gather(-1, y:unsqueeze(-1)):squeeze(-1)
  return log_p:clamp(math.log(floor), 0) / math.log(floor)
end

local own_loss = { name = options.required "string", loss = options.required "function",
  range = options.optional "table" }

-- A loss of one's own, scaled to [0, 1]; values outside its range are an error.
local function scaled(given)
  local o = options.check("certificate: losses", given, own_loss)
  local low, high = o.range and o.range[1], o.range and o.range[2]
  if not (type(low) == "number" and type(high) == "number" and low < high and high - low < math.huge) then
    refuse("loss '%s' must have a range {low, high}: a loss without bounds has no certificate", o.name)
  end
  return o.name, function(f, y)
    local value = o.loss(f, y):to "float64"
    if value:ndim() ~= 1 or value:size(1) ~= y:size(1) then
      refuse("loss '%s' must give a number for each datum, [N]", o.name)
    elseif not value:ge(low):logical_and(value:le(high)):all():item() then
      refuse("loss '%s' left its range [%g, %g]", o.name, low, high)
    end
    return (value - low) / (high - low)
  end
end

local function losses_of(o)
  local list = {}
  for k, given in ipairs(o.losses) do
    if type(given) == "table" then
      local name, f = scaled(given)
      list[k] = { name = name, f = f }
    elseif rows[given] then
      list[k] = { name = given, f = function(f, y) return rows[given](f, y, o) end }
    else
      refuse('losses must be "error", "log_loss" or {name =, loss =, range =}, got %s', tostring(given))
    end
  end
  if #list == 0 then refuse "losses must be a list of at least one" end
  return list
end

-- ---- draws ----

-- Sums of the losses over `passes` passes; of each pass over the data in batches, with one draw for all of them where
-- they share their weights.
local function measured(net, x, y, losses, o)
  local sums, n = {}, x:size(1)
  for k = 1, #losses do sums[k] = 0 end
  for _ = 1, o.draws do
    local state, after = o.generator:state(), nil
    for from = 1, n, o.batch_size do
      local last = math.min(from + o.batch_size - 1, n)
      if o.weights == "all" then o.generator:set_state(state) end
      local f = nn.mode("evaluation", net, x:slice(1, from, last), o.generator)
      after = o.generator:state()
      for k, loss in ipairs(losses) do
        sums[k] = sums[k] + loss.f(f, y:slice(1, from, last)):sum():item()
      end
    end
    o.generator:set_state(after)
  end
  return sums
end

-- ---- the report ----

local report_meta = {}

local function per_cent(v) return ("%.4g %%"):format(100 * v) end

function report_meta:__tostring()
  local out = { ("certificate by \"%s\" of %d data, KL(Q || P) = %.6g, %d draws (%s)"):format(self.bound, self.num_data,
    self.kl, self.draws, self.weights == "each" and "of all weights anew for each datum" or "that serve all data") }
  for _, name in ipairs(self.losses) do
    local r = self[name]
    out[#out + 1] = ("  %-10s at most %s  (over the posterior, on these data: at most %s, seen %s)"):format(name,
      per_cent(r.bound), per_cent(r.posterior), per_cent(r.seen))
  end
  for _, entry in ipairs(self.deltas) do
    out[#out + 1] = ("  delta %-8g %s"):format(entry.delta, entry.of)
  end
  out[#out + 1] = "  " .. self.holds
  return table.concat(out, "\n")
end

local function deltas_of(losses, o)
  local list, total = {}, 0
  for _, loss in ipairs(losses) do
    list[#list + 1] = { delta = o.delta, of = "bound on new data, " .. loss.name }
    list[#list + 1] = { delta = o.draw_delta, of = "draws of the weights, " .. loss.name }
    total = total + o.delta + o.draw_delta
  end
  return list, total
end

local function report(net, losses, sums, n, o)
  local draws = o.weights == "each" and n * o.draws or o.draws
  local deltas, total = deltas_of(losses, o)
  local each = o.delta + o.draw_delta
  local made = { bound = o.bound, num_data = n, draws = draws, weights = o.weights, kl = divergence(net), losses = {},
    deltas = deltas, joint = o.joint, floor = o.floor, probability = 1 - (o.joint and total or each) }
  made.holds = o.joint and ("all numbers together hold with probability %g: 1 less the sum of all deltas"):format(
    1 - total) or ("each number alone holds with probability %g: 1 - %g - %g"):format(1 - each, o.delta, o.draw_delta)
  for k, loss in ipairs(losses) do
    local seen = math.min(1, sums[k] / (n * o.draws))
    local posterior = risk_bounds.draws_bound { risk = seen, draws = draws, delta = o.draw_delta }
    local given = { risk = posterior, kl = made.kl, n = n, delta = o.delta }
    for key, v in pairs(o.bound_options or {}) do given[key] = v end
    local value = risk_bounds.bound(o.bound, given):item()
    made.losses[k] = loss.name
    made[loss.name] = { seen = seen, posterior = posterior:item(), bound = value, vacuous = value >= 1 }
  end
  return setmetatable(made, report_meta)
end

-- ---- the call ----

local known = { delta = 0.025, draw_delta = 0.01, bound = "maurer", bound_options = options.optional "table", draws = 5,
  weights = options.optional "string", losses = options.any(nil), floor = 1e-5, joint = false,
  prior_data = options.any(nil), batch_size = 1000, generator = options.optional "generator" }

local function check(net, data, given)
  local o = options.check(WHERE, given, known)
  certificate.check_network(WHERE, net)
  split_data.check(WHERE, "data", data)
  risk_bounds.check_delta(WHERE, o.delta)
  risk_bounds.check_delta(WHERE, o.draw_delta, "draw_delta")
  if not (o.floor > 0 and o.floor < 1) then
    refuse("floor must lie strictly between 0 and 1, got %g: the log-loss would have no bound", o.floor)
  elseif data[2]:dtype() ~= "int64" or data[2]:ndim() ~= 1 then
    refuse "y must be labels, int64 [N]"
  end
  local told = { n = data[1]:size(1), delta = o.delta }
  for key, v in pairs(o.bound_options or {}) do told[key] = v end
  risk_bounds.objective(WHERE, o.bound, told)
  o.losses = o.losses or { "error", "log_loss" }
  options.argument(WHERE, "losses", o.losses, "table")
  o.generator = o.generator or core.generator(core.randint(0, 1 << 53, {}):item())
  local dense = is_dense(net.net)
  o.weights = o.weights or (dense and "each" or "all")
  if o.weights ~= "each" and o.weights ~= "all" then
    refuse('weights must be "each" or "all", got \'%s\'', o.weights)
  elseif o.weights == "each" and not dense then
    refuse('weights = "each" needs a sequential of linear layers, activations and flatten: where weights serve '
      .. "several positions, drawing outputs is another predictor")
  end
  return o
end

local function check_prior(net, data, o)
  local prior_data = o.prior_data
  if prior_data == nil then prior_data = prior_data_of[net] end
  if prior_data == nil then
    refuse "prior_data must say what the prior was learnt from: {x, y}, or false if from no data"
  elseif prior_data then
    split_data.check(WHERE, "prior_data", prior_data)
    local common = split_data.common(prior_data, data)
    if common > 0 then
      refuse("the prior saw %d of these %d data: the bound would be void (pn.pac.split parts data; of its two parts it "
        .. "knows that equal rows are different data)", common, data[1]:size(1))
    end
  end
end

--- certificate(network, {x, y}, {delta = 0.025, draw_delta = 0.01, bound = "maurer", draws = 5, prior_data =, ...}):
--- see pn.help "penumbra.pac.certificate".
function certificate.certificate(net, data, given)
  local o = check(net, data, given)
  check_prior(net, data, o)
  local losses = losses_of(o)
  return recording.off(function()
    check_alone(net, data[1])
    local way = drawn_by(net, o.weights == "each" and "local" or "weights")
    return report(net, losses, measured(way, data[1], data[2], losses, o), data[1]:size(1), o)
  end)
end

--- remember(net, prior_data): what the prior of a network was learnt from, for certificates.
function certificate.remember(net, prior_data)
  prior_data_of[net] = prior_data
end

return certificate
