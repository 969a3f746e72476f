/* update_f64.c: update kernels of float64. */
#define REAL     double
#define SQRT     sqrt
#define BITS     uint64_t
#define EXPONENT 0x7FF0000000000000u
#define NAME(f)  f##_f64
#include "update_real.h"
