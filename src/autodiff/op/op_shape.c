/*
** op_shape.c: the same elements under another geometry. Views where strides allow it, copies where not.
*/
#include <string.h>
#include "../../base/span.h"
#include "op.h"

static void shape_attr(pni_attr *a, int ndim, const int64_t *shape) {
  a->ni = ndim;
  for (int i = 0; i < ndim && i < PNI_ATTR_INTS; i++) a->i[i] = shape[i];
}

static pn_status eval_copy(pn_context *c, const pni_call *call, pn_tensor *out) {
  return pni_copy(c, out, call->in[0]);
}

/* ---- reshape: attr = the sizes, one may be -1 ---- */

static pn_status infer_reshape(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *x = call->in[0];
  const pni_attr *a = call->attr;
  char from[PNI_SHAPE_TEXT], to[PNI_SHAPE_TEXT];
  int64_t known = 1;
  int free_axis = -1;
  out->dtype = x->dtype;
  out->ndim = a->ni;
  for (int i = 0; i < a->ni; i++) {
    out->shape[i] = a->i[i];
    if (a->i[i] == -1 && free_axis < 0)
      free_axis = i;
    else if (__builtin_mul_overflow(known, a->i[i], &known))
      known = -1;
  }
  if (free_axis >= 0 && known > 0 && x->numel % known == 0) {
    out->shape[free_axis] = x->numel / known;
    known = x->numel;
  }
  bool negative = false;
  for (int i = 0; i < out->ndim; i++) negative |= out->shape[i] < 0;
  if (negative || known != x->numel)
    return pni_fail(c, PN_SHAPE, "reshape: shape must hold the %lld elements of %s, got %s", (long long)x->numel,
                    pni_shape_text(x->ndim, x->shape, from), pni_shape_text(a->ni, a->i, to));
  return PN_OK;
}

/* A view if memory order is kept: contiguous, or each axis of x stays or is split in several; axes of size 1 come and
 * go. */
static bool view_reshape(const pni_call *call, pn_tensor *out) {
  const pn_tensor *x = call->in[0];
  if (x->numel == 0 || pni_is_contiguous(x)) {
    pni_set_contiguous_strides(out);
    return true;
  }
  int i = x->ndim - 1;
  int64_t done = 1; /* elements of x's axis i that axes of the result have taken, from the last on */
  for (int k = out->ndim - 1; k >= 0; k--) {
    out->stride[k] = 0;
    if (out->shape[k] == 1) continue;
    while (i >= 0 && x->shape[i] == done) i--, done = 1;
    if (i < 0 || x->shape[i] % (done * out->shape[k]) != 0) return false;
    out->stride[k] = x->stride[i] * done;
    done *= out->shape[k];
  }
  while (i >= 0 && x->shape[i] == done) i--, done = 1;
  return i < 0;
}

/* Row-major order is shared by both shapes, so x is copied under its own. */
static pn_status eval_reshape(pn_context *c, const pni_call *call, pn_tensor *out) {
  const pn_tensor *x = call->in[0];
  pn_tensor same = *out;
  same.ndim = x->ndim;
  memcpy(same.shape, x->shape, sizeof same.shape);
  pni_set_contiguous_strides(&same);
  return pni_copy(c, &same, x);
}

static pn_tensor *vjp_reshape(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  return pn_reshape(c, g, pni_in(y, 0)->ndim, pni_in(y, 0)->shape);
}

pn_tensor *pn_reshape(pn_context *c, pn_tensor *x, int ndim, const int64_t *shape) {
  if (!PNI_GIVEN(c, "reshape", x) || !pni_shape_given(c, "reshape", ndim, shape)) return NULL;
  pni_attr a = {0};
  shape_attr(&a, ndim, shape);
  return pni_apply1(c, &pni_op_reshape, x, &a);
}

const pni_op pni_op_reshape = {.name = "reshape",
                               .args = "x:t shape:s",
                               .doc = "the same elements, row-major, under another shape; one size may be -1",
                               .flags = PNI_OP_ANY_DTYPE,
                               .infer = infer_reshape,
                               .view = view_reshape,
                               .eval = eval_reshape,
                               .vjp = vjp_reshape};

