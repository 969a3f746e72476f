-- What the page of examples/papers/multisource says, where it holds by construction.
local pn = require "penumbra"
local near = require("spec.helper").near
local script = require "spec.papers.script"

describe("the claim of multisource/", function()
  -- A coordinate keeps two components, both tell them apart; draws that are resampled are of the posterior on the grid.
  it("mixture.lua", function()
    local s, text = script.run "multisource/mixture.lua --quick --out OUT --steps 1500"
    assert(s.right == 8, "components that the product names: " .. s.right)
    assert(s.both >= 14, "cases in which a source alone keeps both: " .. s.both)
    local count = 0
    for means, sds in text:gmatch "\n +%d  (%([^|]+)|[^\n]+\n +%+%-  (%([^|]+)|" do
      local m, d = {}, {}
      for v in means:gmatch "%-?%d+%.%d+" do m[#m + 1] = tonumber(v) end
      for v in sds:gmatch "%-?%d+%.%d+" do d[#d + 1] = tonumber(v) end
      for i = 1, 2 do
        assert(math.abs(m[i] - m[i + 2]) < 0.5 * d[i] + 0.01 and math.abs(d[i] / d[i + 2] - 1) < 0.5)
      end
      count = count + 1
    end
    assert.equal(8, count)
    for _, name in ipairs { "first", "second" } do -- a product is surer than each
      assert((s.beliefs.product.scale - s.beliefs[name].scale):max():item() < 0)
    end
  end)

  it("cameras.lua", function()
    local command = "multisource/cameras.lua --quick --out OUT --steps 3000 --lr 3e-3 --noise 0.03 --angles 48 "
      .. "--healthy 1000"
    local s, text = script.run(command)
    -- the disc's middle in perspective: the camera at distance 2, turned by t about an axis
    local side, focal, t = s.option.side, s.option.focal, math.pi / 4
    for k = 1, 3 do
      for _, angle in ipairs { 0.3, 2, 4.4 } do
        local x, y = math.cos(angle), math.sin(angle)
        local right, up, depth = x, y, 2
        if k == 2 then up, depth = y * math.cos(t), 2 - y * math.sin(t) end
        if k == 3 then right, depth = x * math.cos(t), 2 - x * math.sin(t) end
        local image = s.rendered(pn.tensor({ { angle } }, { dtype = "float32" }), k):to "float64":reshape { side, side }
        local at, mass = pn.linspace(-1, 1, side), image:sum():item()
        near(right / depth * focal, (image * at):sum():item() / mass, 0.05)
        near(up / depth * focal, -(image * at:unsqueeze(2)):sum():item() / mass, 0.05)
      end
    end
    -- of the healthy data the share that the threshold is for is touched, of a failed camera more
    local healthy, failed = script.rows(text, "left out by.-camera0 ")[1], script.rows(text, " +camera0 ")[1]
    local of = { healthy[1], healthy[2], healthy[3] }
    assert(of[1] + of[2] + of[3] < 0.1 and failed[1] > of[1] + 0.3 and failed[2] + failed[3] < 0.1)
    -- means of beliefs that are put together are nearer: all, two, one
    local function figures(name) return script.rows(text, name .. " +%f[%d]")[1] end
    local all, one, broken = figures "all", figures "camera1", figures "by the rule"
    assert(all[1] < one[1] and all[2] < one[2])
    assert(figures "1 and 2"[2] < one[2])
    assert(broken[3] < 0.95 * all[3] and figures "1 and 2"[3] < 0.95 * all[3], "the rule drops what failed")
  end)

  -- Each cell of the table is a bound of one model: that of the mixture is above the mean of the single ones'.
  it("mnist.lua", function()
    for _, variant in ipairs { "tb", "qu", "no" } do
      local s, text = script.run("multisource/mnist.lua --quick --out OUT --steps 4 --columns ind,hybrid,iwae "
        .. "--variant " .. variant)
      local ind, moe, poe = script.rows(text, "ind +%f[%d]")[1], script.rows(text, "moe +%f[%d]")[1],
        script.rows(text, "poe +%f[%d]")[1]
      assert.same({ 4, 4, 6 }, { #ind, #moe, #poe })
      for k = 1, 3, 2 do assert(moe[k] < ind[k]) end
      -- what the document has stands beside its own column
      assert.same(({ tb = { 102.2, 104.03, 101.51, 88.79 }, qu = { 120.46, 129.63, 119.1, 88.79 },
        no = { 94.81, 96.27, 93.98, 94.95 } })[variant], { ind[2], ind[4], moe[2], poe[6] })
      -- parts make the image; flips do not touch what is to be explained
      local x = s.black_or_white(pn.full({ 5, s.pixels }, 0.5, { dtype = "float32" }))
      local parts = s.view.see(x)
      near(0, (s.whole(parts) - x:reshape { 5, s.side, s.side }):abs():max():item())
    end
    local s = script.run "multisource/mnist.lua --quick --out OUT --variant no --steps 1 --columns iwae"
    local share = s.flipped(pn.zeros { 400, 100, dtype = "float32" }):to "float64":mean():item()
    near(0.05, share, 6 * math.sqrt(0.05 * 0.95 / 40000))
  end)
end)
