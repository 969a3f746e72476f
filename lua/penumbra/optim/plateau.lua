--- A learning rate that falls when a score no longer gets better.
-- help: pn.optim, methods plateau
local core = require "penumbra.core"
local form = require "penumbra.form"
local options = require "penumbra.options"

local plateau = {}
plateau.__index = plateau
plateau.__name = "plateau"

-- Is the loss below the best one by its share?
local function is_better(self, loss)
  local best = self.best
  return loss < (best == math.huge and best or best - math.abs(best) * self.threshold)
end

--- The learning rate after an epoch with this loss, of which less is better (a NaN is not):
--- `opt.lr = plateau:step(loss)`.
function plateau:step(loss)
  options.argument("step", "loss", loss, "number")
  if is_better(self, loss) then
    self.best, self.bad = loss, 0
  else
    self.bad = self.bad + 1
  end
  if self.resting > 0 then
    self.resting, self.bad = self.resting - 1, 0
  end
  if self.bad > self.patience then
    self.rate, self.resting, self.bad = math.max(self.least, self.rate * self.factor), self.cooldown, 0
  end
  return self.rate
end

local number = form.number()

local kept = { rate = number, bad = form.whole(0), resting = form.whole(0),
  best = function(v, name, wrong) -- infinite before the first loss
    if v ~= math.huge and v ~= -math.huge then
      number(v, name, wrong)
    end
  end }

--- What it has seen, a table of numbers.
function plateau:state()
  local state = {}
  for key in pairs(kept) do state[key] = self[key] end
  return state
end

--- Restores what state() gave. What does not fit raises, and then nothing has changed.
function plateau:load_state(state)
  options.argument("load_state", "state", state, "table")
  form.check("load_state", "state", state, form.record(kept, "part of this schedule's state"))
  for key in pairs(kept) do self[key] = state[key] end
  return self
end

function plateau:__tostring()
  return ("plateau(rate = %g, best = %g, %d of %d without a better one)"):format(self.rate, self.best, self.bad,
    self.patience)
end

core.public(plateau)

--- new(from, given): the object of optim.plateau.
function plateau.new(from, given)
  options.argument("plateau", "from", from, "number")
  local o = options.check("plateau", given or {}, { factor = 0.1, patience = 10, threshold = 1e-4, cooldown = 0,
    least = 0.0 })
  if not (o.factor > 0 and o.factor < 1) then
    core.error(("plateau: factor must lie in (0, 1), got %g"):format(o.factor))
  end
  for _, name in ipairs { "patience", "cooldown" } do options.whole("plateau", name, o[name], 0) end
  o.rate, o.best, o.bad, o.resting = from, math.huge, 0, 0
  return setmetatable(o, plateau)
end

return plateau
