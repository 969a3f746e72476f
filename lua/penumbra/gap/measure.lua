--- Where a model's nats go: log p(x) less the bound that its inference reaches, in three parts (Cremer, Li & Duvenaud
--- 2018; Bayer et al. 2021), the model's own parameters left as they are:
---
---     approximation   log p(x) - L_local      L_local: a posterior of its own for each datum, which sees all of it
---     conditioning    L_local - L_mask        L_mask: the best network found with the model's own mask
---     amortisation    L_mask - L_amortised    L_amortised: the network as it is
---
---     local report = pn.gap.measure(model, nil, x, {log_likelihood = exact})
---     print(report)     report:plot "gaps.svg"     report.conditioning.value, .se     report.settled.mask
---
--- The model answers these methods (a table of functions serves too):
---
---     model:log_joint(z, x)             log p(x, z) of draws z [S, N, ...] for the N data of x: [S, N], differentiable
---                                       in z
---     model:amortised_posterior()       its own posterior, where none is given
---     model:local_posterior(x)          optional: a posterior with parameters for each datum of x. Without, z must
---                                       be a tensor: [S, N, n] gets normals with diagonal covariance, [S, N, T, n]
---                                       Gaussian Markov chains
---     model:take(x, index)              optional: the data of those rows, int64 from 0. Without, x is a tensor [N,
---     ...],
---     model:count(x)                    a list of such, or {y = [T, N, p], inputs =}; and how many there are
---     model.eager                       true: its functions cannot be captured, steps are not compiled
---
--- and a posterior these:
---
---     q:draw(x, draws, generator)       z [S, N, ...] and log q(z | x) [S, N], reparameterised in q's parameters
---     q:parameters()                    a list
---     q:widened(factor)                 optional: another one, not trained, with the same mask and hidden layers that
---                                       many times as wide; without, L_mask is not known
---     q.sees_all                        true: the mask hides nothing, L_mask is L_local
---     q.eager                           as of the model
---     q.exact                           true: q is the posterior itself and log_likelihood is exact: all gaps are 0
---
--- pn.models.vae (one level), kvae, deep_state and vssm (with data = m:prepared(batch)) do.
-- help: pn.gap, methods report
local core = require "penumbra.core"
local local_posterior = require "penumbra.gap.local_posterior"
local optim = require "penumbra.optim"
local options = require "penumbra.options"
local plot = require "penumbra.plot"
local recording = require "penumbra.autodiff.recording"
local replay = require "penumbra.autodiff.replay"

local measure = {}

-- What a model has under a name, or nil: its own tables may refuse unknown names.
local function has(model, name)
  local ok, value = pcall(function() return model[name] end)
  return ok and value or nil
end

-- ---- data ----

local function is_batch(x)
  return type(x) == "table" and core.is_tensor(x.y)
end

local function count_of(model, x)
  if has(model, "count") then
    return model:count(x)
  elseif is_batch(x) then
    return x.y:size(2)
  end
  return (core.is_tensor(x) and x or x[1]):size(1)
end

local function taken(model, x, index)
  if has(model, "take") then
    return model:take(x, index)
  elseif core.is_tensor(x) then
    return x:take(1, index)
  end
  local out = {}
  for name, value in pairs(x) do
    out[name] = value:take(is_batch(x) and 2 or 1, index)
  end
  return out
end

local function check_data(where, role, model, x)
  if has(model, "count") then
    return x
  elseif is_batch(x) then
    for name in pairs(x) do
      if name ~= "y" and name ~= "inputs" then
        core.error(("%s: a batch in %s may have y and inputs, got '%s'"):format(where, role, name))
      end
    end
  elseif not core.is_tensor(x) and not (type(x) == "table" and core.is_tensor(x[1])) then
    core.error(("%s: %s must be a tensor [N, ...], a list of such or a batch {y =, inputs =}"):format(where, role))
  end
  return x
end

local function rows(first, last)
  return core.arange(first, last, { dtype = "int64" })
end

-- ---- bounds ----

local function log_weights(self, q, x, draws, generator)
  local z, log_q = q:draw(x, draws, generator)
  return self.model:log_joint(z, x) - log_q
end

