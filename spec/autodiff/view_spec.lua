--- Views: every operation, factorisation, density and layer gives through views of odd strides, bit for bit or to
--- rounding, what it gives through contiguous copies: backwards, with steps, transposed, repeated by strides of 0, of
--- one row or column, and where axes of one element carry strides that say nothing. And gradients of operations and
--- densities in one input alone, with a graph and added to others are those in all of them.
local pn = require "penumbra"
local cases = require "spec.autodiff.op_case"

--- Same values in another memory order: the axes behind each other backwards.
local function turned(x)
  local order = {}
  for k = 1, #x:shape() do order[k] = #x:shape() + 1 - k end
  return #order > 1 and x:permute(order):contiguous():permute(order) or x
end

--- Same values, every `step`-th element along `axis` of something wider, which holds NaN elsewhere.
local function apart(x, axis, step)
  local shape = x:shape()
  if #shape == 0 or shape[axis] == 0 then return x end
  local n = shape[axis]
  local nan = x:dtype():find "float" and pn.full(shape, 0 / 0, {dtype = x:dtype()}) or x * 0
  local parts = {x}
  for k = 2, math.abs(step) do parts[k] = nan end
  if step < 0 then parts[1] = x:flip(axis) end
  shape[axis] = n * #parts
  local wide = pn.stack(parts, axis + 1):reshape(shape)
  return step > 0 and wide:slice(axis, 1, (n - 1) * step + 1, step) or wide:slice(axis, (n - 1) * -step + 1, 1, step)
end

--- A tensor in the middle of a larger one of NaN, along all axes.
local function inner(x)
  for axis = 1, #x:shape() do
    x = x:pad(axis, 2, 3, x:dtype():find "float" and 0 / 0 or 0):slice(axis, 3, x:size(axis) + 2)
  end
  return x
end

