--- The side of this library in arviz_peer.py:  lua spec/formats/arviz_peer.lua write|read FOLDER
--- write: a posterior as a store, its draws and statistics as .npz beside it, its summary as CSV; read: what ArviZ has
--- written, as .npz.
local pn = require "penumbra"
local dist = pn.dist
local mode, folder = arg[1], arg[2]
local function at(name) return ("%s/%s"):format(folder, name) end

if mode == "write" then
  pn.seed(11)
  local y = pn.tensor { 28, 8, -3, 7, -1, 1, 18, 12 }
  local sigma = pn.tensor { 15, 10, 16, 11, 9, 11, 10, 18 }
  local model = pn.model(function(m, data)
    local mu, tau = m:sample("mu", dist.normal(0, 5)), m:sample("tau", dist.half_cauchy(5))
    local z = m:sample("z", dist.normal(pn.zeros { 8 }, 1):independent(1))
    m:observe("y", dist.normal(m:deterministic("theta", mu + tau * z), sigma), data)
  end)
  local p = pn.nuts(model, { data = { y }, chains = 4, draws = 500 })
  assert(p:save_arviz(at "ours.zarr", { groups = { "log_likelihood", "posterior_predictive", "prior" }, draws = 100,
    dims = { theta = { "school" } }, coords = { school = { "Choate", "Deerfield", "Phillips Andover",
      "Phillips Exeter", "Hotchkiss", "Lawrenceville", "St. Paul's", "Mt. Hermon" } } }))
  assert(pn.data.save_npz(at "ours.npz", { draws = p.draws, statistics = p.statistics,
    log_likelihood = p:log_likelihood(), y = y }))
  local rows, names = {}, {}
  for k, row in ipairs(p:summary()) do
    names[k] = row.name:gsub(", ", ",")
    rows[k] = { row.mean, row.sd, row.r_hat, row.ess_bulk, row.ess_tail, row.mcse }
  end
  assert(pn.data.save_npz(at "summary.npz", { rows = pn.tensor(rows), loo = pn.tensor { p:loo().elpd, p:loo().se,
    p:waic().elpd, p:waic().p } }))
  local file = assert(io.open(at "names.txt", "w"))
  file:write(table.concat(names, "\n"))
  file:close()
else
  local p = assert(pn.infer.arviz(at "theirs.zarr"))
  assert(pn.data.save_npz(at "theirs_read.npz", { draws = p.draws, statistics = p.statistics,
    log_likelihood = p:log_likelihood() }))
  assert(p:save_arviz(at "back.zarr"))
  local q, message = pn.infer.arviz(at "compressed.zarr")
  assert(q == nil and message:find('encoding["compressor"] = None', 1, true), message)
end
