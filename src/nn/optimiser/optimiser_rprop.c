/*
** optimiser_rprop.c: Rprop, Riedmiller & Braun (ICNN 1993), in the form of Igel & Huesken (2003) without stepping back
** (iRprop-), as PyTorch's: steps by the sign of the gradient alone, for losses over all data at once.
**   size = size * (grow where g keeps its sign, shrink where it turns), within [least, most]
**   p = p - sign(g) size, but where g turns p rests and g counts as 0 in the next comparison
*/
#include <math.h>
#include "update.h"

enum { LR, SHRINK, GROW, LEAST, LARGEST };

static void scalars(const double *option, int64_t step, double *k) {
  k[0] = option[LR];
  k[1] = step == 1;
  k[2] = option[SHRINK];
  k[3] = option[GROW];
  k[4] = option[LEAST];
  k[5] = option[LARGEST];
}

static const pni_option options[] = {
    {"lr", NULL, 0.01, 0, HUGE_VAL, false, "size of the first step; later ones do not look at it"},
    {"shrink", NULL, 0.5, 0, 1, true, "factor of the size where the gradient turns"},
    {"grow", NULL, 1.2, 1, HUGE_VAL, false, "factor of the size where it keeps its sign"},
    {"least", NULL, 1e-6, 0, HUGE_VAL, false, "smallest size"},
    {"most", NULL, 50, 0, HUGE_VAL, true, "largest size"},
    PNI_CLIPPING,
    {0}};

const pni_optimiser pni_optimiser_rprop = {.name = "rprop",
                                           .doc = "steps by the gradient's sign, of sizes that adapt; for whole data",
                                           .source = "Riedmiller & Braun 1993; Igel & Huesken 2003",
                                           .options = options,
                                           .slot = {"previous", "size"},
                                           .squares = 1 << 1,
                                           .scalars = scalars,
                                           .update = {pni_update_rprop_f64, pni_update_rprop_f32}};
