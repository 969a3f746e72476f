/*
** dist_test.c: distributions as a C host uses them: making, messages, shapes, the guard and
** ownership. Values are closed forms; the numbers proper are in spec/distribution.
*/
#include "check.h"
#include "../../src/math/special.h"
#include "../../src/distribution/distribution.h"
#include "../../src/distribution/kernel/density.h"
#include "../../src/tensor/lane/short_rows.h"
#include "../golden/distribution/implicit.h"

static pn_context *c;

static pn_tensor *vec(int n, const double *v) {
  int64_t shape[1] = {n};
  return pn_from_data(c, PN_FLOAT64, 1, shape, v);
}
static pn_tensor *num(double v) { return pn_scalar(c, PN_FLOAT64, v); }

static double item(pn_tensor *t) {
  double v = NAN;
  if (t) pn_tensor_item(c, t, &v);
  return v;
}

static double at(pn_tensor *t, int i) {
  double v[64] = {0};
  if (!t || pn_tensor_numel(t) > 64 || pn_tensor_copy_out(c, t, v, pn_tensor_numel(t))) return NAN;
  return v[i];
}

static pn_dist *make2(const char *kind, pn_tensor *a, pn_tensor *b) {
  return pn_dist_new(c, kind, 2, NULL, (pn_tensor *[]){a, b});
}

static pn_dist *make1(const char *kind, const char *name, pn_tensor *a) {
  return pn_dist_new(c, kind, 1, name ? &name : NULL, &a);
}

static void check_values(void) {
  double log_root = 0.91893853320467274178;
  pn_dist *d = make2("normal", num(1), num(2));
  CHECK_NEAR(item(pn_dist_log_prob(c, d, num(2))), -0.125 - log(2) - log_root, 1e-14);
  CHECK_NEAR(item(pn_dist_cdf(c, d, num(1))), 0.5, 1e-14);
  CHECK_NEAR(item(pn_dist_icdf(c, d, num(0.5))), 1, 1e-14);
  CHECK_NEAR(item(pn_dist_log_cdf(c, d, num(1))), log(0.5), 1e-14);
  CHECK_NEAR(item(pn_dist_log_survival(c, d, num(1))), log(0.5), 1e-14);
  CHECK(item(pn_dist_log_cdf(c, d, num(-1e4))) < -1e7);
  CHECK_NEAR(item(pn_dist_stddev(c, d)), 2, 1e-14);
  CHECK(item(pn_dist_log_prob(c, d, num(INFINITY))) == -INFINITY);
  CHECK(isnan(item(pn_dist_log_prob(c, d, num(NAN)))));
  CHECK_STR(pn_dist_name(d), "normal");
  CHECK_STR(pn_dist_support(d), "real");
  pn_dist_unref(d);
  d = make2("gamma", num(3), num(2)); /* 4 x^2 e^-2x */
  CHECK_NEAR(item(pn_dist_log_prob(c, d, num(1.5))), log(4 * 2.25) - 3, 1e-13);
  CHECK_NEAR(item(pn_dist_mean(c, d)), 1.5, 1e-14);
  CHECK(item(pn_dist_log_prob(c, d, num(-1))) == -INFINITY);
  pn_dist *strict = pn_dist_validate(c, d, 1);
  CHECK(pn_dist_log_prob(c, strict, num(-1)) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "gamma: x must be positive, got -1");
  pn_dist_unref(strict);
  CHECK(pn_set_validate(c, 1) == 0);
  CHECK(pn_dist_log_prob(c, d, num(NAN)) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "gamma: x must be finite, got nan");
  CHECK(pn_set_validate(c, 0) == 1);
  CHECK_NEAR(item(pn_dist_cdf(c, d, pn_dist_icdf(c, d, num(0.3)))), 0.3, 1e-12);
  CHECK(item(pn_dist_cdf(c, d, num(-1))) == 0);
  pn_dist_unref(d);
  d = make1("bernoulli", "logits", num(log(3)));
  CHECK_NEAR(item(pn_dist_log_prob(c, d, num(1))), log(0.75), 1e-14);
  CHECK_NEAR(item(pn_dist_param(c, d, "probs")), 0.75, 1e-14);
  CHECK(item(pn_dist_log_prob(c, d, num(0.5))) == -INFINITY);
  pn_dist_unref(d);
  d = make1("categorical", NULL, vec(3, (double[]){0.2, 0, 0.8}));
  int64_t shape[1] = {3};
  pn_tensor *x = pn_from_data(c, PN_INT64, 1, shape, (int64_t[]){2, 1, 7});
  pn_tensor *lp = pn_dist_log_prob(c, d, x);
  CHECK_NEAR(at(lp, 0), log(0.8), 1e-14);
  CHECK(at(lp, 1) == -INFINITY && at(lp, 2) == -INFINITY);
  CHECK_NEAR(item(pn_dist_entropy(c, d)), -0.2 * log(0.2) - 0.8 * log(0.8), 1e-14);
  CHECK_INT(item(pn_dist_mode(c, d)), 2);
  CHECK(pn_dist_mean(c, d) == NULL);
  CHECK_FAIL(c, PN_MISSING, "categorical: mean does not exist");
  pn_dist_unref(d);
}

static void check_refusals(void) {
  CHECK(make2("gamma", num(1), num(-1)) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "gamma: rate must be positive, got -1");
  CHECK(make2("gamma", vec(2, (double[]){1, NAN}), num(1)) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "gamma: concentration must be finite, got nan");
  CHECK(make1("gamma", "rate", num(1)) == NULL);
  CHECK_FAIL(c, PN_MISSING, "gamma: concentration is missing");
  CHECK(make1("gamma", "ratio", num(1)) == NULL);
  CHECK_FAIL(c, PN_MISSING, "gamma: there is no parameter 'ratio'");
  CHECK(make2("bernoulli", num(0.5), num(1)) == NULL);
  CHECK_FAIL(c, PN_MISSING, "bernoulli: number of positional parameters must be at most 1, got 2");
  const char *both[2] = {"probs", "logits"};
  CHECK(pn_dist_new(c, "bernoulli", 2, both, (pn_tensor *[]){num(0.5), num(0)}) == NULL);
  CHECK_FAIL(c, PN_MISSING, "exactly one of probs, logits must be given, got 2 of them");
  CHECK(pn_dist_new(c, "bernoulli", 0, NULL, NULL) == NULL);
  CHECK_FAIL(c, PN_MISSING, "exactly one of probs, logits must be given, got 0 of them");
  CHECK(make1("categorical", NULL, vec(2, (double[]){0.5, 0.6})) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "categorical: probs must be probabilities that sum to 1, got [0.5, 0.6]");
  CHECK(make1("categorical", NULL, num(1)) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "categorical: probs must have at least 1 axis, got shape []");
  CHECK(make2("normal", num(0), pn_scalar(c, PN_FLOAT32, 1)) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "normal: parameters must have one dtype, got float64 for loc and float32 for scale");
  CHECK(make2("normal", vec(2, (double[]){0, 0}), vec(3, (double[]){1, 1, 1})) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "batch shapes of the parameters must broadcast");
  CHECK(make1("norml", NULL, num(1)) == NULL);
  CHECK_FAIL(c, PN_MISSING, "dist_new: there is no distribution 'norml'");
  CHECK(make2("normal", num(0), NULL) == NULL);
  CHECK_FAIL(c, PN_STATE, "parameter 2 must be a tensor, got NULL");
}

