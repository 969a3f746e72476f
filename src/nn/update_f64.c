/* update_f64.c: update kernels of float64. */
#define REAL    double
#define SQRT    sqrt
#define NAME(f) f##_f64
#include "update_real.h"
