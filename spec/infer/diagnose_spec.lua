--- pn.diagnose: what is planted is found, at its line, and sound models have no problem.
local pn = require "penumbra"
local dist = pn.dist

local here = debug.getinfo(1, "S").short_src

-- The problem of this kind (and site), which must be there, at the line of `f` plus `below` if given.
local function problem(d, kind, site, f, below)
  for _, p in ipairs(d.problems) do
    if p.kind == kind and (site == nil or p.site == site) then
      if f then
        assert.equal(("%s:%d"):format(here, debug.getinfo(f, "S").linedefined + below), p.where)
      end
      return p.message
    end
  end
  error(("no problem '%s' of '%s' in:\n%s"):format(kind, tostring(site), tostring(d)), 2)
end

local function body(m, x, y)
  local w = m:sample("w", dist.normal(pn.zeros { 2 }, 1):independent(1))
  local s = m:sample("s", dist.gamma(2, 2))
  m:plate("rows", x:size(1), { batch_size = 5 }, function(i)
    m:observe("y", dist.normal(x:take(1, i):matmul(w), s), y:take(1, i))
  end)
end

local regression = pn.model(body)
local good = pn.model(function(g)
  g:sample("w", dist.normal(g:param("loc", pn.zeros { 2 }), 0.3):independent(1))
  g:sample("s", dist.log_normal(g:param("log_s", 0), 0.3))
end)