pn_tensor *pn_unsqueeze(pn_context *c, pn_tensor *x, int axis) {
  if (!PNI_GIVEN(c, "unsqueeze", x) || !pni_shape_given(c, "unsqueeze", x->ndim + 1, x->shape)) return NULL;
  if ((axis = pni_axis(c, "unsqueeze", axis, x->ndim + 1)) < 0) return NULL;
  int64_t shape[PN_MAX_DIMS];
  for (int i = 0; i <= x->ndim; i++) shape[i] = i < axis ? x->shape[i] : i == axis ? 1 : x->shape[i - 1];
  return pn_reshape(c, x, x->ndim + 1, shape);
}

pn_tensor *pn_squeeze(pn_context *c, pn_tensor *x, int axis) {
  if (!PNI_GIVEN(c, "squeeze", x) || (axis = pni_axis(c, "squeeze", axis, x->ndim)) < 0) return NULL;
  if (x->shape[axis] != 1) {
    pni_fail(c, PN_SHAPE, "squeeze: axis must have size 1, got %lld", (long long)x->shape[axis]);
    return NULL;
  }
  int64_t shape[PN_MAX_DIMS] = {0};
  for (int i = 0, n = 0; i < x->ndim; i++)
    if (i != axis) shape[n++] = x->shape[i];
  return pn_reshape(c, x, x->ndim - 1, shape);
}

/* ---- permute: attr = the order ---- */

static pn_status infer_permute(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *x = call->in[0];
  const pni_attr *a = call->attr;
  uint32_t seen = 0;
  *out = pni_spec_of(x);
  for (int i = 0; i < a->ni; i++)
    if (a->i[i] >= 0 && a->i[i] < x->ndim) seen |= 1u << a->i[i];
  if (a->ni != x->ndim || seen != (1u << x->ndim) - 1)
    return pni_fail(c, PN_SHAPE, "permute: order must name each of the %d axes once", x->ndim);
  for (int i = 0; i < x->ndim; i++) out->shape[i] = x->shape[a->i[i]];
  return PN_OK;
}

static bool view_permute(const pni_call *call, pn_tensor *out) {
  for (int i = 0; i < out->ndim; i++) out->stride[i] = call->in[0]->stride[call->attr->i[i]];
  return true;
}

static pn_tensor *vjp_permute(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  int inverse[PN_MAX_DIMS];
  for (int i = 0; i < y->ndim; i++) inverse[y->attr->i[i]] = i;
  return pn_permute(c, g, y->ndim, inverse);
}

pn_tensor *pn_permute(pn_context *c, pn_tensor *x, int ndim, const int *order) {
  if (!PNI_GIVEN(c, "permute", x) || !pni_shape_given(c, "permute", ndim, x->shape) ||
      !PNI_LISTED(c, "permute", ndim, order))
    return NULL;
  pni_attr a = {.ni = ndim};
  for (int i = 0; i < ndim; i++) a.i[i] = order[i] < 0 ? order[i] + x->ndim : order[i];
  return pni_apply1(c, &pni_op_permute, x, &a);
}

const pni_op pni_op_permute = {.name = "permute",
                               .args = "x:t order:P",
                               .doc = "axis k of the result is axis order[k] of x; a view",
                               .flags = PNI_OP_ANY_DTYPE,
                               .infer = infer_permute,
                               .view = view_permute,
                               .vjp = vjp_permute};

pn_tensor *pn_transpose(pn_context *c, pn_tensor *x, int axis1, int axis2) {
  if (!PNI_GIVEN(c, "transpose", x)) return NULL;
  int order[PN_MAX_DIMS];
  for (int i = 0; i < x->ndim; i++) order[i] = i;
  if ((axis1 = pni_axis(c, "transpose", axis1, x->ndim)) < 0) return NULL;
  if ((axis2 = pni_axis(c, "transpose", axis2, x->ndim)) < 0) return NULL;
  order[axis1] = axis2;
  order[axis2] = axis1;
  return pn_permute(c, x, x->ndim, order);
}

/* ---- broadcast_to: attr = the shape ---- */

static pn_status infer_broadcast_to(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *x = call->in[0];
  const pni_attr *a = call->attr;
  char from[PNI_SHAPE_TEXT], to[PNI_SHAPE_TEXT];
  bool fits = a->ni >= x->ndim;
  out->dtype = x->dtype;
  out->ndim = a->ni;
  for (int i = 0; i < a->ni; i++) {
    out->shape[i] = a->i[i];
    int k = i - (a->ni - x->ndim);
    fits = fits && a->i[i] >= 0 && (k < 0 || x->shape[k] == 1 || x->shape[k] == a->i[i]);
  }
  if (fits) return PN_OK;
  return pni_fail(c, PN_SHAPE, "broadcast_to: %s must broadcast to the shape, got %s",
                  pni_shape_text(x->ndim, x->shape, from), pni_shape_text(a->ni, a->i, to));
}

