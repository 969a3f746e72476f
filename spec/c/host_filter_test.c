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

/* ---- the exact filter of three states and two numbers, against its steps one by one (kalman_test.c) ---- */

enum { STATES = 3, SEEN = 2, ROWS = 7 };

static pn_tensor *given(pn_context *c, pn_dtype dtype, int ndim, int64_t rows, int64_t cols, const double *v) {
  return pn_cast(c, pn_from_data(c, PN_FLOAT64, ndim, (const int64_t[]){rows, cols}, v), dtype);
}

static pn_filter_model model_of(pn_context *c, pn_dtype dtype, bool offsets) {
  static const double mean[] = {1, -2, 0.5}, cov[] = {2, .5, .25, .5, 1, -.25, .25, -.25, 3}, b[] = {.5, -1, .25};
  static const double a[] = {.75, .25, -.5, 0, .875, .25, .125, -.25, .5}, q[] = {.5, .125, 0, .125, .25, 0, 0, 0, 1};
  static const double h[] = {1, 0, .5, -.25, 2, 1}, d[] = {.5, -.25}, r[] = {.5, .125, .125, .75};
  return (pn_filter_model){.mean = given(c, dtype, 1, STATES, 0, mean),
                           .cov = given(c, dtype, 2, STATES, STATES, cov),
                           .a = given(c, dtype, 2, STATES, STATES, a),
                           .b = offsets ? given(c, dtype, 1, STATES, 0, b) : NULL,
                           .q = given(c, dtype, 2, STATES, STATES, q),
                           .emission = given(c, dtype, 2, SEEN, STATES, h),
                           .d = offsets ? given(c, dtype, 1, SEEN, 0, d) : NULL,
                           .r = given(c, dtype, 2, SEEN, SEEN, r)};
}

static void steps(pn_context *c, pn_dtype dtype, int gap) {
  static const double observed_rows[ROWS][SEEN] = {{2, -1}, {.5, 3}, {NAN, 1}, {1, NAN}, {NAN, NAN}, {-1, 2}, {0, .5}};
  size_t mark = pn_scope_open(c);
  pn_filter_model m = model_of(c, dtype, gap % 2), wide = model_of(c, PN_FLOAT64, gap % 2);
  pn_filter *f = pn_filter_kalman(c, &m), *g = pn_filter_copy(c, f);
  double y[ROWS][SEEN], total = 0;
  memcpy(y, observed_rows, sizeof y);
  for (int i = 0; i < SEEN && gap < ROWS; i++) y[gap][i] = NAN;
  pn_tensor *ys = pn_from_data(c, PN_FLOAT64, 2, (const int64_t[]){ROWS, SEEN}, y), *e, *means, *variances;
  CHECK_STATUS(c, pn_filter_run(c, f, ys, &e, &means, &variances), PN_OK);
  pn_tensor *mean = wide.mean, *cov = wide.cov;
  for (int t = 0; t < ROWS; t++) {
    pn_kalman u = {0};
    double one = NAN, want[STATES], spread[STATES];
    pn_tensor *row = pn_select(c, ys, 0, t), *seen = pn_eq(c, row, row);
    if (t) CHECK_STATUS(c, pn_kalman_predict(c, mean, cov, wide.a, wide.b, wide.q, &mean, &cov), PN_OK);
    CHECK_STATUS(c, pn_kalman_update(c, mean, cov, row, wide.emission, wide.d, wide.r, seen, 0, &u), PN_OK);
    mean = u.mean, cov = u.cov;
    pn_tensor_copy_out(c, mean, want, STATES);
    pn_tensor_copy_out(c, pn_diagonal(c, cov), spread, STATES);
    pn_tensor_item(c, u.log_prob, &one);
    total += one;
    CHECK(fabs(((const double *)pn_tensor_data(e))[t] - one) < 1e-12);
    for (int i = 0; i < STATES; i++) {
      CHECK_NEAR(((const double *)pn_tensor_data(means))[t * STATES + i], want[i], 1e-12);
      CHECK_NEAR(((const double *)pn_tensor_data(variances))[t * STATES + i], spread[i], 1e-12);
    }
  }
  CHECK_NEAR(pn_filter_log_evidence(f), total, 1e-12);
  CHECK(pn_filter_num_observed(f) == SEEN && pn_filter_num_states(f) == STATES && pn_filter_steps(f) == ROWS);
  const char *path = in_folder("exact.safetensors");
  for (int to = 0; to <= 2; to++) { /* saved before the first, on its way, reset and loaded */
    double got, want = 0;
    pn_filter_reset(g);
    CHECK(isinf(pn_filter_effective_sample_size(g)) && pn_filter_mean(g)[1] == 0 && pn_filter_variance(g)[2] == 0);
    for (int t = 0; t < to; t++) CHECK_STATUS(c, pn_filter_observe(c, g, y[t], SEEN, NULL), PN_OK);
    CHECK_STATUS(c, pn_filter_save(c, g, path), PN_OK);
    CHECK_STATUS(c, pn_filter_observe(c, g, y[to], SEEN, &want), PN_OK);
    CHECK_STATUS(c, pn_filter_load(c, f, path), PN_OK);
    CHECK_INT(pn_filter_steps(f), to);
    CHECK_STATUS(c, pn_filter_observe(c, f, y[to], SEEN, &got), PN_OK);
    CHECK_NEAR(got, want, 0);
    CHECK_NEAR(pn_filter_log_evidence(f), pn_filter_log_evidence(g), 0);
    for (int i = 0; i < STATES; i++) {
      CHECK_NEAR(pn_filter_mean(f)[i], pn_filter_mean(g)[i], 0);
      CHECK_NEAR(pn_filter_variance(f)[i], pn_filter_variance(g)[i], 0);
    }
  }
  remove(path);
  pn_filter_free(f);
  pn_filter_free(g);
  pn_scope_close(c, mark);
}

