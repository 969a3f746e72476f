/*
** optimiser_radam.c: RAdam, Liu, Jiang, He, Chen, Liu, Gao & Han (ICLR 2020): Adam whose divisor is left out until the
** second moment has seen enough gradients, and rectified from then on. With r_inf = 2 / (1 - b2) - 1 and
** r = r_inf - 2 t b2^t / (1 - b2^t),
**   m, v as Adam's      r > 5: rate = lr sqrt((r - 4)(r - 2) r_inf / ((r_inf - 4)(r_inf - 2) r)) / (1 - b1^t)
**   p = p (1 - lr wd) - rate m sqrt(1 - b2^t) / (sqrt(v) + eps), else p (1 - lr wd) - lr m / (1 - b1^t)
*/
#include <math.h>
#include "update.h"

enum { LR, BETA1, BETA2, EPS, WEIGHT_DECAY };

static void scalars(const double *option, int64_t step, double *k) {
  double t = (double)step, b2 = option[BETA2], past = pow(b2, t), correction = 1 - past;
  double most = 2 / (1 - b2) - 1, length = most - 2 * t * past / correction;
  k[0] = option[LR] / (1 - pow(option[BETA1], t));
  k[1] = option[BETA1];
  k[2] = b2;
  k[3] = length > 5 ? 1 : 0;
  k[4] = option[EPS];
  k[5] = option[LR] * option[WEIGHT_DECAY];
  if (length > 5)
    k[0] *= sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)) * sqrt(correction);
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

const pni_optimiser pni_optimiser_radam = {.name = "radam",
                                           .doc = "Adam that is rectified while its second moment has seen few "
                                                  "gradients; weight_decay is decoupled",
                                           .source = "Liu et al. 2020",
                                           .options = options,
                                           .slot = {"m", "v"},
                                           .squares = 1 << 1,
                                           .scalars = scalars,
                                           .update = {pni_update_radam_f64, pni_update_radam_f32}};
