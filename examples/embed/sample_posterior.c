/*
** sample_posterior.c: a host program whose model is a script. The script leaves target = model:target(...) in a global;
** the host takes its log density into a context of its own, closes the runtime, evaluates the density as plain C calls
** (in a second thread too), samples it and prints a summary. The same density written in C is sampled beside it.
**
**   cc sample_posterior.c $(pkg-config --cflags --libs penumbra) -lm -lpthread -o sample_posterior
**   ./sample_posterior model.lua     the posterior of a script of yours
**   ./sample_posterior [--quick]     eight schools, and scripts that fail
*/
#include <math.h>
#include <penumbra.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char eight_schools[] =
    "local pn = require 'penumbra'\n"
    "local dist = pn.dist\n"
    "local model = pn.model(function(m, y, sigma)\n"
    "  local mu = m:sample('mu', dist.normal(0, 5))\n"
    "  local tau = m:sample('tau', dist.half_cauchy(5))\n"
    "  local eta = m:sample('eta', dist.normal(pn.zeros{8}, 1):independent(1))\n"
    "  local theta = m:deterministic('theta', mu + tau * eta)\n"
    "  m:observe('y', dist.normal(theta, sigma):independent(1), y)\n"
    "end)\n"
    "target = model:target(pn.tensor{28, 8, -3, 7, -1, 1, 18, 12}, pn.tensor{15, 10, 16, 11, 9, 11, 10, 18})\n";

enum { N = 10 }; /* mu, log tau, eta */

/* The same by hand: z = mu, t = log tau, eta; theta = mu + tau eta. */
static pn_status by_hand(void *data, const double *z, double *log_density, double *gradient) {
  static const double y[] = {28, 8, -3, 7, -1, 1, 18, 12}, sigma[] = {15, 10, 16, 11, 9, 11, 10, 18};
  const double half_log_2pi = 0.91893853320467274, pi = 3.14159265358979324;
  double mu = z[0], tau = exp(z[1]), square = tau * tau / 25;
  (void)data;
  *log_density = -half_log_2pi - log(5) - mu * mu / 50 + log(2 / (5 * pi)) - log1p(square) + z[1];
  gradient[0] = -mu / 25;
  gradient[1] = 1 - 2 * square / (1 + square);
  for (int j = 0; j < 8; j++) {
    double eta = z[2 + j], r = (y[j] - mu - tau * eta) / sigma[j];
    *log_density -= 2 * half_log_2pi + log(sigma[j]) + (eta * eta + r * r) / 2;
    gradient[0] += r / sigma[j];
    gradient[1] += r / sigma[j] * tau * eta;
    gradient[2 + j] = r / sigma[j] * tau - eta;
  }
  return PN_OK;
}

/* The target of a script, in context c; NULL, after saying why. The script's runtime does not outlive the call. */
static pn_target *load(pn_context *c, const char *path, const char *script) {
  pn_runtime_config config = {.limits = {.memory = 64 << 20, .instructions = 10000000, .seconds = 2, .output = 10000}};
  pn_runtime *rt;
  pn_target *t = NULL;
  if (pn_runtime_new(&config, &rt) != PN_OK) return NULL;
  pn_status status = path ? pn_runtime_run_file(rt, path) : pn_runtime_run_string(rt, script, (size_t)-1, "model");
  if (status == PN_OK) status = pn_runtime_target(rt, "target", c, &t);
  if (status != PN_OK) printf("no target (%s): %s\n", pn_status_name(status), pn_runtime_message(rt));
  pn_runtime_close(rt);
  return t;
}

/* Samples t and prints a line for each number of its variables; means (if not NULL) receives their means and standard
 * errors, two by two. 0 on failure. */
static int sample(pn_context *c, pn_target *t, int draws, double *means) {
  pn_sampler_config config = {.chains = 4, .warmup = draws, .draws = draws, .target_accept = 0.9};
  size_t mark = pn_scope_open(c);
  int64_t n = pn_target_num_values(t), rows = (int64_t)config.chains * draws, shape[] = {config.chains, draws, n};
  pn_sampler *s = pn_target_sampler(c, t, &config, NULL, NULL);
  while (s && !pn_sampler_finished(s) && pn_sampler_run(c, s, 100) == PN_OK) {
    /* a host would show its progress here, or answer to its user */
  }
  pn_tensor *z = s ? pn_sampler_draws(c, s) : NULL;
  double *values = z ? malloc((size_t)(rows * n) * sizeof *values) : NULL;
  pn_tensor *summary = NULL;
  if (values && pn_target_constrain(c, t, rows, pn_tensor_data(z), values) == PN_OK)
    summary = pn_draws_summary(c, pn_from_data(c, PN_FLOAT64, 3, shape, values));
  const double *row = summary ? pn_tensor_data(summary) : NULL;
  if (row) printf("%-10s %9s %9s %9s %9s %9s\n", "", "mean", "sd", "R-hat", "ESS", "error");
  for (int i = 0; row && i < pn_target_num_variables(t); i++) {
    const pn_variable *v = pn_target_variable(t, i);
    for (int64_t k = 0; k < v->size; k++, row += 9) {
      printf("%-6s %3lld %9.3f %9.3f %9.3f %9.0f %9.3f\n", v->name, (long long)k + 1, row[0], row[1], row[5], row[6],
             row[8]);
      if (means) means[2 * (v->first + k)] = row[0], means[2 * (v->first + k) + 1] = row[8];
    }
  }
  if (!row) printf("not sampled: %s\n", pn_context_message(c));
  free(values);
  pn_sampler_free(s);
  pn_scope_close(c, mark);
  return row != NULL;
}

