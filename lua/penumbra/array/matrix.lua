--- Matrices of the last two axes, and vectors: norms, diagonals, pseudo-inverses and least squares, solves from the
--- right, products, covariances.
-- help: pn
local core = require "penumbra.core"
local options = require "penumbra.options"

local matrix = {}

local function tensor(where, role, x)
  return options.argument(where, role, x, "tensor")
end

local function as_float(x)
  local dtype = x:dtype()
  return (dtype == "float64" or dtype == "float32") and x or x:to(core.default_dtype())
end

local shape_text = options.shape_text

local function matrices(where, role, x)
  if tensor(where, role, x):ndim() < 2 then
    core.error(("%s: %s must be [..., n, m], got %s"):format(where, role, shape_text(x)))
  end
  return x
end

local function square(where, role, x)
  if matrices(where, role, x):size(-1) ~= x:size(-2) then
    core.error(("%s: %s must be [..., n, n], got %s"):format(where, role, shape_text(x)))
  end
  return x
end

-- ---- norms ----

-- f(x), with value and gradients 0 where x >= 0 is 0: there f has none.
local function away_from_zero(x, f)
  local zero = x:eq(0)
  return core.where(zero, 0, f(core.where(zero, 1, x)))
end

--- norm(x [, {p = 2, axis =, keepdim = false}]): the p-norm (sum |x|^p)^(1/p) over an axis, a list of axes or all
--- elements; p = math.huge the largest |x|, -math.huge the smallest, 0 the number of elements that are not 0. The
--- gradient at the zero vector is 0. Norms of matrices: matrix_norm.
function matrix.norm(x, given)
  x = as_float(tensor("norm", "x", x))
  local o = options.check("norm", given, { p = 2, axis = options.optional(), keepdim = false })
  local p, axis, keep, size = o.p, o.axis, o.keepdim, x:abs()
  if p == math.huge then
    return size:max(axis, keep)
  elseif p == -math.huge then
    return size:min(axis, keep)
  elseif p == 0 then
    return x:ne(0):sum(axis, keep):to(x:dtype())
  elseif p == 1 then
    return size:sum(axis, keep)
  elseif p == 2 then
    return away_from_zero(x:square():sum(axis, keep), core.sqrt)
  elseif p < 0 then
    return (size ^ p):sum(axis, keep) ^ (1 / p)
  end
  local sum = away_from_zero(size, function(s) return s ^ p end):sum(axis, keep)
  return away_from_zero(sum, function(s) return s ^ (1 / p) end)
end

local matrix_norms = {
  fro = function(x) return matrix.norm(x, { axis = { -2, -1 } }) end,
  nuc = function(x) return (select(2, x:svd())):sum(-1) end,
  [2] = function(x) return (select(2, x:svd())):max(-1) end,
  [-2] = function(x) return (select(2, x:svd())):min(-1) end,
  [1] = function(x) return x:abs():sum(-2):max(-1) end,
  [-1] = function(x) return x:abs():sum(-2):min(-1) end,
  [math.huge] = function(x) return x:abs():sum(-1):max(-1) end,
  [-math.huge] = function(x) return x:abs():sum(-1):min(-1) end,
}

--- matrix_norm(x [, p = "fro"]): a norm of matrices [..., n, m] -> [...]: "fro" the root of the sum of squares, "nuc"
--- the sum of the singular values, 2 (-2) the largest (smallest) of them, 1 (-1) the largest (smallest) sum of |x| over
--- a column, math.huge (-math.huge) over a row.
function matrix.matrix_norm(x, p)
  x = as_float(matrices("matrix_norm", "x", x))
  if p == nil then
    p = "fro"
  end
  local f = matrix_norms[p]
  if not f then
    core.error(('matrix_norm: p must be "fro", "nuc", 1, 2, math.huge or one of these numbers with -, got %s'):format(
      tostring(p)))
  end
  return f(x)
end

-- ---- diagonals and products ----

