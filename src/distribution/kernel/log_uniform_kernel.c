/*
** log_uniform_kernel.c: with w = log(high / low) = log(1 + (high - low) / low), y = low e^(w u) between the ends,
**   dy/du = w y,  dy/dlow = (1 - u) y / low,  dy/dhigh = u y / high
** and the density with its support; inside
**   log p(x) = -log x - log w,  d/dx = -1/x,  d/dlow = 1 / (low w),  d/dhigh = -1 / (high w)
** and outside it has no slopes.
*/
#include "density.h"
#include "density_kernel.h"
#include "draw.h"
#include "../formula.h"

enum { X, LOW, HIGH, G };

#define BODIES(N, suffix)                                                                                              \
  PNI_EACH_LEVEL(rise_##suffix, (const N *restrict low, const N *restrict high, N *restrict out, int64_t n),           \
                 (low, high, out, n)) {                                                                                \
    for (int64_t i = 0; i < n; i++) out[i] = (high[i] - low[i]) / low[i];                                              \
  }                                                                                                                    \
  PNI_EACH_LEVEL(times_##suffix, (const N *restrict w, const N *restrict u, N *restrict out, int64_t n),               \
                 (w, u, out, n)) {                                                                                     \
    for (int64_t i = 0; i < n; i++) out[i] = w[i] * u[i];                                                              \
  }                                                                                                                    \
  PNI_EACH_LEVEL(                                                                                                      \
      within_##suffix,                                                                                                 \
      (const N *restrict growth, const N *restrict low, const N *restrict high, N *restrict out, int64_t n),           \
      (growth, low, high, out, n)) {                                                                                   \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      N v = low[i] * growth[i], most = high[i], least = low[i];                                                        \
      v = v > most ? most : v;                                                                                         \
      out[i] = v < least ? least : v;                                                                                  \
    }                                                                                                                  \
  }                                                                                                                    \
  PNI_EACH_LEVEL(                                                                                                      \
      held_##suffix,                                                                                                   \
      (const void *const *in, const N *restrict log_x, const N *restrict log_w, N *restrict out, int64_t n),           \
      (in, log_x, log_w, out, n)) {                                                                                    \
    const N *x = in[X], *low = in[LOW], *high = in[HIGH];                                                              \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      N v = x[i], inside = -(log_x[i] + log_w[i]), none = v == v ? -(N)INFINITY : v, y = v >= low[i] ? inside : none;  \
      out[i] = v <= high[i] ? y : none;                                                                                \
    }                                                                                                                  \
  }                                                                                                                    \
  PNI_EACH_LEVEL(slope_##suffix, (const void *const *in, const N *restrict part, N sign, N *restrict out, int64_t n),  \
                 (in, part, sign, out, n)) {                                                                           \
    const N *x = in[X], *low = in[LOW], *high = in[HIGH], *g = in[G];                                                  \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      N v = x[i], inside = g[i] * (sign / part[i]), y = v >= low[i] ? inside : 0;                                      \
      out[i] = v <= high[i] ? y : 0;                                                                                   \
    }                                                                                                                  \
  }                                                                                                                    \
  /* w; where the quotient overflows from two logarithms */                                                            \
  static void width_##suffix(const N *low, const N *high, N *w, int64_t n) {                                           \
    N rise[PNI_KERNEL_PIECE] = {0};                                                                                    \
    rise_##suffix(low, high, rise, n);                                                                                 \
    pni_vector_##suffix(PNI_VECTOR_log1p, rise, 1, w, n);                                                              \
    int64_t far = 0;                                                                                                   \
    for (int64_t i = 0; i < n; i++) far += w[i] == INFINITY;                                                           \
    for (int64_t i = 0; far && i < n; i++)                                                                             \
      if (w[i] == INFINITY) w[i] = (N)(log((double)high[i]) - log((double)low[i]));                                    \
  }                                                                                                                    \
  static void between_##suffix(const pni_piece *p, void *out) {                                                        \
    N w[PNI_KERNEL_PIECE], power[PNI_KERNEL_PIECE], growth[PNI_KERNEL_PIECE];                                          \
    width_##suffix(p->in[LOW], p->in[HIGH], w, p->n);                                                                  \
    times_##suffix(w, p->in[X], power, p->n);                                                                          \
    pni_vector_##suffix(PNI_VECTOR_exp, power, 1, growth, p->n);                                                       \
    within_##suffix(growth, p->in[LOW], p->in[HIGH], out, p->n);                                                       \
  }                                                                                                                    \
  static void density_##suffix(const pni_piece *p, void *out) {                                                        \
    N w[PNI_KERNEL_PIECE];                                                                                             \
    width_##suffix(p->in[LOW], p->in[HIGH], w, p->n);                                                                  \
    const N *log_w = pni_piece_map(p, PNI_VECTOR_log, w, p->one[LOW] && p->one[HIGH], 0);                              \
    held_##suffix(p->in, pni_piece_map(p, PNI_VECTOR_log, p->in[X], p->one[X], 1), log_w, out, p->n);                  \
  }                                                                                                                    \
  static void slopes_##suffix(const pni_piece *p, void *const *out) {                                                  \
    N w[PNI_KERNEL_PIECE], part[PNI_KERNEL_PIECE];                                                                     \
    if (out[X]) slope_##suffix(p->in, p->in[X], -1, out[X], p->n);                                                     \
    if (out[LOW] || out[HIGH]) width_##suffix(p->in[LOW], p->in[HIGH], w, p->n);                                       \
    for (int k = LOW; k <= HIGH; k++) {                                                                                \
      if (!out[k]) continue;                                                                                           \
      times_##suffix(w, p->in[k], part, p->n);                                                                         \
      slope_##suffix(p->in, part, k == LOW ? 1 : -1, out[k], p->n);                                                    \
    }                                                                                                                  \
  }
