--- What all pages of the site share: the frame, escapes, the text of comments as HTML.
local layout = require "penumbra.layout"

local page = {}

--- How a chapter becomes HTML: as the repository's own viewer reads it, formulas between dollars as MathML.
page.PANDOC = "pandoc -f gfm+tex_math_dollars -t html5 --mathml --wrap=preserve"

--- Text as HTML.
function page.escape(text)
  return (text:gsub("[&<>\"]", {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;"}))
end

--- What stands in an id and, behind a hash, in a link.
function page.anchor(name) return (name:gsub("[^%w_.:-]+", "-"):gsub("^%-+", "")) end

--- The way from a page at `path` ("examples/manual/tour.html") to the folder of all pages.
function page.up(path) return (("../"):rep(select(2, path:gsub("/", "")))) end

-- Code (four blanks in), items, and tables of a name and what it means keep their lines.
local function keeps_lines(line)
  local before = line:match "^(%S.-%s%s+)%S"
  return line:find "^%s" or before and #before <= 36 and not before:find "[.:;,]%s+$"
end

--- A comment's text, as help has it, as paragraphs and blocks of lines.
function page.prose(text)
  local out, block = {}, {}
  local function close()
    local margin = 99
    for _, line in ipairs(block) do margin = math.min(margin, #line:match "^ *") end
    for k, line in ipairs(block) do block[k] = layout.wrap(line:sub(margin + 1), "", 100) end
    if #block > 0 then out[#out + 1] = "<pre>" .. page.escape(table.concat(block, "\n")) .. "</pre>" end
    block = {}
  end
  for line in (text .. "\n"):gmatch "(.-)\n" do
    if keeps_lines(line) then
      block[#block + 1] = line
    else
      close()
      if line:find "%S" then
        out[#out + 1] = "<p>" .. page.escape(line):gsub("`([^`]+)`", "<code>%1</code>") .. "</p>"
      end
    end
  end
  close()
  return table.concat(out, "\n")
end

local FRAME = [[
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>TITLE</title>
<link rel="stylesheet" href="UPstyle.css">
<script src="UPsearch.js" data-root="UP" defer></script>
</head>
<body>
<header><a href="UPindex.html">Penumbra</a> <a href="UPexamples/manual/index.html">Manual</a>
<a href="UPexamples/papers/index.html">Papers</a> <a href="UPreference/index.html">Reference</a>
<a href="UPreference/penumbra.h.html">C</a> <a href="UPreference/names.html">Names</a></header>
<main>
BODY
</main>
</body>
</html>
]]

--- A whole page; alone: without the head that leads to the others.
function page.frame(path, title, body, alone)
  local frame = alone and FRAME:gsub("<script.-</script>\n", ""):gsub("<header>.-</header>\n", "") or FRAME
  return (frame:gsub("%u%u+", {UP = page.up(path), TITLE = page.escape(title), BODY = body, DOCTYPE = false}))
end

--- Titles {text, anchor} as a list that can be opened, where there are more than a few.
function page.contents(list)
  if #list < 4 then return "" end
  local out = {}
  for k, e in ipairs(list) do out[k] = ('<li><a href="#%s">%s</a></li>'):format(e[2], e[1]) end
  return '<details class="contents"><summary>On this page</summary><ul>' .. table.concat(out, "\n") .. "</ul></details>"
end

return page
