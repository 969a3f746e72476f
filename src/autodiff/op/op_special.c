/*
** op_special.c: special functions with their derivatives (DLMF 7.2, 8.8, 5.15).
*/
#include <math.h>
#include "op.h"
#include "../../base/processor.h"
#include "../../math/special.h"
#include "../../tensor/kernel/map.h"
#include "../../tensor/kernel/map_loop.h"
#include "../../math/vector/vector.h"

typedef pn_tensor T;
typedef pn_context C;
#define IN   pni_in(y, 0)
#define K(v) pni_like(c, y, v)

static const double two_over_root_pi = 1.12837916709551257390;
static const double root_half = 0.70710678118654752440;
static const double log_root_two_pi = 0.91893853320467274178;

/* d erf = 2/sqrt(pi) e^(-x^2) */
static T *gauss(C *c, T *x) { return pn_exp(c, pn_neg(c, pn_square(c, x))); }
static T *d_erf(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, pn_mul(c, gauss(c, IN), K(two_over_root_pi))); }
static T *d_erfc(C *c, T *y, T *g, int k) {
  return (void)k, pn_mul(c, g, pn_mul(c, gauss(c, IN), K(-two_over_root_pi)));
}
static T *d_erfinv(C *c, T *y, T *g, int k) {
  return (void)k, pn_mul(c, g, pn_mul(c, pn_exp(c, pn_square(c, y)), K(1 / two_over_root_pi)));
}
/* log of the standard normal density */
static T *log_phi(C *c, T *x) {
  return pn_sub(c, pn_mul(c, pn_square(c, x), pni_like(c, x, -0.5)), pni_like(c, x, log_root_two_pi));
}
static T *d_ndtr(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, pn_exp(c, log_phi(c, IN))); }
/* phi / Phi = sqrt(2/pi) / erfcx(-x / sqrt 2), exact in the lower tail; where erfcx would overflow it is 0 to all
 * digits, and so are its slopes */
static T *d_log_ndtr(C *c, T *y, T *g, int k) {
  T *tail = pn_erfcx(c, pn_mul(c, pn_clamp(c, IN, -INFINITY, y->dtype == PN_FLOAT64 ? 37.5 : 13), K(-root_half)));
  return (void)k, pn_div(c, pn_mul(c, g, K(root_half * two_over_root_pi)), tail);
}
/* Families of derivatives, member n + 1 being the slope of member n: no slope is a difference that cancels. */
static T *member(C *c, const pni_op *family, T *x, int64_t n) {
  return pni_apply1(c, family, x, &(pni_attr){.ni = 1, .i = {n}});
}
static T *d_erfcx(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, member(c, &pni_op_erfcx_slope, IN, 1)); }
static T *d_next(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, member(c, y->op, IN, y->attr->i[0] + 1)); }
/* d (x - log(1 + x)) = x / (1 + x) */
static T *d_log1p_gap(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, pn_div(c, IN, pn_add(c, IN, K(1)))); }
static T *d_ndtri(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, pn_exp(c, pn_neg(c, log_phi(c, y)))); }
/* d log_ndtri = Phi / phi at y = sqrt(pi/2) erfcx(-y / sqrt 2) */
static T *d_log_ndtri(C *c, T *y, T *g, int k) {
  T *ratio = pn_erfcx(c, pn_mul(c, y, K(-root_half)));
  return (void)k, pn_mul(c, g, pn_mul(c, ratio, K(1 / (root_half * two_over_root_pi))));
}
/* d expintx = -e^x Gamma(-1, x) */
static T *d_expintx(C *c, T *y, T *g, int k) {
  T *tail = pni_apply1(c, &pni_op_expint_tail, IN, &(pni_attr){.ni = 1, .i = {2}});
  return (void)k, pn_neg(c, pn_mul(c, g, tail));
}
static T *d_expint_tail(C *c, T *y, T *g, int k) {
  int64_t n = y->attr->i[0];
  T *next = pni_apply1(c, &pni_op_expint_tail, IN, &(pni_attr){.ni = 1, .i = {n + 1}});
  return (void)k, pn_mul(c, g, pn_mul(c, next, K(-(double)n)));
}
static T *d_lgamma(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, pn_digamma(c, IN)); }
static T *d_digamma(C *c, T *y, T *g, int k) { return (void)k, pn_mul(c, g, pn_polygamma(c, 1, IN)); }
static T *d_polygamma(C *c, T *y, T *g, int k) {
  int64_t next = y->attr->i[0] + 1;
  return (void)k, pn_mul(c, g, pn_polygamma(c, pni_whole_order(&next), IN));
}

