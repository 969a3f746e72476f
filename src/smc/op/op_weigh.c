/*
** op_weigh.c: the one place where weights and log-evidence change. Weights are carried normalised, so the evidence of
** an observation is the sum of old weights times what it multiplies them by, and no other 1/N enters:
**   L = logsumexp(log w + log_increment),   log w' = log w + log_increment - L,   log w = -log N after resampling.
** attr: before, resampled, zero_possible, step, plain; threshold.
*/
#include <math.h>
#include <stdio.h>
#include "smc_op.h"
#include "weigh.h"

enum { BEFORE, RESAMPLED, ZERO, STEP, PLAIN, INTS };

static bool same_lead(const pn_tensor *x, const pn_tensor *y) {
  bool same = x->ndim == y->ndim;
  for (int k = 1; same && k < x->ndim; k++) same = x->shape[k] == y->shape[k];
  return same;
}

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *x = call->in[0], *before = call->nin > 1 ? call->in[1] : NULL;
  char got[PNI_SHAPE_TEXT], other[PNI_SHAPE_TEXT];
  if (x->ndim < 1 || x->numel == 0)
    return pni_fail(c, PN_SHAPE, "%s must be [N] or [N, B...] with at least one particle, got %s",
                    call->attr->i[PLAIN] ? "resample: log_w" : "weigh: log_increment",
                    pni_shape_text(x->ndim, x->shape, got));
  *out = pni_spec_of(x);
  out->shape[0] = 2 * x->shape[0] + PNI_WEIGHED_ROWS;
  int64_t rows = call->attr->i[BEFORE] == PNI_BEFORE_WEIGHED ? out->shape[0] : x->shape[0];
  if (!before || (same_lead(x, before) && before->shape[0] == rows)) return PN_OK;
  int64_t shape[PN_MAX_DIMS];
  for (int k = 0; k < before->ndim; k++) shape[k] = before->shape[k];
  if (call->attr->i[BEFORE] == PNI_BEFORE_WEIGHED) shape[0] = pni_weighed_particles(before);
  return pni_fail(c, PN_SHAPE, "weigh: log_increment must have shape %s as the weights, got %s",
                  pni_shape_text(before->ndim, shape, other), pni_shape_text(x->ndim, x->shape, got));
}

/* ---- filters one after another, each with its particles adjacent ---- */

typedef struct {
  const pni_weigh_kernel *kernel;
  const pni_attr *attr;
  int64_t n, filters, blocks; /* blocks of a filter */
  size_t size;                /* of an element */
  bool in_double;
  const char *increment, *before; /* [filters, n], [filters, rows of `before`] */
  int64_t before_rows;
  char *out; /* [filters, 2 n + 3] */
  pni_weigh_part *part;
} job;

static double number(const job *j, const char *base, int64_t i) {
  return j->in_double ? ((const double *)(const void *)base)[i] : (double)((const float *)(const void *)base)[i];
}
static void set_number(const job *j, char *base, int64_t i, double v) {
  if (j->in_double)
    ((double *)(void *)base)[i] = v;
  else
    ((float *)(void *)base)[i] = (float)v;
}

/* The log-weights that filter f begins with, or NULL: all -log n. */
static const char *old_weights(const job *j, int64_t f) {
  if (!j->before) return NULL;
  const char *old = j->before + (size_t)(f * j->before_rows) * j->size;
  if (j->attr->i[BEFORE] == PNI_BEFORE_CARRIED || !j->attr->i[RESAMPLED]) return old;
  double size = number(j, old, 2 * j->n + PNI_WEIGHED_SIZE);
  return pni_is_due(size, j->attr->r[0], j->n) ? NULL : old;
}

static char *row_of(const job *j, int64_t f) { return j->out + (size_t)(f * (2 * j->n + PNI_WEIGHED_ROWS)) * j->size; }

/* Blocks first .. end - 1 of all filters' blocks. */
static void begin(void *data, int64_t first, int64_t end) {
  const job *j = data;
  for (int64_t k = first; k < end; k++) {
    int64_t f = k / j->blocks, at = k % j->blocks * PNI_WEIGH_BLOCK;
    int64_t n = j->n - at < PNI_WEIGH_BLOCK ? j->n - at : PNI_WEIGH_BLOCK;
    const char *old = old_weights(j, f);
    char *row = row_of(j, f);
    j->kernel->begin(j->increment + (size_t)(f * j->n + at) * j->size, old ? old + (size_t)at * j->size : NULL,
                     -log((double)j->n), n, row + (size_t)at * j->size, row + (size_t)(j->n + at) * j->size,
                     &j->part[k]);
  }
}

