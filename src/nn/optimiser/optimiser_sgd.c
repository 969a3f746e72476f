/*
** optimiser_sgd.c: stochastic gradient descent with (Nesterov) momentum and L2 weight decay, in the form
** of Sutskever, Martens, Dahl & Hinton (ICML 2013) with the learning rate outside the momentum.
*/
#include <math.h>
#include "update.h"

enum { LR, MOMENTUM, NESTEROV, WEIGHT_DECAY };

static void scalars(const double *option, int64_t step, double *k) {
  (void)step;
  k[0] = option[LR];
  k[1] = option[MOMENTUM];
  k[2] = option[WEIGHT_DECAY];
  k[3] = option[NESTEROV];
}

static const pni_option options[] = {
    {"lr", NULL, 0.01, 0, HUGE_VAL, false, "learning rate"},
    {"momentum", NULL, 0, 0, 1, false, "share of the last step that is kept"},
    {"nesterov", "false true", 0, 0, 1, false, "look ahead along the momentum"},
    {"weight_decay", NULL, 0, 0, HUGE_VAL, false, "added to the gradient as weight_decay * parameter"},
    PNI_CLIPPING,
    {0}};

const pni_optimiser pni_optimiser_sgd = {.name = "sgd",
                                         .doc = "stochastic gradient descent: b = momentum b + g, p = p - lr b",
                                         .source = "Sutskever et al. 2013",
                                         .options = options,
                                         .slot = {"momentum"},
                                         .scalars = scalars,
                                         .update = {pni_update_sgd_f64, pni_update_sgd_f32}};
