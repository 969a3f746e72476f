-- Densities over vectors under one triangle: the kernel against batches of one triangle each, which builders compute;
-- its gradients against those of the graph that is differentiated again; values outside; threads.
local pn = require "penumbra"
local dist = pn.dist

local function close(got, want, limit)
  assert.are.same(want:shape(), got:shape())
  if want:numel() == 0 then return end
  local off = ((got - want):abs() - want:abs() * limit):max():item()
  assert(off <= limit, ("off by %.3g"):format(off))
end

local function triangle(n) return (pn.randn{n, n} * 0.3):tril(-1) + pn.eye(n) * 1.3 end

-- log_prob, and gradients in all three by kernel and by graph, beside those of a batch of equal triangles
local function check(n, shape_x, shape_m, dtype, limit)
  local l = pn.param(triangle(n):to(dtype))
  local x, m = pn.param(pn.randn(shape_x):to(dtype)), pn.param(pn.randn(shape_m):to(dtype))
  local y = dist.multivariate_normal{loc = m, scale_tril = l}:log_prob(x)
  local many = l:broadcast_to{y:shape()[#y:shape()], n, n}
  local want = dist.multivariate_normal{loc = m, scale_tril = many}:log_prob(x)
  close(y, want, limit)
  local g = pn.rand(y:shape(), {dtype = dtype})
  local wanted = {l, x, m}
  local kernel = pn.grad((y * g):sum(), wanted)
  local graph = pn.grad((y * g):sum(), wanted, {create_graph = true})
  local composed = pn.grad((want * g):sum(), wanted, {create_graph = true})
  for k = 1, 3 do
    close(kernel[k], composed[k], limit * 10)
    close(graph[k], composed[k], limit * 10)
    close(pn.grad((y * g):sum(), {wanted[k]})[1], kernel[k], 0)
  end
  local again = pn.grad(graph[1]:square():sum() + graph[2]:square():sum(), wanted)
  local first = pn.grad(composed[1]:square():sum() + composed[2]:square():sum(), wanted)
  for k = 1, 3 do close(again[k], first[k], limit * 1000) end
end

describe("one triangle for all vectors", function()
  for _, dtype in ipairs{"float64", "float32"} do
    local limit = dtype == "float64" and 1e-12 or 2e-5
    it("gives what a batch of it gives, in " .. dtype, function()
      pn.seed(11)
      check(3, {5, 3}, {5, 3}, dtype, limit)
      check(10, {40, 10}, {40, 10}, dtype, limit)
      check(10, {7, 10}, {10}, dtype, limit)
      check(4, {3, 5, 4}, {5, 4}, dtype, limit)
      check(1, {9, 1}, {9, 1}, dtype, limit)
      check(32, {11, 32}, {11, 32}, dtype, limit)
      check(33, {4, 33}, {4, 33}, dtype, limit)
    end)
  end

  it("takes one vector for many means", function()
    local l, x, m = pn.param(triangle(4)), pn.param(pn.randn{4}), pn.param(pn.randn{6, 4})
    local y = dist.multivariate_normal{loc = m, scale_tril = l}:log_prob(x:broadcast_to{6, 4})
    local g = pn.grad(y:sum(), {l, x, m})
    local h = pn.grad(y:sum(), {l, x, m}, {create_graph = true})
    for k = 1, 3 do close(g[k], h[k], 1e-13) end
  end)

  it("gives -inf or NaN and no slope where x is not finite", function()
    local l, m = pn.param(triangle(3)), pn.param(pn.randn{4, 3})
    local x = pn.param(pn.tensor{{0, 0, 0}, {math.huge, 0, -math.huge}, {0, 0 / 0, 0}, {0, -math.huge, 0}})
    local y = dist.multivariate_normal{loc = m, scale_tril = l}:log_prob(x)
    local v = y:totable()
    assert.is_true(v[1] > -math.huge and v[2] == -math.huge and v[3] ~= v[3] and v[4] == -math.huge)
    for _, options in ipairs{{}, {create_graph = true}} do
      local g = pn.grad(y:sum(), {x, m}, options)
      for k = 1, 2 do
        assert.are.equal(0, g[k]:slice(1, 2, 4):abs():max():item())
        assert.is_true(g[k]:abs():max():item() > 0)
      end
    end
  end)

  it("takes no vectors", function()
    local l, x = pn.param(triangle(3)), pn.param(pn.zeros{0, 3})
    local y = dist.multivariate_normal{loc = pn.zeros{3}, scale_tril = l}:log_prob(x)
    assert.are.same({0}, y:shape())
    assert.are.same({0, 3}, pn.grad(y:sum(), {x, l})[1]:shape())
  end)

  it("gives the same bits on any number of threads", function()
    pn.seed(12)
    local l, x, m = pn.param(triangle(10)), pn.param(pn.randn{20000, 10}), pn.param(pn.randn{10})
    local function all()
      local y = dist.multivariate_normal{loc = m, scale_tril = l}:log_prob(x)
      return {y, table.unpack(pn.grad(y:sum(), {l, x, m}))}
    end
    local old = pn.threads()
    pn.threads(1)
    local want = all()
    for _, n in ipairs{2, 3} do
      pn.threads(n)
      for k, t in ipairs(all()) do assert.is_true(t:eq(want[k]):all():item()) end
    end
    pn.threads(old)
  end)
end)
