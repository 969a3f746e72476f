/*
** gamma_density.c: the log density of Gamma(a, b) as an operation of x, a, b, and that of the reciprocal of such a
** variable. With s = 1, or -1 for the reciprocal,
**   log p(x) = a log b + (s a - 1) log x - b x^s - lgamma(a)
**   d/dx = ((s a - 1) - s b x^s) / x,  d/da = log b + s log x - digamma(a),  d/db = a / b - x^s
** attr i[0]: whether the reciprocal's.
*/
#include "density.h"
#include "wide.h"
#include "../../math/special.h"
#include "../formula.h"

enum { X, A, B, G };

/* ---- blocks; y = x^s ---- */

/* Where x does not lie in (0, inf) the density is 0 and has no slope; NaN stays. */
PNI_EACH_LEVEL_OF(int64_t, outside, (const double *restrict x, int64_t n), (x, n)) {
  int64_t out = 0;
  for (int64_t i = 0; i < n; i++) out += ((x[i] > 0) & (x[i] <= DBL_MAX)) ? 0 : 1;
  return out;
}
PNI_EACH_LEVEL(set_outside, (const double *restrict x, double *restrict y, double low, int64_t n), (x, y, low, n)) {
  for (int64_t i = 0; i < n; i++) {
    double v = x[i], other = v == v ? low : v, own = y[i];
    y[i] = ((v > 0) & (v <= DBL_MAX)) ? own : other;
  }
}

