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

  it("are told by every old name, and only where the new one is taken", function()
    local words = require "penumbra.words"
    for old, list in pairs(words.called) do
      for k, now in ipairs(list) do
        local taken = { other = 1 }
        for i = k, #list do taken[list[i]] = 1 end -- the first of these is said
        refused(("f: %s is called %s"):format(old, now), { [old] = 1 }, taken)
        assert.equal(now, words.now(old, { [now] = false }))
      end
      refused(("f: unknown option '%s'"):format(old), { [old] = 1 }, { zzzzzzzzz = 1 })
    end
    for name, inner in pairs(words.within) do
      refused(("f: %s is an option of its optimiser: optimiser = %s"):format(name, inner[2]), { [name] = 1 },
        { optimiser = options.any(1) })
    end
  end)

  it("are numbers from 0 on where none can be below, whatever their default is", function()
    for name in ([[rtol atol lr posterior_lr threshold radius opacity width size target_accept inflation limit
      least_accept scale_floor]]):gmatch "%S+" do
      for _, rule in ipairs { 0.5, options.required "number", options.optional(), options.any(1) } do
        refused(("f: %s must be a number from 0 on, got -0.001"):format(name), { [name] = -0.001 }, { [name] = rule })
        assert.equal(0, options.check("f", { [name] = 0 }, { [name] = rule })[name])
      end
      refused(("f: %s must be a number from 0 on, got "):format(name), { [name] = 0 / 0 }, { [name] = options.any(1) })
      assert.same({ -1 }, options.check("f", { [name] = { -1 } }, { [name] = options.any(1) })[name])
    end
    refused("f: max_evaluations must be a whole number from 1 on, got 0", { max_evaluations = 0 },
      { max_evaluations = 3 })
    refused("f: on_epoch must be a function, got 3", { on_epoch = 3 }, { on_epoch = options.any(false) })
    assert.is_false(options.check("f", { draws = false }, { draws = options.any(1) }).draws) -- none
    refused("f: draws must be a whole number from 1 on, got false", { draws = false }, { draws = options.optional() })
    refused("f: lr must be a number, got nan", { lr = 0 / 0 }, { lr = 1 })
  end)

  it("mean the same wherever they are taken", function()
    for _, rule in ipairs { 100, options.required "number", options.optional(), options.any(1) } do
      refused("f: draws must be a whole number from 1 on, got 0", { draws = 0 }, { draws = rule })
      refused("f: draws must be a whole number from 1 on, got 1.5", { draws = 1.5 }, { draws = rule })
      assert.equal(7, options.check("f", { draws = 7 }, { draws = rule }).draws)
    end
    for name in ([[num_particles batch_size epochs max_steps max_sweeps chains islands count outcomes bins points
      components season shards validate_every checkpoint_every]]):gmatch "%S+" do
      refused(("f: %s must be a whole number from 1 on, got 0"):format(name), { [name] = 0 }, { [name] = 3 })
      assert.equal(1, options.check("f", { [name] = 1 }, { [name] = 3 })[name])
    end
    for _, name in ipairs { "steps", "warmup", "seed" } do
      refused(("f: %s must be a whole number from 0 on, got -1"):format(name), { [name] = -1 }, { [name] = 3 })
      assert.equal("integer", math.type(options.check("f", { [name] = 0.0 }, { [name] = 3 })[name]))
    end
    refused("f: generator must be a pn.generator, got 3", { generator = 3 }, { generator = options.any(false) })
    refused("f: generator must be a pn.generator, got a tensor", { generator = require("penumbra").ones { 1 } },
      { generator = options.optional() })
    refused("f: generator must be a pn.generator, got a table", { generator = {} }, { generator = options.any(false) })
    assert.is_false(options.check("f", { generator = false }, { generator = options.any(false) }).generator)
    refused("f: on_step must be a function, got 'print'", { on_step = "print" }, { on_step = options.any(false) })
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

describe("an argument", function()
  local pn = require "penumbra"
  local refuses = require("spec.helper").refuses
  local argument = options.argument

  it("is told by its kind, a text by its first letters", function()
    for _, case in ipairs { { pn.nn.relu(), "a layer" }, { pn.dist.normal(0, 1), "a distribution" },
      { pn.generator(1), "a generator" }, { {}, "a table" }, { print, "a function" }, { true, "true" }, { 2.5, "2.5" },
      { ("x"):rep(40), "'" .. ("x"):rep(40) .. "'" }, { ("x"):rep(41), "'" .. ("x"):rep(37) .. "...'" } } do
      refuses("f: x must be a tensor, got " .. case[2], argument, "f", "x", case[1], "tensor")
    end
    refuses("f: x must be a tensor, got nil", argument, "f", "x", nil, "tensor")
    for kind, text in pairs { ["function"] = "a function", table = "a table", number = "a number", string = "a string",
      boolean = "true or false", generator = "a pn.generator", layer = "a layer" } do
      refuses("f: x must be " .. text .. ", got a tensor", argument, "f", "x", pn.ones { 1 }, kind)
    end
    local layer = pn.nn.relu()
    assert.equal(layer, argument("f", "x", layer, "function")) -- what can be called is one
    assert.equal(3, argument("f", "x", 3, "number"))
    refuses("f: x must be a whole number from 2 on, got 1", options.whole, "f", "x", 1, 2)
    refuses("f: x must be a whole number from 2 on, got '3'", options.whole, "f", "x", "3", 2)
    assert.equal("integer", math.type(options.whole("f", "x", 2.0, 2)))
  end)

  it("is numbers, an axis, an object with methods, a shape as text", function()
    assert.same({ 1, 2 }, options.numbers("f", "x", { 1, 2 }):totable())
    assert.equal(3, options.numbers("f", "x", 3))
    refuses("f: x must be a tensor, a number or a list of numbers, got 'a'", options.numbers, "f", "x", "a")
    refuses("f: x must be a tensor or a list of numbers, got 3", options.numbers, "f", "x", 3, "tensor")
    local t = pn.ones { 2, 3, 4 }
    for axis, want in pairs { [1] = 1, [3] = 3, [-1] = 3, [-3] = 1 } do
      assert.equal(want, options.axis("f", t, axis))
    end
    assert.same({ 2, 3 }, { options.axis("f", t, nil, 2), options.axis("f", t, 3.0, 2) })
    for _, bad in ipairs { 0, 4, -4, 1.5 } do
      refuses("f: axis must lie in 1 to 3 (or -1 backwards), got " .. bad, options.axis, "f", t, bad)
    end
    refuses("f: axis must lie in 1 to 3 (or -1 backwards), got nil", options.axis, "f", t)
    local object = { step = print, state = print }
    assert.equal(object, options.object("f", "x", object, "an optimiser", "step", "state"))
    refuses("f: x must be an optimiser, got a table", options.object, "f", "x", object, "an optimiser", "step", "go")
    refuses("f: x must be an optimiser, got 3", options.object, "f", "x", 3, "an optimiser", "step")
    assert.same({ "[2, 3, 4]", "[5]" }, { options.shape_text(t), options.shape_text { 5 } })
    assert.same({ a = 2, b = 1, c = 3 }, options.merged({ a = 1, b = 1 }, { a = 2, c = 3 }))
    assert.same({ "a", "b", "c" }, options.sorted_keys { c = 1, a = 2, b = 3 })
  end)
end)

describe("options.draws", function()
  it("are at least two, shaped like what they are of", function()
    local pn = require "penumbra"
    local y = pn.ones { 3, 2 }
    options.draws("f", y, pn.ones { 2, 3, 2 })
    local function refused(text, ...)
      local given = table.pack(...)
      assert.error_matches(function() options.draws("f", given[1], given[2]) end, text, 1, true)
    end
    refused("f: y must be a tensor, got 3", 3, y)
    refused("f: draws must be a tensor, got nil", y)
    for _, shape in ipairs { { 1, 3, 2 }, { 3, 2 }, { 2, 2, 3 }, { 4, 2, 3, 2 } } do
      refused("f: draws must be at least 2 draws shaped like y, [S, ...], got [" .. table.concat(shape, ", "), y,
        pn.ones(shape))
    end
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

-- Both by their definitions: the least number of edits over all ways to begin, the letters of one in another in order.
describe("what is near, by definition,", function()
  local function edits(a, b)
    if a == "" or b == "" then return #a + #b end
    local x, y = a:sub(1, 1), b:sub(1, 1)
    local best = math.min(edits(a:sub(2), b) + 1, edits(a, b:sub(2)) + 1,
      edits(a:sub(2), b:sub(2)) + (x == y and 0 or 1))
    if #a > 1 and #b > 1 and x == b:sub(2, 2) and a:sub(2, 2) == y then
      best = math.min(best, edits(a:sub(3), b:sub(3)) + 1)
    end
    return best
  end

  local function within(a, b) -- the letters of a in b
    if a == "" then return true end
    for k = 1, #b do
      if b:sub(k, k) == a:sub(1, 1) and within(a:sub(2), b:sub(k + 1)) then return true end
    end
    return false
  end

  local function nearest(name, names)
    local limit, best, least = #name < 6 and 1 or #name < 9 and 2 or 3, nil, nil
    for _, other in ipairs(names) do
      local d = edits(name:lower(), other:lower())
      d = d == 0 and name ~= other and 0.1 or d
      local longer = other:lower():sub(1, #name) == name:lower()
        or other:sub(1, 1) == name:sub(1, 1) and #other <= #name + 3 and within(name, other)
      if #name >= 3 and longer then d = math.min(d, limit) end
      if d <= limit and d < #other and (not best or d < least or d == least and other < best) then
        best, least = other, d
      end
    end
    return best
  end

  it("is what is found", function()
    local state = 7
    local function word()
      local letters = {}
      state = (state * 1103515245 + 12345) % 2 ^ 31
      for k = 1, 1 + state // 65536 % 5 do
        state = (state * 1103515245 + 12345) % 2 ^ 31
        local at = state // 65536 % 4 + 1
        letters[k] = ("abAc"):sub(at, at)
      end
      return table.concat(letters)
    end
    local found = 0
    for _ = 1, 150 do
      local name, names = word(), {}
      for k = 1, 4 do names[k] = word() .. (k > 2 and word() or "") end
      for k = 1, 2 do
        local d = edits(name:lower(), names[k]:lower())
        local want = d == 0 and name ~= names[k] and 0.1 or d
        assert.equal(want, options.distance(name, names[k]), name .. " " .. names[k])
      end
      local near = nearest(name, names)
      assert.equal(near, options.nearest(name, names), name .. " among " .. table.concat(names, " "))
      found = found + (near and 1 or 0)
    end
    assert.is_true(found > 30 and found < 145)
    for letters, limit in ipairs { 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3 } do -- at least a letter stays
      for wrong = 1, math.min(5, letters) do
        local name, other = ("a"):rep(letters), ("z"):rep(wrong) .. ("a"):rep(letters - wrong)
        assert.equal(wrong <= limit and other or nil, options.nearest(name, { other }), other)
        assert.equal(wrong <= limit and (", did you mean '%s'?"):format(other) or "", options.suggestion(name,
          { other }))
      end
    end
    assert.equal("abcdefghi", options.nearest("abc", { "abcdefghi" })) -- begins so
    assert.is_nil(options.nearest("ab", { "abcdefghi" }))
    assert.equal("bat", options.nearest("rat", { "cat", "bat", "eat" })) -- the first in the alphabet
    assert.equal("", options.suggestion(7, { "7" }))
    assert.equal("max_depth", options.nearest("maxdth", { "max_depth" })) -- three letters are missing
    assert.is_nil(options.nearest("maxdt", { "max_depth" }))              -- four
    assert.is_nil(options.nearest("sttts", { "steepest" }))               -- more of one letter than there are
  end)
end)
