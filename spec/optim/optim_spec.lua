-- Optimisers: trajectories against spec/golden/optim/trajectories.py, failed steps, state, options.
local pn = require "penumbra"
local optim = pn.optim
local cases = dofile "spec/golden/optim/trajectories.lua"

local function start(dtype)
  return pn.param(pn.tensor({ -0.5, 0.8 }, { dtype = dtype })), pn.param(pn.tensor({ 0, 2, -3 }, { dtype = dtype }))
end

-- Rosenbrock's function of p plus sum c (q - 1)^2, as in trajectories.py.
local function objective(p, q)
  local x, y = p[1], p[2]
  local c = pn.tensor({ 1, 10, 0.1 }, { dtype = q:dtype() })
  return (1 - x) ^ 2 + 10 * (y - x ^ 2) ^ 2 + (c * (q - 1) ^ 2):sum()
end

local function close(got, want, tolerance)
  for k, v in ipairs(want) do
    local err = math.abs(got[k] - v) / math.max(1, math.abs(v))
    assert(err <= tolerance, ("element %d: got %.17g, want %.17g"):format(k, got[k], v))
  end
end

describe("optimiser", function()
  local covered = {}
  for i, case in ipairs(cases) do
    covered[case.kind] = true
    for dtype, tolerance in pairs { float64 = 1e-12, float32 = 2e-4 } do
      it(("%s follows the reference, case %d in %s"):format(case.kind, i, dtype), function()
        local p, q = start(dtype)
        local opt = optim[case.kind]({ p, q }, case.options)
        for _ = 1, case.steps do
          opt:step(objective(p, q))
        end
        close(p:totable(), case.want[1], tolerance)
        close(q:totable(), case.want[2], tolerance)
      end)
    end
  end

  for _, row in ipairs(pn.rows()) do
    if row.kind == "optimiser" then
      it(row.name .. " has a reference trajectory", function()
        assert.is_true(covered[row.name])
      end)

      local noisy -- without noise here: two optimisers would share one stream of it
      for _, option in ipairs(row.options) do noisy = noisy or option.name == "temperature" end

      it(row.name .. " goes on exactly from a saved state", function()
        local p, q = start()
        local given = { lr = 0.003, temperature = noisy and 0 or nil }
        local opt = optim[row.name]({ p = p, q = q }, given)
        for _ = 1, 7 do
          opt:step(objective(p, q))
        end
        local p2, q2 = pn.param(p), pn.param(q)
        local other = optim[row.name]({ p = p2, q = q2 }, given):load_state(opt:state())
        for _ = 1, 7 do
          opt:step(objective(p, q))
          other:step(objective(p2, q2))
        end
        assert.same(p:totable(), p2:totable())
        assert.same(q:totable(), q2:totable())
      end)

      it(row.name .. " is left as it was by a step that fails, and so are the parameters", function()
        local p, q = start()
        local opt = optim[row.name]({ first = p, second = q }, { lr = 0.1 })
        opt:step(objective(p, q))
        local before, state = { p:totable(), q:totable() }, opt:state()
        local ok, message = pcall(opt.step, opt, objective(p, q) + (q * 0):sqrt():sum())
        assert.is_false(ok)
        assert.matches("gradient of 'second' %(shape %[3%]%)", message)
        assert.matches("derivative of 'sqrt'", message)
        assert.same(before, { p:totable(), q:totable() })
        for key, value in pairs(opt:state()) do
          assert.same(state[key]:totable(), value:totable())
        end
        opt:step(objective(p, q)) -- and it goes on
      end)

      it(row.name .. " refuses unknown and illegal options by name", function()
        local p = start()
        local ok, message = pcall(optim[row.name], { p }, { lrr = 1 })
        assert.is_false(ok)
        assert.matches("unknown option 'lrr', did you mean 'lr'", message)
        ok, message = pcall(optim[row.name], { p }, { lr = -1 })
        assert.is_false(ok)
        assert.matches("lr must lie in", message)
        ok, message = pcall(optim[row.name], { p }, { lr = "fast" })
        assert.is_false(ok)
        assert.matches("lr must be a number", message)
      end)
    end
  end

  local matrices = dofile "spec/golden/optim/muon.lua"

  -- The parameters, and the loss of muon.py.
  local function of_matrices(dtype)
    local p, target = {}, {}
    for k, v in ipairs(matrices.start) do
      p[k], target[k] = pn.param(pn.tensor(v, { dtype = dtype })), pn.tensor(matrices.target[k], { dtype = dtype })
    end
    return p, function()
      local total = ((p[1]:matmul(p[2])):sum(1) - p[4]):square():sum()
      for k, w in ipairs(matrices.weight) do total = total + (p[k] - target[k]):square():sum() * w end
      return total
    end
  end

  for i, case in ipairs(matrices) do
    for dtype, tolerance in pairs { float64 = 1e-11, float32 = 2e-4 } do
      it(("muon follows PyTorch's on matrices, case %d in %s"):format(i, dtype), function()
        local p, loss = of_matrices(dtype)
        local opt = optim.muon(p, case.options)
        for _ = 1, case.steps do opt:step(loss()) end
        for k, want in ipairs(case.want) do
          close(p[k]:flatten():totable(), pn.tensor(want):flatten():totable(), tolerance)
        end
      end)
    end
  end

  it("muon is replayed as it is called, saved and loaded, by groups of parameters", function()
    local function make()
      local p, loss = of_matrices "float64"
      return p, loss, optim.muon(p, { lr = 0.02, groups = { { p[1], matrices = 0 }, { p[2], lr = 0.05 } } })
    end
    local p, loss, opt = make()
    local q, loss_of_q, other = make()
    local step = pn.compile(loss_of_q, { optimiser = other })
    for k = 1, 6 do
      opt:step(loss())
      step()
      if k == 3 then other:load_state(opt:state()) end
    end
    assert.equal(1, step:captures())
    for k in ipairs(p) do assert.same(p[k]:totable(), q[k]:totable()) end
    -- the first matrix goes as AdamW takes it
    local r, loss_of_r = of_matrices "float64"
    optim.adamw({ r[1] }, { lr = 0.02, weight_decay = 0.1 }):step(loss_of_r())
    local s, loss_of_s, last = make()
    last:step(loss_of_s())
    assert.same(r[1]:totable(), s[1]:totable())
    assert.is_true((s[2] - r[2]):abs():max():item() > 1e-3)
  end)

  it("muon's steps in a matrix are nearly orthogonal", function()
    local w = pn.param(pn.zeros { 6, 3 })
    local opt = optim.muon({ w }, { lr = 1, weight_decay = 0, adjust = "original" })
    pn.seed(1)
    opt:apply { pn.randn { 6, 3 } * pn.tensor { 1, 0.3, 5 } }
    local size = w:t():matmul(w):eigh():sqrt() / 2 ^ 0.5 -- of rows over columns
    assert.is_true(size:min():item() > 0.6 and size:max():item() < 1.3)
  end)

  it("names the operation that first gave NaN or infinity in the loss", function()
    local w = pn.param(pn.tensor { 1.0, -1.0 })
    local opt = optim.sgd { w }
    local ok, message = pcall(opt.step, opt, w:log():exp():sum())
    assert.is_false(ok)
    assert.matches("'log' %(result of shape %[2%]%) gave NaN from finite inputs", message)
    ok, message = pcall(opt.step, opt, ((w:square() * 1e6):exp() * 0):sum())
    assert.is_false(ok)
    assert.matches("'exp' %(result of shape %[2%]%) gave %+inf", message)
    ok, message = pcall(opt.step, opt, (w * pn.tensor { 1, 0 / 0 }):sum())
    assert.is_false(ok)
    assert.matches("input 2 of 'mul' %(shape %[2%], a constant%) is NaN", message)
    assert.same({ 1.0, -1.0 }, w:totable())
  end)

  it("says so when nothing depends on its parameters", function()
    local a, b = pn.param(pn.tensor { 1.0 }), pn.param(pn.tensor { 1.0 })
    local opt = optim.adam { a }
    local ok, message = pcall(opt.step, opt, b:sum())
    assert.is_false(ok)
    assert.matches("does the loss depend on them", message)
  end)

  it("lets a parameter without gradient rest", function()
    local a, b = pn.param(pn.tensor { 1.0 }), pn.param(pn.tensor { 1.0 })
    local opt = optim.adam({ a = a, b = b }, { lr = 0.1 })
    opt:step(a:sum())
    assert.equal(1.0, b:item())
    assert.same({ 1, 0 }, opt:state().step:totable())
    -- the first step of Adam is lr in size, whenever it comes
    opt:step(b:sum())
    assert.is_true(math.abs(b:item() - 0.9) < 1e-8)
  end)

  it("clips the norm of all gradients together", function()
    local a, b = pn.param(pn.tensor { 0.0 }), pn.param(pn.tensor { 0.0 })
    local opt = optim.sgd({ a, b }, { lr = 1, clip_norm = 1 })
    opt:apply { pn.tensor { 3.0 }, pn.tensor { 4.0 } }
    close({ a:item(), b:item() }, { -0.6, -0.8 }, 1e-15)
    opt:apply { pn.tensor { 0.3 }, false } -- short ones pass
    close({ a:item(), b:item() }, { -0.9, -0.8 }, 1e-15)
    opt:apply { pn.tensor { 3e200 }, pn.tensor { 4e200 } } -- whose squares overflow
    close({ a:item(), b:item() }, { -1.5, -1.6 }, 1e-14)
  end)

  it("has options as fields", function()
    local opt = optim.adam({ start() }, { betas = { 0.8, 0.9 } })
    assert.equal(0.8, opt.beta1)
    opt.lr = 0.25
    assert.equal(0.25, opt.lr)
    assert.equal("adam(lr = 0.25, beta1 = 0.8, beta2 = 0.9)", tostring(opt))
    assert.has_error(function()
      opt.lr = -1
    end)
    assert.has_error(function()
      opt.rate = 1
    end)
    assert.has_error(function()
      return opt.rate
    end)
  end)

  it("refuses what is no parameter, and a parameter twice", function()
    local p = start()
    assert.has_error(function()
      optim.adam { pn.zeros { 2 } }
    end)
    assert.has_error(function()
      optim.adam { p, p }
    end)
    assert.has_error(function()
      optim.adam {}
    end)
    assert.has_error(function()
      optim.adam(p)
    end)
  end)

  it("every row gives its state and takes it back, with names and without, of one parameter and of many", function()
    for _, row in ipairs(pn.rows()) do
      for _, named in ipairs(row.kind == "optimiser" and { true, false } or {}) do
        local p, q = start()
        local opt = optim[row.name](named and { p = p, q = q } or { p, q }, { lr = 0.01 })
        opt:step(objective(p, q))
        local state = opt:state()
        assert.same({ 1, 1 }, state.step:totable())
        opt:load_state(state)
        assert.same(state.step:totable(), opt:state().step:totable())
        for _, count in ipairs { -1, math.mininteger, math.maxinteger } do
          state.step = pn.tensor({ 1, count }, { dtype = "int64" })
          local ok, message = pcall(opt.load_state, opt, state)
          assert.is_false(ok)
          assert.matches("'step' must be numbers of steps, from 0 to 2%^53", message)
          assert.same({ 1, 1 }, opt:state().step:totable())
        end
      end
    end
  end)

  it("takes a state apart by name", function()
    local opt = optim.adam({ w = pn.param(pn.zeros { 2 }) })
    local state = opt:state()
    state["m.w"], state.extra = pn.zeros { 3 }, pn.zeros { 1 }
    state["v.w"] = nil
    local ok, message = pcall(opt.load_state, opt, state)
    assert.is_false(ok)
    assert.matches("'v.w' is missing", message)
    assert.matches("'m.w' must have shape %[2%], got", message)
    assert.matches("'extra' is not part", message)
  end)

  it("every row leaves everything as it was when a gradient is not finite, alone among many", function()
    for _, row in ipairs(pn.rows()) do
      for _, dtype in ipairs(row.kind == "optimiser" and { "float64", "float32" } or {}) do
        for _, n in ipairs { 1, 7, 64, 200 } do
          for _, bad in ipairs { 1 / 0, -1 / 0, 0 / 0 } do
            local w, v = pn.param(pn.ones(n, { dtype = dtype })), pn.param(pn.ones(3, { dtype = dtype }))
            local opt = optim[row.name]({ v, w }, { lr = 0.1, clip_norm = 1 })
            local big = pn.full({ 3 }, dtype == "float64" and 1e300 or 1e38, { dtype = dtype })
            opt:apply { big, pn.ones(n, { dtype = dtype }) } -- squares overflow, numbers do not
            local before, state = w:totable(), opt:state()
            local values = {}
            for k = 1, n do
              values[k] = k == n and bad or 1
            end
            local ok, message = pcall(opt.apply, opt, { big, pn.tensor(values, { dtype = dtype }) })
            assert.is_false(ok)
            assert.matches("gradient of parameter 2 .* must be finite", message)
            assert.same(before, w:totable())
            for key, t in pairs(opt:state()) do
              assert.same(state[key]:totable(), t:totable())
            end
          end
        end
      end
    end
  end)

  it("schedules start, end and never leave their range", function()
    for name, schedule in pairs {
      cosine = optim.cosine(1, 0.1, 11),
      ramp = optim.ramp(1, 0.1, 11),
    } do
      assert.equal(1, schedule(1), name)
      close({ schedule(6), schedule(11), schedule(50) }, { 0.55, 0.1, 0.1 }, 1e-15)
    end
    assert.equal(0.25, optim.decay(1, 0.5, 10)(21))
    assert.equal(0.3, optim.constant(0.3)(77))
    close({ optim.exponential(2, 0.9)(1), optim.exponential(2, 0.9)(4), optim.exponential(2, 0.9, 0.5)(99) },
      { 2, 2 * 0.729, 0.5 }, 1e-15)
    local warm = optim.warmup(4, 2)
    assert.same({ 0.5, 1.0, 1.5, 2, 2 }, { warm(1), warm(2), warm(3), warm(4), warm(9) })
  end)
end)
