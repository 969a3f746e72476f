/*
** two_runtimes.c: two runtimes in two threads. One trains without end; the other finishes its own work, then
** cancels the first from outside, which afterwards still answers with what it has learnt.
**
**   cc two_runtimes.c $(pkg-config --cflags --libs penumbra) -lpthread -o two_runtimes
*/
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <penumbra.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static const char trainer[] = "local pn = require 'penumbra'\n"
                              "pn.seed(1)\n"
                              "local x = pn.randn(256, 4)\n"
                              "local truth = pn.tensor{1.0, -2.0, 3.0, 0.5}\n"
                              "local y = x:matmul(truth)\n"
                              "weights = pn.param(pn.zeros(4))\n"
                              "steps = 0\n"
                              "while true do\n"
                              "  local g = pn.grad(((x:matmul(weights) - y) ^ 2):mean(), {weights})\n"
                              "  weights:set((weights - g[1] * 0.1):detach())\n"
                              "  steps = steps + 1\n"
                              "end\n";

static const char sampler[] = "local pn = require 'penumbra'\n"
                              "local inside, n = 0, 0\n"
                              "for batch = 1, 200 do\n"
                              "  local p = pn.rand(1000, 2)\n"
                              "  inside = inside + (p * p):sum(2):lt(1):sum():item()\n"
                              "  n = n + 1000\n"
                              "end\n"
                              "estimate = 4 * inside / n\n";

/* Runs the trainer; only pn_runtime_cancel ends it. */
static void *train(void *data) {
  static const pn_status stopped = PN_CANCELLED;
  pn_status status = pn_runtime_run_string(data, trainer, sizeof trainer - 1, "trainer");
  if (status == stopped) return NULL;
  return (void *)pn_status_name(status);
}

static double milliseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int report(const char *who, const pn_runtime *rt) {
  printf("%s: %s: %s\n", who, pn_status_name(pn_runtime_status(rt)), pn_runtime_message(rt));
  return 1;
}

/* What the trainer has learnt when it was cancelled. */
static int show_weights(pn_runtime *rt) {
  pn_array w = {0};
  double steps;
  if (pn_runtime_get_array(rt, "weights", &w) || w.ndim != 1 || w.shape[0] != 4) return report("trainer", rt);
  const double *v = w.data;
  printf("weights %.4f %.4f %.4f %.4f", v[0], v[1], v[2], v[3]);
  if (pn_runtime_get_number(rt, "steps", &steps)) return report("trainer", rt);
  printf(" after %.0f steps\n", steps);
  return 0;
}

int main(void) {
  pn_runtime_config config = {.context = {.threads = 1}, .limits = {.memory = 64 << 20}};
  pn_runtime *a = NULL, *b = NULL;
  pthread_t thread;
  void *failure = NULL;
  double estimate = 0;
  if (pn_runtime_new(&config, &a) || pn_runtime_new(&config, &b)) return 1;
  if (pthread_create(&thread, NULL, train, a)) return 1;

  int failed = pn_runtime_run_string(b, sampler, sizeof sampler - 1, "sampler") != PN_OK;
  if (failed) report("sampler", b);
  pn_runtime_get_number(b, "estimate", &estimate);
  printf("pi is about %.2f\n", estimate);
  nanosleep(&(struct timespec){0, 300000000}, NULL);

  double asked = milliseconds();
  pn_runtime_cancel(a);
  pthread_join(thread, &failure);
  printf("the trainer stopped %.0f ms after it was asked to: %s\n", milliseconds() - asked, pn_runtime_message(a));
  if (failure) printf("but as %s\n", (const char *)failure);
  failed |= failure != NULL || show_weights(a) || fabs(estimate - 3.14) > 0.05;
  pn_runtime_close(a);
  pn_runtime_close(b);
  return failed;
}
