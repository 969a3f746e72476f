--- Networks as ONNX files: bytes that onnx.checker has accepted and what onnxruntime computes by them
--- (spec/golden/nn/onnx_values.py); what is not written, by name. `make formats` asks these programs anew.
local pn = require "penumbra"
local helper = require "spec.helper"
local refuses, nn = helper.refuses, pn.nn

local golden = assert(pn.data.json "spec/golden/nn/onnx_values.json")
local cases = dofile "spec/golden/nn/onnx_cases.lua"(pn)

local path = os.tmpname()
teardown(function() os.remove(path) end)

local function written(net, given)
  assert.is_true(nn.save_onnx(path, net, given))
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

local function from_hex(text)
  return (text:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

describe("a network as ONNX", function()
  local n = 0
  for name, case in pairs(cases) do
    n = n + 1
    it("has the bytes and the values that onnxruntime has: " .. name, function()
      local text = written(case.net, { shape = case.shape, dtype = case.dtype })
      assert.is_true(text == from_hex(golden[name].file))
      local compared = 0
      for k, shape in ipairs(case.tried) do
        local want = golden[name].y[k]
        local y = nn.mode("mean", function() return case.net(case.input(shape)) end):reshape { -1 }
        if type(want) == "table" then
          want = pn.tensor(want)
          local scale = math.max(1, want:abs():max():item())
          assert.is_true((y - want):abs():max():item() < 1e-6 * scale)
          compared = compared + 1
        end
      end
      assert.is_true(compared > 0)
    end)
  end

  it("is of every case, and every activation", function()
    local count = 0
    for _ in pairs(golden) do count = count + 1 end
    assert.equal(n, count)
    assert.is_true(n >= 36)
  end)

  it("is the same whatever mode the layers are in, and leaves the network as it was", function()
    local net = cases.batch_norm.net
    local before = net:state()["2.running_mean"]
    local a = written(net, { shape = { -1, 5 } })
    local b = nn.mode("training", function() return written(net, { shape = { -1, 5 } }) end)
    assert.is_true(a == b)
    assert.is_true(before:eq(net:state()["2.running_mean"]):all():item())
  end)

  it("names its axes: numbers where they are fixed, names where they are free", function()
    local text = written(cases.stacked.net, { shape = { -1, -1, 3 }, name = "both" })
    assert.truthy(text:find("\10\7\18\5batch", 1, true)) -- dim_param
    assert.truthy(text:find("axis_2", 1, true) and text:find("both", 1, true))
    assert.is_nil(written(cases.mlp.net, { shape = { 4, 5 } }):find("batch", 1, true))
  end)

  it("of float32 has its weights to the bit", function()
    local net = nn.linear(2, 1, { dtype = "float32", bias = false })
    net:parameters()[1]:set(pn.tensor({ { 0.1 }, { -3.7 } }, { dtype = "float32" }))
    assert.truthy(written(net, { shape = { -1, 2 } }):find(string.pack("<ff", 0.1, -3.7), 1, true))
  end)

  it("counts the axis of a concat from 0", function()
    local function of(axis)
      local text = written(nn.concat({ nn.linear(2, 2), nn.linear(2, 2) }, axis), { shape = { 3, 2 } })
      return text:match "axis\24([\0-\255])"
    end
    assert.same({ "\0", "\1" }, { of(1), of(2) })
    assert.same({ "\255", "\255", "\254" }, { of(nil), of(-1), of(-2) }) -- the first of ten bytes of a varint
  end)

  it("takes modules of one's own that say what they are", function()
    local net = nn.sequential { nn.linear(2, 3), nn.module { scale = pn.param(pn.tensor { 1, 2, 3 }),
      forward = function(self, x) return x * self.scale end,
      to_onnx = function(self, graph, x) return graph:node("Mul", { x, graph:constant(self.scale, "scale") }) end } }
    local text = written(net, { shape = { -1, 2 } })
    assert.truthy(text:find("2.scale", 1, true) and text:find(string.pack("<fff", 1, 2, 3), 1, true))
  end)
end)

describe("what is not written", function()
  local function fails(want, net, shape)
    refuses(want, nn.save_onnx, path, net, { shape = shape or { -1, 4 } })
  end

  it("is named", function()
    fails("part '2' is a layer highway", nn.sequential { nn.linear(4, 4), nn.highway(4) })
    fails("part '1.body.2' is a layer bilinear", nn.sequential { nn.residual(nn.sequential { nn.tanh(),
      nn.bilinear(4, 4, 4) }) })
    fails("part '1' is a function", nn.sequential { function(x) return x end })
    fails("part '1' is a module of its own without a field to_onnx", nn.sequential { nn.module {
      forward = function(_, x) return x end } })
    fails("whose to_onnx returns no name", nn.module { forward = function(_, x) return x end,
      to_onnx = function() return "z" end })
    fails("a dropout that draws in evaluation too", nn.sequential { nn.dropout { rate = 0.5, always = true } })
    fails("adaptive_avg_pool2d of a size above 1", nn.sequential { nn.adaptive_avg_pool2d(2) }, { -1, 4, 8, 8 })
    fails("recurrent layer of a value with 2 axes", nn.gru(4, 3), { -1, 4 })
  end)

  it("and what does not fit is refused", function()
    fails("4", nn.linear(4, 2), { -1, 5 })
    fails("shape[2] must be a size from 1 on", nn.linear(4, 2), { -1, 0 })
    fails("shape must be that of the input", nn.linear(4, 2), {})
    refuses("net must be a layer or a network, got number", nn.save_onnx, path, 3, { shape = { 1 } })
    refuses("option 'shape' is required", nn.save_onnx, path, nn.linear(1, 1))
    refuses("did you mean 'shape'", nn.save_onnx, path, nn.linear(1, 1), { shap = { 1 } })
    local ok, _, code = nn.save_onnx("/no/such/folder/x.onnx", nn.linear(4, 2), { shape = { -1, 4 } })
    assert.is_nil(ok)
    assert.equal("io", code)
  end)
end)
