/*
** mixture.c: a label k by weights w, then x from component k,
**   p(x) = sum_k w_k p_k(x),  mean = sum_k w_k m_k,  variance = sum_k w_k (v_k + (m_k - mean)^2),  cdf = sum_k w_k F_k
** Quantiles are found by Newton's steps between the components' quantiles, halving where they do not help.
** Components are the last batch axis of one distribution (same family) or a list of distributions. Part 0 is the
** categorical law of the labels. For numbers with a cdf draws are differentiable implicitly,
**   dx = -dF(x) / p(x)  at fixed x (Figurnov, Mohamed & Mnih 2018).
*/
#include <string.h>
#include "../formula.h"
#include "composite.h"

enum { LABELS, FIRST };

static bool joint(D *d) { return d->nparts == FIRST + 1; }
static int components(D *d) {
  const pn_dist *p = d->part[FIRST];
  return joint(d) ? (int)p->shape[p->batch_ndim - 1] : d->nparts - FIRST;
}

/* log w [own batch of the labels, K], normalised; a weight of 0 has gradient 0 */
static T *log_weights(C *c, D *d) {
  enum { PROBS };
  D *labels = d->part[LABELS];
  if (!pni_dist_given(labels, PROBS)) return pn_log_softmax(c, pn_dist_param(c, labels, "logits"), -1);
  T *w = labels->param[PROBS], *none = equals(c, w, 0);
  return but(c, none, -INFINITY, pn_log(c, but(c, none, 1, w)));
}
static T *weights(C *c, D *d) { return pn_dist_param(c, d->part[LABELS], "probs"); }

/* ---- values of all components: [sample, batch, K, event] out of functions of one ---- */

/* x with an axis for the components before its event */
static T *repeated(C *c, D *d, T *x) {
  int rank = pni_dist_kind_event_ndim(d);
  T *t = pn_unsqueeze(c, x, -1 - rank);
  if (!t) return NULL;
  int64_t shape[PN_MAX_DIMS];
  memcpy(shape, t->shape, sizeof shape);
  shape[t->ndim - 1 - rank] = components(d);
  return pn_broadcast_to(c, t, t->ndim, shape);
}

typedef T *(*of_point)(C *c, D *d, T *x);
typedef T *(*of_dist)(C *c, D *d);

/* Results of n parts side by side along `axis`, broadcast with each other. */
static T *side_by_side(C *c, int n, T **part, int axis) {
  pni_spec s = {.ndim = 0};
  for (int k = 0; k < n; k++) {
    if (!part[k]) return NULL;
    if (pni_composite_widen(c, "mixture", &s, part[k]->ndim, part[k]->shape)) return NULL;
  }
  for (int k = 0; k < n; k++) part[k] = pni_dist_expand_to(c, part[k], s.ndim, s.shape);
  return pn_stack(c, n, part, axis);
}

/* f(component, x) [sample, batch, K] */
static T *at_points(C *c, D *d, T *x, of_point f) {
  if (joint(d)) return f(c, d->part[FIRST], repeated(c, d, x));
  T *each[PNI_OP_INPUTS];
  for (int k = 0; k < components(d); k++) each[k] = f(c, d->part[FIRST + k], x);
  return side_by_side(c, components(d), each, -1);
}

/* f(component) [batch, K, event] */
static T *of_components(C *c, D *d, of_dist f) {
  if (joint(d)) return f(c, d->part[FIRST]);
  T *each[PNI_OP_INPUTS];
  for (int k = 0; k < components(d); k++) each[k] = f(c, d->part[FIRST + k]);
  return side_by_side(c, components(d), each, -1 - pni_dist_kind_event_ndim(d));
}

/* sum_k w_k v_k, v [batch, K, event] */
static T *average(C *c, D *d, T *v) {
  int rank = pni_dist_kind_event_ndim(d);
  T *w = weights(c, d);
  for (int i = 0; i < rank; i++) w = pn_unsqueeze(c, w, -1);
  return pn_sum(c, pn_mul(c, w, v), (pn_axes){1, {-1 - rank}}, 0);
}

/* ---- functions ---- */

