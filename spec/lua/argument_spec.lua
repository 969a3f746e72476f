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

-- Call -> what is said of it; without an arrow it is taken: the value next to one that is not.
local said = [=[
pn.meshgrid(x, v) -> meshgrid: x must be a vector, got 2 axes
pn.meshgrid(v, x) -> meshgrid: y must be a vector, got 2 axes
pn.cross_entropy(v, k) -> cross_entropy: shapes must be logits [N, K] and y [N], got [4] and [4]
pn.cross_entropy(x, x) -> cross_entropy: shapes must be logits [N, K] and y [N], got [4, 2] and [4, 2]
pn.cross_entropy(x, k[{{1, 3}}]) -> cross_entropy: shapes must be logits [N, K] and y [N], got [4, 2] and [3]
nn.recurrent("srn", 2, 2) -> recurrent: kind must be rnn, gru or lstm, got 'srn'
nn.initialise("hee", {2, 2}) -> initialise: there is no initialiser 'hee', did you mean 'he'?
nn.mlp{2} -> mlp: sizes must be a list of at least two, of inputs and of outputs, got 1
nn.mlp{2, 0} -> mlp: sizes[2] must be a whole number from 1 on, got 0
x:roll(1, 3) -> roll: axis must lie in 1 to 2 (or -1 backwards), got 3
x:roll(1, 0) -> roll: axis must lie in 1 to 2 (or -1 backwards), got 0
x:roll(1, -3) -> roll: axis must lie in 1 to 2 (or -1 backwards), got -3
x:roll(1, 1.5) -> roll: axis must lie in 1 to 2 (or -1 backwards), got 1.5
x:roll(1, -2)
plot.confusion(x) -> plot.confusion: counts must be [K, K], got [4, 2]
plot.text({1}, {2}, {"a"}, {label = "x"}) -> plot.text: label must be absent: words stand in no legend
pn.vbp.method "vpb" -> method: there is none called 'vpb', did you mean 'vbp'?
metrics.interval_score(v, v, v, 0) -> interval_score: level must lie between 0 and 1, got 0
metrics.interval_score(v, v, v, 1) -> interval_score: level must lie between 0 and 1, got 1
metrics.ecdf_auc(v, 2) -> ecdf_auc: entropy must lie in 0 to log 2
metrics.ecdf_auc(-v, 3) -> ecdf_auc: entropy must lie in 0 to log 3
metrics.ecdf_auc(pn.ones{0}, 3) -> ecdf_auc: entropy must lie in 0 to log 3
metrics.ecdf_auc(v * math.log(3), 3)
metrics.mean_scaled_interval_score(v, v, v, v, {season = 4})
  -> mean_scaled_interval_score: history must be longer than a season of 4 steps, got [4]
metrics.mean_scaled_interval_score(v, v, v, v, {season = 3})
metrics.wasserstein_1d(v, pn.ones{0})
  -> wasserstein_1d: x and y must be [..., N] and [..., M] of at least one number, got [4] and [0]
metrics.r_squared(x, x[1]) -> r_squared: y and prediction must have one shape, got [4, 2] and [2]
metrics.rmse(x, x[1]) -> rmse: y and prediction must have one shape, got [4, 2] and [2]
metrics.mixture_cdf(v, x[1], 1) -> mixture_cdf: loc must have shape [S, N], got [2]
metrics.mixture_cdf(x, x, 1) -> mixture_cdf: shapes must be y [N] and loc [S, N], got [4, 2] and [4, 2]
metrics.mixture_cdf(v, x, 1) -> mixture_cdf: shapes must be y [N] and loc [S, N], got [4] and [4, 2]
metrics.mixture_log_prob(x[1], x, v)
  -> mixture_log_prob: scale must be a number or broadcast to loc's shape [4, 2], got [4]
metrics.mixture_log_prob(x[1], x, x[1])
metrics.mixture_log_prob(x[1], x, v:unsqueeze(2))
metrics.mixture_quantile(1, x, 1) -> mixture_quantile: p must lie between 0 and 1, got 1
metrics.mixture_quantile(0, x, 1) -> mixture_quantile: p must lie between 0 and 1, got 0
metrics.mixture_quantile("x", x, 1) -> mixture_quantile: p must lie between 0 and 1, got x
metrics.coverage(v, 1) -> coverage: level must lie between 0 and 1, got 1
metrics.coverage(v, 0) -> coverage: level must lie between 0 and 1, got 0
metrics.energy_score(v, pn.ones{3, 4}) -> energy_score: y must have shape [N, D], got [4]
metrics.crps(x, pn.ones{1, 4, 2})
  -> crps: draws must be at least 2 draws shaped like y, [S, ...], got [1, 4, 2] for y [4, 2]
metrics.crps(x, pn.ones{3, 2, 4})
  -> crps: draws must be at least 2 draws shaped like y, [S, ...], got [3, 2, 4] for y [4, 2]
metrics.crps(x, v) -> crps: draws must be at least 2 draws shaped like y, [S, ...], got [4] for y [4, 2]
metrics.crps(x, pn.ones{2, 4, 2})
metrics.kernel_log_density(v, pn.randn{3, 4}, {bandwidth = 0}) -> kernel_log_density: bandwidth must be positive, got 0
metrics.kernel_log_density(v, pn.randn{3, 4}, {bandwidth = inf})
  -> kernel_log_density: bandwidth must be positive, got inf
metrics.kernel_log_density(v, pn.ones{3, 4}) -> kernel_log_density: all draws of a number are equal: give a bandwidth
metrics.quantiles(x, {}) -> quantiles: levels must be at least one number
metrics.quantiles(x, {0.5, 1}) -> quantiles: levels must lie between 0 and 1, got 1 at 2
metrics.quantiles(x, {0, 0.5}) -> quantiles: levels must lie between 0 and 1, got 0 at 1
metrics.quantiles(x, {"x"}) -> quantiles: levels must lie between 0 and 1, got x at 1
metrics.quantiles(pn.ones{0, 2}, {0.5}) -> quantiles: draws must be [S, ...] with at least one draw, got [0, 2]
metrics.quantiles(pn.ones{}, {0.5}) -> quantiles: draws must be [S, ...] with at least one draw, got []
metrics.quantile_loss(v, x, {0.5})
  -> quantile_loss: quantiles must have shape [1, 4], one of y's for each of 1 levels, got [4, 2]
metrics.crps_normal(v, x, 1) -> crps_normal: loc must broadcast to y's shape [4], got [4, 2]
metrics.crps_normal(v, 1, x[1]) -> crps_normal: scale must broadcast to y's shape [4], got [2]
metrics.normalised_crps(v / 0 * 0, pn.ones{3, 4}) -> normalised_crps: y is NaN throughout: nothing was observed
metrics.interval_coverage(v, v, x) -> interval_coverage: y and high must have one shape, got [4] and [4, 2]
metrics.interval_coverage(v, x, v) -> interval_coverage: y and low must have one shape, got [4] and [4, 2]
metrics.roc(k, x) -> roc: shapes must be y [N] and score [N], got [4] and [4, 2]
metrics.roc(k, pn.ones{3}) -> roc: shapes must be y [N] and score [N], got [4] and [3]
metrics.roc(k * 2, v) -> roc: y must be 0 or 1, and have both
metrics.roc(k - 1, v) -> roc: y must be 0 or 1, and have both
metrics.auc(k * 2, v) -> auc: y must be 0 or 1, and score no NaN
metrics.auc(k, v / 0 * 0) -> auc: y must be 0 or 1, and score no NaN
metrics.auc(k * 0, v) -> auc: y must have both classes
metrics.auc(k * 0 + 1, v) -> auc: y must have both classes
metrics.auc(k, x) -> auc: y and score must have one shape [N], got [4] and [4, 2]
metrics.brier(k, pn.ones{4, 2} / 3) -> brier: probs must be probabilities, which add up to 1 along the last axis
metrics.brier(k * 2, pn.ones{4, 2} / 2) -> brier: y must lie in 0 to 1, got 0 to 2
metrics.brier(k - 1, pn.ones{4, 2} / 2) -> brier: y must lie in 0 to 1, got -1 to 0
metrics.brier(v * 0.5, pn.ones{4, 2} / 2) -> brier: y must be classes, whole numbers from 0 on, got float64 with others
metrics.brier(k, pn.ones{3, 2} / 2) -> brier: shapes must be y [N] and probs [N, K] or [S, N, K], got [4] and [3, 2]
metrics.accuracy(k, k - 1) -> accuracy: predicted classes must be whole numbers from 0 on, got -1
x:roll(0.5, 1) -> roll: shift must be a whole number, got 0.5
x:tile({2, 2}, 1) -> tile: axis must be absent where times is a list
x:flatten(2, 1) -> flatten: first must not lie behind last, got 2 and 1
x:flatten(2, 2)
x:repeat_interleave({1, 2, 3}, 1) -> repeat_interleave: times must be a number or a list of 4 as axis 1, got 3
pn.cross_entropy(x, v * 0.5) -> cross_entropy: y must be classes, whole numbers from 0, got float64 with others
pn.cross_entropy(x, k, {weights = pn.ones{3}})
  -> cross_entropy: weights must have shape [2], one for each class, got [3]
pn.cross_entropy(x, k, {weights = x}) -> cross_entropy: weights must have shape [2], one for each class, got [4, 2]
x:norm{p = nan} -> norm: p must be a number, got nan
pn.block_diag{x, v} -> block_diag: element 2 must be a matrix, got [4]
pn.block_diag{} -> block_diag: list must hold at least one matrix
x:matrix_rank{rtol = -1} -> matrix_rank: rtol must be a number from 0 on, got -1
pn.lstsq(x, pn.ones{3}) -> lstsq: b must be [..., 4, k] or [4] as the rows of a, got [3]
pn.lstsq(x, pn.ones{}) -> lstsq: b must be [..., 4, k] or [4] as the rows of a, got []
pn.lstsq(x, pn.ones{3, 4}) -> lstsq: b must be [..., 4, k] or [4] as the rows of a, got [3, 4]
(v * 0.5):bincount() -> bincount: x must be whole numbers, got float64
v:ge(0):bincount() -> bincount: x must be whole numbers, got bool
(k - 1):bincount() -> bincount: x must not be negative, got -1
k:bincount{weights = pn.ones{3}} -> bincount: weights must be [4] as x, got [3]
k:bincount{weights = x} -> bincount: weights must be [4] as x, got [4, 2]
v:bincount()
v:histogram{bins = {1}} -> histogram: bins must be at least 2 edges, got 1
v:histogram{bins = {1, 2}}
v:histogram{range = {2, 1}} -> histogram: range must be two finite numbers that rise, got 2 and 1
v:histogram{range = {0, inf}} -> histogram: range must be two finite numbers that rise, got 0 and inf
v:histogram{range = {1, 1}}
v:histogram{weights = pn.ones{3}} -> histogram: weights must be of the 4 elements of x, got 3
pn.fftfreq(0) -> fftfreq: n must be a whole number from 1, got 0
pn.fftfreq(2.5) -> fftfreq: n must be a whole number from 1, got 2.5
pn.trapezoid(v, pn.ones{3}) -> trapezoid: x must be [4] as axis 1 of y, got [3]
inv.linear_model{x = x, y = v, noise_variance = 1} -> linear_model: x must have one axis, got [4, 2]
inv.linear_model{x = v, size = 4, y = v, noise_variance = 1}
  -> linear_model: x must have one axis and takes the place of size, got [4]
inv.linear_model{x = v * 0, y = v, noise_variance = 1}
  -> linear_model: x must not be zero: the data would say nothing about the weights
inv.linear_model{size = 2, noise_variance = 1} -> linear_model: option 'y' is required
inv.linear_model{size = 2, y = x, noise_variance = 1} -> linear_model: y must have one axis, got [4, 2]
inv.linear_model{size = 2, y = pn.ones{0}, noise_variance = 1} -> linear_model: y must have one axis, got [0]
inv.linear_model{size = 2, y = v, noise_variance = 0} -> linear_model: noise_variance must be positive, got 0
inv.linear_model{size = 2, y = v, noise_variance = inf} -> linear_model: noise_variance must be positive, got inf
inv.linear_model{size = 2, y = v, noise_variance = 1, scale = 0}
  -> linear_model: scale must be a finite number other than 0, got 0
inv.linear_model{size = 2, y = v, noise_variance = 1, scale = -inf}
  -> linear_model: scale must be a finite number other than 0, got -inf
inv.linear_model{size = 2, y = v, noise_variance = 1, prior_variance = {1, 0}}
  -> linear_model: prior_variance must be positive
linear:approximation{variance = 1} -> approximation: option 'loc' is required
linear:approximation{loc = 1} -> approximation: exactly one of variance and covariance must be given
linear:approximation{loc = 1, variance = 1, covariance = {{1, 0}, {0, 1}}}
  -> approximation: exactly one of variance and covariance must be given
linear:approximation{loc = 1, covariance = {{1, 0}}} -> approximation: covariance must have shape [2, 2], got [1, 2]
linear:approximation{loc = 1, covariance = {{1}, {0}}} -> approximation: covariance must have shape [2, 2], got [2, 1]
linear:approximation{loc = 1, covariance = {1, 2}} -> approximation: covariance must have shape [2, 2], got [2]
linear:approximation{loc = 1, variance = 1}:finite(0)
  -> finite: beta must be positive and finite, got 0 (q_mix is the limit)
linear:approximation{loc = 1, variance = 1}:finite(inf)
  -> finite: beta must be positive and finite, got inf (q_mix is the limit)
linear:approximation{loc = 1, variance = 1}:finite(1, {pivot = 3}) -> finite: pivot must be at most 2, got 3
linear:approximation{loc = 1, variance = 1}:finite(1, {pivot = 2})
linear:approximation{loc = 1, variance = 1}:finite(1, {pivot = -2})
linear:posterior():kl(3) -> kl: p must be a law of the 2 weights, got number
linear:posterior():log_prob(pn.ones{3}) -> log_prob: w must have a last axis of 2 weights as float64, got [3] of float64
data.split(x, {}) -> split: fractions must be a number or a list of numbers, got table
data.split(x, {0.5, 1.5}) -> split: fractions must lie in 0 to 1, got 1.5
data.split(x, {-0.1}) -> split: fractions must lie in 0 to 1, got -0.1
data.split(x, {0.6, 0.6}) -> split: fractions must add up to at most 1, got 1.2
data.split(x, {0.5, 0.5})
data.split({x, pn.ones{3}}, 0.5) -> split: all tensors must have the same number of rows, got 4 and 3
data.split({x, 3}, 0.5) -> split: data[2] must be a tensor, got number
data.split(pn.ones{}, 0.5) -> split: data[1] must have rows, got a tensor without axes
data.split({}, 0.5) -> split: data must be a tensor or a list of tensors, got an empty list
data.holdout(x, 3) -> holdout: index must be a list or a tensor of row numbers, got number
data.holdout(x, {4}) -> holdout: row numbers must lie in 0 to 3, got 4
data.holdout(x, {-1}) -> holdout: row numbers must lie in 0 to 3, got -1
data.holdout(x, {0, 3})
data.standardise(pn.ones{0, 2}) -> standardise: x must be a tensor with rows
data.standardise(pn.ones{}) -> standardise: x must be a tensor with rows
data.resize(v, 2, 2) -> resize: x must be a float tensor [..., height, width]
data.resize(pn.ones{0, 2}, 2, 2) -> resize: x has no pixels
data.resize(x, 0, 2) -> resize: height must be a whole number from 1 on, got 0
data.resize(x, 2, 0) -> resize: width must be a whole number from 1 on, got 0
nn.linear(2, 3, true, 5, 7, 9, 11, 13) -> linear: takes at most 5 numbers and settings, got 8
nn.linear(2, 3, {bias = true}, true) -> linear: settings by name stand last, got a table before others
nn.linear(2, 3, true, {bias = true}) -> linear: bias is given by position and by name
nn.concat{} -> concat: needs a list of networks, as in nn.concat{nn.linear(3, 2), pn.tanh}
nn.concat({pn.tanh}, 1.5) -> concat: axis must be a whole number, got 1.5
nn.sequential{a = pn.tanh} -> sequential: layers are listed without names, got 'a'
nn.sequential{pn.tanh, 3} -> sequential: layer 2 must be a layer or a function, got number
nn.sequential(3) -> sequential: needs a list of layers, as in nn.sequential{nn.linear(2, 3), nn.relu()}
nn.module{forward = function() end, parameters = 3}
  -> module: 'parameters' is a method of every network and cannot be a field
nn.module{kl = 3} -> module: 'kl' is a method of every network and must be a function, got number
pac.bound("maurer", {risk = 1.1, kl = 1, n = 10, delta = 0.1})
  -> bound: risk must lie in 0 to 1: a bound holds for losses in [0, 1] only
pac.bound("maurer", {risk = -0.1, kl = 1, n = 10, delta = 0.1})
  -> bound: risk must lie in 0 to 1: a bound holds for losses in [0, 1] only
pac.bound("maurer", {risk = 1, kl = 0, n = 10, delta = 0.1})
pac.bound("maurer", {risk = 0.1, kl = -1, n = 10, delta = 0.1}) -> bound: kl must not be negative, and a number
pac.bound("maurer", {risk = 0.1, kl = 1, n = 10, delta = 1}) -> bound: delta must lie strictly between 0 and 1, got 1
pac.bound("maurer", {risk = 0.1, kl = 1, n = 10, delta = 0}) -> bound: delta must lie strictly between 0 and 1, got 0
pac.bound("lambda", {risk = 0.1, kl = 1, n = 10, delta = 0.1, lambda = 2})
  -> bound: lambda must lie between 0 and 2, got 2
pac.bound("lambda", {risk = 0.1, kl = 1, n = 10, delta = 0.1, lambda = 0})
  -> bound: lambda must lie between 0 and 2, got 0
pac.bound("catoni", {risk = 0.1, kl = 1, n = 10, delta = 0.1, lambda = {}})
  -> bound: lambda must be a number or a list of at least one
pac.bound("catoni", {risk = 0.1, kl = 1, n = 10, delta = 0.1, lambda = {1, 700}})
  -> bound: lambda must lie between 0 and 700, got 700
pac.bound("germain", {risk = 0.1, kl = 1, n = 10, delta = 0.1, log_constant = "x"})
  -> bound: log_constant must be a number, got string
pac.bound("empirical_bernstein", {risk = 0.1, kl = 1, n = 10, delta = 0.1, ratio = 1})
  -> bound: ratio must be above 1, got 1
pac.bound("empirical_bernstein", {risk = 0.1, kl = 1, n = 10, delta = 0.1, variance_ratio = inf})
  -> bound: variance_ratio must be above 1, got inf
pac.bound("draws", {risk = 2, draws = 10, delta = 0.1}) -> bound: risk must lie in 0 to 1
pac.bound("draws", {risk = {0.5, -1}, draws = 10, delta = 0.1}) -> bound: risk must lie in 0 to 1
pac.bound("draws", {risk = 0.5, draws = 10, delta = 1}) -> bound: delta must lie strictly between 0 and 1, got 1
pac.bound("draws", {risk = 1, draws = 10, delta = 0.1})
pac.split({x, v}, {split = 0}) -> split: split must leave rows on both sides, got 0 of 4 rows
pac.split({x, v}, {split = 1}) -> split: split must leave rows on both sides, got 1 of 4 rows
pac.split({x, v}, {split = 0.75})
pac.split({x, pn.ones{3}}) -> split: data must be a list {x, y} of tensors with as many rows each, at least one
pac.split({x}) -> split: data must be a list {x, y} of tensors with as many rows each, at least one
pac.split({pn.ones{0}, pn.ones{0}}) -> split: data must be a list {x, y} of tensors with as many rows each, at least one
pac.split({pn.ones{}, pn.ones{}}) -> split: data must be a list {x, y} of tensors with as many rows each, at least one
pn.optim.adam{v} -> adam: parameter 1 must be made by param, got another tensor
pn.optim.adam{a = v} -> adam: parameters: 'a' must be a parameter (pn.param), got a plain tensor
pn.optim.adam{w, 3} -> adam: parameters: '2' must be a tensor, a network or a list, got number
pn.optim.adam(v) -> adam: parameters must be a list of tensors, got one tensor (write {w})
pn.optim.adam(3) -> adam: parameters must be a list of tensors or a network, got number
pn.optim.plateau(1, {factor = 1}) -> plateau: factor must lie in (0, 1), got 1
pn.optim.plateau(1, {factor = 0}) -> plateau: factor must lie in (0, 1), got 0
pn.optim.plateau(1, {patience = -1}) -> plateau: patience must be a whole number from 0 on, got -1
pn.optim.plateau(1, {cooldown = 0.5}) -> plateau: cooldown must be a whole number from 0 on, got 0.5
pn.optim.plateau(1, {patience = 0, cooldown = 0})
pn.optim.lbfgs({w}, {history = 0}) -> lbfgs: history must be a whole number from 1 on, got 0
pn.optim.lbfgs({w}, {history = 1, max_steps = 1})
active.core_set(k, 1) -> core_set: x must be features, floats [N, ...], got int64 [4]
active.core_set(pn.ones{}, 1) -> core_set: x must be features, floats [N, ...], got float64 []
active.core_set(x / 0, 1) -> core_set: x must be finite
active.core_set(x, 1, {labelled = pn.ones{2, 3}})
  -> core_set: labelled must be float64 features, 2 a row, as x is, got float64, 3
active.returns(k) -> returns: rewards must be floats [..., T], got int64 [4]
active.returns(pn.ones{}) -> returns: rewards must be floats [..., T], got float64 []
active.returns(v, {gamma = 1.5}) -> returns: gamma must lie in 0 to 1, got 1.5
active.returns(v, {gamma = -0.5}) -> returns: gamma must lie in 0 to 1, got -0.5
active.returns(v, {gamma = 0})
active.returns(v, {gamma = 1})
active.policy_loss(v, x) -> policy_loss: returns must have the shape of log_prob, [4], got [4, 2]
active.bald(x) -> bald: draws must be probabilities [draws, N, classes], got float64 [4, 2]
active.bald(pn.ones{0, 4, 2}) -> bald: draws must hold at least 1 draw, got 0
active.bald(pn.ones{1, 4, 2} * 1.5) -> bald: draws must lie between 0 and 1, got 1.5 to 1.5
active.bald_moments(x, v) -> bald_moments: mean and variance must have one shape [..., classes], got [4, 2] and [4]
active.bald_moments(x, -x) -> bald_moments: variance must not be negative, got -1
active.batch_bald(pn.ones{3, 4, 2}, 1)
  -> batch_bald: draws must be probabilities that sum to 1 over the classes, got a least of 1 and sums off by 1
active.batch_bald(x, 1) -> batch_bald: draws must be probabilities [draws, N, classes], got float64 [4, 2]
active.top(x, 1) -> top: scores must be [N], got [4, 2]
active.top(v / 0 * 0, 1) -> top: scores must be numbers, got NaN
active.top(v, 0)
continual.top(x, 1) -> top: scores must have one axis, got shape [4, 2]
continual.top({1, nan}, 1) -> top: scores must be numbers, got nan at place 1
continual.k_center(x, 2, {first = 4}) -> k_center: first must be below the number of data, 4, got 4
continual.k_center(x, 2, {first = 3})
continual.k_center(pn.ones{0, 2}, 2) -> k_center: x must have data along its first axis
continual.bayesian_forgetting{rate = 0.1}:memory_weight(-1)
  -> memory_weight: bayesian_forgetting: age must be a number from 0 on, or a tensor of them, got -1
continual.bayesian_forgetting{rate = 0.1}:memory_weight(inf)
  -> memory_weight: bayesian_forgetting: age must be a number from 0 on, or a tensor of them, got inf
continual.bayesian_forgetting{rate = 0.1}:memory_weight(pn.tensor{1, -1})
  -> memory_weight: bayesian_forgetting: age must be 0 or more everywhere, got -1
continual.bayesian_forgetting{rate = 0.1}:memory_weight(pn.tensor{1, 0})
continual.bayesian_forgetting{rate = 0.1}:memory_weight(0)
continual.sites(net, x, v, {likelihood = "normal"}) -> sites: posterior must be given for a network without one
continual.sites(bayes, x, v, {likelihood = "normal", noise_scale = 1, weights = {1, 2}})
  -> sites: weights must have shape [4], got [2]
continual.sites(bayes, x, v, {likelihood = "normal", antithetic = 3})
  -> sites: antithetic must be true, false or "where_possible", got 3
continual.sites(bayes, x, v, {likelihood = "normal", budget = 0})
  -> sites: budget must be a whole number from 1 on, got 0
continual.sites(bayes, x, v, {likelihood = "normal", noise_scale = 1, rows = {4}})
  -> sites: rows must be places from 0 to 3, got 4 to 4
continual.sites(bayes, x, v, {likelihood = "normal", noise_scale = 1, rows = {-1}})
  -> sites: rows must be places from 0 to 3, got -1 to -1
continual.sites(bayes, x, v, {likelihood = "normal", noise_scale = 1, rows = {}})
  -> sites: rows must be places of data, int64 [M] with M > 0, got int64 [0]
continual.sites(bayes, x, v, {likelihood = "normal", noise_scale = 1, rows = v})
  -> sites: rows must be places of data, int64 [M] with M > 0, got float64 [4]
continual.sites(bayes, x, v, {likelihood = "normal", noise_scale = 1, rows = {0, 3}, draws = 1})
continual.sites(bayes, x:to "float32", v, {likelihood = "normal"})
  -> sites: x must be float64, as the network is, got float32
continual.sites(bayes, pn.ones{4, 3}, v, {likelihood = "normal"})
  -> sites: x must have shape [N, 2] with N > 0, got [4, 3]
continual.sites(bayes, pn.ones{0, 2}, v, {likelihood = "normal"})
  -> sites: x must have shape [N, 2] with N > 0, got [0, 2]
pn.check_gradients(idle, {}) -> check_gradients: params must be a list of at least 1 parameter
pn.check_gradients(idle, {w, 3}) -> check_gradients: params[2] must be a parameter (pn.param), got number
pn.check_gradients(idle, {v}) -> check_gradients: params[1] must be a parameter (pn.param), got another tensor
pn.check_gradients(idle, {w}, {order = 3}) -> check_gradients: order must be 1 or 2, got 3
pn.check_gradients(idle, {w}, {step = 0}) -> check_gradients: step must be positive, got 0
pn.hessian(pn.exp, v) -> hessian: f must give one element, got shape [4]
pn.jvp(pn.exp, v, x) -> jvp: tangents must have shape [4], got [4, 2]
pn.jacobian(pn.exp, {}) -> jacobian: inputs must be a tensor or a list of tensors, got an empty list
pn.vmap(pn.exp)() -> vmap: there must be at least one tensor
pn.vmap(pn.exp, {in_axes = {1.5}})(x) -> vmap: in_axes[1] must be an axis or false, got 1.5
pn.vmap(pn.exp, {in_axes = {3}})(x) -> vmap: argument 1 must have axis 3 of examples, got shape [4, 2]
pn.vmap(pn.exp, {in_axes = {-3}})(x) -> vmap: argument 1 must have axis -3 of examples, got shape [4, 2]
pn.vmap(pn.exp, {in_axes = {-2}})(x)
pn.brownian{seed = 1, shape = {2}, tolerance = 0} -> brownian: tolerance must be positive, got 0
pn.brownian{seed = 1, shape = {2}, start = inf} -> brownian: start must be a finite number, got inf
pn.brownian{seed = 1, shape = {2}, start = 1}:increment(0.5, 2)
  -> brownian:increment: the path begins at 1, got s = 0.5 and t = 2
pn.brownian{seed = 1, shape = {2}, start = 1}:increment(2, 0.5)
  -> brownian:increment: the path begins at 1, got s = 2 and t = 0.5
pn.brownian{seed = 1, shape = {2}, start = 1}:increment(1, 2)
plot.images(x) -> plot.images: x must be [n, rows, columns], got [4, 2]
plot.images(pn.ones{0, 2, 2}) -> plot.images: x must be [n, rows, columns], got [0, 2, 2]
plot.images(pn.ones{1, 2, 2}, {range = {1, 1}}) -> plot.images: range must be {low, high}
plot.images(pn.ones{1, 2, 2}, {range = {"x", 1}}) -> plot.images: range must be {low, high}
plot.images(pn.ones{1, 2, 2}, {columns = 0}) -> plot.images: columns must be a whole number from 1 on, got 0
plot.images(pn.ones{1, 2, 2}, {gap = -1}) -> plot.images: gap must be a whole number from 0 on, got -1
plot.fan_chart{draws = pn.ones{0, 3}} -> fan_chart: draws must have shape [S, T], got [0, 3]
plot.fan_chart{draws = v} -> fan_chart: draws must have shape [S, T], got [4]
plot.fan_chart{draws = pn.ones{1, 3}}
plot.fan_chart{mean = v} -> fan_chart: variance must be given beside mean
plot.fan_chart{mean = v, variance = pn.ones{3}} -> fan_chart: variance must have shape [4], got [3]
plot.fan_chart{draws = x, mean = v} -> fan_chart: either draws or mean and variance must be given
plot.line({1, 2}, {1}) -> plot.line: y must have 2 values as x has, got 1
plot.line({1, 2}, {1, 2}, {colour = "#2f6db"}) -> plot.line: colour must be like '#2f6db3', got '#2f6db'
plot.line({1, 2}, {1, 2}, {colour = "#2f6db3"})
plot.histogram{nan} -> plot.histogram: values must hold a finite number
plot.heatmap{{1, 2}, {1}} -> plot.heatmap: rows of matrix must be equally long, got 2 and 1
plot.heatmap{1, 2} -> plot.heatmap: matrix must have 2 axes, got 1
plot.fan({1, 2}, {{1, 2}}) -> plot.fan: quantiles must be at least 2 curves, got 1
plot.fan({1, 2}, {{1, 2}, {3, 4}})
plot.contours{{1, 2}} -> plot.contours: matrix must have 2 rows and 2 columns at least, got [1, 2]
plot.contours{{1}, {2}} -> plot.contours: matrix must have 2 rows and 2 columns at least, got [2, 1]
]=]

