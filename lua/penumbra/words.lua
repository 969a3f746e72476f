--- Words of options that more than one module takes: what each means, everywhere the same, and what it was called.
---
--- Counts
---     draws          how many Monte Carlo draws: of paths, samples, posteriors alike
---     num_particles  how many particles a population has
---     batch_size     rows of a minibatch
---     batch_shape    sizes of independent problems side by side, a list
---     count          how many of what the function makes
---     chains         how many chains run side by side
---     islands        how many populations of particles stand side by side
---     warmup         steps before what counts: of a sampler's adaptation, of a rate that rises
---     lag            how many steps behind
---     outcomes       joint outcomes, how many at most are summed over one by one
---     bins           of a histogram: how many, or their edges
---     points         nodes of a quadrature
---     components     of a mixture, how many
---     flows          layers of a flow, how many
---     levels         of what is nested or drawn at several heights, a list or how many
--- How long
---     steps          of an optimiser or a recursion
---     epochs         passes through the data
---     max_steps      an upper limit of something that may stop sooner
---     max_sweeps     the same, of passes over all of what is updated in turn
---     max_moves      the same, of a sampler's moves between two steps
---     tolerance      the change below which something stops
---     rtol, atol     relative and absolute error that is let pass
---     patience       how many looks without progress before something stops or slows
---     validate, validate_every      a function that scores the model as it is, and how often it is asked
---     checkpoint, checkpoint_every, resume     a file that a run is kept in, how often, and whether to go on from it
---     on_step, on_epoch     functions that are called after each
---     results        path of a file to which results are added as they come, and from which a run goes on
---     exchange       the share of islands, by their effective sample size, at which whole ones are resampled
---     trace          whether what was found on the way is kept, step by step
---     progress       a line on the terminal: true, false, a file
--- Learning
---     lr             learning rate
---     optimiser      of pn.optim
---     schedule       of the rate: a function of the step, or a name of pn.optim's; of a warm-up's windows, by name
---     decay          by what something shrinks or forgets, a step
---     compile        whether the step is captured and replayed
---     distributed    whether all ranks of pn.mpi work on it
---     shards         into how many parts a batch is cut, whatever the number of ranks
---     reduce         how the parts of several ranks become one, by name
---     estimator      which estimate of an objective, a gradient or a metric, by name
---     objective      what is maximised, by name
---     loss           a function of data that gives what is minimised
---     baseline       what is taken from rewards before a gradient is made of them
---     gamma          by what a reward a step later counts less; how much of a prior drift is taken
---     discount_first whether the first reward does, too
---     gradient       how a resampling step or a solver passes gradients on, by name
---     start          where something begins: values, or the way they are found, by name
---     init           what draws or sets the first values
---     split          share of the data, or where it is cut in two
---     family         of distributions, by name
---     mode           which of several ways, by name; so is method, and kind says which sort of thing
---     method         see mode
---     kind           see mode
---     by             in which way, by name
---     sample         whether draws are given in place of means
---     site           the name of a site of a model
---     ignore         a label whose data do not count
---     smoothing      share of a label's probability that all classes get alike
---     drop           what is left out: whether, or how many at the end
---     conflict_threshold    the conflict of two sources above which they contradict each other
---     structure      of a covariance, by name
---     approximate    the name of a cheaper way, or whether to take it
--- Randomness
---     generator      a pn.generator
---     seed           a whole number, where a whole run begins
--- Data
---     data           what a model is given, a list of arguments or a tensor
---     x, y           inputs and what is observed at them
---     inputs         known numbers that enter each step, or how many there are
---     observed       bool: false where something is missing, as NaN is by itself
---     impute         how what is missing is filled
---     missing        in a file, the text that stands for what is missing
---     series         places of items among those that a model has embeddings of, from 0 on
---     acquisition    which data to ask for, by name or a function
---     context        steps that are seen before those that count
---     window         steps that are taken at a time
---     times          when something is observed or asked for
---     lengths        steps of each series
---     season         steps after which a series is compared with itself
---     values         tensors that belong to something's steps or points
---     weights        of data or particles, not negative
---     rows, columns  which of a table, or how many of a picture
---     shape          sizes of a tensor, a list
---     range          lowest and highest, a list of two
---     names          a list or table of names
---     name           what something is called in messages and tables
---     categories     sizes of categorical variables
---     size           how large: numbers in a vector, steps of a window, a picture
---     first          what begins a series, or how many of it
---     shape          sizes of the axes, a list
---     dims, coords   names of the axes of arrays in a file; what their places are called
---     groups         names or members of groups: of draws in a file, of matrices that have one network
---     path           of a file; of a stochastic equation: a pn.brownian
---     first_step     of an adaptive solver, its length; 0: found by itself
---     dtype          "float64" or "float32"
---     step           a function that makes one step, or its length
---     every          how many steps apart
--- Models
---     model          a pn.model, or the network that is trained
---     network        layers, a sequential or a module of pn.nn
---     prior, likelihood, posterior     distributions, by name or made, of what is unknown, what is seen, both
---     prior_precision     one over the variance of a normal prior
---     parameters     what is learned or named, a list or a table
---     log_likelihood a function that gives it, exact
---     moments        whether means and variances are wanted, too
---     enumerate      whether discrete variables are summed out
---     constraint     the set in which values lie, or a bijector onto it
---     event_ndim     axes of one event
---     forward        a function from arguments to a value
---     loc, mean      of a distribution
---     scale          standard deviation, or what a variable is measured in
---     scales         lowest and highest scale at the start
---     scaling        what series are measured in, by name
---     bandwidth      standard deviation of a kernel
---     sample         whether draws are given instead of means
---     covariance, cov   matrices
---     variance       squares of standard deviations
---     spread         standard deviation of random starting values
---     covariance     a matrix
---     precision      of normal noise or of a normal prior, the reciprocal of its variance
---     posterior_scale     standard deviation that a posterior starts with
---     noise          of observations: how it is parameterised, or its scale
---     noise_scale    its standard deviation
---     noise_variance its variance
---     noise_precision     the reciprocal of that
---     noise_inside   whether the noise counts as part of the model's own variance
---     variance       a variance
---     delta          the probability with which a guarantee may fail; of a transformation, by how much it shifts
---     risk           mean loss of data, in [0, 1]
---     kl             a divergence KL(Q || P) that is known, or whether it is taken; divergence: how one is taken
---     n              how many data a bound on a risk rests on
---     path_kl        whether divergences of paths are summed or averaged
---     divergence     see kl
---     log_likelihood log of the probability of data
---     log_constant   log of a bound on an exponential moment, or how it is chosen
---     rate           of dropout, of a gamma law, of forgetting
---     variance_rate  of a diffusion: the variance that it adds in a time, over the prior's
---     evidence       how outputs become concentrations, by name; limit: where they are cut
---     limit          see evidence
---     bound          of what, by name; bound_options: what it takes beside
---     bound_options  see bound
---     prior_scale    standard deviation of a prior
---     alpha          of a Renyi divergence or of a decay
---     offset         what is added
---     p              an order
---     floor          what a value is not let fall below
---     pivot          about which something turns
---     controls       where inputs enter a linear system
--- Networks
---     hidden         sizes of hidden layers, a list
---     layers         how many, or a list
---     bidirectional  whether recurrent layers run both ways
---     sizes          numbers of units from inputs to outputs, or of weights, a list
---     activation     by name
---     latent         numbers in a latent variable, a list where there are several
---     network        the one that a method takes
---     encoder, decoder      networks, or sizes of their hidden layers
---     units          of a recurrent network
---     features       units of the layer that inputs go through, or what a model sees of them
---     output         what a network's outputs say of data: a likelihood
---     flow_hidden    hidden units of a flow's networks
---     bias           the constant that a layer adds: whether it is there, or how it is treated
---     epsilon        what is added to what is divided by; of transport how much entropy its matrix has
---     dropout        the share of units that are left out in training
---     sharpness      C of a gate that is open with probability sigmoid(C x); inf: where x is above 0
---     average        how matrices are averaged, by name
---     base           how many base matrices
--- Sequential models
---     initial, transition, emission     laws of the first state, of the next state, of what is seen of it
---     initial_mean, initial_cov         of the first state
---     drift, diffusion                  of a stochastic differential equation; prior_drift: what is known of the drift
---     state, observation                the size or dtype of what is hidden and of what is seen
---     state_draws    how states given all of z are drawn, by name
---     switch         the discrete or recurrent part of a state
---     proposal       the law that particles are drawn from
---     lookahead      weights of particles by what comes next
---     resampling, threshold             the scheme, by name, and the share of particles below which it runs
---     resampled_gradient    whether resampled states pass a gradient to the steps before
---     conditioning   on what a switch or a posterior looks, by name
---     prefix         steps that a posterior of the first state sees
---     hold           whether later steps go on seeing the prefix
---     history        what is kept of earlier steps: whether, or how many
---     mixing         share of steps of another kind
---     metric         form of the mass matrix of a Hamiltonian sampler, by name
---     radius         half the width of the cube in which a start is drawn
---     target_accept  share of proposals that an adapted sampler takes
---     level, trend, seasonal, period    of a structural series
--- Pictures
---     title, label, legend, width       texts of a picture, columns of a line
---     x_label, x_range, y_range         of an axis
-- help: pn
local words = {}