static T *log_prob(C *c, D *d, T *x) {
  return pn_logsumexp(c, pn_add(c, log_weights(c, d), at_points(c, d, x, pn_dist_log_prob)), LAST, 0);
}

static T *cdf(C *c, D *d, T *x) {
  if (pni_dist_kind_event_ndim(d)) return pni_dist_missing(c, d, "cdf");
  return pn_sum(c, pn_mul(c, weights(c, d), at_points(c, d, x, pn_dist_cdf)), LAST, 0);
}

static T *log_part(C *c, D *d, T *x, const char *function, of_point f) {
  if (pni_dist_kind_event_ndim(d)) return pni_dist_missing(c, d, function);
  return pn_logsumexp(c, pn_add(c, log_weights(c, d), at_points(c, d, x, f)), LAST, 0);
}

static T *log_cdf(C *c, D *d, T *x) { return log_part(c, d, x, "log_cdf", pn_dist_log_cdf); }
static T *log_survival(C *c, D *d, T *x) { return log_part(c, d, x, "log_survival", pn_dist_log_survival); }

/* ---- quantiles: between the least and the greatest of the components' ---- */

/* Where the search stands: F(low) < p <= F(high), the point between and the last step, all [sample, batch]. */
typedef struct {
  T *p, *low, *high, *x, *step;
} search;

/* log F(x) - log p, or for the upper half log(1 - p) - log(1 - F(x)): rises, 0 at the quantile; and its slope */
static T *excess(C *c, D *d, T *p, T *x, T **slope) {
  T *upper = above(c, p, 0.5), *share = pn_where(c, upper, log_survival(c, d, x), log_cdf(c, d, x));
  T *want = pn_log(c, pn_where(c, upper, from(c, 1, p), p));
  *slope = pn_exp(c, pn_sub(c, log_prob(c, d, x), share));
  T *g = pn_sub(c, share, want);
  return pn_where(c, upper, pn_neg(c, g), g);
}

/* Half way; by orders of magnitude between ends of one sign that differ in them. */
static T *middle_of(C *c, const search *s) {
  T *low = pn_abs(c, s->low), *high = pn_abs(c, s->high),
    *one_sign = above(c, pn_mul(c, pn_sign(c, s->low), pn_sign(c, s->high)), 0);
  T *apart = pn_gt(c, pn_maximum(c, low, high), times(c, pn_minimum(c, low, high), 8));
  T *geometric = pn_mul(c, pn_sign(c, s->high), pn_mul(c, pn_sqrt(c, low), pn_sqrt(c, high)));
  T *plain = pn_add(c, times(c, s->low, 0.5), times(c, s->high, 0.5));
  return pn_where(c, pn_logical_and(c, one_sign, apart), geometric, plain);
}

/* Newton's step where it stays inside and is at most half of the one before, else the middle. */
static void advance(C *c, D *d, search *s) {
  T *slope, *g = excess(c, d, s->p, s->x, &slope), *reached = pn_ge(c, g, pni_like(c, g, 0));
  s->high = pn_where(c, reached, s->x, s->high);
  s->low = pn_where(c, reached, s->low, s->x);
  T *newton = pn_sub(c, s->x, pn_div(c, g, slope));
  T *inside = pn_logical_and(c, pn_ge(c, newton, s->low), pn_le(c, newton, s->high));
  T *fast = pn_le(c, pn_abs(c, times(c, g, 2)), pn_abs(c, pn_mul(c, s->step, slope)));
  T *middle = middle_of(c, s);
  T *next = pn_where(c, pn_logical_and(c, inside, fast), newton, middle);
  s->step = pn_sub(c, next, s->x);
  s->x = next;
}

static bool settled(C *c, const search *s, double ulp) {
  size_t mark = pn_scope_open(c);
  T *all = pn_all(c, pn_le(c, pn_abs(c, s->step), times(c, pn_abs(c, s->x), ulp)), PN_ALL, 0);
  bool done = !all || (!(c->recorder && pni_varies(c, all)) && pni_element(all, 0) != 0);
  pn_scope_close(c, mark);
  return done;
}

