/*
** beta_density.c: the log density of Beta(a, b) as an operation of x, a, b: with n = a + b
**   log p(x) = (a - 1) log x + (b - 1) log(1 - x) - (lgamma(a) + lgamma(b) - lgamma(n))
**   d/dx = (a - 1) / x - (b - 1) / (1 - x),  d/da = log x - (digamma(a) - digamma(n)),
**   d/db = log(1 - x) - (digamma(b) - digamma(n))
** Where x does not lie in (0, 1) the density is 0 and has no slope; NaN stays.
*/
#include "density.h"
#include "density_kernel.h"
#include "../../math/special.h"
#include "../formula.h"

enum { X, A, B, G };

/* ---- loops over pieces ---- */

PNI_EACH_LEVEL_OF(int64_t, outside, (const double *restrict x, int64_t n), (x, n)) {
  int64_t out = 0;
  for (int64_t i = 0; i < n; i++) out += ((x[i] > 0) & (x[i] < 1)) ? 0 : 1;
  return out;
}
PNI_EACH_LEVEL(set_outside, (const double *restrict x, double *restrict y, int64_t n), (x, y, n)) {
  for (int64_t i = 0; i < n; i++) {
    double v = x[i], other = v == v ? -INFINITY : v, own = y[i];
    y[i] = ((v > 0) & (v < 1)) ? own : other;
  }
}
PNI_EACH_LEVEL(drop_outside, (const double *restrict x, double *restrict slope, int64_t n), (x, slope, n)) {
  for (int64_t i = 0; i < n; i++) {
    double own = slope[i];
    slope[i] = ((x[i] > 0) & (x[i] < 1)) ? own : 0;
  }
}
/* -x and a + b */
PNI_EACH_LEVEL(prepare,
               (const double *restrict x, const double *restrict a, const double *restrict b, double *restrict minus,
                double *restrict sum, int64_t n),
               (x, a, b, minus, sum, n)) {
  for (int64_t i = 0; i < n; i++) {
    minus[i] = -x[i];
    sum[i] = a[i] + b[i];
  }
}
PNI_EACH_LEVEL(join,
               (const double *restrict a, const double *restrict b, const double *restrict log_x,
                const double *restrict log_rest, const double *restrict first, const double *restrict second,
                const double *restrict whole, double *restrict out, int64_t n),
               (a, b, log_x, log_rest, first, second, whole, out, n)) {
  for (int64_t i = 0; i < n; i++)
    out[i] = ((a[i] - 1) * log_x[i] + (b[i] - 1) * log_rest[i]) - (first[i] + second[i] - whole[i]);
}
PNI_EACH_LEVEL(slope_x,
               (const double *restrict x, const double *restrict a, const double *restrict b, const double *restrict g,
                double *restrict out, int64_t n),
               (x, a, b, g, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = g[i] * ((a[i] - 1) / x[i] - (b[i] - 1) / (1 - x[i]));
}
/* part: digamma(a) or digamma(b) */
PNI_EACH_LEVEL(slope_shape,
               (const double *restrict log_x, const double *restrict part, const double *restrict whole,
                const double *restrict g, double *restrict out, int64_t n),
               (log_x, part, whole, g, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = g[i] * (log_x[i] - (part[i] - whole[i]));
}

/* Of large a or b, where large terms cancel, by the deviance D and the excess E of counts (special_count.c):
 *   log p(x) = log(a b / n) - log x - log(1 - x) - D(a, n x) - D(b, n (1 - x)) + E(n) - E(a) - E(b) */
enum { LARGE = 1000 };
PNI_EACH_LEVEL_OF(bool, any_large, (const double *restrict sum, int64_t n), (sum, n)) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) count += sum[i] > LARGE;
  return count > 0;
}
static void without_cancelling(const double *x, const double *a, const double *b, const double *sum,
                               const double *log_x, const double *log_rest, double *out, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (!(sum[i] > LARGE)) continue;
    double away = pni_count_deviance(a[i], sum[i] * x[i]) + pni_count_deviance(b[i], sum[i] * (1 - x[i]));
    double excess = pni_count_excess(sum[i]) - pni_count_excess(a[i]) - pni_count_excess(b[i]);
    out[i] = log(a[i] / sum[i] * b[i]) - log_x[i] - log_rest[i] - away + excess;
  }
}

