"""What our distributions are called elsewhere: ours -> (PyTorch, NumPyro), None where there is none. Parameters keep
their names except those in RENAMED."""

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
    "geometric": ("Geometric", "GeometricLogits"),
    "gumbel": ("Gumbel", "Gumbel"),
    "half_cauchy": ("HalfCauchy", "HalfCauchy"),
    "half_normal": ("HalfNormal", "HalfNormal"),
    "inverse_gamma": ("InverseGamma", "InverseGamma"),
    "kumaraswamy": ("Kumaraswamy", "Kumaraswamy"),
    "laplace": ("Laplace", "Laplace"),
    "log_normal": ("LogNormal", "LogNormal"),
    "log_uniform": (None, "LogUniform"),
    "logistic": (None, "Logistic"),
    "low_rank_multivariate_normal": ("LowRankMultivariateNormal", "LowRankMultivariateNormal"),
    "matrix_normal": (None, "MatrixNormal"),
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
    "truncated_normal": (None, "TruncatedNormal"),
    "uniform": ("Uniform", "Uniform"),
    "von_mises": ("VonMises", "VonMises"),
    "weibull": ("Weibull", "Weibull"),
    "wishart": ("Wishart", "Wishart"),
    "zero_inflated_poisson": (None, "ZeroInflatedPoisson"),
}

RENAMED = {("NumPyro", "delta"): {"loc": "v"}}

COUNTS = ("total_count",)  # one whole number for all


def arguments(who, name, arrays, convert):
    """x and the named parameters for a constructor: tensors by `convert`, counts as numbers where all are the same."""
    renamed = RENAMED.get((who, name), {})
    given = {}
    for key in arrays.files:
        value = arrays[key]
        if key in COUNTS and value.ndim == 0:
            given[key] = int(value)
        else:
            given[renamed.get(key, key)] = convert(value)
    return given.pop("x"), given
