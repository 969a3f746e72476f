/*
** gaussian_random_walk.c: GaussianRandomWalk(scale s, num_steps n) on R^n: x_1 = e_1, x_t = x_{t-1} + e_t with
** e_t ~ Normal(0, s^2), so that the variance of x_t is t s^2,
**   log p(x) = sum_t -(x_t - x_{t-1})^2 / (2 s^2) - n log s - n log(2 pi) / 2,  x_0 = 0
*/
#include "matrix.h"

enum { SCALE, STEPS };
#define s d->param[SCALE]

static int64_t size(D *d) { return d->shape[pni_dist_base_ndim(d)]; }

/* x_t - x_{t-1} */
static T *steps(C *c, D *d, T *x) {
  int64_t n = size(d);
  return n < 2 ? x : pn_sub(c, x, pn_pad(c, pn_slice(c, x, -1, 0, n - 1, 1), -1, 1, 0, 0));
}

static T *log_prob(C *c, D *d, T *x) {
  T *z2 = pn_div(c, square_length(c, steps(c, d, x)), pn_square(c, s));
  return pn_sub(c, times(c, z2, -0.5), times(c, plus(c, pn_log(c, s), LOG_ROOT_TWO_PI), (double)size(d)));
}

static T *mean(C *c, D *d) { return pn_zeros(c, (pn_dtype)d->dtype, 1, (const int64_t[]){size(d)}); }
static T *variance(C *c, D *d) {
  return pn_mul(c, beside_vector(c, pn_square(c, s)), plus(c, count_by(c, d, size(d), 1), 1));
}
static T *entropy(C *c, D *d) { return times(c, plus(c, pn_log(c, s), 0.5 + LOG_ROOT_TWO_PI), (double)size(d)); }

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return pn_mul(c, beside_vector(c, s), pn_cumsum(c, normal_draw(c, rng, out), -1));
}

/* n ((s_p / s_q)^2 - 1 - log (s_p / s_q)^2) / 2 */
T *pni_kl_gaussian_random_walk_gaussian_random_walk(C *c, D *p, D *d) {
  T *ratio = pn_square(c, pn_div(c, p->param[SCALE], s));
  return times(c, plus(c, pn_sub(c, ratio, pn_log(c, ratio)), -1), (double)size(d) / 2);
}

const pni_distribution pni_dist_gaussian_random_walk = {
    .name = "gaussian_random_walk",
    .doc = "num_steps sums of independent normal steps with mean 0 and standard deviation scale: log p(x) = sum over t "
           "of log normal(x_t - x_{t-1}; 0, scale), x_0 = 0",
    .source = "NumPyro, GaussianRandomWalk",
    .moments = "mean and mode 0, variance of step t: t scale^2",
    .param = {{.name = "scale", .constraint = &pni_constraint_positive, .axes = "", .optional = true, .absent = 1},
              {.name = "num_steps",
               .constraint = &pni_constraint_nonnegative_integer,
               .axes = "",
               .size = 'n',
               .optional = true,
               .absent = 1,
               .example = 3}},
    .support = &pni_constraint_real_vector,
    .event = "n",
    .log_prob = log_prob,
    .mean = mean,
    .variance = variance,
    .mode = mean,
    .entropy = entropy,
    .rsample = rsample};
