-- What is saved comes back: tables within tables, any names, numbers and strings to the bit; other readers see tensors.
local pn = require "penumbra"
local core = require "penumbra.core"

local path

before_each(function() path = os.tmpname() end)
after_each(function() os.remove(path) end)

-- Equal to the bit: types, floats, tensors, distributions.
local function same(a, b, where)
  where = where or "it"
  assert(math.type(a) == math.type(b) and type(a) == type(b), where .. ": " .. tostring(a) .. " for " .. tostring(b))
  if type(a) == "table" then
    assert.is_nil(getmetatable(a))
    for key in pairs(a) do
      assert(b[key] ~= nil, where .. " has no " .. tostring(key))
    end
    for key in pairs(b) do
      same(a[key], b[key], where .. "." .. tostring(key))
    end
  elseif core.is_tensor(a) then
    assert.same(b:shape(), a:shape())
    assert.equal(b:dtype(), a:dtype())
    assert.same(tostring(b), tostring(a))
    assert.same(b:totable(), a:totable())
  elseif type(a) == "number" and math.type(a) == "float" then
    assert.equal(string.pack("<d", b), string.pack("<d", a), where)
  elseif type(a) == "userdata" then
    assert.equal(tostring(b), tostring(a), where)
  else
    assert.equal(b, a, where)
  end
end

local function round(t)
  assert(pn.save(path, t))
  same(assert(pn.load(path)), t)
  same(assert(pn.load(path, { nested = true })), t)
end

