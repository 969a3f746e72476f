/*
** estimator_score.c: gradients by the score of q, for draws that cannot be reparametrised. Draws are constants here
** (q:sample); log_q carries the gradient to q's parameters, weighted by a signal from which a baseline that does not
** depend on the draw is taken: E_q[b grad log q] = 0.
*/
#include <math.h>
#include "estimator.h"

typedef pn_tensor T;
typedef pn_context C;

enum { LOG_P, LOG_Q, BASELINE };

static T *log_weights(C *c, const pni_estimation *e) { return pn_detach(c, pn_sub(c, e->in[LOG_P], e->in[LOG_Q])); }

/* The gradient of the mean over data and draws of signal * log_q; where the signal is not finite there is none. */
static T *score(C *c, T *signal, T *log_q, double count) {
  T *s = pn_detach(c, pni_finite_or(c, signal, 0));
  return pn_mul(c, pn_sum(c, pn_mul(c, s, log_q), PN_ALL, 0), pni_like(c, log_q, 1 / count));
}

static pn_status need_draws(C *c, const pni_estimation *e, const char *what) {
  const T *w = e->in[LOG_P];
  if (w->ndim == 2 && w->shape[0] > 1) return PN_OK;
  char got[PNI_SHAPE_TEXT];
  return pni_fail(c, PN_SHAPE, "%s: %s needs K of at least 2 draws, [K, B], got shape %s", e->row->name, what,
                  pni_shape_text(w->ndim, w->shape, got));
}

/* Each draw less the mean of the others: (x - mean x) K / (K - 1). */
static T *less_others(C *c, T *x) {
  double k = (double)x->shape[0];
  return pn_mul(c, pn_sub(c, x, pn_mean(c, x, PNI_DRAWS, 1)), pni_like(c, x, k / (k - 1)));
}

static T *build_score(C *c, pni_estimation *e) {
  T *w = log_weights(c, e), *value = w ? pni_live_mean(c, w) : NULL, *base = e->in[BASELINE];
  bool others = e->option[0] != 0;
  if (!value || pni_require_weights(c, e->row->name, "log_p - log_q", value, w)) return NULL;
  if (others && need_draws(c, e, "leave_one_out")) return NULL;
  T *left = base ? pn_sub(c, w, base) : w, *signal = others ? less_others(c, left) : left;
  T *sum = pn_add(c, score(c, signal, e->in[LOG_Q], (double)w->numel), pni_live_mean(c, e->in[LOG_P]));
  if (sum && base && base->flags & PNI_REQUIRES_GRAD) { /* a network: it learns to predict the signal */
    T *miss = pn_square(c, pni_finite_or(c, left, 0));
    sum = pn_sub(c, sum, pn_mul(c, pn_mean(c, miss, PN_ALL, 0), pni_like(c, miss, 0.5)));
  }
  return pni_reported(c, value, sum);
}

static const pni_option controls[] = {
    {"leave_one_out", "false true", 0, 0, 1, false, "the mean of the other draws of a datum is its baseline (K >= 2)"},
    {0}};

const pni_estimator pni_estimator_score_function = {
    .name = "score_function",
    .doc = "elbo of draws without gradient, by (log w - baseline) grad log q; a baseline computed from parameters is "
           "trained to predict log w, by its squared error",
    .source = "Williams 1992; Mnih & Gregor 2014; Mnih & Rezende 2016; Kool, van Hoof & Welling 2019",
    .result = "a lower bound, to be maximised",
    .input = {{"log_p", "kB", 0, "log p(x, z)"},
              {"log_q", "kB", 0, "log q(z | x), z by q:sample"},
              {"baseline", "?", PNI_INPUT_OPTIONAL | PNI_INPUT_NUMBER,
               "of log w: a running mean (infer.running_baseline) or a network's [B] or [K, B]"}},
    .options = controls,
    .objective = {.gradient = "score"},
    .build = build_score};

/* ---- VIMCO: the bound less the one that the other draws give ---- */

static T *build_vimco(C *c, pni_estimation *e) {
  T *w = log_weights(c, e);
  if (!w || need_draws(c, e, "it")) return NULL;
  T *bound = pni_log_mean_weight(c, w), *value = pn_mean(c, bound, PN_ALL, 0);
  if (!value || pni_require_weights(c, e->row->name, "log_p - log_q", bound, w)) return NULL;
  T *signal = pn_sub(c, bound, pni_others_log_mean(c, w, e->option[0] == 0));
  T *share = pn_detach(c, pni_normalised_weights(c, w)), *batch = pni_like(c, w, 1 / (double)w->shape[1]);
  T *model = pn_sum(c, pn_mul(c, share, pn_sub(c, e->in[LOG_P], e->in[LOG_Q])), PN_ALL, 0);
  T *sum = pn_add(c, score(c, signal, e->in[LOG_Q], (double)w->shape[1]), pn_mul(c, model, batch));
  return pni_reported(c, value, sum);
}

static const pni_option means[] = {
    {"mean", "geometric arithmetic", 0, 0, 1, false, "of the other weights, which stands in for a draw's own"}, {0}};

const pni_estimator pni_estimator_vimco = {
    .name = "vimco",
    .doc =
        "iwae of draws without gradient: each draw's signal is the bound less the bound with that draw replaced by the "
        "mean of the others (K >= 2)",
    .source = "Mnih & Rezende 2016",
    .result = "a lower bound, to be maximised",
    .input = {{"log_p", "KB", 0, "log p(x, z)"}, {"log_q", "KB", 0, "log q(z | x), z by q:sample"}},
    .options = means,
    .objective = {.gradient = "score", .nonlinear = true, .least = 2},
    .build = build_vimco};
