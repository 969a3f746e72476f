/*
** count_divergence.c: divergences of two different kinds of counts,
**   Bernoulli(p) against any q on counts: the two terms of the sum;
**   two negative binomials of equal r, however they are written, f = 1 - p the probability of a failure:
**     r log(f_p / f_q) + mean_p log(s_p / s_q), s = 1 - f
** Geometric is r = 1 with success and failure exchanged, gamma-Poisson r = concentration, f = rate / (1 + rate).
*/
#include "../formula.h"
#include "count_divergence.h"

/* ---- totals: the check as an operation without a result, so that a plan makes it anew ---- */

/* attr: the names of the kinds, which are static, whether p may be above q, and the name of the parameter */
static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  pni_spec joint;
  if (pni_broadcast(c, "kl", call->in[0], call->in[1], &joint)) return c->status;
  *out = (pni_spec){.dtype = PN_BOOL};
  return PN_OK;
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  *(uint8_t *)pni_data(out) = 1;
  pni_spec s;
  if (pni_broadcast(c, "kl", call->in[0], call->in[1], &s)) return c->status;
  s.dtype = PN_FLOAT64;
  pn_tensor *a = pni_tensor_new(c, &s), *b = pni_tensor_new(c, &s);
  if (a && b && pni_copy(c, a, call->in[0]) == PN_OK && pni_copy(c, b, call->in[1]) == PN_OK) {
    const double *p = pni_data(a), *q = pni_data(b);
    bool at_least = call->attr->i[2] != 0;
    int64_t i = 0;
    while (i < a->numel && (p[i] == q[i] || (at_least && p[i] > q[i]))) i++;
    const char *p_name = (const char *)(intptr_t)call->attr->i[0], *q_name = (const char *)(intptr_t)call->attr->i[1];
    if (i < a->numel)
      pni_fail(c, PN_MISSING,
               "kl: there is no closed form for %s and %s with %s %.7g and %.7g (kl_monte_carlo estimates it)", p_name,
               q_name, (const char *)(intptr_t)call->attr->i[3], p[i], q[i]);
  }
  pn_tensor_unref(a);
  pn_tensor_unref(b);
  return c->status;
}

static const pni_op require_totals = {
    .name = "require_totals", .flags = PNI_OP_NODIFF | PNI_OP_HIDDEN | PNI_OP_CHECK, .infer = infer, .eval = eval};

pn_status pni_require_totals(pn_context *c, const char *p_name, const char *q_name, pn_tensor *p, pn_tensor *q,
                             bool at_least) {
  return pni_require_alike(c, p_name, q_name, "total_count", p, q, at_least);
}

pn_status pni_require_alike(pn_context *c, const char *p_name, const char *q_name, const char *what, pn_tensor *p,
                            pn_tensor *q, bool at_least) {
  int64_t names[3] = {(int64_t)(intptr_t)p_name, (int64_t)(intptr_t)q_name, (int64_t)(intptr_t)what};
  pni_attr a = {.ni = 4, .i = {names[0], names[1], at_least, names[2]}};
  pni_apply2(c, &require_totals, p, q, &a);
  return c->status;
}

/* ---- Bernoulli against counts ---- */

/* w (log w' - log q(k)), 0 where w = 0 */
static T *term(C *c, D *q, T *w, T *log_w, double k) {
  T *none = equals(c, w, 0), *x = constant(c, q, k), *inside = NULL;
  if (q->kind->in_support) {
    int old = pn_set_no_grad(c, 1);
    inside = q->kind->in_support(c, q, x);
    pn_set_no_grad(c, old);
    x = only(c, inside, x, 0);
  }
  T *log_q = q->kind->log_prob(c, q, x);
  if (inside) log_q = only(c, inside, log_q, -INFINITY);
  return pn_mul(c, w, but(c, none, 0, pn_sub(c, log_w, log_q)));
}

/* log w of a probability w, 0 where w = 0 */
static T *log_of(C *c, T *w) { return pn_log(c, but(c, equals(c, w, 0), 1, w)); }

static T *bernoulli_kl(C *c, D *p, D *q) {
  enum { PROBS, LOGITS };
  T *l = p->param[LOGITS], *one = pni_dist_param(c, p, PROBS), *rest = from(c, 1, one);
  bool given = pni_dist_given(p, LOGITS);
  if (given) rest = pn_sigmoid(c, pn_neg(c, l));
  T *log_one = given ? pn_log_sigmoid(c, l) : log_of(c, one);
  T *log_rest = given ? pn_log_sigmoid(c, pn_neg(c, l)) : pn_log1p(c, pn_neg(c, but(c, equals(c, one, 1), 0, one)));
  return pn_add(c, term(c, q, one, log_one, 1), term(c, q, rest, log_rest, 0));
}

#define AGAINST(name)                                                                                                  \
  T *pni_kl_bernoulli_##name(C *c, D *p, D *q) { return bernoulli_kl(c, p, q); }
AGAINST(poisson)
AGAINST(binomial)
AGAINST(geometric)
AGAINST(negative_binomial)
AGAINST(gamma_poisson)
AGAINST(beta_binomial)
AGAINST(zero_inflated_poisson)

/* ---- negative binomials ---- */

typedef struct {
  T *r, *log_fail, *log_succeed;
} trials;

static trials read_trials(C *c, D *d) {
  enum { R, B, PROBS = 1, LOGITS };
  if (d->kind == &pni_dist_gamma_poisson) {
    T *b = d->param[B], *all = pn_log1p(c, b);
    return (trials){d->param[R], pn_sub(c, pn_log(c, b), all), pn_neg(c, all)};
  }
  bool geometric = d->kind == &pni_dist_geometric;
  int probs = geometric ? 0 : PROBS, logits = geometric ? 1 : LOGITS;
  T *p = d->param[probs], *l = d->param[logits];
  bool given = pni_dist_given(d, logits);
  T *yes = given ? pn_log_sigmoid(c, l) : pn_log(c, p);
  T *no = given ? pn_log_sigmoid(c, pn_neg(c, l)) : pn_log1p(c, pn_neg(c, p));
  if (geometric) return (trials){constant(c, d, 1), yes, no};
  return (trials){d->param[R], no, yes};
}

static T *negative_kl(C *c, D *p, D *q) {
  trials a = read_trials(c, p), b = read_trials(c, q);
  if (!a.log_fail || !b.log_fail || pni_require_totals(c, p->kind->name, q->kind->name, a.r, b.r, false)) return NULL;
  T *fail = pn_mul(c, a.r, pn_sub(c, a.log_fail, b.log_fail));
  return pn_add(c, fail, pn_mul(c, p->kind->mean(c, p), pn_sub(c, a.log_succeed, b.log_succeed)));
}

#define PAIR(p_, q_)                                                                                                   \
  T *pni_kl_##p_##_##q_(C *c, D *p, D *q) { return negative_kl(c, p, q); }
PAIR(negative_binomial, negative_binomial)
PAIR(negative_binomial, gamma_poisson)
PAIR(negative_binomial, geometric)
PAIR(gamma_poisson, negative_binomial)
PAIR(gamma_poisson, gamma_poisson)
PAIR(gamma_poisson, geometric)
PAIR(geometric, negative_binomial)
PAIR(geometric, gamma_poisson)
