/*
** location_scale.c: log p(x) = h(z) - log scale with z = (x - loc) / scale in one pass, its gradients in one or two,
**   d/dx = h'(z) / scale = -d/dloc,  d/dscale = -(1 + z h'(z)) / scale
** At an infinite z, where the density is 0, the slopes are 0. attr: the law.
*/
#include "density.h"
#include "density_kernel.h"
#include "normal_regression.h"
#include "../formula.h"
#include "../../autodiff/replay/replay.h"

enum { X, LOC, SCALE, G, LOG_SCALE = G };

/* ---- h and h' of pieces ---- */

#define LAWS(N, suffix, size_of)                                                                                       \
  PNI_EACH_LEVEL(standard_##suffix,                                                                                    \
                 (const N *restrict x, const N *restrict m, const N *restrict s, N *restrict z, int64_t n),            \
                 (x, m, s, z, n)) {                                                                                    \
    for (int64_t i = 0; i < n; i++) z[i] = (x[i] - m[i]) / s[i];                                                       \
  }                                                                                                                    \
  PNI_EACH_LEVEL(normal_##suffix, (const N *restrict z, N *restrict y, int64_t n), (z, y, n)) {                        \
    for (int64_t i = 0; i < n; i++) y[i] = z[i] * z[i] * (N)-0.5;                                                      \
  }                                                                                                                    \
  PNI_EACH_LEVEL(normal_slope_##suffix, (const N *restrict z, N *restrict y, int64_t n), (z, y, n)) {                  \
    for (int64_t i = 0; i < n; i++) y[i] = -z[i];                                                                      \
  }                                                                                                                    \
  PNI_EACH_LEVEL(square_##suffix, (const N *restrict z, N *restrict y, int64_t n), (z, y, n)) {                        \
    for (int64_t i = 0; i < n; i++) y[i] = z[i] * z[i];                                                                \
  }                                                                                                                    \
  PNI_EACH_LEVEL(laplace_##suffix, (const N *restrict z, N *restrict y, int64_t n), (z, y, n)) {                       \
    for (int64_t i = 0; i < n; i++) y[i] = -size_of(z[i]);                                                             \
  }                                                                                                                    \
  PNI_EACH_LEVEL(laplace_slope_##suffix, (const N *restrict z, N *restrict y, int64_t n), (z, y, n)) {                 \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      N v = z[i], below = v < 0 ? 1 : -v;                                                                              \
      below = v == v && v > 0 ? -1 : below;                                                                            \
      y[i] = below;                                                                                                    \
    }                                                                                                                  \
  }                                                                                                                    \
  PNI_EACH_LEVEL(plus_twice_##suffix, (const N *restrict z, N *restrict y, int64_t n), (z, y, n)) {                    \
    for (int64_t i = 0; i < n; i++) y[i] = z[i] - 2 * y[i];                                                            \
  }                                                                                                                    \
  PNI_EACH_LEVEL(times_##suffix, (const N *restrict z, N *restrict y, int64_t n, N by), (z, y, n, by)) {               \
    for (int64_t i = 0; i < n; i++) y[i] = by * z[i];                                                                  \
  }                                                                                                                    \
  PNI_EACH_LEVEL(minus_sum_##suffix, (const N *restrict z, N *restrict y, int64_t n), (z, y, n)) {                     \
    for (int64_t i = 0; i < n; i++) y[i] = -(z[i] + y[i]);                                                             \
  }                                                                                                                    \
  PNI_EACH_LEVEL(cauchy_slope_##suffix, (const N *restrict z, N *restrict y, int64_t n), (z, y, n)) {                  \
    for (int64_t i = 0; i < n; i++) { /* w = 1 / z gives the same and does not overflow */                             \
      N v = z[i], inverse = 1 / v, w = size_of(v) > 1 ? inverse : v;                                                   \
      y[i] = -2 * w / (1 + w * w);                                                                                     \
    }                                                                                                                  \
  }                                                                                                                    \
  PNI_EACH_LEVEL(less_##suffix,                                                                                        \
                 (const N *restrict y, const N *restrict log_s, N *restrict out, int64_t n, N constant),               \
                 (y, log_s, out, n, constant)) {                                                                       \
    for (int64_t i = 0; i < n; i++) out[i] = y[i] - (log_s[i] + constant);                                             \
  }                                                                                                                    \
  PNI_EACH_LEVEL(move_##suffix,                                                                                        \
                 (const N *restrict z, const N *restrict u, const N *restrict s, const N *restrict g, N sign,          \
                  N *restrict out, int64_t n),                                                                         \
                 (z, u, s, g, sign, out, n)) {                                                                         \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      N v = sign * g[i] * (u[i] / s[i]);                                                                               \
      out[i] = size_of(z[i]) == INFINITY ? 0 : v;                                                                      \
    }                                                                                                                  \
  }                                                                                                                    \
  PNI_EACH_LEVEL(stretch_##suffix,                                                                                     \
                 (const N *restrict z, const N *restrict u, const N *restrict s, const N *restrict g, N *restrict out, \
                  int64_t n),                                                                                          \
                 (z, u, s, g, out, n)) {                                                                               \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      N v = g[i] * (-(1 + z[i] * u[i]) / s[i]);                                                                        \
      out[i] = size_of(z[i]) == INFINITY ? 0 : v;                                                                      \
    }                                                                                                                  \
  }                                                                                                                    \
  PNI_EACH_LEVEL_OF(int64_t, negate_##suffix, (N * y, int64_t n), (y, n)) {                                            \
    N far = 0;                                                                                                         \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      far += y[i] == INFINITY ? 1 : 0;                                                                                 \
      y[i] = -y[i];                                                                                                    \
    }                                                                                                                  \
    return (int64_t)far;                                                                                               \
  }                                                                                                                    \
  /* -log(1 + z^2); 2 log |z| where the square overflows */                                                            \
  static void cauchy_##suffix(const N *z, N *y, int64_t n) {                                                           \
    N square[PNI_KERNEL_PIECE];                                                                                        \
    square_##suffix(z, square, n);                                                                                     \
    pni_vector_##suffix(PNI_VECTOR_log1p, square, 1, y, n);                                                            \
    if (negate_##suffix(y, n))                                                                                         \
      for (int64_t i = 0; i < n; i++)                                                                                  \
        if (y[i] == -INFINITY) y[i] = (N)(-2 * log(fabs((double)z[i])));                                               \
  }                                                                                                                    \
  /* -|z| - 2 log(1 + e^-|z|) */                                                                                       \
  static void logistic_##suffix(const N *z, N *y, int64_t n) {                                                         \
    N below[PNI_KERNEL_PIECE];                                                                                         \
    laplace_##suffix(z, below, n);                                                                                     \
    pni_vector_##suffix(PNI_VECTOR_softplus, below, 1, y, n);                                                          \
    plus_twice_##suffix(below, y, n);                                                                                  \
  }                                                                                                                    \
  static void logistic_slope_##suffix(const N *z, N *y, int64_t n) {                                                   \
    N half[PNI_KERNEL_PIECE], t[PNI_KERNEL_PIECE];                                                                     \
    times_##suffix(z, half, n, (N)0.5);                                                                                \
    pni_vector_##suffix(PNI_VECTOR_tanh, half, 1, t, n);                                                               \
    times_##suffix(t, y, n, -1);                                                                                       \
  }                                                                                                                    \
  static void gumbel_##suffix(const N *z, N *y, int64_t n) {                                                           \
    N below[PNI_KERNEL_PIECE];                                                                                         \
    times_##suffix(z, below, n, -1);                                                                                   \
    pni_vector_##suffix(PNI_VECTOR_exp, below, 1, y, n);                                                               \
    minus_sum_##suffix(z, y, n);                                                                                       \
  }                                                                                                                    \
  static void gumbel_slope_##suffix(const N *z, N *y, int64_t n) {                                                     \
    N below[PNI_KERNEL_PIECE];                                                                                         \
    times_##suffix(z, below, n, -1);                                                                                   \
    pni_vector_##suffix(PNI_VECTOR_expm1, below, 1, y, n);                                                             \
  }
