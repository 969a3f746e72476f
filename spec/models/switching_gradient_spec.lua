-- What a switching system's training takes for the gradient of resampling: two particles that are resampled between two
-- steps, against the sum over all labels and ancestors, the system averaged and filtered here in numbers. Replicates
-- are the series of a batch.
local pn = require "penumbra"

local Y, STEP = { 1.1, -0.9 }, 1e-5
local GROUPS, SIZE = 32, 1000

local function made(gradient, more)
  pn.seed(5)
  local o = { states = 1, switches = 2, switch = "categorical", num_particles = 2, threshold = 1, scaling = "none",
    floor = 0, resampling = "multinomial", gradient = gradient, transition_hidden = 3 }
  for key, value in pairs(more or {}) do o[key] = value end
  local m = pn.models.sgls(o)
  local systems = { a = { 1.2, -1 }, c = { 0.4, 1.5 }, q = { 0.7, -0.2 }, r = { 0.9, 0.2 } } -- that differ
  for name, x in pairs(systems) do
    local p = m.bases.bases[name]
    p:set(pn.tensor(x, { dtype = m.dtype }):reshape(p:shape()))
  end
  return m
end

-- ---- the same in numbers ----

local function numbers(x) return x:detach():reshape({ -1 }):totable() end

local function softmax(x)
  local sum, out = 0, {}
  for k = 1, #x do sum = sum + math.exp(x[k]) end
  for k = 1, #x do out[k] = math.exp(x[k]) / sum end
  return out
end

-- Probabilities of labels, and a function of moments, label and y that gives moments and the density of y.
local function parts(m)
  local x, t = {}, numbers(m.switch.transition)
  for _, name in ipairs { "a", "c", "q", "r" } do x[name] = numbers(m.bases.bases[name]) end
  local function step(mean, var, k, y)
    mean, var = mean * x.a[k], var * x.a[k] ^ 2 + math.exp(-2 * x.q[k])
    local off, s = y - mean * x.c[k], var * x.c[k] ^ 2 + math.exp(-2 * x.r[k])
    return mean + var * x.c[k] / s * off, var - var ^ 2 * x.c[k] ^ 2 / s,
      math.exp(-off ^ 2 / s / 2) / math.sqrt(2 * math.pi * s)
  end
  return softmax(numbers(m.switch.logits)), { softmax { t[1], t[2] }, softmax { t[3], t[4] } }, step
end

-- E[log Z] of two particles, and log p(y).
local function exact(m)
  local first, rows, step = parts(m)
  local prior_mean, prior_var = numbers(m.prior_mean)[1], math.exp(-2 * numbers(m.prior_log_inverse_scale)[1])
  local one, two, p = {}, { {}, {} }, 0
  for s = 1, 2 do
    local mean, var, density = step(prior_mean, prior_var, s, Y[1])
    one[s] = density
    for k = 1, 2 do
      two[s][k] = select(3, step(mean, var, k, Y[2]))
      p = p + first[s] * density * rows[s][k] * two[s][k]
    end
  end
  local total = 0
  for i = 1, 2 do
    for j = 1, 2 do
      local weights = { one[i] / (one[i] + one[j]), one[j] / (one[i] + one[j]) }
      local value = math.log((one[i] + one[j]) / 2)
      for first_ancestor = 1, 2 do
        for second_ancestor = 1, 2 do
          local f, g = ({ i, j })[first_ancestor], ({ i, j })[second_ancestor]
          for k = 1, 2 do
            for l = 1, 2 do
              value = value + weights[first_ancestor] * weights[second_ancestor] * rows[f][k] * rows[g][l]
                * math.log((two[f][k] + two[g][l]) / 2)
            end
          end
        end
      end
      total = total + first[i] * first[j] * value
    end
  end
  return total, math.log(p)
end

-- A parameter of the system by name, or the logits of the transition.
local function parameter(m, name) return m.bases.bases[name] or m.switch[name] end

-- The slopes of both along one number of it, by differences.
local function exact_slopes(m, name)
  local p, ends = parameter(m, name), {}
  local base = p:detach() + 0
  for k, h in ipairs { STEP, -STEP } do
    p:set(base + pn.arange(p:numel()):eq(0):to("float64"):reshape(p:shape()) * h)
    ends[k] = { exact(m) }
  end
  p:set(base)
  return (ends[1][1] - ends[2][1]) / (2 * STEP), (ends[1][2] - ends[2][2]) / (2 * STEP)
end

-- ---- replicates ----

