-- Posteriors with parameters of their own for each datum, restated in loops over data and steps: their draws from the
-- same noise, log q by dense normal densities, the gradients of learning.
local pn = require "penumbra"
local local_posterior = require "penumbra.gap.local_posterior"

local function close(want, got, limit)
  assert.same(want:shape(), got:shape())
  local off = (want - got):abs():max():item()
  assert(off <= (limit or 1e-9), ("off by %.3g"):format(off))
end

-- Draws to begin with, wider for later data and latents, correlated along steps.
local function beginning(shape, seed)
  local z = pn.randn(shape, { generator = pn.generator(seed) })
  local mix = pn.tensor { { 1, 0.6 }, { -0.3, 0.8 } }
  z = z:matmul(mix)
  if #shape == 4 then z = z:cumsum(3) * 0.7 end
  for _, p in ipairs { 1, 2 } do z = z + pn.randn({ 1, shape[2] }, { generator = pn.generator(p) }):sum() end
  local factor = pn.linspace(0.5, 2, shape[2])
  return z * (#shape == 4 and factor:reshape { 1, -1, 1, 1 } or factor:reshape { 1, -1, 1 })
end

local function moved(q)
  local g = pn.generator(7)
  for _, p in ipairs(q:parameters()) do p:set(pn.randn(p:shape(), { dtype = p:dtype(), generator = g }) * 0.3) end
end

-- What is added to deviations, and to the diagonals of covariances in units of their mean.
local function lifted(z) return z:dtype() == "float32" and 1e-4 or 1e-6 end

-- u of the head comment: the geometric mean of the width for each datum and of that of all.
local function unit_of(z)
  local n = z:size(1) * z:size(2)
  local own = ((z - z:mean(1)):square():sum(1) / (z:size(1) - 1)):sqrt() + lifted(z)
  local all = ((z - z:mean { 1, 2 }):square():sum { 1, 2 } / (n - 1)):sqrt() + lifted(z)
  return (own * all):sqrt(), own
end

-- log density of v [m] under a normal of mean 0 and the root L [m, m] (lower triangular).
local function log_density(v, root)
  return pn.dist.multivariate_normal { loc = v * 0, covariance_matrix = root:matmul(root:t()) }:log_prob(v)
end

-- The moments that a chain begins at: for each datum i and step t the root of what is left, G, M.
local function moments(z, i, t)
  local S, n = z:size(1), z:size(4)
  local function off(k) return z:select(2, i):select(2, k) - z:select(2, i):select(2, k):mean(1) end
  local function cov(a, b) return off(a):t():matmul(off(b)) / S end
  local function root(c)
    return (c + pn.eye(n, { dtype = c:dtype() }) * (c:diagonal():mean():item() * lifted(z) + 1e-12)):cholesky()
  end
  if t == 1 then return root(cov(1, 1)) end
  local before = root(cov(t - 1, t - 1))
  local gain = cov(t, t - 1):matmul(before:matmul(before:t()):inverse())
  return root((cov(t, t) - gain:matmul(cov(t - 1, t))) * (S > 2 * n and S / (S - n) or 1)), gain, before
end

-- Of a chain: log q of z [N, T, n], by the densities of its steps, and z itself from the noise of the draw.
local function restated(q, begun, z, noise)
  local shift, log_scale, bend, lower = table.unpack(q:parameters())
  local unit, N, T, n = unit_of(begun), begun:size(2), begun:size(3), begun:size(4)
  local mean = begun:mean(1) + unit * shift
  local logs, paths = {}, {}
  for i = 1, N do
    local before, total, off = nil, 0, nil
    paths[i] = {}
    for t = 1, T do
      local root, gain, whole = moments(begun, i, t)
      local own = root:matmul(lower[i][t]:tril(-1) + log_scale[i][t]:exp():diag_embed())
      local along = gain and gain + root:matmul(bend[i][t]):matmul(whole:inverse()) or pn.zeros({ n, n },
        { dtype = z:dtype() })
      local e = z[i][t] - mean[i][t]
      total = total + log_density(before and e - along:matmul(before) or e, own)
      off = own:matmul(noise[i][t]) + (off and along:matmul(off) or 0)
      before, paths[i][t] = e, off + mean[i][t]
    end
    logs[i], paths[i] = total, pn.stack(paths[i], 1)
  end
  return pn.stack(logs, 1), pn.stack(paths, 1)
end

-- The gradients of log q of draws that count where z moves alone: those of a law whose own parameters are held.
local function held(q, log_density_of)
  local list = q:parameters()
  local function draw(learning)
    q.learning = learning
    local z, log_q = q:draw(nil, 1, pn.generator(3))
    q.learning = nil
    return z, log_q
  end
  local z, log_q = draw(true)
  local leaf = pn.param(z:detach())
  local slope = pn.grad(log_density_of(leaf), { leaf })[1]
  local want = pn.grad((draw(false) * slope):sum(), list)
  local got = pn.grad(log_q:sum(), list)
  close(select(2, draw(false)), log_q)
  for k in ipairs(list) do close(want[k] or list[k] * 0, got[k] or list[k] * 0, 1e-8) end
  assert(got[1]:abs():max():item() > 1e-3 and got[2]:abs():max():item() > 1e-3)
end

describe("posteriors for each datum", function()
  it("of vectors are normals with the means and widths of draws, moved in their unit", function()
    for _, dtype in ipairs { "float64", "float32" } do
      local begun = beginning({ 40, 3, 2 }, 4):to(dtype)
      local q = local_posterior.new(begun)
      moved(q)
      local shift, log_scale = table.unpack(q:parameters())
      local z, log_q = q:draw(nil, 5, pn.generator(3))
      local noise = pn.randn({ 5, 3, 2 }, { dtype = dtype, generator = pn.generator(3) })
      local unit, own = unit_of(begun)
      local law = pn.dist.normal(begun:mean(1) + unit * shift, own * log_scale:exp()):independent(1)
      local limit = dtype == "float64" and 1e-12 or 1e-4
      close(begun:mean(1) + unit * shift + own * log_scale:exp() * noise, z, limit)
      close(law:log_prob(z), log_q, limit)
      if dtype == "float64" then
        held(q, function(x)
          return pn.dist.normal((begun:mean(1) + unit * shift):detach(), (own * log_scale:exp()):detach())
            :log_prob(x):sum()
        end)
      end
    end
  end)

  it("of sequences are the chains of their head comment, of one step, too", function()
    for _, T in ipairs { 1, 3 } do
      for _, draws in ipairs { 40, 4 } do
        local begun = beginning({ draws, 2, T, 2 }, 5)
        local q = local_posterior.new(begun)
        moved(q)
        local z, log_q = q:draw(nil, 3, pn.generator(3))
        local noise = pn.randn({ 3, 2, T, 2 }, { generator = pn.generator(3) })
        for s = 1, 3 do
          local want, path = restated(q, begun, z[s], noise[s])
          close(want, log_q[s])
          close(path, z[s])
        end
        if draws > 4 then held(q, function(x) -- (what is left of four is all but singular)
          local frozen = {}
          for k, p in ipairs(q:parameters()) do frozen[k] = p:detach() end
          return (restated({ parameters = function() return frozen end }, begun, x[1], noise[1])):sum()
        end) end
      end
    end
  end)

  it("of vectors with full covariances are chains of one step", function()
    local begun = beginning({ 30, 2, 2 }, 6)
    local q, other = local_posterior.new(begun, "full"), local_posterior.new(begun:unsqueeze(3))
    moved(q)
    moved(other)
    local z, log_q = q:draw(nil, 4, pn.generator(3))
    local want, log_want = other:draw(nil, 4, pn.generator(3))
    close(want:squeeze(3), z, 0)
    close(log_want, log_q, 0)
    assert.same({ 64, 80 }, { local_posterior.draws_for(3), local_posterior.draws_for(10) })
  end)
end)