/* ---- the demonstration ---- */

typedef struct {
  pn_target *target;
  pn_context *c;
  double log_density, gradient[N];
} request;

static const double point[N] = {3, 0.5, 1, -1, 0.5, 0, 0.2, -0.3, 1.5, 0.7};

static void *evaluate(void *data) {
  request *r = data;
  if (pn_target_evaluate(r->c, r->target, point, &r->log_density, r->gradient) != PN_OK) r->log_density = NAN;
  return NULL;
}

/* Do the script's density and the one by hand agree, evaluated in two threads? */
static int agree(pn_context *c, pn_target *t) {
  pn_context *other = pn_context_new(&(pn_context_config){.threads = 1});
  request here = {.c = c, .target = t}, there = {.c = other, .target = pn_target_copy(other, t)};
  pthread_t thread;
  double log_density, gradient[N], worst = 0;
  if (!there.target || pthread_create(&thread, NULL, evaluate, &there)) return 0;
  evaluate(&here);
  pthread_join(thread, NULL);
  by_hand(NULL, point, &log_density, gradient);
  printf("log density %.9f, in a thread %.9f, by hand %.9f\n", here.log_density, there.log_density, log_density);
  for (int i = 0; i < N; i++) worst = fmax(worst, fabs(here.gradient[i] - gradient[i]));
  int right = worst < 1e-9 && fabs(here.log_density - log_density) < 1e-9 && here.log_density == there.log_density;
  pn_target_free(there.target);
  pn_context_close(other);
  return right;
}

/* Scripts without a usable target, and what the host is told. */
static int failures(pn_context *c) {
  static const struct {
    const char *title, *script;
  } bad[] = {
      {"a mistake", "local pn = require 'penumbra'\n"
                    "target = pn.model(function(m) m:sample('x', pn.dist.normal(0, -1)) end):target()\n"},
      {"no target", "target = 42\n"},
      {"no end", "local pn = require 'penumbra'\n"
                 "target = pn.model(function(m) while true do end end):target()\n"},
  };
  int right = 1;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    printf("%s: ", bad[i].title);
    pn_target *t = load(c, NULL, bad[i].script);
    right &= t == NULL;
    pn_target_free(t);
  }
  static const char nan[] = "local pn = require 'penumbra'\n"
                            "target = pn.model(function(m)\n"
                            "  local x = m:sample('x', pn.dist.normal(0, 1)) m:factor('f', (-x:square() - 1):log())\n"
                            "end):target()\n";
  printf("never a number: ");
  pn_target *t = load(c, NULL, nan);
  if (t) right &= !sample(c, t, 10, NULL);
  right &= t != NULL;
  pn_context_clear_error(c);
  pn_target_free(t);
  return right;
}

static int demonstrate(pn_context *c, int quick) {
  int draws = quick ? 500 : 2000, right = 0;
  double of_script[2 * 18], of_c[2 * 10];
  pn_target *t = load(c, NULL, eight_schools), *f = pn_target_of_function(c, N, by_hand, NULL);
  if (t && f && agree(c, t)) {
    puts("the script's model");
    right = sample(c, t, draws, of_script);
    puts("the density by hand");
    right = sample(c, f, draws, of_c) && right;
    double error = hypot(of_script[1], of_c[1]); /* of the means of mu */
    right = right && fabs(of_script[0] - of_c[0]) < 6 * error && error < 0.5;
  }
  pn_target_free(t);
  pn_target_free(f);
  right = failures(c) && right;
  puts(right ? "all as expected" : "not as expected");
  return !right;
}

int main(int argc, char **argv) {
  pn_context *c = pn_context_new(&(pn_context_config){.seed = 1});
  if (!c) return 1;
  int failed = 1;
  if (argc < 2 || strcmp(argv[1], "--quick") == 0) {
    failed = demonstrate(c, argc > 1);
  } else {
    pn_target *t = load(c, argv[1], NULL);
    failed = !t || !sample(c, t, 1000, NULL);
    pn_target_free(t);
  }
  pn_context_close(c);
  return failed;
}
