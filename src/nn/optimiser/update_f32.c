/* update_f32.c: update kernels of float32. */
#define REAL     float
#define SQRT     sqrtf
#define BITS     uint32_t
#define EXPONENT 0x7F800000u
#define NAME(f)  f##_f32
#include "update_real.h"
