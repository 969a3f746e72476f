/*
** single_real.h: functions that float32 has of its own instead of through those of float64 (special_real.h), for one
** instruction set; included by level_real.h after elementary_real.h of float32.
*/

FN float poly_erf_f32(float x) { POLY_ERF_F32(FIRST, NEXT) return p; }
FN float poly_log_erfc_f32(float x) { POLY_LOG_ERFC_F32(FIRST, NEXT) return p; }

/* e^-y, 1.8 < y < 17, to two ULP. */
FN float erfc_exp_f32(float y) {
  float t = MADD(y, -1.4426950408889634074f, ROUNDER), k = t - ROUNDER;
  float r = MADD(k, -LN2_LOW, MADD(k, -LN2_HIGH, -y)), s = power_of_two_f32(t);
  return MADD(s, MADD(r * r, poly_exp_f32(r), r), s);
}

/* x + x P(x^2) up to 1, 1 - e^-P(|x|) beyond, which is 1 from 3.95 on. 1.3 ULP. */
FN float erf_f32(float x) {
  float a = absolute_f32(x), near = MADD(x, poly_erf_f32(x * x), x);
  float far = 1 - erfc_exp_f32(poly_log_erfc_f32(3.95f < a ? 3.95f : a));
  return a < 1 ? near : with_sign_f32(far, x);
}

#ifdef SINGLES
/* The same by vectors that look up the coefficients of the piece in which |x| lies; 1.1 ULP. What the nearest middle of
 * a piece is, tells a sum's lowest bits, the only ones that LOOK_UP asks. */
TARGET static void loop_erf_f32(const float *restrict a, float *restrict o, int64_t groups) {
#define POWER(...) {__VA_ARGS__},
  static const float pieces[7][8] = {POLY_ERF_PIECES_F32(POWER)};
#undef POWER
  enum { WIDTH = sizeof(SINGLES) / sizeof *a };
  const SINGLES sign = W(set1_ps)(-0.0f), most = W(set1_ps)(3.925f), scale = W(set1_ps)(128.0f / 67),
                width = W(set1_ps)(67.0f / 128), rounder = W(set1_ps)(ROUNDER);
  for (const float *end = a + groups * PNI_VECTOR_GROUP; a < end; a += WIDTH, o += WIDTH) {
    SINGLES x = W(loadu_ps)(a), b = W(min_ps)(most, W(andnot_ps)(sign, x)); /* NaN, where one is NaN, is the second */
    SINGLES at = W(fmadd_ps)(b, scale, rounder), k = W(sub_ps)(at, rounder), t = W(fnmadd_ps)(k, width, b);
    SINGLES p = LOOK_UP(pieces[0], at);
    UNROLL for (int j = 1; j < 6; j++) p = W(fmadd_ps)(p, t, LOOK_UP(pieces[j], at));
    p = W(fmadd_ps)(p, t, WHERE_0(k, t, LOOK_UP(pieces[6], at)));
    W(storeu_ps)(o, W(or_ps)(p, W(and_ps)(sign, x)));
  }
}
#endif
