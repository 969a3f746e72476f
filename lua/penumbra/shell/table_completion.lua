--- Completion inside the braces of a call that is being typed, `pn.nuts(model, { ta`: the options of the function, and
--- what an option may be, `{ metric = "de`.
-- help: nowhere
local table_completion = {}

---- where the cursor is ----

-- The position after what begins at `at` and is no code: a comment, a string; nil for code.
local function after_text(text, at)
  local level = text:match("^%-%-%[(=*)%[", at) or text:match("^%[(=*)%[", at)
  if level then
    local _, stop = text:find("]" .. level .. "]", at, true)
    return (stop or #text) + 1
  elseif text:find("^%-%-", at) then
    return text:match("^[^\n]*()", at)
  end
  local quote = text:match("^[\"']", at)
  if not quote then return nil end
  local k = at + 1
  while k <= #text do
    local letter = text:sub(k, k)
    if letter == quote then return k + 1 end
    if letter == "\n" then return k end
    k = k + (letter == "\\" and 2 or 1)
  end
  return #text + 1
end

local closes = { ["("] = ")", ["{"] = "}", ["["] = "]" }

local function end_entry(frame, text, stop)
  local key = text:sub(frame.start, stop):match "^%s*([%a_][%w_]*)%s*=[^=]"
  if key then frame.used[key] = true end
  frame.start = stop + 2
end

-- The brackets that are open at the end of the text, innermost last: {bracket, at, start = of the entry that is being
-- typed, used = {key = true}}.
local function open_brackets(text)
  local stack, at = {}, 1
  while at <= #text do
    local after = after_text(text, at)
    if after then
      at = after
    else
      local letter, top = text:sub(at, at), stack[#stack]
      if closes[letter] then
        stack[#stack + 1] = { bracket = letter, at = at, start = at + 1, used = {} }
      elseif top and letter == closes[top.bracket] then
        stack[#stack] = nil
      elseif top and (letter == "," or letter == ";") then
        end_entry(top, text, at - 1)
      end
      at = at + 1
    end
  end
  return stack
end

-- The name of the function whose table is open: `f{`, `f(x, {`.
local function called(text, stack)
  local top, below = stack[#stack], stack[#stack - 1]
  if not top or top.bracket ~= "{" then return nil end
  local path = "([%a_][%w_.:%[%]\"']*)%s*$"
  local direct = text:sub(1, top.at - 1):match(path)
  if direct and direct ~= "return" then return direct end
  return below and below.bracket == "(" and text:sub(1, below.at - 1):match(path) or nil
end

---- what fits there ----

local function starting(list, prefix)
  local fitting = {}
  for _, word in ipairs(list) do
    if word:sub(1, #prefix) == prefix then fitting[#fitting + 1] = word end
  end
  table.sort(fitting)
  return fitting
end

-- What an option may be, as far as it is typed.
local function values_of(option, typed)
  local quote, prefix = typed:match "^([\"'])([^\"']*)$"
  local list = {}
  if option.choices then
    for _, choice in ipairs(option.choices) do
      if type(choice) == "string" then
        list[#list + 1] = quote and choice .. quote or typed == "" and ("%q"):format(choice) or nil
      end
    end
    return starting(list, prefix or ""), #(prefix or "")
  elseif option.kind == "boolean" and typed:find "^%a*$" then
    return starting({ "true", "false" }, typed), #typed
  end
end

--- complete(text, options_of): what may complete the text of a statement up to the cursor, a sorted list, and how many
--- bytes at its end they replace; nil where nothing is known. options_of(path): the options of the function of that
--- name, as penumbra.shell.known_options has them, or nil.
function table_completion.complete(text, options_of)
  local stack = open_brackets(text)
  local path = called(text, stack)
  local options = path and options_of(path)
  if not options then return nil end
  local top = stack[#stack]
  local entry = text:sub(top.start)
  local key, typed = entry:match "^%s*([%a_][%w_]*)%s*=%s*(.*)$"
  if key then
    for _, option in ipairs(options) do
      if option.name == key then
        local list, n = values_of(option, typed)
        return list and #list > 0 and list or nil, n
      end
    end
    return nil
  end
  local prefix = entry:match "^%s*([%a_]?[%w_]*)$"
  local names = {}
  for _, option in ipairs(prefix and options or {}) do
    if not top.used[option.name] then names[#names + 1] = option.name end
  end
  local list = starting(names, prefix or "")
  return #list > 0 and list or nil, #(prefix or "")
end

return table_completion
