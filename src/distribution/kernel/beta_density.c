/*
** beta_density.c: the log density of Beta(a, b) as an operation of x, a, b: with n = a + b
**   log p(x) = (a - 1) log x + (b - 1) log(1 - x) - (lgamma(a) + lgamma(b) - lgamma(n))
**   d/dx = (a - 1) / x - (b - 1) / (1 - x),  d/da = log x - (digamma(a) - digamma(n)),
**   d/db = log(1 - x) - (digamma(b) - digamma(n))
** Where x does not lie in (0, 1) the density is 0 and has no slope; NaN stays.
*/
#include "density.h"
#include "wide.h"
#include "../../math/special.h"
#include "../formula.h"

enum { X, A, B, G };

/* ---- blocks ---- */

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
/* out: lgamma(n) */
PNI_EACH_LEVEL(join,
               (const double *restrict a, const double *restrict b, const double *restrict log_x,
                const double *restrict log_rest, const double *restrict first, const double *restrict second,
                double *restrict out, int64_t n),
               (a, b, log_x, log_rest, first, second, out, n)) {
  for (int64_t i = 0; i < n; i++)
    out[i] = ((a[i] - 1) * log_x[i] + (b[i] - 1) * log_rest[i]) - (first[i] + second[i] - out[i]);
}
PNI_EACH_LEVEL(slope_x,
               (const double *restrict x, const double *restrict a, const double *restrict b, const double *restrict g,
                double *restrict out, int64_t n),
               (x, a, b, g, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = g[i] * ((a[i] - 1) / x[i] - (b[i] - 1) / (1 - x[i]));
}
/* out: digamma(a) or digamma(b) */
PNI_EACH_LEVEL(slope_shape,
               (const double *restrict log_x, const double *restrict whole, const double *restrict g,
                double *restrict out, int64_t n),
               (log_x, whole, g, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = g[i] * (log_x[i] - (out[i] - whole[i]));
}

/* Of large a or b, where large terms cancel, by the deviance D and the excess E of counts (special_count.c):
 *   log p(x) = log(a b / n) - log x - log(1 - x) - D(a, n x) - D(b, n (1 - x)) + E(n) - E(a) - E(b) */
enum { LARGE = 1000 };
PNI_EACH_LEVEL_OF(bool, any_large, (const double *restrict sum, int64_t n), (sum, n)) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) count += sum[i] > LARGE;
  return count > 0;
}
static void without_cancelling(const pni_wide *in, const double *sum, const double *log_x, const double *log_rest,
                               double *out, int64_t n) {
  const double *x = in[X].v, *a = in[A].v, *b = in[B].v;
  for (int64_t i = 0; i < n; i++) {
    if (!(sum[i] > LARGE)) continue;
    double away = pni_count_deviance(a[i], sum[i] * x[i]) + pni_count_deviance(b[i], sum[i] * (1 - x[i]));
    double excess = pni_count_excess(sum[i]) - pni_count_excess(a[i]) - pni_count_excess(b[i]);
    out[i] = log(a[i] / sum[i] * b[i]) - log_x[i] - log_rest[i] - away + excess;
  }
}

static void density(int dtype, const void *data, int64_t n, char *const *p, const int64_t *s) {
  (void)data;
  for (int64_t at = 0; at < n; at += PNI_WIDE) {
    double room[3][PNI_WIDE], minus[PNI_WIDE], sum[PNI_WIDE], log_x[PNI_WIDE], log_rest[PNI_WIDE];
    double first[PNI_WIDE], second[PNI_WIDE], result[PNI_WIDE], *out = pni_wide_place(dtype, p[0], at, result);
    int64_t size = n - at < PNI_WIDE ? n - at : PNI_WIDE;
    pni_wide in[3];
    for (int k = 0; k < 3; k++) in[k] = pni_wide_read(dtype, p[k + 1], s[k + 1], at, size, room[k]);
    prepare(in[X].v, in[A].v, in[B].v, minus, sum, size);
    pni_wide_map(PNI_VECTOR_log, in[X], log_x);
    pni_wide_map(PNI_VECTOR_log1p, (pni_wide){minus, size, in[X].one}, log_rest);
    pni_wide_map(PNI_VECTOR_lgamma, in[A], first);
    pni_wide_map(PNI_VECTOR_lgamma, in[B], second);
    pni_wide_map(PNI_VECTOR_lgamma, (pni_wide){sum, size, in[A].one && in[B].one}, out);
    join(in[A].v, in[B].v, log_x, log_rest, first, second, out, size);
    if (any_large(sum, size)) without_cancelling(in, sum, log_x, log_rest, out, size);
    if (outside(in[X].v, size)) set_outside(in[X].v, out, size);
    pni_wide_write(dtype, out, size, p[0], at);
  }
}
PNI_WIDE_ROWS(density)

/* One gradient of a block; minus: -x, whole: digamma(n). */
static void score(int k, const pni_wide *in, const double *minus, const double *whole, double *out, int64_t n) {
  double log_x[PNI_WIDE];
  if (k == X) {
    slope_x(in[X].v, in[A].v, in[B].v, in[G].v, out, n);
    return;
  }
  pni_wide_map(k == A ? PNI_VECTOR_log : PNI_VECTOR_log1p, k == A ? in[X] : (pni_wide){minus, n, in[X].one}, log_x);
  pni_wide_map(PNI_VECTOR_digamma, in[k], out);
  slope_shape(log_x, whole, in[G].v, out, n);
}

static void scores(int dtype, const void *data, int64_t n, char *const *p, const int64_t *s) {
  const pni_adjoint *adjoint = data;
  for (int64_t at = 0; at < n; at += PNI_WIDE) {
    double room[4][PNI_WIDE], minus[PNI_WIDE], sum[PNI_WIDE], whole[PNI_WIDE], result[PNI_WIDE];
    int64_t size = n - at < PNI_WIDE ? n - at : PNI_WIDE;
    pni_wide in[4];
    for (int k = 0; k < 4; k++) in[k] = pni_wide_read(dtype, p[k + 1], s[k + 1], at, size, room[k]);
    prepare(in[X].v, in[A].v, in[B].v, minus, sum, size);
    bool strange = outside(in[X].v, size) > 0, shapes = adjoint->wanted >> A != 0;
    if (shapes) pni_wide_map(PNI_VECTOR_digamma, (pni_wide){sum, size, in[A].one && in[B].one}, whole);
    for (int k = 0; k < 3; k++) {
      int place = pni_adjoint_place(adjoint, k);
      if (place < 0) continue;
      int64_t to = at + place * adjoint->apart;
      double *out = pni_wide_place(dtype, p[0], to, result);
      score(k, in, minus, whole, out, size);
      if (strange) drop_outside(in[X].v, out, size);
      pni_wide_write(dtype, out, size, p[0], to);
    }
  }
}
PNI_WIDE_SCORES("beta_scores")

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

static pn_status vjps(C *c, T *y, T *g, const bool *wanted, T **out) {
  return pni_adjoint_apply(c, &op_scores, y, g, wanted, out);
}

static const pni_op op = {.name = "beta_log_density",
                          .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                          .map = (const pni_map_kernel[4]){density_f64, density_f32},
                          .vjp = vjp,
                          .vjps = vjps};

T *pni_beta_log_density(C *c, T *x, T *a, T *b) { return pni_apply(c, &op, 3, (T *[]){x, a, b}, NULL); }
