--- What is told of the command's options: --help, the manual page and the completions of shells say the same, and what
--- they say is what the command takes. Completions are asked of the shells themselves where those are to be had.
local build = os.getenv "BUILD" or "build"
local command = build .. "/penumbra"
local folder = os.tmpname()
os.remove(folder)
os.execute("mkdir '" .. folder .. "'")

local function quote(s) return "'" .. s:gsub("'", "'\\''") .. "'" end

local function write(name, text)
  local file = assert(io.open(folder .. "/" .. name, "wb"))
  file:write(text)
  file:close()
  return folder .. "/" .. name
end

-- Exit code of a shell line and what it printed.
local function sh(line)
  local pipe = assert(io.popen("exec 2>&1; " .. line))
  local out = pipe:read "a"
  local _, _, code = pipe:close()
  return code or 0, out
end

local function told(arguments)
  local code, out = sh(command .. " " .. arguments .. " </dev/null")
  assert.equal(0, code, out)
  return out
end

local function has(program) return (sh("command -v " .. program)) == 0 end

-- What the command takes, by its name, with the value that it wants.
local TAKEN = { ["-e"] = "x=1", ["-i"] = "", ["--seed"] = "3", ["--threads"] = "1", ["--dtype"] = "float32",
  ["--strict"] = "", ["--version"] = "", ["-v"] = "", ["--help"] = "", ["-h"] = "", ["--man"] = "",
  ["--completion"] = "zsh" }

