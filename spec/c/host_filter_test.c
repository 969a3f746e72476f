/*
** host_filter_test.c: filters as a host feeds them: values against a filter by hand, no allocation once they are warm,
** failures that leave them as they were, saved and restored, in a thread's own context.
*/
#include <stdlib.h>
#include "check.h"
#include "file_fixture.h"

#include "../../src/base/context.h"

static const char script[] =
    "local pn = require 'penumbra'\n"
    "local n = 4000\n"
    "filter = pn.smc.filter{num_particles = n,\n"
    "  init = function(n) return pn.randn{n} * 2 + 3 end,\n"
    "  step = function(x) return x * 0.9 + pn.randn{n} * 0.5 end,\n"
    "  log_weight = function(x, y) return pn.dist.normal(x, 0.7):log_prob(y:broadcast_to{n}) end\n"
    "}:online()\n"
    "exact = pn.smc.exact_filter{initial_mean = pn.tensor{3}, initial_cov = pn.tensor{{4}}, transition = "
    "pn.tensor{{0.9}},\n"
    "  transition_cov = pn.tensor{{0.25}}, emission = pn.tensor{{1}}, emission_cov = pn.tensor{{0.49}}}\n"
    "number = 3\n";

static const double observed[] = {2.5, 3.1, 1.9, 2.2, 0.7, 1.5, 1.1, -0.3, 0.2, 0.9};
enum { T = 10 };

typedef struct {
  long requests;
} counted;

static void *count(void *data, void *block, size_t old_size, size_t new_size) {
  (void)old_size;
  if (!new_size) {
    free(block);
    return NULL;
  }
  ((counted *)data)->requests++;
  return realloc(block, new_size);
}

static pn_filter *take(pn_runtime *rt, const char *name, pn_context *c) {
  pn_filter *f = NULL;
  CHECK_STR(pn_runtime_filter(rt, name, c, &f) == PN_OK ? "" : pn_runtime_message(rt), "");
  return f;
}

/* Mean, variance and log density by the textbook; y NAN is missing. */
static double by_hand(double *m, double *p, int first, double y) {
  if (!first) *m *= 0.9, *p = 0.81 * *p + 0.25;
  if (isnan(y)) return 0;
  double s = *p + 0.49, v = y - *m, gain = *p / s;
  *m += gain * v;
  *p *= 1 - gain;
  return -0.5 * (v * v / s + log(s) + log(2 * acos(-1)));
}

static void values(pn_context *c, pn_filter *particles, pn_filter *exact) {
  double m = 3, p = 4, total = 0, one, increment;
  for (int t = 0; t < T; t++) {
    double y = t == 4 ? NAN : observed[t];
    total += by_hand(&m, &p, t == 0, y);
    CHECK_STATUS(c, pn_filter_observe(c, exact, &y, 1, &increment), PN_OK);
    CHECK_STATUS(c, pn_filter_observe(c, particles, t == 4 ? NULL : &y, 1, &one), PN_OK);
    CHECK_NEAR(pn_filter_mean(exact)[0], m, 1e-12);
    CHECK_NEAR(pn_filter_variance(exact)[0], p, 1e-12);
    CHECK(fabs(pn_filter_mean(particles)[0] - m) < 0.1);
    CHECK(fabs(pn_filter_variance(particles)[0] - p) < 0.2 * p);
  }
  CHECK_NEAR(pn_filter_log_evidence(exact), total, 1e-12);
  CHECK(fabs(pn_filter_log_evidence(particles) - total) < 0.2);
  CHECK_INT(pn_filter_steps(exact), T);
  CHECK(isinf(pn_filter_effective_sample_size(exact)));
  CHECK(pn_filter_effective_sample_size(particles) <= 4000);
  CHECK_INT(pn_filter_num_observed(particles), 1);
  CHECK_INT(pn_filter_num_states(particles), 1);
}

static void no_allocation(pn_context *c, counted *m, pn_filter *f) {
  double y = 1;
  for (int t = 0; t < 20; t++) CHECK_STATUS(c, pn_filter_observe(c, f, t % 3 ? &y : NULL, 1, NULL), PN_OK);
  long before = m->requests;
  for (int t = 0; t < 200; t++) CHECK(pn_filter_observe(c, f, t % 3 ? &y : NULL, 1, NULL) == PN_OK);
  CHECK_INT(m->requests, before);
}

