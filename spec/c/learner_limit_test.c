/*
** learner_limit_test.c: a learner in a host's runtime. A batch that runs into a limit of instructions, memory or time,
** wherever that is, leaves posterior and memory at the step before, to the bit; given again, it leaves what a learner
** has that was never disturbed.
*/
#include "check.h"

static const char script[] =
    "local pn = require 'penumbra' local nn = pn.nn local learner "
    "function start() learner = pn.continual.learner { network = nn.sequential { nn.linear(2, 3), nn.tanh(), "
    "nn.linear(3, 1) }, likelihood = 'bernoulli', seed = 3, memory = { size = 4 }, "
    "forget = pn.continual.bayesian_forgetting { rate = 0.1 }, steps = { first = 25, later = 25 }, "
    "draws = { train = 2, sites = 20, predict = 10 } } end "
    "function observe(x, y) learner:observe(x, y) end "
    "function known() local q, p, m = learner.posterior, learner.projection, learner.memory "
    "return q.precision_mean, q.precision, p.precision_mean, p.precision, m.x, m.y, m.age end "
    "start()";

enum { ROWS = 6, KINDS = 7, WEIGHTS = 13, KEPT = 4 };

typedef struct {
  double values[KINDS][WEIGHTS];
} knowledge;

static pn_runtime *fresh(void) {
  pn_runtime_config cfg = {.context = {.threads = 1}};
  pn_runtime *rt = NULL;
  CHECK_INT(pn_runtime_new(&cfg, &rt), PN_OK);
  CHECK_INT(pn_runtime_run_string(rt, script, (size_t)-1, NULL), PN_OK);
  return rt;
}

static void limit(pn_runtime *rt, pn_limits l) { CHECK_INT(pn_runtime_set_limits(rt, &l), PN_OK); }

static pn_status observe(pn_runtime *rt, int batch) {
  double x[ROWS * 2], y[ROWS];
  for (int i = 0; i < ROWS; i++) {
    x[2 * i] = sin(7.0 * batch + 3.0 * i), x[2 * i + 1] = cos(5.0 * batch + 2.0 * i);
    y[i] = x[2 * i] > x[2 * i + 1];
  }
  pn_array in[2] = {{.dtype = PN_FLOAT64, .ndim = 2, .shape = {ROWS, 2}, .data = x},
                    {.dtype = PN_FLOAT64, .ndim = 1, .shape = {ROWS}, .data = y}};
  return pn_runtime_call(rt, "observe", 2, in, 0, NULL);
}

static knowledge known(pn_runtime *rt) {
  knowledge k;
  memset(&k, 0, sizeof k);
  limit(rt, (pn_limits){0});
  pn_array out[KINDS] = {{0}};
  for (int i = 0; i < KINDS; i++) {
    out[i].data = k.values[i];
    out[i].dtype = PN_FLOAT64;
    out[i].capacity = WEIGHTS;
  }
  CHECK_INT(pn_runtime_call(rt, "known", 0, NULL, KINDS, out), PN_OK);
  CHECK_INT(out[0].shape[0], WEIGHTS);
  CHECK_INT(out[4].shape[0], KEPT);
  return k;
}

static bool same(const knowledge *a, const knowledge *b) { return memcmp(a, b, sizeof *a) == 0; }

/* The k-th of limits that grow until a batch fits. */
static pn_limits growing(int kind, int k, size_t held) {
  double by = pow(2, k);
  switch (kind) {
  case 0: return (pn_limits){.instructions = (uint64_t)(300 * by)};
  case 1: return (pn_limits){.memory = held + (size_t)(1000 * by)};
  default: return (pn_limits){.seconds = 2e-4 * by};
  }
}

static void disturbed(int kind, const knowledge *before, const knowledge *after) {
  pn_runtime *rt = fresh();
  CHECK_INT(observe(rt, 0), PN_OK);
  int failed = 0;
  pn_status got = PN_LIMIT;
  for (int k = 0; k < 24 && got != PN_OK; k++) {
    CHECK_INT(pn_runtime_run_string(rt, "collectgarbage() collectgarbage()", (size_t)-1, NULL), PN_OK);
    limit(rt, growing(kind, k, pn_runtime_memory(rt, NULL)));
    got = observe(rt, 1);
    knowledge now = known(rt);
    if (got != PN_OK) failed++;
    if (!check_record(same(&now, got == PN_OK ? after : before)))
      printf("limits of kind %d, the %d-th: not the step %s\n", kind, k, got == PN_OK ? "after" : "before");
  }
  CHECK_INT(got, PN_OK);
  CHECK(failed >= 2);
  pn_runtime_close(rt);
}

int main(void) {
  pn_runtime *rt = fresh();
  CHECK_INT(observe(rt, 0), PN_OK);
  knowledge before = known(rt);
  CHECK_INT(observe(rt, 1), PN_OK);
  knowledge after = known(rt);
  CHECK(!same(&before, &after));
  pn_runtime_close(rt);
  for (int kind = 0; kind < 3; kind++) disturbed(kind, &before, &after);
  CHECK_DONE();
}