PNI_EACH_LEVEL(invert, (const double *restrict x, double *restrict y, int64_t n), (x, y, n)) {
  for (int64_t i = 0; i < n; i++) y[i] = 1 / x[i];
}
/* out: lgamma(a); log_x, log_b as named */
PNI_EACH_LEVEL(join,
               (const double *restrict y, const double *restrict a, const double *restrict b,
                const double *restrict log_x, const double *restrict log_b, double s, double *restrict out, int64_t n),
               (y, a, b, log_x, log_b, s, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = ((a[i] * log_b[i] + (s * a[i] - 1) * log_x[i]) - b[i] * y[i]) - out[i];
}
PNI_EACH_LEVEL(slope_x,
               (const double *restrict x, const double *restrict a, const double *restrict b, const double *restrict g,
                double *restrict out, int64_t n),
               (x, a, b, g, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = g[i] * ((a[i] - 1) / x[i] - b[i]);
}
PNI_EACH_LEVEL(slope_reciprocal,
               (const double *restrict y, const double *restrict a, const double *restrict b, const double *restrict g,
                double *restrict out, int64_t n),
               (y, a, b, g, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = g[i] * ((b[i] * y[i] - (a[i] + 1)) * y[i]);
}
/* out: digamma(a) */
PNI_EACH_LEVEL(slope_a,
               (const double *restrict log_x, const double *restrict log_b, double s, const double *restrict g,
                double *restrict out, int64_t n),
               (log_x, log_b, s, g, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = g[i] * ((log_b[i] + s * log_x[i]) - out[i]);
}
PNI_EACH_LEVEL(slope_b,
               (const double *restrict y, const double *restrict a, const double *restrict b, const double *restrict g,
                double *restrict out, int64_t n),
               (y, a, b, g, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = g[i] * (a[i] / b[i] - y[i]);
}

PNI_EACH_LEVEL(drop_outside, (const double *restrict x, double *restrict slope, int64_t n), (x, slope, n)) {
  for (int64_t i = 0; i < n; i++) {
    double own = slope[i];
    slope[i] = ((x[i] > 0) & (x[i] <= DBL_MAX)) ? own : 0;
  }
}

/* Of large a, where large terms cancel, by the deviance D and the excess E of counts (special_count.c):
 *   log p(x) = log a - log x - D(a, b y) - E(a) */
enum { LARGE = 1000 };
PNI_EACH_LEVEL_OF(bool, any_large, (const double *restrict a, int64_t n), (a, n)) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) count += a[i] > LARGE;
  return count > 0;
}
static void without_cancelling(const double *y, const double *a, const double *b, const double *log_x, double *out,
                               int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (a[i] > LARGE) out[i] = log(a[i]) - log_x[i] - pni_count_deviance(a[i], b[i] * y[i]) - pni_count_excess(a[i]);
}

static void density(int dtype, const void *data, int64_t n, char *const *p, const int64_t *s) {
  bool inverse = *(const int64_t *)data != 0;
  for (int64_t at = 0; at < n; at += PNI_WIDE) {
    double room[3][PNI_WIDE], log_x[PNI_WIDE], log_b[PNI_WIDE], y[PNI_WIDE], result[PNI_WIDE];
    double *out = pni_wide_place(dtype, p[0], at, result);
    int64_t size = n - at < PNI_WIDE ? n - at : PNI_WIDE;
    pni_wide in[3];
    for (int k = 0; k < 3; k++) in[k] = pni_wide_read(dtype, p[k + 1], s[k + 1], at, size, room[k]);
    pni_wide_map(PNI_VECTOR_log, in[X], log_x);
    pni_wide_map(PNI_VECTOR_log, in[B], log_b);
    pni_wide_map(PNI_VECTOR_lgamma, in[A], out);
    if (inverse) invert(in[X].v, y, size);
    const double *power = inverse ? y : in[X].v;
    join(power, in[A].v, in[B].v, log_x, log_b, inverse ? -1 : 1, out, size);
    if (any_large(in[A].v, in[A].one ? 1 : size)) without_cancelling(power, in[A].v, in[B].v, log_x, out, size);
    if (outside(in[X].v, size)) set_outside(in[X].v, out, -INFINITY, size);
    pni_wide_write(dtype, out, size, p[0], at);
  }
}
PNI_WIDE_ROWS(density)

/* One gradient of a block. */
static void score(int k, bool inverse, const pni_wide *in, double *out, int64_t n) {
  double log_x[PNI_WIDE], log_b[PNI_WIDE], room[PNI_WIDE];
  const double *y = in[X].v, *a = in[A].v, *b = in[B].v, *g = in[G].v;
  if (inverse && k != A) {
    invert(y, room, n);
    y = room;
  }
  if (k == A) {
    pni_wide_map(PNI_VECTOR_log, in[X], log_x);
    pni_wide_map(PNI_VECTOR_log, in[B], log_b);
    pni_wide_map(PNI_VECTOR_digamma, in[A], out);
    slope_a(log_x, log_b, inverse ? -1 : 1, g, out, n);
  } else if (k == B) {
    slope_b(y, a, b, g, out, n);
  } else {
    (inverse ? slope_reciprocal : slope_x)(y, a, b, g, out, n);
  }
}

static void scores(int dtype, const void *data, int64_t n, char *const *p, const int64_t *s) {
  const pni_adjoint *adjoint = data;
  for (int64_t at = 0; at < n; at += PNI_WIDE) {
    double room[4][PNI_WIDE], result[PNI_WIDE];
    int64_t size = n - at < PNI_WIDE ? n - at : PNI_WIDE;
    pni_wide in[4];
    for (int k = 0; k < 4; k++) in[k] = pni_wide_read(dtype, p[k + 1], s[k + 1], at, size, room[k]);
    bool strange = outside(in[X].v, size) > 0;
    for (int k = 0; k < 3; k++) {
      int place = pni_adjoint_place(adjoint, k);
      if (place < 0) continue;
      int64_t to = at + place * adjoint->apart;
      double *out = pni_wide_place(dtype, p[0], to, result);
      score(k, adjoint->ints[0] != 0, in, out, size);
      if (strange) drop_outside(in[X].v, out, size);
      pni_wide_write(dtype, out, size, p[0], to);
    }
  }
}
PNI_WIDE_SCORES("gamma_scores")

/* ---- operations ---- */

/* The derivative in input k. */
static T *slope(C *c, T *x, T *a, T *b, bool inverse, int k) {
  T *power = inverse ? pn_reciprocal(c, x) : x;
  if (k == A) {
    T *ratio = inverse ? pn_sub(c, pn_log(c, b), pn_log(c, x)) : pn_add(c, pn_log(c, b), pn_log(c, x));
    return pn_sub(c, ratio, pn_digamma(c, a));
  }
  if (k == B) return pn_sub(c, pn_div(c, a, b), power);
  if (!inverse) return pn_sub(c, pn_div(c, plus(c, a, -1), x), b);
  return pn_mul(c, pn_sub(c, pn_mul(c, b, power), plus(c, a, 1)), power);
}

static T *vjp(C *c, T *y, T *g, int k) {
  T *x = pni_in(y, X), *inside = pn_logical_and(c, above(c, x, 0), below(c, x, INFINITY));
  T *d = slope(c, only(c, inside, x, 1), pni_in(y, A), pni_in(y, B), y->attr->i[0] != 0, k);
  return only(c, inside, pn_mul(c, g, d), 0);
}

static pn_status vjps(C *c, T *y, T *g, const bool *wanted, T **out) {
  return pni_adjoint_apply(c, &op_scores, y, g, wanted, out);
}

static const pni_op op = {.name = "gamma_log_density",
                          .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                          .map = (const pni_map_kernel[4]){density_f64, density_f32},
                          .vjp = vjp,
                          .vjps = vjps};

T *pni_gamma_log_density(C *c, T *x, T *a, T *b, bool inverse) {
  return pni_apply(c, &op, 3, (T *[]){x, a, b}, &(pni_attr){.ni = 1, .i = {inverse}});
}
