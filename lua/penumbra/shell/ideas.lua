--- Ideas that lead to places: what people look for by a word that is the name of nothing here, what is not there, and
--- tasks with their calls. help"tasks" prints the tasks.
-- help: nowhere
local ideas = {}

-- Words of an idea before the bar, what help says of it after; a place to look at is the last word in brackets.
local text = [[
absent value, missing value, missing data, imputation | NaN in data that may be missing is missing: dist.masked(d,
  mask) in a model, observed = of filters, m:impute of autoencoders [pn.dist.masked]
active learning, query, acquisition function | what to label next: pn.active.pool, core sets, BatchBALD [active]
adam, sgd, optimizer, optimiser | pn.optim.adam(net, {lr = 1e-3}), then opt:step(loss) [optim]
amp, mixed precision, half, float16, bfloat16 | not there: float32 and float64 are [pn.default_dtype]
anomaly, outlier, out of distribution | metrics.ood, p:loo's k-hat of each observation [pn.metrics.ood]
arima, structural time series, trend, seasonality | pn.smc.structural: level, trend, seasonal and regression
  components [penumbra.smc.structural]
attention, self attention, multihead | pn.nn.multi_head_attention(size, heads) [pn.nn.multi_head_attention]
autograd, gradient, backprop, derivative | pn.grad(loss, {w}), loss:backward(), pn.jacobian, pn.hessian, pn.vjp,
  pn.jvp [pn.grad]
automatic relevance determination, ard, sparsity, shrinkage | dist.horseshoe, infer.evidence_fixed_point
  [pn.dist.horseshoe]
batch, minibatch, dataloader, data loader, loader | pn.data.batches(data, {batch_size = 64}); in a model m:plate(name,
  n, {batch_size = 64}, f) [pn.data.batches]
bayes factor, marginal likelihood, evidence | log evidence by pn.smc.sample, nested sampling, a Laplace
  approximation, importance weights of a fit [penumbra.smc.tempering]
bayesian neural network, bnn | nn.bayes_linear and infer.elbo, or m:network(name, net, prior) in a model
  [pn.nn.bayes_linear]
calibration, calibrated, coverage | pn.calibration(y, draws), metrics.ece, plot.calibration_curve, pn.sbc of samplers
  [pn.calibration]
categorical variable, dummy, one hot, onehot | pn.one_hot(labels, k) [pn.one_hot]
causal, intervention, do calculus | model:intervene{x = value} [model:intervene]
censoring, censored data, survival, time to event | dist.censored(d, low, high): limits for each row
  [pn.dist.censored]
checkpoint, resume, interrupt | pn.checkpoint.save, pn.train.fit{checkpoint =, resume =} [checkpoint]
class weights, imbalance, weighted loss, label smoothing | pn.cross_entropy(logits, y, {weights =
  pn.data.class_weights(y), ignore =, smoothing =}) [pn.cross_entropy]
classification, classifier, softmax | pn.cross_entropy(logits, y), dist.categorical{logits = f}; metrics.accuracy, f1,
  auc, confusion [pn.cross_entropy]
clustering, kmeans, mixture model, gmm | pn.models.gaussian_mixture; in a model dist.mixture, or labels by
  m:sample(name, d, {enumerate = true}) and p:labels() [pn.models.gaussian_mixture]
cnn, convolution, convolutional | nn.conv2d(in, out, kernel), nn.max_pool2d(2), nn.flatten() [pn.nn.conv2d]
compile, jit, trace, torchscript | pn.compile(f, {optimiser = opt}) [pn.compile]
confidence interval, credible interval, hdi, quantile | print(p) has quantiles; p:plot(path, {kind = "forest"});
  metrics.quantiles [p:summary]
confusion matrix, precision, recall, f1 score | metrics.confusion(y, probs), metrics.f1; plot.confusion
  [pn.metrics.confusion]
continual learning, catastrophic forgetting, online learning | learners that keep what they know [continual]
convergence, diagnostics, rhat, r-hat, effective sample size, ess, divergence of chains | print(p): R-hat,
  effective sample sizes and warnings; p:plot(path, {kind = "rank"}); of your own draws pn.infer.summary{theta = draws};
  pn.diagnose for models [p:summary]
count data, counts, overdispersion | dist.poisson, gamma_poisson, negative_binomial, hurdle, zero_inflated
  [pn.dist.hurdle]
cross validation, kfold, k-fold | pn.k_fold(model, {data =, folds =}); p:loo() without fitting again
  [pn.k_fold]
ctc, speech recognition, alignment | pn.ctc_loss(log_p, labels, {lengths =, label_lengths =}) [pn.ctc_loss]
csv, dataframe, pandas, read file, excel | pn.data.csv(path) [pn.data.csv]
cuda, gpu, device, mps, tpu | not there: Penumbra runs on processors, in threads (pn.threads) [pn.threads]
debug, nan, nans, inf, not finite | pn.diagnose(model) for models; a training step that meets NaN says which operation
  made it [pn.diagnose]
determinism, reproducible, random seed, seed | pn.seed(n); draws do not depend on the number of threads [pn.seed]
differential equation, ode, neural ode, odeint | pn.odeint(f, y0, times) [pn.odeint]
discrete latent, enumerate, enumeration, marginalize, marginalise | m:sample(name, d, {enumerate = true}) sums it out,
  in m:scan step by step; p:labels() has its posterior [m:sample]
early stopping, patience, overfitting | pn.train.fit{validate =, patience =} [pn.train.fit]
embedding, word vectors | nn.embedding(count, size) [pn.nn.embedding]
ensemble, stacking, model averaging | pn.compare{a, b}: weights by stacking and pseudo-BMA [pn.compare]
export, onnx, deployment | safetensors in PyTorch's layout: net:state{layout = "torch"}; a C host embeds the runtime
  [penumbra.nn.torch_layout]
sensor fusion, combine experts | products and mixtures of beliefs [fusion]
fft, fourier, spectrum | x:rfft(axis), fft, ifft, irfft, pn.fftfreq, pn.fftconvolve: complex numbers end in an axis
  of 2 [pn.fft]
forecast, forecasting, time series | pn.models.deepar, deep_state, pn.smc.structural [penumbra.models.forecaster]
gan, adversarial | not there as a model; two optimisers and two losses make one [pn.optim.adam]
gaussian process, gp, kriging, kernel | a multivariate normal with a covariance matrix of yours:
  examples/08_gaussian_process.lua [pn.dist.multivariate_normal]
gibbs, metropolis, mcmc, hmc, nuts, sampling, sampler | pn.nuts(model, {data =}); also pn.hmc, pn.smc.sample,
  particle_gibbs, pmmh [pn.nuts]
gradient clipping, clip grad | options clip_norm and clip_value of the optimisers [pn.optim.adam]
hidden markov model, hmm, viterbi, baum welch | pn.smc.hmm; in a model enumerated labels in m:scan [penumbra.smc.hmm]
hierarchical model, multilevel, random effects, random intercept, partial pooling | examples/05_eight_schools.lua:
  m:plate within m:sample of what is shared [m:plate]
image, images, augmentation, transforms | pn.data.augment(x, {rotate =, shift =, flip =}), rotate, shift, crop, resize;
  plot.images [pn.data.augment]
indexing, slicing, mask, masking, subset | x[i] and x:slice(axis, first, last) from 1; x:take(axis, i) with index
  tensors from 0; x[mask] [arrays]
kalman, linear gaussian, state space | pn.smc.kalman: filter, smooth, draw, learn [penumbra.smc.kalman]
laplace approximation, hessian | infer.laplace(net, x, y, {likelihood =}), or guide "laplace" of pn.svi
  [pn.infer.laplace]
learning rate, scheduler, schedule, warmup, cosine | pn.optim.cosine, exponential, warmup, decay, plateau as the option
  schedule of pn.train.fit; in a loop of one's own opt.lr = schedule(step) [pn.optim.cosine]
linear regression, regression, glm, logistic regression, logit | a model: dist.normal(x:matmul(w), s),
  dist.bernoulli{logits = x:matmul(w)}; examples/06_logistic_regression.lua [pn.model]
loo, leave one out, psis, waic, model comparison, elpd, aic, bic, dic | p:loo(), p:waic(), pn.compare{a, b}
  [pn.compare]
loss, loss function, criterion | pn.cross_entropy, mse, mae, bce, bce_logits, huber, kl_div; or -d:log_prob(y):mean()
  [pn.cross_entropy]
lstm, rnn, recurrent, sequence | nn.lstm, nn.gru, nn.rnn over time [pn.nn.lstm]
mnist, idx, dataset | pn.data.idx(path) reads it; nothing is downloaded [pn.data.idx]
monte carlo dropout, mc dropout, uncertainty | nn.dropout{rate = 0.1, always = true}; nn.bayes_linear; nn.predict
  [pn.nn.dropout]
normalizing flow, normalising flow, flow, bijector, change of variables | dist.transformed(base, bijector): real_nvp,
  masked_autoregressive, planar [pn.dist.bijector.real_nvp]
ordinal, ordered logit, likert, rating | dist.ordered_logistic(eta, cutpoints) [pn.dist.ordered_logistic]
parallel, multiprocessing, threads, distributed | pn.threads(n); chains of pn.nuts run in threads; distributed
  training is not there [pn.threads]
particle filter, sequential monte carlo, smc | pn.smc.filter of a model written as functions, or of a pn.model [smc]
pca, dimension reduction, svd | x:svd(); pn.models.factor_analysis{data =, latent =, noise = "isotropic"}, with
  gaps; or a linear autoencoder [pn.models.factor_analysis]
pickle, serialize, serialise, save model, load model | pn.save, pn.load, m:save(path), pn.restore(path, {...})
  [pn.restore]
map estimate, maximum a posteriori, mle, maximum likelihood | pn.svi(model, "delta", {data =}); a network by its loss
  [pn.svi]
mutual information, information gain | of acquisitions "bald" and "batch_bald"; entropies by d:entropy() [active]
resnet, residual network, skip connection, unet | not there as a model: y = x + f(x) in a function of yours is one
  [pn.nn.sequential]
diffusion model, score matching, denoising | not there; pn.sde solves stochastic differential equations [pn.sde]
contrastive, siamese, metric learning | not there as losses; pn.cdist and x:logsumexp(axis) make them [pn.cdist]
optimal transport, sinkhorn | of particle filters: resampling with a gradient [penumbra.smc.transport]
copula, spline, b-spline, gam | not there; pn.dist.custom and pn.dist.transformed make laws [pn.dist.custom]
ridge, lasso, elastic net | priors: normal or laplace weights in a model; weight_decay of adamw [pn.dist.laplace]
polynomial regression, feature, basis function | pn.stack({x, x ^ 2}, 2), then a linear model [pn.stack]
anova, t-test, hypothesis test, permutation test, p value | not there as tests: a model of the groups and the
  posterior of their difference; p:check() has predictive p values [p:check]
bootstrap, resample data | x:take(1, pn.randint(0, n, {n})) [pn.randint]
subplot, subplots, layout, colormap, animation | a list of panels, {columns = 2}; palettes "viridis" and "grey"; no
  animations [pn.plot.save]
scatter plot, scatter, error bar, bar chart, barplot | pn.plot.points, pn.plot.error_bars, pn.plot.bars
  [pn.plot.points]
seed everything, reproducibility, random number, random numbers | pn.seed(1); generator = pn.generator(1) for one
  function [pn.seed]
shuffle, permutation | pn.data.batches shuffles; x:take(1, pn.randperm(n)) [pn.randperm]
interpolation, interpolate, resize | pn.interp between points; nn.upsample of pictures [pn.interp]
integration, integrate, quadrature, trapezoid | pn.trapezoid of values; pn.odeint of a function [pn.trapezoid]
root finding, newton, minimise, minimize, optimisation, optimization | pn.optim.lbfgs for smooth losses; roots are not
  there [pn.optim.lbfgs]
eigenvalues, eigendecomposition, determinant, slogdet | pn.eigh of symmetric matrices, x:det(), x:logdet() [pn.eigh]
hdf5, parquet, sql, database, excel file | not there: CSV, .npy, .npz, safetensors, IDX and JSON lines are [data]
audio, video, speech | not there; pn.fft and its kin are [pn.fft]
date, time zone, calendar | pn.data.series has start dates, frequencies and calendar features [pn.data.series]
graph neural network, gnn, message passing | not there; x:take and scatter_add pass messages [pn.scatter_add]
random forest, decision tree, xgboost, gradient boosting, svm, knn, naive bayes, tsne, umap | not there: models here are
  densities and networks [models]
topic model, lda, dirichlet process, nonparametric | not there as models; dist.dirichlet_multinomial, mixtures with
  {enumerate = true} and stick_breaking are parts [pn.dist.dirichlet_multinomial]
change point, regime, switching | m:scan with {enumerate = true}, or a switching model [pn.model]
cox, kaplan meier, hazard | not there; censored data of a parametric law are: dist.censored [pn.dist.censored]
non-centered, noncentered, reparameterise, reparameterize, reparametrize | theta = mu + tau * z with z ~ normal(0, 1)
  in the model [pn.model]
divergences, divergent, step size, mass matrix, tree depth | p:plot(path, {kind = "pairs"}) shows
  where; target_accept and metric are options of pn.nuts, depth and steps are in p.statistics [pn.nuts]
thinning, burn in, autocorrelation, mcse | warmup of pn.nuts is left out; p:summary() has effective sizes and
  mcse; thinning is not needed [p:summary]
residuals, r squared, goodness of fit | pn.metrics.r_squared, p:check() [pn.metrics.r_squared]
brier score, log score, proper score, scoring rule | pn.metrics.brier, pn.metrics.log_likelihood, pn.metrics.crps
  [pn.metrics.brier]
quantile regression, expectile, conformal, prediction interval | laws with quantiles: p:predict(), metrics.quantiles;
  the losses are not there [pn.metrics.quantiles]
attention mask, positional encoding, causal mask | nn.multi_head_attention takes a mask; encodings are sums of yours
  [pn.nn.multi_head_attention]
seq2seq, encoder decoder, beam search, translation | not there as models; recurrent layers and attention are
  [pn.nn.gru]
version, license, licence | pn.version; MIT [pn]
kl divergence, relative entropy, divergence of laws | pn.dist.kl(p, q), by draws pn.dist.kl_monte_carlo [pn.dist.kl]
lognormal | pn.dist.log_normal [pn.dist.log_normal]
broadcasting, broadcast | sizes of 1 stretch as in NumPy; x:broadcast_to(sizes) does it by name [pn.broadcast_to]
matrix inverse, inverse matrix | x:inverse(); a:solve(b) is better [pn.solve]
truth value, equality, equal, equals, compare tensors, boolean | x:eq(y) compares number by number;
  x:eq(y):all():item() is true or false; x == y asks for one object, every tensor is true in if: penumbra --strict
  tells [pn.eq]
contour, contour plot, level curve, decision boundary | pn.plot.contours(z, {x =, y =, levels =})
  [pn.plot.contours]
plot, plotting, matplotlib, figure, trace plot, traceplot | pn.plot.save("x.svg", {...}); p:plot(path, {kind =
  "trace"}) of posteriors [plot]
posterior predictive, predictive check, ppc | p:predict(), p:check(), p:plot(path, {kind = "predictive"}) [p:predict]
prior predictive, prior check | pn.prior_predictive(model, {data = {x}}) [pn.prior_predictive]
profiler, profile, profiling, timing, benchmark | pn.compile and its :plans(); make bench [pn.compile]
pytorch, torch, tensorflow, numpy, jax, stan, pyro, numpyro | names that differ: help"arrays";
  examples/manual/other_names.md has all of Stan's, NumPyro's and PyTorch's [arrays]
quantisation, quantization, pruning, distillation | not there [nn]
regularisation, regularization, weight decay, l2 | optim.adamw's weight_decay, or a prior: infer.map [pn.optim.adamw]
reinforcement learning, policy gradient, bandit | not there as environments; infer.score_function is the estimator
  [pn.infer.score_function]
roc, auc, precision recall | metrics.auc, metrics.roc; plot.roc [pn.metrics.roc]
sde, stochastic differential equation, brownian motion, diffusion | pn.sde, pn.brownian; pn.models.bnsde learns one
  [pn.sde]
semi supervised, unlabelled data, unlabeled data, few labels | examples/16_semi_supervised.lua: pn.models.vae with the
  label as its condition, summed out where there is none [pn.models.vae]
simulation based calibration, sbc | pn.sbc(model, ...) [pn.sbc]
sparse, sparse matrix | not there: tensors are dense [pn.einsum]
standardise, standardize, standardization, normalise, normalize, scaling, scaler | pn.data.standardise(x)
  [pn.data.standardise]
stochastic volatility, garch | examples/12_stochastic_volatility.lua: m:scan [m:scan]
string, text, tokenizer, nlp, regex, unicode | not there: tensors hold numbers; nn.embedding takes labels
  [pn.nn.embedding]
test split, train test split, holdout | pn.data.split, pn.data.holdout [pn.data.split]
training loop, trainer, fit, epochs | pn.train.fit{model =, data =, loss =, epochs =}, or opt:step(loss) in a loop
  [pn.train.fit]
transformer, bert, gpt, encoder layer, decoder layer | nn.transformer_encoder(size, heads, layers, {causal = true}),
  nn.transformer_decoder [pn.nn.transformer_encoder]
truncated, truncation | dist.truncated(d, low, high) [pn.dist.truncated]
vae, autoencoder, variational autoencoder, latent variable model | pn.models.vae{data =, latent =, hidden =}
  [penumbra.models.vae]
variational inference, vi, advi, elbo, svi | pn.svi(model, "mean_field", {data =}); infer.elbo for networks [pn.svi]
zero inflated, hurdle model, excess zeros | dist.zero_inflated(d, gate), dist.hurdle(d, gate) [pn.dist.hurdle]
]]

