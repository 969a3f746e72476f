-- A person at the prompt: what is typed is told to the pool, is in its file at once, and nothing else is taken.
local pn = require "penumbra"
local active = pn.active

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return (message:gsub("^[^:]+:%d+: ", ""))
end

local x = pn.randn({ 12, 1, 4, 4 }, { generator = pn.generator(1) })

local function new_model()
  return active.predictor { classes = 3, probabilities = function(a) return pn.full({ a:size(1), 3 }, 1 / 3) end }
end

local function new_pool(o)
  local given = { x = x, model = new_model(), first = 3, count = 2, max_labels = 7, seed = 4 }
  for name, v in pairs(o or {}) do given[name] = v end
  return active.pool(given)
end

-- Asks with these lines typed; what is written, and what ask returns.
local function typed(pool, lines, o)
  local written, k = {}, 0
  local given = { read_from = { read = function()
    k = k + 1
    return lines[k]
  end }, write_to = { flush = function() end, write = function(_, ...)
    for _, v in ipairs { ... } do written[#written + 1] = tostring(v) end
  end } }
  for name, v in pairs(o or {}) do given[name] = v end
  local _, why = active.ask(pool, given)
  return table.concat(written), why
end

describe("active.ask", function()
  it("takes numbers and names, refuses what is no class, sets aside what is '?', and stops at 'q'", function()
    local pool = new_pool()
    local asked = pool:ask():totable()
    local text, why = typed(pool, { "bird", "7", "cat", " 2 ", "?", "dog", "q" }, { names = { "cat", "dog", "fox" } })
    assert.equal("quit", why)
    assert.truthy(text:find("'bird' is no class", 1, true) and text:find("'7' is no class", 1, true))
    assert.truthy(text:find(("1 of 3, position %d\n"):format(asked[1]), 1, true))
    assert.truthy(text:find("label (cat, dog, fox; ? refuses, q stops): ", 1, true))
    assert.truthy(text:find("round 0: 2 labels, 1 refused; no label yet of class 1", 1, true), text)
    local positions, _, y = pool:labelled()
    assert.same({ asked[1], asked[2] }, positions:totable())
    assert.same({ 0, 2 }, y:totable())
    assert.same({ asked[3] }, pool.refused)
    assert.equal(1, require("penumbra.active.pool").inner(pool).asked.labels[1]) -- of the second round
  end)

  it("goes on from its file after each label, in the place where it was", function()
    local path = os.tmpname()
    local pool = new_pool()
    local asked = pool:ask():totable()
    typed(pool, { "1", "0" }, { path = path }) -- the line is cut
    local again = assert(pn.restore(path, { x = x, model = new_model() }))
    assert.same(asked, again:ask():totable())
    local text, why = typed(again, { "2", "1", "1", "0", "2" }, { path = path })
    assert.truthy(text:find("\n3 of 3, position ", 1, true) and not text:find("\n1 of 3, position", 1, true))
    assert.equal("ask: the budget of 7 labels is spent", (typed(again, { "0" }):match "[^\n]+"))
    assert.equal("ask: the budget of 7 labels is spent", why)
    local _, _, y = again:labelled()
    assert.same({ 1, 0, 2 }, y:slice(1, 1, 3):totable())
    assert.equal(7, assert(pn.restore(path, { x = x, model = new_model() })):labelled():numel())
    os.remove(path)
  end)

  it("ends after so many rounds", function()
    local pool = new_pool()
    local _, why = typed(pool, { "0", "0", "0", "1" }, { steps = 1 })
    assert.equal("steps", why)
    assert.equal(1, pool.round)
    assert.equal(3, pool:labelled():numel())
  end)

  it("shows a matrix as letters from dark to bright, large ones thinned, vectors as numbers", function()
    assert.equal("@@  \n  @@", active.picture(pn.eye(2)))
    assert.equal("  ..::\n--==++\n**##@@", active.picture(pn.tensor { { 0, 1, 2 }, { 3, 4, 5 }, { 6, 7, 9 } }))
    local lines = select(2, active.picture(pn.rand { 1, 100, 30 }):gsub("\n", ""))
    assert.equal(24, lines)
    assert.matches("^%[1 2%]", active.picture(pn.tensor { 1, 2 }))
    assert.matches("%.%.%.$", active.picture(pn.zeros { 30 }))
    assert.equal("    \n    ", active.picture(pn.full({ 2, 2 }, 0 / 0)))
  end)

  it("refuses names that are too few, and files that are none", function()
    assert.matches("^active.ask: names must be 3 names, one for each class, got 1",
      message_of(active.ask, new_pool(), { names = { "cat" } }))
    assert.matches("^active.ask: read_from must be a file to read from", message_of(active.ask, new_pool(),
      { read_from = 3 }))
    assert.matches("^active.ask: pool must be of pn.active.pool, got table", message_of(active.ask, {}))
  end)
end)
