/*
** evaluate.c: what every distribution does the same way around the functions of its kind: shapes, dtypes, the
** guard against silent stretching, values outside the support, broadcasting, and moved axes.
*/
#include <math.h>
#include <string.h>
#include "distribution.h"
#include "kernel/inside.h"

pn_tensor *pni_dist_missing(pn_context *c, const pn_dist *d, const char *function) {
  static const char *const of_numbers[] = {"cdf", "icdf", "log_cdf", "log_survival"};
  bool numbers = false;
  for (int i = 0; i < 4; i++) numbers = numbers || strcmp(function, of_numbers[i]) == 0;
  if (d->moved && numbers)
    pni_fail(c, PN_MISSING, "%s: %s does not exist after independent", d->kind->name, function);
  else
    pni_fail(c, PN_MISSING, "%s: %s does not exist%s", d->kind->name, function,
             strcmp(function, "entropy") == 0 ? " (entropy_monte_carlo estimates it)" : "");
  return NULL;
}

pn_tensor *pni_dist_expand_to(pn_context *c, pn_tensor *t, int ndim, const int64_t *shape) {
  if (!t) return NULL;
  if (t->ndim == ndim && memcmp(t->shape, shape, (size_t)ndim * sizeof *shape) == 0) return t;
  return pn_broadcast_to(c, t, ndim, shape);
}

/* Sum over the last n axes. */
static pn_tensor *sum_last(pn_context *c, pn_tensor *t, int n) {
  if (!t || !n) return t;
  pn_axes axes = {.n = n};
  for (int i = 0; i < n; i++) axes.axis[i] = t->ndim - 1 - i;
  return pn_sum(c, t, axes, 0);
}

pn_tensor *pni_dist_sum_moved(pn_context *c, const pn_dist *d, pn_tensor *t) { return sum_last(c, t, d->moved); }

const pn_dist *pni_dist_in_double(pn_context *c, const pn_dist *d, pn_dist *room) {
  if (d->dtype == PN_FLOAT64) return d;
  *room = *d;
  room->dtype = PN_FLOAT64;
  room->flags |= PNI_DIST_ROUNDED;
  for (int k = 0; k < PNI_DIST_PARAMS; k++)
    if (d->param[k]) room->param[k] = pn_cast(c, d->param[k], PN_FLOAT64);
  return pni_failed(c) ? NULL : room;
}
/* What the functions of a kind are computed with. */
static const pn_dist *widened(pn_context *c, const pn_dist *d, pn_dist *room) {
  return d->kind->flags & PNI_DIST_IN_DOUBLE ? pni_dist_in_double(c, d, room) : d;
}
/* t in the dtype of d, if t was computed with another. */
static pn_tensor *narrowed(pn_context *c, const pn_dist *d, const pn_dist *in_double, pn_tensor *t) {
  return in_double == d || !t ? t : pn_cast(c, t, (pn_dtype)d->dtype);
}

/* ---- values: one for the whole distribution ---- */

