--- The prompt. `penumbra` without arguments runs it with line editing; `lua5.4 -l penumbra.shell` runs it with
--- plain reading. A line is an expression, whose values are shown, or a statement; one that is not finished
--- goes on in the next. `_` is the last result, `_1` to `_9` the last nine, newest first. `?name` is help,
--- `example "name"` prints an example and runs it.
local core = require "penumbra.core"
local doubts = require "penumbra.shell.doubts"
local ending = require "penumbra.shell.ending"
local gnuplot = require "penumbra.plot.gnuplot"
local options = require "penumbra.options"
local pn = require "penumbra"
local pretty = require "penumbra.shell.pretty"
local progress = require "penumbra.progress"
local strict = require "penumbra.shell.strict"
local table_completion = require "penumbra.shell.table_completion"

local repl = {}

--- As help has it, which is loaded when a function is first shown.
function pretty.signature(f) return require("penumbra.shell.help").signature(f) end

local KEPT = 9 -- results that stay reachable

---- one session, without input and output ----

local session = {}
session.__index = session

-- Line numbers of chunks run on through the session, so that an error in a function typed earlier is found there;
-- people see lines counted from the start of the statement. self.typed is a list of {first =, lines =}.

--- A session: feed it lines. opt: `env`, the globals (default _G, made strict); `width` of results; `cells`: the values
--- of the expression that ends several lines are shown, too.
function repl.session(opt)
  local o = options.check("repl.session", opt, { env = options.optional "table", width = 79, cells = false })
  local env = o.env or _G
  strict.install(env, { assign = "anywhere" })
  local self = setmetatable({ env = env, width = o.width, cells = o.cells, lines = {}, results = {}, locals = {},
    typed = {}, given = {}, next_line = 1 }, session)
  if rawget(env, "pn") == nil then rawset(env, "pn", pn) end
  if rawget(env, "help") == nil then
    rawset(env, "help", function(...) return require("penumbra.shell.help").help(...) end)
  end
  if rawget(env, "example") == nil then
    rawset(env, "example", function(...) return require("penumbra.shell.worked_example").example(...) end)
  end
  for name, value in next, env do self.given[name] = value end
  doubts.watch(function(text) self.doubt = self.doubt or text end)
  return self
end

--- Is the session in the middle of a statement?
function session:unfinished() return #self.lines > 0 end

--- Forgets the lines of an unfinished statement.
function session:reset() self.lines = {} end

