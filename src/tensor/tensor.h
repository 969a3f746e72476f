/*
** tensor.h: what a tensor is. A tensor is a strided view of a refcounted storage, and at the same
** time a node of the graph that computed it (layer autodiff fills `op`, `attr` and `in`).
** Once made, the elements of a tensor do not change; only parameters do, through pn_param_set and the
** optimisers, and then storage->version counts it.
*/
#ifndef PN_TENSOR_TENSOR_H
#define PN_TENSOR_TENSOR_H

#include "../base/clock.h"
#include "../math/random/generator.h"

struct pni_op;   /* autodiff/op/op.h */
struct pni_attr; /* autodiff/op/op.h */

/* An object that rides on a tensor, so that graphs and plans hold it as they hold their inputs: its storage has this
 * instead of numbers. */
typedef struct pni_cargo {
  void (*release)(pn_context *c, void *object);
  /* Makes the object anew in another context, at `object`; on failure there is nothing to release. */
  pn_status (*copy)(pn_context *c, const void *old, void *object);
} pni_cargo;

typedef struct pni_storage {
  int32_t refs;
  uint32_t version; /* counts changes: 0 for storages that never change, parameters start at 1 */
  size_t bytes;     /* of data */
  void *data;
  const pni_cargo *cargo; /* NULL: numbers */
} pni_storage;

/* PNI_CARRIES: a node with updates of buffers below it (autodiff/buffer.h) */
enum { PNI_REQUIRES_GRAD = 1, PNI_PARAM = 2, PNI_BUFFER = 4, PNI_CARRIES = 8 };

/* An input of a node, with the storage version it had when the node was recorded. */
typedef struct pni_edge {
  pn_tensor *t;
  uint32_t version;
} pni_edge;

enum { PNI_INLINE_EDGES = 3 };

struct pn_tensor {
  int32_t refs;
  int32_t flags;
  int dtype; /* pn_dtype */
  int ndim;
  pn_context *ctx;
  pni_storage *storage;
  int64_t offset; /* of the first element, in elements */
  int64_t numel;
  int64_t shape[PN_MAX_DIMS];
  int64_t stride[PN_MAX_DIMS]; /* in elements; 0 repeats, negative runs backwards */
  /* graph: op is NULL for leaves and for results that no gradient flows through */
  const struct pni_op *op;
  struct pni_attr *attr; /* as long as its numbers need, or NULL */
  pni_edge *in;          /* `edges`, or a block of its own when nin > PNI_INLINE_EDGES */
  int nin;
  int32_t mark;  /* scratch of one graph walk, 0 between walks */
  uint64_t slot; /* what the tensor is to a capture, see pni_recorder; of an old capture: nothing */
  pni_edge edges[PNI_INLINE_EDGES];
  uint64_t id;
  pn_tensor *grad; /* parameters: what pn_backward accumulated */
  pn_tensor *link; /* list of tensors waiting to be freed */
};

/* Shape and element type of a result before it exists. */
typedef struct pni_spec {
  int dtype;
  int ndim;
  int64_t shape[PN_MAX_DIMS];
} pni_spec;

/* ---- tensor.c ---- */

/* A contiguous tensor with uninitialised elements. New. PN_SHAPE on negative sizes or overflow. */
pn_tensor *pni_tensor_new(pn_context *c, const pni_spec *spec);
/* A view of t's storage with t's geometry; the caller may then change shape, stride, offset (and must
 * set numel). New. */
pn_tensor *pni_tensor_alias(pn_context *c, const pn_tensor *t);
/* Lets go of what t was computed from: it is data from here on. */
void pni_tensor_cut(pn_tensor *t);
/* Hands a new tensor over to the open scope; NULL passes. */
pn_tensor *pni_scoped(pn_context *c, pn_tensor *t);
/* Address of the first element. */
static inline void *pni_data(const pn_tensor *t) {
  static const size_t size[] = {8, 4, 8, 1};
  return (char *)t->storage->data + (ptrdiff_t)t->offset * (ptrdiff_t)size[t->dtype];
}
static inline size_t pni_itemsize(const pn_tensor *t) { return pn_dtype_size((pn_dtype)t->dtype); }
static inline bool pni_is_float(const pn_tensor *t) { return t->dtype <= PN_FLOAT32; }
bool pni_is_contiguous(const pn_tensor *t);
void pni_set_contiguous_strides(pn_tensor *t);
pni_spec pni_spec_of(const pn_tensor *t);
int64_t pni_count(int ndim, const int64_t *shape);
/* May a shape come from outside? PN_SHAPE unless ndim is 0 to PN_MAX_DIMS, PN_STATE where its sizes are NULL. */
bool pni_shape_given(pn_context *c, const char *where, int ndim, const int64_t *shape);
/* The same for a shape from outside: -1 with PN_SHAPE if a size is negative, PN_NOMEM if the sizes that are not 0 make
 * more than 2^44 elements. */