/* All rows at once are the same bits. */
static void at_once(pn_context *c, pn_filter *f) {
  const int64_t shape[] = {T, 1};
  double increment, y[T];
  pn_tensor *e, *mean, *variance;
  size_t mark = pn_scope_open(c);
  pn_filter *copy = pn_filter_copy(c, f);
  memcpy(y, observed, sizeof y);
  y[3] = NAN;
  uint64_t state[2];
  pn_rng_get_state(pn_context_rng(c), state);
  CHECK_STATUS(c, pn_filter_run(c, copy, pn_from_data(c, PN_FLOAT64, 2, shape, y), &e, &mean, &variance), PN_OK);
  pn_rng_set_state(pn_context_rng(c), state);
  for (int t = 0; t < T; t++) {
    CHECK_STATUS(c, pn_filter_observe(c, f, t == 3 ? NULL : &y[t], 1, &increment), PN_OK);
    CHECK_NEAR(((const double *)pn_tensor_data(e))[t], increment, 0);
    CHECK_NEAR(((const double *)pn_tensor_data(mean))[t], pn_filter_mean(f)[0], 0);
    CHECK_NEAR(((const double *)pn_tensor_data(variance))[t], pn_filter_variance(f)[0], 0);
  }
  CHECK(pn_filter_run(c, f, pn_zeros(c, PN_FLOAT64, 1, shape), &e, NULL, NULL) == PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "run: ys must be [T, 1], float64, got float64 [10]");
  pn_filter_free(copy);
  pn_scope_close(c, mark);
}

static void failures(pn_context *c, pn_filter *f) {
  double y = 1e200, two[] = {1, 2}, mean = pn_filter_mean(f)[0], total = pn_filter_log_evidence(f);
  int64_t steps = pn_filter_steps(f);
  char text[64];
  uint64_t before[2], after[2];
  snprintf(text, sizeof text, "at step %lld", (long long)steps + 1);
  pn_rng_get_state(pn_context_rng(c), before);
  CHECK(pn_filter_observe(c, f, &y, 1, NULL) == PN_DEGENERATE);
  CHECK_FAIL(c, PN_DEGENERATE, text);
  pn_rng_get_state(pn_context_rng(c), after);
  CHECK(before[1] == after[1]);
  y = NAN;
  CHECK(pn_filter_observe(c, f, &y, 1, NULL) == PN_NAN);
  CHECK_FAIL(c, PN_NAN, "must be a number, got NaN at step");
  CHECK(pn_filter_observe(c, f, two, 2, NULL) == PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "observe: y must have 1 elements, got 2");
  CHECK(pn_filter_steps(f) == steps && pn_filter_mean(f)[0] == mean && pn_filter_log_evidence(f) == total);
  y = mean;
  CHECK_STATUS(c, pn_filter_observe(c, f, &y, 1, NULL), PN_OK);
}

static void saved(pn_context *c, pn_filter *f, pn_filter *other_kind) {
  const char *path = in_folder("state.safetensors");
  double want[T], got;
  CHECK_STATUS(c, pn_filter_save(c, f, path), PN_OK);
  double mean = pn_filter_mean(f)[0];
  for (int t = 0; t < T; t++) CHECK(pn_filter_observe(c, f, &observed[t], 1, &want[t]) == PN_OK);
  pn_context *host = pn_context_new(NULL); /* elsewhere, later */
  pn_filter *copy = pn_filter_copy(host, f);
  CHECK_STATUS(host, pn_filter_load(host, copy, path), PN_OK);
  CHECK_NEAR(pn_filter_mean(copy)[0], mean, 0);
  for (int t = 0; t < T; t++) {
    CHECK(pn_filter_observe(host, copy, &observed[t], 1, &got) == PN_OK);
    CHECK_NEAR(got, want[t], 0);
  }
  CHECK(pn_filter_load(c, other_kind, path) == PN_FORMAT);
  CHECK_FAIL(c, PN_FORMAT, "load: the file must hold the state of such a filter");
  pn_filter_reset(copy);
  CHECK(pn_filter_steps(copy) == 0 && pn_filter_log_evidence(copy) == 0);
  CHECK(pn_filter_observe(host, copy, &observed[0], 1, NULL) == PN_OK);
  pn_filter_free(copy);
  pn_context_close(host);
  remove(path);
  CHECK(pn_filter_load(c, f, path) == PN_IO);
  pn_context_clear_error(c);
}

int main(void) {
  make_folder();
  counted m = {0};
  pn_runtime *rt = NULL;
  pn_context *c =
      pn_context_new(&(pn_context_config){.allocate = count, .allocator_data = &m, .seed = 5, .threads = 1});
  CHECK(pn_runtime_new(NULL, &rt) == PN_OK);
  CHECK_STR(pn_runtime_run_string(rt, script, sizeof script - 1, NULL) == PN_OK ? "" : pn_runtime_message(rt), "");
  pn_filter *f = take(rt, "filter", c), *exact = take(rt, "exact", c), *none = NULL;
  CHECK(pn_runtime_filter(rt, "number", c, &none) == PN_DTYPE);
  CHECK(strstr(pn_runtime_message(rt), "number must be a filter") != NULL);
  CHECK(pn_runtime_filter(rt, "absent", c, &none) == PN_MISSING);
  pn_runtime_close(rt); /* the filters need it no more */
  if (f && exact) {
    values(c, f, exact);
    no_allocation(c, &m, f);
    no_allocation(c, &m, exact);
    at_once(c, f);
    at_once(c, exact);
    failures(c, f);
    saved(c, f, exact);
    saved(c, exact, f);
  }
  pn_filter_free(f);
  pn_filter_free(exact);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  remove_folder();
  CHECK_DONE();
}