describe("a diagnosis", function()
  local x, y
  before_each(function()
    pn.seed(1)
    x = pn.randn { 20, 2 }
    y = x:matmul(pn.tensor { 1, -2 }) + pn.randn { 20 } * 0.5
  end)

  it("of a sound pair finds nothing and shows sites, ranges and terms", function()
    local d = pn.diagnose(regression, good, { data = { x, y } })
    assert.same({}, d.problems)
    assert.same({ "w", "s", "y" }, { d.sites[1].name, d.sites[2].name, d.sites[3].name })
    assert.equal(4, d.sites[3].scale)
    assert.equal("rows (5 of 20)", d.sites[3].plates)
    assert.is_true(d.gradient.checked == 3 and d.gradient.largest < 1e-6)
    assert.same({ "w", "s", "y" }, { d.terms[1].name, d.terms[2].name, d.terms[3].name })
    local kl = dist.kl(dist.normal(pn.zeros { 2 }, 0.3):independent(1),
      dist.normal(pn.zeros { 2 }, 1):independent(1)):item()
    assert.is_true(math.abs(d.terms[1].value - kl) < 1.5)
    local text = tostring(d)
    for _, word in ipairs { "w +latent +normal +%[2%] +1 +diagnose_spec.lua:%d+",
      "y +observed +normal +%[5%] +rows %(5 of 20%) +4 +diagnose_spec.lua:%d+", "95 %% of the prior predictive",
      "y +log density +%-[%d.]+ +4", "gradient: 3 numbers", "no problem found" } do
      assert.matches(word, text)
    end
    -- a block for each of what it holds, a line for each of its rows
    for n = 1, 2 do
      for k = 1, n do
        d.problems[k] = { kind = "nan", where = "a/b.lua:" .. k, message = "problem " .. k }
        d.advice[k] = { kind = "funnel", where = "", message = "advice " .. k }
      end
      local lines = {}
      for line in (tostring(d) .. "\n"):gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
      local tail = n == 1 and { "1 problem", "  b.lua:1:", "  funnel" }
        or { "2 problems", "  b.lua:1:", "  b.lua:2:", "  funnel", "  funnel" }
      for k, word in ipairs { "site", "w", "s", "y", "", "observed", "y", "", "term", "w", "s", "y", "", "gradient: 3",
        "", table.unpack(tail) } do
        assert.equal(word, lines[k]:sub(1, #word), k)
      end
      assert.equal(15 + #tail, #lines)
    end
    for _, word in ipairs { "b.lua:2: nan: problem 2", "  funnel %(advice%): advice 2" } do
      assert.matches(word, tostring(d))
    end
    assert.same({}, pn.diagnose(regression, "mean_field", { data = { x, y } }).problems)
    assert.same({}, pn.diagnose(regression, { data = { x, y } }).problems)
  end)

  it("finds what guide and model lack, and other shapes, plates and supports", function()
    local function guide(g)
      g:sample("w", dist.normal(pn.zeros { 3 }, 1):independent(1))
      g:sample("v", dist.normal(0, 1))
      g:sample("y", dist.normal(0, 1))
    end
    local d = pn.diagnose(regression, pn.model(guide), { data = { x, y } })
    assert.matches("'w' has shape %[3%] in the guide, %[2%] in the model at .-diagnose_spec.lua:%d+",
      problem(d, "shape", "w", guide, 1))
    assert.matches("the guide samples 'v', which the model does not have", problem(d, "missing", "v", guide, 2))
    assert.matches("the guide samples 'y', which the model observes", problem(d, "missing", "y", guide, 3))
    assert.matches("the model samples 's', which the guide does not have", problem(d, "missing", "s", body, 2))
    local function supports(g)
      g:sample("w", dist.gamma(pn.ones { 2 }, 1):independent(1))
      g:sample("s", dist.normal(0, 1))
    end
    d = pn.diagnose(regression, pn.model(supports), { data = { x, y } })
    assert.matches("the guide's gamma for 'w' %(support: positive%) never reaches all",
      problem(d, "support", "w", supports, 1))
    assert.matches("the guide draws 's' from normal %(support: real%), which has values outside of that of the model's "
      .. "gamma", problem(d, "support", "s", supports, 2))
    local rows = pn.model(function(m)
      m:plate("rows", 20, { batch_size = 5 }, function(i)
        m:observe("y", dist.normal(m:sample("z", dist.normal(0, 1)), 1), y:take(1, i))
      end)
    end)
    local function outside(g)
      g:sample("z", dist.normal(pn.zeros { 5 }, 1))
    end
    d = pn.diagnose(rows, pn.model(outside))
    assert.matches("'z' is in no plate in the guide and in plate rows %(5 of 20%) .- count 1 and 4 times",
      problem(d, "plate", "z", outside, 1))
    assert.matches("the guide's 'z' is discrete %(poisson%), the model's at", problem(pn.diagnose(rows, pn.model(
      function(g) g:plate("rows", 20, { batch_size = 5 }, function() g:sample("z", dist.poisson(1)) end) end)),
      "support", "z"))
  end)

  it("finds where a NaN is born", function()
    local function by_log(m)
      local a = m:sample("a", dist.normal(-3, 0.1))
      local b = a:exp() - 1
      local c = b:log()
      m:factor("f", c + b)
    end
    local d = pn.diagnose(pn.model(by_log))
    assert.matches("the log density of 'f' is NaN", problem(d, "nan", "f", by_log, 4))
    local births = {}
    for _, p in ipairs(d.problems) do
      births[#births + 1] = p.message:find "gives NaN" and p or nil
    end
    assert.equal(1, #births)
    assert.matches("^log: gives NaN", births[1].message)
    assert.equal(("%s:%d"):format(here, debug.getinfo(by_log, "S").linedefined + 3), births[1].where)
    local function in_law(m)
      local s = m:sample("s", dist.normal(-3, 0.1))
      local t = s:sqrt()
      m:observe("y", dist.normal(t, 1), 0)
    end
    d = pn.diagnose(pn.model(in_law))
    assert.matches("normal: loc must be finite", problem(d, "error", nil, in_law, 3))
    assert.matches("^sqrt: gives NaN", problem(d, "nan", nil, in_law, 2))
    d = pn.diagnose(pn.model(function(m) m:observe("y", dist.normal(0, 1), 0 / 0) end))
    assert.matches("the log density of 'y' is NaN: what is observed has NaN", problem(d, "nan", "y"))
    d = pn.diagnose(pn.model(function(m)
      local a = m:sample("a", dist.normal(0, 1))
      m:factor("f", (a - a):sqrt())
    end))
    assert.matches("the gradient of the log density has NaN: the derivative of 'sqrt'", problem(d, "nan"))
  end)

  it("finds a gradient that is not the derivative", function()
    local function detached(m)
      local a = m:sample("a", dist.normal(0, 1))
      m:observe("y", dist.normal(a:detach() * 3, 1), 1)
    end
    local d = pn.diagnose(pn.model(detached))
    assert.matches("the gradient by number 1 of 'a' is .-, by differences", problem(d, "gradient", "a", detached, 1))
    assert.is_true(d.gradient.largest > 1e-2)
  end)

  it("finds data that the prior does not reach, and priors that are far too wide", function()
    local d = pn.diagnose(regression, { data = { x, y * 1000 } })
    assert.matches("values of 'y' lie outside of all of 100 prior predictive draws", problem(d, "prior", "y", body, 4))
    assert.equal(1, #d.ranges)
    d = pn.diagnose(pn.model(function(m)
      m:observe("y", dist.normal(m:sample("a", dist.normal(0, 1e6)), 1):expand { 3 }, pn.tensor { 0, 1, 2 })
    end))
    assert.matches("is over 1000 times as wide as the data", problem(d, "prior", "y"))
  end)

  it("reports what the functions raise, with its line", function()
    local function twice(m)
      m:sample("a", dist.normal(0, 1))
      return m:sample("a", dist.normal(0, 1))
    end
    assert.matches("model: sample: there is a site 'a' already", problem(pn.diagnose(pn.model(twice)), "error", nil,
      twice, 2))
    local function outside(m)
      m:sample("a", dist.normal(0, 1))
      return m:observe("y", dist.gamma(1, 1), -1)
    end
    assert.matches("model: observe: 'y' has values outside of the support of gamma", problem(pn.diagnose(
      pn.model(outside)), "error", nil, outside, 2))
    local function wrong(g)
      return g:sample("s", 3)
    end
    assert.matches("guide: sample: 's' needs a distribution, got number", problem(pn.diagnose(regression,
      pn.model(wrong), { data = { x, y } }), "error", nil, wrong, 1))
    local zero = pn.diagnose(pn.model(function(m, v)
      m:observe("u", dist.uniform(0, m:sample("a", dist.gamma(2, 2))), v)
    end), { data = { 50 } })
    assert.matches("1 of 1 values of 'u' have density 0 under uniform", problem(zero, "support", "u"))
  end)

  -- log q - log p of uniform laws is a constant
  it("has the terms of the bound, each by its plate's scale", function()
    local data = pn.tensor { 0.5, 1, 1.5, 2, 2.5, 3 }
    local m = pn.model(function(m)
      m:sample("a", dist.uniform(0, 2))
      m:plate("rows", 6, { batch_size = 2 }, function(i)
        m:sample("b", dist.uniform(0, 4))
        m:observe("y", dist.uniform(0, 8), data:take(1, i))
      end)
      m:factor("f", 0.25)
    end)
    local d = pn.diagnose(m, pn.model(function(g)
      g:sample("a", dist.uniform(0, 1))
      g:plate("rows", 6, { batch_size = 2 }, function() g:sample("b", dist.uniform(pn.zeros { 2 }, 1)) end)
    end))
    local want = { { "a", "divergence", math.log(2), 1 }, { "b", "divergence", 6 * math.log(4), 3 },
      { "y", "log density", -6 * math.log(8), 3 }, { "f", "log density", 0.25, 1 } }
    assert.equal(4, #d.terms)
    for k, row in ipairs(want) do
      local term = d.terms[k]
      assert.same({ row[1], row[2], row[4] }, { term.name, term.kind, term.scale })
      assert.is_true(math.abs(term.value - row[3]) < 1e-9, term.name)
      assert.matches("diagnose_spec.lua:%d+$", term.where)
    end
    assert.is_nil(d.model_run)
    assert.is_nil(d.guide_run)
  end)

  it("says of each site what it is", function()
    local d = pn.diagnose(pn.model(function(m)
      m:sample("z", dist.bernoulli(0.3), { enumerate = true })
      m:sample("k", dist.poisson(2))
      local c = m:flat("c", "half_line", { 2 }, { low = 0 })
      assert(c:log():abs():max():item() <= 2)
      m:plate("all", 3, function() m:sample("w", dist.normal(0, 1)) end)
      m:observe("y", dist.normal(0, 1), 0.5)
      m:deterministic("t", 2)
    end))
    local kinds = {}
    for _, site in ipairs(d.sites) do
      kinds[site.name] = { site.kind, site.law, table.concat(site.shape, ",") }
      assert.equal(site.name == "w" and "all" or "", site.plates)
    end
    assert.same({ "enumerated", "bernoulli" }, { kinds.z[1], kinds.z[2] })
    assert.same({ "latent", "poisson", "" }, kinds.k)
    assert.same({ "flat", "half_line", "2" }, kinds.c)
    assert.same({ "observed", "normal", "" }, kinds.y)
    assert.same({ "deterministic", "", "" }, kinds.t)
    assert.is_nil(d.gradient) -- a discrete variable is sampled
    assert.same({}, d.problems)
  end)

  it("compares at most twenty numbers of the gradient, and says which is wrong", function()
    local function wide(n, off)
      return pn.diagnose(pn.model(function(m)
        local a = m:sample("a", dist.normal(pn.zeros { n }, 1):independent(1))
        local b = m:sample("b", dist.normal(pn.zeros { 3 }, 1):independent(1))
        m:factor("f", (b:slice(1, 2, 2):detach() * off * 5 + a:slice(1, 1, 1)):sum())
      end))
    end
    for n, checked in pairs { [16] = 19, [17] = 20, [40] = 20 } do
      local d = wide(n, 0)
      assert.equal(checked, d.gradient.checked)
      assert.is_true(d.gradient.largest < 1e-6)
      assert.same({}, d.problems)
    end
    local d = wide(4, 1)
    assert.equal(1, #d.problems)
    assert.matches("the gradient by number 2 of 'b' is [-%d.]+, by differences [-%d.]+", problem(d, "gradient", "b"))
  end)

  it("looks for data beyond all draws of the prior, a twentieth of them at least", function()
    local function of(values, options, law)
      return pn.diagnose(pn.model(function(m)
        m:observe("y", law or dist.normal(0, 1):expand { #values }, pn.tensor(values))
      end), options)
    end
    local values = {}
    for k = 1, 20 do values[k] = k / 20 end
    values[20] = 50
    local d = of(values)
    assert.same({}, d.problems)
    assert.same({ 0.05, 50 }, d.ranges[1].data)
    local low, high = table.unpack(d.ranges[1].predicted)
    assert.is_true(math.abs(low + 1.96) < 0.35 and math.abs(high - 1.96) < 0.35) -- of 2,000 draws
    values[1] = -50
    assert.matches("2 of 20 values of 'y' lie outside of all of 7 prior predictive draws", problem(of(values,
      { draws = 7 }), "prior", "y"))
    -- the middle 95 % leave out values of 2 % at an end, and not those of 3 %
    for k, probs in ipairs { { 0.03, 0.95, 0.02 }, { 0.02, 0.95, 0.03 } } do
      d = pn.diagnose(pn.model(function(m)
        m:observe("y", dist.categorical(pn.tensor(probs):broadcast_to { 200, 3 }), pn.arange(200) % 3)
      end))
      assert.same({ { 0, 2 }, { k - 1, k } }, { d.ranges[1].data, d.ranges[1].predicted })
      assert.same({}, d.problems)
    end
    -- uniform(0, w): the middle 95 % is 0.95 w wide, the data 1
    for w, found in pairs { [1000] = 0, [1110] = 1 } do
      local list = {}
      for k = 1, 200 do list[k] = 1 + k % 2 end
      d = of(list, nil, dist.uniform(0, w):expand { 200 })
      assert.equal(found, #d.problems)
    end
    assert.equal(0, #of({ 3, 3, 3 }, nil, dist.uniform(-1e9, 1e9):expand { 3 }).problems)
  end)

  it("advises against scales that depend on other variables, and not of others", function()
    local function funnel(m)
      local s = m:sample("s", dist.half_normal(1))
      local mu = m:sample("mu", dist.normal(0, 1))
      m:sample("x", dist.normal(mu, s))
      m:sample("u", dist.normal(mu, 1))
      m:sample("v", dist.log_normal(mu, s))
      m:observe("y", dist.normal(mu, s), 0.5)
    end
    local d = pn.diagnose(pn.model(funnel))
    assert.equal(1, #d.advice)
    assert.same({ "funnel", "x" }, { d.advice[1].kind, d.advice[1].site })
    assert.matches("the scale of 'x' depends on 's': where", d.advice[1].message)
    assert.equal(("%s:%d"):format(here, debug.getinfo(funnel, "S").linedefined + 3), d.advice[1].where)
  end)

  it("suggests names, and stops where guide and model do not fit", function()
    local d = pn.diagnose(pn.model(function(m) m:sample("rate", dist.normal(0, 1)) end),
      pn.model(function(g) g:sample("rats", dist.normal(0, 1)) end))
    assert.matches("the guide samples 'rats', which the model does not have, did you mean 'rate'%?",
      problem(d, "missing", "rats"))
    assert.matches("the model samples 'rate', which the guide does not have, did you mean 'rats'%?",
      problem(d, "missing", "rate"))
    assert.same({}, d.terms)
    d = pn.diagnose(pn.model(function(m)
      if m:sample("a", dist.normal(0, 1)):item() > 5 then error "far" end
    end), pn.model(function(g) g:sample("a", dist.normal(50, 1)) end))
    assert.matches("^model on the guide's draws: .*far", problem(d, "error"))
    assert.same({}, d.terms)
    assert.matches("diagnose: needs a model", select(2, pcall(pn.diagnose, {})))
  end)

  it("leaves draws without trap, and refuses wrong arguments", function()
    pn.diagnose(pn.model(function(m) m:factor("f", pn.tensor(-1):log()) end))
    assert.is_true(pn.tensor(-1):log():isnan():item())
    local function refused(pattern, ...)
      local args, at = table.pack(...), debug.getinfo(1, "l").currentline + 1
      local _, message = pcall(function() return pn.diagnose(table.unpack(args, 1, args.n)) end)
      assert.matches(("^%s:%d: "):format(here:gsub("%p", "%%%0"), at), message)
      assert.matches(pattern, message)
    end
    refused("diagnose: needs a model %(pn.model%), got number", 3)
    refused("diagnose: unknown option 'dta', did you mean 'data'", regression, good, { dta = {} })
    refused("diagnose: guide must be a model, a guide of pn.infer.guide or the name of one", regression, 3,
      { data = { x, y } })
    refused("guide: there is no guide 'meanfield'", regression, "meanfield", { data = { x, y } })
  end)
end)
