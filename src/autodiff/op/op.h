/*
** op.h: a differentiable operation is one const descriptor. `eval` computes values, `vjp` builds the
** gradient out of other operations, so gradients have gradients. The Lua methods, help, manual,
** gradient battery and allocation sweep all read the descriptor; nothing else names an operation.
*/
#ifndef PN_AUTODIFF_OP_OP_H
#define PN_AUTODIFF_OP_OP_H

#include "../../tensor/product/blas.h"

/* PNI_OP_INPUTS: of rows whose gradients come all at once (vjps); rows with lists take any number. */
enum { PNI_ATTR_INTS = 26, PNI_OP_INPUTS = 64 };

/* Everything about a call that is not a tensor. */
typedef struct pni_attr {
  int ni;                   /* ints in use */
  double r[2];              /* reals */
  int64_t i[PNI_ATTR_INTS]; /* axes are 0-based and non-negative here */
} pni_attr;

typedef struct pni_op pni_op;

/* Reduces each of `rows` runs of n adjacent elements, one after the other, to one. */
typedef void (*pni_fold)(const void *x, int64_t rows, int64_t n, void *out);

/* One application: what infer, view and eval see. */
typedef struct pni_call {
  const pni_op *op;
  pn_tensor *const *in;
  int nin;
  const pni_attr *attr; /* never NULL inside an op */
} pni_call;

/* What a row decides once for all replays of a call. */
typedef union pni_prepared {
  pni_product product;
  struct { /* that the call, which stays, has a short way */
    pni_call call;
    pn_tensor *out;
  } plain;
} pni_prepared;

enum {
  PNI_OP_ELEMENTWISE = 1, /* result is the broadcast of the inputs; gradients are summed back */
  PNI_OP_NODIFF = 2,      /* truth values or whole numbers: no gradient flows, the result depends on no parameter */
  PNI_OP_ANY_DTYPE = 4,   /* also int64 and bool inputs */
  PNI_OP_INTEGER = 8,     /* also int64 inputs */
  PNI_OP_ONCE = 16,       /* differentiable once only: the gradient's gradient is a named error */
  PNI_OP_HIDDEN = 32,     /* not offered as a Lua method: a part of other rows */
  PNI_OP_DRAW = 64,       /* attr i[0], i[1]: key and position of a generator, reserved just before */
  PNI_OP_DYNAMIC = 128,   /* the result's shape depends on values: no part of a capture */
  PNI_OP_ASIDE = 512,     /* inputs after the first are kept beside it: gradients pass them by unless asked for there */
  PNI_OP_CHECK = 256,     /* evaluated for its failure: kept in a plan though nobody uses the result */
  PNI_OP_AXIS = 1024,     /* attr i[0] is an axis of the first input, which must have it */
  PNI_OP_JOINS = 4096,    /* puts its list one after another along axis i[0]: neighbours there may be given as one */
  PNI_OP_CARRIER = 8192,  /* a node, with PNI_CARRIES, also where no gradient flows: what it carries is looked for */
  PNI_OP_AS_FLOAT = 2048  /* its one input is made float of int64 and bool: float64, or a script's default dtype */
};

/* The open interval from which tests draw inputs; lo = hi = 0 means all reals. */
typedef struct pni_domain {
  double lo, hi;
} pni_domain;

struct pni_op {
  const char *name; /* "softplus" */
  /* How Lua calls it: "x:t", "x:t y:t", "x:t axes:A keepdim:b=false"... letters: t tensor, T list of
   * tensors, a one axis, A axes (absent = all; stored as a bit mask), i integer, n number, b boolean,
   * p pair (a number or a list of two; two ints), s sizes, P permutation of the axes. `=v` makes it
   * optional. Ints go to attr->i in this order (a list last), numbers to attr->r. */
  const char *args;
  const char *doc; /* formula in one line, shapes, source */
  /* What finite inputs that give NaN or an infinity mean, if always the same; may be NULL. */
  const char *advice;
  int flags;
  pni_domain domain[3];
  /* Shape and dtype of the result; NULL: broadcast of all inputs, their common dtype. */
  pn_status (*infer)(pn_context *c, const pni_call *call, pni_spec *out);
  /* Fills the contiguous `out`. Exactly one of eval, view, map is present. */
  pn_status (*eval)(pn_context *c, const pni_call *call, pn_tensor *out);
  /* Shares the input's storage: sets stride and offset of `out`, whose shape is already set; returns
   * false if that is impossible, and then eval is used. */
  bool (*view)(const pni_call *call, pn_tensor *out);
  /* Elementwise rows of fewer than PNI_OPERANDS inputs: one kernel per dtype (float64, float32, int64, bool), NULL
   * where undefined. */
  const pni_map_kernel *map;
  /* With eval, where that is one kernel over the broadcast inputs without data: the kernel. Plans fuse it with
   * its neighbours. */
  pni_map_kernel (*kernel)(const pni_call *call, const pn_tensor *out);
  /* With eval, of a reduction over trailing axes of contiguous floats: the kernel that reduces rows of *n
   * elements, and what the result is scaled by (0: not); NULL for other calls. Plans reduce a tile while it is at
   * hand. */
  pni_fold (*fold)(const pni_call *call, int64_t *n, double *scale);
  /* With fold: how rows that are longer than a tile are reduced piece by piece; NULL for other calls. May be NULL. */
  const struct pni_pieces *(*pieces)(const pni_call *call);
  /* With eval, where much of it depends on shapes and addresses alone: prepare does that part (false: it
   * cannot), run the rest, and plans call these. */
  bool (*prepare)(const pni_call *call, pn_tensor *out, pni_prepared *p);
  pn_status (*run)(pn_context *c, const pni_prepared *p);
  /* d(loss)/d(in k) from g = d(loss)/d(y), or NULL with the reason in c; NULL row entry with
   * PNI_OP_NODIFF. Called only for inputs that need it. Elementwise rows may return any shape that
   * broadcasts; the engine sums it back. */
  pn_tensor *(*vjp)(pn_context *c, pn_tensor *y, pn_tensor *g, int k);
  /* The same for all inputs k with wanted[k] at once, where one kernel gives them all; scoped. Beside vjp, and taken
   * when the gradient itself needs no graph. May be NULL. */
  pn_status (*vjps)(pn_context *c, pn_tensor *y, pn_tensor *g, const bool *wanted, pn_tensor **out);
  /* Of rows with one input: adds that gradient to `sum`, contiguous and nobody else's, in place. Beside vjp, and taken
   * for what is not the first part of a gradient that needs no graph. May be NULL. */
  pn_status (*vjp_add)(pn_context *c, pn_tensor *y, pn_tensor *g, pn_tensor *sum);
};

