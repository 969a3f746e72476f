/*
** von_mises_density.c: with z = x - loc, k the concentration and A = I_1/I_0,
**   log p(x) = -2 k sin(z/2)^2 - log(e^-k I_0(k)) - log(2 pi)
**   d/dx = -k sin z = -d/dloc,  d/dk = (1 - A(k)) - 2 sin(z/2)^2
*/
#include "density.h"
#include "density_kernel.h"
#include "../formula.h"

enum { X, LOC, K, G };

#define BODIES(N, suffix)                                                                                              \
  PNI_EACH_LEVEL(apart_##suffix, (const N *restrict x, const N *restrict m, N *restrict z, int64_t n, N part),         \
                 (x, m, z, n, part)) {                                                                                 \
    for (int64_t i = 0; i < n; i++) z[i] = part * (x[i] - m[i]);                                                       \
  }                                                                                                                    \
  PNI_EACH_LEVEL(log_density_##suffix,                                                                                 \
                 (const N *restrict k, const N *restrict sine, const N *restrict norm, N *restrict out, int64_t n),    \
                 (k, sine, norm, out, n)) {                                                                            \
    for (int64_t i = 0; i < n; i++) out[i] = -(k[i] * (2 * (sine[i] * sine[i])) + (norm[i] + (N)(LOG_2 + LOG_PI)));    \
  }                                                                                                                    \
  PNI_EACH_LEVEL(                                                                                                      \
      turn_##suffix,                                                                                                   \
      (const N *restrict k, const N *restrict sine, const N *restrict g, N sign, N *restrict out, int64_t n),          \
      (k, sine, g, sign, out, n)) {                                                                                    \
    for (int64_t i = 0; i < n; i++) out[i] = sign * g[i] * (k[i] * sine[i]);                                           \
  }                                                                                                                    \
  PNI_EACH_LEVEL(spread_##suffix,                                                                                      \
                 (const N *restrict sine, const N *restrict gap, const N *restrict g, N *restrict out, int64_t n),     \
                 (sine, gap, g, out, n)) {                                                                             \
    for (int64_t i = 0; i < n; i++) out[i] = g[i] * (gap[i] - 2 * (sine[i] * sine[i]));                                \
  }                                                                                                                    \
  static void density_##suffix(const pni_piece *p, void *out) {                                                        \
    N half[PNI_KERNEL_PIECE], sine[PNI_KERNEL_PIECE];                                                                  \
    apart_##suffix(p->in[X], p->in[LOC], half, p->n, (N)0.5);                                                          \
    pni_vector_##suffix(PNI_VECTOR_sin, half, 1, sine, p->n);                                                          \
    log_density_##suffix(p->in[K], sine, pni_piece_map(p, PNI_VECTOR_log_i0e, p->in[K], p->one[K], 0), out, p->n);     \
  }                                                                                                                    \
  static void slopes_##suffix(const pni_piece *p, void *const *out) {                                                  \
    N z[PNI_KERNEL_PIECE], sine[PNI_KERNEL_PIECE];                                                                     \
    if (out[X] || out[LOC]) {                                                                                          \
      apart_##suffix(p->in[X], p->in[LOC], z, p->n, 1);                                                                \
      pni_vector_##suffix(PNI_VECTOR_sin, z, 1, sine, p->n);                                                           \
    }                                                                                                                  \
    if (out[X]) turn_##suffix(p->in[K], sine, p->in[G], -1, out[X], p->n);                                             \
    if (out[LOC]) turn_##suffix(p->in[K], sine, p->in[G], 1, out[LOC], p->n);                                          \
    if (!out[K]) return;                                                                                               \
    apart_##suffix(p->in[X], p->in[LOC], z, p->n, (N)0.5);                                                             \
    pni_vector_##suffix(PNI_VECTOR_sin, z, 1, sine, p->n);                                                             \
    spread_##suffix(sine, pni_piece_map(p, PNI_VECTOR_bessel_gap, p->in[K], p->one[K], 0), p->in[G], out[K], p->n);    \
  }
BODIES(double, f64)
BODIES(float, f32)
#undef BODIES

PNI_DENSITY(von_mises_density, .inputs = 3, .value = {density_f64, density_f32}, .slopes = {slopes_f64, slopes_f32},
            .opposite = {LOC, X})

static T *vjp(C *c, T *y, T *g, int k) {
  T *z = pn_sub(c, pni_in(y, X), pni_in(y, LOC)), *kappa = pni_in(y, K);
  if (k == K) {
    T *rise = times(c, pn_square(c, pn_sin(c, times(c, z, 0.5))), 2);
    return pn_mul(c, g, pn_sub(c, pn_bessel_gap(c, kappa), rise));
  }
  T *turn = pn_mul(c, g, pn_mul(c, kappa, pn_sin(c, z)));
  return k == X ? pn_neg(c, turn) : turn;
}

static const pni_op op = {.name = "von_mises_log_density",
                          .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                          .map = von_mises_density_map,
                          .vjp = vjp,
                          .vjps = von_mises_density_vjps};

T *pni_von_mises_density(C *c, T *x, T *loc, T *concentration) {
  return pni_apply(c, &op, 3, (T *[]){x, loc, concentration}, NULL);
}
