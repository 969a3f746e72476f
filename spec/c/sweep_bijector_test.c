/*
** sweep_bijector_test.c: bijectors and distributions made of distributions survive the failure of each of their
** allocations. Loops over the rows, so that a new bijector is swept by being there.
*/
#include "../../src/distribution/bijector/bijector.h"
#include "alloc_sweep.h"

enum { SIZE = 3, FREE_SIZE = 6 };

static bool differentiate(pn_context *c, pn_tensor *t) {
  if (!t) return false;
  if (!pn_tensor_requires_grad(t)) return true;
  return pn_backward(c, pn_sum(c, t, PN_ALL, 0)) == PN_OK;
}

/* A member of the parameter's set where every letter is SIZE, int64 for whole numbers. */
static pn_tensor *parameter(pn_context *c, const pni_parameter *p) {
  static const int64_t size[PN_MAX_DIMS] = {SIZE, SIZE, SIZE, SIZE, SIZE, SIZE, SIZE, SIZE};
  pn_tensor *t = pni_constraint_member(c, p->constraint, PN_FLOAT64, size);
  int rank = (int)strlen(p->axes);
  if (t && rank > p->constraint->rank) t = pn_broadcast_to(c, t, rank, size);
  if (t && p->constraint->discrete) return pn_cast(c, t, PN_INT64);
  return t ? pn_param(c, t) : NULL;
}

static pn_bijector *make(pn_context *c, const pni_bijector *kind) {
  const char *names[PNI_BIJECTOR_PARAMS];
  pn_tensor *values[PNI_BIJECTOR_PARAMS];
  int n = 0;
  for (; n < PNI_BIJECTOR_PARAMS && kind->param[n].name; n++) {
    names[n] = kind->param[n].name;
    if (!(values[n] = parameter(c, &kind->param[n]))) return NULL;
  }
  if (!kind->parts) return pn_bijector_new(c, kind->name, n, names, values);
  pn_bijector *part[2] = {make(c, &pni_bijector_affine), NULL}, *b = NULL;
  part[1] = part[0] ? pn_bijector_new(c, "exp", 0, NULL, NULL) : NULL;
  if (part[1]) b = pn_bijector_compose(c, kind->name, kind->parts > 0 ? 1 : 2, part);
  pn_bijector_unref(part[0]);
  pn_bijector_unref(part[1]);
  return b;
}

/* Is a letter of `axes` one of a parameter? */
static bool bound(const pni_bijector *kind, const char *axes) {
  for (int k = 0; k < PNI_BIJECTOR_PARAMS && kind->param[k].name; k++)
    if (*axes && strchr(kind->param[k].axes, *axes)) return true;
  return false;
}

static pn_tensor *point(pn_context *c, const pn_bijector *b) {
  const char *in = b->kind->in;
  int64_t fixed = in[0] > '0' && in[0] <= '9' ? in[0] - '0' : FREE_SIZE;
  if (b->codomain == &pni_constraint_mean_and_covariance) fixed = FREE_SIZE + SIZE;
  int64_t n = bound(b->kind, in) ? SIZE : fixed, size[] = {2, n, n};
  pn_tensor *t = pni_constraint_member(c, b->domain, PN_FLOAT64, size + 1);
  return t ? pn_broadcast_to(c, t, b->in_rank + 1, size) : NULL;
}

static bool use(pn_context *c, pn_bijector *b) {
  pn_tensor *x = point(c, b), *y = x ? pn_bijector_forward(c, b, pn_param(c, x)) : NULL;
  if (!differentiate(c, y) || !differentiate(c, pn_bijector_inverse(c, b, pn_detach(c, y)))) return false;
  if (!differentiate(c, pn_bijector_log_abs_det(c, b, x))) return false;
  if (!pn_bijector_inverse(c, b, pn_bijector_forward(c, b, x))) return false;
  pn_tensor *with;
  if (!differentiate(c, pn_bijector_forward_log_det(c, b, pn_detach(c, x), &with)) || !differentiate(c, with))
    return false;
  if (!differentiate(c, pn_bijector_inverse_log_det(c, b, pn_detach(c, y), &with)) || !differentiate(c, with))
    return false;
  for (int k = 0; k < PNI_BIJECTOR_PARAMS; k++)
    if (b->param[k] && !pn_bijector_param(c, b, b->kind->param[k].name)) return false;
  return true;
}

static bool bijector_work(pn_context *c, const void *data) {
  pn_bijector *b = make(c, data);
  bool done = b && use(c, b);
  pn_bijector_unref(b);
  return done;
}

