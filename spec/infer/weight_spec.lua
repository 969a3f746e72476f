-- Weighted draws: streams, resampling, expectations with their errors, and the tail's shape.
local pn = require "penumbra"
local message_of = require("spec.helper").message_of
local infer, dist = pn.infer, pn.dist

local function close(got, want, limit)
  local off = (got:to "float64" - want):abs():max():item()
  assert(off <= limit, ("off by %.3g"):format(off))
end

describe("a stream of weights", function()
  it("tells of draws in pieces what all at once would", function()
    pn.seed(5)
    for _, shift in ipairs { 0, 700, -1e4 } do
      local w = pn.randn { 1000, 3 } * 1.5 + shift
      for _, pieces in ipairs { { 1000 }, { 1, 2, 997 }, { 250, 250, 250, 250 } } do
        local s, at = infer.stream { draws = 1000 }, 1
        for _, n in ipairs(pieces) do
          assert.equal(s, s:add(w:slice(1, at, at + n - 1)))
          at = at + n
        end
        assert.equal(1000, s:count())
        local limit = 1e-13 * (1 + math.abs(shift))
        close(s:log_mean(), w:logsumexp(1) - math.log(1000), limit)
        close(s:elbo(), w:mean(1), 10 * limit)
        close(s:effective_sample_size() / infer.effective_sample_size(w), 1, 1e-9)
        local _, k = infer.psis(w)
        close(s:pareto_k(), k, 1e-9)
        local share = (w - w:max(1, true)):exp()
        local relative = ((share - share:mean(1, true)) ^ 2):sum(1):sqrt() / share:sum(1) * (1000 / 999) ^ 0.5
        close(s:standard_error() / relative, 1, 1e-9)
      end
    end
  end)

  it("tells at each length what the draws so far would, equal ones and weights of 0 among them", function()
    pn.seed(6)
    for draws, dtype in pairs { [1] = "float64", [6] = "float32", [27] = "float64", [98] = "float32" } do
      local w = (pn.randn { draws, 2 } * 3):to(dtype)
      if draws > 6 then
        local none = pn.full({ 1, 2 }, -math.huge, { dtype = dtype })
        w = pn.concatenate({ w:slice(1, 1, draws - 3), w:slice(1, 4, 5), none }, 1)
      end
      local s = infer.stream { draws = draws + 3 }
      for n = 1, draws do
        s:add(w:slice(1, n, n))
        local far = w:slice(1, 1, n):to "float64"
        local share = (far - far:max(1, true)):exp()
        close(s:log_mean(), far:logsumexp(1) - math.log(n), 1e-12)
        close(s:effective_sample_size(), share:sum(1):square() / share:square():sum(1), 1e-9)
        if n > 1 then
          local error = (share - share:mean(1, true)):square():sum(1):sqrt() / share:sum(1) * (n / (n - 1)) ^ 0.5
          close(s:standard_error(), error, 1e-9)
        end
        local _, k = infer.psis(far)
        for b = 1, 2 do
          local got, want = s:pareto_k()[b]:item(), k[b]:item()
          assert(got == want or math.abs(got - want) < 1e-9, ("k %.17g and %.17g at %d"):format(got, want, n))
        end
      end
    end
  end)

  it("holds thousands of draws in memory that does not grow", function()
    local s = infer.stream { draws = 5000 }
    local chunk = pn.randn { 50, 100 }
    s:add(chunk)
    collectgarbage()
    collectgarbage()
    local before = pn.memory()
    for _ = 2, 100 do s:add(chunk) end
    assert.equal(before, pn.memory())
    assert.equal(5000, s:count())
    close(s:log_mean(), infer.stream():add(chunk):log_mean(), 1e-12)
  end)

  it("frees its memory when it is closed", function()
    local before = pn.memory()
    do
      local s <close> = infer.stream { draws = 5000 }
      s:add(pn.zeros { 1, 1000 })
      assert.is_true(pn.memory() > before + 1000 * 200 * 8)
      s:close()
      assert.matches("stream: it was closed", message_of(s.count, s))
    end
    assert.matches("stream methods are called with a colon", message_of(infer.stream().add, 1))
  end)

  it("knows weights of 0", function()
    local s = infer.stream():add(pn.tensor { { -math.huge, 0.0 }, { -math.huge, -math.huge } })
    assert.same({ -math.huge, -math.log(2) }, s:log_mean():totable())
    assert.same({ -math.huge, -math.huge }, s:elbo():totable())
    assert.same({ 0, 1 }, s:effective_sample_size():totable())
    s:add(pn.tensor { { 1.0, 1 } })
    close(s:log_mean(), pn.tensor { 1 - math.log(3), math.log((1 + math.exp(1)) / 3) }, 1e-14)
  end)

  it("refuses what it cannot add or tell, and is then as before", function()
    local s = infer.stream { draws = 20 }
    assert.matches("log_mean: the stream must have been given log%-weights, got none", message_of(s.log_mean, s))
    s:add(pn.zeros { 10, 2 })
    assert.matches("weight_spec.lua:%d+: add: log_w must be %[K, 2%] as before, got shape %[3, 4%]",
      message_of(function() s:add(pn.zeros { 3, 4 }) end))
    assert.matches("add: log_w must be a number below %+inf, got NaN at draw 2 of datum 1",
      message_of(s.add, s, pn.tensor { { 0, 0 }, { 0 / 0, 0 } }))
    assert.matches("add: log_w must be %[K, B%], got shape %[2%]", message_of(s.add, s, pn.zeros { 2 }))
    assert.matches("add: log_w must be a tensor, got number", message_of(s.add, s, 1))
    assert.equal(10, s:count())
    s:add(pn.zeros { 11, 2 })
    assert.matches("pareto_k: the stream must have been made for all its draws, got 21 draws for 20",
      message_of(s.pareto_k, s))
    assert.matches("a stream has no method or field 'logmean', did you mean 'log_mean'", message_of(function()
      return s.logmean
    end))
    assert.matches("adding to a stream", message_of(pn.compile(function(w)
      s:add(w)
      return w
    end), pn.zeros { 2, 2 }))
  end)
end)

