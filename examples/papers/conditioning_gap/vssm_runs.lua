--- What uav.lua, mnist_rows.lua, traffic.lua and search.lua share: the selected settings of the document's appendices
--- C, D and E, training that goes on from a file, bounds. It does nothing when it is run by itself.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):gsub("[^/]*$", "")
local experiment = dofile(here .. "../continual/experiment.lua")

local runs = { experiment = experiment }

--- settings.experiment.conditioning: rows of the document's tables C.2, C.3, D.1, D.2, E.2 to E.4; those of partial
--- inference on flights are C.2's, for the document has none.
runs.settings = {
  uav = {
    semi = { batch = 16, lr = 1e-3, beta1 = 0.9, latent = 22, flows = 12, flow_hidden = { 8, 8 },
      transition = "residual", prefix = 7, units = 128, hidden = { transition = { 16, 32 }, initial = { 16, 16 },
      disturbance = { 64, 128 }, prefix = { 32, 32 }, emission = {} },
      activation = { transition = { "tanh", "softplus" }, initial = { "tanh", "softsign" },
        disturbance = { "tanh", "relu" }, prefix = { "softplus", "softsign" } } },
    full = { batch = 32, lr = 3e-3, beta1 = 0.8, latent = 20, flows = 12, flow_hidden = { 16, 8 },
      transition = "highway", units = 128, hidden = { transition = { 64, 16 }, initial = { 32, 128 },
      disturbance = { 128, 128 }, prefix = { 128, 32 }, emission = {} }, activation = { transition = "softplus",
      initial = { "tanh", "relu" }, disturbance = { "tanh", "relu" }, prefix = { "softsign", "softplus" } } },
  },
  rows = {
    partial = { batch = 32, lr = 3e-3, beta1 = 0.8, latent = 25, flows = 12, flow_hidden = { 64, 32 },
      transition = "highway", units = 128, hidden = { transition = { 32, 128 }, initial = { 32, 64 },
      disturbance = { 64, 64 }, prefix = { 16, 32 }, emission = { 16, 32 } }, activation = {
      transition = { "softsign", "softplus" }, initial = { "softsign", "tanh" },
      disturbance = { "softplus", "softsign" }, prefix = { "softplus", "softsign" },
      emission = { "relu", "softplus" } } },
    full = { batch = 128, lr = 3e-3, beta1 = 0.9, latent = 25, flows = 4, flow_hidden = { 64, 32 },
      transition = "highway", units = 32, hidden = { transition = { 192, 192 }, initial = { 64, 16 },
      disturbance = { 64, 16 }, prefix = { 16, 128 }, emission = { 64, 64 } }, activation = {
      transition = { "relu", "tanh" }, initial = { "softsign", "relu" }, disturbance = { "relu", "softsign" },
      prefix = { "tanh", "softplus" }, emission = { "softsign", "softplus" } } },
  },
  traffic = {},
}
runs.settings.uav.partial = runs.settings.uav.semi

for name, row in pairs {
  partial = { batch = 8, lr = 1e-4, beta1 = 0.5, flow_hidden = { 32, 64 }, scale = 2.97241, prefix = { 128, 128 },
    activation = { "softsign", "relu" } },
  semi = { batch = 128, lr = 3e-4, beta1 = 0.5, flow_hidden = { 8, 32 }, scale = 0.775862, prefix = { 128, 16 },
    activation = { "softsign", "tanh" } },
  full = { batch = 8, lr = 3e-4, beta1 = 0.8, flow_hidden = { 8, 8 }, scale = 1.28276, prefix = { 64, 32 },
    activation = { "relu", "softsign" } },
} do
  runs.settings.traffic[name] = { batch = row.batch, lr = row.lr, beta1 = row.beta1, latent = 64, flows = 4,
    flow_hidden = row.flow_hidden, transition = "plain", units = 64, scale = row.scale, prefix = 7,
    hidden = { transition = { 64 }, initial = { 64 }, disturbance = { 64 }, prefix = row.prefix, emission = { 64 } },
    activation = { transition = "softsign", initial = "softplus", disturbance = "softplus", prefix = row.activation,
      emission = "softplus" }, init = { transition = "orthogonal" } }
end

--- model(setting, conditioning, more): the VSSM of a row, with what the experiment gives it.
function runs.model(setting, conditioning, more)
  local o = { latent = setting.latent, flows = setting.flows, flow_hidden = setting.flow_hidden,
    transition = setting.transition, units = setting.units, hidden = setting.hidden, activation = {},
    init = setting.init, conditioning = conditioning, prefix = conditioning == "semi" and setting.prefix or nil }
  for name, value in pairs(setting.activation) do o.activation[name] = value end
  for name, value in pairs(more) do o[name] = value end
  return pn.models.vssm(o)
end

--- elbo(model, batch, draws): the mean bound in nats a series, averaged over so many draws of each path, and its
--- standard error over the series.
function runs.elbo(model, batch, draws)
  local each = model:bound(batch, { draws = draws, objective = "elbo", batch_size = 5000 }):to "float64"
  return each:mean():item(), each:std():item() / math.sqrt(each:size(1)), each
end

--- fit(model, setting, o): trains for o.updates updates on o.train, goes on from the file o.file. The parameters with
--- the best bound on o.validation, looked at `looks` (20) times, are put back at the end; they stand beside the run's
--- file. Returns the best validation bound, its update, the minutes that training took and the last update.
function runs.fit(model, setting, o)
  local path, best = o.file, { score = -math.huge, step = 0 }
  local every = math.max(1, o.updates // (o.looks or 20))
  local kept = path and pn.load(path .. ".best")
  if kept and pn.load(path) then best = kept end
  local began = os.clock()
  local run = model:fit { series = o.train, batch_size = setting.batch, steps = o.updates, lr = setting.lr, decay = 1,
    beta1 = setting.beta1, beta2 = 0.999, clip = o.clip or 10, seed = o.seed, checkpoint = path,
    checkpoint_every = every, resume = path ~= nil, progress = o.progress, on_step = function(s)
      if s.iteration % every == 0 or s.iteration == o.updates then
        local score = runs.elbo(model, o.validation, 1)
        if score > best.score then
          best = { score = score, step = s.iteration, state = model:state() }
          if path then assert(pn.save(path .. ".best", best)) end
        end
      end
      return not o.seconds or os.clock() - began < o.seconds
    end }
  if run.iteration == o.updates and best.state then model:load_state(best.state) end
  return { validation = best.score, best_update = best.step, updates = run.iteration, fit_minutes = run.seconds / 60,
    done = run.iteration == o.updates }
end

--- words of a path that tell runs apart
function runs.file_of(option, job)
  return option.keep ~= "" and ("%s/%s.safetensors"):format(option.keep, table.concat(job, "-")) or nil
end

return runs