static bool view_broadcast_to(const pni_call *call, pn_tensor *out) {
  pni_broadcast_strides(call->in[0], out->ndim, out->stride);
  return true;
}

static pn_tensor *vjp_broadcast_to(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  return pni_sum_to(c, g, pni_in(y, 0));
}

pn_tensor *pn_broadcast_to(pn_context *c, pn_tensor *x, int ndim, const int64_t *shape) {
  if (!PNI_GIVEN(c, "broadcast_to", x) || !pni_shape_given(c, "broadcast_to", ndim, shape)) return NULL;
  pni_attr a = {0};
  shape_attr(&a, ndim, shape);
  return pni_apply1(c, &pni_op_broadcast_to, x, &a);
}

const pni_op pni_op_broadcast_to = {.name = "broadcast_to",
                                    .args = "x:t shape:s",
                                    .doc = "x repeated to a shape by NumPy's rule; a view",
                                    .flags = PNI_OP_ANY_DTYPE,
                                    .infer = infer_broadcast_to,
                                    .view = view_broadcast_to,
                                    .vjp = vjp_broadcast_to};

/* ---- slice: attr = axis, start, count, step; unslice, its adjoint, adds the axis size ---- */

/* Do the elements of a slice (attr i) lie in an axis of that size? */
static pn_status check_slice(pn_context *c, const char *where, const int64_t *i, int64_t size) {
  int64_t last;
  bool fits = i[2] == 0 ||
              (i[2] > 0 && i[2] <= size && i[1] >= 0 && i[1] < size && !__builtin_mul_overflow(i[2] - 1, i[3], &last) &&
               !__builtin_add_overflow(last, i[1], &last) && last >= 0 && last < size);
  if (fits && i[3] != 0) return PN_OK;
  return pni_fail(c, PN_SHAPE, "%s: %lld elements from position %lld by %lld do not lie in axis %d of size %lld", where,
                  (long long)i[2], (long long)i[1] + 1, (long long)i[3], (int)i[0] + 1, (long long)size);
}

static pn_status infer_slice(pn_context *c, const pni_call *call, pni_spec *out) {
  const int64_t *i = call->attr->i;
  *out = pni_spec_of(call->in[0]);
  if (check_slice(c, "slice", i, out->shape[i[0]])) return c->status;
  out->shape[i[0]] = i[2];
  return PN_OK;
}

static bool view_slice(const pni_call *call, pn_tensor *out) {
  const int64_t *i = call->attr->i;
  if (i[2] > 0) out->offset += i[1] * out->stride[i[0]];
  out->stride[i[0]] *= i[3];
  return true;
}

static pn_tensor *vjp_slice(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  const int64_t *i = y->attr->i; /* a node keeps only the attributes in use: no copy of the whole */
  pni_attr a = {.ni = 5, .i = {i[0], i[1], i[2], i[3], pni_in(y, 0)->shape[i[0]]}};
  return pni_apply1(c, &pni_op_unslice, g, &a);
}

#define ADD_TO(T, suffix)                                                                                              \
  static void add_to_##suffix(void *data, int64_t n, char *const *p, const int64_t *stride) {                          \
    T *to = (T *)(void *)p[0];                                                                                         \
    const T *from = (const T *)(const void *)p[1];                                                                     \
    (void)data;                                                                                                        \
    for (int64_t i = 0; i < n; i++) to[i * stride[0]] += from[i * stride[1]];                                          \
  }
ADD_TO(double, f64)
ADD_TO(float, f32)
#undef ADD_TO

/* What a slice (attr i) takes of x. */
static pn_tensor *window_of(pn_context *c, pn_tensor *x, const int64_t *i, int64_t numel) {
  pn_tensor *window = pni_tensor_alias(c, x);
  if (!window) return NULL;
  window->shape[i[0]] = i[2];
  window->offset += i[2] > 0 ? i[1] * window->stride[i[0]] : 0;
  window->stride[i[0]] *= i[3];
  window->numel = numel;
  return window;
}

