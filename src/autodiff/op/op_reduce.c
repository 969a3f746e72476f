/*
** op_reduce.c: reductions over any axes. The tensor is brought to one of two layouts: contiguous rows
** [kept, reduced], or, when the reduced axes lead (the gradient of a bias), contiguous lines
** [reduced, kept] added up in place.
** attr: i[0] bit mask of the axes (0: all), i[1] keepdim.
*/
#include <math.h>
#include <string.h>
#include "op.h"
#include "../../tensor/kernel/reduce.h"
#include "../../tensor/lane/short_rows.h"

static uint32_t axis_mask(const pn_tensor *x, const pni_attr *a) {
  uint32_t all = (1u << x->ndim) - 1;
  return a->i[0] ? (uint32_t)a->i[0] : all;
}

static pn_status infer_reduce(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *x = call->in[0];
  uint32_t mask = axis_mask(x, call->attr);
  if (call->attr->i[0] >> x->ndim)
    return pni_fail(c, PN_SHAPE, "%s: axes must lie in the tensor's %d axes", call->op->name, x->ndim);
  out->dtype = x->dtype == PN_BOOL ? PN_INT64 : x->dtype;
  out->ndim = 0;
  for (int i = 0; i < x->ndim; i++) {
    if (!(mask >> i & 1))
      out->shape[out->ndim++] = x->shape[i];
    else if (call->attr->i[1])
      out->shape[out->ndim++] = 1;
  }
  return PN_OK;
}

/* The first reduced axis if all from there on are, -1 otherwise. */
static int kept_before(const pn_tensor *x, uint32_t mask) {
  int first = 0;
  while (first < x->ndim && !(mask >> first & 1)) first++;
  return mask >> first == (1u << (x->ndim - first)) - 1 ? first : -1;
}

/* [kept, reduced] geometry of a reduction. */
typedef struct {
  int64_t kept, reduced;
  bool leading; /* the reduced axes come first: lines instead of rows */
  pn_tensor *x; /* contiguous in that order; one reference is ours */
} layout;

/* `lines`: the caller can reduce lines, so leading axes may stay in front. */
static pn_status arrange(pn_context *c, pn_tensor *x, uint32_t mask, bool lines, layout *l) {
  int order[PN_MAX_DIMS], n = 0;
  bool leading = !(mask & (mask + 1)), trailing = kept_before(x, mask) >= 0;
  for (int i = 0; i < x->ndim; i++)
    if (!(mask >> i & 1)) order[n++] = i;
  l->reduced = 1;
  for (int i = 0; i < x->ndim; i++)
    if (mask >> i & 1) {
      order[n++] = i;
      l->reduced *= x->shape[i];
    }
  l->leading = lines && leading && !trailing && pni_is_contiguous(x) && l->reduced > 0;
  if (l->leading || trailing) return (l->x = pni_contiguous(c, x)) ? PN_OK : c->status;
  pn_tensor *p = pni_tensor_alias(c, x);
  if (!p) return c->status;
  for (int i = 0; i < x->ndim; i++) {
    p->shape[i] = x->shape[order[i]];
    p->stride[i] = x->stride[order[i]];
  }
  l->x = pni_contiguous(c, p);
  pn_tensor_unref(p);
  return l->x ? PN_OK : c->status;
}

typedef struct {
  pn_context *c;
  const layout *l;
  const pni_reducer *r;
  char *x, *out;
  int64_t size;
} job;

/* A row of n elements of which pieces are done one by one: halves that begin with whole blocks, as a sum's do. */
enum { PIECE = 1 << 20 };
static void reduce_long(const job *j, const char *x, int64_t n, char *out) {
  if (n <= PIECE) {
    if (!pni_leaves(j->c)) j->r->rows(x, 1, n, out);
    return;
  }
  int64_t half = n / 2 / PNI_PIECE * PNI_PIECE;
  _Alignas(8) char part[2 * sizeof(int64_t)];
  memset(part, 0, sizeof part);
  reduce_long(j, x, half, part);
  reduce_long(j, x + half * j->size, n - half, part + j->size);
  j->r->rows(part, 1, 2, out);
}

