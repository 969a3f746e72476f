/*
** draws_limit_test.c: statistics of many draws, sorting and transport in a host's runtime: whatever a call is at when
** its time is over, it returns within 0.2 s of the processor's time, which a loaded machine does not stretch; and what
** was quadratic in the number of draws is done in time.
*/
#include <time.h>
#include "check.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const double SLOWER = 20;
#else
static const double SLOWER = 1;
#endif

static const double LIMIT = 0.03, MOST = 0.2; /* seconds */

/* x and y are made without a limit; f is one call. */
static const struct {
  const char *name, *make, *call;
} cases[] = {
    {"psis of a long tail", "x, y = pn.randn(700000, 1), pn.full({1}, 1e-30)", "pn.infer.psis(x, y)"},
    {"vimco of one datum", "x, y = pn.randn(4000000, 1), pn.randn(4000000, 1)", "pn.infer.vimco(x, y)"},
    {"a stream with tails", "s = pn.infer.stream{draws = 1000} x = pn.randn(20, 100000)", "s:add(x):add(x):pareto_k()"},
    {"sort", "x = pn.randn(4000000)", "x:argsort()"},
    {"sort of float32", "x = pn.randn({4000000}, {dtype = 'float32'})", "x:sort(1, true)"},
    {"quantiles", "x = pn.randn(2000000, 2)", "pn.metrics.quantiles(x, {0.1, 0.9})"},
    {"transport", "x, y = pn.randn(3000, 2), pn.randn(3000, 2)", "pn.metrics.wasserstein(x, y)"},
    {"transport that takes costs", "x = pn.zeros(3, 4500, 1) y = pn.full({3, 4500, 4500}, 0 / 0)",
     "pn.metrics.wasserstein(x, x, {cost = y})"},
    {"transport of images", "x, y = pn.rand(1, 20000), pn.rand(1, 20000)", "pn.metrics.image_wasserstein(x, y)"},
    {"transport of equal images", "x = pn.zeros(3500, 3500)", "pn.metrics.image_wasserstein(x, x)"},
    {"energy score", "x, y = pn.randn(1, 1), pn.randn(30000, 1, 1)", "pn.metrics.energy_score(x, y)"},
    {"resampling", "x = pn.randn(2000000, 1)", "pn.infer.sir(x, 2000000)"},
};

static double cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static pn_status run(pn_runtime *rt, const char *script) { return pn_runtime_run_string(rt, script, (size_t)-1, NULL); }

static void check_limit(pn_runtime *rt, const char *name, const char *make, const char *call) {
  char script[256];
  pn_limits none = {0}, some = {.seconds = LIMIT};
  if (!check_record(run(rt, make) == PN_OK)) printf("%s: %s\n", name, pn_runtime_message(rt));
  snprintf(script, sizeof script, "while true do %s end", call);
  CHECK_INT(pn_runtime_set_limits(rt, &some), PN_OK);
  double start = cpu();
  pn_status s = run(rt, script);
  double took = cpu() - start;
  if (!check_record(s == PN_TIME && took < LIMIT + MOST * SLOWER))
    printf("%s: %s after %.2f s of the processor: %s\n", name, pn_status_name(s), took, pn_runtime_message(rt));
  CHECK_INT(pn_runtime_set_limits(rt, &none), PN_OK);
  CHECK_INT(run(rt, "x, y, s = nil collectgarbage() collectgarbage()"), PN_OK);
}

/* A stream is all there or says that it is not, wherever an addition was cancelled. */
static void test_torn_stream(pn_runtime *rt) {
  pn_limits none = {0};
  double torn = 0;
  CHECK_INT(run(rt, "x, torn = pn.zeros(20, 100000), 0"), PN_OK);
  for (int k = 0; k < 8 || (torn == 0 && k < 64); k++) { /* some are cancelled before or between additions */
    pn_limits some = {.seconds = 2e-3 * (k % 8 + 1) * (1 << k / 8)};
    CHECK_INT(run(rt, "s = pn.infer.stream{draws = 1000}"), PN_OK);
    CHECK_INT(pn_runtime_set_limits(rt, &some), PN_OK);
    CHECK_INT(run(rt, "while true do s:add(x) end"), PN_TIME);
    CHECK_INT(pn_runtime_set_limits(rt, &none), PN_OK);
    CHECK_INT(run(rt, "ok, message = pcall(s.elbo, s) "
                      "if not ok and message:find 'cancelled half%-way' then torn = torn + 1 "
                      "assert(not pcall(s.add, s, x)) "
                      "elseif ok then assert(message:eq(0):all():item()) else assert(message:find 'got none') end"),
              PN_OK);
    CHECK_STR(pn_runtime_message(rt), "");
    CHECK_INT(pn_runtime_get_number(rt, "torn", &torn), PN_OK);
  }
  CHECK(torn > 0);
}

/* ---- summaries ---- */

static void test_summary(pn_context *c, int64_t chains, int64_t draws) {
  size_t scope = pn_scope_open(c);
  pn_tensor *x = pn_randn(c, NULL, PN_FLOAT64, 3, (const int64_t[]){chains, draws, 1});
  pn_context_set_deadline(c, LIMIT);
  double start = cpu();
  CHECK(!pn_draws_summary(c, x));
  CHECK(cpu() - start < LIMIT + MOST * SLOWER);
  CHECK_FAIL(c, PN_TIME, "time limit");
  pn_context_set_deadline(c, 0);
  pn_scope_close(c, scope);
}

/* Draws that rise take all lags: once these were added up one after another, for minutes. */
static void test_rising(pn_context *c) {
  size_t scope = pn_scope_open(c);
  pn_tensor *x = pn_reshape(c, pn_linspace(c, PN_FLOAT64, 0, 1, 400000), 3, (const int64_t[]){1, 400000, 1});
  double start = cpu();
  pn_context_set_deadline(c, 120);
  CHECK(pn_draws_summary(c, x));
  CHECK(cpu() - start < 2 * SLOWER);
  pn_context_set_deadline(c, 0);
  pn_scope_close(c, scope);
}

static void test_summaries(void) {
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1});
  test_summary(c, 1, 1 << 21);
  test_summary(c, 1 << 19, 4);
  test_rising(c);
  pn_context_close(c);
}

int main(void) {
  pn_runtime_config cfg = {.context = {.threads = 1}};
  pn_runtime *rt = NULL;
  CHECK_INT(pn_runtime_new(&cfg, &rt), PN_OK);
  CHECK_INT(run(rt, "pn = require 'penumbra'"), PN_OK);
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
    check_limit(rt, cases[k].name, cases[k].make, cases[k].call);
  test_torn_stream(rt);
  test_summaries();
  pn_runtime_close(rt);
  CHECK_DONE();
}