--- What people want to do, and the call: forty lines.
ideas.tasks = [[
I want to                         call (help"name" tells more)
make a tensor                     pn.tensor{{1, 2}, {3, 4}}, pn.zeros{2, 3}
take rows, columns, by index      x[1], x:slice(2, 1, 3), x:take(1, i)
read a table                      pn.data.csv("data.csv")
read and write arrays             pn.data.npy(path), pn.data.save_npy(path, x)
standardise, split                pn.data.standardise(x), pn.data.split
differentiate                     pn.grad(loss, {w})[1]
check a gradient                  pn.check_gradients(f, {w})
train a network                   pn.train.fit{model =, data =, loss =}
write the loop myself             opt = pn.optim.adam(net); opt:step(loss)
make a step fast                  step = pn.compile(f, {optimiser = opt})
classify                          pn.cross_entropy(net(x), y)
stop early, go on later           pn.train.fit{patience =, checkpoint =}
lower the learning rate           train.fit{schedule = pn.optim.cosine(...)}
know how sure a network is        nn.bayes_linear, infer.laplace, nn.dropout
score a classifier                metrics.accuracy(y, p), f1, auc, ece
see where it errs                 plot.confusion(metrics.confusion(y, p))
write a model                     pn.model(function(m, x, y) ... end)
see what it expects before data   pn.prior_predictive(model, {data = {x}})
find mistakes in it               pn.diagnose(model, {data = {x, y}})
sample its posterior              p = pn.nuts(model, {data = {x, y}}); print(p)
fit it fast                       pn.svi(model, "full_rank", {data = {x, y}})
look at the draws                 p:plot("x.svg", {kind = "trace"}), "pairs"
predict                           p:predict{data = {x_new}}.y
check it against the data         p:check(); p:plot with kind = "predictive"
compare models                    pn.compare{a, b}; pn.k_fold(model, {data =})
sum out labels, get them back     {enumerate = true} of m:sample; p:labels()
loop over time                    m:scan("t", T, start, function(h, t) ... end)
use data cut off at a limit       dist.censored(d, low, high), dist.truncated
count with many zeros             dist.hurdle(d, gate), dist.zero_inflated
model answers on a scale          dist.ordered_logistic(eta, cutpoints)
leave out what is missing         dist.masked(d, mask)
make a distribution of my own     pn.dist.custom{name =, log_prob =, rsample =}
follow a hidden state             pn.smc.kalman, pn.smc.hmm, pn.smc.filter
forecast a series                 pn.models.deepar, pn.smc.structural
solve a differential equation     pn.odeint(f, y0, times), pn.sde
learn a latent space              pn.models.vae{data =, latent =, hidden =}
choose what to label next         pn.active.pool
draw a picture                    pn.plot.save("x.svg", {pn.plot.line(x, y)})
save and load                     pn.save(path, t), p:save(path), pn.restore
take a network to PyTorch         pn.save(path, net:state{layout = "torch"})
]]

