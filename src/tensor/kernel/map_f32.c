/* map_f32.c: elementwise kernels of float32; special functions are computed in double and rounded. */
#define REAL    float
#define F(name) name##f
#define NAME(f) pni_##f##_f32
#include "map_real.h"
