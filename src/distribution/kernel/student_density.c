/*
** student_density.c: the log density of Student's t as an operation of x, df v, loc, scale: with z = (x - loc) / scale,
**   log p(x) = -(v + 1)/2 log(1 + z^2 / v) - N(v) - log scale
**   N(v) = log B(v/2, 1/2) + log(v)/2 = log(2 pi)/2 + S(h),  S(h) = lgamma(h) - lgamma(h + 1/2) + log(h)/2,  h = v/2
** S without large numbers that cancel: lgamma's recurrence leads from h to h + 4,
**   S(h) = S(h + 4) + log(P)/2,  P = prod over k < 4 of m_k^2 / ((h + k) (h + k + 1)),  m_k = h + k + 1/2
** where S(x) = q(1/x^2) / x, q a Chebyshev fit for x >= 4 (to 5e-15 of S) of the series 1/8 - 1/(192 x^2) + ... (DLMF
** 5.11.13 in logarithms); S'(x) = -r(1/x^2) / x^2 likewise (to 7e-14), with the recurrence's part
** -1/4 sum of 1 / (m_k (h + k) (h + k + 1)).
** Gradients, with o = z / (v + z^2), t = z o (for |z| > 1 through o = 1 / (z + v / z)):
**   d/dz = -(v + 1) o,  d/dx = (d/dz) / scale = -d/dloc,  d/dscale = ((v + 1) t - 1) / scale
**   d/dv = -log(1 + z^2 / v)/2 + (v + 1)/2 t / v - S'(h)/2
*/
#include "density.h"
#include "density_kernel.h"
#include "log_one_plus_square.h"

enum { X, DF, LOC, SCALE, G };

/* clang-format off */
#define POLY_STEP(z) \
  (0.12499999999999938752 + z * (-0.0052083333320754105156 + z * (0.0015624995711977917533 + z * (-0.0011857694355214377013 + \
  z * (0.0016781340816988591964 + z * (-0.0036961963750322414278 + z * (0.009794042616750521735 + \
  z * -0.01854043945430558446)))))))
#define POLY_STEP_SLOPE(z) \
  (0.12499999999999095176 + z * (-0.015624999981410656218 + z * (0.0078124936532882947702 + z * (-0.0082999430444579392908 + \
  z * (0.015081141530178557724 + z * (-0.040097709549429010371 + z * (0.12030381127438494252 + \
  z * -0.24374554480566082071)))))))
/* clang-format on */

/* Beyond it the recurrence's factors are 1 to rounding. */
#define STEADY 1e35

/* ---- loops over pieces ---- */

