/*
** count_kernel.h: elementwise kernels of deviance and excess (special_count.c).
*/
#ifndef PN_DIST_DISCRETE_COUNT_KERNEL_H
#define PN_DIST_DISCRETE_COUNT_KERNEL_H

#include <stdint.h>

#define X(name)                                                                                                        \
  void pni_##name##_f64(void *, int64_t, char *const *, const int64_t *);                                              \
  void pni_##name##_f32(void *, int64_t, char *const *, const int64_t *);
X(deviance)
X(deviance_log)
X(excess)
#undef X

#endif
