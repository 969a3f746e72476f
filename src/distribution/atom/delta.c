/*
** delta.c: Delta(loc): all mass at loc,
**   log p(x) = 0 at x = loc, -inf elsewhere
** A mass, not a density; as a guide it makes a point estimate, whose gradient flows through rsample. Kullback-Leibler
** between two: 0 if the points are one, else inf.
*/
#include "../formula.h"

#define loc d->param[0]

static T *in_support(C *c, D *d, T *x) { return pn_eq(c, x, loc); }
static T *log_prob(C *c, D *d, T *x) { return times(c, pn_sub(c, x, loc), 0); }
static T *cdf(C *c, D *d, T *x) { return pn_cast(c, pn_ge(c, x, loc), (pn_dtype)d->dtype); }
static T *icdf(C *c, D *d, T *p) { return pn_add(c, loc, times(c, p, 0)); }
static T *mean(C *c, D *d) { return (void)c, loc; }
static T *variance(C *c, D *d) { return times(c, loc, 0); }
static T *rsample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return (void)rng, pni_dist_expand_to(c, loc, out->ndim, out->shape);
}

T *pni_kl_delta_delta(C *c, D *p, D *d) {
  return only(c, pn_eq(c, p->param[0], loc), times(c, pn_detach(c, loc), 0), INFINITY);
}

const pni_distribution pni_dist_delta = {
    .name = "delta",
    .doc = "all mass at loc: log p(x) = 0 at x = loc, -inf elsewhere",
    .source = "Dirac's measure; a point estimate as a distribution",
    .moments = "mean and mode loc, variance 0",
    .param = {{.name = "loc", .constraint = &pni_constraint_real, .axes = "", .optional = true, .absent = 0}},
    .support = &pni_constraint_point,
    .event = "",
    .flags = PNI_DIST_DISCRETE,
    .in_support = in_support,
    .log_prob = log_prob,
    .cdf = cdf,
    .icdf = icdf,
    .mean = mean,
    .variance = variance,
    .mode = mean,
    .entropy = variance,
    .rsample = rsample};
