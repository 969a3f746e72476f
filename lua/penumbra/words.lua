--- Words of options that more than one module takes: what each means, everywhere the same, and what it was called.
---
---     draws          how many Monte Carlo draws: of paths, samples, posteriors alike
---     num_particles  of a population
---     batch_size     rows of a minibatch
---     batch_shape    sizes of independent problems side by side, a list
---     steps          of an optimiser or a recursion;  epochs  passes through the data
---     max_steps      an upper limit of something that may stop sooner
---     on_step, on_epoch    functions that are called after each;  progress  a line on the terminal: true, false, a file
---     generator      a pn.generator;  seed  a whole number, where a whole run begins
---     observed       bool: false where something is missing, as NaN is by itself;  impute  how to fill it
-- help: pn, quiet
local words = {}

--- The present word (or words) of an old one.
words.called = {
  num_samples = { "draws" }, n_samples = { "draws" }, num_draws = { "draws" }, num_paths = { "draws" },
  samples = { "draws" }, paths = { "draws" }, size = { "batch_size" },
  particles = { "num_particles", "draws" }, n_particles = { "num_particles" },
  batch = { "batch_size", "batch_shape" }, minibatch = { "batch_size" }, 
  iterations = { "steps", "max_steps" }, num_steps = { "steps" }, num_epochs = { "epochs" },
  max_iterations = { "max_steps" }, max_iter = { "max_steps" }, sweeps = { "max_sweeps" },
  on_iteration = { "on_step" }, callback = { "on_step", "on_epoch" }, rng = { "generator" },
  mask = { "observed" }, missing = { "impute", "observed" }, u = { "inputs" },
}

--- What the value of a word must be: a kind (of options.argument), or a whole number from `least` on.
words.rules = {
  draws = { least = 1 }, num_particles = { least = 1 }, batch_size = { least = 1 }, steps = { least = 0 },
  epochs = { least = 1 }, max_steps = { least = 1 }, on_step = { kind = "function" }, on_epoch = { kind = "function" },
  generator = { kind = "generator" }, seed = { least = 0 },
}

--- What `old` is called among the names of the table `known`, or nil.
function words.now(old, known)
  for _, name in ipairs(words.called[old] or {}) do
    if known[name] ~= nil then
      return name
    end
  end
end

return words
