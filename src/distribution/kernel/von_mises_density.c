/*
** von_mises_density.c: with z = x - loc, k the concentration and A = I_1/I_0,
**   log p(x) = -2 k sin(z/2)^2 - log(e^-k I_0(k)) - log(2 pi)
**   d/dx = -k sin z = -d/dloc,  d/dk = (1 - A(k)) - 2 sin(z/2)^2
** attr of slopes: which of the two.
*/
#include "block.h"
#include "density.h"

#define KERNELS(N, suffix)                                                                                             \
  PNI_EACH_LEVEL(apart_##suffix, (const N *restrict x, const N *restrict m, N *restrict z, int64_t n, N part),         \
                 (x, m, z, n, part)) {                                                                                 \
    for (int64_t i = 0; i < n; i++) z[i] = part * (x[i] - m[i]);                                                       \
  }                                                                                                                    \
  PNI_EACH_LEVEL(log_density_##suffix,                                                                                 \
                 (const N *restrict k, const N *restrict sine, const N *restrict norm, N *restrict out, int64_t n),    \
                 (k, sine, norm, out, n)) {                                                                            \
    for (int64_t i = 0; i < n; i++) out[i] = -(k[i] * (2 * (sine[i] * sine[i])) + (norm[i] + (N)(LOG_2 + LOG_PI)));    \
  }                                                                                                                    \
  PNI_EACH_LEVEL(turn_##suffix, (const N *restrict k, const N *restrict sine, N *restrict out, int64_t n),             \
                 (k, sine, out, n)) {                                                                                  \
    for (int64_t i = 0; i < n; i++) out[i] = -(k[i] * sine[i]);                                                        \
  }                                                                                                                    \
  PNI_EACH_LEVEL(spread_##suffix, (const N *restrict sine, const N *restrict gap, N *restrict out, int64_t n),         \
                 (sine, gap, out, n)) {                                                                                \
    for (int64_t i = 0; i < n; i++) out[i] = gap[i] - 2 * (sine[i] * sine[i]);                                         \
  }                                                                                                                    \
  static void density_block_##suffix(const N *const *in, N *out, int64_t n, const int64_t *attr) {                     \
    N half[PNI_BLOCK], sine[PNI_BLOCK], norm[PNI_BLOCK];                                                               \
    (void)attr;                                                                                                        \
    apart_##suffix(in[0], in[1], half, n, (N)0.5);                                                                     \
    pni_vector_##suffix(PNI_VECTOR_sin, half, 1, sine, n);                                                             \
    pni_vector_##suffix(PNI_VECTOR_log_i0e, in[2], 1, norm, n);                                                        \
    log_density_##suffix(in[2], sine, norm, out, n);                                                                   \
  }                                                                                                                    \
  static void slope_block_##suffix(const N *const *in, N *out, int64_t n, const int64_t *attr) {                       \
    N z[PNI_BLOCK], sine[PNI_BLOCK], gap[PNI_BLOCK];                                                                   \
    apart_##suffix(in[0], in[1], z, n, attr[0] ? (N)0.5 : 1);                                                          \
    pni_vector_##suffix(PNI_VECTOR_sin, z, 1, sine, n);                                                                \
    if (attr[0] == 0) {                                                                                                \
      turn_##suffix(in[2], sine, out, n);                                                                              \
      return;                                                                                                          \
    }                                                                                                                  \
    pni_vector_##suffix(PNI_VECTOR_bessel_gap, in[2], 1, gap, n);                                                      \
    spread_##suffix(sine, gap, out, n);                                                                                \
  }                                                                                                                    \
  BLOCKS(N, suffix, density, 3)                                                                                        \
  BLOCKS(N, suffix, slope, 3)
KERNELS(double, f64)
KERNELS(float, f32)

static const pni_op op_slope = {.name = "von_mises_density_slope",
                                .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN | PNI_OP_NODIFF,
                                .map = (const pni_map_kernel[4]){slope_f64, slope_f32}};

static T *vjp(C *c, T *y, T *g, int k) {
  T *z = pn_sub(c, pni_in(y, 0), pni_in(y, 1)), *kappa = pni_in(y, 2);
  if (k == 2) {
    T *rise = times(c, pn_square(c, pn_sin(c, times(c, z, 0.5))), 2);
    return pn_mul(c, g, pn_sub(c, pn_bessel_gap(c, kappa), rise));
  }
  T *turn = pn_mul(c, g, pn_mul(c, kappa, pn_sin(c, z)));
  return k == 0 ? pn_neg(c, turn) : turn;
}

static T *slope(C *c, T *y, T *g, int64_t which) {
  T *const in[] = {pni_in(y, 0), pni_in(y, 1), pni_in(y, 2)};
  return pn_mul(c, g, pni_apply(c, &op_slope, 3, in, &(pni_attr){.ni = 1, .i = {which}}));
}

static pn_status vjps(C *c, T *y, T *g, const bool *wanted, T **out) {
  return moved_slopes(c, y, g, wanted, out, slope);
}

static const pni_op op = {.name = "von_mises_log_density",
                          .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                          .map = (const pni_map_kernel[4]){density_f64, density_f32},
                          .vjp = vjp,
                          .vjps = vjps};

T *pni_von_mises_density(C *c, T *x, T *loc, T *concentration) {
  return pni_apply(c, &op, 3, (T *[]){x, loc, concentration}, NULL);
}