--- The present word (or words) of an old one.
words.called = {
  num_samples = { "draws" }, n_samples = { "draws" }, num_draws = { "draws" }, num_paths = { "draws" },
  samples = { "draws" }, paths = { "draws" }, size = { "batch_size" },
  particles = { "num_particles", "draws" }, n_particles = { "num_particles" },
  batch = { "batch_size", "batch_shape" }, minibatch = { "batch_size" },
  iterations = { "steps", "max_steps" }, num_steps = { "steps" }, num_epochs = { "epochs" },
  max_iterations = { "max_steps" }, max_iter = { "max_steps" }, sweeps = { "max_sweeps" },
  on_iteration = { "on_step" }, callback = { "on_step", "on_epoch" }, rng = { "generator" },
  ignore_index = { "ignore" }, label_smoothing = { "smoothing" },
  num_chains = { "chains" }, n_chains = { "chains" }, num_warmup = { "warmup" }, burn_in = { "warmup" },
  burnin = { "warmup" }, tune = { "warmup" }, learning_rate = { "lr" }, step_size = { "lr" }, verbose = { "progress" },
  emission = { "observation" }, initial = { "init" },
  mask = { "observed" }, missing = { "impute", "observed" }, u = { "inputs" },
}

--- Options of what another option takes, and how it is made.
words.within = { lr = { "optimiser", "pn.optim.adam(net, {lr = 1e-3})" }, learning_rate = { "optimiser",
  "pn.optim.adam(net, {lr = 1e-3})" }, weight_decay = { "optimiser", "pn.optim.adamw(net, {weight_decay = 0.01})" },
  momentum = { "optimiser", "pn.optim.sgd(net, {momentum = 0.9})" } }

--- What the value of a word must be: a kind (of options.argument), a whole number from `least` on, a number from `low`.
words.rules = { on_step = { kind = "function" }, on_epoch = { kind = "function" }, generator = { kind = "generator" } }
for name in ([[draws num_particles batch_size epochs max_steps max_sweeps chains islands count outcomes bins points
  components season shards validate_every checkpoint_every max_evaluations]]):gmatch "%S+" do
  words.rules[name] = { least = 1 }
end
for name in ("steps warmup seed"):gmatch "%S+" do words.rules[name] = { least = 0 } end
for name in ([[rtol atol lr posterior_lr threshold radius opacity width size target_accept inflation limit
  least_accept scale_floor]]):gmatch "%S+" do
  words.rules[name] = { low = 0 }
end

--- What `old` is called among the names of the table `known`, or nil.
function words.now(old, known)
  for _, name in ipairs(words.called[old] or {}) do
    if known[name] ~= nil then
      return name
    end
  end
end

return words
