--- Names that do not exist: what is said about them, and that asking whether they exist still works.
local core = require "penumbra.core"
local pn = require "penumbra"

-- The message of f's failure as the command, the prompt and the runtime report it.
local function reported(f)
  local _, message = xpcall(f, function(text) return core.traceback(text) end)
  return (message:gsub("\n.*", ""):gsub("^[^:]*:%d+: ", ""))
end

-- The message itself, which any Lua shows.
local function raised(f)
  local ok, message = pcall(f)
  assert.is_false(ok)
  return (message:gsub("^[^:]*:%d+: ", ""))
end

describe("a name that a namespace lacks", function()
  it("is nil", function()
    assert.is_nil(pn.foo)
    assert.is_nil(pn.dist.foo)
    assert.is_nil(pn.dist.bijector.foo)
    assert.is_nil(pn.nn.foo)
    assert.is_nil(rawget(pn.dist, "foo"))
  end)

  it("is told with the nearest one where it is called", function()
    for text, f in pairs {
      ["pn.dist has no 'gama', did you mean 'gamma'?"] = function() return pn.dist.gama(1) end,
      ["pn.nn has no 'liner', did you mean 'linear'?"] = function() return pn.nn.liner(1, 2) end,
      ["pn.optim has no 'adamm', did you mean 'adam'?"] = function() return pn.optim.adamm {} end,
      ["pn.dist has no 'StudentT', did you mean 'student_t'?"] = function() return pn.dist.StudentT(1) end,
      ["pn.dist.bijector has no 'afine', did you mean 'affine'?"] = function() return pn.dist.bijector.afine(1) end,
      ["pn has no 'dst', did you mean 'dist'?"] = function() return pn.dst.gamma(1) end,
      ["pn has no 'gamma', did you mean 'pn.dist.gamma'?"] = function() return pn.gamma(1) end,
      ["pn has no 'adam', did you mean 'pn.optim.adam'?"] = function() return pn.adam(1) end,
      ["pn.dist has no 'log_prob', did you mean 'd:log_prob'?"] = function() return pn.dist.log_prob(1) end,
      ["pn has no 'rhat'; pn.help \"rhat\" looks for it"] = function() return pn.rhat(1) end,
      ["pn.dist has no 'xyzzy'; pn.help \"pn.dist\" lists what there is"] = function() return pn.dist.xyzzy(1) end,
      ["a network has no 'paramters', did you mean 'parameters'?"] = function()
        return pn.nn.sequential { pn.nn.linear(1, 1) }:paramters()
      end,
      ["pn.dist has no 'gamme', did you mean 'gamma'?"] = function()
        local d = pn.dist.gamme(
          1)
        return d
      end,
    } do
      assert.equal(text, reported(f))
    end
  end)

  it("is told so to who catches the error, and where nobody explains it", function()
    local there = pn.dist
    for text, f in pairs {
      ["pn.dist has no 'gama', did you mean 'gamma'?"] = function() return pn.dist.gama(1) end,
      ["pn.dist has no 'nrmal', did you mean 'normal'?"] = function() return there.nrmal { loc = 1 } end,
      ["pn.nn has no 'rleu', did you mean 'relu'?"] = function() return pn.nn.sequential { pn.nn.rleu() } end,
      ["pn has no 'nust', did you mean 'nuts'?"] = function() return pn.nust "x" end,
    } do
      assert.equal(text, raised(f))
    end
    local loaded = assert(load "local pn = require 'penumbra'\n\nreturn pn.dist.gama(1)")
    assert.equal("pn.dist has no 'gama', did you mean 'gamma'?", raised(loaded))
    assert.is_nil(pn.dist.gama and pn.dist.gama(1)) -- asked for first
    if pn.dist.gama then pn.dist.gama(1) end
    assert.equal(3, (pn.dist.gama or function() return 3 end)())
    assert.matches("attempt to call a nil value", raised(pn.dist.gama))
  end)

  it("that was there under that name is told with the present one", function()
    local fit = pn.svi(pn.model(function(m) m:sample("z", pn.dist.normal(0, 1)) end), "mean_field", { steps = 1 })
    for text, f in pairs {
      ["load of pn.models is called pn.restore"] = function() return pn.models.load "m.safetensors" end,
      ["load_posterior of pn.infer is called pn.restore"] = function() return pn.infer.load_posterior "p" end,
      ["load of pn.continual is called pn.restore"] = function() return pn.continual.load "m.safetensors" end,
      ["standardise of pn.train is called pn.data.standardise"] = function() return pn.train.standardise(1) end,
      ["hessian of pn.infer is called pn.infer.hessian_matrix"] = function() return pn.infer.hessian(1, {}) end,
      ["jacobian of pn.infer is called pn.infer.jacobian_matrix"] = function() return pn.infer.jacobian(1, {}) end,
      ["load of a fit is called pn.restore"] = function() return fit:load "f.safetensors" end,
    } do
      assert.equal(text, reported(f))
    end
  end)

  it("is not confused with a field of another table", function()
    local _, mine = pn.dist.gama, {}
    for _ = 1, 2 do
      -- far below the line that asked

      -- .
      -- .
      -- .
      -- .
      -- .
      -- .
      assert.equal("attempt to call a nil value (field 'gama')", reported(function() return mine.gama(1) end))
    end
    _ = pn.dist.gama
    assert.equal("attempt to call a nil value (field 'other')", reported(function() return mine.other(1) end))
  end)
end)

