/*
** runtime_limit_test.c: what ends when its time is over. spec/c/runtime_limit.lua lists every function that a safe
** script finds, with the largest inputs for it; each runs, again and again, under a short limit of time, and must end
** soon after it in time of the processor, which a loaded machine does not stretch.
*/
#include <stdlib.h>
#include <time.h>

#include "check.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const double SLOWER = 20;
#else
static const double SLOWER = 1;
#endif

static const double LIMIT = 0.015, MOST = 0.5; /* seconds */

static void show(void *data, const char *text, size_t length) {
  (void)data;
  fwrite(text, 1, length, stdout);
}

static double cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static pn_status run(pn_runtime *rt, const char *script) { return pn_runtime_run_string(rt, script, (size_t)-1, NULL); }

static void limited(pn_runtime *rt, int k) {
  pn_limits none = {.memory = (size_t)1 << 30}, some = none;
  some.seconds = LIMIT;
  CHECK_INT(pn_runtime_set_number(rt, "k", k), PN_OK);
  CHECK_INT(pn_runtime_set_limits(rt, &some), PN_OK);
  double start = cpu();
  pn_status s = run(rt, "cases[k // 1 | 0].run()");
  double took = cpu() - start;
  char message[200];
  snprintf(message, sizeof message, "%.199s", pn_runtime_message(rt));
  CHECK_INT(pn_runtime_set_limits(rt, &none), PN_OK);
  bool right = s == PN_OK || s == PN_CANCELLED || s == PN_NOMEM;
  if (!check_record(right && took < LIMIT + MOST * SLOWER)) {
    printf("%d: %s \"%s\" after %.2f s of the processor: ", k, pn_status_name(s), message, took);
    run(rt, "print(cases[k // 1 | 0].name)");
  }
  if (getenv("PN_SHOW") && took > LIMIT + 0.1) {
    printf("%s after %.2f s: ", pn_status_name(s), took);
    run(rt, "print(cases[k // 1 | 0].name)");
  }
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  pn_runtime_config cfg = {.context = {.threads = 1}, .limits = {.memory = (size_t)1 << 30}, .output = show};
  pn_runtime *rt = NULL;
  double n = 0;
  CHECK_INT(pn_runtime_new(&cfg, &rt), PN_OK);
  CHECK_INT(pn_runtime_run_file(rt, argc > 1 ? argv[1] : "spec/c/runtime_limit.lua"), PN_OK);
  CHECK_STR(pn_runtime_message(rt), "");
  CHECK_INT(run(rt, "n = #cases"), PN_OK);
  CHECK_INT(pn_runtime_get_number(rt, "n", &n), PN_OK);
  CHECK(n > 100);
  for (int k = 1; k <= (int)n; k++) limited(rt, k);
  pn_runtime_close(rt);
  CHECK_DONE();
}