static void check_guard(void) {
  pn_tensor *five = pn_zeros(c, PN_FLOAT64, 1, (int64_t[]){5});
  pn_tensor *column = pn_zeros(c, PN_FLOAT64, 2, (int64_t[]){5, 1});
  pn_dist *d = make2("normal", five, num(1)), *e = make2("normal", column, num(1));
  CHECK(pn_dist_log_prob(c, d, column) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "normal: log_prob: x would be stretched along an axis of size 1");
  CHECK(pn_dist_log_prob(c, e, five) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "normal: log_prob: x has fewer axes than the batch and differs from it");
  CHECK_INT(pn_tensor_numel(pn_dist_log_prob(c, d, num(0))), 5);
  CHECK_INT(pn_tensor_numel(pn_dist_log_prob(c, e, column)), 5);
  pn_dist *wide = pn_dist_expand(c, d, 2, (int64_t[]){3, 5});
  CHECK_INT(pn_tensor_numel(pn_dist_log_prob(c, wide, five)), 15);
  pn_dist *joint = pn_dist_independent(c, wide, 1);
  int n;
  CHECK_INT(pn_dist_batch_shape(joint, &n)[0], 3);
  CHECK_INT(n, 1);
  CHECK_INT(pn_dist_event_shape(joint, &n)[0], 5);
  pn_tensor *lp = pn_dist_log_prob(c, joint, five);
  CHECK_INT(pn_tensor_numel(lp), 3);
  CHECK_NEAR(at(lp, 0), -5 * 0.91893853320467274178, 1e-14);
  CHECK(pn_dist_log_prob(c, joint, num(0)) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "x must have the event's axes");
  CHECK(pn_dist_cdf(c, joint, five) == NULL);
  CHECK_FAIL(c, PN_MISSING, "normal: cdf does not exist after independent");
  CHECK_INT(pn_tensor_numel(pn_dist_kl(c, joint, joint)), 3);
  CHECK_INT(pn_tensor_ndim(pn_dist_sample(c, joint, NULL, 2, (int64_t[]){4, 2})), 4);
  CHECK(pn_dist_kl(c, joint, d) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "kl: normal and normal must have one event shape, got [5] and []");
  pn_dist *g = make2("gamma", num(1), num(1));
  CHECK(isinf(at(pn_dist_kl(c, d, g), 4))); /* negative values have no density under g */
  pn_dist *b = make2("student_t", num(5), num(0));
  CHECK(pn_dist_kl(c, d, b) == NULL);
  CHECK_FAIL(c, PN_MISSING, "kl: there is no closed form for normal and student_t");
  pn_dist_unref(d), pn_dist_unref(e), pn_dist_unref(wide), pn_dist_unref(joint), pn_dist_unref(g), pn_dist_unref(b);
}

/* Draws depend on seed and position alone; sample never carries a graph, rsample does. */
static void check_draws(void) {
  pn_tensor *a = pn_param(c, pn_full(c, PN_FLOAT64, 1, (int64_t[]){3}, 0.7));
  pn_dist *d = make2("gamma", a, num(2));
  pn_rng *r1 = pn_rng_new(c, 5), *r2 = pn_rng_new(c, 5);
  pn_tensor *x = pn_dist_sample(c, d, r1, 1, (int64_t[]){4}), *y = pn_dist_rsample(c, d, r2, 1, (int64_t[]){4});
  for (int i = 0; i < 12; i++) CHECK(at(x, i) == at(y, i));
  CHECK(!pn_tensor_requires_grad(x));
  CHECK(pn_tensor_requires_grad(y));
  pn_tensor *g = NULL;
  CHECK_STATUS(c, pn_grad(c, pn_sum(c, y, PN_ALL, 0), 1, &a, 0, &g), PN_OK);
  CHECK(at(g, 0) > 0);
  uint64_t before[2], after[2];
  pn_rng_get_state(pn_context_rng(c), before);
  pn_dist_sample(c, d, r1, 0, NULL);
  pn_rng_get_state(pn_context_rng(c), after);
  CHECK(before[1] == after[1]);
  pn_rng_free(r1), pn_rng_free(r2), pn_dist_unref(d);
  d = make1("bernoulli", NULL, num(0.5));
  CHECK(pn_dist_rsample(c, d, NULL, 0, NULL) == NULL);
  CHECK_FAIL(c, PN_MISSING, "bernoulli: rsample does not exist");
  pn_dist_unref(d);
  d = make1("categorical", "logits", vec(3, (double[]){0, -INFINITY, 0}));
  x = pn_dist_sample(c, d, NULL, 1, (int64_t[]){64});
  CHECK_INT(pn_tensor_dtype(x), PN_INT64);
  for (int i = 0; i < 64; i++) CHECK(at(x, i) == 0 || at(x, i) == 2);
  pn_dist_unref(d);
}

/* The logarithm of a gamma draw: its slope in the concentration, its law by two moments at 6 sigma. */
static void check_log_gamma(void) {
  for (size_t i = 0; i < sizeof log_gamma_slope / sizeof log_gamma_slope[0]; i++)
    CHECK_NEAR(pni_log_gamma_slope(log_gamma_slope[i][0], log_gamma_slope[i][1]), log_gamma_slope[i][2], 1e-12);
  CHECK(isnan(pni_log_gamma_slope(-1, 0)) && isnan(pni_log_gamma_slope(1, NAN)));
  enum { N = 100000 };
  for (size_t i = 0; i < sizeof log_gamma_draw / sizeof log_gamma_draw[0]; i++) {
    size_t mark = pn_scope_open(c);
    double a = log_gamma_draw[i][0], mean = log_gamma_draw[i][1], variance = log_gamma_draw[i][2];
    pn_tensor *z = pn_log_gamma_draw(c, NULL, pn_full(c, PN_FLOAT64, 1, (int64_t[]){N}, a));
    const double *v = pn_tensor_data(z);
    double s = 0, q = 0, q2 = 0;
    for (int k = 0; k < N; k++) {
      double u = (v[k] - mean) * (v[k] - mean);
      s += v[k] - mean;
      q += u;
      q2 += u * u;
    }
    CHECK(fabs(s / N) < 6 * sqrt(variance / N));
    CHECK(fabs(q / N - variance) < 6 * sqrt((q2 / N - q / N * q / N) / N));
    CHECK(sqrt((q2 / N - q / N * q / N) / N) < 0.02 * variance);
    pn_scope_close(c, mark);
  }
}

/* Sets of numbers: whole arrays are tested as members are one by one, at every edge of every set. */
static void check_sets(void) {
  const double edge[] = {0,
                         -0.0,
                         1,
                         -1,
                         0.5,
                         2,
                         5e-324,
                         -5e-324,
                         1e-45,
                         1 - 0x1p-53,
                         1 - 0x1p-24,
                         1 + 0x1p-52,
                         1 + 0x1p-23,
                         PNI_ANGLE_END,
                         -PNI_ANGLE_END,
                         PNI_ANGLE_HOLDS,
                         3.1415929794311523,
                         -3.1415929794311523,
                         0x1.fffffep127,
                         -0x1.fffffep127,
                         1.7e308,
                         -1.7e308,
                         INFINITY,
                         -INFINITY,
                         NAN};
  enum { EDGES = sizeof edge / sizeof *edge, N = 2100 };
  static double x[N];
  static float y[N];
  static uint8_t mask[N];
  for (int k = 0; k < pni_constraint_count(); k++) {
    const pni_constraint *set = pni_constraint_at(k);
    for (int dtype = PN_FLOAT64; set->numbers && dtype <= PN_FLOAT32; dtype++) {
      int64_t bad = 0;
      int same = 0;
      bool in[N];
      for (int i = 0; i < N; i++) {
        x[i] = edge[i % EDGES];
        y[i] = (float)x[i];
        double value = dtype == PN_FLOAT64 ? x[i] : (double)y[i];
        in[i] = set->holds(&value, NULL);
        bad += !in[i];
      }
      const void *data = dtype == PN_FLOAT64 ? (const void *)x : y;
      CHECK_INT(pni_scan(set->numbers, (pn_dtype)dtype, data, N, NULL), bad);
      CHECK_INT(pni_scan(set->numbers, (pn_dtype)dtype, data, N, mask), bad);
      for (int i = 0; i < N; i++) same += mask[i] == in[i];
      CHECK_INT(same, N);
    }
  }
}

