--- Figures 1, 2 and 3 of Kurle et al. (2022), "On the detrimental effect of invariances in the likelihood for
--- variational inference": the over-parametrised linear model with K weights, all inputs and outputs 1, noise variance
--- 1 / (2 pi e), prior variance K. Where what the paper prints (equation 21 takes the mean ybar for the best
--- mean-field q_0) is not the optimum, the printed and the corrected curve stand side by side.
---
---     penumbra examples/papers/invariance/linear_model.lua [--quick] [--largest 1000] [--out FOLDER]
---
--- What was run and what came out: README.md beside this file, to which --check holds a run.
local pn = require "penumbra"
local here = (arg and arg[0] or ""):match "^(.*)/[^/]*$" or "."
dofile(here .. "/../continual/experiment.lua").checked(arg)
local inv, plot = pn.invariance, pn.plot

local option = { quick = false, largest = 1000, out = "." }
local i = 1
while arg[i] do
  if arg[i] == "--quick" then
    option.quick = true
  elseif arg[i] == "--largest" and math.tointeger(tonumber(arg[i + 1])) then
    option.largest, i = math.tointeger(tonumber(arg[i + 1])), i + 1
  elseif arg[i] == "--out" and arg[i + 1] then
    option.out, i = arg[i + 1], i + 1
  else
    io.stderr:write("usage: linear_model.lua [--quick] [--largest K] [--out FOLDER]\n")
    os.exit(1)
  end
  i = i + 1
end

local red, blue, grey, green = "#c0392b", "#2255aa", "#777777", "#2e8b57"
local sizes = pn.arange(1, option.largest + 1):to "float64"

local function save(name, content)
  local path, message = plot.save(("%s/%s.png"):format(option.out, name), content)
  print(path and "wrote " .. path or "no picture: " .. message)
end

-- What leaves the picture is left out.
local function within(t, low, high)
  return pn.where(t:ge(low):logical_and(t:le(high)), t, pn.full({}, 0 / 0))
end

local function curves(n, optimum, mean)
  return inv.curves { sizes = sizes, num_data = n, optimum = optimum, mean = mean }
end

-- ---- figure 1 ----

local panels = { columns = 2, size = { 1000, 480 } }
for _, n in ipairs { 10, 100 } do
  local mix, field = curves(n, "mix"), curves(n, "mean_field")
  local bound = pn.full(sizes:shape(), mix.data_bound)
  local top = mix.data_bound * 1.6
  local at = field.gap:argmax():item() + 1
  print(("%3d data: gap at the optimum of q_mix %.6f a weight, above the bound %.2f from K = %s on; of q_0 at most "
    .. "%.4f, at K = %d"):format(n, (mix.gap[2] - mix.gap[1]):item(), mix.data_bound,
    mix.gap:gt(mix.data_bound):any():item() and mix.gap:gt(mix.data_bound):nonzero()[1]:item() + 1 or "?",
    field.gap:max():item(), at))
  panels[#panels + 1] = plot.panel { title = ("Figure 1, %d data: the invariance gap"):format(n), x_label = "K",
    y_label = "nats", y_range = { 0, top }, legend = "below",
    plot.line(sizes, within(mix.gap, 0, top), { label = "at the optimum of q_mix", colour = red }),
    plot.line(sizes, field.gap, { label = "at the optimum of q_0 (printed = corrected)", colour = blue }),
    plot.line(sizes, bound, { label = "data bound", colour = grey, dashed = true }) }
end
save("invariance_figure_1", panels)

-- ---- figure 2 ----

local most = math.min(option.largest, 64)
local first = { { 1, most } }
local function cut(t) return t[first] end
local rows = { { "KL[q || p]", "kl_q0", "kl_q_mix" }, { "expected log likelihood", "expected_log_likelihood" },
  { "ELBO", "elbo_q0", "elbo_q_mix" }, { "predictive variance", "predictive_variance" },
  { "predictive mean", "predictive_mean" } }
