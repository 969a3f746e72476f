/*
** op_index.c: reading and adding at places given by tensors, and orders. Index tensors are int64, or floats that are
** whole numbers (not within a capture, whose replays would have to look at them again), 0-based; a negative index
** counts from the end. attr: i[0] axis.
*/
#include <math.h>
#include <string.h>
#include "../../base/span.h"
#include "op.h"
#include "../../tensor/kernel/order.h"

static pn_status wants_index(pn_context *c, const char *where, const pn_tensor *index) {
  if (index->dtype == PN_INT64) return PN_OK;
  if (index->dtype == PN_BOOL || pn_tensor_requires_grad(index))
    return pni_fail(c, PN_DTYPE, "%s: index must be int64, got %s%s", where,
                    pn_tensor_requires_grad(index) ? "a parameter of " : "", pn_dtype_name((pn_dtype)index->dtype));
  if (c->recorder)
    return pni_fail(c, PN_DTYPE, "%s: index must be int64 in a compiled function, got %s (x:to\"int64\" before it)",
                    where, pn_dtype_name((pn_dtype)index->dtype));
  return PN_OK;
}

/* The floats of `index` as int64, contiguous; each must be a whole number. */
static pn_tensor *whole_index(pn_context *c, const char *where, pn_tensor *index) {
  pni_spec s = pni_spec_of(index);
  s.dtype = PN_INT64;
  pn_tensor *d = pni_tensor_new(c, &s), *from = d ? pni_contiguous(c, index) : NULL;
  PNI_INTERRUPTIBLE(c, i, index->numel) {
    double v =
        from->dtype == PN_FLOAT32 ? (double)((const float *)pni_data(from))[i] : ((const double *)pni_data(from))[i];
    if (!(fabs(v) < 0x1p53) || v != floor(v)) {
      if (v != v)
        pni_fail(c, PN_DOMAIN, "%s: index must be whole numbers, got NaN", where);
      else
        pni_fail(c, PN_DOMAIN, "%s: index must be whole numbers, got %g", where, v);
      break;
    }
    ((int64_t *)pni_data(d))[i] = (int64_t)v;
  }
  pn_tensor_unref(from);
  if (!pni_failed(c)) return d;
  pn_tensor_unref(d);
  return NULL;
}

/* Are all n places in 0 .. size - 1? */
static bool all_within(pn_context *c, const int64_t *v, int64_t n, int64_t size) {
  uint64_t wrong = 0;
  PNI_INTERRUPTIBLE(c, i, n) wrong |= (uint64_t)v[i] >= (uint64_t)size;
  return !wrong && !pni_failed(c);
}

/* index as int64, contiguous and with every entry in 0 .. size - 1: itself where it is so. One more reference. */
static pn_tensor *checked_index(pn_context *c, const char *where, pn_tensor *index, int64_t size) {
  bool is_whole = index->dtype == PN_INT64;
  if (is_whole && pni_is_contiguous(index) && all_within(c, pni_data(index), index->numel, size))
    return pn_tensor_ref(index);
  pni_spec s = pni_spec_of(index);
  pn_tensor *d = is_whole ? pni_tensor_new(c, &s) : whole_index(c, where, index);
  if (!d || (is_whole && pni_copy(c, d, index))) goto failed;
  int64_t *v = pni_data(d);
  PNI_INTERRUPTIBLE(c, i, d->numel) {
    int64_t at = v[i] < 0 ? v[i] + size : v[i];
    if (at < 0 || at >= size) {
      pni_fail(c, PN_DOMAIN, "%s: index must lie in 0 to %lld, got %lld", where, (long long)size - 1, (long long)v[i]);
      goto failed;
    }
    v[i] = at;
  }
  if (!pni_failed(c)) return d;
failed:
  pn_tensor_unref(d);
  return NULL;
}

/* dst[i] += src[i] for n elements of a type. */
static void add_to(int dtype, void *dst, const void *src, int64_t n) {
  switch (dtype) {
  case PN_FLOAT64:
    for (int64_t i = 0; i < n; i++) ((double *)dst)[i] += ((const double *)src)[i];
    break;
  case PN_FLOAT32:
    for (int64_t i = 0; i < n; i++) ((float *)dst)[i] += ((const float *)src)[i];
    break;
  default:
    for (int64_t i = 0; i < n; i++) ((int64_t *)dst)[i] += ((const int64_t *)src)[i];
  }
}

