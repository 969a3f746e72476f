-- Estimators of draws without gradient on a model with two binary latents, against exact enumeration of all draws.
local pn = require "penumbra"
local infer, dist = pn.infer, pn.dist

local STATES = pn.tensor { { 0, 0 }, { 0, 1 }, { 1, 0 }, { 1, 1 } } -- [4, 2]

local function params()
  return { phi = pn.param(pn.tensor { 0.4, -0.9 }), theta = pn.param(pn.tensor { 0.7, 1.5, -0.6 }) }
end

-- log p(x, z) and log q(z) of latents [..., 2], for x = 0.8 ~ N(theta . (z, 1), 1).
local function densities(p, z)
  local w = p.theta:slice(1, 1, 2)
  local mean = (z * w):sum(-1) + p.theta:slice(1, 3, 3):sum()
  local log_p = dist.normal(mean, 1):log_prob(pn.full(mean:shape(), 0.8)) + 2 * math.log(0.5)
  return log_p, dist.bernoulli { logits = p.phi }:independent(1):log_prob(z)
end

local function lists(p, y)
  local g = pn.grad(y, { p.phi, p.theta })
  local out = {}
  for _, t in ipairs(g) do
    for _, v in ipairs(t:totable()) do out[#out + 1] = v end
  end
  return out
end

-- The gradient of E_q[bound of K draws]: sum over all sequences of K states of q(sequence) times bound.
local function exact(k)
  local p = params()
  local log_p, log_q = densities(p, STATES)
  local w = log_p - log_q
  if k == 1 then return lists(p, (log_q:exp() * w):sum()) end
  local both = pn.logaddexp(w:unsqueeze(1), w:unsqueeze(2)) - math.log(2)
  return lists(p, ((log_q:unsqueeze(1) + log_q:unsqueeze(2)):exp() * both):sum())
end

-- E[estimator's gradient] by the same enumeration: K draws as one datum each, weighted by q(sequence).
local function expected(k, f)
  local p, total = params(), nil
  local index = {}
  local function visit(depth)
    if depth <= k then
      for s = 1, 4 do
        index[depth] = s
        visit(depth + 1)
      end
      return
    end
    local rows = {}
    for d = 1, k do rows[d] = STATES:slice(1, index[d], index[d]) end
    local log_p, log_q = densities(p, pn.stack(rows, 1)) -- [K, 1]
    local g = lists(p, f(log_p, log_q))
    local weight = log_q:sum():exp():item()
    total = total or {}
    for i, v in ipairs(g) do total[i] = (total[i] or 0) + weight * v end
  end
  visit(1)
  return total
end

local function same(got, want)
  assert.equal(#want, #got)
  for i, v in ipairs(want) do
    assert(math.abs(got[i] - v) < 1e-12 * math.max(1, math.abs(v)), ("%d: %.15g, exactly %.15g"):format(i, got[i], v))
  end
end

describe("draws of binary latents", function()
  it("have exactly the gradient of the lower bound on average, whatever the baseline", function()
    local want = exact(1)
    same(expected(1, function(lp, lq) return infer.score_function(lp, lq) end), want)
    same(expected(1, function(lp, lq) return infer.score_function(lp, lq, { baseline = -7.5 }) end), want)
    same(expected(2, function(lp, lq) return infer.score_function(lp, lq, { leave_one_out = true }) end), want)
    same(expected(3, function(lp, lq) return infer.score_function(lp, lq, { leave_one_out = true, baseline = 2 }) end),
      want)
  end)

  it("have exactly the gradient of the importance weighted bound on average, by VIMCO", function()
    local want = exact(2)
    for _, mean in ipairs { "geometric", "arithmetic" } do
      same(expected(2, function(lp, lq) return infer.vimco(lp, lq, { mean = mean }) end), want)
    end
  end)

  it("have less variance with the others as baseline than with none, and least by VIMCO of the bound", function()
    pn.seed(3)
    local function spread(k, f)
      local n, p = 4000, params()
      local phi = pn.param(p.phi:detach():unsqueeze(1):broadcast_to { n, 2 })
      local q = dist.bernoulli { logits = phi }:independent(1)
      local z = q:sample { k }
      local log_p = densities(p, z)
      local g = pn.grad(f(log_p, q:log_prob(z)), { phi })[1] * n
      return ((g - g:mean(1, true)) ^ 2):mean():item()
    end
    local none = spread(4, function(lp, lq) return infer.score_function(lp, lq) end)
    local others = spread(4, function(lp, lq) return infer.score_function(lp, lq, { leave_one_out = true }) end)
    assert(others < 0.5 * none, ("%.4f and %.4f"):format(others, none))
    local vimco = spread(4, function(lp, lq) return infer.vimco(lp, lq) end)
    local plain = spread(4, function(lp, lq)
      local w = (lp - lq):detach()
      return ((w:logsumexp(1) - math.log(4)):unsqueeze(1) * lq):sum(1):mean()
    end)
    assert(vimco < 0.5 * plain, ("%.4f and %.4f"):format(vimco, plain))
  end)

  it("train a network as baseline", function()
    pn.seed(4)
    local p, target = params(), pn.randn { 64 }
    local net = pn.nn.sequential { pn.nn.linear(1, 8), pn.nn.tanh(), pn.nn.linear(8, 1) }
    local opt = pn.optim.adam(net:parameters(), { lr = 0.02 })
    local function bound()
      local q = dist.bernoulli { logits = p.phi }:independent(1)
      local z = q:sample { 1, 64 }
      local log_p = densities(p, z) + target -- data of different evidence
      return infer.score_function(log_p, q:log_prob(z), { baseline = net(target:unsqueeze(2)):squeeze(2) }), log_p
    end
    for _ = 1, 400 do opt:step(-bound()) end
    local _, log_p = bound()
    local miss = (net(target:unsqueeze(2)):squeeze(2) - target):detach()
    local level = (log_p - target):mean():item()
    local rms = ((miss - miss:mean()) ^ 2):mean():item() ^ 0.5
    assert(rms < 0.25, ("it follows the data's evidence, which spreads by 1, up to %.3f"):format(rms))
    assert(math.abs(miss:mean():item() - (level + 1.3)) < 0.4)
  end)

  it("keep a running baseline that is not biased towards its start", function()
    local b = infer.running_baseline { decay = 0.9 }
    assert.equal(0, b.value)
    assert(math.abs(b:update(-5) + 5) < 1e-12)
    b:update(-7)
    assert(math.abs(b.value - (0.9 * 0.1 * -5 + 0.1 * -7) / 0.19) < 1e-12)
    for _, bad in ipairs { 0 / 0, math.huge } do
      local ok, message = pcall(b.update, b, bad)
      assert.is_false(ok)
      assert.matches("running_baseline: bound must be finite", message)
    end
  end)

  it("have one signal each, whatever the batch and the threads", function()
    pn.seed(5)
    local w = pn.randn { 5, 1000 } * 3
    local function signals(log_w)
      local q = pn.param(log_w * 0)
      return pn.grad(infer.vimco(log_w, q), { q })[1] * log_w:size(2)
    end
    local old, all = pn.threads(), nil
    for _, threads in ipairs { 1, 3 } do
      pn.threads(threads)
      local now = signals(w)
      assert(not all or all:eq(now):all():item())
      all = now
    end
    pn.threads(old)
    for _, b in ipairs { 1, 63, 64, 65, 129, 1000 } do
      local one = signals(w:slice(2, b, b))
      assert((one - all:slice(2, b, b)):abs():max():item() < 1e-11)
    end
  end)

  it("have a signal where one weight is all but everything", function()
    for dtype, limit in pairs { float64 = 1e-12, float32 = 1e-5 } do
      local w = pn.tensor({ { 60.0 }, { 0 }, { 1 } }, { dtype = dtype })
      local q = pn.param(w * 0)
      local g = pn.grad(infer.vimco(w, q, { mean = "arithmetic" }), { q })[1]:totable()
      -- the bound, 60 - log 3, less log((e^0 + e^1) / 2); the others' own share of the bound is nothing
      local signal = 60 - math.log(3) - (math.log(1 + math.exp(1)) - math.log(2))
      assert(math.abs(g[1][1] - (signal - 1)) < 60 * limit)
      assert(math.abs(g[2][1] - (math.log(2) - math.log(3))) < 60 * limit)
    end
  end)

  it("need two draws for each other's baselines, and shapes that fit", function()
    local w = pn.zeros { 1, 2 }
    local function message_of(f, ...)
      local ok, message = pcall(f, ...)
      assert.is_false(ok)
      return message
    end
    assert.matches("vimco: it needs K of at least 2 draws, %[K, B%], got shape %[1, 2%]", message_of(infer.vimco, w, w))
    assert.matches("score_function: leave_one_out needs K of at least 2 draws",
      message_of(infer.score_function, w, w, { leave_one_out = true }))
    assert.matches("score_function: baseline must broadcast to %[1, 2%], got shape %[3%]",
      message_of(infer.score_function, w, w, { baseline = pn.zeros { 3 } }))
    assert.matches("unknown option 'leave_one_ot', did you mean 'leave_one_out'",
      message_of(infer.score_function, w, w, { leave_one_ot = true }))
  end)
end)
