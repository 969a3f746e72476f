--- Labels from a person at the prompt: each datum that a pool asks for is shown, a picture as letters, and its label is
--- typed. What has been typed is in the pool, and with a path in its file, whatever comes next.
-- help: pn.active, quiet
local core = require "penumbra.core"
local options = require "penumbra.options"
local pool = require "penumbra.active.pool"

local label_prompt = {}

local RAMP <const> = { " ", ".", ":", "-", "=", "+", "*", "#", "%", "@" }

-- A matrix as lines of letters, dark to bright, two for each pixel, at most 32 wide and high.
local function picture(matrix)
  while matrix:size(1) > 32 or matrix:size(2) > 40 do -- every second row and column
    matrix = matrix:slice(1, 1, -1, 2):slice(2, 1, -1, 2)
  end
  local low, high = matrix:min():item(), matrix:max():item()
  local level = ((matrix - low) * (9.99 / math.max(high - low, 1e-300))):floor():clamp(0, 9)
  local lines = {}
  for i, row in ipairs(level:to("int64"):totable()) do -- letters of one picture
    for j, v in ipairs(row) do row[j] = RAMP[v + 1]:rep(2) end
    lines[i] = table.concat(row)
  end
  return table.concat(lines, "\n")
end

--- picture(datum): a datum as text: of a matrix [rows, columns], or [1, rows, columns], a picture in letters; of a
--- vector its numbers, the first 20.
function label_prompt.picture(datum)
  options.argument("picture", "datum", datum, "tensor")
  while datum:ndim() > 2 do datum = datum:select(1, 1) end
  datum = datum:to "float64"
  if datum:ndim() == 2 and datum:numel() > 0 then return picture(core.where(datum:isfinite(), datum, 0)) end
  local n = datum:numel()
  return tostring(datum:reshape { n }:slice(1, 1, math.min(n, 20))) .. (n > 20 and " ..." or "")
end

-- The class that a line names: its number or its name; -1 for "?", "quit" for "q"; nil else.
local function read_label(line, classes, names)
  local word = line:match "^%s*(.-)%s*$"
  for k, name in ipairs(names or {}) do
    if name == word then return k - 1 end
  end
  if word == "q" then return "quit" elseif word == "?" then return -1 end
  local label = math.tointeger(tonumber(word))
  return label and label >= 0 and label < classes and label or nil
end

local function check_names(names, classes)
  if names and #names ~= classes then
    core.error(("active.ask: names must be %d names, one for each class, got %d"):format(classes, #names))
  end
end

-- Asks for one label until it is one.
local function one_label(self, o, k, n, position)
  local out = o.output
  out:write(("\n%d of %d, position %d\n"):format(k, n, position), o.show(self.x:select(1, position + 1)), "\n")
  while true do
    out:write(("label (%s; ? refuses, q stops): "):format(o.names and table.concat(o.names, ", ")
      or ("0 to %d"):format(self.classes - 1)))
    out:flush()
    local line = o.input:read "l"
    local label = line and read_label(line, self.classes, o.names)
    if not line then return "quit" elseif label then return label end
    out:write(("'%s' is no class\n"):format(line))
  end
end

local function tell_of(out, report)
  out:write(("\nround %d: %d labels, %d refused%s\n"):format(report.round, report.labelled, report.refused,
    #report.unseen > 0 and "; no label yet of class " .. table.concat(report.unseen, ", ") or ""))
end

--- ask(pool [, {names =, path =, show =, steps =, read_from =, write_to =}]): asks a person for labels, datum by datum,
--- until the budget is spent, `steps` rounds are over or "q" is typed (or the input ends). Returns the pool, and "quit"
--- or why nothing more is asked for.
---   names     of the classes, a list: may be typed instead of numbers
---   path      the pool is saved there after each label: pn.restore goes on from it
---   show      function(datum): text; pn.active.picture
---   read_from, write_to    files; io.stdin and io.stdout
--- Typed: a class, by number or name; "?" where nobody can tell, which the pool is told as refused; "q".
function label_prompt.ask(given_pool, given)
  local where = "active.ask"
  local self = pool.inner(given_pool)
  if not self then core.error("active.ask: pool must be of pn.active.pool, got " .. type(given_pool)) end
  local o = options.check(where, given, { names = options.optional "table", path = options.optional "string",
    show = options.any(label_prompt.picture), steps = options.optional "number", read_from = options.any(nil),
    write_to = options.any(nil) })
  check_names(o.names, self.classes)
  o.input, o.output = o.read_from or io and io.stdin, o.write_to or io and io.stdout
  options.object(where, "read_from", o.input, "a file to read from", "read")
  options.object(where, "write_to", o.output, "a file to write to", "write")
  for _ = 1, o.steps or math.huge do
    local positions, message = self:ask()
    if not positions then
      o.output:write(message, "\n")
      return given_pool, message
    end
    local list = positions:totable()
    for k, position in ipairs(list) do -- a person answers one after the other
      if self.asked.labels[k] == nil then
        local label = one_label(self, o, k, #list, position)
        if label == "quit" then return given_pool, "quit" end
        local report = self:tell({ label }, { position })
        if o.path then
          local ok, why = self:save(o.path)
          if not ok then core.error(("active.ask: %s"):format(why)) end
        end
        if report.left == 0 then tell_of(o.output, report) end
      end
      if not self.asked then break end
    end
  end
  return given_pool, "steps"
end

return label_prompt
