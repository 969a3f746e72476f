/*
** gamma_density.c: the log density of Gamma(a, b) as an operation of x, a, b, and that of the reciprocal of such a
** variable. With s = 1, or -1 for the reciprocal,
**   log p(x) = a log b + (s a - 1) log x - b x^s - lgamma(a)
**   d/dx = ((s a - 1) - s b x^s) / x,  d/da = log b + s log x - digamma(a),  d/db = a / b - x^s
** attr i[0]: whether the reciprocal's.
*/
#include "density.h"
#include "density_kernel.h"
#include "../../math/special.h"
#include "../formula.h"

enum { X, A, B, G };

/* ---- loops over pieces; y = x^s ---- */

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
PNI_EACH_LEVEL(join,
               (const double *restrict y, const double *restrict a, const double *restrict b,
                const double *restrict log_x, const double *restrict log_b, const double *restrict gammas, double s,
                double *restrict out, int64_t n),
               (y, a, b, log_x, log_b, gammas, s, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = ((a[i] * log_b[i] + (s * a[i] - 1) * log_x[i]) - b[i] * y[i]) - gammas[i];
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
PNI_EACH_LEVEL(slope_a,
               (const double *restrict log_x, const double *restrict log_b, const double *restrict digammas, double s,
                const double *restrict g, double *restrict out, int64_t n),
               (log_x, log_b, digammas, s, g, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = g[i] * ((log_b[i] + s * log_x[i]) - digammas[i]);
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

enum { LOG_X, LOG_B, SPECIAL }; /* kept results */

static void density_body(const pni_piece *p, void *out) {
  const double *x = p->in[X], *a = p->in[A], *b = p->in[B], *y = x;
  const double *log_x = pni_piece_map(p, PNI_VECTOR_log, x, p->one[X], LOG_X);
  const double *log_b = pni_piece_map(p, PNI_VECTOR_log, b, p->one[B], LOG_B);
  const double *gammas = pni_piece_map(p, PNI_VECTOR_lgamma, a, p->one[A], SPECIAL);
  double inverse[PNI_KERNEL_PIECE];
  if (p->ints[0]) invert(x, inverse, p->n), y = inverse;
  join(y, a, b, log_x, log_b, gammas, p->ints[0] ? -1 : 1, out, p->n);
  if (any_large(a, p->one[A] ? 1 : p->n)) without_cancelling(y, a, b, log_x, out, p->n);
  if (outside(x, p->n)) set_outside(x, out, -INFINITY, p->n);
}

static void density_slopes(const pni_piece *p, void *const *out) {
  const double *x = p->in[X], *a = p->in[A], *b = p->in[B], *g = p->in[G], *y = x;
  bool strange = outside(x, p->n) > 0;
  double inverse[PNI_KERNEL_PIECE];
  if (p->ints[0]) invert(x, inverse, p->n), y = inverse;
  if (out[X]) (p->ints[0] ? slope_reciprocal : slope_x)(y, a, b, g, out[X], p->n);
  if (out[A]) {
    const double *log_x = pni_piece_map(p, PNI_VECTOR_log, x, p->one[X], LOG_X);
    const double *log_b = pni_piece_map(p, PNI_VECTOR_log, b, p->one[B], LOG_B);
    const double *digammas = pni_piece_map(p, PNI_VECTOR_digamma, a, p->one[A], SPECIAL);
    slope_a(log_x, log_b, digammas, p->ints[0] ? -1 : 1, g, out[A], p->n);
  }
  if (out[B]) slope_b(y, a, b, g, out[B], p->n);
  for (int k = X; strange && k <= B; k++)
    if (out[k]) drop_outside(x, out[k], p->n);
}

PNI_DENSITY_TOGETHER(gamma_density, .inputs = 3, .in_double = true, .value = {density_body, density_body},
                     .slopes = {density_slopes, density_slopes})

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

static const pni_op op = {.name = "gamma_log_density",
                          .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                          .map = gamma_density_map,
                          .vjp = vjp,
                          .vjps = gamma_density_vjps};

T *pni_gamma_log_density(C *c, T *x, T *a, T *b, bool inverse) {
  return pni_apply(c, &op, 3, (T *[]){x, a, b}, &(pni_attr){.ni = 1, .i = {inverse}});
}