static void reduce_rows(void *data, int64_t begin, int64_t end) {
  const job *j = data;
  if (j->l->reduced > PIECE) {
    for (int64_t i = begin; i < end; i++)
      reduce_long(j, j->x + i * j->l->reduced * j->size, j->l->reduced, j->out + i * j->size);
    return;
  }
  j->r->rows(j->x + begin * j->l->reduced * j->size, end - begin, j->l->reduced, j->out + begin * j->size);
}

/* n lines of `width` columns, `bytes` apart, into acc; many lines by halves, so that errors grow with log n as along
 * rows. Then width is at most a strip. */
enum { BLOCK = 64, STRIP = 4096, MANY = 1 << 12 };
static void fold_lines(const job *j, const char *x, int64_t n, int64_t bytes, int64_t width, char *acc) {
  if (n > MANY && pni_leaves(j->c)) return;
  if (n <= BLOCK) {
    memcpy(acc, x, (size_t)(width * j->size));
    for (int64_t i = 1; i < n; i++) j->r->line(x + i * bytes, width, acc);
    return;
  }
  _Alignas(8) char part[STRIP];
  fold_lines(j, x, n / 2, bytes, width, acc);
  fold_lines(j, x + n / 2 * bytes, n - n / 2, bytes, width, part);
  j->r->line(part, width, acc);
}

/* Short lines: as many as a strip holds count as one line, whose parts are folded at the end. */
static void fold_short(const job *j) {
  int64_t n = j->l->reduced, width = j->l->kept, bytes = width * j->size, group = STRIP / bytes;
  _Alignas(8) char sum[STRIP];
  fold_lines(j, j->x, n / group, group * bytes, group * width, sum);
  for (int64_t i = n / group * group; i < n; i++) j->r->line(j->x + i * bytes, width, sum);
  fold_lines(j, sum, group, bytes, width, j->out);
}

/* Columns begin .. end - 1 of all lines. */
static void reduce_lines(void *data, int64_t begin, int64_t end) {
  const job *j = data;
  int64_t width = end - begin, bytes = j->l->kept * j->size;
  if (4 * bytes <= STRIP && j->l->reduced * bytes >= 2 * STRIP) {
    fold_short(j);
    return;
  }
  char *acc = j->out + begin * j->size, *x = j->x + begin * j->size;
  int64_t step = j->l->reduced > BLOCK ? STRIP / j->size : width;
  for (int64_t at = 0; at < width; at += step)
    fold_lines(j, x + at * j->size, j->l->reduced, bytes, at + step < width ? step : width - at, acc + at * j->size);
}

/* Short rows of floats: trailing axes, or one axis with elements *inner apart. */
static bool short_rows(const pn_tensor *x, const pni_attr *attr, int64_t *n, int64_t *inner) {
  uint32_t mask = axis_mask(x, attr);
  int axis = kept_before(x, mask);
  if (!pni_is_float(x) || x->numel == 0) return false;
  if (axis >= 0) {
    *n = pni_count(x->ndim - axis, x->shape + axis);
    *inner = 1;
  } else {
    if (mask & (mask - 1)) return false;
    for (axis = 0; !(mask >> axis & 1);) axis++;
    *n = x->shape[axis];
    *inner = pni_count(x->ndim - axis - 1, x->shape + axis + 1);
  }
  return *n <= PNI_SHORT_ROWS_LONGEST;
}

static pn_status by_rows(pn_context *c, pni_short_rows_problem kind, pn_tensor *x_, int64_t n, int64_t inner,
                         pn_tensor *out) {
  pn_tensor *x = pni_contiguous(c, x_);
  if (!x) return c->status;
  pni_short_rows r = {.kind = kind, .n = (int)n, .inner = inner, .x = pni_data(x), .out = pni_data(out)};
  pni_short_rows_run(c, x->dtype, &r, x->numel / n);
  pn_tensor_unref(x);
  return c->status;
}