/* S(h) = series - log(ratio) / 2 */
PNI_EACH_LEVEL(norm_parts, (const double *restrict v, double *restrict series, double *restrict ratio, int64_t n),
               (v, series, ratio, n)) {
  for (int64_t i = 0; i < n; i++) {
    double h = 0.5 * v[i], r = 1 / (h + 4), z = r * r;
    series[i] = r * POLY_STEP(z);
    h = h < STEADY ? h : STEADY;
    double inner = (h + 1) * (h + 2) * (h + 3), top = (h + 0.5) * (h + 1.5) * (h + 2.5) * (h + 3.5);
    ratio[i] = h * (inner * inner * (h + 4) / (top * top));
  }
}
PNI_EACH_LEVEL(norm_slope, (const double *restrict v, double *restrict slope, int64_t n), (v, slope, n)) {
  for (int64_t i = 0; i < n; i++) {
    double h = 0.5 * v[i], r = 1 / (h + 4), z = r * r;
    double series = -z * POLY_STEP_SLOPE(z);
    h = h < STEADY ? h : STEADY;
    double first = h * (h + 0.5) * (h + 1), second = (h + 1) * (h + 1.5) * (h + 2);
    double third = (h + 2) * (h + 2.5) * (h + 3), fourth = (h + 3) * (h + 3.5) * (h + 4);
    slope[i] = series - 0.25 * ((first + second) / (first * second) + (third + fourth) / (third * fourth));
  }
}
/* z and z^2 / v; gives the number of squares that are infinite */
PNI_EACH_LEVEL_OF(int64_t, standard,
                  (const double *restrict x, const double *restrict m, const double *restrict s,
                   const double *restrict v, double *restrict z, double *restrict q, int64_t n),
                  (x, m, s, v, z, q, n)) {
  int64_t far = 0;
  for (int64_t i = 0; i < n; i++) {
    double t = (x[i] - m[i]) / s[i], ratio = t * t / v[i];
    z[i] = t;
    q[i] = ratio;
    far += ratio > DBL_MAX;
  }
  return far;
}
/* out: log(1 + z^2 / v) */
PNI_EACH_LEVEL(join,
               (const double *restrict v, const double *restrict series, const double *restrict log_ratio,
                const double *restrict log_s, double *restrict out, int64_t n),
               (v, series, log_ratio, log_s, out, n)) {
  for (int64_t i = 0; i < n; i++)
    out[i] = -0.5 * (v[i] + 1) * out[i] - (LOG_ROOT_TWO_PI + (series[i] - 0.5 * log_ratio[i]) + log_s[i]);
}
PNI_EACH_LEVEL(finish_norm,
               (const double *restrict series, const double *restrict log_ratio, double *restrict out, int64_t n),
               (series, log_ratio, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = LOG_ROOT_TWO_PI + (series[i] - 0.5 * log_ratio[i]);
}
/* o */
PNI_EACH_LEVEL(pull, (const double *restrict z, const double *restrict v, double *restrict o, int64_t n),
               (z, v, o, n)) {
  for (int64_t i = 0; i < n; i++) {
    double t = z[i], w = v[i], outer = t + w / t, inner = w + t * t;
    bool far = (t > 1) | (t < -1);
    double top = far ? 1 : t, bottom = far ? outer : inner;
    o[i] = top / bottom;
  }
}
PNI_EACH_LEVEL(slope_place,
               (const double *restrict o, const double *restrict v, const double *restrict s, const double *restrict g,
                double sign, double *restrict out, int64_t n),
               (o, v, s, g, sign, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = sign * g[i] * ((v[i] + 1) * o[i] / s[i]);
}
PNI_EACH_LEVEL(slope_scale,
               (const double *restrict o, const double *restrict z, const double *restrict v, const double *restrict s,
                const double *restrict g, double *restrict out, int64_t n),
               (o, z, v, s, g, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = g[i] * (((v[i] + 1) * (z[i] * o[i]) - 1) / s[i]);
}
/* out: log(1 + z^2 / v) */
PNI_EACH_LEVEL(slope_df,
               (const double *restrict o, const double *restrict z, const double *restrict v,
                const double *restrict slope, const double *restrict g, double *restrict out, int64_t n),
               (o, z, v, slope, g, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = 0.5 * g[i] * ((v[i] + 1) * (z[i] * o[i]) / v[i] - out[i] - slope[i]);
}

/* log(1 + q), q = z^2 / v; 2 log |z| - log v where that is infinite */
static void log_tail(const double *q, const double *z, const double *v, int64_t far, double *out, int64_t n) {
  pni_vector_f64(PNI_VECTOR_log1p, q, 1, out, n);
  for (int64_t i = 0; far && i < n; i++)
    if (q[i] > DBL_MAX) out[i] = 2 * log(fabs(z[i])) - log(v[i]);
}

/* ---- N(v) ---- */

enum { LOG_RATIO, LOG_SCALE }; /* kept results */

static void norm_body(const pni_piece *p, void *out) {
  double series[PNI_KERNEL_PIECE], ratio[PNI_KERNEL_PIECE];
  norm_parts(p->in[0], series, ratio, p->n);
  finish_norm(series, pni_piece_map(p, PNI_VECTOR_log, ratio, p->one[0], LOG_RATIO), out, p->n);
}
PNI_DENSITY_VALUE(norm, .inputs = 1, .in_double = true, .value = {norm_body, norm_body})

/* S'(h) by digamma's of h and h + 1/2, or for large h the series term by term. */
static T *step_slope(C *c, T *v) {
  T *h = times(c, v, 0.5), *large = above(c, h, 60), *small = but(c, large, 1, h),
    *r = pn_reciprocal(c, only(c, large, h, 60));
  T *t = pn_sub(c, pn_digamma(c, small), pn_digamma(c, plus(c, small, 0.5)));
  t = pn_add(c, t, times(c, pn_reciprocal(c, small), 0.5));
  T *z = pn_square(c, r), *s = plus(c, times(c, z, 119.0 / 14336), -5.0 / 640);
  s = plus(c, pn_mul(c, plus(c, pn_mul(c, s, z), 3.0 / 192), z), -1.0 / 8);
  return pn_where(c, large, pn_mul(c, s, z), t);
}

static T *vjp_norm(C *c, T *y, T *g, int k) { return pn_mul(c, g, times(c, step_slope(c, pni_in(y, k)), 0.5)); }

static const pni_op op_norm = {
    .name = "student_norm", .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN, .map = norm_map, .vjp = vjp_norm};

T *pni_student_log_norm(C *c, T *df) { return pni_apply1(c, &op_norm, df, NULL); }

/* ---- the density ---- */

static void density_body(const pni_piece *p, void *out) {
  const double *v = p->in[DF];
  double z[PNI_KERNEL_PIECE], q[PNI_KERNEL_PIECE], series[PNI_KERNEL_PIECE], ratio[PNI_KERNEL_PIECE];
  int64_t far = standard(p->in[X], p->in[LOC], p->in[SCALE], v, z, q, p->n);
  norm_parts(v, series, ratio, p->n);
  const double *log_ratio = pni_piece_map(p, PNI_VECTOR_log, ratio, p->one[DF], LOG_RATIO);
  const double *log_s = pni_piece_map(p, PNI_VECTOR_log, p->in[SCALE], p->one[SCALE], LOG_SCALE);
  log_tail(q, z, v, far, out, p->n);
  join(v, series, log_ratio, log_s, out, p->n);
}

static void density_slopes(const pni_piece *p, void *const *out) {
  const double *v = p->in[DF], *s = p->in[SCALE], *g = p->in[G];
  double z[PNI_KERNEL_PIECE], q[PNI_KERNEL_PIECE], o[PNI_KERNEL_PIECE];
  int64_t far = standard(p->in[X], p->in[LOC], s, v, z, q, p->n);
  pull(z, v, o, p->n);
  if (out[X]) slope_place(o, v, s, g, -1, out[X], p->n);
  if (out[LOC]) slope_place(o, v, s, g, 1, out[LOC], p->n);
  if (out[SCALE]) slope_scale(o, z, v, s, g, out[SCALE], p->n);
  if (out[DF]) {
    double slope[PNI_KERNEL_PIECE];
    norm_slope(v, slope, p->n);
    log_tail(q, z, v, far, out[DF], p->n);
    slope_df(o, z, v, slope, g, out[DF], p->n);
  }
  for (int k = X; far && k <= SCALE; k++) /* at an infinite z the density is 0 and flat */
    for (int64_t i = 0; out[k] && i < p->n; i++)
      if (isinf(z[i])) ((double *)out[k])[i] = 0;
}

PNI_DENSITY_TOGETHER(student_density, .inputs = 4, .in_double = true, .value = {density_body, density_body},
                     .slopes = {density_slopes, density_slopes})

static T *vjp(C *c, T *y, T *g, int k) {
  T *v = pni_in(y, DF), *s = pni_in(y, SCALE), *z = pn_div(c, pn_sub(c, pni_in(y, X), pni_in(y, LOC)), s);
  T *beyond = equals(c, pn_abs(c, z), INFINITY);
  g = but(c, beyond, 0, g), z = but(c, beyond, 0, z);
  T *far = above(c, pn_abs(c, z), 1), *near = but(c, far, 0, z), *large = only(c, far, z, 1);
  T *outer = pn_reciprocal(c, pn_add(c, large, pn_div(c, v, large)));
  T *inner = pn_div(c, near, pn_add(c, v, pn_square(c, near)));
  T *o = pn_where(c, far, outer, inner), *rise = pn_mul(c, plus(c, v, 1), o);
  if (k == X) return pn_neg(c, pn_mul(c, g, pn_div(c, rise, s)));
  if (k == LOC) return pn_mul(c, g, pn_div(c, rise, s));
  if (k == SCALE) return pn_mul(c, g, pn_div(c, plus(c, pn_mul(c, rise, z), -1), s));
  T *t = pn_sub(c, pn_div(c, pn_mul(c, rise, z), v), pni_log_one_plus_square(c, z, v));
  return pn_mul(c, g, times(c, pn_sub(c, t, step_slope(c, v)), 0.5));
}

static const pni_op op = {.name = "student_log_density",
                          .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                          .map = student_density_map,
                          .vjp = vjp,
                          .vjps = student_density_vjps};

T *pni_student_log_density(C *c, T *x, T *df, T *loc, T *scale) {
  return pni_apply(c, &op, 4, (T *[]){x, df, loc, scale}, NULL);
}
