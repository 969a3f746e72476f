/*
** optimiser_adam.c: Adam, algorithm 1 of Kingma & Ba (ICLR 2015), with both bias corrections;
** weight_decay is the decoupled one of Loshchilov & Hutter (ICLR 2019), AdamW.
**   m = b1 m + (1 - b1) g        v = b2 v + (1 - b2) g^2
**   p = p (1 - lr wd) - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
*/
#include <math.h>
#include "update.h"

enum { LR, BETA1, BETA2, EPS, WEIGHT_DECAY };

static void scalars(const double *option, int64_t step, double *k) {
  double t = (double)step;
  k[0] = option[LR] / (1 - pow(option[BETA1], t));
  k[1] = option[BETA1];
  k[2] = option[BETA2];
  k[3] = 1 / sqrt(1 - pow(option[BETA2], t));
  k[4] = option[EPS];
  k[5] = option[LR] * option[WEIGHT_DECAY];
}

#define BELOW_ONE (1 - 1e-12)

static const pni_option adam_options[] = {
    {"lr", NULL, 0.001, 0, HUGE_VAL, false, "learning rate"},
    {"beta1", NULL, 0.9, 0, BELOW_ONE, false, "decay of the mean of the gradients"},
    {"beta2", NULL, 0.999, 0, BELOW_ONE, false, "decay of the mean of their squares"},
    {"eps", NULL, 1e-8, 0, HUGE_VAL, true, "added to the root of the second moment"},
    {"weight_decay", NULL, 0, 0, HUGE_VAL, false, "decoupled decay (AdamW): p = p - lr weight_decay p"},
    PNI_CLIPPING,
    {0}};

static const pni_option adamw_options[] = {
    {"lr", NULL, 0.001, 0, HUGE_VAL, false, "learning rate"},
    {"beta1", NULL, 0.9, 0, BELOW_ONE, false, "decay of the mean of the gradients"},
    {"beta2", NULL, 0.999, 0, BELOW_ONE, false, "decay of the mean of their squares"},
    {"eps", NULL, 1e-8, 0, HUGE_VAL, true, "added to the root of the second moment"},
    {"weight_decay", NULL, 0.01, 0, HUGE_VAL, false, "decoupled decay: p = p - lr weight_decay p"},
    PNI_CLIPPING,
    {0}};

/* The largest v so far in the place of v: v_max = max(v_max, v). Reddi, Kale & Kumar (ICLR 2018). */
const pni_optimiser pni_optimiser_amsgrad = {.name = "amsgrad",
                                             .doc = "Adam whose second moment never falls; weight_decay is decoupled",
                                             .source = "Reddi, Kale & Kumar 2018",
                                             .options = adam_options,
                                             .slot = {"m", "v", "v_max"},
                                             .squares = 1 << 1 | 1 << 2,
                                             .scalars = scalars,
                                             .update = {pni_update_amsgrad_f64, pni_update_amsgrad_f32}};

const pni_optimiser pni_optimiser_adam = {.name = "adam",
                                          .doc = "Adam with both bias corrections; weight_decay makes it AdamW",
                                          .source = "Kingma & Ba 2015; Loshchilov & Hutter 2019",
                                          .options = adam_options,
                                          .slot = {"m", "v"},
                                          .squares = 1 << 1,
                                          .scalars = scalars,
                                          .update = {pni_update_adam_f64, pni_update_adam_f32}};

const pni_optimiser pni_optimiser_adamw = {.name = "adamw",
                                           .doc = "Adam with decoupled weight decay, which is on",
                                           .source = "Loshchilov & Hutter 2019",
                                           .options = adamw_options,
                                           .slot = {"m", "v"},
                                           .squares = 1 << 1,
                                           .scalars = scalars,
                                           .update = {pni_update_adam_f64, pni_update_adam_f32}};
