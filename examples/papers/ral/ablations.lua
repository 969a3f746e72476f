--- What of reinforced labelling does what (Haussmann 2021, 4.6), on FashionMNIST:
---   --study guide         table 4.2, figure 4.4: the thinned ranking without a policy, a policy that is frozen or made
---                         anew after each round
---   --study choices       what the document leaves open: 500 units, divergence scaled, diversity at each step
---   --study convergence   figure 4.5: four networks on 10,000 images in minibatches of 64, error by epoch
---   --study uncertainty   figure 4.6: dropout with 12 draws against moments, rate 1e-3, minibatches of 64
---
---     penumbra examples/papers/ral/ablations.lua --data FOLDER --study guide
---     penumbra examples/papers/ral/ablations.lua --quick           seconds, on generated images
---
--- Runs are kept in ablations.runs and made once. What was run and what came out: README.md beside this file.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local experiment = dofile(here .. "/../continual/experiment.lua")
local labelling = dofile(here .. "/labelling.lua")

local option = experiment.options(labelling.defaults { study = "guide", subset = 10000, converge = 30,
  results = "ablations.runs" }, labelling.quick { study = "all", subset = 200, converge = 2, labels = 25 })

local studies = {}

local function compared(name, variants, more)
  local o = {}
  for key, value in pairs(option) do o[key] = value end
  for key, value in pairs(more or {}) do o[key] = value end
  labelling.compare(o, labelling.runs(o, variants), variants, name)
end

function studies.guide()
  local variants = {}
  for k, name in ipairs { "random", "entropy", "thinned", "frozen", "reset", "reinforced" } do
    variants[k] = { acquisition = name }
  end
  compared("guide", variants)
end

function studies.choices()
  local variants = {}
  for k, name in ipairs { "reinforced", "reinforced_500", "reinforced_scaled", "reinforced_each" } do
    variants[k] = { acquisition = name }
  end
  compared("choices", variants)
end

function studies.uncertainty()
  compared("uncertainty", { { acquisition = "random" }, { acquisition = "entropy", label = "moments, entropy" },
    { acquisition = "bald", label = "moments, bald" }, { acquisition = "reinforced", label = "moments, reinforced" },
    { acquisition = "entropy", kind = "dropout_softmax", label = "dropout, entropy" },
    { acquisition = "bald_12", kind = "dropout_softmax", label = "dropout, bald" } }, { lr = 1e-3, batch = 64 })
end

local NETWORKS <const> = { "dropout_softmax", "dropout_probit", "clt_fixed", "clt" }

-- Test errors after each epoch on a random choice of the seed, the same for all networks.
local function convergence_of(job, data)
  local x, y, tx, ty = table.unpack(data)
  local order = pn.randperm(x:size(1), { generator = pn.generator(job.seed) })
  order = order:slice(1, 1, math.min(job.subset, order:size(1)))
  x, y = x:take(1, order), y:take(1, order)
  pn.seed(job.seed)
  local o = { network = job.network, kind = job.kind, precision = job.precision, lr = 1e-3 }
  local kind = labelling.kinds[o.kind]
  local net = kind.make(o.network, o)
  local _, train = labelling.trainer(net, kind, o)
  local errors = {}
  for epoch = 1, job.converge do
    train(x, y, { lr = o.lr, epochs = 1, batch_size = 64 })
    local f = pn.no_grad(function()
      if kind.dropout then return net:evaluate(tx) end
      return (net:moments(tx))
    end)
    errors[epoch] = 100 * f:argmax(2):ne(ty):to("float64"):mean():item()
  end
  return { errors = errors, final = errors[#errors] }
end

function studies.convergence()
  local jobs, data = {}, nil
  for _, seed in ipairs(experiment.words(option.seeds)) do
    for _, kind in ipairs(NETWORKS) do
      jobs[#jobs + 1] = { study = "convergence", set = option.set, seed = seed, kind = kind, network = option.network,
        precision = option.precision, subset = option.subset, converge = option.converge, tested = option.tested }
    end
  end
  local runs = experiment.runs { option = option, jobs = jobs, order = { "study", "set", "kind", "seed", "final" },
    run = function(job)
      data = data or { labelling.data(option) }
      return convergence_of(job, data)
    end }
  local write = experiment.report(option, "convergence")
  write("%s, %s, %d images, test error in per cent after epochs, mean and standard deviation over runs", option.set,
    option.network, option.subset)
  local shown = { 1, 2, 5, 10, 20, 30 }
  local panels = { title = option.set, x_label = "epoch", y_label = "test error, per cent", size = { 680, 430 } }
  for k, kind in ipairs(NETWORKS) do
    local found = experiment.find(runs, { kind = kind })
    local curves = {}
    for i, r in ipairs(found) do curves[i] = r.errors end
    if #curves > 0 then
      local all = pn.tensor(curves)
      local mean, sd = all:mean(1), #curves > 1 and all:std(1) or all:mean(1) * 0
      local words = {}
      for _, epoch in ipairs(shown) do
        if epoch <= option.converge then
          words[#words + 1] = ("%d: %.2f +- %.2f"):format(epoch, mean[epoch]:item(), sd[epoch]:item())
        end
      end
      write("%-16s %2d runs  %s", kind, #curves, table.concat(words, "   "))
      panels[#panels + 1] = pn.plot.band(nil, mean - sd, mean + sd, { colour = labelling.colours[k], opacity = 0.12 })
      panels[#panels + 1] = pn.plot.line(nil, mean, { colour = labelling.colours[k], label = kind })
    end
  end
  if #panels > 0 then experiment.picture(option, "convergence", panels) end
end

for _, name in ipairs { "guide", "choices", "convergence", "uncertainty" } do
  if option.study == name or option.study == "all" then studies[name]() end
end
