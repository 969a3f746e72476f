--- What the library holds of lua/ is the same code, line by line, with the comments that help shows where they stand.
local core = require "penumbra.core"

describe("the embedded modules", function()
  it("are the files' code with their lines, and smaller", function()
    local files, embedded, modules, comments = 0, 0, 0, 0
    local pipe = assert(io.popen "find lua -name '*.lua' | LC_ALL=C sort")
    for path in pipe:lines() do
      local name = path:match "^lua/(.*)%.lua$":gsub("/init$", ""):gsub("/", ".")
      local file <close> = assert(io.open(path))
      local text, held = file:read "a", core.source(name)
      assert.equal(string.dump(assert(load(text, "=x"))), string.dump(assert(load(held, "=x"))), name) -- with lines
      local lines = {}
      for line in text:gmatch "(.-)\n" do lines[#lines + 1] = line end
      local number = 0
      for line in held:gmatch "(.-)\n" do
        number = number + 1
        if line:find "^%-%-" then
          assert.equal(lines[number], line, name)
          comments = comments + 1
        end
      end
      files, embedded, modules = files + #text, embedded + #held, modules + 1
    end
    pipe:close()
    assert.equal(#core.modules(), modules)
    assert.is_true(embedded < 0.95 * files)
    assert.is_true(comments > 3000, comments)
  end)
end)
