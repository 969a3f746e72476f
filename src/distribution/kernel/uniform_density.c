/*
** uniform_density.c: low + (high - low) u; rounding may pass high, and is cut off there,
**   d/du = high - low,  d/dlow = 1 - u,  d/dhigh = u
** and the density with its support; inside
**   log p(x) = -log(high - low),  d/dlow = 1 / (high - low) = -d/dhigh
** and outside it has no slopes.
*/
#include "block.h"
#include "density.h"
#include "draw.h"

#define KERNEL(N, suffix)                                                                                              \
  PNI_EACH_LEVEL(go_##suffix,                                                                                          \
                 (const N *restrict u, const N *restrict low, const N *restrict high, N *restrict out, int64_t n),     \
                 (u, low, high, out, n)) {                                                                             \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      N v = low[i] + (high[i] - low[i]) * u[i], end = high[i];                                                         \
      out[i] = v > end ? end : v;                                                                                      \
    }                                                                                                                  \
  }                                                                                                                    \
  static void between_block_##suffix(const N *const *in, N *out, int64_t n, const int64_t *attr) {                     \
    (void)attr;                                                                                                        \
    go_##suffix(in[0], in[1], in[2], out, n);                                                                          \
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
  static void density_block_##suffix(const N *const *in, N *out, int64_t n, const int64_t *attr) {                     \
    N width[PNI_BLOCK], log_width[PNI_BLOCK];                                                                          \
    (void)attr;                                                                                                        \
    span_##suffix(in[1], in[2], width, n);                                                                             \
    pni_vector_##suffix(PNI_VECTOR_log, width, 1, log_width, n);                                                       \
    held_##suffix(in[0], in[1], in[2], log_width, out, n);                                                             \
  }                                                                                                                    \
  PNI_EACH_LEVEL(share_##suffix,                                                                                       \
                 (const N *restrict x, const N *restrict low, const N *restrict high, N *restrict out, int64_t n),     \
                 (x, low, high, out, n)) {                                                                             \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      N v = x[i], inside = 1 / (high[i] - low[i]), y = v >= low[i] ? inside : 0;                                       \
      out[i] = v <= high[i] ? y : 0;                                                                                   \
    }                                                                                                                  \
  }                                                                                                                    \
  static void slope_block_##suffix(const N *const *in, N *out, int64_t n, const int64_t *attr) {                       \
    (void)attr;                                                                                                        \
    share_##suffix(in[0], in[1], in[2], out, n);                                                                       \
  }                                                                                                                    \
  BLOCKS(N, suffix, between, 3)                                                                                        \
  BLOCKS(N, suffix, density, 3)                                                                                        \
  BLOCKS(N, suffix, slope, 3)

KERNEL(double, f64)
KERNEL(float, f32)

static T *vjp(C *c, T *y, T *g, int k) {
  T *u = pni_in(y, 0);
  if (k == 0) return pn_mul(c, g, pn_sub(c, pni_in(y, 2), pni_in(y, 1)));
  return pn_mul(c, g, k == 1 ? from(c, 1, u) : u);
}

static const pni_op op = {.name = "between",
                          .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                          .map = (const pni_map_kernel[4]){between_f64, between_f32},
                          .vjp = vjp};

T *pni_between(C *c, T *u, T *low, T *high) { return pni_apply(c, &op, 3, (T *[]){u, low, high}, NULL); }

/* ---- the density ---- */

/* 1 / (high - low) inside, 0 outside: as one operation, and by builders */
static const pni_op op_slope = {.name = "uniform_density_slope",
                                .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN | PNI_OP_NODIFF,
                                .map = (const pni_map_kernel[4]){slope_f64, slope_f32}};

static T *slope(C *c, T *x, T *low, T *high) {
  if (c->no_grad) return pni_apply(c, &op_slope, 3, (T *[]){x, low, high}, NULL);
  T *inside = pn_logical_and(c, pn_ge(c, x, low), pn_le(c, x, high));
  return only(c, inside, pn_reciprocal(c, pn_sub(c, high, low)), 0);
}

static T *vjp_density(C *c, T *y, T *g, int k) {
  if (k == 0) return pni_like(c, g, 0);
  T *part = pn_mul(c, g, slope(c, pni_in(y, 0), pni_in(y, 1), pni_in(y, 2)));
  return k == 1 ? part : pn_neg(c, part);
}

static pn_status vjps_density(C *c, T *y, T *g, const bool *wanted, T **out) {
  T *part = wanted[1] || wanted[2] ? vjp_density(c, y, g, 1) : NULL;
  out[0] = wanted[0] ? pni_like(c, g, 0) : NULL;
  out[1] = part;
  out[2] = wanted[2] ? pn_neg(c, part) : NULL;
  return c->status;
}

static const pni_op op_density = {.name = "uniform_log_density",
                                  .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                                  .map = (const pni_map_kernel[4]){density_f64, density_f32},
                                  .vjp = vjp_density,
                                  .vjps = vjps_density};

T *pni_uniform_density(C *c, T *x, T *low, T *high) {
  return pni_apply(c, &op_density, 3, (T *[]){x, low, high}, NULL);
}
