-- Linear algebra, einsum, convolution and pooling as scripts see them. Values against NumPy, gradients and
-- memory are tested in spec/c; here: shapes, several results, options, and how failures arrive.
local pn = require "penumbra"

local function near(a, b, tolerance)
  assert.same(b:shape(), a:shape())
  assert.is_true((a - b):abs():max():item() <= (tolerance or 1e-12))
end

local function positive(...)
  local x = pn.randn { ... }
  local n = x:size(-1)
  return pn.einsum("...ij,...kj->...ik", x, x) + pn.eye(n) * n
end

describe("linear algebra", function()
  it("factors and solves batches", function()
    local p, b = positive(5, 2, 4, 4), pn.randn { 2, 4, 3 }
    local l = p:cholesky()
    near(l:matmul(l:permute(1, 2, 4, 3)), p)
    near(p:matmul(l:cholesky_solve(b)), (b + p:sum({ 3, 4 }, true) * 0))
    near(p:solve(b), l:cholesky_solve(b))
    near(l:matmul(l:solve_triangular(b)), p:matmul(p:solve(b)))
    near(l:solve_triangular(b, { transpose = true }), l:permute(1, 2, 4, 3):solve_triangular(b, { upper = true }))
    near(p:inverse(), p:solve(pn.eye(4)))
    near(p:logdet(), l:diagonal():log():sum(-1) * 2)
    near(p:det():log(), p:logdet(), 1e-10)
  end)

  it("does for one matrix of a whole batch what it does for copies of it", function()
    local p, x, vector = positive(4, 4), pn.randn { 3, 5, 4, 2 }, pn.randn { 4 }
    local l = p:cholesky()
    local function alike(f, m)
      local shared, copied = { f(m:broadcast_to { 3, 5, 4, 4 }) }, { f(pn.ones { 3, 5, 1, 1 } * m) }
      for k, y in ipairs(shared) do near(y, copied[k], 1e-13) end
    end
    for _, right in ipairs { x, vector, x:slice(-1, 1, 1) } do
      alike(function(m) return m:solve(right) end, p)
      alike(function(m) return m:cholesky_solve(right) end, l)
      for k = 0, 3 do
        local o = { upper = k % 2 == 1, transpose = k > 1 }
        alike(function(m) return m:solve_triangular(right, o) end, k % 2 == 1 and l:permute(2, 1) or l)
      end
    end
    for _, name in ipairs { "cholesky", "inverse", "slogdet", "det", "logdet", "eigh", "qr", "svd" } do
      alike(function(m) return m[name](m) end, p)
    end
  end)

  it("takes a vector as the right side", function()
    local a = pn.tensor { { 2, 0 }, { 1, 4 } }
    assert.same({ 1, 0.25 }, a:solve(pn.tensor { 2, 2 }):totable())
    assert.same({ 1, 0.25 }, a:solve_triangular(pn.tensor { 2, 2 }):totable())
  end)

  it("gives several results", function()
    local x = pn.randn { 3, 5, 4 }
    local q, r = x:qr()
    near(q:matmul(r), x)
    local u, s, vt = x:svd()
    assert.same({ 3, 5, 4 }, u:shape())
    near((u * s:unsqueeze(-2)):matmul(vt), x)
    local p = positive(4, 4)
    local values, vectors = p:eigh()
    near((vectors * values):matmul(vectors:permute(2, 1)), p, 1e-11)
    local sign, logabs = pn.slogdet(pn.tensor { { 0, 2 }, { 3, 0 } })
    assert.equal(-1, sign:item())
    assert.is_true(math.abs(logabs:item() - math.log(6)) < 1e-14)
  end)

  it("returns nil, message, code where a factorisation does not exist", function()
    local spoilt = pn.stack { pn.eye(3), pn.eye(3) - 1 }
    local l, message, code = spoilt:cholesky()
    assert.is_nil(l)
    assert.equal("singular", code)
    assert.equal("cholesky: matrix [2] of the batch must be positive definite, got a leading minor of order 1 that is "
      .. "not", message)
    local zero = pn.zeros { 2, 2 }
    for _, f in ipairs {
      function() return zero:solve(pn.ones { 2 }) end,
      function() return zero:inverse() end,
      function() return zero:solve_triangular(pn.ones { 2 }) end,
    } do
      local x, why, kind = f()
      assert.is_nil(x)
      assert.matches("^%w+.*: matrix must be invertible", why)
      assert.equal("singular", kind)
    end
    assert.equal(-math.huge, zero:logdet():item())
    assert.equal(0, zero:det():item())
    assert.equal(3, pn.tensor({ 1, 2 }):sum():item()) -- nothing is left pending
  end)

  it("raises for mistakes, and names what is not finite", function()
    assert.error_matches(function() pn.zeros({ 2, 3 }):cholesky() end, "%[..., n, n%], got %[2, 3%]")
    assert.error_matches(function() pn.eye(2):solve(pn.ones { 3 }) end, "right side of a matrix %[2, 2%]")
    assert.error_matches(function() pn.full({ 2, 2 }, 0 / 0):eigh() end, "eigh: matrix must be finite")
    assert.error_matches(function()
      pn.full({ 3, 2, 2 }, 1 / 0):cholesky()
    end, "matrix %[1%] of the batch must be finite")
    assert.error_matches(function() pn.eye(2):solve_triangular(pn.ones { 2 }, { uper = true }) end, "upper")
    assert.error_matches(function() pn.qr(3) end, "tensor")
  end)

  it("raises from backward where a gradient needs an inverse that is not there", function()
    local w = pn.param(pn.zeros { 2, 2 })
    assert.error_matches(function() w:det():backward() end, "invertible")
  end)

  it("keeps constant memory over many failures", function()
    local zero = pn.zeros { 20, 20 }
    collectgarbage()
    local before = pn.memory()
    for _ = 1, 2000 do
      assert.is_nil((zero:cholesky()))
    end
    collectgarbage()
    assert.is_true(pn.memory() - before < 1e5)
  end)
end)