static void refusals(pn_context *c) {
  static const char *const names[] = {"mean", "cov", "a", "b", "q", "emission", "d", "r"};
  static const char *const shapes[] = {"[3]", "[3, 3]", "[3, 3]", "[3]", "[3, 3]", "[2, 3]", "[2]", "[2, 2]"};
  static const int64_t rows[] = {3, 3, 3, 3, 3, 2, 2, 2}, cols[] = {0, 3, 3, 0, 3, 3, 0, 2};
  size_t mark = pn_scope_open(c);
  for (int k = 0; k < 8; k++)
    for (int way = 0; way < 5; way++) { /* none; whole numbers; an axis more; longer along each axis */
      pn_filter_model m = model_of(c, PN_FLOAT64, true);
      char text[96];
      pn_tensor **part = &m.mean + k;
      int ndim = cols[k] ? 2 : 1;
      *part = way == 0   ? NULL
              : way == 1 ? pn_cast(c, *part, PN_INT64)
              : way == 2 ? pn_unsqueeze(c, *part, 0)
                         : pn_zeros(c, PN_FLOAT64, ndim, (const int64_t[]){rows[k] + (way == 3), cols[k] + (way == 4)});
      if (way == 4 && ndim == 1) continue;
      bool optional = k == 3 || k == 6, sizes = (k == 0 && way > 1) || (k == 7 && (way == 2 || way == 3));
      pn_filter *f = pn_filter_kalman(c, &m);
      CHECK(!f == !(optional && way == 0));
      snprintf(text, sizeof text, "filter: %s must have shape %s, got [", names[k], shapes[k]);
      if (way == 0) snprintf(text, sizeof text, "filter: mean, cov, a, q, emission and r must be tensors, got NULL");
      if (sizes) snprintf(text, sizeof text, "filter: "); /* it decides the others' sizes */
      if (!f) CHECK_FAIL(c, way == 0 ? PN_STATE : PN_SHAPE, text);
      pn_filter_free(f);
    }
  for (int64_t n = 0; n < 2; n++)
    for (int64_t other = 0; other < 2; other++) {
      pn_filter_model m = model_of(c, PN_FLOAT64, true);
      pn_tensor *zero = pn_scalar(c, PN_FLOAT64, 0);
      int64_t size = other ? 4097 : 0;
      char text[128];
      if (n) m.mean = pn_broadcast_to(c, zero, 1, &size);
      if (!n) m.r = pn_broadcast_to(c, zero, 2, (const int64_t[]){size, size});
      CHECK(!pn_filter_kalman(c, &m));
      snprintf(text, sizeof text, "filter: state and observation must have 1 to 4096 elements, got %d and %d",
               n ? (int)size : 3, n ? 2 : (int)size);
      CHECK_FAIL(c, PN_SHAPE, text);
    }
  CHECK(pn_filter_num_observed(NULL) == 0 && pn_filter_num_states(NULL) == 0 && pn_filter_steps(NULL) == 0);
  CHECK(pn_filter_log_evidence(NULL) == 0 && pn_filter_effective_sample_size(NULL) == 0);
  CHECK(!pn_filter_mean(NULL) && !pn_filter_variance(NULL));
  pn_filter_free(NULL);
  pn_filter_reset(NULL);
  pn_scope_close(c, mark);
}

