/*
** optimiser_sgld.c: Langevin dynamics by stochastic gradients: steps that draw from exp(-loss / temperature), where the
** loss is minus the log of a posterior density up to a constant (that of all data: of a mean over n data, the
** temperature 1 / n gives the posterior).
**   sgld    p = p - lr g + sqrt(2 lr T) z,  z standard normal; Welling & Teh (ICML 2011), whose epsilon is 2 lr
**   psgld   v = a v + (1 - a) g^2,  G = 1 / (sqrt(v) + eps),  p = p - lr G g + sqrt(2 lr T G) z; Li, Chen, Carlson &
**           Carin (AAAI 2016), without the term of the derivatives of G, as there
**   sghmc   u = (1 - f) u - lr g + sqrt(2 f lr T) z,  p = p + u; Chen, Fox & Guestrin (ICML 2014), equation 15 with no
**           estimate of the gradient's noise
** Where the loss is quadratic with curvature h, the variance of p under sgld is T / (h (1 - lr h / 2)).
*/
#include <math.h>
#include "update.h"

enum { LR, TEMPERATURE, WEIGHT_DECAY, EXTRA, EPS };

static void sgld_scalars(const double *option, int64_t step, double *k) {
  (void)step;
  k[0] = option[LR];
  k[1] = sqrt(2 * option[LR] * option[TEMPERATURE]);
  k[2] = option[WEIGHT_DECAY];
}

static void psgld_scalars(const double *option, int64_t step, double *k) {
  sgld_scalars(option, step, k);
  k[3] = option[EXTRA];
  k[4] = option[EPS];
}

static void sghmc_scalars(const double *option, int64_t step, double *k) {
  sgld_scalars(option, step, k);
  k[1] = sqrt(2 * option[EXTRA] * option[LR] * option[TEMPERATURE]);
  k[3] = 1 - option[EXTRA];
}

#define COMMON                                                                                                         \
  {"temperature", NULL, 1, 0, HUGE_VAL, false, "draws follow exp(-loss / temperature); 0: descent"}, {                 \
    "weight_decay", NULL, 0, 0, HUGE_VAL, false, "added to the gradient as weight_decay * parameter: a normal prior"   \
  }

static const pni_option sgld_options[] = {
    {"lr", NULL, 0.001, 0, HUGE_VAL, false, "step size"}, COMMON, PNI_CLIPPING, {0}};

static const pni_option psgld_options[] = {
    {"lr", NULL, 0.001, 0, HUGE_VAL, false, "step size"},
    COMMON,
    {"alpha", NULL, 0.99, 0, 1 - 1e-12, false, "decay of the mean of the squared gradients"},
    {"eps", NULL, 1e-5, 0, HUGE_VAL, true, "added to the root of the mean square"},
    PNI_CLIPPING,
    {0}};

static const pni_option sghmc_options[] = {
    {"lr", NULL, 0.0001, 0, HUGE_VAL, false, "step size: the square of the leapfrog step"},
    COMMON,
    {"friction", NULL, 0.1, 0, 1, true, "share of the velocity lost at each step"},
    PNI_CLIPPING,
    {0}};

const pni_optimiser pni_optimiser_sgld = {.name = "sgld",
                                          .doc = "draws by Langevin dynamics with stochastic gradients",
                                          .source = "Welling & Teh 2011",
                                          .options = sgld_options,
                                          .noisy = true,
                                          .scalars = sgld_scalars,
                                          .update = {pni_update_sgld_f64, pni_update_sgld_f32}};

const pni_optimiser pni_optimiser_psgld = {.name = "psgld",
                                           .doc = "sgld preconditioned by the root of the mean squared gradient",
                                           .source = "Li, Chen, Carlson & Carin 2016",
                                           .options = psgld_options,
                                           .slot = {"v"},
                                           .squares = 1 << 0,
                                           .noisy = true,
                                           .scalars = psgld_scalars,
                                           .update = {pni_update_psgld_f64, pni_update_psgld_f32}};

const pni_optimiser pni_optimiser_sghmc = {.name = "sghmc",
                                           .doc =
                                               "draws by Hamiltonian dynamics with friction and stochastic gradients",
                                           .source = "Chen, Fox & Guestrin 2014",
                                           .options = sghmc_options,
                                           .slot = {"velocity"},
                                           .noisy = true,
                                           .scalars = sghmc_scalars,
                                           .update = {pni_update_sghmc_f64, pni_update_sghmc_f32}};
