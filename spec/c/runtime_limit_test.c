/*
** runtime_limit_test.c: what ends when its time is over. spec/c/runtime_limit.lua lists every function that a safe
** script finds, with the largest inputs for it, and named cases; spec/c/limit_sweep.lua draws calls of everything that
** Penumbra has, some of them here and all of them, again and again, under `make soak`. Each runs under a short limit of
** time, or is cancelled from another thread, and must end soon after it. That is judged by the processor time of the
** process outside of the kernel: how long the kernel takes to zero the pages of a fresh block is the machine's business
** (some hundredths of a second for 2 MiB have been seen on a virtual one), and blocks are touched in pieces. Caches and
** a neighbour on the core stretch that time, too: a case that took too long is run again, up to twice, and its best
** counts.
*/
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "check.h"
#include "inner.h"
#include "soak.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const double SLOWER = 20;
#else
static const double SLOWER = 1;
#endif

static const double MOST = 0.2; /* seconds */

static void show(void *data, const char *text, size_t length) {
  bool *silent = data;
  if (!*silent) fwrite(text, 1, length, stdout);
}

/* Of the process outside of the kernel: its other thread sleeps. */
static double cpu(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return (double)u.ru_utime.tv_sec + (double)u.ru_utime.tv_usec * 1e-6;
}

static pn_status run(pn_runtime *rt, const char *script) { return pn_runtime_run_string(rt, script, (size_t)-1, NULL); }

/* ---- cancellation from another thread, which says at which processor time of the runner it came ---- */

typedef struct {
  pthread_t thread;
  pn_runtime *rt;
  atomic_bool asked, stop;
  _Atomic double at;
} canceller;

static void *cancel(void *data) {
  canceller *k = data;
  while (!atomic_load(&k->stop)) {
    nanosleep(&(struct timespec){0, 500000}, NULL);
    if (!atomic_load(&k->asked) || cpu() < k->at) continue;
    k->at = cpu();
    atomic_store(&k->asked, false);
    pn_runtime_cancel(k->rt);
  }
  return NULL;
}

/* ---- one case ---- */

typedef struct {
  pn_runtime *rt;
  canceller *by; /* NULL: a limit of time ends the case */
  bool silent;
} setting;

/* Processor time of the case after its end was asked for. */
static double overtime(setting *s, const char *script, pn_status *status, char *message, size_t size) {
  pn_limits none = {.memory = (size_t)1 << 30}, some = none;
  CHECK_INT(pn_runtime_get_number(s->rt, "limit", &some.seconds), PN_OK);
  if (!s->by) CHECK_INT(pn_runtime_set_limits(s->rt, &some), PN_OK);
  double start = cpu(), asked = start + some.seconds;
  if (s->by) {
    s->by->at = asked;
    atomic_store(&s->by->asked, true);
  }
  *status = run(s->rt, script);
  double end = cpu();
  snprintf(message, size, "%s", pn_runtime_message(s->rt));
  if (s->by && atomic_exchange(&s->by->asked, false)) asked = end; /* it was over before */
  if (s->by && asked != end) asked = s->by->at;
  CHECK_INT(pn_runtime_set_limits(s->rt, &none), PN_OK);
  if (s->by) {
    nanosleep(&(struct timespec){0, 1000000}, NULL); /* a cancellation on its way arrives */
    pn_runtime_uncancel(s->rt);
  }
  return end - asked;
}

static bool ended(pn_status s) { return s == PN_OK || s == PN_CANCELLED || s == PN_TIME || s == PN_NOMEM; }

/* `script` runs case k, `name` prints it. */
static void limited(setting *s, int k, const char *prepare, const char *script, const char *name, bool any) {
  char message[200] = "";
  pn_status status = PN_OK;
  double over = 0;
  s->silent = true;
  CHECK_INT(pn_runtime_set_number(s->rt, "k", k), PN_OK);
  for (int again = 0; again < 3 && (again == 0 || over > MOST * SLOWER); again++) {
    CHECK_INT(run(s->rt, prepare), PN_OK);
    double took = overtime(s, script, &status, message, sizeof message);
    over = again && over < took ? over : took;
  }
  s->silent = false;
  if (!check_record((any || ended(status)) && over <= MOST * SLOWER)) {
    printf("%d: %s \"%s\" %.2f s of the processor after its end: ", k, pn_status_name(status), message, over);
    run(s->rt, name);
  } else if (getenv("PN_SHOW") && over > 0.05) {
    printf("%s %.2f s after: ", pn_status_name(status), over);
    run(s->rt, name);
  }
}

static pn_runtime *runtime_of(setting *s, const char *file) {
  pn_runtime_config cfg = {
      .context = {.threads = 1}, .limits = {.memory = (size_t)1 << 30}, .output = show, .output_data = &s->silent};
  CHECK_INT(pn_runtime_new(&cfg, &s->rt), PN_OK);
  give_core(s->rt);
  CHECK_INT(pn_runtime_set_number(s->rt, "seed", (double)soak_seed()), PN_OK);
  CHECK_INT(pn_runtime_set_number(s->rt, "soak", getenv("PN_SOAK") ? 1 : 0), PN_OK);
  CHECK_INT(pn_runtime_run_file(s->rt, file), PN_OK);
  CHECK_STR(pn_runtime_message(s->rt), "");
  return s->rt;
}

static int count_of(pn_runtime *rt, const char *script) {
  double n = 0;
  CHECK_INT(run(rt, script), PN_OK);
  CHECK_INT(pn_runtime_get_number(rt, "n", &n), PN_OK);
  CHECK(n > 100);
  return (int)n;
}

static void listed(const char *file) {
  setting s = {0};
  pn_runtime *rt = runtime_of(&s, file);
  int n = count_of(rt, "n = #cases");
  for (int k = 1; k <= n; k++)
    limited(&s, k, "prepare(k // 1 | 0)", "run(k // 1 | 0)", "print(cases[k // 1 | 0].name)", false);
  pn_runtime_close(rt);
}

/* Some of the calls, from a place that the seed tells; each other one is cancelled. */
static void drawn(const char *file) {
  setting s = {0};
  pn_runtime *rt = runtime_of(&s, file);
  uint64_t state = soak_seed();
  int n = count_of(rt, "n = count"), first = 1 + (int)soak_random(&state, (uint64_t)n);
  long rounds = getenv("PN_SOAK") ? soak_rounds(n) : n / 32;
  canceller by = {.rt = rt};
  CHECK_INT(pthread_create(&by.thread, NULL, cancel, &by), 0);
  for (long k = 0; k < rounds; k++) {
    s.by = k % 2 ? &by : NULL;
    limited(&s, first + (int)k, "prepare(k // 1 | 0)", "run()", "show_case()", true);
  }
  atomic_store(&by.stop, true);
  pthread_join(by.thread, NULL);
  pn_runtime_close(rt);
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc < 2) listed("spec/c/runtime_limit.lua");
  drawn(argc > 1 ? argv[1] : "spec/c/limit_sweep.lua");
  CHECK_DONE();
}
