/*
** sweep_particle_test.c: the step machine, resampling and filters online survive the failure of each of their
** allocations.
*/
#include <stdio.h>
#include "alloc_sweep.h"
#include "file_fixture.h"

#include "../../src/base/context.h"

enum { N = 10, FILTERS = 2 };

static const int64_t shape[] = {N, FILTERS};

/* Three steps of a machine, with all that it keeps. */
static bool steps(pn_context *c, pn_smc *s, int trace, int history) {
  pn_tensor *x = pn_randn(c, NULL, PN_FLOAT64, 2, shape), *a = NULL;
  for (int t = 0; t < 3 && !pn_context_status(c); t++) {
    if (pn_smc_resample(c, s, &a)) return false;
    if (a) x = pn_select_particles(c, x, a);
    x = pn_add(c, x, pn_randn(c, NULL, PN_FLOAT64, 2, shape));
    if (!pn_smc_tilt(c, s, pn_neg(c, x)) || !pn_smc_weigh(c, s, pn_neg(c, pn_square(c, x)))) return false;
    if (history && pn_smc_keep(c, s, 1, &x)) return false;
  }
  static const char *const known[] = {"log_weights", "weights", "log_evidence", "effective_sample_size"};
  for (int k = 0; k < 4; k++)
    if (!pn_smc_get(c, s, known[k])) return false;
  if (trace && !pn_smc_trace(c, s)) return false;
  if (history && (!pn_smc_paths(c, s, 0, NULL) || pn_smc_nodes(s, NULL) < N * FILTERS)) return false;
  return pn_smc_restore(c, s, pn_smc_get(c, s, "weighed")) == PN_OK && pn_smc_steps(s) == 3;
}

static bool machine(pn_context *c, const void *data) {
  const pn_smc_config *config = data;
  pn_smc *s = pn_smc_new(c, config, NULL);
  bool done = s && steps(c, s, config->trace, config->history);
  if (done) pn_smc_reset(s);
  pn_smc_free(s);
  return done;
}

static bool conditional(pn_context *c, const void *data) {
  (void)data;
  pn_smc_config config = {.num_particles = N,
                          .nbatch = 1,
                          .batch = {FILTERS},
                          .resampling = "multinomial",
                          .threshold = 1,
                          .conditional = 1};
  const int64_t filters = FILTERS, first[] = {3, 5};
  pn_smc *s = pn_smc_new(c, &config, NULL);
  pn_tensor *a = NULL, *x = pn_randn(c, NULL, PN_FLOAT64, 2, shape);
  bool done = s && pn_smc_weigh(c, s, x) &&
              pn_smc_assign(c, s, pn_from_data(c, PN_INT64, 1, &filters, first)) == PN_OK &&
              pn_smc_resample(c, s, &a) == PN_OK && a;
  if (done) done = ((const int64_t *)pn_tensor_data(a))[(N - 1) * FILTERS + 1] == 5;
  pn_smc_free(s);
  return done;
}

static bool scheme(pn_context *c, const void *data) {
  pn_tensor *log_w = pn_randn(c, NULL, PN_FLOAT32, 2, shape);
  return pn_resample(c, data, NULL, log_w) && pn_resample(c, data, NULL, pn_select(c, log_w, 1, 0));
}

/* The gradient of two steps' evidence. */
static bool gradient(pn_context *c, const void *data) {
  pn_smc_config config = {
      .num_particles = N, .nbatch = 1, .batch = {FILTERS}, .threshold = 1, .gradient = data, .alpha = 0.5};
  pn_tensor *w = pn_param(c, pn_randn(c, NULL, PN_FLOAT64, 2, shape)), *a = NULL, *g;
  pn_smc *s = pn_smc_new(c, &config, NULL);
  bool done = s && pn_smc_weigh(c, s, pn_square(c, w)) && pn_smc_resample(c, s, &a) == PN_OK &&
              pn_smc_weigh(c, s, pn_select_particles(c, w, a));
  pn_tensor *sum = done ? pn_sum(c, pn_smc_get(c, s, "log_evidence"), PN_ALL, 0) : NULL;
  done = sum && pn_grad(c, sum, 1, &w, 0, &g) == PN_OK;
  pn_smc_free(s);
  return done;
}

/* ---- online ---- */

static const char script[] = "local pn = require 'penumbra'\n"
                             "filter = pn.smc.filter{num_particles = 20, threshold = 1,\n"
                             "  init = function(n) return {x = pn.randn{n}, v = pn.zeros{n, 2}} end,\n"
                             "  step = function(s) return {x = s.x + pn.randn{20}, v = s.v + 1} end,\n"
                             "  log_weight = function(s, y) return -(s.x - y[1]):square() - y[2]:square() end\n"
                             "}:online{observation = 2}\n";

/* A state is saved, and read again into a copy. */
static bool files(pn_context *c, pn_filter *f) {
  const char *path = in_folder("state.safetensors");
  double y[] = {0.5, 0.25}, one, other;
  pn_filter *copy = pn_filter_copy(c, f);
  bool done = copy && pn_filter_save(c, f, path) == PN_OK && pn_filter_load(c, copy, path) == PN_OK;
  done = done && pn_filter_observe(c, f, y, pn_filter_num_observed(f), &one) == PN_OK;
  done = done && pn_filter_load(c, copy, path) == PN_OK &&
         pn_filter_observe(c, copy, y, pn_filter_num_observed(f), &other) == PN_OK && one == other;
  remove(path);
  pn_filter_free(copy);
  return done;
}