/* ---- gather and scatter_add ---- */

static pn_status check_gather(pn_context *c, const char *where, const pn_tensor *x, const pn_tensor *index,
                              int64_t axis) {
  bool fits = index->ndim == x->ndim;
  for (int i = 0; fits && i < x->ndim; i++) fits = i == axis || index->shape[i] <= x->shape[i];
  if (fits) return wants_index(c, where, index);
  char a[PNI_SHAPE_TEXT], b[PNI_SHAPE_TEXT];
  return pni_fail(c, PN_SHAPE, "%s: index must have the axes of x, none larger outside axis %d, got %s for %s", where,
                  (int)axis + 1, pni_shape_text(index->ndim, index->shape, a), pni_shape_text(x->ndim, x->shape, b));
}

static pn_status infer_gather(pn_context *c, const pni_call *call, pni_spec *out) {
  *out = pni_spec_of(call->in[1]);
  out->dtype = call->in[0]->dtype;
  return check_gather(c, "gather", call->in[0], call->in[1], call->attr->i[0]);
}

/* Steps that a number takes which lies in a line of memory of its own. */
enum { FAR_APART = 8 };

/* Where row r of index, along its last axis, begins in x (strides st); what index itself tells is left out. */
static int64_t row_begin(const pn_tensor *index, const int64_t *st, int64_t axis, int64_t r) {
  int64_t offset = 0;
  for (int i = index->ndim - 2; i >= 0; i--) {
    if (i != axis) offset += r % index->shape[i] * st[i];
    r /= index->shape[i];
  }
  return offset;
}

/* For every element i of every row of `index`, which lies at `at`: `act`, where x[place] is what it points to and k its
 * position in index. */
#define EACH_PLACE(T, x_, st, act)                                                                                     \
  {                                                                                                                    \
    int last = index->ndim - 1;                                                                                        \
    int64_t n = index->shape[last], along = (st)[axis], step = axis == last ? 0 : (st)[last];                          \
    pni_watch watch = {.c = c}, *w = &watch;                                                                           \
    for (int64_t k = 0; k < index->numel && !watch.left;) {                                                            \
      T *x = (T *)(x_) + row_begin(index, st, axis, k / n);                                                            \
      PNI_LOOKING(w, i, 0, n) {                                                                                        \
        int64_t place = i * step + at[k] * along;                                                                      \
        act;                                                                                                           \
        k++;                                                                                                           \
      }                                                                                                                \
    }                                                                                                                  \
  }                                                                                                                    \
  break;

static pn_status eval_gather(pn_context *c, const pni_call *call, pn_tensor *out) {
  const pn_tensor *from = call->in[0];
  int64_t axis = call->attr->i[0];
  pn_tensor *index = checked_index(c, "gather", call->in[1], from->shape[axis]);
  if (!index) return c->status;
  const int64_t *at = pni_data(index);
  void *to = pni_data(out);
  switch (pni_itemsize(from)) {
  case 8: EACH_PLACE(const uint64_t, pni_data(from), from->stride, ((uint64_t *)to)[k] = x[place])
  case 4: EACH_PLACE(const uint32_t, pni_data(from), from->stride, ((uint32_t *)to)[k] = x[place])
  default: EACH_PLACE(const uint8_t, pni_data(from), from->stride, ((uint8_t *)to)[k] = x[place])
  }
  pn_tensor_unref(index);
  return pni_check_cancel(c);
}

static pn_tensor *zeros_like(pn_context *c, const pn_tensor *x) {
  return pn_zeros(c, (pn_dtype)x->dtype, x->ndim, x->shape);
}

static pn_tensor *vjp_gather(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  return pn_scatter_add(c, zeros_like(c, pni_in(y, 0)), (int)y->attr->i[0], pni_in(y, 1), g);
}

pn_tensor *pn_gather(pn_context *c, pn_tensor *x, int axis, pn_tensor *index) {
  if (!PNI_GIVEN(c, "gather", x) || (axis = pni_axis(c, "gather", axis, x->ndim)) < 0) return NULL;
  return pni_apply2(c, &pni_op_gather, x, index, &(pni_attr){.ni = 1, .i = {axis}});
}

