/*
** sweep_natural_test.c: Gaussian factors and the Renyi divergence survive the failure of each of their allocations.
*/
#include "alloc_sweep.h"

static bool differentiate(pn_context *c, pn_tensor *t) { return t && pn_backward(c, pn_sum(c, t, PN_ALL, 0)) == PN_OK; }

static pn_natural *make(pn_context *c, const char *form) {
  static const int64_t size[] = {2};
  pn_tensor *eta = pn_full(c, PN_FLOAT64, strcmp(form, "scalar") != 0, size, 0.5);
  pn_tensor *one = pn_full(c, PN_FLOAT64, eta ? pn_tensor_ndim(eta) : 0, size, 1.5);
  pn_tensor *lambda = strcmp(form, "full") ? one : pn_diag_embed(c, one);
  return lambda ? pn_natural_new(c, form, pn_param(c, eta), pn_param(c, lambda)) : NULL;
}

/* What factor and distribution say about each other. */
static bool use(pn_context *c, const pn_natural *s, const pn_dist *d) {
  pn_natural *again = pn_natural_of(c, d);
  bool done = again && differentiate(c, pn_natural_log_normaliser(c, again)) &&
              differentiate(c, pn_natural_expected_log(c, s, d)) && differentiate(c, pn_dist_renyi(c, d, d, 0.5)) &&
              differentiate(c, pn_natural_log_factor(c, s, pn_dist_mean(c, d)));
  pn_natural_unref(again);
  return done;
}

static bool work(pn_context *c, const void *data) {
  pn_natural *s = make(c, data), *product = NULL, *quotient = NULL, *power = NULL;
  if (s) product = pn_natural_product(c, s, s);
  if (product) quotient = pn_natural_quotient(c, product, s);
  if (quotient) power = pn_natural_power(c, quotient, pn_full(c, PN_FLOAT64, 0, NULL, 0.5));
  pn_dist *d = power ? pn_natural_to_dist(c, power) : NULL;
  bool done = d && use(c, s, d);
  pn_dist_unref(d);
  pn_natural_unref(power);
  pn_natural_unref(quotient);
  pn_natural_unref(product);
  pn_natural_unref(s);
  return done;
}

int main(void) {
  sweep("scalar", work, "scalar");
  sweep("diagonal", work, "diagonal");
  sweep("full", work, "full");
  CHECK_DONE();
}
