/*
** optimiser_adadelta.c: Adadelta, Zeiler (2012): steps in the parameter's own unit, the ratio of the root mean squares
** of earlier steps and of gradients.
**   v = a v + (1 - a) g^2        e = sqrt(delta + eps) / sqrt(v + eps) g        delta = a delta + (1 - a) e^2
**   p = p - lr e
*/
#include <math.h>
#include "update.h"

enum { LR, ALPHA, EPS, WEIGHT_DECAY };

static void scalars(const double *option, int64_t step, double *k) {
  (void)step;
  k[0] = option[LR];
  k[1] = option[ALPHA];
  k[2] = option[EPS];
  k[3] = option[WEIGHT_DECAY];
}

static const pni_option options[] = {
    {"lr", NULL, 1, 0, HUGE_VAL, false, "factor of the step"},
    {"alpha", NULL, 0.9, 0, 1 - 1e-12, false, "decay of the means of squared gradients and steps"},
    {"eps", NULL, 1e-6, 0, HUGE_VAL, true, "added to both means of squares"},
    {"weight_decay", NULL, 0, 0, HUGE_VAL, false, "added to the gradient as weight_decay * parameter"},
    PNI_CLIPPING,
    {0}};

const pni_optimiser pni_optimiser_adadelta = {.name = "adadelta",
                                              .doc = "steps scaled by root mean squares of earlier steps and gradients",
                                              .source = "Zeiler 2012",
                                              .options = options,
                                              .slot = {"v", "delta"},
                                              .squares = 1 << 0 | 1 << 1,
                                              .scalars = scalars,
                                              .update = {pni_update_adadelta_f64, pni_update_adadelta_f32}};
