--- What a notebook's front end asks of the prompt, by the names of Jupyter's messaging protocol 5.3: cells are run,
--- names completed, explained. The program `penumbra kernel` (src/kernel) receives and sends; it gives `new` the
--- functions publish(type, content), call(f, ...), list(t), ask(prompt, password), and null.
-- help: nowhere
local core = require "penumbra.core"
local gnuplot = require "penumbra.plot.gnuplot"
local options = require "penumbra.options"
local repl = require "penumbra.shell"
local rich = require "penumbra.shell.rich"

local notebook = {}
local methods = {}
local class = { __index = methods, __name = "notebook" }
local answers = {} -- by the type of a request: content of the reply, and whether the cells behind it are dropped

local function text_of(value) return type(value) == "string" and value or "" end

---- what a cell finds beside the prompt's names ----

local function display(self, value, bundle)
  self.kernel.publish("display_data", { data = bundle or rich.bundle(value), metadata = {}, transient = {} })
end

local function offer(self, env)
  local kernel = self.kernel
  rawset(env, "input", function(prompt, password)
    options.argument("input", "prompt", prompt or "", "string")
    local line, why = kernel.ask(prompt or "", password)
    if not line then core.error("input: " .. why) end
    return line
  end)
  rawset(env, "display", function(...)
    for i = 1, select("#", ...) do display(self, (select(i, ...))) end
  end)
  rawset(env, "clear_output", function(wait) kernel.publish("clear_output", { wait = wait == true }) end)
  gnuplot.viewer = function(content, opt)
    local svg, message, code = rich.picture(content, opt)
    if not svg then return nil, message, code end
    display(self, nil, { ["image/svg+xml"] = svg, ["text/plain"] = "a picture" })
    return true
  end
end

---- cells ----