panels = { columns = 2, size = { 1000, 1900 } }
local mix = curves(10, "mix")
for _, row in ipairs(rows) do
  local low, high = math.huge, -math.huge
  local drawn = {}
  for _, mean in ipairs { "printed", "corrected" } do
    local field = curves(10, "mean_field", mean)
    local q0, q_mix = row[2], row[3] or row[2]
    drawn[#drawn + 1] = { mean, field[q_mix], field[q0], mix[q_mix], mix[q0] }
    for k = 2, 5 do
      low = math.min(low, cut(drawn[#drawn][k]):min():item())
      high = math.max(high, cut(drawn[#drawn][k]):max():item())
    end
  end
  if row[2]:find "^kl" or row[2]:find "^elbo" then -- q_0 at the optimum of q_mix leaves the picture
    low, high = math.max(low, -70), math.min(high, 70)
  end
  local pad = (high - low) * 0.05
  for _, d in ipairs(drawn) do
    local x = cut(sizes)
    local function shown(t) return within(cut(t), low, high) end
    local few = pn.arange(0, most, 2):to "int64"
    local function dots(t) return x:take(1, few), shown(t):take(1, few) end
    local x0, y0 = dots(d[5])
    local x1, y1 = dots(d[3])
    panels[#panels + 1] = plot.panel { title = ("Figure 2, mean %s: %s"):format(d[1], row[1]),
      x_label = "K", y_range = { low - pad, high + pad }, legend = "below",
      plot.line(x, shown(d[4]), { label = "q_mix at its optimum", colour = red }),
      plot.points(x0, y0, { label = "q_0 at the optimum of q_mix", colour = red, size = 0.7 }),
      plot.line(x, shown(d[2]), { label = "q_mix at the optimum of q_0", colour = blue }),
      plot.points(x1, y1, { label = "q_0 at its optimum", colour = blue, size = 0.7 }) }
  end
end
save("invariance_figure_2", panels)

print "\n10 data; at the optimum of q_0, printed / corrected mean"
print "    K       KL(q_0;p)       KL(q_mix;p)               ELL         ELBO(q_0)  pred. var.    pred. mean"
local printed, corrected = curves(10, "mean_field", "printed"), curves(10, "mean_field", "corrected")
for _, K in ipairs { 1, 2, 4, 8, 16, 32, 64, 256, 1000 } do
  if K <= option.largest then
    local function at(name) return printed[name][K]:item(), corrected[name][K]:item() end
    local function pair(name, form)
      local a, b = at(name)
      return (form):format(a, b)
    end
    print(("%5d %s %s %s %s %s %s"):format(K, pair("kl_q0", "%8.4f /%8.4f"), pair("kl_q_mix", "%7.4f /%7.4f"),
      pair("expected_log_likelihood", "%8.3f /%8.3f"), pair("elbo_q0", "%8.3f /%8.3f"),
      ("%9.5f"):format(printed.predictive_variance[K]:item()), pair("predictive_mean", "%.4f /%7.4f")))
  end
end
print(("q_mix at its optimum, for every K: KL %.5f, ELL %.5f, ELBO %.6f"):format(mix.kl_q_mix[1]:item(),
  mix.expected_log_likelihood[1]:item(), mix.elbo_q_mix[1]:item()))

-- ---- figure 3 ----

local model = inv.linear_model { size = 2, y = pn.ones { 4 }, noise_variance = 0.5 }
local angle = pn.linspace(0, 2 * math.pi, 121)
local circle = pn.stack({ angle:cos(), angle:sin() }, 1) -- [2, 121]

-- The contour of a normal law at `radius` standard deviations.
local function ellipse(mean, covariance, radius, opt)
  local points = covariance:cholesky():matmul(circle) * radius + mean:unsqueeze(2)
  return plot.line(points[1], points[2], opt)
end

-- g_mix does not vary along (1, -1): its contours are the lines 1^T w = 1^T m +- radius sqrt(1^T lambda).
local function lines(a, radius, opt)
  local list = {}
  for _, sign in ipairs { -1, 1 } do
    local at = a.loc:sum():item() + sign * radius * a.noise:sqrt():item()
    local x = pn.tensor { -4, 5 }
    list[#list + 1] = plot.line(x, at - x, sign == -1 and opt or { colour = opt.colour, dashed = opt.dashed })
  end
  return table.unpack(list)
end

panels = { columns = 3, size = { 1350, 640 } }
for _, at in ipairs { { "mix", nil, "the optimum of q_mix" },
  { "mean_field", "printed", "the optimum of q_0, as printed" },
  { "mean_field", "corrected", "the optimum of q_0, corrected" } } do
  local a = model:approximation(model:optimum(at[1], at[2] and { mean = at[2] }))
  local q0, q_mix, p = a:q0(), a:q_mix(), model:prior()
  local marks = { title = "Figure 3: " .. at[3], x_range = { -4, 5 }, y_range = { -4, 5 }, x_label = "w_1",
    y_label = "w_2", legend = "below",
    ellipse(p:mean(), p:covariance(), 1, { label = "prior", colour = grey }) }
  local first_line, second_line = lines(a, 1, { label = "g_mix", colour = green, dashed = true })
  marks[#marks + 1], marks[#marks + 2] = first_line, second_line
  marks[#marks + 1] = ellipse(a.loc, a.factor:diag_embed(), 1, { label = "g_0", colour = green })
  marks[#marks + 1] = ellipse(q_mix:mean(), q_mix:covariance(), 1, { label = "q_mix", colour = red })
  marks[#marks + 1] = ellipse(q0:mean(), q0:covariance(), 1, { label = "q_0", colour = blue })
  -- other m with the same 1^T m: the same q_mix, another q_0 that predicts alike
  for _, shift in ipairs { -1.6, 1.6 } do
    local other = model:approximation { loc = a.loc + pn.tensor { shift, -shift }, variance = a.factor }
    assert(other:q_mix():kl(q_mix):item() < 1e-12)
    marks[#marks + 1] = ellipse(other:q0():mean(), other:q0():covariance(), 1, { colour = blue, dashed = true,
      label = shift < 0 and "other q_0, predicting alike" or nil })
  end
  panels[#panels + 1] = plot.panel(marks)
  local m0, v0 = model:predictive(q0)
  local m1, v1 = model:predictive(q_mix)
  print(("%-32s q_0 predicts %.4f +- %.4f, q_mix %.4f +- %.4f; ELBO %.4f and %.4f, log evidence %.4f"):format(at[3],
    m0:item(), v0:item() ^ 0.5, m1:item(), v1:item() ^ 0.5, model:elbo(q0):item(), model:elbo(q_mix):item(),
    model:log_evidence():item()))
end
save("invariance_figure_3", panels)
