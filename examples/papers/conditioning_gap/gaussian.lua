--- The conditioning gap where it is known exactly (Bayer et al. 2021, sections 3.1 to 3.3): what posteriors lose that
--- share what they see.
---
---     penumbra examples/papers/conditioning_gap/gaussian.lua [--quick] [--out FOLDER]
---
--- writes two_posteriors.svg (figure 1: two posteriors, their mixture, the best shared posterior and the best normal
--- for the mixture), univariate_bound.svg (the worked example), gap_sweeps.svg (a linear Gaussian system: the gap over
--- both noises, the length and the prefix that the first state sees) and published_masks.svg (the conditions of
--- published models side by side), and prints what they show. All of it is closed form or settled optimisation: every
--- run gives the same. README.md has the results; --check holds a run to them.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
dofile(here .. "/../continual/experiment.lua").checked(arg)
local plot = pn.plot

local option = { quick = false, out = "." }
local i = 1
while arg[i] do
  if arg[i] == "--quick" then
    option.quick = true
  elseif arg[i] == "--out" and arg[i + 1] then
    option.out, i = arg[i + 1], i + 1
  else
    io.stderr:write("usage: gaussian.lua [--quick] [--out FOLDER]\n")
    os.exit(1)
  end
  i = i + 1
end

local red, blue, green, grey, black = "#c0392b", "#2255aa", "#2e8b57", "#999999", "#222222"

local function save(name, content)
  local path, message = plot.save(("%s/%s.svg"):format(option.out, name), content)
  print(path and "wrote " .. path or "no picture: " .. message)
end

-- ---- figure 1 ----

local function figure_1()
  print "\nFigure 1: posteriors N(-1, s^2) and N(1, s^2); KL(q || mixture) of the shared one and of fitted normals"
  print "      s    shared   gap     both modes (scale, KL)     one mode (mean, scale, KL)     the best covers"
  local x, panels = pn.linspace(-3, 3, 121), { columns = 3, size = { 1100, 360 } }
  for _, s in ipairs { 0.3, 0.34, 0.36, 0.4, 0.42, 0.5, 1 } do
    local f = pn.gap.marginal_fit { loc = { -1, 1 }, scale = { s, s } }
    local one, both
    for _, m in ipairs(f.minima) do
      if math.abs(m.loc) < 1e-6 then both = m elseif m.loc > 0 then one = m end
    end
    local cost = pn.gap.shared_posterior({ loc = { -1, 1 }, variance = { s * s, s * s } }).gap:item()
    print(("  %5.2f  %8.5f  %6.3f   %8.5f %8.5f          %-28s %s"):format(s, f.shared.kl, cost, both.scale, both.kl,
      one and ("%8.5f %8.5f %8.5f"):format(one.loc, one.scale, one.kl) or "   none",
      math.abs(f.best.loc) > 0.5 and "one mode" or "both"))
    if s == 0.3 or s == 0.5 or s == 1 then
      local function density(loc, scale) return pn.dist.normal(loc, scale):log_prob(x):exp() end
      local a, b = density(-1, s), density(1, s)
      local best = f.best.loc < -0.5 and one or f.best
      panels[#panels + 1] = plot.panel { title = ("s = %g: sharing costs %.3f nats"):format(s, cost),
        legend = "below", x_label = "z",
        plot.line(x, a, { label = "posteriors", colour = grey }), plot.line(x, b, { colour = grey }),
        plot.line(x, (a + b) / 2, { label = "mixture, p(z | C)", colour = black, dashed = true }),
        plot.line(x, density(f.shared.loc, f.shared.scale), { label = "best shared", colour = red }),
        plot.line(x, density(best.loc, best.scale), { label = "normal fitted to the mixture", colour = blue }) }
    end
  end
  save("two_posteriors", panels)
end

-- ---- the univariate example ----

local function univariate()
  local a = pn.linspace(0, 1.5, 61)
  local u = pn.gap.univariate { transition = a }
  local at = pn.gap.univariate { transition = { math.sqrt(0.9), 0, 0.5 } }
  print("\nThe univariate example: p(x | z) = N(a z, 0.1), data N(0, 1), one posterior for all x")
  print "       a       E log p      bound        gap     its gradient"
  for k, value in ipairs { math.sqrt(0.9), 0, 0.5 } do
    print(("  %8.5f  %10.6f  %10.6f  %8.5f  %10.6f"):format(value, at.log_likelihood[k]:item(), at.bound[k]:item(),
      at.gap[k]:item(), at.bound_gradient[k]:item()))
  end
  save("univariate_bound", plot.panel { title = "The bound is highest where the latent means nothing", x_label = "a",
    y_label = "nats", legend = "bottom right", y_range = { -7, -1 },
    plot.line(a, u.log_likelihood, { label = "E log p(x)", colour = blue }),
    plot.line(a, u.bound, { label = "bound, best shared posterior", colour = red }),
    plot.points({ math.sqrt(0.9), 0 }, { at.log_likelihood[1]:item(), at.bound[2]:item() },
      { label = "optima", colour = black, size = 1 }) })