-- log w of `draws` draws for each of the data, [draws, N], no graph, BLOCK draws of a piece of the data at a time.
local BLOCK, JUDGE = 4096, 7919
local STILL = 2 -- rounds in a row without a gain, after which an optimisation has settled
local function weights_of(self, q, x, n, draws, own, generator)
  generator = generator or self.generator
  local pieces = {}
  local most = own and n or math.max(1, math.min(n, BLOCK // 8))
  for first = 0, n - 1, most do
    local last = math.min(n, first + most)
    local part, list, left = own and x or taken(self.model, x, rows(first, last)), {}, draws
    local at_once = math.max(1, BLOCK // (last - first))
    while left > 0 do
      local k = math.min(left, at_once)
      list[#list + 1] = recording.off(log_weights, self, q, part, k, generator)
      left = left - k
    end
    pieces[#pieces + 1] = #list > 1 and core.concatenate(list, 1) or list[1]
  end
  return (#pieces > 1 and core.concatenate(pieces, 2) or pieces[1]):to "float64"
end

local function mean_and_se(each)
  return { value = each:mean():item(), se = each:std():item() / math.sqrt(each:numel()) } -- NaN of one datum
end

-- Has b, [N], gained on a by more than noise and the tolerance? By how much, and that noise.
local function gained(self, a, b)
  local d = mean_and_se(b - a)
  local noise = 2 * (d.se == d.se and d.se or 0)
  return d.value > math.max(self.o.tolerance, noise), d.value, noise
end

-- The bound of each datum by the same draws at each call, so that what is compared differs by q alone.
local function judged(self, q, x, n, own)
  return weights_of(self, q, x, n, self.o.judge_draws, own, core.generator(JUDGE)):mean(1)
end

-- ---- optimisation ----

-- A function that makes `steps` steps on the negative bound of minibatches; lr falls along half a cosine.
local function trainer(self, q, x, n, own)
  local o = self.o
  local opt = optim.adam(q:parameters(), { lr = o.lr })
  local size = math.min(n, o.batch_size)
  local function loss(index)
    local part = own and x or taken(self.model, x, index)
    q.learning = true
    local value = -log_weights(self, q, part, o.draws, self.generator):mean()
    q.learning = nil
    return value
  end
  local list = q:parameters()
  local function slopes(index) -- of q alone: the model keeps its own gradients, too
    return table.unpack(core.grad(loss(index), list))
  end
  local step = (self.eager or not o.compile) and slopes or replay.compile(slopes)
  local order, at = nil, n
  return function(steps, lr)
    for k = 1, steps do
      opt.lr = lr * 0.5 * (1 + math.cos(math.pi * (k - 1) / steps))
      if at + size > n then
        order, at = core.randperm(n, { generator = self.generator }), 0
      end
      opt:apply { step(own and rows(0, 1) or order:slice(1, at + 1, at + size)) }
      at = at + size
    end
  end
end

local function snapshot(q)
  local list = {}
  for k, w in ipairs(q:parameters()) do list[k] = w:detach() + 0 end
  return list
end

local function put_back(q, list)
  for k, w in ipairs(q:parameters()) do w:set(list[k]) end
end

-- Trains q in rounds, with half the rate after one that gained nothing, until the bound of `judge()`, [N], gains
-- nothing more; q is then at its best. Gives that bound, whether it stood still and to within how many nats that is
-- known.
local function until_still(self, q, train, judge)
  local best, kept = judge(), snapshot(q)
  local lr, still, resolution = self.o.lr, 0, nil -- there is a round at least
  for _ = 1, self.o.rounds do
    train(self.o.steps, lr)
    local now = judge()
    local more, by, noise = gained(self, best, now)
    if by > 0 then
      best, kept = now, snapshot(q)
    end
    resolution, still = noise, more and 0 or still + 1
    if still == STILL then
      break
    end
    lr = more and lr or lr * 0.5
  end
  put_back(q, kept)
  return best, still == STILL and resolution <= 10 * self.o.tolerance, resolution
end

-- ---- L_local ----

local function local_of(self, q, x, n)
  local parts, settled, evidence, resolution = {}, true, {}, 0
  local size = math.min(n, self.o.local_batch)
  for first = 0, n - 1, size do
    local part = taken(self.model, x, rows(first, math.min(n, first + size)))
    local count = math.min(n, first + size) - first
    local own
    if has(self.model, "local_posterior") then
      own = self.model:local_posterior(part)
    else
      local z = recording.off(q.draw, q, part, 64, self.generator)
      if not core.is_tensor(z) or z:ndim() < 3 or z:ndim() > 4 then
        core.error("measure: draws of the posterior must be [S, N, n] or [S, N, T, n] for local posteriors; else the "
          .. "model must have local_posterior(x)")
      end
      local draws = local_posterior.draws_for(z:size(-1))
      z = draws == 64 and z or recording.off(q.draw, q, part, draws, self.generator)
      own = local_posterior.new(z, self.o.family)
    end
    local _, still, noise = until_still(self, own, trainer(self, own, part, count, true), function()
      return judged(self, own, part, count, true)
    end)
    settled, resolution = settled and still, math.max(resolution, noise)
    local w = weights_of(self, own, part, count, self.o.importance_draws, true)
    parts[#parts + 1] = w:mean(1)
    evidence[#evidence + 1] = w:logsumexp(1) - math.log(w:size(1))
  end
  local function whole(list) return #list > 1 and core.concatenate(list, 1) or list[1] end
  return whole(parts), whole(evidence), settled, resolution
end

-- ---- L_mask ----

-- Lets a network of the same shapes begin at what q has learned.
local function begin_at(network, q)
  local from, to = q:parameters(), network:parameters()
  for k = 1, math.max(#from, #to) do
    if not (from[k] and to[k]) or table.concat(from[k]:shape(), " ") ~= table.concat(to[k]:shape(), " ") then
      return
    end
  end
  local values = snapshot(q)
  put_back(network, values)
end

-- The best network with the mask: the one there is, or wider and wider ones until validation gains no more.
local function mask_of(self, q, training, n)
  local validating = math.max(1, math.min(n - 1, math.floor(n * self.o.split)))
  local valid, train_set = taken(self.model, training, rows(0, validating)), taken(self.model, training,
    rows(validating, n))
  local function score(network) return judged(self, network, valid, validating) end
  local best, bound, settled, width, resolution = q, score(q), false, 0, 0
  for _, factor in ipairs(self.o.widths) do
    local network = q:widened(factor)
    begin_at(network, q)
    local now, still, noise = until_still(self, network, trainer(self, network, train_set, n - validating), function()
      return score(network)
    end)
    local more, by = gained(self, bound, now)
    if by > 0 then
      best, bound, width = network, now, factor
    end
    settled, resolution = still, noise
    if not more and width > 0 and width < factor then
      break
    end
    settled = settled and not more
  end
  return best, width, settled, resolution
end

-- ---- the report ----

local report = {}
local class = { __name = "gap report" }

local ROWS = { { "log_likelihood", "log p(x)" }, { "approximation", "  approximation gap" },
  { "local_bound", "L, local posteriors" }, { "conditioning", "  conditioning gap" },
  { "mask_bound", "L, best with the mask" }, { "amortisation", "  amortisation gap" },
  { "amortised_bound", "L, as it is" } }

function class:__tostring()
  local lines = { ("where the nats go: %d data, nats each"):format(self.count) }
  for _, row in ipairs(ROWS) do
    local v = self[row[1]]
    lines[#lines + 1] = v and ("%-24s %12.4f +- %.4f"):format(row[2], v.value, v.se)
      or ("%-24s %12s"):format(row[2], "not known")
  end
  for _, note in ipairs(self.notes) do lines[#lines + 1] = "note: " .. note end
  return table.concat(lines, "\n")
end

--- report:panel([{title =}]): the gaps with two standard errors, for pn.plot.save and show.
function report:panel(given)
  local o = options.check("panel", given, { title = "where the nats go" })
  local marks = { title = o.title, y_label = "nats a datum", legend = "none", x_names = {}, x_range = { 0.5, 3.5 } }
  for k, name in ipairs { "approximation", "conditioning", "amortisation" } do
    local v = self[name]
    marks.x_names[k] = name
    if v then
      marks[#marks + 1] = plot.line({ k - 0.2, k + 0.2, k + 0.2, k - 0.2, k - 0.2 }, { 0, 0, v.value, v.value, 0 },
        { colour = "#2255aa" })
      if v.se == v.se then
        marks[#marks + 1] = plot.error_bars({ k }, { v.value }, { 2 * v.se }, { colour = "#c0392b" })
      end
    end
  end
  return plot.panel(marks)
end

--- report:plot(path): the panel as a picture (SVG, PNG or PDF); the path, or nil, message, code.
function report:plot(path)
  options.argument("plot", "path", path, "string")
  return plot.save(path, self:panel())
end

local function assemble(n, each, notes, settled)
  local out = { count = n, each = each, notes = notes, settled = settled }
  for _, name in ipairs { "log_likelihood", "local_bound", "mask_bound", "amortised_bound" } do
    out[name] = each[name] and mean_and_se(each[name])
  end
  for name, pair in pairs { approximation = { "log_likelihood", "local_bound" },
    conditioning = { "local_bound", "mask_bound" }, amortisation = { "mask_bound", "amortised_bound" } } do
    local a, b = each[pair[1]], each[pair[2]]
    out[name] = a and b and mean_and_se(a - b)
  end
  return setmetatable(out, class)
end

-- ---- the function ----

local known = { log_likelihood = options.optional "function", training = options.optional(), draws = 4, steps = 500,
  lr = 0.05, rounds = 10, tolerance = 1e-3, batch_size = 256, local_batch = 4096, widths = options.any { 1, 2, 4 },
  family = options.choice("diagonal", "full"), split = 0.2, judge_draws = 64,
  importance_draws = 256, compile = true, generator = options.optional "generator" }

local function check(where, model, given)
  local o = options.check(where, given, known)
  for _, name in ipairs { "steps", "rounds", "local_batch", "judge_draws", "importance_draws" } do
    o[name] = options.whole(where, name, o[name], 1)
  end
  options.argument(where, "widths", o.widths, "table")
  for k, factor in ipairs(o.widths) do options.whole(where, ("widths[%d]"):format(k), factor, 1) end
  if not (o.split > 0 and o.split < 1) then
    core.error(("%s: split must lie between 0 and 1, got %s"):format(where, tostring(o.split)))
  elseif not (o.lr > 0 and o.tolerance > 0) then
    core.error(where .. ": lr and tolerance must be positive")
  end
  if type(model) ~= "table" and type(model) ~= "userdata" then
    core.error(("%s: model must be a model or a table of functions, got %s"):format(where, type(model)))
  end
  return o
end

local function exact_report(self, x, n)
  local likelihood = self.o.log_likelihood
  local each = (likelihood and likelihood(x) or recording.off(self.model.log_evidence, self.model, x)):to "float64"
  return assemble(n, { log_likelihood = each, local_bound = each, mask_bound = each, amortised_bound = each },
    { "the posterior is exact: there is nothing to lose" }, { ["local"] = true, mask = true })
end

local function likelihood_of(self, x, n, estimate, notes)
  local f = self.o.log_likelihood
  if not f then
    notes[#notes + 1] = ("log p(x) is the importance weighted bound of %d draws of the local posteriors: the "
      .. "approximation gap is at least this"):format(self.o.importance_draws)
    return estimate
  end
  local each = recording.off(f, x)
  if not core.is_tensor(each) or each:ndim() ~= 1 or each:size(1) ~= n then
    core.error(("measure: log_likelihood must give a tensor [%d], got %s"):format(n, core.is_tensor(each)
      and "[" .. table.concat(each:shape(), ", ") .. "]" or type(each)))
  end
  return each:to "float64"
end

--- measure(model, posterior, data [, {...}]) -> a report: approximation, conditioning and amortisation gap and the
--- bounds between which they lie, each {value, se} in nats a datum, paired over the data; each: the same for each
--- datum, [N]; settled.local, settled.mask: whether these optimisations stood still; notes. It prints as a table;
--- report:plot(path). posterior nil: the model's own. What model and posterior must answer: pn.help
--- "penumbra.gap.measure".
---
---   log_likelihood     function (data) -> [N], exact; without it the importance weighted bound of the local posteriors
---   training           data like `data` that networks are refitted on (the data themselves, which flatters L_mask);
---                      the share `split` (0.2) of them, the first, validates
---   draws              of each step, for each datum (4); judge_draws (64) when rounds are compared, importance_draws
---                      (256) of the final bounds
---   steps, rounds      of Adam in a round (500) and at most (10): lr (0.05) falls to 0 in each round, and begins at
---                      half of it after one without a gain, until two in a row gain less than tolerance (1e-3) nats or
---                      two standard errors (which must come to less than ten times the tolerance)
---   batch_size         of refitting (256); local_batch: data whose local posteriors are found together (4096)
---   widths             factors of the hidden layers that are tried in turn while validation gains ({1, 2, 4}); a
---                      network of the same sizes begins where the one there is stands
---   family             of local posteriors of z [S, N, n]: "diagonal", normals with diagonal covariance, or "full"
---   compile            steps are captured and replayed (true)
---   generator          a pn.generator
---
--- L_mask is of a network that was found, not of the best there is: conditioning is an upper bound by what that lacks,
--- amortisation a lower bound.
function measure.measure(model, posterior, given_data, given)
  local where = "measure"
  local o = check(where, model, given)
  local x = check_data(where, "data", model, given_data)
  local q = posterior or options.object(where, "model", model, "a model with amortised_posterior, where no posterior "
    .. "is given", "amortised_posterior"):amortised_posterior()
  local self = { model = model, o = o, generator = o.generator, eager = has(model, "eager") or q.eager }
  local n = count_of(model, x)
  if q.exact then
    return exact_report(self, x, n)
  end
  options.object(where, "model", model, "a model with log_joint", "log_joint")
  options.object(where, "posterior", q, "a posterior with draw and parameters", "draw", "parameters")
  local notes, settled, each = {}, {}, {}
  local estimate, resolution
  each.local_bound, estimate, settled["local"], resolution = local_of(self, q, x, n)
  each.log_likelihood = likelihood_of(self, x, n, estimate, notes)
  each.amortised_bound = weights_of(self, q, x, n, o.importance_draws):mean(1)
  if not settled["local"] then
    notes[#notes + 1] = ("local posteriors had not settled after %d rounds of %d steps"):format(o.rounds, o.steps)
  elseif resolution > o.tolerance then
    notes[#notes + 1] = ("local posteriors stood still to within %.2g nats, no nearer than that"):format(resolution)
  end
  if q.sees_all then
    each.mask_bound, settled.mask = each.local_bound, settled["local"]
    notes[#notes + 1] = "the mask hides nothing: L with the mask is that of local posteriors"
  elseif q.widened then
    local training = o.training and check_data(where, "training", model, o.training) or x
    local best, width, still, noise = mask_of(self, q, training, count_of(model, training))
    settled.mask = still
    each.mask_bound = best == q and each.amortised_bound or weights_of(self, best, x, n, o.importance_draws):mean(1)
    notes[#notes + 1] = width == 0 and "no refitted network was better than the one there is"
      or ("the refitted network has %d times the hidden units"):format(width)
    notes[#notes + 1] = "conditioning is an upper bound by what the refitted network lacks"
    if not still then
      notes[#notes + 1] = ("refitting had not settled (%d rounds of %d steps, widths up to %d)"):format(o.rounds,
        o.steps, o.widths[#o.widths])
    elseif noise > o.tolerance then
      notes[#notes + 1] = ("validation stood still to within %.2g nats, no nearer than that"):format(noise)
    end
    if not o.training then
      notes[#notes + 1] = "networks were refitted on the data that are measured"
    end
  else
    notes[#notes + 1] = "the posterior cannot be refitted (no widened): L with the mask is not known"
  end
  local out = assemble(n, each, notes, settled)
  for _, name in ipairs { "approximation", "conditioning", "amortisation" } do
    if out[name] and out[name].value < -2 * out[name].se - o.tolerance then
      notes[#notes + 1] = name .. " is negative: the family of the network holds more than that of the posteriors "
        .. "above it, or these had not settled"
    end
  end
  return out
end

class.__index = core.namespace("a gap report", report)

measure.report = report
measure.objects = { ["report:"] = report }

return measure
