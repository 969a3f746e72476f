--- Errors on a nil that an operational failure left behind, and errors of Lua's own functions that are given a tensor.
local core = require "penumbra.core"
local pn = require "penumbra"

local here = debug.getinfo(1, "S").short_src
local indefinite = pn.tensor { { 1, 2 }, { 2, 1 } }
local reason = "cholesky: matrix must be positive definite, got a leading minor of order 2 that is not"

-- The message of f's failure as the command, the prompt and the runtime report it.
local function reported(f)
  local _, message = xpcall(f, function(text) return core.traceback(text) end)
  return (message:gsub("\n.*", ""))
end

local function line_of(f) return debug.getinfo(f, "S").linedefined end

describe("the last failure", function()
  it("is told where its nil is used", function()
    for _, f in ipairs {
      function() return indefinite:cholesky():sum() end,
      function() local l = indefinite:cholesky() return l[1] end,
      function() local l = indefinite:cholesky() return l + 1 end,
      function() local l = indefinite:cholesky() return 2 < l end,
      function() local l = indefinite:cholesky() return #l end,
      function() local t = { l = indefinite:cholesky() } return t.l:sum() end,
      function() local l = indefinite:cholesky() return l() end,
      function() local l = indefinite:cholesky() return math.floor(l) end,
    } do
      local message = reported(f)
      local tail = ("; the last failure was %s:%d: %s"):format(here, line_of(f), reason)
      assert.equal(tail, message:sub(-#tail), message)
    end
  end)

  it("is told by functions that are given its nil", function()
    for _, f in ipairs {
      function() return pn.exp(indefinite:cholesky()) end,
      function() local l = indefinite:cholesky() return pn.matmul(l, l) end,
      function() pn.dist.multivariate_normal { loc = pn.zeros(2), scale_tril = indefinite:cholesky() or nil } end,
    } do
      local ok, message = pcall(f)
      local tail = "; the last failure was " .. reason
      assert.is_false(ok)
      assert.equal(tail, message:sub(-#tail), message)
      assert.equal(message, reported(f)) -- once
    end
  end)

  it("is that of a function in Lua too", function()
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write "no tensors"
    file:close()
    local message = reported(function() return pn.load(path).weight end)
    os.remove(path)
    assert.matches("attempt to index a nil value; the last failure was " .. here:gsub("%p", "%%%0") .. ":%d+: .*load",
      message)
  end)

  it("is not told where nothing was nil", function()
    local _ = indefinite:cholesky()
    assert.is_nil(reported(function() return pn.ones(2):matmul(pn.ones(3)) end):find("last failure", 1, true))
    assert.is_nil(reported(function() error "nil" end):find("last failure", 1, true))
  end)
end)

describe("a function of Lua that wants a number", function()
  it("is told how a tensor gives it", function()
    for _, f in ipairs {
      function() return ("%d"):format(pn.tensor(5)) end,
      function() return ("%.3f"):format(pn.tensor(5)) end,
      function() return math.sqrt(pn.tensor(5)) end,
    } do
      assert.matches("number expected, got tensor%); the number of a tensor with one element is x:item%(%)$",
        reported(f))
    end
  end)
end)