/* Each term of what a kind asks of its parameters, by its text, at the last value that is taken and the first that is
 * not. */
static void check_parameters(void) {
  const char *twice[] = {"loc", "loc"}, *names[] = {"total_count", "probs"};
  pn_tensor *whole = pn_from_data(c, PN_INT64, 0, NULL, (int64_t[]){1}), *three[3] = {num(0), num(1), num(2)};
  CHECK(!make2("normal", whole, num(1)));
  CHECK_FAIL(c, PN_DTYPE, "normal: loc must be float64 or float32, got int64 (convert with :to)");
  CHECK(!pn_dist_new(c, "normal", 2, twice, three));
  CHECK_FAIL(c, PN_STATE, "normal: loc is given twice");
  CHECK(!pn_dist_new(c, "normal", 3, NULL, three));
  CHECK_FAIL(c, PN_MISSING, "normal: number of positional parameters must be at most 2, got 3");
  pn_tensor *count[2] = {pn_param(c, num(4)), num(0.25)};
  CHECK(!pn_dist_new(c, "binomial", 2, names, count));
  CHECK_FAIL(c, PN_DOMAIN, "binomial: total_count is a whole number: no gradient exists; pass it detached");
  int old = pn_set_no_grad(c, 1);
  pn_dist *d = pn_dist_new(c, "binomial", 2, names, count);
  pn_set_no_grad(c, old);
  CHECK_NEAR(item(pn_dist_mean(c, d)), 1, 1e-15);
  pn_dist_unref(d);
  pn_tensor *two = vec(2, (double[]){1, 2}),
            *eye = pn_from_data(c, PN_FLOAT64, 2, (int64_t[]){2, 2}, (double[]){4, 0, 0, 9});
  CHECK(!make2("multivariate_normal", two, two));
  CHECK_FAIL(c, PN_SHAPE, "multivariate_normal: covariance_matrix must have at least 2 axes, got shape [2]");
  CHECK(!make2("multivariate_normal", vec(3, (double[]){0, 0, 0}), eye));
  CHECK_FAIL(c, PN_SHAPE, "multivariate_normal: event axes of covariance_matrix must have size 3, got shape [2, 2]");
  d = make2("multivariate_normal", two, eye); /* the first of the alternatives by position */
  CHECK_NEAR(at(pn_dist_variance(c, d), 1), 9, 1e-14);
  pn_dist_unref(d);
  CHECK(!pn_dist_new(c, "multivariate_normal", 3, NULL, (pn_tensor *[]){two, eye, eye}));
  CHECK_FAIL(c, PN_MISSING, "multivariate_normal: number of positional parameters must be at most 2, got 3");
  const char *all[] = {"loc", "precision_matrix", "scale_tril"};
  CHECK(!pn_dist_new(c, "multivariate_normal", 3, all, (pn_tensor *[]){two, eye, eye}));
  CHECK_FAIL(c, PN_MISSING,
             "exactly one of covariance_matrix, precision_matrix, scale_tril must be given, got 2 of them");
  CHECK(!make1("lkj_cholesky", NULL, two));
  CHECK_FAIL(c, PN_SHAPE, "lkj_cholesky: dimension must be one number, got shape [2]");
  CHECK(!make1("lkj_cholesky", NULL, num(2147483648.)));
  CHECK_FAIL(c, PN_DOMAIN, "lkj_cholesky: dimension must be at most 2147483647, got 2.147484e+09");
  CHECK(!make1("lkj_cholesky", NULL, num(2.5)) && pn_context_status(c) == PN_DOMAIN);
  pn_context_clear_error(c);
  int n;
  d = make1("lkj_cholesky", NULL, num(2147483647.));
  CHECK(d && pn_dist_event_shape(d, &n)[0] == 2147483647 && pn_dist_event_shape(d, &n)[1] == 2147483647 && n == 2);
  pn_dist_unref(d);
  const int64_t eights[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  pn_tensor *deep = pn_full(c, PN_FLOAT64, 8, eights, 5), *less = pn_full(c, PN_FLOAT64, 6, eights, 5);
  CHECK(!make2("wishart", pn_full(c, PN_FLOAT64, 7, eights, 5), eye));
  CHECK_FAIL(c, PN_SHAPE, "wishart: at most 8 axes are possible");
  d = make2("wishart", less, eye);
  CHECK(d && pn_dist_batch_shape(d, &n) && n == 6);
  pn_dist_unref(d);
  d = make2("normal", deep, num(1));
  pn_tensor *x = pn_dist_sample(c, d, NULL, 0, NULL);
  CHECK(pn_tensor_ndim(x) == 8);
  CHECK(!pn_dist_sample(c, d, NULL, 1, (int64_t[]){1}));
  CHECK_FAIL(c, PN_SHAPE, "normal: sample: at most 8 axes are possible, got 9");
  CHECK(!pn_dist_rsample(c, d, NULL, 1, (int64_t[]){1}));
  CHECK_FAIL(c, PN_SHAPE, "normal: rsample: at most 8 axes are possible, got 9");
  pn_dist_unref(d);
}

/* Sizes of a batch from those of two parameters, by the rule of broadcasting written once more. */
static void check_batches(void) {
  static const int64_t sizes[] = {0, 1, 2, 3};
  for (int a = 0; a < 64; a++)
    for (int b = 0; b < 64; b++) {
      size_t mark = pn_scope_open(c);
      int64_t s[2][3] = {{sizes[a % 4], sizes[a / 4 % 4], sizes[a / 16]},
                         {sizes[b % 4], sizes[b / 4 % 4], sizes[b / 16]}};
      int na = (a + b) % 4, nb = (a / 4 + b / 16) % 4, most = na > nb ? na : nb, n = -1;
      int64_t want[3] = {1, 1, 1};
      bool fits = true;
      for (int i = 1; i <= most; i++) {
        int64_t x = i <= na ? s[0][na - i] : 1, y = i <= nb ? s[1][nb - i] : 1;
        fits &= x == y || x == 1 || y == 1;
        want[most - i] = x == 1 ? y : x;
      }
      pn_dist *d = make2("normal", pn_full(c, PN_FLOAT64, na, s[0], 2), pn_full(c, PN_FLOAT64, nb, s[1], 3));
      CHECK(fits == (d != NULL));
      if (!d) CHECK_FAIL(c, PN_SHAPE, "normal: batch shapes of the parameters must broadcast, got [");
      const int64_t *got = pn_dist_batch_shape(d, &n);
      CHECK_INT(n, fits ? most : 0);
      for (int i = 0; d && i < most; i++) CHECK_INT(got[i], want[i]);
      pn_dist_unref(d);
      pn_scope_close(c, mark);
    }
}

/* Ends in order, all pairs of a batch, whatever strides and type: the first pair that is not is named. */
static void check_order(void) {
  double low[6] = {0, 1, 2, 3, 4, 5}, high[2][6];
  for (int bad = 0; bad <= 6; bad++)
    for (int how = 0; how < 6; how++) {
      size_t mark = pn_scope_open(c);
      pn_dtype dtype = how % 2 ? PN_FLOAT32 : PN_FLOAT64;
      for (int i = 0; i < 6; i++) high[0][i] = i + 0.5, high[1][i] = -1;
      if (bad < 6) high[0][bad] = how < 2 ? bad : bad - 0.25;
      if (bad < 5) high[0][5] = -7;
      pn_tensor *x = pn_from_data(c, PN_FLOAT64, 1, (int64_t[]){6}, low);
      pn_tensor *y = pn_select(c, pn_transpose(c, pn_from_data(c, PN_FLOAT64, 2, (int64_t[]){2, 6}, high), 0, 1), 1, 0);
      pn_dist *d = make2("uniform", pn_cast(c, x, dtype),
                         how < 4 ? pn_cast(c, y, dtype) : pn_cast(c, pn_contiguous(c, y), dtype));
      CHECK((d != NULL) == (bad == 6));
      char text[96];
      snprintf(text, sizeof text, "uniform: high must be above low, got %.7g for %d", high[0][bad % 6], bad);
      if (!d) CHECK_FAIL(c, PN_DOMAIN, text);
      pn_dist_unref(d);
      pn_scope_close(c, mark);
    }
  CHECK(!make2("uniform", vec(6, low), num(4)));
  CHECK_FAIL(c, PN_DOMAIN, "uniform: high must be above low, got 4 for 4");
  CHECK(!make2("uniform", num(0.25), vec(2, (double[]){0.5, 0.2})));
  CHECK_FAIL(c, PN_DOMAIN, "uniform: high must be above low, got 0.2 for 0.25");
}

static void check_views(void) {
  pn_dist *d = make2("normal", pn_full(c, PN_FLOAT64, 2, (int64_t[]){1, 3}, 0), num(1)), *e;
  int n = 9;
  CHECK(!pn_dist_independent(c, d, -1));
  CHECK_FAIL(c, PN_SHAPE, "normal: independent: k must be 0 to the number of batch axes, 2, got -1");
  CHECK(!pn_dist_independent(c, d, 3));
  CHECK_FAIL(c, PN_SHAPE, "normal: independent: k must be 0 to the number of batch axes, 2, got 3");
  for (int k = 0; k <= 2; k++) {
    e = pn_dist_independent(c, d, k);
    const int64_t *event = pn_dist_event_shape(e, &n);
    CHECK(n == k && (k == 0 || event[k - 1] == 3) && (k < 2 || event[0] == 1));
    CHECK(pn_dist_batch_shape(e, &n)[0] == 1 && n == 2 - k);
    CHECK_INT(pn_tensor_ndim(pn_dist_log_prob(c, e, pn_zeros(c, PN_FLOAT64, 2, (int64_t[]){1, 3}))), 2 - k);
    pn_dist *twice = pn_dist_independent(c, e, 2 - k);
    CHECK_INT(pn_tensor_ndim(pn_dist_log_prob(c, twice, pn_zeros(c, PN_FLOAT64, 2, (int64_t[]){1, 3}))), 0);
    pn_dist_unref(twice);
    pn_dist_unref(e);
  }
  static const struct {
    int ndim;
    int64_t shape[9];
    bool fits;
  } row[] = {{1, {3}, false},        {2, {1, 3}, true},
             {2, {5, 3}, true},      {2, {5, 1}, false},
             {2, {5, 2}, false},     {3, {0, 4, 3}, true},
             {2, {0, 3}, true},      {2, {-1, 3}, false},
             {3, {-2, 1, 3}, false}, {8, {1, 1, 1, 1, 1, 2, 1, 3}, true}};
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    e = pn_dist_expand(c, d, row[k].ndim, row[k].shape);
    CHECK((e != NULL) == row[k].fits);
    if (!e && pn_context_status(c) == PN_SHAPE) pn_context_clear_error(c);
    CHECK_STATUS(c, pn_context_status(c), PN_OK);
    const int64_t *got = pn_dist_batch_shape(e, &n);
    CHECK_INT(n, e ? row[k].ndim : 0);
    for (int i = 0; i < n; i++) CHECK_INT(got[i], row[k].shape[i]);
    pn_dist_unref(e);
  }
  CHECK(!pn_dist_expand(c, d, 2, (int64_t[]){5, 2}));
  CHECK_FAIL(c, PN_SHAPE, "normal: expand: batch shape [1, 3] must broadcast to the new one, got [5, 2]");
  pn_dist *one = pn_dist_independent(c, d, 1), *strict = pn_dist_validate(c, d, 1),
          *lax = pn_dist_validate(c, strict, 0);
  CHECK(!pn_dist_expand(c, one, 8, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1}) && pn_context_status(c) == PN_SHAPE);
  pn_context_clear_error(c);
  pn_tensor *nan = pn_full(c, PN_FLOAT64, 2, (int64_t[]){1, 3}, NAN);
  CHECK(!pn_dist_log_prob(c, strict, nan));
  CHECK_FAIL(c, PN_DOMAIN, "normal: x must be finite, got nan");
  CHECK(pn_set_validate(c, 7) == 0);
  CHECK(isnan(at(pn_dist_log_prob(c, lax, nan), 2))); /* what it says goes before what the context says */
  CHECK(pn_set_validate(c, 0) == 1);
  CHECK(!pn_dist_sample(c, d, NULL, 1, (int64_t[]){-1}) && pn_context_status(c) == PN_SHAPE);
  pn_context_clear_error(c);
  pn_tensor *lp = d ? nan : NULL, *x = pn_dist_rsample_log_prob(c, d, NULL, 1, (int64_t[]){4}, &lp);
  pn_tensor *want = pn_dist_log_prob(c, d, x);
  for (int i = 0; i < 12; i++) CHECK(at(lp, i) == at(want, i));
  x = pn_dist_rsample_log_prob(c, one, NULL, 1, (int64_t[]){4}, &lp);
  CHECK(pn_tensor_ndim(x) == 3 && pn_tensor_ndim(lp) == 2 && pn_tensor_shape(lp)[0] == 4 &&
        pn_tensor_shape(lp)[1] == 1);
  pn_dist *b = make1("bernoulli", NULL, num(0.5));
  CHECK(!pn_dist_rsample_log_prob(c, b, NULL, 0, NULL, &lp) && !lp);
  CHECK_FAIL(c, PN_MISSING, "bernoulli: rsample does not exist: its draws have no derivative in the parameters");
  CHECK(!pn_dist_param(c, d, "spread"));
  CHECK_FAIL(c, PN_MISSING, "normal: there is no parameter 'spread'");
  CHECK(!pn_dist_batch_shape(NULL, &n) && n == 0);
  n = 9;
  CHECK(!pn_dist_event_shape(NULL, &n) && n == 0 && !pn_dist_event_shape(NULL, NULL) && pn_dist_batch_shape(d, NULL));
  CHECK(!pn_dist_name(NULL) && !pn_dist_support(NULL) && !pn_dist_ref(NULL));
  static const char *const functions[] = {"cdf", "icdf", "log_cdf", "log_survival"};
  pn_tensor *(*const f[])(pn_context *, const pn_dist *, pn_tensor *) = {pn_dist_cdf, pn_dist_icdf, pn_dist_log_cdf,
                                                                         pn_dist_log_survival};
  for (int k = 0; k < 4; k++) {
    char text[64];
    snprintf(text, sizeof text, "normal: %s does not exist after independent", functions[k]);
    CHECK(!f[k](c, one, nan));
    CHECK_FAIL(c, PN_MISSING, text);
  }
  pn_dist *dirichlet = make1("dirichlet", NULL, vec(2, (double[]){1, 2}));
  for (int k = 0; k < 4; k++) {
    char text[64];
    snprintf(text, sizeof text, "dirichlet: %s does not exist", functions[k]);
    CHECK(!f[k](c, dirichlet, vec(2, (double[]){0.5, 0.5})));
    CHECK(!strstr(pn_context_message(c), "after independent"));
    CHECK_FAIL(c, PN_MISSING, text);
  }
  pn_dist_unref(dirichlet), pn_dist_unref(b), pn_dist_unref(strict), pn_dist_unref(lax), pn_dist_unref(one),
      pn_dist_unref(d);
}