/* ---- filters of plans: x' = x + sum y + t from a first x of 1, summary [t, 2, mean x, sum x^2] ---- */

enum { FIRST, STEP, FIRST_MISSING, STEP_MISSING };
enum {
  SOUND,
  MANY,
  OTHER_STATE,
  OTHER_DTYPE,
  TIME_AXIS,
  TIME_DTYPE,
  OTHER_Y,
  OTHER_SUMMARY,
  ONE_OUT_MORE,
  ONE_IN_MORE,
  IN_ONE,
  SUMMARY_ODD = IN_ONE,
  SUMMARY_SHORT,
  SUMMARY_AXES,
  SUMMARY_DTYPE,
  Y_DTYPE,
  Y_AXES,
  NO_STATE,
  TOO_MANY,
  FLAWS
};

static pn_tensor *numbers(pn_context *c, pn_dtype dtype, int64_t n) { return pn_full(c, dtype, 1, &n, 1); }

static pn_plan *plan_of(pn_context *c, int kind, int flaw) {
  pn_tensor *in[70], *inside[70], *x = NULL, *y = NULL;
  int n = 0,
      states = flaw == MANY       ? 64
               : flaw == TOO_MANY ? 65
                                  : flaw != NO_STATE,
      first = kind == FIRST || kind == FIRST_MISSING, seen = kind == FIRST || kind == STEP;
  pn_dtype own = flaw == OTHER_DTYPE ? PN_FLOAT64 : PN_FLOAT32;
  for (int k = 0; k < states && !first; k++) in[n++] = numbers(c, own, flaw == OTHER_STATE ? 5 : 4);
  if (seen) in[n++] = numbers(c, flaw == Y_DTYPE ? PN_FLOAT32 : PN_FLOAT64, flaw == OTHER_Y ? 3 : 2);
  if (seen && flaw == Y_AXES) in[n - 1] = pn_unsqueeze(c, in[n - 1], 0);
  in[n++] = flaw == TIME_AXIS ? numbers(c, PN_FLOAT64, 1) : pn_scalar(c, PN_FLOAT64, 1);
  if (flaw == TIME_DTYPE) in[n - 1] = pn_cast(c, in[n - 1], PN_FLOAT32);
  if (flaw == ONE_IN_MORE) in[n++] = pn_scalar(c, PN_FLOAT64, 1);
  if (pn_capture_begin(c, n, in, inside)) return NULL;
  pn_tensor *time = pn_cast(c, pn_reshape(c, inside[n - 1 - (flaw == ONE_IN_MORE)], 0, NULL), PN_FLOAT64);
  x = !first && flaw != NO_STATE ? inside[0] : numbers(c, own, flaw == OTHER_STATE ? 5 : 4);
  if (seen) y = pn_sum(c, pn_cast(c, inside[first ? 0 : states], PN_FLOAT64), PN_ALL, 0);
  x = pn_add(c, x, pn_cast(c, y ? pn_add(c, time, y) : time, own));
  pn_tensor *wide = pn_cast(c, x, PN_FLOAT64);
  pn_tensor *parts[] = {
      time, pn_scalar(c, PN_FLOAT64, 2), pn_mean(c, wide, PN_ALL, 0), pn_sum(c, pn_square(c, wide), PN_ALL, 0), time,
      time};
  int size = flaw == SUMMARY_ODD ? 5 : flaw == SUMMARY_SHORT ? 1 : flaw == OTHER_SUMMARY ? 6 : 4;
  pn_tensor *summary = pn_stack(c, size, parts, 0);
  if (flaw == SUMMARY_AXES) summary = pn_unsqueeze(c, summary, 0);
  if (flaw == SUMMARY_DTYPE) summary = pn_cast(c, summary, PN_FLOAT32);
  pn_tensor *out[70] = {x};
  for (int k = 1; k < states; k++) out[k] = first ? numbers(c, own, 4) : pn_neg(c, inside[k]);
  out[states] = summary, out[states + 1] = time;
  return pn_capture_end(c, states + 1 + (flaw == ONE_OUT_MORE), out);
}

