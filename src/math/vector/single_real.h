/*
** single_real.h: functions that float32 has of its own instead of through those of float64 (special_real.h), for one
** instruction set; included by level_real.h after elementary_real.h of float32.
*/

FN float poly_erf_f32(float x) { POLY_ERF_F32(FIRST, NEXT) return p; }
FN float poly_log_erfc_f32(float x) { POLY_LOG_ERFC_F32(FIRST, NEXT) return p; }

/* x + x P(x^2) up to 1, 1 - e^-P(|x|) beyond, which is 1 from 3.95 on. 1.3 ULP. */
FN float erf_f32(float x) {
  float a = absolute_f32(x), near = MADD(x, poly_erf_f32(x * x), x);
  float k, p = reduced_expm1_f32(-poly_log_erfc_f32(a > 3.95f ? 3.95f : a), &k), s = power_of_two_f32(k);
  float far = (1 - s) - s * p;
  return a < 1 ? near : with_sign_f32(far, x);
}
