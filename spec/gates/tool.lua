--- What the gates share: running commands, listing and reading files.
local tool = {}

--- The lines a command prints.
function tool.lines(command, ...)
  local pipe = assert(io.popen(command:format(...)))
  local list = {}
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

--- A word for the shell.
function tool.quote(s) return "'" .. s:gsub("'", "'\\''") .. "'" end

--- Files below root's folders whose names match one of the shell patterns, sorted, relative to root.
function tool.files(root, folders, ...)
  local tests = {}
  for _, pattern in ipairs {...} do tests[#tests + 1] = "-name " .. tool.quote(pattern) end
  local found = tool.lines("cd %s && find $(ls -d %s 2>&-) -type f \\( %s \\) 2>&- | LC_ALL=C sort", tool.quote(root),
    folders, table.concat(tests, " -o "))
  return found
end

--- A file's text, or nil.
function tool.read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read "a"
  file:close()
  return text
end

--- The symbols of the library's object files (everything below the programs and the bridge): a list of {object = path
--- relative to build/obj, name =, section = ("*UND*" for imports), kind = objdump's flags}.
function tool.symbols(build)
  local list, object = {}, nil
  for _, line in ipairs(tool.lines(
    "cd %s/obj && objdump -t $(find . -name '*.o' -not -path './cli/*' -not -path './bridge/*' "
    .. "-not -path './kernel/*' -not -path './mpi/*')", tool.quote(build))) do
    object = line:match "^%./(%S+):%s+file format" or object
    -- value, seven columns of flags (d: the section itself), section, size, visibility, name
    local kind, section, name = line:match "^%x+ (.......) (%S+)%s+%x+ ?%S* (%S+)$"
    if name and not kind:find "d" then
      list[#list + 1] = {object = object, name = name, section = section, kind = kind}
    end
  end
  table.sort(list, function(a, b) return a.object == b.object and a.name < b.name or a.object < b.object end)
  return list
end

--- C text with comments blanked, line numbers kept.
function tool.uncommented(text)
  return (text:gsub("/%*.-%*/", function(s) return (s:gsub("[^\n]", " ")) end))
end

--- The same with the contents of strings gone.
function tool.code(text) return (tool.uncommented(text):gsub('"[^"\n]*"', '""')) end

--- Names of the entries of a list's text, X(name) and what else it has: V(name, rule), H(name).
function tool.entries(text)
  local names = {}
  for name in tool.uncommented(text):gmatch "%f[%w][XVH]%(([%w_]+)" do names[#names + 1] = name end
  return names
end

--- Names declared PN_API in a header's text, in order.
function tool.public(text)
  local names = {}
  for declaration in tool.code(text):gmatch "\nPN_API%s+([^;]+);" do
    names[#names + 1] = declaration:match "([%w_]+)%s*%("
  end
  return names
end

--- Does a command succeed? Also its output.
function tool.run(command, ...)
  local pipe = assert(io.popen("exec 2>&1; " .. command:format(...)))
  local out = pipe:read "a"
  return pipe:close() == true, out
end

return tool