--- diag(x [, k = 0]): of a vector [n] the matrix with it on diagonal k (above the main one for k > 0), of matrices
--- [..., n, m] their diagonal k.
function matrix.diag(x, k)
  tensor("diag", "x", x)
  if x:ndim() == 1 then
    return x:diag_embed(k or 0)
  end
  return matrices("diag", "x", x):diagonal(k or 0)
end

--- trace(x): sum of the main diagonal, [..., n, m] -> [...].
function matrix.trace(x)
  return matrices("trace", "x", x):diagonal():sum(-1)
end

--- outer(a, b): products of all pairs of elements of vectors [n] and [m]: [n, m].
function matrix.outer(a, b)
  for role, x in pairs { a = tensor("outer", "a", a), b = tensor("outer", "b", b) } do
    if x:ndim() ~= 1 then
      core.error(("outer: %s must be a vector, got %s"):format(role, shape_text(x)))
    end
  end
  return a:unsqueeze(2) * b:unsqueeze(1)
end

--- cross(a, b [, axis = -1]): the vector product along an axis of 3; the others broadcast.
function matrix.cross(a, b, axis)
  tensor("cross", "a", a)
  tensor("cross", "b", b)
  local at, bt = options.axis("cross", a, axis, -1), options.axis("cross", b, axis, -1)
  if a:size(at) ~= 3 or b:size(bt) ~= 3 then
    core.error(("cross: a and b must have 3 elements along the axis, got %d and %d"):format(a:size(at), b:size(bt)))
  end
  local function turned(x, k, first) -- elements first, first + 1 ... of three in a ring
    return x:take(k, core.tensor({ first, (first + 1) % 3, (first + 2) % 3 }, { dtype = "int64" }))
  end
  return turned(a, at, 1) * turned(b, bt, 2) - turned(a, at, 2) * turned(b, bt, 1)
end

--- kron(a, b): Kronecker product of matrices [n, m] and [p, q]: [n p, m q].
function matrix.kron(a, b)
  tensor("kron", "a", a)
  tensor("kron", "b", b)
  if a:ndim() ~= 2 or b:ndim() ~= 2 then
    core.error(("kron: a and b must be matrices, got %d and %d axes"):format(a:ndim(), b:ndim()))
  end
  local n, m, p, q = a:size(1), a:size(2), b:size(1), b:size(2)
  return (a:reshape { n, 1, m, 1 } * b:reshape { 1, p, 1, q }):reshape { n * p, m * q }
end

--- block_diag(list): the matrices of a list one after another along the diagonal, zeros elsewhere: [n1 + n2 + ..., m1 +
--- m2 + ...].
function matrix.block_diag(list)
  options.argument("block_diag", "list", list, "table")
  if #list == 0 then
    core.error "block_diag: list must hold at least one matrix"
  end
  local columns, before, rows = 0, 0, {}
  for k, x in ipairs(list) do
    if tensor("block_diag", "element " .. k, x):ndim() ~= 2 then
      core.error(("block_diag: element %d must be a matrix, got %s"):format(k, shape_text(x)))
    end
    columns = columns + x:size(2)
  end
  for k, x in ipairs(list) do
    rows[k] = x:pad(2, before, columns - before - x:size(2))
    before = before + x:size(2)
  end
  return core.concatenate(rows, 1)
end

--- matrix_power(x, n): the product of n factors x [..., m, m], of the inverse for n < 0 (nil, message, code where x is
--- singular), the identity for n = 0.
function matrix.matrix_power(x, n)
  square("matrix_power", "x", x)
  local power = options.whole("matrix_power", "n", n, math.mininteger)
  if power < 0 then
    local inverse, message, code = x:inverse()
    if not inverse then
      return nil, message, code
    end
    x, power = inverse, -power
  end
  local y
  while power > 0 do
    if power % 2 == 1 then
      y = y and y:matmul(x) or x
    end
    power = power // 2
    x = power > 0 and x:matmul(x) or x
  end
  return y or core.eye(x:size(-1), { dtype = x:dtype() }):broadcast_to(x:shape())
