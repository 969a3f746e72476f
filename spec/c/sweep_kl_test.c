/*
** sweep_kl_test.c: divergences of two kinds of numbers, moments of transformed distributions and order-a divergences
** survive the failure of each of their allocations. Loops over the pairs that are known, so that a new one is swept by
** being there.
*/
#include "../../src/distribution/bijector/bijector.h"
#include "alloc_sweep.h"

typedef struct {
  const pni_distribution *p, *q;
} pair;

static bool offered(pn_context *c, pn_tensor *t) {
  if (!t && pn_context_status(c) == PN_MISSING) {
    pn_context_clear_error(c);
    return true;
  }
  if (!t || !pn_tensor_requires_grad(t)) return t != NULL;
  return pn_backward(c, pn_sum(c, t, PN_ALL, 0)) == PN_OK;
}

/* With the first of alternative parameters and examples or members as values. */
static pn_dist *make(pn_context *c, const pni_distribution *kind) {
  const char *names[PNI_DIST_PARAMS];
  pn_tensor *values[PNI_DIST_PARAMS];
  int n = 0;
  for (int k = 0; k < PNI_DIST_PARAMS && kind->param[k].name; k++) {
    const pni_parameter *p = &kind->param[k];
    if (p->choice && k && kind->param[k - 1].choice == p->choice) continue;
    double v = p->optional ? p->absent : p->example;
    pn_tensor *t = v == 0 && !p->optional ? pni_constraint_member(c, p->constraint, PN_FLOAT64, NULL)
                                          : pn_scalar(c, PN_FLOAT64, v);
    if (!t) return NULL;
    names[n] = p->name;
    values[n++] = p->constraint->discrete ? t : pn_param(c, t);
  }
  return pn_dist_new(c, kind->name, n, names, values);
}

static bool two_kinds(pn_context *c, const void *data) {
  const pair *k = data;
  pn_dist *p = make(c, k->p), *q = p ? make(c, k->q) : NULL;
  bool done = q && offered(c, pn_dist_kl(c, p, q));
  pn_dist_unref(q);
  pn_dist_unref(p);
  return done;
}

/* ---- Gaussians, transformed, masked, points ---- */

static pn_dist *row(pn_context *c, int64_t n) {
  pn_tensor *loc = pn_zeros(c, PN_FLOAT64, 1, &n);
  pn_dist *d = loc ? pn_dist_new(c, "normal", 1, NULL, (pn_tensor *[]){pn_param(c, loc)}) : NULL;
  pn_dist *joint = d ? pn_dist_independent(c, d, 1) : NULL;
  pn_dist_unref(d);
  return joint;
}

static pn_dist *dense(pn_context *c, int64_t n) {
  static const char *const names[] = {"loc", "scale_tril"};
  pn_tensor *loc = pn_zeros(c, PN_FLOAT64, 1, &n), *lower = loc ? pn_eye(c, PN_FLOAT64, n, n) : NULL;
  return lower ? pn_dist_new(c, "multivariate_normal", 2, names, (pn_tensor *[]){pn_param(c, loc), lower}) : NULL;
}

static bool gaussians(pn_context *c, const void *data) {
  (void)data;
  pn_dist *a = row(c, 3), *b = a ? dense(c, 3) : NULL;
  bool done = b && offered(c, pn_dist_kl(c, a, b)) && offered(c, pn_dist_kl(c, b, a)) &&
              offered(c, pn_dist_renyi(c, a, b, 0.5)) && offered(c, pn_dist_renyi(c, a, a, 1.001));
  pn_tensor *mask = done ? pn_zeros(c, PN_BOOL, 0, NULL) : NULL;
  pn_dist *m = mask ? pn_dist_masked(c, a, mask) : NULL;
  done = m && offered(c, pn_dist_kl(c, m, b)) && offered(c, pn_dist_kl(c, b, m));
  pn_tensor *at = done ? pn_zeros(c, PN_FLOAT64, 1, (const int64_t[]){3}) : NULL;
  pn_dist *point = at ? pn_dist_new(c, "delta", 1, NULL, &at) : NULL;
  pn_dist *points = point ? pn_dist_independent(c, point, 1) : NULL;
  done = points && offered(c, pn_dist_kl(c, points, b));
  pn_dist_unref(points), pn_dist_unref(point), pn_dist_unref(m), pn_dist_unref(b), pn_dist_unref(a);
  return done;
}

static bool moments(pn_context *c, const void *data) {
  pn_dist *base = row(c, 3);
  pn_tensor *lower = base ? pn_eye(c, PN_FLOAT64, 3, 3) : NULL, *loc = pn_zeros(c, PN_FLOAT64, 1, (const int64_t[]){3});
  pn_bijector *part[2] = {lower && loc ? pn_bijector_new(c, "affine_tril", 2, NULL, (pn_tensor *[]){loc, lower}) : NULL,
                          NULL};
  if (part[0]) part[1] = pn_bijector_new(c, data, 0, NULL, NULL);
  pn_bijector *map = part[1] ? pn_bijector_compose(c, "chain", 2, part) : NULL;
  pn_bijector *again = map ? pn_bijector_compose(c, "chain", 2, part) : NULL;
  pn_dist *d = again ? pn_dist_transformed(c, base, map) : NULL, *e = d ? pn_dist_transformed(c, base, again) : NULL;
  bool done = e && offered(c, pn_dist_mean(c, d)) && offered(c, pn_dist_variance(c, d)) &&
              offered(c, pn_dist_entropy(c, d)) && offered(c, pn_dist_mode(c, d)) && offered(c, pn_dist_kl(c, d, e));
  pn_dist_unref(e), pn_dist_unref(d), pn_dist_unref(base);
  pn_bijector_unref(again), pn_bijector_unref(map), pn_bijector_unref(part[1]), pn_bijector_unref(part[0]);
  return done;
}

/* Values and parameters are numbers. */
static bool of_number(const pni_distribution *k) {
  for (int i = 0; i < PNI_DIST_PARAMS && k->param[i].name; i++)
    if (*k->param[i].axes) return false;
  return !*k->event && !(k->flags & PNI_DIST_INTEGER);
}

int main(void) {
  char name[128]; /* of every third pair: each kind meets some as p and as q */
  for (int i = 0; i < pni_dist_count(); i++)
    for (int j = 0; j < pni_dist_count(); j++) {
      pair k = {pni_dist_at(i), pni_dist_at(j)};
      if (i == j || (i + j) % 3 || !of_number(k.p) || !of_number(k.q) || pni_kl_known(k.p, k.q) != PNI_KL_FORMULA)
        continue;
      snprintf(name, sizeof name, "kl of %s and %s", k.p->name, k.q->name);
      sweep(name, two_kinds, &k);
    }
  sweep("Gaussians", gaussians, NULL);
  sweep("moments", moments, "identity");
  sweep("moments, exp", moments, "exp");
  CHECK_DONE();
}
