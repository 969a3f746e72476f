--- Help by words, the sections of the manual that treat a name, examples that run, all within the terminal's width.
local chapters = require "penumbra.shell.chapters"
local core = require "penumbra.core"
local help = require "penumbra.shell.help"
local pn = require "penumbra"
local repl = require "penumbra.shell"
local word_search = require "penumbra.shell.word_search"
local worked_example = require "penumbra.shell.worked_example"

-- What f prints.
local function printed(f, ...)
  local lines, old = {}, print
  _G.print = function(...)
    local list = table.pack(...)
    for k = 1, list.n do list[k] = tostring(list[k]) end
    lines[#lines + 1] = table.concat(list, "\t")
  end
  local ok, message = pcall(f, ...)
  _G.print = old
  assert(ok, message)
  return table.concat(lines, "\n")
end

-- The names of the entries that help lists for a question, in its order.
local function listed(question)
  local names = {}
  for line in help.text(question):gmatch "\n  (%S[^\n]*)" do names[#names + 1] = line:match "^pn%S+" end
  return names
end

local function read_file(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

describe("finding by words", function()
  local index = word_search.index {
    { name = "dropout", text = "leaves out units at a rate", item = "dropout" },
    { name = "rate", text = "of learning", item = "rate" },
    { name = "linear", text = "units and a rate and learning", item = "linear" },
    { name = "conv", head = "units", text = "pictures", item = "conv" },
    { name = "other", text = "units", item = "other" },
    { name = "learning", text = "its rate", item = "learning" },
  }

  it("takes what has most of the words, rare words and words of names first", function()
    -- all of "dropout rate": one; of "units": by name 6, head 3, text 1, then by place
    assert.same({ { "dropout" }, 1 }, { word_search.find(index, "dropout rate", 5) })
    assert.same({ { "conv", "dropout", "linear", "other" }, 4 }, { word_search.find(index, "units", 5) })
    assert.same({ { "conv", "dropout" }, 4 }, { word_search.find(index, "units", 2) })
    -- scores of "learning rate": learning, of 3 entries, counts log(1 + 6/3), rate, of 4, log(1 + 6/4)
    assert.same({ { "learning", "rate", "linear" }, 3 }, { word_search.find(index, "the learning rates", 5) })
  end)

  it("wants two words of several, and tells endings and cases apart from words", function()
    assert.same({ {}, 0 }, { word_search.find(index, "learning zebra", 5) })
    assert.same({ {}, 0 }, { word_search.find(index, "zebra", 5) })
    assert.same({ {}, 0 }, { word_search.find(index, "of the", 5) })
    assert.same({ "conv" }, (word_search.find(index, "Picture of UNIT", 5)))
  end)

  it("finds names, summaries and texts of options", function()
    assert.equal("pn.nn.dropout", listed("dropout rate")[1])
    assert.equal("pn.train.fit", listed("early stopping patience")[1])
    assert.equal("pn.smc.kalman.smooth", listed("smooth kalman")[1])
    assert.equal("pn.data.save_csv", listed("write csv")[1])
    local found = {}
    for _, name in ipairs(listed "trajectories leapfrogs warmup adaptation") do found[name] = true end
    assert.is_true(found["pn.nuts"]) -- in the text of an option alone
    for _, question in ipairs { "dropout rate", "smooth kalman", "write csv" } do
      for _, name in ipairs(listed(question)) do
        assert.not_matches("^nothing", help.text(name))
      end
    end
    assert.matches("^nothing is called 'dropout rate'\n\nWith its words:\n", help.text "dropout rate")
    assert.matches("^regression: .*\n\nWith its words:\n  pn.dist.zero_inflated_poisson",
      help.text "poisson regression")
  end)
end)

describe("the manual at the prompt", function()
  it("has sections that are there", function()
    local count = 0
    for _, s in ipairs(chapters.list()) do
      local file = assert(io.open(s.path))
      local text = file:read "a"
      file:close()
      assert(text:find("# " .. s.title, 1, true), s.title)
      for _, program in ipairs(s.programs) do
        assert(text:find("```lua\n" .. program .. "\n```", 1, true))
        count = count + 1
      end
    end
    assert.is_true(count >= 10)
  end)

  it("is shown beside what it treats", function()
    local function section(question)
      return help.text(question):gsub("%s+", " "):match "In the manual: (.-) %(%S+%.md%)"
    end
    assert.equal("Layers, initialisers, optimisers", section "pn.nn.dropout")
    assert.equal("Distributions", section "dist.gamma")
    assert.equal("Operations", section "logcumsumexp")
    assert.matches("^Bayesian networks, Active learning", section "pn.active.pool")
    local path = help.text "dropout rate":gsub("%s+", " "):match "In the manual: .- %((%S+%.md)%)"
    local text = read_file(path):lower()
    assert.truthy(text:find("dropout", 1, true) and text:find("rate", 1, true), path)
    assert.is_nil(section "pn.data.json") -- of which no chapter speaks
  end)
end)

describe("the place of the manual", function()
  -- The sections that a program of this path finds, whose modules are no files.
  local function sections(program)
    local old, path = arg, package.path
    _G.arg, package.path = { [-1] = "-x", [0] = "script.lua", [-2] = program }, ""
    local ok, list = pcall(function()
      return assert(load(read_file "lua/penumbra/shell/chapters.lua", "=penumbra.shell.chapters"))().list()
    end)
    _G.arg, package.path = old, path
    assert(ok, list)
    return list
  end

  it("is beside the folder of the program, or there is none", function()
    local list = sections "spec/penumbra"
    assert.equal(#chapters.list(), #list)
    for k, s in ipairs(chapters.list()) do assert.equal(s.text, list[k].text) end
    assert.equal("spec/../examples/manual/", list[1].path:match "^(.*/)")
    assert.same({}, sections "/nowhere/at/all/penumbra")
  end)
end)

describe("the section that treats a name", function()
  local old = chapters.list
  after_each(function() chapters.list = old end)

  -- The title of what chapters.about finds among sections {title, text}.
  local function about(name, ...)
    local list = {}
    for k, pair in ipairs { ... } do list[k] = { title = pair[1], chapter = "C", text = pair[2], programs = {} } end
    chapters.list = function() return list end
    local found = chapters.about(name)
    return found and found.title
  end

  it("speaks of it most: a title counts five times, the head of a table's row twenty, the first of equals wins",
    function()
    local name = "pn.nn.early_stop"
    local function times(n) return ("nn.early_stop, "):rep(n) end
    assert.equal("B", about(name, { "A", times(2) }, { "B", "as pn.nn.early_stop(nn.early_stop), " .. times(1) }))
    assert.equal("A", about(name, { "A", times(6) }, { "Early stop", times(1) }))
    assert.equal("Early stop", about(name, { "A", times(5) }, { "Early stop", times(1) }))
    assert.equal("A", about(name, { "A", times(20) }, { "B", "a\n| `early_stop(rate)` | stops |\n" }))
    assert.equal("B", about(name, { "A", times(19) }, { "B", "| `early_stop(rate)` | stops |\n" }))
    assert.is_nil(about(name, { "Early stop", "early_stop of others" }, { "B", "`early_stop(rate)`" }))
    assert.is_nil(about("pn", { "A", "pn pn.nn" }))
    assert.is_nil(about(name))
  end)

  it("is found by any part of a longer name", function()
    for text, is in pairs { ["x.y.z"] = true, ["w.x.y.z"] = true, ["x.y.z.w"] = true, ["v.w.x.y.z"] = false,
      ["x.y"] = false,
      ["y.z"] = false, ["x.yz"] = false, ["x.y.zz"] = false } do -- four parts are looked at
      assert.equal(is and "A" or nil, about("pn.x.y.z", { "A", text }), text)
    end
  end)

  it("has the shortest of the programs, the first of two", function()
    local sections = { { title = "A", chapter = "A", path = "a.md", programs = { "pn.x.f(1, 2)", "pn.x.f(3)" } },
      { title = "B", chapter = "A", path = "b.md", programs = { "g()", "pn.x.f(4)" } } }
    chapters.list = function() return sections end
    local program, section = chapters.program "pn.x.f"
    assert.same({ "pn.x.f(3)", sections[1] }, { program, section })
    assert.is_nil(chapters.program "pn.x.h")
    assert.same({ "A (a.md)", "A, B (b.md)" }, { chapters.where(sections[1]), chapters.where(sections[2]) })
  end)
end)

describe("examples", function()
  it("of rows are printed and run", function()
    local state = pn.rng_state()
    local said = printed(worked_example.example, "gamma")
    assert.truthy(said:find("pn.dist.gamma(concentration, rate = 1)\n", 1, true))
    assert.truthy(said:find("\n> d = pn.dist.gamma(2)\n> d:log_prob(1.5)\n", 1, true))
    local log_prob = said:match "d:log_prob%(1%.5%)\n(%S+)  float64 %[%]\n> d:mean%(%)\n2 "
    assert.near(math.log(1.5) - 1.5, tonumber(log_prob), 5e-5) -- as it is shown
    assert.same(state, pn.rng_state()) -- it draws, and the session's draws are the same
    assert.is_nil(rawget(_G, "d"))
  end)

  it("are else programs of the manual", function()
    local said = printed(worked_example.example, "pn.smc.filter")
    local program, section = chapters.program "pn.smc.filter"
    assert.truthy(program:find("pn.smc.filter", 1, true))
    assert.truthy(said:find(program, 1, true))
    assert.truthy(said:gsub("%s+", " "):find("in the manual: " .. chapters.where(section), 1, true))
    local _, stop = said:find(program, 1, true)
    assert.matches("^\n\n%-?%d+%.%d+\t", said:sub(stop + 1)) -- an increment of a log-evidence and two moments
    for _, s in ipairs(chapters.list()) do
      for _, other in ipairs(s.programs) do
        assert(#other >= #program or not other:find("smc.filter", 1, true))
      end
    end
  end)

  it("leave the element type as it was, and raise what they raise", function()
    local old = chapters.program
    chapters.program = function() return "pn.default_dtype 'float32' error('torn', 0)", chapters.list()[1] end
    local ok, message = pcall(printed, worked_example.example, "pn.data.csv")
    chapters.program = old
    assert.is_false(ok)
    assert.matches("torn$", message)
    assert.equal("float64", pn.default_dtype())
  end)

  it("say so where there is none", function()
    assert.equal(help.text "mtmul", printed(worked_example.example, "mtmul"))
    assert.equal('pn.data.json has no example; help "pn.data.json" tells of it', printed(worked_example.example,
      "pn.data.json"))
    assert.error_matches(function() worked_example.example(3) end, "example: name must be a string, got 3")
  end)

  it("are had at the prompt", function()
    local env = setmetatable({}, { __index = _G })
    for name, value in pairs(_G) do rawset(env, name, value) end
    setmetatable(env, nil)
    local s = repl.session { env = env }
    for _, line in ipairs { 'example "gamma"', "example gamma" } do
      local kind
      local said = printed(function() kind = s:feed(line) end)
      assert.equal("ok", kind)
      assert.matches("\n> d:mean%(%)\n2 ", said)
    end
    assert.is_nil(rawget(env, "d"))
  end)
end)

describe("the terminal's width", function()
  it("holds what help says", function()
    local old = core.terminal
    for _, columns in ipairs { 50, 64 } do
      core.terminal = function() return columns end
      local ok, message = pcall(function()
        local function look(...)
          for line in printed(help.help, ...):gmatch "[^\n]+" do
            local head, last = line:match "^(.-)(%S+)$" -- a word that has no room even on a line of its own
            assert(#line < columns or #last > 8 and (not head:find "%S" or head:find "%S%s%s+$"), line)
          end
        end
        look()
        for _, name in ipairs { "tasks", "dropout rate", "smooth kalman", "xyzzy", "dist", "kl", "kl(normal, gamma)",
          "early stopping", "num_samples", "rtol", "pn.nuts", "vae", "regress", pn.ones { 2 }, pn.dist.normal(0, 1) } do
          look(name)
        end
      end)
      core.terminal = old
      assert(ok, message)
    end
  end)
end)