describe("resampled draws", function()
  it("have the target's moments", function()
    pn.seed(6)
    local q, p = dist.normal(0, 2), dist.normal(1, 0.5)
    local z = q:sample { 20000, 2 }
    local log_w = p:log_prob(z) - q:log_prob(z)
    local n = 20000
    local got = infer.sir(log_w, n, { values = z })
    assert.same({ n, 2 }, got:shape())
    for b = 1, 2 do
      local x = got:select(2, b)
      assert(math.abs(x:mean():item() - 1) < 6 * 0.5 * math.sqrt(1 / n + 4 / n))
      assert(math.abs(((x - 1) ^ 2):mean():item() - 0.25) < 0.03)
    end
    local places = infer.sir(log_w, 3)
    assert.equal("int64", places:dtype())
    assert.same({ 3, 2 }, places:shape())
  end)

  it("come from the generator given, and as often as their weights say", function()
    local w = pn.tensor { { math.log(0.7), -math.huge }, { math.log(0.1), -5 }, { math.log(0.2), -math.huge } }
    local a = infer.sir(w, 4000, { generator = pn.generator(3) })
    local b = infer.sir(w, 4000, { generator = pn.generator(3) })
    assert.same(a:totable(), b:totable())
    for place, share in ipairs { 0.7, 0.1, 0.2 } do
      local got = a:select(2, 1):eq(place - 1):sum():item()
      assert(math.abs(got - 4000 * share) < 6 * math.sqrt(4000 * share * (1 - share)))
    end
    assert.equal(4000, a:select(2, 2):eq(1):sum():item())
  end)

  it("need a weight for each datum", function()
    assert.matches("sir: log_w of datum 2 must not be %-inf throughout",
      message_of(infer.sir, pn.tensor { { 0, -math.huge }, { 1, -math.huge } }, 2))
    assert.matches("sir: n must be at least 1, got 0", message_of(infer.sir, pn.zeros { 2, 2 }, 0))
    assert.matches("sir: values must have shape %[2, 3, ...%], got %[3, 2%]",
      message_of(infer.sir, pn.zeros { 2, 3 }, 1, { values = pn.zeros { 3, 2 } }))
  end)

  it("replay as fresh draws", function()
    local w = pn.randn { 50, 2 }
    pn.seed(7)
    local want = { infer.sir(w, 5):totable(), infer.sir(w, 5):totable() }
    pn.seed(7)
    local compiled = pn.compile(function(x) return infer.sir(x, 5) end)
    assert.same(want, { compiled(w):totable(), compiled(w):totable() })
    local dead = pn.concatenate({ pn.full({ 50, 1 }, -math.huge), pn.zeros { 50, 1 } }, 2)
    assert.matches("sir: log_w of datum 1 must not be %-inf throughout", message_of(compiled, dead))
  end)
end)

describe("expectations by weights", function()
  -- target N(1, 1), proposal N(0, 1.5): E[z^2] = 2; repeated, the errors told are the spread seen
  it("are right within the errors that they tell", function()
    pn.seed(8)
    local q, p = dist.normal(0, 1.5), dist.normal(1, 1)
    local n = 2000
    local z = q:sample { 400, n }
    local log_w = p:log_prob(z) - q:log_prob(z)
    for name, offset in pairs { importance = 0, self_normalised = 3.5 } do
      local mean, err = infer[name](log_w + offset, z ^ 2)
      assert.same({ n }, mean:shape())
      local spread = ((mean - mean:mean()) ^ 2):mean():item() ^ 0.5
      local bias = name == "importance" and 0 or 0.01 -- O(1/K)
      assert(math.abs(mean:mean():item() - 2) < 6 * spread / math.sqrt(n) + bias)
      assert(math.abs(err:mean():item() / spread - 1) < 0.1, name)
    end
  end)

  it("of a datum without weight do not exist, or are 0 where densities are normalised", function()
    local w = pn.tensor { { -math.huge, 0.0 }, { -math.huge, 0.0 } }
    local f = pn.tensor { { { 1.0 }, { 2 } }, { { 3 }, { 4 } } }
    local mean, err = infer.self_normalised(w, f)
    assert(mean:totable()[1][1] ~= mean:totable()[1][1] and err:totable()[1][1] ~= err:totable()[1][1])
    assert.equal(3, mean:totable()[2][1])
    mean = infer.importance(w, f)
    assert.same({ { 0 }, { 3 } }, mean:totable())
    assert.same({ 0, 2 }, infer.effective_sample_size(w):totable())
    assert.same({ { 0, 0.5 }, { 0, 0.5 } }, infer.normalised_weights(w):totable())
  end)

  it("have gradients to the function and the weights", function()
    pn.seed(9)
    local theta = pn.param(pn.tensor(0.3))
    local e = pn.randn { 5, 2 }
    for _, name in ipairs { "importance", "self_normalised" } do
      assert(pn.check_gradients(function()
        return infer[name](e * theta - e ^ 2, e * theta:exp() + theta):sum()
      end, { theta }))
    end
  end)
end)

