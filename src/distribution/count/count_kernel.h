/*
** count_kernel.h: elementwise kernels of deviance and excess (special_count.c) and of a mass made of them, and the search of many laws at once.
*/
#ifndef PN_DISTRIBUTION_COUNT_COUNT_KERNEL_H
#define PN_DISTRIBUTION_COUNT_COUNT_KERNEL_H

#include <stdint.h>

#define X(name)                                                                                                        \
  void pni_##name##_f64(void *, int64_t, char *const *, const int64_t *);                                              \
  void pni_##name##_f32(void *, int64_t, char *const *, const int64_t *);
X(deviance)
X(deviance_log)
X(excess)
X(negative_binomial)
X(binomial)
X(poisson)
#undef X

/* k[i]: what the search of rng_sample.c finds for u[i] with start[i], slope[i], drop[i]; -1: nothing. n <= 128. */
void pni_count_search(int64_t n, const double *start, const double *slope, const double *drop, const double *u,
                      double *k);

#endif