static void plans(pn_context *c) {
  size_t mark = pn_scope_open(c);
  for (int flaw = 0; flaw < FLAWS; flaw++)
    for (int at = 0; at < (flaw > MANY && flaw < IN_ONE ? 4 : 1); at++) { /* in one of the plans, or in all */
      pn_plan *p[4];
      if (flaw == OTHER_Y && at >= 2) continue;
      for (int k = 0; k < 4; k++) p[k] = plan_of(c, k, flaw == MANY || flaw >= IN_ONE || k == at ? flaw : SOUND);
      CHECK(p[0] && p[1] && p[2] && p[3]);
      pn_filter *f = pn_filter_new(c, p[0], p[1], p[2], p[3]);
      if (flaw > MANY && f) printf("flaw %d in plan %d\n", flaw, at);
      CHECK(!f == (flaw > MANY));
      if (!f)
        CHECK_FAIL(c, PN_SHAPE, "filter: plans must take and give the same parts of a state, of which there may be 64");
      for (int k = 0; k < 4; k++) pn_plan_unref(p[k]);
      for (int turn = 0; f && turn < 2; turn++) {
        double x = 1, y[] = {0.5, -2}, increment = 0, total = 0;
        for (int t = 1; t <= 6; t++) {
          bool seen = (t + turn) % 3 != 0;
          x += t + (seen ? y[0] + y[1] : 0);
          total += t;
          CHECK_STATUS(c, pn_filter_observe(c, f, seen ? y : NULL, 2, &increment), PN_OK);
          CHECK_NEAR(increment, t, 0);
          CHECK_NEAR(pn_filter_mean(f)[0], x, 0);
          CHECK_NEAR(pn_filter_variance(f)[0], 4 * x * x, 0);
          CHECK(pn_filter_effective_sample_size(f) == 2 && pn_filter_log_evidence(f) == total);
        }
        CHECK(pn_filter_num_observed(f) == 2 && pn_filter_num_states(f) == 1 && pn_filter_steps(f) == 6);
        pn_filter_reset(f);
        CHECK(pn_filter_steps(f) == 0 && isinf(pn_filter_effective_sample_size(f)) && pn_filter_mean(f)[0] == 0);
      }
      pn_filter_free(f);
    }
  pn_scope_close(c, mark);
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
  for (int gap = 0; gap <= ROWS; gap++) {
    steps(c, PN_FLOAT64, gap);
    steps(c, PN_FLOAT32, gap);
  }
  refusals(c);
  plans(c);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  remove_folder();
  CHECK_DONE();
}
