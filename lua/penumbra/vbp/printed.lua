--- Formulas of Haussmann (2021), chapter 3, as they are printed, where the right ones, which the library computes, give
--- other numbers: for those who compare with code that was made from the text. A bound with the printed sign is the
--- objective "printed_bound" of pn.vbp.learner.
-- help: pn.vbp.printed
local core = require "penumbra.core"
local options = require "penumbra.options"

local printed = {}

local function numbers(where, names, ...)
  local list = { ... }
  for k, name in ipairs(names) do list[k] = options.numbers(where, name, list[k]) end
  return table.unpack(list)
end

--- variance(mean, variance, weight_mean, weight_variance, sharpness): (3.8): variances after a layer and its gates, [N,
--- out], for inputs of these means and variances [N, in] and weights [in, out]. The variance of the gate multiplies
--- sum_i (E w_ij E h_i)^2, where (sum_i E w_ij E h_i)^2 is right; both agree where gates are hard.
function printed.variance(mean, variance, weight_mean, weight_variance, sharpness)
  local where = "variance"
  local names = { "mean", "variance", "weight_mean", "weight_variance" }
  mean, variance, weight_mean, weight_variance = numbers(where, names, mean, variance, weight_mean, weight_variance)
  options.argument(where, "sharpness", sharpness, "number")
  local f = mean:matmul(weight_mean)
  local z = sharpness == math.huge and f:gt(0):to(f:dtype()) or (f * sharpness):sigmoid()
  local own = variance:matmul(weight_mean:square() + weight_variance) + mean:square():matmul(weight_variance)
  return z * own + z * (1 - z) * mean:square():matmul(weight_mean:square())
end

--- hard_tanh(mean, variance, u, w): mean and variance of u + w + f (1 - u) (1 - w) as 3.5.2 prints them, for f of this
--- mean and variance and gates that are open with probabilities u (above 1) and w (below -1): + E w and + 2 cov(w, .),
--- where - E w and - 2 cov(w, .) are right.
function printed.hard_tanh(mean, variance, u, w)
  local m, v, a, b = numbers("hard_tanh", { "mean", "variance", "u", "w" }, mean, variance, u, w)
  m = core.is_tensor(m) and m or core.tensor(m)
  local shut = (1 - a) * (1 - b)
  local middle = (v + m:square()) * shut - (m * shut):square()
  local with_u, with_w = -(a * m * shut), -(b * m * shut)
  return a + b + m * shut, a * (1 - a) + b * (1 - b) + middle + with_u * 2 + with_w * 2
end

return printed
