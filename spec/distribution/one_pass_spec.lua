-- Densities that are one operation: gradients by their own kernel against those by builders, shapes that broadcast,
-- strides, values outside the support, extreme parameters.
local pn = require "penumbra"
local assert = require "luassert"

local dist = pn.dist

local function near(got, want, rel, what)
  got = got:contiguous():reshape{-1}:totable()
  want = pn.is_tensor(want) and want:contiguous():reshape{-1}:totable() or want
  assert(#got == #want, ("%s: %d numbers, expected %d"):format(what, #got, #want))
  for i, w in ipairs(want) do
    local g = got[i]
    assert(g == w or (g ~= g and w ~= w) or math.abs(g - w) <= rel * math.abs(w),
      ("%s: number %d is %.17g, expected %.17g"):format(what, i, g, w))
  end
end

-- name, parameters in order, points, the dtype that can hold them if only one can
local laws = {
  {"normal", {0.3, 1.7}, {-2, 0.3, 5, 1e200}},
  {"half_normal", {1.7}, {0, 0.4, 30}},
  {"cauchy", {0.3, 1.7}, {-2, 0.3, 0.1, 2.0, 5, -1e9, 1e160, 1e300}},
  {"half_cauchy", {0.4}, {0, 0.1, 0.4, 7, 1e200}},
  {"laplace", {0.3, 1.7}, {-2, 0.31, 5}},
  {"logistic", {0.3, 1.7}, {-900, -2, 0.3, 5, 1e9}},
  {"gumbel", {0.3, 1.7}, {-20, -2, 0.3, 5, 1e9}},
  {"von_mises", {0.3, 4.2}, {-3, -0.5, 0.3, 3.1}},
  {"von_mises", {-40, 25}, {-3, -0.5, 0.3, 3.1}},
  {"uniform", {-1, 2.5}, {-1, 0.1, 2.5, 3, -7}},
  {"log_uniform", {0.2, 2.5}, {0.2, 0.3, 2.5, 3, -7}},
  {"log_uniform", {1e-200, 1e200}, {1e-100, 1, 1e150}, "float64"},
  {"log_normal", {0.3, 1.7}, {1e-9, 0.3, 5}},
  {"negative_binomial", {2.5, 0.4}, {0, 1, 40, 300}},
  {"gamma_poisson", {300.5, 0.4}, {0, 1, 40, 300}},
  {"poisson", {4.5}, {0, 1, 40, 300}},
}

local counts = {negative_binomial = true, gamma_poisson = true, poisson = true}

local function leaves(law, dtype)
  local o, list = {dtype = dtype}, {}
  for k, v in ipairs(law[2]) do list[k] = pn.param(pn.tensor(v, o)) end
  return list, pn.param(pn.tensor(law[3], o))
end

describe("a density in one pass", function()
  it("has the same gradients with and without a graph", function()
    for _, law in ipairs(laws) do
      for _, dtype in ipairs(law[4] and {law[4]} or {"float64", "float32"}) do
        local list, x = leaves(law, dtype)
        if dtype == "float32" then x = pn.param(x:clamp(-1e15, 1e15):detach()) end
        local weights = pn.tensor({table.unpack({0.5, -1, 2, 3, 0.25, 1, 1, 1}, 1, #law[3])}, {dtype = dtype})
        local wanted = {x, table.unpack(list)}
        local function loss() return (dist[law[1]](table.unpack(list)):log_prob(x) * weights) end
        local inside = loss():detach():isfinite()
        local function total() return pn.where(inside, loss(), pn.zeros({}, {dtype = dtype})):sum() end
        local own, built = pn.grad(total(), wanted), pn.grad(total(), wanted, {create_graph = true})
        for k, g in ipairs(own) do
          near(g, built[k]:detach(), dtype == "float64" and 1e-11 or 1e-4, law[1] .. " " .. dtype .. " " .. k)
        end
      end
    end
  end)

  it("broadcasts and takes any strides", function()
    local x = pn.tensor{{0.1, 0.5, 0.9}, {0.2, 1.5, 0.7}}
    for _, law in ipairs(laws) do
      if not counts[law[1]] then
        local p = {}
        for k, v in ipairs(law[2]) do p[k] = k == #law[2] and pn.tensor{v, v + 0.5, v + 1} or pn.tensor(v) end
        local whole = dist[law[1]](table.unpack(p)):log_prob(x)
        local turned = dist[law[1]](table.unpack(p)):log_prob(x:t():contiguous():t())
        near(turned, whole, 0, law[1])
        for i = 1, 2 do
          for j = 1, 3 do
            local one = {table.unpack(law[2])}
            one[#one] = one[#one] + 0.5 * (j - 1)
            near(dist[law[1]](table.unpack(one)):log_prob(x[{i}][{j}]):reshape{1}, {whole[{i}][{j}]:item()}, 0, law[1])
          end
        end
      end
    end
  end)

  it("is -inf outside the support, NaN at NaN, without slopes there", function()
    local nan = 0 / 0
    for name, p in pairs{half_normal = {1.5}, half_cauchy = {1.5}, uniform = {0, 4}, log_uniform = {1, 4},
      poisson = {2.5}, geometric = {0.4}, negative_binomial = {2.5, 0.4}, exponential = {2}} do
      for _, dtype in ipairs{"float64", "float32"} do
        local list = {}
        for k, v in ipairs(p) do list[k] = pn.param(pn.tensor(v, {dtype = dtype})) end
        local d = dist[name](table.unpack(list))
        local x = pn.tensor({-1, 2, nan, 3, -math.huge}, {dtype = dtype})
        local lp = d:log_prob(x)
        local alone = d:log_prob(pn.tensor({2, 3}, {dtype = dtype}))
        local two = alone:detach():totable()
        near(lp:detach(), {-math.huge, two[1], nan, two[2], -math.huge}, 0, name)
        local both = pn.where(pn.tensor{false, true, false, true, false}, lp, pn.zeros({}, {dtype = dtype})):sum()
        local got, want = pn.grad(both, list), pn.grad(alone:sum(), list)
        for k, g in ipairs(got) do near(g, want[k], 1e-6, name) end
      end
    end
  end)

  it("of counts sums to one where its formula changes", function()
    local x, l = pn.arange(900), pn.tensor(0.7)
    for rate = 120, 240, 40 do
      local poisson, total = dist.poisson(rate), 0
      assert.is_true(math.abs(poisson:log_prob(x):exp():sum():item() - 1) < 1e-11)
      for k = rate - 20, rate + 20 do -- neighbours differ by the rate over k, whichever formula they take
        local two = poisson:log_prob(pn.tensor{k - 1, k}):totable()
        total = math.max(total, math.abs(two[2] - two[1] - math.log(rate / k)))
      end
      assert.is_true(total < 2e-12)
      local trials = dist.binomial{total_count = pn.tensor(rate), logits = l}
      assert.is_true(math.abs(trials:log_prob(pn.arange(rate + 1)):exp():sum():item() - 1) < 1e-11)
    end
    for n = 199, 202 do
      local by_logits = dist.binomial{total_count = pn.tensor(n), logits = l}:log_prob(pn.arange(n + 1))
      local by_probs = dist.binomial{total_count = pn.tensor(n), probs = l:sigmoid()}:log_prob(pn.arange(n + 1))
      near(by_logits, by_probs, 1e-11, "binomial of " .. n)
    end
  end)

  it("of negative binomials does not jump where its formula changes", function()
    local r = pn.tensor{199.5 - 40, 199.9999999 - 40, 200.0000001 - 40, 200.5 - 40}
    local lp = dist.negative_binomial{total_count = r, logits = pn.tensor(-1.4)}:log_prob(pn.tensor(40)):totable()
    assert.is_true(math.abs(lp[2] - lp[3]) < 1e-8)
    local whole = dist.negative_binomial{total_count = pn.tensor(160), logits = pn.tensor(-1.4)}
    local x = pn.arange(400)
    assert.is_true(math.abs(whole:log_prob(x):exp():sum():item() - 1) < 1e-12)
  end)
end)

describe("a von Mises density", function()
  -- concentration, angle, log density and its slopes in the concentration and the angle (mpmath)
  local golden = {
    {1e-300, 0.3, -1.8378770664093455, 0.95533648912560602, -2.9552020666133957e-301},
    {1e-300, -2.5, -1.8378770664093455, -0.80114361554693371, 5.9847214410395651e-301},
    {1e-8, 0.3, -1.8378770568559806, 0.95533648412560602, -2.9552020666133957e-9},
    {1e-8, -2.5, -1.8378770744207817, -0.80114362054693371, 5.9847214410395651e-9},
    {0.5, 0.3, -1.4217585410320238, 0.71283687654480408, -0.14776010333066978},
    {0.5, -2.5, -2.2999985933682936, -1.0436432281277357, 0.29923607205197825},
    {9.999, 0.3, -0.22749099758452804, 0.0067419621063897321, -2.9549065464067345},
    {9.999, -2.5, -17.790535564205254, -1.74973814256615, 5.9841229688954613},
    {10.001, 0.3, -0.22747752425782121, 0.0067313653310700244, -2.9554975868200568},
    {10.001, -2.5, -17.79403505108789, -1.7497487393414697, 5.9853199131836686},
    {700, 0.3, -28.908034676928579, -0.04394896969282007, -206.8641446629377},
    {700, -2.5, -1258.4441079477064, -1.8004290743653598, 418.93050087276955},
    {1e6, 0.3, -44657.5220577732, -0.044663010874268977, -295520.20666133956},
    {1e6, -2.5, -1801137.6267303129, -1.8011431155468087, 598472.14410395649},
    {1e300, 0.3, -4.4663510874393979e298, -0.044663510874393977, -2.9552020666133958e299},
    {1e300, -2.5, -1.8011436155469338e300, -1.8011436155469337, 5.9847214410395653e299},
  }

  it("and its slopes hold from flat to needle-sharp", function()
    for _, row in ipairs(golden) do
      local k, x = pn.param(pn.tensor(row[1])), pn.param(pn.tensor(row[2]))
      local lp = dist.von_mises(0, k):log_prob(x)
      local what = ("von_mises of concentration %g at %g"):format(row[1], row[2])
      near(lp:detach():reshape{1}, {row[3]}, 1e-13, what)
      local g = pn.grad(lp, {k, x})
      near(g[1]:reshape{1}, {row[4]}, 1e-12, what)
      near(g[2]:reshape{1}, {row[5]}, 1e-13, what)
    end
  end)
end)

describe("draws of von_mises", function()
  it("fall into parts of the circle as its density says, for small and large concentrations", function()
    local n, parts, fine = 40000, 16, 256 -- masses by the midpoint rule
    local places = ((pn.arange(parts * fine) + 0.5) / (parts * fine) * 2 - 1) * math.pi
    for k, concentration in ipairs { 0.05, 0.4, 1, 1.7, 3, 6 } do
      local mass = ((places:cos() - 1) * concentration):exp():reshape { parts, fine }:sum(2)
      local want = mass / mass:sum() * n
      local x = dist.von_mises(0, concentration):sample({ n }, { generator = pn.generator(k) })
      local part = ((x / math.pi + 1) * (parts / 2)):floor():clamp(0, parts - 1)
      local got = part:unsqueeze(2):eq(pn.arange(parts):to "float64"):to("float64"):sum(1)
      local square = ((got - want):square() / want):sum():item()
      assert(square < 55, ("concentration %g: chi square %g of 15"):format(concentration, square)) -- 1 in 500000
    end
  end)
end)
