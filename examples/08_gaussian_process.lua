--- Gaussian process regression: a curve is known at 40 noisy places, with a gap in between. How long its waves are, how
--- high, and how much noise there is, are sampled by NUTS and fitted by pn.svi; the curve itself is integrated out in
--- closed form. The prediction is wide where there are no data.
---
---     penumbra examples/08_gaussian_process.lua [--quick] [--seed N] [--out FILE.svg]
local pn = require "penumbra"
local dist = pn.dist

local quick, seed, out = false, 1, "gaussian_process.svg"
local i = 1
while arg[i] do
  if arg[i] == "--quick" then
    quick = true
  elseif arg[i] == "--seed" and math.tointeger(tonumber(arg[i + 1])) then
    seed, i = math.tointeger(tonumber(arg[i + 1])), i + 1
  elseif arg[i] == "--out" and arg[i + 1] then
    out, i = arg[i + 1], i + 1
  else
    io.stderr:write("usage: 08_gaussian_process.lua [--quick] [--seed N] [--out FILE.svg]\n")
    os.exit(1)
  end
  i = i + 1
end
pn.seed(seed)

-- The data: a wave that grows, nothing known between 4 and 6.
local function truth(x) return (x * 1.3):sin() * (x * 0.15 + 0.5) end
local n = 40
local x = pn.concatenate({ pn.rand { 28 } * 4, pn.rand { n - 28 } * 3 + 6 }, 1)
local y = truth(x) + pn.randn { n } * 0.2

-- Covariance of the curve at places a [A] and b [B]: amplitude^2 exp(-(a - b)^2 / (2 length^2)). With hyperparameters
-- [S, 1, 1] it is [S, A, B].
local function covariance(a, b, length, amplitude)
  local apart = (a:unsqueeze(2) - b:unsqueeze(1)) / length
  return (apart:square() * -0.5):exp() * amplitude:square()
end
local model = pn.model(function(m, at, seen)
  local length = m:sample("length", dist.log_normal(0, 0.7))
  local amplitude = m:sample("amplitude", dist.log_normal(0, 0.7))
  local noise = m:sample("noise", dist.log_normal(-1, 1))
  local k = covariance(at, at, length, amplitude) + pn.eye(at:size(1)) * noise:square()
  m:observe("y", dist.multivariate_normal { loc = pn.zeros { at:size(1) }, covariance_matrix = k }, seen)
end)
local data = { x, y }

local draws = quick and 1000 or 1500
local posterior = pn.nuts(model, { data = data, warmup = quick and 250 or 1000, draws = draws, progress = true })
print(("NUTS: %d draws in %.1f s, %d divergences"):format(4 * draws, posterior.seconds, posterior.divergences))
local fits = {}
for _, name in ipairs { "mean_field", "full_rank" } do
  local fit = pn.svi(model, name, { data = data, steps = quick and 800 or 3000, draws = 4, lr = 0.02 })
  local bound = fit:bound { draws = 4000 }
  print(("%-11s ELBO %.3f, log evidence %.3f, k-hat %.2f, %.1f s"):format(name .. ":", bound.elbo, bound.value,
    fit:k_hat(4000), fit.seconds))
  fits[name] = fit
end
local mean_field, full_rank = fits.mean_field:sample(4000), fits.full_rank:sample(4000)
local weighted = fits.full_rank:resample(2000, { draws = 20000 })

local worst = 0
print(("\n%-10s %16s %16s %16s %16s"):format("", "NUTS", "mean-field", "full-rank", "weighted"))
for _, row in ipairs(posterior:summary()) do
  io.write(("%-10s %7.3f +-%6.3f"):format(row.name, row.mean, row.sd))
  for _, sites in ipairs { mean_field, full_rank, weighted } do
    io.write((" %7.3f +-%6.3f"):format(sites[row.name]:mean():item(), sites[row.name]:std():item()))
  end
  print()
  local mc_error = math.sqrt(row.mcse ^ 2 + row.sd ^ 2 / 2000)
  worst = math.max(worst, math.abs(weighted[row.name]:mean():item() - row.mean) / mc_error)
end
print(("weighted draws of full-rank and NUTS differ by at most %.1f Monte Carlo errors"):format(worst))

-- The curve at a grid given the data, for 200 draws of the hyperparameters: normal with mean K' (K + noise^2)^-1 y and
-- covariance K'' - K' (K + noise^2)^-1 K (Rasmussen & Williams 2006, 2.2). One draw of the curve for each.
local grid = pn.linspace(-0.5, 10, 150)
local function hyper(name)
  local all = posterior.draws[name]:reshape { -1 }
  return all:slice(1, 1, 4 * draws, 4 * draws // 200):reshape { 200, 1, 1 }
end
local length, amplitude, noise = hyper "length", hyper "amplitude", hyper "noise"
local factor = (covariance(x, x, length, amplitude) + pn.eye(n) * noise:square()):cholesky()
local cross = covariance(grid, x, length, amplitude) -- [S, G, N]
local loc = cross:matmul(factor:cholesky_solve(y:reshape { 1, n, 1 }:broadcast_to { 200, n, 1 }))
local left = factor:solve_triangular(cross:t())
local scale_tril = (covariance(grid, grid, length, amplitude) - left:t():matmul(left) + pn.eye(150) * 1e-6):cholesky()
local curves = loc:squeeze(3) + scale_tril:matmul(pn.randn { 200, 150, 1 }):squeeze(3)
local sorted, bands = pn.sort(curves, 1), {}
for k, p in ipairs { 0.05, 0.25, 0.5, 0.75, 0.95 } do bands[k] = sorted[math.floor(200 * p + 0.5)] end
local inside = truth(grid):ge(bands[1]):logical_and(truth(grid):le(bands[5])):to("float64"):mean():item()
print(("the true curve lies within the 90 %% band at %.0f %% of the places"):format(100 * inside))

-- The picture: prediction, some curves, and the hyperparameters by NUTS and by the guides.
local prediction = pn.plot.panel { title = "The curve: 50 % and 90 %", x_label = "x", y_label = "y", legend = "below",
  x_range = { -0.5, 10 }, pn.plot.fan(grid, bands, { label = "posterior" }),
  pn.plot.line(grid, truth(grid), { label = "the truth", colour = "#000000", dashed = true, width = 1 }),
  pn.plot.points(x, y, { label = "data", colour = "#d9752b" }) }
local some = { title = "Twelve curves", x_range = { -0.5, 10 }, x_label = "x", y_label = "y", legend = "none" }
for k = 1, 12 do some[k] = pn.plot.line(grid, curves[k * 16], { width = 1 }) end
some[13] = pn.plot.points(x, y, { colour = "#222222", size = 0.5 })
local function cloud(sites, label)
  return pn.plot.points(sites.length:reshape { -1 }:slice(1, 1, 800), sites.amplitude:reshape { -1 }:slice(1, 1, 800),
    { label = label, size = 0.3 })
end
local hypers = pn.plot.panel { title = "Hyperparameters", x_label = "length", y_label = "amplitude", legend = "below",
  cloud(posterior.draws, "NUTS"), cloud(full_rank, "full-rank"), cloud(mean_field, "mean-field") }
local picture, why = pn.plot.save(out, { columns = 3, size = { 1320, 420 }, prediction, pn.plot.panel(some), hypers })
print(picture and "picture: " .. picture or "no picture: " .. why)