describe("Kalman filter", function()
  local mean, cov, one = pn.tensor { { 1, 0 }, { 0, 2 } }, pn.eye(2), pn.eye(1)
  local a, c = pn.tensor { { 1, 1 }, { 0, 1 } }, pn.tensor { { 1, 0 } }

  it("predicts and updates a batch with shared matrices", function()
    local m, p = pn.kalman_predict(mean, cov, a, nil, pn.eye(2))
    assert.same({ { 1, 0 }, { 2, 2 } }, m:totable())
    assert.same({ { 3, 1 }, { 1, 2 } }, p:reshape(-1, 2, 2):select(1, 1):totable())
    local y = pn.tensor { { 2 }, { 0 } }
    local n, q, log_prob, innovation, s, gain = pn.kalman_update(m, p, y, c, nil, one, { details = true })
    assert.same({ { 1 }, { -2 } }, innovation:totable())
    assert.equal(4, s:max():item())
    assert.same({ 0.75, 0.25 }, gain:reshape(-1, 2):select(1, 1):totable())
    assert.same({ { 1.75, 0.25 }, { 0.5, 1.5 } }, n:totable())
    near(q:reshape(-1, 2, 2):select(1, 1), pn.tensor { { 0.75, 0.25 }, { 0.25, 1.75 } })
    near(log_prob, pn.dist.normal(0, 2):log_prob(innovation:squeeze(-1)))
    assert.equal(3, select("#", pn.kalman_update(m, p, y, c, nil, one)))
  end)

  it("does both in one pass", function()
    local y, there = pn.tensor { { 2 }, { 0 / 0 } }, pn.tensor { { true }, { false } }
    local m, p = pn.kalman_predict(mean, cov, a, nil, pn.eye(2))
    local n, q, log_prob = pn.kalman_step(mean, cov, a, nil, pn.eye(2), y, c, nil, one, { observed = there })
    local want_n, want_q, want = pn.kalman_update(m, p, y, c, nil, one, { observed = there })
    near(n, want_n)
    near(q, want_q)
    near(log_prob, want)
    local got, _, code = pn.kalman_step(mean, cov, a, nil, pn.eye(2), y, c, nil, one * -9)
    assert.is_nil(got)
    assert.equal("singular", code)
    assert.error_matches(function()
      pn.kalman_step(mean, cov, a, nil, pn.eye(2), y, c, nil, one, { details = true })
    end, "details")
    assert.error_matches(function() pn.kalman_step(mean, cov, a, nil, pn.eye(2), y, c, nil) end, "tensor")
  end)

  it("works on square roots", function()
    local y, there = pn.tensor { { 2 }, { 0 / 0 } }, pn.tensor { { true }, { false } }
    local m, l = pn.kalman_root_predict(mean, cov, a, nil, pn.eye(2))
    local want_m, p = pn.kalman_predict(mean, cov, a, nil, pn.eye(2))
    near(m, want_m)
    near(l:matmul(l:t()), p:reshape(-1, 2, 2):select(1, 1)) -- one root for both
    local n, k, log_prob = pn.kalman_root_update(m, l, y, c, nil, one, { observed = there })
    local want_n, q, want = pn.kalman_update(m, p, y, c, nil, one, { observed = there })
    near(n, want_n)
    near(k:matmul(k:permute(1, 3, 2)), q)
    near(log_prob, want)
    near(pn.tria(pn.tensor { { 3, 4 } }), pn.tensor { { 5 } })
    near(pn.eye(2):cholesky_update(pn.tensor { { 1 }, { 1 } }), pn.tensor({ { 2, 1 }, { 1, 2 } }):cholesky())
    local none, _, code = pn.kalman_root_update(m, l * 0, y, c, nil, one * 0)
    assert.is_nil(none)
    assert.equal("singular", code)
    assert.error_matches(function()
      pn.kalman_root_update(m, l, y, c, nil, one, { details = true })
    end, "details")
    assert.error_matches(function() pn.kalman_root_predict(m, l, c, nil, l) end, "a must be %[..., 2, 2%]")
  end)

  it("passes over what was not observed", function()
    local y, there = pn.tensor { { 2 }, { 0 / 0 } }, pn.tensor { { true }, { false } }
    local m, _, log_prob = pn.kalman_update(mean, cov, y, c, nil, one, { observed = there })
    assert.same({ { 1.5, 0 }, { 0, 2 } }, m:totable())
    assert.equal(0, log_prob:totable()[2])
  end)

  it("says what is wrong", function()
    local y = pn.zeros { 2, 1 }
    local m, message, code = pn.kalman_update(mean, cov, y, c, nil, one * -3)
    assert.is_nil(m)
    assert.equal("singular", code)
    assert.matches("kalman_update: innovation covariance, matrix %[1%] of the batch, must be positive", message)
    assert.error_matches(function() pn.kalman_update(mean, cov, y, c, nil, one, { detail = true }) end, "details")
    assert.error_matches(function() pn.kalman_update(mean, cov, y, c, nil, one, true) end, "options must be a table")
    assert.error_matches(function()
      pn.kalman_update(mean, cov, y, c, nil, one, { details = 1 })
    end, "details must be true or false")
    assert.error_matches(function()
      pn.kalman_update(mean, cov, y, c, nil, one, { observed = y })
    end, "observed must be bool")
    assert.error_matches(function() pn.kalman_predict(mean, cov, c, nil, cov) end, "q must be %[..., p, p%]")
    assert.error_matches(function() pn.kalman_predict(mean, cov, c:t(), nil, cov) end, "a must be %[..., p, n%]")
    assert.error_matches(function() pn.kalman_predict(mean, cov, a, nil) end, "tensor")
  end)
end)

