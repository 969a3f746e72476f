-- Matrices, norms and least squares, against NumPy and PyTorch.
local pn = require "penumbra"
local case = require "spec.lua.array_case"

local g, float, same = case.golden, case.float, case.same
local x, z, low, right = float(g.x), float(g.z), float(g.low), float(g.right)
local tall, wide, four = x:slice(2, 1, 3), x:slice(1, 1, 3), x:slice(2, 1, 4)
local batch = pn.stack { tall, tall:flip(1) * 2 + 0.1 }
local inf = math.huge

describe("matrices", function()
  it("have norms", function()
    same(x:norm(), g.norm)
    same(x:norm { axis = 2 }, g.norm_rows)
    same(x:norm { axis = { 1, 2 }, keepdim = true }, float { { g.norm } })
    same(x:norm { p = 1, axis = 1 }, g.norm_1)
    same(x[1]:norm { p = 3 }, g.norm_3)
    same(x[1]:norm { p = 0.5 }, g.norm_half)
    same(x[1]:norm { p = -2 }, g.norm_minus)
    same(x:norm { p = inf, axis = 2 }, g.norm_inf)
    same(x:norm { p = -inf, axis = 2 }, g.norm_least)
    same(z:norm { p = 0, axis = 2 }, g.norm_0)
    same(pn.tensor({ 3, 4 }, { dtype = "int64" }):norm(), 5)
    same(x:to("float32"):norm(), g.norm, 1e-6)
    for name, p in pairs { fro = "fro", nuc = "nuc", spectral = 2, columns = 1, rows = inf } do
      same(batch:matrix_norm(p), g[name], 1e-13)
    end
    for name, p in pairs { least = -2, columns_least = -1, rows_least = -inf } do
      same(tall:matrix_norm(p), g[name], 1e-13)
    end
  end)

  it("have norms with a gradient at 0", function()
    same(case.slope(function(v) return v:norm { p = 3, axis = 2 } end, z), g.norm_slope)
    for _, p in ipairs { 1, 1.5, 2, 3, inf } do
      local w = pn.param(float { 0, 0 })
      same(pn.grad(w:norm { p = p }, { w })[1], float { 0, 0 })
    end
  end)

  it("have diagonals and products", function()
    same(x[1]:diag(2), g.diag_up)
    same(x:diag(-1), g.diag_down)
    same(batch:trace(), g.trace)
    same(x[1]:outer(x:select(2, 1)), g.outer)
    same(tall:cross(tall:flip(1)), g.cross)
    same(x:slice(1, 1, 3):cross(x:slice(1, 2, 4), 1), g.cross_first)
    same(pn.block_diag { pn.ones(1, 2), pn.ones(1, 1) * 2 }, g.block_diag)
    same(four:matrix_power(5), g.matrix_power, 1e-13)
    same(four:matrix_power(-3), g.matrix_power_minus, 1e-12)
    same(four:matrix_power(0), pn.eye(4))
    local none, message, code = pn.zeros(2, 2):matrix_power(-1)
    assert.same({ nil, "singular" }, { none, code }, message)
  end)

  it("have pseudo-inverses and least squares", function()
    assert.same(g.rank, { tall:matrix_rank():item(), low:matrix_rank():item() })
    assert.same({ 3, 3 }, batch:matrix_rank():totable())
    same(tall:pinv(), g.pinv_tall, 1e-13)
    same(wide:pinv(), g.pinv_wide, 1e-13)
    same(low:pinv(), g.pinv_low, 1e-12)
    same(batch:pinv(), g.pinv_batch, 1e-13)
    same(tall:to("float32"):pinv(), g.pinv_tall, 1e-5)
    same(pn.zeros(2, 3):pinv(), pn.zeros(3, 2))
    same(case.slope(pn.pinv, tall), g.pinv_tall_slope, 1e-12)
    same(case.slope(pn.pinv, wide), g.pinv_wide_slope, 1e-12)
    same(tall:lstsq(right), g.lstsq, 1e-13)
    same(tall:lstsq(right:select(2, 1)), g.lstsq_one, 1e-13)
    same(wide:lstsq(right:slice(1, 1, 3)), g.lstsq_wide, 1e-13)
    same(low:lstsq(x:t()), g.lstsq_low, 1e-12)
    same(case.slope(function(a) return a:lstsq(right) end, tall), g.lstsq_a, 1e-12)
    same(case.slope(function(b) return tall:lstsq(b) end, right), g.lstsq_b, 1e-12)
  end)

  it("are solved from the right", function()
    same(four:solve_right(right:t()), g.solve_right, 1e-13)
    same(four:solve_right(right:select(2, 1)), g.solve_right[1], 1e-13)
    same(four:solve_right(right:t()):matmul(four), right:t(), 1e-13)
    local none, message, code = pn.zeros(2, 2):solve_right(pn.ones(2))
    assert.same({ nil, "singular" }, { none, code }, message)
  end)

  it("have covariances", function()
    same(x:cov(), g.cov)
    same(x[1]:cov { correction = 0 }, g.cov_one)
    same(x:corrcoef(), g.corrcoef)
  end)

  it("have gradients of both orders as finite differences", function()
    local a, b = float { { 1, 0.5 }, { -0.3, 2 }, { 0.7, 0.1 } }, float { 1, -1, 0.5 }
    case.differentiates(pn.pinv, a)
    case.differentiates(pn.pinv, a:t())
    case.differentiates(pn.lstsq, a, b)
    case.differentiates(function(m, v) return m:solve_right(v) end, a:slice(1, 1, 2), b:slice(1, 1, 2))
    case.differentiates(function(m) return m:norm { p = 3, axis = 1 } + m:norm { axis = 1 } end, a)
    for _, p in ipairs { 1, inf, -inf, -2, 0.5 } do
      case.differentiates(function(m) return m:norm { p = p, axis = 2 } end, a)
    end
    case.differentiates(pn.matrix_exp, a:slice(1, 1, 2) * 0.7)
    case.differentiates(function(m) return m:matrix_norm("nuc") end, a)
    case.differentiates(function(m) return m:diagonal(-1):cumsum() + m:cov():trace() end, a)
    case.differentiates(function(m) return m:diag_embed(1):matrix_norm(1) end, a)
    case.differentiates(function(m) return m:corrcoef() end, a:t())
    case.differentiates(function(m) return m:matrix_power(3) end, a:slice(1, 1, 2))
    case.differentiates(function(m, n) return m:cross(n, 1) end, a, b:unsqueeze(2))
  end)

  it("replay to the same bits, with gradients", function()
    local w = pn.param(tall)
    local function step(v) return pn.grad(((w * v):pinv() + v:sum()):square():sum(), { w })[1] end
    case.replays(step, tall * 0 + 1)
    case.replays(function(v) return v:lstsq(right) end, tall)
    case.replays(function(v) return v:norm { p = 3, axis = 1 } + v:t():matrix_norm(1) end, tall)
  end)

  it("have their parts where they belong, whatever the sizes and types", function()
    local a, b = pn.tensor { { 1, -2, 3 }, { 0.5, 4, -1 } }, pn.tensor { { 2, 5 }, { -3, 7 }, { 1, 0.25 }, { 6, 8 } }
    local k = a:kron(b)
    assert.same({ 8, 6 }, k:shape())
    for i = 1, 8 do
      for j = 1, 6 do
        assert.equal(a[(i - 1) // 4 + 1][(j - 1) // 2 + 1]:item() * b[(i - 1) % 4 + 1][(j - 1) % 2 + 1]:item(),
          k[i][j]:item())
      end
    end
    same(pn.block_diag { a, pn.tensor { { 9 } }, b:slice(1, 1, 2) }, float { { 1, -2, 3, 0, 0, 0 },
      { 0.5, 4, -1, 0, 0, 0 }, { 0, 0, 0, 9, 0, 0 }, { 0, 0, 0, 0, 2, 5 }, { 0, 0, 0, 0, -3, 7 } })
    same(a:diag(), float { 1, 4 })
    same(a[1]:diag(), float { { 1, 0, 0 }, { 0, -2, 0 }, { 0, 0, 3 } })
    same(a:diag(1), float { -2, -1 })
    same(a[1]:slice(1, 1, 2):diag(-1), float { { 0, 0, 0 }, { 1, 0, 0 }, { 0, -2, 0 } })
    same(b:trace(), 9)
    same(a:slice(1, 1, 1):cov(), float { { a[1]:cov():item() } })
    for _, dtype in ipairs { "float32", "int64" } do
      local want = dtype == "int64" and "float64" or dtype
      local whole = pn.tensor({ { 3, 4 }, { 1, 2 } }, { dtype = dtype })
      for name, y in pairs { norm = whole:norm(), matrix_norm = whole:matrix_norm(1), pinv = whole:pinv(),
        cov = whole:cov(), cdist = whole:cdist(whole), exp = (whole * 0):matrix_exp() } do
        assert.equal(want, y:dtype(), name)
      end
      same(whole:matrix_norm(1):to "float64", 6)
      same((whole * 0):matrix_exp():to "float64", pn.eye(2))
    end
    local narrow = pn.tensor { { 1, 0 }, { 0, 0.125 } } -- singular values 1 and 1 / 8: those above rtol count
    for rtol, rank in pairs { [0.125] = 1, [0.124] = 2, [1] = 0, [0] = 2 } do
      assert.equal(rank, narrow:matrix_rank({ rtol = rtol }):item())
      same(narrow:pinv { rtol = rtol }, float { { rank > 0 and 1 or 0, 0 }, { 0, rank > 1 and 8 or 0 } })
    end
    local from, to = pn.tensor { { 0, 0 }, { 3, -1 } }, pn.tensor { { 3, 4 }, { 0, 0 }, { 1, 1 } }
    for p, want in pairs { [1] = { { 7, 0, 2 }, { 5, 4, 4 } }, [inf] = { { 4, 0, 1 }, { 5, 3, 2 } } } do
      same(from:cdist(to, { p = p }), float(want))
    end
    same(from:cdist(to)[1], float { 5, 0, math.sqrt(2) })
    assert.same({ 0, 3, 0 }, { pn.zeros(0, 3):matrix_rank():item(), table.unpack(pn.zeros(0, 3):pinv():shape()) })
  end)

  it("have an exponential: its series, at any norm, and each of its own", function()
    local a = pn.tensor { { 0.3, -1.2, 0.5 }, { 2, 0.1, -0.4 }, { -0.7, 0.9, 1.1 } }
    local function series(m)
      local term, sum = pn.eye(3), pn.eye(3)
      for k = 1, 60 do
        term = term:matmul(m) / k
        sum = sum + term
      end
      return sum
    end
    for _, scale in ipairs { 0.01, 0.5, 1, 1.7, 2.5, 5 } do
      local want = series(a * scale)
      assert.is_true((pn.matrix_exp(a * scale) - want):abs():max():item() < 1e-13 * want:abs():max():item(), scale)
    end
    local both = pn.stack { a * 3, a:t() * 0.1 }
    same(both:matrix_exp()[1], (a * 3):matrix_exp(), 1e-12)
    same(both:matrix_exp()[2], (a * 0.1):matrix_exp():t(), 1e-13)
  end)

  it("say what does not fit", function()
    local one, vector, flat = pn.tensor(1), x[1], x:slice(1, 1, 2)
    for _, row in ipairs { { "norm: x must be a tensor, got 3", pn.norm, 3 },
      { "matrix_norm: x must be %[%.%.%., n, m%], got %[%d+%]", pn.matrix_norm, vector },
      { "matrix_norm: x must be a tensor, got 3", pn.matrix_norm, 3 },
      { "matrix_power: x must be %[%.%.%., n, m%], got %[%d+%]", pn.matrix_power, vector, 2 },
      { 'matrix_norm: p must be "fro", .* got 3', pn.matrix_norm, x, 3 },
      { "diag: x must be %[%.%.%., n, m%], got %[%]", pn.diag, one }, { "diag: x must be a tensor", pn.diag, 3 },
      { "trace: x must be %[%.%.%., n, m%], got %[%d+%]", pn.trace, vector },
      { "outer: a must be a vector, got %[4, %d+%]", pn.outer, x, vector },
      { "outer: b must be a vector, got %[%]", pn.outer, vector, one },
      { "outer: b must be a tensor", pn.outer, vector, 3 },
      { "cross: a must be a tensor", pn.cross, 3, vector }, { "cross: b must be a tensor", pn.cross, vector, 3 },
      { "cross: a and b must have 3 elements along the axis, got 2 and 3", pn.cross, pn.ones(2), pn.ones(3) },
      { "cross: a and b must have 3 elements along the axis, got 3 and 4", pn.cross, pn.ones(3), pn.ones(4) },
      { "kron: a and b must be matrices, got 1 and 2 axes", pn.kron, vector, x },
      { "kron: a and b must be matrices, got 2 and 3 axes", pn.kron, x, batch },
      { "kron: a must be a tensor", pn.kron, 3, x }, { "kron: b must be a tensor", pn.kron, x, 3 },
      { "block_diag: list must be a table", pn.block_diag, 3 },
      { "block_diag: list must hold at least one matrix", pn.block_diag, {} },
      { "block_diag: element 2 must be a matrix, got %[%]", pn.block_diag, { x, one } },
      { "block_diag: element 1 must be a tensor", pn.block_diag, { 3 } },
      { "matrix_power: x must be %[%.%.%., n, n%], got %[2, %d+%]", pn.matrix_power, flat, 2 },
      { "matrix_power: n must be a whole number", pn.matrix_power, four, 1.5 },
      { "solve_right: a must be %[%.%.%., n, n%]", pn.solve_right, flat, vector },
      { "solve_right: b must be a tensor", pn.solve_right, four, 3 },
      { "lstsq: b must be %[%.%.%., 4, k%] or %[4%] as the rows of a, got %[%]", pn.lstsq, x, one },
      { "lstsq: b must be %[%.%.%., 4, k%] or %[4%] as the rows of a, got %[3%]", pn.lstsq, x, pn.ones(3) },
      { "lstsq: b must be %[%.%.%., 4, k%] or %[4%] as the rows of a, got %[3, 4%]", pn.lstsq, x, pn.ones(3, 4) },
      { "cov: x must be %[K, N%] or %[N%], got %[%]", pn.cov, one },
      { "cov: x must be %[K, N%] or %[N%], got %[2, 4, 3%]", pn.cov, batch },
      { "corrcoef: x must be %[K, N%], got %[2, 4, 3%]", pn.corrcoef, batch },
      { "cdist: x must be %[%.%.%., n, m%]", pn.cdist, vector, x },
      { "cdist: y must be %[%.%.%., n, m%]", pn.cdist, x, vector },
      { "cdist: points of x and y must have as many numbers, got %[2, 2%] and %[3, 1%]", pn.cdist, pn.ones(2, 2),
        pn.ones(3, 1) } } do
      local ok, message = pcall(row[2], row[3], row[4])
      assert.is_false(ok, row[1])
      assert.matches("^[^:]*:?%d*:? ?" .. row[1], message)
    end
  end)

  it("are refused by name where they do not fit", function()
    for name, f in pairs { norm = function() x:norm { p = 0 / 0 } end, matrix_norm = function() x:matrix_norm(3) end,
        diag = function() pn.tensor(1):diag() end, trace = function() x[1]:trace() end, outer = function()
        x:outer(x) end, cross = function() x:cross(x) end, block_diag = function() pn.block_diag {} end,
        matrix_power = function() x:matrix_power(2) end, solve_right = function() x:solve_right(x) end,
        pinv = function() x:pinv { rtol = -1 } end, lstsq = function() x:lstsq(x[1]) end, matrix_rank = function()
        x[1]:matrix_rank() end, cov = function() batch:cov() end, corrcoef = function() x[1]:corrcoef() end } do
      assert.error_matches(f, "^" .. name .. ": ")
    end
  end)
end)
