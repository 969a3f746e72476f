--- Active learning: which data are worth a label. A pool of data without labels asks for some, is told what they are,
--- trains its model and goes on (Haussmann 2021, chapter 4, and what it is measured against).
---
---     local model = pn.active.network(net, {classes = 10, link = "probit", fit = train})
---     local pool = pn.active.pool{x = x, model = model, acquisition = "bald", first = 50, count = 5, max_labels = 400}
---     local positions = pool:ask()                  -- of the data whose labels are wanted
---     local report = pool:tell(labels)              -- seconds or days later
---     pn.active.ask(pool, {path = "pool.safetensors"})     -- or at the prompt, by a person
---
--- Acquisitions by name: random, entropy, thinned, margin, variation_ratio, bald, batch_bald, core_set, reinforced; a
--- function is one, too. The scores serve without a pool:
---
---     pn.active.top(pn.active.bald(draws), 5)       -- draws [K, N, classes]
---     pn.active.batch_bald(draws, 5).places
-- help: pn.active, part
local batch_bald = require "penumbra.active.batch_bald"
local core = require "penumbra.core"
local core_set = require "penumbra.active.core_set"
local label_prompt = require "penumbra.active.label_prompt"
local pool = require "penumbra.active.pool"
local predictor = require "penumbra.active.predictor"
local reinforce = require "penumbra.active.reinforce"
local score = require "penumbra.active.score"

require "penumbra.active.pool_file" -- pools have `save` from it

local active = {}

for home, names in pairs {
  [score] = "entropy margin variation_ratio bald bald_moments probit_probabilities top",
  [batch_bald] = "batch_bald joint_entropy", [core_set] = "core_set", [label_prompt] = "ask picture",
  [pool] = "pool acquisitions", [predictor] = "predictor network posterior",
  [reinforce] = "returns policy_loss" } do
  for name in names:gmatch "%S+" do active[name] = core.public(home[name]) end
end

return core.namespace("pn.active", active)
