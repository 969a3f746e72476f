/*
** multinomial_mode.c: the most probable counts of m trials. They are at least floor(m p_i), and what is left goes one
** by one to the class where p_i / (x_i + 1) is largest (Finucan, Biometrika 51, 1964).
*/
#include <math.h>
#include "multinomial_draw.h"

/* The class whose ratio is the largest for one more trial, or the smallest for one less. */
static int64_t next_class(int64_t n, const double *p, const double *x, bool more) {
  int64_t best = -1;
  for (int64_t i = 0; i < n; i++) {
    if (!more && x[i] < 1) continue;
    double a = more ? p[i] / (x[i] + 1) : -p[i] / x[i];
    double b = best < 0 ? -INFINITY : more ? p[best] / (x[best] + 1) : -p[best] / x[best];
    if (a > b) best = i;
  }
  return best;
}

static void find_mode(int64_t n, double m, const double *p, double *x) {
  double left = m, sum = 0; /* which is 1 but for rounding */
  for (int64_t i = 0; i < n; i++) sum += p[i];
  for (int64_t i = 0; i < n; i++) left -= x[i] = floor(m / sum * p[i]);
  for (int64_t k = 0; left != 0 && k <= 2 * n; k++) {
    double step = left > 0 ? 1 : -1;
    int64_t i = next_class(n, p, x, left > 0);
    if (i < 0) return;
    x[i] += step, left -= step;
  }
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  pni_spec s = pni_spec_of(out);
  s.dtype = PN_FLOAT64;
  pn_tensor *m = pni_tensor_new(c, &s), *p = pni_tensor_new(c, &s), *x = pni_tensor_new(c, &s);
  if (m && p && x && pni_copy(c, m, call->in[0]) == PN_OK && pni_copy(c, p, call->in[1]) == PN_OK) {
    int64_t n = out->shape[out->ndim - 1];
    for (int64_t i = 0; i < out->numel; i += n)
      find_mode(n, ((const double *)pni_data(m))[i], (const double *)pni_data(p) + i, (double *)pni_data(x) + i);
    pni_copy(c, out, x);
  }
  pn_tensor_unref(m);
  pn_tensor_unref(p);
  pn_tensor_unref(x);
  return c->status;
}

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  if (pni_broadcast(c, "mode", call->in[0], call->in[1], out)) return c->status;
  out->dtype = call->in[0]->dtype;
  return out->ndim ? PN_OK : pni_fail(c, PN_SHAPE, "mode: probabilities must have an axis of classes, got 0-d");
}

static const pni_op multinomial_mode = {
    .name = "multinomial_mode", .flags = PNI_OP_NODIFF | PNI_OP_HIDDEN, .infer = infer, .eval = eval};

pn_tensor *pni_multinomial_mode(pn_context *c, pn_tensor *total, pn_tensor *probs) {
  return pni_apply2(c, &multinomial_mode, total, probs, NULL);
}