LAWS(double, f64, fabs)
LAWS(float, f32, fabsf)
#undef LAWS

/* ---- h' by builders, for gradients that are differentiated again ---- */

static T *normal_score(C *c, T *z) { return pn_neg(c, z); }
static T *laplace_score(C *c, T *z) { return pn_neg(c, pn_sign(c, z)); }
static T *logistic_score(C *c, T *z) { return pn_neg(c, pn_tanh(c, times(c, z, 0.5))); }
static T *gumbel_score(C *c, T *z) { return pn_expm1(c, pn_neg(c, z)); }
static T *cauchy_score(C *c, T *z) {
  T *far = above(c, pn_abs(c, z), 1), *w = pn_where(c, far, pn_reciprocal(c, only(c, far, z, 1)), but(c, far, 0, z));
  return pn_div(c, times(c, w, -2), plus(c, pn_square(c, w), 1));
}

/* ---- the laws ---- */

typedef struct {
  void (*f64)(const double *z, double *y, int64_t n);
  void (*f32)(const float *z, float *y, int64_t n);
  void (*slope_f64)(const double *z, double *y, int64_t n);
  void (*slope_f32)(const float *z, float *y, int64_t n);
  T *(*score)(C *c, T *z);
  double constant; /* taken away */
} law_row;