/* log p of the gamma(a, 1) density, p = dP/dx: d/da = log x - digamma(a), d/dx = (a - 1 - x) / x */
static T *d_log_gamma_density(C *c, T *y, T *g, int k) {
  T *a = pni_in(y, 0), *x = pni_in(y, 1);
  if (k == 0) return pn_mul(c, g, pn_sub(c, pn_log(c, x), pn_digamma(c, a)));
  return pn_mul(c, g, pn_div(c, pn_sub(c, pn_sub(c, a, x), K(1)), x));
}
static T *log_density(C *c, T *a, T *x) { return pni_apply2(c, &pni_op_log_gamma_density, a, x, NULL); }
static T *d_gammainc(C *c, T *y, T *g, int k) {
  T *a = pni_in(y, 0), *x = pni_in(y, 1);
  return pn_mul(c, g, k ? pn_exp(c, log_density(c, a, x)) : pn_gammainc_grad_a(c, a, x));
}
/* d(dP/da)/dx = d p / da = p (log x - digamma a); the second derivative in a has no closed form. */
static T *d_gammainc_grad_a(C *c, T *y, T *g, int k) {
  T *a = pni_in(y, 0), *x = pni_in(y, 1);
  if (k == 0) {
    pni_fail(c, PN_MISSING, "gammainc_grad_a: has no derivative in a");
    return NULL;
  }
  T *slope = pn_sub(c, pn_log(c, x), pn_digamma(c, a));
  return pn_mul(c, g, pn_mul(c, pn_exp(c, log_density(c, a, x)), slope));
}

