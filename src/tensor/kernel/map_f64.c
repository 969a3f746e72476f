/* map_f64.c: elementwise kernels of float64. */
#define REAL    double
#define F(f)    f
#define NAME(f) pni_##f##_f64
#include "map_real.h"
