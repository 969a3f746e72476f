/*
** particle.c: what particle filters cost, on one thread in processor time: a bootstrap filter of a linear Gaussian
** model as a hand-written loop over the library's vector functions (what the filters of spec/bench/peers are held
** against), each resampling scheme, the online filters beside the bare kernel of the exact one, and the tree of
** ancestors.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "../../src/smc/ancestry.h"
#include "../../src/smc/resampling/resampler.h"
#include "../../src/smc/kalman/kalman.h"
#include "../../src/math/vector/vector.h"

enum { LOOP_STEPS = 10, ROUNDS = 7 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* ---- the loop: x' = 0.9 x + 0.5 N(0, 1), y = x + 0.7 N(0, 1), resampled systematically at each step ---- */

typedef struct {
  double *x, *moved, *noise, *v, *w;
  int64_t n;
  uint64_t position;
} loop;

static void resample(loop *l, double total) {
  double u, sum = l->w[0];
  pni_fill_uniform_f64(1, l->position++, 0, 1, &u);
  int64_t i = 0;
  for (int64_t j = 0; j < l->n; j++) {
    double p = ((double)j + 1 - u) * (total / (double)l->n);
    while (sum < p && i < l->n - 1) sum += l->w[++i];
    l->moved[j] = l->x[i];
  }
}

/* The increment of the log-evidence. */
static double step(loop *l, double y) {
  double top = -INFINITY, total = 0, part[8] = {0};
  int64_t n = l->n;
  pni_fill_normal_f64(1, l->position, 0, (uint64_t)n, l->noise);
  l->position += (uint64_t)n;
  for (int64_t i = 0; i < n; i++) {
    double x = 0.9 * l->moved[i] + 0.5 * l->noise[i], e = y - x;
    l->x[i] = x;
    l->v[i] = e * e * (-0.5 / 0.49) - 0.5622636;
  }
  for (int64_t i = 0; i < n; i++) top = l->v[i] > top ? l->v[i] : top;
  for (int64_t i = 0; i < n; i++) l->v[i] -= top;
  pni_vector_f64(PNI_VECTOR_exp, l->v, 1, l->w, n);
  for (int64_t i = 0; i + 8 <= n; i += 8)
    for (int j = 0; j < 8; j++) part[j] += l->w[i + j];
  for (int j = 0; j < 8; j++) total += part[j];
  resample(l, total);
  return top + log(total / (double)n);
}

static void by_hand(int64_t n) {
  double *room = calloc((size_t)(5 * n), sizeof *room), best = 1e30;
  if (!room) return;
  loop l = {room, room + n, room + 2 * n, room + 3 * n, room + 4 * n, n, 0};
  int times = n < 10000 ? 200 : 1;
  for (int round = 0; round < ROUNDS; round++) {
    double start = now(), sum = 0;
    for (int t = 0; t < times * LOOP_STEPS; t++) sum += step(&l, 0.3);
    double spent = (now() - start) / ((double)times * LOOP_STEPS * (double)n);
    if (spent < best && isfinite(sum)) best = spent;
  }
  free(room);
  printf("bootstrap filter by hand, N = %lld\t%.4g\tns/particle\t\n", (long long)n, best);
}

/* ---- resampling ---- */

static void scheme(const pni_resampler *s, int64_t n) {
  double *w = malloc((size_t)n * sizeof *w), *scratch = malloc((size_t)s->scratch(n) * sizeof *scratch), best = 1e30;
  int64_t *out = malloc((size_t)n * sizeof *out);
  if (w && scratch && out) {
    pni_fill_exponential_f64(3, 0, 0, (uint64_t)n, w);
    for (int64_t i = 0; i < n; i++) w[i] *= w[i];
    for (uint64_t round = 0; round < 3 * ROUNDS; round++) {
      pni_resampling r = {NULL, w, n, n, {1, round << 32}, scratch, out};
      double start = now();
      s->run(&r);
      double spent = (now() - start) / (double)n;
      if (spent < best) best = spent;
    }
    printf("resampling, %s, N = %lld\t%.4g\tns/particle\t\n", s->name, (long long)n, best);
  }
  free(w);
  free(scratch);
  free(out);
}

/* ---- online ---- */

/* Nanoseconds per observation of f, of which `numbers` are observed. */
static double per_observation(pn_context *c, pn_filter *f, int64_t numbers, int times) {
  double y[8] = {0.3, -0.2}, best = 1e30;
  for (int round = 0; round < ROUNDS; round++) {
    double start = now();
    for (int t = 0; t < times; t++)
      if (pn_filter_observe(c, f, y, numbers, NULL)) printf("%s\n", pn_context_message(c));
    double spent = (now() - start) / times;
    if (spent < best) best = spent;
  }
  return best;
}

static double bare_kernel(pn_context *c, pn_tensor *const *in, pn_tensor *out, int times) {
  double best = 1e30;
  for (int round = 0; round < ROUNDS; round++) {
    double start = now();
    for (int t = 0; t < times; t++) pni_kalman_step(c, "bench", PNI_LANE_BEST, PNI_KALMAN_STEP, false, 9, in, out);
    double spent = (now() - start) / times;
    if (spent < best) best = spent;
  }
  return best;
}