const pni_op pni_op_gather = {.name = "gather",
                              .args = "x:t axis:a index:t",
                              .doc = "out[i][j] = x[index[i][j]][j] for axis 1; index int64 or whole floats, 0-based",
                              .flags = PNI_OP_ANY_DTYPE | PNI_OP_AXIS,
                              .infer = infer_gather,
                              .eval = eval_gather,
                              .vjp = vjp_gather};

static pn_status infer_scatter_add(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *x = call->in[0], *index = call->in[1], *src = call->in[2];
  *out = pni_spec_of(x);
  if (check_gather(c, "scatter_add", x, index, call->attr->i[0])) return c->status;
  bool same = src->ndim == index->ndim && memcmp(src->shape, index->shape, (size_t)src->ndim * sizeof *src->shape) == 0;
  if (!same) return pni_fail(c, PN_SHAPE, "scatter_add: src must have the shape of index");
  if (src->dtype != x->dtype || x->dtype == PN_BOOL)
    return pni_fail(c, PN_DTYPE, "scatter_add: x and src must have one dtype that is not bool, got %s and %s",
                    pn_dtype_name((pn_dtype)x->dtype), pn_dtype_name((pn_dtype)src->dtype));
  return PN_OK;
}

static pn_status eval_scatter_add(pn_context *c, const pni_call *call, pn_tensor *out) {
  int64_t axis = call->attr->i[0];
  if (pni_copy(c, out, call->in[0])) return c->status;
  pn_tensor *index = checked_index(c, "scatter_add", call->in[1], out->shape[axis]);
  pn_tensor *src = index ? pni_contiguous(c, call->in[2]) : NULL;
  if (src) {
    const int64_t *at = pni_data(index);
    const void *s = pni_data(src);
    switch (out->dtype) {
    case PN_FLOAT64: EACH_PLACE(double, pni_data(out), out->stride, x[place] += ((const double *)s)[k])
    case PN_FLOAT32: EACH_PLACE(float, pni_data(out), out->stride, x[place] += ((const float *)s)[k])
    default: EACH_PLACE(int64_t, pni_data(out), out->stride, x[place] += ((const int64_t *)s)[k])
    }
  }
  pn_tensor_unref(index);
  pn_tensor_unref(src);
  return pni_check_cancel(c);
}

static pn_tensor *vjp_scatter_add(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  return k == 0 ? g : pn_gather(c, g, (int)y->attr->i[0], pni_in(y, 1));
}

pn_tensor *pn_scatter_add(pn_context *c, pn_tensor *x, int axis, pn_tensor *index, pn_tensor *src) {
  if (!PNI_GIVEN(c, "scatter_add", x) || (axis = pni_axis(c, "scatter_add", axis, x->ndim)) < 0) return NULL;
  return pni_apply(c, &pni_op_scatter_add, 3, (pn_tensor *[]){x, index, src}, &(pni_attr){.ni = 1, .i = {axis}});
}

const pni_op pni_op_scatter_add = {.name = "scatter_add",
                                   .args = "x:t axis:a index:t src:t",
                                   .doc = "x with src added at the places that gather with the same index reads",
                                   .flags = PNI_OP_ANY_DTYPE | PNI_OP_AXIS,
                                   .infer = infer_scatter_add,
                                   .eval = eval_scatter_add,
                                   .vjp = vjp_scatter_add};

/* ---- take and take_add: [outer, axis, inner] blocks ---- */

static pn_status splice(pn_context *c, const char *where, const pn_tensor *x, int64_t axis, const pn_tensor *index,
                        pni_spec *out) {
  out->dtype = x->dtype;
  out->ndim = x->ndim - 1 + index->ndim;
  if (out->ndim > PN_MAX_DIMS)
    return pni_fail(c, PN_SHAPE, "%s: result would have %d axes, at most %d are possible", where, out->ndim,
                    PN_MAX_DIMS);
  int n = 0;
  for (int i = 0; i < axis; i++) out->shape[n++] = x->shape[i];
  for (int i = 0; i < index->ndim; i++) out->shape[n++] = index->shape[i];
  for (int i = (int)axis + 1; i < x->ndim; i++) out->shape[n++] = x->shape[i];
  return wants_index(c, where, index);
}

static pn_status infer_take(pn_context *c, const pni_call *call, pni_spec *out) {
  return splice(c, "take", call->in[0], call->attr->i[0], call->in[1], out);
}

