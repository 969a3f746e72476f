/*
** weigh_f64.c: new weights in double.
*/
#include <math.h>
#include "../../math/vector/vector.h"
#include "weigh.h"

#define REAL   double
#define VECTOR pni_vector_f64
#define KERNEL pni_weigh_f64
#include "weigh_real.h"
#undef REAL
#undef VECTOR
#undef KERNEL
