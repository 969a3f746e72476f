/* affine_recursion_f64.c: affine recursions of float64. */
#include "affine_recursion.h"

#define REAL       double
#define NAME(name) name##_f64
#include "affine_recursion_real.h"
