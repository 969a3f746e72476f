-- A divergence is infinite where the first law has mass outside the support of the second: told from draws of the
-- first, of all pairs of rows that share an event, and from the ends of supports that are parameters.
local pn = require "penumbra"
local assert = require "luassert"

local dist = pn.dist
local DRAWS, CASES = 200, 4

-- Inside its support a law may have probability 0 too: that is the formulas' matter.
local function has_zero(probs)
  return type(probs) == "table" and pn.tensor(probs):eq(0):any():item()
end

-- The distributions that a row's golden values are of.
local laws = {}
for _, row in ipairs(pn.rows()) do
  if row.kind == "distribution" then
    for k, case in ipairs((require("spec.golden.distribution." .. row.name)).cases) do
      if k <= CASES then
        local ok, d = pcall(dist[row.name], case.params)
        if ok and #d.batch_shape == 0 and not has_zero(case.params.probs) then
          laws[#laws + 1] = { name = row.name, d = d }
        end
      end
    end
  end
end
local more = {
  dist.uniform(-2, -1), dist.uniform(0.2, 0.7), dist.uniform(3, 9), dist.pareto(0.1, 3), dist.pareto(4, 2),
  dist.truncated_normal { low = 0.3, high = 0.6 }, dist.truncated_normal { low = 2 },
  dist.truncated_normal { high = -1 }, dist.log_uniform(0.3, 0.5), dist.log_uniform(5, 7),
  dist.binomial(1, 0.5), dist.binomial(9, 0.5), dist.beta_binomial(1, 2, 3), dist.beta_binomial(12, 2, 3),
  dist.delta(1), dist.delta(0.4), dist.empirical { 0, 1 }, dist.empirical { 0.5, 2 },
  dist.zero_inflated_poisson(1, 2), dist.multinomial(1, { 0.2, 0.5, 0.3 }),
  dist.categorical { probs = { 0.3, 0.3, 0.4 } },
}
for _, d in ipairs(more) do
  laws[#laws + 1] = { name = d.name, d = d }
end

local function key(shape)
  return table.concat(shape, "x")
end

-- Has the first mass outside? Draws tell.
local function some_outside(p, q)
  if q.d.support:find "^real" then
    return false -- a density so small that its logarithm overflows
  elseif p.name == "categorical" and q.name == "categorical" and #p.d.probs:totable() ~= #q.d.probs:totable() then
    return false -- refused as shapes that differ are
  end
  local ok, lp = pcall(q.d.log_prob, q.d, p.draws)
  if not ok then -- labels and numbers
    lp = q.d:log_prob(p.draws:to(p.draws:dtype() == "int64" and "float64" or "int64"))
  end
  return lp:eq(-math.huge):any():item()
end

describe("supports", function()
  for k, p in ipairs(laws) do
    p.draws = p.d:sample({ DRAWS }, { generator = pn.generator(k) })
  end

  it("that draws leave make the divergence infinite, of every pair", function()
    local wrong, pairs_outside, seen = {}, 0, {}
    for _, p in ipairs(laws) do
      for _, q in ipairs(laws) do
        if key(p.d.event_shape) == key(q.d.event_shape) and some_outside(p, q) then
          pairs_outside = pairs_outside + 1
          seen[p.name .. " " .. q.name] = true
          local ok, kl = pcall(dist.kl, p.d, q.d)
          if not ok or kl:item() ~= math.huge then
            wrong[#wrong + 1] = ("%s and %s: %s"):format(tostring(p.d), tostring(q.d), ok and kl:item() or kl)
          end
        end
      end
    end
    local count = 0
    for _ in pairs(seen) do
      count = count + 1
    end
    assert(pairs_outside > 2000 and count > 500, ("only %d of %d pairs of rows"):format(pairs_outside, count))
    assert(#wrong == 0, ("%d of %d: %s"):format(#wrong, pairs_outside, table.concat(wrong, "\n")))
  end)

  it("with ends that are parameters are compared element by element", function()
    local kl = dist.kl(dist.uniform({ 0.2, 0.2, 1 }, { 0.5, 2, 3 }), dist.uniform({ 0, 0, 0 }, 1)):totable()
    assert(kl[1] < math.huge and kl[2] == math.huge and kl[3] == math.huge)
    assert.equal(math.huge, dist.kl(dist.gamma(2, 1), dist.pareto(1, 2)):item())
    assert.equal(math.huge, dist.kl(dist.normal(5, 1), dist.pareto(1, 2)):item())
    assert.equal(math.huge, dist.kl(dist.horseshoe(1), dist.pareto(1, 2)):item())
    assert.equal(math.huge, dist.kl(dist.pareto(1, 2), dist.beta(1, 1)):item())
    assert.same({ math.huge, math.huge }, dist.kl(dist.uniform({ 2, 3 }, { 4, 9 }), dist.von_mises(0, 1)):totable())
    local scale = pn.param(2.0)
    local kl_of_two = dist.kl(dist.uniform({ 1, 3 }, { 4, 5 }), dist.pareto(scale, 2))
    assert(not pn.grad(kl_of_two:sum(), { scale })[1]:isnan():item())
  end)

  it("are compared anew when a function replays", function()
    local f = pn.compile(function(high) return dist.kl(dist.uniform(0.1, high), dist.von_mises(0, 1)) end)
    assert.equal(math.huge, f(pn.tensor(4)):item())
    assert.equal(math.huge, f(pn.tensor(5)):item())
    local ok, message = pcall(f, pn.tensor(2))
    assert(not ok and message:find("kl: there is no closed form for uniform and von_mises", 1, true), message)
  end)
end)
