--- Gaussian arguments of pn.continual: factors by natural parameters, of numbers or of vectors with a precision each.
-- help: none
local core = require "penumbra.core"
local natural = require "penumbra.distribution.natural"

local gaussian = {}

--- factor(where, role, q): q, a Gaussian factor or a distribution, as a factor; full precision matrices are refused.
function gaussian.factor(where, role, q)
  local kind = type(q) == "userdata" and getmetatable(q) or nil
  if kind ~= "penumbra.natural" and kind ~= "penumbra.distribution" then
    core.error(("%s: %s must be a normal distribution or a Gaussian factor, got %s"):format(where, role, type(q)))
  end
  local s = natural.is(q) and q or natural.of(q)
  if s.form == "full" then
    core.error(("%s: %s must have a precision for each weight, got a precision matrix"):format(where, role))
  end
  return s
end

--- moments(s): mean and variance of a factor.
function gaussian.moments(s)
  return s.precision_mean / s.precision, s.precision:reciprocal()
end

--- like(s, precision_mean, precision): a factor of the same form.
function gaussian.like(s, precision_mean, precision)
  return core.new_natural(s.form, precision_mean, precision)
end

--- like_moments(s, mean, variance): a factor of the same form.
function gaussian.like_moments(s, mean, variance)
  return gaussian.like(s, mean / variance, variance:reciprocal())
end

return gaussian
