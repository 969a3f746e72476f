--- One vocabulary of options: no module's own list of options has a word that penumbra.words calls something else, a
--- word in two modules' lists stands in its glossary, the glossary has no word that nobody takes, and no comment, text
--- or script writes `old =` of a word that has gone everywhere, nor help's line of a function one that is gone as an
--- option.
local tool = require "spec.gates.tool"

-- Words gone in every sense, which a text may not teach. (Others, as `samples`, may be somebody's variable.)
local GONE = { "num_samples", "n_samples", "num_draws", "num_paths", "n_particles", "max_iterations", "max_iter",
  "num_epochs", "on_iteration", "belief_paths" }

-- Words gone as options, which the line that help shows of a function may not have.
local UNSAID = { "iterations", "samples", "sweeps", "minibatch", "batch", "callback", "rng", "mask" }

-- The options in the line of a function, as in "--- fit{series =, steps =, ...}: trains": between its first brace and
-- the last.
local function said_of(text)
  local options = text:match "^%-%-%- [%a_][%w_.:]*%s*[{(](.*)[})]"
  return options and options:match "^[^{}]*{(.*)$" or text:match "^%-%-%- [%a_][%w_.:]*%s*{(.*)}"
end

-- The tokens of a Lua text: lists of {text, line}; strings as their quotes, comments left out.
local function tokens(text)
  local list, at, line = {}, 1, 1
  local function skip(pattern)
    local from, to = text:find("^" .. pattern, at)
    if from then
      line, at = line + select(2, text:sub(from, to):gsub("\n", "")), to + 1
    end
    return from
  end
  local function long()
    local level = text:match("^%-?%-?%[(=*)%[", at)
    local _, to = text:find("]" .. (level or "") .. "]", at, true)
    if level and to then
      line, at = line + select(2, text:sub(at, to):gsub("\n", "")), to + 1
      return true
    end
  end
  local function passed_over()
    return skip "%s+" or text:find("^%-%-%[=*%[", at) and long() or skip "%-%-[^\n]*"
  end
  while at <= #text do
    while passed_over() do end
    local from = at
    if text:find("^%[=*%[", at) and long() then
      list[#list + 1] = { '""', line }
    elseif text:find("^[\"']", at) then
      local quote = text:sub(at, at)
      at = at + 1
      while at <= #text and text:sub(at, at) ~= quote do at = at + (text:sub(at, at) == "\\" and 2 or 1) end
      at = at + 1
      list[#list + 1] = { '""', line }
    else
      at = (text:match("^[%a_][%w_]*()", at) or text:match("^%d[%w.]*()", at) or at + 1)
      list[#list + 1] = { text:sub(from, at - 1), line }
    end
  end
  return list
end

local opens = { ["{"] = 1, ["("] = 1, ["["] = 1, ["}"] = -1, [")"] = -1, ["]"] = -1 }
local blocks = { ["function"] = 1, ["if"] = 1, ["do"] = 1, ["repeat"] = 1, ["end"] = -1, ["until"] = -1 }

-- Calls visit(word, line) for the fields that the table constructor at t[k] names.
local function each_field(t, k, visit)
  local depth, inside = 0, 0
  repeat
    local word = t[k][1]
    inside = inside + ((inside > 0 or word == "function") and blocks[word] or 0)
    if inside == 0 then
      depth = depth + (opens[word] or 0)
      if depth == 1 and word:find "^[%a_]" and t[k + 1][1] == "=" and t[k + 2][1] ~= "=" then visit(word, t[k][2]) end
    end
    k = k + 1
  until depth == 0 or not t[k + 2]
end

-- The token after the second comma of the call whose parenthesis is t[k].
local function third_argument(t, k)
  local depth, commas = 0, 0
  repeat
    depth = depth + (opens[t[k][1]] or 0)
    commas = commas + (depth == 1 and t[k][1] == "," and 1 or 0)
    k = k + 1
  until commas == 2 or depth == 0 or not t[k]
  return commas == 2 and k
end

-- Calls visit(word, line) for the words of a module's lists of options: tables that options.check is given, at once or
-- by a name of the file, and those whose names say what they are.
local function each_option(text, visit)
  local t, named = tokens(text), { known = true }
  for k = 1, #t - 3 do
    if t[k][1] == "options" and t[k + 1][1] == "." and t[k + 2][1] == "check" and t[k + 3][1] == "(" then
      local third = third_argument(t, k + 3)
      if third and t[third][1] == "{" then
        each_field(t, third, visit)
      elseif third then
        named[t[third][1]] = true
      end
    end
  end
  for k = 1, #t - 2 do
    local name = t[k][1]
    if (named[name] or name:find "options$") and t[k + 1][1] == "=" and t[k + 2][1] == "{" then
      each_field(t, k + 2, visit)
    end
  end
end

-- The words of the glossary, and what has gone, out of the tree's own file.
local function vocabulary(root)
  local text = tool.read(root .. "/lua/penumbra/words.lua") or ""
  local glossary = {}
  for line in text:gmatch "\n%-%-%-     (%l[^\n]*)" do
    for word in ((line:match "^(.-)%s%s" or line:match "^%S+" or "") .. ","):gmatch "([%w_]+),%s*" do
      glossary[word] = true
    end
  end
  return glossary, assert(load(text))().called
end

-- A chapter without the programs in which it shows what another library calls it.
local function ours(text)
  return (text:gsub("```python\n.-\n```", function(block) return (block:gsub("[^\n]", "")) end))
end

return function(root)
  local found, places, taken = {}, {}, {}
  local function complain(...) found[#found + 1] = (...):format(select(2, ...)) end
  local glossary, called = vocabulary(root)
  for _, path in ipairs(tool.files(root, "lua", "*.lua")) do
    each_option(tool.read(root .. "/" .. path) or "", function(word, line)
      taken[word] = true
      if called[word] and not glossary[word] then
        complain("%s:%d: option %s is called %s", path, line, word, table.concat(called[word], " or "))
      end
      local before = places[word]
      if before and before ~= path and not glossary[word] then
        complain("%s:%d: option %s is of %s, too: say in lua/penumbra/words.lua what it means", path, line, word,
          before)
      end
      places[word] = before or path
    end)
  end
  for word in pairs(glossary) do
    if not taken[word] then complain("lua/penumbra/words.lua: no module takes %s", word) end
  end
  for _, path in ipairs(tool.files(root, "README.md examples lua spec", "*.lua", "*.md")) do
    local line = 0
    for text in (ours(tool.read(root .. "/" .. path) or "") .. "\n"):gmatch "(.-)\n" do
      line = line + 1
      for _, word in ipairs(path ~= "lua/penumbra/words.lua" and path ~= "spec/gates/vocabulary.lua" and GONE or {}) do
        if text:find("%f[%w_]" .. word .. "%s*=[^=]") and not text:find "is called"
          and not text:find("#%s*" .. word) then -- (a comment of CmdStan's files)
          complain("%s:%d: %s = has gone", path, line, word)
        end
      end
      local said = path:find "^lua/" and said_of(text)
      for _, word in ipairs(said and UNSAID or {}) do
        if said:find("%f[%w_]" .. word .. "%s*=") then
          complain("%s:%d: help says %s =, which is called %s", path, line, word, table.concat(called[word], " or "))
        end
      end
    end
  end
  table.sort(found)
  return found
end