static pn_status add_slice(pn_context *c, pn_tensor *y, pn_tensor *g, pn_tensor *sum) {
  pn_tensor *window = window_of(c, sum, y->attr->i, g->numel);
  if (!window) return c->status;
  pni_loop l;
  pni_loop_init(&l, window, 1, (pn_tensor *[]){g});
  pn_status s = pni_loop_run(c, &l, g->dtype == PN_FLOAT64 ? add_to_f64 : add_to_f32, NULL);
  pn_tensor_unref(window);
  return s;
}

pn_tensor *pn_slice(pn_context *c, pn_tensor *x, int axis, int64_t start, int64_t count, int64_t step) {
  if (!PNI_GIVEN(c, "slice", x) || (axis = pni_axis(c, "slice", axis, x->ndim)) < 0) return NULL;
  return pni_apply1(c, &pni_op_slice, x, &(pni_attr){.ni = 4, .i = {axis, start, count, step}});
}

const pni_op pni_op_slice = {.name = "slice",
                             .args = "x:t axis:a start:i count:i step:i=1",
                             .doc = "count elements of one axis from start by step; a view",
                             .flags = PNI_OP_ANY_DTYPE | PNI_OP_HIDDEN | PNI_OP_AXIS,
                             .infer = infer_slice,
                             .view = view_slice,
                             .vjp = vjp_slice,
                             .vjp_add = add_slice};

static pn_status infer_unslice(pn_context *c, const pni_call *call, pni_spec *out) {
  const int64_t *i = call->attr->i;
  *out = pni_spec_of(call->in[0]);
  if (out->shape[i[0]] != i[2])
    return pni_fail(c, PN_SHAPE, "unslice: axis %d must have the %lld elements of the slice, got %lld", (int)i[0] + 1,
                    (long long)i[2], (long long)out->shape[i[0]]);
  if (check_slice(c, "unslice", i, i[4])) return c->status;
  out->shape[i[0]] = i[4];
  return PN_OK;
}

static pn_status eval_unslice(pn_context *c, const pni_call *call, pn_tensor *out) {
  if (pni_clear(c, pni_data(out), (size_t)out->numel * pni_itemsize(out))) return c->status;
  pn_tensor *window = window_of(c, out, call->attr->i, call->in[0]->numel);
  if (!window) return c->status;
  pn_status s = pni_copy(c, window, call->in[0]);
  pn_tensor_unref(window);
  return s;
}

static pn_tensor *vjp_unslice(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  const int64_t *i = y->attr->i;
  return pn_slice(c, g, (int)i[0], i[1], i[2], i[3]);
}

const pni_op pni_op_unslice = {.name = "unslice",
                               .args = "x:t axis:a start:i count:i step:i size:i",
                               .doc = "the adjoint of slice: zeros of the given size with x at its places",
                               .flags = PNI_OP_ANY_DTYPE | PNI_OP_HIDDEN | PNI_OP_AXIS,
                               .infer = infer_unslice,
                               .eval = eval_unslice,
                               .vjp = vjp_unslice};

pn_tensor *pn_select(pn_context *c, pn_tensor *x, int axis, int64_t index) {
  if (!PNI_GIVEN(c, "select", x) || (axis = pni_axis(c, "select", axis, x->ndim)) < 0) return NULL;
  if (index < 0) index += x->shape[axis];
  return pn_squeeze(c, pn_slice(c, x, axis, index, 1, 1), axis);
}

pn_tensor *pn_flip(pn_context *c, pn_tensor *x, int axis) {
  if (!PNI_GIVEN(c, "flip", x) || (axis = pni_axis(c, "flip", axis, x->ndim)) < 0) return NULL;
  int64_t n = x->shape[axis];
  return pn_slice(c, x, axis, n - 1, n, -1);
}

/* ---- contiguous ---- */

static pn_tensor *vjp_contiguous(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  return (void)c, (void)y, (void)k, g;
}

pn_tensor *pn_contiguous(pn_context *c, pn_tensor *x) {
  if (!PNI_GIVEN(c, "contiguous", x)) return NULL;
  if (pni_is_contiguous(x)) return x;
  return pni_apply1(c, &pni_op_contiguous, x, NULL);
}

const pni_op pni_op_contiguous = {.name = "contiguous",
                                  .args = "x:t",
                                  .doc = "the same values row-major in memory",
                                  .flags = PNI_OP_ANY_DTYPE,
                                  .eval = eval_copy,
                                  .vjp = vjp_contiguous};

pn_tensor *pn_detach(pn_context *c, pn_tensor *x) {
  if (!PNI_GIVEN(c, "detach", x)) return NULL;
  return pni_scoped(c, pni_tensor_alias(c, x));
}
