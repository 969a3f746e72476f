--- What a chapter shows of a program's output, beside what the program prints. A block ```text directly after a
--- program shows it: texts exactly, blanks aside; numbers to the digits shown (one unit of the last digit, half a unit
--- where the page shows fewer than the program), or to the tolerance behind the word `text`:
---     ```text within 0.05        ```text within 5 %
--- Times, numbers followed by s, ms, us, seconds, minutes or hours, are anything. `...` stands for the rest of a line,
--- on a line of its own for any number of lines.
local shown = {}

local UNITS = {s = true, ms = true, us = true, second = true, seconds = true, minutes = true, hours = true}

-- A line as texts without blanks and numbers {value, text}, in order. Digits within a word are text.
local function pieces(line)
  local list, at = {}, 1
  local function put(text)
    text = text:gsub("%s+", "")
    local last = list[#list]
    if type(last) == "string" then list[#list] = last .. text elseif text ~= "" then list[#list + 1] = text end
  end
  while at <= #line do
    local first, last = line:find("%f[%w_.]%d+%.?%d*", at)
    local point = {line:find("%f[%w_.]%.%d+", at)}
    if point[1] and (not first or point[1] < first) then first, last = point[1], point[2] end
    if not first then break end
    last = select(2, line:find("^[eE][+-]?%d+", last + 1)) or last
    local sign = line:sub(1, first - 1):match "[+-]$"
    if sign and not line:sub(1, first - 2):find "[%w_)%]]$" then first = first - 1 end
    put(line:sub(at, first - 1))
    local text, follows = line:sub(first, last), line:sub(last + 1)
    if follows:find "^[%w_]" and not UNITS[follows:match "^%a+"] then -- 2d, 3rd
      put(text)
    else
      list[#list + 1] = {tonumber(text), text, time = UNITS[follows:match "^ ?(%a+)%f[^%w_]"]}
    end
    at = last + 1
  end
  put(line:sub(at))
  return list
end

-- How far the last digit of a number reaches, 0 for a whole number; how many digits it has behind the point.
local function unit(text)
  local decimals = #(text:match "%.(%d*)" or "")
  local exponent = tonumber(text:match "[eE]([+-]?%d+)" or 0)
  if decimals == 0 and not text:find "[eE]" then return 0, 0 end
  return 10.0 ^ (exponent - decimals), decimals
end

--- The numbers of a line, {value, text, unit = of the last digit}.
function shown.numbers(line)
  local list = {}
  for _, piece in ipairs(pieces(line)) do
    if type(piece) == "table" then
      piece.unit = math.max(unit(piece[2]), piece[2]:find "[.eE]" and 0 or 1)
      list[#list + 1] = piece
    end
  end
  return list
end

local function near(want, got, within, relative)
  if want.time then return true end
  local room = within and (relative and within * math.abs(want[1]) or within)
  if not room then
    local step, decimals = unit(want[2])
    room = select(2, unit(got[2])) > decimals and math.max(step, decimals == 0 and 1 or 0) / 2 or step
  end
  return math.abs(want[1] - got[1]) <= room * (1 + 1e-9)
end

-- What is different between two lines, or nil.
local function line_differs(want, got, within, relative)
  local cut = want:match "^(.-)%.%.%.$"
  local a, b = pieces(cut or want), pieces(got)
  for k, x in ipairs(a) do
    local y = b[k]
    if type(x) ~= type(y) then return ("%q for %q"):format(got, want) end
    if type(x) == "table" and not near(x, y, within, relative) then return ("%s for %s"):format(y[2], x[2]) end
    local open = cut and k == #a
    if type(x) == "string" and (open and y:sub(1, #x) or y) ~= x then return ("%q for %q"):format(got, want) end
  end
  return not cut and #b > #a and ("%q for %q"):format(got, want) or nil
end

local function lines_of(text)
  local list = {}
  for line in (text:gsub("%s+$", "") .. "\n"):gmatch "(.-)\n" do list[#list + 1] = line end
  return list
end

--- What is different, or nil: `want` is the block, `got` what was printed, `tolerance` what stands behind `text`.
function shown.differs(want, got, tolerance)
  local number, percent = (tolerance or ""):match "^%s*within%s+([%d.e+-]+)%s*(%%?)%s*$"
  if (tolerance or ""):find "%S" and not tonumber(number) then return "a tolerance is 'within 0.1' or 'within 5 %'" end
  local within = tonumber(number)
  if within and percent == "%" then within = within / 100 end
  local a, b = lines_of(want), lines_of(got)
  local i, j, any = 1, 1, false
  while i <= #a do
    if a[i] == "..." then
      i, any = i + 1, true
    elseif not b[j] then
      return ("line %d, %q, is not printed"):format(i, a[i])
    else
      local wrong = line_differs(a[i], b[j], within, percent == "%")
      if wrong and not any then return ("line %d: %s"):format(i, wrong) end
      i, j, any = wrong and i or i + 1, j + 1, wrong and any or false
    end
  end
  return not any and b[j] and ("prints a line more: %q"):format(b[j]) or nil
end

--- The programs of a page, in Lua and C: a list of {language =, chunk =, want = the output that is shown or nil,
--- tolerance =}; and how many blocks of output stand behind no program.
function shown.programs(page)
  local list, blocks = {}, select(2, ("\n" .. page):gsub("\n```text", ""))
  for language, chunk, after in ("\n" .. page):gmatch "\n```(%l+)\n(.-)\n```()" do
    local tolerance, want = page:match("^%s*```text([^\n]*)\n(.-)```", after - 1)
    if language == "lua" or language == "c" then
      list[#list + 1] = {language = language, chunk = chunk .. "\n", want = want, tolerance = tolerance}
      blocks = blocks - (want and 1 or 0)
    end
  end
  return list, blocks
end

return shown
