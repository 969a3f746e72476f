/*
** wide.h: kernels of densities that compute in float64 for either dtype, block by block with scratch on the stack: their
** operands are seen as adjacent doubles, in place where they are that. Private to files of kernels.
*/
#ifndef PN_DISTRIBUTION_KERNEL_WIDE_H
#define PN_DISTRIBUTION_KERNEL_WIDE_H

#include <math.h>
#include "../../autodiff/op/adjoint.h"
#include "../../base/processor.h"
#include "../../math/vector/vector.h"

enum { PNI_WIDE = 256 }; /* elements of a block */

/* A block of an operand. */
typedef struct pni_wide {
  const double *v;
  int64_t n;
  bool one; /* all elements are the same number */
} pni_wide;

/* n elements of operand p from element `at` on; room[PNI_WIDE] holds what is not adjacent. */
static inline pni_wide pni_wide_read(int dtype, const char *p, int64_t stride, int64_t at, int64_t n, double *room) {
  const double *wide = (const double *)(const void *)p + at * stride;
  const float *narrow = (const float *)(const void *)p + at * stride;
  if (dtype == PN_FLOAT64 && stride == 1) return (pni_wide){wide, n, false};
  if (dtype == PN_FLOAT64)
    for (int64_t i = 0; i < n; i++) room[i] = wide[i * stride];
  else if (stride == 1)
    for (int64_t i = 0; i < n; i++) room[i] = (double)narrow[i];
  else
    for (int64_t i = 0; i < n; i++) room[i] = (double)narrow[i * stride];
  return (pni_wide){room, n, stride == 0};
}

/* out[i] = f(x[i]); of one number once. x and out are different arrays. */
static inline void pni_wide_map(pni_vector_function f, pni_wide x, double *out) {
  pni_vector_f64(f, x.v, 1, out, x.one && x.n ? 1 : x.n);
  for (int64_t i = 1; x.one && i < x.n; i++) out[i] = out[0];
}

/* Where elements from `at` on of a result are computed: in place, or in room. */
static inline double *pni_wide_place(int dtype, char *p, int64_t at, double *room) {
  return dtype == PN_FLOAT64 ? (double *)(void *)p + at : room;
}
/* Takes them from room to where they belong. */
static inline void pni_wide_write(int dtype, const double *v, int64_t n, char *p, int64_t at) {
  float *out = (float *)(void *)p + at;
  if (dtype == PN_FLOAT64) return;
  for (int64_t i = 0; i < n; i++) out[i] = (float)v[i];
}

/* The kernels name_f64 and name_f32 of a function with the dtype in front. */
#define PNI_WIDE_ROWS(name)                                                                                            \
  static void name##_f64(void *data, int64_t n, char *const *p, const int64_t *s) { name(PN_FLOAT64, data, n, p, s); } \
  static void name##_f32(void *data, int64_t n, char *const *p, const int64_t *s) { name(PN_FLOAT32, data, n, p, s); }

/* The operation op_scores whose kernels are scores_f64 and scores_f32: an adjoint (autodiff/op/adjoint.h). */
#define PNI_WIDE_SCORES(text)                                                                                          \
  PNI_WIDE_ROWS(scores)                                                                                                \
  static pn_status eval_scores(pn_context *c, const pni_call *call, pn_tensor *out) {                                  \
    return pni_adjoint_eval(c, call, out, (const pni_map_kernel[]){scores_f64, scores_f32});                           \
  }                                                                                                                    \
  static const pni_op op_scores = {                                                                                    \
      .name = text, .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF, .infer = pni_adjoint_infer, .eval = eval_scores};

#endif