local function failed(self, text)
  local lines, name = self.kernel.list {}, self.interrupted and "Interrupted" or "Error"
  for line in (text .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  local message = lines[1]
  lines[1] = "\27[31m" .. message .. "\27[0m" -- red, as at the prompt
  return { status = "error", ename = name, evalue = message, traceback = lines }
end

-- The message of a cell that ends in the middle of a statement.
local function unfinished(code, label)
  local _, message = load(code, "=" .. label, "t", {})
  return message or label .. ": unfinished statement"
end

-- Runs the code: "ok", "error" or "end", and a text.
local function run(self, code, label)
  local session = self.session
  session:reset()
  local interrupted, ok, kind, text = self.kernel.call(session.feed, session, code, label)
  self.interrupted = interrupted
  if not ok then return "error", tostring(kind) end
  if interrupted and kind ~= "error" then return "error", "interrupted" end
  if kind ~= "more" then return kind, text end
  session:reset()
  return "error", unfinished(code, label)
end

-- What a cell came to, as a bundle; nil for nothing, and for what is hidden by a semicolon.
local function result_of(self, code, text)
  local values = self.session.values
  local one = values and values.n == 1
  if text == "" or values and code:find ";%s*$" then return nil end
  if one then return rich.bundle(values[1], text) end
  return { ["text/plain"] = text }
end

-- Expressions by name: each its bundle or what is wrong.
local function expressions(self, wanted)
  local out = {}
  for name, code in pairs(type(wanted) == "table" and wanted or {}) do
    local chunk, message = load("return " .. text_of(code), "=" .. name, "t", self.session.env)
    local ok, value = false, message
    if chunk then self.interrupted, ok, value = self.kernel.call(chunk) end
    if ok then
      out[name] = { status = "ok", data = rich.bundle(value), metadata = {} }
    else
      out[name] = failed(self, type(value) == "string" and value or "error: a " .. type(value) .. " value")
    end
  end
  return out
end

answers.execute_request = function(self, content)
  local kernel, code = self.kernel, text_of(content.code)
  local silent = content.silent == true
  local stored = not silent and content.store_history ~= false
  if stored then self.count = self.count + 1 end
  if not silent then kernel.publish("execute_input", { code = code, execution_count = self.count }) end
  local kind, text = run(self, code, stored and ("In[%d]"):format(self.count) or "In")
  local bundle = kind == "ok" and result_of(self, code, text)
  if stored then self.history[#self.history + 1] = { self.count, code, kind == "ok" and text ~= "" and text or nil } end
  if kind == "error" then
    local reply = failed(self, text)
    if not silent then kernel.publish("error", reply) end
    reply.execution_count = self.count
    return reply, content.stop_on_error ~= false
  end
  if bundle and not silent then
    kernel.publish("execute_result", { execution_count = self.count, data = bundle, metadata = {} })
  end
  local payload = kernel.list(kind == "end" and { { source = "ask_exit", keepkernel = false } } or {})
  return { status = "ok", execution_count = self.count, payload = payload,
    user_expressions = expressions(self, content.user_expressions) }
end

answers.is_complete_request = function(self, content)
  local code = text_of(content.code)
  local status = self.session:status(code)
  local last = code:match "[^\n]*$"
  local opens = last:find "[({]%s*$" or last:find "%f[%w]do%s*$" or last:find "%f[%w]then%s*$"
    or last:find "%f[%w]else%s*$" or last:find "%f[%w]repeat%s*$" or last:find "function%s*[%w_.:]*%b()%s*$"
  return { status = status, indent = status == "incomplete" and last:match "^%s*" .. (opens and "  " or "") or nil }
end

---- names ----

-- Bytes of the code before the cursor, which is counted in letters; where these cannot be counted, all.
local function bytes_before(code, cursor)
  local letters = utf8.len(code)
  if not letters or math.type(cursor) ~= "integer" then return #code end
  return utf8.offset(code, math.max(0, math.min(cursor, letters)) + 1) - 1
end

answers.complete_request = function(self, content)
  local code = text_of(content.code)
  local before = code:sub(1, bytes_before(code, content.cursor_pos))
  local found, replaced = repl.complete(self.session.env, before:match "[^\n]*$", { before:match "^(.*)\n" })
  if found[2] == "" or found[1] and not found[1]:find "%S" then found = {} end -- to be looked at, or to indent
  local cursor = utf8.len(before) or #before
  return { status = "ok", matches = self.kernel.list(found), cursor_start = cursor - (found[1] and replaced or 0),
    cursor_end = cursor, metadata = {} }
end

-- The name at the cursor or, within the brackets of a call, that of the function.
local function name_at(code, cursor)
  local before, after = code:sub(1, cursor), code:match("^[%w_]*", cursor + 1)
  local name = (before:match "[%a_][%w_.:]*$" or "") .. after
  if name:find "^[%a_]" then return name end
  local open = before:match "^.*()[({]"
  while open do
    local called = before:sub(1, open - 1):match "([%a_][%w_.:]*)%s*[({]?%s*$"
    if called and not before:find(")", open, true) then return called end
    before = before:sub(1, open - 1)
    open = before:match "^.*()[({]"
  end
end

answers.inspect_request = function(self, content)
  local code = text_of(content.code)
  local name = name_at(code, bytes_before(code, content.cursor_pos))
  local text = name and self.session:about(name)
  return { status = "ok", found = text ~= nil, data = text and { ["text/plain"] = text } or {}, metadata = {} }
end

---- history ----

-- The pattern of Lua's for one of the shell's, in which * stands for any text and ? for one letter.
local function pattern_of(glob)
  return "^" .. glob:gsub("[%^%$%(%)%%%.%[%]%+%-]", "%%%0"):gsub("%*", ".*"):gsub("%?", ".") .. "$"
end

local function whole(value, default) return math.type(value) == "integer" and value or default end

local function matching(self, content)
  local list, seen, pattern = {}, {}, pattern_of(content.pattern and text_of(content.pattern) or "*")
  for i = #self.history, 1, -1 do
    local code = self.history[i][2]
    local known = content.unique == true and seen[code]
    if code:find(pattern) and not known then table.insert(list, 1, self.history[i]) end
    seen[code] = true
  end
  return list
end

local function last(list, n)
  return table.move(list, math.max(1, #list - math.max(0, n) + 1), #list, 1, {})
end

-- Of one session, that which goes on.
answers.history_request = function(self, content)
  local kind, found = content.hist_access_type, {}
  if kind == "range" then
    local session, from = whole(content.session, 0), whole(content.start, 1)
    local to = whole(content.stop, math.maxinteger)
    for _, entry in ipairs((session == 0 or session == 1) and self.history or {}) do
      if entry[1] >= from and entry[1] < to then found[#found + 1] = entry end
    end
  elseif kind == "search" then
    found = last(matching(self, content), whole(content.n, math.maxinteger))
  else
    found = last(self.history, whole(content.n, 10))
  end
  local list = self.kernel.list {}
  for i, entry in ipairs(found) do
    local code = entry[2]
    if content.output == true then code = self.kernel.list { code, entry[3] or self.kernel.null } end
    list[i] = self.kernel.list { 1, entry[1], code }
  end
  return { status = "ok", history = list }
end

---- the rest ----

answers.comm_info_request = function() return { status = "ok", comms = {} } end

-- There is nobody to talk to.
answers.comm_open = function(self, content)
  self.kernel.publish("comm_close", { comm_id = text_of(content.comm_id), data = {} })
end

local function info(kernel)
  local lua = _VERSION:match "%d+%.%d+"
  return { status = "ok", protocol_version = "5.3", implementation = "penumbra", implementation_version = core.version,
    banner = ("Penumbra %s, %s, %s"):format(core.version, _VERSION, (core.blas())), debugger = false,
    help_links = kernel.list {}, language_info = { name = "lua", version = lua, mimetype = "text/x-lua",
      file_extension = ".lua", pygments_lexer = "lua", codemirror_mode = "lua" } }
end

--- The notebook of a kernel, whose functions are listed above: `info` is what it says of itself.
function notebook.new(kernel)
  local self = setmetatable({ kernel = kernel, count = 0, history = {}, info = info(kernel),
    session = repl.session { cells = true } }, class)
  offer(self, self.session.env)
  return self
end

--- The content of the reply to a request, and whether the cells that wait behind it are dropped; nil where there is no
--- reply.
function methods:answer(kind, content)
  local f = answers[kind]
  if f then return f(self, content) end
end

return notebook