static pn_status reduce(pn_context *c, const pni_call *call, pn_tensor *out, int which) {
  static const pni_reducer *const table[] = {pni_reducers_f64, pni_reducers_f32, pni_reducers_i64};
  pn_tensor *x = call->in[0];
  if (out->numel == 0) return PN_OK;
  static const int kinds[PNI_REDUCERS] = {[PNI_SUM] = PNI_SHORT_ROWS_SUM,
                                          PNI_SHORT_ROWS_KINDS,
                                          PNI_SHORT_ROWS_MAX,
                                          PNI_SHORT_ROWS_MIN,
                                          PNI_SHORT_ROWS_LOGSUMEXP};
  int64_t n, inner;
  bool apart = kinds[which] < PNI_SHORT_ROWS_KINDS && short_rows(x, call->attr, &n, &inner) && inner > 1;
  if (apart && (which == PNI_LOGSUMEXP || x->numel > n * inner)) /* else the axis leads: lines are as good */
    return by_rows(c, (pni_short_rows_problem)kinds[which], x, n, inner, out);
  pn_tensor *counted = NULL;
  if (x->dtype == PN_BOOL) {
    pni_spec s = pni_spec_of(x);
    s.dtype = PN_INT64;
    if (!(counted = pni_tensor_new(c, &s)) || pni_copy(c, counted, x)) {
      pn_tensor_unref(counted);
      return c->status;
    }
    x = counted;
  }
  layout l = {.kept = out->numel};
  const pni_reducer *r = &table[x->dtype][which];
  pn_status status = arrange(c, x, axis_mask(x, call->attr), r->line != NULL, &l);
  if (status == PN_OK) {
    job j = {c, &l, r, pni_data(l.x), pni_data(out), (int64_t)pni_itemsize(x)};
    int64_t grain = 32768 / (l.reduced + 1) + 1;
    if (l.leading && grain < STRIP / 4 / j.size) grain = STRIP / 4 / j.size; /* short lines in one piece */
    if (l.leading && c->num_threads == 1) grain = out->numel;
    status = pni_parallel(c, out->numel, grain, l.leading ? reduce_lines : reduce_rows, &j);
    pn_tensor_unref(l.x);
  }
  pn_tensor_unref(counted);
  return status;
}

static pn_status nonempty(pn_context *c, const pni_call *call, const pn_tensor *out) {
  if (call->in[0]->numel == 0 && out->numel > 0)
    return pni_fail(c, PN_SHAPE, "%s: tensor must not be empty along the reduced axes", call->op->name);
  return PN_OK;
}

static pn_status eval_sum(pn_context *c, const pni_call *call, pn_tensor *out) { return reduce(c, call, out, PNI_SUM); }
static pn_status eval_prod(pn_context *c, const pni_call *call, pn_tensor *out) {
  return reduce(c, call, out, PNI_PROD);
}
static pn_status eval_max(pn_context *c, const pni_call *call, pn_tensor *out) {
  return nonempty(c, call, out) ? c->status : reduce(c, call, out, PNI_MAX);
}
static pn_status eval_min(pn_context *c, const pni_call *call, pn_tensor *out) {
  return nonempty(c, call, out) ? c->status : reduce(c, call, out, PNI_MIN);
}
static pn_status eval_logsumexp(pn_context *c, const pni_call *call, pn_tensor *out) {
  return nonempty(c, call, out) ? c->status : reduce(c, call, out, PNI_LOGSUMEXP);
}

/* mean = sum / n, scaled in place before the result is published */
static pn_status eval_mean(pn_context *c, const pni_call *call, pn_tensor *out) {
  if (nonempty(c, call, out) || reduce(c, call, out, PNI_SUM)) return c->status;
  double scale = (double)out->numel / (double)call->in[0]->numel;
  if (out->dtype == PN_FLOAT64) {
    double *v = pni_data(out);
    PNI_INTERRUPTIBLE(c, i, out->numel) v[i] *= scale;
  } else {
    float *v = pni_data(out);
    PNI_INTERRUPTIBLE(c, i, out->numel) v[i] = (float)((double)v[i] * scale);
  }
  return c->status;
}