local function sorted(t)
  local list = {}
  for name in pairs(t) do list[#list + 1] = name end
  table.sort(list)
  return list
end

-- The words that bash offers for the last of `words`.
local function bash(words)
  local list = {}
  for k, word in ipairs(words) do list[k] = quote(word) end
  local script = write("ask.bash", ([[
source %s
cd %s
COMP_WORDS=(%s)
COMP_CWORD=%d
_penumbra
for word in "${COMPREPLY[@]}"; do printf '%%s\n' "$word"; done
]]):format(quote(folder .. "/completion.bash"), quote(folder .. "/files"), table.concat(list, " "), #words - 1))
  local code, out = sh("bash " .. script)
  assert.equal(0, code, out)
  local offered = {}
  for word in out:gmatch "[^\n]+" do offered[#offered + 1] = word end
  table.sort(offered)
  return offered
end

describe("what is told of the command's options", function()
  setup(function()
    for _, shell in ipairs { "bash", "zsh", "fish" } do
      write("completion." .. shell, told("--completion " .. shell))
    end
    write("penumbra.1", told "--man")
    os.execute(("mkdir %s/files %s/files/data; touch %s/files/model.lua '%s/files/my model.lua' %s/files/notes.txt")
      :gsub("%%s", folder))
  end)
  teardown(function() os.execute("rm -rf " .. quote(folder)) end)

  it("is what the command takes", function()
    for name, value in pairs(TAKEN) do
      local code, out = sh(("%s %s %s </dev/null"):format(command, name, value))
      assert.equal(0, code, out)
    end
    for _, bad in ipairs { "float16", "float", "''", "'float64 float32'", "float64x" } do
      local code, out = sh(("%s --dtype %s -e 'print(1)'"):format(command, bad))
      assert.equal(1, code)
      assert.matches("^penumbra: %-%-dtype must be float64 or float32, got ", out)
    end
    local code, out = sh(command .. " --completion tcsh")
    assert.equal(1, code)
    assert.equal("penumbra: --completion must be bash, zsh or fish, got 'tcsh'\n", out)
  end)

  it("is in --help, a line each", function()
    local known = {}
    for line in told "--help":gmatch "[^\n]+" do
      assert(#line <= 96, line)
      local name = line:match "^  (%-%S+)"
      if name then known[name] = true end
    end
    known["-v"], known["-h"] = true, true -- second names
    assert.same(sorted(TAKEN), sorted(known))
  end)

  it("is in the manual page, which groff and man take", function()
    local text, known = told "--man", {}
    for line in text:gmatch "\n%.TP\n([^\n]+)" do
      for name in line:gmatch "\\fB(\\%-[\\%-%l]+)\\fR" do known[(name:gsub("\\", ""))] = true end
    end
    assert.same(sorted(TAKEN), sorted(known))
    assert.matches('^%.TH PENUMBRA 1 "" "Penumbra %d+%.%d+%.%d+"', text)
    for _, section in ipairs { "NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES" } do
      assert.truthy(text:find("\n.SH " .. section .. "\n", 1, true), section)
    end
    local page = quote(folder .. "/penumbra.1")
    if has "groff" then assert.same({ 0, "" }, { sh("groff -man -ww -z -Tutf8 " .. page) }) end
    if has "man" and has "groff" then
      local code, out = sh("LC_ALL=C MANWIDTH=78 man --warnings -l " .. page .. " | cat")
      assert.equal(0, code)
      assert.truthy(out:find("--completion SHELL", 1, true), out)
      assert.not_matches("warning:", out)
    end
  end)

  it("is completed by bash", function()
    if not has "bash" then return end
    assert.same({ 0, "" }, { sh("bash -n " .. quote(folder .. "/completion.bash")) })
    assert.same(sorted(TAKEN), bash { "penumbra", "-" })
    assert.same({ "--seed", "--strict" }, bash { "penumbra", "--s" })
    assert.same({ "--threads" }, bash { "penumbra", "--seed", "3", "--t" })
    assert.same({ "float32", "float64" }, bash { "penumbra", "--dtype", "" })
    assert.same({ "float32" }, bash { "penumbra", "--dtype", "float3" })
    assert.same({ "float32", "float64" }, bash { "penumbra", "--dtype", "=" }) -- as bash parts --dtype=
    assert.same({ "float64" }, bash { "penumbra", "--dtype", "=", "float6" })
    assert.same({ "bash", "fish", "zsh" }, bash { "penumbra", "--completion", "" })
    assert.same({ "--strict" }, bash { "penumbra", "--dtype", "=", "float32", "--st" })
    assert.same({}, bash { "penumbra", "--seed", "" })
    assert.same({}, bash { "penumbra", "-e", "-" }) -- the code of an expression
    assert.same({ "data", "model.lua", "my model.lua" }, bash { "penumbra", "" })
    assert.same({ "model.lua", "my model.lua" }, bash { "penumbra", "--strict", "m" })
    assert.same({}, bash { "penumbra", "model.lua", "--s" }) -- the script's own arguments: files, by default
    assert.same({}, bash { "penumbra", "-e", "x = 1", "model.lua", "-" })
  end)

  it("is completed by fish", function()
    if not has "fish" then return end
    local function fish(line)
      local code, out = sh(("HOME=%s fish --no-config -c %s"):format(quote(folder), quote(
        ("source %s/completion.fish; complete -C %s"):format(folder, quote(line)))))
      assert.equal(0, code, out)
      local offered = {}
      for word in out:gmatch "([^\t\n]+)[^\n]*\n" do offered[#offered + 1] = word end
      table.sort(offered)
      return offered
    end
    assert.same({ "--seed", "--strict" }, fish "penumbra --s")
    assert.same({ "float32", "float64" }, fish "penumbra --dtype ")
    assert.same({ "bash", "fish", "zsh" }, fish "penumbra --completion ")
    local both = {}
    for _, word in ipairs(fish "penumbra -") do both[word] = true end
    for name in pairs(TAKEN) do assert(both[name], name) end
  end)

  it("is read by zsh", function()
    if not has "zsh" then return end
    assert.same({ 0, "" }, { sh("zsh -f -n " .. quote(folder .. "/completion.zsh")) })
    local known = {}
    for line in told "--completion zsh":gmatch "\n  '([^\n]+)" do
      local name = line:gsub("^%b()", ""):match "^%*?(%-[%l%-]+)=?%["
      if name then known[name] = true end
    end
    assert.same(sorted(TAKEN), sorted(known))
  end)
end)