#define ROW(id, lo_, hi_, text)                                                                                        \
  pn_tensor *pn_##id(pn_context *c, pn_tensor *x) { return pni_apply1(c, &pni_op_##id, x, NULL); }                     \
  const pni_op pni_op_##id = {.name = #id,                                                                             \
                              .args = "x:t",                                                                           \
                              .doc = text,                                                                             \
                              .flags = PNI_OP_ELEMENTWISE,                                                             \
                              .domain = {{lo_, hi_}},                                                                  \
                              .map = (const pni_map_kernel[4]){pni_##id##_f64, pni_##id##_f32},                        \
                              .vjp = d_##id};

ROW(erf, 0, 0, "error function, 2/sqrt(pi) integral of e^(-t^2) from 0 to x")
ROW(erfc, 0, 0, "1 - erf(x), exact in the upper tail")
ROW(erfcx, -2, 5, "e^(x^2) erfc(x), the scaled upper tail")
ROW(erfinv, -0.9, 0.9, "inverse of erf on (-1, 1)")
ROW(ndtr, 0, 0, "cdf of the standard normal")
ROW(log_ndtr, 0, 0, "log of the standard normal cdf, exact in the lower tail")
ROW(ndtri, 0.05, 0.95, "quantile of the standard normal, 0 < x < 1")
ROW(log_ndtri, -6, -0.05, "x with log_ndtr(x) equal to the argument, which is below 0")
ROW(expintx, 0.1, 5, "e^x E_1(x), the scaled exponential integral, x > 0")
ROW(lgamma, 0.2, 5, "log |Gamma(x)|")
ROW(digamma, 0.2, 5, "derivative of lgamma")

pn_tensor *pn_polygamma(pn_context *c, int n, pn_tensor *x) {
  if (n < 0) {
    pni_fail(c, PN_DOMAIN, "polygamma: n must not be negative, got %d", n);
    return NULL;
  }
  if (n == 0) return pn_digamma(c, x);
  return pni_apply1(c, &pni_op_polygamma, x, &(pni_attr){.ni = 1, .i = {n}});
}
const pni_op pni_op_polygamma = {.name = "polygamma",
                                 .args = "x:t n:i=1",
                                 .doc = "n-th derivative of digamma, n >= 1; n = 1 is trigamma",
                                 .flags = PNI_OP_ELEMENTWISE,
                                 .domain = {{0.4, 5}},
                                 .map = (const pni_map_kernel[4]){pni_polygamma_f64, pni_polygamma_f32},
                                 .vjp = d_polygamma};

static PNI_LOOP1(expint_tail_f64, double, double, pni_expint_tail(pni_whole_order(data), x)) static PNI_LOOP1(
    expint_tail_f32, float, float, pni_expint_tail(pni_whole_order(data), (double)x))

    const pni_op pni_op_expint_tail = {.name = "expint_tail",
                                       .args = "x:t n:i",
                                       .doc = "e^x Gamma(1 - n, x), the slopes of expintx",
                                       .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                                       .domain = {{0.1, 5}},
                                       .map = (const pni_map_kernel[4]){expint_tail_f64, expint_tail_f32},
                                       .vjp = d_expint_tail};

#define FAMILY(id, lo_, hi_, text)                                                                                     \
  static PNI_LOOP1(id##_f64, double, double, pni_##id(pni_whole_order(data), x)) static PNI_LOOP1(                     \
      id##_f32, float, float, pni_##id(pni_whole_order(data), (double)x))                                              \
      const pni_op pni_op_##id = {.name = #id,                                                                         \
                                  .args = "x:t n:i",                                                                   \
                                  .doc = text,                                                                         \
                                  .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,                                         \
                                  .domain = {{lo_, hi_}},                                                              \
                                  .map = (const pni_map_kernel[4]){id##_f64, id##_f32},                                \
                                  .vjp = d_next};

FAMILY(erfcx_slope, -2, 5, "n-th derivative of erfcx, n >= 0")

/* Orders 0 and 1 below the series by vector functions of a block. */
enum { BLOCK = 256 };
PNI_EACH_LEVEL(stirling_error_rest,
               (const double *restrict x, const double *restrict log_x, double *restrict out, int64_t n),
               (x, log_x, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = out[i] - ((x[i] - 0.5) * log_x[i] - x[i] + log_root_two_pi);
}
PNI_EACH_LEVEL(stirling_slope_rest,
               (const double *restrict x, const double *restrict log_x, double *restrict out, int64_t n),
               (x, log_x, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = out[i] - log_x[i] + 0.5 / x[i];
}
PNI_EACH_LEVEL_OF(int64_t, stirling_odd, (const double *restrict x, double most, int64_t n), (x, most, n)) {
  int64_t odd = 0;
  for (int64_t i = 0; i < n; i++) odd += x[i] > 0 && x[i] < most ? 0 : 1;
  return odd;
}

static void stirling_block(int order, const double *x, double *out, int64_t n) {
  double log_x[BLOCK];
  pni_vector_f64(order ? PNI_VECTOR_digamma : PNI_VECTOR_lgamma, x, 1, out, n);
  pni_vector_f64(PNI_VECTOR_log, x, 1, log_x, n);
  (order ? stirling_slope_rest : stirling_error_rest)(x, log_x, out, n);
  for (int64_t i = 0, odd = stirling_odd(x, 10 + order, n); odd && i < n; i++)
    if (!(x[i] > 0 && x[i] < 10 + order)) out[i] = pni_stirling_slope(order, x[i]);
}

#define STIRLING(N, suffix)                                                                                            \
  static void stirling_slope_##suffix(void *data, int64_t n, char *const *p, const int64_t *s) {                       \
    int order = pni_whole_order(data);                                                                                 \
    const N *x = (const N *)(const void *)p[1];                                                                        \
    N *out = (N *)(void *)p[0];                                                                                        \
    for (int64_t at = 0; at < n; at += BLOCK) {                                                                        \
      int64_t size = n - at < BLOCK ? n - at : BLOCK;                                                                  \
      double in[BLOCK], y[BLOCK];                                                                                      \
      for (int64_t i = 0; i < size; i++) in[i] = (double)x[(at + i) * s[1]];                                           \
      if (order < 2)                                                                                                   \
        stirling_block(order, in, y, size);                                                                            \
      else                                                                                                             \
        for (int64_t i = 0; i < size; i++) y[i] = pni_stirling_slope(order, in[i]);                                    \
      for (int64_t i = 0; i < size; i++) out[at + i] = (N)y[i];                                                        \
    }                                                                                                                  \
  }
STIRLING(double, f64)
STIRLING(float, f32)

const pni_op pni_op_stirling_slope = {
    .name = "stirling_slope",
    .args = "x:t n:i",
    .doc = "n-th derivative of lgamma(x) - (x - 1/2) log(x) + x - log(2 pi)/2, n >= 0, x > 0",
    .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
    .domain = {{0.2, 5}},
    .map = (const pni_map_kernel[4]){stirling_slope_f64, stirling_slope_f32},
    .vjp = d_next};

#define GAP(N, suffix)                                                                                                 \
  static void log1p_gap_##suffix(void *data, int64_t n, char *const *p, const int64_t *s) {                            \
    const N *x = (const N *)(const void *)p[1];                                                                        \
    N *out = (N *)(void *)p[0];                                                                                        \
    (void)data;                                                                                                        \
    for (int64_t at = 0; at < n; at += BLOCK) {                                                                        \
      int64_t size = n - at < BLOCK ? n - at : BLOCK;                                                                  \
      double in[BLOCK], y[BLOCK];                                                                                      \
      for (int64_t i = 0; i < size; i++) in[i] = (double)x[(at + i) * s[1]];                                           \
      pni_log1p_gaps(in, y, size);                                                                                     \
      for (int64_t i = 0; i < size; i++) out[at + i] = (N)y[i];                                                        \
    }                                                                                                                  \
  }
GAP(double, f64)
GAP(float, f32)

const pni_op pni_op_log1p_gap = {.name = "log1p_gap",
                                 .args = "x:t",
                                 .doc = "x - log(1 + x), x > -1",
                                 .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                                 .domain = {{-0.9, 5}},
                                 .map = (const pni_map_kernel[4]){log1p_gap_f64, log1p_gap_f32},
                                 .vjp = d_log1p_gap};

static PNI_LOOP2(log_gamma_density_f64, double, double,
                 pni_log_gamma_density(x, y)) static PNI_LOOP2(log_gamma_density_f32, float, float,
                                                               pni_log_gamma_density((double)x, (double)y))

    const pni_op pni_op_log_gamma_density = {
        .name = "log_gamma_density",
        .args = "a:t x:t",
        .doc = "(a - 1) log(x) - x - lgamma(a), a > 0, x >= 0",
        .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
        .domain = {{0.3, 4}, {0.2, 5}},
        .map = (const pni_map_kernel[4]){log_gamma_density_f64, log_gamma_density_f32},
        .vjp = d_log_gamma_density};

pn_tensor *pn_gammainc(pn_context *c, pn_tensor *a, pn_tensor *x) {
  return pni_apply2(c, &pni_op_gammainc, a, x, NULL);
}
const pni_op pni_op_gammainc = {.name = "gammainc",
                                .args = "a:t x:t",
                                .doc = "P(a, x), the regularised lower incomplete gamma function",
                                .flags = PNI_OP_ELEMENTWISE | PNI_OP_ONCE,
                                .domain = {{0.3, 4}, {0.2, 5}},
                                .map = (const pni_map_kernel[4]){pni_gammainc_f64, pni_gammainc_f32},
                                .vjp = d_gammainc};

pn_tensor *pn_gammainc_grad_a(pn_context *c, pn_tensor *a, pn_tensor *x) {
  return pni_apply2(c, &pni_op_gammainc_grad_a, a, x, NULL);
}
const pni_op pni_op_gammainc_grad_a = {.name = "gammainc_grad_a",
                                       .args = "a:t x:t",
                                       .doc = "dP(a, x)/da; differentiable in x only",
                                       .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                                       .domain = {{0.3, 4}, {0.2, 5}},
                                       .map =
                                           (const pni_map_kernel[4]){pni_gammainc_grad_a_f64, pni_gammainc_grad_a_f32},
                                       .vjp = d_gammainc_grad_a};