int64_t pni_checked_count(pn_context *c, const pni_spec *spec);
/* t itself (one more reference) if contiguous, else a contiguous copy. New, no graph. */
pn_tensor *pni_contiguous(pn_context *c, const pn_tensor *t);
enum { PNI_SHAPE_TEXT = 160 };
/* "[2, 3]" into buf (borrowed back); for messages. */
const char *pni_shape_text(int ndim, const int64_t *shape, char buf[PNI_SHAPE_TEXT]);
/* One element as a double (row-major position). Within a capture the element of a tensor that varies breaks the
 * capture, unless a kernel asks: what is done with it would be frozen. */
double pni_element(const pn_tensor *t, int64_t position);

/* ---- capture ---- */

/* How random numbers fill a tensor: element i depends on the generator's key, the position and i alone. */
typedef struct pni_draw {
  pni_fill_kind kind;
  bool permutation; /* of 0 .. n - 1, else by kind */
  int64_t low, high;
} pni_draw;
/* Reserves positions of rng (NULL: the context's) and fills the contiguous t. */
pn_status pni_draw_into(pn_context *c, pn_rng *rng, const pni_draw *d, pn_tensor *t);

/* What a capture (autodiff/replay) shows to the layers below it. */
struct pni_recorder {
  /* t was just filled from rng. */
  pn_status (*drawn)(pn_context *c, pn_tensor *t, pn_rng *rng, const pni_draw *d);
};
/* A tensor's slot: number of the capture, PNI_SLOT_CONSTANT or 0, its place on the tape. */
#define PNI_SLOT_CONSTANT ((uint64_t)1 << 31)
static inline bool pni_has_slot(const pn_context *c, const pn_tensor *t) { return t->slot >> 32 == c->captures; }
/* Will t hold other numbers when what is being captured, or a capture around it, runs again? */
static inline bool pni_varies(const pn_context *c, const pn_tensor *t) {
  return t->storage->version != 0 || (t->slot && t->slot >> 32 >= c->captures_first && !(t->slot & PNI_SLOT_CONSTANT));
}
/* Numbers alone, though gradients in them may be wanted: no parameter and computed from none. */
static inline bool pni_is_data(const pn_tensor *t) {
  return !(t->flags & PNI_REQUIRES_GRAD) || !(t->op || t->flags & PNI_PARAM);
}
/* Refuses to take numbers out of a tensor that varies: what the caller does with them would be frozen.
 * `what` names the call. */
pn_status pni_refuse_read(pn_context *c, const pn_tensor *t, const char *what);
static inline pn_status pni_check_read(pn_context *c, const pn_tensor *t, const char *what) {
  return c->recorder ? pni_refuse_read(c, t, what) : PN_OK;
}
/* Fails while a capture is going on: `what` has an effect that a plan does not repeat; `instead` helps. */
pn_status pni_refuse_capture(pn_context *c, const char *what, const char *instead);

/* ---- shape.c ---- */

/* Normalises a 0-based axis that may be negative; -1 and PN_SHAPE on failure. `where` names the op. */
int pni_axis(pn_context *c, const char *where, int64_t axis, int ndim);
/* The broadcast of two shapes, NumPy's rule. */
pn_status pni_broadcast(pn_context *c, const char *where, const pn_tensor *a, const pn_tensor *b, pni_spec *out);
/* The strides of t when read as `ndim, shape` (t must broadcast to it); 0 where it repeats. */
void pni_broadcast_strides(const pn_tensor *t, int ndim, int64_t *stride);

/* A loop nest over some operands (operand 0 the output) with adjacent axes merged where possible. */
enum { PNI_OPERANDS = 6 };
typedef struct pni_loop {
  int ndim, nop;
  int64_t shape[PN_MAX_DIMS];                /* outermost first; the last axis is the inner loop */
  int64_t stride[PNI_OPERANDS][PN_MAX_DIMS]; /* elements */
  char *base[PNI_OPERANDS];
  size_t size[PNI_OPERANDS]; /* bytes per element */
} pni_loop;
/* Prepares a nest for `out` and the operands broadcast to its shape. */
void pni_loop_init(pni_loop *l, const pn_tensor *out, int nin, pn_tensor *const *in);
/* Calls row(data, n, pointers, strides) for each innermost row; sharded over threads when big. */
typedef void (*pni_map_kernel)(void *data, int64_t n, char *const *p, const int64_t *stride);
/* Rows of at most PNI_SHORT_ROW elements go to `row` many at a time, what does not lie in one run gathered: dst [rows,
 * n] from rows `jump` bytes apart whose elements, of `size` bytes, are `step` apart. Up to PNI_GATHER_PAD elements more
 * are written. */
enum { PNI_SHORT_ROW = 32, PNI_GATHER_PAD = 8 };
void pni_gather_rows(void *dst, const void *src, int64_t rows, int64_t jump, int64_t n, int64_t step, int64_t size);
pn_status pni_loop_run(pn_context *c, const pni_loop *l, pni_map_kernel row, void *data);

/* Copies (and converts) src, broadcast to dst's shape, into dst. */
pn_status pni_copy(pn_context *c, pn_tensor *dst, const pn_tensor *src);
/* The kernel that does it. */
pni_map_kernel pni_copy_row(int dst, int src);

#endif
