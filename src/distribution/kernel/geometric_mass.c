/*
** geometric_mass.c: with t = log(1 + e^-|l|), l the logits,
**   log p(x) = -(max(-l, 0) + x max(l, 0)) - (1 + x) t
**   d/dl = s(-l) - x s(l),  d/dx = log s(-l),  s the sigmoid
*/
#include "block.h"
#include "density.h"

#define KERNELS(N, suffix, size_of)                                                                                    \
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
                 (const N *restrict x, const N *restrict l, const N *restrict e, N *restrict out, int64_t n),          \
                 (x, l, e, out, n)) {                                                                                  \
    for (int64_t i = 0; i < n; i++) { /* e = e^-|l| */                                                                 \
      N success = l[i] < 0 ? e[i] : 1, failure = l[i] < 0 ? 1 : e[i];                                                  \
      out[i] = (failure - x[i] * success) / (1 + e[i]);                                                                \
    }                                                                                                                  \
  }                                                                                                                    \
  static void mass_block_##suffix(const N *const *in, N *out, int64_t n, const int64_t *attr) {                        \
    N minus[PNI_BLOCK], t[PNI_BLOCK];                                                                                  \
    (void)attr;                                                                                                        \
    fold_##suffix(in[1], minus, n);                                                                                    \
    pni_vector_##suffix(PNI_VECTOR_softplus, minus, 1, t, n);                                                          \
    add_up_##suffix(in[0], in[1], t, out, n);                                                                          \
  }                                                                                                                    \
  static void slope_block_##suffix(const N *const *in, N *out, int64_t n, const int64_t *attr) {                       \
    N minus[PNI_BLOCK], e[PNI_BLOCK];                                                                                  \
    (void)attr;                                                                                                        \
    fold_##suffix(in[1], minus, n);                                                                                    \
    pni_vector_##suffix(PNI_VECTOR_exp, minus, 1, e, n);                                                               \
    score_##suffix(in[0], in[1], e, out, n);                                                                           \
  }                                                                                                                    \
  BLOCKS(N, suffix, mass, 2)                                                                                           \
  BLOCKS(N, suffix, slope, 2)
KERNELS(double, f64, fabs)
KERNELS(float, f32, fabsf)

static T *score(C *c, T *x, T *l) { return pn_sub(c, pn_sigmoid(c, pn_neg(c, l)), pn_mul(c, x, pn_sigmoid(c, l))); }

static const pni_op op_slope = {.name = "geometric_score",
                                .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN | PNI_OP_NODIFF,
                                .map = (const pni_map_kernel[4]){slope_f64, slope_f32}};

static T *vjp(C *c, T *y, T *g, int k) {
  T *x = pni_in(y, 0), *l = pni_in(y, 1);
  if (k == 0) return pn_mul(c, g, pn_log_sigmoid(c, pn_neg(c, l)));
  return pn_mul(c, g, c->no_grad ? pni_apply2(c, &op_slope, x, l, NULL) : score(c, x, l));
}

static const pni_op op = {.name = "geometric_log_mass",
                          .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                          .map = (const pni_map_kernel[4]){mass_f64, mass_f32},
                          .vjp = vjp};

T *pni_geometric_mass(C *c, T *x, T *logits) { return pni_apply2(c, &op, x, logits, NULL); }
