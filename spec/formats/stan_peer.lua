--- The side of this library in stan_peer.py:  lua spec/formats/stan_peer.lua FOLDER CHAINS
--- Reads FOLDER/chain_1.csv and on, and writes what it has read as .npz.
local pn = require "penumbra"
local folder, chains = arg[1], tonumber(arg[2])
local paths = {}
for c = 1, chains do paths[c] = ("%s/chain_%d.csv"):format(folder, c) end
local p = assert(pn.infer.cmdstan(paths))
local adaptation = {}
for c, found in ipairs(p.adaptation) do
  adaptation["metric_" .. c], adaptation["step_" .. c] = found.inverse_metric, pn.full({}, found.step_size)
end
assert(pn.data.save_npz(folder .. "/read.npz", { draws = p.draws, statistics = p.statistics, adaptation = adaptation,
  warmup = p.warmup_draws.draws }))
