"""What our distributions are called elsewhere: ours -> (PyTorch, NumPyro), None where there is none. A function gets the
library's distributions and the parameters. Parameters keep their names except those in RENAMED."""
import numpy


def torch_logistic(d, loc, scale, **options):
    maps = [d.transforms.SigmoidTransform().inv, d.transforms.AffineTransform(loc, scale)]
    return d.TransformedDistribution(d.Uniform(loc * 0, loc * 0 + 1, **options), maps, **options)


def torch_log_uniform(d, low, high, **options):
    return d.TransformedDistribution(d.Uniform(low.log(), high.log(), **options), d.transforms.ExpTransform(), **options)


def mixture(d, logits, loc, scale, **options):
    labels = (getattr(d, "CategoricalLogits", None) or d.Categorical)(logits=logits, **options)
    return d.MixtureSameFamily(labels, d.Normal(loc, scale, **options), **options)


def independent(d, loc, scale, **options):
    return d.Independent(d.Normal(loc, scale, **options), 1, **options)


def transformed(d, loc, scale, **options):
    maps = [d.transforms.AffineTransform(1.0, 0.5), d.transforms.ExpTransform()]
    return d.TransformedDistribution(d.Normal(loc, scale, **options), maps, **options)


def masked(d, loc, scale, mask, **options):
    return d.Normal(loc, scale, **options).mask(mask)


NAMES = {
    "bernoulli": ("Bernoulli", "BernoulliLogits"),
    "beta": ("Beta", "Beta"),
    "beta_binomial": (None, "BetaBinomial"),
    "binomial": ("Binomial", "BinomialLogits"),
    "categorical": ("Categorical", "CategoricalLogits"),
    "cauchy": ("Cauchy", "Cauchy"),
    "chi2": ("Chi2", "Chi2"),
    "continuous_bernoulli": ("ContinuousBernoulli", None),
    "delta": (None, "Delta"),
    "dirichlet": ("Dirichlet", "Dirichlet"),
    "dirichlet_multinomial": (None, "DirichletMultinomial"),
    "exponential": ("Exponential", "Exponential"),
    "gamma": ("Gamma", "Gamma"),
    "gamma_poisson": (None, "GammaPoisson"),
    "gaussian_random_walk": (None, "GaussianRandomWalk"),
    "geometric": ("Geometric", "GeometricLogits"),
    "gumbel": ("Gumbel", "Gumbel"),
    "half_cauchy": ("HalfCauchy", "HalfCauchy"),
    "half_normal": ("HalfNormal", "HalfNormal"),
    "independent": (independent, independent),
    "inverse_gamma": ("InverseGamma", "InverseGamma"),
    "inverse_wishart": (None, "InverseWishart"),
    "kumaraswamy": ("Kumaraswamy", "Kumaraswamy"),
    "laplace": ("Laplace", "Laplace"),
    "lkj_cholesky": ("LKJCholesky", "LKJCholesky"),
    "log_normal": ("LogNormal", "LogNormal"),
    "log_uniform": (torch_log_uniform, "LogUniform"),
    "logistic": (torch_logistic, "Logistic"),
    "low_rank_multivariate_normal": ("LowRankMultivariateNormal", "LowRankMultivariateNormal"),
    "masked": (None, masked),
    "matrix_normal": (None, "MatrixNormal"),
    "mixture": (mixture, mixture),
    "multinomial": ("Multinomial", "MultinomialLogits"),
    "multivariate_normal": ("MultivariateNormal", "MultivariateNormal"),
    "multivariate_student_t": (None, "MultivariateStudentT"),
    "negative_binomial": ("NegativeBinomial", "NegativeBinomialLogits"),
    "normal": ("Normal", "Normal"),
    "one_hot_categorical": ("OneHotCategorical", None),
    "pareto": ("Pareto", "Pareto"),
    "poisson": ("Poisson", "Poisson"),
    "relaxed_bernoulli": ("RelaxedBernoulli", "RelaxedBernoulliLogits"),
    "relaxed_one_hot_categorical": ("RelaxedOneHotCategorical", None),
    "student_t": ("StudentT", "StudentT"),
    "transformed": (transformed, transformed),
    "truncated_normal": (None, "TruncatedNormal"),
    "uniform": ("Uniform", "Uniform"),
    "von_mises": ("VonMises", "VonMises"),
    "weibull": ("Weibull", "Weibull"),
    "wishart": ("Wishart", "Wishart"),
    "zero_inflated_poisson": (None, "ZeroInflatedPoisson"),
}

RENAMED = {
    ("NumPyro", "delta"): {"loc": "v"},
    ("NumPyro", "inverse_wishart"): {"df": "concentration"},
    ("NumPyro", "wishart"): {"df": "concentration"},
    ("PyTorch", "lkj_cholesky"): {"dimension": "dim"},
}

COUNTS = ("total_count", "num_steps", "dimension")  # one whole number for all


class Example:
    """What ours.lua wrote: the value x, the parameters by their names there (tensors by `convert`, counts as numbers
    where all are the same), the log density that it found, and how to make the distribution."""

    def __init__(self, who, name, library, arrays, convert):
        theirs = NAMES[name][("PyTorch", "NumPyro").index(who)]
        renamed = RENAMED.get((who, name), {})
        self.given, self.fixed = {}, {}
        for key in arrays.files:
            value = arrays[key]
            if key == "x":
                self.x = convert(value)
            elif key == "log_prob":
                self.log_prob = value
            elif key in COUNTS and value.ndim == 0:
                self.fixed[renamed.get(key, key)] = int(value)
            else:
                self.given[renamed.get(key, key)] = convert(value)
        self.kind = (lambda **p: theirs(library, **p)) if callable(theirs) else getattr(library, theirs)

    def make(self, given=None, **options):
        return self.kind(**(self.given if given is None else given), **self.fixed, **options)


def differ(ours, theirs):
    """Are log densities other ones than ours found? Then the row would compare different work."""
    ours, theirs = numpy.asarray(ours), numpy.asarray(theirs)
    return ours.shape != theirs.shape or not numpy.allclose(ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True)
