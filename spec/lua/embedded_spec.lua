--- What the library holds of lua/ is the same code, line by line: only comments that help does not show are gone.
local core = require "penumbra.core"

describe("the embedded modules", function()
  it("are the files' code with their lines, and smaller", function()
    local files, embedded, modules = 0, 0, 0
    local pipe = assert(io.popen "find lua -name '*.lua' | LC_ALL=C sort")
    for path in pipe:lines() do
      local name = path:match "^lua/(.*)%.lua$":gsub("/init$", ""):gsub("/", ".")
      local file <close> = assert(io.open(path))
      local text, held = file:read "a", core.source(name)
      assert.equal(string.dump(assert(load(text, "=x"))), string.dump(assert(load(held, "=x"))), name) -- with lines
      files, embedded, modules = files + #text, embedded + #held, modules + 1
    end
    pipe:close()
    assert.equal(#core.modules(), modules)
    assert.is_true(embedded < 0.95 * files)
  end)
end)
