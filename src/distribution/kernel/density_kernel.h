/*
** density_kernel.h: elementwise operations of densities, masses and draws out of bodies that see adjacent numbers. A
** body gets a piece, at most PNI_KERNEL_PIECE elements of each input whatever its strides, and writes the value of the
** elements, or their gradients. Gathering, conversion from and to float32, sharding, and gradients of which only some
** are wanted are done here. Private to files of kernels.
*/
#ifndef PN_DISTRIBUTION_KERNEL_DENSITY_KERNEL_H
#define PN_DISTRIBUTION_KERNEL_DENSITY_KERNEL_H

#include "../../autodiff/op/op.h"
#include "../../base/processor.h"
#include "../../math/vector/vector.h"

/* PNI_KEPT: results of pni_piece_map that a body can have at a time. */
enum { PNI_KERNEL_PIECE = 256, PNI_KEPT = 5 };

/* No input and no kept result is the memory of a result. */
typedef struct pni_piece {
  int64_t n;
  int dtype;                    /* of the numbers that the body sees */
  bool first;                   /* of the pieces of a run, which have the same kept results */
  bool one[PNI_OPERANDS];       /* all elements of the input are the same number, in all pieces of the run */
  const void *in[PNI_OPERANDS]; /* the inputs; of gradients last the factor g */
  const int64_t *ints;          /* of the operation */
  const double *real;           /* where it has no ints */
  double (*kept)[PNI_KERNEL_PIECE];
} pni_piece;

/* f of x, as many numbers as the piece has: result `place` of the kept ones. `one`: x is the same number in all pieces
 * of the run, so that the first one's result holds. */
const void *pni_piece_map(const pni_piece *p, pni_vector_function f, const void *x, bool one, int place);

/* Bodies by the type of their numbers, those in double twice. */
typedef struct pni_density_kernel {
  int inputs;
  bool in_double; /* bodies see doubles whatever the type of the tensors */
  int masks;      /* bit k: input k is of type bool */
  void (*value[2])(const pni_piece *p, void *out);
  /* g times the gradient in each input k for which out[k] is not NULL. NULL: gradients are made by builders. */
  void (*slopes[2])(const pni_piece *p, void *const *out);
  int opposite[2]; /* the gradient in input [0] is minus that in input [1]; both 0: there are none such */
  int flat;        /* bit k: the gradient in input k is 0 */
} pni_density_kernel;

/* n elements on a strided run, p[0] the result, s[0] = 1. data: ints or reals of the operation. */
void pni_density_value(const pni_density_kernel *k, int dtype, const void *data, int64_t n, char *const *p,
                       const int64_t *s);
/* The wanted gradients. data: a bit for each, the elements from one to the next in p[0], the ints of the operation. */
void pni_density_slopes(const pni_density_kernel *k, int dtype, const void *data, int64_t n, char *const *p,
                        const int64_t *s);

/* The wanted gradients under each other, [count, shape of the result...]: infer, and eval by the kernels of the
 * types. */
pn_status pni_density_infer(pn_context *c, const pni_call *call, pni_spec *out);
pn_status pni_density_eval(pn_context *c, const pni_call *call, pn_tensor *out, const pni_map_kernel *map);
/* For `vjps`; ops: the gradient in one input; those in several, or NULL. */
pn_status pni_density_vjps(pn_context *c, const pni_density_kernel *k, const pni_op *const ops[2], pn_tensor *y,
                           pn_tensor *g, const bool *wanted, pn_tensor **out);

/* id_map, the kernels of an operation, out of the pni_density_kernel that the further arguments initialise. */
#define PNI_DENSITY_VALUE(id, ...)                                                                                     \
  static const pni_density_kernel id##_kernel = {__VA_ARGS__};                                                         \
  static void id##_map_f64(void *data, int64_t n, char *const *p, const int64_t *s) {                                  \
    pni_density_value(&id##_kernel, PN_FLOAT64, data, n, p, s);                                                        \
  }                                                                                                                    \
  static void id##_map_f32(void *data, int64_t n, char *const *p, const int64_t *s) {                                  \
    pni_density_value(&id##_kernel, PN_FLOAT32, data, n, p, s);                                                        \
  }                                                                                                                    \
  static const pni_map_kernel id##_map[4] = {id##_map_f64, id##_map_f32};

/* The same and id_vjps: each gradient by an operation of its own, which plans can fuse. */
#define PNI_DENSITY(id, ...) PNI_DENSITY_GRADIENTS(id, NULL, __VA_ARGS__)

/* Of gradients that share work: also one operation for all that are wanted. */
#define PNI_DENSITY_TOGETHER(id, ...)                                                                                  \
  static const pni_op id##_slopes;                                                                                     \
  PNI_DENSITY_GRADIENTS(id, &id##_slopes, __VA_ARGS__)                                                                 \
  static pn_status id##_eval_slopes(pn_context *c, const pni_call *call, pn_tensor *out) {                             \
    return pni_density_eval(c, call, out, id##_slope_map);                                                             \
  }                                                                                                                    \
  static const pni_op id##_slopes = {.name = #id "_slopes",                                                            \
                                     .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF,                                           \
                                     .infer = pni_density_infer,                                                       \
                                     .eval = id##_eval_slopes};

#define PNI_DENSITY_GRADIENTS(id, several, ...)                                                                        \
  PNI_DENSITY_VALUE(id, __VA_ARGS__)                                                                                   \
  static void id##_slope_map_f64(void *data, int64_t n, char *const *p, const int64_t *s) {                            \
    pni_density_slopes(&id##_kernel, PN_FLOAT64, data, n, p, s);                                                       \
  }                                                                                                                    \
  static void id##_slope_map_f32(void *data, int64_t n, char *const *p, const int64_t *s) {                            \
    pni_density_slopes(&id##_kernel, PN_FLOAT32, data, n, p, s);                                                       \
  }                                                                                                                    \
  static const pni_map_kernel id##_slope_map[4] = {id##_slope_map_f64, id##_slope_map_f32};                            \
  static const pni_op id##_slope = {                                                                                   \
      .name = #id "_slope", .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN | PNI_OP_NODIFF, .map = id##_slope_map};       \
  static pn_status id##_vjps(pn_context *c, pn_tensor *y, pn_tensor *g, const bool *wanted, pn_tensor **out) {         \
    return pni_density_vjps(c, &id##_kernel, (const pni_op *const[]){&id##_slope, several}, y, g, wanted, out);        \
  }

/* ---- of kernels in double that are no elementwise operations ---- */

/* n elements of a float tensor's memory from element `at` on as adjacent doubles: in place, or in `room`. */
const double *pni_doubles(int dtype, const char *p, int64_t stride, int64_t at, int64_t n, double *room);
/* Where doubles for the elements from `at` on are computed: in place, or in `room`, from where `write` takes them. */
static inline double *pni_doubles_place(int dtype, char *p, int64_t at, double *room) {
  return dtype == PN_FLOAT64 ? (double *)(void *)p + at : room;
}
void pni_doubles_write(int dtype, const double *v, int64_t n, char *p, int64_t at);

#endif
