--- The formats of other programs beside these programs themselves: each script in Python of this folder is run by
--- what `make formats` has installed (build/peers/formats), and calls the one in Lua beside it. Where there is no such
--- Python each is skipped, and that is said.
---   lua spec/formats/run.lua [NAME]...
local build = os.getenv "BUILD" or "build"
local lua = arg[-1] or "lua5.4"
local python = build .. "/peers/formats/bin/python"
local ready = io.open(build .. "/peers/formats/installed")
if ready then ready:close() end

local names = #arg > 0 and arg or { "arviz", "stan", "onnx", "arrow" }
local counts = { passed = 0, failed = 0, skipped = 0 }
for _, name in ipairs(names) do
  local verdict = "skipped"
  if ready then
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute(("mkdir -p '%s'"):format(folder)))
    verdict = os.execute(("'%s' -W ignore spec/formats/%s_peer.py '%s' '%s'"):format(python, name, lua, folder))
      and "passed" or "failed"
    os.execute(("rm -rf '%s'"):format(folder))
  end
  counts[verdict] = counts[verdict] + 1
  print(("%-8s %s%s"):format(verdict, name, ready and "" or " (no packages: make formats installs them)"))
end
print(("%d passed, %d failed, %d skipped"):format(counts.passed, counts.failed, counts.skipped))
os.exit(counts.failed == 0)
