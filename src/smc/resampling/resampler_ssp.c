/*
** resampler_ssp.c: Srinivasan sampling. The remainders of n w are rounded two at a time: one grows by what the other
** loses until one of them is 0 or 1, such that each keeps its mean. Copies are negatively associated, whence the scheme
** is consistent whatever the order of the particles. Gerber, Chopin & Whiteley 2019, algorithm 2.
*/
#include "resampler.h"

/* Rounds rest, which sums to a whole number, into counts; u: n - 1 numbers on (0, 1]. The particle that was not
 * decided, which rounding alone has kept from 0 or 1. */
static int64_t round_pairs(int64_t n, double *rest, const double *u, int32_t *counts) {
  int64_t i = 0, j = 1;
  for (int64_t k = 0; k < n - 1; k++) {
    double up = 1 - rest[i] < rest[j] ? 1 - rest[i] : rest[j]; /* what i can take from j */
    double down = 1 - rest[j] < rest[i] ? 1 - rest[j] : rest[i];
    if ((1 - u[k]) * (up + down) < up) { /* with probability up / (up + down) j takes from i */
      int64_t other = i;
      i = j;
      j = other;
      up = down;
    }
    if (rest[j] < 1 - rest[i]) {
      rest[i] += up;
      j = k + 2;
    } else {
      rest[j] -= up;
      counts[i]++;
      i = k + 2;
    }
  }
  return i < n ? i : j;
}

static void run(const pni_resampling *r) {
  int64_t n = r->n, given = 0;
  double *rest = r->scratch, *u = rest + n;
  int32_t *counts = (int32_t *)(void *)(u + n);
  pni_whole_copies(r, rest, counts);
  pni_fill_uniform_f64(r->at.key, r->at.position, 0, (uint64_t)(n - 1), u);
  int64_t open = round_pairs(n, rest, u, counts);
  if (rest[open] > 0.5) counts[open]++;
  for (int64_t i = 0; i < n; i++) given += counts[i];
  for (int64_t i = pni_last_alive(r); given < n; given++) counts[i]++; /* of rounding */
  for (int64_t i = n - 1; given > n; given -= counts[i] > 0, counts[i] -= counts[i] > 0) i -= counts[i] == 0;
  pni_write_copies(r, counts);
}

static uint64_t positions(int64_t n) { return pni_fill_positions(PNI_FILL_UNIFORM_F64, (uint64_t)n); }
static int64_t scratch(int64_t n) { return 3 * n + 1; }

const pni_resampler pni_resampler_ssp = {.name = "ssp",
                                         .doc = "Srinivasan sampling: remainders of N w rounded in pairs",
                                         .source = "Gerber, Chopin & Whiteley 2019",
                                         .sorted = true,
                                         .positions = positions,
                                         .scratch = scratch,
                                         .run = run};
