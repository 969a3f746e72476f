/*
** optimiser_rmsprop.c: RMSprop of Hinton's lectures (Tieleman & Hinton 2012), with the options of PyTorch: the
** root is taken before eps is added, momentum acts on what it divides, weight_decay is added to the gradient.
*/
#include <math.h>
#include "update.h"

enum { LR, ALPHA, EPS, MOMENTUM, CENTRED, WEIGHT_DECAY };

static void scalars(const double *option, int64_t step, double *k) {
  (void)step;
  k[0] = option[LR];
  k[1] = option[ALPHA];
  k[2] = option[EPS];
  k[3] = option[MOMENTUM];
  k[4] = option[CENTRED];
  k[5] = option[WEIGHT_DECAY];
}

static const pni_option options[] = {
    {"lr", NULL, 0.01, 0, HUGE_VAL, false, "learning rate"},
    {"alpha", NULL, 0.99, 0, 1, false, "decay of the mean of the squared gradients"},
    {"eps", NULL, 1e-8, 0, HUGE_VAL, true, "added to its root"},
    {"momentum", NULL, 0, 0, 1, false, "share of the last step that is kept"},
    {"centred", "false true", 0, 0, 1, false, "the mean is taken out of the squares: a variance"},
    {"weight_decay", NULL, 0, 0, HUGE_VAL, false, "added to the gradient as weight_decay * parameter"},
    PNI_CLIPPING,
    {0}};

const pni_optimiser pni_optimiser_rmsprop = {.name = "rmsprop",
                                             .doc = "steps divided by the running root mean square of the gradient",
                                             .source = "Tieleman & Hinton 2012",
                                             .options = options,
                                             .slot = {"v", "mean", "momentum"},
                                             .squares = 1 << 0,
                                             .scalars = scalars,
                                             .update = {pni_update_rmsprop_f64, pni_update_rmsprop_f32}};