static pni_fold fold_rows(const pni_call *call, int64_t *n, double *scale) {
  const pni_op *op = call->op;
  const pn_tensor *x = call->in[0];
  int which = op == &pni_op_sum || op == &pni_op_mean ? PNI_SUM
              : op == &pni_op_prod                    ? PNI_PROD
              : op == &pni_op_max                     ? PNI_MAX
              : op == &pni_op_min                     ? PNI_MIN
              : op == &pni_op_logsumexp               ? PNI_LOGSUMEXP
                                                      : -1;
  if (which < 0 || !pni_is_float(x) || x->numel == 0) return NULL;
  uint32_t mask = axis_mask(x, call->attr);
  int first = kept_before(x, mask);
  if (first < 0) return NULL;
  *n = pni_count(x->ndim - first, x->shape + first);
  *scale = op == &pni_op_mean ? 1 / (double)*n : 0;
  return (x->dtype == PN_FLOAT64 ? pni_reducers_f64 : pni_reducers_f32)[which].rows;
}

static const pni_pieces *pieces_of(const pni_call *call) {
  if (call->op != &pni_op_sum && call->op != &pni_op_mean) return NULL;
  return call->in[0]->dtype == PN_FLOAT64 ? &pni_sum_pieces_f64 : &pni_sum_pieces_f32;
}

/* ---- gradients: g and y are brought back to x's axes with size 1 where it was reduced ---- */

static pn_tensor *expand(pn_context *c, pn_tensor *y, pn_tensor *t) {
  const pn_tensor *x = pni_in(y, 0);
  uint32_t mask = axis_mask(x, y->attr);
  int64_t shape[PN_MAX_DIMS];
  for (int i = 0; i < x->ndim; i++) shape[i] = mask >> i & 1 ? 1 : x->shape[i];
  return pn_reshape(c, t, x->ndim, shape);
}
static pn_tensor *spread(pn_context *c, pn_tensor *y, pn_tensor *t) {
  const pn_tensor *x = pni_in(y, 0);
  return pn_broadcast_to(c, expand(c, y, t), x->ndim, x->shape);
}
static pn_tensor *vjp_sum(pn_context *c, pn_tensor *y, pn_tensor *g, int k) { return (void)k, spread(c, y, g); }
static pn_tensor *vjp_mean(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  double n = (double)pni_in(y, 0)->numel / (double)y->numel;
  return spread(c, y, pn_mul(c, g, pni_like(c, g, 1 / n)));
}
/* Ties share the gradient equally. */
static pn_tensor *vjp_extreme(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  pn_tensor *x = pni_in(y, 0);
  pn_tensor *hit = pn_cast(c, pn_eq(c, x, expand(c, y, y)), (pn_dtype)x->dtype);
  pn_tensor *count = pni_apply1(c, &pni_op_sum, hit, y->attr);
  return pn_mul(c, hit, expand(c, y, pn_div(c, g, count)));
}
/* softmax; where the result is -inf every input is, and the gradient is 0 */
static pn_tensor *vjp_logsumexp(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  pn_tensor *empty = pn_eq(c, y, pni_like(c, y, -INFINITY));
  pn_tensor *safe = pn_where(c, empty, pni_like(c, y, 0), y);
  return pn_mul(c, expand(c, y, g), pn_exp(c, pn_sub(c, pni_in(y, 0), expand(c, y, safe))));
}
/* The same in one pass over short rows, without a graph: x, y and g, of which y has a number for each row. */
static pn_status infer_slope(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *x = call->in[0], *y = call->in[1];
  pni_spec like = pni_spec_of(y);
  char s[PNI_SHAPE_TEXT], t[PNI_SHAPE_TEXT];
  *out = pni_spec_of(x);
  if (pni_require_like(c, call, 2, &like)) return c->status;
  int64_t n = y->numel ? x->numel / y->numel : 0, inner = call->attr->i[0];
  bool fits = n >= 1 && n <= PNI_SHORT_ROWS_LONGEST && n * y->numel == x->numel && inner >= 1 && y->numel % inner == 0;
  if (fits || x->numel == 0) return PN_OK;
  return pni_fail(c, PN_SHAPE, "logsumexp_slope: x must have rows of a number each, got %s for %s",
                  pni_shape_text(x->ndim, x->shape, s), pni_shape_text(y->ndim, y->shape, t));
}
static pn_status eval_slope(pn_context *c, const pni_call *call, pn_tensor *out) {
  pn_tensor *in[3] = {NULL};
  bool ready = out->numel > 0;
  for (int k = 0; k < 3 && ready; k++) ready = (in[k] = pni_contiguous(c, call->in[k])) != NULL;
  if (ready) {
    int64_t rows = in[1]->numel;
    pni_short_rows r = {
        .kind = PNI_SHORT_ROWS_LOGSUMEXP_SLOPE, .n = (int)(out->numel / rows), .inner = call->attr->i[0]};
    r.x = pni_data(in[0]);
    r.y = pni_data(in[1]);
    r.g = pni_data(in[2]);
    r.out = pni_data(out);
    pni_short_rows_run(c, out->dtype, &r, rows);
  }
  for (int k = 0; k < 3; k++) pn_tensor_unref(in[k]);
  return c->status;
}
static const pni_op logsumexp_slope = {
    .name = "logsumexp_slope", .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF, .infer = infer_slope, .eval = eval_slope};

