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
