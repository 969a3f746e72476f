/*
** sde_loop.c: geometric Brownian motion by Euler-Maruyama and Milstein, 10^5 paths of 1000 steps, by pn.sde and by a
** loop by hand over chunks of paths on the same normals; rounds take turns, the best counts.
*/
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "../../src/math/random/rng.h"
#include "../../src/penumbra.h"

enum { PATHS = 100000, STEPS = 1000, CHUNK = 2048, ROUNDS = 5 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double y[PATHS], z[CHUNK];

static double by_hand(int milstein) {
  const double h = 1.0 / STEPS, s = sqrt(h), mu = 1, sigma = 1;
  double start = now();
  for (int first = 0; first < PATHS; first += CHUNK) {
    int n = PATHS - first < CHUNK ? PATHS - first : CHUNK;
    double *x = y + first;
    for (int i = 0; i < n; i++) x[i] = 1;
    for (int k = 0; k < STEPS; k++) {
      uint64_t at = (uint64_t)k * PATHS + (uint64_t)first;
      pni_fill_normal_f64(7, 0, at, at + (uint64_t)n, z);
      if (milstein)
        for (int i = 0; i < n; i++) {
          double w = s * z[i], g = sigma * x[i];
          x[i] += mu * x[i] * h + g * w + 0.5 * g * sigma * (w * w - h);
        }
      else
        for (int i = 0; i < n; i++) x[i] += mu * x[i] * h + sigma * x[i] * (s * z[i]);
    }
  }
  return now() - start;
}

static double library(pn_runtime *rt, const char *text) {
  double start = now();
  if (pn_runtime_run_string(rt, text, strlen(text), "sde")) {
    fprintf(stderr, "%s\n", pn_runtime_message(rt));
    return NAN;
  }
  return now() - start;
}

static double least(double a, double b) { return a < b ? a : b; }

int main(void) {
  static const char *const ours[] = {"local pn = require 'penumbra' pn.threads(1) y = pn.sde(function(_, y) return y "
                                     "end, function(_, y) return y end, pn.ones(100000, 1), "
                                     "pn.tensor{0, 1}, {step = 1 / 1000})",
                                     "local pn = require 'penumbra' pn.threads(1) y = pn.sde(function(_, y) return y "
                                     "end, function(_, y) return y end, pn.ones(100000, 1), "
                                     "pn.tensor{0, 1}, {step = 1 / 1000, method = 'milstein'})"};
  static const char *const names[] = {"Euler-Maruyama", "Milstein"};
  pn_runtime *rt;
  if (pn_runtime_new(NULL, &rt)) return 1;
  for (int m = 0; m < 2; m++) {
    double hand = INFINITY, lib = INFINITY;
    for (int r = 0; r < ROUNDS; r++) {
      lib = least(lib, library(rt, ours[m]));
      hand = least(hand, by_hand(m));
    }
    printf("%s, 10^5 paths x 1000 steps\t%.4g\ts\t\n", names[m], lib);
    printf("%s, pn.sde / by hand\t%.4g\ttimes\t1.25\n", names[m], lib / hand);
  }
  pn_runtime_close(rt);
  double sum = 0;
  for (int i = 0; i < PATHS; i++) sum += y[i];
  return sum > 0 ? 0 : 1;
}
