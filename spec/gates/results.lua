--- Numbers on the pages of papers come from somewhere. A comment directly above each table of results (a block without
--- a language, or rows between bars) says from where:
---   <!-- results: FILE -->              a small file beside the page, what a script has printed
---   <!-- results: SCRIPT ARGUMENTS -->  what the script prints of its kept runs (--show), which are committed
---   <!-- run: COMMAND, YYYY-MM-DD -->   by which command and when, where no file is kept
--- Of the first two each number must be there, rounded as the page has it: those of a line of a block in one line of
--- the source, those of a row in lines that begin with the row's name, or anywhere in a source of few lines. What a
--- column quotes from the document is not judged, nor are tables of scripts, claims and choices. The second result
--- counts both kinds.
local shown = require "spec.shown"
local tool = require "spec.gates.tool"

-- A table with one of these columns says what is done and why, not what came out.
local SETTINGS = {script = true, why = true, reason = true, ["reason; other values"] = true, claim = true}

local SHORT <const> = 80 -- lines of a source in which chance does not find a number

local function cells_of(line)
  local list = {}
  for cell in line:gmatch "|([^|]*)" do list[#list + 1] = cell:match "^%s*(.-)%s*$" end
  return list
end

--- The tables of a page: {line =, rows = lines, head = cells of the head or nil, from = the comment's kind and text}.
local function tables_of(text)
  local list, number, open, from = {}, 0, nil, nil
  local fenced = false
  for line in (text .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    local fence = line:match "^```(.*)$"
    if fence and not fenced then
      fenced, open = true, {line = number, rows = {}, from = from, code = fence ~= ""}
      list[#list + 1] = open
    elseif fence then
      fenced, open, from = false, nil, nil
    elseif fenced then
      open.rows[#open.rows + 1] = line
    elseif line:find "^|" and not open then
      open = {line = number, rows = {}, head = cells_of(line), from = from}
      list[#list + 1] = open
    elseif line:find "^|" then
      if not line:find "^|[%-:|]+$" then open.rows[#open.rows + 1] = line end
    else
      local kind, said = line:match "^<!%-%- (%l+): (.-) %-%->$"
      if kind or line:find "%S" then from = kind and {kind, said} or nil end
      open = nil
    end
  end
  return list
end

-- The numbers of a page's text, where 10,000 is one.
local function numbers(text) return shown.numbers((text:gsub("(%d),(%d%d%d)%f[%D]", "%1%2"))) end

-- The cells of a row that are results: no name of the row, no column of the document.
local function judged(t, row)
  local list = {}
  for k, cell in ipairs(cells_of(row)) do
    local head = (t.head[k] or ""):lower()
    if k > 1 and not head:find "document" and not head:find "published" then list[#list + 1] = cell end
  end
  return table.concat(list, "  ")
end

local function is_result(t)
  if t.code then return false end
  for _, name in ipairs(t.head or {}) do
    if SETTINGS[name:lower()] then return false end
  end
  for _, row in ipairs(t.rows) do
    if #numbers(t.head and judged(t, row) or row) > 0 then return true end
  end
  return false
end

-- The first number that the list of candidates lacks; in order, each once, if `once`.
local function lacks(wanted, have, once)
  local at = 1
  for _, want in ipairs(wanted) do
    local found = false
    for k = once and at or 1, #have do
      found = math.abs(have[k][1] - want[1]) <= math.max(want.unit, 0.0) / 2 * (1 + 1e-6) + 1e-12
      if found then
        at = k + 1
        break
      end
    end
    if not found then return want[2] end
  end
end

-- What a line of a block lacks in the line of the source that has most of it.
local function block_lacks(row, source)
  local wanted = numbers(row)
  local missing
  for _, line in ipairs(#wanted > 0 and source or {}) do
    missing = lacks(wanted, line.numbers, true)
    if not missing then return nil end
  end
  return #wanted > 0 and (#wanted > 1 and "these numbers in one line" or wanted[1][2]) or nil
end

-- What a row lacks in the lines that begin with its name, or, if none do, anywhere in a short source.
local function row_lacks(t, row, source)
  local name, near, all = cells_of(row)[1]:gsub("[`%s]", ""), {}, {}
  local begins = name:gsub(".", function(c) return "%s*" .. c:gsub("%p", "%%%0") end) -- blanks or none within it
  for _, line in ipairs(source) do
    local named = name ~= "" and line.text:find("^" .. begins .. "%f[^%w_]")
    for _, n in ipairs(line.numbers) do
      all[#all + 1] = n
      if named then near[#near + 1] = n end
    end
  end
  if #near == 0 and #source > SHORT then return ("a line of %q, and is too long for a search"):format(name) end
  return lacks(numbers(judged(t, row)), #near > 0 and near or all)
end

--- The lines of a file, or of what a script prints, with their numbers; nil and a reason.
local function source_of(root, build, folder, said)
  local text, ok
  local script, arguments = said:match "^([%w_]+%.lua)%s*(.*)$"
  if script then
    local out = arguments:find "%-%-out" and "" or " --out $T"
    ok, text = tool.run("R=$(cd %s && pwd) B=$(cd %s && pwd) T=$(mktemp -d); trap 'rm -r $T' EXIT; cd %s/%s && "
      .. "LUA_PATH=\"$R/lua/?.lua;$R/lua/?/init.lua;;\" LUA_CPATH=\"$B/lua/?.so;;\" %s %s %s%s", root, build, root,
      folder, os.getenv "LUA" or "lua5.4", script, arguments, out)
    if not ok then return nil, text:match "[^\n]+" or "fails" end
  else
    text = tool.read(("%s/%s/%s"):format(root, folder, said))
    if not text then return nil, "is not there" end
  end
  local lines = {}
  for line in text:gmatch "[^\n]+" do lines[#lines + 1] = {text = line, numbers = shown.numbers(line)} end
  return lines
end

return function(root, build)
  local found, counts, sources = {}, {results = 0, run = 0}, {}
  for _, path in ipairs(tool.files(root, "examples/papers", "README.md")) do
    local folder = path:match "^(.*)/"
    for _, t in ipairs(tables_of(tool.read(root .. "/" .. path))) do
      local kind, said = table.unpack(t.from or {})
      local function complain(form, ...) found[#found + 1] = ("%s:%d: " .. form):format(path, t.line, ...) end
      if not is_result(t) then
        if t.from and counts[kind] then complain "the comment above belongs to a table of results" end
      elseif kind == "run" then
        counts.run = counts.run + 1
        if not said:find "^.+%S, 20%d%d%-%d%d%-%d%d$" then complain("'run: %s' is no command and date", said) end
      elseif kind == "results" then
        counts.results = counts.results + 1
        local key = folder .. " " .. said
        if not sources[key] then sources[key] = {source_of(root, build, folder, said)} end
        local source, why = table.unpack(sources[key])
        if not source then complain("%s %s", said, why) end
        for _, row in ipairs(source and t.rows or {}) do
          local lacking = t.head and row_lacks(t, row, source) or not t.head and block_lacks(row, source)
          if lacking then complain("%s does not have %s: %s", said, lacking, row:sub(1, 60)) end
        end
      else
        complain "no comment says where these numbers come from (see the head of spec/gates/results.lua)"
      end
    end
  end
  for _, path in ipairs(tool.lines("cd %s && ls examples/papers/*/results/*", tool.quote(root))) do
    local folder, name = path:match "^(.*)/(results/.*)$"
    local page = tool.read(("%s/%s/README.md"):format(root, folder)) or ""
    local of_all = page:find "<!%-%- results: [^\n]*%-%-out results"
    if not of_all and not page:find("<!%-%- results: [^\n]*" .. name:gsub("%p", "%%%0")) then
      found[#found + 1] = path .. ": no table is drawn from it"
    end
  end
  return found, ("%d tables backed by files, %d by the command that was run"):format(counts.results, counts.run)
end
