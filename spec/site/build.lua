--- Makes the site of `make docs`: README, manual and papers as HTML, the reference, an index that can be searched.
---   lua spec/site/build.lua FOLDER      exit code 1 and a list where links, anchors or names are missing
--- README.md becomes index.html; links to .md follow, scripts and sources that a page links or names become pages.
package.path = "./?.lua;" .. package.path
local page = require "spec.site.page"
local public = require "spec.site.public"
local reference = require "spec.site.reference"
local tool = require "spec.gates.tool"

local folder = assert(arg[1], "usage: lua spec/site/build.lua FOLDER")
local quote = tool.quote

local function write(path, text)
  local file = io.open(folder .. "/" .. path, "w")
  if not file then
    os.execute("mkdir -p " .. quote((folder .. "/" .. path):match "^(.*)/"))
    file = assert(io.open(folder .. "/" .. path, "w"))
  end
  file:write(text)
  file:close()
end

local function straight(path)
  local count
  path = path:gsub("^%./", "")
  repeat path, count = path:gsub("[^/]+/%.%./", "", 1) until count == 0
  return path
end

local function is_file(path) return path:find "[^/]$" and io.open(path .. "/.") == nil and tool.read(path) ~= nil end

-- Where a file of the tree is in the site: chapters and sources as pages, the rest as it is.
local function place_of(path)
  if path:find "%.md$" then return (path:gsub("README%.md$", "index.md"):gsub("%.md$", ".html")) end
  if path:find "%.[lch][uh]?a?$" or path:find "%.def$" or path:find "%.py$" then return path .. ".html" end
  return path
end

local sources, pictures, by_name = {}, {}, {}

-- The link from a page of the site to a file of the tree, which is put into the site.
local function link_to(from, path, anchor)
  local place = place_of(path)
  if place == path then pictures[path] = true elseif not path:find "%.md$" then sources[path] = place end
  return page.up(place_of(from)) .. place .. anchor
end

-- Links of a chapter's HTML, which are those of the Markdown, to places of the site.
local function relink(html, from)
  local here = from:match "^(.*/)" or ""
  html = html:gsub('%f[%w](%l+)="([^"]*)"', function(attribute, target)
    if attribute ~= "href" and attribute ~= "src" or target:find "^%a+:" or target:find "^#" then return nil end
    local file, anchor = target:match "^([^#]*)(.*)$"
    return ('%s="%s"'):format(attribute, link_to(from, straight(here .. file), anchor))
  end)
  -- names of files and of functions in the text, outside of links and headings
  return (html:gsub("()<code>([^<]+)</code>", function(at, text)
    local before = html:sub(math.max(1, at - 200), at - 1)
    if before:find "<a [^<]*$" or before:find "<h%d[^>]*>[^\n]*$" or before:find "<pre[^>]*>$" then return nil end
    local file = text:gsub("^penumbra ", ""):match "^([%w_/]+%.%l+)%f[^%w_]"
    for _, path in ipairs(file and {straight(here .. file), file} or {}) do
      if place_of(path) ~= path and is_file(path) then
        return ('<a href="%s"><code>%s</code></a>'):format(link_to(from, path, ""), text)
      end
    end
    local name, rest = text:match "^([%w_.:]+)(.*)$"
    local target = name and (rest == "" or rest:find "^[({]" or rest:find "^ ?&quot;") and by_name[name]
    return target and ('<a href="%s%s"><code>%s</code></a>'):format(page.up(place_of(from)), target, text) or nil
  end))
end

-- A chapter by pandoc: {path, html}; its headings go into the index for searching.
local function chapter(path, names)
  local ok, html = tool.run("%s %s", page.PANDOC, quote(path))
  if not ok then error(html) end
  local titles, place = {}, place_of(path)
  local title
  for level, id, text in html:gmatch '<h(%d) id="([^"]*)">(.-)</h%d>' do
    text = text:gsub("<[^>]*>", "")
    title = title or text
    if level == "2" then titles[#titles + 1] = {text, id} end
    local first = level == "1"
    names[#names + 1] = {name = text, target = place .. (first and "" or "#" .. id), what = first and "page" or title}
  end
  html = html:gsub("<colgroup>.-</colgroup>", ""):gsub("<table", '<div class="scroll"><table')
    :gsub("</table>", "</table></div>"):gsub("</h1>", "</h1>\n" .. page.contents(titles):gsub("%%", "%%%%"), 1)
  return {place, page.frame(place, title or path, relink(html, path))}
end

local function source_page(path)
  local text = assert(tool.read(path), path)
  return page.frame(place_of(path), path, ("<h1><code>%s</code></h1>\n<pre>%s</pre>"):format(path, page.escape(text)))
end

local function search_index(names)
  local out = {}
  for k, e in ipairs(names) do
    local text = e.name:gsub("&lt;", "<"):gsub("&gt;", ">"):gsub("&quot;", '"'):gsub("&amp;", "&")
    out[k] = ("[%q,%q,%q]"):format(text, e.target, e.what):gsub("\\\n", " ")
  end
  return "window.penumbraIndex = [\n" .. table.concat(out, ",\n") .. "\n];\n"
end

os.execute(("rm -rf %s && mkdir -p %s"):format(quote(folder), quote(folder)))
local pages, names = reference.pages "."
for _, e in ipairs(names) do -- m:fit of several modules is nobody's
  by_name[e.name] = (by_name[e.name] == nil or by_name[e.name] == e.target) and e.target
end
for _, path in ipairs {"README.md", table.unpack(tool.files(".", "examples", "*.md"))} do
  pages[#pages + 1] = chapter(path, names)
end
for _, e in ipairs(pages) do write(e[1], e[2]) end
for path, place in pairs(sources) do write(place, source_page(path)) end
for path in pairs(pictures) do write(path, assert(tool.read(path), path .. " is not there")) end
for _, name in ipairs {"style.css", "search.js"} do write(name, assert(tool.read("spec/site/" .. name))) end
write("search_index.js", search_index(names))
local complaints, links = require "spec.site.links"(folder, public "src/penumbra.h")
for _, text in ipairs(complaints) do io.stderr:write(text, "\n") end
print(("%s/index.html: %d pages, %d names, %d links"):format(folder, #tool.files(folder, ".", "*.html"), #names, links))
os.exit(#complaints == 0)
