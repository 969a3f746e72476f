-- What the experiments with streams choose by, and what they count: folds of training rows, keys of kept runs.
local pn = require "penumbra"
local experiment = dofile "examples/papers/continual/experiment.lua"
local streams = dofile "examples/papers/continual/streams.lua"

describe("folds of training rows", function()
  it("are five, hold out each row once, and leave the others in their order from behind the fold on", function()
    local rows, seen = pn.arange(23):to "int64" + 100, {}
    for k = 1, 5 do
      local rest, held = streams.folded(rows, k)
      assert.equal(23, rest:numel() + held:numel())
      assert(held:numel() == 4 or held:numel() == 5)
      local own = {}
      for _, v in ipairs(held:totable()) do
        assert.is_nil(seen[v])
        seen[v], own[v] = true, true
      end
      local last = held:totable()[held:numel()]
      for i, v in ipairs(rest:totable()) do
        assert.is_nil(own[v])
        assert.equal(100 + (last - 100 + i) % 23, v)
      end
    end
    for v = 100, 122 do assert(seen[v]) end
  end)

  it("give streams that never see the test rows of seed 0", function()
    local whole = streams.stream("yacht", { data = false, seed = 0, rows = 100 })
    for k = 1, 5 do
      local s = streams.stream("yacht", { data = false, seed = 7, fold = k, rows = 100 })
      assert.equal(whole.x:size(1), s.x:size(1) + s.test_x:size(1))
      -- standardising is affine in each column: correlations of inputs with targets over all rows of both are those of
      -- the training rows of seed 0
      local x, y = pn.concatenate({ s.x, s.test_x }, 1):to "float64", pn.concatenate({ s.y, s.test_y }, 1):to "float64"
      for column = 1, 4 do
        local function correlation(a, b)
          a, b = a - a:mean(), b - b:mean()
          return ((a * b):sum() / (a:square():sum() * b:square():sum()):sqrt()):item()
        end
        assert.near(correlation(whole.x:to "float64":select(2, column), whole.y:to "float64"),
          correlation(x:select(2, column), y), 1e-5)
      end
    end
  end)
end)

describe("a kept run", function()
  it("is told apart by its number of steps, its data and the units of its means", function()
    local option = { data = "folder", steps = 100000, lr = 0, activation = "", noise = "", draws = 2, sites = 3,
      first = 4, later = 5, predict = 500, size = "reduced" }
    local function key(more)
      local own = {}
      for name, value in pairs(option) do own[name] = value end
      for name, value in pairs(more) do own[name] = value end
      local size, choice = experiment.described(experiment.size(streams, "yacht", own), experiment.choice(streams,
        "yacht", own))
      return size .. experiment.suffix(own) .. " " .. choice
    end
    local keys = {}
    for _, more in ipairs { {}, { steps = 7 }, { steps = 8 }, { data = "" }, { prior_units = true }, { lr = 0.3 },
      { noise = 0.7 }, { activation = "elu" }, { predict = 20 }, { later = 6 } } do
      assert.is_nil(keys[key(more)])
      keys[key(more)] = true
    end
    assert.equal(key { data = "", show = true }, key {})
  end)
end)
