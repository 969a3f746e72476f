/*
** support.c: where supports lie. Three sorts of them decide a divergence:
**   densities of numbers on an interval, whose ends are fixed or parameters;
**   masses on whole numbers from 0 to an end, or on numbers that are parameters themselves (a point, atoms);
**   vectors and matrices, by their sets, and counts of classes by their sums.
** A density has no mass where another law has points, and a law of points none where another has a density; the point
** estimate alone is taken for a limit of densities (kl.c).
*/
#include <string.h>
#include "support.h"
#include "../formula.h"

static bool discrete(const pni_distribution *k) {
  return k->support->discrete || (k->flags & (PNI_DIST_DISCRETE | PNI_DIST_INTEGER)) != 0;
}

static int parameter(const pni_distribution *kind, const char *name) {
  for (int k = 0; k < PNI_DIST_PARAMS && kind->param[k].name; k++)
    if (strcmp(kind->param[k].name, name) == 0) return k;
  return -1;
}

/* ---- densities of numbers ---- */

static bool has_ends(const pni_distribution *k) {
  return k->support == &pni_constraint_interval || k->support == &pni_constraint_half_line;
}

/* The number of the parameter that is an end; -1: the end is fixed. */
static int end_parameter(const pni_distribution *k, bool high) {
  if (k->support == &pni_constraint_half_line) return high ? -1 : parameter(k, "scale");
  return k->support == &pni_constraint_interval ? parameter(k, high ? "high" : "low") : -1;
}

static double fixed_end(const pni_distribution *k, bool high) {
  if (k->support == &pni_constraint_half_line || k->support == &pni_constraint_real) return high ? INFINITY : -INFINITY;
  return high ? k->support->high : k->support->low;
}

static bool on_interval(const pni_distribution *k) {
  return !k->call && !*k->event && !discrete(k) && (has_ends(k) || k->support->low < k->support->high);
}

/* The largest or least number an end can be, and whether it can be that very number. */
static double bound(const pni_distribution *k, bool high, bool largest, bool *reached) {
  int own = end_parameter(k, high);
  const pni_constraint *set = own < 0 ? NULL : k->param[own].constraint;
  *reached = own < 0 || set == &pni_constraint_extended_real;
  if (own < 0) return fixed_end(k, high);
  return largest ? INFINITY : set == &pni_constraint_positive ? 0 : -INFINITY;
}

/* Is the end of p beyond that of q for all parameters? */
static bool always_beyond(const pni_distribution *p, const pni_distribution *q, bool high) {
  bool own, other;
  double near = bound(p, high, !high, &own), far = bound(q, high, high, &other);
  return high ? near > far || (near == far && !(own && other)) : near < far || (near == far && !(own && other));
}

static T *end_of(C *c, D *d, bool high) {
  int own = end_parameter(d->kind, high);
  return own < 0 ? constant(c, d, fixed_end(d->kind, high)) : d->param[own];
}

static T *ends_outside(C *c, D *p, D *q) {
  return pn_logical_or(c, pn_lt(c, end_of(c, p, false), end_of(c, q, false)),
                       pn_gt(c, end_of(c, p, true), end_of(c, q, true)));
}

/* ---- masses of numbers ---- */

/* Whole numbers from 0, all or up to an end? */
static bool counts(const pni_distribution *k) {
  const pni_constraint *s = k->support;
  return !k->call && !*k->event &&
         (s == &pni_constraint_nonnegative_integer || s == &pni_constraint_boolean || s == &pni_constraint_trials ||
          s == &pni_constraint_integer_interval);
}
static bool endless(const pni_distribution *k) { return k->support == &pni_constraint_nonnegative_integer; }
/* Numbers that are parameters? */
static bool scattered(const pni_distribution *k) {
  return !k->call && !*k->event && (k->support == &pni_constraint_point || k->support == &pni_constraint_atom);
}
/* May all mass lie at 0? Then nothing is known without the gate. */
static bool gated(const pni_distribution *k) { return k == &pni_dist_zero_inflated_poisson; }

/* The last number of counts that end */
static T *last_count(C *c, D *d) {
  if (d->kind->support == &pni_constraint_trials) return d->param[parameter(d->kind, "total_count")];
  if (d->kind->support == &pni_constraint_boolean) return constant(c, d, 1);
  for (int k = 0; k < PNI_DIST_PARAMS; k++)
    if (d->param[k] && d->param[k]->ndim > 0)
      return constant(c, d, (double)d->param[k]->shape[d->param[k]->ndim - 1] - 1);
  return NULL;
}

/* Has d mass at x? */
static T *has_mass(C *c, D *d, T *x) {
  bool whole = d->kind->flags & PNI_DIST_INTEGER;
  T *inside = d->kind->in_support ? d->kind->in_support(c, d, whole ? pn_cast(c, x, PN_INT64) : x)
                                  : pni_constraint_mask(c, d->kind->support, x);
  if (whole) inside = pn_logical_and(c, inside, pn_eq(c, x, pn_floor(c, x)));
  T *at = pn_where(c, inside, x, pni_like(c, x, 0));
  T *mass = pn_gt(c, d->kind->log_prob(c, d, whole ? pn_cast(c, at, PN_INT64) : at), constant(c, d, -INFINITY));
  return pn_logical_and(c, inside, mass);
}

/* Has p mass at x, where q has none? */
static T *misses(C *c, D *p, D *q, T *x) {
  return pn_logical_and(c, has_mass(c, p, x), pn_logical_not(c, has_mass(c, q, x)));
}