-- What the cases speak of.
local env = setmetatable({ pn = pn, nn = pn.nn, dist = pn.dist, data = pn.data, train = pn.train, plot = pn.plot,
  metrics = pn.metrics, inv = pn.invariance, pac = pn.pac,
  active = pn.active, continual = pn.continual, net = pn.nn.linear(2, 1),
  bayes = pn.nn.bayesian(pn.nn.linear(2, 1)), idle = function() end, nan = 0 / 0, inf = math.huge,
  x = pn.ones { 4, 2 }, v = pn.ones(4),
  k = pn.tensor({ 0, 1, 1, 0 }, { dtype = "int64" }), w = pn.param(pn.ones(2)),
  d = pn.dist.normal(0, 1) }, { __index = _G })
env.linear = pn.invariance.linear_model { size = 2, y = pn.ones { 3 }, noise_variance = 0.1 }
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

  it("says what it must be and what it is, and takes what is next to it", function()
    for line in said:gsub("\n%s+%->", " ->"):gmatch "[^\n]+" do
      local case, message = line:match "^(.-) %-> (.*)$"
      local ok, got = pcall(assert(load("\nlocal result = " .. (case or line) .. "\nreturn result", "=case", "t", env)))
      if message then
        assert.equal(message, not ok and got:match "^case:2: (.*)$" or got, case)
      else
assert(ok, got)
      end
    end
  end)
end)
