/*
** transformed.c: the law of y = f(x), x from a base distribution, f a bijector:
**   log p(y) = log p_base(x) - log |det dy/dx|,  x = f^-1(y)
**   P(Y <= y) = P(X <= x) where f rises and 1 - P(X <= x) where it falls (numbers only)
** Events: with r axes of a base event and in / out axes of the bijector, an event of y has max(r, in) + out - in.
*/
#include <string.h>
#include "../formula.h"
#include "../bijector/moments.h"
#include "composite.h"

static const pn_dist *base(D *d) { return d->part[0]; }
/* Axes of an event beyond those of the bijector. */
static int extra(D *d) { return base(d)->event_ndim - d->map->in_rank; }

/* ---- density ---- */

static T *density(C *c, D *d, T *x, T *log_det) { return pn_sub(c, pn_dist_log_prob(c, base(d), x), log_det); }

/* bool: events of x that are finite throughout; NULL without a failure if all are and a capture does not ask. */
static T *finite_events(C *c, D *d, T *x) {
  int old = pn_set_no_grad(c, 1), n = base(d)->event_ndim;
  T *finite = pn_isfinite(c, x), *all = pn_all(c, finite, PN_ALL, 0);
  bool whole = all && !(c->recorder && pni_varies(c, all)) && pni_element(all, 0) != 0;
  pn_axes axes = {.n = n};
  for (int i = 0; i < n; i++) axes.axis[i] = -1 - i;
  if (!whole && n) finite = pn_all(c, finite, axes, 0);
  pn_set_no_grad(c, old);
  return whole ? NULL : finite;
}

/* A y at the edge of the range, reached by no finite x, has density 0: it is replaced before the formula and its
 * result after it, so that no gradient sees it. */
static T *log_prob(C *c, D *d, T *y) {
  T *log_det, *x = pni_bijector_with_log_det(c, d->map, y, false, extra(d), &log_det);
  T *finite = finite_events(c, d, x);
  if (pni_failed(c)) return NULL;
  if (!finite) return density(c, d, x, log_det);
  T *mask = finite;
  int rank = pni_dist_kind_event_ndim(d);
  for (int i = 0; i < rank; i++) mask = pn_unsqueeze(c, mask, -1);
  const int64_t *size = d->shape + pni_dist_base_ndim(d) + rank - d->support->rank;
  T *member = pni_constraint_member(c, d->support, (pn_dtype)d->dtype, size);
  T *safe = pn_where(c, mask, y, member);
  x = pni_bijector_with_log_det(c, d->map, safe, false, extra(d), &log_det);
  return only(c, finite, density(c, d, x, log_det), -INFINITY);
}

/* ---- distribution function ---- */

/* p where the bijector rises and 1 - p where it falls; NULL if it is no map of numbers. */
static T *along(C *c, D *d, const char *function, T *p) {
  if (d->event_ndim || d->map->in_rank || !p) return p ? pni_dist_missing(c, d, function) : NULL;
  T *sign = pni_bijector_sign(c, d->map, p);
  return pn_where(c, above(c, sign, 0), p, from(c, 1, p));
}

static T *cdf(C *c, D *d, T *y) {
  if (d->event_ndim || d->map->in_rank) return pni_dist_missing(c, d, "cdf");
  return along(c, d, "cdf", pn_dist_cdf(c, base(d), pn_bijector_inverse(c, d->map, y)));
}

static T *icdf(C *c, D *d, T *p) {
  return pn_bijector_forward(c, d->map, pn_dist_icdf(c, base(d), along(c, d, "icdf", p)));
}

/* The tail of the base on the same side: exact where the base's is. */
static T *log_part(C *c, D *d, const char *function, T *y, bool upper) {
  if (d->event_ndim || d->map->in_rank) return pni_dist_missing(c, d, function);
  T *x = pn_bijector_inverse(c, d->map, y), *rises = above(c, pni_bijector_sign(c, d->map, x), 0);
  T *low = pn_dist_log_cdf(c, base(d), x), *high = pn_dist_log_survival(c, base(d), x);
  return upper ? pn_where(c, rises, high, low) : pn_where(c, rises, low, high);
}

static T *log_cdf(C *c, D *d, T *y) { return log_part(c, d, "log_cdf", y, false); }
static T *log_survival(C *c, D *d, T *y) { return log_part(c, d, "log_survival", y, true); }

