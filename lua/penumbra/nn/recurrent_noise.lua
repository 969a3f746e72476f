--- Flipout through rnn, gru and lstm: one draw of the weights, whose signs each sequence turns anew and keeps over all
--- its steps, so that each runs with weights of its own: x W' + ((x u) D') r with deviations D, signs u and r of the
--- sequence. Equations, gates and shapes are those of the layers.
-- help: nowhere
local core = require "penumbra.core"

local recurrent = {}

-- The k-th of n equal parts of the last axis.
local function part(x, k, n)
  local size = x:size(-1) // n
  return x:slice(-1, (k - 1) * size + 1, k * size)
end

--- cells: type -> function(gi, gh, state, options): the next state from the projections of the input and of the output.
recurrent.cells = {
  rnn = function(gi, gh, _, o)
    local a = gi + gh
    return { o.activation == "relu" and a:relu() or a:tanh() }
  end,
  gru = function(gi, gh, state)
    local r = (part(gi, 1, 3) + part(gh, 1, 3)):sigmoid()
    local z = (part(gi, 2, 3) + part(gh, 2, 3)):sigmoid()
    local n = (part(gi, 3, 3) + r * part(gh, 3, 3)):tanh()
    return { n + z * (state[1] - n) }
  end,
  lstm = function(gi, gh, state)
    local a = gi + gh
    local c = part(a, 2, 4):sigmoid() * state[2] + part(a, 1, 4):sigmoid() * part(a, 3, 4):tanh()
    return { part(a, 4, 4):sigmoid() * c:tanh(), c }
  end,
}

-- x -> x W' + b, turned, for x [..., rows, in].
local function projection(s, weight, bias, rows, generator)
  local w, delta = s.loc[weight], s.draw(s, weight, generator)
  local like = { dtype = w:dtype() }
  local from = s.turn(s, weight, core.zeros({ rows, w:size(2) }, like), generator)
  local to = s.turn(s, weight, core.zeros({ rows, w:size(1) }, like), generator)
  local b, bias_delta = s.loc[bias], s.draw(s, bias, generator)
  local mean, spread = w:t(), delta:t()
  return function(x)
    local y, turned = x:matmul(mean), (x * from):matmul(spread)
    if b then
      y, turned = y + b, turned + bias_delta
    end
    return y + turned * to
  end
end

local function flat(x, rows)
  return x:reshape { rows, x:size(-1) }
end

-- Rows of `new` where the step lies within the sequence, else of `old`.
local function within(mask, new, old)
  return mask and core.where(mask, new, old) or new
end

--- flipout(s, x, lengths, state, generator): outputs of all steps of x [T, ..., in], then the last state.
function recurrent.flipout(s, x, lengths, state, generator)
  local shape, cell = x:shape(), recurrent.cells[s.kind_of]
  local sizes, o = s.layer:configuration()
  local steps, rows, hidden = shape[1], 1, sizes[2]
  for k = 2, #shape - 1 do
    rows = rows * shape[k]
  end
  local input = projection(s, "weight_ih", "bias_ih", rows, generator)
  local output = projection(s, "weight_hh", "bias_hh", rows, generator)
  local gi, now, list = input(x:reshape { steps, rows, shape[#shape] }), {}, {}
  for k = 1, s.kind_of == "lstm" and 2 or 1 do
    now[k] = state and state[k] and flat(state[k], rows) or core.zeros({ rows, hidden }, { dtype = x:dtype() })
  end
  lengths = lengths and lengths:reshape { rows, 1 }
  local first, last, by = 1, steps, 1
  if o.reverse then
    first, last, by = steps, 1, -1
  end
  for t = first, last, by do
    local mask, next_state = lengths and lengths:gt(t - 1), cell(gi:select(1, t), output(now[1]), now, o)
    for k = 1, #now do
      next_state[k] = within(mask, next_state[k], now[k])
    end
    now = next_state
    list[t] = within(mask, now[1], now[1] * 0)
  end
  shape[#shape] = hidden
  local y = core.stack(list):reshape(shape)
  table.remove(shape, 1)
  for k = 1, #now do
    now[k] = now[k]:reshape(shape)
  end
  return y, table.unpack(now)
end

--- step(s, x, state, generator): the state after one step, x [..., in].
function recurrent.step(s, x, state, generator)
  return select(2, recurrent.flipout(s, x:unsqueeze(1), nil, state, generator))
end

return recurrent