end

-- ---- sweeps ----

local function scalar(a, q, r, p1)
  return pn.smc.linear_system { transition = { { a } }, transition_cov = { { q } }, emission = { { 1 } },
    emission_cov = { { r } }, initial_mean = { 0 }, initial_cov = { { p1 } } }
end

local plain = scalar(0.9, 0.19, 0.25, 1)

local function gap_of(system, given)
  given.first, given.steps = "predicted", given.steps or 5
  return assert(pn.gap.linear_gaussian(system, given))
end

local function sweep(values, f)
  local out = {}
  for k, v in ipairs(values) do out[k] = f(v) end
  return pn.tensor(out)
end

local function sweeps()
  local n = option.quick and 15 or 41
  local noises = (pn.linspace(-6, 4, n) * math.log(10)):exp():totable()
  local by_q = sweep(noises, function(q) return gap_of(scalar(0.9, q, 0.25, 1), {}).gap:item() end)
  local by_r = sweep(noises, function(r) return gap_of(scalar(0.9, 0.19, r, 1), {}).gap:item() end)
  local lengths = pn.arange(1, 26):totable()
  local by_t = sweep(lengths, function(T) return gap_of(plain, { steps = math.tointeger(T) }).gap:item() end)
  local T = option.quick and 5 or 10
  local prefixes = pn.arange(1, T + 1):totable()
  local function prefix_gap(hold)
    return sweep(prefixes, function(k)
      return gap_of(plain, { steps = T, conditioning = "semi", prefix = math.tointeger(k), hold = hold }).gap:item()
    end)
  end
  local paper, held = prefix_gap(false), prefix_gap(true)
  print(("\nA prefix seen by the first state, T = %d (gap in nats a sequence)"):format(T))
  print "      k    later steps see x_1 ... x_t    they see x_1 ... x_max(t, k)"
  for k = 1, T do
    print(("  %5d  %20.6f  %26.6f"):format(k, paper[k]:item(), held[k]:item()))
  end
  save("gap_sweeps", { columns = 2, size = { 900, 640 },
    plot.panel { title = "over the noise of the state, Q", x_log = true, x_label = "Q", y_label = "gap, nats",
      legend = "none", plot.line(noises, by_q, { colour = red }) },
    plot.panel { title = "over the noise of what is seen, R", x_log = true, x_label = "R", y_label = "gap, nats",
      legend = "none", plot.line(noises, by_r, { colour = red }) },
    plot.panel { title = "over the length", x_label = "T", y_label = "gap, nats", legend = "none",
      plot.line(lengths, by_t, { colour = red }) },
    plot.panel { title = ("over the prefix k, T = %d"):format(T), x_label = "k", y_label = "gap, nats",
      legend = "top right", plot.line(prefixes, paper, { label = "later steps: up to t", colour = blue }),
      plot.line(prefixes, held, { label = "later steps: up to max(t, k)", colour = green }) } })
end

-- ---- masks ----

local function masks()
  local rows = { { "STORN", "storn" }, { "VRNN", "vrnn" }, { "DKF (exper.)", "dkf" }, { "DKS", "dks" },
    { "DVBF", "dvbf" }, { "PlaNet", "planet" }, { "SLAC", "slac" }, { "semi, k = 2", "semi", 2 },
    { "semi, k = 3", "semi", 3 }, { "partial", "partial" }, { "full", "full" } }
  local systems = { { "R = 0.25", plain }, { "R = 1", scalar(0.9, 0.19, 1, 1) },
    { "a = 0.5", scalar(0.5, 0.75, 0.25, 1) } }
  local T = option.quick and 5 or 10
  print(("\nConditions of published models (as commonly described), T = %d: gap in nats a sequence"):format(T))
  print(("  %-14s %10s %10s %10s   %s"):format("", systems[1][1], systems[2][1], systems[3][1], "found by"))
  local bars, names, settled = {}, {}, true
  for k, row in ipairs(rows) do
    local text, how = ("  %-14s"):format(row[1]), nil
    for _, s in ipairs(systems) do
      local g = gap_of(s[2], { steps = T, conditioning = row[2], prefix = row[3] })
      how, settled = g.method .. (g.exact and "" or ", best linear Gaussian q"), settled and g.settled
      text = text .. (" %10.6f"):format(g.gap:item())
      if s[2] == plain then bars[k], names[k] = g.gap:item(), row[1] end
    end
    print(text .. "   " .. how)
  end
  print(settled and "  all optimisations settled" or "  NOT all optimisations settled")
  local x = pn.arange(1, #bars + 1):totable()
  save("published_masks", plot.panel {
    title = ("What each condition loses, a = 0.9, Q = 0.19, R = 0.25, T = %d"):format(T), y_label = "gap, nats",
    legend = "none", x_names = names, x_range = { 0.5, #bars + 0.5 },
    plot.points(x, bars, { colour = red, size = 1.2 }) })
end

figure_1()
univariate()
sweeps()
masks()
