--- Training steps on one thread and on all of the machine's, replayed, wall clock: rounds of each take turns and the
--- best of each count. Parameters after as many steps must be the same bits.
local pn = require "penumbra"
local core = require "penumbra.core"
package.path = "spec/bench/peers/?.lua;" .. package.path
local training = require "training"

local ROUNDS, ROUND = 12, 0.06 -- how many, and seconds of each

local function step_of(name)
  pn.seed(1)
  local row = training[name]()
  local f = pn.compile(row.loss, {optimiser = pn.optim.adam(row.parameters, {lr = 1e-4})})
  return function() return f(table.unpack(row.tensors)) end
end

-- Seconds of a step with each number of threads.
local function measure(name, counts)
  local steps, best, last = {}, {}, {}
  for k in ipairs(counts) do steps[k], best[k] = step_of(name), math.huge end
  for _ = 1, ROUNDS do
    for k, threads in ipairs(counts) do
      pn.threads(threads)
      last[k] = steps[k]()
      local start, n = core.clock(), 0
      repeat
        local began = core.clock()
        last[k], n = steps[k](), n + 1
        best[k] = math.min(best[k], core.clock() - began)
      until n >= 5 and core.clock() - start > ROUND
    end
  end
  pn.threads(1)
  return best
end

-- The loss after ten steps, to the bit.
local function result(name, threads)
  pn.threads(threads)
  local step, loss = step_of(name), nil
  for _ = 1, 10 do loss = step() end
  return ("%a"):format(loss)
end

return function(bench)
  local all = tonumber(bench.run "nproc")
  for _, name in ipairs {"vae", "iwae", "wide_classifier"} do
    local seconds = measure(name, {1, all})
    local title = training[name]()[1]
    assert(result(name, 1) == result(name, all), title .. ": other bits on more threads")
    bench.row(("step of %s, 1 thread"):format(title), seconds[1] * 1e6, "us")
    bench.row(("step of %s, %d threads"):format(title, all), seconds[2] * 1e6, "us")
    bench.row(("  %d threads to one"):format(all), seconds[1] / seconds[2], "x", ">= 1.6")
  end
end
