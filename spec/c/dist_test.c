/*
** dist_test.c: distributions as a C host uses them: making, messages, shapes, the guard and
** ownership. Values are closed forms; the numbers proper are in spec/distribution.
*/
#include "check.h"
#include "../../src/math/special.h"
#include "../../src/distribution/constraint.h"
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
  CHECK_FAIL(c, PN_MISSING, "there is no distribution 'norml'");
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

int main(void) {
  check_sets();
  c = pn_context_new(&(pn_context_config){.seed = 1});
  size_t mark = pn_scope_open(c);
  check_values();
  check_refusals();
  check_guard();
  check_draws();
  check_log_gamma();
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  CHECK_DONE();
}