/* ---- draws ---- */

static T *sample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return pn_bijector_forward(c, d->map, pni_composite_draw(c, d, 0, 0, rng, out, false));
}

static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return pn_bijector_forward(c, d->map, pni_composite_draw(c, d, 0, 0, rng, out, true));
}

/* Each network once: the density comes out of the draw of the base, not out of y. */
static T *rsample_with(C *c, D *d, pn_rng *rng, const pni_spec *out, T **log_prob_of) {
  T *lp, *log_det, *x = pni_composite_draw_with_log_prob(c, d, 0, rng, out, &lp);
  T *y = pni_bijector_with_log_det(c, d->map, x, true, extra(d), &log_det);
  *log_prob_of = pn_sub(c, lp, log_det);
  return y;
}

/* ---- moments, where the map lets them through ---- */

static T *lacking(C *c, D *d, const char *function, const char *offer) {
  pni_fail(c, PN_MISSING, "transformed: %s does not exist under %s (%s estimates it)", function, d->map->kind->name,
           offer);
  return NULL;
}

/* t, or NULL without a failure if the base does not have it. */
static T *attempt(C *c, T *t) {
  if (!t && c->status == PN_MISSING) pn_context_clear_error(c);
  return t;
}

/* Some value of the base. */
static T *member_of_base(C *c, D *d) {
  D *b = base(d);
  const int64_t *size = b->shape + b->batch_ndim + b->event_ndim - b->support->rank;
  T *t = pni_constraint_member(c, b->support, (pn_dtype)d->dtype, size);
  return pni_dist_expand_to(c, t, b->batch_ndim + b->event_ndim, b->shape);
}

static pni_moments moments(C *c, D *d) {
  D *b = base(d);
  T *m = attempt(c, pn_dist_mean(c, b));
  pni_moments p = {.point = m ? m : member_of_base(c, d),
                   .mean = m != NULL,
                   .variance = attempt(c, pn_dist_variance(c, b)),
                   .apart = pni_dist_kind_event_ndim(b) == 0};
  pni_bijector_push(c, d->map, extra(d), &p);
  return p;
}

static T *mean(C *c, D *d) {
  pni_moments p = moments(c, d);
  return p.mean ? p.point : lacking(c, d, "mean", "expectation_monte_carlo");
}

static T *variance(C *c, D *d) {
  pni_moments p = moments(c, d);
  return p.variance ? p.variance : lacking(c, d, "variance", "expectation_monte_carlo");
}

/* H(y) = H(x) + E[log |det|] */
static T *entropy(C *c, D *d) {
  pni_moments p = moments(c, d);
  return p.log_det ? pn_add(c, pn_dist_entropy(c, base(d)), p.log_det)
                   : lacking(c, d, "entropy", "entropy_monte_carlo");
}

/* The densities of x and y are proportional if log |det| does not depend on x. */
static T *mode(C *c, D *d) {
  if (pni_bijector_even(d->map)) return pn_bijector_forward(c, d->map, pn_dist_mode(c, base(d)));
  pni_fail(c, PN_MISSING, "transformed: mode does not exist in closed form under %s", d->map->kind->name);
  return NULL;
}

/* A bijector applied to both changes nothing: KL of the bases. */
static T *kl(C *c, D *p, D *q) {
  if (pni_bijector_same(c, p->map, q->map)) return pn_dist_kl(c, base(p), base(q));
  pni_fail(c, PN_MISSING,
           "kl: there is no closed form for transformed and transformed by another bijector (kl_monte_carlo estimates "
           "it)");
  return NULL;
}

const pni_distribution pni_composite_transformed = {
    .name = "transformed",
    .doc = "the law of y = f(x) for x from a base distribution and a bijector f: "
           "log p(y) = log p_base(x) - log |det dy/dx|",
    .source = "change of variables; Papamakarios, Nalisnick, Rezende, Mohamed & Lakshminarayanan 2021",
    .call = "base, bijector",
    .support = &pni_constraint_real,
    .event = "",
    .log_prob = log_prob,
    .cdf = cdf,
    .icdf = icdf,
    .log_cdf = log_cdf,
    .log_survival = log_survival,
    .mean = mean,
    .variance = variance,
    .mode = mode,
    .entropy = entropy,
    .kl = kl,
    .sample = sample,
    .rsample = rsample,
    .rsample_with = rsample_with};

