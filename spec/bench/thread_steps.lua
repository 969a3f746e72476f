--- Training steps, replayed, and a step of a particle filter of 10^6 on one thread and on all of the machine's, wall
--- clock: rounds of each take turns and the best of each count. Parameters after as many steps, and the evidence, must
--- be the same bits.
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

local PARTICLES = 1000000

-- A bootstrap filter with float32 states that tells its trace; the function makes a step and gives the evidence so far.
local function filter()
  pn.seed(1)
  local function noise(n) return pn.randn({n}, {dtype = "float32"}) end
  local f = pn.smc.filter{num_particles = PARTICLES, threshold = 1, init = noise,
    step = function(x) return x * 0.9 + noise(x:size(1)) * 0.5 end,
    log_weight = function(x, y) return (x - y):square() * (-0.5 / 0.49) - 0.5622636 end}
  local y = pn.full({}, 0.3, {dtype = "float32"})
  return function()
    f:observe(y)
    return f:log_evidence():item()
  end
end

-- Seconds of a step with each number of threads.
local function measure(make, counts)
  local steps, best = {}, {}
  for k in ipairs(counts) do steps[k], best[k] = make(), math.huge end
  for _ = 1, ROUNDS do
    for k, threads in ipairs(counts) do
      pn.threads(threads)
      steps[k]()
      local start, n = core.clock(), 0
      repeat
        local began = core.clock()
        steps[k]()
        n = n + 1
        best[k] = math.min(best[k], core.clock() - began)
      until n >= 5 and core.clock() - start > ROUND
    end
  end
  pn.threads(1)
  return best
end

-- The loss after ten steps, to the bit.
local function result(make, threads)
  pn.threads(threads)
  local step, loss = make(), nil
  for _ = 1, 10 do loss = step() end
  return ("%a"):format(loss)
end

return function(bench)
  local all = tonumber(bench.run "getconf _NPROCESSORS_ONLN") or 1
  if all < 2 then return end
  local rows = {{("filter of %d particles"):format(PARTICLES), filter, ">= 1.7"}}
  for _, name in ipairs {"vae", "iwae", "wide_classifier"} do
    rows[#rows + 1] = {training[name]()[1], function() return step_of(name) end, ">= 1.6"}
  end
  for _, row in ipairs(rows) do
    local title, make, must = table.unpack(row)
    local seconds = measure(make, {1, all})
    assert(result(make, 1) == result(make, all), title .. ": other bits on more threads")
    bench.row(("step of %s, 1 thread"):format(title), seconds[1] * 1e6, "us")
    bench.row(("step of %s, %d threads"):format(title, all), seconds[2] * 1e6, "us")
    bench.row(("  one thread to %d, %s"):format(all, title), seconds[1] / seconds[2], "x", must)
  end
end
