/*
** count_kernel.h: bodies (kernel/density_kernel.h) of deviance and excess (special_count.c) and of masses made of them,
** all in double, and the search of many laws at once.
*/
#ifndef PN_DISTRIBUTION_COUNT_COUNT_KERNEL_H
#define PN_DISTRIBUTION_COUNT_COUNT_KERNEL_H

#include "../kernel/density_kernel.h"

void pni_deviance_body(const pni_piece *p, void *out);
void pni_deviance_log_body(const pni_piece *p, void *out);
void pni_excess_body(const pni_piece *p, void *out);
void pni_negative_binomial_body(const pni_piece *p, void *out);
void pni_binomial_body(const pni_piece *p, void *out);
void pni_poisson_body(const pni_piece *p, void *out);

/* k[i]: what the search of rng_sample.c finds for u[i] with start[i], slope[i], drop[i]; -1: nothing. n <=
 * PNI_KERNEL_PIECE. */
void pni_count_search(int64_t n, const double *start, const double *slope, const double *drop, const double *u,
                      double *k);

#endif
