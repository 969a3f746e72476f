/* rng_fill_portable.c: draws for every processor; single gamma draws, whose bits are those of a fill. */
#define LEVEL pni_rng_portable
#define TARGET
#include "rng_fill_real.h"

double pni_log_gamma_draw_from(uint64_t key, uint64_t position, double a, uint32_t attempt) {
  if (!(a >= 0)) return NAN;
  if (a == 0 || isinf(a)) return a == 0 ? -INFINITY : INFINITY;
  uint32_t w0, w1, w2, w3;
  double z;
  for (int64_t accepted = 0;; attempt++) {
    pni_philox_words(key, position, attempt, PNI_DOMAIN_GAMMA, &w0, &w1, &w2, &w3);
    z = gamma_trial(a < 1 ? a + 1 : a, w0, w1, w2, w3, &accepted);
    if (accepted) break;
  }
  if (a >= 1) return z;
  pni_philox_words(key, position, 0, PNI_DOMAIN_GAMMA_BOOST, &w0, &w1, &w2, &w3);
  return z + log_f64(unit_f64(w0, w1)) / a;
}
