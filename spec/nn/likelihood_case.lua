-- A case for each row of likelihoods: parameters of likelihoods with closed forms and of those whose numbers are all
-- outputs, how data are made, refused parameters.
local pn = require "penumbra"

local function real(n) return pn.randn { n } * 2 end
local function binary(n) return pn.rand { n }:gt(0.4):to "float64" end
local function count(n) return (pn.rand { n } * 6):floor() end

local function label(classes)
  return function(n) return pn.randint(0, classes, { n }) end
end

return {
  normal = { y = real, given = { { scale = 0.7 }, { precision = 2.5 }, { log_scale = pn.tensor { 0.3 } },
      { log_scale = 0.3 }, {} },
    refused = { { { scale = -1 }, "likelihood.normal: scale must be positive, got -1" },
      { { scale = 1, precision = 1 }, "scale and precision say the same" },
      { { sclae = 1 }, "scale" } } },
  student_t = { y = real, given = { { df = 3.5, scale = 0.6 }, { df = 4 }, {} },
    refused = { { { df = 0 }, "likelihood.student_t: df must be positive, got 0" } } },
  bernoulli = { y = binary, given = { {} }, refused = { { { scale = 1 }, "likelihood.bernoulli: unknown" } } },
  probit = { y = binary, given = { {}, { precision = 1.7 } },
    refused = { { { precision = 0 }, "likelihood.probit: precision must be positive, got 0" } } },
  categorical = { y = label(3), given = { { classes = 3 } },
    refused = { { {}, "likelihood.categorical: classes must be given" },
      { { classes = 2.5 }, "likelihood.categorical: classes must be a positive whole number, got 2.5" } } },
  poisson = { y = count, given = { {} },
    refused = { { { rate = -2 }, "likelihood.poisson: rate must be positive, got -2" } } },
  negative_binomial = { y = count, given = { {}, { dispersion = 0.4 } },
    refused = { { { dispersion = 0 }, "likelihood.negative_binomial: dispersion must be positive, got 0" } } },
  mixture = { y = real, given = { { components = 2 } },
    refused = { { {}, "likelihood.mixture: components must be given" } } },
}