static void finish(void *data, int64_t first, int64_t end) {
  const job *j = data;
  for (int64_t k = first; k < end; k++) {
    int64_t f = k / j->blocks, at = k % j->blocks * PNI_WEIGH_BLOCK;
    int64_t n = j->n - at < PNI_WEIGH_BLOCK ? j->n - at : PNI_WEIGH_BLOCK;
    char *row = row_of(j, f);
    double shift = number(j, row, 2 * j->n + PNI_WEIGHED_INCREMENT);
    if (isfinite(shift))
      j->kernel->end(shift, exp(j->part[k].top - shift), n, row + (size_t)at * j->size,
                     row + (size_t)(j->n + at) * j->size);
    else
      for (int64_t i = at; i < at + n; i++) {
        set_number(j, row, i, -log((double)j->n));
        set_number(j, row, j->n + i, 1 / (double)j->n);
      }
  }
}

/* What the weights of filter f sum to, from its blocks: L, effective sample size and largest weight. Returns L, -inf
 * where all weights are 0. */
static double gather(const job *j, int64_t f) {
  const pni_weigh_part *p = j->part + f * j->blocks;
  char *row = row_of(j, f);
  double top = -INFINITY, sum = 0, square = 0, n = (double)j->n;
  for (int64_t b = 0; b < j->blocks; b++)
    if (!(p[b].sum == 0) && (p[b].top > top || isnan(p[b].sum))) top = p[b].top;
  for (int64_t b = 0; b < j->blocks; b++) {
    if (p[b].sum == 0) continue;
    double by = exp(p[b].top - top);
    sum += p[b].sum * by;
    square += p[b].square * by * by;
  }
  bool dead = sum == 0;
  double total = dead ? -INFINITY : top + log(sum);
  set_number(j, row, 2 * j->n + PNI_WEIGHED_INCREMENT, total);
  set_number(j, row, 2 * j->n + PNI_WEIGHED_SIZE, dead ? n : fmin(sum * sum / square, n));
  set_number(j, row, 2 * j->n + PNI_WEIGHED_LARGEST, dead ? 1 / n : 1 / sum);
  return total;
}

/* ---- failures ---- */

static pn_status fail(pn_context *c, const job *j, int64_t f, pn_status status, const char *what) {
  char at[64] = "", of[64] = "";
  if (j->attr->i[STEP]) snprintf(at, sizeof at, " at step %lld", (long long)j->attr->i[STEP]);
  if (j->filters > 1) snprintf(of, sizeof of, " of filter %lld", (long long)f + 1);
  const char *name = j->attr->i[PLAIN] ? "resample: log_w" : "weigh: log_increment";
  return pni_fail(c, status, "%s%s must %s%s", name, of, what, at);
}

/* Filter f has a sum that is no number, or infinite. */
static pn_status fail_at(pn_context *c, const job *j, int64_t f) {
  bool infinite = false, nan = false;
  for (int64_t i = 0; i < j->n; i++) {
    double v = number(j, j->increment + (size_t)(f * j->n) * j->size, i);
    infinite = infinite || v == INFINITY;
    nan = nan || isnan(v);
  }
  if (infinite && !nan) return fail(c, j, f, PN_DOMAIN, "be below +inf, got inf");
  return fail(c, j, f, PN_NAN, "be a number, got NaN");
}

static pn_status gather_all(pn_context *c, const job *j) {
  for (int64_t f = 0; f < j->filters; f++) {
    double total = gather(j, f);
    if (isfinite(total)) continue;
    if (total != -INFINITY) return fail_at(c, j, f);
    if (!j->attr->i[ZERO])
      return fail(c, j, f, PN_DEGENERATE, "leave a particle with a weight, got -inf for all that had one");
  }
  return PN_OK;
}

/* x [rows, filters] as [filters, rows], contiguous. New. */
static pn_tensor *by_filter(pn_context *c, const pn_tensor *x, int64_t filters) {
  pn_tensor *flat = pni_contiguous(c, x), *turned = NULL;
  if (!flat || filters == 1) return flat;
  pn_tensor *view = pni_tensor_alias(c, flat);
  if (view) {
    view->ndim = 2;
    view->shape[0] = filters;
    view->shape[1] = x->numel / filters;
    view->stride[0] = 1;
    view->stride[1] = filters;
    turned = pni_contiguous(c, view);
  }
  pn_tensor_unref(view);
  pn_tensor_unref(flat);
  return turned;
}

