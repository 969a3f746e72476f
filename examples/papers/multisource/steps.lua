--- What the experiments of this folder share: training of so many steps on batches that are made anew, kept in a file
--- after each block and gone on with from there to the same bits. It does nothing when it is run by itself.
local pn = require "penumbra"

local steps = {}

local function exists(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

--- train{model =, steps =, batch =, loss =, lr =, seed =, path =, block = 500, name =}: Adam on loss(...) for what
--- batch(step) gives, a list of tensors of the same shapes each time; each block of steps begins with a seed of its
--- own.
--- path: the file that is gone on from; nothing is kept without. Returns the seconds of all blocks, those of earlier
--- runs too, and the mean loss of the last.
function steps.train(o)
  local opt, block = pn.optim.adam(o.model:parameters(), { lr = o.lr }), o.block or 500
  local state = { step = 0, seconds = 0, loss = 0 }
  if o.path and exists(o.path) then
    local kept = assert(pn.load(o.path))
    o.model:load_state(kept.model)
    opt:load_state(kept.optimiser)
    state = { step = kept.step, seconds = kept.seconds, loss = kept.loss }
  end
  local step = pn.compile(o.loss, { optimiser = opt })
  while state.step < o.steps do
    local start, last, sum = pn.clock(), math.min(o.steps, state.step + block), 0
    pn.seed(o.seed * 1000003 + state.step)
    for k = state.step + 1, last do sum = sum + step(table.unpack(o.batch(k))) end
    state.loss, state.seconds = sum / (last - state.step), state.seconds + pn.clock() - start
    state.step = last
    if o.path then
      assert(pn.save(o.path, { model = o.model:state(), optimiser = opt:state(), step = state.step,
        seconds = state.seconds, loss = state.loss }))
    end
    if o.name and (last // block % 10 == 0 or last == o.steps) then
      print(("%s: step %d of %d, loss %.4f, %.0f s"):format(o.name, last, o.steps, state.loss, state.seconds))
    end
  end
  return state.seconds, state.loss
end

return steps
