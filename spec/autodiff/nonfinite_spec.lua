--- Where the first number that is not finite arose, wherever it lies in a tensor and however that lies in memory.
local pn = require "penumbra"
local core = require "penumbra.core"

-- The same [2, 3] numbers: as they stand, turned, every second of a longer row, from a row on.
local VIEWS = {
  ["as they stand"] = function(x) return x end,
  turned = function(x) return pn.contiguous(x:transpose(1, 2)):transpose(1, 2) end,
  ["every second"] = function(x) return pn.stack({ x, x * 0 }, 3):reshape { 2, 6 }:slice(2, 1, 6, 2) end,
  ["from a row on"] = function(x) return pn.concatenate({ x * 0, x }, 1):slice(1, 3, 4) end,
}

describe("the cause of what is not finite", function()
  for _, dtype in ipairs { "float64", "float32" } do
    it("is found at every place of constants and parameters, " .. dtype, function()
      local w = pn.param(pn.ones { 2, 3, dtype = dtype })
      for name, view in pairs(VIEWS) do
        for at = 1, 6 do
          for word, bad in pairs { NaN = 0 / 0, ["+inf"] = math.huge, ["-inf"] = -math.huge } do
            local list = { 1, 2, 3, 4, 5, 6 }
            list[at] = bad
            local x = pn.tensor(list, { dtype = dtype }):reshape { 2, 3 }
            local cause = core.nonfinite_cause((view(x) * w):sum())
            assert(cause:find("of 'mul' (shape [2, 3], a constant) is " .. word, 1, true), name .. ": " .. cause)
          end
        end
        local whole = pn.tensor({ 1, 2, 3, 4, 5, 6 }, { dtype = dtype }):reshape { 2, 3 }
        assert.equal("its origin could not be found", core.nonfinite_cause((view(whole) * w):sum()), name)
      end
      local broken = pn.param(pn.tensor({ 1, 2, 0 / 0 }, { dtype = dtype }))
      assert.matches("a parameter of shape %[3%] is already NaN", core.nonfinite_cause(broken:sum()))
      local root = pn.param(pn.tensor({ 4, -1 }, { dtype = dtype })):sqrt():sum()
      assert.matches("'sqrt' %(result of shape %[2%]%) gave NaN from finite inputs", core.nonfinite_cause(root))
    end)
  end
end)