static pn_status run(pn_context *c, job *j) {
  int64_t blocks = pni_times(j->blocks, j->filters), grain = 2 + 4096 / (j->n + 1);
  j->part = pni_alloc_array(c, blocks, sizeof *j->part);
  if (j->part && pni_parallel(c, blocks, grain, begin, j) == PN_OK && gather_all(c, j) == PN_OK)
    pni_parallel(c, blocks, grain, finish, j);
  pni_free(c, j->part);
  return c->status;
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  int64_t n = call->in[0]->shape[0], filters = call->in[0]->numel / n;
  pn_tensor *x = by_filter(c, call->in[0], filters), *old = NULL, *to = NULL;
  if (x && call->nin > 1) old = by_filter(c, call->in[1], filters);
  if (filters > 1 && !pni_failed(c))
    to = pni_tensor_new(c, &(pni_spec){.dtype = out->dtype, .ndim = 2, .shape = {filters, out->shape[0]}});
  else
    to = pn_tensor_ref(out);
  if (!pni_failed(c)) {
    job j = {.kernel = out->dtype == PN_FLOAT64 ? &pni_weigh_f64 : &pni_weigh_f32,
             .attr = call->attr,
             .n = n,
             .filters = filters,
             .blocks = (n + PNI_WEIGH_BLOCK - 1) / PNI_WEIGH_BLOCK,
             .size = pni_itemsize(out),
             .in_double = out->dtype == PN_FLOAT64,
             .increment = pni_data(x),
             .before = old ? pni_data(old) : NULL,
             .before_rows = old ? old->numel / filters : 0,
             .out = pni_data(to)};
    if (run(c, &j) == PN_OK && filters > 1) {
      pn_tensor *view = pni_tensor_alias(c, to), *flat = view ? pni_tensor_alias(c, out) : NULL;
      if (flat) {
        view->shape[0] = flat->shape[0] = out->shape[0];
        view->shape[1] = flat->shape[1] = filters;
        view->stride[0] = 1;
        view->stride[1] = out->shape[0];
        flat->ndim = 2;
        flat->stride[1] = 1;
        pni_copy(c, flat, view);
      }
      pn_tensor_unref(view);
      pn_tensor_unref(flat);
    }
  }
  pn_tensor_unref(x);
  pn_tensor_unref(old);
  pn_tensor_unref(to);
  return c->status;
}

/* ---- gradient: with g the gradient of log w', h that of w', e that of L,
 *   d v = (g + w' h) - w' sum(g + w' h) + w' e, 0 where the weight is; v = log w + log_increment ---- */

static pn_tensor *rows_of(pn_context *c, pn_tensor *packed, int64_t first, int64_t count) {
  return pn_slice(c, packed, 0, first, count, 1);
}

static pn_tensor *of_sum(pn_context *c, pn_tensor *y, pn_tensor *g) {
  int64_t n = pni_weighed_particles(y);
  pn_tensor *log_w = rows_of(c, y, 0, n), *w = rows_of(c, y, n, n), *e = rows_of(c, g, 2 * n, 1);
  pn_tensor *own = pn_add(c, rows_of(c, g, 0, n), pn_mul(c, w, rows_of(c, g, n, n)));
  pn_tensor *zero = pni_like(c, y, 0), *dead = pn_eq(c, log_w, pni_like(c, y, -INFINITY));
  own = pn_where(c, dead, zero, own);
  pn_axes first = {1, {0}};
  pn_tensor *rest = pn_mul(c, w, pn_sub(c, e, pn_sum(c, own, first, 1)));
  /* an increment of -inf says nothing of its particles */
  pn_tensor *none = pn_eq(c, rows_of(c, y, 2 * n, 1), pni_like(c, y, -INFINITY));
  return pn_where(c, none, zero, pn_add(c, own, rest));
}

static pn_tensor *vjp(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  pn_tensor *v = of_sum(c, y, g);
  if (!v || k == 0 || y->attr->i[BEFORE] == PNI_BEFORE_CARRIED) return v;
  int64_t n = pni_weighed_particles(y);
  pn_tensor *old = pni_in(y, 1);
  if (y->attr->i[RESAMPLED]) {
    if (y->attr->r[0] >= 1) return pn_zeros(c, (pn_dtype)old->dtype, old->ndim, old->shape);
    pn_tensor *size = rows_of(c, pn_detach(c, old), 2 * n + PNI_WEIGHED_SIZE, 1);
    pn_tensor *due = pn_le(c, size, pni_like(c, old, y->attr->r[0] * (double)n));
    v = pn_where(c, due, pni_like(c, old, 0), v);
  }
  return pn_pad(c, v, 0, 0, n + PNI_WEIGHED_ROWS, 0);
}

pn_tensor *pni_weigh(pn_context *c, pn_tensor *log_increment, pn_tensor *before, const pni_weighing *how) {
  pni_attr a = {.ni = INTS,
                .i = {[BEFORE] = before ? how->before : PNI_BEFORE_EQUAL,
                      [RESAMPLED] = how->resampled,
                      [ZERO] = how->zero_possible,
                      [STEP] = how->step,
                      [PLAIN] = how->plain},
                .r = {how->threshold}};
  return pni_apply(c, &pni_smc_op_weigh, before ? 2 : 1, (pn_tensor *[]){log_increment, before}, &a);
}

const pni_op pni_smc_op_weigh = {.name = "weigh",
                                 .args = "log_increment:t before:t",
                                 .doc = "normalised log-weights, weights, increment of the log-evidence, effective "
                                        "sample size and largest weight, packed: [2 N + 3, B...]",
                                 .flags = PNI_OP_HIDDEN,
                                 .infer = infer,
                                 .eval = eval,
                                 .vjp = vjp};
