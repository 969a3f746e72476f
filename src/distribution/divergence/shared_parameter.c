/*
** shared_parameter.c: divergences that are closed where the two laws share a parameter.
**   logistic, equal scales, D = (m_p - m_q) / s:                       KL = D coth(D / 2) - 2
**   relaxed_bernoulli, equal temperatures, D = l_p - l_q:              the same, logit(x) being logistic(l / t, 1 / t)
** A shared parameter is one tensor, or neither one has a gradient: the formula has no slope in one of two.
*/
#include "../count/count_divergence.h"
#include "../formula.h"

static pn_status require_shared(C *c, D *p, D *q, int k) {
  const char *name = p->kind->param[k].name;
  T *a = p->param[k], *b = q->param[k];
  if (a == b) return pni_failed(c) ? c->status : PN_OK;
  if (pn_tensor_requires_grad(a) || pn_tensor_requires_grad(b))
    return pni_fail(c, PN_MISSING,
                    "kl: there is no closed form for %s and %s with %s that have gradients and are not one tensor "
                    "(kl_monte_carlo estimates it)",
                    p->kind->name, q->kind->name, name);
  return pni_require_alike(c, p->kind->name, q->kind->name, name, a, b, false);
}

/* D coth(D / 2) - 2 = D (1 + e^-D) / (1 - e^-D) - 2, D > 0; D^2/6 - D^4/360 + D^6/15120 - D^8/604800 where it is
 * small */
static T *apart(C *c, T *distance) {
  T *near = below(c, pn_abs(c, distance), 0.1), *x = pn_square(c, only(c, near, distance, 0));
  T *series = plus(c, times(c, x, -1.0 / 604800), 1.0 / 15120);
  series = plus(c, pn_mul(c, series, x), -1.0 / 360);
  series = pn_mul(c, plus(c, pn_mul(c, series, x), 1.0 / 6), x);
  T *far = pn_abs(c, but(c, near, 1, distance)), *fall = pn_exp(c, pn_neg(c, far));
  T *ratio = pn_div(c, plus(c, fall, 1), pn_neg(c, pn_expm1(c, pn_neg(c, far))));
  return pn_where(c, near, series, plus(c, pn_mul(c, far, ratio), -2));
}

T *pni_kl_logistic_logistic(C *c, D *p, D *q) {
  enum { LOC, SCALE };
  if (require_shared(c, p, q, SCALE)) return NULL;
  return apart(c, pn_div(c, pn_sub(c, p->param[LOC], q->param[LOC]), q->param[SCALE]));
}

T *pni_kl_relaxed_bernoulli_relaxed_bernoulli(C *c, D *p, D *q) {
  enum { TEMPERATURE, PROBS, LOGITS };
  if (require_shared(c, p, q, TEMPERATURE)) return NULL;
  T *shift = pn_sub(c, pni_dist_param(c, p, LOGITS), pni_dist_param(c, q, LOGITS));
  return pn_add(c, apart(c, shift), times(c, pn_detach(c, q->param[TEMPERATURE]), 0));
}
