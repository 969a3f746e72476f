--- What the page asks of the prompt, in text: page.line, page.complete, page.pictures.
local core = require "penumbra.core"
local gnuplot = require "penumbra.plot.gnuplot"
local panel = require "penumbra.plot.panel"
local pn = require "penumbra"
local repl = require "penumbra.shell"
local svg = require "svg"

local page = {}
local session = repl.session { width = 79 }
local pictures = {}

---- pictures: no gnuplot here ----

local OF_FIGURE = { size = true, columns = true, aligned = true }

-- Panels and options of what pn.plot.show and pn.plot.save take.
local function figure_of(content, opt)
  if getmetatable(content) == panel.panel_kind then content = { content } end
  local many = type(content) == "table" and getmetatable(content[1]) == panel.panel_kind
  local o, own = {}, {}
  for key, value in pairs(opt or {}) do o[key] = value end
  for key, value in pairs(content) do
    if OF_FIGURE[key] or many and math.type(key) ~= "integer" then o[key] = value else own[key] = value end
  end
  return many and own or { panel.panel(own) }, o
end

local function picture_of(content, opt)
  local picture = svg.picture(figure_of(content, opt))
  pictures[#pictures + 1] = picture
  return picture
end

function gnuplot.viewer(content, opt)
  picture_of(content, opt)
  return true
end

--- As the library's, by svg.lua: a file in the page's memory, which the page shows.
function pn.plot.save(path, content, opt)
  if type(path) ~= "string" or not path:find "%.svg$" then core.error "plot.save: here path must end in .svg" end
  local file, message = io.open(path, "wb")
  if not file then return nil, "plot.save: " .. message, "io" end
  file:write(picture_of(content, opt))
  file:close()
  return path
end

---- what is asked ----

--- Takes a line: "ok", "more", "error" or "end", and behind a line end what there is to say.
function page.line(text)
  local kind, said = session:feed(text)
  local values = session.values
  for i = 1, values and values.n or 0 do
    if getmetatable(values[i]) == panel.panel_kind then picture_of(values[i]) end
  end
  return kind .. "\n" .. said
end

--- The pictures since the last time, with \1 between.
function page.pictures()
  local list = table.concat(pictures, "\1")
  pictures = {}
  return list
end

--- How many bytes of the end of `text` are replaced, and by which names, a line each.
function page.complete(text)
  local list, replaced = repl.complete(session.env, text, session.lines)
  return replaced .. "\n" .. table.concat(list, "\n")
end

--- Forgets an unfinished statement.
function page.reset()
  session:reset()
  return ""
end

--- What the head of the page says.
function page.version() return ("Penumbra %s, %s"):format(core.version, _VERSION) end

return page
