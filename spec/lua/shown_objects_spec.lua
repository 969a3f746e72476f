--- What the public interface makes says what it is when it is printed: no object is shown as an address alone.
local pn = require "penumbra"

describe("an object that is printed", function()
  local objects = assert(loadfile "spec/fuzz/objects.lua")(pn, function(...) return ... end)
  local kinds = {}
  for kind in pairs(objects) do kinds[#kinds + 1] = kind end
  table.sort(kinds)

  -- Plain tables of results, functions, and what compile makes are what they are.
  local function plain(x)
    return type(x) == "table" and not getmetatable(x) or type(x) == "function" or tostring(x):find "^compiled function"
  end

  for _, kind in ipairs(kinds) do
    it("says what it is: " .. kind, function()
      pn.seed(1)
      local x = objects[kind]()
      if plain(x) then return end
      local text = tostring(x)
      assert(not text:find "0x%x%x%x%x+", text)
      assert(#text > 0)
    end)
  end

  it("says what it was when it is closed", function()
    local f = objects.online()
    f:close()
    assert.equal("closed filter", tostring(f))
  end)

  it("tells sizes and steps", function()
    local s = pn.smc.linear_system { transition = pn.eye(3), transition_cov = pn.eye(3), emission = pn.ones { 2, 3 },
      emission_cov = pn.eye(2), initial_mean = pn.zeros { 3 }, initial_cov = pn.eye(3) }
    assert.equal("linear_system: state 3, observation 2", tostring(s))
    local f = pn.smc.exact_filter(s)
    f:observe(pn.zeros { 2 })
    assert.equal("filter at t = 1", tostring(f))
    assert.matches("^structural model: level %+ irregular", tostring(objects.structural_fit()))
  end)
end)