/* Rows by number and name, and which functions they say they have. */
static void check_rows(void) {
  int n = pn_dist_kind_count();
  CHECK(!pn_dist_kind_name(-1) && !pn_dist_kind_name(n) && pn_dist_kind_name(n - 1) && !pni_dist_find("nothing"));
  for (int i = 0; i < n; i++) {
    const pni_distribution *kind = pni_dist_at(i);
    CHECK_STR(pn_dist_kind_name(i), kind->name);
    CHECK(pni_dist_find(kind->name) == kind);
    CHECK(pni_dist_has(kind, "mean") == (kind->mean != NULL) &&
          pni_dist_has(kind, "variance") == (kind->variance != NULL));
    CHECK(pni_dist_has(kind, "stddev") == (kind->variance != NULL) &&
          pni_dist_has(kind, "mode") == (kind->mode != NULL));
    CHECK(pni_dist_has(kind, "entropy") == (kind->entropy != NULL) &&
          pni_dist_has(kind, "icdf") == (kind->icdf != NULL));
    CHECK(pni_dist_has(kind, "cdf") == (kind->cdf != NULL) && pni_dist_has(kind, "log_cdf") == (kind->cdf != NULL));
    CHECK(pni_dist_has(kind, "log_survival") == (kind->cdf != NULL) && !pni_dist_has(kind, "nonsense"));
    CHECK(pni_dist_has(kind, "rsample") == (kind->rsample != NULL));
    CHECK(pni_dist_has(kind, "sample") == (kind->sample != NULL || kind->rsample != NULL));
  }
  int depth = 5, uses = 0;
  CHECK_STATUS(c, pni_nest(c, "here", &depth, 3), PN_OK);
  CHECK_INT(depth, 5);
  CHECK_STATUS(c, pni_nest(c, "here", &depth, 5), PN_OK);
  CHECK_INT(depth, 6);
  CHECK_STATUS(c, pni_nest(c, "here", &depth, PNI_NESTING - 1), PN_OK);
  CHECK_INT(depth, 100);
  CHECK_STATUS(c, pni_nest(c, "here", &depth, PNI_NESTING), PN_DOMAIN);
  CHECK_FAIL(c, PN_DOMAIN, "here: parts must nest at most 100 levels deep, got 101");
  CHECK_STATUS(c, pni_use(c, "here", &uses, 9998), PN_OK);
  CHECK_STATUS(c, pni_use(c, "here", &uses, 0), PN_OK);
  CHECK_INT(uses, 10000);
  CHECK_STATUS(c, pni_use(c, "here", &uses, 0), PN_DOMAIN);
  CHECK_FAIL(c, PN_DOMAIN, "here: parts must be at most 10000, each counted as often as it is used, got 10001");
}

