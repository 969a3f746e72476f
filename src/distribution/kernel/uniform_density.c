/*
** uniform_density.c: low + (high - low) u; rounding may pass high, and is cut off there,
**   d/du = high - low,  d/dlow = 1 - u,  d/dhigh = u
** and the density with its support; inside
**   log p(x) = -log(high - low),  d/dlow = 1 / (high - low) = -d/dhigh
** and outside it has no slopes.
*/
#include "density.h"
#include "density_kernel.h"
#include "draw.h"
#include "../formula.h"

enum { X, LOW, HIGH, G };

#define BODIES(N, suffix)                                                                                              \
  PNI_EACH_LEVEL(go_##suffix,                                                                                          \
                 (const N *restrict u, const N *restrict low, const N *restrict high, N *restrict out, int64_t n),     \
                 (u, low, high, out, n)) {                                                                             \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      N v = low[i] + (high[i] - low[i]) * u[i], end = high[i];                                                         \
      out[i] = v > end ? end : v;                                                                                      \
    }                                                                                                                  \
  }                                                                                                                    \
  PNI_EACH_LEVEL(span_##suffix, (const N *restrict low, const N *restrict high, N *restrict out, int64_t n),           \
                 (low, high, out, n)) {                                                                                \
    for (int64_t i = 0; i < n; i++) out[i] = high[i] - low[i];                                                         \
  }                                                                                                                    \
  PNI_EACH_LEVEL(held_##suffix,                                                                                        \
                 (const N *restrict x, const N *restrict low, const N *restrict high, const N *restrict log_width,     \
                  N *restrict out, int64_t n),                                                                         \
                 (x, low, high, log_width, out, n)) {                                                                  \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      N v = x[i], inside = -log_width[i], none = v == v ? -(N)INFINITY : v, y = v >= low[i] ? inside : none;           \
      out[i] = v <= high[i] ? y : none;                                                                                \
    }                                                                                                                  \
  }                                                                                                                    \
  PNI_EACH_LEVEL(share_##suffix,                                                                                       \
                 (const N *restrict x, const N *restrict low, const N *restrict high, const N *restrict g, N sign,     \
                  N *restrict out, int64_t n),                                                                         \
                 (x, low, high, g, sign, out, n)) {                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      N v = x[i], inside = sign * g[i] * (1 / (high[i] - low[i])), y = v >= low[i] ? inside : 0;                       \
      out[i] = v <= high[i] ? y : 0;                                                                                   \
    }                                                                                                                  \
  }                                                                                                                    \
  static void between_##suffix(const pni_piece *p, void *out) {                                                        \
    go_##suffix(p->in[X], p->in[LOW], p->in[HIGH], out, p->n);                                                         \
  }                                                                                                                    \
  static void density_##suffix(const pni_piece *p, void *out) {                                                        \
    N width[PNI_KERNEL_PIECE];                                                                                         \
    span_##suffix(p->in[LOW], p->in[HIGH], width, p->n);                                                               \
    const N *log_width = pni_piece_map(p, PNI_VECTOR_log, width, p->one[LOW] && p->one[HIGH], 0);                      \
    held_##suffix(p->in[X], p->in[LOW], p->in[HIGH], log_width, out, p->n);                                            \
  }                                                                                                                    \
  static void slopes_##suffix(const pni_piece *p, void *const *out) {                                                  \
    for (int k = LOW; k <= HIGH; k++)                                                                                  \
      if (out[k]) share_##suffix(p->in[X], p->in[LOW], p->in[HIGH], p->in[G], k == LOW ? 1 : -1, out[k], p->n);        \
  }
BODIES(double, f64)
BODIES(float, f32)
#undef BODIES

PNI_DENSITY_VALUE(between, .inputs = 3, .value = {between_f64, between_f32})

static T *vjp(C *c, T *y, T *g, int k) {
  T *u = pni_in(y, X);
  if (k == X) return pn_mul(c, g, pn_sub(c, pni_in(y, HIGH), pni_in(y, LOW)));
  return pn_mul(c, g, k == LOW ? from(c, 1, u) : u);
}

static const pni_op op = {
    .name = "between", .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN, .map = between_map, .vjp = vjp};

T *pni_between(C *c, T *u, T *low, T *high) { return pni_apply(c, &op, 3, (T *[]){u, low, high}, NULL); }

/* ---- the density ---- */

PNI_DENSITY(uniform_density, .inputs = 3, .value = {density_f64, density_f32}, .slopes = {slopes_f64, slopes_f32},
            .opposite = {HIGH, LOW}, .flat = 1 << X)

static T *vjp_density(C *c, T *y, T *g, int k) {
  T *x = pni_in(y, X), *low = pni_in(y, LOW), *high = pni_in(y, HIGH);
  if (k == X) return pni_like(c, g, 0);
  T *inside = pn_logical_and(c, pn_ge(c, x, low), pn_le(c, x, high));
  T *part = pn_mul(c, g, only(c, inside, pn_reciprocal(c, pn_sub(c, high, low)), 0));
  return k == LOW ? part : pn_neg(c, part);
}

static const pni_op op_density = {.name = "uniform_log_density",
                                  .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                                  .map = uniform_density_map,
                                  .vjp = vjp_density,
                                  .vjps = uniform_density_vjps};

T *pni_uniform_density(C *c, T *x, T *low, T *high) {
  return pni_apply(c, &op_density, 3, (T *[]){x, low, high}, NULL);
}
