/*
** rng_gamma_real.h: one trial of Marsaglia & Tsang's sampler for a chunk of positions, part of rng_fill_real.h. For
** a >= 1 the log of a Gamma(a) draw is log(d v) with v = (1 + x / sqrt(9d))^3, d = a - 1/3, x normal, accepted when
** log u < x^2/2 + d (1 - v + log v) (Marsaglia & Tsang 2000). For a < 1, Gamma(a) = Gamma(a + 1) U^(1/a), in
** logarithms. Attempt k of a position is trial k: 53 bits for the normal's radius, 32 for its angle, 32 for u.
*/

/* log(1 + t), t > -1: the rounding of 1 + t is put right to first order. */
FN double log1p_f64(double t) {
  double w = 1 + t;
  return log_f64(w) + (t - (w - 1)) / w;
}

/* (w + 1/2) 2^-32, never 0 or 1. */
FN double unit_of_word(uint32_t w) {
  return ((double)(int32_t)(w >> 16) * 65536.0 + (double)(int32_t)(w & 0xFFFF) + 0.5) * 0x1p-32;
}

/* The log of the draw for shape a >= 1 from a block; *accepted is 0 or 1. */
FN double gamma_trial(double a, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3, int64_t *accepted) {
  double d = a - 1.0 / 3, sine, cosine;
  sincos_f64(unit_of_word(w2), &sine, &cosine);
  double x = sqrt(-2 * log_f64(unit_f64(w0, w1))) * cosine, t = x / sqrt(9 * d);
  int64_t inside = t > -1;
  t = inside ? t : 0;
  double log_v = 3 * log1p_f64(t), rest = t * (3 + t * (3 + t)); /* v - 1 */
  *accepted = inside & (log_f64(unit_of_word(w3)) < 0.5 * x * x + d * (log_v - rest));
  return log_f64(d) + log_v;
}

FN void gamma_first(uint64_t key, uint64_t first, int groups, const double *a, double *z, int64_t *accepted) {
  words t;
  int64_t below = 0;
  fill_words(&t, key, first, groups, PNI_DOMAIN_GAMMA);
  EACH_BLOCK {
    double shape = a[j] < 1 ? a[j] + 1 : a[j];
    z[j] = gamma_trial(shape, t.w[0][j], t.w[1][j], t.w[2][j], t.w[3][j], &accepted[j]);
    below |= a[j] < 1;
  }
  if (!below) return;
  fill_words(&t, key, first, groups, PNI_DOMAIN_GAMMA_BOOST);
  EACH_BLOCK {
    double boost = log_f64(unit_f64(t.w[0][j], t.w[1][j])) / a[j];
    z[j] += a[j] < 1 ? boost : 0;
  }
}
