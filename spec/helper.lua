--- What many specs assert: `local close = require("spec.helper").close`.
local assert = require "luassert"

local helper = {}

--- What f(...) raises; it must raise. (A library's function given as f finds its caller here: a spec of where errors
--- are said to be has a function of its own.)
function helper.message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

--- f(...) raises a message that has this text.
function helper.refuses(text, f, ...)
  local message = tostring(helper.message_of(f, ...))
  assert(message:find(text, 1, true), ("message %q lacks %q"):format(message, text))
end

--- f(...) raises a message that matches the pattern.
function helper.refused(pattern, f, ...)
  assert.matches(pattern, helper.message_of(f, ...))
end

--- Numbers within a tolerance (1e-10) of want, relative where |want| is above 1.
function helper.near(got, want, tolerance)
  assert(math.abs(got - want) <= (tolerance or 1e-10) * math.max(1, math.abs(want)),
    ("got %.15g, want %.15g"):format(got, want))
end

--- Numbers, or tensors of one, that are at most `tolerance` apart.
function helper.within(a, b, tolerance, what)
  a, b = type(a) == "number" and a or a:item(), type(b) == "number" and b or b:item()
  assert(math.abs(a - b) <= tolerance, ("%s: %.17g and %.17g"):format(what or "values", a, b))
end

--- The largest difference of two tensors.
function helper.off(got, want)
  return (got - want):abs():max():item()
end

--- Tensors that are nowhere more than `limit` apart.
function helper.close(got, want, limit, what)
  local d = helper.off(got, want)
  assert(d <= limit, ("%s: off by %.3g"):format(what or "value", d))
end

return helper