/* Whole numbers: halving alone, down to neighbours. */
static void halve(C *c, D *d, search *s) {
  T *middle = pn_floor(c, pn_add(c, times(c, s->low, 0.5), times(c, s->high, 0.5)));
  T *reached = pn_ge(c, cdf(c, d, middle), s->p);
  T *open = above(c, pn_sub(c, s->high, s->low), 1);
  T *high = pn_where(c, pn_logical_and(c, open, reached), middle, s->high);
  s->low = pn_where(c, pn_logical_and(c, open, pn_logical_not(c, reached)), middle, s->low);
  s->step = pn_sub(c, s->high, s->low);
  s->high = s->x = high;
}

/* One step; of what it makes only the state stays. */
static void step_in_scope(C *c, D *d, search *s, bool whole) {
  size_t mark = pn_scope_open(c);
  (whole ? halve : advance)(c, d, s);
  T **state[4] = {&s->low, &s->high, &s->x, &s->step};
  bool made = !pni_failed(c) && s->low && s->high && s->x && s->step;
  for (int k = 0; k < 4 && made; k++) pn_tensor_ref(*state[k]);
  pn_scope_close(c, mark);
  for (int k = 0; k < 4 && made; k++) pni_scoped(c, *state[k]);
}

/* [sample, batch]: the least or greatest of the components' quantiles */
static T *end(C *c, D *d, T *p, bool high) {
  T *each = at_points(c, d, p, pn_dist_icdf), *unused = equals(c, weights(c, d), 0);
  each = but(c, unused, high ? -INFINITY : INFINITY, each);
  return (high ? pn_max : pn_min)(c, each, LAST, 0);
}

static T *find_quantile(C *c, D *d, T *p, bool whole) {
  enum { EAGER = 300, PLANNED = 64 };
  double ulp = 4 * (d->dtype == PN_FLOAT64 ? DBL_EPSILON : (double)FLT_EPSILON);
  T *first = equals(c, p, 0), *last = equals(c, p, 1), *edge = pn_logical_or(c, first, last);
  T *inner = but(c, edge, 0.5, p), *low = end(c, d, inner, false), *high = end(c, d, inner, true);
  search s = {.p = inner, .low = whole ? plus(c, low, -1) : low, .high = high};
  s.x = whole ? high : pn_add(c, times(c, low, 0.5), times(c, high, 0.5));
  s.step = pn_sub(c, high, low);
  int limit = c->recorder ? PLANNED : EAGER;
  for (int i = 0; i < limit && !pni_failed(c); i++) {
    step_in_scope(c, d, &s, whole);
    if (whole ? i > 0 && settled(c, &(search){.step = plus(c, s.step, -1), .x = s.step}, 0) : settled(c, &s, ulp))
      break;
  }
  T *at_end = pn_where(c, first, end(c, d, pn_mul(c, p, pni_like(c, p, 0)), false),
                       end(c, d, plus(c, pn_mul(c, p, pni_like(c, p, 0)), 1), true));
  return pn_where(c, edge, at_end, s.x);
}

/* The slopes of a density are implicit: dx = (dp - dF) / p(x). */
static T *icdf(C *c, D *d, T *p) {
  const pni_constraint *k = d->support;
  bool whole = (d->flags & PNI_DIST_DISCRETE) != 0;
  bool counts = k == &pni_constraint_boolean || k == &pni_constraint_trials || k == &pni_constraint_nonnegative_integer;
  if (pni_dist_kind_event_ndim(d) || (whole && !counts)) return pni_dist_missing(c, d, "icdf");
  int old = pn_set_no_grad(c, 1);
  T *x = find_quantile(c, d, p, whole);
  if (whole || !x || old) {
    pn_set_no_grad(c, old);
    return x;
  }
  T *inside = pn_isfinite(c, x), *density = pn_exp(c, log_prob(c, d, only(c, inside, x, 0)));
  T *sloped = pn_logical_and(c, inside, above(c, density, 0));
  pn_set_no_grad(c, old);
  T *f = cdf(c, d, only(c, inside, x, 0)),
    *off = pn_sub(c, pn_sub(c, p, pn_detach(c, p)), pn_sub(c, f, pn_detach(c, f)));
  return pn_add(c, x, only(c, sloped, pn_div(c, off, only(c, sloped, density, 1)), 0));
}

static T *mean(C *c, D *d) { return average(c, d, of_components(c, d, pn_dist_mean)); }