#define VALUE(name, axes_in_result)                                                                                    \
  pn_tensor *pn_dist_##name(pn_context *c, const pn_dist *d) {                                                         \
    if (!PNI_GIVEN(c, "dist_" #name, d)) return NULL;                                                                  \
    if (!d->kind->name) return pni_dist_missing(c, d, #name);                                                          \
    pn_dist room;                                                                                                      \
    const pn_dist *in_double = widened(c, d, &room);                                                                   \
    pn_tensor *t = in_double ? narrowed(c, d, in_double, d->kind->name(c, in_double)) : NULL;                          \
    return pni_dist_expand_to(c, t, axes_in_result, d->shape);                                                         \
  }
VALUE(mean, d->batch_ndim + d->event_ndim)
VALUE(variance, d->batch_ndim + d->event_ndim)
VALUE(mode, d->batch_ndim + d->event_ndim)

pn_tensor *pn_dist_entropy(pn_context *c, const pn_dist *d) {
  if (!PNI_GIVEN(c, "dist_entropy", d)) return NULL;
  if (!d->kind->entropy) return pni_dist_missing(c, d, "entropy");
  pn_dist room;
  const pn_dist *in_double = widened(c, d, &room);
  pn_tensor *t = in_double ? narrowed(c, d, in_double, d->kind->entropy(c, in_double)) : NULL;
  t = pni_dist_expand_to(c, t, pni_dist_base_ndim(d), d->shape);
  return pni_dist_sum_moved(c, d, t);
}

pn_tensor *pn_dist_stddev(pn_context *c, const pn_dist *d) {
  if (!PNI_GIVEN(c, "dist_stddev", d)) return NULL;
  if (!d->kind->variance) return pni_dist_missing(c, d, "stddev");
  return pn_sqrt(c, pn_dist_variance(c, d));
}

/* ---- points: functions of a value ---- */

static pn_status refuse(pn_context *c, const pn_dist *d, const char *function, const pn_tensor *x, const char *why) {
  char a[PNI_SHAPE_TEXT], b[PNI_SHAPE_TEXT], e[PNI_SHAPE_TEXT];
  return pni_fail(c, PN_SHAPE, "%s: %s: x %s, got shape %s for batch %s and event %s", d->kind->name, function, why,
                  pni_shape_text(x->ndim, x->shape, a), pni_shape_text(d->batch_ndim, d->shape, b),
                  pni_shape_text(d->event_ndim, d->shape + d->batch_ndim, e));
}

/* Checks x against the guard; lead receives sample + base batch. */
static pn_status check_shape(pn_context *c, const pn_dist *d, const char *function, const pn_tensor *x,
                             pni_spec *lead) {
  int n = x->ndim - d->event_ndim, nb = d->batch_ndim;
  if (n < 0) return refuse(c, d, function, x, "must have the event's axes");
  for (int i = 0; i < d->event_ndim; i++)
    if (x->shape[n + i] != d->shape[nb + i]) return refuse(c, d, function, x, "must end with the event's sizes");
  lead->ndim = n > nb ? n : nb;
  for (int i = 1; i <= lead->ndim; i++) {
    int64_t a = i <= n ? x->shape[n - i] : -1, b = i <= nb ? d->shape[nb - i] : -1;
    lead->shape[lead->ndim - i] = a < 0 || (a == 1 && b >= 0) ? b : a;
    if (a < 0 || b < 0 || a == b) continue;
    if (a == 1)
      return refuse(c, d, function, x, "would be stretched along an axis of size 1 (say so with :broadcast_to)");
    if (b != 1) return refuse(c, d, function, x, "must broadcast with the batch");
    if (n < nb) return refuse(c, d, function, x, "has fewer axes than the batch and differs from it");
  }
  for (int i = 0; i < d->moved; i++) lead->shape[lead->ndim++] = d->shape[nb + i];
  return PN_OK;
}

/* x as the kind's functions take it. */
static pn_tensor *convert(pn_context *c, const pn_dist *d, const char *function, pn_tensor *x) {
  int want = d->flags & PNI_DIST_INTEGER ? PN_INT64 : d->dtype;
  if (x->dtype == want) return x;
  if (want == PN_INT64 || !pni_is_float(x)) return pn_cast(c, x, (pn_dtype)want);
  pni_fail(c, PN_DTYPE, "%s: %s: x must be %s as the parameters are, got %s (convert with :to)", d->kind->name,
           function, pn_dtype_name((pn_dtype)d->dtype), pn_dtype_name((pn_dtype)x->dtype));
  return NULL;
}

/* x for the parts of a composite, which know their own batch and not what it was expanded to: one with fewer axes than
 * the batch of the whole gets them all. */
static pn_tensor *for_parts(pn_context *c, const pn_dist *d, pn_tensor *x, const pni_spec *lead) {
  int rank = pni_dist_kind_event_ndim(d);
  if (!x || !d->nparts || x->ndim - rank >= lead->ndim) return x;
  pni_spec whole = *lead;
  for (int i = 0; i < rank; i++) whole.shape[whole.ndim++] = x->shape[x->ndim - rank + i];
  return pni_dist_expand_to(c, x, whole.ndim, whole.shape);
}

/* A capture does not know what later calls bring: then a mask that varies may be anything. */
static bool unknown(const pn_context *c, const pn_tensor *t) { return c->recorder && pni_varies(c, t); }

static bool all_true(const pn_context *c, const pn_tensor *mask) {
  if (unknown(c, mask)) return false;
  return !mask->numel || !memchr(pni_data(mask), 0, (size_t)mask->numel);
}

static bool any_true(const pn_tensor *mask) {
  for (int64_t i = 0; i < mask->numel; i++)
    if (pni_element(mask, i) != 0) return true;
  return false;
}

/* Axes of an event over which its set repeats: those of a composite may have more than the set. */
static int repeats(const pn_dist *d) { return pni_dist_kind_event_ndim(d) - d->support->rank; }

static pn_tensor *all_last(pn_context *c, pn_tensor *mask, int n) {
  pn_axes axes = {.n = n};
  for (int i = 0; i < n; i++) axes.axis[i] = -1 - i;
  return mask && n > 0 ? pn_all(c, mask, axes, 0) : mask;
}

/* Which values are inside; NULL with no failure pending if all are. */
static pn_tensor *outside(pn_context *c, const pn_dist *d, pn_tensor *x) {
  if (d->flags & PNI_DIST_TOTAL || (d->kind->total && d->kind->total(d))) return NULL;
  if (!d->kind->in_support && !unknown(c, x) && pni_constraint_all(d->support, x)) return NULL;
  int old = pn_set_no_grad(c, 1);
  pn_tensor *mask = d->kind->in_support ? d->kind->in_support(c, d, x)
                                        : all_last(c, pni_constraint_mask(c, d->support, x), repeats(d));
  mask = mask ? pn_contiguous(c, mask) : NULL;
  pn_set_no_grad(c, old);
  return mask && !all_true(c, mask) ? mask : NULL;
}

/* May gradients flow through the density of x? */
static bool differentiated(const pn_context *c, const pn_dist *d, const pn_tensor *x) {
  bool any = x->flags & PNI_REQUIRES_GRAD;
  for (int k = 0; k < PNI_DIST_PARAMS; k++) any |= d->param[k] && d->param[k]->flags & PNI_REQUIRES_GRAD;
  return any && !c->no_grad;
}

/* Log density where some values are outside: these are replaced by a member before the formula and the
 * result by -inf (NaN for NaN) after it, so that neither values nor gradients see them. Formulas of real numbers
 * without gradients take any number. */
static pn_tensor *masked_log_prob(pn_context *c, const pn_dist *d, pn_tensor *raw, pn_tensor *mask) {
  int rank = pni_dist_kind_event_ndim(d);
  pn_tensor *x = convert(c, d, "log_prob", raw), *safe = x;
  if (!x) return NULL;
  if (rank || d->support->discrete || !pni_is_float(x) || d->nparts || d->map || differentiated(c, d, x)) {
    const int64_t *size = d->shape + pni_dist_base_ndim(d) + repeats(d);
    pn_tensor *member = pni_constraint_member(c, d->support, (pn_dtype)x->dtype, size);
    safe = rank ? pni_inside_rows(c, mask, x, member, rank) : pn_where(c, mask, x, member);
  }
  pn_tensor *lp = d->kind->log_prob(c, d, safe);
  /* raw, as x may be whole numbers, which know no NaN */
  return rank ? pni_inside_row_density(c, mask, lp, raw, rank) : pni_where_inside(c, lp, mask, raw);
}

/* ---- validation ---- */

/* Supports with ends of their own: the first value of x where mask is false is named. attr: the kind. */
static pn_status refuse_outside(pn_context *c, const pni_distribution *kind, const pn_tensor *mask,
                                const pn_tensor *x) {
  int64_t i = 0;
  const uint8_t *inside = pni_data(mask);
  while (i < mask->numel && inside[i]) i++;
  if (i == mask->numel) return PN_OK;
  if (x->ndim != mask->ndim || x->numel != mask->numel)
    return pni_fail(c, PN_DOMAIN, "%s: x must be %s", kind->name, kind->support->must);
  return pni_fail(c, PN_DOMAIN, "%s: x must be %s, got %.7g", kind->name, kind->support->must, pni_element(x, i));
}

static pn_status infer_refuse(pn_context *c, const pni_call *call, pni_spec *out) {
  *out = (pni_spec){.dtype = PN_BOOL};
  return pni_require_axes(c, call, "*:b *");
}

static pn_status eval_refuse(pn_context *c, const pni_call *call, pn_tensor *out) {
  pn_tensor *mask = pni_contiguous(c, call->in[0]);
  *(uint8_t *)pni_data(out) = 1;
  if (mask) refuse_outside(c, (const pni_distribution *)(intptr_t)call->attr->i[0], mask, call->in[1]);
  pn_tensor_unref(mask);
  return c->status;
}

static const pni_op require_support = {.name = "require_support",
                                       .flags = PNI_OP_ANY_DTYPE | PNI_OP_NODIFF | PNI_OP_HIDDEN | PNI_OP_CHECK,
                                       .infer = infer_refuse,
                                       .eval = eval_refuse};

static pn_status require_inside(pn_context *c, const pn_dist *d, pn_tensor *x, const pni_spec *lead) {
  if (!d->kind->in_support) return pni_constraint_require(c, d->support, d->kind->name, "x", x);
  int old = pn_set_no_grad(c, 1), rank = pni_dist_kind_event_ndim(d);
  pn_tensor *mask = pn_contiguous(c, pni_dist_expand_to(c, d->kind->in_support(c, d, x), lead->ndim, lead->shape));
  pn_tensor *expanded = rank ? x : pn_contiguous(c, pni_dist_expand_to(c, x, lead->ndim, lead->shape));
  if (mask && expanded)
    pni_apply(c, &require_support, 2, (pn_tensor *[]){mask, expanded},
              &(pni_attr){.ni = 1, .i = {(int64_t)(intptr_t)d->kind}});
  pn_set_no_grad(c, old);
  return c->status;
}

/* A mass is -inf between the points that have one: log p has no slope in x, whatever the formula's own in real numbers,
 * which differs with the way the parameters are given. */
pn_tensor *pn_dist_log_prob(pn_context *c, const pn_dist *d, pn_tensor *x) {
  pni_spec lead;
  if (!PNI_GIVEN(c, "dist_log_prob", d, x) || check_shape(c, d, "log_prob", x, &lead)) return NULL;
  x = for_parts(c, d, d->flags & PNI_DIST_DISCRETE ? pn_detach(c, x) : x, &lead);
  if (!x) return NULL;
  pn_tensor *y = d->flags & PNI_DIST_INTEGER ? x : convert(c, d, "log_prob", x);
  bool validate = c->validate; /* of this distribution alone, not of what it is made of */
  if (y && (d->validate ? d->validate > 0 : validate) && require_inside(c, d, y, &lead)) return NULL;
  c->validate = false;
  pn_tensor *mask = y ? outside(c, d, y) : NULL, *lp = NULL;
  int moved = d->moved;
  if (!mask && moved && !pni_failed(c) && d->kind->log_prob_rows && (lp = d->kind->log_prob_rows(c, d, y))) {
    moved--;
    lead.ndim--;
  } else if (!pni_failed(c)) {
    lp = mask ? masked_log_prob(c, d, x, mask) : d->kind->log_prob(c, d, convert(c, d, "log_prob", y));
  }
  c->validate = validate;
  return sum_last(c, pni_dist_expand_to(c, lp, lead.ndim, lead.shape), moved);
}

typedef pn_tensor *(*point)(pn_context *c, const pn_dist *d, pn_tensor *x);

static pn_tensor *at_point(pn_context *c, const pn_dist *d, pn_tensor *x, const char *name, point f) {
  pni_spec lead;
  if (!d || !x || pni_failed(c)) return NULL;
  if (!f || d->moved) return pni_dist_missing(c, d, name);
  if (check_shape(c, d, name, x, &lead)) return NULL;
  x = for_parts(c, d, x, &lead);
  if (x && !pni_is_float(x)) x = pn_cast(c, x, (pn_dtype)d->dtype);
  if (x && x->dtype != d->dtype) x = convert(c, d, name, x);
  if (!x) return NULL;
  pn_dist room;
  const pn_dist *in_double = widened(c, d, &room);
  if (!in_double) return NULL;
  pn_tensor *at = in_double == d ? x : pn_cast(c, x, PN_FLOAT64), *nan = pn_isnan(c, x);
  pn_tensor *y = at ? narrowed(c, d, in_double, f(c, in_double, at)) : NULL;
  if (!y || !nan) return NULL;
  if (unknown(c, nan) || any_true(nan)) y = pn_where(c, nan, pni_like(c, y, NAN), y);
  return pni_dist_expand_to(c, y, lead.ndim, lead.shape);
}

/* Is an element at or beyond an end of [low, high]? */
static bool reaches(const pn_context *c, const pn_tensor *x, double low, double high) {
  if (unknown(c, x)) return true;
  const double *v = x->dtype == PN_FLOAT64 ? pni_data(x) : NULL;
  const float *w = v ? NULL : pni_data(x);
  for (int64_t i = 0; i < x->numel; i++) {
    double e = v ? v[i] : (double)w[i];
    if (e <= low || e >= high) return true;
  }
  return false;
}

/* The distribution function between the ends of the support; 0 below and 1 above, where its slope is 0. */
static pn_tensor *cdf_between(pn_context *c, const pn_dist *d, pn_tensor *x) {
  double low = d->support->low, high = d->support->high;
  pn_tensor *flat = low < high ? pn_contiguous(c, x) : NULL;
  if (!flat || !reaches(c, flat, low, high)) return flat || low >= high ? d->kind->cdf(c, d, x) : NULL;
  pn_tensor *under = pn_le(c, x, pni_like(c, x, low)), *over = pn_ge(c, x, pni_like(c, x, high));
  pn_tensor *member = pni_constraint_member(c, d->support, (pn_dtype)x->dtype, NULL);
  pn_tensor *inner = d->kind->cdf(c, d, pn_where(c, pn_logical_or(c, under, over), member, x));
  return pn_where(c, under, pni_like(c, x, 0), pn_where(c, over, pni_like(c, x, 1), inner));
}

pn_tensor *pn_dist_cdf(pn_context *c, const pn_dist *d, pn_tensor *x) {
  if (!PNI_GIVEN(c, "dist_cdf", d, x)) return NULL;
  return at_point(c, d, x, "cdf", d && d->kind->cdf ? cdf_between : NULL);
}

/* log F or log(1 - F) by the kind's own function, or from F; 0 and -inf beyond the ends of the support and where F is 0
 * or 1 to all digits, without slope there. */
static pn_tensor *log_part(pn_context *c, const pn_dist *d, pn_tensor *x, bool upper) {
  const pni_distribution *kind = d->kind;
  if (upper ? kind->log_survival != NULL : kind->log_cdf != NULL)
    return (upper ? kind->log_survival : kind->log_cdf)(c, d, x);
  pn_tensor *f = kind->cdf(c, d, x), *edge = pn_eq(c, f, pni_like(c, f, upper ? 1 : 0));
  pn_tensor *safe = pn_where(c, edge, pni_like(c, f, 0.5), f);
  pn_tensor *t = upper ? pn_log1p(c, pn_neg(c, safe)) : pn_log(c, safe);
  return pn_where(c, edge, pni_like(c, f, -INFINITY), t);
}

static pn_tensor *log_between(pn_context *c, const pn_dist *d, pn_tensor *x, bool upper) {
  double low = d->support->low, high = d->support->high;
  pn_tensor *flat = low < high ? pn_contiguous(c, x) : NULL;
  if (!flat || !reaches(c, flat, low, high)) return flat || low >= high ? log_part(c, d, x, upper) : NULL;
  pn_tensor *under = pn_le(c, x, pni_like(c, x, low)), *over = pn_ge(c, x, pni_like(c, x, high));
  pn_tensor *member = pni_constraint_member(c, d->support, (pn_dtype)x->dtype, NULL);
  pn_tensor *inner = log_part(c, d, pn_where(c, pn_logical_or(c, under, over), member, x), upper);
  pn_tensor *left = pni_like(c, x, upper ? 0 : -INFINITY), *right = pni_like(c, x, upper ? -INFINITY : 0);
  return pn_where(c, under, left, pn_where(c, over, right, inner));
}

static pn_tensor *log_lower(pn_context *c, const pn_dist *d, pn_tensor *x) { return log_between(c, d, x, false); }
static pn_tensor *log_upper(pn_context *c, const pn_dist *d, pn_tensor *x) { return log_between(c, d, x, true); }

pn_tensor *pn_dist_log_cdf(pn_context *c, const pn_dist *d, pn_tensor *x) {
  if (!PNI_GIVEN(c, "dist_log_cdf", d, x)) return NULL;
  return at_point(c, d, x, "log_cdf", d && d->kind->cdf ? log_lower : NULL);
}

pn_tensor *pn_dist_log_survival(pn_context *c, const pn_dist *d, pn_tensor *x) {
  if (!PNI_GIVEN(c, "dist_log_survival", d, x)) return NULL;
  return at_point(c, d, x, "log_survival", d && d->kind->cdf ? log_upper : NULL);
}

/* Quantiles between 0 and 1; at 0 and 1 those that are ends of a fixed support have no slope. */
static pn_tensor *quantile_between(pn_context *c, const pn_dist *d, pn_tensor *p) {
  double low = d->support->low, high = d->support->high;
  pn_tensor *flat = low < high ? pn_contiguous(c, p) : NULL;
  if (!flat || !reaches(c, flat, 0, 1)) return flat || low >= high ? d->kind->icdf(c, d, p) : NULL;
  pn_tensor *zero = pn_eq(c, p, pni_like(c, p, 0)), *one = pn_eq(c, p, pni_like(c, p, 1));
  int old = pn_set_no_grad(c, 1);
  pn_tensor *x = d->kind->icdf(c, d, p);
  pn_set_no_grad(c, old);
  pn_tensor *left = pn_logical_and(c, zero, pn_eq(c, x, pni_like(c, x, low)));
  pn_tensor *right = pn_logical_and(c, one, pn_eq(c, x, pni_like(c, x, high)));
  pn_tensor *ends = pn_logical_or(c, left, right);
  return pn_where(c, ends, x, d->kind->icdf(c, d, pn_where(c, ends, pni_like(c, p, 0.5), p)));
}

/* The quantile of a probability; NaN of anything else. */
static pn_tensor *quantile(pn_context *c, const pn_dist *d, pn_tensor *p) {
  pn_tensor *zero = pni_like(c, p, 0), *one = pni_like(c, p, 1);
  pn_tensor *inside = pn_logical_and(c, pn_ge(c, p, zero), pn_le(c, p, one));
  inside = inside ? pn_contiguous(c, inside) : NULL;
  if (!inside || all_true(c, inside)) return inside ? quantile_between(c, d, p) : NULL;
  pn_tensor *x = quantile_between(c, d, pn_where(c, inside, p, pni_like(c, p, 0.5)));
  return pn_where(c, inside, x, pni_like(c, p, NAN));
}

pn_tensor *pn_dist_icdf(pn_context *c, const pn_dist *d, pn_tensor *p) {
  if (!PNI_GIVEN(c, "dist_icdf", d, p)) return NULL;
  return at_point(c, d, p, "icdf", d && d->kind->icdf ? quantile : NULL);
}

/* ---- draws ---- */

static pn_status draw_shape(pn_context *c, const pn_dist *d, const char *function, int ndim, const int64_t *shape,
                            pni_spec *out) {
  int own = d->batch_ndim + d->event_ndim;
  if (!pni_shape_given(c, function, ndim, shape)) return c->status;
  if (ndim + own > PN_MAX_DIMS)
    return pni_fail(c, PN_SHAPE, "%s: %s: at most %d axes are possible, got %d", d->kind->name, function, PN_MAX_DIMS,
                    ndim + own);
  for (int i = 0; i < ndim; i++)
    if (shape[i] < 0)
      return pni_fail(c, PN_SHAPE, "%s: %s: size must not be negative, got %lld", d->kind->name, function,
                      (long long)shape[i]);
  *out = (pni_spec){.dtype = d->flags & PNI_DIST_INTEGER ? PN_INT64 : d->dtype, .ndim = ndim + own};
  for (int i = 0; i < out->ndim; i++) out->shape[i] = i < ndim ? shape[i] : d->shape[i - ndim];
  return PN_OK;
}

pn_tensor *pn_dist_sample(pn_context *c, const pn_dist *d, pn_rng *rng, int ndim, const int64_t *shape) {
  pni_spec out;
  if (!PNI_GIVEN(c, "dist_sample", d) || draw_shape(c, d, "sample", ndim, shape, &out)) return NULL;
  int old = pn_set_no_grad(c, 1);
  pn_tensor *t = (d->kind->sample ? d->kind->sample : d->kind->rsample)(c, d, rng, &out);
  t = pni_dist_expand_to(c, t, out.ndim, out.shape);
  pn_set_no_grad(c, old);
  return t;
}

pn_tensor *pn_dist_rsample(pn_context *c, const pn_dist *d, pn_rng *rng, int ndim, const int64_t *shape) {
  pni_spec out;
  if (!PNI_GIVEN(c, "dist_rsample", d)) return NULL;
  if (!d->kind->rsample) {
    pni_fail(c, PN_MISSING, "%s: rsample does not exist: its draws have no derivative in the parameters",
             d->kind->name);
    return NULL;
  }
  if (draw_shape(c, d, "rsample", ndim, shape, &out)) return NULL;
  return pni_dist_expand_to(c, d->kind->rsample(c, d, rng, &out), out.ndim, out.shape);
}

pn_tensor *pn_dist_rsample_log_prob(pn_context *c, const pn_dist *d, pn_rng *rng, int ndim, const int64_t *shape,
                                    pn_tensor **log_prob) {
  if (!PNI_GIVEN(c, "dist_rsample_log_prob", d, log_prob)) return NULL;
  pni_spec out;
  *log_prob = NULL;
  if (!d->kind->rsample_with) {
    pn_tensor *x = pn_dist_rsample(c, d, rng, ndim, shape);
    *log_prob = pn_dist_log_prob(c, d, x);
    return *log_prob ? x : NULL;
  }
  if (draw_shape(c, d, "rsample_log_prob", ndim, shape, &out)) return NULL;
  pn_tensor *lp, *x = d->kind->rsample_with(c, d, rng, &out, &lp);
  x = pni_dist_expand_to(c, x, out.ndim, out.shape);
  int lead = out.ndim - pni_dist_kind_event_ndim(d);
  *log_prob = pni_dist_sum_moved(c, d, pni_dist_expand_to(c, lp, lead, out.shape));
  return *log_prob ? x : NULL;
}
