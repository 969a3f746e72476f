local core = require "penumbra.core"
local help = require "penumbra.shell.help"
local pn = require "penumbra"

local function has(text, ...)
  for _, word in ipairs { ... } do
    assert(text:find(word, 1, true), ("%q is not in:\n%s"):format(word, text))
  end
end

describe("help", function()
  it("finds a page by the last word of its module", function()
    has(help.text "base_matrices", "Matrices of a switching linear system as weighted averages of base matrices")
    has(help.text "penumbra.models.base_matrices", "weighted averages of base matrices")
  end)

  it("without argument is an overview", function()
    has(help.text(), "Penumbra " .. core.version, "pn.tensor{", "x:matmul", "pn.grad", "pn.dist.normal", 'help"matmul"',
      "dist", "plot")
    for line in help.text():gmatch "[^\n]+" do assert.is_true(#line <= 100) end
  end)

  it("knows operations by any of their names", function()
    local text = help.text "matmul"
    has(text, "pn.matmul(x, y)", "matrix product", "Also x:matmul(...)")
    for _, name in ipairs { "pn.matmul", "x:matmul", "pn.matmul(x, y)", "penumbra.matmul" } do
      assert.equal(text, help.text(name))
    end
    assert.equal(text, help.text(pn.matmul))
    has(help.text "sum", "pn.sum(x [, axes] [, keepdim = false])")
  end)

  it("tells only of what is there", function()
    local methods = { x = core.methods, d = core.distribution_methods }
    local count = 0
    for _, e in ipairs(help.entries()) do
      local owner, name = e.qualified:match "^([%a_]+):([%w_]+)$"
      local value = pn
      if owner and methods[owner] then
        assert(methods[owner][name] ~= nil, e.qualified)
        count = count + 1
      elseif e.qualified:match "^pn%." then
        for word in e.qualified:gmatch "%.([%w_]+)" do
          value = value[word]
          assert(value ~= nil, e.qualified)
        end
        count = count + 1
      end
    end
    assert.is_true(count > 300)
  end)

  it("has a text for every row", function()
    local known = {}
    for _, e in ipairs(help.entries()) do known[e.kind .. " " .. e.name] = e.qualified end
    for _, row in ipairs(pn.rows()) do
      local qualified = known[row.kind .. " " .. row.name]
      if not row.hidden then has(help.text(qualified), row.doc:match "^%S+") end
    end
  end)

  it("tells parameters, values and functions of a distribution", function()
    has(help.text "dist.gamma", "pn.dist.gamma(concentration, rate = 1)", "rate: positive, default 1",
      "Support: positive.", "rsample", "Source: ")
    assert.equal(help.text "pn.dist.gamma", help.text(pn.dist.gamma))
    has(help.text "normal", "pn.dist.normal(")
    has(help.text(pn.dist.normal(0, 1)), "normal{loc", "standard deviation", "log_prob")
  end)

  it("has an example for every distribution and bijector that runs", function()
    local kinds = { distribution = true, composite = true, bijector = true }
    for _, row in ipairs(pn.rows()) do
      local home = row.kind == "bijector" and "pn.dist.bijector." or "pn.dist."
      local text = kinds[row.kind] and help.text(home .. row.name)
      local example = text and (text .. "\n\n"):match "\n  Example:\n(.-)\n\n"
      assert(example or not text, row.name)
      local env = { pn = pn }
      for line in (example or ""):gmatch "[^\n]+" do
        assert(load(line, "=" .. row.name, "t", env))()
      end
      assert(not example or env.d or env.b, row.name)
    end
    has(help.text "dist.gamma", "d = pn.dist.gamma(2)", "d:log_prob(1.5)  --> -1.09453")
  end)

  it("draws nothing: examples leave the default generator alone", function()
    local before = pn.rng_state()
    for _, row in ipairs(pn.rows()) do require("penumbra.shell.example").lines(row) end
    assert.same(before, pn.rng_state())
  end)

  it("fits 79 columns, whatever it tells", function()
    local function look(text, what)
      for line in text:gmatch "[^\n]+" do assert(#line <= 79, ("%s: %s"):format(what, line)) end
    end
    for _, e in ipairs(help.entries()) do look(help.text(e.qualified), e.qualified) end
    for _, name in ipairs { "pn", "dist", "nn", "kl", "divergence" } do look(help.text(name), name) end
    look(help.text(), "help()")
    look(help.text(pn.ones(2)), "tensor")
    look(help.text(pn.dist.normal(0, 1)), "distribution")
  end)

  it("fits narrower terminals", function()
    local layout = require "penumbra.layout"
    for _, e in ipairs(help.entries()) do
      for line in layout.wrap(e.text, "  ", 50):gmatch "[^\n]+" do
        local head, last = line:match "^(.-)(%S+)$" -- a word that has no room even on a line of its own
        assert(#line <= 50 or #last > 8 and (not head:find "%S" or head:find "%S%s%s+$"), line)
      end
    end
  end)

  it("begins with call, meaning and example; sentences are whole", function()
    for _, e in ipairs(help.entries()) do
      if e.kind ~= "module" and e.kind ~= "file" then
        local text = help.text(e.qualified)
        assert.matches("^%S[^\n]*\n[^\n]+", text)
        local block = e.text:match "\n\n(    [^\n]+)" -- an example of one's own
        local before = block and e.text:match "^(.-)\n\n    "
        if block and not before:find "\n" and (e.kind == "function" or e.kind == "method") then
          local _, lines = text:sub(1, text:find(block:match "%S+ ?%S*", 1, true)):gsub("\n", "")
          assert(lines <= 8, e.qualified .. " has its example in line " .. lines)
        end
      end
      assert(not help.text(e.qualified):find("%a%.%.%.\n"), e.qualified)
    end
    assert.matches("^pn.compile%(.-%)\n  A function of tensors [^\n]*\n      step = pn.compile%(",
      help.text(pn.compile))
    assert.matches("^pn.dist.normal%(.-%)\n[^\n]*\n      pn.dist.normal%(0, 1%):log_prob%(0.5%)  %-%-> %-1.04394\n",
      help.text "dist.normal")
    assert.matches("\n  kl_mixture[^\n]*\n               ", help.text "dist") -- goes on instead of being cut
  end)

  it("answers what is asked often", function()
    has(help.text "bijector.random", "pn.dist.bijector.random(name, n", "masked_autoregressive")
    assert.equal(help.text "pn.dist.bijector.random", help.text "bijector.random")
    has(help.text "pn.smc", "kalman", "Exact inference in Gaussian linear systems", "hmm", "structural")
    has(help.text "seed", "whose seed is 0 unless", "two runs draw the same", "pn.seed(os.time())")
    has(help.text "bayes_linear", 'estimator: local draws the outputs', '("local", "weights")')
    for _, name in ipairs { "argmax", "argmin", "argsort", "topk" } do
      assert.matches("from 0", help.text(name))
    end
    has(help.text "argmax", "[i:item() + 1]", "counted from 0")
    has(help.text "argsort", "x:take(1, x:argsort())", "counts from 0")
    has(help.text "topk", "data counted from 0", "x:take(1, i)")
    pn.seed(0)
    local drawn = pn.randn({ 3 }):totable()
    local pipe = assert(io.popen((os.getenv "LUA" or "lua5.4")
      .. [[ -e 'for _, v in ipairs(require("penumbra").randn({3}):totable()) do print(("%.17g"):format(v)) end']]))
    for k = 1, 3 do assert.equal(drawn[k], pipe:read "n") end
    pipe:close()
  end)

  it("knows the named sets", function()
    has(help.text(pn.dist.gamma(1).support), 'the set "positive"', 'pn.dist.within("positive", x)',
      'pn.dist.biject_to "positive"', "The support of chi2, gamma, inverse_gamma")
    for _, row in ipairs(pn.rows()) do
      if row.kind == "distribution" then has(help.text("set " .. row.support), ("the set %q"):format(row.support)) end
    end
  end)

  it("tells which divergences have a formula", function()
    has(help.text "dist.gamma", "kl(gamma, q) has a formula for q = chi2, exponential, gamma")
    has(help.text "dist.kl", "pn.dist.kl(p, q)\n", "kl(von_mises, q): q = von_mises", "kl(delta, q): q = any")
    assert.equal("kl(gamma, normal) has a formula", help.text "kl(gamma, normal)")
    has(help.text "kl(normal, gamma)", "infinite")
    has(help.text "dist.kl(normal, cauchy)", "kl_monte_carlo")
  end)

  it("knows methods of distributions and bijectors, and parts of parts", function()
    has(help.text "d:icdf", "d:icdf(p)", "quantile")
    has(help.text "d:plot", "d:plot([path [, options]])")
    has(help.text "b:inverse", "The x with b(x) = y.")
    has(help.text "bijector", "log-determinant", "\n  affine ", "\n  random ")
    has(help.text "natural", "\n  tempered ")
    local methods = { d = core.distribution_methods, b = core.bijector_methods }
    for letter, list in pairs(methods) do
      for name in pairs(list) do
        local full = letter .. ":" .. name
        if name ~= "parameters" and name ~= "close" then has(help.text(full), full) end
      end
    end
  end)

  it("reads the comments of Lua modules", function()
    has(help.text "plot.fan", "pn.plot.fan(x, quantiles, opt)", "Nested intervals")
    assert.equal(help.text "plot.fan", help.text(pn.plot.fan))
    has(help.text "check_gradients", "pn.check_gradients(", "central differences")
    has(help.text "no_grad", "pn.no_grad(f, ...)", "without recording a graph")
    has(help.text(pn.plot), "pn.plot", "heatmap", "A matrix in colours")
    assert.equal(help.text(pn.plot), help.text "plot")
  end)

  it("finds a module by its last name and by its path", function()
    assert.matches('^pn.models.vae{.*pn.help\n?%s+"penumbra.models.vae"', help.text "vae")
    assert.matches("^penumbra.models.vae\n  Variational autoencoders", help.text "penumbra.models.vae")
    assert.equal(help.text "pn.dist", help.text "distribution")
    assert.equal(help.text "pn.dist", help.text "penumbra.distribution")
    assert.matches("^penumbra.nn.bayesian\n", help.text "penumbra.nn.bayesian")
    assert.matches("^pn.nn.bayesian%(", help.text "bayesian")
    assert.matches("^pn.continual.sites%(", help.text "continual.sites")
  end)

  it("lists what is in pn", function()
    local text = help.text(pn)
    assert.equal(text, help.text "pn")
    has(text, "\n  matmul ", "\n  zeros ", "\n  exp ")
  end)

  it("describes values", function()
    has(help.text(pn.ones { 2, 3 }), "a tensor: float64 [2, 3]", " matmul", "backward")
    has(help.text(pn.param(pn.ones { 2 })), "[2], a parameter")
    has(help.text(function() end), "help_spec.lua", "not part of Penumbra")
    has(help.text(3), "a number: 3")
    has(help.text(nil), "a nil")
    has(help.text { 1 }, "a table: {1}")
  end)

  it("names near ones for what it does not know", function()
    assert.equal("nothing is called 'mtmul'; did you mean 'matmul'?", help.text "mtmul")
    assert.equal("nothing is called 'Cholesky'; did you mean 'cholesky'?", help.text "Cholesky")
    has(help.text "leapfrog of", "nothing is called")
    has(help.text "xyzzy", "help() shows the way")
    has(help.text "Sinkhorn", "penumbra.smc.transport")
    has(help.text "leapfrog", "it is mentioned by", "pn.nuts")
    has(help.text "penumbra.distribution.divergence", "Divergences without a closed form")
    has(help.text "penumbra.distribution.bounds", "bounds.mixture(p, q, method)")
  end)

  it("says what an option of many functions means, and what it is called now", function()
    has(help.text "batch_size", "batch_size, of the options of many functions: rows of a minibatch",
      'help"penumbra.words"')
    has(help.text "rtol", "rtol, atol, of the options")
    assert.equal("num_samples, as an option, is called draws", help.text "num_samples")
    has(help.text "penumbra.words", "an upper limit of something that may stop sooner")
  end)

  it("prints", function()
    local said
    local old = print
    _G.print = function(text) said = text end
    local ok = pcall(pn.help, "exp")
    _G.print = old
    assert.is_true(ok)
    assert.equal(help.text "exp", said)
  end)

  it("knows every public function", function()
    local known, missing = {}, {}
    for _, e in ipairs(help.entries()) do
      assert.is_string(e.text, e.qualified)
      assert.is_true(#e.text > 0)
      known[e.qualified] = true
    end
    local function look(t, prefix)
      for name, value in pairs(t) do
        if type(value) == "function" and not known[prefix .. name] then missing[#missing + 1] = prefix .. name end
      end
    end
    local function load_all(t)
      local meta = getmetatable(t)
      for _, name in ipairs(meta and meta.lazy or {}) do local _ = pcall(function() return t[name] end) end
    end
    load_all(pn)
    look(pn, "pn.")
    for name, part in pairs(pn) do
      if type(part) == "table" then
        load_all(part)
        look(part, "pn." .. name .. ".")
      end
    end
    for name in pairs(core.methods) do
      if not known["pn." .. name] and not known["x:" .. name] then missing[#missing + 1] = "x:" .. name end
    end
    table.sort(missing)
    assert.same({}, missing)
  end)
end)
