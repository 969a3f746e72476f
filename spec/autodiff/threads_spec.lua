-- Results are the same bits for any number of threads: operations and their gradients, draws and densities, the Kalman
-- steps, products, convolutions and plans, at sizes that are dealt to threads and do not divide evenly.
local pn = require "penumbra"
local ops = require "spec.autodiff.op_case"
local common = require "spec.autodiff.replay_case"

local dist = pn.dist
local COUNTS = { 2, 3, 5 }
local SOAK = os.getenv "PN_SOAK"

local rows = {}
for _, row in ipairs(pn.rows()) do
  rows[row.kind] = rows[row.kind] or {}
  table.insert(rows[row.kind], row)
end

-- Number of threads of this process; nil where the system does not say.
local function running()
  local file, n = io.open "/proc/self/status", nil
  for line in file and file:lines() or function() end do
    n = n or tonumber(line:match "^Threads:%s+(%d+)")
  end
  return file and file:close() and n
end

-- f() with one thread, and with each of counts (COUNTS), from the same place of the generator. sharded: it must have
-- been dealt.
local function check(what, f, sharded, counts)
  local before = pn.threads()
  pn.threads(1)
  pn.seed(5)
  local want = table.pack(pcall(f))
  local failures = {}
  for _, n in ipairs(want[1] and (counts or COUNTS) or {}) do
    pn.threads(n)
    pn.seed(5)
    local got = table.pack(f())
    if sharded and (running() or n) < n then
      failures[#failures + 1] = what .. " is not dealt to threads: take a larger case"
    end
    for i = 2, want.n do
      local ok, message = pcall(common.same, got[i - 1], want[i], "")
      if not ok then
        failures[#failures + 1] = ("%s: result %d with %d threads: %s"):format(what, i - 1, n,
          tostring(message):sub(1, 200))
      end
    end
  end
  pn.threads(before)
  assert(want[1], want[2])
  assert(#failures == 0, table.concat(failures, "\n"))
end

-- ---- operations ----

local function index(shape, below)
  return pn.randint(0, below, shape, { generator = pn.generator(3) })
end

-- Rows whose usual cases are too small.
local large = {
  reshape = { shape = { 293, 307 } },
  broadcast_to = { shape = { 4, 307, 293 } },
  permute = { order = { 2, 1 } },
  pad = { axis = 2, before = 1, after = 2 },
  gather = { axis = 1, index = index({ 400, 293 }, 307) },
  scatter_add = { axis = 1, index = index({ 307, 293 }, 307) },
  take = { axis = 2, index = index({ 500 }, 293) },
  take_add = { axis = 1, index = index({ 307 }, 100), size = 100 },
  clamp = { low = -0.8, high = 0.7 },
  where = { condition = index({ 307, 293 }, 2):to "bool" },
  polygamma = { n = 2 },
  matmul = { shapes = { { 307, 293 }, { 293, 311 } } },
  linear = { shapes = { { 3001, 60 }, { 60, 50 }, { 50 } } },
  cholesky = { shapes = { { 7003, 8, 8 } }, adjust = { "diagonal" } },
  solve_triangular = { shapes = { { 7003, 8, 8 }, { 8, 2 } }, adjust = { "diagonal" } },
  cholesky_solve = { shapes = { { 8, 8 }, { 7003, 8, 2 } }, adjust = { "diagonal" } },
  solve = { shapes = { { 7003, 8, 8 }, { 7003, 8, 1 } }, adjust = { "diagonal" } },
  inverse = { shapes = { { 7003, 8, 8 } }, adjust = { "diagonal" } },
  logdet = { shapes = { { 7003, 8, 8 } }, adjust = { "diagonal" } },
  det_sign = { shapes = { { 14003, 8, 8 } }, adjust = { "diagonal" } },
  det = { shapes = { { 7003, 8, 8 } }, adjust = { "diagonal" } },
  tria = { shapes = { { 5003, 6, 8 } } },
  eigh = { shapes = { { 1003, 6, 6 } } },
  qr = { shapes = { { 3003, 7, 6 } } },
  svd = { shapes = { { 1003, 7, 6 } } },
  slogdet = { shapes = { { 7003, 8, 8 } }, adjust = { "diagonal" }, result = 2 },
  kalman_predict = { shapes = { { 5003, 8 }, { 8, 8 }, { 5003, 8, 8 }, { 8 }, { 8, 8 } }, result = 2 },
  kalman_update = { shapes = { { 5003, 8 }, { 5003, 8, 8 }, { 4 }, { 4, 8 }, { 5003, 4 }, { 4, 4 } }, result = 3,
    adjust = { [2] = "diagonal", [6] = "diagonal" } },
  kalman_step = { shapes = { { 5003, 8 }, { 5003, 8, 8 }, { 8, 8 }, { 8 }, { 8, 8 }, { 8 }, { 8, 8 }, { 5003, 8 },
    { 8, 8 } }, result = 3, adjust = { [2] = "diagonal", [5] = "diagonal", [9] = "diagonal" } },
  einsum = { spec = "ij,kj->ik" },
  conv2d = { shapes = { { 67, 8, 20, 21 }, { 12, 4, 3, 3 } }, stride = { 1, 2 }, padding = 1, groups = 2 },
  conv_transpose2d = { shapes = { { 67, 8, 10, 11 }, { 8, 6, 3, 3 } }, stride = { 1, 2 }, groups = 2,
    output_padding = { 0, 1 } },
  max_pool2d = { shapes = { { 129, 9, 20, 21 } }, kernel = { 2, 3 }, padding = { 1, 0 } },
  diag_embed = { shapes = { { 307, 29 } } },
  avg_pool2d = { shapes = { { 129, 9, 20, 21 } }, kernel = 2, stride = { 1, 2 }, count_include_pad = false },
}
-- Rows whose elements cost much, dealt to three threads alone: as few as a loop still deals, which is above 32768
-- (src/tensor/shape.c). They are computed in float64 whatever is given, so that float32 has its turn in `make soak`.
local slow = { polygamma = true, gammaincinv = true, gammainccinv = true, gammainc = true, gammaincc = true,
  expintx = true, betaincinv = true, betainc = true, betaincc = true, von_mises_icdf = true, von_mises_cdf = true,
  bernoulli_kl_inverse = true }

describe("with any number of threads", function()
  for _, row in ipairs(rows.op) do
    if not row.hidden and row.name ~= "nonzero" then
      it(row.name .. " gives the same bits", function()
        for _, dtype in ipairs(slow[row.name] and not SOAK and { "float64" } or { "float64", "float32" }) do
          local copy = {}
          for key, v in pairs(row) do
            copy[key] = v
          end
          copy.sample = large[row.name] or row.sample
          local shape = row.square and { 1003, 3, 3 } or slow[row.name] and { 33, 1003 } or { 307, 293 }
          local call, inputs = ops.case(copy, dtype, shape)
          if not pcall(call, inputs) then -- a row with shapes of its own: its small case
            call, inputs = ops.case(row, dtype, { 2, 3 })
          end
          local w = ops.params(inputs)
          check(row.name .. " " .. dtype, function()
            local y = call(w)
            if not row.differentiable or not y:requires_grad() then
              return y
            end
            return y, table.unpack(pn.grad((y * y):sum(), w))
          end, slow[row.name] or copy.sample and copy.sample.shapes, slow[row.name] and { 3 })
        end
      end)
    end
  end

  it("sums of every shape are the same bits", function()
    local x = pn.randn({ 100003 }, { generator = pn.generator(1) })
    local y = pn.randn({ 7, 30011 }, { generator = pn.generator(2) })
    local z = pn.randn({ 30011, 7 }, { generator = pn.generator(3) })
    check("sums", function()
      return x:sum(), x:mean(), x:logsumexp(), x:var(), y:sum(1), y:sum(2), z:sum(1), z:sum(2), z:logsumexp(1),
        x:reshape({ 1, 100003 }):matmul(x:reshape { 100003, 1 }), x:cumsum(1), y:softmax(2), z:max(1), z:prod(2)
    end)
  end)

  it("a product larger than a thread's share is the same bits", function()
    local a = pn.randn({ 513, 1027 }, { generator = pn.generator(1) })
    local b = pn.randn({ 1027, 259 }, { generator = pn.generator(2) })
    local c = pn.randn({ 701, 5, 6 }, { generator = pn.generator(3) })
    for _, dtype in ipairs { "float64", "float32" } do
      local p, q, r = a:to(dtype), b:to(dtype), c:to(dtype)
      local layer = pn.nn.linear(1027, 513, { dtype = dtype }) -- cut by columns, each with its part of the bias
      layer:parameters()[2]:set(pn.randn({ 513 }, { dtype = dtype, generator = pn.generator(4) }))
      local lines, product = q:t():contiguous(), q:t():to "float64":matmul(layer:parameters()[1]:to "float64")
      local apart = (layer(lines):to "float64" - product - layer:parameters()[2]:to "float64"):abs():max():item()
      assert(apart < (dtype == "float64" and 1e-12 or 1e-3), apart)
      check("products", function()
        return p:matmul(q), q:t():matmul(p:t()), p:t():matmul(p:slice(1, 1, 513)), r:matmul(r:transpose(2, 3)),
          p:matmul(q:slice(2, 1, 1)), q:t():slice(1, 1, 1):matmul(p:t()), layer(lines), layer(q:t()),
          lines:matmul(p:t():contiguous())
      end)
    end
  end)

  -- ---- distributions ----

  for _, row in ipairs(rows.distribution) do
    it(row.name .. " draws and weighs with the same bits", function()
      local case = require("spec.golden.distribution." .. row.name).cases[1]
      local named, list = {}, {}
      local whole = {} -- which has no gradient
      for _, p in ipairs(row.parameters) do
        whole[p.name] = p.discrete or p.size
      end
      for name, v in pairs(case.params) do
        local t = pn.tensor(v, { dtype = "float64" })
        named[name] = whole[name] and t or pn.param(t)
        list[#list + 1] = not whole[name] and named[name] or nil
      end
      check(row.name, function()
        local d = dist[row.name](named)
        local event = 1
        for _, n in ipairs(d.event_shape) do
          event = event * n
        end
        local x = d:sample { math.max(3, 70001 // event) }
        local lp = d:log_prob(x)
        local out = { x, lp }
        if lp:requires_grad() then
          for _, g in ipairs(pn.grad(lp:sum(), list)) do
            out[#out + 1] = g
          end
        end
        if row.functions.rsample then
          local y = d:rsample { 20011 }
          out[#out + 1] = y
          if y:requires_grad() then
            for _, g in ipairs(pn.grad((y * y):sum(), list)) do
              out[#out + 1] = g
            end
          end
        end
        if row.functions.cdf then
          out[#out + 1] = d:cdf(x:slice(1, 1, 3001))
        end
        return table.unpack(out)
      end)
    end)
  end

  -- ---- plans ----

  it("a plan gives the same bits, also when the number changes between its replays", function()
    for _, dtype in ipairs { "float64", "float32" } do
      local w = pn.param(pn.randn({ 293 }, { dtype = dtype }))
      local f = pn.compile(function(x)
        local y = (x * w):tanh() + pn.randn({ 307, 293 }, { dtype = dtype }) * 0.1
        local loss = (y:square() - y:exp():log1p()):sum(2):mean()
        return loss, y:logsumexp(1), pn.grad(loss, { w })[1]
      end)
      local x = pn.randn({ 307, 293 }, { dtype = dtype })
      f(x)
      check("plan " .. dtype, function()
        return f(x)
      end)
      assert.equal(1, f:captures())
    end
  end)
end)