/* Distribution functions and quantiles at the ends of a support and beyond, with their slopes, in both types. */
static void check_ends(void) {
  for (int dtype = PN_FLOAT64; dtype <= PN_FLOAT32; dtype++) {
    pn_tensor *rate = pn_cast(c, num(2), dtype), *x[6], *g;
    static const double places[6] = {-INFINITY, -1, 0, 0.75, INFINITY, NAN};
    pn_dist *d = make1("exponential", NULL, rate);
    double bound = dtype == PN_FLOAT64 ? 1e-14 : 1e-6;
    for (int k = 0; k < 6; k++) {
      double v = places[k], cdf = v <= 0 ? 0 : -expm1(-2 * v);
      x[k] = pn_param(c, pn_cast(c, num(v), dtype));
      CHECK_NEAR(item(pn_dist_cdf(c, d, x[k])), k == 5 ? NAN : cdf, bound);
      CHECK_NEAR(item(pn_dist_log_cdf(c, d, x[k])), k == 5 ? NAN : log(cdf), bound);
      CHECK_NEAR(item(pn_dist_log_survival(c, d, x[k])), k == 5 ? NAN : v <= 0 ? 0 : -2 * v, bound);
      if (k == 5) continue;
      CHECK_STATUS(c, pn_grad(c, pn_dist_cdf(c, d, x[k]), 1, &x[k], 0, &g), PN_OK);
      CHECK_NEAR(item(g), k == 3 ? 2 * exp(-1.5) : 0, bound);
      CHECK_STATUS(c, pn_grad(c, pn_dist_log_survival(c, d, x[k]), 1, &x[k], 0, &g), PN_OK);
      CHECK_NEAR(item(g), k == 3 ? -2 : 0, bound);
    }
    static const double p[5] = {-0.01, 0, 0.25, 1, 1.01};
    for (int k = 0; k < 5; k++) {
      pn_tensor *q = pn_param(c, pn_cast(c, num(p[k]), dtype)), *y = pn_dist_icdf(c, d, q);
      CHECK_NEAR(item(y), k == 0 || k == 4 ? NAN : -log1p(-p[k]) / 2, bound);
      if (k != 1 && k != 2) continue;
      CHECK_STATUS(c, pn_grad(c, y, 1, &q, 0, &g), PN_OK);
      CHECK_NEAR(item(g), k == 1 ? 0 : 0.5 / 0.75, bound);
    }
    double both[5];
    pn_tensor *row = pn_cast(c, vec(5, p), dtype); /* side by side: one bad value spoils no other */
    pn_tensor_copy_out(c, pn_dist_icdf(c, d, row), both, 5);
    CHECK(isnan(both[0]) && both[1] == 0 && fabs(both[2] - -log1p(-0.25) / 2) < bound && isinf(both[3]) &&
          isnan(both[4]));
    pn_dist_unref(d);
  }
  CHECK_STATUS(c, pn_context_status(c), PN_OK);
}

/* What is not given is the row's number for it, of the type of what is given, else float64. */
static void check_defaults(void) {
  int made = 0;
  for (int i = 0; i < pni_dist_count(); i++) {
    const pni_distribution *kind = pni_dist_at(i);
    pn_tensor *full[PNI_DIST_PARAMS];
    const char *names[PNI_DIST_PARAMS];
    int n = 0;
    bool plain = !*kind->event;
    for (; n < PNI_DIST_PARAMS && kind->param[n].name; n++) {
      plain = plain && kind->param[n].optional && !*kind->param[n].axes;
      names[n] = kind->param[n].name;
      full[n] = num(kind->param[n].absent);
    }
    if (!plain || n == 0) continue;
    pn_dist *given = pn_dist_new(c, kind->name, n, names, full), *absent = pn_dist_new(c, kind->name, 0, NULL, NULL);
    CHECK(given && absent);
    for (int k = 0; k < n && absent; k++) {
      CHECK_NEAR(item(pn_dist_param(c, absent, names[k])), kind->param[k].absent, 0);
      pn_tensor *one = pn_scalar(c, PN_FLOAT32, kind->param[k].absent);
      pn_dist *single = pn_dist_new(c, kind->name, 1, &names[k], &one);
      for (int j = 0; j < n; j++) CHECK_INT(pn_tensor_dtype(pn_dist_param(c, single, names[j])), PN_FLOAT32);
      pn_dist_unref(single);
    }
    CHECK_NEAR(item(pn_dist_log_prob(c, absent, num(0.3))), item(pn_dist_log_prob(c, given, num(0.3))), 0);
    pn_dist_unref(given);
    pn_dist_unref(absent);
    made++;
  }
  CHECK(made >= 5);
}

