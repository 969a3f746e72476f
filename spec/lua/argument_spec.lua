--- Calls with one thing wrong, further in than the sweep of public_spec goes: in lists, options, and what functions of
--- the script give back. Each raises at the script's line, and not in the words of the inside.
local pn = require "penumbra"

local cases = [[
train.fit{data=x, loss=function() end, optimiser=opt, epochs=1}
train.fit{data=x, loss=function() return 3 end, optimiser=opt, epochs=1}
train.fit{data=x, loss=function() return x end, optimiser=opt, epochs=1}
train.fit{data=x, loss=loss, optimiser={}, epochs=1}
train.fit{data=x, loss=loss, optimiser="adam", epochs=1}
train.fit{data=x, loss=loss, optimiser=opt, epochs=1, schedule=function() return "x" end}
train.fit{data=x, loss=loss, optimiser=opt, epochs=1, schedule=function() end}
train.fit{data=x, loss=loss, optimiser=opt, epochs=1, validate=function() return 1 end, model={}}
train.fit{data=x, loss=loss, optimiser=opt, epochs=1, validate=function() return 1 end, model=3}
train.fit{data=x, loss=loss, optimiser=opt, epochs=1, generator=3}
train.fit{data=x, loss=loss, optimiser=opt, epochs=1, batch_size=1.5}
train.fit{data=x, loss=loss, optimiser=opt, epochs=1, progress="x"}
train.fit{data=x, loss=loss, optimiser=opt, epochs=1, validate_every="x"}
train.fit{data=x, loss=loss, optimiser=opt, epochs=1, validate_every=0, validate=function() return 1 end}
train.fit{data=x, loss=loss, optimiser=opt, epochs=1, on_epoch=3}
train.fit{data=x, loss=loss, optimiser=opt, epochs=1, compile=true, schedule=function() return "x" end}
pn.compile(function() end)()
pn.compile(function() return 3 end)()
pn.compile(function(a) return a end, {optimiser=3})(x)
pn.compile(function(a) return a end, {plans="x"})
pn.compile(function(a) return a end, {plans=0/0})
pn.compile(function(a) return a end, {plans=1e300})
nn.sequential{function() end, nn.linear(2, 2)}(x)
nn.sequential{nn.linear(2, 2), function() return 3 end, nn.relu()}(x)
nn.sequential{3}
nn.sequential{nn.linear(2, 2)}:load_state{a=3}
nn.sequential{nn.linear(2, 2)}:mean()
nn.module{}:mean()
nn.module{forward=3}
nn.linear(2.5, 3)
nn.linear(-1, 3)
nn.linear(0/0, 3)
nn.linear(2, 3, {init="x"})
nn.linear(2, 3, {init=3})
nn.linear(2, 3, {generator=3})
nn.initialise("he", {2, "x"})
nn.initialise("he", "x")
nn.initialise("he", {2, 2}, {dtype="int64"})
dist.normal("x", 1)
dist.normal({{1}, {2, 3}}, 1)
dist.normal(d, 1)
dist.normal(0, print)
dist.mixture("x", {d, d})
dist.mixture({1, 2}, {d, 3})
dist.mixture({1, 2}, {d})
dist.mixture_of_experts({d, 3})
dist.mixture_of_experts({d, d}, "x")
dist.mixture_of_experts({d, d}, {1, 2, 3})
dist.mixture_of_experts({d, d}, nil, "x")
dist.mixture_of_experts({d, d}, nil, {1, 2})
dist.transformed(d, 3)
dist.masked(d, 3)
dist.product_of_experts({d, d}, 3)
dist.product_of_experts({d, d}, nil, 3)
dist.natural.masked(d, 3)
dist.natural.tempered(d, d, d)
dist.natural.scalar(3)
dist.natural.scalar("x", {})
dist.geometric_mean({d, d}, {"x", 1})
dist.geometric_mean({d, d}, {0.5, 0.5, 1})
dist.kl_path{drift=x, step="x"}
dist.kl_path{drift=x, step=1, diffusion="x"}
dist.kl_path{drift=x, step=1, diffusion_matrix="x"}
dist.kl_path{drift=x, step=1, diffusion=d}
dist.kl_gaussian_chain({loc={1}, covariance={{1}}, matrix="x", noise={{1}}}, {matrix={{1}}, noise={{1}}}, 2)
dist.kl_gaussian_chain({loc="x", covariance={{1}}, matrix={{1}}, noise={{1}}}, {matrix={{1}}, noise={{1}}}, 2)
dist.kl_gaussian_chain({loc={1}, covariance={{1}}, matrix={{1}}, noise=3}, {matrix={{1}}, noise={{1}}}, 2)
dist.kl_markov_chain({initial="x", transition={{1}}}, {initial={1}, transition={{1}}}, 2)
dist.kl_markov_chain({initial={0.5, 0.5}, transition=3}, {initial={0.5, 0.5}, transition=3}, 2)
dist.kl_gate("x", 1, 1)
dist.kl_gate(0, d, 1)
dist.kl_bernoulli_inverse("x", 1)
dist.kl_bernoulli_inverse(d, 1)
dist.kl_mixture(d, d, {steps="x"})
dist.bijector.random("planar", "x")
dist.bijector.random("planar")
dist.bijector.random("planar", 0/0)
dist.bijector.random("planar", -1)
dist.bijector.random("real_nvp", 4, {hidden=3})
dist.bijector.random("real_nvp", 4, {hidden={"x"}})
dist.bijector.random("real_nvp", 4, {split="x"})
dist.bijector.random("real_nvp", 4, {split=9})
dist.bijector.random("real_nvp", 4, {dtype="x"})
dist.bijector.random("real_nvp", 4, {scale="x"})
dist.bijector.affine(print)
dist.bijector.chain{3}
dist.bijector.inverse(3)
dist.biject_to("interval", "x", 1)
dist.expectation_monte_carlo(d, function() end)
dist.expectation_monte_carlo(d, function() return 3 end)
dist.expectation_monte_carlo(d, function() return pn.tensor(3) end)
dist.kl_monte_carlo(d, d, {draws=2.5})
dist.kl_monte_carlo(d, d, {draws=0/0})
dist.kl_monte_carlo(d, d, {generator=3})
dist.kl_normal_log_uniform(dist.gamma(1, 1))
d:expand("x")
d:expand{0/0}
d:independent("x")
d:independent(9)
d:to("x")
d:log_prob("x")
d:log_prob({"x"})
d:log_prob(print)
d:sample(0/0)
d:sample{-1}
d:sample("x")
d:icdf("x")
data.split(x, {0.5, "x"})
data.split(x, {0.5, 0.9})
data.split(x, 0.5, {generator=3})
data.holdout(x, {"x"})
data.holdout(x, {9})
data.holdout(x, pn.tensor{0.5})
data.batches(x, {batch_size=0.5})
data.batches(x, {batch_size=2, generator=3})()
data.csv(3)
data.csv("no/such/x", {columns={print}})
data.csv("no/such/x", {dtype="x"})
data.csv("no/such/x", {delimiter="xx"})
data.save_csv("no/such/x", 3)
data.save_csv("no/such/x", x, {names={1, 2}})
data.save_npy("no/such/x", 3)
data.save_idx("no/such/x", 3)
data.save_npz("no/such/x", {3})
pn.save("no/such/x", {a=print})
pn.save("no/such/x", {a=x}, {a=print})
pn.save(3, {a=x})
pn.load(3)
plot.line(x, {"a"})
plot.save("no/such/x.svg", {plot.line(x, x), title=3})
plot.save("no/such/x.svg", {plot.line(x, x), x_range={1}})
plot.save("no/such/x.svg", {plot.line(x, x), size={1}})
plot.save("no/such/x.svg", {plot.line(x, x), columns=0})
plot.script(3, "svg", {plot.line(x, x)})
plot.script("x", "gif", {plot.line(x, x)})
plot.script("x", nil, {plot.line(x, x)})
plot.histogram(x, {bins="x"})
plot.histogram({}, {})
plot.histogram(x, {bins=-1})
plot.heatmap(x, {x=3})
plot.heatmap(3)
plot.fan(x, {1})
plot.panel{3}
plot.panel{plot.line(x, x), legend=3}
dist.panel(d, {x_range={1}})
dist.panel(d, {x_range={"a", "b"}})
dist.panel(d, {num_points="x"})
dist.panel(d, {num_points=-1})
dist.panel(d, {num_points=0/0})
dist.panel(d, {labels={3}})
dist.panel{d, 3}
dist.plot(d, 3)
metrics.mixture_log_prob(pn.ones(2), x, "x")
metrics.mixture_quantile(0.5, x, "x")
metrics.mixture_quantile(0.5, pn.ones(2), 1)
metrics.coverage(x, "x")
metrics.coverage(x, d)
metrics.rmse(x, pn.ones(3))
pn.infer.elbo{log_likelihood=3, kl=1, num_data=1}
pn.infer.elbo{log_likelihood=x, kl="x", num_data=10}
pn.infer.elbo{log_likelihood=x, kl=x, num_data=10}
pn.infer.elbo(x, 3)
pn.infer.iwae(3)
pn.optim.adam({w, 3})
pn.optim.adam({w=3})
pn.optim.adam({a=w, [1.5]=w})
pn.optim.adam({[true]=w, [print]=w})
pn.optim.adam(nn.relu())
pn.optim.adam(setmetatable({}, {}))
pn.optim.adam(d)
pn.optim.adam({w}, {betas=3})
pn.optim.adam({w}, {betas={"x", 1}})
pn.optim.adam({w}, {lr="x"})
pn.optim.adam({w}, {lr=0/0})
opt:load_state{3}
opt:load_state("x")
opt:step(3)
opt:apply({3})
pn.optim.warmup(10, function() end)(1)
pn.optim.warmup(10, function() return "x" end)(11)
pn.no_grad(function() return pn.exp("x") end)
pn.check_gradients(function() return x end, {w})
pn.check_gradients(function() return w*1 end, {w}, {step="x"})
pn.check_gradients(function() return (w*1):item() end, {pn.param(1)})
pn.einsum("ij, jk", x, 3)
pn.einsum("ij")
pn.concatenate({x, "x"})
pn.stack{x, "x"}
pn.where(x, "a", "b")
x:take(1, "x")
x[{1, "x"}]
x["x"]
x[1.5]
x[print]
x:reshape("x")
x:reshape{0/0}
x:permute{1, 1}
x:slice(1, "x")
x:select(1)
x:sort("x")
x:topk("x")
x:topk(9)
x:topk(0/0)
x:to("x")
x:set(3)
x + "x"
-x < 3
pn.rand(-1)
pn.rand("x")
pn.rand{2, generator=3}
pn.randint(3, 1, {2})
pn.randint(0/0, 1, {2})
pn.randperm(-1)
pn.arange(0, 1, 0)
pn.linspace(0, 1, -1)
pn.eye(-1)
pn.full({-1}, 1)
pn.threads(0/0)
pn.seed(0.5)
pn.generator("x")
pn.generator(1):split("x")
pn.generator(1):set_state{1}
pn.set_rng_state{1, "x"}
pn.default_dtype("int64")
pn.validate(3)
]]

-- What the cases speak of.
local env = setmetatable({ pn = pn, nn = pn.nn, dist = pn.dist, data = pn.data, train = pn.train, plot = pn.plot,
  metrics = pn.metrics, x = pn.ones { 4, 2 }, w = pn.param(pn.ones(2)), d = pn.dist.normal(0, 1) }, { __index = _G })
env.opt = pn.optim.adam { env.w }
function env.loss(batch) return (batch * env.w):sum() end

describe("a call with one thing wrong", function()
  it("raises at its line and says what", function()
    local count = 0
    for case in cases:gmatch "[^\n]+" do
      local f = assert(load("\nlocal result = " .. case .. "\nreturn result", "=case", "t", env))
      local ok, message = pcall(f)
      local text = not ok and message:match "^case:2: (.*)$"
      assert(text, ("%s: %s"):format(case, ok and "raises nothing" or message))
      for _, sign in ipairs { "attempt to", "bad argument", "nil value", "%.lua:", "%(local", "tail call" } do
        assert(not text:find(sign), ("%s: %s"):format(case, text))
      end
      count = count + 1
    end
    assert.is_true(count > 200)
  end)
end)
