/* affine_recursion_f32.c: affine recursions of float32. */
#include "affine_recursion.h"

#define REAL       float
#define NAME(name) name##_f32
#include "affine_recursion_real.h"
