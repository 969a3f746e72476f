-- The matrix of distributions and functions: which ones there are not, and why. What is missing is refused by name.
local pn = require "penumbra"

local dist = pn.dist
local functions = { "mean", "variance", "stddev", "mode", "entropy", "cdf", "icdf", "log_cdf", "log_survival",
  "rsample" }
local moments = { "mean", "variance", "stddev" }
local tails = { "cdf", "icdf", "log_cdf", "log_survival" }

-- Every kind of vectors and matrices lacks the functions of `tails`: they are not ordered.
local absent = {
  -- draws have no derivative: they jump. A point's draw moves with it.
  [{ "bernoulli", "categorical", "poisson", "binomial", "negative_binomial", "geometric", "one_hot_categorical",
    "multinomial", "beta_binomial", "zero_inflated_poisson", "empirical", "gamma_poisson",
    "dirichlet_multinomial" }] = { "rsample" },
  -- labels are names: neither sums nor order
  [{ "categorical" }] = { "cdf", "icdf", "log_cdf", "log_survival", table.unpack(moments) },
  -- no mean: E|x| is infinite; entropy and distribution function are integrals of an exponential integral
  [{ "horseshoe" }] = { "entropy", "cdf", "icdf", "log_cdf", "log_survival", table.unpack(moments) },
  -- integrals of powers of softmax over Gumbel variables; modes where the temperature is low are corners
  [{ "relaxed_bernoulli", "relaxed_one_hot_categorical" }] = { "mode", "entropy", table.unpack(moments) },
  -- with concentrations below 1 the masses have many peaks
  [{ "dirichlet_multinomial" }] = { "mode" },
}

local function lacks(row)
  local set = {}
  for names, list in pairs(absent) do
    for _, name in ipairs(names) do
      for _, f in ipairs(name == row.name and list or {}) do
        set[f] = true
      end
    end
  end
  for _, f in ipairs(row.event_rank > 0 and tails or {}) do
    set[f] = true
  end
  return set
end

local function example(row)
  local named = {}
  local golden = require("spec.golden.distribution." .. row.name)
  for name, v in pairs(golden.cases[1].params) do
    named[name] = pn.tensor(v)
  end
  return dist[row.name](named), golden.cases[1].x[1]
end

describe("the functions of a distribution", function()
  for _, row in ipairs(pn.rows()) do
    if row.kind == "distribution" then
      it("are there or refused by name: " .. row.name, function()
        local d, x = example(row)
        local missing = lacks(row)
        for _, f in ipairs(functions) do
          assert.equal(not missing[f], row.functions[f], f)
          local points = { cdf = true, icdf = true, log_cdf = true, log_survival = true }
          local argument = points[f] and (f == "icdf" and pn.tensor(0.5) or pn.tensor(x, {
            dtype = row.support == "integer_interval" and "int64" or nil })) or nil
          local ok, result = pcall(d[f], d, argument)
          assert.equal(not missing[f], ok, ("%s: %s"):format(f, tostring(result)))
          if not ok then
            assert(result:find(("%s: %s does not exist"):format(row.name, f), 1, true), result)
          end
        end
      end)
    end
  end
end)
