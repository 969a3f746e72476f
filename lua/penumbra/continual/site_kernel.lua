--- Gaussian sites by the library's own passes (pn_gaussian_sites): the reparametrised estimator for networks of linear
--- layers and activations whose slope it knows, with the named likelihoods.
-- help: none
local core = require "penumbra.core"
local perceptron = require "penumbra.nn.perceptron"

local site_kernel = {}

--- layers(self, o): the layers, as the kernel takes them; nil where the network or an option is not for it. self:
--- the network as sites.lua reads it.
function site_kernel.layers(self, o)
  if o.estimator ~= "reparametrised" or not self.kind.kernel then
    return nil
  end
  local list, at = {}, 0
  for _, layer in ipairs(self.layers) do
    for _, p in ipairs { layer.weight, layer.bias } do -- weights in the order of layers
      if p.from ~= at + 1 then return nil end
      at = at + p.size
    end
    list[#list + 1] = layer.layer
    local follows = layer.apply[1] and perceptron.sloped(layer.apply[1])
    if #layer.apply > 1 or layer.apply[1] and not follows then
      return nil
    end
    list[#list + 1] = follows
  end
  return list
end

--- run(self, layers, data, o, each): precision_mean, precision ([P], or [N, P] with each), expected log likelihood and
--- expected log site [N]. data: {x =, y =, weights =}, checked.
function site_kernel.run(self, layers, data, o, each)
  local bytes = o.budget and o.budget * (self.dtype == "float64" and 8 or 4)
  return core.new_gaussian_sites(layers, self.mean, self.scale, self.kind.kernel, self.noise_scale, o.draws, data.x,
    data.y, data.weights, o.generator or nil, each, bytes, o.antithetic)
end

return site_kernel
