--- What the fuzzers in Lua share: options of the command line and the parent, which runs children, one seed each, until
--- the time is over, and reports those that die with their last call (the last line of their file `log`).
---     local options = dofile(arg[0]:gsub("[^/]*$", "") .. "children.lua") "api"      returns in children alone
--- Options of a fuzzer's own are handed on. A child has three minutes of the processor.
local function read(path)
  local file = io.open(path, "rb")
  local text = file and file:read "a" or ""
  if file then file:close() end
  return text
end

local function given(what)
  local options = { seed = 1, seconds = 5, calls = 400 }
  for i = 1, #arg, 2 do
    local name = arg[i]:match "^%-%-(%a+)$"
    options[name or error(what .. ": unknown argument " .. arg[i])] = tonumber(arg[i + 1]) or arg[i + 1]
  end
  return options
end

local function parent(what, options)
  local lua, script = arg[-1] or "lua5.4", arg[0]
  local root = io.popen("pwd"):read "l"
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute("mkdir -p " .. folder))
  local function absolute(path) return path:find "/" and path:sub(1, 1) ~= "/" and root .. "/" .. path or path end
  local function absolute_all(name)
    return ("%s='%s'"):format(name, ((os.getenv(name) or ";;"):gsub("[^;]+", absolute)))
  end
  local others = ""
  for name, value in pairs(options) do
    if name ~= "seed" and name ~= "seconds" then others = ("%s --%s %s"):format(others, name, value) end
  end
  local started, seed, failed, calls = os.time(), options.seed, 0, 0
  repeat
    local command = "cd %s && rm -rf ./* && ulimit -t 180 && %s %s timeout -k 5 1200 %s %s --child %d%s >output 2>&1"
    local line = command:format(folder, absolute_all "LUA_PATH", absolute_all "LUA_CPATH", absolute(lua),
      absolute(script), seed, others)
    local _, _, code = os.execute(line)
    local log = read(folder .. "/log")
    calls = calls + select(2, log:gsub("\n", ""))
    if code ~= 0 then
      failed = failed + 1
      local why = (code == 124 or code > 128) and " (a signal, or its time was over)" or ""
      print(("%s: seed %d ended with code %d%s; its last call:"):format(what, seed, code, why))
      print(log:match "([^\n]*)\n?$")
      print(read(folder .. "/output"):sub(-6000))
      print(("again: %s %s --child %d%s"):format(lua, script, seed, others))
    end
    seed = seed + 1
  until os.time() - started >= options.seconds or failed >= 3
  os.execute("rm -rf " .. folder)
  print(("%s: %d calls in %d processes, seeds %d to %d"):format(what, calls, seed - options.seed, options.seed,
    seed - 1))
  print(("%d passed, %d failed, 0 skipped"):format(seed - options.seed - failed, failed))
  os.exit(failed == 0)
end

return function(what)
  local options = given(what)
  if not options.child then parent(what, options) end
  return options
end
