/*
** estimator_path.c: gradients that reach q's parameters through the draws z alone, where the part by log q's own
** parameters has expectation zero but not variance zero. log_p and log_q are plain densities of reparametrised z: their
** slopes by z are taken here, as constants c, and enter the surrogate as <c, z>. The parameters of q below log_q get
** nothing else, those of p what log_p gives them.
**
** A latent may be computed from another one (z2 from z1, in a hierarchy): the slope by z1 then leaves out what goes
** through z2, which <c2, z2> passes on to z1 by itself. Bauer & Mnih 2021 show that this is right for all of z at once.
*/
#include <math.h>
#include "../../autodiff/graph.h"
#include "estimator.h"

typedef pn_tensor T;
typedef pn_context C;

enum { LOG_P, LOG_Q, LATENTS };

/* Bit k: y is computed from z[k]. */
static uint32_t below(C *c, T *y, int n, T *const *z) {
  uint32_t found = 0;
  pni_nodes order = {0};
  if (!(y->flags & PNI_REQUIRES_GRAD)) return 0;
  if (pni_topological(c, y, &order) == PN_OK)
    for (int k = 0; k < n; k++) found |= (uint32_t)(z[k]->mark > 0) << k;
  pni_nodes_unmark(&order);
  pni_nodes_free(c, &order);
  return found;
}

static pn_status check_latents(C *c, const pni_estimation *e) {
  uint32_t all = (1u << e->nlist) - 1;
  for (int k = 1; k < e->nlist; k++)
    for (int i = 0; i < k; i++)
      if (e->list[i] == e->list[k])
        return pni_fail(c, PN_STATE, "%s: z must list each latent once, got latent %d again as %d", e->row->name, i + 1,
                        k + 1);
  if (below(c, e->in[LOG_Q], e->nlist, e->list) == all || pni_failed(c)) return c->status;
  return pni_fail(
      c, PN_STATE,
      "%s: log_q must be computed from z, by q:log_prob(z) (a density that came with the draw does not depend "
      "on it as a graph)",
      e->row->name);
}

/* sum of weight * y; the weight is a constant. */
static T *weighted(C *c, T *weight, T *y) { return pn_sum(c, pn_mul(c, pn_detach(c, weight), y), PN_ALL, 0); }

/* The latents by age, the youngest first: none is computed from one before it. */
static void by_age(const pni_estimation *e, int *order) {
  for (int k = 0; k < e->nlist; k++) {
    int at = k;
    for (; at > 0 && e->list[order[at - 1]]->id < e->list[k]->id; at--) order[at] = order[at - 1];
    order[at] = k;
  }
}

/* out[k], the slope of a sum by latent k whatever the way, becomes the slope with the other latents held: less what the
 * younger ones pass on. */
static pn_status hold_others(C *c, const pni_estimation *e, T **out) {
  int order[PNI_ESTIMATOR_LATENTS];
  T *passed = NULL;
  by_age(e, order);
  for (int i = 0; i < e->nlist && !pni_failed(c); i++) {
    T *z = e->list[order[i]], *part;
    if (passed && below(c, passed, 1, &z)) {
      if (pn_grad(c, passed, 1, &z, 0, &part)) return c->status;
      out[order[i]] = pn_sub(c, out[order[i]], part);
    }
    T *own = i + 1 < e->nlist ? pn_sum(c, pn_mul(c, pn_detach(c, out[order[i]]), z), PN_ALL, 0) : NULL;
    passed = passed && own ? pn_add(c, passed, own) : own;
  }
  return c->status;
}

/* Slopes of the weighted sum by the latents, each with the others held. */
static pn_status slopes(C *c, const pni_estimation *e, T *weight, T *y, T **out) {
  T *sum = weighted(c, weight, y);
  if (!sum || pn_grad(c, sum, e->nlist, e->list, 0, out)) return c->status;
  return e->nlist > 1 ? hold_others(c, e, out) : PN_OK;
}

/* weight [K, B] with axes for what z has beyond. */
static T *spread(C *c, T *weight, const T *z) {
  int64_t shape[PN_MAX_DIMS];
  for (int i = 0; i < z->ndim; i++) shape[i] = i < 2 ? z->shape[i] : 1;
  return pn_reshape(c, weight, z->ndim, shape);
}

/* Gradients: by p's parameters sum share * log_p's; by z, `factor` times the slope of sum share (log_p - log_q), with
 * factor NULL for 1. */