local function file_names()
  local names = {}
  for name in pairs((core.files.load_safetensors(path))) do
    names[#names + 1] = name
  end
  table.sort(names)
  return names
end

describe("a saved table", function()
  it("of nested states comes back with its names", function()
    local net = pn.nn.sequential { pn.nn.linear(2, 3), pn.nn.relu(), pn.nn.linear(3, 1) }
    local opt = pn.optim.adam(net:parameters(), { lr = 0.1 })
    opt:step(net(pn.randn { 4, 2 }):square():sum())
    local g = pn.generator(5)
    pn.randn({ 3 }, { generator = g })
    round { model = net:state(), opt = opt:state(), epoch = 7, rng = g:state(), lr = 0.1, done = false }
    assert.same({ "model.1.bias", "model.1.weight", "model.3.bias", "model.3.weight" },
      { table.unpack(file_names(), 1, 4) })
    local saved = pn.load(path)
    net:load_state(saved.model)
    opt:load_state(saved.opt)
    local other = pn.generator(1)
    other:set_state(saved.rng)
    same(pn.randn({ 3 }, { generator = other }), pn.randn({ 3 }, { generator = g }))
  end)

  it("keeps numbers and strings to the bit", function()
    local bits = { 0x7ff8000000000001, 0x7ff0000000000001, -1, 1, 0x3ff0000000000001, 0x0010000000000000 - 1 }
    local t = { inf = math.huge, minus = -math.huge, zero = -0.0, third = 1 / 3, tiny = 5e-324,
      big = 1.7976931348623157e308,
      one = 1.0, whole = 1, least = math.mininteger, most = math.maxinteger, near = 0.1 + 0.2, e = 1e22, yes = true,
      no = false, empty = "", bytes = "\0\1\255\\\"'\r\n\xc3(", text = "\u{e4} \\x41 {}[] , = tensor \"x\"", long =
      ("x"):rep(70000) }
    for k, b in ipairs(bits) do
      t["bits" .. k] = string.unpack("<d", string.pack("<i8", b))
    end
    for k = 1, 200 do
      t[k] = math.random() * 10 ^ math.random(-300, 300)
    end
    round(t)
    round { t, { t } }
  end)

  it("keeps any names and shapes", function()
    local x, y, z = pn.randn { 2, 3 }, pn.tensor({ 1, 2 }, { dtype = "int64" }), pn.tensor { true, false }
    round { x, y, { z, { x } }, {}, { {} } }
    round {}
    round { empty = {} }
    round { ["1"] = x, [1] = y, [-3] = z, ["01"] = x, ["1.0"] = y }
    round { ["a.b"] = x, a = { b = y, ["b.c"] = z }, ["a.b.c"] = x, ["a.b#2"] = y }
    round { [""] = x, ["."] = y, [".."] = { [""] = z } }
    round { __metadata__ = x, ["\0"] = y, ["a\0b"] = z, ["\xff"] = x, ["%FF"] = y, ['"]'] = z, ["\n"] = { ["\\"] = x } }
    round { ["penumbra.structure"] = x, ["penumbra.kind:x"] = { y }, n = 1 }
  end)

  it("keeps distributions, whose names are nobody else's", function()
    local d, b = pn.dist.normal(pn.zeros { 2 }, { 1, 2 }), pn.dist.bijector.affine(1, 2)
    local flow = pn.dist.transformed(d, pn.dist.bijector.chain { b, pn.dist.bijector.tanh() })
    round { d, { flow = flow, b = b, s = pn.dist.natural.scalar(1, -2) }, n = 3 }
    round { ["a.b"] = d, a = { b = flow } }
    round { a = { d }, ["a.1"] = flow, ["a.1.loc"] = pn.ones(3), ["a.1.other"] = pn.ones(2) }
    round { a = flow, ["a.1"] = d, ["a.2.1.loc"] = pn.ones(1) }
    round { d = d, ["d.loc"] = pn.ones(1), ["d.what"] = pn.ones(2) }
  end)

  it("that is plain is a file like anybody's", function()
    local x, y = pn.randn { 3 }, pn.ones(1)
    assert(pn.save(path, { ["net.1.weight"] = x, bias = y, prior = pn.dist.normal(0, 1) }, { note = "n" }))
    local _, _, texts = core.files.load_safetensors(path)
    assert.is_nil(texts["penumbra.structure"])
    assert(pn.save(path, { net = { { weight = x } }, bias = y, n = 1 }, { note = "n" }))
    assert.same({ "bias", "net.1.weight" }, file_names())
    local flat, metadata = pn.load(path, { nested = false })
    assert.same({ note = "n" }, metadata)
    same(flat, { bias = y, ["net.1.weight"] = x })
  end)

  it("of another writer keeps its dotted names", function()
    local x = pn.randn { 3 }
    assert(core.files.save_safetensors(path, { "a.1.b", "c" }, { x, x }, {}, {}))
    same(assert(pn.load(path)), { ["a.1.b"] = x, c = x })
    same(assert(pn.load(path, { nested = true })), { a = { { b = x } }, c = x })
  end)

  it("whose description is damaged is refused with a reason, whatever the damage", function()
    local x = pn.ones(1)
    assert(pn.save(path, { a = { x, "s", 1.5, true, 0 / 0 }, ["b.c"] = x, d = {} }))
    local _, _, texts = core.files.load_safetensors(path)
    local text = texts["penumbra.structure"]
    local function try(damaged)
      assert(core.files.save_safetensors(path, { "a.1", "b.c" }, { x, x }, { "penumbra.structure" }, { damaged }))
      local t, message, code = pn.load(path)
      if t == nil then
        assert.equal("format", code)
        assert.matches("^load: ", message)
        assert(pn.load(path, { nested = false })["b.c"])
      end
      return t, message
    end
    assert(try(text))
    for i = 1, #text do
      assert(not try(text:sub(1, i - 1)), i)
      try(text:sub(1, i - 1) .. text:sub(i + 1))
      try(text:sub(1, i - 1) .. "}" .. text:sub(i))
      assert(not try(text:sub(1, i) .. ("{"):rep(1 + i % 3)))
    end
    assert(not try(""))
    assert(not try "x")
    assert(not try(('{["a"] = '):rep(100000)))
    assert.matches("tensor 'b.c' is not in the description", select(2, try '{["a"] = tensor "a.1"}'))
    assert(not try '{["a"] = tensor "a.1", ["b"] = tensor "nowhere"}')
    assert(not try '{["a"] = tensor "a.1", ["a"] = tensor "b.c"}')
  end)

  it("is the same file for the same content", function()
    local function bytes(t)
      assert(pn.save(path, t))
      local f = assert(io.open(path, "rb"))
      local text = f:read "a"
      f:close()
      return text
    end
    local x, one, two = pn.ones(2), {}, {}
    for k = 1, 50 do
      one["k" .. k], two["k" .. 51 - k] = { x, k }, { x, 51 - k }
    end
    assert.equal(bytes(one), bytes(two))
  end)
end)