local index -- of the lines by their words

local function plain(word)
  return (word:lower():gsub("[%s_%-]+", " "):gsub("^ ", ""):gsub(" $", ""))
end

--- All ideas: a list of {words = {...}, text =, place =}.
function ideas.list()
  local list = {}
  for line in text:gsub("\n  ", " "):gmatch "[^\n]+" do
    local words, said, place = line:match "^(.-) | (.-) %[([^%]]*)%]$"
    local entry = { words = {}, text = said, place = place }
    for word in words:gmatch "[^,]+" do
      table.insert(entry.words, plain(word))
    end
    list[#list + 1] = entry
  end
  return list
end

--- What is said of the longest part of a phrase that has something, or nil: of "poisson regression" what is said of
--- regression. Parts at the end come first.
function ideas.of_phrase(phrase)
  local words = {}
  for word in plain(phrase):gmatch "%S+" do words[#words + 1] = word end
  for length = #words - 1, 1, -1 do
    for first = #words - length + 1, 1, -1 do
      local part = ideas.of(table.concat(words, " ", first, first + length - 1))
      if part then return part end
    end
  end
end

--- What is said of a word, or nil: {word =, text =, place =}.
function ideas.of(word)
  if not index then
    index = {}
    for _, entry in ipairs(ideas.list()) do
      for _, each in ipairs(entry.words) do
        index[each] = { word = each, text = entry.text, place = entry.place }
      end
    end
  end
  word = plain(word)
  return index[word] or index[word:gsub("s$", "")]
end

return ideas
