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
#include "wide.h"
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

/* ---- blocks ---- */

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

static void norm(int dtype, const void *data, int64_t n, char *const *p, const int64_t *s) {
  (void)data;
  for (int64_t at = 0; at < n; at += PNI_WIDE) {
    double room[PNI_WIDE], series[PNI_WIDE], ratio[PNI_WIDE], log_ratio[PNI_WIDE], result[PNI_WIDE];
    double *out = pni_wide_place(dtype, p[0], at, result);
    int64_t size = n - at < PNI_WIDE ? n - at : PNI_WIDE;
    norm_parts(pni_wide_read(dtype, p[1], s[1], at, size, room).v, series, ratio, size);
    pni_vector_f64(PNI_VECTOR_log, ratio, 1, log_ratio, size);
    finish_norm(series, log_ratio, out, size);
    pni_wide_write(dtype, out, size, p[0], at);
  }
}
PNI_WIDE_ROWS(norm)

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

static const pni_op op_norm = {.name = "student_norm",
                               .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                               .map = (const pni_map_kernel[4]){norm_f64, norm_f32},
                               .vjp = vjp_norm};

T *pni_student_log_norm(C *c, T *df) { return pni_apply1(c, &op_norm, df, NULL); }

/* ---- the density ---- */

static void density(int dtype, const void *data, int64_t n, char *const *p, const int64_t *s) {
  (void)data;
  for (int64_t at = 0; at < n; at += PNI_WIDE) {
    double room[4][PNI_WIDE], z[PNI_WIDE], q[PNI_WIDE], series[PNI_WIDE], ratio[PNI_WIDE], log_ratio[PNI_WIDE];
    double log_s[PNI_WIDE], result[PNI_WIDE], *out = pni_wide_place(dtype, p[0], at, result);
    int64_t size = n - at < PNI_WIDE ? n - at : PNI_WIDE;
    pni_wide in[4];
    for (int k = 0; k < 4; k++) in[k] = pni_wide_read(dtype, p[k + 1], s[k + 1], at, size, room[k]);
    const double *v = in[DF].v;
    int64_t far = standard(in[X].v, in[LOC].v, in[SCALE].v, v, z, q, size);
    norm_parts(v, series, ratio, size);
    pni_wide_map(PNI_VECTOR_log, (pni_wide){ratio, size, in[DF].one}, log_ratio);
    pni_wide_map(PNI_VECTOR_log, in[SCALE], log_s);
    log_tail(q, z, v, far, out, size);
    join(v, series, log_ratio, log_s, out, size);
    pni_wide_write(dtype, out, size, p[0], at);
  }
}
PNI_WIDE_ROWS(density)

/* What the gradients of a block share. */
typedef struct {
  double z[PNI_WIDE], q[PNI_WIDE], o[PNI_WIDE];
  int64_t far;
} shared;

static void score(int k, const shared *b, const pni_wide *in, double *out, int64_t n) {
  const double *v = in[DF].v, *s = in[SCALE].v, *g = in[G].v;
  if (k == DF) {
    double slope[PNI_WIDE];
    norm_slope(v, slope, n);
    log_tail(b->q, b->z, v, b->far, out, n);
    slope_df(b->o, b->z, v, slope, g, out, n);
  } else if (k == SCALE) {
    slope_scale(b->o, b->z, v, s, g, out, n);
  } else {
    slope_place(b->o, v, s, g, k == LOC ? 1 : -1, out, n);
  }
  for (int64_t i = 0; b->far && i < n; i++) /* at an infinite z the density is 0 and flat */
    if (isinf(b->z[i])) out[i] = 0;
}

static void scores(int dtype, const void *data, int64_t n, char *const *p, const int64_t *s) {
  const pni_adjoint *adjoint = data;
  for (int64_t at = 0; at < n; at += PNI_WIDE) {
    double room[5][PNI_WIDE], result[PNI_WIDE];
    shared b;
    int64_t size = n - at < PNI_WIDE ? n - at : PNI_WIDE;
    pni_wide in[5];
    for (int k = 0; k < 5; k++) in[k] = pni_wide_read(dtype, p[k + 1], s[k + 1], at, size, room[k]);
    b.far = standard(in[X].v, in[LOC].v, in[SCALE].v, in[DF].v, b.z, b.q, size);
    pull(b.z, in[DF].v, b.o, size);
    for (int k = 0; k < 4; k++) {
      int place = pni_adjoint_place(adjoint, k);
      if (place < 0) continue;
      int64_t to = at + place * adjoint->apart;
      double *out = pni_wide_place(dtype, p[0], to, result);
      score(k, &b, in, out, size);
      pni_wide_write(dtype, out, size, p[0], to);
    }
  }
}
PNI_WIDE_SCORES("student_scores")

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  pni_loop l;
  pni_loop_init(&l, out, call->nin, call->in);
  return pni_loop_run(c, &l, out->dtype == PN_FLOAT64 ? density_f64 : density_f32, NULL);
}

static T *vjp(C *c, T *y, T *g, int k) {
  T *v = pni_in(y, DF), *s = pni_in(y, SCALE), *z = pn_div(c, pn_sub(c, pni_in(y, X), pni_in(y, LOC)), s);
  T *beyond = equals(c, pn_abs(c, z), INFINITY);
  g = but(c, beyond, 0, g), z = but(c, beyond, 0, z);
  T *far = above(c, pn_abs(c, z), 1), *near = but(c, far, 0, z), *wide = only(c, far, z, 1);
  T *outer = pn_reciprocal(c, pn_add(c, wide, pn_div(c, v, wide)));
  T *inner = pn_div(c, near, pn_add(c, v, pn_square(c, near)));
  T *o = pn_where(c, far, outer, inner), *rise = pn_mul(c, plus(c, v, 1), o);
  if (k == X) return pn_neg(c, pn_mul(c, g, pn_div(c, rise, s)));
  if (k == LOC) return pn_mul(c, g, pn_div(c, rise, s));
  if (k == SCALE) return pn_mul(c, g, pn_div(c, plus(c, pn_mul(c, rise, z), -1), s));
  T *t = pn_sub(c, pn_div(c, pn_mul(c, rise, z), v), pni_log_one_plus_square(c, z, v));
  return pn_mul(c, g, times(c, pn_sub(c, t, step_slope(c, v)), 0.5));
}

static pn_status vjps(C *c, T *y, T *g, const bool *wanted, T **out) {
  return pni_adjoint_apply(c, &op_scores, y, g, wanted, out);
}

static const pni_op op = {
    .name = "student_log_density", .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN, .eval = eval, .vjp = vjp, .vjps = vjps};

T *pni_student_log_density(C *c, T *x, T *df, T *loc, T *scale) {
  return pni_apply(c, &op, 4, (T *[]){x, df, loc, scale}, NULL);
}
