-- The battery of the estimators: every row against values and gradients from the papers' formulas, in both dtypes,
-- replayed, and on what must be refused.
local pn = require "penumbra"
local golden = dofile "spec/golden/infer/estimators.lua"

local rows = {}
for _, row in ipairs(pn.rows()) do
  if row.kind == "estimator" then rows[#rows + 1] = row end
end

-- Inputs as parameters, and the arguments of the call by name.
local function inputs(case, dtype)
  local params, args = {}, {}
  for name, value in pairs(case.inputs) do
    params[name] = pn.param(pn.tensor(value, { dtype = dtype or "float64" }))
    args[name] = params[name]
  end
  for name, value in pairs(case.options) do args[name] = value end
  return params, args
end

local function close(got, want, limit, what)
  want = pn.tensor(want)
  got = got:to "float64"
  assert.same(want:shape(), got:shape())
  local same = got:eq(want) -- infinite ones
  local off = pn.where(same, 0, (got - want):abs() - want:abs() * limit):max():item()
  assert(off <= limit, ("%s is off by %.3g"):format(what, off))
end

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

describe("estimator", function()
  it("rows have golden values each", function()
    local seen = {}
    for _, case in ipairs(golden) do seen[case.row] = true end
    for name in pairs(golden.path) do seen[name] = true end
    for _, row in ipairs(rows) do assert(seen[row.name], row.name) end
  end)

  for k, case in ipairs(golden) do
    local name = case.row .. " (" .. k .. ")"
    local f = pn.infer[case.row]
    it(name .. " has the value and the gradient of its paper", function()
      for dtype, limit in pairs { float64 = 1e-12, float32 = 1e-5 } do
        local params, args = inputs(case, dtype)
        local y, second = f(args)
        assert.equal(dtype, y:dtype())
        if case.row == "psis" and dtype == "float32" then limit = 1e-3 end -- the fit's digits
        close(y, case.value, limit, "value")
        assert.equal(case.second ~= nil, second ~= nil)
        if second then close(second, case.second, limit, "second result") end
        for input, want in pairs(case.gradients) do
          close(pn.grad(y, { params[input] })[1], want, limit, "gradient by " .. input)
        end
      end
    end)

    it(name .. " replays to the same bits", function()
      local params, args = inputs(case)
      local names, given = {}, {}
      for input in pairs(case.inputs) do
        names[#names + 1] = input
        given[#given + 1] = params[input]:detach()
      end
      local function step(...)
        local now, leaves = {}, {}
        for key, value in pairs(args) do now[key] = value end
        for i, x in ipairs { ... } do
          -- a parameter of zeros below each input, so that gradients exist
          now[names[i]] = x + params[names[i]] * 0
          leaves[i] = now[names[i]]
        end
        local y, second = f(now)
        local g = next(case.gradients) and pn.grad(y, leaves) or { second }
        return y, table.unpack(g)
      end
      local compiled = pn.compile(step)
      compiled(table.unpack(given))
      for i, x in ipairs(given) do given[i] = x * 1.25 - 0.5 end
      local want, got = table.pack(step(table.unpack(given))), table.pack(compiled(table.unpack(given)))
      assert.equal(want.n, got.n)
      for i = 1, want.n do assert.is_true(got[i]:eq(want[i]):all():item()) end
    end)
  end
end)

describe("the gradient through draws", function()
  local path = golden.path
  for _, name in ipairs { "sticking_the_landing", "dreg" } do
    local f, want = pn.infer[name], path[name]
    local function densities(dtype, p)
      local e = pn.tensor(path.noise, { dtype = dtype })
      local z = p.a * e + p.b
      local log_q = ((z - p.b) / p.a) ^ 2 * -0.5 - p.a:log()
      return (z - p.theta) ^ 2 * -0.5, log_q, z
    end
    local function params(dtype)
      local p = {}
      for _, key in ipairs { "a", "b", "theta" } do p[key] = pn.param(pn.full({}, path[key], { dtype = dtype })) end
      return p
    end
    it("of " .. name .. " is its paper's, replayed too", function()
      for dtype, limit in pairs { float64 = 1e-12, float32 = 1e-5 } do
        local p = params(dtype)
        local function step()
          local y = f(densities(dtype, p))
          return y, table.unpack(pn.grad(y, { p.a, p.b, p.theta }))
        end
        local got = { step() }
        close(got[1], want.value, limit, "value")
        for k, key in ipairs { "a", "b", "theta" } do close(got[k + 1], want.gradients[key], limit, key) end
        local compiled = pn.compile(step)
        compiled()
        for k, t in ipairs { compiled() } do assert.equal(got[k]:item(), t:item()) end
      end
    end)
    it("of " .. name .. " takes several latents, each by itself", function()
      local p = params "float64"
      local log_p, log_q, z = densities("float64", p)
      local z2 = p.a * pn.tensor(path.noise):unsqueeze(3) * 2 -- [K, B, 1]
      log_p, log_q = log_p - (z2 ^ 2):sum(3), log_q - (z2 ^ 3):sum(3)
      local both = pn.grad(f(log_p, log_q, { z, z2 }), { p.a, p.theta })
      local joint = pn.stack({ z, z2:squeeze(3) }, 3)
      local a, b = joint:select(3, 1), joint:select(3, 2)
      local lp = (a - p.theta) ^ 2 * -0.5 - b ^ 2
      local lq = ((a - p.b) / p.a) ^ 2 * -0.5 - p.a:log() - b ^ 3
      local one = pn.grad(f(lp, lq, joint), { p.a, p.theta })
      for k = 1, 2 do close(both[k], one[k]:item(), 1e-12, "gradient") end
    end)
    it("of " .. name .. " takes latents that are computed from others", function()
      local p = params "float64"
      local e = pn.tensor(path.noise)
      local compiled = pn.compile(function(noise)
        local first = p.a * noise + p.b
        local second = p.b * first + noise ^ 2
        local log_q = ((first - p.b) / p.a) ^ 2 * -0.5 - p.a:log() - (second - p.b * first) ^ 2 * 0.4
        local y = f((first - p.theta) ^ 2 * -0.5 - second ^ 2, log_q, { second, first })
        return y, table.unpack(pn.grad(y, { p.a, p.b, p.theta }))
      end)
      local once, again = { compiled(e) }, { compiled(e) } -- captured while computed, then replayed
      for k = 1, 4 do assert.equal(once[k]:item(), again[k]:item()) end
      -- q: z1 = b + a e, z2 = b z1 + e', z3 = z1 z2 a + e''; and the same densities with q's parameters held
      local z1 = p.a * e + p.b
      local z2 = p.b * z1 + e ^ 2
      local z3 = z1 * z2 * p.a + e * 0.5
      local log_p = (z1 - p.theta) ^ 2 * -0.5 - (z2 - z1:sin()) ^ 2 - (z3 * p.theta - z2) ^ 2 * 0.3
      local function log_q(a, b)
        return ((z1 - b) / a) ^ 2 * -0.5 - a:log() - (z2 - b * z1) ^ 2 * 0.4 - (z3 - z1 * z2 * a) ^ 4
      end
      local held = log_p - log_q(p.a:detach(), p.b:detach())
      local weight = name == "dreg" and pn.infer.normalised_weights(held:detach()) or pn.full({ 4, 3 }, 0.25)
      local factor = name == "dreg" and weight ^ 2 or weight
      local by_q = pn.grad((factor * held):sum(1):mean(), { p.a, p.b })
      local by_p = pn.grad((weight * held):sum(1):mean(), { p.theta })[1]
      for _, list in ipairs { { z1, z2, z3 }, { z3, z1, z2 } } do
        local got = pn.grad(f(log_p, log_q(p.a, p.b), list), { p.a, p.b, p.theta })
        close(got[1], by_q[1]:item(), 1e-10, "a")
        close(got[2], by_q[2]:item(), 1e-10, "b")
        close(got[3], by_p:item(), 1e-10, "theta")
      end
    end)
    it("of " .. name .. " wants a density of the draws", function()
      local p = params "float64"
      local log_p, log_q, z = densities("float64", p)
      assert.matches(name .. ": log_q must be computed from z", message_of(f, log_p, log_q:detach() + p.a, z))
      assert.matches(name .. ": z must list each latent once, got latent 1 again as 2",
        message_of(f, log_p, log_q, { z, z }))
      assert.matches(name .. ": z may hold at most 8 tensors, got 9",
        message_of(f, log_p, log_q, { z, z, z, z, z, z, z, z, z }))
      assert.matches(name .. ": z must be a tensor, got string", message_of(f, log_p, log_q, { z, "z" }))
      assert.is_number(pn.no_grad(function() return f(log_p, log_q, z) end):item())
      assert.is_number(f(log_p, log_q, z:detach()):item())
      assert.matches(name .. ": z must have at least 2 axes", message_of(f, log_p, log_q, pn.zeros { 3 }))
    end)
  end
end)

describe("bounds that are the integrand's own", function()
  it("have gradients of gradients", function()
    pn.seed(21)
    local w = pn.param(pn.randn { 4, 3 })
    local x, y = pn.randn { 4, 3 }, pn.randn { 4, 3 }
    local ways = {
      elbo = function(log_w) return pn.infer.elbo(log_w, y) end,
      iwae = function(log_w) return pn.infer.iwae(log_w) end,
      renyi = function(log_w) return pn.infer.renyi(log_w, { alpha = -0.5 }) end,
      near = function(log_w) return pn.infer.renyi(log_w, { alpha = 1 - 1e-6 }) end,
      cubo = function(log_w) return pn.infer.cubo(log_w) end,
      weights = function(log_w) return (pn.infer.normalised_weights(log_w) * x):sum() end,
      size = function(log_w) return pn.infer.effective_sample_size(log_w):sum() end,
    }
    for name, f in pairs(ways) do
      assert(pn.check_gradients(function() return f(w ^ 3 * 0.3 + w * x) end, { w }, { order = 2 }), name)
    end
  end)
end)

describe("log-weights", function()
  local inf = math.huge
  it("of -inf have no gradient; a datum of them alone has the value -inf", function()
    local w = pn.param(pn.tensor { { 0.5, -inf }, { -inf, -inf } })
    local y = pn.infer.iwae(w)
    assert.equal(-inf, y:item())
    assert.same({ { 0.5, 0 }, { 0, 0 } }, pn.grad(y, { w })[1]:totable())
    local p = pn.param(pn.tensor { { 1.0, -inf }, { 2, 3 } })
    local z = pn.infer.elbo(p, pn.zeros { 2, 2 })
    assert.equal(-inf, z:item())
    assert.same({ { 0.25, 0 }, { 0.25, 0.25 } }, pn.grad(z, { p })[1]:totable())
    local graph = pn.grad(pn.infer.elbo(p, pn.zeros { 2, 2 }), { p }, { create_graph = true })[1]
    assert.same({ { 0.25, 0 }, { 0.25, 0.25 } }, graph:totable())
    local zero = pn.param(pn.zeros { 2, 2 })
    local replayed = pn.compile(function(t)
      local leaf = t + zero
      return pn.grad(pn.infer.elbo(leaf, pn.zeros { 2, 2 }), { leaf })[1]
    end)
    replayed(pn.zeros { 2, 2 })
    assert.same({ { 0.25, 0 }, { 0.25, 0.25 } }, replayed(pn.tensor { { 1, -inf }, { 2, 3 } }):totable())
    for _, alpha in ipairs { -1, 0, 0.5, 1 - 1e-7, 1, 1 + 1e-7, 1.5 } do
      local v = pn.param(pn.tensor { { 0.5, -inf, 1 }, { -inf, -inf, 2 } })
      local b = pn.infer.renyi(v, { alpha = alpha })
      assert.equal(-inf, b:item())
      local g = pn.grad(b, { v })[1]:totable()
      assert.same({ 0, 0, 0, 0 }, { g[2][1], g[1][2], g[2][2], g[2][1] })
      assert(math.abs(g[1][3] + g[2][3] - 1 / 3) < 1e-9)
    end
    for name, f in pairs { score = pn.infer.score_function, vimco = pn.infer.vimco,
      wake = pn.infer.reweighted_wake_sleep } do
      local lp = pn.param(pn.tensor { { 0.5, -inf, 1 }, { -inf, -inf, 2 } })
      local lq = pn.param(pn.zeros { 2, 3 })
      for _, t in ipairs(pn.grad(f(lp, lq), { lp, lq })) do
        local g = t:totable()
        for _, row in ipairs(g) do
          for _, entry in ipairs(row) do assert(math.abs(entry) < 10, name) end
          assert.equal(0, row[2])
        end
        assert.equal(0, name == "vimco" and 0 or g[2][1])
      end
    end
  end)

  it("of -inf throughout, of NaN and of +inf are named errors, when replayed too", function()
    local bad = { { -inf, "iwae: log_w must not be %-inf throughout, got all 4 draws so" },
      { 0 / 0, "iwae: log_w must be a number, got NaN at draw 1 of datum 1" },
      { inf, "iwae: log_w must be below %+inf, got inf at draw 1 of datum 1" } }
    local compiled = pn.compile(function(w) return pn.infer.iwae(w) end)
    compiled(pn.zeros { 2, 2 })
    for _, case in ipairs(bad) do
      assert.matches(case[2], message_of(pn.infer.iwae, pn.full({ 2, 2 }, case[1])))
      assert.matches(case[2], message_of(compiled, pn.full({ 2, 2 }, case[1])))
    end
    assert.matches("estimator_spec.lua:%d+: elbo: log_p %- log_q must be a number, got NaN at draw 2 of datum 1",
      message_of(pn.infer.elbo, pn.tensor { { 0, 1 }, { 0 / 0, 0 } }, pn.zeros { 2, 2 }))
  end)

  it("must be [K, B]", function()
    assert.matches("iwae: log_w must have 2 axes, got shape %[3%]", message_of(pn.infer.iwae, pn.zeros { 3 }))
    assert.matches("iwae: log_w must be a tensor, got number", message_of(pn.infer.iwae, 1))
    assert.matches("iwae: log_w must not be empty, got shape %[0, 2%]", message_of(pn.infer.iwae, pn.zeros { 0, 2 }))
    assert.matches("elbo: log_q must have shape %[4, 3%], got %[4, 2%]",
      message_of(pn.infer.elbo, pn.zeros { 4, 3 }, pn.zeros { 4, 2 }))
    assert.matches("elbo: tensors must have one dtype, got float64 and float32",
      message_of(pn.infer.elbo, pn.zeros { 3 }, pn.zeros({ 3 }, { dtype = "float32" })))
  end)
end)
