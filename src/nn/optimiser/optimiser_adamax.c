/*
** optimiser_adamax.c: Adamax, section 7 of Kingma & Ba (ICLR 2015): Adam whose divisor is the largest gradient, which
** is forgotten. eps stands in the maximum, as PyTorch has it.
**   m = b1 m + (1 - b1) g        u = max(b2 u, |g| + eps)        p = p - lr / (1 - b1^t) m / u
*/
#include <math.h>
#include "update.h"

enum { LR, BETA1, BETA2, EPS, WEIGHT_DECAY };

static void scalars(const double *option, int64_t step, double *k) {
  k[0] = option[LR] / (1 - pow(option[BETA1], (double)step));
  k[1] = option[BETA1];
  k[2] = option[BETA2];
  k[3] = option[EPS];
  k[4] = option[WEIGHT_DECAY];
}

#define BELOW_ONE (1 - 1e-12)

static const pni_option options[] = {
    {"lr", NULL, 0.002, 0, HUGE_VAL, false, "learning rate"},
    {"beta1", NULL, 0.9, 0, BELOW_ONE, false, "decay of the mean of the gradients"},
    {"beta2", NULL, 0.999, 0, BELOW_ONE, false, "decay of the largest gradient"},
    {"eps", NULL, 1e-8, 0, HUGE_VAL, true, "added to the size of the gradient"},
    {"weight_decay", NULL, 0, 0, HUGE_VAL, false, "added to the gradient as weight_decay * parameter"},
    PNI_CLIPPING,
    {0}};

const pni_optimiser pni_optimiser_adamax = {.name = "adamax",
                                            .doc = "Adam divided by the largest gradient of late",
                                            .source = "Kingma & Ba 2015, section 7",
                                            .options = options,
                                            .slot = {"m", "largest"},
                                            .squares = 1 << 1,
                                            .scalars = scalars,
                                            .update = {pni_update_adamax_f64, pni_update_adamax_f32}};
