/* affine_f64.c: affine recursions of float64. */
#include "affine.h"

#define REAL       double
#define NAME(name) name##_f64
#include "affine_real.h"