static pn_status vjps_logsumexp(pn_context *c, pn_tensor *y, pn_tensor *g, const bool *wanted, pn_tensor **out) {
  (void)wanted;
  int64_t n, inner;
  pn_tensor *x = pni_in(y, 0);
  bool rows = short_rows(x, y->attr, &n, &inner);
  pni_attr a = {.ni = 1, .i = {rows ? inner : 0}};
  out[0] = rows ? pni_apply(c, &logsumexp_slope, 3, (pn_tensor *[]){x, y, g}, &a) : vjp_logsumexp(c, y, g, 0);
  return c->status;
}

/* The product of the others: y / x, or, where the group holds exactly one zero, the product without it. */
static pn_tensor *vjp_prod(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  pn_tensor *x = pni_in(y, 0), *one = pni_like(c, x, 1), *zero = pni_like(c, x, 0);
  pn_tensor *is_zero = pn_eq(c, x, zero);
  pn_tensor *zeros = expand(c, y, pni_apply1(c, &pni_op_sum, pn_cast(c, is_zero, (pn_dtype)x->dtype), y->attr));
  pn_tensor *safe = pn_where(c, is_zero, one, x);
  pn_tensor *rest = pn_div(c, expand(c, y, pni_apply1(c, &pni_op_prod, safe, y->attr)), safe);
  pn_tensor *alone = pn_logical_and(c, is_zero, pn_eq(c, zeros, one));
  pn_tensor *counts = pn_logical_or(c, pn_eq(c, zeros, zero), alone);
  return pn_mul(c, expand(c, y, g), pn_where(c, counts, rest, zero));
}

/* ---- any, all, argmax, argmin ---- */

static pn_status infer_test(pn_context *c, const pni_call *call, pni_spec *out) {
  pn_status s = infer_reduce(c, call, out);
  out->dtype = PN_BOOL;
  return s;
}

/* Rows of n truth values. */
static void test_rows(const uint8_t *v, int64_t rows, int64_t n, bool all, uint8_t *out) {
  for (int64_t i = 0; i < rows; i++, v += n) {
    int any = 0, none = 0;
    for (int64_t j = 0; j < n; j++) {
      any |= v[j] != 0;
      none |= v[j] == 0;
    }
    out[i] = (uint8_t)(all ? !none : any);
  }
}

