local options = require "penumbra.options"

local known = {lr = 1e-3, nesterov = false, name = "x", num_data = options.optional("number")}

describe("words that all options share", function()
  local function refused(text, given, rules)
    assert.error_matches(function() options.check("f", given, rules) end, text, 1, true)
  end

  it("answer in the present to what they were called", function()
    refused("f: num_samples is called draws", { num_samples = 3 }, { draws = 1 })
    refused("f: particles is called num_particles", { particles = 3 }, { num_particles = 1 })
    refused("f: particles is called draws", { particles = 3 }, { draws = 1 })
    refused("f: batch is called batch_shape", { batch = { 3 } }, { batch_shape = {} })
    refused("f: num_chains is called chains", { num_chains = 3 }, { chains = 1 })
    refused("f: burn_in is called warmup", { burn_in = 3 }, { warmup = 1 })
    refused("f: lr is an option of its optimiser: optimiser = pn.optim.adam(net, {lr = 1e-3})", { lr = 3 },
      { optimiser = options.optional(), epochs = 3 })
    refused("f: unknown option 'lr'; known: epochs", { lr = 3 }, { epochs = 3 })
    refused("f: mask is called observed", { mask = 1 }, { observed = options.optional "tensor" })
    refused("f: unknown option 'mask'; known: lr", { mask = 1 }, { lr = 1 }) -- nothing here is what it was
    assert.equal(3, options.check("f", { mask = 3 }, { mask = 1 }).mask)
  end)

  it("mean the same wherever they are taken", function()
    for _, rule in ipairs { 100, options.required "number", options.optional(), options.any(1) } do
      refused("f: draws must be a whole number from 1 on, got 0", { draws = 0 }, { draws = rule })
      refused("f: draws must be a whole number from 1 on, got 1.5", { draws = 1.5 }, { draws = rule })
      assert.equal(7, options.check("f", { draws = 7 }, { draws = rule }).draws)
    end
    refused("f: generator must be a pn.generator, got 3", { generator = 3 }, { generator = options.any(false) })
    refused("f: generator must be a pn.generator, got a tensor", { generator = require("penumbra").ones { 1 } },
      { generator = options.optional() })
    assert.is_false(options.check("f", { generator = false }, { generator = options.any(false) }).generator)
    refused("f: on_step must be a function, got 'print'", { on_step = "print" }, { on_step = options.any(false) })
    refused("f: seed must be a whole number from 0 on, got -1", { seed = -1 }, { seed = options.any(1) })
    assert.same({ first = 1 }, options.check("f", { steps = { first = 1 } }, { steps = options.any(3) }).steps)
  end)
end)

describe("options.check", function()
  it("fills in defaults and leaves both arguments alone", function()
    local given = {lr = 0.5}
    local o = options.check("f", given, known)
    assert.same({lr = 0.5, nesterov = false, name = "x"}, o)
    assert.same({lr = 0.5}, given)
    assert.same({lr = 1e-3, nesterov = false, name = "x"}, options.check("f", nil, known))
  end)

  it("names the nearest key for an unknown one, at the caller's line", function()
    local line = debug.getinfo(1, "l").currentline + 1
    local ok, message = pcall(function() options.check("adam", {lrr = 1}, known) end)
    assert.is_false(ok)
    assert.equal(("%s:%d: adam: unknown option 'lrr', did you mean 'lr'?"):format(
      debug.getinfo(1, "S").short_src, line), message)
  end)

  it("lists the keys when none is near", function()
    assert.error_matches(function() options.check("adam", {verbosity = 1}, known) end,
      "unknown option 'verbosity'; known: lr, name, nesterov, num_data")
    assert.error_matches(function() options.check("adam", {7}, known) end, "unknown option '1'")
  end)

  it("checks types", function()
    assert.error_matches(function() options.check("adam", {lr = "fast"}, known) end,
      "adam: lr must be a number, got 'fast'")
    assert.error_matches(function() options.check("adam", {num_data = true}, known) end,
      "adam: num_data must be a number, got true")
    assert.error_matches(function() options.check("adam", 3, known) end,
      "adam: options must be a table, got 3")
    assert.equal(1, options.check("adam", {nesterov = 1}, known).nesterov)
  end)

  it("takes callables for functions", function()
    local callable = setmetatable({}, {__call = function() end})
    assert.equal(callable, options.check("f", {on = callable}, {on = options.optional("function")}).on)
    assert.error_matches(function() options.check("f", {on = {}}, {on = options.optional("function")}) end,
      "f: on must be a function, got a table")
  end)

  it("asks for required keys", function()
    local rules = {num_data = options.required("number")}
    assert.error_matches(function() options.check("elbo", {}, rules) end,
      "elbo: option 'num_data' is required")
    assert.equal(5, options.check("elbo", {num_data = 5}, rules).num_data)
  end)

  it("keeps to choices", function()
    local rules = {scheme = options.choice("systematic", "multinomial")}
    assert.equal("systematic", options.check("smc", {}, rules).scheme)
    assert.equal("multinomial", options.check("smc", {scheme = "multinomial"}, rules).scheme)
    assert.error_matches(function() options.check("smc", {scheme = "sytematic"}, rules) end,
      "one of 'systematic', 'multinomial', got 'sytematic', did you mean 'systematic'?", 1, true)
  end)

  it("accepts any type on request", function()
    local rules = {scale = options.any(1)}
    assert.equal(1, options.check("f", {}, rules).scale)
    assert.same({2}, options.check("f", {scale = {2}}, rules).scale)
  end)
end)

describe("options.nearest", function()
  it("finds slips of the hand", function()
    local names = {"matmul", "mean", "median", "log_prob", "softmax", "log", "log1p"}
    assert.equal("matmul", options.nearest("mat_mul", names))
    assert.equal("matmul", options.nearest("matmlu", names))
    assert.equal("mean", options.nearest("maen", names))
    assert.equal("log_prob", options.nearest("logprob", names))
    assert.equal("softmax", options.nearest("SoftMax", names))
    assert.is_nil(options.nearest("quaternion", names))
    assert.equal("softmax", options.nearest("sftmx", names))
    assert.is_nil(options.nearest("x", names))
  end)

  it("measures edits", function()
    assert.equal(0, options.distance("abc", "abc"))
    assert.equal(1, options.distance("abc", "acb"))
    assert.equal(3, options.distance("", "abc"))
    assert.equal(3, options.distance("kitten", "sitting"))
    assert.is_true(options.distance("ABC", "abc") < 1)
  end)
end)