static bool exact(pn_context *c, const void *data) {
  (void)data;
  const int64_t n = 1, nn[] = {1, 1};
  double y = 1, increment;
  pn_tensor *one = pn_full(c, PN_FLOAT64, 2, nn, 1);
  pn_filter_model m = {
      .mean = pn_zeros(c, PN_FLOAT64, 1, &n), .cov = one, .a = one, .q = one, .emission = one, .r = one};
  pn_filter *f = m.mean && one ? pn_filter_kalman(c, &m) : NULL;
  bool done =
      f && pn_filter_observe(c, f, &y, 1, &increment) == PN_OK && pn_filter_observe(c, f, NULL, 0, NULL) == PN_OK;
  pn_tensor *increments, *means, *variances;
  done = done && pn_filter_run(c, f, one, &increments, &means, &variances) == PN_OK;
  done = done && files(c, f);
  pn_filter_free(f);
  return done;
}

/* x [3] -> x, summary: of plans by hand */
static pn_plan *plan(pn_context *c, bool carried, bool seen) {
  const int64_t n = 3, p = 1, m = 4;
  pn_tensor *in[3] = {0}, *inside[3], *out[2];
  int k = 0;
  if (carried) in[k++] = pn_zeros(c, PN_FLOAT64, 1, &n);
  if (seen) in[k++] = pn_zeros(c, PN_FLOAT64, 1, &p);
  in[k++] = pn_scalar(c, PN_FLOAT64, 0);
  if (pn_context_status(c) || pn_capture_begin(c, k, in, inside)) return NULL;
  out[0] = pn_add(c, carried ? inside[0] : pn_zeros(c, PN_FLOAT64, 1, &n), inside[k - 1]);
  out[1] = pn_add(c, pn_zeros(c, PN_FLOAT64, 1, &m), inside[k - 1]);
  return pn_capture_end(c, 2, out);
}

static bool of_plans(pn_context *c, const void *data) {
  (void)data;
  double y = 0, sum = 0;
  pn_plan *first = plan(c, false, true), *step = first ? plan(c, true, true) : NULL;
  pn_plan *none = step ? plan(c, false, false) : NULL, *later = none ? plan(c, true, false) : NULL;
  pn_filter *f = later ? pn_filter_new(c, first, step, none, later) : NULL;
  bool done = f != NULL;
  for (int t = 0; done && t < 3; t++) {
    double increment = 0;
    done = pn_filter_observe(c, f, t == 1 ? NULL : &y, 1, &increment) == PN_OK;
    sum += increment;
  }
  done = done && sum == 6 && pn_filter_log_evidence(f) == 6 && files(c, f);
  pn_filter_free(f);
  pn_plan_unref(first);
  pn_plan_unref(step);
  pn_plan_unref(none);
  pn_plan_unref(later);
  return done;
}

/* A script's filter in a context of the host. */
static bool from_script(pn_context *c, const void *data) {
  pn_runtime *rt = *(pn_runtime *const *)data;
  pn_filter *f = NULL;
  double y[] = {0.5, 1}, increment;
  pn_status s = pn_runtime_filter(rt, "filter", c, &f);
  bool refused = s == PN_NOMEM;
  if (s && !refused) printf("%s\n", pn_runtime_message(rt));
  if (s) { /* the context is clean: what failed is told by the runtime */
    if (refused && pn_context_status(c) == PN_OK) pni_fail(c, s, "passed on");
    return false;
  }
  bool done = pn_filter_observe(c, f, y, 2, &increment) == PN_OK &&
              pn_filter_observe(c, f, y, 2, &increment) == PN_OK && pn_filter_num_states(f) == 3;
  pn_filter_free(f);
  return done;
}

int main(void) {
  make_folder();
  static const pn_smc_config machines[] = {
      {.num_particles = N, .nbatch = 1, .batch = {FILTERS}, .threshold = 0.5},
      {.num_particles = N, .nbatch = 1, .batch = {FILTERS}, .threshold = 1, .trace = 1, .history = 1},
      {.num_particles = N, .nbatch = 1, .batch = {FILTERS}, .threshold = 0.9, .gradient = "soft", .alpha = 0.5}};
  for (int k = 0; k < 3; k++) sweep("smc", machine, &machines[k]);
  sweep("smc, conditional", conditional, NULL);
  for (int k = 0; k < pn_resampler_count(); k++) sweep(pn_resampler_name(k), scheme, pn_resampler_name(k));
  static const char *const gradients[] = {"dropped", "stop_gradient", "score_function", "soft"};
  for (int k = 0; k < 4; k++) sweep(gradients[k], gradient, gradients[k]);
  sweep("filter_kalman", exact, NULL);
  sweep("filter_new", of_plans, NULL);
  pn_runtime *rt;
  CHECK(pn_runtime_new(&(pn_runtime_config){.context = {.threads = 1}}, &rt) == PN_OK);
  CHECK_STR(pn_runtime_run_string(rt, script, sizeof script - 1, NULL) == PN_OK ? "" : pn_runtime_message(rt), "");
  sweep("runtime_filter", from_script, &rt);
  pn_runtime_close(rt);
  remove_folder();
  CHECK_DONE();
}