/* Onto every set that has a bijector. */
static bool onto(pn_context *c, const void *data) {
  pn_tensor *low = pn_full(c, PN_FLOAT64, 0, NULL, -1), *high = pn_full(c, PN_FLOAT64, 0, NULL, 2);
  pn_bijector *b = high ? pn_biject_to(c, data, low, high) : NULL;
  bool missing = !b && pn_context_status(c) == PN_MISSING;
  if (missing) pn_context_clear_error(c);
  pn_bijector_unref(b);
  return b || missing;
}

/* ---- distributions made of distributions ---- */

static pn_dist *normal(pn_context *c, int64_t n) {
  pn_tensor *loc = pn_zeros(c, PN_FLOAT64, 1, &n);
  return loc ? pn_dist_new(c, "normal", 1, NULL, (pn_tensor *[]){pn_param(c, loc)}) : NULL;
}

static bool use_dist(pn_context *c, const pn_dist *d) {
  static const int64_t two[] = {2};
  pn_tensor *x = pn_dist_sample(c, d, NULL, 1, two);
  if (!differentiate(c, pn_dist_log_prob(c, d, x))) return false;
  if (!differentiate(c, pn_dist_rsample(c, d, NULL, 1, two))) return false;
  pn_tensor *with;
  if (!pn_dist_rsample_log_prob(c, d, NULL, 1, two, &with) || !differentiate(c, with)) return false;
  pn_dist *joint = pn_dist_independent(c, d, 1);
  bool done = joint && pn_dist_log_prob(c, joint, pn_dist_sample(c, joint, NULL, 0, NULL));
  pn_dist_unref(joint);
  return done;
}

static bool transformed(pn_context *c, const void *data) {
  (void)data;
  pn_dist *base = normal(c, SIZE);
  pn_bijector *map = base ? pn_bijector_new(c, "exp", 0, NULL, NULL) : NULL;
  pn_dist *d = map ? pn_dist_transformed(c, base, map) : NULL;
  bool done = d && use_dist(c, d) && pn_dist_cdf(c, d, pn_full(c, PN_FLOAT64, 1, (const int64_t[]){SIZE}, 0.5));
  pn_dist_unref(d);
  pn_dist_unref(base);
  pn_bijector_unref(map);
  return done;
}

static pn_dist *labels(pn_context *c, int64_t n) {
  pn_tensor *logits = pn_zeros(c, PN_FLOAT64, 1, &n);
  const char *name = "logits";
  return logits ? pn_dist_new(c, "categorical", 1, &name, (pn_tensor *[]){pn_param(c, logits)}) : NULL;
}

/* Of SIZE components: a batch axis of one distribution, or two distributions. */
static bool mixture(pn_context *c, const void *data) {
  int n = *(const int *)data;
  pn_dist *part[2] = {normal(c, SIZE), NULL}, *weights = NULL, *d = NULL;
  if (part[0]) part[1] = normal(c, SIZE);
  if (part[1]) weights = labels(c, n == 1 ? SIZE : 2);
  if (weights) d = pn_dist_mixture(c, weights, n, part);
  pn_dist *wide = d ? pn_dist_expand(c, d, 1, (const int64_t[]){SIZE}) : NULL;
  bool done = wide && use_dist(c, wide) && differentiate(c, pn_dist_mean(c, d)) && pn_dist_variance(c, d);
  pn_dist_unref(wide);
  pn_dist_unref(d);
  pn_dist_unref(weights);
  pn_dist_unref(part[0]);
  pn_dist_unref(part[1]);
  return done;
}

static bool masked(pn_context *c, const void *data) {
  (void)data;
  pn_dist *base = normal(c, SIZE);
  pn_tensor *mask = base ? pn_zeros(c, PN_BOOL, 0, NULL) : NULL;
  pn_dist *d = mask ? pn_dist_masked(c, base, mask) : NULL;
  bool done = d && use_dist(c, d) && pn_dist_mean(c, d) && pn_dist_variance(c, d) && pn_dist_mode(c, d) &&
              differentiate(c, pn_dist_entropy(c, d));
  pn_dist_unref(d);
  pn_dist_unref(base);
  return done;
}

int main(void) {
  for (int i = 0; i < pni_bijector_count(); i++) sweep(pni_bijector_at(i)->name, bijector_work, pni_bijector_at(i));
  for (int i = 0; i < pni_constraint_count(); i++) sweep("biject_to", onto, pni_constraint_at(i)->name);
  sweep("transformed", transformed, NULL);
  sweep("mixture, one family", mixture, &(int){1});
  sweep("mixture", mixture, &(int){2});
  sweep("masked", masked, NULL);
  CHECK_DONE();
}
