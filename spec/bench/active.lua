--- Active learning on the document's LeNet by moments, float32: what ranking a pool costs over passing it through the
--- network, and BatchBALD (five of 2000 data, 100 draws, ten classes: outcomes summed over up to 10^4, then drawn).
local pn = require "penumbra"
local nn, active = pn.nn, pn.active

local function new_network()
  local how = { init = "he", dtype = "float32" }
  local function conv(from, to)
    return nn.conv2d(from, to, { kernel = 5, stride = 2, init = "he", dtype = "float32" })
  end
  local function relu() return nn.relu { rule = "clt" } end
  return nn.bayesian(nn.sequential { conv(1, 20), relu(), conv(20, 50), relu(), nn.flatten(), nn.linear(800, 500, how),
    relu(), nn.linear(500, 10, how) }, { posterior_scale = math.exp(-4.5) })
end

return function(bench)
  pn.seed(1)
  local net, x = new_network(), pn.rand({ 100, 1, 28, 28 }, { dtype = "float32" })
  local forward = function() pn.no_grad(function() return net:moments(x) end) end
  local passes = {}
  for _, name in ipairs { "entropy", "bald", "reinforced" } do
    local model = active.network(net, { classes = 10, link = "probit" })
    local y = pn.full({ 100 }, -1, { dtype = "int64" })
    y = y:scatter_add(1, pn.tensor({ 0 }, { dtype = "int64" }), pn.tensor({ 1 }, { dtype = "int64" }))
    local pool = active.pool { x = x, model = model, acquisition = name, y = y, count = 5 }
    local inner = require("penumbra.active.pool").inner(pool)
    passes[name] = function()
      inner.asked = nil
      pool:ask()
    end
  end
  local least, base = {}, math.huge
  for _ = 1, 3 do -- in turn: others' load comes and goes
    base = math.min(base, bench.time(forward))
    for name, f in pairs(passes) do least[name] = math.min(least[name] or math.huge, bench.time(f)) end
  end
  bench.row("100 images through LeNet by moments, float32", base * 1e3, "ms")
  for _, name in ipairs { "entropy", "bald", "reinforced" } do
    bench.row(("asking by %s, against that pass"):format(name), least[name] / base, "ratio",
      name ~= "reinforced" and 1.2 or nil)
  end
  local draws = (pn.randn({ 100, 2000, 10 }) * 2):softmax(-1)
  bench.row("batch_bald, 5 of 2000, 100 draws, float64", bench.time(function() active.batch_bald(draws, 5) end) * 1e3,
    "ms")
end
