/* update.h: the update kernels, compiled once per type from update_real.c. */
#ifndef PN_NN_OPTIMISER_UPDATE_H
#define PN_NN_OPTIMISER_UPDATE_H

#include "optimiser.h"
#include "../../base/processor.h"

/* k: learning rate, momentum, weight decay, nesterov (0 or 1). slot: momentum. */
void pni_update_sgd_f64(const pni_update *u);
void pni_update_sgd_f32(const pni_update *u);
/* k: lr / (1 - beta1^t), beta1, beta2, 1 / sqrt(1 - beta2^t), eps, lr * weight decay. slots: m, v. */
void pni_update_adam_f64(const pni_update *u);
void pni_update_adam_f32(const pni_update *u);

/* k: those of adam. slots: m, v, v_max. */
void pni_update_amsgrad_f64(const pni_update *u);
void pni_update_amsgrad_f32(const pni_update *u);
/* k: learning rate, size of the noise, weight decay. */
void pni_update_sgld_f64(const pni_update *u);
void pni_update_sgld_f32(const pni_update *u);
/* k: those of sgld, alpha, eps. slot: v. */
void pni_update_psgld_f64(const pni_update *u);
void pni_update_psgld_f32(const pni_update *u);
/* k: those of sgld, 1 - friction. slot: velocity. */
void pni_update_sghmc_f64(const pni_update *u);
void pni_update_sghmc_f32(const pni_update *u);
/* k: those of adam, but k[0] = lr beta1 / (1 - beta1^(t + 1)), and k[6] = lr (1 - beta1) / (1 - beta1^t). */
void pni_update_nadam_f64(const pni_update *u);
void pni_update_nadam_f32(const pni_update *u);
/* k: learning rate, alpha, eps, momentum, centred (0 or 1), weight decay. slots: v, mean, momentum. */
void pni_update_rmsprop_f64(const pni_update *u);
void pni_update_rmsprop_f32(const pni_update *u);
/* k: learning rate, eps, weight decay. slot: sum. */
void pni_update_adagrad_f64(const pni_update *u);
void pni_update_adagrad_f32(const pni_update *u);
/* k: the rate (with the rectification, where there is one), beta1, beta2, is there one (0 or 1), eps, lr * weight
 * decay. slots: m, v. */
void pni_update_radam_f64(const pni_update *u);
void pni_update_radam_f32(const pni_update *u);
/* k: lr / (1 - beta1^t), beta1, beta2, eps, weight decay. slots: m, u. */
void pni_update_adamax_f64(const pni_update *u);
void pni_update_adamax_f32(const pni_update *u);
/* k: learning rate, alpha, eps, weight decay. slots: v, delta. */
void pni_update_adadelta_f64(const pni_update *u);
void pni_update_adadelta_f32(const pni_update *u);
/* k: the first step's size, is it the first (0 or 1), shrink, grow, smallest and largest size. slots: previous,
 * size. */
void pni_update_rprop_f64(const pni_update *u);
void pni_update_rprop_f32(const pni_update *u);
/* With a direction, k[6 ..]: learning rate, momentum, lr * weight decay; without one k is adam's. slots: m, v. */
void pni_update_muon_f64(const pni_update *u);
void pni_update_muon_f32(const pni_update *u);

/* The sum of the squares of n numbers: not finite if one of them is not (or if it overflows). */
double pni_sum_squares_f64(const void *data, int64_t n);
double pni_sum_squares_f32(const void *data, int64_t n);
/* Are all of them finite? */
bool pni_finite_f64(const void *data, int64_t n);
bool pni_finite_f32(const void *data, int64_t n);

#endif
