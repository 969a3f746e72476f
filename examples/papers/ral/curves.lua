--- Test error against the number of labels by what asks for them (Haussmann 2021, table 4.1, figure 4.3): 50 random
--- labels, 5 more a round, 30 epochs after each in minibatches of 10 from where the network stands.
---
---     penumbra examples/papers/ral/curves.lua --data FOLDER        FOLDER holds train-images-idx3-ubyte.gz ...
---     penumbra examples/papers/ral/curves.lua --quick              seconds, on generated images
---
--- Runs are kept in curves.runs, one a line, and made once: stopped, the same command goes on. As they stand the
--- options are the document's size but for --seeds 1,2,3,4,5, about 15 minutes a run. What was run, at which size, and
--- what came out: README.md beside this file.
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
local experiment = dofile(here .. "/../continual/experiment.lua")
local labelling = dofile(here .. "/labelling.lua")

local option = experiment.options(labelling.defaults { acquisitions = "random,entropy,bald,thinned,reinforced",
  results = "curves.runs", name = "curves" }, labelling.quick { acquisitions = "random,entropy,reinforced" })

local variants = {}
for k, name in ipairs(experiment.words(option.acquisitions)) do variants[k] = { acquisition = name } end
labelling.compare(option, labelling.runs(option, variants), variants, option.name)
