-- What the page of examples/papers/ral says, where it holds by construction.
local pn = require "penumbra"
local near = require("spec.helper").near
local script = require "spec.papers.script"

describe("the claim of ral/", function()
  -- Weights, first labels and candidates of a seed are the same for all acquisitions: so is the first error, and until
  -- then nothing differs.
  it("curves.lua: acquisitions of a seed begin alike, differences are paired by seed", function()
    local s, text = script.run "ral/curves.lua --quick --out OUT --seeds 1,2 --labels 30 --epochs 1"
    local o = s.option
    local data, first = { s.labelling.data(o) }, nil
    for _, name in ipairs { "random", "entropy", "batch_bald" } do
      local r = s.labelling.run(name, 5, o, data)
      first = first or r
      assert.same({ 20, 25, 30 }, r.counts)
      assert.equal(first.errors[1], r.errors[1])
      near((r.errors[1] + r.errors[2] + r.errors[3]) / 3, r.average)
      assert.equal(r.errors[3], r.final)
    end
    local other = s.labelling.run("random", 6, o, data)
    assert(other.errors[1] ~= first.errors[1] or other.errors[2] ~= first.errors[2])
    local zero = script.rows(text, "random +2 +")[1]
    assert.same({ 0, 0, 0, 0 }, { zero[5], zero[6], zero[7], zero[8] })
  end)

  -- A weight with the variance of its squared mean is what dropout of one half does: the moments are those of a network
  -- whose posterior has these scales.
  it("ablations.lua: fixed variances are those of a posterior with the means as scales", function()
    local labelling = script.run("ral/ablations.lua --quick --out OUT --results OUT/runs --study none").labelling
    pn.seed(3)
    local fixed, free = labelling.fixed "dense", labelling.network("dense", 10)
    local own = {}
    for _, entry in ipairs(fixed.net:named_parameters()) do own[entry[1]] = entry[2] end
    for _, entry in ipairs(free.net:named_parameters()) do
      local name, p = entry[1], own[entry[1]]:detach()
      if name:find "bias" then p = pn.randn(p:shape(), { dtype = "float32" }) * 0.1 end
      entry[2]:set(p)
      own[name]:set(p)
      free.log_scale[name]:set(name:find "bias" and pn.full(p:shape(), -30, { dtype = "float32" }) or p:abs():log())
    end
    local x = pn.rand({ 6, 1, 28, 28 }, { dtype = "float32" })
    local m, v = fixed:moments(x)
    local want_m, want_v = free:moments(x)
    near(0, ((m - want_m):abs():max() / want_m:abs():max()):item(), 1e-5)
    near(0, ((v - want_v):abs() / want_v):max():item(), 1e-4)
  end)

  -- BALD asks for neighbours, BatchBALD on the same draws does not; all begin with the same six.
  it("two_dimensions.lua", function()
    local s = script.run "ral/two_dimensions.lua --quick --out OUT"
    s.option.epochs = 40
    local apart, first = {}, nil
    for _, name in ipairs { "bald_weights", "batch_bald" } do
      local sum = 0
      for seed = 1, 2 do
        local pool = script.silent(s.run, name, seed)
        local _, asked = pool:labelled()
        assert.same({ 30, 2 }, asked:shape())
        if seed == 1 then
          first = first or asked
          near(0, (first:slice(1, 1, 6) - asked:slice(1, 1, 6)):abs():max():item())
        end
        for round = 2, 5 do
          local own = asked:slice(1, 6 * round - 5, 6 * round)
          sum = sum + (own:unsqueeze(1) - own:unsqueeze(2)):square():sum(3):sqrt():mean():item()
        end
      end
      apart[#apart + 1] = sum
    end
    assert(apart[1] < 0.7 * apart[2], apart[1] .. " and " .. apart[2])
  end)
end)
