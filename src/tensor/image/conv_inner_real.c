/*
** conv_inner_real.c: kernels of convolution by images whose channels lie innermost.
*/
#include "../product/gemm.h"
#include <math.h>
#include <string.h>
#include "../../base/subnormal.h"
#include "../../base/type_real.h"
#include "conv.h"
#include "copy_real.h"

static inline void add_to(REAL *sum, const REAL *x, int64_t n) {
  int64_t k = 0;
  for (; k + BASE <= n; k += BASE) VEC(sum + k) += *(const vec *)(const void *)(x + k);
  for (; k < n; k++) sum[k] += x[k];
}

/* Calls of TAKE(at, of, n): n numbers of an image from `at` on are those of a patch from `of` on; and LEAVE(of, n) of
 * what lies beyond its edges. Numbers of a patch go upwards. */
#define EACH_PATCH(TAKE, LEAVE)                                                                                        \
  int64_t h = g->image[0], w = g->image[1], ci = g->ci, columns = g->kernel[1], d = g->dilation[1];                    \
  int64_t area = g->out[0] * g->out[1], depth = g->kernel[0] * columns * ci, image = first / area * h * w;             \
  int64_t p = first % area / g->out[1], q = first % g->out[1];                                                         \
  for (int64_t r = first; r < last; r++) {                                                                             \
    int64_t start = q * g->stride[1] - g->padding[1], j0 = 0, j1 = columns, of = 0;                                    \
    if (start < 0 || start + (columns - 1) * d >= w) pni_conv_inside(start, d, w, columns, &j0, &j1);                  \
    for (int64_t i = 0; i < g->kernel[0]; i++, of += columns * ci) {                                                   \
      int64_t row = p * g->stride[0] + i * g->dilation[0] - g->padding[0], at = image + row * w + start;               \
      if (row < 0 || row >= h) {                                                                                       \
        LEAVE(of, columns *ci);                                                                                        \
        continue;                                                                                                      \
      }                                                                                                                \
      LEAVE(of, j0 *ci);                                                                                               \
      if (d == 1)                                                                                                      \
        TAKE((at + j0) * ci, of + j0 * ci, (j1 - j0) * ci);                                                            \
      else                                                                                                             \
        for (int64_t j = j0; j < j1; j++) TAKE((at + j * d) * ci, of + j * ci, ci);                                    \
      LEAVE(of + j1 * ci, (columns - j1) * ci);                                                                        \
    }                                                                                                                  \
    col += depth;                                                                                                      \
    if (++q < g->out[1]) continue;                                                                                     \
    q = 0;                                                                                                             \
    if (++p < g->out[0]) continue;                                                                                     \
    p = 0;                                                                                                             \
    image += h * w;                                                                                                    \
  }

static void patches(const pni_conv *g, int64_t first, int64_t last, const void *x_, void *col_) {
  const REAL *x = x_;
  REAL *col = col_;
#define TAKE(at, of, n) copy(col + (of), x + (at), n)
#define LEAVE(of, n)                                                                                                   \
  for (int64_t z = 0; z < (n); z++) col[(of) + z] = 0
  EACH_PATCH(TAKE, LEAVE)
#undef TAKE
#undef LEAVE
}

static void scatter(const pni_conv *g, int64_t first, int64_t last, const void *col_, void *x_) {
  const REAL *col = col_;
  REAL *x = x_;
#define TAKE(at, of, n) add_to(x + (at), col + (of), n)
#define LEAVE(of, n)    (void)0
  EACH_PATCH(TAKE, LEAVE)
#undef TAKE
#undef LEAVE
}

/* A block of BASE rows and columns. */
static inline void turn_block(const REAL *from, int64_t from_row, REAL *to, int64_t to_row) {
#if defined(__has_builtin) && __has_builtin(__builtin_shufflevector)
#define AT(r)    (*(const vec *)(const void *)(from + (r)*from_row))
#define PUT(c)   VEC(to + (c)*to_row)
#define TWO(...) __builtin_shufflevector(__VA_ARGS__)
#if PNI_REAL_BITS == 32
  vec a = TWO(AT(0), AT(1), 0, 4, 1, 5), b = TWO(AT(0), AT(1), 2, 6, 3, 7);
  vec c = TWO(AT(2), AT(3), 0, 4, 1, 5), d = TWO(AT(2), AT(3), 2, 6, 3, 7);
  PUT(0) = TWO(a, c, 0, 1, 4, 5);
  PUT(1) = TWO(a, c, 2, 3, 6, 7);
  PUT(2) = TWO(b, d, 0, 1, 4, 5);
  PUT(3) = TWO(b, d, 2, 3, 6, 7);
#else
  PUT(0) = TWO(AT(0), AT(1), 0, 2);
  PUT(1) = TWO(AT(0), AT(1), 1, 3);
#endif
#else
  for (int r = 0; r < BASE; r++)
    for (int c = 0; c < BASE; c++) to[c * to_row + r] = from[r * from_row + c];
#endif
}

/* By lines of the result. */
static void turn(int64_t rows, int64_t columns, const void *from_, int64_t from_row, void *to_, int64_t to_row) {
  enum { LINE = 64 / sizeof(REAL) };
  const REAL *from = from_;
  REAL *to = to_;
  int64_t whole = rows - rows % BASE, wide = columns - columns % BASE, c;
  for (int64_t line = 0; line < rows; line += LINE) {
    int64_t end = line + LINE < rows ? line + LINE : rows, r, blocks = end < whole ? end : whole;
    for (c = 0; c < wide; c += BASE) {
      for (r = line; r < blocks; r += BASE) turn_block(from + r * from_row + c, from_row, to + c * to_row + r, to_row);
      for (; r < end; r++)
        for (int k = 0; k < BASE; k++) to[(c + k) * to_row + r] = from[r * from_row + c + k];
    }
    for (; c < columns; c++)
      for (r = line; r < end; r++) to[c * to_row + r] = from[r * from_row + c];
  }
}

static void packed(int64_t m, int64_t n, int64_t k, const void *a, const void *b, void *c) {
  unsigned before = FLUSH();
  pni_gemm_packed(sizeof(REAL) == 4, m, n, k, a, b, false, c);
  KEEP(before);
}

const pni_conv_inner_kernels TYPED(pni_conv_inner_kernels) = {patches, scatter, turn, packed};
