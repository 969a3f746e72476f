/*
** optimiser_muon.c: Muon, Jordan et al. (2024): steps in a matrix are its momentum made nearly orthogonal by a few
** iterations of Newton and Schulz in a quintic polynomial; all other parameters are AdamW's.
**   m = mu m + (1 - mu) g        d = m, with nesterov mu m + (1 - mu) g        x = d / |d|
**   x = a x + (b A + c A^2) x with A = x x', (a, b, c) = (3.4445, -4.775, 2.0315), `ns_steps` times: the singular
**   values go to about 0.7 .. 1.2
**   p = p (1 - lr wd) - lr s x, s = 0.2 sqrt(max(rows, columns)) (Liu et al. 2025, the size of AdamW's steps, so that
**   both share a rate), or sqrt(max(1, rows / columns)) (Jordan's, for weights [out, in])
** The work is done in the parameter's own dtype.
*/
#include <math.h>
#include "../../autodiff/op/op.h"
#include "update.h"

enum { LR, MOMENTUM, NESTEROV, WEIGHT_DECAY, NS_STEPS, ADJUST, MATRICES, ADAMW_SCALE, BETA1, BETA2, EPS };
enum { MATCH_RMS, ORIGINAL };

static void scalars(const double *option, int64_t step, double *k) {
  double t = (double)step, lr = option[LR] * option[ADAMW_SCALE];
  k[0] = lr / (1 - pow(option[BETA1], t));
  k[1] = option[BETA1];
  k[2] = option[BETA2];
  k[3] = 1 / sqrt(1 - pow(option[BETA2], t));
  k[4] = option[EPS];
  k[5] = lr * option[WEIGHT_DECAY];
  k[6] = option[LR];
  k[7] = option[MOMENTUM];
  k[8] = option[LR] * option[WEIGHT_DECAY];
}

/* a x + b y */
static pn_tensor *mixed(pn_context *c, double a, pn_tensor *x, double b, pn_tensor *y) {
  if (!x || !y) return NULL;
  return pn_add(c, pn_mul(c, x, pni_like(c, x, a)), pn_mul(c, y, pni_like(c, y, b)));
}

/* x [r, n] with r <= n, whose singular values go to about 1. */
static pn_tensor *orthogonal(pn_context *c, pn_tensor *x, int iterations) {
  pn_tensor *norm = pn_sqrt(c, pn_sum(c, pn_square(c, x), PN_ALL, 0));
  x = pn_div(c, x, pn_clamp(c, norm, 1e-7, HUGE_VAL));
  for (int k = 0; k < iterations; k++) {
    pn_tensor *a = pn_matmul(c, x, pn_transpose(c, x, 0, 1));
    x = mixed(c, 3.4445, x, 1, pn_matmul(c, mixed(c, -4.775, a, 2.0315, pn_matmul(c, a, a)), x));
  }
  return x;
}

static pn_tensor *direction(pn_context *c, const pn_optim *o, int i, const double *option, const pni_update *how,
                            pn_tensor *grad) {
  const pn_tensor *p = o->param[i];
  if (p->ndim != 2 || p->numel == 0 || option[MATRICES] == 0) return NULL;
  size_t mark = pn_scope_open(c);
  double mu = option[MOMENTUM], rows = (double)p->shape[0], columns = (double)p->shape[1];
  bool tall = p->shape[0] > p->shape[1];
  pn_tensor *g = grad;
  if (how->scale < 1) g = pn_mul(c, g, pni_like(c, g, how->scale));
  if (how->limit < HUGE_VAL) g = pn_clamp(c, g, -how->limit, how->limit);
  pn_tensor *d = mixed(c, mu, o->slot[i * o->nslots], 1 - mu, g);
  if (option[NESTEROV] != 0) d = mixed(c, mu, d, 1 - mu, g);
  if (tall) d = pn_transpose(c, d, 0, 1);
  d = orthogonal(c, d, (int)option[NS_STEPS]);
  if (tall) d = pn_transpose(c, d, 0, 1);
  double size =
      option[ADJUST] == MATCH_RMS ? 0.2 * sqrt(fmax(rows, columns)) : sqrt(rows > columns ? rows / columns : 1);
  d = d ? pn_mul(c, d, pni_like(c, d, size)) : NULL;
  d = d ? pni_contiguous(c, d) : NULL;
  pn_scope_close(c, mark);
  return d;
}

#define BELOW_ONE (1 - 1e-12)

static const pni_option options[] = {
    {"lr", NULL, 0.001, 0, HUGE_VAL, false, "learning rate"},
    {"momentum", NULL, 0.95, 0, BELOW_ONE, false, "decay of the mean of the gradients of matrices"},
    {"nesterov", "false true", 1, 0, 1, false, "look a step ahead"},
    {"weight_decay", NULL, 0.1, 0, HUGE_VAL, false, "decoupled decay: p = p - lr weight_decay p"},
    {"ns_steps", NULL, 5, 0, 100, PNI_OPTION_WHOLE, "iterations of Newton and Schulz"},
    {"adjust", "match_rms_adamw original", 0, 0, 0, false, "how steps depend on the sizes of a matrix"},
    {"matrices", "false true", 1, 0, 1, false, "false (0 in a group): these by AdamW, too, as embeddings and outputs"},
    {"adamw_scale", NULL, 1, 0, HUGE_VAL, false, "factor of lr for parameters that are no matrices"},
    {"beta1", NULL, 0.9, 0, BELOW_ONE, false, "of AdamW: decay of the mean of the gradients"},
    {"beta2", NULL, 0.999, 0, BELOW_ONE, false, "of AdamW: decay of the mean of their squares"},
    {"eps", NULL, 1e-8, 0, HUGE_VAL, true, "of AdamW: added to the root of the second moment"},
    PNI_CLIPPING,
    {0}};

const pni_optimiser pni_optimiser_muon = {.name = "muon",
                                          .doc =
                                              "matrices by steps that are nearly orthogonal, other parameters by AdamW",
                                          .source = "Jordan et al. 2024; Liu et al. 2025",
                                          .options = options,
                                          .slot = {"m", "v"},
                                          .squares = 1 << 1,
                                          .direction = direction,
                                          .scalars = scalars,
                                          .update = {pni_update_muon_f64, pni_update_muon_f32}};