/* mean - 1/2 = coth(l/2) / 2 - 1/l, variance 1/l^2 - 1/(2 sinh(l/2))^2 and entropy log(2 sinh(l/2) / l) - l (mean -
 * 1/2), on both sides of where the series begins. */
static void check_continuous_bernoulli(void) {
  static const double l[] = {0.05, 0.12, 0.17, 0.19, 0.1999, 0.21, 0.4, 0.8, 1.15};
  for (int i = 0; i < 18; i++) {
    double s = i % 2 ? -l[i / 2] : l[i / 2], excess = 0.5 / tanh(s / 2) - 1 / s;
    pn_dist *d = make1("continuous_bernoulli", "logits", num(s));
    CHECK_NEAR(item(pn_dist_mean(c, d)), 0.5 + excess, 1e-14);
    CHECK(fabs(item(pn_dist_entropy(c, d)) - (log(2 * sinh(s / 2) / s) - s * excess)) < 1e-14);
    double sine = 2 * sinh(s / 2), variance = 1 / (s * s) - 1 / (sine * sine);
    CHECK(fabs(item(pn_dist_variance(c, d)) - variance) < 1e-15 / (s * s));
    pn_dist_unref(d);
  }
  /* the mean's fifth derivative: sum B_2k / (2k)! (2k - 1) ... (2k - 5) l^(2k - 6) */
  static const double b[] = {1.0 / 30240,       -1.0 / 1209600,
                             1.0 / 47900160,    -691.0 / 1307674368000.0,
                             1 / 74724249600.0, -3617.0 / 10670622842880000.0};
  for (int i = 0; i < 2; i++) {
    double s = i ? -0.06 : 0.06, want = 0;
    for (int k = 0; k < 6; k++) {
      double term = b[k] * pow(s, 2 * k);
      for (int m = 0; m < 5; m++) term *= 2 * k + 5 - m;
      want += term;
    }
    pn_tensor *logit = pn_param(c, num(s));
    pn_dist *d = make1("continuous_bernoulli", "logits", logit);
    pn_tensor *y = pn_dist_mean(c, d);
    for (int m = 0; m < 5; m++) CHECK_STATUS(c, pn_grad(c, y, 1, &logit, 1, &y), PN_OK);
    CHECK(fabs(item(y) - want) < 1e-15);
    pn_dist_unref(d);
  }
}

/* Variance by mean squared: Gamma(1 + 2 / k) / Gamma(1 + 1 / k)^2 - 1, on both sides of where the series begins. */
static void check_weibull(void) {
  static const double concentration[] = {1.5, 7, 20, 29, 30, 30.01, 32, 40, 200, 1000};
  for (int i = 0; i < 10; i++) {
    long double k = concentration[i], want = expm1l(lgammal(1 + 2 / k) - 2 * lgammal(1 + 1 / k));
    pn_dist *d = make2("weibull", num(2), num(concentration[i]));
    double mean = item(pn_dist_mean(c, d));
    CHECK(fabs(item(pn_dist_variance(c, d)) / (mean * mean * (double)want) - 1) < 1e-13);
    pn_dist_unref(d);
  }
}

/* exp(loc + z) and exp(z) + loc, with a loc of three: whichever part of a chain has the batch, the law has it. */
static void check_chain(void) {
  static const double loc[] = {-0.5, 0.25, 2};
  for (int last = 0; last < 2; last++) {
    pn_dist *base = make2("normal", num(0), num(1));
    pn_bijector *shift =
        pn_bijector_new(c, "affine", 2, (const char *[]){"loc", "scale"}, (pn_tensor *[]){vec(3, loc), num(1)});
    pn_bijector *power = pn_bijector_new(c, "exp", 0, NULL, NULL);
    pn_bijector *parts[] = {last ? power : shift, last ? shift : power},
                *map = pn_bijector_compose(c, "chain", 2, parts);
    pn_dist *d = pn_dist_transformed(c, base, map);
    int ndim = 0;
    const int64_t *shape = d ? pn_dist_batch_shape(d, &ndim) : NULL;
    CHECK(shape && ndim == 1 && shape[0] == 3);
    pn_tensor *p = pn_dist_log_prob(c, d, num(3)), *x = pn_dist_sample(c, d, NULL, 0, NULL);
    CHECK_INT(x ? pn_tensor_numel(x) : 0, 3);
    for (int i = 0; i < 3; i++) {
      double rest = last ? 3 - loc[i] : 3, z = last ? log(rest) : log(3) - loc[i];
      CHECK_NEAR(at(p, i), -z * z / 2 - 0.91893853320467274178 - log(rest), 1e-13);
    }
    pn_dist_unref(d);
    pn_bijector_unref(map);
    pn_bijector_unref(power);
    pn_bijector_unref(shift);
    pn_dist_unref(base);
  }
}

/* Is v [n] or [n, n] a member of the set of that name? Of what is symmetric but for a little nothing is said: -1. */
static int is_member(const char *set, const double *v, int n, int numbers) {
  double sum = 0, least = INFINITY;
  int finite = 0, ones = 0, zeros = 0, whole = 0, rising = 1, low = 0, below = 1, unit = 1;
  for (int i = 0; i < numbers; i++) {
    sum += v[i], least = v[i] < least ? v[i] : least;
    finite += isfinite(v[i]), ones += v[i] == 1, zeros += v[i] == 0, whole += v[i] >= 0 && v[i] == floor(v[i]);
    low += v[i] < INFINITY;
    if (i > 0) rising = rising && v[i] > v[i - 1];
  }
  bool all = finite == numbers, share = all && fabs(sum - 1) <= 1e-5;
  if (strcmp(set, "log_weights") == 0) return low == numbers && finite > 0;
  if (strcmp(set, "positive_vector") == 0) return all && least > 0;
  if (strcmp(set, "simplex") == 0) return share && least >= 0;
  if (strcmp(set, "open_simplex") == 0) return share && least > 0;
  if (strcmp(set, "one_hot") == 0) return ones == 1 && zeros == n - 1;
  if (strcmp(set, "count_vector") == 0) return all && whole == n;
  if (strcmp(set, "ordered_vector") == 0) return all && rising;
  if (strcmp(set, "permutation") == 0) return all && zeros == 1 && ones == 1 && sum == 3;
  if (strstr(set, "real_")) return all;
  for (int i = 0; i < n; i++) {
    double square = 0;
    for (int j = 0; j < n; j++) {
      square += v[i * n + j] * v[i * n + j];
      if (j > i) below = below && v[i * n + j] == 0;
    }
    below = below && v[i * n + i] > 0, unit = unit && fabs(square - 1) <= 1e-5;
  }
  if (strcmp(set, "correlation_cholesky") == 0) return all && below && unit;
  if (strcmp(set, "lower_cholesky") == 0) return all && below;
  for (int i = 0; i < numbers; i++) {
    double gap = fabs(v[i] - v[i % n * n + i / n]);
    if (gap > 0 && gap < 0.01) return -1;
    all = all && gap == 0;
  }
  return all && v[0] > 0 && v[4] > 0 && v[8] > 0; /* diagonal but for one number, which would have no partner */
}