static T *variance(C *c, D *d) {
  int rank = pni_dist_kind_event_ndim(d);
  T *m = of_components(c, d, pn_dist_mean);
  T *apart = pn_sub(c, m, pn_unsqueeze(c, average(c, d, m), -1 - rank));
  return average(c, d, pn_add(c, of_components(c, d, pn_dist_variance), pn_square(c, apart)));
}

/* ---- draws ---- */

/* Draws of every component [sample, batch, K, event]. */
static T *draw_all(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  if (joint(d)) return pni_composite_draw(c, d, FIRST, 1, rng, out, false);
  T *each[PNI_OP_INPUTS];
  for (int k = 0; k < components(d); k++) each[k] = pni_composite_draw(c, d, FIRST + k, 0, rng, out, false);
  return side_by_side(c, components(d), each, -1 - pni_dist_kind_event_ndim(d));
}

static T *sample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  int rank = pni_dist_kind_event_ndim(d), nb = pni_dist_base_ndim(d);
  pni_spec labels = *out;
  labels.ndim -= rank;
  pn_dist *expanded = pn_dist_expand(c, d->part[LABELS], nb, d->shape);
  T *k = pn_dist_sample(c, expanded, rng, labels.ndim - nb, out->shape);
  pn_dist_unref(expanded);
  T *all = draw_all(c, d, rng, out);
  if (!k || !all) return NULL;
  for (int i = 0; i <= rank; i++) k = pn_unsqueeze(c, k, -1);
  int64_t shape[PN_MAX_DIMS];
  memcpy(shape, all->shape, sizeof shape);
  shape[all->ndim - 1 - rank] = 1;
  k = k ? pn_broadcast_to(c, k, all->ndim, shape) : NULL;
  return pn_squeeze(c, pn_gather(c, all, -1 - rank, k), -1 - rank);
}

/* x - (F(x) - value of F(x)) / p(x): the value is x, the slope is the implicit one. */
static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  if (pni_dist_kind_event_ndim(d) || (d->flags & PNI_DIST_DISCRETE)) {
    pni_fail(c, PN_MISSING, "mixture: rsample does not exist: components must be densities of numbers with a cdf");
    return NULL;
  }
  int old = pn_set_no_grad(c, 1);
  T *x = sample(c, d, rng, out), *density = pn_exp(c, log_prob(c, d, x));
  pn_set_no_grad(c, old);
  T *f = cdf(c, d, x);
  return pn_sub(c, x, pn_div(c, pn_sub(c, f, pn_detach(c, f)), density));
}

const pni_distribution pni_composite_mixture = {
    .name = "mixture",
    .doc = "a component k with probability w_k, then x from it: p(x) = sum_k w_k p_k(x)",
    .source = "McLachlan & Peel 2000; draws' slopes: Figurnov, Mohamed & Mnih 2018",
    .call = "weights, components",
    .support = &pni_constraint_real,
    .event = "",
    .flags = PNI_DIST_TOTAL,
    .log_prob = log_prob,
    .cdf = cdf,
    .icdf = icdf,
    .log_cdf = log_cdf,
    .log_survival = log_survival,
    .mean = mean,
    .variance = variance,
    .sample = sample,
    .rsample = rsample};

/* ---- making ---- */

static pn_status unfit(C *c, const char *must, const char *got) {
  return pni_fail(c, PN_SHAPE, "mixture: components must %s, got %s", must, got);
}

/* All components are of one dtype, one event shape, all densities or all masses of one type. */
static pn_status check_alike(C *c, int n, pn_dist *const *component) {
  const pn_dist *a = component[0];
  char text[PNI_SHAPE_TEXT];
  for (int k = 1; k < n; k++) {
    const pn_dist *b = component[k];
    const int64_t *ea = a->shape + a->batch_ndim, *eb = b->shape + b->batch_ndim;
    if (a->dtype != b->dtype) return unfit(c, "have one dtype", pn_dtype_name((pn_dtype)b->dtype));
    if (a->event_ndim != b->event_ndim || memcmp(ea, eb, (size_t)a->event_ndim * sizeof *ea) != 0)
      return unfit(c, "have one event shape", pni_shape_text(b->event_ndim, eb, text));
    if ((a->flags ^ b->flags) & (PNI_DIST_DISCRETE | PNI_DIST_INTEGER))
      return unfit(c, "be all densities or all masses of one kind of number", b->kind->name);
  }
  return PN_OK;
}