/* The end of the stretch from row i on, of m rows that cost so many steps each, between two looks at the clock. */
static int64_t last_of(int64_t i, int64_t m, int64_t cost) {
  int64_t many = PNI_STRETCH / cost + 1;
  return m - i < many ? m : i + many;
}

static pn_status eval_take(pn_context *c, const pni_call *call, pn_tensor *out) {
  int64_t axis = call->attr->i[0], n = call->in[0]->shape[axis];
  pn_tensor *index = checked_index(c, "take", call->in[1], n);
  pn_tensor *x = index ? pni_contiguous(c, call->in[0]) : NULL;
  if (x && out->numel) {
    int64_t outer = pni_count((int)axis, x->shape), m = index->numel;
    int64_t inner = pni_count(x->ndim - (int)axis - 1, x->shape + axis + 1) * (int64_t)pni_itemsize(x);
    const int64_t *at = pni_data(index);
    const char *p = pni_data(x);
    char *o = pni_data(out);
    int64_t cost = FAR_APART + inner / 8;
    pni_watch w = {.c = c};
    for (int64_t a = 0; a < outer; a++)
      for (int64_t i = 0, end; i < m; i = end) {
        end = last_of(i, m, cost);
        if (pni_watch_check(&w, (end - i) * cost)) goto done;
        if (inner > PNI_BYTES) /* one of them */
          pni_copy_bytes(c, o + (a * m + i) * inner, p + (a * n + at[i]) * inner, (size_t)inner);
        else
          for (; i < end; i++) memcpy(o + (a * m + i) * inner, p + (a * n + at[i]) * inner, (size_t)inner);
      }
  }
done:
  pn_tensor_unref(index);
  pn_tensor_unref(x);
  return c->status;
}

static pn_tensor *vjp_take(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  int axis = (int)y->attr->i[0];
  return pn_take_add(c, g, axis, pni_in(y, 1), pni_in(y, 0)->shape[axis]);
}

pn_tensor *pn_take(pn_context *c, pn_tensor *x, int axis, pn_tensor *index) {
  if (!PNI_GIVEN(c, "take", x) || (axis = pni_axis(c, "take", axis, x->ndim)) < 0) return NULL;
  return pni_apply2(c, &pni_op_take, x, index, &(pni_attr){.ni = 1, .i = {axis}});
}

const pni_op pni_op_take = {
    .name = "take",
    .args = "x:t axis:a index:t",
    .doc = "sub-tensors of axis in the order of index (int64 or whole floats, 0-based), whose shape replaces the axis",
    .flags = PNI_OP_ANY_DTYPE | PNI_OP_AXIS,
    .infer = infer_take,
    .eval = eval_take,
    .vjp = vjp_take};

/* attr: axis, size */
static pn_status infer_take_add(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *g = call->in[0], *index = call->in[1];
  int64_t axis = call->attr->i[0];
  int kept = g->ndim - index->ndim;
  bool fits = axis >= 0 && axis <= kept && kept < PN_MAX_DIMS && g->dtype != PN_BOOL && call->attr->i[1] >= 0;
  for (int i = 0; fits && i < index->ndim; i++) fits = g->shape[axis + i] == index->shape[i];
  if (!fits) return pni_fail(c, PN_SHAPE, "take_add: g must hold the axes of index from axis %d on", (int)axis + 1);
  out->dtype = g->dtype;
  out->ndim = 0;
  for (int i = 0; i < axis; i++) out->shape[out->ndim++] = g->shape[i];
  out->shape[out->ndim++] = call->attr->i[1];
  for (int i = (int)axis + index->ndim; i < g->ndim; i++) out->shape[out->ndim++] = g->shape[i];
  return wants_index(c, "take_add", index);
}

