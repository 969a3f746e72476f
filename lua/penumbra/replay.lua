--- Functions that are captured once per shapes of their arguments and replayed afterwards: no graph is
--- built, no memory allocated, elementwise chains run block by block; results are the bits of an eager call.
---
---     local step = pn.compile(function(x, y)
---       return (net(x) - y):square():mean()
---     end, {optimiser = opt})
---     for _ = 1, 1000 do print(step(x, y)) end        -- the loss as a number
---
--- See pn.compile.
local core = require "penumbra.core"
local options = require "penumbra.options"

local replay = {}
local capture = core.capture

local function whole(self, body, ...)
  capture.look(self)
  return capture.finish(self, body(capture.begin(...)))
end

local function settle(ok, ...)
  if ok then
    return ...
  end
  capture.cancel()
  error((...), 0)
end

-- f, and a step of the optimiser on its first result.
local function with_update(f, optimiser)
  local function update(loss, ...)
    capture.update(optimiser, loss)
    return loss, ...
  end
  return function(...)
    return update(f(...))
  end
end

--- compile(f, {optimiser = opt, plans = 8}) -> a function of tensors that does what f does, faster.
---
--- The first call with arguments of given shapes and dtypes runs f and notes each operation on the way;
--- later calls with such arguments replay the notes. Each combination of shapes has its plan; `plans` are
--- kept, the one longest unused gives way. Results are new tensors without a graph.
---
--- optimiser   f returns the loss first (one element); each call is a whole opt:step(loss) and gives the loss
---             back as a number, then further results. Learning rates and other options may change between
---             calls; opt and parameters are the same ones that eager code sees.
--- plans       how many plans are kept
---
--- What a replay repeats: operations, pn.grad, random draws (fresh ones: the same seed gives the same numbers
--- replayed and eager), checks of distributions' parameters. Parameters are read in place. Tensors and
--- numbers that f finds in its own local variables from outside (upvalues) are constants of the plan; when
--- one of these variables has another value, f is captured anew; so are tensors in plain tables among them, as
--- params.w. Other things that f finds in tables and globals are not watched. os.time, math.random, printing and
--- other effects happen at the capture only. A number that changes from call to call should come as an
--- argument, pn.tensor(v).
---
--- What would be frozen is refused, with the line: x:item(), x:totable(), tostring(x) and masks as indices on
--- anything that depends on arguments, parameters or draws; pn.param, w:set, loss:backward(), opt:step inside
--- f (give the optimiser to compile); making or seeding generators.
---
--- The result has the methods :plans() (a list of {steps =, bytes =}), :captures() (how often f ran) and
--- :forget().
function replay.compile(f, given)
  if type(f) ~= "function" then
    core.error("compile: f must be a function, got " .. type(f))
  end
  local o = options.check("compile", given or {}, { optimiser = options.optional(), plans = 8 })
  local body = o.optimiser and with_update(f, o.optimiser) or f
  local function miss(self, ...)
    if capture.going_on() then
      if o.optimiser then
        core.error "compile: a compiled step with an optimiser cannot be part of another compiled function"
      end
      return f(...)
    end
    return settle(pcall(whole, self, body, ...))
  end
  return capture.new(miss, f, o.plans, o.optimiser ~= nil)
end

return replay