describe("einsum", function()
  it("takes operands one by one or as a list", function()
    local a, b = pn.randn { 2, 3 }, pn.randn { 3, 4 }
    near(pn.einsum("ij,jk->ik", a, b), a:matmul(b))
    near(pn.einsum("ij,jk", { a, b }), a:matmul(b))
    assert.equal(5, pn.einsum("ii", pn.tensor { { 1, 2 }, { 3, 4 } }):item())
  end)

  it("says what is wrong", function()
    local a = pn.ones { 2, 3 }
    assert.error_matches(function() pn.einsum(a, a) end, "spec must be a string")
    assert.error_matches(function() pn.einsum "ij" end, "needs 1 to")
    assert.error_matches(function() pn.einsum("ij,jk", a, 3) end, "tensor")
    assert.error_matches(function()
      pn.einsum("ij,ij->ik", a, a)
    end, "index 'k' of the result must occur in an operand")
    assert.error_matches(function() pn.einsum("ij,ij", a, pn.ones { 2, 4 }) end, "index 'j' must have one size, got 3")
    for _, letter in ipairs { "A", "Z", "a", "z" } do -- all fifty-two are indexes, and told as they were given
      assert.equal(6, pn.einsum(letter .. "," .. letter, pn.ones { 2 }, pn.full({ 2 }, 3)):item())
      assert.error_matches(function() pn.einsum(letter .. letter, pn.ones { 2, 3 }) end,
        "index '" .. letter .. "' must have one size, got 2")
    end
  end)
end)

describe("convolution and pooling", function()
  it("takes a number for both axes, or a pair", function()
    local x, w = pn.ones { 1, 1, 5, 7 }, pn.ones { 2, 1, 3, 3 }
    assert.same({ 1, 2, 3, 5 }, x:conv2d(w):shape())
    assert.same({ 1, 2, 3, 4 }, x:conv2d(w, { stride = 2, padding = 1 }):shape())
    assert.same({ 1, 2, 2, 7 }, x:conv2d(w, { stride = { 2, 1 }, padding = { 0, 1 } }):shape())
    assert.same({ 1, 1, 5, 7 }, x:conv2d(w):conv_transpose2d(w):shape())
    assert.same({ 1, 1, 2, 2 }, x:max_pool2d({ 2, 3 }):shape())
    assert.same({ 1, 1, 4, 5 }, x:avg_pool2d({ 2, 3 }, 1):shape())
    assert.equal(9, x:conv2d(w):max():item())
    assert.equal(1, x:avg_pool2d(3, { stride = 2, padding = 1, count_include_pad = false }):min():item())
    assert.is_true(math.abs(x:avg_pool2d(3, { stride = 2, padding = 1 }):min():item() - 4 / 9) < 1e-15)
  end)

  it("says what is wrong", function()
    local x, w = pn.ones { 1, 1, 5, 5 }, pn.ones { 1, 1, 3, 3 }
    assert.error_matches(function()
      x:conv2d(w, { stride = { 1 } })
    end, "stride must be a whole number or a list of two")
    assert.error_matches(function() x:conv2d(w, { stride = 0.5 }) end, "stride must be a whole number")
    assert.error_matches(function() x:conv2d(w, { strides = 2 }) end, "stride")
    assert.error_matches(function() x:conv2d(w, { stride = 0 }) end, "stride must be a whole number from 1")
    assert.error_matches(function() x:max_pool2d() end, "kernel is missing")
    assert.error_matches(function() x:conv2d(pn.ones { 1, 2, 3, 3 }) end, "for 1 channels")
  end)
end)
