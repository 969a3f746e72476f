--- Sizes are multiplied by src/base/size.h: what an allocation is asked for holds no product of its own but with sizeof
--- of arrays, whose count stands by itself; nor does what a variable of that name was last set to.
local tool = require "spec.gates.tool"

-- The arguments of a call whose parenthesis opens at `at`, as texts.
local function arguments(text, at)
  local depth, list, from = 0, {}, at + 1
  for i = at, #text do
    local ch = text:sub(i, i)
    if ch == "(" or ch == "[" or ch == "{" then
      depth = depth + 1
    elseif ch == ")" or ch == "]" or ch == "}" then
      depth = depth - 1
      if depth == 0 then
        list[#list + 1] = text:sub(from, i - 1)
        return list
      end
    elseif ch == "," and depth == 1 then
      list[#list + 1] = text:sub(from, i - 1)
      from = i + 1
    end
  end
  return list
end

-- Constants may be multiplied, since the compiler sees the result; and by 2, which no allocation takes for another
-- number than it is: what is too large stays so or becomes negative.
local function is_raw(expression)
  local s = expression:gsub("sizeof%s*%b()", "S"):gsub("sizeof%s*%*?[%w_%.%->]+", "S")
  s = s:gsub("%(%s*[%w_]+%s*%*+%s*%)", ""):gsub("%(size_t%)", "") -- casts
  s = s:gsub("%f[%w_][%dA-Z][%dA-Z_]*%s*%*%s*%f[%w_][%dA-Z][%dA-Z_]*%f[^%w_]", "N")
  s = s:gsub("%f[%w_]2 %* %f[%w_%(%*]", "")
  return s:find("[%w_%)%]]%s*%*%s*[%w_%(%*]") ~= nil
end

-- What `name` was last set to before `at`.
local function last_value(text, name, at)
  local value
  local pattern = "%f[%w_]" .. name:gsub("[%->%.]", "%%%0") .. "%s*=%s*([^=;][^;]*)"
  for where, expression in text:sub(1, at - 1):gmatch("()" .. pattern) do
    value = where and arguments("(" .. expression .. ")", 1)[1]
  end
  return value
end

return function(root)
  local found = {}
  for _, path in ipairs(tool.files(root, "src", "*.[ch]")) do
    local text = path:find "^src/base/memory" and "" or tool.code(tool.read(root .. "/" .. path))
    for name, at in text:gmatch "%f[%w_](pni_c?alloc[%w_]*)()%s*%(" do
      local size = (arguments(text, text:find("%(", at))[2] or ""):match "^%s*(.-)%s*$"
      local variable = size:gsub("^%(size_t%)", "")
      local value = variable:match "^[%a_][%w_%.%->]*$" and last_value(text, variable, at) or size
      if (name == "pni_alloc" or name == "pni_calloc" or name:find "array$") and is_raw(value) then
        local _, line = text:sub(1, at):gsub("\n", "")
        found[#found + 1] = ("%s:%d: %s of a raw product: %s"):format(path, line + 1, name, value:gsub("%s+", " "))
      end
    end
  end
  return found
end
