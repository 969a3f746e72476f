--- One page out of its parts: lua bundle.lua FOLDER OUT.html LOADER.js PROGRAM.wasm. FOLDER has page.html and what else
--- the page is made of; the program goes in as gzip in base64.
local folder, out, loader, program = table.unpack(arg)

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

local function part(name) return read(folder .. "/" .. name) end

local pipe = assert(io.popen(("gzip -9nc '%s' | base64 -w 120"):format(program)))
local packed = pipe:read "a"
assert(pipe:close() and #packed > 0, "gzip or base64 failed")

local lua = "package.preload.svg = load([==[" .. part "svg.lua" .. "]==], '=svg')\n" .. part "page.lua"
local parts = { { "lua", "text/plain", lua }, { "model-text", "text/plain", part "track.lua" },
  { "loader", "text/plain", read(loader) }, { "worker", "text/plain", part "worker.js" },
  { "wasm", "text/plain", packed } }
local texts = {}
for i, p in ipairs(parts) do
  assert(not p[3]:lower():find("</script", 1, true), p[1])
  texts[i] = ('<script id="%s" type="%s">%s</script>\n'):format(table.unpack(p))
end
texts[#texts + 1] = "<script>\n" .. part "page.js" .. "</script>"
local html = part("page.html"):gsub("@PARTS@", function() return table.concat(texts) end)
local file = assert(io.open(out, "wb"))
file:write(html)
file:close()
print(("%s: %.2f MB, of which the program packed %.2f"):format(out, #html / 1e6, #packed / 1e6))
