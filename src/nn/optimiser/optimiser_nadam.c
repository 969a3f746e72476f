/*
** optimiser_nadam.c: Adam with Nesterov's momentum, Dozat (ICLR workshop 2016) with a constant momentum, as in
** optax: the mean is corrected a step ahead.
**   m = b1 m + (1 - b1) g        v = b2 v + (1 - b2) g^2
**   p = p (1 - lr wd) - lr (b1 m / (1 - b1^(t + 1)) + (1 - b1) g / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
*/
#include <math.h>
#include "update.h"

enum { LR, BETA1, BETA2, EPS, WEIGHT_DECAY };

static void scalars(const double *option, int64_t step, double *k) {
  double t = (double)step, b1 = option[BETA1];
  k[0] = option[LR] * b1 / (1 - pow(b1, t + 1));
  k[1] = b1;
  k[2] = option[BETA2];
  k[3] = 1 / sqrt(1 - pow(option[BETA2], t));
  k[4] = option[EPS];
  k[5] = option[LR] * option[WEIGHT_DECAY];
  k[6] = option[LR] * (1 - b1) / (1 - pow(b1, t));
}

#define BELOW_ONE (1 - 1e-12)

static const pni_option options[] = {
    {"lr", NULL, 0.001, 0, HUGE_VAL, false, "learning rate"},
    {"beta1", NULL, 0.9, 0, BELOW_ONE, false, "decay of the mean of the gradients"},
    {"beta2", NULL, 0.999, 0, BELOW_ONE, false, "decay of the mean of their squares"},
    {"eps", NULL, 1e-8, 0, HUGE_VAL, true, "added to the root of the second moment"},
    {"weight_decay", NULL, 0, 0, HUGE_VAL, false, "decoupled decay: p = p - lr weight_decay p"},
    PNI_CLIPPING,
    {0}};

const pni_optimiser pni_optimiser_nadam = {.name = "nadam",
                                           .doc = "Adam with Nesterov's momentum, which looks a step ahead",
                                           .source = "Dozat 2016, constant momentum",
                                           .options = options,
                                           .slot = {"m", "v"},
                                           .squares = 1 << 1,
                                           .scalars = scalars,
                                           .update = {pni_update_nadam_f64, pni_update_nadam_f32}};