/* ---- making ---- */

/* The base as the bijector needs it: enough event axes, and the batch of both. New. */
static pn_dist *fit(C *c, D *b, const pn_bijector *map) {
  int lack = map->in_rank - b->event_ndim;
  if (lack > b->batch_ndim) {
    pni_fail(c, PN_SHAPE, "transformed: base must have at least %d axes for %s, got %d", map->in_rank, map->kind->name,
             b->batch_ndim + b->event_ndim);
    return NULL;
  }
  pn_dist *joined = pn_dist_independent(c, b, lack > 0 ? lack : 0);
  if (!joined) return NULL;
  int over = joined->event_ndim - map->in_rank, n = map->batch_ndim - over;
  pni_spec batch = {.ndim = joined->batch_ndim};
  memcpy(batch.shape, joined->shape, sizeof batch.shape);
  if (pni_composite_widen(c, "transformed: batches of base and bijector", &batch, n > 0 ? n : 0, map->shape)) {
    pn_dist_unref(joined);
    return NULL;
  }
  pn_dist *e = pn_dist_expand(c, joined, batch.ndim, batch.shape);
  pn_dist_unref(joined);
  return e;
}

/* Sizes of an event of y, by mapping one. */
static pn_status find_event(C *c, pn_dist *d) {
  D *b = base(d);
  if (pni_use(c, "transformed", &d->uses, b->uses) || pni_use(c, "transformed", &d->uses, d->map->uses))
    return c->status;
  const pni_constraint *k = d->map->domain;
  const int64_t *size = b->shape + b->batch_ndim;
  int old = pn_set_no_grad(c, 1);
  T *x = pni_constraint_member(c, k, (pn_dtype)d->dtype, size + b->event_ndim - k->rank);
  T *y = pn_bijector_forward(c, d->map, pni_dist_expand_to(c, x, b->event_ndim, size));
  pn_set_no_grad(c, old);
  if (!y) return c->status;
  d->event_ndim = b->event_ndim + d->map->out_rank - d->map->in_rank;
  d->batch_ndim = b->batch_ndim;
  if (d->batch_ndim + d->event_ndim > PN_MAX_DIMS)
    return pni_fail(c, PN_SHAPE, "transformed: at most %d axes are possible", PN_MAX_DIMS);
  memcpy(d->shape, b->shape, (size_t)b->batch_ndim * sizeof *size);
  const int64_t *tail = y->shape + y->ndim - d->event_ndim;
  memcpy(d->shape + d->batch_ndim, tail, (size_t)d->event_ndim * sizeof *size);
  for (int i = 0; i < extra(d); i++)
    if (tail[i] != size[i])
      return pni_fail(c, PN_SHAPE, "transformed: parameters of %s must not widen events of the base",
                      d->map->kind->name);
  return PN_OK;
}

pn_dist *pn_dist_transformed(pn_context *c, const pn_dist *b, pn_bijector *map) {
  if (!PNI_GIVEN(c, "dist_transformed", b, map)) return NULL;
  if (!pni_constraint_inside(b->support, map->domain)) {
    pni_fail(c, PN_DOMAIN, "transformed: values of the base must be %s for %s, got %s on '%s'", map->domain->must,
             map->kind->name, b->kind->name, b->support->name);
    return NULL;
  }
  if (map->dtype >= 0 && map->dtype != b->dtype) {
    pni_fail(c, PN_DTYPE, "transformed: bijector must be %s as the base is, got %s", pn_dtype_name((pn_dtype)b->dtype),
             pn_dtype_name((pn_dtype)map->dtype));
    return NULL;
  }
  int depth = 0;
  if (pni_nest(c, "transformed", &depth, b->depth) || pni_nest(c, "transformed", &depth, map->depth)) return NULL;
  pn_dist *d = pni_composite_shell(c, &pni_composite_transformed, 1, b->dtype);
  if (!d) return NULL;
  d->depth = depth;
  d->map = pn_bijector_ref(map);
  d->support = map->codomain;
  size_t mark = pn_scope_open(c);
  d->part[0] = fit(c, b, map);
  bool ok = d->part[0] && find_event(c, d) == PN_OK;
  pn_scope_close(c, mark);
  if (ok) return d;
  pn_dist_unref(d);
  return NULL;
}
