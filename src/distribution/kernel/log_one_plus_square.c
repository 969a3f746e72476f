/*
** log_one_plus_square.c: log(1 + z^2 / v), v > 0, of which the tails of Cauchy and Student densities are made: one operation, through
** log1p where the quotient is finite, else 2 log |z| - log v. Its derivatives, for |z| > 1 in the second form:
**   2 z / (v + z^2) = 2 / (z + v / z),  -s / v with s = z^2 / (v + z^2) = 1 / (1 + v / z / z)
*/
#include "log_one_plus_square.h"
#include "../../math/vector/vector.h"

enum { BLOCK = 256 };

#define ROW(T, suffix)                                                                                                 \
  static void row_##suffix(void *data, int64_t n, char *const *p, const int64_t *s) {                                  \
    (void)data;                                                                                                        \
    const T *x = (const T *)(const void *)p[1], *y = (const T *)(const void *)p[2];                                    \
    T *out = (T *)(void *)p[0];                                                                                        \
    for (int64_t at = 0; at < n; at += BLOCK) {                                                                        \
      double ratio[BLOCK] = {0}, value[BLOCK];                                                                         \
      int64_t size = n - at < BLOCK ? n - at : BLOCK;                                                                  \
      for (int64_t i = 0; i < size; i++) {                                                                             \
        double z = (double)x[(at + i) * s[1]];                                                                         \
        ratio[i] = z * z / (double)y[(at + i) * s[2]];                                                                 \
      }                                                                                                                \
      pni_vector_f64(PNI_VECTOR_log1p, ratio, 1, value, size);                                                         \
      for (int64_t i = 0; i < size; i++) {                                                                             \
        double v = value[i];                                                                                           \
        if (isinf(v)) v = 2 * log(fabs((double)x[(at + i) * s[1]])) - log((double)y[(at + i) * s[2]]);                 \
        out[at + i] = (T)v;                                                                                            \
      }                                                                                                                \
    }                                                                                                                  \
  }
ROW(double, f64)
ROW(float, f32)

static T *vjp(C *c, T *y, T *g, int k) {
  T *z = pni_in(y, 0), *v = pni_in(y, 1), *far = above(c, pn_abs(c, z), 1), *near = but(c, far, 0, z),
    *wide = only(c, far, z, 1);
  T *square = pn_square(c, near), *part = pn_div(c, v, wide);
  if (k == 0) {
    T *outer = pn_reciprocal(c, pn_add(c, wide, part)), *inner = pn_div(c, near, pn_add(c, v, square));
    return pn_mul(c, g, times(c, pn_where(c, far, outer, inner), 2));
  }
  T *outer = pn_reciprocal(c, plus(c, pn_div(c, part, wide), 1)), *inner = pn_div(c, square, pn_add(c, v, square));
  return pn_neg(c, pn_mul(c, g, pn_div(c, pn_where(c, far, outer, inner), v)));
}

static const pni_op op = {.name = "log_one_plus_square",
                          .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                          .map = (const pni_map_kernel[4]){row_f64, row_f32},
                          .vjp = vjp};

T *pni_log_one_plus_square(C *c, T *z, T *v) { return pni_apply2(c, &op, z, v ? v : pni_like(c, z, 1), NULL); }
