/*
** weigh_f32.c: new weights in float.
*/
#include <math.h>
#include "../../math/vector/vector.h"
#include "weigh.h"

#define REAL   float
#define VECTOR pni_vector_f32
#define KERNEL pni_weigh_f32
#include "weigh_real.h"
#undef REAL
#undef VECTOR
#undef KERNEL
