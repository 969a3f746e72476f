--- Gaussian sites of data of Bayesian networks 6-16-16-1 (Yacht, 25 data), 57-32-32-1 (Spam, 50) and 784-64-64-10
--- (MNIST, 400), tanh between, float32: each datum's, and their sums with what a score needs. Seconds per draw.
local pn = require "penumbra"

local sites = { { "Yacht", { 6, 16, 16, 1 }, 25, "normal", 8192 },
  { "Spam", { 57, 32, 32, 1 }, 50, "bernoulli", 2048 },
  { "MNIST", { 784, 64, 64, 10 }, 400, "categorical", 512 } }

local function targets(likelihood, n)
  if likelihood == "categorical" then return pn.randint(0, 9, { n }) end
  local y = pn.randn({ n }, { dtype = "float32" })
  return likelihood == "normal" and y or y:gt(0):to "float32"
end

--- The two calls of a row: {{key, function, draws}, ...}.
function sites.calls(row)
  local name, widths, n, likelihood, draws = table.unpack(row)
  local list, o = {}, { dtype = "float32" }
  for k = 2, #widths do
    list[#list + 1] = pn.nn.linear(widths[k - 1], widths[k], o)
    list[#list + 1] = k < #widths and pn.nn.tanh() or nil
  end
  local net = pn.nn.sequential(list)
  local P = net:num_parameters()
  local x, y = pn.randn({ n, widths[1] }, o), targets(likelihood, n)
  local given = { likelihood = likelihood, noise_scale = likelihood == "normal" and 0.5 or nil, draws = draws,
    posterior = pn.dist.normal(pn.randn({ P }, o) * 0.1, pn.full({ P }, 0.1, o)):independent(1) }
  return { { "sites, " .. name, function() pn.continual.sites(net, x, y, given) end, draws },
    { "sums of sites, " .. name, function() pn.continual.site_sums(net, x, y, given) end, draws } }
end

return sites
