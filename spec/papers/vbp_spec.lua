-- What the page of examples/papers/vbp says, where it holds by construction.
local pn = require "penumbra"
local near = require("spec.helper").near
local script = require "spec.papers.script"

local function difference(a, b) return (a:to "float64" - b:to "float64"):abs():max():item() end

-- What the function pn.vbp[name] makes while f runs, with `changed(made)` of each.
local function made_by(name, changed, f)
  local list, before = {}, pn.vbp[name]
  pn.vbp[name] = function(o)
    local made = before(o)
    list[#list + 1] = { options = o, kept = changed(made, o) }
    return made
  end
  local ok, message = pcall(f)
  pn.vbp[name] = before
  assert(ok, message)
  return list
end

describe("the claim of vbp/", function()
  -- All methods begin at the same means, a tensor for each parameter, have one prior and see the same steps.
  it("images.lua", function()
    local text
    local list = made_by("learner", function(m)
      local means = {}
      for name, p in pairs(m:state()) do
        local key = not name:find "log_scale" and name:match "%d+%.%a+$"
        if key then means[key] = p * 1 end
      end
      return means
    end, function()
      text = select(2, script.run "vbp/images.lua --quick --out OUT --train 100 --methods vbp,clt,local,map")
    end)
    assert.equal(4, #list)
    for k = 1, 4 do
      local shared = 0
      for name, p in pairs(list[1].kept) do
        near(0, difference(p, list[k].kept[name]))
        shared = shared + 1
      end
      assert.equal(8, shared)
      for _, name in ipairs { "prior_precision", "seed", "likelihood", "objective" } do
        assert.equal(list[1].options[name], list[k].options[name])
      end
    end
    for _, name in ipairs { "vbp", "clt", "local", "map" } do
      local r = script.rows(text, "mnist +" .. name .. " +1 +")[1]
      assert(r[1] >= 0 and r[1] <= 90 and r[2] < 0)
    end
  end)

  -- Each minibatch once, each row in one of them; what was learnt of a batch is the prior of the next.
  it("online.lua", function()
    local rows = {}
    local text
    local list = made_by("relu_net", function(m, o)
      local observe = m.observe
      rawset(m, "observe", function(self, x, y, how)
        assert.equal(1, how.max_sweeps)
        for k = 1, x:size(1) do
          local key = ("%.17g"):format(x[k][1]:item())
          rows[key] = (rows[key] or 0) + 1
        end
        return observe(self, x, y, how)
      end)
      return o.sizes
    end, function()
      text = select(2, script.run "vbp/online.lua --quick --out OUT --train 300 --batch 40")
    end)
    assert.same({ 784, 30, 10 }, list[1].kept)
    local count = 0
    for _, n in pairs(rows) do
      assert.equal(1, n)
      count = count + 1
    end
    assert.equal(300, count)
    -- ten centres 0.3 apart in 784 numbers of noise 0.5: nobody errs who has learnt
    assert(script.rows(text, "relu_net +1 +")[1][1] > 90)
    for _, name in ipairs { "local", "vbp" } do
      local r = script.rows(text, name .. " +1 +")[1]
      assert(r[1] > 30 and r[2] > -math.log(10))
    end
  end)

  -- Nats and errors are of the target's own units, the bound of standardised ones; differences are paired by split.
  it("uci.lua", function()
    local s, text = script.run "vbp/uci.lua --quick --out OUT --methods vbp,local,map --splits 3 --steps 30"
    local t, job = s.tables.yacht, { set = "yacht", split = 2, method = "vbp", steps = 20, schedule = "cosine" }
    local own, other = script.in_other_units(s.run, job, t)
    near(own.ll - math.log(4), other.ll, 1e-6)
    near(4 * own.rmse, other.rmse, 1e-6)
    near(own.bound, other.bound, 1e-6)
    for method, told, error in text:gmatch "(%l+) (%-?%d+%.%d+) %+%- (%d+%.%d+) " do
      local d = {}
      for _, r in ipairs(s.all) do
        if r.method == "vbp" then d[r.split] = (d[r.split] or 0) + r.ll end
        if r.method == method then d[r.split] = (d[r.split] or 0) - r.ll end
      end
      d = pn.tensor(d)
      near(d:mean():item(), tonumber(told), 6e-4)
      near(d:std():item() / math.sqrt(3), tonumber(error), 6e-4)
    end
    -- rows that are held out take no part in the scales: their mean is 0 for the others alone
    local train, test, unit = s.split_of(t, 1)
    assert.same({ 135, 15 }, { train[2]:size(1), test[2]:size(1) })
    near(0, train[2]:mean():item())
    near(1, (train[2] * unit):std(1, 0):item() / unit)
    assert(math.abs(test[2]:mean():item()) > 1e-3)
  end)
end)
