-- Saving: every row of distributions and bijectors comes back from a file as it was.
local pn = require "penumbra"
local core = require "penumbra.core"
local bijectors = require "spec.golden.distribution.bijector"
local refuses = require("spec.helper").refuses

local dist, B, N = pn.dist, pn.dist.bijector, pn.dist.natural
local path

before_each(function() path = os.tmpname() end)
after_each(function() os.remove(path) end)

-- Not the tensor that a bijector keeps the inverse of.
local function copy(t)
  return t:detach() + 0
end

describe("a saved distribution", function()
  for _, row in ipairs(pn.rows()) do
    if row.kind == "distribution" then
      it(row.name .. " comes back with its shape and independent axes", function()
        for _, case in ipairs(require("spec.golden.distribution." .. row.name).cases) do
          local params = {}
          for name, v in pairs(case.params) do
            params[name] = pn.tensor(v, { dtype = "float64" })
          end
          local d = dist[row.name](params)
          local shape = { 2, 3 }
          for i, size in ipairs(d.batch_shape) do
            shape[2 + i] = size
          end
          local wide = d:expand(shape):independent(1)
          assert(pn.save(path, { d = d, wide = wide, number = pn.ones { 2 } }))
          local saved, metadata = pn.load(path)
          assert(saved, metadata)
          assert.same({}, metadata)
          assert.same({ 1, 1 }, saved.number:totable())
          for name, want in pairs { d = d, wide = wide } do
            local again = saved[name]
            assert.same(want.batch_shape, again.batch_shape)
            assert.same(want.event_shape, again.event_shape)
            assert.equal(tostring(want), tostring(again))
            local x = want:sample { 4, generator = pn.generator(1) }
            assert.same(x:totable(), again:sample({ 4, generator = pn.generator(1) }):totable())
            assert.same(want:log_prob(x):totable(), again:log_prob(x):totable())
          end
        end
      end)
    end
  end

  it("keeps float32, nested names and the metadata of others", function()
    local d = dist.normal(pn.zeros({ 2 }, { dtype = "float32" }), 1)
    assert(pn.save(path, { layer = { prior = d, posterior = { d, dist.gamma(1, 2) } } }, { note = "mine" }))
    local saved, metadata = pn.load(path, { nested = true })
    assert.same({ note = "mine" }, metadata)
    assert.equal("float32", saved.layer.prior.dtype)
    assert.equal("gamma", saved.layer.posterior[2].name)
    local flat = pn.load(path, { nested = false })
    assert.equal("normal", flat["layer.posterior.1"].name)
    assert.equal("normal", pn.load(path).layer.posterior[1].name)
    refuses("save: a distribution must stand under a name", pn.save, path, d)
  end)

  it("keeps Gaussian factors", function()
    local list = { N.scalar(1, -2), N.diagonal({ 1, 2 }, { 3, -4 }), N.full({ 1, 2 }, { { 2, 1 }, { 1, 3 } }) }
    assert(pn.save(path, { sites = list }))
    local saved = pn.load(path, { nested = true }).sites
    for i, s in ipairs(list) do
      assert.equal(s.form, saved[i].form)
      assert.same(s.precision:totable(), saved[i].precision:totable())
      assert.same(s.precision_mean:totable(), saved[i].precision_mean:totable())
    end
  end)

  it("is refused as a whole where the file says what cannot be", function()
    local function load_with(text, tensors, more)
      local metadata = { ["penumbra.kind:d"] = text }
      for key, value in pairs(more or {}) do
        metadata[key] = value
      end
      local names, list, keys, texts = {}, {}, {}, {} -- what pn.save would not write
      for name, t in pairs(tensors or { ["d.loc"] = pn.zeros { 2 }, ["d.scale"] = pn.ones { 2 } }) do
        names[#names + 1], list[#list + 1] = name, t
      end
      for key, value in pairs(metadata) do
        keys[#keys + 1], texts[#texts + 1] = key, value
      end
      assert(core.files.save_safetensors(path, names, list, keys, texts))
      local saved, message, code = pn.load(path)
      assert.is_nil(saved)
      assert.equal("format", code)
      assert(message:find("load: 'd' cannot be made: ", 1, true), message)
      return message
    end
    local normal = "distribution normal; batch 2; independent 0; parts 0"
    assert.matches("there is no distribution 'nrmal'", load_with((normal:gsub("normal", "nrmal"))))
    assert.matches("scale must be positive, got %-1", load_with(normal,
      { ["d.loc"] = pn.zeros {}, ["d.scale"] = pn.tensor(-1) }))
    assert.matches("described as 'nonsense'", load_with "nonsense")
    assert.matches("described as", load_with "layer linear; parts 0")
    assert.matches("'d.1' is described as having parts", load_with "bijector chain; parts 1000000")
    load_with((normal:gsub("batch 2", "batch 3")))
    load_with((normal:gsub("independent 0", "independent 5")))
    load_with((normal:gsub("; independent 0", "")))
    load_with "distribution mixture; batch ; independent 0; parts 0"
    load_with "distribution transformed; batch 2; independent 0; parts 2"
    load_with("distribution masked; batch 2; independent 0; parts 2",
      { ["d.1"] = pn.ones { 2 }, ["d.2"] = pn.ones { 2 } })
    load_with "natural round; parts 0"
    load_with("bijector inverse; parts 1", {}, { ["penumbra.kind:d.1"] = "bijector inverse; parts 1" })
  end)
end)

describe("a saved bijector", function()
  local function make(case)
    if case.parts then
      local list = {}
      for i, part in ipairs(case.parts) do
        list[i] = make(part)
      end
      return B[case.kind](case.kind == "inverse" and list[1] or list)
    end
    local t = {}
    for name, v in pairs(case.params) do
      t[name] = pn.tensor(v, { dtype = name == "index" and "int64" or "float64" })
    end
    return B[case.kind](t)
  end
  local seen = {}
  for _, case in ipairs(bijectors) do
    seen[case.kind] = (seen[case.kind] or 0) + 1
    it(("%s comes back (%d)"):format(case.kind, seen[case.kind]), function()
      local b, x = make(case), pn.tensor(case.x)
      local d = dist.transformed(dist.normal(0, 1), B.exp())
      assert(pn.save(path, { flow = { b, d } }))
      local again = assert(pn.load(path, { nested = true })).flow[1]
      assert.equal(tostring(b), tostring(again))
      assert.same(b:forward(x):totable(), again:forward(copy(x)):totable())
      assert.same(b:log_abs_det(x):totable(), again:log_abs_det(copy(x)):totable())
    end)
  end
end)