/* Batch, event, support and flags out of the parts. */
static pn_status describe(C *c, pn_dist *d) {
  const pn_dist *first = d->part[FIRST];
  int tail = joint(d);
  pni_spec batch = {.ndim = 0};
  for (int k = 0; k < d->nparts; k++) {
    const pn_dist *p = d->part[k];
    int n = p->batch_ndim - (k >= FIRST ? tail : 0);
    if (pni_use(c, "mixture", &d->uses, p->uses)) return c->status;
    if (pni_composite_widen(c, "mixture: batches", &batch, n, p->shape)) return c->status;
    if (k >= FIRST && p->support != first->support)
      d->support = first->flags & PNI_DIST_DISCRETE ? &pni_constraint_nonnegative_integer : &pni_constraint_real;
  }
  d->flags |= first->flags & (PNI_DIST_DISCRETE | PNI_DIST_INTEGER);
  d->batch_ndim = batch.ndim;
  d->event_ndim = first->event_ndim;
  memcpy(d->shape, batch.shape, sizeof d->shape);
  if (batch.ndim + first->event_ndim >= PN_MAX_DIMS)
    return pni_fail(c, PN_SHAPE, "mixture: at most %d axes are possible", PN_MAX_DIMS - 1);
  memcpy(d->shape + batch.ndim, first->shape + first->batch_ndim, (size_t)first->event_ndim * sizeof(int64_t));
  return PN_OK;
}

static pn_status check_mixture(C *c, const pn_dist *labels, int n, pn_dist *const *component) {
  if (labels->kind != &pni_dist_categorical || labels->event_ndim)
    return pni_fail(c, PN_DOMAIN, "mixture: weights must be a categorical distribution, got %s", labels->kind->name);
  if (n < 1 || n > PNI_OP_INPUTS)
    return pni_fail(c, PN_SHAPE, "mixture: number of components must be 1 .. %d, got %d", PNI_OP_INPUTS, n);
  if (labels->dtype != component[0]->dtype)
    return pni_fail(c, PN_DTYPE, "mixture: weights must be %s as the components are, got %s",
                    pn_dtype_name((pn_dtype)component[0]->dtype), pn_dtype_name((pn_dtype)labels->dtype));
  if (n == 1 && component[0]->batch_ndim < 1)
    return pni_fail(c, PN_SHAPE, "mixture: a single distribution must have the components as last batch axis");
  const pn_tensor *w = labels->param[0] ? labels->param[0] : labels->param[1];
  int64_t have = w->shape[w->ndim - 1], want = n > 1 ? n : component[0]->shape[component[0]->batch_ndim - 1];
  if (have != want)
    return pni_fail(c, PN_SHAPE, "mixture: weights must be %lld as components are, got %lld", (long long)want,
                    (long long)have);
  return check_alike(c, n, component);
}

pn_dist *pn_dist_mixture(C *c, const pn_dist *labels, int n, pn_dist *const *component) {
  if (!PNI_GIVEN(c, "dist_mixture", labels) || !PNI_LISTED(c, "dist_mixture", n, component)) return NULL;
  for (int k = 0; k < n; k++)
    if (!PNI_GIVEN(c, "dist_mixture", component[k])) return NULL;
  if (check_mixture(c, labels, n, component)) return NULL;
  pn_dist *d = pni_composite_shell(c, &pni_composite_mixture, n + FIRST, component[0]->dtype);
  if (!d) return NULL;
  d->part[LABELS] = pn_dist_ref((pn_dist *)(uintptr_t)labels);
  for (int k = 0; k < n; k++) d->part[FIRST + k] = pn_dist_ref(component[k]);
  d->support = component[0]->support;
  pn_status status = PN_OK;
  for (int k = 0; k < n && status == PN_OK; k++) status = pni_nest(c, "mixture", &d->depth, component[k]->depth);
  if (status == PN_OK && describe(c, d) == PN_OK) return d;
  pn_dist_unref(d);
  return NULL;
}
