-- What careless and hostile callers do to each distribution: values that are NaN or infinite, probabilities at the
-- ends, lists that are no tensors, events of size 0.
local pn = require "penumbra"
local assert = require "luassert"
local message_of = require("spec.helper").message_of

local dist = pn.dist
local POINTS = { "cdf", "log_cdf", "log_survival" }
local MOMENTS = { "sample", "rsample", "mean", "variance", "entropy", "mode" }
local WIDER = { mean = true, variance = true, entropy = true, mode = true } -- some with an axis or two more on the way
local ONE_NUMBER = { dimension = true, num_steps = true }

local function number(v)
  return pn.tensor(v, { dtype = "float64" })
end

local function make(row, change)
  local params = {}
  for name, v in pairs(require("spec.golden.distribution." .. row.name).cases[1].params) do
    params[name] = number(v)
  end
  for name, v in pairs(change or {}) do
    params[name] = v
  end
  return dist[row.name](params), params
end

-- t with k axes of 1 before its own.
local function before(t, k)
  local shape = t:shape()
  for _ = 1, k do
    table.insert(shape, 1, 1)
  end
  return t:reshape(shape)
end

local function holds(text, what)
  assert(text:find(what, 1, true), ("%q lacks %q"):format(text, what))
end

-- The slopes of y(distribution, x) in x and in each parameter are finite.
local function has_finite_slopes(row, f, x, what)
  local _, params = make(row)
  local leaves = { x = pn.param(number(x)) }
  for name, t in pairs(params) do
    leaves[name] = name ~= "total_count" and pn.param(t) or row.name == "negative_binomial" and pn.param(t) or nil
  end
  local change = {}
  for name, leaf in pairs(leaves) do
    change[name] = name ~= "x" and leaf or nil
  end
  local y = f((make(row, change)), leaves.x)
  if not y:requires_grad() then
    return
  end
  for name, leaf in pairs(leaves) do
    local slope = pn.grad(y, { leaf })[1]
    assert(slope:isfinite():logical_not():sum():item() == 0,
      ("%s: slope in %s at %s is %s"):format(what, name, x, tostring(slope)))
  end
end

