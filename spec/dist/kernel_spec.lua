-- Densities with kernels of their own: the kernel's gradients beside those that builders compose (taken when the
-- gradient itself is to be differentiated), on wide ranges, broadcast, strided and in either dtype.
local pn = require "penumbra"
local dist = pn.dist

local function uniform(low, high)
  return function(shape) return pn.rand(shape) * (high - low) + low end
end
local function wide(low, high)
  return function(shape) return (uniform(math.log(low), math.log(high))(shape)):exp() end
end

-- Names of parameters in order and how to draw them; x comes from the distribution itself.
local kinds = {
  gamma = {{"concentration", wide(0.1, 1e4)}, {"rate", wide(1e-3, 1e3)}},
  inverse_gamma = {{"concentration", wide(0.3, 1e4)}, {"rate", wide(1e-3, 1e3)}},
  chi2 = {{"df", wide(0.2, 1e4)}},
}

local function close(name, got, want, limit)
  assert.are.same(want:shape(), got:shape())
  if want:numel() == 0 then return end
  local size = want:abs() + want:abs():mean() * 1e-3
  local off = ((got - want):abs() / size):max():item()
  assert(off <= limit, ("%s: off by %.3g"):format(name, off))
end

local function compare(name, tensors, x, limit)
  local parameters, wanted = {}, {}
  for k, p in ipairs(kinds[name]) do
    wanted[k] = pn.param(tensors[k])
    parameters[p[1]] = wanted[k]
  end
  wanted[#wanted + 1] = pn.param(x)
  local y = dist[name](parameters):log_prob(wanted[#wanted])
  local weight = pn.rand(y:shape(), {dtype = x:dtype()})
  local kernel = pn.grad((y * weight):sum(), wanted)
  local built = pn.grad((y * weight):sum(), wanted, {create_graph = true})
  for k = 1, #wanted do close(("%s, gradient %d"):format(name, k), kernel[k], built[k], limit) end
  local one = pn.grad((y * weight):sum(), {wanted[#wanted]}) -- alone
  close(name .. ", x alone", one[1], built[#wanted], limit)
  close(name .. ", first alone", pn.grad((y * weight):sum(), {wanted[1]})[1], built[1], limit)
end

local function draws(name, shapes)
  local tensors, parameters = {}, {}
  for k, p in ipairs(kinds[name]) do
    tensors[k] = p[2](shapes[k] or shapes[1])
    parameters[p[1]] = tensors[k]
  end
  return tensors, parameters
end

local names = {}
for name in pairs(kinds) do names[#names + 1] = name end
table.sort(names)

describe("the kernel of", function()
  for _, name in ipairs(names) do
    it(name .. " gives the composed gradients", function()
      pn.seed(3)
      local tensors, parameters = draws(name, {{5, 700}})
      compare(name, tensors, dist[name](parameters):sample(), 1e-9)
    end)
    it(name .. " gives them of broadcast and strided operands", function()
      pn.seed(4)
      local tensors, parameters = draws(name, {{}, {3, 1}, {4}, {}})
      compare(name, tensors, dist[name](parameters):expand{3, 4}:sample{2}, 1e-9)
      tensors, parameters = draws(name, {{7, 3}})
      for k, t in ipairs(tensors) do tensors[k] = t:t() end
      local x = dist[name](parameters):sample():t()
      compare(name, tensors, x, 1e-9)
    end)
    it(name .. " gives them in float32", function()
      pn.seed(5)
      local tensors, parameters = draws(name, {{300}})
      for k, t in ipairs(tensors) do
        tensors[k] = (t:clamp(0.3, 30)):to "float32"
        parameters[kinds[name][k][1]] = tensors[k]
      end
      compare(name, tensors, dist[name](parameters):sample(), 2e-4)
    end)
    it(name .. " takes no elements", function()
      local tensors, parameters = draws(name, {{0}})
      local x = pn.zeros{0}
      compare(name, tensors, x, 0)
      assert.are.same({0}, dist[name](parameters):log_prob(x):shape())
    end)
  end
end)
