--- Autoencoders whose encoder and decoder are networks of one's own: the same numbers as from the built-in ones where
--- they are these, convolutions that learn pictures, files.
local pn = require "penumbra"
local helper = require "spec.helper"
local image_network = require "penumbra.models.image_network"
local nn = pn.nn

local function options(more)
  local o = { data = 5, latent = 2, hidden = { 4 }, decoder = "normal" }
  for key, value in pairs(more or {}) do o[key] = value end
  return o
end

-- The encoder and decoder of a model as networks of one's own in another.
local function with_networks_of(m, more)
  local o = options(more)
  o.encoder, o.decoder_network = m.latents.encoder[1], m.likelihood.net
  return pn.models.vae(o)
end

describe("an autoencoder with networks of one's own", function()
  it("has the numbers of the built-in networks where they are these", function()
    local x = pn.randn({ 7, 5 }, { generator = pn.generator(1) })
    local c = pn.randn({ 7, 3 }, { generator = pn.generator(2) })
    for _, more in ipairs { {}, { condition = 3 }, { posterior = "flow", flows = 1, flow_hidden = 3 },
      { noise = "network" } } do
      pn.seed(1)
      local one = pn.models.vae(options(more))
      local other = with_networks_of(one, more)
      if more.posterior then other.latents.flow = one.latents.flow end
      local given = more.condition and c or nil
      for _, how in ipairs { { objective = "elbo", draws = 1 }, { objective = "elbo", draws = 3 },
        { objective = "iwae", draws = 4 } } do
        how.condition = given
        local both = {}
        for k, m in ipairs { one, other } do
          pn.seed(3)
          both[k] = m:loss(x, how)
        end
        assert.equal(both[1]:item(), both[2]:item())
      end
      assert.equal(0, helper.off(one:encode(x, { condition = given }), other:encode(x, { condition = given })))
      assert.equal(one:num_parameters(), other:num_parameters())
    end
  end)

  it("learns pictures by convolutions, the same replayed or not and after a file", function()
    local o = { image = { 8, 8 }, size = 64, filters = 4, dtype = "float64" }
    local x = (pn.rand({ 40, 1, 1 }, { generator = pn.generator(4) }):gt(0.5):to "float64"
      * pn.ones { 1, 8, 4 }) -- the left half is lit, or not
    x = pn.concatenate({ x, pn.zeros { 40, 8, 4 } }, 3):reshape { 40, 64 }
    local function networks()
      return { encoder = image_network.encoder("here", o, 4), decoder_network = image_network.decoder("here", o, 2) }
    end
    local function new()
      pn.seed(5)
      local given = networks()
      given.data, given.latent = 64, 2
      return pn.models.vae(given)
    end
    local function train(m, compile)
      pn.seed(6)
      return m:fit { data = x, epochs = 300, batch_size = 20, lr = 1e-2, compile = compile }
    end
    local m, eager = new(), new()
    local run = train(m, true)
    train(eager, false)
    for name, value in pairs(m:state()) do assert.is_true(helper.off(value, eager:state()[name]) < 1e-12) end
    assert.is_true(run.history[1] > 20 and run.history[300] < 3) -- 64 log 2 nats at first, log 2 at best
    assert.is_true(helper.off(m:reconstruct(x):round(), x) < 0.5)
    pn.seed(7)
    local bound = m:bound(x:slice(1, 1, 4), { draws = 30 })
    local path = os.tmpname()
    assert(m:save(path))
    local again = assert(pn.restore(path, networks()))
    pn.seed(7)
    assert.equal(bound.value, again:bound(x:slice(1, 1, 4), { draws = 30 }).value)
    helper.refuses("restore: option 'decoder_network' is required", pn.restore, path, { encoder = networks().encoder })
    os.remove(path)
  end)

  it("says what a network must give, and where there is none", function()
    local function new(more) return function() return pn.models.vae(options(more)) end end
    helper.refuses("vae: encoder must give [N, 4] for [N, 5], got [1, 3]", new { encoder = nn.mlp { 5, 3 } })
    helper.refuses("vae: decoder_network must give [N, 5] for [N, 2], got [1, 4]",
      new { decoder_network = nn.mlp { 2, 4 } })
    helper.refuses("vae: decoder_network must give [N, 10] for [N, 2], got [1, 5]",
      new { decoder_network = nn.mlp { 2, 5 }, noise = "network" })
    helper.refuses("vae: encoder must be a network, got number", new { encoder = 3 })
    helper.refuses("vae: encoder is for structure 'backward'", new { encoder = nn.mlp { 5, 4 }, latent = { 2, 2 },
      structure = "ladder" })
    helper.refuses("vae: mean is for a bernoulli or normal decoder", new { decoder_network = nn.mlp { 2, 5 },
      mean = pn.zeros { 5 } })
    helper.refuses("vae: encoder must give [N, 4] for [N, 5], got [1, 2, 2]", new { encoder = nn.sequential {
      nn.mlp { 5, 4 }, nn.reshape(2, 2) } })
    assert.equal("training", nn.mode()) -- as it was before the network was tried
    new { encoder = nn.module { forward = function(_, x)
      assert.equal("evaluation", nn.mode())
      return pn.concatenate({ x, x }, 2):slice(2, 1, 4)
    end } }()
    assert.equal("training", nn.mode())
    local two = new { encoder = nn.mlp { 5, 4 }, latent = { 2, 1 } }()
    assert.same({ 3, 2 }, two:encode(pn.ones { 3, 5 })[1]:shape())
  end)
end)