/* Applies an op: checks, infers, computes, records. attr may be NULL. Scoped. */
pn_tensor *pni_apply(pn_context *c, const pni_op *op, int nin, pn_tensor *const *in, const pni_attr *attr);
static inline pn_tensor *pni_apply1(pn_context *c, const pni_op *op, pn_tensor *x, const pni_attr *attr) {
  return pni_apply(c, op, 1, (pn_tensor *[]){x}, attr);
}
static inline pn_tensor *pni_apply2(pn_context *c, const pni_op *op, pn_tensor *x, pn_tensor *y, const pni_attr *attr) {
  return pni_apply(c, op, 2, (pn_tensor *[]){x, y}, attr);
}

/* x above 0, else slope x, for a slope above 0. Scoped. */
pn_tensor *pni_leaky_relu(pn_context *c, pn_tensor *x, double slope);

/* Inside vjp: input k of node y. */
static inline pn_tensor *pni_in(const pn_tensor *y, int k) { return y->in[k].t; }
/* Rows of all batches under each other, [..., n, m] -> [N, m], also where an axis is empty. Scoped. */
pn_tensor *pni_flat_rows(pn_context *c, pn_tensor *t);
/* Sums g down to the shape of x (the adjoint of broadcasting). Scoped. */
pn_tensor *pni_sum_to(pn_context *c, pn_tensor *g, const pn_tensor *x);
/* Constant with the dtype of x. Scoped. */
pn_tensor *pni_like(pn_context *c, const pn_tensor *x, double value);
/* All inputs floats of one dtype: the usual infer for linear algebra; PN_DTYPE names both otherwise. */
pn_status pni_same_float(pn_context *c, const pni_call *call, int *dtype);

/* ---- op_axes.c: inputs that no builder has seen ---- */

/* Fails with PN_SHAPE unless the inputs are as `wanted` says, one word for each: letters stand for axes, each for one
 * size throughout ("KB B"); "..." before them for axes that are the same wherever it stands, "0" for none at all and
 * "*" for any. ":f", ":i" and ":b" ask for a float, int64 and bool. Words of inputs that are not there are not
 * asked. */
pn_status pni_require_axes(pn_context *c, const pni_call *call, const char *wanted);
/* The same unless input k has that shape and dtype. */
pn_status pni_require_like(pn_context *c, const pni_call *call, int k, const pni_spec *spec);
/* What another row gives for some inputs. attr NULL: the call's. */
pn_status pni_infer_as(pn_context *c, const pni_call *call, const pni_op *op, int nin, pn_tensor *const *in,
                       const pni_attr *attr, pni_spec *out);
/* Adjoints: the first nin inputs are those of `op`, those after them like its result. */
pn_status pni_require_result(pn_context *c, const pni_call *call, const pni_op *op, int nin, const pni_attr *attr);

/* op_pool.c: where pn_max_pool2d finds its results: places in an image's rows under each other, int64. Scoped. */
pn_tensor *pni_max_pool2d_at(pn_context *c, pn_tensor *x, const int64_t kernel[2], const int64_t *stride,
                             const int64_t *padding);

#define X(name)       extern const pni_op pni_op_##name;
#define V(name, rule) X(name)
#define H(name)       X(name)
#include "op.def"
#undef X
#undef V
#undef H

#endif