describe("Pareto's k-hat", function()
  it("finds the shape of tails that are Pareto", function()
    pn.seed(10)
    for _, k in ipairs { 0.2, 0.5, 0.8 } do
      -- weights u^-k - 1 over k: the generalised Pareto distribution of shape k
      local u = pn.rand { 20000, 40 }
      local _, hat = infer.psis(((u ^ -k - 1) / k):log())
      -- 425 draws fit the tail: standard deviation (1 + k) / sqrt(425), 40 times
      local six = 6 * (1 + k) / math.sqrt(425 * 40)
      assert(six < 0.1)
      assert(math.abs(hat:mean():item() - k) < six, ("%.3f for %.1f"):format(hat:mean():item(), k))
    end
  end)

  it("smooths towards the truth where the tail is heavy", function()
    pn.seed(11)
    -- q = exp(1), p = exp(rate 0.6): weights have shape 0.4; E_p[1] and E_p[z]
    local q, p = dist.exponential(1), dist.exponential(0.6)
    local z = q:sample { 200, 3000 }
    local log_w = p:log_prob(z) - q:log_prob(z)
    local smooth, k = infer.psis(log_w)
    close(smooth:logsumexp(1), pn.zeros { 3000 }, 1e-12)
    assert(math.abs(k:mean():item() - 0.4) < 0.1)
    local function miss(w)
      local mean = infer.self_normalised(w, z)
      return ((mean - 1 / 0.6) ^ 2):mean():item()
    end
    assert(miss(smooth) < 0.97 * miss(log_w))
  end)

  it("refuses a relative efficiency that is none", function()
    for _, bad in ipairs { -1, 0, 0 / 0, math.huge } do
      assert.matches("psis: relative_efficiency must be positive, got %-?[%d%a]+",
        message_of(infer.psis, { log_w = pn.randn { 40, 2 }, relative_efficiency = pn.tensor { 1, bad } }))
    end
  end)

  it("is invariant: of scaled weights, in any order, in either dtype", function()
    pn.seed(12)
    local w = pn.randn { 300, 2 } * 2
    local _, k = infer.psis(w)
    close(select(2, infer.psis(w + 50)), k, 1e-10)
    close(select(2, infer.psis(w:take(1, pn.randperm(300)))), k, 1e-12)
    close(select(2, infer.psis(w:to "float32")), k, 1e-3)
    local _, strided = infer.psis(pn.stack({ w:t(), w:t() }, 3):select(3, 1):t())
    close(strided, k, 0)
  end)

  it("has its thresholds and its warning", function()
    assert(math.abs(infer.pareto_k_threshold(100) - 0.5) < 1e-12)
    assert.equal(0.7, infer.pareto_k_threshold(5000))
    assert.is_nil(infer.pareto_warning(pn.tensor { 0.3, 0.69 }, 5000))
    assert.equal("Pareto k-hat is above 0.50 for 1 of 2 data (the largest is 0.60): at least 317 draws are needed",
      infer.pareto_warning(pn.tensor { 0.3, 0.6 }, 100))
    assert.matches("converge too slowly", infer.pareto_warning(pn.tensor { 0.8 }, 5000))
    assert.matches("2 of 2 data %(the largest is inf%): the weights have no mean",
      infer.pareto_warning(pn.tensor { 1.2, math.huge }, 5000))
  end)
end)

describe("annealing", function()
  it("ramps, holds and cycles", function()
    assert.equal(0, infer.anneal(0, { steps = 10 }))
    assert.equal(0.5, infer.anneal(5, { steps = 10 }))
    assert.equal(1, infer.anneal(10, { steps = 10 }))
    assert.equal(0.3, infer.anneal(99, { steps = 10, from = 1, to = 0.3 }))
    assert(math.abs(infer.anneal(3, { steps = 20, cycles = 2 }) - 0.6) < 1e-12)
    assert.equal(1, infer.anneal(7, { steps = 20, cycles = 2 }))
    assert(math.abs(infer.anneal(13, { steps = 20, cycles = 2 }) - 0.6) < 1e-12)
    assert.matches("anneal: steps must be positive", message_of(infer.anneal, 1, { steps = 0 }))
  end)
end)
