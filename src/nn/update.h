/* update.h: the update kernels, compiled once per type from update_real.h. */
#ifndef PN_NN_UPDATE_H
#define PN_NN_UPDATE_H

#include "optimiser.h"

/* k: learning rate, momentum, weight decay, nesterov (0 or 1). slot: momentum. */
void pni_update_sgd_f64(const pni_update *u);
void pni_update_sgd_f32(const pni_update *u);
/* k: lr / (1 - beta1^t), beta1, beta2, 1 / sqrt(1 - beta2^t), eps, lr * weight decay. slots: m, v. */
void pni_update_adam_f64(const pni_update *u);
void pni_update_adam_f32(const pni_update *u);

/* The sum of the squares of n numbers: not finite if one of them is not (or if it overflows). */
double pni_sum_squares_f64(const void *data, int64_t n);
double pni_sum_squares_f32(const void *data, int64_t n);

#endif
