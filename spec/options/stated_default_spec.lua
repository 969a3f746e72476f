--- The defaults that doc comments state, "(100)" behind the meaning of an option or "draws = 100" in a call, are those
--- that the library has.
local pn = require "penumbra"
local battery = require "spec.options.option_battery"

-- The Lua function behind a public one.
local function inner(f)
  if debug.getinfo(f, "S").what ~= "C" then return f end
  local _, within = debug.getupvalue(f, 1)
  return type(within) == "function" and debug.getinfo(within, "S").what ~= "C" and within or nil
end

local texts = {}

-- Lines of the comment above a function.
local function comment_of(f)
  local info, list = debug.getinfo(f, "S"), {}
  local path = info.source:gsub("^@", "")
  if not texts[path] then
    texts[path] = {}
    local file <close> = io.open(path)
    for line in file and file:lines() or function() end do table.insert(texts[path], line) end
  end
  local k = info.linedefined - 1
  while (texts[path][k] or ""):find "^%-%-" do
    table.insert(list, 1, (texts[path][k]:gsub("^%-+ ?", "")))
    k = k - 1
  end
  return list
end

-- The numbers that the comment states for an option: at the head of its paragraph, first in brackets there, or behind
-- "name =" anywhere; of a paragraph for several options any.
local function stated(comment, name)
  local found, within, several = {}, false, false
  local function take(word) found[#found + 1] = tonumber((word:gsub("[.:]$", ""))) end
  for _, line in ipairs(comment) do
    local names, meaning = line:match "^([%w_]+[%w_, ]-)  +(%S.*)$"
    within = names and names:find("%f[%w_]" .. name .. "%f[^%w_]") ~= nil or within and line:find "^%s+%S" ~= nil
    if within then
      take((meaning or ""):match "^%-?[%w.%-]+:?" or "")
      several = names and names:find "," ~= nil or not names and several
      for word in line:gmatch(several and "%-?[%w.%-]+" or "%((%-?[%w.%-]+)") do take(word) end
    end
    for word in line:gmatch("%f[%w_]" .. name .. " = (%-?[%w.%-]+)") do take(word) end
  end
  return found
end

--- Numbers that are no defaults: of an example call, or of another case than the plain one.
local OTHERS = {
  "pn.brownian tolerance", -- 2^-14
  "pn.check_gradients order", "pn.data.lags fill", "pn.infer.stream draws", "pn.invariance.curves noise_variance",
  "pn.invariance.fit_layers draws", "pn.models.rsgls_issm switches", "pn.optim.lbfgs history", "pn.sde step",
}

describe("a doc comment", function()
  it("states the defaults that are", function()
    pn.seed(1)
    local objects = assert(loadfile "spec/fuzz/objects.lua")(pn, function(...) return ... end)
    local count, wrong = 0, {}
    for _, entry in ipairs(battery.functions(objects)) do
      local name, f, options = table.unpack(entry)
      local within = inner(f)
      local comment = within and comment_of(within) or {}
      for _, option in ipairs(options) do
        local numbers = type(option.default) == "number" and stated(comment, option.name) or {}
        local same = false
        for _, value in ipairs(numbers) do same = same or value == option.default end
        if same then
          count = count + 1
        elseif #numbers > 0 then
          wrong[#wrong + 1] = ("%s %s"):format(name, option.name)
          if os.getenv "STATED" then print(wrong[#wrong], option.default, table.concat(numbers, " ")) end
        end
      end
    end
    table.sort(wrong)
    assert.same(OTHERS, wrong)
    assert(count > 150, count .. " stated")
  end)
end)
