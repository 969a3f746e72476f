--- The reference as pages: one for each module, from what help has of it (rows and doc comments), one for penumbra.h,
--- a list of all pages and an index of every name.
local core = require "penumbra.core"
local help = require "penumbra.shell.help"
local page = require "spec.site.page"
local public = require "spec.site.public"
local tool = require "spec.gates.tool"

local M = {}

-- Where what has no module of its own in its name belongs.
local HOMES = {set = "pn.dist", initialiser = "pn.nn", resampler = "pn.smc"}
local SPEAKERS = {x = "pn", d = "pn.dist", b = "pn.dist.bijector"}

-- The module whose page an entry is on.
local function home_of(e)
  if e.kind == "module" or e.kind == "file" then return e.qualified end
  local speaker = e.qualified:match "^(%l):"
  return HOMES[e.kind] or e.qualified:match "^(pn[%w_.]*)%.[%w_]+$" or not e.module and SPEAKERS[speaker]
    or e.module or "pn"
end

-- The entries of each module: {name =, head = its own entry, list = the others}; all modules by name, and sorted.
local function modules()
  local by_name, sorted = {}, {}
  for _, e in ipairs(help.entries()) do
    local name = home_of(e)
    local m = by_name[name]
    if not m then
      m = {name = name, list = {}, path = "reference/" .. name .. ".html"}
      by_name[name], sorted[#sorted + 1] = m, m
    end
    if e.qualified == name then m.head = e else m.list[#m.list + 1] = e end
  end
  for _, m in ipairs(sorted) do -- pn.nn.likelihood is told of as penumbra.nn.likelihood
    m.head = m.head or (by_name[m.name:gsub("^pn", "penumbra")] or {}).head
  end
  table.sort(sorted, function(a, b) return a.name < b.name end)
  return by_name, sorted
end

-- What a module says of itself.
local function text_of(m)
  return m.head and m.head.text or m.name == "pn" and "Tensors, operations on them, gradients, replay." or ""
end

local function sentence(text) return page.escape((text:match "^[^\n]*":gsub("([%w)\"]%.)%s+%u.*$", "%1"))) end

-- One page. Each of its names is given to add(name, target, text).
local function module_page(m, beside, add)
  local out, list, used = {}, {}, {}
  table.sort(m.list, function(a, b) return a.qualified < b.qualified end)
  add(m.name, m.path, "module")
  for _, e in ipairs(m.list) do
    local anchor = page.anchor(e.kind == "function" and e.qualified:match '^require "[^"]*"%.(.*)$' or e.qualified)
    while used[anchor] do anchor = anchor .. "-2" end
    used[anchor] = true
    local target = m.path .. "#" .. anchor
    add(e.qualified, target, e.kind, e.name)
    if e.qualified == "pn." .. e.name and core.methods[e.name] then add("x:" .. e.name, target, e.kind) end
    list[#list + 1] = {page.escape(e.qualified), anchor}
    out[#out + 1] = ('<h3 id="%s"><code>%s</code></h3>\n%s'):format(anchor, page.escape(e.title), page.prose(e.text))
  end
  local links = {}
  for k, e in ipairs(list) do links[k] = ('<li><a href="#%s">%s</a></li>'):format(e[2], e[1]) end
  local names = #links > 3 and '<ul class="names">' .. table.concat(links, "\n") .. "</ul>\n" or ""
  local also = #beside > 0 and '<p class="where">Its functions: ' .. table.concat(beside, ", ") .. "</p>\n" or ""
  local body = ("<h1><code>%s</code></h1>\n%s\n%s%s%s"):format(m.name, page.prose(text_of(m)), also, names,
    table.concat(out, "\n"))
  return page.frame(m.path, m.name, body)
end

---- penumbra.h ----

-- A comment without its marks; sentences joined to paragraphs, what is set in columns as it is.
local function comment_text(text)
  local lines = {}
  for line in (text:gsub("^/%*+ ?", ""):gsub("%s*%*/%s*$", "") .. "\n"):gmatch "(.-)\n" do
    lines[#lines + 1] = line:gsub("^%s?%*+ ?", "")
  end
  text = table.concat(lines, "\n")
  return text:find "\n  " and "<pre>" .. page.escape(text) .. "</pre>" or "<p>" .. page.escape(text) .. "</p>"
end

-- Declarations with an anchor before each line that declares a name.
local function declarations(lines, path, add, used)
  local text = table.concat(lines, "\n"):gsub("^\n+", ""):gsub("%s+$", "")
  if text == "" then return "" end
  local html = ("\n" .. page.escape(text)):gsub("\n([^\n]+)", function(line)
    local declared, marks = {}, ""
    declared[1] = line:match "^PN_API.-([%w_]+)%(" or line:match "^#define (PN_[%w_]+)" or line:match "^} (pn_[%w_]+);"
      or line:match "^typedef [%w ]+%*?%(%*(pn_[%w_]+)%)" or line:match "^typedef .-(pn_[%w_]+);$"
      or line:match "^  (PN_[%u%d_]+)[, =]"
    for constant in (line:match "^typedef enum[^{]*(%b{})" or ""):gmatch "PN_[%u%d_]+" do
      declared[#declared + 1] = constant
    end
    for _, name in ipairs(declared) do
      marks = used[name] and marks or marks .. ('<span id="%s"></span>'):format(name)
      if not used[name] then add(name, path .. "#" .. name, "C") end
      used[name] = true
    end
    return "\n" .. marks .. line
  end)
  return "<pre>" .. html:sub(2) .. "</pre>"
end

local function header_page(root, add)
  local path, text = "reference/penumbra.h.html", assert(tool.read(root .. "/src/penumbra.h"))
  local out, titles, used, lines = {}, {}, {}, {}
  local function flush()
    out[#out + 1] = declarations(lines, path, add, used)
    lines = {}
  end
  local at = 1
  while at <= #text do
    local comment = text:match("^/%*.-%*/", at)
    local title = comment and comment:match "^/%* %-%-%-%- ([^\n]+)"
    local stop = comment and at + #comment - 1 or (text:find("\n", at, true) or #text) - 1
    if comment then flush() else lines[#lines + 1] = text:sub(at, stop) end
    if title then
      title = title:gsub("[ %-]*%*/$", ""):gsub("%-%-+$", ""):gsub("%s+$", "")
      titles[#titles + 1] = {page.escape(title), page.anchor(title)}
      out[#out + 1] = ('<h2 id="%s">%s</h2>'):format(titles[#titles][2], titles[#titles][1])
      comment = comment:match "\n(.*)$"
    end
    if comment then out[#out + 1] = comment_text(comment) end
    at = stop + 2
  end
  flush()
  add("penumbra.h", path, "C")
  return path, page.frame(path, "penumbra.h", "<h1><code>penumbra.h</code></h1>\n" .. page.contents(titles)
    .. table.concat(out, "\n"))
end

---- all ----

local function list_page(sorted)
  local out = {"<h1>Reference</h1>\n<p>A page for each module, made from rows and doc comments, as <code>help</code> "
    .. 'tells them; <a href="penumbra.h.html">penumbra.h</a>, the C interface; '
    .. '<a href="names.html">every name</a>.</p>'}
  local groups = {{"^pn", "What <code>require \"penumbra\"</code> has"}, {"^penumbra", "Modules by their path"}}
  for _, group in ipairs(groups) do
    out[#out + 1] = "<h2>" .. group[2] .. '</h2>\n<div class="scroll"><table>'
    for _, m in ipairs(sorted) do
      if m.name:find(group[1] .. "%f[%W]") then
        out[#out + 1] = ('<tr><td><a href="%s.html">%s</a></td><td>%s</td></tr>'):format(m.name, m.name,
          sentence(text_of(m)))
      end
    end
    out[#out + 1] = "</table></div>"
  end
  return page.frame("reference/index.html", "Reference", table.concat(out, "\n"))
end

local function names_page(names)
  local out, letter = {"<h1>Every name</h1>"}, nil
  table.sort(names, function(a, b)
    local x, y = a.last:lower(), b.last:lower()
    return x < y or x == y and a.name < b.name
  end)
  for _, e in ipairs(names) do
    local first = e.last:sub(1, 1):upper()
    if first ~= letter then
      out[#out + 1] = ('%s<h2 id="%s">%s</h2><ul class="names">'):format(letter and "</ul>\n" or "", first, first)
      letter = first
    end
    out[#out + 1] = ('<li><a href="%s">%s</a></li>'):format(e.target:gsub("^reference/", ""), page.escape(e.name))
  end
  return page.frame("reference/names.html", "Every name", table.concat(out, "\n") .. "</ul>")
end

--- All pages as a list of {path, html}; every name as {name =, target =, what =}.
function M.pages(root)
  local pages, names = {}, {}
  local function add(name, target, what, last)
    last = (last or name:match "[%w_]+$" or name)
    names[#names + 1] = {name = name, target = target, what = what, last = last}
  end
  local by_name, sorted = modules()
  for _, m in ipairs(sorted) do
    local beside = {}
    for _, e in ipairs(help.entries()) do
      local home = e.module == m.name and home_of(e)
      if home and home ~= m.name then
        beside[#beside + 1] = ('<a href="%s.html#%s">%s</a>'):format(home, page.anchor(e.qualified), e.qualified)
      end
    end
    pages[#pages + 1] = {m.path, module_page(by_name[m.name], beside, add)}
  end
  local known = {}
  for _, e in ipairs(names) do known[e.name] = true end
  for _, name in ipairs(public(root .. "/src/penumbra.h")) do -- told of in the text of their module alone
    local part, last = name:match "^pn%.(.*)%.([%w_]+)$"
    local m = by_name["pn." .. (part or "")]
    if m and not known[name] and text_of(m):find("%f[%w_]" .. last .. "%f[^%w_]") then add(name, m.path, "function") end
  end
  pages[#pages + 1] = {header_page(root, add)}
  pages[#pages + 1] = {"reference/index.html", list_page(sorted)}
  pages[#pages + 1] = {"reference/names.html", names_page(names)}
  return pages, names
end

return M
