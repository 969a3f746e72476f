--- What specs of compiled functions share: comparing results bit by bit, and rounds of eager and replayed calls
--- from the same state of parameters and generators.
local pn = require "penumbra"
local capture = require("penumbra.core").capture
local assert = require "luassert"

local M = {}

--- Same shape, dtype and elements (NaN equals NaN).
function M.same(got, want, what)
  assert(got:dtype() == want:dtype(), what .. ": dtype " .. got:dtype())
  assert.same(want:shape(), got:shape())
  local a, b = got:detach(), want:detach()
  local equal = a:eq(b):logical_or(a:ne(a):logical_and(b:ne(b)))
  if not equal:all():item() then
    error(("%s differs:\n%s\n%s"):format(what, tostring(a), tostring(b)), 2)
  end
end

--- Same shape and dtype; elements equal to rounding, and not finite at the same places.
function M.near(got, want, what)
  local a, b = got:detach(), want:detach()
  local rel = a:dtype() == "float32" and 1e-5 or 1e-13
  local close = (a - b):abs():le(b:abs() * rel + rel)
  M.same(pn.where(close, b, a), b, what)
end

--- f fails with a message that contains `pattern`, raised in the script, and no capture is left open.
function M.refused(pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  message = tostring(message)
  assert(message:find(pattern, 1, true), ("message %q lacks %q"):format(message, pattern))
  assert.is_nil(message:match "^lua/penumbra", message)
  assert.is_false(capture.going_on())
  return message
end

--- Calls f eagerly and compiled n times, each time with the arguments that prepare(k) gives (it may also change
--- parameters) and the generator at the same place: same results, same place afterwards, one capture. compare:
--- M.same (default) or M.near.
function M.rounds(what, f, n, prepare, compare)
  local compiled = pn.compile(f)
  for k = 1, n do
    local args = table.pack(prepare(k))
    pn.seed(k)
    local want = table.pack(f(table.unpack(args, 1, args.n)))
    local place = pn.rng_state()
    pn.seed(k)
    local got = table.pack(compiled(table.unpack(args, 1, args.n)))
    assert.same(place, pn.rng_state())
    assert.equal(want.n, got.n)
    for i = 1, want.n do
      (compare or M.same)(got[i], want[i], ("%s, round %d, result %d"):format(what, k, i))
    end
  end
  assert.equal(1, compiled:captures())
end

local function state_of(opt)
  local values = {}
  for i, p in ipairs(opt:parameters()) do
    values[i] = p:detach() * 1
  end
  return values, opt:state()
end

local function put_back(opt, values, state)
  for i, p in ipairs(opt:parameters()) do
    p:set(values[i])
  end
  opt:load_state(state)
end

--- n steps of opt on loss(...), eager and replayed, from one start: the same losses, parameters, states and
--- places of the generator after each step. batch(k) gives the arguments of step k, before(k) may change options.
function M.trajectories(what, opt, loss, n, batch, before)
  local values, state = state_of(opt)
  local want = {}
  for k = 1, n do
    if before then
      before(k)
    end
    pn.seed(100 + k)
    local value = opt:step((loss(batch(k))))
    local p, s = state_of(opt)
    want[k] = { loss = value, values = p, state = s, place = pn.rng_state() }
  end
  put_back(opt, values, state)
  local step = pn.compile(loss, { optimiser = opt })
  for k = 1, n do
    if before then
      before(k)
    end
    pn.seed(100 + k)
    local value = step(batch(k))
    local w, p, s = want[k], state_of(opt)
    assert(value == w.loss, ("%s: loss of step %d is %.17g, eager %.17g"):format(what, k, value, w.loss))
    assert.same(w.place, pn.rng_state())
    for i = 1, #p do
      M.same(p[i], w.values[i], ("%s: parameter %d after step %d"):format(what, i, k))
    end
    for key, v in pairs(w.state) do
      M.same(s[key], v, ("%s: %s after step %d"):format(what, key, k))
    end
  end
  return step
end

return M
