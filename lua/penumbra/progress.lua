--- One line that tells how far a long run is: share, rate, time left, and values such as the loss. On a
--- terminal the line is rewritten in place; elsewhere a plain line appears now and then. A step costs a
--- fraction of a microsecond between two looks at the clock.
---
---     local bar = progress.new { total = 1000, label = "train" }
---     for step = 1, 1000 do
---       bar:step(1, "loss", loss)      -- a tensor is read only when a line is written
---     end
---     bar:finish()
-- help: module, methods progress
local core = require "penumbra.core"
local options = require "penumbra.options"

local progress = {}

local methods = {}
local class = { __index = methods, __name = "progress", __close = function(self) self:finish() end }

--- A progress line. Options: total (steps, absent if not known), label, out (io.stderr), every (seconds
--- between two lines: 0.1 on a terminal, 10 elsewhere), width (of the line), done (0: steps that were made before).
function progress.new(opt)
  local o = options.check("progress.new", opt, { total = options.optional "number", label = "", out = io.stderr,
    every = options.optional "number", width = options.optional "number", done = 0 })
  local columns = io.type(o.out) == "file" and core.terminal(o.out) or nil
  local now = core.clock()
  return setmetatable({ total = o.total, label = o.label, out = o.out, terminal = columns ~= nil,
    width = o.width or columns and columns - 1 or 120, every = o.every or columns and 0.1 or 10,
    done = o.done, from = o.done, start = now, last = now, skip = 1, left = 1, names = {}, values = {} }, class)
end

--- Seconds as people write them: "4.2 s", "3:07", "2:03:07".
function progress.duration(seconds)
  if seconds ~= seconds or seconds == math.huge then return "?" end
  if seconds < 9.95 then return ("%.1f s"):format(seconds) end
  local whole = math.floor(seconds + 0.5)
  if whole < 60 then return whole .. " s" end
  if whole < 3600 then return ("%d:%02d"):format(whole // 60, whole % 60) end
  return ("%d:%02d:%02d"):format(whole // 3600, whole // 60 % 60, whole % 60)
end

local function rate_text(rate)
  if rate >= 1e6 then return ("%.3g M/s"):format(rate / 1e6) end
  if rate >= 1e4 then return ("%.3g k/s"):format(rate / 1e3) end
  return ("%.3g/s"):format(rate)
end

local function value_text(value)
  if type(value) == "userdata" and getmetatable(value) == "penumbra.tensor" then
    local ok, number = pcall(value.item, value)
    value = ok and number or "?"
  end
  return type(value) == "number" and ("%.4g"):format(value) or tostring(value)
end

local latest = setmetatable({}, { __mode = "v" }) -- the line that stands on a terminal

-- The line as it stands at time `now`.
local function text_of(self, now)
  local spent = now - self.start
  local rate = spent > 0 and (self.done - self.from) / spent or 0
  local parts = {}
  if self.label ~= "" then parts[1] = self.label end
  if self.total then
    local percent = 100 * self.done / math.max(self.total, 1)
    parts[#parts + 1] = ("%3.0f %%  %.10g/%.10g"):format(percent, self.done, self.total)
  else
    parts[#parts + 1] = ("%.10g"):format(self.done)
  end
  for i, name in ipairs(self.names) do parts[#parts + 1] = name .. " " .. value_text(self.values[i]) end
  if rate > 0 then parts[#parts + 1] = rate_text(rate) end
  if self.total and rate > 0 and self.done < self.total then
    parts[#parts + 1] = progress.duration((self.total - self.done) / rate) .. " left"
  else
    parts[#parts + 1] = progress.duration(spent)
  end
  local line = table.concat(parts, "  ")
  return #line > self.width and line:sub(1, self.width - 3) .. "..." or line
end

local function write(self, now)
  self.last = now
  local line = text_of(self, now)
  self.written, latest.bar = true, self
  if self.terminal then
    self.out:write("\r", line, "\27[K")
    self.out:flush()
  else
    self.out:write(line, "\n")
  end
end

-- Looks at the clock; steers `skip`, how many steps go by unlooked, so that looks stay cheap among fast
-- steps and a sudden slow one is seen soon.
local function look(self)
  local now = core.clock()
  local elapsed = now - (self.looked or self.start)
  self.looked = now
  if elapsed < self.every / 16 then
    self.skip = math.min(self.skip * 2, 32)
  elseif elapsed > self.every / 4 then
    self.skip = 1
  end
  self.left = self.skip
  if now - self.last >= self.every then write(self, now) end
end

--- `n` more steps are done (default 1). After it pairs of a name and a value (number, string or tensor).
function methods:step(n, ...)
  self.done = self.done + (n or 1)
  local count = select("#", ...)
  if count > 0 then
    local names, values = self.names, self.values
    names[1], values[1] = ...
    for i = 2, count // 2 do names[i], values[i] = select(2 * i - 1, ...) end
    for i = count // 2 + 1, #names do names[i], values[i] = nil, nil end
  end
  self.left = self.left - 1
  if self.left <= 0 then look(self) end
end

--- Writes `text` as a line of its own, above the progress line.
function methods:print(text)
  if self.terminal and self.written then self.out:write "\r\27[K" end
  self.out:write(text, "\n")
  if self.terminal and self.written then write(self, core.clock()) end
end

--- Takes the line from the terminal until the next step that shows it, so that others can write there.
function methods:hide()
  if self.terminal and self.written and not self.finished then
    self.out:write "\r\27[K"
    self.out:flush()
  end
end

--- Writes the last line and ends it. Doing it twice is harmless; a `<close>` variable does it by itself.
function methods:finish()
  if self.finished then return end
  self.finished = true
  write(self, core.clock())
  if self.terminal then self.out:write "\n" end
  self.out:flush()
  self.names, self.values = {}, {}
end

--- Writes `text` as a line of its own on standard error, above the progress line if there is one. Nothing where a host
--- gives scripts no files.
function progress.say(text)
  local bar = latest.bar
  if bar and bar.written and not bar.finished then
    bar:print(text)
  elseif io and io.stderr then
    io.stderr:write(text, "\n")
  end
end

local shown = false

--- Whether long runs show a line unless they are told otherwise: the prompt turns it on. Returns the setting before.
function progress.show_unasked(on)
  local before = shown
  shown = on
  return before
end

--- The line of a run whose option `progress` is `given`: true (on standard error), a file, false, or nil, which leaves
--- it to show_unasked. opt as for progress.new. Returns nil where none is wanted.
function progress.asked(given, opt)
  if given == nil then given = shown end
  if not given or not io then return nil end
  opt.out = given == true and io.stderr or given
  return progress.new(opt)
end

return progress