BODIES(double, f64)
BODIES(float, f32)
#undef BODIES

PNI_DENSITY_VALUE(log_between, .inputs = 3, .value = {between_f64, between_f32})
PNI_DENSITY(log_uniform, .inputs = 3, .value = {density_f64, density_f32}, .slopes = {slopes_f64, slopes_f32})

/* log(high / low), of close ends from their difference */
static T *width(C *c, T *low, T *high) {
  T *rise = pn_div(c, pn_sub(c, high, low), low), *close = below(c, rise, 1);
  return pn_where(c, close, pn_log1p(c, only(c, close, rise, 1)), pn_sub(c, pn_log(c, high), pn_log(c, low)));
}

/* ---- draws ---- */

static T *vjp(C *c, T *y, T *g, int k) {
  T *u = pni_in(y, X), *low = pni_in(y, LOW), *high = pni_in(y, HIGH), *part = pn_mul(c, g, y);
  if (k == X) return pn_mul(c, part, width(c, low, high));
  return pn_mul(c, part, k == LOW ? pn_div(c, from(c, 1, u), low) : pn_div(c, u, high));
}

static const pni_op op = {
    .name = "log_between", .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN, .map = log_between_map, .vjp = vjp};

T *pni_log_between(C *c, T *u, T *low, T *high) { return pni_apply(c, &op, 3, (T *[]){u, low, high}, NULL); }

/* ---- the density ---- */

static T *vjp_density(C *c, T *y, T *g, int k) {
  T *x = pni_in(y, X), *low = pni_in(y, LOW), *high = pni_in(y, HIGH);
  T *inside = pn_logical_and(c, pn_ge(c, x, low), pn_le(c, x, high)), *w = width(c, low, high);
  T *part = k == X ? only(c, inside, x, 1) : pn_mul(c, k == LOW ? low : high, w), *slope = pn_reciprocal(c, part);
  return pn_mul(c, g, only(c, inside, k == LOW ? slope : pn_neg(c, slope), 0));
}

static const pni_op op_density = {.name = "log_uniform_log_density",
                                  .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                                  .map = log_uniform_map,
                                  .vjp = vjp_density,
                                  .vjps = log_uniform_vjps};

T *pni_log_uniform_density(C *c, T *x, T *low, T *high) {
  return pni_apply(c, &op_density, 3, (T *[]){x, low, high}, NULL);
}
