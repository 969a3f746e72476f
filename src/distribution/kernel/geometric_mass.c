/*
** geometric_mass.c: with t = log(1 + e^-|l|), l the logits,
**   log p(x) = -(max(-l, 0) + x max(l, 0)) - (1 + x) t
**   d/dl = s(-l) - x s(l),  d/dx = log s(-l),  s the sigmoid
*/
#include "density.h"
#include "density_kernel.h"
#include "../formula.h"

enum { X, LOGITS, G };

#define BODIES(N, suffix, size_of)                                                                                     \
  PNI_EACH_LEVEL(fold_##suffix, (const N *restrict l, N *restrict out, int64_t n), (l, out, n)) {                      \
    for (int64_t i = 0; i < n; i++) out[i] = -size_of(l[i]);                                                           \
  }                                                                                                                    \
  PNI_EACH_LEVEL(add_up_##suffix,                                                                                      \
                 (const N *restrict x, const N *restrict l, const N *restrict t, N *restrict out, int64_t n),          \
                 (x, l, t, out, n)) {                                                                                  \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      N v = l[i], low = v < 0 ? -v : 0, high = v < 0 ? 0 : v;                                                          \
      out[i] = -(low + x[i] * high) - (1 + x[i]) * t[i];                                                               \
    }                                                                                                                  \
  }                                                                                                                    \
  PNI_EACH_LEVEL(score_##suffix,                                                                                       \
                 (const N *restrict x, const N *restrict l, const N *restrict e, const N *restrict g, N *restrict out, \
                  int64_t n),                                                                                          \
                 (x, l, e, g, out, n)) {                                                                               \
    for (int64_t i = 0; i < n; i++) { /* e = e^-|l| */                                                                 \
      N success = l[i] < 0 ? e[i] : 1, failure = l[i] < 0 ? 1 : e[i];                                                  \
      out[i] = g[i] * ((failure - x[i] * success) / (1 + e[i]));                                                       \
    }                                                                                                                  \
  }                                                                                                                    \
  PNI_EACH_LEVEL(odds_##suffix,                                                                                        \
                 (const N *restrict l, const N *restrict t, const N *restrict g, N *restrict out, int64_t n),          \
                 (l, t, g, out, n)) {                                                                                  \
    for (int64_t i = 0; i < n; i++) out[i] = g[i] * -((l[i] < 0 ? 0 : l[i]) + t[i]);                                   \
  }                                                                                                                    \
  static const N *folded_##suffix(const pni_piece *p, pni_vector_function f) {                                         \
    N minus[PNI_KERNEL_PIECE];                                                                                         \
    fold_##suffix(p->in[LOGITS], minus, p->n);                                                                         \
    return pni_piece_map(p, f, minus, p->one[LOGITS], f == PNI_VECTOR_exp);                                            \
  }                                                                                                                    \
  static void mass_##suffix(const pni_piece *p, void *out) {                                                           \
    add_up_##suffix(p->in[X], p->in[LOGITS], folded_##suffix(p, PNI_VECTOR_softplus), out, p->n);                      \
  }                                                                                                                    \
  static void slopes_##suffix(const pni_piece *p, void *const *out) {                                                  \
    const N *l = p->in[LOGITS];                                                                                        \
    if (out[X]) odds_##suffix(l, folded_##suffix(p, PNI_VECTOR_softplus), p->in[G], out[X], p->n);                     \
    if (out[LOGITS]) score_##suffix(p->in[X], l, folded_##suffix(p, PNI_VECTOR_exp), p->in[G], out[LOGITS], p->n);     \
  }
BODIES(double, f64, fabs)
BODIES(float, f32, fabsf)
#undef BODIES

PNI_DENSITY(geometric_mass, .inputs = 2, .value = {mass_f64, mass_f32}, .slopes = {slopes_f64, slopes_f32})

static T *vjp(C *c, T *y, T *g, int k) {
  T *x = pni_in(y, X), *l = pni_in(y, LOGITS);
  if (k == X) return pn_mul(c, g, pn_log_sigmoid(c, pn_neg(c, l)));
  return pn_mul(c, g, pn_sub(c, pn_sigmoid(c, pn_neg(c, l)), pn_mul(c, x, pn_sigmoid(c, l))));
}

static const pni_op op = {.name = "geometric_log_mass",
                          .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                          .map = geometric_mass_map,
                          .vjp = vjp,
                          .vjps = geometric_mass_vjps};

T *pni_geometric_mass(C *c, T *x, T *logits) { return pni_apply2(c, &op, x, logits, NULL); }
