/*
** expectation.h: divergences of two kinds by expectations: -E_p[log q(x)] of an exponential-family q is a sum of a
** few expectations under p (of x, x^2, log x, 1/x ...), whatever p is. So a kind that offers expectations has a
** divergence to each kind that asks for no others,
**   KL(p || q) = -E_p[log q(x)] - entropy(p),
** and it is infinite where the support of p is not inside that of q. Numbers only; pairs that have a formula of their
** own stand in kl_pairs.def and come first.
*/
#ifndef PN_DISTRIBUTION_DIVERGENCE_EXPECTATION_H
#define PN_DISTRIBUTION_DIVERGENCE_EXPECTATION_H

#include "../distribution.h"

/* What q asks of p. */
enum {
  PNI_NEED_MEAN = 1,
  PNI_NEED_SQUARE = 2,         /* mean and variance */
  PNI_NEED_LOG = 4,            /* E[log x] */
  PNI_NEED_LOG_VARIANCE = 8,   /* Var[log x] */
  PNI_NEED_RECIPROCAL = 16,    /* E[1 / x] */
  PNI_NEED_LOG1M = 32,         /* E[log(1 - x)] */
  PNI_NEED_AWAY = 64,          /* E|x - m| */
  PNI_NEED_POWER = 128,        /* E[x^r], r > 0 */
  PNI_NEED_DECAY = 256,        /* E[e^(-(x - m) / s)], s > 0 */
  PNI_NEED_LOG_DISTANCE = 512, /* E[log(1 + ((x - a) / b)^2)], b > 0 */
  PNI_NEED_SOFTPLUS = 1024     /* E[log(1 + e^(-(x - m) / s))], s > 0 */
};

/* What a kind offers beside its mean, variance and entropy; NULL: not in closed form. */
typedef struct pni_expectation {
  const pni_distribution *kind;
  int infinite; /* which of PNI_NEED_... are infinite whatever the parameters are */
  pn_tensor *(*log)(pn_context *c, const pn_dist *d);
  pn_tensor *(*log_variance)(pn_context *c, const pn_dist *d);
  pn_tensor *(*reciprocal)(pn_context *c, const pn_dist *d);
  pn_tensor *(*log1m)(pn_context *c, const pn_dist *d);
  pn_tensor *(*away)(pn_context *c, const pn_dist *d, pn_tensor *m);
  /* E[x; x < t] for t inside the support: gives E|x - m| where `away` is NULL. */
  pn_tensor *(*partial_mean)(pn_context *c, const pn_dist *d, pn_tensor *t);
  pn_tensor *(*power)(pn_context *c, const pn_dist *d, pn_tensor *r);
  pn_tensor *(*decay)(pn_context *c, const pn_dist *d, pn_tensor *m, pn_tensor *s);
  pn_tensor *(*log_distance)(pn_context *c, const pn_dist *d, pn_tensor *a, pn_tensor *b);
  pn_tensor *(*softplus)(pn_context *c, const pn_dist *d, pn_tensor *m, pn_tensor *s);
  /* E[(x - m)^2] where it is not variance + (mean - m)^2. */
  pn_tensor *(*square_about)(pn_context *c, const pn_dist *d, pn_tensor *m);
} pni_expectation;

/* E[log(1 - x)] of a kumaraswamy distribution, by quadrature (kumaraswamy.c). */
pn_tensor *pni_kumaraswamy_log1m(pn_context *c, const pn_dist *d);

/* log_distance.c */
pn_tensor *pni_cauchy_log_distance(pn_context *c, const pn_dist *d, pn_tensor *a, pn_tensor *b);
pn_tensor *pni_logistic_log_distance(pn_context *c, const pn_dist *d, pn_tensor *a, pn_tensor *b);
pn_tensor *pni_uniform_log_distance(pn_context *c, const pn_dist *d, pn_tensor *a, pn_tensor *b);
pn_tensor *pni_uniform_softplus(pn_context *c, const pn_dist *d, pn_tensor *m, pn_tensor *s);

/* The row of a kind, or NULL. */
const pni_expectation *pni_expectation_find(const pni_distribution *kind);
/* Which of PNI_NEED_... it offers. */
int pni_expectation_offers(const pni_expectation *e);
/* E|x - m| and E[(x - m)^2]. */
pn_tensor *pni_expectation_away(pn_context *c, const pni_expectation *e, const pn_dist *d, pn_tensor *m);
pn_tensor *pni_expectation_square(pn_context *c, const pni_expectation *e, const pn_dist *d, pn_tensor *m);

#endif
