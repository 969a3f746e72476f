/*
** sampler.c: what a leapfrog of the no-U-turn sampler costs beside the evaluation of its density, one thread: scripts'
** models as targets, 4 chains. Also effective draws per second, the least of all variables.
*/
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "../../src/penumbra.h"

static const char *const models[][2] = {
    {"eight schools, 10 numbers",
     "target = pn.model(function(m, y, sigma)\n"
     "  local mu, tau = m:sample('mu', dist.normal(0, 5)), m:sample('tau', dist.half_cauchy(5))\n"
     "  local eta = m:sample('eta', dist.normal(pn.zeros{8}, 1):independent(1))\n"
     "  m:observe('y', dist.normal(mu + tau * eta, sigma):independent(1), y)\n"
     "end):target(pn.tensor{28, 8, -3, 7, -1, 1, 18, 12}, pn.tensor{15, 10, 16, 11, 9, 11, 10, 18})\n"},
    {"regression, 300 rows, 25 numbers",
     "local x = pn.randn{300, 24}\n"
     "local y = x:matmul(pn.randn{24}) + pn.randn{300}\n"
     "target = pn.model(function(m, x, y)\n"
     "  local beta = m:sample('beta', dist.normal(pn.zeros{24}, 1):independent(1))\n"
     "  local sigma = m:sample('sigma', dist.half_normal(1))\n"
     "  m:observe('y', dist.normal(x:matmul(beta), sigma):independent(1), y)\n"
     "end):target(x, y)\n"},
    {"logistic regression, 690 rows, 15 numbers",
     "local x = pn.concatenate({pn.ones{690, 1}, pn.randn{690, 14}}, 2)\n"
     "local y = pn.rand{690}:lt(x:matmul(pn.randn{15} * 0.5):sigmoid()):to 'float64'\n"
     "target = pn.model(function(m, x, y)\n"
     "  local beta = m:sample('beta', dist.normal(pn.zeros{15}, 1):independent(1))\n"
     "  m:observe('y', dist.bernoulli{logits = x:matmul(beta)}:independent(1), y)\n"
     "end):target(x, y)\n"},
};

static pn_target *load(pn_context *c, const char *script) {
  char text[2048];
  pn_runtime *rt;
  pn_target *t = NULL;
  snprintf(text, sizeof text, "local pn = require 'penumbra' local dist = pn.dist pn.seed(1)\n%s", script);
  if (pn_runtime_new(NULL, &rt) != PN_OK) return NULL;
  if (pn_runtime_run_string(rt, text, (size_t)-1, NULL) != PN_OK || pn_runtime_target(rt, "target", c, &t) != PN_OK)
    fprintf(stderr, "%s\n", pn_runtime_message(rt));
  pn_runtime_close(rt);
  return t;
}

/* Nanoseconds of the processor, whatever else it does. */
static double now(void) { return (double)clock() * (1e9 / CLOCKS_PER_SEC); }

/* Nanoseconds of one evaluation. */
static double evaluation(pn_context *c, pn_target *t) {
  enum { CALLS = 2000 };
  double z[64], gradient[64], lp;
  for (int64_t i = 0; i < pn_target_size(t); i++) z[i] = 0.01 * (double)i;
  double start = now();
  for (int k = 0; k < CALLS; k++) pn_target_evaluate(c, t, z, &lp, gradient);
  return (now() - start) / CALLS;
}

/* Sum over the draws of the leapfrogs. */
static double leapfrogs(pn_context *c, const pn_sampler *s) {
  pn_tensor *t = pn_sampler_statistics(c, s);
  double sum = 0;
  for (int64_t i = 0; i < pn_tensor_numel(t) / 7; i++) sum += ((const double *)pn_tensor_data(t))[7 * i + 4];
  return sum;
}

static double least_effective(pn_context *c, const pn_sampler *s) {
  pn_tensor *t = pn_draws_summary(c, pn_sampler_draws(c, s));
  double least = 1e30;
  for (int64_t i = 0; i < pn_tensor_numel(t) / 9; i++) {
    double ess = ((const double *)pn_tensor_data(t))[9 * i + 6];
    if (ess < least) least = ess;
  }
  return least;
}

static void bench(const char *name, const char *script) {
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1, .seed = 1});
  size_t mark = pn_scope_open(c);
  pn_target *t = load(c, script);
  pn_sampler *s = pn_target_sampler(c, t, &(pn_sampler_config){.warmup = 1000, .draws = 2000}, NULL, NULL);
  double ns = 1e30, best = 1e30, all = 0, before = 0;
  pn_sampler_run(c, s, 1000);
  for (int block = 0; block < 20; block++) { /* in turns, the best of several rounds */
    double once = evaluation(c, t), start = now();
    pn_sampler_run(c, s, 100);
    double spent = now() - start, so_far = leapfrogs(c, s);
    all += spent;
    if (once < ns) ns = once;
    if (spent / (so_far - before) < best) best = spent / (so_far - before);
    before = so_far;
  }
  printf("%s: evaluation\t%.0f\tns\t\n", name, ns);
  printf("  leapfrog\t%.0f\tns\t\n", best);
  printf("  leapfrog / evaluation\t%.2f\t\t1.2\n", best / ns);
  printf("  least effective draws per second\t%.0f\t1/s\t\n", least_effective(c, s) / all * 1e9);
  pn_sampler_free(s);
  pn_target_free(t);
  pn_scope_close(c, mark);
  pn_context_close(c);
}

int main(void) {
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) bench(models[i][0], models[i][1]);
  return 0;
}