/* A count above all numbers that are parameters; 1 of counts that may all be 0 */
static T *after_atoms(C *c, D *d) {
  T *last = d->param[0];
  if (gated(d->kind)) return constant(c, d, 1);
  if (d->kind->support == &pni_constraint_atom) last = pn_max(c, last, LAST, 0);
  return plus(c, pn_relu(c, pn_floor(c, last)), 1);
}

/* Counts against counts by the last number, or the one after the last of q where p goes on; against scattered numbers
 * by 0 and the last number; atoms one by one. */
static T *masses_outside(C *c, D *p, D *q) {
  if (p->kind->support == &pni_constraint_atom) {
    D *d = p;
    T *values = d->param[0], *out = NULL;
    for (int64_t i = 0; values && i < values->shape[values->ndim - 1]; i++) {
      T *one = misses(c, p, q, pn_select(c, values, -1, i));
      out = out ? pn_logical_or(c, out, one) : one;
    }
    return out;
  }
  if (scattered(q->kind) || gated(q->kind)) {
    T *at_zero = misses(c, p, q, constant(c, p, 0));
    return pn_logical_or(c, at_zero, misses(c, p, q, endless(p->kind) ? after_atoms(c, q) : last_count(c, p)));
  }
  T *end = last_count(c, q);
  if (endless(p->kind)) return has_mass(c, p, plus(c, end, 1));
  T *top = last_count(c, p);
  return pn_logical_and(c, pn_gt(c, top, end), has_mass(c, p, top));
}

/* ---- vectors and matrices ---- */

static bool whole_space(const pni_constraint *s) {
  return s == &pni_constraint_real_vector || s == &pni_constraint_real_matrix;
}
static bool has_sum(const pni_distribution *k) {
  return k->support == &pni_constraint_count_vector || k->support == &pni_constraint_one_hot;
}
static T *sum_of(C *c, D *d) {
  if (d->kind->support == &pni_constraint_one_hot) return constant(c, d, 1);
  return d->param[parameter(d->kind, "total_count")];
}

/* Draws of p lie outside another set of their rank unless that is all of the space; shares beside a variance, as pairs,
 * may be inside. */
static bool sets_apart(const pni_distribution *p, const pni_distribution *q) {
  const pni_constraint *a = p->support, *b = q->support;
  return a != b && !whole_space(b) && !(a == &pni_constraint_simplex && b == &pni_constraint_mean_and_variance);
}

/* ---- pairs ---- */

bool pni_support_never_inside(const pni_distribution *p, const pni_distribution *q) {
  if (p->call || q->call || p->support->rank != q->support->rank || p == &pni_dist_delta) return false;
  if (discrete(p) != discrete(q)) return true;
  if (p->support->rank > 0) return !discrete(p) && sets_apart(p, q);
  if (!discrete(p))
    return on_interval(p) && on_interval(q) && (always_beyond(p, q, true) || always_beyond(p, q, false));
  return counts(p) && endless(p) && !gated(p) && ((counts(q) && !endless(q)) || scattered(q));
}

bool pni_support_moves(const pni_distribution *p, const pni_distribution *q) {
  if (p->call || q->call || p->support->rank != q->support->rank || discrete(p) != discrete(q)) return false;
  if (p->support->rank > 0) return has_sum(p) && has_sum(q);
  if (!discrete(p)) return on_interval(p) && on_interval(q) && (has_ends(p) || has_ends(q));
  if (p->support == &pni_constraint_atom) return counts(q) || scattered(q);
  return counts(p) && (scattered(q) || gated(q) || (counts(q) && !endless(q)));
}

T *pni_support_outside(C *c, D *p, D *q) {
  if (p->kind->support->rank > 0) return pn_ne(c, sum_of(c, p), sum_of(c, q));
  int old = pn_set_no_grad(c, 1);
  T *outside = discrete(p->kind) ? masses_outside(c, p, q) : ends_outside(c, p, q);
  pn_set_no_grad(c, old);
  return outside;
}

/* ---- the check as an operation without a result, so that a plan makes it anew; attr: names of the kinds ---- */

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  (void)c, (void)call;
  *out = (pni_spec){.dtype = PN_BOOL};
  return PN_OK;
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  *(uint8_t *)pni_data(out) = 1;
  for (int64_t i = 0; i < call->in[0]->numel; i++)
    if (pni_element(call->in[0], i) == 0)
      return pni_fail(c, PN_MISSING, "kl: there is no closed form for %s and %s (kl_monte_carlo estimates it)",
                      (const char *)(intptr_t)call->attr->i[0], (const char *)(intptr_t)call->attr->i[1]);
  return PN_OK;
}

static const pni_op require_outside = {.name = "require_outside",
                                       .flags = PNI_OP_ANY_DTYPE | PNI_OP_NODIFF | PNI_OP_HIDDEN | PNI_OP_CHECK,
                                       .infer = infer,
                                       .eval = eval};

T *pni_support_kl(C *c, D *p, D *q) {
  if (pni_support_never_inside(p->kind, q->kind)) return constant(c, p, INFINITY);
  T *outside = pni_support_outside(c, p, q);
  pni_attr names = {.ni = 2, .i = {(int64_t)(intptr_t)p->kind->name, (int64_t)(intptr_t)q->kind->name}};
  return pni_apply1(c, &require_outside, outside, &names) ? constant(c, p, INFINITY) : NULL;
}
