--- Processors that the library is not for are refused where it is compiled, by the first error, which says why:
--- penumbra.h alone, without a system's headers, which those of another processor may not have. What the machine has no
--- compiler for is left out, and pending where it has none at all.
local HEADER = "src/penumbra.h"
local COMPILERS = {
  {"32 bits", "for 64%-bit processors", {"cc -m32 -ffreestanding", "clang --target=i686-linux-gnu -ffreestanding",
    "clang --target=armv7-linux-gnueabihf -ffreestanding"}},
  {"another byte order", "for little%-endian processors", {"s390x-linux-gnu-cpp -ffreestanding",
    "clang --target=s390x-linux-gnu -ffreestanding", "clang --target=powerpc64-linux-gnu -ffreestanding"}},
}
local OURS = {"cc -ffreestanding", "clang --target=aarch64-linux-gnu -ffreestanding",
  "clang --target=x86_64-linux-gnu -ffreestanding", "clang --target=riscv64-linux-gnu -ffreestanding"}

--- Whether a compiler takes a line of C, and what it says of the header.
local function tries(compiler)
  local known = os.execute(("echo 'int x;' | %s -E -x c - >/dev/null 2>&1"):format(compiler))
  if not known then return nil end
  local pipe = io.popen(("%s -E -x c %s 2>&1 >/dev/null"):format(compiler, HEADER))
  local said = pipe:read "a"
  return pipe:close() or false, said
end

describe("a processor", function()
  for _, row in ipairs(COMPILERS) do
    local what, reason, compilers = table.unpack(row)
    it("of " .. what .. " is refused by the reason", function()
      local tried = 0
      for _, compiler in ipairs(compilers) do
        local taken, said = tries(compiler)
        if taken ~= nil then
          tried = tried + 1
          assert.is_false(taken, compiler)
          assert.truthy(said:match("^[^\n]*\n?[^\n]*error[^\n]*" .. reason), said)
        end
      end
      if tried == 0 then pending "no compiler for one" end
    end)
  end

  it("of 64 bits and this byte order is taken", function()
    local tried = 0
    for _, compiler in ipairs(OURS) do
      local taken, said = tries(compiler)
      if taken ~= nil then
        tried = tried + 1
        assert.is_true(taken, compiler .. "\n" .. said)
      end
    end
    assert.is_true(tried > 0)
  end)
end)