static pn_status eval_take_add(pn_context *c, const pni_call *call, pn_tensor *out) {
  int64_t axis = call->attr->i[0], n = call->attr->i[1];
  if (pni_clear(c, pni_data(out), (size_t)out->numel * pni_itemsize(out))) return c->status;
  pn_tensor *index = checked_index(c, "take_add", call->in[1], n);
  pn_tensor *g = index ? pni_contiguous(c, call->in[0]) : NULL;
  if (g && g->numel) {
    int64_t outer = pni_count((int)axis, out->shape), m = index->numel, size = (int64_t)pni_itemsize(g);
    int64_t inner = pni_count(out->ndim - (int)axis - 1, out->shape + axis + 1);
    const int64_t *at = pni_data(index);
    const char *p = pni_data(g);
    char *o = pni_data(out);
    int64_t part = inner < PNI_SPAN ? inner : PNI_SPAN, cost = FAR_APART + part;
    pni_watch w = {.c = c};
    for (int64_t a = 0; a < outer; a++)
      for (int64_t from = 0; from < inner; from += part)
        for (int64_t i = 0, end; i < m; i = end) {
          end = last_of(i, m, cost);
          if (pni_watch_check(&w, (end - i) * cost)) goto done;
          int64_t many = inner - from < part ? inner - from : part;
          for (; i < end; i++)
            add_to(g->dtype, o + ((a * n + at[i]) * inner + from) * size, p + ((a * m + i) * inner + from) * size,
                   many);
        }
  }
done:
  pn_tensor_unref(index);
  pn_tensor_unref(g);
  return c->status;
}

static pn_tensor *vjp_take_add(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  return pn_take(c, g, (int)y->attr->i[0], pni_in(y, 1));
}

pn_tensor *pn_take_add(pn_context *c, pn_tensor *g, int axis, pn_tensor *index, int64_t size) {
  if (!PNI_GIVEN(c, "take_add", g) || (axis = pni_axis(c, "take_add", axis, g->ndim + 1)) < 0) return NULL;
  return pni_apply2(c, &pni_op_take_add, g, index, &(pni_attr){.ni = 2, .i = {axis, size}});
}

const pni_op pni_op_take_add = {
    .name = "take_add",
    .args = "g:t axis:a index:t size:i",
    .doc = "the adjoint of take: zeros of `size` along axis with g added at the indexed places",
    .flags = PNI_OP_ANY_DTYPE,
    .infer = infer_take_add,
    .eval = eval_take_add,
    .vjp = vjp_take_add};

/* ---- nonzero and masks: the result's shape depends on the values ---- */

static pn_tensor *as_mask(pn_context *c, const pn_tensor *x) {
  pni_spec s = pni_spec_of(x);
  s.dtype = PN_BOOL;
  pn_tensor *m = pni_tensor_new(c, &s);
  if (m && pni_copy(c, m, x) == PN_OK) return m;
  pn_tensor_unref(m);
  return NULL;
}

static pn_status infer_nonzero(pn_context *c, const pni_call *call, pni_spec *out) {
  pn_tensor *m = as_mask(c, call->in[0]);
  if (!m) return c->status;
  int64_t n = 0;
  const uint8_t *v = pni_data(m);
  PNI_INTERRUPTIBLE(c, i, m->numel) n += v[i] != 0;
  *out = (pni_spec){.dtype = PN_INT64, .ndim = 2, .shape = {n, m->ndim}};
  pn_tensor_unref(m);
  return c->status;
}

static pn_status eval_nonzero(pn_context *c, const pni_call *call, pn_tensor *out) {
  pn_tensor *m = as_mask(c, call->in[0]);
  if (!m) return c->status;
  const uint8_t *v = pni_data(m);
  int64_t *o = pni_data(out);
  PNI_INTERRUPTIBLE(c, i, m->numel) {
    if (!v[i]) continue;
    int64_t rest = i;
    for (int a = m->ndim - 1; a >= 0; a--) {
      o[a] = rest % m->shape[a];
      rest /= m->shape[a];
    }
    o += m->ndim;
  }
  pn_tensor_unref(m);
  return c->status;
}

pn_tensor *pn_nonzero(pn_context *c, pn_tensor *x) { return pni_apply1(c, &pni_op_nonzero, x, NULL); }

const pni_op pni_op_nonzero = {.name = "nonzero",
                               .args = "x:t",
                               .doc =
                                   "0-based positions of the non-zero elements, [count, ndim], row-major order; int64",
                               .flags = PNI_OP_ANY_DTYPE | PNI_OP_NODIFF | PNI_OP_DYNAMIC,
                               .infer = infer_nonzero,
                               .eval = eval_nonzero};

