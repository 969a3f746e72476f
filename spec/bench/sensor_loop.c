/*
** sensor_loop.c: fusing three beliefs of 8 numbers with their conflicts in a host's loop, by pn_beliefs_fuse and by
** hand, on the same arrays, the best of rounds that take turns; how it grows with the sources.
*/
#include <math.h>
#include <stdio.h>
#include <time.h>
#include "../../src/penumbra.h"

enum { M = 3, D = 8, CALLS = 20000, ROUNDS = 15, MOST = 16 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* The same by hand, for sizes that are known: product and conflicts, nothing looked at. */
static void by_hand(const double *mean, const double *scale, double *out, double *spread, double *c) {
  double moved[M] = {0}, twice[M][M] = {{0}};
  for (int i = 0; i < D; i++) {
    double v[M], p[M], logs[M], eta = 0, precision = 1 - M;
    for (int m = 0; m < M; m++) {
      double x = mean[m * D + i];
      v[m] = scale[m * D + i] * scale[m * D + i];
      p[m] = 1 / v[m];
      logs[m] = log(v[m]);
      moved[m] += v[m] + x * x - 1 - logs[m];
      precision += p[m];
      eta += p[m] * x;
    }
    for (int m = 0; m < M; m++)
      for (int n = 0; n < M; n++) {
        double d = mean[n * D + i] - mean[m * D + i];
        twice[m][n] += (v[n] + d * d) * p[m] - 1 + logs[m] - logs[n];
      }
    out[i] = eta / precision;
    spread[i] = 1 / sqrt(precision);
  }
  for (int m = 0; m < M; m++)
    for (int n = 0; n < M; n++) c[m * M + n] = m == n ? 0 : twice[m][n] / moved[n];
}

static double mean[MOST * D], scale[MOST * D], out[D], spread[D], c[MOST * MOST], sum;
static unsigned char kept[MOST];

static void change(int k) { mean[k % (M * D)] = 0.3 * sin(k); }

static double ours(pn_context *ctx, int sources, double threshold) {
  pn_beliefs b = {.sources = sources, .size = D, .mean = mean, .scale = scale, .threshold = threshold};
  pn_fused f = {.mean = out, .scale = spread, .conflicts = c, .kept = kept};
  double start = now();
  for (int k = 0; k < CALLS; k++) {
    change(k);
    if (pn_beliefs_fuse(ctx, &b, &f)) return NAN;
    sum += out[0] + c[1];
  }
  return (now() - start) / CALLS;
}

static double theirs(void) {
  double start = now();
  for (int k = 0; k < CALLS; k++) {
    change(k);
    by_hand(mean, scale, out, spread, c);
    sum += out[0] + c[1];
  }
  return (now() - start) / CALLS;
}

static double least(double a, double b) { return a < b ? a : b; }

int main(void) {
  pn_context *ctx = pn_context_new(&(pn_context_config){.threads = 1});
  for (int k = 0; k < MOST * D; k++) mean[k] = 0.3 * cos(k), scale[k] = 0.4 + 0.3 * fabs(sin(k));
  double hand = INFINITY, library = INFINITY, rule = INFINITY, six = INFINITY, sixteen = INFINITY;
  for (int r = 0; r < ROUNDS; r++) {
    library = least(library, ours(ctx, M, 0));
    hand = least(hand, theirs());
    rule = least(rule, ours(ctx, M, 1e6));
    six = least(six, ours(ctx, 2 * M, 0));
    sixteen = least(sixteen, ours(ctx, MOST, 0));
  }
  printf("three beliefs of 8 numbers, fused, with conflicts\t%.4g\tns\t\n", library);
  printf("three beliefs fused / by hand\t%.4g\ttimes\t1.5\n", library / hand);
  printf("three beliefs fused by the rule / without\t%.4g\ttimes\t1.5\n", rule / library);
  printf("six beliefs fused / three\t%.4g\ttimes\t4\n", six / library); /* pairs: 4 times */
  printf("sixteen beliefs fused / three\t%.4g\ttimes\t28.4\n", sixteen / library);
  pn_context_close(ctx);
  return sum == sum ? 0 : 1;
}
