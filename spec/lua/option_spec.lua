--- Misspelt options: wherever options are taken, the nearest name is told, at the script's line.
local pn = require "penumbra"

local here = debug.getinfo(1, "S").short_src
local w, x, d = pn.param(1), pn.ones { 2, 2 }, pn.dist.normal(0, 1)

-- A slip of the hand: the letter in the middle twice.
local function misspelt(name)
  local at = #name // 2 + 1
  return name:sub(1, at) .. name:sub(at)
end

-- What f says to the misspelt option must name the right one.
local function check(label, option, f, ...)
  local ok, message = pcall(f, ...)
  assert(not ok, ("%s: the option '%s' is taken"):format(label, misspelt(option)))
  local wanted = ("'%s', did you mean '%s'?"):format(misspelt(option), option)
  assert(message:find(wanted, 1, true) and message:find(here .. ":", 1, true) == 1,
    ("%s, option %s: %s"):format(label, option, message))
end

local function with(option) return { [misspelt(option)] = 1 } end

describe("the nearest option is told by", function()
  it("every layer, optimiser and initialiser", function()
    local count = 0
    for _, row in ipairs(pn.rows()) do
      for _, o in ipairs(type(row.options) == "table" and row.options or {}) do
        count = count + 1
        if row.kind == "layer" then
          local sizes = {}
          for k = 1, #row.sizes do sizes[k] = 2 end
          sizes[#sizes + 1] = with(o.name)
          check(row.name, o.name, pn.nn[row.name], table.unpack(sizes))
        elseif row.kind == "optimiser" then
          check(row.name, o.name, pn.optim[row.name], { w }, with(o.name))
          local opt = pn.optim[row.name] { w }
          check(row.name, o.name, function() opt[misspelt(o.name)] = 1 end)
        elseif row.kind == "initialiser" then
          check(row.name, o.name, pn.nn.initialise, row.name, { 2, 2 }, with(o.name))
        end
      end
    end
    assert.is_true(count > 50)
  end)

  it("every distribution and bijector", function()
    for _, row in ipairs(pn.rows()) do
      for _, p in ipairs((row.kind == "distribution" or row.kind == "bijector") and row.parameters or {}) do
        local make = pn.dist[row.name] or pn.dist.bijector[row.name]
        check(row.name, p.name, make, with(p.name))
      end
    end
  end)

  it("every function with options of its own", function()
    local q = pn.dist.normal(0, 2)
    for _, case in ipairs {
      { "dtype", pn.zeros, { 2 } }, { "dtype", pn.ones, { 2 } }, { "dtype", pn.full, { 2 }, 1 }, { "dtype", pn.eye, 2 },
      { "dtype", pn.arange, 3 }, { "dtype", pn.linspace, 0, 1, 3 }, { "generator", pn.rand, { 2 } },
      { "generator", pn.randn, { 2 } }, { "generator", pn.randint, 0, 2, { 2 } }, { "generator", pn.randperm, 3 },
      { "dtype", pn.tensor, { 1, 2 } }, { "create_graph", pn.grad, w * 2, { w } }, { "keepdim", pn.sum, x },
      { "optimiser", pn.compile, function() end },
      { "tolerance", pn.check_gradients, function() return w * 2 end, { w } },
      { "generator", d.sample, d, { 2 } }, { "generator", d.rsample, d, { 2 } },
      { "observed", function(o) pn.kalman_update(x[1], x, x[1], x, nil, x, o) end },
      { "observed", function(o) pn.kalman_step(x[1], x, x, nil, x, x[1], x, nil, x, o) end },
      { "draws", pn.dist.kl_monte_carlo, d, q }, { "pathwise", pn.dist.entropy_monte_carlo, d },
      { "generator", pn.dist.expectation_monte_carlo, d }, { "pathwise", pn.dist.jensen_shannon_monte_carlo, d, q },
      { "steps", pn.dist.kl_mixture, d, q }, { "approximate", pn.dist.kl_gate, 0, 1, 1 },
      { "diffusion", pn.dist.kl_path }, { "hidden", pn.dist.bijector.random, "planar", 2 },
      { "title", pn.dist.panel, d }, { "title", d.plot, d, "no/such/folder/x.svg" },
      { "log_likelihood", pn.infer.elbo }, { "epochs", pn.train.fit }, { "delimiter", pn.data.csv, "no/such/file" },
      { "dtype", pn.data.idx, "no/such/file" }, { "nested", pn.load, "no/such/file" },
      { "names", pn.data.save_csv, "no/such/file", x }, { "compressed", pn.data.save_npz, "no/such/file", { x } },
      { "shuffle", pn.data.split, x, 0.5 }, { "drop_last", pn.data.batches, x }, { "colour", pn.plot.line, x, x },
      { "label", pn.plot.points, x, x }, { "colour", pn.plot.impulses, x, x }, { "label", pn.plot.error_bars, x, x, x },
      { "label", pn.plot.band, x, x, x }, { "bins", pn.plot.histogram, x }, { "columns", pn.plot.save, "no/such/x.svg",
        { pn.plot.panel { pn.plot.line(x, x) } } },
    } do
      local given = { table.unpack(case, 3) }
      given[#given + 1] = with(case[1])
      check("a function", case[1], case[2], table.unpack(given))
    end
  end)

  it("names of sets, initialisers and bijectors", function()
    assert.error_matches(function() pn.dist.within("positve", x) end, "no set 'positve', did you mean 'positive'%?")
    assert.error_matches(function() pn.dist.biject_to "simplx" end, "no set 'simplx', did you mean 'simplex'%?")
    assert.error_matches(function() pn.nn.initialise("unifrm", { 2, 2 }) end, "did you mean 'uniform'%?")
    assert.error_matches(function() pn.dist.bijector.random("planer", 2) end, "did you mean 'planar'%?")
  end)
end)

describe("options", function()
  it("that are no table, or hold what has no name, are refused", function()
    for _, f in ipairs {
      function() pn.zeros({ 2 }, "float32") end, function() pn.full({ 2 }, 1, "float32") end,
      function() pn.tensor({ 1, 2 }, "float32") end, function() pn.randperm(3, 1) end,
      function() pn.linspace(0, 1, 3, true) end, function() pn.grad(w * 2, { w }, true) end,
      function() pn.optim.adam({ w }, 0.1) end,
    } do
      local _, message = pcall(f)
      assert.matches("option_spec.lua:%d+: [%w_]+: options must be a table, got %a+$", message)
    end
    -- settings of layers also stand by position, as help prints them
    assert.matches("option_spec.lua:%d+: linear: bias must be true or false, got string$",
      select(2, pcall(function() pn.nn.linear(2, 3, "float32") end)))
    for _, f in ipairs { function() pn.optim.adam({ w }, { 0.1 }) end, function() pn.nn.linear(2, 3, { false }) end,
      function() pn.grad(w * 2, { w }, { true }) end } do
      local _, message = pcall(f)
      assert.matches("option_spec.lua:%d+: [%w_]+: options have names %(.*%), got '1'$", message)
    end
  end)
end)