end

-- ---- systems ----

--- solve_right(a, b): x with x a = b, by elimination with row exchanges: a [..., n, n], b [..., k, n] or [n]; nil,
--- message, code for a singular matrix. (a x = b: solve.)
function matrix.solve_right(a, b)
  square("solve_right", "a", a)
  tensor("solve_right", "b", b)
  local x, message, code = core.solve(a:t(), b:t())
  if not x then
    return nil, message, code
  end
  return b:ndim() > 1 and x:t() or x
end

local epsilon = { float64 = 0x1p-52, float32 = 0x1p-23 }

-- Singular values above this times the largest count.
local function tolerance(where, x, given)
  local rtol = options.check(where, given, { rtol = options.optional "number" }).rtol
  return rtol or math.max(x:size(-1), x:size(-2)) * epsilon[x:dtype()]
end

--- matrix_rank(x [, {rtol =}]): how many singular values of [..., n, m] are above rtol times the largest, which is
--- max(n, m) times the precision of the dtype unless given: int64 [...].
function matrix.matrix_rank(x, given)
  x = as_float(matrices("matrix_rank", "x", x)):detach()
  local rtol = tolerance("matrix_rank", x, given)
  if x:numel() == 0 then
    return x:sum { -2, -1 }:to "int64"
  end
  local u, s, code = x:svd()
  if not u then
    return nil, s, code
  end
  return s:gt(s:max(-1, true) * rtol):sum(-1)
end

-- The value p, with the gradient of the pseudo-inverse in x where its rank stays: with y = p,
-- dy = -y dx y + y y^T dx^T (1 - x y) + (1 - y x) dx^T y^T y (Golub and Pereyra 1973).
local inverse_of_rank = require("penumbra.autodiff.own_op").op {
  name = "pinv",
  forward = function(_, p) return p end,
  vjp = function(g, y, x)
    local gt, yt = g:t(), y:t()
    local left = gt:matmul(y):matmul(yt)
    local right = yt:matmul(y):matmul(gt)
    return left - x:matmul(y:matmul(left)) + right - right:matmul(y):matmul(x) - yt:matmul(g):matmul(yt)
  end,
}

-- The pseudo-inverse of x, float.
local function pseudo_inverse(where, x, given)
  local rtol = tolerance(where, x, given)
  if x:numel() == 0 then
    return x:t()
  end
  local u, s, vt = x:detach():svd()
  if not u then
    return nil, s, vt
  end
  local low = s:le(s:max(-1, true) * rtol)
  local inverse = core.where(low, 0, 1 / core.where(low, 1, s))
  local p = (vt:t() * inverse:unsqueeze(-2)):matmul(u:t())
  return x:requires_grad() and inverse_of_rank(x, p) or p
end

--- pinv(x [, {rtol =}]): the pseudo-inverse (Moore and Penrose), [..., n, m] -> [..., m, n]; singular values up to rtol
--- times the largest count as 0, rtol as in matrix_rank. The gradient is that at a rank which stays.
function matrix.pinv(x, given)
  return pseudo_inverse("pinv", as_float(matrices("pinv", "x", x)), given)
end

--- lstsq(a, b [, {rtol =}]): the x that makes |a x - b| least, of several the shortest: a [..., n, m], b [..., n, k] or
--- [n] -> [..., m, k] or [m]; by the pseudo-inverse, rtol as there. Gradients in a and b.
function matrix.lstsq(a, b, given)
  matrices("lstsq", "a", a)
  tensor("lstsq", "b", b)
  local column = b:ndim() == 1
  if b:ndim() == 0 or b:size(column and 1 or -2) ~= a:size(-2) then
    core.error(("lstsq: b must be [..., %d, k] or [%d] as the rows of a, got %s"):format(a:size(-2), a:size(-2),
      shape_text(b)))
  end
  local p, message, code = pseudo_inverse("lstsq", as_float(a), given)
  if not p then
    return nil, message, code
  end
  return p:matmul(as_float(b))
