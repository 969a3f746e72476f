--- The C programs of the manual that stand before a block of text compile, run and print it.
local function read(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

describe("a host of the manual", function()
  local count = 0
  for path in io.popen "LC_ALL=C ls examples/manual/*.md":lines() do
    local text = read(path)
    for source, after in text:gmatch "```c\n(.-)```\n()" do
      local want = text:match("^\n```text\n(.-)```", after)
      count = count + (want and 1 or 0)
      if want then
        it(("%s: C program %d prints what stands below it"):format(path, count), function()
          local build, folder = os.getenv "BUILD" or "build", io.popen "mktemp -d":read "l"
          local file = assert(io.open(folder .. "/host.c", "w"))
          file:write(source)
          file:close()
          local pipe = io.popen(("exec 2>&1; %s -std=c11 -Wall -Wextra -Werror %s -Isrc %s/host.c -o %s/host -L%s "
            .. "-lpenumbra -lm && LD_LIBRARY_PATH=%s %s/host; rm -r %s"):format(os.getenv "CC" or "cc",
            os.getenv "SANITIZE" or "", folder, folder, build, build, folder, folder))
          local out = pipe:read "a"
          pipe:close()
          assert.equal(want, out)
        end)
      end
    end
  end

  it("is there", function() assert.is_true(count >= 1) end)
end)