describe("a name that an object lacks", function()
  local net = pn.nn.sequential { pn.nn.linear(1, 1) }

  it("is an error with the nearest one", function()
    for text, f in pairs {
      ["a tensor has no method or field 'logsumxp', did you mean 'logsumexp'?"] = function()
        return pn.ones { 2 }:logsumxp()
      end,
      ["gamma has no method or field 'logprob', did you mean 'log_prob'?"] = function()
        return pn.dist.gamma(1):logprob(1)
      end,
      ["gamma has no method or field 'concentraton', did you mean 'concentration'?"] = function()
        return pn.dist.gamma(1).concentraton
      end,
      ["normal has no method or field 'kl', did you mean 'pn.kl'?"] = function() return pn.dist.normal(0, 1):kl() end,
      ["exp has no method or field 'forwrd', did you mean 'forward'?"] = function()
        return pn.dist.bijector.exp():forwrd(1)
      end,
      ["a Gaussian factor has no method or field 'precison', did you mean 'precision'?"] = function()
        return pn.dist.natural.scalar(1, 1).precison
      end,
      ["a layer has no method or field 'pramaters', did you mean 'parameters'?"] = function()
        return net[1]:pramaters()
      end,
      ["adam has no method or field 'stp', did you mean 'step'?"] = function()
        return pn.optim.adam(net:parameters()):stp()
      end,
      ["a generator has no method or field 'spilt', did you mean 'split'?"] = function()
        return pn.generator(1):spilt()
      end,
      ["a tensor has no method or field 'qqqqqq'"] = function() return pn.ones { 2 }:qqqqqq() end,
    } do
      assert.equal(text, raised(f))
    end
  end)

  it("that NumPy or PyTorch has is told with what it is here, which runs", function()
    local x, mask, value = pn.tensor { { 1, -2, 3 } }, pn.tensor { { true, false, true } }, 7
    local env = { x = x, y = x:t(), mask = mask, value = value, pn = pn }
    for name, want in pairs { view = "x:reshape{sizes}", T = "x:t()", mm = "x:matmul(y)", astype = 'x:to "float32"',
      masked_fill = "pn.where(mask, value, x)", tolist = "x:totable()", dim = "x:ndim()", ravel = "x:flatten()",
      data = "x:detach()", expand = "x:broadcast_to{sizes}", clone = "as good as a copy", add_ = "do not change" } do
      local ok, message = pcall(function() return x[name] end)
      assert.is_false(ok)
      assert.truthy(message:find(want, 1, true), message)
      local call = message:match "': ([xp][n:.].*)$"
      if call then assert(load("return " .. call:gsub("sizes", "1, 3"), call, "t", env))() end
    end
  end)

  it("that a network, an optimiser, a distribution or draws have elsewhere is told, too", function()
    local layer, d = net[1], pn.dist.normal(pn.zeros { 2 }, 1)
    local p = pn.nuts(pn.model(function(m) m:sample("a", pn.dist.normal(0, 1)) end), { draws = 4, warmup = 10 })
    for text, f in pairs {
      ["a layer has no method or field 'eval': the call has the mode: net:evaluate(x)"] = function() layer:eval() end,
      ["a network has no 'train': the call has the mode: net(x), and net:evaluate(x)"] = function() net:train() end,
      ["a network has no 'state_dict': net:state()"] = function() net:state_dict() end,
      ["adam has no method or field 'zero_grad': opt:step(loss) takes fresh gradients each time"] = function()
        pn.optim.adam(net):zero_grad()
      end,
      ["normal has no method or field 'to_event': d:independent(k): the last k batch axes become the event's"] =
        function() d:to_event(1) end,
      ["a posterior has no 'get_samples': p.draws"] = function() p:get_samples() end,
    } do
      assert.equal(text, raised(f))
    end
    local x = pn.tensor { 0.5, 0.5 }
    local env = { d = d, x = x, p = x, n = 3, net = net, t = net:state() }
    for _, call in ipairs { "d:log_prob(x):exp()", "d:icdf(p)", "d:sample{n}", "net:state()", "net:load_state(t)",
      "d:independent(1)" } do
      assert(load("return " .. call, call, "t", env))()
    end
  end)

  it("is nil for a parameter of another distribution or bijector", function()
    assert.is_nil(pn.dist.normal(0, 1).concentration)
    assert.is_nil(pn.dist.bijector.exp().scale)
  end)
end)
