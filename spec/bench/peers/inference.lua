--- The group `inference` of `make bench-peers`: a step of Adam on the evidence lower bound, and on the importance
--- weighted bound, of models written for pn.model. Keys "elbo NAME", "iwae NAME": seconds of a step; "elbo NAME first":
--- until the first step is done.
---   logistic, eight_schools    sampling.lua's models and data, mean-field guide, float64; iwae of 10 draws
---   VAE                        784-200-200-40, tanh, 100 rows, float32, guide of one's own; iwae of 50 draws
---
--- Measured with Pyro 1.9.2 (PyTorch 2.15) and NumPyro 0.22 (JAX 0.10.2), one run, processor time on a machine that
--- others used, too (load 5 to 14 on two cores). Our replayed step in microseconds, the peers' in multiples of it:
---
---                                      ours    eager   Pyro   NumPyro
---   ELBO, eight schools                1.67     26     508     3.6
---   IWAE of 10, eight schools          10.2     35     240     2.6
---   ELBO, logistic regression          6.51     4.5     68     1.9
---   IWAE of 10, logistic regression    58.1     4.6     33     1.4
---   ELBO, VAE                          2040     1.2     3.1    1.4
---   IWAE of 50, VAE                    67200    1.0     1.5    1.9
---
--- Until a first step is done: 0.8 to 3.3 ms ours with the small models, 10 and 130 ms with the VAE; NumPyro 1.3 to
--- 7.2 s, which is compiling.
local pn = require "penumbra"
local nn, dist = pn.nn, pn.dist
local sampling = require "sampling"
local o = {dtype = "float32"}
local STEPS = 20 -- of one call

local function vae()
  local function net(sizes)
    local layers = {}
    for k = 2, #sizes do
      layers[#layers + 1] = nn.linear(sizes[k - 1], sizes[k], o)
      layers[#layers + 1] = k < #sizes and nn.tanh() or nil
    end
    return nn.sequential(layers)
  end
  local encoder, decoder = net{784, 200, 200, 80}, net{40, 200, 200, 784}
  local zero, one = pn.zeros({40}, o), pn.ones({40}, o)
  local model = pn.model(function(m, x)
    local f = m:module("decoder", decoder)
    m:plate("rows", x:size(1), function()
      local z = m:sample("z", dist.normal(zero, one):independent(1))
      m:observe("x", dist.bernoulli{logits = f(z)}:independent(1), x)
    end)
  end)
  local guide = pn.model(function(g, x)
    local h = g:module("encoder", encoder)(x)
    g:plate("rows", x:size(1), function()
      g:sample("z", dist.normal(h:slice(2, 1, 40), (h:slice(2, 41, 80) * 0.5):exp()):independent(1))
    end)
  end)
  return model, guide, {(pn.rand({100, 784}, o) - 0.5):ge(0):to "float32"}
end

local inference = {}

local function measure(print_row, time, name, model, guide, data, draws)
  for _, estimator in ipairs{"elbo", "iwae"} do
    local key, k = estimator .. " " .. name, estimator == "iwae" and draws or 1
    for _, compile in ipairs{false, true} do
      local who, start = compile and "replayed" or "eager", os.clock()
      local fit = pn.svi(model, guide, {data = data, steps = 1, lr = 1e-4, estimator = estimator, draws = k,
        vectorised = k > 1 and type(guide) ~= "string", compile = compile})
      print_row(key .. " first", who, os.clock() - start)
      print_row(key, who, time(function() fit:continue(STEPS) end) / STEPS)
    end
  end
end

--- measure(print_row, time, folder): prints the rows; the data go to the folder, as of sampling.lua.
function inference.measure(print_row, time, folder)
  sampling.each(folder, function(name, entry, args)
    if name == "logistic" or name == "eight_schools" then
      measure(print_row, time, name, entry.model, "mean_field", args, 10)
    end
  end)
  local model, guide, data = vae()
  measure(print_row, time, "VAE", model, guide, data, 50)
end

return inference
