/*
** inside_rows.c: vectors and matrices outside of a support: a member instead of the value before the formula, -inf or
** NaN instead of the result after it. They are copied by runs of those inside, so that plans, which do not know
** beforehand whether any are outside, pay for a copy at most. (Numbers: where_inside.c.)
*/
#include <math.h>
#include <string.h>
#include "inside.h"

/* Items of `width` numbers. */
typedef struct {
  const uint8_t *mask;
  const char *x, *other; /* items; what stands for one that is outside, or the log densities */
  char *out;
  int64_t width;
  size_t size;
} items;

/* The first item from `at` on that is outside, or end. */
static int64_t next_outside(const items *w, int64_t at, int64_t end) {
  const uint8_t *found = memchr(w->mask + at, 0, (size_t)(end - at));
  return found ? found - w->mask : end;
}

static void copy_items(void *data, int64_t begin, int64_t end) {
  const items *w = data;
  size_t bytes = (size_t)w->width * w->size;
  for (int64_t i = begin; i < end; i++) {
    int64_t stop = next_outside(w, i, end);
    memcpy(w->out + (size_t)i * bytes, w->x + (size_t)i * bytes, (size_t)(stop - i) * bytes);
    if (stop < end) memcpy(w->out + (size_t)stop * bytes, w->other, bytes);
    i = stop;
  }
}

static bool has_nan(const items *w, int64_t item) {
  const char *x = w->x + (size_t)(item * w->width) * w->size;
  bool nan = false;
  for (int64_t k = 0; k < w->width; k++)
    nan |= w->size == sizeof(double) ? isnan(((const double *)(const void *)x)[k])
                                     : isnan(((const float *)(const void *)x)[k]);
  return nan;
}

static void copy_densities(void *data, int64_t begin, int64_t end) {
  const items *w = data;
  for (int64_t i = begin; i < end; i++) {
    int64_t stop = next_outside(w, i, end);
    memcpy(w->out + (size_t)i * w->size, w->other + (size_t)i * w->size, (size_t)(stop - i) * w->size);
    i = stop;
    if (i == end) return;
    double v = has_nan(w, i) ? NAN : -INFINITY;
    if (w->size == sizeof v)
      ((double *)(void *)w->out)[i] = v;
    else
      ((float *)(void *)w->out)[i] = (float)v;
  }
}

/* Inputs mask, items, other; any may be strided. */
static pn_status run_items(pn_context *c, const pni_call *call, pn_tensor *out, pni_shard body) {
  pn_tensor *in[3];
  for (int k = 0; k < 3; k++) in[k] = pni_contiguous(c, call->in[k]);
  if (!pni_failed(c) && in[0]->numel) {
    items w = {pni_data(in[0]),  pni_data(in[1]), pni_data(in[2]), pni_data(out), in[1]->numel / in[0]->numel,
               pni_itemsize(out)};
    pni_parallel(c, in[0]->numel, 32768 / (w.width + 1) + 1, body, &w);
  }
  for (int k = 0; k < 3; k++) pn_tensor_unref(in[k]);
  return c->status;
}

/* mask [batch] bool and items [batch, item]; other is an item or, for densities, a number for each. */
static pn_status check_items(pn_context *c, const pni_call *call, bool densities) {
  const pn_tensor *mask = call->in[0], *x = call->in[1];
  pni_spec other = pni_spec_of(densities ? mask : x);
  char s[PNI_SHAPE_TEXT], t[PNI_SHAPE_TEXT];
  bool fits = mask->dtype == PN_BOOL && (pni_is_float(x) || !densities) && x->ndim >= mask->ndim &&
              memcmp(mask->shape, x->shape, (size_t)mask->ndim * sizeof *x->shape) == 0;
  if (!fits)
    return pni_fail(c, PN_SHAPE, "%s: mask must be bool and x have its axes first, got %s %s and %s", call->op->name,
                    pn_dtype_name((pn_dtype)mask->dtype), pni_shape_text(mask->ndim, mask->shape, s),
                    pni_shape_text(x->ndim, x->shape, t));
  if (!densities) {
    other.ndim -= mask->ndim;
    memmove(other.shape, other.shape + mask->ndim, (size_t)other.ndim * sizeof *other.shape);
  }
  other.dtype = x->dtype;
  return pni_require_like(c, call, 2, &other);
}

