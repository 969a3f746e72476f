/*
** block.h: what kernels of densities share. A kernel works block by block: it gathers its operands, so that loops see
** adjacent numbers whatever the strides are, and has scratch on the stack. The result may be the memory of an operand:
** a block is written by one loop, the last. Private to files of kernels.
*/
#ifndef PN_DISTRIBUTION_KERNEL_BLOCK_H
#define PN_DISTRIBUTION_KERNEL_BLOCK_H

#include <math.h>
#include "../../base/processor.h"
#include "../../math/vector/vector.h"
#include "../formula.h"

enum { PNI_BLOCK = 256 };

/* n elements of an operand from element `at` on: its own memory if they are adjacent, else copies in `room`. */
#define GATHER(N, suffix)                                                                                              \
  static inline const N *gather_##suffix(const char *p, int64_t stride, int64_t at, int64_t n, N *room) {              \
    const N *v = (const N *)(const void *)p + at * stride;                                                             \
    if (stride == 1) return v;                                                                                         \
    for (int64_t i = 0; i < n; i++) room[i] = v[i * stride];                                                           \
    return room;                                                                                                       \
  }
GATHER(double, f64)
GATHER(float, f32)
#undef GATHER

/* A kernel that works by name_block_suffix(in, out, size, attr): `size` elements of operand k at in[k], of the result at
 * out, and the ints of the call. */
#define BLOCKS(N, suffix, name, nin)                                                                                   \
  static void name##_##suffix(void *data, int64_t n, char *const *p, const int64_t *s) {                               \
    for (int64_t at = 0; at < n; at += PNI_BLOCK) {                                                                    \
      N room[nin][PNI_BLOCK];                                                                                          \
      const N *in[nin];                                                                                                \
      const int64_t size = n - at < PNI_BLOCK ? n - at : PNI_BLOCK;                                                    \
      for (int k = 0; k < nin; k++) in[k] = gather_##suffix(p[k + 1], s[k + 1], at, size, room[k]);                    \
      name##_block_##suffix(in, (N *)(void *)p[0] + at, size, data);                                                   \
    }                                                                                                                  \
  }

/* For `vjps` of a density of x - loc and one more: slope(c, y, g, 0) is the gradient in x, slope(c, y, g, 1) in the last. */
static inline pn_status moved_slopes(C *c, T *y, T *g, const bool *wanted, T **out,
                                     T *(*slope)(C *c, T *y, T *g, int64_t which)) {
  T *move = wanted[0] || wanted[1] ? slope(c, y, g, 0) : NULL;
  out[0] = move;
  out[1] = wanted[1] ? pn_neg(c, move) : NULL;
  out[2] = wanted[2] ? slope(c, y, g, 1) : NULL;
  return c->status;
}

#endif