pn_tensor *pn_masked_select(pn_context *c, pn_tensor *x, pn_tensor *mask) {
  if (!PNI_GIVEN(c, "masked_select", x, mask)) return NULL;
  bool fits = mask->dtype == PN_BOOL && mask->ndim <= x->ndim;
  for (int i = 0; fits && i < mask->ndim; i++) fits = mask->shape[i] == x->shape[i];
  if (!fits) {
    char a[PNI_SHAPE_TEXT], b[PNI_SHAPE_TEXT];
    pni_fail(c, PN_SHAPE, "masked_select: mask must be bool with the leading axes of %s, got %s %s",
             pni_shape_text(x->ndim, x->shape, a), pn_dtype_name((pn_dtype)mask->dtype),
             pni_shape_text(mask->ndim, mask->shape, b));
    return NULL;
  }
  int64_t shape[PN_MAX_DIMS + 1] = {mask->numel};
  for (int i = mask->ndim; i < x->ndim; i++) shape[1 + i - mask->ndim] = x->shape[i];
  pn_tensor *flat = pn_reshape(c, x, 1 + x->ndim - mask->ndim, shape);
  pn_tensor *where = pn_nonzero(c, pn_reshape(c, mask, 1, &mask->numel));
  return pn_take(c, flat, 0, pn_reshape(c, where, 1, (int64_t[]){-1}));
}

/* ---- argsort: stable, NaN last ---- */

static pn_status infer_argsort(pn_context *c, const pni_call *call, pni_spec *out) {
  *out = pni_spec_of(call->in[0]);
  out->dtype = PN_INT64;
  (void)c;
  return PN_OK;
}

static pn_status eval_argsort(pn_context *c, const pni_call *call, pn_tensor *out) {
  if (out->numel == 0) return PN_OK;
  int axis = (int)call->attr->i[0];
  int64_t n = out->shape[axis], inner = pni_count(out->ndim - axis - 1, out->shape + axis + 1);
  size_t bytes = pni_order_scratch(n);
  pn_tensor *x = pni_contiguous(c, call->in[0]);
  void *scratch = x ? pni_alloc(c, bytes) : NULL;
  for (int64_t i = 0; scratch && i < out->numel / n && pni_check_cancel(c) == PN_OK; i++) {
    int64_t at = i / inner * n * inner + i % inner;
    pni_order_row(c, x->dtype, (const char *)pni_data(x) + at * (int64_t)pni_itemsize(x), n, inner,
                  call->attr->i[1] != 0, (int64_t *)pni_data(out) + at, scratch);
  }
  pni_free(c, scratch);
  pn_tensor_unref(x);
  return c->status;
}

pn_tensor *pn_argsort(pn_context *c, pn_tensor *x, int axis, int descending) {
  if (!PNI_GIVEN(c, "argsort", x) || (axis = pni_axis(c, "argsort", axis, x->ndim)) < 0) return NULL;
  return pni_apply1(c, &pni_op_argsort, x, &(pni_attr){.ni = 2, .i = {axis, descending != 0}});
}

const pni_op pni_op_argsort = {.name = "argsort",
                               .args = "x:t axis:a=-1 descending:b=false",
                               .doc = "0-based order that sorts along axis, stable, NaN last; int64",
                               .flags = PNI_OP_ANY_DTYPE | PNI_OP_NODIFF | PNI_OP_AXIS,
                               .infer = infer_argsort,
                               .eval = eval_argsort};

pn_tensor *pn_sort(pn_context *c, pn_tensor *x, int axis, int descending) {
  if (!PNI_GIVEN(c, "sort", x)) return NULL;
  return pn_gather(c, x, axis, pn_argsort(c, x, axis, descending));
}

pn_tensor *pn_argtopk(pn_context *c, pn_tensor *x, int64_t k, int axis, int largest) {
  if (!PNI_GIVEN(c, "argtopk", x) || (axis = pni_axis(c, "topk", axis, x->ndim)) < 0) return NULL;
  if (k < 0 || k > x->shape[axis]) {
    pni_fail(c, PN_DOMAIN, "topk: k must lie in 0 to %lld, got %lld", (long long)x->shape[axis], (long long)k);
    return NULL;
  }
  return pn_slice(c, pn_argsort(c, x, axis, largest), axis, 0, k, 1);
}

pn_tensor *pn_topk(pn_context *c, pn_tensor *x, int64_t k, int axis, int largest) {
  if (!PNI_GIVEN(c, "topk", x)) return NULL;
  return pn_gather(c, x, axis, pn_argtopk(c, x, k, axis, largest));
}