for _, row in ipairs(pn.rows()) do
  if row.kind == "distribution" then
    describe(row.name, function()
      local numbers = row.event_rank == 0 and row.support ~= "integer_interval"

      it("has NaN for NaN and is flat at infinity", function()
        if not numbers then
          return
        end
        local d = make(row)
        for _, name in ipairs(POINTS) do
          if row.functions[name] then
            local y = d[name](d, number { 0 / 0, math.huge, -math.huge }):totable()
            assert(y[1] ~= y[1], name .. " of NaN is " .. y[1])
            assert.same(({ cdf = { 1, 0 }, log_cdf = { 0, -math.huge }, log_survival = { -math.huge, 0 } })[name],
              { y[2], y[3] })
            for _, x in ipairs { math.huge, -math.huge } do
              has_finite_slopes(row, d[name], x, row.name .. ": " .. name)
            end
          end
        end
        for _, x in ipairs { math.huge, -math.huge } do
          assert.equal(-math.huge, d:log_prob(number(x)):item())
          has_finite_slopes(row, d.log_prob, x, row.name .. ": log_prob")
        end
      end)

      it("has no NaN among slopes of quantiles at 0 and 1", function()
        for _, p in ipairs(numbers and row.functions.icdf and { 0, 1 } or {}) do
          local leaf = pn.param(number(p))
          local x = make(row):icdf(leaf)
          local slope = x:requires_grad() and pn.grad(x, { leaf })[1]:item() or 0
          assert(slope == slope, ("slope of the quantile at %d is NaN"):format(p))
        end
      end)

      it("gives with as many axes of 1 before its own as fit what it gives without", function()
        local d, params = make(row)
        local x = d:sample()
        local most = x:ndim()
        for _, t in pairs(params) do
          most = math.max(most, t:ndim())
        end
        local function check(name, f)
          pn.seed(5)
          local want = f(d, x, params)
          for k = 1, 8 - most do
            local more = {}
            for key, t in pairs(params) do
              more[key] = ONE_NUMBER[key] and t or before(t, k)
            end
            pn.seed(5)
            local ok, y = pcall(function() return f(dist[row.name](more), before(x, k), more) end)
            if not ok then
              assert(WIDER[name], y)
              local limit = tonumber(y:match "at most (%d) axes are possible")
              assert(limit and k + x:ndim() == limit + 1 or y:find "axes must be 0 to 8, got 9" and k + most >= 7,
                ("%s, %d axes more: %s"):format(name, k, y))
              break
            end
            assert.equal(want:numel(), y:numel())
            local a, b = want:reshape({ -1 }):to "float64", y:reshape({ -1 }):to "float64"
            local near = (a - b):abs():le(a:abs() * 1e-13):logical_or(a:eq(b)):logical_or(a:ne(a):logical_and(b:ne(b)))
            assert(near:all():item(), ("%s, %d axes more: %s, not %s"):format(name, k, tostring(y), tostring(want)))
          end
        end
        for _, name in ipairs(MOMENTS) do
          if row.functions[name] or name == "sample" then
            check(name, function(e) return e[name](e) end)
          end
        end
        for _, name in ipairs(POINTS) do
          if row.functions[name] then
            check(name, function(e, z) return e[name](e, z) end)
          end
        end
        check("log_prob", function(e, z) return e:log_prob(z) end)
        -- slopes in the value and in parameters one by one, and in all together, by which they may be computed in
        -- another way
        local value = {}
        local function slopes_in(keys)
          return function(_, z, all)
            local change, leaves = { [value] = z }, {}
            for name, t in pairs(all) do
              change[name] = t
            end
            for k, key in ipairs(keys) do
              leaves[k] = pn.param(change[key]:detach())
              change[key] = leaves[k]
            end
            local at = change[value]
            change[value] = nil
            local slopes = pn.grad(dist[row.name](change):log_prob(at):sum(), leaves)
            for k, t in ipairs(slopes) do
              slopes[k] = t:reshape { -1 }
            end
            return pn.concatenate(slopes)
          end
        end
        local smooth = {}
        local keys = { value }
        for key in pairs(params) do
          keys[#keys + 1] = key
        end
        for _, key in ipairs(keys) do
          local has, text = pcall(slopes_in { key }, d, x, params)
          assert(has or key == value or text:find "no gradient", text)
          if has then
            smooth[#smooth + 1] = key
            check("slope in " .. (key == value and "the value" or key), slopes_in { key })
          end
        end
        if #smooth > 1 then
          check("slopes", slopes_in(smooth))
        end
      end)

      it("names itself and the parameter when lists are no tensors", function()
        local _, params = make(row)
        for name in pairs(params) do
          for _, bad in ipairs { { "a" }, { { 1 }, { 1, 2 } }, { print } } do
            local text = message_of(make, row, { [name] = bad })
            holds(text, row.name .. ": " .. name .. " must be")
          end
        end
        local d = make(row)
        holds(message_of(d.sample, d, { "a" }), row.name .. ": sample: number 1 must be a whole number")
        holds(message_of(d.sample, d, { 0.5 }), row.name .. ": sample: ")
        holds(message_of(d.expand, d, { 0.5 }), row.name .. ": expand: ")
      end)
    end)
  end
end

it("events of size 0 have density 1", function()
  local empty, matrix = pn.zeros { 0 }, pn.zeros { 0, 0 }
  for _, d in ipairs {
    dist.multivariate_normal { loc = empty, scale_tril = matrix },
    dist.multivariate_student_t { df = 3, loc = empty, scale_tril = matrix },
    dist.low_rank_multivariate_normal { loc = empty, cov_factor = pn.zeros { 0, 2 }, cov_diag = empty },
  } do
    assert.same({ 0, 0, 0 }, d:log_prob(d:sample { 3 }):abs():totable())
  end
end)

it("refuses ends of an interval in the wrong order and powers that are no numbers", function()
  holds(message_of(dist.biject_to, "interval", 2, 1), "biject_to: high - low must be positive, got -1")
  local factor = dist.natural.scalar(0, 1)
  holds(message_of(dist.natural.tempered, factor, factor, "x"), "tempered: t must be a number or a tensor, got string")
end)

it("draws counts of more trials than 2^53", function()
  for _, n in ipairs { 2 ^ 60, 1e300 } do
    local x = dist.binomial({ total_count = number(n), probs = number(0.25) }):sample { 1000 }
    local z = (x / n - 0.25):abs():max():item()
    assert(z <= 8 * math.sqrt(0.25 * 0.75 / n), z)
  end
end)

it("refuses laws of no classes", function()
  for _, name in ipairs { "categorical", "one_hot_categorical" } do
    holds(message_of(dist[name], { logits = pn.zeros { 0 } }), name .. ": logits must be ")
    holds(message_of(dist[name], { probs = pn.zeros { 0 } }), name .. ": probs must be ")
  end
end)