local views = {
  {"transposed memory", turned},
  {"every third of the last axis", function(x) return apart(x, #x:shape(), 3) end},
  {"every second of the last axis, backwards", function(x) return apart(x, #x:shape(), -2) end},
  {"every second of the first axis", function(x) return apart(x, 1, 2) end},
  {"the first axis backwards", function(x) return apart(x, 1, -1) end},
  {"a part of something larger", inner},
  {"strides that say nothing", function(x) return x:broadcast_to(x:shape()) end},
  {"steps both ways and turned", function(x) return turned(apart(apart(x, 1, 2), #x:shape(), -3)) end},
}

local function all_of(results)
  local out = {}
  for k = 1, results.n do
    local y = results[k]
    if type(y) == "userdata" then out[#out + 1] = y end
  end
  return out
end

--- Equal bits, NaN at the same places, or nearer than `limit`, absolute and relative.
local function agree(got, want, limit, message)
  assert.same(want:shape(), got:shape(), message)
  local as_float = want:to "float64"
  local off = (got:to "float64" - as_float):abs()
  local both = got:eq(want):logical_or(got:ne(got):logical_and(want:ne(want)))
  local fits = both:logical_or(off:le(as_float:abs() * limit + limit))
  assert(fits:all():item() ~= false, message)
end

--- Gradients in one input, the others constants or parameters that are not asked for; with a graph; added twice.
local function alone(what, call, inputs, limit)
  local function loss(x)
    local y = call(x)
    return (y * (pn.arange(y:numel()) + 1):reshape(y:shape())):sum()
  end
  local w = cases.params(inputs)
  local want = pn.grad(loss(w), w)
  for _, x in ipairs(w) do assert.is_nil(x:grad()) end
  for _ = 1, 2 do loss(w):backward() end
  local with_graph = pn.grad(loss(w), w, {create_graph = true})
  for k, g in ipairs(want) do
    local one, message = {table.unpack(inputs)}, what .. ", input " .. k
    one[k] = w[k]
    local y = loss(one)
    agree(y:requires_grad() and pn.grad(y, {w[k]})[1] or g * 0, g, limit, message .. " alone")
    agree(pn.grad(loss(w), {w[k]})[1], g, limit, message .. " asked for alone")
    agree(with_graph[k]:detach(), g, limit, message .. " with a graph")
    if w[k]:grad() then agree(w[k]:grad(), g * 2, limit, message .. " added") end
  end
end

--- What f gives of views must be what it gives of copies.
local function same(what, f, inputs, limit)
  local want = all_of(table.pack(f(inputs, function(x) return x end)))
  for _, view in ipairs(views) do
    local seen = {}
    for k, x in ipairs(inputs) do
      seen[k] = view[2](x)
      assert(seen[k]:eq(x):all():item() ~= false, "the view " .. view[1] .. " is no copy")
    end
    local got = all_of(table.pack(f(seen, view[2])))
    assert.equal(#want, #got)
    for k, y in ipairs(got) do
      agree(y, want[k], limit, ("%s through %s, result %d"):format(what, view[1], k))
    end
  end
end

--- Shapes of one row, one column and one number where the row takes any; else what the cases have.
local function shapes_of(row)
  if row.square then return {{2, 3, 3}, {1, 3, 3}, {5, 1, 1}, {1, 1}} end
  return {{2, 3}, {1, 9}, {9, 1}, {1, 1}, {5, 1, 3}, {1, 70}, {70, 1}, {9}}
end

local function try(row, dtype, shape)
  local ok, call, inputs = pcall(cases.case, row, dtype, shape)
  if ok and pcall(call, inputs) then return call, inputs end
end

describe("through views", function()
  local tried = 0
  for _, row in ipairs(pn.rows()) do
    if row.kind == "op" and not row.hidden then
      it(row.name .. " gives what it gives of copies", function()
        local any = false
        for _, dtype in ipairs{"float64", "float32"} do
          for _, shape in ipairs(shapes_of(row)) do
            local call, inputs = try(row, dtype, shape)
            if call and #inputs > 0 then
              any = true
              same(row.name .. " of " .. table.concat(shape, " x "), call, inputs, dtype == "float64" and 1e-13 or 1e-5)
            end
          end
        end
        assert.is_true(any, "no case of " .. row.name .. " runs")
        tried = tried + 1
      end)
      if row.differentiable then
        it(row.name .. " has the gradients that it has through copies", function()
          for _, shape in ipairs(shapes_of(row)) do
            local call, inputs = try(row, "float64", shape)
            if call and #inputs > 0 then
              same("the gradient of " .. row.name, function(_, view)
                local w, seen = cases.params(inputs), {}
                for k, x in ipairs(w) do seen[k] = view(x) end
                local y = call(seen)
                return table.unpack(pn.grad((y * pn.arange(y:numel()):reshape(y:shape())):sum(), w))
              end, inputs, 1e-11)
              if shape[1] == 2 then alone("the gradient of " .. row.name, call, inputs, 1e-12) end
            end
          end
        end)
      end
    end
  end

  it("all of them were tried", function() assert.is_true(tried > 120) end)

  it("rows of one element are where the tensor says", function()
    assert.equal(math.sqrt(80), pn.arange(9):reshape(1, 9)[{{1, 1}, {1, 9, 4}}]:tria():item())
    assert.is_true(math.abs(pn.ones{1}:broadcast_to{1, 64}:tria():item() - 8) < 1e-13)
    local x, y = pn.randn{5, 1, 3}, pn.randn{3, 4}
    assert.same(x:matmul(y):totable(), x:broadcast_to{5, 1, 3}:matmul(y):totable())
  end)

  it("matrices give their products and solutions, large and small, one and many", function()
    local eye = function(n, x) return x * 0.3 + pn.eye(n) * n end
    for _, n in ipairs{1, 2, 5, 17, 40} do
      for _, batch in ipairs{{}, {1}, {3}, {9}, {2, 3}} do
        local function shape(...)
          local s = {table.unpack(batch)}
          for _, v in ipairs{...} do s[#s + 1] = v end
          return s
        end
        local a, b = eye(n, pn.randn(shape(n, n))), pn.randn(shape(n, 2))
        for _, k in ipairs{1, 2, 17} do
          local function product(x) return x[1]:matmul(x[2]) end
          same("matmul", product, {pn.randn(shape(k, n)), pn.randn(shape(n, k))}, 1e-12)
          same("matmul by one", product, {pn.randn(shape(k, n)), pn.randn{n, k}}, 1e-12)
          same("tria", function(x) return x[1]:tria():square():sum(-1) end, {pn.randn(shape(n, n + k))}, 1e-11)
        end
        same("det", function(x) return x[1]:det(), x[1]:logdet(), x[1]:slogdet() end, {a}, 1e-11)
        same("solve", function(x) return x[1]:solve(x[2]), x[1]:inverse() end, {a, b}, 1e-11)
        same("solve a vector", function(x) return x[1]:solve(x[2]) end, {a, pn.randn{n}}, 1e-11)
        same("triangles", function(x)
          return x[1]:solve_triangular(x[2]), x[1]:solve_triangular(x[2], {upper = true}),
            x[1]:solve_triangular(x[2], {transpose = true}), x[1]:cholesky_solve(x[2])
        end, {a, b}, 1e-11)
        same("factors", function(x)
          local q, r = x[1]:qr()
          local u, s, v = x[1]:svd()
          local values = x[1]:eigh()
          return q:matmul(r), s, (x[1]:matmul(x[1]:transpose()) + pn.eye(n)):cholesky(), values, u and v and s
        end, {a}, 1e-10)
      end
    end
  end)

  it("index operations read and write where they must", function()
    local places = pn.tensor({{2, 0, 1}, {1, 1, 0}}, {dtype = "int64"})
    same("gather and scatter", function(x)
      return x[1]:gather(2, x[2]), x[1]:scatter_add(2, x[2], x[3]), x[1]:take(2, x[2]), x[1]:argsort(1),
        x[1]:cumsum(1), x[1]:topk(1, 2), x[1]:sort(1), x[1]:argmax(1), x[1]:nonzero(), x[1]:tril(), x[1]:diagonal(),
        pn.concatenate({x[1], x[3]}, 1), pn.stack{x[1], x[3]}, pn.einsum("ij,kj->ik", x[1], x[3]), x[1]:sum(1),
        x[1]:mean(2), x[1]:any(1), x[1]:to "int64", x[1]:reshape(3, 2), x[1]:flip(2)
    end, {pn.randn{2, 3}, places, pn.randn{2, 3}}, 1e-14)
  end)

  it("recurrent layers, convolutions and filters give what they give of copies", function()
    pn.seed(7)
    local nn = pn.nn
    for _, make in ipairs{nn.lstm, nn.gru, nn.linear} do
      local layer = make(3, 4)
      same("a layer", function(x) return layer(x[1]) end, {pn.randn{5, 2, 3}}, 1e-12)
      same("a layer of one", function(x) return layer(x[1]) end, {pn.randn{1, 1, 3}}, 1e-12)
    end
    local g = pn.eye(3)
    same("kalman", function(x)
      return pn.kalman_step(x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9])
    end, {pn.randn{1, 3}, g + 0, g * 0.5, pn.randn{3}, g * 0.1, pn.randn{1}, pn.ones{1, 3}, pn.zeros{1}, pn.ones{1, 1}},
      1e-12)
  end)

  local slopes = 0
  for _, row in ipairs(pn.rows()) do
    if row.kind == "distribution" then
      it("the functions of " .. row.name .. " give what they give of copies", function()
        local case = require("spec.golden.distribution." .. row.name).cases[1]
        local names, inputs = {}, {}
        for _, p in ipairs(row.parameters) do
          local v = case.params[p.name]
          local t = v and pn.tensor(v, {dtype = "float64"})
          names[#names + 1] = v and p.name
          inputs[#inputs + 1] = v and pn.stack{t, t, t}:reshape(3, 1, table.unpack(t:shape()))
        end
        local function make(x)
          local t = {}
          for k, name in ipairs(names) do t[name] = x[k] end
          return pn.dist[row.name](t)
        end
        local whole = pcall(make, inputs)
        if not whole then -- parameters that every event shares
          for k, name in ipairs(names) do inputs[k] = pn.tensor(case.params[name], {dtype = "float64"}) end
        end
        local x = make(inputs):sample({2}, {generator = pn.generator(3)}):contiguous()
        local given = 0
        for _, f in ipairs{"log_prob", "cdf", "log_survival", "sample", "rsample", "entropy", "mean", "variance"} do
          local takes_x = f == "log_prob" or f == "cdf" or f == "log_survival"
          local all = {table.unpack(inputs)}
          if takes_x then all[#all + 1] = x end
          local function call(t)
            local d = make(t)
            if takes_x then return d[f](d, t[#t]) end
            if f == "sample" or f == "rsample" then return d[f](d, {2, 4}, {generator = pn.generator(5)}) end
            return d[f](d)
          end
          if pcall(call, all) then
            given = given + 1
            same(row.name .. " " .. f, call, all, 1e-11)
          end
          local ok, w = pcall(cases.params, all) -- whole numbers are no parameters
          if ok and f ~= "sample" and pcall(function() pn.grad(call(w):sum(), w) end) then
            slopes = slopes + 1
            same("the gradient of " .. row.name .. " " .. f, function(_, view)
              local seen = {}
              for k, t in ipairs(w) do seen[k] = view(t) end
              return table.unpack(pn.grad(call(seen):sum(), w))
            end, all, 1e-9)
            if f == "log_prob" then alone("the gradient of " .. row.name, call, all, 1e-9) end
          end
        end
        assert.is_true(given >= 2)
      end)
    end
  end
  it("densities had gradients", function() assert.is_true(slopes > 100, slopes) end)
end)