local function batch()
  return { y = pn.tensor(Y):reshape({ 2, 1, 1 }):broadcast_to({ 2, SIZE, 1 }):contiguous() }
end

-- Means over groups of replicates of the slope of log Z (of Z over p(y) where `log_p` is given) along the first number
-- of a parameter, with 5 standard errors.
local function measured(gradient, name, log_p)
  local m, g, b, list = made(gradient), pn.generator(9), batch(), {}
  for k = 1, GROUPS do
    local value = m:log_evidence(b, { generator = g })
    local goal = log_p and (value - log_p):exp():mean() or value:mean()
    list[k] = pn.grad(goal, { parameter(m, name) })[1]:reshape({ -1 })[1]
  end
  local x = pn.stack(list, 1)
  return x:mean():item(), 5 * (x:var():item() / GROUPS) ^ 0.5
end

-- `gradient` agrees with `want` within a margin below `narrow`; along c dropping the choice is off by more than both
-- margins.
local function compared(gradient, name, want, narrow, log_p)
  local got, allowed = measured(gradient, name, log_p)
  assert.is_true(allowed < narrow and math.abs(got - want) < allowed, ("%s, %s: %g, not within %g of %g"):format(
    gradient, name, got, allowed, want))
  if name ~= "c" then return end -- the others hang less, or not, on the choice
  local biased, noise = measured("dropped", name, log_p)
  assert.is_true(math.abs(biased - want) > 2 * (allowed + noise), ("%s: dropped %g +- %g is not away from %g"):format(
    name, biased, noise, want))
end

describe("the gradient of a switching system through resampling", function()
  it("is that of the mean log-evidence by a score function, and is not where it is dropped", function()
    local m = made "score_function"
    for _, name in ipairs { "c", "r" } do
      compared("score_function", name, (exact_slopes(m, name)), 0.12)
    end
  end)

  it("is that of the evidence with stopped weights, and is not where it is dropped", function()
    local m = made "stop_gradient"
    local mean, log_p = exact(m)
    local value = m:log_evidence(batch(), { generator = pn.generator(1) })
    assert.is_true(math.abs(value:mean():item() - mean) < 5 * (value:var():item() / SIZE) ^ 0.5)
    for _, name in ipairs { "c", "r", "transition" } do
      local _, want = exact_slopes(m, name)
      compared("stop_gradient", name, want, 0.12, log_p)
    end
  end)

  it("leaves the log-evidence as it is", function()
    local b = batch()
    local function value(gradient) return made(gradient):log_evidence(b, { generator = pn.generator(2) }) end
    assert.equal(0, (value "dropped" - value "score_function"):abs():max():item())
    assert.is_true((value "dropped" - value "stop_gradient"):abs():max():item() < 1e-12)
  end)

  it("is the same compiled and eager, by series of different lengths, with gaps, in float32", function()
    local y = pn.randn({ 6, 5, 1 }, { generator = pn.generator(3) })
    y = pn.where(pn.rand({ 6, 5, 1 }, { generator = pn.generator(4) }):lt(0.2), 0 / 0, y)
    local losses = {}
    for _, gradient in ipairs { "dropped", "score_function", "stop_gradient" } do
      for _, dtype in ipairs { "float64", "float32" } do
        local ends = {}
        for k, compile in ipairs { true, false } do
          local m = made(gradient, { num_particles = 4, threshold = 0.6, dtype = dtype, floor = 1e-6,
            no_resampling = 2 })
          ends[k] = m:fit({ series = { y = y, lengths = { 6, 3, 6, 1, 5 } }, steps = 6, lr = 1e-2, decay = 1, seed = 2,
            compile = compile }).loss
        end
        assert.is_true(math.abs(ends[1] - ends[2]) < (dtype == "float64" and 1e-10 or 1e-4), gradient .. dtype)
        losses[#losses + 1] = ends[1]
      end
    end
    for k = 3, 5, 2 do assert.is_true(math.abs(losses[k] - losses[1]) > 1e-6) end
    assert.is_true(math.abs(losses[3] - losses[5]) > 1e-6)
  end)

  it("refuses choices without a density", function()
    assert.error_matches(function() made("score_function", { resampling = "systematic" }) end,
      "sgls: gradient 'score_function' needs resampling 'multinomial', whose choices have a density, got 'systematic'",
      1, true)
    assert.error_matches(function() made "soft" end,
      "sgls: gradient must be one of 'dropped', 'stop_gradient', 'score_function', got 'soft'", 1, true)
  end)
end)
