/*
** estimator_wake_sleep.c: reweighted wake-sleep. Draws are constants. Awake, the model's parameters follow
** sum_k w~_k grad log p(x, z_k), as in iwae, and q's follow sum_k w~_k grad log q(z_k | x), which lowers KL(p || q);
** asleep, q's follow grad log q(z | x) for dreams (x, z) of the model.
*/
#include "estimator.h"

typedef pn_tensor T;
typedef pn_context C;

enum { LOG_P, LOG_Q, DREAM };
enum { WAKE_THETA, WAKE_PHI };

static T *build(C *c, pni_estimation *e) {
  T *w = pn_detach(c, pn_sub(c, e->in[LOG_P], e->in[LOG_Q])), *bound = w ? pni_log_mean_weight(c, w) : NULL;
  if (!bound || pni_require_weights(c, e->row->name, "log_p - log_q", bound, w)) return NULL;
  T *share = pn_mul(c, pni_normalised_weights(c, w), pni_like(c, w, 1 / (double)w->shape[1])), *sum = NULL;
  for (int k = WAKE_THETA; k <= WAKE_PHI; k++) {
    if (e->option[k] == 0) continue;
    T *part = pn_sum(c, pn_mul(c, share, e->in[k == WAKE_THETA ? LOG_P : LOG_Q]), PN_ALL, 0);
    sum = sum ? pn_add(c, sum, part) : part;
  }
  if (e->in[DREAM]) {
    T *dream = pni_live_mean(c, e->in[DREAM]);
    if (!dream || pni_require_weights(c, e->row->name, "sleep_log_q", dream, e->in[DREAM])) return NULL;
    sum = sum ? pn_add(c, sum, dream) : dream;
  }
  T *value = pn_mean(c, bound, PN_ALL, 0);
  return sum ? pni_reported(c, value, sum) : value;
}

static const pni_option options[] = {
    {"wake_theta", "false true", 1, 0, 1, false, "the gradient by the model's parameters, through log_p"},
    {"wake_phi", "false true", 1, 0, 1, false, "the gradient by q's parameters, through log_q, on data"},
    {0}};

const pni_estimator pni_estimator_reweighted_wake_sleep = {
    .name = "reweighted_wake_sleep",
    .doc =
        "iwae's value with the gradients of reweighted wake-sleep: sum_k w~_k (log_p + log_q) awake, plus the mean of "
        "sleep_log_q; means over the minibatch",
    .source = "Bornschein & Bengio 2015; Le, Kosiorek, Siddharth, Teh & Wood 2019",
    .result = "a lower bound, to be maximised",
    .input = {{"log_p", "KB", 0, "log p(x, z)"},
              {"log_q", "KB", 0, "log q(z | x), z by q:sample"},
              {"sleep_log_q", "", PNI_INPUT_OPTIONAL, "log q(z | x) of dreams (x, z) drawn from the model"}},
    .options = options,
    .objective = {.gradient = "score", .nonlinear = true},
    .build = build};
