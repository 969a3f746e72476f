--- The expression that ends several lines of code: a notebook shows its values.
-- help: nowhere
local ending = {}

local REACH = 100 -- lines of such an expression

local function compiles(code) return load(code, "=code", "t", {}) ~= nil end

--- The code with `return` before the expression in its last lines, line numbers kept; nil if these are no expression. A
--- call, which is a statement as well, counts; where the last lines are an operand of what is
--- above them (`x = y` and, below it, `-1`), they stay that.
function ending.split(code)
  local lines, whole = {}, compiles(code)
  for line in (code .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  for k = #lines, math.max(1, #lines - REACH), -1 do
    local tail = table.concat(lines, "\n", k)
    local is_expression = compiles("return " .. tail) and compiles("local _ = " .. tail)
    if is_expression and (not whole or tail:find "^%s*[%a_]") then
      local split = table.concat(lines, "\n", 1, k - 1) .. (k > 1 and "\n" or "") .. "return " .. tail
      if compiles(split) then return split end
    end
  end
end

return ending
