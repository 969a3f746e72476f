/*
** optimiser_adagrad.c: Adagrad, Duchi, Hazan & Singer (JMLR 2011): steps shrink with the sum of squared gradients.
**   s = s + g^2        p = p - lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps)
*/
#include <math.h>
#include "update.h"

enum { LR, LR_DECAY, EPS, WEIGHT_DECAY };

static void scalars(const double *option, int64_t step, double *k) {
  k[0] = option[LR] / (1 + (double)(step - 1) * option[LR_DECAY]);
  k[1] = option[EPS];
  k[2] = option[WEIGHT_DECAY];
}

static const pni_option options[] = {
    {"lr", NULL, 0.01, 0, HUGE_VAL, false, "learning rate"},
    {"lr_decay", NULL, 0, 0, HUGE_VAL, false, "the rate falls as 1 / (1 + (t - 1) lr_decay)"},
    {"eps", NULL, 1e-10, 0, HUGE_VAL, true, "added to the root of the sum of squares"},
    {"weight_decay", NULL, 0, 0, HUGE_VAL, false, "added to the gradient as weight_decay * parameter"},
    PNI_CLIPPING,
    {0}};

const pni_optimiser pni_optimiser_adagrad = {.name = "adagrad",
                                             .doc = "steps divided by the root of the sum of squared gradients",
                                             .source = "Duchi, Hazan & Singer 2011",
                                             .options = options,
                                             .slot = {"sum"},
                                             .squares = 1 << 0,
                                             .scalars = scalars,
                                             .update = {pni_update_adagrad_f64, pni_update_adagrad_f32}};