static void exact(pn_context *c, int64_t n, int64_t p) {
  size_t mark = pn_scope_open(c);
  const int64_t pn[] = {p, n}, row[] = {n + n * n + 1};
  pn_tensor *a = pn_mul(c, pn_eye(c, PN_FLOAT64, n, n), pn_scalar(c, PN_FLOAT64, 0.9));
  pn_filter_model m = {.mean = pn_zeros(c, PN_FLOAT64, 1, &n),
                       .cov = pn_eye(c, PN_FLOAT64, n, n),
                       .a = a,
                       .b = pn_zeros(c, PN_FLOAT64, 1, &n),
                       .q = pn_eye(c, PN_FLOAT64, n, n),
                       .emission = pn_randn(c, NULL, PN_FLOAT64, 2, pn),
                       .d = pn_zeros(c, PN_FLOAT64, 1, &p),
                       .r = pn_eye(c, PN_FLOAT64, p, p)};
  pn_filter *f = pn_filter_kalman(c, &m);
  pn_tensor *in[] = {m.mean, m.cov, m.a, m.b, m.q, pn_zeros(c, PN_FLOAT64, 1, &p), m.emission, m.d, m.r};
  pn_tensor *out = pn_zeros(c, PN_FLOAT64, 1, row);
  double kernel = bare_kernel(c, in, out, 20000), online = per_observation(c, f, p, 20000);
  printf("exact filter online, state %lld, observation %lld\t%.4g\tns\t\n", (long long)n, (long long)p, online);
  printf("the same beside the bare kernel\t%.4g\ttimes\t3\n", online / kernel);
  pn_filter_free(f);
  pn_scope_close(c, mark);
}

static void particles(pn_context *c, int n) {
  char script[600];
  pn_runtime *rt;
  pn_filter *f = NULL;
  snprintf(script, sizeof script,
           "local pn, n = require 'penumbra', %d\n"
           "filter = pn.smc.filter{num_particles = n, init = function() return pn.randn{n} end,\n"
           "  step = function(x) return x * 0.9 + pn.randn{n} * 0.5 end,\n"
           "  log_weight = function(x, y) return (x - y):square() * (-0.5 / 0.49) - 0.5622636 end}:online()\n",
           n);
  if (pn_runtime_new(NULL, &rt)) return;
  if (pn_runtime_run_string(rt, script, (size_t)-1, NULL) || pn_runtime_filter(rt, "filter", c, &f))
    printf("%s\n", pn_runtime_message(rt));
  pn_runtime_close(rt);
  if (f) printf("particle filter online, N = %d\t%.4g\tns\t\n", n, per_observation(c, f, 1, 5000));
  pn_filter_free(f);
}

/* ---- the tree ---- */

static void tree(pn_context *c, int64_t n, int64_t steps) {
  size_t mark = pn_scope_open(c);
  pni_ancestry *a = pni_ancestry_new(c, n, 1);
  pn_tensor *x = pn_zeros(c, PN_FLOAT64, 1, &n);
  double start = now();
  for (int64_t t = 0; t < steps; t++) {
    size_t inner = pn_scope_open(c);
    pni_ancestry_add(c, a, pn_resample(c, "systematic", NULL, pn_randn(c, NULL, PN_FLOAT64, 1, &n)), 1, &x);
    pn_scope_close(c, inner);
  }
  double spent = (now() - start) / (double)(n * steps);
  printf("tree of ancestors, N = %lld, T = %lld\t%lld\tnodes\t\n", (long long)n, (long long)steps,
         (long long)pni_ancestry_nodes(a));
  printf("tree of ancestors, N = %lld, T = %lld, memory\t%.4g\tMiB\t\n", (long long)n, (long long)steps,
         (double)pni_ancestry_bytes(a) / 1048576);
  printf("tree of ancestors, N = %lld, T = %lld, with resampling\t%.4g\tns/particle\t\n", (long long)n,
         (long long)steps, spent);
  pni_ancestry_free(c, a);
  pn_scope_close(c, mark);
}

int main(int argc, char **argv) {
  pn_context *c = pn_context_new(&(pn_context_config){.seed = 1, .threads = 1});
  bool loops = argc > 1 && strcmp(argv[1], "--loops") == 0;
  by_hand(1000);
  by_hand(100000);
  by_hand(1000000);
  for (int i = 0; !loops && i < pni_resampler_count(); i++) {
    scheme(pni_resampler_at(i), 1000);
    scheme(pni_resampler_at(i), 100000);
  }
  if (!loops) {
    exact(c, 2, 1);
    exact(c, 4, 2);
    exact(c, 10, 4);
    particles(c, 100);
    particles(c, 1000);
    tree(c, 1000, 100);
    tree(c, 1000, 1000);
    tree(c, 10000, 1000);
  }
  pn_context_close(c);
  return 0;
}