static pn_status eval_test(pn_context *c, const pni_call *call, pn_tensor *out) {
  bool all = call->op == &pni_op_all;
  pn_tensor *x = call->in[0];
  uint32_t reduced = axis_mask(x, call->attr);
  int first = kept_before(x, reduced);
  pni_spec s = pni_spec_of(x), rs = pni_spec_of(out);
  s.dtype = PN_BOOL;
  rs.dtype = PN_INT64;
  bool as_is = x->dtype == PN_BOOL && pni_is_contiguous(x);
  pn_tensor *mask = as_is ? pn_tensor_ref(x) : pni_tensor_new(c, &s);
  pn_tensor *count = first < 0 ? pni_tensor_new(c, &rs) : NULL;
  if (mask && (count || first >= 0) && (as_is || pni_copy(c, mask, x) == PN_OK)) {
    pni_call sum = {&pni_op_sum, &mask, 1, call->attr};
    uint8_t *o = pni_data(out);
    if (first >= 0) {
      test_rows(pni_data(mask), out->numel, pni_count(x->ndim - first, x->shape + first), all, o);
    } else if (reduce(c, &sum, count, PNI_SUM) == PN_OK) {
      int64_t n = out->numel ? x->numel / out->numel : 0;
      const int64_t *v = pni_data(count);
      for (int64_t i = 0; i < out->numel; i++) o[i] = all ? v[i] == n : v[i] > 0;
    }
  }
  pn_tensor_unref(mask);
  pn_tensor_unref(count);
  return c->status;
}

static pn_status infer_arg(pn_context *c, const pni_call *call, pni_spec *out) {
  pni_attr a = {.ni = 2, .i = {(int64_t)1 << call->attr->i[0], call->attr->i[1]}};
  pni_call reduced = {call->op, call->in, 1, &a};
  pn_status s = infer_reduce(c, &reduced, out);
  out->dtype = PN_INT64;
  return s;
}

static pn_status eval_arg(pn_context *c, const pni_call *call, pn_tensor *out) {
  static const pni_scanner *const table[] = {&pni_scanner_f64, &pni_scanner_f32, &pni_scanner_i64};
  pn_tensor *x = call->in[0];
  if (nonempty(c, call, out)) return c->status;
  int axis = (int)call->attr->i[0];
  int64_t n = x->shape[axis], inner = pni_count(x->ndim - axis - 1, x->shape + axis + 1);
  if (pni_is_float(x) && n <= PNI_SHORT_ROWS_LONGEST && x->numel > 0)
    return by_rows(c, call->op == &pni_op_argmax ? PNI_SHORT_ROWS_ARGMAX : PNI_SHORT_ROWS_ARGMIN, x, n, inner, out);
  pn_tensor *d = pni_contiguous(c, x);
  if (!d) return c->status;
  const pni_scanner *s = table[x->dtype];
  int64_t (*arg)(pni_watch *, const void *, int64_t, int64_t) = call->op == &pni_op_argmax ? s->argmax : s->argmin;
  int64_t *o = pni_data(out);
  const char *p = pni_data(d);
  pni_watch w = {.c = c};
  for (int64_t i = 0; i < out->numel && !pni_watch_check(&w, 16); i++)
    o[i] = arg(&w, p + (i / inner * n * inner + i % inner) * (int64_t)pni_itemsize(d), n, inner);
  pn_tensor_unref(d);
  return pni_check_cancel(c);
}

/* ---- rows and builders ---- */

static pni_attr reduce_attr(pn_context *c, const char *where, const pn_tensor *x, pn_axes axes, int keepdim) {
  pni_attr a = {.ni = 2, .i = {0, keepdim != 0}};
  if (axes.n < 0 || axes.n > PN_MAX_DIMS)
    pni_fail(c, PN_SHAPE, "%s: number of axes must be 0 to %d, got %d", where, PN_MAX_DIMS, axes.n);
  for (int k = 0; x && k < axes.n && !pni_failed(c); k++) {
    int axis = pni_axis(c, where, axes.axis[k], x->ndim);
    if (axis >= 0) a.i[0] |= (int64_t)1 << axis;
  }
  return a;
}

