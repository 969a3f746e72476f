--- What help says of the functions of the core that have no row of their own: for each a line with the call
--- and indented lines of text. `x:` starts the methods of tensors that are no functions of `pn`.
-- help: nowhere
return [[
pn.tensor(data [, {dtype = }])
  A tensor of the numbers or booleans in `data`, a (nested) list: {{1, 2}, {3, 4}} has shape {2, 2}. A tensor is
  copied, without its graph. Also pn.tensor{1, 2, dtype = "float32"}. dtypes: float64 (default), float32, int64, bool.
pn.zeros(sizes [, {dtype = }])
  Zeros: pn.zeros{2, 3} or pn.zeros(2, 3).
pn.ones(sizes [, {dtype = }])
  Ones: pn.ones{2, 3} or pn.ones(2, 3).
pn.full(sizes, value [, {dtype = }])
  The same value everywhere: pn.full({2, 3}, 0.5).
pn.arange([start,] stop [, step] [, {dtype = }])
  start, start + step, ... below stop (above, for a negative step). start is 0, step 1 unless given.
pn.linspace(start, stop, n [, {dtype = }])
  n values from start to stop, both included.
pn.eye(n [, m] [, {dtype = }])
  The n x m matrix with ones on the diagonal.
pn.rand(sizes [, {dtype = , generator = }])
  Independent draws, uniform on (0, 1): pn.rand{2, 3}.
pn.randn(sizes [, {dtype = , generator = }])
  Independent standard normal draws: pn.randn{2, 3}.
pn.randint(low, high, sizes [, {generator = }])
  Whole numbers, uniform on low .. high - 1; int64.
pn.randperm(n [, {generator = }])
  The numbers 0 .. n - 1 in random order; int64. Fit for x:take: they are 0-based.
pn.is_tensor(x)
  true if x is a tensor.
arrays, by their names in NumPy and PyTorch
  Names that differ here; axes and slices count from 1, index tensors from 0. help"pn" lists all.
      argwhere, flatnonzero       x:nonzero()
      astype, type                x:to(dtype)
      array_split                 x:chunk(n, axis)
      bitwise and boolean masks   x[mask], x:masked_select(mask)
      broadcast_arrays, expand    x:broadcast_to(sizes)
      bucketize, digitize         edges:searchsorted(x, "right")
      cat, hstack, vstack         pn.concatenate({x, y}, axis)
      clip                        x:clamp(low, high)
      column_stack, dstack        pn.stack({x, y}, axis)
      count_nonzero               x:ne(0):sum()
      dot, inner, mm, bmm, mv, @  x:matmul(y)
      equal, array_equal          x:eq(y):all():item()
      expand_dims, x[None]        x:unsqueeze(axis)
      flipud, fliplr              x:flip(axis)
      fmod, %                     x % y, the sign of y
      hypot                       (x ^ 2 + y ^ 2):sqrt()
      index_select, x[i]          x:take(axis, i), i from 0
      inv                         x:inverse()
      lerp                        x + (y - x) * t
      linalg.norm of matrices     x:matrix_norm(p)
      log_ndtr, expit, gammaln    x:log_ndtr(), x:sigmoid(), x:lgamma()
      logical_xor                 x:ne(y) of two bool
      logspace, geomspace         10 ^ pn.linspace(a, b, n)
      masked_fill                 pn.where(mask, value, x)
      nanmax, nanmin              pn.where(x:isnan(), -math.huge, x):max()
      narrow, x[a:b]              x:slice(axis, first, last), from 1
      percentile                  x:quantile(p / 100, axis)
      put_along_axis, index_add   x:scatter_add(axis, i, src)
      randint, permutation        pn.randint(low, high, sizes), pn.randperm(n)
      ravel, view, resize         x:flatten(), x:reshape(sizes)
      repeat of NumPy             x:repeat_interleave(n, axis)
      repeat of PyTorch           x:tile{n, m}
      solve(a, b, left=False)     a:solve_right(b)
      swapaxes                    x:transpose(axis1, axis2)
      take_along_axis             x:gather(axis, i)
      tensordot, vdot             pn.einsum("ij,jk->ik", x, y)
      tolist, item                x:totable(), x:item()
      true_divide, floor_divide   x / y, x // y
      tri, tril_indices           pn.ones(n, n):tril(), :nonzero()
      var(ddof=1)                 x:var(axes, correction)
pn.seed(n)
  Seeds the default generator, whose seed is 0 unless a script (or the host) sets another: two runs draw the same.
      pn.seed(os.time())      -- other numbers in each run
  Draws depend on seed and position alone, not on the number of threads.
pn.generator(seed)
  A generator of one's own, for the option `generator`. g:split(k) is its independent stream number k;
  g:state() and g:set_state(s) save and restore the position.
pn.rng_state()
  The state of the default generator, a list of two whole numbers.
pn.set_rng_state(state)
  Restores what pn.rng_state() gave.
pn.param(value)
  A parameter: a copy of a tensor (or number) that gradients flow to and that optimisers change.
pn.grad(y, {x, ...} [, {create_graph = false}])
  The gradients of the one-element y with respect to each x, a list in the same order; zeros where y does not
  depend on x. With create_graph they can be differentiated again. Each x is a parameter or depends on one, or data
  that asks for it: x:requires_grad(true) before anything is computed from it, also in a compiled function.
pn.detach(x)
  The same values, cut from the graph: no gradient flows through. Also x:detach().
pn.default_dtype([name])
  Sets the element type of new tensors, "float64" or "float32"; returns the one in force.
pn.validate([on])
  Whether log_prob raises for values outside a distribution's support ("gamma: x must be positive, got -1") instead of
  giving -inf; off at first. Returns the previous setting; without argument only that. For one distribution:
  d:validate(), or validate = true among its parameters.
pn.threads([n])
  Sets how many threads big work uses; returns the number. Results do not depend on it.
pn.memory()
  Bytes held by live tensors, the largest value so far, and the number of live objects.
pn.memory_limit(bytes)
  Work that would hold more fails with an error; 0 removes the limit.
pn.clock()
  Seconds of a clock that never goes back, for timing.
pn.blas()
  Name, version and processor type of the linear algebra library; what to do where it makes this process slow, or nil.
pn.select(x, axis, index)
  The sub-tensor at one position of an axis, which disappears. Positions count from 1, or back from -1.
  Also x:select(axis, index) and x[index] for the first axis.
x:rows()
  Goes through the first axis: for i, row in x:rows() do ... end gives the positions from 1 and the sub-tensors.
pn.slice(x, axis, first, last [, step])
  Positions first to last of one axis, both included, from 1 or back from -1. Also x:slice(...), and for
  several axes x[{{2, 5}, {}, 3}]: a list of two is a range, {} everything, a number one position, a tensor of
  int64 positions (0-based), a tensor of bool a mask.
pn.transpose(x [, axis1, axis2])
  Swaps two axes, the last two unless said otherwise. Also x:transpose(...).
pn.t(x)
  The transposed matrix: the last two axes swapped. Also x:t().
pn.unsqueeze(x, axis)
  A new axis of size 1 at that place. Also x:unsqueeze(axis).
pn.squeeze(x [, axis])
  Drops an axis of size 1, or all of them. Also x:squeeze(axis).
pn.flip(x, axis)
  The positions of an axis in reverse. Also x:flip(axis).
pn.masked_select(x, mask)
  The elements where the bool tensor `mask` is true, in a row. Also x[mask].
pn.stack({x, ...} [, axis])
  Tensors of one shape joined along a new axis, the first unless said otherwise.
pn.sort(x [, axis] [, descending])
  Values sorted along an axis (the last), and their positions (0-based, int64); NaN last. Also x:sort(...).
pn.topk(x, k [, axis] [, largest])
  The k largest (or, with largest = false, smallest) along an axis in order, and their positions, data counted from 0;
  NaN last either way, so it is taken only where fewer than k are numbers.
      values, i = pn.tensor{3, 9, 4}:topk(2)    --> {9, 4} and {1, 2}
      x:take(1, i)    -- takes them as they are; Lua's position is i + 1
pn.var(x [, axes] [, correction] [, keepdim])
  Variance with divisor n - correction (1 unless given). Also x:var(...).
pn.std(x [, axes] [, correction] [, keepdim])
  Square root of the variance. Also x:std(...).
pn.to(x, dtype)
  The same values as another element type: "float64", "float32", "int64", "bool". Also x:to(dtype).
pn.kl(p, q)
  Kullback-Leibler divergence of two distributions; the same as pn.dist.kl.
d:log_prob(x)
  Log density or mass of x, a tensor, a number or a list: sample + batch. -inf outside the support (an error where the
  distribution validates), NaN at NaN.
d:sample(sizes [, generator])
  Independent draws: sizes + batch + event, without a gradient. Also d:sample{n, generator = g}.
d:rsample(sizes [, generator])
  Draws with a gradient to the parameters: pathwise or implicit. An error that says why where there is none.
  Those of beta and dirichlet are differentiated as shares of gammas: up to 2.3 times the gradient's variance of the
  implicit derivative of the share itself, in a tenth of its time.
d:rsample_log_prob(sizes [, generator])
  Draws with a gradient and their log density, in one pass of a flow's networks.
d:mean()
  The mean: batch + event.
d:variance()
  The variance, of vectors and matrices that of each entry: batch + event.
d:stddev()
  Square root of the variance.
d:mode()
  A value of highest density or mass: batch + event.
d:entropy()
  -E[log p(x)] in nats: batch.
d:cdf(x)
  Probability of values <= x.
d:icdf(p)
  The quantile: the x with cdf(x) = p; of counts the least x with cdf(x) >= p.
d:log_cdf(x)
  Log of the probability of values <= x, exact far out in the tail.
d:log_survival(x)
  Log of the probability of values > x, exact far out in the tail.
d:independent(k)
  The last k axes of the batch become axes of the event: log_prob sums over them.
d:expand(sizes)
  Repeated to a larger batch shape.
d:arguments()
  {name = tensor} of what was given; pn.dist[d.name](t) makes the distribution again.
d:validate([on])
  The same distribution, whose log_prob raises for values outside the support (or, with false, never does).
d:close()
  Frees the memory now instead of when the collector finds out.
d:parameters()
  List of the parameters to train (pn.param) among what was given and in its parts, in a fixed order.
d:named_parameters()
  List of {name, parameter}; names as "scale", or "2.1.scale" within parts.
d:num_parameters()
  Number of elements of the parameters.
d:named_buffers()
  List of {name, buffer}: what is saved and not trained (pn.nn.buffer).
d:num_buffers()
  Number of elements of the buffers.
d:state()
  Table name -> copy of the values of the parameters.
d:load_state(state)
  Sets the parameters from what d:state() gave. Returns the distribution.
b:arguments()
  {name = tensor} of what was given; of a bijector with parts a list of such tables.
b:parameters()
  List of the parameters to train (pn.param) in a fixed order.
b:named_parameters()
  List of {name, parameter}; names as "scale", or "2.scale" within parts.
b:num_parameters()
  Number of elements of the parameters.
b:named_buffers()
  List of {name, buffer}: what is saved and not trained (pn.nn.buffer).
b:num_buffers()
  Number of elements of the buffers.
b:state()
  Table name -> copy of the values of the parameters.
b:load_state(state)
  Sets the parameters from what b:state() gave. Returns the bijector.
b:close()
  Frees the memory now instead of when the collector finds out.
b:forward(x)
  y = b(x) of a bijector. b(d) with a distribution d is pn.dist.transformed(d, b).
b:inverse(y)
  The x with b(x) = y.
b:log_abs_det(x)
  log |det dy/dx|.
b:forward_log_det(x)
  y and log |det dy/dx| in one pass.
b:inverse_log_det(y)
  x and log |det dy/dx| in one pass.
x:shape()
  The list of sizes.
x:size(axis)
  The size of one axis; axes count from 1, or back from -1.
x:ndim()
  How many axes.
x:numel()
  How many elements.
x:dtype()
  The name of the element type.
x:item()
  The only element as a number.
x:totable()
  The elements as (nested) lists of numbers.
x:backward()
  For a one-element loss: adds its gradient to w:grad() of every parameter w that it depends on.
x:grad()
  The gradient that backward left in a parameter, or nil.
x:clear_grad()
  Forgets a parameter's gradient.
x:requires_grad([on])
  true if gradients flow to x. x:requires_grad(true) makes data a leaf of what is computed from it from here on, so
  that pn.grad gives gradients in it, and returns x; false makes it data again.
x:is_param()
  true if x was made by pn.param.
x:is_buffer()
  true if x was made by pn.nn.buffer.
x:set(values)
  Overwrites a parameter with the values of a tensor of the same shape; returns it. Graphs that used the old
  values can no longer be differentiated.
x:close()
  Frees the memory now instead of when the collector finds out.
]]
