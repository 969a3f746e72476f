--- A tour of distributions with pictures: families, distributions made of distributions, flows trained to a shape,
--- products of beliefs, parameters fitted on an unconstrained scale, tails, angles and counts.
---
---     penumbra examples/02_distributions.lua [--quick] [--seed N] [--out FILE.svg]
local pn = require "penumbra"
local dist, optim = pn.dist, pn.optim
local bijector, natural = dist.bijector, dist.natural

local quick, seed, out = false, 1, "distributions.svg"
local i = 1
while arg[i] do
  if arg[i] == "--quick" then
    quick = true
  elseif arg[i] == "--seed" and math.tointeger(tonumber(arg[i + 1])) then
    seed, i = math.tointeger(tonumber(arg[i + 1])), i + 1
  elseif arg[i] == "--out" and arg[i + 1] then
    out, i = arg[i + 1], i + 1
  else
    io.stderr:write("usage: 02_distributions.lua [--quick] [--seed N] [--out FILE.svg]\n")
    os.exit(1)
  end
  i = i + 1
end
pn.seed(seed)

-- 1. A distribution is a value: its parameters are numbers or tensors, one row of the batch each.
local gamma = dist.gamma { concentration = { 0.8, 2, 5 }, rate = 1 }
print(gamma)
print(("means %s, entropies %s"):format(table.concat(gamma:mean():totable(), " "),
  table.concat(gamma:entropy():totable(), " ")))
local families = dist.panel(gamma, { title = "Gamma, rate 1", y_range = { 0, 1 } })

-- 2. Mixtures sum the labels out; masked ones leave missing data out.
local mixture = dist.mixture({ 0.3, 0.7 }, { dist.normal(-1, 0.4), dist.gamma(4, 2) })
print(("mixture: mean %.3f, P(X <= 0) = %.3f"):format(mixture:mean():item(), mixture:cdf(0):item()))
local x = mixture:sample { 20000 }
local mixed = pn.plot.panel {
  title = "A normal and a gamma", y_label = "density", x_range = { -3, 7 }, legend = "below",
  pn.plot.histogram(x, { density = true, label = "20000 draws" }),
  pn.plot.line(pn.linspace(-3, 6, 300), mixture:log_prob(pn.linspace(-3, 6, 300)):exp(), { label = "density" }),
}

-- 3. Bijectors carry densities along: log p(y) = log p(x) - log |det dy/dx|. A trained one is a flow. Here three
-- autoregressive maps, the order of the numbers reversed between them, learn the shape of a crescent.
local function crescent(n)
  local a = pn.randn { n } * 1.1
  return pn.stack({ a, a ^ 2 * 0.6 - 1 + pn.randn { n } * 0.25 }, -1)
