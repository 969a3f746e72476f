--- Linear stochastic differential equations at discrete times, exactly.
-- help: pn.smc
local core = require "penumbra.core"
local matrix = require "penumbra.array.matrix"
local options = require "penumbra.options"

local discretise = {}

--- Blocks under each other, each a row of blocks, [..., n, k] with the same leading axes.
local function blocks(rows)
  local list = {}
  for i, row in ipairs(rows) do
    list[i] = core.concatenate(row, -1)
  end
  return core.concatenate(list, -2)
end

-- The three results for a short step h [..., 1, 1]: e^([-f q; 0 f^T] h) = [. g; 0 a^T], noise = a g (Van Loan 1978).
local function short_step(f, q, c, h)
  local n, ft = f:size(-1), f:transpose(-1, -2)
  local e = matrix.matrix_exp(blocks { { -f, q }, { f * 0, ft } } * h)
  local a = e:slice(-2, n + 1, 2 * n):slice(-1, n + 1, 2 * n):transpose(-1, -2)
  local noise = a:matmul(e:slice(-2, 1, n):slice(-1, n + 1, 2 * n))
  if not c then
    return a, noise
  end
  local top = core.concatenate({ f, c:unsqueeze(-1) + f:slice(-1, 1, 1) * 0 }, -1)
  local below = top:slice(-2, 1, 1) * 0
  return a, noise, matrix.matrix_exp(core.concatenate({ top, below }, -2) * h):slice(-2, 1, n):select(-1, n + 1)
end

-- By steps of halves, short ones first: the exponential of -f would lose, or overflow, what a long step damps.
local function over_steps(f, q, c, h)
  local longest = (f * h):detach():abs():sum(-2):max():item()
  local doublings = longest > 1 and math.ceil(math.log(longest, 2)) or 0
  local a, noise, offset = short_step(f, q, c, h * 2.0 ^ -doublings)
  for _ = 1, doublings do
    noise = noise + a:matmul(noise):matmul(a:transpose(-1, -2))
    offset = offset and offset + a:matmul(offset:unsqueeze(-1)):squeeze(-1)
    a = a:matmul(a)
  end
  return { transition = a, transition_cov = (noise + noise:transpose(-1, -2)) * 0.5, transition_offset = offset }
end

--- See kalman.discretise.
function discretise.system(where, given)
  local o = options.check(where, given, { drift = options.required(), diffusion = options.required(), offset = false,
    step = options.required() })
  local f = options.numbers(where, "drift", o.drift, "tensor")
  local q = options.numbers(where, "diffusion", o.diffusion, "tensor")
  local dt = options.numbers(where, "step", o.step)
  local n = f:size(-1)
  for role, x in pairs { drift = f, diffusion = q } do
    if x:ndim() < 2 or x:size(-1) ~= n or x:size(-2) ~= n then
      core.error(("%s: %s must be [..., %d, %d], got [%s]"):format(where, role, n, n, table.concat(x:shape(), ", ")))
    end
  end
  if type(dt) == "number" then
    dt = core.full({}, dt, { dtype = f:dtype() })
  end
  if not dt:detach():ge(0):all():item() then
    core.error(where .. ": step must not be negative")
  end
  local zero = f * 0 + q * 0
  local c = o.offset and options.numbers(where, "offset", o.offset, "tensor")
  return over_steps(f + zero, q + zero, c, dt:unsqueeze(-1):unsqueeze(-1))
end

return discretise
