--- Functions that are captured once per shapes of their arguments and replayed afterwards: no graph is
--- built, no memory allocated, elementwise chains run block by block; results are the bits of an eager call.
---
---     local step = pn.compile(function(x, y)
---       return (net(x) - y):square():mean()
---     end, {optimiser = opt})
---     for _ = 1, 1000 do print(step(x, y)) end        -- the loss as a number
---
--- See pn.compile.
-- help: pn, quiet
local core = require "penumbra.core"
local options = require "penumbra.options"
local progress = require "penumbra.progress"

local replay = {}
local capture = core.capture

local OFTEN = 5 -- captures that one value made, after which it is told

local advice = {
  number = "another number each time: pass it as an argument, pn.tensor(v), or keep it in a parameter",
  tensor = "another tensor each time: pass it as an argument",
  everything = "more than the 20000 values that are watched: pass lists of numbers as a tensor",
}

-- Counts the captures that came of a change outside, and tells once which value made them.
local function count_change(changes, name, kind)
  if not name or changes.told then
    return
  end
  changes[name] = (changes[name] or 0) + 1
  if changes[name] == OFTEN then
    changes.told = true
    progress.say(("%scompile: captured anew %d times because %s, outside of the function, " ..
      "held %s"):format(changes.line, OFTEN, name, advice[kind] or "something else each time, which no plan can keep"))
  end
end

local function whole(self, changes, body, ...)
  count_change(changes, capture.look(self))
  return capture.finish(self, body(capture.begin(...)))
end

local function settle(ok, ...)
  if ok then
    return ...
  end
  capture.cancel()
  error((...), 0)
end

-- The results of an eager call as a replay gives them.
local function plain(optimiser, ...)
  local out = table.pack(...)
  for k = 1, out.n do
    out[k] = k == 1 and optimiser and out[k]:item() or out[k]:detach()
  end
  return table.unpack(out, 1, out.n)
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

--- compile(f [, {optimiser =, plans = 8}]): a function of tensors that does what f does, faster.
---
---     step = pn.compile(function(x, y) return (net(x) - y):square():mean() end, {optimiser = opt})
---     for _ = 1, 1000 do loss = step(x, y) end
---
--- The first call with arguments of given shapes and dtypes runs f and notes each operation on the way;
--- later calls with such arguments replay the notes. Each combination of shapes has its plan; `plans` are
--- kept, the one longest unused gives way. Results are new tensors without a graph.
---
--- optimiser   f returns the loss first (one element); each call is a whole opt:step(loss) and gives the loss
---             back as a number, then further results. Learning rates and other options may change between
---             calls; opt and parameters are the same ones that eager code sees.
--- plans       how many plans are kept
--- watch       the function whose outside is watched, if it is not f itself but one that f calls
---
--- What a replay repeats: operations, pn.grad, opt:apply, random draws (fresh ones: the same seed gives the same
--- numbers replayed and eager), checks of distributions' parameters. Parameters are read in place: setting, loading
--- and training them outside is seen. A replay that fails before it has changed anything (a parameter out of range,
--- a factorisation that does not exist, a number that is not finite) is followed by the eager call, which goes
--- another way or raises at its line.
---
--- Tensors and numbers that f finds outside are constants of the plan. They are watched, and f is captured anew
--- when one has changed: variables of f (upvalues) and of the functions that it reaches through them, layers and
--- fields of networks, members of lists, and fields and globals that one of these functions mentions by name, as
--- `beta` in config.beta, new ones too. (Where these are more than 20000, each call is a capture.) Not watched are
--- keys that are computed, config["be" .. "ta"], the insides of coroutines and of C libraries, and whatever else
--- comes from outside: os.time, math.random, files; these, printing and other effects happen at the capture only. A
--- number that changes from call to call is better an argument, pn.tensor(v): it needs no new capture. A value that
--- has made five captures is named once, on standard error.
---
--- What would be frozen is refused, with the line: x:item(), x:totable(), tostring(x), saving, plotting and masks
--- as indices on anything that depends on arguments, parameters or draws; a failure that is caught (pcall, or the
--- nil of x:cholesky()) where it may not come again; pn.param, w:set, loss:backward(), opt:step (give the optimiser
--- to compile), opt.lr, opt:state() inside f; making, reading or seeding generators; a variable outside that f
--- itself gives another number, or a tensor that it has computed (return it). Lua asks nobody about `if x` and
--- `x == y`: any tensor is true, and two tensors are equal if they are the same object; x < y is an error as ever.
---
--- Loops of f are found in what it did: 32 turns or more of the same operations on the same shapes, whose operands are
--- at each turn those of the turn before, or the next ones (x[t], the state that the last turn gave, numbers of that
--- turn), are replayed as a loop, and so are those of its gradient. The plan is then as small for 10,000 turns as
--- for 50. Turns that do something else, as the first or the last one may, stand beside the loop; two kinds that take
--- turns are one loop of pairs; kinds without order stay one by one.
---
--- The result has the methods :plans() (a list of {steps =, loops =, bytes =}, a loop's steps counted once),
--- :captures() (how often f ran) and :forget().
function replay.compile(f, given)
  if type(f) ~= "function" then
    core.error("compile: f must be a function, got " .. type(f))
  end
  local o = options.check("compile", given or {}, { optimiser = options.optional(), plans = 8,
    watch = options.optional "function" })
  options.whole("compile", "plans", o.plans, 1)
  if o.optimiser then
    options.object("compile", "optimiser", o.optimiser, "an optimiser (as pn.optim.adam gives)", "step")
  end
  local line = core.script_line()
  local changes = { line = line ~= "" and line .. ": " or "" }
  local body = o.optimiser and with_update(f, o.optimiser) or f
  -- A call that cannot be replayed: part of another capture, after a failure, or the first of its kind.
  local function miss(self, failed, ...)
    if failed then
      return plain(o.optimiser, body(...))
    elseif capture.going_on() then
      if o.optimiser then
        core.error "compile: a compiled step with an optimiser cannot be part of another compiled function"
      end
      return f(...)
    end
    return settle(pcall(whole, self, changes, body, ...))
  end
  return capture.new(miss, o.watch or f, o.plans, o.optimiser ~= nil)
end

return replay