end
local layers = {}
for k = 1, 3 do
  layers[#layers + 1] = bijector.random("masked_autoregressive", 2, { hidden = { 24 } })
  layers[#layers + 1] = k < 3 and bijector.permutation { 1, 0 } or nil
end
local base = dist.normal(pn.zeros { 2 }, 1):independent(1)
local flow = dist.transformed(base, bijector.chain(layers))
local steps = quick and 150 or 1500
local train = optim.adam(flow:parameters(), { lr = 1e-2 })
local first, last
for step = 1, steps do
  local loss = -flow:log_prob(crescent(256)):mean()
  train:step(loss)
  first = first or loss:item()
  last = step > steps - 20 and (last or 0) + loss:item() / 20 or last
end
print(("flow: %.3f nats a point before training, %.3f after %d steps"):format(first, last, steps))
local learned = dist.panel(flow, { title = "A flow's density", x_range = { -3, 3 }, y_range = { -3, 5 } })

-- 4. Beliefs that all count one prior: their product divides it out. Factors may have negative precision.
local prior = dist.normal(0, 1)
local experts = { dist.normal(0.9, 0.6), dist.normal(-0.2, 0.7), dist.normal(1.2, 0.8) }
local joint = dist.product_of_experts(experts, prior)
print(("three beliefs together: %.3f +- %.3f"):format(joint:mean():item(), joint:stddev():item()))
local site = natural.of(joint) / natural.of(prior)
print(("what they say beyond the prior: precision %.3f, tempered by half: %s"):format(site.precision:item(),
  tostring((natural.of(prior) * site ^ 0.5):to_distribution())))
local line = pn.linspace(-3, 3, 300)
local beliefs = { title = "Beliefs and their product", x_label = "z", y_label = "density", legend = "top left" }
for k, e in ipairs(experts) do
  beliefs[k] = pn.plot.line(line, e:log_prob(line):exp(), { colour = "#888888", width = 1,
    label = k == 1 and "each" or nil })
end
beliefs[4] = pn.plot.line(line, prior:log_prob(line):exp(), { dashed = true, colour = "#000000", label = "prior" })
beliefs[5] = pn.plot.line(line, joint:log_prob(line):exp(), { label = "together" })

-- 5. biject_to(support) trains a constrained quantity without constraints: the rate and concentration of gamma data,
-- by maximum likelihood.
local data = dist.gamma(3, 1.5):sample { 2000 }
local to_positive = dist.biject_to "positive"
local free = pn.param(pn.zeros { 2 })
local climb = optim.adam({ free }, { lr = 0.05 })
for _ = 1, quick and 200 or 400 do
  local theta = to_positive(free)
  climb:step(-dist.gamma(theta[1], theta[2]):log_prob(data):mean())
end
local theta = to_positive(free):totable()
print(("gamma data: concentration %.2f, rate %.2f (made with 3 and 1.5)"):format(theta[1], theta[2]))

-- 6. Divergences: in closed form, of order a, or by Monte Carlo where there is no formula.
local p, q = dist.normal(0, 1), dist.normal(1, 1.5)
print(("KL %.4f, Renyi of order 1/2 %.4f"):format(dist.kl(p, q):item(), dist.renyi(p, q, 0.5):item()))
local estimate = dist.jensen_shannon_monte_carlo(p, dist.laplace(0, 1))
print(("Jensen-Shannon divergence of normal and Laplace %.4f +- %.4f"):format(
  estimate.value:item(), estimate.se:item()))

-- 7. Tails: log_cdf and log_survival are exact where the probabilities themselves are no numbers any more.
local symmetric = { { "normal", dist.normal(0, 1) }, { "Laplace", dist.laplace(0, 1) },
  { "logistic", dist.logistic(0, 1) }, { "Student, df 3", dist.student_t(3) }, { "Cauchy", dist.cauchy(0, 1) } }
local far = pn.linspace(0, 10, 200)
local tails = { title = "Tails", x_label = "x", y_label = "log P(X > x)", legend = "bottom left", y_range = { -30, 0 } }
for k, pair in ipairs(symmetric) do
  tails[k] = pn.plot.line(far, pair[2]:log_survival(far), { label = pair[1] })
end
print(("log P(X > 1000): normal %.1f, logistic %.1f, Cauchy %.2f"):format(dist.normal(0, 1):log_survival(1000):item(),
  dist.logistic(0, 1):log_survival(1000):item(), dist.cauchy(0, 1):log_survival(1000):item()))

-- 8. Angles wrap around; their mean is a direction, their variance 1 - |E[e^ix]|.
local angles = dist.von_mises { loc = { 0, 2.5, 2.5 }, concentration = { 0.5, 4, 40 } }
local round = dist.panel(angles, { title = "von Mises", legend = "top left" })
print(("von Mises: variances %.3f, %.3f, %.4f"):format(table.unpack(angles:variance():totable())))

-- 9. Times to failure and counts; several distributions share a picture.
local lifetimes = dist.panel(dist.weibull(1, { 0.8, 1.5, 4 }), { title = "Weibull, scale 1" })
local counts = dist.panel({ dist.poisson(4), dist.binomial(8, 0.5), dist.geometric(0.2) }, { title = "Mean 4",
  x_range = { -0.5, 14.5 }, legend = "top right" })

-- 10. Vectors and matrices: shares of three as a triangle, two numbers as a map, longer ones entry by entry.
local shares = dist.panel(dist.dirichlet { 4, 2, 3 }, { title = "Dirichlet (4, 2, 3)" })
local clusters = dist.mixture({ 0.5, 0.3, 0.2 }, dist.multivariate_normal {
  loc = { { -2, 0 }, { 2, 1 }, { 1, -2 } },
  covariance_matrix = { { { 1, 0.6 }, { 0.6, 1 } }, { { 0.5, -0.3 }, { -0.3, 1 } }, { { 0.3, 0 }, { 0, 0.3 } } },
})
print(clusters)
local map = dist.panel(clusters, { title = "Three clusters" })
local walk = dist.panel(dist.gaussian_random_walk(1, 60), { title = "A random walk", y_range = { -16, 16 } })
local correlation = dist.lkj_cholesky(3, 2):sample { 4000 }
correlation = correlation:matmul(correlation:t())
local eigenvalues = pn.eigh(correlation)
local spectrum = pn.plot.panel { title = "Eigenvalues of LKJ correlations", x_label = "eigenvalue", y_label = "density",
  pn.plot.histogram(eigenvalues:slice(2, 3, 3), { density = true, label = "largest" }),
  pn.plot.histogram(eigenvalues:slice(2, 1, 1), { density = true, label = "smallest" }) }

-- 11. A value outside the support has density 0, or is an error that names it where validation asks for that.
print(("log density of -1 under a gamma: %g"):format(dist.gamma(2, 1):log_prob(-1):item()))
print(select(2, pcall(function() return dist.gamma(2, 1):validate():log_prob(-1) end)))

local picture, why = pn.plot.save(out, { columns = 4, size = { 1560, 1060 }, families, mixed, learned,
  pn.plot.panel(beliefs), pn.plot.panel(tails), round, lifetimes, counts, shares, map, walk, spectrum })
print(picture and "picture: " .. picture or "no picture: " .. why)
