/*
** sweep_sampler_test.c: plans that are copied and mapped, populations, samplers, targets and summaries of draws survive
** the failure of each of their allocations.
*/
#include "alloc_sweep.h"
#include "hmc_fixture.h"

#include "../../src/base/context.h"

static pn_plan *make_plan(pn_context *c) {
  pn_tensor *a = correlated_matrix(c);
  return a ? density_plan(c, CORRELATED, correlated, a) : NULL;
}

/* z -> 2 z */
static pn_plan *make_values(pn_context *c) {
  const int64_t n = CORRELATED;
  pn_tensor *z = pn_zeros(c, PN_FLOAT64, 1, &n), *inside;
  if (!z || pn_capture_begin(c, 1, &z, &inside)) return NULL;
  pn_tensor *y = pn_mul(c, inside, pn_scalar(c, PN_FLOAT64, 2));
  return pn_capture_end(c, 1, &y);
}

static bool copies(pn_context *c, const void *data) {
  (void)data;
  const int64_t rows[] = {5, CORRELATED};
  pn_plan *plan = make_plan(c), *values = make_values(c), *copy = pn_plan_copy(c, plan),
          *second = pn_plan_copy(c, values);
  pn_tensor *y = copy && second ? pn_plan_map(c, second, pn_full(c, PN_FLOAT64, 2, rows, 1)) : NULL;
  bool done = y && ((const double *)pn_tensor_data(y))[19] == 2;
  pn_plan_unref(copy);
  pn_plan_unref(second);
  pn_plan_unref(values);
  pn_plan_unref(plan);
  return done;
}

static bool populations(pn_context *c, const void *data) {
  const int64_t rows[] = {5, CORRELATED};
  (void)data;
  pn_plan *values = make_values(c);
  pn_population *q = pn_population_new(c, values);
  pn_tensor *y = q ? pn_population_evaluate(c, q, pn_full(c, PN_FLOAT64, 2, rows, 1)) : NULL;
  bool done = y && ((const double *)pn_tensor_data(y))[19] == 2;
  pn_population_free(q);
  pn_plan_unref(values);
  return done;
}

static bool sampling(pn_context *c, const void *data) {
  const pn_sampler_config *config = data;
  const int64_t n[] = {config->chains, CORRELATED};
  pn_plan *plan = make_plan(c);
  pn_sampler *s = pn_sampler_new(c, plan, config, plan ? pn_zeros(c, PN_FLOAT64, 2, n) : NULL, NULL);
  pn_tensor *draws = NULL;
  bool done = s && pn_sampler_run(c, s, 5000) == PN_OK && (draws = pn_sampler_draws(c, s)) &&
              pn_sampler_statistics(c, s) && pn_sampler_metric(c, s) && pn_draws_summary(c, draws);
  pn_sampler_free(s);
  pn_plan_unref(plan);
  return done;
}

static pn_status normal(void *data, const double *z, double *log_density, double *gradient) {
  (void)data;
  *log_density = -z[0] * z[0] / 2;
  gradient[0] = -z[0];
  return PN_OK;
}

static bool targets(pn_context *c, const void *data) {
  static const pn_variable v[] = {{.name = "first"}, {.name = "rest", .ndim = 1, .shape = {3}}};
  (void)data;
  double z[CORRELATED] = {1, 2, 3, 4}, values[CORRELATED] = {0}, lp, gradient[CORRELATED];
  pn_plan *density = make_plan(c), *doubled = make_values(c);
  pn_target *t = density && doubled ? pn_target_new(c, density, doubled, 2, v) : NULL, *copy = pn_target_copy(c, t);
  pn_target *f = copy ? pn_target_of_function(c, 1, normal, NULL) : NULL;
  pn_sampler *s =
      f ? pn_target_sampler(c, f, &(pn_sampler_config){.chains = 2, .warmup = 5, .draws = 5}, NULL, NULL) : NULL;
  bool done = s && pn_sampler_run(c, s, 100) == PN_OK && pn_target_evaluate(c, copy, z, &lp, gradient) == PN_OK &&
              pn_target_constrain(c, copy, 1, z, values) == PN_OK && values[3] == 8;
  pn_sampler_free(s);
  pn_target_free(f);
  pn_target_free(copy);
  pn_target_free(t);
  pn_plan_unref(doubled);
  pn_plan_unref(density);
  return done;
}

/* A script's target in a context of the host. */
static bool from_script(pn_context *c, const void *data) {
  static const char script[] = "local pn = require 'penumbra'\n"
                               "target = pn.model(function(m, y)\n"
                               "  local s = m:sample('s', pn.dist.gamma(2, 1))\n"
                               "  m:observe('y', pn.dist.normal(0, s):expand(3):independent(1), y)\n"
                               "end):target(pn.tensor{1, 2, 3})\n";
  pn_runtime *rt;
  pn_target *t = NULL;
  double z = 0.5, lp, gradient, value;
  (void)data;
  CHECK(pn_runtime_new(&(pn_runtime_config){.context = {.threads = 1}}, &rt) == PN_OK);
  CHECK_STR(pn_runtime_run_string(rt, script, sizeof script - 1, NULL) == PN_OK ? "" : pn_runtime_message(rt), "");
  pn_status s = pn_runtime_target(rt, "target", c, &t);
  bool refused = s == PN_NOMEM;
  if (s && !refused) printf("%s\n", pn_runtime_message(rt));
  pn_runtime_close(rt);
  if (s) { /* the context is clean: what failed is told by the runtime */
    if (refused && pn_context_status(c) == PN_OK) pni_fail(c, s, "passed on");
    return false;
  }
  bool done =
      pn_target_evaluate(c, t, &z, &lp, &gradient) == PN_OK && pn_target_constrain(c, t, 1, &z, &value) == PN_OK;
  pn_target_free(t);
  return done;
}

int main(void) {
  static const pn_sampler_config runs[] = {{.chains = 2, .warmup = 22, .draws = 6},
                                           {.chains = 2, .warmup = 22, .draws = 6, .metric = PN_METRIC_DENSE},
                                           {.chains = 2, .warmup = 22, .draws = 6, .metric = PN_METRIC_DIAGONAL},
                                           {.chains = 2, .warmup = 22, .draws = 6, .schedule = PN_SCHEDULE_STAN},
                                           {.chains = 3, .warmup = -1, .draws = 6, .max_steps = 3}};
  sweep("plan_copy, plan_map", copies, NULL);
  sweep("population", populations, NULL);
  for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) sweep("sampler", sampling, &runs[k]);
  sweep("targets", targets, NULL);
  sweep("runtime_target", from_script, NULL);
  CHECK_DONE();
}
