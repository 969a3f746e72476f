--- Translations of weights that leave a pre-activation alone: w + B d with x^T B = 0 (Kurle et al. 2022, equations 14
--- and 22 to 24).
-- help: none
local core = require "penumbra.core"
local options = require "penumbra.options"

local translation = {}

local function check_input(where, x)
  options.argument(where, "x", x, "tensor")
  if x:ndim() ~= 1 or x:size(1) < 1 then
    core.error(("%s: x must have one axis, got [%s]"):format(where, table.concat(x:shape(), ", ")))
  end
end

--- pivot(where, x, given): the position of the pivot: `given`, whose x must not be 0, or the last x other than 0.
function translation.pivot(where, x, given)
  check_input(where, x)
  local K = x:size(1)
  if given ~= nil then
    local k = options.whole(where, "pivot", given < 0 and given + K + 1 or given, 1)
    if k > K then
      core.error(("%s: pivot must be at most %d, got %d"):format(where, K, k))
    elseif x[k]:item() == 0 then
      core.error(("%s: pivot must be a place where x is not 0, got %d"):format(where, k))
    end
    return k
  end
  local places = x:ne(0):nonzero()
  if places:size(1) == 0 then
    core.error(("%s: x must not be zero: every translation leaves 0 alone, and there is no basis"):format(where))
  end
  return places[-1]:item() + 1
end

-- t along its axis `axis`, of size K without what stands at k.
local function around(t, axis, k, K)
  local parts = {}
  if k > 1 then
    parts[1] = t:slice(axis, 1, k - 1)
  end
  if k < K then
    parts[#parts + 1] = t:slice(axis, k + 1, K)
  end
  return core.concatenate(parts, axis)
end

local function check_size(where, K)
  if K < 2 then
    core.error(("%s: x must have at least 2 elements: nothing can be translated within 1"):format(where))
  end
end

--- basis(x [, {pivot = -1}]): see pn.invariance.translation_basis.
function translation.basis(x, given)
  local o = options.check("translation_basis", given, { pivot = options.optional "number" })
  local k = translation.pivot("translation_basis", x, o.pivot)
  local K = x:size(1)
  check_size("translation_basis", K)
  local eye = core.eye(K, { dtype = x:dtype() })
  local rest = around(eye, 2, k, K)
  local row = x:unsqueeze(1):matmul(rest) / x[k] -- x_i / x_k
  return rest - eye:slice(2, k, k) * row
end

--- translate(w, x, delta [, {pivot = -1}]): see pn.invariance.translate.
function translation.translate(w, x, delta, given)
  local where = "translate"
  options.argument(where, "w", w, "tensor")
  options.argument(where, "delta", delta, "tensor")
  local o = options.check(where, given, { pivot = options.optional "number" })
  local k = translation.pivot(where, x, o.pivot)
  local K = x:size(1)
  check_size(where, K)
  if w:ndim() < 1 or w:size(-1) ~= K or delta:ndim() < 1 or delta:size(-1) ~= K - 1 then
    core.error(("%s: the last axes of w, x and delta must be K, K and K - 1, got [%s], [%d] and [%s]"):format(where,
      table.concat(w:shape(), ", "), K, table.concat(delta:shape(), ", ")))
  end
  local at = -(delta * around(x, 1, k, K) / x[k]):sum(-1, true)
  local parts = {}
  if k > 1 then
    parts[1] = delta:slice(-1, 1, k - 1)
  end
  parts[#parts + 1] = at
  if k < K then
    parts[#parts + 1] = delta:slice(-1, k, K - 1)
  end
  return w + core.concatenate(parts, -1)
end

return translation