#define ROW(id, extra, infer_fn, eval_fn, vjp_fn, vjps_fn, lo_, hi_, text)                                             \
  pn_tensor *pn_##id(pn_context *c, pn_tensor *x, pn_axes axes, int keepdim) {                                         \
    pni_attr a = reduce_attr(c, #id, x, axes, keepdim);                                                                \
    return pni_apply1(c, &pni_op_##id, x, &a);                                                                         \
  }                                                                                                                    \
  const pni_op pni_op_##id = {.name = #id,                                                                             \
                              .args = "x:t axes:A keepdim:b=false",                                                    \
                              .doc = text,                                                                             \
                              .flags = extra,                                                                          \
                              .domain = {{lo_, hi_}},                                                                  \
                              .infer = infer_fn,                                                                       \
                              .eval = eval_fn,                                                                         \
                              .fold = fold_rows,                                                                       \
                              .pieces = pieces_of,                                                                     \
                              .vjp = vjp_fn,                                                                           \
                              .vjps = vjps_fn};

ROW(sum, PNI_OP_ANY_DTYPE, infer_reduce, eval_sum, vjp_sum, NULL, 0, 0, "sum over axes; bool counts into int64")
ROW(mean, PNI_OP_AS_FLOAT, infer_reduce, eval_mean, vjp_mean, NULL, 0, 0,
    "arithmetic mean over axes; of int64 and bool in the default dtype")
ROW(prod, PNI_OP_INTEGER, infer_reduce, eval_prod, vjp_prod, NULL, 0.3, 2,
    "product over axes; the second derivative is exact where no factor is zero")
ROW(max, PNI_OP_INTEGER, infer_reduce, eval_max, vjp_extreme, NULL, 0, 0, "largest over axes; ties share the gradient")
ROW(min, PNI_OP_INTEGER, infer_reduce, eval_min, vjp_extreme, NULL, 0, 0, "smallest over axes; ties share the gradient")
ROW(logsumexp, 0, infer_reduce, eval_logsumexp, vjp_logsumexp, vjps_logsumexp, 0, 0,
    "log sum e^x over axes; -inf with gradient 0 where all are -inf")
ROW(any, PNI_OP_ANY_DTYPE | PNI_OP_NODIFF, infer_test, eval_test, NULL, NULL, 0, 0, "is one non-zero; bool")
ROW(all, PNI_OP_ANY_DTYPE | PNI_OP_NODIFF, infer_test, eval_test, NULL, NULL, 0, 0, "is none zero; bool")

#define ARG_ROW(id, text)                                                                                              \
  pn_tensor *pn_##id(pn_context *c, pn_tensor *x, int axis, int keepdim) {                                             \
    if (!PNI_GIVEN(c, #id, x) || (axis = pni_axis(c, #id, axis, x->ndim)) < 0) return NULL;                            \
    return pni_apply1(c, &pni_op_##id, x, &(pni_attr){.ni = 2, .i = {axis, keepdim != 0}});                            \
  }                                                                                                                    \
  const pni_op pni_op_##id = {.name = #id,                                                                             \
                              .args = "x:t axis:a=-1 keepdim:b=false",                                                 \
                              .doc = text,                                                                             \
                              .flags = PNI_OP_INTEGER | PNI_OP_NODIFF | PNI_OP_AXIS,                                   \
                              .infer = infer_arg,                                                                      \
                              .eval = eval_arg};

ARG_ROW(argmax, "0-based position of the first largest element along axis; int64")
ARG_ROW(argmin, "0-based position of the first smallest element along axis; int64")

/* Composition: the mean of the squared distance from the mean, n - correction in the divisor. */
pn_tensor *pn_var(pn_context *c, pn_tensor *x, pn_axes axes, double correction, int keepdim) {
  if (!PNI_GIVEN(c, "var", x)) return NULL;
  pn_tensor *m = pn_mean(c, x, axes, 1);
  pn_tensor *s = pn_sum(c, pn_square(c, pn_sub(c, x, m)), axes, keepdim);
  if (!s) return NULL;
  double n = (double)x->numel / (double)m->numel - correction;
  return pn_div(c, s, pni_like(c, x, n > 0 ? n : 0));
}

pn_tensor *pn_std(pn_context *c, pn_tensor *x, pn_axes axes, double correction, int keepdim) {
  return pn_sqrt(c, pn_var(c, x, axes, correction, keepdim));
}
