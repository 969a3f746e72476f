--- What a step through pn.model and pn.svi costs beside the same bound written by hand: logistic regression of 200 rows
--- in 5 columns, ELBO and the importance-weighted bound of 10 draws, replayed and eager.
local pn = require "penumbra"
local dist = pn.dist
local ROWS, COLUMNS, DRAWS = 200, 5, 10

pn.seed(1)
local x = pn.randn { ROWS, COLUMNS }
local y = x:matmul(pn.randn { COLUMNS }):gt(0):to "float64"
local zero = pn.zeros { COLUMNS }

local model = pn.model(function(m, inputs, labels)
  local w = m:sample("w", dist.normal(zero, 1):independent(1))
  m:plate("rows", ROWS, function()
    m:observe("y", dist.bernoulli { logits = (inputs * w):sum(-1) }, labels)
  end)
end)

local function guide()
  return pn.model(function(g)
    g:sample("w", dist.normal(g:param("loc", zero), g:param("log_scale", zero):exp()):independent(1))
  end)
end

local loc, log_scale = pn.param(zero), pn.param(zero)

local function elbo()
  local q = dist.normal(loc, log_scale:exp()):independent(1)
  local fit = dist.bernoulli { logits = (x * q:rsample()):sum(-1) }:log_prob(y):sum()
  return dist.kl(q, dist.normal(zero, 1):independent(1)) - fit
end

local function iwae()
  local q, p = dist.normal(loc, log_scale:exp()):independent(1), dist.normal(zero, 1):independent(1)
  local w = q:rsample { DRAWS, 1 }
  local log_p = dist.bernoulli { logits = (x * w):sum(-1) }:log_prob(y):sum(2, true) + p:log_prob(w)
  return -pn.infer.iwae(log_p - q:log_prob(w))
end

return function(bench)
  for _, case in ipairs { { "elbo", elbo, 1 }, { "iwae", iwae, DRAWS } } do
    for _, compile in ipairs { true, false } do
      local opt = pn.optim.adam({ loc, log_scale }, { lr = 1e-3 })
      local by_hand = compile and pn.compile(case[2], { optimiser = opt }) or function() return opt:step(case[2]()) end
      local fit = pn.svi(model, guide(), { data = { x, y }, steps = 0, estimator = case[1], draws = case[3],
        vectorised = case[3] > 1, compile = compile })
      local hand = bench.time(function() for _ = 1, 100 do by_hand() end end)
      local through = bench.time(function() fit:continue(100) end)
      bench.row(("%s step by pn.svi to by hand, %s"):format(case[1], compile and "replayed" or "eager"), through / hand,
        "x", compile and 1.1 or 1.3)
    end
  end
end