static pn_status infer_items(pn_context *c, const pni_call *call, pni_spec *out) {
  *out = pni_spec_of(call->in[1]);
  return check_items(c, call, false);
}
static pn_status eval_items(pn_context *c, const pni_call *call, pn_tensor *out) {
  return run_items(c, call, out, copy_items);
}

static pn_status infer_row_density(pn_context *c, const pni_call *call, pni_spec *out) {
  *out = pni_spec_of(call->in[2]);
  return check_items(c, call, true);
}
static pn_status eval_row_density(pn_context *c, const pni_call *call, pn_tensor *out) {
  return run_items(c, call, out, copy_densities);
}

/* An item that stands for those outside gets the sum of theirs. */
static pn_tensor *vjp_items(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  pn_tensor *mask = pni_in(y, 0);
  pn_tensor *inside = pni_inside_rows(c, mask, g, pni_like(c, g, 0), g->ndim - mask->ndim);
  return k == 2 ? pni_sum_to(c, pn_sub(c, g, inside), pni_in(y, 2)) : inside;
}

static const pni_op inside_rows = {.name = "inside_rows",
                                   .flags = PNI_OP_ANY_DTYPE | PNI_OP_HIDDEN,
                                   .infer = infer_items,
                                   .eval = eval_items,
                                   .vjp = vjp_items};
static pn_tensor *vjp_row_density(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  pn_tensor *x = pni_in(y, k);
  return k == 1 ? pn_zeros(c, (pn_dtype)x->dtype, x->ndim, x->shape) : pn_where(c, pni_in(y, 0), g, pni_like(c, g, 0));
}

static const pni_op inside_row_density = {.name = "inside_row_density",
                                          .flags = PNI_OP_ANY_DTYPE | PNI_OP_HIDDEN,
                                          .infer = infer_row_density,
                                          .eval = eval_row_density,
                                          .vjp = vjp_row_density};

/* ---- builders ---- */

/* Is t's shape that of lead and `rank` axes more? */
static bool leads(const pn_tensor *lead, const pn_tensor *t, int rank) {
  return t->ndim == lead->ndim + rank && memcmp(lead->shape, t->shape, (size_t)lead->ndim * sizeof *t->shape) == 0;
}

pn_tensor *pni_inside_rows(pn_context *c, pn_tensor *mask, pn_tensor *x, pn_tensor *member, int rank) {
  if (!mask || !x || !member) return NULL;
  if (!leads(mask, x, rank)) { /* ends that are parameters, of a batch that x repeats over */
    for (int i = 0; i < rank; i++) mask = pn_unsqueeze(c, mask, -1);
    return pn_where(c, mask, x, member);
  }
  pn_tensor *item = pn_contiguous(c, pn_broadcast_to(c, member, rank, x->shape + mask->ndim));
  return pni_apply(c, &inside_rows, 3, (pn_tensor *[]){mask, x, item}, NULL);
}

pn_tensor *pni_inside_row_density(pn_context *c, pn_tensor *mask, pn_tensor *lp, pn_tensor *x, int rank) {
  if (!mask || !lp || !x) return NULL;
  if (!pni_is_float(x)) return pn_where(c, mask, lp, pni_like(c, lp, -INFINITY));
  x = pn_detach(c, x);
  if (x->dtype == lp->dtype && leads(mask, x, rank) && leads(mask, lp, 0))
    return pni_apply(c, &inside_row_density, 3, (pn_tensor *[]){mask, x, lp}, NULL);
  pn_axes axes = {.n = rank};
  for (int i = 0; i < rank; i++) axes.axis[i] = -1 - i;
  pn_tensor *nan = pn_any(c, pn_isnan(c, x), axes, 0);
  return pn_where(c, mask, lp, pn_where(c, nan, pni_like(c, lp, NAN), pni_like(c, lp, -INFINITY)));
}
