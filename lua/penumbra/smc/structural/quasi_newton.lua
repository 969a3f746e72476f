--- Minimisation of a smooth function of a few numbers by BFGS with a backtracking line search (Nocedal & Wright 2006,
--- algorithms 6.1 and 3.1): f(x) -> value, gradient, with x and gradient lists of numbers; a value that is no number or
--- infinite counts as too large.
-- help: pn.smc
local quasi_newton = {}

local function dot(a, b)
  local sum = 0
  for i = 1, #a do sum = sum + a[i] * b[i] end
  return sum
end

local function unit(n)
  local h = {}
  for i = 1, n do
    h[i] = {}
    for j = 1, n do h[i][j] = i == j and 1 or 0 end
  end
  return h
end

-- h becomes (I - r s y^T) h (I - r y s^T) + r s s^T, r = 1 / y.s
local function update(h, s, y)
  local n, sy = #s, dot(s, y)
  local hy = {}
  for i = 1, n do hy[i] = dot(h[i], y) end
  local scale = (1 + dot(y, hy) / sy) / sy
  for i = 1, n do
    for j = 1, n do h[i][j] = h[i][j] + scale * s[i] * s[j] - (hy[i] * s[j] + s[i] * hy[j]) / sy end
  end
end

-- The next point along `direction`: x, value, gradient; nil if none is lower.
local function search(f, x, value, gradient, direction)
  local slope, length = dot(gradient, direction), 1
  local largest = 0
  for i = 1, #x do largest = math.max(largest, math.abs(direction[i])) end
  if largest > 2 then length = 2 / largest end -- parameters are logarithms and the like
  for _ = 1, 40 do
    local y = {}
    for i = 1, #x do y[i] = x[i] + length * direction[i] end
    local v, g = f(y)
    if v == v and v <= value + 1e-4 * length * slope and v > -math.huge then
      return y, v, g
    end
    length = length / 2
  end
end

--- x [, options {steps, tolerance}] -> x, value, steps, converged: converged where no element of the gradient is above
--- tolerance * max(1, |value|), or nothing lower is found along the gradient itself.
function quasi_newton.minimise(f, x, steps, tolerance)
  local value, gradient = f(x)
  local h, fresh = unit(#x), true
  for step = 1, steps do
    local largest = 0
    for i = 1, #x do largest = math.max(largest, math.abs(gradient[i])) end
    if largest <= tolerance * math.max(1, math.abs(value)) then
      return x, value, step - 1, true
    end
    local direction = {}
    for i = 1, #x do direction[i] = -dot(h[i], gradient) end
    local y, v, g = search(f, x, value, gradient, direction)
    if not y and fresh then
      return x, value, step - 1, true
    elseif not y then
      h, fresh = unit(#x), true
    else
      local s, difference = {}, {}
      for i = 1, #x do s[i], difference[i] = y[i] - x[i], g[i] - gradient[i] end
      local curvature = dot(s, difference)
      if curvature > 1e-12 * math.sqrt(dot(s, s) * dot(difference, difference)) then
        if fresh then
          local first = curvature / dot(difference, difference)
          for i = 1, #x do h[i][i] = first end
        end
        update(h, s, difference)
        fresh = false
      end
      x, value, gradient = y, v, g
    end
  end
  return x, value, steps, false
end

return quasi_newton