/* Sets of vectors and matrices: a row that is changed in one number is a member or not as it is alone, wherever it
 * stands among members. */
static void check_vector_sets(void) {
  enum { ROWS = 300, N = 3 };
  static const double other[] = {NAN, INFINITY, -INFINITY, -1,   -1e-6,   0,      5e-324,  1e-45, 1e-38, 0.5,  1,
                                 2,   3,        4194305,   1e30, -3.5e38, 3.5e38, 4194304, 0.1,   1e9,   -0.25};
  static const double by[] = {1e-7, 4e-6, -4e-6, 7e-6, -7e-6, 2e-5, -2e-5, 1e-3};
  static const int place[] = {0, 127, 128, 255, 299};
  enum { OTHERS = sizeof other / sizeof *other, ALL = OTHERS + sizeof by / sizeof *by };
  static double x[ROWS * N * N];
  static const int64_t size[2] = {N, N};
  int sets = 0, in = 0, out = 0;
  for (int k = 0; k < pni_constraint_count(); k++) {
    const pni_constraint *set = pni_constraint_at(k);
    if (set->rank == 0 || set == &pni_constraint_mean_and_variance || set == &pni_constraint_mean_and_covariance)
      continue;
    int width = set->rank == 1 ? N : N * N;
    sets++;
    for (int how = 0; how < ALL * width; how++)
      for (int dtype = PN_FLOAT64; dtype <= PN_FLOAT32; dtype++) {
        size_t mark = pn_scope_open(c);
        pn_tensor *member = pni_constraint_member(c, set, PN_FLOAT64, size);
        CHECK_STATUS(c, pn_tensor_copy_out(c, pn_broadcast_to(c, member, set->rank, size), x, width), PN_OK);
        for (int i = width; i < ROWS * width; i++) x[i] = x[i - width];
        int row = place[how % 5], change = how / width;
        double *v = &x[row * width + how % width];
        *v = change < OTHERS ? other[change] : *v + by[change - OTHERS];
        pn_tensor *t =
            pn_cast(c, pn_from_data(c, PN_FLOAT64, set->rank + 1, (int64_t[]){ROWS, N, N}, x), (pn_dtype)dtype);
        double alone[N * N], mask[ROWS];
        CHECK_STATUS(c, pn_tensor_copy_out(c, pn_cast(c, pn_select(c, t, 0, row), PN_FLOAT64), alone, width), PN_OK);
        int known = is_member(set->name, alone, N, width);
        bool holds = known < 0 ? set->holds(alone, size) : known;
        CHECK(holds || !pni_constraint_all(set, t));
        pn_tensor *said = pn_cast(c, pni_constraint_mask(c, set, t), PN_FLOAT64);
        CHECK_STATUS(c, pn_tensor_copy_out(c, said, mask, ROWS), PN_OK);
        for (int i = 0; i < ROWS; i++) CHECK_INT(mask[i], i == row ? holds : 1);
        pn_status want = holds ? PN_OK : PN_DOMAIN;
        CHECK_INT(pni_constraint_require(c, set, "here", "x", t), want);
        pn_context_clear_error(c);
        in += holds, out += !holds;
        pn_scope_close(c, mark);
      }
  }
  CHECK(sets > 10 && in > 500 && out > 500);
}

static void refused(const void *made, pn_status status, const char *text) {
  CHECK(!made);
  CHECK_STR(pn_context_message(c), text);
  CHECK_FAIL(c, status, text);
}

static pn_tensor *zeros(int ndim, int64_t m, int64_t n) { return pn_zeros(c, PN_FLOAT64, ndim, (int64_t[]){m, n}); }

/* Gaussian factors and divergences of what does not fit. */
static void check_factors(void) {
  pn_tensor *one = num(1), *two = zeros(1, 2, 0), *three = zeros(1, 3, 0), *single = pn_scalar(c, PN_FLOAT32, 1);
  static const struct {
    const char *form;
    int ndim[2];
    int64_t eta[2], lambda[2];
    const char *text; /* NULL: fits */
  } row[] = {
      {"scalar", {0, 0}, {0}, {0}, NULL},
      {"scalar", {1, 0}, {2}, {0}, NULL},
      {"diagonal", {1, 1}, {2}, {2}, NULL},
      {"diagonal", {1, 2}, {2}, {3, 2}, NULL},
      {"full", {1, 2}, {2}, {2, 2}, NULL},
      {"full", {2, 2}, {3, 2}, {2, 2}, NULL},
      {"diagonal",
       {0, 1},
       {0},
       {2},
       "natural: precision must fit a diagonal precision_mean of shape [], got shape [2]"},
      {"diagonal",
       {1, 0},
       {2},
       {0},
       "natural: precision must fit a diagonal precision_mean of shape [2], got shape []"},
      {"diagonal",
       {1, 1},
       {2},
       {3},
       "natural: precision must fit a diagonal precision_mean of shape [2], got shape [3]"},
      {"full", {1, 1}, {2}, {2}, "natural: precision must fit a full precision_mean of shape [2], got shape [2]"},
      {"full", {1, 2}, {2}, {3, 2}, "natural: precision must fit a full precision_mean of shape [2], got shape [3, 2]"},
      {"full",
       {1, 2},
       {2},
       {2, 3},
       "natural: precision must fit a full precision_mean of shape [2], got shape [2, 3]"}};
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    pn_natural *s = pn_natural_new(c, row[k].form, zeros(row[k].ndim[0], row[k].eta[0], row[k].eta[1]),
                                   zeros(row[k].ndim[1], row[k].lambda[0], row[k].lambda[1]));
    if (row[k].text) refused(s, PN_SHAPE, row[k].text);
    CHECK_STATUS(c, pn_context_status(c), PN_OK);
    if (s) CHECK_STR(pn_natural_form(s), row[k].form);
    pn_natural_unref(s);
  }
  CHECK(!pn_natural_new(c, "scalar", two, three) && pn_context_status(c) == PN_SHAPE);
  pn_context_clear_error(c);
  refused(pn_natural_new(c, "round", one, one), PN_MISSING,
          "natural: form must be scalar, diagonal or full, got 'round'");
  refused(pn_natural_new(c, "scalar", pn_scalar(c, PN_INT64, 1), one), PN_DTYPE,
          "natural: parameters must have one float dtype, got int64 and float64");
  refused(pn_natural_new(c, "scalar", one, single), PN_DTYPE,
          "natural: parameters must have one float dtype, got float64 and float32");
  pn_natural *scalar = pn_natural_new(c, "scalar", one, one), *diagonal = pn_natural_new(c, "diagonal", two, two);
  refused(pn_natural_product(c, scalar, diagonal), PN_SHAPE,
          "natural: factors must be of numbers or of vectors alike, got scalar and diagonal");
  refused(pn_natural_quotient(c, diagonal, scalar), PN_SHAPE,
          "natural: factors must be of numbers or of vectors alike, got diagonal and scalar");
  CHECK(!pn_natural_form(NULL) && !pn_natural_precision(NULL) && !pn_natural_precision_mean(NULL) &&
        !pn_natural_ref(NULL));
  pn_dist *n = make2("normal", zeros(2, 3, 2), num(1)), *vector = pn_dist_independent(c, n, 1),
          *matrix = pn_dist_independent(c, n, 2), *other = make2("normal", three, num(1)),
          *longer = pn_dist_independent(c, other, 1), *narrow = make2("normal", single, single),
          *gamma = make2("gamma", num(1), num(1));
  refused(pn_natural_of(c, gamma), PN_MISSING, "natural: there are no natural parameters of gamma with 0 event axes");
  refused(pn_natural_of(c, matrix), PN_MISSING, "natural: there are no natural parameters of normal with 2 event axes");
  refused(pn_natural_expected_log(c, scalar, vector), PN_SHAPE,
          "expected_log: normal must have 0 event axes for a scalar factor, got 1");
  refused(pn_natural_expected_log(c, diagonal, n), PN_SHAPE,
          "expected_log: normal must have 1 event axes for a diagonal factor, got 0");
  refused(pn_dist_renyi(c, n, gamma, 0.5), PN_MISSING, "renyi: there is no closed form for normal and gamma");
  refused(pn_dist_renyi(c, gamma, n, 0.5), PN_MISSING, "renyi: there is no closed form for gamma and normal");
  refused(pn_dist_renyi(c, vector, longer, 0.5), PN_MISSING,
          "renyi: there is no closed form for normal and normal with different events");
  refused(pn_dist_renyi(c, vector, n, 0.5), PN_MISSING,
          "renyi: there is no closed form for normal and normal with different events");
  static const double order[] = {0, -1, INFINITY, NAN};
  for (int k = 0; k < 4; k++) {
    char text[64];
    snprintf(text, sizeof text, "renyi: order must be positive and finite, got %.7g", order[k]);
    refused(pn_dist_renyi(c, n, n, order[k]), PN_DOMAIN, text);
  }
  refused(pn_dist_renyi(c, n, narrow, 0.5), PN_DTYPE,
          "renyi: distributions must have one dtype, got float64 and float32");
  refused(pn_dist_kl(c, n, narrow), PN_DTYPE, "kl: distributions must have one dtype, got float64 and float32");
  CHECK_INT(pn_tensor_ndim(pn_dist_renyi(c, n, n, 0.5)), 2);
  CHECK_INT(pn_tensor_ndim(pn_dist_renyi(c, vector, vector, 0.5)), 1);
  CHECK_INT(pn_tensor_ndim(pn_dist_renyi(c, matrix, matrix, 2)), 0);
  pn_natural_unref(scalar), pn_natural_unref(diagonal), pn_dist_unref(n), pn_dist_unref(vector), pn_dist_unref(matrix);
  pn_dist_unref(other), pn_dist_unref(longer), pn_dist_unref(narrow), pn_dist_unref(gamma);
}

