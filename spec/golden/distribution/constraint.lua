-- Members and strangers of every set, by its definition.
local nan, inf = 0 / 0, math.huge
return {
  real = { inside = { 0, -3.5, 1e300 }, outside = { nan, inf, -inf } },
  extended_real = { inside = { 0, inf, -inf }, outside = { nan } },
  positive = { inside = { 1, 1e-300, 1e300 }, outside = { 0, -1, nan, inf } },
  nonnegative = { inside = { 0, 1e300 }, outside = { -1e-300, nan, inf } },
  unit_interval = { inside = { 0, 0.5, 1 }, outside = { -0.1, 1.1, nan, inf } },
  open_unit_interval = { inside = { 1e-300, 0.5 }, outside = { 0, 1, -0.1, 1.1, nan, inf } },
  angle = { inside = { 0, 3, -math.pi, math.pi }, outside = { 3.2, -4, nan, inf } },
  interval = { inside = { 0, -3.5, 1e300 }, outside = { nan, inf, -inf } }, -- the ends are the distribution's
  half_line = { inside = { 0, -3.5, 1e300 }, outside = { nan, inf, -inf } }, -- so is the lower end
  point = { inside = { 0, -3.5, 1e300 }, outside = { nan, inf, -inf } }, -- so is the point
  boolean = { inside = { 0, 1 }, outside = { 0.5, -1, 2, nan } },
  nonnegative_integer = { inside = { 0, 1, 1e9 }, outside = { -1, 0.5, nan, inf } },
  integer_interval = { inside = { 0, 1 }, outside = { -1, 0.5, nan, inf } },
  atom = { inside = { 0, -3.5, 1e300 }, outside = { nan, inf, -inf } }, -- so are the values
  one_hot = { inside = { { 0, 1 }, { 1, 0 } }, outside = { { 0, 0 }, { 1, 1 }, { 0.5, 0.5 }, { 2, -1 }, { nan, 1 } } },
  count_vector = { inside = { { 0, 0 }, { 3, 1e9 } }, outside = { { 0.5, 0.5 }, { -1, 2 }, { nan, 0 }, { inf, 0 } } },
  open_simplex = { inside = { { 0.4, 0.6 } }, outside = { { 1, 0 }, { 0.5, 0.6 }, { 1.5, -0.5 }, { nan, 1 }, { 0, 0 } } },
  trials = { inside = { 0, 1 }, outside = { -1, 0.5, nan, inf } },
  nonzero = { inside = { -1e-300, 3 }, outside = { 0, nan, inf } },
  symmetric_interval = { inside = { 0, -0.999 }, outside = { -1, 1, nan } },
  ordered_vector = { inside = { { -1, 0 }, { 2, 1e300 } }, outside = { { 0, 0 }, { 1, 0 }, { nan, 0 }, { 0, inf } } },
  permutation = { inside = { { 1, 0 }, { 0, 1 } }, outside = { { 0, 0 }, { 1, 2 }, { 0.5, 1 }, { nan, 0 } } },
  log_weights = { inside = { { 0, -inf }, { -3, 400 } }, outside = { { 0, nan }, { inf, 0 }, { -inf, -inf } } },
  real_vector = { inside = { { 0, -1e300 } }, outside = { { nan, 0 }, { 0, inf } } },
  simplex = { inside = { { 0.4, 0.6 }, { 1, 0 } }, outside = { { 0.5, 0.6 }, { 1.5, -0.5 }, { nan, 1 }, { 0, 0 } } },
  lower_cholesky = {
    inside = { { { 1, 0 }, { -3, 2 } } },
    outside = { { { 1, 0.5 }, { 0, 1 } }, { { 0, 0 }, { 1, 1 } }, { { -1, 0 }, { 0, 1 } }, { { 1, 0 }, { nan, 1 } } },
  },
  positive_definite = {
    inside = { { { 2, 0.6 }, { 0.6, 0.5 } } },
    outside = { { { 1, 2 }, { 2, 1 } }, { { 1, 0.5 }, { 0, 1 } }, { { 0, 0 }, { 0, 0 } }, { { nan, 0 }, { 0, 1 } } },
  },
  positive_vector = { inside = { { 1, 1e-300 } }, outside = { { 0, 1 }, { 1, -1 }, { nan, 1 }, { 1, inf } } },
  real_matrix = { inside = { { { 0, -1e300 }, { 1, 2 } } }, outside = { { { nan, 0 }, { 0, 1 } }, { { 0, inf }, { 0, 1 } } } },
  mean_and_variance = { inside = { { -3, 1e-300 } }, outside = { { 1, 0 }, { 1, -1 }, { nan, 1 }, { inf, 1 }, { 0, inf } } },
  mean_and_covariance = {
    inside = { { { -3, 1 }, { 2, 0.6 }, { 0.6, 0.5 } }, { { 0 }, { 1 } } },
    outside = {
      { { nan, 0 }, { 1, 0 }, { 0, 1 } }, { { 0, inf }, { 1, 0 }, { 0, 1 } }, { { 0, 0 }, { 1, 2 }, { 2, 1 } },
      { { 0, 0 }, { 1, 0.5 }, { 0, 1 } }, { { 0, 0 }, { 1, nan }, { 0, 1 } }, { { 0 }, { 0 } }, { { 1, 0 }, { 0, 1 } },
    },
  },
  correlation_cholesky = {
    inside = { { { 1, 0 }, { -0.6, 0.8 } } },
    outside = { { { 1, 0 }, { 0.6, 0.6 } }, { { 1, 0.5 }, { 0, 1 } }, { { 1, 0 }, { 0.6, -0.8 } }, { { nan, 0 }, { 0, 1 } } },
  },
}