end

-- ---- covariance ----

local function covariance(where, x, given)
  x = as_float(tensor(where, "x", x))
  local o = options.check(where, given, { correction = 1 })
  if x:ndim() ~= 1 and x:ndim() ~= 2 then
    core.error(("%s: x must be [K, N] or [N], got %s"):format(where, shape_text(x)))
  end
  local rows = x:ndim() == 1 and x:unsqueeze(1) or x
  local centred = rows - rows:mean(2, true)
  local c = centred:matmul(centred:t()) / (rows:size(2) - o.correction)
  return x:ndim() == 1 and c:reshape {} or c
end

--- cov(x [, {correction = 1}]): covariances of K variables, the rows of x [K, N], from N data: [K, K], of [N] the
--- variance; divisor N - correction. As NumPy's and PyTorch's. (Data in rows: x:t():cov().)
function matrix.cov(x, given)
  return covariance("cov", x, given)
end

--- corrcoef(x): correlations of K variables, the rows of x [K, N]: [K, K]; NaN where one does not vary.
function matrix.corrcoef(x)
  if tensor("corrcoef", "x", x):ndim() ~= 2 then
    core.error(("corrcoef: x must be [K, N], got %s"):format(shape_text(x)))
  end
  local c = covariance("corrcoef", x)
  local scale = c:diagonal():sqrt()
  return c / (scale:unsqueeze(2) * scale:unsqueeze(1))
end

-- ---- functions of matrices, distances ----

-- Padé approximant of order 13 of e^x for a norm to 5.37 (Higham 2005, table 10.4).
local PADE = { 64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
  10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1 }
local LARGEST_NORM = 5.371920351148152

--- matrix_exp(x): e^x of matrices [..., n, n], by scaling and squaring with a Padé approximant of order 13, with a
--- gradient. Higham 2005.
function matrix.matrix_exp(x)
  x = as_float(square("matrix_exp", "x", x))
  local norm = x:abs():sum(-2):max():item()
  local doublings = norm > LARGEST_NORM and math.ceil(math.log(norm / LARGEST_NORM, 2)) or 0
  x = x * 2.0 ^ -doublings
  local unit = core.eye(x:size(-1), { dtype = x:dtype() })
  local x2 = x:matmul(x)
  local x4 = x2:matmul(x2)
  local x6 = x4:matmul(x2)
  local b = PADE
  local odd = x6:matmul(x6 * b[14] + x4 * b[12] + x2 * b[10]) + x6 * b[8] + x4 * b[6] + x2 * b[4] + unit * b[2]
  odd = x:matmul(odd)
  local even = x6:matmul(x6 * b[13] + x4 * b[11] + x2 * b[9]) + x6 * b[7] + x4 * b[5] + x2 * b[3] + unit * b[1]
  local y = (even - odd):solve(even + odd)
  for _ = 1, doublings do
    y = y:matmul(y)
  end
  return y
end

local cdist_options = { p = 2 }

--- cdist(x, y [, {p = 2}]): the distance of each point of x [..., N, D] to each of y [..., M, D]: [..., N, M], by the
--- p-norm (math.huge: the largest difference). The gradient at a distance of 0 is 0. Takes memory for all differences,
--- N M D numbers.
function matrix.cdist(x, y, given)
  local o = options.check("cdist", given, cdist_options)
  matrices("cdist", "x", x)
  matrices("cdist", "y", y)
  if x:size(-1) ~= y:size(-1) then
    core.error(("cdist: points of x and y must have as many numbers, got %s and %s"):format(shape_text(x),
      shape_text(y)))
  end
  local gap = as_float(x):unsqueeze(-2) - as_float(y):unsqueeze(-3)
  return matrix.norm(gap, { p = o.p, axis = -1 })
end

return matrix