static T *surrogate(C *c, pni_estimation *e, T *share, T *factor) {
  T *by_p[PNI_ESTIMATOR_LATENTS], *by_q[PNI_ESTIMATOR_LATENTS], *log_p = e->in[LOG_P], *log_q = e->in[LOG_Q];
  bool p_has = log_p->flags & PNI_REQUIRES_GRAD;
  T *sum = weighted(c, share, log_p);
  bool latent = e->nlist > 0 && e->list[0]->flags & PNI_REQUIRES_GRAD;
  if (!latent) return sum;
  if (check_latents(c, e) || slopes(c, e, share, log_q, by_q)) return NULL;
  if (factor && p_has && slopes(c, e, share, log_p, by_p)) return NULL;
  for (int k = 0; k < e->nlist; k++) {
    T *z = e->list[k], *slope = pn_neg(c, by_q[k]);
    if (factor) slope = pn_mul(c, spread(c, factor, z), p_has ? pn_sub(c, by_p[k], by_q[k]) : slope);
    if (factor && p_has) slope = pn_sub(c, slope, by_p[k]); /* log_p's own is in the sum */
    sum = pn_add(c, sum, pn_sum(c, pn_mul(c, pn_detach(c, slope), z), PN_ALL, 0));
  }
  return sum;
}

static T *log_weights(C *c, const pni_estimation *e) { return pn_detach(c, pn_sub(c, e->in[LOG_P], e->in[LOG_Q])); }

static bool wants_gradient(const C *c, const pni_estimation *e) {
  return !c->no_grad && (e->in[LOG_P]->flags | e->in[LOG_Q]->flags) & PNI_REQUIRES_GRAD;
}

/* ---- rows ---- */

static T *build_sticking(C *c, pni_estimation *e) {
  T *w = log_weights(c, e), *value = w ? pni_live_mean(c, w) : NULL;
  if (!value || pni_require_weights(c, e->row->name, "log_p - log_q", value, w)) return NULL;
  if (!wants_gradient(c, e)) return value;
  T *live = pn_cast(c, pn_isfinite(c, w), (pn_dtype)w->dtype);
  return pni_reported(c, value, surrogate(c, e, pn_mul(c, live, pni_like(c, w, 1 / (double)w->numel)), NULL));
}

static T *build_dreg(C *c, pni_estimation *e) {
  T *w = log_weights(c, e), *bound = w ? pni_log_mean_weight(c, w) : NULL;
  if (!bound || pni_require_weights(c, e->row->name, "log_p - log_q", bound, w)) return NULL;
  T *value = pn_mean(c, bound, PN_ALL, 0);
  if (!value || !wants_gradient(c, e)) return value;
  T *share = pni_normalised_weights(c, w);
  T *each = pn_mul(c, share, pni_like(c, w, 1 / (double)w->shape[1]));
  return pni_reported(c, value, surrogate(c, e, each, share));
}

#define INPUTS                                                                                                         \
  {                                                                                                                    \
    {"log_p", "KB", 0, "log p(x, z)"}, {"log_q", "KB", 0, "log q(z | x), by q:log_prob(z)"}, {                         \
      "z", "KB...", PNI_INPUT_LIST, "the reparametrised draws, one tensor or a list"                                   \
    }                                                                                                                  \
  }

const pni_estimator pni_estimator_sticking_the_landing = {
    .name = "sticking_the_landing",
    .doc =
        "elbo(log_p, log_q) whose gradient reaches q through the draws z alone: no variance where q is the posterior",
    .source = "Roeder, Wu & Duvenaud 2017",
    .result = "a lower bound, to be maximised",
    .input = INPUTS,
    .objective = {.gradient = "path"},
    .build = build_sticking};

const pni_estimator pni_estimator_dreg = {.name = "dreg",
                                          .doc = "iwae with the doubly reparametrised gradient: q's by the squares of "
                                                 "the normalised weights through the draws z "
                                                 "alone, so that its signal does not drown as K grows; p's is iwae's",
                                          .source = "Tucker, Lawson, Gu & Maddison 2019; Bauer & Mnih 2021",
                                          .result = "a lower bound, to be maximised",
                                          .input = INPUTS,
                                          .objective = {.gradient = "weighted_path", .nonlinear = true},
                                          .build = build_dreg};
