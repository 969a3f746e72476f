--- Draws the pictures of pages and examples anew, `make gallery`: each script with --quick, or from the runs that are
--- kept beside its page, into FOLDER, with a page that shows them beside the committed ones.
---   lua spec/site/gallery.lua FOLDER                draws all, minutes
---   lua spec/site/gallery.lua FOLDER full DATA      the full runs, hours in all; DATA: a folder with the data sets
---   lua spec/site/gallery.lua FOLDER only PART      those whose script's path contains PART
package.path = "./?.lua;" .. package.path
local drawn_by = require "spec.site.drawn_by"
local page = require "spec.site.page"
local tool = require "spec.gates.tool"

local quote = tool.quote

-- Runs a row's script where its pictures may lie; returns whether it went well, its seconds and its last line.
local function draw(row, place, mode, data)
  local arguments = mode == "full" and (row.full or "") or row.kept or "--quick " .. (row.quick or "")
  if row.out then arguments = arguments .. " --out . --pictures png" end
  local kept = arguments:match "results/[%w_.]+"
  local folder = row.script:match "^(.*)/"
  arguments = arguments:gsub("results/([%w_.]+)", "%1"):gsub("%f[%u]DATA%f[%U]", quote(data or "DATA"))
  local script = row.script:find "%.md$" and ("spec/site/chapter.lua %s"):format(row.script) or row.script
  local from = os.time()
  local build = os.getenv "BUILD" or "build"
  local ok, said = tool.run("mkdir -p %s && R=$(pwd) && cd %s%s && "
    .. "LUA_PATH=\"$R/lua/?.lua;$R/lua/?/init.lua;$R/?.lua;;\" LUA_CPATH=\"%s/lua/?.so;;\" %s \"$R\"/%s %s",
    quote(place), quote(place), kept and (" && cp \"$R\"/%s/%s ."):format(folder, kept) or "",
    build:find "^/" and build or "$R/" .. build, os.getenv "LUA" or "lua5.4", script, arguments)
  return ok, os.time() - from, said:match "([^\n]*)\n*$", arguments
end

local function figure(source, caption)
  return ('<figure><a href="%s"><img src="%s" alt="%s"></a><figcaption>%s</figcaption></figure>'):format(source, source,
    caption, caption)
end

local times = {} -- how often a script has had its turn

local function section(row, folder, mode, data)
  times[row.script] = (times[row.script] or 0) + 1
  local name = row.script:gsub("%.%w+$", "") .. (times[row.script] > 1 and "_" .. times[row.script] or "")
  local place = folder .. "/" .. name
  local out = {('<h2 id="%s"><a href="../../%s">%s</a></h2>'):format(page.anchor(name), row.script, row.script)}
  local ok, seconds, said, arguments = draw(row, place, mode, data)
  local now = ok and seconds .. " s" or "<strong>failed</strong>, " .. page.escape(said)
  out[#out + 1] = ("<p><code>%s %s</code>: %s. In full: <code>%s %s</code>, %s.</p>"):format(row.script, arguments, now,
    row.script, row.full or "", row.time):gsub(" +</code>", "</code>")
  out[#out + 1] = '<div class="gallery">'
  for _, path in ipairs(row.pictures) do
    os.execute(("mkdir -p %s/committed && cp %s %s/committed/%s"):format(quote(folder), quote(path), quote(folder),
      (path:gsub("/", "_"))))
    out[#out + 1] = figure("committed/" .. path:gsub("/", "_"), "on the page: " .. path)
  end
  local drawn = tool.files(place, ".", "*.png", "*.svg")
  for _, path in ipairs(drawn) do
    path = path:gsub("^%./", "")
    out[#out + 1] = figure(name .. "/" .. path, "now: " .. path)
  end
  out[#out + 1] = "</div>"
  print(("%-60s %s %3d s, %d pictures"):format(row.script, ok and "ok  " or "FAIL", seconds, #drawn))
  return table.concat(out, "\n"), ok
end

local folder = assert(arg[1], "usage: lua spec/site/gallery.lua FOLDER [full DATA | only PART]")
os.execute(("mkdir -p %s && cp spec/site/style.css %s"):format(quote(folder), quote(folder)))
local sections, failed = {}, 0
for _, row in ipairs(drawn_by.rows ".") do
  if arg[2] ~= "only" or row.script:find(arg[3], 1, true) then
    local text, ok = section(row, folder, arg[2], arg[3])
    sections[#sections + 1], failed = text, failed + (ok and 0 or 1)
  end
end
local file = assert(io.open(folder .. "/index.html", "w"))
file:write(page.frame("index.html", "Gallery", "<h1>Gallery</h1>\n" .. table.concat(sections, "\n"), true))
file:close()
print(("%s/index.html, %d scripts failed"):format(folder, failed))
os.exit(failed == 0)
