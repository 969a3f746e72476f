/*
** op_bernoulli.c: the log mass of a Bernoulli variable given by logits and its derivative, one pass each. With x in
** {0, 1} and s = 2 x - 1,
**   log p(x) = log_sigmoid(s l),  d log p / d l = s sigmoid(-s l) = x - sigmoid(l)
** (the first form of the derivative keeps its digits in both tails). Any other x has log p = -inf (NaN: NaN) and
** derivative 0.
*/
#include <math.h>
#include "op.h"
#include "../tensor/vector/vector.h"

enum { BLOCK = 256 };

/* Loops over whole arrays without branches: x, l and the result are blocks of n elements. */
#define KERNELS(T, suffix)                                                                                             \
  static const T *block_##suffix(const char *p, int64_t at, int64_t n, int64_t stride, T *room) {                      \
    const T *v = (const T *)(const void *)p + at * stride;                                                             \
    if (stride == 1) return v;                                                                                         \
    for (int64_t i = 0; i < n; i++) room[i] = v[i * stride];                                                           \
    return room;                                                                                                       \
  }                                                                                                                    \
  static void turn_##suffix(const T *restrict x, const T *restrict l, T *restrict out, int64_t n, T sign) {            \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      T e = sign * l[i], d = -e;                                                                                       \
      out[i] = x[i] == 1 ? e : d;                                                                                      \
    }                                                                                                                  \
  }                                                                                                                    \
  static void limit_##suffix(const T *restrict x, T *restrict out, int64_t n) {                                        \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      T v = x[i], none = v == v ? -(T)INFINITY : v, y = out[i];                                                        \
      y = v == 0 || v == 1 ? y : none;                                                                                 \
      out[i] = y;                                                                                                      \
    }                                                                                                                  \
  }                                                                                                                    \
  static void give_sign_##suffix(const T *restrict x, T *restrict out, int64_t n) {                                    \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      T v = x[i], y = out[i], minus = -y;                                                                              \
      minus = v == 0 ? minus : 0;                                                                                      \
      out[i] = v == 1 ? y : minus;                                                                                     \
    }                                                                                                                  \
  }                                                                                                                    \
  static void mass_##suffix(void *data, int64_t n, char *const *p, const int64_t *s) {                                 \
    (void)data;                                                                                                        \
    for (int64_t at = 0; at < n; at += BLOCK) {                                                                        \
      T room[2][BLOCK], turned[BLOCK], *out = (T *)(void *)p[0] + at;                                                  \
      int64_t size = n - at < BLOCK ? n - at : BLOCK;                                                                  \
      const T *x = block_##suffix(p[1], at, size, s[1], room[0]);                                                      \
      turn_##suffix(x, block_##suffix(p[2], at, size, s[2], room[1]), turned, size, 1);                                \
      pni_vector_##suffix(PNI_VECTOR_log_sigmoid, turned, 1, out, size);                                               \
      limit_##suffix(x, out, size);                                                                                    \
    }                                                                                                                  \
  }                                                                                                                    \
  static void score_##suffix(void *data, int64_t n, char *const *p, const int64_t *s) {                                \
    (void)data;                                                                                                        \
    for (int64_t at = 0; at < n; at += BLOCK) {                                                                        \
      T room[2][BLOCK], turned[BLOCK], *out = (T *)(void *)p[0] + at;                                                  \
      int64_t size = n - at < BLOCK ? n - at : BLOCK;                                                                  \
      const T *x = block_##suffix(p[1], at, size, s[1], room[0]);                                                      \
      turn_##suffix(x, block_##suffix(p[2], at, size, s[2], room[1]), turned, size, -1);                               \
      pni_vector_##suffix(PNI_VECTOR_sigmoid, turned, 1, out, size);                                                   \
      give_sign_##suffix(x, out, size);                                                                                \
    }                                                                                                                  \
  }
KERNELS(double, f64)
KERNELS(float, f32)

/* d / dx, of the formula for real x, is 2 l sigmoid(-s l) */
static pn_tensor *vjp_mass(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  pn_tensor *l = pni_in(y, 1), *score = pni_apply2(c, &pni_op_bernoulli_score, pni_in(y, 0), l, NULL);
  if (k == 1) return pn_mul(c, g, score);
  return pn_mul(c, g, pn_mul(c, pn_mul(c, l, pni_like(c, l, 2)), pn_abs(c, score)));
}

/* d score / dl = -sigmoid(l) sigmoid(-l) = -|score| (1 - |score|), also 0 outside; score is taken as constant in x */
static pn_tensor *vjp_score(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  if (k == 0) return pn_mul(c, g, pni_like(c, y, 0));
  pn_tensor *size = pn_abs(c, y);
  return pn_mul(c, g, pn_mul(c, size, pn_sub(c, size, pni_like(c, y, 1))));
}

#define ROW(id, f, d, text)                                                                                            \
  const pni_op pni_op_##id = {.name = #id,                                                                             \
                              .args = "x:t logits:t",                                                                  \
                              .doc = text,                                                                             \
                              .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,                                             \
                              .map = (const pni_row[4]){f##_f64, f##_f32},                                             \
                              .vjp = d};
ROW(bernoulli_log_mass, mass, vjp_mass, "log probability of x in {0, 1} with log odds `logits`; elsewhere -inf")
ROW(bernoulli_score, score, vjp_score, "derivative of that in the logits: x - sigmoid(logits); elsewhere 0")
