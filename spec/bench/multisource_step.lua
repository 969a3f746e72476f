--- A step of training of a model of several sources, replayed, at the sizes of digits by quarters (four sources of 196
--- pixels, 200-200 units, 16 latents, K = 16) with 32 images: the three objectives, and growth with sources and draws.
local pn = require "penumbra"

local o32 <const> = { dtype = "float32" }

-- Seconds of a step of M sources, K draws.
local function step_of(bench, m, k, objective)
  pn.seed(1)
  local sources, x = {}, {}
  for i = 1, m do
    sources["q" .. i] = { size = 196 }
    x[i] = pn.rand({ 32, 196 }, o32):lt(0.3):to "float32"
  end
  local model = pn.models.multisource { sources = sources, latent = 16, hidden = { 200, 200 }, activation = "elu",
    dtype = "float32" }
  local step = pn.compile(function(...)
    local data = {}
    for i, t in ipairs { ... } do data["q" .. i] = t end
    return model:loss(data, { objective = objective, draws = k })
  end, { optimiser = pn.optim.adam(model:parameters()) })
  return bench.time(function() step(table.unpack(x)) end)
end

return function(bench)
  pn.threads(1)
  local seconds = {}
  for _, objective in ipairs { "ind", "poe", "hybrid" } do
    seconds[objective] = step_of(bench, 4, 16, objective)
    bench.row(("multisource, 4 sources, K = 16, %s: a step"):format(objective), seconds[objective] * 1e3, "ms")
  end
  -- all are bound by decoders: M K rows for ind, K for poe, both for hybrid, each through all targets
  bench.row("multisource: hybrid / (ind + poe)", seconds.hybrid / (seconds.ind + seconds.poe), "times", 1.2)
  bench.row("multisource: ind / poe, by rows of the decoders 4", seconds.ind / seconds.poe, "times", 4 * 1.2)
  bench.row("multisource: ind, twice the draws / once", step_of(bench, 4, 32, "ind") / seconds.ind, "times", 2 * 1.3)
  bench.row("multisource: ind, four sources / two", seconds.ind / step_of(bench, 2, 16, "ind"), "times", 4 * 1.3)
end