--- Makes variables {name = value} globals where there is none of that name. Returns the names of those it took, in
--- order, as one text.
function session:adopt(variables)
  local names = {}
  for name, value in next, variables do
    if rawget(self.env, name) == nil then
      rawset(self.env, name, value)
      names[#names + 1] = name
    end
  end
  table.sort(names)
  return table.concat(names, ", ")
end

-- Compiles the lines so far. Returns the chunk, or nil and "more", or nil and a message.
local function compile(self, code)
  local above = ("\n"):rep(self.next_line - 1)
  local value, wrong = load(above .. "return " .. code, "=stdin", "t", self.env)
  if value then return value end
  local chunk, message = load(above .. code, "=stdin", "t", self.env)
  local split = self.cells and ending.split(code)
  if split then return load(above .. split, "=stdin", "t", self.env) end
  if chunk then return chunk end
  if message:match "<eof>$" or wrong:match "<eof>$" then return nil, "more" end
  return nil, message
end

-- The statement that holds a line of the session.
local function statement_at(self, line)
  for i = #self.typed, 1, -1 do
    if line >= self.typed[i].first then return self.typed[i], i == #self.typed end
  end
end

-- Counts "stdin:17" from the start of its statement.
local function relative(self, text)
  return (text:gsub("stdin:(%d+)", function(digits)
    local entry = statement_at(self, math.tointeger(digits))
    return entry and ("%s:%d"):format(entry.label, digits - entry.first + 1) or nil
  end))
end

-- A message with its lines counted so; the line itself below where it stands in an earlier statement of several.
local function located(self, text)
  local first = text:match "^stdin:(%d+):"
  local entry, last = nil, true
  if first then entry, last = statement_at(self, math.tointeger(first)) end
  local shown = relative(self, text)
  if last or not entry or #entry.lines < 2 then return shown end
  local at = first - entry.first + 1
  local quoted = ("  %d | %s"):format(at, (entry.lines[at] or ""):gsub("^%s+", ""))
  local head, rest = shown:match "^([^\n]*)(.*)$"
  return head .. "\n" .. quoted .. rest
end

-- "'end' expected (to close 'function' at line 12) near 'x'" has two lines to count anew.
local function syntax_error(self, message)
  message = message:gsub("at line (%d+)", "at stdin:%1")
  return (relative(self, message):gsub("at stdin:(%d+)", "at line %1"))
end

local function keep(self, values)
  for i = values.n, 1, -1 do
    if values[i] ~= nil then table.insert(self.results, 1, values[i]) end
  end
  while #self.results > KEPT do table.remove(self.results) end
  rawset(self.env, "_", self.results[1])
  for i, value in ipairs(self.results) do rawset(self.env, "_" .. i, value) end
end

local function show(self, values)
  local texts, long = {}, false
  for i = 1, values.n do
    texts[i] = pretty.format(values[i], { width = self.width })
    if type(values[i]) ~= "string" then texts[i] = relative(self, texts[i]) end
    long = long or texts[i]:find "\n" or #texts[i] > 30
  end
  return table.concat(texts, long and "\n" or "  ")
end

-- Frames outside the prompt's own chunk say nothing to the user.
local function trim(text)
  local head, frames = text:match "^(.-)(\n  [^\n]*:%d+: in .*)$"
  if not head then return text end
  frames = frames:gsub("(\n  stdin:%d+: in the main part).*$", "%1")
  if not frames:sub(2):find "\n" then return head end
  return head .. frames
end

local function on_error(message)
  if type(message) ~= "string" then
    local ok, text = pcall(pretty.format, message)
    message = ok and type(message) ~= "nil" and text or "error: the error object is a " .. type(message) .. " value"
  end
  return core.traceback(message, 2)
end

-- Says so where an undefined name was a local of an earlier line, which ended with it.
local function explain(self, message)
  local name = message:match "undefined global '([^']*)'"
  if not name or not self.locals[name] then return message end
  local hint = "%1: it was local to an earlier line; leave out 'local' here"
  return (message:gsub("(undefined global '[^']*')[^\n]*", hint))
end

-- What is said of a name that the statement alone asks for and that is not there, or nil.
local function no_such_name(self, code)
  local key = code:match "^%s*=?%s*[%a_][%w_.]*%.([%a_][%w_]*)%s*$"
  local text, source, line = core.last_missed()
  if not key or source ~= "stdin" or line < self.typed[#self.typed].first then return nil end
  text = text:gsub("^stdin:%d+: ", "")
  return text:find("'" .. key .. "'", 1, true) and text or nil
end

-- What the prompt says beside a result: that == of tensors was asked, once, and of conditions that are tensors.
local function doubt(self, code, text)
  local said = {}
  if self.doubt and not self.doubted then self.doubted, said[1] = true, self.doubt end
  for _, one in ipairs(doubts.scan(code)) do said[#said + 1] = one.text end
  if #said == 0 then return text end
  return text .. (text ~= "" and "\n" or "") .. "(" .. table.concat(said, "\n") .. ")"
end

local function note_locals(self, code)
  for names in code:gmatch "%f[%w_]local%s+([%a_][%w_%s,]*)" do
    for name in names:gmatch "[%a_][%w_]*" do self.locals[name] = name ~= "function" or nil end
  end
  local name = code:match "%f[%w_]local%s+function%s+([%a_][%w_]*)"
  if name then self.locals[name] = true end
end

-- value[key] without running the user's code: raw fields, __index tables, and Penumbra's own objects.
local function field(value, key)
  for _ = 1, 20 do
    if type(value) == "table" then
      local raw = rawget(value, key)
      if raw ~= nil then return raw end
      if value == package.loaded.penumbra then return value[key] end
    elseif type(value) == "userdata" and type(getmetatable(value)) == "string" then
      local ok, found = pcall(function() return value[key] end)
      return ok and found or nil
    end
    local meta = debug.getmetatable(value)
    value = type(meta) == "table" and rawget(meta, "__index")
    if type(value) ~= "table" then return nil end
  end
end

-- Is `name` the recorder of a model that is being typed: pn.model(function(m, ...) with nothing after its end yet?
local function is_recorder(name, typing)
  for recorder in typing:gmatch "model%s*%(?%s*function%s*%(%s*([%a_][%w_]*)" do
    if recorder == name then return true end
  end
  return false
end

-- The value of `path`, names joined by dots and constant indices, starting at the globals.
local function resolve(env, path, typing)
  local name, rest = path:match "^([%a_][%w_]*)(.*)$"
  if not name then return nil end
  local value = rawget(env, name)
  if typing and is_recorder(name, typing) then value = require("penumbra.shell.help").recorder end
  while value ~= nil and rest ~= "" do
    local key, after = rest:match "^[.:]([%a_][%w_]*)(.*)$"
    if not key then
      key, after = rest:match "^%[(%d+)%](.*)$"
      key = math.tointeger(key)
    end
    if not key then
      local quote
      quote, key, after = rest:match "^%[([\"'])([^\"']*)%1%](.*)$"
      if not quote then return nil end
    end
    value, rest = field(value, key), after
  end
  return value
end

-- The value of `path` where its first name is a variable that the user made; else nil.
local function own_variable(self, path)
  local name = path:match "^[%a_][%w_]*"
  local value = name and rawget(self.env, name)
  if value == nil or rawequal(value, self.given[name]) or path:find "[^%w_.%[%]\"']" then return nil end
  return resolve(self.env, path)
end

-- What a line that begins with ? or help asks for, "" for nothing in particular; nil for another line.
local function asked_by(line)
  return line:match "^%s*%?%s*(.-)%s*$" or line:match "^%s*help%s+([%a_][%w_.:]*)%s*$"
    or line:match "^%s*help%s*$" and ""
end

--- What there is to say about `name`, a variable of the user's or what help knows; nil if that is nothing.
function session:about(name)
  local help = require "penumbra.shell.help"
  local own = own_variable(self, name)
  if own ~= nil then return relative(self, help.variable(name, own)) end
  local text = help.text(name)
  return not text:find "^nothing is called" and text or nil
end

--- Would these lines be taken as they are? "complete", "incomplete" (more have to follow) or "invalid". Runs nothing.
function session:status(code)
  local chunk, message = compile(self, (code:gsub("^%s*=", "", 1)))
  if chunk or asked_by(code) then return "complete" end
  return message == "more" and "incomplete" or "invalid"
end

--- Takes one line, or several with line ends between (an entry of the history). Returns
--- "more" if the statement goes on; "ok" and the text of the results ("" without
--- any); "error" and a message with a short traceback; "end" if the user wants to leave. `label` ("stdin") is what
--- errors call the statement. The values shown are self.values, packed; nil without any.
function session:feed(line, label)
  self.values = nil
  if #self.lines == 0 then
    if line:match "^%s*$" then return "ok", "" end
    if line:match "^%s*exit%s*%(?%s*%)?%s*;?%s*$" or line:match "^%s*quit%s*%(?%s*%)?%s*;?%s*$" then
      if rawget(self.env, line:match "%a+") == nil then return "end", "" end
    end
    local asked = asked_by(line)
    local own = asked and own_variable(self, asked)
    if own ~= nil then return "ok", relative(self, require("penumbra.shell.help").variable(asked, own)) end
    if asked then line = asked == "" and "help()" or ("help %q"):format(asked) end
    local shown = line:match "^%s*example%s+([%a_][%w_.:]*)%s*$"
    if shown then line = ("example %q"):format(shown) end
    line = line:gsub("^%s*=", "", 1)
    local method = line:match "^%s*([%a_][%w_.%[%]]*:[%a_][%w_]*)%s*$"
    if method then return "error", ("stdin:1: %s is a method; call it, as in %s()"):format(method, method) end
  end
  for part in (line .. "\n"):gmatch "(.-)\n" do self.lines[#self.lines + 1] = part end
  local code = table.concat(self.lines, "\n")
  local chunk, message = compile(self, code)
  if message == "more" then return "more", "" end
  self.typed[#self.typed + 1] = { first = self.next_line, lines = self.lines, label = label or "stdin" }
  self.next_line = self.next_line + #self.lines
  self.lines = {}
  if not chunk then return "error", syntax_error(self, message) end
  gnuplot.pictured = false
  local values = table.pack(xpcall(chunk, on_error))
  if not values[1] then return "error", explain(self, located(self, trim(tostring(values[2])))) end
  note_locals(self, code)
  values = table.pack(table.unpack(values, 2, values.n))
  local pictured = gnuplot.pictured and values.n == 1 and values[1] == true -- what pn.plot.show returns
  if values.n == 0 or pictured then return "ok", doubt(self, code, "") end
  keep(self, values)
  self.values = values
  local absent = values.n == 1 and values[1] == nil and no_such_name(self, code)
  if absent then return "ok", "nil (" .. absent .. ")" end
  local ok, text = xpcall(show, on_error, self, values)
  return ok and "ok" or "error", ok and doubt(self, code, text) or text
end

---- completion ----

local keywords = { "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
  "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while" }

-- Calls take(name) for the fields that a distribution has beside its methods.
local function each_parameter(value, take)
  local ok, name = pcall(function() return value.name end)
  for _, row in ipairs(ok and type(name) == "string" and core.distribution_rows and core.distribution_rows() or {}) do
    if row.name == name then
      for _, parameter in ipairs(row.parameters) do take(parameter.name) end
      for _, field_name in ipairs { "name", "support", "batch_shape", "event_shape" } do take(field_name) end
    end
  end
end

-- Calls take(name, value) for what can follow a dot or colon after `value`.
local function each_field(value, take)
  for _ = 1, 20 do
    if type(value) == "table" then
      for key, v in next, value do
        if type(key) == "string" then take(key, v) end
      end
    elseif type(value) == "userdata" then
      for key, v in pairs(pretty.methods(value) or {}) do
        if type(key) == "string" then take(key, v) end
      end
      if getmetatable(value) == "penumbra.distribution" then
        each_parameter(value, function(key) take(key, 0) end)
      end
      return
    end
    local meta = debug.getmetatable(value)
    for _, name in ipairs(type(meta) == "table" and rawget(meta, "lazy") or {}) do take(name, nil) end
    value = type(meta) == "table" and rawget(meta, "__index")
    if type(value) ~= "table" then return end
  end
end

local function callable(value)
  local meta = debug.getmetatable(value)
  return type(value) == "function" or type(meta) == "table" and type(value) ~= "string" and meta.__call ~= nil
end

--- What may complete `text`, the line up to the cursor: a sorted list of names and how many bytes at the end
--- of the text they replace. At the start of a line the tab key indents. After the bracket of a call it is the
--- function's parameters, and its options after a brace, to be looked at: a last, empty entry keeps them from being
--- inserted. Within the braces of a call options and their choices go before names. lines: those of the statement above
--- this one.
function repl.complete(env, text, lines)
  local typing = table.concat(lines or {}, "\n") .. "\n" .. text
  local inside, replaced = table_completion.complete(typing, function(path)
    local f = resolve(env, path, typing)
    return type(f) == "function" and require("penumbra.shell.help").options(f) or nil
  end)
  local called = text:match "([%a_][%w_.:%[%]\"']*)%s*[({]%s*$"
  if called then
    local f = resolve(env, called, typing)
    if type(f) == "function" then
      local shown = inside or {}
      table.insert(shown, 1, (pretty.format(f):gsub("^function ", "")))
      shown[#shown + 1] = ""
      return shown, 0
    end
  end
  if inside then return inside, replaced end
  local path, separator, prefix = text:match "([%a_][%w_.:%[%]\"']*)([.:])([%a_]?[%w_]*)$"
  local found, list = {}, {}
  local function take(name, value)
    if name:sub(1, #prefix) ~= prefix or not name:match "^[%a_][%w_]*$" then return end
    if name:sub(1, 1) == "_" and prefix == "" then return end
    if separator == ":" and value ~= nil and not callable(value) then return end
    found[name] = true
  end
  if path then
    each_field(resolve(env, path, typing), take)
  else
    if not text:find "%S" then return { "  " }, 0 end -- indents
    prefix = text:match "[%a_][%w_]*$"
    if not prefix or text:match "%d[%a_][%w_]*$" then return {}, 0 end
    for _, word in ipairs(keywords) do take(word, nil) end
    each_field(env, take)
  end
  for name in pairs(found) do list[#list + 1] = name end
  table.sort(list)
  return list, #prefix
end

---- the loop ----

local function history_path()
  local state = os.getenv "XDG_STATE_HOME"
  if not state or state == "" then
    local home = os.getenv "HOME"
    if not home or home == "" then return nil end
    state = home .. "/.local/state"
  end
  return state .. "/penumbra/history"
end

local function banner()
  return ("Penumbra %s, %s, %s\nhelp() shows the way, ?name explains a name, Ctrl-D ends"):format(core.version,
    _VERSION, core.blas())
end

-- Reading without an editor: a prompt only where somebody sees it.
local function plain_reader(visible)
  return function(prompt)
    if visible then
      io.stdout:write(prompt)
      io.stdout:flush()
    end
    return io.read "L"
  end
end

-- Returns a function that keeps a statement, however many lines it has, as one entry.
local function open_history(editor)
  local path = history_path()
  if path then editor.history_load(path) end
  return function(statement)
    if not statement:find "%S" then return end
    editor.add_history(statement)
    if path then editor.history_save(path) end
  end
end

local function is_colourful(file)
  return core.terminal(file) and not os.getenv "NO_COLOR" and os.getenv "TERM" ~= "dumb"
end

local function report(text, colour)
  io.stdout:flush()
  if colour then text = text:gsub("^[^\n]*", "\27[31m%0\27[0m") end
  io.stderr:write(text, "\n")
end

--- Runs the prompt until the input ends. `editor`: nil, or a table of functions in place of io.read, with
--- readline(prompt) (nil at the end, false if interrupted), add_history, history_load, history_save,
--- complete, interrupted; readline may be missing. locals: variables by name that become globals where there is none of
--- that name (`penumbra -i script`), or nil.
function repl.run(editor, locals)
  editor = editor or {}
  local visible = core.terminal(io.stdin) and core.terminal(io.stdout)
  local state = repl.session { width = (core.terminal(io.stdout) or 80) - 1 }
  local read = editor.readline or plain_reader(visible)
  local remember = editor.readline and open_history(editor) or function() end
  local interrupted = editor.interrupted or function() return false end
  local colour = is_colourful(io.stderr)
  if editor.complete then
    editor.complete(function(text) return repl.complete(state.env, text, state.lines) end)
  end
  local before = progress.show_unasked(visible ~= nil and core.terminal(io.stderr) ~= nil)
  local taken = state:adopt(locals or {})
  if visible then print(banner()) end
  if visible and taken ~= "" then print("of the script: " .. taken) end
  while true do
    local line = read(state:unfinished() and ">> " or "> ")
    if line == nil then break end
    if line == false then
      remember(table.concat(state.lines, "\n")) -- what was dropped can be had back
      state:reset()
    else
      line = line:gsub("\r?\n$", "")
      local above = state:unfinished() and table.concat(state.lines, "\n") .. "\n" or ""
      local kind, text = state:feed(line)
      if kind ~= "more" then remember(above .. line) end
      if interrupted() then
        state:reset()
        report("interrupted", colour)
      elseif kind == "error" then
        report(text, colour)
      elseif text ~= "" then
        print(text)
      end
      if kind == "end" then break end
    end
  end
  progress.show_unasked(before)
  if state:unfinished() and not visible then
    report("stdin: unfinished statement at the end of the input", colour)
    return false
  end
  if visible and not editor.readline then print() end
  return true
end

-- `lua5.4 -l penumbra.shell` and `-lpenumbra.shell`: the prompt instead of Lua's own.
local function asked_for()
  local given = rawget(_G, "arg")
  if type(given) ~= "table" then return false end
  for i = 1, #given do
    if given[i] == "-lpenumbra.shell" or given[i] == "-l" and given[i + 1] == "penumbra.shell" then return true end
  end
  return false
end

if asked_for() then
  package.loaded["penumbra.shell"] = repl
  repl.run()
  os.exit(true, true)
end

return repl
