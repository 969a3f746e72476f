/*
** population_test.c: a function at many points side by side: the bits of one thread, points outside, refusals, limits.
*/
#include <math.h>
#include "check.h"
#include "hmc_fixture.h"

enum { N = 101, D = 3 };

/* z -> (sum z, 1 / sqrt z as a half-normal's scale sees it): fails with PN_DOMAIN where some z <= 0. */
static pn_plan *make_plan(pn_context *c, bool draws) {
  const int64_t n = D;
  pn_tensor *at = pn_full(c, PN_FLOAT64, 1, &n, 0.5), *inside;
  if (!at || pn_capture_begin(c, 1, &at, &inside)) return NULL;
  pn_tensor *scale = inside, *zero = pn_scalar(c, PN_FLOAT64, 0);
  pn_tensor *parameters[] = {zero, scale};
  pn_dist *d = pn_dist_new(c, "normal", 2, (const char *[]){"loc", "scale"}, parameters);
  pn_tensor *lp = pn_dist_log_prob(c, d, draws ? pn_dist_sample(c, d, NULL, 0, NULL) : zero);
  pn_tensor *out = pn_add(c, lp, inside);
  pn_plan *p = pn_capture_end(c, 1, &out);
  pn_dist_unref(d);
  return p;
}

static pn_tensor *make_rows(pn_context *c) {
  double x[N * D];
  for (int i = 0; i < N * D; i++) x[i] = 0.25 + 0.01 * i;
  x[5 * D + 1] = -1; /* row 5 is outside */
  return pn_from_data(c, PN_FLOAT64, 2, (const int64_t[]){N, D}, x);
}

static void points(int threads, double *y) {
  pn_context *c = pn_context_new(&(pn_context_config){.threads = threads});
  size_t mark = pn_scope_open(c);
  pn_plan *plan = make_plan(c, false);
  pn_population *q = pn_population_new(c, plan);
  pn_tensor *got = pn_population_evaluate(c, q, make_rows(c));
  CHECK(got && pn_tensor_shape(got)[0] == N && pn_tensor_shape(got)[1] == D);
  const double *v = pn_tensor_data(got);
  for (int i = 0; i < N * D; i++) y[i] = v[i];
  for (int e = 0; e < D; e++) CHECK(v[5 * D + e] == -INFINITY);
  CHECK(fabs(v[0] - (0.25 - 0.5 * log(2 * 3.14159265358979323846) - log(0.25))) < 1e-12);
  CHECK_INT(pn_context_status(c), PN_OK);
  CHECK(!pn_population_evaluate(c, q, pn_zeros(c, PN_FLOAT64, 2, (const int64_t[]){4, D + 1})));
  CHECK_FAIL(c, PN_SHAPE, "rows must be float64 [N, 3], got [4, 4]");
  pn_context_cancel(c);
  CHECK(!pn_population_evaluate(c, q, make_rows(c)));
  CHECK_INT(pn_context_status(c), PN_CANCELLED);
  pn_context_clear_error(c);
  pn_context_uncancel(c);
  CHECK(pn_population_evaluate(c, q, make_rows(c)) != NULL);
  pn_population_free(q);
  pn_plan_unref(plan);
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
}

/* x [n] -> x[0 .. m - 1]^2. */
static pn_plan *squares(pn_context *c, int64_t n, int64_t m) {
  pn_tensor *at = pn_full(c, PN_FLOAT64, 1, &n, 0.5), *inside;
  if (!at || pn_capture_begin(c, 1, &at, &inside)) return NULL;
  pn_tensor *out = pn_square(c, pn_slice(c, inside, 0, 0, m, 1));
  return pn_capture_end(c, 1, &out);
}

/* One number, one result, one row; results fewer than numbers; no row; nothing to be had of nothing. */
static void sizes(void) {
  static const int64_t n[] = {1, 3, 2, 0}, m[] = {1, 1, 0, 0}, rows[] = {1, 2, 5, 0};
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 3});
  for (int k = 0; k < 4; k++) {
    size_t mark = pn_scope_open(c);
    pn_plan *plan = squares(c, n[k], m[k]);
    pn_population *q = pn_population_new(c, plan);
    CHECK((q != NULL) == (m[k] > 0));
    if (!q) CHECK_FAIL(c, PN_SHAPE, "one input [n] and one result [m]");
    for (int i = 0; q && i < 4; i++) {
      double x[15];
      for (int e = 0; e < 15; e++) x[e] = 1 + e;
      pn_tensor *y = pn_population_evaluate(c, q, pn_from_data(c, PN_FLOAT64, 2, (const int64_t[]){rows[i], n[k]}, x));
      CHECK(y && pn_tensor_shape(y)[0] == rows[i] && pn_tensor_shape(y)[1] == m[k]);
      for (int64_t r = 0; y && r < rows[i]; r++)
        CHECK_NEAR(((const double *)pn_tensor_data(y))[r], x[r * n[k]] * x[r * n[k]], 0);
    }
    pn_population_free(q);
    pn_plan_unref(plan);
    pn_scope_close(c, mark);
    CHECK_INT(pn_context_objects(c), 0);
  }
  pn_context_close(c);
}

static void refusals(void) {
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1});
  size_t mark = pn_scope_open(c);
  pn_plan *plan = make_plan(c, true), *pair = density_plan(c, D, standard_normal, NULL);
  CHECK(plan && pair);
  CHECK(!pn_population_new(c, plan));
  CHECK_FAIL(c, PN_STATE, "draws at random");
  CHECK(!pn_population_new(c, pair));
  CHECK_FAIL(c, PN_SHAPE, "one input [n] and one result [m]");
  pn_population_free(NULL);
  pn_plan_unref(pair);
  pn_plan_unref(plan);
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
}

int main(void) {
  static double one[N * D], three[N * D];
  points(1, one);
  points(3, three);
  for (int i = 0; i < N * D; i++) CHECK(one[i] == three[i]);
  sizes();
  refusals();
  CHECK_DONE();
}