/* Masses of labels in one pass: of those that exist, for rows that are short enough. */
static void check_label_masses(void) {
  for (int64_t n = 1; n <= PNI_SHORT_ROWS_LONGEST + 1; n += n < 3 ? 1 : PNI_SHORT_ROWS_LONGEST - 3) {
    pn_tensor *logits = pn_zeros(c, PN_FLOAT64, 2, (int64_t[]){3, n}), *y;
    bool fits = n <= PNI_SHORT_ROWS_LONGEST;
    for (int64_t bad = -2; bad <= n + 1; bad += bad == 1 && n > 4 ? n - 3 : 1)
      for (int place = 0; place < 3; place++) {
        int64_t label[3] = {0, 0, 0};
        label[place] = bad;
        y = pni_label_log_mass(c, logits, pn_from_data(c, PN_INT64, 1, (int64_t[]){3}, label));
        char text[96];
        snprintf(text, sizeof text, "label_log_mass: label must lie in 0 to %d, got %d", (int)n - 1, (int)bad);
        if (fits && (bad < 0 || bad >= n)) refused(y, PN_DOMAIN, text);
        if (fits && bad >= 0 && bad < n) CHECK_NEAR(at(y, place), -log((double)n), 1e-15);
        if (!fits) CHECK(!y);
        CHECK_STATUS(c, pn_context_status(c), PN_OK);
      }
    CHECK(!pni_label_log_mass(c, logits, pn_zeros(c, PN_INT64, 1, (int64_t[]){2})) &&
          !pni_label_log_mass(c, logits, pn_zeros(c, PN_FLOAT64, 1, (int64_t[]){3})) &&
          !pni_one_hot_log_mass(c, logits, pn_zeros(c, PN_FLOAT32, 2, (int64_t[]){3, n})) &&
          !pni_one_hot_log_mass(c, logits, pn_zeros(c, PN_FLOAT64, 2, (int64_t[]){2, n})));
    y = pni_one_hot_log_mass(c, logits, pn_full(c, PN_FLOAT64, 2, (int64_t[]){3, n}, 0.5));
    CHECK((y != NULL) == fits);
    if (fits) CHECK_NEAR(at(y, 2), -0.5 * (double)n * log((double)n), 1e-12);
  }
  CHECK(
      !pni_label_log_mass(c, pn_zeros(c, PN_FLOAT64, 2, (int64_t[]){3, 0}), pn_zeros(c, PN_INT64, 1, (int64_t[]){3})));
  CHECK_STATUS(c, pn_context_status(c), PN_OK);
}

/* As many axes as a tensor can have, and one fewer where a draw or a matrix needs one itself. */
static void check_axes(void) {
  static const int64_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  pn_dist *labels = make1("categorical", NULL, vec(2, (double[]){0.25, 0.75})),
          *atoms = make1("empirical", NULL, vec(3, (double[]){1, 2, 3})),
          *three = make1("categorical", NULL, vec(3, (double[]){0.2, 0.3, 0.5})),
          *rate = make1("poisson", NULL, num(3));
  refused(pn_dist_kl(c, labels, three), PN_SHAPE,
          "kl: categorical and categorical must have one number of classes, got 2 and 3");
  for (int n = 7; n <= 8; n++) {
    pn_dist *wide = pn_dist_expand(c, labels, n, ones);
    pn_tensor *x = pn_dist_sample(c, wide, NULL, 0, NULL);
    if (n == 7) CHECK_INT(pn_tensor_ndim(x), 7);
    if (n == 8) refused(x, PN_SHAPE, "categorical: sample: at most 7 batch axes are possible");
    x = pn_dist_sample(c, atoms, NULL, n, ones);
    if (n == 7) CHECK_INT(pn_tensor_ndim(x), 7);
    if (n == 8) refused(x, PN_SHAPE, "empirical: sample: at most 7 axes are possible");
    x = pn_dist_sample(c, labels, NULL, n, ones);
    CHECK_INT(pn_tensor_ndim(x), n);
    refused(pn_dist_sample(c, wide, NULL, 9 - n, ones), PN_SHAPE,
            "categorical: sample: at most 8 axes are possible, got 9");
    pn_dist *fewer = pn_dist_expand(c, rate, n - 1, ones);
    x = pn_dist_entropy(c, fewer);
    if (n == 7) CHECK_INT(pn_tensor_ndim(x), 6);
    if (n == 8) refused(x, PN_SHAPE, "entropy: at most 6 axes are possible");
    pn_dist_unref(fewer);
    pn_dist_unref(wide);
  }
  refused(pn_dist_masked(c, rate, num(1)), PN_DTYPE, "masked: mask must be bool, got float64");
  pn_dist_unref(labels), pn_dist_unref(atoms), pn_dist_unref(three), pn_dist_unref(rate);
}

int main(void) {
  check_sets();
  c = pn_context_new(&(pn_context_config){.seed = 1});
  size_t mark = pn_scope_open(c);
  check_values();
  check_refusals();
  check_guard();
  check_draws();
  check_log_gamma();
  check_parameters();
  check_defaults();
  check_batches();
  check_order();
  check_views();
  check_rows();
  check_ends();
  check_continuous_bernoulli();
  check_weibull();
  check_chain();
  check_factors();
  check_axes();
  check_label_masses();
  check_vector_sets();
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  CHECK_DONE();
}