enum { LOG_X, LOG_REST, FIRST, SECOND, WHOLE }; /* kept results */

static void density_body(const pni_piece *p, void *out) {
  const double *x = p->in[X], *a = p->in[A], *b = p->in[B];
  double minus[PNI_KERNEL_PIECE], sum[PNI_KERNEL_PIECE];
  prepare(x, a, b, minus, sum, p->n);
  const double *log_x = pni_piece_map(p, PNI_VECTOR_log, x, p->one[X], LOG_X);
  const double *log_rest = pni_piece_map(p, PNI_VECTOR_log1p, minus, p->one[X], LOG_REST);
  const double *first = pni_piece_map(p, PNI_VECTOR_lgamma, a, p->one[A], FIRST);
  const double *second = pni_piece_map(p, PNI_VECTOR_lgamma, b, p->one[B], SECOND);
  const double *whole = pni_piece_map(p, PNI_VECTOR_lgamma, sum, p->one[A] && p->one[B], WHOLE);
  join(a, b, log_x, log_rest, first, second, whole, out, p->n);
  if (any_large(sum, p->n)) without_cancelling(x, a, b, sum, log_x, log_rest, out, p->n);
  if (outside(x, p->n)) set_outside(x, out, p->n);
}

static void density_slopes(const pni_piece *p, void *const *out) {
  const double *x = p->in[X], *a = p->in[A], *b = p->in[B], *g = p->in[G], *whole = NULL;
  bool strange = outside(x, p->n) > 0;
  double minus[PNI_KERNEL_PIECE], sum[PNI_KERNEL_PIECE];
  prepare(x, a, b, minus, sum, p->n);
  if (out[A] || out[B]) whole = pni_piece_map(p, PNI_VECTOR_digamma, sum, p->one[A] && p->one[B], WHOLE);
  if (out[X]) slope_x(x, a, b, g, out[X], p->n);
  if (out[A]) {
    const double *log_x = pni_piece_map(p, PNI_VECTOR_log, x, p->one[X], LOG_X);
    slope_shape(log_x, pni_piece_map(p, PNI_VECTOR_digamma, a, p->one[A], FIRST), whole, g, out[A], p->n);
  }
  if (out[B]) {
    const double *log_rest = pni_piece_map(p, PNI_VECTOR_log1p, minus, p->one[X], LOG_REST);
    slope_shape(log_rest, pni_piece_map(p, PNI_VECTOR_digamma, b, p->one[B], SECOND), whole, g, out[B], p->n);
  }
  for (int k = X; strange && k <= B; k++)
    if (out[k]) drop_outside(x, out[k], p->n);
}

PNI_DENSITY_TOGETHER(beta_density, .inputs = 3, .in_double = true, .value = {density_body, density_body},
                     .slopes = {density_slopes, density_slopes})

/* ---- operations ---- */

static T *vjp(C *c, T *y, T *g, int k) {
  T *raw = pni_in(y, X), *a = pni_in(y, A), *b = pni_in(y, B), *d;
  T *inside = pn_logical_and(c, above(c, raw, 0), below(c, raw, 1)), *x = only(c, inside, raw, 0.5);
  if (k == X) {
    d = pn_sub(c, pn_div(c, plus(c, a, -1), x), pn_div(c, plus(c, b, -1), from(c, 1, x)));
  } else {
    T *log_x = k == A ? pn_log(c, x) : pn_log1p(c, pn_neg(c, x)), *whole = pn_digamma(c, pn_add(c, a, b));
    d = pn_sub(c, log_x, pn_sub(c, pn_digamma(c, pni_in(y, k)), whole));
  }
  return only(c, inside, pn_mul(c, g, d), 0);
}

static const pni_op op = {.name = "beta_log_density",
                          .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                          .map = beta_density_map,
                          .vjp = vjp,
                          .vjps = beta_density_vjps};

T *pni_beta_log_density(C *c, T *x, T *a, T *b) { return pni_apply(c, &op, 3, (T *[]){x, a, b}, NULL); }