#define ROW(id, constant)                                                                                              \
  { id##_f64, id##_f32, id##_slope_f64, id##_slope_f32, id##_score, constant }
static const law_row laws[] = {[PNI_LAW_NORMAL] = ROW(normal, LOG_ROOT_TWO_PI),
                               [PNI_LAW_HALF_NORMAL] = ROW(normal, LOG_ROOT_TWO_PI - LOG_2),
                               [PNI_LAW_CAUCHY] = ROW(cauchy, LOG_PI),
                               [PNI_LAW_HALF_CAUCHY] = ROW(cauchy, LOG_PI - LOG_2),
                               [PNI_LAW_LAPLACE] = ROW(laplace, LOG_2),
                               [PNI_LAW_LOGISTIC] = ROW(logistic, 0),
                               [PNI_LAW_GUMBEL] = ROW(gumbel, 0)};

/* ---- operations of x, loc, scale ---- */

#define BODIES(N, suffix)                                                                                              \
  static void given_##suffix(const pni_piece *p, const N *log_s, void *out) {                                          \
    const law_row *law = &laws[p->ints[0]];                                                                            \
    N z[PNI_KERNEL_PIECE], y[PNI_KERNEL_PIECE];                                                                        \
    standard_##suffix(p->in[X], p->in[LOC], p->in[SCALE], z, p->n);                                                    \
    law->suffix(z, y, p->n);                                                                                           \
    less_##suffix(y, log_s, out, p->n, (N)law->constant);                                                              \
  }                                                                                                                    \
  static void density_##suffix(const pni_piece *p, void *out) {                                                        \
    given_##suffix(p, pni_piece_map(p, PNI_VECTOR_log, p->in[SCALE], p->one[SCALE], 0), out);                          \
  }                                                                                                                    \
  static void known_##suffix(const pni_piece *p, void *out) { given_##suffix(p, p->in[LOG_SCALE], out); }              \
  static void slopes_##suffix(const pni_piece *p, void *const *out) {                                                  \
    const N *s = p->in[SCALE], *g = p->in[G];                                                                          \
    N z[PNI_KERNEL_PIECE], u[PNI_KERNEL_PIECE];                                                                        \
    standard_##suffix(p->in[X], p->in[LOC], s, z, p->n);                                                               \
    laws[p->ints[0]].slope_##suffix(z, u, p->n);                                                                       \
    if (out[X]) move_##suffix(z, u, s, g, 1, out[X], p->n);                                                            \
    if (out[LOC]) move_##suffix(z, u, s, g, -1, out[LOC], p->n);                                                       \
    if (out[SCALE]) stretch_##suffix(z, u, s, g, out[SCALE], p->n);                                                    \
  }
BODIES(double, f64)
BODIES(float, f32)
#undef BODIES

PNI_DENSITY(location_scale, .inputs = 3, .value = {density_f64, density_f32}, .slopes = {slopes_f64, slopes_f32},
            .opposite = {LOC, X})

static T *vjp(C *c, T *y, T *g, int k) {
  T *loc = pni_in(y, 1), *scale = pni_in(y, 2), *z = pn_div(c, pn_sub(c, pni_in(y, 0), loc), scale);
  T *beyond = equals(c, pn_abs(c, z), INFINITY), *part = pn_div(c, but(c, beyond, 0, g), scale);
  z = but(c, beyond, 0, z);
  T *score = laws[y->attr->i[0]].score(c, z);
  if (k == 0) return pn_mul(c, part, score);
  return pn_neg(c, pn_mul(c, part, k == 1 ? score : plus(c, pn_mul(c, z, score), 1)));
}

static const pni_op op = {.name = "location_scale_log_density",
                          .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                          .map = location_scale_map,
                          .vjp = vjp,
                          .vjps = location_scale_vjps};

/* ---- the same beside the logarithm of a scale that stays as it is in a plan ---- */

PNI_DENSITY_VALUE(known_scale, .inputs = 4, .value = {known_f64, known_f32})

static pn_status known_vjps(C *c, T *y, T *g, const bool *wanted, T **out) {
  T of = *y;
  of.nin = LOG_SCALE;
  return location_scale_vjps(c, &of, g, wanted, out);
}

static const pni_op known = {.name = "location_scale_log_density",
                             .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                             .map = known_scale_map,
                             .vjp = vjp,
                             .vjps = known_vjps};

T *pni_location_scale(C *c, pni_law law, T *x, T *loc, T *scale) {
  T *in[] = {x, loc ? loc : pni_like(c, scale, 0), scale, NULL};
  const pni_attr a = {.ni = 1, .i = {law}};
  if (!scale || !pni_record_is_plain(c) || pni_varies(c, scale) || scale->flags & PNI_REQUIRES_GRAD)
    return pni_apply(c, &op, 3, in, &a);
  in[LOG_SCALE] = pn_log(c, scale);
  return pni_apply(c, &known, 4, in, &a);
}

T *pni_sum_log_prob(C *c, T *log_prob) {
  T *sum = NULL;
  if (log_prob && (log_prob->op == &op || log_prob->op == &known) && log_prob->attr->i[0] == PNI_LAW_NORMAL)
    sum = pni_normal_regression(c, pni_in(log_prob, 0), pni_in(log_prob, 1), pni_in(log_prob, 2));
  return sum || pni_failed(c) ? sum : pn_sum(c, log_prob, PN_ALL, 0);
}
